//! `--steps-from`: a regular expression that finds the count of steps in a line of output.

use std::str;
use std::time::Instant;

use regex::bytes::Regex;
use thiserror::Error;

/// Maximum length of a line; what follows until the end of the line is ignored.
const MAX_LINE: usize = 64 << 10;

/// A regular expression. One of its groups captures the count of steps or, if it is named `rate`,
/// the steps per second.
#[derive(Clone, Debug)]
pub struct Pattern {
    regex: Regex,
    /// Index of the group `rate`.
    rate: Option<usize>,
}

/// Why a text is not a [`Pattern`].
#[derive(Clone, Debug, Error)]
pub enum PatternError {
    #[error("{0}")]
    Syntax(#[from] regex::Error),
    #[error("`{0}` has no group: put parentheses around the count, as in `step (\\d+)`")]
    NoGroup(String),
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Found {
    /// Steps since the start, or since the start of an epoch.
    Count(f64),
    /// Steps per second.
    Rate(f64),
}

impl Pattern {
    /// Compiles a regular expression. The first group is the count, unless one is named `rate`.
    pub fn new(text: &str) -> Result<Self, PatternError> {
        let regex = Regex::new(text)?;
        if regex.captures_len() < 2 {
            return Err(PatternError::NoGroup(text.to_owned()));
        }
        let rate = regex.capture_names().position(|name| name == Some("rate"));
        Ok(Self { regex, rate })
    }

    /// The text of the regular expression.
    pub fn as_str(&self) -> &str {
        self.regex.as_str()
    }

    /// What the first match in a line says. In a line that may go on, a number at its very end may
    /// lack digits and is not taken.
    pub fn find(&self, line: &[u8], is_complete: bool) -> Option<Found> {
        let groups = self.regex.captures(line)?;
        let group = groups.get(self.rate.unwrap_or(1))?;
        if !is_complete && group.end() == line.len() {
            return None;
        }
        let number = number(str::from_utf8(group.as_bytes()).ok()?)?;
        Some(match self.rate {
            Some(_) => Found::Rate(number),
            None => Found::Count(number),
        })
    }
}

/// A whole or decimal number without a sign; commas may separate its thousands.
fn number(text: &str) -> Option<f64> {
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

/// The steps since the start, from one finding after another.
///
/// A count below the one before is the start of an epoch: bars begin again with each. A rate is
/// integrated from the line before.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    steps: f64,
    last: Option<f64>,
    /// When the last rate was found.
    rated: Option<Instant>,
}

impl Tally {
    /// Takes what was found at a time.
    pub fn take(&mut self, found: Found, at: Instant) {
        match found {
            Found::Count(count) => {
                let before = self.last.replace(count).filter(|last| *last <= count);
                self.steps += count - before.unwrap_or_default();
            }
            Found::Rate(rate) => {
                if let Some(before) = self.rated.replace(at) {
                    self.steps += rate * at.saturating_duration_since(before).as_secs_f64();
                }
            }
        }
    }

    /// Whole steps so far.
    pub fn steps(&self) -> u64 {
        self.steps as u64
    }
}

/// Splits output into lines, each of which `\n` or `\r` ends.
///
/// Progress bars write `\r` first and the bar after it, so the end of a bar arrives with the next
/// one. A bar that arrives in one piece therefore counts at once.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    /// The line follows a `\r`.
    is_redraw: bool,
    /// The line was taken before its end.
    is_taken: bool,
}

impl Lines {
    /// Splits the next bytes. `take` gets each line and whether it is complete, and returns whether
    /// it has found what it looks for.
    pub fn split(&mut self, bytes: &[u8], mut take: impl FnMut(&[u8], bool) -> bool) {
        for piece in bytes.split_inclusive(|byte| b"\r\n".contains(byte)) {
            let is_new = self.line.is_empty();
            let (text, end) = match piece.split_last() {
                Some((end @ (b'\r' | b'\n'), text)) => (text, Some(*end)),
                _ => (piece, None),
            };
            let room = MAX_LINE - self.line.len();
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if let Some(end) = end {
                self.finish(&mut take);
                self.is_redraw = end == b'\r';
            } else if is_new && self.is_redraw {
                self.is_taken = take(&self.line, false);
            }
        }
    }

    /// Ends the line.
    pub fn finish(&mut self, mut take: impl FnMut(&[u8], bool) -> bool) {
        if !self.line.is_empty() && !self.is_taken {
            take(&self.line, true);
        }
        self.line.clear();
        self.is_taken = false;
    }
}
