//! Values of options that several commands take.

use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::{Parser, ValueExt};
use wattgate_board_tables::Board;
use wattgate_cli::nearest::nearest;
use wattgate_cli::quantity;
use wattgate_judge::Holder;
use wattgate_judge::files::{corpus, network};
use wattgate_judge::replay::warmth::Fan;
use wattgate_simulated_board::load::Kind;
use wattgate_simulated_board::recording::{RecordedBoard, RecordingError};
use wattgate_simulated_board::sampling::SAMPLES;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

use crate::failure::Failure;

/// `--kind`: a built-in load.
pub fn kind(value: String) -> Result<Kind, Failure> {
    Kind::named(&value).ok_or(Failure::Value {
        option: "--kind",
        value,
        expected: "a kind that `wattgate-simulator load --help` lists",
    })
}

/// `--samples`: the number of samples in one result of the power sensor.
pub fn samples(value: String) -> Result<u32, Failure> {
    let number = value.parse().ok();
    let number = number.filter(|number| SAMPLES.contains(number));
    number.ok_or(Failure::Value {
        option: "--samples",
        value,
        expected: "1, 4, 16, 64, 128, 256, 512 or 1024, which the driver takes",
    })
}

/// `--governor`: who holds the limit.
pub fn governor(value: String) -> Result<Holder, Failure> {
    let mut known = Holder::REPLAYED.into_iter();
    let found = known.find(|holder| holder.name().replace(' ', "-") == value);
    found.ok_or(Failure::Value {
        option: "--governor",
        value,
        expected: "wattgate, without-model, unknown-board, stepper, open-loop, once, preset or maxn",
    })
}

/// `--seeds`: the number of runs for each row.
pub fn seeds(value: String) -> Result<u64, Failure> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or(Failure::Value {
        option: "--seeds",
        value,
        expected: "a number above 0",
    })
}

/// A whole number up to 1,000.
pub fn number(option: &'static str, arguments: &mut Parser, least: u64) -> Result<u64, Failure> {
    let value = arguments.value()?.string()?;
    let range = least..=1_000;
    let parsed = value.parse().ok().filter(|number| range.contains(number));
    parsed.ok_or(Failure::Value {
        option,
        value,
        expected: match least {
            0 => "0 … 1000",
            1 => "1 … 1000",
            _ => "5 … 1000",
        },
    })
}

/// `--limit`: a power in mW.
pub fn limit(arguments: &mut Parser) -> Result<u32, Failure> {
    let value = arguments.value()?.string()?;
    let parsed = quantity::power(&value);
    parsed.map(|power| power.0).map_err(|_| Failure::Value {
        option: "--limit",
        value,
        expected: "a power above 0, such as 25W or 12500mW",
    })
}

/// `--fan`: what the fan does.
pub fn fan(value: String) -> Result<Fan, Failure> {
    match value.as_str() {
        "automatic" => Ok(Fan::Automatic),
        "full" => Ok(Fan::Full),
        _ => Err(Failure::Value {
            option: "--fan",
            value,
            expected: "automatic or full",
        }),
    }
}

/// A time in s, of the board's clock.
pub fn seconds(option: &'static str, arguments: &mut Parser) -> Result<Duration, Failure> {
    let value = arguments.value()?.string()?;
    let number = value.parse().ok();
    let number = number.filter(|number| (0.0..=1e8).contains(number));
    number.map(Duration::from_secs_f64).ok_or(Failure::Value {
        option,
        value,
        expected: "a number of seconds, 0 … 1e8",
    })
}

/// `--board`, `--workload` and `--truth`: which board runs what.
#[derive(Debug, Default)]
pub struct BoardOptions {
    pub board: Option<String>,
    pub workload: Option<String>,
    /// The corpus that the board plays back.
    pub truth: Option<PathBuf>,
}

impl BoardOptions {
    /// The board, and the workload if one is named. That of a corpus always is.
    pub fn read(&self) -> Result<(Board, Option<Workload>), Failure> {
        if let Some(recorded) = self.recorded()? {
            return Ok((recorded.board, Some(recorded.workload)));
        }
        let board = self.board.as_deref();
        let board = Board::named(board.ok_or(Failure::Missing("--board or --truth"))?)?;
        let workload = self.workload.as_deref().map(Workload::named);
        Ok((board, workload.transpose()?))
    }

    /// The board of `--truth`, with a warning for each thing that a user should know of its corpus.
    pub fn recorded(&self) -> Result<Option<RecordedBoard>, Failure> {
        let Some(path) = &self.truth else {
            return Ok(None);
        };
        let (board, workload) = (self.board.as_deref(), self.workload.as_deref());
        let corpus = corpus::read(path, workload)?;
        let recorded = RecordedBoard::new(&corpus, board).map_err(|why| unplayable(path, why))?;
        for remark in &recorded.remarks {
            eprintln!("warning: {}: {remark}", path.display());
        }
        Ok(Some(recorded))
    }

    /// The value of `--weights`, which has to be given: the shipped models are of simulated workloads.
    pub fn model(&self, weights: Option<PathBuf>) -> Result<PathBuf, Failure> {
        weights.ok_or_else(|| match &self.truth {
            Some(corpus) => Failure::NoModel {
                corpus: corpus.clone(),
            },
            None => Failure::Missing("--weights"),
        })
    }
}

/// Adds the path, and the nearest name to a device that is no board.
fn unplayable(path: &Path, why: RecordingError) -> Failure {
    let path = path.to_owned();
    let device = match why {
        RecordingError::UnknownDevice { device } => device,
        RecordingError::Board(why) => return Failure::Board(why),
        why => return Failure::Recording { path, why },
    };
    let known = wattgate_board_tables::names();
    let near = nearest(&device, known.iter().copied());
    let advice = match near {
        Some(near) => format!("is it `{near}`? Then give --board {near}"),
        None => format!(
            "name the board with --board; there are {}",
            known.join(", ")
        ),
    };
    Failure::Device {
        path,
        device,
        advice,
    }
}

/// The workload of `--workload` or the network of `--calls`, on a unit; `None` without either.
pub fn workload(
    named: Option<Workload>,
    calls: Option<&Path>,
    board: &Board,
    unit: &Unit,
) -> Result<Option<Workload>, Failure> {
    match (named, calls) {
        (Some(_), Some(_)) => Err(Failure::Exclusive("--calls", "--workload")),
        (None, Some(calls)) => Ok(Some(network::read(calls, board, unit)?)),
        (named, None) => Ok(named),
    }
}
