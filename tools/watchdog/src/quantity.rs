//! Quantities of the config and the command line: a string of a number and a unit, such as `15W`.
//! A bare number is refused.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de;
use serde::de::{Deserializer, Error as _, Unexpected, Visitor};
use serde::ser::Serializer;
use serde::{Deserialize, Serialize};
use wattgate_cli::aim::objective;
use wattgate_cli::quantity::{CURRENTS, ENERGIES, Measure, POWERS, TEMPERATURES, TIMES, value};
use wattgate_runtime::{Confidence, Microseconds, Milliseconds, Milliwatts, Objective};

/// A power: `15W` or `15000mW`.
#[derive(Clone, Copy, Debug)]
pub struct Power(pub Milliwatts);

/// A current in mA: `5A` or `900mA`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Milliamperes(pub u32);

impl Milliamperes {
    /// The power at a voltage in mV, rounded down.
    pub fn at(self, millivolts: u32) -> Milliwatts {
        let milliwatts = u64::from(self.0) * u64::from(millivolts) / 1_000;
        Milliwatts(u32::try_from(milliwatts).unwrap_or(u32::MAX))
    }
}

/// As people write it: `2.5 A`.
impl fmt::Display for Milliamperes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} A", Thousandths(u64::from(self.0)))
    }
}

/// A limit of the module's power, or of the current at its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerOrCurrent {
    Power(Milliwatts),
    Current(Milliamperes),
}

/// Numbers of cores: `4`, or `2-8` for each number in the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cores {
    pub least: u32,
    pub most: u32,
}

impl Cores {
    /// Whether a number is in the range.
    pub fn contains(self, cores: u32) -> bool {
        (self.least..=self.most).contains(&cores)
    }

    /// As `4 cores`, `1 core` or `2 to 8 cores`.
    pub fn counted(self) -> String {
        match self {
            Self { least: 1, most: 1 } => "1 core".to_owned(),
            cores => format!("{cores} cores"),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (least, most) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.trim().parse().ok();
        let (least, most) = (number(least)?, number(most)?);
        (1 <= least && least <= most && most <= MOST_CORES).then_some(Self { least, most })
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.least == self.most {
            true => write!(f, "{}", self.least),
            false => write!(f, "{} to {}", self.least, self.most),
        }
    }
}

/// More cores than any board has.
const MOST_CORES: u32 = 64;

struct CoresVisitor;

impl Visitor<'_> for CoresVisitor {
    type Value = Cores;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a number of cores, 1 to {MOST_CORES}, or a range such as \"2-8\""
        )
    }

    fn visit_i64<E: de::Error>(self, cores: i64) -> Result<Cores, E> {
        Cores::parse(&cores.to_string())
            .ok_or_else(|| E::invalid_value(Unexpected::Signed(cores), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Cores, E> {
        Cores::parse(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for Cores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(CoresVisitor)
    }
}

struct LimitVisitor;

impl Visitor<'_> for LimitVisitor {
    type Value = PowerOrCurrent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; or a current of 1mA to 100A", POWER.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<PowerOrCurrent, E> {
        let power = POWER
            .parse_in_range(text)
            .map(|mw| PowerOrCurrent::Power(Milliwatts(mw as u32)));
        let current = CURRENT.parse_in_range(text);
        let current = current.map(|ma| PowerOrCurrent::Current(Milliamperes(ma as u32)));
        let limit = power.or(current);
        limit.ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for PowerOrCurrent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(LimitVisitor)
    }
}

/// A power as people write it: `27.5 W`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watts(pub Milliwatts);

impl fmt::Display for Watts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} W", Thousandths(u64::from(self.0.0)))
    }
}

/// Where a power is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// By the module, whose sensor the board has.
    #[default]
    Module,
    /// By the supply, which feeds the module and all else.
    Supply,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Module => "module",
            Self::Supply => "supply",
        })
    }
}

