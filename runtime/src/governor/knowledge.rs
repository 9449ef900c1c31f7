//! The power of each mode of a front: predicted, and corrected by measurements.
//!
//! ```text
//! power of a mode  =  prediction · error of the mode · level of the load
//! ```
//!
//! The *level* is common to all modes and moves with the load ([`Memory`](super::memory)). The
//! *error* belongs to one mode and is constant. It is estimated from two successive modes: under a
//! steady load, their powers differ by predictions and errors alone.
//!
//! A mode without a measurement gets a guess: the error interpolated from its neighbours. The
//! *spread* is the standard deviation of guesses, estimated from past guesses. An accurate model
//! earns small margins.

use core::borrow::Borrow;

use heapless::Vec;

use crate::front::{Front, Point};
use crate::grid::ModeId;
use crate::quantities::{Microseconds, Milliseconds, Milliwatts};

/// Range of a mode's error. Values beyond it are implausible.
pub const RATIO_RANGE: (f32, f32) = (0.125, 8.0);

/// Range of plausible powers, as parts of the prediction.
const PLAUSIBLE: (f32, f32) = (1.0 / 64.0, 8.0);

/// Initial weight of the model's guard band in the spread, and the maximum weight of the past, both
/// in guesses.
const GUARD_WEIGHT: f32 = 3.0;
const MOST_GUESSES: f32 = 12.0;

/// Minimum spread. Instruction mixes and temperatures differ by as much.
const LEAST_SPREAD: f32 = 0.004;

/// Margin of a guess, in standard deviations: 99.5 % of normal errors are below it.
pub const GUESS_DEVIATIONS: f32 = 2.6;

/// If the standard deviation is that of n guesses, the margin is larger by the factor
/// 1 + `STUDENT` / (n − 1). This approximates the quantile of Student's distribution within 4 %.
const STUDENT: f32 = 2.4;

/// Minimum number of guesses without an outlier from which the margin can follow without the
/// guard band.
const LEAST_GUESSES: f32 = 4.0;

/// The guard band of a front of [unknown](Front::of_unknown) powers: an assumption. Between neighbours its
/// predictions differ by less.
const UNKNOWN_GUARD: f32 = 0.1;

/// The governor explores if the guard band is at least this wide, until it has this number of
/// guesses without an outlier.
const WIDE_GUARD: f32 = 0.05;
const ENOUGH_GUESSES: f32 = 8.0;

/// Outlier thresholds: a guess is off by at least this number of spreads, and by at least this
/// logarithm of the ratio. Outliers within the second threshold of each other agree.
const OUTLIER_DEVIATIONS: f32 = 4.0;
const OUTLIER_LOG: f32 = 0.1;

/// Growth of a guess's margin, in guard bands per unit of distance to the nearest measured mode.
/// Distance is the natural logarithm of the ratio of predictions.
const GUARD_GROWTH: f32 = 1.0;

/// Standard normal deviate of the guard band's confidence. It converts the guard band into a
/// spread.
const GUARD_DEVIATIONS: f32 = 1.645;

/// Maximum number of measurements in the average of a mode.
const MOST_SAMPLES: u8 = 8;

/// Maximum number of modes held off at a time.
const MOST_HELD: usize = 8;

/// Whether a mode may be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    Choosable,
    /// The caller has excluded it.
    Excluded,
    /// It could not be set recently.
    Failed,
}

/// The number of measurements of a mode, up to [`MOST_SAMPLES`], and whether its error is far from the guess, in one
/// byte. The guesses of its neighbours do not use an outlier.
#[derive(Clone, Copy, Debug)]
struct Samples(u8);

impl Samples {
    const NONE: Self = Self(0);
    const OUTLIER_BIT: u8 = 1 << 7;

    fn number(self) -> u8 {
        self.0 & !Self::OUTLIER_BIT
    }

    fn add(&mut self) {
        let more = (self.number() + 1).min(MOST_SAMPLES);
        self.0 = self.0 & Self::OUTLIER_BIT | more;
    }

    fn is_outlier(self) -> bool {
        self.0 & Self::OUTLIER_BIT != 0
    }

    fn set_outlier(&mut self, is_outlier: bool) {
        self.0 = self.number() | if is_outlier { Self::OUTLIER_BIT } else { 0 };
    }
}

#[derive(Clone, Copy, Debug)]
struct Mode {
    mark: Mark,
    samples: Samples,
    /// In Q12; meaningless without a measurement.
    error: u16,
    /// The error interpolated from the neighbours, and the distance to the nearest of them.
    guess: f32,
    distance: f32,
}

