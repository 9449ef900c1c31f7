//! How many samples the power sensors average, and the time constant that follows
//! (`jetson-platform.md`, section 6.3).
//!
//! An INA3221 averages as a first-order low-pass. Its time constant is the number of samples times
//! the time to convert all channels once. The driver of JetPack 5 has a file for each: writing
//! `samples` changes the averaging, and `update_interval` shows the time constant. The driver of
//! JetPack 4 has neither file. With fewer samples the reading follows a change faster and shows
//! more of the load's ripple. Offset and gain do not change.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use wattgate_runtime::{MOST_CHIPS, Milliseconds};

use crate::files::{Files, Knob, KnobError};
use crate::journal::{ChangeError, Failures, Journal, put, with_retries};
use crate::power::Rails;
use crate::saved::Saved;

/// Numbers of samples that an INA3221 can average.
pub const SAMPLES: [u32; 8] = [1, 4, 16, 64, 128, 256, 512, 1024];

/// The time constant of the sensors as L4T sets them: 512 samples.
const L4T: Milliseconds = Milliseconds(430);

/// Maximum number of retries until `update_interval` shows the new time constant, half a second in
/// all. A driver shows it at once; the disk of a simulated board shows it later.
const RETRIES: u32 = 250;

/// The longest time constant of an INA3221, in ms: 3 channels × 1024 samples × 2 × 8.244 ms.
const LONGEST_MS: i64 = 50_651;

/// Why the averaging of the power sensors cannot be read or set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AveragingError {
    /// An INA3221 cannot average this number of samples. Nothing was written.
    #[error("{samples} samples, expected 1, 4, 16, 64, 128, 256, 512 or 1024")]
    NoSuchNumber { samples: u32 },
    /// The driver lacks this file, as that of JetPack 4 does. Nothing was written.
    #[error("{}: no such file; this driver cannot set the averaging", path.display())]
    Unavailable { path: Arc<Path> },
    /// The current averaging cannot be read. Nothing was written.
    #[error("{0}; nothing was written")]
    Unknown(KnobError),
    /// A chip refuses the number, or shows a time constant that does not follow from it.
    #[error("{0}")]
    Failed(#[from] ChangeError),
}

/// The chips that measure the total power.
#[derive(Clone, Debug)]
pub(crate) struct Chips(Vec<Chip>);

#[derive(Clone, Debug)]
struct Chip {
    /// The name in a saved state. The number of a hwmon device changes from boot to boot.
    name: Arc<Path>,
    /// The number of samples that are averaged.
    samples: Knob,
    /// The time constant in ms.
    interval: Knob,
}

impl Chips {
    pub(crate) fn of(rails: &Rails) -> Self {
        let mut chips: Vec<Chip> = Vec::new();
        for (device, label) in rails.devices() {
            let samples = device.join("samples");
            if chips.iter().all(|chip| *chip.samples.0 != *samples) {
                chips.push(Chip {
                    name: PathBuf::from(format!("ina3221/{label}/samples")).into(),
                    samples: Knob(samples.into()),
                    interval: Knob(device.join("update_interval").into()),
                });
            }
        }
        Self(chips)
    }

