//! Watches for writes of programs with inotify.

use std::collections::HashMap;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;

/// Watches files for writes.
#[derive(Debug)]
pub struct Watcher {
    inotify: OwnedFd,
    /// Paths in the tree, by watch.
    watches: HashMap<i32, String>,
}

impl Watcher {
    /// Creates a watcher without watches.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            inotify: inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?,
            watches: HashMap::new(),
        })
    }

    /// Watches a file; `path` is its path in the tree.
    pub fn watch(&mut self, path: String, on_disk: &Path) -> Result<(), Errno> {
        let watch = inotify::add_watch(&self.inotify, on_disk, WatchFlags::MODIFY)?;
        self.watches.insert(watch, path);
        Ok(())
    }

    /// Waits until a file is written, or the time is over. Returns whether one was written.
    pub fn wait(&self, at_most: Duration) -> Result<bool, Errno> {
        let at_most = Timespec {
            tv_sec: 0,
            tv_nsec: at_most.as_nanos() as _,
        };
        let mut waiting = [PollFd::new(&self.inotify, PollFlags::IN)];
        match poll(&mut waiting, Some(&at_most)) {
            Ok(ready) => Ok(ready > 0),
            // A signal. The caller checks its stop flag.
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The files that were written since the last call.
    pub fn events(&mut self) -> Result<Vec<String>, Errno> {
        let mut events = Vec::new();
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Err(Errno::WOULDBLOCK) => return Ok(events),
                event => event?,
            };
            let kind = event.events();
            if kind.contains(ReadFlags::QUEUE_OVERFLOW) {
                // Events were lost: report all files.
                events.extend(self.watches.values().cloned());
            } else if kind.contains(ReadFlags::IGNORED) {
                self.watches.remove(&event.wd());
            } else {
                events.extend(self.watches.get(&event.wd()).cloned());
            }
        }
    }
}
