//! For each limit, the mode of `wattgated once`: the fastest whose prediction, with the guard band
//! and the sensor's offset, is within the limit.

use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_runtime::Milliwatts;
use wattgate_watchdog::config::Config;
use wattgate_watchdog::setup::Setup;

use super::each_limit::at_each_limit;
use crate::course::Course;
use crate::recorded::RecordedTree;

/// Holds the limit to the end of a course. Returns the number of mode changes.
pub fn hold(course: &Course, files: &mut RecordedTree) -> io::Result<u32> {
    let text = course.config(Duration::ZERO, Some(&course.model));
    let config = Config::parse(&text, Path::new("once")).map_err(io::Error::other)?;
    let mut setup = Setup::new(config, files, Path::new("/")).map_err(io::Error::other)?;
    let mut changes = 0;
    at_each_limit(course, files, |files, limit| {
        setup.config.limit.power = Milliwatts(limit);
        let mode = match setup.choice() {
            Ok(choice) => setup.mode(choice.mode),
            Err(_) => setup.safe(),
        };
        // Where a fault prevents the change, the board keeps its mode.
        let _ = setup.board.apply(files, &mode);
        changes += 1;
    });
    Ok(changes)
}
