//! Integration tests of the profiler.

#[path = "../../../board/tests/it/common.rs"]
mod board;

mod corpus;
mod planner;
mod session;
mod window;
