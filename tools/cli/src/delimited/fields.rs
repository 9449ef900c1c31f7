//! Fields of tables: what each may hold, and how a defect is reported.

use std::borrow::Cow;
use std::ops::Range;

use wattgate_runtime::format::Kind;

use super::{Problem, Refusal};
use crate::planning::NOT_SHOWN;
use crate::quantity::{FREQUENCIES, Measure, POWERS, TIMES, conversion, measure, split};

/// Upper limit of a time, in ms: the runtime stores microseconds in 32 bits.
pub const MAX_TIME_MS: f64 = 4_294_967.0;

/// The powers that a corpus may hold, in mW. No measured corpus has less than 500 mW, so a number below the lower end is
/// in W, or wrong. No Jetson draws 1 kW: the largest, a Thor T5000, is sold with 130 W.
pub const POWERS_MW: Range<f64> = 100.0..1_000_000.0;

/// The numbers of a column: what they may be, and what others probably are.
#[derive(Debug)]
pub struct Numbers {
    expected: &'static str,
    range: Range<f64>,
    /// The units of measure of such numbers, and that of the column.
    measures: &'static [Measure],
    own: &'static str,
    /// Numbers out of the range that have probably another unit of measure.
    others: &'static [(Range<f64>, &'static [&'static str])],
}

/// The time of a step.
pub const TIME: Numbers = Numbers {
    expected: "a time in ms above zero and below 4294967 (71 minutes), or a blank",
    range: 0.0..MAX_TIME_MS,
    measures: TIMES,
    own: "ms",
    others: &[(MAX_TIME_MS..f64::INFINITY, &["µs", "ns"])],
};

/// The power of the board.
pub const POWER: Numbers = Numbers {
    expected: "a power in mW from 100 to below 1000000 (1 kW), or a blank",
    range: POWERS_MW,
    measures: POWERS,
    own: "mW",
    others: &[
        (f64::MIN_POSITIVE..POWERS_MW.start, &["W"]),
        (POWERS_MW.end..f64::INFINITY, &["µW"]),
    ],
};

/// A clock: the range has those of all boards, of which none is in it when it stands in MHz or Hz.
const CLOCK: Numbers = Numbers {
    expected: "a frequency in kHz from 10000 to 10000000",
    range: 10_000.0..10_000_001.0,
    measures: FREQUENCIES,
    own: "kHz",
    others: &[
        (f64::MIN_POSITIVE..10.0, &["GHz"]),
        (10.0..10_000.0, &["MHz"]),
        (10_000_001.0..f64::INFINITY, &["Hz"]),
    ],
};

/// What others write for an unknown value besides a blank. `NaN` is none of them: it may be the result of a failed calculation.
const UNKNOWN: [&str; 5] = ["NA", "N/A", "null", "None", "-"];

/// Whether a field is blank, or says that its value is unknown.
pub fn is_unknown(field: &[u8]) -> bool {
    let mut words = UNKNOWN.into_iter();
    field.is_empty() || words.any(|word| field.eq_ignore_ascii_case(word.as_bytes()))
}

/// A field with the name of its column.
pub type Named<'a> = (&'static str, &'a [u8]);

/// The text of a field.
pub fn text((column, field): Named<'_>) -> Result<&str, Refusal> {
    str::from_utf8(field).map_err(|_| Refusal {
        column: Some(column),
        problem: Problem::NotUtf8,
    })
}

/// Refuses a field.
pub fn bad(column: &'static str, expected: impl Into<Cow<'static, str>>, found: &str) -> Refusal {
    refused(column, expected, found, None)
}

fn refused(
    column: &'static str,
    expected: impl Into<Cow<'static, str>>,
    found: &str,
    advice: Option<String>,
) -> Refusal {
    let problem = Problem::BadField {
        expected: expected.into(),
        // A field may be as long as the file; the message shows its start.
        found: found.chars().take(40).collect(),
        advice: advice.map(String::into_boxed_str),
    };
    let column = Some(column);
    Refusal { column, problem }
}

impl Numbers {
    /// Refuses a number, and says what to do about it.
    fn refuse(&self, column: &'static str, found: &str) -> Refusal {
        refused(column, self.expected, found, self.advice(found))
    }

