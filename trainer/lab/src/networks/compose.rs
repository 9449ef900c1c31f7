//! Time and power of a network in every mode, from the models of its kernels.
//!
//! MIRAGE adds the times of the calls. But a kernel was timed in a loop, where launching it and executing it
//! overlap only with itself; in a network the CPU launches ahead while the GPU executes a long kernel. So the
//! calls pass a queue:
//!
//! > Lᵢ = Lᵢ₋₁ + lᵢ, Eᵢ = max(Eᵢ₋₁ + gᵢ, Lᵢ + gᵢ)
//!
//! lᵢ is the time to launch call i: that of the call of its kernel that does least. gᵢ is its time on the
//! GPU: its time at the highest CPU clock, where launches wait least. At the end of a batch the CPU waits for
//! the GPU. That synchronisation is assumed to take as long as the longest launch, and is added to the last
//! Eᵢ. The energy is the sum Σ tᵢ·pᵢ over the calls. It is reduced for the time that the queue saves, at the
//! power that the board draws when it only launches kernels.

use rayon::prelude::*;
use thiserror::Error;
use wattgate_kernels::{Call, Kind};

use super::lower::Layer;
use crate::kernels::demand::Demand;
use crate::kernels::models::{KernelModel, KernelModels};
use wattgate_trainer::score::Target;

/// A call that takes less than this many times a launch waits for its launch.
const LAUNCHING: f64 = 1.25;

/// Why a network cannot be composed.
#[derive(Debug, Error, PartialEq)]
pub enum ComposeError {
    /// The network calls kernels that have no model.
    #[error("no model of {}: the kernel corpus has too few rows of it; measure more, and run `kernels fit` again", kernels.join(", "))]
    NoModel { kernels: Vec<&'static str> },
}

/// What a network needs in one mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Composed {
    /// Time of a batch in ms.
    pub time_ms: f64,
    /// Sum of the times of the calls in ms, as MIRAGE has it.
    pub sum_ms: f64,
    /// Energy of a batch in mJ.
    pub energy_mj: f64,
}

impl Composed {
    /// Mean power in mW.
    pub fn power_mw(&self) -> f64 {
        1e3 * self.energy_mj / self.time_ms
    }
}

/// Time and power of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OfCall {
    /// Time in ms.
    pub time_ms: f64,
    /// Power of the module in mW while the call is repeated.
    pub power_mw: f64,
}

/// A network whose kernels have models.
#[derive(Debug)]
pub struct Composer<'a> {
    layers: &'a [Layer],
    /// The different calls, with their models.
    calls: Vec<(Demand, &'a KernelModel)>,
    /// For each layer its call's index.
    of_layer: Vec<usize>,
    /// For each kernel the index of the call that does least.
    launches: Vec<(Kind, usize)>,
    most_cpu: u32,
}

impl<'a> Composer<'a> {
    /// Looks the kernels of a network up.
    pub fn new(models: &'a KernelModels, layers: &'a [Layer]) -> Result<Self, ComposeError> {
        let mut missing: Vec<&'static str> = layers
            .iter()
            .map(|layer| layer.call.kind())
            .filter(|kind| models.for_kind(*kind).is_none())
            .map(Kind::name)
            .collect();
        missing.sort_unstable();
        missing.dedup();
        if !missing.is_empty() {
            return Err(ComposeError::NoModel { kernels: missing });
        }
        let mut composer = Self {
            layers,
            calls: Vec::new(),
            of_layer: Vec::new(),
            launches: Vec::new(),
            most_cpu: models.knobs[1].last().copied().unwrap_or(0),
        };
        let mut known: Vec<Call> = Vec::new();
        let mut index = |composer: &mut Self, call: Call| {
            let at = known.iter().position(|other| *other == call);
            at.unwrap_or_else(|| {
                let model = models.for_kind(call.kind()).expect("looked up");
                composer.calls.push((Demand::from_call(&call), model));
                known.push(call);
                known.len() - 1
            })
        };
        for layer in layers {
            let at = index(&mut composer, layer.call);
            composer.of_layer.push(at);
            let kind = layer.call.kind();
            if composer.launches.iter().all(|(known, _)| *known != kind) {
                let least = models.for_kind(kind).expect("looked up").least();
                let at = index(&mut composer, least);
                composer.launches.push((kind, at));
            }
        }
        Ok(composer)
    }

