//! The governor holds its limit over random plants, and is safe when it cannot know.

use proptest::prelude::*;
use wattgate_runtime::{
    Average, Budget, Cause, Command, Front, Governor, GovernorError, Input, Limit, Milliseconds,
    Milliwatts, ModeId, Model, Reading, Sample, Settings, State, UP_EVERY, UPS,
};

/// The points of the front.
const POINTS: usize = 128;

fn front() -> Front<POINTS> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../weights/orin-agx-64-resnet18.wgt"
    );
    let file = std::fs::read(file).expect("the shipped model");
    let model = Model::parse(&file).expect("a valid model");
    Front::of(&model, &model.profiled())
}

fn limit(milliwatts: u32) -> Limit {
    Limit::of(Milliwatts(milliwatts))
}

/// xorshift64 (Marsaglia 2003), for a number in 0 … 1 that belongs to a place.
fn random(seed: u64, place: u64) -> f64 {
    let mut state = (seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15)) | 1;
    for _ in 0..3 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    (state >> 11) as f64 / (1_u64 << 53) as f64
}

/// A chip of the sensor, which measures a share of the board's power.
struct Chip {
    share: f64,
    period_ms: u64,
    next_ms: u64,
    energy_mj: f64,
    shown: Reading,
}

impl Chip {
    /// Its period is off the nominal one by up to a twelfth.
    fn new(share: f64, nominal_ms: u64, seed: u64) -> Self {
        let period = nominal_ms as f64 * (1.0 + (2.0 * random(seed, 3) - 1.0) / 12.0);
        Self {
            share,
            period_ms: period as u64,
            next_ms: 1 + (random(seed, 1) * period) as u64,
            energy_mj: 0.0,
            shown: Reading::default(),
        }
    }
}

/// A board that draws what the model predicts, but for a common factor, an error of each mode and
/// noise; and the sensor, clocks and loop around the governor.
struct Plant {
    governor: Governor<POINTS>,
    seed: u64,
    /// Measured over predicted power.
    factor: f64,
    /// Greatest error of a mode, and of a result.
    spread: f64,
    noise: f64,
    chips: Vec<Chip>,
    now_ms: u64,
    next_step_ms: u64,
    /// The mode that the board is in, and the one it will be in.
    mode: ModeId,
    coming: Option<(u64, ModeId)>,
    /// Faults.
    sensor_works: bool,
    writes_work: fn(ModeId) -> bool,
    /// What happened.
    over_ms: u64,
    longest_over_ms: u64,
    modes: Vec<(u64, ModeId)>,
}

impl Plant {
    fn new(milliwatts: u32, seed: u64) -> Self {
        let front = front();
        let mode = front.points()[0].mode;
        let governor = Governor::new(front, Settings::default(), limit(milliwatts));
        Self {
            governor: governor.expect("a front with power"),
            seed,
            factor: 1.0,
            spread: 0.0,
            noise: 0.0,
            chips: vec![Chip::new(1.0, 430, seed)],
            now_ms: 0,
            next_step_ms: 0,
            mode,
            coming: None,
            sensor_works: true,
            writes_work: |_| true,
            over_ms: 0,
            longest_over_ms: 0,
            modes: Vec::new(),
        }
    }

    /// A sensor of another period, and with a second chip that measures a share.
    fn with_sensor(milliwatts: u32, seed: u64, period_ms: u64, share: f64) -> Self {
        let settings = Settings {
            period: Milliseconds(period_ms),
            ..Settings::default()
        };
        let mut plant = Self::new(milliwatts, seed);
        let governor = Governor::new(front(), settings, limit(milliwatts));
        plant.governor = governor.expect("a front with power");
        plant.chips = vec![Chip::new(1.0 - share, period_ms, seed)];
        if share > 0.0 {
            plant.chips.push(Chip::new(share, period_ms, !seed));
        }
        plant
    }

    fn milliwatts(&self, mode: ModeId) -> f64 {
        let points = self.governor.front().points();
        let point = points.iter().find(|point| point.mode == mode);
        let error = 1.0 + self.spread * (2.0 * random(self.seed, 2 + u64::from(mode.0)) - 1.0);
        f64::from(point.expect("a mode of the front").power.0) * self.factor * error
    }

    fn status(&self) -> wattgate_runtime::Status {
        self.governor.status()
    }

