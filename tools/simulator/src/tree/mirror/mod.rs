//! A tree on a disk, for other processes: ordinary files in a directory, without root and
//! without FUSE.
//!
//! When a program writes a file, inotify reports it, [`Tree::write`] gets the contents, and the
//! file then shows what Linux would show. After a refused write the file shows the old value
//! again, and `control.log` has a line.
//!
//! **Files are changed in place.** A new value is written into the same file, not into a new file
//! that is renamed: a program may keep a sensor open and read it again at offset 0, as on a board,
//! and watches stay valid. A reader must never find half a text: `replace` first lengthens the file
//! by newlines, then writes the new text with one write, then cuts the rest off. The first line is
//! the old or the new text at any time. (Linux promises no atomicity between `read` and `write` on
//! most file systems. No mixture has been seen for texts of some bytes.) Only a change between
//! file, error and absence needs a rename; descriptors opened before then stay with the old file.
//!
//! **Errors** of open, read and write are links to files of the running system, see `links.rs`. If
//! the system has no such file, the file stays, the write is undone, and `control.log` says so.
//! EAGAIN of unpowered thermal zones becomes EIO.
//!
//! **Quick writes.** Events are read until there are no more; then the contents of the files are
//! applied. A minimum and a maximum in one batch are applied in the legal order, so that a legal
//! sequence is never refused, however quick. The limits:
//! - Nothing is applied until the program has paused for some µs.
//! - Of several writes to one file in a batch only the last counts; an illegal one before it may
//!   pass unnoticed. A command in `control` is obeyed after all writes before it: a program that
//!   waits for the command's line in `control.log` knows that they have been applied.
//! - For some ms, until the tree has applied a write, read-back shows the written text. A file that
//!   a program truncates before it writes is empty for other readers in between.
//! - A short text, written without newline over a longer one in a file that was not truncated, is
//!   recognized only if the knob has a table or words.
//! - The cpufreq files of a core appear some ms after the core comes online.
//! - A write can be lost in the few µs in which the tree itself writes the same file.
//! - Writing the text that a file already shows has no effect.
//!
//! **Power sensors.** Their files show what the registers held up to 5 ms ago, and a read takes no
//! time. In simulated time a read takes as long as the bus does.
//!
//! **Progress of the workload.** The file `progress` shows the board's time and its work up to
//! now; it is empty until all files are there. [`Living`] reads it.
//!
//! **True power.** [`Mirror::record`] writes it to a file, from which a run is judged afterwards.

pub mod batch;
pub mod disk;
mod links;
mod living;
mod trace_file;
pub mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::errno::Errno;
use super::faults::half;
use super::file::File as Kind;
use super::files::Tree;
use crate::machine::{Jetson, SLICE};
use batch::Batch;
pub use disk::MirrorError;
use disk::{Root, at, read, replace};
use links::Links;
use living::PROGRESS;
pub use living::{Living, LivingError, Progress};
use trace_file::TraceFile;
use watcher::Watcher;

/// Time between two updates of all files.
const TICK: Duration = Duration::from_millis(50);

/// Time between two updates of the power sensors' files, whose registers change all the time.
const SENSOR_TICK: Duration = Duration::from_millis(5);

/// Time between two updates of all files while clocks follow a request.
const SETTLING_TICK: Duration = Duration::from_millis(2);

/// Files that programs can write are updated only if no program has written for this long, so that
/// the tree does not interfere with a sequence of writes.
const QUIET: Duration = Duration::from_millis(10);

/// File of commands, in the root.
pub const CONTROL: &str = "control";

/// File of the commands' results, in the root.
pub const LOG: &str = "control.log";

/// Directory to which the cpufreq links of offline cores lead, in the root.
const OFFLINE: &str = ".offline";

/// Why [`Mirror::run`] ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The flag `stop` was set.
    Stopped,
    /// The board is too hot and has shut down.
    ShutDown,
    /// The command `crash` was obeyed.
    Crashed,
}