const Q12: f32 = 4_096.0;

impl Mode {
    const UNKNOWN: Self = Self {
        mark: Mark::Choosable,
        samples: Samples::NONE,
        error: Q12 as u16,
        guess: 1.0,
        distance: 0.0,
    };
}

/// The back-off of a mode that exceeded the limit.
#[derive(Clone, Copy, Debug)]
struct Hold {
    point: usize,
    until: Milliseconds,
    times: u32,
}

/// The powers of a front's modes. An index names a point of the front.
#[derive(Clone, Debug)]
pub struct Knowledge<const N: usize, F> {
    /// `None` before the first one.
    front: Option<F>,
    modes: Vec<Mode, N>,
    /// The root mean square of the points' margins, as a part of their predictions.
    guard: f32,
    /// Sum of the squared errors of guesses, and the number of guesses. The guard band counts as
    /// [`GUARD_WEIGHT`] guesses.
    squares: f32,
    guesses: f32,
    /// The same since the last outlier, without the guard band.
    recent_squares: f32,
    recent_guesses: f32,
    held: Vec<Hold, MOST_HELD>,
}

impl<const N: usize, F: Borrow<Front<N>>> Knowledge<N, F> {
    /// Without a front, nothing is known.
    pub const NONE: Self = Self {
        front: None,
        modes: Vec::new(),
        guard: 0.0,
        squares: 0.0,
        guesses: GUARD_WEIGHT,
        recent_squares: 0.0,
        recent_guesses: 0.0,
        held: Vec::new(),
    };

    /// Takes another front, of which nothing is known but its predictions.
    pub fn begin(&mut self, front: F) {
        // What a unit of the board adds to all modes is no error of single modes.
        let shared = front.borrow().unit_margin();
        let margin = |point: &Point| {
            let ratio = point.guarded.0 as f32 / (shared * point.power.0.max(1) as f32);
            (ratio - 1.0).max(0.0)
        };
        let points = front.borrow().points();
        let squares = points.iter().map(|point| margin(point) * margin(point));
        let count = points.len().max(1) as f32;
        let guard = match front.borrow().is_unknown() {
            true => UNKNOWN_GUARD,
            false => libm::sqrtf(squares.sum::<f32>() / count),
        };
        let spread = guard / GUARD_DEVIATIONS;
        self.modes.clear();
        // A front has at most `N` points.
        let _ = self.modes.resize(points.len(), Mode::UNKNOWN);
        self.front = Some(front);
        self.guard = guard;
        (self.squares, self.guesses) = (GUARD_WEIGHT * spread * spread, GUARD_WEIGHT);
        (self.recent_squares, self.recent_guesses) = (0.0, 0.0);
        self.held.clear();
    }

    /// Replaces the front by another one of the same model. What is known of the modes of both stays.
    pub fn replace(&mut self, front: F) {
        let mut new = Self::NONE;
        new.begin(front);
        (new.squares, new.guesses) = (self.squares, self.guesses);
        (new.recent_squares, new.recent_guesses) = (self.recent_squares, self.recent_guesses);
        for index in 0..new.modes.len() {
            // What the least mode draws depends on what the board makes of it.
            let is_other =
                self.front().is_least_unreachable() != new.front().is_least_unreachable();
            if index == 0 && is_other {
                continue;
            }
            let mode = new.point(index).map(|point| point.mode);
            let mut points = self.front().points().iter();
            let Some(before) = points.position(|point| Some(point.mode) == mode) else {
                continue;
            };
            if let Some((known, old)) = new.modes.get_mut(index).zip(self.modes.get(before)) {
                *known = *old;
            }
            let held = self.held.iter().find(|hold| hold.point == before);
            if let Some(hold) = held {
                // As many as before at most.
                let _ = new.held.push(Hold {
                    point: index,
                    ..*hold
                });
            }
        }
        new.guess();
        *self = new;
    }

    /// The front; an empty one before the first.
    pub fn front(&self) -> &Front<N> {
        self.front
            .as_ref()
            .map_or(const { &Front::new() }, Borrow::borrow)
    }

    pub fn point(&self, index: usize) -> Option<&Point> {
        self.front().points().get(index)
    }

    /// The predicted time of a mode.
    pub fn time(&self, index: usize) -> Option<Microseconds> {
        self.front().times().get(index).copied()
    }

