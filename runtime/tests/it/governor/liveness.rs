//! The governor detects a dead sensor, does not mistake a steady board for one, and supports
//! several chips.

use wattgate_runtime::estimator::{Chip, MOST_CHIPS};
use wattgate_runtime::governor::{Cause, State};
use wattgate_runtime::{GovernorError, Milliseconds, Milliwatts, ModeId, Sample, Settings};

use crate::governor::{
    draws_more_than, ensure, has_at_most_events, has_at_most_one_event, holds_for, is_in,
    means_hold,
};
use crate::plant::{
    Account, FINE, L4T, Plant, Sensor, SensorChip, between, fails, full, idle, limit, random, works,
};

const NO_SENSOR: State = State::Safe(Cause::NoSensor);

/// The governor never took the sensor for blind.
fn was_never_blind(plant: &Plant) -> Result<(), String> {
    let blind = plant.states.iter().find(|(_, state)| *state == NO_SENSOR);
    ensure(blind.is_none(), || format!("{blind:?}"))
}

/// Without ripple, the register settles and then shows one value.
#[test]
fn constant_readings_of_an_idle_board_for_an_hour_cause_no_probe() {
    holds_for(1_000..1_003, |seed| {
        let mut plant = Plant::new(30_000, seed);
        plant.run(20_000, 30_000);
        (plant.load, plant.ripple) = (Box::new(idle), 0.0);
        plant.run(2_000, 30_000);
        let before = plant.modes.len();
        plant.run(3_600_000, 30_000);
        was_never_blind(&plant)?;
        let probes = &plant.modes[before..];
        ensure(probes.is_empty(), || format!("{probes:?}"))
    });
}

/// In recordings of busy boards the readings stand still for at most 12.7 s (Orin NX, training).
#[test]
fn constant_readings_of_a_busy_board_for_20_s_are_not_blind() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.run(60_000, 30_000);
    plant.ripple = 0.0;
    plant.run(20_000, 30_000);
    assert_eq!(was_never_blind(&plant), Ok(()));
}

#[test]
fn failing_reads_lead_to_the_least_mode_within_2_s_and_back() {
    holds_for(1_000..1_008, |seed| {
        let watts = between(seed, 2, 20_000.0, 42_000.0) as u32;
        let mut plant = Plant::typical(watts, seed, L4T);
        plant.run(between(seed, 3, 2_000.0, 60_000.0) as u64, watts);
        plant.sensor_fault = fails;
        plant.run(2_000, watts);
        is_in(&plant, NO_SENSOR)?;
        let point = plant.point();
        ensure(point == 0, || format!("point {point} after 2 s"))?;
        plant.run(between(seed, 4, 0.0, 60_000.0) as u64, watts);
        plant.sensor_fault = works;
        plant.run(60_000, watts);
        is_in(&plant, State::Tracking)?;
        draws_more_than(&plant, 0.8 * f64::from(watts))?;
        has_at_most_events(&plant, 0)
    });
}

/// A gap in the readings does not count as a time without power.
#[test]
fn a_second_of_failing_reads_after_a_mode_change_leaves_the_level() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::typical(40_000, seed, L4T);
        plant.run(20_000, 40_000);
        plant.governor.set_limit(limit(20_000));
        plant.run(between(seed, 2, 20.0, 900.0) as u64, 20_000);
        plant.account = Account::default();
        plant.sensor_fault = fails;
        plant.run(1_000, 20_000);
        plant.sensor_fault = works;
        plant.run(10_000, 20_000);
        was_never_blind(&plant)?;
        let ratio = f64::from(plant.status().ratio) / 65_536.0;
        ensure((0.9..1.1).contains(&ratio), || format!("ratio {ratio:.2}"))?;
        has_at_most_events(&plant, 0)
    });
}

#[test]
fn a_frozen_sensor_is_detected_within_2_s_of_a_change_of_the_gpus_load() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::new(30_000, seed);
        plant.run(20_000, 30_000);
        plant.load = Box::new(idle);
        plant.run(between(seed, 2, 5_000.0, 60_000.0) as u64, 30_000);
        plant.is_frozen = true;
        plant.run(between(seed, 3, 0.0, 20_000.0) as u64, 30_000);
        was_never_blind(&plant)?;
        plant.load = Box::new(full);
        plant.run(2_000, 30_000);
        is_in(&plant, NO_SENSOR)?;
        plant.is_frozen = false;
        plant.run(60_000, 30_000);
        is_in(&plant, State::Tracking)
    });
}

#[test]
fn a_frozen_sensor_is_detected_within_2_s_of_a_mode_change() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::typical(40_000, seed, L4T);
        plant.run(20_000, 40_000);
        plant.is_frozen = true;
        plant.run(between(seed, 2, 0.0, 5_000.0) as u64, 40_000);
        was_never_blind(&plant)?;
        let second = between(seed, 3, 15_000.0, 30_000.0) as u32;
        plant.governor.set_limit(limit(second));
        plant.run(2_000, second);
        is_in(&plant, NO_SENSOR)
    });
}

