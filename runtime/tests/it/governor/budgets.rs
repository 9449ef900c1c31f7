//! Averages, budgets, and the energy that the governor books.

use wattgate_runtime::estimator::{Chip, MOST_CHIPS};
use wattgate_runtime::governor::{Average, Budget, Cause, State, Supply};
use wattgate_runtime::{
    Command, Governor, GovernorError, Input, Limit, Milliseconds, Milliwatts, Sample, Settings,
};

use crate::governor::{ensure, holds_for};
use crate::plant::{L4T, POINTS, Plant, between, front, governor, limit, random};

/// A limit in mW with an average in mW over a window.
fn average(milliwatts: u32, mean: u32, seconds: u64) -> Limit {
    Limit {
        average: Some(Average {
            power: Milliwatts(mean),
            window: Milliseconds(1_000 * seconds),
        }),
        ..limit(milliwatts)
    }
}

/// The energy of a mean power in mW over a time.
fn budget(mean: u32, seconds: u64) -> Budget {
    Budget {
        millijoules: u64::from(mean) * seconds,
        time: Milliseconds(1_000 * seconds),
    }
}

/// A limit in mW with a budget.
fn budgeted(milliwatts: u32, budget: Budget) -> Limit {
    Limit {
        budget: Some(budget),
        ..limit(milliwatts)
    }
}

/// Mean powers in mW of all windows of a length that begin at a multiple of 0.1 s.
fn window_means(plant: &mut Plant, seconds: u64, windows: u64, milliwatts: u32) -> Vec<f64> {
    let tenths = 10 * seconds as usize;
    let mut energies = vec![plant.account.energy_mj];
    for _ in 0..10 * seconds * windows {
        plant.run(100, milliwatts);
        energies.push(plant.account.energy_mj);
    }
    let spans = energies.windows(tenths + 1);
    spans
        .map(|span| (span[tenths] - span[0]) / seconds as f64)
        .collect()
}

#[test]
fn an_average_holds_over_each_window_and_is_used_to_nine_tenths() {
    for seconds in [20, 60] {
        holds_for(1_000..1_004, |seed| {
            let mean = between(seed, 2, 16_000.0, 25_000.0).round();
            let mut plant = Plant::typical(40_000, seed, L4T);
            plant
                .governor
                .set_limit(average(40_000, mean as u32, seconds));
            let means = window_means(&mut plant, seconds, 6, 40_000);
            let most = means.iter().copied().fold(0.0, f64::max);
            // Later windows use what the first ones left.
            let later = &means[10 * seconds as usize..];
            let used = later.iter().sum::<f64>() / later.len() as f64;
            ensure(most <= mean, || {
                format!("{seconds} s: {most:.0} mW of {mean:.0}")
            })?;
            ensure(used >= 0.9 * mean, || {
                format!("{seconds} s: {used:.0} mW used of {mean:.0}")
            })
        });
    }
}

/// The supply draws 2.5 W beside the module, and loses a tenth. More of it is drawn from the third window on.
#[test]
fn an_average_of_the_supply_holds_over_each_window_and_is_used() {
    holds_for(1_000..1_004, |seed| {
        let mean = between(seed, 2, 20_000.0, 28_000.0).round();
        let mut plant = Plant::typical(40_000, seed, L4T);
        plant.governor.set_limit(average(40_000, mean as u32, 20));
        for (offset, windows) in [(2_500, 3), (4_500, 4)] {
            let supply = Supply::new(900_000, Milliwatts(offset)).expect("in range");
            plant.governor.set_supply(supply);
            if offset > 2_500 {
                plant.run(20_000, 40_000);
            }
            let means = window_means(&mut plant, 20, windows, 40_000);
            let supplied = means.iter().map(|it| it / 0.9 + f64::from(offset));
            let most = supplied.clone().fold(0.0, f64::max);
            let used = supplied.skip(200).sum::<f64>() / (means.len() - 200) as f64;
            ensure(most <= mean, || {
                format!("{offset}: {most:.0} mW of {mean:.0}")
            })?;
            ensure(used >= 0.88 * mean, || {
                format!("{offset}: {used:.0} mW used of {mean:.0}")
            })?;
        }
        Ok(())
    });
}

