//! `CONSTANTS.md` has each constant of the governor, the estimator and the fleet with its value, and no other.

use std::fs;
use std::path::Path;

/// Name and value of each constant of a source, in order.
fn constants(source: &str) -> Vec<(String, String)> {
    let starts = source.match_indices("const ");
    let at_the_left = starts.filter(|(at, _)| {
        let line = source[..*at].rsplit('\n').next().unwrap_or("");
        let is_at_the_left =
            line.is_empty() || ["pub ", "pub(crate) ", "pub(super) "].contains(&line);
        is_at_the_left && !source[*at..].starts_with("const fn ")
    });
    let found = at_the_left.map(|(at, keyword)| {
        let rest = &source[at + keyword.len()..];
        let (name, rest) = rest.split_once(':').expect("a type");
        let (_, value) = rest.split_once("= ").expect("a value");
        // `[f32; 2]` is a type, so that the first `;` after `= ` ends the value.
        let (value, _) = value.split_once(';').expect("an end");
        let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
        (name.to_owned(), value)
    });
    found.collect()
}

/// The same from the section of a table.
fn documented(section: &str) -> Vec<(String, String)> {
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        assert_eq!(cells.len(), 4, "{row}");
        assert!(cells.iter().all(|cell| !matches!(*cell, "" | "?")), "{row}");
        let bare = |cell: &str| cell.trim_matches('`').to_owned();
        (bare(cells[0]), bare(cells[1]))
    });
    cells.collect()
}

#[test]
fn every_constant_has_its_value_and_its_source() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(root.join(path)).expect(path);
    let text = read("CONSTANTS.md");
    // What half and double do follows at the end.
    let (text, sensitivity) = text.split_once("\n## Sensitivity").expect("a section");
    for (name, value) in documented(sensitivity) {
        let (file, name) = name.split_once("::").expect("a file");
        let known = constants(&read(&format!("src/governor/{file}.rs")));
        assert!(known.contains(&(name.to_owned(), value)), "{file}::{name}");
    }
    let sections = text.split("\n## `").skip(1);
    let mut files = Vec::new();
    for section in sections {
        let (path, section) = section.split_once('`').expect("a path");
        assert_eq!(documented(section), constants(&read(path)), "{path}");
        files.push(path.to_owned());
    }
    files.sort();
    let mut all = vec!["src/fleet.rs".to_owned()];
    for folder in ["src/estimator", "src/governor"] {
        for entry in fs::read_dir(root.join(folder)).expect(folder) {
            let name = entry.expect("a file").file_name();
            all.push(format!("{folder}/{}", name.display()));
        }
    }
    all.retain(|path| !constants(&read(path)).is_empty());
    all.sort();
    assert_eq!(files, all);
}
