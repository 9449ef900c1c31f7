//! `physics`: the simulator's physics beside measured corpora.

mod page;

use std::fmt::Write;
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{boards, paragraphs};
use crate::output::print;
use wattgate_board_tables::Board;
use wattgate_cli::output::AtomicFile;
use wattgate_judge::physics::constants::{CONSTANTS, of_board};
use wattgate_judge::physics::corpus::Corpus;
use wattgate_judge::physics::score::Errors;
use wattgate_judge::physics::{Basis, Comparison, anchors_missed, compare};

const USAGE: &str = "\
Hold the simulator's physics against measured corpora

Usage: wattgate-simulator physics CORPUS.csv... [options]

Options:
  --board NAME     The board of all corpora [the column `device` of each]
  -o, --page FILE  Write a page with figures
  -h, --help       Print this

A corpus has time and power of at least 20 modes of one workload on one board. The demand of the workload on loader,
main process, GPU and memory, how much each of them switches, and an offset of the power are fitted to 15 of its
modes, which cover the grid; all others are scored. The figures are over five plans of 15 modes.

The board's constants are today's, or refitted to 100 modes of all corpora of the board, to those of its other workloads
(`workload left out`), or to those of the other boards, scaled by the number of GPU cores, the width of the memory and
the highest clocks (`board left out`). Each time the own parameters of a workload are fitted to its 15 modes alone.

Tables: the median errors of all corpora; errors of time and power in %, median / 90 % / worst; errors of the ratio
between two random modes, and, as medians, between neighbours on the measured front; how much slower the mode that the
physics chooses under a limit is than the fastest one that draws no more, and how far it is over the limit. Then by how
much two workloads differ in what the modes do to them, what each knob does for each doubling of it, and the constants
with the deviation that the corpora leave.
";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, &boards()])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut paths, mut board, mut page) = (Vec::new(), None, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("board") => {
                let name = arguments.value()?.string()?;
                Board::named(&name)?;
                board = Some(name);
            }
            Arg::Short('o') | Arg::Long("page") => page = Some(PathBuf::from(arguments.value()?)),
            Arg::Value(path) => paths.push(PathBuf::from(path)),
            argument => return Err(argument.unexpected().into()),
        }
    }
    if paths.is_empty() {
        return Err(Failure::Missing("CORPUS.csv"));
    }
    let corpora = paths
        .iter()
        .map(|path| Corpus::read(path, board.as_deref()));
    let corpora = corpora.collect::<Result<Vec<_>, _>>()?;
    let file = page.as_deref().map(AtomicFile::create).transpose()?;
    let comparison = compare(&corpora);
    let text = text(&comparison)?;
    if let Some(file) = file {
        let page = page::page(&comparison, &text).map_err(|why| Failure::Plot(why.to_string()))?;
        file.commit(page.as_bytes())?;
    }
    print(&text)
}

fn text(comparison: &Comparison<'_>) -> Result<String, Failure> {
    let mut text = String::from("measured corpora beside the simulated physics; errors in %\n\n");
    summary(&mut text, comparison);
    errors(&mut text, comparison);
    between(&mut text, comparison);
    effects(&mut text, comparison);
    constants(&mut text, comparison);
    for refitted in &comparison.refitted {
        let [missed, all] = anchors_missed(refitted)?;
        let board = &refitted.board;
        writeln!(
            text,
            "\nwith the refitted constants of {}, {missed} of the {all} published measurements of `anchors` are missed",
            board.like.as_deref().unwrap_or(&board.name)
        )
        .expect("text");
    }
    Ok(text)
}

/// Of the median errors of all corpora the median and the highest.
fn summary(text: &mut String, comparison: &Comparison<'_>) {
    *text += "| median error of a corpus | corpora | time | power | ratio: time | ratio: power |\n|---|---|---|---|---|---|\n";
    for basis in Basis::ALL {
        let rows = comparison.rows.iter().filter(|row| row.basis == basis);
        let medians = rows.map(|row| {
            let figures = &row.figures;
            let [time, power] = figures.modes.map(|it| it.median);
            let [time_ratio, power_ratio] = figures.pairs.map(|it| it.median);
            [time, power, time_ratio, power_ratio]
        });
        let medians: Vec<[f64; 4]> = medians.collect();
        if medians.is_empty() {
            continue;
        }
        let cell = |at: usize| {
            let errors = Errors::of(medians.iter().map(|of_corpus| of_corpus[at]).collect());
            format!("{:.1}, at most {:.1}", errors.median, errors.worst)
        };
        let [time, power, time_ratio, power_ratio] = [0, 1, 2, 3].map(cell);
        writeln!(
            text,
            "| {} | {} | {time} | {power} | {time_ratio} | {power_ratio} |",
            basis.name(),
            medians.len()
        )
        .expect("text");
    }
    text.push('\n');
}

