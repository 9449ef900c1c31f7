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
//!   one longer. The covariance adds what physics does not explain.
//! - *The measured modes lie in a corner.* Their own mean and spread therefore do not standardise
//!   the targets; the spread of a whole grid does (`SPREADS`).
//! - *Power is monotone.* It does not fall when a knob rises. A measurement thus bounds all modes
//!   below it from above; above a mode that exceeds the limit no other is asked for.
//!
//! The upper bound is the median plus `QUANTILE` standard deviations. It assumes that the work
//! per second is high: power is predicted at the time's lower quantile (`HASTE`). Beyond the
//! highest measured CPU and GPU clock and above the highest measured power margins are added
//! (`STEEPER`, `RISE`). The priors are narrower than the teachers', which must fit any corpus and
//! would allow no step at all. With a reference of the same board they are narrower still, around
//! the reference's coefficients.
//!
//! `TIME_PRIOR`, `POWER_PRIOR`, `QUANTILE`, `STEEPER` and `RISE` were chosen on the three
//! simulated boards with the workloads lstm, vgg11 and lenet on units 21 and 22 (`RISE`: 21 to 26),
//! as wide as a plan of 15 modes allows. `tests/it/safe_plan.rs` and `tests/it/learned.rs` count the
//! modes that exceed a limit on other units and workloads.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::grid::Axis;

use crate::corpus::modes::Known;
use crate::learn::blend::of_same_board;
use crate::learn::expected::Expected;
use crate::learn::gp::{Process, SingularCovariance};
use crate::learn::mean::{Mean, Place, Scales};
use crate::learn::plan::promise;
use crate::learn::predictions::Target;
use crate::learn::priors::Spec;
use crate::learn::teacher::Hyperparameters;

/// Standard deviations of ln(time) and ln(power) over the modes of a grid.
const SPREADS: [f64; 2] = [0.8, 0.5];

/// Prior of the time, in the order of [`Mean::theory`]. Narrower than the teachers', above all in the
/// amplitudes: a covariance that may replace physics leaves no bound beyond the measured modes. Repeats
/// of a mode differ by 1 or 2 %. Background work slows the lowest CPU capacity by about an eighth.
const TIME_PRIOR: &[[f64; 2]] = &[
    [0.5, 0.6],
    [0.4, 0.6],
    [1.1, 1.2],
    [2.2, 0.8],
    [-3.1, 0.6],
    [-4.7, 0.3],
    [-5.0, 0.5],
    [-3.2, 0.5],
    [0.0, 0.12],
    [-0.1, 0.12],
    [0.0, 0.18],
    [-1.6, 0.48],
    [-2.7, 0.54],
    [-0.8, 0.48],
    [-1.1, 0.48],
    [-1.7, 0.48],
    [-0.3, 0.36],
    [-2.0, 0.3],
    [-0.5, 0.3],
    [1.0, 0.1],
];

/// Prior of the power. About a half of the power of an average mode is static: regulators, fabric
/// and leakage draw it in every mode.
const POWER_PRIOR: &[[f64; 2]] = &[
    [1.0, 0.9],
    [1.0, 0.9],
    [1.0, 0.9],
    [1.0, 0.9],
    [-2.4, 0.48],
    [-3.4, 0.6],
    [-5.0, 0.5],
    [-3.2, 0.5],
    [-0.8, 0.6],
    [-1.8, 0.6],
    [-1.8, 0.6],
    [-1.8, 0.6],
    [-1.8, 0.6],
    [-1.8, 0.6],
    [1.0, 0.18],
    [0.7, 0.18],
    [0.7, 0.18],
    [1.7, 0.18],
    [1.7, 0.18],
    [-2.0, 0.3],
    [-0.5, 0.3],
    [1.0, 0.1],
    [0.0, 0.3],
];

/// Standard deviations between the median and the upper bound of a power.
const QUANTILE: f64 = 2.5;

/// Added to the bound of ln(power) where a clock lies beyond all measured ones, for a whole
/// axis: voltage rises steeper at high clocks than low clocks show.
const STEEPER: f64 = 0.6;

/// Added to the bound of ln(power), for each unit of the median above the highest measured
/// ln(power): the mode asked for is the one that promises most, and this is often an underestimated
/// one.
const RISE: f64 = 0.5;

/// Added to the bound of ln(power): a board that is not yet warm leaks less. Profiles of simulated
/// boards are up to 2.2 % below the steady power, and 0.4 % if the mode was profiled 30 times before.
const COLD: f64 = 0.02;

/// Standard deviations below the median at which the time counts for the upper bound of a power.
const HASTE: f64 = 1.0;

/// Ratio of two measurements of one mode that is still normal.
const MOST_REPEAT_RATIO: f64 = 1.02;

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

