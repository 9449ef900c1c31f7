//! Saves what the running daemon learns of this unit.

use std::path::{Path, PathBuf};

use wattgate_runtime::Milliseconds;

use crate::clock::{Clock, System};
use crate::control::Priority;
use crate::daemon::Daemon;
use crate::deadline::InTime;
use crate::lesson::{self, Lesson, TaughtMode};
use crate::log::log;
use crate::saver::Saver;

/// Interval at which a lesson is saved.
const LESSON_INTERVAL: Milliseconds = Milliseconds(60_000);

/// Saves what was learned of this unit, in a thread of its own.
pub struct Lessons {
    root: PathBuf,
    /// The saver of the file for the model in force.
    saver: Option<(PathBuf, Saver)>,
    saved: Option<Lesson>,
    changes: u64,
    checked: Milliseconds,
    has_failed: bool,
}

impl Lessons {
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            saver: None,
            saved: None,
            changes: 0,
            checked: System.now(),
            has_failed: false,
        }
    }

    /// Once a minute, if there is something new.
    pub fn save(&mut self, daemon: &Daemon<InTime>) {
        let now = System.now();
        if now.since(self.checked) >= LESSON_INTERVAL {
            self.checked = now;
            self.give(daemon);
        }
    }

    fn give(&mut self, daemon: &Daemon<InTime>) {
        let at = System.utc();
        let Some(lesson) = daemon.lesson(at).filter(|_| at.is_set()) else {
            return;
        };
        if self
            .saved
            .as_ref()
            .is_none_or(|saved| saved.subject != lesson.subject)
        {
            self.saved = lesson::usable(&self.root, &lesson.subject, at);
        }
        let lesson = match &self.saved {
            Some(saved) => lesson.after(saved),
            None => lesson,
        };
        let said = |it: &Lesson| -> Vec<_> {
            let fields = |it: &TaughtMode| (it.mode, it.is_full, it.ln.to_bits());
            it.modes.iter().map(fields).collect()
        };
        if self.saved.as_ref().map(said) == Some(said(&lesson)) {
            return;
        }
        let path = lesson::file(&self.root, &lesson.subject);
        if self
            .saver
            .as_ref()
            .is_none_or(|(saved_path, _)| *saved_path != path)
        {
            self.saver = Saver::new([path.clone()]).ok().map(|saver| (path, saver));
        }
        if let Some((path, saver)) = &self.saver {
            self.changes += 1;
            saver.save(self.changes, lesson.to_string());
            if let Some(why) = saver.failure().filter(|_| !self.has_failed) {
                self.has_failed = true;
                log(
                    Priority::Warning,
                    format_args!(
                        "{}: what was learned of this unit is not saved: {why}",
                        path.display()
                    ),
                );
            }
        }
        self.saved = Some(lesson);
    }

    /// Saves what is left.
    pub fn end(&mut self, daemon: &Daemon<InTime>) {
        self.give(daemon);
        self.saver = None;
    }
}
