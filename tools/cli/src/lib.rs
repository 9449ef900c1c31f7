//! What the command lines of wattgate share.
//!
//! | question | module |
//! |---|---|
//! | how a program ends, with which exit code | [`exit`] |
//! | a file that is written whole or not at all | [`output`] |
//! | powers, times and clocks as people write them | [`quantity`] |
#![forbid(unsafe_code)]

pub mod exit;
pub mod output;
pub mod quantity;
