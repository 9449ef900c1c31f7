//! The measured modes of a file: what is known of each, and which of them a file states.

use std::collections::BTreeMap;

use wattgate_runtime::ModeId;
use wattgate_runtime::format::{LOG_LIMIT, MOST_MEASURED};
use wattgate_runtime::model::Prediction;

use crate::export::network::Predicted;
use crate::export::surface::{LEAST_SPREAD, Surface};
use crate::export::wgt::Layers;
use crate::learn::expected::{Expected, Residual};
use crate::learn::suspects::{Doubt, doubt};

/// Standard deviation of ln time and of ln power from one run of a mode to the next. Repeats agree to
/// 0.8 and 1.5 % on a TX1 (`data/PROVENANCE.md`), and powers to 0.7 % on an AGX Orin.
pub const REPEAT: f64 = 0.01;

/// The deviations of a margin of 95 % of normal errors, by which modes are ranked.
const USUAL_DEVIATIONS: f64 = 1.645;

/// A measured mode that is slower than the front by more than this, in ln units, is never chosen.
const MOST_BEHIND: f64 = 0.1;

/// The least deviation that a reading in some doubt gets if it is below what the others say, as a share of the
/// difference: the others may be right. At a margin of 95 % it spans four fifths of the difference.
const DOUBT: f64 = 0.5;

/// What a new run of a measured mode is expected to give: ln µs, and ln mW if its power was measured.
pub type KnownMode = [Option<Expected>; 2];

/// What is known of each measured mode, by its id. A mode that was read once, far from what the others say, is left
/// out: the sensor may have been read while the workload stood, and such a power would break limits.
pub fn known(surface: &Surface) -> BTreeMap<usize, KnownMode> {
    let modes = surface.measured.iter().zip(&surface.left_out);
    let known = modes.filter_map(|(mode, left_out)| {
        let readings = [Some(mode.time_us), mode.power_mw];
        let residuals = [Some(left_out.time), left_out.power];
        let mut known = [None; 2];
        for ((known, reading), residual) in known.iter_mut().zip(readings).zip(residuals) {
            let Some((reading, residual)) = reading.zip(residual) else {
                continue;
            };
            let Expected { median, sd } = combined(reading, residual);
            let least = match doubt(mode, residual) {
                Doubt::None => 0.0,
                Doubt::Some => DOUBT * (-residual.log).max(0.0),
                Doubt::Much => return None,
            };
            *known = Some(Expected {
                median,
                sd: sd.max(least),
            });
        }
        Some((mode.id, known))
    });
    known.collect()
}

/// What a new run of a mode is expected to give, from a reading and what all other modes predict for it,
/// weighted by their precisions.
fn combined(reading: f64, left_out: Residual) -> Expected {
    let noise = REPEAT * REPEAT;
    let of_others = (left_out.sd * left_out.sd).max(noise);
    let share = noise / of_others;
    // The others say nothing of a run's own noise, which is a part of their variance.
    let variance = noise + (of_others - noise) * share;
    Expected {
        median: reading.ln() - share * left_out.log,
        sd: variance.sqrt(),
    }
}

/// The measured modes that matter for a choice, by ascending id: those nearest to the front, by what is
/// known of them or by what the network says.
pub fn nearest_to_front(
    known: &BTreeMap<usize, KnownMode>,
    by_network: &Predicted<'_>,
    layers: &Layers,
) -> Vec<(ModeId, Prediction)> {
    let model = by_network.network();
    let measures = Measures::new(by_network, layers);
    let known: BTreeMap<ModeId, Prediction> = known
        .iter()
        .filter_map(|(id, mode)| Some((ModeId(*id as u16), measures.prediction(mode)?)))
        .collect();
    let mut replaced = BTreeMap::new();
    let mut front = Vec::new();
    model.sweep(&model.profiled(), |mode, _| {
        let counts = measures.counts(by_network.at(mode));
        match known.get(&mode) {
            Some(at) => {
                replaced.insert(mode, counts);
                front.push(measures.counts(*at));
            }
            None => front.push(counts),
        }
    });
    front.sort_by(|[_, p], [_, q]| p.total_cmp(q));
    let mut fastest = f64::INFINITY;
    for [time, _] in &mut front {
        fastest = fastest.min(*time);
        *time = fastest;
    }
    // By how much the front is faster at the same power.
    let behind = |[time, power]: [f64; 2]| {
        let within = front.partition_point(|[_, front_power]| *front_power <= power);
        let fastest = within.checked_sub(1).map(|last| front[last][0]);
        fastest.map_or(0.0, |fastest| time - fastest)
    };
    let mut ranked: Vec<(f64, ModeId, Prediction)> = known
        .iter()
        .map(|(mode, at)| {
            let before = replaced.get(mode).map_or(f64::INFINITY, |it| behind(*it));
            (behind(measures.counts(*at)).min(before), *mode, *at)
        })
        .filter(|(behind, ..)| *behind < MOST_BEHIND)
        .collect();
    ranked.sort_by(|(a, m, _), (b, n, _)| a.total_cmp(b).then(m.cmp(n)));
    ranked.truncate(MOST_MEASURED);
    let mut kept: Vec<_> = ranked.into_iter().map(|(_, mode, at)| (mode, at)).collect();
    kept.sort_unstable_by_key(|(mode, _)| *mode);
    kept
}

