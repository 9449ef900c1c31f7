//! The watchdog `wattgated`: keeps a board under a power limit while its work runs as fast as
//! that limit allows.
//!
//! ```text
//! config ──► Setup: model ∩ board ──► front ──► Control: sample → governor → mode
//! ```
//!
//! | question | module |
//! |---|---|
//! | what the user wants | [`config`] |
//! | which modes there are to choose from | [`setup`], [`modules`] |
//! | one look at the board, without a clock or a disk of its own | [`control`] |
//! | what changes while it runs: the limit, the model | [`daemon`], [`schedule`] |
//! | what clients and Prometheus are told | [`report`], [`tally`], [`serve`] |
//! | who resets a board whose daemon hangs | [`hardware`] |
//! | what was set before | [`prior`] |
//! | what a crash leaves for `once --safe` | [`safe`] |
//! | one daemon for each board | [`lock`] |
//! | what is said, and to whom | [`log`], [`notify`] |
#![forbid(unsafe_code)]

pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod daemon;
pub mod durable;
pub mod group;
pub mod hardware;
pub mod lock;
pub mod log;
pub mod modules;
pub mod notify;
pub mod prior;
pub mod quantity;
pub mod report;
pub mod safe;
pub mod schedule;
pub mod serve;
pub mod setup;
pub mod tally;
