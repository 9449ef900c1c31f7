//! The estimator beside plants whose power is known: a low-pass, rounding, ripple, chips whose clocks
//! are off, and looks that are late or missing.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use wattgate_runtime::{Chip, Estimator, MOST_CHIPS, Milliseconds, Milliwatts, Sample};

/// xorshift64 (Marsaglia 2003).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| _ = random.unit());
        random
    }

    /// 0 … 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.unit()
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// A sensor and how it is looked at.
#[derive(Clone, Debug)]
struct Setup {
    time_constant: u64,
    /// The steps of the rails of each chip in mW.
    chips: Vec<Vec<f64>>,
    /// By what part the time constant of each chip may be off.
    clocks: f64,
    /// From one look to the next in ms.
    looks: (f64, f64),
    /// The part of the looks that are missing.
    missing: f64,
    /// Standard deviation of the means of 10 ms, as part of the power.
    ripple: f64,
}

/// Of an AGX Orin at 12 V, as the governor looks at it, with the ripple of a busy load.
fn agx_orin() -> Setup {
    Setup {
        time_constant: 430,
        chips: vec![vec![240.0, 240.0]],
        clocks: 0.05,
        looks: (16.0, 34.0),
        missing: 0.0,
        ripple: 0.06,
    }
}

impl Setup {
    /// What rounding may hide of the whole power: half a step of each rail.
    fn half_steps(&self) -> f64 {
        self.chips.iter().flatten().sum::<f64>() / 2.0
    }
}

/// A board that draws a power, and an estimator that looks at it.
struct Plant {
    setup: Setup,
    estimator: Estimator,
    random: Random,
    /// Calm power in mW, before ripple.
    power: f64,
    ripple: f64,
    /// Shares of the rails in the power, and their registers.
    rails: Vec<Vec<(f64, f64)>>,
    time_constants: Vec<f64>,
    now: u64,
    next_look: u64,
    last_look: u64,
    /// What was drawn up to each millisecond in µJ.
    drawn: Vec<f64>,
}

impl Plant {
    /// At rest at a power.
    fn new(setup: &Setup, power: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut rails: Vec<Vec<(f64, f64)>> = setup
            .chips
            .iter()
            .map(|chip| {
                chip.iter()
                    .map(|_| (random.between(0.5, 1.5), 0.0))
                    .collect()
            })
            .collect();
        let sum: f64 = rails.iter().flatten().map(|(share, _)| share).sum();
        for (share, register) in rails.iter_mut().flatten() {
            *share /= sum;
            *register = *share * power;
        }
        let mut chips = [Chip {
            time_constant: Milliseconds(setup.time_constant),
            step: Milliwatts(0),
        }; MOST_CHIPS];
        for (chip, steps) in chips.iter_mut().zip(&setup.chips) {
            let squares: f64 = steps.iter().map(|step| step * step).sum();
            chip.step = Milliwatts(squares.sqrt() as u32);
        }
        let mut plant = Self {
            setup: setup.clone(),
            estimator: Estimator::new(chips),
            random,
            power,
            ripple: 1.0,
            rails,
            time_constants: Vec::new(),
            now: 0,
            next_look: 0,
            last_look: 0,
            drawn: vec![0.0],
        };
        plant.set_time_constant(setup.time_constant);
        plant
    }

    fn set_time_constant(&mut self, time_constant: u64) {
        let clocks = self.setup.clocks;
        let of_chips = self.setup.chips.iter();
        let time_constants = of_chips
            .map(|_| time_constant as f64 * (1.0 + clocks * self.random.between(-1.0, 1.0)));
        self.time_constants = time_constants.collect();
        self.setup.time_constant = time_constant;
        for chip in 0..self.rails.len() {
            self.estimator
                .set_time_constant(chip, Milliseconds(time_constant));
        }
    }

    fn sample(&self) -> Sample {
        let mut sample = Sample::default();
        let chips = self.rails.iter().zip(&self.setup.chips);
        for (shown, (rails, steps)) in sample.chips.iter_mut().zip(chips) {
            let rounded = rails
                .iter()
                .zip(steps)
                .map(|((_, register), step)| (register / step).round() * step);
            *shown = Milliwatts(rounded.sum::<f64>().round() as u32);
        }
        sample
    }

