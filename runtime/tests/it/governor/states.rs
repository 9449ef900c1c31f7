//! Each state and each transition.
//!
//! | from | to | when | test |
//! |---|---|---|---|
//! | | `Booting` | the governor is new | `a_new_governor_is_booting` |
//! | `Booting` | `Settling` | the first mode is set | `the_first_mode_settles_when_it_is_set` |
//! | `Settling` | `Tracking` | the mode was measured | `a_measured_mode_is_tracked` |
//! | `Settling` | `SteppingDown` | the mode is over the limit | `settling_over_the_limit_steps_down` |
//! | `Settling` | `ProbingUp` | the sensor works again, and a faster mode fits | `a_restored_sensor_allows_a_faster_mode` |
//! | `Tracking` | `ProbingUp` | a faster mode fits | `a_faster_mode_that_fits_is_probed` |
//! | `Tracking` | `SteppingDown` | the power is over the limit | `a_load_over_the_limit_steps_down` |
//! | `Tracking` | `SteppingDown` | the limit falls | `a_lower_limit_steps_down` |
//! | `Tracking` | `Settling` | another program changed the mode, and the governor restored it | `a_restored_mode_settles` |
//! | `ProbingUp` | `Tracking` | the mode was measured | `a_probed_mode_that_fits_is_tracked` |
//! | `ProbingUp` | `SteppingDown` | the mode is over the limit | `a_probed_mode_over_the_limit_steps_down` |
//! | `SteppingDown` | `Tracking` | the mode was measured | `a_slower_mode_is_tracked` |
//! | `SteppingDown`, `Tracking`, `Settling` | `Safe(CannotHold)` | the least mode and the trials exceed the limit | `a_least_mode_over_the_limit_is_safe` |
//! | `Safe(CannotHold)` | `Tracking` | the limit rises to the least mode, or the load falls | `a_limit_of_the_least_mode_is_tracked`, `a_lower_load_is_tracked` |
//! | `Safe(CannotHold)` | `ProbingUp` | the limit rises further | `a_much_higher_limit_is_probed` |
//! | any that has set a mode | `Safe(NoSensor)` | the sensor is dead | `a_dead_sensor_is_safe` |
//! | `Safe(NoSensor)` | `Settling` | the sensor works again | `a_restored_sensor_settles` |
//! | any | `SteppingDown` | the mode cannot be set | `a_mode_that_cannot_be_set_steps_down` |
//! | any | `SteppingDown` | the mode is excluded | `an_excluded_mode_steps_down` |
//! | any | `Safe(NothingApplies)` | no mode can be set | `failing_writes_are_safe` |
//! | any | `Safe(NothingApplies)` | all modes are excluded | `excluding_every_mode_is_safe` |
//! | `Safe(NothingApplies)` | `Settling` | a mode can be set again | `working_writes_settle` |
//! | any | `Booting` | the board slept | `a_sleep_boots` |
//! | any | `Booting` | another front is set | `a_new_front_boots` |
//! | any | `Booting` | another program controls the board | `a_board_that_was_only_watched_boots` |
//!
//! `no_other_transition_occurs` checks the table of the module's page on random plants with faults. One step may make
//! two transitions, for instance `Safe(NoSensor)` → `Settling` → `Safe(CannotHold)`; only the
//! first and the last state are visible.

use std::sync::LazyLock;

use wattgate_runtime::ModeId;
use wattgate_runtime::governor::{Cause, State};

use crate::governor::{ensure, holds_for};
use crate::plant::{
    L4T, POINTS, Plant, between, fails, front, full, idle, limit, off_by_10_percent, random, works,
};

pub const NO_SENSOR: State = State::Safe(Cause::NoSensor);
const TOO_LOW: State = State::Safe(Cause::CannotHold);
const NOTHING: State = State::Safe(Cause::NothingApplies);

const ALL: [State; 8] = [
    State::Booting,
    State::Settling,
    State::Tracking,
    State::SteppingDown,
    State::ProbingUp,
    NO_SENSOR,
    TOO_LOW,
    NOTHING,
];