/// What a reader finds at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Shown {
    Nothing,
    Text(String),
    Error(Errno),
}

/// A file on the disk that can change.
#[derive(Debug)]
struct Entry {
    shown: Shown,
    /// The open file, if it is an ordinary one.
    handle: Option<File>,
}

/// A tree on a disk.
#[derive(Debug)]
pub struct Mirror {
    root: Root,
    tree: Tree,
    watcher: Watcher,
    /// Files that change, by path in the tree.
    entries: BTreeMap<String, Entry>,
    /// Paths of the power sensors' files.
    sensors: Vec<String>,
    batch: Batch,
    links: Links,
    /// Paths and errors for which no link was possible, and which were reported.
    missed: BTreeSet<(String, Errno)>,
    /// When a program wrote last.
    written: Option<Instant>,
    /// Online cores as the cpufreq links show them.
    online: Vec<bool>,
    control: File,
    /// Number of bytes of `control` whose commands were executed.
    obeyed: u64,
    log: File,
    /// Lines of the tree's log that are in the file.
    logged: usize,
    /// The file of the workload's progress, locked, and the text in it.
    progress: (File, String),
    /// The file of the true power, if there is one.
    trace: Option<TraceFile>,
}

impl Mirror {
    /// Puts all files into a directory that is empty or does not exist, with a boot id of their own.
    /// If this fails, the directory is left as it was.
    pub fn create(root: &Path, tree: Tree) -> Result<Self, MirrorError> {
        disk::fill(root, |root| Self::fill(root, tree))
    }

    fn fill(root: &Path, mut tree: Tree) -> Result<Self, MirrorError> {
        tree.set_boot_id(random());
        let root = root.to_owned();
        let open = |name: &str| {
            let path = root.join(name);
            let mut options = File::options();
            let options = options.read(true).append(true).create_new(true);
            options.open(&path).map_err(at(&path))
        };
        let path = root.join(PROGRESS);
        let progress = Root(root.clone()).make(&path, "", false)?;
        progress.lock().map_err(at(&path))?;
        let mut mirror = Self {
            watcher: Watcher::new()?,
            entries: BTreeMap::new(),
            sensors: Vec::new(),
            batch: Batch::default(),
            links: Links::default(),
            missed: BTreeSet::new(),
            written: None,
            online: Vec::new(),
            control: open(CONTROL)?,
            obeyed: 0,
            log: open(LOG)?,
            logged: 0,
            progress: (progress, String::new()),
            trace: None,
            root: Root(root),
            tree,
        };
        let control = mirror.root.path(CONTROL);
        mirror.watcher.watch(CONTROL.to_owned(), &control)?;
        mirror.lay_out()?;
        mirror.publish_all()?;
        // Last: who finds it, finds all files.
        mirror.publish_progress()?;
        Ok(mirror)
    }

    /// Records the true power from now on in a file. It is complete when [`Self::run`] has ended.
    pub fn record(&mut self, path: &Path) -> Result<(), MirrorError> {
        self.trace = Some(TraceFile::create(path)?);
        self.tree.jetson_mut().keep_trace();
        Ok(())
    }

    /// Runs the board until `stop` is set, `speed` times as fast as real time.
    pub fn run(&mut self, stop: &AtomicBool, speed: f64) -> Result<End, MirrorError> {
        self.run_noted(stop, speed, |_| {})
    }

    /// Runs like [`Self::run`], and calls `note` at least every 10 ms of the board's time.
    pub fn run_noted(
        &mut self,
        stop: &AtomicBool,
        speed: f64,
        note: impl FnMut(&Jetson),
    ) -> Result<End, MirrorError> {
        let end = self.live(stop, speed, note);
        let recorded = self.trace.as_mut().map_or(Ok(()), TraceFile::end);
        let end = end?;
        recorded.map(|()| end)
    }

