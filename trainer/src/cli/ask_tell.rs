//! `plan --ask-tell`: the planner as a co-process that answers JSON lines.
//!
//! Every line of standard input gets one line on standard output. A request that is refused
//! changes nothing.

use std::io::{self, BufRead, Read as _, Write as _};

use serde::de::DeserializeOwned;
use serde_json::Value;
use wattgate_cli::json::Mode;
use wattgate_cli::planning::{Answer, Axes, ExpectedError, Request, Task, VERSION};
use wattgate_runtime::PowerMode;
use wattgate_runtime::fleet::UnitId;
use wattgate_runtime::grid::Grid;

use super::Failure;
use super::inputs::read_references;
use crate::ask_tell::{self, Next, Planner, Refused};
use crate::corpus::fed::Feeding;
use crate::corpus::units::Units;
use crate::corpus::{self, Blank, Corpus, POWERS_MW};
use crate::learn::predictions::Errors;

/// Longest line in bytes, without its end.
const LONGEST_LINE: usize = 64 << 10;

/// Highest time in µs and power in mW: the runtime stores both in 32 bits.
const HIGHEST: f64 = 4_294_967_295.0;

/// Seed where the first line has none, as the default of `plan --seed`.
const SEED: u64 = 1;

impl From<Refused> for Answer {
    fn from(refused: Refused) -> Self {
        let code = match refused {
            Refused::Modes { .. } => "modes",
            Refused::NotOfGrid(_) => "mode",
            Refused::Told(_) => "told",
            Refused::OtherBoard { .. } => "board",
            Refused::OwnReference(_) => "reference",
            Refused::Few { .. } => "few",
            Refused::Train(_) => "train",
            Refused::SingularCovariance(_) => "singular",
        };
        Self::error(code, refused)
    }
}

/// Answers until the end of the input.
pub fn run() -> Result<(), Failure> {
    let mut input = io::stdin().lock();
    let mut output = io::stdout().lock();
    let mut planner = None;
    while let Some(line) = read_line(&mut input)? {
        let answer = match line {
            Ok(line) => answer(&mut planner, &line).unwrap_or_else(|error| error),
            Err(TooLong) => {
                Answer::error("long", format!("a line has at most {LONGEST_LINE} bytes"))
            }
        };
        let mut text = serde_json::to_vec(&answer).map_err(io::Error::from)?;
        text.push(b'\n');
        output.write_all(&text)?;
        output.flush()?;
    }
    Ok(())
}

struct TooLong;

/// The next line without its end; `None` at the end of the input. The rest of a line that is too
/// long is skipped.
fn read_line(input: &mut impl BufRead) -> io::Result<Option<Result<Vec<u8>, TooLong>>> {
    let mut line = Vec::new();
    if input
        .take(LONGEST_LINE as u64 + 1)
        .read_until(b'\n', &mut line)?
        == 0
    {
        return Ok(None);
    }
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > LONGEST_LINE {
        input.skip_until(b'\n')?;
        return Ok(Some(Err(TooLong)));
    }
    Ok(Some(Ok(line)))
}

fn answer(planner: &mut Option<Planner>, line: &[u8]) -> Result<Answer, Answer> {
    let value: Value = serde_json::from_slice(line).map_err(|why| Answer::error("json", why))?;
    let names = value
        .as_object()
        .into_iter()
        .flat_map(|object| object.keys());
    let names: Vec<&str> = names.map(String::as_str).collect();
    let is_start = names.contains(&"version");
    match (names.as_slice(), planner) {
        (_, planner @ None) if is_start => {
            let planner = planner.insert(start(parse(line)?)?);
            Ok(Answer::Ready {
                modes: planner.modes(),
            })
        }
        (_, Some(_)) if is_start => Err(Answer::error("order", "the plan has been started before")),
        (["ask" | "tell" | "exclude" | "idle" | "fit"], None) => {
            let message =
                format!("the first line is {{\"version\":{VERSION},\"axes\":…,\"modes\":…}}");
            Err(Answer::error("order", message))
        }
        (["ask" | "tell" | "exclude" | "idle" | "fit"], Some(planner)) => {
            obey(planner, parse(line)?)
        }
        _ => {
            let message = "a request is an object with the one key ask, tell, exclude, idle or fit";
            Err(Answer::error("request", message))
        }
    }
}

/// Parses the bytes and not their [`Value`], which has lost repeated keys.
fn parse<T: DeserializeOwned>(line: &[u8]) -> Result<T, Answer> {
    serde_json::from_slice(line).map_err(|why| Answer::error("fields", why))
}

