//! The command line: what every program has, and the exit codes of files that do not exist.

use std::process::Command;

use crate::every_program::check;
use crate::living::{Living, run};

#[test]
fn the_command_line_has_what_every_program_has() {
    check(env!("CARGO_BIN_EXE_wattgate"), "chek", "check");
}

#[test]
fn a_misspelt_option_is_answered_with_the_nearest() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wattgate"));
    let (code, _, errors) = run(command.args(["run", "--limt", "20W", "true"]));
    let expected = "error: there is no option --limt; did you mean `--limit`?\n";
    assert_eq!((code, errors.as_str()), (Some(2), expected));
}

#[test]
fn a_file_that_does_not_exist_has_one_exit_code() {
    let living = Living::start();
    for arguments in [
        &["check", "--from", "none"][..],
        &[
            "profile", "--name", "x", "--root", "board", "--modes", "none", "true",
        ],
        &[
            "run", "--limit", "20W", "--root", "board", "--model", "none", "true",
        ],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wattgate"));
        let (code, _, errors) = run(command.args(arguments).current_dir(living.folder.path()));
        assert_eq!(code, Some(5), "{errors}");
        assert!(errors.contains("No such file or directory"), "{errors}");
    }
}
