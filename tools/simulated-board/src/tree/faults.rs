//! Faults and events, asked for in a small language of lines.
//!
//! ```text
#![doc = include_str!("control.txt")]
//! ```
//!
//! What cannot be done is a [`ControlError`]; commands, late ones included, are reported in
//! [`Tree::log`].

use std::collections::BTreeMap;
use std::time::Duration;

use thiserror::Error;

use super::layout::File;
use super::nvpmodel::NvpmodelError;
use super::{Errno, Tree};
use crate::load::MOST_ACTIVITY;
use crate::machine::supply::Supply;
use crate::sensor::{REMEMBERED, Reading};
use crate::workload::{Workload, WorkloadError};

/// The language, for `board --help`.
pub const HELP: &str = include_str!("control.txt");

/// Why a command is not obeyed.
#[derive(Debug, Error)]
pub enum ControlError {
    #[error("unknown command `{word}`")]
    UnknownCommand { word: String },
    #[error("missing {what}")]
    Missing { what: &'static str },
    #[error("`{word}` is too much")]
    TooMuch { word: String },
    #[error("unknown rail `{rail}`; there are {}", known.join(", "))]
    UnknownRail { rail: String, known: Vec<String> },
    #[error("unknown path `{path}`")]
    UnknownPath { path: String },
    #[error("`{path}` cannot be written")]
    ReadOnly { path: String },
    #[error("`{path}` has no fault")]
    NoFault { path: String },
    #[error("`{word}`, expected {expected}")]
    UnknownWord {
        word: String,
        expected: &'static str,
    },
    #[error("{what} is `{word}`, expected {least} … {most}")]
    OutOfRange {
        what: &'static str,
        word: String,
        least: f64,
        most: f64,
    },
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    #[error("{0}")]
    Nvpmodel(#[from] NvpmodelError),
    #[error("{path}: {errno}")]
    Refused { path: String, errno: Errno },
}

/// What the files of a rail show instead of its sensor's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SensorFault {
    /// They are not there.
    Missing,
    /// Always what the registers held when it froze.
    Frozen(Reading),
    /// What it showed so long ago.
    Late(Duration),
    /// Full scale.
    Absurd,
    /// The negative current.
    Flipped,
}

/// What becomes of writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFault {
    Refused(Errno),
    Ignored,
}

/// A command that was understood. Paths are resolved.
#[derive(Clone, Debug)]
pub(super) enum Command {
    Sensor(usize, SensorWord),
    Offset(usize, f64),
    Fault(String, WriteFault),
    Allow(String),
    Load(Option<Box<Workload>>),
    Power(f64),
    Activity { activity: f64, gpu_load: f64 },
    Ambient(f64),
    Supply(Supply),
    Nvpmodel { id: u32, container: bool },
    Service,
    JetsonClocks,
    Write(String, String),
    Crash(String),
    At(Duration, Box<Line>),
}

/// How a sensor shall fail.
#[derive(Clone, Copy, Debug)]
pub(super) enum SensorWord {
    Fails(SensorFault),
    Freezes,
    Works,
}

/// A command with the text that it came from.
#[derive(Clone, Debug)]
pub(super) struct Line {
    text: String,
    command: Command,
}

/// The faults that are on, and the commands to come.
#[derive(Clone, Debug, Default)]
pub(super) struct Faults {
    sensors: BTreeMap<usize, SensorFault>,
    writes: BTreeMap<String, WriteFault>,
    /// In the order of their times.
    coming: Vec<(Duration, Line)>,
    crashed: Option<String>,
    log: Vec<String>,
}

impl Faults {
    pub fn of_sensor(&self, rail: usize) -> Option<SensorFault> {
        self.sensors.get(&rail).copied()
    }

    pub fn of_writes(&self, path: &str) -> Option<WriteFault> {
        self.writes.get(path).copied()
    }

    /// The file of which only a half is written.
    pub fn crashed(&self) -> Option<&str> {
        self.crashed.as_deref()
    }

    /// Takes the next command whose time has come.
    pub fn due(&mut self, now: Duration) -> Option<(Duration, Line)> {
        let due = self.coming.first().is_some_and(|(at, _)| *at <= now);
        (due && self.crashed.is_none()).then(|| self.coming.remove(0))
    }
}

/// The first half of a text that was being written.
pub(super) fn half(text: &str) -> &str {
    text.get(..text.len() / 2).unwrap_or_default()
}

/// The words of a line.
struct Words<'a>(std::str::SplitWhitespace<'a>);

