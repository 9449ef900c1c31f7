//! What the daemon has learned of this unit of the board, for the next boot: how much more or less than the model predicts
//! it draws. It is learned from full load alone, from the highest powers, and counts with an allowance for a warmer chip.
//!
//! A lesson is a text file. It belongs to one unit, model and sensor, and ends after half a year.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;
use wattgate_board::Board;
use wattgate_runtime::{Milliseconds, Milliwatts, POWER_SPREAD, TILT_SPREAD, Unit, UnitId, crc32};

use crate::clock::UtcSeconds;
use crate::config::STATE_DIR;
use crate::full_load::Drawn;

/// The folder of the files, and their version.
const FOLDER: &str = "lessons";
const VERSION: &str = "wattgate lesson 1";

/// Longest file that is read, in bytes.
const LONGEST: u64 = 4_096;

/// A mode teaches after this time under load: in the ten seconds of `once --measure`, in which the governor tries some modes
/// for two seconds each, and in the daemon.
const SHORT_TIME: Milliseconds = Milliseconds(1_000);
const LONG_TIME: Milliseconds = Milliseconds(30_000);

/// Where the user vouches for a full load, no mode may draw less than this part of the prediction: the governor's bound for
/// a board that works (`SURE_LEVEL` of `runtime/src/governor/memory.rs`).
const LEAST_LEVEL: f32 = 0.85;

/// How much warmer the chip may be, in K, than when the lesson was learned.
pub const WARMER_K: f32 = 30.0;

/// The same for the mode that `once --measure` sets: the workload runs already, and the heat sink follows it for some
/// minutes more. Assumed.
pub const RISE_K: f32 = 10.0;

/// ln of the power gained for each K, where it was not measured: that of the simulated AGX Orin, which leaks most
/// (`tools/scenarios/tests/it/fleet.rs`). The range in which a measured one is believed.
pub const PER_KELVIN: f32 = 0.0065;
const PER_KELVIN_RANGE: [f32; 2] = [0.001, 0.009];

/// The largest difference of a unit that is believed, as a logarithm: three deviations between two units. More is another
/// load, or a broken sensor.
const MOST: f32 = 3.0 * std::f32::consts::SQRT_2 * POWER_SPREAD;

/// Deviations that a bound at 95 % has.
const AT_95: f32 = 1.645;

/// A power whose logarithm differs by this much tells about the tilt as much as is known before.
const KNOWN_BEFORE: f32 = 0.2;

/// A lesson ends after half a year: fans wear, and dust settles.
const LIFETIME_S: i64 = 183 * 86_400;

/// What the modes of a unit drew.
#[derive(Clone, Debug, PartialEq)]
pub struct Lesson {
    pub of: Subject,
    pub at: UtcSeconds,
    /// Whether the load was the full one. A part of it shows only what the unit draws at least.
    pub is_full: bool,
    /// ln of the power gained for each K.
    pub per_kelvin: f32,
    /// The model's prediction of a mode, and ln of the highest power in it over that.
    pub modes: Vec<(Milliwatts, f32)>,
}

/// Who says that the load is the full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teacher {
    /// The user, by `once --measure`: it is if the GPU works.
    User,
    /// The daemon: it is if the GPU is fully busy.
    Daemon,
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
    pub fn of(unit: Option<UnitId>, model: &[u8], board: &Board) -> Self {
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
    #[error("the GPU was not busy for long enough in one mode: an idle board teaches nothing")]
    NoLoad,
    /// No unit differs as much.
    #[error(
        "the power is {ratio:.2} times the prediction, and no unit differs as much: not the full load, another workload, or \
         the sensor"
    )]
    FarOff { ratio: f32 },
    /// The unit has no id, so that a lesson could be of any.
    #[error("the board has no serial number")]
    NoUnit,
}

