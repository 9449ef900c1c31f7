//! The output and the error messages of the commands `anchors` and `corpus`.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::tempdir;

fn run(arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wattgate-simulator"))
        .args(arguments.split_whitespace())
        .output()
        .expect("the program runs")
}

fn refused(arguments: &str, code: i32) -> String {
    let output = run(arguments);
    let stderr = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{arguments}: {stderr}");
    assert!(output.stdout.is_empty(), "{arguments}");
    stderr
}

fn files(folder: &Path) -> usize {
    fs::read_dir(folder).expect("a folder").count()
}

#[test]
fn anchors_are_printed_with_both_figures() {
    let table = run("anchors");
    assert!(table.status.success());
    let table = String::from_utf8(table.stdout).expect("text");
    assert!(
        table.contains("orin-agx-64 MAXN, resnet18: power"),
        "{table}"
    );
    let json = run("anchors --json").stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).expect("JSON");
    let all = json.as_array().expect("a list");
    assert_eq!(
        all.len(),
        table
            .lines()
            .filter(|line| line.starts_with("  ") || line.starts_with("* "))
            .count()
    );
    assert_eq!(all[0]["published"], 3.05);
    assert!(all[0]["simulated"].is_f64());
}

#[test]
fn loads_in_shards_are_the_whole() {
    let folder = tempdir().expect("a folder");
    let weights = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../weights");
    let command = format!(
        "loads --kind llm --board orin-agx-64 --limit-pct 45,75 --seeds 2 --weights {weights}"
    );
    let whole = run(&command).stdout;
    assert!(!whole.is_empty());
    let part = |number: u32| {
        let part = run(&format!("{command} --shard {number}/3"));
        assert!(part.status.success());
        let path = folder.path().join(format!("part-{number}"));
        fs::write(&path, part.stdout).expect("written");
        path.display().to_string()
    };
    let parts = [3, 1, 2].map(part);
    let merged = run(&format!("merge {}", parts.join(" "))).stdout;
    assert_eq!(String::from_utf8(merged), String::from_utf8(whole));
    let lost = refused(&format!("merge {} {}", parts[0], parts[1]), 3);
    assert!(
        lost.contains("shard 2/3 is missing: `loads --kind"),
        "{lost}"
    );
    assert!(refused("merge", 2).contains("missing PART"));
    assert!(refused("scenarios --shard 1/2", 2).contains("takes no --shard; loads, units do"));
}

#[test]
fn a_corpus_has_the_papers_modes_and_says_that_it_is_simulated() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("orin.csv");
    let arguments = format!(
        "corpus --board orin-agx-64 --workload lstm --minibatch 8 --seed 2 -o {}",
        path.display()
    );
    assert!(run(&arguments).status.success());
    let text = fs::read_to_string(&path).expect("written");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind,minibatch,unit,tpc_pg_mask"
        )
    );
    assert_eq!(lines.clone().count(), 4_368);
    assert!(
        lines.all(|line| line.starts_with("orin-agx-64,lstm,")
            && line.ends_with(",simulated,8,8ff8117c,0"))
    );
    let first = text.clone();
    assert!(run(&arguments).status.success());
    assert_eq!(
        fs::read_to_string(&path).expect("written"),
        first,
        "the same seed gives other bytes"
    );
}

#[test]
fn a_corpus_can_tell_how_the_workload_is_fed() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("fed.csv");
    let arguments = format!(
        "corpus --board xavier-agx --workload mobilenetv3 --modes characterizing --minibatch 8,16 \
         --workers 0,4 --storage hdd --epoch first,later -o {}",
        path.display()
    );
    assert!(run(&arguments).status.success());
    let text = fs::read_to_string(&path).expect("written");
    let mut lines = text.lines();
    let header = lines.next().expect("a header");
    assert!(
        header.ends_with(",minibatch,unit,tpc_pg_mask,fetch_ms,compute_ms,workers,storage,epoch")
    );
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 10 * 8);
    let number = |cell: &str| cell.parse::<f64>().expect("a number");
    for row in &rows {
        let [time, fetch, compute] = [6, 12, 13].map(|at| number(row[at]));
        assert!(
            fetch >= 0.0 && compute > 0.0 && fetch + compute <= time + 1e-3,
            "{row:?}"
        );
    }
    let fetch = |workers, epoch| {
        let rows = rows
            .iter()
            .filter(|row| row[14..] == [workers, "hdd", epoch]);
        rows.map(|row| number(row[12])).sum::<f64>()
    };
    assert!(fetch("0", "0") > fetch("0", "1") && fetch("0", "1") > fetch("4", "1"));
}

