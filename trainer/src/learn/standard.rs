//! Standardisation: values to a mean of zero and a standard deviation of one.

/// The mean and standard deviation of some values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Standard {
    /// The mean.
    pub mean: f64,
    /// The standard deviation; one if all values are equal up to rounding.
    pub sd: f64,
}

impl Standard {
    /// Mean and standard deviation of at least one value.
    pub fn from_values(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / n;
        let sd = (values.map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        let rounding = 1e-12 * mean.abs().max(1.0);
        Self {
            mean,
            sd: if sd > rounding { sd } else { 1.0 },
        }
    }

    /// A value in standard deviations from the mean.
    pub fn apply(&self, value: f64) -> f64 {
        (value - self.mean) / self.sd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_stay_in_their_unit() {
        let standard = Standard::from_values([5000_f64.ln(); 37].into_iter());
        assert_eq!(standard.sd, 1.0);
        assert!(standard.apply(5000_f64.ln()).abs() < 1e-12);
    }

    #[test]
    fn other_values_have_a_spread_of_one() {
        let values = [1.0, 2.0, 4.0, 9.0];
        let standard = Standard::from_values(values.into_iter());
        let applied = values.map(|v| standard.apply(v));
        let again = Standard::from_values(applied.into_iter());
        assert!(again.mean.abs() < 1e-12 && (again.sd - 1.0).abs() < 1e-12);
    }
}
