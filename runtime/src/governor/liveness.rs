//! Liveness of the sensor: whether its readings follow the board, or are stale.
//!
//! A repeated reading does not prove a dead sensor. An idle board shows the same reading for
//! seconds, and so does a busy board whose ripple is small beside the sensor's steps. A sensor is
//! *blind* when its reads fail, when its readings are implausible, or when they stand still
//! although a change of the mode or of the GPU's load must show. When the readings of a busy board
//! stand still for long, the governor *probes* the sensor: it makes such a change itself.

use crate::estimator::Sample;
use crate::units::Milliseconds;

/// Timeout of failing reads.
const SILENT: Milliseconds = Milliseconds(1_700);

/// Timeout of a change that must show. A low-pass of 430 ms has covered 97 % of a step by then.
const MUST_SHOW: Milliseconds = Milliseconds(1_500);

/// Minimum change of the GPU's load that must show, in permille.
const MUCH_LOAD: u16 = 500;

/// Tolerance within which two loads of the GPU are equal, in permille.
const SAME_LOAD: u16 = 50;

/// Standstill on a busy board after which the sensor is probed. It doubles after each probe that
/// proves the sensor alive, up to the second value. The longest standstill in recordings of busy
/// boards is 12.7 s (an Orin NX that trains); an idle board may stand still for any time.
const STILL: Milliseconds = Milliseconds(30_000);
const STILL_AT_MOST: Milliseconds = Milliseconds(480_000);

/// Minimum load of the GPU of a busy board, in permille.
const BUSY: u16 = 500;

/// History of the sensor's readings.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// The last plausible sample, and its time.
    sample: Option<Sample>,
    heard: Milliseconds,
    /// When a sample last differed from the previous one, and the GPU's load then.
    moved: Milliseconds,
    load: Option<u16>,
    /// Since when the GPU's load differs from `load`, and since when the board is busy.
    other_load: Option<Milliseconds>,
    busy: Option<Milliseconds>,
    /// Deadline of a mode change to show, and the GPU's load at the change. Another load voids it.
    must_show: Option<(Milliseconds, Option<u16>)>,
    /// Whether a probe is under way, and the standstill before the next probe.
    is_tried: bool,
    patience: Milliseconds,
    /// Since when the sensor is blind.
    blind: Option<Milliseconds>,
}

impl Liveness {
    /// Assumes a live sensor, and expects readings from `now` on.
    pub fn new(now: Milliseconds) -> Self {
        Self {
            sample: None,
            heard: now,
            moved: now,
            load: None,
            other_load: None,
            busy: None,
            must_show: None,
            is_tried: false,
            patience: STILL,
            blind: None,
        }
    }

    /// Expects a mode change to show. A pending change keeps its deadline.
    pub fn must_show(&mut self, gpu: Option<u16>, now: Milliseconds) {
        self.must_show.get_or_insert((after(now, MUST_SHOW), gpu));
    }

    /// Takes a plausible sample, if there is one. Returns whether the sensor is blind.
    pub fn look(&mut self, sample: Option<&Sample>, gpu: Option<u16>, now: Milliseconds) -> bool {
        if let Some(sample) = sample {
            self.heard = now;
            if self.sample.replace(*sample) != Some(*sample) {
                (self.moved, self.load) = (now, gpu);
                (self.other_load, self.must_show) = (None, None);
                if core::mem::take(&mut self.is_tried) {
                    let longer = self.patience.0.saturating_mul(2);
                    self.patience = Milliseconds(longer).min(STILL_AT_MOST);
                }
            }
        }
        // A change of the load may cancel the effect of the mode.
        let is_same = |before: Option<u16>| {
            let loads = before.zip(gpu);
            loads.is_none_or(|(before, now)| before.abs_diff(now) <= SAME_LOAD)
        };
        self.must_show = self.must_show.filter(|(_, before)| is_same(*before));
        let differs = |(load, gpu): (u16, u16)| load.abs_diff(gpu) >= MUCH_LOAD;
        since(
            &mut self.other_load,
            self.load.zip(gpu).is_some_and(differs),
            now,
        );
        since(&mut self.busy, gpu.is_some_and(|gpu| gpu >= BUSY), now);
        let is_blind = now.since(self.heard) >= SILENT
            || self.must_show.is_some_and(|(until, _)| now >= until)
            || is_for(self.other_load, MUST_SHOW, now);
        match self.blind {
            None if is_blind => self.blind = Some(now),
            // Only a reading that changes proves the sensor alive.
            Some(since) if self.moved > since && self.heard == now => self.blind = None,
            _ => {}
        }
        self.blind.is_some()
    }

    /// Whether to probe the sensor: the readings of a busy board stand still, and no change is
    /// pending.
    pub fn is_in_doubt(&self, now: Milliseconds) -> bool {
        let is_still = now.since(self.moved) >= self.patience;
        is_still && is_for(self.busy, self.patience, now) && self.must_show.is_none()
    }

    /// Marks the next mode change as a probe of the sensor.
    pub fn try_out(&mut self) {
        self.is_tried = true;
    }

    /// Whether a plausible sample arrived at this time.
    pub fn is_heard(&self, now: Milliseconds) -> bool {
        self.sample.is_some() && self.heard == now
    }

    /// Whether the sensor was blind at the last look.
    pub fn is_blind(&self) -> bool {
        self.blind.is_some()
    }
}

fn after(now: Milliseconds, time: Milliseconds) -> Milliseconds {
    Milliseconds(now.0.saturating_add(time.0))
}

/// Whether a condition has held for a time.
fn is_for(since: Option<Milliseconds>, time: Milliseconds, now: Milliseconds) -> bool {
    since.is_some_and(|at| now.since(at) >= time)
}

/// Tracks since when a condition holds.
fn since(from: &mut Option<Milliseconds>, holds: bool, now: Milliseconds) {
    *from = match holds {
        true => Some(from.unwrap_or(now)),
        false => None,
    };
}
