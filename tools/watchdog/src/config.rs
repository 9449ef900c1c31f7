//! The config file: TOML with a version, in which every quantity has its unit.
//!
//! `wattgated.toml` beside this crate has every key with what it does; a test compares both.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::{Deserializer, Error as _, Unexpected, Visitor};
use serde::{Deserialize, de};
use thiserror::Error;
use wattgate_runtime::{Average, Confidence, Limit, Milliseconds, Milliwatts};

/// The version that this program reads.
const VERSION: u32 = 1;

/// Why a config is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// An unknown or a missing key, or a value of another kind or without its unit.
    #[error("{}:{line}: {message}", path.display())]
    Defect {
        path: PathBuf,
        /// From 1 on.
        line: usize,
        message: String,
    },
    /// Written for another version of this program.
    #[error("{}: version is {version}, expected {VERSION}", path.display())]
    Version { path: PathBuf, version: u32 },
}

/// What the user wants.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The model file.
    pub model: PathBuf,
    /// What must not be exceeded.
    pub limit: Limit,
    /// Of the guard band.
    pub confidence: Confidence,
    /// Where the prior state is kept, on the board.
    pub state_dir: PathBuf,
    /// From this temperature in milli-°C on, the limit is lowered; none where it is not.
    pub too_hot_mc: Option<i64>,
}

/// The file as it stands.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    model: PathBuf,
    limit: Power,
    average: Option<FileAverage>,
    confidence: Option<Probability>,
    state_dir: Option<PathBuf>,
    too_hot: Option<Temperature>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAverage {
    power: Power,
    window: Window,
}

impl Config {
    /// Reads and checks a file. The path of a model is relative to the folder of the config.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Self::parse(&text, path)?;
        if let Some(folder) = path.parent() {
            config.model = folder.join(&config.model);
        }
        Ok(config)
    }

    /// The same of a text; `path` is for messages.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        let defect = |error: toml::de::Error| {
            let start = error.span().map_or(0, |span| span.start);
            let before = text.get(..start).unwrap_or_default();
            ConfigError::Defect {
                path: path.to_owned(),
                line: 1 + before.matches('\n').count(),
                message: error.message().replace('\n', " "),
            }
        };
        // Before the keys, which may be others in another version.
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = toml::from_str(text).map_err(defect)?;
        if version != VERSION {
            let path = path.to_owned();
            return Err(ConfigError::Version { path, version });
        }
        let file: File = toml::from_str(text).map_err(defect)?;
        debug_assert_eq!(file.version, VERSION);
        let average = file.average.map(|average| Average {
            power: average.power.0,
            window: average.window.0,
        });
        Ok(Self {
            model: file.model,
            limit: Limit {
                power: file.limit.0,
                average,
                budget: None,
            },
            confidence: file.confidence.map_or(Confidence::P95, |it| it.0),
            state_dir: file.state_dir.unwrap_or_else(|| "/var/lib/wattgate".into()),
            too_hot_mc: file.too_hot.map(|it| it.0),
        })
    }
}

/// `15W` or `15000mW`.
#[derive(Debug)]
struct Power(Milliwatts);

/// `60s` or `5min`.
#[derive(Debug)]
struct Window(Milliseconds);

/// `95C`.
#[derive(Debug)]
struct Temperature(i64);

/// `0.95`.
#[derive(Debug)]
struct Probability(Confidence);

/// A quantity as a text of a number and a unit.
struct Quantity {
    expected: &'static str,
    /// The units, and how many thousandths each is of the unit of the result.
    units: &'static [(&'static str, f64)],
    least: f64,
    most: f64,
}

const POWER: Quantity = Quantity {
    expected: "a power of 1mW to 1000W with its unit, such as \"15W\" or \"900mW\"",
    units: &[("mW", 1.0), ("W", 1_000.0)],
    least: 1.0,
    most: 1e6,
};

const WINDOW: Quantity = Quantity {
    expected: "a time of 1s to 1440min with its unit, such as \"60s\" or \"5min\"",
    units: &[("min", 60_000.0), ("s", 1_000.0)],
    least: 1_000.0,
    most: 86_400_000.0,
};

const TEMPERATURE: Quantity = Quantity {
    expected: "a temperature of 20C to 120C with its unit, such as \"95C\"",
    units: &[("C", 1_000.0)],
    least: 20_000.0,
    most: 120_000.0,
};

impl Visitor<'_> for &Quantity {
    type Value = f64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<f64, E> {
        let found = self.units.iter().find_map(|(unit, size)| {
            let number = text.strip_suffix(unit)?.trim_end();
            // No signs, exponents or names such as `inf`.
            let is_plain = number.bytes().all(|it| it.is_ascii_digit() || it == b'.');
            let number: f64 = number.parse().ok().filter(|_| is_plain)?;
            Some((number * size).round())
        });
        found
            .filter(|value| (self.least..=self.most).contains(value))
            .ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for Power {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = from.deserialize_any(&POWER)?;
        Ok(Self(Milliwatts(value as u32)))
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = from.deserialize_any(&WINDOW)?;
        Ok(Self(Milliseconds(value as u64)))
    }
}

impl<'de> Deserialize<'de> for Temperature {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = from.deserialize_any(&TEMPERATURE)?;
        Ok(Self(value as i64))
    }
}

impl<'de> Deserialize<'de> for Probability {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let value = f64::deserialize(from)?;
        // Saturating: what is out of range stays so.
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

    const SAMPLE: &str = include_str!("../wattgated.toml");

