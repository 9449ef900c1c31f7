//! The Pareto front: the modes that no other mode beats in both power and time.
//!
//! Every objective that minimises power and time has its best mode on the front, so a query
//! examines tens of points instead of thousands of modes. A front is built during the sweep and
//! holds only the modes that it needs.
//!
//! Time and power count with their margins, which may differ from mode to mode. So a front belongs to
//! one confidence: at another one, other modes may be on it.
//!
//! A front that exceeds its capacity is thinned: it drops the point whose absence slows a query
//! down least, but never the point of least power. A thinned front offers fewer modes; it never
//! offers a mode over a limit.
//!
//! ```
//! use wattgate_runtime::{Confidence, Front, Model};
//!
//! # let file = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/doc/tx1-image5000.wgt"));
//! let model = Model::parse(file).unwrap();
//! let all = Front::<256>::from_model(&model, &model.profiled(), Confidence::P95);
//! let some = Front::<16>::from_model(&model, &model.profiled(), Confidence::P95);
//! assert!(!all.is_thinned() && some.is_thinned());
//! assert_eq!(all.points()[0].guarded, some.points()[0].guarded);
//! assert!(all.points().is_sorted_by(|a, b| a.guarded < b.guarded && a.guarded_time > b.guarded_time));
//! ```

use core::cell::Cell;

use heapless::{Vec, VecView};

use crate::fleet::Unit;
use crate::grid::ModeId;
use crate::guard::{GuardError, Margins, Widening};
use crate::lanes::{BATCH, LANES};
use crate::model::Model;
use crate::network::{Batch, Network, with_network};
pub use crate::point::Point;
use crate::point::{Objective, SkipPointers};
use crate::prediction::Prediction;
use crate::quantities::{Confidence, Microseconds, Milliwatts};
use crate::region::Region;
use crate::skip_pointers;

/// The Pareto front of a region in (power with its margin, time), of at most `N` points.
#[derive(Clone, Debug)]
pub struct Front<const N: usize> {
    points: Vec<Point, N>,
    /// The predicted time of each point.
    times: Vec<Microseconds, N>,
    // All zero in an empty front, so that a static one takes no flash.
    /// The highest confidence that the model supports, in units of 1/10,000, if the front was to be
    /// built for a higher one; else 0.
    highest: u16,
    has_power: bool,
    thinned: bool,
    /// Whether the region belonged to another grid, so that the front is empty.
    foreign: bool,
    is_least_unreachable: bool,
    is_least_guessed: bool,
    is_unknown: bool,
    /// What all guarded powers have in common as the margin of a unit: ratio − 1 in units of 1/65,536.
    unit_margin: u32,
}

/// What is known of [`ModeId::LEAST`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Least {
    /// It is this mode of the grid.
    Mode(ModeId),
    /// The grid has no such mode.
    Other,
    /// A knob does not obey, so that the board cannot be in it. What it draws tells nothing of the load.
    Unreachable,
}

/// Why a front is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The region belongs to another grid.
    OtherGrid,
    /// The guard bands do not reach the confidence.
    Guard(GuardError),
}

impl<const N: usize> Front<N> {
    const CAPACITY_IS_NOT_ZERO: () = assert!(N > 0, "a front needs room for a mode");

    /// Creates an empty front.
    pub const fn new() -> Self {
        let () = Self::CAPACITY_IS_NOT_ZERO;
        Self {
            points: Vec::new(),
            times: Vec::new(),
            highest: 0,
            has_power: false,
            thinned: false,
            foreign: false,
            is_least_unreachable: false,
            is_least_guessed: false,
            is_unknown: false,
            unit_margin: 0,
        }
    }

