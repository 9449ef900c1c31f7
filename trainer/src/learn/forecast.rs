//! Forecasts of time and power from one measured mode on, with an upper bound of the power.
//!
//! A plan under a power limit starts at the lowest mode and may only ask for modes that stay
//! within the limit. The teachers cannot say which: they need five modes that are spread over the
//! grid. A forecast needs one, as three things are known beforehand:
//!
//! - *Physics bounds the growth.* Power is static power plus terms that grow with a clock, its
//!   voltage and the work per second ([`Mean::Power`]); the time follows a roofline
//!   ([`Mean::Time`]). The priors of their coefficients say how much a step of an axis may add. The
//!   sampled posterior narrows this with every measurement: a step that added little makes the next
//!   one longer. The kernel adds what physics does not explain.
//! - *The measured modes lie in a corner.* Their own mean and spread therefore do not standardise
//!   the targets; the spread of a whole grid does (`SPREADS`).
//! - *Power is monotone.* It does not fall when a knob rises. A measurement thus bounds all modes
//!   below it from above; above a mode that exceeds the limit no other is asked for.
//!
//! The upper bound is the median plus `QUANTILE` standard deviations. It assumes that the work
//! per second is high: power is predicted at the time's lower quantile (`HASTE`). Beyond the
//! highest measured CPU and GPU clock a margin is added (`STEEPER`). The priors are narrower than
//! the teachers', which must fit any corpus and would allow no step at all.
//!
//! `NARROWED`, `CLOSER`, `QUANTILE` and `STEEPER` were chosen on simulated boards: the first three
//! as wide as a plan of 15 modes allows, the last from the modes that exceeded a limit without it.
//! `tests/it/safe_plan.rs` counts these on other units and workloads.

use std::ops::Range;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::Axis;

use crate::corpus::modes::Known;
use crate::learn::gp::{Process, SingularKernel, Spec};
use crate::learn::mean::{KERNEL, Mean, Place, Scales};
use crate::learn::teacher::{Expected, NOISE};

/// Standard deviations of ln(time) and ln(power) over the modes of a grid.
const SPREADS: [f64; 2] = [0.8, 0.5];

/// The amplitudes of the kernel among its hyperparameters.
const AMPLITUDES: Range<usize> = 4..6;

/// Added to the prior means of the ln amplitudes. The teachers' prior lets the kernel replace
/// physics, which leaves no bound beyond the measured modes.
const CLOSER: f64 = -0.8;

/// Factor on the prior standard deviations of the amplitudes and of the physical coefficients.
const NARROWED: f64 = 0.6;

/// Prior of ln(noise / spread): repeats of a mode differ by 1 or 2 %.
const REPEATABLE: [f64; 2] = [-3.2, 0.5];

/// The coefficient u of background work among those of [`Mean::Time`] and [`Mean::Power`].
const TIME_STARVED: usize = 9;
const POWER_STARVED: usize = 11;

/// Prior of u: background work takes about an eighth of the lowest CPU capacity, hardly ever
/// more than a fifth.
const STARVED: [f64; 2] = [-2.0, 0.3];

/// Standard deviations between the median and the upper bound of a power.
const QUANTILE: f64 = 2.0;

/// Added to the bound of ln(power) where a clock lies beyond all measured ones, for a whole
/// axis: voltage rises steeper at high clocks than low clocks show.
const STEEPER: f64 = 0.6;

/// Standard deviations below the median at which the time counts for the upper bound of a power.
const HASTE: f64 = 1.0;

/// Ratio of two measurements of one mode that is still normal.
const REPEAT: f64 = 1.02;

/// Posterior of time and power after at least one measurement.
#[derive(Clone, Debug)]
pub struct Forecast {
    scales: Scales,
    time: Process,
    power: Process,
    /// Knobs and ln(power in mW) of the measured modes.
    measured: Vec<([u32; 4], f64)>,
}

/// The forecast of one mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Median time in µs.
    pub time_us: f64,
    /// Median power in mW.
    pub power_mw: f64,
    /// Upper bound of the power in mW.
    pub power_at_most_mw: f64,
}

/// The prior of a forecast, narrower than that of the teachers.
fn spec(mean: Mean) -> Spec {
    let Spec { mut prior, .. } = Spec::of(mean);
    let (kernel, physics) = prior.split_at_mut(KERNEL);
    for [amplitude, sd] in &mut kernel[AMPLITUDES] {
        *amplitude += CLOSER;
        *sd *= NARROWED;
    }
    kernel[NOISE] = REPEATABLE;
    physics.iter_mut().for_each(|[_, sd]| *sd *= NARROWED);
    let starved = if mean == Mean::Time {
        TIME_STARVED
    } else {
        POWER_STARVED
    };
    physics[starved] = STARVED;
    Spec { mean, prior }
}

