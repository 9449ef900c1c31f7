//! Settings of nvpmodel: the masks, which need a reboot and are only read, and the id of its mode
//! (`jetson-platform.md`, sections 3.1 and 4.1).

use std::fmt;
use std::path::PathBuf;

use crate::cpu::Cpus;
use crate::files::{Files, Knob};
use crate::gpu::Gpu;
use crate::presets::{Preset, presets};
use crate::search::Search;

const STATUS: &str = "/var/lib/nvpmodel/status";
const CONF: &str = "/etc/nvpmodel.conf";

/// Where JetPack 7 keeps the mask of Thor's GPU, as `gpu_pg_mask_param=512`, which the driver takes at the next boot.
const STATIC_MASK: &str = "/opt/nvidia/l4t-gpusetup/gpu_pg_mask";

/// The mask of a fresh installation, which gates nothing that the GPU has.
const NO_MASK: u32 = u32::MAX;

/// Maximum length of the configuration in bytes. NVIDIA's have up to 20 KiB.
const LONGEST_CONF: usize = 256 * 1024;

/// The masks that gate parts of the GPU; `None` on boards without the file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Masks {
    /// A set bit gates a TPC.
    pub tpc: Option<i64>,
    /// A set bit gates an FBP.
    pub fbp: Option<i64>,
}

/// A part of the GPU that nvpmodel has gated off, until a reboot in another of its modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gated {
    /// The mask: a set bit gates a TPC.
    pub mask: u32,
    /// The id and the name of the first mode of nvpmodel that gates none.
    pub without: Option<(u32, String)>,
}

impl fmt::Display for Gated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tpcs = self.mask.count_ones();
        let mask = self.mask;
        match tpcs {
            1 => write!(f, "1 TPC of the GPU is off (mask {mask})")?,
            _ => write!(f, "{tpcs} TPCs of the GPU are off (mask {mask})")?,
        }
        match &self.without {
            Some((id, name)) => write!(
                f,
                "; `nvpmodel -m {id}` ({name}) and a reboot give them back: with more of them at a lower clock, a GPU \
                 does the same for less power"
            ),
            None => f.write_str("; no mode of nvpmodel gives them back"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Nvpmodel {
    tpc: Option<Knob>,
    fbp: Option<Knob>,
    /// The mask of gated TPCs; it needs a reboot to change.
    pub(crate) tpc_pg_mask: Option<u32>,
    status: PathBuf,
    /// The modes of its configuration; none if it cannot be read.
    pub(crate) presets: Vec<Preset>,
}

impl Nvpmodel {
    pub(crate) fn find<F: Files>(search: &mut Search<F>, cpus: &Cpus, gpu: Option<&Gpu>) -> Self {
        // Boards up to TX2 have no masks, so an absent mask is not reported as missing.
        let mask = |name: &str| {
            let knob = Knob(gpu?.device.join(name).into());
            knob.read(search.files).is_ok().then_some(knob)
        };
        let (tpc, fbp) = (mask("tpc_pg_mask"), mask("fbp_pg_mask"));
        let gated: Option<i64> = tpc.as_ref().and_then(|knob| knob.read(search.files).ok());
        let gated = gated.and_then(|mask| mask.try_into().ok());
        let gated = gated.or_else(|| static_mask(search));
        let status = search.path(STATUS);
        if let Err(why) = search.text(&status) {
            search.miss("status of nvpmodel", status.clone(), why.kind());
        }
        let conf = search.path(CONF);
        let mut buffer = vec![0; LONGEST_CONF];
        let conf = search.files.read(&conf, &mut buffer).unwrap_or_default();
        Self {
            tpc,
            fbp,
            tpc_pg_mask: gated,
            status,
            presets: presets(conf, |core| cpus.cluster(core)),
        }
    }

    pub(crate) fn masks(&self, files: &impl Files) -> Masks {
        let read = |knob: &Option<Knob>| knob.as_ref()?.read(files).ok();
        Masks {
            tpc: read(&self.tpc),
            fbp: read(&self.fbp),
        }
    }

    /// What is gated off; `None` if nothing is, or if the board does not tell.
    pub(crate) fn gated(&self) -> Option<Gated> {
        let mask = self.tpc_pg_mask.filter(|mask| *mask > 0)?;
        let without = self
            .presets
            .iter()
            .find(|preset| preset.tpc_pg_mask == Some(0));
        Some(Gated {
            mask,
            without: without.map(|preset| (preset.id, preset.name.clone())),
        })
    }

    pub(crate) fn mode(&self, files: &impl Files) -> Option<u32> {
        let mut buffer = [0; 128];
        let text = files.read(&self.status, &mut buffer).ok()?;
        let mut words = text.split_whitespace();
        words.find_map(|word| word.strip_prefix("pmode:")?.parse().ok())
    }
}

/// The mask of JetPack 7, if nvpmodel has set one.
fn static_mask<F: Files>(search: &mut Search<F>) -> Option<u32> {
    let path = search.path(STATIC_MASK);
    let text = search.text(&path).ok()?;
    let mut words = text.split_whitespace();
    let mask = words.find_map(|word| word.strip_prefix("gpu_pg_mask_param=")?.parse().ok());
    mask.filter(|mask| *mask != NO_MASK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gated_is_told_in_words() {
        let mut gated = Gated {
            mask: 240,
            without: Some((0, "MAXN".to_owned())),
        };
        let text = gated.to_string();
        assert!(
            text.starts_with(
                "4 TPCs of the GPU are off (mask 240); `nvpmodel -m 0` (MAXN) and a reboot"
            ),
            "{text}"
        );
        gated.mask = 1;
        assert!(
            gated
                .to_string()
                .starts_with("1 TPC of the GPU is off (mask 1)")
        );
    }
}
