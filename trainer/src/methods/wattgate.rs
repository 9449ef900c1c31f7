//! `wattgate`: teachers of both targets, a student that learns both on the whole grid, its
//! integers as a model file, and a guard band. What is scored and what chooses is that
//! file, read by the runtime.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::{
    Factor, Front, GuardBand, Knot, Milliwatts, Model, Provenance, Query, Region, SelectError,
};

use super::{Ask, Method, MethodError, Task, Trained, fastest_within};
use crate::export::student::{self, distil};
use crate::export::wgt::{Layers, ModelFile};
use crate::learn::guard::{Unmeasured, band};
use crate::learn::plan::promise;
use crate::learn::predictions::{Errors, Predictions, Target};
use crate::learn::reference::Reference;
use crate::learn::split::Known;
use crate::learn::teacher::{Expected, Teachers, all_modes};

/// Modes over which the spread of the predictions is taken.
const SPREAD_OVER: usize = 512;

/// Random numbers of the student, apart from those of the split and the teachers.
const STUDENT_STREAM: u64 = 4;

/// Random numbers of the modes over which the spread is taken.
const GUARD_STREAM: u64 = 5;

/// The progress that the teachers make, beside the student's.
const TEACHER_PROGRESS: u64 = student::PROGRESS / 4;

/// The progress that one training makes.
pub const PROGRESS: u64 = TEACHER_PROGRESS + student::PROGRESS;

/// More points than a front of measured modes has.
const FRONT: usize = 4_096;

/// The method.
pub struct Wattgate;

impl Method for Wattgate {
    fn name(&self) -> &'static str {
        "wattgate"
    }

    fn train(&self, task: &Task<'_>) -> Result<Box<dyn Trained>, MethodError> {
        Ok(Box::new(export(task)?))
    }
}

/// A model file and how it came about.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file, with errors and held-out modes not yet known.
    pub bytes: Vec<u8>,
    /// What the file predicts.
    pub predictions: Predictions,
    /// What the student learned from.
    pub teacher: Predictions,
    /// What the student predicts before rounding.
    pub student: Predictions,
    /// ln(measured / predicted) of each mode that was used, left out in turn.
    pub left_out: [Option<Vec<f64>>; 2],
    layers: Layers,
    time_guard: GuardBand,
    power_guard: Option<GuardBand>,
    teachers: Teachers,
}

/// Trains on the modes of a task and exports.
pub fn export(task: &Task<'_>) -> Result<Exported, MethodError> {
    let grid = &task.corpus.grid;
    task.progress.set_message("teacher");
    let reference = task.reference.map(Reference::learned);
    let teachers = Teachers::fit(grid, task.used, reference, task.seed)?;
    let modes: Vec<[u32; 4]> = all_modes(grid).collect();
    let expected = teachers.predict(&modes);
    let targets: Vec<Vec<f64>> = expected
        .iter()
        .map(|expected| expected.iter().map(|expected| expected.median).collect())
        .collect();
    task.progress.inc(TEACHER_PROGRESS);

    task.progress.set_message("student");
    let mut random = ChaCha8Rng::seed_from_u64(task.seed);
    random.set_stream(STUDENT_STREAM);
    let student = distil(grid, task.shape, &targets, &mut random, task.progress);

    // The guard bands describe the file as it is read back, so they are found with a draft
    // of it.
    let unknown = || GuardBand::new([NO_MARGIN]).expect("one knot without margin");
    let mut exported = Exported {
        bytes: Vec::new(),
        predictions: Predictions::of_logs(&targets),
        teacher: Predictions::of_logs(&targets),
        student: Predictions::of_logs(&student.log_predictions),
        left_out: [None, None],
        layers: student.layers,
        time_guard: unknown(),
        power_guard: (targets.len() > 1).then(unknown),
        teachers,
    };
    let draft = exported.encode(task, 0, &Errors::default());
    exported.predictions = read_back(&Model::parse(&draft)?);
    exported.find_guard_bands(task, &modes, &expected);
    exported.bytes = exported.encode(task, 0, &Errors::default());
    Model::parse(&exported.bytes)?;
    Ok(exported)
}

