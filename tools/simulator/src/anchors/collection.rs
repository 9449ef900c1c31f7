//! A collection of anchors, and computations that several anchors share.

use wattgate_board_tables::Board;

use super::anchor::{Anchor, Bound};
use super::catalogue::Catalogue;
use crate::pipeline::Clocks;
use crate::steady::Steady;
use crate::unit::Unit;
use crate::workload::Workload;

/// PowerTrain (Future Generation Computer Systems 2024).
pub const POWERTRAIN: &str = "PowerTrain";
/// Characterizing (SIGMETRICS 2023).
pub const CHARACTERIZING: &str = "Characterizing";

/// Collects anchors.
pub struct Anchors<'a> {
    pub catalogue: &'a dyn Catalogue,
    pub all: Vec<Anchor>,
}

impl Anchors<'_> {
    /// Adds an anchor that constants were chosen to match.
    pub fn add(
        &mut self,
        what: impl Into<String>,
        source: &'static str,
        unit: &'static str,
        published: f64,
        simulated: f64,
        bound: Bound,
    ) {
        self.all.push(Anchor {
            what: what.into(),
            source,
            unit,
            published,
            simulated,
            bound,
            fitted: true,
        });
    }

    /// Adds an anchor that had no part in the choice of constants.
    pub fn test(
        &mut self,
        what: impl Into<String>,
        source: &'static str,
        unit: &'static str,
        [published, simulated]: [f64; 2],
        bound: Bound,
    ) {
        self.add(what, source, unit, published, simulated, bound);
        self.all.last_mut().expect("just added").fitted = false;
    }
}

/// A workload in steady state on the nominal unit.
pub fn steady(board: &Board, workload: &Workload, knobs: [u32; 4]) -> Steady {
    Steady::compute(
        board,
        &Unit::NOMINAL,
        workload,
        &Clocks::from_knobs(board, knobs),
    )
}

/// The time of an epoch in s.
pub fn epoch_s(workload: &Workload, steady: &Steady) -> f64 {
    steady.step.period * workload.minibatches()
}
