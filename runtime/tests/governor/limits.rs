//! Limits that change, modes that must not or cannot be set, and limits that no mode fits.

use std::sync::OnceLock;

use wattgate_runtime::{Cause, ModeId, State, UP_EVERY, UPS};

use crate::plant::{Account, Plant, SETS_IN, between, front, limit, off_by_1_5_percent, random};
use crate::{ensure, has_at_most_events, holds_for};

/// A limit that no mode of the front fits, in mW.
const NONE_FITS: u32 = 5_000;

/// The modes of the front, by their power.
fn modes() -> &'static [ModeId] {
    static MODES: OnceLock<Vec<ModeId>> = OnceLock::new();
    MODES.get_or_init(|| front().points().iter().map(|point| point.mode).collect())
}

#[test]
fn a_lower_limit_is_obeyed_in_the_next_step_and_holds_within_150_ms() {
    holds_for(1_000..1_016, |seed| {
        let first = between(seed, 2, 32_000.0, 45_000.0) as u32;
        let second = between(seed, 3, 14_000.0, 27_000.0) as u32;
        let mut plant = Plant::new(first, seed);
        plant.error = off_by_1_5_percent;
        plant.run(between(seed, 4, 5_000.0, 30_000.0) as u64, first);
        plant.governor.set_limit(limit(second));
        plant.account = Account::default();
        let command = plant.run_to_next_step(second);
        ensure(command.is_some(), || "no command in the next step".into())?;
        plant.run(20_000, second);
        has_at_most_events(&plant, 1)?;
        let longest = plant.account.longest_10;
        ensure(longest <= 150, || format!("over for {longest} ms"))
    });
}

#[test]
fn a_higher_limit_is_used_within_a_minute() {
    holds_for(1_000..1_008, |seed| {
        let first = between(seed, 2, 16_000.0, 20_000.0) as u32;
        let second = between(seed, 3, 25_000.0, 42_000.0) as u32;
        let mut plant = Plant::new(first, seed);
        plant.error = off_by_1_5_percent;
        plant.run(60_000, first);
        plant.governor.set_limit(limit(second));
        plant.account = Account::default();
        plant.run(60_000, second);
        has_at_most_events(&plant, 0)?;
        let speed = 1e3 / plant.microseconds(plant.mode);
        let used = speed / plant.oracle(f64::from(second), 1.0);
        ensure(used >= 0.9, || {
            format!("{:.1} % of the oracle's speed", 100.0 * used)
        })
    });
}

#[test]
fn limits_that_alternate_hold_each_time() {
    holds_for(1_000..1_004, |seed| {
        let mut plant = Plant::new(20_000, seed);
        plant.error = off_by_1_5_percent;
        plant.run(20_000, 20_000);
        for second in 0..60 {
            let watts = [40_000, 20_000][second % 2];
            plant.governor.set_limit(limit(watts));
            plant.account = Account::default();
            plant.run(1_000, watts);
            let longest = plant.account.longest_10;
            ensure(longest <= 150, || {
                format!("over for {longest} ms at {second} s")
            })?;
        }
        // Another limit brings a full store of ups once in UP_EVERY.
        let stores = 1 + 60_000 / UP_EVERY.0;
        let most = stores as usize * UPS as usize + stores as usize;
        let ups = plant.most_ups_a_minute();
        ensure(ups <= most, || {
            format!("{ups} ups in a minute, expected {most} at most")
        })
    });
}

#[test]
fn an_excluded_mode_is_never_chosen() {
    holds_for(1_000..1_012, |seed| {
        let watts = between(seed, 2, 16_000.0, 42_000.0) as u32;
        let part = random(seed, 3);
        let mut plant = Plant::new(watts, seed);
        // The least one stays: something has to be left.
        let is_excluded = |mode: &ModeId| random(seed, 100 + u64::from(mode.0)) < part;
        let excluded: Vec<ModeId> = modes()[1..].iter().copied().filter(is_excluded).collect();
        for mode in &excluded {
            plant.governor.exclude(*mode);
        }
        plant.run(20_000, watts);
        let broken = plant.modes.iter().find(|(_, mode)| excluded.contains(mode));
        ensure(broken.is_none(), || format!("{broken:?} was excluded"))?;
        // Now the one that it is in.
        let wanted = plant.status().mode;
        if wanted == modes()[0] {
            return Ok(());
        }
        plant.governor.exclude(wanted);
        let before = plant.modes.len();
        let next = plant.run_to_next_step(watts);
        ensure(next.is_some(), || "an excluded mode stays set".into())?;
        plant.run(20_000, watts);
        let again = plant.modes[before..]
            .iter()
            .find(|(_, mode)| *mode == wanted);
        ensure(again.is_none(), || format!("{again:?} was excluded"))?;
        has_at_most_events(&plant, 0)
    });
}

