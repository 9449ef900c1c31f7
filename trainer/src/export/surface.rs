//! What is exported: predictions of every mode of a board, and where they come from.

use wattgate_runtime::Region;
use wattgate_runtime::format::Kind;
use wattgate_runtime::grid::Grid;

use crate::corpus::modes::Known;
use crate::corpus::units::Units;
use crate::corpus::{Corpus, IdleReading};
use crate::learn::expected::{Expected, LeftOut};
use crate::learn::predictions::Target;

/// Largest standard deviation of ln power that a file states: the least range of a spread.
pub const MOST_SPREAD: f64 = 1.0;

/// Least standard deviation of ln power. The power of a steady workload moves by up to 1.2 % from second
/// to second and by up to 0.7 % from run to run (`jetson-platform.md`, addendum), and a dozen modes
/// measured once each cannot show it.
pub const LEAST_SPREAD: f64 = 0.014;

/// What a model file says of its origin, and its grid.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The modes that are predicted.
    pub grid: Grid,
    /// The modes that may be chosen.
    pub profiled: Region,
    /// Measured, simulated or recorded.
    pub kind: Kind,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// Samples in a minibatch, if known.
    pub minibatch: Option<u32>,
    /// The TPCs of the GPU that were gated, one bit each, if known.
    pub tpc_pg_mask: Option<u32>,
    /// The units that were profiled.
    pub units: Units,
    /// The idle power of some modes.
    pub idle: Vec<IdleReading>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of modes that were measured for the model.
    pub modes_used: u16,
}

impl Origin {
    /// Of a corpus of which no mode is used yet.
    pub fn from_corpus(corpus: &Corpus) -> Self {
        Self {
            grid: corpus.grid.clone(),
            profiled: Region::all(&corpus.grid),
            kind: corpus.kind,
            device: corpus.device.clone(),
            workload: corpus.workload.clone(),
            minibatch: corpus.feeding.minibatch,
            tpc_pg_mask: corpus.tpc_pg_mask,
            units: corpus.units.clone(),
            idle: corpus.idle.clone(),
            seed: 0,
            modes_used: 0,
        }
    }
}

/// Predictions of every mode of a grid, and how far they are off.
#[derive(Clone, Debug)]
pub struct Surface {
    /// ln(time in µs), then ln(power in mW) if it is known: one list for each, in the order of the
    /// modes' ids.
    pub expected: Vec<Vec<Expected>>,
    /// Errors of predictions that have not seen what was measured.
    pub left_out: Vec<LeftOut>,
    /// The measured modes that `left_out` is of; empty if it is not of modes.
    pub measured: Vec<Known>,
}

impl Surface {
    /// What the student learns, by output and mode id: ln µs, then ln mW and its standard deviation if the power is known.
    pub fn targets(&self) -> Vec<Vec<f64>> {
        let column =
            |expected: &[Expected], f: fn(&Expected) -> f64| expected.iter().map(f).collect();
        let medians = self
            .expected
            .iter()
            .map(|expected| column(expected, |it| it.median));
        let mut targets: Vec<Vec<f64>> = medians.collect();
        if let Some(power) = self.expected.get(Target::Power as usize) {
            targets.push(column(power, |it| it.sd.clamp(LEAST_SPREAD, MOST_SPREAD)));
        }
        targets
    }
}
