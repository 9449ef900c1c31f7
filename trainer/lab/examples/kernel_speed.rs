//! How long the models of kernels take to predict the rows of a corpus: `kernel_speed KERNELS.wgk CORPUS.csv`.
//! Prints the time of a row in µs, features included, as the best of three runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use indicatif::ProgressBar;
use wattgate_kernels::Kind;
use wattgate_lab::kernels::corpus::{KernelCorpus, Row};
use wattgate_lab::kernels::models::KernelModels;
use wattgate_trainer::score::Target;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kernels, corpus] = &arguments[..] else {
        eprintln!("usage: kernel_speed KERNELS.wgk CORPUS.csv");
        return ExitCode::from(2);
    };
    let models = KernelModels::read(Path::new(kernels)).expect("models of kernels");
    let files = [PathBuf::from(corpus)];
    let corpus = KernelCorpus::read(&files, &ProgressBar::hidden()).expect("a corpus");
    let once = || {
        let start = Instant::now();
        let mut count = 0;
        for (kind, rows) in Kind::ALL.into_iter().zip(&corpus.rows) {
            let Some(model) = models.for_kind(kind) else {
                continue;
            };
            let rows: Vec<&Row> = rows.iter().collect();
            for target in Target::ALL {
                count += model.for_target(target).predict_rows(&rows).len();
            }
        }
        1e6 * start.elapsed().as_secs_f64() / count as f64
    };
    let best = (0..3).map(|_| once()).fold(f64::INFINITY, f64::min);
    println!("wattgate predicts a row in {best:.2} µs");
    ExitCode::SUCCESS
}
