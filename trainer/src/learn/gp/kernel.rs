//! The kernel of a Gaussian process and its derivatives.

use crate::learn::mean::Place;

/// k(x, x′) = a²·(1 + r + r²/3)·e^(−r) + b²·(1 + x·x′), with r² = 5·Σ ((xᵢ − x′ᵢ)/lᵢ)².
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    inverse_lengths: [f64; 4],
    matern: f64,
    linear: f64,
    /// The noise variance s².
    pub noise: f64,
}

impl Kernel {
    /// Creates a kernel from the logarithms of the four length scales, of a, b and s.
    pub fn new(theta: &[f64]) -> Self {
        Self {
            inverse_lengths: std::array::from_fn(|i| (-theta[i]).exp()),
            matern: (2.0 * theta[4]).exp(),
            linear: (2.0 * theta[5]).exp(),
            noise: (2.0 * theta[6]).exp(),
        }
    }

    /// The covariance of two places, without noise.
    pub fn value(&self, x: &Place, y: &Place) -> f64 {
        self.matern_part(x, y).value() + self.linear_part(x, y)
    }

    /// The variance of a place, without noise.
    pub fn variance(&self, x: &Place) -> f64 {
        self.matern + self.linear_part(x, x)
    }

    /// The linear part: b²·(1 + x·x′).
    pub fn linear_part(&self, x: &Place, y: &Place) -> f64 {
        let product = x.input.iter().zip(&y.input).map(|(x, y)| x * y);
        self.linear * (1.0 + product.sum::<f64>())
    }

    /// The Matérn part with ν = 5/2.
    pub fn matern_part(&self, x: &Place, y: &Place) -> Matern {
        let squares: [f64; 4] = std::array::from_fn(|i| {
            5.0 * ((x.input[i] - y.input[i]) * self.inverse_lengths[i]).powi(2)
        });
        let r = squares.iter().sum::<f64>().sqrt();
        Matern {
            squares,
            r,
            scale: self.matern * (-r).exp(),
        }
    }
}

/// The Matérn part between two places.
pub struct Matern {
    /// The terms of r², one per input.
    squares: [f64; 4],
    r: f64,
    /// a²·e^(−r).
    scale: f64,
}

impl Matern {
    /// a²·(1 + r + r²/3)·e^(−r).
    pub fn value(&self) -> f64 {
        self.scale * (1.0 + self.r + self.r * self.r / 3.0)
    }

    /// The derivative by the logarithm of length scale i: a²·e^(−r)·(1 + r)/3 times term i of r².
    pub fn by_length(&self, i: usize) -> f64 {
        self.scale * (1.0 + self.r) / 3.0 * self.squares[i]
    }
}
