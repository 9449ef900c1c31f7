//! `clocks`: pinned clocks beside capped ones.

use std::fmt::Write as _;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{boards_and_workloads, paragraphs};
use crate::options::number;
use crate::output::{print, print_json};
use wattgate_board_tables::Board;
use wattgate_judge::capped::{Capped, Figures, capped};
use wattgate_simulated_board::workload::Workload;

const USAGE: &str = "\
Set modes with clocks = \"pin\" and with clocks = \"cap\", and compare time, power and idle power

Usage: wattgate-simulator clocks [options]

Options:
  --board NAME          The board [xavier-agx]
  --workload NAME|FILE  The workload [resnet18]
  --modes N             Modes of its true front, from the slowest to the fastest [5]
  --json                Print JSON: an array of modes with figures
  -h, --help            Print this

The kernel lowers a capped clock of the GPU until its load is 70 %, as nvhost_podgov does, and one of CPU cores without a
process to the lowest. Real boards differ; `wattgate profile --caps` measures both ways where it runs.

";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, &boards_and_workloads()])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut board, mut workload) = ("xavier-agx".to_owned(), "resnet18".to_owned());
    let (mut modes, mut json) = (5, false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => board = arguments.value()?.string()?,
            Arg::Long("workload") => workload = arguments.value()?.string()?,
            Arg::Long("modes") => modes = number("--modes", &mut arguments, 1)?,
            Arg::Long("json") => json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let all = capped(
        &Board::named(&board)?,
        &Workload::named(&workload)?,
        modes as usize,
    )?;
    match json {
        true => print_json(serde_json::to_string_pretty(&all)),
        false => print(&text(&all)),
    }
}

fn text(all: &[Capped]) -> String {
    let mut text = format!(
        "simulated; pinned, and by how much capped clocks differ\n{:<34}{:>10}{:>8}{:>10}{:>8}{:>10}{:>8}\n",
        "cores, CPU, GPU, EMC in MHz", "time, ms", "%", "power, W", "%", "idle, W", "%"
    );
    for Capped {
        mode,
        pinned,
        capped,
        ..
    } in all
    {
        let [cores, cpu, gpu, emc] = *mode;
        let mhz = |khz: u32| f64::from(khz) / 1e3;
        let off = |figure: fn(&Figures) -> f64| 100.0 * (figure(capped) / figure(pinned) - 1.0);
        let mode = format!("{cores}, {:.0}, {:.0}, {:.0}", mhz(cpu), mhz(gpu), mhz(emc));
        let line = writeln!(
            text,
            "{mode:<34}{:>10.1}{:>+8.1}{:>10.2}{:>+8.1}{:>10.2}{:>+8.1}",
            pinned.time_ms,
            off(|it| it.time_ms),
            pinned.power_w,
            off(|it| it.power_w),
            pinned.idle_w,
            off(|it| it.idle_w)
        );
        line.expect("a string takes all text");
    }
    text
}
