//! A window on synthetic counts and readings whose truth is known.

use std::time::Duration;

use wattgate_profiler::window::{Count, Measured, Rules, Window};
use wattgate_runtime::estimator::{Chip, Estimator, MOST_CHIPS};
use wattgate_runtime::{Milliseconds, Milliwatts, Sample};
use wattgate_watchdog::steps::Told;

const STEP_MS: f64 = 37.0;

/// A load of a power that depends on the time in s, behind a sensor of 430 ms and steps of 40 mW,
/// in a mode that was set at 0; each step takes [`STEP_MS`], the first five take twice as long.
fn measure(rules: Rules, power_mw: impl Fn(f64) -> f64) -> (Option<Measured>, f64) {
    let mut estimator = Estimator::new([Chip::L4T; MOST_CHIPS]);
    let mut window = Window::new(rules, Duration::ZERO);
    let mut register = 9_000.0;
    let (mut step_at, mut steps) = (2.0 * STEP_MS, 100);
    for ms in 1..120_000_u64 {
        let now = ms as f64;
        register += (power_mw(now / 1e3) - register) * (1.0 - (-1.0 / 430.0_f64).exp());
        while step_at <= now {
            steps += 1;
            let at = Duration::from_secs_f64(step_at / 1e3);
            window.count(Count {
                at,
                steps,
                told: Told::default(),
            });
            step_at += if steps < 105 { 2.0 } else { 1.0 } * STEP_MS;
        }
        if ms % 50 == 0 {
            let reading = (register / 40.0).round() * 40.0;
            let sample = Sample::one(Milliwatts(reading as u32));
            estimator.update(&sample, Milliseconds(ms));
            window.add_energy(Duration::from_millis(ms), estimator.energy_uj());
        }
        if let Some(measured) = window.measured(&estimator) {
            return (Some(measured), now / 1e3);
        }
    }
    (None, f64::INFINITY)
}

fn within(found: f64, truth: f64, percent: f64) {
    let error = 100.0 * (found / truth - 1.0).abs();
    assert!(error <= percent, "{found} is {error:.2} % off {truth}");
}

#[test]
fn the_lag_of_the_sensor_and_slow_first_steps_do_not_count() {
    let (measured, seconds) = measure(Rules::default(), |_| 21_300.0);
    let measured = measured.expect("complete");
    within(measured.time_ms, STEP_MS, 0.2);
    within(measured.power_mw, 21_300.0, 0.8);
    // The shortest window and the settling.
    assert!(seconds < 5.0, "{seconds} s");
    assert!(measured.steps >= 20);
}

#[test]
fn a_load_in_phases_is_measured_until_its_mean_is_sure() {
    let phases = |s: f64| if s % 0.8 < 0.6 { 24_000.0 } else { 12_000.0 };
    let steady = measure(Rules::default(), |_| 21_000.0).1;
    let (measured, seconds) = measure(Rules::default(), phases);
    let measured = measured.expect("complete");
    assert!(seconds > 2.0 * steady, "{seconds} s, steady {steady} s");
    within(measured.power_mw, 21_000.0, 3.0);
}

#[test]
fn a_window_ends_at_its_longest_with_the_spread_that_it_has() {
    let rules = Rules {
        longest: Duration::from_secs(5),
        ..Rules::default()
    };
    let phases = |s: f64| if s % 2.0 < 1.0 { 24_000.0 } else { 12_000.0 };
    let (measured, seconds) = measure(rules, phases);
    let measured = measured.expect("complete");
    assert!((5.0..6.5).contains(&seconds), "{seconds} s");
    assert!(measured.power_spread.is_some_and(|spread| spread > 0.01));
}

#[test]
fn slow_steps_end_a_window_at_its_longest_from_two_on() {
    let rules = Rules {
        min_steps: 500,
        longest: Duration::from_secs(5),
        ..Rules::default()
    };
    let (measured, seconds) = measure(rules, |_| 21_000.0);
    assert!(measured.expect("complete").steps < 500);
    assert!((5.0..6.5).contains(&seconds), "{seconds} s");
    let rules = Rules {
        longest: Duration::from_millis(100),
        ..rules
    };
    let (measured, _) = measure(rules, |_| 21_000.0);
    assert!((2..8).contains(&measured.expect("complete").steps));
}

/// Steps of a second: 18 of them, however the longest time lies within a step.
#[test]
fn the_longest_time_holds_to_the_nearest_step() {
    for (longest, expected) in [(17_600, 18), (18_000, 18), (18_400, 18), (18_600, 19)] {
        let rules = Rules {
            longest: Duration::from_millis(longest),
            ..Rules::default()
        };
        let estimator = Estimator::new([Chip::L4T; MOST_CHIPS]);
        let mut window = Window::new(rules, Duration::ZERO);
        let mut measured = None;
        for steps in 0..40 {
            let at = Duration::from_secs(steps);
            window.add_energy(at, 20_000_000 * steps);
            window.count(Count {
                at,
                steps,
                told: Told::default(),
            });
            measured = measured.or_else(|| window.measured(&estimator));
        }
        assert_eq!(measured.expect("complete").steps, expected, "{longest} ms");
    }
}

#[test]
fn a_phase_longer_than_the_parts_of_a_window_does_not_look_steady() {
    // The first phase alone is steady.
    let phases = |s: f64| if s % 6.0 < 3.0 { 24_000.0 } else { 12_000.0 };
    let (measured, _) = measure(Rules::default(), phases);
    within(measured.expect("complete").power_mw, 18_000.0, 4.0);
}

#[test]
fn counts_of_the_mode_before_are_ignored() {
    let estimator = Estimator::new([Chip::L4T; MOST_CHIPS]);
    let mut window = Window::new(Rules::default(), Duration::from_secs(10));
    for steps in 0..100 {
        let at = Duration::from_millis(90 * steps);
        window.count(Count {
            at,
            steps,
            told: Told::default(),
        });
    }
    assert_eq!(window.steps(), 0);
    assert_eq!(window.measured(&estimator), None);
}

/// The parts of a step that takes [`STEP_MS`], from cumulative times of `[fetch, compute]` per step.
fn parts(each_us: [u64; 2]) -> [Option<f64>; 2] {
    let mut estimator = Estimator::new([Chip::L4T; MOST_CHIPS]);
    let mut window = Window::new(Rules::default(), Duration::ZERO);
    for steps in 1..2_000_u64 {
        let at = Duration::from_secs_f64(steps as f64 * STEP_MS / 1e3);
        let [fetch_us, compute_us] = each_us.map(|us| Some(us * steps));
        let told = Told {
            fetch_us,
            compute_us,
            ..Told::default()
        };
        window.count(Count { at, steps, told });
        let now = Milliseconds(at.as_millis() as u64);
        estimator.update(&Sample::one(Milliwatts(9_000)), now);
        window.add_energy(at, estimator.energy_uj());
        if let Some(measured) = window.measured(&estimator) {
            return [measured.fetch_ms, measured.compute_ms];
        }
    }
    panic!("not measured");
}

#[test]
fn parts_of_a_step_are_means_over_the_window() {
    let [fetch, compute] = parts([5_000, 30_000]).map(|part| part.expect("told"));
    within(fetch, 5.0, 0.1);
    within(compute, 30.0, 0.1);
}

#[test]
fn parts_that_are_longer_than_the_step_are_left_out() {
    assert_eq!(parts([50_000, 1_000]), [None; 2]);
    assert_eq!(parts([20_000, 30_000]), [None; 2]);
}
