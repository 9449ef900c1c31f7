//! Integration tests of the program `wattgate-simulator`.

#[path = "../../../simulated-board/tests/it/common.rs"]
mod common;
mod eventually;

mod commands;
mod help;
mod judge;
mod process;
mod replay;
mod running;
mod served;
mod workload;
