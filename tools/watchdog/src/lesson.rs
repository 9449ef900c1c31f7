//! What the daemon has learned of this unit of the board, for the next boot: how much more or less than the model predicts
//! it draws. Only full load can make a choice bolder; what a part of it shows, the unit draws at least. All counts with
//! an allowance for a warmer chip.
//!
//! A lesson is a text file. It belongs to one unit, model and sensor; what a mode has taught ends after half a year.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board::Board;
use wattgate_runtime::fleet::{POWER_SPREAD, TILT_SPREAD, Unit, UnitId};
use wattgate_runtime::format::crc32;
use wattgate_runtime::{Milliseconds, Milliwatts, ModeId};

use crate::clock::UtcSeconds;
use crate::config::STATE_DIR;
use crate::full_load::Drawn;

/// The folder of the files, and their version.
const FOLDER: &str = "lessons";
const LESSON_VERSION: &str = "wattgate lesson 2";

/// Longest file that is read, in bytes, and the most modes in one.
const LONGEST_FILE: u64 = 4_096;
const MOST_TAUGHT: usize = 16;

/// A mode teaches after this time under load: in the ten seconds of `once --measure`, in which the governor tries some modes
/// for two seconds each, and in the daemon.
pub const SHORT_TIME: Milliseconds = Milliseconds(1_000);
pub const LONG_TIME: Milliseconds = Milliseconds(30_000);

/// Under full load, no mode may draw less than this part of the prediction: the governor's bound for a board that works
/// (`SURE_LEVEL` of `runtime/src/governor/memory.rs`).
const LEAST_LEVEL: f32 = 0.85;

/// How much warmer the chip may be, in K, than when the lesson was learned.
pub const WARMER_K: f32 = 30.0;

/// The same for the mode that `once --measure` sets: the workload runs already, and the heat sink follows it for some
/// minutes more. Assumed.
pub const RISE_K: f32 = 10.0;

/// ln of the power gained for each K, where it was not measured: that of the simulated AGX Orin, which leaks most
/// (`tools/simulator/judge/tests/it/fleet.rs`). The range in which a measured one is believed.
pub const PER_KELVIN: f32 = 0.0065;
const PER_KELVIN_RANGE: [f32; 2] = [0.001, 0.009];

/// The largest difference of a unit that is believed, as a logarithm: three deviations between two units. More is another
/// load, or a broken sensor.
const MOST_DIFFERENCE: f32 = 3.0 * std::f32::consts::SQRT_2 * POWER_SPREAD;

/// Deviations that a bound at 95 % has.
const AT_95: f32 = 1.645;

/// A power whose logarithm differs by this much tells about the tilt as much as is known before.
const KNOWN_BEFORE: f32 = 0.2;

/// What a mode has taught ends after half a year: fans wear, and dust settles.
const LIFETIME_S: i64 = 183 * 86_400;

/// What the modes of a unit drew.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    pub subject: Subject,
    /// ln of the power gained for each K, if it was measured.
    pub per_kelvin: Option<f32>,
    /// At least one, the newest first.
    pub modes: Vec<TaughtMode>,
}

/// What a mode has taught.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaughtMode {
    pub mode: ModeId,
    /// Whether the load was the full one. A part of it shows only what the unit draws at least.
    pub is_full: bool,
    /// ln of the highest power over the model's prediction.
    pub ln: f32,
    pub at: UtcSeconds,
}

/// What a mode has taught, beside the model's prediction of its power and the bound of that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen {
    pub predicted: Milliwatts,
    pub guarded: Milliwatts,
    pub taught: TaughtMode,
}

/// What a lesson is of: on another unit, with another model or sensor it says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    pub unit: Option<UnitId>,
    /// CRC-32 of the model's file.
    pub model: u32,
    /// CRC-32 of the board's name and of the rails that its power sensor measures.
    pub sensor: u32,
}

