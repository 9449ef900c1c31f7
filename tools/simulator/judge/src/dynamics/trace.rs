//! Recorded traces: what a real board's power sensor showed over time.
//!
//! A trace has the columns of one of three [`SOURCES`], in any dialect of [`wattgate_cli::delimited`]. Rows of a run stand in one piece, in the order of time.
//!
//! ```text
//! run,t_us,what,vdd_in_mw
//! 2025-03-28_015632,0,training,5964.7
//! 2025-03-28_015632,11600,training,5964.7
//! ```

use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};

use wattgate_cli::delimited::columns::Layout;
use wattgate_cli::delimited::fields::{Named, bad, name, number, text};
use wattgate_cli::delimited::{Defect, FileError, Problem, Refusal, Table};

use super::median;
use crate::files;

const RUN: &str = "run";

static LAYOUT: Layout = Layout {
    what: "a trace",
    columns: &[RUN],
    and: " and those of a board",
    ..Layout::NONE
};

/// Minimum number of readings of a run.
const FEWEST_READINGS: usize = 20;

/// Latest time of a row in s: one week.
const LATEST_S: f64 = 7.0 * 24.0 * 3_600.0;

/// Highest power in mW: more than any Jetson draws.
const MOST_MW: f64 = 200_000.0;

/// Power in mW that every Jetson exceeds. A file whose highest power is lower has another unit.
const LEAST_PEAK_MW: f64 = 1_000.0;

/// Number of periods without a poll after which the poll counts as stalled. The Orin NX's polls stalled eight times for 0.27 s:
/// the recorded time is that before the stall, and the reading that after it.
const STALLED_PERIODS: f64 = 5.0;

/// What a board does for some time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    Idle,
    /// A program starts: it loads libraries and waits for others.
    StartUp,
    /// A model is loaded.
    Loading,
    /// An LLM reads a prompt.
    Prefill,
    /// An LLM writes an answer.
    Decode,
    Training,
    Evaluation,
    /// Nothing that a simulated load stands for.
    Other,
}

impl Phase {
    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::StartUp => "start-up",
            Self::Loading => "model load",
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Training => "training",
            Self::Evaluation => "evaluation",
            Self::Other => "other",
        }
    }

    /// Whether the workload itself runs.
    pub const fn is_work(self) -> bool {
        matches!(
            self,
            Self::Prefill | Self::Decode | Self::Training | Self::Evaluation
        )
    }

    /// Whether the board waits, so that its power is that of the idle board but for bursts.
    pub const fn is_wait(self) -> bool {
        matches!(self, Self::Idle | Self::StartUp)
    }
}

/// Where traces with certain columns come from.
#[derive(Debug)]
pub struct Source {
    /// Columns besides that of the run.
    columns: &'static [&'static str],
    /// Column of the time and its unit in s.
    time: (&'static str, f64),
    /// Column of the module's power in mW.
    power: &'static str,
    /// Column of the first rail's power in mW.
    rail: &'static str,
    /// How phases are found.
    phases: Phases,
    /// Name of the simulated board.
    pub board: &'static str,
    /// The prefixes of a run's name, each with the ID of the board's mode in nvpmodel.
    modes: &'static [(&'static str, u32)],
    /// Voltage in V of the rails that feed CPU and GPU: that of the recorded board.
    pub input_v: f64,
    /// The step of the module's power in W; that of a sum of rails is the root of the sum of squares.
    pub step_w: f64,
    /// The step of the first rail's power in W.
    pub rail_step_w: f64,
}

