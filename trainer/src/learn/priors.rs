//! The priors of all hyperparameters.
//!
//! The shipped ones are in `trainer/priors.csv`, which `tools/priors.sh` makes with
//! [`families`](crate::learn::families). There are two standard deviations: that of the families that taught
//! the prior, and the larger one of a family that did not.

use std::sync::LazyLock;

use thiserror::Error;

use crate::learn::mean::Mean;

/// Prior mean and standard deviation of each hyperparameter, the covariance's first.
pub type Prior = Vec<[f64; 2]>;

/// A mean function and the prior of all hyperparameters of its process.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The mean function.
    pub mean: Mean,
    /// The prior.
    pub prior: Prior,
}

/// Priors for each mean function.
#[derive(Clone, Debug, PartialEq)]
pub struct Priors {
    /// Of the families that taught the priors.
    known: Vec<Prior>,
    /// Of one more family.
    another: Vec<Prior>,
}

/// A line of a priors file that is not the expected one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the priors is not `{expected},MEAN,SD,SD` with each SD above zero")]
pub struct BadPriors {
    /// The line, counted from one.
    pub line: usize,
    /// The process and the hyperparameter that the line is for.
    pub expected: String,
}

const HEADER: &str = "process,hyperparameter,mean,sd,sd of another family";

impl Priors {
    /// What theory says.
    pub fn theory() -> Self {
        let known: Vec<Prior> = Mean::ALL.into_iter().map(of_theory).collect();
        Self {
            another: known.clone(),
            known,
        }
    }

    /// The priors that the product uses.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Priors> = LazyLock::new(|| {
            Priors::parse(include_str!("../../priors.csv"))
                .expect("a test reads the shipped priors")
        });
        &SHIPPED
    }

    /// From the priors of the families and of one more, for each of [`Mean::ALL`].
    pub(super) fn new(priors: Vec<[Prior; 2]>) -> Self {
        let (known, another) = priors.into_iter().map(<(Prior, Prior)>::from).unzip();
        Self { known, another }
    }

    /// The specification of a process for a corpus that resembles those that taught the priors.
    pub fn spec(&self, mean: Mean) -> Spec {
        Spec {
            mean,
            prior: prior_for(&self.known, mean),
        }
    }

    /// The specification of a process for a corpus of which nothing is known.
    pub fn spec_of_another(&self, mean: Mean) -> Spec {
        Spec {
            mean,
            prior: prior_for(&self.another, mean),
        }
    }

    /// Reads a file that [`Priors::to_csv`] wrote.
    pub fn parse(text: &str) -> Result<Self, BadPriors> {
        let mut lines = text.lines().enumerate();
        let header = lines.next().map(|(_, line)| line);
        let bad = |line: usize, expected: String| BadPriors { line, expected };
        if header != Some(HEADER) {
            return Err(bad(1, HEADER.to_owned()));
        }
        let mut priors = Self::theory();
        let both = priors.known.iter_mut().zip(&mut priors.another);
        for (mean, (known, another)) in Mean::ALL.into_iter().zip(both) {
            let slots = known.iter_mut().zip(another);
            for ((name, _), (known, another)) in mean.theory().into_iter().zip(slots) {
                let expected = format!("{mean:?},{name}");
                let (at, line) = lines.next().unwrap_or((usize::MAX - 1, ""));
                let values = line.strip_prefix(&expected).and_then(|rest| {
                    let (mean, sds) = rest.strip_prefix(',')?.split_once(',')?;
                    let (sd, of_another) = sds.split_once(',')?;
                    let positive = |sd: &str| sd.parse().ok().filter(|sd: &f64| *sd > 0.0);
                    Some((mean.parse().ok()?, positive(sd)?, positive(of_another)?))
                });
                let (mean, sd, of_another) = values.ok_or_else(|| bad(at + 1, expected))?;
                (*known, *another) = ([mean, sd], [mean, of_another]);
            }
        }
        Ok(priors)
    }

    /// A table with one line for each hyperparameter of each process.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (mean, priors) in Mean::ALL
            .into_iter()
            .zip(self.known.iter().zip(&self.another))
        {
            let pairs = priors.0.iter().zip(priors.1);
            for ((name, _), ([centre, sd], [_, other])) in mean.theory().into_iter().zip(pairs) {
                text += &format!("{mean:?},{name},{centre:.3},{sd:.3},{other:.3}\n");
            }
        }
        text
    }
}

fn of_theory(mean: Mean) -> Prior {
    mean.theory().into_iter().map(|(_, prior)| prior).collect()
}

/// The prior of a mean function: that of theory, if no family teaches it.
fn prior_for(taught: &[Prior], mean: Mean) -> Prior {
    let alike = match mean {
        Mean::TimeAndUnexplained => Mean::Time,
        Mean::PowerAndUnexplained => Mean::Power,
        _ => mean,
    };
    let taught = taught.get(alike as usize).cloned();
    taught.unwrap_or_else(|| of_theory(mean))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_priors_are_sound() {
        let text = include_str!("../../priors.csv");
        assert_eq!(Priors::parse(text).expect("sound").to_csv(), text);
    }

    #[test]
    fn a_changed_line_is_named() {
        let text = Priors::theory().to_csv();
        for (good, bad) in [
            (",0.700,1.000", ",0.700,0"),
            (",1.000\n", ",-1\n"),
            ("ln k", "k"),
            (",1.000", ",one"),
        ] {
            let changed = text.replacen(good, bad, 1);
            let line = changed.lines().zip(text.lines()).position(|(a, b)| a != b);
            let why = Priors::parse(&changed).unwrap_err();
            assert_eq!(Some(why.line), line.map(|at| at + 1), "{why}");
        }
        let lines: Vec<&str> = text.lines().collect();
        let short = lines[..lines.len() - 1].join("\n");
        let why = Priors::parse(&short).unwrap_err();
        assert_eq!(why.expected, "Power,ln k");
        assert!(Priors::parse("").is_err());
    }
}
