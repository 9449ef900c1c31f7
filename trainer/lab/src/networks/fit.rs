//! A model file of a network that was never run, or run in a few modes only.
//!
//! Without profiled modes the sum over the calls is the prediction. How far off it may be is known from
//! units of the board that the kernels' models had not seen: each unit gives one error of the network, the
//! mean of its kernels' errors weighted by their share of the time. [`COMPOSITION`] comes on top.
//!
//! With profiled modes, factors on the launches and on the GPU's time are fitted first. Gaussian processes
//! learn what is left: ln(measured / composed) of time and of power, with the priors of theory.

use std::collections::BTreeMap;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::Serialize;
use thiserror::Error;
use wattgate_kernels::Kind;
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{FormatError, Region};

use super::compose::{ComposeError, Composed, Composer, Factors, Predicted};
use crate::kernels::models::{KernelModels, UnitError};
use wattgate_trainer::fit::Exported;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::export;
use wattgate_trainer::fit::{Expected, LeftOut, Residual};
use wattgate_trainer::fit::{Mean, Place, Scales};
use wattgate_trainer::fit::{Origin, Surface};
use wattgate_trainer::fit::{Process, SingularCovariance};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Units;
use wattgate_trainer::read::{Known, all_modes, profiled};
use wattgate_trainer::score::Target;

/// Relative error of composing, as a standard deviation of ln time and of ln power, on top of the units'
/// errors: what a queue of calls leaves out, such as memory that the calls before keep busy. The root mean
/// squares of the column `spread` of `tools/networks.sh`, rounded up to 1 %.
pub const COMPOSITION: [f64; 2] = [0.11, 0.05];

/// Least number of profiled modes that correct a composition.
pub const LEAST_CORRECTING_MODES: usize = 5;

/// Parts of the profiled modes that are left out in turn.
const MODE_FOLDS: usize = 10;

/// Why no model of a network was made.
#[derive(Debug, Error)]
pub enum NetworkFitError {
    /// A kernel has no model.
    #[error("{0}")]
    Compose(#[from] ComposeError),
    /// The kernels are those of another board.
    #[error(
        "the kernels are those of `{kernels}`, not of `{board}`; name kernels of that board with --kernels, or the kernels' board with --board"
    )]
    OtherBoard { kernels: String, board: String },
    /// The kernels were not measured in a range of clocks that the board has.
    #[error(
        "the kernels were not measured at any {knob} of the board; measure them at some of its own"
    )]
    NoCommonClock { knob: &'static str },
    /// The kernel corpus leaves a clock blank that the board varies.
    #[error(
        "the kernel corpus leaves the {knob} blank, but the board varies it; measure the kernels at several"
    )]
    UnknownClock { knob: &'static str },
    /// Stand-ins take too much of the time.
    #[error(
        "{} take{} {share_pct:.1} % of the time, more than {most_pct:.1} %: no kernel predicts them; allow them with a higher --most-unknown",
        operators.join(", "), if operators.len() == 1 { "s" } else { "" }
    )]
    Unknown {
        operators: Vec<String>,
        share_pct: f64,
        most_pct: f64,
    },
    /// Too few profiled modes.
    #[error(
        "{found} modes with time and power were profiled; a correction needs at least {LEAST_CORRECTING_MODES}; profile more, or leave --corpus out"
    )]
    FewModes { found: usize },
    /// The correction's kernel matrix is singular.
    #[error("{0}")]
    SingularCovariance(#[from] SingularCovariance),
    /// The runtime refuses the encoded file.
    #[error(
        "the runtime refuses the model: {0}; this is a defect of wattgate, please report it with the network"
    )]
    Refused(#[from] FormatError),
}

/// Operators that no kernel predicts, with the share of the time that their stand-ins take.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Unknown {
    /// The operator.
    pub operator: String,
    /// Share of the time in percent.
    pub share_pct: f64,
}

/// The shares of a network's time in a mode.
#[derive(Clone, Debug, PartialEq)]
pub struct Shares {
    /// By kernel; the sum is one.
    pub kernels: BTreeMap<Kind, f64>,
    /// By operator that has only a stand-in.
    pub unknown: Vec<Unknown>,
}