impl Subject {
    /// Of a unit, a model and a board.
    pub fn new(unit: Option<UnitId>, model: &[u8], board: &Board) -> Self {
        let mut text = board.identity().compatible.join(",");
        for rail in board.rails() {
            text.push('+');
            text.push_str(rail);
        }
        Self {
            unit,
            model: crc32(model),
            sensor: crc32(text.as_bytes()),
        }
    }
}

/// Why nothing was learned.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
pub enum NoLesson {
    /// The GPU was not busy for long enough in any mode.
    #[error(
        "the GPU was not busy for long enough in one mode: an idle board teaches nothing, so run the workload meanwhile"
    )]
    NoLoad,
    /// No unit differs as much.
    #[error(
        "the power is {ratio:.2} times the prediction, and no unit differs as much: run the workload of the model at full load; \
         if it does run so, the sensor or the model is wrong"
    )]
    FarOff { ratio: f32 },
    /// The unit has no id, so that a lesson could be of any.
    #[error("the board has no serial number, so that nobody knows of which unit a lesson is")]
    NoUnit,
    /// What was measured before may be wrong, too.
    #[error(
        "the power sensor has failed; `wattgated status` tells why, `dmesg` shows its driver's errors"
    )]
    NoSensor,
}

/// Why a lesson is not used.
#[derive(Debug, Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// Something else is in its place.
    #[error("{}: expected a file, found a folder or a device; remove it, so that the daemon can save what it learns", path.display())]
    NoFile { path: PathBuf },
    /// The file is truncated or changed.
    #[error("{}: damaged; the daemon will write it anew", path.display())]
    Damaged { path: PathBuf },
    /// The lesson is of something else.
    #[error("what was learned is of another {0}")]
    Other(&'static str),
    /// The date has not come yet, or the clock is not set.
    #[error("what was learned is dated in the future, or the clock is not set; set the clock")]
    Future,
    /// It is too old.
    #[error("what was learned is {days} days old")]
    Old { days: i64 },
}

impl Lesson {
    /// From what modes drew for at least a time, each beside the model's prediction.
    pub fn new(
        subject: Subject,
        at: UtcSeconds,
        least: Milliseconds,
        drawn: &[(Milliwatts, Drawn)],
    ) -> Result<Self, NoLesson> {
        if subject.unit.is_none() {
            return Err(NoLesson::NoUnit);
        }
        let is_long = |(predicted, it): &&(Milliwatts, Drawn)| predicted.0 > 0 && it.busy >= least;
        let long: Vec<&(Milliwatts, Drawn)> = drawn.iter().filter(is_long).collect();
        let taught = |(predicted, it): &&(Milliwatts, Drawn)| TaughtMode {
            mode: it.mode,
            is_full: it.full >= least,
            ln: (it.highest.0 as f32 / predicted.0 as f32).ln(),
            at,
        };
        let mut modes: Vec<TaughtMode> = long.iter().map(taught).collect();
        let far = modes.iter().find(|it| {
            let least = if it.is_full {
                LEAST_LEVEL.ln()
            } else {
                f32::MIN
            };
            !(least..=MOST_DIFFERENCE).contains(&it.ln)
        });
        if let Some(far) = far {
            return Err(NoLesson::FarOff {
                ratio: far.ln.exp(),
            });
        }
        // A part of the load that shows less than any unit draws shows nothing.
        modes.retain(|it| it.ln >= -MOST_DIFFERENCE);
        modes.truncate(MOST_TAUGHT);
        let measured = long.iter().filter_map(|(_, it)| it.per_kelvin());
        match modes.is_empty() {
            true => Err(NoLesson::NoLoad),
            false => Ok(Self {
                subject,
                per_kelvin: per_kelvin(measured),
                modes,
            }),
        }
    }

    /// Whether a mode was seen under full load.
    pub fn is_full(&self) -> bool {
        self.modes.iter().any(|it| it.is_full)
    }

    /// When the newest mode was seen.
    pub fn at(&self) -> UtcSeconds {
        let latest = self.modes.iter().map(|it| it.at).max_by_key(|at| at.0);
        latest.unwrap_or(UtcSeconds(0))
    }

