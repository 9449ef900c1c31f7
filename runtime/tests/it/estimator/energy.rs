//! Energy and the mean power over a span are exact up to rounding.

use proptest::prelude::*;
use wattgate_runtime::estimator::{Chip, Estimator, MOST_CHIPS};
use wattgate_runtime::{Milliseconds, Milliwatts, Sample};

use crate::estimator::plant::{Plant, Setup, sensors, setups};

/// The estimator keeps no two energies closer than this (`SPAN_MS` in `estimator/energy.rs`).
const SPACING_MS: f64 = 18.0;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// The mean over a span needs no model of the power. Its error is due to rounding of the
    /// readings at both ends, and to a change at the span's start. There the energy is interpolated
    /// between two samples that are up to [`SPACING_MS`] and a sample apart, so that at most a quarter of
    /// what the change adds between them is on the wrong side.
    #[test]
    fn the_mean_of_a_span_is_exact_up_to_rounding(
        setup in setups(),
        levels in prop::collection::vec(4_000.0..50_000.0, 12),
        seed in any::<u64>(),
    ) {
        let setup = Setup { clocks: 0.0, missing: 0.0, ..setup };
        let mut plant = Plant::new(&setup, levels[0], seed);
        plant.run(1_500);
        for level in levels {
            plant.power = level;
            for _ in 0..400 {
                if !plant.pass() {
                    continue;
                }
                for span in [200, 430, 900] {
                    let mean = plant.estimator.mean(Milliseconds(span)).expect("1.5 s passed");
                    let error = (f64::from(mean) - plant.true_mean(span)).abs();
                    let rounding = setup.half_steps();
                    let ends = 2.0 * rounding * setup.time_constant as f64 / span as f64;
                    let apart = SPACING_MS + setup.intervals.1;
                    let start = 0.25 * 50_000.0 * apart / span as f64;
                    let most = ends + rounding + start;
                    prop_assert!(error <= most, "{error} mW over {span} ms, expected {most}");
                }
            }
        }
    }

    /// Ten minutes of a load with phases, with late and missing samples and changes of the time
    /// constant.
    #[test]
    fn the_energy_of_a_long_run_is_exact(setup in setups(), seed in any::<u64>()) {
        let setup = Setup { clocks: 0.0, ..setup };
        let mut plant = Plant::new(&setup, 10_000.0, seed);
        while plant.now < 600_000 {
            plant.power = plant.random.between(4_000.0, 50_000.0);
            let ms = plant.random.between(100.0, 5_000.0) as u64;
            plant.run(ms);
            if plant.random.unit() < 0.05 {
                plant.update();
                plant.set_time_constant(if plant.setup.time_constant == 54 { 430 } else { 54 });
            }
        }
        plant.update();
        let drawn = plant.drawn[plant.now as usize];
        let error = plant.estimator.energy_uj() as f64 / drawn - 1.0;
        prop_assert!(error.abs() < 0.003, "{} %", 100.0 * error);
    }
}

#[test]
fn the_error_of_the_mean_is_within_the_claimed_resolution() {
    for (name, setup) in sensors() {
        let setup = Setup {
            clocks: 0.0,
            ripple: 0.01,
            ..setup
        };
        let (mut squares, mut claimed, mut n) = (0.0, 0.0, 0.0);
        for seed in 0..40 {
            let mut plant = Plant::new(&setup, 20e3, 5_000 + seed);
            for _ in 0..20 {
                plant.power = plant.random.between(15e3, 40e3);
                plant.run(1_000);
                let mean = plant.estimator.mean(Milliseconds(430)).expect("1 s passed");
                let error = f64::from(mean) - plant.true_mean(430);
                let resolution = f64::from(plant.estimator.resolution(Milliseconds(430)));
                squares += error * error;
                claimed += resolution * resolution;
                n += 1.0;
            }
        }
        let (error, resolution) = ((squares / n).sqrt(), (claimed / n).sqrt());
        println!("{name}: error of the mean {error:.0} mW, resolution {resolution:.0} mW");
        assert!(error < resolution, "{name}");
    }
}

/// The power falls to half at the begin of a gap in the readings of one second.
#[test]
fn the_energy_of_a_gap_is_that_of_a_constant_power() {
    for time_constant in [54, 430] {
        let chip = Chip {
            time_constant: Milliseconds(time_constant),
            step: Milliwatts(1),
        };
        let mut estimator = Estimator::new([chip; MOST_CHIPS]);
        for now in 0..200 {
            estimator.update(&Sample::one(Milliwatts(40_000)), Milliseconds(10 * now));
        }
        let before = estimator.energy_uj();
        let left = (-1_000.0 / time_constant as f64).exp();
        let register = 20_000.0 + 20_000.0 * left;
        estimator.update(
            &Sample::one(Milliwatts(register.round() as u32)),
            Milliseconds(1_990 + 1_000),
        );
        let millijoules = (estimator.energy_uj() - before) / 1_000;
        assert!(
            (19_900..20_100).contains(&millijoules),
            "{time_constant} ms: {millijoules} mJ"
        );
    }
}
