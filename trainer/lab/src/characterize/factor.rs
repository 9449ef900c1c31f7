//! The factors of a breakdown, and rows that differ in one of them alone.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use wattgate_runtime::PowerMode;

use super::answer::{Answer, Step};
use wattgate_trainer::read::Feeding;

/// A row of a corpus.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub file: usize,
    pub feeding: Feeding,
    pub knobs: [u32; 4],
    pub time_ms: f64,
    pub power_w: Option<f64>,
    pub fetch_ms: Option<f64>,
    pub compute_ms: Option<f64>,
}

/// Mode, file and feeding of rows that differ in one factor alone, which is blank.
type Key = ([u32; 4], usize, Feeding);

/// A factor of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    Workers,
    Cores,
    Epoch,
    Storage,
    Minibatch,
}

impl Factor {
    pub const ALL: [Self; 5] = [
        Self::Workers,
        Self::Cores,
        Self::Epoch,
        Self::Storage,
        Self::Minibatch,
    ];

    pub fn question(self) -> &'static str {
        match self {
            Self::Workers => "Loader workers",
            Self::Cores => "Online cores",
            Self::Epoch => "Page cache: first epoch against later ones",
            Self::Storage => "Storage",
            Self::Minibatch => "Minibatch",
        }
    }

    pub fn needs(self) -> &'static str {
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
    /// The row as a step.
    pub fn step(&self, value: String) -> Step {
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

    /// The mode in words.
    pub fn mode(&self) -> String {
        format!("{} cores, {}", self.knobs[0], self.clocks())
    }

    /// The clocks in words.
    fn clocks(&self) -> String {
        let mode = PowerMode::from_knobs(self.knobs);
        let clocks = [("CPU", mode.cpu), ("GPU", mode.gpu), ("EMC", mode.emc)];
        clocks
            .map(|(name, clock)| format!("{name} {:.0} MHz", f64::from(clock.0) / 1e3))
            .join(", ")
    }

    /// The setting in words, without the factor in question.
    fn setting(&self, without: Factor) -> String {
        let mut parts = match without {
            Factor::Cores => vec![self.clocks()],
            _ => vec![self.mode()],
        };
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

/// The answer of the rows that differ in a factor alone; `None` if there are none.
pub(super) fn answer(factor: Factor, seen: &[Seen]) -> Option<Answer> {
    let mut groups: Vec<(Key, Vec<&Seen>)> = Vec::new();
    let mut places: HashMap<Key, usize> = HashMap::new();
    for row in seen.iter().filter(|row| factor.value(row).is_some()) {
        let key = factor.key(row);
        let at = *places.entry(key.clone()).or_insert_with(|| {
            groups.push((key, Vec::new()));
            groups.len() - 1
        });
        groups[at].1.push(row);
    }
    let values = |group: &[&Seen]| {
        let values: BTreeSet<_> = group.iter().filter_map(|row| factor.value(row)).collect();
        values.len()
    };
    // What a first epoch and slow storage cost is seen where the loader does not hide it.
    let waits = |group: &[&Seen]| {
        let shows = matches!(factor, Factor::Epoch | Factor::Storage);
        let share_of_fetching = |seen: &&Seen| seen.fetch_ms.unwrap_or(0.0) / seen.time_ms;
        let most = group.iter().map(share_of_fetching).fold(0.0, f64::max);
        if shows { (1e3 * most) as u64 } else { 0 }
    };
    let (_, mut group) = groups
        .into_iter()
        .filter(|(_, group)| values(group) >= 2)
        .max_by_key(|((knobs, file, _), group)| {
            let clocks: u64 = knobs.iter().map(|knob| u64::from(*knob)).sum();
            (values(group), waits(group), clocks, Reverse(*file))
        })?;
    group.sort_by_key(|row| factor.value(row));
    let steps: Vec<Step> = group
        .iter()
        .filter_map(|row| Some(row.step(factor.value(row)?.1)))
        .collect();
    Some(Answer {
        question: factor.question(),
        setting: group[0].setting(factor),
        change: change(Some(factor), &steps),
        steps,
    })
}

/// What changes from the first to the last value, of a factor or of modes.
pub(super) fn change(factor: Option<Factor>, steps: &[Step]) -> String {
    let (Some(first), Some(last)) = (steps.first(), steps.last()) else {
        return String::new();
    };
    let pct = |from: f64, to: f64| format!("{:+.1} %", 100.0 * (to / from - 1.0));
    let item = |step: &Step| step.item_ms.filter(|_| factor == Some(Factor::Minibatch));
    let (what, times) = match item(first).zip(item(last)) {
        Some(times) => ("sample", times),
        None => ("step", (first.time_ms, last.time_ms)),
    };
    let mut text = format!(
        "From {} to {} a {what} takes {} time",
        first.value,
        last.value,
        pct(times.0, times.1)
    );
    let energy = |step: &Step| {
        let energy = step.energy_j?;
        Some(match what {
            "sample" => energy * step.item_ms? / step.time_ms,
            _ => energy,
        })
    };
    if let Some((from, to)) = energy(first).zip(energy(last)) {
        text += &format!(" and {} energy", pct(from, to));
    }
    if factor == Some(Factor::Epoch) && last.time_ms < first.time_ms {
        let waited = 100.0 * (1.0 - last.time_ms / first.time_ms);
        text += &format!(": {waited:.1} % of the first epoch wait for the storage");
    }
    text + "."
}