/// The table of transitions in the module's page: the states before, and the state after.
static TABLE: LazyLock<Vec<(Vec<State>, State)>> = LazyLock::new(|| {
    let page = include_str!("../../../src/governor/mod.rs");
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("//! | from |"));
    let rows = rows.skip(2).take_while(|line| line.starts_with("//! |"));
    let named = |name: &str| {
        let state = ALL.iter().find(|state| format!("{state:?}") == name.trim());
        *state.unwrap_or_else(|| panic!("no state {name}"))
    };
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let from = match cells[1] {
            "any" => ALL.to_vec(),
            names => names.split(',').map(named).collect(),
        };
        (from, named(cells[2]))
    };
    rows.map(row).collect()
});

fn is_in_table(from: State, to: State) -> bool {
    TABLE
        .iter()
        .any(|(before, after)| before.contains(&from) && *after == to)
}

/// One step may make two transitions.
fn may_follow(from: State, to: State) -> bool {
    let between = [State::Tracking, State::Settling].into_iter();
    is_in_table(from, to)
        || between
            .filter(|it| is_in_table(from, *it))
            .any(|it| is_in_table(it, to))
}

/// A limit that allows most states, and a limit that no mode fits, in mW.
const LIMIT: u32 = 30_000;
const NONE_FITS: u32 = 5_000;

/// A plant that has just reached a state.
fn plant_in(state: State) -> Plant {
    let mut plant = Plant::new(LIMIT, 1_000);
    match state {
        State::Booting => plant.run(1, LIMIT),
        State::Settling | State::Tracking => {}
        State::ProbingUp => {
            plant.governor.set_limit(limit(20_000));
            plant.run(20_000, LIMIT);
            plant.governor.set_limit(limit(LIMIT));
        }
        State::SteppingDown => {
            plant.run(20_000, LIMIT);
            plant.governor.set_limit(limit(20_000));
        }
        NO_SENSOR => {
            plant.run(20_000, LIMIT);
            plant.sensor_fault = fails;
        }
        TOO_LOW => plant.governor.set_limit(limit(NONE_FITS)),
        State::Safe(_) => fail_writes(&mut plant),
    }
    plant.run_to(state, 60_000, LIMIT);
    plant.states.clear();
    plant
}

/// Another program sets a mode outside the front, and no mode can be set.
fn fail_writes(plant: &mut Plant) {
    plant.leave_front();
    plant.writes_work = Box::new(|_| false);
}

/// A plant in `Tracking` whose mode is measured.
fn tracking() -> Plant {
    let mut plant = Plant::new(LIMIT, 1_000);
    plant.run(30_000, LIMIT);
    assert_eq!(plant.state(), State::Tracking);
    plant
}

/// The next state that differs from the present one, within `most_ms`.
fn next_state(plant: &mut Plant, most_ms: u64) -> State {
    let before = plant.state();
    for _ in 0..most_ms {
        plant.run(1, LIMIT);
        if plant.state() != before {
            break;
        }
    }
    plant.state()
}

#[test]
fn every_state_is_reached() {
    for state in ALL {
        assert_eq!(plant_in(state).state(), state);
    }
}

#[test]
fn a_new_governor_is_booting() {
    let mut plant = Plant::new(LIMIT, 1_000);
    assert_eq!(plant.state(), State::Booting);
    let first = plant.governor.first();
    assert!(first.is_some());
    assert_eq!(plant.run_to_next_step(LIMIT), first);
    assert_eq!(plant.state(), State::Booting);
}

#[test]
fn the_first_mode_settles_when_it_is_set() {
    let mut plant = plant_in(State::Booting);
    assert_eq!(next_state(&mut plant, 20), State::Settling);
}

#[test]
fn a_measured_mode_is_tracked() {
    let mut plant = plant_in(State::Settling);
    assert_eq!(next_state(&mut plant, 2_000), State::Tracking);
    assert!(plant.status().measured.is_some());
}

#[test]
fn settling_over_the_limit_steps_down() {
    let mut plant = plant_in(State::Settling);
    plant.factor = 1.4;
    assert_eq!(next_state(&mut plant, 500), State::SteppingDown);
}

#[test]
fn a_faster_mode_that_fits_is_probed() {
    let mut plant = Plant::new(LIMIT, 1_000);
    plant.factor = 0.85;
    plant.run_to(State::Tracking, 10_000, LIMIT);
    let before = plant.microseconds(plant.status().mode);
    assert_eq!(next_state(&mut plant, 60_000), State::ProbingUp);
    assert!(plant.microseconds(plant.status().mode) < before);
}