/// The prior of a forecast.
fn spec(mean: Mean, reference: Option<&[f64]>) -> Spec {
    let own = if mean == Mean::Time {
        TIME_PRIOR
    } else {
        POWER_PRIOR
    };
    let prior = match reference {
        Some(learned) => of_same_board(&own.to_vec(), learned),
        None => own.to_vec(),
    };
    Spec { mean, prior }
}

impl Forecast {
    /// Fits at least one mode with a power. `exceeded` holds modes whose power was at least a value
    /// in mW; the value counts as their power.
    pub fn fit(
        scales: &Scales,
        modes: &[Known],
        exceeded: &[([u32; 4], f64)],
        learned: &Hyperparameters,
        seed: u64,
    ) -> Result<Self, SingularCovariance> {
        let learned = |target| learned[target as usize].as_deref();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut places: Vec<Place> = modes.iter().map(|mode| scales.place(mode.knobs)).collect();
        let mut times: Vec<f64> = modes.iter().map(|mode| mode.time_us.ln()).collect();
        let [of_time, of_power] = SPREADS;
        let time = Process::fit_in_corner(
            &spec(Mean::Time, learned(Target::Time)),
            of_time,
            &places,
            &times,
            &mut random,
        )?;
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
        let power = Process::fit_in_corner(
            &spec(Mean::Power, learned(Target::Power)),
            of_power,
            &places,
            &powers,
            &mut random,
        )?;
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
        let predicted = |(time, power, bound): (Expected, Expected, f64)| Predicted {
            time_us: time.median.exp(),
            power_mw: power.median.min(bound).exp(),
            power_at_most_mw: bound.exp(),
        };
        self.logs(modes).into_iter().map(predicted).collect()
    }

    /// Which of some modes have an upper bound within a power limit.
    pub fn within(&self, modes: &[[u32; 4]], limit_mw: f64) -> Vec<bool> {
        let logs = self.logs(modes).into_iter();
        logs.map(|(_, _, bound)| bound <= limit_mw.ln()).collect()
    }

    /// The [`promise`] of some modes under a power limit over `fastest`, a ln time; `None` where
    /// the upper bound of the power exceeds the limit.
    pub fn promises(&self, modes: &[[u32; 4]], limit_mw: f64, fastest: f64) -> Vec<Option<f64>> {
        let promised = |(time, power, bound): (Expected, Expected, f64)| {
            (bound <= limit_mw.ln()).then(|| promise(limit_mw.ln(), fastest, &time, &power))
        };
        self.logs(modes).into_iter().map(promised).collect()
    }

    /// ln(time), ln(power) and the upper bound of ln(power).
    fn logs(&self, modes: &[[u32; 4]]) -> Vec<(Expected, Expected, f64)> {
        let places: Vec<Place> = modes
            .iter()
            .map(|&knobs| self.scales.place(knobs))
            .collect();
        let times = expected(&self.time, &places);
        let [median, hasty] = [0.0, HASTE].map(|haste| self.powers(&places, &times, haste));
        let powers = self.measured.iter().map(|(_, power)| *power);
        let highest = powers.fold(f64::NEG_INFINITY, f64::max);
        let each = modes.iter().zip(times).zip(median.into_iter().zip(hasty));
        each.map(|((knobs, time), (median, hasty))| {
            let beyond = [Axis::Cpu, Axis::Gpu].map(|axis| self.beyond(axis, knobs));
            let higher = (hasty.median - highest).max(0.0);
            let margin = QUANTILE * hasty.sd + STEEPER * beyond.iter().sum::<f64>() + RISE * higher;
            let above = self
                .measured
                .iter()
                .filter(|(high, _)| dominates(high, knobs));
            let measured = above.map(|(_, power)| power + MOST_REPEAT_RATIO.ln());
            let bound = measured.fold(hasty.median + margin, f64::min) + COLD;
            (time, median, bound)
        })
        .collect()
    }

    /// How far a clock lies above the highest measured one, as a share of the axis's highest.
    fn beyond(&self, axis: Axis, knobs: &[u32; 4]) -> f64 {
        let measured = self.measured.iter().map(|(knobs, _)| knobs[axis as usize]);
        let above = knobs[axis as usize].saturating_sub(measured.max().unwrap_or(0));
        f64::from(above) / self.scales.highest(axis)
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
    let expected = |at: usize| {
        let mean = |value: &dyn Fn(f64, f64) -> f64| {
            let each = samples
                .iter()
                .map(|sample| value(sample[at].mean, sample[at].variance));
            each.sum::<f64>() / samples.len() as f64
        };
        let median = mean(&|mean, _| mean);
        let variance = mean(&|mean, variance| variance + (mean - median).powi(2));
        Expected {
            median,
            sd: variance.sqrt(),
        }
    };
    (0..places.len()).map(expected).collect()
}

/// Whether no knob of `high` is lower than that of `low`.
pub fn dominates(high: &[u32; 4], low: &[u32; 4]) -> bool {
    high.iter().zip(low).all(|(high, low)| high >= low)
}
