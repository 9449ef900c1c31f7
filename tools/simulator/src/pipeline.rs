//! Models the time of a minibatch as a pipeline: loader workers prepare it, the main process
//! launches its kernels, and the GPU executes them.
//!
//! ```text
//! workers --queue--> main process: fetch, copy, launch ...... synchronise
//!                                          |  |  |  |             ^
//!                                   GPU:   kernels one after another
//! ```
//!
//! Workers, main process and a logger share the online cores. A kernel starts when it has been
//! launched and its predecessor has ended. Its time is the longer one of compute time and transfer
//! time, plus the part of the shorter one that does not overlap. The memory clock and the bytes
//! in flight limit the GPU's memory throughput (Little's law). The CPU's traffic reduces it.
//!
//! The times of a recorded workload are multiplied by what its [recording](crate::recording) says at these
//! clocks.

use crate::recording::interpolation::Ratio;
use crate::workload::{Kernels, Reading, Workload};
use wattgate_board_tables::Board;

/// CPU work of logging and the system, in millions of cycles per second of a Cortex-A78AE.
const BACKGROUND_MHZ: f64 = 250.0;

/// Cache misses of logging and the system, in millions per second.
const BACKGROUND_MISSES_MHZ: f64 = 0.6;

/// Number of concurrent threads of logging and the system.
const BACKGROUND_THREADS: f64 = 2.0;

/// Contention for the cores: relative slowdown of a process for each competing thread, divided by
/// the number of cores. A competing thread takes CPU time, and disturbs caches and wake-ups.
const CROWDING: f64 = 1.3;

/// Fraction of the shorter one of compute time and transfer time that does not overlap the longer
/// one.
const NOT_OVERLAPPED: f64 = 0.25;

/// Fraction of the main process's preparation that starts only after the minibatch is loaded.
const AFTER_LOADING: f64 = 0.1;

/// Utilisation of the memory's bandwidth above which queues stop growing: stalled requesters issue
/// no new requests (back-pressure).
const MOST_USED: f64 = 0.85;

/// Length of a cache line in bytes.
const LINE: f64 = 64.0;

/// Number of cache misses that a copying core keeps in flight.
const MISSES_IN_FLIGHT: f64 = 8.0;

/// Wake-up latency of the main process after the last kernel, in millions of cycles.
const SYNCHRONISE_MCYCLES: f64 = 0.05;

/// The effective clocks and cores, as opposed to the requested ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clocks {
    /// Number of online cores.
    pub cores: f64,
    /// The cores' clock in GHz.
    pub cpu_ghz: f64,
    /// The GPU's clock in GHz.
    pub gpu_ghz: f64,
    /// The memory's clock in GHz.
    pub emc_ghz: f64,
    /// Fraction of the GPU's TPCs that is not power-gated.
    pub tpcs: f64,
    /// Number of clusters with an online core.
    pub clusters: f64,
}

impl Clocks {
    /// The number of online cores, then CPU, GPU and memory clock in kHz.
    pub fn knobs(&self) -> [f64; 4] {
        let ghz = [self.cpu_ghz, self.gpu_ghz, self.emc_ghz];
        let [cpu, gpu, emc] = ghz.map(|ghz| 1e6 * ghz);
        [self.cores, cpu, gpu, emc]
    }

    /// The clocks of a power mode: number of online cores, then CPU, GPU and memory clock in kHz.
    pub fn from_knobs(board: &Board, [cores, cpu_khz, gpu_khz, emc_khz]: [u32; 4]) -> Self {
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

/// Random factors on the parts of a minibatch, each 1 on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Luck {
    /// Factor on the loader's time.
    pub loader: f64,
    /// Factor on the main process's time.
    pub host: f64,
    /// Factor on the kernels' time.
    pub gpu: f64,
}

impl Luck {
    /// An average minibatch.
    pub const NONE: Self = Self {
        loader: 1.0,
        host: 1.0,
        gpu: 1.0,
    };
}

/// Times in s and work of one minibatch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Time from one minibatch to the next.
    pub period: f64,
    /// Time for which the GPU waits for loader and main process.
    pub stall: f64,
    /// Time for which the main process waits for the loader, a part of the stall.
    pub fetch: f64,
    /// Time from the first launch to the end of the last kernel.
    pub gpu: f64,
    /// Time during which kernels execute.
    pub gpu_busy: f64,
    /// CPU time of the loader workers, in core-seconds.
    pub loader_cpu: f64,
    /// CPU time of the main process without waiting, in core-seconds.
    pub main_cpu: f64,
    /// Number of floating-point operations of the GPU.
    pub flop: f64,
    /// Memory traffic of the GPU in bytes.
    pub gpu_bytes: f64,
    /// DRAM traffic of GPU and CPU in bytes.
    pub bytes: f64,
    /// Logarithm of the recorded power over the simulated one; 0 without a recording.
    pub power_log: f64,
}

impl Step {
    /// The same work in times that are longer by a factor.
    pub fn slowed(self, factor: f64) -> Self {
        Self {
            period: factor * self.period,
            stall: factor * self.stall,
            fetch: factor * self.fetch,
            gpu: factor * self.gpu,
            gpu_busy: factor * self.gpu_busy,
            loader_cpu: factor * self.loader_cpu,
            main_cpu: factor * self.main_cpu,
            ..self
        }
    }
}

