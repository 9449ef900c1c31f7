//! A model file from predictions of every mode: distils a student on the whole grid, quantises it and
//! computes the guard bands. Scores and choices come from that file, read back through the runtime.

use std::collections::{BTreeMap, BTreeSet};

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::format::{Kind, Provenance};
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::guard::{GuardBand, Knot, TimeSpread};
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::units::Factor;
use wattgate_runtime::{Confidence, FormatError, ModeId, Model, PowerMode, Region};

use super::idle::OfModes;
use super::measured::{self, KnownMode};
use super::student::distil;
use super::time_spread;
use super::wgt::{Layers, ModelFile};
use crate::corpus::modes::{Known, all_modes};
use crate::corpus::units::Units;
use crate::corpus::{Corpus, IdleReading};
use crate::learn::expected::{Expected, LeftOut, expected_errors};
use crate::learn::fleet::Spread;
use crate::learn::guard::{Candidate, Error, bands, others};
use crate::learn::predictions::{Errors, Predictions, Target};

/// ChaCha stream of the student.
const STUDENT_STREAM: u64 = 4;

/// What a model file says of its origin, and its grid.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The modes that are predicted.
    pub grid: Grid,
    /// The modes that may be chosen.
    pub profiled: Region,
    /// Measured or simulated.
    pub kind: Kind,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// Samples in a minibatch, if known.
    pub minibatch: Option<u32>,
    /// The TPCs of the GPU that were gated, one bit each, if known.
    pub tpc_pg_mask: Option<u32>,
    /// The units that were profiled.
    pub units: Units,
    /// The idle power of some modes.
    pub idle: Vec<IdleReading>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of modes that were measured for the model.
    pub modes_used: u16,
}

impl Origin {
    /// Of a corpus of which no mode is used yet.
    pub fn of(corpus: &Corpus) -> Self {
        Self {
            grid: corpus.grid.clone(),
            profiled: Region::all(&corpus.grid),
            kind: corpus.kind,
            device: corpus.device.clone(),
            workload: corpus.workload.clone(),
            minibatch: corpus.feeding.minibatch,
            tpc_pg_mask: corpus.tpc_pg_mask,
            units: corpus.units.clone(),
            idle: corpus.idle.clone(),
            seed: 0,
            modes_used: 0,
        }
    }
}

/// Predictions of every mode of a grid, and how far they are off.
#[derive(Clone, Debug)]
pub struct Surface {
    /// ln(time in µs), then ln(power in mW) if it is known: one list for each, in the order of the
    /// modes' ids.
    pub expected: Vec<Vec<Expected>>,
    /// Errors of predictions that have not seen what was measured.
    pub left_out: Vec<LeftOut>,
    /// The measured modes that `left_out` is of; empty if it is not of modes.
    pub measured: Vec<Known>,
}

/// A model file with the intermediate results of its training.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file. Its provenance states no held-out modes and no errors yet.
    pub bytes: Vec<u8>,
    /// Predictions of the file.
    pub predictions: Predictions,
    /// Predictions of the teachers.
    pub teacher: Predictions,
    /// Predictions of the student before quantisation.
    pub student: Predictions,
    /// ln(measured / predicted) of time and of power, each by a model that has not seen the measurement.
    pub left_out: [Option<Vec<f64>>; 2],
    /// Expected errors over all modes.
    pub expected_errors: Errors,
    origin: Origin,
    layers: Layers,
    least_spread: u16,
    time_spread: TimeSpread,
    measured: Vec<(ModeId, Prediction)>,
    time_guard: GuardBand,
    power_guard: Option<GuardBand>,
    /// The power in mW at which a unit's tilt changes nothing.
    reference_mw: f64,
    /// By how much other units exceed the guard bands.
    others: [Vec<Knot>; 2],
    /// What the board draws while the workload waits.
    pub idle: Idle,
    /// Idle powers above what the workload draws in the same mode: they were not used.
    pub idle_left_out: Vec<IdleReading>,
}

