//! Faults of the board, the workload, the planner and the machine, with the real program.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::process::{Signal, geteuid, test_kill_process};
use wattgate_board::Disk;
use wattgate_profiler::row::{self, CorpusFile, Mark, Row};
use wattgate_runtime::PowerMode;
use wattgate_watchdog::saved_state::{Origin, SavedState};

use crate::board::{highest, lowest, middle};
use crate::living::{Background, Living, Running, STEPS, pid, planner, run, wait_for, workload};

const NAME: &str = "orin-agx-64";

/// A model of ResNet-18 on the board.
pub fn model() -> PathBuf {
    // Unlike the shipped one, it does not say which TPCs were gated.
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("../watchdog/tests/models");
    models.join("orin-agx-64-resnet18-all-modes.wgt")
}

/// A few modes of low power.
pub fn modes(number: u32) -> Vec<PowerMode> {
    let with = |cores| PowerMode {
        cores,
        ..lowest(NAME)
    };
    (1..=number).map(|number| with(number.min(12))).collect()
}

/// Runs a command, which fails and leaves the board as it was.
fn fails(living: &Living, command: &mut std::process::Command, code: i32, message: &str) {
    let before = living.settings();
    let (found, _, errors) = run(command);
    assert_eq!(found, Some(code), "{errors}");
    assert!(errors.contains(message), "{errors}");
    living.await_settings(&before);
}

/// Waits for a row of the corpus in a mode that is not the first.
fn wait_for_row(living: &Living) {
    wait_for("a row", || !living.rows().is_empty());
}

#[test]
fn after_a_kill_the_next_run_goes_on_and_restores_what_was_set_before_the_first() {
    let living = Living::start();
    let before = living.settings();
    let session = Background::start(&mut living.profile(&[], STEPS));
    wait_for_row(&living);
    session.send(Signal::KILL);
    assert_eq!(session.end().0, None);
    living.await_files();
    assert_ne!(living.settings(), before);
    let first = living.rows();
    let (code, rows, errors) = run(&mut living.profile(&["--json"], STEPS));
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(rows.lines().count(), 2 - first.len(), "{rows}");
    let all = living.rows();
    assert_eq!((all.len(), &all[..first.len()]), (2, &first[..]));
    living.await_settings(&before);
}

#[test]
fn a_feeding_that_the_trainer_would_refuse_is_refused() {
    let living = Living::start();
    for (option, value, expected) in [
        ("--minibatch", "0", "a number above 0"),
        ("--workers", "1025", "0 … 1024"),
        ("--workers", "-1", "0 … 1024"),
        ("--storage", "", "a name of 1 to 64 characters"),
        ("--epoch", "first", "a whole number from 0"),
    ] {
        let (code, _, errors) = run(&mut living.profile(&[option, value], STEPS));
        assert_eq!(code, Some(2), "{errors}");
        assert!(
            errors.contains(option) && errors.contains(expected),
            "{errors}"
        );
    }
    let corpus = living.path("corpus.csv");
    let older = "kind,device,workload,tpc_pg_mask,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,steps,\
                 window_ms,end_s,time_spread_pct,power_spread_pct,temperature_c,delivered_cpu_khz,\
                 over_current,peak_mw,mark\n";
    fs::write(&corpus, older).expect("written");
    let (code, _, errors) = run(&mut living.profile(&["--workers", "4"], STEPS));
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("name another file with -o"), "{errors}");
    assert_eq!(fs::read_to_string(&corpus).expect("text"), older);
}

/// `learn` of a few modes below a limit, with a planner that fits the shipped model.
fn learn(living: &Living, limit: &str, number: u32, options: &[&str]) -> std::process::Command {
    let planner = planner(living.folder.path(), &modes(number), &model());
    let mut command = living.command("learn");
    command.args([
        "--limit",
        limit,
        "--planner",
        &planner,
        "--model",
        "work.wgt",
        "-o",
        "corpus.csv",
    ]);
    workload(command.args(options), STEPS);
    command
}