#[test]
fn a_workload_can_be_a_file_of_the_user() {
    let folder = tempdir().expect("a folder");
    let [workload, corpus] = ["mine.toml", "mine.csv"].map(|name| folder.path().join(name));
    let lenet = include_str!("../../../workloads/lenet.toml");
    fs::write(&workload, lenet.replace("\"lenet\"", "\"mine\"")).expect("written");
    let arguments = format!(
        "corpus --board tx2 --modes random:7 --workload {} -o {}",
        workload.display(),
        corpus.display()
    );
    assert!(run(&arguments).status.success());
    let text = fs::read_to_string(&corpus).expect("written");
    assert_eq!(
        text.lines()
            .filter(|line| line.starts_with("tx2,mine,"))
            .count(),
        7
    );
}

#[test]
fn unknown_names_and_wrong_numbers_are_named() {
    let folder = tempdir().expect("a folder");
    let to = folder.path().join("c.csv").display().to_string();
    for (arguments, message) in [
        (
            "--board thor --workload lenet",
            "error: unknown board `thor`; there are orin-agx-64, ",
        ),
        (
            "--board nano --workload lenet",
            "error: `nano` cannot be simulated, because these are not published of it: the EMC table; name another board\n",
        ),
        (
            "--board tx1 --workload lenet",
            "error: `tx1` cannot be simulated, because these are not published of it: the CPU table, ",
        ),
        (
            "--board tx2 --workload alexnet",
            "error: unknown workload `alexnet`; there are resnet18, ",
        ),
        (
            "--board tx2 --workload lenet",
            "error: no paper profiled `tx2`; take all or random:N modes\n",
        ),
        (
            "--board tx2 --workload lenet --modes random:0",
            "error: cannot profile 0 modes: `tx2` has 10296; ask for 1 to 10296\n",
        ),
        (
            "--board tx2 --workload lenet --modes random:99999",
            "error: cannot profile 99999 modes: `tx2` has 10296; ask for 1 to 10296\n",
        ),
        (
            "--board tx2 --workload lenet --modes mode:4,1,2,3",
            "error: 4,1,2,3 is not a mode of `tx2`, whose clocks in kHz `--modes all` lists\n",
        ),
        (
            "--board tx2 --workload lenet --modes some",
            "error: --modes is `some`, expected papers, characterizing, all, random:N or mode:CORES,CPU,GPU,EMC\n",
        ),
        (
            "--board tx2 --workload lenet --modes all --seed -1",
            "error: --seed is `-1`, expected a whole number, 0 to 18446744073709551615\n",
        ),
        (
            "--board tx2 --workload lenet --modes all --seed 18446744073709551616",
            "error: --seed is `18446744073709551616`, expected a whole number, 0 to 18446744073709551615\n",
        ),
        (
            "--board tx2 --workload lenet --modes all --minibatch 0",
            "error: lenet: `minibatch` is 0, expected 1 … 4096",
        ),
        (
            "--board xavier-agx --workload mobilenetv3 --minibatch 4000",
            "error: `mobilenetv3` with a minibatch of 4000 needs 405.6 GB, but `xavier-agx` has 33.2 GB for \
             a training; at most 275 samples fit, so ask for fewer\n",
        ),
        (
            "--board tx2 --workload bert --modes all --storage ssd",
            "error: `bert` with a minibatch of 16 needs 20.0 GB",
        ),
        (
            "--board xavier-agx --workload bert --storage ssd",
            "error: `bert` has no `[data]`, which a storage needs; name another workload, or a file with it\n",
        ),
        (
            "--board tx2 --workload lenet --modes all --storage floppy",
            "error: --storage is `floppy`, expected ssd, hdd or sd\n",
        ),
        (
            "--board tx2 --workload lenet --modes all --workers 1,1",
            "error: --workers is `1,1`, expected whole numbers\n",
        ),
        (
            "--board tx2 --workload lenet --modes all --epoch first",
            "error: missing --storage, which --epoch needs\n",
        ),
        (
            "--board tx2 --workload lenet --modes characterizing",
            "error: no paper profiled `tx2`; take all or random:N modes\n",
        ),
        ("--workload lenet", "error: missing --board or --truth\n"),
        ("--board tx2", "error: missing --workload, such as"),
    ] {
        let of_workload = ["minibatch", "`[data]`"];
        let code = match of_workload.iter().any(|word| message.contains(word)) {
            true => 3,
            false => 2,
        };
        let stderr = refused(&format!("corpus {arguments} -o {to}"), code);
        assert!(stderr.starts_with(message), "{arguments}: {stderr}");
    }
    assert!(
        refused("corpus --board tx2 --workload lenet --modes all", 2)
            .starts_with("error: missing -o, the file to write")
    );
    assert_eq!(files(folder.path()), 0, "something was written");
}

