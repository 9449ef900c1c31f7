//! Writes to knobs: each is read back, with retries, and recorded in a journal that can undo it.

use std::time::Duration;

use thiserror::Error;

use crate::files::{Files, Knob, KnobError};

/// Time between two reads of a file that is not ready yet: the files of a cluster appear some time
/// after its first core is on, and the memory's rate takes 8 ms (`jetson-platform.md`, section 8).
const RETRY_AFTER: Duration = Duration::from_millis(2);

/// Maximum number of retries of one read.
const RETRIES: u32 = 25;

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
    /// With room for four writes to each knob, so that recording does not allocate: a transition
    /// writes each knob at most twice, and runs at most twice.
    pub fn new(knobs: usize) -> Self {
        Self(Vec::with_capacity(4 * knobs))
    }

    /// The number of writes.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets all writes.
    pub fn clear(&mut self) {
        self.0.clear();
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
        match failures.first {
            None => ChangeError::Undone { cause },
            Some(first) => ChangeError::NotUndone {
                cause,
                left: failures.count,
                first,
            },
        }
    }
}

/// Failures of some knobs; the other knobs were still written.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    pub count: u32,
    pub first: Option<KnobError>,
}

impl Failures {
    pub fn add(&mut self, error: KnobError) {
        self.count += 1;
        self.first.get_or_insert(error);
    }

    /// Adds failures that came after these.
    pub fn join(&mut self, later: Self) {
        self.count += later.count;
        self.first = self.first.take().or(later.first);
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

/// Reads a knob, with retries.
pub(crate) fn read(files: &mut impl Files, knob: &Knob) -> Result<i64, KnobError> {
    with_retries(files, RETRIES, |files| knob.read(files))
}

/// Waits until a knob shows a value.
fn read_back(files: &mut impl Files, knob: &Knob, wanted: i64) -> Result<(), KnobError> {
    with_retries(files, RETRIES, |files| expect(files, knob, wanted))
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

/// Sets a limit of a clock. Where cooling caps the clock, the limit shows a lower value.
pub(crate) fn put_limit(
    files: &mut impl Files,
    journal: &mut Journal,
    knob: &Knob,
    wanted: i64,
) -> Result<(), KnobError> {
    let earlier = read(files, knob)?;
    journal.write(files, knob, [earlier, wanted])?;
    read_back_at_most(files, knob, wanted)
}

/// Waits until a knob shows at most a value.
pub(crate) fn read_back_at_most(
    files: &mut impl Files,
    knob: &Knob,
    most: i64,
) -> Result<(), KnobError> {
    with_retries(files, RETRIES, |files| match knob.read(files)? {
        found if found <= most => Ok(()),
        found => Err(KnobError::Differs {
            path: knob.0.clone(),
            wanted: most,
            found,
        }),
    })
}

/// Sets a knob, unless it has the value already.
pub(crate) fn put(
    files: &mut impl Files,
    journal: &mut Journal,
    knob: &Knob,
    wanted: i64,
) -> Result<(), KnobError> {
    match read(files, knob)? {
        earlier if earlier == wanted => Ok(()),
        earlier => replace(files, journal, knob, [earlier, wanted]),
    }
}

/// Sets a knob, even if it has the value already.
pub(crate) fn put_anyway(
    files: &mut impl Files,
    journal: &mut Journal,
    knob: &Knob,
    wanted: i64,
) -> Result<(), KnobError> {
    let earlier = read(files, knob)?;
    replace(files, journal, knob, [earlier, wanted])
}

fn replace(
    files: &mut impl Files,
    journal: &mut Journal,
    knob: &Knob,
    [earlier, wanted]: [i64; 2],
) -> Result<(), KnobError> {
    journal.write(files, knob, [earlier, wanted])?;
    read_back(files, knob, wanted)
}
