//! Integration tests of the profiler.

mod corpus;
mod planner;
mod window;
