//! Recorded power of real boards: `../shared/data/traces`, which its PROVENANCE.md describes.

use std::path::{Path, PathBuf};

use wattgate_runtime::estimator::{Chip, Estimator, MOST_CHIPS};
use wattgate_runtime::{Milliseconds, Milliwatts, Sample};

/// The columns whose sum is the module's power, with their steps in mW: 20 mA at 19.85 V and at 5 V
/// on an AGX Orin, 8 mA at 5 V on the others.
const RAILS: [(&str, f64); 4] = [
    ("gpu_soc_mw", 397.0),
    ("cpu_cv_mw", 397.0),
    ("vin_sys_5v0_mw", 100.0),
    ("vdd_in_mw", 40.6),
];

/// Threshold in ms above which a poll stalled. Its recorded time is that before the stall, but its
/// reading was taken at the end. Eight polls of the Orin NX stalled for 0.27 s.
const STALLED_MS: f64 = 100.0;

/// A recorded run.
pub struct Run {
    pub name: String,
    /// One step of each rail in mW.
    pub steps: Vec<f64>,
    pub rows: Vec<Row>,
}

/// A poll.
pub struct Row {
    pub ms: f64,
    /// Empty where the file has no phases.
    pub phase: String,
    /// Readings in mW.
    pub rails: Vec<f64>,
}

impl Row {
    pub fn total(&self) -> f64 {
        self.rails.iter().sum()
    }

    pub fn sample(&self) -> Sample {
        let mut powers = [Milliwatts(0); MOST_CHIPS];
        for (chip, rail) in powers.iter_mut().zip(&self.rails) {
            *chip = Milliwatts(rail.round() as u32);
        }
        Sample::from_chips(powers)
    }

    /// Recorded times begin at 0.
    pub fn time(&self) -> Milliseconds {
        Milliseconds(self.ms.round() as u64 + 1)
    }
}

impl Run {
    /// An estimator with one chip for each rail.
    pub fn estimator(&self) -> Estimator {
        let mut chips = [Chip::L4T; MOST_CHIPS];
        for (chip, step) in chips.iter_mut().zip(&self.steps) {
            chip.step = Milliwatts(step.round() as u32);
        }
        Estimator::new(chips)
    }
}

/// The runs of a file.
pub fn read(path: &Path) -> Vec<Run> {
    let text = std::fs::read_to_string(path).expect("a trace");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let column = |name: &str| header.iter().position(|column| *column == name);
    let (rails, steps): (Vec<usize>, Vec<f64>) = RAILS
        .iter()
        .filter_map(|(name, step)| Some((column(name)?, *step)))
        .unzip();
    let (time, of_ms) = match column("t_us") {
        Some(column) => (column, 1e3),
        None => (column("t_ms").expect("a time"), 1.0),
    };
    let phase = column("phase");
    let mut runs: Vec<Run> = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().expect("a number");
        if runs.last().is_none_or(|run| run.name != cells[0]) {
            runs.push(Run {
                name: cells[0].to_owned(),
                steps: steps.clone(),
                rows: Vec::new(),
            });
        }
        let row = Row {
            ms: number(time) / of_ms,
            phase: phase.map_or(String::new(), |phase| cells[phase].to_owned()),
            rails: rails.iter().map(|rail| number(*rail)).collect(),
        };
        runs.last_mut().expect("a run").rows.push(row);
    }
    if of_ms > 1.0 {
        runs.iter_mut().for_each(end_stalls);
    }
    runs
}

fn end_stalls(run: &mut Run) {
    for at in 1..run.rows.len() {
        let next = run.rows[at].ms;
        let before = &mut run.rows[at - 1].ms;
        if next - *before > STALLED_MS {
            *before = next - 12.0;
        }
    }
}

/// A file of the recorded traces. Prints a message and returns `None` if it is absent.
#[allow(dead_code, reason = "the plot takes a path")]
pub fn find(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../shared/data/traces")
        .join(name);
    if path.exists() {
        return Some(path);
    }
    eprintln!("SKIPPED: a test needs ../shared/data/traces/{name}, which is absent");
    assert!(
        std::env::var_os("WATTGATE_REQUIRE_DATA").is_none(),
        "WATTGATE_REQUIRE_DATA is set, so the measured data must be present"
    );
    None
}
