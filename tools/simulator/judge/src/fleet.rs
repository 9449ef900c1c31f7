//! Fleets: what is chosen on units of a board that a model was not made of, beside each unit's truth.
//!
//! The true power of a mode is the one at which it settles with the fan at full speed, as when a corpus is profiled, so that
//! units differ in nothing but themselves. A unit is *over* if that power of the mode that it is in exceeds the limit.
//! Speed is relative to the oracle of the unit: its fastest mode within the limit.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use wattgate_board_tables::Board;
use wattgate_runtime::fleet::{POWER_SPREAD, TIME_SPREAD};
use wattgate_runtime::grid::Grid;
use wattgate_runtime::{Milliwatts, PowerMode};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::{Spread, Unit};
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::clock::UtcSeconds;
use wattgate_watchdog::config::{self, Config};
use wattgate_watchdog::control::Control;
use wattgate_watchdog::lesson::SHORT_TIME;
use wattgate_watchdog::setup::Setup;

use crate::holders::wattgate::poll;
use crate::judge::{JudgeError, Subject, TrueMode};
use crate::parallel::on_all_cores;
use crate::recorded::RecordedTree;
use crate::replay::ReplayError;
use crate::replay::warmth::Fan;

/// Units from which the spread of a board is estimated, and the first of their seeds: no fleet has them.
const OF_SPREAD: u64 = 200;
const FIRST_OF_SPREAD: u64 = 1_000_000;

/// How long `once --measure` measures, and a date.
const ONCE_MEASURED_TIME: Duration = Duration::from_secs(10);
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

/// A unit, and its modes that no other one beats in power and speed, the fastest first.
#[derive(Debug)]
struct Member<'a> {
    subject: Subject<'a>,
    unbeaten: Vec<TrueMode>,
}

/// What decides on the mode of a unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Choice {
    /// `wattgated once`.
    Once,
    /// `wattgated once`, if the margins for another unit were wider by a factor.
    Widened(f32),
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
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
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

/// The spread between units in which a model believes: that of the power in the modes that limits choose, and that of the
/// time. A factor on all powers adds what the parts of a simulated board do not differ by.
pub fn as_published(
    board: &Board,
    workload: &Workload,
    limits_pct: &[f64],
) -> Result<Spread, JudgeError> {
    let nominal = Subject::new(board, workload, Unit::NOMINAL, boot(board), Fan::Full)?;
    let unbeaten = unbeaten(&nominal)?;
    let chosen = limits_mw(&unbeaten, limits_pct).map(|limit| {
        let fits = unbeaten
            .iter()
            .find(|mode| mode.watts <= f64::from(limit) / 1e3);
        fits.or(unbeaten.last())
    });
    let chosen: Vec<&TrueMode> = chosen.flatten().collect();
    // The logarithms of a unit's powers in these modes, then that of its times.
    let logs_of_unit = |seed: u64| {
        let unit = Unit::drawn(FIRST_OF_SPREAD + seed);
        let subject = Subject::new(board, workload, unit, boot(board), Fan::Full)?;
        let log =
            |mode: &&TrueMode| (subject.settled_w(&subject.truth(mode.knobs)) / mode.watts).ln();
        Ok(chosen.iter().map(log).chain([unit.time.ln()]).collect())
    };
    let drawn = (0..OF_SPREAD).map(logs_of_unit);
    let drawn = drawn.collect::<Result<Vec<Vec<f64>>, JudgeError>>()?;
    let sd = |at: usize| {
        let mean = drawn.iter().map(|logs| logs[at]).sum::<f64>() / drawn.len() as f64;
        let squares = drawn.iter().map(|logs| (logs[at] - mean).powi(2));
        (squares.sum::<f64>() / (drawn.len() - 1) as f64).sqrt()
    };
    let of_power = (0..chosen.len()).map(sd).sum::<f64>() / chosen.len().max(1) as f64;
    let published = f64::from(POWER_SPREAD);
    Ok(Spread {
        parts: (published / of_power).min(1.0),
        module: (published.powi(2) - of_power.powi(2)).max(0.0).sqrt(),
        time: f64::from(TIME_SPREAD) / sd(chosen.len()),
    })
}

/// Limits in mW, in % of the span of power of the unbeaten modes.
fn limits_mw(unbeaten: &[TrueMode], limits_pct: &[f64]) -> impl Iterator<Item = u32> {
    let ends = [unbeaten.last(), unbeaten.first()];
    let [least, most] = ends.map(|end| end.map_or(0.0, |mode| mode.watts));
    let limit = move |pct: &f64| (1e3 * (least + pct / 100.0 * (most - least))).round() as u32;
    limits_pct.iter().map(limit)
}

/// The mode in which a board boots: one with all TPCs.
pub(crate) fn boot(board: &Board) -> Option<u32> {
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
        let member = |unit: &Unit| {
            let subject = Subject::new(board, workload, *unit, boot(board), Fan::Full)?;
            let unbeaten = unbeaten(&subject)?;
            Ok::<_, JudgeError>(Member { subject, unbeaten })
        };
        let nominal = member(&Unit::NOMINAL)?;
        Ok(Self {
            board,
            workload,
            limits_mw: limits_mw(&nominal.unbeaten, limits_pct).collect(),
            members: on_all_cores(units, member)?,
        })
    }

    /// The figures of a choice with a model.
    pub fn figures(&self, model: &Path, choice: Choice) -> Result<FleetFigures, JudgeError> {
        let judged = |member: &Member<'a>| member.outcomes(model, &self.limits_mw, choice);
        let outcomes: Vec<Vec<Outcome>> = on_all_cores(&self.members, judged)?;
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        Ok(FleetFigures::from_outcomes(&outcomes))
    }
}

