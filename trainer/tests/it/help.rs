//! The help texts, which are part of the interface.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-trainer --test it help` writes them anew.

use std::env;
use std::fs;
use std::path::Path;

use crate::common::{folder, run};

#[test]
fn every_help_text_is_the_golden_one() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    for command in [
        "",
        "check",
        "fit",
        "plan",
        "inspect",
        "predict",
        "select",
        "completions",
    ] {
        let help = run(folder().path(), &format!("{command} --help"));
        assert_eq!(help.code, 0);
        let name = if command.is_empty() {
            "help.txt".to_owned()
        } else {
            format!("help-{}.txt", command.replace(' ', "-"))
        };
        let path = golden.join(name);
        if env::var_os("WATTGATE_UPDATE_GOLDEN").is_some() {
            fs::write(&path, &help.stdout).expect("the golden folder can be written to");
        }
        let expected = fs::read_to_string(&path).expect("a golden text");
        assert_eq!(help.stdout, expected, "{}", path.display());
        assert!(help.stdout.contains("Example"));
    }
}

/// The commands as `--help` lists them.
fn commands() -> Vec<String> {
    let help = run(folder().path(), "--help").stdout;
    let list = help.split("Commands:\n").nth(1).expect("a list");
    let list = list.split("\n\n").next().expect("a list");
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let names = list.lines().filter_map(name);
    names.filter(|name| name != "help").collect()
}

/// What a package installs: a page for each command, with its options and examples, and completions.
#[test]
fn every_command_has_a_page_and_is_completed() {
    let folder = folder();
    let path = folder.path();
    assert_eq!(run(path, "pages . --date 2026-11-23").code, 0);
    let read = |name: &str| fs::read_to_string(path.join(name)).expect(name);
    let commands = commands();
    assert!(commands.contains(&"predict".to_owned()));
    let program = read("wattgate-trainer.1");
    assert!(program.contains("\n.SH \"EXIT STATUS\"\n"), "{program}");
    for command in &commands {
        let listed = format!("\nwattgate\\-trainer\\-{command}(1)\n");
        assert!(program.contains(&listed), "{program}");
        let page = read(&format!("wattgate-trainer-{command}.1"));
        for part in [".SH SYNOPSIS", ".SH OPTIONS", ".SH EXAMPLES", "2026-11-23"] {
            assert!(page.contains(part), "{command}: {part}");
        }
    }
    // Examples are commands, so their lines stay lines.
    let select = read("wattgate-trainer-select.1");
    let example = "\n  wattgate\\-trainer select model.wgt \\-\\-limit 5W\n";
    let literal = select.split("\n.nf\n").nth(1).expect("literal text");
    assert!(format!("\n{literal}").contains(example), "{select}");
    let scripts = [
        "wattgate-trainer.bash",
        "wattgate-trainer.fish",
        "_wattgate-trainer",
    ];
    for script in scripts.map(&read) {
        assert!(commands.iter().all(|command| script.contains(command)));
        assert!(script.contains("skip-blank"));
    }
    let printed = run(path, "completions bash").stdout;
    assert_eq!(printed, read("wattgate-trainer.bash"));
    // Pages and completions for each command, and nothing else.
    let files = fs::read_dir(path).expect("a folder").count();
    let pages = commands.len() + 1;
    assert_eq!(files, pages + scripts.len());
    let refused = run(path, "pages none --date 2026-11-23");
    let expected = "error: none/wattgate-trainer.1: cannot write: No such file or directory (os error 2); name a folder that exists\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (5, expected));
}
