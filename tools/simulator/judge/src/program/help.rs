//! Parts of the help texts that several commands share.

use wattgate_simulated_board::load::{KINDS, Kind};

/// A help text of paragraphs, each of which ends with a line break.
pub fn paragraphs(paragraphs: &[&str]) -> String {
    paragraphs.join("\n")
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

/// What `--truth` does, for commands that take it.
pub const TRUTH: &str = "\
--truth CORPUS makes a recorded board. It has the clocks of a corpus that was measured on a real
board, and the measured time and power in each measured mode; between them both are interpolated.
What the corpus does not say, such as the power of the idle board, is simulated. --board names the
board where the corpus does not, and --workload picks one of several workloads of the corpus.
";

/// The kinds of built-in loads, for commands that take one.
pub fn kinds() -> String {
    format!("Kinds: {}\n", KINDS.map(Kind::name).join(", "))
}
