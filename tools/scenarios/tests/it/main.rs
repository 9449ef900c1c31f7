//! Bounds on the figures of loads and scenarios.

mod loads;
mod scenarios;
