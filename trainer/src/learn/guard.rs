//! The guard bands of a model: margins that hold for the modes that queries choose.
//!
//! Cross-validation gives zᵢ, the standardised residual of training mode i. The error of the exported
//! file at a mode x, ln(measured / predicted), is modelled as zᵢ·sd(x) + offset(x): sd is the teacher's
//! predictive standard deviation, and the offset is ln(teacher's prediction / file's prediction), which
//! is known. A residual is as likely with the other sign, so every zᵢ counts with both.
//!
//! A query does not choose at random. It prefers modes whose power or time the file underestimates. So
//! a margin has to hold for the chosen modes as well as for any mode. A mode of the Pareto front is
//! chosen for a share of the limits, those from its guarded power to that of the next mode, and for a
//! share of the deadlines, those from its guarded time to that of the next mode, on a logarithmic scale.
//! The risk R of a margin is the share of limits (deadlines) whose chosen mode exceeds its guarded power
//! (time), or the share of all modes that exceed theirs, whichever is larger, averaged over i. Conformal
//! risk control (Angelopoulos et al. 2024, "Conformal Risk Control", theorem 1) takes the least margin
//! with
//!
//! > (n·R + ½) / (n + 1) ≤ 1 − confidence
//!
//! for n residuals. The ½ stands for one new residual, larger than all others: it exceeds its margin with
//! one of its two signs. So few residuals widen the band, and a confidence above 1 − ½ / (n + 1) gets
//! none from them.
//!
//! Up to a confidence of 95 % a prior fills that gap, for fewer than nine residuals: a new zᵢ then follows Student's
//! distribution with n degrees of freedom. Its scale is 1, as if the teacher's standard deviations were right, or
//! the scale at which the largest residual has a risk of ½ / (n + 1), whichever is larger. Few residuals that
//! happen to be small do not narrow the band. The margin is the least with R ≤ 1 − confidence.
//!
//! In a model of time alone the margin is one ratio and holds for any mode.

use statrs::distribution::{ContinuousCDF, StudentsT};
use wattgate_runtime::guard::{GuardBand, Knot, MOST_DEVIATIONS};

use crate::learn::expected::{LeftOut, Residual};
use crate::learn::fleet::Spread;
use crate::learn::predictions::Target;

/// Confidences of the bands' knots, in units of 1/10,000.
const CONFIDENCES: [u16; 6] = [5_000, 8_000, 9_000, 9_500, 9_800, 9_900];

/// Units of a margin.
const Q16: f64 = 65_536.0;

/// The largest margin of a time as a logarithm of the ratio, in a model of time alone.
const MOST_RATIO: f64 = 5.0;

/// Residuals that stand for all, where a unit is drawn as well: their tails matter less.
const MOST_RESIDUALS: usize = 64;

/// The highest confidence that fewer residuals than it needs get from the prior, in units of 1/10,000. The daemon
/// asks for it by default.
const BY_PRIOR: u16 = 9_500;

/// Number of quantiles that stand for the prior.
const PRIOR_QUANTILES: u32 = 512;

/// Resolution of a margin.
const RESOLUTION: f64 = 1.0 / 8_192.0;

/// The front depends on both margins. The second pass takes that of the time into account where the
/// first found that of the power.
const PASSES: usize = 2;

/// What is expected of the measurement of a mode.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Error {
    /// The teacher's predictive standard deviation of ln(measured).
    pub sd: f64,
    /// ln(teacher's prediction / exported file's prediction).
    pub offset: f64,
}

/// A time or power of a mode that a query may choose.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// The exported file's prediction, as ln µs or ln mW.
    pub log: f64,
    /// The exported file's standard deviation of it, above 0; 1 in a model of time alone.
    pub spread: f64,
    /// What is expected of a measured value.
    pub error: Error,
}

impl Candidate {
    fn counts(&self, deviations: f64) -> f64 {
        self.log + deviations * self.spread
    }
}

/// A mode that a query may choose: its time, and its power if the model predicts it.
pub type Offered = (Candidate, Option<Candidate>);