/// The times of probes of the sensor: mode changes that reduce the power by at least 5 %.
fn probes(plant: &Plant, after: u64) -> Vec<u64> {
    let power = |mode: ModeId| plant.milliwatts(mode, 1.0);
    let changes = plant.modes.windows(2).filter(|pair| pair[1].0 > after);
    let probes = changes.filter(|pair| power(pair[1].1) < 0.95 * power(pair[0].1));
    probes.map(|pair| pair[1].0).collect()
}

#[test]
fn a_frozen_sensor_of_a_busy_board_is_detected_within_2_s_of_a_probe() {
    holds_for(1_000..1_008, |seed| {
        let watts = between(seed, 2, 20_000.0, 42_000.0) as u32;
        let mut plant = Plant::typical(watts, seed, L4T);
        plant.run(60_000, watts);
        plant.is_frozen = true;
        plant.run(27_000, watts);
        was_never_blind(&plant)?;
        plant.run(7_000, watts);
        let probed = *probes(&plant, 60_000).first().ok_or("no probe")?;
        let blind = plant.states.iter().find(|(_, state)| *state == NO_SENSOR);
        let detected = blind.ok_or("not detected")?.0 - probed;
        ensure(detected <= 2_000, || {
            format!("detected {detected} ms after the probe")
        })?;
        has_at_most_events(&plant, 0)
    });
}

/// The load has no ripple, and the sensor has steps of 0.4 W.
#[test]
fn constant_readings_of_a_busy_board_are_probed_at_growing_intervals() {
    holds_for(1_000..1_004, |seed| {
        let watts = between(seed, 2, 20_000.0, 42_000.0) as u32;
        let mut plant = Plant::with(watts, seed, Sensor::one(430.0, 400.0), |_| {});
        plant.run(120_000, watts);
        plant.ripple = 0.0;
        plant.run(1_520_000, watts);
        was_never_blind(&plant)?;
        let probes = probes(&plant, 120_000);
        let number = probes.len();
        ensure((5..=6).contains(&number), || format!("{probes:?}"))?;
        let mut moved = 120_000;
        for (at, expected) in probes.into_iter().zip([30, 60, 120, 240, 480, 480]) {
            let index = plant.modes.iter().position(|(probed, _)| *probed == at);
            let around = &plant.modes[index.ok_or("no probe")? - 1..][..3];
            let [(_, before), _, (back, after)] = *around else {
                return Err(format!("no step back up: {around:?}"));
            };
            // The probe measures the slower mode, which may change the guesses of other modes.
            let slowdown = plant.microseconds(after) / plant.microseconds(before);
            ensure(slowdown <= 1.05 && back - at <= 3_000, || {
                format!("×{slowdown:.2}, {around:?}")
            })?;
            // The standstill may have begun up to two seconds before the last mode change.
            let still = (at - moved).div_ceil(1_000);
            ensure(still + 2 >= expected, || {
                format!("a probe after {still} s, expected {expected}")
            })?;
            moved = back;
        }
        Ok(())
    });
}

/// A sensor counts as blind only after 1.7 s without readings, so some of these gaps are shorter.
#[test]
fn after_a_second_without_readings_no_step_up_comes_for_430_ms() {
    holds_for(1_000..1_016, |seed| {
        let mut plant = Plant::typical(20_000, seed, L4T);
        plant.run(20_000, 20_000);
        for gap in 0..6 {
            plant.sensor_fault = fails;
            // A faster mode now fits.
            plant.governor.set_limit(limit(22_000 + 4_000 * gap));
            let ms = between(seed, 10 + u64::from(gap), 1_000.0, 4_000.0);
            plant.run(ms as u64, 45_000);
            plant.sensor_fault = works;
            let before = plant.modes.len();
            plant.run(430, 45_000);
            let early = plant.modes.get(before);
            ensure(early.is_none(), || {
                format!("{early:?} after {ms:.0} ms without readings")
            })?;
            plant.run(10_000, 45_000);
        }
        Ok(())
    });
}

/// 1 kW and 0.1 W are outside the plausible range of every mode.
#[test]
fn implausible_readings_are_ignored() {
    let faults: [fn(u64, Sample) -> Option<Sample>; 2] = [
        |_, _| Some(Sample::one(Milliwatts(1_000_000))),
        |_, _| Some(Sample::one(Milliwatts(100))),
    ];
    for (at, fault) in faults.into_iter().enumerate() {
        let mut plant = Plant::new(30_000, 1_000);
        plant.run(20_000, 30_000);
        let before = plant.status().millijoules;
        plant.sensor_fault = fault;
        plant.run(2_000, 30_000);
        assert_eq!(plant.state(), NO_SENSOR, "fault {at}");
        let drawn = plant.status().millijoules - before;
        assert!(
            (40_000..80_000).contains(&drawn),
            "fault {at}: {drawn} mJ in 2 s"
        );
        plant.sensor_fault = works;
        plant.run(60_000, 30_000);
        assert_eq!(plant.state(), State::Tracking, "fault {at}");
    }
}

