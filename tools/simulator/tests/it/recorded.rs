//! Recorded power of real boards, in `../shared/data/traces`.

use std::fs;
use std::path::Path;

use crate::common::missing;

/// The text of a trace. Without the file it says so on standard error and returns `None`, or panics
/// if `WATTGATE_REQUIRE_DATA` is set.
pub fn recorded(name: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/traces");
    let path = folder.join(name);
    match missing(&path) {
        true => None,
        false => Some(fs::read_to_string(path).expect("readable")),
    }
}
