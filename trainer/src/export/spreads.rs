//! The spreads of a file: the least one of the power, and that of the time, a line over the spread of the power.

use wattgate_runtime::guard::TimeSpread;

use super::network::Predicted;
use super::surface::{MOST_SPREAD, Surface};
use super::wgt::Spreads;
use crate::learn::predictions::Target;

/// Fits both to what the teacher expects. The student's errors come on top. A model of time alone has neither.
pub fn fit(surface: &Surface, targets: &[Vec<f64>], network: &Predicted<'_>) -> Spreads {
    let [_, logs, sds] = targets else {
        return Spreads::default();
    };
    let resolution = f64::from(network.network().spread_resolution());
    let predicted = network.values();
    let square = mean_square(predicted.power.unwrap_or_default().iter().zip(logs));
    let least = sds.iter().copied().fold(MOST_SPREAD, f64::min);
    let least = (least * least + square).sqrt() / resolution;
    let spreads = Spreads {
        least: least.min(f64::from(i16::MAX)) as u16,
        time: TimeSpread::default(),
    };
    let predicted = network.clone().with_spreads(spreads).values();
    let teacher = &surface.expected[Target::Time as usize];
    let times: Vec<f64> = teacher.iter().map(|teacher| teacher.median).collect();
    let square = mean_square(predicted.time.iter().zip(&times));
    let wanted = teacher
        .iter()
        .map(|teacher| (teacher.sd * teacher.sd + square).sqrt());
    let wanted: Vec<f64> = wanted.collect();
    let of_power = predicted.spread.unwrap_or_default();
    Spreads {
        time: of_time(&of_power, &wanted, resolution),
        ..spreads
    }
}

/// Mean square of ln predicted − ln expected.
fn mean_square<'a>(pairs: impl ExactSizeIterator<Item = (&'a f64, &'a f64)>) -> f64 {
    let n = pairs.len() as f64;
    pairs
        .map(|(spread, log)| (spread.ln() - log).powi(2))
        .sum::<f64>()
        / n
}

/// Share of the modes whose standard deviation of ln time the file states at least as large as the teacher does.
const ENVELOPE: f64 = 0.95;

/// Fits the line that gives a mode's standard deviation of ln time (`wanted`) from that of its ln power
/// (`spreads`), both in ln units. Then raises it until [`ENVELOPE`] of the modes lie below: the guard band counts in
/// the file's deviations, and a mode far above the line would need many of them. `resolution` is what 1 stands for
/// in the file.
fn of_time(spreads: &[f64], wanted: &[f64], resolution: f64) -> TimeSpread {
    // Errors of a deviation count as parts of it.
    let points = spreads.iter().zip(wanted);
    let (base, slope) = line(points.map(|(spread, wanted)| (*spread, *wanted, wanted.powi(-2))));
    let mut ratios: Vec<f64> = spreads
        .iter()
        .zip(wanted)
        .map(|(spread, wanted)| wanted / (base + slope * spread).max(f64::MIN_POSITIVE))
        .collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let raise = ratios[(ENVELOPE * (ratios.len() - 1) as f64) as usize].max(1.0);
    let base = (raise * base / resolution).ceil();
    let slope = (raise * slope * f64::from(TimeSpread::SLOPE_ONE)).ceil();
    TimeSpread {
        base: base.clamp(1.0, f64::from(i16::MAX)) as u16,
        slope: slope.min(f64::from(TimeSpread::MOST_SLOPE)) as u16,
    }
}

/// The line y = base + slope·x with base and slope ≥ 0 and the least weighted squares, through points
/// (x, y, weight).
fn line(points: impl Iterator<Item = (f64, f64, f64)>) -> (f64, f64) {
    let mut sums = [0.0; 5];
    for (x, y, weight) in points {
        let terms = [1.0, x, y, x * x, x * y];
        for (sum, term) in sums.iter_mut().zip(terms) {
            *sum += weight * term;
        }
    }
    let [n, x, y, xx, xy] = sums;
    let determinant = n * xx - x * x;
    let slope = match determinant > 1e-12 * n * xx {
        true => ((n * xy - x * y) / determinant).max(0.0),
        false => 0.0,
    };
    let base = (y - slope * x) / n;
    match base >= 0.0 {
        true => (base, slope),
        false => (0.0, xy / xx),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_no_negative_part() {
        let through = |points: &[(f64, f64)]| line(points.iter().map(|(x, y)| (*x, *y, 1.0)));
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() + (b - d).abs() < 1e-9;
        assert!(near(
            through(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]),
            (1.0, 2.0)
        ));
        assert!(
            near(through(&[(1.0, 1.0), (2.0, 3.0)]), (0.0, 1.4)),
            "no base below 0"
        );
        assert!(
            near(through(&[(1.0, 3.0), (2.0, 1.0)]), (2.0, 0.0)),
            "no slope below 0"
        );
        assert!(
            near(through(&[(1.0, 3.0), (1.0, 5.0)]), (4.0, 0.0)),
            "one spread for all"
        );
    }

    #[test]
    fn most_modes_lie_below_the_spread_of_the_time() {
        let resolution = 1.0 / 65_536.0;
        let spreads: Vec<f64> = (0..1_000).map(|i| 0.02 + 1e-4 * f64::from(i)).collect();
        let wanted: Vec<f64> = spreads
            .iter()
            .enumerate()
            .map(|(i, s)| s * (0.5 + 1e-3 * (37 * i % 1_000) as f64))
            .collect();
        let TimeSpread { base, slope } = of_time(&spreads, &wanted, resolution);
        let stated = |s: f64| f64::from(base) * resolution + f64::from(slope) / 4_096.0 * s;
        let below = spreads
            .iter()
            .zip(&wanted)
            .filter(|(s, w)| **w <= stated(**s))
            .count();
        assert!((940..=965).contains(&below), "{below}");
    }
}
