//! Takes a probe of a board. Reads, and never writes.
//!
//! Two sources say which files are recorded: what discovery and the daemon read, seen by a [`Files`]
//! that notes each path, and the list of `patterns`. Links of `/sys` and `/proc` are recorded, and a
//! file is recorded under its path behind them. The target of any other link may name a user: such a
//! link is not recorded, and its file is recorded under the path of the link.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use wattgate_board::{Board, Disk, Files};

use crate::any_files::AnyFiles;
use crate::format::{
    Access, Content, Directory, Fault, File, Header, Link, Names, Owner, Probe, VERSION,
};
use crate::patterns::{DEBUG, DEBUG_ENTRIES, Wanted};
use crate::{redact, sensors};

/// Number of reads of a file of which median and maximum time are recorded.
const READS: usize = 5;

/// A file whose reads have taken this time is not read again.
const LONGEST_READS: Duration = Duration::from_millis(100);

/// Maximum length of a recorded text in bytes.
const LONGEST_RECORDED_TEXT: usize = 64 << 10;

/// How far a probe is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    Files { done: usize, total: usize },
    Sensors { elapsed: Duration, total: Duration },
}

/// Takes a probe of the board below a root, with the power sensors read over a time. Fails if there
/// is no such directory.
pub fn collect(
    root: &Path,
    time: Duration,
    mut progress: impl FnMut(Progress),
) -> io::Result<Probe> {
    let root = fs::canonicalize(root)?;
    let (mut wanted, l4t) = discover(&root);
    wanted.add_patterns(&root);
    let mut collector = Collector {
        root: &root,
        buffer: vec![0; LONGEST_RECORDED_TEXT],
        directories: BTreeMap::new(),
        links: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    for directory in &wanted.directories {
        collector.add_directory(directory);
    }
    for (file, done) in wanted.files.iter().zip(1..) {
        collector.add_file(file);
        let total = wanted.files.len();
        progress(Progress::Files { done, total });
    }
    let mut probe = collector.into_probe(l4t);
    probe.sensors = sensors::sensors(&probe.files);
    let seen = |elapsed| {
        progress(Progress::Sensors {
            elapsed,
            total: time,
        });
    };
    probe.samples = sensors::record(&root, &probe.sensors, time, seen);
    Ok(probe)
}

/// The files that discovery, the daemon and the profiler read on this board, and its release of L4T.
fn discover(root: &Path) -> (Wanted, String) {
    let mut noting = Noting::default();
    let mut l4t = String::new();
    let files = AnyFiles(&mut noting);
    if let Ok(mut board) = Board::discover(&files, root) {
        // `noting` notes the files that these calls read. Their results are not needed.
        let _ = (board.save(&files), board.sample(&files));
        let _ = (board.current(&files), board.averaging(&files));
        let _ = (board.masks(&files), board.nvpmodel_mode(&files));
        let _ = (board.time_constant(&files), board.gpu_load(&files));
        let _ = (board.hottest_mc(&files), board.delivered_cpu(&files));
        let _ = (board.over_current_events(&files), board.input_ma(&files));
        let _ = (board.cpu_clock(&files), board.busy_gpu_clock(&files));
        let _ = board.memory_clock(&files);
        l4t.clone_from(&board.identity().l4t);
    }
    (noting.wanted.into_inner(), l4t)
}

/// The disk, with a note of each path that is read or listed. Refuses all writes.
#[derive(Default)]
struct Noting {
    wanted: RefCell<Wanted>,
}

impl Files for Noting {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        self.wanted.borrow_mut().files.insert(path.to_owned());
        Disk.read(path, buffer)
    }

    fn write(&mut self, _path: &Path, _text: &str) -> io::Result<()> {
        Err(ErrorKind::PermissionDenied.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let mut wanted = self.wanted.borrow_mut();
        wanted.directories.insert(directory.to_owned());
        Disk.list(directory)
    }

    fn wait(&mut self, time: Duration) {
        Disk.wait(time);
    }
}

/// The records so far, by the board's paths.
struct Collector<'a> {
    root: &'a Path,
    buffer: Vec<u8>,
    directories: BTreeMap<String, Names>,
    links: BTreeMap<String, String>,
    files: BTreeMap<String, File>,
}