    /// What to do about a refused number.
    fn advice(&self, text: &str) -> Option<String> {
        if let Ok(number) = text.parse::<f64>() {
            if number.is_nan() {
                return Some("leave an unknown value blank".to_owned());
            }
            let mut others = self.others.iter();
            let (_, probable) = others.find(|(range, _)| range.contains(&number))?;
            return Some(self.converted(probable));
        }
        let (number, word) = split(text);
        if number.parse::<f64>().is_ok() && !word.is_empty() {
            return Some(format!("write the number alone, in {}", self.own));
        }
        is_grouped(text)
            .then(|| "write a decimal point as `.`, and no thousands separators".to_owned())
    }

    /// What to do if the column has probably one of some units of measure.
    fn converted(&self, probable: &[&str]) -> String {
        let own = measure(self.measures, self.own);
        let known = probable.iter().filter_map(|name| {
            let (verb, factor) = conversion(measure(self.measures, name)?, own?)?;
            Some((name, verb, factor))
        });
        let clauses = known
            .enumerate()
            .map(|(at, (name, verb, factor))| match at {
                0 => format!("if the column is in {name}, {verb} it by {factor}"),
                _ => format!("if it is in {name}, by {factor}"),
            });
        clauses.collect::<Vec<_>>().join("; ")
    }
}

/// Whether a text is a number with separators between groups of three digits.
fn is_grouped(text: &str) -> bool {
    let is_separator = |c: char| c.is_whitespace() || matches!(c, ',' | '.' | '_' | '\'' | '’');
    let mut groups = text.split(is_separator);
    let is_digits = |group: &str| group.bytes().all(|byte| byte.is_ascii_digit());
    let has_first = groups
        .next()
        .is_some_and(|first| (1..=3).contains(&first.len()) && is_digits(first));
    has_first && text.contains(is_separator) && groups.all(|it| it.len() == 3 && is_digits(it))
}

/// Whether a text can name a board or a workload: it has 1 to 64 characters.
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.chars().count())
}

/// A name, see [`is_name`].
pub fn name(field: Named<'_>) -> Result<String, Refusal> {
    const EXPECTED: &str = "a name of 1 to 64 characters";
    let name = text(field)?;
    if !is_name(name) {
        return Err(bad(field.0, EXPECTED, name));
    }
    Ok(name.to_owned())
}

/// A positive whole number; also accepts the form `4.0`, which spreadsheets write.
pub fn whole(field: Named<'_>, expected: &'static str) -> Result<u32, Refusal> {
    let text = text(field)?;
    let value = parse_whole(text).filter(|value| *value > 0);
    value.ok_or_else(|| bad(field.0, expected, text))
}

/// A whole number from 0 in the same forms.
pub fn count(field: Named<'_>, most: u32, expected: &'static str) -> Result<u32, Refusal> {
    let text = text(field)?;
    let value = parse_whole(text).filter(|value| *value <= most);
    value.ok_or_else(|| bad(field.0, expected, text))
}

fn parse_whole(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches('0').strip_suffix('.').unwrap_or(text);
    digits.parse().ok()
}

/// The number of cores; [`NOT_SHOWN`] for a blank, and whether it is one.
pub fn cores(field: Named<'_>) -> Result<(u32, bool), Refusal> {
    match is_unknown(field.1) {
        true => Ok((NOT_SHOWN, true)),
        false => Ok((whole(field, "a number of cores above zero")?, false)),
    }
}

/// Parses a clock in kHz. A clock in another unit of measure is named as such; a blank is a clock that the board does not show.
pub fn clock(field: Named<'_>) -> Result<u32, Refusal> {
    let text = text(field)?;
    let is_not_shown = || text.parse() == Ok(f64::from(NOT_SHOWN));
    if is_unknown(field.1) || is_not_shown() {
        return Ok(NOT_SHOWN);
    }
    let khz = parse_whole(text).filter(|&khz| CLOCK.range.contains(&f64::from(khz)));
    khz.ok_or_else(|| CLOCK.refuse(field.0, text))
}

