//! Limits that change, modes that are excluded or cannot be set, and limits that no mode fits.

use std::sync::OnceLock;

use wattgate_runtime::ModeId;
use wattgate_runtime::governor::{Cause, STEP_UP_REFILL, STEPS_UP, State};

use crate::governor::{
    draws_more_than, ensure, has_at_most_events, has_at_most_one_event, holds_for, is_in, watts,
};
use crate::plant::{
    Account, L4T, Plant, SETS_IN, between, front, limit, off_by_10_percent, predicted, random,
};

/// A limit that no mode of the front fits, in mW.
const NONE_FITS: u32 = 5_000;

/// The modes of the front in order of their power.
fn modes() -> &'static [ModeId] {
    static MODES: OnceLock<Vec<ModeId>> = OnceLock::new();
    MODES.get_or_init(|| front().points().iter().map(|point| point.mode).collect())
}

/// Excludes all other modes.
fn keep_only(plant: &mut Plant, kept: &[ModeId]) {
    for mode in modes().iter().filter(|mode| !kept.contains(mode)) {
        plant.governor.exclude(*mode);
    }
}

/// Within two minutes of a load of 70 %, the board is in a mode that draws more than `milliwatts`
/// at full work.
fn uses_a_lighter_load(mut plant: Plant, watts: u32, milliwatts: f64) {
    plant.load = Box::new(|_| (0.7, Some(1_000)));
    plant.run(120_000, watts);
    let full_work = plant.milliwatts(plant.mode, 1.0);
    assert!(full_work > milliwatts, "{full_work} mW at full work");
}

#[test]
fn a_lower_limit_is_obeyed_in_the_next_step_and_holds_within_150_ms() {
    holds_for(1_000..1_016, |seed| {
        let first = between(seed, 2, 32_000.0, 45_000.0) as u32;
        let second = between(seed, 3, 14_000.0, 27_000.0) as u32;
        let mut plant = Plant::typical(first, seed, L4T);
        plant.run(between(seed, 4, 5_000.0, 30_000.0) as u64, first);
        plant.governor.set_limit(limit(second));
        plant.account = Account::default();
        let command = plant.run_to_next_step(second);
        ensure(command.is_some(), || "no command in the next step".into())?;
        plant.run(20_000, second);
        has_at_most_one_event(&plant, 150)
    });
}

#[test]
fn a_higher_limit_is_used_within_a_minute() {
    holds_for(1_000..1_008, |seed| {
        let first = between(seed, 2, 16_000.0, 20_000.0) as u32;
        let second = between(seed, 3, 25_000.0, 42_000.0) as u32;
        let mut plant = Plant::typical(first, seed, L4T);
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
        let mut plant = Plant::typical(20_000, seed, L4T);
        plant.run(20_000, 20_000);
        for second in 0..60 {
            let watts = [40_000, 20_000][second % 2];
            plant.governor.set_limit(limit(watts));
            plant.account = Account::default();
            plant.run(1_000, watts);
            let longest = plant.account.longest_10;
            ensure(longest <= 150, || {
                format!("over the limit for {longest} ms at {second} s")
            })?;
        }
        // A new limit fills the token bucket at most once in STEP_UP_REFILL, which also refills one
        // token.
        let fills = (1 + 60_000 / STEP_UP_REFILL.0) as usize;
        let most = fills * STEPS_UP as usize + fills;
        let steps_up = plant.most_steps_up_a_minute();
        ensure(steps_up <= most, || {
            format!("{steps_up} ups in a minute, expected {most} at most")
        })
    });
}

