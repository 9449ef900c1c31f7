//! What is known of the load. A front of another workload drops it.

use super::memory::{Memory, Work};
use super::noise::Noise;
use super::steps::Steps;
use crate::quantities::Milliseconds;

/// Smoothing time in ms of the GPU's load.
const SMOOTHING_MS: u64 = 60;

/// Tolerance within which two loads of the GPU in permille are equal.
const SAME_LOAD: u16 = 100;

/// Whether two loads of the GPU are equal. An unknown load is equal to any.
pub fn is_same_load(one: Option<u16>, other: Option<u16>) -> bool {
    let loads = one.zip(other);
    loads.is_none_or(|(one, other)| one.abs_diff(other) <= SAME_LOAD)
}

/// What shows that the load is the same: the GPU's load in permille, and the phase that the caller knows.
#[derive(Clone, Copy, Debug)]
pub struct Signs {
    pub gpu: Option<u16>,
    pub phase: Option<u16>,
}

/// A short phase of the load.
#[derive(Clone, Copy, Debug)]
pub struct Phase {
    pub level: f32,
    /// Its averaging time.
    pub ms: u64,
}

impl Phase {
    pub const NONE: Self = Self { level: 0.0, ms: 0 };
}

/// A step of the load that exceeded the limit.
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    pub at: Milliseconds,
    /// The estimated level of the load.
    pub level: f32,
    /// The highest level that the mode could carry; 0 if the mode, not the load, drew more than expected.
    pub carried: f32,
    /// The highest mean level over a window that contains the step.
    pub mean: f32,
}

/// Bursts so short that the mean over the window stays within the limit.
#[derive(Clone, Copy, Debug)]
pub struct Bursts {
    /// The highest power level in one.
    pub level: f32,
    /// The highest mean level over a window with one.
    pub mean: f32,
    /// Number of successive ones that were not longer.
    pub times: u8,
    /// The highest mean level so far of the one that is under way.
    pub present: f32,
}

impl Bursts {
    pub const NONE: Self = Self {
        level: 0.0,
        mean: 0.0,
        times: 0,
        present: 0.0,
    };

    /// Notes one that has ended. Means differ by `noise`.
    pub fn note(&mut self, level: f32, mean: f32, noise: f32) {
        self.level = self.level.max(level);
        self.times = match mean <= self.mean * (1.0 + noise) {
            true => self.times.saturating_add(1),
            false => 0,
        };
        self.mean = self.mean.max(mean);
    }
}

/// The workload's levels, and how busy the board is.
#[derive(Clone, Debug)]
pub struct Load {
    pub memory: Memory,
    pub noise: Noise,
    pub steps: Steps,
    pub work: Work,
    /// Since when the board works.
    pub busy: Option<Milliseconds>,
    /// Whether the board runs slower than its mode.
    pub is_throttled: bool,
    /// The GPU's load in permille, smoothed.
    pub gpu: Option<u16>,
    /// The phase that the caller knows.
    pub phase: Option<u16>,
    /// The level of the last mean; 0 before the first.
    pub level: f32,
    pub short: Phase,
    /// Number of short phases near the highest level.
    pub peaks: f32,
    /// The last jump, while it counts.
    pub jump: Option<Jump>,
    pub bursts: Bursts,
}

impl Load {
    /// An unknown load, which is remembered for a time of work and is expected at a level.
    pub const fn new(memory: Option<Milliseconds>, level: f32) -> Self {
        Self {
            memory: Memory::new(memory, level),
            noise: Noise::new(),
            steps: Steps::NONE,
            work: Work::Idle,
            busy: None,
            is_throttled: false,
            gpu: None,
            phase: None,
            level: 0.0,
            short: Phase::NONE,
            peaks: 1.0,
            jump: None,
            bursts: Bursts::NONE,
        }
    }

    /// Smooths the GPU's load, which some drivers measure over a few ms only.
    pub fn smooth(&mut self, load: Option<u16>, passed: u64) {
        let load = load.map(|load| load.min(1_000));
        if let Some(load) = load {
            self.memory.record_load(load, passed);
        }
        self.gpu = match (self.gpu, load) {
            (Some(before), Some(now)) => {
                let (before, now) = (u64::from(before), u64::from(now));
                let passed = passed.min(SMOOTHING_MS);
                let sum = before * (SMOOTHING_MS - passed) + now * passed;
                Some((sum / SMOOTHING_MS) as u16)
            }
            _ => load,
        };
    }

    /// Forgets the GPU's load, which was that of a mode from before.
    pub fn forget_gpu(&mut self) {
        self.gpu = None;
        self.memory.forget_loads();
    }

    /// Takes how busy the board is.
    pub fn set_work(&mut self, work: Work, now: Milliseconds) {
        self.work = work;
        self.busy = match work {
            Work::Idle => None,
            _ => Some(self.busy.unwrap_or(now)),
        };
    }

    pub fn works(&self) -> bool {
        self.work != Work::Idle
    }

    pub fn signs(&self) -> Signs {
        let Self { gpu, phase, .. } = *self;
        Signs { gpu, phase }
    }

    /// Whether the GPU's load and the phase are unchanged. An unknown one counts as unchanged.
    pub fn is_same(&self, before: Signs) -> bool {
        let phases = before.phase.zip(self.phase);
        phases.is_none_or(|(before, now)| before == now) && is_same_load(before.gpu, self.gpu)
    }

    /// Drops what was seen of the present phase: another program changed the mode in it.
    pub fn drop_phase(&mut self) {
        (self.short, self.jump) = (Phase::NONE, None);
    }
}
