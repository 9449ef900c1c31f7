//! Step "transfer": a second workload on a simulated board, since nobody has published one on the recorded board. wattgate and
//! PowerTrain's recipe learn it from few modes and from the workload that was profiled before: learning curves of both.

use indicatif::ProgressBar;
use wattgate_lab::compare::evaluate::{Comparison, evaluate};
use wattgate_lab::methods::method;
use wattgate_runtime::shape::Shape;
use wattgate_trainer::fit::{FitOptions, PROGRESS, Priors, fit};
use wattgate_trainer::plan::{Amount, Sampling};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::score::Target;

use super::WORKLOAD;
use super::error::DemoError;
use super::reference::References;
use super::story::{Curve, CurvePoint};

/// Numbers of training modes of the learning curves.
const CURVE: [Amount; 3] = [Amount::Modes(10), Amount::Modes(20), Amount::Modes(50)];

/// Number of runs per point of the learning curves.
const CURVE_RUNS: u64 = 2;

/// Number of profiled modes of the model that holds the limit.
pub const MODES: usize = 15;

/// Steps of the progress bar of [`curves`]: all runs of two methods.
pub const CURVE_STEPS: u64 = CURVE.len() as u64 * CURVE_RUNS * 2;

/// Steps of the progress bar of [`model`].
pub const MODEL_STEPS: u64 = PROGRESS;

/// The bytes of the model that wattgate learns from [`MODES`] planned modes of a corpus and from the reference.
pub fn model(
    corpus: &Corpus,
    references: &References,
    seed: u64,
    progress: &ProgressBar,
) -> Result<Vec<u8>, DemoError> {
    let options = FitOptions {
        amount: Amount::Modes(MODES),
        sampling: Sampling::Planned,
        references: std::slice::from_ref(&references.ours),
        seed,
        shape: Shape::Wide32,
    };
    Ok(fit(corpus, &options, progress)?.bytes)
}

/// Computes the learning curves on a corpus.
pub fn curves(
    corpus: &Corpus,
    references: &References,
    seed: u64,
    progress: &ProgressBar,
) -> Result<Vec<Curve>, DemoError> {
    let sides = [
        (
            "wattgate, planned",
            &method("wattgate").expect("a method"),
            &references.ours,
            Sampling::Planned,
        ),
        (
            "PowerTrain's recipe",
            // Its network of the reference is trained already.
            &references.transfer,
            &references.recipes,
            Sampling::Random,
        ),
    ];
    let mut curves = Vec::new();
    for (name, method, reference, sampling) in sides {
        let comparison = Comparison {
            corpus,
            name: WORKLOAD,
            references: std::slice::from_ref(reference),
            priors: Priors::shipped(),
            methods: std::slice::from_ref(method),
            amounts: &CURVE,
            samplings: &[sampling],
            runs: CURVE_RUNS,
            seed,
            shape: Shape::Wide32,
        };
        let rows = evaluate(&comparison, progress)?.results;
        for target in Target::ALL {
            let points = rows.iter().filter(|row| row.target == target);
            let points = points.map(|row| CurvePoint {
                modes: row.modes,
                mape: row.mape,
            });
            curves.push(Curve {
                name,
                target,
                points: points.collect(),
            });
        }
    }
    Ok(curves)
}
