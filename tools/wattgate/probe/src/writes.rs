//! Writes to a recorded board, which then shows what Linux would show.
//!
//! - Only files that wattgate writes can be written.
//! - A clock that is not in the board's table is rounded down, or up to the lowest.
//! - A minimum above the maximum is refused.
//! - A memory rate that is not in its table, or is above nvpmodel's cap, is ignored without an error
//!   (`jetson-platform.md`, section 5.3).
//! - A probe has no clocks of a cluster that was offline. Reading them fails until one of its cores
//!   comes online. From then on they are copies of another cluster's clocks.

use crate::format::{Content, Fault};
use crate::recorded::{EACCES, EBUSY, EINVAL, ENOENT, Recorded};

const CPUS: &str = "/sys/devices/system/cpu";
const EMC: &str = "/sys/kernel/debug/bpmp/debug/clk/emc";
const POSSIBLE_RATES: &str = "/sys/kernel/debug/bpmp/debug/emc/possible_rates";
const REGULAR: &str = "/sys/kernel/debug/bpmp/debug/emc/tables/regular";

/// nvpmodel's caps of the memory in Hz.
const CAPS: [&str; 2] = [
    "/sys/kernel/nvpmodel_clk_cap/emc",
    "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
];

/// The files of a device with a clock: the minimum and the maximum, the table, and the clocks that
/// follow.
struct Clock {
    limits: [&'static str; 2],
    table: &'static str,
    current: [&'static str; 2],
}

/// Of CPUs, and of devfreq devices.
const CLOCKS: [Clock; 2] = [
    Clock {
        limits: ["scaling_min_freq", "scaling_max_freq"],
        table: "scaling_available_frequencies",
        current: ["scaling_cur_freq", "cpuinfo_cur_freq"],
    },
    Clock {
        limits: ["min_freq", "max_freq"],
        table: "available_frequencies",
        current: ["cur_freq", "target_freq"],
    },
];

impl Recorded {
    /// Writes to a file.
    pub fn put(&mut self, path: &str, text: &str) -> Result<(), Fault> {
        let path = self.behind_links(path)?;
        let shown = self.files.get(&path).ok_or(ENOENT)?;
        if let Content::Fault(fault) = shown.content {
            return Err(fault);
        }
        let Some((directory, name)) = path.rsplit_once('/').filter(|_| self.can_write(&path))
        else {
            return Err(EACCES);
        };
        let value: i64 = text.trim().parse().map_err(|_| EINVAL)?;
        if let Some(clock) = CLOCKS.iter().find(|clock| clock.limits.contains(&name)) {
            return self.put_limit(clock, directory, name, value);
        }
        match name {
            "online" => return self.put_online(&path, value),
            "samples" => self.put_samples(directory, value)?,
            "mrq_rate_locked" if !matches!(value, 0 | 1) => return Err(EINVAL),
            "rate" if !self.takes_rate(value) => return Ok(()),
            _ => {}
        }
        self.set(&path, value);
        Ok(())
    }

    /// Whether a file is one that wattgate writes, and may.
    pub fn can_write(&self, path: &str) -> bool {
        let Some((directory, name)) = path.rsplit_once('/') else {
            return false;
        };
        let has = |name: &str| self.files.contains_key(&format!("{directory}/{name}"));
        let is_limit = |clock: &Clock| clock.limits.contains(&name) && has(clock.table);
        let is_knob = match name {
            "online" => directory != CPUS && directory.starts_with(CPUS),
            "samples" => has("update_interval"),
            "rate" | "mrq_rate_locked" => directory == EMC,
            _ => CAPS.contains(&path) || CLOCKS.iter().any(is_limit),
        };
        is_knob && self.files.get(path).is_some_and(|shown| shown.is_writable)
    }

    /// The values that a file usually takes, if wattgate writes it.
    pub fn words(&self, path: &str) -> Vec<String> {
        let Some((directory, name)) = path.rsplit_once('/') else {
            return Vec::new();
        };
        let values = match CLOCKS.iter().find(|clock| clock.limits.contains(&name)) {
            Some(clock) => self.table(&format!("{directory}/{}", clock.table)),
            None => match name {
                "online" | "mrq_rate_locked" => vec![0, 1],
                "samples" => wattgate_board::SAMPLES.map(i64::from).to_vec(),
                "rate" => self.rates(),
                _ => Vec::new(),
            },
        };
        values.iter().map(i64::to_string).collect()
    }

    fn put_limit(
        &mut self,
        clock: &Clock,
        directory: &str,
        name: &str,
        value: i64,
    ) -> Result<(), Fault> {
        let path = |name: &str| format!("{directory}/{name}");
        let table = self.table(&path(clock.table));
        let at_most = table.iter().copied().filter(|&it| it <= value).max();
        let lowest = table.iter().copied().min();
        let value = at_most.or(lowest).unwrap_or(value);
        let [min, max] = clock.limits.map(path);
        let limits = match name == clock.limits[0] {
            true => (value, self.number(&max).unwrap_or(value)),
            false => (self.number(&min).unwrap_or(value), value),
        };
        if limits.0 > limits.1 {
            return Err(EINVAL);
        }
        self.set(&path(name), value);
        for current in clock.current.map(path) {
            if let Some(now) = self.number(&current) {
                self.set(&current, now.clamp(limits.0, limits.1));
            }
        }
        Ok(())
    }

    fn put_online(&mut self, path: &str, value: i64) -> Result<(), Fault> {
        match value {
            // Linux keeps one core.
            0 if path == format!("{CPUS}/cpu0/online") => return Err(EBUSY),
            0 | 1 => self.set(path, value),
            _ => return Err(EINVAL),
        }
        let all = format!("{CPUS}/online");
        let core = path.strip_prefix(&format!("{CPUS}/cpu"));
        let core = core.and_then(|rest| rest.strip_suffix("/online")?.parse().ok());
        if let (Some(core), Ok(text)) = (core, self.text(&all)) {
            let mut cores = cores(&text);
            cores.retain(|it| *it != core);
            if value == 1 {
                cores.push(core);
            }
            self.show(&all, ranges(cores));
            if value == 1 {
                self.wake_policy(core);
            }
        }
        Ok(())
    }

    /// Gives the policy of a core the clocks of another policy, if it has none of its own.
    fn wake_policy(&mut self, core: u16) {
        let cpufreq = format!("{CPUS}/cpufreq");
        let names = self.names(&cpufreq).unwrap_or_default();
        let number = |name: &String| name.strip_prefix("policy")?.parse().ok();
        let policies: Vec<u16> = names.iter().filter_map(number).collect();
        // A policy is numbered after its first core.
        let Some(policy) = policies.iter().filter(|&&policy| policy <= core).max() else {
            return;
        };
        let [clock, _] = CLOCKS;
        for name in clock
            .limits
            .into_iter()
            .chain(clock.current)
            .chain([clock.table])
        {
            let path = |policy: &u16| format!("{cpufreq}/policy{policy}/{name}");
            let mut texts = policies
                .iter()
                .filter_map(|policy| self.text(&path(policy)).ok());
            if let (Err(_), Some(text)) = (self.text(&path(policy)), texts.next()) {
                self.show(&path(policy), text);
            }
        }
    }

    /// Changes the time constant with the number of samples, to which it is proportional.
    fn put_samples(&mut self, directory: &str, samples: i64) -> Result<(), Fault> {
        if !wattgate_board::SAMPLES.map(i64::from).contains(&samples) {
            return Err(EINVAL);
        }
        let path = |name: &str| format!("{directory}/{name}");
        let before = self.number(&path("samples")).filter(|&it| it > 0);
        let interval = self.number(&path("update_interval"));
        if let (Some(before), Some(interval)) = (before, interval) {
            let interval = interval.saturating_mul(samples).saturating_add(before / 2) / before;
            self.set(&path("update_interval"), interval);
        }
        Ok(())
    }

    /// Whether the memory's clock follows a request.
    fn takes_rate(&self, hz: i64) -> bool {
        let is_locked = self.number(&format!("{EMC}/mrq_rate_locked")) == Some(1);
        let caps = CAPS.iter().filter_map(|cap| self.number(cap));
        // 0, a negative number and the largest of 32 bits mean that there is no cap.
        let mut caps = caps.filter(|&cap| cap > 0 && cap != i64::from(i32::MAX));
        self.rates().contains(&hz) && is_locked && caps.all(|cap| hz <= cap)
    }

    /// The memory's rates in Hz.
    fn rates(&self) -> Vec<i64> {
        let mut khz = self.table(POSSIBLE_RATES);
        if khz.is_empty() {
            let names = self.names(REGULAR).unwrap_or_default();
            khz = names.iter().filter_map(|name| name.parse().ok()).collect();
        }
        khz.iter().map(|khz| khz.saturating_mul(1_000)).collect()
    }

    fn table(&self, path: &str) -> Vec<i64> {
        let text = self.text(path).unwrap_or_default();
        let words = text.split_whitespace();
        words.filter_map(|word| word.parse().ok()).collect()
    }

    fn number(&self, path: &str) -> Option<i64> {
        self.text(path).ok()?.trim().parse().ok()
    }

    fn set(&mut self, path: &str, value: i64) {
        self.show(path, format!("{value}\n"));
    }

    fn show(&mut self, path: &str, text: String) {
        if let Some(shown) = self.files.get_mut(path) {
            shown.content = Content::Text(text);
        }
    }
}

/// The numbers of ranges such as `0-3,5`.
fn cores(text: &str) -> Vec<u16> {
    let ranges = text.trim().split(',').filter_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(first.parse().ok()?..=last.parse().ok()?)
    });
    ranges.flatten().collect()
}

/// Ranges as Linux prints them.
fn ranges(mut cores: Vec<u16>) -> String {
    cores.sort_unstable();
    let mut runs: Vec<[u16; 2]> = Vec::new();
    for core in cores {
        match runs.last_mut() {
            Some([_, last]) if last.checked_add(1) == Some(core) => *last = core,
            _ => runs.push([core; 2]),
        }
    }
    let runs = runs.iter().map(|[first, last]| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    runs.collect::<Vec<_>>().join(",") + "\n"
}
