//! The command line has what that of every program has.

#[path = "../../cli/tests/shared/every_program.rs"]
mod every_program;

#[test]
fn the_command_line_has_what_every_program_has() {
    every_program::check(env!("CARGO_BIN_EXE_wattgate-demo"), "--ouput", "--output");
}

#[test]
fn the_manual_is_that_of_the_help() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/wattgate-demo.1");
    every_program::check_manual(env!("CARGO_BIN_EXE_wattgate-demo"), page);
}
