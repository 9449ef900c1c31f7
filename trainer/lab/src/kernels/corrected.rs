//! The learner that ships: boosted trees that correct a roofline.
//!
//! The trees of a time predict what the roofline leaves; those of a power predict the power, and the
//! shares of the roofline's terms are among their inputs.

use indicatif::ProgressBar;
use serde::{Deserialize, Serialize};
use wattgate_kernels::Call;

use super::corpus::Row;
use super::demand::Demand;
use super::features::columns;
use super::roofline::{LAUNCH, Roofline};
use super::trees::{Settings, Trees};
use wattgate_trainer::score::Target;

/// A model of one target of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Corrected {
    roofline: Roofline,
    /// Whether the trees predict what the roofline leaves.
    is_residual: bool,
    trees: Trees,
}

impl Corrected {
    /// Learns a target of the rows that have it, at least one. The roofline is fitted to all times.
    /// Advances `progress` by one for each tree.
    pub fn fit(
        rows: &[&Row],
        target: Target,
        settings: &Settings,
        seed: u64,
        progress: &ProgressBar,
    ) -> Self {
        let roofline = roofline(rows);
        let rows: Vec<(&Row, f32)> = with_target(rows, target).collect();
        let demands: Vec<Demand> = rows
            .iter()
            .map(|(row, _)| Demand::from_call(&row.call))
            .collect();
        let pairs = demands.iter().zip(rows.iter().map(|(row, _)| row.knobs));
        let inputs = columns(pairs.clone(), &roofline);
        let mut logs: Vec<f32> = rows.iter().map(|(_, value)| value.ln()).collect();
        let is_residual = target == Target::Time;
        if is_residual {
            for (log, (demand, knobs)) in logs.iter_mut().zip(pairs) {
                *log -= roofline.predict(demand, knobs).0 as f32;
            }
        }
        let units: Vec<u16> = rows.iter().map(|(row, _)| row.unit).collect();
        let units = (&units[..], inputs.common());
        Self {
            roofline,
            is_residual,
            trees: Trees::fit(&inputs, &logs, units, settings, seed, progress),
        }
    }

    /// Predicts the logarithm of the target, in ms or mW, of some calls: what each asks of the board, and
    /// the cores, CPU, GPU and memory clock in kHz of its mode.
    pub fn predict<'a>(
        &self,
        calls: impl ExactSizeIterator<Item = (&'a Demand, [u32; 4])> + Clone,
    ) -> Vec<f32> {
        let mut logs = self.trees.predict(&columns(calls.clone(), &self.roofline));
        if self.is_residual {
            for (log, (demand, knobs)) in logs.iter_mut().zip(calls) {
                *log += self.roofline.predict(demand, knobs).0 as f32;
            }
        }
        logs
    }

    /// Whether the trees take as many inputs as such a call has.
    pub fn takes(&self, call: &Call) -> bool {
        let demand = Demand::from_call(call);
        let row = [(&demand, [0; 4])];
        let inputs = columns(row.into_iter(), &self.roofline);
        self.trees.takes(inputs.columns.len())
    }

    /// The time of a call in ms that does not wait for its launch, as far as the roofline tells.
    pub fn unlaunched(&self, demand: &Demand, knobs: [u32; 4]) -> f64 {
        let (log, shares) = self.roofline.predict(demand, knobs);
        log.exp() * (1.0 - shares[LAUNCH])
    }

    /// Predicts the calls of some rows, whose measurements are not looked at.
    pub fn predict_rows(&self, rows: &[&Row]) -> Vec<f32> {
        let demands: Vec<Demand> = rows
            .iter()
            .map(|row| Demand::from_call(&row.call))
            .collect();
        self.predict(demands.iter().zip(rows.iter().map(|row| row.knobs)))
    }
}

/// Fits a roofline to the rows that have a time.
pub fn roofline(rows: &[&Row]) -> Roofline {
    let timed: Vec<(Demand, &Row, f32)> = with_target(rows, Target::Time)
        .map(|(row, time)| (Demand::from_call(&row.call), row, time))
        .collect();
    let timed = timed.iter();
    Roofline::fit(timed.map(|(demand, row, time)| (demand, row.knobs, f64::from(*time))))
}

/// The measured target of a row, in ms or mW.
pub fn value(row: &Row, target: Target) -> Option<f32> {
    match target {
        Target::Time => row.time_ms,
        Target::Power => row.power_mw,
    }
}

/// The rows that have a target, with its value.
pub fn with_target<'a>(rows: &[&'a Row], target: Target) -> impl Iterator<Item = (&'a Row, f32)> {
    let pair = move |row: &&'a Row| Some((*row, value(row, target)?));
    rows.iter().filter_map(pair)
}
