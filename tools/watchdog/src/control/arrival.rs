//! When the clocks have followed a change of the mode.
//!
//! Until then the power is that of two modes, and teaches nothing about either. A board shows some of
//! its clocks. A change counts as made when those have followed, and not before the longest time that
//! recent changes took: the clocks that the board does not show may be as late.

use wattgate_board::Files;
use wattgate_runtime::governor::WINDOW;
use wattgate_runtime::{Milliseconds, ModeId, PowerMode};

use super::Control;

/// Interval of steps while clocks follow.
pub(super) const ARRIVAL_INTERVAL: Milliseconds = Milliseconds(10);

/// Maximum of the wait. The limit applies to the mean of this time: on a board that takes longer, waiting
/// does not hold it, and the governor must decide with what it knows.
const LONGEST_WAIT: Milliseconds = WINDOW;

/// Least patience with a clock that does not follow: 107 ms on Thor (`jetson-platform.md`, addendum), and a
/// third more.
const LEAST_PATIENCE: Milliseconds = Milliseconds(150);

/// Number of times that are remembered. One slow change does not slow the board for ever.
const REMEMBERED_TIMES: usize = 8;

/// A mode that was set.
#[derive(Clone, Copy, Debug)]
struct Change {
    id: ModeId,
    /// The first step after it: the board had all knobs then.
    since: Option<Milliseconds>,
    /// When the board showed its clocks.
    followed: Option<Milliseconds>,
    /// Whether the board shows a clock that changes.
    is_visible: bool,
    /// Whether the change counts as made.
    is_made: bool,
}

/// The last change, and how long earlier ones took.
#[derive(Debug)]
pub(super) struct Arrival {
    change: Option<Change>,
    /// The times of recent visible changes, 0 for none, and the place of the next one.
    took: [Milliseconds; REMEMBERED_TIMES],
    next: usize,
    /// How long to wait for a clock that does not follow.
    patience: Milliseconds,
}

impl Arrival {
    pub(super) fn new() -> Self {
        Self {
            change: None,
            took: [Milliseconds(0); REMEMBERED_TIMES],
            next: 0,
            patience: LONGEST_WAIT,
        }
    }

    /// Forgets the last change; how long changes take stays known.
    pub(super) fn forget(&mut self) {
        self.change = None;
    }

    /// A mode was set.
    pub(super) fn begin(&mut self, id: ModeId, is_visible: bool) {
        self.change = Some(Change {
            id,
            since: None,
            followed: None,
            is_visible,
            is_made: false,
        });
    }

    /// The mode of the last change, until the board has shown its clocks or no longer can.
    fn awaited(&self) -> Option<ModeId> {
        self.change.map(|change| change.id)
    }

    /// Takes whether the board shows the clocks of the change. Returns whether the change counts as
    /// made.
    fn take(&mut self, now: Milliseconds, is_shown: bool) -> bool {
        let Some(mut change) = self.change else {
            return true;
        };
        let passed = now.since(*change.since.get_or_insert(now));
        if is_shown && change.followed.is_none() {
            change.followed = Some(now);
            if change.is_visible {
                self.remember(passed);
            }
        }
        let is_late = change.followed.is_none();
        change.is_made |= match is_late {
            true => passed >= self.patience,
            false => passed >= self.longest(),
        };
        let is_over = passed >= LONGEST_WAIT;
        if is_over && is_late && self.longest() == Milliseconds(0) {
            // The board's clocks never show a mode, as while it idles.
            self.patience = LEAST_PATIENCE;
        }
        // A change that counts as made may still show how long it takes.
        let is_done = is_over || !is_late && change.is_made;
        self.change = (!is_done).then_some(change);
        change.is_made || is_over
    }

    fn remember(&mut self, took: Milliseconds) {
        if let Some(place) = self.took.get_mut(self.next) {
            *place = took;
        }
        self.next = (self.next + 1) % REMEMBERED_TIMES;
        let longest = self.longest().0;
        let patience = Milliseconds(longest + longest / 3);
        self.patience = patience.clamp(LEAST_PATIENCE, LONGEST_WAIT);
    }

    /// The longest of the recent changes, at most [`LONGEST_WAIT`].
    fn longest(&self) -> Milliseconds {
        let longest = self.took.iter().max().copied();
        longest.unwrap_or_default().min(LONGEST_WAIT)
    }
}

impl<F: Files> Control<F> {
    /// Whether the clocks have followed the last change of the mode.
    pub(super) fn arrives(&mut self, now: Milliseconds) -> bool {
        let Some(id) = self.arrival.awaited() else {
            return true;
        };
        let was_made = self.shown.is_some();
        // What does not obey does not follow either.
        let is_shown = match self.choices.mode(id) {
            Some(mode) if self.board.disobedient().next().is_none() => {
                self.board.has_arrived(&self.files, &mode)
            }
            _ => true,
        };
        let is_made = self.arrival.take(now, is_shown);
        if is_made && !was_made {
            self.shown = Some(id);
        }
        is_made
    }

    /// A mode was set: waits for its clocks from the next step on.
    pub(super) fn await_clocks(&mut self, id: ModeId, mode: &PowerMode) {
        let before = self.current;
        let is_visible = before.is_none_or(|before| self.board.shows_change(&before, mode));
        self.arrival.begin(id, is_visible);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sets a mode whose clocks take a time, and returns when it counts as made.
    fn made(arrival: &mut Arrival, takes: u64, is_visible: bool) -> u64 {
        arrival.begin(ModeId(0), is_visible);
        let times = (0..2_000).step_by(10);
        let mut made = None;
        for passed in times {
            let is_shown = !is_visible || passed >= takes;
            if arrival.take(Milliseconds(1_000 + passed), is_shown) {
                made = made.or(Some(passed));
            }
        }
        made.expect("a change that is made")
    }

    #[test]
    fn what_cannot_be_seen_takes_as_long_as_what_was_seen() {
        let mut arrival = Arrival::new();
        assert_eq!(made(&mut arrival, 0, false), 0);
        assert_eq!(made(&mut arrival, 300, true), 300);
        assert_eq!(made(&mut arrival, 0, false), 300);
        // The longest counts, until it is forgotten.
        for _ in 0..7 {
            assert_eq!(made(&mut arrival, 20, true), 300);
        }
        assert_eq!(made(&mut arrival, 20, true), 20);
        assert_eq!(made(&mut arrival, 0, false), 20);
    }

    #[test]
    fn a_clock_that_never_follows_ends_the_patience_once() {
        let mut arrival = Arrival::new();
        assert_eq!(made(&mut arrival, 10_000, true), 430);
        assert_eq!(made(&mut arrival, 10_000, true), 150);
    }

    /// After it was slower than ever, the wait is longer.
    #[test]
    fn a_change_that_is_seen_late_is_remembered() {
        let mut arrival = Arrival::new();
        assert_eq!(made(&mut arrival, 100, true), 100);
        assert_eq!(made(&mut arrival, 300, true), 150);
        assert_eq!(made(&mut arrival, 300, true), 300);
    }
}
