//! The mean functions of the Gaussian processes. They are formulas from physics with unknown
//! coefficients; [`Mean::theory`] gives each coefficient a prior.
//!
//! Knobs are fractions of the board's highest value, so that coefficients transfer between
//! boards. The coefficients are hyperparameters, fitted together with those of the covariance.
//! [`Priors`](crate::learn::priors::Priors) says what other corpora have taught of them.

use wattgate_cli::planning::MOST_REFERENCES;
use wattgate_runtime::grid::{Axis, Grid};

use crate::learn::standard::Standard;

/// The exponent of the Box–Cox transform of a knob. The logarithm (0) and the inverse square root
/// (−½) are each best on some corpora; −¼ is close to the better of the two on all.
const BOX_COX: f64 = -0.25;

/// Number of covariance hyperparameters, which precede those of the mean. All are logarithms: of four length scales,
/// of the amplitudes of the smooth part, of the linear part and of the part of single clocks, and of the noise.
pub const COVARIANCE_PARAMETERS: usize = 8;

/// The inputs of a mode to the covariance and the mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Box–Cox transformed knobs, standardised over each axis.
    pub input: [f64; 4],
    /// ln of each knob, minus its mean over the axis.
    pub log: [f64; 4],
    /// ln of the cores and of the CPU clock over their lowest values, at least 0.
    pub above: [f64; 2],
    /// ln of the time, minus its mean over the training modes. Only [`Mean::Power`] uses it; zero
    /// for the others.
    pub log_time: f64,
    /// Standard deviation of `log_time`; zero if the time was measured. A prediction integrates
    /// over it.
    pub log_time_sd: f64,
    /// ln of the time and of the power that the references predict for the mode, averaged over the references,
    /// minus the mean over the training modes. Zero without references.
    pub stated: [f64; 2],
    /// What remains of `stated` when the physical mean functions of the references are subtracted from it.
    pub unexplained: [f64; 2],
    /// As `stated`, by reference; zero beyond the last.
    pub stated_by_each: [[f64; 2]; MOST_REFERENCES],
}

/// Maps the modes of a grid to [`Place`]s.
#[derive(Clone, Debug)]
pub struct Scales {
    axes: [Scale; 4],
}

#[derive(Clone, Debug)]
struct Scale {
    lowest: f64,
    highest: f64,
    transformed: Standard,
    mean_log: f64,
}

impl Scale {
    fn from_axis(axis: &[u32]) -> Self {
        let [lowest, highest] =
            [axis.first(), axis.last()].map(|value| value.map_or(1.0, |&value| f64::from(value)));
        let parts = axis.iter().map(|&value| f64::from(value) / highest);
        Self {
            lowest,
            highest,
            transformed: Standard::from_values(parts.clone().map(box_cox)),
            mean_log: Standard::from_values(parts.map(f64::ln)).mean,
        }
    }
}

fn box_cox(part: f64) -> f64 {
    (part.powf(BOX_COX) - 1.0) / BOX_COX
}

impl Scales {
    /// The scales of a grid.
    pub fn from_grid(grid: &Grid) -> Self {
        Self {
            axes: Axis::ALL.map(|axis| Scale::from_axis(grid.axis(axis))),
        }
    }

    /// The highest value of an axis.
    pub fn highest(&self, axis: Axis) -> f64 {
        self.axes[axis as usize].highest
    }

    /// The place of a mode given by its knobs.
    pub fn place(&self, knobs: [u32; 4]) -> Place {
        let part: [f64; 4] = std::array::from_fn(|i| f64::from(knobs[i]) / self.axes[i].highest);
        Place {
            input: std::array::from_fn(|i| self.axes[i].transformed.apply(box_cox(part[i]))),
            log: std::array::from_fn(|i| part[i].ln() - self.axes[i].mean_log),
            above: std::array::from_fn(|i| (f64::from(knobs[i]) / self.axes[i].lowest).ln()),
            log_time: 0.0,
            log_time_sd: 0.0,
            stated: [0.0; 2],
            unexplained: [0.0; 2],
            stated_by_each: [[0.0; 2]; MOST_REFERENCES],
        }
    }

