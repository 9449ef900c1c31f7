//! How many samples the power sensors average, and the time constant that follows
//! (`jetson-platform.md`, section 6.3).
//!
//! An INA3221 averages as a first-order low-pass. Its time constant is the number of samples times
//! the cycle, the time to convert all enabled channels once. Writing `samples` changes the
//! averaging. `update_interval` shows, rounded to 1 ms, the time constant on JetPack 5 (Linux 5.10)
//! and the cycle since JetPack 6 (Linux 5.14, commit "use CVRF only for single-shot conversion").
//! The driver of JetPack 4 has neither file. With fewer samples the reading follows a change faster
//! and shows more of the load's ripple. Offset and gain do not change.
//!
//! The averaging of an INA238, or of another chip at the input of the board, cannot be set.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use wattgate_runtime::Milliseconds;
use wattgate_runtime::estimator::MOST_CHIPS;

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
const INTERVAL_RETRIES: u32 = 250;

/// Conversion times of an INA3221 in µs. L4T selects the shortest one.
const CONVERSION_US: [i64; 8] = [140, 204, 332, 588, 1100, 2116, 4156, 8244];

/// The longest time constant of an INA3221, in ms: 3 channels × 1024 samples × 2 × 8.244 ms.
const LONGEST_TIME_CONSTANT_MS: i64 = 50_651;

/// Why the averaging of the power sensors cannot be read or set.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AveragingError {
    /// An INA3221 cannot average this number of samples. Nothing was written.
    #[error("{samples} samples, expected 1, 4, 16, 64, 128, 256, 512 or 1024")]
    NoSuchNumber { samples: u32 },
    /// The driver lacks this file, as that of JetPack 4 does. Nothing was written.
    #[error("{}: no such file; this driver cannot set the averaging", path.display())]
    Unavailable { path: Arc<Path> },
    /// The driver of an INA238 fixes the averaging. Nothing was written.
    #[error("{}: the averaging of this chip cannot be set", device.display())]
    Fixed { device: PathBuf },
    /// The current averaging cannot be read. Nothing was written.
    #[error("{0}; nothing was written")]
    Unknown(KnobError),
    /// A chip refuses the number, or shows a time constant that does not follow from it.
    #[error("{0}")]
    Failed(#[from] ChangeError),
}

/// The chips that measure the total power.
#[derive(Clone, Debug)]
pub(crate) struct Chips {
    chips: Vec<Chip>,
    /// The directory of the chip that measures it instead, and how far its readings lag.
    fixed: Option<(PathBuf, Milliseconds)>,
}

/// An INA3221.
#[derive(Clone, Debug)]
struct Chip {
    /// The name in a saved state. The number of a hwmon device changes from boot to boot.
    name: Arc<Path>,
    /// The number of samples that are averaged.
    samples: Knob,
    /// The time constant or the cycle, in ms.
    interval: Knob,
    /// Whether each channel is converted.
    enabled: [Knob; 3],
}

impl Chips {
    pub(crate) fn from_rails(rails: &Rails) -> Self {
        let mut chips: Vec<Chip> = Vec::new();
        for (device, label) in rails.devices() {
            let samples = device.join("samples");
            if chips.iter().all(|chip| *chip.samples.0 != *samples) {
                chips.push(Chip {
                    name: PathBuf::from(format!("ina3221/{label}/samples")).into(),
                    samples: Knob(samples.into()),
                    interval: Knob(device.join("update_interval").into()),
                    enabled: [1, 2, 3]
                        .map(|channel| Knob(device.join(format!("in{channel}_enable")).into())),
                });
            }
        }
        Self {
            chips,
            fixed: rails
                .input()
                .map(|input| (input.device().to_owned(), input.time_constant)),
        }
    }

    /// The names in a saved state.
    pub(crate) fn names(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.chips.iter().map(|chip| &chip.name)
    }

    /// The number of samples of each chip, by name. Chips whose driver does not show it are left
    /// out.
    pub(crate) fn save(
        &self,
        files: &impl Files,
    ) -> impl Iterator<Item = Result<(Arc<Path>, i64), KnobError>> {
        self.chips
            .iter()
            .filter_map(|chip| match chip.samples.read(files) {
                Err(error) if error.is_missing() => None,
                samples => Some(samples.map(|samples| (chip.name.clone(), samples))),
            })
    }

