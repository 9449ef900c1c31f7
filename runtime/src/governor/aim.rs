//! The aim: what the governor does with the room below the limit.
//!
//! Without an aim it takes the fastest mode that fits. An aim of less power or energy, and a deadline for a step of
//! the workload, make it stop at a slower one, the *goal*. The limit comes first: what the aim wants beyond it is
//! not set.
//!
//! From the steps that the workload reports the governor knows the true time of a step in the present mode. Divided by
//! the predicted time it is the *slowness*, by which the predicted times of the other modes are multiplied. Before any
//! report, the bounds of the model count.
//!
//! A GPU that is only partly busy may wait for input, such as the next image of a camera. Then only the time in which it
//! is busy counts. But if a step takes longer than the deadline, the GPU does not wait for input: it waits for the
//! workload's work on the CPU, and the whole time counts.

use core::borrow::Borrow;

use super::machine::Governor;
use super::pursuit::{Aim, TooSlow};
use super::steps::Pace;
use crate::front::Front;
use crate::point::Objective;
use crate::quantities::{Milliseconds, Milliwatts};

/// Averaging time in ms of the GPU's load.
const LOAD_MS: f32 = 5_000.0;

/// Range of the GPU's load in permille in which the board waits for its input in a part of each step. Below it the GPU does
/// not do the work.
const WAITING: (f32, f32) = (50.0, 900.0);

/// A mode that was too slow is not set again for this time, unless the deadline is later by the part [`LATER`].
const TOO_SLOW_FOR: Milliseconds = Milliseconds(300_000);

/// Deadlines that differ by less than this part are the same. A user may write 33 ms for a camera of 30 images a second, whose
/// images come every 33.3 ms.
const LATER: f32 = 0.02;

/// A slower mode is set only if it saves more than this part of what the aim minimises.
const LEAST_SAVING: f32 = 0.01;

