//! Limits that are held by measurement alone: without a model, or with one that is not trusted. Three kinds are not: a sweep whose modes were never set gives a power that does not
//! rise with clocks and cores; a corpus in another unit of measure gives powers below those of the idle board; and the sensor may show far more than
//! a model predicts. The daemon then uses no predictions. It begins with the least mode, and sets faster ones as
//! far as the measured power permits.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::{Front, Milliwatts, ModeId, PowerMode};

use crate::quantity::Watts;

/// From this ratio of the products of clocks and cores on, the power has to rise by at least the second one. Over
/// measured corpora of whole boards, whose products differ by 42 times and more, it rises by 2.1 and more.
const LEAST_SPAN: f64 = 8.0;
const LEAST_RISE: f64 = 1.25;

/// Why no model's predictions are used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distrust {
    /// There is no model of the workload.
    NoModel,
    /// From its lowest to its highest mode, clocks and cores differ by the first factor, and the power by the second.
    Flat { span: f64, rise: f64 },
    /// The highest mode draws less than the idle board.
    TooLow {
        highest: Milliwatts,
        idle: Milliwatts,
    },
    /// Even the least mode draws far more than predicted.
    Contradicted {
        measured: Milliwatts,
        predicted: Milliwatts,
    },
}

impl fmt::Display for Distrust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Self::NoModel {
            return f.write_str(
                "there is no model of the workload: the limit is held by measurement alone; `wattgate learn` makes a model",
            );
        }
        write!(f, "the model is not used: ")?;
        match self {
            Self::NoModel => {}
            Self::Flat { span, rise } => write!(
                f,
                "from its lowest to its highest mode, clocks and cores differ by a factor of {span:.0} and the \
                 power by {rise:.2}, where at least {LEAST_RISE} is expected"
            )?,
            Self::TooLow { highest, idle } => write!(
                f,
                "its highest mode draws {}, and the idle board draws {} and more, as if the corpus were in another unit of measure",
                Watts(*highest),
                Watts(*idle)
            )?,
            Self::Contradicted {
                measured,
                predicted,
            } => write!(
                f,
                "the least mode draws {}, and the prediction is {}",
                Watts(*measured),
                Watts(*predicted)
            )?,
        }
        write!(
            f,
            "; the limit is held by measurement alone; profile the workload again"
        )
    }
}

/// Why a model is not trusted that predicts these powers of its lowest and its highest mode, on a board that draws at least some power
/// when idle.
pub fn distrust(ends: [(PowerMode, Milliwatts); 2], idle: Milliwatts) -> Option<Distrust> {
    let [least, most] = ends;
    let span = product(&most.0) / product(&least.0);
    let rise = f64::from(most.1.0) / f64::from(least.1.0.max(1));
    if span >= LEAST_SPAN && rise < LEAST_RISE {
        return Some(Distrust::Flat { span, rise });
    }
    let highest = most.1;
    (highest < idle).then_some(Distrust::TooLow { highest, idle })
}

/// A front for a limit by measurement, of modes in the order of a front of the same board with another workload.
pub fn in_order<const N: usize>(known: &Front<N>) -> Front<N> {
    let points = known.points().iter().zip(known.times());
    Front::of_unknown(points.map(|(point, time)| (point.mode, point.power, *time)))
}

/// The same of a board of which nothing is known: modes of a grid whose cores and clocks have the places that those of the modes of
/// another board have between nothing and the highest.
pub fn in_places<const N: usize>(
    other: &Front<N>,
    of_other: &Grid,
    grid: &Grid,
    modes: impl Iterator<Item = ModeId>,
) -> Front<N> {
    let modes = modes.filter_map(|id| Some((grid.mode(id)?.knobs(), id)));
    let modes: BTreeMap<[u32; 4], ModeId> = modes.collect();
    let axes = Axis::ALL.map(|axis| {
        let values = modes.keys().map(|knobs| knobs[axis as usize]);
        values.collect::<BTreeSet<u32>>()
    });
    let mut known = BTreeSet::new();
    let points = other.points().iter().zip(other.times());
    Front::of_unknown(points.filter_map(|(point, time)| {
        let mut knobs = of_other.mode(point.mode)?.knobs();
        for ((knob, axis), values) in knobs.iter_mut().zip(Axis::ALL).zip(&axes) {
            let highest = |value: Option<&u32>| value.map(|value| f64::from(*value));
            let place = f64::from(*knob) / highest(of_other.axis(axis).last())?;
            let wanted = place * highest(values.last())?;
            let far = |value: &&u32| (f64::from(**value) - wanted).abs();
            *knob = *values.iter().min_by(|a, b| far(a).total_cmp(&far(b)))?;
        }
        let id = *modes.get(&knobs)?;
        known.insert(id).then_some((id, point.power, *time))
    }))
}

fn product(mode: &PowerMode) -> f64 {
    mode.knobs().into_iter().map(f64::from).product()
}
