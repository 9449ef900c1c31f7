//! Models the power of each domain as the sum of clock switching power (C·V²·f), energy per
//! operation and per byte (the GPU's scales with V²), leakage that rises with temperature, and a
//! constant base power. With a recorded workload all of it is multiplied by what its
//! [recording](crate::recording) says at these clocks.

use crate::pipeline::{Clocks, Step};
use crate::unit::Unit;
use wattgate_board_tables::{Board, Domain, Volts};

/// Temperature rise in K that doubles the leakage (rule of thumb for such processes).
const LEAKAGE_DOUBLES_K: f64 = 38.0;

/// Reference temperature of the leakage in °C.
const LEAKAGE_AT_C: f64 = 40.0;

/// Switched capacitance of a core that busy-waits, relative to a working core.
const WAITING: f64 = 0.45;

/// Mean number of cores that logging and the system keep busy.
const BACKGROUND_CORES: f64 = 0.1;

/// Utilisation and rates of the work on the board, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// Mean number of working cores.
    pub cores: f64,
    /// Mean number of cores that busy-wait.
    pub waiting_cores: f64,
    /// Fraction of the time during which kernels execute.
    pub gpu: f64,
    /// Floating-point operations per second.
    pub flop: f64,
    /// Memory traffic of the GPU in B/s.
    pub gpu_bytes: f64,
    /// DRAM traffic in B/s.
    pub bytes: f64,
    /// Whether the GPU is powered; its rail alone does not count.
    pub gpu_on: bool,
    /// Logarithm of the recorded power over the simulated one; 0 without a recorded workload.
    pub power_log: f64,
}

impl Activity {
    /// An idle board with a running logger.
    pub const IDLE: Self = Self {
        cores: BACKGROUND_CORES,
        waiting_cores: 0.0,
        gpu: 0.0,
        flop: 0.0,
        gpu_bytes: 0.0,
        bytes: 2e8,
        gpu_on: false,
        power_log: 0.0,
    };

    /// The mean activity over a minibatch, with `cores` online cores.
    pub fn from_step(step: &Step, cores: f64) -> Self {
        let period = step.period.max(1e-9);
        let working = (step.loader_cpu + step.main_cpu) / period + BACKGROUND_CORES;
        let waiting = (1.0 - step.main_cpu / period).max(0.0);
        Self {
            cores: working.min(cores),
            waiting_cores: waiting.min((cores - working).max(0.0)),
            gpu: (step.gpu_busy / period).min(1.0),
            flop: step.flop / period,
            gpu_bytes: step.gpu_bytes / period,
            bytes: step.bytes / period,
            gpu_on: true,
            power_log: step.power_log,
        }
    }

    /// The activity while the workload rests: an idle board whose GPU is powered. The recorded power at rest is
    /// not known; the same ratio as at work is assumed.
    pub fn at_rest(&self) -> Self {
        Self {
            gpu_on: true,
            power_log: self.power_log,
            ..Self::IDLE
        }
    }

    /// The activity on a unit whose times are longer by the factor `time`.
    pub fn slowed(self, time: f64) -> Self {
        Self {
            flop: self.flop / time,
            gpu_bytes: self.gpu_bytes / time,
            bytes: self.bytes / time,
            ..self
        }
    }
}

/// Power of each domain in W.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Watts {
    pub cpu: f64,
    pub gpu: f64,
    pub soc: f64,
    pub dram: f64,
    pub system: f64,
}

impl Watts {
    /// The power of one domain in W.
    pub fn get(&self, domain: Domain) -> f64 {
        match domain {
            Domain::Cpu => self.cpu,
            Domain::Gpu => self.gpu,
            Domain::Soc => self.soc,
            Domain::Dram => self.dram,
            Domain::System => self.system,
        }
    }

    /// All powers times a factor.
    fn times(self, factor: f64) -> Self {
        Self {
            cpu: factor * self.cpu,
            gpu: factor * self.gpu,
            soc: factor * self.soc,
            dram: factor * self.dram,
            system: factor * self.system,
        }
    }

