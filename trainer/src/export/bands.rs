//! The guard bands of a file: of its own units, and by how much those of other units are wider.

use std::collections::{BTreeMap, BTreeSet};

use wattgate_runtime::grid::Axis;
use wattgate_runtime::guard::{GuardBand, Knot};
use wattgate_runtime::model::Prediction;
use wattgate_runtime::{Confidence, ModeId};

use super::measured::KnownMode;
use super::surface::{LEAST_SPREAD, Origin, Surface};
use crate::corpus::modes::all_modes;
use crate::learn::expected::Expected;
use crate::learn::fleet::Spread;
use crate::learn::guard::{Candidate, Error, bands, others};
use crate::learn::predictions::{Predictions, Target};

/// The guard bands.
#[derive(Clone, Debug)]
pub struct Bands {
    /// Of the time.
    pub time: GuardBand,
    /// Of the power; `None` for a model of time alone.
    pub power: Option<GuardBand>,
    /// By how much other units exceed them: time, then power.
    pub others: [Vec<Knot>; 2],
    /// The power in mW at which a unit's tilt changes nothing.
    pub reference_mw: f64,
}

impl Bands {
    /// Computes the bands from predictions of the file, quantisation included. `known` is what is known of measured modes,
    /// `in_file` are those that the file states.
    pub fn compute(
        origin: &Origin,
        surface: &Surface,
        predictions: &Predictions,
        known: &BTreeMap<usize, KnownMode>,
        in_file: &[(ModeId, Prediction)],
    ) -> Self {
        let modes: Vec<[u32; 4]> = all_modes(&origin.grid).collect();
        let values = Axis::ALL.map(|axis| origin.profiled.values(&origin.grid, axis));
        let on_offer = |id: &usize| {
            let mut pairs = values.iter().zip(modes[*id]);
            pairs.all(|(values, knob)| values.contains(&knob))
        };
        let in_file = in_file.iter().map(|(mode, _)| usize::from(mode.0));
        let in_file: BTreeSet<usize> = in_file.collect();
        let candidate = |target: Target, id: usize| {
            let teacher = surface.expected.get(target as usize)?[id];
            let measured = known.get(&id).filter(|_| in_file.contains(&id));
            let Expected { median, sd } = measured
                .and_then(|by_target| by_target[target as usize])
                .unwrap_or(teacher);
            let log = target.predicted(predictions)?[id].ln();
            let (spreads, least) = match target {
                Target::Time => (&predictions.time_spread, 0.0),
                Target::Power => (&predictions.spread, LEAST_SPREAD),
            };
            Some(Candidate {
                log,
                spread: spreads.as_ref().map_or(1.0, |all| all[id]),
                error: Error {
                    sd: sd.max(least),
                    offset: median - log,
                },
            })
        };
        let offered = (0..modes.len()).filter(on_offer).filter_map(|id| {
            let time = candidate(Target::Time, id)?;
            Some((time, candidate(Target::Power, id)))
        });
        let offered: Vec<_> = offered.collect();
        let left_out = &surface.left_out;
        let (time, power) = bands(left_out, &offered);
        let units = &origin.units;
        let reference_mw = match surface.expected.get(Target::Power as usize) {
            Some(powers) => {
                let sum: f64 = powers.iter().map(|power| power.median).sum();
                let mean = sum / powers.len() as f64;
                units.reference_mw.unwrap_or(mean.exp())
            }
            None => 1.0,
        };
        let spreads =
            Target::ALL.map(|target| Spread::from_units(units, target, reference_mw.ln()));
        let others = others(
            left_out,
            &offered,
            (&time, power.as_ref()),
            spreads.each_ref(),
        );
        Self {
            time,
            power,
            others,
            reference_mw,
        }
    }

    /// By how much the guarded power of another unit exceeds that of the units profiled; `None` if the model supports no such
    /// bound.
    pub fn other_units_power_ratio(&self, confidence: Confidence) -> Option<f64> {
        let [_, power] = &self.others;
        let band = GuardBand::new(power.iter().copied()).ok()?;
        Some(f64::from(band.margin(confidence).ok()?) / 65_536.0)
    }
}
