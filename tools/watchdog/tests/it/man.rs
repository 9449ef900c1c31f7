//! The manual pages have exactly the commands, options, exit codes and keys of the program.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::every_program::check_exit_status;

const COMMANDS: &str = include_str!("../../wattgated.8");
const KEYS: &str = include_str!("../../wattgated.toml.5");
const SAMPLE: &str = include_str!("../../wattgated.toml");

fn help(command: &[&str]) -> String {
    let mut process = Command::new(env!("CARGO_BIN_EXE_wattgated"));
    let output = process.args(command).arg("--help").output();
    String::from_utf8(output.expect("started").stdout).expect("text")
}

/// The indented lines of a section of a help text, such as `Options:`, without the indent.
fn part<'a>(help: &'a str, title: &str) -> impl Iterator<Item = &'a str> {
    let lines = help.lines().skip_while(move |line| *line != title);
    let lines = lines.skip(1).take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.strip_prefix("  "))
}

/// The word after each occurrence of an mdoc macro on a line.
fn words<'a>(line: &'a str, wanted: &'a str) -> impl Iterator<Item = &'a str> {
    let mut words = line.split(' ');
    std::iter::from_fn(move || words.find(|word| *word == wanted).and(words.next()))
}

#[test]
fn each_command_has_its_options_in_the_manual() {
    let all = help(&[]);
    let commands = part(&all, "Commands:").filter_map(|line| line.split(' ').next());
    let helped: BTreeSet<String> = commands
        .flat_map(|command| {
            let help = help(&[command]);
            // The first name of each, as each command has `-h`.
            let options = part(&help, "Options:").filter(|line| line.starts_with('-'));
            let options = options.filter_map(|line| line.split([' ', ',']).next());
            let options = options.filter(|option| *option != "-h");
            let lines = options.map(|option| format!("{command} {option}"));
            lines.chain([command.to_owned()]).collect::<Vec<_>>()
        })
        .collect();
    let lines = COMMANDS
        .lines()
        .filter(|line| line.starts_with(".It Nm Cm "));
    let manual: BTreeSet<String> = lines
        .flat_map(|line| {
            let command = words(line, "Cm").next().expect("a command");
            let options = words(line, "Fl").map(move |it| format!("{command} -{it}"));
            options.chain([command.to_owned()])
        })
        .collect();
    assert!(helped.contains("check --config"), "{helped:?}");
    assert_eq!(manual, helped);
}

/// A rule of mandoc's, which checks the pages of the Debian package.
#[test]
fn no_line_of_a_manual_is_longer_than_80_bytes() {
    let lines = COMMANDS.lines().chain(KEYS.lines());
    for line in lines.filter(|line| !line.starts_with('.')) {
        assert!(line.len() <= 80, "{line}");
    }
}

#[test]
fn each_exit_code_is_in_the_manual() {
    check_exit_status(COMMANDS);
}

/// A test of the config checks that the sample has every key.
#[test]
fn each_key_of_the_config_is_in_the_manual() {
    let sample: BTreeSet<&str> = SAMPLE
        .lines()
        .filter_map(|line| line.trim_start_matches('#').split_once(" = "))
        .map(|(key, _)| key)
        .filter(|key| key.bytes().all(|it| it.is_ascii_lowercase() || it == b'_'))
        .collect();
    let manual: BTreeSet<&str> = KEYS
        .lines()
        .filter_map(|line| line.strip_prefix(".It Cm "))
        .collect();
    assert_eq!(manual, sample);
}

/// The package contains the manual pages but not the sources.
#[test]
fn each_help_refers_to_the_manual_of_the_config() {
    for command in ["check", "once", "run"] {
        let help = help(&[command]);
        assert!(help.contains("see wattgated.toml(5)\n"), "{help}");
        assert!(!help.contains("tools/"), "{help}");
    }
}

/// `SAFETY.md` names a test for each cell of its table, and the tests exist.
#[test]
fn each_cell_of_the_contract_has_its_test() {
    let text = include_str!("../../SAFETY.md");
    let (table, tests) = text.split_once("\n## Tests\n").expect("tests");
    let mut sources = String::new();
    for folder in [
        "../watchdog/tests/it",
        "../watchdog/tests/it/control",
        "../watchdog/src/config",
        "../wattgate/tests/it",
        "../../runtime/tests/it/governor",
    ] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(folder).expect("a folder") {
            sources += &fs::read_to_string(entry.expect("an entry").path()).unwrap_or_default();
        }
    }
    let lines: Vec<&str> = tests.lines().filter(|line| line.contains('`')).collect();
    for (number, line) in (1..).zip(&lines) {
        assert!(line.starts_with(&format!("{number}. `")), "{line}");
        for name in line.split('`').skip(1).step_by(2) {
            assert!(
                sources.contains(&format!("fn {name}()")),
                "there is no test {name}"
            );
        }
    }
    let rows = table.lines().filter(|line| line.starts_with("| "));
    let rows: Vec<Vec<&str>> = rows
        .map(|row| row.trim_matches('|').split('|').collect())
        .collect();
    assert!(rows.len() > 12);
    for row in rows.iter().skip(1) {
        assert_eq!(row.len(), 6, "{row:?}");
        for cell in &row[1..] {
            let numbers = cell
                .rsplit_once('(')
                .map(|(_, it)| it.trim().trim_end_matches(')'));
            let known = |it: &str| {
                it.trim()
                    .parse()
                    .is_ok_and(|it: usize| (1..=lines.len()).contains(&it))
            };
            let is_tested = numbers.is_some_and(|it| it.split(", ").all(known));
            assert!(
                is_tested || cell.trim() == "the kernel ends the load",
                "{cell}"
            );
        }
    }
}
