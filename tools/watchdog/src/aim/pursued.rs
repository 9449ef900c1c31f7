//! An aim that is pursued. The time that is left of its work is divided among the steps that are left.

use wattgate_cli::aim::{By, Wanted, planned, share};
use wattgate_runtime::{Aim, Milliseconds};

/// Deadlines that differ by less than this part, in permille, count as the same one: else the mode would change all the
/// time.
const SAME: u64 = 10;

/// An aim, and since when it is pursued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pursued {
    pub wanted: Wanted,
    since: Milliseconds,
    /// Steps that the workload had told by then.
    before: u64,
}

impl Pursued {
    /// An aim from `since` on, when the workload had told `before` steps.
    pub fn new(wanted: Wanted, since: Milliseconds, before: u64) -> Self {
        Self {
            wanted,
            since,
            before,
        }
    }

    /// The steps that are done under this aim, of those that the workload has told.
    pub fn done(&self, told: u64) -> u64 {
        told.saturating_sub(self.before)
    }

    /// The aim of the governor when so many steps are done. `first` is the aim before any step: it also holds while nobody tells
    /// steps, and after the last one if the GPU works on. If the GPU `is_idle` after the last step, the board rests in the mode of
    /// least power.
    pub fn aim(&self, first: Aim, now: Milliseconds, done: Option<u64>, is_idle: bool) -> Aim {
        let (Some(By::Work { steps, within }), Some(done)) = (self.wanted.by, done) else {
            return first;
        };
        let passed = now.since(self.since);
        let time = planned(within).0.saturating_sub(passed.0);
        match (steps.saturating_sub(done), time) {
            (0, _) if is_idle => Aim::REST,
            (0, _) => first,
            (_, 0) => Aim::FASTEST,
            (left, time) => Aim {
                deadline: Some(share(Milliseconds(time), left)),
                ..first
            },
        }
    }

    /// What is left of the time for the work.
    pub fn remaining(&self, now: Milliseconds) -> Option<Milliseconds> {
        match self.wanted.by {
            Some(By::Work { within, .. }) => {
                let passed = now.since(self.since).0;
                Some(Milliseconds(within.0.saturating_sub(passed)))
            }
            _ => None,
        }
    }

    /// The steps that are left though the time for the work is over.
    pub fn late(&self, now: Milliseconds, done: Option<u64>) -> Option<u64> {
        let Some(By::Work { steps, .. }) = self.wanted.by else {
            return None;
        };
        let left = steps.saturating_sub(done?);
        (left > 0 && self.remaining(now) == Some(Milliseconds(0))).then_some(left)
    }
}

/// Whether two aims lead to the same modes.
pub fn is_near(one: &Aim, other: &Aim) -> bool {
    let is_near = match (one.deadline, other.deadline) {
        (Some(one), Some(other)) => {
            u64::from(one.0.abs_diff(other.0)) * 1_000 <= SAME * u64::from(other.0)
        }
        (one, other) => one == other,
    };
    is_near && (one.objective, one.idle) == (other.objective, other.idle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_runtime::{Microseconds, Objective};

    fn work(steps: u64, within: u64) -> Pursued {
        let within = Milliseconds(within);
        let by = Some(By::Work { steps, within });
        let objective = Objective::Power;
        Pursued::new(Wanted { objective, by }, Milliseconds(500), 40)
    }

    #[test]
    fn time_is_divided_among_the_steps_that_are_left() {
        let hour = work(1_000, 3_600_000);
        let us = |now: u64, done| {
            let aim = hour.aim(hour.wanted.first(), Milliseconds(500 + now), done, false);
            aim.deadline.map(|it| it.0)
        };
        // 99.5 % of 99.5 % of the time.
        assert_eq!(us(0, None), Some(3_564_090));
        assert_eq!(us(0, Some(0)), Some(3_564_090));
        // Without steps the time does not count.
        assert_eq!(us(1_800_000, None), Some(3_564_090));
        assert_eq!(us(1_800_000, Some(500)), Some(3_546_180));
        // Steps that stand still leave less for the others; steps that double leave more.
        assert!(us(1_800_000, Some(300)) < us(1_800_000, Some(500)));
        assert!(us(1_800_000, Some(900)) > us(1_800_000, Some(500)));
    }

    #[test]
    fn work_that_is_done_lets_the_idle_board_rest_and_late_work_runs_fast() {
        let minute = work(100, 60_000);
        let aim = |now, done, is_idle| {
            let first = minute.wanted.first();
            minute.aim(first, now, Some(done), is_idle)
        };
        let at = |now| Milliseconds(500 + now);
        for done in [100, u64::MAX] {
            assert_eq!(aim(at(30_000), done, false), minute.wanted.first());
            assert_eq!(aim(at(30_000), done, true), Aim::REST);
        }
        for now in [60_000, 3_600_000, u64::MAX - 500] {
            assert_eq!(aim(at(now), 99, true), Aim::FASTEST);
            assert_eq!(minute.late(at(now), Some(99)), Some(1));
            assert_eq!(minute.late(at(now), Some(100)), None);
        }
        assert_eq!(minute.late(at(59_999), Some(99)), None);
        assert_eq!(minute.remaining(at(59_000)), Some(Milliseconds(1_000)));
    }

    #[test]
    fn steps_from_before_do_not_count() {
        let work = work(100, 60_000);
        assert_eq!(
            [39, 40, 41, 140].map(|told| work.done(told)),
            [0, 0, 1, 100]
        );
    }

    #[test]
    fn a_deadline_that_hardly_moves_is_the_same() {
        let aim = |us| Aim {
            objective: Objective::Power,
            deadline: Some(Microseconds(us)),
            ..Aim::FASTEST
        };
        assert!(is_near(&aim(1_009), &aim(1_000)));
        assert!(!is_near(&aim(1_020), &aim(1_000)));
        assert!(!is_near(&aim(1_000), &Aim::FASTEST));
        assert!(is_near(&aim(u32::MAX), &aim(u32::MAX)));
    }
}
