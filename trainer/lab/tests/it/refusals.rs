//! A comparison refuses what its corpora cannot give, and names the option or the file.

use crate::common::{corpus, corpus_of_another, folder, run, write};

#[test]
fn an_evaluation_that_holds_nothing_out() {
    let folder = folder();
    write(folder.path(), "corpus.csv", corpus().join("\n"));
    for arguments in [
        "evaluate --modes 96",
        "evaluate --modes 40,100%",
        "optimize --modes 96",
    ] {
        let run = run(
            folder.path(),
            &format!("{arguments} corpus.csv --runs 1 --methods linear"),
        );
        let expected = "error: corpus.csv: training on all 96 modes leaves none to score; ask for fewer with --modes\n";
        assert_eq!((run.code, run.stderr.as_str()), (2, expected));
    }
}

/// Peers are not scored on what their reference has seen either.
#[test]
fn a_reference_that_a_method_cannot_use() {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", corpus().join("\n"));
    let renamed: Vec<String> = corpus()
        .iter()
        .map(|row| row.replace("job", "new"))
        .collect();
    write(path, "renamed.csv", renamed.join("\n"));
    let peer = "evaluate corpus.csv --modes 10 --runs 1 --methods powertrain-transfer --reference";
    let own = run(path, &format!("{peer} renamed.csv"));
    let expected = "error: corpus.csv: renamed.csv is no reference: 96 of its modes have";
    assert!(
        own.code == 3 && own.stderr.starts_with(expected),
        "{}",
        own.stderr
    );
    let model = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../weights/orin-agx-64-resnet18.wgt"
    );
    let needs = run(path, &format!("{peer} {model}"));
    let expected = "error: corpus.csv: powertrain-transfer needs a corpus as --reference, not a model file; name one, or leave the method out\n";
    assert_eq!((needs.code, needs.stderr.as_str()), (2, expected));
}

#[test]
fn limits_and_boards_that_are_not_known() {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", corpus().join("\n"));
    let refused = run(path, "optimize corpus.csv --limits 3:9:1");
    assert_eq!(refused.code, 2);
    let expected = "`3` has no unit: a power is given in W or mW, for instance 5W";
    assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    let refused = run(
        path,
        "optimize corpus.csv --methods presets --modes 10 --runs 1",
    );
    let expected = "error: corpus.csv: the nvpmodel presets of board `board` are not known; leave the method out; known boards: orin-agx-64, orin-agx-64-jp6,";
    assert_eq!(refused.code, 3);
    assert!(refused.stderr.starts_with(expected), "{}", refused.stderr);
    let without_power: Vec<String> = corpus()
        .iter()
        .map(|line| line.rsplit_once(',').expect("fields").0.to_owned() + ",")
        .collect();
    write(
        path,
        "times.csv",
        without_power
            .join("\n")
            .replacen("time_ms,", "time_ms,power_mw", 1),
    );
    let refused = run(
        path,
        "optimize times.csv --methods random --modes 10 --runs 1",
    );
    let expected = "error: times.csv: no power was measured, so no mode can be chosen under a power limit; name a corpus with powers\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (3, expected));
}

/// A row that `wattgate-trainer plan --output` wrote and nobody filled in.
#[test]
fn a_row_without_time_and_power() {
    let folder = folder();
    let path = folder.path();
    let mut lines = corpus();
    let mode = lines[4].rsplitn(3, ',').nth(2).expect("fields");
    lines[4] = format!("{mode}, ,");
    write(path, "corpus.csv", lines.join("\n"));
    // `matrix` takes no corpus as a reference of itself.
    write(path, "whole.csv", corpus_of_another().join("\n"));
    for command in [
        "evaluate corpus.csv --modes 20 --runs 1 --methods linear",
        "optimize corpus.csv --modes 20 --runs 1 --methods linear",
        "matrix whole.csv corpus.csv --modes 20 --runs 1 --method linear",
    ] {
        let refused = run(path, command);
        assert_eq!(refused.code, 3, "{command}");
        let blank = "error: corpus.csv: line 5: neither time_ms nor power_mw;";
        assert!(refused.stderr.starts_with(blank), "{}", refused.stderr);
        let skipped = run(path, &format!("{command} --skip-blank"));
        assert_eq!(skipped.code, 0, "{command}: {}", skipped.stderr);
    }
}
