//! `dynamics`: recorded power over time beside simulated loads.

mod page;

use std::fmt::Write as _;
use std::path::PathBuf;

use lexopt::{Arg, Parser};

use crate::failure::Failure;
use crate::output::print;
use wattgate_cli::output::AtomicFile;
use wattgate_judge::dynamics::comparison::{Figure, Lag, LoadRow, OFF, Row};
use wattgate_judge::dynamics::trace::Phase;
use wattgate_judge::dynamics::{Comparison, Trace};

const USAGE: &str = "\
Compare how the power of simulated loads moves with how recorded boards moved, and the simulated sensor with theirs

Usage: wattgate-simulator dynamics TRACE.csv... [options]

Options:
  -o, --page FILE  Also write a page with figures
  -h, --help       Print this

A trace has the power of a real board over time, with the columns of one of the files that tools/simulator/README.md names. The
loads that stand for what was recorded are played on a simulated board of the kind and in the mode, and the simulated sensor is
polled at the recorded period. The same figures are taken of both:

  duration     of a phase, s
  power        mean while the board waits, in % of that of the full load (decode, training, or else prefill)
  level        mean power above idle, in % of that of the full load
  ripple       standard deviation of the readings without a fitted line, in % of their mean
  peak, drift  highest power above the mean, and change over the phase by the line, in % of the span from idle to full load
  correlation  time until the autocorrelation of the readings has fallen to 1/e, s
  below 0.8 s  share of the variance with periods below 0.8 s, %
  rise, fall   time from 10 to 90 % of a change into work and out of it, s
  change       largest change within a time, in % of the span

The first 2 s and the last 0.5 s of a phase do not count, but for its duration. For peak, rise, fall and change the lag of the sensor
is undone where polls are at most 0.2 s apart: power = reading + 0.43 s x slope. A figure is off if it is below half of the lowest
or above twice the highest that was recorded.

The last tables have all loads on the board of the first trace, and the time constant of the sensor, fitted to the decays after
steps of the power.
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut paths, mut page) = (Vec::new(), None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Value(path) => paths.push(PathBuf::from(path)),
            Arg::Short('o') | Arg::Long("page") => page = Some(PathBuf::from(arguments.value()?)),
            argument => return Err(argument.unexpected().into()),
        }
    }
    if paths.is_empty() {
        return Err(Failure::Missing("TRACE.csv; name a file of recorded power"));
    }
    let traces = paths.iter().map(|path| Trace::read(path));
    let traces = traces.collect::<Result<_, _>>()?;
    let file = page.as_deref().map(AtomicFile::create).transpose()?;
    let comparison = Comparison::new(traces)?;
    let text = text(&comparison);
    if let Some(file) = file {
        let page = page::page(&comparison, &text);
        let page = page.map_err(|why| Failure::Plot(why.to_string()))?;
        file.commit(page.as_bytes())?;
    }
    print(&text)
}

fn text(comparison: &Comparison) -> String {
    // Writing to a string cannot fail.
    let mut text = String::new();
    let (mut count, mut off) = (0, 0);
    for group in &comparison.groups {
        let name = group.name();
        let _ = writeln!(
            text,
            "## {name}: {} recorded runs\n\n\
             | load | phase | figure | recorded, lowest | median | highest | number | simulated | ratio | |\n\
             |---|---|---|---|---|---|---|---|---|---|",
            group.recorded.len()
        );
        for row in &group.rows {
            count += 1;
            off += usize::from(row.is_off());
            line(&mut text, row);
        }
        text.push('\n');
    }
    text += "## All loads\n\n| load ";
    for within in [0, 1, 2] {
        let _ = write!(text, "| {} ", Figure::Change(within).name());
    }
    text += "| near idle, % | near full load, % | |\n|---|---|---|---|---|---|---|\n";
    for load in &comparison.loads {
        let LoadRow { changes, near, .. } = load;
        let _ = write!(text, "| {} ", load.name);
        for value in changes.iter().chain(near) {
            let _ = write!(text, "| {value:.0} ");
        }
        let _ = writeln!(text, "| {} |", mark(load.is_off));
    }
    text += "\n## The sensor\n\n\
        | sensor | setting, s | decays | time constant, s | quartiles | renewed polls, % |\n\
        |---|---|---|---|---|---|\n";
    for group in &comparison.groups {
        for (kind, lag) in ["recorded", "simulated"].into_iter().zip(group.lags) {
            sensor(&mut text, &format!("{}, {kind}", group.name()), 0.43, lag);
        }
    }
    for (samples, nominal_s, lag) in &comparison.samples {
        let name = format!("simulated, {samples} samples, polled each 11.6 ms");
        sensor(&mut text, &name, *nominal_s, *lag);
    }
    let _ = writeln!(
        text,
        "\n{off} of {count} figures are off: below 1/{OFF} of the lowest or above {OFF} times the highest recorded one"
    );
    text
}

const fn mark(is_off: bool) -> &'static str {
    if is_off { "off" } else { "" }
}

fn line(text: &mut String, row: &Row) {
    let (phase, figure) = row.key;
    let [low, median, high] = row.recorded;
    let digits = figure.digits();
    let _ = writeln!(
        text,
        "| {} | {} | {} | {low:.digits$} | {median:.digits$} | {high:.digits$} | {} | {:.digits$} | {:.2} | {} |",
        row.kind.name(),
        phase.map_or("", Phase::name),
        figure.name(),
        row.count,
        row.simulated,
        row.ratio(),
        mark(row.is_off())
    );
}

fn sensor(text: &mut String, name: &str, nominal_s: f64, lag: Option<Lag>) {
    let Some(lag) = lag else {
        let _ = writeln!(text, "| {name} | {nominal_s:.3} | 0 | | | |");
        return;
    };
    let [low, middle, high] = lag.quartiles_s;
    let _ = writeln!(
        text,
        "| {name} | {nominal_s:.3} | {} | {middle:.3} | {low:.3} … {high:.3} | {:.0} |",
        lag.count,
        100.0 * lag.renewed
    );
}
