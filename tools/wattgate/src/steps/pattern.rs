//! `--steps-from`: a regular expression that finds the steps in a line of output, or the name of a tool whose output
//! is known.

use std::fmt::{self, Display, Formatter};
use std::str;

use regex::bytes::{Match, Regex};
use thiserror::Error;
use wattgate_cli::quantity::{TIMES, measure};

use super::lines::Line;

/// The tools whose output is known, each with its pattern.
///
/// | tool | a step is |
/// |---|---|
/// | `tqdm` | a step of the bar |
/// | `hf` | a step of the Trainer of Hugging Face, whose bar is tqdm's without words before it, and not of an evaluation |
/// | `keras`, `lightning`, `ultralytics` | a batch of the training; with `ultralytics` also an image of a prediction |
/// | `llama.cpp` | a request of the server |
/// | `vllm` | a token that the first engine, or all of them, generated |
/// | `ros2-hz` | a message, until there are as many as the window has |
/// | `trtexec` | a query, which it prints at its end |
/// | `deepstream` | a frame of the first stream |
pub const TOOLS: [(&str, &str); 10] = [
    (
        "tqdm",
        r"(?P<count>\d+)(?:/(?P<total>\d+)| ?[^\s\d\[]+)? +\[ ?\d+:\d\d",
    ),
    (
        HF,
        r"^\s*\d+%\|[^|]*\| *(?P<count>\d+)/(?P<total>\d+) \[\d+:\d\d",
    ),
    (
        "keras",
        r"^\s*(?P<count>\d+)/(?:(?P<total>\d+)|Unknown) .*(?:/step|ETA: )",
    ),
    (
        "lightning",
        r"^Epoch \d+.*?[| ](?P<count>\d+)/(?P<total>\d+) (?:\[\d+:|\d+:\d\d)",
    ),
    (
        "ultralytics",
        r"^\s*\d+/\d+\s.*:\s+\d+%.*?\s(?P<count>\d+)/(?P<total>\d+) |^(?:(?:image|video) \d+/\d+ .*|\d+): \d+x\d+ .*, [\d.]+ms$",
    ),
    ("llama.cpp", r"\btotal time ="),
    (
        "vllm",
        r"(?:\] |Engine 000: |Aggregated: )Avg prompt throughput: .*Avg generation throughput: (?P<rate>[\d.]+) tokens/s",
    ),
    ("ros2-hz", r"^\s+min: .* window: (?P<count>\d+)$"),
    (
        "trtexec",
        r"(?:Warmup completed|Timing trace has) (?P<steps>\d+) queries",
    ),
    (
        "deepstream",
        r"^\*\*PERF:\s+(?:\{'stream0': )?(?P<rate>[\d.]+)[ ,}]",
    ),
];

const HF: &str = "hf";

/// The groups that have a meaning.
const GROUPS: &str = "count, total, steps, rate and period";

/// What a pattern captures. Groups are named by their index.
#[derive(Clone, Copy, Debug)]
enum Captured {
    /// Each match is a step.
    Nothing,
    /// Steps since the start, or since the start of an epoch, and the steps of the epoch.
    Count { count: usize, total: Option<usize> },
    /// Steps since the line before.
    Steps(usize),
    /// Steps per second.
    Rate(usize),
    /// Time of a step.
    Period(usize),
}

/// Which of several sequences is counted, of those that are no validation's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// That with most steps, so that the batches of an epoch win over the epochs.
    #[default]
    Longest,
    /// That around the others, so that a training wins over the evaluations in it.
    Outermost,
}

/// A regular expression that finds steps.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    captured: Captured,
    /// As the user has written it.
    text: String,
}

/// Why a text is not a [`Pattern`].
#[derive(Clone, Debug, Error)]
pub enum PatternError {
    #[error(
        "`{pattern}` is neither a known tool nor a regular expression: {}; quote it for the shell, and escape brackets that are \
         text",
        cause(why)
    )]
    Syntax { pattern: String, why: regex::Error },
    #[error("`{pattern}` has a group `{group}`; the groups are {GROUPS}")]
    UnknownGroup { pattern: String, group: String },
    #[error("`{0}` has several of the groups count, steps, rate and period; expected one of them")]
    SeveralGroups(String),
}

