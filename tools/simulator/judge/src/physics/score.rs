//! How far the physics is from measured modes.

use serde::Serialize;
use wattgate_board_tables::Board;

use super::corpus::Corpus;
use super::own::{simulated, workload};
use crate::random::Random;

/// Random pairs of modes whose ratios are compared.
const PAIRS: usize = 2_000;

/// Limits at which choices are compared, in percent of the span of power of the measured front.
const LIMITS_PCT: std::ops::RangeInclusive<u32> = 1..=19;
const LIMIT_STEP_PCT: f64 = 5.0;

/// A mode, measured and simulated: time in s and power in W.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    pub knobs: [u32; 4],
    pub measured: [f64; 2],
    pub simulated: [f64; 2],
    /// Whether the own parameters were fitted to it.
    pub is_fitted: bool,
}

/// All modes of a corpus beside the physics.
pub fn compared(board: &Board, own: &[f64], corpus: &Corpus, fitted: &[usize]) -> Vec<Compared> {
    let workload = workload(board, own);
    let modes = corpus.modes.iter().enumerate();
    let compare = modes.map(|(at, mode)| Compared {
        knobs: mode.knobs,
        measured: [mode.time_s, mode.power_w],
        simulated: simulated(board, &workload, own, &mode.clocks),
        is_fitted: fitted.contains(&at),
    });
    compare.collect()
}

/// Absolute errors in percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Errors {
    pub median: f64,
    pub mean: f64,
    pub p90: f64,
    pub worst: f64,
}

impl Errors {
    /// Of the errors in percent; zeros without any.
    pub fn of(mut errors: Vec<f64>) -> Self {
        errors.sort_by(f64::total_cmp);
        let Some(worst) = errors.last().copied() else {
            return Self::default();
        };
        let quantile = |part: f64| errors[(part * (errors.len() - 1) as f64).round() as usize];
        Self {
            median: quantile(0.5),
            mean: errors.iter().sum::<f64>() / errors.len() as f64,
            p90: quantile(0.9),
            worst,
        }
    }
}

/// What the choice by the physics under a limit costs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice {
    /// Time over the least of all measured modes that draw no more than the chosen one, less 1, in percent.
    slower: f64,
    /// Measured power over the limit, in percent; below 0 if within.
    over: f64,
}

/// Errors of the modes that were not fitted, in percent, of one fit.
#[derive(Clone, Debug, Default)]
pub struct Misses {
    pub modes: [Vec<f64>; 2],
    pairs: [Vec<f64>; 2],
    neighbours: [Vec<f64>; 2],
    choices: Vec<Choice>,
}

/// Figures of one or several fits: `[time, power]`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Figures {
    /// Errors of the modes.
    pub modes: [Errors; 2],
    /// Errors of the ratio between the two modes of random pairs.
    pub pairs: [Errors; 2],
    /// Errors of the ratio between neighbours on the measured front.
    pub neighbours: [Errors; 2],
    /// How much slower the choice by the physics is than the fastest mode that draws no more.
    pub slower: Errors,
    /// How far the power of the choice is over the limit; 0 if within.
    pub over: Errors,
}

/// The modes that no other one beats in time and power, in order of power: indices.
pub fn front(points: &[[f64; 2]]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&a, &b| {
        let [a, b] = [points[a], points[b]];
        a[1].total_cmp(&b[1]).then(a[0].total_cmp(&b[0]))
    });
    let mut least = f64::INFINITY;
    order.retain(|&at| {
        let is_faster = points[at][0] < least;
        least = least.min(points[at][0]);
        is_faster
    });
    order
}

fn percent(log: f64) -> f64 {
    100.0 * (log.abs().exp() - 1.0)
}

impl Misses {
    /// The errors of the modes that were not fitted.
    pub fn of(all: &[Compared], seed: u64) -> Self {
        let others: Vec<&Compared> = all.iter().filter(|mode| !mode.is_fitted).collect();
        let error = |at: usize, mode: &Compared| (mode.simulated[at] / mode.measured[at]).ln();
        let mut misses = Self::default();
        let mut random = Random(seed);
        let pick = |random: &mut Random| others[(random.next() % others.len() as u64) as usize];
        let pairs = (0..PAIRS).map(|_| (pick(&mut random), pick(&mut random)));
        let pairs: Vec<(&Compared, &Compared)> = pairs.collect();
        let measured: Vec<[f64; 2]> = others.iter().map(|mode| mode.measured).collect();
        let measured_front = front(&measured);
        let neighbours = measured_front.windows(2);
        let neighbours: Vec<(&Compared, &Compared)> = neighbours
            .map(|two| (others[two[0]], others[two[1]]))
            .collect();
        for at in 0..2 {
            let signed = others.iter().map(|mode| error(at, mode));
            misses.modes[at] = signed.map(|log| 100.0 * (log.exp() - 1.0).abs()).collect();
            let ratio = |&(a, b): &(&Compared, &Compared)| percent(error(at, a) - error(at, b));
            misses.pairs[at] = pairs.iter().map(ratio).collect();
            misses.neighbours[at] = neighbours.iter().map(ratio).collect();
        }
        misses.choices = choices(&others, &measured_front);
        misses
    }

