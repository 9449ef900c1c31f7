//! Exit codes and error output of the command-line programs.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// Success.
pub const SUCCESS: u8 = 0;

/// The arguments or the config are wrong.
pub const ARGUMENTS: u8 = 2;

/// An input was read but cannot be used: a model, a corpus, a probe or the board.
pub const INPUT: u8 = 3;

/// No mode is known to fit the limit or the deadline, or the limit was not held.
pub const LIMIT: u8 = 4;

/// A file cannot be read or written, or anything else failed. A file that does not exist is such a file, whatever it was to hold.
pub const OTHER: u8 = 5;

/// The mode is set, but for knobs that do not obey.
pub const DISOBEYED: u8 = 6;

/// The program of a lease cannot be started; shells use this code. It is not in [`TABLE`].
pub const NOT_STARTED: u8 = 127;

/// The exit codes of all programs, as their help texts show them.
pub const TABLE: &str = "\
Exit codes:
  0  success
  2  the arguments or the config are wrong
  3  an input cannot be used: a model, a corpus, a probe or the board
  4  no mode is known to fit the limit or the deadline, or the limit was not held
  5  a file cannot be read or written, or anything else failed
  6  the mode is set, but for knobs that do not obey
";

/// Why a command failed.
pub trait Failed: Display {
    /// The process's exit code, one of the constants of this module.
    fn exit_code(&self) -> u8;

    /// The I/O error, if writing to stdout failed.
    fn print_error(&self) -> Option<&io::Error>;

    /// The error of the arguments, in a program that reads them with lexopt.
    fn argument_error(&self) -> Option<&lexopt::Error> {
        None
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The rows of the table: code and meaning.
    fn rows() -> Vec<(u8, &'static str)> {
        let rows = TABLE.lines().filter_map(|line| line.strip_prefix("  "));
        let rows = rows.filter_map(|row| row.split_once("  "));
        rows.map(|(code, meaning)| (code.parse().expect("a number"), meaning))
            .collect()
    }

    #[test]
    fn the_table_has_each_code() {
        let codes: Vec<u8> = rows().into_iter().map(|(code, _)| code).collect();
        assert_eq!(codes, [SUCCESS, ARGUMENTS, INPUT, LIMIT, OTHER, DISOBEYED]);
    }

    #[test]
    fn the_readme_has_the_table() {
        let readme = include_str!("../../README.md");
        for (code, meaning) in rows() {
            let row = format!("\n| {code} | {meaning} |\n");
            assert!(readme.contains(&row), "{row}");
        }
    }
}
