//! The time of a minibatch: a pipeline of loader workers, the main process that launches
//! kernels, and the GPU that executes them.
//!
//! ```text
//! workers --queue--> main process: fetch, copy, launch ...... synchronise
//!                                          |  |  |  |             ^
//!                                   GPU:   kernels one after another
//! ```
//!
//! Workers, main process and a logger share the online cores. A kernel starts when it has
//! been launched and its predecessor has ended; it takes what is longer of computing and of
//! moving its bytes, and a part of the shorter. Memory gives what its clock and the number of
//! bytes in flight allow (Little's law), and the CPU's traffic takes its share.

use crate::workload::{Kernels, Workload};
use wattgate_board_tables::Board;

/// Logging and the system: millions of cycles a second, on a Cortex-A78AE.
const BACKGROUND_MHZ: f64 = 250.0;

/// Logging and the system: millions of cache misses a second.
const BACKGROUND_MISSES_MHZ: f64 = 0.6;

/// Threads of logging and the system that run at once.
const BACKGROUND_THREADS: f64 = 2.0;

/// How much a running process delays another one on the same number of cores: by the time
/// that it takes, and by caches and wake-ups that it disturbs.
const CROWDING: f64 = 1.3;

/// The part of the shorter one of computing and moving bytes that does not overlap.
const NOT_OVERLAPPED: f64 = 0.25;

/// The part of the main process's preparation that has to wait for the minibatch.
const AFTER_LOADING: f64 = 0.1;

/// The part of the memory's bandwidth beyond which queues grow no longer, since those who
/// wait in them stop asking.
const MOST_USED: f64 = 0.85;

/// Bytes of a cache line.
const LINE: f64 = 64.0;

/// Misses in flight while a core copies.
const MISSES_IN_FLIGHT: f64 = 8.0;

/// From the end of the last kernel until the main process runs again, in millions of
/// cycles.
const SYNCHRONISE_MCYCLES: f64 = 0.05;

/// The clocks and cores that really are, not those that were asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clocks {
    /// Online cores.
    pub cores: f64,
    /// The cores' clock in GHz.
    pub cpu_ghz: f64,
    /// The GPU's clock in GHz.
    pub gpu_ghz: f64,
    /// The memory's clock in GHz.
    pub emc_ghz: f64,
    /// The part of the GPU's TPCs that is not gated.
    pub tpcs: f64,
    /// Clusters with an online core.
    pub clusters: f64,
}

impl Clocks {
    /// Those of a power mode: online cores and three clocks in kHz.
    pub fn of(board: &Board, [cores, cpu_khz, gpu_khz, emc_khz]: [u32; 4]) -> Self {
        let online = &board.core_order[..cores as usize];
        let clusters = board.clusters.iter();
        let awake = clusters.filter(|cluster| cluster.iter().any(|core| online.contains(core)));
        Self {
            cores: f64::from(cores),
            cpu_ghz: f64::from(cpu_khz) / 1e6,
            gpu_ghz: f64::from(gpu_khz) / 1e6,
            emc_ghz: f64::from(emc_khz) / 1e6,
            tpcs: 1.0,
            clusters: awake.count() as f64,
        }
    }
}

/// What differs from one minibatch to the next, each 1 on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Luck {
    /// On the time of the loader.
    pub loader: f64,
    /// On the time of the main process.
    pub host: f64,
    /// On the time of the kernels.
    pub gpu: f64,
}

impl Luck {
    /// Every minibatch like the average one.
    pub const NONE: Self = Self {
        loader: 1.0,
        host: 1.0,
        gpu: 1.0,
    };
}

/// A minibatch: times in seconds, and the work that was done in it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// From one minibatch to the next.
    pub period: f64,
    /// The GPU waits for the minibatch: loader and main process.
    pub stall: f64,
    /// From the first launch to the end of the last kernel.
    pub gpu: f64,
    /// Kernels were executing.
    pub gpu_busy: f64,
    /// Core-seconds of loader workers.
    pub loader_cpu: f64,
    /// Core-seconds of the main process at work, waiting excluded.
    pub main_cpu: f64,
    /// Floating-point operations of the GPU.
    pub flop: f64,
    /// Bytes that the GPU moved.
    pub gpu_bytes: f64,
    /// Bytes to and from the DRAM, of GPU and CPU.
    pub bytes: f64,
}

