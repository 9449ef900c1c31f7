//! Exit codes and error output of the command-line programs.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a command failed.
pub trait Failed: Display {
    /// The process's exit code.
    fn exit_code(&self) -> u8;

    /// The I/O error, if writing to stdout failed.
    fn print_error(&self) -> Option<&io::Error>;
}

/// Whether another program has left our terminal in the middle of a line.
static IS_MID_LINE: AtomicBool = AtomicBool::new(false);

/// Says whether another program, whose output we copy to our terminal, has left it in the middle of a line, as one that draws a
/// bar does. The next line of ours then begins with a newline.
pub fn set_mid_line(is_mid_line: bool) {
    IS_MID_LINE.store(is_mid_line, Ordering::Relaxed);
}

/// Prints a line to stderr. Errors are ignored: a program that has a board to restore goes on when its
/// terminal is gone.
pub fn note(text: impl Display) {
    let newline = if IS_MID_LINE.swap(false, Ordering::Relaxed) {
        "\n"
    } else {
        ""
    };
    let _ = writeln!(io::stderr().lock(), "{newline}{text}");
}

/// Prints the error, if any, to stderr and returns the exit code.
pub fn end<F: Failed>(result: Result<(), F>) -> ExitCode {
    end_with(result, |failure| note(format_args!("error: {failure}")))
}

/// Reports the error, if any, and returns the exit code.
pub fn end_with<F: Failed>(result: Result<(), F>, report: impl FnOnce(&F)) -> ExitCode {
    let Err(failure) = result else {
        return ExitCode::SUCCESS;
    };
    // If stdout is a closed pipe, the reader, such as `head`, wants no more; that is no failure.
    let is_closed = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    if failure.print_error().is_some_and(is_closed) {
        return ExitCode::SUCCESS;
    }
    report(&failure);
    ExitCode::from(failure.exit_code())
}
