//! The Kalman filter of one chip, with rounded readings.

use crate::float::{max, min, sqrt};
use crate::quantities::Milliseconds;

/// Standard deviation of the power's random walk in one second, in units of the ripple: a power
/// that ripples much drifts much. Values of 0.1 to 0.4 predict the traces best; lower ones are
/// steadier.
const DRIFT: f32 = 0.15;

/// The ripple is white noise. Its standard deviation applies to means over this time in ms.
pub const RIPPLE_MS: f32 = 10.0;

/// Maximum power in mW: 100 kW.
pub const MOST_POWER: f32 = 1e8;

/// Coefficients of a polynomial, the highest power first. Mills' ratio of the normal distribution is the probability
/// that a variable exceeds x, divided by the density at x. With t = [`MILLS_RANGE`] / ([`MILLS_RANGE`] + x), the ratio
/// is t times the polynomial of t. The polynomial equals the exact ratio at nine Chebyshev nodes of x in 0 … 12.
const MILLS: [f32; 9] = [
    -0.065_110_184,
    0.363_039_37,
    -0.756_776_75,
    0.634_001_85,
    -0.190_604_2,
    0.323_865_74,
    0.276_086_45,
    0.335_585_42,
    0.333_225_97,
];
const MILLS_RANGE: f32 = 3.0;

/// Coefficients of a chip's filter for the time between two samples.
#[derive(Clone, Copy, Debug)]
pub struct Coefficients {
    /// The new register is `decay` × the old register + `spread` × the power.
    decay: f32,
    pub spread: f32,
    /// If the power changes halfway between the samples, the register shows this part of the change.
    gain: f32,
    /// Variance that a change of the power adds to the register, over the square of the change. The
    /// power may change at any time between the samples: the middle is the mean.
    change: f32,
    /// Variance that drift adds to the power, over the square of the ripple.
    drift: f32,
    /// Variance that ripple adds to the register, over the square of the ripple.
    ripple: f32,
}

impl Coefficients {
    pub fn new(ms: f32, time_constant: Milliseconds) -> Self {
        let half = decay(ms / 2.0, time_constant);
        let decay = half * half;
        let (gain, spread) = (1.0 - half, 1.0 - decay);
        // White noise through the low-pass; at most that of RIPPLE_MS.
        let seen = min(RIPPLE_MS / (2.0 * time_constant.0.max(1) as f32), 1.0);
        Self {
            decay,
            spread,
            gain,
            change: gain * gain + spread * spread / 12.0,
            drift: DRIFT * DRIFT * ms / 1_000.0,
            ripple: seen * (1.0 - decay * decay),
        }
    }
}

/// The part of the distance between register and power that remains after `ms`; 0 without a
/// low-pass.
pub fn decay(ms: f32, time_constant: Milliseconds) -> f32 {
    match time_constant.0 {
        0 => 0.0,
        time_constant => libm::expf(-ms / time_constant as f32),
    }
}

/// The event that a hypothesis assumes between two samples: standard deviations in mW.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub step: f32,
    pub pulse: f32,
}

/// Neither a step nor a pulse.
pub const NO_EVENT: Event = Event {
    step: 0.0,
    pulse: 0.0,
};

/// One sample of a chip.
#[derive(Clone, Copy, Debug)]
pub struct View {
    pub reading: f32,
    pub step: f32,
    /// As part of the power.
    pub ripple: f32,
    pub coefficients: Coefficients,
}

impl View {
    /// Whether the chip read 0, as an absent one does.
    #[inline]
    pub fn is_zero(&self) -> bool {
        self.reading.to_bits() == 0
    }
}

/// The filter of one chip.
#[derive(Clone, Copy, Debug)]
pub struct Track {
    /// In mW.
    pub power: f32,
    pub register: f32,
    pub covariance: Covariance,
}

/// The covariance of power and register. It is symmetric.
#[derive(Clone, Copy, Debug)]
pub struct Covariance {
    /// Variance of the power.
    pub power: f32,
    pub both: f32,
    /// Variance of the register.
    pub register: f32,
}

/// What a reading tells.
#[derive(Clone, Copy, Debug)]
pub struct Correction {
    /// The probability of the reading.
    pub likelihood: f32,
    /// Mean square of the register's deviation from its prediction, and its predicted variance.
    square: f32,
    variance: f32,
}

impl Correction {
    /// The relative amount by which the ripple's variance seems too small. `ripple` is the variance
    /// that it added to the register.
    pub fn excess(&self, ripple: f32) -> f32 {
        (self.square / self.variance - 1.0) * ripple / self.variance
    }
}

impl Track {
    /// The filter of an absent chip.
    pub const NONE: Self = Self {
        power: 0.0,
        register: 0.0,
        covariance: Covariance {
            power: 0.0,
            both: 0.0,
            register: 0.0,
        },
    };

    /// Whether this is not [`Self::NONE`]: the variance of a present chip's power is at least 1. The comparison of
    /// bits is fast on processors without floating point.
    #[inline]
    pub fn is_present(&self) -> bool {
        self.covariance.power.to_bits() != 0
    }

    /// Starts with the power at a reading, with this standard deviation.
    pub fn at(reading: f32, deviation: f32, step: f32) -> Self {
        Self {
            power: reading,
            register: reading,
            covariance: Covariance {
                power: deviation * deviation,
                both: 0.0,
                register: step * step / 12.0,
            },
        }
    }

