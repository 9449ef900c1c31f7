//! What a holder leaves behind at the end of a scenario.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::{Board, Files};

/// What a holder did in a run, and its state at the end.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Changes of the mode.
    pub changes: u32,
    /// The last state, in words.
    pub end: String,
    /// Time from [`Scenario::loss`](super::Scenario::loss) to the safe mode.
    pub safe_after: Option<Duration>,
}

impl Outcome {
    /// The outcome of a holder without states.
    pub fn without_states(changes: u32) -> Self {
        Self {
            changes,
            end: "as set".to_owned(),
            safe_after: None,
        }
    }
}

/// The daemon's last state in words, and whether the daemon restored the settings from before its
/// first start.
pub fn end(state: &str, is_restored: bool) -> String {
    let restored = match is_restored {
        true => "restored",
        false => "not restored",
    };
    format!("{state}, {restored}")
}

/// The board's settings without the memory rate, which follows the load before the daemon starts.
pub fn settings(files: &impl Files, root: &Path) -> io::Result<Vec<String>> {
    let board = Board::discover(files, root).map_err(io::Error::other)?;
    let saved = board.save(files).map_err(io::Error::other)?.to_string();
    let lines = saved.lines().filter(|line| !line.contains("/emc/rate "));
    Ok(lines.map(str::to_owned).collect())
}
