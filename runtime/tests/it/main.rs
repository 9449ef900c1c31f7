//! The runtime's integration tests: one program, since each links the runtime anew.

mod common;
mod constants;
mod estimator;
mod fleet;
mod front;
mod golden;
mod governor;
mod interface;
mod network;
mod plant;
mod recorded;
mod refusals;
mod traces;