/// Largest standard deviation of ln power that a file states: the least range of a spread.
const MOST_SPREAD: f64 = 1.0;

/// Least standard deviation of ln power. The power of a steady workload moves by up to 1.2 % from second
/// to second and by up to 0.7 % from run to run (`jetson-platform.md`, addendum), and a dozen modes
/// measured once each cannot show it.
pub const LEAST_SPREAD: f64 = 0.014;

impl Exported {
    /// Distils a surface and encodes the model file. Advances `progress` by
    /// [`PROGRESS`](super::student::PROGRESS).
    pub fn of(
        origin: Origin,
        surface: &Surface,
        shape: Shape,
        progress: &ProgressBar,
    ) -> Result<Self, FormatError> {
        let of = |expected: &[Expected], f: fn(&Expected) -> f64| expected.iter().map(f).collect();
        let mut targets: Vec<Vec<f64>> = surface
            .expected
            .iter()
            .map(|expected| of(expected, |expected| expected.median))
            .collect();
        if let [_, power] = &surface.expected[..] {
            targets.push(of(power, |power| power.sd.clamp(LEAST_SPREAD, MOST_SPREAD)));
        }
        progress.set_message("student");
        let mut random = ChaCha8Rng::seed_from_u64(origin.seed);
        random.set_stream(STUDENT_STREAM);
        let student = distil(&origin.grid, shape, &targets, &mut random, progress);

        // The guard bands include the error of quantisation, so encode a draft without them and
        // compute them from its predictions.
        let unknown = |q16| Knot {
            per_ten_thousand: 5_000,
            q16,
        };
        let sound = "one knot without margin";
        let mut exported = Self {
            origin,
            bytes: Vec::new(),
            predictions: Predictions::of_logs(&targets),
            teacher: Predictions::of_logs(&targets),
            student: Predictions::of_logs(&student.log_predictions),
            left_out: [None, None],
            expected_errors: Errors::default(),
            layers: student.layers,
            least_spread: 0,
            time_spread: TimeSpread::default(),
            measured: Vec::new(),
            time_guard: match targets.len() {
                1 => GuardBand::new([unknown(Factor::ONE.q16())]).expect(sound),
                _ => GuardBand::of_deviations([unknown(0)]).expect(sound),
            },
            power_guard: (targets.len() > 1)
                .then(|| GuardBand::of_deviations([unknown(0)]).expect(sound)),
            reference_mw: 1.0,
            others: match targets.len() {
                1 => [vec![unknown(Factor::ONE.q16())], Vec::new()],
                _ => [(); 2].map(|()| vec![unknown(Factor::ONE.q16())]),
            },
            idle: Idle::NONE,
            idle_left_out: Vec::new(),
        };
        let draft = exported.encode(0, &Errors::default());
        let model = Model::parse(&draft)?;
        if let ([_, power], [_, logs, sds]) = (&surface.expected[..], &targets[..]) {
            let predictions = Predictions::of_model(&model);
            let student = predictions.power.iter().flatten().zip(logs);
            let errors = student.map(|(student, teacher)| (student.ln() - teacher).powi(2));
            let square = errors.sum::<f64>() / power.len() as f64;
            let least = sds.iter().copied().fold(MOST_SPREAD, f64::min);
            // The student's errors come on top of the least of the teacher's.
            let least = (least * least + square).sqrt() / f64::from(model.spread_unit());
            exported.least_spread = least.min(f64::from(i16::MAX)) as u16;
        }
        exported.find_time_spread(surface)?;
        let draft = exported.encode(0, &Errors::default());
        let network = Model::parse(&draft)?;
        let known = measured::known(surface);
        exported.measured = measured::nearest_to_front(&known, &network, &exported.layers);
        let draft = exported.encode(0, &Errors::default());
        exported.predictions = Predictions::of_model(&Model::parse(&draft)?);
        exported.find_expected_errors(surface);
        exported.find_guard_bands(surface, &known, &Predictions::of_model(&network));
        exported.bytes = exported.encode(0, &Errors::default());
        exported.find_idle()?;
        exported.bytes = exported.encode(0, &Errors::default());
        Model::parse(&exported.bytes)?;
        Ok(exported)
    }