    /// The prediction step. Returns the register's variance due to ripple.
    #[inline]
    pub fn predict(&mut self, view: &View, event: Event) -> f32 {
        let Coefficients {
            decay,
            spread,
            gain,
            ..
        } = view.coefficients;
        // A power far above the register is uncertain, so it is capped as a measure of noise.
        let level = max(min(self.power, 3.0 * self.register), 0.0);
        let rippling = view.ripple * level;
        let square = rippling * rippling;
        let ripple = view.coefficients.ripple * square;
        let change = event.step * event.step + view.coefficients.drift * square;
        let pulse = event.pulse * spread;
        let register = change * view.coefficients.change + ripple + pulse * pulse;
        self.register = spread * self.power + decay * self.register;
        // transition · covariance · transitionᵀ, whose first row of the transition is (1, 0).
        let Covariance {
            power,
            both,
            register: old,
        } = self.covariance;
        let across = spread * power + decay * both;
        let through = spread * both + decay * old;
        self.covariance = Covariance {
            power: power + change,
            both: across + change * gain,
            register: across * spread + through * decay + register,
        };
        ripple
    }

    /// The correction step.
    #[inline]
    pub fn correct(&mut self, reading: f32, step: f32) -> Correction {
        let old = self.covariance;
        let variance = max(old.register, 0.01);
        let truncated = Truncated::new(reading - self.register, step / 2.0, variance);
        let of_power = old.both / variance;
        // Not divided by itself: a division is slow in software.
        let of_register = match old.register > 0.01 {
            true => 1.0,
            false => old.register / variance,
        };
        let power = self.power + of_power * truncated.mean;
        self.power = power.clamp(-MOST_POWER, MOST_POWER);
        self.register += of_register * truncated.mean;
        let less = variance - truncated.variance;
        // Rounding errors of f32 could make the covariance indefinite.
        let power = max(old.power - of_power * of_power * less, 1.0);
        let register = max(old.register - of_register * of_register * less, 0.001);
        let most = 0.999 * sqrt(power * register);
        let both = old.both - of_power * of_register * less;
        self.covariance = Covariance {
            power,
            both: min(max(both, -most), most),
            register,
        };
        Correction {
            likelihood: truncated.probability,
            square: truncated.variance + truncated.mean * truncated.mean,
            variance,
        }
    }
}

/// A normal distribution of mean 0, truncated to an interval.
struct Truncated {
    mean: f32,
    variance: f32,
    /// The probability of the interval.
    probability: f32,
}

impl Truncated {
    /// Truncates a distribution of this variance to an interval around a centre.
    #[inline]
    fn new(centre: f32, half: f32, variance: f32) -> Self {
        let deviation = sqrt(variance);
        let low = (centre.abs() - half) / deviation;
        let high = (centre.abs() + half) / deviation;
        if low > 4.0 || high - low < 0.5 {
            return Self::far_or_narrow(centre, half, variance);
        }
        let ((at_low, above_low), (at_high, above_high)) = (normal(low), normal(high));
        let probability = max(above_low - above_high, 1e-9);
        let mean = (at_low - at_high) / probability;
        let left = 1.0 + (low * at_low - high * at_high) / probability - mean * mean;
        Self {
            mean: (mean * deviation).copysign(centre),
            variance: variance * left.clamp(0.001, 1.0),
            probability,
        }
    }

    /// Approximates the interval by a normal error of the same variance, where the differences
    /// above lose their digits.
    fn far_or_narrow(centre: f32, half: f32, variance: f32) -> Self {
        let error = half * half / 3.0;
        let sum = variance + error;
        let mean = centre * variance / sum;
        let width = 2.0 * half / sqrt(core::f32::consts::TAU * sum);
        Self {
            mean: min(max(mean, centre - half), centre + half),
            variance: variance * error / sum,
            probability: width * libm::expf(-centre * centre / (2.0 * sum)),
        }
    }
}

/// The standard normal density at `x`, and the probability that a normal variable exceeds `x`.
fn normal(x: f32) -> (f32, f32) {
    let density = libm::expf(-x * x / 2.0) * 0.398_942_3;
    let t = MILLS_RANGE / (MILLS_RANGE + x.abs());
    let [highest, others @ ..] = MILLS;
    let ratio = t * others.iter().fold(highest, |sum, part| sum * t + part);
    let beyond = density * ratio;
    (density, if x < 0.0 { 1.0 - beyond } else { beyond })
}

#[cfg(test)]
mod tests {
    use super::normal;

    #[test]
    fn the_normal_distribution_is_that_of_libm() {
        for thousandth in -12_000..=12_000_i16 {
            let x = f32::from(thousandth) / 1_000.0;
            let (_, above) = normal(x);
            let exact = libm::erfc(f64::from(x) * core::f64::consts::FRAC_1_SQRT_2) / 2.0;
            let error = (f64::from(above) / exact - 1.0).abs();
            // The rounding of x² / 2 adds an error that grows with it.
            let most = 1e-6 + 1e-7 * f64::from(x * x);
            assert!(error < most, "{x}: off by {error:e}");
        }
    }
}
