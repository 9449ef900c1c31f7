//! Fields of corpus files: what each may hold, and how a defect is reported.

use std::io;
use std::ops::{Range, RangeInclusive};
use std::path::Path;

use csv::ErrorKind;
use wattgate_cli::planning::NOT_SHOWN;
use wattgate_runtime::format::Kind;

use super::{CorpusError, Problem};

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

/// What a time may be.
pub const TIME_EXPECTED: &str =
    "a time in ms above zero and below 4294967 (71 minutes), or a blank";
/// What a power may be.
pub const POWER_EXPECTED: &str = "a power in mW (not W), from 100 to below 4294967000, or a blank";

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
    (Some(column), Problem::BadField { expected, found })
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
    let digits = text.trim_end_matches('0').strip_suffix('.').unwrap_or(text);
    let value: Option<u32> = digits.parse().ok().filter(|&value| value > 0);
    value.ok_or_else(|| bad(field.0, expected, text))
}

/// The clocks that a corpus may hold, in kHz: those of all boards, of which none is in the range when it stands in MHz or Hz.
const CLOCKS_KHZ: RangeInclusive<u32> = 10_000..=10_000_000;

/// Parses a clock in kHz. A clock in another unit of measure is named as such; a blank is a clock that the board does not show.
pub fn clock(field: Named<'_>) -> Result<u32, FieldError> {
    const EXPECTED: &str = "a frequency in kHz from 10000 to 10000000";
    const IN_MHZ: &str =
        "a frequency in kHz from 10000 to 10000000; if the column is in MHz, multiply it by 1000";
    const IN_HZ: &str =
        "a frequency in kHz from 10000 to 10000000; if the column is in Hz, divide it by 1000";
    let text = text(field)?;
    let number: f64 = text.parse().unwrap_or(f64::NAN);
    if text.is_empty() || number == f64::from(NOT_SHOWN) {
        return Ok(NOT_SHOWN);
    }
    let expected = match number {
        _ if number >= 1.0 && number < f64::from(*CLOCKS_KHZ.start()) => IN_MHZ,
        _ if number > f64::from(*CLOCKS_KHZ.end()) => IN_HZ,
        _ => return whole(field, EXPECTED),
    };
    Err(bad(field.0, expected, text))
}

/// A number above zero within a range, or `None` for a blank.
pub fn quantity(
    field: Named<'_>,
    range: Range<f64>,
    expected: &'static str,
) -> Result<Option<f32>, FieldError> {
    let text = text(field)?;
    if text.is_empty() {
        return Ok(None);
    }
    const COMMA: &str = "a number with a decimal point, not a comma";
    let has_comma = text.contains(',') && text.replacen(',', ".", 1).parse::<f64>().is_ok();
    if has_comma {
        return Err(bad(field.0, COMMA, text));
    }
    let value: Option<f64> = text.parse().ok().filter(|v| range.contains(v));
    match value {
        Some(value) if value as f32 > 0.0 => Ok(Some(value as f32)),
        _ => Err(bad(field.0, expected, text)),
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
            assert!(CLOCKS_KHZ.contains(&clock), "{clock} kHz");
            assert!(!CLOCKS_KHZ.contains(&(clock / 1_000)), "{clock} kHz in MHz");
            assert!(
                clock
                    .checked_mul(1_000)
                    .is_none_or(|hertz| !CLOCKS_KHZ.contains(&hertz)),
                "{clock} kHz in Hz"
            );
        }
        assert!(count > 100);
    }
}