#[test]
fn a_load_over_the_limit_steps_down() {
    let mut plant = tracking();
    plant.factor = 1.3;
    let before = plant.status();
    assert_eq!(next_state(&mut plant, 300), State::SteppingDown);
    let after = plant.status();
    assert!(after.predicted < before.predicted, "{before:?}, {after:?}");
    assert_eq!(after.violations, before.violations + 1);
}

#[test]
fn a_lower_limit_steps_down() {
    let mut plant = tracking();
    let before = plant.status().violations;
    plant.governor.set_limit(limit(20_000));
    plant.run_to_next_step(LIMIT);
    assert_eq!(plant.state(), State::SteppingDown);
    plant.run_to(State::Tracking, 2_000, LIMIT);
    let violations = plant.status().violations - before;
    assert!(violations <= 1, "{violations}");
}

#[test]
fn a_restored_mode_settles() {
    let mut plant = tracking();
    plant.mode = front().points()[3].mode;
    assert_eq!(next_state(&mut plant, 200), State::Settling);
    assert_eq!(plant.mode, plant.status().mode);
}

#[test]
fn a_probed_mode_that_fits_is_tracked() {
    let mut plant = plant_in(State::ProbingUp);
    assert_eq!(next_state(&mut plant, 2_000), State::Tracking);
}

#[test]
fn a_probed_mode_over_the_limit_steps_down() {
    let mut plant = plant_in(State::ProbingUp);
    plant.factor = 1.5;
    assert_eq!(next_state(&mut plant, 500), State::SteppingDown);
}

#[test]
fn a_slower_mode_is_tracked() {
    let mut plant = plant_in(State::SteppingDown);
    assert_eq!(next_state(&mut plant, 2_000), State::Tracking);
}

#[test]
fn a_least_mode_over_the_limit_is_safe() {
    for state in [State::Settling, State::Tracking, State::SteppingDown] {
        let mut plant = plant_in(state);
        plant.governor.set_limit(limit(NONE_FITS));
        plant.run_to(TOO_LOW, 20_000, LIMIT);
        plant.run(20_000, LIMIT);
        assert_eq!(plant.state(), TOO_LOW, "from {state:?}");
    }
}

#[test]
fn a_limit_of_the_least_mode_is_tracked() {
    let mut plant = plant_in(TOO_LOW);
    plant.run(10_000, LIMIT);
    // The power of the least mode with its margins.
    plant.governor.set_limit(limit(11_200));
    assert_eq!(next_state(&mut plant, 200), State::Tracking);
    assert_eq!(plant.point(), 0);
}

#[test]
fn a_much_higher_limit_is_probed() {
    let mut plant = plant_in(TOO_LOW);
    plant.run(10_000, LIMIT);
    plant.governor.set_limit(limit(LIMIT));
    assert_eq!(next_state(&mut plant, 200), State::ProbingUp);
}

#[test]
fn a_lower_load_is_tracked() {
    let mut plant = Plant::new(11_500, 1_000);
    plant.factor = 1.3;
    plant.run(20_000, 11_500);
    assert_eq!(plant.state(), TOO_LOW);
    plant.factor = 0.8;
    plant.run_to(State::Tracking, 120_000, 11_500);
}

#[test]
fn a_dead_sensor_is_safe() {
    for state in ALL
        .into_iter()
        .filter(|state| ![NO_SENSOR, NOTHING].contains(state))
    {
        let mut plant = plant_in(state);
        plant.sensor_fault = fails;
        plant.run(2_000, LIMIT);
        assert_eq!(plant.state(), NO_SENSOR, "from {state:?}");
        assert_eq!(plant.point(), 0, "from {state:?}");
    }
}

#[test]
fn a_restored_sensor_settles() {
    let mut plant = plant_in(NO_SENSOR);
    plant.run(10_000, LIMIT);
    assert_eq!(plant.state(), NO_SENSOR);
    plant.sensor_fault = works;
    assert_eq!(next_state(&mut plant, 500), State::Settling);
}

#[test]
fn a_restored_sensor_allows_a_faster_mode() {
    let mut plant = plant_in(NO_SENSOR);
    plant.run(10_000, LIMIT);
    plant.sensor_fault = works;
    plant.run_to(State::ProbingUp, 5_000, LIMIT);
}