    /// Runs for some time. Counts how long the power is over the limit, by more than one percent,
    /// which noise can hide.
    fn run(&mut self, milliseconds: u64, milliwatts: u32) {
        for _ in 0..milliseconds {
            self.now_ms += 1;
            if let Some((_, mode)) = self.coming.take_if(|(at, _)| *at <= self.now_ms) {
                self.mode = mode;
            }
            let drawn = self.milliwatts(self.mode);
            self.over_ms = match drawn > 1.01 * f64::from(milliwatts) {
                true => self.over_ms + 1,
                false => 0,
            };
            self.longest_over_ms = self.longest_over_ms.max(self.over_ms);
            for chip in &mut self.chips {
                chip.energy_mj += chip.share * drawn / 1e3;
                if self.now_ms >= chip.next_ms {
                    let place = 1 << 40 | self.now_ms;
                    let noise = 1.0 + self.noise * (2.0 * random(self.seed, place) - 1.0);
                    let mean = chip.energy_mj * 1e3 / chip.period_ms as f64;
                    chip.energy_mj = 0.0;
                    chip.next_ms += chip.period_ms;
                    if self.sensor_works {
                        chip.shown.power = Milliwatts((mean * noise) as u32);
                        chip.shown.result += 1;
                    }
                }
            }
            if self.now_ms >= self.next_step_ms {
                self.step();
            }
        }
    }

    fn step(&mut self) {
        let mut sample = Sample::default();
        for (to, chip) in sample.chips.iter_mut().zip(&self.chips) {
            *to = chip.shown;
        }
        let command = self.governor.step(&Input {
            now: Milliseconds(self.now_ms),
            sample: (self.chips[0].shown.result > 0).then_some(sample),
            mode: self.coming.is_none().then_some(self.mode),
            over_current: false,
            too_hot: false,
        });
        self.next_step_ms = self.governor.due().0;
        if let Command::Apply(mode) = command {
            self.modes.push((self.now_ms, mode));
            if (self.writes_work)(mode) {
                self.coming = Some((self.now_ms + 8, mode));
            }
            self.next_step_ms = self.now_ms + 10;
        }
    }

    /// The longest period of a chip.
    fn period_ms(&self) -> u64 {
        self.chips
            .iter()
            .map(|chip| chip.period_ms)
            .max()
            .unwrap_or(0)
    }

    /// The most commands within a minute.
    fn most_changes_a_minute(&self) -> usize {
        let within = |start: u64| {
            let after = self.modes.iter().filter(move |(at, _)| *at >= start);
            after.take_while(|(at, _)| *at < start + 60_000).count()
        };
        let starts = self.modes.iter().map(|(at, _)| within(*at));
        starts.max().unwrap_or(0)
    }
}

/// The bound on a stretch over the limit: two periods and what a reaction takes.
fn bound_ms(period_ms: u64) -> u64 {
    2 * period_ms + 50
}

/// The most changes that a minute can hold: every up can be followed by a down.
const MOST_CHANGES: usize = 2 * (UPS as usize + (60_000 / UP_EVERY.0) as usize);

