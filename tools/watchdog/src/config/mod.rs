//! The config file: versioned TOML; every quantity has a unit.
//!
//! `tools/watchdog/wattgated.toml` documents every key; a test compares the two.

mod file;

use std::fs;
use std::io;
use std::iter;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use thiserror::Error;
use wattgate_board::Clocks;
use wattgate_cli::aim::{AimError, Said, Wanted};
use wattgate_cli::exit;
use wattgate_runtime::governor::{self, Average};
use wattgate_runtime::{Confidence, Limit, Milliwatts};

pub use self::file::Metrics;
use self::file::{Backstop, File};
use crate::clock::UtcSeconds;
use crate::quantity::{Cores, Margin, Memory, Milliamperes, Place, Placed, PowerOrCurrent, Watts};
use crate::schedule::Schedule;
use crate::supply::Supply;

/// The only config version that this program reads.
const CONFIG_VERSION: u32 = 1;

/// Directory of the saved state, below the board's root.
pub const STATE_DIR: &str = "/var/lib/wattgate";

/// Why a config is refused.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: the config cannot be read: {source}{}", path.display(), advice(source))]
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
    #[error(
        "{}: version is {version}, expected {CONFIG_VERSION}, which this release reads; write version = {CONFIG_VERSION} and its \
         keys, see wattgated.toml(5)",
        path.display()
    )]
    Version { path: PathBuf, version: u32 },
    /// `backstop_margin` without `backstop`.
    #[error("{}: backstop_margin needs backstop = \"hardware\"; add that line, or take the margin out", path.display())]
    MarginAlone { path: PathBuf },
    /// `deadline` without an `objective` that it could slow.
    #[error("{}: {why}", path.display())]
    Aim { path: PathBuf, why: AimError },
    /// A limit of the current, where limits are the supply's.
    #[error(
        "{}: limit is {current}, a current at the module's input, but with supply the limit is the supply's; write a power, \
         or take supply out",
        path.display()
    )]
    CurrentOfSupply {
        path: PathBuf,
        current: Milliamperes,
    },
    /// A limit is over `max_limit`.
    #[error("{}: {key} is {limit}, over max_limit = {max}; lower the one or raise the other", path.display())]
    OverMax {
        path: PathBuf,
        /// `limit`, or the entry of the schedule.
        key: String,
        limit: Watts,
        max: Watts,
    },
}

impl ConfigError {
    /// The exit code of a program that fails by it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unreadable { .. } => exit::OTHER,
            _ => exit::ARGUMENTS,
        }
    }
}

/// The daemon's config below the root of a board's files.
pub fn path(root: &Path) -> PathBuf {
    root.join("etc/wattgated.toml")
}

/// The folder of learned models below the root of a board's files; each board has a folder of its own there.
pub fn models(root: &Path) -> PathBuf {
    root.join(&STATE_DIR[1..]).join("models")
}

fn advice(why: &io::Error) -> &'static str {
    match why.kind() {
        io::ErrorKind::NotFound => {
            "; `wattgate learn` writes one, wattgated.toml(5) tells its keys"
        }
        io::ErrorKind::PermissionDenied => "; run this as root",
        io::ErrorKind::InvalidData => "; save it as UTF-8",
        io::ErrorKind::IsADirectory => "; name a file in it with --config",
        _ => "",
    }
}

/// What the parser says of the place `start`, in the words of a config.
fn explained(message: &str, text: &str, start: usize) -> String {
    let message = message.replace('\n', " ");
    let (before, from) = text.split_at_checked(start).unwrap_or((text, ""));
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    let line = text[line..].lines().next().unwrap_or_default();
    let (key, value) = line.split_once('=').unwrap_or((line, ""));
    let (key, value) = (key.trim(), value.trim());
    let found = from.split([',', '}', ']', '\n', '#']).next();
    let found = found.unwrap_or_default().trim();
    let is_curly = |c: char| "“”„‘’".contains(c);
    if value.starts_with(is_curly) {
        return format!("{key} has curly quotes; write straight ones, as in {key} = \"…\"");
    }
    if message.starts_with("string values must be quoted") {
        return match value.contains(['"', '\'', '[', '{', '#']) {
            true => "a text needs quotes, as in limit = \"15W\"".to_owned(),
            false => format!("`{value}` needs quotes; write {key} = \"{value}\""),
        };
    }
    // A date or time is a map to serde.
    if let Some(rest) = message.strip_prefix("invalid type: map")
        && !found.starts_with(['{', '['])
    {
        return format!("`{found}` is a time without quotes{rest}; put quotes around it");
    }
    if message.starts_with("missing field") || message.starts_with("unknown field") {
        return format!("{message}; see wattgated.toml(5)");
    }
    let words = [
        ("wanted string or table", "expected a text in quotes"),
        ("expected a string", "expected a text in quotes"),
        ("expected path string", "expected a path in quotes"),
        (
            "expected a sequence",
            "expected a list such as [{ at = \"06:00Z\", limit = \"15W\" }]",
        ),
        ("expected f64", "expected a number such as 0.95"),
        ("expected u32", "expected a whole number"),
        (
            "duplicate key",
            "the key is given twice; keep one of the lines",
        ),
        (
            "invalid basic string, expected `\"`",
            "the text has no closing quote; add `\"`",
        ),
    ];
    let mut words = words.into_iter();
    words
        .find_map(|(from, to)| message.contains(from).then(|| message.replace(from, to)))
        .unwrap_or(message)
}

