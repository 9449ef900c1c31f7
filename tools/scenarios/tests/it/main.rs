//! Bounds of the scenarios.

mod loads;
mod scenarios;