    /// Fits the idle power of the front's modes, without readings above the bound of what the workload draws.
    fn find_idle(&mut self) -> Result<(), FormatError> {
        let model = Model::parse(&self.bytes)?;
        if !model.has_power() {
            return Ok(());
        }
        // A model of few modes may support no such bound; then all readings count.
        let guarded = Predictions::guarded(&model, Confidence::P95).ok();
        let bounds = guarded.and_then(|guarded| guarded.power);
        let is_above = |reading: &IdleReading| {
            let id = self.origin.grid.id(PowerMode::from_knobs(reading.knobs));
            let bound = bounds.as_ref().zip(id);
            bound.is_some_and(|(bounds, id)| reading.power_mw > bounds[usize::from(id.0)])
        };
        let (above, used) = self
            .origin
            .idle
            .iter()
            .copied()
            .partition::<Vec<_>, _>(is_above);
        let of_modes = OfModes::fit(&used);
        let idle = of_modes.map(|of| of.on_front(&model, &self.origin.grid));
        self.idle = idle.unwrap_or(Idle::NONE);
        self.idle_left_out = above;
        Ok(())
    }

    /// Fits the spread of the time to what the teacher expects, with the student's errors on top.
    fn find_time_spread(&mut self, surface: &Surface) -> Result<(), FormatError> {
        let draft = self.encode(0, &Errors::default());
        let model = Model::parse(&draft)?;
        let predictions = Predictions::of_model(&model);
        let Some(spreads) = predictions.spread else {
            return Ok(());
        };
        let teacher = &surface.expected[0];
        let times = predictions.time.iter().zip(teacher);
        let errors = times.map(|(time, teacher)| (time.ln() - teacher.median).powi(2));
        let square = errors.sum::<f64>() / teacher.len() as f64;
        let wanted = teacher
            .iter()
            .map(|teacher| (teacher.sd * teacher.sd + square).sqrt());
        let wanted: Vec<f64> = wanted.collect();
        self.time_spread = time_spread::fit(&spreads, &wanted, f64::from(model.spread_unit()));
        Ok(())
    }

    /// The errors that are expected of the teachers, with those of the export on top.
    fn find_expected_errors(&mut self, surface: &Surface) {
        let targets = Target::ALL.into_iter().zip(&surface.expected);
        let board = targets.map(|(target, teacher)| {
            let file = target.predicted(&self.predictions).into_iter().flatten();
            let of = |(teacher, file): (&Expected, &f64)| Expected {
                sd: teacher.sd.hypot(file.ln() - teacher.median),
                ..*teacher
            };
            teacher.iter().zip(file).map(of).collect()
        });
        let board: Vec<Vec<Expected>> = board.collect();
        self.expected_errors = expected_errors(&surface.left_out, &board);
    }

