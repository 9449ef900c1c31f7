//! A board under a load, with a power sensor that is a low-pass, around a governor.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::LazyLock;

use wattgate_runtime::estimator::{Chip, MOST_CHIPS};
use wattgate_runtime::front::Point;
use wattgate_runtime::governor::State;
use wattgate_runtime::{
    Command, Confidence, Front, Governor, GovernorError, Input, Limit, Milliseconds, Milliwatts,
    ModeId, Model, Sample, Settings, Status,
};

/// Number of points of the front.
pub const POINTS: usize = 128;

/// The front of a model of version 1, 10.9 … 47.3 W. The files in `tests/models` do not change, so that
/// seeds and limits of these tests keep their meaning when the shipped models are made anew.
pub fn front() -> Front<POINTS> {
    front_of("tests/models/orin-agx-64-resnet18.wgt", 9_500)
}

/// The front of a model file, for a confidence in units of 1/10,000.
fn front_of(file: &str, confidence: u16) -> Front<POINTS> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(here.join(file)).expect("a model");
    let model = Model::parse(&file).expect("a valid model");
    let confidence = Confidence::new(confidence).expect("in range");
    Front::from_model(&model, &model.profiled(), confidence)
}

/// The predicted power of a mode of the front, in mW.
pub fn predicted(mode: ModeId) -> u32 {
    static FRONT: LazyLock<Front<POINTS>> = LazyLock::new(front);
    let point = FRONT.points().iter().find(|point| point.mode == mode);
    point.expect("a mode of the front").power.0
}

pub fn limit(milliwatts: u32) -> Limit {
    Limit::from_power(Milliwatts(milliwatts))
}

/// A random number in 0 … 1, determined by a seed and an index: xorshift64 (Marsaglia 2003).
pub fn random(seed: u64, index: u64) -> f64 {
    let index = index.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mixed = (seed ^ index).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mut state = mixed | 1;
    for _ in 0..3 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    (state >> 11) as f64 / (1_u64 << 53) as f64
}

/// The same in a range.
pub fn between(seed: u64, index: u64, from: f64, to: f64) -> f64 {
    from + (to - from) * random(seed, index)
}

/// The same with a standard normal distribution.
pub fn normal(seed: u64, index: u64) -> f64 {
    let all = (0..12).map(|at| random(seed, 12 * index + at));
    all.sum::<f64>() - 6.0
}

/// Activity in 0 … 1 and load of the GPU in permille, by time in ms.
pub type Load = Box<dyn Fn(u64) -> (f64, Option<u16>)>;

/// Ratio of true to predicted power, by seed and mode.
pub type ModeError = fn(u64, ModeId) -> f64;

/// Full work.
pub fn full(_: u64) -> (f64, Option<u16>) {
    (1.0, Some(1_000))
}

/// No work.
pub fn idle(_: u64) -> (f64, Option<u16>) {
    (0.0, Some(0))
}

/// The model has no error.
pub fn exact(_: u64, _: ModeId) -> f64 {
    1.0
}

/// The modes' errors have a standard deviation of 1.5 %, typical of a good model.
pub fn off_by_1_5_percent(seed: u64, mode: ModeId) -> f64 {
    (0.015 * normal(seed, 1_000 + u64::from(mode.0))).exp()
}

/// The modes' errors have a standard deviation of 10 %.
pub fn off_by_10_percent(seed: u64, mode: ModeId) -> f64 {
    (0.1 * normal(seed, 1_000 + u64::from(mode.0))).exp()
}

/// One mode in twenty draws twice its prediction, one in ten half of it.
pub fn some_twice_some_half(seed: u64, mode: ModeId) -> f64 {
    let small = (0.01 * normal(seed, 1_000 + u64::from(mode.0))).exp();
    match random(seed, 900 + u64::from(mode.0)) {
        it if it < 0.05 => 2.0 * small,
        it if it < 0.15 => 0.5 * small,
        _ => small,
    }
}

/// A chip of the power sensor.
#[derive(Clone, Copy, Debug)]
pub struct SensorChip {
    /// Share of the board's power that the chip measures.
    pub share: f64,
    /// Nominal time constant in ms.
    pub time_constant: f64,
    /// Steps of its readings in mW.
    pub step: f64,
}

/// The power sensor of a plant.
#[derive(Clone, Copy, Debug)]
pub struct Sensor {
    pub chips: [SensorChip; MOST_CHIPS],
}