impl Shares {
    /// Of a composed network in a mode.
    pub fn from_composer(composer: &Composer<'_>, mode: [u32; 4]) -> Self {
        let times = composer.layers(mode);
        let all: f64 = times.iter().map(|predicted| predicted.time_ms).sum();
        let mut kernels = BTreeMap::new();
        let mut unknown: BTreeMap<&str, f64> = BTreeMap::new();
        for (layer, predicted) in composer.network().iter().zip(&times) {
            *kernels.entry(layer.call.kind()).or_insert(0.0) += predicted.time_ms / all;
            if layer.stands_in {
                *unknown.entry(&layer.operators).or_insert(0.0) += 100.0 * predicted.time_ms / all;
            }
        }
        let unknown = unknown.into_iter().map(|(operator, share_pct)| Unknown {
            operator: operator.to_owned(),
            share_pct,
        });
        Self {
            kernels,
            unknown: unknown.collect(),
        }
    }

    /// Refuses a network if its stand-ins take more than a share of the time, in percent.
    pub fn refuse_unknown(&self, most_pct: f64) -> Result<(), NetworkFitError> {
        let share_pct = self.unknown.iter().map(|operator| operator.share_pct).sum();
        if share_pct <= most_pct {
            return Ok(());
        }
        let operators = self.unknown.iter().map(|unknown| unknown.operator.clone());
        Err(NetworkFitError::Unknown {
            operators: operators.collect(),
            share_pct,
            most_pct,
        })
    }
}

/// The grid of a network's model, and the region of its modes that may be chosen. The grid has all clocks of
/// the board. It has those numbers of cores with which kernels were measured; if the kernel corpus names
/// none, kernels were measured with all cores. The region spans the lowest to the highest measured clocks.
pub fn grid(models: &KernelModels, board: &Grid) -> Result<(Grid, Region), NetworkFitError> {
    const KNOBS: [&str; 4] = ["number of cores", "CPU clock", "GPU clock", "memory clock"];
    let axes = Axis::ALL.map(|axis| board.axis(axis));
    let mut kept: [Vec<u32>; 4] = Default::default();
    let mut between: [Vec<u32>; 4] = Default::default();
    for (at, axis) in axes.iter().enumerate() {
        let known = &models.knobs[at];
        let is_varied = known.iter().any(|knob| *knob > 0);
        let (least, most) = match is_varied {
            true => (known[0], known[known.len() - 1]),
            false => (0, u32::MAX),
        };
        if at > 0 && !is_varied && axis.len() > 1 {
            return Err(NetworkFitError::UnknownClock { knob: KNOBS[at] });
        }
        let values = axis.iter().copied();
        kept[at] = match (at, is_varied) {
            (0, true) => values.filter(|cores| known.contains(cores)).collect(),
            (0, false) => values.max().into_iter().collect(),
            _ => values.collect(),
        };
        let inside = |value: &u32| (least..=most).contains(value);
        between[at] = kept[at].iter().copied().filter(inside).collect();
        if between[at].is_empty() {
            return Err(NetworkFitError::NoCommonClock { knob: KNOBS[at] });
        }
    }
    let grid = Grid::new(kept.each_ref().map(Vec::as_slice)).expect("a part of a grid");
    let ends = [0, 1].map(|end| {
        between.each_ref().map(|values| {
            if end == 0 {
                values[0]
            } else {
                values[values.len() - 1]
            }
        })
    });
    let region = Region::spanning(&grid, ends).expect("values of the grid");
    Ok((grid, region))
}

/// The mode with the highest value of each knob.
pub fn fastest(grid: &Grid) -> [u32; 4] {
    Axis::ALL.map(|axis| grid.axis(axis)[grid.axis(axis).len() - 1])
}

/// What is known of a network in all modes of a grid.
#[derive(Debug)]
pub struct Network<'a> {
    models: &'a KernelModels,
    grid: Grid,
    predicted: Predicted<'a>,
    /// In the order of the modes' ids.
    composed: Vec<Composed>,
    shares: Shares,
}