    /// Computes the guard bands. `known` is what is known of the measured modes; `network` predicts without
    /// them, as for a mode that was left out.
    fn find_guard_bands(
        &mut self,
        surface: &Surface,
        known: &BTreeMap<usize, KnownMode>,
        network: &Predictions,
    ) {
        let modes: Vec<[u32; 4]> = all_modes(&self.origin.grid).collect();
        let values = Axis::ALL.map(|axis| self.origin.profiled.values(&self.origin.grid, axis));
        let on_offer = |id: &usize| {
            let mut pairs = values.iter().zip(modes[*id]);
            pairs.all(|(values, knob)| values.contains(&knob))
        };
        let in_file = self.measured.iter().map(|(mode, _)| usize::from(mode.0));
        let in_file: BTreeSet<usize> = in_file.collect();
        let candidate = |target: Target, id: usize| {
            let teacher = surface.expected.get(target as usize)?[id];
            let measured = known.get(&id).filter(|_| in_file.contains(&id));
            let Expected { median, sd } = measured
                .and_then(|of| of[target as usize])
                .unwrap_or(teacher);
            let log = target.predicted(&self.predictions)?[id].ln();
            let (spreads, least) = match target {
                Target::Time => (&self.predictions.time_spread, 0.0),
                Target::Power => (&self.predictions.spread, LEAST_SPREAD),
            };
            Some(Candidate {
                log,
                spread: spreads.as_ref().map_or(1.0, |all| all[id]),
                error: Error {
                    sd: sd.max(least),
                    offset: median - log,
                },
            })
        };
        let offered = (0..modes.len()).filter(on_offer).filter_map(|id| {
            let time = candidate(Target::Time, id)?;
            Some((time, candidate(Target::Power, id)))
        });
        let offered: Vec<_> = offered.collect();
        let left_out = &surface.left_out;
        let (time_guard, power_guard) = bands(left_out, &offered);
        let residuals = Target::ALL.map(|target| {
            let of = |(at, left_out): (usize, &LeftOut)| {
                let offset = match surface.measured.get(at) {
                    Some(mode) => {
                        let teacher = surface.expected.get(target as usize)?[mode.id];
                        teacher.median - target.predicted(network)?[mode.id].ln()
                    }
                    None => 0.0,
                };
                Some(left_out.of(target)?.log + offset)
            };
            let residuals: Vec<f64> = left_out.iter().enumerate().filter_map(of).collect();
            (!residuals.is_empty()).then_some(residuals)
        });
        let units = &self.origin.units;
        if let Some(powers) = surface.expected.get(Target::Power as usize) {
            let mean = powers.iter().map(|power| power.median).sum::<f64>() / powers.len() as f64;
            self.reference_mw = units.reference_mw.unwrap_or(mean.exp());
        }
        let spreads = Target::ALL.map(|target| Spread::of(units, target, self.reference_mw.ln()));
        let guards = (&time_guard, power_guard.as_ref());
        self.others = others(left_out, &offered, guards, spreads.each_ref());
        (self.time_guard, self.power_guard, self.left_out) = (time_guard, power_guard, residuals);
    }

    /// Encodes the file with its errors on `held_out` modes in the provenance.
    pub fn encode(&self, held_out: usize, errors: &Errors) -> Vec<u8> {
        let origin = &self.origin;
        // The file stores units of 0.01 % in 16 bits; larger errors saturate.
        let hundredths = |mape: f64| (100.0 * mape).round() as u16;
        ModelFile {
            layers: &self.layers,
            grid: &origin.grid,
            profiled: origin.profiled,
            time_guard: &self.time_guard,
            power_guard: self.power_guard.as_ref(),
            least_spread: self.least_spread,
            time_spread: self.time_spread,
            measured: &self.measured,
            provenance: Provenance {
                kind: origin.kind,
                device: &origin.device,
                workload: &origin.workload,
                minibatch: origin.minibatch,
                seed: origin.seed,
                modes_used: origin.modes_used,
                modes_held_out: held_out as u16,
                time_error: errors.time_mape.map(hundredths),
                power_error: errors.power_mape.map(hundredths),
            },
            tpc_pg_mask: origin.tpc_pg_mask,
            units: &origin.units.listed(),
            reference_mw: self.reference_mw,
            others: &self.others,
            idle: self.idle,
        }
        .encode()
    }

    /// By how much the guarded power of another unit exceeds that of the units profiled; `None` if the model supports no such
    /// bound.
    pub fn other_units_power_ratio(&self, confidence: Confidence) -> Option<f64> {
        let [_, power] = &self.others;
        let band = GuardBand::new(power.iter().copied()).ok()?;
        Some(f64::from(band.margin(confidence).ok()?) / 65_536.0)
    }

    /// The guard band of a target; `None` for power in a model of time alone.
    pub fn guard(&self, target: Target) -> Option<&GuardBand> {
        match target {
            Target::Time => Some(&self.time_guard),
            Target::Power => self.power_guard.as_ref(),
        }
    }
}
