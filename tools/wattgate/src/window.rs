//! The window in which a mode is measured: from the counts of the workload and the readings of the
//! sensor to the time of a step and the mean power.
//!
//! A window begins and ends with the arrival of a count, so the time of a step is exact but for the
//! delay of two arrivals. The power is the mean over the same time. It follows from the energy of
//! the readings with the sensor's lag undone ([`Estimator::energy_uj`]), so the window need not wait
//! for the sensor to settle.

use std::time::Duration;

use wattgate_runtime::Milliseconds;
use wattgate_runtime::estimator::Estimator;
use wattgate_watchdog::steps::Told;

/// When a measurement is complete.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Time after the change of the mode that is not measured: clocks and caches settle.
    pub settling: Duration,
    /// Steps after the change that are not measured, because the work for them was prepared before.
    pub dropped_steps: u64,
    /// Time after which no more steps are dropped, except for the one that the change falls into.
    pub dropped_time: Duration,
    /// Minimum number of steps.
    pub min_steps: u64,
    /// Minimum length.
    pub shortest: Duration,
    /// Minimum length in time constants of the sensor.
    pub min_time_constants: f64,
    /// The relative standard error of the two means at which the window ends.
    pub spread: f64,
    /// Maximum length, to the nearest step; a window of this length is complete if it has
    /// [`LEAST_STEPS`].
    pub longest: Duration,
}

/// Minimum number of steps of a window that has reached its maximum length. Steps that long are means
/// themselves; with fewer than four of them the time has no standard error.
pub const LEAST_STEPS: u64 = 2;

impl Default for Rules {
    fn default() -> Self {
        Self {
            settling: Duration::from_millis(500),
            dropped_steps: 2,
            dropped_time: Duration::from_secs(5),
            min_steps: 20,
            shortest: Duration::from_secs(4),
            min_time_constants: 3.0,
            spread: 0.01,
            longest: Duration::from_secs(18),
        }
    }
}

/// Number of parts of a window from which a standard error is estimated, at least.
const MIN_PARTS: usize = 4;

/// Number of parts of a window from which the standard error of the time is estimated.
const PARTS: usize = 8;

/// Largest sum of the parts of a step over its time: counts arrive up to 20 ms late.
const MOST_PARTS: f64 = 1.01;

/// Minimum length of a mean power: an error of one step of the sensor then counts fourfold.
const MIN_MEAN: Duration = Duration::from_millis(100);

/// Time after which an estimate has left the power of the mode before.
const ESTIMATE_SETTLED: Duration = Duration::from_secs(1);

/// A cumulative count of steps, and when it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Time since the start of the session.
    pub at: Duration,
    /// Steps since the start of the workload.
    pub steps: u64,
    /// What came with it.
    pub told: Told,
}

/// What a window measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Measured {
    /// Number of steps.
    pub steps: u64,
    /// When the window ended, since the start of the session.
    pub end: Duration,
    /// Length of the window.
    pub length: Duration,
    /// Mean time of a step in ms.
    pub time_ms: f64,
    /// Mean part of it that waits for data, in ms; `None` if it is not told, or cannot be true.
    pub fetch_ms: Option<f64>,
    /// Mean part of it in which the GPU computes, likewise.
    pub compute_ms: Option<f64>,
    /// Samples in a step; `None` if they are not told, or differ between the counts.
    pub items: Option<u32>,
    /// Relative standard error of the time; `None` if there are too few counts for one.
    pub time_spread: Option<f64>,
    /// Mean power in mW.
    pub power_mw: f64,
    /// Relative standard error of the power, without the sensor's offset; `None` if the window is
    /// too short for one.
    pub power_spread: Option<f64>,
}

/// A window that is being filled.
#[derive(Clone, Debug)]
pub struct Window {
    rules: Rules,
    /// When the mode was set.
    set: Duration,
    /// Steps at the first count after the mode was set.
    steps_when_set: Option<u64>,
    counts: Vec<Count>,
    /// Energy in µJ at the samples since the mode was set.
    energies: Vec<(Duration, u64)>,
}

