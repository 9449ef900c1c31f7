//! The board that plays back a corpus.
//!
//! Its modes are those of the corpus's grid, so that it never runs where nobody measured: it has no other clocks. Cores can still
//! be switched off one by one; numbers of cores that the corpus lacks follow the physics. A knob that the corpus leaves blank has
//! the board's highest value. What the corpus cannot say comes from the simulated board: the idle board without the workload,
//! the split over rails, what part of a step waits for the loader, heat, sensors and delays.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thiserror::Error;
use wattgate_board_tables::{Board, BoardError, Preset, names};

use super::corpus::{Corpus, KNOBS, Row};
use super::interpolation::NEIGHBOURS;
use super::{Measured, record};
use crate::workload::{self, Workload};

/// The workload whose physics a recording corrects, if the corpus has none of a shipped workload's name.
const PHYSICS: &str = "resnet18";

/// A CPU or GPU clock that was rounded to MHz is nearer than this to the one of the table, in kHz. A memory clock by its nominal
/// rate, such as 1333 MHz for 1331.2, is nearer than the second number.
const ROUNDED_KHZ: [u32; 2] = [1_000, 2_000];

/// Repeats of one mode that differ by a greater factor contradict each other.
const CONTRADICTORY: f64 = 1.5;

/// Times that are all shorter than this, in ms, are probably in seconds.
const SHORT_MS: f64 = 1.0;

/// Why a corpus cannot be played back.
#[derive(Debug, Error)]
pub enum RecordingError {
    /// The device is no board of ours.
    #[error("`{device}` in `device` is no board that is known; name the board with --board")]
    UnknownDevice { device: String },
    /// The named board has another chip than that of the corpus.
    #[error(
        "the corpus is of `{device}`, which has another chip than `{board}`; leave --board out"
    )]
    OtherChip { device: String, board: String },
    /// The named board is unknown.
    #[error("{0}")]
    Board(#[from] BoardError),
    /// Nothing is known of the board but its clocks.
    #[error(
        "`{board}` cannot be played back: nothing is known of its rails and of what it draws at rest; there are {}",
        known.join(", ")
    )]
    NoPhysics { board: String, known: Vec<String> },
    /// A clock is blank, and the board has no table of it.
    #[error(
        "`{column}` is blank, and no table of `{board}` is known; write the clock of the measurements into each row"
    )]
    NoClock { column: &'static str, board: String },
    /// A row has more cores than the board.
    #[error(
        "line {line}: column `cores`: expected 1 … {all}, the cores of `{board}`, found `{cores}`"
    )]
    Cores {
        line: u64,
        cores: u32,
        all: u32,
        board: String,
    },
    /// Too few modes are measured.
    #[error(
        "modes with a time and a power: {modes}, expected at least {NEIGHBOURS}; measure more of the grid"
    )]
    Few { modes: usize },
}

/// A board that plays back a corpus, with the workload that it recorded.
#[derive(Clone, Debug)]
pub struct RecordedBoard {
    pub board: Board,
    pub workload: Workload,
    /// The measured modes, ascending: online cores, and CPU, GPU and memory clock in kHz.
    pub measured: Vec<[u32; 4]>,
    /// What a user should know of the corpus, a sentence each.
    pub remarks: Vec<String>,
}