    /// Predicts each different call in some modes: one list for each call, in the order of the modes.
    fn predict(&self, target: Target, modes: &[[u32; 4]]) -> Vec<Vec<f64>> {
        let predictions = |(demand, model): &(Demand, &KernelModel)| {
            let calls = modes.iter().map(|mode| (demand, *mode));
            let logs = model.for_target(target).predict(calls);
            logs.into_iter().map(|log| f64::from(log).exp()).collect()
        };
        self.calls.par_iter().map(predictions).collect()
    }

    /// The time of each different call on the GPU, in modes of the highest CPU clock. Where that is hardly
    /// more than a launch, the kernel may take less, and the roofline says how much.
    fn on_gpu(&self, modes: &[[u32; 4]]) -> Vec<Vec<f64>> {
        let mut times = self.predict(Target::Time, modes);
        let launches: Vec<(Kind, Vec<f64>)> = self
            .launches
            .iter()
            .map(|(kind, call)| (*kind, times[*call].clone()))
            .collect();
        for ((demand, model), times) in self.calls.iter().zip(&mut times) {
            let launch = launches.iter().find(|(kind, _)| *kind == model.kind());
            let launch = &launch.expect("of each kernel").1;
            for ((time, launch), mode) in times.iter_mut().zip(launch).zip(modes) {
                if *time < LAUNCHING * launch {
                    *time = time.min(model.for_target(Target::Time).unlaunched(demand, *mode));
                }
            }
        }
        times
    }

    /// Predicts the calls of the network in some modes: cores, CPU, GPU and memory clock in kHz.
    pub fn predict_calls(&self, modes: &[[u32; 4]]) -> Predicted<'_> {
        let fastest = |[cores, _, gpu, emc]: [u32; 4]| [cores, self.most_cpu, gpu, emc];
        let mut unlaunched: Vec<[u32; 4]> = modes.iter().copied().map(fastest).collect();
        unlaunched.sort_unstable();
        unlaunched.dedup();
        let at_most_cpu = modes.iter().map(|mode| {
            let at = unlaunched.binary_search(&fastest(*mode));
            at.expect("one of them")
        });
        Predicted {
            composer: self,
            times: self.predict(Target::Time, modes),
            powers: self.predict(Target::Power, modes),
            at_most_cpu: at_most_cpu.collect(),
            on_gpu: self.on_gpu(&unlaunched),
        }
    }

    /// Time and power of each layer's call in a mode, in the order of the layers.
    pub fn layers(&self, mode: [u32; 4]) -> Vec<OfCall> {
        let [times, powers] =
            [Target::Time, Target::Power].map(|target| self.predict(target, &[mode]));
        let one = |&call: &usize| OfCall {
            time_ms: times[call][0],
            power_mw: powers[call][0],
        };
        self.of_layer.iter().map(one).collect()
    }

    /// The layers.
    pub fn network(&self) -> &'a [Layer] {
        self.layers
    }
}

/// Factors on what the calls need, for a unit and a network that differ from what the kernels say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Factors {
    /// On the time of launches.
    pub launch: f64,
    /// On the time on the GPU.
    pub gpu: f64,
}

impl Factors {
    /// As the kernels say.
    pub const NONE: Self = Self {
        launch: 1.0,
        gpu: 1.0,
    };
}

/// The calls of a network, predicted in some modes.
#[derive(Debug)]
pub struct Predicted<'a> {
    composer: &'a Composer<'a>,
    /// By different call and mode, in ms.
    times: Vec<Vec<f64>>,
    /// The same in mW.
    powers: Vec<Vec<f64>>,
    /// For each mode the index of the mode of `on_gpu`.
    at_most_cpu: Vec<usize>,
    on_gpu: Vec<Vec<f64>>,
}

