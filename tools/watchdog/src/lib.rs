//! The daemon `wattgated`: keeps a board under a power limit while its workload runs as fast as
//! the limit allows.
//!
//! ```text
//! config ──► Setup: model ∩ board ──► front ──► Control: sample → governor → mode
//! ```
//!
//! | topic | module |
//! |---|---|
//! | config file, its quantities and its schedule | [`config`], [`quantity`], [`schedule`] |
//! | from config and model to the front of modes | [`setup`], [`compatibility`] |
//! | what is known without a model | [`generic`], [`thinning`], [`distrust`] |
//! | one control cycle; sensors that do not answer | [`control`], [`deadline`] |
//! | what a daemon that writes nothing would set; its record | [`observer`], [`record`] |
//! | the supply that limits may be of, and its meter | [`supply`], [`meter`] |
//! | limits and models that change at run time | [`daemon`] |
//! | status for clients and Prometheus | [`report`], [`headline`], [`counters`], [`serve`] |
//! | which limit holds, and who set it; saved | [`limits`], [`saver`] |
//! | saved state: written at the start, for `wattgated restore` | [`saved_state`], [`boot`], [`mod@replace`] |
//! | one daemon per board | [`lock`] |
//! | client of the socket | [`client`] |
//! | steps of workloads | [`steps`] |
//! | hardware watchdog timer | [`hardware_watchdog`] |
//! | log lines, notifications to systemd | [`log`], [`sd_notify`] |
//! | clocks; Unix groups; who typed `sudo` | [`clock`], [`group`], [`sudo_user`] |
//! | command line and process | [`cli`] |
#![forbid(unsafe_code)]

pub mod aim;
pub mod boot;
pub mod cli;
pub mod client;
pub mod clock;
pub mod compatibility;
pub mod config;
pub mod control;
pub mod counters;
pub mod daemon;
pub mod deadline;
pub mod distrust;
pub mod full_load;
pub mod generic;
pub mod group;
pub mod hardware_watchdog;
pub mod headline;
pub mod lesson;
pub mod limits;
pub mod lock;
pub mod log;
pub mod meter;
pub mod observer;
pub mod quantity;
pub mod record;
pub mod replace;
pub mod report;
pub mod saved_state;
pub mod saver;
pub mod schedule;
pub mod sd_notify;
pub mod serve;
pub mod setup;
pub mod steps;
pub mod sudo_user;
pub mod supply;
pub mod thinning;
pub mod unit;
