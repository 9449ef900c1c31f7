//! `profile`: measures a workload in a few modes and writes a corpus.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use lexopt::{Arg, Parser, ValueExt};
use signal_hook::consts::{SIGINT, SIGTERM};
use wattgate_board::{Board, Reach};
use wattgate_cli::planning::{self, Axes};
use wattgate_cli::quantity;
use wattgate_runtime::{Axis, Grid, Kilohertz, Milliwatts, PowerMode};
use wattgate_watchdog::compatibility;
use wattgate_watchdog::lock::Lock;
use wattgate_watchdog::prior::Prior;

use super::{Failure, print};
use crate::planner::{CoProcess, List, Planner, PlannerError};
use crate::process::Process;
use crate::row::{CorpusFile, Row};
use crate::session::{Progress, Session, Task, World};
use crate::window::Rules;

const USAGE: &str = "\
Measure time and power of a step of a running workload in a few power modes

Usage: wattgate profile [options] -- PROGRAM [arguments]

Options:
  --modes N|FILE   Number of modes, which a planner chooses, or a CSV file with the columns
                   cores, cpu_khz, gpu_khz and emc_khz, measured in its order [15]
  --limit W        Leave a mode at once when its power exceeds this, such as 20W, and plan with it
  -o FILE          The corpus; rows are added to one that exists [corpus.csv]
  --planner CMD    The planner [wattgate-trainer plan --ask-tell]
  --name NAME      Name of the workload, the column `workload` [the program's file name]
  --device NAME    Name of the board, the column `device` [the module's name]
  --spread PCT     Relative standard error at which a measurement ends [1]
  --longest S      Longest measurement of a mode in seconds [30]
  --seed S         Seed of the planner [1]
  --root DIR       Root of the board's files; for simulated boards [/]
  --speed X        The board's time per real time; for simulated boards [1]
  --json           One JSON object a row on standard output; that of PROGRAM goes to standard error
  -h, --help       Print this

PROGRAM is started once, with WATTGATE_SOCKET in its environment: a Unix datagram socket, to which
it sends a line `steps=N` with the number of steps since its start. SIGTERM ends it when all modes
are measured. The power mode is restored at the end; after a crash, by the next start.

Exit codes: 0 done, 2 wrong arguments, 3 a defective input file or no board, 4 no mode is within the
limit, 5 anything else, with all rows so far in the corpus.

Example:
  wattgate profile --limit 20W -o yolo.csv -- python3 train.py
";

struct Arguments {
    modes: Modes,
    limit: Option<Milliwatts>,
    output: PathBuf,
    planner: String,
    name: Option<String>,
    device: Option<String>,
    rules: Rules,
    seed: u64,
    root: PathBuf,
    speed: f64,
    json: bool,
    command: Vec<OsString>,
}

enum Modes {
    Number(usize),
    File(PathBuf),
}

/// Runs the command with the arguments that follow its name.
pub fn run(parser: Parser) -> Result<(), Failure> {
    let Some(arguments) = parse(parser)? else {
        return print(USAGE);
    };
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::Signals)?;
    }
    let mut process = Process::new(arguments.speed, stop).map_err(Failure::Socket)?;
    let mut board = Board::discover(process.files(), &arguments.root)?;
    let axes = axes(&board)?;
    let (program, rest) = arguments.command.split_first().expect("checked");
    let compatible = &board.identity().compatible;
    let device = arguments.device.clone();
    let device = device.or_else(|| compatibility::board_name(compatible).map(str::to_owned));
    let device = device.ok_or(Failure::Missing("--device: the board's name is not known"))?;
    let name = Path::new(program).file_stem().unwrap_or(program);
    let name = arguments
        .name
        .clone()
        .unwrap_or_else(|| name.to_string_lossy().into_owned());
    // Before the corpus is opened: another profiler may be writing to it.
    let _lock = Lock::take(&arguments.root)?;
    let mut corpus = CorpusFile::open(&arguments.output, &device, &name)?;
    let planner = planner(&arguments, &axes, &device, &name)?;
    let lowest = lowest(&axes);

    // The daemon's directory: whichever of the two starts after a crash restores the settings.
    let state = arguments.root.join("var/lib/wattgate");
    let prior = Prior::keep(&board, process.files(), &state)?;
    let measured = measure(
        &arguments,
        Task {
            device,
            workload: name,
            limit: arguments.limit,
            rules: arguments.rules,
        },
        (&mut process, &mut board),
        lowest,
        planner,
        &mut corpus,
        (program, rest),
    );
    // The workload ends before the board has its clocks again, which may be over the limit.
    drop(process);
    prior.restore(&mut board, &mut wattgate_board::Disk)?;
    measured
}

