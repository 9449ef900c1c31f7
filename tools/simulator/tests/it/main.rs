//! Integration tests of the simulated board.

mod activity;
mod anchors;
mod clocks;
mod common;
mod faults;
mod files;
mod kernels;
mod physics;
mod properties;
mod recorded;
mod sensor;
mod traces;