    /// Builds a front without a model: of modes each of which draws more than the one before, and is faster. The
    /// governor takes powers and times for ratios between modes and learns by measurement what they are. Guarded
    /// powers are above any limit, so a query for a power finds none. Modes that do not ascend or have no power are
    /// left out, and those beyond `N`.
    pub fn of_unknown(modes: impl IntoIterator<Item = (ModeId, Milliwatts, Microseconds)>) -> Self {
        let mut front = Self::new();
        (front.has_power, front.is_unknown) = (true, true);
        // Ascending, and above any limit.
        let mut guarded = u32::MAX - front.points.capacity() as u32;
        for (mode, power, time) in modes {
            let ascends = |last: &Point| power > last.power && time < last.guarded_time;
            if power.0 > 0 && front.points.last().is_none_or(ascends) {
                guarded = guarded.saturating_add(1);
                let point = Point {
                    mode,
                    power,
                    guarded: Milliwatts(guarded),
                    guarded_time: time,
                    skips: SkipPointers::default(),
                };
                if front.points.push(point).is_err() || front.times.push(time).is_err() {
                    break;
                }
            }
        }
        front
    }

    /// Builds the front of a region of the model's grid for a confidence. For a model without power
    /// it is the fastest mode. For a region of another grid, or if the guard bands do not reach the
    /// confidence, it is empty, and [`Front::select`] reports why.
    pub fn from_model(model: &Model<'_>, region: &Region, confidence: Confidence) -> Self {
        let mut front = Self::new();
        with_network(model, |mut network| {
            front.rebuild(&mut network, region, confidence);
        });
        front
    }

    /// Replaces this front by that of a region, in place.
    // Never inlined, so that its stack frame is not live while a caller parses a model.
    #[inline(never)]
    pub fn rebuild(&mut self, network: &mut Network<'_>, region: &Region, confidence: Confidence) {
        let model = network.model();
        self.replace(model, confidence, |front| {
            front.offer_region(network, region);
        });
        self.foreign = !model.has_region(region);
    }

    /// Builds the front of any modes with their predictions by the model. Of modes that count alike
    /// it keeps the one with the smallest id.
    pub fn of_modes(
        model: &Model<'_>,
        modes: impl IntoIterator<Item = (ModeId, Prediction)>,
        confidence: Confidence,
    ) -> Self {
        let mut front = Self::new();
        front.replace(model, confidence, |front| {
            modes
                .into_iter()
                .for_each(|(mode, at)| front.offer(mode, at));
        });
        front
    }

