//! The estimator computes the present power from the readings of a power sensor that lags.
//!
//! # The sensor
//!
//! An INA3221 averages as a low-pass of first order: at each conversion its register moves by
//! one part in `samples` towards the converted value (TI, data sheet SBOS576A, "Averaging
//! function"). With the power `x` and the register `y`,
//!
//! ```text
//! τ · dy/dt = x − y          τ = 430 ms with 512 samples, 54 ms with 64
//! ```
//!
//! A reading `z` is `y`, rounded to the steps of its rails.
//!
//! # Energy
//!
//! The equation above, integrated, needs no model of the power:
//!
//! ```text
//! ∫ x dt  =  ∫ y dt  +  τ · (y(end) − y(begin))
//! ```
//!
//! So the energy and the mean power ([`Estimator::mean`]) of any time span follow from the readings
//! within it, whatever the power did in between. An error of one step in the last reading is an
//! error of τ / span steps in the mean.
//!
//! # Power now
//!
//! Each chip has a Kalman filter with the state `(x, y)`. Between two samples `dt` apart
//!
//! ```text
//! ┌ x ┐      ┌ 1      0 ┐ ┌ x ┐
//! └ y ┘  ←   └ 1 − a  a ┘ └ y ┘     a = exp(−dt / τ)
//! ```
//!
//! with a random walk of `x` for slow drifts and white noise of `x` for the ripple of the load. The
//! filter learns the size of the ripple from its innovations: the ripple grows when they are larger
//! than expected, and shrinks when they are smaller.
//!
//! # Rounding
//!
//! A reading only says that `y` is within half a step of it. So the filter truncates the
//! distribution of `y` to this interval and keeps the mean and the variance of the rest (the
//! Gaussian fit of R. E. Curry, Estimation and Control with Quantized Measurements, MIT Press
//! 1970). A repeated reading carries little information, however often it repeats. A reading that
//! changes shows where between two steps `y` is. This is exact for one rail. For a sum of rails,
//! the interval is approximate: half of the root of the sum of the squares of their steps.
//!
//! # Steps
//!
//! A load that starts or changes its phase makes the power step. The estimator keeps a bank of
//! hypotheses. One assumes no recent step; each of the others assumes a step just before a certain
//! sample. Each hypothesis has its own filters and a probability. Each sample multiplies the
//! probability by the likelihood of the readings (Bayes; R. P. Adams and D. J. C. MacKay, Bayesian
//! Online Changepoint Detection, 2007, arXiv:0710.3742; for jumps in a Kalman filter A. S. Willsky
//! and H. L. Jones, IEEE Transactions on Automatic Control 21, 1976). Each sample also adds
//! hypotheses of a step since the previous sample, which replace the least probable ones.
//!
//! The [estimate](Estimator::estimate) is the mean over the hypotheses. Its standard deviation
//! combines the variance of each hypothesis with the spread between them, so it grows after a step
//! before the step is sure.
//!
//! A pulse, for instance of a background task, moves the register and is over by the next sample. A
//! reading that waited on the bus after its time was taken looks the same; the traces of an Orin NX
//! have some. So each sample also adds a hypothesis of a pulse, which merges with its parent at once.
//!
//! Readings may be missing or late. Each chip has its own time constant, which may change at any
//! time.

// Functions that each sample calls across these files are `#[inline]`: without link-time optimisation
// the compiler inlines only such functions across files, and missing them costs 1.5 % of the
// instructions.
mod bank;
mod energy;
mod hypothesis;
mod sensor;
mod track;

pub use sensor::{Chip, MOST_CHIPS, Sample};

use bank::Bank;
use energy::Energy;
use sensor::step;
use track::{Coefficients, RIPPLE_MS, View, decay};

use crate::float::sqrt;
use crate::quantities::{Milliseconds, Milliwatts};

/// Maximum time constant of a chip; a longer one counts as this.
pub(crate) const LONGEST_TIME_CONSTANT: Milliseconds = Milliseconds(60_000);

/// Maximum time in ms between two samples; a longer one counts as this.
const LONGEST_MS: f32 = 60_000.0;