/// An idle phase saves energy, which may be drawn later, up to the limit.
#[test]
fn an_average_holds_for_a_load_with_idle_phases() {
    holds_for(1_000..1_004, |seed| {
        let mut plant = Plant::typical(40_000, seed, L4T);
        let period = between(seed, 3, 5_000.0, 60_000.0) as u64;
        plant.load = Box::new(move |now| match now % period < period / 2 {
            true => (1.0, Some(1_000)),
            false => (0.0, Some(0)),
        });
        plant.governor.set_limit(average(40_000, 18_000, 60));
        let means = window_means(&mut plant, 60, 5, 40_000);
        let most = means.iter().copied().fold(0.0, f64::max);
        ensure(most <= 18_000.0, || format!("{most:.0} mW of 18000"))
    });
}

/// The budget is that of a battery. Once it is spent, the mode of least power remains.
#[test]
fn a_budget_lasts_for_its_time_and_is_used() {
    let budget = budget(25_000, 600);
    assert_eq!(budget.mean(), Milliwatts(25_000));
    let mut plant = Plant::typical(40_000, 1_000, L4T);
    let limit = budgeted(40_000, budget);
    plant.governor.set_limit(limit);
    for _ in 0..600 {
        plant.run(1_000, 40_000);
        // Setting the same limit again does not refill the budget.
        plant.governor.set_limit(limit);
    }
    let part = plant.account.energy_mj / budget.millijoules as f64;
    assert!((0.93..=1.0).contains(&part), "{part} of the budget");
    plant.run(120_000, 40_000);
    assert_eq!(plant.state(), State::Safe(Cause::CannotHold));
}

#[test]
fn the_booked_energy_is_the_true_energy() {
    holds_for(1_000..1_004, |seed| {
        let watts = between(seed, 2, 16_000.0, 42_000.0) as u32;
        let mut plant = Plant::typical(watts, seed, L4T);
        let period = 200.0 * 200_f64.powf(random(seed, 3));
        let low = random(seed, 4);
        plant.load = Box::new(move |now| match (now as f64 % period) < 0.6 * period {
            true => (1.0, Some(1_000)),
            false => (low, Some((1_000.0 * low) as u16)),
        });
        plant.run(600_000, watts);
        let ratio = plant.status().millijoules as f64 / plant.account.energy_mj;
        ensure((0.99..=1.01).contains(&ratio), || {
            format!("booked {ratio:.4} of the true energy")
        })
    });
}

/// A governor with a sensor without low-pass.
fn fast_governor(limit: Limit) -> Governor<POINTS> {
    let chip = Chip {
        time_constant: Milliseconds(0),
        step: Milliwatts(1),
    };
    let settings = Settings {
        chips: [chip; MOST_CHIPS],
        ..Settings::default()
    };
    governor(front(), settings, limit).expect("a front with power")
}

fn step(governor: &mut Governor<POINTS>, now: u64, milliwatts: u32) {
    let mode = governor.status().mode;
    let mut input = Input::at(Milliseconds(now));
    input.sample = Some(Sample::one(Milliwatts(milliwatts)));
    (input.mode, input.gpu_load) = (Some(mode).into(), Some(1_000));
    let command = governor.step(&input);
    // The first step sets the mode that the board reads back.
    assert!(
        now == 0 || command == Command::Keep,
        "{command:?} at {now} ms"
    );
}

