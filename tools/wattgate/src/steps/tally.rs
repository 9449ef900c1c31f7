//! The steps since the start, from what one line after another says.
//!
//! Bars begin again with each epoch, and a training shows several in turn: of the training and of its validation, or one of
//! the epochs around one of the batches. Counts with another total or other words before them are another **sequence**.
//! One sequence is counted: the one with most steps that is not a validation's, so that the batches of an epoch
//! win over the epochs. The user is told which one it is.

use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

use super::pattern::Found;

/// Number of sequences that are kept apart. Lines whose words differ each time would make more of them.
const MOST_SEQUENCES: usize = 8;

/// Words of a sequence that is not the training's.
const VALIDATION: [&str; 8] = [
    "val",
    "valid",
    "validation",
    "validating",
    "eval",
    "evaluating",
    "test",
    "sanity",
];

/// The rest of an epoch counts as done if it needs at most so many times the pace before. Else the program has begun
/// anew in the middle of the epoch.
const MOST_OF_PACE: f64 = 4.0;

/// A count that comes again within this time is the same line twice, as where a program prints and logs it.
const TWICE: Duration = Duration::from_millis(100);

/// Rates that move in one direction so many times in a row, and by so much in all, are means since the start: rates of intervals
/// scatter, and would do so by chance once in 20,000 times (1/8! twice).
const MEAN_RUN: u32 = 8;
const MEAN_DRIFT: f64 = 0.03;

/// What the user should know of the counts.
#[derive(Clone, Debug, PartialEq)]
pub enum Notice {
    /// There are several sequences, and one is counted.
    Several { counted: String, other: String },
    /// There are too many sequences to keep them apart.
    Many,
    /// The rates look like means since the start.
    Mean { from: f64, to: f64 },
}

impl Display for Notice {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Several { counted, other } => write!(
                f,
                "the output counts {counted} and {other} in turn; the steps are those of {counted}. For the other one write \
                 its words or its total into the pattern"
            ),
            Self::Many => write!(
                f,
                "the output has more than {MOST_SEQUENCES} counts that differ in their words or totals; they are taken for one. \
                 A pattern with the words before the count tells them apart"
            ),
            Self::Mean { from, to } => write!(
                f,
                "the rate moves in one direction, from {from:.4} to {to:.4} in {MEAN_RUN} lines, as a mean since the start does; \
                 take a count, or the rate of an interval (`ros2 topic hz --window 20`)"
            ),
        }
    }
}

/// Counts that belong together.
#[derive(Clone, Debug)]
struct Sequence {
    label: String,
    total: Option<u64>,
    last: u64,
    at: Instant,
    /// Steps per second between the last two counts that differed.
    pace: Option<f64>,
    /// Steps so far.
    steps: u64,
    /// Whether the user knows of it.
    has_told: bool,
}

impl Sequence {
    /// Takes a count, and returns the steps since the one before. `is_new` says that the line is not one that is drawn again.
    fn take(&mut self, count: u64, at: Instant, is_new: bool) -> u64 {
        let passed = at.saturating_duration_since(self.at);
        let more = match count.checked_sub(self.last) {
            // A log with one line an epoch.
            Some(0) if is_new && passed > TWICE => self.total.unwrap_or(0),
            Some(more) => more,
            None => {
                let rest = self
                    .total
                    .map_or(0, |total| total.saturating_sub(self.last));
                let in_time = MOST_OF_PACE * self.pace.unwrap_or(0.0) * passed.as_secs_f64();
                let whole = rest.saturating_add(count);
                if whole as f64 <= in_time {
                    whole
                } else {
                    count
                }
            }
        };
        if more > 0 && !passed.is_zero() {
            self.pace = Some(more as f64 / passed.as_secs_f64());
        }
        if more > 0 {
            self.at = at;
        }
        self.last = count;
        self.steps = self.steps.saturating_add(more);
        more
    }

    fn is_validation(&self) -> bool {
        let mut words = self.label.split(' ');
        words.any(|word| VALIDATION.contains(&&*word.to_ascii_lowercase()))
    }

    fn rank(&self) -> (bool, u64) {
        (!self.is_validation(), self.steps)
    }

