//! The governor holds a power limit: it chooses among the modes of a front, measures and corrects.
//!
//! # Theory of operation
//!
//! A governor is a pure state machine. Its caller calls [`Governor::step`] with the time and the
//! observations of the board, carries out the [`Command`], and reports the mode read back in the
//! next step. A governor needs no clock, no heap and no memory but its own.
//!
//! ```text
//! readings ─► estimator ─► power now, means ─► policy ─► mode ─► actuator ─► board
//!                              │                 ▲                             │
//!                              └──► knowledge ───┘          read-back ◄────────┘
//! ```
//!
//! **What is known** is in four places, by what it belongs to:
//!
//! | part | what | until |
//! |---|---|---|
//! | `Knowledge` | the modes: predictions, errors, which may be chosen | another front |
//! | `Load` | the load: its levels, noise, bursts, and how busy the board is | a front of another workload |
//! | `Sensor` | the estimate, the energy, and whether the readings are live | a gap, a blind sensor, another front or program; the energy stays |
//! | `Stay` | the stay in a mode: when it was requested and set, what was measured in it | another request |
//!
//! **Estimator** ([`Estimator`](crate::estimator::Estimator)). The power sensor is a low-pass. The estimator
//! inverts it. It estimates the power now with its standard deviation, the time of the last step, and
//! the mean power of any time span.
//!
//! **Knowledge** (`knowledge.rs`, `observe.rs`, `memory.rs`, `noise.rs`, `steps.rs`). The power
//! of a mode is *prediction × error of the mode × level of the load*. The error is estimated from
//! the powers before and after a mode change under a steady load. The level is the highest mean over
//! the window, with a burst that was cut short counted as if it had not been. It is remembered through
//! pauses, and expires only by time of work; a level that has expired may still return. The governor
//! learns nothing while the board is idle or throttled, across a step of the load, or from what another
//! program's mode drew.
//!
//! **Policy** (`policy.rs`, `over.rs`, `fit.rs`, `explore.rs`). The limit applies to the mean over
//! the [window](Settings::window), ripple included. `over.rs` tests whether the power now, or the mean, is
//! over, and computes what the window leaves for the next mode. The governor probes a faster mode when
//! that mode fits with the margin of the ripple and of the doubt about a mode that is not measured, and
//! when a level that may return could still be answered in time. Steps up are bounded (`FIRST_CLIMB`,
//! `CLIMB`) and rationed by a token bucket ([`STEPS_UP`], [`STEP_UP_REFILL`]). Before the first measurement the
//! model decides, with its guard band: [`Governor::first`]. If a wide guard
//! band rules out all faster modes, the governor measures a few slower ones (`explore.rs`).
//!
//! **Aim** (`aim.rs`). An [`Aim`] of less power or energy, with or without a deadline, makes the policy stop at a
//! slower mode than the fastest that fits. The limit comes first.
//!
//! **Actuator** (`actuator.rs`). A mode is set when the caller reads it back. The governor waits
//! `READ_BACK_TIMEOUT` for it, asks again, and after `TRIES` requests avoids the mode for
//! `BACK_OFF`. After `TRIES` modes in a row have failed, the modes are tried one by one, from the least power on, once a
//! second. When
//! another program changes the mode, the governor sets its own at once.
//!
//! **Liveness** (`liveness.rs`). The sensor is blind when its reads fail or are implausible for 1.7 s,
//! or when a main chip shows no change within 1.5 s of a change of the mode or of the GPU's load. The
//! governor then sets the mode of least known power. An idle board may show the same reading for ever.
//! On any other board, the governor sets a slower mode when the readings have not changed for 30 s: a live
//! sensor shows that.
//!
//! **Time** (`clock.rs`). The governor has a time of its own. When the caller's clock steps back, or
//! forward by more than a day, nobody knows how much time has passed: the governor begins again, and counts
//! this ([`Status::gaps`]). If two such gaps, or sleeps, follow each other before a mean is measured, it sets the mode
//! of least power until one is.
//!
//! | from | to | when |
//! |---|---|---|
//! | Booting | Settling | the mode is read back |
//! | Settling, ProbingUp, SteppingDown | Tracking | the board works, the mode is measured for the window, and its error is estimated or cannot be |
//! | Tracking | Settling | another program had changed the mode |
//! | Tracking | ProbingUp | a faster mode fits |
//! | Tracking | SteppingDown | a wide guard band rules out all faster modes: the governor explores a slower one |
//! | Tracking | SteppingDown | the aim is reached with less in a slower mode |
//! | any | SteppingDown | the power is over the limit, the mode no longer fits, or it was excluded or cannot be set |
//! | Tracking | SteppingDown | the readings have not changed for long: the governor tests the sensor with a slower mode |
//! | any | Safe(NoSensor) | the sensor is blind |
//! | Safe(NoSensor) | Settling | its readings change again |
//! | Settling, Tracking, ProbingUp, SteppingDown | Safe(CannotHold) | the mean exceeds the limit in the mode of least power, and in the few similar ones that were tried |
//! | Safe(CannotHold) | Tracking | the mode of least power fits |
//! | any | Safe(NothingApplies) | no mode can be set or chosen |
//! | Safe(NothingApplies) | Settling | the mode is read back |
//! | any | Booting | the caller made no step for longer than 5 s, set its clock, set another front, or called [`Governor::release`] |
//!
//! `tests/it/governor/states.rs` has a test for each transition, and checks that no other one occurs.
//! `CONSTANTS.md` gives the source of each constant.

mod actuator;
mod aim;
mod allowance;
mod clock;
mod explore;
mod fit;
mod interface;
mod knowledge;
mod liveness;
mod load;
mod machine;
mod memory;
mod noise;
mod observe;
mod over;
mod policy;
mod pursuit;
mod sensor;
mod stay;
mod steps;
mod supply;

pub use clock::LONGEST_GAP;
pub use interface::{
    Average, Budget, Cause, Command, GovernorError, Input, Limit, ReadBack, Settings, State,
    Status, WINDOW,
};
pub use machine::{Governor, STEP_UP_REFILL, STEPS_UP};
pub use pursuit::Aim;
pub use supply::Supply;
