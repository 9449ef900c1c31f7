//! The memory clock: BPMP's lock and rate in debugfs and nvpmodel's cap, or the limits of `bwmgr` in
//! devfreq where BPMP shows no memory clock (`jetson-platform.md`, section 5.3 and addendum).

use std::io;

use crate::clock::{HZ, Limits};
use crate::files::{Files, Knob, KnobError, Refusal};
use crate::search::Search;

const CLOCK: &str = "/sys/kernel/debug/bpmp/debug/clk/emc";
const TABLES: &str = "/sys/kernel/debug/bpmp/debug/emc";

/// nvpmodel's cap up to R35 and from R36 on.
const ISO_CAP: &str = "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap";
const CLK_CAP: &str = "/sys/kernel/nvpmodel_clk_cap/emc";

/// The memory clock of JetPack 7 in devfreq.
const BWMGR: &str = "/sys/class/devfreq/bwmgr";

#[derive(Clone, Debug)]
pub(crate) struct Memory {
    pub control: Control,
    /// The present rate in Hz.
    pub rate: Knob,
    /// Rates in kHz, ascending.
    pub table: Vec<u32>,
}

/// The files that set the memory clock.
#[derive(Clone, Debug)]
pub(crate) enum Control {
    Bpmp(Bpmp),
    /// Minimum and maximum in Hz. Equal limits hold the rate.
    Devfreq(Limits),
}

/// BPMP's files of the memory clock.
#[derive(Clone, Debug)]
pub(crate) struct Bpmp {
    /// Rate in Hz.
    pub rate: Knob,
    /// The lock: 1 holds the rate.
    pub lock: Knob,
    /// nvpmodel's ceiling.
    pub cap: Option<Cap>,
}

/// nvpmodel's cap in Hz; 0, −1 or `INT_MAX` means no cap.
#[derive(Clone, Debug)]
pub(crate) struct Cap {
    pub knob: Knob,
    /// Whether the file is limited to 32 bits. They cannot hold the highest rates in Hz, which
    /// therefore need "no cap".
    none_only: bool,
}

impl Cap {
    /// The ceiling in Hz that a value of the cap means.
    pub fn ceiling(value: i64) -> i64 {
        match value <= 0 || value == i64::from(i32::MAX) {
            true => i64::MAX,
            false => value,
        }
    }

    /// The value of the cap that allows a rate.
    pub fn allowing(&self, hz: i64) -> i64 {
        if self.none_only { 0 } else { hz }
    }
}

impl Memory {
    pub(crate) fn find<F: Files>(search: &mut Search<F>) -> Option<Self> {
        let rate = search.path(CLOCK).join("rate");
        let is_missing = |why: Refusal| why.kind() == io::ErrorKind::NotFound;
        let has_bpmp = !search.text(&rate).is_err_and(is_missing);
        match !has_bpmp && !search.list(&search.path(BWMGR)).is_empty() {
            true => Self::devfreq(search),
            false => Self::bpmp(search),
        }
    }

    fn bpmp<F: Files>(search: &mut Search<F>) -> Option<Self> {
        let clock = search.path(CLOCK);
        let rate = search.knob("memory clock", clock.join("rate"));
        let lock = search.knob("lock of the memory clock", clock.join("mrq_rate_locked"));
        let cap = cap(search);
        let table = table(search);
        let rate = rate?;
        Some(Self {
            rate: rate.clone(),
            control: Control::Bpmp(Bpmp {
                rate,
                lock: lock?,
                cap,
            }),
            table: table?,
        })
    }

    fn devfreq<F: Files>(search: &mut Search<F>) -> Option<Self> {
        let bwmgr = search.path(BWMGR);
        let limits = search.limits("memory clock", &bwmgr);
        let table = search.clocks("table of the memory clock", &bwmgr);
        Some(Self {
            rate: Knob(bwmgr.join("cur_freq").into()),
            control: Control::Devfreq(limits?),
            table: table?,
        })
    }

    /// The highest rate in Hz under the current cap.
    pub fn ceiling(&self, files: &impl Files) -> Result<i64, KnobError> {
        let cap = match &self.control {
            Control::Bpmp(Bpmp { cap: Some(cap), .. }) => Cap::ceiling(cap.knob.read(files)?),
            Control::Bpmp(Bpmp { cap: None, .. }) => i64::MAX,
            Control::Devfreq(limits) => limits.max.read(files)?,
        };
        let top = self.table.last().copied().unwrap_or(u32::MAX);
        Ok(cap.min(i64::from(HZ) * i64::from(top)))
    }

    /// The highest rate in Hz up to `hz` that the cap allows.
    pub fn below(&self, files: &impl Files, hz: i64) -> i64 {
        let most = self.ceiling(files).map_or(hz, |ceiling| ceiling.min(hz));
        let rates = self.table.iter().map(|&khz| i64::from(HZ) * i64::from(khz));
        rates.rev().find(|rate| *rate <= most).unwrap_or(most)
    }

    /// Whether the rate is held.
    pub fn is_held(&self, files: &impl Files) -> Result<bool, KnobError> {
        match &self.control {
            Control::Bpmp(bpmp) => Ok(bpmp.lock.read(files)? != 0),
            Control::Devfreq(limits) => Ok(limits.min.read(files)? == limits.max.read(files)?),
        }
    }

    /// The rate in Hz that is held; if none is, the highest that the memory may have.
    pub fn held_or_ceiling(&self, files: &impl Files) -> Result<i64, KnobError> {
        match &self.control {
            Control::Bpmp(bpmp) if self.is_held(files)? => bpmp.rate.read(files),
            _ => self.ceiling(files),
        }
    }

    /// All files that a change of the mode may write.
    pub fn knobs(&self) -> impl Iterator<Item = &Knob> {
        let knobs = match &self.control {
            Control::Bpmp(Bpmp { rate, lock, cap }) => {
                [cap.as_ref().map(|cap| &cap.knob), Some(lock), Some(rate)]
            }
            Control::Devfreq(Limits { min, max }) => [Some(min), Some(max), None],
        };
        knobs.into_iter().flatten()
    }
}

fn cap<F: Files>(search: &mut Search<F>) -> Option<Cap> {
    for (path, none_only) in [(CLK_CAP, false), (ISO_CAP, true)] {
        let path = search.path(path);
        let knob = Knob(path.into());
        if knob.read(search.files).is_ok() {
            return Some(Cap { knob, none_only });
        }
    }
    let path = search.path(CLK_CAP);
    search.miss("cap of the memory clock", path, io::ErrorKind::NotFound);
    None
}

/// The rates that BPMP offers, up to its maximum rate.
fn table<F: Files>(search: &mut Search<F>) -> Option<Vec<u32>> {
    let tables = search.path(TABLES);
    let possible = tables.join("possible_rates");
    let clock = search.path(CLOCK);
    let mut table = match search.table(&possible, 1) {
        Ok(table) => table,
        Err(why) => {
            let mut table = search.numbers(&tables.join("tables/regular"), "");
            table.retain(|&khz| khz > 0);
            if table.is_empty() {
                search.miss("table of the memory clock", possible, why.kind());
                return None;
            }
            table
        }
    };
    if let Ok(max) = search.table(&clock.join("max_rate"), HZ) {
        table.retain(|khz| max.last().is_none_or(|max| khz <= max));
    }
    Some(table)
}
