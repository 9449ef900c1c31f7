//! `deadlines`: random deadlines, and what they cost.

mod page;

use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::options::number;
use crate::output::{print, print_json};
use wattgate_cli::arguments;
use wattgate_cli::output::AtomicFile;
use wattgate_judge::deadlines::{Case, cases, courses};
use wattgate_simulated_board::workload::Workload;

const USAGE: &str = "\
Give the daemon random deadlines under random limits, and compare with the best mode of the board's truth

Usage: wattgate-simulator deadlines [options]

Options:
  --cases N         Number of cases [200]
  --seed N          The first case [1]
  --weights DIR     Folder of the models [weights]
  --workload W      The workload that runs; the models are those of resnet18 [resnet18]
  --json            Print JSON: an array of cases
  -o, --page FILE   Also run one training under three aims on two boards, and write a page with figures
  -h, --help        Print this

A case is a board, a unit of it, a limit, the objective least-power or least-energy, and a deadline of a step or of all
steps of 5 to 20 minutes, at 1.05 to 2.5 times the time of the fastest step within 95 % of the limit. The daemon is
told the steps that are done. The cost is the power, or the energy until the deadline, over the least with which some mode
meets the deadline within the limit. The idle board counts: it waits for the next step in its mode, and rests in the mode of
least power once all steps are done. `over` is the longest time at a stretch in which the mean power of 430 ms was above the limit. It
is the true power: on a unit whose sensor reads low by more than its typical error, a little over is not seen.
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut count, mut seed, mut json, mut page) = (200, 1, false, None);
    let mut weights = PathBuf::from("weights");
    let mut workload = Workload::named("resnet18")?;
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("cases") => count = number("--cases", &mut arguments, 1)?,
            Arg::Long("seed") => seed = arguments::number(&mut arguments, "--seed")?,
            Arg::Long("weights") => weights = PathBuf::from(arguments.value()?),
            Arg::Long("workload") => {
                workload = Workload::named(&arguments.value()?.string()?)?;
            }
            Arg::Long("json") => json = true,
            Arg::Short('o') | Arg::Long("page") => page = Some(PathBuf::from(arguments.value()?)),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let file = page.as_deref().map(AtomicFile::create).transpose()?;
    let cases = cases(&weights, &workload, count, seed)?;
    if let Some(file) = file {
        let page = page::page(&courses(&weights)?, &cases, &text(&cases));
        let page = page.map_err(|why| Failure::Plot(why.to_string()))?;
        file.commit(page.as_bytes())?;
    }
    match json {
        true => print_json(serde_json::to_string_pretty(&cases)),
        false => print(&text(&cases)),
    }
}

fn text(cases: &[Case]) -> String {
    let mut text = format!(
        "simulated\n{:<32}{:>7}{:>8}{:>11}{:>14}{:>12}{:>10}{:>9}\n",
        "", "cases", "met, %", "used, mean", "<= 1.05 x, %", "cost, mean", "worst", "over, s"
    );
    let mut line = |name: String, chosen: &[&Case]| {
        if chosen.is_empty() {
            return;
        }
        let n = chosen.len() as f64;
        let share = |holds: fn(&Case) -> bool| {
            100.0 * chosen.iter().filter(|it| holds(it)).count() as f64 / n
        };
        let mean = |figure: fn(&Case) -> f64| chosen.iter().map(|it| figure(it)).sum::<f64>() / n;
        let most =
            |figure: fn(&Case) -> f64| chosen.iter().map(|it| figure(it)).fold(0.0, f64::max);
        text += &format!(
            "{name:<32}{:>7}{:>8.1}{:>11.3}{:>14.1}{:>12.3}{:>10.3}{:>9.2}\n",
            chosen.len(),
            share(Case::is_met),
            mean(|it| it.used),
            share(|it| it.cost <= 1.05),
            mean(|it| it.cost),
            most(|it| it.cost),
            most(|it| it.longest_over_s),
        );
    };
    for objective in ["least-power", "least-energy"] {
        for deadline in ["step", "work"] {
            for (unit, is_profiled) in [("profiled unit", true), ("another unit", false)] {
                let chosen: Vec<&Case> = cases
                    .iter()
                    .filter(|it| (it.objective, it.deadline) == (objective, deadline))
                    .filter(|it| it.is_profiled == is_profiled)
                    .collect();
                line(format!("{objective}, {deadline}, {unit}"), &chosen);
            }
        }
    }
    line("all".to_owned(), &cases.iter().collect::<Vec<_>>());
    let predicted = cases.iter().filter_map(|it| it.predicted);
    let mut off: Vec<f64> = predicted.map(|it| 100.0 * (it - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    if let Some(worst) = off.last() {
        let mean = off.iter().sum::<f64>() / off.len() as f64;
        let within = off.iter().filter(|it| **it <= 5.0).count();
        text += &format!(
            "\nenergy until the deadline of all steps, profiled units, predicted before the start: off by {mean:.1} % in the \
             mean, {worst:.1} % at most; within 5 % in {within} of {} cases\n",
            off.len()
        );
    }
    text
}
