//! `probe` and `check`: what they print and write, and what they refuse.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;
use wattgate_probe::format::Probe;

use crate::living::{Living, run};

const PROGRAM: &str = env!("CARGO_BIN_EXE_wattgate");

/// Runs the program in a folder. Returns its exit code, stdout and stderr.
fn wattgate(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = Command::new(PROGRAM);
    run(command.args(arguments).current_dir(folder))
}

/// The lines without the sensor's offset, which depends on the voltage at that time.
fn without_offset(printed: &str) -> Vec<&str> {
    let lines = printed.lines();
    lines.filter(|line| !line.starts_with("offset ")).collect()
}

#[test]
fn a_probe_shows_what_the_board_shows() {
    let living = Living::named("orin-nano-8-super");
    let folder = living.folder.path();
    let arguments = ["probe", "--root", "board", "--seconds", "0.5"];
    let (code, printed, errors) = wattgate(folder, &arguments);
    assert_eq!((code, errors), (Some(0), String::new()));

    let names = fs::read_dir(folder).expect("a folder");
    let names = names.map(|entry| entry.expect("an entry").file_name());
    let mut names = names.map(|name| name.into_string().expect("text"));
    let name = names.find(|name| name.starts_with("wattgate-probe-orin-nano-8-20"));
    let name = name.expect("a probe");
    assert!(name.ends_with(".jsonl.gz"), "{name}");
    let (code, of_board, _) = wattgate(folder, &["check", "--root", "board"]);
    assert_eq!(code, Some(0));
    let (code, of_probe, errors) = wattgate(folder, &["check", "--from", &name]);
    assert_eq!((code, errors), (Some(0), String::new()));
    assert_eq!(without_offset(&of_probe), without_offset(&of_board));
    assert!(of_probe.contains("\npower     VDD_IN\n"), "{of_probe}");
    let mut printed = without_offset(&printed);
    let wrote = printed.pop().expect("a line");
    assert_eq!(printed, without_offset(&of_board));
    assert!(wrote.starts_with(&format!("wrote {name}: ")), "{wrote}");

    let probe = Probe::open(&folder.join(&name)).expect("a probe");
    // VDD_IN and its two parts, each with voltage and current.
    assert_eq!(probe.sensors.len(), 6);
    assert!(probe.samples.len() >= 5, "{:?}", probe.samples);
}

#[test]
fn the_json_has_the_board_and_the_counts() {
    let living = Living::named("tx2");
    let folder = living.folder.path();
    let arguments = [
        "probe",
        "--root",
        "board",
        "--seconds",
        "0",
        "--json",
        "-o",
        "p.gz",
    ];
    let (code, printed, errors) = wattgate(folder, &arguments);
    assert_eq!((code, errors), (Some(0), String::new()));
    let mut report: Value = serde_json::from_str(&printed).expect("JSON");
    let (_, checked, _) = wattgate(folder, &["check", "--from", "p.gz", "--json"]);
    let mut checked: Value = serde_json::from_str(&checked).expect("JSON");
    // It depends on the readings at that time, as this driver does not show the shunt.
    for board in [&mut report["board"], &mut checked] {
        let offset = board["offset_mw"].take();
        assert!(offset.as_u64().is_some_and(|mw| mw > 0), "{offset}");
    }
    assert_eq!(report["board"], checked);
    assert_eq!(checked["power"], serde_json::json!(["VDD_IN"]));
    assert_eq!(report["error"], Value::Null);
    assert_eq!(report["samples"], 0);
    let bytes = fs::metadata(folder.join("p.gz")).expect("a file").len();
    assert_eq!(report["bytes"], bytes);
    let help = wattgate(folder, &["check", "--help"]).1 + &wattgate(folder, &["probe", "--help"]).1;
    for object in [&report, &checked] {
        for key in object.as_object().expect("an object").keys() {
            assert!(help.contains(&format!("\n  {key} ")), "{key}");
        }
    }
}

