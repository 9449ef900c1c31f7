//! Runs a command of RESULTS.json.

use std::fs;
use std::process::{Command, Stdio};

use super::{FiguresError, Origin};

/// Where the measured corpora are.
const DATA: &str = "../shared/data";

/// Names a command on the standard error, runs it, and returns what it prints.
pub(super) fn output(run: &str, command: &str) -> Result<String, FiguresError> {
    eprintln!("$ {command}");
    silently(run, command)
}

/// Runs a command, and returns what it prints.
fn silently(run: &str, command: &str) -> Result<String, FiguresError> {
    let failed = |how: String| FiguresError::Command {
        run: run.to_owned(),
        command: command.to_owned(),
        how,
    };
    let mut shell = Command::new("bash");
    // A bound that is missed may end a command with 1; its figures are taken all the same.
    shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit());
    let output = shell
        .output()
        .map_err(|why| failed(format!("does not run: {why}")))?;
    match output.status.code() {
        Some(0 | 1) => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        _ => Err(failed(format!("ended with {}", output.status))),
    }
}

/// The present day, commit and machine, and the data that a command reads.
pub(super) fn here(command: &str) -> Result<Origin, FiguresError> {
    let line = |command| silently("here", command).map(|line| line.trim().to_owned());
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let mut models = processors
        .lines()
        .filter_map(|line| line.strip_prefix("model name"));
    let model = models.next_back().map_or("unknown", |model| {
        model.trim_start_matches([' ', '\t', ':'])
    });
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let data = format!(
        "cd {DATA} && find . -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum | cut -d ' ' -f 1"
    );
    Ok(Origin {
        day: line("date -u +%F")?,
        commit: line("git describe --always --dirty=+ --exclude='*' 2>/dev/null || echo none")?,
        machine: format!("{count} of {model}"),
        data: match command.contains(DATA) {
            true => Some(line(&data)?),
            false => None,
        },
    })
}