/// Another limit fills the store once more; then one up at most comes before the minute is over.
const MOST_CHANGES_OF_TWO_LIMITS: usize = 2 * (2 * UPS as usize + 1);

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64, failure_persistence: None, ..Default::default()
    })]

    /// Whatever the factor of the board, the errors of the model and the noise are.
    #[test]
    fn a_limit_holds(
        seed in any::<u64>(),
        factor in 0.75..1.3,
        spread in 0.0..0.03,
        noise in 0.0..0.01,
        watts in 20_000..50_000_u32,
        period in prop_oneof![Just(54), Just(430)],
        share in prop_oneof![Just(0.0), 0.0..0.5],
    ) {
        let mut plant = Plant::with_sensor(watts, seed, period, share);
        (plant.factor, plant.spread, plant.noise) = (factor, spread, noise);
        plant.run(120_000, watts);
        prop_assert!(plant.longest_over_ms <= bound_ms(plant.period_ms()), "{} ms", plant.longest_over_ms);
        prop_assert!(plant.most_changes_a_minute() <= MOST_CHANGES);
        let status = plant.status();
        prop_assert!(!matches!(status.state, State::Safe(_)), "{status:?}");
    }

    /// Another workload without a word, and another limit.
    #[test]
    fn a_limit_holds_through_changes(
        seed in any::<u64>(),
        spread in 0.0..0.03,
        noise in 0.0..0.01,
        jump in 0.7..1.4,
        at in 5_000..40_000_u64,
        first in 25_000..50_000_u32,
        second in 20_000..50_000_u32,
        period in prop_oneof![Just(54), Just(430)],
        share in prop_oneof![Just(0.0), 0.0..0.5],
    ) {
        let mut plant = Plant::with_sensor(first, seed, period, share);
        (plant.spread, plant.noise) = (spread, noise);
        plant.run(at, first);
        plant.factor = jump;
        plant.run(40_000, first);
        plant.governor.set_limit(limit(second));
        plant.run(40_000, second);
        prop_assert!(plant.longest_over_ms <= bound_ms(plant.period_ms()), "{} ms", plant.longest_over_ms);
        prop_assert!(plant.most_changes_a_minute() <= MOST_CHANGES_OF_TWO_LIMITS);
    }

    /// No result, for as long as it takes; then results again.
    #[test]
    fn loss_of_knowledge_leads_to_the_safe_mode(
        seed in any::<u64>(),
        at in 2_000..30_000_u64,
        watts in 20_000..50_000_u32,
    ) {
        let mut plant = Plant::new(watts, seed);
        plant.run(at, watts);
        plant.sensor_works = false;
        plant.run(2_000, watts);
        prop_assert_eq!(plant.status().state, State::Safe(Cause::NoSensor));
        prop_assert_eq!(plant.mode, plant.governor.front().points()[0].mode);
        plant.sensor_works = true;
        plant.run(120_000, watts);
        prop_assert_eq!(plant.status().state, State::Tracking);
        prop_assert!(plant.milliwatts(plant.mode) > 0.8 * f64::from(watts));
    }

    /// Modes that must not be set are never asked for.
    #[test]
    fn an_excluded_mode_is_never_chosen(
        seed in any::<u64>(),
        excluded in proptest::collection::vec(any::<proptest::sample::Index>(), 1..100),
        watts in 20_000..50_000_u32,
    ) {
        let mut plant = Plant::new(watts, seed);
        let modes: Vec<ModeId> = plant.governor.front().points().iter().map(|p| p.mode).collect();
        // The first one stays: something has to be left.
        let excluded: Vec<ModeId> = excluded.iter().map(|i| modes[1..][i.index(modes.len() - 1)]).collect();
        for mode in &excluded {
            plant.governor.exclude(*mode);
        }
        plant.run(30_000, watts);
        prop_assert!(plant.modes.iter().all(|(_, mode)| !excluded.contains(mode)));
        // Now the one that it is in.
        let wanted = plant.status().mode;
        prop_assume!(wanted != modes[0]);
        plant.governor.exclude(wanted);
        let before = plant.modes.len();
        plant.run(30_000, watts);
        prop_assert!(plant.modes[before..].iter().all(|(_, mode)| *mode != wanted));
        prop_assert!(plant.mode != wanted);
    }

    /// Any input at all: no panic, and only modes of the front.
    #[test]
    fn no_input_breaks_it(
        inputs in proptest::collection::vec(
            (any::<u64>(), any::<Option<(u32, u32)>>(), any::<Option<u16>>(), any::<bool>(), any::<bool>()),
            1..200,
        ),
        power in any::<u32>(),
        average in any::<Option<(u32, u64)>>(),
    ) {
        let average = average.map(|(power, window)| Average {
            power: Milliwatts(power),
            window: Milliseconds(window),
        });
        let limit = Limit { average, ..limit(power) };
        let mut governor = Governor::new(front(), Settings::default(), limit).expect("a front");
        for (now, sample, mode, over_current, too_hot) in inputs {
            let command = governor.step(&Input {
                now: Milliseconds(now),
                sample: sample.map(|(power, result)| Sample::one(Milliwatts(power), result)),
                mode: mode.map(ModeId),
                over_current,
                too_hot,
            });
            if let Command::Apply(mode) = command {
                prop_assert!(governor.front().points().iter().any(|point| point.mode == mode));
            }
        }
    }
}

/// Twenty times what a mode can draw, or nothing.
#[test]
fn an_absurd_result_is_none() {
    for factor in [20.0, 0.01] {
        let mut plant = Plant::new(30_000, 1);
        plant.noise = 0.01;
        plant.run(20_000, 30_000);
        plant.factor = factor;
        plant.run(3_000, 1_000_000);
        assert_eq!(
            plant.status().state,
            State::Safe(Cause::NoSensor),
            "{factor}"
        );
        plant.factor = 1.0;
        plant.run(30_000, 1_000_000);
        assert_eq!(plant.status().state, State::Tracking, "{factor}");
    }
}

