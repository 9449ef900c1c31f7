//! Saves the settings of a board and restores them.

use std::path::Path;
use std::sync::Arc;

use thiserror::Error;

use crate::board::Board;
use crate::clock::HZ;
use crate::cpu::CoreSet;
use crate::files::{Files, Knob, KnobError};
use crate::presets::nearest;
use crate::saved::Saved;
use crate::target::Target;
use crate::transition::Transition;

/// Why a saved state is not restored.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RestoreError {
    /// A saved path is not a knob of this board. Nothing was written.
    #[error("{} is not a knob of this board; nothing was written", path.display())]
    UnknownKnob { path: Arc<Path> },
    /// Some knobs failed twice; all others are restored.
    #[error("{count} failures, the first one: {first}")]
    Incomplete { count: u32, first: KnobError },
}

impl Board {
    /// Reads all knobs that a change of the mode may write, and the averaging and the limits of the
    /// power sensors as far as they can be set. Instead of a maximum that cooling caps now, the ceiling of nvpmodel's mode
    /// is saved. The clocks of clusters without an online core cannot be read and are left out.
    pub fn save(&self, files: &impl Files) -> Result<Saved, KnobError> {
        let online = self.knobs.cpus.online(files);
        let mut saved = Vec::new();
        let uncapped = self.uncapped(files);
        for knob in self.knobs.readable(online) {
            // What cannot be read cannot be restored either.
            let Ok(shown) = knob.read(files) else {
                continue;
            };
            let value = match uncapped.iter().find(|(limit, ..)| limit.0 == knob.0) {
                Some((_, cap, request)) if shown >= *cap => *request,
                _ => shown,
            };
            saved.push((knob.0.clone(), value));
        }
        for averaging in self.chips.save(files) {
            saved.push(averaging?);
        }
        saved.extend(self.backstop.save(files));
        Ok(Saved(saved))
    }

    /// Adds to a saved state the present settings of sensors and clocks that the board did not have then. CPU clocks are
    /// not added: a state lacks those of clusters that were offline. Returns whether anything was added.
    pub fn complete(&self, files: &impl Files, saved: &mut Saved) -> bool {
        let Ok(present) = self.save(files) else {
            return false;
        };
        let before = saved.0.len();
        let is_cpu = |name: &Path| {
            let mut policies = self.knobs.cpus.policies.iter();
            policies.any(|it| {
                [&it.limits.min, &it.limits.max]
                    .iter()
                    .any(|knob| *knob.0 == *name)
            })
        };
        for (name, value) in present.0 {
            if saved.named(&name).is_none() && !is_cpu(&name) {
                saved.0.push((name, value));
            }
        }
        saved.0.len() > before
    }

    /// The maxima that cooling caps now. Each comes with its cap and with the maximum that was
    /// probably requested, in the unit of measure of its file. A capped file hides the request, so it is assumed
    /// to be the ceiling of nvpmodel's mode, or the highest clock.
    fn uncapped(&self, files: &impl Files) -> Vec<(&Knob, i64, i64)> {
        let mode = self.nvpmodel.mode(files);
        let preset = self.presets().iter().find(|it| Some(it.id) == mode);
        let [cpu, gpu, _] = preset.map_or([None; 3], |it| it.ceilings);
        let mut uncapped = Vec::new();
        let table = self.cpu_khz();
        if let Some(cap) = self.cooling.cpu_cap(files, table) {
            let request = nearest(table, cpu).unwrap_or(cap);
            let limits = self.knobs.cpus.policies.iter().map(|policy| &policy.limits);
            uncapped.extend(limits.map(|it| (&it.max, cap.into(), request.into())));
        }
        let table = self.gpu_khz();
        if let Some((cap, it)) = self
            .cooling
            .gpu_cap(files, table)
            .zip(self.knobs.gpu.as_ref())
        {
            let request = nearest(table, gpu).unwrap_or(cap);
            let [cap, request] = [cap, request].map(|khz| i64::from(HZ) * i64::from(khz));
            uncapped.push((&it.limits.max, cap, request));
        }
        uncapped
    }

    /// The files that a change of the mode may write.
    pub fn knob_paths(&self) -> impl Iterator<Item = &Path> {
        self.knobs.readable(CoreSet::MAX).map(|knob| &*knob.0)
    }

    /// Writes saved values back in the order of a change of the mode, the power sensors last. A knob
    /// that fails does not keep the others from it. The clocks of clusters that had no online core
    /// when the state was saved are opened to both ends of the table.
    pub fn restore(&mut self, files: &mut impl Files, saved: &Saved) -> Result<(), RestoreError> {
        let Self {
            knobs,
            chips,
            backstop,
            requests,
            cpusets,
            ..
        } = self;
        let known = |path: &Arc<Path>| {
            let mut knobs = knobs.readable(CoreSet::MAX);
            let mut others = chips.names().chain(backstop.names());
            knobs.any(|knob| knob.0 == *path) || others.any(|name| name == path)
        };
        if let Some((path, _)) = saved.0.iter().find(|(path, _)| !known(path)) {
            return Err(RestoreError::UnknownKnob { path: path.clone() });
        }
        let target = Target::Saved(saved);
        let mut failures = Transition::new(files, knobs, requests, cpusets, target).restore();
        failures.join(chips.restore(files, saved));
        failures.join(backstop.restore(files, saved));
        let count = failures.count() as u32;
        match failures.0.into_iter().next() {
            None => Ok(()),
            Some(first) => Err(RestoreError::Incomplete { count, first }),
        }
    }
}
