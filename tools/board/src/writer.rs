//! Which known program probably wrote the settings that the board shows.
//!
//! A program that has ended leaves nothing but its values. nvpmodel sets the cores and ceilings of
//! the mode in its status file; jetson_clocks raises every minimum to its maximum and holds the
//! memory at its highest rate under nvpmodel's cap (`jetson-platform.md`, sections 4 and 8.1).

use wattgate_runtime::{Kilohertz, PowerMode};

use crate::board::Board;
use crate::clock::HZ;
use crate::current::Current;
use crate::files::Files;
use crate::presets::nearest;

impl Board {
    /// The name of the program that probably changed a mode that this program had set; `None` if
    /// the settings are those of no known program.
    pub fn likely_writer(&self, files: &impl Files, mode: &PowerMode) -> Option<&'static str> {
        let shown = self.current(files);
        let is_nvpmodel = self.has_mode_of_nvpmodel(files, &shown);
        let is_ours = shown.cpu == Some(mode.cpu) && shown.gpu == Some(mode.gpu);
        let memory = self.knobs.memory.as_ref();
        let ceiling = memory.and_then(|memory| memory.ceiling(files).ok());
        let hz = |khz: Kilohertz| i64::from(HZ) * i64::from(khz.0);
        let is_jetson_clocks = is_ours
            && shown.is_fixed
            && shown.emc != Some(mode.emc)
            && shown.emc.map(hz) == ceiling;
        match (is_nvpmodel, is_jetson_clocks) {
            (true, _) => Some("nvpmodel"),
            (_, true) => Some("jetson_clocks"),
            _ => None,
        }
    }

    fn has_mode_of_nvpmodel(&self, files: &impl Files, shown: &Current) -> bool {
        let id = self.nvpmodel_mode(files);
        let Some(preset) = self.presets().iter().find(|preset| Some(preset.id) == id) else {
            return false;
        };
        let [cpu, gpu, _] = preset.ceilings;
        let clocks = [
            (self.cpu_khz(), cpu, shown.cpu),
            (self.gpu_khz(), gpu, shown.gpu),
        ];
        preset.cores == shown.cores
            && clocks.into_iter().all(|(table, ceiling, shown)| {
                nearest(table, ceiling) == shown.map(|clock| clock.0)
            })
    }
}