    /// The level of a load that was never measured: that of the model's guard band. Without a model, nothing is
    /// assumed, and the least mode is measured first.
    pub fn first_level(&self) -> f32 {
        match self.front().is_unknown() {
            true => 0.0,
            false => 1.0 / (1.0 + self.guard),
        }
    }

    /// Whether a board may draw a power in mW in a point. An idle board draws little. With nothing known, any but 0.
    pub fn is_plausible(&self, index: usize, power: f32) -> bool {
        match self.front().is_unknown() {
            true => power > 0.0,
            false => {
                let (least, most) = PLAUSIBLE;
                (least..=most).contains(&(power / self.predicted(index)))
            }
        }
    }

    /// The predicted power of a point in mW, without corrections.
    pub fn predicted(&self, index: usize) -> f32 {
        self.point(index)
            .map_or(f32::MAX, |point| point.power.0 as f32)
    }

    /// Excludes a mode for good.
    pub fn exclude(&mut self, mode: ModeId) {
        for index in 0..self.modes.len() {
            let is_it = self.point(index).is_some_and(|it| it.mode == mode);
            if let Some(it) = self.modes.get_mut(index).filter(|_| is_it) {
                it.mark = Mark::Excluded;
            }
        }
    }

    /// Marks a point that could not be set. It is not choosable until `forgive`.
    pub fn fail(&mut self, index: usize) {
        if let Some(mode) = self
            .modes
            .get_mut(index)
            .filter(|it| it.mark == Mark::Choosable)
        {
            mode.mark = Mark::Failed;
        }
    }

    /// Makes all points choosable again that could not be set.
    pub fn forgive(&mut self) {
        for mode in self.modes.iter_mut().filter(|it| it.mark == Mark::Failed) {
            mode.mark = Mark::Choosable;
        }
    }

    /// Whether a point may be chosen.
    pub fn is_choosable(&self, index: usize) -> bool {
        self.modes
            .get(index)
            .is_some_and(|it| it.mark == Mark::Choosable)
    }

    /// The number of points that may be chosen.
    pub fn choosable(&self) -> usize {
        self.modes
            .iter()
            .filter(|it| it.mark == Mark::Choosable)
            .count()
    }

    /// Whether a point was measured.
    pub fn is_measured(&self, index: usize) -> bool {
        self.modes
            .get(index)
            .is_some_and(|it| it.samples.number() > 0)
    }

    /// The error of a measured point, and its prediction.
    fn measured(&self, index: usize) -> Option<(f32, f32)> {
        let mode = self.modes.get(index).filter(|it| it.samples.number() > 0)?;
        Some((f32::from(mode.error) / Q12, self.predicted(index)))
    }

    /// The same for a measured point that is no outlier.
    fn typical(&self, index: usize) -> Option<(f32, f32)> {
        let is_outlier = self
            .modes
            .get(index)
            .is_some_and(|it| it.samples.is_outlier());
        self.measured(index).filter(|_| !is_outlier)
    }

    /// The error of a point, and the distance to the point that it was guessed from; 0 for a
    /// measured point.
    pub fn error(&self, index: usize) -> (f32, f32) {
        match (self.measured(index), self.modes.get(index)) {
            (Some((error, _)), _) => (error, 0.0),
            (None, Some(mode)) => (mode.guess, mode.distance),
            (None, None) => (1.0, 0.0),
        }
    }

    /// Interpolates the errors of all points after a measurement.
    fn guess(&mut self) {
        let mut below = None;
        let mut at = 0;
        while at < self.modes.len() {
            // All points up to the next typical one have the same neighbours.
            let next = (at..self.modes.len()).find(|&index| self.typical(index).is_some());
            let above = next.and_then(|index| self.typical(index));
            let end = next.unwrap_or(self.modes.len());
            for index in at..end {
                let (guess, distance) = between(below, above, self.predicted(index));
                if let Some(mode) = self.modes.get_mut(index) {
                    (mode.guess, mode.distance) = (guess, distance);
                }
            }
            (below, at) = (above, end + 1);
        }
    }

    /// The expected power of a point in mW at a level of the load, without margin.
    pub fn expected(&self, index: usize, level: f32) -> f32 {
        self.predicted(index) * self.error(index).0 * level
    }

    /// The margin of a guess, as part of the power; 0 for a measured point.
    pub fn doubt(&self, index: usize) -> f32 {
        if self.is_measured(index) {
            return 0.0;
        }
        let (_, distance) = self.error(index);
        self.guess_margin() + GUARD_GROWTH * self.guard * distance
    }

