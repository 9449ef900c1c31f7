//! How a workload was fed in a row of a corpus, and where the time of its steps went.
//!
//! | column | value |
//! |---|---|
//! | `minibatch` | samples in a step, above zero |
//! | `workers` | processes of the loader; with 0 the main process loads by itself |
//! | `storage` | where the data set is: a name of 1 to 64 characters |
//! | `epoch` | 0 for the first epoch, which fills the page cache, and 1 or more for later ones |
//! | `fetch_ms` | part of the step in which it waits for the loader |
//! | `compute_ms` | part of the step from the first launch to the end of the GPU's work |
//!
//! A blank is unknown.

use wattgate_cli::delimited::Refusal;
use wattgate_cli::delimited::fields::{Named, bad, count, name, text, whole};

use super::{Defect, MAX_TIME_MS, Problem};

/// Most workers that a row may state.
const MAX_WORKERS: u32 = 1_024;

/// By how much the parts of a step may exceed it, relatively: they are rounded.
const PARTS_ROUNDING: f32 = 1e-3;

/// How a workload was fed. `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Feeding {
    /// Samples in a minibatch.
    pub minibatch: Option<u32>,
    /// Loader workers.
    pub workers: Option<u32>,
    /// Storage of the data set.
    pub storage: Option<String>,
    /// 0 for the first epoch.
    pub epoch: Option<u32>,
}

impl Feeding {
    /// Whether the page cache was empty at the start of the epoch.
    pub fn is_first_epoch(&self) -> bool {
        self.epoch == Some(0)
    }

    /// Parses the fields `minibatch`, `workers`, `storage` and `epoch`.
    pub(super) fn parse(
        [minibatch, workers, storage, epoch]: [Named<'_>; 4],
    ) -> Result<Self, Refusal> {
        Ok(Self {
            minibatch: blank_or(minibatch, |field| {
                whole(field, "a number of samples above zero, or a blank")
            })?,
            workers: blank_or(workers, |field| {
                let expected = "a number of workers, 0 … 1024, or a blank";
                count(field, MAX_WORKERS, expected)
            })?,
            storage: blank_or(storage, name)?,
            epoch: blank_or(epoch, |field| {
                count(
                    field,
                    u32::MAX,
                    "the number of the epoch, from 0, or a blank",
                )
            })?,
        })
    }

    /// The error for another feeding in a file of one.
    pub(super) fn differs(&self, found: &Self) -> Defect {
        let number = |value: Option<u32>| value.map_or(String::new(), |number| number.to_string());
        let texts = |feeding: &Self| {
            [
                number(feeding.minibatch),
                number(feeding.workers),
                feeding.storage.clone().unwrap_or_default(),
                number(feeding.epoch),
            ]
        };
        let columns = ["minibatch", "workers", "storage", "epoch"];
        let pairs = texts(self).into_iter().zip(texts(found));
        let mut differing = columns.into_iter().zip(pairs).filter(|(_, (a, b))| a != b);
        match differing.next() {
            Some((column, (first, found))) => {
                Defect::of(column, Problem::SeveralFeedings { first, found })
            }
            None => unreachable!("equal feedings are one"),
        }
    }
}

/// The known parts of a step in ms.
pub(super) struct Parts {
    pub fetch: Option<f32>,
    pub compute: Option<f32>,
}

impl Parts {
    /// Parses the fields `fetch_ms` and `compute_ms` of a step.
    pub fn parse(fetch: Named<'_>, compute: Named<'_>, time: Option<f32>) -> Result<Self, Defect> {
        let parts = Self {
            fetch: blank_or(fetch, duration)?,
            compute: blank_or(compute, duration)?,
        };
        if parts.fetch.or(parts.compute).is_none() {
            return Ok(parts);
        }
        let Some(time_ms) = time else {
            return Err(Defect::whole(Problem::PartWithoutStep));
        };
        let most = time_ms * (1.0 + PARTS_ROUNDING);
        let sum = parts.fetch.unwrap_or(0.0) + parts.compute.unwrap_or(0.0);
        let longer = |column, part: f32| {
            let [part, time] = [part, time_ms].map(|ms| format!("{ms} ms"));
            Err(Defect::of(column, Problem::LongerThanStep { part, time }))
        };
        match parts.fetch {
            Some(part) if part > most => longer("fetch_ms", part),
            // Both together, since the GPU does not compute what has not come.
            _ if sum > most => longer("compute_ms", sum),
            _ => Ok(parts),
        }
    }
}

fn blank_or<'a, T>(
    field: Named<'a>,
    parse: impl FnOnce(Named<'a>) -> Result<T, Refusal>,
) -> Result<Option<T>, Refusal> {
    match field.1 {
        b"" => Ok(None),
        _ => parse(field).map(Some),
    }
}

/// A time in ms, which may be zero.
fn duration(field: Named<'_>) -> Result<f32, Refusal> {
    let text = text(field)?;
    let value: Option<f32> = text.parse().ok();
    let value = value.filter(|value| (0.0..MAX_TIME_MS as f32).contains(value));
    value.ok_or_else(|| bad(field.0, "a time in ms from zero, or a blank", text))
}