#[test]
fn with_every_mode_excluded_nothing_is_set() {
    let mut plant = Plant::new(30_000, 1_000);
    for mode in modes() {
        plant.governor.exclude(*mode);
    }
    plant.run(10_000, 30_000);
    assert!(plant.modes.is_empty());
    assert_eq!(plant.state(), State::Safe(Cause::NothingApplies));
}

#[test]
fn a_mode_that_cannot_be_set_is_left_out() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.run(10_000, 30_000);
    let is_even = |mode: ModeId| mode.0.is_multiple_of(2);
    plant.writes_work = Box::new(is_even);
    plant.governor.set_limit(limit(25_000));
    plant.run(60_000, 25_000);
    assert_eq!(plant.state(), State::Tracking);
    assert_eq!(plant.status().mode, plant.mode);
    assert!(is_even(plant.mode));
}

/// Of four modes the third is wanted.
#[test]
fn a_mode_that_could_not_be_set_is_tried_again_after_a_minute() {
    let mut plant = Plant::new(30_000, 1_000);
    let kept = [0, 86, 92, 98].map(|point| modes()[point]);
    let wanted = kept[2];
    for mode in modes().iter().filter(|mode| !kept.contains(mode)) {
        plant.governor.exclude(*mode);
    }
    plant.writes_work = Box::new(move |mode| mode != wanted);
    plant.run(50_000, 30_000);
    let asked = plant.modes.iter().filter(|(_, mode)| *mode == wanted);
    let times: Vec<u64> = asked.map(|(at, _)| *at).collect();
    assert!(
        (1..=3).contains(&times.len()) && times[times.len() - 1] < 1_000,
        "{times:?}"
    );
    assert_eq!((plant.mode, plant.state()), (kept[1], State::Tracking));
    plant.writes_work = Box::new(|_| true);
    plant.run(90_000, 30_000);
    assert_eq!((plant.mode, plant.state()), (wanted, State::Tracking));
}

/// Of the modes of a front some may be excluded, so that the next one draws twice as much.
#[test]
fn a_faster_mode_that_fits_is_used_however_far_it_is() {
    let mut plant = Plant::new(15_000, 1_000);
    let kept = [0, 20, 90, 120].map(|point| modes()[point]);
    for mode in modes().iter().filter(|mode| !kept.contains(mode)) {
        plant.governor.exclude(*mode);
    }
    plant.run(20_000, 15_000);
    assert_eq!((plant.mode, plant.state()), (kept[1], State::Tracking));
    plant.governor.set_limit(limit(35_000));
    plant.run(60_000, 35_000);
    assert_eq!((plant.mode, plant.state()), (kept[2], State::Tracking));
}

#[test]
fn another_writer_is_overruled_in_the_next_step() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::new(20_000, seed);
        plant.run(20_000, 20_000);
        let wanted = plant.status().mode;
        plant.mode = modes()[(between(seed, 2, 0.0, 127.0)) as usize];
        if plant.mode == wanted {
            return Ok(());
        }
        let command = plant.run_to_next_step(50_000);
        ensure(command == Some(wanted), || {
            format!("{command:?}, not {wanted:?}")
        })?;
        plant.run(SETS_IN, 50_000);
        let mode = plant.mode;
        ensure(mode == wanted, || format!("{mode:?}, not {wanted:?}"))?;
        plant.account = Account::default();
        plant.run(30_000, 20_000);
        has_at_most_events(&plant, 0)
    });
}

#[test]
fn nothing_can_be_set_and_then_everything_can() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.leave_front();
    plant.writes_work = Box::new(|_| false);
    plant.run(10_000, 30_000);
    assert_eq!(plant.state(), State::Safe(Cause::NothingApplies));
    let before = plant.modes.len();
    plant.run(10_000, 30_000);
    let tries = plant.modes.len() - before;
    assert!((5..=11).contains(&tries), "{tries} tries in 10 s");
    plant.writes_work = Box::new(|_| true);
    plant.run(120_000, 30_000);
    assert_eq!(plant.state(), State::Tracking);
    assert!(plant.draws_now() > 25_000.0, "{} mW", plant.draws_now());
}

