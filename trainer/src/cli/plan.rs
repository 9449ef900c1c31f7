//! `plan`: chooses the modes to profile.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;
use wattgate_cli::json::Mode;
use wattgate_cli::planning::ExpectedError;
use wattgate_runtime::{Grid, PowerMode};

use super::{Failure, ask_tell, print_json, print_text, read_corpus, show};
use crate::corpus::modes::all_modes;
use crate::corpus::modes::{Known, profiled};
use crate::corpus::order::{Visit, descending};
use crate::learn::mean::Scales;
use crate::learn::plan::{expected_error, first, next};
use crate::learn::priors::Priors;
use crate::learn::split::MIN_MODES;
use crate::learn::teacher::{Blend, Teachers};

const EXAMPLE: &str = "\
Examples:
  wattgate-trainer plan --axes cores=1,2,3,4 cpu_khz=345600,1113600,2035200 gpu_khz=140250,1300500 emc_khz=1062400,1866000 --modes 8
  wattgate-trainer plan --corpus board.csv --modes 30 --have measured.csv --until 4
  ssh workstation wattgate-trainer plan --ask-tell

The axes of a board span its modes; or a corpus names them, in which a row without time and
power names a mode that was not profiled. Profile 8 modes first, then plan one or a few more
with --have, and repeat: the measurements so far determine which modes are worth most. --modes
includes the modes of --have. The expected error is intended to err on the high side. Once it is
within --until, no further modes are planned.

Some boards need a reboot to raise a clock. The modes are therefore ordered from high to low
clocks, and `raises_clock` marks those that still need a higher clock than the one before.

With --json: {\"version\": 1, \"modes\": [{\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\", \"raises_clock\"}],
\"measured\", \"expected_error_pct\": {\"time\", \"power\"}, \"enough\"}; the expected error is null
below five measured modes; enough is true if it is within --until.

With --ask-tell, each line of standard input is one JSON object and gets one as its answer. The
first: {\"version\": 1, \"axes\": {\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\": [values]}, \"modes\",
\"limit_mw\", \"seed\", \"workload\", \"device\", \"reference\", \"kind\", \"minibatch\"}; those after
\"modes\" may be absent. The reference is a model file or a corpus of another workload on the same
board, the kind `measured` or `simulated`. The answer: {\"ready\": {\"modes\": modes of the grid}}.
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
      {\"fitted\": {\"model\": model file in Base64, \"modes\", \"left_out_error_pct\": {\"time\",
      \"power\"}}}; trained on all modes told so far, at least five
A mode is {\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\"}. A refused line changes nothing and is
answered by {\"error\": {\"code\", \"message\"}}. With limit_mw the plan starts at the lowest mode and
asks only for modes whose power_at_most_mw is within the limit.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// The values of the four axes, each as NAME=VALUE,…
    #[arg(
        long,
        value_name = "AXIS",
        num_args = 4,
        conflicts_with = "corpus",
        required_unless_present_any = ["corpus", "ask_tell"]
    )]
    axes: Option<Vec<String>>,
    /// A corpus that names the modes of the board
    #[arg(long, value_name = "FILE")]
    corpus: Option<PathBuf>,
    /// Total number of modes to profile
    #[arg(long, value_name = "N", required_unless_present = "ask_tell")]
    modes: Option<usize>,
    /// The measurements so far, as a corpus
    #[arg(long, value_name = "FILE")]
    have: Option<PathBuf>,
    /// Expected error in percent at which to stop
    #[arg(long, value_name = "PERCENT")]
    until: Option<f64>,
    /// Order of the modes
    #[arg(long, value_enum, default_value = "descending")]
    order: OrderArgument,
    /// Seed of the random candidates
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Answer a profiler: JSON lines on standard input and output
    #[arg(long, conflicts_with_all = ["axes", "corpus", "modes", "have", "until", "order", "seed", "json"])]
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
}

#[derive(Serialize)]
struct Step {
    #[serde(flatten)]
    mode: Mode,
    raises_clock: bool,
}

/// Expected errors in percent.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Some(asked) = arguments.modes else {
        return ask_tell::run();
    };
    let (grid, mut offered) = board(arguments)?;
    let mut random = ChaCha8Rng::seed_from_u64(arguments.seed);
    offered.shuffle(&mut random);
    let have = arguments.have.as_deref();
    let mut measured = have.map_or(Ok(Vec::new()), |path| measured(path, &offered))?;
    measured.shuffle(&mut random);
    let available = offered.len();
    if asked == 0 || asked > available {
        return Err(Failure::PlanSize { asked, available });
    }
    let (scales, priors) = (Scales::of(&grid), Priors::shipped());
    let failed = |why| Failure::Plan { why };
    let mut expected = ExpectedError::default();
    if measured.len() >= MIN_MODES {
        let teachers = Teachers::fit(
            &grid,
            &measured,
            None,
            &Blend::any_board(priors),
            arguments.seed,
        );
        let teachers = teachers.map_err(failed)?;
        [expected.time, expected.power] = expected_error(&teachers, &offered);
    }
    let errors = [expected.time, expected.power].into_iter().flatten();
    let enough = arguments
        .until
        .is_some_and(|until| expected.time.is_some() && errors.clone().all(|error| error <= until));
    let count = asked.saturating_sub(measured.len());
    let chosen = match (enough, measured.is_empty()) {
        (true, _) => Vec::new(),
        (_, true) => first(&scales, priors, &offered, count, &mut random).map_err(failed)?,
        _ => next(&scales, priors, &offered, &measured, count, &mut random).map_err(failed)?,
    };
    let chosen: Vec<[u32; 4]> = chosen.into_iter().map(|at| offered[at]).collect();
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
    };
    if arguments.json {
        print_json(&planned)
    } else {
        print_text(&text(&planned, &visits))
    }
}