/// What the daemon restores at its end, it reads at its start.
#[test]
fn after_a_kill_while_a_limit_is_held_the_daemon_restores_the_board() {
    let living = Living::loaded();
    let before = living.settings();
    let session = Background::start(&mut learn(&living, "30W", 5, &[]));
    wait_for("a model", || living.path("work.wgt").exists());
    wait_for("a mode of the model", || {
        living
            .mode()
            .is_some_and(|mode| mode.gpu > lowest(NAME).gpu)
    });
    session.send(Signal::KILL);
    session.end();
    living.await_files();
    assert_ne!(living.settings(), before);
    let mut board = living.board();
    let (root, state) = (living.root(), living.saved_state_file());
    let state = state.parent().expect("a folder");
    let saved_state = SavedState::keep(&board, &Disk, &root, state).expect("kept");
    assert_eq!(saved_state.origin(), &Origin::Left);
    saved_state
        .restore(&mut board, &mut Disk)
        .expect("restored");
    living.await_settings(&before);
}

#[test]
fn learn_holds_the_limit_and_restores_the_board_at_sigterm() {
    let living = Living::loaded();
    let before = living.settings();
    let session = Background::start(&mut learn(&living, "30W", 5, &["--json"]));
    wait_for("a mode of the model", || {
        living
            .mode()
            .is_some_and(|mode| mode.gpu > lowest(NAME).gpu)
    });
    session.send(Signal::TERM);
    let (code, lines, errors) = session.end();
    assert_eq!(code, Some(0), "{errors}");
    let held = lines.lines().last().expect("lines");
    assert!(
        held.starts_with("{\"held\":{\"limit_mw\":30000,"),
        "{lines}"
    );
    let config = fs::read_to_string(living.root().join("etc/wattgated.toml"));
    let text = config.expect("written");
    assert!(text.contains("limit = \"30000mW\""), "{text}");
    assert!(text.contains("/work.wgt\""), "{text}");
    living.await_settings(&before);
}

/// Nobody watches the limit while a model is trained on them.
#[test]
fn rows_of_a_held_limit_are_learned_after_the_workload_has_ended() {
    let living = Living::loaded();
    let fits = "while read -r line; do
        case $line in *'\"fit\"'*) kill -0 $(cat pid) && echo running || echo ended ;; esac >>fits
        printf '%s\\n' \"$line\"
    done | ";
    let planner = planner(living.folder.path(), &modes(5), &model());
    let planner = fits.to_owned() + planner.trim_start_matches("exec ");
    let mut command = living.command("learn");
    command.args(["--limit", "30W", "--hold", "60", "--planner", &planner]);
    command.args(["--model", "work.wgt", "-o", "corpus.csv"]);
    workload(&mut command, &format!("echo $$ >pid; {STEPS}"));
    let (code, _, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert!(errors.contains(" more modes\n"), "{errors}");
    let fits = fs::read_to_string(living.path("fits")).expect("two fits");
    assert_eq!(fits, "running\nended\n");
    let rows = living.rows();
    assert!(rows.len() > 5, "{rows:?}");
    assert_eq!(living.origins().len(), 1, "{rows:?}");
}

#[test]
fn sigterm_ends_a_session_and_keeps_its_rows() {
    let living = Living::start();
    let before = living.settings();
    let session = Background::start(&mut living.profile(&[], STEPS));
    wait_for_row(&living);
    session.send(Signal::TERM);
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(5), "{errors}");
    assert!(
        errors.ends_with("error: stopped by a signal; the corpus keeps all rows so far\n"),
        "{errors}"
    );
    let rows = living.rows().len();
    let note = format!("corpus.csv has {rows} rows; the next run goes on from there");
    assert!(errors.contains(&note), "{errors}");
    living.await_settings(&before);
}

