//! Fields of corpus files: what each may hold, and how a defect is reported.

use std::io;
use std::ops::Range;
use std::path::Path;

use csv::ErrorKind;
use wattgate_cli::planning::NOT_SHOWN;
use wattgate_runtime::format::Kind;

use super::{CorpusError, MAX_TIME_MS, POWERS_MW, Problem};

/// With `flexible` set, the reader returns no error but those of the operating system.
pub fn csv_io(path: &Path, error: csv::Error) -> CorpusError {
    let source = match error.into_kind() {
        ErrorKind::Io(source) => source,
        other => io::Error::other(format!("{other:?}")),
    };
    CorpusError::Io {
        path: path.to_owned(),
        source,
    }
}

/// The numbers of a column: what they may be, and what others probably are.
#[derive(Debug)]
pub struct Measure {
    expected: &'static str,
    range: Range<f64>,
    /// Numbers out of the range that have probably another unit, and what to do about them.
    other_units: &'static [(Range<f64>, &'static str)],
    /// What to do about a number with the text of a unit.
    alone: &'static str,
}

/// The time of a step.
pub const TIME: Measure = Measure {
    expected: "a time in ms above zero and below 4294967 (71 minutes), or a blank",
    range: 0.0..MAX_TIME_MS,
    other_units: &[(
        MAX_TIME_MS..f64::INFINITY,
        "if the column is in µs, divide it by 1000; if it is in ns, by 1000000",
    )],
    alone: "write the number alone, in ms",
};

/// The power of the board.
pub const POWER: Measure = Measure {
    expected: "a power in mW from 100 to below 1000000 (1 kW), or a blank",
    range: POWERS_MW,
    other_units: &[
        (
            f64::MIN_POSITIVE..POWERS_MW.start,
            "if the column is in W, multiply it by 1000",
        ),
        (
            POWERS_MW.end..f64::INFINITY,
            "if the column is in µW, divide it by 1000",
        ),
    ],
    alone: "write the number alone, in mW",
};

/// A clock: the range has those of all boards, of which none is in it when it stands in MHz or Hz.
const CLOCK: Measure = Measure {
    expected: "a frequency in kHz from 10000 to 10000000",
    range: 10_000.0..10_000_001.0,
    other_units: &[
        (
            f64::MIN_POSITIVE..10.0,
            "if the column is in GHz, multiply it by 1000000",
        ),
        (
            10.0..10_000.0,
            "if the column is in MHz, multiply it by 1000",
        ),
        (
            10_000_001.0..f64::INFINITY,
            "if the column is in Hz, divide it by 1000",
        ),
    ],
    alone: "write the number alone, in kHz",
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
/// A refused field: its column, if one is to blame, and why.
pub type FieldError = (Option<&'static str>, Problem);

/// The text of a field.
pub fn text((column, field): Named<'_>) -> Result<&str, FieldError> {
    str::from_utf8(field).map_err(|_| (Some(column), Problem::NotUtf8))
}

/// Refuses a field.
pub fn bad(column: &'static str, expected: &'static str, found: &str) -> FieldError {
    // A field may be as long as the file; the message shows its start.
    let found = found.chars().take(40).collect();
    let advice = None;
    let problem = Problem::BadField {
        expected,
        found,
        advice,
    };
    (Some(column), problem)
}

/// Refuses a number, and says what to do about it.
fn bad_number(column: &'static str, measure: &Measure, found: &str) -> FieldError {
    let (_, mut problem) = bad(column, measure.expected, found);
    if let Problem::BadField { advice, .. } = &mut problem {
        *advice = measure.advice(found);
    }
    (Some(column), problem)
}

impl Measure {
    /// What to do about a refused number.
    fn advice(&self, text: &str) -> Option<&'static str> {
        if let Ok(number) = text.parse::<f64>() {
            let mut others = self.other_units.iter();
            return match number.is_nan() {
                true => Some("leave an unknown value blank"),
                false => others
                    .find(|(range, _)| range.contains(&number))
                    .map(|(_, advice)| *advice),
            };
        }
        let number = text.trim_end_matches(char::is_alphabetic).trim_end();
        match number.parse::<f64>() {
            Ok(_) if number.len() < text.len() => Some(self.alone),
            _ if is_grouped(text) => {
                Some("write a decimal point as `.`, and no thousands separators")
            }
            _ => None,
        }
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
pub fn name(field: Named<'_>) -> Result<String, FieldError> {
    const EXPECTED: &str = "a name of 1 to 64 characters";
    let name = text(field)?;
    if !is_name(name) {
        return Err(bad(field.0, EXPECTED, name));
    }
    Ok(name.to_owned())
}

/// A positive whole number; also accepts the form `4.0`, which spreadsheets write.
pub fn whole(field: Named<'_>, expected: &'static str) -> Result<u32, FieldError> {
    let text = text(field)?;
    parse_whole(text).ok_or_else(|| bad(field.0, expected, text))
}

fn parse_whole(text: &str) -> Option<u32> {
    let digits = text.trim_end_matches('0').strip_suffix('.').unwrap_or(text);
    digits.parse().ok().filter(|&value| value > 0)
}

/// The number of cores; [`NOT_SHOWN`] for a blank, and whether it is one.
pub fn cores(field: Named<'_>) -> Result<(u32, bool), FieldError> {
    match is_unknown(field.1) {
        true => Ok((NOT_SHOWN, true)),
        false => Ok((whole(field, "a number of cores above zero")?, false)),
    }
}

/// Parses a clock in kHz. A clock in another unit of measure is named as such; a blank is a clock that the board does not show.
pub fn clock(field: Named<'_>) -> Result<u32, FieldError> {
    let text = text(field)?;
    let is_not_shown = || text.parse() == Ok(f64::from(NOT_SHOWN));
    if is_unknown(field.1) || is_not_shown() {
        return Ok(NOT_SHOWN);
    }
    let khz = parse_whole(text).filter(|&khz| CLOCK.range.contains(&f64::from(khz)));
    khz.ok_or_else(|| bad_number(field.0, &CLOCK, text))
}

/// A number above zero as a column expects it, or `None` for a blank.
pub fn quantity(field: Named<'_>, measure: &Measure) -> Result<Option<f32>, FieldError> {
    let text = text(field)?;
    if is_unknown(field.1) {
        return Ok(None);
    }
    const COMMA: &str = "a number with a decimal point, not a comma";
    let has_comma = text.contains(',') && text.replacen(',', ".", 1).parse::<f64>().is_ok();
    if has_comma && !is_grouped(text) {
        return Err(bad(field.0, COMMA, text));
    }
    let value: Option<f64> = text.parse().ok().filter(|v| measure.range.contains(v));
    match value {
        Some(value) if value as f32 > 0.0 => Ok(Some(value as f32)),
        _ => Err(bad_number(field.0, measure, text)),
    }
}

/// Measured, which is the default, or simulated.
pub fn kind(field: Named<'_>) -> Result<Kind, FieldError> {
    match text(field)? {
        "" | "measured" => Ok(Kind::Measured),
        "simulated" => Ok(Kind::Simulated),
        other => Err(bad(field.0, "`measured` or `simulated`", other)),
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
