//! Parsers of arguments: modes, numbers of modes, names, and ranges of power limits.

use std::collections::BTreeSet;

use thiserror::Error;
use wattgate_cli::quantity::{QuantityError, power};
use wattgate_runtime::{Milliwatts, PowerMode};

use crate::corpus::is_name;
use crate::lab::optimize::Limits;
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
    #[error("a name has 1 to 64 characters")]
    NotAName,
    /// Not three powers LO:HI:STEP with LO ≤ HI.
    #[error(
        "`{text}` is not a range of limits: write LO:HI:STEP with LO ≤ HI, such as 3W:9W:500mW, or auto"
    )]
    NotLimits { text: String },
    /// One of the three is not a power.
    #[error("{0}")]
    Limit(#[from] QuantityError),
}

/// A list of minibatch sizes for a message, in ascending order.
pub fn sizes(sizes: impl Iterator<Item = Option<u32>>) -> String {
    let sizes: BTreeSet<u32> = sizes.flatten().collect();
    match sizes.is_empty() {
        true => "none is told".to_owned(),
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

/// Parses power limits `LO:HI:STEP`, each with a unit, or `auto`.
pub fn limits(text: &str) -> Result<Limits, ValueError> {
    if text.trim() == "auto" {
        return Ok(Limits::Automatic);
    }
    let refused = || ValueError::NotLimits {
        text: text.to_owned(),
    };
    let powers: Result<Vec<Milliwatts>, QuantityError> = text.split(':').map(power).collect();
    match powers?[..] {
        [low, high, step] if low <= high => Ok(Limits::Range(
            [low, high, step].map(|power| f64::from(power.0)),
        )),
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_modes_and_limits_are_read() {
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
        assert_eq!(limits("auto"), Ok(Limits::Automatic));
        let range = Limits::Range([3_000.0, 9_000.0, 500.0]);
        assert_eq!(limits("3W:9W:500mW"), Ok(range));
        for text in ["9W:3W:1W", "3W:9W", "3:9:1", "3W:9W:0W", "3W:9W:1W:1W"] {
            assert!(limits(text).is_err(), "{text}");
        }
    }
}