#[test]
fn a_limit_below_the_least_mode_is_said_until_another_one_comes() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::new(30_000, seed);
        plant.error = off_by_1_5_percent;
        plant.run(between(seed, 2, 1.0, 30_000.0) as u64, 30_000);
        plant.governor.set_limit(limit(NONE_FITS));
        plant.run(20_000, NONE_FITS);
        let state = plant.state();
        ensure(state == State::Safe(Cause::LimitTooLow), || {
            format!("{state:?}")
        })?;
        let (drawn, least) = (plant.draws_now(), plant.milliwatts(modes()[0], 1.0));
        ensure(drawn <= 1.03 * least, || {
            format!("{drawn} mW, the least mode {least} mW")
        })?;
        plant.governor.set_limit(limit(30_000));
        plant.account = Account::default();
        plant.run(60_000, 30_000);
        let state = plant.state();
        ensure(state == State::Tracking, || format!("{state:?} under 30 W"))?;
        has_at_most_events(&plant, 0)?;
        let drawn = plant.draws_now();
        ensure(drawn > 25_000.0, || format!("{drawn} mW of 30 W"))
    });
}

/// The mode that was set, the least one, and three others.
#[test]
fn a_limit_that_is_too_low_is_counted_once_for_each_mode_tried() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.run(20_000, 30_000);
    plant.governor.set_limit(limit(NONE_FITS));
    plant.run(60_000, NONE_FITS);
    assert_eq!(plant.state(), State::Safe(Cause::LimitTooLow));
    let violations = plant.status().violations;
    assert!(violations <= 5, "{violations} violations in a minute");
}

/// A level that comes while it is remembered does not come back.
#[test]
fn a_lighter_load_is_used_within_two_minutes_after_limits_that_fell() {
    let mut plant = Plant::new(40_000, 1_000);
    for watts in [40_000, 20_000, 40_000, 20_000, 40_000, 20_000] {
        plant.governor.set_limit(limit(watts));
        plant.run(15_000, watts);
    }
    plant.load = Box::new(|_| (0.7, Some(1_000)));
    plant.run(120_000, 20_000);
    let full_work = plant.milliwatts(plant.mode, 1.0);
    assert!(full_work > 20_500.0, "{full_work} mW with full work");
}

/// What the board draws while it cannot but exceed a limit tells nothing of the length of phases.
#[test]
fn a_lighter_load_is_used_within_two_minutes_after_a_limit_that_was_too_low() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.run(30_000, 30_000);
    plant.governor.set_limit(limit(NONE_FITS));
    plant.run(30_000, NONE_FITS);
    plant.governor.set_limit(limit(30_000));
    plant.run(60_000, 30_000);
    plant.load = Box::new(|_| (0.7, Some(1_000)));
    plant.run(120_000, 30_000);
    let full_work = plant.milliwatts(plant.mode, 1.0);
    assert!(full_work > 31_000.0, "{full_work} mW with full work");
}

/// The two modes that are predicted to draw least draw 40 % more.
fn least_draw_more(_: u64, mode: ModeId) -> f64 {
    match modes()[..2].contains(&mode) {
        true => 1.4,
        false => 1.0,
    }
}

/// Under 12 W. Whether it comes from above or starts there.
#[test]
fn a_mode_that_draws_less_than_the_least_predicted_one_is_found() {
    for start in [30_000, 12_000] {
        let mut plant = Plant::new(start, 1_000);
        plant.error = least_draw_more;
        plant.run(20_000, start);
        plant.governor.set_limit(limit(12_000));
        plant.run(30_000, 12_000);
        plant.account = Account::default();
        plant.run(30_000, 12_000);
        let (state, drawn) = (plant.state(), plant.draws_now());
        assert_eq!(state, State::Tracking, "from {start} mW: {drawn} mW");
        assert!(
            plant.account.all_events().is_empty(),
            "from {start} mW: {drawn} mW"
        );
    }
}

/// Only the third mode is within 11.4 W.
#[test]
fn a_limit_is_too_low_only_after_other_modes_were_tried() {
    let mut plant = Plant::new(11_400, 1_000);
    plant.error = least_draw_more;
    plant.run(60_000, 11_400);
    let tried: Vec<ModeId> = plant.modes.iter().map(|(_, mode)| *mode).collect();
    assert!(
        tried.contains(&modes()[2]),
        "{tried:?}, {:?}",
        plant.state()
    );
}
