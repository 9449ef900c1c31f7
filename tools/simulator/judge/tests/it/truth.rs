//! `--truth`: commands on recorded boards, whose figures are marked as recorded.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Output};

use tempfile::TempDir;
use wattgate_judge::files::corpus;
use wattgate_simulated_board::recording::corpus::Row;
use wattgate_simulated_board::tree::mirror::Living;

use crate::eventually::eventually;
use crate::running::command;

/// A corpus of an Orin Nano that no physics of ours made: all modes, with other times and powers than simulated ones.
struct Recorded {
    folder: TempDir,
    corpus: PathBuf,
}

impl Recorded {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let corpus = folder.path().join("corpus.csv");
        let simulated = folder.path().join("simulated.csv");
        let made = command()
            .args([
                "corpus",
                "--board",
                "orin-nano-8-super",
                "--workload",
                "resnet18",
            ])
            .args(["--modes", "random:600", "-o"])
            .arg(&simulated)
            .output()
            .expect("it runs");
        assert!(made.status.success(), "{made:?}");
        let text = fs::read_to_string(simulated).expect("a corpus");
        let mut lines = text.lines();
        let header = lines.next().expect("a header").replace(",kind", ",was");
        let mut changed = format!("{header}\n");
        for line in lines {
            let mut cells: Vec<String> = line.split(',').map(str::to_owned).collect();
            let number = |at: usize| cells[at].parse::<f64>().expect("a number");
            // Slower with a fast GPU, and of more power.
            let tilt = 1.0 + 0.2 * (number(4) / 1_020_000.0 - 0.5);
            let (time, power) = (1.1 * tilt * number(6), 1.05 * tilt * number(7));
            cells[1] = "job".to_owned();
            cells[6] = format!("{time:.4}");
            cells[7] = format!("{power:.1}");
            changed += &(cells.join(",") + "\n");
        }
        fs::write(&corpus, changed).expect("written");
        Self { folder, corpus }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let output = command()
            .args(arguments)
            .arg("--truth")
            .arg(&self.corpus)
            .current_dir(self.folder.path())
            .output();
        output.expect("it runs")
    }

    /// The row with all cores whose power is nearest to 8 W, where nothing throttles.
    fn row(&self) -> Row {
        let rows = corpus::read(&self.corpus, None).expect("a corpus").rows;
        let rows = rows.into_iter().filter(|row| row.knobs[0] == Some(6));
        let off = |row: &Row| (row.power_mw - 8_000.0).abs();
        let nearest = rows.min_by(|a, b| off(a).total_cmp(&off(b)));
        nearest.expect("a row")
    }

    /// What a command prints; it has to succeed.
    fn printed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        let warnings = String::from_utf8(output.stderr).expect("text");
        let holes = "modes of its grid are measured: the others are interpolated";
        assert_eq!(warnings.matches("warning: ").count(), 1, "{warnings}");
        assert!(warnings.contains(holes), "{warnings}");
        String::from_utf8(output.stdout).expect("text")
    }
}

fn weights() -> String {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../weights");
    let model = weights.join("orin-nano-8-super-resnet18.wgt");
    model.to_str().expect("text").to_owned()
}

#[test]
fn figures_of_a_recorded_board_are_marked_as_recorded() {
    let recorded = Recorded::new();
    let model = weights();
    let load = recorded.folder.path().join("load.csv");
    fs::write(&load, "t_ms,activity\n0,1\n20000,0.5\n40000,1\n60000,1\n").expect("written");
    for arguments in [
        &[
            "replay",
            "--weights",
            &model,
            "--limit",
            "12W",
            "--load",
            "load.csv",
        ][..],
        &[
            "loads",
            "--weights",
            &model,
            "--kind",
            "training",
            "--seeds",
            "1",
            "--limit-pct",
            "50",
        ],
        &[
            "scenarios",
            "--weights",
            &model,
            "--only",
            "steady",
            "--seeds",
            "1",
        ],
        &["judge", "--mode", "2", "--model", &model],
    ] {
        let printed = recorded.printed(arguments);
        let (first, _) = printed.split_once('\n').expect("a line");
        assert!(first.ends_with("recorded"), "{arguments:?}: {printed}");
        assert!(!printed.contains("simulated"), "{arguments:?}: {printed}");
    }
}

