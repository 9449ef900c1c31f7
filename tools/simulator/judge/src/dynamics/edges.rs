//! How a change of the power looks in the readings, and the time constant of the sensor's low-pass.

use super::statistics::SETTLED_S;
use super::trace::{Reading, Run};

/// The time constant of the sensor with L4T's setting in s (`jetson-platform.md`, section 6.3).
pub const TIME_CONSTANT_S: f64 = 0.430_08;

/// Minimum time in s over which a slope is taken. Over a shorter one, a step of the register would become several times itself.
pub const SLOPE_S: f64 = 0.2;

/// Longest period in s of polls from which the lag is undone.
pub const OFTEN_S: f64 = 0.2;

/// Undoes the sensor's lag: P = y + τ · dy/dt. Returns the readings themselves if the polls are too far apart.
pub fn undone(run: &Run) -> Vec<Reading> {
    let period_s = run.period_s();
    let readings = &run.readings;
    if period_s > OFTEN_S {
        return readings.clone();
    }
    // Half of the slope's time on each side.
    let beside = (SLOPE_S / 2.0 / period_s).round().max(1.0) as usize;
    let inner = beside..readings.len().saturating_sub(beside);
    let undone = inner.map(|at| {
        let [before, after] = [readings[at - beside], readings[at + beside]];
        let slope = (after.watts - before.watts) / (after.seconds - before.seconds);
        Reading {
            seconds: readings[at].seconds,
            watts: readings[at].watts + TIME_CONSTANT_S * slope,
            ..readings[at]
        }
    });
    undone.collect()
}

/// The largest change in W between two readings that are at most this far apart in s. `None` if the polls are further apart.
pub fn largest_change(readings: &[Reading], within_s: f64) -> Option<f64> {
    // Times were rounded to 0.1 ms.
    let within_s = within_s + 2e-4;
    let mut largest = None;
    for (at, from) in readings.iter().enumerate() {
        let near = readings[at + 1..].iter();
        for to in near.take_while(|to| to.seconds - from.seconds <= within_s) {
            let change = (to.watts - from.watts).abs();
            largest = Some(largest.map_or(change, |largest: f64| largest.max(change)));
        }
    }
    largest
}

/// Whether a run goes up into its work or down out of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Up,
    Down,
}

/// Time in s before a marker and after it in which the change is looked for.
const BESIDE_S: f64 = 1.0;

/// Minimum change, as a part of the run's range.
const LEAST_CHANGE: f64 = 0.3;

/// The times in s that the power takes from 10 % to 90 % of its changes between waiting and work, with the lag undone where that is
/// possible.
pub fn durations(run: &Run, direction: Direction) -> Vec<f64> {
    let power = undone(run);
    let level = |from: f64, until: f64| {
        let within = power
            .iter()
            .filter(|it| it.seconds >= from && it.seconds <= until);
        super::median(within.map(|it| it.watts))
    };
    let [low, high] = run.range_w();
    let mut durations = Vec::new();
    for two in run.stretches.windows(2) {
        let is_change = match direction {
            Direction::Up => !two[0].phase.is_work() && two[1].phase.is_work(),
            Direction::Down => two[0].phase.is_work() && !two[1].phase.is_work(),
        };
        let marker_s = run.readings[two[1].readings.start].seconds;
        let before = level(marker_s - BESIDE_S - SETTLED_S, marker_s - BESIDE_S);
        let after = level(marker_s + SETTLED_S, marker_s + SETTLED_S + BESIDE_S);
        let change = after - before;
        let is_right = (direction == Direction::Up) == (change > 0.0);
        if !is_change || !is_right || change.abs() < LEAST_CHANGE * (high - low) {
            continue;
        }
        let part = |reading: &Reading| (reading.watts - before) / change;
        let near: Vec<&Reading> = power
            .iter()
            .filter(|it| (it.seconds - marker_s).abs() <= BESIDE_S + SETTLED_S)
            .collect();
        let Some(ninety) = near.iter().position(|it| part(it) >= 0.9) else {
            continue;
        };
        let Some(ten) = near[..ninety].iter().rposition(|it| part(it) <= 0.1) else {
            continue;
        };
        // The time at which the line between two readings has a part of the change.
        let crossing = |at: usize, wanted: f64| {
            let [from, to] = [near[at - 1], near[at]];
            let way = (wanted - part(from)) / (part(to) - part(from));
            from.seconds + way * (to.seconds - from.seconds)
        };
        durations.push(crossing(ninety, 0.9) - crossing(ten + 1, 0.1));
    }
    durations
}

/// A curve L + A · exp(−t/τ) that was fitted to the readings after a step of the power.
#[derive(Clone, Copy, Debug)]
pub struct Decay {
    /// τ in s.
    pub time_constant_s: f64,
    /// A in W.
    pub amplitude_w: f64,
    /// Share of polls in the first time constant whose reading differs from that of the poll before.
    pub renewed: f64,
}