#[test]
fn a_terminal_shows_the_progress_and_ends_with_an_empty_line() {
    let living = Living::named("tx2");
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("named");
    let name = name.into_string().expect("text");
    let theirs = OpenOptions::new()
        .write(true)
        .open(name)
        .expect("a terminal");
    let mut command = Command::new(PROGRAM);
    command.args(["probe", "--root", "board", "--seconds", "1.2", "-o", "p.gz"]);
    command
        .current_dir(living.folder.path())
        .stderr(theirs)
        .stdout(Stdio::null());
    assert!(command.status().expect("it runs").success());
    let mut buffer = [0; 1 << 16];
    let length = File::from(ours).read(&mut buffer).expect("readable");
    let shown = String::from_utf8_lossy(&buffer[..length]);
    for line in [
        "\rfiles: 100 %",
        "\rpower sensors: 0 of 1 s",
        "\rpower sensors: 1 of 1 s",
    ] {
        assert!(shown.contains(line), "{line}: {shown:?}");
    }
    assert!(shown.ends_with(" \r"), "{shown:?}");
}

#[test]
fn a_file_that_exists_is_not_replaced() {
    let living = Living::named("tx2");
    let folder = living.folder.path();
    fs::write(folder.join("mine"), "mine").expect("written");
    let outcome = wattgate(folder, &["probe", "--root", "board", "-o", "mine"]);
    let error = "error: mine: cannot write: the file exists; name a new file\n".to_owned();
    assert_eq!(outcome, (Some(5), String::new(), error));
    assert_eq!(fs::read(folder.join("mine")).expect("read"), b"mine");
}

#[test]
fn a_board_that_cannot_be_used_is_recorded_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let zone = folder.path().join("board/sys/class/thermal/thermal_zone0");
    fs::create_dir_all(&zone).expect("created");
    fs::write(zone.join("type"), "x86_pkg_temp\n").expect("written");
    let arguments = ["probe", "--root", "board", "-o", "p.gz"];
    let (code, printed, errors) = wattgate(folder.path(), &arguments);
    assert_eq!((code, errors), (Some(0), String::new()));
    assert!(
        printed.starts_with("wattgate cannot use this board yet: "),
        "{printed}"
    );
    let why = "no Jetson is there: no file of cores, clocks or power sensors exists; expected the root of a board's files, which is \
               / on the board itself\n";
    for (arguments, place) in [
        (["check", "--from", "p.gz"], "p.gz: /"),
        (["check", "--root", "board"], "board"),
    ] {
        let expected = (Some(3), String::new(), format!("error: {place}: {why}"));
        assert_eq!(wattgate(folder.path(), &arguments), expected);
    }
}

#[test]
fn wrong_arguments_and_defective_probes_have_their_exit_codes() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("text"), "a text").expect("written");
    let cases: [(&[&str], i32, &str); 6] = [
        (
            &["probe", "--seconds", "4000"],
            2,
            "--seconds: expected 0 … 3600 seconds, found `4000`",
        ),
        (
            &["probe", "board"],
            2,
            "`board` is one argument too many; --help shows what is expected",
        ),
        (
            &["check", "--from", "a", "--root", "b"],
            2,
            "--from and --root exclude each other; give one of them",
        ),
        (
            &["check", "--from", "text"],
            3,
            "text: no probe: expected a gzip file, as `wattgate probe` writes it",
        ),
        (
            &["check", "--from", "none"],
            5,
            "none: cannot be read: No such file or directory (os error 2)",
        ),
        (
            &["probe", "--root", "none", "-o", "p.gz"],
            5,
            "--root: none: No such file or directory (os error 2); expected the folder of a board's files",
        ),
    ];
    for (arguments, code, error) in cases {
        let expected = (Some(code), String::new(), format!("error: {error}\n"));
        assert_eq!(wattgate(folder.path(), arguments), expected);
    }
    assert!(!folder.path().join("p.gz").exists());
}
