//! `units`: choices on units of a board that a model was not made of.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use serde::Serialize;

use crate::failure::Failure;
use crate::help::{boards_and_workloads, print_help};
use crate::options::number;
use crate::output::{print, print_json};
use wattgate_board_tables::Board;
use wattgate_cli::output::AtomicFile;
use wattgate_judge::fleet::{Choice, Fleet, FleetFigures, as_published};
use wattgate_judge::models::BOARDS;
use wattgate_simulated_board::corpus::{Modes, csv};
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

mod page;

const USAGE: &str = "\
Choose modes on units of a board that the model was not made of, and compare with the truth of each unit

Usage: wattgate-simulator units [options]

Options:
  --board NAME      One board [orin-agx-64, orin-nano-8-super and xavier-agx]
  --workload NAME   The workload [resnet18]
  --units N         Units that are judged [50]
  --trained N,…     Units that are profiled for a model [1,3,10]
  --draws N         Draws of these units; figures are means over them [20]
  --spread F,…      True spread between units, in multiples of the published one [0.5,1,1.5]
  --modes N         Random modes that are profiled, the same on each unit [30]
  --limit-pct P,…   Limits in % of the nominal unit's span of power [25,50,75]
  --daemon N        In the first N draws also run `once --measure`, and the daemon for up to a minute, on each unit [1]
  --trainer FILE    The program wattgate-trainer [beside this one]
  --json            Print JSON: an array of rows with board, spread, trained, choice, draws, over_pct,
                    mean_excess_pct, worst_excess_pct and speed_pct
  -o, --page FILE   Write a page with a figure
  -h, --help        Print this

Rows: `once` is the mode of `wattgated once`; `once, profiled unit` is the same on the units of the model; `once,
computed` has the file of one unit, but margins for other units as narrow as n units make them, by √(1 + 1/n) over
√2; `once --measure` measures for ten seconds under full load; `daemon, T s` is the daemon's mode T seconds after
its start under full load. A unit is over if the power at which its mode settles exceeds the limit. Speed is
relative to the unit's fastest mode within the limit.
";

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub board: String,
    pub spread: f64,
    pub trained: u64,
    pub choice: String,
    pub draws: usize,
    #[serde(flatten)]
    pub figures: FleetFigures,
}

struct Options {
    workload: Workload,
    units: u64,
    trained: Vec<u64>,
    draws: u64,
    spreads: Vec<f64>,
    modes: usize,
    limits_pct: Vec<f64>,
    daemons: u64,
    trainer: PathBuf,
}

/// Seeds of the units that are judged begin here; those of profiled ones at 1.
const FIRST_JUDGED: u64 = 500_000;

/// Times after the start at which the daemon's mode counts, in s.
const DAEMON_S: [u64; 3] = [1, 10, 60];

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut json, mut page, mut only) = (false, None, None);
    let mut options = Options {
        workload: Workload::named("resnet18")?,
        units: 50,
        trained: vec![1, 3, 10],
        draws: 20,
        spreads: vec![0.5, 1.0, 1.5],
        modes: 30,
        limits_pct: vec![25.0, 50.0, 75.0],
        daemons: 1,
        trainer: beside("wattgate-trainer"),
    };
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => only = Some(arguments.value()?.string()?),
            Arg::Long("workload") => {
                options.workload = Workload::named(&arguments.value()?.string()?)?;
            }
            Arg::Long("units") => options.units = number("--units", &mut arguments, 1)?,
            Arg::Long("trained") => {
                options.trained = list("--trained", &mut arguments, 1..=100)?;
                options.trained.sort_unstable();
                options.trained.dedup();
            }
            Arg::Long("draws") => options.draws = number("--draws", &mut arguments, 1)?,
            Arg::Long("spread") => {
                options.spreads = list("--spread", &mut arguments, 0.0..=3.0)?;
            }
            Arg::Long("modes") => {
                options.modes = number("--modes", &mut arguments, 5)? as usize;
            }
            Arg::Long("limit-pct") => {
                options.limits_pct = list("--limit-pct", &mut arguments, 0.0..=100.0)?;
            }
            Arg::Long("daemon") => options.daemons = number("--daemon", &mut arguments, 0)?,
            Arg::Long("trainer") => options.trainer = PathBuf::from(arguments.value()?),
            Arg::Long("json") => json = true,
            Arg::Short('o') | Arg::Long("page") => page = Some(PathBuf::from(arguments.value()?)),
            Arg::Short('h') | Arg::Long("help") => {
                return print_help(&[USAGE, &boards_and_workloads()]);
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let names = match &only {
        Some(board) => vec![board.as_str()],
        None => BOARDS.to_vec(),
    };
    let file = page.as_deref().map(AtomicFile::create).transpose()?;
    let mut rows = Vec::new();
    for name in names {
        let board = Board::named(name)?;
        for spread in &options.spreads {
            rows.extend(options.rows(&board, *spread)?);
        }
    }
    if let Some(file) = file {
        let page = page::page(&rows, &options.workload.name);
        let page = page.map_err(|why| Failure::Plot(why.to_string()))?;
        file.commit(page.as_bytes())?;
    }
    if json {
        print_json(serde_json::to_string_pretty(&rows))
    } else {
        print(&text(&rows))
    }
}

