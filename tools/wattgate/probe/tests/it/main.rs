//! Integration tests of probes, on simulated boards.

#[path = "../../../../board/tests/it/common.rs"]
mod board;

mod boards;
mod collect;
mod common;
mod format;
mod writes;
