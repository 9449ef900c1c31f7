//! Shared code of wattgate's command-line programs.
//!
//! | topic | module |
//! |---|---|
//! | exit codes and error output | [`exit`] |
//! | atomic output files | [`output`] |
//! | parsing of powers, times and frequencies | [`quantity`] |
#![forbid(unsafe_code)]

pub mod exit;
pub mod output;
pub mod quantity;