    fn live(
        &mut self,
        stop: &AtomicBool,
        speed: f64,
        mut note: impl FnMut(&Jetson),
    ) -> Result<End, MirrorError> {
        let start = Instant::now();
        let mut all_shown = start;
        while !stop.load(Ordering::Relaxed) {
            let settling = self.tree.jetson().is_settling() || !self.is_quiet();
            let was_written =
                self.watcher
                    .wait(if settling { SETTLING_TICK } else { SENSOR_TICK })?;
            let until = start.elapsed().mul_f64(speed);
            while self.tree.jetson().now() < until && self.tree.crashed().is_none() {
                let next = self.tree.jetson().now() + SLICE;
                self.tree.advance(next.min(until));
                note(self.tree.jetson());
            }
            if let Some(trace) = &mut self.trace {
                trace.append(self.tree.jetson_mut().take_trace())?;
            }
            if self.take_writes()? {
                self.take_commands()?;
            }
            if let Some(path) = self.tree.crashed() {
                let path = path.to_owned();
                self.append_log()?;
                self.write_half(&path)?;
                return Ok(End::Crashed);
            }
            // Before the log: a program that has read a command's result finds the progress up to it.
            self.publish_progress()?;
            if settling || was_written || all_shown.elapsed() >= TICK {
                self.publish_all()?;
                all_shown = Instant::now();
            } else {
                self.publish_sensors()?;
            }
            if self.tree.jetson().is_off() {
                let die_c = self.tree.jetson().die_c();
                self.tree
                    .report(&format!("the board has shut down at {die_c:.1} °C"));
                self.append_log()?;
                return Ok(End::ShutDown);
            }
        }
        Ok(End::Stopped)
    }

    fn is_quiet(&self) -> bool {
        self.written
            .is_none_or(|written| written.elapsed() >= QUIET)
    }

    /// Directories, links between them and files that never change.
    fn lay_out(&mut self) -> Result<(), MirrorError> {
        let layout = self.tree.state.layout.clone();
        for (path, kind) in &layout.files {
            let on_disk = self.root.path(path);
            let parent = on_disk.parent().unwrap_or(&self.root.0);
            fs::create_dir_all(parent).map_err(at(parent))?;
            if let Kind::Fixed(text) = kind {
                self.root.make(&on_disk, text, false)?;
            } else {
                let entry = Entry {
                    shown: Shown::Nothing,
                    handle: None,
                };
                self.entries.insert(path.clone(), entry);
                if kind.is_measured() {
                    self.sensors.push(path.clone());
                }
            }
            if let Some((_, name)) = path.split_once("/policy0/") {
                let offline = self.root.0.join(OFFLINE);
                fs::create_dir_all(&offline).map_err(at(&offline))?;
                let link = offline.join(name);
                symlink("/proc/self/mem", &link).map_err(at(&link))?;
            }
        }
        for (path, alias) in &layout.aliases {
            let on_disk = self.root.path(path);
            let parent = on_disk.parent().unwrap_or(&self.root.0);
            fs::create_dir_all(parent).map_err(at(parent))?;
            self.root.link(&on_disk, &self.root.path(&alias.target))?;
        }
        self.online = vec![true; self.tree.jetson().settings().online.len()];
        Ok(())
    }

    /// Applies what programs have written; false if they are still writing.
    fn take_writes(&mut self) -> Result<bool, MirrorError> {
        let start = Instant::now();
        // A file may already hold a later write than the one that its event reports. Writes to
        // other files before that write have events by then. So the batch ends when there are no
        // more events, and when every truncated file has been written.
        loop {
            let events = self.watcher.events()?;
            match (events.is_empty(), self.batch.is_truncated()) {
                (true, false) => break,
                _ if start.elapsed() > TICK => return Ok(false),
                (true, true) => {
                    self.watcher.wait(SETTLING_TICK)?;
                }
                _ => {}
            }
            for path in events {
                self.look_at(path)?;
            }
        }
        for ((path, text), other) in self.batch.take() {
            match other {
                // The other limit first, if that is legal.
                Some((partner, other)) if self.tree.write(&partner, &other).is_err() => {
                    self.apply(&path, &text);
                    self.apply(&partner, &other);
                }
                _ => self.apply(&path, &text),
            }
        }
        Ok(true)
    }

