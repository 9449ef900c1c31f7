//! Calls with any arguments, and changes of the sensor's settings.

use proptest::prelude::*;
use wattgate_runtime::estimator::{Chip, Estimator, MOST_CHIPS};
use wattgate_runtime::{Milliseconds, Milliwatts, Sample};

/// A call of an estimator.
#[derive(Clone, Debug)]
enum Event {
    Sample([u32; MOST_CHIPS], u64),
    TimeConstant(usize, u64),
    Steps([u32; MOST_CHIPS]),
    Expect(f32),
    Forget,
}

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0..2_000_u64, 2 => 0..100_000_u64, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}

fn events() -> impl Strategy<Value = Event> {
    let power =
        prop_oneof![4 => 0..60_000_u32, 1 => any::<u32>(), 1 => Just(0), 1 => Just(u32::MAX)];
    let powers = || prop::array::uniform4(power.clone());
    let samples = (powers(), times());
    prop_oneof![
        12 => samples.prop_map(|(powers, time)| Event::Sample(powers, time)),
        1 => (0..6_usize, times()).prop_map(|(chip, time)| Event::TimeConstant(chip, time)),
        1 => powers().prop_map(Event::Steps),
        1 => prop_oneof![any::<f32>(), 0.0_f32..3.0].prop_map(Event::Expect),
        1 => Just(Event::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_input_gives_finite_results(
        chips in prop::array::uniform4((times(), prop_oneof![0..2_000_u32, any::<u32>()])),
        is_absolute in any::<bool>(),
        events in prop::collection::vec(events(), 1..200),
    ) {
        let chips = chips.map(|(time_constant, step)| Chip {
            time_constant: Milliseconds(time_constant),
            step: Milliwatts(step),
        });
        let mut estimator = Estimator::new(chips);
        let mut now = 0_u64;
        for event in events {
            match event {
                Event::Sample(powers, time) => {
                    now = if is_absolute { time } else { now.saturating_add(time) };
                    estimator.update(&Sample::from_chips(powers.map(Milliwatts)), Milliseconds(now));
                }
                Event::TimeConstant(chip, time) => {
                    estimator.set_time_constant(chip, Milliseconds(time));
                }
                Event::Steps(steps) => estimator.set_steps(steps.map(Milliwatts)),
                Event::Expect(times) => estimator.expect_change(times),
                Event::Forget => estimator.forget(),
            }
            if let Some(estimate) = estimator.estimate() {
                prop_assert!(estimate.power.is_finite(), "{estimate:?}");
                let deviation = estimate.deviation;
                prop_assert!(deviation.is_finite() && deviation >= 0.0, "{estimate:?}");
                let forecast = estimator.forecast(Milliseconds(100)).expect("an estimate exists");
                prop_assert!(forecast.iter().all(|power| power.is_finite()), "{forecast:?}");
            }
            for span in [0, 1, 430, u64::MAX].map(Milliseconds) {
                prop_assert!(estimator.mean(span).is_none_or(f32::is_finite));
                prop_assert!(estimator.resolution(span).is_finite());
                prop_assert!(estimator.ripple(span).is_finite());
            }
            estimator.is_suspicious();
            estimator.energy_uj();
        }
    }
}

/// A fall of the power makes the energy negative before it saturates. After a time so long, no mean reaches back.
#[test]
fn the_mean_begins_anew_when_the_energy_saturates() {
    let mut estimator = Estimator::new([Chip::L4T; MOST_CHIPS]);
    let far = u64::MAX / 2;
    for (power, now) in [(10_000_000, 0), (0, 18), (10, far), (10, far + 3)] {
        estimator.update(&Sample::one(Milliwatts(power)), Milliseconds(now));
    }
    assert_eq!(estimator.mean(Milliseconds(430)), None);
    for sample in 1..30 {
        let now = Milliseconds(far + 20 * sample);
        estimator.update(&Sample::one(Milliwatts(10)), now);
    }
    let mean = estimator.mean(Milliseconds(430)).expect("readings");
    // A step of the readings is 40 mW.
    assert!((mean - 10.0).abs() < 20.0, "{mean}");
}

/// Feeds a ramp with steps of 40 mW, one sample every 20 ms.
fn ramp(estimator: &mut Estimator, samples: std::ops::Range<u64>) {
    for sample in samples {
        let shown = Milliwatts(10_000 + 40 * (sample as u32 % 50));
        estimator.update(&Sample::one(shown), Milliseconds(20 * sample));
    }
}

#[test]
fn set_steps_applies_from_the_next_look_on() {
    let coarse = Chip {
        step: Milliwatts(100),
        ..Chip::L4T
    };
    let chips = [coarse; MOST_CHIPS];
    let steps = [Chip::L4T.step; MOST_CHIPS];
    let mut from_the_start = Estimator::new([Chip::L4T; MOST_CHIPS]);
    let mut set = Estimator::new(chips);
    set.set_steps(steps);
    let mut never = Estimator::new(chips);
    for estimator in [&mut from_the_start, &mut set, &mut never] {
        ramp(estimator, 0..100);
    }
    assert_eq!(set.estimate(), from_the_start.estimate());
    assert_ne!(set.estimate(), never.estimate());
    // The estimate stays until the next sample.
    let before = (never.estimate(), never.energy_uj());
    never.set_steps(steps);
    assert_eq!((never.estimate(), never.energy_uj()), before);
    let span = Milliseconds(430);
    let difference = never.resolution(span) / set.resolution(span) - 1.0;
    assert!(difference.abs() < 0.001, "{difference}");
}
