//! A board under a load, with a power sensor that is a low-pass, around a governor.

use std::collections::VecDeque;

use wattgate_runtime::{
    Chip, Command, Front, Governor, Input, Limit, MOST_CHIPS, Milliseconds, Milliwatts, ModeId,
    Model, Sample, Settings, Status,
};

/// The points of the front.
pub const POINTS: usize = 128;

pub fn front() -> Front<POINTS> {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../weights/orin-agx-64-resnet18.wgt"
    );
    let file = std::fs::read(file).expect("the shipped model");
    let model = Model::parse(&file).expect("a valid model");
    Front::of(&model, &model.profiled())
}

pub fn limit(milliwatts: u32) -> Limit {
    Limit::of(Milliwatts(milliwatts))
}

/// xorshift64 (Marsaglia 2003), for a number in 0 … 1 that belongs to a place.
pub fn random(seed: u64, place: u64) -> f64 {
    let mixed = (seed ^ place.wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mut state = mixed | 1;
    for _ in 0..3 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    (state >> 11) as f64 / (1_u64 << 53) as f64
}

/// A standard normal number that belongs to a place.
pub fn normal(seed: u64, place: u64) -> f64 {
    let all = (0..12).map(|at| random(seed, 12 * place + at));
    all.sum::<f64>() - 6.0
}

/// Activity and load of the GPU at a time in ms.
pub type Load = fn(u64) -> (f64, Option<u16>);

/// Full work.
pub fn full(_: u64) -> (f64, Option<u16>) {
    (1.0, Some(1_000))
}

/// What the sensor of a plant is.
#[derive(Clone, Copy)]
pub struct Sensor {
    /// Time constant of each chip in ms.
    pub time_constant: f64,
    /// Steps of each chip in mW.
    pub step: f64,
    /// The part of the power that the second chip measures.
    pub share: f64,
}

pub const L4T: Sensor = Sensor {
    time_constant: 430.0,
    step: 200.0,
    share: 0.0,
};

/// A board that draws what the model predicts, but for a common factor, an error of each mode and
/// ripple.
pub struct Plant {
    pub governor: Governor<POINTS>,
    pub seed: u64,
    /// Measured over predicted power.
    pub factor: f64,
    /// The error of a mode.
    pub error: fn(u64, ModeId) -> f64,
    /// Standard deviation of the mean power of 10 ms.
    pub ripple: f64,
    pub load: Load,
    pub sensor: Sensor,
    /// Offset of the time constant: the chip's own clock.
    pub slowness: f64,
    registers: [f64; 2],
    pub now_ms: u64,
    next_step_ms: u64,
    rippled: f64,
    /// The mode that the board is in, and the one it will be in.
    pub mode: ModeId,
    coming: Option<(u64, ModeId)>,
    /// Faults.
    pub sensor_works: bool,
    pub is_frozen: bool,
    frozen: Sample,
    pub writes_work: fn(ModeId) -> bool,
    /// What happened.
    pub modes: Vec<(u64, ModeId)>,
    pub account: Account,
    pub looks: u64,
}

/// The truth in the time of an account.
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
    /// Lengths of stretches over the limit in the mean of 10 ms.
    pub events: Vec<u64>,
    /// Work, in minibatches.
    pub work: f64,
    pub energy_mj: f64,
}

impl Plant {
    pub fn new(milliwatts: u32, seed: u64) -> Self {
        Self::with(milliwatts, seed, L4T, |_| {})
    }

    pub fn with(milliwatts: u32, seed: u64, sensor: Sensor, set: impl Fn(&mut Settings)) -> Self {
        let front = front();
        let mode = front.points()[0].mode;
        let chip = Chip {
            time_constant: Milliseconds(sensor.time_constant.round() as u64),
            step: Milliwatts(sensor.step as u32),
        };
        let mut settings = Settings {
            chips: [chip; MOST_CHIPS],
            ..Settings::default()
        };
        set(&mut settings);
        let governor = Governor::new(front, settings, limit(milliwatts));
        let mut plant = Self {
            governor: governor.expect("a front with power"),
            seed,
            factor: 1.0,
            error: |_, _| 1.0,
            ripple: 0.06,
            load: full,
            sensor,
            slowness: 1.0 + 0.05 * (2.0 * random(seed, 77) - 1.0),
            registers: [0.0; 2],
            now_ms: 0,
            next_step_ms: 0,
            rippled: 1.0,
            mode,
            coming: None,
            sensor_works: true,
            is_frozen: false,
            frozen: Sample::default(),
            writes_work: |_| true,
            modes: Vec::new(),
            account: Account::default(),
            looks: 0,
        };
        let power = plant.milliwatts(plant.mode, 1.0);
        plant.registers = [power * (1.0 - sensor.share), power * sensor.share];
        plant
    }