    /// Standard deviation of a guess.
    fn spread(&self) -> f32 {
        libm::sqrtf(self.squares / self.guesses).max(LEAST_SPREAD)
    }

    /// Margin of a guess next to a measured point: the smaller of two, one with the guard band and
    /// one of the guesses since the last outlier alone.
    fn guess_margin(&self) -> f32 {
        let with_guard = GUESS_DEVIATIONS * self.spread();
        if self.recent_guesses < LEAST_GUESSES {
            return with_guard;
        }
        let spread = libm::sqrtf(self.recent_squares / self.recent_guesses).max(LEAST_SPREAD);
        let student = 1.0 + STUDENT / (self.recent_guesses - 1.0);
        with_guard.min(GUESS_DEVIATIONS * student * spread)
    }

    /// Whether the guard band is wide and the guesses since the last outlier are few.
    pub fn needs_guesses(&self) -> bool {
        self.guard >= WIDE_GUARD && self.recent_guesses < ENOUGH_GUESSES
    }

    /// Records a measured error of a point, the level of the load, and the variance of the
    /// measurement.
    pub fn learn(&mut self, index: usize, error: f32, level: f32, noise: f32) {
        let error = error.clamp(RATIO_RANGE.0, RATIO_RANGE.1);
        if !self.is_measured(index) {
            let (guess, _) = self.error(index);
            let off = libm::logf(error / guess);
            let most = (OUTLIER_DEVIATIONS * self.spread()).max(OUTLIER_LOG);
            let is_far = libm::fabsf(off) > most;
            self.mark_outlier(index, is_far, level, error);
            let most = 3.0 * self.spread();
            // `clamp` panics on a NaN bound.
            let off = off.max(-most).min(most);
            if self.guesses >= MOST_GUESSES {
                self.squares -= self.squares / self.guesses;
            } else {
                self.guesses += 1.0;
            }
            let square = (off * off - noise).max(0.0);
            self.squares += square;
            if is_far {
                (self.recent_squares, self.recent_guesses) = (0.0, 0.0);
            } else if self.recent_guesses >= MOST_GUESSES {
                self.recent_squares += square - self.recent_squares / self.recent_guesses;
            } else {
                self.recent_squares += square;
                self.recent_guesses += 1.0;
            }
        }
        if let Some(mode) = self.modes.get_mut(index) {
            let samples = f32::from(mode.samples.number());
            let mean = (f32::from(mode.error) / Q12 * samples + error) / (samples + 1.0);
            mode.error = (mean * Q12 + 0.5) as u16;
            mode.samples.add();
        }
        self.guess();
    }