#[test]
fn an_excluded_mode_is_never_chosen() {
    holds_for(1_000..1_012, |seed| {
        let watts = between(seed, 2, 16_000.0, 42_000.0) as u32;
        let part = random(seed, 3);
        let mut plant = Plant::new(watts, seed);
        // The mode of least power stays choosable.
        let is_excluded = |mode: &ModeId| random(seed, 100 + u64::from(mode.0)) < part;
        let excluded: Vec<ModeId> = modes()[1..].iter().copied().filter(is_excluded).collect();
        for mode in &excluded {
            plant.governor.exclude(*mode);
        }
        plant.run(20_000, watts);
        let broken = plant.modes.iter().find(|(_, mode)| excluded.contains(mode));
        ensure(broken.is_none(), || format!("{broken:?} was excluded"))?;
        // Exclude the present mode too.
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
    keep_only(&mut plant, &[]);
    plant.run(10_000, 30_000);
    assert!(plant.modes.is_empty());
    assert_eq!(plant.state(), State::Safe(Cause::NothingApplies));
}

#[test]
fn a_mode_that_cannot_be_set_is_avoided() {
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

/// Of four modes, the governor wants the third.
#[test]
fn a_mode_that_could_not_be_set_is_retried_after_a_minute() {
    let mut plant = Plant::new(30_000, 1_000);
    let kept = [0, 86, 92, 98].map(|point| modes()[point]);
    let wanted = kept[2];
    keep_only(&mut plant, &kept);
    plant.writes_work = Box::new(move |mode| mode != wanted);
    plant.run(50_000, 30_000);
    let requests = plant.modes.iter().filter(|(_, mode)| *mode == wanted);
    let times: Vec<u64> = requests.map(|(at, _)| *at).collect();
    assert!(
        (1..=3).contains(&times.len()) && times[times.len() - 1] < 1_000,
        "{times:?}"
    );
    assert_eq!((plant.mode, plant.state()), (kept[1], State::Tracking));
    plant.writes_work = Box::new(|_| true);
    plant.run(90_000, 30_000);
    assert_eq!((plant.mode, plant.state()), (wanted, State::Tracking));
}

/// When modes are excluded, the next mode may draw twice as much.
#[test]
fn a_faster_mode_that_fits_is_used_at_any_distance() {
    let mut plant = Plant::new(15_000, 1_000);
    let kept = [0, 20, 90, 120].map(|point| modes()[point]);
    keep_only(&mut plant, &kept);
    plant.run(20_000, 15_000);
    assert_eq!((plant.mode, plant.state()), (kept[1], State::Tracking));
    plant.governor.set_limit(limit(35_000));
    plant.run(60_000, 35_000);
    assert_eq!((plant.mode, plant.state()), (kept[2], State::Tracking));
}

#[test]
fn the_mode_is_restored_in_the_step_after_another_program_changed_it() {
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

/// Another program sets the fastest mode repeatedly for up to half a second.
#[test]
fn readings_in_a_mode_of_another_program_leave_the_level() {
    holds_for(1_000..1_016, |seed| {
        let mut plant = Plant::typical(20_000, seed, L4T);
        // The load is lighter than the model's, so a wrong level would show.
        let activity = between(seed, 2, 0.6, 1.0);
        plant.load = Box::new(move |_| (activity, Some(1_000)));
        plant.run_until_quiet(100_000, 20_000);
        let (wanted, before) = (plant.mode, plant.status());
        let commands = plant.modes.len();
        for raise in 0..5 {
            let until = plant.now_ms + between(seed, 10 + raise, 0.0, 500.0) as u64;
            while plant.now_ms <= until {
                plant.mode = modes()[127];
                plant.run(between(seed, plant.now_ms, 1.0, 40.0) as u64, 50_000);
            }
            plant.run(between(seed, 20 + raise, 1_000.0, 5_000.0) as u64, 50_000);
        }
        // A shortened phase may change the estimated ripple, so a slower neighbour may be chosen.
        let power = |mode: ModeId| plant.milliwatts(mode, 1.0) / plant.milliwatts(wanted, 1.0);
        let mut set = plant.modes[commands..].iter();
        let other = set.find(|(_, mode)| !(0.95..=1.0).contains(&power(*mode)));
        ensure(other.is_none(), || format!("{other:?}, not {wanted:?}"))?;
        let (before, after) = (f64::from(before.ratio), f64::from(plant.status().ratio));
        ensure((0.99..1.01).contains(&(after / before)), || {
            format!("the level changed by a factor of {:.3}", after / before)
        })
    });
}

#[test]
fn writes_that_all_fail_are_retried_each_second_until_they_work() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.leave_front();
    plant.writes_work = Box::new(|_| false);
    plant.run(10_000, 30_000);
    assert_eq!(plant.state(), State::Safe(Cause::NothingApplies));
    let before = plant.modes.len();
    plant.run(10_000, 30_000);
    let retries = plant.modes.len() - before;
    assert!((5..=11).contains(&retries), "{retries} retries in 10 s");
    plant.writes_work = Box::new(|_| true);
    plant.run(120_000, 30_000);
    assert_eq!(plant.state(), State::Tracking);
    assert!(plant.draws_now() > 25_000.0, "{} mW", plant.draws_now());
}

#[test]
fn a_limit_below_the_least_mode_is_reported_until_it_rises() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::typical(30_000, seed, L4T);
        plant.run(between(seed, 2, 1.0, 30_000.0) as u64, 30_000);
        plant.governor.set_limit(limit(NONE_FITS));
        plant.run(20_000, NONE_FITS);
        is_in(&plant, State::Safe(Cause::CannotHold))?;
        let (drawn, least) = (plant.draws_now(), plant.milliwatts(modes()[0], 1.0));
        ensure(drawn <= 1.04 * least, || {
            format!("{drawn} mW, expected the least mode's {least} mW")
        })?;
        plant.governor.set_limit(limit(30_000));
        plant.account = Account::default();
        plant.run(60_000, 30_000);
        is_in(&plant, State::Tracking)?;
        has_at_most_events(&plant, 0)?;
        draws_more_than(&plant, 25_000.0)
    });
}

