//! The meter of the supply: reads its file, and sees when it cannot be trusted. A fault is never an error of the daemon:
//! the meter then counts as absent.

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use wattgate_board::{Files, Refusal};
use wattgate_runtime::{Milliseconds, Milliwatts};

use crate::deadline::InTime;
use crate::quantity::Watts;
use crate::supply::{MeterFile, MeterUnit};

/// Interval of readings. A meter on the bus of the module's sensor takes 0.3 % of it.
const INTERVAL: Milliseconds = Milliseconds(250);

/// A meter that does not answer for this time is absent.
const SILENCE: Milliseconds = Milliseconds(5_000);

/// A meter shows a move of the module's power within this time, or it stands still. Until then its number is not used.
const STILL: Milliseconds = Milliseconds(15_000);

/// A move of the module's power that every meter shows: in mW, and as a part of the power.
const MOVE_MW: f64 = 2_000.0;
const MOVE_PART: f64 = 0.1;

/// A supply draws no less than its module. A meter that shows less than this part for this time is another thing's, or
/// has another unit.
const FAR_BELOW: f64 = 0.5;
const BELOW_TIME: Milliseconds = Milliseconds(5_000);

/// The highest limit that there is, in mW. What is above is no board's.
const MOST_MW: f64 = 1e6;

/// A meter that had a fault counts again after it has worked for this time.
const TRUST: Milliseconds = Milliseconds(10_000);

/// How long `check` waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

/// Why a meter counts as absent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MeterFault {
    Unreadable(Refusal),
    /// A folder, a pipe or a device.
    NoFile,
    NoNumber,
    Silent,
    NoPower,
    Absurd(Milliwatts),
    Still,
    FarBelow {
        shown: Milliwatts,
        module: Milliwatts,
    },
}

impl fmt::Display for MeterFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read: {why}"),
            Self::NoFile => f.write_str(
                "is no regular file; name one that shows a number, such as power1_input of hwmon",
            ),
            Self::NoNumber => f.write_str("shows no number"),
            Self::Silent => f.write_str("does not answer"),
            Self::NoPower => f.write_str("shows no power, although the board runs"),
            Self::Absurd(shown) => write!(
                f,
                "shows {}, more than any board draws; check meter_unit",
                Watts(*shown)
            ),
            Self::Still => f.write_str("stands still, although the module's power moves"),
            Self::FarBelow { shown, module } => write!(
                f,
                "shows {}, far below the {} of the module; check meter_unit, and that the meter is the supply's",
                Watts(*shown),
                Watts(*module)
            ),
        }
    }
}

/// What the module draws: now, and at least in the last seconds, in mW. A meter may lag.
#[derive(Clone, Copy, Debug)]
pub struct ModulePower {
    pub now: f64,
    pub least: f64,
}

/// The state of a meter.
#[derive(Clone, Debug)]
pub struct Meter {
    path: Arc<Path>,
    unit: MeterUnit,
    asked: Option<Milliseconds>,
    answered: Option<Milliseconds>,
    /// The last number, in mW.
    shown: Option<f64>,
    /// The lowest and the highest power of the module since that number came, and since when they are a move apart.
    range: (f64, f64),
    moved: Option<Milliseconds>,
    /// Since when it is far below the module.
    below: Option<Milliseconds>,
    fault: Option<MeterFault>,
    /// Since when it works again.
    works: Option<Milliseconds>,
}