    /// Maps the knobs of a mode to another board. Each knob becomes the same fraction of that board's highest value.
    pub fn elsewhere(&self, knobs: [u32; 4], other: &Self) -> [u32; 4] {
        std::array::from_fn(|i| {
            let ratio = other.axes[i].highest / self.axes[i].highest;
            (f64::from(knobs[i]) * ratio).round().max(1.0) as u32
        })
    }
}

/// A mean function of ln(target), up to the average over the training modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mean {
    /// Zero.
    Zero,
    /// Background work slows a board of low CPU capacity: −k·ln(slowdown), see `Slowdown`.
    /// Coefficients: 3 of the slowdown, ln k.
    Starved,
    /// A soft roofline of a step's waiting times: CPU (a serial and a parallel part, both slowed
    /// by background work), GPU, memory, and a constant. Each is a power of its clock. Their
    /// R-norm lies between the sum (R = 1) and the maximum (R → ∞). Coefficients: 3 exponents
    /// of the clocks, 5 weights, ln(R − 1), 3 of the slowdown.
    Time,
    /// Static power and the power of memory, CPU and GPU voltage, plus a step's CPU and GPU
    /// energy over its time, and k·ln(slowdown) less. Coefficients: 6 weights, 5 exponents, 3 of the
    /// slowdown, ln k.
    Power,
    /// [`Mean::Time`], plus what the physics of references leaves unexplained of their times. Co-kriging: what
    /// differs from physics in one workload differs alike in another (Kennedy and O'Hagan 2000).
    TimeAndUnexplained,
    /// The same of [`Mean::Power`].
    PowerAndUnexplained,
    /// What references state of the time. No coefficients. The linear part of the covariance has the logarithms
    /// of knobs and of what each reference states for inputs.
    TimeOfReference,
    /// The same of the power.
    PowerOfReference,
}

/// Prior of ln(noise / spread of the target). It is the same for all corpora: how much a recording
/// was disturbed says nothing about the next one.
const NOISE_PRIOR: [f64; 2] = [-3.2, 1.5];

/// Prior of ln(levels / spread of the target).
const LEVELS_PRIOR: [f64; 2] = [-4.2, 1.0];

/// Index of the noise among the hyperparameters.
pub const NOISE: usize = 7;

/// Index of the amplitude of the clocks' levels among the hyperparameters.
pub const LEVELS: usize = 6;

impl Mean {
    /// The mean functions whose coefficients families of corpora teach, in the order of the enumeration.
    pub const ALL: [Self; 4] = [Self::Zero, Self::Starved, Self::Time, Self::Power];