/// How the phases of a run are found.
#[derive(Debug)]
enum Phases {
    /// By a column with these words.
    Column(&'static str, &'static [(&'static str, Phase)]),
    /// By the power: up to the last time at which it rises through the middle of its range, the board waits in the first phase.
    /// A column says which phase follows; a word with a single phase has no other.
    Rise(&'static str, &'static [(&'static str, Phase)]),
    /// By the power: above the middle of its range the board works. The run's name says at what.
    Middle(&'static [(&'static str, Phase)]),
}

/// All sources (`../shared/data/PROVENANCE.md`). The steps of a current are 20 mA and 8 mA (`jetson-platform.md`, fact 3).
/// The mode of the Orin NX is not stated; a comment there says 15 W.
pub const SOURCES: [Source; 3] = [
    Source {
        columns: &[
            "t_ms",
            "phase",
            "gpu_soc_mw",
            "cpu_cv_mw",
            "vin_sys_5v0_mw",
            "vddq_mw",
            "total_mw",
        ],
        time: ("t_ms", 1e-3),
        power: "total_mw",
        rail: "gpu_soc_mw",
        phases: Phases::Column(
            "phase",
            &[
                ("idle_pre", Phase::Idle),
                ("load", Phase::Loading),
                ("prefill", Phase::Prefill),
                ("decode", Phase::Decode),
                ("teardown", Phase::Other),
                ("idle_post", Phase::Idle),
            ],
        ),
        board: "orin-agx-64",
        modes: &[("mode30w-", 2), ("", 0)],
        input_v: 19.86,
        step_w: 0.570,
        rail_step_w: 0.397,
    },
    Source {
        columns: &["t_us", "what", "vdd_in_mw"],
        time: ("t_us", 1e-6),
        power: "vdd_in_mw",
        rail: "vdd_in_mw",
        phases: Phases::Rise(
            "what",
            &[
                ("training", Phase::Training),
                ("evaluation", Phase::Evaluation),
                ("start-up", Phase::StartUp),
            ],
        ),
        board: "orin-nx-16",
        modes: &[("", 2)],
        input_v: 5.0,
        step_w: 0.0406,
        rail_step_w: 0.0406,
    },
    Source {
        columns: &[
            "t_ms",
            "gpu_percent",
            "gpu_mhz",
            "cpu_percent",
            "tj_c",
            "vdd_in_mw",
            "cpu_gpu_cv_mw",
            "soc_mw",
        ],
        time: ("t_ms", 1e-3),
        power: "vdd_in_mw",
        rail: "vdd_in_mw",
        phases: Phases::Middle(&[("prefill", Phase::Prefill), ("", Phase::Decode)]),
        board: "orin-nano-8-super",
        modes: &[("", 2)],
        input_v: 5.0,
        step_w: 0.0406,
        rail_step_w: 0.0406,
    },
];

/// A reading of the power.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    pub seconds: f64,
    /// The module's power.
    pub watts: f64,
    /// The power of the first rail: on an AGX Orin that of the GPU, which steps while other rails follow; elsewhere the module's.
    pub rail_w: f64,
}

/// Readings of one phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    pub phase: Phase,
    pub readings: Range<usize>,
}

/// A run: readings over time, and its phases in the order of time.
#[derive(Clone, Debug)]
pub struct Run {
    pub name: String,
    /// ID of the mode in nvpmodel.
    pub mode: u32,
    pub readings: Vec<Reading>,
    pub stretches: Vec<Stretch>,
}

impl Run {
    /// A run whose phases are those of its readings.
    pub fn new(name: String, mode: u32, readings: Vec<Reading>, phases: &[Phase]) -> Self {
        let mut stretches: Vec<Stretch> = Vec::new();
        for (at, phase) in phases.iter().enumerate() {
            match stretches.last_mut() {
                Some(last) if last.phase == *phase => last.readings.end = at + 1,
                _ => stretches.push(Stretch {
                    phase: *phase,
                    readings: at..at + 1,
                }),
            }
        }
        Self {
            name,
            mode,
            readings,
            stretches,
        }
    }

    /// Median time in s from one reading to the next.
    pub fn period_s(&self) -> f64 {
        period_s(&self.readings)
    }

    /// The lowest and the highest power in W.
    pub fn range_w(&self) -> [f64; 2] {
        range_w(&self.readings)
    }

    /// Duration of a stretch in s: until the next one begins, or its last reading.
    pub fn seconds(&self, stretch: &Stretch) -> f64 {
        let end = stretch.readings.end.min(self.readings.len() - 1);
        self.readings[end].seconds - self.readings[stretch.readings.start].seconds
    }
}

fn period_s(readings: &[Reading]) -> f64 {
    median(
        readings
            .windows(2)
            .map(|two| two[1].seconds - two[0].seconds),
    )
}

fn range_w(readings: &[Reading]) -> [f64; 2] {
    let watts = || readings.iter().map(|reading| reading.watts);
    [
        watts().fold(f64::INFINITY, f64::min),
        watts().fold(0.0, f64::max),
    ]
}

/// A file of runs.
#[derive(Debug)]
pub struct Trace {
    pub path: PathBuf,
    pub source: &'static Source,
    pub runs: Vec<Run>,
}

/// A run that is being read: the line of its last row, its readings, and the phase that each row tells.
struct Reader {
    line: u64,
    name: String,
    readings: Vec<Reading>,
    told: Vec<Phase>,
}

impl Trace {
    /// Reads a trace.
    pub fn read(path: &Path) -> Result<Self, FileError> {
        let (source, readers) = parse(&mut files::open(path, &LAYOUT)?)?;
        let runs = runs(source, readers).map_err(|defect| FileError::Defect {
            path: path.to_owned(),
            defect,
        })?;
        Ok(Self {
            path: path.to_owned(),
            source,
            runs,
        })
    }
}

fn parse<R: Read>(table: &mut Table<R>) -> Result<(&'static Source, Vec<Reader>), FileError> {
    let source = source(table)?;
    let places = [RUN, source.time.0, source.power, source.rail];
    let [run, time, power, rail] = table.places(places)?;
    let word = match source.phases {
        Phases::Column(column, known) | Phases::Rise(column, known) => {
            Some((column, table.required(column)?, known))
        }
        Phases::Middle(_) => None,
    };
    let mut readers: Vec<Reader> = Vec::new();
    table.rows(|row| -> Result<(), Defect> {
        let (column, unit) = source.time;
        let seconds = unit * number((column, row.field(time)), LATEST_S / unit)?;
        let watts = |column, place| number((column, row.field(place)), MOST_MW).map(|mw| 1e-3 * mw);
        let reading = Reading {
            seconds,
            watts: watts(source.power, power)?,
            rail_w: watts(source.rail, rail)?,
        };
        let name = name((RUN, row.field(run)))?;
        if readers.last().is_none_or(|last| last.name != name) {
            if readers.iter().any(|before| before.name == name) {
                return Err(bad(RUN, "the rows of a run in one piece", &name).into());
            }
            readers.push(Reader {
                line: 0,
                name,
                readings: Vec::new(),
                told: Vec::new(),
            });
        }
        let Some(reader) = readers.last_mut() else {
            return Ok(());
        };
        if let Some(last) = reader.readings.last().filter(|it| it.seconds >= seconds) {
            let before = (last.seconds / unit).round();
            let expected = format!("more than {before}, the time of the row before");
            return Err(bad(column, expected, text((column, row.field(time)))?).into());
        }
        reader.line = row.line();
        reader.readings.push(reading);
        if let Some((column, place, known)) = word {
            reader.told.push(told((column, row.field(place)), known)?);
        }
        Ok(())
    })?;
    Ok((source, readers))
}

/// The source with the columns of a file.
fn source<R: Read>(table: &Table<R>) -> Result<&'static Source, FileError> {
    let has = |column: &&str| table.header().any(|name| name == column.as_bytes());
    let is_of = |source: &&Source| has(&RUN) && source.columns.iter().all(has);
    SOURCES.iter().find(is_of).ok_or_else(|| {
        let known = SOURCES.each_ref();
        let known = known.map(|source| format!("{RUN},{}", source.columns.join(",")));
        let names: Vec<_> = table.header().map(String::from_utf8_lossy).collect();
        table.refuse(Defect::whole(Problem::BadField {
            expected: format!("the columns {}", known.join(" or ")).into(),
            found: names.join(",").into(),
            advice: None,
        }))
    })
}

/// The phase that a word tells.
fn told(field: Named<'_>, known: &[(&str, Phase)]) -> Result<Phase, Refusal> {
    let word = text(field)?;
    let found = known.iter().find(|(known, _)| *known == word);
    found.map(|(_, phase)| *phase).ok_or_else(|| {
        let known: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
        bad(field.0, format!("one of {}", known.join(", ")), word)
    })
}

/// The runs, if they have the unit of their columns and are long enough.
fn runs(source: &Source, readers: Vec<Reader>) -> Result<Vec<Run>, Defect> {
    let peaks_w = readers.iter().map(|reader| range_w(&reader.readings)[1]);
    let peak_mw = 1e3 * peaks_w.fold(0.0, f64::max);
    if peak_mw < LEAST_PEAK_MW {
        let expected = format!("a highest power of {LEAST_PEAK_MW} mW or more");
        return Err(bad(source.power, expected, &peak_mw.to_string()).into());
    }
    let runs = readers.into_iter().map(|reader| reader.run(source));
    runs.collect()
}

impl Phases {
    /// The phase of each reading.
    fn of(&self, name: &str, readings: &[Reading], told: Vec<Phase>) -> Vec<Phase> {
        let [low, high] = range_w(readings);
        let is_high = |reading: &Reading| reading.watts > f64::midpoint(low, high);
        match self {
            Self::Column(..) => told,
            Self::Rise(..) => {
                let rises = |two: &[Reading]| !is_high(&two[0]) && is_high(&two[1]);
                let rise = readings.windows(2).rposition(rises);
                let phase = |(at, phase)| match rise {
                    Some(rise) if at > rise => phase,
                    _ => Phase::StartUp,
                };
                told.into_iter().enumerate().map(phase).collect()
            }
            Self::Middle(known) => {
                let work = known.iter().find(|(part, _)| name.contains(part));
                let work = work.map_or(Phase::Other, |(_, phase)| *phase);
                let phase = |reading| if is_high(reading) { work } else { Phase::Idle };
                readings.iter().map(phase).collect()
            }
        }
    }
}

impl Reader {
    fn run(mut self, source: &Source) -> Result<Run, Defect> {
        let count = self.readings.len();
        if count < FEWEST_READINGS {
            let expected = format!("at least {FEWEST_READINGS} readings of `{}`", self.name);
            return Err(Defect {
                line: Some(self.line),
                ..bad(RUN, expected, &count.to_string()).into()
            });
        }
        let period_s = period_s(&self.readings);
        for at in 1..count {
            let next = self.readings[at].seconds;
            let before = &mut self.readings[at - 1].seconds;
            if next - *before > STALLED_PERIODS * period_s {
                *before = next - period_s;
            }
        }
        let phases = source.phases.of(&self.name, &self.readings, self.told);
        let mode = source
            .modes
            .iter()
            .find(|(prefix, _)| self.name.starts_with(prefix));
        let mode = mode.map_or(0, |(_, id)| *id);
        Ok(Run::new(self.name, mode, self.readings, &phases))
    }
}
