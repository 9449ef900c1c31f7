//! What follows when even the least mode is over the limit: a state of its own, then the backstop without its margin,
//! then a call for help, which root may answer.
//!
//! ```text
//! over in the least mode for 1 s ─► alarm ─► backstop at the limit, if it is on ─► 2 s later, still over ─► call
//! ```

use wattgate_runtime::{Milliseconds, Milliwatts};

/// The contract's reaction: over for longer, in the least mode, cannot be held.
const REACTION: Milliseconds = Milliseconds(1_000);

/// The time that the backstop gets. It acts within a millisecond; the mean over 430 ms and its step are slower.
const BACKSTOP_TIME: Milliseconds = Milliseconds(2_000);

/// The power must be within the limit for this long before the alarm ends: in the least mode, where the backstop may be
/// what keeps it there, and in a higher one.
const ALARM_END: Milliseconds = Milliseconds(10_000);
const QUIET_ABOVE: Milliseconds = Milliseconds(1_000);

/// Since when the power has been over a limit in the least mode.
#[derive(Clone, Copy, Debug, Default)]
struct Stretch {
    since: Option<Milliseconds>,
    /// When it was over last, once that counts as an alarm.
    alarm: Option<Milliseconds>,
}

impl Stretch {
    fn note(
        &mut self,
        now: Milliseconds,
        is_over: Option<bool>,
        reaction: Milliseconds,
        quiet: Milliseconds,
    ) {
        match is_over {
            Some(true) => {
                let since = *self.since.get_or_insert(now);
                if self.alarm.is_some() || now.since(since) > reaction {
                    self.alarm = Some(now);
                }
            }
            Some(false) => {
                self.since = None;
                self.alarm = self.alarm.filter(|last| now.since(*last) < quiet);
            }
            // Unknown is neither.
            None => {}
        }
    }
}

/// The present step.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Escalation {
    /// Over the limit in force, and over what root allows.
    over: Stretch,
    roots: Stretch,
    /// When the alarm began.
    began: Option<Milliseconds>,
    /// The limit in force at the last step within it, or over it.
    limit: Milliwatts,
}

impl Escalation {
    /// Takes the mean power (`None`: unknown), the limit in force, the limit of root, and two facts: whether the board is
    /// in the lowest mode that it can be set to, and whether it has a backstop.
    pub(super) fn note(
        &mut self,
        now: Milliseconds,
        power: Option<Milliwatts>,
        [limit, roots]: [Milliwatts; 2],
        is_least: bool,
        has_backstop: bool,
    ) {
        let is_over = |limit: Milliwatts| power.map(|power| is_least && power > limit);
        // An alarm is about a limit: it says nothing of a higher one that holds.
        if limit > self.limit && power.is_some_and(|power| power <= limit) {
            self.over = Stretch::default();
        }
        if power.is_some() {
            self.limit = limit;
        }
        let longer = if has_backstop { BACKSTOP_TIME.0 } else { 0 };
        let quiet = if is_least { ALARM_END } else { QUIET_ABOVE };
        self.over.note(now, is_over(limit), REACTION, quiet);
        let call = Milliseconds(REACTION.0 + longer);
        self.roots.note(now, is_over(roots), call, quiet);
        self.began = match self.over.alarm {
            Some(_) => self.began.or(Some(now)),
            None => None,
        };
    }

    /// Since when the power has been over the limit, though nothing lower can be set.
    pub(super) fn began(&self) -> Option<Milliseconds> {
        self.began
    }

    /// Whether root's help is needed.
    pub(super) fn calls(&self) -> bool {
        self.roots.alarm.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_higher_limit_that_holds_ends_the_alarm_of_a_lower_one() {
        let mut escalation = Escalation::default();
        let mut note = |ms, power: Option<u32>, limit| {
            let limits = [Milliwatts(limit), Milliwatts(20_000)];
            escalation.note(Milliseconds(ms), power.map(Milliwatts), limits, true, false);
            escalation.began().is_some()
        };
        assert!(!note(0, Some(9_000), 5_000) && note(1_001, Some(9_000), 5_000));
        // A raise to what is over as well does not end it, nor one while the power is unknown.
        assert!(note(1_100, Some(9_000), 8_000) && note(1_200, None, 20_000));
        assert!(!note(1_300, Some(9_000), 20_000));
        assert!(!note(1_400, Some(9_000), 5_000) && note(2_500, Some(9_000), 5_000));
    }

    /// What follows from a course of powers in W, a step each 100 ms: the times in ms at which alarm and call begin and
    /// end.
    fn course(powers: &[(u32, u64)], has_backstop: bool) -> Vec<(u64, bool, bool)> {
        let (mut escalation, mut now, mut changes) = (Escalation::default(), 0, Vec::new());
        for &(watts, steps) in powers {
            for _ in 0..steps {
                now += 100;
                let limits = [Milliwatts(10_000), Milliwatts(15_000)];
                let power = (watts > 0).then_some(Milliwatts(1_000 * watts));
                escalation.note(Milliseconds(now), power, limits, true, has_backstop);
                let state = (escalation.began().is_some(), escalation.calls());
                let last = changes
                    .last()
                    .map_or((false, false), |&(_, over, calls)| (over, calls));
                if state != last {
                    changes.push((now, state.0, state.1));
                }
            }
        }
        changes
    }

    #[test]
    fn alarm_and_call_follow_after_the_reaction_and_end_after_ten_quiet_seconds() {
        // Over the limit of a client only: nobody is called.
        assert_eq!(
            course(&[(12, 50), (9, 120)], false),
            [(1_200, true, false), (15_000, false, false)]
        );
        assert_eq!(
            course(&[(16, 50), (9, 120)], false),
            [(1_200, true, true), (15_000, false, false)]
        );
        // The backstop gets two seconds.
        assert_eq!(
            course(&[(16, 50), (9, 120)], true),
            [
                (1_200, true, false),
                (3_200, true, true),
                (15_000, false, false)
            ]
        );
        // A second is the contract's.
        assert_eq!(course(&[(16, 10), (9, 10), (16, 10), (9, 10)], false), []);
        // What is unknown neither begins nor ends it.
        assert_eq!(
            course(&[(16, 8), (0, 10), (16, 20), (0, 500)], false),
            [(1_900, true, true)]
        );
    }
}
