//! The inputs that commands share, named in one way by all of them.
//!
//! | input | how it is named |
//! |---|---|
//! | a model | a file, as the first argument |
//! | a corpus | a file, as the first argument; several where a command takes several |
//! | a reference | `--reference FILE`, a model or a corpus |
//! | a board | `--board BOARD`, a name or a file of it, or `--axes` with its values |
//!
//! A row of a corpus with neither time nor power is an error unless `--skip-blank` is given.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use clap::Args;
use indicatif::ProgressBar;
use rayon::prelude::*;
use thiserror::Error;
use wattgate_board::DiscoverError;
use wattgate_board_tables::{Board, BoardError, names};
use wattgate_cli::exit;
use wattgate_cli::nearest::nearest;
use wattgate_cli::planning::{MOST_REFERENCES, NOT_SHOWN};
use wattgate_probe::format::{OpenError, Probe, ProbeError};
use wattgate_probe::recorded::Recorded;
use wattgate_probe::summary::Summary;
use wattgate_runtime::format::{MAGIC, Provenance};
use wattgate_runtime::grid::{Axis, Grid, GridError};
use wattgate_runtime::{Model, PowerMode};

use super::{Failure, progress_bar, reading_bar, show, values};
use crate::corpus::clocks::{NOMINAL_KHZ, board_with, table_clock};
use crate::corpus::modes::all_modes;
use crate::corpus::{
    AXIS_COLUMNS, Blank, Corpus, CorpusError, NAMED_WORKLOADS, Problem, Reading, is_name,
};
use crate::learn::fleet::joined_grid;
use crate::learn::priors::Priors;
use crate::learn::reference::Reference;

/// The first bytes of a probe, which is a gzip file.
const PROBE: [u8; 2] = [0x1f, 0x8b];

/// A model as the input of a command.
#[derive(Debug, Args)]
pub struct ModelArgument {
    /// A model file
    #[arg(value_name = "MODEL")]
    pub model: PathBuf,
}

impl ModelArgument {
    /// Reads the bytes of the file for [`ModelArgument::parse`].
    pub fn read(&self) -> Result<Vec<u8>, Failure> {
        read_model(&self.model)
    }

    /// Parses the bytes of the file.
    pub fn parse<'a>(&self, bytes: &'a [u8]) -> Result<(Model<'a>, Provenance<'a>), Failure> {
        parse_model(&self.model, bytes)
    }
}

/// A corpus as the input of a command.
#[derive(Debug, Args)]
pub struct CorpusArgument {
    /// Profiled modes, as CSV
    #[arg(value_name = "CORPUS")]
    pub corpus: PathBuf,
    #[command(flatten)]
    pub rows: RowsArguments,
}

impl CorpusArgument {
    pub fn read(&self) -> Result<Corpus, Failure> {
        read_corpus(&self.corpus, self.rows.reading())
    }
}

/// Which rows of a corpus are read, as arguments.
#[derive(Debug, Args)]
pub struct RowsArguments {
    #[command(flatten)]
    pub blank: BlankArgument,
    /// The workload whose rows are read, of a file of several
    #[arg(long, value_name = "NAME", value_parser = values::name)]
    workload: Option<String>,
}

impl RowsArguments {
    pub fn reading(&self) -> Reading<'_> {
        Reading {
            blank: self.blank.meaning(),
            workload: self.workload.as_deref(),
        }
    }
}

/// What a row without measurement is, as an argument.
#[derive(Clone, Copy, Debug, Args)]
pub struct BlankArgument {
    /// Skip rows with neither time nor power, which are errors otherwise; their modes are in the grid
    #[arg(long)]
    skip_blank: bool,
}

impl BlankArgument {
    pub fn meaning(self) -> Blank {
        match self.skip_blank {
            true => Blank::Unprofiled,
            false => Blank::Defect,
        }
    }
}

pub fn read_corpus<'a>(path: &Path, reading: impl Into<Reading<'a>>) -> Result<Corpus, Failure> {
    let progress = reading_bar();
    let corpus = Corpus::read_with(path, reading, &progress);
    progress.finish_and_clear();
    Ok(corpus?)
}

/// Reads the corpora of all feedings of a file.
pub fn read_fed<'a>(path: &Path, reading: impl Into<Reading<'a>>) -> Result<Vec<Corpus>, Failure> {
    let progress = reading_bar();
    let fed = Corpus::read_fed(path, reading, &progress);
    progress.finish_and_clear();
    Ok(fed?)
}