/// The governor retries a failed write twice, and then sets another mode.
#[test]
fn a_mode_that_cannot_be_set_steps_down() {
    for state in ALL.into_iter().filter(|state| *state != NOTHING) {
        let mut plant = plant_in(state);
        let wanted = plant.status().mode;
        let is_safe = state == TOO_LOW || state == NO_SENSOR;
        plant.leave_front();
        plant.writes_work = Box::new(move |mode| mode != wanted);
        plant.run(300, LIMIT);
        let states: Vec<State> = plant.states.iter().map(|(_, state)| *state).collect();
        assert!(
            states.contains(&State::SteppingDown),
            "from {state:?}: {states:?}"
        );
        assert_ne!(plant.status().mode, wanted, "from {state:?}");
        plant.run(5_000, LIMIT);
        // In the safe states, another mode of low power replaces the least one.
        let point = plant.point();
        assert!(
            !is_safe || (1..=4).contains(&point),
            "from {state:?}: point {point}"
        );
    }
}

#[test]
fn an_excluded_mode_steps_down() {
    for state in ALL {
        let mut plant = plant_in(state);
        let wanted = plant.status().mode;
        plant.governor.exclude(wanted);
        plant.run_to_next_step(LIMIT);
        assert_eq!(plant.state(), State::SteppingDown, "from {state:?}");
        assert_ne!(plant.status().mode, wanted, "from {state:?}");
    }
}

#[test]
fn failing_writes_are_safe() {
    for state in ALL {
        let mut plant = plant_in(state);
        fail_writes(&mut plant);
        plant.run(2_000, LIMIT);
        assert_eq!(plant.state(), NOTHING, "from {state:?}");
    }
}

#[test]
fn excluding_every_mode_is_safe() {
    for state in ALL {
        let mut plant = plant_in(state);
        for point in front().points() {
            plant.governor.exclude(point.mode);
        }
        let command = plant.run_to_next_step(LIMIT);
        assert_eq!((plant.state(), command), (NOTHING, None), "from {state:?}");
    }
}

#[test]
fn working_writes_settle() {
    let mut plant = plant_in(NOTHING);
    plant.writes_work = Box::new(|_| true);
    assert_eq!(next_state(&mut plant, 1_200), State::Settling);
    plant.run_to(State::Tracking, 2_000, LIMIT);
}

#[test]
fn a_sleep_boots() {
    for state in ALL {
        let mut plant = plant_in(state);
        plant.sleep(5_100, LIMIT);
        assert_eq!(plant.state(), State::Booting, "from {state:?}");
    }
    // Afterwards the mode is the same as before.
    let mut plant = Plant::new(LIMIT, 1_000);
    plant.run(60_000, LIMIT);
    let before = plant.mode;
    plant.sleep(60_000, LIMIT);
    plant.run(2_000, LIMIT);
    assert_eq!((plant.mode, plant.state()), (before, State::Tracking));
}

#[test]
fn a_new_front_boots() {
    for state in ALL {
        let mut plant = plant_in(state);
        let set = plant.governor.set_front(front());
        assert_eq!(
            (set, plant.state()),
            (Ok(()), State::Booting),
            "from {state:?}"
        );
        if state != NOTHING && state != NO_SENSOR && state != TOO_LOW {
            plant.run(10_000, LIMIT);
            assert_eq!(plant.state(), State::Tracking, "from {state:?}");
        }
    }
}

/// Another program sets the fastest mode, which draws more than the limit, and controls the board
/// for a time below or above that of a sleep.
#[test]
fn a_board_that_was_only_watched_boots() {
    for state in ALL {
        for ms in [300, 20_000] {
            let mut plant = plant_in(state);
            (plant.sensor_fault, plant.writes_work) = (works, Box::new(|_| true));
            plant.governor.set_limit(limit(LIMIT));
            let set = plant.modes.len();
            plant.is_watched = true;
            plant.mode = front().points()[POINTS - 1].mode;
            plant.run(ms, LIMIT);
            let expected = (State::Booting, set);
            let found = (plant.state(), plant.modes.len());
            assert_eq!(found, expected, "from {state:?}, {ms} ms");
            plant.is_watched = false;
            let first = plant.run_to_next_step(LIMIT).expect("a first mode");
            let power = plant.milliwatts(first, 1.0);
            assert!(power <= f64::from(LIMIT), "from {state:?}: {power} mW");
            plant.run_to(State::Tracking, 5_000, LIMIT);
        }
    }
}