/// Where there is nothing to find a guard band from yet.
const NO_MARGIN: Knot = Knot {
    per_ten_thousand: 5_000,
    q16: Factor::ONE.q16(),
};

impl Exported {
    fn find_guard_bands(
        &mut self,
        task: &Task<'_>,
        modes: &[[u32; 4]],
        expected: &[Vec<Expected>],
    ) {
        let mut unmeasured: Vec<usize> = (0..task.corpus.grid.modes() as usize)
            .filter(|&id| task.used.iter().all(|mode| mode.id != id))
            .collect();
        if unmeasured.is_empty() {
            unmeasured = task.used.iter().map(|mode| mode.id).collect();
        }
        let within = |id: usize, axis: usize| {
            let used = task.used.iter().map(|mode| mode.knobs[axis]);
            let knob = modes[id][axis];
            used.clone().min() <= Some(knob) && Some(knob) <= used.max()
        };
        let on_offer = |id: &usize| (0..4).all(|axis| within(*id, axis));
        let on_offer: Vec<usize> = unmeasured.iter().copied().filter(on_offer).collect();
        let front = self.front(&on_offer);
        // At random: ids at equal distances would see one value of an axis only.
        let mut random = ChaCha8Rng::seed_from_u64(task.seed);
        random.set_stream(GUARD_STREAM);
        unmeasured.shuffle(&mut random);
        unmeasured.truncate(SPREAD_OVER);
        for (target, expected) in Target::ALL.into_iter().zip(expected) {
            let (Some(teacher), Some(exported)) = (
                self.teachers.of(target),
                target.predicted(&self.predictions),
            ) else {
                continue;
            };
            let left_out = teacher.left_out();
            let offset = |id: usize| expected[id].median - exported[id].ln();
            let describe = |id: usize| Unmeasured {
                sd: expected[id].sd,
                offset: offset(id),
            };
            let [unmeasured, front] = [&unmeasured, &front].map(|ids| {
                ids.iter()
                    .map(|&id| describe(id))
                    .collect::<Vec<Unmeasured>>()
            });
            let guard = band(&left_out, &unmeasured, &front);
            let known = task
                .used
                .iter()
                .filter(|mode| target.measured(mode).is_some());
            let residuals = known
                .zip(&left_out)
                .map(|(mode, left)| left.residual + offset(mode.id));
            self.left_out[target as usize] = Some(residuals.collect());
            match target {
                Target::Time => self.time_guard = guard,
                Target::Power => self.power_guard = Some(guard),
            }
        }
    }

    /// Those of some modes that none of the others beats in both power and time.
    fn front(&self, modes: &[usize]) -> Vec<usize> {
        let Predictions { time, power } = &self.predictions;
        let Some(power) = power else {
            return Vec::new();
        };
        let mut sorted = modes.to_vec();
        sorted.sort_unstable_by(|&a, &b| {
            power[a]
                .total_cmp(&power[b])
                .then(time[a].total_cmp(&time[b]))
        });
        let mut fastest = f64::INFINITY;
        sorted.retain(|&mode| {
            let faster = time[mode] < fastest;
            fastest = fastest.min(time[mode]);
            faster
        });
        sorted
    }

    /// The file, with its errors on so many modes held out.
    pub fn encode(&self, task: &Task<'_>, held_out: usize, errors: &Errors) -> Vec<u8> {
        let corpus = task.corpus;
        let knobs = task.used.iter().map(|mode| mode.knobs);
        // In 0.01 %, as far as the field reaches.
        let hundredths = |mape: f64| (100.0 * mape).round() as u16;
        ModelFile {
            layers: &self.layers,
            grid: &corpus.grid,
            profiled: Region::spanning(&corpus.grid, knobs).expect("modes of this grid"),
            time_guard: &self.time_guard,
            power_guard: self.power_guard.as_ref(),
            provenance: Provenance {
                kind: corpus.kind,
                device: &corpus.device,
                workload: &corpus.workload,
                minibatch: corpus.minibatch,
                seed: task.seed,
                modes_used: task.used.len() as u16,
                modes_held_out: held_out as u16,
                time_error: errors.time_mape.map(hundredths),
                power_error: errors.power_mape.map(hundredths),
            },
        }
        .encode()
    }