/// The guard bands of time and power, in deviations, from the cross-validated residuals of both and from
/// the modes on offer, at least one. For a model of time alone, that of the time in ratios.
pub fn bands(left_out: &[LeftOut], offered: &[Offered]) -> (GuardBand, Option<GuardBand>) {
    let residuals = Target::ALL.map(|target| standardised(left_out, target));
    let has_power = offered.iter().all(|(_, power)| power.is_some());
    let both: Vec<[Candidate; 2]> = offered
        .iter()
        .filter_map(|(time, power)| Some([*time, (*power)?]))
        .collect();
    let most = match has_power {
        true => f64::from(MOST_DEVIATIONS),
        false => MOST_RATIO,
    };
    let (mut of_time, mut of_power) = (Vec::new(), Vec::new());
    // The margins of the confidence before.
    let mut before = [0.0, 0.0];
    for per_ten_thousand in CONFIDENCES {
        let knot = |margin: f64| Knot {
            per_ten_thousand,
            q16: (margin * Q16).ceil() as u32,
        };
        let [times, powers] = residuals
            .each_ref()
            .map(|z| NewResidual::after(z, per_ten_thousand));
        let found = match (per_ten_thousand, times) {
            // The prediction itself.
            (5_000, _) => Some([Some(0.0), Some(0.0)]),
            (_, None) => None,
            (_, Some(times)) => {
                let any_time = |margin| {
                    let any = any_mode(offered.iter().map(|mode| &mode.0), margin);
                    risk(&times.z, &any)
                };
                let least = |quantity: usize, of: &NewResidual, risk: &dyn Fn(f64) -> f64| {
                    least_margin((before[quantity], most), of.allowed, risk)
                };
                let mut time = least(0, &times, &any_time);
                let mut power = None;
                for _ in 0..PASSES {
                    let (Some(of_time), Some(powers)) = (time.filter(|_| has_power), &powers)
                    else {
                        break;
                    };
                    power = least(1, powers, &|margin| {
                        let chosen = chosen(&both, [of_time, margin], Target::Power);
                        let any = any_mode(both.iter().map(|mode| &mode[1]), margin);
                        risk(&powers.z, &chosen).max(risk(&powers.z, &any))
                    });
                    let Some(of_power) = power else {
                        break;
                    };
                    time = least(0, &times, &|margin| {
                        let chosen = chosen(&both, [margin, of_power], Target::Time);
                        risk(&times.z, &chosen).max(any_time(margin))
                    });
                }
                time.map(|time| [Some(time), power])
            }
        };
        let Some([time, power]) = found else {
            continue;
        };
        if let Some(time) = time {
            before[0] = time;
            of_time.push(match has_power {
                true => knot(time),
                false => knot(time.exp()),
            });
        }
        if let Some(power) = power.filter(|_| has_power) {
            before[1] = power;
            of_power.push(knot(power));
        }
    }
    let sound = "confidences ascend and margins do not fall";
    match has_power {
        true => (
            GuardBand::of_deviations(of_time).expect(sound),
            Some(GuardBand::of_deviations(of_power).expect(sound)),
        ),
        false => (GuardBand::new(of_time).expect(sound), None),
    }
}

