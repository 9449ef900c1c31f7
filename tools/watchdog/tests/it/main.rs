//! Integration tests of the watchdog.

#[path = "../../../board/tests/it/allocations.rs"]
mod allocations;
#[path = "../../../board/tests/it/common.rs"]
mod board;
#[path = "../../../simulator/tests/it/eventually.rs"]
mod eventually;

mod clients;
mod common;
mod control;
mod cost;
mod daemon;
mod live;
mod living;
mod man;
mod process;
mod services;
