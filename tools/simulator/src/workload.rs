//! Workloads: the demand of one minibatch on loader, CPU, GPU and memory. Each workload is a
//! small TOML file. `workloads/` has those of the papers; users can add their own files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use serde::Deserialize;
use thiserror::Error;

use crate::recording::interpolation::Recording;

/// The shipped workloads by name.
const FILES: [(&str, &str); 8] = [
    ("resnet18", include_str!("../workloads/resnet18.toml")),
    (
        "resnet18-cifar10",
        include_str!("../workloads/resnet18-cifar10.toml"),
    ),
    ("mobilenetv3", include_str!("../workloads/mobilenetv3.toml")),
    ("yolov8n", include_str!("../workloads/yolov8n.toml")),
    ("bert", include_str!("../workloads/bert.toml")),
    ("lstm", include_str!("../workloads/lstm.toml")),
    ("lenet", include_str!("../workloads/lenet.toml")),
    ("vgg11", include_str!("../workloads/vgg11.toml")),
];

/// Maximum number of samples in a minibatch.
const MAX_MINIBATCH: u32 = 4096;

/// Why a workload is refused.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// The name is neither a shipped workload nor the path of a file.
    #[error("unknown workload `{name}`; there are {}, or name a file", names().join(", "))]
    NoSuchWorkload { name: String },
    /// The file cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file is not a valid workload.
    #[error("{}: {why}", path.display())]
    Defect { path: PathBuf, why: String },
    /// A number is outside its plausible range.
    #[error("{}: `{field}` is {value}, expected {least} … {most}", path.display())]
    Impossible {
        path: PathBuf,
        field: String,
        value: f64,
        least: f64,
        most: f64,
    },
    /// The workload was recorded with one feeding.
    #[error(
        "`{name}` is recorded, and its minibatch and workers are those of the recording; leave them as they are"
    )]
    Recorded { name: String },
    /// The workload does not say what it asks of storage and memory.
    #[error(
        "`{name}` has no `[{section}]`, which {purpose} needs; name another workload, or a file with it"
    )]
    NotTold {
        name: String,
        section: &'static str,
        purpose: &'static str,
    },
    /// The training does not fit into the board's memory.
    #[error(
        "`{name}` with a minibatch of {minibatch} needs {needs_gb:.1} GB, but `{board}` has {has_gb:.1} GB \
         for a training; {}",
        most.map_or("no minibatch fits, so name another board".to_owned(), |most| format!("at most {most} samples fit, so ask for fewer"))
    )]
    OutOfMemory {
        name: String,
        minibatch: u32,
        board: String,
        needs_gb: f64,
        has_gb: f64,
        /// The largest minibatch that fits.
        most: Option<u32>,
    },
}

/// Maximum number of loader workers.
const MAX_WORKERS: u32 = 64;

/// The names of the shipped workloads.
pub fn names() -> Vec<&'static str> {
    FILES.iter().map(|(name, _)| *name).collect()
}

/// Demand of a workload on the board.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// Name, as in the column `workload` of a corpus.
    pub name: String,
    /// Number of samples in an epoch.
    pub samples: u32,
    /// Number of samples in a minibatch.
    pub minibatch: u32,
    /// Duration of the first minibatch, relative to a later one.
    pub warm_up: f64,
    pub loader: Loader,
    pub host: Host,
    /// The data set on the storage.
    #[serde(default)]
    pub data: Option<Data>,
    /// Memory that the training takes.
    #[serde(default)]
    pub memory: Option<Memory>,
    /// What the loader waits for the storage; nothing while the data set is in the page cache.
    #[serde(skip)]
    pub reading: Reading,
    /// What a real board did with the workload, which corrects the simulated time and power.
    #[serde(skip)]
    pub recording: Option<Arc<Recording>>,
    /// Groups of kernels of a step, in the order of their launch.
    pub kernels: Vec<Kernels>,
}

