//! How well a limit was held in a part of a recorded run.

use std::time::Duration;

use serde::Serialize;
use wattgate_simulated_board::load::{Load, Step};

use super::error::JudgeError;
use super::recording::{Recording, energy_j};
use super::subject::{Subject, TrueMode};
use crate::holder::HolderFigures;
use crate::replay::account::LoadAccount;
use crate::replay::oracle::{Oracle, Truths};
use crate::replay::report::LoadReport;

/// Minimum length of a part.
const SHORTEST: Duration = Duration::from_secs(1);

/// The figures of [`LoadReport`] that do not need a holder. All of the part counts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StretchFigures {
    pub seconds: f64,
    pub over_430ms_pct: f64,
    pub over_10ms_pct: f64,
    pub longest_430ms_ms: f64,
    pub longest_10ms_ms: f64,
    pub excess_430ms_pct: f64,
    pub excess_10ms_pct: f64,
    pub over_j: f64,
    pub speed_vs_fixed_pct: f64,
    pub speed_vs_clairvoyant_pct: f64,
    pub energy_j: f64,
}

/// The figures between two times of a run in which the workload worked without a pause. The limit
/// is in mW. The oracles choose from `modes`. They begin with the temperatures of the board at the
/// time `from`, which follow from its recorded power since its start.
pub fn held(
    subject: &Subject<'_>,
    modes: &[TrueMode],
    recording: &Recording,
    [from, until]: [Duration; 2],
    limit: u32,
) -> Result<StretchFigures, JudgeError> {
    let [from_s, until_s] = [from, until].map(|at| at.as_secs_f64());
    if until < from + SHORTEST {
        return Err(JudgeError::Stretch {
            from: from_s,
            until: until_s,
        });
    }
    let too_short = || JudgeError::TooShort {
        path: recording.path.clone(),
        end: recording.end().as_secs_f64(),
        until: until_s,
    };
    let trace = recording.between(from, until).ok_or_else(too_short)?;
    let load = Load::new(vec![Step::new(Duration::ZERO, 1.0)], until - from);
    let limits = [(Duration::ZERO, limit)];
    let thermal = &subject.board.physics().thermal;
    let mut warmth = subject.booted;
    warmth.follow(thermal, &recording.segments, from);
    warmth.now = Duration::ZERO;
    let oracle = Oracle {
        truths: &Truths::unbeaten(modes.iter().map(|mode| mode.truth).collect()),
        thermal,
        unit: &subject.unit,
        warmth,
        load: &load,
        limits: &limits,
        start: Duration::ZERO,
    };
    let account = LoadAccount::from_trace(&trace, &load, &limits, Duration::ZERO);
    let holder = HolderFigures {
        changes: 0,
        safe_s: 0.0,
    };
    let energy_j = energy_j(&trace);
    let report = LoadReport::new(&account, &oracle, &holder, load.length(), energy_j);
    Ok(StretchFigures {
        seconds: report.seconds,
        over_430ms_pct: report.over_430ms_pct,
        over_10ms_pct: report.over_10ms_pct,
        longest_430ms_ms: report.longest_430ms_ms,
        longest_10ms_ms: report.longest_10ms_ms,
        excess_430ms_pct: report.excess_430ms_pct,
        excess_10ms_pct: report.excess_10ms_pct,
        over_j: report.over_j,
        speed_vs_fixed_pct: report.speed_vs_fixed_pct,
        speed_vs_clairvoyant_pct: report.speed_vs_clairvoyant_pct,
        energy_j,
    })
}