#[test]
fn steps_of_1_ms_at_1999_mw_lose_nothing() {
    let budget = budget(12_000, 60);
    let mut governor = fast_governor(budgeted(11_000, budget));
    // In a faster mode 1,999 mW would be implausible.
    for point in &front().points()[1..] {
        governor.exclude(point.mode);
    }
    for now in 0..=30_000 {
        step(&mut governor, now, 1_999);
    }
    let drawn = governor.status().millijoules;
    assert!((59_965..=59_980).contains(&drawn), "{drawn} mJ");
    // Under a high limit, the rest of the budget determines the allowed power.
    governor.set_limit(budgeted(100_000, budget));
    let left = (720_000.0 - 59.97e3) / 30.0;
    let allowed = f64::from(governor.status().allowed.0);
    let part = allowed * (1.0 + 1.0 / 400.0) / left;
    assert!(
        (0.999..=1.001).contains(&part),
        "{allowed} mW, expected {left} mW"
    );
}

/// The board draws power while the governor is stopped.
#[test]
fn the_highest_likely_energy_of_a_gap_is_booked() {
    let mut plant = Plant::new(60_000, 1_000);
    plant.governor.set_limit(average(60_000, 45_000, 60));
    plant.run(60_000, 60_000);
    let watts = plant.draws_now();
    assert!(watts > 38_000.0, "{watts} mW");
    // Under the lower average, the energy of the gap exceeds that of a window.
    plant.governor.set_limit(average(60_000, 20_000, 60));
    let before = plant.status();
    assert!(before.allowed.0 > 19_000, "{before:?}");
    plant.sleep(20_000, 60_000);
    let after = plant.status();
    let booked = (after.millijoules - before.millijoules) as f64;
    assert!(
        (0.99..1.2).contains(&(booked / (20.0 * watts))),
        "{booked} mJ booked at {watts} mW"
    );
    assert!(after.allowed.0 < 15_000, "{after:?}");
}

/// Another program sets the fastest mode, and then the slowest.
#[test]
fn the_energy_of_a_watched_board_is_booked() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.governor.set_limit(average(30_000, 20_000, 60));
    plant.run(60_000, 30_000);
    let allowed = plant.status().allowed;
    plant.is_watched = true;
    for point in [POINTS - 1, 0] {
        let (booked, drawn) = (plant.status().millijoules, plant.account.energy_mj);
        plant.mode = front().points()[point].mode;
        plant.run(40_000, 30_000);
        let booked = (plant.status().millijoules - booked) as f64;
        let drawn = plant.account.energy_mj - drawn;
        assert!(
            (0.98..1.02).contains(&(booked / drawn)),
            "{booked} mJ of {drawn} mJ"
        );
    }
    let status = plant.status();
    assert!(status.allowed < allowed, "{status:?}");
}

/// The gap counts with the board's 45 W, not with the least mode. So some 50 W of the mean of 48 W
/// remain.
#[test]
fn a_gap_is_charged_to_a_budget() {
    let mut plant = Plant::new(60_000, 1_000);
    let budget = budget(48_000, 200);
    plant.governor.set_limit(budgeted(60_000, budget));
    plant.run(60_000, 60_000);
    plant.sleep(80_000, 60_000);
    let left = budget.millijoules as f64 - plant.account.energy_mj;
    let allowed = f64::from(plant.status().allowed.0) * (1.0 + 1.0 / 400.0);
    let most = left / 60.0;
    assert!(
        (0.8 * most..=1.01 * most).contains(&allowed),
        "{allowed} mW, expected {most} mW"
    );
}

#[test]
fn a_new_front_keeps_booked_energy_and_counters() {
    let mut plant = Plant::new(40_000, 1_000);
    plant
        .governor
        .set_limit(budgeted(40_000, budget(30_000, 600)));
    plant.run(50_000, 40_000);
    let before = plant.status();
    assert_eq!(plant.governor.set_front(front()), Ok(()));
    let after = plant.status();
    assert_eq!(after.state, State::Booting);
    assert_eq!(after.allowed, before.allowed);
    assert_eq!(after.millijoules, before.millijoules);
    assert_eq!(after.changes, before.changes);
    let empty = plant.governor.set_front(wattgate_runtime::Front::new());
    assert_eq!(empty, Err(GovernorError::NoPower));
    plant.run(20_000, 40_000);
    assert_eq!(plant.state(), State::Tracking);
    let ratio = plant.status().millijoules as f64 / plant.account.energy_mj;
    assert!((0.99..=1.02).contains(&ratio), "{ratio} of the energy");
}

