//! The help texts, which are part of the interface.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-judge --test it help` writes them anew.

use std::env;
use std::fs;
use std::path::Path;

use crate::every_program::{check, check_manual};
use crate::running::command;

#[test]
fn every_help_text_is_the_golden_one() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for name in [
        "",
        "board",
        "workload",
        "corpus",
        "kernels",
        "judge",
        "anchors",
        "physics",
        "load",
        "replay",
        "loads",
        "units",
        "clocks",
        "deadlines",
        "dynamics",
        "scenarios",
        "merge",
    ] {
        let arguments = [name, "--help"].into_iter().filter(|it| !it.is_empty());
        let help = command()
            .args(arguments)
            .output()
            .expect("the program runs");
        assert!(help.status.success(), "{name}");
        let help = String::from_utf8(help.stdout).expect("text");
        let name = match name {
            "" => "help.txt".to_owned(),
            name => format!("help-{name}.txt"),
        };
        let path = golden.join(name);
        if env::var_os("WATTGATE_UPDATE_GOLDEN").is_some() {
            fs::write(&path, &help).expect("the golden folder can be written to");
        }
        let expected = fs::read_to_string(&path).expect("a golden text");
        assert_eq!(help, expected, "{}", path.display());
    }
}

#[test]
fn the_command_line_has_what_every_program_has() {
    check(env!("CARGO_BIN_EXE_wattgate-simulator"), "juge", "judge");
}

#[test]
fn the_manual_is_that_of_the_help() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/wattgate-simulator.1");
    check_manual(env!("CARGO_BIN_EXE_wattgate-simulator"), page);
}
