//! Fleets: what is chosen on units of a board that a model was not made of, beside each unit's truth.
//!
//! The true power of a mode is the one at which it settles with the fan at full speed, as when a corpus is profiled, so that
//! units differ in nothing but themselves. A unit is *over* if that power of the mode that it is in exceeds the limit.
//! Speed is relative to the oracle of the unit: its fastest mode within the limit.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wattgate_board_tables::Board;
use wattgate_runtime::{Grid, Milliwatts, POWER_SPREAD, PowerMode, TIME_SPREAD};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::clock::UtcSeconds;
use wattgate_watchdog::config::{self, Config};
use wattgate_watchdog::control::Control;
use wattgate_watchdog::lesson::{RISE_K, Teacher};
use wattgate_watchdog::setup::Setup;

use crate::holders::wattgate::poll;
use crate::judge::{JudgeError, Subject};
use crate::parallel::on_all_cores;
use crate::recorded::RecordedTree;
use crate::replay::ReplayError;
use crate::replay::warmth::Fan;

/// Units from which the spread of a board is estimated, and the first of their seeds: no fleet has them.
const OF_SPREAD: u64 = 200;
const FIRST_OF_SPREAD: u64 = 1_000_000;

/// How long `once --measure` measures, and a date.
const MEASURED: Duration = Duration::from_secs(10);
const NOW: UtcSeconds = UtcSeconds(1_800_000_000);

/// Units of a board with a workload.
#[derive(Debug)]
pub struct Fleet<'a> {
    pub board: &'a Board,
    pub workload: &'a Workload,
    /// Limits in mW.
    pub limits_mw: Vec<u32>,
    members: Vec<Member<'a>>,
}

/// A unit, and its modes that no other one beats in power and speed: rate and power in W, the fastest first.
#[derive(Debug)]
struct Member<'a> {
    subject: Subject<'a>,
    unbeaten: Vec<[f64; 2]>,
}

/// What decides on the mode of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// `wattgated once`.
    Once,
    /// `wattgated once --measure`, with the workload at full load.
    Measure,
    /// The daemon, this long after its start under full load.
    Daemon(Duration),
}

/// A unit under a limit.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// The power in excess of the limit, as a part of it; below 0 if within.
    excess: f64,
    /// Speed over that of the unit's oracle.
    speed: f64,
}

/// Figures over all units and limits.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FleetFigures {
    /// Share of units over the limit, in %.
    pub over_pct: f64,
    /// Mean excess of those that are over, in % of the limit; 0 without any.
    pub mean_excess_pct: f64,
    /// Highest excess, in % of the limit; 0 if no unit is over.
    pub worst_excess_pct: f64,
    /// Mean speed over that of each unit's oracle, in %.
    pub speed_pct: f64,
}

/// Multiples of a simulated board's spread of power and time that give the spread in which a model believes.
pub fn as_published(board: &Board, workload: &Workload) -> Result<[f64; 2], JudgeError> {
    let nominal = Subject::new(board, workload, Unit::NOMINAL, boot(board), Fan::Full)?;
    let middle = board.axes().map(|axis| axis[axis.len() / 2]);
    let of = |seed: u64| {
        let unit = Unit::drawn(FIRST_OF_SPREAD + seed);
        let subject = Subject::new(board, workload, unit, boot(board), Fan::Full)?;
        let ratios = [middle, board.maxn()].map(|knobs| {
            let [here, there] = [&subject, &nominal].map(|it| it.settled_w(&it.truth(knobs)));
            (here / there).ln()
        });
        Ok([ratios[0].midpoint(ratios[1]), unit.time.ln()])
    };
    let drawn = (0..OF_SPREAD)
        .map(of)
        .collect::<Result<Vec<_>, JudgeError>>()?;
    let sd = |at: usize| {
        let mean = drawn.iter().map(|of| of[at]).sum::<f64>() / drawn.len() as f64;
        let squares = drawn.iter().map(|of| (of[at] - mean).powi(2));
        (squares.sum::<f64>() / (drawn.len() - 1) as f64).sqrt()
    };
    Ok([
        f64::from(POWER_SPREAD) / sd(0),
        f64::from(TIME_SPREAD) / sd(1),
    ])
}

/// The mode in which a board boots: one with all TPCs.
fn boot(board: &Board) -> Option<u32> {
    Some(board.ungated().id)
}

impl<'a> Fleet<'a> {
    /// The units under limits in % of the nominal unit's span.
    pub fn new(
        board: &'a Board,
        workload: &'a Workload,
        units: &[Unit],
        limits_pct: &[f64],
    ) -> Result<Self, JudgeError> {
        let axes = board.axes();
        let grid = Grid::new(axes.each_ref().map(Vec::as_slice));
        let grid = grid.map_err(|why| other(io::Error::other(why.to_string())))?;
        let member = |unit: &Unit| {
            let subject = Subject::new(board, workload, *unit, boot(board), Fan::Full)?;
            let modes = subject.modes(&grid, Path::new("the board"))?;
            let modes = modes.iter().map(|mode| [mode.truth.rate, mode.watts]);
            let unbeaten = unbeaten(modes.collect());
            Ok::<_, JudgeError>(Member { subject, unbeaten })
        };
        let nominal = member(&Unit::NOMINAL)?;
        let ends = [nominal.unbeaten.last(), nominal.unbeaten.first()];
        let [least, most] = ends.map(|end| end.map_or(0.0, |[_, watts]| *watts));
        let limit = |pct: &f64| (1e3 * (least + pct / 100.0 * (most - least))).round() as u32;
        Ok(Self {
            board,
            workload,
            limits_mw: limits_pct.iter().map(limit).collect(),
            members: on_all_cores(units, member)?,
        })
    }