impl Predicted<'_> {
    /// Composes the network in every mode.
    pub fn compose(&self, factors: Factors) -> Vec<Composed> {
        let modes = 0..self.at_most_cpu.len();
        modes
            .into_par_iter()
            .map(|mode| self.compose_one(mode, factors))
            .collect()
    }

    /// Composes it in one mode, by its index.
    pub fn compose_one(&self, mode: usize, factors: Factors) -> Composed {
        let composer = self.composer;
        let mut queue = Queue::default();
        for (layer, &call) in composer.layers.iter().zip(&composer.of_layer) {
            let mut launches = composer.launches.iter();
            let launch = launches.find(|(kind, _)| *kind == layer.call.kind());
            let launch = launch.expect("of each kernel").1;
            let time = self.times[call][mode];
            let waits = self.times[launch][mode].min(time);
            let is_launching = time < LAUNCHING * waits;
            let factor = match is_launching {
                true => factors.launch,
                false => factors.gpu,
            };
            queue.add(Waiting {
                time: factor * time,
                launch: factors.launch * waits,
                on_gpu: factors.gpu * self.on_gpu[call][self.at_most_cpu[mode]].min(time),
                power: self.powers[call][mode],
                launching: self.powers[launch][mode],
            });
        }
        let launches = composer
            .launches
            .iter()
            .map(|(_, call)| self.times[*call][mode]);
        queue.composed(factors.launch * launches.fold(0.0, f64::max))
    }
}

/// A call in the queue; times in ms, powers in mW.
#[derive(Clone, Copy)]
struct Waiting {
    /// In a loop.
    time: f64,
    /// Of the launch.
    launch: f64,
    on_gpu: f64,
    /// In a loop.
    power: f64,
    /// While only launches run.
    launching: f64,
}

#[derive(Clone, Copy, Default)]
struct Queue {
    launched: f64,
    ended: f64,
    sum: f64,
    energy: f64,
    of_launches: f64,
}

impl Queue {
    fn add(&mut self, call: Waiting) {
        self.launched += call.launch;
        self.ended = self.ended.max(self.launched) + call.on_gpu;
        self.sum += call.time;
        self.energy += call.time * call.power;
        self.of_launches += call.launch * call.launching;
    }

    /// `synchronise` is the time after the last call in ms.
    fn composed(&self, synchronise: f64) -> Composed {
        // A time in a loop holds each wait, so the queue cannot take longer.
        let time = self.ended.min(self.sum) + synchronise;
        let launching = self.of_launches / self.launched.max(f64::MIN_POSITIVE);
        Composed {
            time_ms: time,
            sum_ms: self.sum,
            energy_mj: 1e-3 * (self.energy - launching * (self.sum - time)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(calls: &[[f64; 2]]) -> Composed {
        let mut queue = Queue::default();
        for [time, on_gpu] in calls {
            queue.add(Waiting {
                time: *time,
                launch: 1.0,
                on_gpu: *on_gpu,
                power: 10_000.0,
                launching: 4_000.0,
            });
        }
        queue.composed(0.5)
    }

    #[test]
    fn launches_overlap_with_long_kernels() {
        // A long kernel hides the launches of the short ones after it: 1 + 10 + 3 · 0.2, and 0.5.
        let composed = run(&[[10.0, 10.0], [1.0, 0.2], [1.0, 0.2], [1.0, 0.2]]);
        assert!((composed.time_ms - 12.1).abs() < 1e-9 && composed.sum_ms == 13.0);
        // 130 mJ for all, less 4 W in the saved 0.9 ms.
        assert!((composed.energy_mj - (130.0 - 4.0 * 0.9)).abs() < 1e-9);
        // Short kernels wait for their launches, as in a loop.
        let composed = run(&[[1.0, 0.2]; 4]);
        assert!((composed.time_ms - 4.5).abs() < 1e-9);
    }
}
