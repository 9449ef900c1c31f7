//! Power modes on a board: applying one, verifying it, and reading the current one.

use std::ops::RangeInclusive;

use thiserror::Error;
use wattgate_runtime::grid::Axis;
use wattgate_runtime::{Kilohertz, PowerMode};

use crate::board::Board;
use crate::cpu::{Cpus, has};
use crate::current::Current;
use crate::files::{Files, Knob, KnobError};
use crate::journal::expect;
use crate::obedience::Obedience;
use crate::seen::{Disobedience, Seen};
use crate::settable::{name, unit};
use crate::target::{Clocks, Effective, Target, observe};
use crate::transition::Transition;

/// The result of applying a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The number of writes; 0 if this board had set the mode already.
    pub writes: u32,
    /// Whether cooling caps a clock of the mode.
    pub effective: Effective,
    /// Whether no knob is higher than the mode wants it. Always true of a mode with the lowest clocks, where
    /// all that obeys is at its lowest.
    pub is_set: bool,
}

/// Why a mode cannot be applied.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ApplyError {
    /// The board's tables do not have the value. Nothing was written.
    #[error("the board cannot be set to {} {value}{}; nothing was written", name(*axis), unit(*axis))]
    NotOnBoard { axis: Axis, value: u32 },
}

/// The number of times that a mode is applied before what differs counts as disobedience.
const ATTEMPTS: u32 = 2;

impl Board {
    /// Sets a mode as far as the knobs obey: lowers clocks before it raises others, reads every write
    /// back, and repeats once what did not take. A knob that fails keeps no other from being lowered;
    /// nothing is raised before all that must be lowered is seen lowered. Knobs that are missing are left
    /// out. [`Self::disobedient`] tells what does not obey, and [`Self::settable`] follows. Does not
    /// allocate on a disk, unless something fails.
    ///
    /// A maximum that shows less than what was written is no failure where a cooling device explains it:
    /// the request holds when the cap ends.
    ///
    /// A change takes about 30 ms, because all knobs are read again after the clocks have settled.
    pub fn apply(
        &mut self,
        files: &mut impl Files,
        mode: &PowerMode,
    ) -> Result<Applied, ApplyError> {
        self.on_board(mode)?;
        let mut seen = std::mem::take(&mut self.seen);
        // What others have changed since the last time.
        self.observe(files, mode, &mut seen);
        seen.iter()
            .for_each(|it| self.obedience.flip(&self.knobs, it));
        self.flip_minima(files);
        let mut writes = 0;
        let mut made;
        let mut attempt = 1;
        loop {
            let target = Target::Mode(mode, self.clocks, &self.obedience);
            let (requests, cpusets) = (&mut self.requests, &mut self.cpusets);
            made = Transition::new(files, &self.knobs, requests, cpusets, target).set(attempt > 1);
            writes += made.writes;
            self.observe(files, mode, &mut seen);
            let target = Target::Mode(mode, self.clocks, &self.obedience);
            let is_done = seen.iter().all(|it| self.obedience.is_known(it))
                && self.verify_minima(files, target).is_ok();
            if is_done || attempt == ATTEMPTS {
                break;
            }
            // Another program may have written meanwhile.
            self.requests.forget();
            attempt += 1;
        }
        // An actuator that was not raised yet is no clamped one.
        let is_told =
            |it: &&Seen| made.has_raised || it.shown.is_none_or(|it_is| it_is >= it.wanted);
        for it in seen.iter().filter(is_told) {
            self.obedience.learn(&self.knobs, it, &made.failures.0);
        }
        if let Some(seen) = &made.too_fast {
            self.obedience.learn(&self.knobs, seen, &made.failures.0);
        }
        self.learn_minima(files, mode);
        let is_above = seen.iter().any(|it| self.knobs.is_above(it));
        let is_capped = seen.iter().any(|it| it.is_cooled);
        self.seen = seen;
        Ok(Applied {
            writes,
            effective: match is_capped {
                true => Effective::Capped,
                false => Effective::AsRequested,
            },
            is_set: made.has_raised && !is_above || self.is_lowest(mode),
        })
    }

