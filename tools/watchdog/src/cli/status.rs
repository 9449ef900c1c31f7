//! `status`: asks the running daemon what it does.

use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser};

use super::{EXIT_CODES, Failure, print};
use crate::lock::directory;

const USAGE: &str = "\
Say what the running daemon does

Usage: wattgated status [--json] [--root DIR]

Options:
  --json         Print one JSON object: texts and whole numbers
  --root DIR     A simulated board's files [/]
  -h, --help     Print this

Example:
  wattgated status

Keys: state, cores, cpu_khz, gpu_khz, emc_khz, measured_mw (absent while nothing is measured),
predicted_mw, allowed_mw, ratio_ppm (measured over predicted), violations, changes

";

/// The daemon answers between two looks at the board.
const PATIENCE: Duration = Duration::from_secs(5);

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut root, mut is_json) = (PathBuf::from("/"), false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long("json") => is_json = true,
            Arg::Short('h') | Arg::Long("help") => return print(&format!("{USAGE}{EXIT_CODES}")),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let path = directory(&root).join("socket");
    let ask = || {
        let mut stream = UnixStream::connect(&path)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        match answer.is_empty() {
            true => Err(io::ErrorKind::UnexpectedEof.into()),
            false => Ok(answer),
        }
    };
    let answer = ask().map_err(|why| Failure::NoDaemon {
        path: path.clone(),
        why,
    })?;
    print(&if is_json { json(&answer) } else { answer })
}

/// Lines of a key and a value as an object. Neither has anything to escape.
fn json(lines: &str) -> String {
    let pairs = lines.lines().filter_map(|line| line.split_once(' '));
    let fields: Vec<String> = pairs
        .map(|(key, value)| match value.parse::<u64>() {
            Ok(number) => format!("\"{key}\": {number}"),
            Err(_) => format!("\"{key}\": \"{value}\""),
        })
        .collect();
    format!("{{{}}}\n", fields.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_an_object() {
        assert_eq!(
            json("state stepping down\nallowed_mw 15000\n"),
            "{\"state\": \"stepping down\", \"allowed_mw\": 15000}\n"
        );
    }
}