#[test]
fn a_workload_with_impossible_numbers_is_refused_by_name() {
    let folder = tempdir().expect("a folder");
    let [workload, corpus] = ["w.toml", "c.csv"].map(|name| folder.path().join(name));
    let lenet = include_str!("../../../workloads/lenet.toml");
    let first = |start: &str| {
        let line = lenet.lines().find(|line| line.starts_with(start));
        line.expect("a line of the file").to_owned()
    };
    for (line, other, message) in [
        (
            first("samples"),
            "samples = 0",
            "`samples` is 0, expected 1 … 1000000000",
        ),
        (
            first("minibatch"),
            "minibatch = 5000",
            "`minibatch` is 5000, expected 1 … 4096",
        ),
        (
            first("workers"),
            "workers = 1000",
            "`loader.workers` is 1000, expected 0 … 64",
        ),
        (
            first("mcycles_per_sample"),
            "mcycles_per_sample = -1.0",
            "`loader.mcycles_per_sample` is -1, expected 0 … 1000000",
        ),
        (
            first("launch_kcycles"),
            "launch_kcycles = nan",
            "`host.launch_kcycles` is NaN, expected",
        ),
        (
            first("efficiency"),
            "efficiency = 1.5",
            "`kernels[0].efficiency` is 1.5, expected 0.0001 … 1",
        ),
        (
            first("count"),
            "count = inf",
            "`kernels[0].count` is inf, expected",
        ),
        (first("warm_up"), "warm_up = \"long\"", "invalid type"),
        (first("warm_up"), "warmup = 6.0", "unknown field `warmup`"),
        (
            first("name"),
            "name = \"a,b\"",
            "`name` is `a,b`, expected letters",
        ),
        (first("name"), "", "missing field `name`"),
    ] {
        fs::write(&workload, lenet.replacen(&line, other, 1)).expect("written");
        let arguments = format!(
            "corpus --board tx2 --modes all --workload {} -o {}",
            workload.display(),
            corpus.display()
        );
        let stderr = refused(&arguments, 3);
        assert!(
            stderr.starts_with(&format!("error: {}: ", workload.display())),
            "{stderr}"
        );
        assert!(stderr.contains(message), "{other}: {stderr}");
    }
    assert_eq!(files(folder.path()), 1, "something was written");
}

#[test]
fn a_corpus_that_cannot_be_written_leaves_nothing() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("nowhere/c.csv");
    let path = path.display();
    let arguments = format!("corpus --board tx2 --workload lenet --modes random:9 -o {path}");
    let nowhere = refused(&arguments, 5);
    let expected = format!("error: {path}: cannot write: No such file");
    assert!(nowhere.starts_with(&expected), "{nowhere}");
}

#[test]
fn a_kernel_corpus_has_rows_of_all_kernels_and_says_that_it_is_simulated() {
    let folder = tempdir().expect("a folder");
    let path = folder.path().join("kernels.csv");
    let arguments = "kernels --board xavier-agx --units 3 --rows 280 --seed 2 -o";
    let output = run(&format!("{arguments} {}", path.display()));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "490 kernels on 3 units of xavier-agx, simulated\n"
    );
    let text = fs::read_to_string(&path).expect("written");
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some(
            "device,unit,kernel,batch,channels,height,width,out_channels,kernel_h,kernel_w,\
             stride_h,stride_w,padding_h,padding_w,dilation_h,dilation_w,groups,out_h,out_w,rows,\
             inner,columns,inputs,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind"
        )
    );
    assert_eq!(lines.clone().count(), 490);
    assert!(lines.all(|line| line.starts_with("xavier-agx,") && line.ends_with(",simulated")));
}

#[test]
fn a_kernel_corpus_of_nothing_is_refused() {
    let folder = tempdir().expect("a folder");
    let to = folder.path().join("kernels.csv");
    for (arguments, message) in [
        ("--units 3", "error: missing --board, such as"),
        (
            "--board thor-t5000",
            "error: `thor-t5000` cannot be simulated, because these are not published of it: ",
        ),
        (
            "--board tx2 --units 0",
            "error: --units is `0`, expected 1 … 1000\n",
        ),
        (
            "--board tx2 --units 1001",
            "error: --units is `1001`, expected 1 … 1000\n",
        ),
        (
            "--board tx2 --rows 0",
            "error: --rows is `0`, expected 1 … 100000000\n",
        ),
        (
            "--board tx2 --rows many",
            "error: --rows is `many`, expected 1 … 100000000\n",
        ),
    ] {
        let stderr = refused(&format!("kernels {arguments} -o {}", to.display()), 2);
        assert!(stderr.starts_with(message), "{arguments}: {stderr}");
    }
    assert!(refused("kernels --board tx2", 2).starts_with("error: missing -o, the file to write"));
    assert_eq!(files(folder.path()), 0, "something was written");
}

