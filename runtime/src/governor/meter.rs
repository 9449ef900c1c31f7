//! What the chips of the sensor tell of the present mode.
//!
//! A chip's result is its mean over one period, and chips have theirs at times of their own. So a
//! result holds some of the mode before: the *part* of its period that lies before the change.
//! With the result before it, the rest can be told:
//!
//! ```text
//! result = part · before + (1 − part) · mode
//! ```
//!
//! When results came and when the mode was set is known from two looks each, so that the part is
//! within two bounds, and the greater power counts.

use super::pace::Pace;
use super::{ONE, Settings, ratio, scaled};
use crate::units::{Milliseconds, Milliwatts};

/// The most chips that a total comes from: an INA3221 has four addresses on its bus.
pub const MOST_CHIPS: usize = 4;

/// The greatest part of a result from which a mode's power is told.
const MOST_PART: u32 = ONE / 3;

/// After a step down a power is not told where the two bounds are further apart than this part: the
/// greater one would ask for another step, for nothing.
const VAGUE: u32 = ONE / 16;

/// A chip that carries at most this part of the total is not waited for after a step down, and
/// need not be heard.
const LITTLE: u32 = ONE / 16;

/// A chip that carries at least this part of the total has to be heard.
const MUCH: u32 = ONE / 2;

/// One that carries less, but not little, has to be heard in so many times the patience: a steady
/// rail shows equal results for long.
const LONGER: u64 = 8;

/// What one chip of the sensor shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Of all rails that it measures and that belong to the module's total.
    pub power: Milliwatts,
    /// Differs from that of the sample before where the chip has a new result.
    pub result: u32,
}

/// A reading of the power sensor: of each chip. Chips that there are not have a power and a
/// result of 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// In any order that stays.
    pub chips: [Reading; MOST_CHIPS],
}

impl Sample {
    /// Of a sensor with one chip.
    pub fn one(power: Milliwatts, result: u32) -> Self {
        let mut sample = Self::default();
        let [first, ..] = &mut sample.chips;
        *first = Reading { power, result };
        sample
    }

    /// Of the whole module, saturating.
    pub fn total(&self) -> Milliwatts {
        let powers = self.chips.iter().map(|chip| chip.power.0);
        Milliwatts(powers.fold(0, u32::saturating_add))
    }
}

/// What a look told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nothing new.
    Nothing,
    /// The mean over a time that began before the mode was set.
    Partial(Milliwatts),
    /// What the mode draws.
    Full(Milliwatts),
}

/// A mode that is set: when it was asked for, and when it was read back.
#[derive(Clone, Copy, Debug)]
pub struct Set {
    pub asked: Milliseconds,
    pub since: Milliseconds,
}

/// All chips.
#[derive(Clone, Debug)]
pub struct Meter {
    chips: [Chip; MOST_CHIPS],
    /// The last total.
    total: Milliwatts,
}

#[derive(Clone, Copy, Debug)]
struct Chip {
    pace: Pace,
    /// The last result and the one before, in mW.
    power: u32,
    before: u32,
    /// The number of the last result, and when it came: after the first and before the second.
    result: Option<u32>,
    came: Option<(Milliseconds, Milliseconds)>,
}

impl Meter {
    pub fn new(settings: &Settings) -> Self {
        let chip = Chip {
            pace: Pace::new(settings.period),
            power: 0,
            before: 0,
            result: None,
            came: None,
        };
        Self {
            chips: [chip; MOST_CHIPS],
            total: Milliwatts(0),
        }
    }

    /// Forgets all results, as after a sleep.
    pub fn forget(&mut self) {
        for chip in &mut self.chips {
            (chip.result, chip.came) = (None, None);
        }
    }

    /// Takes a look: the sample, unless there is none, and the look before. Returns whether
    /// there is a new result, and when to look next.
    pub fn look(
        &mut self,
        sample: Option<&Sample>,
        before: Option<Milliseconds>,
        now: Milliseconds,
    ) -> (bool, Milliseconds) {
        let (mut is_new, mut next) = (false, Milliseconds(u64::MAX));
        for (at, chip) in self.chips.iter_mut().enumerate() {
            let reading = sample.and_then(|sample| sample.chips.get(at));
            let is_chip = at == 0 || chip.result.is_some();
            let reading = reading.filter(|it| is_chip || **it != Reading::default());
            if reading.is_none() && !is_chip {
                continue;
            }
            let has_result = reading.is_some_and(|reading| chip.take(reading, before, now));
            is_new |= has_result;
            next = next.min(chip.pace.looked(now, has_result));
        }
        if let Some(sample) = sample.filter(|_| is_new) {
            self.total = sample.total();
        }
        (is_new, next)
    }