#[test]
fn the_end_of_a_workload_is_named() {
    for (end, message) in [
        ("exit 3", "the workload has ended with exit code 3"),
        ("exit 0", "the workload has ended with exit code 0"),
        ("kill -SEGV $$", "signal 11 has ended the workload"),
    ] {
        let living = Living::start();
        let script = format!("{STEPS}; [ $i = 200 ] || continue; {end}; done");
        let script = script.replace("sleep 0.002; done", "sleep 0.002");
        fails(&living, &mut living.profile(&[], &script), 5, message);
    }
}

#[test]
fn a_held_workload_that_fails_fails_the_command() {
    let living = Living::loaded();
    let before = living.settings();
    for (end, code) in [("exit 3", 3), ("kill -9 $$", 128 + 9), ("exit 0", 0)] {
        let mut command = living.command("run");
        command.args(["--limit", "30W", "--model"]).arg(model());
        workload(&mut command, &format!("echo step 1; sleep 0.5; {end}"));
        let (found, held, errors) = run(&mut command);
        assert_eq!(found, Some(code), "{errors}");
        let is_held = |line: &str| line.starts_with("held 30 W for ");
        assert!(held.lines().any(is_held), "{held}");
        let how = match code {
            3 => "the workload has ended with exit code 3",
            0 => "",
            _ => "signal 9 has ended the workload",
        };
        assert!(errors.contains(how), "{errors}");
        living.await_settings(&before);
    }
}

