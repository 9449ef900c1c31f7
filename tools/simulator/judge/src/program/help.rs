//! Parts of the help texts that several commands share.

use wattgate_simulated_board::load::{KINDS, Kind};

use crate::failure::Failure;
use crate::output::print;

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  2  the arguments are wrong
  3  an input file is defective, or an anchor is not met
  5  a file cannot be read or written
";

/// Prints a help text: paragraphs, then the exit codes. Each paragraph ends with a line break.
pub fn print_help(paragraphs: &[&str]) -> Result<(), Failure> {
    print(&[paragraphs, &[EXIT_CODES]].concat().join("\n"))
}

/// The boards, for commands that take one.
pub fn boards() -> String {
    format!("Boards: {}\n", wattgate_board_tables::names().join(", "))
}

/// The boards and workloads, for commands that take them.
pub fn boards_and_workloads() -> String {
    boards() + &workloads()
}

/// The workloads, for commands that take one.
pub fn workloads() -> String {
    format!(
        "Workloads: {}, or a file; workloads/ has the files of this list\n",
        wattgate_simulated_board::workload::names().join(", ")
    )
}

/// The kinds of built-in loads, for commands that take one.
pub fn kinds() -> String {
    format!("Kinds: {}\n", KINDS.map(Kind::name).join(", "))
}
