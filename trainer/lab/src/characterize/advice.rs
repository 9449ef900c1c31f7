//! What would make a training faster under a power limit: another number of workers, another minibatch,
//! another mode, or all of them.
//!
//! A prediction counts for the limit with its upper bound at 95 %, and a change is advised only if its
//! gain exceeds one at the lower bound. So advice may miss a gain, and hardly ever costs one.

use std::collections::BTreeSet;

use serde::Serialize;
use thiserror::Error;

use super::joint::{Joint, JointError, Predicted};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Feeding;
use wattgate_trainer::read::{Known, all_modes};

/// Standard normal quantile of 95 %.
const BOUND: f64 = 1.645;

/// Standard deviation of the logarithm of a measured time or power: repeats of a run differ by about
/// 1 %.
const MEASURED_SD: f64 = 0.01;

/// Why there is no advice.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum AdviceError {
    /// The corpus holds too little.
    #[error("{0}")]
    Joint(#[from] JointError),
    /// No profiled mode is within the limit.
    #[error(
        "no profiled mode of the feeding with the most modes is within {limit_w} W; the least draws {least_w:.2} W; raise --limit, or profile lower modes"
    )]
    OverLimit { limit_w: f64, least_w: f64 },
}

/// A mode and a feeding, with what they are worth.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// Cores, CPU, GPU and memory clock in kHz.
    pub knobs: [u32; 4],
    /// Loader workers, if they are known.
    pub workers: Option<u32>,
    /// Samples in a minibatch, if it is known.
    pub minibatch: Option<u32>,
    /// Time of a sample, or of a step if the minibatch is not known, in ms.
    pub item_ms: f64,
    /// Power in W.
    pub power_w: f64,
    /// Upper bound of the power at 95 %, in W.
    pub power_at_most_w: f64,
    /// How many times as fast as now.
    pub gain: f64,
    /// Bounds of the gain, which hold it with 90 %.
    pub gain_bounds: [f64; 2],
    /// Whether the feeding was profiled; otherwise it lies between two that were.
    pub is_profiled: bool,
}

/// A change of one thing alone.
#[derive(Clone, Debug, Serialize)]
pub struct Single {
    /// `workers`, `minibatch` or `mode`.
    pub what: &'static str,
    /// The best choice, also beyond the limit for workers and minibatch.
    pub choice: Choice,
    /// Whether its upper bound of the power is within the limit.
    pub is_within_limit: bool,
}

/// The advice for a workload.
#[derive(Clone, Debug, Serialize)]
pub struct Advice {
    /// `measured`, `simulated` or `recorded`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// The limit in W.
    pub limit_w: f64,
    /// The fastest profiled mode within the limit, with the feeding that was profiled most.
    pub now: Choice,
    /// Share of its step that waits for the loader, in percent.
    pub fetch_pct: Option<f64>,
    /// Share of its step in which the GPU computes, in percent.
    pub compute_pct: Option<f64>,
    /// The best change of one thing alone, where one is surely faster.
    pub single: Vec<Single>,
    /// The best of all within the limit; `None` if nothing is surely faster than now.
    pub best: Option<Choice>,
    /// What the advice stands on.
    pub sure: Vec<String>,
    /// What it cannot know.
    pub unsure: Vec<String>,
}

/// The state that gains are relative to.
struct Now {
    feeding: Feeding,
    knobs: [u32; 4],
    item_us: f64,
}