    /// The names in a saved state.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.0.iter().map(|chip| &chip.name)
    }

    /// The number of samples of each chip, by name. Chips whose driver does not show it are left
    /// out.
    pub(crate) fn save(
        &self,
        files: &impl Files,
    ) -> impl Iterator<Item = Result<(Arc<Path>, i64), KnobError>> {
        self.0
            .iter()
            .filter_map(|chip| match chip.samples.read(files) {
                Err(error) if error.is_missing() => None,
                samples => Some(samples.map(|samples| (chip.name.clone(), samples))),
            })
    }

    /// Sets each chip to its saved number of samples. Goes on after a failure.
    pub(crate) fn restore(&self, files: &mut impl Files, saved: &Saved) -> Failures {
        let mut failures = Failures::default();
        let mut journal = Journal::new(self.0.len());
        for chip in &self.0 {
            if let Some(samples) = saved.named(&chip.name)
                && let Err(error) = put(files, &mut journal, &chip.samples, samples)
            {
                failures.add(error);
            }
        }
        failures
    }

    /// See [`Board::time_constants`](crate::Board::time_constants).
    pub(crate) fn time_constants(&self, files: &impl Files) -> [Milliseconds; MOST_CHIPS] {
        std::array::from_fn(|number| {
            let chip = self.0.get(number);
            chip.and_then(|chip| chip.time_constant(files))
                .unwrap_or(L4T)
        })
    }

    /// See [`Board::time_constant`](crate::Board::time_constant).
    pub(crate) fn time_constant(&self, files: &impl Files) -> Milliseconds {
        let all = self.time_constants(files);
        let of_chips = all.into_iter().take(self.0.len());
        of_chips.max().unwrap_or(L4T)
    }

    /// See [`Board::averaging`](crate::Board::averaging).
    pub(crate) fn averaging(&self, files: &impl Files) -> Result<u32, AveragingError> {
        self.0.iter().try_fold(0, |most, chip| {
            let samples = known(&chip.samples, files)?;
            let samples = u32::try_from(samples).map_err(|_| {
                let path = chip.samples.0.clone();
                AveragingError::Unknown(KnobError::NotANumber { path })
            })?;
            Ok(most.max(samples))
        })
    }

    /// See [`Board::set_averaging`](crate::Board::set_averaging).
    pub(crate) fn set_averaging(
        &self,
        files: &mut impl Files,
        samples: u32,
    ) -> Result<Milliseconds, AveragingError> {
        if !SAMPLES.contains(&samples) {
            return Err(AveragingError::NoSuchNumber { samples });
        }
        let chips = self.0.iter();
        let before: Result<Vec<Setting>, _> = chips.map(|chip| chip.setting(files)).collect();
        let mut journal = Journal::new(self.0.len());
        match self.set(files, &mut journal, &before?, samples) {
            Ok(()) => Ok(self.time_constant(files)),
            Err(cause) => Err(journal.undo(files, cause).into()),
        }
    }

    fn set(
        &self,
        files: &mut impl Files,
        journal: &mut Journal,
        before: &[Setting],
        samples: u32,
    ) -> Result<(), KnobError> {
        for (chip, before) in self.0.iter().zip(before) {
            put(files, journal, &chip.samples, samples.into())?;
            with_retries(files, RETRIES, |files| {
                let found = chip.interval.read(files)?;
                match before.leads_to(samples.into(), found) {
                    true => Ok(()),
                    false => Err(KnobError::Differs {
                        path: chip.interval.0.clone(),
                        wanted: before.interval_with(samples.into()),
                        found,
                    }),
                }
            })?;
        }
        Ok(())
    }
}

/// The settings of a chip.
#[derive(Clone, Copy, Debug)]
struct Setting {
    samples: i64,
    /// Time constant in ms.
    interval: i64,
}

impl Setting {
    /// The interval in ms at another number of samples.
    fn interval_with(self, samples: i64) -> i64 {
        let product = self.interval.saturating_mul(samples);
        product.saturating_add(self.samples / 2) / self.samples.max(1)
    }

    /// Whether `interval` at `samples` fits this setting: the interval is proportional to the
    /// number of samples, and the driver rounds both intervals to 1 ms.
    fn leads_to(self, samples: i64, interval: i64) -> bool {
        let [before, samples] = [self.samples, samples].map(i128::from);
        let off = i128::from(interval) * before - i128::from(self.interval) * samples;
        2 * off.abs() <= before + samples
    }
}

impl Chip {
    /// Reads both files.
    fn setting(&self, files: &impl Files) -> Result<Setting, AveragingError> {
        Ok(Setting {
            samples: known(&self.samples, files)?,
            interval: known(&self.interval, files)?,
        })
    }

    fn time_constant(&self, files: &impl Files) -> Option<Milliseconds> {
        let interval = self.interval.read(files).ok();
        let interval = interval.filter(|ms| (0..=LONGEST_MS).contains(ms))?;
        // The driver rounds to whole ms: 0 is less than half a ms.
        Some(Milliseconds(interval.max(1).unsigned_abs()))
    }
}

fn known(knob: &Knob, files: &impl Files) -> Result<i64, AveragingError> {
    knob.read(files).map_err(|error| match error.is_missing() {
        true => AveragingError::Unavailable {
            path: knob.0.clone(),
        },
        false => AveragingError::Unknown(error),
    })
}