#[test]
fn each_mode_settles_before_it_is_tracked() {
    let mut plant = Plant::new(30_000, 1);
    let mut states = Vec::new();
    for _ in 0..100 {
        plant.run(10, 30_000);
        states.push(plant.status().state);
    }
    states.dedup();
    let [first, second, ..] = states[..] else {
        panic!("{states:?}");
    };
    assert_eq!([first, second], [State::Booting, State::Settling]);
    plant.run(10_000, 30_000);
    assert_eq!(plant.status().state, State::Tracking);
    // Somebody else.
    plant.mode = plant.governor.front().points()[0].mode;
    plant.run(200, 30_000);
    assert_eq!(plant.status().state, State::Settling);
}

/// A client that sets one limit after another does not make the board change as often.
#[test]
fn another_limit_brings_ups_but_not_each_one() {
    let mut plant = Plant::new(20_000, 1);
    let mut ups = 0;
    for second in 0..90 {
        let watts = [20_000, 45_000][second % 2];
        plant.governor.set_limit(limit(watts));
        let before = plant.milliwatts(plant.mode);
        plant.run(1_000, watts);
        ups += usize::from(plant.milliwatts(plant.mode) > before);
    }
    let by_time = 90_000 / UP_EVERY.0 as usize;
    assert!(
        (2 * UPS as usize + by_time..=3 * UPS as usize + by_time).contains(&ups),
        "{ups}"
    );
}

/// The first result of a sensor that is as fast as it is looked at holds an unknown part of the
/// mode before.
#[test]
fn one_step_down_is_enough() {
    for seed in 0..100 {
        let mut plant = Plant::with_sensor(45_000, seed, 54, 0.0);
        plant.run(20_000, 45_000);
        plant.modes.clear();
        plant.governor.set_limit(limit(18_000));
        plant.run(400, 18_000);
        assert_eq!(plant.modes.len(), 1, "seed {seed}");
    }
}

/// Of a mode that is new, what was expected of it counts beside the first noisy results.
#[test]
fn noise_does_not_drive_a_board_from_mode_to_mode() {
    let changes = (0..50).map(|seed| {
        let mut plant = Plant::with_sensor(30_000, seed, 54, 0.0);
        plant.noise = 0.045;
        plant.run(60_000, 30_000);
        plant.status().changes
    });
    let changes: u32 = changes.sum();
    assert!(changes < 50 * 44 / 10, "{changes} in 50 minutes");
}

/// By 4.5 times the noise less 2 % of the limit where that is more than 3.1 times the noise. Of
/// uniform noise two results are apart by a third of its width.
#[test]
fn the_more_noise_the_further_below_the_limit() {
    for noise in [0.006, 0.03, 0.06, 0.09] {
        let seeds = 0..40;
        let used = seeds.map(|seed| {
            let mut plant = Plant::with_sensor(30_000, seed, 54, 0.0);
            plant.noise = noise;
            plant.run(60_000, 30_000);
            plant.milliwatts(plant.mode) / 40.0
        });
        let distance = 2.0 * noise / 3.0;
        let margin = f64::max(3.1 * distance, 4.5 * distance - 0.02);
        let (used, most) = (used.sum::<f64>(), 30_000.0 / (1.0 + margin));
        assert!(used <= most, "{noise}: {used:.0} mW, not {most:.0}");
    }
}

/// A second chip that is faster and measures little has results while the first one has none: of
/// these nothing is told of the noise.
#[test]
fn the_noise_of_two_chips_is_no_less_than_that_of_one() {
    let used = |share| {
        let seeds = 0..50;
        let used = seeds.map(|seed| {
            let mut plant = Plant::with_sensor(30_000, seed, 54, share);
            for (chip, period_ms) in plant.chips.iter_mut().zip([58, 50]) {
                chip.period_ms = period_ms;
            }
            plant.noise = 0.045;
            plant.run(60_000, 30_000);
            plant.milliwatts(plant.mode)
        });
        used.sum::<f64>()
    };
    let more = used(0.07) / used(0.0) - 1.0;
    assert!(more < 0.01, "{:.1} % more", 100.0 * more);
}

/// One chip is sooner to tell of all of the rise, and the total has come just up to the limit.
#[test]
fn a_chip_that_tells_first_tells_of_the_others() {
    let mut plant = Plant::with_sensor(26_312, 11_250_786_072_249_919_490, 430, 0.187);
    plant.run(13_798, 26_312);
    plant.factor = 1.173;
    plant.run(10_000, 26_312);
    let longest = plant.longest_over_ms;
    assert!(longest <= bound_ms(plant.period_ms()), "{longest} ms");
}

