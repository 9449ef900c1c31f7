//! Integration tests of the simulated board.

mod activity;
mod anchors;
mod common;
mod faults;
mod habits;
mod physics;
mod properties;
mod recorded;
mod sensor;
mod traces;
