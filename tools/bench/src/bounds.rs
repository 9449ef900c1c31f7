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
    /// The same figure of the median rounds, for a ratio.
    of_medians: Option<f64>,
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
        of_medians: None,
        unit_of_measure,
    };
    let mut bounds = vec![
        bound(
            "query, the slowest of the four objectives",
            AtMost,
            50.0,
            1e3 * query,
            "ns",
        ),
        bound(
            "query after a correction of the power scale",
            AtMost,
            50.0,
            1e3 * correction,
            "ns",
        ),
        bound(
            "cold start: verification, tables, sweep, front",
            AtMost,
            150.0,
            cold_start,
            "µs",
        ),
    ];
    if !cfg!(target_feature = "avx2") {
        bounds.push(bound("tables, sweep and front", AtMost, 200.0, front, "µs"));
        return Ok(bounds);
    }
    bounds.extend([
        bound("tables and sweep", AtMost, 50.0, sweep, "µs"),
        bound("tables, sweep and front", AtMost, 100.0, front, "µs"),
    ]);
    if python.is_some() {
        let largest = measure(&Case::new(ORIN_AGX, Shape::PowerTrain), python, rounds)?;
        let tract = shipped.over(|peers| peers.tract);
        let onnxruntime = |figures: &Figures| figures.over(|peers| peers.onnxruntime);
        let faster = [
            ("speed-up of a sweep over tract", 10.0, tract),
            (
                "speed-up of a sweep over ONNX Runtime",
                5.0,
                onnxruntime(&shipped),
            ),
            (
                "the same, layers of 256, 128 and 64",
                1.0,
                onnxruntime(&largest),
            ),
        ];
        bounds.extend(faster.map(|(what, least, ratio)| {
            let [best, median] = ratio.expect("the peers were timed");
            Bound {
                of_medians: Some(median),
                ..bound(what, AtLeast, least, best, "times")
            }
        }));
    }
    Ok(bounds)
}

/// Formats the bounds as a table.
pub fn table(bounds: &[Bound]) -> String {
    let build = if cfg!(target_feature = "avx2") {
        "x86-64-v3"
    } else {
        "any x86-64"
    };
    let mut text = "| what | build | bound | reached |\n|---|---|---|---|\n".to_owned();
    for bound in bounds {
        let side = match bound.side {
            AtMost => "≤",
            AtLeast => "≥",
        };
        let median = bound.of_medians.map_or(String::new(), |median| {
            format!(", {median:.1} of the median rounds")
        });
        let verdict = if bound.held() { "" } else { ", **missed**" };
        writeln!(
            text,
            "| {} | {build} | {side} {:.0} {unit} | {:.1} {unit}{median}{verdict} |",
            bound.what,
            bound.bound,
            bound.reached,
            unit = bound.unit_of_measure
        )
        .expect("text");
    }
    text
}
