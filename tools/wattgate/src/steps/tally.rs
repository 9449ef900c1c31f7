//! The steps since the start, from what one line after another says.
//!
//! Bars begin again with each epoch, and a training shows several in turn: of the training and of its validation, or one of
//! the epochs around one of the batches. Counts with another total or other words before them are another **sequence**.
//! One sequence is counted, which is not a validation's if there is another ([`Choice`]). The user is told which one it is.

use std::fmt::{self, Display, Formatter};
use std::time::{Duration, Instant};

use super::pattern::{Choice, Found};

/// Number of sequences that are kept apart. Lines whose words differ each time would make more of them.
const MOST_SEQUENCES: usize = 8;

/// Words of a sequence that is not the training's.
const VALIDATION: [&str; 13] = [
    "dev",
    "val",
    "valid",
    "validate",
    "validation",
    "validating",
    "eval",
    "evaluate",
    "evaluating",
    "evaluation",
    "test",
    "testing",
    "sanity",
];

/// The counts at the end of an epoch and at the beginning of the next one may lack at most so many times the steps between two
/// lines of it.
const MOST_STRIDES: u64 = 2;

/// A count that falls by at most this part of itself, and not by the end of an epoch, comes from a second process that
/// counts the same steps.
const LAG: f64 = 0.1;

/// A count that stays the same on so many new lines is told.
const STUCK_LINES: u32 = 5;

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
    /// The count has fallen, but no epoch has ended.
    Fell { from: u64, to: u64 },
    /// New lines show the same count.
    Stuck(u64),
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
                 take a count, or the rate of an interval"
            ),
            Self::Fell { from, to } => write!(
                f,
                "the count fell from {from} to {to}, which is no end of an epoch; the program began anew, or several bars look \
                 alike and the steps are wrong: then write the words before one of them into the pattern"
            ),
            Self::Stuck(count) => write!(
                f,
                "the count stays at {count} on {STUCK_LINES} lines; if the workload goes on, count something else. `ros2 topic hz` counts \
                 to its window: start it with `--window 1000000`"
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
    /// When it began.
    began: Instant,
    /// When the last step was counted.
    at: Instant,
    /// The most steps between two lines.
    stride: u64,
    /// Steps so far.
    steps: u64,
    /// New lines in a row with the last count.
    repeats: u32,
    /// Whether it has shown more than one count.
    has_varied: bool,
    /// Whether it has begun again.
    has_restarted: bool,
    /// The count before this one if that was higher.
    fell_from: Option<u64>,
    /// Whether the user knows of it.
    has_told: bool,
}

impl Sequence {
    fn new(label: &str, total: Option<u64>, count: u64, at: Instant) -> Self {
        Self {
            label: label.to_owned(),
            total,
            last: count,
            began: at,
            at,
            stride: 0,
            steps: count,
            repeats: 0,
            has_varied: false,
            has_restarted: false,
            fell_from: None,
            has_told: false,
        }
    }

    /// Takes a count, and returns the steps since the one before. `is_new` says that the line is not one that is drawn again.
    fn take(&mut self, count: u64, at: Instant, is_new: bool) -> (u64, Option<Notice>) {
        let last = self.last;
        if count == last {
            return self.repeat(at, is_new);
        }
        let (more, notice) = match count.checked_sub(last) {
            Some(more) => {
                self.stride = self.stride.max(more);
                // It returns at once to where it was before it fell: two bars look alike.
                let from = self.fell_from.filter(|from| count > *from);
                (more, from.map(|from| Notice::Fell { from, to: last }))
            }
            None => match self.fall(count) {
                Fall::Lag(notice) => return (0, Some(notice)),
                Fall::Anew(more, notice) => (more, notice),
            },
        };
        self.fell_from = Some(last).filter(|last| count < *last);
        self.has_varied = true;
        self.repeats = 0;
        self.last = count;
        self.count(more, at);
        (more, notice)
    }

    fn count(&mut self, more: u64, at: Instant) {
        if more > 0 {
            self.at = at;
        }
        self.steps = self.steps.saturating_add(more);
    }

    /// The same count again. A log with one line an epoch shows no other one.
    fn repeat(&mut self, at: Instant, is_new: bool) -> (u64, Option<Notice>) {
        let passed = at.saturating_duration_since(self.at);
        if !is_new || passed <= TWICE {
            return (0, None);
        }
        let total = self
            .total
            .filter(|total| !self.has_varied && self.may_end_at(*total));
        if let Some(total) = total {
            self.count(total, at);
            return (total, None);
        }
        self.repeats += 1;
        // A bar that is done may stay for long.
        let is_stuck = self.repeats == STUCK_LINES && self.total.is_none();
        (0, is_stuck.then_some(Notice::Stuck(self.last)))
    }

