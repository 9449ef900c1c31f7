//! Shared code of wattgate's command-line programs.
//!
//! | topic | module |
//! |---|---|
//! | what is wanted below a limit | [`aim`] |
//! | arguments: messages, numbers, repetition | [`arguments`] |
//! | bytes as text in JSON | [`base64`] |
//! | delimited text: dialects, columns, fields (feature `delimited`) | [`delimited`] |
//! | exit codes and error output | [`exit`] |
//! | a power mode in JSON | [`json`] |
//! | the nearest of some names | [`nearest`] |
//! | what to do about a defective model | [`model`] |
//! | atomic output files | [`output`] |
//! | `--version`, `help`, `completions` and the commands of a program | [`program`] |
//! | long computations in shards (feature `shards`) | [`shard`] |
//! | units of measure; parsing of powers, times and frequencies | [`quantity`] |
//! | how a planner is asked for modes and told of measurements | [`planning`] |
//! | how a workload reports its steps | [`steps`] |
#![forbid(unsafe_code)]

pub mod aim;
pub mod arguments;
pub mod base64;
#[cfg(feature = "delimited")]
pub mod delimited;
pub mod exit;
pub mod json;
pub mod model;
pub mod nearest;
pub mod output;
pub mod planning;
pub mod program;
pub mod quantity;
#[cfg(feature = "shards")]
pub mod shard;
pub mod steps;
