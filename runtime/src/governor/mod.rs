//! The governor: holds a power limit by choosing among the modes of a front, measuring, and
//! correcting.
//!
//! # Theory of operation
//!
//! A governor is a pure state machine. Its caller calls [`Governor::step`] with the time and what is
//! known of the board, carries out the [`Command`], and says in the next step which mode the board
//! is in. Nothing else is assumed: no clock, no memory but its own, no heap.
//!
//! ```text
//! readings ─► estimator ─► power now, mean of 430 ms ─► policy ─► mode ─► actuator ─► board
//!                              │                          ▲                            │
//!                              └─────► knowledge ─────────┘          read-back ◄───────┘
//! ```
//!
//! **Estimator** ([`Estimator`](crate::Estimator)). The power sensor is a low-pass with a time constant of 430 ms. The
//! estimator undoes it: it tells the power now with its deviation, since when the power is at this
//! level, and the mean power of any time span.
//!
//! **Knowledge** (`observation.rs`, `knowledge.rs`, `memory.rs`, `noise.rs`, `steps.rs`). The power of a mode is
//! *prediction × error of the mode × level of the load*. The error is told from the powers before and
//! after a change of the mode under a steady load. The level is that of the workload's highest phase: it
//! is remembered, because a pause is no slack, and forgotten only by time of work. Nothing is learned
//! from a board that does not work, from a reading that is missing, or from a time with a step in it.
//! A mode that is over the limit as soon as it is set is blamed itself and held off. Modes that were not
//! measured are taken to be like their neighbours; an outlier counts for them as soon as a second one
//! agrees with it.
//!
//! **Policy** (`policy.rs`, `fit.rs`). The limit holds for the mean of 430 ms, ripple included, so that the
//! highest phase has to stay `PEAK_DEVIATIONS` of such means below it. A faster mode is tried when
//! it fits with that margin and with the doubt about a mode that was not measured; a step
//! up is bounded (`FIRST_CLIMB`, `CLIMB`) and rationed ([`UPS`], [`UP_EVERY`]). A rise over the limit is
//! answered at the first estimate beyond noise, by one step down that is sized by it. Jumps that
//! prove too short to lift the mean of 430 ms over the limit are remembered and left alone. Before
//! anything was measured the model decides, with its guard band: `once` and the governor begin with
//! the same mode.
//!
//! **Actuator** (`actuator.rs`). A mode is set when the caller reads it back. Otherwise the governor asks
//! `RETRIES` times more, and then avoids the mode for `LEFT_OUT`. When `MODES_TRIED` modes in a row
//! fail, no mode can be set. When another program changes the mode, the governor sets its own at once.
//!
//! **Not knowing** (`liveness.rs`). The sensor is blind when reads fail or make no sense for 1.7 s, or
//! when a change of the mode or of the GPU's load does not show within 1.5 s. Then the mode that draws
//! least, as far as is known, is set. Where a busy board's readings stand still for 30 s, a slower mode
//! tries the sensor.
//!
//! | from | to | when |
//! |---|---|---|
//! | Booting | Settling | the mode is read back |
//! | Settling, ProbingUp, SteppingDown | Tracking | 430 ms of the mode are measured, and its error is told or cannot be |
//! | Tracking | Settling | somebody else had changed the mode |
//! | Tracking | ProbingUp | a faster mode fits |
//! | any but Safe | SteppingDown | the power is over the limit, the mode no longer fits, or it was excluded or cannot be set |
//! | Tracking | SteppingDown | a busy board's readings stood still: a slower mode tries the sensor |
//! | any | Safe(NoSensor) | the sensor is blind |
//! | Safe(NoSensor) | Settling | it moves again |
//! | Tracking, SteppingDown | Safe(LimitTooLow) | the least mode does not fit, and a few of the least were tried |
//! | Safe(LimitTooLow) | Tracking | the least mode fits |
//! | any | Safe(NothingApplies) | no mode can be set or chosen |
//! | Safe(NothingApplies) | Settling | the mode is read back |
//! | any | Booting | no step for longer than 5 s, or another front |
//!
//! `tests/governor` has a test for each: most are in `states.rs`. `CONSTANTS.md` says where each constant
//! comes from.

mod actuator;
mod allowance;
mod fit;
mod interface;
mod knowledge;
mod liveness;
mod machine;
mod memory;
mod noise;
mod observation;
mod policy;
mod steps;

pub use interface::{
    Average, Budget, Cause, Command, GovernorError, Input, Limit, Settings, State, Status,
};
pub use machine::{Governor, LONGEST_GAP, UP_EVERY, UPS};
