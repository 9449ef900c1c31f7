//! A physical first guess of a kernel's time: a sum of waiting times, each with a coefficient that is
//! fitted and not negative.
//!
//! Launches wait for the CPU, arithmetic for the GPU, traffic for the memory, and a start for the GPU's
//! clock. The coefficients minimise the sum of squared relative errors.

use super::demand::Demand;

/// The terms of the sum.
pub const TERMS: [&str; 6] = [
    "launch share",
    "arithmetic share",
    "tiled arithmetic share",
    "memory share",
    "cache share",
    "start share",
];

/// Index of the term that waits for a launch by the CPU.
pub const LAUNCH: usize = 0;

/// Sweeps of the coordinate descent.
const SWEEPS: usize = 200;

/// Coefficients of the terms.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Roofline([f64; TERMS.len()]);

/// The terms with unit coefficients: µs for clocks in MHz, operations in millions and bytes in millions.
fn terms(demand: &Demand, knobs: [u32; 4]) -> [f64; TERMS.len()] {
    let [_, cpu, gpu, emc] = knobs.map(|knob| 1e-3 * f64::from(knob.max(1_000)));
    [
        demand.launches / cpu,
        1e-6 * demand.flop / gpu,
        1e-6 * demand.flop / gpu,
        1e-6 * demand.bytes / emc,
        1e-6 * demand.bytes / gpu,
        demand.launches / gpu,
    ]
}

impl Roofline {
    /// Fits the coefficients to rows with their times.
    pub fn fit<'a>(rows: impl Iterator<Item = (&'a Demand, [u32; 4], f64)>) -> Self {
        // The normal equations of the relative errors.
        let mut products = [[0.0; TERMS.len()]; TERMS.len()];
        let mut sums = [0.0; TERMS.len()];
        for (demand, knobs, time) in rows {
            let terms = terms(demand, knobs).map(|term| term / time);
            for (i, a) in terms.iter().enumerate() {
                sums[i] += a;
                for (j, b) in terms.iter().enumerate() {
                    products[i][j] += a * b;
                }
            }
        }
        let mut coefficients = [0.0; TERMS.len()];
        for _ in 0..SWEEPS {
            for i in 0..TERMS.len() {
                if products[i][i] > 0.0 {
                    let others: f64 = (0..TERMS.len())
                        .map(|j| products[i][j] * coefficients[j])
                        .sum();
                    coefficients[i] =
                        (coefficients[i] + (sums[i] - others) / products[i][i]).max(0.0);
                }
            }
        }
        Self(coefficients)
    }

    /// ln of the time, and the share of each term.
    pub fn predict(&self, demand: &Demand, knobs: [u32; 4]) -> (f64, [f64; TERMS.len()]) {
        let mut share = terms(demand, knobs);
        for (term, coefficient) in share.iter_mut().zip(self.0) {
            *term *= coefficient;
        }
        let sum = share.iter().sum::<f64>().max(1e-12);
        (sum.ln(), share.map(|term| term / sum))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_kernels::{Call, Operation, Shape};

    #[test]
    fn coefficients_are_found_again_and_none_is_negative() {
        let truth = Roofline([900.0, 0.0, 2.0, 30.0, 0.0, 40.0]);
        let demands: Vec<Demand> = [1, 7, 30, 100, 300]
            .map(|side| {
                let shape = Shape {
                    batch: 1,
                    channels: 64,
                    height: side,
                    width: side,
                };
                Demand::from_call(&Call::new(Operation::Relu(shape)).expect("valid"))
            })
            .into();
        let clocks = [300_000, 900_000, 2_100_000];
        let rows: Vec<(&Demand, [u32; 4])> = demands
            .iter()
            .flat_map(|demand| clocks.map(|cpu| (demand, cpu)))
            .flat_map(|(demand, cpu)| clocks.map(|gpu| (demand, cpu, gpu)))
            .flat_map(|(demand, cpu, gpu)| clocks.map(|emc| (demand, [8, cpu, gpu, emc])))
            .collect();
        let time = |demand: &Demand, knobs| truth.predict(demand, knobs).0.exp();
        let fitted = Roofline::fit(rows.iter().map(|&(d, knobs)| (d, knobs, time(d, knobs))));
        assert!(fitted.0.iter().all(|coefficient| *coefficient >= 0.0));
        for (demand, knobs) in rows {
            let ratio = fitted.predict(demand, knobs).0 - truth.predict(demand, knobs).0;
            assert!(ratio.abs() < 0.02, "{ratio}");
        }
    }
}
