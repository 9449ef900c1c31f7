//! `presets`: the nvpmodel modes that NVIDIA ships with the board. A preset with a wattage in its
//! name is assumed to stay within it; for the others the measured power counts.

use wattgate_board_tables::{Board, names};
use wattgate_runtime::PowerMode;
use wattgate_runtime::grid::Axis;

use super::{Ask, Method, MethodError, Trained};
use wattgate_trainer::fit::Task;
use wattgate_trainer::read::Known;

/// The baseline `presets`.
pub struct Presets;

/// The mode id of each preset in the grid, with its budget in mW.
struct OfBoard(Vec<(usize, Option<f64>)>);

impl Method for Presets {
    fn name(&self) -> &'static str {
        "presets"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        let device = &task.corpus.device;
        let board = Board::described(device).map_err(|_| MethodError::UnknownBoard {
            device: device.clone(),
            known: names().join(", "),
        })?;
        let grid = &task.corpus.grid;
        // A preset states caps; like the board, take the highest value of each knob within them.
        let index = |axis, cap: Option<u32>| {
            let values = grid.axis(axis);
            let within = values.partition_point(|&value| cap.is_none_or(|cap| value <= cap));
            values[within.saturating_sub(1)]
        };
        let modes = board.modes.iter().filter_map(|preset| {
            let knobs = [
                index(Axis::Cores, Some(preset.cores.len() as u32)),
                index(Axis::Cpu, preset.cpu_khz),
                index(Axis::Gpu, preset.gpu_khz),
                index(Axis::Emc, preset.emc_khz),
            ];
            let id = grid.id(PowerMode::from_knobs(knobs))?;
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