/// Whether a config asks the daemon only to observe. It is read line by line, so that one with a defect counts too: what
/// the units run after a start that failed must write nothing either. Any value but `false` counts.
pub fn observes(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let mut pairs = text.lines().filter_map(|line| line.split_once('='));
    pairs.any(|(key, value)| {
        key.trim().trim_matches('"') == "observe" && !value.trim().starts_with("false")
    })
}

/// The text of a config with a limit and perhaps a model, and nothing else.
pub fn text(model: Option<&Path>, limit: Milliwatts) -> String {
    let model = model.map_or_else(String::new, |model| {
        // A string of JSON is one of TOML.
        let model = serde_json::Value::from(model.to_string_lossy());
        format!("model = {model}\n")
    });
    format!(
        "version = {CONFIG_VERSION}\n{model}limit = \"{}mW\"\n",
        limit.0
    )
}

/// A checked config.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The model file; `None`: the limit is held by measurement alone.
    pub model: Option<PathBuf>,
    /// Power limit, average and budget. For a limit of the current, the power is `current` times the
    /// lowest voltage that an input has; [`Config::set_input`] takes the present voltage instead.
    pub limit: Limit,
    /// The highest current at the module's input; `None` if the limit is a power.
    pub current: Option<Milliamperes>,
    /// The numbers of cores that a mode may have; `None`: any.
    pub cores: Option<Cores>,
    /// What to minimise below the limit, and a deadline for a step.
    pub aim: Wanted,
    /// How a mode sets the clocks.
    pub clocks: Clocks,
    /// The highest limit that the config or a client may set; see [`Config::most`].
    pub max_limit: Option<Milliwatts>,
    /// The supply that all limits are of; `None`: they are the module's.
    pub supply: Option<Supply>,
    /// The margin of the backstop in hardware above the limit; `None`: no backstop.
    pub backstop: Option<Margin>,
    /// Limits by time of day; they replace the power of `limit`.
    pub schedule: Option<Schedule>,
    /// Confidence of the guard band.
    pub confidence: Confidence,
    /// Temperature in milli-°C from which the limit is lowered; `None`: never.
    pub too_hot_mc: Option<i64>,
    /// How long the workload's highest power ratio is remembered.
    pub memory: Memory,
    /// The group that may use the socket; `None`: root only.
    pub group: Option<String>,
    /// Where to export metrics; `None`: nowhere.
    pub metrics: Option<Metrics>,
    /// Device of the hardware watchdog timer.
    pub hardware_watchdog: Option<PathBuf>,
    /// Whether the daemon writes nothing to the board, and only says what it would set.
    pub observe: bool,
    /// What to say of keys that have no effect.
    pub no_effect: Vec<&'static str>,
}

/// The lowest input voltage in mV: below it, an Orin reports under-voltage (`jetson-platform.md`,
/// section 6.4). It turns a limit of the current into the lowest limit of the power.
const LEAST_INPUT_MV: u32 = 4_500;

