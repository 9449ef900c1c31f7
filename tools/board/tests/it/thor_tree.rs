//! The files of `thor.txt`, a small tree in the shape of a Jetson Thor.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::Files;

pub const DEVFREQ: &str = "/sys/class/devfreq";
pub const EMC: &str = "/sys/kernel/debug/bpmp/debug/clk/emc";
pub const POWER: &str = "/sys/class/hwmon/hwmon2/power1_input";

/// Files that keep what is written.
pub struct Thor {
    /// The text of each file, or the kind of error of a read.
    pub texts: BTreeMap<String, Result<String, io::ErrorKind>>,
    /// All writes in order.
    pub writes: Vec<String>,
}

impl Thor {
    pub fn new() -> Self {
        let lines = include_str!("../thor.txt").lines();
        let files = lines.filter(|line| !line.starts_with('#')).map(|line| {
            let (path, text) = line.split_once(' ').expect("a path and a text");
            let text = text.replace("\\0", "\0").replace("\\n", "\n");
            (path.to_owned(), Ok(text + "\n"))
        });
        Self {
            texts: files.collect(),
            writes: Vec::new(),
        }
    }

    pub fn put(&mut self, path: &str, text: &str) {
        self.texts.insert(path.to_owned(), Ok(format!("{text}\n")));
    }

    /// Removes a file, or a directory with all its files.
    pub fn remove(&mut self, path: &str) {
        let before = self.texts.len();
        self.texts.retain(|it, _| !Path::new(it).starts_with(path));
        assert!(self.texts.len() < before, "{path}");
    }

    pub fn text(&self, path: &str) -> &str {
        let text = self.texts[path].as_deref().expect("a text");
        text.trim_end()
    }
}

/// Another file of the same directory.
pub fn file_of(path: &str, name: &str) -> String {
    let (directory, _) = path.rsplit_once('/').expect("a path");
    format!("{directory}/{name}")
}

impl Files for Thor {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let text = self.texts.get(path.to_str().expect("a path"));
        let text = text.ok_or(io::ErrorKind::NotFound)?.as_ref();
        let text = text.map_err(|kind| *kind)?;
        let Some(place) = buffer.get_mut(..text.len()) else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        place.copy_from_slice(text.as_bytes());
        std::str::from_utf8(place).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let path = path.to_str().expect("a path");
        assert!(self.texts.contains_key(path), "{path} does not exist");
        self.writes.push(format!("{path} {}", text.trim_end()));
        self.put(path, text.trim_end());
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let below = self.texts.keys().filter_map(|path| {
            let rest = Path::new(path).strip_prefix(directory).ok()?;
            Some(rest.iter().next()?.to_str()?.to_owned())
        });
        let names: BTreeSet<String> = below.collect();
        match names.is_empty() {
            true => Err(io::ErrorKind::NotFound.into()),
            false => Ok(names.into_iter().collect()),
        }
    }

    fn wait(&mut self, _: Duration) {}
}