fn measure(
    arguments: &Arguments,
    task: Task,
    (process, board): (&mut Process, &mut Board),
    lowest: PowerMode,
    planner: AnyPlanner,
    corpus: &mut CorpusFile,
    (program, rest): (&OsString, &[OsString]),
) -> Result<(), Failure> {
    let mut session = Session::begin(process, board, lowest, task)?;
    let started = session.world().start(program, rest, arguments.json);
    started.map_err(|source| Failure::Start {
        program: program.to_string_lossy().into_owned(),
        source,
    })?;
    let mut shown = Ok(());
    session.run(planner, corpus, &mut |progress| {
        if let Err(error) = show(&progress, arguments.json) {
            shown = Err(error);
        }
    })?;
    shown
}

fn show(progress: &Progress<'_>, json: bool) -> Result<(), Failure> {
    match progress {
        Progress::Row(row) if json => {
            let line = serde_json::to_string(row).map_err(std::io::Error::from)?;
            print(&format!("{line}\n"))
        }
        Progress::Row(row) => print(&text(row)),
        Progress::Refused(why) => {
            eprintln!("warning: {why}");
            Ok(())
        }
        Progress::Set(_) => Ok(()),
    }
}

fn text(row: &Row) -> String {
    let mode = row.mode();
    match (row.mark, row.time_ms, row.power_mw) {
        (None, Some(time), Some(power)) => format!(
            "{mode}: {time:.2} ms, {:.2} W, {} steps in {:.1} s\n",
            power / 1e3,
            row.steps,
            row.window_ms / 1e3
        ),
        (Some(mark), ..) => format!("{mode}: {mark}, {:.2} W\n", row.peak_mw / 1e3),
        _ => format!("{mode}: not measured\n"),
    }
}

/// A list or another program.
enum AnyPlanner {
    List(List),
    CoProcess(CoProcess),
}

impl AnyPlanner {
    fn inner(&mut self) -> &mut dyn Planner {
        match self {
            Self::List(list) => list,
            Self::CoProcess(planner) => planner,
        }
    }
}

impl Planner for AnyPlanner {
    fn ask(&mut self) -> Result<Option<PowerMode>, PlannerError> {
        self.inner().ask()
    }

    fn tell(&mut self, mode: PowerMode, time_ms: f64, power_mw: f64) -> Result<(), PlannerError> {
        self.inner().tell(mode, time_ms, power_mw)
    }

    fn exclude(&mut self, mode: PowerMode, power_mw: Option<f64>) -> Result<(), PlannerError> {
        self.inner().exclude(mode, power_mw)
    }
}

fn planner(
    arguments: &Arguments,
    axes: &Axes,
    device: &str,
    name: &str,
) -> Result<AnyPlanner, Failure> {
    match &arguments.modes {
        Modes::File(path) => Ok(AnyPlanner::List(List(modes(path)?))),
        Modes::Number(modes) => {
            let task = planning::Task {
                version: planning::VERSION,
                axes: axes.clone(),
                modes: *modes,
                limit_mw: arguments.limit.map(|limit| limit.0.into()),
                seed: Some(arguments.seed),
                workload: Some(name.to_owned()),
                device: Some(device.to_owned()),
                reference: None,
                kind: None,
                minibatch: None,
            };
            let planner = CoProcess::start(&arguments.planner, &task)?;
            Ok(AnyPlanner::CoProcess(planner))
        }
    }
}

/// The modes of a CSV file. Further columns are ignored.
fn modes(path: &Path) -> Result<VecDeque<PowerMode>, Failure> {
    #[derive(serde::Deserialize)]
    struct Listed {
        cores: u32,
        cpu_khz: u32,
        gpu_khz: u32,
        emc_khz: u32,
    }
    let defect = |why: String| Failure::Modes {
        path: path.to_owned(),
        why,
    };
    let text = fs::read(path).map_err(|error| defect(error.to_string()))?;
    let mut reader = csv::Reader::from_reader(&text[..]);
    let rows = reader.deserialize().map(|row| {
        let row: Listed = row.map_err(|error| defect(error.to_string()))?;
        Ok(PowerMode {
            cores: row.cores,
            cpu: Kilohertz(row.cpu_khz),
            gpu: Kilohertz(row.gpu_khz),
            emc: Kilohertz(row.emc_khz),
        })
    });
    rows.collect()
}

