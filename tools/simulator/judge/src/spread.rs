//! A figure over the seeds of a row.

use serde::Serialize;

/// Which end of a figure is the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worst {
    /// Such as time over the limit.
    Highest,
    /// Such as speed.
    Lowest,
}

/// The median and the worst of all seeds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Spread {
    /// The median; of two middle values the better one.
    pub median: f64,
    /// The worst value.
    pub worst: f64,
    /// The lowest seed with the worst value.
    pub seed: u64,
}

impl Spread {
    /// The spread of values with their seeds, or none without values.
    pub fn from_values(values: impl Iterator<Item = (u64, f64)>, worst: Worst) -> Option<Self> {
        let sign = match worst {
            Worst::Highest => 1.0,
            Worst::Lowest => -1.0,
        };
        let mut values: Vec<(u64, f64)> = values.map(|(seed, it)| (seed, sign * it)).collect();
        values.sort_by(|a, b| a.1.total_cmp(&b.1));
        let (_, median) = values.get(values.len().checked_sub(1)? / 2)?;
        let (_, worst) = values.last()?;
        let (seed, _) = values.iter().find(|(_, value)| value == worst)?;
        Some(Self {
            median: sign * median,
            worst: sign * worst,
            seed: *seed,
        })
    }
}
