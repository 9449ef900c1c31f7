//! The aim: what the governor does with the room below the limit.
//!
//! Without an aim it takes the fastest mode that fits. An aim of less power or energy, and a deadline for a step of
//! the workload, make it stop at a slower one, the *goal*. The limit comes first: what the aim wants beyond it is
//! not set.
//!
//! Steps that the workload reports tell the true time of a step in the present mode. Over the predicted one, that
//! is the slowness with which the predictions of the other modes count. Before any report, their bounds count. A
//! board that is only partly busy waits for its input: the time in which it is busy then counts.

use core::borrow::Borrow;

use super::machine::Governor;
use crate::front::Front;
use crate::point::Objective;
use crate::units::{Microseconds, Milliseconds, Milliwatts};

/// Averaging time of the time of a step: in ms, and in steps. The longer one counts. It then begins again after the
/// second time in ms.
const PERIOD_MS: u64 = 5_000;
const PERIOD_STEPS: u64 = 20;
const LONGEST_PERIOD_MS: u64 = 60_000;

/// Timeout without a step after which the workload rests: in ms, and in steps. The longer one counts.
const REST_MS: u64 = 2_000;
const REST_STEPS: f32 = 3.0;

/// Range of the GPU's load in permille in which the board waits for its input in a part of each step. Below it the GPU does
/// not do the work.
const WAITING: (f32, f32) = (50.0, 900.0);

/// A mode that was too slow is not set again for this time, unless the deadline is later by this part.
const TOO_SLOW_FOR: Milliseconds = Milliseconds(300_000);
const LATER: f32 = 0.02;

/// A slower mode is set only if it saves more than this part of what the aim minimises.
const LEAST_SAVING: f32 = 0.01;

/// Range of the measured over the predicted time of a step that is believed.
const SLOWNESS: (f32, f32) = (0.25, 4.0);

/// What a governor does with the room below the limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Aim {
    /// The quantity to minimise.
    pub objective: Objective,
    /// The longest time of a step of the workload, on average; `None` for any.
    pub deadline: Option<Microseconds>,
    /// What the board draws from the end of a step to the deadline, for [`Objective::Energy`]; 0 without a deadline.
    pub idle: Milliwatts,
}

impl Aim {
    /// The fastest mode, without a deadline.
    pub const FASTEST: Self = Self {
        objective: Objective::Time,
        deadline: None,
        idle: Milliwatts(0),
    };
}

/// An aim, and what the workload's steps have told about it.
#[derive(Clone, Copy, Debug)]
pub struct Pursuit {
    pub aim: Aim,
    /// The last number of steps, and when it grew.
    last: Option<(u64, Milliseconds)>,
    /// The same at the beginning of the present period, and the GPU's load since then: its sum over time in permille·ms,
    /// and that time.
    first: Option<(u64, Milliseconds)>,
    loads: [u64; 2],
    /// Measured over predicted time of a step.
    slowness: Option<f32>,
    /// The fastest mode that was too slow, for which deadline in µs, and when.
    too_slow: Option<(usize, f32, Milliseconds)>,
}

impl Pursuit {
    pub const NONE: Self = Self {
        aim: Aim::FASTEST,
        last: None,
        first: None,
        loads: [0; 2],
        slowness: None,
        too_slow: None,
    };

    /// Begins a period at the next step.
    pub fn restart(&mut self) {
        (self.first, self.loads) = (None, [0; 2]);
    }

    /// Forgets what belongs to the modes of a front.
    pub fn forget(&mut self) {
        *self = Self {
            aim: self.aim,
            ..Self::NONE
        };
    }

