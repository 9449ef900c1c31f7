//! General-purpose inference of the same network: tract in this process, ONNX Runtime in a Python
//! child process.

use std::fs;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Instant;

use prost::Message;
use tempfile::TempDir;
use thiserror::Error;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::{
    Framework, InferenceModelExt, IntoRunnable, TValue, Tensor, TractResult, TypedRunnableModel,
    tvec,
};
use wattgate_bench::case::Case;
use wattgate_runtime::{INPUTS, ModeId, Region};

use crate::onnx::{self, OUTPUTS};

/// Why a peer cannot be timed.
#[derive(Debug, Error)]
pub enum PeerError {
    #[error("tract: {0}")]
    Tract(String),
    #[error("tract and the runtime disagree by {percent:.2} % of the range of an output")]
    Disagrees { percent: f64 },
    #[error("cannot write the network for {program}: {why}")]
    Write { program: String, why: io::Error },
    #[error("cannot start {program}: {why}")]
    Start { program: String, why: io::Error },
    #[error("{program} ended: {status}")]
    Ended { program: String, status: String },
    #[error("{program} answered `{answer}`, expected microseconds")]
    Answer { program: String, answer: String },
}

/// A case in tract, in a thread of its own. Tract leaves the upper halves of the vector registers
/// dirty, and SSE code that follows in the same thread takes up to four times as long.
pub struct Tract {
    questions: Sender<u32>,
    answers: Receiver<Result<f64, PeerError>>,
}

impl Tract {
    /// Loads and optimises the network. Fails if it disagrees with the runtime.
    pub fn new(case: &Case) -> Result<Self, PeerError> {
        let network = onnx::model(case);
        let shape = [case.grid.modes() as usize, INPUTS];
        let features = onnx::features(case);
        let (questions, asked) = mpsc::channel();
        let (answer, answers) = mpsc::channel();
        let (first, logs) = mpsc::channel();
        thread::spawn(move || {
            let loaded = Loaded::new(&network, shape, &features).map_err(failed);
            let loaded = match loaded.and_then(|it| Ok((it.logs()?, it))) {
                Ok((logs, loaded)) => {
                    let _ = first.send(Ok(logs));
                    loaded
                }
                Err(why) => {
                    let _ = first.send(Err(why));
                    return;
                }
            };
            // Ends when the other end is dropped.
            for runs in asked {
                let _ = answer.send(loaded.time(runs));
            }
        });
        let logs: Vec<f32> = logs.recv().map_err(failed)??;
        let percent = disagreement(case, &logs);
        if percent > MOST_DISAGREEMENT {
            return Err(PeerError::Disagrees { percent });
        }
        Ok(Self { questions, answers })
    }

    /// Runs the network a number of times. Returns the microseconds per run.
    pub fn time(&mut self, runs: u32) -> Result<f64, PeerError> {
        self.questions.send(runs).map_err(failed)?;
        self.answers.recv().map_err(failed)?
    }
}

struct Loaded {
    network: Arc<TypedRunnableModel>,
    features: TValue,
}

impl Loaded {
    fn new(network: &ModelProto, shape: [usize; 2], features: &[f32]) -> TractResult<Self> {
        let network = tract_onnx::onnx().model_for_proto_model(network)?;
        Ok(Self {
            network: network.into_optimized()?.into_runnable()?,
            features: Tensor::from_shape(&shape, features)?.into(),
        })
    }

    /// Infers log time, log power and spread of every mode.
    fn run(&self) -> Result<TValue, PeerError> {
        let outputs = self.network.run(tvec![self.features.clone()]);
        Ok(outputs.map_err(failed)?.swap_remove(0))
    }

    fn logs(&self) -> Result<Vec<f32>, PeerError> {
        let logs = self.run()?;
        let logs = logs.to_plain_array_view::<f32>().map_err(failed)?;
        Ok(logs.iter().copied().collect())
    }

    fn time(&self, runs: u32) -> Result<f64, PeerError> {
        let start = Instant::now();
        for _ in 0..runs {
            black_box(self.run()?);
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / f64::from(runs))
    }
}

/// Maximum disagreement due to the runtime's rounding, in percent of the range of an output.
const MOST_DISAGREEMENT: f64 = 1.0;

