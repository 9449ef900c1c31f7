//! The Pareto front: the modes that no other mode beats in both power and time.
//!
//! Every objective that wants less power and less time has its best mode on the front,
//! so a query looks at tens of points instead of thousands of modes. A front is built
//! while the sweep runs and holds no mode that it does not need.
//!
//! A front that outgrows its capacity is thinned: it drops the point whose absence slows
//! a query down least, and never the one of least power. A thinned front offers less; it
//! never offers a mode over a limit.
//!
//! ```
//! use wattgate_runtime::{Front, Model};
//!
//! # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../weights/tx1-image5000.wgt");
//! # let file = std::fs::read(file).unwrap();
//! let model = Model::parse(&file).unwrap();
//! let all = Front::<256>::of(&model, &model.profiled());
//! let some = Front::<16>::of(&model, &model.profiled());
//! assert!(!all.is_thinned() && some.is_thinned());
//! assert_eq!(all.points()[0], some.points()[0]);
//! assert!(all.points().is_sorted_by(|a, b| a.power < b.power && a.time > b.time));
//! ```

use heapless::Vec;

use crate::format::Model;
use crate::grid::ModeId;
use crate::guard::GuardBand;
use crate::network::Prediction;
use crate::region::Region;
use crate::units::{Microseconds, Milliwatts};

/// One mode of a front.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// The mode.
    pub mode: ModeId,
    /// Its predicted power; 0 in a front without power.
    pub power: Milliwatts,
    /// Its predicted time.
    pub time: Microseconds,
}

/// The Pareto front of a region in (power, time), of at most `N` points.
#[derive(Clone, Debug)]
pub struct Front<const N: usize> {
    points: Vec<Point, N>,
    time_guard: GuardBand,
    power_guard: Option<GuardBand>,
    thinned: bool,
}

impl<const N: usize> Front<N> {
    /// Sweeps a region of the model's grid. Without power the front is the fastest mode.
    pub fn of(model: &Model<'_>, region: &Region) -> Self {
        let mut front = Staircase::<N>::new();
        model.sweep(region, |mode, prediction| front.offer(mode, prediction));
        front.finish(model)
    }

    /// By strictly ascending power and strictly descending time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Whether points were dropped for want of capacity.
    pub fn is_thinned(&self) -> bool {
        self.thinned
    }

    /// The guard band of the time.
    pub fn time_guard(&self) -> &GuardBand {
        &self.time_guard
    }

    /// The guard band of the power; `None` for a model without power.
    pub fn power_guard(&self) -> Option<&GuardBand> {
        self.power_guard.as_ref()
    }
}

/// A front under construction, fed by a sweep.
#[derive(Clone, Debug)]
pub struct Staircase<const N: usize> {
    /// By strictly ascending power and strictly descending time.
    steps: Vec<Step, N>,
    thinned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    mode: ModeId,
    at: Prediction,
}

impl<const N: usize> Staircase<N> {
    const CAPACITY_IS_NOT_ZERO: () = assert!(N > 0, "a front needs room for a mode");

    /// Without any mode.
    pub const fn new() -> Self {
        let () = Self::CAPACITY_IS_NOT_ZERO;
        Self {
            steps: Vec::new(),
            thinned: false,
        }
    }

    /// Takes a mode in where no other beats it. Of modes with equal predictions the one
    /// that was offered first stays.
    pub fn offer(&mut self, mode: ModeId, at: Prediction) {
        let after = self
            .steps
            .partition_point(|s| s.at.log_power <= at.log_power);
        let (cheaper, dearer) = self.steps.split_at_checked(after).unwrap_or_default();
        if cheaper.last().is_some_and(|s| s.at.log_time <= at.log_time) {
            return;
        }
        let beats_cheaper = cheaper
            .last()
            .is_some_and(|s| s.at.log_power == at.log_power);
        let beats_dearer = dearer.first().is_some_and(|s| s.at.log_time >= at.log_time);
        if beats_cheaper || beats_dearer {
            self.steps
                .retain(|s| s.at.log_power < at.log_power || s.at.log_time < at.log_time);
        } else if self.steps.is_full() {
            self.thinned = true;
            if !self.make_room(after, at) {
                return;
            }
        }
        self.insert(Step { mode, at });
    }

    /// Drops the step whose absence slows a query down least, the new one among them.
    /// Returns whether the new one stays.
    fn make_room(&mut self, new_index: usize, new: Prediction) -> bool {
        let (cheaper, dearer) = self.steps.split_at_checked(new_index).unwrap_or_default();
        let old = |step: &Step| (Some(step.mode), step.at.log_time);
        let all = cheaper.iter().map(old);
        let all = all
            .chain([(None, new.log_time)])
            .chain(dearer.iter().map(old));
        let mut least = (i64::MAX, None);
        let mut slower = None;
        for (mode, time) in all {
            if let Some(slower) = slower {
                let slowdown = i64::from(slower) - i64::from(time);
                if slowdown < least.0 {
                    least = (slowdown, mode);
                }
            }
            slower = Some(time);
        }
        let (_, Some(dropped)) = least else {
            return false;
        };
        self.steps.retain(|step| step.mode != dropped);
        true
    }

    fn insert(&mut self, mut step: Step) {
        let at = self
            .steps
            .partition_point(|s| s.at.log_power < step.at.log_power);
        for later in self.steps.iter_mut().skip(at) {
            core::mem::swap(later, &mut step);
        }
        // Never full here: `offer` made room.
        let _ = self.steps.push(step);
    }

    /// Converts the steps into units. Steps that become equal in a unit are merged, so
    /// that the points are strictly monotone too.
    pub fn finish(self, model: &Model<'_>) -> Front<N> {
        let mut points = Vec::<Point, N>::new();
        for step in &self.steps {
            let point = Point {
                mode: step.mode,
                power: model.power(step.at).unwrap_or(Milliwatts(0)),
                time: model.time(step.at),
            };
            match points.last_mut() {
                Some(last) if point.time >= last.time => {}
                Some(last) if point.power == last.power => *last = point,
                _ => {
                    // As many points as steps at most.
                    let _ = points.push(point);
                }
            }
        }
        Front {
            points,
            time_guard: model.time_guard().clone(),
            power_guard: model.power_guard().cloned(),
            thinned: self.thinned,
        }
    }
}

impl<const N: usize> Default for Staircase<N> {
    fn default() -> Self {
        Self::new()
    }
}