/// Advises a workload under a limit in W.
pub fn advise(corpora: &[Corpus], limit_w: f64, seed: u64) -> Result<Advice, AdviceError> {
    let joint = Joint::fit(corpora, seed)?;
    let base = &joint.fed[0];
    let limit_mw = 1e3 * limit_w;
    let power = |mode: &&Known| mode.power_mw.unwrap_or(f64::INFINITY);
    let within = base.used.iter().filter(|mode| power(mode) <= limit_mw);
    let fastest = within.min_by(|a, b| a.time_us.total_cmp(&b.time_us));
    let known = fastest.ok_or_else(|| AdviceError::OverLimit {
        limit_w,
        least_w: 1e-3
            * base
                .used
                .iter()
                .map(|mode| power(&mode))
                .fold(f64::INFINITY, f64::min),
    })?;
    let now = Now {
        feeding: base.feeding.clone(),
        knobs: known.knobs,
        item_us: known.time_us / items(&base.feeding),
    };
    let measured = Predicted {
        time_us: known.time_us,
        power_mw: power(&known),
        time_sd: 0.0,
        power_sd: MEASURED_SD,
    };
    let (fetch_pct, compute_pct) = parts(corpora, &now);

    let feedings = candidates(&joint, &now);
    let modes: Vec<[u32; 4]> = all_modes(&joint.grid).collect();
    let [on_now, on_all] = [&[now.knobs][..], &modes[..]].map(|modes| joint.on(modes));
    let mut single: Vec<Single> = Vec::new();
    for what in ["workers", "minibatch"] {
        let others = feedings
            .iter()
            .filter(|other| differs_in(what, other, &now.feeding));
        let choices = others.filter_map(|other| {
            let predicted = on_now.with(other)?;
            Some(choice(&joint, &now, other, now.knobs, &predicted[0]))
        });
        let best = choices
            .filter(is_surely_faster)
            .max_by(|a, b| a.gain_bounds[0].total_cmp(&b.gain_bounds[0]));
        single.extend(best.map(|choice| Single {
            what,
            is_within_limit: choice.power_at_most_w <= limit_w,
            choice,
        }));
    }
    let best_of = |feeding: &Feeding| -> Option<Choice> {
        let predicted = on_all.with(feeding)?;
        let pairs = modes.iter().zip(&predicted);
        let choices =
            pairs.map(|(knobs, predicted)| choice(&joint, &now, feeding, *knobs, predicted));
        choices
            .filter(|choice| choice.power_at_most_w <= limit_w)
            .max_by(|a, b| cautious(a).total_cmp(&cautious(b)))
    };
    if let Some(choice) = best_of(&now.feeding).filter(is_surely_faster) {
        single.push(Single {
            what: "mode",
            choice,
            is_within_limit: true,
        });
    }
    let best = feedings
        .iter()
        .filter_map(best_of)
        .filter(is_surely_faster)
        .max_by(|a, b| cautious(a).total_cmp(&cautious(b)));

    let first = &corpora[0];
    Ok(Advice {
        kind: first.kind.to_string(),
        device: first.device.clone(),
        workload: first.workload.clone(),
        limit_w,
        now: choice(&joint, &now, &now.feeding, now.knobs, &measured),
        fetch_pct,
        compute_pct,
        sure: sure(&joint),
        unsure: unsure(&joint, &now, best.as_ref(), fetch_pct),
        single,
        best,
    })
}

/// Samples in a step.
fn items(feeding: &Feeding) -> f64 {
    feeding.minibatch.map_or(1.0, f64::from)
}

/// The gain that counts in a comparison: half-way to its lower bound, because the best of many
/// predictions is rather one that is too good.
fn cautious(choice: &Choice) -> f64 {
    (choice.gain * choice.gain_bounds[0]).sqrt()
}

fn is_surely_faster(choice: &Choice) -> bool {
    choice.gain_bounds[0] > 1.0
}

fn differs_in(what: &str, to: &Feeding, from: &Feeding) -> bool {
    let other = |a: &Option<u32>, b: &Option<u32>| a != b;
    let workers = other(&to.workers, &from.workers);
    let minibatch = other(&to.minibatch, &from.minibatch);
    match what {
        "workers" => workers && !minibatch,
        _ => minibatch && !workers,
    }
}

fn choice(
    joint: &Joint,
    now: &Now,
    feeding: &Feeding,
    knobs: [u32; 4],
    predicted: &Predicted,
) -> Choice {
    let item_us = predicted.time_us / items(feeding);
    let gain = now.item_us / item_us;
    let spread = (BOUND * predicted.time_sd.hypot(MEASURED_SD)).exp();
    Choice {
        knobs,
        workers: feeding.workers,
        minibatch: feeding.minibatch,
        item_ms: 1e-3 * item_us,
        power_w: 1e-3 * predicted.power_mw,
        power_at_most_w: 1e-3
            * predicted.power_mw
            * (BOUND * predicted.power_sd.max(MEASURED_SD)).exp(),
        gain,
        gain_bounds: [gain / spread, gain * spread],
        is_profiled: joint.is_profiled(feeding),
    }
}

