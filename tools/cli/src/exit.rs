//! Exit codes and error output of the command-line programs.

use std::fmt::Display;
use std::io;
use std::process::ExitCode;

/// Why a command failed.
pub trait Failed: Display {
    /// The process's exit code.
    fn exit_code(&self) -> u8;

    /// The I/O error, if writing to stdout failed.
    fn print_error(&self) -> Option<&io::Error>;
}

/// Prints the error, if any, and returns the exit code.
pub fn end<F: Failed>(result: Result<(), F>) -> ExitCode {
    let Err(failure) = result else {
        return ExitCode::SUCCESS;
    };
    // The reader of the output has closed it, as `head` does. That is not an error.
    let gone = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if failure.print_error().is_some_and(gone) {
        return ExitCode::SUCCESS;
    }
    eprintln!("error: {failure}");
    ExitCode::from(failure.exit_code())
}
