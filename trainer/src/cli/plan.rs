//! `plan`: chooses the modes to profile.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use wattgate_cli::json::Mode;
use wattgate_cli::output::AtomicFile;
use wattgate_cli::planning::{ExpectedError, IDLE_MODES, IDLE_TIME};
use wattgate_runtime::PowerMode;
use wattgate_runtime::grid::Grid;

use super::inputs::{BlankArgument, BoardArgument, NamedBoard, is_same, read_corpus, set_grid};
use super::todo::{Names, with_rows};
use super::{Failure, ask_tell, print_json, print_text, progress_bar, show, values};
use crate::corpus::fed::Feeding;
use crate::corpus::modes::profiled;
use crate::corpus::order::{Visit, descending};
use crate::corpus::{Corpus, Profile, Reading};
use crate::fit::contradictions;
use crate::learn::blend::Blend;
use crate::learn::expected::expected_errors;
use crate::learn::mean::Scales;
use crate::learn::plan::next;
use crate::learn::priors::Priors;
use crate::learn::split::MIN_MODES;
use crate::learn::teacher::{TEACHER_PROGRESS, Teachers};

const EXAMPLE: &str = "\
Examples:
  wattgate-trainer plan --board tx2 --modes 8 --workload yolo -o yolo.csv
  wattgate-trainer plan yolo.csv --board tx2 --modes 12 --until 4 -o yolo.csv
  wattgate-trainer plan --axes cores=1,2,3,4 cpu_khz=345600,1113600,2035200 gpu_khz=140250,1300500 emc_khz=1062400,1866000 --modes 8
  ssh workstation wattgate-trainer plan --ask-tell

With --output the modes are rows of a corpus: measure each, fill in time_ms and power_mw, then
`fit`. A corpus as the first argument is kept, and the new rows follow its own.

The values of its knobs span the modes of a board. If the board is named by a corpus, only the
modes with a row are on offer, with or without measurements. Profile 8 modes first, then plan one
or a few more, and repeat: the measurements so far determine which modes are worth most. --modes
includes the modes that are measured. Once the expected error is within --until, no further modes are
planned. A mode whose runs disagree is planned again.

Some boards need a reboot to raise a clock. The modes are therefore ordered from high to low
clocks, and `raises_clock` marks those that still need a higher clock than the one before.

