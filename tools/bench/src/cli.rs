//! The command line of `sweep`.

use std::env;
use std::fmt::Write as _;
use std::hint::black_box;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use lexopt::{Arg, Parser, ValueExt};
use serde::Serialize;
use thiserror::Error;
use wattgate_cli::arguments::{Given, Told};
use wattgate_cli::exit::{self, Failed, end};
use wattgate_cli::program::{Does, Program};
use wattgate_runtime::Region;
use wattgate_runtime::shape::Shape;

use crate::bounds;
use crate::floor::{self, Floor};
use crate::measure::{Figures, measure};
use crate::peers::PeerError;
use crate::turns::Figure;
use wattgate_bench::case::{BoardGrid, Case, GRIDS, ORIN_AGX, SHIPPED_SHAPE};
use wattgate_bench::tasks;

const USAGE: &str = "\
Time the runtime beside other engines on the same networks

Usage: sweep [--json | --bounds | --sweeps N] [options]

Options:
  --json         Print JSON of one case, see below
  --bounds       Print required and measured values; fail if a bound is missed
  --sweeps N     Sweep N times and print nothing, to count instructions
  --modes N      The grid: 1800, 18096, or 29232 modes [one case: 18096]
  --shape S      The layers: 16, 32, 8-8, 16-16, or 256-128-64 [one case: 32]
  --peer PYTHON  A Python with the packages tract and onnxruntime; without it they are not timed
  --rounds N     Number of rounds [100]
  -h, --help     Print this
  -V, --version  Print the version

With --peer, tract and ONNX Runtime are timed in turn with the runtime, on the same inputs, with one
thread each. Prints a table of all grids and shapes, unless an option selects otherwise. All times are
those of the best round, the least disturbed one.

