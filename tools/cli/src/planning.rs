//! The protocol between a profiler, which measures modes, and a planner, which chooses them: JSON,
//! one object a line, on the planner's standard streams.
//!
//! The profiler begins with a [`Task`], and the planner answers [`Answer::Ready`]. After that each
//! [`Request`] gets one [`Answer`]:
//!
//! | request | answer |
//! |---|---|
//! | `{"ask":{}}` | [`Answer::Measure`] or [`Answer::Enough`] |
//! | `{"tell":{"mode":…,"time_us":…,"power_mw":…}}` | [`Answer::Told`] |
//! | `{"exclude":{"mode":…,"power_mw":…}}` | [`Answer::Excluded`] |
//! | `{"idle":{"mode":…,"power_mw":…}}` | [`Answer::Told`] |
//! | `{"fit":{}}` | [`Answer::Fitted`] |
//!
//! A request that the planner refuses changes nothing and is answered by [`Answer::Error`]. The
//! planner ends when its input ends.

use std::borrow::Cow;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use wattgate_runtime::format::Kind;
use wattgate_runtime::{Confidence, Front, Model};

use crate::json::Mode;

/// Version of the protocol.
pub const VERSION: u32 = 2;

/// The values that each axis can have, ascending.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axes {
    pub cores: Vec<u32>,
    pub cpu_khz: Vec<u32>,
    pub gpu_khz: Vec<u32>,
    pub emc_khz: Vec<u32>,
}

/// The one value of a clock that the board does not show, such as the memory clock in a container. Nothing depends on it but
/// that all modes have the same.
pub const NOT_SHOWN: u32 = 1;

/// Minimum number of modes of a model.
pub const LEAST_MODES: usize = 5;

/// Number of modes from which their errors alone carry a confidence of 95 %: 1 − ½ / (n + 1). A prior widens the guard
/// band of fewer modes.
pub const ENOUGH_MODES: usize = 9;

/// Minimum number of modes of a model with a confidence; `None` if no model has it. A guard band has knots at 95, 98
/// and 99 %. Up to the first one a prior stands in for missing modes; n modes carry 1 − ½ / (n + 1).
pub fn least_modes(confidence: Confidence) -> Option<usize> {
    match confidence.per_ten_thousand() {
        ..=9_500 => Some(LEAST_MODES),
        9_501..=9_800 => Some(24),
        9_801..=9_900 => Some(49),
        _ => None,
    }
}

/// Room for the modes of a front; a longer front is thinned.
const FRONT_POINTS: usize = 256;

/// How far the bound of the power is above the prediction, as a mean ratio over the modes that a query may choose.
/// `None` without powers, or if the model does not have the confidence.
pub fn power_bound_ratio(model: &Model<'_>, confidence: Confidence) -> Option<f64> {
    let front = Front::<FRONT_POINTS>::from_model(model, &model.profiled(), confidence);
    let ratios = front.points().iter().filter(|point| point.power.0 > 0);
    let ratios = ratios.map(|point| f64::from(point.guarded.0) / f64::from(point.power.0));
    let (sum, count) = ratios.fold((0.0, 0.0), |(sum, count), ratio| (sum + ratio, count + 1.0));
    (model.has_power() && count > 0.0).then(|| sum / count)
}

/// Number of the modes in which an idle board is measured.
pub const IDLE_MODES: usize = 5;

/// Time that a profiler takes for each of [`idle_modes`].
pub const IDLE_TIME: Duration = Duration::from_secs(5);

/// The modes in which an idle board is measured, of its axes: the lowest one, those with the highest value of one axis (for the CPU
/// with all cores), and the highest one.
pub fn idle_modes(axes: [&[u32]; 4]) -> [[u32; 4]; IDLE_MODES] {
    let ends = axes.map(|axis| [axis.first(), axis.last()].map(|it| it.copied().unwrap_or(0)));
    let mode = |is_high: [bool; 4]| std::array::from_fn(|at| ends[at][usize::from(is_high[at])]);
    [
        [false; 4],
        [true, true, false, false],
        [false, false, true, false],
        [false, false, false, true],
        [true; 4],
    ]
    .map(mode)
}