    /// The power of the whole module in W.
    pub fn total(&self) -> f64 {
        self.cpu + self.gpu + self.soc + self.dram + self.system
    }
}

/// The power of a unit of a board at given clocks, activity and die temperature in °C.
pub fn watts(
    board: &Board,
    unit: &Unit,
    clocks: &Clocks,
    activity: &Activity,
    die_c: f64,
) -> Watts {
    Draw::new(board, unit, clocks, activity).at(leakage(unit, die_c))
}

/// The leakage of a unit at a die temperature in °C, relative to the nominal leakage at 40 °C.
pub fn leakage(unit: &Unit, die_c: f64) -> f64 {
    unit.leakage * ((die_c - LEAKAGE_AT_C) / LEAKAGE_DOUBLES_K).exp2()
}

/// Power at given clocks and activity, split by its dependence on temperature.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Draw {
    /// Power that does not depend on temperature.
    pub fixed: Watts,
    /// Leakage power at the reference temperature, to be multiplied by [`leakage`].
    pub leaking: Watts,
}

impl Draw {
    /// Computes the power of a unit of a board.
    pub fn new(board: &Board, unit: &Unit, clocks: &Clocks, activity: &Activity) -> Self {
        let physics = board.physics();
        let top = |axis: &[u32]| f64::from(*axis.last().expect("a table")) / 1e6;
        let volt = |volts: &Volts, ghz, axis| volts.at(ghz, top(axis));

        let cpu = &physics.cpu;
        let v = volt(&cpu.volts, clocks.cpu_ghz, &board.cpu_khz);
        let switching = cpu.core_nf * (activity.cores + WAITING * activity.waiting_cores)
            + cpu.cluster_nf * clocks.clusters;
        let cpu_w = unit.switching * v * v * clocks.cpu_ghz * switching;
        let cpu_leak_w = cpu.leak_w * v * v * clocks.cores;

        let gpu = &physics.gpu;
        let v = volt(&gpu.volts, clocks.gpu_ghz, &board.gpu_khz);
        let (gpu_w, gpu_leak_w) = if activity.gpu_on {
            let clock = gpu.idle_nf + (gpu.clock_nf - gpu.idle_nf) * activity.gpu;
            let work = 1e-12 * (gpu.flop_pj * activity.flop + gpu.byte_pj * activity.gpu_bytes);
            (
                unit.switching * v * v * (clocks.tpcs * clock * clocks.gpu_ghz + work),
                gpu.leak_w * v * v * clocks.tpcs,
            )
        } else {
            (0.0, 0.0)
        };

        let memory = &physics.memory;
        let v = volt(&memory.volts, clocks.emc_ghz, &board.emc_khz);
        let soc_w = physics.idle.soc_w / 2.0
            + unit.switching * memory.controller_nf * v * v * clocks.emc_ghz;
        let dram_w = physics.idle.dram_w
            + memory.standby_w * clocks.emc_ghz / top(&board.emc_khz)
            + unit.switching * 1e-12 * memory.byte_pj * activity.bytes;
        let fixed = Watts {
            cpu: cpu_w,
            gpu: gpu_w,
            soc: soc_w,
            dram: dram_w,
            system: physics.idle.system_w * unit.system,
        };
        let leaking = Watts {
            cpu: cpu_leak_w,
            gpu: gpu_leak_w,
            soc: physics.idle.soc_w / 2.0,
            ..Watts::default()
        };
        let module = unit.module * activity.power_log.exp();
        Self {
            fixed: fixed.times(module),
            leaking: leaking.times(module),
        }
    }

    /// The power at a leakage factor, see [`leakage`].
    pub fn at(&self, leakage: f64) -> Watts {
        let Self { fixed, leaking } = self;
        let with_leakage = |fixed: f64, leaking: f64| fixed + leakage * leaking;
        Watts {
            cpu: with_leakage(fixed.cpu, leaking.cpu),
            gpu: with_leakage(fixed.gpu, leaking.gpu),
            soc: with_leakage(fixed.soc, leaking.soc),
            dram: with_leakage(fixed.dram, leaking.dram),
            system: with_leakage(fixed.system, leaking.system),
        }
    }
}