    /// Marks a point far from its guess as an outlier, with two exceptions. For safety, outliers
    /// that agree and draw more than guessed are typical. If the outliers are the majority, they
    /// are typical and the other points are the outliers; of two points alone, the outlier is the
    /// one further from the model.
    fn mark_outlier(&mut self, index: usize, is_far: bool, level: f32, error: f32) {
        let agrees = |other: f32| (error / other).max(other / error) < 1.0 + OUTLIER_LOG;
        let (mut typical, mut agreeing) = (0, 0);
        for at in 0..self.modes.len() {
            match self.measured(at) {
                Some(_) if self.typical(at).is_some() => typical += 1,
                Some((other, _)) if agrees(other) => agreeing += 1,
                _ => {}
            }
        }
        let (guess, _) = self.error(index);
        let are_more = match (typical, agreeing) {
            (0 | 1, 0) => libm::fabsf(libm::logf(level)) > libm::fabsf(libm::logf(level * error)),
            _ => agreeing >= typical,
        };
        let are_none = are_more || agreeing > 0 && error > guess;
        for at in (0..self.modes.len()).filter(|_| is_far) {
            let measured = self.measured(at);
            let is_alike = at == index || measured.is_some_and(|(other, _)| agrees(other));
            if let Some(mode) = self.modes.get_mut(at) {
                match is_alike {
                    true if are_none => mode.samples.set_outlier(false),
                    true if at == index => mode.samples.set_outlier(true),
                    false if are_more && mode.samples.number() > 0 => {
                        mode.samples.set_outlier(true);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Refines the error of a measured point by a longer measurement.
    pub fn refine(&mut self, index: usize, error: f32) {
        if let Some(mode) = self
            .modes
            .get_mut(index)
            .filter(|it| it.samples.number() > 0)
        {
            let part = 1.0 / f32::from(mode.samples.number());
            let old = f32::from(mode.error) / Q12;
            let error = error.max(0.9 * old).min(1.1 * old);
            let error = old + (error - old) * part;
            mode.error = (error * Q12 + 0.5) as u16;
        }
        self.guess();
    }

    /// Forgets the measurements of a point.
    pub fn forget(&mut self, index: usize) {
        if let Some(mode) = self.modes.get_mut(index) {
            mode.samples = Samples::NONE;
        }
        self.guess();
    }

    /// Replaces the error of a point and counts the point as measured. From one out of reach, nothing follows for
    /// other points.
    pub fn raise(&mut self, index: usize, error: f32) {
        let error = error.clamp(RATIO_RANGE.0, RATIO_RANGE.1);
        let is_unreachable = self.is_unreachable(index);
        if let Some(mode) = self.modes.get_mut(index) {
            let is_outlier = mode.samples.is_outlier() || is_unreachable;
            mode.samples.set_outlier(is_outlier);
            mode.error = (error * Q12 + 0.5) as u16;
            if mode.samples.number() == 0 {
                mode.samples.add();
            }
        }
        self.guess();
    }

    /// Whether a point is a least mode that the board cannot be in.
    pub fn is_unreachable(&self, index: usize) -> bool {
        index == 0 && self.front().is_least_unreachable()
    }

    /// Holds a point off. The back-off starts with `first` and doubles each time.
    pub fn hold(&mut self, index: usize, now: Milliseconds, first: Milliseconds) {
        let known = self.held.iter_mut().find(|hold| hold.point == index);
        match known {
            Some(hold) => {
                hold.times = (hold.times + 1).min(10);
                hold.until = Milliseconds(now.0.saturating_add(first.0 << hold.times));
            }
            None => {
                let new = Hold {
                    point: index,
                    until: Milliseconds(now.0.saturating_add(first.0)),
                    times: 0,
                };
                if let Err(new) = self.held.push(new)
                    && let Some(oldest) = self.held.iter_mut().min_by_key(|hold| hold.until)
                {
                    *oldest = new;
                }
            }
        }
    }

    /// Whether a point is held off.
    pub fn is_held(&self, index: usize, now: Milliseconds) -> bool {
        self.held
            .iter()
            .any(|hold| hold.point == index && now < hold.until)
    }

    /// The choosable point of least known power; [`ModeId::LEAST`] where the front has it.
    pub fn least(&self) -> Option<usize> {
        let is_least = |point: &Point| point.mode == ModeId::LEAST;
        if self.point(0).is_some_and(is_least) && self.is_choosable(0) {
            return Some(0);
        }
        let choosable = (0..self.modes.len()).filter(|&index| self.is_choosable(index));
        choosable.min_by(|&a, &b| self.expected(a, 1.0).total_cmp(&self.expected(b, 1.0)))
    }

    /// The measured and choosable point of least power.
    pub fn least_measured(&self) -> Option<usize> {
        let measured = (0..self.modes.len())
            .filter(|&index| self.is_choosable(index) && self.is_measured(index));
        measured.min_by(|&a, &b| self.expected(a, 1.0).total_cmp(&self.expected(b, 1.0)))
    }

    /// The fastest point that may be chosen and for which `fits` holds.
    pub fn fastest(&self, mut fits: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut points = (0..self.modes.len()).rev();
        points.find(|&index| self.is_choosable(index) && fits(index))
    }

    /// Whether the guarded prediction of a point is within a power.
    pub fn is_predicted_within(&self, index: usize, power: Milliwatts) -> bool {
        let point = self.point(index);
        point.is_some_and(|point| point.guarded <= power)
    }
}

/// Interpolates the error at a prediction between two measured points, each given as error and
/// prediction. Also returns the distance to the nearer point.
fn between(below: Option<(f32, f32)>, above: Option<(f32, f32)>, predicted: f32) -> (f32, f32) {
    let distance = |other: f32| libm::fabsf(libm::logf(predicted / other));
    match (below, above) {
        (None, None) => (1.0, 0.0),
        (Some((error, other)), None) | (None, Some((error, other))) => (error, distance(other)),
        (Some((one, less)), Some((other, more))) => {
            let (near, far) = (distance(less), distance(more));
            let part = near / (near + far).max(1e-6);
            (one + (other - one) * part, near.min(far))
        }
    }
}
