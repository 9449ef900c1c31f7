//! All clocks of a board: requested by settings, load and temperature, and effective.

use std::time::Duration;

use wattgate_board_tables::Board;

use super::clock::{CPU_DELAY, Clock, EMC_DELAY, GPU_DELAY};
use super::settings::{Governor, Settings, ends};
use super::thermal::Caps;
use crate::pipeline::{Clocks, Luck, Pipeline};
use crate::workload::Workload;

/// The load up to which the GPU's governor lowers its clock: `load_target` of nvhost_podgov, 700 of 1,000
/// (L4T's governor_pod_scaling.c).
const GPU_TARGET: f64 = 0.7;

/// The clocks of the clusters, of the GPU and of the memory.
#[derive(Clone, Debug)]
pub struct ClockTree {
    /// CPU clock of each cluster.
    pub cpu: Vec<Clock>,
    pub gpu: Clock,
    pub emc: Clock,
}

/// What has a clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockDomain {
    Cpu,
    Gpu,
    Memory,
}

impl ClockTree {
    /// Sets the delay of a domain's later requests.
    pub fn set_delay(&mut self, domain: ClockDomain, delay: Duration) {
        match domain {
            ClockDomain::Cpu => self.cpu.iter_mut().for_each(|clock| clock.set_delay(delay)),
            ClockDomain::Gpu => self.gpu.set_delay(delay),
            ClockDomain::Memory => self.emc.set_delay(delay),
        }
    }

    /// All clocks at their lowest.
    pub fn new(board: &Board) -> Self {
        let lowest = |table: &[u32], delay| Clock::new(ends(table).0, delay);
        Self {
            cpu: vec![lowest(&board.cpu_khz, CPU_DELAY); board.clusters.len()],
            gpu: lowest(&board.gpu_khz, GPU_DELAY),
            emc: lowest(&board.emc_khz, EMC_DELAY),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Clock> {
        self.cpu.iter().chain([&self.gpu, &self.emc])
    }

    /// When the next request takes effect.
    pub fn due(&self) -> Option<Duration> {
        self.all().filter_map(Clock::due).min()
    }

    /// Applies all requests that are due. Returns whether any was.
    pub fn follow(&mut self, now: Duration) -> bool {
        let mut changed = false;
        for clock in self.cpu.iter_mut().chain([&mut self.gpu, &mut self.emc]) {
            changed |= clock.follow(now);
        }
        changed
    }

    /// Applies all requests that were made at time zero.
    pub fn settle(&mut self) {
        self.follow(CPU_DELAY.max(GPU_DELAY).max(EMC_DELAY));
    }

    /// Requests the clocks that follow from settings, load and temperature. `processes` is the
    /// number of processes of the workload, 0 without one; cooling caps the clocks at `caps`.
    /// The GPU's clock follows the load of `workload`, as it settles; without it, it is at the
    /// maximum while there are processes.
    pub fn request(
        &mut self,
        now: Duration,
        board: &Board,
        settings: &Settings,
        (processes, workload): (usize, Option<&Workload>),
        caps: Caps,
    ) {
        // A whole cluster runs at the highest request of its cores (section 1).
        let mut wanted = vec![ends(&board.cpu_khz).0; self.cpu.len()];
        for (at, (_, cluster)) in online(board, settings).enumerate() {
            let policy = settings.policies[cluster];
            let khz = match policy.governor {
                Governor::Performance => policy.max_khz,
                Governor::Userspace => policy.setspeed_khz.clamp(policy.min_khz, policy.max_khz),
                Governor::Schedutil if at < processes => policy.max_khz,
                Governor::Schedutil => policy.min_khz,
            };
            wanted[cluster] = wanted[cluster].max(khz);
        }
        let busy = processes > 0;
        let mut gpu = if busy || settings.gpu.performance {
            settings.gpu.max_khz
        } else {
            settings.gpu.min_khz
        };
        let ceiling = settings.emc_ceiling_khz(board);
        let emc = match (settings.emc.locked, busy) {
            (true, _) => settings.emc.rate_khz.unwrap_or(self.emc.requested()),
            (false, true) => ceiling,
            (false, false) => ends(&board.emc_khz).0,
        };
        let limits = settings.gpu;
        if let Some(workload) = workload
            && !limits.performance
        {
            // The lowest clock at which the load is within the target.
            let clocks = self.true_clocks(board, settings, processes, 1);
            let cores = online(board, settings).take(processes);
            let used: Vec<f64> = cores.map(|(_, it)| f64::from(wanted[it]) / 1e6).collect();
            let is_enough = |khz: &u32| {
                let clocks = Clocks {
                    cpu_ghz: used.iter().sum::<f64>() / used.len().max(1) as f64,
                    gpu_ghz: f64::from(*khz) / 1e6,
                    emc_ghz: f64::from(emc.min(ceiling)) / 1e6,
                    ..clocks
                };
                let step = Pipeline::new(board, workload, clocks).step(None, &Luck::NONE);
                step.gpu_busy <= GPU_TARGET * step.period
            };
            let between = |khz: &u32| (limits.min_khz..limits.max_khz).contains(khz);
            let mut enough = board.gpu_khz.iter().copied().filter(between);
            gpu = enough.find(is_enough).unwrap_or(limits.max_khz);
        }
        for (clock, khz) in self.cpu.iter_mut().zip(wanted) {
            clock.request(now, khz.min(caps.cpu_khz));
        }
        self.gpu.request(now, gpu.min(caps.gpu_khz));
        self.emc.request(now, emc.min(ceiling));
    }

    /// The clocks as the pipeline takes them, with CPU and GPU divided by `divisor`. The CPU clock
    /// is the mean over the cores with a process.
    pub fn true_clocks(
        &self,
        board: &Board,
        settings: &Settings,
        processes: usize,
        divisor: u32,
    ) -> Clocks {
        let ghz = |khz: u32| f64::from(khz) / 1e6;
        let (mut cores, mut busy, mut sum) = (0_usize, 0_usize, 0.0);
        let mut awake = vec![false; self.cpu.len()];
        for (_, cluster) in online(board, settings) {
            if cores < processes.max(1) {
                busy += 1;
                sum += ghz(self.cpu[cluster].khz / divisor);
            }
            cores += 1;
            awake[cluster] = true;
        }
        Clocks {
            cores: cores as f64,
            cpu_ghz: sum / busy as f64,
            gpu_ghz: ghz(self.gpu.khz / divisor),
            emc_ghz: ghz(self.emc.khz),
            tpcs: board.powered_tpcs(settings.tpc_pg_mask),
            clusters: awake.iter().filter(|awake| **awake).count() as f64,
        }
    }
}

/// The online cores in the order in which processes occupy them, each with its cluster.
fn online<'a>(board: &'a Board, settings: &'a Settings) -> impl Iterator<Item = (u32, usize)> + 'a {
    let online = |core: &&u32| settings.online[**core as usize];
    let cluster = |core: u32| {
        let has = |cores: &Vec<u32>| cores.contains(&core);
        board.clusters.iter().position(has).expect("a cluster")
    };
    let cores = board.core_order.iter().filter(online);
    cores.map(move |&core| (core, cluster(core)))
}