#[test]
fn a_steady_board_is_used_up_to_its_limit() {
    let mut plant = Plant::new(30_000, 1);
    (plant.factor, plant.noise) = (0.9, 0.01);
    plant.run(120_000, 30_000);
    let drawn = plant.milliwatts(plant.mode);
    assert!((28_000.0..30_000.0).contains(&drawn), "{drawn} mW");
    assert_eq!(plant.status().violations, 0);
}

#[test]
fn a_limit_below_the_least_mode_is_said() {
    let mut plant = Plant::new(5_000, 1);
    plant.run(3_000, 5_000);
    assert_eq!(plant.status().state, State::Safe(Cause::LimitTooLow));
    assert_eq!(plant.mode, plant.governor.front().points()[0].mode);
    plant.governor.set_limit(limit(30_000));
    plant.run(30_000, 30_000);
    assert_eq!(plant.status().state, State::Tracking);
}

#[test]
fn a_mode_that_cannot_be_set_is_left_out() {
    let mut plant = Plant::new(30_000, 1);
    plant.run(10_000, 30_000);
    let odd = |mode: ModeId| mode.0.is_multiple_of(2);
    plant.writes_work = odd;
    plant.governor.set_limit(limit(25_000));
    plant.run(60_000, 30_000);
    assert_eq!(plant.status().state, State::Tracking);
    assert_eq!(plant.status().mode, plant.mode);
    assert!(odd(plant.mode));
}

#[test]
fn another_writer_is_overruled_at_once() {
    let mut plant = Plant::new(30_000, 1);
    plant.run(20_000, 30_000);
    let wanted = plant.status().mode;
    plant.mode = plant
        .governor
        .front()
        .points()
        .last()
        .expect("a point")
        .mode;
    plant.run(120, 1_000_000);
    assert_eq!(plant.mode, wanted);
}

#[test]
fn nothing_can_be_set() {
    let mut plant = Plant::new(30_000, 1);
    plant.writes_work = |_| false;
    plant.coming = Some((u64::MAX, plant.mode));
    plant.run(10_000, 30_000);
    assert_eq!(plant.status().state, State::Safe(Cause::NothingApplies));
    plant.writes_work = |_| true;
    plant.run(120_000, 30_000);
    assert_eq!(plant.status().state, State::Tracking);
    assert!(plant.milliwatts(plant.mode) > 25_000.0);
}

#[test]
fn a_board_that_slept_starts_anew() {
    let mut plant = Plant::new(30_000, 1);
    plant.run(20_000, 30_000);
    plant.now_ms += 60_000;
    plant.chips[0].next_ms += 60_000;
    plant.run(200, 30_000);
    assert_eq!(plant.status().state, State::Settling);
    plant.run(60_000, 30_000);
    assert_eq!(plant.status().state, State::Tracking);
}

#[test]
fn an_average_holds_over_its_window_and_is_used() {
    for window in [20, 60, 300] {
        let mut plant = Plant::new(40_000, 1);
        plant.governor.set_limit(Limit {
            average: Some(Average {
                power: Milliwatts(20_000),
                window: Milliseconds(1_000 * window as u64),
            }),
            ..limit(40_000)
        });
        let drawn: Vec<f64> = (0..5 * window)
            .map(|_| {
                let tenths = (0..10).map(|_| {
                    plant.run(100, 40_000);
                    plant.milliwatts(plant.mode) / 10.0
                });
                tenths.sum()
            })
            .collect();
        // The store is full at first; later every window holds.
        let windows = drawn[window..].windows(window);
        let means: Vec<f64> = windows
            .map(|w| w.iter().sum::<f64>() / w.len() as f64)
            .collect();
        let most = means.iter().copied().fold(0.0, f64::max);
        let mean = means.iter().sum::<f64>() / means.len() as f64;
        assert!(most <= 20_000.0 * 1.02, "{window} s: {most} mW");
        assert!(mean >= 20_000.0 * 0.92, "{window} s: {mean} mW");
    }
}

