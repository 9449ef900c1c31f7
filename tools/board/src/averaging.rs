//! How many samples the power sensors average, and the time constant that follows
//! (`jetson-platform.md`, section 6.3).
//!
//! An INA3221 averages as a low-pass of first order. Its time constant is the time that all
//! channels take to be converted so many times. The driver of JetPack 5 has both in files:
//! writing `samples` changes the averaging, and `update_interval` shows the time constant. The driver
//! of JetPack 4 has neither. Fewer samples show a change earlier and the load's ripple more. Offset and
//! gain stay.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use wattgate_runtime::{MOST_CHIPS, Milliseconds};

use crate::discover::Board;
use crate::files::{Files, Knob, KnobError};
use crate::power::Rails;
use crate::saved::Saved;
use crate::transition::{Failures, Journal, patiently, put};

/// Numbers of samples that an INA3221 can average.
pub const SAMPLES: [u32; 8] = [1, 4, 16, 64, 128, 256, 512, 1024];

/// The time constant of the sensors as L4T sets them: 512 samples.
const L4T: Milliseconds = Milliseconds(430);

/// The file of the time constant is looked at again so many times at most, for half a second: on the
/// disk of a simulated board it follows later, and nobody waits where it is right at once.
const LOOKS: u32 = 250;

/// The longest of an INA3221, in ms: 3 channels × 1024 samples × 2 × 8.244 ms.
const LONGEST_MS: i64 = 50_651;

/// Why the power sensors do not average so many samples.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AveragingError {
    /// No INA3221 can. Nothing was written.
    #[error("{samples} samples, expected 1, 4, 16, 64, 128, 256, 512 or 1024")]
    NoSuchNumber { samples: u32 },
    /// A driver without this file, such as that of JetPack 4. Nothing was written.
    #[error("{}: not there: on this board the averaging cannot be set", path.display())]
    Unavailable { path: Arc<Path> },
    /// It is not known what is set. Nothing was written.
    #[error("{0}; nothing was written")]
    Unknown(KnobError),
    /// A chip does not take it, or shows another time constant than follows from it.
    /// All chips average as before.
    #[error("{cause}; all writes before were undone")]
    Undone { cause: KnobError },
    /// The same, and not all chips could be brought back.
    #[error("{cause}; {left} writes could not be undone, the first failure: {first}")]
    NotUndone {
        cause: KnobError,
        /// The number of writes that were not taken back.
        left: u32,
        /// In the order of undoing.
        first: KnobError,
    },
}

/// The chips that the total comes from.
#[derive(Clone, Debug)]
pub(crate) struct Chips(Vec<Chip>);

#[derive(Clone, Debug)]
struct Chip {
    /// In a saved state, where the number of a hwmon device would not last.
    name: Arc<Path>,
    /// How many are averaged.
    samples: Knob,
    /// In ms.
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

    /// What each chip averages, by name; without those whose driver does not tell.
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

    /// Each chip that was saved averages as it did then; one that fails does not keep the others
    /// from it.
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

    fn set(
        &self,
        files: &mut impl Files,
        journal: &mut Journal,
        before: &[Setting],
        samples: u32,
    ) -> Result<(), KnobError> {
        for (chip, before) in self.0.iter().zip(before) {
            put(files, journal, &chip.samples, samples.into())?;
            patiently(files, LOOKS, |files| {
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

/// What a chip is set to.
#[derive(Clone, Copy, Debug)]
struct Setting {
    samples: i64,
    /// In ms.
    interval: i64,
}

impl Setting {
    /// In ms, of another number of samples.
    fn interval_with(self, samples: i64) -> i64 {
        let product = self.interval.saturating_mul(samples);
        product.saturating_add(self.samples / 2) / self.samples.max(1)
    }

    /// The interval is as many times longer as there are more samples; the driver rounds both
    /// times to 1 ms.
    fn leads_to(self, samples: i64, interval: i64) -> bool {
        let [before, samples] = [self.samples, samples].map(i128::from);
        let off = i128::from(interval) * before - i128::from(self.interval) * samples;
        2 * off.abs() <= before + samples
    }
}

impl Chip {
    /// Both files, or which one there is not.
    fn setting(&self, files: &impl Files) -> Result<Setting, AveragingError> {
        Ok(Setting {
            samples: known(&self.samples, files)?,
            interval: known(&self.interval, files)?,
        })
    }

    fn time_constant(&self, files: &impl Files) -> Option<Milliseconds> {
        let interval = self.interval.read(files).ok();
        let interval = interval.filter(|ms| (0..=LONGEST_MS).contains(ms))?;
        // Less than half a ms is shown as none.
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

impl Board {
    /// The time constant of each chip of the total, as the driver gives it; where it does not,
    /// 430 ms as L4T sets it. A chip's own oscillator may make it some percent longer or shorter. Does
    /// not allocate on a disk.
    pub fn time_constants(&self, files: &impl Files) -> [Milliseconds; MOST_CHIPS] {
        std::array::from_fn(|number| {
            let chip = self.chips.0.get(number);
            chip.and_then(|chip| chip.time_constant(files))
                .unwrap_or(L4T)
        })
    }

    /// The longest of all chips.
    pub fn time_constant(&self, files: &impl Files) -> Milliseconds {
        let all = self.time_constants(files);
        let of_chips = all.into_iter().take(self.chips.0.len());
        of_chips.max().unwrap_or(L4T)
    }

    /// How many samples are averaged; the largest number where chips differ.
    /// Errors: [`AveragingError::Unavailable`] and [`AveragingError::Unknown`].
    pub fn averaging(&self, files: &impl Files) -> Result<u32, AveragingError> {
        self.chips.0.iter().try_fold(0, |most, chip| {
            let samples = known(&chip.samples, files)?;
            let samples = u32::try_from(samples).map_err(|_| {
                let path = chip.samples.0.clone();
                AveragingError::Unknown(KnobError::NotANumber { path })
            })?;
            Ok(most.max(samples))
        })
    }

    /// Lets all chips of the total average so many samples, one of [`SAMPLES`], and gives the
    /// [time constant](Self::time_constant) that follows. Every write is read back, and where one
    /// fails all are undone. A chip that averages so many already is not written to.
    pub fn set_averaging(
        &self,
        files: &mut impl Files,
        samples: u32,
    ) -> Result<Milliseconds, AveragingError> {
        if !SAMPLES.contains(&samples) {
            return Err(AveragingError::NoSuchNumber { samples });
        }
        let chips = self.chips.0.iter();
        let before: Result<Vec<Setting>, _> = chips.map(|chip| chip.setting(files)).collect();
        let mut journal = Journal::new(self.chips.0.len());
        match self.chips.set(files, &mut journal, &before?, samples) {
            Ok(()) => Ok(self.time_constant(files)),
            Err(cause) => {
                let failures = journal.undo(files);
                Err(match failures.first {
                    None => AveragingError::Undone { cause },
                    Some(first) => AveragingError::NotUndone {
                        cause,
                        left: failures.count,
                        first,
                    },
                })
            }
        }
    }
}
