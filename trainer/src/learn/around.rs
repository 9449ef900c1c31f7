//! What the references of a transfer state of modes.
//!
//! Several references are averaged. Each counts as its evidence says: how likely the measured modes are, given
//! what it states. So a reference of another board takes nothing from one of the same.

use std::borrow::Cow;
use std::sync::Arc;

use crate::learn::gp::SingularCovariance;
use crate::learn::mean::{Place, Scales};
use crate::learn::predictions::Target;
use wattgate_cli::planning::MOST_REFERENCES;

/// What is stated of a target.
#[derive(Clone, Debug)]
pub struct Statement<T> {
    /// ln of the target.
    pub log: T,
    /// The part of it that the reference's physics does not explain.
    pub unexplained: T,
}

/// A reference.
pub trait States {
    /// Statements on modes of a board with some scales: of time, then of power if it is known.
    fn state(&self, scales: &Scales, modes: &[[u32; 4]]) -> Vec<Statement<Vec<f64>>>;

    /// The hyperparameters of the physical process of a target.
    fn hyperparameters(&self, target: Target) -> Option<Vec<f64>>;
}

/// The references of a transfer.
#[derive(Clone, Debug)]
pub struct Around<T> {
    references: Vec<Reference<T>>,
}

#[derive(Clone, Debug)]
struct Reference<T> {
    states: Arc<T>,
    /// Its statements on the training modes, and their means.
    training: Vec<Statement<Vec<f64>>>,
    means: Vec<Statement<f64>>,
    /// Its weights for time and for power. Those of all references sum to one.
    weights: [f64; 2],
}

impl<T: States + Clone> Around<T> {
    /// References that count alike, at most [`MOST_REFERENCES`].
    pub fn new(all: &[Arc<T>], scales: &Scales, training: &[[u32; 4]]) -> Self {
        let mean = |logs: &Vec<f64>| logs.iter().sum::<f64>() / logs.len() as f64;
        let means = |statement: &Statement<Vec<f64>>| Statement {
            log: mean(&statement.log),
            unexplained: mean(&statement.unexplained),
        };
        let reference = |states: &Arc<T>| {
            let training = states.state(scales, training);
            Reference {
                states: Arc::clone(states),
                means: training.iter().map(means).collect(),
                training,
                weights: [0.0; 2],
            }
        };
        let references = all.iter().take(MOST_REFERENCES).map(reference).collect();
        let mut around = Self { references };
        for target in Target::ALL {
            around.set_weights(target, &vec![0.0; all.len()]);
        }
        around
    }

    /// Whether there are several references of a target, which have weights.
    pub fn are_weighed(&self, target: Target) -> bool {
        self.stating(target).count() > 1
    }

    /// Weights several references of a target by their evidence, which is the logarithm of the posterior with one
    /// reference alone.
    pub fn weigh(
        &mut self,
        target: Target,
        evidence: impl Fn(&Self) -> Result<f64, SingularCovariance>,
    ) -> Result<(), SingularCovariance> {
        if !self.are_weighed(target) {
            return Ok(());
        }
        let alone = |at: usize| {
            let mut alone = self.clone();
            for (other, reference) in alone.references.iter_mut().enumerate() {
                reference.weights[target as usize] = if other == at { 1.0 } else { 0.0 };
            }
            match self.references[at].states(target) {
                true => evidence(&alone),
                false => Ok(0.0),
            }
        };
        let found: Result<Vec<f64>, SingularCovariance> =
            (0..self.references.len()).map(alone).collect();
        self.set_weights(target, &found?);
        Ok(())
    }

    fn set_weights(&mut self, target: Target, evidence: &[f64]) {
        let most = self
            .references
            .iter()
            .zip(evidence)
            .filter(|(reference, _)| reference.states(target))
            .map(|(_, evidence)| *evidence)
            .fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for (reference, evidence) in self.references.iter_mut().zip(evidence) {
            let weight = match reference.states(target) {
                true => (evidence - most).exp(),
                false => 0.0,
            };
            reference.weights[target as usize] = weight;
            sum += weight;
        }
        for reference in &mut self.references {
            reference.weights[target as usize] /= sum.max(f64::MIN_POSITIVE);
        }
    }

    fn stating(&self, target: Target) -> impl Iterator<Item = &Reference<T>> {
        let references = self.references.iter();
        references.filter(move |reference| reference.states(target))
    }

    /// The places of some modes, with what the references state of them.
    pub fn places(&self, scales: &Scales, modes: &[[u32; 4]]) -> Vec<Place> {
        let state = |reference: &Reference<T>| Cow::Owned(reference.states.state(scales, modes));
        self.with(state, scales, modes)
    }

    /// As [`Self::places`], of the training modes, whose statements are known.
    pub fn places_of_training(&self, scales: &Scales, training: &[[u32; 4]]) -> Vec<Place> {
        self.with(
            |reference| Cow::Borrowed(&reference.training[..]),
            scales,
            training,
        )
    }

    fn with<'a>(
        &'a self,
        state: impl Fn(&'a Reference<T>) -> Cow<'a, [Statement<Vec<f64>>]>,
        scales: &Scales,
        modes: &[[u32; 4]],
    ) -> Vec<Place> {
        let mut places: Vec<Place> = modes.iter().map(|&knobs| scales.place(knobs)).collect();
        for (at, reference) in self.references.iter().enumerate() {
            let statements = state(reference);
            let pairs = statements.iter().zip(&reference.means).enumerate();
            for (target, (stated, mean)) in pairs {
                let weight = reference.weights[target];
                let each = stated.log.iter().zip(&stated.unexplained);
                for (place, (log, unexplained)) in places.iter_mut().zip(each) {
                    let log = log - mean.log;
                    place.stated_by_each[at][target] = weight.sqrt() * log;
                    place.stated[target] += weight * log;
                    place.unexplained[target] += weight * (unexplained - mean.unexplained);
                }
            }
        }
        places
    }

    /// The average of the hyperparameters of the references' physical processes; `None` without a reference
    /// that states the target.
    pub fn hyperparameters(&self, target: Target) -> Option<Vec<f64>> {
        let mut mean: Option<Vec<f64>> = None;
        for reference in self.stating(target) {
            let learned = reference.states.hyperparameters(target)?;
            let mean = mean.get_or_insert_with(|| vec![0.0; learned.len()]);
            for (mean, learned) in mean.iter_mut().zip(learned) {
                *mean += reference.weights[target as usize] * learned;
            }
        }
        mean
    }
}

impl<T> Reference<T> {
    fn states(&self, target: Target) -> bool {
        self.means.len() > target as usize
    }
}