/// When it is spent, the least mode is all that is left to do.
#[test]
fn a_budget_lasts_for_its_time_and_is_used() {
    let budget = Budget {
        millijoules: 25_000 * 600,
        time: Milliseconds(600_000),
    };
    assert_eq!(budget.mean(), Milliwatts(25_000));
    let mut plant = Plant::new(40_000, 1);
    let limit = Limit {
        budget: Some(budget),
        ..limit(40_000)
    };
    plant.governor.set_limit(limit);
    let mut spent = 0.0;
    for _ in 0..600 {
        plant.run(1_000, 40_000);
        spent += plant.milliwatts(plant.mode);
        // As it was set before: nothing begins anew.
        plant.governor.set_limit(limit);
    }
    let part = spent / budget.millijoules as f64;
    assert!((0.95..1.0).contains(&part), "{part} of the budget");
    plant.run(120_000, 40_000);
    assert_eq!(plant.status().state, State::Safe(Cause::LimitTooLow));
}

#[test]
fn with_another_front_what_was_spent_stays_spent() {
    let mut plant = Plant::new(40_000, 1);
    plant.governor.set_limit(Limit {
        budget: Some(Budget {
            millijoules: 30_000 * 600,
            time: Milliseconds(600_000),
        }),
        ..limit(40_000)
    });
    plant.run(50_000, 40_000);
    let before = plant.status();
    plant
        .governor
        .set_front(front())
        .expect("a front with power");
    assert_eq!(plant.status().state, State::Booting);
    assert_eq!(plant.status().allowed, before.allowed);
    assert_eq!(plant.status().changes, before.changes);
    let empty = plant.governor.set_front(Front::new());
    assert_eq!(empty, Err(GovernorError::NoPower));
    plant.run(20_000, 40_000);
    assert_eq!(plant.status().state, State::Tracking);
}

/// It is read back as before: only the chip tells nothing new.
#[test]
fn a_chip_that_falls_silent_is_missed_by_what_it_carries() {
    for (share, seconds) in [(0.4, 2), (0.6, 17)] {
        let mut plant = Plant::with_sensor(30_000, 1, 430, share);
        plant.noise = 0.01;
        plant.run(20_000, 30_000);
        assert_eq!(plant.status().state, State::Tracking);
        // The first one has the rest.
        plant.chips[0].next_ms = u64::MAX;
        plant.run(1_000 * seconds, 30_000);
        assert_eq!(
            plant.status().state,
            State::Safe(Cause::NoSensor),
            "{share}"
        );
    }
    let mut plant = Plant::with_sensor(30_000, 1, 430, 0.96);
    plant.noise = 0.01;
    plant.run(20_000, 30_000);
    plant.chips[0].next_ms = u64::MAX;
    plant.run(60_000, 30_000);
    assert_eq!(plant.status().state, State::Tracking);
}

/// As when somebody sets how many samples it averages.
#[test]
fn a_sensor_with_another_period_is_followed() {
    let mut plant = Plant::new(30_000, 1);
    plant.noise = 0.01;
    plant.run(20_000, 30_000);
    let period = plant.governor.set_period(Milliseconds(0));
    assert_eq!(period, Err(GovernorError::Settings));
    plant
        .governor
        .set_period(Milliseconds(54))
        .expect("in range");
    plant.chips = vec![Chip::new(1.0, 54, 1)];
    plant.chips[0].next_ms += plant.now_ms;
    plant.run(20_000, 30_000);
    assert_eq!(plant.status().state, State::Tracking);
    plant.longest_over_ms = 0;
    plant.factor = 1.25;
    plant.run(20_000, 30_000);
    assert!(
        plant.longest_over_ms <= bound_ms(59),
        "{} ms",
        plant.longest_over_ms
    );
}

#[test]
fn with_every_mode_excluded_nothing_is_set() {
    let mut plant = Plant::new(30_000, 1);
    for point in front().points() {
        plant.governor.exclude(point.mode);
    }
    plant.run(10_000, 30_000);
    assert!(plant.modes.is_empty());
    let expected = State::Safe(Cause::NothingApplies);
    assert_eq!(plant.status().state, expected);
}

#[test]
fn settings_out_of_range_are_refused() {
    let good = Settings::default();
    let governor = |settings| Governor::new(front(), settings, limit(30_000)).map(|_| ());
    assert_eq!(governor(good), Ok(()));
    let bad = [
        Settings {
            period: Milliseconds(0),
            ..good
        },
        Settings {
            period: Milliseconds(60_001),
            ..good
        },
        Settings {
            near_margin: (1 << 16) + 1,
            ..good
        },
    ];
    for settings in bad {
        assert_eq!(governor(settings), Err(GovernorError::Settings));
    }
}

#[test]
fn a_governor_needs_power() {
    let empty = Front::<4>::new();
    let governor = Governor::new(empty, Settings::default(), limit(1));
    assert_eq!(governor.map(|_| ()), Err(GovernorError::NoPower));
}
