//! Where the time and the energy of a training's steps go, as far as the columns of corpora tell.
//!
//! A question compares rows that differ in one factor alone: workers, cores, epoch, storage or minibatch.
//! Of all groups of such rows the answer shows the one with the most values, and of these the one in the
//! highest mode. A question that no group answers names what is missing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use thiserror::Error;
use wattgate_runtime::PowerMode;

use crate::corpus::Corpus;
use crate::corpus::fed::Feeding;

/// Corpora of one workload on boards of one type: the feedings of each file.
pub type Files = [(String, Vec<Corpus>)];

/// Why corpora cannot be characterized together.
#[derive(Debug, Error)]
pub enum BreakdownError {
    /// Files differ in board, workload or kind.
    #[error("{file}: {what} is `{found}`, but `{first}` in the first corpus; expected the same")]
    Mixed {
        file: String,
        what: &'static str,
        first: String,
        found: String,
    },
    /// No row has a time.
    #[error("no row has a time")]
    NoTimes,
}

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
    /// `measured` or `simulated`.
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

/// A row of a corpus.
#[derive(Clone, Debug)]
struct Seen {
    file: usize,
    feeding: Feeding,
    knobs: [u32; 4],
    time_ms: f64,
    power_w: Option<f64>,
    fetch_ms: Option<f64>,
    compute_ms: Option<f64>,
}

/// Mode, file and feeding of rows that differ in one factor alone, which is blank.
type Key = ([u32; 4], usize, Feeding);

/// A factor of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Factor {
    Workers,
    Cores,
    Epoch,
    Storage,
    Minibatch,
}

impl Factor {
    const ALL: [Self; 5] = [
        Self::Workers,
        Self::Cores,
        Self::Epoch,
        Self::Storage,
        Self::Minibatch,
    ];

    fn question(self) -> &'static str {
        match self {
            Self::Workers => "Loader workers",
            Self::Cores => "Online cores",
            Self::Epoch => "Page cache: first epoch against later ones",
            Self::Storage => "Storage",
            Self::Minibatch => "Minibatch",
        }
    }

    fn needs(self) -> &'static str {
        match self {
            Self::Workers => "the column `workers` with two values in one mode",
            Self::Cores => "two modes that differ in their cores alone",
            Self::Epoch => "the column `epoch` with 0 and a later one in one mode",
            Self::Storage => "the column `storage` with two values in one mode",
            Self::Minibatch => "the column `minibatch` with two values in one mode",
        }
    }

    /// The value of a row, as text and for sorting; `None` if it is not known.
    fn value(self, seen: &Seen) -> Option<(u32, String)> {
        let number = |value: u32| (value, value.to_string());
        match self {
            Self::Workers => seen.feeding.workers.map(number),
            Self::Cores => Some(number(seen.knobs[0])),
            Self::Epoch => seen.feeding.epoch.map(|epoch| match epoch {
                0 => (0, "first".to_owned()),
                _ => (1, "later".to_owned()),
            }),
            Self::Storage => seen.feeding.storage.clone().map(|storage| (0, storage)),
            Self::Minibatch => seen.feeding.minibatch.map(number),
        }
    }

    /// A row without the factor: rows with equal keys differ in the factor alone.
    fn key(self, seen: &Seen) -> Key {
        let (mut knobs, mut feeding) = (seen.knobs, seen.feeding.clone());
        match self {
            Self::Workers => feeding.workers = None,
            Self::Cores => knobs[0] = 0,
            Self::Epoch => feeding.epoch = None,
            Self::Storage => feeding.storage = None,
            Self::Minibatch => feeding.minibatch = None,
        }
        (knobs, seen.file, feeding)
    }
}

impl Seen {
    fn step(&self, value: String) -> Step {
        let share = |part: f64| 100.0 * part / self.time_ms;
        let fetch_pct = self.fetch_ms.map(share);
        let compute_pct = self.compute_ms.map(share);
        let rest = fetch_pct.zip(compute_pct);
        Step {
            value,
            time_ms: self.time_ms,
            item_ms: self
                .feeding
                .minibatch
                .map(|size| self.time_ms / f64::from(size)),
            fetch_pct,
            compute_pct,
            rest_pct: rest.map(|(fetch, compute)| (100.0 - fetch - compute).max(0.0)),
            power_w: self.power_w,
            energy_j: self.power_w.map(|power| 1e-3 * power * self.time_ms),
        }
    }

