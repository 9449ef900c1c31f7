//! Arguments and output of the commands that talk to the running daemon.

use std::path::PathBuf;

use lexopt::{Arg, Parser};
use wattgate_cli::arguments::Given;

use super::Failure;
use crate::headline::Headline;
use crate::report::Report;

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Whether the limit holds, and what is wrong.
    Headline,
    /// A line for each value.
    Lines,
    /// One JSON object.
    Json,
}

impl Form {
    /// The form that `--json` asks for, or else the headline.
    pub fn new(is_json: bool) -> Self {
        match is_json {
            true => Self::Json,
            false => Self::Headline,
        }
    }
}

/// Parses the arguments of `status` and `watch`: the board's root, and what to print.
pub fn parse(mut arguments: Parser) -> Result<(PathBuf, Form), Failure> {
    let (mut root, mut form) = (PathBuf::from("/"), Form::Headline);
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long("json") => form = Form::Json,
            Arg::Short('v') | Arg::Long("verbose") if form == Form::Headline => form = Form::Lines,
            argument => return Err(argument.unexpected().into()),
        }
    }
    Ok((root, form))
}

/// Formats a report.
pub fn shown(report: &Report, form: Form) -> String {
    match form {
        Form::Headline => Headline(report).to_string(),
        Form::Lines => report.to_string(),
        // Serialising strings and numbers does not fail.
        Form::Json => serde_json::to_string(report).unwrap_or_default() + "\n",
    }
}