    /// ln of the power that a chip gains which is so much warmer, in K.
    pub fn warmer(&self, kelvins: f32) -> f32 {
        kelvins * self.per_kelvin.unwrap_or(PER_KELVIN)
    }

    /// With what an older lesson of the same subject says beyond this one: other modes, full load where this one has seen
    /// a part, and higher powers than that.
    #[must_use]
    pub fn after(mut self, older: &Self) -> Self {
        if older.subject != self.subject {
            return self;
        }
        for old in &older.modes {
            let known = self.modes.iter_mut().find(|it| it.mode == old.mode);
            match known {
                None => self.modes.push(*old),
                Some(new) if !new.is_full => {
                    new.is_full = old.is_full;
                    new.ln = new.ln.max(old.ln);
                }
                Some(_) => {}
            }
        }
        // Full load first. The modes of this lesson stand before those of the older one.
        let (mut modes, part): (Vec<_>, Vec<_>) = self.modes.iter().partition(|it| it.is_full);
        modes.extend(part);
        modes.truncate(MOST_TAUGHT);
        self.modes = modes;
        self.per_kelvin = self.per_kelvin.or(older.per_kelvin);
        self
    }

    /// What is of this unit, model and sensor, and not too old. Fails if that is nothing.
    pub fn checked(mut self, subject: &Subject, now: UtcSeconds) -> Result<Self, Unusable> {
        let age = now.0.saturating_sub(self.at().0);
        match () {
            () if self.subject.unit != subject.unit || subject.unit.is_none() => {
                return Err(Unusable::Other("unit of the board"));
            }
            () if self.subject.model != subject.model => return Err(Unusable::Other("model")),
            () if self.subject.sensor != subject.sensor => {
                return Err(Unusable::Other("board or power sensor"));
            }
            () if !now.is_set() || age < 0 => return Err(Unusable::Future),
            () => {}
        }
        self.modes
            .retain(|it| now.0.saturating_sub(it.at.0) <= LIFETIME_S);
        match self.modes.is_empty() {
            true => Err(Unusable::Old { days: age / 86_400 }),
            false => Ok(self),
        }
    }

    /// Reads the lesson of a subject on the board below `root`; `None` if there is none.
    pub fn read(root: &Path, subject: &Subject) -> Result<Option<Self>, Unusable> {
        let path = file(root, subject);
        let damaged = || Unusable::Damaged { path: path.clone() };
        match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_file() => return Err(Unusable::NoFile { path }),
            Ok(metadata) if metadata.len() > LONGEST_FILE => return Err(damaged()),
            _ => {}
        }
        match fs::read_to_string(&path) {
            Ok(text) => Self::parse(&text).map(Some).ok_or_else(damaged),
            Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(why) if why.kind() == io::ErrorKind::InvalidData => Err(damaged()),
            Err(source) => Err(Unusable::Io { path, source }),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (body, end) = text.trim_end_matches('\n').rsplit_once('\n')?;
        let sum = u32::from_str_radix(end.strip_prefix("end ")?, 16).ok()?;
        if crc32(body.as_bytes()) != sum {
            return None;
        }
        let mut lines = body.lines();
        let mut after = |key: &str| lines.next()?.strip_prefix(key);
        after(LESSON_VERSION).filter(|rest| rest.is_empty())?;
        let unit = UnitId::parse(after("unit ")?)?;
        let model = u32::from_str_radix(after("model ")?, 16).ok()?;
        let sensor = u32::from_str_radix(after("sensor ")?, 16).ok()?;
        let [low, high] = PER_KELVIN_RANGE;
        let per_kelvin = match after("per_kelvin ")? {
            "unknown" => None,
            value => Some(value.parse().ok().filter(|it| (low..=high).contains(it))?),
        };
        let modes: Vec<TaughtMode> = lines.map(TaughtMode::parse).collect::<Option<_>>()?;
        let subject = Subject {
            unit: Some(unit),
            model,
            sensor,
        };
        (!modes.is_empty() && modes.len() <= MOST_TAUGHT).then_some(Self {
            subject,
            per_kelvin,
            modes,
        })
    }
}