/// Range of the measured over the predicted time of a step that is believed.
const SLOWNESS: (f32, f32) = (0.25, 4.0);

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    /// Replaces the aim. Everything learned stays.
    pub fn set_aim(&mut self, aim: Aim) {
        self.pursuit.aim = aim;
    }

    /// The aim.
    pub fn aim(&self) -> Aim {
        self.pursuit.aim
    }

    /// Steps in the predicted time of one, in the present mode; `None` before steps were reported for long enough.
    pub fn pace(&self) -> Option<f32> {
        self.load.steps.pace()
    }

    /// Measured over predicted time of a step, without waits for input; `None` before steps were reported for long enough.
    pub fn slowness(&self) -> Option<f32> {
        self.pursuit.slowness
    }

    /// Whether the GPU had next to nothing to do in the last seconds. If the board does not tell its load, `false`.
    pub fn is_idle(&self) -> bool {
        let (least, _) = WAITING;
        self.pursuit.gpu.is_some_and(|load| load < least)
    }

    /// Averages the GPU's load.
    pub(super) fn average_load(&mut self, passed: u64) {
        let Some(load) = self.load.gpu.map(f32::from) else {
            self.pursuit.gpu = None;
            return;
        };
        let part = (passed as f32 / LOAD_MS).min(1.0);
        let before = self.pursuit.gpu.unwrap_or(load);
        self.pursuit.gpu = Some(before + part * (load - before));
    }

    /// Takes the pace of a period in the present mode.
    pub(super) fn take_pace(&mut self, pace: Pace, now: Milliseconds) {
        let at = self.stay.at;
        // A ratio to a guess says nothing of the other modes.
        let is_guess = at == 0 && self.modes.front().is_least_guessed();
        if self.load.is_throttled || self.stay.set.is_none() || is_guess {
            return;
        }
        let period = self.predicted_time(at) / pace.pace;
        // A report may come a step late.
        let shortest = period * pace.steps / (pace.steps + 1.0);
        if let Some(deadline) = self.deadline().filter(|deadline| shortest > *deadline) {
            let before = self.pursuit.too_slow.map_or(0, |it| it.index);
            self.pursuit.too_slow = Some(TooSlow {
                index: at.max(before),
                deadline,
                at: now,
            });
        }
        // A step is not late because of input that comes in time.
        let is_late = |deadline| period > (1.0 + LATER) * deadline;
        self.pursuit.is_own |= self.deadline().is_some_and(is_late);
        let (least, most) = WAITING;
        let is_waiting = |load: &f32| !self.pursuit.is_own && *load >= least && *load < most;
        let waits = self.pursuit.gpu.filter(is_waiting);
        let busy = waits.map_or(1.0, |load| load / 1e3);
        let (least, most) = SLOWNESS;
        self.pursuit.slowness = Some((busy / pace.pace).max(least).min(most));
    }

    fn deadline(&self) -> Option<f32> {
        self.pursuit.aim.deadline.map(|time| time.0 as f32)
    }

    /// The predicted time of a mode in µs.
    fn predicted_time(&self, index: usize) -> f32 {
        self.modes.time(index).map_or(0, |time| time.0) as f32
    }

    /// Whether a mode is expected to meet the deadline.
    fn is_in_time(&self, index: usize, now: Milliseconds) -> bool {
        let Some(deadline) = self.deadline() else {
            return true;
        };
        let is_known_slow = self.pursuit.too_slow.is_some_and(|slow| {
            index <= slow.index
                && deadline <= (1.0 + LATER) * slow.deadline
                && now.since(slow.at) < TOO_SLOW_FOR
        });
        let time = match self.pursuit.slowness {
            Some(slowness) => slowness * self.predicted_time(index),
            None => self.modes.point(index).map_or(0, |it| it.guarded_time.0) as f32,
        };
        !is_known_slow && time <= deadline
    }

    /// What the aim minimises, for a mode at a level of the load.
    fn cost(&self, index: usize, level: f32) -> f32 {
        let aim = self.pursuit.aim;
        let power = self.modes.expected(index, level);
        let time = self.predicted_time(index);
        match aim.objective {
            Objective::Time => time,
            Objective::Power => power,
            Objective::Energy => {
                let taken = self.pursuit.slowness.unwrap_or(1.0) * time;
                let waits = self.deadline().map_or(0.0, |end| (end - taken).max(0.0));
                // A unit that draws more or less than predicted does so when idle, too.
                let load = self.modes.point(index).map_or(Milliwatts(0), |it| it.power);
                let idle = aim.idle.power(load).0 as f32 / load.0.max(1) as f32;
                power * (taken + idle * waits)
            }
            Objective::EnergyDelay => power * time * time,
        }
    }

    /// The goal: the mode than which the aim wants none faster; the present one if that is nearly as good. `None` if it
    /// wants the fastest one, or if nothing is known of the modes.
    #[inline(never)]
    pub(super) fn goal(&self, now: Milliseconds) -> Option<usize> {
        let front = self.modes.front();
        if self.pursuit.aim.objective == Objective::Time || front.is_unknown() {
            return None;
        }
        let (level, at) = (self.phase(now), self.stay.at);
        let (mut best, mut least) = (None, f32::MAX);
        let mut of_present = f32::MAX;
        let first = front.first_known(
            self.pursuit.aim.objective,
            self.pursuit.aim.deadline.is_some(),
        );
        for index in first..front.points().len() {
            let is_offered = self.modes.is_choosable(index) && !self.modes.is_unreachable(index);
            if !is_offered || !self.is_in_time(index, now) {
                continue;
            }
            let cost = self.cost(index, level);
            if index == at && self.stay.set.is_some() {
                of_present = cost;
            }
            if best.is_none() || cost < least {
                (best, least) = (Some(index), cost);
            }
        }
        match least < (1.0 - LEAST_SAVING) * of_present {
            true => best,
            false => best.map(|_| at),
        }
    }

    /// Whether a mode is not faster than the goal.
    pub(super) fn is_wanted(&self, index: usize, goal: Option<usize>) -> bool {
        goal.is_none_or(|goal| index <= goal)
    }
}
