//! The vendor's modes, from `/etc/nvpmodel.conf` (`jetson-platform.md`, section 4).

use wattgate_runtime::{Axis, Grid, PowerMode};

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
}

impl Preset {
    /// The mode of a grid that a busy workload has under this preset: the highest values within
    /// the ceilings.
    pub fn mode(&self, grid: &Grid) -> PowerMode {
        let [cpu, gpu, emc] = self.ceilings;
        let of = |axis: Axis, ceiling: Option<u32>| within(grid.axis(axis), ceiling).unwrap_or(0);
        PowerMode::from_knobs([
            of(Axis::Cores, Some(self.cores)),
            of(Axis::Cpu, cpu),
            of(Axis::Gpu, gpu),
            of(Axis::Emc, emc),
        ])
    }
}

/// The highest value of a table, ascending, within a ceiling; the lowest if none is.
pub(crate) fn within(table: &[u32], ceiling: Option<u32>) -> Option<u32> {
    let within = table.partition_point(|&value| ceiling.is_none_or(|it| value <= it));
    table.get(within.saturating_sub(1)).copied()
}

/// The presets of a configuration. Lines that are not understood are left out: nothing that is safe
/// depends on them.
pub(crate) fn presets(conf: &str) -> Vec<Preset> {
    let mut presets: Vec<Preset> = Vec::new();
    let mut is_mode = false;
    for line in conf.lines() {
        let words = line.split(|it: char| it.is_whitespace() || "<>=".contains(it));
        let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
        match words[..] {
            ["POWER_MODEL", "ID", id, "NAME", name, ..] => {
                is_mode = true;
                presets.push(Preset {
                    id: id.parse().unwrap_or_default(),
                    name: name.to_owned(),
                    ..Preset::default()
                });
            }
            ["PARAM" | "PM_CONFIG" | "FAN_CONFIG", ..] => is_mode = false,
            [clock, name, value] if is_mode => {
                if let (Some(preset), Ok(value)) = (presets.last_mut(), value.parse::<i64>()) {
                    set(preset, clock, name, value);
                }
            }
            _ => {}
        }
    }
    presets
}

fn set(preset: &mut Preset, clock: &str, name: &str, value: i64) {
    if clock == "CPU_ONLINE" {
        preset.cores += u32::from(value == 1);
        return;
    }
    let [cpu, gpu, emc] = &mut preset.ceilings;
    let (ceiling, unit) = match clock {
        "GPU" => (gpu, 1_000),
        "EMC" => (emc, 1_000),
        _ if clock.starts_with("CPU_") => (cpu, 1),
        _ => return,
    };
    // −1, and 0 for the memory, mean no ceiling; the fastest cluster counts.
    let khz = u32::try_from(value / unit).ok().filter(|&khz| khz > 0);
    if name == "MAX_FREQ" && khz.is_some() {
        *ceiling = khz.max(*ceiling);
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
        let found: Vec<(u32, String, [u32; 4])> = presets(conf)
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
}