    /// Adds those of another fit.
    pub fn extend(&mut self, other: Self) {
        for at in 0..2 {
            self.modes[at].extend(&other.modes[at]);
            self.pairs[at].extend(&other.pairs[at]);
            self.neighbours[at].extend(&other.neighbours[at]);
        }
        self.choices.extend(other.choices);
    }

    pub fn figures(&self) -> Figures {
        let both = |errors: &[Vec<f64>; 2]| errors.each_ref().map(|it| Errors::of(it.clone()));
        let choices = self.choices.iter();
        Figures {
            modes: both(&self.modes),
            pairs: both(&self.pairs),
            neighbours: both(&self.neighbours),
            slower: Errors::of(choices.clone().map(|it| it.slower).collect()),
            over: Errors::of(choices.map(|it| it.over.max(0.0)).collect()),
        }
    }
}

/// The choices by the physics under limits over the span of the measured front.
fn choices(modes: &[&Compared], measured_front: &[usize]) -> Vec<Choice> {
    let power = |at: usize| modes[at].measured[1];
    let (Some(&first), Some(&last)) = (measured_front.first(), measured_front.last()) else {
        return Vec::new();
    };
    let limits = LIMITS_PCT.map(|n| {
        power(first) + f64::from(n) * LIMIT_STEP_PCT / 100.0 * (power(last) - power(first))
    });
    let choice = |limit: f64| {
        let within = modes.iter().filter(|mode| mode.simulated[1] <= limit);
        let chosen = within.min_by(|a, b| a.simulated[0].total_cmp(&b.simulated[0]))?;
        let least = modes
            .iter()
            .filter(|mode| mode.measured[1] <= chosen.measured[1])
            .map(|mode| mode.measured[0])
            .fold(f64::INFINITY, f64::min);
        Some(Choice {
            slower: 100.0 * (chosen.measured[0] / least - 1.0),
            over: 100.0 * (chosen.measured[1] / limit - 1.0),
        })
    };
    limits.filter_map(choice).collect()
}

/// What one knob does, with the others fixed: the mean change of time and power from its lowest to its highest value, for each
/// doubling of it, in percent; and the mean absolute error of the whole change, in percent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Effect {
    pub measured: [f64; 2],
    pub simulated: [f64; 2],
    pub error: [f64; 2],
}

/// The effect of a knob, from all pairs of modes that differ in it alone and have its lowest and its highest value of those in the
/// corpus with the same others. `None` if there is no pair that spans a factor of 1.5.
pub fn effect(all: &[Compared], knob: usize) -> Option<Effect> {
    let mut lines: std::collections::BTreeMap<[u32; 4], Vec<&Compared>> = Default::default();
    for mode in all {
        let mut others = mode.knobs;
        others[knob] = 0;
        lines.entry(others).or_default().push(mode);
    }
    // Of time and power: measured, simulated, error.
    let mut sums = [[0.0; 3]; 2];
    let mut count = 0.0;
    for line in lines.values() {
        let low = line.iter().min_by_key(|mode| mode.knobs[knob])?;
        let high = line.iter().max_by_key(|mode| mode.knobs[knob])?;
        let span = f64::from(high.knobs[knob]) / f64::from(low.knobs[knob].max(1));
        if span < 1.5 {
            continue;
        }
        count += 1.0;
        for (at, sums) in sums.iter_mut().enumerate() {
            let measured = (high.measured[at] / low.measured[at]).ln();
            let simulated = (high.simulated[at] / low.simulated[at]).ln();
            sums[0] += measured / span.log2();
            sums[1] += simulated / span.log2();
            sums[2] += percent(simulated - measured);
        }
    }
    let change = |which: usize| sums.map(|sums| 100.0 * ((sums[which] / count).exp() - 1.0));
    (count > 0.0).then(|| Effect {
        measured: change(0),
        simulated: change(1),
        error: sums.map(|sums| sums[2] / count),
    })
}