/// A power, and where it is drawn if both places are in question: `27.5 W at the supply`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed(pub Milliwatts, pub Option<Place>);

impl fmt::Display for Placed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(power, place) = self;
        Watts(*power).fmt(f)?;
        match place {
            Some(place) => write!(f, " at the {place}"),
            None => Ok(()),
        }
    }
}

/// A number of thousandths as a decimal number without zeros at its end: `27.5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thousandths(pub u64);

impl fmt::Display for Thousandths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / 1_000, self.0 % 1_000);
        match (rest % 10, rest % 100) {
            _ if rest == 0 => write!(f, "{whole}"),
            (_, 0) => write!(f, "{whole}.{}", rest / 100),
            (0, _) => write!(f, "{whole}.{:02}", rest / 10),
            _ => write!(f, "{whole}.{rest:03}"),
        }
    }
}

/// The window of an average: `60s` or `5min`.
#[derive(Clone, Copy, Debug)]
pub struct Window(pub Milliseconds);

/// The time that a battery has to last: `90min` or `8h`.
#[derive(Clone, Copy, Debug)]
pub struct Duration(pub Milliseconds);

/// How long a client's limit holds: `10min`.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Milliseconds);

/// A time in the largest unit of which it is a multiple: `10 min`.
impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Milliseconds(ms) = self.0;
        let measures = [(3_600_000, "h"), (60_000, "min"), (1_000, "s")];
        let measure = measures
            .into_iter()
            .find(|(measure, _)| ms % measure == 0 && ms > 0);
        let (measure, name) = measure.unwrap_or((1, "ms"));
        write!(f, "{} {name}", ms / measure)
    }
}

/// How long the highest power ratio is remembered: `10min`, or `for ever` (`None`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(pub Option<Milliseconds>);

impl Memory {
    /// Default: ten minutes.
    pub const DEFAULT: Self = Self(Some(Milliseconds(600_000)));
}

/// The longest time of a step: `33ms`.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(pub Microseconds);

/// What to minimise below a limit: `least-energy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aimed(pub Objective);

/// An energy in mJ: `40Wh` or `900J`.
#[derive(Clone, Copy, Debug)]
pub struct Energy(pub u64);

/// A temperature in milli-°C: `95C`.
#[derive(Clone, Copy, Debug)]
pub struct Temperature(pub i64);

/// A probability: `0.95`.
#[derive(Clone, Copy, Debug)]
pub struct Probability(pub Confidence);

/// A margin above a limit, as a part of it: `0.2`.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Margin(f64);

impl Margin {
    /// The margin of a limit, rounded down.
    pub fn for_limit(self, limit: Milliwatts) -> Milliwatts {
        Milliwatts((f64::from(limit.0) * self.0) as u32)
    }
}

impl Default for Margin {
    fn default() -> Self {
        Self(0.2)
    }
}

impl TryFrom<f64> for Margin {
    type Error = String;

    fn try_from(part: f64) -> Result<Self, String> {
        match (0.05..=1.0).contains(&part) {
            true => Ok(Self(part)),
            false => Err(format!("{part}: expected a part of the limit, 0.05 to 1")),
        }
    }
}

/// The part of a supply's power that arrives at the module, in millionths. A config writes it as `0.9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "f64")]
pub struct Efficiency(pub u32);

impl TryFrom<f64> for Efficiency {
    type Error = String;

    fn try_from(part: f64) -> Result<Self, String> {
        match (0.1..=1.0).contains(&part) {
            // Rounded down, the module gets less.
            true => Ok(Self((part * 1e6 + 1e-3) as u32)),
            false => Err(format!(
                "the efficiency is {part}, expected the part of the supply's power that arrives at the module: 0.1 to 1"
            )),
        }
    }
}

/// The units and the range of one kind of quantity.
struct Quantity {
    expected: &'static str,
    measures: &'static [Measure],
    /// The size of the unit of `range` in the base unit of the table.
    base_units: f64,
    range: RangeInclusive<f64>,
}