impl RecordedBoard {
    /// The board of a corpus: that of its device unless one is named.
    pub fn new(corpus: &Corpus, board: Option<&str>) -> Result<Self, RecordingError> {
        let mut board = described(corpus, board)?;
        let mut remarks = Remarks::default();
        if corpus.left_out > 0 {
            let rows = corpus.left_out;
            remarks.add(format!(
                "rows without a time or a power are left out: {rows}"
            ));
        }
        let longest = corpus
            .rows
            .iter()
            .map(|row| row.time_ms)
            .fold(0.0, f64::max);
        if longest < SHORT_MS {
            remarks.add(format!(
                "time_ms has at most {longest}: are these seconds? Multiply them by 1000; if they are ms, nothing is wrong"
            ));
        }
        let knobs = knobs(&mut board, corpus, &mut remarks)?;
        let modes = modes(&corpus.rows, &knobs, &mut remarks);
        let grid = knobs.iter().map(|knob| knob.values().len()).product();
        if modes.len() < NEIGHBOURS {
            let modes = modes.len();
            return Err(RecordingError::Few { modes });
        }
        if modes.len() < grid {
            let modes = modes.len();
            remarks.add(format!(
                "{modes} of the {grid} modes of its grid are measured: the others are interpolated"
            ));
        }
        let mut workload = physics(corpus);
        workload.recording = Some(Arc::new(record(&board, &workload, &modes)));
        Ok(Self {
            board,
            workload,
            measured: modes.iter().map(|mode| mode.knobs).collect(),
            remarks: remarks.0,
        })
    }
}

/// The name by which boards, logs and rows know the workload of a corpus.
pub fn name(corpus: &Corpus) -> String {
    let sane = |c: char| match c.is_ascii_alphanumeric() || "-_.".contains(c) {
        true => c,
        false => '_',
    };
    corpus.workload.chars().map(sane).collect()
}

/// The workload without its recording.
fn physics(corpus: &Corpus) -> Workload {
    let name = name(corpus);
    let shipped = workload::names().contains(&name.as_str());
    let known = if shipped { &name } else { PHYSICS };
    let mut workload = Workload::named(known).expect("a shipped workload");
    // A size that no simulated workload has does not change the physics.
    if let Some(minibatch) = corpus.minibatch {
        let sized = workload.clone().with_minibatch(minibatch);
        workload = sized.unwrap_or(workload);
    }
    workload.name = name;
    workload
}

/// The board that was measured, as its file describes it.
fn described(corpus: &Corpus, named: Option<&str>) -> Result<Board, RecordingError> {
    let device = corpus.device.clone();
    let of_device = Board::described(&device);
    let mut board = match (named, of_device) {
        (Some(named), of_device) => {
            let board = Board::described(named)?;
            if of_device.is_ok_and(|other| other.soc != board.soc) {
                let board = board.name;
                return Err(RecordingError::OtherChip { device, board });
            }
            board
        }
        (None, Ok(board)) => board,
        (None, Err(_)) => return Err(RecordingError::UnknownDevice { device }),
    };
    if !has_physics(&board) {
        let known = names().into_iter();
        let known = known.filter(|name| Board::described(name).is_ok_and(|it| has_physics(&it)));
        return Err(RecordingError::NoPhysics {
            board: board.name,
            known: known.map(str::to_owned).collect(),
        });
    }
    // The papers' modes are of the whole tables.
    board.papers = None;
    if board.modes.is_empty() {
        board.modes.push(Preset {
            id: 0,
            name: "MAXN".to_owned(),
            budget_w: None,
            default: true,
            cores: (0..board.cores()).collect(),
            cpu_khz: None,
            cpu_min_khz: None,
            gpu_khz: None,
            emc_khz: None,
            tpc_pg_mask: None,
            fbp_pg_mask: None,
        });
    }
    // A mask that all modes share gates what the board does not have.
    let first = board.modes[0].tpc_pg_mask;
    if board.modes.iter().all(|mode| mode.tpc_pg_mask == first) {
        for mode in &mut board.modes {
            mode.tpc_pg_mask = None;
        }
    }
    Ok(board)
}

fn has_physics(board: &Board) -> bool {
    board.physics.is_some() && !board.rails.is_empty()
}

/// What a knob of the corpus means on the board.
#[derive(Debug)]
enum Knob {
    /// It is blank, and taken at this value.
    Blank(u32),
    /// The board's value of each value of the corpus.
    Stated(BTreeMap<u32, u32>),
}

