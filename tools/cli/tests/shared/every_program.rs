//! What the command line of every program has. The tests of each program include this file.

use std::path::Path;
use std::process::{Command, Output};
use std::{env, fs};

use wattgate_cli::exit::TABLE;

/// Runs a program. Returns its exit code, stdout and stderr.
fn run(program: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(program).args(arguments).output();
    let Output {
        status,
        stdout,
        stderr,
    } = output.expect("started");
    let [stdout, stderr] = [stdout, stderr].map(|it| String::from_utf8(it).expect("text"));
    (status.code(), stdout, stderr)
}

/// Runs a program without a fault. Returns its stdout.
fn printed(program: &Path, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = run(program, arguments);
    assert_eq!((code, &*stderr), (Some(0), ""), "{arguments:?}");
    stdout
}

/// The commands of a general help, each with what it does; none of a program that does one thing.
fn listed(help: &str) -> Vec<(&str, &str)> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.map_while(|line| line.strip_prefix("  "));
    let lines = lines.filter_map(|line| line.split_once(' '));
    lines
        .map(|(name, about)| (name, about.trim_start()))
        .collect()
}

/// Checks `--version`, `help`, the help of each command, the completions, and that a misspelt argument, a command or an option,
/// gets the right one as an answer.
pub fn check(program: &str, misspelt: &str, right: &str) {
    let program = Path::new(program);
    let name = program.file_name().and_then(|name| name.to_str());
    let name = name.expect("a name");
    let version = format!("{name} {}\n", env!("CARGO_PKG_VERSION"));
    for argument in ["--version", "-V"] {
        assert_eq!(printed(program, &[argument]), version);
    }
    let general = printed(program, &["help"]);
    for argument in ["--help", "-h"] {
        assert_eq!(printed(program, &[argument]), general);
    }
    assert!(general.ends_with(&format!("\n\n{TABLE}")), "{general}");
    let commands = listed(&general);
    for (command, about) in &commands {
        let help = printed(program, &["help", command]);
        assert_eq!(printed(program, &[command, "--help"]), help);
        assert_eq!(printed(program, &[command, "-h"]), help);
        assert_eq!(printed(program, &[command, "--version"]), version);
        assert!(
            help.starts_with(&format!("{about}\n\nUsage: {name} {command}")),
            "{help}"
        );
        assert!(help.ends_with(&format!("\n\n{TABLE}")), "{help}");
    }
    let (code, stdout, stderr) = run(program, &[misspelt]);
    assert_eq!((code, &*stdout), (Some(2), ""), "{stderr}");
    assert!(
        stderr.ends_with(&format!("; did you mean `{right}`?\n")),
        "{stderr}"
    );
    for shell in ["bash", "fish", "zsh"] {
        let script = printed(program, &["completions", shell]);
        for (command, _) in &commands {
            assert!(script.contains(command), "{command}: {script}");
        }
    }
    let script = printed(program, &["completions", "bash"]);
    assert!(script.contains("--help"), "{script}");
    // Where there is no bash, nobody needs its completions.
    if let Ok(read) = Command::new("bash").args(["-n", "-c", &script]).output() {
        assert!(read.status.success() && read.stderr.is_empty(), "{read:?}");
    }
}

/// Checks the manual page of a program without one that is written by hand. With `WATTGATE_UPDATE_GOLDEN` set, it is written anew,
/// with the date that it has.
#[allow(
    dead_code,
    reason = "some programs have a page that is written by hand"
)]
pub fn check_manual(program: &str, page: &str) {
    let found = fs::read_to_string(page).unwrap_or_default();
    let date = found.lines().find_map(|line| line.strip_prefix(".Dd "));
    let date = date.unwrap_or("November 30, 2026");
    let made = printed(Path::new(program), &["manual", date]);
    if env::var_os("WATTGATE_UPDATE_GOLDEN").is_some() {
        fs::write(page, &made).expect("the page can be written");
    }
    let found = fs::read_to_string(page).expect("a page");
    assert_eq!(found, made, "{page}");
    // A rule of mandoc's, for what can be broken.
    let lines = made.lines().filter(|line| !line.starts_with('.'));
    for line in lines.filter(|line| line.contains(' ')) {
        assert!(line.len() <= 80, "{line}");
    }
    check_exit_status(&made);
}

/// Checks that a manual page in mdoc has the table of exit codes.
#[allow(dead_code, reason = "not every program has a manual page")]
pub fn check_exit_status(manual: &str) {
    let (_, section) = manual.split_once("\n.Sh EXIT STATUS\n").expect("a section");
    let (list, _) = section.split_once("\n.El\n").expect("a list");
    let mut found = String::from("Exit codes:\n");
    for entry in list.split("\n.It ").skip(1) {
        let (code, text) = entry.split_once('\n').expect("a text");
        let text = text.replace('\n', " ");
        let text = text.strip_suffix('.').expect("a sentence");
        let (first, rest) = text.split_at(1);
        found += &format!("  {code}  {}{rest}\n", first.to_lowercase());
    }
    assert_eq!(found, TABLE);
}