/// Why a lesson is not used.
#[derive(Debug, Error)]
pub enum Unusable {
    /// The file cannot be read.
    #[error("{}: cannot be read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file is truncated or changed.
    #[error("{}: damaged; the daemon will write it anew", path.display())]
    Damaged { path: PathBuf },
    /// The lesson is of something else.
    #[error("what was learned is of another {0}")]
    Other(&'static str),
    /// The date has not come yet, or the clock is not set.
    #[error("what was learned is dated in the future, or the clock is not set")]
    Future,
    /// It is too old.
    #[error("what was learned is {days} days old")]
    Old { days: i64 },
}

impl Lesson {
    /// From what modes drew, each beside the model's prediction.
    pub fn new(
        of: Subject,
        at: UtcSeconds,
        teacher: Teacher,
        seen: &[(Milliwatts, Drawn)],
    ) -> Result<Self, NoLesson> {
        if of.unit.is_none() {
            return Err(NoLesson::NoUnit);
        }
        let least = match teacher {
            Teacher::User => SHORT_TIME,
            Teacher::Daemon => LONG_TIME,
        };
        let is_full = teacher == Teacher::User || seen.iter().any(|(_, it)| it.full >= least);
        let long_enough = |(_, it): &&(Milliwatts, Drawn)| match (teacher, is_full) {
            (Teacher::Daemon, true) => it.full >= least,
            _ => it.busy >= least,
        };
        let taught: Vec<&(Milliwatts, Drawn)> = seen
            .iter()
            .filter(|(predicted, _)| predicted.0 > 0)
            .filter(long_enough)
            .collect();
        let ratio = |(predicted, it): &&(Milliwatts, Drawn)| {
            (*predicted, (it.highest.0 as f32 / predicted.0 as f32).ln())
        };
        let modes: Vec<(Milliwatts, f32)> = taught.iter().map(ratio).collect();
        let lowest = if is_full { LEAST_LEVEL.ln() } else { -MOST };
        match modes.iter().find(|(_, ln)| !(lowest..=MOST).contains(ln)) {
            Some((_, ln)) => Err(NoLesson::FarOff { ratio: ln.exp() }),
            None if modes.is_empty() => Err(NoLesson::NoLoad),
            None => Ok(Self {
                of,
                at,
                is_full,
                per_kelvin: per_kelvin(taught.iter().filter_map(|(_, it)| it.per_kelvin())),
                modes,
            }),
        }
    }

    /// How the unit differs: no mode that was seen draws more, nor if the chip is so much warmer, in K.
    pub fn unit(&self, other: &Unit, warmer_k: f32) -> Unit {
        let n = self.modes.len().max(1) as f32;
        let logs = self
            .modes
            .iter()
            .map(|(power, _)| (power.0.max(1) as f32).ln());
        let centre = logs.clone().sum::<f32>() / n;
        let mean = self.modes.iter().map(|(_, ln)| ln).sum::<f32>() / n;
        let square = logs.clone().map(|log| (log - centre).powi(2)).sum::<f32>();
        let product = logs
            .clone()
            .zip(&self.modes)
            .map(|(log, (_, ln))| (log - centre) * (ln - mean));
        let known = square + KNOWN_BEFORE * KNOWN_BEFORE;
        let most = 3.0 * TILT_SPREAD;
        let tilt = (product.sum::<f32>() / known).clamp(-most, most);
        let above = logs
            .zip(&self.modes)
            .map(|(log, (_, ln))| ln - tilt * (log - centre));
        let [of_time, _] = other.margins;
        Unit {
            is_profiled: false,
            time: 0.0,
            power: above.fold(-MOST, f32::max),
            tilt,
            reference: Milliwatts(centre.exp() as u32),
            margins: [of_time, warmer_k * self.per_kelvin],
            tilt_margin: AT_95 * TILT_SPREAD * KNOWN_BEFORE / known.sqrt(),
        }
    }

    /// Fails if the lesson says nothing of this unit, model and sensor now.
    pub fn check(&self, of: &Subject, now: UtcSeconds) -> Result<(), Unusable> {
        let age = now.0.saturating_sub(self.at.0);
        match () {
            () if self.of.unit != of.unit || of.unit.is_none() => {
                Err(Unusable::Other("unit of the board"))
            }
            () if self.of.model != of.model => Err(Unusable::Other("model")),
            () if self.of.sensor != of.sensor => Err(Unusable::Other("board or power sensor")),
            () if !now.is_set() || age < 0 => Err(Unusable::Future),
            () if age > LIFETIME_S => Err(Unusable::Old { days: age / 86_400 }),
            () => Ok(()),
        }
    }