const POWER: Quantity = Quantity {
    expected: "a power of 1mW to 1000W with its unit, such as \"15W\" or \"900mW\"",
    measures: POWERS,
    base_units: 1.0,
    range: 1.0..=1e6,
};

const CURRENT: Quantity = Quantity {
    expected: "a current of 1mA to 100A with its unit, such as \"5A\" or \"900mA\"",
    measures: CURRENTS,
    base_units: 1.0,
    range: 1.0..=1e5,
};

const WINDOW: Quantity = Quantity {
    expected: "a time of 1s to 1440min with its unit, such as \"60s\" or \"5min\"",
    measures: TIMES,
    base_units: 1e3,
    range: 1_000.0..=86_400_000.0,
};

const SPAN: Quantity = Quantity {
    expected: "a time of 1s to 24h with its unit, such as \"10min\" or \"8h\"",
    measures: TIMES,
    base_units: 1e3,
    range: 1_000.0..=86_400_000.0,
};

const DURATION: Quantity = Quantity {
    expected: "a time of 1min to 240h with its unit, such as \"90min\" or \"8h\"",
    measures: TIMES,
    base_units: 1e3,
    range: 60_000.0..=864_000_000.0,
};

const MEMORY: Quantity = Quantity {
    expected: "a time of 1min to 24h with its unit, such as \"10min\", or \"for ever\"",
    measures: TIMES,
    base_units: 1e3,
    range: 60_000.0..=86_400_000.0,
};

const DEADLINE: Quantity = Quantity {
    expected: "a time of a step of 1us to 3600s with its unit, such as \"33ms\" or \"2.5s\"",
    measures: TIMES,
    base_units: 1.0,
    range: 1.0..=3.6e9,
};

const ENERGY: Quantity = Quantity {
    expected: "an energy of 1J to 10000Wh with its unit, such as \"40Wh\" or \"900J\"",
    measures: ENERGIES,
    base_units: 1.0,
    range: 1_000.0..=3.6e10,
};

const TEMPERATURE: Quantity = Quantity {
    expected: "a temperature of 20C to 120C with its unit, such as \"95C\"",
    measures: TEMPERATURES,
    base_units: 1.0,
    range: 20_000.0..=120_000.0,
};

impl Quantity {
    fn parse_in_range(&self, text: &str) -> Option<f64> {
        let value = value(text, self.measures, self.base_units).ok();
        value.filter(|value| self.range.contains(value))
    }

    fn parse(&self, text: &str) -> Result<f64, String> {
        let expected = self.expected;
        self.parse_in_range(text)
            .ok_or_else(|| format!("expected {expected}"))
    }
}

impl Visitor<'_> for &Quantity {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        self.parse_in_range(text)
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl Power {
    /// Parses a string; the error says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        POWER.parse(text).map(|mw| Self(Milliwatts(mw as u32)))
    }
}

impl Window {
    /// Parses a string; the error says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        WINDOW.parse(text).map(|ms| Self(Milliseconds(ms as u64)))
    }
}

impl Deadline {
    /// Parses a string; the error says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        DEADLINE.parse(text).map(|us| Self(Microseconds(us as u32)))
    }
}

impl Span {
    /// Parses a string; the error says what is expected.
    pub fn parse(text: &str) -> Result<Self, String> {
        SPAN.parse(text).map(|ms| Self(Milliseconds(ms as u64)))
    }
}

/// A quantity of a request: a whole number, whose unit the key's name has, or a text with a unit.
struct InRequest<'a> {
    key: &'a str,
    quantity: &'static Quantity,
}

impl Visitor<'_> for InRequest<'_> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number, or {}", self.quantity.expected)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<u64, E> {
        Ok(number)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<u64, E> {
        let value = self.quantity.parse(text).map(|value| value as u64);
        value.map_err(|expected| E::custom(format!("{} is `{text}`, {expected}", self.key)))
    }
}