    /// The setting in words, without the factor in question.
    fn setting(&self, without: Factor) -> String {
        let mode = PowerMode::from_knobs(self.knobs);
        let clocks = [("CPU", mode.cpu), ("GPU", mode.gpu), ("EMC", mode.emc)];
        let mut parts: Vec<String> = Vec::new();
        if without != Factor::Cores {
            parts.push(format!("{} cores", self.knobs[0]));
        }
        parts.extend(
            clocks.map(|(name, clock)| format!("{name} {:.0} MHz", f64::from(clock.0) / 1e3)),
        );
        let Feeding {
            minibatch,
            workers,
            storage,
            epoch,
        } = &self.feeding;
        if let (Some(workers), true) = (workers, without != Factor::Workers) {
            parts.push(format!("{workers} workers"));
        }
        if let (Some(storage), true) = (storage, without != Factor::Storage) {
            parts.push(storage.clone());
        }
        if let (Some(epoch), true) = (epoch, without != Factor::Epoch) {
            parts.push(
                if *epoch == 0 {
                    "first epoch"
                } else {
                    "later epochs"
                }
                .to_owned(),
            );
        }
        if let (Some(size), true) = (minibatch, without != Factor::Minibatch) {
            parts.push(format!("minibatch {size}"));
        }
        parts.join(", ")
    }
}

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

fn answer(factor: Factor, seen: &[Seen]) -> Option<Answer> {
    let mut groups: Vec<(Key, Vec<&Seen>)> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    for of in seen.iter().filter(|of| factor.value(of).is_some()) {
        let key = factor.key(of);
        let at = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(of);
    }
    let values = |group: &[&Seen]| {
        let values: BTreeSet<_> = group.iter().filter_map(|of| factor.value(of)).collect();
        values.len()
    };
    // What a first epoch and slow storage cost is seen where the loader does not hide it.
    let waits = |group: &[&Seen]| {
        let shows = matches!(factor, Factor::Epoch | Factor::Storage);
        let of = |seen: &&Seen| seen.fetch_ms.unwrap_or(0.0) / seen.time_ms;
        let most = group.iter().map(of).fold(0.0, f64::max);
        if shows { (1e3 * most) as u64 } else { 0 }
    };
    let (_, mut group) = groups
        .into_iter()
        .filter(|(_, group)| values(group) >= 2)
        .max_by_key(|((knobs, file, _), group)| {
            let clocks: u64 = knobs.iter().map(|knob| u64::from(*knob)).sum();
            (values(group), waits(group), clocks, Reverse(*file))
        })?;
    group.sort_by_key(|of| factor.value(of));
    let steps: Vec<Step> = group
        .iter()
        .filter_map(|of| Some(of.step(factor.value(of)?.1)))
        .collect();
    Some(Answer {
        question: factor.question(),
        setting: group[0].setting(factor),
        change: change(factor, &steps),
        steps,
    })
}

/// What changes from the first to the last value.
fn change(factor: Factor, steps: &[Step]) -> String {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return String::new();
    };
    let pct = |from: f64, to: f64| format!("{:+.1} %", 100.0 * (to / from - 1.0));
    let item = |step: &Step| step.item_ms.filter(|_| factor == Factor::Minibatch);
    let (of, times) = match item(first).zip(item(last)) {
        Some(times) => ("sample", times),
        None => ("step", (first.time_ms, last.time_ms)),
    };
    let mut text = format!(
        "From {} to {} a {of} takes {} time",
        first.value,
        last.value,
        pct(times.0, times.1)
    );
    let energy = |step: &Step| {
        let energy = step.energy_j?;
        Some(match of {
            "sample" => energy * step.item_ms? / step.time_ms,
            _ => energy,
        })
    };
    if let Some((from, to)) = energy(first).zip(energy(last)) {
        text += &format!(" and {} energy", pct(from, to));
    }
    if factor == Factor::Epoch && last.time_ms < first.time_ms {
        let waited = 100.0 * (1.0 - last.time_ms / first.time_ms);
        text += &format!(": {waited:.1} % of the first epoch wait for the storage");
    }
    text + "."
}

/// The modes of the feeding that was profiled in the most modes.
fn modes(seen: &[Seen]) -> Vec<Mode> {
    let mut counts: Vec<((usize, &Feeding), usize)> = Vec::new();
    for of in seen {
        let key = (of.file, &of.feeding);
        match counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += 1,
            None => counts.push((key, 1)),
        }
    }
    // The first of those with the most.
    let most = counts.iter().rev().max_by_key(|(_, count)| *count);
    let Some(&((file, feeding), _)) = most else {
        return Vec::new();
    };
    let mut modes: Vec<Mode> = seen
        .iter()
        .filter(|of| of.file == file && &of.feeding == feeding)
        .filter_map(|of| {
            Some(Mode {
                knobs: of.knobs,
                time_ms: of.time_ms,
                energy_j: 1e-3 * of.power_w? * of.time_ms,
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
    let clocks = |of: &&Seen| of.knobs.iter().map(|knob| u64::from(*knob)).sum::<u64>();
    let highest = seen.iter().max_by_key(clocks)?.knobs;
    let shares = || {
        let rows = seen.iter().filter(|of| of.knobs == highest);
        rows.filter_map(|of| Some(100.0 * idle_w / of.power_w?))
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
    for of in seen {
        let key = (of.knobs, format!("{:?}", of.feeding));
        let (files, times, energies) = settings.entry(key).or_default();
        files.insert(of.file);
        times.push(of.time_ms);
        energies.extend(of.power_w.map(|power| power * of.time_ms));
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
