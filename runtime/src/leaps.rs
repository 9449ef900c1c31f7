//! Finding the point of least energy in a stretch of a front, without a look at every point.
//!
//! Energy and energy-delay product have no order along a front, but a search need not be
//! linear: for every point the first optimum of all points up to it is fixed, and so is that of
//! all points from it on. A stretch that holds the one or the other is answered by it; a
//! stretch that holds neither is searched point by point, which happens only where the
//! objective has several valleys.
//!
//! The way to an optimum is stored in the bits that a [`Point`] has to spare: four bits for
//! each objective and direction give a length that is not beyond the optimum. Nothing better
//! lies on the way, so the next length from there leads on to the same one.

use core::ops::Range;

use crate::point::{Direction, Leaps, Objective, Point, cost};

/// Sets the leaps of all points of a front.
pub fn set(points: &mut [Point]) {
    for objective in [Objective::Energy, Objective::EnergyDelay] {
        set_one(points, objective, Direction::Back);
        set_one(points, objective, Direction::On);
    }
}

#[inline(never)]
fn set_one(points: &mut [Point], objective: Objective, way: Direction) {
    let shift = Leaps::shift(objective, way);
    let last = points.len().wrapping_sub(1);
    let mut best = (0, (u64::MAX, u32::MAX));
    for step in 0..points.len() {
        let index = match way {
            Direction::Back => step,
            Direction::On => last - step,
        };
        if let Some(point) = points.get_mut(index) {
            let cost = cost(objective, point);
            // Of equal ones the first.
            if cost < best.1 || (cost == best.1 && index < best.0) {
                best = (index, cost);
            }
            point.leaps.set(shift, index.abs_diff(best.0));
        }
    }
}

/// The first optimum of a stretch of a front, for an objective with energy in it.
pub fn best(points: &[Point], stretch: Range<usize>, objective: Objective) -> Option<&Point> {
    let length = |point: &Point, way| point.leaps.length(Leaps::shift(objective, way));
    let mut at = stretch.end.checked_sub(1)?;
    while let back @ 1.. = length(points.get(at)?, Direction::Back) {
        at = at.checked_sub(back)?;
    }
    if at >= stretch.start {
        return points.get(at);
    }
    at = stretch.start;
    while let on @ 1.. = length(points.get(at)?, Direction::On) {
        at += on;
    }
    if at < stretch.end {
        return points.get(at);
    }
    let stretch = points.get(stretch)?.iter();
    stretch.min_by_key(|point| cost(objective, point))
}