/// By how much the guarded times and powers of another unit exceed those of the units that were profiled: ratios for the
/// knots of the [`bands`]. The risk is that of a chosen mode, with a residual of the mode and a draw of the unit.
pub fn others(
    left_out: &[LeftOut],
    offered: &[Offered],
    (time, power): (&GuardBand, Option<&GuardBand>),
    units: [&Spread; 2],
) -> [Vec<Knot>; 2] {
    let residuals = Target::ALL.map(|target| standardised(left_out, target));
    let both: Option<Vec<[Candidate; 2]>> = offered
        .iter()
        .map(|(time, power)| Some([*time, (*power)?]))
        .collect();
    let at = |knot: &Knot| f64::from(knot.q16) / Q16;
    let of_knot = |target: Target, knot: &Knot, place: usize, before: f64| {
        let quantity = target as usize;
        if knot.per_ten_thousand == 5_000 {
            return 0.0;
        }
        let chosen = match (&both, power) {
            (Some(both), Some(power)) => {
                // The other target's margin of the same confidence, or of the highest one that it has.
                let last = |band: &GuardBand| band.knots().last().map_or(0.0, at);
                let margin = |band: &GuardBand| band.knots().get(place).map_or(last(band), at);
                chosen(both, [margin(time), margin(power)], target)
            }
            _ => any_mode(offered.iter().map(|mode| &mode.0), at(knot).ln()),
        };
        let new = NewResidual::after(&residuals[quantity], knot.per_ten_thousand);
        let found = new.and_then(|new| {
            let (z, range) = (few(&new.z), (before, MOST_RATIO));
            least_margin(range, new.allowed, |ratio| {
                risk_on_others(&z, &chosen, units[quantity], ratio)
            })
        });
        found.unwrap_or(MOST_RATIO)
    };
    let of_band = |target: Target, band: &GuardBand| {
        let mut before = 0.0;
        let knots = band.knots().iter().enumerate();
        let ratio = |(place, knot): (usize, &Knot)| {
            before = of_knot(target, knot, place, before);
            let q16 = (before.exp() * Q16).ceil() as u32;
            Knot { q16, ..*knot }
        };
        knots.map(ratio).collect()
    };
    [
        of_band(Target::Time, time),
        power.map_or(Vec::new(), |power| of_band(Target::Power, power)),
    ]
}

/// As [`risk`], with margins increased by the logarithm of a ratio, on another unit.
fn risk_on_others(z: &[f64], chosen: &[Chosen], unit: &Spread, ratio: f64) -> f64 {
    let risk_of = |at: &Chosen| {
        let left = at.margin + ratio - at.error.offset;
        let exceed = z.iter().map(|z| {
            let by_residual = z * at.error.sd;
            unit.exceeds(left - by_residual, at.log) + unit.exceeds(left + by_residual, at.log)
        });
        at.share * exceed.sum::<f64>()
    };
    chosen.iter().map(risk_of).sum::<f64>() / (2 * z.len()) as f64
}

/// At most [`MOST_RESIDUALS`] of some ascending residuals, evenly spread.
fn few(z: &[f64]) -> Vec<f64> {
    let kept = z.len().min(MOST_RESIDUALS);
    (0..kept)
        .map(|at| z[(2 * at + 1) * z.len() / (2 * kept)])
        .collect()
}

/// The number of deviations that a new residual exceeds with at most this risk, above 0, by the same rule as
/// [`bands`]. Where the n residuals are too few for the risk, it is the largest of them times a ratio of
/// quantiles of Student's distribution with n degrees of freedom: at the risk, over that at the least risk
/// that n residuals carry. Infinite without residuals.
pub fn deviations(residuals: &[Residual], risk: f64) -> f64 {
    let z = ascending(residuals.iter().copied());
    let (n, Some(largest)) = (z.len() as f64, z.last()) else {
        return f64::INFINITY;
    };
    match allowed(risk, z.len()) {
        // Each residual has both signs, so `above` of them exceed with the risk above / 2n.
        Some(allowed) => {
            let above = (2.0 * allowed * n).floor() as usize;
            z[z.len() - 1 - above.min(z.len() - 1)]
        }
        None => scale(*largest, z.len()) * student(z.len()).inverse_cdf(1.0 - risk),
    }
}

/// The absolute standardised residuals, ascending.
fn standardised(left_out: &[LeftOut], target: Target) -> Vec<f64> {
    ascending(
        left_out
            .iter()
            .filter_map(|left_out| left_out.for_target(target)),
    )
}

fn ascending(residuals: impl Iterator<Item = Residual>) -> Vec<f64> {
    let mut z: Vec<f64> = residuals
        .map(|residual| (residual.log / residual.sd).abs())
        .collect();
    z.sort_unstable_by(f64::total_cmp);
    z
}

/// The largest R for a risk; `None` if n residuals cannot carry it.
fn allowed(risk: f64, n: usize) -> Option<f64> {
    let n = n as f64;
    // The tolerance is for confidences whose decimal fraction is not a binary one.
    let allowed = (risk * (n + 1.0) - 0.5) / n + 1e-12;
    (allowed >= 0.0).then_some(allowed)
}

/// Student's distribution with as many degrees of freedom as there are residuals, at least one.
fn student(residuals: usize) -> StudentsT {
    StudentsT::new(0.0, 1.0, residuals as f64).expect("degrees of freedom")
}

