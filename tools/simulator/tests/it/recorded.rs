//! Recorded power of real boards, in `../shared/data/traces`.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

/// The text of a trace. Without the file it says so on standard error and returns `None`, or panics
/// if `WATTGATE_REQUIRE_DATA` is set.
pub fn recorded(name: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/traces");
    if let Ok(text) = fs::read_to_string(folder.join(name)) {
        return Some(text);
    }
    // Past the capture of the test runner, so that it is seen.
    let line = format!("SKIPPED: a test needs ../shared/data/traces/{name}, which is absent\n");
    io::stderr()
        .write_all(line.as_bytes())
        .expect("standard error");
    assert!(
        std::env::var_os("WATTGATE_REQUIRE_DATA").is_none(),
        "WATTGATE_REQUIRE_DATA is set, so the measured data must be present"
    );
    None
}