#[test]
fn run_without_a_daemon_holds_the_limit() {
    let living = Living::loaded();
    let before = living.settings();
    let mut command = living.command("run");
    command.args(["--limit", "20W", "--time", "10", "--json", "--model"]);
    workload(command.arg(model()), STEPS);
    let (code, held, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    let held: serde_json::Value = serde_json::from_str(&held).expect("JSON");
    let mean = held["held"]["mean_w"].as_f64().expect("a power");
    assert!((5.0..=20.0).contains(&mean), "{held}");
    assert!(held["held"]["steps"].as_u64() > Some(20), "{held}");
    living.await_settings(&before);
}

/// A process in a session of its own outlives the program: the limit is held until it ends.
#[test]
fn run_holds_the_limit_until_all_processes_have_ended() {
    let living = Living::loaded();
    let before = living.settings();
    let mut command = living.command("run");
    command.args(["--limit", "20W", "--model"]).arg(model());
    let script = "echo step 1; setsid sh -c 'sleep 1.5; echo >ended' & exit 0";
    workload(&mut command, script);
    let (code, _, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert!(living.path("ended").exists(), "{errors}");
    for told in [
        "processes that it started still run; the limit is held until they end",
        "the settings from before are restored; no limit holds now",
    ] {
        assert_eq!(errors.matches(told).count(), 1, "{errors}");
    }
    living.await_settings(&before);
}

/// After a stop of the daemon the board is in a mode within its limit. A session must not raise it for good.
#[test]
fn a_session_restores_what_was_there_and_not_what_the_daemon_found() {
    let living = Living::loaded();
    let first = living.settings();
    let mut board = living.board();
    let state = living.saved_state_file();
    let state = state.parent().expect("a folder");
    let saved_state = SavedState::keep(&board, &Disk, &living.root(), state).expect("kept");
    board.apply(&mut Disk, &lowest(NAME)).expect("set");
    saved_state.leave().expect("left");
    let left = living.settings();
    assert_ne!(left, first);
    let mut command = living.command("run");
    command.args(["--limit", "30W", "--model"]).arg(model());
    workload(&mut command, "echo step 1; sleep 0.5");
    let (code, _, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    wait_for("what was there", || living.settings() == left);
    assert!(
        living.saved_state_file().exists(),
        "the daemon's to restore"
    );
}

/// Without a model, the board climbs from its least mode by what is measured.
#[test]
fn run_needs_no_model() {
    let living = Living::loaded();
    let before = living.settings();
    let mut command = living.command("run");
    command.args(["--limit", "20W", "--time", "10", "--json"]);
    workload(&mut command, STEPS);
    let (code, held, errors) = run(&mut command);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains("there is no model of the workload"),
        "{errors}"
    );
    let held: serde_json::Value = serde_json::from_str(&held).expect("JSON");
    assert_eq!(held["held"]["over_s"], 0.0, "{held}");
    let mean = held["held"]["mean_w"].as_f64().expect("a power");
    assert!((11.0..=20.0).contains(&mean), "{held}");
    living.await_settings(&before);
}

#[test]
fn half_a_deadline_is_refused() {
    let living = Living::start();
    for (arguments, message) in [
        ("--steps 5", "need each other"),
        ("--epochs 5 --within 1h", "need each other"),
        ("--deadline 33ms --steps 5 --within 1h", "two deadlines"),
        (
            "--objective fastest --deadline 33ms",
            "no use for a deadline",
        ),
        ("--steps 0 --within 1h", "the number of steps is 0"),
        ("--deadline 33ms --deadline 5s", "--deadline is given twice"),
        ("--limit 30W", "--limit is given twice"),
    ] {
        let mut command = living.command("run");
        command.args(["--limit", "20W", "--model"]).arg(model());
        command.args(arguments.split(' ')).arg("true");
        fails(&living, &mut command, 2, message);
    }
}

#[test]
fn a_program_that_does_not_exist_is_named() {
    let living = Living::start();
    let mut command = living.profile_by(&[]);
    fails(
        &living,
        command.arg("absent-program"),
        5,
        "absent-program: cannot be started: No such file",
    );
}

/// The tests run as root in CI. Then the program runs as another user, else without rights.
#[test]
fn without_rights_the_message_says_what_to_do() {
    let living = Living::start();
    let folder = living.folder.path();
    fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("ours");
    let program = folder.join("wattgate");
    fs::copy(env!("CARGO_BIN_EXE_wattgate"), &program).expect("copied");
    let mut command = match geteuid().is_root() {
        true => {
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.arg(&program);
            command
        }
        false => {
            let lock = living.root().join("run/wattgated");
            fs::create_dir_all(&lock).expect("made");
            fs::set_permissions(&lock, Permissions::from_mode(0o555)).expect("ours");
            std::process::Command::new(&program)
        }
    };
    command.current_dir(folder);
    command.args(["profile", "--root", "board", "true"]);
    fails(
        &living,
        &mut command,
        5,
        "Permission denied (os error 13); run wattgate as root",
    );
}

#[test]
fn a_root_that_is_not_there_is_refused_and_not_made() {
    let living = Living::start();
    let folder = living.folder.path();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wattgate"));
    command.current_dir(folder);
    command.args(["profile", "--root", "nowhere", "true"]);
    fails(&living, &mut command, 5, "--root: nowhere: No such file");
    assert!(!folder.join("nowhere").exists());
}

#[test]
fn a_disk_that_is_full_ends_the_session_and_breaks_no_row() {
    const SIZE: u64 = 8_192;
    let living = Living::start();
    let path = living.path("corpus.csv");
    let origin = row::Origin {
        device: NAME,
        workload: Some("sh"),
        tpc_pg_mask: Some(240),
        unit: Some("8ff8117c"),
    };
    let mut corpus = CorpusFile::open(&path, &origin).expect("a corpus");
    let row = Row {
        device: NAME.to_owned(),
        workload: "sh".to_owned(),
        tpc_pg_mask: Some(240),
        unit: Some("8ff8117c".to_owned()),
        mark: Some(Mark::Stalled),
        ..Row::default()
    };
    // The next row, which has numbers, is longer.
    while fs::metadata(&path).map_or(0, |it| it.len()) < SIZE - 100 {
        corpus.append(row.clone()).expect("room");
    }
    let full = fs::read(&path).expect("rows");
    let limit = format!("--fsize={SIZE}");
    let script = "trap '' XFSZ; exec \"$@\"";
    let mut command = living.profile_by(&["prlimit", &limit, "sh", "-c", script, "sh"]);
    workload(&mut command, STEPS);
    fails(
        &living,
        &mut command,
        5,
        "corpus.csv: the corpus cannot be read or written: File too large",
    );
    assert_eq!(fs::read(&path).expect("rows"), full);
}

#[test]
fn a_board_without_a_sensor_is_refused() {
    let living = Living::start();
    let before = living.settings();
    living.sensors("missing");
    let (code, _, errors) = run(&mut living.profile(&[], STEPS));
    assert_eq!(code, Some(3), "{errors}");
    assert!(errors.contains("power"), "{errors}");
    living.sensors("ok");
    living.await_settings(&before);
}

/// The faults begin after the first row; the second mode may have shown before.
fn loses_the_sensor(fault: &str, message: &str) {
    let living = Living::loaded();
    living.list(&[lowest(NAME), highest(NAME), modes(2)[1], middle(NAME)]);
    let before = living.settings();
    let session = Background::start(&mut living.profile(&["--limit", "60W"], STEPS));
    wait_for_row(&living);
    living.sensors(fault);
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(5), "{errors}");
    assert!(errors.contains(message), "{errors}");
    living.sensors("ok");
    living.await_settings(&before);
    let rows = living.rows().len();
    assert!((1..=2).contains(&rows), "no row without a sensor");
}

#[test]
fn a_sensor_that_is_lost_ends_the_session() {
    loses_the_sensor("missing", "error: the power sensor has failed: ");
}

#[test]
fn a_sensor_that_stands_still_ends_the_session() {
    loses_the_sensor("frozen", "error: the power sensor is stale: ");
}

fn marks(living: &Living) -> Vec<String> {
    let rows = living.rows();
    let last = rows.iter().filter_map(|row| row.rsplit(',').next());
    last.map(str::to_owned).collect()
}

#[test]
fn a_mode_that_the_board_refuses_is_marked() {
    let living = Living::start();
    let before = living.settings();
    let session = Background::start(&mut living.profile(&[], STEPS));
    wait_for("the lowest mode", || living.mode() == Some(lowest(NAME)));
    living.order("refuse /sys/devices/system/cpu/cpu11/online EROFS");
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(0), "{errors}");
    let message = "cpu11/online: wanted 1, is 0 (writing fails: Read-only file system";
    assert!(errors.contains(message), "{errors}");
    assert_eq!(marks(&living), ["", "refused"]);
    living.await_settings(&before);
}