    /// The guard band of a target; `None` for a power that is not known.
    pub fn guard(&self, target: Target) -> Option<&GuardBand> {
        match target {
            Target::Time => Some(&self.time_guard),
            Target::Power => self.power_guard.as_ref(),
        }
    }
}

/// What the runtime predicts from a model for every mode of the grid.
pub fn read_back(model: &Model<'_>) -> Predictions {
    let modes = model.grid().modes() as usize;
    let (mut time, mut power) = (vec![0.0; modes], vec![0.0; modes]);
    model.sweep(&Region::all(model.grid()), |mode, prediction| {
        let id = usize::from(mode.0);
        time[id] = f64::from(model.time(prediction).0);
        power[id] = model
            .power(prediction)
            .map_or(0.0, |power| f64::from(power.0));
    });
    Predictions {
        time,
        power: model.has_power().then_some(power),
    }
}

impl Trained for Exported {
    fn predictions(&self) -> Option<&Predictions> {
        Some(&self.predictions)
    }

    fn model(&self) -> Option<&Exported> {
        Some(self)
    }

    fn propose(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        if ask.tries > 1 {
            return self.most_promising(ask, tried);
        }
        if !tried.is_empty() {
            return Ok(None);
        }
        let model = Model::parse(&self.bytes)?;
        if !model.has_power() {
            return Err(MethodError::NoPower);
        }
        let query = Query {
            power_limit: Some(Milliwatts(ask.limit_mw as u32)),
            confidence: ask.confidence,
            ..Query::default()
        };
        let mut modes = Vec::new();
        model.sweep(&model.profiled(), |mode, prediction| {
            // Of the modes that were profiled, what was measured is known.
            let is = |known: &Known| known.id == usize::from(mode.0);
            if ask.offered.iter().any(is) && !ask.used.iter().any(is) {
                modes.push((mode, prediction));
            }
        });
        let front = Front::<FRONT>::of_modes(&model, modes);
        let measured = fastest_within(ask.limit_mw, ask.used.iter().copied());
        match front.select(&query) {
            Ok(choice) => {
                let faster = |mode: &Known| mode.time_us < f64::from(choice.time.0);
                let id = usize::from(choice.mode.0);
                let predicted = ask.offered.iter().find(|known| known.id == id).copied();
                Ok(measured.filter(faster).or(predicted))
            }
            Err(SelectError::Guard(why)) => Err(why.into()),
            Err(_) => Ok(measured),
        }
    }
}

impl Exported {
    /// The mode with the largest [`promise`]. What was tried before corrects the teachers.
    fn most_promising(&self, ask: &Ask<'_>, tried: &[Known]) -> Result<Option<Known>, MethodError> {
        let mut teachers = self.teachers.clone();
        for mode in tried {
            teachers = teachers.observe(mode)?;
        }
        let measured = || tried.iter().chain(ask.used);
        let open: Vec<Known> = ask
            .offered
            .iter()
            .filter(|mode| measured().all(|known| known.id != mode.id))
            .copied()
            .collect();
        let modes: Vec<[u32; 4]> = open.iter().map(|mode| mode.knobs).collect();
        let [times, powers] = &teachers.predict(&modes)[..] else {
            return Err(MethodError::NoPower);
        };
        let slowest = times
            .iter()
            .map(|time| time.median)
            .fold(f64::NEG_INFINITY, f64::max);
        let fastest = fastest_within(ask.limit_mw, measured().copied());
        let best = fastest.map_or(slowest, |mode| mode.time_us.ln());
        let promise =
            |(time, power): (&Expected, &Expected)| promise(ask.limit_mw.ln(), best, time, power);
        let promises = times.iter().zip(powers).map(promise).zip(&open);
        let best = promises.max_by(|a, b| a.0.total_cmp(&b.0));
        Ok(best.map(|(_, mode)| *mode))
    }
}
