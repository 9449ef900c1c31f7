//! What the beds of faults of several programs share: the knobs of an AGX Orin, the ways in which one may not
//! obey, and a meter of the true power.
#![allow(dead_code)] // The tests of two crates each use a part.

use std::collections::VecDeque;
use std::path::Path;

use crate::board::{Simulated, booted_in, load};

pub const GPU_MAX: &str = "/sys/class/devfreq/17000000.ga10b/max_freq";
pub const GPU_MIN: &str = "/sys/class/devfreq/17000000.ga10b/min_freq";
pub const EMC_RATE: &str = "/sys/kernel/debug/bpmp/debug/clk/emc/rate";
pub const EMC_LOCK: &str = "/sys/kernel/debug/bpmp/debug/clk/emc/mrq_rate_locked";
pub const EMC_CAP: &str = "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap";

/// The knobs of an AGX Orin that change its power: one of each kind, and each cluster.
pub const KNOBS: [&str; 11] = [
    "/sys/devices/system/cpu/cpu3/online",
    "/sys/devices/system/cpu/cpu6/online",
    "/sys/devices/system/cpu/cpu11/online",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq",
    "/sys/devices/system/cpu/cpufreq/policy8/scaling_min_freq",
    GPU_MAX,
    GPU_MIN,
    EMC_RATE,
    EMC_LOCK,
    EMC_CAP,
];

/// The ways not to obey. `TOP` is the highest value of the knob, `MIDDLE` one below. The first [`STUCK`] leave
/// the knob at values that do not depend on the time.
pub const WAYS: [&str; 14] = [
    "refuse KNOB EBUSY",
    "refuse KNOB EINVAL",
    "refuse KNOB EIO",
    "refuse KNOB EROFS",
    "ignore KNOB",
    "clamp KNOB MIDDLE",
    "floor KNOB MIDDLE",
    "floor KNOB TOP",
    "quantise KNOB STEP",
    "unreadable KNOB",
    "vanish KNOB",
    "late KNOB 1",
    "revert KNOB 1",
    "every 1 write KNOB TOP",
];

/// How many of [`WAYS`] do not depend on the time, and can be read.
pub const STUCK: usize = 9;

/// The command to the simulated board that makes a knob disobey in a way.
pub fn command(way: &str, knob: &str) -> String {
    let [top, middle, step] = match knob {
        knob if knob.ends_with("online") || knob.ends_with("locked") => [1, 1, 2],
        knob if knob.contains("cpufreq") => [2_201_600, 1_190_400, 500_000],
        knob if knob.contains("devfreq") => [1_300_500_000, 726_750_000, 200_000_000],
        _ => [3_199_000_000, 2_133_000_000, 1_000_000_000],
    }
    .map(|value: u64| value.to_string());
    way.replace("KNOB", knob)
        .replace("TOP", &top)
        .replace("MIDDLE", &middle)
        .replace("STEP", &step)
}

/// A board in MAXN that runs ResNet-18.
pub fn hungry() -> Simulated {
    let mut files = booted_in("orin-agx-64", 0);
    load(&mut files);
    files
}

pub fn inject(files: &mut Simulated, faults: &[String]) {
    for fault in faults {
        let result = files.tree.control(fault);
        result.unwrap_or_else(|error| panic!("{fault}: {error}"));
    }
}

/// A core, or what has a clock.
pub struct Actuator {
    /// The folder of the files that set it, or a part of its path.
    pub folder: String,
    /// The number of online cores, or the true clock in kHz, and its lowest value.
    pub value: u32,
    pub lowest: u32,
}

/// The actuators of the board as they truly are; a cluster only while one of its cores is online.
pub fn actuators(files: &Simulated) -> Vec<Actuator> {
    let jetson = files.tree.jetson();
    let board = jetson.board();
    let actuator = |folder: &str, value, lowest| Actuator {
        folder: folder.to_owned(),
        value,
        lowest,
    };
    let online = &jetson.settings().online;
    let mut actuators = Vec::new();
    for (core, is_online) in online.iter().enumerate() {
        let folder = format!("/sys/devices/system/cpu/cpu{core}");
        actuators.push(actuator(
            &folder,
            u32::from(*is_online),
            u32::from(core == 0),
        ));
    }
    for (cluster, cores) in board.clusters.iter().enumerate() {
        if cores.iter().any(|core| online[*core as usize]) {
            let first = cores.iter().min().expect("a core");
            let folder = format!("/sys/devices/system/cpu/cpufreq/policy{first}");
            actuators.push(actuator(
                &folder,
                jetson.cpu_true_khz(cluster),
                board.cpu_khz[0],
            ));
        }
    }
    actuators.push(actuator("devfreq", jetson.gpu_true_khz(), board.gpu_khz[0]));
    actuators.push(actuator("emc", jetson.emc_khz(), board.emc_khz[0]));
    actuators
}

/// Whether a file is one of an actuator's.
pub fn is_of(path: &str, folder: &str) -> bool {
    match folder.starts_with('/') {
        true => Path::new(path).parent() == Some(Path::new(folder)),
        false => path.contains(folder),
    }
}

/// Whether every actuator without a fault is at its lowest.
pub fn is_least(files: &Simulated, faults: &[String]) -> bool {
    let is_faulty = |actuator: &Actuator| {
        let mut words = faults.iter().flat_map(|fault| fault.split(' '));
        words.any(|word| word.starts_with('/') && is_of(word, &actuator.folder))
    };
    let mut actuators = actuators(files).into_iter();
    actuators.all(|actuator| actuator.value == actuator.lowest || is_faulty(&actuator))
}

/// Compares the true mean power of 430 ms with a limit. The first two seconds do not count, nor does time in
/// which all actuators without a fault are at their lowest: less cannot be reached.
#[derive(Debug)]
pub struct Meter {
    limit_w: f64,
    faults: Vec<String>,
    start_s: f64,
    /// Times in s, and the energy in J up to each of them.
    past: VecDeque<(f64, f64)>,
    over_s: f64,
    /// The longest time in s during which the mean stayed over the limit.
    pub longest_s: f64,
    /// The highest mean in W.
    pub highest_w: f64,
}

impl Meter {
    /// The interval of the mean: the sensor's low-pass.
    const SPAN_S: f64 = 0.43;
    const GRACE_S: f64 = 2.0;

    pub fn new(limit_w: f64, faults: &[String], files: &Simulated) -> Self {
        Self {
            limit_w,
            faults: faults.to_vec(),
            start_s: files.tree.jetson().now().as_secs_f64(),
            past: VecDeque::new(),
            over_s: 0.0,
            longest_s: 0.0,
            highest_w: 0.0,
        }
    }

    /// Takes the energy up to now.
    pub fn note(&mut self, files: &Simulated) {
        let jetson = files.tree.jetson();
        let (now, energy) = (jetson.now().as_secs_f64(), jetson.energy_j());
        let before = self.past.back().map_or(now, |(at, _)| *at);
        self.past.push_back((now, energy));
        while self.past.len() > 2 && self.past[1].0 <= now - Self::SPAN_S {
            self.past.pop_front();
        }
        let (from, then) = self.past[0];
        if now - self.start_s < Self::GRACE_S || now - from < Self::SPAN_S {
            return;
        }
        let mean_w = (energy - then) / (now - from);
        self.highest_w = self.highest_w.max(mean_w);
        // Half a per cent is the ripple of the load.
        self.over_s = match mean_w > 1.005 * self.limit_w && !is_least(files, &self.faults) {
            true => self.over_s + now - before,
            false => 0.0,
        };
        self.longest_s = self.longest_s.max(self.over_s);
    }
}
