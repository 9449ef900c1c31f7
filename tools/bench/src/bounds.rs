//! Required and measured times.
//!
//! The cases are the shipped shape and the largest one on the grid of the AGX Orin. A build for
//! x86-64-v3 has its own bounds; `tools/bench.sh` makes both builds.

use std::fmt::Write;
use std::path::Path;

use wattgate_bench::case::{Case, ORIN_AGX, SHIPPED_SHAPE};
use wattgate_runtime::shape::Shape;

use crate::measure::{Figures, measure};
use crate::peers::PeerError;

/// A required and a measured value.
pub struct Bound {
    what: &'static str,
    side: Side,
    bound: f64,
    reached: f64,
    unit_of_measure: &'static str,
}

enum Side {
    AtMost,
    AtLeast,
}
use Side::{AtLeast, AtMost};

impl Bound {
    /// Whether the measured value is within the bound.
    pub fn held(&self) -> bool {
        match self.side {
            AtMost => self.reached <= self.bound,
            AtLeast => self.reached >= self.bound,
        }
    }
}

/// Measures all bounds. Those relative to peers need `python`, an interpreter with the packages
/// tract and onnxruntime.
pub fn bounds(python: Option<&Path>, rounds: u32) -> Result<Vec<Bound>, PeerError> {
    let shipped = measure(&Case::new(ORIN_AGX, SHIPPED_SHAPE), python, rounds)?;
    let [sweep, front, cold_start, query, correction] = [
        shipped.sweep,
        shipped.front,
        shipped.cold_start,
        shipped.query,
        shipped.correction,
    ]
    .map(|figure| figure.minimum);
    let bound = |what, side, bound, reached, unit_of_measure| Bound {
        what,
        side,
        bound,
        reached,
        unit_of_measure,
    };
    let mut bounds = vec![
        bound("a query over a front", AtMost, 50.0, 1e3 * query, "ns"),
        bound(
            "a correction of the power scale",
            AtMost,
            50.0,
            1e3 * correction,
            "ns",
        ),
        bound("cold start", AtMost, 150.0, cold_start, "µs"),
    ];
    if !cfg!(target_feature = "avx2") {
        bounds.push(bound("with the front", AtMost, 200.0, front, "µs"));
        return Ok(bounds);
    }
    bounds.extend([
        bound("tables and sweep", AtMost, 50.0, sweep, "µs"),
        bound("with the front", AtMost, 100.0, front, "µs"),
    ]);
    if python.is_some() {
        let largest = measure(&Case::new(ORIN_AGX, Shape::PowerTrain), python, rounds)?;
        let tract = shipped.over(|peers| peers.tract);
        let onnxruntime = |figures: &Figures| figures.over(|peers| peers.onnxruntime);
        let faster = [
            ("sweep, faster than tract", 10.0, tract),
            (
                "sweep, faster than ONNX Runtime",
                5.0,
                onnxruntime(&shipped),
            ),
            (
                "256-128-64, sweep, faster than ONNX Runtime",
                1.0,
                onnxruntime(&largest),
            ),
        ];
        bounds.extend(faster.map(|(what, least, ratio)| {
            let ratio = ratio.expect("the peers were timed");
            bound(what, AtLeast, least, ratio, "times")
        }));
    }
    Ok(bounds)
}

/// Formats the bounds as a table.
pub fn table(bounds: &[Bound]) -> String {
    let build = if cfg!(target_feature = "avx2") {
        "x86-64-v3"
    } else {
        "plain x86-64"
    };
    let mut text = format!("{build:<44}     bound   reached\n");
    for bound in bounds {
        let side = match bound.side {
            AtMost => "≤",
            AtLeast => "≥",
        };
        let verdict = if bound.held() { "" } else { "  missed" };
        writeln!(
            text,
            "{:<44} {side} {:>7.0} {:>9.1} {}{verdict}",
            bound.what, bound.bound, bound.reached, bound.unit_of_measure
        )
        .expect("text");
    }
    text
}
