//! What a user wants below a power limit: an objective, and perhaps a deadline for each step or for all steps.

use thiserror::Error;
use wattgate_runtime::idle::Idle;
use wattgate_runtime::{Aim, Microseconds, Milliseconds, Milliwatts, Objective};

/// The highest number of steps that an aim may have.
pub const MOST_STEPS: u64 = 1_000_000_000_000;

/// The part of the time that is kept in reserve, in permille: predictions err, and a change of the mode takes time.
const RESERVE: u64 = 5;

/// A deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Each step within this time.
    Step(Microseconds),
    /// This many steps within this time.
    Work { steps: u64, within: Milliseconds },
}

/// What is wanted below a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The quantity to minimise.
    pub objective: Objective,
    /// `None` without a deadline.
    pub by: Option<By>,
}

/// Why what was said makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum AimError {
    #[error(
        "the fastest mode has no use for a deadline; leave it out, or name the objective least-power, least-energy or least-edp"
    )]
    FastestDeadline,
    #[error("two deadlines, one for a step and one for all steps; give one of them")]
    TwoDeadlines,
    #[error(
        "a number of steps and the time for them need each other; give both, such as 50000 steps within 6h"
    )]
    HalfWork,
    #[error(
        "a number of epochs and the steps of an epoch need each other, in place of a number of steps; give both, such as 10 \
         epochs of 391 steps"
    )]
    Epochs,
    #[error("the number of steps is {0}, expected 1 to {MOST_STEPS}")]
    Steps(u64),
}

/// What was said of an aim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    pub objective: Option<Objective>,
    /// The longest time of a step.
    pub deadline: Option<Microseconds>,
    /// The number of steps, or in its place epochs and the steps of one.
    pub steps: Option<u64>,
    pub epochs: Option<u64>,
    pub steps_per_epoch: Option<u64>,
    /// The time within which they are to be done.
    pub within: Option<Milliseconds>,
}

impl Said {
    /// What is wanted; `None` if nothing was said. With a deadline the objective is the least power, unless it was said.
    pub fn wanted(&self) -> Result<Option<Wanted>, AimError> {
        if *self == Self::default() {
            return Ok(None);
        }
        let steps = match (self.steps, self.epochs, self.steps_per_epoch) {
            (steps, None, None) => steps,
            (None, Some(epochs), Some(steps)) => Some(epochs.saturating_mul(steps)),
            _ => return Err(AimError::Epochs),
        };
        let by = match (self.deadline, steps, self.within) {
            (None, None, None) => None,
            (Some(deadline), None, None) => Some(By::Step(deadline)),
            (None, Some(steps), Some(within)) => match (1..=MOST_STEPS).contains(&steps) {
                true => Some(By::Work { steps, within }),
                false => return Err(AimError::Steps(steps)),
            },
            (None, _, _) => return Err(AimError::HalfWork),
            (Some(_), _, _) => return Err(AimError::TwoDeadlines),
        };
        let default = by.map_or(Objective::Time, |_| Objective::Power);
        let objective = self.objective.unwrap_or(default);
        match by.is_some() && objective == Objective::Time {
            true => Err(AimError::FastestDeadline),
            false => Ok(Some(Wanted { objective, by })),
        }
    }
}

impl Wanted {
    /// The fastest mode, without a deadline.
    pub const FASTEST: Self = Self {
        objective: Objective::Time,
        by: None,
    };

    /// The idle power that counts until the deadline. After each step the board waits in the mode of the step. After all
    /// steps it rests in one mode, which draws `rest` under load. `idle` is what the model says.
    pub fn idle(self, idle: Option<Idle>, rest: Milliwatts) -> Idle {
        match (self.by, idle) {
            (Some(By::Work { .. }), Some(idle)) => idle.at(rest),
            (Some(By::Step(_)), Some(idle)) => idle,
            _ => Idle::NONE,
        }
    }

    /// The aim of a governor before any step is done.
    pub fn first(self) -> Aim {
        let deadline = self.by.map(|by| match by {
            By::Step(time) => time,
            By::Work { steps, within } => share(planned(within), steps),
        });
        Aim {
            objective: self.objective,
            deadline,
            ..Aim::FASTEST
        }
    }
}

/// The energy in J until the time for some steps is over: of the steps, and of the board that rests afterwards.
pub fn energy_until(
    within: Milliseconds,
    steps: u64,
    step: Microseconds,
    power: Milliwatts,
    rest: Milliwatts,
) -> f64 {
    let watts = |power: Milliwatts| f64::from(power.0) / 1e3;
    let work_s = steps as f64 * f64::from(step.0) / 1e6;
    let rest_s = (within.0 as f64 / 1e3 - work_s).max(0.0);
    watts(power) * work_s + watts(rest) * rest_s
}

/// The time for all steps, less the reserve.
pub fn planned(within: Milliseconds) -> Milliseconds {
    Milliseconds(within.0 - within.0 / 1_000 * RESERVE)
}

