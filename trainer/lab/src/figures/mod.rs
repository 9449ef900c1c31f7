//! RESULTS.json says of each figure which command prints it, what it was at the last run, and its bound. RESULTS.md and the
//! other texts of the project show these figures.

mod run;
mod take;
mod texts;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};
use thiserror::Error;
use wattgate_cli::output::{AtomicFile, OutputError};
use wattgate_cli::shard::{Jobs, Ran, ShardError};

pub use take::{Lines, Take};
pub use texts::Difference;

/// What RESULTS.json holds.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    version: u32,
    sections: Vec<Section>,
}

/// A section of RESULTS.md.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Section {
    title: String,
    /// What stands below its table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    runs: Vec<Run>,
}

/// A command, and the figures that it prints.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Run {
    name: String,
    command: String,
    kind: Kind,
    /// Where and when it ran; null before its first run.
    ran: Option<Origin>,
    #[serde(default)]
    figures: Vec<Figure>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tables: Vec<Table>,
}

/// Where a figure comes from.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    Measured,
    Recorded,
    Simulated,
    Published,
    /// A ratio of times on the machine that is named.
    Timed,
    /// An exact count of instructions or bytes.
    Counted,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Recorded => "recorded",
            Self::Simulated => "simulated",
            Self::Published => "published",
            Self::Timed => "timed",
            Self::Counted => "counted",
        }
    }
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
struct Origin {
    day: String,
    commit: String,
    machine: String,
    /// SHA-256 of the data that the command reads; null if it reads none.
    data: Option<String>,
}

/// What a command has printed.
#[derive(Debug, Deserialize, Serialize)]
pub struct Printed {
    name: String,
    text: String,
    ran: Origin,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Figure {
    name: String,
    what: String,
    take: Take,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bound: Option<Bound>,
    /// As the command prints it, with its unit of measure; empty before the first run.
    value: String,
}

/// Lines of what a command prints, which texts show as they are.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    take: Lines,
    /// Empty before the first run.
    lines: Vec<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
enum Bound {
    Most(f64),
    Least(f64),
}

/// Why figures cannot be made or compared.
#[derive(Debug, Error)]
pub enum FiguresError {
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{}: not a file of results: {why}; expected one such as RESULTS.json", path.display())]
    Defect { path: PathBuf, why: String },
    #[error("RESULTS.json has no run `{name}`; it has {known}")]
    NoRun { name: String, known: String },
    #[error("`{command}` {how}; it prints the figures of the run `{run}`")]
    Command {
        run: String,
        command: String,
        how: String,
    },
    #[error(
        "the figure `{figure}` is not in what `{command}` prints: {why}; correct its pattern in RESULTS.json"
    )]
    Take {
        figure: String,
        command: String,
        why: String,
    },
    #[error("{}: not in a git repository, whose texts show the figures; name the RESULTS.json of the project", folder.display())]
    NoRepository { folder: PathBuf },
    #[error(
        "{count} figures differ from RESULTS.json and are named above; without --check they are written"
    )]
    Differ { count: usize },
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error("{0}")]
    Shard(#[from] ShardError),
}

