//! A probe stands in for its board: discovery finds the same on both. Probes in `tests/probes` stay
//! readable, and discovery goes on finding the same in them.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-probe --test it boards` writes the golden files
//! anew.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use wattgate_board::Disk;
use wattgate_probe::collect::collect;
use wattgate_probe::format::Probe;
use wattgate_probe::recorded::Recorded;
use wattgate_probe::summary::Summary;

use crate::board::{boards, booted};
use crate::common::{probe, root};

/// Compares a summary with its golden file.
fn check(name: &str, found: &Summary) {
    let path = folder("golden").join(format!("{name}.txt"));
    if env::var_os("WATTGATE_UPDATE_GOLDEN").is_some() {
        fs::write(&path, found.to_string()).expect("the golden folder can be written to");
    }
    let expected = fs::read_to_string(&path).expect("a golden file");
    assert_eq!(found.to_string(), expected, "{}", path.display());
}

fn folder(name: &str) -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    tests.join(name)
}

#[test]
fn a_probe_shows_the_same_board_as_the_board_itself() {
    for board in boards() {
        let original = Summary::discover(&mut booted(board), root()).expect("a board");
        let bytes = probe(board).to_bytes().expect("in memory");
        let mut files = Recorded::new(Probe::read(&*bytes).expect("a probe"));
        let found = Summary::discover(&mut files, root()).expect("a board");
        assert_eq!(found, original, "{board}");
        check(board, &found);
    }
}

/// A tree that was made by hand: no Thor can be simulated.
#[test]
fn thor_is_found_on_a_disk_and_in_its_probe() {
    let folder = tempfile::tempdir().expect("a folder");
    let lines = include_str!("../../../../board/tests/thor.txt").lines();
    for line in lines.filter(|line| !line.starts_with('#')) {
        let (path, text) = line.split_once(' ').expect("a path and a text");
        let path = folder.path().join(&path[1..]);
        fs::create_dir_all(path.parent().expect("a folder")).expect("created");
        let text = text.replace("\\0", "\0").replace("\\n", "\n");
        fs::write(path, text + "\n").expect("written");
    }
    let original = Summary::discover(&mut Disk, folder.path()).expect("a board");
    check("thor", &original);
    let probe = collect(folder.path(), Duration::ZERO, |_| {}).expect("a root");
    let found = Summary::discover(&mut Recorded::new(probe), root()).expect("a board");
    assert_eq!(found, original);
}

#[test]
fn each_probe_of_the_folder_shows_its_board() {
    let mut probes = 0;
    for entry in fs::read_dir(folder("probes")).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.and_then(|name| name.strip_suffix(".jsonl.gz"));
        let probe = Probe::open(&path).unwrap_or_else(|error| panic!("{error}"));
        assert!(!probe.samples.is_empty(), "{}", path.display());
        let found = Summary::discover(&mut Recorded::new(probe), root()).expect("a board");
        check(name.expect("a name"), &found);
        probes += 1;
    }
    assert!(probes > 0);
}
