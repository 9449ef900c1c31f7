//! The backstop in hardware under control: its limit follows that of the governor.

use wattgate_board::{BackstopError, Board, Files, Saved};
use wattgate_runtime::Milliwatts;

use super::Event;
use crate::quantity::Margin;

/// Number of OC3 events since the last check, a second or two before, from which the backstop
/// throttles the board. Each event lasts a millisecond. Boards without excess show at most thirty a
/// second (`jetson-platform.md`, section 6.4).
const MANY: i64 = 200;

/// The backstop of a board under control.
#[derive(Debug)]
pub(super) struct Backstop {
    margin: Margin,
    /// The board's own limits of the current. Without them nothing is written.
    own: Option<Saved>,
    limit: Milliwatts,
    has_failed: bool,
    /// Whether it acts at the limit, without its margin.
    is_tight: bool,
    /// The number of OC3 events at the last check.
    events: Option<i64>,
}

impl Backstop {
    pub(super) fn new(margin: Margin) -> Self {
        Self {
            margin,
            own: None,
            limit: Milliwatts(0),
            has_failed: false,
            is_tight: false,
            events: None,
        }
    }

    pub(super) fn keep_own(&mut self, own: &Saved) {
        self.own = Some(own.clone());
    }

    /// Takes over a limit. It holds from the next call of [`Self::set`] on.
    pub(super) fn set_limit(&mut self, limit: Milliwatts) {
        self.limit = limit;
    }

    /// Sets it for the first time, for a new limit, where voltages changed, and where another
    /// program changed it. Returns whether one did.
    pub(super) fn set<F: Files>(
        &self,
        board: &mut Board,
        files: &mut F,
    ) -> Result<bool, BackstopError> {
        let Some(own) = &self.own else {
            return Ok(false);
        };
        let margin = match self.is_tight {
            true => Milliwatts(0),
            false => self.margin.for_limit(self.limit),
        };
        board.set_backstop(files, own, self.limit, margin)
    }

    /// Drops the margin where nothing else holds the limit, or takes it again. Holds from the next call of
    /// [`Self::set`] on.
    pub(super) fn tighten(&mut self, is_tight: bool) {
        self.is_tight = is_tight;
    }

    /// As [`Self::set`], and reports a change and the first failure.
    pub(super) fn watch<F: Files>(
        &mut self,
        board: &mut Board,
        files: &mut F,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        let set = self.set(board, files);
        let had_failed = std::mem::replace(&mut self.has_failed, set.is_err());
        match set {
            Ok(true) => emit(Event::BackstopChanged),
            Ok(false) => {}
            Err(_) if had_failed => {}
            Err(error) => emit(Event::NoBackstop(&error)),
        }
    }

    /// Gives the board its own limits. A failure leaves lower ones.
    pub(super) fn lift<F: Files>(&mut self, board: &mut Board, files: &mut F) {
        if let Some(own) = &self.own {
            let _ = board.lift_backstop(files, own);
        }
    }

    /// Whether OC3 throttled the board for much of the time since the last check, when the board
    /// had counted `events`.
    pub(super) fn throttles(&mut self, events: i64) -> bool {
        let before = self.events.replace(events);
        // Where it acts at the limit, it acts all the time.
        before.is_some_and(|before| !self.is_tight && events.saturating_sub(before) >= MANY)
    }
}
