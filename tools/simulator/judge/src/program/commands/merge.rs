//! `merge`: prints what a command prints, from the parts of its shards. [`Jobs::take`] reads the parts, and the command itself
//! runs with them.
//!
//! [`Jobs::take`]: wattgate_cli::shard::Jobs::take

use lexopt::{Arg, Parser};

use crate::failure::Failure;

const USAGE: &str = "\
Print what `loads` or `units` prints, from the parts that --shard has printed

Usage: wattgate-simulator merge PART...

Options:
  -h, --help  Print this

`loads` and `units` take --shard I/N, on as many machines as you like: each shard runs every N-th job from the I-th
on and prints a part; `wattgate-simulator merge PART...` prints the whole.

Example:
  wattgate-simulator loads --shard 1/2 > part-1
  wattgate-simulator loads --shard 2/2 > part-2
  wattgate-simulator merge part-1 part-2
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Refuses the options: with parts alone, the command of the shards runs in place of this one.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Value(_) => {}
            option => return Err(option.unexpected().into()),
        }
    }
    Ok(())
}
