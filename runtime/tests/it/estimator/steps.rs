//! The present power: without bias under a steady load, and soon after a step.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::estimator::plant::{Plant, Random, Setup, sensors, setups};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The time constant changes twice during the run.
    #[test]
    fn steady_power_is_estimated_without_bias(
        setup in setups(), power in 4_000.0..50_000.0, seed in any::<u64>(),
    ) {
        let mut plant = Plant::new(&setup, power, seed);
        let mut errors = Vec::new();
        for time_constant in [setup.time_constant, 13, 430] {
            plant.set_time_constant(time_constant);
            plant.run(2_000);
            for _ in 0..10_000 {
                if plant.pass() {
                    errors.push(plant.error().0);
                }
            }
        }
        let bias = errors.iter().sum::<f64>() / errors.len() as f64;
        prop_assert!(bias.abs() <= 0.01 * power + setup.half_steps(), "{bias} mW of {power}");
    }
}

/// A setup, the power before a step, the factor of the step, and a seed.
fn steps() -> impl Strategy<Value = (Setup, f64, f64, u64)> {
    let times = prop_oneof![0.2..0.7, 1.3..4.0];
    (setups(), 5_000.0..30_000.0, times, any::<u64>())
}

/// Number of cases of the next test, and of those that may exceed 10 %.
const STEPS: usize = 4_000;
const MISSED: usize = 4;

/// The error is within 10 % of a step after 100 ms, or as soon as the sensor allows. A step `S`
/// moves a register by `S (1 − exp(−t / τ))`. Rounding hides half a step of each rail at both ends,
/// and ripple adds `r P √(10 ms · t) / τ`. Seven cases in 20,000 exceed 10 %, but stay within four
/// of the claimed deviations.
#[test]
fn a_step_is_estimated_as_soon_as_rounding_allows() {
    let mut runner = TestRunner::deterministic();
    let mut missed = Vec::new();
    for _ in 0..STEPS {
        let drawn = steps().new_tree(&mut runner).expect("a step").current();
        let (setup, from, times, seed) = drawn;
        let setup = Setup {
            missing: 0.0,
            ..setup
        };
        let step: f64 = from * (times - 1.0);
        let within = |ms: f64| {
            let time_constant = setup.time_constant as f64;
            let moved = 1.0 - (-ms / time_constant).exp();
            let most = from * f64::max(times, 1.0);
            let ripple = setup.ripple * most * (10.0 * ms).sqrt() / time_constant;
            let hidden = 2.0 * setup.half_steps() + 3.0 * ripple;
            hidden / moved + setup.clocks * step.abs()
        };
        let allowed = (100..1_500).find(|ms| within(*ms as f64) < 0.1 * step.abs());
        let Some(allowed) = allowed else {
            continue;
        };
        let mut plant = Plant::new(&setup, from, seed);
        plant.run(4_000);
        plant.power = from + step;
        plant.run(allowed + setup.intervals.1 as u64);
        let mut worst = 0.0_f64;
        for _ in 0..500 {
            if plant.pass() {
                let (error, deviation) = plant.error();
                worst = worst.max(error.abs() / step.abs());
                let is_known = error.abs() < f64::max(0.1 * step.abs(), 4.0 * deviation);
                let found = format!("error {error} ± {deviation} mW after a step of {step} mW");
                assert!(is_known, "{found} and {allowed} ms, seed {seed}");
            }
        }
        if worst >= 0.1 {
            missed.push((seed, worst));
        }
    }
    assert!(missed.len() <= MISSED, "{missed:?}");
}

/// Number of plants for each figure below.
const PLANTS: u64 = 200;

/// The part of the errors beyond a number of their claimed deviations.
fn share(values: &[(f64, f64)], deviations: f64) -> f64 {
    let beyond = values
        .iter()
        .filter(|(error, deviation)| error.abs() > deviations * deviation);
    beyond.count() as f64 / values.len() as f64
}

#[test]
fn a_steady_load_has_few_false_steps() {
    println!(
        "steady, ripple 6 %: beyond 2 and 3 deviations, false steps a minute, suspicious looks"
    );
    for (name, setup) in sensors() {
        let (mut errors, mut steps, mut suspicious, mut seconds) = (Vec::new(), 0, 0, 0);
        for seed in 0..40 {
            let power = Random::new(seed).between(15e3, 40e3);
            let mut plant = Plant::new(&setup, power, 7_000 + seed);
            plant.run(3_000);
            let mut since = plant.estimator.estimate().map(|estimate| estimate.since);
            for _ in 0..40_000 {
                if plant.pass() {
                    let (error, deviation) = plant.error();
                    errors.push((error / power, deviation / power));
                    suspicious += u32::from(plant.estimator.is_suspicious());
                    let now = plant.estimator.estimate().map(|estimate| estimate.since);
                    steps += u32::from(since.replace(now.expect("there were looks")) != now);
                }
            }
            seconds += 40;
        }
        let (two, three) = (share(&errors, 2.0), share(&errors, 3.0));
        let a_minute = f64::from(steps) * 60.0 / f64::from(seconds);
        let suspicious = f64::from(suspicious) / errors.len() as f64;
        println!(
            "{name:25} {:5.2} % {:5.2} % {a_minute:5.2} {:5.1} %",
            100.0 * two,
            100.0 * three,
            100.0 * suspicious
        );
        assert!(
            two < 0.05 && three < 0.005 && a_minute < 1.0 && suspicious < 0.4,
            "{name}"
        );
    }
}

