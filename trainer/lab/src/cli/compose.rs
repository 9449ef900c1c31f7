//! `compose`: a model file of a network from the models of its kernels.

use std::path::PathBuf;
use std::time::Instant;

use clap::{Args, ValueEnum};
use serde::Serialize;
use wattgate_cli::output::AtomicFile;
use wattgate_runtime::{Model, PowerMode};

use super::inputs::{BlankArgument, BoardArgument, off_grid, read_corpus, refuse_input, set_grid};
use super::{Failure, ShapeArgument, cli, print_json, print_text, progress_bar, show, values};
use crate::kernels::models::KernelModels;
use crate::networks::compose::{Composed, Composer};
use crate::networks::explain::{Explanation, calls_csv};
use crate::networks::fit::{Network, NetworkFitError, NetworkOptions, Unknown, fastest, fit, grid};
use crate::networks::graph::Graph;
use crate::networks::lower::{Engine, lower};
use wattgate_trainer::fit::EXPORT_PROGRESS;
use wattgate_trainer::read::is_name;
use wattgate_trainer::score::Errors;

const EXAMPLE: &str = "\
Examples:
  wattgate-lab compose --kernels kernels.wgk --network resnet50.onnx --board xavier-agx -o resnet50.wgt
  wattgate-lab compose --kernels kernels.wgk --network resnet50.onnx --board xavier-agx \\
    --corpus ten-modes.csv -o resnet50.wgt

The network is read from the ONNX file; weights are not looked at. Each operator becomes a call of one of
eight kernels (`kernels --help`). Their times, queued behind their launches, and their energies give time and
power of a batch in every mode of the board. The guard band is as wide as units lie from models that have not
seen them. No mode need be profiled; with --corpus a few that were correct the sum.

  --engine pytorch   a kernel for each operator
  --engine tensorrt  BatchNormalization, additions and activations are part of the convolution before
                     them, neighbouring elementwise operators are one, Concat costs nothing

Operators that are none of the kernels are counted as the kernel that moves as many bytes, and named with
their share of the time. Control flow is refused.

The numbers of cores are those with which the kernels were measured.