/// The last line of what the parser says, which shows the pattern before.
fn cause(why: &regex::Error) -> String {
    let text = why.to_string();
    let last = text.lines().last().unwrap_or_default();
    last.trim().trim_start_matches("error: ").to_owned()
}

/// What a line says.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Steps since the line before.
    Steps(u64),
    /// Steps since the start of a sequence, such as an epoch.
    Count {
        count: u64,
        /// The steps of the sequence.
        total: Option<u64>,
        /// The words before the count, which tell one bar from another.
        label: String,
    },
    /// Steps per second.
    Rate(f64),
}

impl Display for Found {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps(1) => f.write_str("a step"),
            Self::Steps(steps) => write!(f, "{steps} steps"),
            Self::Count { count, total, .. } => {
                write!(f, "the count {count}")?;
                total.map_or(Ok(()), |total| write!(f, " of {total}"))
            }
            Self::Rate(rate) => write!(f, "{rate:.4} steps a second"),
        }
    }
}

/// Why what a pattern captures is no count.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoCount {
    #[error(
        "`{0}` is a fraction, and a count of steps is a whole number; a group `rate` takes steps per second, a group \
         `period` the time of a step"
    )]
    Fraction(String),
    #[error(
        "`{found}` is a part of the number `{number}`; let the group take all of it, as `([\\d,]+)` does"
    )]
    Part { found: String, number: String },
    #[error("`{0}` is rounded to thousands; let the program print all digits of the count")]
    Rounded(String),
    #[error(
        "`{0}` has a unit of measure, so it is no count of steps; a group `rate` takes steps per second, a group `period` the time of a step"
    )]
    Unit(String),
}

impl Pattern {
    /// Takes the name of a tool, or compiles a regular expression. The group `count`, or the first group if none has a
    /// name, is the count of steps; `total` is the number at which the count ends. Instead `steps` is the steps that the line adds,
    /// `rate` steps per second, and `period` the time of a step. Without groups each line that matches is a step.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let tool = TOOLS.iter().find(|(name, _)| *name == text);
        let regex = Regex::new(tool.map_or(text, |(_, pattern)| pattern));
        let regex = regex.map_err(|why| PatternError::Syntax {
            pattern: text.to_owned(),
            why,
        })?;
        let named: Vec<(usize, &str)> = regex
            .capture_names()
            .enumerate()
            .filter_map(|(index, name)| Some((index, name?)))
            .collect();
        let index = |wanted: &str| {
            named
                .iter()
                .find(|(_, name)| *name == wanted)
                .map(|(i, _)| *i)
        };
        let known = ["count", "total", "steps", "rate", "period"];
        if let Some((_, group)) = named.iter().find(|(_, name)| !known.contains(name)) {
            return Err(PatternError::UnknownGroup {
                pattern: text.to_owned(),
                group: (*group).to_owned(),
            });
        }
        let total = index("total");
        // A group without a name is the count only if no group says what it takes.
        let first = (1..regex.captures_len()).find(|at| named.iter().all(|(named, _)| named != at));
        let told = [
            index("count").map(|count| Captured::Count { count, total }),
            index("steps").map(Captured::Steps),
            index("rate").map(Captured::Rate),
            index("period").map(Captured::Period),
        ];
        let mut told = told.into_iter().flatten();
        let captured = match (told.next(), told.next(), first) {
            (Some(captured), None, _) => captured,
            (Some(_), Some(_), _) => return Err(PatternError::SeveralGroups(text.to_owned())),
            (None, _, Some(count)) => Captured::Count { count, total },
            (None, _, None) => Captured::Nothing,
        };
        let text = text.to_owned();
        Ok(Self {
            regex,
            captured,
            text,
        })
    }

    /// The text that the user has written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Which of several bars counts.
    pub fn choice(&self) -> Choice {
        match self.text == HF {
            true => Choice::Outermost,
            false => Choice::Longest,
        }
    }

    /// What the first match in a line says. In a line that may go on, a number at its very end may lack digits and is not
    /// taken.
    pub fn find(&self, line: &Line<'_>) -> Result<Option<Found>, NoCount> {
        let Some(groups) = self.regex.captures(line.text) else {
            return Ok(None);
        };
        let is_whole = |end: usize| line.is_complete || end < line.text.len();
        let step = || is_whole(line.text.len()).then_some(Found::Steps(1));
        let group = match self.captured {
            Captured::Nothing => return Ok(step()),
            Captured::Count { count: at, .. }
            | Captured::Steps(at)
            | Captured::Rate(at)
            | Captured::Period(at) => groups.get(at),
        };
        // An alternative of the pattern without the group.
        let Some(group) = group else {
            return Ok(step());
        };
        if !is_whole(group.end()) {
            return Ok(None);
        }
        let after = &line.text[group.end()..];
        match self.captured {
            Captured::Nothing => Ok(None),
            Captured::Steps(_) => Ok(count(line.text, &group)?.map(Found::Steps)),
            Captured::Rate(_) => Ok(rate(group.as_bytes(), after).map(Found::Rate)),
            Captured::Period(_) => {
                Ok(period(group.as_bytes(), after).map(|period| Found::Rate(period.recip())))
            }
            Captured::Count { total: at, .. } => {
                let Some(count) = count(line.text, &group)? else {
                    return Ok(None);
                };
                let total = match at.and_then(|at| groups.get(at)) {
                    Some(total) => Total::parse(total.as_bytes(), is_whole(total.end())),
                    None => Total::after(after, line.is_complete),
                };
                let total = match total {
                    Total::Known(total) => Some(total),
                    Total::Absent => None,
                    Total::Cut => return Ok(None),
                };
                let label = label(&line.text[..group.start()]);
                Ok(Some(Found::Count {
                    count,
                    total,
                    label,
                }))
            }
        }
    }
}

