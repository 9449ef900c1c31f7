//! The governor holds a power limit: it chooses among the modes of a front, measures and corrects.
//!
//! # Theory of operation
//!
//! A governor is a pure state machine. Its caller calls [`Governor::step`] with the time and the
//! observations of the board, carries out the [`Command`], and reports the mode read back in the
//! next step. A governor needs no clock, no heap and no memory but its own.
//!
//! ```text
//! readings ─► estimator ─► power now, mean of 430 ms ─► policy ─► mode ─► actuator ─► board
//!                              │                          ▲                            │
//!                              └─────► knowledge ─────────┘          read-back ◄───────┘
//! ```
//!
//! **Estimator** ([`Estimator`](crate::Estimator)). The power sensor is a low-pass with a time
//! constant of 430 ms. The estimator inverts it. It estimates the power now with its standard
//! deviation, the time of the last step, and the mean power of any time span.
//!
//! **Knowledge** (`observation.rs`, `knowledge.rs`, `memory.rs`, `noise.rs`, `steps.rs`). The power
//! of a mode is *prediction × error of the mode × level of the load*. The error is estimated from
//! the powers before and after a mode change under a steady load. The level is that of the
//! workload's highest phase. It is remembered through pauses, and expires only by time of work. The
//! governor learns nothing while the board is idle or throttled, from a missing reading, or across a
//! step of the load. It does not step up while the board is throttled: when the throttling ends, the
//! mode draws its full power again. A mode that exceeds the limit as soon as it is set is held off. The error of a mode that
//! is not measured is interpolated from its neighbours; an outlier counts as a neighbour once a
//! second one agrees with it.
//!
//! **Policy** (`policy.rs`, `fit.rs`, `explore.rs`). The limit applies to the mean of 430 ms, ripple
//! included, so the highest phase must stay `PEAK_DEVIATIONS` standard deviations of such means below it. The
//! governor probes a faster mode when that mode fits with this margin and with the doubt about a
//! mode that is not measured. Steps up are bounded (`FIRST_CLIMB`, `CLIMB`) and rationed by a token
//! bucket ([`UPS`], [`UP_EVERY`]). At the first estimate that exceeds the limit beyond noise, the
//! governor takes one step down, sized by the estimate. It remembers and ignores jumps that are too
//! short to lift the mean of 430 ms over the limit. Before the first measurement the model decides,
//! with its guard band: `once` and the governor begin with the same mode. If a wide guard band rules
//! out all faster modes, the governor measures a few slower ones (`explore.rs`). If the model proves
//! accurate there, the margins shrink.
//!
//! **Actuator** (`actuator.rs`). A mode is set when the caller reads it back. Otherwise the
//! governor retries `RETRIES` times, and then avoids the mode for `FAILURE_BACK_OFF`. After
//! `MOST_FAILED_MODES` modes in a row have failed, no mode can be set. When another program changes
//! the mode, the governor sets its own at once.
//!
//! **Liveness** (`liveness.rs`). The sensor is blind when reads fail or are implausible for 1.7 s,
//! or when a change of the mode or of the GPU's load does not show within 1.5 s. The governor then
//! sets the mode of least known power. When the readings of a busy board stand still for 30 s, the
//! governor probes the sensor with a slower mode.
//!
//! | from | to | when |
//! |---|---|---|
//! | Booting | Settling | the mode is read back |
//! | Settling, ProbingUp, SteppingDown | Tracking | the mode is measured for 430 ms, and its error is estimated or cannot be |
//! | Tracking | Settling | another program had changed the mode |
//! | Tracking | ProbingUp | a faster mode fits |
//! | Tracking | SteppingDown | a wide guard band rules out all faster modes: the governor explores a slower one |
//! | any but Safe | SteppingDown | the power is over the limit, the mode no longer fits, or it was excluded or cannot be set |
//! | Tracking | SteppingDown | a busy board's readings stood still: a slower mode probes the sensor |
//! | any | Safe(NoSensor) | the sensor is blind |
//! | Safe(NoSensor) | Settling | its readings change again |
//! | Tracking, SteppingDown | Safe(CannotHold) | the mode of least power does not fit, nor do the few similar ones that were tried |
//! | Safe(CannotHold) | Tracking | the mode of least power fits |
//! | any | Safe(NothingApplies) | no mode can be set or chosen |
//! | Safe(NothingApplies) | Settling | the mode is read back |
//! | any | Booting | no step for longer than 5 s, another front, or [`Governor::release`] |
//!
//! `tests/it/governor` has a test for each transition, most of them in `states.rs`. `CONSTANTS.md`
//! gives the source of each constant.

mod actuator;
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
mod sensor;
mod stay;
mod steps;

pub use clock::LONGEST_GAP;
pub use interface::{
    Average, Budget, Cause, Command, GovernorError, Input, Limit, Settings, State, Status, WINDOW,
};
pub use machine::{Governor, UP_EVERY, UPS};