    /// A millisecond passes. Returns whether there was a look.
    fn pass(&mut self) -> bool {
        self.now += 1;
        if self.now.is_multiple_of(10) {
            self.ripple = 1.0 + self.setup.ripple * self.random.normal().clamp(-3.0, 3.0);
        }
        let power = self.power * self.ripple;
        self.drawn.push(self.drawn[self.drawn.len() - 1] + power);
        for (rails, time_constant) in self.rails.iter_mut().zip(&self.time_constants) {
            let part = 1.0 - (-1.0 / time_constant.max(1e-3)).exp();
            for (share, register) in rails {
                *register += (*share * power - *register) * part;
            }
        }
        if self.now < self.next_look {
            return false;
        }
        let (least, most) = self.setup.looks;
        self.next_look = self.now + self.random.between(least, most) as u64;
        if self.random.unit() < self.setup.missing {
            return false;
        }
        self.look();
        true
    }

    fn look(&mut self) {
        self.last_look = self.now;
        self.estimator.look(&self.sample(), Milliseconds(self.now));
    }

    fn run(&mut self, ms: u64) {
        (0..ms).for_each(|_| _ = self.pass());
    }

    /// The estimate less the calm power, and the deviation that is claimed.
    fn error(&self) -> (f64, f64) {
        let estimate = self.estimator.estimate().expect("there were looks");
        let error = f64::from(estimate.power) - self.power;
        (error, f64::from(estimate.deviation))
    }

    /// The true mean over a span up to the last look.
    fn true_mean(&self, span: u64) -> f64 {
        let end = self.last_look as usize;
        (self.drawn[end] - self.drawn[end - span as usize]) / span as f64
    }
}

/// Any plant with a time constant of 54 or 430 ms.
fn setups() -> impl Strategy<Value = Setup> {
    let steps = prop_oneof![Just(40.0), Just(100.0), Just(240.0), Just(400.0)];
    let chip = prop::collection::vec(steps, 1..=3);
    (
        prop_oneof![Just(54_u64), Just(430)],
        prop::collection::vec(chip, 1..=2),
        0.0..0.05,
        10.0..60.0,
        0.0..0.3,
        0.0..0.06,
    )
        .prop_map(
            |(time_constant, chips, clocks, look, missing, ripple)| Setup {
                time_constant,
                chips,
                clocks,
                looks: (look, 1.7 * look),
                missing,
                ripple,
            },
        )
}

