//! Parses a line of the control language into an order.

use std::time::Duration;

use super::super::errno::Errno;
use super::super::faults::{ReadFault, SensorFault, WriteFault};
use super::super::file::CooledPart;
use super::super::state::State;
use super::command::{Command, Line, Order, SensorWord};
use super::error::ControlError;
use crate::corpus::Feeding;
use crate::load::MOST_ACTIVITY;
use crate::machine::ClockDomain;
use crate::machine::supply::Supply;
use crate::sensor::REMEMBERED;
use crate::workload::Workload;

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

    /// A time in s, at least `least`.
    fn time(&mut self, least: f64) -> Result<Duration, ControlError> {
        let seconds = self.number("SECONDS", least, MAX_SECONDS)?;
        Ok(Duration::from_secs_f64(seconds))
    }

    /// Takes the word `off` if it is next.
    fn is_off(&mut self) -> bool {
        let is_off = self.0.clone().next() == Some("off");
        if is_off {
            self.0.next();
        }
        is_off
    }

    /// A clock of a table in kHz; `off` is the highest number.
    fn clock_or_off(&mut self, table: &[u32]) -> Result<u32, ControlError> {
        if self.is_off() {
            return Ok(u32::MAX);
        }
        let word = self.next("KHZ or `off`")?;
        let khz = word.parse().ok().filter(|khz| table.contains(khz));
        khz.ok_or_else(|| ControlError::UnknownWord {
            word: word.to_owned(),
            expected: "a clock of the board's table or `off`",
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

/// Largest offset of a sensor in mA: full scale.
const MAX_OFFSET_MA: f64 = 32_760.0;

/// Longest delay of a clock in ms.
const MAX_DELAY_MS: f64 = 1_000.0;

/// Highest voltage of a supply in mV: full scale of the bus register.
const MAX_SUPPLY_MV: f64 = 32_760.0;
/// Highest resistance of a supply in mΩ; no board can run from such a source.
const MAX_SUPPLY_MOHM: f64 = 1_000.0;

/// The parser refuses an N above this in `minibatch N` and `workers N`. The workload then checks both.
const MOST_NUMBER: f64 = 1e6;

/// Highest value of a knob: no clock has more Hz.
const MAX_VALUE: f64 = 1e12;

/// Shortest period of a repeated command in s.
const LEAST_PERIOD: f64 = 0.01;

/// Latest time of a command in s: one year.
const MAX_SECONDS: f64 = 3.2e7;

impl State {
    /// The workload of a name, or the recorded one of a recorded board.
    fn workload(&self, name: &str) -> Result<Workload, ControlError> {
        match &self.recorded {
            None => Ok(Workload::named(name)?),
            Some(recorded) if recorded.name == name => Ok(recorded.clone()),
            Some(recorded) => Err(ControlError::NotRecorded {
                word: name.to_owned(),
                recorded: recorded.name.clone(),
            }),
        }
    }

    /// Feeds a workload as the rest of the line says: by `minibatch N`, `workers N`, both or neither.
    fn fed(&self, workload: Workload, words: &mut Words<'_>) -> Result<Workload, ControlError> {
        let mut feeding = Feeding {
            minibatch: workload.minibatch,
            workers: workload.loader.workers,
            storage: None,
        };
        let before = feeding;
        while let Some(word) = words.0.next() {
            match word {
                "minibatch" => feeding.minibatch = words.number("N", 1.0, MOST_NUMBER)? as u32,
                "workers" => feeding.workers = words.number("N", 0.0, MOST_NUMBER)? as u32,
                word => {
                    return Err(ControlError::UnknownWord {
                        word: word.to_owned(),
                        expected: "`minibatch N` or `workers N`",
                    });
                }
            }
        }
        match feeding == before {
            true => Ok(workload),
            false => Ok(feeding.apply(&workload, self.jetson.board())?),
        }
    }

    /// Parses a line of the control language.
    pub fn parse(&self, text: &str) -> Result<Order, ControlError> {
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
            word @ ("clamp" | "floor" | "quantise") => {
                let path = self.knob(words.next("a path")?)?;
                let value = words.number("VALUE", 1.0, MAX_VALUE)? as u64;
                let fault = match word {
                    "clamp" => WriteFault::Clamped(value),
                    "floor" => WriteFault::Floored(value),
                    _ => WriteFault::Quantised(value),
                };
                Command::Fault(path, fault)
            }
            word @ ("late" | "revert") => {
                let path = self.knob(words.next("a path")?)?;
                let time = words.time(0.0)?;
                let fault = match word {
                    "late" => WriteFault::Late(time),
                    _ => WriteFault::Reverted(time),
                };
                Command::Fault(path, fault)
            }
            "unreadable" => Command::Hide(self.knob(words.next("a path")?)?, ReadFault::Unreadable),
            "vanish" => Command::Hide(self.knob(words.next("a path")?)?, ReadFault::Vanished),
            "allow" => Command::Allow(self.knob(words.next("a path")?)?),
            "load" => Command::Load(match words.next("a workload or `off`")? {
                "off" => None,
                name => Some(Box::new(self.fed(self.workload(name)?, &mut words)?)),
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
            "cool" => {
                let board = self.jetson.board();
                let (part, table) = match words.next("a unit")? {
                    "cpu" => (CooledPart::Cpu, &board.cpu_khz),
                    "gpu" => (CooledPart::Gpu, &board.gpu_khz),
                    word => {
                        return Err(ControlError::UnknownWord {
                            word: word.to_owned(),
                            expected: "cpu or gpu",
                        });
                    }
                };
                Command::Cool(part, words.clock_or_off(table)?)
            }
            "throttle" => Command::Throttle(match words.is_off() {
                true => 1,
                false => words.number("DIVISOR", 2.0, 16.0)? as u32,
            }),
            "delay" => {
                let domain = match words.next("a unit")? {
                    "cpu" => ClockDomain::Cpu,
                    "gpu" => ClockDomain::Gpu,
                    "emc" => ClockDomain::Memory,
                    word => {
                        return Err(ControlError::UnknownWord {
                            word: word.to_owned(),
                            expected: "cpu, gpu or emc",
                        });
                    }
                };
                let ms = words.number("MS", 0.0, MAX_DELAY_MS)?;
                Command::Delay(domain, Duration::from_secs_f64(ms / 1e3))
            }
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
            "at" => return Ok(Order::At(words.time(0.0)?, self.line(words)?)),
            "every" => return Ok(Order::Every(words.time(LEAST_PERIOD)?, self.line(words)?)),
            "stop" => {
                words.end()?;
                return Ok(Order::Stop);
            }
            word => {
                return Err(ControlError::UnknownCommand {
                    word: word.to_owned(),
                });
            }
        };
        words.end()?;
        Ok(Order::Now(command))
    }

    /// The order that the rest of a line gives.
    fn line(&self, words: Words<'_>) -> Result<Box<Line>, ControlError> {
        let text = words.0.collect::<Vec<_>>().join(" ");
        let order = self.parse(&text)?;
        Ok(Box::new(Line { order, text }))
    }

    fn rail(&self, label: &str) -> Result<usize, ControlError> {
        let rails = &self.jetson.board().rails;
        let found = rails.iter().position(|rail| rail.label == label);
        found.ok_or_else(|| ControlError::UnknownRail {
            rail: label.to_owned(),
            known: rails.iter().map(|rail| rail.label.clone()).collect(),
        })
    }

    /// Resolves the path of a file that exists, even if its core is offline.
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

    /// Resolves the path of a writable file.
    fn knob(&self, path: &str) -> Result<String, ControlError> {
        let resolved = self.file(path)?;
        match self.layout.files[&resolved].is_writable() {
            true => Ok(resolved),
            false => Err(ControlError::ReadOnly {
                path: path.to_owned(),
            }),
        }
    }
}

fn sensor_word(words: &mut Words<'_>) -> Result<SensorWord, ControlError> {
    Ok(
        match words.next("a sensor state (missing, frozen, late, absurd, flipped or ok)")? {
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
        },
    )
}
