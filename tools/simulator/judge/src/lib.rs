//! Governors beside each other on simulated boards, and oracles that know the true power.
//!
//! Modules from the bottom to the top; a module imports only from those above it in this table:
//!
//! | question | module |
//! |---|---|
//! | the settings of the power sensor | `sensor`: [`Sensor`], [`SENSORS`] |
//! | the limits, model and sensor that a holder knows | `course`: [`Course`] |
//! | who holds the limit, and what may happen to the holder | `holder`: [`Holder`], [`Incident`] |
//! | loads, traces and calls in files | [`files`] |
//! | the boards that have a model | [`models`] |
//! | median and worst over seeds | `spread`: [`Spread`] |
//! | jobs on all cores | `parallel` |
//! | random numbers | `random` |
//! | a simulated board, with its true energy at every tick | [`recorded`] |
//! | how each holder works: the daemon's control and its peers | [`holders`] |
//! | limits that step, faults, restarts, in simulated and in real time | [`scenario`] |
//! | loads from files and built-in ones | [`replay`] |
//! | what was learned and measured, beside the truth | [`judge`] |
//! | units of a board that a model was not made of | [`fleet`] |
//! | random deadlines | [`deadlines`] |
//! | pinned and capped clocks | [`capped`] |
//! | recorded power over time beside the loads | [`dynamics`] |
//! | the physics beside measured corpora | [`physics`] |
//!
//! A *holder* keeps the board under the limit: the daemon `wattgated`, or one of its peers. The
//! command line calls it a governor. The limit applies to the true power averaged over
//! [`LIMIT_WINDOW`], whatever the time constant of the sensor is.
#![forbid(unsafe_code)]

pub mod capped;
mod course;
pub mod deadlines;
pub mod dynamics;
pub mod files;
pub mod fleet;
mod holder;
pub mod holders;
pub mod judge;
pub mod models;
pub mod parallel;
pub mod physics;
mod random;
pub mod recorded;
pub mod replay;
pub mod scenario;
mod sensor;
mod spread;

pub use course::{Course, LIMIT_WINDOW};
pub use holder::{Holder, Incident};
pub use sensor::{SENSORS, Sensor};
pub use spread::{Spread, Worst};
