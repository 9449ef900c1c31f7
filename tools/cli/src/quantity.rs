//! Units of measure, and quantities such as `5W`, `5000mW`, `1.2GHz`, `20s`, `95%`.
//!
//! All programs and files have the [`Measure`]s of the tables below, and [`value`] parses every number with a unit.
//!
//! A power, time or frequency without a unit is refused, because a guessed unit may be wrong by a
//! factor of a thousand. Values are rounded down to whole mW, µs or kHz.

use thiserror::Error;
use wattgate_runtime::{Confidence, Kilohertz, Microseconds, Milliseconds, Milliwatts};

/// A unit of measure.
#[derive(Debug, PartialEq)]
pub struct Measure {
    /// As messages have it.
    pub symbol: &'static str,
    /// Its names in lower case, the symbol's first.
    names: &'static [&'static str],
    /// Its size in the base unit of its table.
    factor: f64,
}

const fn unit(symbol: &'static str, names: &'static [&'static str], factor: f64) -> Measure {
    Measure {
        symbol,
        names,
        factor,
    }
}

/// In mW.
pub const POWERS: &[Measure] = &[
    unit("mW", &["mw", "milliwatt", "milliwatts"], 1.0),
    unit("W", &["w", "watt", "watts"], 1e3),
    unit("kW", &["kw", "kilowatt", "kilowatts"], 1e6),
    unit("µW", &["µw", "μw", "uw", "microwatt", "microwatts"], 1e-3),
];

/// In mJ.
pub const ENERGIES: &[Measure] = &[
    unit("J", &["j", "joule", "joules"], 1e3),
    unit("Wh", &["wh"], 3.6e6),
    unit("kWh", &["kwh"], 3.6e9),
];

/// In µs.
pub const TIMES: &[Measure] = &[
    unit("ns", &["ns", "nsec", "nanosecond", "nanoseconds"], 1e-3),
    unit(
        "µs",
        &["µs", "μs", "us", "usec", "microsecond", "microseconds"],
        1.0,
    ),
    unit(
        "ms",
        &["ms", "msec", "millis", "millisecond", "milliseconds"],
        1e3,
    ),
    unit("s", &["s", "sec", "secs", "second", "seconds"], 1e6),
    unit("min", &["min", "mins", "minute", "minutes"], 60e6),
    unit("h", &["h", "hour", "hours"], 3600e6),
];

/// In kHz.
pub const FREQUENCIES: &[Measure] = &[
    unit("kHz", &["khz", "kilohertz"], 1.0),
    unit("MHz", &["mhz", "megahertz"], 1e3),
    unit("GHz", &["ghz", "gigahertz"], 1e6),
    unit("Hz", &["hz", "hertz"], 1e-3),
];

/// In mA.
pub const CURRENTS: &[Measure] = &[
    unit("mA", &["ma", "milliampere", "milliamperes"], 1.0),
    unit("A", &["a", "ampere", "amperes"], 1e3),
];

/// In thousandths of a degree Celsius.
pub const TEMPERATURES: &[Measure] = &[unit("C", &["c", "celsius"], 1e3)];

/// The unit of a name. Upper and lower case are the same, but `MW` is a megawatt and no `mW`.
pub fn measure(measures: &'static [Measure], name: &str) -> Option<&'static Measure> {
    let known = name.to_lowercase();
    let named = measures
        .iter()
        .find(|measure| measure.names.contains(&&*known));
    named.filter(|_| name != "MW")
}

impl Measure {
    /// Its size in units of another.
    pub fn per(&self, other: &Self) -> f64 {
        self.factor / other.factor
    }
}

/// How a number in a unit becomes one in another: `multiply` or `divide`, and by what. `None` if they are one.
pub fn conversion(from: &Measure, to: &Measure) -> Option<(&'static str, f64)> {
    match from.per(to) {
        1.0 => None,
        factor if factor > 1.0 => Some(("multiply", factor)),
        _ => Some(("divide", to.per(from))),
    }
}

/// Why a string is not a quantity of the expected kind.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum QuantityError {
    /// A number without a unit.
    #[error("`{text}` has no unit: a {kind} is given in {measures}, for instance {example}")]
    NoMeasure {
        text: String,
        kind: &'static str,
        measures: &'static str,
        example: &'static str,
    },
    /// An unknown unit, or a unit of another kind of quantity.
    #[error(
        "`{measure}` in `{text}` is not a unit of {kind}: use {measures}, for instance {example}"
    )]
    WrongMeasure {
        text: String,
        measure: String,
        kind: &'static str,
        measures: &'static str,
        example: &'static str,
    },
    /// No number before the unit.
    #[error("`{text}` is not a number with a unit: a {kind} looks like {example}")]
    NotANumber {
        text: String,
        kind: &'static str,
        example: &'static str,
    },
    /// Zero, negative, or too small for the resolution.
    #[error("`{text}` is not a usable {kind}: it must be at least {least}")]
    NotPositive {
        text: String,
        kind: &'static str,
        least: &'static str,
    },
    /// Larger than the runtime's `u32` can hold.
    #[error("`{text}` is not a usable {kind}: it must be below {most}")]
    TooLarge {
        text: String,
        kind: &'static str,
        most: &'static str,
    },
    /// Not a probability from 50 % to 99.99 %.
    #[error("`{text}` is not a usable confidence: it must lie in 0.5 … 0.9999, for instance 0.95")]
    NotAConfidence { text: String },
}