/// Time between two samples, in time constants, from which on the integral of the register needs its curve: a straight
/// line is then wrong by a twelfth of a time constant of the register's change.
const LONG_GAP: f32 = 1.0;

/// The estimated power now.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Estimate {
    /// The power in mW.
    pub power: f32,
    /// Its standard deviation in mW.
    pub deviation: f32,
    /// The time of the last detected step.
    pub since: Milliseconds,
}

/// Inverts the low-pass of a power sensor. Powers are in mW, times in ms.
#[derive(Clone, Debug)]
pub struct Estimator {
    chips: [Chip; MOST_CHIPS],
    bank: Bank,
    energy: Energy,
    /// The estimate, and the mean registers of the chips in mW. They are computed when the bank
    /// changes, because callers ask several times a sample.
    estimate: Option<Estimate>,
    registers: [f32; MOST_CHIPS],
}

impl Estimator {
    /// Creates an estimator without readings. Time constants above a minute count as a minute.
    pub const fn new(chips: [Chip; MOST_CHIPS]) -> Self {
        let [a, b, c, d] = chips;
        let chips = [
            Self::limited(a),
            Self::limited(b),
            Self::limited(c),
            Self::limited(d),
        ];
        Self {
            chips,
            bank: Bank::new(),
            energy: Energy::new(),
            estimate: None,
            registers: [0.0; MOST_CHIPS],
        }
    }

    /// The chip with a time constant of at most [`LONGEST_TIME_CONSTANT`].
    const fn limited(chip: Chip) -> Chip {
        match chip.is_sound() {
            true => chip,
            false => Chip {
                time_constant: LONGEST_TIME_CONSTANT,
                ..chip
            },
        }
    }

    /// Sets the time constant of a chip, which applies from the last sample on.
    pub fn set_time_constant(&mut self, chip: usize, time_constant: Milliseconds) {
        if let Some(chip) = self.chips.get_mut(chip) {
            chip.time_constant = time_constant.min(LONGEST_TIME_CONSTANT);
        }
    }

    /// Sets the steps of the chips in mW, as in [`Chip::step`]. They apply from the next sample on.
    pub fn set_steps(&mut self, steps: [Milliwatts; MOST_CHIPS]) {
        for (chip, step) in self.chips.iter_mut().zip(steps) {
            chip.step = step;
        }
    }

    /// Sets the span of the [means](Self::mean) that are asked for, 1 … 1,000 ms. Longer spans are answered as far as
    /// the memory reaches: two and a half times this span.
    pub const fn set_span(&mut self, span: Milliseconds) {
        self.energy.set_span(span);
    }

    /// Forgets the power, as after a sleep. The energy stays.
    pub fn forget(&mut self) {
        self.bank.clear();
        self.energy.clear();
        (self.estimate, self.registers) = (None, [0.0; MOST_CHIPS]);
    }

    /// Announces a change of the power at the last sample: the power is expected to be `times` (0 …
    /// 100) the one before, within a part of the change.
    pub fn expect_change(&mut self, times: f32) {
        if let Some(last) = self.energy.last().filter(|_| times.is_finite()) {
            self.bank.expect_change(times, last);
            self.refresh();
        }
    }

    /// Takes a sample at `now`. A time that is not after the last one is ignored, and so is a sample without a chip:
    /// the next one tells what was drawn in between.
    pub fn update(&mut self, sample: &Sample, now: Milliseconds) {
        let Some(powers) = sample.powers() else {
            return;
        };
        let readings = powers.map(|power| power.0.min(1 << 24) as f32);
        let Some(last) = self.energy.last() else {
            self.bank.begin(&self.chips, readings, now);
            self.energy.begin(now);
            self.refresh();
            return;
        };
        if now <= last {
            return;
        }
        let ms = now.since(last).0 as f32;
        let before = self.registers;
        let views = self.views(readings, ms.min(LONGEST_MS));
        self.bank.update(&views, ms.min(LONGEST_MS), last);
        self.bank.judge();
        self.refresh();
        self.integrate(&before, &views, ms, now);
    }

    /// The power now; `None` before the first reading.
    pub fn estimate(&self) -> Option<Estimate> {
        self.estimate
    }

