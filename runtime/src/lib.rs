//! Chooses the power mode of an NVIDIA Jetson under a power limit.
//!
//! A model file, written by the trainer, predicts time and power of a workload for every
//! power mode of a board. This crate verifies the file, predicts all modes, keeps the
//! Pareto front, answers queries, and holds a limit on a running board by measuring its power. It
//! does so without a heap, without panics, and with the same bits on every target.
//!
//! ```text
//!  model file ──► format ──► model ──► network ──► front ──► select ──► a mode for a query
//!   (bytes)       verify     grid,     predict     Pareto    objective,
//!                            region    all modes   front     limits, guard band
//!                                                    │
//!                                                    ▼
//!  power sensor ──► estimator ──────────────────► governor ──► a mode for now
//!   (readings)      undo the lag                  hold the limit    │
//!        ▲                                                          ▼
//!        └─────────────────────────── board ◄───────────────────────┘
//! ```
//!
//! The example asks for the fastest mode below 5 W, and then lets a governor hold 5 W. Its model
//! file is a copy of `weights/tx1-image5000.wgt`, trained on a Jetson TX1 that classified images.
//!
//! ```
//! use wattgate_runtime::{
//!     Command, Confidence, Front, Governor, Input, Limit, Milliseconds, Milliwatts, Model, Query, Sample,
//!     Settings,
//! };
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/tx1-image5000.wgt"));
//! let model = Model::parse(file)?;
//! let front = Front::<256>::from_model(&model, &model.profiled(), Confidence::P95);
//! let query = Query { power_limit: Some(Milliwatts(5_000)), ..Query::default() };
//! let choice = front.select(&query)?;
//! assert!(choice.guarded_power <= query.power_limit);
//! println!("{}", model.grid().mode(choice.mode).unwrap());
//!
//! let mut governor = Governor::new(Settings::L4T, Limit::from_power(Milliwatts(5_000)));
//! governor.set_front(&front)?;
//! let mut input = Input::at(Milliseconds(0));
//! input.sample = Some(Sample::one(Milliwatts(3_000)));
//! let command = governor.step(&input);
//! assert!(matches!(command, Command::Apply(_)));
//! # Ok(())
//! # }
//! ```
//!
//! | step | module |
//! |---|---|
//! | bytes → verified model | [`format`](mod@format), [`model`] |
//! | modes, grid, constraints | [`grid`], [`region`] |
//! | features and layers, all modes at once | [`shape`], [`network`] |
//! | front | [`front`] |
//! | query, guard band → mode | [`select`], [`guard`] |
//! | differences between units of a board | [`fleet`] |
//! | power of a board that waits | [`idle`] |
//! | readings → power now | [`estimator`] |
//! | limit, power now → mode | [`governor`] |
//! | physical quantities | [`quantities`] |
#![no_std]
#![deny(
    missing_docs,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unreachable,
    clippy::unwrap_used
)]

mod crc;
pub mod estimator;
mod exponential;
pub mod fleet;
mod float;
pub mod format;
pub mod front;
pub mod governor;
pub mod grid;
pub mod guard;
pub mod idle;
mod lanes;
mod list;
mod measured;
pub mod model;
pub mod network;
mod point;
mod prediction;
pub mod quantities;
pub mod region;
pub mod select;
pub mod shape;
mod skip_pointers;

pub use estimator::Sample;
pub use format::FormatError;
pub use front::Front;
pub use governor::{Aim, Command, Governor, GovernorError, Input, Limit, Settings, Status};
pub use grid::{ModeId, PowerMode};
pub use model::Model;
pub use quantities::{Confidence, Kilohertz, Microseconds, Milliseconds, Milliwatts};
pub use region::Region;
pub use select::{Choice, Objective, Query, SelectError};