    /// For how long nothing was heard of a chip that carries much, since a time at most; or a
    /// part of how long nothing was heard of another one.
    pub fn silence(&self, since: Milliseconds, now: Milliseconds) -> Milliseconds {
        let part = |part: u32| scaled(self.total.0, part);
        let (much, little) = (part(MUCH), part(LITTLE));
        let heard = self.chips.iter().filter(|chip| chip.result.is_some());
        let silent = heard.filter(|chip| chip.power >= little).map(|chip| {
            let came = chip.came.map_or(since, |(_, came)| came.max(since));
            let silent = now.since(came).0;
            match chip.power >= much {
                true => silent,
                false => silent / LONGER,
            }
        });
        Milliseconds(silent.max().unwrap_or(now.since(since).0))
    }

    /// What the last results tell of a mode. After a step up all chips have to tell.
    pub fn of_mode(&self, set: Option<Set>, is_up: bool, now: Milliseconds) -> Taken {
        let Some(set) = set else {
            return Taken::Partial(self.total);
        };
        let (mut power, mut unknown) = (0_u32, 0_u32);
        for chip in &self.chips {
            match chip.of_mode(set, is_up, now) {
                Some(told) => power = power.saturating_add(told),
                None => unknown = unknown.saturating_add(chip.power),
            }
        }
        let most = if is_up {
            0
        } else {
            scaled(self.total.0, LITTLE)
        };
        match unknown > most {
            true => Taken::Partial(self.total),
            false => Taken::Full(Milliwatts(power.saturating_add(unknown))),
        }
    }

    /// Whether the total has no time in common with that of a time. A chip that is heard of has a
    /// new result, and of any other the result before is over.
    pub fn is_new_since(&self, at: Milliseconds, now: Milliseconds) -> bool {
        let little = scaled(self.total.0, LITTLE);
        let mut chips = self.chips.iter().filter(|chip| chip.power > little);
        chips.all(|chip| {
            let is_new = chip.came.is_some_and(|(_, until)| until > at);
            is_new || now.since(at).0 >= 2 * chip.pace.period().0
        })
    }

    /// The total if all of it had risen, and half as much again, as that chip's part that has
    /// risen most from one result of the same mode to the next: of another workload chips tell one
    /// after another, and the first of them from a part of its period.
    pub fn risen(&self, set: Option<Set>) -> Milliwatts {
        let Some(Set { since, .. }) = set else {
            return Milliwatts(0);
        };
        let little = scaled(self.total.0, LITTLE);
        let (mut total, mut most) = (0_u32, 0);
        for chip in &self.chips {
            total = total.saturating_add(chip.before);
            let both = Milliseconds(2 * chip.pace.period().0);
            let began = chip.came.map(|(after, _)| after.since(both).0);
            if chip.before > little && began.is_some_and(|began| since.0 <= began) {
                most = most.max(ratio(chip.power, chip.before));
            }
        }
        let more = most.saturating_sub(ONE) / 2;
        Milliwatts(scaled(total, most.saturating_add(more)))
    }
}

impl Chip {
    /// Returns whether the reading is a new result.
    fn take(&mut self, reading: &Reading, before: Option<Milliseconds>, now: Milliseconds) -> bool {
        let last = self.result.replace(reading.result);
        if last == Some(reading.result) {
            return false;
        }
        self.before = core::mem::replace(&mut self.power, reading.power.0);
        // Nobody knows when the first one came.
        self.came = before
            .filter(|_| last.is_some())
            .map(|before| (before, now));
        true
    }

    /// The power of a mode in mW, if it can be told.
    fn of_mode(&self, set: Set, is_up: bool, now: Milliseconds) -> Option<u32> {
        if self.result.is_none() {
            return Some(0);
        }
        let period = self.pace.period().0.max(1);
        // Whatever it shows by then began after the mode, and is equal to the result before.
        if now.since(set.since).0 > 2 * period + period / 8 {
            return Some(self.power);
        }
        let (after, until) = self.came?;
        // The part before the mode, at most and at least.
        let part = |set: Milliseconds, came: Milliseconds| {
            let before = Milliseconds(set.0.saturating_add(period)).since(came).0;
            let part = (before.min(period) << 16).checked_div(period);
            part.map_or(ONE, |part| part as u32)
        };
        let (most, least) = (part(set.since, after), part(set.asked, until));
        let power = |part: u32| {
            let rest = u64::from(self.power) << 16;
            let rest = rest.saturating_sub(u64::from(self.before) * u64::from(part));
            let power = rest.checked_div(u64::from(ONE.saturating_sub(part)));
            power.map_or(u32::MAX, |power| u32::try_from(power).unwrap_or(u32::MAX))
        };
        let (one, other) = (power(most), power(least));
        let is_told = is_up || one.abs_diff(other) <= scaled(one.min(other), VAGUE);
        (most <= MOST_PART && is_told).then_some(one.max(other))
    }
}
