//! `anchors`: compares simulated boards with published measurements.

use std::fmt::Write;

use lexopt::{Arg, Parser};

use crate::failure::Failure;
use crate::output::{print, print_json};
use wattgate_simulated_board::anchors::{Anchor, Bound, Shipped, anchors};

const USAGE: &str = "\
Compare simulated boards with published measurements of real ones

Usage: wattgate-simulator anchors [--json]

Options:
  --json      Print JSON: [{\"what\",\"source\",\"unit\",\"published\",\"simulated\",\"bound\",\"fitted\"}]
  -h, --help  Print this

Prints the published measurements beside those of the simulated boards. Fails with exit code 3 if one
differs by more than its bound. A star marks those that had no part in the choice of the
simulator's constants.
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let mut json = false;
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("json") => json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let anchors = anchors(&Shipped)?;
    if json {
        print_json(serde_json::to_string_pretty(&anchors))?;
    } else {
        print(&table(&anchors))?;
    }
    match anchors.iter().filter(|anchor| !anchor.held()).count() {
        0 => Ok(()),
        missed => Err(Failure::Anchors(missed)),
    }
}

fn table(anchors: &[Anchor]) -> String {
    let mut text = String::new();
    let mut source = "";
    for anchor in anchors {
        if anchor.source != source {
            source = anchor.source;
            writeln!(text, "{source:<75}published  simulated     error (bound)").expect("text");
        }
        let unit = if anchor.unit == "%" { "points" } else { "%" };
        let bound = match anchor.bound {
            Bound::Percent(most) => format!("({most} {unit})"),
            Bound::Sign => "(sign)".to_owned(),
            Bound::None => String::new(),
        };
        let verdict = if anchor.held() { "" } else { "  MISSED" };
        writeln!(
            text,
            "{} {:<74}{:>8.2} {:<3}{:>7.2} {:<3}{:>7.1} {unit:<6} {bound}{verdict}",
            if anchor.fitted { " " } else { "*" },
            anchor.what,
            anchor.published,
            anchor.unit,
            anchor.simulated,
            anchor.unit,
            anchor.error(),
        )
        .expect("text");
    }
    text
}
