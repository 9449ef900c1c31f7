//! `load`: writes a built-in load to a file.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{kinds, paragraphs};
use crate::options;
use wattgate_cli::arguments::number;
use wattgate_cli::output::AtomicFile;
use wattgate_judge::files::load::to_csv;
use wattgate_simulated_board::load::Kind;

const USAGE: &str = "\
Write a built-in load as a CSV for `replay`

Usage: wattgate-simulator load --kind KIND -o FILE.csv [options]

Options:
  --kind KIND        The kind of load
  --seconds N        Its length, 2 ... 604800 [300]
  --seed S           Seed of its random parts [0]
  -o, --output FILE  The file to write
  -h, --help         Print this
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator load --kind training --seconds 300 --seed 1 -o training.csv
";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, &kinds(), EXAMPLE])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut kind, mut seconds, mut seed, mut output) = (None, 300, 0, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("kind") => kind = Some(options::kind(arguments.value()?.string()?)?),
            Arg::Long("seconds") => {
                let value = arguments.value()?.string()?;
                let number = value.parse().ok();
                let number = number.filter(|number| (2..=604_800).contains(number));
                seconds = number.ok_or(Failure::Value {
                    option: "--seconds",
                    value,
                    expected: "2 … 604800",
                })?;
            }
            Arg::Long("seed") => seed = number(&mut arguments, "--seed")?,
            Arg::Short('o') | Arg::Long("output") => {
                output = Some(PathBuf::from(arguments.value()?));
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let kind: Kind = kind.ok_or(Failure::Missing("--kind, such as --kind training"))?;
    let file = AtomicFile::create(&output.ok_or(Failure::Missing("-o, the file to write"))?)?;
    let load = kind.load(Duration::from_secs(seconds), seed);
    Ok(file.commit(to_csv(&load).as_bytes())?)
}
