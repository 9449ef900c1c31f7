//! The config file: versioned TOML; every quantity has a unit.
//!
//! `tools/watchdog/wattgated.toml` documents every key; a test compares the two.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use wattgate_board::{AveragingError, SAMPLES};
use wattgate_runtime::{Average, Budget, Confidence, Limit};

use crate::clock::UtcSeconds;
use crate::quantity::{Duration, Energy, Memory, Power, Probability, Temperature, Window};
use crate::schedule::Schedule;

/// The only config version that this program reads.
const VERSION: u32 = 1;

/// Default of `state_dir`.
pub const STATE_DIR: &str = "/var/lib/wattgate";

/// Why a config is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    /// A syntax error, an unknown or missing key, or a value of the wrong type, unit or range.
    #[error("{}:{line}: {message}", path.display())]
    Defect {
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        message: String,
    },
    /// The file has another version.
    #[error("{}: version is {version}, expected {VERSION}", path.display())]
    Version { path: PathBuf, version: u32 },
}

/// A checked config.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The model file.
    pub model: PathBuf,
    /// Power limit, average and budget.
    pub limit: Limit,
    /// Limits by time of day; they replace the power of `limit`.
    pub schedule: Option<Schedule>,
    /// Confidence of the guard band.
    pub confidence: Confidence,
    /// Directory of the prior state and the safe mode, relative to the board's root.
    pub state_dir: PathBuf,
    /// Temperature in milli-°C from which the limit is lowered; `None`: never.
    pub too_hot_mc: Option<i64>,
    /// Samples that the power sensor averages; `None` leaves the driver's setting.
    pub sensor_samples: Option<u32>,
    /// How long the workload's highest power ratio is remembered.
    pub memory: Memory,
    /// The group that may use the socket; `None`: root only.
    pub group: Option<String>,
    /// Where to export metrics; `None`: nowhere.
    pub metrics: Option<Metrics>,
    /// Device of the hardware watchdog timer.
    pub hardware_watchdog: Option<PathBuf>,
}

/// Where metrics for Prometheus are exported.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Metrics {
    /// HTTP at a loopback address.
    Address(SocketAddr),
    /// A file for the node exporter's textfile collector.
    File(PathBuf),
}

/// The keys of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    model: PathBuf,
    limit: Power,
    schedule: Option<Schedule>,
    average: Option<FileAverage>,
    budget: Option<FileBudget>,
    confidence: Option<Probability>,
    state_dir: Option<PathBuf>,
    too_hot: Option<Temperature>,
    sensor_samples: Option<Samples>,
    memory: Option<Memory>,
    group: Option<String>,
    metrics: Option<Metrics>,
    hardware_watchdog: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileAverage {
    power: Power,
    window: Window,
}

#[derive(Debug, Deserialize)]
#[serde(try_from = "BudgetTable")]
struct FileBudget(Budget);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BudgetTable {
    energy: Energy,
    time: Duration,
}

impl TryFrom<BudgetTable> for FileBudget {
    type Error = &'static str;

    fn try_from(table: BudgetTable) -> Result<Self, Self::Error> {
        let (Energy(millijoules), Duration(time)) = (table.energy, table.time);
        // mJ/s = mW.
        let mean_mw = millijoules * 1_000 / time.0.max(1);
        match (1..=1_000_000).contains(&mean_mw) {
            true => Ok(Self(Budget { millijoules, time })),
            false => Err("the budget's energy divided by its time must be 1mW to 1000W"),
        }
    }
}

/// A number of samples that the sensor supports, such as 64.
#[derive(Debug, Deserialize)]
#[serde(try_from = "u32")]
struct Samples(u32);

impl TryFrom<u32> for Samples {
    type Error = AveragingError;

    fn try_from(samples: u32) -> Result<Self, Self::Error> {
        match SAMPLES.contains(&samples) {
            true => Ok(Self(samples)),
            false => Err(AveragingError::NoSuchNumber { samples }),
        }
    }
}

impl TryFrom<String> for Metrics {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.starts_with('/') {
            return match text.ends_with(".prom") {
                true => Ok(Self::File(text.into())),
                // The textfile collector ignores other files.
                false => Err(format!("`{text}`: the file name must end in .prom")),
            };
        }
        match text.parse::<SocketAddr>() {
            Ok(address) if !address.ip().is_loopback() => Err(format!(
                "`{text}`: expected a loopback address, such as \"127.0.0.1:9753\""
            )),
            Ok(address) => Ok(Self::Address(address)),
            Err(_) => Err(format!(
                "`{text}`: expected a loopback address with its port, such as \"127.0.0.1:9753\", \
                 or an absolute path that ends in .prom"
            )),
        }
    }
}

impl Config {
    /// Reads and checks a file. A relative model path is resolved against the file's folder.
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

