//! The control language: text commands that inject faults and events, one per line.
//!
//! ```text
#![doc = include_str!("../control.txt")]
//! ```
//!
//! A command that cannot be executed returns a [`ControlError`]. All commands, including those
//! scheduled with `at`, are reported in [`Tree::log`](super::Tree::log).

mod command;
mod error;
mod obey;
mod parse;

pub(super) use command::{Line, Order};
pub use error::ControlError;

/// Reference of the control language, for `board --help`.
pub const HELP: &str = include_str!("../control.txt");