impl Window {
    /// Begins a window for a mode that was set at a time.
    pub fn new(rules: Rules, set: Duration) -> Self {
        Self {
            rules,
            set,
            steps_when_set: None,
            counts: Vec::new(),
            energies: Vec::new(),
        }
    }

    /// Takes a count. Counts that arrived before the mode was set are ignored.
    pub fn count(&mut self, count: Count) {
        if count.at < self.set {
            return;
        }
        let when_set = *self.steps_when_set.get_or_insert(count.steps);
        let since = count.at - self.set;
        let dropped = count.steps.saturating_sub(when_set) < self.rules.dropped_steps;
        if since < self.rules.settling || dropped && since < self.rules.dropped_time {
            return;
        }
        self.counts.push(count);
    }

    /// Takes the energy after a sample of the estimator.
    pub fn add_energy(&mut self, at: Duration, energy_uj: u64) {
        self.energies.push((at, energy_uj));
    }

    /// The mean power in mW since the mode was set, once that is long enough to tell. It does not
    /// depend on the power before, unlike an estimate of the power now.
    pub fn mean_since_set(&self) -> Option<f64> {
        let (&(begin, less), &(end, more)) = (self.energies.first()?, self.energies.last()?);
        let seconds = (end - begin).as_secs_f64();
        (end - begin >= MIN_MEAN).then(|| (more as f64 - less as f64) / 1e3 / seconds)
    }

    /// Whether the estimate of the power now belongs to this mode.
    pub fn is_settled(&self, now: Duration) -> bool {
        now.saturating_sub(self.set) >= ESTIMATE_SETTLED
    }

    /// Steps measured so far.
    pub fn steps(&self) -> u64 {
        match (self.counts.first(), self.counts.last()) {
            (Some(first), Some(last)) => last.steps - first.steps,
            _ => 0,
        }
    }

    /// The measurement, once it is complete.
    pub fn measured(&self, estimator: &Estimator) -> Option<Measured> {
        let (first, last) = (self.counts.first()?, self.counts.last()?);
        let (steps, length) = (last.steps - first.steps, last.at - first.at);
        let time_constant = estimator.slowest();
        let least_ms = time_constant.0 as f64 * self.rules.min_time_constants;
        let is_long = length >= self.rules.shortest && 1e3 * length.as_secs_f64() >= least_ms;
        // One more step would be further from the maximum.
        let is_longest = steps >= LEAST_STEPS
            && length + length.div_f64(2.0 * steps as f64) >= self.rules.longest;
        if !is_longest && (steps < self.rules.min_steps || !is_long) {
            return None;
        }
        let energy_uj = self.energy_uj(last.at)? - self.energy_uj(first.at)?;
        let power_mw = energy_uj / 1e3 / length.as_secs_f64();
        let time_ms = 1e3 * length.as_secs_f64() / steps as f64;
        let span = Milliseconds(length.as_millis() as u64);
        let resolution = f64::from(estimator.resolution(span)) / power_mw.max(1.0);
        let [fetch_ms, compute_ms] = self.parts_ms(time_ms);
        let time_spread = self.time_spread();
        let ripple = f64::from(estimator.ripple(span));
        let power_spread = self.power_spread(time_constant);
        let power_spread = power_spread.map(|spread| spread.max(ripple));
        let is_sure = |spread: Option<f64>| spread.is_some_and(|it| it <= self.rules.spread);
        if !(is_longest || is_sure(time_spread) && is_sure(power_spread)) {
            return None;
        }
        Some(Measured {
            steps,
            end: last.at,
            length,
            time_ms,
            fetch_ms,
            compute_ms,
            items: self.items(),
            time_spread,
            power_mw,
            // No time makes the sensor's steps finer, so they do not keep the window open.
            power_spread: power_spread.map(|spread| spread.hypot(resolution)),
        })
    }

