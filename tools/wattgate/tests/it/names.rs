//! The names of workloads, and where their files are; what fails before anything is measured.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use wattgate_cli::steps::StepLine;
use wattgate_watchdog::steps::senders::{Counter, Senders};

use crate::faults::{model, modes};
use crate::living::{Living, STEPS, planner, run, workload};

/// The folder of a kind of files of the board.
fn folder(living: &Living, kind: &str) -> PathBuf {
    let of_all = living.root().join("var/lib/wattgate").join(kind);
    of_all.join(living.name)
}

/// The names of the files in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort_unstable();
    names
}

/// `wattgate profile` of the listed modes, without a corpus and a name.
fn profile(living: &Living) -> Command {
    let mut command = living.command("profile");
    command.args(["--modes", "modes.csv"]);
    command
}

/// `wattgate learn` with a planner that asks for five modes and fits a model.
fn learn(living: &Living, model: &Path, options: &[&str]) -> Command {
    let planner = planner(living.folder.path(), &modes(5), model);
    let mut command = living.command("learn");
    command.args(["--limit", "30W", "--hold", "1", "--planner", &planner]);
    command.args(options);
    command
}

#[test]
fn two_scripts_of_one_interpreter_keep_their_rows_apart() {
    let living = Living::start();
    for name in ["a", "b"] {
        fs::write(living.path(&format!("{name}.sh")), STEPS).expect("written");
        let mut command = profile(&living);
        command.args(["--steps-from", r"step (\d+)", "--", "sh"]);
        let (code, _, errors) = run(command.arg(format!("{name}.sh")));
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            errors.contains(&format!("the workload is `{name}`")),
            "{errors}"
        );
    }
    let corpora = folder(&living, "corpora");
    assert_eq!(files(&corpora), ["a.csv", "b.csv"]);
    let rows = fs::read_to_string(corpora.join("a.csv")).expect("rows");
    assert_eq!(rows.matches("orin-agx-64,a,").count(), 2, "{rows}");
}