/// Errors of the estimate at some times after a jump, with their claimed deviations. Both are parts
/// of the jump.
struct Jump {
    times: [u64; 6],
    errors: [Vec<(f64, f64)>; 6],
    /// When the estimate first differed from the old power by half a deviation, in ms, sorted.
    seen: Vec<u64>,
}

impl Jump {
    /// Jumps by a part of the power. If the estimator is to expect the jump, `announced` is the
    /// relative error of the expectation.
    fn run(setup: &Setup, part: f64, announced: Option<f64>) -> Self {
        let mut jump = Self {
            times: [60, 100, 150, 200, 300, 500],
            errors: Default::default(),
            seen: Vec::new(),
        };
        for seed in 0..PLANTS {
            let mut random = Random::new(9_000 + seed);
            let power = random.between(15e3, 40e3);
            let mut plant = Plant::new(setup, power, 90_000 + seed);
            plant.run(4_000 + random.between(0.0, 100.0) as u64);
            if let Some(error) = announced {
                plant.update();
                let expected = 1.0 + part * (1.0 + error * random.normal());
                plant.estimator.expect_change(expected as f32);
            }
            plant.power = power * (1.0 + part);
            let start = plant.now;
            let mut seen = None;
            for (time, errors) in jump.times.iter().zip(&mut jump.errors) {
                while plant.now < start + time {
                    plant.pass();
                    let (error, deviation) = plant.error();
                    let change = (error + plant.power - power) * part.signum();
                    if seen.is_none() && change > 0.5 * deviation {
                        seen = Some(plant.now - start);
                    }
                }
                let (error, deviation) = plant.error();
                errors.push((error / (power * part), deviation / (power * part.abs())));
            }
            jump.seen.push(seen.unwrap_or(u64::MAX));
        }
        jump.seen.sort_unstable();
        jump
    }

    fn show(&self, name: &str) {
        let quantile = |part: f64| self.seen[((self.seen.len() - 1) as f64 * part) as usize];
        println!(
            "{name}: seen after {} ms at the median, 90 % after {} ms",
            quantile(0.5),
            quantile(0.9)
        );
        for (time, errors) in self.times.iter().zip(&self.errors) {
            let (bias, spread) = moments(errors);
            let claimed =
                errors.iter().map(|(_, deviation)| deviation).sum::<f64>() / errors.len() as f64;
            println!(
                "   {time} ms: {:6.1} ± {:.1} % of the jump, claimed {:.1}; \
                 beyond 2 and 3 deviations: {:.1} % {:.1} %",
                100.0 * bias,
                100.0 * spread,
                100.0 * claimed,
                100.0 * share(errors, 2.0),
                100.0 * share(errors, 3.0),
            );
        }
    }
}

/// Mean and standard deviation.
fn moments(errors: &[(f64, f64)]) -> (f64, f64) {
    let n = errors.len() as f64;
    let mean = errors.iter().map(|(error, _)| error).sum::<f64>() / n;
    let squares = errors.iter().map(|(error, _)| (error - mean).powi(2));
    (mean, (squares.sum::<f64>() / n).sqrt())
}

#[test]
fn a_jump_of_a_tenth_is_seen_within_90_ms() {
    for (name, setup) in sensors() {
        for part in [0.1, -0.1] {
            let jump = Jump::run(&setup, part, None);
            jump.show(&format!("{name}, {:+.0} %", 100.0 * part));
            let [.., at_200, at_300, at_500] = &jump.errors;
            let median = jump.seen[jump.seen.len() / 2];
            assert!(median <= 90, "{name}: {median} ms");
            let (early, late) = (moments(at_200).0, moments(at_500).0);
            let is_close = early.abs() < 0.15 && late.abs() < 0.05;
            assert!(is_close, "{name}: {early} {late}");
            let (early, late) = (share(at_300, 3.0), share(at_500, 3.0));
            assert!(early < 0.05 && late < 0.03, "{name}: {early} {late}");
        }
    }
}

#[test]
fn an_expected_change_is_estimated_within_200_ms() {
    for (name, setup) in sensors() {
        for part in [0.3, -0.2] {
            let jump = Jump::run(&setup, part, Some(0.3));
            jump.show(&format!(
                "{name}, {:+.0} % as expected ± 30 %",
                100.0 * part
            ));
            for (errors, bias, spread) in
                [(&jump.errors[1], 0.05, 0.25), (&jump.errors[3], 0.03, 0.15)]
            {
                let (found, around) = moments(errors);
                let is_close = found.abs() < bias && around < spread;
                assert!(is_close, "{name}: {found} ± {around}");
                let (two, three) = (share(errors, 2.0), share(errors, 3.0));
                assert!(two < 0.15 && three < 0.03, "{name}: {two} {three}");
            }
        }
    }
}