impl Collector<'_> {
    fn add_directory(&mut self, path: &Path) {
        let place = self.resolve(path);
        let Some(path) = self.path(&place) else {
            return;
        };
        let names = match Disk.list(&place) {
            Ok(mut names) => {
                if path == DEBUG {
                    names.retain(|name| DEBUG_ENTRIES.contains(&name.as_str()));
                }
                names.sort_unstable();
                Names::Listed(names)
            }
            Err(error) if is_absent(&error) => return,
            Err(error) => Names::Fault(Fault::from(&error)),
        };
        self.directories.insert(path, names);
    }

    fn add_file(&mut self, path: &Path) {
        let place = self.resolve(path);
        let Some(path) = self.path(&place) else {
            return;
        };
        if self.files.contains_key(&path) {
            return;
        }
        let access = match fs::metadata(&place) {
            Ok(metadata) if !metadata.is_file() => return,
            Ok(metadata) => Some(access(&metadata)),
            Err(error) if is_absent(&error) => return,
            Err(_) => None,
        };
        let (content, times) = self.read(&place, &path);
        let micros = |time: Option<&Duration>| {
            let micros = time.map_or(0, Duration::as_micros);
            u32::try_from(micros).unwrap_or(u32::MAX)
        };
        let file = File {
            path: path.clone(),
            content,
            access,
            median_us: micros(times.get(times.len() / 2)),
            max_us: micros(times.last()),
        };
        self.files.insert(path, file);
    }

    /// Reads a file some times. Returns what the first read gave, and the times, ascending.
    fn read(&mut self, place: &Path, path: &str) -> (Content, Vec<Duration>) {
        let (content, first) = self.read_once(place, path);
        let mut times = vec![first];
        while times.len() < READS && times.iter().sum::<Duration>() < LONGEST_READS {
            times.push(self.read_once(place, path).1);
        }
        times.sort_unstable();
        (content, times)
    }

    fn read_once(&mut self, place: &Path, path: &str) -> (Content, Duration) {
        let start = Instant::now();
        let read = Disk.read(place, &mut self.buffer);
        let time = start.elapsed();
        let content = match read {
            Ok(text) => Content::Text(redact::text(path, text)),
            Err(error) => Content::Fault(Fault::from(&error)),
        };
        (content, time)
    }

    /// Where a path is behind all links of Linux, which are recorded.
    fn resolve(&mut self, path: &Path) -> PathBuf {
        let mut place = self.root.to_owned();
        let below = path.strip_prefix(self.root).unwrap_or(path);
        for component in below.components() {
            place.push(component);
            if let Some(target) = self.target(&place) {
                place = target;
            }
        }
        place
    }

    /// The target of a link, if both are Linux's.
    fn target(&mut self, place: &Path) -> Option<PathBuf> {
        if !fs::symlink_metadata(place).ok()?.is_symlink() {
            return None;
        }
        let target = fs::canonicalize(place).ok()?;
        let [from, to] =
            [place, &target].map(|it| self.path(it).filter(|path| is_linux_path(path)));
        self.links.insert(from?, to?);
        Some(target)
    }

    /// The board's path of a place below the root.
    fn path(&self, place: &Path) -> Option<String> {
        let below = place.strip_prefix(self.root).ok()?.to_str()?;
        Some(format!("/{below}"))
    }

    fn into_probe(self, l4t: String) -> Probe {
        let version = match self.files.get("/proc/version").map(|file| &file.content) {
            Some(Content::Text(text)) => text.as_str(),
            _ => "",
        };
        let mut probe = Probe::new(Header {
            version: VERSION,
            wattgate: env!("CARGO_PKG_VERSION").to_owned(),
            l4t,
            kernel: version.split_whitespace().nth(2).unwrap_or("").to_owned(),
        });
        let directories = self.directories.into_iter();
        probe.directories = directories
            .map(|(path, names)| Directory { path, names })
            .collect();
        let links = self.links.into_iter();
        probe.links = links.map(|(path, target)| Link { path, target }).collect();
        probe.files = self.files.into_values().collect();
        probe
    }
}

/// Whether a path is below `/sys` or `/proc`, where Linux makes all links.
fn is_linux_path(path: &str) -> bool {
    path.starts_with("/sys/") || path.starts_with("/proc/")
}

/// Discovery looks for files in many places, of which most boards have one.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

fn access(metadata: &Metadata) -> Access {
    let owner = |id| match id {
        0 => Owner::Root,
        _ => Owner::Other,
    };
    Access {
        mode: metadata.mode() & 0o7777,
        user: owner(metadata.uid()),
        group: owner(metadata.gid()),
    }
}
