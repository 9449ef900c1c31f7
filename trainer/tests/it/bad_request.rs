//! A command refuses what its corpus, board or folder cannot give. The message names the option or the
//! file, and no output is left behind.

use std::fs;

use crate::common::{self, HEADER, corpus, corpus_of_another, folder, run, write};

#[test]
fn a_number_of_modes_that_the_corpus_does_not_have() {
    let folder = folder();
    write(folder.path(), "corpus.csv", corpus().join("\n"));
    for asked in [0, 4, 97, 1_000_000] {
        let run = run(
            folder.path(),
            &format!("fit corpus.csv --modes {asked} -o model.wgt"),
        );
        let expected = format!(
            "error: corpus.csv: cannot train on {asked} modes: the corpus has 96; ask for 5 to 96\n"
        );
        assert_eq!((run.code, run.stderr), (2, expected));
    }
}

#[test]
fn a_number_of_modes_that_is_none() {
    let folder = folder();
    for (asked, found) in [
        ("-5", "-5"),
        ("many", "many"),
        ("101%", "101%"),
        ("1.5", "1.5"),
    ] {
        let run = run(
            folder.path(),
            &format!("fit corpus.csv --modes {asked} -o model.wgt"),
        );
        let expected =
            format!("`{found}` is not a number of modes: write a whole number such as 50");
        assert_eq!(run.code, 2);
        assert!(run.stderr.contains(&expected), "{}", run.stderr);
    }
}

#[test]
fn a_reference_that_is_none() {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", corpus().join("\n"));
    write(path, "empty.csv", "");
    // Another order and a row less do not hide it.
    let mut same = corpus();
    same.swap(5, 20);
    same.pop();
    write(path, "same.csv", same.join("\n"));
    // Nor do another name and fewer digits.
    let renamed = |row: String| {
        let mut columns: Vec<String> = row
            .replace("job", "new")
            .split(',')
            .map(str::to_owned)
            .collect();
        for value in &mut columns[6..] {
            let rounded: f64 = format!("{:.2e}", value.parse::<f64>().expect("a number"))
                .parse()
                .expect("a number");
            *value = rounded.to_string();
        }
        columns.join(",")
    };
    let renamed = corpus().into_iter().skip(1).map(renamed);
    let renamed: Vec<String> = std::iter::once(HEADER.to_owned()).chain(renamed).collect();
    write(path, "renamed.csv", renamed.join("\n"));
    let fit = run(path, "fit renamed.csv --modes 20 -o renamed.wgt");
    assert_eq!(fit.code, 0, "{}", fit.stderr);
    let half = |row: String| {
        let (row, power) = row.rsplit_once(',').expect("columns");
        let (row, time) = row.rsplit_once(',').expect("columns");
        let time: f64 = time.parse().expect("a time");
        format!("{row},{},{power}", time / 2.0)
    };
    let mut disagree = corpus_of_another();
    disagree.extend(corpus_of_another().into_iter().skip(1).map(half));
    write(path, "disagree.csv", disagree.join("\n"));
    let fit = run(path, "fit corpus.csv --modes 20 -o reference.wgt");
    assert_eq!(fit.code, 0, "{}", fit.stderr);
    let model = fs::read(path.join("reference.wgt")).expect("a model");
    let mut newer = model.clone();
    newer[4] = 6;
    write(path, "newer.wgt", newer);
    write(path, "short.wgt", &model[..200]);
    for (reference, code, why) in [
        (
            "none.csv",
            5,
            "none.csv: cannot read: No such file or directory (os error 2)",
        ),
        (
            "newer.wgt",
            3,
            "newer.wgt: written in format version 6; this reader knows versions 1 … 5; use a later release of wattgate, or train the model again with this one",
        ),
        (
            "short.wgt",
            3,
            "short.wgt: truncated: shorter than its header says; copy the file again, or train the model again",
        ),
        (
            "empty.csv",
            3,
            "empty.csv: the file is empty; expected a header with the columns device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw",
        ),
        (
            "same.csv",
            3,
            "same.csv is no reference: it is of this workload on this board, so errors and bounds would be too small; name another workload, or add the rows to the corpus",
        ),
        (
            "reference.wgt",
            3,
            "reference.wgt is no reference: it is of this workload on this board, so errors and bounds would be too small; name another workload, or add the rows to the corpus",
        ),
        (
            "renamed.csv",
            3,
            "renamed.csv is no reference: 96 of its modes have the times and powers of the corpus itself, so errors and bounds would be too small; name another workload",
        ),
        (
            "renamed.wgt",
            3,
            "renamed.wgt is no reference: 8 of its modes have the times and powers of the corpus itself, so errors and bounds would be too small; name another workload",
        ),
        (
            "disagree.csv",
            3,
            "disagree.csv: a reference needs at least 5 profiled modes; this one has 0; the runs of 96 more disagree: measure those again",
        ),
    ] {
        let refused = run(
            path,
            &format!("fit corpus.csv --reference {reference} --modes 10 -o new.wgt"),
        );
        assert_eq!(
            (refused.code, refused.stderr),
            (code, format!("error: {why}\n"))
        );
    }
    let replaced = run(
        path,
        "fit corpus.csv --reference reference.wgt --modes 10 -o reference.wgt",
    );
    let expected =
        "error: reference.wgt: the output would replace an input; name another file with -o\n";
    assert_eq!((replaced.code, replaced.stderr.as_str()), (2, expected));
    assert!(!path.join("new.wgt").exists());
}