    fn apply(&mut self, path: &str, text: &str) {
        if let Err(errno) = self.tree.write(path, text) {
            self.tree
                .report(&format!("{path}: `{}` refused: {errno}", text.trim()));
        }
    }

    /// Adds what a program has done to a file to the batch.
    fn look_at(&mut self, path: String) -> Result<(), MirrorError> {
        let on_disk = self.root.path(&path);
        let Some(entry) = self.entries.get_mut(&path) else {
            return Ok(());
        };
        let (Some(handle), Shown::Text(shown)) = (&entry.handle, &entry.shown) else {
            return Ok(());
        };
        let contents = read(handle, 0).map_err(at(&on_disk))?;
        if contents == *shown {
            return Ok(());
        }
        let words = self.tree.state.words(&path);
        self.batch.add(path, &contents, shown, &words);
        entry.shown = Shown::Text(contents);
        self.written = Some(Instant::now());
        Ok(())
    }

    fn take_commands(&mut self) -> Result<(), MirrorError> {
        let path = self.root.0.join(CONTROL);
        let length = self.control.metadata().map_err(at(&path))?.len();
        if length < self.obeyed {
            // A program has truncated the file and starts over.
            self.obeyed = 0;
        }
        let text = read(&self.control, self.obeyed).map_err(at(&path))?;
        let Some(end) = text.rfind('\n') else {
            return Ok(());
        };
        self.obeyed += end as u64 + 1;
        for line in text[..end].lines().filter(|line| !line.trim().is_empty()) {
            // An error is in the log.
            let _ = self.tree.control(line);
        }
        Ok(())
    }

    /// Brings everything on the disk up to date.
    fn publish_all(&mut self) -> Result<(), MirrorError> {
        self.publish_links()?;
        let paths: Vec<String> = self.entries.keys().cloned().collect();
        for path in paths {
            if !self.tree.state.layout.files[&path].is_writable() || self.is_quiet() {
                self.publish(&path)?;
            }
        }
        self.append_log()
    }

    /// Brings the files of the power sensors up to date.
    fn publish_sensors(&mut self) -> Result<(), MirrorError> {
        let sensors = std::mem::take(&mut self.sensors);
        let published = sensors.iter().try_for_each(|path| self.publish(path));
        self.sensors = sensors;
        published
    }

    /// Updates a file if it does not show what the tree shows.
    fn publish(&mut self, path: &str) -> Result<(), MirrorError> {
        let wanted = match (self.tree.refusal(path), self.tree.state.text(path)) {
            (Some(errno), _) => Shown::Error(errno),
            (None, Ok(text)) => Shown::Text(text),
            (None, Err(Errno::Enoent)) => Shown::Nothing,
            (None, Err(errno)) => Shown::Error(errno),
        };
        match self.entries[path].shown == wanted {
            true => Ok(()),
            false => self.show(path, wanted),
        }
    }

    /// Updates the cpufreq links of cores that came online or went offline.
    fn publish_links(&mut self) -> Result<(), MirrorError> {
        let online = self.tree.jetson().settings().online.clone();
        if online == self.online {
            return Ok(());
        }
        let aliases = self.tree.state.layout.aliases.clone();
        for (path, alias) in &aliases {
            let Some(core) = alias.core.map(|core| core as usize) else {
                continue;
            };
            if online[core] != self.online[core] {
                let target = match online[core] {
                    true => self.root.path(&alias.target),
                    false => self.root.0.join(OFFLINE),
                };
                self.root.link(&self.root.path(path), &target)?;
            }
        }
        self.online = online;
        Ok(())
    }

