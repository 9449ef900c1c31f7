//! A list of files and aliases.

use std::collections::{BTreeMap, BTreeSet};

use super::super::file::File;

/// A directory that leads to another one, as a symbolic link does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alias {
    /// The other directory.
    pub target: String,
    /// While this core is offline the alias leads nowhere.
    pub core: Option<u32>,
}

/// All files of a board.
#[derive(Clone, Debug, Default)]
pub struct Layout {
    /// Files by absolute path.
    pub files: BTreeMap<String, File>,
    /// Directories by absolute path.
    pub aliases: BTreeMap<String, Alias>,
    /// Lengths of the alias paths. Only path prefixes of these lengths are looked up.
    pub alias_lengths: BTreeSet<usize>,
}

impl Layout {
    /// Adds a file.
    pub fn put(&mut self, path: impl Into<String>, file: File) {
        self.files.insert(path.into(), file);
    }

    /// Adds an alias of a directory.
    pub fn alias(&mut self, path: impl Into<String>, target: impl Into<String>) {
        let target = target.into();
        self.aliases
            .insert(path.into(), Alias { target, core: None });
    }

    /// Adds a hwmon device; returns its directory.
    pub fn hwmon(&mut self, device: &str, number: usize, name: &str) -> String {
        let directory = format!("{device}/hwmon/hwmon{number}");
        self.put(format!("{directory}/name"), fixed(format!("{name}\n")));
        self.alias(
            format!("/sys/class/hwmon/hwmon{number}"),
            directory.as_str(),
        );
        directory
    }
}

/// A list of numbers as Linux prints tables.
pub fn table(values: impl IntoIterator<Item = u64>) -> String {
    let words: Vec<String> = values.into_iter().map(|value| value.to_string()).collect();
    words.join(" ") + "\n"
}

/// Cores as Linux prints them, such as `0-3,5`.
pub fn ranges(cores: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &core in cores {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == core => *last = core,
            _ => runs.push((core, core)),
        }
    }
    let words = runs.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",") + "\n"
}

/// A file whose text never changes.
pub fn fixed(text: impl Into<String>) -> File {
    File::Fixed(text.into())
}
