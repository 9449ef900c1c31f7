//! Shared code of wattgate's command-line programs.
//!
//! | topic | module |
//! |---|---|
//! | exit codes and error output | [`exit`] |
//! | atomic output files | [`output`] |
//! | parsing of powers, times and frequencies | [`quantity`] |
//! | how a workload reports its steps | [`steps`] |
#![forbid(unsafe_code)]

pub mod exit;
pub mod output;
pub mod quantity;
pub mod steps;
