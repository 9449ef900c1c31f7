//! Writes of programs that the tree has not applied yet.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Timeout of a truncated file: after this time no write is expected to follow.
const ABANDONED: Duration = Duration::from_millis(100);

/// Writes since the last batch was applied.
#[derive(Debug, Default)]
pub struct Batch {
    /// Paths in the order of their last writes.
    order: Vec<String>,
    /// The last text of each path.
    written: BTreeMap<String, String>,
    /// Truncated files that are expected to be written next, each with the time of the truncation.
    truncated: BTreeMap<String, Instant>,
}

impl Batch {
    /// Adds a write. `words` are the texts that the knob usually takes, and `shown` is the text
    /// before the write.
    pub fn add(&mut self, path: String, contents: &str, shown: &str, words: &[String]) {
        self.order.retain(|before| *before != path);
        if contents.is_empty() {
            self.written.remove(&path);
            self.truncated.insert(path, Instant::now());
        } else {
            let text = meant(contents, shown, words).to_owned();
            self.truncated.remove(&path);
            self.order.push(path.clone());
            self.written.insert(path, text);
        }
    }

    /// Whether a program has truncated a file and not written it yet.
    pub fn is_truncated(&mut self) -> bool {
        self.truncated
            .retain(|_, since| since.elapsed() < ABANDONED);
        !self.truncated.is_empty()
    }

    /// Ends the batch. Returns its writes in the order of the last writes, each with the write to
    /// the other limit of the same clock, if there is one.
    pub fn take(&mut self) -> Vec<(Write, Option<Write>)> {
        let Self {
            order, mut written, ..
        } = std::mem::take(self);
        let mut writes = Vec::new();
        for path in order {
            let partner = if path.ends_with("min_freq") {
                path.replace("min_freq", "max_freq")
            } else {
                path.replace("max_freq", "min_freq")
            };
            let Some(text) = written.remove(&path) else {
                continue;
            };
            let other = written.remove(&partner).map(|text| (partner, text));
            writes.push(((path, text), other));
        }
        writes
    }
}

/// A path and a text.
pub type Write = (String, String);

/// The text that a program meant to write: the first line, or the word of the knob that overwrote
/// the start of a longer text. The longer text is `shown`, or another word that was not seen in
/// between.
fn meant<'a>(contents: &'a str, shown: &str, words: &[String]) -> &'a str {
    let line = contents.lines().next().unwrap_or_default();
    if words.iter().any(|word| word == line) {
        return line;
    }
    let over = |word: &&String| {
        let rest = |text: &str| {
            text.get(word.len()..)
                .map(|rest| rest.trim_end().to_owned())
        };
        let mut before = words.iter().map(String::as_str).chain([shown]);
        line.starts_with(word.as_str()) && before.any(|text| rest(text) == rest(line))
    };
    let longest = words.iter().filter(over).map(String::len).max();
    longest.map_or(line, |length| &contents[..length])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_over_a_longer_text_is_known_by_its_end() {
        let clocks = ["115200", "883200", "1190400", "1344000"].map(str::to_owned);
        let cases = [
            ("883200", "1344000\n", "883200"),
            ("883200\n", "1344000\n", "883200"),
            // Neither truncated nor with a newline.
            ("8832000\n", "1344000\n", "883200"),
            ("883200\n\n", "1344000\n", "883200"),
            ("1344000", "883200\n", "1344000"),
            // The same, and `1344000` was there in between.
            ("8832000", "115200\n", "883200"),
            // Off the table: the whole line.
            ("9000000\n", "1344000\n", "9000000"),
            ("soon\n", "1344000\n", "soon"),
        ];
        for (contents, shown, expected) in cases {
            assert_eq!(meant(contents, shown, &clocks), expected, "{contents:?}");
        }
        let governors = ["schedutil", "performance"].map(str::to_owned);
        assert_eq!(
            meant("schedutilce\n", "performance\n", &governors),
            "schedutil"
        );
    }
}
