//! A model's prediction for a single mode.

use wattgate_runtime::{Microseconds, Milliwatts, Model, PowerMode, Region};

/// A prediction for a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outlook {
    pub mode: PowerMode,
    pub time: Microseconds,
    /// `None` for a model of time alone.
    pub power: Option<Milliwatts>,
    /// Whether the mode is in the profiled region. Outside of it the model extrapolates.
    pub is_profiled: bool,
}

/// Predicts a mode; `None` if it is not in the model's grid.
pub fn outlook(model: &Model<'_>, mode: PowerMode) -> Option<Outlook> {
    let grid = model.grid();
    let id = grid.id(mode)?;
    let region = Region::spanning(grid, [mode.knobs()])?;
    let mut is_profiled = false;
    model.sweep(&model.profiled(), |profiled, _| {
        is_profiled |= profiled == id;
    });
    let mut found = None;
    model.sweep(&region, |_, prediction| {
        found = Some(Outlook {
            mode,
            time: model.time(prediction),
            power: model.power(prediction),
            is_profiled,
        });
    });
    found
}
