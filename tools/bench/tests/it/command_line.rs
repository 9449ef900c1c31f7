//! The command line has what that of every program has.

use crate::every_program;

#[test]
fn the_command_line_has_what_every_program_has() {
    every_program::check(env!("CARGO_BIN_EXE_sweep"), "--rouds", "--rounds");
}

#[test]
fn the_manual_is_that_of_the_help() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/sweep.1");
    every_program::check_manual(env!("CARGO_BIN_EXE_sweep"), page);
}
