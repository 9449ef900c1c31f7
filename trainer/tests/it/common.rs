//! Runs the program as a user would, on corpora made for the test or measured ones.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// What a run left behind.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    pub fn json(&self) -> Value {
        assert_eq!(self.code, 0, "{}", self.stderr);
        serde_json::from_str(&self.stdout).expect("JSON on standard output")
    }
}

pub fn program() -> Command {
    Command::new(crate::PROGRAM)
}

pub fn finished(output: Output) -> Run {
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Run {
        code: output.status.code().expect("an exit code"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Runs with arguments separated by blanks, in a folder.
pub fn run(folder: &Path, arguments: &str) -> Run {
    let mut program = program();
    program
        .current_dir(folder)
        .args(arguments.split_whitespace());
    finished(program.output().expect("the program starts"))
}

pub fn folder() -> TempDir {
    TempDir::new().expect("a folder for the test")
}

pub fn write(folder: &Path, name: &str, contents: impl AsRef<[u8]>) {
    std::fs::write(folder.join(name), contents).expect("the folder can be written to");
}

pub const HEADER: &str = "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw";

/// A row of a smooth made-up board: work that waits for each clock in turn.
pub fn row(cores: u32, cpu: u32, gpu: u32, emc: u32) -> String {
    let (c, p, g, e) = (
        f64::from(cores),
        f64::from(cpu),
        f64::from(gpu),
        f64::from(emc),
    );
    let time = 2e6 / p + 1e6 / (p * c) + 3e6 / g + 4e6 / e;
    let power = 900.0 + 4e-7 * p * p.sqrt() * c.sqrt() + 1e-3 * g + 2e-4 * e;
    format!("board,job,{cores},{cpu},{gpu},{emc},{time},{power}")
}

/// A corpus of 4 × 4 × 3 × 2 modes of that board.
pub fn corpus() -> Vec<String> {
    let mut lines = vec![HEADER.to_owned()];
    for cores in 1..=4 {
        for cpu in [400_000, 800_000, 1_200_000, 1_600_000] {
            for gpu in [300_000, 600_000, 900_000] {
                for emc in [800_000, 1_600_000] {
                    lines.push(row(cores, cpu, gpu, emc));
                }
            }
        }
    }
    lines
}

/// The corpus of another workload on that board.
pub fn corpus_of_another() -> Vec<String> {
    let as_of_another = |row: String| {
        let mut columns: Vec<String> = row.split(',').map(str::to_owned).collect();
        columns[1] = "other".to_owned();
        for (at, factor) in [(6, 1.5), (7, 1.2)] {
            let value: f64 = columns[at].parse().expect("a number");
            columns[at] = (factor * value).to_string();
        }
        columns.join(",")
    };
    let rows = corpus().into_iter().skip(1).map(as_of_another);
    std::iter::once(HEADER.to_owned()).chain(rows).collect()
}

pub fn number(json: &Value) -> f64 {
    json.as_f64().expect("a number")
}

/// The corpus of a workload that takes longer, on a board of another name with half the
/// clocks.
fn other_corpus() -> Vec<String> {
    let mut lines = corpus();
    for line in &mut lines[1..] {
        let fields: Vec<&str> = line.split(',').collect();
        let half = |at: usize| fields[at].parse::<u32>().expect("a clock") / 2;
        let time = 3.0 * fields[6].parse::<f64>().expect("a time");
        *line = format!(
            "other,long,{},{},{},{},{time},{}",
            fields[2],
            half(3),
            half(4),
            half(5),
            fields[7]
        );
    }
    lines
}

pub fn with_corpora() -> TempDir {
    let folder = folder();
    write(folder.path(), "corpus.csv", corpus().join("\n"));
    write(folder.path(), "other.csv", other_corpus().join("\n"));
    folder
}

/// The path of a measured corpus; says so and gives `None` where it is not at hand.
pub fn measured(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(crate::ROOT)
        .join("../shared/data")
        .join(name);
    if path.exists() {
        return Some(path);
    }
    // Past the capture of the test runner, so that it is seen.
    let line = format!("SKIPPED: a test needs ../shared/data/{name}, which is absent\n");
    std::io::stderr()
        .write_all(line.as_bytes())
        .expect("standard error");
    assert!(
        std::env::var_os("WATTGATE_REQUIRE_DATA").is_none(),
        "WATTGATE_REQUIRE_DATA is set, so the measured data must be present"
    );
    None
}