impl<'a> Words<'a> {
    fn next(&mut self, what: &'static str) -> Result<&'a str, ControlError> {
        self.0.next().ok_or(ControlError::Missing { what })
    }

    fn number(&mut self, what: &'static str, least: f64, most: f64) -> Result<f64, ControlError> {
        let word = self.next(what)?;
        let number = word.parse().ok();
        let within = number.filter(|number: &f64| (least..=most).contains(number));
        within.ok_or_else(|| ControlError::OutOfRange {
            what,
            word: word.to_owned(),
            least,
            most,
        })
    }

    fn end(mut self) -> Result<(), ControlError> {
        match self.0.next() {
            None => Ok(()),
            Some(word) => Err(ControlError::TooMuch {
                word: word.to_owned(),
            }),
        }
    }
}

/// The largest offset of a sensor in mA, that of full scale.
const MAX_OFFSET_MA: f64 = 32_760.0;

/// The highest voltage and resistance of a supply, in mV and mΩ: those of the bus register's
/// full scale, and of a source that no board can run from.
const MAX_SUPPLY_MV: f64 = 32_760.0;
const MAX_SUPPLY_MOHM: f64 = 1_000.0;

/// The latest time of a command in s, a year.
const MAX_SECONDS: f64 = 3.2e7;

impl Tree {
    /// Obeys a line of the control language.
    pub fn control(&mut self, line: &str) -> Result<(), ControlError> {
        let text = line.trim().to_owned();
        let result = self.parse(&text).and_then(|command| self.obey(command));
        self.note(&text, &result);
        result
    }

    /// One line for each command: the time in s, the command, `ok` or the error.
    pub fn log(&self) -> &[String] {
        &self.faults.log
    }

    /// Adds to the log what only the mirror on the disk can know.
    pub(super) fn report(&mut self, what: &str) {
        let seconds = self.jetson.now().as_secs_f64();
        self.faults.log.push(format!("{seconds:.3} {what}"));
    }

    fn note(&mut self, text: &str, result: &Result<(), ControlError>) {
        match result {
            Ok(()) => self.report(&format!("{text}: ok")),
            Err(error) => self.report(&format!("{text}: error: {error}")),
        }
    }

    pub(super) fn execute(&mut self, line: &Line) {
        let result = self.obey(line.command.clone());
        self.note(&line.text, &result);
    }

    /// The error with which opening or writing the file fails by a fault.
    pub(super) fn refusal(&self, path: &str) -> Option<Errno> {
        match self.faults.of_writes(path) {
            Some(WriteFault::Refused(errno)) => Some(errno),
            _ => None,
        }
    }

    /// The file that a crash has left half written.
    pub fn crashed(&self) -> Option<&str> {
        self.faults.crashed()
    }

    fn parse(&self, text: &str) -> Result<Command, ControlError> {
        let mut words = Words(text.split_whitespace());
        let command = match words.next("a command")? {
            "sensor" => {
                let rail = self.rail(words.next("a rail")?)?;
                Command::Sensor(rail, sensor_word(&mut words)?)
            }
            "offset" => {
                let rail = self.rail(words.next("a rail")?)?;
                Command::Offset(rail, words.number("MA", -MAX_OFFSET_MA, MAX_OFFSET_MA)?)
            }
            "refuse" => {
                let path = self.knob(words.next("a path")?)?;
                let errno = match words.next("an errno")? {
                    "EBUSY" => Errno::Ebusy,
                    "EINVAL" => Errno::Einval,
                    "EIO" => Errno::Eio,
                    "EROFS" => Errno::Erofs,
                    word => {
                        return Err(ControlError::UnknownWord {
                            word: word.to_owned(),
                            expected: "EBUSY, EINVAL, EIO or EROFS",
                        });
                    }
                };
                Command::Fault(path, WriteFault::Refused(errno))
            }
            "ignore" => Command::Fault(self.knob(words.next("a path")?)?, WriteFault::Ignored),
            "allow" => Command::Allow(self.knob(words.next("a path")?)?),
            "load" => Command::Load(match words.next("a workload or `off`")? {
                "off" => None,
                name => Some(Box::new(Workload::named(name)?)),
            }),
            "power" => Command::Power(words.number("FACTOR", 0.7, 1.3)?),
            "activity" => {
                let activity = words.number("A", 0.0, MOST_ACTIVITY)?;
                let gpu_load = match words.0.clone().next() {
                    None => activity.min(1.0),
                    Some(_) => words.number("G", 0.0, 1.0)?,
                };
                Command::Activity { activity, gpu_load }
            }
            "ambient" => Command::Ambient(words.number("CELSIUS", -40.0, 85.0)?),
            "supply" => Command::Supply(Supply {
                millivolts: words.number("MV", 1_000.0, MAX_SUPPLY_MV)?,
                milliohms: words.number("MOHM", 0.0, MAX_SUPPLY_MOHM)?,
            }),
            "nvpmodel" => {
                let id = words.number("ID", 0.0, f64::from(u32::MAX))? as u32;
                let container = match words.0.next() {
                    None => false,
                    Some("container") => true,
                    Some(word) => {
                        return Err(ControlError::UnknownWord {
                            word: word.to_owned(),
                            expected: "`container` or nothing",
                        });
                    }
                };
                Command::Nvpmodel { id, container }
            }
            "service" => Command::Service,
            "jetson-clocks" => Command::JetsonClocks,
            "write" => {
                let path = self.knob(words.next("a path")?)?;
                Command::Write(path, words.next("a value")?.to_owned())
            }
            "crash" => Command::Crash(self.file(words.next("a path")?)?),
            "at" => {
                let seconds = words.number("SECONDS", 0.0, MAX_SECONDS)?;
                let rest = words.0.collect::<Vec<_>>().join(" ");
                let line = Line {
                    command: self.parse(&rest)?,
                    text: rest,
                };
                return Ok(Command::At(
                    Duration::from_secs_f64(seconds),
                    Box::new(line),
                ));
            }
            word => {
                return Err(ControlError::UnknownCommand {
                    word: word.to_owned(),
                });
            }
        };
        words.end()?;
        Ok(command)
    }

