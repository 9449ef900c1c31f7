//! The priors of all hyperparameters.
//!
//! The shipped ones are in `trainer/priors.csv`, which `tools/priors.sh` makes with
//! [`families`](crate::learn::families).

use std::sync::LazyLock;

use thiserror::Error;

use crate::learn::mean::Mean;

/// Prior mean and standard deviation of each hyperparameter, the kernel's first.
pub type Prior = Vec<[f64; 2]>;

/// A mean function and the prior of all hyperparameters of its process.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The mean function.
    pub mean: Mean,
    /// The prior.
    pub prior: Prior,
}

/// One prior for each mean function.
#[derive(Clone, Debug, PartialEq)]
pub struct Priors(Vec<Prior>);

/// A line of a priors file that is not the expected one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line} of the priors is not `{expected},MEAN,SD` with SD above zero")]
pub struct BadPriors {
    /// The line, counted from one.
    pub line: usize,
    /// The process and the hyperparameter that the line is for.
    pub expected: String,
}

const HEADER: &str = "process,hyperparameter,mean,sd";

impl Priors {
    /// What theory says.
    pub fn theory() -> Self {
        let prior = |mean: Mean| mean.theory().into_iter().map(|(_, prior)| prior).collect();
        Self(Mean::ALL.into_iter().map(prior).collect())
    }

    /// The priors that the product uses.
    pub fn shipped() -> &'static Self {
        static SHIPPED: LazyLock<Priors> = LazyLock::new(|| {
            Priors::parse(include_str!("../../priors.csv"))
                .expect("a test reads the shipped priors")
        });
        &SHIPPED
    }

    /// One prior for each of [`Mean::ALL`].
    pub(super) fn new(priors: [Prior; Mean::ALL.len()]) -> Self {
        Self(priors.into())
    }

    /// The specification of a process.
    pub fn spec(&self, mean: Mean) -> Spec {
        Spec {
            mean,
            prior: self.0[mean as usize].clone(),
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
        for (mean, prior) in Mean::ALL.into_iter().zip(&mut priors.0) {
            for ((name, _), slot) in mean.theory().into_iter().zip(prior) {
                let expected = format!("{mean:?},{name}");
                let (at, line) = lines.next().unwrap_or((usize::MAX - 1, ""));
                let values = line.strip_prefix(&expected).and_then(|rest| {
                    let (mean, sd) = rest.strip_prefix(',')?.split_once(',')?;
                    let sd: f64 = sd.parse().ok().filter(|sd| *sd > 0.0)?;
                    Some([mean.parse().ok()?, sd])
                });
                *slot = values.ok_or_else(|| bad(at + 1, expected))?;
            }
        }
        Ok(priors)
    }

    /// A table with one line for each hyperparameter of each process.
    pub fn to_csv(&self) -> String {
        let mut text = format!("{HEADER}\n");
        for (mean, prior) in Mean::ALL.into_iter().zip(&self.0) {
            for ((name, _), [centre, sd]) in mean.theory().into_iter().zip(prior) {
                text += &format!("{mean:?},{name},{centre:.3},{sd:.3}\n");
            }
        }
        text
    }
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
