//! Which knobs do not obey, and between which values they really are.
//!
//! A *unit* is a clock (of a CPU cluster, the GPU or the memory) or the switch of a core. Evidence is a
//! pair: what was requested, and what the board shows once clocks have settled.
//!
//! | the board shows | the unit |
//! |---|---|
//! | what was requested | obeys |
//! | more | has a floor there |
//! | less, and no cooling device explains it | has a gap up to what was requested, for [`MOST_TURNS`] turns |
//! | a close neighbour in its table | rounds, which bounds nothing |
//! | nothing | is unknown: it counts as highest, and is asked for the lowest value |
//! | for the [`MOST_FLIPS`]th time something else than it did | has a floor there, or a gap above: another program writes it |
//!
//! A floor is tested each [turn](Obedience::begin_test) by asking for less, which raises no power. It ends
//! when the unit still shows that value a turn later. A gap ends by itself; the next mode in it shows whether
//! it is still there. A clock that is clamped has one gap up to its top, one that is rounded has several.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::files::{KnobError, Refusal};
use crate::knobs::Knobs;

/// Turns after which a gap ends and flips are forgotten: a minute, at the interval of the daemon's turns.
const MOST_TURNS: u8 = 3;

/// Changes by others, within the same time, after which a unit counts as bound to what they set.
const MOST_FLIPS: u8 = 3;

/// A knob that does not obey, with values in the unit of its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disobedience {
    /// The knob.
    pub path: Arc<Path>,
    /// What was requested.
    pub wanted: i64,
    /// What the board shows; `None` if it cannot be read.
    pub is: Option<i64>,
    /// Why the write failed, if it did.
    pub why: Option<Refusal>,
}

impl Disobedience {
    /// With the reason why a knob of the unit refused a write; the files of a unit share a folder.
    fn because(self, refused: &[KnobError]) -> Self {
        let why = refused.iter().find_map(|error| match error {
            KnobError::Refused { path, why, .. } if path.parent() == self.path.parent() => {
                Some(*why)
            }
            _ => None,
        });
        Self { why, ..self }
    }
}

impl fmt::Display for Disobedience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: wanted {}, ", self.path.display(), self.wanted)?;
        match self.is {
            Some(is) => write!(f, "is {is}")?,
            None => write!(f, "cannot be read")?,
        }
        match self.why {
            Some(why) => write!(f, " (writing fails: {why})"),
            None => Ok(()),
        }
    }
}

/// Gaps that are kept of a unit, the latest: more than a table has values would be noise.
const MOST_GAPS: usize = 32;

/// What is known of a unit.
#[derive(Clone, Debug, Default)]
struct Unit {
    floor: Option<i64>,
    /// Values above the first one, up to the second, that it does not take.
    gaps: Vec<(i64, i64)>,
    is_unknown: bool,
    /// Whether another program sets the bounds: then what it shows right after a write proves nothing.
    is_flipped: bool,
    /// The value of the present test of the floor.
    trial: Option<i64>,
    /// The last request and what the unit showed.
    settled: Option<(i64, i64)>,
    /// The last request that was not obeyed.
    failed: Option<Disobedience>,
    /// Whether the minimum of the clock is not what was requested, and how often others have changed it;
    /// then the clock may be lower.
    has_other_minimum: bool,
    minimum_flips: u8,
    flips: u8,
    turns: u8,
}

impl Unit {
    fn bounds(&self) -> (Option<i64>, Vec<(i64, i64)>, bool) {
        (self.floor, self.gaps.clone(), self.is_unknown)
    }

    /// Whether the unit bounds the choice of modes.
    fn is_bound(&self) -> bool {
        self.floor.is_some() || !self.gaps.is_empty() || self.is_unknown
    }

    /// Takes values above `shown`, up to `wanted`, for ones that the unit does not take.
    fn add_gap(&mut self, shown: i64, wanted: i64) {
        self.turns = 0;
        match self.gaps.iter_mut().find(|(is, _)| *is == shown) {
            Some((_, top)) => *top = wanted.max(*top),
            None => {
                if self.gaps.len() >= MOST_GAPS {
                    self.gaps.remove(0);
                }
                self.gaps.push((shown, wanted));
            }
        }
    }
}

/// What was learned of all units.
#[derive(Debug, Default)]
pub(crate) struct Obedience {
    units: Vec<Unit>,
    changes: u32,
}

/// What a unit shows, beside what was requested of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub unit: usize,
    pub wanted: i64,
    /// `None` if it cannot be read.
    pub shown: Option<i64>,
    /// Whether a cooling device explains a lower value.
    pub is_cooled: bool,
    /// Whether the memory's rate is not held, so that the value is its ceiling.
    pub is_released: bool,
}