/// Violations are those of the first mode, the least mode, and the three trials.
#[test]
fn a_limit_that_is_too_low_counts_one_violation_for_each_mode_tried() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.run(20_000, 30_000);
    plant.governor.set_limit(limit(NONE_FITS));
    plant.run(60_000, NONE_FITS);
    assert_eq!(plant.state(), State::Safe(Cause::CannotHold));
    let violations = plant.status().violations;
    assert!(violations <= 5, "{violations} violations in a minute");
}

/// A level that is still remembered does not count as one that returns, so its expiry does not
/// slow down.
#[test]
fn a_lighter_load_is_used_within_two_minutes_after_lower_limits() {
    let mut plant = Plant::new(40_000, 1_000);
    for watts in [40_000, 20_000, 40_000, 20_000, 40_000, 20_000] {
        plant.governor.set_limit(limit(watts));
        plant.run(15_000, watts);
    }
    uses_a_lighter_load(plant, 20_000, 20_500.0);
}

/// Exceeding an impossible limit says nothing about the length of phases.
#[test]
fn a_lighter_load_is_used_within_two_minutes_after_a_limit_that_was_too_low() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.run(30_000, 30_000);
    plant.governor.set_limit(limit(NONE_FITS));
    plant.run(30_000, NONE_FITS);
    plant.governor.set_limit(limit(30_000));
    plant.run(60_000, 30_000);
    uses_a_lighter_load(plant, 30_000, 31_000.0);
}

/// The second of three modes draws 30 % more than predicted. It exceeds the second limit, and fits
/// the last one.
#[test]
fn a_mode_that_exceeded_one_limit_is_used_under_a_limit_that_it_fits() {
    let kept = [0, 60, 95].map(|point| modes()[point]);
    let predicted = kept.map(predicted);
    let mut plant = Plant::new(14_000, 1_000);
    plant.error = |_, mode| if mode == modes()[60] { 1.3 } else { 1.0 };
    keep_only(&mut plant, &kept);
    for (watts, expected) in [
        (14_000, kept[0]),
        (predicted[1] * 6 / 5, kept[0]),
        (predicted[2] * 6 / 5, kept[2]),
        (predicted[1] * 3 / 2, kept[1]),
    ] {
        plant.governor.set_limit(limit(watts));
        plant.run(15_000, watts);
        assert_eq!(plant.mode, expected, "under {watts} mW");
    }
}

/// The four modes of least power draw 40 % more than predicted, so the model is not trusted for the
/// fifth.
#[test]
fn under_a_limit_that_is_too_low_the_mode_is_a_measured_one() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.error = |_, mode| match modes()[..TRIED].contains(&mode) {
        true => 1.4,
        false => 1.0,
    };
    plant.run(20_000, 30_000);
    let before = plant.modes.len();
    plant.governor.set_limit(limit(11_000));
    plant.run(60_000, 11_000);
    assert_eq!(plant.state(), State::Safe(Cause::CannotHold));
    let tried: Vec<ModeId> = plant.modes[before..]
        .iter()
        .map(|(_, mode)| *mode)
        .collect();
    assert!(
        tried.iter().all(|mode| modes()[..TRIED].contains(mode)),
        "{tried:?}"
    );
}

