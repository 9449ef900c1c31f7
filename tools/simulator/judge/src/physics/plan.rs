//! The modes that a fit sees.

use super::corpus::Mode;
use crate::random::Random;

/// Chooses modes that cover the grid: each next one is the farthest from those chosen, in logarithms of the clocks. That takes the
/// highest and the lowest mode, then ends and middle of each knob. The seed weighs the knobs, and so gives other plans. Returns indices.
pub fn planned(modes: &[Mode], count: usize, seed: u64) -> Vec<usize> {
    let mut random = Random(seed);
    let weights: [f64; 4] = std::array::from_fn(|_| random.between(0.7, 1.3));
    let ln = |mode: &Mode| mode.knobs.map(|knob| f64::from(knob.max(1)).ln());
    let places: Vec<[f64; 4]> = modes.iter().map(ln).collect();
    let ends = |at: usize| {
        let values = places.iter().map(move |place| place[at]);
        values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| {
            [low.min(value), high.max(value)]
        })
    };
    let ends: [[f64; 2]; 4] = std::array::from_fn(ends);
    let scaled = |place: &[f64; 4]| -> [f64; 4] {
        std::array::from_fn(|at| {
            let [low, high] = ends[at];
            weights[at] * (place[at] - low) / (high - low).max(1e-9)
        })
    };
    let places: Vec<[f64; 4]> = places.iter().map(scaled).collect();
    let distance =
        |a: &[f64; 4], b: &[f64; 4]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let far = |values: &[f64]| {
        let best = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
        best.map_or(0, |(at, _)| at)
    };
    let sums: Vec<f64> = places.iter().map(|place| place.iter().sum()).collect();
    let mut chosen = vec![far(&sums)];
    let mut nearest = vec![f64::INFINITY; modes.len()];
    while chosen.len() < count.min(modes.len()) {
        let last = places[chosen[chosen.len() - 1]];
        for (nearest, place) in nearest.iter_mut().zip(&places) {
            *nearest = nearest.min(distance(&last, place));
        }
        chosen.push(far(&nearest));
    }
    chosen
}
