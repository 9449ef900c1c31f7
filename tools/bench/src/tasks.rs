//! What is asked of a model: a sweep, a front, a start from its bytes, a query.

use std::hint::black_box;

use wattgate_runtime::{Front, Milliwatts, Model, Objective, Query, Region};

/// The front, with room for every point of a board's.
pub type FullFront = Front<512>;

/// All of them.
pub const OBJECTIVES: [Objective; 4] = [
    Objective::Time,
    Objective::Power,
    Objective::Energy,
    Objective::EnergyDelay,
];

/// Tables, and every mode predicted and looked at.
pub fn sweep(model: &Model<'_>, region: &Region) -> [i32; 2] {
    let mut least = [i32::MAX; 2];
    black_box(model).sweep(region, |_, at| {
        let [time, power] = least;
        least = [time.min(at.log_time), power.min(at.log_power)];
    });
    least
}

/// From the bytes of a file to its front.
pub fn cold_start(file: &[u8]) -> FullFront {
    let model = Model::parse(black_box(file)).expect("the writer's files are valid");
    FullFront::of(&model, &Region::all(model.grid()))
}

/// A query with a power limit.
pub fn query(objective: Objective, limit: Milliwatts) -> Query {
    Query {
        objective,
        power_limit: Some(limit),
        ..Query::default()
    }
}

/// Half way between the least and the highest power of a front.
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

/// The limit for predictions that are to be multiplied by `q16` / 65,536.
pub fn corrected(Milliwatts(limit): Milliwatts, q16: u64) -> Milliwatts {
    Milliwatts(((u64::from(limit) << 16) / q16) as u32)
}
