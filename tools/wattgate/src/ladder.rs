//! The modes that a session needs without a plan.

use wattgate_runtime::PowerMode;

/// Highest ratio of two successive CPU clocks of the start, where the board has such clocks. 1.25 times
/// the clock draws at most twice the power: the clock times the square of the voltage, which rises
/// less than the clock.
const START_RATIO: f64 = 1.25;

/// The lowest mode, and the modes of the start.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// The mode of least clocks and cores.
    pub lowest: PowerMode,
    /// The modes of the start, in order of power: those of the CPU at the lowest other clocks.
    pub start: Vec<PowerMode>,
}

impl Ladder {
    /// The modes for a board that can be set to the values of these axes, ascending.
    pub fn from_axes([cores, cpu, gpu, emc]: [&[u32]; 4]) -> Self {
        let first = |values: &[u32]| values.first().copied().unwrap_or_default();
        let last = |values: &[u32]| values.last().copied().unwrap_or_default();
        let mode = |cores, cpu| PowerMode::from_knobs([cores, cpu, first(gpu), first(emc)]);
        let mut start = vec![mode(last(cores), first(cpu))];
        let mut from = first(cpu);
        for (at, &clock) in cpu.iter().enumerate() {
            // The highest clock within the ratio; the next one where none is.
            let next = cpu.get(at + 1).copied().unwrap_or(u32::MAX);
            let ratio = f64::from(next) / f64::from(from);
            if clock > from && ratio > START_RATIO {
                start.push(mode(last(cores), clock));
                from = clock;
            }
        }
        Self {
            lowest: mode(first(cores), first(cpu)),
            start,
        }
    }
}
