//! Writes the inputs of the kernel models as CSV, for a peer that gets the same: the kernel, whether the unit is held
//! out, time in ms, power in mW, then the inputs. The roofline among them is fitted to the units that are not held out.
//!
//! ```text
//! kernel_inputs CORPUS.csv TEST-UNIT,… OUTPUT.csv
//! ```

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use indicatif::ProgressBar;
use wattgate_kernels::Kind;
use wattgate_lab::kernels::corpus::{KernelCorpus, Row};
use wattgate_lab::kernels::learner::inputs;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, units, output] = &arguments[..] else {
        return Err("expected CORPUS.csv TEST-UNIT,… OUTPUT.csv".into());
    };
    let corpus = KernelCorpus::read(&[PathBuf::from(corpus)], &ProgressBar::hidden())?;
    let held_out: Vec<&str> = units.split(',').collect();
    let mut out = BufWriter::new(File::create(output)?);
    for (kind, rows) in Kind::ALL.into_iter().zip(&corpus.rows) {
        let is_held_out = |row: &Row| held_out.contains(&&*corpus.units[usize::from(row.unit)]);
        let all: Vec<&Row> = rows.iter().collect();
        let training: Vec<&Row> = rows.iter().filter(|row| !is_held_out(row)).collect();
        if training.is_empty() {
            continue;
        }
        let columns = inputs(&training, &all).columns;
        for (at, row) in rows.iter().enumerate() {
            let number =
                |value: Option<f32>| value.map_or(String::new(), |value| value.to_string());
            write!(
                out,
                "{},{},{},{}",
                kind.name(),
                u8::from(is_held_out(row)),
                number(row.time_ms),
                number(row.power_mw)
            )?;
            for column in &columns {
                write!(out, ",{}", column[at])?;
            }
            writeln!(out)?;
        }
    }
    Ok(out.flush()?)
}
