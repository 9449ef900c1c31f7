//! The manual page has exactly the commands, options and exit codes of the program.

use std::collections::BTreeSet;
use std::process::Command;

use crate::every_program::check_exit_status;

const MANUAL: &str = include_str!("../../wattgate.1");

fn help(command: &[&str]) -> String {
    let mut process = Command::new(env!("CARGO_BIN_EXE_wattgate"));
    let output = process.args(command).arg("--help").output();
    String::from_utf8(output.expect("started").stdout).expect("text")
}

/// The commands and the help of each.
fn helps() -> Vec<(String, String)> {
    let all = help(&[]);
    let lines = all.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.map_while(|line| line.strip_prefix("  "));
    let commands = lines.filter_map(|line| line.split(' ').next());
    commands.map(|it| (it.to_owned(), help(&[it]))).collect()
}

/// The word after each occurrence of an mdoc macro on a line.
fn words<'a>(line: &'a str, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    let mut words = line.split(' ');
    std::iter::from_fn(move || words.find(|word| *word == wanted).and(words.next()))
}

#[test]
fn each_command_is_in_the_manual() {
    let helped: BTreeSet<String> = helps().into_iter().map(|(command, _)| command).collect();
    let lines = MANUAL.lines().filter(|line| line.starts_with(".It Nm Cm "));
    let manual = lines.flat_map(|line| words(line, "Cm").map(str::to_owned));
    assert!(helped.contains("learn"), "{helped:?}");
    assert_eq!(manual.collect::<BTreeSet<_>>(), helped);
}

/// An option in a help text is indented by two spaces, with its short name before its long one.
#[test]
fn each_option_of_a_command_is_in_the_manual() {
    let mut helped = BTreeSet::new();
    for (command, help) in helps() {
        let lines = help.lines().filter_map(|line| line.strip_prefix("  "));
        for line in lines.filter(|line| line.starts_with('-')) {
            let names = line.split([' ', ',']).filter(|word| !word.is_empty());
            let names = names.take_while(|word| word.starts_with('-'));
            helped.extend(names.map(|name| format!("{command} {name}")));
        }
    }
    let (mut manual, mut commands) = (BTreeSet::new(), Vec::new());
    for line in MANUAL.lines() {
        if line.starts_with(".Ss ") {
            commands = words(line, "Cm").collect();
        } else if line.starts_with(".It Fl ") {
            let options =
                words(line, "Fl").flat_map(|it| commands.iter().map(move |command| (command, it)));
            manual.extend(options.map(|(command, it)| format!("{command} -{it}")));
        }
    }
    assert!(helped.contains("profile --modes"), "{helped:?}");
    assert_eq!(manual, helped);
}

#[test]
fn each_exit_code_is_in_the_manual() {
    check_exit_status(MANUAL);
}
