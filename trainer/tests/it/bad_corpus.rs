//! Every defective corpus is refused with a message that names file, line, column and what
//! was expected, and leaves no output behind.

use std::fs;
use std::io::{BufWriter, Write};
use std::process::Stdio;

use crate::common::{self, HEADER, Run, corpus, folder, program, run, write};

/// `fit` and `check` refuse the corpus with the same message. A model that was there
/// before stays as it was, and nothing else is left in the folder.
fn refused(contents: impl AsRef<[u8]>, expected: &str) {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", contents);
    write(path, "model.wgt", "an earlier model");
    let fit = run(path, "fit corpus.csv -o model.wgt");
    assert_eq!(fit.stderr, format!("error: corpus.csv: {expected}\n"));
    assert_eq!((fit.code, fit.stdout.as_str()), (3, ""));
    assert_eq!(
        fs::read(path.join("model.wgt")).expect("still there"),
        b"an earlier model"
    );
    assert_eq!(fs::read_dir(path).expect("a folder").count(), 2);
    let check = run(path, "check corpus.csv");
    assert_eq!(check.code, 3);
    let said = format!("{}{}", check.stdout, check.stderr);
    assert!(said.contains(expected), "{said}");
}

/// The corpus with one field of its fifth line changed.
fn with_field(column: &str, value: &str) -> String {
    let mut lines = corpus();
    let at = HEADER
        .split(',')
        .position(|name| name == column)
        .expect("a column");
    let mut fields: Vec<&str> = lines[4].split(',').collect();
    fields[at] = value;
    lines[4] = fields.join(",");
    lines.join("\n")
}

