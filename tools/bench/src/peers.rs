//! General-purpose inference of the same network: tract and ONNX Runtime, each in a Python process.
//! In this process tract would leave the upper halves of the vector registers dirty, and SSE code
//! that follows would take up to four times as long.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use tempfile::TempDir;
use thiserror::Error;
use wattgate_bench::case::Case;
use wattgate_bench::onnx::{self, MOST_DISAGREEMENT, OUTPUTS};

/// Why a peer cannot be timed.
#[derive(Debug, Error)]
pub enum PeerError {
    #[error(
        "{engine} and the runtime disagree by {percent:.2} % of the range of an output; install its release of tools/bench.sh"
    )]
    Disagrees { engine: &'static str, percent: f64 },
    #[error(
        "{engine} wrote {bytes} bytes of outputs, expected {expected}; install its release of tools/bench.sh"
    )]
    Outputs {
        engine: &'static str,
        bytes: usize,
        expected: usize,
    },
    #[error("cannot exchange the network with {program}: {why}")]
    Exchange { program: String, why: io::Error },
    #[error(
        "cannot start {program}: {why}; name a Python with the packages tract and onnxruntime with --peer"
    )]
    Start { program: String, why: io::Error },
    #[error("{program} ended: {status}; its own output may say why")]
    Ended { program: String, status: String },
    #[error(
        "{program} answered `{answer}`, expected microseconds; name a Python with the packages tract and onnxruntime with --peer"
    )]
    Answer { program: String, answer: String },
}

/// An inference engine.
#[derive(Clone, Copy, Debug)]
pub enum Engine {
    Tract,
    OnnxRuntime,
}

impl Engine {
    /// The name of its Python package.
    fn package(self) -> &'static str {
        match self {
            Self::Tract => "tract",
            Self::OnnxRuntime => "onnxruntime",
        }
    }
}

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/peers/peer.py");

/// A case in another engine, in a Python process that runs on request.
pub struct Peer {
    child: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
    program: String,
    _folder: TempDir,
}

impl Peer {
    /// Starts `python`, an interpreter with the engine's package. Fails if the engine disagrees
    /// with the runtime.
    pub fn new(case: &Case, engine: Engine, python: &Path) -> Result<Self, PeerError> {
        let program = python.display().to_string();
        let exchange = |why| PeerError::Exchange {
            program: program.clone(),
            why,
        };
        let (folder, [network, features, outputs]) = written(case).map_err(exchange)?;
        let mut child = Command::new(python)
            .args([SCRIPT, engine.package()])
            .args([&network, &features, &outputs])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|why| PeerError::Start {
                program: program.clone(),
                why,
            })?;
        let mut peer = Self {
            questions: child.stdin.take().expect("piped"),
            answers: BufReader::new(child.stdout.take().expect("piped")),
            child,
            program: program.clone(),
            _folder: folder,
        };
        // It has written its outputs when it answers.
        peer.time(1)?;
        let bytes = fs::read(&outputs).map_err(exchange)?;
        agrees(case, engine.package(), &bytes)?;
        Ok(peer)
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

impl Drop for Peer {
    /// Kills the process, as one that failed to answer may hang.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn agrees(case: &Case, engine: &'static str, bytes: &[u8]) -> Result<(), PeerError> {
    let (values, _) = bytes.as_chunks();
    let expected = size_of::<f32>() * OUTPUTS * case.grid.modes() as usize;
    if bytes.len() != expected {
        return Err(PeerError::Outputs {
            engine,
            bytes: bytes.len(),
            expected,
        });
    }
    let logs: Vec<_> = values
        .iter()
        .map(|value| f32::from_le_bytes(*value))
        .collect();
    let percent = onnx::disagreement(case, &logs);
    if percent > MOST_DISAGREEMENT {
        return Err(PeerError::Disagrees { engine, percent });
    }
    Ok(())
}

/// Writes the network and the features. Returns their paths and that of the outputs.
fn written(case: &Case) -> io::Result<(TempDir, [PathBuf; 3])> {
    let folder = tempfile::tempdir()?;
    let files =
        ["network.onnx", "features.f32", "outputs.f32"].map(|name| folder.path().join(name));
    let features: Vec<u8> = onnx::features(case)
        .iter()
        .flat_map(|value| value.to_le_bytes())
        .collect();
    fs::write(&files[0], onnx::file(case))?;
    fs::write(&files[1], features)?;
    Ok((folder, files))
}