impl Options {
    /// The rows of a board with a true spread.
    fn rows(&self, board: &Board, spread: f64) -> Result<Vec<Row>, Failure> {
        let published = as_published(board, &self.workload, &self.limits_pct)?;
        let spread_of = published.times(spread);
        let drawn = |seeds: Range<u64>| -> Vec<Unit> {
            seeds
                .map(|seed| Unit::drawn_with(seed, spread_of))
                .collect()
        };
        let judged = drawn(FIRST_JUDGED..FIRST_JUDGED + self.units);
        let fleet = Fleet::new(board, &self.workload, &judged, &self.limits_pct)?;
        let mut rows = Vec::new();
        let mut computed: Vec<Vec<FleetFigures>> = vec![Vec::new(); self.trained.len()];
        for (place, &trained) in self.trained.iter().enumerate() {
            let mut of_once = Vec::new();
            let mut of_profiled = Vec::new();
            let mut of_measure = Vec::new();
            let mut of_daemon = DAEMON_S.map(|_| Vec::new());
            for draw in 0..self.draws {
                let first = 1 + draw * trained;
                let units = drawn(first..first + trained);
                let folder = tempfile::tempdir()?;
                let model = self.fit(board, &units, draw, folder.path())?;
                of_once.push(fleet.figures(&model, Choice::Once)?);
                let own = Fleet::new(board, &self.workload, &units, &self.limits_pct)?;
                of_profiled.push(own.figures(&model, Choice::Once)?);
                let of_one = self.trained.iter().zip(&mut computed);
                for (&n, figures) in of_one.filter(|(n, _)| trained == 1 && **n > 1) {
                    let factor = (0.5 * (1.0 + 1.0 / n as f32)).sqrt();
                    figures.push(fleet.figures(&model, Choice::Widened(factor))?);
                }
                if draw < self.daemons {
                    of_measure.push(fleet.figures(&model, Choice::Measure)?);
                    for (figures, seconds) in of_daemon.iter_mut().zip(DAEMON_S) {
                        let after = Choice::Daemon(Duration::from_secs(seconds));
                        figures.push(fleet.figures(&model, after)?);
                    }
                }
            }
            let mut row = |choice: String, all: &[FleetFigures]| {
                if !all.is_empty() {
                    rows.push(Row {
                        board: board.name.clone(),
                        spread,
                        trained,
                        choice,
                        draws: all.len(),
                        figures: FleetFigures::mean(all),
                    });
                }
            };
            row("once".to_owned(), &of_once);
            row("once, computed".to_owned(), &computed[place]);
            row("once, profiled unit".to_owned(), &of_profiled);
            row("once --measure".to_owned(), &of_measure);
            for (figures, seconds) in of_daemon.iter().zip(DAEMON_S) {
                row(format!("daemon, {seconds} s"), figures);
            }
        }
        Ok(rows)
    }

    /// Profiles units and fits a model to them, in a folder.
    fn fit(
        &self,
        board: &Board,
        units: &[Unit],
        seed: u64,
        folder: &Path,
    ) -> Result<PathBuf, Failure> {
        let modes = Modes::Random(self.modes).select(board, seed)?;
        let model = folder.join("model.wgt");
        let mut fit = Command::new(&self.trainer);
        fit.arg("fit");
        for (at, unit) in units.iter().enumerate() {
            let mut profiler = Profiler::new(board, *unit, &self.workload, seed);
            let text = csv(board, unit, &self.workload, &profiler.profile_all(&modes));
            let path = folder.join(format!("{at}.csv"));
            std::fs::write(&path, text)?;
            fit.arg(path);
        }
        fit.args(["--board", &board.name, "-o"]).arg(&model);
        let done = fit.output().map_err(|why| Failure::NoTrainer {
            program: self.trainer.display().to_string(),
            why,
        })?;
        match done.status.success() {
            true => Ok(model),
            false => Err(Failure::Trainer(
                String::from_utf8_lossy(&done.stderr).trim().to_owned(),
            )),
        }
    }
}

/// A program beside this one, or in PATH.
fn beside(program: &str) -> PathBuf {
    let here = std::env::current_exe().ok();
    let there = here.map(|path| path.with_file_name(program));
    there.filter(|path| path.exists()).unwrap_or(program.into())
}

/// Numbers of a range, with commas between them.
fn list<T: FromStr + PartialOrd + Display>(
    option: &'static str,
    arguments: &mut Parser,
    range: RangeInclusive<T>,
) -> Result<Vec<T>, Failure> {
    let value = arguments.value()?.string()?;
    let numbers = value.split(',').map(|number| number.trim().parse().ok());
    let numbers: Option<Vec<T>> = numbers
        .map(|number| number.filter(|number| range.contains(number)))
        .collect();
    numbers.ok_or_else(|| Failure::Numbers {
        option,
        value,
        least: range.start().to_string(),
        most: range.end().to_string(),
    })
}

fn text(rows: &[Row]) -> String {
    let mut text = "simulated\n".to_owned();
    let mut before = None;
    for row in rows {
        let group = (row.board.clone(), row.spread.to_bits());
        if before.replace(group.clone()) != Some(group) {
            text += &format!(
                "\n{}, true spread {} × the published one\n{:<10}{:<22}{:>9}{:>14}{:>15}{:>10}\n",
                row.board,
                row.spread,
                "trained",
                "choice",
                "over, %",
                "by (mean), %",
                "by (worst), %",
                "speed, %"
            );
        }
        let FleetFigures {
            over_pct,
            mean_excess_pct,
            worst_excess_pct,
            speed_pct,
        } = row.figures;
        text += &format!(
            "{:<10}{:<22}{over_pct:>9.1}{mean_excess_pct:>14.1}{worst_excess_pct:>15.1}{speed_pct:>10.1}\n",
            row.trained, row.choice
        );
    }
    text
}