/// Something that happens to an estimator.
#[derive(Clone, Debug)]
enum Event {
    Look([u32; MOST_CHIPS], u64),
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
    let looks = (powers(), times());
    prop_oneof![
        12 => looks.prop_map(|(powers, time)| Event::Look(powers, time)),
        1 => (0..6_usize, times()).prop_map(|(chip, time)| Event::TimeConstant(chip, time)),
        1 => powers().prop_map(Event::Steps),
        1 => prop_oneof![any::<f32>(), 0.0_f32..3.0].prop_map(Event::Expect),
        1 => Just(Event::Forget),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_input_breaks_it(
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
                Event::Look(powers, time) => {
                    now = if is_absolute { time } else { now.saturating_add(time) };
                    estimator.look(&Sample { chips: powers.map(Milliwatts) }, Milliseconds(now));
                }
                Event::TimeConstant(chip, time) => estimator.set_time_constant(chip, Milliseconds(time)),
                Event::Steps(steps) => estimator.set_steps(steps.map(Milliwatts)),
                Event::Expect(times) => estimator.expect_change(times),
                Event::Forget => estimator.forget(),
            }
            if let Some(estimate) = estimator.estimate() {
                prop_assert!(estimate.power.is_finite(), "{estimate:?}");
                prop_assert!(estimate.deviation.is_finite() && estimate.deviation >= 0.0, "{estimate:?}");
                let forecast = estimator.forecast(Milliseconds(100)).expect("as there is an estimate");
                prop_assert!(forecast.iter().all(|shown| shown.is_finite()), "{forecast:?}");
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

/// Energy saturates, and a fall of the power makes it negative before: the difference of two energies
/// is out of range then.
#[test]
fn a_mean_of_energy_that_saturates_is_finite() {
    let mut estimator = Estimator::new([Chip::L4T; MOST_CHIPS]);
    let far = u64::MAX / 2;
    for (power, now) in [(10_000_000, 0), (0, 18), (10, far), (10, far + 3)] {
        estimator.look(&Sample::one(Milliwatts(power)), Milliseconds(now));
    }
    let mean = estimator.mean(Milliseconds(430));
    assert!(
        mean.is_some_and(|mean| mean.is_finite() && mean >= 0.0),
        "{mean:?}"
    );
}

/// Looks of 20 ms at a ramp in steps of 40 mW.
fn ramp(estimator: &mut Estimator, looks: std::ops::Range<u64>) {
    for look in looks {
        let shown = Milliwatts(10_000 + 40 * (look as u32 % 50));
        estimator.look(&Sample::one(shown), Milliseconds(20 * look));
    }
}

#[test]
fn steps_that_are_set_count_as_those_from_the_start_and_later_only_from_then_on() {
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
    // What was estimated stays until the next look.
    let before = (never.estimate(), never.energy_uj());
    never.set_steps(steps);
    assert_eq!((never.estimate(), never.energy_uj()), before);
    let span = Milliseconds(430);
    let difference = never.resolution(span) / set.resolution(span) - 1.0;
    assert!(difference.abs() < 0.001, "{difference}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// A steady load, with another number of samples in the middle.
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

    /// The mean of a span is that of the plant, whatever the power does, as far as two readings can
    /// tell: rounding hides up to half a step of each rail at both ends.
    #[test]
    fn the_mean_of_a_span_is_exact(
        setup in setups(), levels in prop::collection::vec(4_000.0..50_000.0, 12), seed in any::<u64>(),
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
                    let mean = f64::from(plant.estimator.mean(Milliseconds(span)).expect("1.5 s passed"));
                    let ends = 2.0 * setup.half_steps() * setup.time_constant as f64 / span as f64;
                    // Between looks the power may have changed at any time.
                    let between = 50_000.0 * setup.looks.1 / span as f64;
                    let error = (mean - plant.true_mean(span)).abs();
                    prop_assert!(error <= ends + setup.half_steps() + 0.3 * between, "{error} mW in {span} ms");
                }
            }
        }
    }

    /// Ten minutes of a load with phases, with late and missing looks and other numbers of samples.
    #[test]
    fn the_energy_of_a_long_run_is_that_of_the_plant(setup in setups(), seed in any::<u64>()) {
        let setup = Setup { clocks: 0.0, ..setup };
        let mut plant = Plant::new(&setup, 10_000.0, seed);
        while plant.now < 600_000 {
            plant.power = plant.random.between(4_000.0, 50_000.0);
            let ms = plant.random.between(100.0, 5_000.0) as u64;
            plant.run(ms);
            if plant.random.unit() < 0.05 {
                plant.look();
                plant.set_time_constant(if plant.setup.time_constant == 54 { 430 } else { 54 });
            }
        }
        plant.look();
        let drawn = plant.drawn[plant.now as usize];
        let error = plant.estimator.energy_uj() as f64 / drawn - 1.0;
        prop_assert!(error.abs() < 0.003, "{} %", 100.0 * error);
    }
}

/// A step of the power, a factor.
fn steps() -> impl Strategy<Value = (Setup, f64, f64, u64)> {
    let times = prop_oneof![0.2..0.7, 1.3..4.0];
    (setups(), 5_000.0..30_000.0, times, any::<u64>())
}

/// Cases of the next test, and those of them that may miss.
const STEPS: usize = 4_000;
const MISSED: usize = 4;

/// Within 10 % of a step after 100 ms, or after what the steps of the rails, the ripple and the
/// clock allow. A register has moved by `S (1 − exp(−t / τ))` then, of which rounding hides half a
/// step of each rail at both ends, and ripple adds `r P √(10 ms · t) / τ`. Seven cases in 20,000 miss
/// that, and know it: the error is within what the estimate says of itself.
#[test]
fn a_step_is_known_as_soon_as_rounding_allows() {
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
        plant.run(allowed + setup.looks.1 as u64);
        let mut worst = 0.0_f64;
        for _ in 0..500 {
            if plant.pass() {
                let (error, deviation) = plant.error();
                worst = worst.max(error.abs() / step.abs());
                let is_known = error.abs() < f64::max(0.1 * step.abs(), 4.0 * deviation);
                let told = format!("{error} mW ± {deviation} of a step of {step}");
                assert!(is_known, "{told} after {allowed} ms, seed {seed}");
            }
        }
        if worst >= 0.1 {
            missed.push((seed, worst));
        }
    }
    assert!(missed.len() <= MISSED, "{missed:?}");
}

