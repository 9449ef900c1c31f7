//! Figures and tables in the texts of the project: `[0.3 s](../RESULTS.md#NAME)` shows the figure of that name, and the lines between
//! `<!-- results: NAME -->` and `<!-- end -->` are the table of that name.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::{Captures, Regex};
use wattgate_cli::output::AtomicFile;

use super::{FiguresError, Results};

/// A figure that is not what RESULTS.json says.
#[derive(Debug)]
pub struct Difference {
    pub(super) place: String,
    pub(super) name: String,
    pub(super) found: String,
    pub(super) expected: String,
}

impl Difference {
    /// The first lines that differ of two tables.
    pub(super) fn lines<T: AsRef<str>>(
        place: String,
        name: &str,
        found: &[T],
        expected: &[T],
    ) -> Self {
        let line = |lines: &[T], at: usize| match lines.get(at) {
            Some(line) => format!("`{}`", line.as_ref()),
            None => "at its end".to_owned(),
        };
        let most = found.len().max(expected.len());
        let at = (0..most)
            .find(|&at| line(found, at) != line(expected, at))
            .unwrap_or(most);
        Self {
            place,
            name: format!("{name}, line {},", at + 1),
            found: line(found, at),
            expected: line(expected, at),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            place,
            name,
            found,
            expected,
        } = self;
        write!(
            out,
            "{place}: {name} is {found}, RESULTS.json has {expected}"
        )
    }
}

/// The texts of a folder's repository, without RESULTS.md.
fn texts(folder: &Path) -> Result<Vec<PathBuf>, FiguresError> {
    let mut git = Command::new("git");
    git.arg("-C").arg(folder);
    git.args(["ls-files", "-z", "--", "*.md", ":!RESULTS.md"]);
    let listed = git.output().map_err(|source| FiguresError::Io {
        path: "git".into(),
        source,
    })?;
    if !listed.status.success() {
        return Err(FiguresError::NoRepository {
            folder: folder.to_owned(),
        });
    }
    let names = String::from_utf8_lossy(&listed.stdout).into_owned();
    let names = names.split('\0').filter(|name| !name.is_empty());
    Ok(names.map(|name| folder.join(name)).collect())
}

fn read(path: &Path) -> Result<String, FiguresError> {
    fs::read_to_string(path).map_err(|source| FiguresError::Io {
        path: path.to_owned(),
        source,
    })
}

/// A text with the figures and tables of RESULTS.json.
fn filled(results: &Results, text: &str) -> String {
    let figure = r"\[([^\]]*)\]\(((?:\.\./)*RESULTS\.md)#([a-z0-9-]+)\)";
    let figure = Regex::new(figure).expect("a sound pattern");
    let text = figure.replace_all(text, |captures: &Captures<'_>| {
        let figure = results.figures().find(|figure| figure.name == captures[3]);
        let run = results
            .runs()
            .any(|run| format!("run-{}", run.name) == captures[3]);
        let shown = match figure {
            Some(figure) => figure.shown(),
            None if run => &captures[1],
            None => "no figure of this name",
        };
        format!("[{shown}]({}#{})", &captures[2], &captures[3])
    });
    let table = "(?s)<!-- results: ([a-z0-9-]+) -->\n.*?<!-- end -->";
    let table = Regex::new(table).expect("a sound pattern");
    let text = table.replace_all(&text, |captures: &Captures<'_>| {
        let table = results.tables().find(|table| table.name == captures[1]);
        let lines = match table {
            Some(table) => table.lines.join("\n"),
            None => "no table of this name".to_owned(),
        };
        // A table in Markdown stands between blank lines; other lines are shown as they are.
        let lines = match lines.chars().next() {
            None => "\nNot run yet.\n".to_owned(),
            Some('|') => format!("\n{lines}\n"),
            Some(_) => format!("```text\n{lines}\n```"),
        };
        format!("<!-- results: {} -->\n{lines}\n<!-- end -->", &captures[1])
    });
    text.into_owned()
}

pub(super) fn compare(results: &Results, folder: &Path) -> Result<Vec<Difference>, FiguresError> {
    let mut differences = Vec::new();
    for path in texts(folder)? {
        let text = read(&path)?;
        let expected = filled(results, &text);
        if text != expected {
            let [found, expected]: [Vec<&str>; 2] =
                [&text, &expected].map(|text| text.lines().collect());
            let place = path.display().to_string();
            differences.push(Difference::lines(place, "a figure", &found, &expected));
        }
    }
    Ok(differences)
}

pub(super) fn update(results: &Results, folder: &Path) -> Result<(), FiguresError> {
    for path in texts(folder)? {
        let text = read(&path)?;
        let updated = filled(results, &text);
        if updated != text {
            AtomicFile::create(&path)?.commit(updated.as_bytes())?;
        }
    }
    Ok(())
}
