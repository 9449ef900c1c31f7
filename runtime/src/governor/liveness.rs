//! Liveness of the sensor: whether its readings follow the board, or are stale.
//!
//! A repeated reading does not prove a dead sensor. An idle board shows the same reading for
//! seconds, and so does a busy board whose ripple is small beside the sensor's steps. A sensor is
//! *blind* when its reads fail, when its readings are implausible, or when they stand still
//! although a change of the mode or of the GPU's load must show. When the readings of a busy board
//! stand still for long, the governor *probes* the sensor: it makes such a change itself.

use super::load::{Load, is_same_load};
use super::memory::BUSY_LOAD;
use crate::estimator::{MOST_CHIPS, Sample};
use crate::quantities::{Milliseconds, Milliwatts};

/// Timeout of failing reads.
const READ_TIMEOUT: Milliseconds = Milliseconds(1_700);

/// Timeout of a change that must show. A low-pass of 430 ms has covered 97 % of a step by then.
const RESPONSE_TIMEOUT: Milliseconds = Milliseconds(1_500);

/// Standstill on a busy board after which the sensor is probed. It doubles after each probe that
/// proves the sensor alive, up to the second value. The longest standstill in recordings of busy
/// boards is 12.7 s (an Orin NX that trains); an idle board may stand still for any time.
const PROBE_AFTER: Milliseconds = Milliseconds(30_000);
const LONGEST_PROBE_AFTER: Milliseconds = Milliseconds(480_000);

/// The main chips are those that measure at least half of the power (one divided by this number). If no chip does, the
/// one that measures most is the main chip. A change of the power must show in each main chip.
const MAIN_PART: u32 = 2;

/// History of the sensor's readings.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// The last plausible sample, and its time.
    sample: Option<Sample>,
    last_reading: Milliseconds,
    /// When the reading of each chip last differed from the previous one.
    chips: [Milliseconds; MOST_CHIPS],
    /// The earliest of those of the main chips, and the GPU's load then.
    changed: Milliseconds,
    load: Option<u16>,
    /// Since when the GPU's load differs from `load`, and since when the board is busy.
    other_load: Option<Milliseconds>,
    busy: Option<Milliseconds>,
    /// Deadline of a mode change to show, and the GPU's load at the change. Another load voids it.
    pending_change: Option<(Milliseconds, Option<u16>)>,
    /// Whether a probe is under way, and the standstill before the next probe.
    is_probing: bool,
    probe_after: Milliseconds,
    /// Since when the sensor is blind.
    blind: Option<Milliseconds>,
}

impl Liveness {
    /// Assumes a live sensor, and expects readings from `now` on.
    pub const fn new(now: Milliseconds) -> Self {
        Self {
            sample: None,
            last_reading: now,
            chips: [now; MOST_CHIPS],
            changed: now,
            load: None,
            other_load: None,
            busy: None,
            pending_change: None,
            is_probing: false,
            probe_after: PROBE_AFTER,
            blind: None,
        }
    }

    /// Expects a mode change to show. A pending change keeps its deadline.
    pub fn expect_change(&mut self, gpu: Option<u16>, now: Milliseconds) {
        self.pending_change
            .get_or_insert((after(now, RESPONSE_TIMEOUT), gpu));
    }

    /// Takes a plausible sample, if there is one. Returns whether the sensor is blind.
    pub fn update(&mut self, sample: Option<&Sample>, load: &Load, now: Milliseconds) -> bool {
        let gpu = load.gpu;
        if let Some(sample) = sample {
            self.last_reading = now;
            let before = self.sample.replace(*sample);
            if self.all_changed(before, sample, now) {
                self.load = gpu;
                (self.other_load, self.pending_change) = (None, None);
                if core::mem::take(&mut self.is_probing) {
                    let longer = self.probe_after.0.saturating_mul(2);
                    self.probe_after = Milliseconds(longer).min(LONGEST_PROBE_AFTER);
                }
            }
        }
        // A change of the load may cancel the effect of the mode.
        let pending = self.pending_change;
        self.pending_change = pending.filter(|(_, before)| is_same_load(*before, gpu));
        let differs = |(load, gpu): (u16, u16)| load.abs_diff(gpu) >= BUSY_LOAD;
        since(
            &mut self.other_load,
            self.load.zip(gpu).is_some_and(differs),
            now,
        );
        // Where the board does not tell how busy it is, time alone decides.
        let is_busy = gpu.is_none_or(|gpu| gpu >= BUSY_LOAD || load.works());
        since(&mut self.busy, is_busy, now);
        let is_blind = now.since(self.last_reading) >= READ_TIMEOUT
            || self.pending_change.is_some_and(|(until, _)| now >= until)
            || is_for(self.other_load, RESPONSE_TIMEOUT, now);
        match self.blind {
            None if is_blind => self.blind = Some(now),
            // Only a reading that changes proves the sensor alive.
            Some(since) if self.changed > since && self.last_reading == now => self.blind = None,
            _ => {}
        }
        self.blind.is_some()
    }

    /// Whether to probe the sensor: the readings of a busy board stand still, and no change is
    /// pending.
    pub fn needs_probe(&self, now: Milliseconds) -> bool {
        let is_still = now.since(self.changed) >= self.probe_after;
        is_still && is_for(self.busy, self.probe_after, now) && self.pending_change.is_none()
    }

    /// Notes which chips have changed. Returns whether all main chips have since the last time that this was so.
    fn all_changed(&mut self, before: Option<Sample>, sample: &Sample, now: Milliseconds) -> bool {
        let total = sample.total().unwrap_or(Milliwatts(0)).0;
        let most = sample.chips.iter().flatten().map(|it| it.0).max();
        let main = most.unwrap_or(0).min(total / MAIN_PART).max(1);
        let mut earliest = now;
        let chips = self.chips.iter_mut().zip(sample.chips).enumerate();
        for (chip, (changed, power)) in chips {
            let before = before.and_then(|before| before.chips.get(chip).copied());
            if before != Some(power) {
                *changed = now;
            }
            if power.is_some_and(|it| it.0 >= main) {
                earliest = earliest.min(*changed);
            }
        }
        let have_changed = earliest > self.changed || before.is_none();
        self.changed = earliest;
        have_changed
    }

    /// Whether each main chip has shown a change since a time.
    pub fn has_changed_since(&self, at: Milliseconds) -> bool {
        self.changed > at
    }

    /// Time since the last plausible sample.
    pub fn missed(&self, now: Milliseconds) -> Milliseconds {
        now.since(self.last_reading)
    }

    /// Whether a probe is under way.
    pub fn is_probing(&self) -> bool {
        self.is_probing
    }

    /// Marks the next mode change as a probe of the sensor.
    pub fn begin_probe(&mut self) {
        self.is_probing = true;
    }

    /// Whether a plausible sample arrived at this time.
    pub fn has_reading(&self, now: Milliseconds) -> bool {
        self.sample.is_some() && self.last_reading == now
    }

    /// Whether the sensor was blind at the last sample.
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
