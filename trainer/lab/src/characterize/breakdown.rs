//! Where the time and the energy of a training's steps go, as far as the columns of corpora tell.
//!
//! A question compares rows that differ in one factor alone: workers, cores, epoch, storage or minibatch.
//! Of all groups of such rows the answer shows the one with the most values, and of these the one in the
//! highest mode. A question that no group answers names what is missing.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use thiserror::Error;

use super::answer::{Answer, Step};
use super::factor::{Factor, Seen, answer, change};
use wattgate_trainer::read::Corpus;

/// Corpora of one workload on boards of one type: the feedings of each file.
pub type Files = [(String, Vec<Corpus>)];

/// Why corpora cannot be characterized together.
#[derive(Debug, Error)]
pub enum BreakdownError {
    /// Files differ in board, workload or kind.
    #[error(
        "{file}: {what} is `{found}`, but `{first}` in the first corpus; expected the same, so leave one of them out"
    )]
    Mixed {
        file: String,
        what: &'static str,
        first: String,
        found: String,
    },
    /// No row has a time.
    #[error("no row of the corpora has a time; profile the modes again")]
    NoTimes,
}

/// A question without an answer.
#[derive(Clone, Debug, Serialize)]
pub struct Unanswered {
    /// What was asked.
    pub question: &'static str,
    /// What the corpora lack.
    pub needs: String,
}

/// Time and energy of a mode, for a Pareto front.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Mode {
    /// Cores, CPU, GPU and memory clock in kHz.
    pub knobs: [u32; 4],
    /// Time of a step in ms.
    pub time_ms: f64,
    /// Energy of a step in J.
    pub energy_j: f64,
    /// Whether no other mode is as fast with less energy.
    pub is_on_front: bool,
}

/// How much of the energy in the highest mode an idle board would draw too.
#[derive(Clone, Debug, Serialize)]
pub struct Idle {
    /// Power of the idle board in W.
    pub idle_w: f64,
    /// Least share over the feedings, in percent.
    pub least_pct: f64,
    /// Largest share over the feedings, in percent.
    pub most_pct: f64,
}

/// Variation between corpora: boards, software versions or repeats.
#[derive(Clone, Debug, Serialize)]
pub struct Variation {
    /// Settings that at least two corpora share.
    pub settings: usize,
    /// Median over the settings of (most − least) / median of the times, in percent.
    pub time_pct: f64,
    /// The same of the energy.
    pub energy_pct: Option<f64>,
}

/// All answers.
#[derive(Clone, Debug, Serialize)]
pub struct Breakdown {
    /// `measured`, `simulated` or `recorded`.
    pub kind: String,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// Rows with a time.
    pub steps: usize,
    /// Answers over one factor each.
    pub answers: Vec<Answer>,
    /// Energy over idle.
    pub idle: Option<Idle>,
    /// Variation between the corpora.
    pub variation: Option<Variation>,
    /// Time and energy of the modes of the feeding with the most modes.
    pub modes: Vec<Mode>,
    /// What the corpora do not tell.
    pub unanswered: Vec<Unanswered>,
}

const MODES: &str = "Power modes";

/// Answers all questions.
pub fn breakdown(files: &Files, idle_w: Option<f64>) -> Result<Breakdown, BreakdownError> {
    let first = &files[0].1[0];
    for (file, fed) in files {
        let found = &fed[0];
        for (what, first, found) in [
            ("the board", &first.device, &found.device),
            ("the workload", &first.workload, &found.workload),
            ("the kind", &first.kind.to_string(), &found.kind.to_string()),
        ] {
            if first != found {
                return Err(BreakdownError::Mixed {
                    file: file.clone(),
                    what,
                    first: first.clone(),
                    found: found.clone(),
                });
            }
        }
    }
    let seen = seen(files);
    if seen.is_empty() {
        return Err(BreakdownError::NoTimes);
    }
    let (mut answers, mut unanswered) = (Vec::new(), Vec::new());
    if seen
        .iter()
        .all(|seen| seen.fetch_ms.is_none() || seen.compute_ms.is_none())
    {
        unanswered.push(Unanswered {
            question: "Shares of waiting for the loader, of preparing and of GPU compute",
            needs: "the columns `fetch_ms` and `compute_ms`".to_owned(),
        });
    }
    match over_modes(&seen) {
        Some(answer) => answers.push(answer),
        None => unanswered.push(Unanswered {
            question: MODES,
            needs: "two modes with one feeding".to_owned(),
        }),
    }
    for factor in Factor::ALL {
        match answer(factor, &seen) {
            Some(answer) => answers.push(answer),
            None => unanswered.push(Unanswered {
                question: factor.question(),
                needs: factor.needs().to_owned(),
            }),
        }
    }
    let modes = modes(&seen);
    let idle = idle_w.and_then(|idle_w| idle(idle_w, &seen));
    if idle.is_none() {
        unanswered.push(Unanswered {
            question: "Energy over idle",
            needs: match idle_w {
                Some(_) => "the column `power_mw`",
                None => "the power of the idle board: --idle 7.5W",
            }
            .to_owned(),
        });
    }
    let variation = variation(&seen);
    if variation.is_none() {
        unanswered.push(Unanswered {
            question: "Variation between boards and software versions",
            needs: "a second corpus with modes and feedings of the first".to_owned(),
        });
    }
    Ok(Breakdown {
        kind: first.kind.to_string(),
        device: first.device.clone(),
        workload: first.workload.clone(),
        steps: seen.len(),
        answers,
        idle,
        variation,
        modes,
        unanswered,
    })
}

