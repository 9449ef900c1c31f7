//! A probe in place of the board: its files in memory, with the recorded values.
//!
//! The power sensors replay their readings in a loop. Files that wattgate writes can be written and
//! then show what Linux would show (`writes`). All others keep the recorded value.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::Files;

use crate::format::{Content, Directory, Fault, File, Header, Link, Names, Probe, Sample};
use crate::sensors::INTERVAL;

/// Maximum number of links behind a path, as in Linux; more are a loop.
const MAX_LINKS: usize = 40;

/// Error numbers of Linux.
pub(crate) const ENOENT: Fault = Fault::Errno(2);
pub(crate) const EIO: Fault = Fault::Errno(5);
pub(crate) const EACCES: Fault = Fault::Errno(13);
pub(crate) const EBUSY: Fault = Fault::Errno(16);
pub(crate) const EINVAL: Fault = Fault::Errno(22);
const ELOOP: Fault = Fault::Errno(40);

/// A file as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Shown {
    pub content: Content,
    /// Whether somebody may write to it.
    pub is_writable: bool,
}

/// The files of a recorded board.
#[derive(Clone, Debug)]
pub struct Recorded {
    header: Header,
    pub(crate) files: BTreeMap<String, Shown>,
    directories: BTreeMap<String, Names>,
    links: BTreeMap<String, String>,
    /// The paths of the sensors, in the order of a sample.
    sensors: Vec<String>,
    samples: Vec<Sample>,
    now: Duration,
}

impl Recorded {
    /// The board at the time of the probe.
    pub fn new(probe: Probe) -> Self {
        let mut recorded = Self {
            header: probe.header,
            files: BTreeMap::new(),
            directories: BTreeMap::new(),
            links: BTreeMap::new(),
            sensors: Vec::new(),
            samples: probe.samples,
            now: Duration::ZERO,
        };
        for File {
            path,
            content,
            access,
            ..
        } in probe.files
        {
            let is_writable = access.is_some_and(|access| access.mode & 0o222 != 0);
            let shown = Shown {
                content,
                is_writable,
            };
            recorded.files.insert(path, shown);
        }
        for Directory { path, names } in probe.directories {
            recorded.directories.insert(path, names);
        }
        for Link { path, target } in probe.links {
            recorded.links.insert(path, target);
        }
        // Without readings the sensors keep the recorded values.
        if !recorded.samples.is_empty() {
            recorded.sensors = probe.sensors;
        }
        recorded
    }

    /// What wrote the probe, and on what.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }

    /// The paths of the power sensors' files.
    pub fn sensors(&self) -> impl Iterator<Item = &str> {
        self.sensors.iter().map(String::as_str)
    }

    /// The paths of all directories that could be listed.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        let directories = self.directories.iter();
        let listed = directories.filter(|(_, names)| matches!(names, Names::Listed(_)));
        listed.map(|(path, _)| path.as_str())
    }

    /// The paths of all links, each with its target.
    pub fn links(&self) -> impl Iterator<Item = (&str, &str)> {
        let links = self.links.iter();
        links.map(|(path, target)| (path.as_str(), target.as_str()))
    }

    /// The text that a file shows now.
    pub fn text(&self, path: &str) -> Result<String, Fault> {
        let path = self.behind_links(path)?;
        if let Some(sensor) = self.sensors.iter().position(|sensor| *sensor == path) {
            // A reading that failed gives EIO, as a chip that does not answer does.
            let value = self.sample().and_then(|sample| sample.values[sensor]);
            return value.map(|value| format!("{value}\n")).ok_or(EIO);
        }
        match &self.files.get(&path).ok_or(ENOENT)?.content {
            Content::Text(text) => Ok(text.clone()),
            Content::Fault(fault) => Err(*fault),
        }
    }

    /// The readings at this time; the first ones after the last ones.
    fn sample(&self) -> Option<&Sample> {
        let length = Duration::from_micros(self.samples.last()?.time_us) + INTERVAL;
        let now = self.now.as_micros() % length.as_micros();
        let later = |sample: &Sample| u128::from(sample.time_us) <= now;
        let next = self.samples.partition_point(later);
        self.samples.get(next.saturating_sub(1))
    }

    /// Sets the time since the start.
    pub fn set_now(&mut self, now: Duration) {
        self.now = now;
    }

    /// A path without links.
    pub(crate) fn behind_links(&self, path: &str) -> Result<String, Fault> {
        let (mut real, mut followed) = (String::new(), 0);
        for name in path.split('/').filter(|name| !name.is_empty()) {
            real = format!("{real}/{name}");
            while let Some(target) = self.links.get(&real) {
                real.clone_from(target);
                followed += 1;
                if followed > MAX_LINKS {
                    return Err(ELOOP);
                }
            }
        }
        Ok(real)
    }

    /// The names in a directory.
    pub(crate) fn names(&self, directory: &str) -> Result<Vec<String>, Fault> {
        let directory = self.behind_links(directory)?;
        match self.directories.get(&directory) {
            Some(Names::Listed(names)) => return Ok(names.clone()),
            Some(Names::Fault(fault)) => return Err(*fault),
            None => {}
        }
        let paths = self.files.keys().chain(self.links.keys());
        let start = directory + "/";
        let below = paths.filter_map(|path| path.strip_prefix(&start)?.split('/').next());
        let mut names: Vec<String> = below.map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        match names.is_empty() {
            true => Err(ENOENT),
            false => Ok(names),
        }
    }
}

impl Files for Recorded {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let text = self.text(utf8(path)?)?;
        let Some(place) = buffer.get_mut(..text.len()) else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        place.copy_from_slice(text.as_bytes());
        std::str::from_utf8(place).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        Ok(self.put(utf8(path)?, text)?)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Ok(self.names(utf8(directory)?)?)
    }

    fn wait(&mut self, time: Duration) {
        self.now += time;
    }
}

/// No file with another name is recorded.
fn utf8(path: &Path) -> Result<&str, Fault> {
    path.to_str().ok_or(ENOENT)
}