/// Deserialises a power in mW: `15000`, or `"15W"`.
pub fn power_mw<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    let key = "power_mw";
    let quantity = &POWER;
    let value = from.deserialize_any(InRequest { key, quantity })?;
    // The largest number is out of range, too.
    Ok(u32::try_from(value).unwrap_or(u32::MAX))
}

/// Deserialises the window of an average in ms: `60000`, or `"60s"`.
pub fn window_ms<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let key = "window_ms";
    let quantity = &WINDOW;
    from.deserialize_any(InRequest { key, quantity })
}

/// Deserialises the time of a limit in ms: `600000`, or `"10min"`; `null` is none.
pub fn for_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    struct Perhaps;
    impl<'de> Visitor<'de> for Perhaps {
        type Value = Option<u64>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(SPAN.expected)
        }

        fn visit_none<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_some<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
            let key = "for_ms";
            let quantity = &SPAN;
            from.deserialize_any(InRequest { key, quantity }).map(Some)
        }
    }
    from.deserialize_option(Perhaps)
}

/// Deserialises a type from a quantity; `$convert` converts the value in the base unit.
macro_rules! deserialize {
    ($name:ident, $quantity:ident, $convert:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(&$quantity).map($convert).map(Self)
            }
        }
    };
}

deserialize!(Power, POWER, |mw| Milliwatts(mw as u32));
deserialize!(Window, WINDOW, |ms| Milliseconds(ms as u64));
deserialize!(Deadline, DEADLINE, |us| Microseconds(us as u32));
deserialize!(Duration, DURATION, |ms| Milliseconds(ms as u64));
deserialize!(Energy, ENERGY, |mj| mj as u64);
deserialize!(Temperature, TEMPERATURE, |mc| mc as i64);

/// A text; the error for another type says what is expected.
pub struct Text(pub &'static str);

impl Visitor<'_> for Text {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<String, E> {
        Ok(text.to_owned())
    }
}

impl<'de> Deserialize<'de> for Aimed {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = from.deserialize_any(Text(
            "\"fastest\", \"least-power\", \"least-energy\" or \"least-edp\"",
        ))?;
        let objective = objective(&text);
        objective
            .map(Self)
            .map_err(|expected| D::Error::custom(format!("`{text}`: {expected}")))
    }
}

impl Serialize for Aimed {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = from.deserialize_any(Text(MEMORY.expected))?;
        if text == "for ever" {
            return Ok(Self(None));
        }
        let value: f64 = (&MEMORY).visit_str(&text)?;
        Ok(Self(Some(Milliseconds(value as u64))))
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(from)?;
        // The cast saturates, so a value out of range stays out of range.
        let confidence = Confidence::new((value * 10_000.0).round() as u16);
        let expected = "a probability of 0.5 to 0.9999, such as 0.95";
        confidence
            .map(Self)
            .ok_or_else(|| D::Error::invalid_value(Unexpected::Float(value), &expected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_power_is_shown_exactly_and_without_zeros_at_its_end() {
        for (mw, shown) in [
            (0, "0 W"),
            (7, "0.007 W"),
            (40, "0.04 W"),
            (900, "0.9 W"),
            (15_000, "15 W"),
            (27_500, "27.5 W"),
            (27_050, "27.05 W"),
            (29_646, "29.646 W"),
            (29_640, "29.64 W"),
        ] {
            assert_eq!(Watts(Milliwatts(mw)).to_string(), shown);
        }
    }

    #[test]
    fn a_time_is_shown_in_its_largest_unit() {
        for (ms, shown) in [
            (0, "0 ms"),
            (1_500, "1500 ms"),
            (90_000, "90 s"),
            (600_000, "10 min"),
            (5_400_000, "90 min"),
            (86_400_000, "24 h"),
        ] {
            assert_eq!(Span(Milliseconds(ms)).to_string(), shown);
        }
    }
}
