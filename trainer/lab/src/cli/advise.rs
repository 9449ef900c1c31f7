//! `advise`: what would make a training faster under a power limit.

use std::path::PathBuf;

use wattgate_cli::quantity;
use wattgate_runtime::{Milliwatts, PowerMode};

use super::inputs::{RowsArguments, read_fed};
use super::{Failure, print_json, print_text, show, values};
use crate::characterize::advice::{Advice, Choice, advise};

const EXAMPLE: &str = "\
Example:
  wattgate-lab advise --corpus fed.csv --limit 20W

The corpus has rows of several feedings: the columns minibatch, workers, fetch_ms and compute_ms tell them apart
(all optional). What was profiled in the most modes counts as the feeding of now, a later epoch before a first
one, and its fastest profiled mode within the limit as now. Workers and sizes between profiled ones are considered too. The time is that of a
sample. A change is advised if it is faster at the lower bound of its gain.

With --json: {\"version\": 1, \"kind\", \"device\", \"workload\", \"limit_w\", \"now\": CHOICE, \"fetch_pct\", \"compute_pct\",
\"single\": [{\"what\": \"workers\"|\"minibatch\"|\"mode\", \"choice\": CHOICE, \"is_within_limit\"}], \"best\": CHOICE, \"sure\",
\"unsure\"}; a CHOICE is {\"knobs\", \"workers\", \"minibatch\", \"item_ms\", \"power_w\", \"power_at_most_w\", \"gain\",
\"gain_bounds\", \"is_profiled\"}; best is null if nothing is surely faster.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// Profiled modes of a workload, fed in one or several ways
    #[arg(long, value_name = "CORPUS")]
    corpus: PathBuf,
    #[command(flatten)]
    rows: RowsArguments,
    /// Upper limit of the power, with its unit: 20W
    #[arg(long, value_name = "POWER", value_parser = quantity::power)]
    limit: Milliwatts,
    /// Seed of the models
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = &arguments.corpus;
    let fed = read_fed(path, arguments.rows.reading())?;
    let limit_w = f64::from(arguments.limit.0) / 1e3;
    let advice = advise(&fed, limit_w, arguments.seed).map_err(|why| Failure::Advice {
        path: path.clone(),
        why,
    })?;
    match arguments.json {
        true => print_json(&advice),
        false => print_text(&text(&advice)),
    }
}

fn text(advice: &Advice) -> String {
    let Advice {
        kind,
        device,
        workload,
        limit_w,
        now,
        ..
    } = advice;
    let mut text = format!("{kind}: {workload} on {device} under {limit_w} W\n\n");
    text += &format!(
        "Now: {}{}.\n  {:.3} ms {}, {:.2} W, profiled.\n",
        mode(now),
        feeding(now),
        now.item_ms,
        per(now),
        now.power_w
    );
    if let Some(fetch) = advice.fetch_pct {
        let whom = match now.workers {
            Some(0) => "for the main process to load".to_owned(),
            Some(1) => "for one loader worker".to_owned(),
            Some(workers) => format!("for {workers} loader workers"),
            None => "for the loader".to_owned(),
        };
        text += &format!("  {fetch:.0} % of the step waits {whom}");
        text += &match advice.compute_pct {
            Some(compute) => format!("; the GPU computes for {compute:.0} % of it.\n"),
            None => ".\n".to_owned(),
        };
    }
    if !advice.single.is_empty() {
        text += "\nOne change alone:\n";
    }
    for single in &advice.single {
        let choice = &single.choice;
        let what = match single.what {
            "workers" => workers(choice.workers.unwrap_or_default()),
            "minibatch" => format!("minibatch {}", choice.minibatch.unwrap_or_default()),
            _ => mode(choice),
        };
        let limit = match single.is_within_limit {
            true => "",
            false => "; that may exceed the limit",
        };
        text += &format!("  {what}: {}{limit}.\n", gain(choice, now));
    }
    text += "\n";
    text += &match &advice.best {
        Some(best) => format!(
            "Best under {limit_w} W: {}{}.\n  {}; {:.3} ms {}, {:.2} W, at most {:.2} W with 95 %.\n",
            mode(best),
            feeding(best),
            gain(best, now),
            best.item_ms,
            per(best),
            best.power_w,
            best.power_at_most_w
        ),
        None => "Best: as it is now. Nothing is surely faster.\n".to_owned(),
    };
    for (title, lines) in [("Sure", &advice.sure), ("Not sure", &advice.unsure)] {
        if !lines.is_empty() {
            text += &format!("\n{title}:\n");
            lines.iter().for_each(|line| text += &format!("  {line}\n"));
        }
    }
    text
}

fn mode(choice: &Choice) -> String {
    show::mode(PowerMode::from_knobs(choice.knobs))
}

fn feeding(choice: &Choice) -> String {
    let mut text = String::new();
    if let Some(number) = choice.workers {
        text += &format!(", {}", workers(number));
    }
    if let Some(minibatch) = choice.minibatch {
        text += &format!(", minibatch {minibatch}");
    }
    text
}

fn workers(number: u32) -> String {
    match number {
        1 => "1 worker".to_owned(),
        number => format!("{number} workers"),
    }
}

fn per(choice: &Choice) -> &'static str {
    match choice.minibatch {
        Some(_) => "a sample",
        None => "a step",
    }
}

/// How fast a choice is, and what it draws.
fn gain(choice: &Choice, now: &Choice) -> String {
    let more = choice.power_w - now.power_w;
    let power = match more >= 0.0 {
        true => format!("{more:.1} W more"),
        false => format!("{:.1} W less", -more),
    };
    format!(
        "{:.2} times as fast ({:.2} … {:.2}) at {power}",
        choice.gain, choice.gain_bounds[0], choice.gain_bounds[1]
    )
}