    fn show(&mut self, path: &str, mut wanted: Shown) -> Result<(), MirrorError> {
        let on_disk = self.root.path(path);
        if let Shown::Error(errno) = wanted {
            match self.link_to(path, errno)? {
                true => {}
                // A write is undone afterwards instead.
                false => {
                    let text = self.tree.state.text(path);
                    wanted = text.map_or(Shown::Nothing, Shown::Text);
                }
            }
        }
        let writable = self.tree.state.layout.files[path].is_writable();
        let entry = self.entries.get_mut(path).expect("a file that changes");
        match (&entry.shown, &wanted) {
            (shown, wanted) if shown == wanted => {}
            (Shown::Text(shown), Shown::Text(text)) => {
                let handle = entry.handle.as_ref().expect("an ordinary file is open");
                // A program has written meanwhile: its write is applied first.
                let meanwhile = writable && read(handle, 0).map_err(at(&on_disk))? != *shown;
                if meanwhile {
                    return Ok(());
                }
                replace(handle, shown.len(), text).map_err(at(&on_disk))?;
            }
            (_, Shown::Text(text)) => {
                let text = text.clone();
                self.links.release(path);
                let handle = self.root.make(&on_disk, &text, writable)?;
                if writable {
                    self.watcher.watch(path.to_owned(), &on_disk)?;
                }
                let entry = self.entries.get_mut(path).expect("a file that changes");
                entry.handle = Some(handle);
            }
            (_, Shown::Error(_)) => entry.handle = None,
            (_, Shown::Nothing) => {
                entry.handle = None;
                fs::remove_file(&on_disk).map_err(at(&on_disk))?;
            }
        }
        let entry = self.entries.get_mut(path).expect("a file that changes");
        entry.shown = wanted;
        Ok(())
    }

    /// Replaces the file by a link that gives the error; false if no file of the system gives it.
    fn link_to(&mut self, path: &str, errno: Errno) -> Result<bool, MirrorError> {
        // EAGAIN of unpowered thermal zones: EIO is the closest possible error.
        let possible = if errno == Errno::Eagain {
            Errno::Eio
        } else {
            errno
        };
        let text = self.tree.state.text(path).unwrap_or_default();
        let seen = (path.to_owned(), errno);
        if errno != possible && self.missed.insert(seen.clone()) {
            self.tree.report(&format!(
                "{path}: {errno} cannot be produced on a disk; using {possible}"
            ));
        }
        if errno == possible && self.missed.contains(&seen) {
            return Ok(false);
        }
        match self.links.target(path, possible, &text) {
            Ok(target) => {
                self.root.link(&self.root.path(path), &target)?;
                Ok(true)
            }
            Err(why) => {
                self.tree.report(&format!(
                    "{path}: error: {why}; writes are taken back instead"
                ));
                self.missed.insert(seen);
                Ok(false)
            }
        }
    }

    fn append_log(&mut self) -> Result<(), MirrorError> {
        let lines = &self.tree.log()[self.logged..];
        if lines.is_empty() {
            return Ok(());
        }
        let text = lines.join("\n") + "\n";
        self.logged += lines.len();
        let path = self.root.0.join(LOG);
        self.log.write_all(text.as_bytes()).map_err(at(&path))
    }

    fn publish_progress(&mut self) -> Result<(), MirrorError> {
        let (file, shown) = &mut self.progress;
        let jetson = self.tree.jetson();
        let progress = Progress {
            seconds: jetson.now().as_secs_f64(),
            work: jetson.work(),
        };
        let text = progress.to_string();
        let path = self.root.0.join(PROGRESS);
        replace(file, shown.len(), &text).map_err(at(&path))?;
        *shown = text;
        Ok(())
    }

    /// Leaves half a text in the file, like a process that dies during a write.
    fn write_half(&mut self, path: &str) -> Result<(), MirrorError> {
        let text = self.tree.state.text(path).unwrap_or_default();
        self.root.make(&self.root.path(path), half(&text), true)?;
        Ok(())
    }
}

/// A random number; the standard library draws a hasher's keys at random.
fn random() -> u128 {
    let half = || u128::from(RandomState::new().hash_one(()));
    half() << 64 | half()
}