    fn replace(
        &mut self,
        model: &Model<'_>,
        confidence: Confidence,
        offer: impl FnOnce(&mut FrontBuilder<'_>),
    ) {
        self.points.clear();
        self.times.clear();
        (self.thinned, self.foreign) = (false, false);
        (
            self.is_least_unreachable,
            self.is_least_guessed,
            self.is_unknown,
        ) = (false, false, false);
        self.unit_margin = 0;
        self.has_power = model.has_power();
        match model.margins(confidence) {
            Ok(margins) => {
                let mut builder = FrontBuilder::new(self.points.as_mut_view(), &margins);
                builder.bounds.fill(i32::MAX);
                offer(&mut builder);
                self.thinned = builder.finish(model, &margins, self.times.as_mut_view());
                self.highest = 0;
            }
            Err(GuardError::ConfidenceTooHigh { highest }) => {
                self.highest = highest.per_ten_thousand();
            }
            // A verified model has knots.
            Err(GuardError::BadKnots) => self.highest = u16::MAX,
        }
    }

    /// Makes [`ModeId::LEAST`] the first point. If it is the first point's mode, it replaces that one. Otherwise
    /// its power and time are guesses, such as the prediction of the nearest mode, that count as at most the
    /// power and at least the time of the first point.
    pub fn put_least(&mut self, least: Least, power: Milliwatts, time: Microseconds) {
        // Ratios to a power of 0 mean nothing.
        let power = power.max(Milliwatts(1));
        let mut point = Point {
            mode: ModeId::LEAST,
            power,
            guarded: power,
            guarded_time: time,
            skips: SkipPointers::default(),
        };
        let mut predicted = time;
        self.is_least_unreachable = least == Least::Unreachable;
        let is_first = |first: &Point| least == Least::Mode(first.mode);
        self.is_least_guessed = !self.points.first().is_some_and(is_first);
        match self.points.first_mut() {
            Some(first) if is_first(first) => {
                first.mode = ModeId::LEAST;
                return;
            }
            Some(first) => {
                let below = Milliwatts(first.guarded.0.saturating_sub(1));
                point.power = power.min(first.power);
                // With the margin of the first point, as a part of the power.
                let guarded = u64::from(point.power.0) * u64::from(first.guarded.0);
                let guarded = guarded.checked_div(u64::from(first.power.0)).unwrap_or(0);
                point.guarded = Milliwatts(u32::try_from(guarded).unwrap_or(u32::MAX)).min(below);
                let above = |time: Microseconds| Microseconds(time.0.saturating_add(1));
                let slowest = self.times.first().copied().unwrap_or_default();
                predicted = time.max(above(slowest));
                point.guarded_time = predicted.max(above(first.guarded_time));
                if self.points.is_full()
                    && let (Some(first), Some(slowest)) =
                        (self.points.first_mut(), self.times.first_mut())
                {
                    (*first, *slowest) = (point, predicted);
                    skip_pointers::set(&mut self.points);
                    return;
                }
            }
            None => self.has_power = true,
        }
        // There is room.
        let _ = self.points.insert(0, point);
        let _ = self.times.insert(0, predicted);
        skip_pointers::set(&mut self.points);
    }

    /// Turns the predictions into those of a unit of the board. Modes that count alike afterwards are merged. A front
    /// [of unknown](Self::of_unknown) modes stays as it is.
    pub fn for_unit(&mut self, unit: &Unit) {
        if self.is_unknown {
            return;
        }
        let mut kept = 0_usize;
        for index in 0..self.points.len() {
            let pair = self.points.get(index).zip(self.times.get(index));
            let Some((mut point, time)) = pair.map(|(point, time)| (*point, *time)) else {
                break;
            };
            point.power = unit.power(point.power);
            point.guarded = unit.guarded_power(point.guarded);
            point.guarded_time = unit.guarded_time(point.guarded_time);
            let time = unit.time(time);
            let last = kept.checked_sub(1).and_then(|last| self.points.get(last));
            let place = match last {
                Some(last) if point.guarded_time >= last.guarded_time => continue,
                Some(last) if self.has_power && point.guarded <= last.guarded => kept - 1,
                _ => kept,
            };
            if let Some((free, slot)) = self.points.get_mut(place).zip(self.times.get_mut(place)) {
                (*free, *slot) = (point, time);
                kept = place + 1;
            }
        }
        self.points.truncate(kept);
        self.times.truncate(kept);
        self.unit_margin = unit.margin_q16();
        skip_pointers::set(&mut self.points);
    }

    /// The margin of the unit in the guarded powers, as a ratio of at least 1. It is an error that all modes share.
    pub(crate) fn unit_margin(&self) -> f32 {
        1.0 + self.unit_margin as f32 / 65_536.0
    }

    /// Whether the board cannot be in the least mode: [`Least::Unreachable`].
    pub(crate) fn is_least_unreachable(&self) -> bool {
        self.is_least_unreachable
    }

    /// Whether power and time of the first point are guesses, since its mode is none of the model's: only a limit calls for it,
    /// and [`Objective::Power`] without a deadline.
    pub fn is_least_guessed(&self) -> bool {
        self.is_least_guessed
    }

    /// The index of the first point that an objective may choose.
    pub(crate) fn first_known(&self, objective: Objective, has_deadline: bool) -> usize {
        let counts_time = matches!(objective, Objective::Energy | Objective::EnergyDelay);
        usize::from(self.is_least_guessed && (has_deadline || counts_time))
    }

    /// Whether nothing is known of the powers but their order: the front is one [of unknown](Self::of_unknown) modes.
    pub fn is_unknown(&self) -> bool {
        self.is_unknown
    }

    /// The points, by strictly ascending guarded power and strictly descending guarded time.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The predicted times of the points, one for each.
    pub fn times(&self) -> &[Microseconds] {
        &self.times
    }

    /// Whether points were dropped because the capacity was exceeded.
    pub fn is_thinned(&self) -> bool {
        self.thinned
    }

    /// Whether the model predicts power.
    pub fn has_power(&self) -> bool {
        self.has_power
    }

    /// Why the front is empty; `None` if there were no modes.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        match self.highest {
            0 => self.foreign.then_some(Refusal::OtherGrid),
            highest => Some(Refusal::Guard(match Confidence::new(highest) {
                Some(highest) => GuardError::ConfidenceTooHigh { highest },
                None => GuardError::BadKnots,
            })),
        }
    }
}