/// A workload on a board at certain clocks.
#[derive(Clone, Debug)]
pub struct Pipeline<'a> {
    board: &'a Board,
    workload: &'a Workload,
    clocks: Clocks,
}

/// Seconds on a core of its own.
#[derive(Clone, Copy, Debug)]
struct CpuWork {
    /// Cores that background work takes.
    background: f64,
    /// That a minibatch costs the loader.
    load: f64,
    /// That the main process prepares a minibatch.
    host: f64,
    /// That a launch takes.
    launch: f64,
    /// That the main process takes to wake up.
    synchronise: f64,
}

impl<'a> Pipeline<'a> {
    /// The pipeline of a workload.
    pub fn new(board: &'a Board, workload: &'a Workload, clocks: Clocks) -> Self {
        Self {
            board,
            workload,
            clocks,
        }
    }

    /// The minibatch that follows on `before`, or with none the first one in a steady run.
    pub fn step(&self, before: Option<&Step>, luck: &Luck) -> Step {
        match before {
            Some(before) => self.after(before, luck),
            None => {
                let mut step = self.after(&Step::default(), luck);
                // The shares of the cores depend on the period and it on them.
                for _ in 0..50 {
                    let next = self.after(&step, luck);
                    let settled = (next.period - step.period).abs() < 1e-9 * next.period;
                    step = next;
                    if settled {
                        break;
                    }
                }
                step
            }
        }
    }

    fn after(&self, before: &Step, luck: &Luck) -> Step {
        let workers = f64::from(self.workload.loader.workers);
        let cores = self.clocks.cores;
        let alone = self.cpu_work(before);
        let load = alone.load * luck.loader;
        // Others that run while the main process does.
        let loading = if workers > 0.0 {
            (before.loader_cpu / before.period.max(1e-9)).min(workers)
        } else {
            0.0
        };
        let slowed = 1.0 + CROWDING * (loading + alone.background) / cores;
        let host = alone.host * slowed * luck.host;
        let kernels = self.kernels(before, alone.launch * slowed, luck.gpu);
        let flush = self.board.physics().gpu.flush_cycles / (1e9 * self.clocks.gpu_ghz);
        let gpu = kernels.end + flush + alone.synchronise * slowed;
        let main_cpu = host + alone.launch * self.launches();
        let in_turn = host + gpu;
        let period = if workers > 0.0 {
            let main = (main_cpu / in_turn).min(1.0);
            let share = fair_share(cores, workers, main, alone.background);
            in_turn.max(load / (workers * share) + AFTER_LOADING * host)
        } else {
            in_turn + load * slowed
        };
        let mega = |mb: f64| 1e6 * f64::from(self.workload.minibatch) * mb;
        Step {
            period,
            stall: period - gpu,
            gpu,
            gpu_busy: kernels.busy,
            loader_cpu: load,
            main_cpu,
            flop: kernels.flop,
            gpu_bytes: kernels.bytes,
            bytes: kernels.bytes
                + mega(self.workload.loader.mb_per_sample)
                + 2.0 * mega(self.workload.host.mb_per_sample),
        }
    }

    fn cpu_work(&self, before: &Step) -> CpuWork {
        let physics = self.board.physics();
        let memory = &physics.memory;
        let (loader, host) = (&self.workload.loader, &self.workload.host);
        let work_hz = 1e9 * self.clocks.cpu_ghz * physics.cpu.work_per_cycle;
        // A miss queues behind all traffic, as in a queue with one server.
        let used = before.bytes / before.period.max(1e-9) / self.peak();
        let queued = 1.0 / (1.0 - used.min(MOST_USED));
        let miss =
            1e-9 * (memory.latency_ns + queued * memory.latency_cycles / self.clocks.emc_ghz);
        let batch = f64::from(self.workload.minibatch);
        let copied_lines = 1e6 * batch * host.mb_per_sample / LINE;
        let background = BACKGROUND_MHZ * 1e6 / work_hz + BACKGROUND_MISSES_MHZ * 1e6 * miss;
        CpuWork {
            background: background.min(BACKGROUND_THREADS),
            load: batch
                * (1e6 * loader.mcycles_per_sample / work_hz
                    + 1e3 * loader.kmisses_per_sample * miss),
            host: 1e6 * host.mcycles / work_hz
                + (1e3 * host.kmisses + copied_lines / MISSES_IN_FLIGHT) * miss,
            launch: 1e3 * host.launch_kcycles / work_hz + host.launch_misses * miss,
            synchronise: 1e6 * SYNCHRONISE_MCYCLES / work_hz,
        }
    }