#[test]
fn a_knob_that_is_read_only_leaves_the_modes_without_it() {
    let living = Living::start();
    let before = living.settings();
    living.order("refuse /sys/devices/system/cpu/cpu11/online EROFS");
    let (code, _, errors) = run(&mut living.profile(&[], STEPS));
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(marks(&living), ["", "refused"]);
    living.await_settings(&before);
}

#[test]
fn a_mode_that_the_firmware_throttles_is_marked() {
    let living = Living::named("orin-nano-8-super");
    living.order("load yolov8n");
    let next = lowest(living.name);
    let last = PowerMode {
        cores: next.cores + 1,
        ..next
    };
    living.list(&[highest(living.name), next, last]);
    // In 12 s, the events are twice as many as those that slow nothing.
    let options = ["--spread", "0.01", "--longest", "12"];
    let (code, _, errors) = run(&mut living.profile(&options, STEPS));
    assert_eq!(code, Some(0), "{errors}");
    let found = marks(&living);
    // On a busy machine, the board may publish the last events two seconds late, in the next mode.
    assert_eq!((found.len(), &*found[0], &*found[2]), (3, "throttled", ""));
}

#[test]
fn a_mode_that_cooling_caps_is_marked() {
    let living = Living::start();
    living.order("cool gpu 624750");
    living.list(&[highest(living.name), lowest(living.name)]);
    let (code, _, errors) = run(&mut living.profile(&[], STEPS));
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(marks(&living), ["throttled", ""]);
}

