//! Which processes a [mixture](crate::learn::mixture) has, with their weights and priors.
//!
//! Without a reference there are two: a physical one (a roofline for time, the energy of a step for power) and
//! one with little or no physics. With references there are three:
//!
//! - the physical one;
//! - the physical one, corrected by what physics does not explain of the references;
//! - one around what the references state, whose differences are smooth or follow the references.
//!
//! The three count alike before the modes are seen. How well each predicts modes that were left out weights
//! them, so that an unsuitable reference loses its weight, and a workload whose time physics explains best keeps
//! it.

use crate::learn::gp::DECIDING;
use crate::learn::mean::{COVARIANCE_PARAMETERS, Mean};
use crate::learn::predictions::Target;
use crate::learn::priors::{Prior, Priors, Spec};

/// The priors and the weights of the processes of a mixture.
pub struct Blend<'a> {
    priors: &'a Priors,
    /// Which of the two priors up to [`DECIDING`] modes get. More modes get that of the known families, since
    /// they outweigh any prior.
    spec: fn(&Priors, Mean) -> Spec,
    /// Weight of the physical process of time and of power without a reference; the other process has the rest.
    physics: [f64; 2],
    /// Whether the fit adjusts the weights by the left-out modes without a reference (stacking), and how many
    /// modes the present weights count for. `None` keeps them: on modes spread over the board, stacking made
    /// errors larger.
    stacking: Option<f64>,
}

/// With references, the starting weights count as much as this many left-out modes: one for each process. With
/// fewer, a process that predicts the left-out modes by chance gets too large a weight, and the guard band is too
/// narrow.
const STACKING_OF_REFERENCES: f64 = 3.0;

impl<'a> Blend<'a> {
    /// For any modes.
    pub fn any_board(priors: &'a Priors) -> Self {
        Self {
            priors,
            spec: Priors::spec_of_another,
            physics: [0.6, 0.6],
            stacking: None,
        }
    }

    /// With other weights of the processes with a physical mean, of time and of power, each 0 … 1.
    pub fn weighing(self, physics: [f64; 2]) -> Self {
        Self { physics, ..self }
    }

    /// For planned modes. A limit keeps the modes in a corner, from where physics extrapolates power better
    /// than the covariance. Chosen on simulated boards, on units and workloads (lstm, vgg11, lenet) that no test
    /// has.
    pub fn planned(priors: &'a Priors) -> Self {
        Self {
            priors,
            spec: Priors::spec,
            physics: [0.5, 0.8],
            stacking: Some(5.0),
        }
    }

    /// The processes for a number of training modes, with their weights. `learned` has the hyperparameters of
    /// the references' physical processes.
    pub(super) fn processes(
        &self,
        target: Target,
        modes: usize,
        learned: Option<&[f64]>,
    ) -> Vec<(f64, Spec)> {
        let [plain, stated] = match target {
            Target::Time => [Mean::Zero, Mean::TimeOfReference],
            Target::Power => [Mean::Starved, Mean::PowerOfReference],
        };
        let spec = |mean| self.spec_of(mean, modes);
        let physical = self.physical(target, modes);
        let Some(learned) = learned else {
            let physics = self.physics[target as usize];
            return vec![(1.0 - physics, spec(plain)), (physics, physical)];
        };
        [
            self.corrected(target, modes, learned),
            physical,
            spec(stated),
        ]
        .map(|spec| (1.0 / 3.0, spec))
        .to_vec()
    }

    /// The physical process for a number of training modes, without references.
    pub(super) fn physical(&self, target: Target, modes: usize) -> Spec {
        let mean = match target {
            Target::Time => Mean::Time,
            Target::Power => Mean::Power,
        };
        self.spec_of(mean, modes)
    }

    /// The process of corrected physics, near the hyperparameters of references.
    pub(super) fn corrected(&self, target: Target, modes: usize, learned: &[f64]) -> Spec {
        let mean = match target {
            Target::Time => Mean::TimeAndUnexplained,
            Target::Power => Mean::PowerAndUnexplained,
        };
        let Spec { prior, .. } = self.spec_of(mean, modes);
        Spec {
            mean,
            prior: of_same_board(&prior, learned),
        }
    }

    fn spec_of(&self, mean: Mean, modes: usize) -> Spec {
        match modes > DECIDING {
            true => self.priors.spec(mean),
            false => (self.spec)(self.priors, mean),
        }
    }

    /// Whether the left-out modes adjust the weights, and how many modes the present weights count for.
    pub(super) fn stacking(&self, is_transfer: bool) -> Option<f64> {
        match is_transfer {
            true => Some(STACKING_OF_REFERENCES),
            false => self.stacking,
        }
    }
}

/// Factor on the prior standard deviations of the mean's coefficients, where a workload of the same board
/// has taught them.
const NARROWED_BY_SAME: f64 = 0.5;

/// A prior with the mean's coefficients of a reference of the same board. Voltages and static power
/// are the board's; what differs between workloads, the modes must show.
pub(super) fn of_same_board(prior: &Prior, reference: &[f64]) -> Prior {
    let mut near = prior.clone();
    let coefficients = near.iter_mut().zip(reference).skip(COVARIANCE_PARAMETERS);
    coefficients.for_each(|([mean, sd], learned)| {
        *mean = *learned;
        *sd *= NARROWED_BY_SAME;
    });
    near
}
