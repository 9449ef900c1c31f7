//! The daemon `wattgated`: keeps a board under a power limit while its workload runs as fast as
//! the limit allows.
//!
//! ```text
//! config ──► Setup: model ∩ board ──► front ──► Control: sample → governor → mode
//! ```
//!
//! | question | module |
//! |---|---|
//! | what the user wants | [`config`] |
//! | which modes there are to choose from | [`setup`], [`compatibility`] |
//! | one look at the board, without a clock or a disk of its own | [`control`] |
//! | what changes while it runs: the limit, the model | [`daemon`], [`schedule`] |
//! | what clients and Prometheus are told | [`report`], [`counters`], [`serve`] |
//! | who resets a board whose daemon hangs | [`hardware_watchdog`] |
//! | what was set before | [`prior`] |
//! | what a crash leaves for `once --safe` | [`safe_mode`] |
//! | one daemon for each board | [`lock`] |
//! | what is said, and to whom | [`log`], [`sd_notify`] |
#![forbid(unsafe_code)]

pub mod atomic_file;
pub mod cli;
pub mod clock;
pub mod compatibility;
pub mod config;
pub mod control;
pub mod counters;
pub mod daemon;
pub mod group;
pub mod hardware_watchdog;
pub mod lock;
pub mod log;
pub mod prior;
pub mod quantity;
pub mod report;
pub mod safe_mode;
pub mod schedule;
pub mod sd_notify;
pub mod serve;
pub mod setup;
