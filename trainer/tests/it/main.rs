//! The trainer's integration tests: one program, since each links burn anew.

mod advise;
mod advised;
mod ask_tell;
mod bad_corpus;
mod bad_request;
mod bench;
mod characterize;
mod commands;
mod common;
mod help;
mod idle;
mod kernels;
mod learned;
mod measured;
mod methods;
mod networks;
mod onnx;
mod quantise;
mod safe_plan;
mod simulated;
mod sizes;
mod units;
