//! Descriptions of boards: clock tables, clusters, power rails, nvpmodel modes, and the constants
//! of the simulator's physics.
//!
//! Each board is a file in `boards/`. Tables, rails and modes are facts with sources. The constants
//! of the physics are fitted so that the simulated board meets published measurements; they are not
//! facts about the silicon. A file lists what is UNKNOWN about its board; such a board cannot be
//! simulated.
#![forbid(unsafe_code)]

use serde::Deserialize;
use thiserror::Error;

/// All boards by name.
const FILES: [(&str, &str); 19] = [
    ("orin-agx-64", include_str!("../boards/orin-agx-64.toml")),
    (
        "orin-agx-64-jp6",
        include_str!("../boards/orin-agx-64-jp6.toml"),
    ),
    (
        "orin-agx-64-jp7",
        include_str!("../boards/orin-agx-64-jp7.toml"),
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
    (
        "orin-nano-8-super-jp7",
        include_str!("../boards/orin-nano-8-super-jp7.toml"),
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
    ("thor-t5000", include_str!("../boards/thor-t5000.toml")),
];

/// Why a board cannot be loaded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum BoardError {
    /// No board has this name.
    #[error("unknown board `{name}`; there are {}", names().join(", "))]
    NoSuchBoard { name: String },
    /// A real board whose tables are not published.
    #[error("`{name}` cannot be simulated, because these are not published of it: {}; name another board", what.join(", "))]
    Unknown { name: String, what: Vec<String> },
}

/// The names of all boards, including those that cannot be simulated.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// The nominal description of a board, without differences between units.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Board {
    /// The name on the command line and in the column `device` of a corpus.
    #[serde(skip)]
    pub name: String,
    /// The board from which this board takes its physics, number of TPCs and memory, and its rails if it has none of
    /// its own.
    #[serde(default)]
    pub like: Option<String>,
    /// The facts that are UNKNOWN; empty if the board can be simulated.
    #[serde(default)]
    pub unknown: Vec<String>,
    /// Contents of `/proc/device-tree/model`.
    #[serde(default)]
    pub model: String,
    /// Strings of `/proc/device-tree/compatible`.
    #[serde(default)]
    pub compatible: Vec<String>,
    /// The chip, such as `tegra234`.
    pub soc: String,
    /// Release and revision of L4T, such as 35 and `1.0`.
    #[serde(default)]
    pub l4t: Option<(u32, String)>,
    /// Cores of each cluster, in the order of their cpufreq policies.
    pub clusters: Vec<Vec<u32>>,
    /// Core numbers in the order in which they come online: `cores = N` means the first N.
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
    /// Number of TPCs of the GPU; the TPC mask power-gates them.
    #[serde(default)]
    pub tpcs: u32,
    /// Memory that CPU and GPU share, in GiB: the size that the module is sold with.
    #[serde(default)]
    pub ram_gib: Option<u32>,
    /// The modes of this board that the papers profiled.
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
    /// Of a recorded board, which has the clocks of a corpus and plays back what a real board did: the numbers of online
    /// cores in the corpus. Empty of a simulated board.
    #[serde(skip)]
    pub recorded_cores: Vec<u32>,
}

/// The modes that the papers profiled.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Papers {
    /// Online cores; empty if the papers sampled modes at random.
    #[serde(default)]
    pub cores: Vec<u32>,
    /// CPU clocks in kHz.
    #[serde(default)]
    pub cpu_khz: Vec<u32>,
    /// Number of modes, if the papers sampled them at random from the whole grid.
    #[serde(default)]
    pub random: Option<usize>,
}

/// A mode of nvpmodel. Clocks are caps in kHz; `None` means no cap.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preset {
    /// The ID in nvpmodel.
    pub id: u32,
    /// The name, such as `MODE_30W`.
    pub name: String,
    /// The watts in the name, if it has any.
    #[serde(default)]
    pub budget_w: Option<f64>,
    /// Whether this is the factory default.
    #[serde(default)]
    pub default: bool,
    /// Online cores.
    pub cores: Vec<u32>,
    /// CPU cap of the clusters with online cores, in kHz.
    #[serde(default)]
    pub cpu_khz: Option<u32>,
    /// Minimum CPU clock of these clusters in kHz.
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

