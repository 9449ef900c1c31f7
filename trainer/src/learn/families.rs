//! Learns the priors of the hyperparameters from families of corpora.
//!
//! A family is what was recorded alike: one network at several input sizes, or all simulated
//! boards. Its members resemble each other, so every family counts once, whatever its size.
//!
//! In the hierarchical model each family draws its hyperparameters from the prior. A step gives the prior of a
//! hyperparameter the mean and the variance of the MAP estimates of all families (empirical Bayes). Theory
//! counts as one more family; without it two or three families would make the variance too small. The priors of
//! the noise and of the clocks' levels are not learned: a disturbance says nothing of the next one, and a
//! simulated board has no levels.
//!
//! A family that taught nothing lies farther from the mean of n others than they do: its variance is
//! (n + 1) / (n − 1) times theirs, since n − 1 differences estimate the spread between families, and their mean
//! is uncertain by 1/n of the variance.

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;

use crate::corpus::Corpus;
use crate::corpus::modes::profiled;
use crate::learn::gp::{Process, SingularCovariance};
use crate::learn::mean::{LEVELS, Mean, NOISE, Place, Scales};
use crate::learn::priors::{Prior, Priors, Spec};

/// Steps. The first one uses the priors of theory.
const LEARNING_STEPS: usize = 2;

/// Random modes of each corpus.
const MODES_OF_CORPUS: usize = 100;

/// Minimum number of modes with a power.
const MIN_POWERS: usize = 10;

/// Mean and variance of each hyperparameter.
type Moments = Vec<[f64; 2]>;

/// Learns the priors from at least one family; a family has at least one corpus.
pub fn learn(families: &[Vec<Corpus>]) -> Result<Priors, SingularCovariance> {
    let theory = Priors::theory();
    let mut priors = theory.clone();
    for _ in 0..LEARNING_STEPS {
        let step = |mean| step(families, mean, &priors.spec(mean), &theory);
        let better: Result<Vec<[Prior; 2]>, SingularCovariance> =
            Mean::ALL.into_iter().map(step).collect();
        priors = Priors::new(better?);
    }
    Ok(priors)
}

fn step(
    families: &[Vec<Corpus>],
    mean: Mean,
    spec: &Spec,
    theory: &Priors,
) -> Result<[Prior; 2], SingularCovariance> {
    let theory = theory.spec(mean).prior;
    let mut all = vec![theory.iter().map(|[mean, sd]| [*mean, sd * sd]).collect()];
    for family in families {
        let members: Result<Vec<Option<Moments>>, SingularCovariance> = family
            .par_iter()
            .map(|corpus| estimate(corpus, spec))
            .collect();
        let members: Vec<Moments> = members?.into_iter().flatten().collect();
        if !members.is_empty() {
            all.push(pooled(&members));
        }
    }
    let mut priors = [1.0, of_one_more(all.len())].map(|factor| -> Prior {
        let prior_of = |[mean, variance]: [f64; 2]| [mean, (factor * variance).sqrt()];
        pooled(&all).into_iter().map(prior_of).collect()
    });
    for prior in &mut priors {
        for at in [LEVELS, NOISE] {
            prior[at] = theory[at];
        }
    }
    Ok(priors)
}

/// The variance of one more family around the mean of some, at least two, in units of theirs.
fn of_one_more(families: usize) -> f64 {
    let n = families as f64;
    (n + 1.0) / (n - 1.0)
}

/// The MAP estimate of a corpus, without a variance; `None` if the process is one of power and the corpus has
/// none. The process without physics serves both targets and is learned from times.
fn estimate(corpus: &Corpus, spec: &Spec) -> Result<Option<Moments>, SingularCovariance> {
    let scales = Scales::from_grid(&corpus.grid);
    let mut random = ChaCha8Rng::seed_from_u64(0);
    let mut known = profiled(corpus);
    known.shuffle(&mut random);
    known.truncate(MODES_OF_CORPUS);
    let logs = known.iter().map(|mode| mode.time_us.ln());
    let centre = logs.sum::<f64>() / known.len() as f64;
    let of_time = matches!(spec.mean, Mean::Zero | Mean::Time);
    let (places, targets): (Vec<Place>, Vec<f64>) = known
        .iter()
        .filter_map(|mode| {
            let (place, log_time) = (scales.place(mode.knobs), mode.time_us.ln());
            if of_time {
                return Some((place, log_time));
            }
            let log_time = log_time - centre;
            Some((Place { log_time, ..place }, mode.power_mw?.ln()))
        })
        .unzip();
    if !of_time && places.len() < MIN_POWERS {
        return Ok(None);
    }
    let process = Process::fit(spec, &places, &targets, &mut random)?;
    let exact = |value: f64| [value, 0.0];
    Ok(Some(process.map().into_iter().map(exact).collect()))
}

/// Mean and variance of an equally weighted mixture.
fn pooled(parts: &[Moments]) -> Moments {
    let n = parts.len() as f64;
    let moments = |at: usize| {
        let mean = parts.iter().map(|part| part[at][0]).sum::<f64>() / n;
        let square = |part: &Moments| part[at][1] + (part[at][0] - mean).powi(2);
        [mean, parts.iter().map(square).sum::<f64>() / n]
    };
    (0..parts[0].len()).map(moments).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_distr::{Distribution, StandardNormal};

    #[test]
    fn a_mixture_has_the_spread_of_and_between_its_parts() {
        let parts = [vec![[1.0, 0.5], [0.0, 0.0]], vec![[3.0, 1.5], [0.0, 0.0]]];
        assert_eq!(pooled(&parts), [[2.0, 2.0], [0.0, 0.0]]);
    }

    /// Families drawn from one normal distribution.
    #[test]
    fn one_more_family_lies_as_far_away_as_predicted() {
        let mut random = ChaCha8Rng::seed_from_u64(2);
        let mut draw = || -> f64 { StandardNormal.sample(&mut random) };
        let (mut predicted, mut squares) = (0.0, 0.0);
        for _ in 0..20_000 {
            let families: Vec<Moments> = (0..3).map(|_| vec![[draw(), 0.0]]).collect();
            let [mean, variance] = pooled(&families)[0];
            predicted += of_one_more(3) * variance;
            squares += (draw() - mean).powi(2);
        }
        let ratio: f64 = predicted / squares;
        assert!((0.97..1.03).contains(&ratio), "{ratio}");
    }
}
