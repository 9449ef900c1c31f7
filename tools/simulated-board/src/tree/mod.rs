//! The virtual files of a board: what reading and writing them does.
//!
//! A [`Tree`] is a state machine over a [`Jetson`](crate::machine::Jetson) without disk or clock:
//! exact, synchronous, and as fast as simulated time allows. [`mirror`] keeps it on a disk.
//!
//! | question | module |
//! |---|---|
//! | which files there are, and what each stands for | `layout`, `conf`, `places`, `file` |
//! | what reading and writing does at one moment | `state`, `show`, `store`, `words`, `faults` |
//! | what nvpmodel does | [`nvpmodel`], `preset` |
//! | faults and events by command | [`control`] |
//! | the files over time | `files` |
//! | the files on a disk | [`mirror`] |
//!
//! Decisions where `jetson-platform.md` leaves a choice:
//! - A minimum above the maximum, or a maximum below the minimum, is refused with EINVAL, so that
//!   the order of writes of section 5.1 is needed. Newer kernels may clamp instead.
//! - A clock that is not in the table is rounded down, or up to the lowest clock; the direction is
//!   unknown (section 4).
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
