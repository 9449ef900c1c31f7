//! The messages that a user of `sweep` may meet: tests/golden/messages.txt has each with the command that makes it.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-bench --test it messages` writes it anew.

use std::path::Path;

use crate::transcript;

#[test]
fn messages_are_the_golden_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages.txt");
    transcript::compare(&golden, folder.path(), &[env!("CARGO_BIN_EXE_sweep")]);
}
