//! Chooses the power mode of an NVIDIA Jetson under a power limit.
//!
//! A model file, written by the trainer, predicts time and power of a workload for every
//! power mode of a board. This crate verifies the file, predicts all modes, keeps the
//! Pareto front and answers queries, without a heap, without panics, and with the same
//! bits on every target.
//!
//! ```
//! use wattgate_runtime::{Front, Milliwatts, Model, Query};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/tx1-image5000.wgt"));
//! let model = Model::parse(file)?;
//! let front = Front::<256>::of(&model, &model.profiled());
//! let query = Query { power_limit: Some(Milliwatts(5_000)), ..Query::default() };
//! let choice = front.select(&query)?;
//! assert!(choice.guarded_power <= query.power_limit);
//! println!("{}", model.grid().mode(choice.mode).unwrap());
//! # Ok(())
//! # }
//! ```
//!
//! | step | module |
//! |---|---|
//! | bytes → verified model | [`format`](Model) |
//! | modes, grid, constraints | [`Grid`], [`Region`] |
//! | features and layers, all modes at once | [`Workspace`], [`Network`] |
//! | front | [`Front`] |
//! | query, guard band → mode | [`Query`], [`GuardBand`] |
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
mod estimator;
mod exponential;
mod format;
mod front;
mod governor;
mod grid;
mod guard;
mod lanes;
mod leaps;
mod model;
mod network;
mod point;
mod region;
mod select;
mod shape;
mod units;

pub use crc::{Crc32, crc32};
pub use estimator::{Chip, Estimate, Estimator, MOST_CHIPS, Sample};
pub use format::{
    Body, FEATURE_MAP, FormatError, HEADER_LEN, Header, Kind, MAGIC, Provenance, SCALE_RANGE,
    VERSION,
};
pub use front::{Front, Point};
pub use governor::{
    Average, Budget, Cause, Command, Governor, GovernorError, Input, Limit, Settings, State,
    Status, UP_EVERY, UPS,
};
pub use grid::{Axes, Axis, Grid, GridError, MAX_AXIS_VALUES, MAX_MODES, ModeId, PowerMode};
pub use guard::{GuardBand, GuardError, Knot, MAX_KNOTS};
pub use model::{Model, Prediction};
pub use network::{
    AxisFeatures, Network, ROW_LIMIT, ROW_SCALE_ONE, Workspace, WorkspaceTooSmall, workspace_pairs,
};
pub use region::{ConstraintError, Region};
pub use select::{Choice, Objective, Query, SelectError};
pub use shape::{BIAS_LIMIT, FEATURES, INPUTS, Shape, Widths};
pub use units::{
    Confidence, Correction, Factor, Kilohertz, Microseconds, Milliseconds, Milliwatts,
};