/// Voltage over frequency: constant up to a knee, then `floor + (top - floor) · x^exponent`, where
/// x goes from 0 at the knee to 1 at the highest clock.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Volts {
    /// Voltage up to the knee, in V.
    pub floor: f64,
    /// Voltage at the highest clock of the table, in V.
    pub top: f64,
    /// Frequency of the knee in GHz.
    pub knee_ghz: f64,
    /// Exponent of the rise.
    pub exponent: f64,
}

impl Volts {
    /// The voltage in V at a clock; `top_ghz` is the highest clock of the table.
    pub fn at(&self, ghz: f64, top_ghz: f64) -> f64 {
        let way = ((ghz - self.knee_ghz) / (top_ghz - self.knee_ghz)).clamp(0.0, 1.0);
        self.floor + (self.top - self.floor) * way.powf(self.exponent)
    }
}

/// Constants of the CPU.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cpu {
    /// Work per cycle, relative to a Cortex-A78AE.
    pub work_per_cycle: f64,
    pub volts: Volts,
    /// Switched capacitance of a busy core in nF.
    pub core_nf: f64,
    /// Switched capacitance of a cluster with an online core in nF.
    pub cluster_nf: f64,
    /// Leakage of an online core in W, at 1 V and 40 °C.
    pub leak_w: f64,
}

/// Constants of the GPU.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Floating-point operations per cycle of all TPCs together.
    pub flop_per_cycle: f64,
    /// Maximum number of resident thread blocks.
    pub blocks: f64,
    /// Maximum amount of memory traffic in flight, in KiB.
    pub in_flight_kib: f64,
    /// Part of the memory latency that scales with the GPU clock, in GPU cycles.
    pub latency_cycles: f64,
    /// Time from the end of a kernel to the start of the next one's work, in GPU cycles.
    pub ramp_cycles: f64,
    /// Time from the end of the last kernel until its results are in memory, in GPU cycles.
    pub flush_cycles: f64,
    /// Extra driver time of a submission to power-gated engines, in µs.
    pub wake_us: f64,
    /// Idle time until the engines are power-gated, in µs.
    pub gate_us: f64,
    pub volts: Volts,
    /// Switched capacitance of the clock tree under load, in nF.
    pub clock_nf: f64,
    /// Switched capacitance of the clock tree when idle, in nF.
    pub idle_nf: f64,
    /// Energy of a floating-point operation in pJ at 1 V.
    pub flop_pj: f64,
    /// Energy of a byte moved through the caches in pJ at 1 V.
    pub byte_pj: f64,
    /// Leakage in W, at 1 V and 40 °C.
    pub leak_w: f64,
}

/// Constants of the DRAM and its controller.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Peak bytes per cycle of the memory clock.
    pub bytes_per_cycle: f64,
    /// Achieved share of the peak bandwidth.
    pub efficiency: f64,
    /// Constant part of the access latency in ns.
    pub latency_ns: f64,
    /// Part of the access latency that scales with the memory clock, in its cycles.
    pub latency_cycles: f64,
    pub volts: Volts,
    /// Switched capacitance of controller and fabric in nF.
    pub controller_nf: f64,
    /// Power of the interface and of the DRAM in W at the highest clock, without traffic.
    pub standby_w: f64,
    /// Energy of a byte of DRAM traffic in pJ.
    pub byte_pj: f64,
}

/// Power that does not depend on the mode, in W at 40 °C.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Idle {
    /// Fabric and always-on engines.
    pub soc_w: f64,
    /// Regulators and the rest of the module.
    pub system_w: f64,
    /// Self-refresh of the DRAM.
    pub dram_w: f64,
}

/// Constants of the thermal model: die, heat sink, air.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thermal {
    /// Thermal resistance from die to heat sink in K/W.
    pub die_k_per_w: f64,
    /// Heat capacity of the die in J/K.
    pub die_j_per_k: f64,
    /// Thermal resistance from heat sink to air in K/W, with the fan off.
    pub sink_k_per_w: f64,
    /// Thermal resistance from heat sink to air in K/W, with the fan at full speed.
    pub sink_fan_k_per_w: f64,
    /// Heat capacity of the heat sink in J/K.
    pub sink_j_per_k: f64,
}