With --json: {\"version\": 1, \"modes\": [{\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\", \"raises_clock\"}],
\"measured\", \"expected_error_pct\": {\"time\", \"power\"}, \"enough\", \"idle_s\"}; the expected error is
null below five measured modes; enough is true if it is within --until; idle_s is the time that
`wattgate profile` takes for the power of the idle board, 0 if CORPUS has it.

With --ask-tell, each line of standard input is one JSON object and gets one as its answer. The
first: {\"version\": 2, \"axes\": {\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\": [values]}, \"modes\",
\"limit_mw\", \"seed\", \"workload\", \"device\", \"reference\", \"kind\", \"minibatch\"}; those after
\"modes\" may be absent. The reference is a model file or a corpus of another workload on the same
board, or a list of them, the kind `measured`, `simulated` or `recorded`. The answer:
{\"ready\": {\"modes\": modes of the grid}}.
Then, in any order and number:
  {\"ask\": {\"current\": mode or absent}}
      {\"measure\": {\"mode\", \"time_us\", \"power_mw\", \"power_at_most_mw\"}}, null if not known, or
      {\"enough\": {\"measured\", \"expected_error_pct\": {\"time\", \"power\"}}}
  {\"tell\": {\"mode\", \"time_us\", \"power_mw\"}}
      {\"told\": {\"measured\"}}
  {\"exclude\": {\"mode\", \"power_mw\": the power was at least this, or absent}}
      {\"excluded\": {\"modes\": all modes that will not be asked for}}; with a power these include
      those that have no lower knob
  {\"fit\": {}}
      {\"fitted\": {\"model\": model file in Base64, \"modes\", \"expected_error_pct\": {\"time\",
      \"power\"}}}; trained on the modes told so far, at least five, without those
      whose readings disagree
A mode is {\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\"}. A refused line changes nothing and is
answered by {\"error\": {\"code\", \"message\"}}. With limit_mw the plan starts at the lowest mode and
asks only for modes whose power_at_most_mw is within the limit. A mode whose reading contradicts all
others is asked for again at the end, at most twice, and the median of its readings counts.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// The measurements so far
    #[arg(value_name = "CORPUS")]
    corpus: Option<PathBuf>,
    #[command(flatten)]
    blank: BlankArgument,
    #[command(flatten)]
    board: BoardArgument,
    /// Total number of modes to profile
    #[arg(long, value_name = "N", required_unless_present = "ask_tell")]
    modes: Option<usize>,
    /// Expected error in percent at which to stop
    #[arg(long, value_name = "PERCENT")]
    until: Option<f64>,
    /// Order of the modes
    #[arg(long, value_enum, default_value = "descending")]
    order: OrderArgument,
    /// Seed of the random candidates
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = values::seed)]
    seed: u64,
    /// A corpus to write, with rows to fill in: a new file, or CORPUS
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The workload: in CORPUS the one whose rows are read, of several; without CORPUS its name in new rows [default:
    /// unnamed]
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    workload: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Answer a profiler: JSON lines on standard input and output
    #[arg(long, conflicts_with_all = ["corpus", "skip_blank", "board", "axes", "modes", "until", "order", "seed", "output", "workload", "json"])]
    ask_tell: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum OrderArgument {
    /// From high to low clocks, for boards that need a reboot to raise one
    Descending,
    /// The most valuable first
    Value,
}

#[derive(Serialize)]
struct Planned {
    modes: Vec<Step>,
    measured: usize,
    expected_error_pct: ExpectedError,
    enough: bool,
    idle_s: u64,
}

#[derive(Serialize)]
struct Step {
    #[serde(flatten)]
    mode: Mode,
    raises_clock: bool,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(asked) = arguments.modes else {
        return ask_tell::run();
    };
    let output = arguments.output.as_deref();
    let output = output.map(|path| create(path, arguments.corpus.as_deref()));
    let output = output.transpose()?;
    let board = arguments.board.read()?.ok_or(Failure::BoardMissing)?;
    let NamedBoard {
        device,
        grid,
        modes: mut offered,
    } = board;
    let corpus = arguments.corpus.as_deref();
    let reading = Reading {
        blank: arguments.blank.meaning(),
        workload: arguments.workload.as_deref(),
    };
    let corpus = corpus.map(|path| measurements(path, reading, &grid, &offered));
    let corpus = corpus.transpose()?;
    let mut random = ChaCha8Rng::seed_from_u64(arguments.seed);
    offered.shuffle(&mut random);
    let mut measured = corpus.as_ref().map_or(Vec::new(), profiled);
    measured.shuffle(&mut random);
    let available = offered.len();
    if asked == 0 || asked > available {
        return Err(Failure::PlanSize { asked, available });
    }
    let (scales, priors) = (Scales::from_grid(&grid), Priors::shipped());
    let failed = |why| Failure::Plan { why };
    let mut expected = ExpectedError::default();
    if measured.len() >= MIN_MODES {
        let progress = progress_bar(TEACHER_PROGRESS).with_message("teacher");
        let teachers = Teachers::fit(
            &grid,
            &measured,
            &[],
            &Blend::any_board(priors),
            arguments.seed,
            &progress,
        );
        progress.finish_and_clear();
        let teachers = teachers.map_err(failed)?;
        let errors = expected_errors(teachers.left_out(), &teachers.predict(&offered));
        (expected.time, expected.power) = (errors.time_mape, errors.power_mape);
    }
    let errors = [expected.time, expected.power].into_iter().flatten();
    let enough = arguments
        .until
        .is_some_and(|until| expected.time.is_some() && errors.clone().all(|error| error <= until));
    let count = asked.saturating_sub(measured.len());
    let new = match enough {
        true => Vec::new(),
        false => next(&scales, priors, &offered, &measured, count, &mut random).map_err(failed)?,
    };
    // A mode whose runs disagree is measured again, whatever --modes says.
    let mut chosen: Vec<[u32; 4]> = Vec::new();
    let again = corpus.iter().flat_map(contradictions);
    let again = again.map(|contradiction| contradiction.mode);
    for knobs in again.chain(new.into_iter().map(|at| offered[at])) {
        if !chosen.contains(&knobs) {
            chosen.push(knobs);
        }
    }
    let visits = match arguments.order {
        OrderArgument::Descending => descending(&chosen),
        OrderArgument::Value => raising(&chosen),
    };
    let planned = Planned {
        modes: visits
            .iter()
            .map(|visit| Step {
                mode: PowerMode::from_knobs(visit.knobs).into(),
                raises_clock: visit.raises,
            })
            .collect(),
        measured: measured.len(),
        expected_error_pct: expected,
        enough,
        idle_s: match corpus
            .as_ref()
            .is_some_and(|corpus| !corpus.idle.is_empty())
        {
            true => 0,
            false => IDLE_TIME.as_secs() * IDLE_MODES as u64,
        },
    };
    let rows = output.map(|file| {
        let device = device.as_deref();
        write_rows(file, arguments, corpus.as_ref(), device, &visits)
    });
    let rows = rows.transpose()?;
    if arguments.json {
        return print_json(&planned);
    }
    let mut text = text(&planned, &visits);
    if let Some((rows, path)) = rows.zip(arguments.output.as_ref()) {
        text += &format!("wrote {}, {rows} rows to fill in\n", path.display());
    }
    print_text(&text)
}

/// The measurements so far, on the grid of the board. Fails if one of their modes is not offered.
fn measurements(
    path: &Path,
    reading: Reading<'_>,
    grid: &Grid,
    offered: &[[u32; 4]],
) -> Result<Corpus, Failure> {
    let mut corpus = read_corpus(path, reading)?;
    set_grid(&mut corpus, path, grid)?;
    match corpus
        .modes
        .iter()
        .find(|mode| !offered.contains(&mode.knobs))
    {
        Some(mode) => Err(Failure::NotOfBoard {
            path: path.to_owned(),
            mode: show::mode(PowerMode::from_knobs(mode.knobs)),
            why: "it has no row in the corpus of the board".to_owned(),
        }),
        None => Ok(corpus),
    }
}

/// Opens the file for the rows. Only the corpus, whose rows are kept, is replaced: another file may
/// have the measurements of hours.
fn create(path: &Path, corpus: Option<&Path>) -> Result<AtomicFile, Failure> {
    if path.exists() && !corpus.is_some_and(|corpus| is_same(corpus, path)) {
        let path = path.to_owned();
        return Err(Failure::Exists { path });
    }
    Ok(AtomicFile::create(path)?)
}

/// Writes the rows to fill in, and returns their number.
fn write_rows(
    file: AtomicFile,
    arguments: &Arguments,
    corpus: Option<&Corpus>,
    device: Option<&str>,
    visits: &[Visit],
) -> Result<usize, Failure> {
    let before = match &arguments.corpus {
        Some(path) => fs::read_to_string(path).map_err(|source| Failure::Read {
            path: path.clone(),
            source,
        })?,
        None => String::new(),
    };
    let unnamed = "unnamed";
    let names = Names {
        device: corpus.map_or(device.unwrap_or(unnamed), |corpus| &corpus.device),
        workload: match corpus {
            Some(corpus) => &corpus.workload,
            None => arguments.workload.as_deref().unwrap_or(unnamed),
        },
        kind: &corpus.map_or(String::new(), |corpus| corpus.kind.to_string()),
        feeding: corpus.map_or_else(Feeding::default, |corpus| corpus.feeding.clone()),
    };
    // With --skip-blank a mode may have a row that is still to be filled in. A mode whose runs disagree gets one more.
    let is_open = |mode: &Profile| mode.times.is_empty() && mode.powers.is_empty();
    let has_row = |knobs: [u32; 4]| {
        let mut modes = corpus.into_iter().flat_map(|corpus| &corpus.modes);
        modes.any(|mode| mode.knobs == knobs && is_open(mode))
    };
    let modes: Vec<[u32; 4]> = visits.iter().map(|visit| visit.knobs).collect();
    let new: Vec<[u32; 4]> = modes.into_iter().filter(|&knobs| !has_row(knobs)).collect();
    let text = with_rows(&before, &names, &new).map_err(|why| Failure::Todo {
        path: arguments.corpus.clone().unwrap_or_default(),
        why,
    })?;
    file.commit(text.as_bytes())?;
    Ok(new.len())
}

/// Visits modes in the given order.
fn raising(modes: &[[u32; 4]]) -> Vec<Visit> {
    let raises = |at: usize| at > 0 && (1..3).any(|axis| modes[at][axis] > modes[at - 1][axis]);
    let visit = |(at, &knobs)| Visit {
        knobs,
        raises: raises(at),
    };
    modes.iter().enumerate().map(visit).collect()
}

fn text(planned: &Planned, visits: &[Visit]) -> String {
    let mut text = String::new();
    if planned.measured > 0 {
        let ExpectedError { time, power } = &planned.expected_error_pct;
        text += &format!(
            "{} modes measured, expected error: time {}, power {}\n",
            planned.measured,
            show::percent(*time),
            show::percent(*power)
        );
    }
    if planned.enough {
        text += "enough: the expected error is within --until\n";
    }
    for visit in visits {
        let raised = if visit.raises {
            "  (raises a clock)"
        } else {
            ""
        };
        text += &format!(
            "{}{raised}\n",
            show::mode(PowerMode::from_knobs(visit.knobs))
        );
    }
    if planned.idle_s > 0 {
        text += &format!(
            "`wattgate profile` also measures the idle board, in {IDLE_MODES} modes: {} s\n",
            planned.idle_s
        );
    }
    text
}
