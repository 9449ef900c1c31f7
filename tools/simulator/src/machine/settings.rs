//! Settings that software requests: cores, clocks, masks and fan, as values of the board's tables.

use wattgate_board_tables::{Board, Preset};

/// cpufreq governor: chooses the clock between minimum and maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Governor {
    /// The maximum for a cluster with a runnable process, otherwise the minimum. Assumed: the real
    /// governor follows the load, but a process that runs in bursts soon has the maximum.
    Schedutil,
    /// The maximum.
    Performance,
    /// The clock that was written to `scaling_setspeed`.
    Userspace,
}

/// Requested settings of a cluster. Clocks in kHz, of the board's table, min ≤ max.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    pub min_khz: u32,
    pub max_khz: u32,
    pub governor: Governor,
    pub setspeed_khz: u32,
}

/// Requested settings of the GPU. Clocks in kHz, of the board's table, min ≤ max.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gpu {
    pub min_khz: u32,
    pub max_khz: u32,
    /// Whether the performance governor is set: always the maximum clock. Otherwise without load the
    /// minimum, and under load the maximum, or a clock that [follows it](super::Jetson::follow_load).
    pub performance: bool,
    /// Whether the rail may be power-gated without load.
    pub railgate: bool,
    /// Whether `power/control` is `on`.
    pub always_on: bool,
}

/// Requested settings of the memory. Clocks in kHz, of the board's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Emc {
    /// Whether the rate is held. Otherwise the bandwidth manager takes the ceiling under load and
    /// the lowest rate without (assumed).
    pub locked: bool,
    /// The rate that a lock holds; `None` holds the rate at the time of the lock.
    pub rate_khz: Option<u32>,
    /// nvpmodel's ceiling.
    pub cap_khz: Option<u32>,
}

/// All requested settings of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Whether each core is online.
    pub online: Vec<bool>,
    /// Settings of each cluster.
    pub policies: Vec<Policy>,
    pub gpu: Gpu,
    pub emc: Emc,
    /// A set bit gates a TPC; none on boards without the file.
    pub tpc_pg_mask: Option<u32>,
    /// A set bit gates an FBP; none on boards without the file.
    pub fbp_pg_mask: Option<u32>,
    /// The fan speed, of 255; `None` lets the temperature decide.
    pub fan_pwm: Option<u8>,
}

impl Settings {
    /// The settings after a boot in a mode of nvpmodel.
    pub fn after_boot(board: &Board, mode: &Preset) -> Self {
        let (least, most) = ends(&board.cpu_khz);
        let (gpu_least, gpu_most) = ends(&board.gpu_khz);
        let mut settings = Self {
            online: vec![true; board.core_order.len()],
            policies: vec![
                Policy {
                    min_khz: least,
                    max_khz: most,
                    governor: Governor::Schedutil,
                    setspeed_khz: least,
                };
                board.clusters.len()
            ],
            gpu: Gpu {
                min_khz: gpu_least,
                max_khz: gpu_most,
                performance: false,
                railgate: true,
                always_on: false,
            },
            emc: Emc {
                locked: false,
                rate_khz: None,
                cap_khz: None,
            },
            tpc_pg_mask: mode.tpc_pg_mask,
            fbp_pg_mask: mode.fbp_pg_mask,
            fan_pwm: None,
        };
        settings.enter(board, mode);
        settings
    }

    /// Applies a mode of nvpmodel: cores, minima, maxima and the memory's ceiling. Masks
    /// and settings without a line in nvpmodel's configuration stay.
    pub fn enter(&mut self, board: &Board, mode: &Preset) {
        for (core, online) in self.online.iter_mut().enumerate() {
            *online = mode.cores.contains(&(core as u32));
        }
        let capped = |table: &[u32], cap: Option<u32>| {
            cap.map_or(ends(table).1, |khz| rounded(table, khz.into()))
        };
        let min_khz = rounded(&board.cpu_khz, mode.cpu_min_khz.unwrap_or(0).into());
        for (policy, cores) in self.policies.iter_mut().zip(&board.clusters) {
            if cores.iter().any(|core| mode.cores.contains(core)) {
                policy.max_khz = capped(&board.cpu_khz, mode.cpu_khz);
                policy.min_khz = min_khz.min(policy.max_khz);
            }
        }
        self.gpu.min_khz = ends(&board.gpu_khz).0;
        self.gpu.max_khz = capped(&board.gpu_khz, mode.gpu_khz);
        self.emc.cap_khz = mode.emc_khz.map(|khz| rounded(&board.emc_khz, khz.into()));
    }

    /// Fixes a power mode: cores online in the board's order, and every clock at a single value.
    pub fn pin(&mut self, board: &Board, [cores, cpu_khz, gpu_khz, emc_khz]: [u32; 4]) {
        let awake = &board.core_order[..cores as usize];
        for (core, online) in self.online.iter_mut().enumerate() {
            *online = awake.contains(&(core as u32));
        }
        for policy in &mut self.policies {
            (policy.min_khz, policy.max_khz) = (cpu_khz, cpu_khz);
        }
        (self.gpu.min_khz, self.gpu.max_khz) = (gpu_khz, gpu_khz);
        self.emc = Emc {
            locked: true,
            rate_khz: Some(emc_khz),
            cap_khz: None,
        };
    }

    /// The highest memory clock under the cap, in kHz.
    pub fn emc_ceiling_khz(&self, board: &Board) -> u32 {
        let top = ends(&board.emc_khz).1;
        self.emc.cap_khz.map_or(top, |cap| cap.min(top))
    }
}

/// The lowest and the highest clock of a table.
pub fn ends(table: &[u32]) -> (u32, u32) {
    (table[0], *table.last().expect("a table"))
}

/// The clock of a table that is nearest to `khz` (section 4 and addendum), the lower one of two.
pub fn rounded(table: &[u32], khz: u64) -> u32 {
    let off = |clock: &&u32| u64::from(**clock).abs_diff(khz);
    *table.iter().min_by_key(off).expect("a table")
}
