//! Parts of the help texts that several commands share.

use wattgate_simulated_board::load::{KINDS, Kind};

pub const EXIT_CODES: &str = "\
Exit codes:
  0  done
  2  the arguments are wrong
  3  an input file is defective, or an anchor is not met
  5  a file cannot be read or written
";

/// The boards and workloads, for commands that take them.
pub fn boards_and_workloads() -> String {
    format!(
        "Boards: {}\nWorkloads: {}, or a file; workloads/ has the files of this list\n",
        wattgate_board_tables::names().join(", "),
        wattgate_simulated_board::workload::names().join(", ")
    )
}

/// The kinds of built-in loads, for commands that take one.
pub fn kinds() -> String {
    KINDS.map(Kind::name).join(", ")
}