impl<const N: usize> Default for Front<N> {
    fn default() -> Self {
        Self::new()
    }
}

/// Number of buckets of a [`FrontBuilder`].
const BUCKETS: usize = if cfg!(target_pointer_width = "64") {
    256
} else {
    32
};

/// A front under construction. It compares the network's integers: until it is finished, its points
/// hold their bits in place of mW and µs. Times and powers are those with a margin here.
///
/// Most modes are dominated by a point of clearly less power. Buckets of power detect this with one
/// comparison: bucket b starts at base + b·2^shift.
struct FrontBuilder<'a> {
    /// By strictly ascending power and strictly descending time.
    points: &'a mut VecView<Point>,
    /// Of the time and of the power.
    margins: [Widening; 2],
    base: i32,
    shift: u32,
    /// For each bucket, the least time of the points whose power is below it.
    bounds: [i32; BUCKETS],
    thinned: bool,
}

impl Point {
    fn unfinished(mode: ModeId, at: Prediction, [of_time, of_power]: [Widening; 2]) -> Self {
        let guarded = of_power.widen(at.log_power, at.spread);
        let guarded_time = of_time.widen(at.log_time, at.spread);
        Self {
            mode,
            power: Milliwatts(at.log_power.cast_unsigned()),
            guarded: Milliwatts(guarded.cast_unsigned()),
            guarded_time: Microseconds(guarded_time.cast_unsigned()),
            skips: SkipPointers::of_spread(at.spread),
        }
    }

    /// With its margin.
    fn log_power(&self) -> i32 {
        self.guarded.0.cast_signed()
    }

    fn log_time(&self) -> i32 {
        self.guarded_time.0.cast_signed()
    }
}

impl<'a> FrontBuilder<'a> {
    /// The caller fills the bounds with the greatest time, in place: they are large.
    fn new(points: &'a mut VecView<Point>, margins: &Margins) -> Self {
        Self {
            points,
            margins: [margins.time_spread, margins.power_spread],
            base: 0,
            shift: 0,
            bounds: [0; BUCKETS],
            thinned: false,
        }
    }

    /// Offers every mode of a region. Not generic, so that it is compiled once, with this crate's
    /// optimisation level.
    #[inline(never)]
    fn offer_region(&mut self, network: &mut Network<'_>, region: &Region) {
        network.batches(region, |batch| self.offer_batch(batch));
    }

    #[inline(always)]
    fn offer_batch(&mut self, batch: &Batch<'_>) {
        if batch.has_measured() {
            return self.offer_all(batch);
        }
        let [_, of_power] = self.margins;
        // A time without its margin is a lower bound, and costs nothing.
        for (vector, [times, powers]) in batch.counts(of_power).enumerate() {
            let bounds = powers.map(|power| {
                let bucket = self.bucket(power).min(BUCKETS - 1);
                *self.bounds.get(bucket).unwrap_or(&i32::MAX)
            });
            let undecided = times
                .iter()
                .zip(&bounds)
                .map(|(time, bound)| u32::from(time <= bound));
            if undecided.sum::<u32>() > 0 {
                self.offer_some(batch, vector, &bounds);
            }
        }
    }

