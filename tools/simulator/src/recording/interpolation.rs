//! What a real board did with a workload, over what the physics says.
//!
//! Between the measured modes the logarithms of both ratios are interpolated by inverse distances in the weights of
//! Franke and Little ("Scattered data interpolation", 1980): w = ((R - d) / (R d))² for each mode at a distance d below R,
//! where R is `REACH` times the distance of the [`NEIGHBOURS`]th nearest mode. The result is exact in each measured mode
//! and continuous between them. Distances are those of the logarithms of cores and clocks; each logarithm is scaled so that the
//! least measured value of its knob is 0 and the greatest 1. Beyond these values the ratio is that of the nearest one.

/// Number of measured modes whose distance sets how far the others count, and the least number in a recording.
pub const NEIGHBOURS: usize = 8;

/// Reach of the interpolation, in multiples of the distance of the last neighbour. Above 1, so that modes at equal distances,
/// as in the middle of a cell of a grid, all count.
const REACH: f64 = 1.5;

/// A measured mode that is nearer than this is the mode itself: the mean of equal clocks may have a rounding error.
const SAME: f64 = 1e-9;

/// A recorded time and power over the simulated ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// Factor on the time.
    pub time: f64,
    /// Logarithm of the factor on the power.
    pub power_log: f64,
}

impl Ratio {
    /// That of a workload without a recording.
    pub const NONE: Self = Self {
        time: 1.0,
        power_log: 0.0,
    };
}

/// What a real board did with a workload.
#[derive(Debug)]
pub struct Recording {
    /// Logarithms of the least value of each knob, and the difference to that of the greatest; 0 for a knob that does not
    /// change.
    axes: [[f64; 2]; 4],
    modes: Vec<Place>,
}

/// A measured mode.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: [f64; 4],
    /// Logarithms of measured over simulated time and power.
    logs: [f64; 2],
}

impl Recording {
    /// The recording of at least [`NEIGHBOURS`] different modes: the number of online cores and the clocks in kHz of each, and the
    /// logarithms of its measured over its simulated time and power.
    pub fn new(modes: &[([u32; 4], [f64; 2])]) -> Self {
        let axes = std::array::from_fn(|axis| {
            let logs = modes.iter().map(|(knobs, _)| f64::from(knobs[axis]).ln());
            let least = logs.clone().fold(f64::INFINITY, f64::min);
            [least, logs.fold(f64::NEG_INFINITY, f64::max) - least]
        });
        let place = |(knobs, logs): &([u32; 4], [f64; 2])| Place {
            at: place(&axes, knobs.map(f64::from)),
            logs: *logs,
        };
        Self {
            axes,
            modes: modes.iter().map(place).collect(),
        }
    }

    /// The ratios at a number of online cores and at CPU, GPU and memory clocks in kHz, which need not be those of a mode.
    pub fn ratio(&self, knobs: [f64; 4]) -> Ratio {
        let [time_log, power_log] = self.logs_at(&place(&self.axes, knobs));
        Ratio {
            time: time_log.exp(),
            power_log,
        }
    }

    fn logs_at(&self, at: &[f64; 4]) -> [f64; 2] {
        let distance = |mode: &Place| {
            let squares = mode.at.iter().zip(at).map(|(a, b)| (a - b).powi(2));
            squares.sum::<f64>().sqrt()
        };
        let mut near: Vec<(f64, [f64; 2])> = self
            .modes
            .iter()
            .map(|mode| (distance(mode), mode.logs))
            .collect();
        let last = NEIGHBOURS.min(near.len()) - 1;
        let (_, (furthest, _), _) = near.select_nth_unstable_by(last, |a, b| a.0.total_cmp(&b.0));
        let reach = REACH * *furthest;
        let (mut sums, mut all) = ([0.0; 2], 0.0);
        for (distance, logs) in near {
            if distance < SAME {
                return logs;
            }
            let weight = (1.0 / distance - 1.0 / reach).max(0.0).powi(2);
            all += weight;
            sums = [sums[0] + weight * logs[0], sums[1] + weight * logs[1]];
        }
        sums.map(|sum| sum / all)
    }
}

/// The place of a mode: each knob from 0 to 1.
fn place(axes: &[[f64; 2]; 4], knobs: [f64; 4]) -> [f64; 4] {
    std::array::from_fn(|axis| {
        let [least, span] = axes[axis];
        match span > 0.0 {
            true => ((knobs[axis].ln() - least) / span).clamp(0.0, 1.0),
            false => 0.0,
        }
    })
}
