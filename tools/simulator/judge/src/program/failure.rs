//! Why a command failed, and the exit code for it.

use std::io;
use std::path::PathBuf;

use thiserror::Error;
use wattgate_board_tables::BoardError;
use wattgate_cli::arguments::Told;
use wattgate_cli::delimited::FileError;
use wattgate_cli::exit::{self, Failed};
use wattgate_cli::output::OutputError;
use wattgate_cli::shard::ShardError;
use wattgate_judge::dynamics::comparison::DynamicsError;
use wattgate_judge::files::corpus::ReadError;
use wattgate_judge::judge::JudgeError;
use wattgate_judge::physics::corpus::CorpusError;
use wattgate_judge::replay::ReplayError;
use wattgate_probe::format::{OpenError, ProbeError};
use wattgate_simulated_board::anchors::AnchorError;
use wattgate_simulated_board::corpus::ModesError;
use wattgate_simulated_board::recording::RecordingError;
use wattgate_simulated_board::tree::mirror::{LivingError, MirrorError};
use wattgate_simulated_board::tree::nvpmodel::NvpmodelError;
use wattgate_simulated_board::workload::WorkloadError;

/// Why a command failed.
#[derive(Debug, Error)]
pub enum Failure {
    #[error("{}", Told(.0))]
    Arguments(#[from] lexopt::Error),
    #[error("missing {0}")]
    Missing(&'static str),
    #[error("{option} is `{value}`, expected {expected}")]
    Value {
        option: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error(
        "{option} is `{value}`, expected numbers of {least} … {most}, with commas between them"
    )]
    Numbers {
        option: &'static str,
        value: String,
        least: String,
        most: String,
    },
    #[error("{0} and {1} exclude each other; give one of them")]
    Exclusive(&'static str, &'static str),
    #[error("{0}")]
    Probe(#[from] OpenError),
    #[error("{0}")]
    Board(#[from] BoardError),
    #[error("{0}")]
    Workload(#[from] WorkloadError),
    #[error("{}: {why}", path.display())]
    Recording { path: PathBuf, why: RecordingError },
    #[error("{}: `{device}` in `device` is no board that is known; {advice}", path.display())]
    Device {
        path: PathBuf,
        device: String,
        advice: String,
    },
    #[error(
        "missing --weights: a recorded board needs a model of its corpus, made by \
         `wattgate-trainer fit {} --modes 15 -o model.wgt`",
        corpus.display()
    )]
    NoModel { corpus: PathBuf },
    #[error("{0}")]
    Modes(#[from] ModesError),
    #[error("{0}")]
    Output(#[from] OutputError),
    #[error("--mode: {0}")]
    Mode(#[from] NvpmodelError),
    #[error("{0}")]
    Mirror(#[from] MirrorError),
    #[error("{0}")]
    Living(#[from] LivingError),
    #[error("cannot wait for signals: {0}")]
    Signals(io::Error),
    #[error("{0}")]
    Scenario(io::Error),
    #[error("{0}")]
    File(#[from] FileError),
    #[error("{0}")]
    Read(#[from] ReadError),
    #[error("{0}")]
    Replay(#[from] ReplayError),
    #[error("{0}")]
    Judge(JudgeError),
    #[error("{0}")]
    NoSpan(DynamicsError),
    #[error("{0}")]
    Corpus(CorpusError),
    #[error("{program}: cannot be run: {why}; name it with --trainer")]
    NoTrainer { program: String, why: io::Error },
    #[error("cannot plot: {0}; name another file with -o")]
    Plot(String),
    #[error("the trainer failed: {0}; name the wattgate-trainer of this release with --trainer")]
    Trainer(String),
    #[error("{0} anchors are not met; the rows above tell which")]
    Anchors(usize),
    #[error("{0}")]
    Shard(#[from] ShardError),
    #[error("cannot print: {0}")]
    Print(#[from] io::Error),
}

impl From<AnchorError> for Failure {
    fn from(error: AnchorError) -> Self {
        match error {
            AnchorError::Board(error) => Self::Board(error),
            AnchorError::Workload(error) => Self::Workload(error),
        }
    }
}

impl From<JudgeError> for Failure {
    fn from(error: JudgeError) -> Self {
        match error {
            JudgeError::Replay(error) => Self::Replay(error),
            JudgeError::File(error) => Self::File(error),
            error => Self::Judge(error),
        }
    }
}

impl From<DynamicsError> for Failure {
    fn from(error: DynamicsError) -> Self {
        match error {
            DynamicsError::Trace(error) => Self::File(error),
            DynamicsError::Simulator(error) => Self::Replay(error),
            error @ DynamicsError::NoSpan { .. } => Self::NoSpan(error),
        }
    }
}

impl From<CorpusError> for Failure {
    fn from(error: CorpusError) -> Self {
        match error {
            CorpusError::Read(error) => Self::Read(error),
            error => Self::Corpus(error),
        }
    }
}

impl Failed for Failure {
    fn exit_code(&self) -> u8 {
        match self {
            Self::Shard(why) => why.exit_code(),
            Self::Arguments(_)
            | Self::Missing(_)
            | Self::NoModel { .. }
            | Self::Recording {
                why: RecordingError::OtherChip { .. },
                ..
            }
            | Self::Value { .. }
            | Self::Numbers { .. }
            | Self::Exclusive(..)
            | Self::Board(_)
            | Self::Workload(WorkloadError::NoSuchWorkload { .. })
            | Self::Mode(_)
            | Self::Mirror(MirrorError::NotEmpty { .. })
            | Self::Living(LivingError::NoBoard { .. })
            | Self::Replay(
                ReplayError::Board(_)
                | ReplayError::Boot(_)
                | ReplayError::Samples { .. }
                | ReplayError::ModelsWorkload { .. },
            )
            | Self::Judge(JudgeError::Stretch { .. } | JudgeError::TooShort { .. })
            | Self::Modes(_) => exit::ARGUMENTS,
            Self::Probe(OpenError {
                why: ProbeError::Unreadable(_),
                ..
            }) => exit::OTHER,
            Self::Probe(_)
            | Self::Recording { .. }
            | Self::Device { .. }
            | Self::Workload(
                WorkloadError::Recorded { .. }
                | WorkloadError::Defect { .. }
                | WorkloadError::Impossible { .. }
                | WorkloadError::NotTold { .. }
                | WorkloadError::OutOfMemory { .. },
            )
            | Self::File(FileError::Defect { .. })
            | Self::Read(ReadError::Defect { .. })
            | Self::Replay(
                ReplayError::Format { .. } | ReplayError::NoPower { .. } | ReplayError::Setup(_),
            )
            | Self::Judge(_)
            | Self::NoSpan(_)
            | Self::Corpus(_)
            | Self::Trainer(_)
            | Self::Anchors(_) => exit::INPUT,
            Self::Workload(WorkloadError::Io { .. })
            | Self::Output(_)
            | Self::Mirror(_)
            | Self::Living(_)
            | Self::Signals(_)
            | Self::NoTrainer { .. }
            | Self::Plot(_)
            | Self::Scenario(_)
            | Self::File(FileError::Io { .. })
            | Self::Read(ReadError::Io { .. })
            | Self::Replay(ReplayError::Model { .. } | ReplayError::Holder(_))
            | Self::Print(_) => exit::OTHER,
        }
    }

    fn print_error(&self) -> Option<&io::Error> {
        match self {
            Self::Print(error) => Some(error),
            _ => None,
        }
    }

    fn argument_error(&self) -> Option<&lexopt::Error> {
        match self {
            Self::Arguments(error) => Some(error),
            _ => None,
        }
    }
}