/// A kind of quantity: its units, and texts for messages.
struct Kind {
    name: &'static str,
    /// For messages.
    measures: &'static str,
    example: &'static str,
    least: &'static str,
    most: &'static str,
    scale: &'static [Measure],
}

const POWER: Kind = Kind {
    name: "power",
    measures: "W or mW",
    example: "5W",
    least: "1mW",
    most: "4294967W",
    scale: POWERS,
};

const TIME: Kind = Kind {
    name: "time",
    measures: "s, ms, us or min",
    example: "20s",
    least: "1us",
    most: "71min",
    scale: TIMES,
};

const FREQUENCY: Kind = Kind {
    name: "frequency",
    measures: "kHz, MHz, GHz or Hz",
    example: "1.6GHz",
    least: "1kHz",
    most: "4294GHz",
    scale: FREQUENCIES,
};

/// Parses a power of at least 1 mW.
pub fn power(text: &str) -> Result<Milliwatts, QuantityError> {
    parse(text, &POWER).map(Milliwatts)
}

/// Parses a time of at least 1 µs.
pub fn time(text: &str) -> Result<Microseconds, QuantityError> {
    parse(text, &TIME).map(Microseconds)
}

/// Parses a time of 1 min to 240 h in which work is to be done.
pub fn within(text: &str) -> Result<Milliseconds, String> {
    let ms = value(text, TIMES, 1e3).ok();
    let ms = ms.filter(|ms| (60e3..=864e6).contains(ms));
    let ms = ms.map(|ms| Milliseconds(ms as u64));
    ms.ok_or_else(|| {
        "expected a time of 1min to 240h with its unit, such as \"90min\" or \"6h\"".to_owned()
    })
}

/// Parses a frequency of at least 1 kHz.
pub fn frequency(text: &str) -> Result<Kilohertz, QuantityError> {
    parse(text, &FREQUENCY).map(Kilohertz)
}

/// Parses a probability: a number (`0.95`) or a percentage (`95%`).
pub fn confidence(text: &str) -> Result<Confidence, QuantityError> {
    let refused = || QuantityError::NotAConfidence {
        text: text.to_owned(),
    };
    let trimmed = text.trim();
    let (number, scale) = match trimmed.strip_suffix('%') {
        Some(percent) => (percent.trim_end(), 1e2),
        None => (trimmed, 1e4),
    };
    let value: f64 = number.parse().map_err(|_| refused())?;
    let per_ten_thousand = (value * scale).round();
    if !(0.0..=f64::from(u16::MAX)).contains(&per_ten_thousand) {
        return Err(refused());
    }
    Confidence::new(per_ten_thousand as u16).ok_or_else(refused)
}

/// Why [`value`] refused a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoValue<'a> {
    /// The string does not begin with a number.
    NotANumber,
    /// The string is a number without a unit.
    NoMeasure,
    /// The unit is not in the list.
    WrongMeasure(&'a str),
}

/// Parses a number with a unit. Returns the value in multiples of so many base units, rounded down.
pub fn value<'a>(
    text: &'a str,
    measures: &'static [Measure],
    base_units: f64,
) -> Result<f64, NoValue<'a>> {
    let (number, name) = split(text);
    let number = number.parse::<f64>().map_err(|_| NoValue::NotANumber)?;
    if name.is_empty() {
        return Err(NoValue::NoMeasure);
    }
    let measure = measure(measures, name).ok_or(NoValue::WrongMeasure(name))?;
    // Without the epsilon, 5.1 W could round down to 5099 mW: decimals are not exact in binary.
    Ok((number * (measure.factor / base_units) * (1.0 + f64::EPSILON)).floor())
}

/// The number at the beginning of a text, and the unit after it.
pub fn split(text: &str) -> (&str, &str) {
    let trimmed = text.trim();
    let end = trimmed
        .char_indices()
        .find(|&(at, c)| (c.is_alphabetic() || c == '%') && !is_exponent(trimmed, at))
        .map_or(trimmed.len(), |(at, _)| at);
    let (number, name) = trimmed.split_at(end);
    (number.trim_end(), name)
}