    fn rail(&self, label: &str) -> Result<usize, ControlError> {
        let rails = &self.jetson.board().rails;
        let found = rails.iter().position(|rail| rail.label == label);
        found.ok_or_else(|| ControlError::UnknownRail {
            rail: label.to_owned(),
            known: rails.iter().map(|rail| rail.label.clone()).collect(),
        })
    }

    /// A file that exists, whether or not its core is online.
    fn file(&self, path: &str) -> Result<String, ControlError> {
        let mut resolved = path.to_owned();
        while let Some((alias, rest)) = self.alias_in(&resolved) {
            resolved = format!("{}{rest}", alias.target);
        }
        match self.layout.files.contains_key(&resolved) {
            true => Ok(resolved),
            false => Err(ControlError::UnknownPath {
                path: path.to_owned(),
            }),
        }
    }

    /// A file that can be written.
    fn knob(&self, path: &str) -> Result<String, ControlError> {
        let resolved = self.file(path)?;
        match self.layout.files[&resolved].is_writable() {
            true => Ok(resolved),
            false => Err(ControlError::ReadOnly {
                path: path.to_owned(),
            }),
        }
    }

    fn obey(&mut self, command: Command) -> Result<(), ControlError> {
        match command {
            Command::Sensor(rail, word) => {
                let fault = match word {
                    SensorWord::Fails(fault) => fault,
                    SensorWord::Freezes => SensorFault::Frozen(self.jetson.channel(rail).reading()),
                    SensorWord::Works => {
                        self.faults.sensors.remove(&rail);
                        return Ok(());
                    }
                };
                self.faults.sensors.insert(rail, fault);
            }
            Command::Offset(rail, ma) => self.jetson.set_offset_ma(rail, ma),
            Command::Fault(path, fault) => {
                self.faults.writes.insert(path, fault);
            }
            Command::Allow(path) => {
                if self.faults.writes.remove(&path).is_none() {
                    return Err(ControlError::NoFault { path });
                }
            }
            Command::Load(workload) => self.jetson.set_workload(workload.map(|it| *it)),
            Command::Power(factor) => self.jetson.set_power_factor(factor),
            Command::Activity { activity, gpu_load } => self.jetson.set_load(activity, gpu_load),
            Command::Ambient(celsius) => self.jetson.set_ambient_c(celsius),
            Command::Supply(supply) => self.jetson.set_supply(supply),
            Command::Nvpmodel { id, container } => match container {
                true => self.nvpmodel_in_container(id)?,
                false => self.nvpmodel(id)?,
            },
            Command::Service => self.nvpmodel_service()?,
            Command::JetsonClocks => self.jetson_clocks(),
            Command::Write(path, value) => self
                .write(&path, &value)
                .map_err(|errno| ControlError::Refused { path, errno })?,
            Command::Crash(path) => self.faults.crashed = Some(path),
            Command::At(at, line) => {
                let coming = &mut self.faults.coming;
                let place = coming.partition_point(|(before, _)| *before <= at);
                coming.insert(place, (at, *line));
            }
        }
        Ok(())
    }

    /// What `jetson_clocks` does (section 8.1).
    fn jetson_clocks(&mut self) {
        let board = self.jetson.board().clone();
        self.jetson.request(|settings| {
            for policy in &mut settings.policies {
                policy.min_khz = policy.max_khz;
            }
            settings.gpu.railgate = false;
            settings.gpu.min_khz = settings.gpu.max_khz;
            settings.emc.locked = true;
            settings.emc.rate_khz = Some(settings.emc_ceiling_khz(&board));
        });
        let files = self.layout.files.iter();
        let idle = files
            .filter(|(path, file)| matches!(file, File::Register(_)) && path.contains("/cpuidle/"));
        let disabled = idle.map(|(path, _)| (path.clone(), "1"));
        self.registers.extend(disabled);
    }
}

fn sensor_word(words: &mut Words<'_>) -> Result<SensorWord, ControlError> {
    Ok(match words.next("what the sensor does")? {
        "missing" => SensorWord::Fails(SensorFault::Missing),
        "absurd" => SensorWord::Fails(SensorFault::Absurd),
        "flipped" => SensorWord::Fails(SensorFault::Flipped),
        "frozen" => SensorWord::Freezes,
        "ok" => SensorWord::Works,
        "late" => {
            let seconds = words.number("SECONDS", 0.0, REMEMBERED.as_secs_f64())?;
            SensorWord::Fails(SensorFault::Late(Duration::from_secs_f64(seconds)))
        }
        word => {
            return Err(ControlError::UnknownWord {
                word: word.to_owned(),
                expected: "missing, frozen, late, absurd, flipped or ok",
            });
        }
    })
}