/// Median, 90 % and worst.
fn three(errors: Errors) -> String {
    format!(
        "{:.1} / {:.1} / {:.0}",
        errors.median, errors.p90, errors.worst
    )
}

fn errors(text: &mut String, comparison: &Comparison<'_>) {
    *text += "| corpus | constants | time | power | ratio: time | ratio: power | neighbours: time / power | choice: slower | choice: over |\n";
    *text += "|---|---|---|---|---|---|---|---|---|\n";
    for row in &comparison.rows {
        let figures = &row.figures;
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {:.1} / {:.1} | {} | {} |",
            row.corpus.name,
            row.basis.name(),
            three(figures.modes[0]),
            three(figures.modes[1]),
            three(figures.pairs[0]),
            three(figures.pairs[1]),
            figures.neighbours[0].median,
            figures.neighbours[1].median,
            three(figures.slower),
            three(figures.over),
        )
        .expect("text");
    }
}

fn between(text: &mut String, comparison: &Comparison<'_>) {
    if comparison.between.is_empty() {
        return;
    }
    *text += "\n| two workloads | constants | spread of the time: measured / simulated | spread of the power: measured / simulated |\n|---|---|---|---|\n";
    for pair in &comparison.between {
        let [first, second] = pair.names;
        let [measured, simulated] = [pair.measured, pair.simulated];
        writeln!(
            text,
            "| {first}, {second} | {} | {:.1} / {:.1} | {:.1} / {:.1} |",
            pair.basis.name(),
            measured[0],
            simulated[0],
            measured[1],
            simulated[1],
        )
        .expect("text");
    }
}

const KNOBS: [&str; 4] = ["cores", "CPU", "GPU", "memory"];

fn effects(text: &mut String, comparison: &Comparison<'_>) {
    *text += "\n| corpus | knob doubled | constants | time: measured / simulated | power: measured / simulated | off: time / power |\n";
    *text += "|---|---|---|---|---|---|\n";
    let shown = [Basis::Today, Basis::Refitted];
    for row in comparison
        .rows
        .iter()
        .filter(|row| shown.contains(&row.basis))
    {
        for (knob, effect) in KNOBS.iter().zip(&row.effects) {
            let Some(effect) = effect else {
                continue;
            };
            writeln!(
                text,
                "| {} | {knob} | {} | {:+.1} / {:+.1} | {:+.1} / {:+.1} | {:.1} / {:.1} |",
                row.corpus.name,
                row.basis.name(),
                effect.measured[0],
                effect.simulated[0],
                effect.measured[1],
                effect.simulated[1],
                effect.error[0],
                effect.error[1],
            )
            .expect("text");
        }
    }
}

fn constants(text: &mut String, comparison: &Comparison<'_>) {
    *text += "\n| board | constant | today | refitted | deviation, % | told by the corpora |\n|---|---|---|---|---|---|\n";
    for refitted in &comparison.refitted {
        let board = &refitted.board;
        let name = board.like.as_deref().unwrap_or(&board.name);
        let Ok(today) = Board::named(name) else {
            continue;
        };
        let values = of_board(&today).into_iter().zip(of_board(board));
        for ((constant, (today, now)), sd) in CONSTANTS.iter().zip(values).zip(&refitted.sd) {
            writeln!(
                text,
                "| {name} | {} | {today:.3} | {now:.3} | {:.0} | {} |",
                constant.name,
                100.0 * (sd.exp() - 1.0),
                if *sd < constant.sd() / 2.0 {
                    "yes"
                } else {
                    "no"
                },
            )
            .expect("text");
        }
    }
}
