//! `units`: choices on units of a board that a model was not made of.

use std::fmt::Display;
use std::ops::{Range, RangeInclusive};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::help::{TRUTH, boards_and_workloads, paragraphs};
use crate::options::{BoardOptions, number};
use crate::output::{print, print_json};
use wattgate_board_tables::Board;
use wattgate_cli::output::AtomicFile;
use wattgate_cli::shard::{Jobs, Ran};
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
  --truth CORPUS    A recorded board instead: its time and power are those of a corpus
  --workload NAME   The workload [resnet18, or that of the corpus]
  --units N         Units that are judged [50]
  --trained N,…     Units that are profiled for a model [1,3,10]
  --draws N         Draws of these units; figures are means over them [20]
  --spread F,…      True spread between units, in multiples of the published one [0.5,1,1.5]
  --modes N         Random modes that are profiled, the same on each unit [30]
  --limit-pct P,…   Limits in % of the nominal unit's span of power [25,50,75]
  --daemon N        In the first N draws also run `once --measure`, and the daemon for up to a minute, on each unit [1]
  --trainer FILE    The program wattgate-trainer [beside this one]
  --shard I/N       Run every N-th draw from the I-th on, and print a part for `merge`
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

/// A draw of units that are profiled: the board, the true spread, which of the numbers of units, and the draw.
type Job = (Board, f64, usize, u64);

/// The figures of one draw.
#[derive(Deserialize, Serialize)]
struct Drawn {
    once: FleetFigures,
    profiled: FleetFigures,
    /// With margins as of so many units.
    computed: Vec<(u64, FleetFigures)>,
    /// `once --measure`, then the daemon after each of [`DAEMON_S`].
    after: Vec<FleetFigures>,
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

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, TRUTH, &boards_and_workloads()])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser, jobs: &Jobs) -> Result<(), Failure> {
    let (mut json, mut page, mut of_board) = (false, None, BoardOptions::default());
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
            Arg::Long("board") => of_board.board = Some(arguments.value()?.string()?),
            Arg::Long("truth") => of_board.truth = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("workload") => of_board.workload = Some(arguments.value()?.string()?),
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
            argument => return Err(argument.unexpected().into()),
        }
    }
    let boards = match of_board.recorded()? {
        Some(recorded) => {
            options.workload = recorded.workload;
            vec![recorded.board]
        }
        None => {
            if let Some(name) = &of_board.workload {
                options.workload = Workload::named(name)?;
            }
            let names = match &of_board.board {
                Some(board) => vec![board.as_str()],
                None => BOARDS.to_vec(),
            };
            let boards = names.into_iter().map(Board::named);
            boards.collect::<Result<_, _>>()?
        }
    };
    let figures = boards.first().map_or("", Board::figures);
    let file = page.as_deref().map(AtomicFile::create).transpose()?;
    let mut all = Vec::new();
    for board in &boards {
        for &spread in &options.spreads {
            for place in 0..options.trained.len() {
                let draws = 0..options.draws;
                all.extend(draws.map(|draw| (board.clone(), spread, place, draw)));
            }
        }
    }
    let drawn = match jobs.run(&all, |jobs| options.drawn(jobs))? {
        Ran::Whole(drawn) => drawn,
        Ran::Part(part) => return print(&part),
    };
    let rows = options.rows(&all, &drawn);
    if let Some(file) = file {
        let page = page::page(&rows, figures, &options.workload.name);
        let page = page.map_err(|why| Failure::Plot(why.to_string()))?;
        file.commit(page.as_bytes())?;
    }
    if json {
        print_json(serde_json::to_string_pretty(&rows))
    } else {
        print(&text(figures, &rows))
    }
}

impl Options {
    /// The figures of draws. Neighbours share the units that are judged.
    fn drawn(&self, jobs: &[&Job]) -> Result<Vec<Drawn>, Failure> {
        let mut all = Vec::new();
        let is_same = |a: &&Job, b: &&Job| a.0.name == b.0.name && a.1 == b.1;
        for jobs in jobs.chunk_by(is_same) {
            let (board, spread, ..) = jobs[0];
            let published = as_published(board, &self.workload, &self.limits_pct)?;
            let spread_of = published.times(*spread);
            let units = |seeds: Range<u64>| -> Vec<Unit> {
                let units = seeds.map(|seed| Unit::drawn_with(seed, spread_of));
                units.collect()
            };
            let judged = units(FIRST_JUDGED..FIRST_JUDGED + self.units);
            let fleet = Fleet::new(board, &self.workload, &judged, &self.limits_pct)?;
            for (_, _, place, draw) in jobs {
                let trained = self.trained[*place];
                let first = 1 + draw * trained;
                all.push(self.draw(board, &fleet, &units(first..first + trained), *draw)?);
            }
        }
        Ok(all)
    }