impl<'a> Network<'a> {
    /// Composes a network in all modes of a grid.
    pub fn compose(models: &'a KernelModels, composer: &'a Composer<'a>, grid: Grid) -> Self {
        let modes: Vec<[u32; 4]> = all_modes(&grid)
            .map(|mode| models.known_knobs(mode))
            .collect();
        let fastest = fastest(&grid);
        let predicted = composer.predict_calls(&modes);
        Self {
            models,
            composed: predicted.compose(Factors::NONE),
            predicted,
            shares: Shares::from_composer(composer, models.known_knobs(fastest)),
            grid,
        }
    }

    /// What was composed, in the order of the modes' ids.
    pub fn composed(&self) -> &[Composed] {
        &self.composed
    }

    /// The shares of the time in the fastest mode.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// The errors of the network on each unit whose every kernel was measured there: means over the
    /// kernels, weighted by their share of the time.
    fn unit_errors(&self, error_of: fn(&UnitError) -> [f64; 2]) -> Vec<f64> {
        let units = 0..self.models.units.len() as u16;
        let one = |unit: u16| {
            let kernels = self.shares.kernels.iter();
            let errors = kernels.map(|(kind, share)| {
                let model = self.models.for_kind(*kind).expect("composed");
                let mut errors = model.errors().iter();
                Some(share * error_of(errors.find(|error| error.unit == unit)?)[0])
            });
            errors.sum::<Option<f64>>()
        };
        units.filter_map(one).collect()
    }

    /// The surface of a network that was never run.
    pub fn surface(&self) -> Surface {
        let errors_of_targets = [
            self.unit_errors(|error| error.time),
            self.unit_errors(|error| error.power),
        ];
        let mut sds = [0.0; 2];
        let mut standardised: [Vec<f64>; 2] = Default::default();
        for (at, errors) in errors_of_targets.into_iter().enumerate() {
            let square: f64 = errors.iter().map(|error| error * error).sum();
            let square = square / errors.len().max(1) as f64;
            sds[at] = (square + COMPOSITION[at].powi(2)).sqrt();
            let rms = square.sqrt().max(f64::MIN_POSITIVE);
            standardised[at] = errors.into_iter().map(|error| error / rms).collect();
        }
        let expected = Target::ALL.map(|target| {
            let sd = sds[target as usize];
            let median = self.composed.iter().map(|composed| log(composed, target));
            median.map(|median| Expected { median, sd }).collect()
        });
        // The errors of units stand for those of the network: as spread, but scaled to its deviation.
        let [times, powers] = &standardised;
        let residual = |z: f64, sd: f64| Residual { log: z * sd, sd };
        let left_out = times.iter().zip(powers).map(|(time, power)| LeftOut {
            time: residual(*time, sds[0]),
            power: Some(residual(*power, sds[1])),
        });
        Surface {
            expected: expected.into(),
            left_out: left_out.collect(),
            measured: Vec::new(),
        }
    }

    /// The surface of a network that was run in some modes of the grid.
    pub fn corrected(&self, known: &[Known], seed: u64) -> Result<Surface, NetworkFitError> {
        let known: Vec<&Known> = known
            .iter()
            .filter(|mode| mode.power_mw.is_some())
            .collect();
        if known.len() < LEAST_CORRECTING_MODES {
            return Err(NetworkFitError::FewModes { found: known.len() });
        }
        let scales = Scales::from_grid(&self.grid);
        let all: Vec<Place> = all_modes(&self.grid)
            .map(|mode| scales.place(mode))
            .collect();
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let whole = Correction::learn(&self.predicted, &known, &scales, &mut random)?;
        let every: Vec<usize> = (0..all.len()).collect();
        let expected = whole.predict(&self.predicted, &every, &all);
        let mut residuals = [0, 1].map(|_| vec![Residual { log: 0.0, sd: 1.0 }; known.len()]);
        for fold in 0..MODE_FOLDS.min(known.len()) {
            random.set_stream(1 + fold as u64);
            let others = known
                .iter()
                .enumerate()
                .filter(|(at, _)| at % MODE_FOLDS != fold);
            let others: Vec<&Known> = others.map(|(_, mode)| *mode).collect();
            let correction = Correction::learn(&self.predicted, &others, &scales, &mut random)?;
            for at in (fold..known.len()).step_by(MODE_FOLDS) {
                let (id, place) = (known[at].id, scales.place(known[at].knobs));
                let predicted = correction.predict(&self.predicted, &[id], &[place]);
                for ((target, residuals), predicted) in
                    Target::ALL.into_iter().zip(&mut residuals).zip(predicted)
                {
                    let measured = target.measured(known[at]).expect("kept for it").ln();
                    residuals[at] = predicted[0].residual(measured);
                }
            }
        }
        let pairs = residuals[0].iter().zip(&residuals[1]);
        let left_out = pairs.map(|(time, power)| LeftOut {
            time: *time,
            power: Some(*power),
        });
        Ok(Surface {
            expected: expected.into(),
            left_out: left_out.collect(),
            measured: known.iter().map(|mode| **mode).collect(),
        })
    }
}

