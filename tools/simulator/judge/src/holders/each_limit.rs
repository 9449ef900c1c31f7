//! Lets a holder act whenever the limit changes, and at no other time.

use crate::course::Course;
use crate::recorded::RecordedTree;

/// Calls `set` with each limit in mW when it begins to hold, and lets time pass to the end.
pub fn at_each_limit(
    course: &Course,
    files: &mut RecordedTree,
    mut set: impl FnMut(&mut RecordedTree, u32),
) {
    let limits = course.limits.iter();
    for (from, limit) in limits.filter(|(from, _)| *from < course.length) {
        files.until(files.now().max(*from));
        set(files, *limit);
    }
    files.until(files.now().max(course.length));
}
