//! Throttling: a board that runs slower than its mode teaches nothing about the mode or the load.

use wattgate_runtime::governor::{Cause, State};

use super::{ensure, has_at_most_one_event, holds_for, watts};
use crate::plant::{L4T, Plant, between, limit};

const LIMIT: u32 = 30_000;

/// A plant whose mode is measured.
fn tracking(seed: u64) -> Plant {
    let mut plant = Plant::new(LIMIT, seed);
    plant.run(30_000, LIMIT);
    assert_eq!(plant.state(), State::Tracking);
    plant
}

/// Half of the work, for five minutes. Unreported, this is a lighter load: the governor steps up.
#[test]
fn a_throttled_board_is_not_sped_up() {
    let mut plant = tracking(1_000);
    let before = (plant.status().mode, plant.status().ratio);
    plant.throttle(0.5);
    plant.run(300_000, LIMIT);
    assert_eq!(plant.status().mode, before.0);
    plant.throttle(1.0);
    plant.run(20_000, LIMIT);
    let after = plant.status();
    assert_eq!(after.mode, before.0);
    assert!(after.ratio.abs_diff(before.1) < before.1 / 50, "{after:?}");
}

/// The firmware throttles right after a change of the mode, which is then being measured, for some
/// seconds or minutes.
#[test]
fn the_limit_holds_when_the_throttling_ends() {
    holds_for(1_000..1_032, |seed| {
        let watts = watts(seed);
        let mut plant = Plant::typical(watts, seed, L4T);
        plant.run(20_000, watts);
        for round in 0..4 {
            let lower = (f64::from(watts) * between(seed, 31 + round, 0.6, 0.9)) as u32;
            plant.governor.set_limit(limit(lower));
            plant.run(20_000, watts);
            plant.governor.set_limit(limit(watts));
            plant.run(between(seed, 41 + round, 0.0, 4_000.0) as u64, watts);
            plant.throttle(between(seed, 51 + round, 0.1, 0.9));
            plant.run(between(seed, 61 + round, 2_000.0, 120_000.0) as u64, watts);
            plant.throttle(1.0);
            plant.run(20_000, watts);
        }
        has_at_most_one_event(&plant, 500)
    });
}

#[test]
fn a_throttled_board_over_the_limit_steps_down() {
    let mut plant = tracking(1_000);
    plant.throttle(0.9);
    plant.run(10_000, LIMIT);
    let before = plant.status();
    plant.factor = 1.4;
    plant.run(1_000, LIMIT);
    let after = plant.status();
    assert!(after.predicted < before.predicted, "{after:?}");
    assert!(plant.draws_now() < f64::from(LIMIT));
}

/// The clocks are those of a cap, whatever the mode, and the readings stand still.
#[test]
fn a_change_that_does_not_show_on_a_throttled_board_is_no_dead_sensor() {
    holds_for(1_000..1_016, |seed| {
        let mut plant = tracking(seed);
        plant.throttle(0.6);
        plant.run(5_000, LIMIT);
        plant.is_frozen = true;
        plant.governor.set_limit(limit(20_000));
        plant.run(5_000, LIMIT);
        ensure(plant.state() != State::Safe(Cause::NoSensor), || {
            format!("{:?}", plant.states)
        })
    });
}
