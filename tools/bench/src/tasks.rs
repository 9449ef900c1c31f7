//! The timed operations: a sweep, a front, a cold start from the file's bytes, a query.

use std::hint::black_box;

use wattgate_runtime::{Confidence, Front, Milliwatts, Model, Objective, Query, Region};

/// A Pareto front with room for that of any board.
pub type FullFront = Front<512>;

/// All objectives.
pub const OBJECTIVES: [Objective; 4] = [
    Objective::Time,
    Objective::Power,
    Objective::Energy,
    Objective::EnergyDelay,
];

/// Builds the tables and predicts every mode; returns the minima, so that no work is optimised
/// away.
pub fn sweep(model: &Model<'_>, region: &Region) -> [i32; 2] {
    let mut least = [i32::MAX; 2];
    black_box(model).sweep(region, |_, at| {
        let [time, power] = least;
        least = [time.min(at.log_time), power.min(at.log_power)];
    });
    least
}

/// Parses the bytes of a file and computes the front.
pub fn cold_start(file: &[u8]) -> FullFront {
    let model = Model::parse(black_box(file)).expect("the writer's files are valid");
    FullFront::from_model(&model, &Region::all(model.grid()), Confidence::P95)
}

/// A query with a power limit.
pub fn query(objective: Objective, limit: Milliwatts) -> Query {
    Query {
        objective,
        power_limit: Some(limit),
        ..Query::default()
    }
}

/// The mean of the lowest and the highest guarded power of a front.
pub fn middle(front: &FullFront) -> Milliwatts {
    let guarded = [Objective::Power, Objective::Time].map(|objective| {
        let query = Query {
            objective,
            ..Query::default()
        };
        let choice = front.select(&query).expect("a front with modes");
        choice.guarded_power.expect("a model with power").0
    });
    let [least, most] = guarded;
    Milliwatts(least.midpoint(most))
}

/// The limit divided by `q16` / 65,536, which corrects the power of all modes by that factor.
pub fn corrected(Milliwatts(limit): Milliwatts, q16: u64) -> Milliwatts {
    Milliwatts(((u64::from(limit) << 16) / q16) as u32)
}