    /// Whether all clocks of a mode are the lowest.
    fn is_lowest(&self, mode: &PowerMode) -> bool {
        let [_, clocks @ ..] = mode.knobs();
        let tables = [self.cpu_khz(), self.gpu_khz(), self.emc_khz()];
        let mut clocks = clocks.into_iter().zip(tables);
        clocks.all(|(khz, table)| table.first().is_none_or(|lowest| *lowest == khz))
    }

    /// What the board shows of each actuator, beside what a mode requests of it.
    fn observe(&self, files: &impl Files, mode: &PowerMode, seen: &mut Vec<Seen>) {
        seen.clear();
        let target = Target::Mode(mode, self.clocks, &self.obedience);
        let is_cooled =
            |actuator, value| self.cooling.explains(files, &self.knobs, actuator, value);
        observe(files, &self.knobs, target, is_cooled, |it| seen.push(it));
    }

    /// The mode of fewest cores and lowest clocks that the board can be set to; 0 for a clock that cannot
    /// be set.
    pub fn least(&self) -> PowerMode {
        let lowest = |table: &[u32]| table.first().copied().unwrap_or(0);
        PowerMode::from_knobs([
            *self.knobs.counts(&self.obedience).start(),
            lowest(self.cpu_khz()),
            lowest(self.gpu_khz()),
            lowest(self.emc_khz()),
        ])
    }

    /// The numbers of cores that the board can have online.
    pub fn core_counts(&self) -> RangeInclusive<u32> {
        self.knobs.counts(&self.obedience)
    }

    /// The knobs that do not obey.
    pub fn disobedient(&self) -> impl Iterator<Item = &Disobedience> + Clone {
        self.obedience.disobedient()
    }

    /// Counts the changes of what [`Self::settable`] follows from.
    pub fn obedience_changes(&self) -> u32 {
        self.obedience.changes()
    }

    /// Tests whether knobs obey again: those that were too high are asked for less than the mode that is set
    /// asks. It raises no power. Call it every twenty seconds.
    pub fn test_obedience(&mut self, files: &mut impl Files, mode: &PowerMode) {
        let online = self.knobs.cpus.online(files);
        let (knobs, cooling) = (&self.knobs, &self.cooling);
        let shown = |actuator| knobs.shown(files, actuator, online);
        let is_cooled = |actuator, value| cooling.explains(files, knobs, actuator, value);
        if !self.obedience.begin_test(knobs, shown, is_cooled) {
            return;
        }
        let target = Target::Mode(mode, self.clocks, &self.obedience);
        let (requests, cpusets) = (&mut self.requests, &mut self.cpusets);
        Transition::new(files, &self.knobs, requests, cpusets, target).set(true);
        let mut seen = std::mem::take(&mut self.seen);
        self.observe(files, mode, &mut seen);
        let failed = seen.iter().filter(|it| self.obedience.end_trial(it));
        let has_failed = failed.count() > 0;
        self.seen = seen;
        if has_failed {
            // A minimum was lowered all the same.
            let target = Target::Mode(mode, self.clocks, &self.obedience);
            let (requests, cpusets) = (&mut self.requests, &mut self.cpusets);
            Transition::new(files, &self.knobs, requests, cpusets, target).set(true);
            self.learn_minima(files, mode);
        }
    }

    /// Whether a knob is tested, so that a clock may be lower than that of the mode.
    pub fn is_testing_obedience(&self) -> bool {
        self.obedience.is_testing()
    }

    /// How a mode sets the clocks.
    pub fn clocks(&self) -> Clocks {
        self.clocks
    }

    /// Sets how a mode sets the clocks from now on; [`Clocks::Pin`] at first.
    pub fn set_clocks(&mut self, clocks: Clocks) {
        self.clocks = clocks;
    }

    /// Forgets what was requested of the clocks. Call it when another program may have changed them:
    /// the next change of the mode then writes all of them.
    pub fn forget_requests(&mut self) {
        self.requests.forget();
        self.obedience.forget_settled();
    }

