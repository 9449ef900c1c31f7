//! `fit`: trains a model on a corpus and writes it as a model file.

use std::path::{Path, PathBuf};

use clap::Args;

use super::inputs::{
    BoardArgument, RowsArguments, read_corpus, read_fed, read_references, refuse_input, set_grid,
};
use super::values::sizes;
use super::{
    Failure, SamplingArgument, ShapeArgument, print_json, print_text, progress_bar, show, values,
};
use crate::corpus::fed::Feeding;
use crate::corpus::plausible::remarks;
use crate::corpus::{Corpus, Profile};
use crate::fit::{Contradiction, FitError, FitOptions, LeftAside, LeftIdle, Report, fit};
use crate::learn::fleet::join;
use crate::learn::predictions::{Errors, Target};
use crate::learn::priors::Priors;
use crate::learn::reference::Reference;
use crate::learn::split::Amount;
use crate::train::PROGRESS;
use wattgate_cli::output::AtomicFile;
use wattgate_cli::planning::{ENOUGH_MODES, MOST_REFERENCES};
use wattgate_runtime::PowerMode;

const EXAMPLE: &str = "\
Examples:
  wattgate-trainer fit tx1.csv --modes 50 --seed 1 -o model.wgt
  wattgate-trainer fit yolo.csv --board orin-agx-64 -o yolo.wgt
  wattgate-trainer fit sizes.csv --minibatch 32 -o yolo-32.wgt
  wattgate-trainer fit yolo.csv --reference resnet.wgt --reference vit.csv --modes 15 -o yolo.wgt

A reference is a model file or a corpus of another workload, minibatch size or board. Clocks
of different boards are compared as fractions of the board's highest. The modes of the corpus
decide the weight of the references. The workload itself is refused as a reference.

The model predicts all modes of a grid. Without a board the grid has the clocks of the corpus; with
--board or --axes it also has those clocks of the board that were not profiled.

The modes that are not trained on are held out, and errors are reported on them. Without
--modes all profiled modes are used and none is held out. Of more than 2000 modes, a random
2000 are trained on. The training does not use a reading that contradicts all others, nor those of
a mode whose runs disagree; the report names them, and readings in doubt. A corpus without power gives a model of time
alone. The same seed gives the same file on the same machine.

A file of several workloads needs --workload. As a reference it stands for each of its workloads but the one that is
learned. Of a board in the tables, clocks may be rounded to MHz. A warning names what is probably not meant: times that look
like seconds or microseconds, and clocks or powers that the board does not have. Steps of more than a second, written in
seconds, look like quick ones: see whether the line with the fastest and the slowest step is right.

A corpus of several minibatch sizes gives one model for each profiled size: the size that was profiled in the
most modes is the reference of the others, so that a few modes of them are enough. A size that was not profiled
gets no file, because no measurement stands behind its bounds. `select --minibatch any` chooses among the files.

With --json: {\"version\": 1, \"kind\", \"device\", \"workload\", \"reference\",
\"units\": [{\"id\", \"time_ratio\", \"power_ratio\"}], \"unit_doubts\", \"other_units_power_ratio\", \"power_bound_ratio\",
\"seed\", \"modes_used\",
\"modes_held_out\", \"sampling\", \"modes_in_grid\", \"shape\", \"teacher\": {\"time_mape\",
\"power_mape\"}, \"student\": {…}, \"exported\": {…}, \"expected\": {…}, \"suspects\": [{\"mode\",
\"target\", \"ratio\"}], \"doubtful\": [as suspects], \"contradictions\": [{\"mode\", \"target\", \"runs\": [lowest, highest]}],
\"idle\": {\"readings\", \"least_mw\", \"fastest_mw\", \"left_out\": [{\"mode\", \"idle_mw\"}]},
\"coverage\": [{\"confidence\", \"time\", \"power\", \"time_ratio\", \"power_ratio\"}], \"bytes\", \"seconds\"};
errors in percent, null without held-out modes.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    training: TrainingArguments,
    /// Samples in a minibatch, for a corpus of several sizes
    #[arg(long, value_name = "N", value_parser = values::whole::<u32>(1, u32::MAX.into()))]
    minibatch: Option<u32>,
}