    /// What a mode draws at an activity.
    pub fn milliwatts(&self, mode: ModeId, activity: f64) -> f64 {
        let points = self.governor.front().points();
        let point = points.iter().find(|point| point.mode == mode);
        let predicted = f64::from(point.expect("a mode of the front").power.0);
        let full = predicted * self.factor * (self.error)(self.seed, mode);
        let rest = 4_000.0 + 0.3 * full;
        rest + activity * (full - rest)
    }

    /// The fastest work, in minibatches a ms, within a power at an activity.
    pub fn oracle(&self, milliwatts: f64, activity: f64) -> f64 {
        let points = self.governor.front().points().iter();
        let fitting = points.filter(|point| self.milliwatts(point.mode, activity) <= milliwatts);
        let fastest = fitting.map(|point| point.time.0).min();
        1e3 / f64::from(fastest.unwrap_or(u32::MAX))
    }

    pub fn status(&self) -> Status {
        self.governor.status()
    }

    pub fn sample(&self) -> Sample {
        let step = self.sensor.step.max(1.0);
        let shown = self.registers.map(|it| Milliwatts(((it / step).round() * step) as u32));
        let mut sample = Sample::default();
        sample.chips[..2].copy_from_slice(&shown);
        sample
    }

    /// Runs for some time under a limit that the account goes by.
    pub fn run(&mut self, milliseconds: u64, milliwatts: u32) {
        let limit = f64::from(milliwatts);
        for _ in 0..milliseconds {
            self.now_ms += 1;
            if let Some((_, mode)) = self.coming.take_if(|(at, _)| *at <= self.now_ms) {
                self.mode = mode;
            }
            if self.now_ms.is_multiple_of(10) {
                let ripple = normal(self.seed, 1 << 40 | self.now_ms).clamp(-3.0, 3.0);
                self.rippled = 1.0 + self.ripple * ripple;
            }
            let (activity, _) = (self.load)(self.now_ms);
            let calm = self.milliwatts(self.mode, activity);
            let drawn = calm * self.rippled;
            let time = self.governor.front().points().iter().find(|it| it.mode == self.mode);
            let time = f64::from(time.map_or(u32::MAX, |point| point.time.0));
            let account = &mut self.account;
            if activity > 0.05 {
                account.work += 1e3 / time;
            }
            account.take(drawn, calm, limit);
            let shares = [1.0 - self.sensor.share, self.sensor.share];
            let time_constant = self.sensor.time_constant * self.slowness;
            let part = match time_constant {
                tau if tau < 1.0 => 1.0,
                tau => 1.0 - (-1.0 / tau).exp(),
            };
            for (register, share) in self.registers.iter_mut().zip(shares) {
                *register += (share * drawn - *register) * part;
            }
            if self.now_ms >= self.next_step_ms {
                self.step();
            }
        }
    }

    fn step(&mut self) {
        self.looks += 1;
        if !self.is_frozen {
            self.frozen = self.sample();
        }
        let (_, gpu_load) = (self.load)(self.now_ms);
        let command = self.governor.step(&Input {
            now: Milliseconds(self.now_ms),
            sample: self.sensor_works.then_some(self.frozen),
            mode: self.coming.is_none().then_some(self.mode),
            gpu_load,
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

    /// The most commands within a minute.
    pub fn most_changes_a_minute(&self) -> usize {
        let within = |start: u64| {
            let after = self.modes.iter().filter(move |(at, _)| *at >= start);
            after.take_while(|(at, _)| *at < start + 60_000).count()
        };
        let starts = self.modes.iter().map(|(at, _)| within(*at));
        starts.max().unwrap_or(0)
    }
}

impl Account {
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
        if mean > limit * 1.000_001 {
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
