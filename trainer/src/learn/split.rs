//! Which profiled modes to train on, and which to hold out: by mode, never by row.

use std::fmt;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::corpus::Corpus;
use crate::corpus::modes::{Known, profiled};
use crate::learn::gp::SingularKernel;
use crate::learn::mean::Scales;
use crate::learn::plan;

/// The fewest modes from which a model is trained.
pub const MIN_MODES: usize = 5;

/// How the modes to train on are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sampling {
    /// Drawn at random.
    Random,
    /// As [`plan::sequence`] says, each measured before the next is chosen.
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

impl Serialize for Sampling {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A number of modes to train on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Amount {
    /// So many.
    Modes(usize),
    /// This part of those that were profiled, in percent.
    Percent(f64),
    /// All that were profiled.
    All,
}

impl Amount {
    fn of(self, available: usize) -> usize {
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

/// Why a corpus cannot be split as asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SplitError {
    /// Not enough modes with a time.
    #[error("only {found} distinct modes have a time; at least {MIN_MODES} are needed")]
    TooFewModes { found: usize },
    /// Some modes have a power, but not enough of those to train on.
    #[error(
        "only {found} of the modes to train on have a power; at least {MIN_MODES} are needed, or none for a model of time alone"
    )]
    TooFewPowers { found: usize },
    /// A number of modes that the corpus does not have.
    #[error(
        "cannot train on {asked} modes: the corpus has {available}, and at least {MIN_MODES} are needed"
    )]
    ModesOutOfRange { asked: usize, available: usize },
    /// No plan can be made.
    #[error("{0}")]
    SingularKernel(#[from] SingularKernel),
    /// Every mode is trained on, so that none is left to score.
    #[error("training on all {available} modes leaves none to score: ask for fewer with --modes")]
    NothingHeldOut { available: usize },
}

/// The profiled modes of a corpus in two parts.
#[derive(Clone, Debug)]
pub struct Split {
    /// To train on, in random order or in that of the plan.
    pub used: Vec<Known>,
    /// To score on.
    pub held_out: Vec<Known>,
}

impl Split {
    /// Chooses modes to train on. Where any mode of the corpus has a power, enough of the
    /// chosen ones must have one.
    pub fn new(
        corpus: &Corpus,
        amount: Amount,
        sampling: Sampling,
        seed: u64,
    ) -> Result<Self, SplitError> {
        let mut known = profiled(corpus);
        let available = known.len();
        if available < MIN_MODES {
            return Err(SplitError::TooFewModes { found: available });
        }
        let asked = amount.of(available);
        if !(MIN_MODES..=available).contains(&asked) {
            return Err(SplitError::ModesOutOfRange { asked, available });
        }
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        known.shuffle(&mut random);
        if sampling == Sampling::Planned {
            let scales = Scales::of(&corpus.grid);
            let chosen = plan::sequence(&scales, &known, asked, &mut random)?;
            let mut rest: Vec<Option<Known>> = known.into_iter().map(Some).collect();
            known = chosen.iter().filter_map(|&at| rest[at].take()).collect();
            known.extend(rest.into_iter().flatten());
        }
        let held_out = known.split_off(asked);
        let has_power = |modes: &[Known]| modes.iter().filter(|m| m.power_mw.is_some()).count();
        let found = has_power(&known);
        if found < MIN_MODES && found + has_power(&held_out) > 0 {
            return Err(SplitError::TooFewPowers { found });
        }
        Ok(Self {
            used: known,
            held_out,
        })
    }
}
