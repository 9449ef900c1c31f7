//! The test whether the power is over the limit, and what the window leaves for the next mode.
//!
//! The limit applies to means over the window. The mean of the window that ends `ahead` from now
//! consists of what was drawn in its past part, which is known, and of what will be drawn:
//!
//! ```text
//! mean(ahead)  =  kept(window − ahead) · (window − ahead) / window  +  power · ahead / window
//! ```
//!
//! | the power is over when | with this margin |
//! |---|---|
//! | the measured mean exceeds what the window allows | the resolution of the mean |
//! | the present power exceeds the allowed power | `OVER_DEVIATIONS` |
//! | the same, after a sure step of the load | `OVER_AFTER_STEP`: its final level is not sure |
//! | the same, just after a step down for a jump | `OVER_AFTER_JUMP`: that step was likely too small |
//!
//! A burst of a level that is known is not over as long as a later step down keeps the window's mean.

use core::borrow::Borrow;

use super::fit::RETURN_EXCESS;
use super::interface::CONFIRMATION_DIVISOR;
use super::machine::Governor;
use crate::estimator::Estimate;
use crate::front::Front;
use crate::quantities::Milliseconds;

/// Settling time in ms after a mode change. A step within it is no sure step of the load.
const SETTLING_MS: u64 = 100;

/// The power is over the limit when the estimate exceeds it by this number of standard deviations.
pub const OVER_DEVIATIONS: f32 = 3.0;

/// The same number after a sure step of the load. The final level of the load is uncertain, so the number is on the
/// safe side.
const OVER_AFTER_STEP: f32 = -0.5;

/// The same number just after a step down for a jump: that step was probably too small.
const OVER_AFTER_JUMP: f32 = 1.0;

/// A step that ends within this number of standard deviations of a known phase is no jump.
const KNOWN_DEVIATIONS: f32 = 2.0;

/// Tolerance within which a burst is a known one, as part of its level.
const KNOWN_BURST: f32 = 0.03;

/// Number of successive bursts after which their length is known.
const SURE_BURSTS: u8 = 3;

/// Averaging window in ms for a rise that was not detected as a step. It shows more of the rise than
/// the limit's window.
const RISE_WINDOW: u64 = 250;