fn seen(files: &Files) -> Vec<Seen> {
    let mut all = Vec::new();
    for (file, (_, fed)) in files.iter().enumerate() {
        for corpus in fed {
            all.extend(corpus.modes.iter().filter_map(|mode| {
                Some(Seen {
                    file,
                    feeding: corpus.feeding.clone(),
                    knobs: mode.knobs,
                    time_ms: mode.time()?,
                    power_w: mode.power().map(|power| 1e-3 * power),
                    fetch_ms: mode.fetch(),
                    compute_ms: mode.compute(),
                })
            }));
        }
    }
    all
}

/// The rows of the feeding that was profiled in the most modes; of several the first one.
fn most_profiled(seen: &[Seen]) -> Vec<&Seen> {
    let mut groups: Vec<Vec<&Seen>> = Vec::new();
    for row in seen {
        let is_same = |group: &&mut Vec<&Seen>| {
            (group[0].file, &group[0].feeding) == (row.file, &row.feeding)
        };
        match groups.iter_mut().find(is_same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    // The last one of equals counts for `max_by_key`.
    groups
        .into_iter()
        .rev()
        .max_by_key(Vec::len)
        .unwrap_or_default()
}

/// Compares three modes of one feeding: the fastest, the median and the slowest. Takes the feeding that has the
/// most profiled modes; `None` if these are fewer than two.
fn over_modes(seen: &[Seen]) -> Option<Answer> {
    let mut rows = most_profiled(seen);
    rows.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
    let last = rows.len().checked_sub(1).filter(|last| *last > 0)?;
    let mut places = vec![(0, "fastest"), (last / 2, "median"), (last, "slowest")];
    // Of two modes none is between.
    places.retain(|(at, name)| *name != "median" || (1..last).contains(at));
    let steps: Vec<Step> = places
        .iter()
        .map(|(at, name)| rows[*at].step((*name).to_owned()))
        .collect();
    let modes = places
        .iter()
        .map(|(at, name)| format!("{name}: {}", rows[*at].mode()));
    Some(Answer {
        question: MODES,
        setting: modes.collect::<Vec<_>>().join("; "),
        change: change(None, &steps),
        steps,
    })
}

/// Time and energy of the modes of the feeding that was profiled in the most modes.
fn modes(seen: &[Seen]) -> Vec<Mode> {
    let mut modes: Vec<Mode> = most_profiled(seen)
        .into_iter()
        .filter_map(|row| {
            Some(Mode {
                knobs: row.knobs,
                time_ms: row.time_ms,
                energy_j: 1e-3 * row.power_w? * row.time_ms,
                is_on_front: false,
            })
        })
        .collect();
    modes.sort_by(|a, b| a.energy_j.total_cmp(&b.energy_j));
    let mut fastest = f64::INFINITY;
    for mode in &mut modes {
        mode.is_on_front = mode.time_ms < fastest;
        fastest = fastest.min(mode.time_ms);
    }
    modes
}

/// The idle power is that of the highest mode, since that of another mode would be another.
fn idle(idle_w: f64, seen: &[Seen]) -> Option<Idle> {
    let clocks = |row: &&Seen| row.knobs.iter().map(|knob| u64::from(*knob)).sum::<u64>();
    let highest = seen.iter().max_by_key(clocks)?.knobs;
    let shares = || {
        let rows = seen.iter().filter(|row| row.knobs == highest);
        rows.filter_map(|row| Some(100.0 * idle_w / row.power_w?))
    };
    shares().next()?;
    Some(Idle {
        idle_w,
        least_pct: shares().fold(f64::MAX, f64::min),
        most_pct: shares().fold(0.0, f64::max),
    })
}

fn variation(seen: &[Seen]) -> Option<Variation> {
    type Values = (BTreeSet<usize>, Vec<f64>, Vec<f64>);
    let mut settings: BTreeMap<([u32; 4], String), Values> = BTreeMap::new();
    for row in seen {
        let key = (row.knobs, format!("{:?}", row.feeding));
        let (files, times, energies) = settings.entry(key).or_default();
        files.insert(row.file);
        times.push(row.time_ms);
        energies.extend(row.power_w.map(|power| power * row.time_ms));
    }
    let shared: Vec<&Values> = settings
        .values()
        .filter(|(files, ..)| files.len() > 1)
        .collect();
    let times: Vec<f64> = shared
        .iter()
        .map(|(_, times, _)| spread_pct(times))
        .collect();
    let energies: Vec<f64> = shared
        .iter()
        .filter(|(files, _, energies)| energies.len() >= files.len())
        .map(|(.., energies)| spread_pct(energies))
        .collect();
    (!shared.is_empty()).then(|| Variation {
        settings: shared.len(),
        time_pct: median(times),
        energy_pct: (!energies.is_empty()).then(|| median(energies)),
    })
}

/// (most − least) / median, in percent.
fn spread_pct(values: &[f64]) -> f64 {
    let most = values.iter().copied().fold(f64::MIN, f64::max);
    let least = values.iter().copied().fold(f64::MAX, f64::min);
    100.0 * (most - least) / median(values.to_vec())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let n = values.len();
    f64::midpoint(values[(n - 1) / 2], values[n / 2])
}