    /// Offers all modes of a batch: the bounds are for predictions of the network.
    #[inline(never)]
    fn offer_all(&mut self, batch: &Batch<'_>) {
        for place in 0..BATCH {
            if let Some((mode, at)) = batch.mode(place) {
                self.offer(mode, at);
            }
        }
    }

    /// Offers the modes of a vector that are within their bounds. A mode beyond its bound is
    /// dominated, unless a mode of the same vector made a thinned front drop the dominating point.
    #[inline(never)]
    fn offer_some(&mut self, batch: &Batch<'_>, vector: usize, bounds: &[i32; LANES]) {
        let [of_time, _] = self.margins;
        for (lane, bound) in bounds.iter().enumerate() {
            if let Some((mode, at)) = batch.mode(vector * LANES + lane)
                && (of_time.widen(at.log_time, at.spread) <= *bound || self.thinned)
            {
                self.offer(mode, at);
            }
        }
    }

    /// The bucket of a power. Powers below the first bucket count to it; the result may be
    /// [`BUCKETS`] or more.
    #[inline(always)]
    fn bucket(&self, power: i32) -> usize {
        let above = power.max(self.base).wrapping_sub(self.base);
        (above.cast_unsigned() >> self.shift) as usize
    }

    /// Inserts a mode unless another one dominates it.
    fn offer(&mut self, mode: ModeId, at: Prediction) {
        let new = Point::unfinished(mode, at, self.margins);
        let (power, time) = (new.log_power(), new.log_time());
        let lower_power = self
            .points
            .partition_point(|point| point.log_power() <= power);
        let higher_power = self.points.get(lower_power..).unwrap_or_default();
        let beaten = higher_power
            .iter()
            .take_while(|point| point.log_time() >= time);
        let (mut start, end) = (lower_power, lower_power + beaten.count());
        if let Some(last) = lower_power.checked_sub(1)
            && let Some(point) = self.points.get_mut(last)
        {
            if point.log_time() <= time {
                if (point.log_power(), point.log_time()) == (power, time) && mode < point.mode {
                    *point = new;
                }
                return;
            }
            start -= usize::from(point.log_power() == power);
        }
        if start == end && self.points.is_full() {
            self.thinned = true;
            let Some(dropped) = self.least_slowdown(start, new) else {
                return;
            };
            self.raise_bounds(dropped);
            self.remove(dropped, dropped + 1);
            start -= usize::from(dropped < start);
        } else {
            self.remove(start, end);
        }
        self.insert(start, new);
        if self.base <= power && self.bucket(power) < BUCKETS {
            self.lower_bounds(power, time);
        } else {
            self.spread_buckets();
        }
    }

    /// The point whose absence slows a query down least, if a new one is inserted at `at`; `None`
    /// if it is the new one. The point of least power is never chosen.
    fn least_slowdown(&self, at: usize, new: Point) -> Option<usize> {
        let (lower_power, higher_power) = self.points.split_at_checked(at)?;
        let slowdown = |slower: &Point, point: &Point| slower.log_time().abs_diff(point.log_time());
        let mut least = match lower_power.last() {
            Some(slower) => (slowdown(slower, &new), None),
            None => (u32::MAX, None),
        };
        if let Some(faster) = higher_power.first() {
            least = least.min((slowdown(&new, faster), Some(at)));
        }
        for (points, first) in [(lower_power, 1), (higher_power, at + 1)] {
            for (place, (slower, point)) in points.iter().zip(points.iter().skip(1)).enumerate() {
                let slowed = slowdown(slower, point);
                if slowed < least.0 {
                    least = (slowed, Some(first + place));
                }
            }
        }
        least.1
    }

    // Cells keep this one simple loop: `copy_within` would link a general memmove.
    fn remove(&mut self, start: usize, end: usize) {
        let gone = end - start;
        if let Some(tail) = self.points.get_mut(start..)
            && gone > 0
        {
            let tail = Cell::from_mut(tail).as_slice_of_cells();
            for (to, from) in tail.iter().zip(tail.iter().skip(gone)) {
                to.set(from.get());
            }
            self.points.truncate(self.points.len() - gone);
        }
    }