impl Config {
    /// Reads and checks a file. A relative model path is resolved against the file's folder.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text = fs::read_to_string(path).map_err(|source| ConfigError::Unreadable {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Self::parse(&text, path)?;
        if let Some((folder, model)) = path.parent().zip(config.model.as_mut()) {
            *model = folder.join(&*model);
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
                message: explained(error.message(), text, start),
            }
        };
        // Check the version first: another version may have other keys.
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = toml::from_str(text).map_err(defect)?;
        if version != CONFIG_VERSION {
            let path = path.to_owned();
            return Err(ConfigError::Version { path, version });
        }
        let file: File = toml::from_str(text).map_err(defect)?;
        debug_assert_eq!(file.version, CONFIG_VERSION);
        let no_effect = file.gone();
        let average = file.average.map(|average| Average {
            power: average.power.0,
            window: average.window.0,
        });
        let (power, current) = match file.limit {
            PowerOrCurrent::Power(power) => (power, None),
            PowerOrCurrent::Current(current) if file.supply.is_some() => {
                let path = path.to_owned();
                return Err(ConfigError::CurrentOfSupply { path, current });
            }
            PowerOrCurrent::Current(current) => (current.at(LEAST_INPUT_MV), Some(current)),
        };
        let (objective, deadline) = (file.objective, file.deadline);
        let said = Said {
            objective: objective.map(|it| it.0),
            deadline: deadline.map(|it| it.0),
            ..Said::default()
        };
        let aim = said.wanted().map_err(|why| ConfigError::Aim {
            path: path.to_owned(),
            why,
        })?;
        let mut config = Self {
            model: file.model,
            current,
            cores: file.cores,
            aim: aim.unwrap_or(Wanted::FASTEST),
            clocks: file.clocks.map_or(Clocks::Pin, Clocks::from),
            limit: Limit {
                power,
                average,
                budget: file.budget.map(|it| it.0),
            },
            max_limit: file.max_limit.map(|it| it.0),
            supply: file.supply,
            backstop: match (file.backstop, file.backstop_margin) {
                (Some(Backstop::Hardware), margin) => Some(margin.unwrap_or_default()),
                (None, None) => None,
                (None, Some(_)) => {
                    let path = path.to_owned();
                    return Err(ConfigError::MarginAlone { path });
                }
            },
            schedule: file.schedule,
            confidence: file.confidence.map_or(Confidence::P95, |it| it.0),
            too_hot_mc: file.too_hot.map(|it| it.0),
            memory: file.memory.unwrap_or(Memory::DEFAULT),
            group: file.group,
            metrics: file.metrics,
            hardware_watchdog: file.hardware_watchdog,
            observe: file.observe.unwrap_or(false),
            no_effect,
        };
        config.check_max(path)?;
        config.check_average();
        Ok(config)
    }

    /// Computes the power of a limit of the current at an input voltage in mV.
    pub fn set_input(&mut self, millivolts: u32) {
        if let Some(current) = self.current {
            let power = current.at(millivolts);
            self.limit.power = self.max_limit.map_or(power, |max| power.min(max));
        }
    }

    /// The highest limit that holds whatever clients ask for: `max_limit`, or else the highest that the config names.
    pub fn most(&self) -> Milliwatts {
        let scheduled = self
            .schedule
            .as_ref()
            .map_or(Milliwatts(0), Schedule::highest);
        self.max_limit.unwrap_or(self.limit.power.max(scheduled))
    }

    /// Where the limits hold.
    pub fn limit_place(&self) -> Place {
        self.supply
            .as_ref()
            .map_or(Place::Module, |_| Place::Supply)
    }

    /// A power of a limit, for messages.
    pub fn at_limit(&self, power: Milliwatts) -> Placed {
        Placed(power, self.supply.as_ref().map(|_| Place::Supply))
    }

    /// A power of the module, for messages.
    pub fn at_module(&self, power: Milliwatts) -> Placed {
        Placed(power, self.supply.as_ref().map(|_| Place::Module))
    }

    /// What the supply draws for the module's power, without what only a meter shows.
    pub fn draw(&self) -> governor::Supply {
        let supply = self.supply.as_ref();
        supply.map_or(governor::Supply::NONE, Supply::draw)
    }

    /// Refuses limits over `max_limit`.
    fn check_max(&self, path: &Path) -> Result<(), ConfigError> {
        let Some(max) = self.max_limit else {
            return Ok(());
        };
        let entries = self.schedule.iter().flat_map(Schedule::entries);
        let entries = entries.map(|(at, limit)| (format!("the schedule's limit at {at}"), limit));
        let mut limits = iter::once(("limit".to_owned(), self.limit.power)).chain(entries);
        match limits.find(|(_, limit)| *limit > max) {
            None => Ok(()),
            Some((key, limit)) => Err(ConfigError::OverMax {
                path: path.to_owned(),
                key,
                limit: Watts(limit),
                max: Watts(max),
            }),
        }
    }

    /// Notes an average that no limit lets be reached.
    fn check_average(&mut self) {
        let most = self.most();
        let is_above = self.limit.average.is_some_and(|it| it.power > most);
        // The power of a current follows the voltage.
        if is_above && self.current.is_none() {
            self.no_effect
                .push("average has no effect: its power is above every limit; lower it");
        }
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
mod tests;
