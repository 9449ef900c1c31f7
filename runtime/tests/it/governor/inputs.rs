//! No input causes a panic, and settings out of range are refused.

use proptest::bool::weighted;
use proptest::prelude::*;
use wattgate_runtime::estimator::{Chip, MOST_CHIPS};
use wattgate_runtime::governor::{Average, Budget};
use wattgate_runtime::{
    Command, Confidence, Front, Governor, GovernorError, Input, Limit, Milliseconds, Milliwatts,
    ModeId, Model, Sample, Settings,
};

use crate::plant::{POINTS, Plant, front, governor, limit};

/// Any number, small ones more often.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        4 => 0..100_u64,
        2 => 0..10_000_u64,
        1 => any::<u64>(),
        1 => Just(u64::MAX),
        1 => Just(0),
    ]
}

/// Any power in mW, plausible ones more often.
fn power() -> impl Strategy<Value = u32> {
    prop_oneof![
        6 => 5_000..60_000_u32,
        1 => any::<u32>(),
        1 => Just(u32::MAX),
        1 => Just(0),
    ]
}

fn sample() -> impl Strategy<Value = Option<Sample>> {
    let chips = [power(), power(), power(), power()];
    prop_oneof![
        4 => power().prop_map(|power| Some(Sample::one(Milliwatts(power)))),
        2 => chips.prop_map(|chips| Some(Sample::from_chips(chips.map(Milliwatts)))),
        1 => Just(None),
    ]
}

fn any_limit() -> impl Strategy<Value = Limit> {
    let average = proptest::option::of((power(), number()));
    let budget = proptest::option::of((number(), number()));
    (power(), average, budget).prop_map(|(power, average, budget)| Limit {
        power: Milliwatts(power),
        average: average.map(|(power, window)| Average {
            power: Milliwatts(power),
            window: Milliseconds(window),
        }),
        budget: budget.map(|(millijoules, time)| Budget {
            millijoules,
            time: Milliseconds(time),
        }),
    })
}

/// A call of the governor.
#[derive(Clone, Debug)]
enum Call {
    /// A step after some ms. The third field says whether the wanted mode is set.
    Later(u64, Option<Sample>, bool, Option<u16>, bool),
    /// A step at any time, also in the past.
    At(u64, Option<Sample>, Option<u16>, Option<u16>),
    Watch(u64, Option<Sample>, Option<u16>),
    /// A step without a read-back.
    Blind(u64, Option<Sample>),
    Await(u64, Option<Sample>, Option<u16>),
    Release,
    /// Other modes, every n-th of the front.
    SetModes(usize),
    SetLimit(Limit),
    SetFront,
    SetTimeConstant(usize, u64),
    SetSensorSteps([u32; MOST_CHIPS], u32),
    Exclude(usize),
}

fn call() -> impl Strategy<Value = Call> {
    let gpu = || proptest::option::of(prop_oneof![0..=1_000_u16, any::<u16>()]);
    prop_oneof![
        40 => (0..200_u64, sample(), weighted(0.9), gpu(), weighted(0.05))
            .prop_map(|(ms, sample, is_set, gpu, hot)| Call::Later(ms, sample, is_set, gpu, hot)),
        2 => (number(), sample(), any::<Option<u16>>(), gpu())
            .prop_map(|(now, sample, mode, gpu)| Call::At(now, sample, mode, gpu)),
        4 => (0..2_000_u64, sample(), gpu())
            .prop_map(|(ms, sample, gpu)| Call::Watch(ms, sample, gpu)),
        4 => (0..400_u64, sample()).prop_map(|(ms, sample)| Call::Blind(ms, sample)),
        2 => (0..400_u64, sample(), gpu()).prop_map(|(ms, sample, gpu)| Call::Await(ms, sample, gpu)),
        1 => Just(Call::Release),
        1 => (1..9_usize).prop_map(Call::SetModes),
        2 => any_limit().prop_map(Call::SetLimit),
        1 => Just(Call::SetFront),
        1 => (0..8_usize, number()).prop_map(|(chip, ms)| Call::SetTimeConstant(chip, ms)),
        1 => ([power(), power(), power(), power()], power())
            .prop_map(|(steps, offset)| Call::SetSensorSteps(steps, offset)),
        1 => (0..POINTS).prop_map(Call::Exclude),
    ]
}