#[test]
fn a_plan_that_cannot_be_made() {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", corpus().join("\n"));
    write(
        path,
        "other.csv",
        format!("{HEADER}\n{}", common::row(4, 123_000, 300_000, 800_000)),
    );
    // Their grid has four modes, of which the board has three.
    let rows = [
        common::row(1, 400_000, 300_000, 800_000),
        common::row(2, 400_000, 300_000, 1_600_000),
        common::row(2, 400_000, 300_000, 800_000),
    ];
    let lacking = common::row(1, 400_000, 300_000, 1_600_000);
    write(path, "part.csv", format!("{HEADER}\n{}", rows.join("\n")));
    write(path, "lacking.csv", format!("{HEADER}\n{lacking}"));
    for (arguments, code, why) in [
        (
            "--board corpus.csv --modes 0",
            2,
            "--modes: cannot plan 0 modes: the board has 96; ask for 1 to 96",
        ),
        (
            "--board corpus.csv --modes 97",
            2,
            "--modes: cannot plan 97 modes: the board has 96; ask for 1 to 96",
        ),
        (
            "other.csv --board corpus.csv --modes 9",
            3,
            "other.csv: 4 cores, CPU 123 MHz, GPU 300 MHz, EMC 800 MHz is not a mode of the board: cpu_khz has no 123000; the nearest is 400000",
        ),
        (
            "lacking.csv --board part.csv --modes 2",
            3,
            "lacking.csv: 1 core, CPU 400 MHz, GPU 300 MHz, EMC 1600 MHz is not a mode of the board: it has no row in the corpus of the board",
        ),
        (
            "--modes 5",
            2,
            "the board is not named: name it with --board, or its values with --axes",
        ),
        (
            "--axes cores=1,2 cpu_khz=1 cpu_khz=1 emc_khz=1 --modes 1",
            2,
            "--axes: `cpu_khz=1`: expected each axis once",
        ),
        (
            "--axes cores=0,2 cpu_khz=1 gpu_khz=1 emc_khz=1 --modes 1",
            2,
            "--axes: an axis of the grid is not ascending from above zero",
        ),
        (
            "--axes cores=1,2 cpu_khz=1 gpu_khz=1 ram=1 --modes 1",
            2,
            "--axes: `ram=1`: the axes are cores, cpu_khz, gpu_khz and emc_khz",
        ),
        (
            "--axes cores=1,2 cpu_khz=1 gpu_khz=1.5 emc_khz=1 --modes 1",
            2,
            "--axes: `gpu_khz=1.5`: expected whole numbers, in kHz for clocks",
        ),
    ] {
        let refused = run(path, &format!("plan {arguments}"));
        assert_eq!(
            (refused.code, refused.stderr),
            (code, format!("error: {why}\n"))
        );
    }
}

/// `plan` and `fit` name a board in the same way, and refuse the same ones.
#[test]
fn a_board_that_is_none() {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", corpus().join("\n"));
    write(path, "broken.csv", "nonsense");
    for (board, code, why) in [
        (
            "orin-agx-63",
            2,
            "--board: `orin-agx-63` is neither a file nor a known board; the nearest is orin-agx-64; known boards: orin-agx-64, orin-agx-64-jp6,",
        ),
        (
            "orin-nano-4",
            2,
            "--board: the clocks of `orin-nano-4` are not known, because these are not published of it: the CPU table, the GPU table, the EMC table; name them with --axes, or name a file of the board",
        ),
        (
            "broken.csv",
            3,
            "broken.csv: line 1: the header is one field, `nonsense`; expected commas,",
        ),
    ] {
        for command in ["plan corpus.csv --modes 9", "fit corpus.csv -o model.wgt"] {
            let refused = run(path, &format!("{command} --board {board}"));
            let expected = format!("error: {why}");
            assert_eq!(refused.code, code, "{command}");
            assert!(refused.stderr.starts_with(&expected), "{}", refused.stderr);
        }
    }
    let both = "--board tx2 --axes cores=1 cpu_khz=1 gpu_khz=1 emc_khz=1";
    let refused = run(path, &format!("fit corpus.csv -o model.wgt {both}"));
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("cannot be used with '--axes"));
    assert!(!path.join("model.wgt").exists());
}

#[test]
fn a_corpus_of_another_board() {
    let folder = folder();
    write(folder.path(), "corpus.csv", corpus().join("\n"));
    let refused = run(folder.path(), "fit corpus.csv --board tx2 -o model.wgt");
    let expected = "error: corpus.csv: 1 core, CPU 400 MHz, GPU 300 MHz, EMC 800 MHz is not a mode of the board: cpu_khz has no 400000; the nearest is 345600\n";
    assert_eq!((refused.code, refused.stderr.as_str()), (3, expected));
}

#[test]
fn an_output_that_cannot_be_written_is_refused_before_the_work() {
    let folder = folder();
    write(folder.path(), "corpus.csv", corpus().join("\n"));
    let cases = [
        ("none/model.wgt", "No such file or directory"),
        (".", "is a directory"),
        ("corpus.csv/model.wgt", "Not a directory"),
    ];
    for (output, why) in cases {
        let run = run(
            folder.path(),
            &format!("fit corpus.csv --modes 20 -o {output}"),
        );
        assert_eq!(run.code, 5);
        let expected = format!("error: {output}: cannot write: {why}");
        assert!(run.stderr.starts_with(&expected), "{}", run.stderr);
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
}

#[test]
fn an_output_that_would_replace_its_corpus_is_refused() {
    let folder = folder();
    write(folder.path(), "corpus.csv", corpus().join("\n"));
    let run = run(folder.path(), "fit corpus.csv -o ./corpus.csv");
    let expected =
        "error: ./corpus.csv: the output would replace an input; name another file with -o\n";
    assert_eq!((run.code, run.stderr.as_str()), (2, expected));
    let kept = fs::read_to_string(folder.path().join("corpus.csv"));
    assert_eq!(kept.expect("still there"), corpus().join("\n"));
}