    /// Whether another program has raised a mode: the maximum of a CPU cluster or of the GPU, or the
    /// number of cores. Reads those maxima and the switch of one core; [`Self::verify`] reads all.
    pub fn is_raised(&self, files: &impl Files, mode: &PowerMode) -> bool {
        let target = Target::Mode(mode, self.clocks, &self.obedience);
        let cores = target.cores(&self.knobs, 0);
        let is_above = |actuator, wanted, knob: &Knob| {
            knob.read(files).is_ok_and(|shown| {
                shown > wanted && !self.obedience.is_known(&Seen::new(actuator, wanted, shown))
            })
        };
        let gpu = self.knobs.gpu_actuator();
        let mut limits = self
            .knobs
            .limits(cores)
            .filter(|(actuator, _)| *actuator <= gpu);
        // A program that raises the number of cores switches on the first one that is off.
        let mut switches = (0..).zip(&self.knobs.cpus.cores);
        let off = switches.find_map(|(place, core)| match has(cores, place) {
            true => None,
            false => Some((place, core.online.as_ref()?)),
        });
        limits.any(|(actuator, limits)| {
            let wanted = target.request(&self.knobs, actuator);
            wanted.is_some_and(|[_, wanted]| is_above(actuator, wanted, &limits.max))
        }) || off.is_some_and(|(place, switch)| is_above(self.knobs.core(place), 0, switch))
    }

    /// Verifies that a mode is set, as far as the knobs are known to obey; the first difference is an
    /// error. A clock that shows less than requested is [`Effective::Capped`]: cooling, or another program,
    /// lowered it. Writes nothing.
    pub fn verify(&self, files: &impl Files, mode: &PowerMode) -> Result<Effective, KnobError> {
        let target = Target::Mode(mode, self.clocks, &self.obedience);
        self.compare(files, target, |seen| self.obedience.is_known(seen))
    }

    /// Verifies like [`Self::verify`] that a mode is set, but a knob that is known not to obey is a difference
    /// too.
    pub fn verify_all(&self, files: &impl Files, mode: &PowerMode) -> Result<Effective, KnobError> {
        let obedient = Obedience::new(&self.knobs);
        let target = Target::Mode(mode, self.clocks, &obedient);
        self.compare(files, target, |seen| seen.shown == Some(seen.wanted))
    }

    /// Whether nothing is known that keeps a clock above a mode.
    pub fn reaches(&self, mode: &PowerMode) -> bool {
        let knobs = &self.knobs;
        let is_below = |actuator: usize, khz: u32| {
            let (_, kilo) = knobs.table(actuator);
            let floor = self.obedience.floor(actuator);
            floor.is_none_or(|floor| floor <= i64::from(khz) * i64::from(kilo))
        };
        knobs.cpu_floor(mode.cores, &self.obedience) <= mode.cpu.0
            && is_below(knobs.gpu_actuator(), mode.gpu.0)
            && is_below(knobs.memory_actuator(), mode.emc.0)
    }

    fn compare(
        &self,
        files: &impl Files,
        target: Target<'_>,
        is_as_requested: impl Fn(&Seen) -> bool,
    ) -> Result<Effective, KnobError> {
        let mut effective = Effective::AsRequested;
        let mut difference = None;
        observe(
            files,
            &self.knobs,
            target,
            |_, _| false,
            |seen| {
                // Nothing cools the memory.
                let is_coolable = seen.actuator <= self.knobs.gpu_actuator();
                match seen.shown {
                    _ if is_as_requested(&seen) => {}
                    Some(shown) if is_coolable && shown < seen.wanted => {
                        effective = Effective::Capped;
                    }
                    _ if difference.is_none() => difference = Some(seen),
                    _ => {}
                }
            },
        );
        if let Some(error) = difference.and_then(|seen| self.difference(files, &seen)) {
            return Err(error);
        }
        self.verify_minima(files, target)?;
        Ok(effective)
    }

    /// What is wrong with an actuator, in the terms of its file.
    fn difference(&self, files: &impl Files, seen: &Seen) -> Option<KnobError> {
        let online = self.knobs.cpus.online(files);
        let shown = self.knobs.shown(files, seen.actuator, online)?;
        let differs = |found| {
            let Disobedience {
                path, wanted, is, ..
            } = self.knobs.disobedience(seen)?;
            Some(KnobError::Differs {
                path,
                wanted,
                found: is.unwrap_or(found),
            })
        };
        shown.map_or_else(Some, differs)
    }

