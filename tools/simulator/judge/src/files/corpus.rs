//! Corpora of real boards: the rows of one workload that have a time and a power. A field may hold what it may hold
//! where a model is fitted. Columns that nobody here needs are ignored.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;

use thiserror::Error;
use wattgate_cli::delimited::columns::Layout;
use wattgate_cli::delimited::fields::{self, POWER, TIME, bad, exact, whole};
use wattgate_cli::delimited::{self, FileError, Table};
use wattgate_cli::planning::NOT_SHOWN;
use wattgate_runtime::format::Kind;
use wattgate_simulated_board::recording::corpus::{Corpus, KNOBS, Row};

const COLUMNS: [&str; 8] = [
    "device", "workload", "cores", "cpu_khz", "gpu_khz", "emc_khz", "time_ms", "power_mw",
];

static LAYOUT: Layout = Layout {
    what: "a corpus",
    columns: &COLUMNS,
    optional: &["kind", "minibatch"],
    has_blank_knobs: true,
    ..Layout::NONE
};

/// Why a corpus cannot be read.
pub type ReadError = FileError<Problem>;

type Defect = delimited::Defect<Problem>;

/// What is wrong with a corpus.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// As in any delimited text.
    #[error("{0}")]
    Text(#[from] delimited::Problem),
    /// The rows are of several boards.
    #[error(
        "expected `{first}` as in the rows before, found `{found}`: one file holds one workload on one board; write a file for each"
    )]
    Mixed { first: String, found: String },
    /// A knob is blank in some rows, and has a value in others.
    #[error(
        "blank in some rows; a knob that is constant or not shown may be blank, but then in every row"
    )]
    SometimesBlank,
    /// The file has several workloads, and none is named.
    #[error(
        "the file has the workloads {}; name one with --workload beside --truth, or write a file for each",
        names.join(", ")
    )]
    SeveralWorkloads { names: Vec<String> },
    /// No row is of the named workload.
    #[error("no row of the workload `{asked}`; the file has {}", names.join(", "))]
    NoSuchWorkload { asked: String, names: Vec<String> },
    /// No row has both.
    #[error(
        "no row has both a time and a power, expected `time_ms` and `power_mw` in each; take a corpus with both"
    )]
    NoMeasurement,
}

/// Reads the rows of a workload, or of the only workload.
pub fn read(path: &Path, workload: Option<&str>) -> Result<Corpus, ReadError> {
    let mut table = super::open(path, &LAYOUT).map_err(ReadError::from_text)?;
    let parsed = parse(&mut table, workload)?;
    parsed.map_err(|problem| ReadError::Defect {
        path: path.to_owned(),
        defect: Defect::whole(problem),
    })
}

/// The corpus, or what is wrong with the whole of it.
fn parse<R: Read>(
    table: &mut Table<R>,
    asked: Option<&str>,
) -> Result<Result<Corpus, Problem>, ReadError> {
    let places = table.places(COLUMNS).map_err(ReadError::from_text)?;
    let optional = |column| table.optional(column).map_err(ReadError::from_text);
    let [kind, minibatch] = [optional("kind")?, optional("minibatch")?];
    let mut wanted = asked.map(str::to_owned);
    let mut names = BTreeSet::new();
    // The corpus with the knobs of its first row.
    let mut found: Option<(Corpus, [Option<u32>; 4])> = None;
    table.rows(|row| -> Result<(), Defect> {
        let field = |at: usize| (COLUMNS[at], row.field(places[at]));
        let optional = |column, place: Option<usize>| {
            let field = place.map(|place| row.field(place));
            (column, field.unwrap_or_default())
        };
        let workload = fields::name(field(1))?;
        names.insert(workload.clone());
        if *wanted.get_or_insert_with(|| workload.clone()) != workload {
            return Ok(());
        }
        let device = fields::name(field(0))?;
        let kind = fields::kind(optional("kind", kind))?;
        if kind != Kind::Measured {
            let expected = "`measured`, which is what a real board did";
            return Err(bad("kind", expected, &kind.to_string()).into());
        }
        let minibatch = optional("minibatch", minibatch);
        let minibatch = match minibatch.1 {
            b"" => None,
            _ => Some(whole(
                minibatch,
                "a number of samples above zero, or a blank",
            )?),
        };
        let (cores, is_blank) = fields::cores(field(2))?;
        let clock = |at| {
            let khz = fields::clock(field(at))?;
            Ok::<_, Defect>(Some(khz).filter(|khz| *khz != NOT_SHOWN))
        };
        let knobs = [
            Some(cores).filter(|_| !is_blank),
            clock(3)?,
            clock(4)?,
            clock(5)?,
        ];
        let measured = exact(field(6), &TIME)?.zip(exact(field(7), &POWER)?);
        let (corpus, first) = found.get_or_insert_with(|| {
            let corpus = Corpus {
                device: device.clone(),
                workload,
                minibatch,
                rows: Vec::new(),
                left_out: 0,
            };
            (corpus, knobs)
        });
        if device != corpus.device {
            let first = corpus.device.clone();
            let problem = Problem::Mixed {
                first,
                found: device,
            };
            return Err(Defect::of(COLUMNS[0], problem));
        }
        for (column, (first, knob)) in KNOBS.into_iter().zip(first.iter().zip(&knobs)) {
            if first.is_some() != knob.is_some() {
                return Err(Defect::of(column, Problem::SometimesBlank));
            }
        }
        corpus.minibatch = corpus.minibatch.filter(|it| Some(*it) == minibatch);
        match measured {
            Some((time_ms, power_mw)) => corpus.rows.push(Row {
                line: row.line(),
                knobs,
                time_ms,
                power_mw,
            }),
            None => corpus.left_out += 1,
        }
        Ok(())
    })?;
    let names: Vec<String> = names.into_iter().collect();
    Ok(match (found, asked) {
        (None, asked) => Err(Problem::NoSuchWorkload {
            asked: asked.unwrap_or_default().to_owned(),
            names,
        }),
        (Some(_), None) if names.len() > 1 => Err(Problem::SeveralWorkloads { names }),
        (Some((corpus, _)), _) if corpus.rows.is_empty() => Err(Problem::NoMeasurement),
        (Some((corpus, _)), _) => Ok(corpus),
    })
}
