//! Models that are not trusted. Three kinds are known: a sweep whose modes were never set gives a power that does not
//! rise with clocks and cores; a corpus in another unit of measure gives powers below those of the idle board; and the sensor may show far more than
//! a model predicts. The daemon does not use their predictions. It begins with the least mode, and sets faster ones as
//! far as the measured power permits.

use std::fmt;

use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::{Front, Microseconds, Milliwatts, ModeId, PowerMode};

use crate::quantity::Watts;

/// From this ratio of the products of clocks and cores on, the power has to rise by at least the second one. Over
/// measured corpora of whole boards, whose products differ by 42 times and more, it rises by 2.1 and more.
const LEAST_SPAN: f64 = 8.0;
const LEAST_RISE: f64 = 1.25;

/// From a board's lowest to its highest mode, power rises and time falls by at most these factors: the most over
/// measured corpora.
const MOST_RISE: f64 = 6.5;
const MOST_GAIN: f64 = 16.0;

/// Power in mW and time in µs with which a front of unknown powers begins. Only ratios count.
const FIRST_POINT: (f64, f64) = (5_000.0, 1e9);

/// Why a model's predictions are not used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distrust {
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
        write!(f, "the model is not used: ")?;
        match self {
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

/// A front for a limit by measurement: modes of a grid in which all axes rise together.
pub fn rising<const N: usize>(grid: &Grid, modes: impl Iterator<Item = ModeId>) -> Front<N> {
    let modes = modes.filter_map(|id| Some((id, grid.mode(id)?)));
    let modes: Vec<(ModeId, PowerMode)> = modes.collect();
    let axes = Axis::ALL.map(|axis| {
        let values = modes.iter().map(|(_, mode)| mode.knobs()[axis as usize]);
        let mut values: Vec<u32> = values.collect();
        values.sort_unstable();
        values.dedup();
        values
    });
    let steps = axes.iter().map(Vec::len).max().unwrap_or(0);
    let step = |at: usize| {
        let nearest = |values: &Vec<u32>| {
            let (last, steps) = (values.len().checked_sub(1)?, (steps - 1).max(1));
            values.get((at * last + steps / 2) / steps).copied()
        };
        let [cores, cpu, gpu, emc] = &axes;
        let [cores, cpu, gpu, emc] = [nearest(cores)?, nearest(cpu)?, nearest(gpu)?, nearest(emc)?];
        let knobs = PowerMode::from_knobs([cores, cpu, gpu, emc]);
        modes
            .iter()
            .find(|(_, mode)| *mode == knobs)
            .map(|(id, _)| *id)
    };
    let rungs = (0..steps).filter_map(|at| {
        let (id, place) = (step(at)?, at as f64 / (steps - 1).max(1) as f64);
        let (power, time) = FIRST_POINT;
        // Clocks rise along the tables, and voltage with the clocks.
        let power = power * (1.0 + (MOST_RISE - 1.0) * place * place);
        let time = time / (1.0 + (MOST_GAIN - 1.0) * place);
        Some((id, Milliwatts(power as u32), Microseconds(time as u32)))
    });
    Front::of_unknown(rungs)
}

fn product(mode: &PowerMode) -> f64 {
    mode.knobs().into_iter().map(f64::from).product()
}
