//! How the command lines of this project end.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// Why a command failed.
pub trait Failed: Display {
    /// The exit code that tells it.
    fn exit_code(&self) -> u8;

    /// The error, where nothing could be printed.
    fn print_error(&self) -> Option<&io::Error>;
}

/// Says why a command failed, and returns its exit code.
pub fn end<F: Failed>(result: Result<(), F>) -> ExitCode {
    let Err(failure) = result else {
        return ExitCode::SUCCESS;
    };
    // The reader of the output has gone, as `head` does: nothing is left to tell it.
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if failure.print_error().is_some_and(gone) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {failure}");
    ExitCode::from(failure.exit_code())
}