#[test]
fn a_mode_that_another_program_changes_is_marked() {
    let living = Living::start();
    living.list(&[highest(NAME)]);
    // It is measured for 60 s of the board's time, six of ours.
    let options = ["--spread", "0.01", "--longest", "60"];
    let session = Background::start(&mut living.profile(&options, STEPS));
    wait_for("the highest mode", || living.mode() == Some(highest(NAME)));
    // Earlier the session would find that the mode cannot be set.
    thread::sleep(Duration::from_millis(500));
    living.order("nvpmodel 2");
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(marks(&living), ["changed"]);
}

#[test]
fn a_limit_below_all_modes_is_refused_before_any_row() {
    let living = Living::loaded();
    let mut command = living.profile(&["--limit", "4W"], "sleep 1000");
    fails(
        &living,
        &mut command,
        4,
        "no mode is within the limit of 4 W",
    );
    assert!(living.rows().is_empty());
}

#[test]
fn a_mode_over_a_lower_limit_is_measured_within_a_higher_one() {
    let living = Living::loaded();
    living.list(&[middle(NAME)]);
    let (code, _, errors) = run(&mut living.profile(&["--limit", "14W"], STEPS));
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(marks(&living), ["over_limit"]);
    for _ in 0..2 {
        let (code, _, errors) = run(&mut living.profile(&["--limit", "60W"], STEPS));
        assert_eq!(code, Some(0), "{errors}");
        assert_eq!(marks(&living), ["over_limit", ""], "{errors}");
    }
}

#[test]
fn fewer_modes_than_a_fit_needs_are_counted() {
    let living = Living::loaded();
    let mut command = learn(&living, "30W", 2, &[]);
    fails(
        &living,
        &mut command,
        3,
        "2 modes were measured, a model needs 5",
    );
    assert_eq!(living.rows().len(), 2);
    assert!(!living.path("work.wgt").exists());
}

#[test]
fn a_model_that_is_none_is_not_installed() {
    let living = Living::loaded();
    let planner = planner(living.folder.path(), &modes(5), Path::new("/etc/passwd"));
    fs::write(living.path("work.wgt"), "before").expect("written");
    let mut command = living.command("learn");
    command.args([
        "--limit",
        "30W",
        "--planner",
        &planner,
        "--model",
        "work.wgt",
    ]);
    workload(&mut command, STEPS);
    fails(&living, &mut command, 3, "the planner's model: ");
    assert_eq!(fs::read(living.path("work.wgt")).expect("there"), b"before");
    assert!(!living.root().join("etc/wattgated.toml").exists());
}

#[test]
fn a_planner_that_fails_ends_the_session_before_the_workload_starts() {
    for (planner, message) in [
        (
            "exec absent-planner",
            "`exec absent-planner` has ended: exit status: 127",
        ),
        ("exit 7", "`exit 7` has ended: exit status: 7"),
        ("echo nonsense", "answers `nonsense`"),
        (
            "echo '{\"ready\":{\"modes\":1}}'; read x; kill $$",
            "has ended: signal: 15",
        ),
    ] {
        let living = Living::start();
        let script = format!("echo >started; {STEPS}");
        let mut command = living.command("profile");
        workload(command.args(["--planner", planner]), &script);
        fails(&living, &mut command, 5, message);
        let was_ready = planner.contains("ready");
        assert!(was_ready || !living.path("started").exists());
    }
}

