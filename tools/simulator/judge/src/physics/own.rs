//! The parameters that each workload has of its own, and the time and power that the physics makes of them.
//!
//! Times are shares of the fastest measured time: how long each part of the work would take alone with all clocks at their highest
//! values. How much each part of the board switches is the workload's as well, and a corpus may have relative watts or lack a rail.

use wattgate_board_tables::Board;
use wattgate_simulated_board::pipeline::{Clocks, Luck, Pipeline};
use wattgate_simulated_board::power::Activity;
use wattgate_simulated_board::steady::settled;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::{Host, Kernels, Loader, Reading, Workload};

use super::corpus::FASTEST_S;
use super::solve::Prior;

/// The number of parameters.
pub const PARAMETERS: usize = 15;

// Indices of parameters; those before are times.
const EFFICIENCY: usize = 9;
const TAKEN: usize = 10;
const CPU_POWER: usize = 11;
const GPU_POWER: usize = 12;
const MEMORY_POWER: usize = 13;
/// The offset of the power in W. Of all other parameters the physics takes the exponential.
const OFFSET: usize = 14;

/// The parameters: their names, their value before the fit, and its deviation, of the logarithm but for the offset. A factor of e is
/// one deviation or less, so that measured modes outweigh it where they tell anything.
pub const OWN: [(&str, f64, f64); PARAMETERS] = [
    ("GPU computes", 0.5, 1.0),
    ("GPU moves data meanwhile", 0.2, 1.5),
    ("GPU moves data only", 0.1, 1.5),
    ("launches: cycles", 0.2, 1.0),
    ("launches: cache misses", 0.02, 1.5),
    ("main process: cycles", 0.02, 1.5),
    ("main process: cache misses", 0.01, 1.5),
    ("loader: cycles", 0.2, 1.5),
    ("loader: cache misses", 0.02, 1.5),
    // Share of the peak: says how many operations the same time has, and with them their energy.
    ("GPU's efficiency", 0.3, 0.7),
    // The profiler's own thread, the interpreter and the system, on the core of the main process.
    ("cycles that others take, MHz", 15.0, 1.0),
    // Work of one kind switches more than that of another. In a relative corpus the scale of its watts is in all three.
    ("factor on the power of the CPU", 1.0, 0.5),
    ("factor on the power of the GPU", 1.0, 0.5),
    ("factor on the power of the memory", 1.0, 0.5),
    ("offset of the power, W", 0.0, 1.0),
];

/// What is assumed of the parameters.
pub fn priors() -> [Prior; PARAMETERS] {
    std::array::from_fn(|at| {
        let (_, value, sd) = OWN[at];
        let mean = if at == OFFSET { value } else { value.ln() };
        Prior { mean, sd }
    })
}

/// Workers of the loader. With one number of cores they cannot be told from their work.
const WORKERS: u32 = 4;

/// Mean time of a kernel with the highest clocks, in s: PyTorch's trainings on Jetsons have hundreds to a few thousand a step.
const KERNEL_S: f64 = 4e-4;

/// Part of the launches whose kernels compute.
const COMPUTING: f64 = 0.7;

/// Least part of the CPU's cycles that others leave to the workload.
const LEAST_LEFT: f64 = 0.2;

/// Length of a cache line in MB.
const LINE_MB: f64 = 64e-6;

/// The workload of some parameters on a board.
pub fn workload(board: &Board, own: &[f64]) -> Workload {
    let physics = board.physics();
    let top = Clocks::from_knobs(board, board.maxn());
    let s = |at: usize| FASTEST_S * own[at].exp();
    let memory = &physics.memory;
    let bytes_hz = 1e9 * memory.bytes_per_cycle * top.emc_ghz * memory.efficiency;
    let work_hz = 1e9 * top.cpu_ghz * physics.cpu.work_per_cycle;
    let miss_s = 1e-9 * (memory.latency_ns + memory.latency_cycles / top.emc_ghz);
    let efficiency = own[EFFICIENCY].exp().min(1.0);
    let kernels = FASTEST_S / KERNEL_S;
    let misses = |at: usize| s(at) / miss_s;
    let group = |share: f64, compute_s: f64, move_s: f64| Kernels {
        count: share * kernels,
        mflop_per_sample: 1e3 * compute_s * top.gpu_ghz * physics.gpu.flop_per_cycle * efficiency,
        efficiency,
        mb_per_sample: move_s * bytes_hz / 1e6,
        mb: 0.0,
        // Enough to fill the GPU.
        blocks_per_sample: 1e6,
    };
    Workload {
        name: "fitted".to_owned(),
        samples: 1,
        minibatch: 1,
        warm_up: 1.0,
        loader: Loader {
            workers: WORKERS,
            contention: 0.0,
            mcycles_per_sample: s(7) * work_hz / 1e6,
            kmisses_per_sample: misses(8) / 1e3,
            mb_per_sample: LINE_MB * (misses(4) + misses(6) + misses(8)),
        },
        host: Host {
            mcycles: s(5) * work_hz / 1e6,
            kmisses: misses(6) / 1e3,
            mb_per_sample: 0.0,
            launch_kcycles: s(3) * work_hz / 1e3 / kernels,
            launch_misses: misses(4) / kernels,
        },
        data: None,
        memory: None,
        reading: Reading::default(),
        recording: None,
        kernels: vec![
            group(COMPUTING, s(0), s(1)),
            group(1.0 - COMPUTING, 0.0, s(2)),
        ],
    }
}

/// Time in s and power in W of a workload.
pub fn simulated(board: &Board, workload: &Workload, own: &[f64], clocks: &Clocks) -> [f64; 2] {
    let taken_ghz = 1e-3 * own[TAKEN].exp();
    let left = Clocks {
        cpu_ghz: (clocks.cpu_ghz - taken_ghz).max(LEAST_LEFT * clocks.cpu_ghz),
        ..*clocks
    };
    let step = Pipeline::new(board, workload, left).step(None, &Luck::NONE);
    let activity = Activity::from_step(&step, clocks.cores);
    let (watts, _) = settled(board, &Unit::NOMINAL, clocks, &activity);
    let [cpu, gpu, memory] = [CPU_POWER, GPU_POWER, MEMORY_POWER].map(|at| own[at].exp());
    let power = cpu * watts.cpu
        + gpu * watts.gpu
        + memory * (watts.soc + watts.dram)
        + watts.system
        + own[OFFSET];
    [step.period, power.max(0.05)]
}
