//! One run: a holder on a simulated board under a load, beside the oracles.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board_tables::Board;
use wattgate_simulated_board::load::Load;
use wattgate_simulated_board::machine::mode_errors::ModeErrors;
use wattgate_simulated_board::machine::trace::Segment;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::config::Config;
use wattgate_watchdog::setup::Setup;

use super::account::LoadAccount;
use super::error::ReplayError;
use super::oracle::{Oracle, Truths};
use super::report::LoadReport;
use super::truth::TimedMode;
use super::warmth::{Fan, Warmth};
use crate::course::Course;
use crate::holder::{Holder, HolderFigures};
use crate::holders::{boot_mode, hold_as_peer, wattgate};
use crate::recorded::RecordedTree;
use crate::sensor::Sensor;

/// When the sensor is set: about when a daemon at its start does it.
const SENSOR_SET: Duration = Duration::from_millis(100);

/// Time in which the holder sets its first mode. Power and speed do not count in it.
pub const START: Duration = Duration::from_secs(1);

/// Without a model, speed counts from this time on: until then the governor learns what the modes draw.
const LEARNED: Duration = Duration::from_secs(60);

/// A load on a board under limits.
#[derive(Clone, Debug)]
pub struct LoadRun<'a> {
    /// The board.
    pub board: &'a Board,
    /// The model's file.
    pub model: &'a Path,
    /// Each limit in mW with the time from which it holds, the first at zero.
    pub limits: Vec<(Duration, u32)>,
    /// The load, at least two seconds long.
    pub load: Load,
    /// The workload.
    pub workload: &'a Workload,
    /// The number of samples in one result of the sensor; see [`Sensor::samples`].
    pub samples: u32,
    /// The number from which the unit's differences are drawn; none for the nominal unit.
    pub unit: Option<u64>,
    /// The seed of noise and of the numbers of hwmon devices.
    pub seed: u64,
    /// Who holds the limit.
    pub holder: Holder,
    /// Errors planted into the power of the modes.
    pub errors: Option<ModeErrors>,
}

/// Replays a load. `modes` are the [`timed_modes`](super::timed_modes) of the same board, model and
/// workload.
pub fn run(run: &LoadRun<'_>, modes: &[TimedMode]) -> Result<LoadReport, ReplayError> {
    traced(run, modes).map(|(report, _)| report)
}

/// Replays a load like [`run`], and returns the true power over time, too.
pub fn traced(
    run: &LoadRun<'_>,
    modes: &[TimedMode],
) -> Result<(LoadReport, Vec<Segment>), ReplayError> {
    let course = Course {
        length: run.load.length(),
        limits: run.limits.clone(),
        model: run.model.to_owned(),
        sensor: Sensor::with_samples(run.samples),
    };
    let unit = run.unit.map_or(Unit::NOMINAL, Unit::drawn);
    let mut board = run.board.clone();
    if run.holder == Holder::UnknownBoard {
        board.compatible = vec!["nvidia,unknown".to_owned()];
    }
    let boot = boot_mode(run.holder, run.board, course.limit_mw(Duration::ZERO));
    let mut tree = Tree::new(board, unit, run.seed, boot)?;
    let is_set = course.sensor.fix(&mut tree, SENSOR_SET);
    let is_set = is_set.map_err(io::Error::other)?;
    if run.samples != Sensor::L4T.samples && !is_set {
        return Err(ReplayError::Samples {
            board: run.board.name.clone(),
            samples: run.samples,
        });
    }
    let warmth = Warmth::new(tree.jetson().heat(), Fan::Automatic);
    let jetson = tree.jetson_mut();
    jetson.set_workload(Some(run.workload.clone()));
    if let Some(errors) = run.errors {
        jetson.set_mode_errors(errors);
    }
    jetson.keep_trace();
    tree.play(run.load.clone());
    let (figures, mut files) = hold(run, &course, RecordedTree::new(tree))?;
    let jetson = files.tree().jetson_mut();
    let energy_j = jetson.energy_j();
    let trace = jetson.take_trace();

    let account = |start| LoadAccount::from_trace(&trace, &run.load, &run.limits, start);
    let start = match run.holder.is_without_model() {
        true => LEARNED,
        false => START,
    };
    let physical = run.errors.as_ref().filter(|errors| errors.is_physical());
    let truths = Truths::new(modes, run.board, &unit, physical);
    let oracle = Oracle {
        truths: &truths,
        thermal: &run.board.physics().thermal,
        unit: &unit,
        warmth,
        load: &run.load,
        limits: &run.limits,
        start,
    };
    let (minibatches, account) = (account(start).minibatches, account(START));
    let account = LoadAccount {
        minibatches,
        ..account
    };
    let report = LoadReport::new(&account, &oracle, &figures, course.length, energy_j);
    Ok((report, trace))
}

/// Lets the run's holder hold the limit to the end of a course.
fn hold(
    run: &LoadRun<'_>,
    course: &Course,
    mut files: RecordedTree,
) -> Result<(HolderFigures, RecordedTree), ReplayError> {
    let without_model = run.holder.is_without_model();
    if run.holder == Holder::Wattgate || without_model {
        let model = (!without_model).then_some(course.model.as_path());
        let text = course.config(Duration::ZERO, model);
        let config = Config::parse(&text, Path::new("replay")).map_err(io::Error::other)?;
        let setup = Setup::new(config, &files, Path::new("/"))?;
        return Ok(wattgate::hold(course, setup, files));
    }
    let changes = hold_as_peer(run.holder, course, run.board, None, &mut files)?;
    let figures = HolderFigures {
        changes,
        safe_s: 0.0,
    };
    Ok((figures, files))
}