    /// Sets each chip to its saved number of samples. Goes on after a failure.
    pub(crate) fn restore(&self, files: &mut impl Files, saved: &Saved) -> Failures {
        let mut failures = Failures::default();
        let mut journal = Journal::new();
        for chip in &self.chips {
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
            if number == 0
                && let Some((_, time_constant)) = self.fixed
            {
                return time_constant;
            }
            let chip = self.chips.get(number);
            chip.and_then(|chip| chip.time_constant(files))
                .unwrap_or(L4T)
        })
    }

    /// See [`Board::time_constant`](crate::Board::time_constant).
    pub(crate) fn time_constant(&self, files: &impl Files) -> Milliseconds {
        let all = self.time_constants(files);
        let of_chips = all.into_iter().take(self.chips.len().max(1));
        of_chips.max().unwrap_or(L4T)
    }

    /// See [`Board::averaging`](crate::Board::averaging).
    pub(crate) fn averaging(&self, files: &impl Files) -> Result<u32, AveragingError> {
        self.settable()?.iter().try_fold(0, |most, chip| {
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
        let chips = self.settable()?.iter();
        let before: Result<Vec<Setting>, _> = chips.map(|chip| chip.setting(files)).collect();
        let mut journal = Journal::new();
        match self.set(files, &mut journal, &before?, samples) {
            Ok(()) => Ok(self.time_constant(files)),
            Err(cause) => Err(journal.undo(files, cause).into()),
        }
    }

    /// The chips whose averaging can be set.
    fn settable(&self) -> Result<&[Chip], AveragingError> {
        match &self.fixed {
            Some((device, _)) => Err(AveragingError::Fixed {
                device: device.clone(),
            }),
            None => Ok(&self.chips),
        }
    }

    fn set(
        &self,
        files: &mut impl Files,
        journal: &mut Journal,
        before: &[Setting],
        samples: u32,
    ) -> Result<(), KnobError> {
        for (chip, before) in self.chips.iter().zip(before) {
            put(files, journal, &chip.samples, samples.into())?;
            with_retries(files, INTERVAL_RETRIES, |files| {
                let found = chip.interval.read(files)?;
                let after = Setting {
                    samples: samples.into(),
                    interval: found,
                    ..*before
                };
                match before.has_cycle_of(after) {
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
    /// The time constant or the cycle, in ms.
    interval: i64,
    /// Number of enabled channels.
    channels: i64,
}

impl Setting {
    /// The time constant in ms.
    fn time_constant_ms(self) -> i64 {
        self.cycle_us().map_or(self.interval, |cycle_us| {
            whole_ms(cycle_us.saturating_mul(self.samples))
        })
    }

    /// The time to convert all enabled channels, in µs. Where several fit, the shortest one is that
    /// of L4T.
    fn cycle_us(self) -> Option<i64> {
        self.cycles_us().find(|cycle_us| self.fits(*cycle_us))
    }

    /// The possible cycles in µs.
    fn cycles_us(self) -> impl Iterator<Item = i64> {
        let channels = self.channels;
        CONVERSION_US.into_iter().map(move |us| 2 * channels * us)
    }

    /// Whether the driver of JetPack 5, or that of a later one, shows this cycle so.
    fn fits(self, cycle_us: i64) -> bool {
        let time_constant_us = cycle_us.saturating_mul(self.samples);
        [cycle_us, time_constant_us]
            .map(whole_ms)
            .contains(&self.interval)
    }

    /// Whether a cycle fits both settings.
    fn has_cycle_of(self, other: Self) -> bool {
        self.cycles_us().any(|us| self.fits(us) && other.fits(us))
    }

    /// The interval in ms that the driver should show with another number of samples.
    fn interval_with(self, samples: i64) -> i64 {
        let interval_of = |cycle_us: i64, samples| whole_ms(cycle_us.saturating_mul(samples));
        match self.cycle_us() {
            Some(us) if interval_of(us, self.samples) == self.interval => interval_of(us, samples),
            _ => self.interval,
        }
    }
}

fn whole_ms(us: i64) -> i64 {
    us.saturating_add(500) / 1000
}

impl Chip {
    /// Reads all files.
    fn setting(&self, files: &impl Files) -> Result<Setting, AveragingError> {
        Ok(Setting {
            samples: known(&self.samples, files)?,
            interval: known(&self.interval, files)?,
            channels: self.channels(files),
        })
    }

    /// The number of enabled channels. A channel whose file cannot be read counts.
    fn channels(&self, files: &impl Files) -> i64 {
        let counts = |enabled: &&Knob| enabled.read(files) != Ok(0);
        self.enabled.iter().filter(counts).count() as i64
    }

    /// None if a file cannot be read or shows what no INA3221 has.
    fn time_constant(&self, files: &impl Files) -> Option<Milliseconds> {
        let setting = self.setting(files).ok()?;
        let number = u32::try_from(setting.samples).ok();
        number.filter(|samples| SAMPLES.contains(samples))?;
        let ms = Some(setting.time_constant_ms())
            .filter(|ms| (0..=LONGEST_TIME_CONSTANT_MS).contains(ms))?;
        // Less than half a ms is 0.
        Some(Milliseconds(ms.max(1).unsigned_abs()))
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