    /// A count below the one before: an epoch, if the one before was at its end as far as lines show it.
    fn fall(&mut self, count: u64) -> Fall {
        let from = self.last;
        let stride = if self.has_varied { self.stride } else { from };
        let unseen = MOST_STRIDES * stride.max(1);
        let rest = self.total.map_or(0, |total| total.saturating_sub(from));
        let is_start = count <= unseen;
        let fell = Notice::Fell { from, to: count };
        if is_start && rest <= unseen {
            self.has_restarted = true;
            return Fall::Anew(rest + count, None);
        }
        if (from - count) as f64 <= LAG * from as f64 {
            return Fall::Lag(fell);
        }
        self.has_restarted = true;
        // It begins anew, or it goes on from a checkpoint.
        let more = if is_start { count } else { 1 };
        Fall::Anew(more, Some(fell))
    }

    /// Whether the last count may be the last one before a total: there was no second one within it.
    fn may_end_at(&self, total: u64) -> bool {
        (total.div_ceil(2)..=total).contains(&self.last)
    }

    fn is_complete(&self) -> bool {
        self.total == Some(self.last)
    }

    /// Whether it is complete and has been so for longer than it ran, as the bar of a preparation.
    fn is_over(&self, now: Instant) -> bool {
        let quiet = now.saturating_duration_since(self.at);
        self.is_complete()
            && !self.has_restarted
            && quiet > self.at.saturating_duration_since(self.began)
    }

    /// Whether it is to be counted in place of another one.
    fn is_better(&self, other: &Self, choice: Choice, now: Instant) -> bool {
        if self.is_validation() != other.is_validation() {
            return other.is_validation();
        }
        other.is_over(now)
            || match choice {
                Choice::Longest => self.steps > other.steps,
                Choice::Outermost => {
                    other.is_complete() && self.began >= other.at && self.total > other.total
                }
            }
    }

    fn is_validation(&self) -> bool {
        let mut words = self.label.split(' ');
        words.any(|word| VALIDATION.contains(&&*word.to_ascii_lowercase()))
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

/// What a count below the one before means.
enum Fall {
    /// Nothing: a second process counts the same steps.
    Lag(Notice),
    /// Steps since the count before.
    Anew(u64, Option<Notice>),
}

/// The steps since the start. A rate is integrated from the line before.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    choice: Choice,
    steps: f64,
    sequences: Vec<Sequence>,
    /// The sequence that counts.
    counted: usize,
    /// All counts are taken for one sequence.
    is_merged: bool,
    /// The last rate and when it was found.
    rated: Option<(f64, Instant)>,
    /// Time between the last two rates.
    interval: Option<Duration>,
    run: Run,
    has_told_of_mean: bool,
    has_told_of_fall: bool,
}

/// Rates that move in one direction.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    from: f64,
    is_rising: bool,
    length: u32,
}

impl Tally {
    pub fn new(choice: Choice) -> Self {
        Self {
            choice,
            ..Self::default()
        }
    }

    /// Takes what was found at a time. `is_new` says that the line is not one that is drawn again. Returns what the user
    /// should know, once.
    pub fn take(&mut self, found: &Found, at: Instant, is_new: bool) -> Option<Notice> {
        match found {
            Found::Steps(steps) => {
                self.steps += *steps as f64;
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
        // The total may be known only after the first epoch.
        let is_first_epoch = |it: &Sequence| {
            it.total.is_none()
                && it.label == label
                && total.is_some_and(|total| it.may_end_at(total))
        };
        let known = |is_it: &dyn Fn(&Sequence) -> bool| self.sequences.iter().position(is_it);
        let known = match self.is_merged {
            true => Some(self.counted),
            false => known(&is_same).or_else(|| known(&is_first_epoch)),
        };
        let Some(known) = known else {
            return self.begin(count, total, label, at);
        };
        let sequence = &mut self.sequences[known];
        sequence.total = total;
        let (more, notice) = sequence.take(count, at, is_new);
        if known != self.counted {
            return self.compare(known, at);
        }
        self.steps += more as f64;
        match notice {
            Some(Notice::Fell { .. }) if self.has_told_of_fall => None,
            notice => {
                self.has_told_of_fall |= matches!(notice, Some(Notice::Fell { .. }));
                notice
            }
        }
    }

    /// Counts another sequence from now on if it is the better one. Tells the user of each sequence once it has steps.
    fn compare(&mut self, known: usize, now: Instant) -> Option<Notice> {
        let is_better =
            self.sequences[known].is_better(&self.sequences[self.counted], self.choice, now);
        let other = match is_better {
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
        let new = self.sequences.len();
        self.sequences.push(Sequence::new(label, total, count, at));
        if new == 0 {
            self.steps += count as f64;
            return None;
        }
        self.compare(new, at)
    }

    fn rate(&mut self, rate: f64, at: Instant) -> Option<Notice> {
        let (last, rated) = self.rated.replace((rate, at))?;
        let mut interval = at.saturating_duration_since(rated);
        // vLLM prints a rate of zero, and then no line until it has something to do.
        if let Some(before) = self
            .interval
            .filter(|before| last == 0.0 && interval > 2 * *before)
        {
            interval = before;
        }
        self.interval = Some(interval);
        self.steps += rate * interval.as_secs_f64();
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
