//! The allowed reading: the limit, reduced for an average, a budget, the supply, derating and the sensor's
//! errors.

use super::interface::{Average, Budget, Limit, Settings};
use super::supply::Supply;
use crate::quantities::{Milliseconds, Milliwatts};

/// Derating for over-current events and heat: its step, the interval between steps while the cause
/// lasts, the time until one step is given back, and the maximum. That time doubles each time that the
/// cause returns within it, up to the longest.
const ONE_Q16: u32 = 1 << 16;
const DERATE: u32 = ONE_Q16 / 10;
const DERATE_EVERY: Milliseconds = Milliseconds(2_000);
const DERATE_LASTS: Milliseconds = Milliseconds(60_000);
const LONGEST_DERATE: Milliseconds = Milliseconds(960_000);
const MOST_DERATE: u32 = ONE_Q16 / 2;

impl Budget {
    /// The power that spends the budget evenly.
    pub fn mean(&self) -> Milliwatts {
        Remaining::new(*self).power()
    }
}

/// `value` × `q16` / 65,536, rounded down.
fn scaled(value: u32, q16: u32) -> u32 {
    u32::try_from((u64::from(value) * u64::from(q16)) >> 16).unwrap_or(u32::MAX)
}

/// A limit, and what is left of its energy.
#[derive(Clone, Debug)]
pub struct Allowance {
    limit: Limit,
    /// What limit, average and budget are of. Here alone they become the module's.
    supply: Supply,
    /// The last average that was set, what was spent of it, and what is left of the last budget. A limit without an average
    /// or a budget keeps them for the next one that has it.
    average: Option<Average>,
    spent: Spent,
    remaining: Option<Remaining>,
    /// Derating in Q16, and when it last changed.
    derate: u32,
    derated: Milliseconds,
    /// How long a step lasts, and when one was last given back.
    lasts: Milliseconds,
    returned: Option<Milliseconds>,
}

impl Allowance {
    /// A limit of which nothing is spent.
    pub const fn new(limit: Limit) -> Self {
        Self {
            limit,
            supply: Supply::NONE,
            average: limit.average,
            spent: Spent::new(limit.average),
            remaining: match limit.budget {
                Some(budget) => Some(Remaining::new(budget)),
                None => None,
            },
            derate: 0,
            derated: Milliseconds(0),
            lasts: DERATE_LASTS,
            returned: None,
        }
    }

    /// The limit as it was set.
    pub fn limit(&self) -> Limit {
        self.limit
    }

    /// Replaces the limit. If its average or budget equals the last one that was set, what was spent of that still counts,
    /// even if limits without one came in between.
    pub fn set_limit(&mut self, limit: Limit) {
        if limit.average.is_some() && limit.average != self.average {
            (self.average, self.spent) = (limit.average, Spent::new(limit.average));
        }
        let known = self.remaining.as_ref().map(|remaining| remaining.budget);
        if limit.budget.is_some() && limit.budget != known {
            self.remaining = limit.budget.map(Remaining::new);
        }
        self.limit = limit;
    }

    /// What limit, average and budget are of.
    pub fn supply(&self) -> Supply {
        self.supply
    }

    /// Replaces the supply. What was spent still counts.
    pub fn set_supply(&mut self, supply: Supply) {
        self.supply = supply;
    }

    /// What is left of the budget, in mJ; `None` without one.
    pub fn budget_left(&self) -> Option<u64> {
        let remaining = self.remaining.as_ref();
        let remaining = remaining.filter(|_| self.limit.budget.is_some());
        remaining.map(Remaining::millijoules)
    }

    /// Books an energy in µJ that the module drew in a time in ms.
    pub fn spend(&mut self, microjoules: u64, milliseconds: u64) {
        let microjoules = self.supply.energy(microjoules, milliseconds);
        self.spent.spend(microjoules, milliseconds);
        if let Some(remaining) = &mut self.remaining {
            remaining.spend(microjoules, milliseconds);
        }
    }

    /// Derates while heat or over-current lasts, and recovers afterwards.
    pub fn derate(&mut self, too_much: bool, now: Milliseconds) {
        let quiet = now.since(self.derated);
        if too_much {
            if self.derate == 0 || quiet >= DERATE_EVERY {
                self.derate = (self.derate + DERATE).min(MOST_DERATE);
                self.derated = now;
                // Too much was given back.
                if let Some(at) = self.returned.take() {
                    self.lasts = match now.since(at) < self.lasts {
                        true => Milliseconds(2 * self.lasts.0).min(LONGEST_DERATE),
                        false => DERATE_LASTS,
                    };
                }
            }
        } else if self.derate > 0 && quiet >= self.lasts {
            self.derate = self.derate.saturating_sub(DERATE);
            (self.derated, self.returned) = (now, Some(now));
        }
    }

    /// The highest reading of the sensor that satisfies every limit.
    pub fn reading(&self, settings: &Settings) -> Milliwatts {
        let mut power = self.limit.power.0;
        let average = self.limit.average.and(self.spent.allowance);
        if let Some(mean) = average {
            power = power.min(mean.0);
        }
        let remaining = self.remaining.as_ref();
        if let Some(remaining) = remaining.filter(|_| self.limit.budget.is_some()) {
            power = power.min(remaining.power().0);
        }
        self.shown(power, settings)
    }

    /// The same for a power that is drawn for ever: what was saved so far does not count.
    pub fn lasting(&self, settings: &Settings) -> Milliwatts {
        let Limit {
            power,
            average,
            budget,
        } = self.limit;
        let mean = average.map_or(power, |average| average.power);
        let budget = budget.map_or(power, |budget| budget.mean());
        let power = power.min(mean).min(budget);
        self.shown(power.0, settings).min(self.reading(settings))
    }

