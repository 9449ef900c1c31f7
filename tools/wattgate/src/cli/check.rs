//! `check`: what wattgate finds on a board, or on a recorded one. Writes nothing.

use std::path::PathBuf;

use lexopt::{Arg, Parser};
use wattgate_board::Disk;
use wattgate_probe::format::Probe;
use wattgate_probe::recorded::Recorded;
use wattgate_probe::summary::{KEYS, Summary};

use super::{Failure, print, print_json};

const USAGE: &str = "\
Print what wattgate finds on this board, or on a recorded one; change nothing

Usage: wattgate check [options]

Options:
  --from FILE  A probe of a board, see `wattgate probe` [this board]
  --root DIR   Root of the board's files; for simulated boards [/]
  --json       Print one JSON object
  -h, --help   Print this

";

const NOTES: &str = "
`wattgated check` checks a config and its model on this board.

Example:
  wattgate check --from wattgate-probe-orin-agx-64-2026-11-22.jsonl.gz
";

/// The text of the help.
pub fn help() -> String {
    format!("{USAGE}{KEYS}{NOTES}")
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut parser: Parser) -> Result<(), Failure> {
    let (mut from, mut root, mut json) = (None, None, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("from") => from = Some(PathBuf::from(parser.value()?)),
            Arg::Long("root") => root = Some(PathBuf::from(parser.value()?)),
            Arg::Long("json") => json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let slash = PathBuf::from("/");
    let summary = match (from, root) {
        (Some(_), Some(_)) => return Err(Failure::Exclusive("--from", "--root")),
        (Some(path), None) => {
            let mut files = Recorded::new(Probe::open(&path)?);
            Summary::discover(&mut files, &slash).map_err(|why| Failure::Recorded { path, why })?
        }
        (None, root) => Summary::discover(&mut Disk, &root.unwrap_or(slash))?,
    };
    match json {
        true => print_json(&summary),
        false => print(&summary.to_string()),
    }
}
