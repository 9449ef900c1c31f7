//! The settings of a [mixture](crate::learn::mixture): the priors and the weights of its processes.

use crate::learn::mean::{KERNEL, Mean, NOISE};
use crate::learn::priors::{Prior, Priors, Spec};

/// The priors and the weights of the processes of a mixture, and how a reference changes the priors.
pub struct Blend<'a> {
    pub(super) priors: &'a Priors,
    /// Chooses the prior for up to [`SAMPLED`](crate::learn::gp::SAMPLED) modes. More modes outweigh any
    /// prior, so they get that of the known families.
    pub(super) spec: fn(&Priors, Mean) -> Spec,
    /// Weight of the processes with a physical mean, of time and of power; the process without has
    /// the rest.
    pub(super) physics: [f64; 2],
    /// Maximum share of a reference in that weight.
    pub(super) most_share: f64,
    /// The prior of the process that a reference informs.
    pub(super) near: fn(&Prior, &[f64]) -> Prior,
    /// Whether the fit adjusts the weights by the left-out modes (stacking), and how many modes the present
    /// weights count for. `None` keeps them: on modes spread over the board, stacking made errors larger.
    pub(super) stacking: Option<f64>,
}

impl<'a> Blend<'a> {
    /// For any modes and a reference of any board: on few modes an unsuitable reference may seem
    /// to fit.
    pub fn any_board(priors: &'a Priors) -> Self {
        Self {
            priors,
            spec: Priors::spec_of_another,
            physics: [0.6, 0.6],
            most_share: 0.25,
            near: between,
            stacking: None,
        }
    }

    /// With other weights of the processes with a physical mean, of time and of power, each 0 … 1.
    pub fn weighing(self, physics: [f64; 2]) -> Self {
        Self { physics, ..self }
    }

    /// For planned modes and a reference of the same board. A limit keeps the modes in a corner,
    /// from where physics extrapolates power better than the kernel. Chosen on simulated boards,
    /// on units and workloads (lstm, vgg11, lenet) that no test has.
    pub fn same_board(priors: &'a Priors) -> Self {
        Self {
            priors,
            spec: Priors::spec,
            physics: [0.5, 0.8],
            most_share: 1.0,
            near: of_same_board,
            stacking: Some(5.0),
        }
    }
}

/// Factor on the prior standard deviations of the mean's coefficients in a transfer, from any board
/// and from the same.
const NARROWED: f64 = 0.7;
const NARROWED_BY_SAME: f64 = 0.5;

/// A prior with means half-way between the default prior and a reference's hyperparameters.
fn between(prior: &Prior, reference: &[f64]) -> Prior {
    let pairs = prior.iter().zip(reference).enumerate();
    pairs
        .map(|(at, (&[mean, sd], learned))| match at {
            NOISE => [mean, sd],
            0..KERNEL => [f64::midpoint(mean, *learned), sd],
            _ => [f64::midpoint(mean, *learned), NARROWED * sd],
        })
        .collect()
}

/// A prior with the mean's coefficients of a reference of the same board. Voltages and static power
/// are the board's; what differs between workloads, the modes must show.
pub(super) fn of_same_board(prior: &Prior, reference: &[f64]) -> Prior {
    let mut near = prior.clone();
    let coefficients = near.iter_mut().zip(reference).skip(KERNEL);
    coefficients.for_each(|([mean, sd], learned)| {
        *mean = *learned;
        *sd *= NARROWED_BY_SAME;
    });
    near
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_pulls_coefficients_half_way_and_leaves_the_noise() {
        let prior = Priors::theory().spec(Mean::Time).prior;
        let reference: Vec<f64> = prior.iter().map(|[mean, _]| mean + 1.0).collect();
        for (at, ([mean, sd], [new, narrow])) in
            prior.iter().zip(between(&prior, &reference)).enumerate()
        {
            let moved = if at == NOISE { 0.0 } else { 0.5 };
            assert!((new - mean - moved).abs() < 1e-12);
            assert_eq!(narrow, if at < KERNEL { *sd } else { NARROWED * sd });
        }
    }
}
