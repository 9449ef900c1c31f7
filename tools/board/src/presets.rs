//! The vendor's modes, from `/etc/nvpmodel.conf` (`jetson-platform.md`, section 4).

use wattgate_runtime::PowerMode;
use wattgate_runtime::grid::{Axis, Grid};

/// A mode of nvpmodel: a number of cores, and ceilings of the clocks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preset {
    /// The number by which nvpmodel selects it.
    pub id: u32,
    /// Its name.
    pub name: String,
    pub(crate) cores: u32,
    /// Ceilings in kHz of the CPU, the GPU and the memory; `None` without one.
    pub(crate) ceilings: [Option<u32>; 3],
    /// The TPCs that it gates, one bit each; `None` if it says nothing of them.
    pub(crate) tpc_pg_mask: Option<u32>,
}

impl Preset {
    /// The mode of a grid that a busy workload has under this preset: the values nearest to the ceilings.
    pub fn mode(&self, grid: &Grid) -> PowerMode {
        let [cpu, gpu, emc] = self.ceilings;
        let nearest_value =
            |axis: Axis, ceiling: Option<u32>| nearest(grid.axis(axis), ceiling).unwrap_or(0);
        PowerMode::from_knobs([
            nearest_value(Axis::Cores, Some(self.cores)),
            nearest_value(Axis::Cpu, cpu),
            nearest_value(Axis::Gpu, gpu),
            nearest_value(Axis::Emc, emc),
        ])
    }
}

/// The value of a table that is nearest to a ceiling, as Linux takes it; the highest without a ceiling.
pub(crate) fn nearest(table: &[u32], ceiling: Option<u32>) -> Option<u32> {
    match ceiling {
        None => table.last().copied(),
        Some(ceiling) => table.iter().copied().min_by_key(|it| it.abs_diff(ceiling)),
    }
}

/// What a mode says of clocks and cores, before it is known which clusters are online.
#[derive(Debug, Default)]
struct Raw {
    id: u32,
    name: String,
    /// Cores with their switch.
    online: Vec<(u32, bool)>,
    /// Clocks with their ceiling in kHz; `None` for −1, which lifts it.
    ceilings: Vec<(String, Option<u32>)>,
    tpc_pg_mask: Option<u32>,
}

/// The presets of a configuration. `cluster` has the cores of the cluster that a core belongs to. Lines that are
/// not understood are left out: nothing that is safe depends on them.
pub(crate) fn presets(conf: &str, cluster: impl Fn(u32) -> Vec<u32>) -> Vec<Preset> {
    let mut raws: Vec<Raw> = Vec::new();
    // A core of each clock's cluster, by the path of its file.
    let mut cores: Vec<(String, u32)> = Vec::new();
    let mut parameter = None;
    let mut is_mode = false;
    for line in conf.lines() {
        let words = line.split(|it: char| it.is_whitespace() || "<>=".contains(it));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        let after = |key: &str| {
            let at = words.iter().position(|word| *word == key)?;
            words.get(at + 1).copied()
        };
        match words[..] {
            ["POWER_MODEL", ..] => {
                is_mode = true;
                raws.push(Raw {
                    id: after("ID")
                        .and_then(|id| id.parse().ok())
                        .unwrap_or_default(),
                    name: after("NAME").unwrap_or_default().to_owned(),
                    ..Raw::default()
                });
            }
            ["PARAM" | "PM_CONFIG" | "FAN_CONFIG", ..] => {
                (is_mode, parameter) = (false, after("NAME"));
            }
            [clock, name, value] if is_mode => {
                if let (Some(raw), Ok(value)) = (raws.last_mut(), value.parse::<i64>()) {
                    raw.set(clock, name, value);
                }
            }
            [_, path] if !is_mode => {
                if let Some((clock, core)) = parameter.zip(core_of(path)) {
                    cores.push((clock.to_owned(), core));
                }
            }
            _ => {}
        }
    }
    let core_of = |clock: &str| cores.iter().find(|(name, _)| name == clock);
    let clusters = |clock: &str| core_of(clock).map(|(_, core)| cluster(*core));
    raws.into_iter().map(|raw| raw.finish(clusters)).collect()
}

/// The core in a path such as `/sys/devices/system/cpu/cpu4/cpufreq/scaling_max_freq`.
fn core_of(path: &str) -> Option<u32> {
    let mut parts = path.split('/');
    parts.find_map(|part| {
        let number = part
            .strip_prefix("cpu")
            .or_else(|| part.strip_prefix("policy"));
        number?.parse().ok()
    })
}

impl Raw {
    fn set(&mut self, clock: &str, name: &str, value: i64) {
        if clock == "CPU_ONLINE" {
            let core = name.strip_prefix("CORE_").and_then(|it| it.parse().ok());
            self.online.extend(core.map(|core| (core, value == 1)));
            return;
        }
        if name == "TPC_PG_MASK" {
            self.tpc_pg_mask = u32::try_from(value).ok();
            return;
        }
        let per_khz = match clock {
            "GPU" | "EMC" => 1_000,
            _ if clock.starts_with("CPU_") => 1,
            _ => return,
        };
        if name == "MAX_FREQ" {
            // −1, and 0 for the memory, mean no ceiling.
            let khz = u32::try_from(value / per_khz).ok().filter(|&khz| khz > 0);
            self.ceilings.push((clock.to_owned(), khz));
        }
    }