#[test]
fn the_name_that_a_workload_tells_is_its_name() {
    let living = Living::start();
    let script = r#"while :; do "$0" step --name YOLO; done"#;
    let mut command = profile(&living);
    command.args(["--", "sh", "-c", script, env!("CARGO_BIN_EXE_wattgate")]);
    let (code, _, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(files(&folder(&living, "corpora")), ["yolo.csv"]);
    // The user knows best.
    let mut command = profile(&living);
    command.args(["--name", "mine", "--", "sh", "-c", script]);
    let (code, _, errors) = run(command.arg(env!("CARGO_BIN_EXE_wattgate")));
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(files(&folder(&living, "corpora")), ["mine.csv", "yolo.csv"]);
}

#[test]
fn a_workload_without_a_name_is_asked_for_one() {
    let living = Living::start();
    let before = living.settings();
    let mut command = profile(&living);
    command.args(["--steps-from", r"step (\d+)", "--", "sh", "-c", STEPS]);
    let (code, _, errors) = run(&mut command);
    assert_eq!(code, Some(2), "{errors}");
    let asked = "error: `sh -c` does not tell the name of the workload: name it with --name\n";
    assert!(errors.ends_with(asked), "{errors}");
    living.await_settings(&before);
    for name in ["YOLO", "a/b", ""] {
        let (code, _, errors) = run(profile(&living).args(["--name", name, "true"]));
        assert_eq!(code, Some(2), "{errors}");
        assert!(
            errors.contains("--name: expected 1 to 40 of a-z"),
            "{errors}"
        );
    }
    assert!(files(&folder(&living, "corpora")).is_empty());
}

#[test]
fn rows_of_two_names_do_not_mix() {
    let living = Living::start();
    let (code, _, errors) = run(&mut living.profile(&[], STEPS));
    assert_eq!(code, Some(0), "{errors}");
    let rows = living.rows();
    let mut command = profile(&living);
    command.args([
        "-o",
        "corpus.csv",
        "--name",
        "other",
        "--steps-from",
        r"step (\d+)",
    ]);
    let (code, _, errors) = run(command.args(["--", "sh", "-c", STEPS]));
    assert_eq!(code, Some(3), "{errors}");
    let expected = "corpus.csv: line 2 is of workload `sh`, expected `other`; name another file with -o, or say \
                    --name sh if it is the same workload\n";
    assert!(errors.ends_with(expected), "{errors}");
    assert_eq!(living.rows(), rows);
}

#[test]
fn senders_have_a_name_if_they_tell_one() {
    let mut senders = Senders::default();
    let mut take = |process: i32, text: &str| {
        let line = StepLine::parse(text.as_bytes()).expect("a line");
        let process = Some(process);
        let address = None;
        senders.take(Counter { process, address }, line);
        senders.name().map(str::to_owned)
    };
    assert_eq!(take(1, "steps=1"), None);
    assert_eq!(take(2, "steps=1 name=yolo").as_deref(), Some("yolo"));
    assert_eq!(take(3, "steps=2 name=yolo").as_deref(), Some("yolo"));
    assert_eq!(take(3, "steps=2 name=bert"), None);
}

#[test]
fn what_was_learned_is_found_by_its_name() {
    let living = Living::loaded();
    let mut command = learn(&living, &model(), &[]);
    workload(&mut command, STEPS);
    let (code, _, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(files(&folder(&living, "models")), ["sh.wgt"]);
    assert_eq!(files(&folder(&living, "corpora")), ["sh.csv"]);
    // No daemon's config, but the model of the name.
    fs::remove_file(living.root().join("etc/wattgated.toml")).expect("written by `learn`");
    let mut command = living.command("run");
    workload(command.args(["--limit", "30W", "--time", "1"]), STEPS);
    let (code, held, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains("the model is ") && errors.contains("/sh.wgt\n"),
        "{errors}"
    );
    assert!(held.contains("held 30 W"), "{held}");
    // The file is of ResNet-18, which the planner fits whatever the workload is.
    let mut command = learn(&living, &model(), &[]);
    workload(&mut command, STEPS);
    let (code, _, errors) = run(&mut command);
    assert_eq!(code, Some(3), "{errors}");
    let expected =
        "the model is of `resnet18` on board `orin-agx-64`, expected `sh` on `orin-agx-64`";
    assert!(errors.contains(expected), "{errors}");
}

/// `wattgate run` of a script `train.sh`, which tells the name YOLO with each step, with options before it.
fn run_of_train(living: &Living, options: &[&str]) -> (String, String) {
    let script = r#"while :; do "$1" step --name YOLO; done"#;
    fs::write(living.path("train.sh"), script).expect("written");
    let mut command = living.command("run");
    command
        .args(["--limit", "30W", "--time", "5"])
        .args(options);
    command.args(["sh", "train.sh", env!("CARGO_BIN_EXE_wattgate")]);
    let (code, held, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert!(held.starts_with("held 30 W for "), "{held}");
    (held, errors)
}

#[test]
fn a_name_that_comes_with_the_first_step_changes_the_model() {
    let living = Living::loaded();
    let models = folder(&living, "models");
    fs::create_dir_all(&models).expect("made");
    for name in ["train.wgt", "yolo.wgt"] {
        fs::copy(model(), models.join(name)).expect("copied");
    }
    let (held, errors) = run_of_train(&living, &[]);
    let lines = ["the model is ", "the workload is `yolo`: the model is "];
    let ends = ["/train.wgt\n", "/yolo.wgt from now on\n"];
    for line in lines.into_iter().chain(ends) {
        assert_eq!(
            errors.matches(line).count(),
            1 + usize::from(line == lines[0]),
            "{errors}"
        );
    }
    assert!(errors.contains("model is now "), "{errors}");
    assert!(held.contains(" steps/s"), "{held}");
    // What the user names is settled.
    let path = models.join("train.wgt");
    let path = path.to_str().expect("text");
    for options in [["--name", "train"], ["--model", path]] {
        let (_, errors) = run_of_train(&living, &options);
        assert!(!errors.contains("yolo"), "{errors}");
    }
    fs::remove_file(models.join("yolo.wgt")).expect("there");
    let (_, errors) = run_of_train(&living, &[]);
    let warning = "warning: the workload is `yolo`, of which ";
    assert_eq!(errors.matches(warning).count(), 1, "{errors}");
    assert!(
        errors.contains("; the limit is held with train.wgt; "),
        "{errors}"
    );
}

/// Fails before the workload starts.
fn fails_early(living: &Living, options: &[&str], code: i32, message: &str) {
    let mut command = learn(living, &model(), options);
    workload(&mut command, &format!("echo >started; {STEPS}"));
    let (found, _, errors) = run(&mut command);
    assert_eq!(found, Some(code), "{errors}");
    assert!(errors.contains(message), "{errors}");
    assert!(!living.path("started").exists(), "{errors}");
    assert!(!living.root().join("etc/wattgated.toml").exists());
}

#[test]
fn what_would_fail_after_all_measuring_fails_before_it() {
    let living = Living::loaded();
    fails_early(
        &living,
        &["--modes", "4"],
        2,
        "--modes: 4 modes are too few: a model with a confidence of 95 % needs 5; ask for 5 or more\n",
    );
    fs::write(living.path("file"), "no folder").expect("written");
    fails_early(
        &living,
        &["--model", "file/work.wgt"],
        5,
        "file/work.wgt: cannot be written: ",
    );
    fails_early(
        &living,
        &["-o", "file/c.csv"],
        5,
        "; name another file with -o\n",
    );
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
    let foreign = weights.join("xavier-agx-resnet18.wgt");
    fs::copy(foreign, living.path("other.wgt")).expect("copied");
    fails_early(
        &living,
        &["--model", "other.wgt"],
        3,
        "other.wgt: the model is of `resnet18` on board `xavier-agx`, expected `sh` on `orin-agx-64`; name another file \
         with --model, or move this one away\n",
    );
}

#[test]
fn a_confidence_that_the_modes_do_not_carry_is_refused_before_any_measurement() {
    let living = Living::loaded();
    let config = living.root().join("etc/wattgated.toml");
    for (confidence, message) in [
        (
            "0.99",
            "--modes: 15 modes are too few: a model with a confidence of 99 % needs 49; ask for 49 or more\n",
        ),
        ("0.995", "no model has a confidence of 99.5 %"),
    ] {
        let text =
            format!("version = 1\nmodel = \"m.wgt\"\nlimit = \"20W\"\nconfidence = {confidence}\n");
        fs::write(&config, text).expect("written");
        let mut command = learn(&living, &model(), &[]);
        workload(&mut command, &format!("echo >started; {STEPS}"));
        let (_, _, errors) = run(&mut command);
        assert!(errors.contains(message), "{errors}");
        assert!(!living.path("started").exists(), "{errors}");
    }
}

#[test]
fn a_model_that_a_daemon_would_refuse_is_not_installed() {
    let living = Living::loaded();
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
    let foreign = weights.join("xavier-agx-resnet18.wgt");
    let mut command = learn(&living, &foreign, &["--model", "work.wgt"]);
    workload(&mut command, STEPS);
    let (code, _, errors) = run(&mut command);
    assert_eq!(code, Some(3), "{errors}");
    let message = "the model is not installed, since a daemon would refuse it: ";
    assert!(errors.contains(message), "{errors}");
    assert!(!living.path("work.wgt").exists());
    assert!(!living.root().join("etc/wattgated.toml").exists());
}

#[test]
fn without_a_place_for_the_config_the_limit_is_held_all_the_same() {
    let living = Living::loaded();
    // As below a read-only `/etc`: a folder is in the way.
    let etc = living.root().join("etc");
    fs::rename(&etc, living.path("etc")).expect("moved");
    std::os::unix::fs::symlink("/proc/self", &etc).expect("linked");
    let mut command = learn(&living, &model(), &["--model", "work.wgt"]);
    workload(&mut command, STEPS);
    let (code, held, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    let warned = errors.find("the daemon gets no config").expect("a warning");
    assert!(
        warned < errors.find("learning from").expect("a fit"),
        "{errors}"
    );
    assert!(
        errors.contains("a config of the daemon needs\nversion = 1\n"),
        "{errors}"
    );
    assert!(held.contains("held 30 W"), "{held}");
}
