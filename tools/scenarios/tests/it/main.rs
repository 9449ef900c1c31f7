//! Bounds on the figures of loads and scenarios.

mod fleet;
mod loads;
mod scenarios;
