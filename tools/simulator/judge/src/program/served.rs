//! A recorded board on a disk, for other processes, as [`mirror`] keeps a simulated one.
//!
//! Files are changed in place, and writes of programs are found by inotify, with the limits that
//! [`mirror`] states. A file that could not be read on the board is a link to a file of the system that
//! gives EIO, whatever the error was.
//!
//! [`mirror`]: wattgate_simulated_board::tree::mirror

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use wattgate_probe::format::Fault;
use wattgate_probe::recorded::Recorded;
use wattgate_simulated_board::tree::mirror::MirrorError;
use wattgate_simulated_board::tree::mirror::batch::Batch;
use wattgate_simulated_board::tree::mirror::disk::{Root, at, fill, read, replace};
use wattgate_simulated_board::tree::mirror::watcher::Watcher;

/// Time between two updates of the power sensors' files.
const SENSOR_TICK: Duration = Duration::from_millis(5);

/// Other files are updated only if no program has written for this long, so that a sequence of writes
/// is not disturbed.
const QUIET: Duration = Duration::from_millis(10);

/// Maximum time to wait until a program has written a file that it has truncated.
const TRUNCATED: Duration = Duration::from_millis(50);

/// A file of the system whose reads and writes at offset 0 fail with EIO.
const FAILING: &str = "/proc/self/mem";

/// A file on the disk.
#[derive(Debug)]
struct Entry {
    shown: Result<String, Fault>,
    /// The open file, if the file can be read.
    handle: Option<File>,
}

/// A recorded board on a disk.
#[derive(Debug)]
pub struct Served {
    root: Root,
    files: Recorded,
    watcher: Watcher,
    /// All files by path.
    entries: BTreeMap<String, Entry>,
    /// Paths of the power sensors' files.
    sensors: Vec<String>,
    batch: Batch,
    /// When a program wrote last, if its writes are not shown yet.
    written: Option<Instant>,
}

impl Served {
    /// Puts all files into a directory that is empty or does not exist. If this fails, the directory is
    /// left as it was.
    pub fn create(root: &Path, files: Recorded) -> Result<Self, MirrorError> {
        fill(root, |root| {
            let mut served = Self {
                root: Root(root.to_owned()),
                sensors: files.sensors().map(str::to_owned).collect(),
                files,
                watcher: Watcher::new()?,
                entries: BTreeMap::new(),
                batch: Batch::default(),
                written: None,
            };
            served.lay_out()?;
            Ok(served)
        })
    }

    /// Serves the board until `stop` is set, `speed` times as fast as real time.
    pub fn run(&mut self, stop: &AtomicBool, speed: f64) -> Result<(), MirrorError> {
        let start = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            self.watcher.wait(SENSOR_TICK)?;
            self.files.set_now(start.elapsed().mul_f64(speed));
            self.take_writes()?;
            let is_quiet = |written: &mut Instant| written.elapsed() >= QUIET;
            if self.written.take_if(is_quiet).is_some() {
                let paths: Vec<String> = self.entries.keys().cloned().collect();
                self.publish(&paths)?;
            }
            let sensors = self.sensors.clone();
            self.publish(&sensors)?;
        }
        Ok(())
    }

    fn lay_out(&mut self) -> Result<(), MirrorError> {
        let create = |directory: &Path| fs::create_dir_all(directory).map_err(at(directory));
        for directory in self.files.directories() {
            create(&self.root.path(directory))?;
        }
        let paths: Vec<String> = self.files.paths().map(str::to_owned).collect();
        for path in paths {
            create(self.root.path(&path).parent().unwrap_or(&self.root.0))?;
            let shown = self.files.text(&path);
            let handle = self.make(&path, &shown)?;
            self.entries.insert(path, Entry { shown, handle });
        }
        for (path, target) in self.files.links() {
            let on_disk = self.root.path(path);
            create(on_disk.parent().unwrap_or(&self.root.0))?;
            self.root.link(&on_disk, &self.root.path(target))?;
        }
        Ok(())
    }

    /// Puts a file in place of whatever is there; returns it open if it can be read.
    fn make(
        &mut self,
        path: &str,
        shown: &Result<String, Fault>,
    ) -> Result<Option<File>, MirrorError> {
        let on_disk = self.root.path(path);
        let Ok(text) = shown else {
            self.root.link(&on_disk, Path::new(FAILING))?;
            return Ok(None);
        };
        let is_writable = self.files.can_write(path);
        let file = self.root.make(&on_disk, text, is_writable)?;
        if is_writable {
            self.watcher.watch(path.to_owned(), &on_disk)?;
        }
        Ok(Some(file))
    }

    /// Applies what programs have written, once they have written all that they have truncated.
    fn take_writes(&mut self) -> Result<(), MirrorError> {
        let start = Instant::now();
        loop {
            let events = self.watcher.events()?;
            if events.is_empty() && !self.batch.is_truncated() {
                break;
            }
            if start.elapsed() > TRUNCATED {
                return Ok(());
            }
            for path in events {
                self.look_at(path)?;
            }
        }
        for ((path, text), other) in self.batch.take() {
            // A refused write is undone when the files are shown again.
            let partner = other.map(|(partner, text)| {
                let written = self.files.put(&partner, &text);
                (partner, text, written)
            });
            let _ = self.files.put(&path, &text);
            if let Some((partner, text, Err(_))) = partner {
                // The order of the two limits of a clock is not known; one of both is legal.
                let _ = self.files.put(&partner, &text);
            }
        }
        Ok(())
    }

    /// Adds what a program has done to a file to the batch.
    fn look_at(&mut self, path: String) -> Result<(), MirrorError> {
        let Some(entry) = self.entries.get_mut(&path) else {
            return Ok(());
        };
        let (Some(handle), Ok(shown)) = (&entry.handle, &entry.shown) else {
            return Ok(());
        };
        let contents = read(handle, 0).map_err(at(&self.root.path(&path)))?;
        if contents != *shown {
            let words = self.files.words(&path);
            self.batch.add(path, &contents, shown, &words);
            entry.shown = Ok(contents);
            self.written = Some(Instant::now());
        }
        Ok(())
    }

    /// Updates the files that do not show what the board shows.
    fn publish(&mut self, paths: &[String]) -> Result<(), MirrorError> {
        for path in paths {
            let wanted = self.files.text(path);
            let Some(entry) = self.entries.get(path).filter(|it| it.shown != wanted) else {
                continue;
            };
            let handle = match (&entry.handle, &entry.shown, &wanted) {
                (Some(handle), Ok(shown), Ok(text)) => {
                    let on_disk = self.root.path(path);
                    // A program has written meanwhile: its write is applied first.
                    let is_mine = read(handle, 0).map_err(at(&on_disk))? == *shown;
                    if !is_mine {
                        continue;
                    }
                    replace(handle, shown.len(), text).map_err(at(&on_disk))?;
                    None
                }
                _ => Some(self.make(path, &wanted)?),
            };
            if let Some(entry) = self.entries.get_mut(path) {
                entry.shown = wanted;
                entry.handle = handle.unwrap_or(entry.handle.take());
            }
        }
        Ok(())
    }
}