fn settings() -> impl Strategy<Value = Settings> {
    let chip = || {
        (0..=60_000_u64, power()).prop_map(|(time_constant, step)| Chip {
            time_constant: Milliseconds(time_constant),
            step: Milliwatts(step),
        })
    };
    let chips = prop_oneof![
        2 => Just([Chip::L4T; MOST_CHIPS]),
        1 => [chip(), chip(), chip(), chip()],
    ];
    let memory = proptest::option::of(number());
    let times = (1..=100_u64, 1..=1_000_u64, 1..=1_000_u64);
    (chips, 0..=1_u32 << 16, power(), times, memory).prop_map(
        |(chips, sensor_gain, offset, (interval, window, settling), memory)| Settings {
            chips,
            sensor_gain,
            sensor_offset: Milliwatts(offset % 40_000),
            sample_interval: Milliseconds(interval),
            window: Milliseconds(window),
            settling: Milliseconds(settling),
            memory: memory.map(Milliseconds),
        },
    )
}

/// A governor and its caller's clock.
struct Caller {
    governor: Governor<POINTS>,
    now: u64,
}

impl Caller {
    fn step(
        &mut self,
        sample: Option<Sample>,
        mode: Option<ModeId>,
        gpu_load: Option<u16>,
        too_hot: bool,
    ) -> Command {
        let input = self.input(sample, mode, gpu_load, too_hot);
        self.governor.step(&input)
    }

    fn input(
        &self,
        sample: Option<Sample>,
        mode: Option<ModeId>,
        gpu_load: Option<u16>,
        too_hot: bool,
    ) -> Input {
        let total = sample.and_then(|sample| sample.total());
        let mut input = Input::at(Milliseconds(self.now));
        (input.sample, input.mode, input.gpu_load) = (sample, mode.into(), gpu_load);
        input.steps = total.map(|total| u64::from(total.0));
        (input.over_current, input.too_hot) = (too_hot, too_hot);
        input.throttled = gpu_load.is_some_and(|load| load % 7 == 0);
        input.refused = gpu_load.is_some_and(|load| load % 5 == 0);
        input
    }

    fn call(&mut self, call: Call) -> Command {
        match call {
            Call::Later(ms, sample, is_set, gpu, too_hot) => {
                self.now = self.now.saturating_add(ms);
                let mode = is_set.then_some(self.governor.status().mode);
                return self.step(sample, mode, gpu, too_hot);
            }
            Call::At(now, sample, mode, gpu) => {
                self.now = now;
                return self.step(sample, mode.map(ModeId), gpu, false);
            }
            Call::Watch(ms, sample, gpu) => {
                self.now = self.now.saturating_add(ms);
                let input = self.input(sample, None, gpu, false);
                self.governor.watch(&input);
            }
            Call::Blind(ms, sample) => {
                self.now = self.now.saturating_add(ms);
                let mut input = Input::at(Milliseconds(self.now));
                input.sample = sample;
                return self.governor.step(&input);
            }
            Call::Await(ms, sample, gpu) => {
                self.now = self.now.saturating_add(ms);
                let input = self.input(sample, None, gpu, false);
                self.governor.await_mode(&input);
            }
            Call::Release => self.governor.release(),
            Call::SetModes(every) => {
                let all = front();
                let some = all.points().iter().zip(all.times()).step_by(every);
                let some = some.map(|(point, time)| (point.mode, point.power, *time));
                assert_eq!(self.governor.set_modes(Front::of_unknown(some)), Ok(()));
            }
            Call::SetLimit(limit) => self.governor.set_limit(limit),
            Call::SetFront => assert_eq!(self.governor.set_front(front()), Ok(())),
            Call::SetTimeConstant(chip, ms) => {
                let set = self.governor.set_time_constant(chip, Milliseconds(ms));
                assert_eq!(set.is_ok(), chip < MOST_CHIPS && ms <= 60_000);
            }
            Call::SetSensorSteps(steps, offset) => {
                let steps = steps.map(Milliwatts);
                self.governor.set_sensor_steps(steps, Milliwatts(offset));
            }
            Call::Exclude(point) => {
                let points = self.governor.front().points();
                if let Some(mode) = points.get(point).map(|point| point.mode) {
                    self.governor.exclude(mode);
                }
            }
        }
        Command::Keep
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, ..Default::default()
    })]

    /// The governor sets modes of the front only.
    #[test]
    fn no_input_causes_a_panic(
        settings in settings(),
        first in any_limit(),
        has_front in weighted(0.9),
        calls in proptest::collection::vec(call(), 1..300),
    ) {
        let mut governor = Governor::new(settings, first);
        if has_front {
            prop_assert_eq!(governor.set_front(front()), Ok(()));
        }
        let mut caller = Caller { governor, now: 0 };
        for call in calls {
            if let Command::Apply(mode) = caller.call(call) {
                let points = caller.governor.front().points();
                prop_assert!(points.iter().any(|point| point.mode == mode));
            }
        }
    }

    /// The clock starts at any time and jumps in both directions.
    #[test]
    fn no_time_causes_a_panic(
        times in proptest::collection::vec(any::<u64>(), 1..200),
        power in power(),
    ) {
        let governor = governor(front(), Settings::default(), limit(power));
        let mut caller = Caller { governor: governor.expect("settings in range"), now: 0 };
        for now in times {
            caller.now = now;
            let mode = caller.governor.status().mode;
            caller.step(Some(Sample::one(Milliwatts(power))), Some(mode), Some(u16::MAX), false);
            let ahead = caller.governor.due().since(Milliseconds(now));
            prop_assert!(caller.governor.due() >= Milliseconds(now) && ahead.0 <= 100);
        }
    }
}