    /// What is known of the hyperparameters before any corpus: `(name, prior)`, the covariance's first.
    ///
    /// Length scales are near the spread of an axis. A waiting time is inversely proportional to its
    /// clock (exponent 1). Dynamic power is C·V²·f, where V rises less than f. The CPU's
    /// capacity is proportional to its cores and to its clock. How a time and a power divide into their terms
    /// is unknown, so the weights have wide priors.
    pub fn theory(self) -> Vec<(&'static str, [f64; 2])> {
        let [matern, linear] = match self {
            Self::Zero | Self::Starved => [0.0, 0.0],
            Self::Time | Self::TimeAndUnexplained | Self::Power | Self::PowerAndUnexplained => {
                [-1.0, -1.5]
            }
            Self::TimeOfReference | Self::PowerOfReference => [-2.5, 0.0],
        };
        let mut theory = vec![
            ("ln length cores", [0.7, 1.0]),
            ("ln length cpu", [0.7, 1.0]),
            ("ln length gpu", [0.7, 1.0]),
            ("ln length emc", [0.7, 1.0]),
            ("ln amplitude Matern", [matern, 1.2]),
            ("ln amplitude linear", [linear, 1.2]),
            ("ln amplitude levels", LEVELS_PRIOR),
            ("ln noise", NOISE_PRIOR),
        ];
        theory.extend_from_slice(match self {
            Self::Zero | Self::TimeOfReference | Self::PowerOfReference => &[],
            Self::Starved => &[
                ("u", [-1.5, 1.5]),
                ("ln b", [-1.0, 1.5]),
                ("exponent cores", [1.0, 0.5]),
                ("ln k", [0.0, 0.5]),
            ],
            Self::Time | Self::TimeAndUnexplained => &[
                ("ln exponent cpu", [0.0, 0.4]),
                ("ln exponent gpu", [0.0, 0.4]),
                ("ln exponent emc", [0.0, 0.4]),
                ("serial", [-1.8, 1.0]),
                ("parallel", [-1.8, 1.0]),
                ("gpu", [-1.8, 1.0]),
                ("emc", [-1.8, 1.0]),
                ("constant", [-1.8, 1.0]),
                ("ln(R - 1)", [-0.5, 1.0]),
                ("u", [-1.5, 1.5]),
                ("ln b", [-1.0, 1.5]),
                ("exponent cores", [1.0, 0.5]),
            ],
            Self::Power | Self::PowerAndUnexplained => &[
                ("static", [-1.8, 1.0]),
                ("emc", [-1.8, 1.0]),
                ("cpu energy", [-1.8, 1.0]),
                ("gpu energy", [-1.8, 1.0]),
                ("gpu", [-1.8, 1.0]),
                ("cpu", [-1.8, 1.0]),
                ("exponent emc", [1.0, 0.5]),
                ("exponent cpu energy", [0.7, 0.5]),
                ("exponent gpu energy", [0.7, 0.5]),
                ("exponent gpu", [1.7, 0.5]),
                ("exponent cpu", [1.7, 0.5]),
                ("u", [-1.5, 1.5]),
                ("ln b", [-1.0, 1.5]),
                ("exponent cores", [1.0, 0.5]),
                ("ln k", [0.0, 0.5]),
            ],
        });
        theory
    }

    /// Evaluates the mean with hyperparameters `theta`, the covariance's first. Writes its derivative
    /// by each mean hyperparameter to `gradient`, of length `theta.len()` − [`COVARIANCE_PARAMETERS`].
    pub fn value(self, at: &Place, theta: &[f64], gradient: &mut [f64]) -> f64 {
        let p = theta.get(COVARIANCE_PARAMETERS..).unwrap_or(&[]);
        match self {
            Self::Zero => 0.0,
            Self::Starved => {
                let slowdown = Slowdown::at(at, &p[..3]);
                let k = p[3].exp();
                gradient[..3].copy_from_slice(&slowdown.by.map(|by| -k * by));
                gradient[3] = -k * slowdown.log;
                -k * slowdown.log
            }
            Self::Time => time(at, p, gradient),
            Self::TimeAndUnexplained => time(at, p, gradient) + at.unexplained[0],
            Self::Power => power(at, p, gradient),
            Self::PowerAndUnexplained => power(at, p, gradient) + at.unexplained[1],
            Self::TimeOfReference => at.stated[0],
            Self::PowerOfReference => at.stated[1],
        }
    }

    /// The derivative by [`Place::log_time`], from the gradient that [`Mean::value`] wrote: minus
    /// the shares of the two energies.
    pub fn by_log_time(self, gradient: &[f64]) -> f64 {
        match (self, gradient) {
            (Self::Power | Self::PowerAndUnexplained, [_, _, cpu, gpu, ..]) => -cpu - gpu,
            _ => 0.0,
        }
    }
}

/// How much slower a CPU of little capacity is than its cores and clock tell, as background work comes
/// first: 1 + e^u · e^(−b·(C − 1)) / C. C is the capacity over the lowest of the board, coresᵞ × clock. An
/// even load would slow by 1 / (1 − share / C). Measured boards recover faster (b > 0), and a core counts for more
/// than a clock (γ > 1), perhaps since background work comes in bursts that leave other cores alone.
/// `tests/it/measured.rs` holds both facts.
struct Slowdown {
    /// Its logarithm.
    log: f64,
    /// The derivatives of `log` by u, ln b and γ.
    by: [f64; 3],
}

