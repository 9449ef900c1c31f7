//! Saves a text to two files in a thread of its own, at most once a second, so that the control loop never waits for a
//! disk. Only the owner may read them.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use wattgate_cli::output::replace;

/// Least time between two writes, and the time between two attempts after a failure.
const WRITE_INTERVAL: Duration = Duration::from_secs(1);
const FAILURE_INTERVAL: Duration = Duration::from_secs(10);

/// What the thread and the control loop share.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// The text to save, with the number of its change.
    next: Option<(u64, String)>,
    saved: u64,
    /// Why the first of consecutive writes failed, until it was told.
    failure: Option<io::Error>,
    has_ended: bool,
}

/// The file and its thread. Dropping it writes what is left.
#[derive(Debug)]
pub struct Saver {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Saver {
    /// Starts the thread; writes nothing yet. A text counts as saved once it is in the last of the files; one that fails
    /// keeps it from no other.
    pub fn new(paths: impl Into<Vec<PathBuf>>) -> io::Result<Self> {
        let paths = paths.into();
        let shared = Arc::<Shared>::default();
        let theirs = Arc::clone(&shared);
        let thread = thread::Builder::new().name("saver".to_owned());
        let thread = thread.spawn(move || theirs.run(&paths))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Writes this text soon, unless a later one comes before.
    pub fn save(&self, change: u64, text: String) {
        self.shared.lock().next = Some((change, text));
        self.shared.changed.notify_one();
    }

    /// The number of the last change that was saved.
    pub fn saved(&self) -> u64 {
        self.shared.lock().saved
    }

    /// Writes what is left, ends the thread, and returns the number of the last change that was saved.
    pub fn end(mut self) -> u64 {
        self.join();
        self.saved()
    }

    fn join(&mut self) {
        self.shared.lock().has_ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened.
            let _ = thread.join();
        }
    }

    /// Why the last write failed; of consecutive failures only the first.
    pub fn failure(&self) -> Option<io::Error> {
        self.shared.lock().failure.take()
    }
}

impl Drop for Saver {
    fn drop(&mut self) {
        self.join();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, paths: &[PathBuf]) {
        let mut is_failing = false;
        loop {
            let idle = |state: &mut State| state.next.is_none() && !state.has_ended;
            let woken = self.changed.wait_while(self.lock(), idle);
            let next = woken.unwrap_or_else(PoisonError::into_inner).next.take();
            let Some((change, text)) = next else {
                return;
            };
            // Without the lock, for which the control loop would wait.
            let mut written = Ok(());
            for path in paths {
                written = save(path, &text);
            }
            let mut state = self.lock();
            let pause = match written {
                Ok(()) => {
                    (state.saved, is_failing) = (change, false);
                    WRITE_INTERVAL
                }
                Err(why) => {
                    if !std::mem::replace(&mut is_failing, true) {
                        state.failure = Some(why);
                    }
                    state.next.get_or_insert((change, text));
                    FAILURE_INTERVAL
                }
            };
            let runs = |state: &mut State| !state.has_ended;
            let ended = self.changed.wait_timeout_while(state, pause, runs);
            let (state, _) = ended.unwrap_or_else(PoisonError::into_inner);
            if state.has_ended && is_failing {
                return;
            }
        }
    }
}

fn save(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    replace(path, text.as_bytes())?;
    fs::set_permissions(path, Permissions::from_mode(0o600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_text_is_saved_at_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["deep/file", "other/file"].map(|it| folder.path().join(it));
        let saver = Saver::new(paths.clone()).expect("a thread");
        for change in 1..=1_000 {
            saver.save(change, change.to_string());
        }
        drop(saver);
        for path in &paths {
            assert_eq!(fs::read_to_string(path).expect("saved"), "1000");
            let mode = fs::metadata(path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn a_failure_is_told_once_and_the_end_does_not_wait() {
        let folder = tempfile::tempdir().expect("a folder");
        let paths = ["file", "folder"].map(|it| folder.path().join(it));
        fs::create_dir(&paths[1]).expect("made");
        let saver = Saver::new(paths.clone()).expect("a thread");
        saver.save(1, "text".to_owned());
        let mut failure = None;
        while failure.is_none() {
            failure = saver.failure();
            thread::yield_now();
        }
        assert!(saver.failure().is_none());
        assert_eq!(saver.saved(), 0);
        assert_eq!(fs::read_to_string(&paths[0]).expect("saved"), "text");
    }
}