/// Data loader, which prepares minibatches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loader {
    /// Number of worker processes; with 0 the main process prepares each minibatch itself.
    pub workers: u32,
    /// Further work per sample for each other worker, relative to the work of a worker alone: workers
    /// contend for locks, caches and the memory's allocator. It counts where the number of workers is
    /// changed ([`Workload::with_workers`]).
    #[serde(default)]
    pub contention: f64,
    /// CPU work per sample, in millions of cycles of a Cortex-A78AE.
    pub mcycles_per_sample: f64,
    /// Thousands of cache misses per sample that stall a core.
    pub kmisses_per_sample: f64,
    /// Memory traffic per sample in MB.
    pub mb_per_sample: f64,
}

/// A data set on a storage.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Data {
    /// Size of a sample on the storage, in MB.
    pub mb_per_sample: f64,
    /// Random reads per sample: 1 where each sample is a file, little where one file has many.
    pub reads_per_sample: f64,
}

/// Memory that a training takes.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// Memory of processes, libraries and parameters, in MB.
    pub mb: f64,
    /// Memory of the activations of a sample, in MB.
    pub mb_per_sample: f64,
}

/// Work of the main process while the GPU waits.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    /// CPU work per minibatch, in millions of cycles.
    pub mcycles: f64,
    /// Thousands of cache misses per minibatch.
    pub kmisses: f64,
    /// Size of a sample that is copied for the GPU, in MB.
    pub mb_per_sample: f64,
    /// CPU work per kernel launch, in thousands of cycles.
    pub launch_kcycles: f64,
    /// Cache misses per kernel launch.
    pub launch_misses: f64,
}

/// Time for which the loader waits for the storage, per sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    /// Time in s of a worker's read.
    pub alone_s: f64,
    /// Time in s between two reads when the storage is saturated.
    pub saturated_s: f64,
}

/// A group of similar kernels that are launched one after another.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernels {
    /// Number of kernels in the group.
    pub count: f64,
    /// Floating-point operations of the whole group per sample, in millions.
    pub mflop_per_sample: f64,
    /// Compute throughput, relative to the GPU's peak.
    pub efficiency: f64,
    /// Memory traffic of the whole group per sample, in MB.
    pub mb_per_sample: f64,
    /// Memory traffic of the whole group per minibatch that does not depend on its size, in MB.
    pub mb: f64,
    /// Thread blocks of one kernel per sample.
    pub blocks_per_sample: f64,
}

impl Workload {
    /// Loads the shipped workload of this name, or the file at this path.
    pub fn named(name: &str) -> Result<Self, WorkloadError> {
        let shipped = FILES.iter().find(|(known, _)| *known == name);
        if let Some((_, text)) = shipped {
            return Self::parse(Path::new(name), text);
        }
        let path = Path::new(name);
        if !path.is_file() {
            return Err(WorkloadError::NoSuchWorkload {
                name: name.to_owned(),
            });
        }
        let text = fs::read_to_string(path).map_err(|source| WorkloadError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &text)
    }

    fn parse(path: &Path, text: &str) -> Result<Self, WorkloadError> {
        let workload: Self = toml::from_str(text).map_err(|why| WorkloadError::Defect {
            path: path.to_owned(),
            why: {
                let start = why.span().map_or(0, |span| span.start);
                let line = 1 + text[..start].matches('\n').count();
                format!(
                    "line {line}: {}; the files of workloads/ are examples",
                    why.message()
                )
            },
        })?;
        workload.check(path)?;
        Ok(workload)
    }

