//! Step "reference": what the methods learn from the workload that was profiled before.

use std::path::Path;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_lab::methods::{Method, method, recipe_progress};
use wattgate_runtime::Model;
use wattgate_runtime::shape::Shape;
use wattgate_trainer::fit::PROGRESS;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::{FitOptions, fit};
use wattgate_trainer::plan::{Amount, Sampling};
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::Reference;

use super::REFERENCE;
use super::error::DemoError;
use super::output;

/// Number of the reference's modes on which PowerTrain's network is trained; its authors found 546
/// as good as all.
const RECIPE_REFERENCE: usize = 600;

/// Steps of the progress bar: those of the fit and of PowerTrain's recipe.
pub fn steps() -> u64 {
    PROGRESS + recipe_progress(RECIPE_REFERENCE)
}

/// What was learned from the reference workload.
pub struct References {
    /// The reference of wattgate: a model.
    pub ours: Reference,
    /// The reference of PowerTrain's recipe: a corpus.
    pub recipes: Reference,
    /// PowerTrain's recipe. It keeps the network that it trained on its reference.
    pub transfer: Box<dyn Method>,
}

/// Learns from the corpus of the reference workload. Writes wattgate's model into a folder.
pub fn learn(
    corpus: &Corpus,
    seed: u64,
    folder: &Path,
    progress: &ProgressBar,
) -> Result<References, DemoError> {
    let options = FitOptions {
        amount: Amount::All,
        sampling: Sampling::Random,
        references: &[],
        seed,
        shape: Shape::Wide32,
    };
    let transfer = method("powertrain-transfer").expect("a method");
    let (fitted, recipes) = rayon::join(
        || fit(corpus, &options, progress),
        || {
            let recipes = Reference::of_corpus(
                REFERENCE.to_owned(),
                thinned(corpus, seed),
                Priors::shipped(),
            )?;
            transfer.prepare(std::slice::from_ref(&recipes), progress);
            Ok::<_, DemoError>(recipes)
        },
    );
    let (bytes, recipes) = (fitted?.bytes, recipes?);
    output::write_model(folder, REFERENCE, &bytes)?;
    let model = Model::parse(&bytes)?;
    let ours = Reference::of_model(format!("{REFERENCE}.wgt"), &model, Priors::shipped())?;
    Ok(References {
        ours,
        recipes,
        transfer,
    })
}

/// A corpus of [`RECIPE_REFERENCE`] random modes.
fn thinned(corpus: &Corpus, seed: u64) -> Corpus {
    let mut thinned = corpus.clone();
    thinned.modes.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    thinned.modes.truncate(RECIPE_REFERENCE);
    thinned
}