    /// Reads the lesson of a subject on the board below `root`; `None` if there is none.
    pub fn read(root: &Path, of: &Subject) -> Result<Option<Self>, Unusable> {
        let path = file(root, of);
        let damaged = || Unusable::Damaged { path: path.clone() };
        match fs::metadata(&path) {
            Ok(metadata) if !metadata.is_file() || metadata.len() > LONGEST => {
                return Err(damaged());
            }
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
        after(VERSION).filter(|rest| rest.is_empty())?;
        let unit = UnitId::parse(after("unit ")?)?;
        let model = u32::from_str_radix(after("model ")?, 16).ok()?;
        let sensor = u32::from_str_radix(after("sensor ")?, 16).ok()?;
        let at = UtcSeconds(after("at ")?.parse().ok()?);
        let is_full = match after("load ")? {
            "full" => true,
            "part" => false,
            _ => return None,
        };
        let per_kelvin: f32 = after("per_kelvin ")?.parse().ok()?;
        let [low, high] = PER_KELVIN_RANGE;
        if !(low..=high).contains(&per_kelvin) {
            return None;
        }
        let mode = |line: &str| {
            let (power, ln) = line.strip_prefix("mode ")?.split_once(' ')?;
            let ln: f32 = ln.parse().ok()?;
            let power = power.parse().ok().filter(|power| *power > 0)?;
            (ln.abs() <= MOST).then_some((Milliwatts(power), ln))
        };
        let modes: Vec<(Milliwatts, f32)> = lines.map(mode).collect::<Option<_>>()?;
        let of = Subject {
            unit: Some(unit),
            model,
            sensor,
        };
        (!modes.is_empty()).then_some(Self {
            of,
            at,
            is_full,
            per_kelvin,
            modes,
        })
    }
}

/// The largest of some measured values, in the range that is believed; a value for all boards without any.
fn per_kelvin(measured: impl Iterator<Item = f32>) -> f32 {
    let [low, high] = PER_KELVIN_RANGE;
    let largest = measured.filter(|it| it.is_finite()).reduce(f32::max);
    largest.unwrap_or(PER_KELVIN).clamp(low, high)
}

/// The file of the lesson of a subject on the board below `root`: each model has one.
pub fn file(root: &Path, of: &Subject) -> PathBuf {
    let folder = root.join(STATE_DIR.trim_start_matches('/')).join(FOLDER);
    folder.join(format!("{:08x}", of.model))
}

impl fmt::Display for Lesson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Subject {
            unit,
            model,
            sensor,
        } = &self.of;
        let unit = unit.map_or(String::new(), |unit| unit.to_string());
        let mut body = format!(
            "{VERSION}\nunit {unit}\nmodel {model:08x}\nsensor {sensor:08x}\nat {}\nload {}\nper_kelvin {}",
            self.at.0,
            if self.is_full { "full" } else { "part" },
            self.per_kelvin
        );
        for (power, ln) in &self.modes {
            body += &format!("\nmode {} {ln}", power.0);
        }
        writeln!(f, "{body}\nend {:08x}", crc32(body.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::full_load::FullLoad;
    use crate::unit::ThisUnit;
    use wattgate_runtime::ModeId;

    const OTHER: Unit = Unit {
        is_profiled: false,
        time: 0.0,
        power: 0.0,
        tilt: 0.0,
        reference: Milliwatts(10_000),
        margins: [0.08, 0.2],
        tilt_margin: 0.0,
    };

    fn subject() -> Subject {
        Subject {
            unit: Some(UnitId(7)),
            model: 8,
            sensor: 9,
        }
    }

    fn now() -> UtcSeconds {
        UtcSeconds(1_800_000_000)
    }

    /// What a mode drew for 40 s.
    fn drawn(full: bool, milliwatts: u32) -> Drawn {
        let mut all = FullLoad::default();
        let in_mode = Some((ModeId(1), Milliwatts(milliwatts)));
        for _ in 0..400 {
            let load = Some(if full { 970 } else { 600 });
            all.note(Milliseconds(100), load, in_mode, None);
        }
        all.modes()[0]
    }

    fn taught(teacher: Teacher, full: bool, modes: &[(u32, u32)]) -> Result<Lesson, NoLesson> {
        let seen: Vec<(Milliwatts, Drawn)> = modes
            .iter()
            .map(|&(predicted, power)| (Milliwatts(predicted), drawn(full, power)))
            .collect();
        Lesson::new(subject(), now(), teacher, &seen)
    }

    fn lesson(modes: &[(u32, u32)]) -> Lesson {
        taught(Teacher::Daemon, true, modes).expect("a lesson")
    }

    #[test]
    fn no_mode_that_was_seen_draws_more_than_learned() {
        let seen = [
            (10_000, 11_000),
            (20_000, 21_000),
            (30_000, 33_500),
            (15_000, 15_100),
        ];
        let unit = lesson(&seen).unit(&OTHER, WARMER_K);
        let warmer = (WARMER_K * PER_KELVIN).exp();
        for (predicted, drawn) in seen {
            assert!(
                unit.power(Milliwatts(predicted)).0 >= drawn - 10,
                "{predicted}"
            );
            let guarded = unit.guarded_power(Milliwatts(predicted)).0 as f32;
            assert!(guarded >= warmer * (drawn - 20) as f32);
        }
        // Far from what was seen, the band is wider.
        let one = lesson(&[(20_000, 20_000)]).unit(&OTHER, WARMER_K);
        let ratio = |power: u32| one.guarded_power(Milliwatts(power)).0 as f32 / power as f32;
        assert!((ratio(20_000) / warmer - 1.0).abs() < 1e-3);
        assert!(ratio(5_000) > 1.08 * ratio(20_000) && ratio(60_000) > 1.05 * ratio(20_000));
    }

    #[test]
    fn a_unit_that_draws_less_gains_and_what_no_unit_does_is_refused() {
        let unit = lesson(&[(20_000, 18_000)]).unit(&OTHER, RISE_K);
        assert!(unit.guarded_power(Milliwatts(20_000)).0 < 20_000);
        for teacher in [Teacher::User, Teacher::Daemon] {
            let new = |drawn| taught(teacher, true, &[(20_000, drawn)]);
            assert_eq!(new(10_000), Err(NoLesson::FarOff { ratio: 0.5 }));
            assert!(matches!(new(40_000), Err(NoLesson::FarOff { .. })));
            assert!(matches!(new(0), Err(NoLesson::FarOff { .. })));
            assert_eq!(taught(teacher, true, &[]), Err(NoLesson::NoLoad));
        }
        let nameless = Subject {
            unit: None,
            ..subject()
        };
        let seen = [(Milliwatts(20_000), drawn(true, 20_000))];
        let new = Lesson::new(nameless, now(), Teacher::User, &seen);
        assert_eq!(new, Err(NoLesson::NoUnit));
    }

    /// A part of the full load may look like a unit that draws little.
    #[test]
    fn a_part_of_the_load_makes_no_choice_bolder() {
        let other = ThisUnit::of_effect(Some(UnitId(7)), OTHER);
        let guarded = |lesson: &Lesson| {
            let unit = other.taught(lesson, WARMER_K).effect;
            unit.guarded_power(Milliwatts(20_000))
        };
        let wide = OTHER.guarded_power(Milliwatts(20_000));
        let part = |drawn| taught(Teacher::Daemon, false, &[(20_000, drawn)]).expect("a lesson");
        assert_eq!(guarded(&part(18_000)), wide);
        assert!(guarded(&part(22_000)) > wide);
        assert!(guarded(&lesson(&[(20_000, 18_000)])) < wide);
        // On a unit of the model a lesson makes the choice more careful, too, but never bolder.
        let own = Unit {
            is_profiled: true,
            margins: [0.0; 2],
            ..OTHER
        };
        let own = ThisUnit::of_effect(Some(UnitId(7)), own);
        let guarded = |drawn| {
            // 10 K are 7 %.
            let taught = own.taught(&lesson(&[(20_000, drawn)]), RISE_K);
            taught.effect.guarded_power(Milliwatts(20_000)).0
        };
        assert_eq!(guarded(17_500), 20_000);
        // A second lesson replaces the first one: the unit stays one of the model.
        let careful = own.taught(&lesson(&[(20_000, 21_000)]), RISE_K);
        assert_eq!(careful.taught(&lesson(&[(20_000, 17_500)]), RISE_K), own);
        assert!(guarded(21_000) > 22_000);
    }

    #[test]
    fn a_lesson_of_something_else_is_not_used() {
        let lesson = lesson(&[(20_000, 21_000)]);
        let why = |of: &Subject, now: i64| {
            let checked = lesson.check(of, UtcSeconds(now));
            checked.expect_err("unusable").to_string()
        };
        let now = now().0;
        lesson.check(&subject(), UtcSeconds(now)).expect("usable");
        lesson
            .check(&subject(), UtcSeconds(now + 86_400))
            .expect("usable");
        let unit = |unit| Subject { unit, ..subject() };
        assert!(why(&unit(Some(UnitId(1))), now).ends_with("another unit of the board"));
        assert!(why(&unit(None), now).ends_with("another unit of the board"));
        assert!(
            why(
                &Subject {
                    model: 1,
                    ..subject()
                },
                now
            )
            .ends_with("another model")
        );
        assert!(
            why(
                &Subject {
                    sensor: 1,
                    ..subject()
                },
                now
            )
            .ends_with("power sensor")
        );
        assert!(why(&subject(), now - 1).contains("in the future"));
        assert!(why(&subject(), 0).contains("the clock is not set"));
        assert!(why(&subject(), now + 200 * 86_400).contains("200 days old"));
    }

    #[test]
    fn each_cut_and_each_changed_byte_of_a_file_is_found() {
        let lesson = lesson(&[(20_000, 21_000), (10_000, 10_100)]);
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
        let lesson = lesson(&[(20_000, 21_000)]);
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
            Err(Unusable::Damaged { .. })
        ));
    }
}
