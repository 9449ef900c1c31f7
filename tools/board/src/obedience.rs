//! Which knobs do not obey, and between which values they really are.
//!
//! An *actuator* is a clock (of a CPU cluster, the GPU or the memory) or the switch of a core. Evidence is a
//! pair: what was requested, and what the board shows once clocks have settled.
//!
//! | the board shows | the actuator |
//! |---|---|
//! | what was requested | obeys |
//! | more | has a floor there |
//! | less, and no cooling device explains it | has a gap up to what was requested, for [`MOST_TURNS`] turns |
//! | a close neighbour in its table | rounds, which bounds nothing |
//! | nothing | is unknown: it counts as highest, and is asked for the lowest value |
//! | for the [`MOST_FLIPS`]th time a value that was not requested | has a floor there, or a gap above: another program writes it |
//!
//! The caller tests the actuators every [turn](Obedience::begin_test). An actuator with a floor is asked for less, which
//! raises no power. If it still shows that value a turn later, the floor ends. A gap ends by itself after
//! [`MOST_TURNS`]; the next mode in it finds out whether the gap is still there. A clock that is clamped has one
//! gap up to its top. A clock that is rounded down has several.
//!
//! An actuator whose value *moves* by itself, or by another program, is bound by the worst value that it has shown.

use crate::files::KnobError;
use crate::knobs::Knobs;
use crate::seen::{Disobedience, Seen};

/// Turns after which a gap ends and flips are forgotten: a minute, at the interval of the daemon's turns.
const MOST_TURNS: u8 = 3;

/// Changes by others, within the same time, after which an actuator counts as bound to what they set.
const MOST_FLIPS: u8 = 3;

/// What is known of an actuator.
#[derive(Clone, Debug, Default)]
struct Actuator {
    floor: Option<i64>,
    /// Values above the first one, up to the second, that it does not take.
    gaps: Vec<(i64, i64)>,
    is_unknown: bool,
    /// Whether the value changes without a write of ours. What it shows right after a write then proves
    /// nothing; what it shows a turn later does.
    moves: bool,
    /// The value of the present test of the floor.
    trial: Option<i64>,
    /// The last request and what the actuator showed.
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

impl Actuator {
    fn bounds(&self) -> (Option<i64>, Vec<(i64, i64)>, bool) {
        (self.floor, self.gaps.clone(), self.is_unknown)
    }

    /// Whether the actuator bounds the choice of modes.
    fn is_bound(&self) -> bool {
        self.floor.is_some() || !self.gaps.is_empty() || self.is_unknown
    }

    /// Whether a value is higher than requested, and the actuator is known to go that high.
    fn is_known_above(&self, wanted: i64, shown: i64) -> bool {
        self.floor.is_some_and(|floor| match self.moves {
            true => (wanted..=floor).contains(&shown),
            false => shown == floor && wanted <= floor,
        })
    }

    /// Whether a value is lower than requested, and the actuator is known to stay that low.
    fn is_known_below(&self, wanted: i64, shown: i64) -> bool {
        self.gaps.iter().any(|(is, top)| match self.moves {
            true => *is <= shown && shown < wanted && wanted <= *top,
            false => shown == *is && wanted > *is,
        })
    }

    /// Whether an actuator that was too low shows more than it did; true for one that was not.
    fn has_shown_more(&self, seen: &Seen) -> bool {
        match (&self.failed, seen.shown) {
            (
                Some(Disobedience {
                    wanted,
                    is: Some(is),
                    ..
                }),
                Some(shown),
            ) if is < wanted => shown > *is,
            _ => true,
        }
    }

    /// Raises the floor to a value. Another floor than before means that the value moves.
    fn add_floor(&mut self, shown: i64) {
        self.moves |= self.floor.is_some_and(|floor| floor != shown);
        self.floor = match self.moves {
            true => self.floor.max(Some(shown)),
            false => Some(shown),
        };
    }

    /// Adds a gap above a value, up to what was wanted. Another answer to the same request than before means
    /// that the value moves.
    fn add_gap(&mut self, shown: i64, wanted: i64) {
        self.turns = 0;
        if let Some((_, top)) = self.gaps.iter_mut().find(|(is, _)| *is == shown) {
            *top = wanted.max(*top);
        } else if let Some((is, _)) = self.gaps.iter_mut().find(|(_, top)| *top == wanted) {
            (*is, self.moves) = (shown.min(*is), true);
        } else {
            self.gaps.push((shown, wanted));
        }
    }
}

/// What was learned of all actuators.
#[derive(Debug, Default)]
pub(crate) struct Obedience {
    actuators: Vec<Actuator>,
    changes: u32,
}

impl Obedience {
    /// All knobs are taken to obey.
    pub fn new(knobs: &Knobs) -> Self {
        Self {
            actuators: vec![Actuator::default(); knobs.actuators()],
            changes: 0,
        }
    }

