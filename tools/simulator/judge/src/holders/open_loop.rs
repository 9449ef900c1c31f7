//! For each limit, the fastest mode whose predicted power is within it, as PowerTrain chooses.

use std::io;
use std::path::Path;

use wattgate_board::Board;
use wattgate_runtime::{Confidence, Front, Model};
use wattgate_watchdog::setup::POINTS;

use super::each_limit::at_each_limit;
use crate::course::Course;
use crate::recorded::RecordedTree;

/// Holds the limit to the end of a course. Returns the number of mode changes.
pub fn hold(course: &Course, files: &mut RecordedTree) -> io::Result<u32> {
    let bytes = std::fs::read(&course.model)?;
    let model = Model::parse(&bytes).map_err(|why| io::Error::other(why.to_string()))?;
    let front = Front::<POINTS>::from_model(&model, &model.profiled(), Confidence::P50);
    let mut board = Board::discover(files, Path::new("/")).map_err(io::Error::other)?;
    let settable = board.settable(model.grid()).map_err(io::Error::other)?;
    let mut changes = 0;
    at_each_limit(course, files, |files, limit| {
        let mut fits = front.points().iter().rev().filter_map(|point| {
            let mode = model.grid().mode(point.mode)?;
            (point.power.0 <= limit && settable.can_set(&mode)).then_some(mode)
        });
        let least = front.points().first();
        let least = least.and_then(|point| model.grid().mode(point.mode));
        if let Some(mode) = fits.next().or(least) {
            // Where a fault prevents the change, the board keeps its mode.
            let _ = board.apply(files, &mode);
            changes += 1;
        }
    });
    Ok(changes)
}
