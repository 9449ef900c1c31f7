//! The GPU's clock in devfreq, found by the name of its device (`jetson-platform.md`, section
//! 5.2 and addendum).
//!
//! Thor's GPU has two clocks. `gpu-gpc-0` is that of the processing clusters. `gpu-nvd-0` is that of the
//! video engines, with clocks of its own up to 1,692 MHz, and is no knob: a power mode has one GPU
//! clock, and no model knows what the video engines cost. What they draw is part of the measured power,
//! so the limit holds all the same.

use std::io;
use std::path::{Path, PathBuf};

use crate::clock::Limits;
use crate::files::{Files, Knob};
use crate::search::Search;

/// Names of GPUs in the device tree.
const GPU_NAMES: [&str; 5] = ["gv11b", "gp10b", "ga10b", "gb10b", "gpu"];

/// How the names of Thor's two GPU clocks in devfreq start, and the one of the processing clusters.
const THOR: &str = "gpu-";
const THOR_GPC: &str = "gpu-gpc-0";

/// Directories with an entry for each devfreq device, or for the GPU alone.
const PLACES: [&str; 3] = [
    "/sys/class/devfreq",
    "/sys/devices/platform/gpu.0/devfreq",
    "/sys/devices/gpu.0/devfreq",
];

/// The counter of the true clock on Orin (section 5.2), and probably on Thor, whose clock has another
/// name (addendum).
const COUNTERS: [&str; 2] = [
    "/sys/kernel/debug/bpmp/debug/clk/nafll_gpc0/pto_counter",
    "/sys/kernel/debug/bpmp/debug/clk/gpu_gpc0/pto_counter",
];

#[derive(Clone, Debug)]
pub(crate) struct Gpu {
    /// Minimum and maximum in Hz.
    pub limits: Limits,
    /// Clocks in kHz, ascending.
    pub table: Vec<u32>,
    /// The directory of the device that devfreq controls.
    pub device: PathBuf,
    /// The requested clock in Hz.
    pub requested: Knob,
    /// The true clock in Hz, where BPMP counts it.
    pub counter: Option<Knob>,
    /// The load in permille, if the driver shows it.
    pub load: Option<Knob>,
}

impl Gpu {
    /// The file of the true clock, or else of the requested one.
    pub fn clock(&self) -> &Knob {
        self.counter.as_ref().unwrap_or(&self.requested)
    }

    pub(crate) fn find<F: Files>(search: &mut Search<F>) -> Option<Self> {
        let Some(devfreq) = devfreq(search) else {
            search.miss("GPU clock", search.path(PLACES[0]), io::ErrorKind::NotFound);
            return None;
        };
        let limits = search.limits("GPU clock", &devfreq);
        let table = search.clocks("table of the GPU clock", &devfreq);
        let counters = COUNTERS.map(|path| search.path(path));
        let counter = counters.into_iter().find(|path| search.word(path).is_ok());
        Some(Self {
            limits: limits?,
            table: table?,
            requested: Knob(devfreq.join("cur_freq").into()),
            counter: counter.map(|path| Knob(path.into())),
            load: search.knob("GPU load", devfreq.join("device/load")),
            device: devfreq.join("device"),
        })
    }
}

fn devfreq<F: Files>(search: &Search<F>) -> Option<PathBuf> {
    PLACES.iter().find_map(|place| {
        let place = search.path(place);
        let mut entries = search.list(&place).into_iter();
        entries.find_map(|entry| {
            let path = place.join(&entry);
            is_gpu(search, &path, &entry).then_some(path)
        })
    })
}

fn is_gpu<F: Files>(search: &Search<F>, devfreq: &Path, entry: &str) -> bool {
    if entry.starts_with(THOR) {
        return entry == THOR_GPC;
    }
    let name = search.word(&devfreq.join("device/of_node/name"));
    // Entries look like `17000000.ga10b`.
    let after_address = entry.split_once('.').map_or("", |(_, name)| name);
    let known = |name: &str| GPU_NAMES.contains(&name);
    known(name.as_deref().unwrap_or_default()) || known(after_address)
}
