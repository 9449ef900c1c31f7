//! `kernels fit`: learns the kernels of a board and writes their models.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use wattgate_cli::output::AtomicFile;

use super::{CorporaArgument, TuningArgument};
use crate::cli::{Failure, print_json, print_text, progress_bar, values};
use crate::kernels::models::{KernelModels, fit, steps};
use wattgate_trainer::cli::inputs::refuse_input;

const EXAMPLE: &str = "\
Example:
  wattgate-lab kernels fit --corpus kernels.csv -o kernels.wgk
  wattgate-lab compose --kernels kernels.wgk --network resnet50.onnx --board xavier-agx -o resnet50.wgt

Time and power of each kernel are learned from all units, and five times more without a fifth of the units,
which shows how far a unit may lie that nobody measured. So at least two units are needed. Kernels with fewer
than 30 rows are skipped.

With --json: {\"version\": 1, \"kind\", \"device\", \"units\", \"rows\", \"kernels\": [{\"kernel\", \"unit_time_pct\",
\"unit_power_pct\"}], \"bytes\"}; how far units lie from models that have not seen them, as root mean squares
of the units' mean errors in percent.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    corpora: CorporaArgument,
    #[command(flatten)]
    tuning: TuningArgument,
    /// Seed of the parts and of the learner
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// The file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    kind: &'static str,
    device: String,
    units: usize,
    rows: u64,
    kernels: Vec<OfKernel>,
    bytes: usize,
}

#[derive(Serialize)]
struct OfKernel {
    kernel: &'static str,
    unit_time_pct: f64,
    unit_power_pct: f64,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let inputs = arguments.corpora.paths().chain(arguments.tuning.file());
    let inputs: Vec<Option<&Path>> = inputs.map(Some).collect();
    refuse_input(&arguments.output, &inputs)?;
    let file = AtomicFile::create(&arguments.output)?;
    let corpus = arguments.corpora.read()?;
    let tuned = arguments.tuning.tuned()?;
    let progress = progress_bar(steps(&corpus, &tuned));
    let bar = progress.clone().with_message("train");
    let result = fit(&corpus, &tuned, arguments.seed, &bar);
    progress.finish_and_clear();
    let models = result.map_err(|why| arguments.corpora.failed(why))?;
    let bytes = models.encode();
    file.commit(&bytes)?;
    let report = report(&models, bytes.len());
    match arguments.json {
        true => print_json(&report),
        false => print_text(&text(&report, &arguments.output)),
    }
}

fn report(models: &KernelModels, bytes: usize) -> Report {
    let kernels = models.kinds().map(|kind| {
        let errors = models
            .for_kind(kind)
            .map_or(&[][..], |model| model.errors());
        let rms = |error_at: &dyn Fn(usize) -> f64| {
            let square: f64 = (0..errors.len()).map(|at| error_at(at).powi(2)).sum();
            100.0 * (square / errors.len() as f64).sqrt()
        };
        OfKernel {
            kernel: kind.name(),
            unit_time_pct: rms(&|at| errors[at].time[0]),
            unit_power_pct: rms(&|at| errors[at].power[0]),
        }
    });
    Report {
        kind: match models.is_simulated {
            true => "simulated",
            false => "measured",
        },
        device: models.device.clone(),
        units: models.units.len(),
        rows: models.rows,
        kernels: kernels.collect(),
        bytes,
    }
}

fn text(report: &Report, output: &Path) -> String {
    let mut text = format!(
        "{}, {}: {} rows of {} units\n\n{:<20}{:>12}{:>12}\n",
        report.device, report.kind, report.rows, report.units, "units differ by", "time", "power"
    );
    for row in &report.kernels {
        text += &format!(
            "{:<20}{:>10.2} %{:>10.2} %\n",
            row.kernel, row.unit_time_pct, row.unit_power_pct
        );
    }
    text + &format!("wrote {}, {} bytes\n", output.display(), report.bytes)
}