fn other(why: io::Error) -> JudgeError {
    ReplayError::Holder(why).into()
}

impl Member<'_> {
    /// One for each limit.
    fn outcomes(
        &self,
        model: &Path,
        limits_mw: &[u32],
        by: Choice,
    ) -> Result<Vec<Outcome>, JudgeError> {
        let first = limits_mw.first().copied().unwrap_or_default();
        let (mut setup, _) = self.setup(model, first)?;
        if let Choice::Widened(factor) = by {
            let margins = &mut setup.choices.unit.effect.margins;
            *margins = margins.map(|margin| margin * factor);
            setup.choices.adapt(&setup.board);
        }
        let mut outcomes = Vec::new();
        for &limit_mw in limits_mw {
            setup.config.limit.power = Milliwatts(limit_mw);
            let mode = match by {
                Choice::Once | Choice::Widened(_) => choice(&setup),
                Choice::Measure => measured(self.setup(model, limit_mw)?),
                Choice::Daemon(after) => {
                    let (_, mode) = held(self.setup(model, limit_mw)?, after).status();
                    mode
                }
            };
            outcomes.push(self.judged(mode, limit_mw));
        }
        Ok(outcomes)
    }

    /// The unit with its workload, just booted.
    fn setup(&self, model: &Path, limit_mw: u32) -> Result<(Setup, RecordedTree), JudgeError> {
        let subject = &self.subject;
        let tree = Tree::new(subject.board.clone(), subject.unit, 0, boot(subject.board));
        let mut tree = tree.map_err(ReplayError::Boot)?;
        let jetson = tree.jetson_mut();
        jetson.set_workload(Some(subject.workload.clone()));
        let files = RecordedTree::new(tree);
        let text = config::text(Some(model), Milliwatts(limit_mw));
        let config = Config::parse(&text, Path::new("fleet")).map_err(io::Error::other);
        let setup = Setup::new(config.map_err(other)?, &files, Path::new("/"));
        Ok((setup.map_err(ReplayError::Setup)?, files))
    }

    fn judged(&self, mode: PowerMode, limit_mw: u32) -> Outcome {
        let truth = self.subject.truth(mode.knobs());
        let limit_w = f64::from(limit_mw) / 1e3;
        let fits = self.unbeaten.iter().find(|mode| mode.watts <= limit_w);
        let best = fits.or(self.unbeaten.last());
        let best = best.map_or(truth.rate, |mode| mode.truth.rate);
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

/// The mode of `once --measure`.
fn measured((setup, files): (Setup, RecordedTree)) -> PowerMode {
    let (config, mut choices) = (setup.config.clone(), setup.choices.clone());
    let models = setup.models.clone();
    let first = choice(&setup);
    let control = held((setup, files), ONCE_MEASURED_TIME);
    let lesson = control.lesson(SHORT_TIME, NOW);
    let (board, _) = control.release();
    let Ok(lesson) = lesson else {
        return first;
    };
    choices.learn_now(&lesson, None, &board);
    choice(&Setup {
        config,
        board,
        choices,
        models,
        meter: None,
    })
}

/// Lets the daemon hold the limit for some time.
fn held((setup, files): (Setup, RecordedTree), time: Duration) -> Control<RecordedTree> {
    let mut control = Control::new(setup, files);
    while control.files().now() < time {
        let next = poll(&mut control);
        control.files().until(next.min(time));
    }
    control
}

/// The modes of a unit that no other one beats in both rate and power, the fastest first.
pub(crate) fn unbeaten(subject: &Subject<'_>) -> Result<Vec<TrueMode>, JudgeError> {
    let axes = subject.board.axes();
    let grid = Grid::new(axes.each_ref().map(Vec::as_slice));
    let grid = grid.map_err(|why| other(io::Error::other(why.to_string())))?;
    let mut modes = subject.modes(&grid, Path::new("the board"))?;
    modes.sort_unstable_by(|a, b| {
        let [fast, other] = [a, b].map(|mode| mode.truth.rate);
        other.total_cmp(&fast).then(a.watts.total_cmp(&b.watts))
    });
    let mut least = f64::INFINITY;
    modes.retain(|mode| {
        let is_less = mode.watts < least;
        least = least.min(mode.watts);
        is_less
    });
    Ok(modes)
}

impl FleetFigures {
    fn from_outcomes(outcomes: &[Outcome]) -> Self {
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
        let mean = |figure: fn(&Self) -> f64| all.iter().map(figure).sum::<f64>() / n;
        Self {
            over_pct: mean(|it| it.over_pct),
            mean_excess_pct: mean(|it| it.mean_excess_pct),
            worst_excess_pct: all.iter().map(|it| it.worst_excess_pct).fold(0.0, f64::max),
            speed_pct: mean(|it| it.speed_pct),
        }
    }
}
