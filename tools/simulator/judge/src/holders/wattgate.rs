//! The daemon's control in simulated time.

use std::time::Duration;

use wattgate_runtime::governor::State;
use wattgate_runtime::{Limit, Milliseconds, Milliwatts};
use wattgate_watchdog::control::Control;
use wattgate_watchdog::setup::Setup;

use crate::course::Course;
use crate::holder::HolderFigures;
use crate::recorded::RecordedTree;

/// Holds the limit to the end of a course. Returns the files, too.
pub fn hold(course: &Course, setup: Setup, files: RecordedTree) -> (HolderFigures, RecordedTree) {
    let mut limit = setup.config.limit;
    let mut control = Control::new(setup, files);
    let mut safe_s = 0.0;
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
        let next = poll(&mut control);
        control.files().until(next.min(course.length));
        if matches!(control.status().0.state, State::Safe(_)) {
            safe_s += (control.files().now() - now).as_secs_f64();
        }
    }
    let changes = control.status().0.changes;
    let (_, files) = control.release();
    (HolderFigures { changes, safe_s }, files)
}

/// Lets the control poll the sensor once. Returns the time of the next poll.
pub fn poll(control: &mut Control<RecordedTree>) -> Duration {
    let now = control.files().now();
    let next = control.step(Milliseconds(now.as_millis() as u64), &mut |_| {});
    Duration::from_millis(next.0).max(now + Duration::from_millis(1))
}