    /// The figures of a choice with a model.
    pub fn figures(&self, model: &Path, choice: Choice) -> Result<FleetFigures, JudgeError> {
        let of = |member: &Member<'a>| {
            let of_limit = |limit: &u32| member.outcome(model, *limit, choice);
            self.limits_mw.iter().map(of_limit).collect()
        };
        let outcomes: Vec<Vec<Outcome>> = on_all_cores(&self.members, of)?;
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        Ok(FleetFigures::of(&outcomes))
    }
}

fn other(why: io::Error) -> JudgeError {
    ReplayError::Holder(why).into()
}

impl Member<'_> {
    fn outcome(&self, model: &Path, limit_mw: u32, by: Choice) -> Result<Outcome, JudgeError> {
        let subject = &self.subject;
        let tree = Tree::new(subject.board.clone(), subject.unit, 0, boot(subject.board));
        let mut tree = tree.map_err(ReplayError::Boot)?;
        let jetson = tree.jetson_mut();
        jetson.set_workload(Some(subject.workload.clone()));
        let files = RecordedTree::new(tree);
        let text = config::text(model, Milliwatts(limit_mw));
        let config = Config::parse(&text, Path::new("fleet")).map_err(io::Error::other);
        let setup = Setup::new(config.map_err(other)?, &files, Path::new("/"));
        let setup = setup.map_err(ReplayError::Setup)?;
        let mode = match by {
            Choice::Once => choice(&setup),
            Choice::Measure => {
                let (config, mut choices) = (setup.config.clone(), setup.choices.clone());
                let first = choice(&setup);
                let control = held(setup, files, MEASURED);
                let lesson = control.lesson(Teacher::User, NOW);
                let (board, _) = control.release();
                match lesson {
                    Err(_) => first,
                    Ok(lesson) => {
                        choices.learn(&lesson, RISE_K, &board);
                        choice(&Setup {
                            config,
                            board,
                            choices,
                        })
                    }
                }
            }
            Choice::Daemon(after) => held(setup, files, after).status().1,
        };
        Ok(self.judged(mode, limit_mw))
    }

    fn judged(&self, mode: PowerMode, limit_mw: u32) -> Outcome {
        let truth = self.subject.truth(mode.knobs());
        let limit_w = f64::from(limit_mw) / 1e3;
        let fits = self.unbeaten.iter().find(|[_, watts]| *watts <= limit_w);
        let best = fits
            .or(self.unbeaten.last())
            .map_or(truth.rate, |[rate, _]| *rate);
        Outcome {
            excess: self.subject.settled_w(&truth) / limit_w - 1.0,
            speed: truth.rate / best,
        }
    }
}

/// The mode of `once`.
fn choice(setup: &Setup) -> PowerMode {
    match setup.choice() {
        Ok(choice) => setup.mode(choice.mode),
        Err(_) => setup.safe(),
    }
}

/// Lets the daemon hold the limit for some time.
fn held(setup: Setup, files: RecordedTree, time: Duration) -> Control<RecordedTree> {
    let mut control = Control::new(setup, files);
    while control.files().now() < time {
        let next = poll(&mut control);
        control.files().until(next.min(time));
    }
    control
}

/// Those that no other one beats in both rate and power, the fastest first.
fn unbeaten(mut modes: Vec<[f64; 2]>) -> Vec<[f64; 2]> {
    modes.sort_unstable_by(|[a, p], [b, q]| b.total_cmp(a).then(p.total_cmp(q)));
    let mut least = f64::INFINITY;
    modes.retain(|[_, watts]| {
        let is_less = *watts < least;
        least = least.min(*watts);
        is_less
    });
    modes
}

impl FleetFigures {
    fn of(outcomes: &[Outcome]) -> Self {
        let over: Vec<f64> = outcomes
            .iter()
            .map(|it| 100.0 * it.excess)
            .filter(|excess| *excess > 0.0)
            .collect();
        let n = outcomes.len().max(1) as f64;
        Self {
            over_pct: 100.0 * over.len() as f64 / n,
            mean_excess_pct: over.iter().fold(0.0, |sum, it| sum + it) / over.len().max(1) as f64,
            worst_excess_pct: over.iter().copied().fold(0.0, f64::max),
            speed_pct: 100.0 * outcomes.iter().map(|it| it.speed).sum::<f64>() / n,
        }
    }

    /// The mean of several figures; the worst is the worst of all.
    pub fn mean(all: &[Self]) -> Self {
        let n = all.len().max(1) as f64;
        let mean = |of: fn(&Self) -> f64| all.iter().map(of).sum::<f64>() / n;
        Self {
            over_pct: mean(|it| it.over_pct),
            mean_excess_pct: mean(|it| it.mean_excess_pct),
            worst_excess_pct: all.iter().map(|it| it.worst_excess_pct).fold(0.0, f64::max),
            speed_pct: mean(|it| it.speed_pct),
        }
    }
}
