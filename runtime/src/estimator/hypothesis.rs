//! A hypothesis about the time of the last step.

use super::sensor::MOST_CHIPS;
use super::track::{Event, Track, View};
use crate::float::{max, sqrt};
use crate::quantities::Milliseconds;

/// Standard deviation of a time constant, as part of it. A conversion of 140 µs takes 154 µs at
/// most (TI, data sheet SBOS576A).
const CLOCK_DEVIATION: f32 = 0.04;

/// Correlation of the errors of two chips. It lies between 1 for ripple, which is common to all
/// chips, and 0 for rounding, which is independent.
const CHIP_CORRELATION: f32 = 0.5;

/// Standard deviation of a chip's power at its first reading, as part of it: that of a board in the middle of a step.
const FIRST_DEVIATION: f32 = 0.3;

/// Assumes that the power last stepped at `since`, and estimates it under this assumption.
#[derive(Clone, Copy, Debug)]
pub struct Hypothesis {
    pub since: Milliseconds,
    pub tracks: [Track; MOST_CHIPS],
    /// Probability; 0 where the place is free.
    pub weight: f32,
}

impl Hypothesis {
    pub const FREE: Self = Self {
        since: Milliseconds(0),
        tracks: [Track::NONE; MOST_CHIPS],
        weight: 0.0,
    };

    /// The power.
    #[inline]
    pub fn power(&self) -> f32 {
        self.tracks.iter().map(|track| track.power).sum()
    }

    /// The power and its variance.
    #[inline]
    pub fn moments(&self) -> (f32, f32) {
        let [first, others @ ..] = &self.tracks;
        let (mut power, mut register) = (first.power, first.register);
        let mut alone = first.covariance.power;
        let mut deviations = sqrt(alone);
        for track in others.iter().filter(|track| track.is_present()) {
            power += track.power;
            register += track.register;
            alone += track.covariance.power;
            deviations += sqrt(track.covariance.power);
        }
        let lag = CLOCK_DEVIATION * (power - register);
        let variance = alone + CHIP_CORRELATION * (deviations * deviations - alone) + lag * lag;
        (power, variance)
    }

    /// Updates the filters with the next sample. Stores by how much the ripple of each chip seems too
    /// small, if that is asked for.
    pub fn update(
        &mut self,
        views: &[View; MOST_CHIPS],
        event: Event,
        mut excesses: Option<&mut [f32; MOST_CHIPS]>,
    ) {
        let mut likelihood = 1.0;
        for (chip, (track, view)) in self.tracks.iter_mut().zip(views).enumerate() {
            if !track.is_present() && view.is_zero() {
                continue;
            }
            if view.is_zero() && track.register.abs() < view.step {
                *track = Track::NONE;
                continue;
            }
            // A chip whose first readings were missing: nothing is known of its power before.
            if !track.is_present() {
                *track = Track::at(
                    view.reading,
                    FIRST_DEVIATION * view.reading + view.step,
                    view.step,
                );
                continue;
            }
            let ripple = track.predict(view, event);
            let correction = track.correct(view.reading, view.step);
            likelihood *= correction.likelihood;
            if let Some(excess) = excesses.as_mut().and_then(|it| it.get_mut(chip)) {
                *excess = correction.excess(ripple);
            }
        }
        // The floor keeps a weight above 0 when the readings contradict every hypothesis.
        self.weight = max(self.weight * max(likelihood, 1e-26), 1e-30);
    }
}
