//! Four modes from which the time of an epoch is predicted in all others, and the energy (Characterizing,
//! section 5.7).
//!
//! A linear model of each network, of cores and three clocks, is fitted to four modes. All sets of four
//! are tried, and the one with the least relative error, summed over the networks, is kept. The paper
//! sums errors in seconds; relative ones give a small network the weight of a large one. One linear
//! model of the four knobs and the time predicts the energy of all networks. Our teachers, fitted to the
//! same four modes, stand beside both.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::methods::linear::{Regression, fours, row};
use wattgate_trainer::fit::Blend;
use wattgate_trainer::fit::Priors;
use wattgate_trainer::fit::SingularCovariance;
use wattgate_trainer::fit::Teachers;
use wattgate_trainer::read::Corpus;
use wattgate_trainer::read::{Known, profiled};

/// Most modes of which all sets of four are tried: there are 4,845.
pub const MOST_MODES: usize = 20;

/// Why four modes are not found or cannot be used.
#[derive(Debug, Error)]
pub enum FourModesError {
    /// The corpora share too few or too many modes.
    #[error(
        "the corpora share {found} modes with a time and a power, expected 5 … {MOST_MODES} to try all sets of four; profile the same modes of each, or name other corpora"
    )]
    Modes { found: usize },
    /// The corpora are of several boards.
    #[error(
        "the corpora are of `{first}` and `{found}`, expected one board; leave out those of the other"
    )]
    Boards { first: String, found: String },
    /// Corpora of several kinds are mixed.
    #[error(
        "the corpora have several kinds, such as measured and simulated, expected one; leave out those of the others"
    )]
    Kinds,
    /// A stored set has a mode twice.
    #[error(
        "mode {mode:?} is one of the four twice, expected four different ones; run `characterize modes` again"
    )]
    Equal { mode: [u32; 4] },
    /// A stored set is for another board.
    #[error(
        "the four modes are of `{stored}`, the corpus is of `{found}`; name a corpus or a file of modes of the same board"
    )]
    OtherBoard { stored: String, found: String },
    /// The corpus of a new network lacks one of the four modes.
    #[error("the corpus has no time and power of mode {mode:?}, one of the four; profile it")]
    NotProfiled { mode: [u32; 4] },
    /// A stored set does not have four modes.
    #[error("{found} modes are stored, expected four; run `characterize modes` again")]
    NotFour { found: usize },
    /// The covariance matrix of a Gaussian process is singular.
    #[error("{0}")]
    SingularCovariance(#[from] SingularCovariance),
}

/// A network: its epochs in some modes.
#[derive(Clone, Debug)]
pub struct Network {
    /// The corpus.
    pub corpus: Corpus,
    /// Time of an epoch over that of a step.
    pub steps: f64,
}

impl Network {
    /// Modes with time and power.
    fn known(&self) -> Vec<Known> {
        let mut known = profiled(&self.corpus);
        known.retain(|mode| mode.power_mw.is_some());
        known
    }

    /// Time of an epoch in s.
    fn time_s(&self, mode: &Known) -> f64 {
        1e-6 * mode.time_us * self.steps
    }

    /// Energy of an epoch in J.
    fn energy_j(&self, mode: &Known) -> f64 {
        self.time_s(mode) * 1e-3 * mode.power_mw.expect("a mode with power")
    }
}

/// The four modes of a board, as they are stored.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FourModes {
    /// `measured`, `simulated` or `recorded`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// Cores, CPU, GPU and memory clock in kHz.
    pub modes: Vec<[u32; 4]>,
    /// The relative error of the time, RMSE over mean, summed over the networks.
    pub error: f64,
    /// Common model of the energy of an epoch in J: a constant, then factors of the four knobs and of
    /// the time of an epoch in s.
    pub energy: Vec<f64>,
    /// The networks that chose the modes.
    pub networks: Vec<Coefficients>,
}

/// The linear model of a network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Coefficients {
    /// The network.
    pub workload: String,
    /// Of the time of an epoch in s: a constant, then factors of the four knobs.
    pub time: Vec<f64>,
}

/// Errors on all modes of a network, MAPE in percent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Scores {
    /// The network.
    pub workload: String,
    /// Number of modes that were scored: those of the fit included, as in the paper.
    pub modes: usize,
    /// Whether the network had no part in the choice of the modes.
    pub is_new: bool,
    /// Of the linear model of the time.
    pub linear_time: f64,
    /// Of our time.
    pub ours_time: f64,
    /// Of the common linear model of the energy.
    pub linear_energy: f64,
    /// Of our energy.
    pub ours_energy: f64,
}

