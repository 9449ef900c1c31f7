//! What the steps record: the data of the page. Recorded and simulated figures never share a part.

use serde::Serialize;
use wattgate_lab::compare::evaluate::Quartiles;
use wattgate_trainer::plan::Sampling;
use wattgate_trainer::read::Known;
use wattgate_trainer::score::Target;

use super::replay::Replay;
use super::round::round;

/// The data of the page; its script reads these names.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    pub made: Made,
    pub recorded: RecordedPart,
    pub simulated: SimulatedPart,
}

/// How the page was made.
#[derive(Clone, Debug, Serialize)]
pub struct Made {
    pub version: &'static str,
    pub seed: u64,
    pub seconds: f64,
    pub command: &'static str,
}

/// Learning a workload and holding a limit on a board that plays back a measured corpus. Its watts are relative.
#[derive(Clone, Debug, Serialize)]
pub struct RecordedPart {
    pub board: String,
    pub workload: String,
    /// Number of modes in the grid of the corpus.
    pub grid: u32,
    pub truth: Truth,
    /// The measured Pareto front as indices into `truth`, in ascending order of power.
    pub front: Vec<usize>,
    pub models: Vec<Learned>,
    /// Power limits in W.
    pub limits: Vec<f64>,
    /// The fastest mode within each limit.
    pub optimum: Vec<Option<Point>>,
    pub choices: Vec<Choices>,
    pub summary: Vec<Summary>,
    pub replay: Replay,
}

/// A transfer to a second workload, and a limit held with its model, on a simulated board.
#[derive(Clone, Debug, Serialize)]
pub struct SimulatedPart {
    pub board: &'static str,
    pub reference: &'static str,
    pub workload: &'static str,
    pub learning: Vec<Curve>,
    pub published: [Published; 2],
    /// Number of profiled modes of the model that holds the limit.
    pub modes: usize,
    pub replay: Replay,
}

/// Measured time and power of every measured mode.
#[derive(Clone, Debug, Serialize)]
pub struct Truth {
    /// Cores, then CPU, GPU and EMC clock in MHz.
    pub knobs: Vec<[f64; 4]>,
    pub time_s: Vec<f64>,
    pub power_w: Vec<f64>,
}

/// A model and its predictions of the modes of `truth`.
#[derive(Clone, Debug, Serialize)]
pub struct Learned {
    pub name: &'static str,
    pub method: &'static str,
    pub modes: usize,
    pub sampling: Sampling,
    pub profiled: Vec<usize>,
    pub time_s: Vec<f64>,
    pub power_w: Vec<f64>,
    /// Errors on the held-out modes, in percent.
    pub mape: Mape,
    pub file_bytes: Option<usize>,
}

/// Mean absolute percentage errors.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Mape {
    pub time: f64,
    pub power: f64,
}

/// A mode with its measured time and power.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Point {
    /// Its index in `truth`.
    pub mode: usize,
    pub time_s: f64,
    pub power_w: f64,
}

impl Point {
    /// A mode by its index in `truth`.
    pub fn from_mode(number: usize, mode: &Known) -> Self {
        Self {
            mode: number,
            time_s: round(mode.time_us / 1e6, 3),
            power_w: round(mode.power_mw.unwrap_or(f64::NAN) / 1e3, 3),
        }
    }
}

/// The choices of a method, one per limit.
#[derive(Clone, Debug, Serialize)]
pub struct Choices {
    pub name: &'static str,
    pub by: Vec<Option<Choice>>,
}

/// A chosen mode with its measured and predicted values.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Choice {
    #[serde(flatten)]
    pub point: Point,
    pub predicted_w: Option<f64>,
    pub bound_w: Option<f64>,
}

/// The choices of a method, aggregated over all limits.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Summary {
    pub name: &'static str,
    /// Median over limits of the time above the optimum, in percent.
    pub time_penalty_pct: f64,
    /// Mean over limits of the power above the limit, in percent of the limit.
    pub excess_pct: f64,
    /// Share of the limits that are exceeded, in percent.
    pub over_pct: f64,
    /// Share of the limits that are exceeded by more than 5 %, in percent.
    pub over_by_5_pct: f64,
}

/// A learning curve: errors over the number of training modes.
#[derive(Clone, Debug, Serialize)]
pub struct Curve {
    pub name: &'static str,
    pub target: Target,
    pub points: Vec<CurvePoint>,
}

/// A point of a learning curve.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CurvePoint {
    pub modes: usize,
    #[serde(flatten)]
    pub mape: Quartiles,
}

/// Errors that PowerTrain's paper reports for a real board, in percent.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Published {
    pub what: &'static str,
    pub time_mape: f64,
    pub power_mape: f64,
}

/// Midpoints of the published ranges (PowerTrain, section 4.2).
pub const PUBLISHED: [Published; 2] = [
    Published {
        what: "PowerTrain, ResNet→MobileNet, 50 modes",
        time_mape: 15.1,
        power_mape: 5.4,
    },
    Published {
        what: "PowerTrain, ResNet→YOLO, 50 modes",
        time_mape: 11.6,
        power_mape: 4.9,
    },
];
