//! Control groups of version 1, whose cores Linux takes when they go offline.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::{Board, Files};
use wattgate_runtime::PowerMode;

use crate::common::{Simulated, booted, highest};

const ROOT: &str = "/sys/fs/cgroup/cpuset";
const BOARD: &str = "orin-agx-64";
const CORES: u32 = 12;

/// A board with groups. Linux's part is `hotplug_update_tasks_legacy` and `update_cpumask`.
struct Grouped {
    board: Simulated,
    /// The cores of each group, by its path below the root.
    groups: BTreeMap<String, Vec<u32>>,
    /// A group to which each write is refused.
    stubborn: Option<String>,
}

impl Grouped {
    fn online(&self) -> Vec<u32> {
        let is_on = |core: &u32| {
            let path = format!("/sys/devices/system/cpu/cpu{core}/online");
            *core == 0 || self.board.tree.read(&path).expect("a core") == "1\n"
        };
        (0..CORES).filter(is_on).collect()
    }

    fn group(&self, path: &Path) -> Option<String> {
        let path = path.to_str()?.strip_prefix(ROOT)?;
        Some(path.trim_start_matches('/').to_owned())
    }

    /// Makes a group as container runtimes do: it gets all cores of its parent, unless it names its own.
    fn make(&mut self, path: &str, cores: Option<&[u32]>) {
        let parent = path.rsplit_once('/').map(|(parent, _)| parent);
        let inherited = parent.map_or_else(|| self.online(), |parent| self.groups[parent].clone());
        let cores = cores.map_or(inherited, <[u32]>::to_vec);
        self.groups.insert(path.to_owned(), cores);
    }
}

impl Files for Grouped {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let Some(group) = self.group(path) else {
            return self.board.read(path, buffer);
        };
        let group = group.strip_suffix("cpuset.cpus");
        let group = group.ok_or(io::ErrorKind::NotFound)?.trim_end_matches('/');
        let cores = match group {
            "" => self.online(),
            group => self
                .groups
                .get(group)
                .ok_or(io::ErrorKind::NotFound)?
                .clone(),
        };
        let cores: Vec<String> = cores.iter().map(u32::to_string).collect();
        let text = cores.join(",") + "\n";
        let place = buffer.get_mut(..text.len()).expect("enough");
        place.copy_from_slice(text.as_bytes());
        Ok(std::str::from_utf8(place).expect("a text"))
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let Some(group) = self.group(path) else {
            self.board.write(path, text)?;
            let online = self.online();
            for cores in self.groups.values_mut() {
                cores.retain(|core| online.contains(core));
            }
            return Ok(());
        };
        let group = group.strip_suffix("/cpuset.cpus").expect("no other file");
        let cores: Vec<u32> = text
            .split(',')
            .map(|core| core.parse().expect("a number"))
            .collect();
        let parent = match group.rsplit_once('/') {
            Some((parent, _)) => self.groups[parent].clone(),
            None => self.online(),
        };
        if self.stubborn.as_deref() == Some(group)
            || cores.iter().any(|core| !parent.contains(core))
        {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.groups.insert(group.to_owned(), cores);
        Ok(())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let Some(group) = self.group(directory) else {
            return self.board.list(directory);
        };
        let mut names: Vec<String> = ["cgroup.clone_children", "cpuset.cpus", "tasks"]
            .map(str::to_owned)
            .into();
        let below = self.groups.keys().filter_map(|path| match &*group {
            "" => Some(&**path),
            group => path.strip_prefix(group)?.strip_prefix('/'),
        });
        names.extend(below.filter(|it| !it.contains('/')).map(str::to_owned));
        Ok(names)
    }

    fn wait(&mut self, time: Duration) {
        self.board.wait(time);
    }
}

/// An AGX Orin whose twelve cores are online.
struct Case {
    files: Grouped,
    board: Board,
}

impl Case {
    fn new() -> Self {
        let files = Grouped {
            board: booted(BOARD),
            groups: BTreeMap::new(),
            stubborn: None,
        };
        let board = Board::discover(&files, Path::new("/")).expect("a board");
        let mut case = Self { files, board };
        // It boots with eight.
        case.set(12);
        case
    }

    fn set(&mut self, cores: u32) {
        let highest = highest(BOARD);
        let mode = PowerMode { cores, ..highest };
        self.board.apply(&mut self.files, &mode).expect("obeyed");
        assert_eq!(self.files.online().len(), cores as usize);
    }

    fn cores(&self, group: &str) -> &[u32] {
        &self.files.groups[group]
    }
}

const ALL: [u32; 12] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];

#[test]
fn containers_get_their_cores_back() {
    let mut case = Case::new();
    case.files.make("docker", None);
    case.files.make("docker/all", None);
    case.files.make("docker/two", Some(&[5, 6]));
    case.set(4);
    for (group, left) in [
        ("docker", &ALL[..4]),
        ("docker/all", &ALL[..4]),
        ("docker/two", &[]),
    ] {
        assert_eq!(case.cores(group), left, "{group}");
    }
    case.files.make("docker/later", None);
    case.files.make("docker/first", Some(&[0]));
    case.set(6);
    assert_eq!(case.cores("docker/two"), [5]);
    case.set(12);
    for group in ["docker", "docker/all", "docker/later"] {
        assert_eq!(case.cores(group), ALL, "{group}");
    }
    assert_eq!(case.cores("docker/two"), [5, 6]);
    assert_eq!(case.cores("docker/first"), [0]);
}

#[test]
fn cores_that_a_user_took_stay_taken() {
    let mut case = Case::new();
    case.files.make("docker", None);
    case.files.make("docker/one", None);
    case.set(8);
    case.files.make("docker/one", Some(&[0, 1, 2, 3]));
    case.set(4);
    case.set(8);
    assert_eq!(case.cores("docker"), &ALL[..8]);
    assert_eq!(case.cores("docker/one"), [0, 1, 2, 3]);
}

#[test]
fn a_program_that_did_not_take_the_cores_gives_them_back() {
    let mut case = Case::new();
    case.files.make("docker", None);
    case.files.make("docker/all", None);
    let saved = case.board.save(&case.files).expect("readable");
    case.set(2);
    let mut other = Board::discover(&case.files, Path::new("/")).expect("a board");
    other.restore(&mut case.files, &saved).expect("restored");
    for group in ["docker", "docker/all"] {
        assert_eq!(case.cores(group), ALL, "{group}");
    }
}

#[test]
fn a_group_that_refuses_keeps_no_mode_from_being_set() {
    let mut case = Case::new();
    case.files.make("docker", Some(&[0, 5]));
    case.files.make("docker/one", Some(&[5]));
    case.set(4);
    case.files.stubborn = Some("docker".to_owned());
    case.set(12);
    assert_eq!(case.cores("docker"), [0]);
    assert_eq!(case.cores("docker/one"), []);
}

/// A parent that refuses, as one with `cpuset.cpu_exclusive` may, bounds its groups.
#[test]
fn a_group_gets_what_its_parent_has() {
    let mut case = Case::new();
    case.files.make("docker", Some(&[0, 1, 2]));
    case.files.make("docker/one", Some(&[0, 1, 2]));
    case.set(2);
    case.files.stubborn = Some("docker".to_owned());
    case.set(12);
    assert_eq!(case.cores("docker"), [0, 1]);
    assert_eq!(case.cores("docker/one"), [0, 1]);
}