#[test]
fn a_file_that_does_not_exist() {
    let folder = folder();
    for arguments in ["fit none.csv -o model.wgt", "check none.csv"] {
        let run = run(folder.path(), arguments);
        let expected = "error: none.csv: cannot read: No such file or directory (os error 2)\n";
        assert_eq!((run.code, run.stderr.as_str()), (5, expected));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn a_folder_instead_of_a_file() {
    let folder = folder();
    let run = run(folder.path(), "check .");
    let expected = "error: .: cannot read: Is a directory (os error 21)\n";
    assert_eq!((run.code, run.stderr.as_str()), (5, expected));
}

/// The modes of a sweep were never set, for instance since nvpmodel wanted a reboot.
#[test]
fn rows_that_do_not_follow_the_clocks() {
    let mut rows = vec![HEADER.to_owned()];
    for (at, cores) in [2, 4, 8, 12].into_iter().enumerate() {
        for (step, khz) in [268_800, 1_190_400, 2_201_600].into_iter().enumerate() {
            let noise = (7 * at + 5 * step) % 11;
            let (time, power) = (180.0 + noise as f64 / 4.0, 15_100 + 13 * ((noise * 3) % 11));
            rows.push(format!(
                "orin-agx-64,yolo,{cores},{khz},624750,2133000,{time},{power}"
            ));
        }
    }
    let expected = "time and power do not follow clocks and cores, whose product differs by a factor of \
                    49 over 12 modes (correlation of the power ";
    let folder = folder();
    write(folder.path(), "corpus.csv", rows.join("\n"));
    let check = run(folder.path(), "check corpus.csv");
    assert_eq!(check.code, 3, "{}", check.stderr);
    assert!(check.stdout.contains(expected), "{}", check.stdout);
    assert!(!check.stdout.contains("no defects"), "{}", check.stdout);
    let fit = run(folder.path(), "fit corpus.csv -o model.wgt");
    assert_eq!(fit.code, 3, "{}", fit.stderr);
    assert!(fit.stderr.contains(expected), "{}", fit.stderr);
    assert!(!folder.path().join("model.wgt").exists());
}

#[test]
fn an_empty_file() {
    let expected = format!("the file is empty; expected a header with the columns {HEADER}");
    refused("", &expected);
    refused("\n\n", &expected);
    refused("\u{feff}", &expected);
}

#[test]
fn a_header_without_rows() {
    refused(HEADER, "no rows after the header");
}

#[test]
fn a_missing_column() {
    let contents = corpus().join("\n").replace("gpu_khz", "gpu_hz");
    refused(
        contents,
        "line 1: column `gpu_khz`: missing; the header has `gpu_hz`: divide it by 1000 and rename it `gpu_khz`",
    );
    let contents = corpus().join("\n").replace("power_mw", "note");
    let expected = format!("line 1: column `power_mw`: missing; a corpus has the columns {HEADER}");
    refused(contents, &expected);
}

#[test]
fn a_repeated_column() {
    let contents = corpus().join("\n").replace("emc_khz", "cpu_khz");
    refused(
        contents,
        "line 1: column `cpu_khz`: repeated in the header; delete one of the columns",
    );
}

#[test]
fn a_repeated_header() {
    let twice = [corpus(), corpus()].concat().join("\n");
    refused(twice, "line 98: the header is repeated; delete this line");
}

#[test]
fn a_row_with_too_few_or_too_many_fields() {
    let mut lines = corpus();
    lines[2] = "board,job,1".to_owned();
    refused(
        lines.join("\n"),
        "line 3: expected 8 fields as in the header, found 3; complete the row, or delete it",
    );
    let mut lines = corpus();
    lines[2] += ",1";
    refused(
        lines.join("\n"),
        "line 3: expected 8 fields as in the header, found 9; write decimal points, and put a text with a delimiter in quotes",
    );
}

#[test]
fn text_or_nonsense_in_a_number() {
    let cores = "expected a number of cores above zero";
    for value in ["two", "0", "-1", "1.5", "99999999999"] {
        let expected = format!("line 5: column `cores`: {cores}, found `{value}`");
        refused(with_field("cores", value), &expected);
    }
    refused(
        with_field("cores", ""),
        "line 5: column `cores`: blank in some rows; a constant number of cores may be blank, but then in every row",
    );
    let frequency = "expected a frequency in kHz from 10000 to 10000000";
    for column in ["cpu_khz", "gpu_khz", "emc_khz"] {
        for (value, hint) in [
            ("1.2GHz", "; write the number alone, in kHz"),
            ("0", ""),
            ("-408000", ""),
            ("NaN", "; leave an unknown value blank"),
            ("1330", "; if the column is in MHz, multiply it by 1000"),
            ("1377000000", "; if the column is in Hz, divide it by 1000"),
            ("99999999999", "; if the column is in Hz, divide it by 1000"),
        ] {
            let expected = format!("line 5: column `{column}`: {frequency}, found `{value}`{hint}");
            refused(with_field(column, value), &expected);
        }
    }
}

/// As on a Nano, or in a container: `wattgate profile` writes 1 there.
#[test]
fn a_clock_that_the_board_does_not_show_is_blank_or_1_in_every_row() {
    let folder = folder();
    let path = folder.path();
    let without = |value: &str| {
        let rows = corpus().into_iter().skip(1).filter_map(|row| {
            let mut fields: Vec<&str> = row.split(',').collect();
            // One row of each mode of the other knobs.
            let is_kept = fields[5] == "800000";
            fields[5] = value;
            is_kept.then(|| fields.join(","))
        });
        let rows: Vec<String> = rows.collect();
        assert!(rows.len() > 20, "{}", rows.len());
        format!("{HEADER}\n{}\n", rows.join("\n"))
    };
    for value in ["", "1"] {
        write(path, "corpus.csv", without(value));
        let fit = run(path, "fit corpus.csv -o model.wgt");
        assert_eq!(fit.code, 0, "{}", fit.stderr);
    }
    let mixed = without("") + "board,job,1,400000,300000,800000,90,5000\n";
    refused(
        mixed,
        "column `emc_khz`: blank in some rows; a clock that the board does not show is blank, or 1, in every row",
    );
}

/// What spreadsheets and scripts write in place of commas alone.
#[test]
fn other_dialects_are_read_or_named() {
    let folder = folder();
    let plain = corpus().join("\n");
    let dialects = [
        plain.replace(',', ";"),
        plain.replace(',', "\t"),
        format!("\u{feff}{}", plain.replace(',', ";")),
        format!("# Orin Nano, 25W; measured by hand\n\n{plain}\n# the end\n"),
        plain.replace('\n', "\r\n"),
    ];
    write(folder.path(), "corpus.csv", &plain);
    let expected = run(folder.path(), "check corpus.csv");
    assert_eq!(expected.code, 0, "{}", expected.stderr);
    for dialect in dialects {
        write(folder.path(), "corpus.csv", &dialect);
        let check = run(folder.path(), "check corpus.csv");
        assert_eq!(
            check.stdout, expected.stdout,
            "{dialect:.80} {}",
            check.stderr
        );
    }
    let comma = plain.replace(',', ";").replacen(".", ",", 1);
    let found = comma
        .lines()
        .find(|line| line.contains(','))
        .expect("a decimal comma");
    let number = found
        .split(';')
        .find(|field| field.contains(','))
        .expect("a field");
    let line = 1 + comma
        .lines()
        .position(|line| line == found)
        .expect("its line");
    refused(
        &comma,
        &format!(
            "line {line}: column `time_ms`: expected a number with a decimal point, not a comma, found `{number}`"
        ),
    );
    let utf_16: Vec<u8> = [0xfeff]
        .into_iter()
        .chain(plain.encode_utf16())
        .flat_map(u16::to_le_bytes)
        .collect();
    refused(utf_16, "the text is in UTF-16; save it as UTF-8");
}

#[test]
fn a_time_or_power_that_is_not_positive_and_finite() {
    let time = "expected a time in ms above zero and below 4294967 (71 minutes), or a blank";
    let power = "expected a power in mW from 100 to below 1000000 (1 kW), or a blank";
    for (column, expected) in [("time_ms", time), ("power_mw", power)] {
        for (value, advice) in [
            ("0", ""),
            ("-5", ""),
            ("NaN", "; leave an unknown value blank"),
            ("inf", ""),
            ("-inf", ""),
            ("1e400", ""),
        ] {
            let expected =
                format!("line 5: column `{column}`: {expected}, found `{value}`{advice}");
            refused(with_field(column, value), &expected);
        }
    }
    for (column, expected, value, advice) in [
        ("time_ms", time, "5 s", "write the number alone, in ms"),
        (
            "time_ms",
            time,
            "4294967001",
            "if the column is in µs, divide it by 1000; if it is in ns, by 1000000",
        ),
        ("power_mw", power, "5W", "write the number alone, in mW"),
        (
            "power_mw",
            power,
            "24.2",
            "if the column is in W, multiply it by 1000",
        ),
        (
            "power_mw",
            power,
            "4294967001",
            "if the column is in µW, divide it by 1000",
        ),
    ] {
        let expected = format!("line 5: column `{column}`: {expected}, found `{value}`; {advice}");
        refused(with_field(column, value), &expected);
    }
    refused(
        with_field("time_ms", "1e-60"),
        &format!("line 5: column `time_ms`: {time}, found `1e-60`"),
    );
}

#[test]
fn bytes_that_are_not_utf8() {
    let mut contents = corpus().join("\n").into_bytes();
    let at = contents
        .windows(3)
        .position(|bytes| bytes == b"job")
        .expect("a workload");
    contents[at] = 0xFF;
    refused(
        contents,
        "line 2: column `workload`: expected text in UTF-8; if the file is in Latin-1, save it as UTF-8",
    );
}

#[test]
fn a_name_that_is_none() {
    let expected = "expected a name of 1 to 64 characters, found";
    refused(
        with_field("device", ""),
        &format!("line 5: column `device`: {expected} ``"),
    );
    let long = "x".repeat(65);
    let shown = "x".repeat(40);
    refused(
        with_field("workload", &long),
        &format!("line 5: column `workload`: {expected} `{shown}`"),
    );
}

#[test]
fn two_workloads_in_one_file() {
    refused(
        with_field("workload", "other"),
        "line 5: column `workload`: `other` is another workload than that of the rows before; the file has job, other: pick one \
         with --workload, or write a file for each",
    );
    refused(
        with_field("device", "other"),
        "line 5: column `device`: expected `board` as in the rows before, found `other`: one file holds one workload on one board; write a file for each",
    );
}

#[test]
fn a_kind_that_is_none_or_changes() {
    let with_kind = |kinds: &[&str]| {
        let mut lines = corpus();
        lines[0] += ",kind";
        let rows = lines[1..].iter_mut().zip(kinds.iter().cycle());
        rows.for_each(|(line, kind)| *line += &format!(",{kind}"));
        lines.join("\n")
    };
    refused(
        with_kind(&["guessed"]),
        "line 2: column `kind`: expected `measured`, `simulated` or `recorded`, found `guessed`",
    );
    refused(
        with_kind(&["simulated", "measured"]),
        "line 3: column `kind`: expected `simulated` as in the rows before, found `measured`: one file holds one workload on one board; write a file for each",
    );
}

#[test]
fn too_many_modes_for_a_grid() {
    let mut lines = vec![HEADER.to_owned()];
    lines.extend((1..=129).map(|i| format!("board,job,{i},10000,10000,10000,1,1000")));
    refused(
        lines.join("\n"),
        "line 79: the axes of the grid hold more than 80 values",
    );
    let mut lines = vec![HEADER.to_owned()];
    lines.extend((1..=32).map(|i| {
        let [few, many] = [10_000 + i.min(16), 10_000 + i];
        format!("board,job,{},{few},{many},{many},1,1000", i.min(16))
    }));
    refused(
        lines.join("\n"),
        "line 17: the grid has more than 65535 modes",
    );
}

#[test]
fn too_few_modes() {
    let expected = "only 4 distinct modes have a time; at least 5 are needed; measure more";
    let mut lines = corpus();
    lines.truncate(5);
    let repeated = [lines.clone(), lines[1..].to_vec()].concat();
    let folder = folder();
    for rows in [lines, repeated] {
        write(folder.path(), "corpus.csv", rows.join("\n"));
        let run = run(folder.path(), "fit corpus.csv -o model.wgt");
        assert_eq!(run.stderr, format!("error: corpus.csv: {expected}\n"));
        assert_eq!(run.code, 3);
        assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 1);
    }
}

#[test]
fn too_few_powers() {
    let mut lines = corpus();
    for line in &mut lines[5..] {
        let (without_power, _) = line.rsplit_once(',').expect("fields");
        *line = format!("{without_power},");
    }
    let folder = folder();
    write(folder.path(), "corpus.csv", lines.join("\n"));
    let run = run(folder.path(), "fit corpus.csv -o model.wgt");
    assert_eq!(
        run.stderr,
        "error: corpus.csv: only 4 of the modes to train on have a power; at least 5 are needed, or none for a model of time alone; measure more\n"
    );
    assert_eq!(run.code, 3);
}

#[test]
fn values_that_are_not_finite() {
    for (value, advice) in [
        ("NaN", "; leave an unknown value blank"),
        ("inf", ""),
        ("-1", ""),
        ("0", ""),
    ] {
        let expected = format!(
            "line 5: column `time_ms`: expected a time in ms above zero and below 4294967 (71 minutes), or a blank, \
             found `{value}`{advice}"
        );
        refused(with_field("time_ms", value), &expected);
    }
}

/// Targets that never change do not follow the clocks either.
#[test]
fn a_constant_target() {
    let folder = folder();
    let path = folder.path();
    let constant =
        |line: &String| format!("{},50,4000", line.rsplitn(3, ',').nth(2).expect("fields"));
    let rows: Vec<String> = corpus()[1..].iter().map(constant).collect();
    write(path, "corpus.csv", format!("{HEADER}\n{}", rows.join("\n")));
    let fit = run(path, "fit corpus.csv --modes 20 -o model.wgt");
    assert_eq!(fit.code, 3, "{}", fit.stdout);
    let expected = "corpus.csv: time and power do not follow clocks and cores";
    assert!(fit.stderr.contains(expected), "{}", fit.stderr);
}

/// A row that `plan --output` wrote and nobody filled in.
#[test]
fn a_row_without_time_and_power() {
    let mut lines = corpus();
    let (mode, _) = lines[4].rsplit_once(',').expect("fields");
    let (mode, _) = mode.rsplit_once(',').expect("fields");
    lines[4] = format!("{mode}, ,");
    refused(
        lines.join("\n"),
        "line 5: neither time_ms nor power_mw; fill them in, delete the row, or skip such rows with --skip-blank",
    );
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", lines.join("\n"));
    write(path, "whole.csv", common::corpus_of_another().join("\n"));
    let blank = "error: corpus.csv: line 5: neither time_ms nor power_mw;";
    for command in [
        "plan corpus.csv --board whole.csv --modes 20",
        "fit whole.csv --reference corpus.csv -o model.wgt",
    ] {
        let refused = run(path, command);
        assert_eq!(refused.code, 3, "{command}");
        assert!(refused.stderr.starts_with(blank), "{}", refused.stderr);
        if !command.starts_with("fit") {
            let skipped = run(path, &format!("{command} --skip-blank"));
            assert_eq!(skipped.code, 0, "{command}: {}", skipped.stderr);
        }
    }
    // `wattgate profile` says why a row has no measurement.
    lines[0] += ",mark";
    lines[1..].iter_mut().for_each(|line| *line += ",");
    lines[4] += "over_limit";
    write(path, "corpus.csv", lines.join("\n"));
    assert_eq!(run(path, "check corpus.csv").code, 0);
    assert_eq!(run(path, "fit corpus.csv --modes 20 -o model.wgt").code, 0);
}

#[test]
fn check_reports_every_defect_and_the_sound_rest() {
    let mut lines = corpus();
    lines[3] = lines[3].replace("job", "other");
    lines[7] = "nonsense".to_owned();
    let folder = folder();
    write(folder.path(), "corpus.csv", lines.join("\n"));
    write(folder.path(), "sound.csv", corpus().join("\n"));
    let run = run(folder.path(), "check --json corpus.csv sound.csv");
    assert_eq!(run.code, 3);
    assert_eq!(
        run.stderr,
        "error: defects were found; correct or delete the rows that are named above\n"
    );
    let json: serde_json::Value = serde_json::from_str(&run.stdout).expect("JSON");
    let (first, second) = (&json["files"][0], &json["files"][1]);
    assert_eq!(first["defect_count"], 2);
    assert_eq!(first["rows"], 94);
    let expected =
        "line 8: expected 8 fields as in the header, found 1; complete the row, or delete it";
    assert_eq!(first["defects"][1], expected);
    assert_eq!(
        (&second["defect_count"], &second["rows"]),
        (&0.into(), &96.into())
    );
}

/// Ten million rows in less than 512 MiB of address space.
#[test]
fn ten_million_rows_are_streamed() {
    let limited = "ulimit -v 524288 && exec \"$0\" check --json /dev/stdin";
    let program = program();
    let mut child = std::process::Command::new("sh")
        .args(["-c", limited])
        .arg(program.get_program())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a shell");
    let rows = corpus();
    let mut input = BufWriter::new(child.stdin.take().expect("a pipe"));
    writeln!(input, "{HEADER}").expect("the program reads");
    for row in rows[1..].iter().cycle().take(10_000_000) {
        writeln!(input, "{row}").expect("the program reads");
    }
    drop(input);
    let run: Run = common::finished(child.wait_with_output().expect("an output"));
    let json = run.json();
    assert_eq!(json["files"][0]["rows"], 10_000_000);
    assert_eq!(json["files"][0]["modes"], 96);
}

/// The corpus with the optional columns in all rows, those of the fifth line changed.
fn with_columns(columns: &str, all: &str, fifth: &str) -> String {
    let mut lines = corpus();
    lines[0] += &format!(",{columns}");
    for line in &mut lines[1..] {
        *line += &format!(",{all}");
    }
    let length = lines[4].len() - all.len();
    lines[4].truncate(length);
    lines[4] += fifth;
    lines.join("\n")
}

#[test]
fn columns_of_the_feeding_are_checked() {
    for (column, all, fifth, expected) in [
        (
            "minibatch",
            "16",
            "0",
            "expected a number of samples above zero, or a blank, found `0`",
        ),
        (
            "workers",
            "4",
            "-1",
            "expected a number of workers, 0 … 1024, or a blank, found `-1`",
        ),
        (
            "epoch",
            "1",
            "first",
            "expected the number of the epoch, from 0, or a blank, found `first`",
        ),
        (
            "fetch_ms",
            "0",
            "-2",
            "expected a time in ms from zero, or a blank, found `-2`",
        ),
        (
            "fetch_ms",
            "0",
            "99999",
            "99999 ms is longer than the step, 15 ms; correct one of them",
        ),
        (
            "compute_ms",
            "1.5",
            "nan",
            "expected a time in ms from zero, or a blank, found `nan`",
        ),
        (
            "compute_ms",
            "1.5",
            "15.5",
            "15.5 ms is longer than the step, 15 ms; correct one of them",
        ),
    ] {
        let contents = with_columns(column, all, fifth);
        refused(&contents, &format!("line 5: column `{column}`: {expected}"));
    }
    // Both parts fit into the step one by one, and not together.
    refused(
        with_columns("fetch_ms,compute_ms", "1,1", "10,8"),
        "line 5: column `compute_ms`: 18 ms is longer than the step, 15 ms; correct one of them",
    );
}

/// A command of one feeding refuses a file of several; `check` has a summary of each.
#[test]
fn several_feedings_are_no_defect() {
    for (column, all, fifth) in [
        ("minibatch", "16", "32"),
        ("workers", "4", ""),
        ("storage", "ssd", "hdd"),
        ("epoch", "1", "0"),
    ] {
        let folder = folder();
        let path = folder.path();
        write(path, "corpus.csv", with_columns(column, all, fifth));
        let fit = run(path, "fit corpus.csv -o model.wgt");
        let expected = format!(
            "error: corpus.csv: line 5: column `{column}`: expected `{all}` as in the rows before, found `{fifth}`: \
             such a file is for `characterize`, `advise` and `fit --minibatch`\n"
        );
        assert_eq!((fit.code, fit.stderr), (3, expected));
        let check = run(path, "check corpus.csv --json").json();
        let files = check["files"].as_array().expect("a list");
        let rows: Vec<_> = files.iter().map(|file| file["rows"].as_u64()).collect();
        assert_eq!(rows, [Some(95), Some(1)]);
        assert!(files.iter().all(|file| file["defect_count"] == 0));
    }
}

#[test]
fn a_part_of_a_step_needs_its_time() {
    let mut lines: Vec<String> = with_columns("fetch_ms", "", "1.5")
        .lines()
        .map(str::to_owned)
        .collect();
    let mut fields: Vec<&str> = lines[4].split(',').collect();
    fields[6] = "";
    lines[4] = fields.join(",");
    refused(
        lines.join("\n"),
        "line 5: a part of a step is told, but no time_ms; fill it in, or leave the part blank",
    );
}
