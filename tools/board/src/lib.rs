//! Board I/O of a Jetson: discovery of its knobs and sensors, its power, and changes of its power
//! mode, and of the averaging and the limits of its power sensors. A change is verified, or undone.
//!
//! All knobs and sensors are found at run time by name and label (`jetson-platform.md`), because
//! numbers of hwmon devices, paths of GPUs and tables of clocks differ between boards and releases.
//! Masks that need a reboot are read and never written.
//!
//! The modules are layered. No module uses a module of a layer above it:
//!
//! | layer | modules |
//! |---|---|
//! | uses of a board | `mode`, `restore`, `settable`, `writer` |
//! | the board | `board` |
//! | changes | `averaging`, `backstop`, `transition`, `target`, `requests` |
//! | knobs, sensors | `knobs`, `cpu`, `gpu`, `memory`, `nvpmodel`, `power`, `thermal`, `cooling`, `identity` |
//! | tools | `search`, `journal`, `saved`, `current`, `presets`, `clock`, `ina238`, `shunt` |
//! | access | `files` |
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
//! println!("{:?}", board.sample(&files)?.total());
//! board.restore(&mut files, &before)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod averaging;
mod backstop;
mod board;
mod clock;
mod cooling;
mod cpu;
mod cpusets;
mod current;
mod files;
mod gpu;
mod identity;
mod ina238;
mod journal;
mod knobs;
mod memory;
mod mode;
mod nvpmodel;
mod obedience;
mod power;
mod presets;
mod rail;
mod reachable;
mod requests;
mod restore;
mod saved;
mod search;
mod seen;
mod settable;
mod shunt;
mod target;
mod thermal;
mod transition;
mod writer;

pub use averaging::{AveragingError, SAMPLES};
pub use backstop::BackstopError;
pub use board::Board;
pub use cpu::RunningClock;
pub use current::Current;
pub use files::{Disk, Files, KnobError, Refusal};
pub use identity::{Identity, serial_number};
pub use journal::ChangeError;
pub use mode::{Applied, ApplyError};
pub use nvpmodel::{Gated, Masks};
pub use power::SampleError;
pub use presets::Preset;
pub use rail::SampleFault;
pub use restore::RestoreError;
pub use saved::{Saved, SavedError};
pub use search::{DiscoverError, Missing};
pub use seen::Disobedience;
pub use settable::{Reach, Settable, SettableError, Stand};
pub use target::{Clocks, Effective};