/// Arguments of the commands that write a model.
#[derive(Debug, Args)]
pub struct TrainingArguments {
    /// Profiled modes, as CSV; of several units of the board, a file for each
    #[arg(value_name = "CORPUS", required = true)]
    pub corpora: Vec<PathBuf>,
    #[command(flatten)]
    pub rows: RowsArguments,
    #[command(flatten)]
    pub board: BoardArgument,
    /// A reference: a model file or a corpus; repeat it for several
    #[arg(long, value_name = "FILE")]
    pub reference: Vec<PathBuf>,
    /// Modes to train on: a number, or a share of the profiled ones such as 90% [default: all]
    #[arg(long, value_name = "N", value_parser = values::amount, allow_hyphen_values = true)]
    pub modes: Option<Amount>,
    /// How the training modes are chosen
    #[arg(long, value_enum, value_name = "HOW", default_value = "random")]
    pub sampling: SamplingArgument,
    /// Seed of the sampling and the training
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    pub seed: u64,
    /// Widths of the hidden layers of the exported network
    #[arg(long, value_name = "WIDTHS", value_enum, default_value = "32")]
    pub hidden: ShapeArgument,
    /// The model file to write
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl TrainingArguments {
    /// Fails if the output is one of the inputs.
    fn refuse_inputs(&self) -> Result<(), Failure> {
        let files = self.corpora.iter().chain(&self.reference);
        let inputs: Vec<Option<&Path>> = files
            .map(|path| Some(path.as_path()))
            .chain([self.board.file()])
            .collect();
        refuse_input(&self.output, &inputs)
    }

    /// The corpus of all units.
    fn read(&self) -> Result<Corpus, Failure> {
        let read = |path: &PathBuf| {
            let corpus = read_corpus(path, self.rows.reading())?;
            warn(path, &corpus);
            Ok(corpus)
        };
        self.join(
            self.corpora
                .iter()
                .map(read)
                .collect::<Result<_, Failure>>()?,
        )
    }

    /// Joins the corpora of the files.
    fn join(&self, corpora: Vec<Corpus>) -> Result<Corpus, Failure> {
        join(corpora, &self.names()).map_err(Failure::Join)
    }

    fn names(&self) -> Vec<String> {
        let names = self.corpora.iter().map(|path| path.display().to_string());
        names.collect()
    }
}

/// Says what of a corpus is probably not meant so.
fn warn(path: &Path, corpus: &Corpus) {
    for remark in remarks(corpus) {
        eprintln!("warning: {}: {remark}", path.display());
    }
}

/// Trains and writes a model.
fn write_model(
    training: &TrainingArguments,
    mut corpus: Corpus,
    references: &[Reference],
) -> Result<(), Failure> {
    let (path, output) = (&training.corpora[0], &training.output);
    let file = AtomicFile::create(output)?;
    if let Some(board) = training.board.read()? {
        set_grid(&mut corpus, path, &board.grid)?;
    }
    let progress = progress_bar(PROGRESS);
    let options = FitOptions {
        amount: training.modes.unwrap_or(Amount::All),
        sampling: training.sampling.into(),
        references,
        seed: training.seed,
        shape: training.hidden.0,
    };
    let result = fit(&corpus, &options, &progress);
    progress.finish_and_clear();
    let fit = result.map_err(|why| match why {
        FitError::Reference(why) => Failure::OwnReference(why),
        why => Failure::Fit {
            path: path.clone(),
            why,
        },
    })?;
    file.commit(&fit.bytes)?;
    if training.json {
        print_json(&fit.report)
    } else {
        let target = output.display();
        let text = text(&fit.report, &spans(&corpus));
        print_text(&format!("{text}wrote {target}\n"))
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let training = &arguments.training;
    training.refuse_inputs()?;
    let blank = training.rows.blank.meaning();
    let Some(size) = arguments.minibatch else {
        let corpus = training.read()?;
        let references = read_references(&training.reference, blank, &corpus.workload)?;
        return write_model(training, corpus, &references);
    };
    let path = &training.corpora[0];
    let (mut of_asked, mut of_most) = (Vec::new(), Vec::new());
    for path in &training.corpora {
        let fed = read_fed(path, training.rows.reading())?;
        let (corpus, most) = of_size(&fed, size).ok_or_else(|| Failure::NoSize {
            place: path.display().to_string(),
            asked: size,
            sizes: sizes(fed.iter().map(|corpus| corpus.feeding.minibatch)),
        })?;
        warn(path, corpus);
        of_asked.push(corpus.clone());
        of_most.push(most.clone());
    }
    let (corpus, most) = (training.join(of_asked)?, training.join(of_most)?);
    let mut references = read_references(&training.reference, blank, &corpus.workload)?;
    if most.feeding.minibatch != corpus.feeding.minibatch {
        let name = format!(
            "{}, minibatch {}",
            path.display(),
            most.feeding.minibatch.unwrap_or_default()
        );
        let reference = Reference::of_corpus(name, most, Priors::shipped());
        references.push(reference.map_err(|why| Failure::Reference {
            path: path.clone(),
            why,
        })?);
    }
    if references.len() > MOST_REFERENCES {
        let found = references.len();
        return Err(Failure::ManyReferences { found });
    }
    write_model(training, corpus, &references)
}

/// The corpus of a size, and that of the size that was profiled in the most modes. Of several feedings
/// of a size the one with the most modes counts.
fn of_size(fed: &[Corpus], size: u32) -> Option<(&Corpus, &Corpus)> {
    // The first of those with the most.
    let most = |holds: &dyn Fn(&Feeding) -> bool| {
        let corpora = fed.iter().rev().filter(|corpus| holds(&corpus.feeding));
        corpora.max_by_key(|corpus| corpus.modes.len())
    };
    let of_size = most(&|feeding| feeding.minibatch == Some(size))?;
    let most = most(&|feeding| feeding.minibatch.is_some())?;
    Some((of_size, most))
}

/// The times and powers of a corpus from the least to the most.
fn spans(corpus: &Corpus) -> String {
    let ends = |value: fn(&Profile) -> Option<f64>| {
        let known = || corpus.modes.iter().filter_map(value);
        let ends = known().reduce(f64::min).zip(known().reduce(f64::max));
        ends.map(|(least, most)| [least, most])
    };
    show::spans(ends(Profile::time), ends(Profile::power))
}

fn text(report: &Report, spans: &str) -> String {
    let mut text = format!(
        "{}: {} on {}\n{spans}\n{} modes used, {} held out, {} in the grid\n",
        report.kind,
        report.workload,
        report.device,
        report.modes_used,
        report.modes_held_out,
        report.modes_in_grid
    );
    if let Some(reference) = &report.reference {
        text += &format!("transferred from {reference}\n");
    }
    let percent = |ratio: f64| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    if let [unit] = &report.units[..] {
        text += &unit
            .id
            .as_ref()
            .map_or(String::new(), |id| format!("unit {id}\n"));
    } else {
        for unit in &report.units {
            let (power, time) = (percent(unit.power_ratio), percent(unit.time_ratio));
            let id = unit.id.as_deref().unwrap_or("without an id");
            text += &format!("unit {id}: power {power}, time {time} of the mean\n");
        }
    }
    for doubt in &report.unit_doubts {
        text += &format!("in doubt: {doubt}\n");
    }
    let readings = [
        ("left out", "measure it again", &report.suspects),
        ("in doubt", "a second run would tell", &report.doubtful),
    ];
    for (what, advice, readings) in readings {
        for LeftAside { mode, suspect } in readings {
            text += &format!(
                "{what}: the {} of {} is {:.2} times what the other modes say; {advice}\n",
                suspect.target,
                show::mode(PowerMode::from_knobs(*mode)),
                suspect.ratio
            );
        }
    }
    for Contradiction { mode, target, runs } in &report.contradictions {
        let [least, most] = runs;
        let unit = match target {
            Target::Time => "ms",
            Target::Power => "mW",
        };
        text += &format!(
            "left out: the {target} of {} is {least:.1} {unit} in one run and {most:.1} {unit} in another; measure it again\n",
            show::mode(PowerMode::from_knobs(*mode)),
        );
    }
    if let Some(idle) = &report.idle {
        for LeftIdle { mode, idle_mw } in &idle.left_out {
            text += &format!(
                "left out: {:.2} W idle in {} are more than the workload draws there; measure it again\n",
                idle_mw / 1e3,
                show::mode(PowerMode::from_knobs(*mode)),
            );
        }
        if idle.readings > 0 {
            let [least, fastest] = [idle.least_mw, idle.fastest_mw].map(|mw| f64::from(mw) / 1e3);
            text += &format!(
                "idle: {least:.2} W in the slowest mode of the front, {fastest:.2} W in the fastest\n"
            );
        }
    }
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
    text += &row("  expected over all modes", &report.expected);
    for coverage in &report.coverage {
        if let Some(power) = coverage.power
            && [0.9, 0.95, 0.99].contains(&coverage.confidence)
        {
            text += &format!(
                "guard band at {:.0} %: holds for {:.1} % of the held-out powers\n",
                100.0 * coverage.confidence,
                100.0 * power
            );
        }
    }
    if let Some(ratio) = report.other_units_power_ratio {
        text += &format!(
            "other units of the board: the bound of the power at 95 % is {:.1} % higher\n",
            100.0 * (ratio - 1.0)
        );
    }
    if let Some(ratio) = report.power_bound_ratio
        && report.modes_used < ENOUGH_MODES
    {
        text += &format!(
            "{} modes are few, so a prior widens the bounds: a mode under a limit counts {:.1} % above its predicted power at \
             95 %; {ENOUGH_MODES} modes or more narrow that\n",
            report.modes_used,
            100.0 * (ratio - 1.0)
        );
    }
    let (shape, bytes, seconds) = (&report.shape, report.bytes, report.seconds);
    text += &format!("hidden layers {shape}, {bytes} bytes, {seconds:.1} s\n");
    text
}
