//! Recorded traces: what a real board's power sensor showed over time.
//!
//! A trace is a CSV file with the columns of one of three [`SOURCES`]. Rows of a run stand in one piece, in the order of time.
//!
//! ```text
//! run,t_us,what,vdd_in_mw
//! 2025-03-28_015632,0,training,5964.7
//! 2025-03-28_015632,11600,training,5964.7
//! ```

use std::ops::Range;
use std::path::{Path, PathBuf};

use wattgate_simulated_board::csv::{CsvError, Wrong, cells, lines, number, read};

use super::median;

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
    columns: &'static str,
    /// Column of the time and its unit in s.
    time: (usize, f64),
    /// Column of the module's power in mW.
    power: usize,
    /// Column of the first rail's power in mW.
    rail: usize,
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
    Column(usize, &'static [(&'static str, Phase)]),
    /// By the power: up to the last time at which it rises through the middle of its range, the board waits in the first phase.
    /// A column says which phase follows; a word with a single phase has no other.
    Rise(usize, &'static [(&'static str, Phase)]),
    /// By the power: above the middle of its range the board works. The run's name says at what.
    Middle(&'static [(&'static str, Phase)]),
}

/// All sources (`../shared/data/PROVENANCE.md`). The steps of a current are 20 mA and 8 mA (`jetson-platform.md`, fact 3).
/// The mode of the Orin NX is not stated; a comment there says 15 W.
pub const SOURCES: [Source; 3] = [
    Source {
        columns: "run,t_ms,phase,gpu_soc_mw,cpu_cv_mw,vin_sys_5v0_mw,vddq_mw,total_mw",
        time: (1, 1e-3),
        power: 7,
        rail: 3,
        phases: Phases::Column(
            2,
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
        columns: "run,t_us,what,vdd_in_mw",
        time: (1, 1e-6),
        power: 3,
        rail: 3,
        phases: Phases::Rise(
            2,
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
        columns: "run,t_ms,gpu_percent,gpu_mhz,cpu_percent,tj_c,vdd_in_mw,cpu_gpu_cv_mw,soc_mw",
        time: (1, 1e-3),
        power: 6,
        rail: 6,
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

/// A run that is being read: the line of its last row, its readings, and the word of each that tells a phase.
struct Reader<'a> {
    line: usize,
    name: &'a str,
    readings: Vec<Reading>,
    words: Vec<&'a str>,
}

impl Trace {
    /// Reads a trace.
    pub fn read(path: &Path) -> Result<Self, CsvError> {
        let (source, runs) = read(path, parse)?;
        Ok(Self {
            path: path.to_owned(),
            source,
            runs,
        })
    }
}

fn parse(bytes: &[u8]) -> Result<(&'static Source, Vec<Run>), Wrong> {
    let (header, lines) = lines(bytes)?;
    let source = SOURCES.iter().find(|source| source.columns == header);
    let source = source.ok_or_else(|| {
        let known = SOURCES.map(|source| format!("`{}`", source.columns));
        let expected = format!("the columns of a trace: {}", known.join(" or "));
        Wrong::new(1, format!("`{header}`"), expected)
    })?;
    let columns: Vec<&str> = header.split(',').collect();
    let mut readers: Vec<Reader<'_>> = Vec::new();
    for (line, text) in lines {
        let cells = cells(line, text, columns.len())?;
        let (time, unit) = source.time;
        let seconds = unit * number(line, columns[time], cells[time], LATEST_S / unit)?;
        let watts = |column: usize| {
            let mw = number(line, columns[column], cells[column], MOST_MW)?;
            Ok(1e-3 * mw)
        };
        let (watts, rail_w) = (watts(source.power)?, watts(source.rail)?);
        let name = cells[0];
        if readers.last().is_none_or(|last| last.name != name) {
            if readers.iter().any(|before| before.name == name) {
                let found = format!("run `{name}` again");
                return Err(Wrong::new(line, found, "the rows of a run in one piece"));
            }
            readers.push(Reader {
                line,
                name,
                readings: Vec::new(),
                words: Vec::new(),
            });
        }
        let Some(reader) = readers.last_mut() else {
            continue;
        };
        if let Some(last) = reader.readings.last().filter(|it| it.seconds >= seconds) {
            let found = format!("`{}` in `{}`", cells[time], columns[time]);
            let before = (last.seconds / unit).round();
            let expected = format!("more than {before}, the time of the row before");
            return Err(Wrong::new(line, found, expected));
        }
        reader.line = line;
        reader.readings.push(Reading {
            seconds,
            watts,
            rail_w,
        });
        reader
            .words
            .push(source.phases.word(line, &columns, &cells)?);
    }
    let peak_w = readers.iter().map(|reader| range_w(&reader.readings)[1]);
    let peak_mw = 1e3 * peak_w.fold(0.0, f64::max);
    if readers.is_empty() {
        return Err(Wrong::new(1, "no row", "rows of at least one run"));
    }
    if peak_mw < LEAST_PEAK_MW {
        let found = format!("no power above {peak_mw} in `{}`", columns[source.power]);
        return Err(Wrong::new(1, found, "milliwatts"));
    }
    let runs = readers.into_iter().map(|reader| reader.run(source));
    Ok((source, runs.collect::<Result<_, _>>()?))
}

impl Phases {
    /// The word of a row that tells its phase; empty if no column does.
    fn word<'a>(&self, line: usize, columns: &[&str], cells: &[&'a str]) -> Result<&'a str, Wrong> {
        let (Self::Column(column, known) | Self::Rise(column, known)) = self else {
            return Ok("");
        };
        let word = cells[*column];
        if known.iter().any(|(known, _)| *known == word) {
            return Ok(word);
        }
        let known: Vec<&str> = known.iter().map(|(known, _)| *known).collect();
        let found = format!("`{word}` in `{}`", columns[*column]);
        Err(Wrong::new(line, found, known.join(", ")))
    }

    /// The phase of each reading.
    fn of(&self, name: &str, readings: &[Reading], words: &[&str]) -> Vec<Phase> {
        let [low, high] = range_w(readings);
        let is_high = |reading: &Reading| reading.watts > f64::midpoint(low, high);
        let phase_of = |known: &[(&str, Phase)], is: &dyn Fn(&str) -> bool| {
            let found = known.iter().find(|(known, _)| is(known));
            found.map_or(Phase::Other, |(_, phase)| *phase)
        };
        let named = |known: &[(&str, Phase)], word: &str| phase_of(known, &|known| known == word);
        match self {
            Self::Column(_, known) => words.iter().map(|word| named(known, word)).collect(),
            Self::Rise(_, known) => {
                let rises = |two: &[Reading]| !is_high(&two[0]) && is_high(&two[1]);
                let rise = readings.windows(2).rposition(rises);
                let phase = |(at, word): (usize, &&str)| match rise {
                    Some(rise) if at > rise => named(known, word),
                    _ => Phase::StartUp,
                };
                words.iter().enumerate().map(phase).collect()
            }
            Self::Middle(known) => {
                let phase = |reading| match is_high(reading) {
                    true => phase_of(known, &|part| name.contains(part)),
                    false => Phase::Idle,
                };
                readings.iter().map(phase).collect()
            }
        }
    }
}

impl Reader<'_> {
    fn run(mut self, source: &Source) -> Result<Run, Wrong> {
        let count = self.readings.len();
        if count < FEWEST_READINGS {
            let found = format!("run `{}` ends after {count} readings", self.name);
            let expected = format!("at least {FEWEST_READINGS}");
            return Err(Wrong::new(self.line, found, expected));
        }
        let period_s = period_s(&self.readings);
        for at in 1..count {
            let next = self.readings[at].seconds;
            let before = &mut self.readings[at - 1].seconds;
            if next - *before > STALLED_PERIODS * period_s {
                *before = next - period_s;
            }
        }
        let phases = source.phases.of(self.name, &self.readings, &self.words);
        let mode = source
            .modes
            .iter()
            .find(|(prefix, _)| self.name.starts_with(prefix));
        let mode = mode.map_or(0, |(_, id)| *id);
        Ok(Run::new(self.name.to_owned(), mode, self.readings, &phases))
    }
}