impl Sensor {
    /// One chip that measures everything.
    pub const fn one(time_constant: f64, step: f64) -> Self {
        let none = SensorChip {
            share: 0.0,
            time_constant,
            step,
        };
        let all = SensorChip { share: 1.0, ..none };
        Self {
            chips: [all, none, none, none],
        }
    }

    /// The sensor as a governor's settings describe it.
    fn described(&self) -> [Chip; MOST_CHIPS] {
        self.chips.map(|chip| Chip {
            time_constant: Milliseconds(chip.time_constant.round() as u64),
            step: Milliwatts(chip.step as u32),
        })
    }
}

/// An INA3221 as L4T sets it, on an AGX Orin.
pub const L4T: Sensor = Sensor::one(430.0, 200.0);

/// The same chip with the steps of a 5 mΩ shunt at 5 V.
pub const FINE: Sensor = Sensor::one(430.0, 40.0);

/// The sensor has no fault.
pub fn works(_: u64, sample: Sample) -> Option<Sample> {
    Some(sample)
}

/// Reads fail.
pub fn fails(_: u64, _: Sample) -> Option<Sample> {
    None
}

/// Time in ms that the board takes to set a mode.
pub const SETS_IN: u64 = 8;

/// Time in ms after which throttling, or its end, is reported.
const THROTTLE_SHOWS: u64 = 2_000;

/// A board that draws the predicted power times a common factor, an error of each mode, and ripple.
pub struct Plant {
    pub governor: Governor<POINTS>,
    pub seed: u64,
    /// Ratio of true to predicted power, common to all modes.
    pub factor: f64,
    pub error: ModeError,
    /// Ratio of true to predicted time.
    pub time_error: ModeError,
    /// Standard deviation of the means of 10 ms, as part of the power.
    pub ripple: f64,
    pub load: Load,
    pub sensor: Sensor,
    /// Ratio of true to nominal time constant.
    pub slowness: f64,
    registers: [f64; MOST_CHIPS],
    pub now_ms: u64,
    next_step_ms: u64,
    rippled: f64,
    /// The present mode, and the mode that is being set with the time at which it takes effect.
    pub mode: ModeId,
    coming: Option<(u64, ModeId)>,
    /// The time that it takes to set a mode, in ms.
    pub sets_in: u64,
    /// The mode's power at full work in mW, and its time for a minibatch in µs.
    draws: f64,
    takes: f64,
    /// Faults.
    pub sensor_fault: fn(u64, Sample) -> Option<Sample>,
    pub is_frozen: bool,
    frozen: Sample,
    pub writes_work: Box<dyn Fn(ModeId) -> bool>,
    /// Whether the board is in a mode outside the front.
    is_elsewhere: bool,
    /// Whether the last write failed.
    is_refused: bool,
    pub is_too_hot: bool,
    /// Share of the work that a throttled board does, 1 without throttling, and how long this has
    /// been so, in ms.
    throttle: f64,
    throttle_age: u64,
    /// Whether another program controls the board, and the governor only watches.
    pub is_watched: bool,
    /// Whether the workload reports its steps, and their number.
    pub reports_steps: bool,
    /// How many it reports for each.
    pub steps_times: f64,
    /// The least time of a step in µs, for which the workload waits.
    pub period_us: Option<f64>,
    /// The phase that it tells, at a time in ms.
    pub phase: Box<dyn Fn(u64) -> Option<u16>>,
    steps: f64,
    /// History with times in ms: commands, and changes of the state.
    pub modes: Vec<(u64, ModeId)>,
    pub states: Vec<(u64, State)>,
    pub account: Account,
    pub samples: u64,
}

/// Tolerance of a limit, as part of it: a new mode with an error of 1.5 % may exceed the limit
/// until it is measured. Without this tolerance, 7 of 160 runs under a constant load exceed it, by
/// 1.9 % at most.
pub const TOLERANCE: f64 = 0.015;

/// True powers since the account was opened, compared with the limit.
#[derive(Default)]
pub struct Account {
    window: VecDeque<f64>,
    sum: f64,
    calm: VecDeque<f64>,
    calm_sum: f64,
    pub ms: u64,
    pub over_430: u64,
    pub over_10: u64,
    pub excess_430: f64,
    pub excess_10: f64,
    pub longest_10: u64,
    stretch: u64,
    /// Durations in ms for which the mean over 10 ms, without ripple, exceeded the limit.
    pub events: Vec<u64>,
    /// Work, in minibatches.
    pub work: f64,
    pub energy_mj: f64,
}

/// A governor that owns its front.
pub fn governor<const N: usize>(
    front: Front<N>,
    settings: Settings,
    limit: Limit,
) -> Result<Governor<N>, GovernorError> {
    let mut governor = Governor::new(settings, limit);
    governor.set_front(front)?;
    Ok(governor)
}

