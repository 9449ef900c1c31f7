//! `kernels`: measures kernels on several units of a simulated board and writes the corpus.

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{boards, paragraphs};
use crate::output::print;
use wattgate_board_tables::Board;
use wattgate_cli::arguments;
use wattgate_cli::output::AtomicFile;
use wattgate_simulated_board::kernels::{Corpus, MOST_UNITS};

/// Largest number of rows of Conv2d.
const MOST_ROWS: u64 = 100_000_000;

const USAGE: &str = "\
Measure kernels one by one on several units of a simulated board, and write the corpus

Usage: wattgate-simulator kernels --board NAME -o FILE.csv [options]

Options:
  --board NAME       The board
  --units N          Number of units, 1 … 1000 [13]
  --rows N           Rows of conv2d, 1 … 100000000; other kernels have 3/28 of that [1400000]
  --seed S           Seed of units, calls, modes and noise [0]
  -o, --output FILE  The corpus
  -h, --help         Print this

Kernels are measured as MIRAGE's authors measured them on real boards. Half of the calls have the form of
a call in a known network, half are drawn freely; each row has a power mode of its own with all cores
online. All rows have the kind `simulated`.
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator kernels --board xavier-agx --rows 100000 -o kernels.csv
";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, &boards(), EXAMPLE])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut board, mut output) = (None, None);
    let (mut units, mut rows, mut seed) = (13, 1_400_000, 0);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => board = Some(Board::named(&arguments.value()?.string()?)?),
            Arg::Long("units") => {
                units = number(&mut arguments, "--units", MOST_UNITS, "1 … 1000")?;
            }
            Arg::Long("rows") => {
                rows = number(&mut arguments, "--rows", MOST_ROWS, "1 … 100000000")?;
            }
            Arg::Long("seed") => seed = arguments::number(&mut arguments, "--seed")?,
            Arg::Short('o') | Arg::Long("output") => {
                output = Some(PathBuf::from(arguments.value()?));
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let board = board.ok_or(Failure::Missing("--board, such as --board orin-agx-64"))?;
    let output = output.ok_or(Failure::Missing("-o, the file to write"))?;
    let corpus = Corpus {
        board: &board,
        units,
        rows,
        seed,
    };
    AtomicFile::create(&output)?.stream(|out| corpus.write(out))?;
    print(&format!(
        "{} kernels on {units} units of {}, simulated\n",
        corpus.all_rows(),
        board.name
    ))
}

/// A number from 1 on.
fn number<N: std::str::FromStr + PartialOrd + From<u8>>(
    arguments: &mut Parser,
    option: &'static str,
    most: N,
    expected: &'static str,
) -> Result<N, Failure> {
    let value = arguments.value()?.string()?;
    let number = value.parse().ok();
    let number = number.filter(|number| (N::from(1)..=most).contains(number));
    number.ok_or(Failure::Value {
        option,
        value,
        expected,
    })
}