impl Knob {
    fn of(&self, stated: Option<u32>) -> u32 {
        match (self, stated) {
            (Self::Blank(value), _) => *value,
            (Self::Stated(values), Some(stated)) => values.get(&stated).copied().unwrap_or(stated),
            (Self::Stated(_), None) => 0,
        }
    }

    /// The board's values, ascending.
    fn values(&self) -> Vec<u32> {
        match self {
            Self::Blank(value) => vec![*value],
            Self::Stated(values) => {
                let values: BTreeSet<u32> = values.values().copied().collect();
                values.into_iter().collect()
            }
        }
    }
}

/// Gives the board the clocks of a corpus, and says what each knob of the corpus means.
fn knobs(
    board: &mut Board,
    corpus: &Corpus,
    remarks: &mut Remarks,
) -> Result<[Knob; 4], RecordingError> {
    let values = |axis: usize| -> BTreeSet<u32> {
        let stated = corpus.rows.iter().filter_map(|row| row.knobs[axis]);
        stated.collect()
    };
    let cores = cores(board, corpus, &values(0), remarks)?;
    let [cpu, gpu, emc] = [1, 2, 3].map(|axis| clock(board, axis, &values(axis), remarks));
    let knobs = [cores, cpu?, gpu?, emc?];
    board.recorded_cores = knobs[0].values();
    board.cpu_khz = knobs[1].values();
    board.gpu_khz = knobs[2].values();
    board.emc_khz = knobs[3].values();
    Ok(knobs)
}

fn cores(
    board: &Board,
    corpus: &Corpus,
    stated: &BTreeSet<u32>,
    remarks: &mut Remarks,
) -> Result<Knob, RecordingError> {
    let all = board.cores();
    let (Some(least), Some(most)) = (stated.first(), stated.last()) else {
        remarks.add(format!(
            "cores is blank: {all} is assumed; write it into each row before you fit a model"
        ));
        return Ok(Knob::Blank(all));
    };
    let too_many = |row: &&Row| row.knobs[0].is_some_and(|cores| cores > all);
    if let Some(row) = corpus.rows.iter().find(too_many) {
        return Err(RecordingError::Cores {
            line: row.line,
            cores: row.knobs[0].unwrap_or_default(),
            all,
            board: board.name.clone(),
        });
    }
    if stated.len() < all as usize {
        let stated = match least == most {
            true => format!("{least} in every row"),
            false => format!("{least} to {most}"),
        };
        remarks.add(format!(
            "cores is {stated}: what other numbers do is simulated, and no mode has them"
        ));
    }
    Ok(Knob::Stated(stated.iter().map(|it| (*it, *it)).collect()))
}

fn clock(
    board: &Board,
    axis: usize,
    stated: &BTreeSet<u32>,
    remarks: &mut Remarks,
) -> Result<Knob, RecordingError> {
    let column = KNOBS[axis];
    let table = &board.axes()[axis];
    if stated.is_empty() {
        let caps = board.modes.iter().filter_map(|mode| match axis {
            1 => mode.cpu_khz,
            2 => mode.gpu_khz,
            _ => mode.emc_khz,
        });
        let Some(highest) = table.last().copied().or(caps.max()) else {
            return Err(RecordingError::NoClock {
                column,
                board: board.name.clone(),
            });
        };
        remarks.add(format!(
            "{column} is blank: {highest} is assumed; write it into each row before you fit a model"
        ));
        return Ok(Knob::Blank(highest));
    }
    let known = |khz: u32| table_clock(table, axis, khz);
    let values: BTreeMap<u32, u32> = stated
        .iter()
        .map(|khz| (*khz, known(*khz).unwrap_or(*khz)))
        .collect();
    let strange: Vec<String> = stated
        .iter()
        .filter(|khz| known(**khz).is_none())
        .map(u32::to_string)
        .collect();
    if !table.is_empty() && !strange.is_empty() {
        let other = board_with(board, axis, stated);
        let other = other.map(|other| format!("; --board {other} has them in its table"));
        remarks.add(format!(
            "{column} has {}, which the table of {} lacks: the recorded board has them{}",
            strange.join(", "),
            board.name,
            other.unwrap_or_default()
        ));
    }
    if let (1, Some(only)) = (stated.len(), stated.first()) {
        remarks.add(format!(
            "{column} is {only} in every row: the board has no other"
        ));
    }
    Ok(Knob::Stated(values))
}

