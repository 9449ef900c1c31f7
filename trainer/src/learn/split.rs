//! Splits the profiled modes of a corpus into a training set and a held-out set. Rows of the
//! same mode are never in both.

use std::fmt;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use thiserror::Error;
use wattgate_cli::planning::LEAST_MODES;

use crate::corpus::Corpus;
use crate::corpus::modes::{Known, disagreeing, profiled};
use crate::learn::gp::SingularCovariance;
use crate::learn::mean::Scales;
use crate::learn::plan;
use crate::learn::priors::Priors;

/// Minimum number of training modes.
pub const MIN_MODES: usize = LEAST_MODES;

/// How the training modes are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sampling {
    /// Drawn at random.
    Random,
    /// Chosen by [`plan::sequence`], which sees each measurement before the next choice.
    Planned,
}

impl fmt::Display for Sampling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Random => "random",
            Self::Planned => "planned",
        })
    }
}

impl<'de> Deserialize<'de> for Sampling {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let all = [Self::Random, Self::Planned];
        let found = all.into_iter().find(|known| known.to_string() == name);
        found.ok_or_else(|| serde::de::Error::custom(format!("no sampling is named `{name}`")))
    }
}

impl Serialize for Sampling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The number of training modes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// A fixed number.
    Modes(usize),
    /// A share of the profiled modes, in percent.
    Percent(f64),
    /// All profiled modes.
    All,
}

/// Number of modes to train on where nobody names one: as many as PowerTrain's transfers have.
const DEFAULT_MODES: usize = 50;

impl Amount {
    /// The number of modes to train on where nobody names one, the same for all corpora. If one of them has no more than
    /// [`DEFAULT_MODES`], it is half of its modes, so that the other half is held out.
    pub fn by_default<'a>(corpora: impl IntoIterator<Item = &'a Corpus>) -> Self {
        let available = corpora.into_iter().map(|corpus| profiled(corpus).len());
        let available = available.min().unwrap_or(0);
        Self::Modes(match available > DEFAULT_MODES {
            true => DEFAULT_MODES,
            false => MIN_MODES.max(available / 2),
        })
    }

    fn resolve(self, available: usize) -> usize {
        match self {
            Self::Modes(modes) => modes,
            Self::Percent(percent) => (percent / 100.0 * available as f64) as usize,
            Self::All => available,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Modes(modes) => modes.fmt(f),
            Self::Percent(percent) => write!(f, "{percent}%"),
            Self::All => write!(f, "all"),
        }
    }
}

/// Why a corpus cannot be split.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SplitError {
    /// Fewer than [`MIN_MODES`] modes have a time. `without` is the number of modes whose runs disagree.
    #[error(
        "only {found} distinct modes have a time; at least {MIN_MODES} are needed{}",
        measure_again(*.without)
    )]
    TooFewModes { found: usize, without: usize },
    /// Some training modes have a power, but fewer than [`MIN_MODES`]. `without` counts the modes that lost their power
    /// because two runs of it disagree.
    #[error(
        "only {found} of the modes to train on have a power; at least {MIN_MODES} are needed, or none for a model of time alone{}",
        measure_again(*.without)
    )]
    TooFewPowers { found: usize, without: usize },
    /// The corpus has fewer modes than asked for, or fewer than [`MIN_MODES`] were asked for.
    #[error(
        "cannot train on {asked} modes: the corpus has {available}; ask for {MIN_MODES} to {available}"
    )]
    ModesOutOfRange { asked: usize, available: usize },
    /// The plan's Gaussian process has a singular covariance.
    #[error("{0}")]
    SingularCovariance(#[from] SingularCovariance),
    /// Every mode is a training mode, so none is left to score.
    #[error("training on all {available} modes leaves none to score; ask for fewer with --modes")]
    NothingHeldOut { available: usize },
}

/// What an error says of modes whose runs disagree.
pub(super) fn measure_again(modes: usize) -> String {
    match modes {
        0 => "; measure more".to_owned(),
        _ => format!("; the runs of {modes} more disagree: measure those again"),
    }
}

/// A training set and a held-out set.
#[derive(Clone, Debug)]
pub struct Split {
    /// Training modes, in random order or in the order of the plan.
    pub used: Vec<Known>,
    /// Modes that were neither trained on nor held out.
    pub unused: Vec<Known>,
    /// Modes to score on.
    pub held_out: Vec<Known>,
}

impl Split {
    /// Chooses `amount` training modes and holds out the others. If any mode of the corpus has a
    /// power, at least [`MIN_MODES`] training modes must have one.
    pub fn new(
        corpus: &Corpus,
        amount: Amount,
        sampling: Sampling,
        priors: &Priors,
        seed: u64,
    ) -> Result<Self, SplitError> {
        let mut split = Self::with_fixed_held_out(corpus, amount, sampling, priors, seed)?;
        split.held_out.append(&mut split.unused);
        Ok(split)
    }

    /// Like [`Split::new`], but holds out the same modes for both samplings, drawn before any mode
    /// is chosen: a half of the corpus, or what the training leaves of it. A plan otherwise takes
    /// the modes that are hard to predict out of its own score.
    pub fn with_fixed_held_out(
        corpus: &Corpus,
        amount: Amount,
        sampling: Sampling,
        priors: &Priors,
        seed: u64,
    ) -> Result<Self, SplitError> {
        let mut known = profiled(corpus);
        let available = known.len();
        if available < MIN_MODES {
            return Err(SplitError::TooFewModes {
                found: available,
                without: disagreeing(corpus, |mode| &mode.times),
            });
        }
        let asked = amount.resolve(available);
        if !(MIN_MODES..=available).contains(&asked) {
            return Err(SplitError::ModesOutOfRange { asked, available });
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        known.shuffle(&mut random);
        let held_out = known.split_off(asked.max(available.div_ceil(2)));
        if sampling == Sampling::Planned {
            let scales = Scales::from_grid(&corpus.grid);
            let chosen = plan::sequence(&scales, priors, &known, asked, &mut random)?;
            let mut rest: Vec<Option<Known>> = known.into_iter().map(Some).collect();
            known = chosen.iter().filter_map(|&at| rest[at].take()).collect();
            known.extend(rest.into_iter().flatten());
        }
        let unused = known.split_off(asked);
        let found = known.iter().filter(|mode| mode.power_mw.is_some()).count();
        if found < MIN_MODES && corpus.modes.iter().any(|mode| !mode.powers.is_empty()) {
            let without = disagreeing(corpus, |mode| &mode.powers);
            return Err(SplitError::TooFewPowers { found, without });
        }
        Ok(Self {
            used: known,
            unused,
            held_out,
        })
    }
}