JSON: {\"modes\",\"shape\",\"weights\",\"sweep_us\",\"front_us\",\"cold_start_us\",\"query_ns\",
\"correction_ns\",\"peers\":{\"tract_us\",\"onnxruntime_us\"},\"ratios\":{\"tract\",\"onnxruntime\"},
\"floor\":{\"multiply_adds\",\"multiply_adds_us\",\"bytes_us\",\"times\"},\"medians\":{…}}. `weights` is
`shipped` or `random`; `ratios` are relative to `sweep_us`; `medians` holds the times of the
median round. Without a PYTHON, `peers` and `ratios` are missing.

Example:
  sweep --json --shape 256-128-64 --peer target/bench-venv/bin/python

With --bounds, a bound that is missed is a limit that was not held.
";

/// Why the command failed.
#[derive(Debug, Error)]
enum Failure {
    #[error("{}", Told(.0))]
    Arguments(#[from] lexopt::Error),
    #[error("{option} is `{value}`, expected {expected}")]
    Value {
        option: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("{0} bounds are missed and marked above; run it on a machine that does nothing else")]
    Bounds(usize),
    #[error("{0}")]
    Peer(#[from] PeerError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Bounds(_) => exit::LIMIT,
            Self::Arguments(_) | Self::Value { .. } => exit::ARGUMENTS,
            Self::Peer(_) | Self::Print(_) => exit::OTHER,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Print(error) => Some(error),
            _ => None,
        }
    }

    fn argument_error(&self) -> Option<&lexopt::Error> {
        match self {
            Self::Arguments(error) => Some(error),
            _ => None,
        }
    }
}

const PROGRAM: Program<fn(Parser) -> Result<(), Failure>> = Program {
    name: "sweep",
    version: env!("CARGO_PKG_VERSION"),
    does: Does::One {
        help,
        run: dispatch,
    },
};

/// Runs the program.
pub fn run() -> ExitCode {
    let arguments = env::args_os().skip(1).collect();
    end(PROGRAM.run(arguments, |run, arguments| run(arguments)))
}

/// The text of the help.
fn help() -> String {
    USAGE.to_owned()
}

enum Output {
    Table,
    Json,
    Bounds,
    Nothing { sweeps: u32 },
}

fn dispatch(mut arguments: Parser) -> Result<(), Failure> {
    let (mut grid, mut shape, mut peer) = (None, None, None);
    let (mut output, mut rounds) = (Output::Table, 100);
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Long("json") => output = Output::Json,
            Arg::Long("bounds") => output = Output::Bounds,
            Arg::Long("sweeps") => {
                let sweeps = number("--sweeps", arguments.value()?.string()?)?;
                output = Output::Nothing { sweeps };
            }
            Arg::Long("modes") => grid = Some(grid_of(arguments.value()?.string()?)?),
            Arg::Long("shape") => shape = Some(shape_of(arguments.value()?.string()?)?),
            Arg::Long("peer") => peer = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("rounds") => rounds = number("--rounds", arguments.value()?.string()?)?,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let one = || Case::new(grid.unwrap_or(ORIN_AGX), shape.unwrap_or(SHIPPED_SHAPE));
    match output {
        Output::Table => {
            let grids = grid.map_or(GRIDS.to_vec(), |grid| vec![grid]);
            let shapes = shape.map_or(Shape::ALL.to_vec(), |shape| vec![shape]);
            table(&grids, &shapes, peer.as_deref(), rounds)
        }
        Output::Json => {
            let case = one();
            let report = Report::measure(&case, floor::clock(), peer.as_deref(), rounds)?;
            let text = serde_json::to_string_pretty(&report).map_err(io::Error::from)?;
            print(&format!("{text}\n"))
        }
        Output::Bounds => {
            let bounds = bounds::bounds(peer.as_deref(), rounds)?;
            print(&bounds::table(&bounds))?;
            match bounds.iter().filter(|bound| !bound.held()).count() {
                0 => Ok(()),
                missed => Err(Failure::Bounds(missed)),
            }
        }
        Output::Nothing { sweeps } => {
            let case = one();
            let model = case.model();
            let region = Region::all(&case.grid);
            for _ in 0..sweeps {
                black_box(tasks::sweep(&model, &region));
            }
            Ok(())
        }
    }
}

fn grid_of(value: String) -> Result<BoardGrid, Failure> {
    let modes = value.parse();
    let grid = GRIDS.into_iter().find(|grid| modes == Ok(grid.modes));
    grid.ok_or(Failure::Value {
        option: "--modes",
        value,
        expected: "1800, 18096 or 29232",
    })
}

fn shape_of(value: String) -> Result<Shape, Failure> {
    let mut shapes = Shape::ALL.iter().copied();
    let shape = shapes.find(|shape| shape.to_string() == value);
    shape.ok_or(Failure::Value {
        option: "--shape",
        value,
        expected: "16, 32, 8-8, 16-16 or 256-128-64",
    })
}

fn number(option: &'static str, value: String) -> Result<u32, Failure> {
    let number = value.parse().ok().filter(|number| *number > 0);
    number.ok_or(Failure::Value {
        option,
        value,
        expected: "a number above 0",
    })
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Report {
    modes: u32,
    shape: String,
    weights: &'static str,
    #[serde(flatten)]
    minima: Times,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratios: Option<Ratios>,
    floor: FloorReport,
    medians: Times,
}

#[derive(Debug, Serialize)]
struct Times {
    sweep_us: f64,
    front_us: f64,
    cold_start_us: f64,
    query_ns: f64,
    correction_ns: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    peers: Option<Peers>,
}

#[derive(Debug, Serialize)]
struct Peers {
    tract_us: f64,
    onnxruntime_us: f64,
}

#[derive(Debug, Serialize)]
struct Ratios {
    tract: f64,
    onnxruntime: f64,
}

#[derive(Debug, Serialize)]
struct FloorReport {
    multiply_adds: u32,
    multiply_adds_us: f64,
    bytes_us: f64,
    times: f64,
}

impl Times {
    fn from_figures(figures: &Figures, which: fn(Figure) -> f64) -> Self {
        // Two decimals: further digits are noise.
        let rounded =
            |figure: Figure, factor: f64| (which(figure) * factor * 100.0).round() / 100.0;
        Self {
            sweep_us: rounded(figures.sweep, 1.0),
            front_us: rounded(figures.front, 1.0),
            cold_start_us: rounded(figures.cold_start, 1.0),
            query_ns: rounded(figures.query, 1e3),
            correction_ns: rounded(figures.correction, 1e3),
            peers: figures.peers.map(|peers| Peers {
                tract_us: rounded(peers.tract, 1.0),
                onnxruntime_us: rounded(peers.onnxruntime, 1.0),
            }),
        }
    }
}

impl Report {
    fn measure(
        case: &Case,
        clock: f64,
        peer: Option<&Path>,
        rounds: u32,
    ) -> Result<Self, PeerError> {
        let floor = Floor::for_case(case, clock);
        let figures = measure(case, peer, rounds)?;
        let minima = Times::from_figures(&figures, |figure| figure.minimum);
        let rounded = |value: f64| (value * 100.0).round() / 100.0;
        Ok(Self {
            modes: case.grid.modes(),
            shape: case.shape.to_string(),
            weights: case.weights(),
            ratios: figures
                .over(|peers| peers.tract)
                .zip(figures.over(|peers| peers.onnxruntime))
                .map(|(tract, onnxruntime)| Ratios {
                    tract: rounded(tract[0]),
                    onnxruntime: rounded(onnxruntime[0]),
                }),
            floor: FloorReport {
                multiply_adds: floor::multiply_adds(case.shape),
                multiply_adds_us: rounded(floor.multiply_adds_us),
                bytes_us: rounded(floor.bytes_us),
                times: rounded(minima.sweep_us / floor.microseconds()),
            },
            minima,
            medians: Times::from_figures(&figures, |figure| figure.median),
        })
    }
}

const HEAD: &str = " \
modes layers      weights     mul-adds  sweep µs  ns/mode  ps/mul-add  floor µs  × floor  \
front µs  cold start µs  query ns  correction ns  tract µs  (times)  ONNX Runtime µs  (times)
";

const FOOT: &str = "\
mul-adds: per mode, in all layers but the first, which is a sum of table rows
peak: assumed, two vector multiply-adds per cycle with this build's registers, at the measured
      clock
floor: lower bound of the time: the greater of mul-adds at the peak and of bytes (file and
       predictions, each once) at the measured bandwidth of a loop that reads as many
weights: shipped are the layers of weights/orin-agx-64-resnet18.wgt; random are untrained, and
         their fronts are short
";

fn table(
    grids: &[BoardGrid],
    shapes: &[Shape],
    peer: Option<&Path>,
    rounds: u32,
) -> Result<(), Failure> {
    let clock = floor::clock();
    print(&format!(
        "peak: {} multiply-adds a cycle at {:.2} GHz; the best of {rounds} rounds\n{HEAD}",
        floor::MULTIPLY_ADDS_PER_CYCLE,
        clock / 1e9
    ))?;
    for shape in shapes {
        for grid in grids {
            let case = Case::new(*grid, *shape);
            print(&Report::measure(&case, clock, peer, rounds)?.row())?;
        }
    }
    print(FOOT)
}

impl Report {
    fn row(&self) -> String {
        let modes = f64::from(self.modes);
        let Times {
            sweep_us,
            front_us,
            cold_start_us,
            query_ns,
            correction_ns,
            peers,
        } = &self.minima;
        let floor = &self.floor;
        let mut row = format!(
            "{:>6} {:<11} {:<11}{:>9} {sweep_us:>9.1} {:>8.3} {:>11.1} {:>9.1} {:>8.1} \
            {front_us:>9.1} {cold_start_us:>14.1} {query_ns:>9.1} {correction_ns:>14.1}",
            self.modes,
            self.shape,
            self.weights,
            floor.multiply_adds,
            1e3 * sweep_us / modes,
            1e6 * sweep_us / modes / f64::from(floor.multiply_adds),
            floor.multiply_adds_us.max(floor.bytes_us),
            floor.times,
        );
        if let Some((times, ratios)) = peers.as_ref().zip(self.ratios.as_ref()) {
            write!(
                row,
                " {:>9.0} {:>8.1} {:>16.0} {:>8.1}",
                times.tract_us, ratios.tract, times.onnxruntime_us, ratios.onnxruntime
            )
            .expect("text");
        }
        row.push('\n');
        row
    }
}

fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}