impl Results {
    /// Reads RESULTS.json.
    pub fn read(path: &Path) -> Result<Self, FiguresError> {
        let text = fs::read_to_string(path).map_err(|source| FiguresError::Io {
            path: path.to_owned(),
            source,
        })?;
        let defect = |why: String| FiguresError::Defect {
            path: path.to_owned(),
            why,
        };
        let results: Self = serde_json::from_str(&text).map_err(|why| defect(why.to_string()))?;
        let figures = results.figures().map(|figure| &*figure.name);
        let tables = results.tables().map(|table| &*table.name);
        let mut names: Vec<&str> = figures.chain(tables).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(defect(format!("two figures are named `{}`", twice[0])));
        }
        Ok(results)
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.sections.iter().flat_map(|section| &section.runs)
    }

    fn tables(&self) -> impl Iterator<Item = &Table> {
        self.runs().flat_map(|run| &run.tables)
    }

    fn figures(&self) -> impl Iterator<Item = &Figure> {
        self.runs().flat_map(|run| &run.figures)
    }

    /// Runs the commands of the named runs, or this shard's part of them, and returns what they print.
    pub fn print(&self, names: &[String], jobs: &Jobs) -> Result<Ran<Vec<Printed>>, FiguresError> {
        for name in names {
            if !self.runs().any(|run| run.name == *name) {
                let known: Vec<&str> = self.runs().map(|run| &*run.name).collect();
                return Err(FiguresError::NoRun {
                    name: name.clone(),
                    known: known.join(", "),
                });
            }
        }
        let wanted: Vec<&Run> = self
            .runs()
            .filter(|run| names.contains(&run.name))
            .collect();
        jobs.run(&wanted, |runs| {
            let printed = runs.iter().map(|run| {
                Ok(Printed {
                    name: run.name.clone(),
                    text: run::output(&run.name, &run.command)?,
                    ran: run::here(&run.command)?,
                })
            });
            printed.collect()
        })
    }

    /// Takes the figures out of what commands have printed. Returns those that have changed.
    pub fn take(&mut self, all: Vec<Printed>) -> Result<Vec<Difference>, FiguresError> {
        let mut changed = Vec::new();
        for Printed { name, text, ran } in all {
            let runs = self
                .sections
                .iter_mut()
                .flat_map(|section| &mut section.runs);
            for run in runs.filter(|run| run.name == name) {
                changed.extend(run.take(&text)?);
                run.ran = Some(ran.clone());
            }
        }
        Ok(changed)
    }

    /// Writes RESULTS.json, then RESULTS.md and the other texts of the same folder.
    pub fn write(&self, path: &Path) -> Result<(), FiguresError> {
        let mut json = serde_json::to_string_pretty(self).expect("a tree of texts and numbers");
        json.push('\n');
        AtomicFile::create(path)?.commit(json.as_bytes())?;
        AtomicFile::create(&path.with_extension("md"))?.commit(self.page().as_bytes())?;
        texts::update(self, folder(path))
    }

    /// The figures in RESULTS.md and in the other texts that are not those of RESULTS.json.
    pub fn differences(&self, path: &Path) -> Result<Vec<Difference>, FiguresError> {
        let page = path.with_extension("md");
        let found = fs::read_to_string(&page).map_err(|source| FiguresError::Io {
            path: page.clone(),
            source,
        })?;
        let mut differences = texts::compare(self, folder(path))?;
        let page_here = self.page();
        if found != page_here {
            let [found, expected]: [Vec<&str>; 2] =
                [&found, &page_here].map(|text| text.lines().collect());
            let place = page.display().to_string();
            differences.push(Difference::lines(place, "the page", &found, &expected));
        }
        Ok(differences)
    }

    /// RESULTS.md.
    fn page(&self) -> String {
        let mut page = INTRODUCTION.to_owned();
        for section in &self.sections {
            let _ = write!(page, "\n## {}\n\n", section.title);
            page += "| what | figure | bound | kind | run |\n|---|---|---|---|---|\n";
            for run in &section.runs {
                for figure in &run.figures {
                    let _ = writeln!(
                        page,
                        "| <a id=\"{}\"></a>{} | {} | {} | {} | [{}](#run-{}) |",
                        figure.name,
                        figure.what,
                        figure.shown(),
                        figure.verdict(),
                        run.kind.name(),
                        run.name,
                        run.name,
                    );
                }
            }
            if let Some(text) = &section.text {
                let _ = write!(page, "\n{text}\n");
            }
        }
        page += "\n## Runs\n\n| run | command | day, commit, machine | data (SHA-256) |\n|---|---|---|---|\n";
        for run in self.runs() {
            let (ran, data) = match &run.ran {
                Some(ran) => (
                    format!("{}, {}, {}", ran.day, ran.commit, ran.machine),
                    ran.data
                        .as_ref()
                        .map_or("–", |data| &data[..12.min(data.len())]),
                ),
                None => ("not yet".to_owned(), "–"),
            };
            let _ = writeln!(
                page,
                "| <a id=\"run-{}\"></a>{} | `{}` | {ran} | {data} |",
                run.name, run.name, run.command
            );
        }
        page
    }
}

const INTRODUCTION: &str = "\
# Results

What wattgate reaches. `wattgate-lab figures` writes this page from RESULTS.json, which it fills with what the
commands below print; other texts of the project take their figures from there. *Measured* figures are of real boards
that others published; nothing was scored on a row that it had learned from. *Simulated* figures are of simulated
boards, whose physics the project wrote itself. *Timed* figures were taken on the machine that is named; of them only the ratios mean
something elsewhere. *Counted* figures are exact: bytes, and instructions in an emulator. Nothing ran on a real Jetson. `../shared/data`, which most *measured* figures need, holds measurements that others published;
it is no part of this repository.
";

impl Run {
    /// Takes the figures and tables out of what the command has printed. Returns those that have changed.
    fn take(&mut self, printed: &str) -> Result<Vec<Difference>, FiguresError> {
        let mut changed = Vec::new();
        let place = format!("`{}`", self.command);
        let taken = |figure: &str, why| FiguresError::Take {
            figure: figure.to_owned(),
            command: self.command.clone(),
            why,
        };
        for figure in &mut self.figures {
            let value = figure.take.value(printed);
            let value = value.map_err(|why| taken(&figure.name, why))?;
            if value != figure.value {
                changed.push(Difference {
                    place: place.clone(),
                    name: figure.name.clone(),
                    found: value.clone(),
                    expected: std::mem::replace(&mut figure.value, value),
                });
            }
        }
        for table in &mut self.tables {
            let lines = table.take.lines(printed);
            let lines = lines.map_err(|why| taken(&table.name, why))?;
            if lines != table.lines {
                let change = Difference::lines(place.clone(), &table.name, &lines, &table.lines);
                changed.push(change);
                table.lines = lines;
            }
        }
        Ok(changed)
    }
}

impl Figure {
    fn shown(&self) -> &str {
        match self.value.is_empty() {
            true => "–",
            false => &self.value,
        }
    }

    /// The bound, and whether it holds.
    fn verdict(&self) -> String {
        let Some(bound) = self.bound else {
            return "–".to_owned();
        };
        let number = take::number(&self.value);
        let (text, holds) = match bound {
            Bound::Most(most) => (
                format!("≤ {most}"),
                number.is_some_and(|value| value <= most),
            ),
            Bound::Least(least) => (
                format!("≥ {least}"),
                number.is_some_and(|value| value >= least),
            ),
        };
        match holds {
            _ if self.value.is_empty() => format!("{text}, not run"),
            true => format!("{text}, held"),
            false => format!("{text}, **missed**"),
        }
    }
}

/// The folder of a file.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}