/// Heat derates by a tenth of the limit every two seconds, up to a half. Recovery takes a minute
/// for each tenth.
#[test]
fn heat_derates_the_limit_and_the_limit_recovers() {
    let mut plant = Plant::new(40_000, 1_000);
    plant.run(20_000, 40_000);
    let whole = plant.status().allowed.0;
    plant.is_too_hot = true;
    plant.run_to_next_step(40_000);
    let part = |plant: &Plant| f64::from(plant.status().allowed.0) / f64::from(whole);
    assert!((0.89..0.91).contains(&part(&plant)), "{}", part(&plant));
    plant.run(20_000, 40_000);
    assert!((0.49..0.51).contains(&part(&plant)), "{}", part(&plant));
    assert!(plant.draws_now() < 20_000.0, "{} mW", plant.draws_now());
    plant.is_too_hot = false;
    plant.run(61_000, 40_000);
    assert!((0.59..0.61).contains(&part(&plant)), "{}", part(&plant));
    plant.run(320_000, 40_000);
    assert_eq!(plant.status().allowed.0, whole);
}

/// A limit without an average or a budget for ten seconds, such as a lease.
#[test]
fn what_was_spent_stays_spent_while_another_limit_holds() {
    let whole = Limit {
        power: Milliwatts(40_000),
        average: Some(Average {
            power: Milliwatts(20_000),
            window: Milliseconds(60_000),
        }),
        budget: Some(Budget {
            millijoules: 2_000_000,
            time: Milliseconds(100_000),
        }),
    };
    let mut governor = fast_governor(whole);
    let mode = governor.front().points()[0].mode;
    let run = |governor: &mut Governor<POINTS>, seconds: std::ops::Range<u64>| {
        for ms in (1_000 * seconds.start..1_000 * seconds.end).step_by(50) {
            let mut input = Input::at(Milliseconds(ms));
            input.sample = Some(Sample::one(Milliwatts(30_000)));
            (input.mode, input.gpu_load) = (Some(mode).into(), Some(1_000));
            governor.watch(&input);
        }
    };
    run(&mut governor, 0..50);
    let before = governor.status().allowed;
    assert!(before < Milliwatts(11_000), "{before:?}");
    governor.set_limit(limit(40_000));
    run(&mut governor, 50..51);
    governor.set_limit(whole);
    let after = governor.status().allowed;
    assert!(after <= before, "{before:?}, then {after:?}");
}

/// Of an hour of sleep, ten minutes count.
#[test]
fn of_a_long_sleep_only_the_window_counts() {
    let average = Average {
        power: Milliwatts(20_000),
        window: Milliseconds(600_000),
    };
    let mut governor = fast_governor(Limit {
        average: Some(average),
        ..limit(20_000)
    });
    let mut mode = None;
    let mut step = |ms: u64| {
        let points = governor.front().points();
        let point = points.iter().find(|point| Some(point.mode) == mode);
        let ripple = 1.0 + 0.01 * (random(1, ms) - 0.5);
        let power = point.map_or(9_000.0, |point| f64::from(point.power.0) * ripple);
        let mut input = Input::at(Milliseconds(ms));
        input.sample = Some(Sample::one(Milliwatts(power as u32)));
        (input.mode, input.gpu_load) = (mode.into(), Some(1_000));
        if let Command::Apply(next) = governor.step(&input) {
            mode = Some(next);
        }
        governor.status().allowed
    };
    (0..2_000).for_each(|number| {
        step(50 * number);
    });
    let asleep = 3_600_000;
    let allowed = (0..1_200).map(|number| step(asleep + 50 * number)).last();
    assert!(allowed > Some(Milliwatts(15_000)), "{allowed:?}");
}