/// 5 % of the reads fail, and 5 % give an implausible value.
#[test]
fn single_bad_readings_change_nothing() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.sensor_fault = |now, sample| match random(1_000, now) {
        it if it < 0.05 => None,
        it if it < 0.1 => Some(Sample::one(Milliwatts(900_000))),
        _ => Some(sample),
    };
    plant.run(120_000, 30_000);
    assert_eq!(was_never_blind(&plant), Ok(()));
    assert_eq!(has_at_most_events(&plant, 0), Ok(()));
    assert!(plant.draws_now() > 25_000.0, "{} mW", plant.draws_now());
}

/// Two to four chips with different shares and time constants, and steps of 40 mW.
fn several_chips(seed: u64) -> Sensor {
    let mut sensor = FINE;
    let number = 2 + (3.0 * random(seed, 30)) as u64;
    let weights: Vec<f64> = (0..number)
        .map(|chip| 0.1 + random(seed, 40 + chip))
        .collect();
    let sum: f64 = weights.iter().sum();
    for (at, (chip, weight)) in sensor.chips.iter_mut().zip(weights).enumerate() {
        *chip = SensorChip {
            share: weight / sum,
            time_constant: between(seed, 50 + at as u64, 54.0, 860.0).round(),
            step: 40.0,
        };
    }
    sensor
}

#[test]
fn several_chips_of_different_time_constants_hold_a_constant_load() {
    holds_for(1_000..1_012, |seed| {
        let watts = between(seed, 2, 16_000.0, 42_000.0) as u32;
        let mut plant = Plant::typical(watts, seed, several_chips(seed));
        plant.run(90_000, watts);
        has_at_most_events(&plant, 0)?;
        was_never_blind(&plant)?;
        draws_more_than(&plant, 0.85 * f64::from(watts))
    });
}

/// The slowest chip has a time constant of 860 ms, twice that of an INA3221 as L4T sets it, so the
/// reaction may take twice as long.
#[test]
fn several_chips_of_different_time_constants_answer_a_jump_within_500_ms() {
    holds_for(1_000..1_012, |seed| {
        let watts = between(seed, 2, 20_000.0, 42_000.0) as u32;
        let mut plant = Plant::typical(watts, seed, several_chips(seed));
        plant.run(30_000, watts);
        plant.factor = between(seed, 4, 1.15, 1.6);
        plant.run(30_000, watts);
        has_at_most_one_event(&plant, 500)
    });
}

/// Another program may change the number of samples that the chip averages.
#[test]
fn the_limit_holds_when_the_time_constant_changes() {
    holds_for(1_000..1_012, |seed| {
        let watts = between(seed, 2, 20_000.0, 42_000.0) as u32;
        let mut plant = Plant::typical(watts, seed, L4T);
        for change in 0..6 {
            plant.run(between(seed, 10 + change, 100.0, 15_000.0) as u64, watts);
            // 1 … 1,024 samples of 0.84 ms.
            let samples = (1_u64 << (11.0 * random(seed, 20 + change)) as u64) as f64;
            let time_constant = (0.84 * samples).round();
            plant.sensor.chips[0].time_constant = time_constant;
            let nominal = Milliseconds(time_constant as u64);
            let set = plant.governor.set_time_constant(0, nominal);
            ensure(set.is_ok(), || format!("{set:?}"))?;
        }
        plant.run(20_000, watts);
        was_never_blind(&plant)?;
        has_at_most_events(&plant, 0)?;
        means_hold(&plant, 0.001_5)
    });
}

#[test]
fn a_jump_is_answered_within_250_ms_after_the_time_constant_was_set_back() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::typical(30_000, seed, Sensor::one(54.0, 40.0));
        plant.run(20_000, 30_000);
        plant.sensor.chips[0].time_constant = 430.0;
        let set = plant.governor.set_time_constant(0, Milliseconds(430));
        ensure(set.is_ok(), || format!("{set:?}"))?;
        plant.run(5_000, 30_000);
        plant.account = Account::default();
        plant.factor = between(seed, 4, 1.15, 1.6);
        plant.run(20_000, 30_000);
        has_at_most_one_event(&plant, 250)
    });
}