impl Slowdown {
    /// At a place, with the coefficients u, ln b and γ.
    fn at(at: &Place, coefficients: &[f64]) -> Self {
        let [u, log_b, exponent] = std::array::from_fn(|i| coefficients[i]);
        let [cores, clock] = at.above;
        let log_capacity = exponent * cores + clock;
        let (b, capacity) = (log_b.exp(), log_capacity.exp());
        let decay = b * (capacity - 1.0);
        let log_excess = u - decay - log_capacity;
        let share = 1.0 / (1.0 + (-log_excess).exp());
        Self {
            log: log_excess.max(0.0) + (-log_excess.abs()).exp().ln_1p(),
            by: [share, -share * decay, -share * cores * (1.0 + b * capacity)],
        }
    }
}

/// ln Σ e^x, and the share of each term in the sum.
fn log_sum<const N: usize>(x: [f64; N]) -> (f64, [f64; N]) {
    let largest = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let terms = x.map(|x| (x - largest).exp());
    let sum: f64 = terms.iter().sum();
    (largest + sum.ln(), terms.map(|term| term / sum))
}

fn time(at: &Place, p: &[f64], gradient: &mut [f64]) -> f64 {
    let [cores, cpu, gpu, emc] = at.log;
    let exponents = [p[0], p[1], p[2]].map(f64::exp);
    let slowdown = Slowdown::at(at, &p[9..]);
    let serial = p[3] - exponents[0] * cpu;
    let parallel = p[4] - exponents[0] * cpu - cores;
    let (on_cpu, [by_serial, by_parallel]) = log_sum([serial, parallel]);
    let waits = [
        on_cpu + slowdown.log,
        p[5] - exponents[1] * gpu,
        p[6] - exponents[2] * emc,
        p[7],
    ];
    let sharpness = p[8].exp();
    let norm = 1.0 + sharpness;
    let (sum, share) = log_sum(waits.map(|wait| norm * wait));
    let mean_wait: f64 = share
        .iter()
        .zip(waits)
        .map(|(share, wait)| share * wait)
        .sum();
    gradient[..9].copy_from_slice(&[
        -share[0] * exponents[0] * cpu,
        -share[1] * exponents[1] * gpu,
        -share[2] * exponents[2] * emc,
        share[0] * by_serial,
        share[0] * by_parallel,
        share[1],
        share[2],
        share[3],
        (mean_wait - sum / norm) / norm * sharpness,
    ]);
    gradient[9..].copy_from_slice(&slowdown.by.map(|by| share[0] * by));
    sum / norm
}

