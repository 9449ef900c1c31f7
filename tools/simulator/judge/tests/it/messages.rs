//! The messages that a user of `wattgate-simulator` may meet: tests/golden/messages.txt has each with the command that makes
//! it.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-judge --test it messages` writes it anew.

use std::path::Path;

use crate::transcript;

#[test]
fn messages_are_the_golden_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages.txt");
    let program = env!("CARGO_BIN_EXE_wattgate-simulator");
    transcript::compare(&golden, folder.path(), &[program]);
}
