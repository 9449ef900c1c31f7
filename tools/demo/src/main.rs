//! The command line of the demo.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use lexopt::{Arg, Parser, ValueExt};
use thiserror::Error;
use wattgate_cli::exit::{Failed, end};
use wattgate_demo::{DemoError, Story, make, steps};

const USAGE: &str = "\
Show all steps on a simulated board, as one page

Usage: wattgate-demo [options]

Options:
  -o, --output DIR  The folder to write to [demo-report]
  --seed S          Seed of the simulated noise and of the training [1]
  --json            Print the data of the page: {\"kind\", \"summary\": [{\"name\",
                    \"time_penalty_pct\", \"area_w\", \"over_pct\", \"over_1w_pct\"}],
                    \"replay\": {\"series\": [{\"name\", \"report\"}], ...}, ...}; a report has the
                    figures of `wattgate-simulator replay`
  -h, --help        Print this

Simulates a Jetson AGX Orin, trains a reference on ResNet, transfers it to MobileNet with 50 and
with 15 planned modes, and chooses a mode under each limit from 17 to 50 W. The watchdog then
holds a changing limit during a training job. Writes the corpora, the model files and the page
index.html. All numbers are simulated.

Exit codes:
  0  done
  2  the arguments are wrong
  3  the simulation or a training failed
  5  a file cannot be written
";

/// Why the program failed.
#[derive(Debug, Error)]
enum Failure {
    #[error("{0}")]
    Arguments(#[from] lexopt::Error),
    #[error("{0}")]
    Demo(#[from] DemoError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Arguments(_) => 2,
            Self::Demo(DemoError::Folder { .. } | DemoError::Output(_)) | Self::Print(_) => 5,
            Self::Demo(_) => 3,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Print(error) => Some(error),
            _ => None,
        }
    }
}

fn main() -> ExitCode {
    end(run(Parser::from_env()))
}

fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut output, mut seed, mut json) = (PathBuf::from("demo-report"), 1, false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Short('o') | Arg::Long("output") => output = arguments.value()?.into(),
            Arg::Long("seed") => seed = arguments.value()?.parse()?,
            Arg::Long("json") => json = true,
            Arg::Short('h') | Arg::Long("help") => return print(USAGE),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let style = "{msg:>8} [{bar:40}] {percent:>3} % {elapsed} of about {duration}";
    let style = ProgressStyle::with_template(style).expect("a valid template");
    let progress = ProgressBar::new(steps()).with_style(style.progress_chars("=> "));
    let story = make(&output, seed, &progress);
    progress.finish_and_clear();
    let story = story?;
    if json {
        let text = serde_json::to_string_pretty(&story).map_err(io::Error::from)?;
        return print(&format!("{text}\n"));
    }
    let page = output.join("index.html");
    print(&format!("{}wrote {}\n", text(&story), page.display()))
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

fn text(story: &Story) -> String {
    let heading = |title: &str, [first, second, third]: [&str; 3]| {
        let title = format!("{title}, {}", story.kind);
        format!("{title:<46}{first:>10}{second:>10}{third:>12}\n")
    };
    let mut text = format!(
        "{} on {}, {}: {} modes, limits {} … {} W\n{:<46}{:>10}{:>10}\n",
        story.workload,
        story.board,
        story.kind,
        story.truth.time_ms.len(),
        story.limits[0],
        story.limits[story.limits.len() - 1],
        format!("errors on modes that were not profiled, {}", story.kind),
        "time",
        "power",
    );
    for model in &story.models {
        text += &format!(
            "  {:<44}{:>8.2} %{:>8.2} %\n",
            model.name, model.mape.time, model.mape.power
        );
    }
    text += &heading("choices under the limits", ["slower", "over", "by > 1 W"]);
    for row in &story.summary {
        text += &format!(
            "  {:<44}{:>8.1} %{:>8.1} %{:>10.1} %\n",
            row.name, row.time_penalty_pct, row.over_pct, row.over_1w_pct
        );
    }
    let columns = ["time over", "excess", "speed"];
    text += &heading("a training job under a changing limit", columns);
    for series in &story.replay.series {
        let report = &series.report;
        text += &format!(
            "  {:<44}{:>8.2} %{:>8.1} %{:>10.1} %\n",
            series.name, report.over_430ms_pct, report.excess_430ms_pct, report.speed_vs_fixed_pct
        );
    }
    text += &format!("{:.0} s\n", story.made.seconds);
    text
}