    /// What the sensor may show at a true power of the supply in mW. Heat and over-current derate the module alone.
    fn shown(&self, power: u32, settings: &Settings) -> Milliwatts {
        let Milliwatts(power) = self.supply.module(Milliwatts(power));
        let power = scaled(power, ONE_Q16 - self.derate);
        let power = power.saturating_sub(settings.sensor_offset.0);
        let gain = u64::from(ONE_Q16) + u64::from(settings.sensor_gain);
        let reading = (u64::from(power) << 16).checked_div(gain).unwrap_or(0);
        Milliwatts(u32::try_from(reading).unwrap_or(u32::MAX))
    }
}

/// What is left of a budget.
#[derive(Clone, Debug)]
struct Remaining {
    budget: Budget,
    /// In µJ.
    spent: u64,
    elapsed_ms: u64,
}

/// The time left counts as at least the budget's time divided by this.
const LAST_PART: u64 = 16;

impl Remaining {
    const fn new(budget: Budget) -> Self {
        Self {
            budget,
            spent: 0,
            elapsed_ms: 0,
        }
    }

    fn spend(&mut self, microjoules: u64, milliseconds: u64) {
        self.spent = self.spent.saturating_add(microjoules);
        self.elapsed_ms = self.elapsed_ms.saturating_add(milliseconds);
    }

    /// The energy left, in µJ.
    fn microjoules(&self) -> u64 {
        let all = self.budget.millijoules.saturating_mul(1_000);
        all.saturating_sub(self.spent)
    }

    /// The energy left, in mJ.
    fn millijoules(&self) -> u64 {
        self.microjoules() / 1_000
    }

    /// The mean power that spends the energy left in the time left.
    fn power(&self) -> Milliwatts {
        let Budget { time, .. } = self.budget;
        let left = self.microjoules();
        let time_left = time.0.saturating_sub(self.elapsed_ms);
        let power = left.checked_div(time_left.max(time.0 / LAST_PART).max(1));
        let power = power.map_or(0, |power| u32::try_from(power).unwrap_or(u32::MAX));
        Milliwatts(power)
    }
}

/// Slots of a window, and the range of their length in ms.
const WINDOW_SLOTS: usize = 16;
const SHORTEST_SLOT: u64 = 60;
const LONGEST_SLOT: u64 = 1 << 40;

/// Energy spent in the last window of an [`Average`]. Before the start, the mean power is assumed.
#[derive(Clone, Debug)]
struct Spent {
    /// Energy of each slot in µJ.
    slots: [u64; WINDOW_SLOTS],
    /// The present slot, and the time in ms that has passed in it.
    slot: usize,
    elapsed_ms: u64,
    /// The length of a slot in ms, and its share of the budget in µJ.
    slot_ms: u64,
    budget: u64,
    /// The allowed mean power of the present slot; `None` without an average.
    allowance: Option<Milliwatts>,
}

impl Spent {
    const fn new(average: Option<Average>) -> Self {
        let (power, window, allowance) = match average {
            Some(Average { power, window }) => (power.0 as u64, window.0, Some(power)),
            None => (0, 0, None),
        };
        let slot_ms = match window / WINDOW_SLOTS as u64 {
            ms if ms < SHORTEST_SLOT => SHORTEST_SLOT,
            ms if ms > LONGEST_SLOT => LONGEST_SLOT,
            ms => ms,
        };
        let budget = power.saturating_mul(slot_ms);
        // Every slot but the present one is full.
        let mut slots = [budget; WINDOW_SLOTS];
        let [present, ..] = &mut slots;
        *present = 0;
        Self {
            slots,
            slot: 0,
            elapsed_ms: 0,
            slot_ms,
            budget,
            allowance,
        }
    }

    fn spend(&mut self, microjoules: u64, milliseconds: u64) {
        if self.allowance.is_none() {
            return;
        }
        // Of a long time, only the last window counts. It was drawn evenly, for all that is known.
        let power = microjoules / milliseconds.max(1);
        let window = self.slot_ms.saturating_mul(WINDOW_SLOTS as u64);
        let (mut energy, mut left) = match milliseconds > window {
            true => (power.saturating_mul(window), window),
            false => (microjoules, milliseconds),
        };
        loop {
            let room = self.slot_ms - self.elapsed_ms;
            let part = match left < room {
                true => energy,
                false => power.saturating_mul(room).min(energy),
            };
            if let Some(slot) = self.slots.get_mut(self.slot) {
                *slot = slot.saturating_add(part);
            }
            if left < room {
                self.elapsed_ms += left;
                return;
            }
            (energy, left) = (energy - part, left - room);
            self.begin_slot();
        }
    }

    /// Reuses the oldest slot as the present one. The window's budget holds if the present slot
    /// spends at most what the oldest slot frees plus what is left. What is left is spent evenly
    /// over a window, and faster where it exceeds a quarter of the window.
    fn begin_slot(&mut self) {
        (self.slot, self.elapsed_ms) = ((self.slot + 1) % WINDOW_SLOTS, 0);
        let spent = self
            .slots
            .iter()
            .fold(0_u64, |sum, slot| sum.saturating_add(*slot));
        let window = self.budget.saturating_mul(WINDOW_SLOTS as u64);
        let oldest = self.slots.get_mut(self.slot).map_or(0, core::mem::take);
        let holds = oldest.saturating_add(window).saturating_sub(spent);
        let left = window.saturating_sub(spent);
        let even = self.budget.saturating_add(left / WINDOW_SLOTS as u64);
        let energy = holds.min(even.saturating_add(left.saturating_sub(window / 4) / 4));
        let power = energy / self.slot_ms.max(1);
        self.allowance = Some(Milliwatts(u32::try_from(power).unwrap_or(u32::MAX)));
    }
}