    /// Forecasts the registers of the chips in mW at `ahead` after the last sample, before rounding,
    /// if the power stays; `None` before the first reading.
    pub fn forecast(&self, ahead: Milliseconds) -> Option<[f32; MOST_CHIPS]> {
        let _ = self.energy.last()?;
        let left = self
            .chips
            .map(|chip| decay(ahead.0 as f32, chip.time_constant));
        Some(self.bank.forecast(left))
    }

    /// The mean power in mW over the `span` before the last sample, from the energy of the readings;
    /// `None` for an empty span or one that begins before the readings.
    pub fn mean(&self, span: Milliseconds) -> Option<f32> {
        self.energy.mean(span)
    }

    /// Standard deviation in mW of a [mean](Self::mean) over a span, due to the steps of the
    /// readings alone.
    pub fn resolution(&self, span: Milliseconds) -> f32 {
        let span = span.0.max(1) as f32;
        let registers = self.registers;
        let present = self
            .chips
            .iter()
            .zip(registers)
            .filter(|(_, register)| *register > 0.0);
        let variance = present.map(|(chip, _)| {
            let step = chip.step.0 as f32;
            // The readings at both ends are independent. Those in between may all have the same
            // error.
            let ends = step * chip.time_constant.0 as f32 / span;
            ends * ends / 6.0 + step * step / 12.0
        });
        sqrt(variance.sum())
    }

    /// Standard deviation of the true mean over a span, as part of the power, due to the ripple of
    /// the load.
    pub fn ripple(&self, span: Milliseconds) -> f32 {
        self.bank.ripple() * sqrt(RIPPLE_MS / span.0.max(1) as f32)
    }

    /// Energy in µJ since the first reading.
    pub fn energy_uj(&self) -> u64 {
        self.energy.microjoules()
    }

    /// The longest time constant among the chips whose register is above 0.
    pub fn slowest(&self) -> Milliseconds {
        let chips = self.chips.iter().zip(self.registers);
        let present = chips.filter(|(_, register)| *register > 0.0);
        let times = present.map(|(chip, _)| chip.time_constant);
        times.max().unwrap_or(Milliseconds(0))
    }

    /// Whether a step is suspected; another sample soon confirms or refutes it.
    pub fn is_suspicious(&self) -> bool {
        self.bank.is_suspicious()
    }

    fn views(&self, readings: [f32; MOST_CHIPS], ms: f32) -> [View; MOST_CHIPS] {
        let [first, ..] = &self.chips;
        let mut time_constant = first.time_constant;
        let mut coefficients = Coefficients::new(ms, time_constant);
        let mut views = self.chips.map(|chip| {
            // Most boards have equal chips.
            if chip.time_constant != time_constant {
                time_constant = chip.time_constant;
                coefficients = Coefficients::new(ms, time_constant);
            }
            View {
                reading: 0.0,
                ripple: 0.0,
                step: step(&chip),
                coefficients,
            }
        });
        for ((view, reading), ripple) in views.iter_mut().zip(readings).zip(self.bank.ripples) {
            view.reading = reading;
            view.ripple = ripple;
        }
        views
    }

    /// Computes what the bank tells.
    fn refresh(&mut self) {
        self.estimate = Some(self.bank.estimate());
        self.registers = self.bank.registers();
    }

    /// Adds the energy since the last sample.
    fn integrate(
        &mut self,
        before: &[f32; MOST_CHIPS],
        views: &[View; MOST_CHIPS],
        ms: f32,
        now: Milliseconds,
    ) {
        let chips = before.iter().zip(self.registers).zip(&self.chips);
        let parts = chips.zip(views).map(|(((from, to), chip), view)| {
            let time_constant = chip.time_constant.0 as f32;
            match time_constant > 0.0 && ms > LONG_GAP * time_constant {
                // A straight line misses the curve of the register, so the power counts as constant.
                true => ms * (from + (to - from) / view.coefficients.spread),
                false => (from + to) / 2.0 * ms + time_constant * (to - from),
            }
        });
        self.energy.add(parts, now);
    }
}