    fn parse(text: &str) -> Result<Config, String> {
        let parsed = Config::parse(text, Path::new("w.toml"));
        parsed.map_err(|error| error.to_string())
    }

    fn refused(line: &str) -> String {
        let text = format!("version = 1\nmodel = \"m.wgt\"\n{line}\n");
        parse(&text).expect_err(line)
    }

    #[test]
    fn the_sample_is_a_config_and_says_what_is_taken_without_a_key() {
        let config = parse(SAMPLE).expect("a config");
        assert_eq!(config.limit.power, Milliwatts(15_000));
        assert_eq!(config.limit.average, None);
        // The optional keys are comments that show the default, but for those that are off.
        let mut all = SAMPLE.replace("\n#average", "\naverage");
        for key in ["confidence", "state_dir", "too_hot"] {
            all = all.replace(&format!("\n#{key}"), &format!("\n{key}"));
        }
        let shown = parse(&all).expect("a config");
        assert_eq!(shown.confidence, config.confidence);
        assert_eq!(shown.state_dir, config.state_dir);
        assert_eq!(shown.too_hot_mc, Some(95_000));
        let average = Average {
            power: Milliwatts(12_000),
            window: Milliseconds(60_000),
        };
        assert_eq!(shown.limit.average, Some(average));
    }

    #[test]
    fn the_sample_documents_every_key() {
        let keys = |line: &str| {
            let (key, _) = line.trim_start_matches('#').split_once(" = ")?;
            let is_key = key.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
            is_key.then(|| key.to_owned())
        };
        let documented: Vec<String> = SAMPLE.lines().filter_map(keys).collect();
        // serde lists the keys that there are.
        let all = refused("limits = 1");
        let (_, all) = all.split_once("expected one of ").expect("a list");
        let all: Vec<&str> = all.split(", ").map(|it| it.trim_matches('`')).collect();
        assert_eq!(documented, all);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert_eq!(
            refused("limit = \"15W\"\nlimits = 1"),
            "w.toml:4: unknown field `limits`, expected one of `version`, `model`, `limit`, \
             `average`, `confidence`, `state_dir`, `too_hot`"
        );
        assert_eq!(
            refused("limit = \"15W\"\naverage = { power = \"9W\", window = \"9s\", of = 1 }"),
            "w.toml:4: unknown field `of`, expected `power` or `window`"
        );
    }

    #[test]
    fn a_missing_key_is_named() {
        assert_eq!(
            parse(""),
            Err("w.toml:1: missing field `version`".to_owned())
        );
        assert_eq!(refused(""), "w.toml:1: missing field `limit`");
    }

    #[test]
    fn another_version_is_refused_before_its_keys() {
        let error = parse("version = 2\nwatts = 15").expect_err("refused");
        assert_eq!(error, "w.toml: version is 2, expected 1");
    }

    #[test]
    fn a_quantity_has_its_unit_and_is_in_range() {
        let power = "expected a power of 1mW to 1000W with its unit, such as \"15W\" or \"900mW\"";
        for (line, found) in [
            ("limit = 15", "type: integer `15`"),
            ("limit = 15.5", "type: floating point `15.5`"),
            ("limit = true", "type: boolean `true`"),
            ("limit = \"15\"", "value: string \"15\""),
            ("limit = \"15kW\"", "value: string \"15kW\""),
            ("limit = \"15w\"", "value: string \"15w\""),
            ("limit = \"-15W\"", "value: string \"-15W\""),
            ("limit = \"infW\"", "value: string \"infW\""),
            ("limit = \"1e3W\"", "value: string \"1e3W\""),
            ("limit = \"W\"", "value: string \"W\""),
            ("limit = \"0W\"", "value: string \"0W\""),
            ("limit = \"1001W\"", "value: string \"1001W\""),
        ] {
            assert_eq!(refused(line), format!("w.toml:3: invalid {found}, {power}"));
        }
        for (line, expected) in [
            (
                "average = { power = \"12W\", window = 60 }",
                "invalid type: integer `60`, expected a time of 1s to 1440min with its unit, \
                 such as \"60s\" or \"5min\"",
            ),
            (
                "average = { power = \"12W\", window = \"100ms\" }",
                "invalid value: string \"100ms\", expected a time of 1s to 1440min with its \
                 unit, such as \"60s\" or \"5min\"",
            ),
            (
                "too_hot = \"95F\"",
                "invalid value: string \"95F\", expected a temperature of 20C to 120C with its \
                 unit, such as \"95C\"",
            ),
            (
                "confidence = 95.0",
                "invalid value: floating point `95.0`, expected a probability of 0.5 to 0.9999, \
                 such as 0.95",
            ),
        ] {
            let error = refused(&format!("limit = \"15W\"\n{line}"));
            assert_eq!(error, format!("w.toml:4: {expected}"));
        }
    }

    #[test]
    fn quantities_are_exact() {
        for (text, milliwatts) in [
            ("15W", 15_000),
            ("7.5 W", 7_500),
            ("12345mW", 12_345),
            ("0.001W", 1),
        ] {
            let text = format!("version = 1\nmodel = \"m\"\nlimit = \"{text}\"");
            let config = parse(&text).expect("a config");
            assert_eq!(config.limit.power, Milliwatts(milliwatts));
        }
    }

    #[test]
    fn what_is_no_toml_is_told_with_its_line() {
        let error = refused("limit = \"15W");
        assert!(error.starts_with("w.toml:3: "), "{error}");
    }
}
