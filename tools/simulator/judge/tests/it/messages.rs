//! The messages that a user of `wattgate-simulator` may meet: tests/golden/messages.txt has each with the command that makes
//! it, and messages-of-boards.txt what a living board answers to its commands.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-judge --test it messages` writes it anew.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use wattgate_board_tables::Board;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;

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

/// Commands that a living board cannot execute, as `wattgate-simulator board --help` has them.
const REFUSED: [&str; 24] = [
    "fly",
    "load",
    "load off now",
    "load nothing",
    "load resnet18 minibatch none",
    "load resnet18 minibatch 16 workers 1000",
    "load infer-mobilenet-v3 minibatch 16",
    "sensor",
    "sensor NONE missing",
    "sensor VDD_CPU_CV warm",
    "sensor VDD_CPU_CV late 61",
    "offset VDD_CPU_CV much",
    "refuse /none EBUSY",
    "refuse /sys/class/hwmon/hwmon0/curr1_input EBUSY",
    "refuse /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq EPERM",
    "allow /sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq",
    "write /sys/class/hwmon/hwmon0/curr1_input 1",
    "power 2",
    "throttle 1",
    "cool dla off",
    "cool gpu 5",
    "nvpmodel 9",
    "at soon stop",
    "every 0 stop",
];

#[test]
fn what_a_board_refuses_is_the_golden_text() {
    let board = Board::named("orin-agx-64").expect("a board");
    let mut tree = Tree::new(board, Unit::NOMINAL, 0, None).expect("a tree");
    let mut found = String::new();
    for command in REFUSED {
        let why = tree.control(command).expect_err(command);
        // Writing to a string does not fail.
        let _ = writeln!(found, "{command}\n  {why}");
    }
    let golden = "tests/golden/messages-of-boards.txt";
    transcript::settle(&Path::new(env!("CARGO_MANIFEST_DIR")).join(golden), &found);
}