    fn deadline(&self) -> Option<f32> {
        self.aim.deadline.map(|time| time.0 as f32)
    }
}

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    /// Replaces the aim. Everything learned stays.
    pub fn set_aim(&mut self, aim: Aim) {
        self.pursuit.aim = aim;
    }

    /// The aim.
    pub fn aim(&self) -> Aim {
        self.pursuit.aim
    }

    /// Measured over predicted time of a step; `None` before steps were reported for long enough.
    pub fn slowness(&self) -> Option<f32> {
        self.pursuit.slowness
    }

    /// Notes the number of steps that the workload has reported in the present mode.
    pub(super) fn count_steps(&mut self, steps: Option<u64>, passed: u64, now: Milliseconds) {
        let predicted = self.modes.time(self.stay.at).map_or(0.0, |it| it.0 as f32);
        let is_steady = self.stay.set.is_some() && !self.load.is_throttled;
        let gpu = self.load.gpu;
        let pursuit = &mut self.pursuit;
        let Some(steps) = steps.filter(|_| is_steady && predicted > 0.0) else {
            pursuit.restart();
            return;
        };
        if let Some(load) = gpu {
            let [sum, ms] = pursuit.loads;
            pursuit.loads = [sum + u64::from(load) * passed, ms + passed];
        }
        let last = pursuit.last;
        match last {
            Some((before, at)) if steps == before => {
                let rest = REST_MS.max((REST_STEPS * predicted / 1e3) as u64);
                if now.since(at).0 >= rest {
                    pursuit.restart();
                }
                return;
            }
            // Another workload counts anew.
            Some((before, _)) if steps < before => pursuit.restart(),
            _ => {}
        }
        pursuit.last = Some((steps, now));
        let Some((first, from)) = pursuit.first else {
            (pursuit.first, pursuit.loads) = (Some((steps, now)), [0; 2]);
            return;
        };
        let (done, passed) = (steps.saturating_sub(first), now.since(from).0);
        if done < PERIOD_STEPS || passed < PERIOD_MS {
            return;
        }
        let period = 1e3 * passed as f32 / done as f32;
        let [sum, ms] = pursuit.loads;
        let load = sum as f32 / ms.max(1) as f32;
        let (least, most) = WAITING;
        let busy = match ms > 0 && load >= least && load < most {
            true => load / 1e3,
            false => 1.0,
        };
        let (least, most) = SLOWNESS;
        pursuit.slowness = Some((period * busy / predicted).max(least).min(most));
        // A report may come a step late.
        let shortest = 1e3 * passed as f32 / (done + 1) as f32;
        if let Some(deadline) = pursuit.deadline()
            && shortest > deadline
        {
            let at = self.stay.at;
            let faster = pursuit.too_slow.map_or(0, |(index, ..)| index);
            pursuit.too_slow = Some((at.max(faster), deadline, now));
        }
        if passed >= LONGEST_PERIOD_MS {
            pursuit.restart();
        }
    }

    /// Whether a mode is expected to meet the deadline.
    fn is_in_time(&self, index: usize, now: Milliseconds) -> bool {
        let pursuit = &self.pursuit;
        let Some(deadline) = pursuit.deadline() else {
            return true;
        };
        let is_known_slow = pursuit.too_slow.is_some_and(|(slow, of, at)| {
            index <= slow && deadline <= (1.0 + LATER) * of && now.since(at) < TOO_SLOW_FOR
        });
        let time = match pursuit.slowness {
            Some(slowness) => self.modes.time(index).map(|time| slowness * time.0 as f32),
            None => self.modes.point(index).map(|it| it.guarded_time.0 as f32),
        };
        !is_known_slow && time.is_some_and(|time| time <= deadline)
    }

    /// What the aim minimises, for a mode.
    fn cost(&self, index: usize, now: Milliseconds) -> f32 {
        let aim = self.pursuit.aim;
        let power = self.modes.expected(index, self.phase(now));
        let time = self.modes.time(index).map_or(0, |time| time.0) as f32;
        match aim.objective {
            Objective::Time => time,
            Objective::Power => power,
            Objective::Energy => match aim.deadline {
                Some(_) => (power - aim.idle.0 as f32) * time,
                None => power * time,
            },
            Objective::EnergyDelay => power * time * time,
        }
    }

    /// The goal: the mode than which the aim wants none faster; the present one if that is nearly as good. `None` if it
    /// wants the fastest one.
    pub(super) fn goal(&self, now: Milliseconds) -> Option<usize> {
        if self.pursuit.aim.objective == Objective::Time {
            return None;
        }
        let points = 0..self.modes.front().points().len();
        let in_time = points.filter(|&index| {
            self.modes.is_choosable(index)
                && !self.modes.is_unreachable(index)
                && self.is_in_time(index, now)
        });
        let best = in_time.min_by(|&a, &b| self.cost(a, now).total_cmp(&self.cost(b, now)))?;
        let at = self.stay.at;
        let saves = self.cost(best, now) < (1.0 - LEAST_SAVING) * self.cost(at, now);
        let stays = self.stay.set.is_some() && self.is_in_time(at, now) && !saves;
        Some(if stays { at } else { best })
    }

    /// Whether a mode is not faster than the goal.
    pub(super) fn is_wanted(&self, index: usize, goal: Option<usize>) -> bool {
        goal.is_none_or(|goal| index <= goal)
    }
}