fn power(at: &Place, p: &[f64], gradient: &mut [f64]) -> f64 {
    let [cores, cpu, gpu, emc] = at.log;
    let slowdown = Slowdown::at(at, &p[11..]);
    let k = p[14].exp();
    let (sum, share) = log_sum([
        p[0],
        p[1] + p[6] * emc,
        p[2] + p[7] * cpu - at.log_time,
        p[3] + p[8] * gpu - at.log_time,
        p[4] + p[9] * gpu,
        p[5] + p[10] * cpu + cores,
    ]);
    gradient[..6].copy_from_slice(&share);
    gradient[6..11].copy_from_slice(&[
        share[1] * emc,
        share[2] * cpu,
        share[3] * gpu,
        share[4] * gpu,
        share[5] * cpu,
    ]);
    gradient[11..14].copy_from_slice(&slowdown.by.map(|by| -k * by));
    gradient[14] = -k * slowdown.log;
    sum - k * slowdown.log
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid() -> Grid {
        Grid::new([&[1, 2, 4], &[100, 300, 900], &[5, 6], &[7, 8]]).expect("a grid")
    }

    #[test]
    fn the_gradients_match_finite_differences() {
        let mut place = Scales::from_grid(&grid()).place([2, 300, 6, 7]);
        place.log_time = 0.7;
        for mean in [Mean::Zero, Mean::Starved, Mean::Time, Mean::Power] {
            let theta: Vec<f64> = mean
                .theory()
                .iter()
                .map(|(_, [mean, sd])| mean + 0.3 * sd)
                .collect();
            let count = theta.len() - COVARIANCE_PARAMETERS;
            let mut gradient = vec![0.0; count];
            mean.value(&place, &theta, &mut gradient);
            for i in 0..count {
                let value = |step: f64| {
                    let mut moved = theta.clone();
                    moved[COVARIANCE_PARAMETERS + i] += step;
                    mean.value(&place, &moved, &mut vec![0.0; count])
                };
                let numeric = (value(1e-6) - value(-1e-6)) / 2e-6;
                assert!((numeric - gradient[i]).abs() < 1e-7, "{mean:?} {i}");
            }
            let slope = mean.by_log_time(&gradient);
            let value = |step: f64| {
                let mut moved = place;
                moved.log_time += step;
                mean.value(&moved, &theta, &mut vec![0.0; count])
            };
            let numeric = (value(1e-6) - value(-1e-6)) / 2e-6;
            assert!((numeric - slope).abs() < 1e-7, "{mean:?} by log time");
        }
    }

    /// 1 + e^u at the lowest capacity; less with each clock and core; one core of twice the clock is slower
    /// than two.
    #[test]
    fn a_cpu_of_little_capacity_is_slowed() {
        let grid = Grid::new([&[1, 2, 4], &[100, 200, 900], &[5], &[7]]).expect("a grid");
        let scales = Scales::from_grid(&grid);
        let slowdown = |cores, cpu| {
            let place = scales.place([cores, cpu, 5, 7]);
            Slowdown::at(&place, &[1.4, -0.5, 1.3]).log.exp()
        };
        assert!((slowdown(1, 100) - (1.0 + 1.4_f64.exp())).abs() < 1e-12);
        assert!(slowdown(1, 100) > slowdown(1, 200) && slowdown(1, 200) > slowdown(2, 100));
        assert!(slowdown(2, 100) > slowdown(2, 200));
        assert!((1.0..1.001).contains(&slowdown(4, 900)));
    }

    #[test]
    fn places_have_a_spread_of_one_and_zero_on_a_constant_axis() {
        let grid = Grid::new([&[3], &[100, 200, 900], &[5, 6], &[7, 8]]).expect("a grid");
        let scales = Scales::from_grid(&grid);
        let modes = crate::corpus::modes::all_modes(&grid);
        let places: Vec<Place> = modes.map(|knobs| scales.place(knobs)).collect();
        let spread = |coordinate: &dyn Fn(&Place) -> f64| {
            places
                .iter()
                .map(|place| coordinate(place).powi(2))
                .sum::<f64>()
                / places.len() as f64
        };
        assert_eq!(spread(&|place| place.input[0]), 0.0);
        assert_eq!(spread(&|place| place.log[0]), 0.0);
        for axis in 1..4 {
            assert!((spread(&|place| place.input[axis]) - 1.0).abs() < 1e-9);
        }
    }

    #[test]
    fn a_board_in_another_unit_has_the_same_places() {
        let other = Grid::new([&[2, 4, 8], &[200, 600, 1800], &[50, 60], &[14, 16]]);
        let (one, other) = (
            Scales::from_grid(&grid()),
            Scales::from_grid(&other.expect("a grid")),
        );
        let (a, b) = (one.place([2, 300, 6, 7]), other.place([4, 600, 60, 14]));
        for i in 0..4 {
            assert!((a.input[i] - b.input[i]).abs() < 1e-12 && (a.log[i] - b.log[i]).abs() < 1e-12);
        }
        for (a, b) in a.above.iter().zip(b.above) {
            assert!((a - b).abs() < 1e-12);
        }
    }
}