/// Reads references: model files and corpora. A file of several workloads is a reference for each of them but that of the
/// corpus itself.
pub fn read_references<P: AsRef<Path> + Sync>(
    paths: &[P],
    blank: Blank,
    own_workload: &str,
) -> Result<Vec<Reference>, Failure> {
    let limited = |found: usize| match found > MOST_REFERENCES {
        true => Err(Failure::ManyReferences { found }),
        false => Ok(()),
    };
    limited(paths.len())?;
    let progress = progress_bar(paths.len() as u64).with_message("reference");
    let read = |path: &P| {
        let references = read_reference(path.as_ref(), blank, own_workload);
        progress.inc(1);
        references
    };
    let of_files: Result<Vec<Vec<Reference>>, Failure> = paths.par_iter().map(read).collect();
    progress.finish_and_clear();
    let references = of_files?.concat();
    limited(references.len())?;
    Ok(references)
}

fn read_reference(
    path: &Path,
    blank: Blank,
    own_workload: &str,
) -> Result<Vec<Reference>, Failure> {
    let name = path.display().to_string();
    let refused = |why| Failure::Reference {
        path: path.to_owned(),
        why,
    };
    if is_model(path) {
        let bytes = read_model(path)?;
        let (model, _) = parse_model(path, &bytes)?;
        let reference = Reference::of_model(name, &model, Priors::shipped()).map_err(refused)?;
        return Ok(vec![reference]);
    }
    let of_corpus = |name: String, corpus: Corpus| {
        Reference::of_corpus(name, corpus, Priors::shipped()).map_err(refused)
    };
    let mut corpora = read_workloads(path, blank)?;
    if let [_] = corpora[..] {
        return Ok(vec![of_corpus(name, corpora.remove(0))?]);
    }
    let others = corpora.into_iter().filter(|it| it.workload != own_workload);
    let read = |corpus: Corpus| of_corpus(format!("{name} ({})", corpus.workload), corpus);
    others.map(read).collect()
}

/// Reads the corpora of all workloads of a file.
fn read_workloads(path: &Path, blank: Blank) -> Result<Vec<Corpus>, Failure> {
    // The bar of all references is drawn.
    let hidden = ProgressBar::hidden();
    let corpus = Corpus::read_with(path, blank, &hidden).map_err(Failure::from);
    let Err(Failure::Corpus(CorpusError::Defect { defect, .. })) = &corpus else {
        return Ok(vec![corpus?]);
    };
    let workloads = match &defect.problem {
        Problem::SeveralWorkloads { names, .. } if names.len() <= NAMED_WORKLOADS => names,
        _ => return Ok(vec![corpus?]),
    };
    let of_each = workloads.iter().map(|workload| {
        let workload = Some(workload.as_str());
        Ok(Corpus::read_with(
            path,
            Reading { blank, workload },
            &hidden,
        )?)
    });
    of_each.collect()
}

fn is_model(path: &Path) -> bool {
    starts_with(path, MAGIC)
}

fn starts_with<const N: usize>(path: &Path, magic: [u8; N]) -> bool {
    let mut start = [0; N];
    let file = fs::File::open(path).and_then(|mut file| file.read_exact(&mut start));
    file.is_ok() && start == magic
}

pub fn read_model(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|source| Failure::Read {
        path: path.to_owned(),
        source,
    })
}

pub fn parse_model<'a>(
    path: &Path,
    bytes: &'a [u8],
) -> Result<(Model<'a>, Provenance<'a>), Failure> {
    let refused = |why| Failure::Model {
        path: path.to_owned(),
        why,
    };
    let model = Model::parse(bytes).map_err(refused)?;
    let provenance = model.provenance().map_err(refused)?;
    Ok((model, provenance))
}

/// A board as the input of a command.
#[derive(Debug, Args)]
pub struct BoardArgument {
    /// The board: a name such as orin-agx-64, or a file: a probe or a model of it, or a corpus with
    /// its modes
    #[arg(long, value_name = "BOARD", conflicts_with = "axes")]
    board: Option<String>,
    /// The values of the board's four axes, each as NAME=VALUE,…
    #[arg(long, value_name = "AXIS", num_args = 4)]
    axes: Option<Vec<String>>,
}

/// What is known of a board.
pub struct NamedBoard {
    /// Its name; `None` where only axes were given.
    pub device: Option<String>,
    /// The values of its knobs.
    pub grid: Grid,
    /// Its modes.
    pub modes: Vec<[u32; 4]>,
}

