//! Boards: tables, clusters, rails, modes and the constants of their physics.
//!
//! A board is a file in `boards/`. Tables, rails and modes in it are facts with sources;
//! the constants of the physics are chosen so that the simulated board meets published
//! measurements, and are no facts about silicon. What is UNKNOWN of a board stands in the
//! file as such, and such a board is refused.
#![forbid(unsafe_code)]

use serde::Deserialize;
use thiserror::Error;

/// All boards by name.
const FILES: [(&str, &str); 16] = [
    ("orin-agx-64", include_str!("../boards/orin-agx-64.toml")),
    (
        "orin-agx-64-jp6",
        include_str!("../boards/orin-agx-64-jp6.toml"),
    ),
    ("orin-agx-32", include_str!("../boards/orin-agx-32.toml")),
    ("orin-nx-16", include_str!("../boards/orin-nx-16.toml")),
    (
        "orin-nx-16-super",
        include_str!("../boards/orin-nx-16-super.toml"),
    ),
    ("orin-nx-8", include_str!("../boards/orin-nx-8.toml")),
    (
        "orin-nx-8-super",
        include_str!("../boards/orin-nx-8-super.toml"),
    ),
    ("orin-nano-8", include_str!("../boards/orin-nano-8.toml")),
    (
        "orin-nano-8-super",
        include_str!("../boards/orin-nano-8-super.toml"),
    ),
    ("orin-nano-4", include_str!("../boards/orin-nano-4.toml")),
    (
        "orin-nano-4-super",
        include_str!("../boards/orin-nano-4-super.toml"),
    ),
    ("xavier-agx", include_str!("../boards/xavier-agx.toml")),
    ("xavier-nx", include_str!("../boards/xavier-nx.toml")),
    ("tx2", include_str!("../boards/tx2.toml")),
    ("tx1", include_str!("../boards/tx1.toml")),
    ("nano", include_str!("../boards/nano.toml")),
];

/// Why there is no such board.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BoardError {
    /// No file of this name.
    #[error("unknown board `{name}`; there are {}", names().join(", "))]
    NoSuchBoard { name: String },
    /// A real board whose tables nobody has published.
    #[error("`{name}` cannot be simulated: UNKNOWN is {}", what.join(", "))]
    Unknown { name: String, what: Vec<String> },
}

/// The names of all boards, those that cannot be simulated included.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// A board as it is built; no unit of it differs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// As on the command line and in the column `device` of a corpus.
    #[serde(skip)]
    pub name: String,
    /// The board whose physics, rails and TPCs this one has.
    #[serde(default)]
    pub like: Option<String>,
    /// What is UNKNOWN; empty where the board can be simulated.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// The text of `/proc/device-tree/model`.
    #[serde(default)]
    pub model: String,
    /// The texts of `/proc/device-tree/compatible`.
    #[serde(default)]
    pub compatible: Vec<String>,
    /// The chip, such as `tegra234`.
    pub soc: String,
    /// Release and revision of L4T, such as 35 and `1.0`.
    #[serde(default)]
    pub l4t: Option<(u32, String)>,
    /// Cores of each cluster, in the order of their cpufreq policies.
    pub clusters: Vec<Vec<u32>>,
    /// Cores in the order in which `cores = N` counts them as online.
    pub core_order: Vec<u32>,
    /// CPU clocks in kHz, ascending.
    #[serde(default)]
    pub cpu_khz: Vec<u32>,
    /// GPU clocks in kHz, ascending.
    #[serde(default)]
    pub gpu_khz: Vec<u32>,
    /// Memory clocks in kHz, ascending.
    #[serde(default)]
    pub emc_khz: Vec<u32>,
    /// Units of the GPU that the TPC mask gates.
    #[serde(default)]
    pub tpcs: u32,
    /// What the papers profiled of this board.
    #[serde(default)]
    pub papers: Option<Papers>,
    /// The modes of nvpmodel.
    pub modes: Vec<Preset>,
    /// Constants of the physics.
    #[serde(default)]
    pub physics: Option<Physics>,
    /// Power sensors.
    #[serde(default)]
    pub rails: Vec<Rail>,
    /// Limits of the over-current protection.
    #[serde(default)]
    pub over_current: OverCurrent,
}

/// The modes that the papers profiled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Papers {
    /// Online cores; empty where the papers took modes at random.
    #[serde(default)]
    pub cores: Vec<u32>,
    /// CPU clocks in kHz.
    #[serde(default)]
    pub cpu_khz: Vec<u32>,
    /// Their number where they were taken at random from the whole grid.
    #[serde(default)]
    pub random: Option<usize>,
}

