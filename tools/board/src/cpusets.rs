//! Cpusets of control groups of version 1, which containers have on JetPack 4 and 5.
//!
//! Linux takes a core that goes offline out of every group below the root, and does not give it back when the core
//! returns (`hotplug_update_tasks_legacy` in `kernel/cgroup/cpuset.c`). A container would stay on the cores of the least
//! mode. So the groups are read before cores change, and get back what Linux took. A group that has all cores
//! of its parent follows its parent. In version 2 Linux gives the cores back itself.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::cpu::Cpus;
use crate::files::Files;
use crate::search::Search;

/// Where systemd mounts the hierarchy.
const MOUNTED: &str = "/sys/fs/cgroup/cpuset";

/// A file that only groups of version 1 have.
const OF_VERSION_1: &str = "cgroup.clone_children";

/// Maximum length of a list of 64 cores: two digits and a comma each.
const LIST: usize = 192;

/// Maximum depth of groups below the root. Those of Kubernetes are five deep.
const DEPTH: u32 = 16;

/// Cores by number, bit 0 for cpu0.
type Numbers = u64;

/// The groups of the hierarchy, if there is one.
#[derive(Debug, Default)]
pub(crate) struct Cpusets {
    root: Option<PathBuf>,
    /// The cores that each group has when all cores are online.
    wanted: BTreeMap<PathBuf, Numbers>,
    /// The cores that were online when the groups were read last.
    online: Numbers,
}

impl Cpusets {
    pub fn find<F: Files>(search: &Search<F>) -> Self {
        let root = search.path(MOUNTED);
        let is_there = search.list(&root).iter().any(|name| name == OF_VERSION_1);
        Self {
            root: is_there.then_some(root),
            ..Self::default()
        }
    }

    /// Reads all groups, and gives those their cores back that have returned. Call it before and after cores change.
    /// Allocates where there are groups.
    pub fn follow(&mut self, files: &mut impl Files, cpus: &Cpus) {
        let Some(root) = self.root.clone() else {
            return;
        };
        let online = cpus.numbers(cpus.online(files));
        let stayed = self.online & online;
        let before = std::mem::take(&mut self.wanted);
        let all = Group {
            shown: read(files, &root).unwrap_or(online),
            wanted: Numbers::MAX,
        };
        let mut walk = Walk {
            files,
            online,
            stayed,
            before,
            wanted: BTreeMap::new(),
        };
        walk.below(&root, all, DEPTH);
        self.wanted = walk.wanted;
        self.online = online;
    }
}

#[derive(Clone, Copy)]
struct Group {
    shown: Numbers,
    wanted: Numbers,
}

struct Walk<'a, F> {
    files: &'a mut F,
    online: Numbers,
    /// The cores that have been online all the time: for them, the group decides.
    stayed: Numbers,
    before: BTreeMap<PathBuf, Numbers>,
    wanted: BTreeMap<PathBuf, Numbers>,
}

impl<F: Files> Walk<'_, F> {
    fn below(&mut self, parent: &Path, group: Group, depth: u32) {
        let names = self.files.list(parent).unwrap_or_default();
        let may_be_group =
            |name: &&String| !name.starts_with("cpuset.") && !name.starts_with("cgroup.");
        for name in names.iter().filter(may_be_group) {
            let path = parent.join(name);
            let Some(shown) = read(self.files, &path) else {
                continue;
            };
            let wanted = match self.before.get(&path) {
                Some(before) => shown & self.stayed | (before | shown) & !self.stayed,
                None if shown == group.shown => group.wanted,
                None => shown,
            };
            let returned = wanted & self.online & !shown;
            let shown = match returned {
                0 => shown,
                _ => self.give(parent, &path, shown, returned),
            };
            if depth > 1 {
                self.below(&path, Group { shown, wanted }, depth - 1);
            }
            self.wanted.insert(path, wanted);
        }
    }
}

impl<F: Files> Walk<'_, F> {
    /// Gives a group cores, as many as its parent has. Returns those that it then has.
    fn give(&mut self, parent: &Path, group: &Path, shown: Numbers, more: Numbers) -> Numbers {
        let mut write = |cores: Numbers| self.files.write(&file(group), &list(cores)).is_ok();
        if write(shown | more) {
            return shown | more;
        }
        // Linux refuses cores that the parent lacks. The parent may have lost some since it was read, so this
        // offers what it has now.
        let of_parent = read(self.files, parent).unwrap_or(0);
        let fewer = (shown | more) & of_parent;
        let mut write = |cores: Numbers| self.files.write(&file(group), &list(cores)).is_ok();
        match fewer & !shown != 0 && write(fewer) {
            true => fewer,
            false => shown,
        }
    }
}

fn file(group: &Path) -> PathBuf {
    group.join("cpuset.cpus")
}

fn read(files: &impl Files, group: &Path) -> Option<Numbers> {
    let mut buffer = [0; LIST];
    cores(files.read(&file(group), &mut buffer).ok()?)
}

/// The cores of a list such as `0-3,5`; those above 63 are left out.
fn cores(list: &str) -> Option<Numbers> {
    let ranges = list.trim().split(',').filter(|range| !range.is_empty());
    ranges.into_iter().try_fold(0, |cores, range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        Some((first..=last.min(Numbers::BITS - 1)).fold(cores, |cores, core| cores | 1 << core))
    })
}

fn list(cores: Numbers) -> String {
    let mut list = String::with_capacity(LIST);
    for core in (0..Numbers::BITS).filter(|core| cores >> core & 1 != 0) {
        let comma = if list.is_empty() { "" } else { "," };
        // A `String` takes every text.
        let _ = write!(list, "{comma}{core}");
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cores_are_read_and_written() {
        for (text, expected, written) in [
            ("0-3,5\n", 0b10_1111, "0,1,2,3,5"),
            ("\n", 0, ""),
            ("63-70\n", 1 << 63, "63"),
            ("0-63", u64::MAX, &list(u64::MAX)),
        ] {
            assert_eq!(cores(text), Some(expected));
            assert_eq!(list(expected), written);
            assert!(written.len() <= LIST);
        }
        assert_eq!(cores("a"), None);
    }
}