    fn check(&self, path: &Path) -> Result<(), WorkloadError> {
        let sane = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        if self.name.is_empty() || !self.name.chars().all(sane) {
            return Err(WorkloadError::Defect {
                path: path.to_owned(),
                why: format!(
                    "`name` is `{}`, expected letters, digits, `-`, `_`, `.`",
                    self.name
                ),
            });
        }
        if self.kernels.is_empty() {
            return Err(WorkloadError::Defect {
                path: path.to_owned(),
                why: "no `kernels`, expected at least one group".to_owned(),
            });
        }
        let mut within = vec![
            ("samples".to_owned(), f64::from(self.samples), 1.0, 1e9),
            (
                "minibatch".to_owned(),
                f64::from(self.minibatch),
                1.0,
                f64::from(MAX_MINIBATCH),
            ),
            ("warm_up".to_owned(), self.warm_up, 1.0, 1e3),
            (
                "loader.workers".to_owned(),
                f64::from(self.loader.workers),
                0.0,
                f64::from(MAX_WORKERS),
            ),
            (
                "loader.contention".to_owned(),
                self.loader.contention,
                0.0,
                1e3,
            ),
            (
                "loader.mcycles_per_sample".to_owned(),
                self.loader.mcycles_per_sample,
                0.0,
                1e6,
            ),
            (
                "loader.kmisses_per_sample".to_owned(),
                self.loader.kmisses_per_sample,
                0.0,
                1e6,
            ),
            (
                "loader.mb_per_sample".to_owned(),
                self.loader.mb_per_sample,
                0.0,
                1e5,
            ),
            ("host.mcycles".to_owned(), self.host.mcycles, 0.0, 1e6),
            ("host.kmisses".to_owned(), self.host.kmisses, 0.0, 1e6),
            (
                "host.mb_per_sample".to_owned(),
                self.host.mb_per_sample,
                0.0,
                1e5,
            ),
            (
                "host.launch_kcycles".to_owned(),
                self.host.launch_kcycles,
                0.0,
                1e6,
            ),
            (
                "host.launch_misses".to_owned(),
                self.host.launch_misses,
                0.0,
                1e6,
            ),
        ];
        if let Some(data) = self.data {
            let named = |field: &str| format!("data.{field}");
            within.extend([
                (named("mb_per_sample"), data.mb_per_sample, 0.0, 1e5),
                (named("reads_per_sample"), data.reads_per_sample, 0.0, 1e3),
            ]);
        }
        if let Some(memory) = self.memory {
            let named = |field: &str| format!("memory.{field}");
            within.extend([
                (named("mb"), memory.mb, 0.0, 1e6),
                (named("mb_per_sample"), memory.mb_per_sample, 0.0, 1e6),
            ]);
        }
        for (at, group) in self.kernels.iter().enumerate() {
            let name = |field| format!("kernels[{at}].{field}");
            within.extend([
                (name("count"), group.count, 1.0, 1e6),
                (name("mflop_per_sample"), group.mflop_per_sample, 0.0, 1e9),
                (name("efficiency"), group.efficiency, 1e-4, 1.0),
                (name("mb_per_sample"), group.mb_per_sample, 0.0, 1e6),
                (name("mb"), group.mb, 0.0, 1e6),
                (
                    name("blocks_per_sample"),
                    group.blocks_per_sample,
                    1e-3,
                    1e6,
                ),
            ]);
        }
        for (field, value, least, most) in within {
            if !(least..=most).contains(&value) {
                return Err(WorkloadError::Impossible {
                    path: path.to_owned(),
                    field,
                    value,
                    least,
                    most,
                });
            }
        }
        Ok(())
    }

    /// Changes the size of the minibatch, 1 … 4096 samples.
    pub fn with_minibatch(mut self, minibatch: u32) -> Result<Self, WorkloadError> {
        self.is_fed_as_before(minibatch == self.minibatch)?;
        self.minibatch = minibatch;
        let path = PathBuf::from(&self.name);
        self.check(&path)?;
        Ok(self)
    }

    /// Changes the number of loader workers, 0 … 64, and with it how much they contend. None is like one
    /// without others.
    pub fn with_workers(mut self, workers: u32) -> Result<Self, WorkloadError> {
        self.is_fed_as_before(workers == self.loader.workers)?;
        if workers != self.loader.workers {
            let work =
                |workers: u32| 1.0 + self.loader.contention * f64::from(workers.saturating_sub(1));
            let factor = work(workers) / work(self.loader.workers);
            self.loader.mcycles_per_sample *= factor;
            self.loader.kmisses_per_sample *= factor;
            self.loader.mb_per_sample *= factor;
            self.loader.workers = workers;
        }
        let path = PathBuf::from(&self.name);
        self.check(&path)?;
        Ok(self)
    }

    /// Refuses another feeding of a recorded workload.
    fn is_fed_as_before(&self, is_same: bool) -> Result<(), WorkloadError> {
        match self.recording.is_none() || is_same {
            true => Ok(()),
            false => Err(WorkloadError::Recorded {
                name: self.name.clone(),
            }),
        }
    }

    /// Number of minibatches in an epoch.
    pub fn minibatches(&self) -> f64 {
        (f64::from(self.samples) / f64::from(self.minibatch)).ceil()
    }
}
