//! What the workload has drawn at most, relative to the prediction, and for how long that counts.
//!
//! A workload rests, and comes back; an epoch ends, and the next one begins. So the *highest*
//! level counts, and it is forgotten by *time of work*, in two ways:
//!
//! - while the board works at all, in the memory that the user states;
//! - while the board is *fully busy* (its GPU as busy as at the highest level), and yet draws less,
//!   in [`BUSY_MS`]: then the workload has become lighter. Where such a level comes back after it
//!   was forgotten, twice that time is taken from then on, up to the stated memory.

use crate::units::Milliseconds;

/// The time that a lighter load has to last while the board is fully busy. Two minutes are the bound
/// (a lasting drop is used after two minutes); phases of most loads are shorter.
const BUSY_MS: u64 = 84_000;

/// The time that a load lighter than the model's has to last at the start, while the board is fully
/// busy: the model's level was never seen.
const NEW_MS: u64 = 21_000;

/// Parts of a memory, each of which is forgotten at once.
const SLOTS: usize = 28;

/// The highest level of each part of a span of time.
#[derive(Clone, Debug)]
struct Slots {
    highest: [f32; SLOTS],
    at: usize,
    /// Of the present part, and of a whole one.
    passed_ms: u64,
    /// None where nothing is forgotten.
    slot_ms: Option<u64>,
}

impl Slots {
    fn new(memory_ms: Option<u64>) -> Self {
        Self {
            highest: [0.0; SLOTS],
            at: 0,
            passed_ms: 0,
            // The present part and the oldest one together are one part.
            slot_ms: memory_ms.map(|ms| ms.div_ceil(SLOTS as u64 - 1).max(1)),
        }
    }

    fn see(&mut self, level: f32) {
        if let Some(highest) = self.highest.get_mut(self.at) {
            *highest = highest.max(level);
        }
    }

    /// A level that is forgotten after a part of the memory.
    fn see_for(&mut self, level: f32, ms: u64) {
        let slots = self
            .slot_ms
            .and_then(|slot| ms.checked_div(slot))
            .unwrap_or(SLOTS as u64);
        let ahead = (slots as usize).clamp(1, SLOTS - 1);
        if let Some(highest) = self.highest.get_mut((self.at + ahead) % SLOTS) {
            *highest = highest.max(level);
        }
    }

    fn pass(&mut self, ms: u64) {
        let Some(slot_ms) = self.slot_ms else {
            return;
        };
        self.passed_ms += ms;
        if self.passed_ms >= slot_ms {
            self.passed_ms = 0;
            self.at = (self.at + 1) % SLOTS;
            if let Some(oldest) = self.highest.get_mut(self.at) {
                *oldest = 0.0;
            }
        }
    }

    fn highest(&self) -> f32 {
        self.highest.iter().copied().fold(0.0, f32::max)
    }
}

/// The highest level that counts. A level is power over prediction.
#[derive(Clone, Debug)]
pub struct Memory {
    stated: Slots,
    busy: Slots,
    /// The GPU's load at its most, in permille.
    busiest: u16,
    bursts: Bursts,
    /// For how long it was fully busy without a pause.
    full_ms: u64,
}

/// The GPU's load of the last second or two: its peaks and its mean, in permille.
#[derive(Clone, Copy, Debug)]
struct Bursts {
    /// Of the present second, and of the one before.
    peaks: [u16; 2],
    passed_ms: u64,
    mean: f32,
}

impl Bursts {
    const NONE: Self = Self {
        peaks: [0; 2],
        passed_ms: 0,
        mean: 0.0,
    };

    fn see(&mut self, load: u16, ms: u64) {
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
    /// Not at all: what it draws tells nothing.
    None,
    /// It works.
    Some,
    /// As much as ever.
    Full,
}

/// From this load of the GPU on, in permille, the board works; from the second on it may be fully
/// busy, and it is within the third of the highest load.
const WORKS: u16 = 50;
const FULL: u16 = 500;
const AS_BUSY: u16 = 20;

/// A load that alternates fast is fully busy when its peaks are, and its mean is at least this.
const MEAN_WHEN_FULL: f32 = 400.0;
const SECOND_MS: u64 = 1_000;

/// A burst of full work that is shorter tells nothing of a longer one.
const SHOWN_AFTER_MS: u64 = 430;

/// Without the GPU's load: a board that draws less than this part of the highest level rests.
const RESTS: f32 = 0.55;

impl Memory {
    /// The workload is taken to draw at least `level` until it was fully busy and lower for a while.
    pub fn new(memory: Option<Milliseconds>, level: f32) -> Self {
        let stated_ms = memory.map(|it| it.0.max(1));
        let busy_ms = stated_ms.map(|ms| ms.min(BUSY_MS));
        let mut stated = Slots::new(stated_ms);
        let mut busy = Slots::new(busy_ms);
        stated.see(level);
        busy.see_for(level, NEW_MS);
        Self {
            stated,
            busy,
            busiest: 0,
            bursts: Bursts::NONE,
            full_ms: 0,
        }
    }

    /// The GPU's load in permille, as it was for so long.
    pub fn see_load(&mut self, load: u16, ms: u64) {
        self.bursts.see(load, ms);
    }

    /// The highest level that was not forgotten.
    pub fn highest(&self) -> f32 {
        self.stated.highest().min(self.busy.highest())
    }

    /// How busy the board is at a level, with the GPU's load over some looks.
    pub fn work(&mut self, gpu: Option<u16>, level: f32) -> Work {
        match gpu {
            None if level < RESTS * self.highest() => Work::None,
            None => Work::Some,
            Some(gpu) if gpu < WORKS => Work::None,
            Some(gpu) => {
                self.busiest = self.busiest.max(gpu.min(1_000));
                let is_full = |load: u16| load >= FULL && load + AS_BUSY >= self.busiest;
                let alternates = self.bursts.mean >= MEAN_WHEN_FULL;
                match is_full(gpu) || alternates && is_full(self.bursts.peak()) {
                    true => Work::Full,
                    false => Work::Some,
                }
            }
        }
    }

    /// The board has worked at a level.
    pub fn see(&mut self, level: f32) {
        self.stated.see(level);
        self.busy.see(level);
    }

    /// Time has passed.
    pub fn pass(&mut self, work: Work, ms: u64) {
        if work != Work::None {
            self.stated.pass(ms);
        }
        self.full_ms = match work {
            Work::Full => self.full_ms.saturating_add(ms),
            _ => 0,
        };
        // A shorter burst does not show the level of a mean over 430 ms.
        if self.full_ms > SHOWN_AFTER_MS {
            self.busy.pass(ms);
        }
    }

    /// A level came that had been forgotten because the board was fully busy without it: such phases
    /// are longer than was thought.
    pub fn came_back(&mut self, level: f32) {
        let is_there = |slots: &Slots| slots.highest() >= level * 0.97;
        if is_there(&self.busy) || !is_there(&self.stated) {
            return;
        }
        if let Some(slot_ms) = &mut self.busy.slot_ms {
            let longest = self.stated.slot_ms.unwrap_or(u64::MAX);
            *slot_ms = slot_ms.saturating_mul(2).min(longest);
        }
    }
}
