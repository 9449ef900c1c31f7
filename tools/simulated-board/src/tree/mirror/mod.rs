//! A tree on a disk, for other processes: ordinary files in a directory, without root and
//! without FUSE.
//!
//! A program writes a file; inotify tells; the contents go through [`Tree::write`]; and the
//! file then shows what the kernel would show. A refused write appears as the old value on
//! read-back, and as a line in `control.log`.
//!
//! **Files stay what they are.** A changed value is written into the same file, not beside it
//! and renamed: a program may keep a sensor open and read it again at offset 0, as it may on a
//! board, and watches stay valid. In place a reader must find no half: `replace` first
//! lengthens the file by newlines, then puts the new text with one write, then cuts it off.
//! Whenever one reads, the first line is the old or the new text. (Linux promises no
//! atomicity between `read` and `write` on most file systems; for texts of some bytes, copied
//! at once, a mixture has not been seen.) Only a change between file, error and absence takes
//! a rename, and descriptors opened before then stay with the old file.
//!
//! **Errors** of open, read and write are links into the running system, see `links.rs`.
//! Where it has none, the file stays, the write is taken back, and `control.log` says so. EAGAIN
//! of unpowered thermal zones is EIO here.
//!
//! **Quick writes.** Events are read until there are no more, and then the contents that
//! remain are applied; a minimum and a maximum in one batch are applied in the order that is
//! legal. So a legal sequence is never refused, however quick. The limits:
//! - Nothing is applied before whoever writes has paused for some µs.
//! - Of several writes to one file in a batch only the last counts; an illegal one before it
//!   may pass unseen. A command in `control` is obeyed after all writes before it: who waits
//!   for its line in `control.log` knows that they have been applied.
//! - Until the tree has looked, some ms, read-back shows what was written; and a file that a
//!   program truncates before it writes is empty for others between the two.
//! - A text shorter than the one before, written without newline into a file that was not
//!   truncated, is known only where the knob has a table or words.
//! - A core that has been switched on has its cpufreq files some ms later.
//! - A write while the tree itself writes that file, some µs, can be lost.
//! - Writing what the file already shows is no event: nothing happens.
//!
//! **Power sensors.** Their files show what the registers held at most some 5 ms ago, and a read
//! takes no time; in simulated time it takes as long as the bus does.

mod batch;
mod disk;
mod links;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
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
use watcher::Watcher;

/// How often all files are brought up to date.
const TICK: Duration = Duration::from_millis(50);

/// How often those of the power sensors are, whose registers move all the time.
const SENSOR_TICK: Duration = Duration::from_millis(5);

/// The same while clocks follow a request.
const SETTLING_TICK: Duration = Duration::from_millis(2);

/// Files that programs write are brought up to date when nobody has written for so long: a
/// program in the middle of a sequence shall not meet the tree in the same file.
const QUIET: Duration = Duration::from_millis(10);

/// The commands, in the root.
pub const CONTROL: &str = "control";

/// What became of them, in the root.
pub const LOG: &str = "control.log";

/// Where the cpufreq links of offline cores lead, in the root.
const OFFLINE: &str = ".offline";

/// Why a tree is no longer kept alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was told to stop.
    Stopped,
    /// The board is too hot and has shut down.
    ShutDown,
    /// The command `crash`.
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
    /// Of an ordinary file.
    handle: Option<File>,
}

/// A tree on a disk.
#[derive(Debug)]
pub struct Mirror {
    root: Root,
    tree: Tree,
    watcher: Watcher,
    /// What changes, by its path in the tree.
    entries: BTreeMap<String, Entry>,
    /// Those of the power sensors.
    sensors: Vec<String>,
    batch: Batch,
    links: Links,
    /// Errors that no link could give and that were reported.
    missed: BTreeSet<(String, Errno)>,
    /// When a program has written last.
    written: Option<Instant>,
    /// Online cores as the cpufreq links show them.
    online: Vec<bool>,
    control: File,
    /// Bytes of it that were obeyed.
    obeyed: u64,
    log: File,
    /// Lines of the tree's log that are in the file.
    logged: usize,
}