/// Maximum difference between a peer's and the runtime's outputs, in percent of their range.
fn disagreement(case: &Case, logs: &[f32]) -> f64 {
    let mut raw = vec![[0; OUTPUTS]; case.grid.modes() as usize];
    let model = case.model();
    model.sweep(&Region::all(&case.grid), |ModeId(id), at| {
        raw[usize::from(id)] = [at.log_time, at.log_power, at.spread];
    });
    let [time, power] = [0, 1].map(|output: usize| f64::from(case.layers.output[output].scale));
    let unit = f64::from(model.spread_unit());
    // The runtime limits a spread to this range.
    let spreads = [case.least_spread, i16::MAX.cast_unsigned()].map(|it| f64::from(it) * unit);
    let of_output = |(output, scale): (usize, f64)| {
        let is_spread = output == OUTPUTS - 1;
        let ours = raw.iter().map(|raw| f64::from(raw[output]) * scale);
        // A spread starts at zero.
        let start = if is_spread {
            (0.0, 0.0)
        } else {
            (f64::MAX, f64::MIN)
        };
        let (least, most) = ours
            .clone()
            .fold(start, |(least, most), log| (log.min(least), log.max(most)));
        let theirs = logs
            .chunks_exact(OUTPUTS)
            .map(|logs| f64::from(logs[output]))
            .map(|log| {
                if is_spread {
                    log.clamp(spreads[0], spreads[1])
                } else {
                    log
                }
            });
        let apart = ours.zip(theirs).map(|(ours, theirs)| (ours - theirs).abs());
        100.0 * apart.fold(0.0, f64::max) / (most - least)
    };
    let outputs = [time, power, unit].into_iter().enumerate().map(of_output);
    outputs.fold(0.0, f64::max)
}

fn failed(error: impl std::fmt::Display) -> PeerError {
    PeerError::Tract(format!("{error:#}"))
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/onnxruntime_peer.py");

/// A case in ONNX Runtime, in a Python process that runs on request.
pub struct OnnxRuntime {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    program: String,
    _folder: TempDir,
}

impl OnnxRuntime {
    /// Starts `python`, an interpreter with the package onnxruntime.
    pub fn new(case: &Case, python: &Path) -> Result<Self, PeerError> {
        let program = python.display().to_string();
        let (folder, files) = written(case).map_err(|why| PeerError::Write {
            program: program.clone(),
            why,
        })?;
        let mut child = Command::new(python)
            .arg(SCRIPT)
            .args(files)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| PeerError::Start {
                program: program.clone(),
                why,
            })?;
        Ok(Self {
            questions: child.stdin.take().expect("piped"),
            answers: BufReader::new(child.stdout.take().expect("piped")),
            child,
            program,
            _folder: folder,
        })
    }

    /// Runs the network `runs` times and returns the mean time of a run in microseconds.
    pub fn time(&mut self, runs: u32) -> Result<f64, PeerError> {
        let mut answer = String::new();
        let asked = writeln!(self.questions, "{runs}");
        let answered = asked.and_then(|()| self.answers.read_line(&mut answer));
        if !answered.is_ok_and(|bytes| bytes > 0) {
            return Err(self.ended());
        }
        let microseconds = answer.trim().parse().ok();
        microseconds
            .filter(|microseconds| *microseconds > 0.0)
            .ok_or_else(|| PeerError::Answer {
                program: self.program.clone(),
                answer: answer.trim().to_owned(),
            })
    }

    fn ended(&mut self) -> PeerError {
        let status = match self.child.wait() {
            Ok(status) => status.to_string(),
            Err(why) => why.to_string(),
        };
        PeerError::Ended {
            program: self.program.clone(),
            status,
        }
    }
}

impl Drop for OnnxRuntime {
    /// Kills the process, as one that failed to answer may hang.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn written(case: &Case) -> io::Result<(TempDir, [PathBuf; 2])> {
    let folder = tempfile::tempdir()?;
    let files = ["network.onnx", "features.f32"].map(|name| folder.path().join(name));
    let features = onnx::features(case);
    let features: Vec<u8> = features
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    fs::write(&files[0], onnx::model(case).encode_to_vec())?;
    fs::write(&files[1], features)?;
    Ok((folder, files))
}
