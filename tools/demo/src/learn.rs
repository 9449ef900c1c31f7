//! Step "learn": the methods that the page compares, trained on the recorded board. They know no other workload.

use std::path::Path;

use indicatif::ProgressBar;
use rayon::prelude::*;
use wattgate_cli::output::OutputError;
use wattgate_lab::compare::CompareError;
use wattgate_lab::methods::{Trained, method, recipe_progress};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Model};
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::{PROGRESS, Task};
use wattgate_trainer::plan::{Amount, Sampling, Split};
use wattgate_trainer::read::{Corpus, Known};
use wattgate_trainer::score::Predictions;

use super::error::DemoError;
use super::output;
use super::round::round;
use super::story::{Learned, Mape};
use super::truth::Modes;

/// Steps of the progress bar: each contestant, the fits of the two that export a file, and PowerTrain's network.
pub fn steps() -> u64 {
    CONTESTANTS.len() as u64 + 2 * PROGRESS + recipe_progress(RANDOM_MODES)
}

/// A method with its training modes.
pub struct Contestant {
    /// The name on the page.
    pub name: &'static str,
    method: &'static str,
    pub modes: usize,
    sampling: Sampling,
}

/// The contestants. The replay takes the model of the first.
pub const CONTESTANTS: [Contestant; 5] = [
    contestant("wattgate, 50 planned modes", "wattgate", 50),
    contestant("wattgate, 15 planned modes", "wattgate", 15),
    random("PowerTrain's network, 50 modes", "powertrain-nn"),
    random("best of 50 random modes", "random"),
    random("MAXN", "maxn"),
];

/// Training modes of the methods that draw them.
const RANDOM_MODES: usize = 50;

const fn contestant(name: &'static str, method: &'static str, modes: usize) -> Contestant {
    Contestant {
        name,
        method,
        modes,
        sampling: Sampling::Planned,
    }
}

const fn random(name: &'static str, method: &'static str) -> Contestant {
    Contestant {
        sampling: Sampling::Random,
        ..contestant(name, method, RANDOM_MODES)
    }
}

impl Contestant {
    /// Name of the model file, without its ending.
    pub fn file_name(&self) -> String {
        format!("tx1-{}", self.modes)
    }
}

/// A trained contestant.
pub struct TrainedContestant {
    pub contestant: &'static Contestant,
    pub trained: Box<dyn Trained>,
    pub split: Split,
}

/// Trains all contestants on a corpus.
pub fn train(
    corpus: &Corpus,
    seed: u64,
    progress: &ProgressBar,
) -> Result<Vec<TrainedContestant>, DemoError> {
    let train = |contestant: &'static Contestant| {
        let method = method(contestant.method).expect("a method");
        let amount = Amount::Modes(contestant.modes);
        let split = Split::new(corpus, amount, contestant.sampling, Priors::shipped(), seed);
        let split = split.map_err(CompareError::from)?;
        let task = Task {
            priors: Priors::shipped(),
            corpus,
            used: &split.used,
            references: &[],
            seed,
            shape: Shape::Wide32,
            progress,
        };
        let trained = method.train(&task)?;
        progress.inc(1);
        Ok(TrainedContestant {
            contestant,
            trained,
            split,
        })
    };
    CONTESTANTS.par_iter().map(train).collect()
}

impl TrainedContestant {
    /// Writes the model file into a folder, if the method exports one.
    pub fn export(&self, folder: &Path) -> Result<(), OutputError> {
        match self.trained.model() {
            Some(model) => {
                output::write_model(folder, &self.contestant.file_name(), &model.unscored())
            }
            None => Ok(()),
        }
    }

    /// The powers in mW with the guard band of 95 %, by mode id, if the method has one.
    pub fn guarded_powers(&self) -> Option<Vec<f64>> {
        let file = self.trained.model()?.unscored();
        let model = Model::parse(&file).ok()?;
        Predictions::guarded(&model, Confidence::P95).ok()?.power
    }

    /// The model and its predictions, if the method predicts power. Scored on the modes that it was not trained on.
    pub fn learned(&self, modes: &Modes) -> Option<Learned> {
        let predictions = self.trained.predictions()?;
        let power = predictions.power.as_ref()?;
        let used = |mode: &&Known| self.split.used.iter().any(|used| used.id == mode.id);
        let held_out = modes.all().iter().filter(|mode| !used(mode));
        let errors = predictions.errors(&held_out.copied().collect::<Vec<_>>());
        let rounded = |values: &[f64], factor: f64| {
            let all = modes.all().iter();
            all.map(|mode| round(values[mode.id] * factor, 3)).collect()
        };
        let profiled = self.split.used.iter();
        Some(Learned {
            name: self.contestant.name,
            method: self.contestant.method,
            modes: self.contestant.modes,
            sampling: self.contestant.sampling,
            profiled: profiled.filter_map(|mode| modes.number(mode.id)).collect(),
            time_s: rounded(&predictions.time, 1e-6),
            power_w: rounded(power, 1e-3),
            mape: Mape {
                time: round(errors.time_mape?, 2),
                power: round(errors.power_mape?, 2),
            },
            file_bytes: self.trained.model().map(|model| model.unscored().len()),
        })
    }
}
