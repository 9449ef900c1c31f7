//! A probe of a Jetson: a file with everything that wattgate looks at on a board, taken without
//! changing the board. Served again, it stands in for the board.
//!
//! | question | module |
//! |---|---|
//! | the file: records, limits, errors of defective files | [`mod@format`] |
//! | taking a probe | [`mod@collect`]; `patterns` has the list of files, `sensors` the power sensors over time |
//! | what never gets into a probe | [`redact`] |
//! | serving a probe: reads, and writes as Linux takes them | [`recorded`] |
//! | what wattgate finds on a board, as text | [`summary`] |
//!
//! ```no_run
//! use std::path::Path;
//! use wattgate_board::Board;
//! use wattgate_probe::format::Probe;
//! use wattgate_probe::recorded::Recorded;
//!
//! let probe = Probe::open(Path::new("wattgate-probe-orin-nano-8-2026-11-22.jsonl.gz"))?;
//! let files = Recorded::new(probe);
//! let board = Board::discover(&files, Path::new("/"))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod any_files;
pub mod collect;
pub mod format;
mod patterns;
pub mod recorded;
pub mod redact;
mod sensors;
pub mod summary;
mod writes;
