//! Finds the point of least energy in a range of a front without examining every point.
//!
//! Energy and energy-delay product are not monotone along a front, but the search need not be
//! linear. Two optima are precomputed for every point: the first optimum among all points up to it,
//! and the first among all points from it on. A range that contains one of them has it as its
//! answer. A range that contains neither is searched point by point, which happens only if the
//! objective has several local minima.
//!
//! The path to an optimum is stored in the spare bits of a [`Point`]: four bits for each objective
//! and direction give a length that does not overshoot the optimum. No better point lies on the
//! path, so the next length from there leads to the same optimum.

use core::ops::Range;

use crate::point::{Direction, Objective, Point, SkipPointers, cost};

/// Sets the skip pointers of all points of a front.
pub fn set(points: &mut [Point]) {
    for objective in [Objective::Energy, Objective::EnergyDelay] {
        set_one(points, objective, Direction::Back);
        set_one(points, objective, Direction::On);
    }
}

#[inline(never)]
fn set_one(points: &mut [Point], objective: Objective, way: Direction) {
    let shift = SkipPointers::shift(objective, way);
    let last = points.len().wrapping_sub(1);
    let mut best = (0, (u64::MAX, u32::MAX));
    for step in 0..points.len() {
        let index = match way {
            Direction::Back => step,
            Direction::On => last - step,
        };
        if let Some(point) = points.get_mut(index) {
            let cost = cost(objective, point);
            // Keep the first of equal points.
            if cost < best.1 || (cost == best.1 && index < best.0) {
                best = (index, cost);
            }
            point.skips.set(shift, index.abs_diff(best.0));
        }
    }
}

/// The index of the first optimum of a range of a front, for an objective that contains energy.
pub fn best(points: &[Point], stretch: Range<usize>, objective: Objective) -> Option<usize> {
    let length = |point: &Point, way| point.skips.length(SkipPointers::shift(objective, way));
    let mut at = stretch.end.checked_sub(1)?;
    while let back @ 1.. = length(points.get(at)?, Direction::Back) {
        at = at.checked_sub(back)?;
    }
    if at >= stretch.start {
        return Some(at);
    }
    at = stretch.start;
    while let on @ 1.. = length(points.get(at)?, Direction::On) {
        at += on;
    }
    if at < stretch.end {
        return Some(at);
    }
    let start = stretch.start;
    let stretch = points.get(stretch)?.iter().enumerate();
    let best = stretch.min_by_key(|(_, point)| cost(objective, point));
    best.map(|(at, _)| start + at)
}
