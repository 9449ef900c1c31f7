//! The highest level of the workload, relative to the prediction, and how long it is remembered.
//!
//! A workload pauses and returns; an epoch ends and the next one begins. So the *highest* level
//! counts. It expires by *time of work*, in two ways:
//!
//! - while the board works at all: after the memory time that the user sets;
//! - while the board is *fully busy* (its GPU as busy as at the highest level) and yet draws less:
//!   after [`BUSY_MS`], because the workload has become lighter. If an expired level returns, this
//!   time doubles, up to the user's memory time.

use super::interface::least;
use crate::quantities::Milliseconds;

/// Time in ms of a lighter load, on a fully busy board, after which a higher level expires. The
/// bound is two minutes (a lasting drop is used after two minutes); phases of most loads are
/// shorter.
const BUSY_MS: u64 = 84_000;

/// The same time at the start, in ms. It is shorter because the model's level was never measured.
const INITIAL_BUSY_MS: u64 = 21_000;

/// Least load in permille of the GPU of a busy board, and the least change of it that must show.
pub const BUSY_LOAD: u16 = 500;

/// A load below this part of the model's level is a lighter one. Above it, the model may be wrong by as much: units of
/// a board differ by a fifth.
const LIGHTER: f32 = 0.8;

/// Slots of a memory. Each slot expires as a whole.
const MEMORY_SLOTS: usize = 28;

/// The highest level in each slot of a time span.
#[derive(Clone, Debug)]
struct Slots {
    levels: [f32; MEMORY_SLOTS],
    /// The highest of them.
    highest: f32,
    at: usize,
    /// Time that has passed in the present slot.
    passed_ms: u64,
    /// Length of a slot; `None` if nothing expires.
    slot_ms: Option<u64>,
}

impl Slots {
    const fn new(memory_ms: Option<u64>) -> Self {
        Self {
            levels: [0.0; MEMORY_SLOTS],
            highest: 0.0,
            at: 0,
            passed_ms: 0,
            // One slot is spare, because the present slot is incomplete.
            slot_ms: match memory_ms {
                Some(ms) => Some(at_least_1(ms.div_ceil(MEMORY_SLOTS as u64 - 1))),
                None => None,
            },
        }
    }

    fn record(&mut self, level: f32) {
        if let Some(slot) = self.levels.get_mut(self.at) {
            *slot = slot.max(level);
            self.highest = self.highest.max(level);
        }
    }

    fn pass(&mut self, ms: u64) {
        let Some(slot_ms) = self.slot_ms else {
            return;
        };
        self.passed_ms += ms;
        if self.passed_ms >= slot_ms {
            self.passed_ms = 0;
            self.at = (self.at + 1) % MEMORY_SLOTS;
            if let Some(oldest) = self.levels.get_mut(self.at) {
                *oldest = 0.0;
            }
            self.highest = self.levels.iter().copied().fold(0.0, f32::max);
        }
    }
}

const fn at_least_1(ms: u64) -> u64 {
    if ms < 1 { 1 } else { ms }
}

fn pass(left: &mut Option<u64>, ms: u64) {
    if let Some(left) = left {
        *left = left.saturating_sub(ms);
    }
}

/// Remembers the highest level of the workload. A level is power over prediction.
#[derive(Clone, Debug)]
pub struct Memory {
    stated: Slots,
    busy: Slots,
    initial: Initial,
    /// Highest load of the GPU in permille.
    busiest: u16,
    peaks: Peaks,
    /// Time in ms that the board has been fully busy without a pause.
    full_ms: u64,
}

/// The model's level, which was never measured.
#[derive(Clone, Copy, Debug)]
struct Initial {
    level: f32,
    /// Time of work, and of full work, in ms after which it expires; `None` for never.
    stated_ms: Option<u64>,
    busy_ms: Option<u64>,
}

impl Initial {
    fn within(&self, left: Option<u64>) -> f32 {
        match left {
            Some(0) => 0.0,
            _ => self.level,
        }
    }
}

/// Peaks and mean of the GPU's load over the last second or two, in permille.
#[derive(Clone, Copy, Debug)]
struct Peaks {
    /// Peaks of the present second and of the previous one.
    peaks: [u16; 2],
    passed_ms: u64,
    mean: f32,
}

impl Peaks {
    const NONE: Self = Self {
        peaks: [0; 2],
        passed_ms: 0,
        mean: 0.0,
    };

    fn record(&mut self, load: u16, ms: u64) {
        self.passed_ms += ms;
        if self.passed_ms >= SECOND_MS {
            let [present, _] = self.peaks;
            (self.peaks, self.passed_ms) = ([load, present], 0);
        }
        let [present, _] = &mut self.peaks;
        *present = load.max(*present);
        let part = (ms as f32 / SECOND_MS as f32).min(1.0);
        self.mean += part * (f32::from(load) - self.mean);
    }

    fn peak(&self) -> u16 {
        let [present, before] = self.peaks;
        present.max(before)
    }
}