impl Plant {
    pub fn new(milliwatts: u32, seed: u64) -> Self {
        Self::with(milliwatts, seed, L4T, |_| {})
    }

    /// A plant with a good model: see [`off_by_1_5_percent`].
    pub fn typical(milliwatts: u32, seed: u64, sensor: Sensor) -> Self {
        let mut plant = Self::with(milliwatts, seed, sensor, |_| {});
        plant.error = off_by_1_5_percent;
        plant
    }

    /// A plant with a shipped model whose margins differ from mode to mode, 2.4 … 26 %.
    pub fn spread(milliwatts: u32, seed: u64) -> Self {
        let front = front_of("../weights/orin-agx-64-resnet18-all-modes.wgt", 9_500);
        let mut plant = Self::build(front, milliwatts, seed, L4T, |_| {});
        plant.error = off_by_1_5_percent;
        plant
    }

    pub fn with(milliwatts: u32, seed: u64, sensor: Sensor, set: impl Fn(&mut Settings)) -> Self {
        Self::build(front(), milliwatts, seed, sensor, set)
    }

    /// A plant with a model of version 1 whose guard band is 9.4 % for all modes.
    pub fn doubtful(milliwatts: u32, seed: u64) -> Self {
        let front = front_of("tests/models/orin-agx-64-resnet18-all-modes.wgt", 9_900);
        Self::build(front, milliwatts, seed, L4T, |_| {})
    }

    fn build(
        front: Front<POINTS>,
        milliwatts: u32,
        seed: u64,
        sensor: Sensor,
        set: impl Fn(&mut Settings),
    ) -> Self {
        let mode = front.points()[0].mode;
        let mut settings = Settings {
            chips: sensor.described(),
            ..Settings::default()
        };
        set(&mut settings);
        let governor = governor(front, settings, limit(milliwatts));
        let mut plant = Self {
            governor: governor.expect("a front with power"),
            seed,
            factor: 1.0,
            error: exact,
            time_error: exact,
            ripple: 0.06,
            load: Box::new(full),
            sensor,
            slowness: between(seed, 77, 0.95, 1.05),
            registers: [0.0; MOST_CHIPS],
            now_ms: 0,
            next_step_ms: 0,
            rippled: 1.0,
            mode,
            coming: None,
            sets_in: SETS_IN,
            draws: 0.0,
            takes: 0.0,
            sensor_fault: works,
            is_frozen: false,
            frozen: Sample::one(Milliwatts(0)),
            writes_work: Box::new(|_| true),
            is_elsewhere: false,
            is_refused: false,
            is_too_hot: false,
            throttle: 1.0,
            throttle_age: THROTTLE_SHOWS,
            is_watched: false,
            reports_steps: false,
            steps_times: 1.0,
            period_us: None,
            phase: Box::new(|_| None),
            steps: 0.0,
            modes: Vec::new(),
            states: Vec::new(),
            account: Account::default(),
            samples: 0,
        };
        let power = plant.milliwatts(mode, 1.0);
        plant.registers = sensor.chips.map(|chip| chip.share * power);
        plant
    }

    /// The power of a mode in mW at an activity, without ripple.
    pub fn milliwatts(&self, mode: ModeId, activity: f64) -> f64 {
        at_activity(self.full_milliwatts(mode), activity)
    }

    fn full_milliwatts(&self, mode: ModeId) -> f64 {
        let predicted = f64::from(self.front_point(mode).power.0);
        predicted * self.factor * (self.error)(self.seed, mode)
    }

    fn front_point(&self, mode: ModeId) -> &Point {
        &self.governor.front().points()[self.index(mode)]
    }

    fn index(&self, mode: ModeId) -> usize {
        let points = self.governor.front().points();
        let at = points.iter().position(|point| point.mode == mode);
        at.expect("a mode of the front")
    }

    /// The board's present power in mW, without ripple.
    pub fn draws_now(&self) -> f64 {
        let (activity, _) = (self.load)(self.now_ms);
        self.milliwatts(self.mode, activity)
    }

    /// The time for a minibatch in a mode, in µs.
    pub fn microseconds(&self, mode: ModeId) -> f64 {
        let predicted = f64::from(self.governor.front().times()[self.index(mode)].0);
        predicted * (self.time_error)(self.seed, mode)
    }

