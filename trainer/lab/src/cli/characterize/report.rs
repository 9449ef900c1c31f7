//! `characterize report`: where time and energy of a training go.

use std::path::PathBuf;

use wattgate_cli::output::AtomicFile;
use wattgate_cli::quantity;
use wattgate_runtime::Milliwatts;

use crate::characterize::breakdown::{Breakdown, breakdown};
use crate::characterize::page::page;
use crate::cli::{Failure, print_json, print_text};
use wattgate_trainer::cli::{inputs::RowsArguments, inputs::read_fed, inputs::refuse_input};

const EXAMPLE: &str = "\
Example:
  wattgate-lab characterize report fed.csv --idle 7.5W --html page.html

The columns fetch_ms, compute_ms, minibatch, workers, storage and epoch are optional. A question is answered by
rows that differ in one of them alone; the others are listed with what the corpora lack. Several corpora of a
workload, on boards of one type, show how much boards or software versions differ.

With --json: {\"version\": 1, \"kind\", \"device\", \"workload\", \"steps\", \"answers\": [{\"question\", \"setting\",
\"steps\": [{\"value\", \"time_ms\", \"item_ms\", \"fetch_pct\", \"compute_pct\", \"rest_pct\", \"power_w\", \"energy_j\"}],
\"change\"}], \"idle\": {\"idle_w\", \"least_pct\", \"most_pct\"}, \"variation\": {\"settings\",
\"time_pct\", \"energy_pct\"}, \"modes\": [{\"knobs\", \"time_ms\", \"energy_j\", \"is_on_front\"}], \"unanswered\":
[{\"question\", \"needs\"}]}; what is not known is null.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// Profiled modes of one workload
    #[arg(value_name = "CORPUS", required = true)]
    corpora: Vec<PathBuf>,
    #[command(flatten)]
    rows: RowsArguments,
    /// Power of the idle board, with its unit: 7.5W
    #[arg(long, value_name = "POWER", value_parser = quantity::power)]
    idle: Option<Milliwatts>,
    /// A file for the page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if let Some(html) = &arguments.html {
        let inputs: Vec<_> = arguments.corpora.iter().map(|path| Some(&**path)).collect();
        refuse_input(html, &inputs)?;
    }
    let mut files = Vec::new();
    for path in &arguments.corpora {
        let fed = read_fed(path, arguments.rows.reading())?;
        files.push((path.display().to_string(), fed));
    }
    let idle_w = arguments.idle.map(|idle| f64::from(idle.0) / 1e3);
    let breakdown = breakdown(&files, idle_w)?;
    if let Some(html) = &arguments.html {
        AtomicFile::create(html)?.commit(page(&breakdown).as_bytes())?;
    }
    match arguments.json {
        true => print_json(&breakdown),
        false => print_text(&text(&breakdown)),
    }
}

fn text(breakdown: &Breakdown) -> String {
    let mut text = format!(
        "{}: {} on {}, {} rows\n",
        breakdown.kind, breakdown.workload, breakdown.device, breakdown.steps
    );
    let number = |value: Option<f64>, digits: usize| match value {
        Some(value) => format!("{value:.digits$}"),
        None => "-".to_owned(),
    };
    for answer in &breakdown.answers {
        text += &format!(
            "\n{}\n  {}\n{:<12}{:>11}{:>12}{:>10}{:>10}{:>10}{:>8}{:>10}\n",
            answer.question,
            answer.setting,
            "",
            "step, ms",
            "sample, ms",
            "waits, %",
            "main, %",
            "GPU, %",
            "W",
            "step, J"
        );
        for step in &answer.steps {
            text += &format!(
                "  {:<10}{:>11.2}{:>12}{:>10}{:>10}{:>10}{:>8}{:>10}\n",
                step.value,
                step.time_ms,
                number(step.item_ms, 3),
                number(step.fetch_pct, 1),
                number(step.rest_pct, 1),
                number(step.compute_pct, 1),
                number(step.power_w, 2),
                number(step.energy_j, 3)
            );
        }
        text += &format!("  {}\n", answer.change);
    }
    if let Some(idle) = &breakdown.idle {
        text += &format!(
            "\nEnergy over idle\n  An idle board draws {:.2} W, which is {:.0} to {:.0} % of the power in the highest mode.\n",
            idle.idle_w, idle.least_pct, idle.most_pct
        );
    }
    if let Some(variation) = &breakdown.variation {
        text += &format!(
            "\nVariation between the corpora\n  Times differ by {:.1} %{} (median of {} settings).\n",
            variation.time_pct,
            variation
                .energy_pct
                .map_or(String::new(), |pct| format!(", energies by {pct:.1} %")),
            variation.settings
        );
    }
    if !breakdown.unanswered.is_empty() {
        text += "\nNot answered\n";
        for unanswered in &breakdown.unanswered {
            text += &format!("  {}: needs {}\n", unanswered.question, unanswered.needs);
        }
    }
    text
}
