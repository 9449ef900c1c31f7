//! All measurements of a case.

use std::hint::black_box;
use std::path::Path;

use wattgate_bench::case::Case;
use wattgate_bench::tasks::{FullFront, OBJECTIVES, cold_start, corrected, middle, query, sweep};
use wattgate_runtime::{Confidence, Objective, Region};

use crate::peers::{Engine, Peer, PeerError};
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
    /// Inference of all modes in other engines; `None` without a Python that has them.
    pub peers: Option<PeerFigures>,
}

impl Figures {
    /// The time of a peer divided by that of the sweep, of the best and of the median rounds.
    pub fn over(&self, peer: fn(PeerFigures) -> Figure) -> Option<[f64; 2]> {
        let peer = peer(self.peers?);
        Some([
            peer.minimum / self.sweep.minimum,
            peer.median / self.sweep.median,
        ])
    }
}

/// The times of inference of all modes, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct PeerFigures {
    pub tract: Figure,
    pub onnxruntime: Figure,
}

/// Measures a case. The peers are timed if `python` is an interpreter with the packages tract and
/// onnxruntime.
pub fn measure(case: &Case, python: Option<&Path>, rounds: u32) -> Result<Figures, PeerError> {
    let model = case.model();
    let region = Region::all(&case.grid);
    let front = FullFront::from_model(&model, &region, Confidence::P95);
    let limit = middle(&front);
    let mut peers = Vec::new();
    if let Some(python) = python {
        for engine in [Engine::Tract, Engine::OnnxRuntime] {
            peers.push(Peer::new(case, engine, python)?);
        }
    }

    let mut contenders = vec![contender(|| sweep(&model, &region))];
    for peer in &mut peers {
        contenders.push(Box::new(|runs| peer.time(runs)));
    }
    let of_networks = take_turns(contenders, rounds)?;
    let of_peers = match of_networks[..] {
        [_, tract, onnxruntime] => Some(PeerFigures { tract, onnxruntime }),
        _ => None,
    };

    let mut contenders = vec![
        contender(|| FullFront::from_model(black_box(&model), &region, Confidence::P95)),
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
        peers: of_peers,
        front: of_answers[0],
        cold_start: of_answers[1],
        correction: of_answers[2],
        query: slowest(&of_answers[3..]),
    })
}