    fn launches(&self) -> f64 {
        self.workload.kernels.iter().map(|group| group.count).sum()
    }

    /// Bytes a second to and from the DRAM at most.
    fn peak(&self) -> f64 {
        let memory = &self.board.physics().memory;
        1e9 * memory.bytes_per_cycle * self.clocks.emc_ghz * memory.efficiency
    }

    /// Bytes a second that the GPU can move while the CPU moves its own.
    fn bandwidth(&self, before: &Step) -> f64 {
        let physics = self.board.physics();
        let (memory, gpu) = (&physics.memory, &physics.gpu);
        let peak = self.peak();
        let cpu_bytes = (before.bytes - before.gpu_bytes).max(0.0);
        let cpu = cpu_bytes / before.period.max(1e-9);
        let left = (peak - cpu).max(0.4 * peak);
        let latency = 1e-9
            * (memory.latency_ns
                + memory.latency_cycles / self.clocks.emc_ghz
                + gpu.latency_cycles / self.clocks.gpu_ghz);
        let flight = 1024.0 * gpu.in_flight_kib * self.clocks.tpcs / latency;
        // Queues fill before the smaller one of the two is reached.
        (left.powi(-4) + flight.powi(-4)).powf(-0.25)
    }

    /// Executes all kernels of a minibatch.
    fn kernels(&self, before: &Step, launch: f64, luck: f64) -> Executed {
        let gpu = &self.board.physics().gpu;
        let bandwidth = self.bandwidth(before);
        let batch = f64::from(self.workload.minibatch);
        let hz = 1e9 * self.clocks.gpu_ghz;
        let mut done = Executed::default();
        let mut launched = 0.0;
        for group in &self.workload.kernels {
            let flop = 1e6 * group.mflop_per_sample * batch;
            let bytes = 1e6 * (group.mb_per_sample * batch + group.mb);
            let each = luck * self.kernel(group, flop, bytes, batch, hz, bandwidth);
            // A submission that finds the engines gated wakes them first. Gaps between
            // kernels are spread exponentially.
            let idle = (launch - each).max(0.0);
            let gated = (-1e-6 * gpu.gate_us / idle).exp();
            let launch = launch + 1e-6 * gpu.wake_us * gated;
            // The last kernel ends at the latest of: the GPU never waited; it waited for
            // the first launch; it waited for the last one.
            let all = each * group.count;
            let last = launched + launch * group.count;
            done.end = (done.end + all)
                .max(launched + launch + all)
                .max(last + each);
            launched = last;
            done.busy += all;
            done.flop += flop;
            done.bytes += bytes;
        }
        done
    }

    /// Seconds of one kernel of a group.
    fn kernel(
        &self,
        group: &Kernels,
        flop: f64,
        bytes: f64,
        batch: f64,
        hz: f64,
        bandwidth: f64,
    ) -> f64 {
        let gpu = &self.board.physics().gpu;
        let peak = hz * gpu.flop_per_cycle * self.clocks.tpcs;
        // Fewer blocks than the GPU runs at once leave it partly idle.
        let waves = group.blocks_per_sample * batch / (gpu.blocks * self.clocks.tpcs);
        let full = waves.max(1.0) / waves;
        let compute = flop / group.count / (peak * group.efficiency) * full;
        let moving = bytes / group.count / bandwidth;
        let shorter = compute.min(moving);
        gpu.ramp_cycles / hz + compute.max(moving) + NOT_OVERLAPPED * shorter
    }
}

/// What the kernels of a minibatch did.
#[derive(Clone, Copy, Debug, Default)]
struct Executed {
    end: f64,
    busy: f64,
    flop: f64,
    bytes: f64,
}

/// The part of a core that each loader worker gets: the scheduler gives all who ask the same,
/// and what the main process and the background do not ask for goes to the others.
fn fair_share(cores: f64, workers: f64, main: f64, background: f64) -> f64 {
    let mut others = [
        (1.0, main),
        (BACKGROUND_THREADS, background / BACKGROUND_THREADS),
    ];
    others.sort_by(|a, b| a.1.total_cmp(&b.1));
    let (mut left, mut threads) = (cores, workers + 1.0 + BACKGROUND_THREADS);
    for (number, asked) in others {
        let given = asked.min(left / threads);
        left -= number * given;
        threads -= number;
    }
    (left / threads).min(1.0)
}
