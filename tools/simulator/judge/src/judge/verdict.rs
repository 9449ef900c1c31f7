//! All that is judged at once.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use wattgate_runtime::grid::Grid;

use super::error::JudgeError;
use super::model::{ModelFigures, errors};
use super::recording::Recording;
use super::rows::{RowFigures, Rows};
use super::stretch::{StretchFigures, held};
use super::subject::Subject;
use crate::replay::model::{parse, read_model};

/// What is compared with the truth.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// A model's file.
    pub model: Option<PathBuf>,
    /// A corpus. The model is judged on the modes that it lacks.
    pub measured: Option<PathBuf>,
    /// The file of a [`Recording`].
    pub trace: Option<PathBuf>,
    /// When the session of the corpus began on the recording's clock. Without it, rows are compared
    /// with settled modes.
    pub offset: Option<Duration>,
    /// The part of the recording in which the limit was held: its start, and its end if that is not
    /// the recording's.
    pub part: Option<(Duration, Option<Duration>)>,
    /// The limit in mW.
    pub limit: Option<u32>,
}

/// The figures, of each kind if there is evidence for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    #[serde(flatten)]
    pub model: Option<ModelFigures>,
    #[serde(flatten)]
    pub rows: Option<RowFigures>,
    #[serde(flatten)]
    pub part: Option<StretchFigures>,
}

/// Compares the evidence with the truth.
pub fn judge(subject: &Subject<'_>, evidence: &Evidence) -> Result<Verdict, JudgeError> {
    let trace = evidence.trace.as_deref().map(Recording::read).transpose()?;
    let session = trace.as_ref().zip(evidence.offset);
    let rows = evidence.measured.as_deref();
    let rows = rows.map(|path| Rows::read(path, subject, session));
    let rows = rows.transpose()?;
    let measured = rows.as_ref().map_or_else(HashSet::new, Rows::modes);

    let mut verdict = Verdict {
        model: None,
        rows: rows.as_ref().map(Rows::figures),
        part: None,
    };
    let modes = match &evidence.model {
        Some(path) => {
            let bytes = read_model(path)?;
            let model = parse(path, &bytes)?;
            let modes = subject.modes(model.grid(), path)?;
            let figures = errors((path, &model), &modes, &measured, evidence.limit)?;
            verdict.model = Some(figures);
            modes
        }
        None => {
            let axes = subject.board.axes();
            let grid = Grid::new(axes.each_ref().map(Vec::as_slice)).expect("a board's axes");
            subject.modes(&grid, Path::new(&subject.board.name))?
        }
    };
    if let (Some(trace), Some((from, until)), Some(limit)) = (&trace, evidence.part, evidence.limit)
    {
        let until = until.unwrap_or(trace.end());
        verdict.part = Some(held(subject, &modes, trace, [from, until], limit)?);
    }
    Ok(verdict)
}
