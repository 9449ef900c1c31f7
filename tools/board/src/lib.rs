//! Board I/O of a Jetson: which knobs and sensors it has, what it draws, and changes of its
//! power mode that are verified or undone, as is how many samples the power sensors average.
//!
//! Everything is found at run time by name and label (`jetson-platform.md`); numbers of hwmon
//! devices, paths of GPUs and tables differ between boards and releases. Masks that need a
//! reboot are read and never written.
//!
//! ```no_run
//! use std::path::Path;
//! use wattgate_board::{Board, Disk};
//! use wattgate_runtime::{Kilohertz, PowerMode};
//!
//! let mut files = Disk;
//! let mut board = Board::discover(&files, Path::new("/"))?;
//! for missing in board.missing() {
//!     eprintln!("{missing}");
//! }
//! let before = board.save(&files)?;
//! let mode = PowerMode {
//!     cores: 4,
//!     cpu: Kilohertz(1_190_400),
//!     gpu: Kilohertz(612_000),
//!     emc: Kilohertz(2_133_000),
//! };
//! board.apply(&mut files, &mode)?;
//! println!("{}", board.sample(&files)?.total());
//! board.restore(&mut files, &before)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod averaging;
mod cpu;
mod discover;
mod files;
mod gpu;
mod identity;
mod memory;
mod mode;
mod nvpmodel;
mod power;
mod saved;
mod settable;
mod thermal;
mod transition;

pub use averaging::{AveragingError, SAMPLES};
pub use discover::{Board, DiscoverError, Missing};
pub use files::{Disk, Files, KnobError, Refusal};
pub use identity::Identity;
pub use mode::{Applied, ApplyError, Current};
pub use nvpmodel::Masks;
pub use power::{SampleError, SampleFault};
pub use saved::{RestoreError, Saved, SavedError};
pub use settable::{Reach, Settable, SettableError};
