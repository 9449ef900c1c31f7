//! Shows how well any model can predict the kernels of a unit that nobody measured. Units differ, and no
//! model knows how the next one differs.
//!
//! Measures random calls in random power modes on the hundred units of
//! `wattgate-simulator kernels --board xavier-agx --units 100 --seed 1`. Predicts each call with the same number
//! on all units, and prints the share of units whose measurement lies within a tolerance of it. There are two
//! such numbers: the median of the units, and the number with the largest share. No model exceeds the share of
//! the second one but by chance.
//!
//! Run it with
//!
//!     cargo run --release -p wattgate-simulated-board --example unit_ceiling

use rand::SeedableRng;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_kernels::Kind;
use wattgate_simulated_board::kernels::{Bench, Measurement, sample};
use wattgate_simulated_board::unit::Unit;

const UNITS: std::ops::Range<u64> = 1_000..1_100;

/// Calls of each kind.
const CALLS: usize = 200;

/// Tolerances as shares of the measurement.
const WITHIN: [f64; 4] = [0.05, 0.10, 0.15, 0.20];

/// Share of ascending `values` that lie within a tolerance of `predicted`.
fn share_within(values: &[f64], predicted: f64, tolerance: f64) -> f64 {
    let is_within = |value: &&f64| (predicted - **value).abs() <= tolerance * **value;
    values.iter().filter(is_within).count() as f64 / values.len() as f64
}

/// The largest such share of any prediction. A prediction can grow without losing a value until it reaches the
/// upper end of some value's tolerance, so the search tries these ends alone.
fn largest_share_within(values: &[f64], tolerance: f64) -> f64 {
    let ends = values
        .iter()
        .map(|value| value * (1.0 + tolerance) * (1.0 - f64::EPSILON));
    let shares = ends.map(|end| share_within(values, end, tolerance));
    shares.fold(0.0, f64::max)
}

fn main() {
    let board = Board::named("xavier-agx").expect("a board");
    let mut benches: Vec<Bench> = UNITS
        .map(|unit| Bench::new(&board, Unit::drawn(unit), unit))
        .collect();
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut sums = [[[0.0; WITHIN.len()]; 2]; 2];
    for kind in Kind::ALL {
        for _ in 0..CALLS {
            let call = sample(kind, &mut random);
            let mut clock = |axis: &[u32]| *axis.choose(&mut random).expect("a clock");
            let mode = [
                board.core_order.len() as u32,
                clock(&board.cpu_khz),
                clock(&board.gpu_khz),
                clock(&board.emc_khz),
            ];
            let measured = benches.iter_mut().map(|bench| bench.measure(&call, mode));
            let (times, powers) = measured
                .map(|Measurement { time_ms, power_mw }| (time_ms, power_mw))
                .unzip();
            for (sums, mut values) in sums.iter_mut().zip::<[Vec<f64>; 2]>([times, powers]) {
                values.sort_unstable_by(f64::total_cmp);
                let median = values[values.len() / 2];
                for (at, tolerance) in WITHIN.into_iter().enumerate() {
                    sums[0][at] += share_within(&values, median, tolerance);
                    sums[1][at] += largest_share_within(&values, tolerance);
                }
            }
        }
    }
    let calls = (CALLS * Kind::ALL.len()) as f64;
    println!("simulated, share of units within        5 %    10 %    15 %    20 %");
    for (target, sums) in ["time", "power"].iter().zip(&sums) {
        for (what, sums) in ["of the median unit", "of the best prediction"]
            .iter()
            .zip(sums)
        {
            let shares = sums.map(|sum| format!("{:>8.1}", 100.0 * sum / calls));
            println!("{:<32}{}", format!("{target}, {what}"), shares.join(""));
        }
    }
}
