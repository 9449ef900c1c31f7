//! Hyper-parameters for each kernel and target, as a search found them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wattgate_kernels::Kind;

use super::trees::Settings;
use wattgate_trainer::score::Target;

/// The result of a setting on a rung.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The kernel's name.
    pub kernel: String,
    /// `time` or `power`.
    pub target: String,
    /// Counted from zero.
    pub bracket: u32,
    /// Number of rows that trained.
    pub rows: usize,
    pub n_estimators: u32,
    pub max_depth: u32,
    pub learning_rate: f64,
    pub subsample: f64,
    pub colsample: f64,
    pub min_child_weight: f64,
    pub reg_lambda: f64,
    pub reg_alpha: f64,
    /// Root mean square of ln(measured / predicted) on units that did not train.
    pub loss: f64,
}

impl Trial {
    /// The settings.
    pub fn settings(&self) -> Settings {
        Settings {
            n_estimators: self.n_estimators,
            max_depth: self.max_depth,
            learning_rate: self.learning_rate,
            subsample: self.subsample,
            colsample: self.colsample,
            min_child_weight: self.min_child_weight,
            reg_lambda: self.reg_lambda,
            reg_alpha: self.reg_alpha,
        }
    }
}

/// Settings for each kernel and target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tuned {
    default: Settings,
    found: BTreeMap<(Kind, Target), Settings>,
}

impl Tuned {
    /// The same settings for all.
    pub fn all(default: Settings) -> Self {
        Self {
            default,
            found: BTreeMap::new(),
        }
    }

    /// The best settings of a search, of those that trained on the most rows; the default where nothing was
    /// searched.
    pub fn best(trials: &[Trial]) -> Self {
        let mut found: BTreeMap<(Kind, Target), &Trial> = BTreeMap::new();
        for trial in trials {
            let kind = Kind::named(&trial.kernel).zip(target(&trial.target));
            let Some(key) = kind else {
                continue;
            };
            let best = found.entry(key).or_insert(trial);
            let is_better =
                trial.rows > best.rows || (trial.rows == best.rows && trial.loss < best.loss);
            if is_better {
                *best = trial;
            }
        }
        let found = found
            .into_iter()
            .map(|(key, trial)| (key, trial.settings()));
        Self {
            default: Settings::default(),
            found: found.collect(),
        }
    }

    /// The settings of a kernel and target.
    pub fn for_kernel(&self, kind: Kind, target: Target) -> &Settings {
        self.found.get(&(kind, target)).unwrap_or(&self.default)
    }
}

/// The target of a name.
pub fn target(name: &str) -> Option<Target> {
    Target::ALL
        .into_iter()
        .find(|target| target.to_string() == name)
}
