//! Errors of Linux.

use thiserror::Error;

/// How Linux refuses.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub enum Errno {
    /// No such file.
    #[error("ENOENT")]
    Enoent,
    /// An error of the device.
    #[error("EIO")]
    Eio,
    /// Nothing to read now.
    #[error("EAGAIN")]
    Eagain,
    /// The file is read-only.
    #[error("EACCES")]
    Eacces,
    /// In use.
    #[error("EBUSY")]
    Ebusy,
    /// The device does not take it now.
    #[error("ENODEV")]
    Enodev,
    /// Not a valid value.
    #[error("EINVAL")]
    Einval,
    /// The file system is read-only.
    #[error("EROFS")]
    Erofs,
    /// The board has shut down.
    #[error("ESHUTDOWN")]
    Eshutdown,
}