impl Seen {
    /// A unit that shows a value.
    pub fn of(unit: usize, wanted: i64, shown: i64) -> Self {
        Self {
            unit,
            wanted,
            shown: Some(shown),
            is_cooled: false,
            is_released: false,
        }
    }
}

impl Obedience {
    /// All knobs are taken to obey.
    pub fn new(knobs: &Knobs) -> Self {
        Self {
            units: vec![Unit::default(); knobs.units()],
            changes: 0,
        }
    }

    /// Counts the changes of what is known.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// The knobs that do not obey.
    pub fn disobedient(&self) -> impl Iterator<Item = &Disobedience> + Clone {
        self.units.iter().filter_map(|unit| unit.failed.as_ref())
    }

    /// Whether a unit does not do what was requested last.
    pub fn has_failed(&self, unit: usize) -> bool {
        self.units
            .get(unit)
            .is_some_and(|unit| unit.failed.is_some())
    }

    /// Whether a unit is known to be unreadable.
    pub fn is_unknown(&self, unit: usize) -> bool {
        self.units.get(unit).is_some_and(|unit| unit.is_unknown)
    }

    /// The lowest value that a unit can be at; `i64::MAX` if it is unknown.
    pub fn floor(&self, unit: usize) -> Option<i64> {
        let unit = self.units.get(unit)?;
        unit.is_unknown.then_some(i64::MAX).or(unit.floor)
    }

    /// Whether a unit does not take a value.
    pub fn lacks(&self, unit: usize, value: i64) -> bool {
        let gaps = self.units.get(unit).map_or(&[][..], |unit| &unit.gaps);
        gaps.iter().any(|(is, top)| *is < value && value <= *top)
    }

    /// What to ask a unit for that is to have a value: the value, or another one that was answered by it;
    /// `None` if it does not take the value.
    pub fn ask(&self, unit: usize, value: i64) -> Option<i64> {
        if !self.lacks(unit, value) {
            return Some(value);
        }
        let gaps = &self.units.get(unit)?.gaps;
        let answered = gaps
            .iter()
            .find(|(is, top)| *is == value && *top < i64::MAX);
        answered.map(|(_, top)| *top)
    }

    /// What to request of a unit that is to have a value, given the lowest of its table.
    pub fn request(&self, unit: usize, wanted: i64, lowest: i64) -> i64 {
        match self.units.get(unit) {
            Some(unit) if unit.is_unknown => lowest,
            Some(Unit {
                trial: Some(trial), ..
            }) => wanted.min(*trial),
            _ => wanted,
        }
    }

    /// Whether what a unit shows is as requested, or known, so that asking again is useless.
    pub fn is_known(&self, seen: &Seen) -> bool {
        let Some(unit) = self.units.get(seen.unit) else {
            return false;
        };
        match seen.shown {
            Some(shown) if shown == seen.wanted => true,
            Some(shown) => {
                unit.failed.is_some() && unit.settled == Some((seen.wanted, shown))
                    || unit
                        .floor
                        .is_some_and(|floor| shown == floor && seen.wanted <= floor)
                    || unit
                        .gaps
                        .iter()
                        .any(|(is, _)| shown == *is && seen.wanted > *is)
            }
            None => unit.is_unknown,
        }
    }

    /// Takes what a unit shows before the next request: something else than after the last one is a change
    /// by others.
    pub fn flip(&mut self, knobs: &Knobs, seen: &Seen) {
        let Some((unit, shown)) = self.units.get_mut(seen.unit).zip(seen.shown) else {
            return;
        };
        let Some((wanted, settled)) = unit.settled else {
            return;
        };
        // A cap of cooling may have come or gone, and a late knob may have followed.
        let is_ours = (settled.min(wanted)..=settled.max(wanted)).contains(&shown);
        if is_ours || shown < settled && seen.is_cooled {
            return;
        }
        unit.settled = None;
        // It does not stay as low as it was asked for.
        unit.trial = unit.trial.filter(|trial| shown <= *trial);
        unit.flips = unit.flips.saturating_add(1);
        if unit.flips < MOST_FLIPS {
            return;
        }
        let before = unit.bounds();
        match shown > settled {
            true => unit.floor = unit.floor.max(Some(shown)),
            false => unit.add_gap(shown, i64::MAX),
        }
        unit.is_flipped = true;
        unit.failed = knobs.disobedience(&Seen {
            wanted: settled,
            ..*seen
        });
        self.changes += u32::from(unit.bounds() != before);
    }

