//! From the teachers' predictions on the whole grid to a model file.
//!
//! ```text
//! surface ─► student ─► quantise ─► network ─► spreads ─► measured ─► bands ─► idle ─► wgt: the bytes
//!  (teachers) (float)    (integers)  (by the runtime)
//! ```
//!
//! Each stage is a module with one entry, and takes what the stages before it found.

pub mod bands;
pub mod exported;
pub mod idle;
pub mod inputs;
pub mod measured;
pub mod network;
pub mod quantise;
pub mod spreads;
pub mod student;
pub mod surface;
pub mod wgt;

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::Model;
use wattgate_runtime::format::FormatError;
use wattgate_runtime::idle::Idle;
use wattgate_runtime::shape::Shape;

use self::bands::Bands;
use self::exported::Exported;
use self::network::Predicted;
use self::student::Student;
use self::surface::{Origin, Surface};
use crate::learn::expected::{Expected, LeftOut, expected_errors};
use crate::learn::predictions::{Errors, Predictions, Target};

/// ChaCha stream of the student.
const STUDENT_STREAM: u64 = 4;

/// Distils a surface into the parts of a model file. Advances `progress` by [`STUDENT_PROGRESS`](student::STUDENT_PROGRESS).
pub fn export(
    origin: Origin,
    surface: &Surface,
    shape: Shape,
    progress: &ProgressBar,
) -> Result<Exported, FormatError> {
    progress.set_message("student");
    let targets = surface.targets();
    let mut random = ChaCha8Rng::seed_from_u64(origin.seed);
    random.set_stream(STUDENT_STREAM);
    let Student {
        layers,
        log_predictions,
    } = student::distil(&origin.grid, shape, &targets, &mut random, progress);

    // From here on, what counts is what the runtime computes from integers.
    let network = network::file(&origin, &layers);
    let network = Model::parse(&network)?;
    let by_network = Predicted::by_network(&network);
    let spreads = spreads::fit(surface, &targets, &by_network);
    let by_network = by_network.with_spreads(spreads);

    let known = measured::known(surface);
    let measured = measured::nearest_to_front(&known, &by_network, &layers);
    let predictions = by_network.with_measured(&measured).values();
    let bands = Bands::compute(&origin, surface, &predictions, &known, &measured);
    let mut exported = Exported {
        teacher: Predictions::of_logs(&targets),
        student: Predictions::of_logs(&log_predictions),
        left_out: left_out(surface, &by_network.values()),
        expected_errors: expected(surface, &predictions),
        predictions,
        bands,
        idle: Idle::NONE,
        idle_left_out: Vec::new(),
        origin,
        layers,
        spreads,
        measured,
    };
    idle::find(&mut exported)?;
    Ok(exported)
}

/// ln(measured / predicted) of time and of power, each by a network that has not seen the measurement.
fn left_out(surface: &Surface, network: &Predictions) -> [Option<Vec<f64>>; 2] {
    Target::ALL.map(|target| {
        let residual = |(at, left_out): (usize, &LeftOut)| {
            let offset = match surface.measured.get(at) {
                Some(mode) => {
                    let teacher = surface.expected.get(target as usize)?[mode.id];
                    teacher.median - target.predicted(network)?[mode.id].ln()
                }
                None => 0.0,
            };
            Some(left_out.for_target(target)?.log + offset)
        };
        let residuals: Vec<f64> = surface
            .left_out
            .iter()
            .enumerate()
            .filter_map(residual)
            .collect();
        (!residuals.is_empty()).then_some(residuals)
    })
}

/// The errors that are expected of the teachers, with those of the export on top.
fn expected(surface: &Surface, predictions: &Predictions) -> Errors {
    let targets = Target::ALL.into_iter().zip(&surface.expected);
    let board = targets.map(|(target, teacher)| {
        let file = target.predicted(predictions).into_iter().flatten();
        let with_file_error = |(teacher, file): (&Expected, &f64)| Expected {
            sd: teacher.sd.hypot(file.ln() - teacher.median),
            ..*teacher
        };
        teacher.iter().zip(file).map(with_file_error).collect()
    });
    let board: Vec<Vec<Expected>> = board.collect();
    expected_errors(&surface.left_out, &board)
}
