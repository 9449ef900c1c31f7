//! The governor on a plant: a board under a load, with a power sensor that lags.
//!
//! | file | claims |
//! |---|---|
//! | `loads` | the limit holds, and is used, for loads and for errors of the model |
//! | `limits` | limits that change, modes that must not or cannot be set |
//! | `liveness` | a dead sensor is told from a steady board |
//! | `states` | each state and each arrow between two |
//! | `budgets` | averages, budgets, energy |
//! | `inputs` | no input breaks it; what `new` refuses |

mod budgets;
mod inputs;
mod limits;
mod liveness;
mod loads;
mod states;

use std::ops::Range;

use crate::plant::{Plant, between};

/// Checks a claim for each seed. Panics with all seeds for which it is false.
fn holds_for(seeds: Range<u64>, claim: impl Fn(u64) -> Result<(), String>) {
    let number = seeds.end - seeds.start;
    let claims = seeds.filter_map(|seed| Some(format!("seed {seed}: {}", claim(seed).err()?)));
    let failures: Vec<String> = claims.collect();
    let failed = failures.len();
    assert!(
        failures.is_empty(),
        "{failed} of {number} fail:\n{}",
        failures.join("\n")
    );
}

/// Err with a reason unless a condition holds.
fn ensure(holds: bool, reason: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(reason()) }
}

/// A limit in mW that belongs to a seed. The modes of the front draw 10,868 … 47,252 mW.
fn watts(seed: u64) -> u32 {
    between(seed, 1, 16_000.0, 42_000.0) as u32
}

/// The board was over the limit by more than [`plant::TRIED`], in the mean of 10 ms without ripple, this
/// number of times at most.
fn has_at_most_events(plant: &Plant, most: usize) -> Result<(), String> {
    let events = plant.account.all_events();
    let excess = 100.0 * plant.account.excess_10;
    ensure(events.len() <= most, || {
        format!("over for {events:?} ms, by {excess:.1} % at most")
    })
}

/// The mean over 430 ms, with 6 % of ripple, was over the limit for this part of the time at most. In a few
/// minutes that is one mode that was tried and did not fit.
fn means_hold(plant: &Plant, most: f64) -> Result<(), String> {
    let (part, excess) = (plant.account.part_over(), plant.account.excess_430);
    ensure(part <= most, || {
        format!(
            "mean over 430 ms over for {:.3} % of the time, by {:.2} % at most",
            100.0 * part,
            100.0 * excess
        )
    })
}
