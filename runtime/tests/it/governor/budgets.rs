//! Averages, budgets, and the energy that they go by.

use wattgate_runtime::{
    Average, Budget, Cause, Chip, Command, Governor, GovernorError, Input, Limit, MOST_CHIPS,
    Milliseconds, Milliwatts, Sample, Settings, State,
};

use crate::governor::{ensure, holds_for};
use crate::plant::{L4T, POINTS, Plant, between, front, limit, off_by_1_5_percent, random};

fn average(milliwatts: u32, seconds: u64) -> Average {
    Average {
        power: Milliwatts(milliwatts),
        window: Milliseconds(1_000 * seconds),
    }
}

/// Means in mW of each window of some seconds that begins at a tenth of a second.
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
            let mut plant = Plant::new(40_000, seed);
            plant.error = off_by_1_5_percent;
            plant.governor.set_limit(Limit {
                average: Some(average(mean as u32, seconds)),
                ..limit(40_000)
            });
            let means = window_means(&mut plant, seconds, 6, 40_000);
            let most = means.iter().copied().fold(0.0, f64::max);
            // What the first windows leave is used later.
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

/// A load that rests saves energy, which may be drawn later, up to the limit.
#[test]
fn what_a_rest_saves_of_an_average_is_used_and_no_more() {
    holds_for(1_000..1_004, |seed| {
        let mut plant = Plant::new(40_000, seed);
        plant.error = off_by_1_5_percent;
        let period = between(seed, 3, 5_000.0, 60_000.0) as u64;
        plant.load = Box::new(move |now| match now % period < period / 2 {
            true => (1.0, Some(1_000)),
            false => (0.0, Some(0)),
        });
        plant.governor.set_limit(Limit {
            average: Some(average(18_000, 60)),
            ..limit(40_000)
        });
        let means = window_means(&mut plant, 60, 5, 40_000);
        let most = means.iter().copied().fold(0.0, f64::max);
        ensure(most <= 18_000.0, || format!("{most:.0} mW of 18000"))
    });
}

/// As a battery. When it is spent, the least mode is all that is left to do.
#[test]
fn a_budget_lasts_for_its_time_and_is_used() {
    let budget = Budget {
        millijoules: 25_000 * 600,
        time: Milliseconds(600_000),
    };
    assert_eq!(budget.mean(), Milliwatts(25_000));
    let mut plant = Plant::new(40_000, 1_000);
    plant.error = off_by_1_5_percent;
    let limit = Limit {
        budget: Some(budget),
        ..limit(40_000)
    };
    plant.governor.set_limit(limit);
    for _ in 0..600 {
        plant.run(1_000, 40_000);
        // As it was set before: nothing begins anew.
        plant.governor.set_limit(limit);
    }
    let part = plant.account.energy_mj / budget.millijoules as f64;
    assert!((0.93..=1.0).contains(&part), "{part} of the budget");
    plant.run(120_000, 40_000);
    assert_eq!(plant.state(), State::Safe(Cause::LimitTooLow));
}

#[test]
fn energy_is_counted_once() {
    holds_for(1_000..1_004, |seed| {
        let watts = between(seed, 2, 16_000.0, 42_000.0) as u32;
        let mut plant = Plant::with(watts, seed, L4T, |_| {});
        plant.error = off_by_1_5_percent;
        let period = 200.0 * 200_f64.powf(random(seed, 3));
        let low = random(seed, 4);
        plant.load = Box::new(move |now| match (now as f64 % period) < 0.6 * period {
            true => (1.0, Some(1_000)),
            false => (low, Some((1_000.0 * low) as u16)),
        });
        plant.run(600_000, watts);
        let ratio = plant.status().millijoules as f64 / plant.account.energy_mj;
        ensure((0.99..=1.01).contains(&ratio), || {
            format!("{ratio:.4} of the energy")
        })
    });
}

/// A governor whose board shows a power in whatever mode it is, and a step of it.
fn fast_governor(limit: Limit) -> Governor<POINTS> {
    let chip = Chip {
        time_constant: Milliseconds(0),
        step: Milliwatts(1),
    };
    let settings = Settings {
        chips: [chip; MOST_CHIPS],
        ..Settings::default()
    };
    Governor::new(front(), settings, limit).expect("a front with power")
}