/// Why `--board` or `--axes` names no board.
#[derive(Debug, Error)]
pub enum NoBoard {
    /// Neither a name nor a file.
    #[error(
        "--board: `{text}` is neither a file nor a known board{}; known boards: {}",
        the_nearest(text), names().join(", ")
    )]
    Unknown { text: String },
    /// A known board whose clocks nobody has published.
    #[error(
        "--board: the clocks of `{name}` are not known, because these are not published of it: {}; name them with --axes, or name a file of the board",
        what.join(", ")
    )]
    NoTable { name: String, what: Vec<String> },
    /// A gzip file that is no probe.
    #[error("{0}")]
    Probe(#[from] OpenError),
    /// A probe in which no board is found.
    #[error("{}: {why}", path.display())]
    NothingFound { path: PathBuf, why: DiscoverError },
    /// An argument of `--axes` that is no axis with values.
    #[error("--axes: `{argument}`: {problem}")]
    Axis {
        argument: String,
        problem: &'static str,
    },
    /// The values form no grid.
    #[error("{option}: {why}")]
    Grid {
        option: &'static str,
        why: GridError,
    },
}

/// Suggests the known board that a name is most like.
fn the_nearest(text: &str) -> String {
    nearest(text, names()).map_or(String::new(), |name| format!("; the nearest is {name}"))
}

impl NoBoard {
    /// The exit code of a program that fails by it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Probe(OpenError {
                why: ProbeError::Unreadable(_),
                ..
            }) => exit::OTHER,
            Self::Probe(_) | Self::NothingFound { .. } => exit::INPUT,
            Self::Unknown { .. } | Self::NoTable { .. } | Self::Axis { .. } | Self::Grid { .. } => {
                exit::ARGUMENTS
            }
        }
    }
}

impl BoardArgument {
    /// The file that names the board, if a file does.
    pub fn file(&self) -> Option<&Path> {
        let path = self.board.as_deref().map(Path::new);
        path.filter(|path| path.exists())
    }

    /// Reads the board; `None` where no option names one.
    pub fn read(&self) -> Result<Option<NamedBoard>, Failure> {
        Ok(match (&self.board, &self.axes) {
            (Some(board), _) => Some(named(board)?),
            (None, Some(axes)) => Some(of_axes(axes)?),
            (None, None) => None,
        })
    }
}

fn named(text: &str) -> Result<NamedBoard, Failure> {
    let path = Path::new(text);
    match Board::described(text) {
        Ok(board) => Ok(of_table(board)?),
        Err(BoardError::NoSuchBoard { .. }) if !path.exists() => {
            let text = text.to_owned();
            Err(NoBoard::Unknown { text }.into())
        }
        Err(_) if is_model(path) => {
            let bytes = read_model(path)?;
            let (model, provenance) = parse_model(path, &bytes)?;
            Ok(NamedBoard {
                device: Some(provenance.device.to_owned()),
                modes: all_modes(model.grid()).collect(),
                grid: model.grid().clone(),
            })
        }
        Err(_) if starts_with(path, PROBE) => Ok(of_probe(path)?),
        Err(_) => {
            let corpora = read_workloads(path, Blank::Unprofiled)?;
            let grid = joined_grid(&corpora).map_err(|why| NoBoard::Grid {
                option: "--board",
                why,
            })?;
            // Not each mode of the grid need be one of the board.
            let modes = corpora.iter().flat_map(|corpus| &corpus.modes);
            let modes: BTreeSet<[u32; 4]> = modes.map(|mode| mode.knobs).collect();
            Ok(NamedBoard {
                device: corpora.into_iter().next().map(|corpus| corpus.device),
                modes: modes.into_iter().collect(),
                grid,
            })
        }
    }
}

fn of_table(board: Board) -> Result<NamedBoard, NoBoard> {
    let tables = board.axes();
    // What is UNKNOWN of a board may concern its clocks only in part, so a table that is there counts
    // only if all are.
    if !board.unknown.is_empty() {
        let (name, what) = (board.name, board.unknown);
        return Err(NoBoard::NoTable { name, what });
    }
    let device = Some(board.name);
    of_grid("--board", device, &tables)
}

/// The board that `wattgate probe` recorded.
fn of_probe(path: &Path) -> Result<NamedBoard, NoBoard> {
    let probe = Probe::open(path)?;
    let root = Path::new("/");
    let found = Summary::discover(&mut Recorded::new(probe), root).map_err(|why| {
        NoBoard::NothingFound {
            path: path.to_owned(),
            why,
        }
    })?;
    let cores = (1..=found.cores.len() as u32).collect();
    let axes = [cores, found.cpu_khz, found.gpu_khz, found.emc_khz];
    // The daemon compares the name with the board. It accepts a model's text, which it does not know.
    let described = names().into_iter().flat_map(Board::described);
    let mut same = described.filter(|board| {
        let module = board.compatible.first();
        module.is_some() && module == found.compatible.first()
    });
    let device = same.next().map(|board| board.name);
    let device = device.or(is_name(&found.model).then_some(found.model));
    of_grid("--board", device, &axes)
}