/// The sensors that the figures below are of.
fn sensors() -> [(&'static str, Setup); 5] {
    let agx = agx_orin();
    let rails = Setup {
        chips: vec![vec![240.0], vec![240.0]],
        ..agx.clone()
    };
    let three = Setup {
        chips: vec![vec![240.0; 3]],
        ..agx.clone()
    };
    let fast = Setup {
        time_constant: 54,
        ..agx.clone()
    };
    let nano = Setup {
        chips: vec![vec![40.0]],
        ..agx.clone()
    };
    [
        ("sum of 2 rails of 240 mW", agx),
        ("2 rails of 240 mW", rails),
        ("sum of 3 rails of 240 mW", three),
        ("2 rails, 64 samples", fast),
        ("1 rail of 40 mW", nano),
    ]
}

/// Plants of which each figure below is the mean.
const PLANTS: u64 = 200;

fn share(values: &[(f64, f64)], deviations: f64) -> f64 {
    let beyond = values
        .iter()
        .filter(|(error, deviation)| error.abs() > deviations * deviation);
    beyond.count() as f64 / values.len() as f64
}

#[test]
fn steady_power_looks_steady() {
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
                    steps += u32::from(since.replace(now.expect("a level")) != now);
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

/// Errors after a jump as part of it, with their deviations, at some times after it.
struct Jump {
    times: [u64; 6],
    errors: [Vec<(f64, f64)>; 6],
    /// When the power less half a deviation was above the old power first, in ms.
    seen: Vec<u64>,
}

impl Jump {
    /// By a part of the power, of which the estimator is told up to an error.
    fn of(setup: &Setup, part: f64, told: Option<f64>) -> Self {
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
            if let Some(error) = told {
                plant.look();
                let believed = 1.0 + part * (1.0 + error * random.normal());
                plant.estimator.expect_change(believed as f32);
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
            "{name}: above the old power after {} ms, 90 % after {} ms",
            quantile(0.5),
            quantile(0.9)
        );
        for (time, errors) in self.times.iter().zip(&self.errors) {
            let (bias, spread) = moments(errors);
            let claimed =
                errors.iter().map(|(_, deviation)| deviation).sum::<f64>() / errors.len() as f64;
            println!(
                "   {time} ms: {:6.1} ± {:.1} % of the jump, claims {:.1}; beyond 2 and 3: {:.1} % {:.1} %",
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
fn a_jump_of_a_tenth_is_seen_soon() {
    for (name, setup) in sensors() {
        for part in [0.1, -0.1] {
            let jump = Jump::of(&setup, part, None);
            jump.show(&format!("{name}, {:+.0} %", 100.0 * part));
            let [.., at_200, at_300, at_500] = &jump.errors;
            assert!(
                jump.seen[jump.seen.len() / 2] <= 90,
                "{name}: {} ms",
                jump.seen[jump.seen.len() / 2]
            );
            let (early, late) = (moments(at_200).0, moments(at_500).0);
            assert!(
                early.abs() < 0.15 && late.abs() < 0.05,
                "{name}: {early} {late}"
            );
            assert!(
                share(at_300, 3.0) < 0.05 && share(at_500, 3.0) < 0.03,
                "{name}"
            );
        }
    }
}

#[test]
fn a_change_of_mode_is_known_soon() {
    for (name, setup) in sensors() {
        for part in [0.3, -0.2] {
            let jump = Jump::of(&setup, part, Some(0.3));
            jump.show(&format!(
                "{name}, {:+.0} % as expected ± 30 %",
                100.0 * part
            ));
            for (errors, bias, spread) in
                [(&jump.errors[1], 0.05, 0.25), (&jump.errors[3], 0.03, 0.15)]
            {
                let (found, around) = moments(errors);
                assert!(
                    found.abs() < bias && around < spread,
                    "{name}: {found} ± {around}"
                );
                assert!(
                    share(errors, 2.0) < 0.15 && share(errors, 3.0) < 0.03,
                    "{name}"
                );
            }
        }
    }
}

#[test]
fn errors_of_the_mean_are_within_the_resolution() {
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
                (squares, claimed, n) = (
                    squares + error * error,
                    claimed + resolution * resolution,
                    n + 1.0,
                );
            }
        }
        let (error, resolution) = ((squares / n).sqrt(), (claimed / n).sqrt());
        println!("{name}: mean of 430 ms {error:.0} mW off, resolution {resolution:.0} mW");
        assert!(error < resolution, "{name}");
    }
}