impl Meter {
    /// The meter that a config names, of the board whose files are below `root`. Nothing is read yet.
    pub fn new(file: &MeterFile, root: &Path) -> Self {
        let path = file.path.strip_prefix("/").unwrap_or(&file.path);
        Self {
            path: root.join(path).into(),
            unit: file.unit,
            asked: None,
            answered: None,
            shown: None,
            range: (0.0, 0.0),
            moved: None,
            below: None,
            fault: None,
            works: None,
        }
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What it shows; `None` while it has a fault, or has not answered yet.
    pub fn shown(&self) -> Option<Milliwatts> {
        let shown = self.shown.filter(|_| self.fault.is_none());
        shown.map(|milliwatts| Milliwatts(milliwatts as u32))
    }

    /// Why it counts as absent.
    pub fn fault(&self) -> Option<MeterFault> {
        self.fault
    }

    /// Reads it if that is due. Returns its number in mW if that can be trusted. Does not allocate.
    pub fn poll(
        &mut self,
        files: &impl Files,
        now: Milliseconds,
        module: ModulePower,
    ) -> Option<f64> {
        if self.asked.is_some_and(|at| now.since(at) < INTERVAL) {
            return None;
        }
        self.asked = Some(now);
        let read = match self.read(files) {
            // A slow meter answers later.
            None => {
                let answered = *self.answered.get_or_insert(now);
                match now.since(answered) < SILENCE {
                    true => return None,
                    false => Err(MeterFault::Silent),
                }
            }
            Some(read) => {
                self.answered = Some(now);
                read.and_then(|milliwatts| self.checked(milliwatts, now, module))
            }
        };
        match read {
            // The number is from before the module's power has moved.
            Ok(_) if self.moved.is_some() => None,
            Ok(milliwatts) if self.fault.is_some() => {
                let works = *self.works.get_or_insert(now);
                if now.since(works) < TRUST {
                    return None;
                }
                (self.fault, self.works) = (None, None);
                Some(milliwatts)
            }
            Ok(milliwatts) => Some(milliwatts),
            Err(fault) => {
                (self.fault, self.works) = (Some(fault), None);
                None
            }
        }
    }

    /// Reads the number in mW; `None` if it is still on its way.
    fn read(&self, files: &impl Files) -> Option<Result<f64, MeterFault>> {
        let mut buffer = [0; 64];
        let text = match files.read(&self.path, &mut buffer) {
            Ok(text) => text.trim().parse::<f64>().ok(),
            Err(why) => match why.kind() {
                ErrorKind::WouldBlock => return None,
                ErrorKind::FileTooLarge | ErrorKind::InvalidData => None,
                ErrorKind::Unsupported => return Some(Err(MeterFault::NoFile)),
                _ => return Some(Err(MeterFault::Unreadable(why.into()))),
            },
        };
        let number = text.filter(|number| number.is_finite());
        let milliwatts = number.map(|number| number * self.unit.milliwatts());
        Some(match milliwatts {
            None => Err(MeterFault::NoNumber),
            Some(none) if none <= 0.0 => Err(MeterFault::NoPower),
            Some(absurd) if absurd > MOST_MW => Err(MeterFault::Absurd(Milliwatts(absurd as u32))),
            Some(milliwatts) => Ok(milliwatts),
        })
    }

    /// Holds a number against what the module draws.
    fn checked(
        &mut self,
        milliwatts: f64,
        now: Milliseconds,
        module: ModulePower,
    ) -> Result<f64, MeterFault> {
        let is_same = |before: f64| before.to_bits() == milliwatts.to_bits();
        if self.shown.is_some_and(is_same) {
            let (least, most) = self.range;
            self.range = (least.min(module.now), most.max(module.now));
        } else {
            (self.range, self.moved) = ((module.now, module.now), None);
        }
        self.shown = Some(milliwatts);
        let (least, most) = self.range;
        if most - least >= MOVE_MW.max(MOVE_PART * most) {
            let moved = *self.moved.get_or_insert(now);
            if now.since(moved) >= STILL {
                return Err(MeterFault::Still);
            }
        }
        if milliwatts >= FAR_BELOW * module.least {
            self.below = None;
        } else if now.since(*self.below.get_or_insert(now)) >= BELOW_TIME {
            return Err(far_below(milliwatts, module.least));
        }
        Ok(milliwatts)
    }

    /// Reads it once, within a second, and holds the number against the module's power.
    pub fn look(&self, module: Option<Milliwatts>) -> Result<Milliwatts, MeterFault> {
        let files = InTime::with_meter(Some(&self.path));
        let files = files.map_err(|why| MeterFault::Unreadable(why.into()))?;
        let start = Instant::now();
        let milliwatts = loop {
            match self.read(&files) {
                Some(read) => break read?,
                None if start.elapsed() >= PATIENCE => return Err(MeterFault::Silent),
                None => thread::sleep(Duration::from_millis(5)),
            }
        };
        match module.map(|module| f64::from(module.0)) {
            Some(module) if milliwatts < FAR_BELOW * module => Err(far_below(milliwatts, module)),
            _ => Ok(Milliwatts(milliwatts as u32)),
        }
    }
}

fn far_below(shown: f64, module: f64) -> MeterFault {
    let [shown, module] = [shown, module].map(|it| Milliwatts(it as u32));
    MeterFault::FarBelow { shown, module }
}