    /// Counts the changes of what is known.
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// The knobs that do not obey.
    pub fn disobedient(&self) -> impl Iterator<Item = &Disobedience> + Clone {
        self.actuators
            .iter()
            .filter_map(|actuator| actuator.failed.as_ref())
    }

    /// Whether an actuator does not do what was requested last.
    pub fn has_failed(&self, actuator: usize) -> bool {
        self.actuators
            .get(actuator)
            .is_some_and(|actuator| actuator.failed.is_some())
    }

    /// Whether an actuator is known to be unreadable.
    pub fn is_unknown(&self, actuator: usize) -> bool {
        self.actuators
            .get(actuator)
            .is_some_and(|actuator| actuator.is_unknown)
    }

    /// The lowest value that an actuator can be at; `i64::MAX` if it is unknown.
    pub fn floor(&self, actuator: usize) -> Option<i64> {
        let actuator = self.actuators.get(actuator)?;
        actuator.is_unknown.then_some(i64::MAX).or(actuator.floor)
    }

    /// Whether an actuator does not take a value.
    pub fn lacks(&self, actuator: usize, value: i64) -> bool {
        let gaps = self
            .actuators
            .get(actuator)
            .map_or(&[][..], |actuator| &actuator.gaps);
        gaps.iter().any(|(is, top)| *is < value && value <= *top)
    }

    /// The request that makes an actuator show a value: the value itself, or a higher one that the actuator is known to
    /// round down to it; `None` if no known request does.
    pub fn ask(&self, actuator: usize, value: i64) -> Option<i64> {
        if !self.lacks(actuator, value) {
            return Some(value);
        }
        let gaps = &self.actuators.get(actuator)?.gaps;
        let answered = gaps
            .iter()
            .find(|(is, top)| *is == value && *top < i64::MAX);
        answered.map(|(_, top)| *top)
    }

    /// What to request of an actuator that is to have a value, given the lowest of its table.
    pub fn request(&self, actuator: usize, wanted: i64, lowest: i64) -> i64 {
        match self.actuators.get(actuator) {
            Some(actuator) if actuator.is_unknown => lowest,
            Some(Actuator {
                trial: Some(trial), ..
            }) => wanted.min(*trial),
            _ => wanted,
        }
    }

    /// Whether what an actuator shows is as requested, or known, so that asking again is useless.
    pub fn is_known(&self, seen: &Seen) -> bool {
        let Some(actuator) = self.actuators.get(seen.actuator) else {
            return false;
        };
        match seen.shown {
            Some(shown) if shown == seen.wanted => true,
            Some(shown) => {
                actuator.failed.is_some() && actuator.settled == Some((seen.wanted, shown))
                    || actuator.is_known_above(seen.wanted, shown)
                    || actuator.is_known_below(seen.wanted, shown)
            }
            None => actuator.is_unknown,
        }
    }

    /// Compares what an actuator shows before a request with what it showed after the last one. A difference is a
    /// change by others.
    pub fn flip(&mut self, knobs: &Knobs, seen: &Seen) {
        let Some((actuator, shown)) = self.actuators.get_mut(seen.actuator).zip(seen.shown) else {
            return;
        };
        let Some((wanted, settled)) = actuator.settled else {
            return;
        };
        // A cap of cooling may have come or gone, and a late knob may have followed.
        let is_ours = (settled.min(wanted)..=settled.max(wanted)).contains(&shown);
        if is_ours || shown < settled && seen.is_cooled {
            return;
        }
        actuator.settled = None;
        // It does not stay as low as it was asked for.
        actuator.trial = actuator.trial.filter(|trial| shown <= *trial);
        actuator.flips = actuator.flips.saturating_add(1);
        if actuator.flips < MOST_FLIPS {
            return;
        }
        let before = actuator.bounds();
        actuator.moves = true;
        match shown > settled {
            true => actuator.add_floor(shown),
            false => actuator.add_gap(shown, i64::MAX),
        }
        actuator.failed = knobs.disobedience(&Seen {
            wanted: settled,
            ..*seen
        });
        self.changes += u32::from(actuator.bounds() != before);
    }

    /// Learns from what an actuator shows once it has settled after a request, and from the writes that were
    /// refused.
    pub fn learn(&mut self, knobs: &Knobs, seen: &Seen, refused: &[KnobError]) {
        let Some(actuator) = self.actuators.get_mut(seen.actuator) else {
            return;
        };
        let before = actuator.bounds();
        // It ends with a test, so that an actuator that can be read now and then does not come and go.
        actuator.is_unknown |= seen.shown.is_none();
        actuator.settled = seen.shown.map(|shown| (seen.wanted, shown));
        let differs = match seen.shown {
            None => true,
            Some(shown) => {
                if !actuator.moves && actuator.trial.is_none() && !seen.is_cooled {
                    actuator.floor = actuator.floor.filter(|floor| shown >= *floor);
                }
                if !actuator.moves {
                    let is_in = |(is, top): &(i64, i64)| *is < shown && shown <= *top;
                    actuator.gaps.retain(|gap| !is_in(gap));
                }
                let is_off = !knobs.is_rounded(seen.actuator, seen.wanted, shown);
                if shown > seen.wanted && is_off {
                    actuator.add_floor(shown);
                }
                if shown < seen.wanted && is_off && !seen.is_cooled {
                    actuator.add_gap(shown, seen.wanted);
                }
                shown > seen.wanted || shown < seen.wanted && !seen.is_cooled
            }
        };
        if differs {
            actuator.failed = knobs.disobedience(seen).map(|it| it.because(refused));
        } else if !actuator.is_bound() && actuator.has_shown_more(seen) {
            actuator.failed = None;
        }
        self.changes += u32::from(actuator.bounds() != before);
    }