/// The modes have errors of 10 %, so any of several may be the least; the limit is just too low.
#[test]
fn the_mode_is_stable_under_a_limit_that_is_too_low() {
    holds_for(1_000..1_016, |seed| {
        let mut plant = Plant::new(30_000, seed);
        plant.error = off_by_10_percent;
        plant.run(between(seed, 2, 1.0, 30_000.0) as u64, 30_000);
        let least = modes().iter().map(|mode| plant.milliwatts(*mode, 1.0));
        let watts = (between(seed, 3, 0.8, 0.99) * least.fold(f64::MAX, f64::min)) as u32;
        plant.governor.set_limit(limit(watts));
        plant.run(20_000, watts);
        let before = plant.modes.len();
        plant.run(300_000, watts);
        let (changes, state) = (plant.modes.len() - before, plant.state());
        ensure(
            changes <= 5 && state == State::Safe(Cause::CannotHold),
            || format!("{changes} changes in five minutes, {state:?}"),
        )
    });
}

/// Number of modes tried before a limit counts as too low: the least mode and three others.
const TRIED: usize = 4;

/// One of the four least modes draws its prediction. The other three draw 1.25 … 1.6 times as much.
fn one_of_the_least_fits(seed: u64, mode: ModeId) -> f64 {
    let fitting = (TRIED as f64 * random(seed, 6)) as usize;
    match modes()[..TRIED].iter().position(|least| *least == mode) {
        Some(point) if point != fitting => between(seed, 10 + point as u64, 1.25, 1.6),
        _ => 1.0,
    }
}

/// The one that draws its prediction.
fn fitting(seed: u64) -> ModeId {
    let fits = |mode: &&ModeId| one_of_the_least_fits(seed, **mode) == 1.0;
    *modes()[..TRIED].iter().find(fits).expect("one that fits")
}

/// A limit in mW that only the fitting one of the four least modes satisfies.
fn limit_of_the_least(seed: u64) -> u32 {
    (1.08 * f64::from(predicted(fitting(seed)))) as u32
}

/// The governor ends in a mode that fits. It may try a faster one once more.
fn finds_a_fitting_mode(plant: &mut Plant, watts: u32) -> Result<(), String> {
    let before = plant.modes.len();
    plant.governor.set_limit(limit(watts));
    plant.run(30_000, watts);
    plant.account = Account::default();
    plant.run(60_000, watts);
    let point = |mode: ModeId| modes().iter().position(|it| *it == mode);
    let tried = plant.modes[before..].iter();
    let tried: Vec<_> = tried.map(|(at, mode)| (*at, point(*mode))).collect();
    let (state, drawn) = (plant.state(), plant.draws_now());
    ensure(
        state != State::Safe(Cause::CannotHold) && drawn <= f64::from(watts),
        || format!("{state:?} under {watts} mW, {drawn:.0} mW, after {tried:?}"),
    )?;
    has_at_most_events(plant, 1)
}

#[test]
fn other_modes_are_tried_before_a_limit_counts_as_too_low() {
    holds_for(1_000..1_016, |seed| {
        let watts = limit_of_the_least(seed);
        let mut plant = Plant::new(watts, seed);
        plant.error = one_of_the_least_fits;
        finds_a_fitting_mode(&mut plant, watts)
    });
}

#[test]
fn other_modes_are_tried_under_a_lower_limit() {
    for first in [13_000, 15_000, 20_000, 30_000, 45_000] {
        holds_for(1_000..1_016, |seed| {
            let mut plant = Plant::new(first, seed);
            plant.error = one_of_the_least_fits;
            plant.run(between(seed, 3, 1_000.0, 40_000.0) as u64, first);
            finds_a_fitting_mode(&mut plant, limit_of_the_least(seed))
                .map_err(|reason| format!("after {first} mW: {reason}"))
        });
    }
}

/// The clocks of a Thor follow 107 ms late. Meanwhile the power is that of the mode before.
#[test]
fn a_mode_that_comes_late_teaches_nothing_before() {
    holds_for(1_000..1_032, |seed| {
        let watts = watts(seed);
        let mut plant = Plant::typical(watts, seed, L4T);
        plant.sets_in = 110;
        plant.run(30_000, watts);
        for part in [0.75, 1.0] {
            let limit_mw = (part * f64::from(watts)) as u32;
            plant.governor.set_limit(limit(limit_mw));
            plant.run(60_000, watts);
            let drawn = plant.draws_now() / f64::from(limit_mw);
            ensure(drawn > 0.8, || format!("{drawn} of the limit"))?;
        }
        has_at_most_one_event(&plant, 500)
    });
}