/// Time after a step to which a curve is fitted, in expected time constants.
const FITTED: f64 = 3.5;

/// Time within which a step is looked for, in expected time constants.
const STEP: f64 = 0.5;

/// Minimum number of readings to which a curve is fitted.
const FEWEST_FITTED: usize = 5;

/// Minimum amplitude of a curve, as a part of the run's range.
const LEAST_AMPLITUDE: f64 = 0.4;

/// Maximum root of the mean square error, in parts of the amplitude and of the register's step. The power has to stay where it
/// stepped to.
const MOST_ERROR: [f64; 2] = [0.03, 0.5];

/// Range of the time constants that are tried, in expected time constants.
const TRIED: [f64; 2] = [0.2, 3.0];

/// Number of time constants that are tried: steps of 1 %.
const TRIES: u32 = 272;

/// Fits a decay of the first rail after each step of its power that nothing follows for some time. `expected_s` is about the time
/// constant, and `step_w` the register's step.
pub fn decays(run: &Run, expected_s: f64, step_w: f64) -> Vec<Decay> {
    let readings = &run.readings;
    let period_s = run.period_s();
    let watts = || readings.iter().map(|reading| reading.rail_w);
    let range_w = watts().fold(0.0, f64::max) - watts().fold(f64::INFINITY, f64::min);
    let apart = (STEP * expected_s / period_s).round().max(1.0) as usize;
    let change = |at: usize| (readings[at + apart].rail_w - readings[at].rail_w).abs();
    let ends = readings.len().saturating_sub(apart);
    let around = (FITTED * expected_s / period_s) as usize;
    let mut decays = Vec::new();
    for at in 0..ends {
        let mine = change(at);
        let mut near = at.saturating_sub(around)..(at + around).min(ends);
        // The first of equal changes.
        let is_largest =
            near.all(|other| mine > change(other) || (mine == change(other) && at <= other));
        if !is_largest || mine < LEAST_AMPLITUDE / 4.0 * range_w {
            continue;
        }
        // The step took place within the largest change.
        let from = at + apart;
        let until = readings[from].seconds + FITTED * expected_s;
        let after = readings[from..].iter();
        let after: Vec<Reading> = after
            .take_while(|it| it.seconds <= until)
            .copied()
            .collect();
        let is_whole = readings.last().is_some_and(|last| last.seconds >= until);
        let Some(decay) = fit(&after, expected_s, step_w).filter(|_| is_whole) else {
            continue;
        };
        if decay.amplitude_w.abs() >= LEAST_AMPLITUDE * range_w {
            decays.push(decay);
        }
    }
    decays
}

/// The curve of least squares through readings, if it fits.
fn fit(readings: &[Reading], expected_s: f64, step_w: f64) -> Option<Decay> {
    if readings.len() < FEWEST_FITTED {
        return None;
    }
    let from_s = readings[0].seconds;
    let [least_s, most_s] = TRIED.map(|part| part * expected_s);
    let ratio = (most_s / least_s).powf(1.0 / f64::from(TRIES));
    let tries = (0..=TRIES).map(|at| least_s * ratio.powf(f64::from(at)));
    let fits = tries.map(|time_constant_s| {
        let curve = |it: &Reading| (-(it.seconds - from_s) / time_constant_s).exp();
        let n = readings.len() as f64;
        let sum = |of: &dyn Fn(&Reading) -> f64| readings.iter().map(of).sum::<f64>() / n;
        let (x, y) = (sum(&curve), sum(&|it| it.rail_w));
        let xy = sum(&|it| (curve(it) - x) * (it.rail_w - y));
        let amplitude_w = xy / sum(&|it| (curve(it) - x).powi(2));
        let level_w = y - amplitude_w * x;
        let square = sum(&|it| (it.rail_w - level_w - amplitude_w * curve(it)).powi(2));
        (square, time_constant_s, amplitude_w)
    });
    let (square, time_constant_s, amplitude_w) = fits.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let is_inside = time_constant_s > least_s * ratio && time_constant_s < most_s / ratio;
    let most_w = MOST_ERROR[0] * amplitude_w.abs() + MOST_ERROR[1] * step_w;
    if !is_inside || square.sqrt() > most_w {
        return None;
    }
    let early = readings
        .windows(2)
        .take_while(|two| two[1].seconds - from_s <= time_constant_s);
    let (mut polls, mut renewed) = (0.0, 0.0);
    for two in early {
        polls += 1.0;
        renewed += f64::from(u8::from(two[0].rail_w != two[1].rail_w));
    }
    Some(Decay {
        time_constant_s,
        amplitude_w,
        renewed: renewed / f64::max(polls, 1.0),
    })
}
