//! What the sensor of a simulated board shows under a load, polled as the recorded one was.

use std::time::Duration;

use wattgate_board_tables::Board;
use wattgate_simulated_board::load::{Kind, Load, Step};
use wattgate_simulated_board::sampling::Sampling;
use wattgate_simulated_board::tree::{Tree, nvpmodel};
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

use super::trace::{Phase, Reading, Run, Source};
use crate::replay::ReplayError;

/// The workload at activity 1. The figures are relative to its power.
const WORKLOAD: &str = "resnet18";

/// Time for which the board waits before a load begins, in s.
const LEAD_S: f64 = 25.0;

/// Time after which the polls begin, in s: the register has settled.
const FIRST_POLL_S: f64 = 5.0;

/// Activity below which the LLM's board loads the model, and from which it prefills.
const LLM_WORKS: [f64; 2] = [0.6, 1.05];

/// Activity below which a training writes a checkpoint, and the range of an evaluation.
const CHECKPOINT: f64 = 0.22;
const EVALUATION: [f64; 2] = [0.7, 0.99];

/// How the sensor is polled.
#[derive(Clone, Copy, Debug)]
pub struct Polls<'a> {
    pub source: &'a Source,
    /// ID of the mode in nvpmodel.
    pub mode: u32,
    /// Time in s from one poll to the next.
    pub period_s: f64,
    /// The setting of the sensor.
    pub sampling: Sampling,
}

/// The name of a source's mode in nvpmodel, such as `MAXN`.
pub fn mode_name(source: &Source, id: u32) -> Result<String, ReplayError> {
    let board = Board::named(source.board)?;
    Ok(nvpmodel::mode(&board, Some(id))?.name.clone())
}

/// Plays a load on the nominal unit of the source's board, which waits for `LEAD_S` first.
pub fn run(polls: &Polls<'_>, kind: Kind, length: Duration, seed: u64) -> Result<Run, ReplayError> {
    let mut board = Board::named(polls.source.board)?;
    set_input(&mut board, polls.source.input_v);
    let workload = Workload::named(WORKLOAD).map_err(std::io::Error::other)?;
    let mut tree = Tree::new(board, Unit::NOMINAL, seed, Some(polls.mode))?;
    let chips = tree.jetson().board().chip_of();
    let jetson = tree.jetson_mut();
    jetson.set_workload(Some(workload));
    for chip in 0..=chips.iter().copied().max().unwrap_or(0) {
        jetson.set_sampling(chip, polls.sampling);
    }
    let load = led(&kind.load(length, seed));
    let end_s = load.length().as_secs_f64();
    let (first, starts) = start(kind, &load);
    tree.play(load.clone());
    let (mut readings, mut phases) = (Vec::new(), Vec::new());
    for poll in 0.. {
        let seconds = FIRST_POLL_S + f64::from(poll) * polls.period_s;
        if seconds >= end_s {
            break;
        }
        let now = Duration::from_secs_f64(seconds);
        tree.advance(now);
        let rails = tree.jetson().board().rails.iter().enumerate();
        let total = rails.filter(|(_, rail)| rail.total);
        let shown_w = |at| 1e-3 * tree.jetson().channel(at).reading().milliwatts();
        readings.push(Reading {
            seconds,
            watts: total.map(|(at, _)| shown_w(at)).sum(),
            rail_w: shown_w(0),
        });
        phases.push(match now < starts {
            true => first,
            false => phase(kind, activity(&load, now)),
        });
    }
    Ok(Run::new(kind.name(), polls.mode, readings, &phases))
}

/// Gives the rails at the board's input another voltage.
fn set_input(board: &mut Board, volts: f64) {
    let nominal = board.rails.first().map(|rail| rail.millivolts);
    for rail in &mut board.rails {
        if Some(rail.millivolts) == nominal {
            rail.millivolts = 1e3 * volts;
        }
    }
}

/// A load after [`LEAD_S`] without activity.
fn led(load: &Load) -> Load {
    let lead = Duration::from_secs_f64(LEAD_S);
    let later = load.steps().iter().map(|step| Step {
        from: step.from + lead,
        ..*step
    });
    let steps = std::iter::once(Step::new(Duration::ZERO, 0.0)).chain(later);
    Load::new(steps.collect(), load.length() + lead)
}

fn activity(load: &Load, now: Duration) -> f64 {
    let steps = load.steps();
    let after = steps.partition_point(|step| step.from <= now);
    steps[after.saturating_sub(1)].activity
}

fn is_training(kind: Kind) -> bool {
    kind == Kind::Training || kind.name() == "epochs"
}

/// The phase before a load's work begins, and when that is.
fn start(kind: Kind, load: &Load) -> (Phase, Duration) {
    if !is_training(kind) {
        return (Phase::Idle, Duration::from_secs_f64(LEAD_S));
    }
    let works = load.steps().iter().find(|step| step.activity == 1.0);
    (
        Phase::StartUp,
        works.map_or(load.length(), |step| step.from),
    )
}

/// The phase of a load with an activity.
fn phase(kind: Kind, activity: f64) -> Phase {
    match kind {
        _ if activity == 0.0 => Phase::Idle,
        Kind::Training if activity < CHECKPOINT => Phase::Other,
        Kind::Training if (EVALUATION[0]..EVALUATION[1]).contains(&activity) => Phase::Evaluation,
        Kind::Training => Phase::Training,
        _ if is_training(kind) && activity > 1.0 => Phase::Evaluation,
        _ if is_training(kind) => Phase::Training,
        _ if activity < LLM_WORKS[0] => Phase::Loading,
        _ if activity < LLM_WORKS[1] => Phase::Decode,
        _ => Phase::Prefill,
    }
}
