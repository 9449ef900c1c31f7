//! The messages that a user of `wattgate-simulator` may meet: tests/golden/messages.txt has each with the command that makes
//! it.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-judge --test it messages` writes it anew.

use std::fs;
use std::path::Path;

use crate::transcript;

#[test]
fn messages_are_the_golden_ones() {
    let folder = tempfile::tempdir().expect("a folder");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages.txt");
    let model = "../../watchdog/tests/models/orin-agx-64-resnet18.wgt";
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join(model);
    fs::copy(model, folder.path().join("model.wgt")).expect("copied");
    let program = env!("CARGO_BIN_EXE_wattgate-simulator");
    transcript::compare(&golden, folder.path(), &[program]);
}