fn refusal<const N: usize>(front: Front<N>, settings: Settings) -> Option<GovernorError> {
    governor(front, settings, limit(30_000)).err()
}

#[test]
fn settings_out_of_range_are_refused() {
    let changed = |set: &dyn Fn(&mut Settings)| {
        let mut settings = Settings::default();
        set(&mut settings);
        settings
    };
    let interval = |ms| changed(&|it| it.sample_interval = Milliseconds(ms));
    let gain = |gain| changed(&|it| it.sensor_gain = gain);
    let slow = |chip: usize, ms| changed(&|it| it.chips[chip].time_constant = Milliseconds(ms));
    let last = MOST_CHIPS - 1;
    let bad = [
        gain((1 << 16) + 1),
        gain(u32::MAX),
        interval(0),
        interval(101),
        interval(u64::MAX),
        slow(0, 60_001),
        slow(last, u64::MAX),
    ];
    for settings in bad {
        assert_eq!(
            refusal(front(), settings),
            Some(GovernorError::Settings),
            "{settings:?}"
        );
    }
    let edges = [
        gain(0),
        gain(1 << 16),
        interval(1),
        interval(100),
        slow(0, 0),
        slow(last, 60_000),
    ];
    for settings in edges {
        assert_eq!(refusal(front(), settings), None, "{settings:?}");
    }
}

#[test]
fn a_front_without_power_is_refused() {
    let refused = refusal(Front::<4>::new(), Settings::default());
    assert_eq!(refused, Some(GovernorError::NoPower));
    let time_only = model("../weights/golden/wide-16-time-only.wgt", |model| {
        Front::<POINTS>::from_model(model, &model.profiled(), Confidence::P95)
    });
    let refused = refusal(time_only, Settings::default());
    assert_eq!(refused, Some(GovernorError::NoPower));
}

#[test]
fn an_empty_front_is_refused() {
    let empty = model("../weights/orin-agx-64-resnet18.wgt", |model| {
        Front::<POINTS>::of_modes(model, [], Confidence::P95)
    });
    let refused = refusal(empty, Settings::default());
    assert_eq!(refused, Some(GovernorError::EmptyFront));
}

#[test]
fn a_confidence_beyond_the_guard_band_is_refused() {
    let beyond = Confidence::new(9_999).expect("in range");
    let front = model("../weights/orin-agx-64-resnet18.wgt", |model| {
        Front::<POINTS>::from_model(model, &model.profiled(), beyond)
    });
    let refused = refusal(front, Settings::default());
    assert_eq!(refused, Some(GovernorError::Confidence));
}

#[test]
fn a_refused_front_changes_nothing() {
    let mut plant = Plant::new(30_000, 1_000);
    plant.run(30_000, 30_000);
    let before = plant.status();
    let refused = plant.governor.set_front(Front::new());
    assert_eq!(refused, Err(GovernorError::NoPower));
    assert_eq!(plant.status(), before);
    assert_eq!(plant.governor.front().points().len(), POINTS);
}

fn model<T>(path: &str, with: impl FnOnce(&Model<'_>) -> T) -> T {
    let file = std::fs::read(format!("{}/{path}", env!("CARGO_MANIFEST_DIR")));
    let file = file.expect("a file of the repository");
    with(&Model::parse(&file).expect("a valid model"))
}

#[test]
fn errors_name_their_cause() {
    let text = |error: GovernorError| error.to_string();
    assert_eq!(
        text(GovernorError::EmptyFront),
        "the front has no power mode"
    );
    assert_eq!(
        text(GovernorError::NoPower),
        "the model does not predict power"
    );
    assert!(text(GovernorError::Confidence).contains("guard band"));
    assert!(text(GovernorError::Settings).contains("out of its range"));
}