/// ln(time in µs) or ln(power in mW).
fn log(composed: &Composed, target: Target) -> f64 {
    match target {
        Target::Time => (1e3 * composed.time_ms).ln(),
        Target::Power => composed.power_mw().ln(),
    }
}

/// What profiled modes say of a composition.
struct Correction {
    factors: Factors,
    /// For time and for power: what the composition with these factors leaves.
    processes: [Process; 2],
}

impl Correction {
    fn learn(
        predicted: &Predicted<'_>,
        known: &[&Known],
        scales: &Scales,
        random: &mut ChaCha8Rng,
    ) -> Result<Self, SingularCovariance> {
        let factors = factors(predicted, known);
        let places: Vec<Place> = known.iter().map(|mode| scales.place(mode.knobs)).collect();
        let spec = Priors::theory().spec(Mean::Zero);
        let mut learn = |target: Target| {
            let left = |mode: &&Known| {
                let composed = predicted.compose_one(mode.id, factors);
                target.measured(mode).expect("kept for it").ln() - log(&composed, target)
            };
            let targets: Vec<f64> = known.iter().map(left).collect();
            Process::fit(&spec, &places, &targets, random)
        };
        Ok(Self {
            factors,
            processes: [learn(Target::Time)?, learn(Target::Power)?],
        })
    }

    /// Time, then power of some modes, by their ids and places.
    fn predict(
        &self,
        predicted: &Predicted<'_>,
        ids: &[usize],
        places: &[Place],
    ) -> [Vec<Expected>; 2] {
        let compose = |id: &usize| predicted.compose_one(*id, self.factors);
        let composed: Vec<Composed> = ids.par_iter().map(compose).collect();
        Target::ALL.map(|target| {
            let left = blended(&self.processes[target as usize], places).into_iter();
            let pairs = left.zip(&composed);
            let one = pairs.map(|(left, composed)| Expected {
                median: log(composed, target) + left.median,
                ..left
            });
            one.collect()
        })
    }
}

/// Standard deviation of ln(time) that the factors leave.
const LEFT_SPREAD: f64 = 0.03;

/// Standard deviations of the factors' logarithms. MIRAGE's 13 units differ in time by 25 % at the upper
/// decile where launches take most of it, and by 10 % at the upper quartile elsewhere (digest, section 2).
const FACTORS: [f64; 2] = [0.15, 0.1];