/// The workload may be another one by then: neither the prediction nor what was learned may be
/// exceeded.
#[test]
fn after_a_watch_the_first_mode_fits_by_prediction_and_by_measurement() {
    for factor in [0.7, 1.0, 1.3] {
        let mut plant = Plant::new(LIMIT, 1_000);
        plant.factor = factor;
        plant.run(300_000, LIMIT);
        plant.is_watched = true;
        plant.run(10_000, LIMIT);
        plant.is_watched = false;
        let first = plant.run_to_next_step(LIMIT).expect("a first mode");
        let power = plant.milliwatts(first, 1.0);
        let highest = power * f64::max(1.0, 1.0 / factor);
        let expected = 0.8 * f64::from(LIMIT)..f64::from(LIMIT);
        assert!(expected.contains(&highest), "×{factor}: {highest} mW");
    }
}

fn the_first_mode_draws_most(_: u64, mode: ModeId) -> f64 {
    static FIRST: LazyLock<Option<ModeId>> =
        LazyLock::new(|| Plant::new(20_000, 1_000).governor.first());
    if Some(mode) == *FIRST { 1.0 } else { 0.75 }
}

/// The governor has learned that the other modes draw less than predicted.
#[test]
fn after_a_watch_modes_that_draw_less_than_predicted_count_with_their_prediction() {
    let mut plant = Plant::new(20_000, 1_000);
    plant.error = the_first_mode_draws_most;
    plant.run(60_000, 20_000);
    plant.governor.set_limit(limit(LIMIT));
    plant.run(300_000, LIMIT);
    let predicted = plant.status().predicted.0;
    assert!(predicted > LIMIT, "{predicted} mW");
    let before = plant.mode;
    plant.sleep(6_000, LIMIT);
    plant.run(2_000, LIMIT);
    assert_eq!(plant.mode, before, "a sleep changes nothing");
    plant.is_watched = true;
    plant.run(10_000, LIMIT);
    plant.is_watched = false;
    plant.run_to_next_step(LIMIT).expect("a first mode");
    let predicted = plant.status().predicted.0;
    assert!(predicted <= LIMIT, "{predicted} mW");
}

/// Changes the load, the limit, the mode, or a fault.
fn disturb(plant: &mut Plant, seed: u64, at: u64) {
    match (12.0 * random(seed, 100 + at)) as u32 {
        0 => plant
            .governor
            .set_limit(limit(between(seed, 200 + at, 4_000.0, 50_000.0) as u32)),
        1 => plant.sensor_fault = fails,
        2 => plant.sensor_fault = works,
        3 => plant.is_frozen = !plant.is_frozen,
        4 => plant.load = Box::new(idle),
        5 => plant.load = Box::new(full),
        6 => {
            plant.load = Box::new(|now| {
                if now % 700 < 300 {
                    (1.0, None)
                } else {
                    (0.4, None)
                }
            });
        }
        7 => plant.mode = front().points()[(at % 128) as usize].mode,
        8 => fail_writes(plant),
        9 => plant.writes_work = Box::new(|_| true),
        10 => plant.factor = between(seed, 300 + at, 0.7, 1.5),
        _ => plant.sleep(6_000, LIMIT),
    }
}

#[test]
fn the_table_has_each_state_and_no_transition_from_nowhere() {
    for state in ALL {
        let leads = TABLE.iter().any(|(from, _)| from.contains(&state));
        let is_reached = TABLE.iter().any(|(_, to)| *to == state);
        assert!(leads && is_reached, "{state:?}");
    }
    assert!(!may_follow(NO_SENSOR, State::ProbingUp));
    assert!(!may_follow(State::Booting, State::ProbingUp));
}

#[test]
fn no_other_transition_occurs() {
    holds_for(1_000..1_040, |seed| {
        let mut plant = Plant::with(LIMIT, seed, L4T, |_| {});
        plant.error = off_by_10_percent;
        for at in 0..30 {
            plant.run(between(seed, 400 + at, 10.0, 4_000.0) as u64, LIMIT);
            disturb(&mut plant, seed, at);
        }
        let mut transitions = plant.states.windows(2).map(|pair| (pair[0].1, pair[1].1));
        let other = transitions.find(|(from, to)| !may_follow(*from, *to));
        ensure(other.is_none(), || format!("{other:?}"))
    });
}
