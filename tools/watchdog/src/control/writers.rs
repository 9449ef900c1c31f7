//! Sees when another program has changed the mode.
//!
//! A raised mode is seen before the governor's step: its power is that of the other program's mode, and
//! not the load's. All other changes are seen by the read-back after the step, which takes longer.

use wattgate_board::{Effective, Files, KnobError};
use wattgate_runtime::{Milliseconds, PowerMode};

use super::{Control, Event};

/// Longest time between two looks for a raised mode. A mode that draws twice the limit for this time
/// lifts the mean of 430 ms by 6 % of the limit. Sensors with many rails are read less often, up to
/// each 90 ms.
const GLANCE_INTERVAL: Milliseconds = Milliseconds(25);

/// Interval of the read-back of all knobs.
const READ_BACK_INTERVAL: Milliseconds = Milliseconds(400);

/// At most one log line about other programs appears in this time, so that a program that writes
/// without end does not flood the log. The control still undoes each change.
const REPORT_INTERVAL: Milliseconds = Milliseconds(60_000);

/// Changes of the mode by other programs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Disturbances {
    /// Their number since the last report, and the time of that report.
    times: u32,
    reported: Option<Milliseconds>,
}

impl<F: Files> Control<F> {
    /// Looks for a raised mode before the next step is due, without the sensor, whose bus is slow. Returns
    /// when to glance or to look again; `None` if it is time to look.
    pub(super) fn glance(&self, now: Milliseconds) -> Option<Milliseconds> {
        let is_due = self.due.is_none_or(|due| now >= due);
        let mode = self.shown.and_then(|shown| self.choices.mode(shown))?;
        let must_look = is_due || self.board.is_raised(&self.files, &mode);
        (!must_look).then(|| self.next_glance(now))
    }

    /// When to glance or to look again.
    pub(super) fn next_glance(&self, now: Milliseconds) -> Milliseconds {
        let glance = Milliseconds(now.0.saturating_add(GLANCE_INTERVAL.0));
        self.due.map_or(now, |due| due.min(glance))
    }

    /// Looks for a raised mode, so that the governor's step is told. Call it after the sample: what
    /// raised the power of the sample is then seen. Reads as few files as it can, because a step of
    /// the load waits for it.
    pub(super) fn look_for_raise(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) {
        let mode = self.shown.and_then(|shown| self.choices.mode(shown));
        if let Some(mode) = mode.filter(|mode| self.board.is_raised(&self.files, mode)) {
            self.read_back(&mode, now, emit);
        }
    }

    /// Tests the knobs, and reads the wanted mode back, each if it is due. True if the next step must not wait:
    /// the board has left the mode, or can be set to other modes than before.
    pub(super) fn is_disturbed(
        &mut self,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) -> bool {
        let wanted = self.governor.status().mode;
        let (Some(verified), Some(mode)) = (self.verified, self.choices.mode(wanted)) else {
            return false;
        };
        if self.test_obedience(&mode, now, emit) || self.adapt(false, emit) {
            return true;
        }
        now.since(verified) >= READ_BACK_INTERVAL && self.read_back(&mode, now, emit)
    }

    /// Reads back all knobs of the wanted mode. True if the board has left it.
    fn read_back(
        &mut self,
        mode: &PowerMode,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) -> bool {
        self.verified = Some(now);
        self.current = Some(self.board.current(&self.files));
        match self.board.verify(&self.files, mode) {
            Ok(Effective::AsRequested) => {
                self.shown = Some(self.governor.status().mode);
                self.set_capped(false, emit);
            }
            Ok(Effective::Capped) => self.request_again(mode, now, emit),
            Err(error) => {
                if self.shown.take().is_some() {
                    self.report_disturbance(mode, &error, now, emit);
                    return true;
                }
            }
        }
        false
    }

    fn report_disturbance(
        &mut self,
        mode: &PowerMode,
        error: &KnobError,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        let Disturbances { times, reported } = &mut self.disturbances;
        *times += 1;
        if reported.is_some_and(|at| now.since(at) < REPORT_INTERVAL) {
            return;
        }
        *reported = Some(now);
        let times = std::mem::take(times);
        let by = self.board.likely_writer(&self.files, mode);
        emit(Event::Disturbed { by, error, times });
    }
}
