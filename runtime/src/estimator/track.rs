//! The Kalman filter of one chip, and what the rounding of a reading does to it.

use nalgebra::{Matrix2, Vector2};

use crate::units::Milliseconds;

/// Random walk of the power in one second, as part of the ripple: what ripples much drifts much.
/// Predicts the traces best between 0.1 and 0.4; less is steadier.
const DRIFT: f32 = 0.15;

/// The ripple is white noise: its standard deviation is stated for means over this time in ms.
pub const RIPPLE_MS: f32 = 10.0;

/// No power in mW is greater: 100 kW.
pub const MOST_POWER: f32 = 1e8;

/// What the time between two looks does to a chip.
#[derive(Clone, Copy, Debug)]
pub struct Passage {
    /// The part of the register that is left of before.
    decay: f32,
    /// The same after half of the time.
    half: f32,
    /// Variance that drift adds to the power, over the square of the ripple.
    drift: f32,
    /// Variance that ripple adds to the register, over the square of the ripple.
    ripple: f32,
}

impl Passage {
    pub fn new(ms: f32, time_constant: Milliseconds) -> Self {
        let half = decay(ms / 2.0, time_constant);
        let decay = half * half;
        // White noise through the low-pass; at most that of RIPPLE_MS.
        let seen = (RIPPLE_MS / (2.0 * time_constant.0.max(1) as f32)).min(1.0);
        Self {
            decay,
            half,
            drift: DRIFT * DRIFT * ms / 1_000.0,
            ripple: seen * (1.0 - decay * decay),
        }
    }
}

/// What is left of a register's distance from the power; nothing without a low-pass.
pub fn decay(ms: f32, time_constant: Milliseconds) -> f32 {
    match time_constant.0 {
        0 => 0.0,
        time_constant => libm::expf(-ms / time_constant as f32),
    }
}

/// What a hypothesis says that happened between two looks: standard deviations in mW.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub step: f32,
    pub pulse: f32,
}

/// Neither a step nor a pulse.
pub const NOTHING: Event = Event {
    step: 0.0,
    pulse: 0.0,
};

/// A look at a chip.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub reading: f32,
    pub step: f32,
    /// As part of the power.
    pub ripple: f32,
    pub passage: Passage,
}

/// The filter of one chip.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    /// Power and register in mW.
    pub state: Vector2<f32>,
    pub covariance: Matrix2<f32>,
    /// By what part of it the variance of the ripple seems too small, by the last reading.
    pub excess: f32,
}

impl Track {
    /// Of a chip that there is not.
    pub const NONE: Self = Self {
        state: Vector2::new(0.0, 0.0),
        covariance: Matrix2::new(0.0, 0.0, 0.0, 0.0),
        excess: 0.0,
    };

    /// With the power at a reading, give or take a deviation.
    pub fn at(reading: f32, deviation: f32, step: f32) -> Self {
        Self {
            state: Vector2::new(reading, reading),
            covariance: Matrix2::new(deviation * deviation, 0.0, 0.0, step * step / 12.0),
            excess: 0.0,
        }
    }

    /// Lets time pass. Returns the variance of the register by ripple.
    #[inline]
    pub fn predict(&mut self, view: &View, event: Event) -> f32 {
        let Passage {
            decay,
            half,
            drift,
            ripple,
        } = view.passage;
        let (gain, spread) = (1.0 - half, 1.0 - decay);
        // A power that is far from the register is not known well: no measure of noise.
        let level = self.state.x.min(3.0 * self.state.y).max(0.0);
        let rippling = view.ripple * level;
        let square = rippling * rippling;
        let ripple = ripple * square;
        // The power may change at any time in between: in the middle, give or take.
        let change = event.step * event.step + drift * square;
        let pulse = event.pulse * spread;
        let register = change * (gain * gain + spread * spread / 12.0) + ripple + pulse * pulse;
        let added = Matrix2::new(change, change * gain, change * gain, register);
        let transition = Matrix2::new(1.0, 0.0, spread, decay);
        self.state = transition * self.state;
        self.covariance = transition * self.covariance * transition.transpose() + added;
        ripple
    }

    /// Takes a reading into account. Returns ln of the probability of the reading.
    #[inline]
    pub fn correct(&mut self, reading: f32, step: f32, ripple: f32) -> f32 {
        let variance = self.covariance.m22.max(0.01);
        let cut = Cut::new(reading - self.state.y, step / 2.0, variance);
        let gain = Vector2::new(self.covariance.m12, self.covariance.m22) / variance;
        self.state += gain * cut.mean;
        self.state.x = self.state.x.clamp(-MOST_POWER, MOST_POWER);
        self.covariance -= gain * gain.transpose() * (variance - cut.variance);
        // Where rounding errors of f32 would make it impossible.
        let (power, register) = (self.covariance.m11.max(1.0), self.covariance.m22.max(0.001));
        let most = 0.999 * libm::sqrtf(power * register);
        let both = self.covariance.m12.max(-most).min(most);
        self.covariance = Matrix2::new(power, both, both, register);
        let excess = (cut.variance + cut.mean * cut.mean) / variance - 1.0;
        self.excess = excess * ripple / variance;
        cut.likelihood
    }
}

/// What is left of a normal distribution of mean 0 within an interval.
struct Cut {
    mean: f32,
    variance: f32,
    /// ln of the probability of the interval.
    likelihood: f32,
}

impl Cut {
    /// Of an interval around a centre, and of a distribution of some variance.
    #[inline]
    fn new(centre: f32, half: f32, variance: f32) -> Self {
        let deviation = libm::sqrtf(variance);
        let low = (centre.abs() - half) / deviation;
        let high = (centre.abs() + half) / deviation;
        if low > 4.0 || high - low < 0.5 {
            return Self::far_or_narrow(centre, half, variance);
        }
        let (at_low, at_high) = (density(low), density(high));
        let probability = (above(low) - above(high)).max(1e-9);
        let mean = (at_low - at_high) / probability;
        let left = 1.0 + (low * at_low - high * at_high) / probability - mean * mean;
        Self {
            mean: (mean * deviation).copysign(centre),
            variance: variance * left.clamp(0.001, 1.0),
            likelihood: libm::logf(probability),
        }
    }

    /// Where the differences above lose their digits: as with a normal error of the same variance.
    fn far_or_narrow(centre: f32, half: f32, variance: f32) -> Self {
        let error = half * half / 3.0;
        let sum = variance + error;
        let mean = centre * variance / sum;
        let width = 2.0 * half / libm::sqrtf(core::f32::consts::TAU * sum);
        Self {
            mean: mean.max(centre - half).min(centre + half),
            variance: variance * error / sum,
            likelihood: libm::logf(width) - centre * centre / (2.0 * sum),
        }
    }
}

/// The standard normal density.
fn density(x: f32) -> f32 {
    libm::expf(-x * x / 2.0) * 0.398_942_3
}

/// The probability that a standard normal number is above.
fn above(x: f32) -> f32 {
    libm::erfcf(x * core::f32::consts::FRAC_1_SQRT_2) / 2.0
}
