//! Whether the sensor tells the truth, or has died.
//!
//! A reading that repeats is no sign of death: an idle board shows the same for seconds, and so does
//! a busy one whose ripple is small beside the sensor's steps. A sensor is *blind* when its reads fail,
//! when it shows nonsense, or when it stands still although something must show: a change of the mode
//! or of the GPU's load. Where a busy board's readings stand still for long, the governor makes such
//! a change: it *tries* the sensor.

use crate::estimator::Sample;
use crate::units::Milliseconds;

/// Reads that fail for so long.
const SILENT: Milliseconds = Milliseconds(1_700);

/// What must show is awaited for so long. A low-pass of 430 ms has gone 97 % of the way by then.
const MUST_SHOW: Milliseconds = Milliseconds(1_500);

/// A change of the GPU's load that must show, in permille.
const MUCH_LOAD: u16 = 500;

/// A load of the GPU that is the same, in permille.
const SAME_LOAD: u16 = 50;

/// A sensor is tried after its readings stood still for so long on a busy board, twice as long
/// each time that it proves alive, up to the second value. The longest that recorded boards show is
/// 12.7 s (an Orin NX that trains); a board at rest may be still for any time.
const STILL: Milliseconds = Milliseconds(30_000);
const STILL_AT_MOST: Milliseconds = Milliseconds(480_000);

/// From this load of the GPU on, in permille, a board is busy.
const BUSY: u16 = 500;

/// What the sensor has shown.
#[derive(Clone, Debug)]
pub struct Liveness {
    /// The last sample that made sense, and when.
    sample: Option<Sample>,
    heard: Milliseconds,
    /// When a sample last differed from the one before, and the load of the GPU then.
    moved: Milliseconds,
    load: Option<u16>,
    /// Since when the GPU's load is another one than `load`, and since when it is busy.
    other_load: Option<Milliseconds>,
    busy: Option<Milliseconds>,
    /// A change of the mode has to show until then, while the GPU's load stays as it was.
    must_show: Option<(Milliseconds, Option<u16>)>,
    /// It is tried, and after how long a standstill it is tried next.
    is_tried: bool,
    patience: Milliseconds,
    /// Since when it is blind.
    blind: Option<Milliseconds>,
}

impl Liveness {
    /// From now on something has to be heard.
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

    /// A mode was set that draws another power by much. While such a change has not shown, another one
    /// gives it no more time.
    pub fn must_show(&mut self, gpu: Option<u16>, now: Milliseconds) {
        self.must_show.get_or_insert((after(now, MUST_SHOW), gpu));
    }

    /// Takes a look: a sample that makes sense, if there is one. Returns whether the sensor is blind.
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
        // A load that changes may undo what the mode does.
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
            // Only what moves is alive.
            Some(since) if self.moved > since && self.heard == now => self.blind = None,
            _ => {}
        }
        self.blind.is_some()
    }

    /// Whether it stands still on a busy board for so long that it is to be tried, and no try is under
    /// way.
    pub fn is_in_doubt(&self, now: Milliseconds) -> bool {
        let is_still = now.since(self.moved) >= self.patience;
        is_still && is_for(self.busy, self.patience, now) && self.must_show.is_none()
    }

    /// A mode that must show is set only to try the sensor.
    pub fn try_out(&mut self) {
        self.is_tried = true;
    }

    /// Whether a sample that makes sense came at this time.
    pub fn is_heard(&self, now: Milliseconds) -> bool {
        self.sample.is_some() && self.heard == now
    }

    /// Whether it was blind at the last look.
    pub fn is_blind(&self) -> bool {
        self.blind.is_some()
    }
}

fn after(now: Milliseconds, time: Milliseconds) -> Milliseconds {
    Milliseconds(now.0.saturating_add(time.0))
}

/// Whether something holds for so long.
fn is_for(since: Option<Milliseconds>, time: Milliseconds, now: Milliseconds) -> bool {
    since.is_some_and(|at| now.since(at) >= time)
}

/// Keeps since when something holds.
fn since(from: &mut Option<Milliseconds>, holds: bool, now: Milliseconds) {
    *from = match holds {
        true => Some(from.unwrap_or(now)),
        false => None,
    };
}
