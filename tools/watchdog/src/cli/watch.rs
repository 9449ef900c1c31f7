//! `watch`: prints the running daemon's status once a second and whenever it changes.

use lexopt::Parser;
use wattgate_runtime::Milliwatts;

use super::client::{Form, parse, shown};
use super::{Failure, print};
use crate::client::Client;
use crate::quantity::{Thousandths, Watts};
use crate::report::Report;
use crate::serve::protocol::{Request, Subscription};

const USAGE: &str = "\
Print the running daemon's status once a second and whenever state, mode, limit or model change

Usage: wattgated watch [-v] [--json] [--root DIR]

Options:
  -v, --verbose  Print one line for each value, as `status -v` does
  --json         Print one JSON object per line, as `status --json` does
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

Example:
  wattgated watch
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let (root, form) = parse(arguments)?;
    let request = Request::Subscribe(Subscription { every_ms: 1_000 });
    let mut client = Client::connect(&root)?;
    let mut report = client.ask(request)?;
    loop {
        match form {
            Form::Headline => print(&line(&report))?,
            Form::Lines | Form::Json => print(&shown(&report, form))?,
        }
        report = client.next_report()?;
    }
}

fn line(report: &Report) -> String {
    let Report { state, cores, .. } = report;
    let measured = match report.measured_mw {
        Some(measured) => Watts(Milliwatts(measured)).to_string(),
        None => "not yet measured".to_owned(),
    };
    let limit = Watts(Milliwatts(report.limit_mw));
    let clocks = [report.cpu_khz, report.gpu_khz, report.emc_khz];
    let [cpu, gpu, emc] = clocks.map(|khz| Thousandths(u64::from(khz)));
    format!(
        "{state}: {measured}, limit {limit}; {cores} cores, CPU {cpu} MHz, GPU {gpu} MHz, EMC {emc} \
         MHz\n"
    )
}