fn start(task: Task) -> Result<Planner, Answer> {
    if task.version != VERSION {
        let message = format!("version {} is not known; this is {VERSION}", task.version);
        return Err(Answer::error("version", message));
    }
    let limit_mw = task
        .limit_mw
        .map(|limit| positive("limit_mw", limit))
        .transpose()?;
    let Axes {
        cores,
        cpu_khz,
        gpu_khz,
        emc_khz,
    } = task.axes;
    let grid = Grid::new([&cores, &cpu_khz, &gpu_khz, &emc_khz]);
    let grid = grid.map_err(|why| Answer::error("axes", why))?;
    let named = |name: &str, value: Option<String>| {
        let value = value.unwrap_or_else(|| "unnamed".to_owned());
        let fits = corpus::is_name(&value);
        let message = || format!("{name} is not a name of 1 to 64 characters");
        fits.then_some(value)
            .ok_or_else(|| Answer::error("value", message()))
    };
    let unit = task.unit.as_deref().map(|text| {
        let wrong = || Answer::error("value", "unit is not 8 hexadecimal digits".to_owned());
        UnitId::parse(text).ok_or_else(wrong)
    });
    let unit = unit.transpose()?;
    let board = Corpus {
        kind: task.kind.unwrap_or_default(),
        device: named("device", task.device)?,
        workload: named("workload", task.workload)?,
        feeding: Feeding {
            minibatch: task.minibatch,
            ..Feeding::default()
        },
        has_cores: true,
        tpc_pg_mask: task.tpc_pg_mask,
        units: Units::one(unit),
        idle: Vec::new(),
        rows: 0,
        modes: Vec::new(),
        grid,
    };
    if board.feeding.minibatch == Some(0) {
        return Err(Answer::error(
            "value",
            "minibatch is 0; expected a number above zero",
        ));
    }
    let references = read_references(task.reference.files(), Blank::Unprofiled, &board.workload);
    let references = references.map_err(|why| Answer::error("reference", why))?;
    let task = ask_tell::Task {
        modes: task.modes,
        limit_mw,
        seed: task.seed.unwrap_or(SEED),
    };
    Ok(Planner::new(board, references, task)?)
}

fn obey(planner: &mut Planner, request: Request) -> Result<Answer, Answer> {
    Ok(match request {
        Request::Ask(ask) => match planner.ask(ask.current.map(Mode::knobs))? {
            Next::Measure(knobs, predicted) => Answer::Measure {
                mode: PowerMode::from_knobs(knobs).into(),
                time_us: predicted.map(|predicted| predicted.time_us),
                power_mw: predicted.map(|predicted| predicted.power_mw),
                power_at_most_mw: predicted.map(|predicted| predicted.power_at_most_mw),
            },
            Next::Enough { expected_errors } => Answer::Enough {
                measured: planner.measured().len(),
                expected_error_pct: percent(expected_errors),
            },
        },
        Request::Tell(tell) => {
            let time_us = positive("time_us", tell.time_us)?;
            let power_mw = positive("power_mw", tell.power_mw)?;
            if power_mw < POWERS_MW.start {
                let message = format!("power_mw is {power_mw}; expected milliwatts, 100 or more");
                return Err(Answer::error("value", message));
            }
            let measured = planner.tell(tell.mode.knobs(), time_us, power_mw)?;
            Answer::Told { measured }
        }
        Request::Exclude(exclude) => {
            let power_mw = exclude.power_mw.map(|power| positive("power_mw", power));
            let modes = planner.exclude(exclude.mode.knobs(), power_mw.transpose()?)?;
            Answer::Excluded { modes }
        }
        Request::Idle(idle) => {
            let power_mw = positive("power_mw", idle.power_mw)?;
            if power_mw < POWERS_MW.start {
                let message = format!("power_mw is {power_mw}; expected milliwatts, 100 or more");
                return Err(Answer::error("value", message));
            }
            planner.idle(idle.mode.knobs(), power_mw)?;
            let measured = planner.measured().len();
            Answer::Told { measured }
        }
        Request::Fit(_) => {
            let fitted = planner.fit()?;
            Answer::Fitted {
                model: fitted.bytes,
                modes: fitted.modes,
                expected_error_pct: percent(fitted.expected_errors),
            }
        }
    })
}

fn percent(errors: Errors) -> ExpectedError {
    ExpectedError {
        time: errors.time_mape,
        power: errors.power_mape,
    }
}

fn positive(name: &str, value: f64) -> Result<f64, Answer> {
    // Below one thousandth nothing is measured, and logarithms of tiny numbers would mislead.
    if (1e-3..=HIGHEST).contains(&value) {
        return Ok(value);
    }
    let message = format!("{name} is {value}; expected 0.001 … {HIGHEST}");
    Err(Answer::error("value", message))
}
