//! A board of known power with a low-pass sensor that rounds. Its time constants deviate, and samples
//! are late or missing.

use proptest::prelude::*;
use wattgate_runtime::estimator::{Chip, Estimator, MOST_CHIPS};
use wattgate_runtime::{Milliseconds, Milliwatts, Sample};

/// xorshift64 (Marsaglia 2003).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        (0..8).for_each(|_| _ = random.unit());
        random
    }

    /// 0 … 1.
    pub fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * self.unit()
    }

    pub fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

/// A sensor, its sampling, and the ripple of the load.
#[derive(Clone, Debug)]
pub struct Setup {
    pub time_constant: u64,
    /// The steps of the rails of each chip in mW.
    pub chips: Vec<Vec<f64>>,
    /// Maximum relative error of the chips' time constants.
    pub clocks: f64,
    /// Range of the interval between samples in ms.
    pub intervals: (f64, f64),
    /// Probability that a sample is missing.
    pub missing: f64,
    /// Standard deviation of the means of 10 ms, as part of the power.
    pub ripple: f64,
}

/// An AGX Orin at 12 V with a busy load, sampled as the governor samples it.
fn agx_orin() -> Setup {
    Setup {
        time_constant: 430,
        chips: vec![vec![240.0, 240.0]],
        clocks: 0.05,
        intervals: (16.0, 34.0),
        missing: 0.0,
        ripple: 0.06,
    }
}

impl Setup {
    /// Maximum rounding error of the total in mW: half a step of each rail.
    pub fn half_steps(&self) -> f64 {
        self.chips.iter().flatten().sum::<f64>() / 2.0
    }
}

/// A board with a power sensor, and an estimator that reads it.
pub struct Plant {
    pub setup: Setup,
    pub estimator: Estimator,
    pub random: Random,
    /// Power in mW without ripple.
    pub power: f64,
    /// Power with ripple, as part of `power`.
    ripple: f64,
    /// Shares of the rails in the power, and their registers in mW.
    rails: Vec<Vec<(f64, f64)>>,
    time_constants: Vec<f64>,
    pub now: u64,
    next_sample: u64,
    last_sample: u64,
    /// Energy in µJ drawn up to each millisecond.
    pub drawn: Vec<f64>,
}

impl Plant {
    /// A plant in steady state at a power in mW.
    pub fn new(setup: &Setup, power: f64, seed: u64) -> Self {
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
            next_sample: 0,
            last_sample: 0,
            drawn: vec![0.0],
        };
        plant.set_time_constant(setup.time_constant);
        plant
    }

    pub fn set_time_constant(&mut self, time_constant: u64) {
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
        let mut powers = [Milliwatts(0); MOST_CHIPS];
        let chips = self.rails.iter().zip(&self.setup.chips);
        for (shown, (rails, steps)) in powers.iter_mut().zip(chips) {
            let rounded = rails
                .iter()
                .zip(steps)
                .map(|((_, register), step)| (register / step).round() * step);
            *shown = Milliwatts(rounded.sum::<f64>().round() as u32);
        }
        Sample::from_chips(powers)
    }

    /// Advances by a millisecond. Returns whether there was a sample.
    pub fn pass(&mut self) -> bool {
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
        if self.now < self.next_sample {
            return false;
        }
        let (least, most) = self.setup.intervals;
        self.next_sample = self.now + self.random.between(least, most) as u64;
        if self.random.unit() < self.setup.missing {
            return false;
        }
        self.update();
        true
    }

    pub fn update(&mut self) {
        self.last_sample = self.now;
        self.estimator
            .update(&self.sample(), Milliseconds(self.now));
    }

    pub fn run(&mut self, ms: u64) {
        (0..ms).for_each(|_| _ = self.pass());
    }

    /// The error of the estimate, and its claimed standard deviation, in mW.
    pub fn error(&self) -> (f64, f64) {
        let estimate = self.estimator.estimate().expect("there were looks");
        let error = f64::from(estimate.power) - self.power;
        (error, f64::from(estimate.deviation))
    }

    /// The true mean power in mW over the `span` before the last sample.
    pub fn true_mean(&self, span: u64) -> f64 {
        let end = self.last_sample as usize;
        (self.drawn[end] - self.drawn[end - span as usize]) / span as f64
    }
}

/// Sensors of one or two chips with a time constant of 54 or 430 ms.
pub fn setups() -> impl Strategy<Value = Setup> {
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
            |(time_constant, chips, clocks, interval, missing, ripple)| Setup {
                time_constant,
                chips,
                clocks,
                intervals: (interval, 1.7 * interval),
                missing,
                ripple,
            },
        )
}

/// Sensors of real boards, by name.
pub fn sensors() -> [(&'static str, Setup); 5] {
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
