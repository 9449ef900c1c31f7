//! The virtual files of a board, and the effects of reading and writing them.
//!
//! A [`Tree`] is a state machine over a [`Jetson`](crate::machine::Jetson) without disk or clock:
//! exact, synchronous, and as fast as simulated time allows. [`mirror`] keeps it on a disk.
//!
//! | question | module |
//! |---|---|
//! | the list of files and their meaning | `layout`, `conf`, `places`, `file` |
//! | effects of reading and writing | `state`, `show`, `store`, `words`, `faults` |
//! | nvpmodel | [`nvpmodel`], `preset` |
//! | commands that inject faults and events | [`control`] |
//! | the files over time | `files` |
//! | the files on a disk | [`mirror`] |
//!
//! Decisions where `jetson-platform.md` leaves a choice:
//! - A minimum above the maximum, or a maximum below the minimum, is refused with EINVAL, so that
//!   the order of writes of section 5.1 is needed. Newer Linux kernels may clamp instead.
//! - A clock that is not in the table becomes the nearest one (section 4 and addendum).
//! - Switching cpu0 off gives EBUSY; the document says only that it is impossible.
//! - Files of a cluster's policy give EIO while none of its cores is online.
//! - Another mask gives ENODEV, as `fbp_pg_mask` was seen to do (section 3.1).

mod conf;
pub mod control;
mod errno;
mod faults;
mod file;
mod files;
mod layout;
pub mod mirror;
pub mod nvpmodel;
mod places;
mod preset;
mod show;
mod state;
mod store;
mod words;

pub use errno::Errno;
pub use files::Tree;