With --json: {\"version\": 1, \"kind\", \"device\", \"workload\", \"engine\", \"batch\", \"calls\", \"unknown\":
[{\"operator\", \"share_pct\"}], \"modes\", \"modes_used\", \"fastest\": {\"mode\", \"time_ms\", \"sum_ms\", \"power_mw\",
\"energy_mj\"}, \"error\": {\"time_mape\", \"power_mape\"}, \"bytes\", \"seconds\", \"explanation\": {\"mode\", \"kernels\":
[PART], \"layers\": [PART]}}; a PART is {\"name\", \"kernel\", \"operators\", \"calls\", \"time_ms\", \"energy_mj\"}.
sum_ms is the plain sum of the calls' times. `explanation` is null without --explain.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// The kernels' models: a file of `kernels fit`
    #[arg(long, value_name = "FILE")]
    kernels: PathBuf,
    /// The network, as ONNX
    #[arg(long, value_name = "FILE")]
    network: PathBuf,
    /// Samples in a batch [default: as in the file]
    #[arg(long, value_name = "B", value_parser = values::whole::<u32>(1, 4096))]
    batch: Option<u32>,
    /// How the network is run
    #[arg(long, value_name = "NAME", value_enum, default_value = "pytorch")]
    engine: EngineName,
    #[command(flatten)]
    board: BoardArgument,
    /// Profiled modes of the network, to correct the sum
    #[arg(long, value_name = "CORPUS")]
    corpus: Option<PathBuf>,
    #[command(flatten)]
    blank: BlankArgument,
    /// Name of the workload in the model [default: the file's]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    workload: Option<String>,
    /// Largest share of the time, in percent, of operators that are none of the kernels
    #[arg(long, value_name = "PERCENT", default_value_t = 10.0)]
    most_unknown: f64,
    /// Print time and energy by kernel and by layer
    #[arg(long)]
    explain: bool,
    /// Draw them, as SVG
    #[arg(long, value_name = "FILE")]
    figure: Option<PathBuf>,
    /// The mode of both [default: the highest value of each knob]
    #[arg(long, value_name = "CORES,CPU,GPU,EMC", value_parser = values::mode)]
    mode: Option<PowerMode>,
    /// Write the kernel calls, as CSV
    #[arg(long, value_name = "FILE")]
    calls: Option<PathBuf>,
    /// Seed of the training
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// Widths of the hidden layers of the exported network
    #[arg(long, value_name = "WIDTHS", value_enum, default_value = "32")]
    hidden: ShapeArgument,
    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum EngineName {
    /// A kernel for each operator
    Pytorch,
    /// Fused kernels
    Tensorrt,
}

#[derive(Serialize)]
struct Report<'a> {
    kind: &'static str,
    device: &'a str,
    workload: &'a str,
    engine: &'static str,
    batch: u32,
    calls: usize,
    unknown: &'a [Unknown],
    modes: usize,
    modes_used: usize,
    fastest: OfMode,
    error: Errors,
    bytes: usize,
    seconds: f64,
    explanation: Option<&'a Explanation>,
}

#[derive(Serialize)]
struct OfMode {
    mode: [u32; 4],
    time_ms: f64,
    sum_ms: f64,
    power_mw: f64,
    energy_mj: f64,
}

impl OfMode {
    fn new(mode: [u32; 4], composed: &Composed) -> Self {
        Self {
            mode,
            time_ms: composed.time_ms,
            sum_ms: composed.sum_ms,
            power_mw: composed.power_mw(),
            energy_mj: composed.energy_mj,
        }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let start = Instant::now();
    let inputs = [
        Some(&*arguments.kernels),
        Some(&*arguments.network),
        arguments.corpus.as_deref(),
        arguments.board.file(),
    ];
    let outputs = [
        Some(&arguments.output),
        arguments.figure.as_ref(),
        arguments.calls.as_ref(),
    ];
    for output in outputs.into_iter().flatten() {
        refuse_input(output, &inputs)?;
    }
    let file = AtomicFile::create(&arguments.output)?;
    let figure = arguments.figure.as_deref().map(AtomicFile::create);
    let figure = figure.transpose()?;
    let calls = arguments.calls.as_deref().map(AtomicFile::create);
    let calls = calls.transpose()?;

    let of_network = |why| Failure::Network {
        path: arguments.network.clone(),
        why,
    };
    let failed = |why: NetworkFitError| Failure::NetworkFit {
        path: arguments.network.clone(),
        why,
    };
    let graph = Graph::read(&arguments.network, arguments.batch).map_err(Failure::NetworkFile)?;
    let (engine, engine_name) = match arguments.engine {
        EngineName::Pytorch => (Engine::PyTorch, "pytorch"),
        EngineName::Tensorrt => (Engine::TensorRt, "tensorrt"),
    };
    let layers = lower(&graph, engine).map_err(of_network)?;
    let models = KernelModels::read(&arguments.kernels)?;
    let board = arguments.board.read()?.ok_or(cli::Failure::BoardMissing)?;
    if let Some(device) = board.device.filter(|device| *device != models.device) {
        let kernels = models.device.clone();
        let board = device;
        return Err(failed(NetworkFitError::OtherBoard { kernels, board }));
    }
    let (grid, profiled) = grid(&models, &board.grid).map_err(failed)?;
    let corpus = match &arguments.corpus {
        Some(path) => {
            let mut corpus = read_corpus(path, arguments.blank.meaning())?;
            set_grid(&mut corpus, path, &grid)?;
            Some(corpus)
        }
        None => None,
    };
    let shown = arguments.mode.map_or(fastest(&grid), PowerMode::knobs);
    if let Some(why) = off_grid(&grid, shown) {
        return Err(Failure::Input(cli::Failure::NotOfModel {
            path: arguments.kernels.clone(),
            mode: show::mode(PowerMode::from_knobs(shown)),
            why,
        }));
    }
    let composer = Composer::new(&models, &layers);
    let composer = composer.map_err(|why| failed(why.into()))?;
    let network = Network::compose(&models, &composer, grid.clone());
    let shares = network.shares();
    shares
        .refuse_unknown(arguments.most_unknown)
        .map_err(failed)?;
    let workload = match &arguments.workload {
        Some(name) => name.clone(),
        None => workload_of(arguments),
    };
    let options = NetworkOptions {
        workload: &workload,
        batch: graph.batch,
        profiled,
        seed: arguments.seed,
        shape: arguments.hidden.0,
    };
    let progress = progress_bar(EXPORT_PROGRESS);
    let result = fit(&network, corpus.as_ref(), &options, &progress);
    progress.finish_and_clear();
    let fitted = result.map_err(failed)?;
    let error = fitted.exported.expected_errors;
    let bytes = fitted.exported.encode(0, &error);
    Model::parse(&bytes).map_err(|why| failed(why.into()))?;

    let wanted = arguments.explain || figure.is_some();
    let explanation =
        wanted.then(|| Explanation::from_composer(&composer, models.known_knobs(shown)));
    let report = Report {
        kind: match models.is_simulated {
            true => "simulated",
            false => "measured",
        },
        device: &models.device,
        workload: &workload,
        engine: engine_name,
        batch: graph.batch,
        calls: layers.len(),
        unknown: &shares.unknown,
        modes: network.composed().len(),
        modes_used: fitted.modes_used,
        fastest: OfMode::new(
            fastest(&grid),
            network.composed().last().expect("a grid has modes"),
        ),
        error,
        bytes: bytes.len(),
        seconds: start.elapsed().as_secs_f64(),
        explanation: explanation.as_ref().filter(|_| arguments.explain),
    };
    if let (Some(figure), Some(explanation)) = (figure, &explanation) {
        let title = format!(
            "{workload} on {}, {}: {}",
            report.device,
            report.kind,
            show::mode(PowerMode::from_knobs(shown))
        );
        let drawn = explanation
            .svg(&title)
            .map_err(|why| Failure::Figure { why });
        figure.commit(drawn?.as_bytes())?;
    }
    if let Some(calls) = calls {
        calls.commit(calls_csv(&layers).as_bytes())?;
    }
    file.commit(&bytes)?;
    match arguments.json {
        true => print_json(&report),
        false => print_text(&text(&report, arguments)),
    }
}

/// The file's name without its ending, with the characters that a corpus takes.
fn workload_of(arguments: &Arguments) -> String {
    let stem = arguments.network.file_stem().unwrap_or_default();
    let name: String = stem.to_string_lossy().chars().take(64).collect();
    match is_name(&name) {
        true => name,
        false => "network".to_owned(),
    }
}

fn text(report: &Report<'_>, arguments: &Arguments) -> String {
    let mut text = format!(
        "{}: {} on {}, batches of {}, run by {}\n{} kernel calls, {} modes, {} of them profiled\n",
        report.kind,
        report.workload,
        report.device,
        report.batch,
        report.engine,
        report.calls,
        report.modes,
        report.modes_used
    );
    for stand_in in report.unknown {
        text += &format!(
            "{}: none of the kernels, a stand-in takes {:.1} % of the time\n",
            stand_in.operator, stand_in.share_pct
        );
    }
    let fastest = &report.fastest;
    text += &format!(
        "{}: {:.3} ms, {:.3} W, {:.1} mJ a batch; the plain sum of the calls is {:.3} ms\n",
        show::mode(PowerMode::from_knobs(fastest.mode)),
        fastest.time_ms,
        fastest.power_mw / 1e3,
        fastest.energy_mj,
        fastest.sum_ms
    );
    let basis = match report.modes_used {
        0 => "as far as units differ that were left out in turn, and by composing",
        _ => "over all modes",
    };
    text += &format!(
        "expected errors, {basis}: time {}, power {}\n",
        show::percent(report.error.time_mape),
        show::percent(report.error.power_mape)
    );
    if let Some(explanation) = report.explanation {
        text += &explanation.text();
        text += "\n";
    }
    let (output, bytes) = (arguments.output.display(), report.bytes);
    text += &format!("wrote {output}, {bytes} bytes, {:.1} s\n", report.seconds);
    text
}
