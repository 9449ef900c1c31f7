//! Integration tests of the watchdog.

#[path = "../../../board/tests/it/allocations.rs"]
mod allocations;
#[path = "../../../board/tests/it/bed.rs"]
mod bed;
#[path = "../../../board/tests/it/common.rs"]
mod board;
#[path = "../../../simulator/judge/tests/it/eventually.rs"]
mod eventually;
#[path = "../../../cli/tests/shared/every_program.rs"]
mod every_program;
#[path = "../../../cli/tests/it/transcript.rs"]
mod transcript;

mod abuse;
mod aims;
mod answers;
mod client_limits;
mod clients;
mod commands;
mod common;
mod control;
mod cost;
mod daemon;
mod leases;
mod lifecycle;
mod limits;
mod live;
mod log;
mod man;
mod messages;
mod model_files;
mod observing;
mod saved_state;
mod server;
mod steps;
mod wattgated;
mod yields;