    /// Speed in minibatches a ms of the fastest mode whose true power is within a limit in mW.
    pub fn oracle(&self, milliwatts: f64, activity: f64) -> f64 {
        let front = self.governor.front();
        let points = front.points().iter().zip(front.times());
        let fitting =
            points.filter(|(point, _)| self.milliwatts(point.mode, activity) <= milliwatts);
        let fastest = fitting.map(|(_, time)| time.0).min();
        1e3 / f64::from(fastest.unwrap_or(u32::MAX))
    }

    /// Index of the present mode in the front.
    pub fn point(&self) -> usize {
        let mut points = self.governor.front().points().iter();
        let point = points.position(|point| point.mode == self.mode);
        point.expect("a mode of the front")
    }

    pub fn status(&self) -> Status {
        self.governor.status()
    }

    pub fn state(&self) -> State {
        self.status().state
    }

    fn sample(&self) -> Sample {
        let mut powers = [Milliwatts(0); MOST_CHIPS];
        let chips = self.sensor.chips.iter().zip(self.registers);
        for (shown, (chip, register)) in powers.iter_mut().zip(chips) {
            let step = chip.step.max(1.0);
            *shown = Milliwatts(((register / step).round() * step) as u32);
        }
        Sample::from_chips(powers)
    }

    fn enter(&mut self, mode: ModeId) {
        self.mode = mode;
        (self.draws, self.takes) = (self.full_milliwatts(mode), self.microseconds(mode));
    }

    /// Runs for a time; the account compares the power with the limit `milliwatts`.
    pub fn run(&mut self, milliseconds: u64, milliwatts: u32) {
        let limit = f64::from(milliwatts);
        self.enter(self.mode);
        let parts = self.sensor.chips.map(|chip| {
            let time_constant = chip.time_constant * self.slowness;
            match time_constant < 1.0 {
                true => 1.0,
                false => 1.0 - (-1.0 / time_constant).exp(),
            }
        });
        for _ in 0..milliseconds {
            self.now_ms += 1;
            if let Some((_, mode)) = self.coming.take_if(|(at, _)| *at <= self.now_ms) {
                self.is_elsewhere = false;
                self.enter(mode);
            }
            if self.now_ms.is_multiple_of(10) {
                let ripple = normal(self.seed, 1 << 40 | self.now_ms).clamp(-3.0, 3.0);
                self.rippled = 1.0 + self.ripple * ripple;
            }
            let (activity, _) = (self.load)(self.now_ms);
            let activity = activity * self.busy();
            self.throttle_age += 1;
            let calm = at_activity(self.draws, activity * self.throttle);
            let drawn = calm * self.rippled;
            if activity > 0.05 {
                let steps = self.throttle * self.busy() * 1e3 / self.takes;
                self.account.work += steps;
                self.steps += self.steps_times * steps;
            }
            self.account.take(drawn, calm, limit);
            let chips = self.sensor.chips.iter().zip(parts);
            for (register, (chip, part)) in self.registers.iter_mut().zip(chips) {
                *register += (chip.share * drawn - *register) * part;
            }
            if self.now_ms >= self.next_step_ms {
                self.step();
            }
        }
    }

    /// The share of the time in which the workload does not wait.
    fn busy(&self) -> f64 {
        let period = self.period_us.unwrap_or(0.0);
        self.takes / self.takes.max(period).max(1.0)
    }

    /// Lets the board do a share of its work, as firmware does that divides the clocks.
    pub fn throttle(&mut self, share: f64) {
        (self.throttle, self.throttle_age) = (share, 0);
    }

    /// Another program sets a mode outside the front.
    pub fn leave_front(&mut self) {
        (self.is_elsewhere, self.coming) = (true, None);
    }

    /// Runs without the governor for a time. The board stays in its mode.
    pub fn sleep(&mut self, milliseconds: u64, milliwatts: u32) {
        self.next_step_ms = self.now_ms + milliseconds;
        self.run(milliseconds, milliwatts);
    }

    /// Runs until the governor's next step. Returns the mode that it sets, if any.
    pub fn run_to_next_step(&mut self, milliwatts: u32) -> Option<ModeId> {
        let (samples, commands) = (self.samples, self.modes.len());
        while self.samples == samples {
            self.run(1, milliwatts);
        }
        self.modes.get(commands).map(|(_, mode)| *mode)
    }

    /// Runs until a state is reached. Panics after `most_ms`.
    pub fn run_to(&mut self, state: State, most_ms: u64, milliwatts: u32) {
        for _ in 0..most_ms {
            if self.state() == state {
                return;
            }
            self.run(1, milliwatts);
        }
        let states = &self.states;
        panic!("{state:?} was not reached in {most_ms} ms: {states:?}");
    }

