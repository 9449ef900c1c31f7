//! Discovery: which knobs and sensors a board has, found by name, label and type.
//!
//! What a board lacks is told in [`Board::missing`] and the rest works. Only a board of which
//! nothing can be set, or whose power cannot be known, is an error.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;
use wattgate_runtime::{MOST_CHIPS, Milliwatts};

use crate::averaging::Chips;
use crate::cpu::Cpus;
use crate::files::{Files, Knob, KnobError, Refusal};
use crate::gpu::Gpu;
use crate::identity::Identity;
use crate::memory::Memory;
use crate::nvpmodel::{Masks, Nvpmodel};
use crate::power::Rails;
use crate::thermal::Heat;
use crate::transition::Journal;

/// Hz in a kHz.
pub(crate) const HZ: u32 = 1000;

/// Texts longer than this are no tables.
const LONGEST_TEXT: usize = 16 * 1024;

/// Why a board cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DiscoverError {
    /// Neither cores nor a clock can be set.
    #[error("nothing can be set under {}: {}", root.display(), list(missing))]
    NothingToSet {
        root: PathBuf,
        missing: Vec<Missing>,
    },
    /// No rail is the module's input, and the rails are not all of a board whose sum is known.
    #[error("the total power cannot be known from the rails {}", list(labels))]
    PowerUnknown { labels: Vec<String> },
    /// More cores than any board has.
    #[error("{cores} cores, expected 64 at most")]
    TooManyCores { cores: usize },
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    match items {
        [] => "(none)".to_owned(),
        _ => {
            let items: Vec<String> = items.iter().map(T::to_string).collect();
            items.join(", ")
        }
    }
}

/// Something that the board lacks, or that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// Such as `memory clock`.
    pub what: &'static str,
    /// The file or the directory where it should be.
    pub path: PathBuf,
    /// `NotFound` where it is not there, `PermissionDenied` where root is needed,
    /// `InvalidData` where its content makes no sense.
    pub why: io::ErrorKind,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, path, why } = self;
        write!(f, "{what}: {}: {why}", path.display())
    }
}

/// The knobs and sensors of a board.
#[derive(Debug)]
pub struct Board {
    pub(crate) identity: Identity,
    pub(crate) knobs: Knobs,
    pub(crate) rails: Rails,
    pub(crate) chips: Chips,
    pub(crate) heat: Heat,
    pub(crate) nvpmodel: Nvpmodel,
    missing: Vec<Missing>,
    /// What a transition has written so far; here so that none allocates.
    pub(crate) journal: Journal,
}

/// What can be set.
#[derive(Debug)]
pub(crate) struct Knobs {
    pub cpus: Cpus,
    pub gpu: Option<Gpu>,
    pub memory: Option<Memory>,
}

impl Board {
    /// Looks for everything below `root`, which is `/` on a board.
    pub fn discover(files: &impl Files, root: &Path) -> Result<Self, DiscoverError> {
        let mut search = Search {
            files,
            root,
            missing: Vec::new(),
        };
        let identity = Identity::find(&mut search);
        let cpus = Cpus::find(&mut search)?;
        let gpu = Gpu::find(&mut search);
        let nvpmodel = Nvpmodel::find(&mut search, gpu.as_ref());
        let memory = Memory::find(&mut search);
        let rails = Rails::find(&mut search)?;
        let heat = Heat::find(&mut search);
        let missing = search.missing;
        let knobs = Knobs { cpus, gpu, memory };
        if !knobs.cpus.can_switch()
            && knobs.cpus.table.is_empty()
            && knobs.gpu.is_none()
            && knobs.memory.is_none()
        {
            let root = root.to_owned();
            return Err(DiscoverError::NothingToSet { root, missing });
        }
        Ok(Self {
            identity,
            journal: Journal::new(knobs.count()),
            knobs,
            chips: Chips::of(&rails),
            rails,
            heat,
            nvpmodel,
            missing,
        })
    }

    /// What the board is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// What the board lacks, in the order of the search.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// CPU clocks in kHz that all clusters have, ascending; empty where they cannot be set.
    pub fn cpu_khz(&self) -> &[u32] {
        &self.knobs.cpus.table
    }

    /// GPU clocks in kHz, ascending; empty where they cannot be set.
    pub fn gpu_khz(&self) -> &[u32] {
        self.knobs.gpu.as_ref().map_or(&[], |gpu| &gpu.table)
    }

    /// Memory clocks in kHz, ascending; empty where they cannot be set.
    pub fn emc_khz(&self) -> &[u32] {
        let memory = self.knobs.memory.as_ref();
        memory.map_or(&[], |memory| &memory.table)
    }