/// A power domain.
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
    /// The label in sysfs, such as `VDD_IN`.
    pub label: String,
    /// I²C bus and address of the sensor, such as `1-0040`.
    pub chip: String,
    /// The sensor's channel, 1 to 3.
    pub channel: u32,
    /// Voltage of the rail in mV.
    pub millivolts: f64,
    /// Shunt in mΩ; if UNKNOWN, the simulator uses a shunt with a resolution of 8 mA.
    #[serde(default)]
    pub shunt_mohm: Option<f64>,
    /// The power domains that the rail feeds.
    pub domains: Vec<Domain>,
    /// Whether the rail counts towards the module's power.
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
    /// Events per second of the instantaneous protection with all clocks at their maximum.
    #[serde(default)]
    pub events_per_s: f64,
}

impl Board {
    /// The release of L4T, such as 35; 35, that of JetPack 5, if none is given.
    pub fn release(&self) -> u32 {
        self.l4t.as_ref().map_or(35, |(release, _)| *release)
    }

    /// Loads a board that can be simulated.
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

    /// Loads a board, even if only its cores and modes are known.
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
            if board.rails.is_empty() {
                board.rails = other.rails;
            }
            board.tpcs = other.tpcs;
            board.ram_gib = other.ram_gib;
        }
        Ok(board)
    }

    /// Whether the board plays back what a real one did.
    pub fn is_recorded(&self) -> bool {
        !self.recorded_cores.is_empty()
    }

    /// What figures of this board are: recorded or simulated.
    pub fn figures(&self) -> &'static str {
        match self.is_recorded() {
            true => "recorded",
            false => "simulated",
        }
    }

    /// The number of cores.
    pub fn cores(&self) -> u32 {
        self.core_order.len() as u32
    }

    /// For each rail, the index of its sensor chip; chips are numbered by first appearance.
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

    /// The constants of the physics. Panics if the board cannot be simulated.
    pub fn physics(&self) -> &Physics {
        self.physics
            .as_ref()
            .expect("a board that can be simulated")
    }

    /// The values of the four knobs: online cores, and CPU, GPU and memory clock in kHz.
    pub fn axes(&self) -> [Vec<u32>; 4] {
        let cores = match self.is_recorded() {
            true => self.recorded_cores.clone(),
            false => (1..=self.cores()).collect(),
        };
        [
            cores,
            self.cpu_khz.clone(),
            self.gpu_khz.clone(),
            self.emc_khz.clone(),
        ]
    }

    /// The mode with all cores and all clocks at their maximum.
    pub fn maxn(&self) -> [u32; 4] {
        self.axes().map(|axis| *axis.last().expect("a table"))
    }

    /// The modes that the papers profiled; empty if they sampled modes at random.
    pub fn papers_modes(&self) -> Vec<[u32; 4]> {
        let Some(papers) = &self.papers else {
            return Vec::new();
        };
        let axes = [&papers.cores, &papers.cpu_khz, &self.gpu_khz, &self.emc_khz];
        modes_of(axes.map(Vec::as_slice))
    }

    /// All combinations of the four knobs' values.
    pub fn all_modes(&self) -> Vec<[u32; 4]> {
        let axes = self.axes();
        modes_of([&axes[0], &axes[1], &axes[2], &axes[3]])
    }

    /// The share of the TPCs that a mask leaves powered, 0 to 1. Masks of small boards also have
    /// bits for TPCs that the board lacks; these are ignored.
    pub fn powered_tpcs(&self, mask: Option<u32>) -> f64 {
        f64::from(self.tpcs - self.tpcs_gated(mask)) / f64::from(self.tpcs)
    }

    fn tpcs_gated(&self, mask: Option<u32>) -> u32 {
        let built = (1_u32 << self.tpcs) - 1;
        (mask.unwrap_or(0) & built).count_ones()
    }

    /// The nvpmodel mode that gates the fewest TPCs: the default one if no other gates fewer.
    pub fn ungated(&self) -> &Preset {
        let gated = |preset: &&Preset| (self.tpcs_gated(preset.tpc_pg_mask), !preset.default);
        let least = self.modes.iter().min_by_key(gated);
        least.expect("a board has presets")
    }

    /// The knobs of an nvpmodel mode: the highest clocks within its caps.
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

/// The Cartesian product of four axes.
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