/// The scale of Student's distribution at which a new residual exceeds the largest of n with the risk ½ / (n + 1).
fn scale(largest: f64, n: usize) -> f64 {
    largest / student(n).inverse_cdf(1.0 - 0.5 / (n as f64 + 1.0))
}

/// What a new residual may be.
struct NewResidual {
    /// Absolute standardised values, ascending, each as likely as the others.
    z: Vec<f64>,
    /// The largest R.
    allowed: f64,
}

impl NewResidual {
    /// After some ascending residuals, for a confidence in units of 1/10,000. `None` if they do not carry it.
    fn after(z: &[f64], per_ten_thousand: u16) -> Option<Self> {
        let at_most = 1.0 - f64::from(per_ten_thousand) / 1e4;
        let largest = *z.last()?;
        if let Some(allowed) = allowed(at_most, z.len()) {
            let z = z.to_vec();
            return Some(Self { z, allowed });
        }
        let (scale, student) = (scale(largest, z.len()).max(1.0), student(z.len()));
        let quantile = |at: u32| {
            let share = (f64::from(at) + 0.5) / f64::from(PRIOR_QUANTILES);
            scale * student.inverse_cdf(0.5 + 0.5 * share)
        };
        (per_ten_thousand <= BY_PRIOR).then(|| Self {
            z: (0..PRIOR_QUANTILES).map(quantile).collect(),
            allowed: at_most,
        })
    }
}

/// A chosen mode: what is expected of it, how far it may exceed its prediction, and for which share
/// of the limits it is chosen.
struct Chosen {
    /// The predicted logarithm.
    log: f64,
    error: Error,
    margin: f64,
    share: f64,
}

/// R of some chosen modes: the mean probability that a measurement exceeds its margin. `z` are the
/// absolute standardised residuals, ascending.
fn risk(z: &[f64], chosen: &[Chosen]) -> f64 {
    let risk_of = |Chosen {
                       error,
                       margin,
                       share,
                       ..
                   }: &Chosen| {
        let least = (margin - error.offset) / error.sd;
        let above = |least: f64| z.len() - z.partition_point(|&z| z <= least);
        let exceed = match least >= 0.0 {
            true => above(least),
            // Errors of the other sign exceed it as well, if they are small.
            false => z.len() + z.partition_point(|&z| z < -least),
        };
        share * exceed as f64
    };
    chosen.iter().map(risk_of).sum::<f64>() / (2 * z.len()) as f64
}

/// The least margin of a range whose risk is allowed, by bisection; `None` if there is none.
fn least_margin(
    (mut low, mut high): (f64, f64),
    allowed: f64,
    risk: impl Fn(f64) -> f64,
) -> Option<f64> {
    if risk(low) <= allowed {
        return Some(low);
    }
    if risk(high) > allowed {
        return None;
    }
    while high - low > RESOLUTION {
        let middle = f64::midpoint(low, high);
        match risk(middle) <= allowed {
            true => high = middle,
            false => low = middle,
        }
    }
    Some(high)
}

/// Every mode alike, with a margin of some deviations.
fn any_mode<'a>(
    offered: impl ExactSizeIterator<Item = &'a Candidate>,
    deviations: f64,
) -> Vec<Chosen> {
    let share = 1.0 / offered.len() as f64;
    let one = |at: &Candidate| Chosen {
        log: at.log,
        error: at.error,
        margin: deviations * at.spread,
        share,
    };
    offered.map(one).collect()
}

/// The modes that queries with a limit (a deadline) choose, with margins of some deviations.
fn chosen(offered: &[[Candidate; 2]], deviations: [f64; 2], target: Target) -> Vec<Chosen> {
    let quantity = target as usize;
    let mut front = front(offered, deviations);
    let counts = |mode: &&[Candidate; 2]| mode[quantity].counts(deviations[quantity]);
    // From the fastest mode on, times rise and powers fall.
    let shares = match target {
        Target::Time => shares(front.iter().map(counts).collect()),
        Target::Power => {
            front.reverse();
            shares(front.iter().map(|mode| counts(mode).exp()).collect())
        }
    };
    let describe = |(mode, share): (&&[Candidate; 2], f64)| Chosen {
        log: mode[quantity].log,
        error: mode[quantity].error,
        margin: deviations[quantity] * mode[quantity].spread,
        share,
    };
    front.iter().zip(shares).map(describe).collect()
}