    /// Runs until the governor has set no mode for a time.
    pub fn run_until_quiet(&mut self, milliseconds: u64, milliwatts: u32) {
        let quiet_since = |plant: &Self| plant.modes.last().map_or(0, |(at, _)| *at);
        while self.now_ms < quiet_since(self) + milliseconds {
            self.run(100, milliwatts);
        }
    }

    fn step(&mut self) {
        self.samples += 1;
        if !self.is_frozen {
            self.frozen = self.sample();
        }
        let (_, gpu_load) = (self.load)(self.now_ms);
        let gpu_load = gpu_load.map(|load| (f64::from(load) * self.busy()) as u16);
        let is_known = self.coming.is_none() && !self.is_elsewhere;
        let mut input = Input::at(Milliseconds(self.now_ms));
        input.sample = (self.sensor_fault)(self.now_ms, self.frozen);
        input.mode = is_known.then_some(self.mode).into();
        input.gpu_load = gpu_load;
        input.refused = std::mem::take(&mut self.is_refused);
        input.steps = self.reports_steps.then_some(self.steps as u64);
        input.phase = (self.phase)(self.now_ms);
        input.too_hot = self.is_too_hot;
        input.throttled = (self.throttle < 1.0) != (self.throttle_age < THROTTLE_SHOWS);
        let command = match self.is_watched {
            true => {
                self.governor.watch(&input);
                self.next_step_ms = self.now_ms + 100;
                Command::Keep
            }
            false if self.coming.is_some() => {
                self.governor.await_mode(&input);
                self.next_step_ms = self.now_ms + 10;
                Command::Keep
            }
            false => {
                let command = self.governor.step(&input);
                self.next_step_ms = self.governor.due().0;
                command
            }
        };
        if let Command::Apply(mode) = command {
            self.modes.push((self.now_ms, mode));
            self.is_refused = !(self.writes_work)(mode);
            if !self.is_refused {
                self.coming = Some((self.now_ms + self.sets_in, mode));
            }
            self.next_step_ms = self.now_ms + 10;
        }
        let state = self.state();
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((self.now_ms, state));
        }
    }

    /// Maximum number of steps up within a minute.
    pub fn most_steps_up_a_minute(&self) -> usize {
        let changes = self.modes.windows(2);
        let is_up =
            |pair: &&[(u64, ModeId)]| self.microseconds(pair[1].1) < self.microseconds(pair[0].1);
        let steps_up: Vec<u64> = changes.filter(is_up).map(|pair| pair[1].0).collect();
        let within = |start: u64| {
            let minute = start..start + 60_000;
            steps_up.iter().filter(|at| minute.contains(at)).count()
        };
        steps_up.iter().map(|at| within(*at)).max().unwrap_or(0)
    }
}

/// An idle board draws 4 W and three tenths of the power at full work.
fn at_activity(full: f64, activity: f64) -> f64 {
    let rest = 4_000.0 + 0.3 * full;
    rest + activity * (full - rest)
}

impl Account {
    /// Part of the time in which the mean over 430 ms exceeded the limit.
    pub fn part_over(&self) -> f64 {
        self.over_430 as f64 / self.ms as f64
    }

    /// [`Self::events`], and the event that still lasts.
    pub fn all_events(&self) -> Vec<u64> {
        let mut events = self.events.clone();
        events.extend((self.stretch > 0).then_some(self.stretch));
        events
    }

    fn take(&mut self, drawn: f64, calm: f64, limit: f64) {
        self.ms += 1;
        self.energy_mj += drawn / 1e3;
        self.window.push_back(drawn);
        self.sum += drawn;
        if self.window.len() > 430 {
            self.sum -= self.window.pop_front().unwrap_or(0.0);
        }
        self.calm.push_back(calm);
        self.calm_sum += calm;
        if self.calm.len() > 10 {
            self.calm_sum -= self.calm.pop_front().unwrap_or(0.0);
        }
        if self.window.len() == 430 {
            let mean = self.sum / 430.0;
            self.over_430 += u64::from(mean > limit);
            self.excess_430 = self.excess_430.max(mean / limit - 1.0);
        }
        let mean = self.calm_sum / self.calm.len() as f64;
        if mean > limit * (1.0 + TOLERANCE) {
            self.over_10 += 1;
            self.excess_10 = self.excess_10.max(mean / limit - 1.0);
            self.stretch += 1;
            self.longest_10 = self.longest_10.max(self.stretch);
        } else if self.stretch > 0 {
            self.events.push(self.stretch);
            self.stretch = 0;
        }
    }
}
