//! Takes a figure out of what a command prints.

use regex::Regex;
use serde::{Deserialize, Serialize};

/// How a figure is taken.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Take {
    /// A regular expression with one group, the number. `^` and `$` match at each line.
    pattern: String,
    /// Which of several matches.
    #[serde(default, skip_serializing_if = "Which::is_only")]
    which: Which,
    /// The unit of measure, which stands behind the number.
    unit: String,
}

/// How lines are taken.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Lines {
    /// Lines above those of the command, such as the head of a table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    head: Vec<String>,
    /// A regular expression of the lines.
    pattern: String,
}

impl Lines {
    /// The lines.
    pub fn lines(&self, printed: &str) -> Result<Vec<String>, String> {
        let pattern = Regex::new(&self.pattern).map_err(|why| why.to_string())?;
        let matching = printed.lines().filter(|line| pattern.is_match(line));
        let matching: Vec<String> = matching.map(|line| line.trim_end().to_owned()).collect();
        match matching.is_empty() {
            true => Err(format!("no line matches `{}`", self.pattern)),
            false => Ok([&self.head[..], &matching].concat()),
        }
    }
}

/// One match of several.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Which {
    /// There is one.
    #[default]
    Only,
    Least,
    Most,
    /// The lower one of an even number.
    Median,
}

impl Which {
    fn is_only(&self) -> bool {
        *self == Self::Only
    }
}

impl Take {
    /// The figure with its unit, in the digits of the command.
    pub fn value(&self, printed: &str) -> Result<String, String> {
        let pattern =
            Regex::new(&format!("(?m){}", self.pattern)).map_err(|why| why.to_string())?;
        if pattern.captures_len() != 2 {
            return Err(format!("`{}` needs one group", self.pattern));
        }
        let matches = pattern.captures_iter(printed);
        let texts = matches.map(|captures| captures.get(1).map_or("", |group| group.as_str()));
        let numbers: Option<Vec<(f64, &str)>> =
            texts.map(|text| Some((number(text)?, text))).collect();
        let mut numbers = numbers
            .ok_or_else(|| format!("`{}` matches a text that is no number", self.pattern))?;
        numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
        let at = match self.which {
            Which::Only if numbers.len() > 1 => {
                return Err(format!(
                    "`{}` matches {} times, expected one",
                    self.pattern,
                    numbers.len()
                ));
            }
            Which::Only | Which::Least => 0,
            Which::Most => numbers.len().saturating_sub(1),
            Which::Median => numbers.len().saturating_sub(1) / 2,
        };
        let (_, text) = numbers
            .get(at)
            .ok_or_else(|| format!("`{}` matches nothing", self.pattern))?;
        Ok(match &*self.unit {
            "" => (*text).to_owned(),
            unit => format!("{text} {unit}"),
        })
    }
}

/// The number at the start of a figure. Thousands may be parted by commas.
pub fn number(text: &str) -> Option<f64> {
    let digits = text.split_whitespace().next()?.replace(',', "");
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(pattern: &str, which: Which) -> Take {
        Take {
            pattern: pattern.to_owned(),
            which,
            unit: "%".to_owned(),
        }
    }

    #[test]
    fn a_figure_keeps_the_digits_of_its_command() {
        let printed = "time 1.50 %\npower 2.78 %\ntime 1.10 %\n";
        let value = |pattern, which| take(pattern, which).value(printed);
        assert_eq!(
            value("^power ([0-9.]+)", Which::Only),
            Ok("2.78 %".to_owned())
        );
        assert_eq!(
            value("^time ([0-9.]+)", Which::Most),
            Ok("1.50 %".to_owned())
        );
        assert_eq!(
            value("^time ([0-9.]+)", Which::Least),
            Ok("1.10 %".to_owned())
        );
    }

    #[test]
    fn a_table_has_the_lines_of_its_pattern_below_its_head() {
        let lines = Lines {
            head: vec!["| load | over |".to_owned()],
            pattern: "^. (llm|jump)".to_owned(),
        };
        let printed = "title\n| llm | 1 | \n\n| jump | 2 |\nrest\n";
        let expected = ["| load | over |", "| llm | 1 |", "| jump | 2 |"];
        assert_eq!(lines.lines(printed).expect("two lines"), expected);
        assert!(
            lines
                .lines("nothing")
                .unwrap_err()
                .contains("no line matches")
        );
    }

    #[test]
    fn what_is_not_there_or_there_twice_is_refused() {
        let printed = "time 1\ntime 2\ntime –\n";
        let why = |pattern, which| take(pattern, which).value(printed).unwrap_err();
        assert!(why("^time ([0-9]+)", Which::Only).contains("matches 2 times"));
        assert!(why("^power ([0-9]+)", Which::Most).contains("matches nothing"));
        assert!(why("^time (.+)", Which::Most).contains("no number"));
        assert!(why("^time ", Which::Most).contains("one group"));
    }
}
