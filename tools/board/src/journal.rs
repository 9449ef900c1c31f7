//! Writes to knobs: each is read back, with retries, and recorded in a journal that can undo it.

use std::time::Duration;

use thiserror::Error;

use crate::files::{Files, Knob, KnobError};

/// Time between two reads of a file that is not ready yet: the files of a cluster appear some time
/// after its first core is on, and the memory's rate takes 8 ms (`jetson-platform.md`, section 8).
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// Maximum number of retries of one read.
pub(crate) const READ_RETRIES: u32 = 25;

/// Why a change was undone.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ChangeError {
    /// All knobs show what they showed before.
    #[error("{cause}; all writes before were undone")]
    Undone { cause: KnobError },
    /// Not all writes could be undone.
    #[error("{cause}; {left} writes could not be undone, the first failure: {first}")]
    NotUndone {
        cause: KnobError,
        /// The number of writes that could not be undone.
        left: u32,
        /// The first failure while undoing.
        first: KnobError,
    },
}

/// All writes in order, each with the value that the knob had before.
#[derive(Debug)]
pub(crate) struct Journal(Vec<(Knob, i64)>);

impl Journal {
    /// Without writes yet.
    pub fn new() -> Self {
        Self(Vec::new())
    }

    /// Records the earlier value of a knob, and writes the wanted one.
    fn write(
        &mut self,
        files: &mut impl Files,
        knob: &Knob,
        [earlier, wanted]: [i64; 2],
    ) -> Result<(), KnobError> {
        self.0.push((knob.clone(), earlier));
        knob.write(files, wanted)
    }

    /// Undoes all writes in reverse order after the failure `cause`. If a file cannot be restored,
    /// the others still are.
    pub fn undo(&mut self, files: &mut impl Files, cause: KnobError) -> ChangeError {
        let mut failures = Failures::default();
        while let Some((knob, earlier)) = self.0.pop() {
            // A knob that refuses every write may still show its earlier value.
            let written = knob.write(files, earlier);
            if let Err(error) = read_back(files, &knob, earlier) {
                failures.add(written.err().unwrap_or(error));
            }
        }
        let left = failures.count() as u32;
        match failures.0.into_iter().next() {
            None => ChangeError::Undone { cause },
            Some(first) => ChangeError::NotUndone { cause, left, first },
        }
    }
}

/// Failures of some knobs; the other knobs were still written.
#[derive(Debug, Default)]
pub(crate) struct Failures(pub Vec<KnobError>);

impl Failures {
    pub fn add(&mut self, error: KnobError) {
        self.0.push(error);
    }

    /// Their number.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Adds failures that came after these.
    pub fn join(&mut self, later: Self) {
        self.0.extend(later.0);
    }
}

/// Calls `attempt` until it succeeds, with at most `retries` retries.
pub(crate) fn with_retries<F: Files, T>(
    files: &mut F,
    retries: u32,
    attempt: impl Fn(&F) -> Result<T, KnobError>,
) -> Result<T, KnobError> {
    let mut found = attempt(files);
    for _ in 0..retries {
        if found.is_ok() {
            break;
        }
        files.wait(RETRY_AFTER);
        found = attempt(files);
    }
    found
}

/// Waits until a knob shows a value.
fn read_back(files: &mut impl Files, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
    with_retries(files, READ_RETRIES, |files| expect(files, knob, wanted))
}

/// Reads a knob once; another value than `wanted` is an error.
pub(crate) fn expect(files: &impl Files, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
    match knob.read(files)? {
        found if found == wanted => Ok(()),
        found => Err(KnobError::Differs {
            path: knob.0.clone(),
            wanted,
            found,
        }),
    }
}

/// Waits until a knob shows at most a value.
pub(crate) fn read_back_at_most(
    files: &mut impl Files,
    knob: &Knob,
    most: i64,
) -> Result<(), KnobError> {
    with_retries(files, READ_RETRIES, |files| {
        expect_at_most(files, knob, most)
    })
}

/// Reads a knob once; a higher value than `most` is an error.
pub(crate) fn expect_at_most(files: &impl Files, knob: &Knob, most: i64) -> Result<(), KnobError> {
    match knob.read(files)? {
        found if found <= most => Ok(()),
        found => Err(KnobError::Differs {
            path: knob.0.clone(),
            wanted: most,
            found,
        }),
    }
}

/// Sets a knob, unless it has the value already.
pub(crate) fn put(
    files: &mut impl Files,
    journal: &mut Journal,
    knob: &Knob,
    wanted: i64,
) -> Result<(), KnobError> {
    match with_retries(files, READ_RETRIES, |files| knob.read(files))? {
        earlier if earlier == wanted => Ok(()),
        earlier => {
            journal.write(files, knob, [earlier, wanted])?;
            read_back(files, knob, wanted)
        }
    }
}