    /// Checks the text of a config; `path` is for messages only.
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
        // Check the version first: another version may have other keys.
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
                budget: file.budget.map(|it| it.0),
            },
            schedule: file.schedule,
            confidence: file.confidence.map_or(Confidence::P95, |it| it.0),
            state_dir: file.state_dir.unwrap_or_else(|| STATE_DIR.into()),
            too_hot_mc: file.too_hot.map(|it| it.0),
            sensor_samples: file.sensor_samples.map(|it| it.0),
            memory: file.memory.unwrap_or(Memory::DEFAULT),
            group: file.group,
            metrics: file.metrics,
            hardware_watchdog: file.hardware_watchdog,
        })
    }

    /// The limit at a time, with the schedule applied.
    pub fn limit_at(&self, now: UtcSeconds) -> Limit {
        let base = self.limit;
        match &self.schedule {
            Some(schedule) => Limit {
                power: schedule.limit(now, base.power),
                ..base
            },
            None => base,
        }
    }
}

#[cfg(test)]
mod tests {
    use wattgate_runtime::{Milliseconds, Milliwatts};

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
    fn the_sample_is_valid_and_shows_the_defaults() {
        let config = parse(SAMPLE).expect("a config");
        assert_eq!(config.limit.power, Milliwatts(15_000));
        assert_eq!(config.limit.average, None);
        // Optional keys are commented out and show the default, or an example if off by default.
        let mut all = SAMPLE.to_owned();
        for key in keys(SAMPLE) {
            all = all.replace(&format!("\n#{key} ="), &format!("\n{key} ="));
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
        let schedule = shown.schedule.expect("a schedule");
        assert_eq!(schedule.limit_at(0), Milliwatts(10_000));
        let budget = Budget {
            millijoules: 144_000_000,
            time: Milliseconds(5_400_000),
        };
        assert_eq!(shown.limit.budget, Some(budget));
        assert_eq!(shown.sensor_samples, Some(64));
        assert_eq!(config.sensor_samples, None);
        assert_eq!(
            (shown.memory, config.memory),
            (Memory::DEFAULT, Memory::DEFAULT)
        );
        assert_eq!(shown.group.as_deref(), Some("wattgate"));
        let address = "127.0.0.1:9753".parse().expect("an address");
        assert_eq!(shown.metrics, Some(Metrics::Address(address)));
        let device = Path::new("/dev/watchdog0");
        assert_eq!(shown.hardware_watchdog.as_deref(), Some(device));
        let off = (config.schedule, config.limit.budget, config.group);
        assert_eq!(off, (None, None, None));
        assert_eq!((config.metrics, config.hardware_watchdog), (None, None));
    }

    /// All keys of a sample config, commented out or not.
    fn keys(sample: &str) -> Vec<String> {
        let key = |line: &str| {
            let (key, _) = line.trim_start_matches('#').split_once(" = ")?;
            let is_key = key.bytes().all(|it| it.is_ascii_lowercase() || it == b'_');
            is_key.then(|| key.to_owned())
        };
        sample.lines().filter_map(key).collect()
    }

    #[test]
    fn the_sample_documents_every_key() {
        // serde's error lists all keys.
        let all = refused("limits = 1");
        let (_, all) = all.split_once("expected one of ").expect("a list");
        let all: Vec<&str> = all.split(", ").map(|it| it.trim_matches('`')).collect();
        assert_eq!(keys(SAMPLE), all);
    }

    #[test]
    fn an_unknown_key_is_refused() {
        assert_eq!(
            refused("limit = \"15W\"\nlimits = 1"),
            "w.toml:4: unknown field `limits`, expected one of `version`, `model`, `limit`, \
             `schedule`, `average`, `budget`, `confidence`, `state_dir`, `too_hot`, \
             `sensor_samples`, `memory`, `group`, `metrics`, `hardware_watchdog`"
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
    fn another_version_is_refused_before_its_keys_are_read() {
        let error = parse("version = 2\nwatts = 15").expect_err("refused");
        assert_eq!(error, "w.toml: version is 2, expected 1");
    }

    #[test]
    fn a_limit_is_never_rounded_up() {
        for (text, milliwatts) in [("15.0009W", 15_000), ("15 w", 15_000), ("15.1W", 15_100)] {
            let text = format!("version = 1\nmodel = \"m.wgt\"\nlimit = \"{text}\"\n");
            let config = parse(&text).expect("a config");
            assert_eq!(config.limit.power, Milliwatts(milliwatts));
        }
    }

    #[test]
    fn a_quantity_needs_a_unit_and_a_value_in_range() {
        let power = "expected a power of 1mW to 1000W with its unit, such as \"15W\" or \"900mW\"";
        for (line, found) in [
            ("limit = 15", "type: integer `15`"),
            ("limit = 15.5", "type: floating point `15.5`"),
            ("limit = true", "type: boolean `true`"),
            ("limit = \"15\"", "value: string \"15\""),
            ("limit = \"15kW\"", "value: string \"15kW\""),
            ("limit = \"15MW\"", "value: string \"15MW\""),
            ("limit = \"-15W\"", "value: string \"-15W\""),
            ("limit = \"infW\"", "value: string \"infW\""),
            ("limit = \"1e4W\"", "value: string \"1e4W\""),
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
    fn a_budget_is_an_energy_and_a_time() {
        let refused = |budget: &str| refused(&format!("limit = \"15W\"\nbudget = {budget}"));
        let energy = "expected an energy of 1J to 10000Wh with its unit, such as \"40Wh\" or \
                      \"900J\"";
        let time = "expected a time of 1min to 240h with its unit, such as \"90min\" or \"8h\"";
        for (budget, error) in [
            ("{ energy = \"40Wh\" }", "missing field `time`".to_owned()),
            (
                "{ energy = 40, time = \"90min\" }",
                format!("invalid type: integer `40`, {energy}"),
            ),
            (
                "{ energy = \"40kWh\", time = \"90min\" }",
                format!("invalid value: string \"40kWh\", {energy}"),
            ),
            (
                "{ energy = \"40Wh\", time = \"90s\" }",
                format!("invalid value: string \"90s\", {time}"),
            ),
            (
                "{ energy = \"1J\", time = \"240h\" }",
                "the budget's energy divided by its time must be 1mW to 1000W".to_owned(),
            ),
            (
                "{ energy = \"10000Wh\", time = \"1h\" }",
                "the budget's energy divided by its time must be 1mW to 1000W".to_owned(),
            ),
        ] {
            assert_eq!(refused(budget), format!("w.toml:4: {error}"));
        }
    }

    #[test]
    fn an_unsupported_number_of_samples_is_refused() {
        for samples in ["0", "63", "2048"] {
            let error = refused(&format!("limit = \"15W\"\nsensor_samples = {samples}"));
            let expected = "expected 1, 4, 16, 64, 128, 256, 512 or 1024";
            assert_eq!(error, format!("w.toml:4: {samples} samples, {expected}"));
        }
    }

    #[test]
    fn a_memory_is_a_time_or_for_ever() {
        let with = |memory: &str| format!("version = 1\nmodel = \"m\"\nlimit = \"9W\"\n{memory}");
        for (text, memory) in [
            ("memory = \"90s\"", Some(Milliseconds(90_000))),
            ("memory = \"24h\"", Some(Milliseconds(86_400_000))),
            ("memory = \"for ever\"", None),
        ] {
            assert_eq!(parse(&with(text)).expect(text).memory, Memory(memory));
        }
        for found in ["ever", "0s", "500ms", "25h", "10"] {
            let error = refused(&format!("limit = \"15W\"\nmemory = \"{found}\""));
            assert_eq!(
                error,
                format!(
                    "w.toml:4: invalid value: string \"{found}\", expected a time of 1min to 24h \
                     with its unit, such as \"10min\", or \"for ever\""
                )
            );
        }
    }

    #[test]
    fn metrics_are_served_at_loopback_addresses_only() {
        let refused = |at: &str| refused(&format!("limit = \"15W\"\nmetrics = \"{at}\""));
        for address in ["0.0.0.0:9753", "192.168.55.1:9753", "[::]:9753"] {
            assert_eq!(
                refused(address),
                format!(
                    "w.toml:4: `{address}`: expected a loopback address, such as \
                     \"127.0.0.1:9753\""
                )
            );
        }
        for text in [
            "9753",
            "localhost:9753",
            "127.0.0.1",
            "127.0.0.1:99999",
            "m.prom",
            "",
        ] {
            assert_eq!(
                refused(text),
                format!(
                    "w.toml:4: `{text}`: expected a loopback address with its port, such as \
                     \"127.0.0.1:9753\", or an absolute path that ends in .prom"
                )
            );
        }
        assert_eq!(
            refused("/run/wattgated/metrics"),
            "w.toml:4: `/run/wattgated/metrics`: the file name must end in .prom"
        );
        let text = "version = 1\nmodel = \"m\"\nlimit = \"9W\"\nmetrics = \"[::1]:9753\"";
        let address = "[::1]:9753".parse().expect("an address");
        let config = parse(text).expect("a config");
        assert_eq!(config.metrics, Some(Metrics::Address(address)));
    }

    #[test]
    fn a_schedule_replaces_the_power_of_the_limit_and_nothing_else() {
        let config = parse(
            "version = 1\nmodel = \"m\"\nlimit = \"15W\"\n\
             average = { power = \"9W\", window = \"60s\" }\n\
             schedule = [{ at = \"00:00Z\", limit = \"20W\" }]",
        );
        let config = config.expect("a config");
        let limit = config.limit_at(UtcSeconds(1_800_000_000));
        assert_eq!(limit.power, Milliwatts(20_000));
        assert_eq!(limit.average, config.limit.average);
        assert_eq!(config.limit_at(UtcSeconds(0)), config.limit);
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
    fn invalid_toml_is_refused_with_its_line() {
        let error = refused("limit = \"15W");
        assert!(error.starts_with("w.toml:3: "), "{error}");
    }
}