    fn is_online(&self, core: u32) -> bool {
        // The first core is always on, and has no line in some files.
        let switch = self.online.iter().find(|(number, _)| *number == core);
        core == 0 || switch.is_some_and(|(_, on)| *on)
    }

    fn finish(self, cluster: impl Fn(&str) -> Option<Vec<u32>>) -> Preset {
        let others = self.online.iter().filter(|(core, on)| *core > 0 && *on);
        let cores = 1 + others.count() as u32;
        let ceiling = |name: &str| {
            let mut last = self.ceilings.iter().rev();
            last.find(|(clock, _)| clock == name)
                .and_then(|(_, khz)| *khz)
        };
        // The fastest cluster with an online core counts.
        let is_on = |clock: &str| {
            // An unknown cluster counts as online.
            let cores = cluster(clock).unwrap_or_default();
            cores.is_empty() || cores.iter().any(|core| self.is_online(*core))
        };
        let cpus = self.ceilings.iter();
        let cpus = cpus.filter(|(clock, _)| clock.starts_with("CPU_") && is_on(clock));
        let cpu = cpus.map(|(_, khz)| khz.unwrap_or(u32::MAX)).max();
        let ceilings = [
            cpu.filter(|khz| *khz < u32::MAX),
            ceiling("GPU"),
            ceiling("EMC"),
        ];
        Preset {
            id: self.id,
            name: self.name,
            cores,
            ceilings,
            tpc_pg_mask: self.tpc_pg_mask,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_the_highest_mode_within_its_ceilings() {
        let conf = "\
< PARAM TYPE=CLOCK NAME=EMC >
MAX_FREQ /sys/kernel/nvpmodel_emc_cap/emc_iso_cap
< POWER_MODEL ID=0 NAME=MAXN >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_1 1
CPU_A78_0 MAX_FREQ -1
GPU MAX_FREQ -1
EMC MAX_FREQ 0
< POWER_MODEL ID=2 NAME=15W >
CPU_ONLINE CORE_0 1
CPU_ONLINE CORE_1 0
CPU_A78_0 MIN_FREQ 729600
CPU_A78_0 MAX_FREQ 1113600
CPU_A78_1 MAX_FREQ 729600
GPU MAX_FREQ 420750000
EMC MAX_FREQ 2133000000
< PM_CONFIG DEFAULT=2 >
GPU MAX_FREQ 1
";
        let axes: [&[u32]; 4] = [
            &[1, 2],
            &[729_600, 1_113_600, 2_201_600],
            &[114_750, 408_000, 1_300_500],
            &[204_000, 2_133_000, 3_199_000],
        ];
        let grid = Grid::new(axes).expect("a grid");
        let found: Vec<(u32, String, [u32; 4])> = presets(conf, |core| vec![core])
            .into_iter()
            .map(|it| (it.id, it.name.clone(), it.mode(&grid).knobs()))
            .collect();
        let maxn = [2, 2_201_600, 1_300_500, 3_199_000];
        let low = [1, 1_113_600, 408_000, 2_133_000];
        assert_eq!(
            found,
            [(0, "MAXN".to_owned(), maxn), (2, "15W".to_owned(), low)]
        );
    }

    /// As of NVIDIA's tool: ID and NAME in any order, the first core without a line, no ceiling beside one, and
    /// clocks that the table lacks.
    #[test]
    fn presets_are_read_as_nvidias_tool_reads_them() {
        let conf = "\
< PARAM TYPE=CLOCK NAME=CPU_DENVER_0 >
MAX_FREQ /sys/devices/system/cpu/cpu1/cpufreq/scaling_max_freq
< PARAM TYPE=CLOCK NAME=CPU_A57_0 >
MAX_FREQ /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq
< POWER_MODEL NAME=MAXN ID=0 >
CPU_ONLINE CORE_1 1
CPU_ONLINE CORE_2 1
CPU_ONLINE CORE_3 1
CPU_A57_0 MAX_FREQ -1
CPU_DENVER_0 MAX_FREQ 345600
GPU MAX_FREQ 670000000
< POWER_MODEL ID=3 NAME=MAXP_CORE_ARM >
CPU_ONLINE CORE_1 0
CPU_ONLINE CORE_2 0
CPU_ONLINE CORE_3 1
CPU_A57_0 MAX_FREQ 918000
CPU_DENVER_0 MAX_FREQ 2035200
GPU MAX_FREQ 1122000000
";
        let axes: [&[u32]; 4] = [
            &[1, 2, 3, 4],
            &[345_600, 806_400, 921_600, 2_035_200],
            &[624_750, 675_750, 1_122_000],
            &[1_866_000],
        ];
        let grid = Grid::new(axes).expect("a grid");
        let cluster = |core| match core {
            1 | 2 => vec![1, 2],
            _ => vec![0, 3],
        };
        let found = presets(conf, cluster);
        let found: Vec<(u32, &str, [u32; 4])> = found
            .iter()
            .map(|it| (it.id, it.name.as_str(), it.mode(&grid).knobs()))
            .collect();
        assert_eq!(
            found,
            [
                (0, "MAXN", [4, 2_035_200, 675_750, 1_866_000]),
                (3, "MAXP_CORE_ARM", [2, 921_600, 1_122_000, 1_866_000])
            ]
        );
    }
}