/// The most probable factors on launches and on the GPU's time given some measured times, by damped
/// Gauss-Newton steps on their logarithms.
fn factors(predicted: &Predicted<'_>, known: &[&Known]) -> Factors {
    const STEPS: usize = 12;
    const NUDGE: f64 = 1e-3;
    let factors = |at: [f64; 2]| Factors {
        launch: at[0].exp(),
        gpu: at[1].exp(),
    };
    let residuals = |at: [f64; 2]| -> Vec<f64> {
        let left = known.iter().map(|mode| {
            let composed = predicted.compose_one(mode.id, factors(at));
            (mode.time_us.ln() - log(&composed, Target::Time)) / LEFT_SPREAD
        });
        left.collect()
    };
    let loss = |at: [f64; 2]| -> f64 {
        let prior = at.iter().zip(FACTORS).map(|(at, sd)| (at / sd).powi(2));
        residuals(at).iter().map(|left| left * left).sum::<f64>() + prior.sum::<f64>()
    };
    let mut at = [0.0; 2];
    for _ in 0..STEPS {
        let here = residuals(at);
        let slopes = [0, 1].map(|i| {
            let mut nudged = at;
            nudged[i] += NUDGE;
            let there = residuals(nudged);
            let slope = here.iter().zip(there).map(|(a, b)| (b - a) / NUDGE);
            slope.collect::<Vec<f64>>()
        });
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let [aa, bb] = [0, 1].map(|i| dot(&slopes[i], &slopes[i]) + FACTORS[i].powi(-2));
        let ab = dot(&slopes[0], &slopes[1]);
        let [ga, gb] = [0, 1].map(|i| dot(&slopes[i], &here) + at[i] * FACTORS[i].powi(-2));
        let determinant = aa * bb - ab * ab;
        let step = [
            (bb * ga - ab * gb) / determinant,
            (aa * gb - ab * ga) / determinant,
        ];
        let halved = (0..8).map(|half| 0.5_f64.powi(half));
        let moved = halved.map(|share| [at[0] - share * step[0], at[1] - share * step[1]]);
        match moved.into_iter().find(|moved| loss(*moved) < loss(at)) {
            Some(moved) => at = moved,
            None => break,
        }
    }
    factors(at)
}

/// The predictions of a process, its samples blended.
fn blended(process: &Process, places: &[Place]) -> Vec<Expected> {
    let samples = process.predictions(places);
    let at = |at: usize| {
        let of_place = process.shares().zip(&samples);
        let of_place: Vec<_> = of_place.map(|(share, all)| (share, all[at])).collect();
        Expected::from_mixture(&of_place)
    };
    (0..places.len()).map(at).collect()
}

/// A model file of a network, and what it was made from.
#[derive(Clone, Debug)]
pub struct NetworkFit {
    /// The file.
    pub exported: Exported,
    /// The surface that it was distilled from.
    pub surface: Surface,
    /// Number of profiled modes.
    pub modes_used: usize,
}

/// How a network's model is made.
#[derive(Clone, Debug)]
pub struct NetworkOptions<'a> {
    /// The workload's name in the file.
    pub workload: &'a str,
    /// Samples of a batch.
    pub batch: u32,
    /// The modes that may be chosen.
    pub profiled: Region,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The layer widths of the exported network.
    pub shape: Shape,
}

/// Makes the model file of a network, corrected by a corpus with its grid, if there is one. `progress`
/// advances by [`PROGRESS`](wattgate_trainer::fit::EXPORT_PROGRESS).
pub fn fit(
    network: &Network<'_>,
    corpus: Option<&Corpus>,
    options: &NetworkOptions<'_>,
    progress: &ProgressBar,
) -> Result<NetworkFit, NetworkFitError> {
    let known = corpus.map_or(Vec::new(), profiled);
    let surface = match corpus {
        Some(_) => network.corrected(&known, options.seed)?,
        None => network.surface(),
    };
    let kind = match network.models.is_simulated {
        true => wattgate_runtime::format::Kind::Simulated,
        false => corpus.map(|corpus| corpus.kind).unwrap_or_default(),
    };
    let origin = Origin {
        grid: network.grid.clone(),
        profiled: options.profiled,
        kind,
        device: network.models.device.clone(),
        workload: options.workload.to_owned(),
        minibatch: Some(options.batch),
        tpc_pg_mask: corpus.and_then(|corpus| corpus.tpc_pg_mask),
        units: corpus.map_or(Units::one(None), |corpus| corpus.units.clone()),
        idle: corpus.map_or(Vec::new(), |corpus| corpus.idle.clone()),
        seed: options.seed,
        modes_used: surface.measured.len() as u16,
    };
    let exported = export(origin, &surface, options.shape, progress)?;
    Ok(NetworkFit {
        exported,
        modes_used: surface.measured.len(),
        surface,
    })
}
