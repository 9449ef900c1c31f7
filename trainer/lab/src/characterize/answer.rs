//! The answer to a question of what a factor does: one step for each of its values.

use serde::Serialize;

/// A step of a feeding in a mode. Unknown parts are `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// The value of the factor in question.
    pub value: String,
    /// Time of a step in ms.
    pub time_ms: f64,
    /// Time of a sample in ms, if the minibatch is known.
    pub item_ms: Option<f64>,
    /// Share of the step that waits for the loader, in percent.
    pub fetch_pct: Option<f64>,
    /// Share of the step in which the GPU computes, in percent.
    pub compute_pct: Option<f64>,
    /// The rest of the step, in which the main process copies and prepares, in percent.
    pub rest_pct: Option<f64>,
    /// Power in W.
    pub power_w: Option<f64>,
    /// Energy of a step in J.
    pub energy_j: Option<f64>,
}

/// The answer to a question.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// What was asked.
    pub question: &'static str,
    /// What all rows of the answer share.
    pub setting: String,
    /// One step for each value of the factor.
    pub steps: Vec<Step>,
    /// What changes from the first to the last value, in words.
    pub change: String,
}