    fn name(&self) -> String {
        match (&*self.label, self.total) {
            ("", Some(total)) => format!("to {total}"),
            (label, Some(total)) => format!("`{label}` to {total}"),
            ("", None) => "without a total".to_owned(),
            (label, None) => format!("`{label}`"),
        }
    }
}

/// The steps since the start. A rate is integrated from the line before.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    steps: f64,
    sequences: Vec<Sequence>,
    /// The sequence that counts.
    counted: usize,
    /// All counts are taken for one sequence.
    is_merged: bool,
    /// The last rate and when it was found.
    rated: Option<(f64, Instant)>,
    run: Run,
    has_told_of_mean: bool,
}

/// Rates that move in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    from: f64,
    is_rising: bool,
    length: u32,
}

impl Tally {
    /// Takes what was found at a time. `is_new` says that the line is not one that is drawn again. Returns what the user
    /// should know, once.
    pub fn take(&mut self, found: &Found, at: Instant, is_new: bool) -> Option<Notice> {
        match found {
            Found::Step => {
                self.steps += 1.0;
                None
            }
            Found::Count {
                count,
                total,
                label,
            } => self.count(*count, *total, label, at, is_new),
            Found::Rate(rate) => self.rate(*rate, at),
        }
    }

    /// Whole steps so far.
    pub fn steps(&self) -> u64 {
        self.steps as u64
    }

    fn count(
        &mut self,
        count: u64,
        total: Option<u64>,
        label: &str,
        at: Instant,
        is_new: bool,
    ) -> Option<Notice> {
        let is_same = |it: &Sequence| it.total == total && it.label == label;
        let known = match self.is_merged {
            true => Some(self.counted),
            false => self.sequences.iter().position(is_same),
        };
        let Some(known) = known else {
            return self.begin(count, total, label, at);
        };
        let sequence = &mut self.sequences[known];
        if self.is_merged {
            sequence.total = total;
        }
        let more = sequence.take(count, at, is_new);
        if known == self.counted {
            self.steps += more as f64;
            return None;
        }
        self.compare(known)
    }

    /// Counts another sequence if it has more steps from now on. Tells the user of each sequence once it has steps.
    fn compare(&mut self, known: usize) -> Option<Notice> {
        let other = match self.sequences[known].rank() > self.sequences[self.counted].rank() {
            true => std::mem::replace(&mut self.counted, known),
            false => known,
        };
        let sequence = &mut self.sequences[known];
        let is_known = std::mem::replace(&mut sequence.has_told, sequence.steps > 0);
        if other == known && (is_known || sequence.steps == 0) {
            return None;
        }
        self.sequences[other].has_told = true;
        let [counted, other] = [self.counted, other].map(|at| self.sequences[at].name());
        Some(Notice::Several { counted, other })
    }

    fn begin(
        &mut self,
        count: u64,
        total: Option<u64>,
        label: &str,
        at: Instant,
    ) -> Option<Notice> {
        if self.sequences.len() == MOST_SEQUENCES {
            self.is_merged = true;
            let counted = &mut self.sequences[self.counted];
            (counted.last, counted.at, counted.total) = (count, at, total);
            return Some(Notice::Many);
        }
        self.sequences.push(Sequence {
            label: label.to_owned(),
            total,
            last: count,
            at,
            pace: None,
            steps: count,
            has_told: false,
        });
        let new = self.sequences.len() - 1;
        if new == 0 {
            self.steps += count as f64;
            return None;
        }
        self.compare(new)
    }

    fn rate(&mut self, rate: f64, at: Instant) -> Option<Notice> {
        let (last, rated) = self.rated.replace((rate, at))?;
        self.steps += rate * at.saturating_duration_since(rated).as_secs_f64();
        let is_rising = rate > last;
        if rate != last {
            self.run = match self.run {
                run if run.length > 0 && run.is_rising == is_rising => Run {
                    length: run.length + 1,
                    ..run
                },
                _ => Run {
                    from: last,
                    is_rising,
                    length: 1,
                },
            };
        }
        let Run { from, length, .. } = self.run;
        let is_mean = length >= MEAN_RUN && (rate / from).ln().abs() > MEAN_DRIFT;
        (is_mean && !std::mem::replace(&mut self.has_told_of_mean, true))
            .then_some(Notice::Mean { from, to: rate })
    }
}