    /// Verifies the minima of clocks, but for those that are known not to obey.
    fn verify_minima(&self, files: &impl Files, target: Target<'_>) -> Result<(), KnobError> {
        let online = self.knobs.cpus.online(files);
        for (actuator, limits) in self.knobs.limits(online) {
            let wanted = target.request(&self.knobs, actuator);
            let is_other = self.obedience.has_other_minimum(actuator);
            if let Some([min, _]) = wanted.filter(|_| !is_other) {
                let max = limits.max.read(files).unwrap_or(min);
                expect(files, &limits.min, min.min(max))?;
            }
        }
        Ok(())
    }

    /// Counts minima that others have changed since the last request.
    fn flip_minima(&mut self, files: &impl Files) {
        let online = self.knobs.cpus.online(files);
        for (actuator, limits) in self.knobs.limits(online) {
            if let Some([min, _]) = self.requests.get(actuator)
                && let Ok(max) = limits.max.read(files)
                && limits.min.read(files) != Ok(min.min(max))
            {
                self.obedience.flip_minimum(actuator);
            }
        }
    }

    fn learn_minima(&mut self, files: &impl Files, mode: &PowerMode) {
        let online = self.knobs.cpus.online(files);
        for (actuator, limits) in self.knobs.limits(online) {
            let target = Target::Mode(mode, self.clocks, &self.obedience);
            let wanted = target.request(&self.knobs, actuator);
            let max = limits.max.read(files);
            let differs = wanted
                .zip(max.ok())
                .is_none_or(|([min, _], max)| limits.min.read(files) != Ok(min.min(max)));
            self.obedience.learn_minimum(actuator, differs);
        }
    }

    /// Reads the current settings of the board. A clock that cannot be read counts as the highest of its
    /// table.
    pub fn current(&self, files: &impl Files) -> Current {
        let online = self.knobs.cpus.online(files);
        let mut is_fixed = online == Cpus::first(online.count_ones());
        for (_, limits) in self.knobs.limits(online) {
            let [min, max] = [&limits.min, &limits.max].map(|limit| limit.read(files));
            is_fixed &= min.is_ok() && min == max;
        }
        if let Some(memory) = &self.knobs.memory {
            is_fixed &= memory.is_held(files) == Ok(true);
        }
        let clock = |actuator: usize| {
            let (table, kilo) = self.knobs.table(actuator);
            let shown = self.knobs.shown(files, actuator, online)?;
            let kilo = i64::from(kilo);
            let up = shown.map(|value| value.saturating_add(kilo - 1) / kilo);
            let highest = table.last().copied().unwrap_or(u32::MAX);
            let khz = up.map_or(highest, |khz| u32::try_from(khz.max(0)).unwrap_or(u32::MAX));
            Some(Kilohertz(khz))
        };
        let cpus = (0..self.knobs.gpu_actuator()).filter_map(clock);
        let cpu = cpus.clone().max();
        Current {
            cores: online.count_ones(),
            is_fixed: is_fixed && cpus.min() == cpu,
            cpu,
            gpu: clock(self.knobs.gpu_actuator()),
            emc: clock(self.knobs.memory_actuator()),
        }
    }

    fn on_board(&self, mode: &PowerMode) -> Result<(), ApplyError> {
        let has = |table: &[u32], value| table.is_empty() || table.binary_search(&value).is_ok();
        let [cores, cpu, gpu, emc] = mode.knobs();
        // Whatever the switches did last.
        let counts = self.knobs.counts(&Obedience::default());
        let known = [
            self.knobs.cpus.cores.is_empty() || counts.contains(&cores),
            has(self.cpu_khz(), cpu),
            has(self.gpu_khz(), gpu),
            has(self.emc_khz(), emc),
        ];
        let mut values = Axis::ALL.into_iter().zip(mode.knobs()).zip(known);
        match values.find(|(_, known)| !known) {
            Some(((axis, value), _)) => Err(ApplyError::NotOnBoard { axis, value }),
            None => Ok(()),
        }
    }
}
