//! `fit`: from a corpus to a model file.

use std::path::PathBuf;

use clap::Args;

use super::{Failure, ShapeArgument, print_json, print_text, progress_bar, read_corpus, show};
use crate::fit::{Errors, Options, PROGRESS, Report, fit};
use crate::output::AtomicFile;

const EXAMPLE: &str = "\
Example:
  wattgate-trainer fit --corpus tx1.csv --modes 50 --seed 1 -o model.wgt

The modes that are not trained on are held out, and the errors reported are those on them.
Without --modes all profiled modes are used and none is held out; more than 5000 are
refused. A corpus without power
gives a model of time alone. The same seed gives the same file on the same machine.

With --json: {\"kind\", \"device\", \"workload\", \"seed\", \"modes_used\", \"modes_held_out\",
\"modes_in_grid\", \"shape\", \"teacher\": {\"time_mape\", \"power_mape\"}, \"student\": {…},
\"exported\": {…}, \"left_out\": {…}, \"coverage\": [{\"confidence\", \"power\"}], \"bytes\",
\"seconds\"}; errors in percent, null where nothing was held out.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    training: Training,
    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// On what and how to train; shared by the commands that do.
#[derive(Debug, Args)]
pub struct Training {
    /// Profiled modes, as CSV
    #[arg(long, value_name = "FILE")]
    pub corpus: PathBuf,
    /// Modes to train on, drawn at random [default: all]
    #[arg(long, value_name = "N")]
    pub modes: Option<usize>,
    /// Seed of the drawing and the training
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Widths of the hidden layers of the exported network
    #[arg(long, value_name = "WIDTHS", value_enum, default_value = "32")]
    pub hidden: ShapeArgument,
}

impl Training {
    pub fn options(&self) -> Options {
        Options {
            modes: self.modes,
            seed: self.seed,
            shape: self.hidden.0,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (path, output) = (&arguments.training.corpus, &arguments.output);
    let same = path.canonicalize().ok().zip(output.canonicalize().ok());
    if same.is_some_and(|(corpus, output)| corpus == output) {
        let path = output.clone();
        return Err(Failure::OutputIsCorpus { path });
    }
    let output = AtomicFile::create(output)?;
    let corpus = read_corpus(path)?;
    let progress = progress_bar(PROGRESS);
    let result = fit(&corpus, &arguments.training.options(), &progress);
    progress.finish_and_clear();
    let fit = result.map_err(|why| Failure::Fit {
        path: path.clone(),
        why,
    })?;
    output.commit(&fit.bytes)?;
    if arguments.json {
        print_json(&fit.report)
    } else {
        let target = arguments.output.display();
        print_text(&format!("{}wrote {target}\n", text(&fit.report)))
    }
}

fn text(report: &Report) -> String {
    let mut text = format!(
        "{}: {} on {}\n{} modes used, {} held out, {} in the grid\n",
        report.kind,
        report.workload,
        report.device,
        report.modes_used,
        report.modes_held_out,
        report.modes_in_grid
    );
    let row = |name: &str, errors: &Errors| {
        let (time, power) = (
            show::percent(errors.time_mape),
            show::percent(errors.power_mape),
        );
        format!("{name:<34}{time:>10}{power:>10}\n")
    };
    text += &format!(
        "{:<34}{:>10}{:>10}\n",
        "mean absolute percentage error", "time", "power"
    );
    if report.modes_held_out > 0 {
        text += &row("  teacher, held-out modes", &report.teacher);
        text += &row("  student before rounding", &report.student);
        text += &row("  exported file through the runtime", &report.exported);
    }
    text += &row("  modes used, each left out in turn", &report.left_out);
    for coverage in &report.coverage {
        if [0.9, 0.95, 0.99].contains(&coverage.confidence) {
            text += &format!(
                "guard band at {:.0} %: holds for {:.1} % of the held-out powers\n",
                100.0 * coverage.confidence,
                100.0 * coverage.power
            );
        }
    }
    let (shape, bytes, seconds) = (&report.shape, report.bytes, report.seconds);
    text += &format!("hidden layers {shape}, {bytes} bytes, {seconds:.1} s\n");
    text
}
