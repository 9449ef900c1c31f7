//! The covariance of a Gaussian process and its derivatives.

use wattgate_runtime::grid::Axis;

use crate::learn::mean::{Mean, NOISE, Place};

/// k(x, x′) = a²·(1 + r + r²/3)·e^(−r) + b²·(1 + x·x′) + c²·n, with r² = 5·Σ ((xᵢ − x′ᵢ)/lᵢ)² and n the number of
/// clocks, of CPU and GPU, that x and x′ share. The last part lets the value at one clock leave the smooth curve
/// of its axis, as it does where firmware rounds the clock to another one, or where the voltage steps.
#[derive(Clone, Copy, Debug)]
pub struct Covariance {
    /// Chooses the inputs x of the linear part.
    mean: Mean,
    /// 1/l².
    inverse_squares: [f64; 4],
    matern: f64,
    linear: f64,
    levels: f64,
    /// The noise variance s².
    pub noise: f64,
}

impl Covariance {
    /// Creates a covariance from the logarithms of the four length scales, of a, b, c and s.
    pub fn new(mean: Mean, theta: &[f64]) -> Self {
        Self {
            mean,
            inverse_squares: std::array::from_fn(|i| (-2.0 * theta[i]).exp()),
            matern: (2.0 * theta[4]).exp(),
            linear: (2.0 * theta[5]).exp(),
            levels: (2.0 * theta[6]).exp(),
            noise: (2.0 * theta[7]).exp(),
        }
    }

    /// The covariance of two places, without noise.
    pub fn value(&self, x: &Place, y: &Place) -> f64 {
        let terms = squares(x, y).into_iter().zip(self.inverse_squares);
        let square: f64 = terms.map(|(square, inverse)| square * inverse).sum();
        self.matern_part(square.sqrt()).value
            + self.linear * product(self.mean, x, y)
            + self.levels * shared(x, y)
    }

    /// The variance of a place, without noise.
    pub fn variance(&self, x: &Place) -> f64 {
        self.matern + self.linear * product(self.mean, x, x) + self.levels * shared(x, x)
    }

    /// The Matérn part of each pair.
    pub fn materns(&self, pairs: &Pairs) -> Materns {
        let [s0, s1, s2, s3] = &pairs.squares;
        let [i0, i1, i2, i3] = self.inverse_squares;
        let terms = s0.iter().zip(s1).zip(s2).zip(s3);
        let squares = terms.map(|(((s0, s1), s2), s3)| i0 * s0 + i1 * s1 + i2 * s2 + i3 * s3);
        let mut values: Vec<f64> = squares.map(f64::sqrt).collect();
        let slope = |r: &mut f64| {
            let Matern { value, slope } = self.matern_part(*r);
            *r = value;
            slope
        };
        let slopes = values.iter_mut().map(slope).collect();
        Materns { values, slopes }
    }

    /// The covariance of each pair, without noise.
    pub fn of_pairs<'a>(
        &self,
        pairs: &'a Pairs,
        materns: &'a Materns,
    ) -> impl Iterator<Item = f64> + use<'a> {
        let (linear, levels) = (self.linear, self.levels);
        let parts = materns.values.iter().zip(&pairs.products);
        let parts = parts.zip(&pairs.shared);
        parts.map(move |((matern, product), shared)| matern + linear * product + levels * shared)
    }

    /// The derivatives of Σ share·k by the hyperparameters up to the noise, which is left out. The sum
    /// is over all pairs; `shares` has one share for each.
    pub fn gradient(&self, pairs: &Pairs, materns: &Materns, shares: &[f64]) -> [f64; NOISE] {
        let slopes = materns.slopes.iter().zip(shares);
        let slopes: Vec<f64> = slopes.map(|(slope, share)| slope * share).collect();
        let by_length = |i: usize| self.inverse_squares[i] * dot(&pairs.squares[i], &slopes);
        [
            by_length(0),
            by_length(1),
            by_length(2),
            by_length(3),
            2.0 * dot(&materns.values, shares),
            2.0 * self.linear * dot(&pairs.products, shares),
            2.0 * self.levels * dot(&pairs.shared, shares),
        ]
    }

    /// The Matérn part with ν = 5/2 at a distance.
    fn matern_part(&self, r: f64) -> Matern {
        let scale = self.matern * (-r).exp();
        Matern {
            value: scale * (1.0 + r + r * r / 3.0),
            slope: scale * (1.0 + r) / 3.0,
        }
    }
}

/// The Matérn part between two places.
struct Matern {
    /// a²·(1 + r + r²/3)·e^(−r).
    value: f64,
    /// The derivative by the logarithm of a length scale, for each unit of its term of r²:
    /// a²·e^(−r)·(1 + r)/3.
    slope: f64,
}

/// The terms of r², one per input, where all length scales are one.
fn squares(x: &Place, y: &Place) -> [f64; 4] {
    std::array::from_fn(|i| 5.0 * (x.input[i] - y.input[i]).powi(2))
}

/// How many of the two clocks, of CPU and GPU, two places share.
fn shared(x: &Place, y: &Place) -> f64 {
    let is_shared = |axis: &&Axis| x.input[**axis as usize] == y.input[**axis as usize];
    [Axis::Cpu, Axis::Gpu].iter().filter(is_shared).count() as f64
}

/// Variance of the slope by a reference's logarithm, relative to that of the constant.
const BY_REFERENCE: f64 = 0.27;

/// The same by the logarithm of a knob.
const BY_KNOB: f64 = 0.033;

/// One plus the inputs of the linear part, multiplied with those of another place.
fn product(mean: Mean, x: &Place, y: &Place) -> f64 {
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    match mean {
        Mean::TimeOfReference | Mean::PowerOfReference => {
            let by_reference = product(
                x.stated_by_each.as_flattened(),
                y.stated_by_each.as_flattened(),
            );
            1.0 + BY_REFERENCE * by_reference + BY_KNOB * product(&x.log, &y.log)
        }
        _ => 1.0 + product(&x.input, &y.input),
    }
}

/// What the covariance takes from each pair of places i ≥ j, column by column. It does not depend on
/// the hyperparameters.
#[derive(Debug)]
pub struct Pairs {
    squares: [Vec<f64>; 4],
    products: Vec<f64>,
    shared: Vec<f64>,
}

impl Pairs {
    /// Of all pairs of some places.
    pub fn from_places(mean: Mean, places: &[Place]) -> Self {
        let columns = (0..places.len()).map(|j| (&places[j], &places[j..]));
        let pairs = columns.flat_map(|(y, rest)| rest.iter().map(move |x| (x, y)));
        let squares = |i| pairs.clone().map(|(x, y)| squares(x, y)[i]).collect();
        Self {
            squares: std::array::from_fn(squares),
            products: pairs.clone().map(|(x, y)| product(mean, x, y)).collect(),
            shared: pairs.clone().map(|(x, y)| shared(x, y)).collect(),
        }
    }

    /// Their number.
    pub fn len(&self) -> usize {
        self.products.len()
    }
}

/// The Matérn part of each pair.
pub struct Materns {
    values: Vec<f64>,
    slopes: Vec<f64>,
}

/// Σ aᵢ·bᵢ, in several sums at once.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    let (a, rest_of_a) = a.as_chunks::<8>();
    let (b, rest_of_b) = b.as_chunks::<8>();
    let mut sums = [0.0; 8];
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum += a * b;
        }
    }
    let rest = rest_of_a.iter().zip(rest_of_b).map(|(a, b)| a * b);
    sums.iter().sum::<f64>() + rest.sum::<f64>()
}