fn step(governor: &mut Governor<POINTS>, now: u64, milliwatts: u32) {
    let mode = governor.status().mode;
    let command = governor.step(&Input {
        now: Milliseconds(now),
        sample: Some(Sample::one(Milliwatts(milliwatts))),
        mode: Some(mode),
        gpu_load: Some(1_000),
        steps: None,
        over_current: false,
        too_hot: false,
    });
    // The board is in the first mode already.
    assert!(
        now == 0 || command == Command::Keep,
        "{command:?} at {now} ms"
    );
}

#[test]
fn steps_of_1_ms_at_1999_mw_lose_nothing() {
    let budget = Budget {
        millijoules: 12_000 * 60,
        time: Milliseconds(60_000),
    };
    let mut governor = fast_governor(Limit {
        budget: Some(budget),
        ..limit(11_000)
    });
    // In a faster mode 1,999 mW would be absurd.
    for point in &front().points()[1..] {
        governor.exclude(point.mode);
    }
    for now in 0..=30_000 {
        step(&mut governor, now, 1_999);
    }
    let drawn = governor.status().millijoules;
    assert!((59_965..=59_980).contains(&drawn), "{drawn} mJ");
    // Under a limit beyond it, what is left of the budget is what is allowed.
    governor.set_limit(Limit {
        budget: Some(budget),
        ..limit(100_000)
    });
    let left = (720_000.0 - 59.97e3) / 30.0;
    let allowed = f64::from(governor.status().allowed.0);
    let part = allowed * (1.0 + 1.0 / 400.0) / left;
    assert!(
        (0.999..=1.001).contains(&part),
        "{allowed} mW, {left} mW are left"
    );
}

/// The governor may have been stopped while the board went on.
#[test]
fn what_may_be_drawn_in_a_gap_is_booked() {
    let mut plant = Plant::new(60_000, 1_000);
    plant.governor.set_limit(Limit {
        average: Some(average(45_000, 60)),
        ..limit(60_000)
    });
    plant.run(60_000, 60_000);
    let watts = plant.draws_now();
    assert!(watts > 38_000.0, "{watts} mW");
    // A lower average from now on, so that a window of the gap is more than it allows.
    plant.governor.set_limit(Limit {
        average: Some(average(20_000, 60)),
        ..limit(60_000)
    });
    let before = plant.status();
    assert!(before.allowed.0 > 19_000, "{before:?}");
    plant.sleep(20_000, 60_000);
    let after = plant.status();
    let booked = (after.millijoules - before.millijoules) as f64;
    assert!(
        (0.99..1.2).contains(&(booked / (20.0 * watts))),
        "{booked} mJ at {watts} mW"
    );
    assert!(after.allowed.0 < 15_000, "{after:?}");
}

/// At 45 W, not at the least mode: of 48 W as a mean some 50 W are left for the rest.
#[test]
fn a_gap_is_charged_to_a_budget() {
    let mut plant = Plant::new(60_000, 1_000);
    let budget = Budget {
        millijoules: 48_000 * 200,
        time: Milliseconds(200_000),
    };
    plant.governor.set_limit(Limit {
        budget: Some(budget),
        ..limit(60_000)
    });
    plant.run(60_000, 60_000);
    plant.sleep(80_000, 60_000);
    let left = budget.millijoules as f64 - plant.account.energy_mj;
    let allowed = f64::from(plant.status().allowed.0) * (1.0 + 1.0 / 400.0);
    let most = left / 60.0;
    assert!(
        (0.8 * most..=1.01 * most).contains(&allowed),
        "{allowed} mW, {most} mW are left"
    );
}

#[test]
fn with_another_front_what_was_spent_stays_spent() {
    let mut plant = Plant::new(40_000, 1_000);
    plant.governor.set_limit(Limit {
        budget: Some(Budget {
            millijoules: 30_000 * 600,
            time: Milliseconds(600_000),
        }),
        ..limit(40_000)
    });
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

/// Heat takes a tenth of the limit every two seconds, up to half, and gives it back a tenth a minute.
#[test]
fn heat_takes_from_the_limit_and_gives_back() {
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
