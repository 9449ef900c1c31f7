//! Simulated boards behind [`Files`], with a record of all writes.
#![allow(dead_code)] // The tests of two crates each use a part.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::{Board, Files};
use wattgate_board_tables::{Board as Description, names};
use wattgate_runtime::{Milliwatts, PowerMode, Sample};
use wattgate_simulated_board::tree::{Errno, Tree};
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

/// The files of a simulated board.
pub struct Simulated {
    pub tree: Tree,
    /// All writes in order, refused ones included.
    pub writes: Vec<(String, String)>,
    /// Files and directories that this board does not have.
    pub absent: Vec<String>,
    /// Files that show this text or error instead.
    pub shown: BTreeMap<String, Result<Vec<u8>, Errno>>,
    /// Files that take this value instead of the written one.
    pub taken: BTreeMap<String, String>,
    /// Whether every write is refused.
    pub read_only: bool,
    /// Number of registers of power sensors that were read.
    pub registers: Cell<u64>,
}

impl Simulated {
    pub fn new(tree: Tree) -> Self {
        Self {
            tree,
            writes: Vec::new(),
            absent: Vec::new(),
            shown: BTreeMap::new(),
            taken: BTreeMap::new(),
            read_only: false,
            registers: Cell::new(0),
        }
    }

    fn check(&self, path: &Path) -> io::Result<String> {
        let path = path.to_str().expect("a path of a tree").to_owned();
        match self.absent.iter().any(|absent| path.starts_with(absent)) {
            true => Err(errno(Errno::Enoent)),
            false => Ok(path),
        }
    }

    /// The text or the error of every writable file.
    pub fn state(&self) -> BTreeMap<String, Result<String, Errno>> {
        let files = self.tree.files().filter(|(_, writable)| *writable);
        files
            .map(|(path, _)| (path.to_owned(), self.tree.read(path)))
            .collect()
    }

    /// Formats all writes as in the golden files, and forgets them.
    pub fn take_writes(&mut self) -> String {
        let writes = self.writes.drain(..);
        writes
            .map(|(path, value)| format!("  {path} {value}"))
            .collect()
    }
}

impl Files for Simulated {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let path = self.check(path)?;
        let registers = u64::from(self.tree.registers_of(&path));
        self.registers.set(self.registers.get() + registers);
        let text = match self.shown.get(&path) {
            Some(shown) => shown.clone().map_err(errno)?,
            None => self.tree.read(&path).map_err(errno)?.into_bytes(),
        };
        let Some(place) = buffer.get_mut(..text.len()) else {
            return Err(io::ErrorKind::FileTooLarge.into());
        };
        place.copy_from_slice(&text);
        std::str::from_utf8(place).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let path = self.check(path)?;
        // Changing a mask needs a reboot (section 0, fact 6).
        assert!(!path.contains("mask"), "{path} is written");
        self.writes.push((path.clone(), text.to_owned()));
        if self.read_only {
            return Err(errno(Errno::Eacces));
        }
        let text = self.taken.get(&path).map_or(text, String::as_str);
        self.tree.write(&path, text).map_err(errno)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let path = self.check(directory)?;
        let mut names = self.tree.list(&path).map_err(errno)?;
        names.retain(|name| self.check(&directory.join(name)).is_ok());
        Ok(names)
    }

    fn wait(&mut self, time: Duration) {
        let now = self.tree.jetson().now();
        self.tree.advance(now + time);
    }
}

/// The system's error on Linux.
fn errno(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(match errno {
        Errno::Enoent => 2,
        Errno::Eio => 5,
        Errno::Eagain => 11,
        Errno::Eacces => 13,
        Errno::Ebusy => 16,
        Errno::Enodev => 19,
        Errno::Einval => 22,
        Errno::Erofs => 30,
        Errno::Eshutdown => 108,
    })
}

/// The names of the boards that can be simulated.
pub fn boards() -> Vec<&'static str> {
    let mut names = names();
    names.retain(|name| Description::named(name).is_ok());
    assert_eq!(names.len(), 10, "{names:?}");
    names
}

pub fn description(board: &str) -> Description {
    Description::named(board).expect("a board that can be simulated")
}

/// A nominal board that has booted in its default mode.
pub fn booted(board: &str) -> Simulated {
    seeded(board, 0)
}

/// As [`booted`]; the device numbers of hwmon depend on the seed.
pub fn seeded(board: &str, seed: u64) -> Simulated {
    let tree = Tree::new(description(board), Unit::NOMINAL, seed, None);
    Simulated::new(tree.expect("a default mode"))
}

/// A nominal board that has booted in a mode of nvpmodel.
pub fn booted_in(board: &str, mode: u32) -> Simulated {
    let tree = Tree::new(description(board), Unit::NOMINAL, 0, Some(mode));
    Simulated::new(tree.expect("a mode"))
}

/// Starts ResNet-18 on the board.
pub fn load(files: &mut Simulated) {
    let workload = Workload::named("resnet18").expect("a shipped workload");
    files.tree.jetson_mut().set_workload(Some(workload));
}

pub fn discover(files: &Simulated) -> Board {
    let found = Board::discover(files, Path::new("/"));
    found.unwrap_or_else(|error| panic!("{error}"))
}

pub fn mode(knobs: [u32; 4]) -> PowerMode {
    PowerMode::from_knobs(knobs)
}

/// The mode with every knob at its lowest.
pub fn lowest(board: &str) -> PowerMode {
    mode(description(board).axes().map(|axis| axis[0]))
}

/// The mode with every knob at its highest.
pub fn highest(board: &str) -> PowerMode {
    mode(description(board).maxn())
}

/// The mode with every knob in the middle of its table.
pub fn middle(board: &str) -> PowerMode {
    mode(description(board).axes().map(|axis| axis[axis.len() / 2]))
}

/// Applies a mode without errors, and forgets the writes.
pub fn apply(board: &mut Board, files: &mut Simulated, mode: PowerMode) {
    let applied = board.apply(files, &mode);
    applied.unwrap_or_else(|error| panic!("{mode}: {error}"));
    files.writes.clear();
}

/// The power of all chips.
pub fn total(sample: &Sample) -> Milliwatts {
    sample.total().expect("all chips")
}