fn parse(text: &str, kind: &Kind) -> Result<u32, QuantityError> {
    let (name, example) = (kind.name, kind.example);
    let own = || text.to_owned();
    let scaled = value(text, kind.scale, 1.0).map_err(|why| match why {
        NoValue::NotANumber => QuantityError::NotANumber {
            text: own(),
            kind: name,
            example,
        },
        NoValue::NoMeasure => QuantityError::NoMeasure {
            text: own(),
            kind: name,
            measures: kind.measures,
            example,
        },
        NoValue::WrongMeasure(measure) => QuantityError::WrongMeasure {
            text: own(),
            measure: measure.to_owned(),
            kind: name,
            measures: kind.measures,
            example,
        },
    })?;
    if scaled < 1.0 {
        return Err(QuantityError::NotPositive {
            text: own(),
            kind: name,
            least: kind.least,
        });
    }
    if scaled > f64::from(u32::MAX) {
        return Err(QuantityError::TooLarge {
            text: own(),
            kind: name,
            most: kind.most,
        });
    }
    Ok(scaled as u32)
}

/// Whether the letter at `at` is the exponent's `e` in a number such as `1e3`.
fn is_exponent(text: &str, at: usize) -> bool {
    let mut rest = text[at..].chars();
    matches!(rest.next(), Some('e' | 'E'))
        && rest
            .next()
            .is_some_and(|c| c.is_ascii_digit() || c == '-' || c == '+')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_parsed_in_all_their_spellings() {
        for text in [
            "5W", "5 W", " 5w ", "5000mW", "5.0W", "5e3mW", "0.005kW", "5000 mw",
        ] {
            assert_eq!(power(text), Ok(Milliwatts(5_000)), "{text}");
        }
        for text in ["20s", "20 s", "20000ms", "2e7us", "20000000µs"] {
            assert_eq!(time(text), Ok(Microseconds(20_000_000)), "{text}");
        }
        assert_eq!(time("1.5min"), Ok(Microseconds(90_000_000)));
        assert_eq!(time("0.5 hours"), Ok(Microseconds(1_800_000_000)));
        for text in [
            "1.6GHz",
            "1600MHz",
            "1600000kHz",
            "1600000000 Hz",
            "1600 mhz",
        ] {
            assert_eq!(frequency(text), Ok(Kilohertz(1_600_000)), "{text}");
        }
        for text in ["0.95", "95%", "95 %", ".95"] {
            assert_eq!(confidence(text), Ok(Confidence::P95), "{text}");
        }
    }

    #[test]
    fn every_decimal_limit_keeps_its_last_digit() {
        for milliwatts in 1..100_000 {
            let text = format!("{}.{:03}W", milliwatts / 1000, milliwatts % 1000);
            assert_eq!(power(&text), Ok(Milliwatts(milliwatts)), "{text}");
        }
    }

    #[test]
    fn a_unit_has_one_table_and_each_name_one_unit() {
        for table in [POWERS, ENERGIES, TIMES, FREQUENCIES, CURRENTS, TEMPERATURES] {
            let names = || table.iter().flat_map(|known| known.names);
            for name in names() {
                assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
            }
            for known in table {
                assert_eq!(known.names[0], known.symbol.to_lowercase());
                assert_eq!(measure(table, known.symbol), Some(known));
                assert_eq!(conversion(known, known), None);
            }
        }
        let [ns, ms] = ["ns", "ms"].map(|name| measure(TIMES, name).expect("a unit"));
        assert_eq!(conversion(ns, ms), Some(("divide", 1e6)));
        assert_eq!(conversion(ms, ns), Some(("multiply", 1e6)));
    }

    #[test]
    fn a_limit_is_never_rounded_up() {
        assert_eq!(power("5.0009W"), Ok(Milliwatts(5_000)));
        assert_eq!(time("1.9us"), Ok(Microseconds(1)));
    }

    #[test]
    fn each_mistake_has_its_message() {
        let message = |result: Result<Milliwatts, QuantityError>| result.unwrap_err().to_string();
        assert_eq!(
            message(power("5")),
            "`5` has no unit: a power is given in W or mW, for instance 5W"
        );
        assert_eq!(
            message(power("5s")),
            "`s` in `5s` is not a unit of power: use W or mW, for instance 5W"
        );
        assert_eq!(
            message(power("5MW")),
            "`MW` in `5MW` is not a unit of power: use W or mW, for instance 5W"
        );
        for text in ["0W", "-5W", "0.9mW"] {
            assert_eq!(
                message(power(text)),
                format!("`{text}` is not a usable power: it must be at least 1mW")
            );
        }
        for text in ["W", "five W", "", "1..2W", "nanW"] {
            assert_eq!(
                message(power(text)),
                format!("`{text}` is not a number with a unit: a power looks like 5W")
            );
        }
        assert_eq!(
            message(power("5e9W")),
            "`5e9W` is not a usable power: it must be below 4294967W"
        );
        for text in ["1", "0.4", "49.99%", "100%", "-1", "x", "NaN"] {
            assert_eq!(
                confidence(text).unwrap_err().to_string(),
                format!(
                    "`{text}` is not a usable confidence: it must lie in 0.5 … 0.9999, for \
                     instance 0.95"
                )
            );
        }
    }
}
