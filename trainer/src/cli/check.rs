//! `check`: summarises corpora and reports defects and outliers.

use std::fmt::Write;
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use wattgate_runtime::PowerMode;

use super::inputs::RowsArguments;
use super::{Failure, print_json, print_text, reading_bar, show};
use crate::check::{Check, LISTED, TargetReport, check};

const EXAMPLE: &str = "\
Example:
  wattgate-trainer check tx1.csv tx2.csv

A corpus is a CSV file with the columns
device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw in any order, and optionally
`kind` (measured, simulated or recorded) and the feeding: `minibatch`, `workers`, `storage`, `epoch`, `fetch_ms`,
`compute_ms`. A file of several feedings has a summary of each. Repeats of a mode are allowed, a blank time or
power is unknown, and further columns are ignored. A row with neither is a defect, as it may have
been forgotten, unless its column `mark` says why, as in the corpora of `wattgate profile`.

A warning names what is probably not meant: times that look like seconds or microseconds, and clocks or powers that the
board does not have. Steps of more than a second, written in seconds, look like quick ones: see whether the line with the
fastest and the slowest step is right.

With --json: {\"version\": 1, \"files\": [{\"file\", \"kind\", \"device\", \"workload\", \"minibatch\", \"workers\",
\"storage\", \"epoch\", \"rows\",
\"modes\", \"unprofiled_modes\", \"idle_modes\", \"idle_above_load\", \"modes_in_grid\", \"axes\": [{\"name\", \"values\"}],
\"time_ms\", \"power_mw\": null or {\"modes\", \"least\", \"most\", \"repeated_modes\", \"repeat_noise_pct\",
\"contradictions\", \"repeat_outliers\", \"mode_outliers\", \"outliers\": [{\"mode\", \"of\", \"value\", \"expected\"}]},
\"warnings\", \"flat\": null or why the rows do not follow the clocks, \"defect_count\", \"defects\"}]}

The exit code is 3 if a file has defects, or rows that do not follow the clocks. Outliers and warnings are not
defects.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// Corpora to check
    #[arg(required = true, value_name = "CORPUS")]
    corpora: Vec<PathBuf>,
    #[command(flatten)]
    rows: RowsArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checks {
    files: Vec<Check>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut files = Vec::new();
    let mut failure = None;
    for path in &arguments.corpora {
        let progress = reading_bar();
        let checked = check(path, arguments.rows.reading(), &progress);
        progress.finish_and_clear();
        match checked {
            Ok(checks) => files.extend(checks),
            // Go on with the other files; the last error decides the exit code.
            Err(error) => {
                if let Some(earlier) = failure.replace(Failure::from(error)) {
                    eprintln!("error: {earlier}");
                }
            }
        }
    }
    let has_defects = files
        .iter()
        .any(|file| file.defect_count > 0 || file.flat.is_some());
    if arguments.json {
        print_json(&Checks { files })?;
    } else {
        files.iter().try_for_each(|file| print_text(&text(file)))?;
    }
    match failure {
        Some(failure) => Err(failure),
        None if has_defects => Err(Failure::Defects),
        None => Ok(()),
    }
}

fn text(check: &Check) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_text(&mut text, check);
    text
}

