//! The constants of a board's physics that corpora tell something of.

use wattgate_board_tables::{Board, Physics};

use super::solve::Prior;

/// A constant of a board.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// Its place in the board's file, below `physics`.
    pub name: &'static str,
    field: fn(&mut Physics) -> &mut f64,
    sd: f64,
    /// What is published of a board and scales the constant, if anything does.
    scale: fn(&Board) -> f64,
}

impl Constant {
    /// Deviation of the logarithm that is assumed around today's value.
    pub fn sd(&self) -> f64 {
        self.sd
    }
}

fn one(_: &Board) -> f64 {
    1.0
}

/// The peak of the GPU in operations per cycle stands for its number of cores.
fn gpu_cores(board: &Board) -> f64 {
    board.physics().gpu.flop_per_cycle
}

fn bus(board: &Board) -> f64 {
    board.physics().memory.bytes_per_cycle
}

fn top_cpu(board: &Board) -> f64 {
    f64::from(*board.cpu_khz.last().expect("a table"))
}

fn top_gpu(board: &Board) -> f64 {
    f64::from(*board.gpu_khz.last().expect("a table"))
}

/// The constants that a fit changes, each with the published figure by which it is scaled from one board to another. The others
/// stay: a fit cannot tell work per cycle, the efficiencies, the energy of an operation and the power that every mode draws from
/// the workload's own parameters.
pub const CONSTANTS: [Constant; 21] = [
    constant("cpu.volts.floor", |it| &mut it.cpu.volts.floor, 0.15, one),
    constant(
        "cpu.volts.knee_ghz",
        |it| &mut it.cpu.volts.knee_ghz,
        0.4,
        top_cpu,
    ),
    constant(
        "cpu.volts.exponent",
        |it| &mut it.cpu.volts.exponent,
        0.4,
        one,
    ),
    constant("cpu.core_nf", |it| &mut it.cpu.core_nf, 0.5, one),
    constant("cpu.cluster_nf", |it| &mut it.cpu.cluster_nf, 0.7, one),
    constant("cpu.leak_w", |it| &mut it.cpu.leak_w, 0.7, one),
    constant(
        "gpu.in_flight_kib",
        |it| &mut it.gpu.in_flight_kib,
        0.7,
        gpu_cores,
    ),
    constant(
        "gpu.latency_cycles",
        |it| &mut it.gpu.latency_cycles,
        0.7,
        one,
    ),
    constant("gpu.volts.floor", |it| &mut it.gpu.volts.floor, 0.15, one),
    constant(
        "gpu.volts.knee_ghz",
        |it| &mut it.gpu.volts.knee_ghz,
        0.4,
        top_gpu,
    ),
    constant(
        "gpu.volts.exponent",
        |it| &mut it.gpu.volts.exponent,
        0.4,
        one,
    ),
    constant("gpu.clock_nf", |it| &mut it.gpu.clock_nf, 0.7, gpu_cores),
    constant("gpu.idle_nf", |it| &mut it.gpu.idle_nf, 0.7, gpu_cores),
    constant("gpu.byte_pj", |it| &mut it.gpu.byte_pj, 0.7, one),
    constant("gpu.leak_w", |it| &mut it.gpu.leak_w, 0.7, gpu_cores),
    constant(
        "memory.latency_ns",
        |it| &mut it.memory.latency_ns,
        0.7,
        one,
    ),
    constant(
        "memory.latency_cycles",
        |it| &mut it.memory.latency_cycles,
        0.7,
        one,
    ),
    constant(
        "memory.volts.floor",
        |it| &mut it.memory.volts.floor,
        0.15,
        one,
    ),
    constant(
        "memory.controller_nf",
        |it| &mut it.memory.controller_nf,
        0.7,
        bus,
    ),
    constant("memory.standby_w", |it| &mut it.memory.standby_w, 0.7, bus),
    constant("memory.byte_pj", |it| &mut it.memory.byte_pj, 0.7, one),
];

const fn constant(
    name: &'static str,
    field: fn(&mut Physics) -> &mut f64,
    sd: f64,
    scale: fn(&Board) -> f64,
) -> Constant {
    Constant {
        name,
        field,
        sd,
        scale,
    }
}

/// What is assumed of the logarithms of the constants over today's.
pub fn priors() -> Vec<Prior> {
    let prior = |constant: &Constant| Prior {
        mean: 0.0,
        sd: constant.sd,
    };
    CONSTANTS.iter().map(prior).collect()
}

/// The constants of a board, in the order of [`CONSTANTS`].
pub fn of_board(board: &Board) -> Vec<f64> {
    let mut physics = board.physics().clone();
    let values = CONSTANTS.iter();
    values.map(|it| *(it.field)(&mut physics)).collect()
}

/// The board with other constants.
pub fn with(board: &Board, values: &[f64]) -> Board {
    let mut board = board.clone();
    if let Some(physics) = &mut board.physics {
        for (constant, value) in CONSTANTS.iter().zip(values) {
            *(constant.field)(physics) = *value;
        }
        let volts = [
            &mut physics.cpu.volts,
            &mut physics.gpu.volts,
            &mut physics.memory.volts,
        ];
        for volts in volts {
            volts.floor = volts.floor.min(volts.top);
        }
        let tops =
            [&board.cpu_khz, &board.gpu_khz].map(|axis| f64::from(axis[axis.len() - 1]) / 1e6);
        physics.cpu.volts.knee_ghz = physics.cpu.volts.knee_ghz.min(0.95 * tops[0]);
        physics.gpu.volts.knee_ghz = physics.gpu.volts.knee_ghz.min(0.95 * tops[1]);
    }
    board
}

/// The board with today's constants times the exponentials of `logs`.
pub fn moved(board: &Board, logs: &[f64]) -> Board {
    let today = of_board(board);
    let values: Vec<f64> = today
        .iter()
        .zip(logs)
        .map(|(it, log)| it * log.exp())
        .collect();
    with(board, &values)
}

/// A board with the geometric mean of the constants of others, each scaled by what is published of both.
pub fn from_others(board: &Board, others: &[Board]) -> Board {
    let mean = |(at, constant): (usize, &Constant)| {
        let ln = |other: &Board| (of_board(other)[at] / (constant.scale)(other)).ln();
        let mean = others.iter().map(ln).sum::<f64>() / others.len() as f64;
        mean.exp() * (constant.scale)(board)
    };
    let values: Vec<f64> = CONSTANTS.iter().enumerate().map(mean).collect();
    with(board, &values)
}
