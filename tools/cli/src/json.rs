//! How a power mode looks in JSON.

use serde::{Deserialize, Serialize};
use wattgate_runtime::PowerMode;

/// A power mode, with the names that corpora use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mode {
    pub cores: u32,
    pub cpu_khz: u32,
    pub gpu_khz: u32,
    pub emc_khz: u32,
}

impl Mode {
    /// The four values in the order of the axes.
    pub fn knobs(self) -> [u32; 4] {
        [self.cores, self.cpu_khz, self.gpu_khz, self.emc_khz]
    }
}

impl From<PowerMode> for Mode {
    fn from(mode: PowerMode) -> Self {
        let [cores, cpu_khz, gpu_khz, emc_khz] = mode.knobs();
        Self {
            cores,
            cpu_khz,
            gpu_khz,
            emc_khz,
        }
    }
}

impl From<Mode> for PowerMode {
    fn from(mode: Mode) -> Self {
        Self::from_knobs(mode.knobs())
    }
}