fn write_text(out: &mut String, check: &Check) -> std::fmt::Result {
    writeln!(out, "{}", check.file)?;
    write!(
        out,
        "  {}: {} on {}",
        check.kind, check.workload, check.device
    )?;
    if let Some(samples) = check.minibatch {
        write!(out, ", minibatch {samples}")?;
    }
    if let Some(workers) = check.workers {
        write!(out, ", {workers} loader workers")?;
    }
    if let Some(storage) = &check.storage {
        write!(out, ", on {storage}")?;
    }
    if let Some(epoch) = check.epoch {
        write!(out, ", epoch {epoch}")?;
    }
    writeln!(out)?;
    let profiled = check.modes - check.unprofiled_modes;
    write!(out, "  {} rows, {profiled} modes profiled", check.rows)?;
    let share = 100.0 * profiled as f64 / f64::from(check.modes_in_grid);
    writeln!(out, ", {share:.1} % of the grid of {}", check.modes_in_grid)?;
    if check.idle_modes > 0 {
        let above = match check.idle_above_load {
            0 => String::new(),
            above => format!("; in {above} of them above that under load, which `fit` leaves out"),
        };
        writeln!(out, "  idle power of {} modes{above}", check.idle_modes)?;
    }
    let ends = |target: &Option<TargetReport>| target.as_ref().map(|it| [it.least, it.most]);
    let spans = show::spans(ends(&check.time_ms), ends(&check.power_mw));
    if !spans.is_empty() {
        writeln!(out, "  {spans}")?;
    }
    for axis in &check.axes {
        let ends = (axis.values.first(), axis.values.last());
        if let (Some(first), Some(last)) = ends {
            let count = axis.values.len();
            writeln!(
                out,
                "  {:<8} {count:>3} values, {first} … {last}",
                axis.name
            )?;
        }
    }
    write_target(out, "time_ms", check.time_ms.as_ref())?;
    write_target(out, "power_mw", check.power_mw.as_ref())?;
    for warning in &check.warnings {
        writeln!(out, "  warning: {warning}")?;
    }
    if let Some(flat) = &check.flat {
        writeln!(out, "  {flat}")?;
    }
    match check.defect_count {
        0 if check.flat.is_some() => {}
        0 => writeln!(out, "  no defects")?,
        count => writeln!(out, "  {count} rows left out because of defects:")?,
    }
    for defect in &check.defects {
        writeln!(out, "    {defect}")?;
    }
    if check.defect_count > LISTED as u64 {
        writeln!(out, "    …")?;
    }
    Ok(())
}

fn write_target(out: &mut String, name: &str, target: Option<&TargetReport>) -> std::fmt::Result {
    let Some(target) = target else {
        return writeln!(out, "  {name:<8} not known");
    };
    let (least, most) = (target.least, target.most);
    write!(
        out,
        "  {name:<8} {:>3} modes, {least:.1} … {most:.1}",
        target.modes
    )?;
    match target.repeat_noise_pct {
        Some(noise) => writeln!(
            out,
            "; repeats of {} modes deviate by {noise:.2} % (median)",
            target.repeated_modes
        )?,
        None if target.repeated_modes > 0 => writeln!(out)?,
        None => writeln!(out, "; no repeats")?,
    }
    if !target.outliers.is_empty() {
        let (repeats, modes) = (target.repeat_outliers, target.mode_outliers);
        let mut parts = Vec::new();
        match target.contradictions {
            0 => {}
            1 => parts.push("the runs of 1 mode disagree".to_owned()),
            count => parts.push(format!("the runs of {count} modes disagree")),
        }
        if repeats + modes > 0 {
            parts.push(format!("{repeats} repeats and {modes} modes are outliers"));
        }
        writeln!(out, "           {}:", parts.join("; "))?;
    }
    for outlier in target.outliers.iter().take(5) {
        let mode = show::mode(PowerMode::from_knobs(outlier.mode));
        let (value, expected) = (outlier.value, outlier.expected);
        write!(out, "             {mode}: ")?;
        match outlier.of {
            "runs" => writeln!(
                out,
                "{value:.1} in one run, {expected:.1} in another; measure it again"
            )?,
            "repeat" => writeln!(
                out,
                "{value:.1} where its other repeats suggest {expected:.1}"
            )?,
            _ => writeln!(
                out,
                "{value:.1} where the other modes suggest {expected:.1}"
            )?,
        }
    }
    if target.outliers.len() > 5 {
        writeln!(out, "             … (--json lists up to {LISTED})")?;
    }
    Ok(())
}