/// A mode of nvpmodel. Clocks are caps in kHz, none where there is no cap.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// As nvpmodel knows it.
    pub id: u32,
    /// Such as `MODE_30W`.
    pub name: String,
    /// Watts in the name, where there are any.
    #[serde(default)]
    pub budget_w: Option<f64>,
    /// The mode of a board that was never set to another.
    #[serde(default)]
    pub default: bool,
    /// Online cores.
    pub cores: Vec<u32>,
    /// Caps of the clusters with online cores, in kHz.
    #[serde(default)]
    pub cpu_khz: Option<u32>,
    /// The least clock of these clusters in kHz.
    #[serde(default)]
    pub cpu_min_khz: Option<u32>,
    /// GPU cap in kHz.
    #[serde(default)]
    pub gpu_khz: Option<u32>,
    /// Memory cap in kHz.
    #[serde(default)]
    pub emc_khz: Option<u32>,
    /// A set bit gates a TPC.
    #[serde(default)]
    pub tpc_pg_mask: Option<u32>,
    /// A set bit gates an FBP.
    #[serde(default)]
    pub fbp_pg_mask: Option<u32>,
}

/// Constants of the physics.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Physics {
    pub cpu: Cpu,
    pub gpu: Gpu,
    pub memory: Memory,
    pub idle: Idle,
    pub thermal: Thermal,
}

/// Voltage over frequency: constant up to a knee, then rising as a power of the way from the
/// knee to the highest clock.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volts {
    /// In V.
    pub floor: f64,
    /// In V, at the highest clock of the table.
    pub top: f64,
    /// Where the rise begins, in GHz.
    pub knee_ghz: f64,
    /// The power.
    pub exponent: f64,
}

impl Volts {
    /// The voltage at a clock, where `top_ghz` is the highest of its table.
    pub fn at(&self, ghz: f64, top_ghz: f64) -> f64 {
        let way = ((ghz - self.knee_ghz) / (top_ghz - self.knee_ghz)).clamp(0.0, 1.0);
        self.floor + (self.top - self.floor) * way.powf(self.exponent)
    }
}

/// The cores.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Work in a cycle, that of a Cortex-A78AE being 1.
    pub work_per_cycle: f64,
    pub volts: Volts,
    /// Switched capacitance of a busy core in nF.
    pub core_nf: f64,
    /// Of each cluster with an online core.
    pub cluster_nf: f64,
    /// Leakage of an online core in W, at 1 V and 40 °C.
    pub leak_w: f64,
}

/// The GPU.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Floating-point operations in a cycle of all TPCs.
    pub flop_per_cycle: f64,
    /// Thread blocks that run at once.
    pub blocks: f64,
    /// Bytes in flight to memory at most, in KiB.
    pub in_flight_kib: f64,
    /// Of a memory access, in cycles of the GPU.
    pub latency_cycles: f64,
    /// From the end of a kernel to the next one's work, in cycles.
    pub ramp_cycles: f64,
    /// From the end of the last kernel to its results in memory, in cycles.
    pub flush_cycles: f64,
    /// What a submission costs the driver when it finds the GPU's engines gated, in µs.
    pub wake_us: f64,
    /// Idle time after which they are gated, in µs.
    pub gate_us: f64,
    pub volts: Volts,
    /// Capacitance of clocks while work is there, in nF.
    pub clock_nf: f64,
    /// Of clocks without work, in nF.
    pub idle_nf: f64,
    /// Energy of an operation in pJ at 1 V.
    pub flop_pj: f64,
    /// Energy of a byte moved through the caches in pJ at 1 V.
    pub byte_pj: f64,
    /// Leakage in W, at 1 V and 40 °C.
    pub leak_w: f64,
}

/// DRAM and its controller.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Bytes moved in a cycle of the memory clock.
    pub bytes_per_cycle: f64,
    /// The part of it that is reached.
    pub efficiency: f64,
    /// Latency of an access in ns, without the part below.
    pub latency_ns: f64,
    /// The part of the latency that is cycles of the memory clock.
    pub latency_cycles: f64,
    pub volts: Volts,
    /// Capacitance of controller and fabric in nF.
    pub controller_nf: f64,
    /// Power of the interface and of the DRAM in W at the highest clock, without traffic.
    pub standby_w: f64,
    /// Energy of a byte to and from the DRAM in pJ.
    pub byte_pj: f64,
}

/// What is drawn whatever the mode, in W at 40 °C.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// Fabric and engines that never sleep.
    pub soc_w: f64,
    /// Regulators and everything else of the module.
    pub system_w: f64,
    /// Self-refresh of the DRAM.
    pub dram_w: f64,
}

/// Heat.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thermal {
    /// From die to heat sink, in K/W.
    pub die_k_per_w: f64,
    /// Heat capacity of the die in J/K.
    pub die_j_per_k: f64,
    /// From heat sink to air, fan at rest, in K/W.
    pub sink_k_per_w: f64,
    /// The same with the fan at its highest speed.
    pub sink_fan_k_per_w: f64,
    /// Heat capacity of the heat sink in J/K.
    pub sink_j_per_k: f64,
}

/// A domain of power.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Domain {
    Cpu,
    Gpu,
    Soc,
    Dram,
    System,
}

/// A channel of a power sensor.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rail {
    /// Such as `VDD_IN`.
    pub label: String,
    /// I²C bus and address of the sensor, such as `1-0040`.
    pub chip: String,
    /// 1 … 3.
    pub channel: u32,
    /// In mV.
    pub millivolts: f64,
    /// Shunt in mΩ; where it is UNKNOWN, one that gives 8 mA a step is taken.
    #[serde(default)]
    pub shunt_mohm: Option<f64>,
    /// What it feeds.
    pub domains: Vec<Domain>,
    /// Counts towards the module's power.
    #[serde(default)]
    pub total: bool,
}

