//! The files that a probe records although discovery does not read them. Later versions may need them.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use wattgate_board::{Disk, Files};

use crate::redact;

/// Files by path; `*` stands for any part of a name. At the end it matches files only.
const FILES: &[&str] = &[
    // Identity (`jetson-platform.md`, section 9). The device tree has the serial number beside them.
    "/proc/version",
    "/proc/device-tree/model",
    "/proc/device-tree/compatible",
    "/sys/firmware/devicetree/base/model",
    "/sys/firmware/devicetree/base/compatible",
    "/etc/nv_tegra_release",
    // Cores and their clocks (section 5.1).
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/offline",
    "/sys/devices/system/cpu/present",
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/cpu*/online",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/name",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/latency",
    "/sys/devices/system/cpu/cpu*/cpuidle/state*/residency",
    "/sys/devices/system/cpu/cpufreq/policy*/*",
    // The GPU and other devices with a clock (section 5.2).
    "/sys/class/devfreq/*/*",
    "/sys/class/devfreq/*/device/load",
    "/sys/class/devfreq/*/device/of_node/name",
    "/sys/class/devfreq/*/device/railgate_enable",
    "/sys/class/devfreq/*/device/power/control",
    "/sys/class/devfreq/*/device/*_pg_mask",
    "/sys/devices/platform/gpu.0/devfreq/*/*",
    "/sys/devices/gpu.0/devfreq/*/*",
    "/sys/kernel/debug/bpmp/debug/clk/nafll_gpc*/pto_counter",
    // The memory (section 5.3).
    "/sys/kernel/debug/bpmp/debug/clk/emc/rate",
    "/sys/kernel/debug/bpmp/debug/clk/emc/min_rate",
    "/sys/kernel/debug/bpmp/debug/clk/emc/max_rate",
    "/sys/kernel/debug/bpmp/debug/clk/emc/state",
    "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked",
    "/sys/kernel/debug/bpmp/debug/emc/possible_rates",
    "/sys/kernel/debug/bpmp/debug/emc/tables/regular/*",
    "/sys/kernel/debug/tegra_bwmgr/emc_min_rate",
    "/sys/kernel/debug/tegra_bwmgr/emc_max_rate",
    "/sys/kernel/debug/clk/override.emc/clk_rate",
    "/sys/kernel/debug/clk/override.emc/clk_update_rate",
    "/sys/kernel/debug/clk/override.emc/clk_state",
    "/sys/kernel/nvpmodel_emc_cap/*",
    "/sys/kernel/nvpmodel_clk_cap/*",
    // nvpmodel (sections 3 and 4.1).
    "/etc/nvpmodel.conf",
    "/var/lib/nvpmodel/status",
    // What a daemon that writes nothing to the board has observed.
    redact::OBSERVED,
    // The power sensors of JetPack 4 (section 6.1); for those of hwmon see `HWMON`.
    "/sys/bus/i2c/drivers/ina3221x/*/iio:device*/*",
    // Over-current protection and heat (sections 6.4 and 7).
    "/sys/kernel/debug/bpmp/debug/soctherm/oc*/*",
    "/sys/class/thermal/thermal_zone*/type",
    "/sys/class/thermal/thermal_zone*/temp",
    "/sys/class/thermal/thermal_zone*/mode",
    "/sys/class/thermal/thermal_zone*/policy",
    "/sys/class/thermal/thermal_zone*/trip_point_*",
    "/sys/class/thermal/cooling_device*/type",
    "/sys/class/thermal/cooling_device*/max_state",
    "/sys/class/thermal/cooling_device*/cur_state",
];

/// The directory that shows whether this Linux kernel and this user have debugfs.
pub const DEBUG: &str = "/sys/kernel/debug";

/// The entries of [`DEBUG`] that are recorded. Others name devices of the user.
pub const DEBUG_ENTRIES: [&str; 3] = ["bpmp", "clk", "tegra_bwmgr"];

const HWMON: &str = "/sys/class/hwmon";

/// How the names of the recorded hwmon devices start: power sensors, over-current counters, fan and
/// tachometer. Others belong to disks and network cards.
const HWMON_NAMES: [&str; 5] = ["ina2", "ina3", "soctherm", "pwm", "tach"];

/// Parts of the names of files that are never read. Reading an alarm of an INA3221 clears it (data
/// sheet SBOS576, mask register).
const NEVER: [&str; 2] = ["alarm", "uevent"];

/// Files and directories to record.
#[derive(Debug, Default)]
pub struct Wanted {
    pub files: BTreeSet<PathBuf>,
    pub directories: BTreeSet<PathBuf>,
}

impl Wanted {
    /// Adds all files that match the patterns below a root.
    pub fn add_patterns(&mut self, root: &Path) {
        for pattern in FILES {
            self.add(root, pattern);
        }
        let hwmon = root.join(&HWMON[1..]);
        for device in names(&hwmon) {
            let mut buffer = [0; 64];
            let name = Disk.read(&hwmon.join(&device).join("name"), &mut buffer);
            let name = name.unwrap_or_default();
            if HWMON_NAMES.iter().any(|start| name.starts_with(start)) {
                self.add(root, &format!("{HWMON}/{device}/*"));
            }
        }
        self.directories.insert(hwmon);
        self.directories.insert(root.join(&DEBUG[1..]));
    }

    fn add(&mut self, root: &Path, pattern: &str) {
        let mut places = vec![root.to_owned()];
        let mut components = pattern[1..].split('/').peekable();
        while let Some(component) = components.next() {
            let is_last = components.peek().is_none();
            let Some((start, end)) = component.split_once('*') else {
                places.iter_mut().for_each(|place| place.push(component));
                continue;
            };
            self.directories.extend(places.iter().cloned());
            let matching = |place: PathBuf| {
                let mut names = names(&place);
                names.retain(|name| matches(name, start, end));
                names.into_iter().map(move |name| place.join(name))
            };
            places = places.into_iter().flat_map(matching).collect();
            places.retain(|place| match is_last {
                true => place.is_file(),
                false => place.is_dir(),
            });
        }
        self.files.extend(places);
    }
}

/// The names in a directory; none if it cannot be listed.
fn names(directory: &Path) -> Vec<String> {
    Disk.list(directory).unwrap_or_default()
}

fn matches(name: &str, start: &str, end: &str) -> bool {
    let rest = name.strip_prefix(start);
    rest.is_some_and(|rest| rest.ends_with(end)) && !NEVER.iter().any(|part| name.contains(part))
}