    /// Parts of a step of this time in ms. Parts that are longer than the step are not told: the workload
    /// counts something else, or two clocks disagree.
    fn parts_ms(&self, time_ms: f64) -> [Option<f64>; 2] {
        let (Some(first), Some(last)) = (self.counts.first(), self.counts.last()) else {
            return [None; 2];
        };
        let steps = (last.steps - first.steps) as f64;
        let part = |counter: fn(&Told) -> Option<u64>| {
            let us = counter(&last.told)?.checked_sub(counter(&first.told)?)?;
            Some(us as f64 / 1e3 / steps)
        };
        let parts = [part(|told| told.fetch_us), part(|told| told.compute_us)];
        match parts.iter().flatten().sum::<f64>() <= MOST_PARTS * time_ms {
            true => parts,
            false => [None; 2],
        }
    }

    /// Samples in a step, if all counts tell the same.
    fn items(&self) -> Option<u32> {
        let mut items = self.counts.iter().map(|count| count.told.items);
        let first = items.next()??;
        items.all(|items| items == Some(first)).then_some(first)
    }

    /// The energy that the board has used until a time, interpolated linearly between the samples before and after it. `None`
    /// before the first sample and after the last one.
    fn energy_uj(&self, at: Duration) -> Option<f64> {
        let after = self
            .energies
            .partition_point(|(at_sample, _)| *at_sample < at);
        let &(end, more) = self.energies.get(after)?;
        let &(begin, less) = self.energies.get(after.checked_sub(1)?)?;
        let part = (at - begin).as_secs_f64() / (end - begin).as_secs_f64();
        Some(less as f64 + (more as f64 - less as f64) * part)
    }

    /// Relative standard error of the mean time of a step, from the means of [`PARTS`] parts: an
    /// arrival that is late makes one step longer and the next one shorter, which cancels within a
    /// part.
    fn time_spread(&self) -> Option<f64> {
        let (first, last) = (self.counts.first()?, self.counts.last()?);
        let part = (last.at - first.at) / PARTS as u32;
        let mut from = *first;
        let mut times = Vec::new();
        for count in &self.counts {
            if count.at - from.at >= part && count.steps > from.steps {
                let ms = 1e3 * (count.at - from.at).as_secs_f64();
                times.push(ms / (count.steps - from.steps) as f64);
                from = *count;
            }
        }
        (times.len() >= MIN_PARTS).then(|| blocked_error(times))
    }

    /// Relative standard error of the mean power, from the means of parts that are at least a time
    /// constant long.
    fn power_spread(&self, time_constant: Milliseconds) -> Option<f64> {
        let least = Duration::from_millis(time_constant.0.max(100));
        let begin = self.counts.first()?.at;
        let mut energies = self.energies.iter().filter(|(at, _)| *at >= begin);
        let mut from = *energies.next()?;
        let mut powers = Vec::new();
        for &(at, energy) in energies {
            if at - from.0 >= least {
                let seconds = (at - from.0).as_secs_f64();
                powers.push((energy as f64 - from.1 as f64) / 1e3 / seconds);
                from = (at, energy);
            }
        }
        (powers.len() >= MIN_PARTS - 1).then(|| blocked_error(powers))
    }
}

/// Relative standard error of a mean of parts that may depend on their neighbours, such as those of
/// a load with long phases: the highest of the errors that parts, pairs of parts, pairs of pairs and
/// so on would have if they were independent (Flyvbjerg and Petersen, J. Chem. Phys. 91, 461, 1989).
fn blocked_error(mut parts: Vec<f64>) -> f64 {
    let mut error = relative_error(&parts);
    while parts.len() >= 2 * MIN_PARTS {
        parts = parts
            .chunks_exact(2)
            .map(|pair| f64::midpoint(pair[0], pair[1]))
            .collect();
        error = error.max(relative_error(&parts));
    }
    error
}

/// Relative standard error of the mean of independent parts.
fn relative_error(parts: &[f64]) -> f64 {
    let number = parts.len() as f64;
    let mean = parts.iter().sum::<f64>() / number;
    let squares: f64 = parts.iter().map(|part| (part - mean).powi(2)).sum();
    (squares / (number - 1.0) / number).sqrt() / mean
}
