//! The steps that workloads tell ([`wattgate_cli::steps`]), here for the daemon and for `wattgate`.
//!
//! Anybody may send any number. So steps are shown, and choose a mode for a deadline, but they never permit more power.

pub mod receiver;
pub mod senders;
pub mod workloads;

use std::path::{Path, PathBuf};

/// What a workload tells beside its count; `None` where it does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Cumulative time in µs in which steps waited for their data.
    pub fetch_us: Option<u64>,
    /// Cumulative time in µs in which the GPU computed.
    pub compute_us: Option<u64>,
    /// Samples in a step, above zero.
    pub items: Option<u32>,
}

/// The folder of the sockets for steps, for the board below `root`. Everybody may enter it.
pub fn directory(root: &Path) -> PathBuf {
    root.join("run/wattgate")
}

/// The socket for the steps of all workloads that `wattgate` does not start.
pub fn socket(root: &Path) -> PathBuf {
    directory(root).join("steps")
}