fn of_axes(arguments: &[String]) -> Result<NamedBoard, NoBoard> {
    let mut axes: [Vec<u32>; 4] = Default::default();
    for argument in arguments {
        let refused = |problem| NoBoard::Axis {
            argument: argument.clone(),
            problem,
        };
        let (name, values) = argument
            .split_once('=')
            .ok_or(refused("expected NAME=VALUE,…"))?;
        let at = AXIS_COLUMNS.iter().position(|known| *known == name);
        let at = at.ok_or(refused("the axes are cores, cpu_khz, gpu_khz and emc_khz"))?;
        if !axes[at].is_empty() {
            return Err(refused("expected each axis once"));
        }
        let values: Result<Vec<u32>, _> = values.split(',').map(str::parse).collect();
        axes[at] = values.map_err(|_| refused("expected whole numbers, in kHz for clocks"))?;
        axes[at].sort_unstable();
        axes[at].dedup();
    }
    of_grid("--axes", None, &axes)
}

fn of_grid(
    option: &'static str,
    device: Option<String>,
    axes: &[Vec<u32>; 4],
) -> Result<NamedBoard, NoBoard> {
    let grid = Grid::new(axes.each_ref().map(Vec::as_slice));
    let grid = grid.map_err(|why| NoBoard::Grid { option, why })?;
    Ok(NamedBoard {
        device,
        modes: all_modes(&grid).collect(),
        grid,
    })
}

/// Gives a corpus the grid of a board, so that a model of it has also the clocks that were not
/// profiled. A clock that was rounded becomes the one of the board. Fails if a mode of the corpus is not one of the grid.
pub fn set_grid(corpus: &mut Corpus, path: &Path, grid: &Grid) -> Result<(), Failure> {
    if !corpus.has_cores {
        let path = path.to_owned();
        return Err(Failure::NoCores { path });
    }
    let of_board = corpus.moved(|axis, value| match axis {
        Axis::Cores => None,
        _ => table_clock(grid.axis(axis), value, NOMINAL_KHZ),
    });
    for mode in &of_board.modes {
        if let Some(why) = off_grid(grid, mode.knobs) {
            let axes = Axis::ALL.map(|axis| corpus.grid.axis(axis));
            let is_shown = !mode.knobs[1..].contains(&NOT_SHOWN);
            let other = board_with(axes, &corpus.device).filter(|_| is_shown);
            let other = other.map_or(String::new(), |name| {
                format!("; {name} has all values of this file")
            });
            return Err(Failure::NotOfBoard {
                path: path.to_owned(),
                mode: show::mode(PowerMode::from_knobs(mode.knobs)),
                why: why + &other,
            });
        }
    }
    *corpus = of_board;
    corpus.grid = grid.clone();
    Ok(())
}

/// Says which knob of a mode is not a value of a grid; `None` if all are.
pub fn off_grid(grid: &Grid, knobs: [u32; 4]) -> Option<String> {
    for ((axis, value), name) in Axis::ALL.into_iter().zip(knobs).zip(AXIS_COLUMNS) {
        let values = grid.axis(axis);
        if !values.contains(&value) {
            if value == NOT_SHOWN && axis != Axis::Cores {
                return Some(format!("{name} is blank; write the clock that was set"));
            }
            let nearest = values.iter().min_by_key(|known| known.abs_diff(value));
            let nearest = nearest.map_or(String::new(), u32::to_string);
            return Some(format!("{name} has no {value}; the nearest is {nearest}"));
        }
    }
    None
}

/// Refuses an output that would replace one of the inputs.
pub fn refuse_input(output: &Path, inputs: &[Option<&Path>]) -> Result<(), Failure> {
    for input in inputs.iter().flatten() {
        if is_same(input, output) {
            let path = output.to_owned();
            return Err(Failure::OutputIsInput { path });
        }
    }
    Ok(())
}

/// Whether two paths name the same existing file.
pub fn is_same(one: &Path, other: &Path) -> bool {
    let both = one.canonicalize().ok().zip(other.canonicalize().ok());
    both.is_some_and(|(one, other)| one == other)
}
