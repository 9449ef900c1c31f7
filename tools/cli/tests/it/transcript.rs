//! Golden files of messages: commands as a user types them, each with what it prints and its exit code.
//!
//! ```text
//! # Words on what follows.
//! $ wattgate run --limit 20
//! error: …
//! [2]
//! ```
//!
//! The commands of a file run in its order, in a shell and in one folder, whose path is printed as `DIR`; the number of a process is `PID`. The shell finds the
//! programs that are tested and those of the system, but no other program of wattgate. With `WATTGATE_UPDATE_GOLDEN` set,
//! the file is written anew. A command that reaches for a board needs `--root`: the machine that tests may be one.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// Seconds after which a command has failed.
const LONGEST: &str = "60";

/// Runs the commands of a golden file in a folder, and compares.
pub fn compare(golden: &Path, folder: &Path, programs: &[&str]) {
    let bin = tempfile::tempdir().expect("a folder");
    for program in programs {
        let name = Path::new(program).file_name().expect("a name");
        symlink(program, bin.path().join(name)).expect("linked");
    }
    let path = format!("{}:/usr/bin:/bin", bin.path().display());
    let text = fs::read_to_string(golden).expect("a golden file");
    let mut lines = text.lines().peekable();
    let mut found = String::new();
    while let Some(line) = lines.next() {
        found += &format!("{line}\n");
        let Some(command) = line.strip_prefix("$ ") else {
            continue;
        };
        found += &printed(command, folder, &path);
        // What the file says of it. A command that is new has nothing yet.
        let rest = lines.clone();
        let mut before_next = rest.take_while(|line| !line.starts_with("$ "));
        if let Some(end) = before_next.position(is_code) {
            lines.nth(end);
        }
    }
    settle(golden, &found);
}

/// Compares a text with a golden file, or writes it.
pub fn settle(golden: &Path, found: &str) {
    if env::var_os("WATTGATE_UPDATE_GOLDEN").is_some() {
        fs::write(golden, found).expect("the golden file can be written");
    }
    let text = fs::read_to_string(golden).expect("a golden file");
    for (number, (expected, found)) in text.lines().zip(found.lines()).enumerate() {
        let place = format!("{}:{}", golden.display(), number + 1);
        assert_eq!(found, expected, "{place}");
    }
    assert_eq!(found.lines().count(), text.lines().count());
}

/// Whether a line is an exit code, such as `[2]`.
fn is_code(line: &str) -> bool {
    let code = line
        .strip_prefix('[')
        .and_then(|line| line.strip_suffix(']'));
    code.is_some_and(|code| code.parse::<u8>().is_ok())
}

/// The text with `PID` in place of the numbers of processes.
fn without_process(text: &str) -> String {
    let mut parts = text.split("process ");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = if rest.len() < part.len() { "PID" } else { "" };
        shown += &format!("process {number}{rest}");
    }
    shown
}

/// What a command prints to both streams, and its exit code.
fn printed(command: &str, folder: &Path, path: &str) -> String {
    let mut shell = Command::new("timeout");
    shell.args([LONGEST, "sh", "-c", &format!("exec 2>&1\n{command}")]);
    shell.current_dir(folder).stdin(Stdio::null());
    shell.env_clear().env("PATH", path);
    let output = shell.output().expect("a shell");
    let code = output.status.code().expect("an exit code");
    let mut text = String::from_utf8(output.stdout).expect("text");
    let folder = folder.canonicalize().expect("a folder");
    text = text.replace(&folder.display().to_string(), "DIR");
    text = without_process(&text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    format!("{text}[{code}]\n")
}
