//! Bounds on the figures of loads and scenarios.

mod deadlines;
mod fleet;
mod loads;
mod scenarios;
