//! Parsers of arguments: modes, numbers of modes, and names.

use std::collections::BTreeSet;

use thiserror::Error;
use wattgate_runtime::PowerMode;

use crate::corpus::is_name;
use crate::learn::split::Amount;

/// Why an argument is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ValueError {
    /// Neither a whole number nor a percentage.
    #[error(
        "`{text}` is not a number of modes: write a whole number such as 50, or a share of the profiled modes such as 90%"
    )]
    NotAnAmount { text: String },
    /// Not four whole numbers.
    #[error(
        "`{text}` is not a mode: write CORES,CPU,GPU,EMC with the clocks in kHz, such as 4,1734000,691200,1600000"
    )]
    NotAMode { text: String },
    /// Empty or too long for a corpus.
    #[error("expected a name of 1 to 64 characters, without blanks at its ends")]
    NotAName,
    /// Not a whole number of a range.
    #[error("expected a whole number, {least} to {most}")]
    NotWhole { least: u64, most: u64 },
}

/// A list of minibatch sizes for a message, in ascending order.
pub fn sizes(sizes: impl Iterator<Item = Option<u32>>) -> String {
    let sizes: BTreeSet<u32> = sizes.flatten().collect();
    match sizes.is_empty() {
        true => "no row states one, so leave --minibatch out".to_owned(),
        false => {
            let texts: Vec<String> = sizes.iter().map(u32::to_string).collect();
            format!("there are {}", texts.join(", "))
        }
    }
}

/// Parses a mode `CORES,CPU,GPU,EMC` with the clocks in kHz, as a corpus has them.
pub fn mode(text: &str) -> Result<PowerMode, ValueError> {
    let knobs: Result<Vec<u32>, _> = text.split(',').map(|knob| knob.trim().parse()).collect();
    let knobs = knobs.ok().and_then(|knobs| knobs.try_into().ok());
    let refused = || ValueError::NotAMode {
        text: text.to_owned(),
    };
    knobs.map(PowerMode::from_knobs).ok_or_else(refused)
}

/// Parses the name of a workload.
pub fn name(text: &str) -> Result<String, ValueError> {
    let fits = is_name(text).then(|| text.to_owned());
    fits.ok_or(ValueError::NotAName)
}

/// Parses a whole number of a range. clap's own parser says of a text that is none only that it has an invalid digit.
pub fn whole<T: TryFrom<u64>>(
    least: u64,
    most: u64,
) -> impl Fn(&str) -> Result<T, ValueError> + Clone {
    move |text| {
        let number = text.parse().ok();
        let number = number.filter(|number| (least..=most).contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or(ValueError::NotWhole { least, most })
    }
}

/// Parses a seed.
pub fn seed(text: &str) -> Result<u64, ValueError> {
    whole(0, u64::MAX)(text)
}

/// Parses a number of modes such as `50`, or a share of the profiled modes such as `90%`.
pub fn amount(text: &str) -> Result<Amount, ValueError> {
    let trimmed = text.trim();
    let percent = |number: &str| number.trim_end().parse().ok();
    let amount = match trimmed.strip_suffix('%') {
        Some(number) => percent(number)
            .filter(|percent| (0.0..=100.0).contains(percent))
            .map(Amount::Percent),
        None => trimmed.parse().ok().map(Amount::Modes),
    };
    amount.ok_or_else(|| ValueError::NotAnAmount {
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_of_their_range() {
        assert_eq!(whole(1, 100)("100"), Ok(100_u16));
        let refused = Err(ValueError::NotWhole {
            least: 1,
            most: 100,
        });
        for text in ["", "0", "101", "one", "1.5", "-1"] {
            assert_eq!(whole::<u16>(1, 100)(text), refused, "{text}");
        }
        assert_eq!(seed("18446744073709551615"), Ok(u64::MAX));
    }

    #[test]
    fn amounts_and_modes_are_read() {
        assert_eq!(amount("50"), Ok(Amount::Modes(50)));
        assert_eq!(amount(" 90 %"), Ok(Amount::Percent(90.0)));
        for text in ["", "fifty", "-1", "101%", "1.5", "NaN%"] {
            assert!(amount(text).is_err(), "{text}");
        }
        assert_eq!(
            mode("4, 1734000,691200 ,1600000"),
            Ok(PowerMode::from_knobs([4, 1_734_000, 691_200, 1_600_000]))
        );
        for text in [
            "",
            "4,1,2",
            "4,1,2,3,4",
            "4,1.5,2,3",
            "4,1,2,-3",
            "4,1MHz,2,3",
        ] {
            assert!(mode(text).is_err(), "{text}");
        }
    }
}