    /// `offer` has made room.
    fn insert(&mut self, at: usize, new: Point) {
        let _ = self.points.push(new);
        if let Some(tail) = self.points.get_mut(at..) {
            let tail = Cell::from_mut(tail).as_slice_of_cells();
            for (from, to) in tail.iter().zip(tail.iter().skip(1)).rev() {
                to.set(from.get());
            }
            if let Some(first) = tail.first() {
                first.set(new);
            }
        }
    }

    /// Lowers the bounds of the buckets above a new point. Bounds fall from bucket to bucket, so
    /// few change.
    fn lower_bounds(&mut self, power: i32, time: i32) {
        let above = self.bucket(power) + 1;
        let bounds = self.bounds.iter_mut().skip(above);
        for bound in bounds.take_while(|bound| time < **bound) {
            *bound = time;
        }
    }

    /// Raises the bounds set by a point to be dropped, to those of the point before it. So only
    /// points on the front reject modes, whatever the buckets are.
    fn raise_bounds(&mut self, dropped: usize) {
        let Some(&point) = self.points.get(dropped) else {
            return;
        };
        let before = dropped.checked_sub(1).and_then(|at| self.points.get(at));
        let time = before.map_or(i32::MAX, Point::log_time);
        let above = self.bucket(point.log_power()) + 1;
        let bounds = self.bounds.iter_mut().skip(above);
        for bound in bounds.take_while(|bound| **bound == point.log_time()) {
            *bound = time;
        }
    }

    /// Redistributes the buckets over twice the range of the points.
    fn spread_buckets(&mut self) {
        let ends = self.points.first().zip(self.points.last());
        let Some((first, last)) = ends.map(|(a, b)| (a.log_power(), b.log_power())) else {
            return;
        };
        let range = last.abs_diff(first);
        self.base = first.saturating_sub_unsigned(range / 2);
        let bits = u64::BITS - (2 * u64::from(range)).leading_zeros();
        self.shift = bits.saturating_sub(BUCKETS.trailing_zeros());
        self.bounds.fill(i32::MAX);
        for index in (0..self.points.len()).rev() {
            if let Some(point) = self.points.get(index) {
                self.lower_bounds(point.log_power(), point.log_time());
            }
        }
    }

    /// Converts the points into mW and µs. Points that become equal in either are merged, so power
    /// and time stay strictly monotone. Returns whether the front was thinned.
    fn finish(
        &mut self,
        model: &Model<'_>,
        margins: &Margins,
        times: &mut VecView<Microseconds>,
    ) -> bool {
        let [of_time, _] = self.margins;
        let mut kept = 0_usize;
        for index in 0..self.points.len() {
            let Some(mut point) = self.points.get(index).copied() else {
                break;
            };
            if model.has_power() {
                let guarded = model.milliwatts(point.log_power());
                point.guarded = Milliwatts(margins.power.widen(guarded.0));
                point.power = model.milliwatts(point.power.0.cast_signed());
            }
            let spread = core::mem::take(&mut point.skips).spread();
            let time = model.microseconds(of_time.narrow(point.log_time(), spread));
            point.guarded_time = model.guarded_microseconds(point.log_time(), margins);
            let last = kept.checked_sub(1).and_then(|last| self.points.get(last));
            let place = match last {
                Some(last) if point.guarded_time >= last.guarded_time => continue,
                Some(last) if point.guarded == last.guarded => kept - 1,
                _ => kept,
            };
            if let Some(free) = self.points.get_mut(place) {
                *free = point;
                kept = place + 1;
                times.truncate(place);
                let _ = times.push(time);
            }
        }
        self.points.truncate(kept);
        skip_pointers::set(self.points);
        self.thinned
    }
}
