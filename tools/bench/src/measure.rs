//! All measurements of a case.

use std::hint::black_box;
use std::path::Path;

use wattgate_bench::case::Case;
use wattgate_bench::tasks::{FullFront, OBJECTIVES, cold_start, corrected, middle, query, sweep};
use wattgate_runtime::{Confidence, Objective, Region};

use crate::peers::{OnnxRuntime, PeerError, Tract};
use crate::turns::{Figure, contender, take_turns};

/// The times of a case, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Building the tables and predicting every mode.
    pub sweep: Figure,
    /// A sweep that also computes the front.
    pub front: Figure,
    /// Parsing the file, then a sweep with the front.
    pub cold_start: Figure,
    /// A query under a power limit in the middle of the front, with the slowest objective.
    pub query: Figure,
    /// A query for the fastest mode with a corrected power scale.
    pub correction: Figure,
    /// Inference of all modes in tract.
    pub tract: Figure,
    /// Inference of all modes in ONNX Runtime; `None` without a Python that has it.
    pub onnxruntime: Option<Figure>,
}

/// Measures a case. ONNX Runtime is timed if `python` is an interpreter with the package
/// onnxruntime.
pub fn measure(case: &Case, python: Option<&Path>, rounds: u32) -> Result<Figures, PeerError> {
    let model = case.model();
    let region = Region::all(&case.grid);
    let front = FullFront::of(&model, &region, Confidence::P95);
    let limit = middle(&front);
    let mut tract = Tract::new(case)?;
    let mut onnxruntime = python
        .map(|python| OnnxRuntime::new(case, python))
        .transpose()?;

    let mut contenders = vec![
        contender(|| sweep(&model, &region)),
        Box::new(|runs| tract.time(runs)),
    ];
    if let Some(onnxruntime) = &mut onnxruntime {
        contenders.push(Box::new(|runs| onnxruntime.time(runs)));
    }
    let of_networks = take_turns(contenders, rounds)?;

    let mut contenders = vec![
        contender(|| FullFront::of(black_box(&model), &region, Confidence::P95)),
        contender(|| cold_start(&case.file)),
        contender(|| {
            let limit = corrected(limit, black_box(68_813));
            front.select(&query(Objective::Time, limit))
        }),
    ];
    let queries = OBJECTIVES.map(|objective| query(objective, limit));
    for query in &queries {
        contenders.push(contender(|| front.select(black_box(query))));
    }
    let of_answers = take_turns(contenders, rounds)?;

    let slowest = |figures: &[Figure]| {
        let all = figures.iter().copied();
        all.max_by(|a, b| a.minimum.total_cmp(&b.minimum))
            .expect("four objectives")
    };
    Ok(Figures {
        sweep: of_networks[0],
        tract: of_networks[1],
        onnxruntime: of_networks.get(2).copied(),
        front: of_answers[0],
        cold_start: of_answers[1],
        correction: of_answers[2],
        query: slowest(&of_answers[3..]),
    })
}