#[test]
fn a_time_constant_out_of_range_is_refused_and_changes_nothing() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.run(20_000, 30_000);
    let before = plant.status();
    for (chip, ms) in [
        (0, 60_001),
        (0, u64::MAX),
        (MOST_CHIPS, 430),
        (usize::MAX, 430),
    ] {
        let set = plant.governor.set_time_constant(chip, Milliseconds(ms));
        assert_eq!(set, Err(GovernorError::Settings), "chip {chip}, {ms} ms");
    }
    assert_eq!(plant.status(), before);
    assert_eq!(
        plant.governor.set_time_constant(0, Milliseconds(60_000)),
        Ok(())
    );
}

/// The allowed reading under a limit in mW, with the default gain error.
fn allowed(milliwatts: u32, offset: u32) -> Milliwatts {
    let left = u64::from(milliwatts.saturating_sub(offset));
    let gain = u64::from(Settings::default().sensor_gain);
    Milliwatts(((left << 16) / ((1 << 16) + gain)) as u32)
}

/// The caller may learn the sensor's steps from its readings.
#[test]
fn changed_steps_and_offsets_apply_at_once_and_the_limit_holds() {
    holds_for(1_000..1_012, |seed| {
        let watts = between(seed, 2, 20_000.0, 42_000.0) as u32;
        let mut plant = Plant::typical(watts, seed, L4T);
        for change in 0..12 {
            plant.run(between(seed, 10 + change, 0.0, 8_000.0) as u64, watts);
            // The true steps are 200 mW.
            let times = between(seed, 30 + change, 1.0, 3.0);
            let mut steps = [Milliwatts(0); MOST_CHIPS];
            steps[0] = Milliwatts((200.0 * times) as u32);
            let offset = between(seed, 50 + change, 0.0, 600.0) as u32;
            let before = plant.status();
            plant.governor.set_sensor_steps(steps, Milliwatts(offset));
            let mut expected = before;
            expected.allowed = allowed(watts, offset);
            let after = plant.status();
            ensure(after == expected, || format!("{after:?}, not {expected:?}"))?;
        }
        let steps = [Milliwatts(200); MOST_CHIPS];
        plant.governor.set_sensor_steps(steps, Milliwatts(0));
        plant.run(20_000, watts);
        was_never_blind(&plant)?;
        has_at_most_events(&plant, 0)?;
        means_hold(&plant, 0.001_5)
    });
}

/// The caller may find that no step divides the readings.
#[test]
fn a_larger_offset_applies_in_the_next_step_and_holds_within_150_ms() {
    holds_for(1_000..1_008, |seed| {
        let watts = between(seed, 2, 25_000.0, 42_000.0) as u32;
        let offset = between(seed, 3, 3_000.0, 9_000.0) as u32;
        let left = watts - offset;
        let mut plant = Plant::typical(watts, seed, L4T);
        plant.run(between(seed, 4, 5_000.0, 30_000.0) as u64, watts);
        let steps = [Milliwatts(200); MOST_CHIPS];
        plant.governor.set_sensor_steps(steps, Milliwatts(offset));
        plant.account = Account::default();
        let command = plant.run_to_next_step(left);
        ensure(command.is_some(), || "no command in the next step".into())?;
        plant.run(20_000, left);
        has_at_most_one_event(&plant, 150)
    });
}

#[test]
fn set_steps_and_offset_equal_those_of_the_settings() {
    let fine = Chip {
        time_constant: Milliseconds(430),
        step: Milliwatts(40),
    };
    let coarse = Chip {
        step: Milliwatts(400),
        ..fine
    };
    let with = |chip: Chip, offset: u32| {
        Plant::with(30_000, 1_000, FINE, |settings| {
            settings.chips = [chip; MOST_CHIPS];
            settings.sensor_offset = Milliwatts(offset);
        })
    };
    let mut from_the_start = with(fine, 100);
    let mut set = with(coarse, 500);
    let steps = [fine.step; MOST_CHIPS];
    set.governor.set_sensor_steps(steps, Milliwatts(100));
    let mut never = with(coarse, 500);
    for plant in [&mut from_the_start, &mut set, &mut never] {
        plant.run(60_000, 30_000);
    }
    assert_eq!(set.status(), from_the_start.status());
    assert_eq!(set.modes, from_the_start.modes);
    assert_ne!(never.status().power, set.status().power);
}

/// A live sensor must show a mode change of more than five steps.
#[test]
fn the_set_steps_decide_which_change_a_live_sensor_must_show() {
    for (step, expected) in [(200, true), (10_000, false)] {
        let mut plant = Plant::new(40_000, 1_000);
        plant.run(20_000, 40_000);
        let steps = [Milliwatts(step); MOST_CHIPS];
        plant.governor.set_sensor_steps(steps, Milliwatts(0));
        plant.is_frozen = true;
        plant.governor.set_limit(limit(20_000));
        plant.run(2_000, 20_000);
        assert_eq!(plant.state() == NO_SENSOR, expected, "steps of {step} mW");
    }
}