/// The time for each of the steps that are left: the time that is left, less the reserve, divided by their number.
pub fn share(left: Milliseconds, steps: u64) -> Microseconds {
    let us = planned(left).0.saturating_mul(1_000) / steps.max(1);
    Microseconds(u32::try_from(us).unwrap_or(u32::MAX).max(1))
}

/// Parses the name of an objective; the error says what is expected.
pub fn objective(text: &str) -> Result<Objective, String> {
    let known = Objective::ALL.into_iter().find(|it| it.name() == text);
    known.ok_or_else(|| {
        let [fastest, power, energy, edp] = Objective::ALL.map(Objective::name);
        format!("expected {fastest}, {power}, {energy} or {edp}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_that_of_the_steps_and_of_the_rest() {
        let energy = |within| {
            let (step, power, rest) =
                (Microseconds(500_000), Milliwatts(10_000), Milliwatts(2_000));
            energy_until(Milliseconds(within), 100, step, power, rest)
        };
        assert_eq!(energy(80_000), 10.0 * 50.0 + 2.0 * 30.0);
        // Late work leaves no time for rest.
        assert_eq!(energy(10_000), 10.0 * 50.0);
    }

    #[test]
    fn without_a_deadline_no_idle_power_counts() {
        let model = Idle {
            base: Milliwatts(1_000),
            share: 1 << 15,
        };
        let idle_for = |by| {
            let objective = Objective::Energy;
            Wanted { objective, by }.idle(Some(model), Milliwatts(4_000))
        };
        assert_eq!(idle_for(None), Idle::NONE);
        assert_eq!(idle_for(Some(By::Step(Microseconds(1)))), model);
        let (steps, within) = (1, Milliseconds(60_000));
        let rests = idle_for(Some(By::Work { steps, within }));
        assert_eq!(rests.power(Milliwatts(50_000)), Milliwatts(3_000));
    }

    const SAID: Said = Said {
        objective: Some(Objective::Power),
        deadline: None,
        steps: None,
        epochs: None,
        steps_per_epoch: None,
        within: None,
    };

    #[test]
    fn names_are_those_of_the_objectives() {
        for known in Objective::ALL {
            assert_eq!(objective(known.name()), Ok(known));
        }
        assert!(objective("energy").is_err_and(|it| it.starts_with("expected fastest, ")));
    }

    #[test]
    fn epochs_are_steps() {
        let said = Said {
            epochs: Some(10),
            steps_per_epoch: Some(391),
            within: Some(Milliseconds(60_000)),
            ..SAID
        };
        let steps = Said {
            steps: Some(3_910),
            epochs: None,
            steps_per_epoch: None,
            ..said
        };
        assert_eq!(said.wanted(), steps.wanted());
        let objective = Objective::Power;
        let (steps, within) = (3_910, Milliseconds(60_000));
        let by = Some(By::Work { steps, within });
        assert_eq!(said.wanted(), Ok(Some(Wanted { objective, by })));
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let time = Some(Milliseconds(60_000));
        for (said, error) in [
            (
                Said {
                    epochs: Some(1),
                    within: time,
                    ..SAID
                },
                AimError::Epochs,
            ),
            (
                Said {
                    steps_per_epoch: Some(1),
                    ..SAID
                },
                AimError::Epochs,
            ),
            (
                Said {
                    steps: Some(1),
                    epochs: Some(1),
                    steps_per_epoch: Some(1),
                    ..SAID
                },
                AimError::Epochs,
            ),
            (
                Said {
                    steps: Some(1),
                    ..SAID
                },
                AimError::HalfWork,
            ),
            (
                Said {
                    within: time,
                    ..SAID
                },
                AimError::HalfWork,
            ),
            (
                Said {
                    steps: Some(0),
                    within: time,
                    ..SAID
                },
                AimError::Steps(0),
            ),
            (
                Said {
                    epochs: Some(u64::MAX),
                    steps_per_epoch: Some(2),
                    within: time,
                    ..SAID
                },
                AimError::Steps(u64::MAX),
            ),
            (
                Said {
                    deadline: Some(Microseconds(1)),
                    within: time,
                    ..SAID
                },
                AimError::TwoDeadlines,
            ),
            (
                Said {
                    objective: Some(Objective::Time),
                    deadline: Some(Microseconds(1)),
                    ..SAID
                },
                AimError::FastestDeadline,
            ),
        ] {
            assert_eq!(said.wanted(), Err(error), "{said:?}");
        }
        assert_eq!(Said::default().wanted(), Ok(None));
        let alone = Said {
            deadline: Some(Microseconds(1)),
            ..Said::default()
        };
        let wanted = alone.wanted().expect("an aim").expect("some");
        assert_eq!(wanted.objective, Objective::Power);
    }

    #[test]
    fn deadlines_of_any_size_are_times() {
        for (steps, within) in [(1, 864_000_000), (MOST_STEPS, 60_000), (u64::MAX, u64::MAX)] {
            let time = share(Milliseconds(within), steps);
            assert!(time.0 > 0, "{steps} {within}");
        }
        assert_eq!(share(Milliseconds(1_000), 100), Microseconds(9_950));
    }
}