/// Shares of waiting and computing of the present state, in percent.
fn parts(corpora: &[Corpus], now: &Now) -> (Option<f64>, Option<f64>) {
    let fed = corpora.iter().find(|corpus| corpus.feeding == now.feeding);
    let modes = fed.map_or(&[][..], |corpus| &corpus.modes);
    let mode = modes.iter().find(|mode| mode.knobs == now.knobs);
    let share = |part: Option<f64>| {
        let time = mode.and_then(|mode| mode.time())?;
        Some(100.0 * part? / time)
    };
    (
        share(mode.and_then(|mode| mode.fetch())),
        share(mode.and_then(|mode| mode.compute())),
    )
}

/// The feedings to choose from: the profiled ones with the storage and epoch of now, the numbers of
/// workers between them, and the powers of two between their sizes.
fn candidates(joint: &Joint, now: &Now) -> Vec<Feeding> {
    let profiled: Vec<&Feeding> = joint
        .fed
        .iter()
        .map(|fed| &fed.feeding)
        .filter(|feeding| {
            feeding.storage == now.feeding.storage
                && feeding.is_first_epoch() == now.feeding.is_first_epoch()
        })
        .collect();
    let values = |setting: fn(&Feeding) -> Option<u32>| -> BTreeSet<u32> {
        profiled
            .iter()
            .filter_map(|feeding| setting(feeding))
            .collect()
    };
    let (workers, sizes) = (
        values(|feeding| feeding.workers),
        values(|feeding| feeding.minibatch),
    );
    let mut all: Vec<Feeding> = profiled.iter().map(|feeding| (*feeding).clone()).collect();
    let mut add = |feeding: Feeding| {
        if !all.contains(&feeding) {
            all.push(feeding);
        }
    };
    for base in &profiled {
        if let (Some(least), Some(most)) = (workers.first(), workers.last()) {
            for workers in (*least).max(1)..*most {
                add(Feeding {
                    workers: Some(workers),
                    ..(*base).clone()
                });
            }
        }
        if let (Some(least), Some(most)) = (sizes.first(), sizes.last()) {
            let powers = (0..32).map(|exponent| 1_u32 << exponent);
            for size in powers.filter(|size| least < size && size < most) {
                add(Feeding {
                    minibatch: Some(size),
                    ..(*base).clone()
                });
            }
        }
    }
    all.retain(|feeding| joint.covers(feeding));
    all
}

fn sure(joint: &Joint) -> Vec<String> {
    let modes: usize = joint.fed.iter().map(|fed| fed.used.len()).sum();
    vec![
        format!(
            "{modes} profiled rows in {} feedings; gains hold within their bounds with 90 %, powers stay below \
             theirs with 95 %",
            joint.fed.len()
        ),
        "modes, workers and sizes lie within those that were profiled".to_owned(),
    ]
}

fn unsure(joint: &Joint, now: &Now, best: Option<&Choice>, fetch_pct: Option<f64>) -> Vec<String> {
    let mut all = Vec::new();
    let values = |setting: fn(&Feeding) -> Option<u32>| -> BTreeSet<Option<u32>> {
        joint.fed.iter().map(|fed| setting(&fed.feeding)).collect()
    };
    let (workers, sizes) = (
        values(|feeding| feeding.workers),
        values(|feeding| feeding.minibatch),
    );
    if fetch_pct.is_none() {
        all.push("how long steps wait for the loader: the corpus has no `fetch_ms`".to_owned());
    }
    if workers.len() < 2 {
        all.push(match now.feeding.workers {
            Some(workers) => format!(
                "what other than {workers} loader workers are worth: profile some modes with another number"
            ),
            None => "how many loader workers feed it: the corpus has no `workers`".to_owned(),
        });
    }
    if sizes.len() < 2 {
        all.push(
            "what another minibatch is worth: profile some modes with another size".to_owned(),
        );
    }
    if best.is_some_and(|best| best.minibatch != now.feeding.minibatch) {
        all.push(
            "how another minibatch changes convergence: time per sample alone was compared"
                .to_owned(),
        );
    }
    if best.is_some_and(|best| !best.is_profiled) {
        all.push(
            "the advised feeding lies between profiled ones: profile it before you rely on it"
                .to_owned(),
        );
    }
    if !joint.skipped.is_empty() {
        all.push(format!(
            "{} feedings that were profiled in too few modes",
            joint.skipped.len()
        ));
    }
    all
}