/// The grid of the board and the modes that can be profiled.
fn board(arguments: &Arguments) -> Result<(Grid, Vec<[u32; 4]>), Failure> {
    if let Some(path) = &arguments.corpus {
        let corpus = read_corpus(path)?;
        let modes = corpus.modes.iter().map(|mode| mode.knobs).collect();
        return Ok((corpus.grid, modes));
    }
    let mut axes: [Vec<u32>; 4] = Default::default();
    for axis in arguments.axes.iter().flatten() {
        let refused = |problem: &str| Failure::Axes(format!("`{axis}`: {problem}"));
        let (name, values) = axis
            .split_once('=')
            .ok_or(refused("expected NAME=VALUE,…"))?;
        let names = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];
        let at = names.iter().position(|known| *known == name);
        let at = at.ok_or(refused("the axes are cores, cpu_khz, gpu_khz and emc_khz"))?;
        let values: Result<Vec<u32>, _> = values.split(',').map(str::parse).collect();
        axes[at] = values.map_err(|_| refused("expected whole numbers, in kHz for clocks"))?;
        axes[at].sort_unstable();
        axes[at].dedup();
    }
    let grid = Grid::new(axes.each_ref().map(Vec::as_slice));
    let grid = grid.map_err(|why| Failure::Axes(why.to_string()))?;
    let modes = all_modes(&grid).collect();
    Ok((grid, modes))
}

/// The measured modes of a corpus; fails if one of them is not in `offered`.
fn measured(path: &Path, offered: &[[u32; 4]]) -> Result<Vec<Known>, Failure> {
    let measured = profiled(&read_corpus(path)?);
    match measured.iter().find(|mode| !offered.contains(&mode.knobs)) {
        Some(mode) => Err(Failure::NotOfBoard {
            path: path.to_owned(),
            mode: show::mode(PowerMode::from_knobs(mode.knobs)),
        }),
        None => Ok(measured),
    }
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
    text
}
