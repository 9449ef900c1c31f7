//! Kernels one by one, as MIRAGE's authors measured them: a call is repeated, and the medians of its
//! time and of the module's power count.
//!
//! A repeated call is a [`Workload`] without a loader, so its time and its power follow the same physics
//! as those of a training. [`GpuWork`] is what a call asks of the GPU.

mod corpus;
mod gpu_work;
mod network;
mod sample;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_kernels::{Call, Kind};

use crate::noise::around_one;
use crate::pipeline::Clocks;
use crate::sensor::Channel;
use crate::steady::Steady;
use crate::unit::Unit;
use crate::workload::{Host, Kernels, Loader, Reading, Workload};

pub use corpus::{Corpus, MOST_UNITS};
pub use gpu_work::{GpuWork, Library};
pub use network::network_of;
pub use sample::sample;

/// Number of calls between two synchronisations of a measurement.
const CALLS: f64 = 100.0;

/// Cache misses of a launch.
const LAUNCH_MISSES: f64 = 40.0;

/// Relative spread of a median time from one measurement to the next.
const TIME_SPREAD: f64 = 0.006;

/// Relative spread of a median power from one measurement to the next.
const REPEAT_POWER_SPREAD: f64 = 0.003;

/// A measurement of a kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measurement {
    /// Time of a call in ms.
    pub time_ms: f64,
    /// Power of the module in mW while the call is repeated.
    pub power_mw: f64,
}

/// A unit of a board on which kernels are measured.
#[derive(Clone, Debug)]
pub struct Bench<'a> {
    board: &'a Board,
    unit: Unit,
    channels: Vec<Channel>,
    library: Library,
    random: ChaCha8Rng,
}

impl<'a> Bench<'a> {
    /// A bench whose noise is drawn from a seed.
    pub fn new(board: &'a Board, unit: Unit, seed: u64) -> Self {
        Self {
            board,
            unit,
            channels: unit.channels(board),
            library: Library::for_board(board),
            random: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// Measures a call in a power mode: number of online cores, then CPU, GPU and memory clock in
    /// kHz. All are values of the board's tables.
    pub fn measure(&mut self, call: &Call, mode: [u32; 4]) -> Measurement {
        let (time_ms, power_mw) = self.expected(call, mode);
        Measurement {
            time_ms: time_ms * around_one(TIME_SPREAD, &mut self.random),
            power_mw: power_mw * around_one(REPEAT_POWER_SPREAD, &mut self.random),
        }
    }

    /// The time in ms and the power in mW without noise, but with the errors of the unit's sensors.
    fn expected(&mut self, call: &Call, mode: [u32; 4]) -> (f64, f64) {
        let clocks = Clocks::from_knobs(self.board, mode);
        let workload = repeated(call, &self.library, self.unit.launch);
        let steady = Steady::compute(self.board, &self.unit, &workload, &clocks);
        let mut module_mw = 0.0;
        for (rail, channel) in self.board.rails.iter().zip(&mut self.channels) {
            if rail.total {
                let watts = rail.domains.iter().map(|&domain| steady.watts.get(domain));
                let watts: f64 = watts.sum();
                channel.settle(1e6 * watts / rail.millivolts, rail.millivolts);
                module_mw += channel.reading().milliwatts();
            }
        }
        let time_ms = 1e3 * steady.step.period * self.unit.time / CALLS;
        (time_ms, module_mw)
    }
}

/// A call in a loop. `launch` is a factor on the CPU's work for a launch.
fn repeated(call: &Call, library: &Library, launch: f64) -> Workload {
    let work = GpuWork::from_call(call, library);
    let kernels = Kernels {
        count: CALLS * work.launches,
        mflop_per_sample: 1e-6 * CALLS * work.flop,
        efficiency: work.efficiency,
        mb_per_sample: 0.0,
        mb: 1e-6 * CALLS * work.bytes,
        blocks_per_sample: work.blocks,
    };
    let kcycles = launch * launch_kcycles(call.kind()) / work.launches;
    let misses = LAUNCH_MISSES / work.launches;
    of_kernels(String::new(), vec![kernels], kcycles, misses)
}

/// Kernels whose data are there, with the CPU's work and the cache misses of a launch. A step is one sample.
fn of_kernels(
    name: String,
    kernels: Vec<Kernels>,
    launch_kcycles: f64,
    launch_misses: f64,
) -> Workload {
    Workload {
        name,
        samples: 1,
        minibatch: 1,
        warm_up: 1.0,
        loader: Loader {
            workers: 0,
            contention: 0.0,
            mcycles_per_sample: 0.0,
            kmisses_per_sample: 0.0,
            mb_per_sample: 0.0,
        },
        host: Host {
            mcycles: 0.0,
            kmisses: 0.0,
            mb_per_sample: 0.0,
            launch_kcycles,
            launch_misses,
        },
        data: None,
        memory: None,
        reading: Reading::default(),
        recording: None,
        kernels,
    }
}

/// CPU work of a call in thousands of cycles of a Cortex-A78AE. Assumed: PyTorch checks more for a
/// convolution than for others.
fn launch_kcycles(kind: Kind) -> f64 {
    match kind {
        Kind::Conv2d => 42.0,
        Kind::BatchNorm2d => 34.0,
        Kind::MatMul | Kind::Cat => 26.0,
        Kind::MaxPool2d | Kind::AdaptiveAvgPool2d => 22.0,
        Kind::Relu | Kind::Add => 16.0,
    }
}
