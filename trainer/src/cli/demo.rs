//! `demo`: the whole path on a simulated board, told as one page.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, print_json, print_text, progress_bar};
use crate::demo::{Story, steps, tell};

const EXAMPLE: &str = "\
Example:
  wattgate-trainer demo
  firefox demo-report/index.html

Simulates a Jetson AGX Orin, trains a reference on ResNet, transfers to MobileNet with 50 and
with 15 planned modes, asks the runtime for a mode under each limit from 17 to 50 W, lets the
watchdog hold a limit that changes during a training job, and writes corpora, model files and
the page index.html. Nothing in it is measured.

With --json: what the page shows, {\"kind\", \"summary\": [{\"name\", \"time_penalty_pct\",
\"area_w\", \"over_pct\", \"over_1w_pct\"}], \"replay\": {\"series\": [{\"name\", \"report\"}], …},
…}; a report has the figures of `wattgate-simulator replay`.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// The folder to write to
    #[arg(short, long, value_name = "DIR", default_value = "demo-report")]
    output: PathBuf,
    /// Seed of the simulated noise and of the training
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let progress = progress_bar(steps());
    let story = tell(&arguments.output, arguments.seed, &progress);
    progress.finish_and_clear();
    let story = story?;
    if arguments.json {
        return print_json(&story);
    }
    let page = arguments.output.join("index.html");
    print_text(&format!("{}wrote {}\n", text(&story), page.display()))
}

fn text(story: &Story) -> String {
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
    text += &format!(
        "{:<46}{:>10}{:>10}{:>12}\n",
        format!("choices under the limits, {}", story.kind),
        "slower",
        "over",
        "by > 1 W"
    );
    for row in &story.summary {
        text += &format!(
            "  {:<44}{:>8.1} %{:>8.1} %{:>10.1} %\n",
            row.name, row.time_penalty_pct, row.over_pct, row.over_1w_pct
        );
    }
    text += &format!(
        "{:<46}{:>10}{:>10}{:>12}\n",
        format!("a training job under a changing limit, {}", story.kind),
        "time over",
        "excess",
        "speed"
    );
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
