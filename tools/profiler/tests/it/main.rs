//! Integration tests of the profiler.

#[path = "../../../board/tests/it/common.rs"]
mod board;

mod corpus;
mod man;
mod operation;
mod pattern;
mod planner;
mod process;
mod session;
mod socket;
mod window;
