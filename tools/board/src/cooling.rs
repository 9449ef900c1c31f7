//! Cooling devices of Linux: how far they lower the clocks now.
//!
//! cpufreq's devices have the types `cpufreq-cpu0` or `thermal-cpufreq-0`, devfreq's
//! `devfreq-17000000.gpu` or `thermal-devfreq-0`, by the version of Linux. State 0 does not
//! cool; state n allows the clock that is n entries below the highest of the table. Devices of
//! devfreq's other clocks do not count.

use crate::files::{Files, Knob};
use crate::knobs::Knobs;
use crate::search::Search;

const ZONES: &str = "/sys/class/thermal";

/// Devices in devfreq that are not the GPU's clock: Thor's video engines, and the memory.
const OTHERS: [&str; 2] = ["gpu-nvd-0", "bwmgr"];

/// The states of the cooling devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cooling {
    cpu: Vec<Knob>,
    gpu: Vec<Knob>,
}

impl Cooling {
    pub(crate) fn find<F: Files>(search: &Search<F>) -> Self {
        let directory = search.path(ZONES);
        let mut found = Self::default();
        for number in search.numbers(&directory, "cooling_device") {
            let device = directory.join(format!("cooling_device{number}"));
            let name = search.word(&device.join("type")).unwrap_or_default();
            let state = Knob(device.join("cur_state").into());
            if name.contains("cpufreq") {
                found.cpu.push(state);
            } else if name.contains("devfreq") && !OTHERS.iter().any(|it| name.ends_with(it)) {
                found.gpu.push(state);
            }
        }
        found
    }

    /// Whether a device explains that a clock is at most at a value, in the unit of measure of its file.
    pub(crate) fn explains(
        &self,
        files: &impl Files,
        knobs: &Knobs,
        actuator: usize,
        value: i64,
    ) -> bool {
        let (table, kilo) = knobs.table(actuator);
        let cap = match actuator {
            actuator if actuator < knobs.gpu_actuator() => self.cpu_cap(files, table),
            actuator if actuator == knobs.gpu_actuator() => self.gpu_cap(files, table),
            _ => None,
        };
        cap.is_some_and(|khz| value >= i64::from(khz) * i64::from(kilo))
    }

    /// The lowest clock in kHz to which a device caps the CPUs now, given their table; `None` if
    /// none does.
    pub(crate) fn cpu_cap(&self, files: &impl Files, table: &[u32]) -> Option<u32> {
        cap(&self.cpu, files, table)
    }

    /// The same for the GPU.
    pub(crate) fn gpu_cap(&self, files: &impl Files, table: &[u32]) -> Option<u32> {
        cap(&self.gpu, files, table)
    }
}

fn cap(devices: &[Knob], files: &impl Files, table: &[u32]) -> Option<u32> {
    let states = devices.iter().filter_map(|state| state.read(files).ok());
    let below = usize::try_from(states.max()?).ok().filter(|&it| it > 0)?;
    let last = table.len().checked_sub(1)?;
    table.get(last.saturating_sub(below)).copied()
}