    /// Takes what a unit shows once it has settled after a request, and which writes were refused.
    pub fn learn(&mut self, knobs: &Knobs, seen: &Seen, refused: &[KnobError]) {
        let Some(unit) = self.units.get_mut(seen.unit) else {
            return;
        };
        let before = unit.bounds();
        // It ends with a test, so that a unit that can be read now and then does not come and go.
        unit.is_unknown |= seen.shown.is_none();
        unit.settled = seen.shown.map(|shown| (seen.wanted, shown));
        let differs = match seen.shown {
            None => true,
            Some(shown) => {
                if !unit.is_flipped && unit.trial.is_none() {
                    unit.floor = unit.floor.filter(|floor| shown >= *floor);
                }
                if !unit.is_flipped {
                    let is_in = |(is, top): &(i64, i64)| *is < shown && shown <= *top;
                    unit.gaps.retain(|gap| !is_in(gap));
                }
                let is_off = !knobs.is_rounded(seen.unit, seen.wanted, shown);
                if shown > seen.wanted && is_off {
                    // A value that moves is bound by the highest one.
                    unit.floor = match unit.is_flipped {
                        true => unit.floor.max(Some(shown)),
                        false => Some(shown),
                    };
                }
                if shown < seen.wanted && is_off && !seen.is_cooled {
                    unit.add_gap(shown, seen.wanted);
                }
                shown > seen.wanted || shown < seen.wanted && !seen.is_cooled
            }
        };
        if differs {
            unit.failed = knobs.disobedience(seen).map(|it| it.because(refused));
        } else if !unit.is_bound() {
            unit.failed = None;
        }
        self.changes += u32::from(unit.bounds() != before);
    }

    /// Ends the test of floors and lets gaps end, given what the units show. Then asks those with a floor
    /// for less, in [`Self::request`]. Returns whether there is one.
    pub fn begin_test(
        &mut self,
        knobs: &Knobs,
        shown: impl Fn(usize) -> Option<Result<i64, KnobError>>,
    ) -> bool {
        let mut is_tested = false;
        for (index, unit) in self.units.iter_mut().enumerate() {
            let before = unit.bounds();
            unit.turns = unit.turns.saturating_add(1);
            let is_old = unit.turns >= MOST_TURNS;
            if is_old {
                unit.gaps.clear();
                (unit.flips, unit.minimum_flips, unit.turns) = (0, 0, 0);
                unit.is_flipped &= unit.floor.is_some();
            }
            if unit.is_unknown {
                // An offline cluster cannot be read.
                unit.is_unknown = match shown(index) {
                    Some(shown) => shown.is_err(),
                    None => !is_old,
                };
            }
            let now = match unit.floor {
                Some(_) => shown(index),
                None => None,
            };
            let trial = unit.trial.take();
            match (unit.floor, now) {
                // It did for a turn what it was asked for.
                (Some(_), Some(Ok(now))) if trial.is_some_and(|trial| now <= trial) => {
                    (unit.floor, unit.is_flipped, unit.flips) = (None, false, 0);
                }
                // An offline cluster cannot be tested. Its clock is set before its other cores are on.
                (Some(_), None) if is_old => (unit.floor, unit.is_flipped) = (None, false),
                (Some(floor), Some(_)) => {
                    unit.trial = knobs.next_below(index, floor);
                    is_tested |= unit.trial.is_some();
                }
                _ => {}
            }
            if before != unit.bounds() {
                self.changes += 1;
                if !unit.is_bound() {
                    unit.failed = None;
                }
            }
        }
        is_tested
    }

    /// Takes what a unit shows after it was asked for less.
    pub fn end_test(&mut self, seen: &Seen) {
        if let Some(unit) = self.units.get_mut(seen.unit) {
            let trial = unit.trial.zip(seen.shown);
            unit.trial = trial.and_then(|(trial, shown)| (shown <= trial).then_some(trial));
            if unit.trial.is_some() {
                unit.settled = seen.shown.map(|shown| (seen.wanted, shown));
            }
        }
    }

    /// Takes whether the minimum of a clock differs from the request.
    pub fn learn_minimum(&mut self, unit: usize, differs: bool) {
        if let Some(unit) = self.units.get_mut(unit) {
            unit.has_other_minimum = differs;
        }
    }

    /// Takes a change of a minimum by others.
    pub fn flip_minimum(&mut self, unit: usize) {
        if let Some(unit) = self.units.get_mut(unit) {
            unit.minimum_flips = unit.minimum_flips.saturating_add(1);
        }
    }

    /// Whether the minimum of a clock is known to differ from the request.
    pub fn has_other_minimum(&self, unit: usize) -> bool {
        let unit = self.units.get(unit);
        unit.is_some_and(|unit| unit.has_other_minimum || unit.minimum_flips >= MOST_FLIPS)
    }

    /// Whether a unit with a floor shows less at present, in a test.
    pub fn is_tested(&self, unit: usize) -> bool {
        self.units
            .get(unit)
            .is_some_and(|unit| unit.trial.is_some())
    }
}