/// A workload on a board at certain clocks.
#[derive(Clone, Debug)]
pub struct Pipeline<'a> {
    board: &'a Board,
    workload: &'a Workload,
    clocks: Clocks,
    /// What the workload's recording says at these clocks.
    recorded: Ratio,
}

/// CPU times in s without contention for cores.
#[derive(Clone, Copy, Debug)]
struct CpuWork {
    /// Number of cores that background work occupies.
    background: f64,
    /// Loader time of a minibatch.
    load: f64,
    /// Time in which the main process prepares a minibatch.
    host: f64,
    /// Time to launch one kernel.
    launch: f64,
    /// Wake-up latency of the main process.
    synchronise: f64,
}

impl<'a> Pipeline<'a> {
    /// Creates the pipeline of a workload on a board at fixed clocks.
    pub fn new(board: &'a Board, workload: &'a Workload, clocks: Clocks) -> Self {
        let recording = workload.recording.as_ref();
        Self {
            board,
            workload,
            clocks,
            recorded: recording.map_or(Ratio::NONE, |recording| recording.ratio(clocks.knobs())),
        }
    }

    /// Computes the minibatch that follows `before`; without `before`, a minibatch in steady state.
    pub fn step(&self, before: Option<&Step>, luck: &Luck) -> Step {
        let Ratio { time, power_log } = self.recorded;
        let before = before.map(|before| before.slowed(1.0 / time));
        let step = self.simulated(before.as_ref(), luck).slowed(time);
        Step { power_log, ..step }
    }

    fn simulated(&self, before: Option<&Step>, luck: &Luck) -> Step {
        match before {
            Some(before) => self.after(before, luck),
            None => {
                let mut step = self.after(&Step::default(), luck);
                // The shares of the cores and the period depend on each other: iterate to a fixed
                // point.
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
        // Loader threads that compete with the main process for cores.
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
        let reading = self.reading();
        let period = if workers > 0.0 {
            let main = (main_cpu / in_turn).min(1.0);
            let share = fair_share(cores, workers, main, alone.background);
            let loaded = load / (workers * share) + reading.alone_s / workers;
            in_turn.max(loaded.max(reading.saturated_s) + AFTER_LOADING * host)
        } else {
            in_turn + load * slowed + reading.alone_s
        };
        let mega = |mb: f64| 1e6 * f64::from(self.workload.minibatch) * mb;
        Step {
            period,
            stall: period - gpu,
            fetch: period - in_turn,
            gpu,
            gpu_busy: kernels.busy,
            loader_cpu: load,
            main_cpu,
            flop: kernels.flop,
            gpu_bytes: kernels.bytes,
            bytes: kernels.bytes
                + mega(self.workload.loader.mb_per_sample)
                + 2.0 * mega(self.workload.host.mb_per_sample),
            power_log: 0.0,
        }
    }

    fn cpu_work(&self, before: &Step) -> CpuWork {
        let physics = self.board.physics();
        let memory = &physics.memory;
        let (loader, host) = (&self.workload.loader, &self.workload.host);
        let work_hz = 1e9 * self.clocks.cpu_ghz * physics.cpu.work_per_cycle;
        // A miss queues behind all traffic: single-server queue.
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

    /// Waiting times for the storage, of a minibatch.
    fn reading(&self) -> Reading {
        let batch = f64::from(self.workload.minibatch);
        let Reading {
            alone_s,
            saturated_s,
        } = self.workload.reading;
        Reading {
            alone_s: batch * alone_s,
            saturated_s: batch * saturated_s,
        }
    }

    fn launches(&self) -> f64 {
        self.workload.kernels.iter().map(|group| group.count).sum()
    }

    /// Peak DRAM throughput in B/s.
    fn peak(&self) -> f64 {
        let memory = &self.board.physics().memory;
        1e9 * memory.bytes_per_cycle * self.clocks.emc_ghz * memory.efficiency
    }

    /// Memory throughput in B/s that the CPU's traffic leaves to the GPU.
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
        // A smooth minimum, because queues fill before throughput reaches the smaller limit.
        (left.powi(-4) + flight.powi(-4)).powf(-0.25)
    }

    /// Executes all kernels of a minibatch. `launch` is the time to launch one kernel in s.
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
            // A submission to power-gated engines wakes them first. Gaps between kernels
            // follow an exponential distribution.
            let idle = (launch - each).max(0.0);
            let gated = (-1e-6 * gpu.gate_us / idle).exp();
            let launch = launch + 1e-6 * gpu.wake_us * gated;
            // The end of the last kernel is the latest of three cases: the GPU never waited; it
            // waited for the first launch; it waited for the last launch.
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

    /// Time of one kernel of a group in s.
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
        // Fewer blocks than the GPU can run concurrently leave it partly idle.
        let waves = group.blocks_per_sample * batch / (gpu.blocks * self.clocks.tpcs);
        let full = waves.max(1.0) / waves;
        let compute = flop / group.count / (peak * group.efficiency) * full;
        let moving = bytes / group.count / bandwidth;
        let shorter = compute.min(moving);
        gpu.ramp_cycles / hz + compute.max(moving) + NOT_OVERLAPPED * shorter
    }
}

/// Times and work of the kernels of a minibatch.
#[derive(Clone, Copy, Debug, Default)]
struct Executed {
    end: f64,
    busy: f64,
    flop: f64,
    bytes: f64,
}

/// The fraction of a core that each loader worker gets from a fair scheduler: all threads get equal
/// shares, and what main process and background leave unused goes to the workers.
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
