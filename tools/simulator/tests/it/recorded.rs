//! Recorded power of real boards, in `../shared/data/traces`, and measured corpora beside it.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

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

/// Whether a file of measured data is absent. Then it says so on standard error, or panics if `WATTGATE_REQUIRE_DATA` is set.
pub fn missing(path: &Path) -> bool {
    if path.exists() {
        return false;
    }
    // Past the capture of the test runner, so that it is seen.
    let line = format!(
        "SKIPPED: a test needs {}, which is absent\n",
        path.display()
    );
    io::stderr()
        .write_all(line.as_bytes())
        .expect("standard error");
    assert!(
        std::env::var_os("WATTGATE_REQUIRE_DATA").is_none(),
        "WATTGATE_REQUIRE_DATA is set, so the measured data must be present"
    );
    true
}
