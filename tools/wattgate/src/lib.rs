//! The program `wattgate`: profiles a running workload in a few power modes of a Jetson.
//!
//! | topic | module |
//! |---|---|
//! | one mode after another, within a limit | [`session`], [`ladder`] |
//! | what a session works on | [`world`] |
//! | from counts and readings to time and power | [`window`] |
//! | which mode is next | [`planner`], [`co_process`], [`ender`] |
//! | the power sensor, over-current events | [`sensing`] |
//! | holding a limit | [`hold`] |
//! | what a model is transferred from | [`references`] |
//! | the board of a daemon that runs | [`lent`] |
//! | rows from normal operation | [`operation`] |
//! | what a model says of a board's modes | [`outlook`] |
//! | the corpus file, and rows for it while a limit is held | [`row`], [`scribe`] |
//! | the workload's process | [`process`] |
//! | its name, and the models by names | [`name`], [`models`] |
//! | where its counts come from | [`steps`] |
//! | command line | [`cli`] |
#![forbid(unsafe_code)]

pub mod board_files;
pub mod cli;
pub mod co_process;
pub mod deadline;
pub mod ender;
pub mod hold;
pub mod ladder;
pub mod lent;
pub mod models;
pub mod name;
pub mod operation;
pub mod outlook;
pub mod planner;
pub mod process;
pub mod references;
pub mod row;
pub mod scribe;
pub mod sensing;
pub mod session;
pub mod steps;
pub mod window;
pub mod world;