    /// Begins a turn. Ends the floors of actuators that obeyed for the last turn, and the gaps that are old. Then
    /// [`Self::request`] asks each actuator with a floor for less. Returns whether there is such an actuator.
    /// `is_cooled` says whether a cooling device explains a value, which then proves nothing.
    pub fn begin_test(
        &mut self,
        knobs: &Knobs,
        shown: impl Fn(usize) -> Option<Result<i64, KnobError>>,
        is_cooled: impl Fn(usize, i64) -> bool,
    ) -> bool {
        let mut is_tested = false;
        for (index, actuator) in self.actuators.iter_mut().enumerate() {
            let before = actuator.bounds();
            actuator.turns = actuator.turns.saturating_add(1);
            let is_old = actuator.turns >= MOST_TURNS;
            // That a gap is old is no proof that the actuator obeys.
            let has_expired = is_old && !actuator.gaps.is_empty();
            if is_old {
                actuator.gaps.clear();
                (actuator.flips, actuator.minimum_flips, actuator.turns) = (0, 0, 0);
                actuator.moves &= actuator.floor.is_some();
            }
            if actuator.is_unknown {
                // An offline cluster cannot be read.
                actuator.is_unknown = match shown(index) {
                    Some(shown) => shown.is_err(),
                    None => !is_old,
                };
            }
            let now = match actuator.floor {
                Some(_) => shown(index),
                None => None,
            };
            let trial = actuator.trial.take();
            match (actuator.floor, now) {
                // It did for a turn what it was asked for.
                (Some(_), Some(Ok(now)))
                    if trial.is_some_and(|trial| now <= trial) && !is_cooled(index, now) =>
                {
                    (actuator.floor, actuator.moves, actuator.flips) = (None, false, 0);
                }
                // An offline cluster cannot be tested. Its clock is set before its other cores are on.
                (Some(_), None) if is_old => (actuator.floor, actuator.moves) = (None, false),
                (Some(floor), Some(_)) => {
                    actuator.trial = knobs.next_below(index, floor);
                    is_tested |= actuator.trial.is_some();
                }
                _ => {}
            }
            if before != actuator.bounds() {
                self.changes += 1;
                if !actuator.is_bound() && !has_expired {
                    actuator.failed = None;
                }
            }
        }
        is_tested
    }

    /// Ends the trial of an actuator that does not show what it was asked for. Returns whether it did not.
    pub fn end_trial(&mut self, seen: &Seen) -> bool {
        let Some(actuator) = self.actuators.get_mut(seen.actuator) else {
            return false;
        };
        let Some(trial) = actuator.trial else {
            return false;
        };
        let obeys = seen.shown.is_some_and(|shown| shown <= trial);
        match obeys {
            true => actuator.settled = seen.shown.map(|shown| (seen.wanted, shown)),
            false => actuator.trial = None,
        }
        !obeys
    }

    /// Whether an actuator runs lower than its mode, in a test.
    pub fn is_testing(&self) -> bool {
        self.actuators
            .iter()
            .any(|actuator| actuator.trial.is_some())
    }

    /// Forgets what the actuators showed last, after another program may have set them by right.
    pub fn forget_settled(&mut self) {
        self.actuators
            .iter_mut()
            .for_each(|actuator| actuator.settled = None);
    }

    /// Learns whether the minimum of a clock differs from the request.
    pub fn learn_minimum(&mut self, actuator: usize, differs: bool) {
        if let Some(actuator) = self.actuators.get_mut(actuator) {
            actuator.has_other_minimum = differs;
        }
    }

    /// Counts a change of a minimum by others.
    pub fn flip_minimum(&mut self, actuator: usize) {
        if let Some(actuator) = self.actuators.get_mut(actuator) {
            actuator.minimum_flips = actuator.minimum_flips.saturating_add(1);
        }
    }

    /// Whether the minimum of a clock is known to differ from the request.
    pub fn has_other_minimum(&self, actuator: usize) -> bool {
        let actuator = self.actuators.get(actuator);
        actuator.is_some_and(|actuator| {
            actuator.has_other_minimum || actuator.minimum_flips >= MOST_FLIPS
        })
    }

    /// Whether an actuator with a floor is asked for less at present.
    pub fn is_tested(&self, actuator: usize) -> bool {
        self.actuators
            .get(actuator)
            .is_some_and(|actuator| actuator.trial.is_some())
    }
}