#[test]
fn sigterm_ends_a_session_whose_planner_hangs() {
    for (answer, is_started) in [("", false), ("echo '{\"ready\":{\"modes\":1}}'; ", true)] {
        let living = Living::start();
        let before = living.settings();
        let planner = format!("echo $$ >pid; {answer}exec sleep 1000");
        let mut command = living.command("profile");
        let script = format!("echo >started; {STEPS}");
        workload(command.args(["--planner", &planner]), &script);
        let session = Background::start(&mut command);
        let planner = pid(&living.path("pid"));
        wait_for("the workload", || {
            living.path("started").exists() == is_started
        });
        session.send(Signal::TERM);
        let (code, _, errors) = session.end();
        assert_eq!(
            (code, errors.contains("error: stopped")),
            (Some(5), true),
            "{errors}"
        );
        assert_eq!(living.path("started").exists(), is_started);
        living.await_settings(&before);
        wait_for("the end of the planner", || {
            test_kill_process(planner).is_err()
        });
    }
}

#[test]
fn a_second_profiler_is_refused_and_the_first_one_goes_on() {
    let living = Living::start();
    let before = living.settings();
    let session = Background::start(&mut living.profile(&[], STEPS));
    wait_for_row(&living);
    let mut other = living.command("profile");
    workload(
        other.args(["--modes", "modes.csv", "-o", "other.csv"]),
        STEPS,
    );
    let (code, _, errors) = run(&mut other);
    assert_eq!(code, Some(5), "{errors}");
    assert!(errors.contains(" already controls the board"), "{errors}");
    assert!(!living.path("other.csv").exists());
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(0), "{errors}");
    assert_eq!(living.rows().len(), 2);
    living.await_settings(&before);
}

#[test]
fn a_pattern_that_captures_no_count_ends_the_session_at_once() {
    let living = Living::start();
    let script = STEPS.replace("echo step ", "echo step 0.");
    let message = "the steps cannot be counted: --steps-from `step (\\d+)` has found no count; `0.1` is a fraction";
    fails(&living, &mut living.profile(&[], &script), 5, message);
}

#[test]
fn the_end_of_an_attached_process_is_no_signal() {
    let living = Living::start();
    let before = living.settings();
    let mut running = Running::start(&format!(
        "exec >'{}'; {STEPS}",
        living.path("log").display()
    ));
    wait_for("the log", || living.path("log").exists());
    let mut command = living.profile_by(&[]);
    command.args(["--attach", &running.0.id().to_string(), "--log", "log"]);
    command.args(["--name", "sh", "--steps-from", r"step (\d+)"]);
    let session = Background::start(&mut command);
    wait_for_row(&living);
    running.0.kill().expect("it runs");
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(5), "{errors}");
    assert!(
        errors.ends_with("error: the workload has ended before all modes were measured; let it run for longer, such as for more epochs\n"),
        "{errors}"
    );
    living.await_settings(&before);
}

#[test]
fn a_standard_error_that_nobody_reads_costs_nothing() {
    let living = Living::start();
    let before = living.settings();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut command = living.profile(&[], STEPS);
    let status = command.stderr(writer).status().expect("it runs");
    assert_eq!(status.code(), Some(0));
    assert_eq!(living.rows().len(), 2);
    living.await_settings(&before);
}

/// The first signal that the workload heeds is SIGKILL.
#[test]
fn the_limit_holds_while_the_workload_ends() {
    let living = Living::loaded();
    // On a busy machine the session may end the first mode before it sees the signal.
    living.list(&[middle(NAME), modes(2)[1]]);
    let before = living.settings();
    let stubborn = format!("trap '' TERM; {STEPS}");
    let session = Background::start(&mut living.profile(&["--limit", "40W"], &stubborn));
    wait_for("the mode", || living.mode() == Some(middle(NAME)));
    living.order("power 1.3");
    living.order("activity 4");
    session.send(Signal::TERM);
    wait_for("the mode of least clocks", || {
        living.mode() == Some(lowest(NAME))
    });
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(5), "{errors}");
    living.await_settings(&before);
}
