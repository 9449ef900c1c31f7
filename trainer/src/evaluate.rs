//! Many fits of one corpus, each on other modes, and what they reach on the rest.

use indicatif::ProgressBar;
use rayon::prelude::*;
use serde::Serialize;

use crate::corpus::Corpus;
use crate::fit::{Errors, Fit, FitError, Options, Report, fit};

/// Median and quartiles over runs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quartiles {
    /// Half of the runs reach this.
    pub median: f64,
    /// A quarter of the runs reaches this.
    pub q1: f64,
    /// Three quarters of the runs reach this.
    pub q3: f64,
}

impl Quartiles {
    /// Linear between the values next to a quantile; `None` of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_unstable_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        let quantile = |q: f64| {
            let at = q * last as f64;
            let (low, high) = (sorted[at.floor() as usize], sorted[at.ceil() as usize]);
            low + (high - low) * at.fract()
        };
        Some(Self {
            median: quantile(0.5),
            q1: quantile(0.25),
            q3: quantile(0.75),
        })
    }
}

/// What the runs reach for one target.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The method: `wattgate`.
    pub method: &'static str,
    /// `time` or `power`.
    pub target: &'static str,
    /// Modes trained on in each run.
    pub modes: usize,
    /// How the modes were chosen: `random`.
    pub sampling: &'static str,
    /// The number of runs.
    pub runs: usize,
    /// Of the exported file, on the held-out modes.
    pub mape: Quartiles,
    /// Of the teacher, on the held-out modes.
    pub teacher_mape: Quartiles,
    /// What distillation and rounding add: exported minus teacher, in points.
    pub added: Quartiles,
}

/// What all runs reach.
#[derive(Clone, Debug, Serialize)]
pub struct Evaluation {
    /// `measured` or `simulated`.
    pub kind: String,
    /// The corpus file.
    pub corpus: String,
    /// The reference that was transferred from; none yet.
    pub reference: Option<String>,
    /// One row for each target.
    pub results: Vec<Row>,
    /// Every run.
    pub runs: Vec<Report>,
}

/// Fits `runs` times, with the seeds from `options.seed` on.
pub fn evaluate(
    corpus: &Corpus,
    name: &str,
    options: &Options,
    runs: u64,
    progress: &ProgressBar,
) -> Result<Evaluation, FitError> {
    let profiled = corpus.modes.iter().filter(|mode| !mode.times.is_empty());
    let available = profiled.count();
    if options.modes.is_none_or(|modes| modes == available) {
        return Err(FitError::NothingHeldOut { available });
    }
    let reports: Result<Vec<Report>, FitError> = (0..runs)
        .into_par_iter()
        .map(|run| {
            let seed = options.seed.wrapping_add(run);
            let options = Options { seed, ..*options };
            let Fit { report, .. } = fit(corpus, &options, progress)?;
            Ok(report)
        })
        .collect();
    let reports = reports?;
    let row = |target, of: fn(&Errors) -> Option<f64>| {
        let each = |errors: fn(&Report) -> &Errors| {
            reports.iter().filter_map(move |report| of(errors(report)))
        };
        let exported = each(|report| &report.exported);
        let teacher = each(|report| &report.teacher);
        Some(Row {
            method: "wattgate",
            target,
            modes: reports.first()?.modes_used,
            sampling: "random",
            runs: reports.len(),
            mape: Quartiles::of(exported.clone())?,
            teacher_mape: Quartiles::of(teacher.clone())?,
            added: Quartiles::of(exported.zip(teacher).map(|(e, t)| e - t))?,
        })
    };
    let time = row("time", |errors| errors.time_mape);
    let power = row("power", |errors| errors.power_mape);
    Ok(Evaluation {
        kind: corpus.kind.to_string(),
        corpus: name.to_owned(),
        reference: None,
        results: time.into_iter().chain(power).collect(),
        runs: reports,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_their_neighbours() {
        let quartiles = Quartiles::of([4.0, 1.0, 3.0, 2.0]);
        let expected = Quartiles {
            median: 2.5,
            q1: 1.75,
            q3: 3.25,
        };
        assert_eq!(quartiles, Some(expected));
        assert_eq!(Quartiles::of([]), None);
    }
}
