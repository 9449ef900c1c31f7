//! The quantised network through the runtime, before anything else of the file is known.

use wattgate_runtime::format::Provenance;
use wattgate_runtime::guard::{GuardBand, Knot};
use wattgate_runtime::idle::Idle;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::quantities::Factor;
use wattgate_runtime::{ModeId, Model, Region};

use super::surface::Origin;
use super::wgt::{Layers, ModelFile, Spreads};
use crate::learn::predictions::Predictions;

/// A file of the network alone: for the runtime to evaluate, not to ship.
pub fn file(origin: &Origin, layers: &Layers) -> Vec<u8> {
    let unknown = |q16| Knot {
        per_ten_thousand: 5_000,
        q16,
    };
    let sound = "one knot without margin";
    let has_power = layers.output.len() > 1;
    let of_time = match has_power {
        true => GuardBand::of_deviations([unknown(0)]),
        false => GuardBand::new([unknown(Factor::ONE.q16())]),
    };
    let of_power = has_power.then(|| GuardBand::of_deviations([unknown(0)]).expect(sound));
    let others = || vec![unknown(Factor::ONE.q16())];
    ModelFile {
        layers,
        grid: &origin.grid,
        profiled: origin.profiled,
        time_guard: &of_time.expect(sound),
        power_guard: of_power.as_ref(),
        spreads: Spreads::default(),
        measured: &[],
        provenance: Provenance {
            kind: origin.kind,
            device: &origin.device,
            workload: &origin.workload,
            minibatch: origin.minibatch,
            seed: origin.seed,
            modes_used: 0,
            modes_held_out: 0,
            time_error: None,
            power_error: None,
        },
        tpc_pg_mask: None,
        units: &[],
        reference_mw: 1.0,
        others: &[others(), if has_power { others() } else { Vec::new() }],
        idle: Idle::NONE,
    }
    .encode()
}

/// What the file predicts for every mode, as the runtime computes it.
#[derive(Clone, Debug)]
pub struct Predicted<'a> {
    network: &'a Model<'a>,
    spreads: Spreads,
    /// By mode id.
    all: Vec<Prediction>,
}

impl<'a> Predicted<'a> {
    /// The predictions of a network.
    pub fn by_network(network: &'a Model<'a>) -> Self {
        let none = Prediction {
            log_time: 0,
            log_power: 0,
            spread: 0,
        };
        let mut all = vec![none; network.grid().modes() as usize];
        network.sweep(&Region::all(network.grid()), |mode, at| {
            all[usize::from(mode.0)] = at;
        });
        Self {
            network,
            spreads: Spreads::default(),
            all,
        }
    }

    /// The same with the spreads that the file states.
    pub fn with_spreads(mut self, spreads: Spreads) -> Self {
        let has_power = self.network.has_power();
        for at in self.all.iter_mut().filter(|_| has_power) {
            at.spread = at.spread.max(i32::from(spreads.least));
        }
        self.spreads = spreads;
        self
    }

    /// The same with measured modes in place of the network's predictions.
    pub fn with_measured(&self, measured: &[(ModeId, Prediction)]) -> Self {
        let mut predicted = self.clone();
        for (mode, at) in measured {
            predicted.all[usize::from(mode.0)] = *at;
        }
        predicted
    }

    /// The model of the network.
    pub fn network(&self) -> &'a Model<'a> {
        self.network
    }

    /// The prediction of a mode.
    pub fn at(&self, mode: ModeId) -> Prediction {
        self.all[usize::from(mode.0)]
    }

    /// The standard deviations of ln time and of ln power, 0 without power.
    pub fn spreads(&self, at: Prediction) -> [f64; 2] {
        let of_power = self.network.spread(at).map_or(0.0, f64::from);
        let of_time = self.network.has_spread().then(|| {
            f64::from(
                self.spreads.time.for_power_spread(at.spread) * self.network.spread_resolution(),
            )
        });
        [of_time.unwrap_or(0.0), of_power]
    }

    /// As quantities.
    pub fn values(&self) -> Predictions {
        let model = self.network;
        let list =
            |value: &dyn Fn(Prediction) -> f64| self.all.iter().map(|at| value(*at)).collect();
        let power = |at| model.power(at).map_or(0.0, |power| f64::from(power.0));
        Predictions {
            time: list(&|at| f64::from(model.time(at).0)),
            power: model.has_power().then(|| list(&power)),
            spread: model.has_spread().then(|| list(&|at| self.spreads(at)[1])),
            time_spread: model.has_spread().then(|| list(&|at| self.spreads(at)[0])),
        }
    }
}
