//! Figures of RESULTS.json.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{folder, run, write};

const RESULTS: &str = r#"{
  "version": 1,
  "sections": [{"title": "Holding", "runs": [{
    "name": "quick", "command": "printf 'load over\nllm 0.2\njump 0.3\n'", "kind": "simulated", "ran": null,
    "figures": [{"name": "worst-over", "what": "time over the limit, worst", "take": {"pattern": "^[a-z]+ ([0-9.]+)$", "which": "most", "unit": "%"}, "bound": {"most": 0.25}, "value": ""}],
    "tables": [{"name": "loads", "take": {"pattern": "^[a-z]+ "}, "lines": []}]
  }]}]
}"#;

/// A repository with a text that shows a figure and a table.
fn repository() -> tempfile::TempDir {
    let folder = folder();
    write(folder.path(), "RESULTS.json", RESULTS);
    write(
        folder.path(),
        "README.md",
        "Over for [?](RESULTS.md#worst-over), see [the run](RESULTS.md#run-quick).\n<!-- results: loads -->\n<!-- end -->\n",
    );
    for arguments in [&["init", "-q"][..], &["add", "."]] {
        let mut git = Command::new("git");
        let git = git.args(arguments).current_dir(folder.path());
        assert!(git.status().expect("git").success());
    }
    folder
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).expect("a text")
}

#[test]
fn texts_show_what_the_commands_print() {
    let folder = repository();
    let folder = folder.path();
    let written = run(folder, "figures --run quick");
    assert_eq!(written.code, 0, "{}", written.stderr);
    let readme = text(folder, "README.md");
    assert!(
        readme.starts_with("Over for [0.3 %](RESULTS.md#worst-over), see [the run]"),
        "{readme}"
    );
    assert!(
        readme.contains("\n```text\nload over\nllm 0.2\njump 0.3\n```\n"),
        "{readme}"
    );
    let page = text(folder, "RESULTS.md");
    assert!(
        page.contains("| 0.3 % | ≤ 0.25, **missed** | simulated |"),
        "{page}"
    );
    let checked = run(folder, "figures --check --run quick");
    assert_eq!(checked.code, 0, "{}", checked.stderr);
}

#[test]
fn a_figure_that_differs_is_named_with_its_place() {
    let folder = repository();
    let folder = folder.path();
    assert_eq!(run(folder, "figures --run quick").code, 0);
    let readme = text(folder, "README.md").replace("[0.3 %]", "[0.1 %]");
    write(folder, "README.md", &readme);
    let changed = text(folder, "RESULTS.json").replace("jump 0.3", "jump 0.4");
    write(folder, "RESULTS.json", &changed);
    let checked = run(folder, "figures --check --run quick");
    assert_eq!(checked.code, 3);
    for expected in [
        "README.md: a figure, line 1, is",
        "worst-over is 0.4 %, RESULTS.json has 0.3 %",
        "figures differ",
    ] {
        assert!(checked.stderr.contains(expected), "{}", checked.stderr);
    }
    let unknown = run(folder, "figures --run slow");
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("no run `slow`; it has quick"),
        "{}",
        unknown.stderr
    );
}