/// The number at which a count ends.
enum Total {
    Known(u64),
    Absent,
    /// The line may go on within the number.
    Cut,
}

impl Total {
    fn parse(text: &[u8], is_whole: bool) -> Self {
        match whole(text) {
            Some(total) if is_whole => Self::Known(total),
            Some(_) => Self::Cut,
            None => Self::Absent,
        }
    }

    /// The total of bars such as `12/250` and `[  12 / 250]`, from what follows the count.
    fn after(text: &[u8], is_complete: bool) -> Self {
        let Some(rest) = text.trim_ascii_start().strip_prefix(b"/") else {
            return Self::Absent;
        };
        let rest = rest.trim_ascii_start();
        let end = rest
            .iter()
            .position(|byte| !byte.is_ascii_digit() && *byte != b',');
        let (digits, rest) = rest.split_at(end.unwrap_or(rest.len()));
        let is_other = rest
            .first()
            .is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'.');
        match is_other {
            true => Self::Absent,
            false => Self::parse(
                digits.strip_suffix(b",").unwrap_or(digits),
                is_complete || !rest.is_empty(),
            ),
        }
    }
}

/// The whole number in a group; commas may separate its thousands. `None` for a text that is no number.
fn count(line: &[u8], group: &Match<'_>) -> Result<Option<u64>, NoCount> {
    let (before, after) = (&line[..group.start()], &line[group.end()..]);
    let owned = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
    let Some(value) = number(group.as_bytes()) else {
        return Ok(None);
    };
    let is_part_of_number = |byte: &u8| byte.is_ascii_digit() || b".,".contains(byte);
    let head = before
        .iter()
        .rev()
        .take_while(|byte| is_part_of_number(byte))
        .count();
    let tail = after
        .iter()
        .take_while(|byte| is_part_of_number(byte))
        .count();
    let around = &line[group.start() - head..group.end() + tail];
    let trimmed = around.trim_ascii().strip_suffix(b".").unwrap_or(around);
    let is_longer = trimmed.len() > group.len() && number(trimmed).is_some();
    let unit = UNITS.iter().find(|unit| {
        let rest = after.strip_prefix(unit.as_bytes());
        rest.is_some_and(|rest| !rest.first().is_some_and(u8::is_ascii_alphanumeric))
    });
    match unit {
        Some(&("k" | "K" | "M" | "G")) => {
            let end = group.end() + 1;
            Err(NoCount::Rounded(owned(&line[group.start() - head..end])))
        }
        Some(unit) => Err(NoCount::Unit(owned(
            &line[group.start() - head..group.end() + unit.len()],
        ))),
        None if is_longer && trimmed.contains(&b'.') => Err(NoCount::Fraction(owned(trimmed))),
        None if is_longer => Err(NoCount::Part {
            found: owned(group.as_bytes()),
            number: owned(trimmed),
        }),
        None if value.fract() != 0.0 || group.as_bytes().contains(&b'.') => {
            Err(NoCount::Fraction(owned(group.as_bytes())))
        }
        None => Ok(whole(group.as_bytes())),
    }
}