/// The Pareto front of ascending times and falling powers, with margins of some deviations.
fn front(offered: &[[Candidate; 2]], [of_time, of_power]: [f64; 2]) -> Vec<&[Candidate; 2]> {
    let key = |[time, power]: &[Candidate; 2]| (time.counts(of_time), power.counts(of_power));
    let mut modes: Vec<&[Candidate; 2]> = offered.iter().collect();
    modes.sort_unstable_by(|a, b| {
        let ((s, p), (t, q)) = (key(a), key(b));
        s.total_cmp(&t).then(p.total_cmp(&q))
    });
    let mut least = f64::INFINITY;
    modes.retain(|mode| {
        let (_, counts) = key(mode);
        let is_less = counts < least;
        least = least.min(counts);
        is_less
    });
    modes
}

/// The share of the limits from each of some ascending values to the next one. The last value gets
/// the mean of the others, since the limits above it have no end.
fn shares(ascending: Vec<f64>) -> Vec<f64> {
    let mut widths: Vec<f64> = ascending.windows(2).map(|two| two[1] - two[0]).collect();
    let sum: f64 = widths.iter().sum();
    let last = match widths.len() {
        0 => 1.0,
        _ if sum <= 0.0 => 1.0,
        others => sum / others as f64,
    };
    widths.push(last);
    let sum: f64 = widths.iter().sum();
    widths.iter().map(|width| width / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::expected::Residual;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};
    use wattgate_cli::planning::least_modes;
    use wattgate_runtime::Confidence;

    fn left_out(z: &[f64]) -> Vec<LeftOut> {
        let one = |z: &f64| {
            let residual = Residual {
                log: 0.02 * z,
                sd: 0.02,
            };
            LeftOut {
                time: residual,
                power: Some(residual),
            }
        };
        z.iter().map(one).collect()
    }

    /// A front of modes with increasing power, all with one standard deviation.
    fn offered(sd: f64, spread: f64) -> Vec<Offered> {
        let error = Error { sd, offset: 0.0 };
        let at = |value: f64| Candidate {
            log: value.ln(),
            spread,
            error,
        };
        let mode = |step: i32| {
            let power = at(1_000.0 * f64::from(step));
            (at(1e5 / f64::from(step)), Some(power))
        };
        (10..40).map(mode).collect()
    }

    /// The same without powers.
    fn of_time_alone(sd: f64) -> Vec<Offered> {
        let all = offered(sd, 1.0).into_iter();
        all.map(|(time, _)| (time, None)).collect()
    }

    fn margin(band: &GuardBand, per_ten_thousand: u16) -> Option<f64> {
        let confidence = Confidence::new(per_ten_thousand).expect("in range");
        Some(f64::from(band.margin(confidence).ok()?) / Q16)
    }

    #[test]
    fn the_margin_is_the_conformal_quantile() {
        let z: Vec<f64> = (1..=99).map(|z| f64::from(z) / 50.0).collect();
        let z = left_out(&z);
        let (time, power) = bands(&z, &offered(0.05, 0.1));
        let power = power.expect("a power");
        // (99·R + ½) / 100 ≤ 5 % leaves 4.5 residuals, or 9 with both signs: from 1.82 up. A spread
        // of twice the standard deviation halves the deviations.
        let deviations = margin(&power, 9_500).expect("supported");
        assert!((0.90..0.911).contains(&deviations), "{deviations}");
        let of_time = margin(&time, 9_500).expect("supported");
        assert!((of_time - deviations).abs() < 1e-3, "{of_time}");
        let (alone, none) = bands(&z, &of_time_alone(0.05));
        assert!(none.is_none());
        let ratio = margin(&alone, 9_500).expect("supported");
        assert!((ratio.ln() - 0.05 * 1.8).abs() < 1e-3, "{ratio}");
        assert_eq!(margin(&power, 5_000), Some(0.0));
        assert_eq!(margin(&time, 5_000), Some(0.0));
        assert_eq!(margin(&alone, 5_000), Some(1.0));
    }

    #[test]
    fn few_residuals_carry_no_confidence_above_95_percent() {
        for (n, highest) in [(5, 9_500), (9, 9_500), (24, 9_800), (49, 9_900)] {
            let z = left_out(&vec![1.0; n]);
            let (time, power) = bands(&z, &offered(0.05, 0.05));
            for band in [time, power.expect("a power")] {
                let last = band.knots().last().expect("a knot");
                assert_eq!(last.per_ten_thousand, highest, "{n} residuals");
            }
            let highest = Confidence::new(highest).expect("a confidence");
            let above = Confidence::new(highest.per_ten_thousand() + 1).expect("a confidence");
            assert!(least_modes(highest) <= Some(n), "{n} residuals");
            assert!(
                least_modes(above).is_none_or(|least| least > n),
                "{n} residuals"
            );
        }
        for confidence in [9_500, 9_800, 9_900] {
            let confidence = Confidence::new(confidence).expect("a confidence");
            let least = least_modes(confidence).expect("a number");
            let (_, power) = bands(&left_out(&vec![1.0; least]), &offered(0.05, 0.05));
            assert!(
                power.expect("a power").margin(confidence).is_ok(),
                "{least}"
            );
        }
    }

    #[test]
    fn the_prior_widens_the_band_of_few_residuals() {
        let at_95 = |z: &[f64]| {
            let (time, power) = bands(&left_out(z), &offered(0.05, 0.05));
            [time, power.expect("a power")].map(|band| margin(&band, 9_500).expect("supported"))
        };
        // Student's t with 5 degrees of freedom: 2.015, and 1.616 at the risk ½ / 6.
        let mut five = [0.3, 0.1, 0.5, 0.2, 0.4];
        for (largest, expected) in [(0.5, 2.015), (1.6, 2.015), (3.0, 3.0 * 2.015 / 1.616)] {
            five[2] = largest;
            for found in at_95(&five) {
                assert!((found / expected - 1.0).abs() < 0.01, "{largest}: {found}");
            }
        }
        // Nine residuals carry 95 % alone.
        let [_, eight] = at_95(&[1.7; 8]);
        let [_, nine] = at_95(&[1.7; 9]);
        assert!((1.699..1.702).contains(&nine), "{nine}");
        assert!(nine < eight && eight < 1.1 * 1.86, "{eight}");
    }

    /// Normal errors that the teacher knows up to a factor. The prior is made for these few modes.
    #[test]
    fn a_new_mode_exceeds_the_band_of_few_residuals_as_often_as_stated() {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut normal = move || -> f64 { StandardNormal.sample(&mut random) };
        for n in 5..9 {
            for factor in [0.5, 1.0, 2.0] {
                let (mut over, runs) = (0, 4_000);
                for _ in 0..runs {
                    let mut z: Vec<f64> = (0..n).map(|_| (factor * normal()).abs()).collect();
                    z.sort_unstable_by(f64::total_cmp);
                    let new = NewResidual::after(&z, 9_500).expect("a prior");
                    let one = |margin: f64| Chosen {
                        log: 0.0,
                        error: Error {
                            sd: 1.0,
                            offset: 0.0,
                        },
                        margin,
                        share: 1.0,
                    };
                    let margin = |margin: f64| risk(&new.z, &[one(margin)]);
                    let margin = least_margin((0.0, 16.0), new.allowed, margin).expect("a margin");
                    over += u32::from(factor * normal() > margin);
                }
                let share = f64::from(over) / f64::from(runs);
                assert!(share < 0.065, "{n} residuals, factor {factor}: {share}");
            }
        }
    }

    #[test]
    fn deviations_follow_the_largest_residuals() {
        let residuals = |z: &[f64]| -> Vec<Residual> {
            let residual = |&log: &f64| Residual { log, sd: 0.5 };
            z.iter().map(residual).collect()
        };
        let mut all: Vec<f64> = (1..=99).map(f64::from).collect();
        // (99·R + ½) / 100 ≤ 5 % allows R = 4.5 / 99. A residual exceeds with one of its two signs, so nine
        // of them may be larger: the tenth largest, 90 / 0.5, is the margin.
        assert_eq!(deviations(&residuals(&all), 0.05), 180.0);
        all[3] = -500.0;
        assert_eq!(deviations(&residuals(&all), 0.005), 1000.0);
        // Five residuals carry a risk of ½ / 6 and no less.
        let few = residuals(&[0.1, -0.2, 0.3, 0.4, -0.5]);
        assert_eq!(deviations(&few, 0.5 / 6.0), 1.0);
        let [rare, rarer] = [0.05, 0.01].map(|risk| deviations(&few, risk));
        // Student's t with 5 degrees of freedom: 2.015 and 3.365, over 1.616 at ½ / 6.
        assert!((rare - 2.015 / 1.616).abs() < 5e-3 && (rarer - 3.365 / 1.616).abs() < 5e-3);
        assert_eq!(deviations(&[], 0.5), f64::INFINITY);
    }

    /// The modes in the middle of the front are known worse than the others.
    #[test]
    fn the_band_holds_for_the_modes_that_are_chosen_and_for_any_mode() {
        let z = left_out(&[1.0; 50]);
        let mut modes = offered(0.01, 0.02);
        let (_, narrow) = bands(&z, &modes);
        // Dominated: slow and dear.
        for at in 0..10 {
            let mut bad = modes[at];
            bad.0.log += 4.0;
            bad.1 = bad.1.map(|power| Candidate {
                spread: 0.5,
                error: Error {
                    sd: 0.5,
                    offset: 0.3,
                },
                ..power
            });
            modes.push(bad);
        }
        let (_, with_bad) = bands(&z, &modes);
        let [alone, with_bad] = [&narrow, &with_bad].map(|band| {
            let band = band.as_ref().expect("a power");
            margin(band, 9_500)
        });
        assert!(with_bad > alone, "the band holds for any mode");
        let mut modes = offered(0.01, 0.02);
        for mode in &mut modes[10..20] {
            if let Some(power) = &mut mode.1 {
                power.error.sd = 0.05;
            }
        }
        let (_, wide) = bands(&z, &modes);
        let [narrow, wide] = [narrow, wide].map(|band| margin(&band.expect("a power"), 9_500));
        assert!(wide > Some(2.0 * narrow.expect("supported")), "{wide:?}");
    }

    /// Normal errors, and a file that underestimates some powers: the chosen modes exceed their
    /// limits as often as they may.
    #[test]
    fn chosen_modes_exceed_their_limits_as_often_as_stated() {
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let mut normal = move || -> f64 { StandardNormal.sample(&mut random) };
        let mut uniform = ChaCha8Rng::seed_from_u64(6);
        let (mut over, mut limits) = (0_u32, 0_u32);
        for _ in 0..400 {
            let z: Vec<f64> = (0..30).map(|_| normal()).collect();
            let mut modes = offered(0.0, 0.05);
            for mode in &mut modes {
                let power = mode.1.as_mut().expect("a power");
                power.error = Error {
                    sd: uniform.random_range(0.01..0.1),
                    offset: 0.02 * normal(),
                };
            }
            let z = left_out(&z);
            let (time, power) = bands(&z, &modes);
            let deviations = [time, power.expect("a power")]
                .map(|band| margin(&band, 9_500).expect("supported"));
            let both: Vec<[Candidate; 2]> = modes
                .iter()
                .map(|(time, power)| [*time, power.expect("a power")])
                .collect();
            for _ in 0..50 {
                let limit: f64 = uniform.random_range(12_000.0..40_000.0);
                let front = front(&both, deviations);
                let counts = |mode: &[Candidate; 2]| mode[1].counts(deviations[1]);
                let fits = front.iter().find(|mode| counts(mode).exp() <= limit);
                let Some(mode) = fits else {
                    continue;
                };
                let Error { sd, offset } = mode[1].error;
                let measured = mode[1].log + offset + sd * normal();
                over += u32::from(measured > counts(mode));
                limits += 1;
            }
        }
        let share = f64::from(over) / f64::from(limits);
        assert!((0.02..0.05).contains(&share), "{share}");
    }
}