impl FourModes {
    /// Tries all sets of four modes that all networks share.
    pub fn search(networks: &[Network]) -> Result<Self, FourModesError> {
        let first = &networks[0].corpus;
        for Network { corpus, .. } in networks {
            if corpus.device != first.device {
                return Err(FourModesError::Boards {
                    first: first.device.clone(),
                    found: corpus.device.clone(),
                });
            }
            if corpus.kind != first.kind {
                return Err(FourModesError::Kinds);
            }
        }
        let all: Vec<Vec<Known>> = networks.iter().map(Network::known).collect();
        let shared: Vec<[u32; 4]> = all[0]
            .iter()
            .map(|mode| mode.knobs)
            .filter(|knobs| {
                let has = |known: &Vec<Known>| known.iter().any(|mode| mode.knobs == *knobs);
                all.iter().all(has)
            })
            .collect();
        if !(5..=MOST_MODES).contains(&shared.len()) {
            let found = shared.len();
            return Err(FourModesError::Modes { found });
        }
        let times: Vec<Vec<(Vec<f64>, f64)>> = networks
            .iter()
            .zip(&all)
            .map(|(network, known)| samples(network, known, &shared))
            .collect();
        let (error, four) = fours(shared.len())
            .into_iter()
            .map(|four| {
                let errors = times.iter().map(|all| relative_rmse(all, &four));
                (errors.sum::<f64>(), four)
            })
            .min_by(|a, b| a.0.total_cmp(&b.0))
            .expect("at least five modes");
        let pooled: Vec<(Vec<f64>, f64)> = networks
            .iter()
            .zip(&all)
            .flat_map(|(network, known)| {
                known.iter().map(move |mode| {
                    let row = with_time(mode.knobs, network.time_s(mode));
                    (row, network.energy_j(mode))
                })
            })
            .collect();
        let energy = Regression::fit(&pooled).expect("samples");
        let coefficients = networks.iter().zip(&times).map(|(network, all)| {
            let chosen: Vec<_> = four.iter().map(|&at| all[at].clone()).collect();
            Coefficients {
                workload: network.corpus.workload.clone(),
                time: Regression::fit(&chosen).expect("samples").coefficients(),
            }
        });
        Ok(Self {
            kind: first.kind.to_string(),
            device: first.device.clone(),
            modes: four.iter().map(|&at| shared[at]).collect(),
            error,
            energy: energy.coefficients(),
            networks: coefficients.collect(),
        })
    }

    /// Refuses a stored set that is not one.
    pub fn check(&self) -> Result<(), FourModesError> {
        for (at, mode) in self.modes.iter().enumerate() {
            if self.modes[..at].contains(mode) {
                return Err(FourModesError::Equal { mode: *mode });
            }
        }
        match self.modes.len() {
            4 => Ok(()),
            found => Err(FourModesError::NotFour { found }),
        }
    }

    /// Fits both kinds of models to the four modes of a network, and scores them on all of its modes.
    pub fn score(&self, network: &Network, seed: u64) -> Result<Scores, FourModesError> {
        let corpus = &network.corpus;
        if corpus.device != self.device {
            return Err(FourModesError::OtherBoard {
                stored: self.device.clone(),
                found: corpus.device.clone(),
            });
        }
        let known = network.known();
        let mut used = Vec::new();
        for mode in &self.modes {
            let found = known.iter().find(|known| known.knobs == *mode);
            used.push(*found.ok_or(FourModesError::NotProfiled { mode: *mode })?);
        }
        let samples = samples(network, &used, &self.modes);
        let linear = Regression::fit(&samples).expect("four samples");
        let energy = |knobs, time_s| {
            let inputs = with_time(knobs, time_s);
            let factors = self.energy[1..].iter();
            let terms = inputs.iter().zip(factors).map(|(x, factor)| x * factor);
            self.energy[0] + terms.sum::<f64>()
        };
        let blend = Blend::any_board(Priors::shipped());
        let teachers = Teachers::fit_alone(&corpus.grid, &used, &[], &blend, seed)?;
        let modes: Vec<[u32; 4]> = known.iter().map(|mode| mode.knobs).collect();
        let ours = teachers.predict(&modes);

        let mape = |errors: &dyn Fn(usize, &Known) -> f64| {
            let each = known.iter().enumerate();
            let errors = each.map(|(at, mode)| errors(at, mode).abs());
            100.0 * errors.sum::<f64>() / known.len() as f64
        };
        let linear_s = |mode: &Known| linear.at(&row(mode.knobs));
        Ok(Scores {
            workload: corpus.workload.clone(),
            modes: known.len(),
            is_new: self
                .networks
                .iter()
                .all(|other| other.workload != corpus.workload),
            linear_time: mape(&|_, mode| linear_s(mode) / network.time_s(mode) - 1.0),
            ours_time: mape(&|at, mode| ours[0][at].median.exp() / mode.time_us - 1.0),
            linear_energy: mape(&|_, mode| {
                energy(mode.knobs, linear_s(mode)) / network.energy_j(mode) - 1.0
            }),
            ours_energy: mape(&|at, mode| {
                let energy = (ours[0][at].median + ours[1][at].median).exp();
                energy / (mode.time_us * mode.power_mw.expect("a mode with power")) - 1.0
            }),
        })
    }
}

/// The times of an epoch in some modes, in their order.
fn samples(network: &Network, known: &[Known], modes: &[[u32; 4]]) -> Vec<(Vec<f64>, f64)> {
    let find = |knobs: &[u32; 4]| known.iter().find(|mode| mode.knobs == *knobs);
    let found = modes.iter().filter_map(find);
    found
        .map(|mode| (row(mode.knobs), network.time_s(mode)))
        .collect()
}

fn with_time(knobs: [u32; 4], time_s: f64) -> Vec<f64> {
    let mut inputs = row(knobs);
    inputs.push(time_s);
    inputs
}

/// RMSE over mean of a linear model that is fitted to four samples, on all of them.
fn relative_rmse(all: &[(Vec<f64>, f64)], four: &[usize]) -> f64 {
    let chosen: Vec<_> = four.iter().map(|&at| all[at].clone()).collect();
    let Some(model) = Regression::fit(&chosen) else {
        return f64::INFINITY;
    };
    let n = all.len() as f64;
    let mean = all.iter().map(|(_, y)| y).sum::<f64>() / n;
    let squares = all.iter().map(|(x, y)| (model.at(x) - y).powi(2));
    (squares.sum::<f64>() / n).sqrt() / mean
}