/// The units of a file's logarithms and spreads.
struct Measures<'a> {
    predicted: &'a Predicted<'a>,
    /// ln units of time and power.
    scales: [f64; 2],
}

impl<'a> Measures<'a> {
    fn new(predicted: &'a Predicted<'a>, layers: &Layers) -> Self {
        let scale = |output: usize| {
            layers
                .output
                .get(output)
                .map_or(1.0, |row| f64::from(row.scale))
        };
        Self {
            predicted,
            scales: [scale(0), scale(1)],
        }
    }

    /// `None` for a mode without the power that the model has, and for values out of range.
    fn prediction(&self, [time, power]: &KnownMode) -> Option<Prediction> {
        let raw = |at: &Expected, scale: f64| {
            let raw = at.median / scale;
            (raw.abs() <= f64::from(LOG_LIMIT)).then_some(raw.round() as i32)
        };
        let [of_time, of_power] = self.scales;
        let model = self.predicted.network();
        let (log_power, spread) = match power {
            Some(power) if model.has_power() => {
                let spread = power.sd.max(LEAST_SPREAD) / f64::from(model.spread_resolution());
                (
                    raw(power, of_power)?,
                    spread.min(f64::from(i16::MAX)) as i32,
                )
            }
            None if model.has_power() => return None,
            _ => (0, 0),
        };
        Some(Prediction {
            log_time: raw(time.as_ref()?, of_time)?,
            log_power,
            spread,
        })
    }

    /// Time and power with a usual margin, in ln measures.
    fn counts(&self, at: Prediction) -> [f64; 2] {
        let [of_time, of_power] = self.predicted.spreads(at);
        let [time, power] = self.scales;
        [
            f64::from(at.log_time) * time + USUAL_DEVIATIONS * of_time,
            f64::from(at.log_power) * power + USUAL_DEVIATIONS * of_power,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::modes::Known;
    use crate::learn::expected::LeftOut;

    /// The power is read at some ratio to what the others say; the deviation of what they say is 5 %.
    #[test]
    fn a_reading_far_from_what_the_others_say_is_not_known() {
        let known_at = |ratio: f64, is_confirmed: bool| {
            let residual = |log: f64| Residual { log, sd: 0.05 };
            let mode = Known {
                id: 7,
                knobs: [1; 4],
                time_us: 1e5,
                power_mw: Some(1e4 * ratio),
                is_confirmed,
            };
            let surface = Surface {
                expected: Vec::new(),
                left_out: vec![LeftOut {
                    time: residual(0.0),
                    power: Some(residual(ratio.ln())),
                }],
                measured: vec![mode],
            };
            let known = known(&surface).remove(&7)?;
            known[1].map(|power| power.sd)
        };
        let [half, double] = [0.5, 2.0].map(|ratio| known_at(ratio, false));
        assert_eq!((half, double), (None, None));
        assert!(known_at(0.5, true).is_some(), "two runs agree");
        let sure = known_at(1.0, false).expect("known");
        assert!(sure < 1.5 * REPEAT, "{sure}");
        // This reading is more than a deviation below what the others say. They may be right, so its band is wide.
        let low = known_at(0.8, false).expect("known");
        assert!((low - 0.5 * 1.25_f64.ln()).abs() < 1e-12, "{low}");
        assert_eq!(known_at(1.25, false), Some(sure), "a higher power is safe");
    }

    #[test]
    fn a_reading_counts_as_much_as_it_is_surer_than_the_others() {
        let reading = 100.0_f64;
        let moved_and_sd = |log, sd| {
            let Expected { median, sd } = combined(reading, Residual { log, sd });
            (median - reading.ln(), sd)
        };
        // The others know next to nothing: the reading counts, and two runs scatter about the truth.
        let (moved, sd) = moved_and_sd(0.3, 0.5);
        assert!(moved.abs() < 2e-4, "{moved}");
        assert!((sd - 2_f64.sqrt() * REPEAT).abs() < 1e-4, "{sd}");
        // The others know the mode: what they cannot know is the noise of a run.
        let (moved, sd) = moved_and_sd(0.015, REPEAT);
        assert!((moved + 0.015).abs() < 1e-12 && (sd - REPEAT).abs() < 1e-12);
        // A variance of four runs: the reading moves by a quarter towards what the others predict.
        let (moved, sd) = moved_and_sd(0.02, 2.0 * REPEAT);
        assert!((moved + 0.005).abs() < 1e-12);
        assert!((REPEAT..2_f64.sqrt() * REPEAT).contains(&sd));
    }
}
