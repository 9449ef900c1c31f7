//! Identity of a board from its device tree and L4T's release file (`jetson-platform.md`, section
//! 9).

use std::io;
use std::path::Path;

use crate::files::Files;
use crate::search::Search;

/// Places of the device tree.
const DEVICE_TREES: [&str; 2] = ["/proc/device-tree", "/sys/firmware/devicetree/base"];

/// The model, the chip and the release of L4T that a board names. A text that the board lacks is
/// empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// Such as `NVIDIA Jetson Orin Nano Engineering Reference Developer Kit Super`.
    pub model: String,
    /// Such as `nvidia,p3767-0005`, the most specific first.
    pub compatible: Vec<String>,
    /// The chip, such as `tegra234`.
    pub soc: String,
    /// The release of L4T, such as `36.4.3`.
    pub l4t: String,
}

impl Identity {
    pub(crate) fn find<F: Files>(search: &mut Search<F>) -> Self {
        let mut property = |what, name: &str| {
            let mut refusal = None;
            for tree in DEVICE_TREES {
                match search.text(&search.path(tree).join(name)) {
                    Ok(text) => return text,
                    Err(why) => refusal = refusal.or(Some(why)),
                }
            }
            let why = refusal.map_or(io::ErrorKind::NotFound, |why| why.kind());
            search.miss(what, search.path(DEVICE_TREES[0]).join(name), why);
            String::new()
        };
        let model = property("model", "model");
        let compatible = property("chip", "compatible");
        let compatible: Vec<String> = texts(&compatible).map(str::to_owned).collect();
        let soc = compatible
            .iter()
            .find_map(|text| text.strip_prefix("nvidia,").filter(is_chip))
            .unwrap_or_default()
            .to_owned();
        let path = search.path("/etc/nv_tegra_release");
        let l4t = match search.text(&path).map(|text| release(&text)) {
            Ok(Some(l4t)) => l4t,
            Ok(None) => {
                search.miss("release of L4T", path, io::ErrorKind::InvalidData);
                String::new()
            }
            Err(why) => {
                search.miss("release of L4T", path, why.kind());
                String::new()
            }
        };
        Self {
            model: texts(&model).next().unwrap_or_default().to_owned(),
            compatible,
            soc,
            l4t,
        }
    }
}

/// The serial number of the module, read on demand: discovery, which a probe records, does not read it. `None` if the
/// device tree has none.
pub fn serial_number(files: &impl Files, root: &Path) -> Option<String> {
    let read = |tree: &str| {
        let mut buffer = [0; 64];
        let path = root
            .join(tree.trim_start_matches('/'))
            .join("serial-number");
        let text = files.read(&path, &mut buffer).ok()?;
        texts(text).next().map(str::to_owned)
    };
    DEVICE_TREES.into_iter().find_map(read)
}

/// The texts of a property; each ends with a NUL.
fn texts(property: &str) -> impl Iterator<Item = &str> {
    property
        .split('\0')
        .map(str::trim)
        .filter(|it| !it.is_empty())
}

fn is_chip(name: &&str) -> bool {
    let digits = name.strip_prefix("tegra");
    digits.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()))
}

/// `36.4.3` from `# R36 (release), REVISION: 4.3, …`.
fn release(text: &str) -> Option<String> {
    let line = text.lines().next()?.strip_prefix("# R")?;
    let (release, rest) = line.split_once(' ')?;
    let (_, rest) = rest.split_once("REVISION: ")?;
    let (revision, _) = rest.split_once(',')?;
    Some(format!("{release}.{revision}"))
}
