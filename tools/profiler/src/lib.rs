//! The program `wattgate`: profiles a running workload in a few power modes of a Jetson.
//!
//! | topic | module |
//! |---|---|
//! | one mode after another, within a limit | [`session`] |
//! | from counts and readings to time and power | [`window`] |
//! | which mode is next | [`planner`] |
//! | the corpus file | [`row`] |
//! | the workload's process | [`process`] |
//! | where its counts come from | [`steps`] |
//! | command line | [`cli`] |
#![forbid(unsafe_code)]

pub mod cli;
pub mod planner;
pub mod process;
pub mod row;
pub mod session;
pub mod steps;
pub mod window;