/// Units of measure after a number that show that it counts no steps: thousands, percent, times and rates.
const UNITS: [&str; 15] = [
    "k", "K", "M", "G", "%", "ns", "us", "µs", "ms", "s", "it/s", "fps", "FPS", "qps", "Hz",
];

/// Steps per second: `5.86k`, `45.2`; before `s/it` it is a time.
fn rate(text: &[u8], after: &[u8]) -> Option<f64> {
    let (value, unit) = split_unit(text, after)?;
    if unit.starts_with("s/") || unit.starts_with("ms/") {
        return period(text, after).map(f64::recip);
    }
    let factor = match unit.chars().next() {
        Some('k' | 'K') => 1e3,
        Some('M') => 1e6,
        _ => 1.0,
    };
    Some(value * factor)
}

/// Time of a step in seconds, with the unit of measure in the group or after it; without one it is in seconds.
fn period(text: &[u8], after: &[u8]) -> Option<f64> {
    let (value, unit) = split_unit(text, after)?;
    let letters: String = unit
        .chars()
        .take_while(|letter| letter.is_alphabetic())
        .collect();
    let (found, second) = (measure(TIMES, &letters), measure(TIMES, "s"));
    let seconds = found.zip(second);
    let seconds = seconds.map_or(1.0, |(found, second)| found.per(second));
    (value > 0.0).then_some(value * seconds)
}

/// A number, and the text after it, in the group or behind it.
fn split_unit<'a>(text: &'a [u8], after: &'a [u8]) -> Option<(f64, &'a str)> {
    let text = text.trim_ascii();
    let end = text
        .iter()
        .position(|byte| !byte.is_ascii_digit() && !b".,".contains(byte));
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    // An exponent is no unit of measure.
    if let [b'e' | b'E', b'0'..=b'9' | b'+' | b'-', ..] = unit {
        return None;
    }
    let unit = if unit.is_empty() { after } else { unit };
    let unit = unit.trim_ascii_start();
    let unit = unit
        .split(u8::is_ascii_whitespace)
        .next()
        .unwrap_or_default();
    Some((number(digits)?, str::from_utf8(unit).unwrap_or_default()))
}

/// A whole or decimal number without a sign; commas may separate its thousands.
fn number(text: &[u8]) -> Option<f64> {
    let text = str::from_utf8(text).ok()?;
    let is_number = |byte: u8| byte.is_ascii_digit() || b",.".contains(&byte);
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let mut groups = whole.split(',');
    let first = groups.next()?;
    let has_thousands = whole.contains(',');
    let is_split = groups.all(|group| group.len() == 3) && (1..=3).contains(&first.len());
    if !text.bytes().all(is_number) || decimals.contains(',') || has_thousands && !is_split {
        return None;
    }
    let number = text.replace(',', "").parse().ok();
    number.filter(|number: &f64| number.is_finite())
}

/// A whole number below 2^64.
fn whole(text: &[u8]) -> Option<u64> {
    number(text)?;
    str::from_utf8(text).ok()?.replace(',', "").parse().ok()
}

/// Words of a bar's label.
const LABEL_WORDS: usize = 3;

/// The last words before a count, without numbers. A loss may be `nan`.
fn label(before: &[u8]) -> String {
    let text = String::from_utf8_lossy(before);
    let words = text.split(|letter: char| !letter.is_ascii_alphabetic());
    let is_word = |word: &&str| !word.is_empty() && !["nan", "inf", "NaN"].contains(word);
    let words: Vec<&str> = words.filter(is_word).collect();
    words[words.len().saturating_sub(LABEL_WORDS)..].join(" ")
}