/// The clock of a table that one of a corpus stands for.
fn table_clock(table: &[u32], axis: usize, khz: u32) -> Option<u32> {
    let tolerance = ROUNDED_KHZ[usize::from(KNOBS[axis] == "emc_khz")];
    let near = table.iter().copied().min_by_key(|it| it.abs_diff(khz));
    near.filter(|near| near.abs_diff(khz) < tolerance)
}

/// Another release or variant of a board whose table has all clocks of a corpus.
fn board_with(board: &Board, axis: usize, stated: &BTreeSet<u32>) -> Option<&'static str> {
    let has = |name: &&str| {
        let other = Board::described(name).ok();
        other.filter(|it| it.soc == board.soc).is_some_and(|other| {
            let table = &other.axes()[axis];
            let mut stated = stated.iter();
            stated.all(|khz| table_clock(table, axis, *khz).is_some())
        })
    };
    names()
        .into_iter()
        .filter(has)
        .find(|name| name.starts_with(&board.name))
}

/// The measured modes, each with the median of its repeats.
fn modes(rows: &[Row], knobs: &[Knob; 4], remarks: &mut Remarks) -> Vec<Measured> {
    let mut of_mode: BTreeMap<[u32; 4], Vec<&Row>> = BTreeMap::new();
    for row in rows {
        let mode = std::array::from_fn(|axis| knobs[axis].of(row.knobs[axis]));
        of_mode.entry(mode).or_default().push(row);
    }
    let mut contradictions = Vec::new();
    for rows in of_mode.values() {
        let worst = [
            contradiction(rows, "time_ms", |row| row.time_ms),
            contradiction(rows, "power_mw", |row| row.power_mw),
        ];
        let worst = worst.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
        contradictions.extend(worst.filter(|(ratio, _)| *ratio > CONTRADICTORY));
    }
    let number = contradictions.len();
    let worst = contradictions
        .into_iter()
        .max_by(|a, b| a.0.total_cmp(&b.0));
    if let Some((_, text)) = worst {
        remarks.add(format!(
            "modes whose repeats differ by more than {CONTRADICTORY} times: {number}, the most {text}; their medians are \
             played back"
        ));
    }
    let measured = |(knobs, rows): (&[u32; 4], &Vec<&Row>)| Measured {
        knobs: *knobs,
        seconds: median(rows.iter().map(|row| row.time_ms)) / 1e3,
        watts: median(rows.iter().map(|row| row.power_mw)) / 1e3,
    };
    of_mode.iter().map(measured).collect()
}

/// The ratio of the greatest and the least value of a mode's repeats, and both lines.
fn contradiction(rows: &[&Row], column: &str, value: fn(&Row) -> f64) -> (f64, String) {
    let by = |a: &&&Row, b: &&&Row| value(a).total_cmp(&value(b));
    let (Some(least), Some(most)) = (rows.iter().min_by(by), rows.iter().max_by(by)) else {
        return (1.0, String::new());
    };
    let (lower, higher) = (value(least), value(most));
    let text = format!(
        "in lines {} and {}, where {column} is {lower} and {higher}",
        least.line, most.line
    );
    (higher / lower, text)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() % 2 {
        1 => sorted[middle],
        _ => f64::midpoint(sorted[middle - 1], sorted[middle]),
    }
}

#[derive(Debug, Default)]
struct Remarks(Vec<String>);

impl Remarks {
    fn add(&mut self, remark: String) {
        self.0.push(remark);
    }
}