/// The values that the board can be set to.
fn axes(board: &Board) -> Result<Axes, Failure> {
    let cpus: Vec<u32> = (1..=board.core_order().count() as u32).collect();
    let tables = [&cpus[..], board.cpu_khz(), board.gpu_khz(), board.emc_khz()];
    let names = ["cores", "CPU clocks", "GPU clocks", "memory clocks"];
    if let Some((_, name)) = tables.iter().zip(names).find(|(table, _)| table.is_empty()) {
        return Err(Failure::NoAxis(name));
    }
    // Not each number of cores can be online where clusters have more than one.
    let settable = board.settable(&Grid::new(tables)?)?;
    let values = |axis: Axis| match settable.reach(axis) {
        Reach::Values(values) => values.clone(),
        Reach::Free(highest) => vec![*highest],
    };
    Ok(Axes {
        cores: values(Axis::Cores),
        cpu_khz: values(Axis::Cpu),
        gpu_khz: values(Axis::Gpu),
        emc_khz: values(Axis::Emc),
    })
}

/// The mode of least clocks and cores.
fn lowest(axes: &Axes) -> PowerMode {
    let first = |values: &[u32]| values.first().copied().unwrap_or_default();
    PowerMode {
        cores: first(&axes.cores),
        cpu: Kilohertz(first(&axes.cpu_khz)),
        gpu: Kilohertz(first(&axes.gpu_khz)),
        emc: Kilohertz(first(&axes.emc_khz)),
    }
}

/// The arguments, or none if the user asks for help.
fn parse(mut parser: Parser) -> Result<Option<Arguments>, Failure> {
    let mut arguments = Arguments {
        modes: Modes::Number(15),
        limit: None,
        output: PathBuf::from("corpus.csv"),
        planner: "wattgate-trainer plan --ask-tell".to_owned(),
        name: None,
        device: None,
        rules: Rules::default(),
        seed: 1,
        root: PathBuf::from("/"),
        speed: 1.0,
        json: false,
        command: Vec::new(),
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("modes") => {
                let value = parser.value()?;
                arguments.modes = match value.to_str().map(str::parse) {
                    Some(Ok(number)) => Modes::Number(number),
                    _ => Modes::File(PathBuf::from(value)),
                };
            }
            Arg::Long("limit") => {
                let value = parser.value()?.string()?;
                let limit = quantity::power(&value).map_err(|_| Failure::Value {
                    option: "--limit",
                    value,
                    expected: "a power such as 20W",
                })?;
                arguments.limit = Some(limit);
            }
            Arg::Short('o') => arguments.output = PathBuf::from(parser.value()?),
            Arg::Long("planner") => arguments.planner = parser.value()?.string()?,
            Arg::Long("name") => arguments.name = Some(parser.value()?.string()?),
            Arg::Long("device") => arguments.device = Some(parser.value()?.string()?),
            Arg::Long("spread") => {
                let percent = within(&mut parser, "--spread", 0.01..=20.0, "0.01 … 20")?;
                arguments.rules.spread = percent / 100.0;
            }
            Arg::Long("longest") => {
                let seconds = within(&mut parser, "--longest", 1.0..=3600.0, "1 … 3600")?;
                arguments.rules.longest = std::time::Duration::from_secs_f64(seconds);
            }
            Arg::Long("seed") => arguments.seed = parser.value()?.parse()?,
            Arg::Long("root") => arguments.root = PathBuf::from(parser.value()?),
            Arg::Long("speed") => {
                arguments.speed = within(&mut parser, "--speed", 0.1..=100.0, "0.1 … 100")?;
            }
            Arg::Long("json") => arguments.json = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            Arg::Value(program) => {
                arguments.command = vec![program];
                arguments.command.extend(parser.raw_args()?);
                break;
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    match arguments.command.is_empty() {
        true => Err(Failure::Missing("PROGRAM")),
        false => Ok(Some(arguments)),
    }
}

fn within(
    parser: &mut Parser,
    option: &'static str,
    range: std::ops::RangeInclusive<f64>,
    expected: &'static str,
) -> Result<f64, Failure> {
    let value = parser.value()?.string()?;
    match value.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(Failure::Value {
            option,
            value,
            expected,
        }),
    }
}
