//! Quantities of the config and the command line: a string of a number and a unit, such as `15W`.
//! A bare number is refused.

use std::fmt;
use std::ops::RangeInclusive;

use serde::de;
use serde::de::{Deserialize, Deserializer, Error as _, Unexpected, Visitor};
use wattgate_cli::quantity::{Scale, value};
use wattgate_runtime::{Confidence, Milliseconds, Milliwatts};

/// A power: `15W` or `15000mW`.
#[derive(Clone, Copy, Debug)]
pub struct Power(pub Milliwatts);

/// The window of an average: `60s` or `5min`.
#[derive(Clone, Copy, Debug)]
pub struct Window(pub Milliseconds);

/// The time that a battery has to last: `90min` or `8h`.
#[derive(Clone, Copy, Debug)]
pub struct Duration(pub Milliseconds);

/// How long the highest power ratio is remembered: `10min`, or `for ever` (`None`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory(pub Option<Milliseconds>);

impl Memory {
    /// Default: ten minutes.
    pub const DEFAULT: Self = Self(Some(Milliseconds(600_000)));
}

/// An energy in mJ: `40Wh` or `900J`.
#[derive(Clone, Copy, Debug)]
pub struct Energy(pub u64);

/// A temperature in milli-°C: `95C`.
#[derive(Clone, Copy, Debug)]
pub struct Temperature(pub i64);

/// A probability: `0.95`.
#[derive(Clone, Copy, Debug)]
pub struct Probability(pub Confidence);

/// The units and the range of one kind of quantity; `range` is in the base unit.
struct Quantity {
    expected: &'static str,
    units: &'static [Scale],
    range: RangeInclusive<f64>,
}

const POWER: Quantity = Quantity {
    expected: "a power of 1mW to 1000W with its unit, such as \"15W\" or \"900mW\"",
    units: &[("mw", 1.0), ("w", 1_000.0)],
    range: 1.0..=1e6,
};

const WINDOW: Quantity = Quantity {
    expected: "a time of 1s to 1440min with its unit, such as \"60s\" or \"5min\"",
    units: &[("min", 60_000.0), ("s", 1_000.0)],
    range: 1_000.0..=86_400_000.0,
};

const DURATION: Quantity = Quantity {
    expected: "a time of 1min to 240h with its unit, such as \"90min\" or \"8h\"",
    units: &[("min", 60_000.0), ("h", 3_600_000.0)],
    range: 60_000.0..=864_000_000.0,
};

const MEMORY: Quantity = Quantity {
    expected: "a time of 1min to 24h with its unit, such as \"10min\", or \"for ever\"",
    units: &[("min", 60_000.0), ("h", 3_600_000.0), ("s", 1_000.0)],
    range: 60_000.0..=86_400_000.0,
};

const ENERGY: Quantity = Quantity {
    expected: "an energy of 1J to 10000Wh with its unit, such as \"40Wh\" or \"900J\"",
    units: &[("wh", 3_600_000.0), ("j", 1_000.0)],
    range: 1_000.0..=3.6e10,
};

const TEMPERATURE: Quantity = Quantity {
    expected: "a temperature of 20C to 120C with its unit, such as \"95C\"",
    units: &[("c", 1_000.0)],
    range: 20_000.0..=120_000.0,
};

impl Quantity {
    fn of(&self, text: &str) -> Option<f64> {
        let value = value(text, self.units).ok();
        value.filter(|value| self.range.contains(value))
    }

    fn parse(&self, text: &str) -> Result<f64, String> {
        let expected = self.expected;
        self.of(text).ok_or_else(|| format!("expected {expected}"))
    }
}

impl Visitor<'_> for &Quantity {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        self.of(text)
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

/// Deserialises a type from a quantity; `$of` converts the value in the base unit.
macro_rules! deserialize {
    ($name:ident, $quantity:ident, $of:expr) => {
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                from.deserialize_any(&$quantity).map($of).map(Self)
            }
        }
    };
}

deserialize!(Power, POWER, |mw| Milliwatts(mw as u32));
deserialize!(Window, WINDOW, |ms| Milliseconds(ms as u64));
deserialize!(Duration, DURATION, |ms| Milliseconds(ms as u64));
deserialize!(Energy, ENERGY, |mj| mj as u64);
deserialize!(Temperature, TEMPERATURE, |mc| mc as i64);

impl<'de> Deserialize<'de> for Memory {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
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