/// The truth of a recorded board is its corpus.
#[test]
fn the_rows_of_the_corpus_are_the_truth() {
    let recorded = Recorded::new();
    let corpus = recorded.corpus.to_str().expect("text");
    let arguments = [
        "judge",
        "--mode",
        "2",
        "--fan",
        "full",
        "--measured",
        corpus,
        "--json",
    ];
    let printed = recorded.printed(&arguments);
    let verdict: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let p95 = |figure: &str| verdict[figure]["p95"].as_f64().expect("a number");
    assert_eq!(verdict["rows"], 600);
    assert!(p95("row_time_error_pct") < 0.01, "{printed}");
    assert!(p95("row_power_error_pct") < 0.1, "{printed}");
}

/// A profiler on a recorded board measures the rows of its corpus with its own noise.
#[test]
fn a_profiler_on_a_recorded_board_reads_noisy_rows() {
    let recorded = Recorded::new();
    let printed = recorded.printed(&["corpus", "--seed", "3", "-o", "noisy.csv"]);
    assert!(
        printed.starts_with("job on orin-nano-8-super, recorded: 600 modes, "),
        "{printed}"
    );
    let path = recorded.folder.path().join("noisy.csv");
    let text = fs::read_to_string(&path).expect("written");
    let mut lines = text.lines().skip(1);
    assert!(lines.all(|line| line.contains(",recorded,")), "{text}");
    let refused = corpus::read(&path, None).expect_err("no truth");
    let expected = "line 2: column `kind`: expected `measured`, which is what a real board did, found `recorded`";
    assert!(refused.to_string().contains(expected), "{refused}");
    fs::write(&path, text.replace(",recorded,", ",measured,")).expect("written");
    let rows = |path: &Path| -> BTreeMap<_, _> {
        let rows = corpus::read(path, None).expect("a corpus").rows.into_iter();
        rows.map(|row| (row.knobs, [row.time_ms, row.power_mw]))
            .collect()
    };
    let (truth, noisy) = (rows(&recorded.corpus), rows(&path));
    assert!(truth.keys().eq(noisy.keys()), "other modes");
    for (at, name, typical) in [(0, "time", 0.3..1.0), (1, "power", 0.1..2.0)] {
        let error = |knobs| 100.0 * f64::abs(noisy[knobs][at] / truth[knobs][at] - 1.0);
        let mut errors: Vec<f64> = truth.keys().map(error).collect();
        errors.sort_by(f64::total_cmp);
        // Some modes with two or three cores are far off, probably as the noise of the loaders changes the mean pace there.
        let [median, three_of_four] = [errors[300], errors[450]];
        assert!(typical.contains(&median), "{name}: median {median} %");
        assert!(
            three_of_four < 3.0,
            "{name}: {three_of_four} % in one of four rows"
        );
    }
}

/// The daemon holds a limit on a recorded board with a model of which only the shape is right.
#[test]
fn a_limit_is_held_on_a_recorded_board() {
    let recorded = Recorded::new();
    let model = weights();
    let printed = recorded.printed(&[
        "loads",
        "--weights",
        &model,
        "--kind",
        "constant",
        "--seeds",
        "1",
        "--limit-pct",
        "50",
        "--json",
    ]);
    let rows: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
    let row = &rows[0];
    let worst = |figure: &str| row[figure]["worst"].as_f64().expect("a number");
    assert_eq!(row["kind"], "constant");
    assert!(worst("over_430ms_pct") < 0.05, "{row}");
    assert!(worst("speed_vs_fixed_pct") > 80.0, "{row}");
}

