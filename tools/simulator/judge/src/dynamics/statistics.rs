//! How the power of a phase varies.

use super::trace::{Reading, Run, Stretch};

/// Time in s after a change until the readings have settled: the low-pass has 1 % of the change left.
pub const SETTLED_S: f64 = 2.0;

/// Accuracy in s of the recorded markers of phases, with a margin.
pub const MARKER_S: f64 = 0.5;

/// Minimum number of readings of which statistics are made.
const FEWEST: usize = 16;

/// Period in s below which variance counts as fast: about twice the time constant of the sensor.
pub const FAST_S: f64 = 0.8;

/// An octave of the spectrum: the share of the variance between a period and its half.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Octave {
    /// Longest period in s.
    pub period_s: f64,
    /// Share of the variance, 0 … 1.
    pub share: f64,
}

/// How the readings of a phase vary. A line was fitted and subtracted, except for the mean.
#[derive(Clone, Debug)]
pub struct Statistics {
    pub mean_w: f64,
    /// Standard deviation in W.
    pub ripple_w: f64,
    /// Change of the fitted line over the phase in W.
    pub drift_w: f64,
    /// Time in s until the autocorrelation has fallen to 1/e.
    pub correlation_s: f64,
    /// From the shortest period to the longest.
    pub octaves: Vec<Octave>,
}

impl Statistics {
    /// The statistics of a stretch without its ends, where the readings still follow the phases beside it; `None` if too few
    /// readings are left.
    pub fn of(run: &Run, stretch: &Stretch) -> Option<Self> {
        let readings = &run.readings[stretch.readings.clone()];
        let (first, last) = (readings.first()?.seconds, readings.last()?.seconds);
        let inner =
            |it: &&Reading| it.seconds >= first + SETTLED_S && it.seconds <= last - MARKER_S;
        let watts: Vec<f64> = readings.iter().filter(inner).map(|it| it.watts).collect();
        Self::of_watts(&watts, run.period_s())
    }

    /// The statistics of a series; `None` if it is too short.
    pub fn of_watts(watts: &[f64], period_s: f64) -> Option<Self> {
        if watts.len() < FEWEST {
            return None;
        }
        let mean_w = mean(watts);
        let (rest, slope) = without_line(watts);
        let variance = mean_square(&rest);
        Some(Self {
            mean_w,
            ripple_w: variance.sqrt(),
            drift_w: slope * (watts.len() - 1) as f64,
            correlation_s: period_s * correlation(&rest),
            octaves: octaves(&rest, period_s),
        })
    }

    /// Share of the variance with periods below [`FAST_S`], 0 … 1. `None` without an octave below it.
    pub fn fast(&self) -> Option<f64> {
        let fast = self.octaves.iter().filter(|it| it.period_s <= FAST_S);
        let shares = fast.map(|octave| octave.share);
        shares.reduce(|sum, share| sum + share)
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>() / values.len() as f64
}

/// The values without their line of least squares, and its slope a step.
fn without_line(values: &[f64]) -> (Vec<f64>, f64) {
    let (mean, middle) = (mean(values), (values.len() - 1) as f64 / 2.0);
    let at = |at: usize| at as f64 - middle;
    let values = || values.iter().enumerate();
    let slope = values()
        .map(|(step, value)| at(step) * (value - mean))
        .sum::<f64>()
        / values().map(|(step, _)| at(step).powi(2)).sum::<f64>();
    let rest = values().map(|(step, value)| value - mean - slope * at(step));
    (rest.collect(), slope)
}

/// Steps until the autocorrelation has fallen to 1/e, interpolated; half of the series if it never does.
fn correlation(values: &[f64]) -> f64 {
    let enough = (-1.0_f64).exp();
    let square = values.len() as f64 * mean_square(values);
    let mut before = 1.0;
    for lag in 1..values.len() / 2 {
        let products = values.iter().zip(&values[lag..]).map(|(a, b)| a * b);
        // A constant series has no correlation.
        let now = products.sum::<f64>() / square.max(f64::MIN_POSITIVE);
        if now < enough {
            return (lag - 1) as f64 + (before - enough) / (before - now);
        }
        before = now;
    }
    (values.len() / 2) as f64
}

/// The shares of the variance by octave: of half the differences between neighbouring means of 1, 2, 4 … values, which are the
/// coefficients of Haar's wavelet.
fn octaves(values: &[f64], period_s: f64) -> Vec<Octave> {
    let variance = mean_square(values).max(f64::MIN_POSITIVE);
    let (mut means, mut period_s) = (values.to_vec(), 2.0 * period_s);
    let mut octaves = Vec::new();
    while means.len() >= 4 {
        let half = |two: &[f64]| (two[0] - two[1]) / 2.0;
        let halves: Vec<f64> = means.chunks_exact(2).map(half).collect();
        octaves.push(Octave {
            period_s: 2.0 * period_s,
            share: mean_square(&halves) / variance,
        });
        means = means.chunks_exact(2).map(mean).collect();
        period_s *= 2.0;
    }
    octaves
}
