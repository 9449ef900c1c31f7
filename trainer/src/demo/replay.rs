//! A power limit that changes while the workload runs: the simulated board is put into the
//! mode that was chosen for each limit, and its sensors are read.

use std::time::Duration;

use serde::Serialize;
use wattgate_simulator::board::{Board, Preset};
use wattgate_simulator::machine::Jetson;
use wattgate_simulator::unit::Unit;
use wattgate_simulator::workload::Workload;

use super::{Choices, round};
use crate::split::Known;

/// From when on which limit holds, in s and W.
const LIMITS: [(u32, u32); 4] = [(0, 45), (60, 22), (120, 32), (180, 18)];

/// In s.
const END: u32 = 240;

/// How often the sensors are read.
const POLL: Duration = Duration::from_millis(430);

/// Whose choices are replayed.
const SHOWN: [&str; 3] = ["wattgate, 50 planned modes", "NVIDIA's presets", "MAXN"];

/// Power over time under the limits.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    pub limits: Vec<Limit>,
    pub end_s: u32,
    pub series: Vec<Series>,
}

/// A limit that holds until the next one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limit {
    pub from_s: u32,
    pub limit_w: u32,
}

/// What the sensors gave, and which modes the board was in.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    pub name: &'static str,
    /// Seconds and watts.
    pub points: Vec<[f64; 2]>,
    pub modes: Vec<InMode>,
}

/// A mode until the next one.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct InMode {
    pub from_s: u32,
    pub mode: usize,
}

/// Replays the choices of some contestants.
pub fn replay(
    board: &Board,
    workload: &Workload,
    seed: u64,
    choices: &[Choices],
    all: &[Known],
) -> Replay {
    let first = *LIMITS.first().expect("a limit");
    let series = SHOWN.iter().filter_map(|&name| {
        let by = &choices.iter().find(|choices| choices.name == name)?.by;
        let modes = LIMITS.iter().filter_map(|&(from_s, limit_w)| {
            let at = (limit_w - super::LIMITS_W.start()) as usize;
            let mode = by[at].as_ref()?.point.mode;
            Some(InMode { from_s, mode })
        });
        let modes: Vec<InMode> = modes.collect();
        // Who has no mode for the first limit has nothing to show.
        (modes.first()?.from_s == first.0).then(|| Series {
            name,
            points: run(board, workload, seed, &modes, all),
            modes,
        })
    });
    Replay {
        series: series.collect(),
        limits: LIMITS
            .map(|(from_s, limit_w)| Limit { from_s, limit_w })
            .to_vec(),
        end_s: END,
    }
}

fn run(
    board: &Board,
    workload: &Workload,
    seed: u64,
    modes: &[InMode],
    all: &[Known],
) -> Vec<[f64; 2]> {
    // Every TPC powered, as while profiling: other modes of nvpmodel gate some of them.
    let gated = |mode: &&Preset| mode.tpc_pg_mask.unwrap_or(0).count_ones();
    let boot = board.modes.iter().min_by_key(gated).expect("a mode");
    let mut jetson = Jetson::new(board.clone(), Unit::NOMINAL, seed, boot);
    jetson.set_workload(Some(workload.clone()));
    // As while profiling.
    jetson.request(|settings| settings.fan_pwm = Some(255));
    let mut pending = modes.iter().peekable();
    let mut points = Vec::new();
    let mut now = Duration::ZERO;
    while now.as_secs() < u64::from(END) {
        if let Some(next) = pending.next_if(|mode| now.as_secs() >= u64::from(mode.from_s)) {
            jetson.request(|settings| settings.pin(board, all[next.mode].knobs));
        }
        now += POLL;
        jetson.advance(now);
        points.push([
            round(now.as_secs_f64(), 2),
            round(module_w(board, &jetson), 2),
        ]);
    }
    points
}

/// The module's power as its sensors give it.
fn module_w(board: &Board, jetson: &Jetson) -> f64 {
    let rails = board.rails.iter().enumerate();
    let readings = rails
        .filter(|(_, rail)| rail.total)
        .map(|(at, _)| jetson.channel(at).reading());
    let each = readings.map(|r| 1e-6 * r.millivolts as f64 * r.milliamperes as f64);
    each.sum()
}
