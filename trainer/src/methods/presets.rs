//! `presets`: the nvpmodel modes that NVIDIA ships with the board. A mode with a wattage in
//! its name is taken to hold it; of the others it is assumed that the user measured them.

use std::collections::BTreeMap;

use serde::Deserialize;
use wattgate_runtime::Axis;

use super::{Ask, Method, MethodError, Task, Trained};
use crate::split::Known;

/// By board: `trainer/src/methods/presets.json`. Clocks in kHz, null for no cap.
const PRESETS: &str = include_str!("presets.json");

#[derive(Clone, Deserialize)]
struct Preset {
    /// In watts, where the name has it.
    budget_w: Option<f64>,
    cores: u32,
    cpu_khz: Option<u32>,
    gpu_khz: Option<u32>,
    emc_khz: Option<u32>,
}

/// The baseline.
pub struct Presets;

/// The modes of the grid that stand for the presets, with their budgets in mW.
struct OfBoard(Vec<(usize, Option<f64>)>);

impl Method for Presets {
    fn name(&self) -> &'static str {
        "presets"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        let boards: BTreeMap<String, Vec<Preset>> =
            serde_json::from_str(PRESETS).expect("a test reads the table");
        let device = &task.corpus.device;
        let presets = boards
            .get(device)
            .ok_or_else(|| MethodError::UnknownBoard {
                device: device.clone(),
                known: boards.keys().cloned().collect::<Vec<_>>().join(", "),
            })?;
        let grid = &task.corpus.grid;
        // Caps: a knob takes its highest value within, as the board does.
        let index = |axis, cap: Option<u32>| {
            let values = grid.axis(axis);
            let within = values.partition_point(|&value| cap.is_none_or(|cap| value <= cap));
            values[within.saturating_sub(1)]
        };
        let modes = presets.iter().filter_map(|preset| {
            let knobs = [
                index(Axis::Cores, Some(preset.cores)),
                index(Axis::Cpu, preset.cpu_khz),
                index(Axis::Gpu, preset.gpu_khz),
                index(Axis::Emc, preset.emc_khz),
            ];
            let id = grid.id(wattgate_runtime::PowerMode::from_knobs(knobs))?;
            Some((usize::from(id.0), preset.budget_w.map(|watts| 1e3 * watts)))
        });
        Ok(Box::new(OfBoard(modes.collect())))
    }
}

impl Trained for OfBoard {
    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        let within = |mode: &&Known| {
            let preset = self.0.iter().find(|(id, _)| *id == mode.id);
            let budget = preset.and_then(|(_, budget)| budget.or(mode.power_mw));
            budget.is_some_and(|budget| budget <= ask.limit_mw) && !tried.contains(mode)
        };
        let fitting = ask.offered.iter().filter(within);
        Ok(fitting
            .min_by(|a, b| a.time_us.total_cmp(&b.time_us))
            .copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_can_be_read() {
        let boards: BTreeMap<String, Vec<Preset>> = serde_json::from_str(PRESETS).expect("JSON");
        assert!(boards["agx_orin_64gb"].len() == 4 && boards["tx2"].len() == 4);
    }
}
