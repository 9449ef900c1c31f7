//! The command line of the demo.

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use lexopt::{Arg, Parser};
use thiserror::Error;
use wattgate_cli::arguments::{Given, Told, number};
use wattgate_cli::exit::{self, Failed, end};
use wattgate_cli::program::{Does, Program};
use wattgate_demo::{DemoError, Series, Story, make};
use wattgate_judge::files::corpus::ReadError;
use wattgate_trainer::read::CorpusError;

const USAGE: &str = "\
Show all steps on a recorded board, as one page

Usage: wattgate-demo [options]
       wattgate-demo completions SHELL

Options:
  -o, --output DIR  The folder to write to [demo-report]
  --seed S          Seed of the simulated noise and of the training [1]
  --json            Print the data of the page: {\"recorded\": {\"summary\": [{\"name\",
                    \"time_penalty_pct\", \"excess_pct\", \"over_pct\", \"over_by_5_pct\"}],
                    \"replay\": {\"series\": [{\"name\", \"report\"}], ...}, ...},
                    \"simulated\": {\"learning\", \"replay\", ...}, ...}; a report has the figures of
                    `wattgate-simulator replay`
  -h, --help        Print this
  -V, --version     Print the version

Plays back what a real Jetson TX1 did, profiles it with 50 and with 15 planned modes, and chooses a
mode under each limit from 2.5 to 8 W. The watchdog then holds a limit that changes. These figures are
recorded, and their watts relative: all may be wrong by one factor. After that it simulates a Jetson
AGX Orin: a transfer from ResNet to MobileNet, and the limits of NVIDIA's presets. Writes the
corpora, the model files, the page index.html, and held-limit.svg, a picture of the held limit on
the recorded board.
";

/// Why the program failed.
#[derive(Debug, Error)]
enum Failure {
    #[error("{}", Told(.0))]
    Arguments(#[from] lexopt::Error),
    #[error("{0}")]
    Demo(#[from] DemoError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_) => exit::ARGUMENTS,
            Self::Demo(
                DemoError::Folder { .. }
                | DemoError::Output(_)
                | DemoError::Corpus(CorpusError::Io { .. })
                | DemoError::Truth(ReadError::Io { .. }),
            )
            | Self::Print(_) => exit::OTHER,
            Self::Demo(_) => exit::INPUT,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Print(error) => Some(error),
            _ => None,
        }
    }

    fn argument_error(&self) -> Option<&lexopt::Error> {
        match self {
            Self::Arguments(error) => Some(error),
            _ => None,
        }
    }
}

const PROGRAM: Program<fn(Parser) -> Result<(), Failure>> = Program {
    name: "wattgate-demo",
    version: env!("CARGO_PKG_VERSION"),
    does: Does::One { help, run },
};

fn main() -> ExitCode {
    let arguments = env::args_os().skip(1).collect();
    end(PROGRAM.run(arguments, |run, arguments| run(arguments)))
}

/// The text of the help.
fn help() -> String {
    USAGE.to_owned()
}

fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut output, mut seed, mut json) = (PathBuf::from("demo-report"), 1, false);
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Short('o') | Arg::Long("output") => output = arguments.value()?.into(),
            Arg::Long("seed") => seed = number(&mut arguments, "--seed")?,
            Arg::Long("json") => json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let style = "{prefix:<9} [{bar:40}] {percent:>3} % of its work, {elapsed_precise}";
    let style = ProgressStyle::with_template(style).expect("a valid template");
    let progress = ProgressBar::new(1).with_style(style.progress_chars("=> "));
    // Drawn again each second, so that its clock moves during a long step.
    progress.enable_steady_tick(Duration::from_secs(1));
    let story = make(&output, seed, &progress);
    progress.finish_and_clear();
    let story = story?;
    if json {
        let text = serde_json::to_string_pretty(&story).map_err(io::Error::from)?;
        return print(&format!("{text}\n"));
    }
    let page = output.join("index.html");
    print(&format!("{}page     {}\n", text(&story), page.display()))
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// What was learned, chosen and held on the recorded board, a line each, and a line of the simulated one.
fn text(story: &Story) -> String {
    let mut text = String::new();
    let (recorded, simulated) = (&story.recorded, &story.simulated);
    if let Some(model) = recorded.models.first() {
        text += &format!(
            "learned  {} of {} measured modes of {} on {} (recorded, watts relative) profiled; mean error of the others: \
             time {:.1} %, power {:.1} %\n",
            model.modes,
            recorded.truth.time_s.len(),
            recorded.workload,
            recorded.board,
            model.mape.time,
            model.mape.power,
        );
    }
    if let [from, .., to] = recorded.limits[..]
        && let Some(row) = recorded.summary.first()
    {
        text += &format!(
            "chose    a mode for each limit from {from} to {to} W: {:.1} % slower than the fastest that \
             fits (median), {:.0} % of the limits exceeded, {:.0} % by more than 5 %\n",
            row.time_penalty_pct, row.over_pct, row.over_by_5_pct,
        );
    }
    let held = |series: &[Series]| {
        series.first().map(|Series { name, report, .. }| {
            format!(
                "held     a limit that changes, by {name}: over it for {:.2} % of the time, {:.0} % of the speed of an oracle\n",
                report.over_430ms_pct, report.speed_vs_fixed_pct,
            )
        })
    };
    text += &held(&recorded.replay.series).unwrap_or_default();
    text += &format!(
        "moved    to {} on {} (simulated), with {} planned modes and a reference\n",
        simulated.workload, simulated.board, simulated.modes
    );
    text + &held(&simulated.replay.series).unwrap_or_default()
}
