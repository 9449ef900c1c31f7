//! Sets modes, and follows what the knobs make of them.

use wattgate_board::{Effective, Files};
use wattgate_runtime::{Milliseconds, ModeId, PowerMode};

use super::disobedience::Obedience;
use super::{Control, Event};

/// Interval at which the clocks of a capped board are requested again. Another program may have
/// lowered them below the cap, where nobody sees it.
const REQUEST_INTERVAL: Milliseconds = Milliseconds(10_000);

/// Interval of the tests of knobs. Two tests, and so less than a minute, show that a knob obeys again
/// ([`Board::test_obedience`](wattgate_board::Board::test_obedience)).
const TEST_INTERVAL: Milliseconds = Milliseconds(20_000);

/// Least interval between two changes of the front while the board is in the wanted mode: a knob that comes and
/// goes must not keep the governor from measuring.
const ADAPT_INTERVAL: Milliseconds = Milliseconds(1_000);

impl<F: Files> Control<F> {
    /// Sets a mode as far as the knobs obey. [`Board::apply`](wattgate_board::Board::apply) reads every write
    /// back.
    pub(super) fn apply(&mut self, id: ModeId, emit: &mut impl FnMut(Event<'_>)) {
        self.forget_mode();
        let Some(mode) = self.choices.mode(id) else {
            return;
        };
        match self.board.apply(&mut self.files, &mode) {
            Ok(applied) => {
                if applied.is_set {
                    self.await_clocks(id, &mode);
                    let status = self.governor.status();
                    // A mode that is only set again, after another program changed it, is no news.
                    if self.told.0.replace(id) != Some(id) {
                        self.told.1.clear();
                        emit(Event::Applied { mode, status });
                    }
                } else {
                    let count = &mut self.obedience.failed_changes;
                    *count = count.saturating_add(1);
                }
                self.set_capped(applied.effective == Effective::Capped, emit);
                self.adapt(!applied.is_set, emit);
            }
            // The front has modes of the board alone.
            Err(error) => emit(Event::NotApplied {
                mode,
                error: &error,
            }),
        }
        self.verified = self.last;
        self.current = Some(self.board.current(&self.files));
    }

    /// Requests a mode of which a clock shows less. If it still does, cooling caps it, otherwise
    /// another program had lowered it.
    pub(super) fn request_again(
        &mut self,
        mode: &PowerMode,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        let is_recent = |at: Milliseconds| now.since(at) < REQUEST_INTERVAL;
        let requested = &mut self.surroundings.requested;
        if self.throttling.by_cooling && requested.is_some_and(is_recent) {
            return;
        }
        *requested = Some(now);
        if let Ok(applied) = self.board.apply(&mut self.files, mode) {
            let is_capped = applied.effective == Effective::Capped;
            if !self.adapt(!applied.is_set, emit) && !is_capped && !self.throttling.by_cooling {
                emit(Event::Lowered);
            }
            self.set_capped(is_capped, emit);
        }
    }

    /// Tests the knobs that do not obey if that is due. True if the board can be set to other modes then.
    pub(super) fn test_obedience(
        &mut self,
        mode: &PowerMode,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) -> bool {
        if now.since(self.obedience.tested) < TEST_INTERVAL || self.shown.is_none() {
            return false;
        }
        self.obedience.tested = now;
        self.board.test_obedience(&mut self.files, mode);
        self.adapt(false, emit)
    }

    /// Reports knobs that do not obey, or obey again. If the board can be set to other modes than before, gives
    /// these to the governor and returns true. Does so once a second at most, unless it is urgent.
    pub(super) fn adapt(&mut self, is_urgent: bool, emit: &mut impl FnMut(Event<'_>)) -> bool {
        let now = self.last.unwrap_or(Milliseconds(0));
        let Obedience {
            changes,
            adapted,
            reported,
            ..
        } = &mut self.obedience;
        reported.update(self.board.disobedient(), now, emit);
        let found = self.board.obedience_changes();
        let is_recent = adapted.is_some_and(|at| now.since(at) < ADAPT_INTERVAL);
        if *changes == found || is_recent && !is_urgent {
            return false;
        }
        (*changes, *adapted) = (found, Some(now));
        self.choices.adapt(&self.board);
        // The front has the least mode at least.
        let _ = self.governor.set_modes(self.choices.front.clone());
        self.forget_mode();
        true
    }

    pub(super) fn set_capped(&mut self, is_capped: bool, emit: &mut impl FnMut(Event<'_>)) {
        if std::mem::replace(&mut self.throttling.by_cooling, is_capped) != is_capped {
            emit(match is_capped {
                true => Event::Capped,
                false => Event::NotCapped,
            });
        }
    }
}