#[test]
fn what_a_recorded_board_needs_is_named() {
    let recorded = Recorded::new();
    let load = recorded.folder.path().join("load.csv");
    fs::write(&load, "t_ms,activity\n0,1\n20000,1\n").expect("written");
    for (arguments, code, expected) in [
        (
            &["replay", "--limit", "12W", "--load", "load.csv"][..],
            2,
            "missing --weights: a recorded board needs a model of its corpus, made by `wattgate-trainer fit ",
        ),
        (
            &["loads"],
            2,
            "missing --weights: a recorded board needs a model",
        ),
        (
            &["scenarios"],
            2,
            "missing --weights: a recorded board needs a model",
        ),
        (
            &["judge", "--workload", "bert", "--model", "m.wgt"],
            3,
            "no row of the workload `bert`; the file has job",
        ),
        (
            &["corpus", "--workers", "2", "-o", "c.csv"],
            2,
            "--truth and what feeds a training exclude each other",
        ),
        (
            &["corpus", "--workload", "bert", "-o", "c.csv"],
            3,
            "no row of the workload `bert`; the file has job",
        ),
        (
            &["board", "--root", "b", "--from", "p.gz"],
            2,
            "--from and --truth exclude each other",
        ),
    ] {
        let output = recorded.run(arguments);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    }
    let text = fs::read_to_string(&recorded.corpus).expect("a corpus");
    fs::write(
        &recorded.corpus,
        text.replace("orin-nano-8-super,", "orin-nano,"),
    )
    .expect("written");
    let output = recorded.run(&["judge", "--model", "m.wgt"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("is no board that is known; is it `orin-nano-8`?"),
        "{error}"
    );
    assert_eq!(output.status.code(), Some(3), "{error}");
}

/// A process that is killed when this value is dropped.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The recorded workload as a process on a living recorded board: pace and power are those of the corpus.
#[test]
fn a_living_recorded_board_has_the_pace_and_the_power_of_the_corpus() {
    let recorded = Recorded::new();
    let root = recorded.folder.path().join("board");
    let mut board = command();
    board.args(["board", "--mode", "2", "--speed", "20x", "--truth"]);
    board.arg(&recorded.corpus).arg("--root").arg(&root);
    let _board = Process(board.spawn().expect("started"));
    let last = root.join("var/lib/nvpmodel/status");
    eventually("the files", || last.exists().then_some(()));
    let release = fs::read_to_string(root.join("etc/nv_tegra_release")).expect("there");
    assert!(release.contains("BOARD: recorded"), "{release}");

    let mut workload = command();
    workload.args(["workload", "--truth"]).arg(&recorded.corpus);
    workload.arg("--root").arg(&root);
    let _workload = Process(workload.spawn().expect("started"));
    let living = Living::open(&root).expect("a board");
    let Row {
        knobs: [_, cpu, gpu, emc],
        time_ms,
        power_mw,
        ..
    } = recorded.row();
    let [cpu, gpu, emc] = [cpu, gpu, emc].map(|khz| khz.expect("stated"));
    let policies = "/sys/devices/system/cpu/cpufreq";
    let devfreq = "/sys/devices/platform/17000000.gpu/devfreq/17000000.gpu";
    let clock = "/sys/kernel/debug/bpmp/debug/clk/emc";
    for line in [
        format!("write {policies}/policy0/scaling_max_freq {cpu}"),
        format!("write {policies}/policy4/scaling_max_freq {cpu}"),
        format!("write {devfreq}/max_freq {gpu}000"),
        format!("write {clock}/mrq_rate_locked 1"),
        format!("write {clock}/rate {emc}000"),
    ] {
        living
            .order(&line)
            .unwrap_or_else(|why| panic!("{line}: {why}"));
    }
    let progress = || living.progress().expect("it lives");
    let pass = |seconds: f64| {
        let end = progress().seconds + seconds;
        eventually("time", || (progress().seconds >= end).then_some(()));
        progress()
    };
    let before = pass(5.0);
    let after = pass(60.0);
    let seconds = after.seconds - before.seconds;
    let minibatches = after.work.minibatches - before.work.minibatches;
    let found_ms = 1e3 * seconds / minibatches;
    assert!(
        (found_ms / time_ms - 1.0).abs() < 0.01,
        "{found_ms} {time_ms}"
    );
    let ina = root.join("sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon0");
    let number = |name: &str| {
        let text = fs::read_to_string(ina.join(name)).expect("there");
        let line = text.lines().next().expect("a line").to_owned();
        line.parse::<f64>().expect("a number")
    };
    let found_mw = number("in1_input") * number("curr1_input") / 1e3;
    // The fan is not at full speed, and the power ripples.
    let ratio = found_mw / power_mw;
    assert!((0.95..1.06).contains(&ratio), "{found_mw} {power_mw}");
}