    /// Profiles units, and judges choices with their model on the fleet.
    fn draw(
        &self,
        board: &Board,
        fleet: &Fleet<'_>,
        units: &[Unit],
        draw: u64,
    ) -> Result<Drawn, Failure> {
        let folder = tempfile::tempdir()?;
        let model = self.fit(board, units, draw, folder.path())?;
        let own = Fleet::new(board, &self.workload, units, &self.limits_pct)?;
        let computed = self.trained.iter().filter(|n| units.len() == 1 && **n > 1);
        let computed = computed.map(|&n| {
            let factor = (0.5 * (1.0 + 1.0 / n as f32)).sqrt();
            Ok((n, fleet.figures(&model, Choice::Widened(factor))?))
        });
        let mut after = Vec::new();
        if draw < self.daemons {
            after.push(fleet.figures(&model, Choice::Measure)?);
            for seconds in DAEMON_S {
                let choice = Choice::Daemon(Duration::from_secs(seconds));
                after.push(fleet.figures(&model, choice)?);
            }
        }
        Ok(Drawn {
            once: fleet.figures(&model, Choice::Once)?,
            profiled: own.figures(&model, Choice::Once)?,
            computed: computed.collect::<Result<_, Failure>>()?,
            after,
        })
    }

    /// The rows of all jobs.
    fn rows(&self, jobs: &[Job], drawn: &[Drawn]) -> Vec<Row> {
        let mut rows = Vec::new();
        let pairs: Vec<(&Job, &Drawn)> = jobs.iter().zip(drawn).collect();
        let is_same =
            |a: &(&Job, &Drawn), b: &(&Job, &Drawn)| a.0.0.name == b.0.0.name && a.0.1 == b.0.1;
        for of_spread in pairs.chunk_by(is_same) {
            for pairs in of_spread.chunk_by(|a, b| a.0.2 == b.0.2) {
                let (board, spread, place, _) = pairs[0].0;
                let trained = self.trained[*place];
                let mut row = |choice: String, all: Vec<FleetFigures>| {
                    if !all.is_empty() {
                        rows.push(Row {
                            board: board.name.clone(),
                            spread: *spread,
                            trained,
                            choice,
                            draws: all.len(),
                            figures: FleetFigures::mean(&all),
                        });
                    }
                };
                let of_draws = |figures: fn(&Drawn) -> FleetFigures| {
                    pairs.iter().map(|(_, drawn)| figures(drawn)).collect()
                };
                row("once".to_owned(), of_draws(|drawn| drawn.once));
                // They were computed with the models of one unit.
                let computed = of_spread.iter().flat_map(|(_, drawn)| &drawn.computed);
                let computed = computed.filter(|(n, _)| *n == trained);
                let computed = computed.map(|(_, figures)| *figures).collect();
                row("once, computed".to_owned(), computed);
                row(
                    "once, profiled unit".to_owned(),
                    of_draws(|drawn| drawn.profiled),
                );
                let after = |at: usize| -> Vec<FleetFigures> {
                    let all = pairs.iter();
                    all.filter_map(|(_, drawn)| drawn.after.get(at).copied())
                        .collect()
                };
                row("once --measure".to_owned(), after(0));
                for (at, seconds) in DAEMON_S.iter().enumerate() {
                    row(format!("daemon, {seconds} s"), after(1 + at));
                }
            }
        }
        rows
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
        match board.is_recorded() {
            // Its clocks are those of its corpus.
            true => {
                let axes = ["cores", "cpu_khz", "gpu_khz", "emc_khz"].into_iter();
                fit.arg("--axes")
                    .args(axes.zip(board.axes()).map(|(name, values)| {
                        let values: Vec<String> = values.iter().map(u32::to_string).collect();
                        format!("{name}={}", values.join(","))
                    }));
            }
            false => {
                fit.args(["--board", &board.name]);
            }
        }
        fit.arg("-o").arg(&model);
        let done = fit.output().map_err(|why| Failure::NoTrainer {
            program: self.trainer.display().to_string(),
            why,
        })?;
        if done.status.success() {
            return Ok(model);
        }
        let said = String::from_utf8_lossy(&done.stderr);
        Err(Failure::Trainer(match said.trim() {
            "" => done.status.to_string(),
            said => said.to_owned(),
        }))
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

fn text(kind: &str, rows: &[Row]) -> String {
    let mut text = format!("{kind}\n");
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
