//! Integration tests of the board's files, on simulated boards.

mod allocations;
mod averaging;
mod backstop;
mod bed;
mod common;
mod corruption;
mod cpusets;
mod discovery;
mod disk;
mod obedience;
mod power;
mod saved;
mod thor;
mod thor_tree;
mod transitions;

// The name that `bed` knows.
use common as board;