/// As [`exact`], rounded.
pub fn quantity(field: Named<'_>, numbers: &Numbers) -> Result<Option<f32>, Refusal> {
    Ok(exact(field, numbers)?.map(|value| value as f32))
}

/// A number above zero as a column expects it, or `None` for a blank.
pub fn exact(field: Named<'_>, numbers: &Numbers) -> Result<Option<f64>, Refusal> {
    if is_unknown(field.1) {
        return Ok(None);
    }
    let (text, value) = decimal(field)?;
    let value = value.filter(|value| numbers.range.contains(value));
    match value {
        // Above zero also when it is rounded.
        Some(value) if value as f32 > 0.0 => Ok(Some(value)),
        _ => Err(numbers.refuse(field.0, text)),
    }
}

/// A number without a unit of measure, 0 … `most`.
pub fn number(field: Named<'_>, most: f64) -> Result<f64, Refusal> {
    let (text, value) = decimal(field)?;
    let value = value.filter(|value| (0.0..=most).contains(value));
    value.ok_or_else(|| bad(field.0, format!("a number, 0 … {most}"), text))
}

/// The text of a field, and its value if it is a number. A decimal comma is refused.
fn decimal(field: Named<'_>) -> Result<(&str, Option<f64>), Refusal> {
    let text = text(field)?;
    let has_comma = text.contains(',') && text.replacen(',', ".", 1).parse::<f64>().is_ok();
    match has_comma && !is_grouped(text) {
        true => Err(bad(
            field.0,
            "a number with a decimal point, not a comma",
            text,
        )),
        false => Ok((text, text.parse().ok())),
    }
}

/// Measured, which is the default, simulated or recorded.
pub fn kind(field: Named<'_>) -> Result<Kind, Refusal> {
    match text(field)? {
        "" | "measured" => Ok(Kind::Measured),
        "simulated" => Ok(Kind::Simulated),
        "recorded" => Ok(Kind::Recorded),
        other => Err(bad(field.0, "`measured`, `simulated` or `recorded`", other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_board_tables::{Board, names};

    #[test]
    fn no_clock_of_a_board_can_be_taken_for_one_in_mhz_or_hz() {
        let boards = names()
            .into_iter()
            .filter_map(|name| Board::named(name).ok());
        let mut count = 0;
        for clock in boards.flat_map(|board| {
            let [_, clocks @ ..] = board.axes();
            clocks.concat()
        }) {
            count += 1;
            let khz = f64::from(clock);
            assert!(CLOCK.range.contains(&khz), "{clock} kHz");
            assert_eq!(CLOCK.advice(&clock.to_string()), None);
            for (number, unit) in [(khz / 1e6, "GHz"), (khz / 1e3, "MHz"), (khz * 1e3, "Hz")] {
                assert!(!CLOCK.range.contains(&number), "{clock} kHz in {unit}");
                let advice = CLOCK.advice(&number.to_string()).expect("another unit");
                assert!(
                    advice.contains(&format!(" in {unit},")),
                    "{number} {unit}: {advice}"
                );
            }
        }
        assert!(count > 100);
    }

    #[test]
    fn groups_of_three_digits_are_no_decimals() {
        for text in [
            "1,734,000",
            "1.734.000",
            "1 734 000",
            "1'734'000",
            "14,200",
            "1_734_000",
        ] {
            assert!(is_grouped(text), "{text}");
        }
        for text in [
            "5190,678", "14,2", "1734000", "", ",200", "1,,000", "1,734,00", "a,200",
        ] {
            assert!(!is_grouped(text), "{text}");
        }
    }

    #[test]
    fn a_blank_has_other_names() {
        for text in ["", "NA", "n/a", "null", "none", "-"] {
            assert!(is_unknown(text.as_bytes()), "{text}");
        }
        for text in ["NaN", "0", "--", "unknown"] {
            assert!(!is_unknown(text.as_bytes()), "{text}");
        }
    }
}
