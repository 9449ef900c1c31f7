//! What several boards are worth: models of one unit and of several, scored on units that neither has seen
//! (MIRAGE, section 6.4), and how much units differ.

use indicatif::ProgressBar;
use serde::Serialize;
use wattgate_kernels::Kind;

use super::corpus::{KernelCorpus, Row};
use super::corrected::value;
use super::evaluate::{ScoreError, steps_of_fold};
use super::learner::Learner;
use super::score::Score;
use super::split::LEAST_ROWS;
use wattgate_trainer::score::Target;

/// Least number of units: two to score and two to train on.
pub const LEAST_UNITS: usize = 4;

/// Models of one unit and of several, of one target of one kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gain {
    /// The kernel's name.
    pub kernel: &'static str,
    /// Time or power.
    pub target: Target,
    /// Of a model of all units but those that are scored.
    pub several: Score,
    /// Of models of one of these units each: means over the units.
    pub one: Score,
    /// How much several units improve on one, in percent of the latter: more rows within 5 and 10 %, and
    /// smaller errors.
    pub gain_pct: GainPct,
    /// Relative difference of each unit from the model of the others, in percent: the median over its rows.
    pub difference_pct: Vec<UnitDifference>,
}

/// Improvements in percent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GainPct {
    /// More rows within 5 %.
    pub within_5: f64,
    /// More rows within 10 %.
    pub within_10: f64,
    /// Smaller root mean square error.
    pub rmse: f64,
    /// Smaller mean absolute error.
    pub mae: f64,
}

/// How far a unit is from the others.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct UnitDifference {
    /// The name of the unit.
    pub unit: String,
    /// Median of measured over predicted, less one, in percent.
    pub pct: f64,
}

/// The gains of a corpus.
#[derive(Clone, Debug, Serialize)]
pub struct Boards {
    /// `measured`, `simulated` or `recorded`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// The units that are scored.
    pub test_units: Vec<String>,
    /// One for each kernel and target with enough rows.
    pub results: Vec<Gain>,
}

/// The largest number of steps by which [`boards`] advances.
pub fn steps(corpus: &KernelCorpus, learner: &Learner) -> u64 {
    corpus.units.len() as u64 * steps_of_fold(corpus, learner)
}

/// Trains on one unit and on several, and scores the units of `test`.
pub fn boards(
    corpus: &KernelCorpus,
    test: &[u16],
    learner: &Learner,
    seed: u64,
    progress: &ProgressBar,
) -> Result<Boards, ScoreError> {
    if corpus.units.len() < LEAST_UNITS {
        return Err(ScoreError::TooFewUnits {
            found: corpus.units.len(),
            needed: LEAST_UNITS,
        });
    }
    let name = |unit: &u16| corpus.units[usize::from(*unit)].clone();
    let mut boards = Boards {
        kind: corpus.kind.to_string(),
        device: corpus.device.clone(),
        test_units: test.iter().map(name).collect(),
        results: Vec::new(),
    };
    for (kind, rows) in Kind::ALL.into_iter().zip(&corpus.rows) {
        for target in Target::ALL {
            let comparison = Comparison {
                corpus,
                rows,
                kind,
                target,
                learner,
                seed,
                progress,
            };
            boards.results.extend(comparison.gain(test)?);
        }
    }
    match boards.results.is_empty() {
        true => Err(ScoreError::TooFewRows),
        false => Ok(boards),
    }
}

struct Comparison<'a> {
    corpus: &'a KernelCorpus,
    rows: &'a [Row],
    kind: Kind,
    target: Target,
    learner: &'a Learner,
    seed: u64,
    progress: &'a ProgressBar,
}

impl Comparison<'_> {
    /// The rows with the target whose unit is wanted.
    fn rows(&self, wanted: impl Fn(u16) -> bool) -> Vec<&Row> {
        let has = |row: &&Row| value(row, self.target).is_some() && wanted(row.unit);
        self.rows.iter().filter(has).collect()
    }

    /// Pairs of predicted and measured values; `None` where too few rows train.
    fn pairs(
        &self,
        training: &[&Row],
        test: &[&Row],
    ) -> Result<Option<Vec<(f64, f64)>>, ScoreError> {
        if training.len() < LEAST_ROWS || test.is_empty() {
            let steps = self.learner.steps(self.kind, self.target);
            self.progress.inc(steps);
            return Ok(None);
        }
        let fitted = self
            .learner
            .fit(training, self.target, self.seed, self.progress)
            .map_err(|why| ScoreError::Learn {
                kernel: self.kind.name(),
                why,
            })?;
        let predicted = fitted.predict(test).into_iter();
        let pairs = predicted.zip(test).filter_map(|(log, row)| {
            let measured = value(row, self.target)?;
            Some((f64::from(log).exp(), f64::from(measured)))
        });
        Ok(Some(pairs.collect()))
    }

    fn gain(&self, test: &[u16]) -> Result<Option<Gain>, ScoreError> {
        let scored = self.rows(|unit| test.contains(&unit));
        let others = self.rows(|unit| !test.contains(&unit));
        let Some(several) = self.pairs(&others, &scored)? else {
            return Ok(None);
        };
        let score = |pairs: &[(f64, f64)]| Score::from_pairs(self.kind.name(), self.target, pairs);
        let mut alone = Vec::new();
        for unit in 0..self.corpus.units.len() as u16 {
            if !test.contains(&unit) {
                let own = self.rows(|other| other == unit);
                alone.extend(self.pairs(&own, &scored)?.map(|pairs| score(&pairs)));
            }
        }
        let several_score = score(&several);
        let Some(one) = Score::mean(&alone) else {
            return Ok(None);
        };
        let gain_pct = GainPct {
            within_5: 100.0 * (several_score.within(5) / one.within(5) - 1.0),
            within_10: 100.0 * (several_score.within(10) / one.within(10) - 1.0),
            rmse: 100.0 * (1.0 - several_score.rmse / one.rmse),
            mae: 100.0 * (1.0 - several_score.mae / one.mae),
        };
        let of_unit = |unit: &u16| {
            let pairs = scored.iter().zip(&several);
            let own = pairs.filter(|(row, _)| row.unit == *unit);
            let mut ratios: Vec<f64> = own
                .map(|(_, (predicted, measured))| measured / predicted)
                .collect();
            ratios.sort_unstable_by(f64::total_cmp);
            let median = *ratios.get(ratios.len() / 2)?;
            Some(UnitDifference {
                unit: self.corpus.units[usize::from(*unit)].clone(),
                pct: 100.0 * (median - 1.0),
            })
        };
        Ok(Some(Gain {
            kernel: self.kind.name(),
            target: self.target,
            several: several_score,
            one,
            gain_pct,
            difference_pct: test.iter().filter_map(of_unit).collect(),
        }))
    }
}
