//! The settings of the power sensor.

use std::time::Duration;

use wattgate_simulated_board::sampling::Sampling;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::control::ControlError;

/// How the power sensor is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sensor {
    /// The number of samples in one result; see
    /// [`SAMPLES`](wattgate_simulated_board::sampling::SAMPLES).
    pub samples: u32,
    /// The time constant of its registers, as the driver shows it.
    pub time_constant: Duration,
}

/// L4T's setting, and a faster one that shows a step soon.
pub const SENSORS: [Sensor; 2] = [Sensor::L4T, Sensor::from_sampling(Sampling::of_samples(64))];

impl Sensor {
    /// L4T's setting.
    pub const L4T: Self = Self::from_sampling(Sampling::L4T);

    /// L4T's setting with another number of samples.
    pub fn with_samples(samples: u32) -> Self {
        Self {
            samples,
            ..Self::from_sampling(Sampling::L4T.with_samples(samples.into()))
        }
    }

    /// Sets the sensors of a board now, or when `begin` is not zero at that time, and keeps holders from
    /// setting them. Returns whether the driver has files for it.
    pub fn fix(&self, tree: &mut Tree, begin: Duration) -> Result<bool, ControlError> {
        let files = tree.files().map(|(path, _)| path.to_owned());
        let chips: Vec<String> = files.filter(|path| path.ends_with("/samples")).collect();
        let at = match begin {
            Duration::ZERO => String::new(),
            begin => format!("at {} ", begin.as_secs_f64()),
        };
        for chip in &chips {
            // A write begins a new conversion.
            let is_set = tree
                .read(chip)
                .is_ok_and(|shown| shown.trim() == self.samples.to_string());
            if !is_set {
                tree.control(&format!("{at}write {chip} {}", self.samples))?;
            }
            tree.control(&format!("{at}refuse {chip} EROFS"))?;
        }
        Ok(!chips.is_empty())
    }

    const fn from_sampling(sampling: Sampling) -> Self {
        Self {
            samples: sampling.samples,
            time_constant: Duration::from_millis(sampling.time_constant_ms() as u64),
        }
    }
}