/// Mounts a file system of 16 KiB. Where Linux forbids the mount, the test is skipped.
#[test]
fn a_full_disk_is_an_error_and_leaves_nothing() {
    let folder = tempdir().expect("a folder");
    let full = |script: &str| {
        let script = format!(
            "mount -t tmpfs -o size=16k none {} && {script}",
            folder.path().display()
        );
        let run = Command::new("unshare")
            .args(["-Urm", "sh", "-c", &script])
            .output();
        run.expect("unshare is part of util-linux")
    };
    if !full("true").status.success() {
        eprintln!("skipped: this kernel mounts nothing for users");
        return;
    }
    let program = env!("CARGO_BIN_EXE_wattgate-simulator");
    let at = folder.path().display();
    let corpus = full(&format!(
        "{program} corpus --board tx2 --workload lenet --modes random:500 -o {at}/c.csv; \
         echo $?; ls -A {at}"
    ));
    assert_eq!(String::from_utf8_lossy(&corpus.stdout), "5\n");
    let stderr = String::from_utf8_lossy(&corpus.stderr).into_owned();
    assert!(
        stderr.contains("c.csv: cannot write: No space left on device"),
        "{stderr}"
    );
    let kernels = full(&format!(
        "{program} kernels --board tx2 --rows 5000 -o {at}/k.csv; echo $?; ls -A {at}"
    ));
    assert_eq!(String::from_utf8_lossy(&kernels.stdout), "5\n");
    let board = full(&format!(
        "{program} board --board tx2 --root {at}/board; echo $?; ls -A {at}"
    ));
    assert_eq!(String::from_utf8_lossy(&board.stdout), "5\n");
    let stderr = String::from_utf8_lossy(&board.stderr).into_owned();
    assert!(stderr.contains("No space left on device"), "{stderr}");
}

/// The trainer of this test is a script that copies a shipped model. Each row and its figures are checked, and what is
/// refused.
#[test]
fn units_are_judged_with_models_of_one_unit_and_of_three() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempdir().expect("a folder");
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models/xavier-agx-resnet18.wgt");
    let trainer = folder.path().join("trainer");
    let copy = format!(
        "#!/bin/sh\nwhile [ \"$1\" != -o ]; do shift; done\ncp {} \"$2\"\n",
        model.display()
    );
    fs::write(&trainer, copy).expect("written");
    fs::set_permissions(&trainer, fs::Permissions::from_mode(0o755)).expect("executable");
    let with = |trainer: &str, more: &str| {
        format!(
            "units --board xavier-agx --units 2 --trained 3,1 --draws 1 --spread 1 --daemon 0 --limit-pct 50 \
             --trainer {trainer} {more}"
        )
    };
    let page = folder.path().join("units.html");
    let asked = with(
        &trainer.display().to_string(),
        &format!("--json -o {}", page.display()),
    );
    let output = run(&asked);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let rows: Vec<(u64, &str, f64)> = rows
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            let speed = row["speed_pct"].as_f64().expect("a number");
            assert!((20.0..=110.0).contains(&speed), "{row}");
            (
                row["trained"].as_u64().expect("a number"),
                row["choice"].as_str().expect("text"),
                speed,
            )
        })
        .collect();
    let names: Vec<(u64, &str)> = rows.iter().map(|(n, choice, _)| (*n, *choice)).collect();
    assert_eq!(
        names,
        [
            (1, "once"),
            (1, "once, profiled unit"),
            (3, "once"),
            (3, "once, computed"),
            (3, "once, profiled unit")
        ]
    );
    // The same file, with a narrower margin.
    assert!(rows[3].2 >= rows[0].2);
    assert!(fs::read_to_string(&page).expect("a page").contains("<svg"));
    let missing = refused(&with("/no/such/trainer", ""), 5);
    assert!(missing.contains("/no/such/trainer"), "{missing}");
    let failing = refused(&with("false", ""), 3);
    assert!(failing.starts_with("error: "), "{failing}");
}