impl TaughtMode {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.strip_prefix("mode ")?.split(' ');
        let mode = ModeId(words.next()?.parse().ok()?);
        let is_full = match words.next()? {
            "full" => true,
            "part" => false,
            _ => return None,
        };
        let ln: f32 = words.next()?.parse().ok()?;
        let at = UtcSeconds(words.next()?.parse().ok()?);
        (words.next().is_none() && ln.abs() <= MOST_DIFFERENCE).then_some(Self {
            mode,
            is_full,
            ln,
            at,
        })
    }
}

impl Seen {
    /// ln of the power.
    fn log(&self) -> f32 {
        (self.predicted.0.max(1) as f32).ln()
    }
}

/// How a unit differs whose modes were seen under full load, at least one: none of them draws more, nor if the chip is
/// warmer by a logarithm of the power. Times have the margin of `other`.
pub fn of_full_load(seen: &[Seen], other: &Unit, warmer: f32) -> Unit {
    let n = seen.len().max(1) as f32;
    let mean = |value: &dyn Fn(&Seen) -> f32| seen.iter().map(value).sum::<f32>() / n;
    let centre = mean(&Seen::log);
    let level = mean(&|it| it.taught.ln);
    let square = n * mean(&|it| (it.log() - centre).powi(2));
    let product = n * mean(&|it| (it.log() - centre) * (it.taught.ln - level));
    let known = square + KNOWN_BEFORE * KNOWN_BEFORE;
    let most = 3.0 * TILT_SPREAD;
    let tilt = (product / known).clamp(-most, most);
    let above = seen
        .iter()
        .map(|it| it.taught.ln - tilt * (it.log() - centre));
    let [of_time, _] = other.margins;
    Unit {
        is_profiled: false,
        time: 0.0,
        power: above.fold(-MOST_DIFFERENCE, f32::max),
        tilt,
        reference: Milliwatts(centre.exp() as u32),
        margins: [of_time, warmer],
        tilt_margin: AT_95 * TILT_SPREAD * KNOWN_BEFORE / known.sqrt(),
    }
}

/// ln of what modes drew over their bounds on a unit, with an allowance for a warmer chip: the highest, and at least 0.
pub fn excess<'a>(seen: impl IntoIterator<Item = &'a Seen>, unit: &Unit, warmer: f32) -> f32 {
    let log_excess = |it: &Seen| {
        let bound = unit.guarded_power(it.guarded).0.max(1) as f32;
        it.log() + it.taught.ln - bound.ln() + warmer
    };
    seen.into_iter().map(log_excess).fold(0.0, f32::max)
}

/// Takes the largest of the measured values, and moves it into the range that is believed. `None` if nothing was measured.
fn per_kelvin(measured: impl Iterator<Item = f32>) -> Option<f32> {
    let [low, high] = PER_KELVIN_RANGE;
    let largest = measured.filter(|it| it.is_finite()).reduce(f32::max);
    largest.map(|it| it.clamp(low, high))
}

/// The lesson of a subject on the board below `root`, if there is one that can be used.
pub fn usable(root: &Path, subject: &Subject, now: UtcSeconds) -> Option<Lesson> {
    let lesson = Lesson::read(root, subject).ok().flatten()?;
    lesson.checked(subject, now).ok()
}

/// The file of the lesson of a subject on the board below `root`: each model has one.
pub fn file(root: &Path, subject: &Subject) -> PathBuf {
    let folder = root.join(STATE_DIR.trim_start_matches('/')).join(FOLDER);
    folder.join(format!("{:08x}", subject.model))
}