/// The first line: the board, and what is wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// [`VERSION`].
    pub version: u32,
    pub axes: Axes,
    /// Number of modes to measure.
    pub modes: usize,
    /// The power in mW that no measured mode may exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_mw: Option<f64>,
    /// Seed of the planner's random numbers; without one the planner uses its default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
    /// Names of the workload and of the board, for logs of programs between the two ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Model files or corpora of other workloads on the same board, on the planner's machine. They
    /// improve the plan and the fit.
    #[serde(default, skip_serializing_if = "References::is_empty")]
    pub reference: References,
    /// How the measurements are made; measured if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Samples in a minibatch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minibatch: Option<u32>,
    /// The TPCs of the GPU that are gated, one bit each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tpc_pg_mask: Option<u32>,
    /// The id of the unit, as in the column `unit` of a corpus.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// Maximum number of references of a task.
pub const MOST_REFERENCES: usize = 8;

/// The references of a task: none, one file, or a list of files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum References {
    #[default]
    None,
    One(String),
    Several(Vec<String>),
}

impl References {
    /// The files.
    pub fn files(&self) -> &[String] {
        match self {
            Self::None => &[],
            Self::One(file) => std::slice::from_ref(file),
            Self::Several(files) => files,
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.files().is_empty()
    }
}

impl From<Vec<String>> for References {
    fn from(files: Vec<String>) -> Self {
        match <[String; 1]>::try_from(files) {
            Ok([file]) => Self::One(file),
            Err(files) if files.is_empty() => Self::None,
            Err(files) => Self::Several(files),
        }
    }
}

/// What the profiler wants or reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Request {
    /// Which mode is next?
    Ask(Ask),
    /// A measurement.
    Tell(Measurement),
    /// A mode that cannot be measured.
    Exclude(Exclusion),
    /// The power of the idle board in a mode.
    Idle(IdlePower),
    /// A model of all modes told so far.
    Fit(Fit),
}

/// A question for the next mode.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// The mode that is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<Mode>,
}

/// A request for a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fit {}

/// The time of a step and the mean power in a mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measurement {
    pub mode: Mode,
    pub time_us: f64,
    pub power_mw: f64,
}

/// The mean power in a mode before the workload runs. It belongs to the model; it is no measured mode.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdlePower {
    pub mode: Mode,
    pub power_mw: f64,
}

/// A mode that the board refuses, or that draws too much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exclusion {
    pub mode: Mode,
    /// Its power was at least this. Modes with no axis below this mode's are then excluded as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_mw: Option<f64>,
}

/// What the planner answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Answer {
    /// It takes requests.
    Ready {
        /// Number of modes of the board.
        modes: usize,
    },
    /// The mode to measure next, with what is predicted of it as far as it is.
    Measure {
        mode: Mode,
        time_us: Option<f64>,
        power_mw: Option<f64>,
        /// Upper bound of the power.
        power_at_most_mw: Option<f64>,
    },
    /// No further mode is worth measuring, or none may be.
    Enough {
        measured: usize,
        expected_error_pct: ExpectedError,
    },
    /// The measurement counts.
    Told { measured: usize },
    /// The mode will not be asked for.
    Excluded {
        /// Number of modes that will not be asked for.
        modes: usize,
    },
    /// A model of all told modes, on the grid of the task.
    Fitted {
        /// The bytes of the model file, as Base64.
        #[serde(with = "crate::base64")]
        model: Vec<u8>,
        /// Number of modes that it is trained on.
        modes: usize,
        /// Its expected errors over all modes.
        expected_error_pct: ExpectedError,
    },
    /// The request is refused. A fit of fewer than five modes is refused with the code `few`.
    Error {
        code: Cow<'static, str>,
        message: String,
    },
}

impl Answer {
    /// A refusal.
    pub fn error(code: &'static str, message: impl ToString) -> Self {
        Self::Error {
            code: code.into(),
            message: message.to_string(),
        }
    }
}

/// Mean absolute percentage errors, in percent; those expected over all modes of a board are absent
/// below five measured modes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ExpectedError {
    pub time: Option<f64>,
    pub power: Option<f64>,
}
