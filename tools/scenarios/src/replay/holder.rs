//! Who holds the limit in a replay, and what is noted of it.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_runtime::{Limit, Milliseconds, Milliwatts, State};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::control::Control;
use wattgate_watchdog::setup::Setup;

use super::ReplayError;
use crate::holder::{once, open_loop, preset, presets, set_sensor};
use crate::plant::Noted;
use crate::{Course, Holder, Sensor, stepper};
use wattgate_board_tables::Board;

/// What is noted of a holder.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// Changes of the mode.
    pub changes: u32,
    /// Time in a state of safety, in s.
    pub safe_s: f64,
}

/// The mode of nvpmodel that the board boots in: one without caps, or the holder's preset.
pub fn boot(board: &Board, holder: Holder, limit_mw: u32) -> Option<u32> {
    match holder {
        Holder::Preset => preset(board, limit_mw),
        _ => {
            let mut modes = board.modes.iter();
            modes.find(|mode| mode.budget_w.is_none()).map(|it| it.id)
        }
    }
}

/// Holds the limit to the end of a course.
pub fn hold(
    holder: Holder,
    course: &Course,
    board: &Board,
    mut files: Noted,
) -> Result<(Held, Noted), ReplayError> {
    let changes = match holder {
        Holder::Wattgate => return wattgate(course, files),
        Holder::Stepper => {
            if course.sensor != Sensor::L4T {
                set_sensor(course, &mut files)?;
            }
            stepper::hold(course, None, &mut files)?.changes
        }
        Holder::OpenLoop => open_loop(course, &mut files)?,
        Holder::Once => once(course, &mut files)?,
        Holder::Preset => presets(course, board, &mut files),
        Holder::Maxn => 0,
        Holder::Wattgated => return Err(io::Error::other("a process is not simulated").into()),
    };
    files.until(course.length);
    let held = Held {
        changes,
        safe_s: 0.0,
    };
    Ok((held, files))
}

/// The daemon's control.
fn wattgate(course: &Course, files: Noted) -> Result<(Held, Noted), ReplayError> {
    let text = course.config(Duration::ZERO, &course.model);
    let config = Config::parse(&text, Path::new("replay")).map_err(io::Error::other)?;
    let mut limit = config.limit;
    let setup = Setup::new(config, &files, Path::new("/"))?;
    let mut control = Control::new(setup, files);
    let mut held = Held::default();
    loop {
        let now = control.files().now();
        if now >= course.length {
            break;
        }
        let wanted = Limit {
            power: Milliwatts(course.limit_mw(now)),
            ..limit
        };
        if std::mem::replace(&mut limit, wanted) != wanted {
            control.set_limit(wanted);
        }
        let next = control.look(Milliseconds(now.as_millis() as u64), &mut |_| {});
        let next = Duration::from_millis(next.0).max(now + Duration::from_millis(1));
        control.files().until(next.min(course.length));
        if matches!(control.status().0.state, State::Safe(_)) {
            held.safe_s += (control.files().now() - now).as_secs_f64();
        }
    }
    held.changes = control.status().0.changes;
    let (_, files) = control.release();
    Ok((held, files))
}