impl Forecast {
    /// Fits at least one mode with a power. `exceeded` holds modes whose power was at least a value
    /// in mW; the value counts as their power.
    pub fn fit(
        scales: &Scales,
        modes: &[Known],
        exceeded: &[([u32; 4], f64)],
        seed: u64,
    ) -> Result<Self, SingularKernel> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut places: Vec<Place> = modes.iter().map(|mode| scales.place(mode.knobs)).collect();
        let mut times: Vec<f64> = modes.iter().map(|mode| mode.time_us.ln()).collect();
        let [of_time, of_power] = SPREADS;
        let time =
            Process::fit_in_corner(&spec(Mean::Time), of_time, &places, &times, &mut random)?;
        let exceeding: Vec<Place> = exceeded
            .iter()
            .map(|(knobs, _)| scales.place(*knobs))
            .collect();
        times.extend(expected(&time, &exceeding).iter().map(|time| time.median));
        places.extend(exceeding);
        let powers = modes.iter().map(|mode| mode.power_mw);
        let powers = powers.chain(exceeded.iter().map(|(_, power)| Some(*power)));
        let with_power = powers.zip(places).zip(times);
        let (places, powers): (Vec<Place>, Vec<f64>) = with_power
            .filter_map(|((power, place), log)| {
                let log_time = log - time.level();
                Some((Place { log_time, ..place }, power?.ln()))
            })
            .unzip();
        let power =
            Process::fit_in_corner(&spec(Mean::Power), of_power, &places, &powers, &mut random)?;
        let measured = modes
            .iter()
            .filter_map(|mode| Some((mode.knobs, mode.power_mw?.ln())));
        Ok(Self {
            scales: scales.clone(),
            time,
            power,
            measured: measured.collect(),
        })
    }

    /// The forecasts of some modes.
    pub fn predict(&self, modes: &[[u32; 4]]) -> Vec<Predicted> {
        let (places, times) = self.times(modes);
        let median = self.powers(&places, &times, 0.0);
        let bounds = self.ln_powers_at_most(modes);
        let each = times.iter().zip(median).zip(bounds);
        let of = |((time, power), bound): ((&Expected, Expected), f64)| Predicted {
            time_us: time.median.exp(),
            power_mw: power.median.min(bound).exp(),
            power_at_most_mw: bound.exp(),
        };
        each.map(of).collect()
    }

    /// Which of some modes have an upper bound within a power limit.
    pub fn within(&self, modes: &[[u32; 4]], limit_mw: f64) -> Vec<bool> {
        let bounds = self.ln_powers_at_most(modes).into_iter();
        bounds.map(|bound| bound <= limit_mw.ln()).collect()
    }

    fn ln_powers_at_most(&self, modes: &[[u32; 4]]) -> Vec<f64> {
        let (places, times) = self.times(modes);
        let powers = self.powers(&places, &times, HASTE);
        let bound = |(knobs, power): (&[u32; 4], Expected)| {
            let above = self
                .measured
                .iter()
                .filter(|(high, _)| dominates(high, knobs));
            let measured = above.map(|(_, power)| power + REPEAT.ln());
            let beyond: f64 = [Axis::Cpu, Axis::Gpu]
                .map(|axis| self.beyond(axis, knobs))
                .iter()
                .sum();
            measured.fold(
                power.median + QUANTILE * power.sd + STEEPER * beyond,
                f64::min,
            )
        };
        modes.iter().zip(powers).map(bound).collect()
    }

    /// How far a clock lies above the highest measured one, as a share of the axis's highest.
    fn beyond(&self, axis: Axis, knobs: &[u32; 4]) -> f64 {
        let measured = self.measured.iter().map(|(knobs, _)| knobs[axis as usize]);
        let above = knobs[axis as usize].saturating_sub(measured.max().unwrap_or(0));
        f64::from(above) / self.scales.highest(axis)
    }

    fn times(&self, modes: &[[u32; 4]]) -> (Vec<Place>, Vec<Expected>) {
        let places: Vec<Place> = modes
            .iter()
            .map(|&knobs| self.scales.place(knobs))
            .collect();
        let times = expected(&self.time, &places);
        (places, times)
    }

    /// ln(power) where times are `haste` standard deviations below their medians.
    fn powers(&self, places: &[Place], times: &[Expected], haste: f64) -> Vec<Expected> {
        let at = |(place, time): (&Place, &Expected)| Place {
            log_time: time.median - haste * time.sd - self.time.level(),
            ..*place
        };
        let places: Vec<Place> = places.iter().zip(times).map(at).collect();
        expected(&self.power, &places)
    }
}

/// Mean and standard deviation over the samples of a process.
fn expected(process: &Process, places: &[Place]) -> Vec<Expected> {
    let samples = process.predictions(places);
    let of = |at: usize| {
        let mean = |of: &dyn Fn(f64, f64) -> f64| {
            let each = samples
                .iter()
                .map(|sample| of(sample[at].mean, sample[at].variance));
            each.sum::<f64>() / samples.len() as f64
        };
        let median = mean(&|mean, _| mean);
        let variance = mean(&|mean, variance| variance + (mean - median).powi(2));
        Expected {
            median,
            sd: variance.sqrt(),
        }
    };
    (0..places.len()).map(of).collect()
}

/// Whether no knob of `high` is lower than that of `low`.
pub fn dominates(high: &[u32; 4], low: &[u32; 4]) -> bool {
    high.iter().zip(low).all(|(high, low)| high >= low)
}