/// Ends of the windows that the next mode must keep, in windows from now.
const AHEAD: [f32; 4] = [0.3, 0.45, 0.7, 1.0];

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    pub(super) fn allowed(&self) -> f32 {
        self.allowance.reading(&self.settings).0 as f32
    }

    /// What the mean over the window that ends at a time may be. A limit that was lowered within it
    /// counts from then on.
    pub(super) fn allowed_until(&self, end: Milliseconds) -> f32 {
        let allowed = self.allowed();
        let window = self.window.0;
        let Some(lowered) = self.lowered else {
            return allowed;
        };
        let until = match lowered.is_pending {
            // What is drawn until the mode follows counts, too.
            true => {
                let follows = self.clock.now().0 + self.takes_ms + self.settings.settling.0;
                Milliseconds(follows.min(lowered.until.0 + window / 2))
            }
            false => lowered.until,
        };
        let part = window.saturating_sub(end.since(until).0) as f32 / window as f32;
        allowed + (lowered.allowed - allowed).max(0.0) * part
    }

    /// Time in ms until another mode takes effect that is chosen at the next sample.
    pub(super) fn lead(&self) -> u64 {
        self.settings.sample_interval.0 + self.takes_ms + self.settings.settling.0
    }

    /// Time in ms in which a return of a known level is seen and answered. Samples are then twice as frequent: on average
    /// a quarter of the interval passes until the next one, which shows it, and a third until one more confirms it: 7/12.
    pub(super) fn reaction(&self) -> u64 {
        7 * self.settings.sample_interval.0 / 12 + self.takes_ms + self.settings.settling.0
    }

    /// Energy in µJ in the part of the window ending `ahead` ms from now that has passed. What was drawn before the
    /// first mode, or in another program's, is no reason to slow down: it counts as allowed.
    fn kept(&self, ahead: u64) -> Option<f32> {
        let past = self.window.0.saturating_sub(ahead);
        let in_mode = self.stay.in_mode(self.clock.now()).unwrap_or(0);
        let own = match self.stay.before {
            Some(_) => past,
            None => past.min(in_mode),
        };
        let mean = match own {
            0 => 0.0,
            _ => self.sensor.estimator.mean(Milliseconds(own))?,
        };
        Some(mean * own as f32 + self.allowed() * (past - own) as f32)
    }

    /// The mean over the window that ends `ahead` ms from now, if a power is drawn until then;
    /// `None` without readings for it.
    fn forecast(&self, power: f32, ahead: u64) -> Option<f32> {
        let window = self.window.0;
        let ahead = ahead.min(window);
        Some((self.kept(ahead)? + power * ahead as f32) / window as f32)
    }

    /// The most power from the next change on that keeps the means over the window, if `power` is
    /// drawn until then.
    pub(super) fn left(&self, power: f32, now: Milliseconds) -> f32 {
        let window = self.window.0;
        let lead = (self.takes_ms + self.settings.settling.0).min(window / 4);
        AHEAD.iter().fold(f32::MAX, |least, part| {
            // A change has little effect on a window that ends soon after it.
            let ahead = ((part * window as f32) as u64).max(2 * lead);
            let end = Milliseconds(now.0.saturating_add(ahead));
            let Some(kept) = self.kept(ahead) else {
                return least;
            };
            let total = self.allowed_until(end) * window as f32;
            let rest = total - kept - power * lead as f32;
            least.min(rest / ahead.saturating_sub(lead).max(1) as f32)
        })
    }

    /// The estimated power if it exceeds the allowed power. `known` is the power of the highest known
    /// phase in this mode.
    pub(super) fn over(&self, estimate: &Estimate, known: f32, now: Milliseconds) -> Option<f32> {
        let set = self.stay.set?;
        if now.since(set) < self.settings.settling {
            return None;
        }
        let mean = self.stay.measured.unwrap_or(0.0);
        let power = estimate.power + estimate.deviation;
        if self.is_mean_over(mean, set, now) {
            // A shorter mean shows more of a step that is not detected yet.
            let span = Milliseconds(RISE_WINDOW.min(self.window.0));
            let is_in_mode = now.since(set).0 >= span.0 + self.settings.settling.0;
            let recent = self.sensor.estimator.mean(span).filter(|_| is_in_mode);
            return Some(power.max(mean).max(recent.unwrap_or(0.0)));
        }
        let deviations = self.deviations(estimate, known, set, now);
        let is_over = estimate.power - deviations * estimate.deviation > self.allowed();
        // A known level that returns need not be measured first.
        let returns = self.stay.measured.is_some() && self.borrows(now, 1.0 + RETURN_EXCESS);
        let is_known = self.is_confirmed(estimate, now) || returns;
        (is_over && is_known && !self.may_stay(estimate, now)).then_some(power)
    }

    /// Whether the mean over the window is over beyond the resolution of the sensor, or else that over twice
    /// the time, which is finer.
    fn is_mean_over(&self, mean: f32, set: Milliseconds, now: Milliseconds) -> bool {
        let (window, allowed) = (self.window, self.allowed_until(now));
        let estimator = &self.sensor.estimator;
        if mean <= allowed {
            return false;
        }
        let long = Milliseconds(2 * window.0);
        let is_in_mode = now.since(set).0 >= long.0 + self.settings.settling.0;
        let longer = estimator.mean(long).filter(|_| is_in_mode);
        mean - estimator.resolution(window) > allowed
            || longer.is_some_and(|mean| mean - estimator.resolution(long) > allowed)
    }

    /// The threshold of the present power, in standard deviations.
    fn deviations(
        &self,
        estimate: &Estimate,
        known: f32,
        set: Milliseconds,
        now: Milliseconds,
    ) -> f32 {
        // The step is sure, its final level is not. A known phase fits.
        let has_stepped = now.since(estimate.since) < self.window
            && estimate.since.0 > set.0.saturating_add(SETTLING_MS)
            && estimate.power - KNOWN_DEVIATIONS * estimate.deviation > known;
        match has_stepped {
            true => OVER_AFTER_STEP,
            false if self.has_just_jumped(now) && !self.stay.is_trying() => OVER_AFTER_JUMP,
            false => OVER_DEVIATIONS,
        }
    }

    /// Whether this is a burst of a known level, and a step down at the next sample keeps the mean.
    fn may_stay(&self, estimate: &Estimate, now: Milliseconds) -> bool {
        let level = estimate.power / self.modes.expected(self.stay.at, 1.0);
        let bursts = self.load.bursts;
        if level > (1.0 + KNOWN_BURST) * bursts.level || self.has_just_jumped(now) {
            return false;
        }
        // Once the length of the bursts is known, they end before the mean is over.
        let lead = match bursts.times >= SURE_BURSTS {
            true => self.settings.sample_interval.0 / 3,
            false => self.lead(),
        };
        let end = Milliseconds(now.0.saturating_add(lead));
        let mean = self.forecast(estimate.power + estimate.deviation, lead);
        mean.is_some_and(|mean| mean <= self.allowed_until(end))
    }

    /// Whether the last step is old enough to estimate its size. At first, rounding dominates.
    pub(super) fn is_confirmed(&self, estimate: &Estimate, now: Milliseconds) -> bool {
        let times = if self.stay.is_trying() { 2 } else { 1 };
        let delay = times * self.sensor.estimator.slowest().0 / CONFIRMATION_DIVISOR;
        now.since(estimate.since).0 >= delay
    }

    /// Whether a jump forced a step down within the last window; the new mode must still prove
    /// sufficient.
    pub(super) fn has_just_jumped(&self, now: Milliseconds) -> bool {
        let jump = self.load.jump;
        jump.is_some_and(|jump| now.since(jump.at) <= self.window)
    }
}