/// Limits of the over-current protection, in mA of the first channel.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OverCurrent {
    #[serde(default)]
    pub warn_ma: Option<f64>,
    #[serde(default)]
    pub crit_ma: Option<f64>,
    /// Limit on the sum of the currents.
    #[serde(default)]
    pub sum_crit_ma: Option<f64>,
    /// Events a second of the instantaneous protection with every clock at its highest.
    #[serde(default)]
    pub events_per_s: f64,
}

impl Board {
    /// The board of this name, if it can be simulated.
    pub fn named(name: &str) -> Result<Self, BoardError> {
        let board = Self::described(name)?;
        if board.unknown.is_empty() {
            Ok(board)
        } else {
            Err(BoardError::Unknown {
                name: name.to_owned(),
                what: board.unknown,
            })
        }
    }

    /// The same with boards of which only cores and modes are known.
    pub fn described(name: &str) -> Result<Self, BoardError> {
        let (_, text) = FILES
            .iter()
            .find(|(known, _)| *known == name)
            .ok_or_else(|| BoardError::NoSuchBoard {
                name: name.to_owned(),
            })?;
        let mut board: Self = toml::from_str(text).expect("a test reads all boards");
        board.name = name.to_owned();
        if let Some(like) = &board.like {
            let other = Self::described(like)?;
            board.physics = other.physics;
            board.rails = other.rails;
            board.tpcs = other.tpcs;
        }
        Ok(board)
    }

    /// The number of cores.
    pub fn cores(&self) -> u32 {
        self.core_order.len() as u32
    }

    /// The chip that measures each rail, by its number in the order of their first rails.
    pub fn chip_of(&self) -> Vec<usize> {
        let mut chips: Vec<&str> = Vec::new();
        let mut numbers = Vec::with_capacity(self.rails.len());
        for rail in &self.rails {
            if !chips.contains(&rail.chip.as_str()) {
                chips.push(&rail.chip);
            }
            numbers.extend(chips.iter().position(|chip| *chip == rail.chip));
        }
        numbers
    }

    /// The constants; only of a board that can be simulated.
    pub fn physics(&self) -> &Physics {
        self.physics
            .as_ref()
            .expect("a board that can be simulated")
    }

    /// The four knobs' tables: online cores, CPU, GPU and memory clock in kHz.
    pub fn axes(&self) -> [Vec<u32>; 4] {
        [
            (1..=self.cores()).collect(),
            self.cpu_khz.clone(),
            self.gpu_khz.clone(),
            self.emc_khz.clone(),
        ]
    }

    /// The mode with every clock at its highest.
    pub fn maxn(&self) -> [u32; 4] {
        self.axes().map(|axis| *axis.last().expect("a table"))
    }

    /// The modes that the papers profiled; empty where they took them at random.
    pub fn papers_modes(&self) -> Vec<[u32; 4]> {
        let Some(papers) = &self.papers else {
            return Vec::new();
        };
        let axes = [&papers.cores, &papers.cpu_khz, &self.gpu_khz, &self.emc_khz];
        modes_of(axes.map(Vec::as_slice))
    }

    /// Every mode.
    pub fn all_modes(&self) -> Vec<[u32; 4]> {
        let axes = self.axes();
        modes_of([&axes[0], &axes[1], &axes[2], &axes[3]])
    }

    /// The part of the TPCs that a mask leaves powered. Masks of the small boards name TPCs that
    /// are not built as well.
    pub fn powered_tpcs(&self, mask: Option<u32>) -> f64 {
        let built = (1_u32 << self.tpcs) - 1;
        let gated = (mask.unwrap_or(0) & built).count_ones();
        f64::from(self.tpcs - gated) / f64::from(self.tpcs)
    }

    /// A mode of nvpmodel as knobs: the highest clocks within its caps.
    pub fn knobs_of(&self, preset: &Preset) -> [u32; 4] {
        let within = |axis: &[u32], cap: Option<u32>| {
            let below = axis.partition_point(|&value| cap.is_none_or(|cap| value <= cap));
            axis[below.saturating_sub(1)]
        };
        [
            preset.cores.len() as u32,
            within(&self.cpu_khz, preset.cpu_khz),
            within(&self.gpu_khz, preset.gpu_khz),
            within(&self.emc_khz, preset.emc_khz),
        ]
    }
}

/// All combinations of the values of four axes.
fn modes_of([cores, cpu, gpu, emc]: [&[u32]; 4]) -> Vec<[u32; 4]> {
    let mut modes = Vec::with_capacity(cores.len() * cpu.len() * gpu.len() * emc.len());
    for &cores in cores {
        for &cpu in cpu {
            for &gpu in gpu {
                modes.extend(emc.iter().map(|&emc| [cores, cpu, gpu, emc]));
            }
        }
    }
    modes
}