impl fmt::Display for Lesson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject {
            unit,
            model,
            sensor,
        } = &self.subject;
        let unit = unit.map_or(String::new(), |unit| unit.to_string());
        let per_kelvin = self
            .per_kelvin
            .map_or("unknown".to_owned(), |it| it.to_string());
        let mut body = format!(
            "{LESSON_VERSION}\nunit {unit}\nmodel {model:08x}\nsensor {sensor:08x}\nper_kelvin {per_kelvin}"
        );
        for it in &self.modes {
            let load = if it.is_full { "full" } else { "part" };
            body += &format!("\nmode {} {load} {} {}", it.mode.0, it.ln, it.at.0);
        }
        writeln!(f, "{body}\nend {:08x}", crc32(body.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full_load::FullLoad;

    fn subject() -> Subject {
        Subject {
            unit: Some(UnitId(7)),
            model: 8,
            sensor: 9,
        }
    }

    const NOW: UtcSeconds = UtcSeconds(1_800_000_000);

    /// What a mode drew for 40 s.
    fn drawn(mode: u16, full: bool, milliwatts: u32) -> Drawn {
        let mut all = FullLoad::default();
        let in_mode = Some((ModeId(mode), Milliwatts(milliwatts)));
        for _ in 0..400 {
            let load = Some(if full { 970 } else { 600 });
            all.note(Milliseconds(100), load, in_mode, None);
        }
        all.modes()[0]
    }

    /// Modes are numbered from 1 on.
    fn new(full: bool, at: UtcSeconds, modes: &[(u32, u32)]) -> Result<Lesson, NoLesson> {
        let modes = modes.iter().zip(1..);
        let drawn: Vec<(Milliwatts, Drawn)> = modes
            .map(|(&(predicted, power), mode)| (Milliwatts(predicted), drawn(mode, full, power)))
            .collect();
        Lesson::new(subject(), at, LONG_TIME, &drawn)
    }

    fn lesson(full: bool, modes: &[(u32, u32)]) -> Lesson {
        new(full, NOW, modes).expect("a lesson")
    }

    #[test]
    fn what_no_unit_does_is_refused_and_nothing_is_learned_without_load() {
        for full in [true, false] {
            let new = |drawn| new(full, NOW, &[(20_000, drawn)]);
            assert!(matches!(new(40_000), Err(NoLesson::FarOff { .. })));
            assert_eq!(self::new(full, NOW, &[]), Err(NoLesson::NoLoad));
        }
        let few = new(true, NOW, &[(20_000, 10_000)]);
        assert_eq!(few, Err(NoLesson::FarOff { ratio: 0.5 }));
        // A part of the load may draw little.
        assert_eq!(new(false, NOW, &[(20_000, 10_000)]), Err(NoLesson::NoLoad));
        let nameless = Subject {
            unit: None,
            ..subject()
        };
        let seen = [(Milliwatts(20_000), drawn(1, true, 20_000))];
        let new = Lesson::new(nameless, NOW, LONG_TIME, &seen);
        assert_eq!(new, Err(NoLesson::NoUnit));
    }

    #[test]
    fn a_newer_lesson_keeps_what_the_older_one_knows_better() {
        let old = lesson(true, &[(20_000, 21_000), (10_000, 10_500)]);
        let later = UtcSeconds(NOW.0 + 60);
        let part = new(false, later, &[(20_000, 19_000)]).expect("a lesson");
        let both = part.after(&old);
        let known = |lesson: &Lesson, mode: u16| {
            let found = lesson.modes.iter().find(|it| it.mode == ModeId(mode));
            let found = found.expect("known");
            (found.is_full, (1_000.0 * found.ln.exp()).round() as u32)
        };
        assert_eq!([known(&both, 1), known(&both, 2)], [(true, 1_050); 2]);
        let higher = new(false, later, &[(20_000, 23_000)]).expect("a lesson");
        assert_eq!(known(&higher.after(&old), 1), (true, 1_150));
        let full = new(true, later, &[(20_000, 19_000)]).expect("a lesson");
        let full = full.after(&old);
        assert_eq!(
            [known(&full, 1), known(&full, 2)],
            [(true, 950), (true, 1_050)]
        );
        // Of another unit nothing is taken.
        let other = Lesson {
            subject: Subject {
                unit: Some(UnitId(1)),
                ..subject()
            },
            ..old
        };
        assert_eq!(
            lesson(true, &[(20_000, 20_000)]).after(&other).modes.len(),
            1
        );
        let many: Vec<(u32, u32)> = (0..30).map(|_| (20_000, 20_500)).collect();
        assert_eq!(lesson(true, &many).modes.len(), MOST_TAUGHT);
    }

    #[test]
    fn a_lesson_of_something_else_is_not_used() {
        let lesson = lesson(true, &[(20_000, 21_000)]);
        let why = |other: &Subject, now: i64| {
            let checked = lesson.clone().checked(other, UtcSeconds(now));
            checked.expect_err("unusable").to_string()
        };
        let now = NOW.0;
        for now in [now, now + 86_400] {
            let usable = lesson.clone().checked(&subject(), UtcSeconds(now));
            assert_eq!(usable.expect("usable"), lesson);
        }
        let unit = |unit| Subject { unit, ..subject() };
        assert!(why(&unit(Some(UnitId(1))), now).ends_with("another unit of the board"));
        assert!(why(&unit(None), now).ends_with("another unit of the board"));
        let model = Subject {
            model: 1,
            ..subject()
        };
        assert!(why(&model, now).ends_with("another model"));
        let sensor = Subject {
            sensor: 1,
            ..subject()
        };
        assert!(why(&sensor, now).ends_with("power sensor"));
        assert!(why(&subject(), now - 1).contains("in the future"));
        assert!(why(&subject(), 0).contains("the clock is not set"));
        assert!(why(&subject(), now + 200 * 86_400).contains("200 days old"));
        // What is older than half a year goes, and the rest stays.
        let newer = UtcSeconds(now + 150 * 86_400);
        let newer = new(true, newer, &[(1, 1), (20_000, 20_000)]).expect("a lesson");
        let both = newer.after(&Lesson {
            modes: vec![TaughtMode {
                mode: ModeId(9),
                ..lesson.modes[0]
            }],
            ..lesson.clone()
        });
        let left = both
            .clone()
            .checked(&subject(), UtcSeconds(now + 200 * 86_400));
        assert_eq!(
            (both.modes.len(), left.expect("usable").modes.len()),
            (3, 2)
        );
    }

    #[test]
    fn each_cut_and_each_changed_byte_of_a_file_is_found() {
        let lesson = lesson(true, &[(20_000, 21_000), (10_000, 10_100)]);
        let text = lesson.to_string();
        assert_eq!(Lesson::parse(&text), Some(lesson));
        // The last byte ends the line.
        for length in 0..text.len() - 1 {
            assert_eq!(Lesson::parse(&text[..length]), None, "{length}");
        }
        for at in 0..text.len() - 1 {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            let changed = String::from_utf8(bytes).expect("text");
            assert_eq!(Lesson::parse(&changed), None, "{at}");
        }
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(
            Lesson::read(root.path(), &subject())
                .expect("none")
                .is_none()
        );
        let path = file(root.path(), &subject());
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let lesson = lesson(false, &[(20_000, 21_000)]);
        fs::write(&path, lesson.to_string()).expect("written");
        assert_eq!(
            Lesson::read(root.path(), &subject()).expect("readable"),
            Some(lesson)
        );
        fs::write(&path, "a".repeat(5_000)).expect("written");
        assert!(matches!(
            Lesson::read(root.path(), &subject()),
            Err(Unusable::Damaged { .. })
        ));
        fs::write(&path, [0xFF]).expect("written");
        assert!(matches!(
            Lesson::read(root.path(), &subject()),
            Err(Unusable::Damaged { .. })
        ));
        fs::remove_file(&path).expect("removed");
        fs::create_dir(&path).expect("a folder");
        assert!(matches!(
            Lesson::read(root.path(), &subject()),
            Err(Unusable::NoFile { .. })
        ));
    }
}