impl Mirror {
    /// Puts all files into a directory that is empty or not there yet. Where that fails, the
    /// directory is left as it was.
    pub fn create(root: &Path, tree: Tree) -> Result<Self, MirrorError> {
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let (there, occupied) = match fs::read_dir(root) {
            Ok(mut entries) => (true, entries.next().is_some()),
            Err(error) if missing(&error) => (false, false),
            Err(error) => return Err(at(root)(error)),
        };
        if occupied {
            let root = root.to_owned();
            return Err(MirrorError::NotEmpty { root });
        }
        let filled = fs::create_dir_all(root)
            .map_err(at(root))
            .and_then(|()| Self::fill(root, tree));
        if filled.is_err() {
            // What went wrong is told; that cleaning up goes wrong as well adds nothing.
            let _ = fs::remove_dir_all(root);
            let _ = there.then(|| fs::create_dir(root));
        }
        filled
    }

    fn fill(root: &Path, tree: Tree) -> Result<Self, MirrorError> {
        // Links have to lead into the tree from every working directory.
        let root = fs::canonicalize(root).map_err(at(root))?;
        let open = |name: &str| {
            let path = root.join(name);
            let mut options = File::options();
            let options = options.read(true).append(true).create_new(true);
            options.open(&path).map_err(at(&path))
        };
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
            root: Root(root),
            tree,
        };
        let control = mirror.root.path(CONTROL);
        mirror.watcher.watch(CONTROL.to_owned(), &control)?;
        mirror.lay_out()?;
        mirror.publish_all()?;
        Ok(mirror)
    }

    /// Keeps the tree alive until `stop`, `speed` times as fast as the clock on the wall.
    pub fn run(&mut self, stop: &AtomicBool, speed: f64) -> Result<End, MirrorError> {
        self.run_noted(stop, speed, |_| {})
    }

    /// The same, and `note` sees the board at least every 10 ms of its time.
    pub fn run_noted(
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
            if self.take_writes()? {
                self.take_commands()?;
            }
            if let Some(path) = self.tree.crashed() {
                let path = path.to_owned();
                self.append_log()?;
                self.write_half(&path)?;
                return Ok(End::Crashed);
            }
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

    /// Applies what programs have written; false where they are still at it.
    fn take_writes(&mut self) -> Result<bool, MirrorError> {
        let start = Instant::now();
        // A file that is read may hold a later write than its event; what was written to
        // other files before has an event by then. So a batch ends when there are no more,
        // and when whoever has truncated a file has written it.
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
                // Whichever order is legal.
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
            // Somebody has emptied it and begins anew.
            self.obeyed = 0;
        }
        let text = read(&self.control, self.obeyed).map_err(at(&path))?;
        let Some(end) = text.rfind('\n') else {
            return Ok(());
        };
        self.obeyed += end as u64 + 1;
        for line in text[..end].lines().filter(|line| !line.trim().is_empty()) {
            // The log tells.
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

    /// Writes a file if it shows something else than the tree.
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

    /// The cpufreq links of cores that came or went.
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
                // Refused afterwards instead.
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
                // A program that has written meanwhile has the word.
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

    /// Makes the file a link that gives the error; false where nothing gives it.
    fn link_to(&mut self, path: &str, errno: Errno) -> Result<bool, MirrorError> {
        // Unpowered thermal zones: the nearest that there is.
        let possible = if errno == Errno::Eagain {
            Errno::Eio
        } else {
            errno
        };
        let text = self.tree.state.text(path).unwrap_or_default();
        let seen = (path.to_owned(), errno);
        if errno != possible && self.missed.insert(seen.clone()) {
            self.tree.report(&format!(
                "{path}: {errno} cannot be had on a disk; it is {possible}"
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

    /// What a process leaves that dies while it writes.
    fn write_half(&mut self, path: &str) -> Result<(), MirrorError> {
        let text = self.tree.state.text(path).unwrap_or_default();
        self.root.make(&self.root.path(path), half(&text), true)?;
        Ok(())
    }
}