    /// All cores in the order in which a power mode counts them: cluster by cluster (section
    /// 1).
    pub fn core_order(&self) -> impl Iterator<Item = u32> + '_ {
        self.knobs.cpus.cores.iter().map(|core| core.number)
    }

    /// The labels of the rails that add up to the module's power.
    pub fn rails(&self) -> impl Iterator<Item = &str> {
        self.rails.labels()
    }

    /// By how much the module's power is typically off for the offsets of the sensor: by its data
    /// sheet, the shunts and the voltages at discovery. Where the driver does not show a shunt, the
    /// readings of the rail's current so far, at discovery and in each [sample](Self::sample), tell the
    /// smallest that it can be: the offset falls as they do.
    pub fn sensor_offset(&self) -> Milliwatts {
        self.rails.offset()
    }

    /// The load of the GPU in permille: the part of the time in which it executes (section 5.2); none
    /// where the driver does not show it. Does not allocate on a disk.
    pub fn gpu_load(&self, files: &impl Files) -> Option<u16> {
        let load = self.knobs.gpu.as_ref()?.load.as_ref()?.read(files).ok()?;
        u16::try_from(load.clamp(0, 1_000)).ok()
    }

    /// The steps in which each chip shows the power: the root of the sum of the squares of its
    /// rails' steps, by the shunts and the voltages at discovery. Where the driver does not show a
    /// shunt, they follow the readings as [`Self::sensor_offset`] does.
    pub fn sensor_steps(&self) -> [Milliwatts; MOST_CHIPS] {
        self.rails.steps()
    }

    /// How many chips measure these rails, 1 … [`MOST_CHIPS`](wattgate_runtime::MOST_CHIPS).
    pub fn chips(&self) -> usize {
        self.rails.chips()
    }

    /// The types of the thermal zones.
    pub fn thermal_zones(&self) -> impl Iterator<Item = &str> {
        self.heat.names()
    }

    /// The temperature of the hottest zone that can be read, in milli-°C (section 7).
    pub fn hottest_mc(&self, files: &impl Files) -> Option<i64> {
        self.heat.hottest_mc(files)
    }

    /// Events of the over-current protection OC1, OC2 and OC3 since boot (section 6.4); none
    /// where there is no counter.
    pub fn over_current_events(&self, files: &impl Files) -> [Option<i64>; 3] {
        self.heat.over_current_events(files)
    }

    /// The masks that gate parts of the GPU; they are never written.
    pub fn masks(&self, files: &impl Files) -> Masks {
        self.nvpmodel.masks(files)
    }

    /// The id of the mode that nvpmodel believes to be set (section 4.1).
    pub fn nvpmodel_mode(&self, files: &impl Files) -> Option<u32> {
        self.nvpmodel.mode(files)
    }
}

impl Knobs {
    /// The number of files that can be written.
    fn count(&self) -> usize {
        self.cpus.cores.len() + 2 * self.cpus.policies.len() + 2 + 3
    }
}

/// A search below a root that notes what is missing.
pub(crate) struct Search<'a, F> {
    pub files: &'a F,
    root: &'a Path,
    missing: Vec<Missing>,
}

impl<F: Files> Search<'_, F> {
    /// A path of the board below the root.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    /// The text of a file.
    pub fn text(&self, path: &Path) -> Result<String, Refusal> {
        let mut buffer = vec![0; LONGEST_TEXT];
        Ok(self.files.read(path, &mut buffer)?.to_owned())
    }

    /// The first word of a file, which a NUL may end; empty where there is none.
    pub fn word(&self, path: &Path) -> Result<String, Refusal> {
        let text = self.text(path)?;
        let separators = |c: char| c.is_whitespace() || c == '\0';
        Ok(text.split(separators).next().unwrap_or_default().to_owned())
    }

    /// The names in a directory, ascending; none where it cannot be listed.
    pub fn list(&self, directory: &Path) -> Vec<String> {
        let mut names = self.files.list(directory).unwrap_or_default();
        names.sort_unstable();
        names
    }

    /// A table of clocks in kHz, ascending, from a file in which one kHz is `unit`. Words that
    /// are no whole number of kHz are left out.
    pub fn table(&self, path: &Path, unit: u32) -> Result<Vec<u32>, Refusal> {
        let text = self.text(path)?;
        let mut table: Vec<u32> = text
            .split_whitespace()
            .filter_map(|word| khz(word.parse().ok()?, unit))
            .collect();
        table.sort_unstable();
        table.dedup();
        match table.is_empty() {
            true => Err(io::Error::from(io::ErrorKind::InvalidData).into()),
            false => Ok(table),
        }
    }

    /// A file as a knob, if a number can be read from it.
    pub fn knob(&mut self, what: &'static str, path: PathBuf) -> Option<Knob> {
        let knob = Knob(Arc::from(path));
        match knob.read(self.files) {
            Ok(_) => Some(knob),
            Err(error) => {
                let why = match error {
                    KnobError::Unreadable { why, .. } => why.kind(),
                    _ => io::ErrorKind::InvalidData,
                };
                self.miss(what, knob.0.to_path_buf(), why);
                None
            }
        }
    }

    pub fn miss(&mut self, what: &'static str, path: PathBuf, why: io::ErrorKind) {
        self.missing.push(Missing { what, path, why });
    }
}

/// A clock in kHz from one in units of 1/`unit` kHz; none where it is zero or no whole number.
pub(crate) fn khz(value: i64, unit: u32) -> Option<u32> {
    let unit = i64::from(unit);
    let whole = value > 0 && value % unit == 0;
    whole.then(|| u32::try_from(value / unit).ok()).flatten()
}