/// How busy the board is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Idle: its power says nothing about the workload.
    Idle,
    /// Working, but not fully busy.
    Partial,
    /// As busy as at the highest level.
    Full,
}

/// Loads of the GPU in permille: the minimum of a working board, and the tolerance of a fully busy board below the
/// highest load.
const WORKING_LOAD: u16 = 50;
const FULL_TOLERANCE: u16 = 20;

/// A fast-alternating load is fully busy when its peaks are and its mean, in permille, is at least
/// this. Peaks and mean cover the time below, in ms.
const MEAN_WHEN_FULL: f32 = 400.0;
const SECOND_MS: u64 = 1_000;

/// Minimum burst of full work in ms that shows the level of a mean over 430 ms.
const SHORTEST_BURST_MS: u64 = 430;

/// A board that draws this part of what the model predicts works, whatever the GPU's load says: its file may stand
/// at 0.
const SURE_LEVEL: f32 = 0.85;

/// Without the GPU's load: a board below this part of the highest level is idle.
const IDLE_LEVEL: f32 = 0.55;

impl Memory {
    /// Starts at `level`, which expires after [`INITIAL_BUSY_MS`] of full work at lower levels.
    pub const fn new(memory: Option<Milliseconds>, level: f32) -> Self {
        let (stated_ms, busy_ms, initial_ms) = match memory {
            Some(Milliseconds(ms)) => {
                let ms = at_least_1(ms);
                (
                    Some(ms),
                    Some(least(ms, BUSY_MS)),
                    Some(least(ms, INITIAL_BUSY_MS)),
                )
            }
            None => (None, None, None),
        };
        Self {
            stated: Slots::new(stated_ms),
            busy: Slots::new(busy_ms),
            initial: Initial {
                level,
                stated_ms,
                busy_ms: initial_ms,
            },
            busiest: 0,
            peaks: Peaks::NONE,
            full_ms: 0,
        }
    }

    /// Records the GPU's load in permille, which has lasted `ms`.
    pub fn record_load(&mut self, load: u16, ms: u64) {
        self.peaks.record(load, ms);
    }

    /// Forgets the loads of the GPU that were recorded.
    pub fn forget_loads(&mut self) {
        self.peaks = Peaks::NONE;
    }

    /// The highest level that has not expired.
    pub fn highest(&self) -> f32 {
        let Initial {
            stated_ms, busy_ms, ..
        } = self.initial;
        let stated = self.stated.highest.max(self.initial.within(stated_ms));
        let busy = self.busy.highest.max(self.initial.within(busy_ms));
        stated.min(busy)
    }

    /// The highest level that may return: within the memory time that the user sets, whether it expired under full
    /// work or not. The model's level counts only above a load that is much lighter: near it, the model is wrong.
    pub fn returning(&self, phase: f32) -> f32 {
        let measured = self.stated.highest;
        match phase < LIGHTER * self.initial.level {
            true => measured.max(self.initial.within(self.initial.stated_ms)),
            false => measured,
        }
    }

    /// How busy the board is, from its level and the GPU's smoothed load.
    pub fn work(&mut self, gpu: Option<u16>, level: f32, has_model: bool) -> Work {
        match gpu {
            None if level < IDLE_LEVEL * self.highest() => Work::Idle,
            None => Work::Partial,
            Some(gpu) if gpu < WORKING_LOAD => match has_model && level >= SURE_LEVEL {
                true => Work::Partial,
                false => Work::Idle,
            },
            Some(gpu) => {
                self.busiest = self.busiest.max(gpu.min(1_000));
                let is_full =
                    |load: u16| load >= BUSY_LOAD && load + FULL_TOLERANCE >= self.busiest;
                let alternates = self.peaks.mean >= MEAN_WHEN_FULL;
                match is_full(gpu) || alternates && is_full(self.peaks.peak()) {
                    true => Work::Full,
                    false => Work::Partial,
                }
            }
        }
    }

    /// Records a level of a working board.
    pub fn record(&mut self, level: f32) {
        self.stated.record(level);
        self.busy.record(level);
    }

    /// Lets time pass. Levels expire by time of work.
    pub fn pass(&mut self, work: Work, ms: u64) {
        if work != Work::Idle {
            self.stated.pass(ms);
            pass(&mut self.initial.stated_ms, ms);
        }
        self.full_ms = match work {
            Work::Full => self.full_ms.saturating_add(ms),
            _ => 0,
        };
        if self.full_ms > SHORTEST_BURST_MS {
            self.busy.pass(ms);
            pass(&mut self.initial.busy_ms, ms);
        }
    }

    /// Handles a level that returns after it expired under full work. Phases are longer than
    /// assumed, so the time for expiry doubles.
    pub fn level_returned(&mut self, level: f32) {
        let is_there = |slots: &Slots| slots.highest >= level * 0.97;
        if is_there(&self.busy) || !is_there(&self.stated) {
            return;
        }
        if let Some(slot_ms) = &mut self.busy.slot_ms {
            let longest = self.stated.slot_ms.unwrap_or(u64::MAX);
            *slot_ms = slot_ms.saturating_mul(2).min(longest);
        }
    }
}
