//! Faults and events, asked for in a small language of lines.
//!
//! ```text
#![doc = include_str!("../control.txt")]
//! ```
//!
//! A command that cannot be obeyed is a [`ControlError`]. All commands, later ones included, are
//! reported in [`Tree::log`](super::Tree::log).

mod command;
mod error;
mod obey;
mod parse;

pub(super) use command::{Line, Order};
pub use error::ControlError;

/// The language, for `board --help`.
pub const HELP: &str = include_str!("../control.txt");
