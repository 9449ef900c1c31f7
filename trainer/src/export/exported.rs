//! A model file in its parts, until it is written.

use wattgate_runtime::ModeId;
use wattgate_runtime::format::Provenance;
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;

use super::bands::Bands;
use super::surface::Origin;
use super::wgt::{Layers, ModelFile, Spreads};
use crate::corpus::IdleReading;
use crate::learn::predictions::{Errors, Predictions};

/// The parts of a model file, and what it was distilled from.
#[derive(Clone, Debug)]
pub struct Exported {
    /// Predictions of the file.
    pub predictions: Predictions,
    /// Predictions of the teachers.
    pub teacher: Predictions,
    /// Predictions of the student before quantisation.
    pub student: Predictions,
    /// ln(measured / predicted) of time and of power, each by a model that has not seen the measurement.
    pub left_out: [Option<Vec<f64>>; 2],
    /// Expected errors over all modes.
    pub expected_errors: Errors,
    /// The guard bands.
    pub bands: Bands,
    /// What the board draws while the workload waits.
    pub idle: Idle,
    /// Idle powers above what the workload draws in the same mode: they were not used.
    pub idle_left_out: Vec<IdleReading>,
    pub(super) origin: Origin,
    pub(super) layers: Layers,
    pub(super) spreads: Spreads,
    pub(super) measured: Vec<(ModeId, Prediction)>,
}

impl Exported {
    /// Encodes the file with its errors on `held_out` modes in the provenance.
    pub fn encode(&self, held_out: usize, errors: &Errors) -> Vec<u8> {
        let origin = &self.origin;
        // The file stores units of 0.01 % in 16 bits; larger errors saturate.
        let hundredths = |mape: f64| (100.0 * mape).round() as u16;
        ModelFile {
            layers: &self.layers,
            grid: &origin.grid,
            profiled: origin.profiled,
            time_guard: &self.bands.time,
            power_guard: self.bands.power.as_ref(),
            spreads: self.spreads,
            measured: &self.measured,
            provenance: Provenance {
                kind: origin.kind,
                device: &origin.device,
                workload: &origin.workload,
                minibatch: origin.minibatch,
                seed: origin.seed,
                modes_used: origin.modes_used,
                modes_held_out: held_out as u16,
                time_error: errors.time_mape.map(hundredths),
                power_error: errors.power_mape.map(hundredths),
            },
            tpc_pg_mask: origin.tpc_pg_mask,
            units: &origin.units.listed(),
            reference_mw: self.bands.reference_mw,
            others: &self.bands.others,
            idle: self.idle,
        }
        .encode()
    }

    /// The file without held-out modes.
    pub fn unscored(&self) -> Vec<u8> {
        self.encode(0, &Errors::default())
    }
}
