//! Arguments and output of the commands that talk to the running daemon.

use std::path::PathBuf;

use lexopt::{Arg, Parser};
use wattgate_cli::arguments::Given;

use super::Failure;
use crate::report::Report;

/// Parses the arguments of `status` and `watch`: the board's root, and whether to print JSON.
pub fn parse(mut arguments: Parser) -> Result<(PathBuf, bool), Failure> {
    let (mut root, mut is_json) = (PathBuf::from("/"), false);
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long("json") => is_json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    Ok((root, is_json))
}

/// Formats a report as one JSON object, or as lines for people.
pub fn shown(report: &Report, is_json: bool) -> String {
    match is_json {
        // Serialising strings and numbers does not fail.
        true => serde_json::to_string(report).unwrap_or_default() + "\n",
        false => report.to_string(),
    }
}
