//! The program `wattgated` as a process: modes, restore, errors and messages.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::living::{
    Daemon, MODEL, PATIENCE, Place, eventually, settings, told, told_of, with_living,
};
use rustix::process::Signal;
use serde_json::{Value, json};
use wattgate_board::{Board, Disk};

#[test]
fn a_stopped_daemon_restores_the_prior_settings() {
    with_living("30W", |place| {
        let before = place.shown();
        for signal in [Signal::TERM, Signal::INT] {
            let mut daemon = Daemon::start(place.command("run"));
            daemon.says("<6>tracking; measured ");
            assert_ne!(place.shown(), before);
            let kept = fs::read_to_string(place.prior()).expect("kept");
            assert_eq!(settings(&kept), before);
            daemon.signal(signal);
            daemon.says("<6>restored the prior state");
            assert_eq!(daemon.end(), Some(0));
            assert!(!place.prior().exists());
            place.becomes(&before);
        }
    });
}

#[test]
fn after_a_crash_the_next_clean_stop_restores_the_prior_settings() {
    with_living("30W", |place| {
        let before = place.shown();
        let mut daemon = Daemon::start(place.command("run"));
        daemon.says("<6>booting: ");
        daemon.signal(Signal::KILL);
        assert_eq!(daemon.end(), None);
        assert_ne!(place.shown(), before);
        // The unit's ExecStopPost runs this.
        let mut safe = place.command("once");
        let (code, _, errors) = told(safe.arg("--safe").output());
        assert_eq!(code, Some(0), "{errors}");
        let mut daemon = Daemon::start(place.command("run"));
        let path = place.prior();
        daemon.says(&format!(
            "<5>{}: left by a crash; a clean stop will restore it",
            path.display()
        ));
        daemon.says("<6>booting: ");
        daemon.stop();
        place.becomes(&before);
        assert!(!path.exists());
    });
}

/// Configures a copy of the model beside the config. Returns its path and the safe mode that
/// `check` prints.
fn with_own_model(place: &Place, lines: &str) -> (PathBuf, String) {
    let model = place.config.with_file_name("model.wgt");
    fs::copy(MODEL, &model).expect("copied");
    let text = format!("version = 1\nmodel = \"model.wgt\"\nlimit = \"30W\"\n{lines}\n");
    fs::write(&place.config, text).expect("written");
    let (_, report, errors) = place.output("check");
    let safe = report.lines().find_map(|line| line.strip_prefix("safe "));
    let (safe, _) = safe.expect(&errors).split_once(": ").expect("a mode");
    (model, safe.trim().to_owned())
}

fn crash(place: &Place) {
    let mut daemon = Daemon::start(place.command("run"));
    daemon.says("<6>booting: ");
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.end(), None);
}

fn once_safe(place: &Place) -> (Option<i32>, String) {
    let (code, _, errors) = told_of(place.command("once").arg("--safe"));
    (code, errors)
}

/// Asserts that `once --safe` sets the saved mode and logs the reason.
fn is_made_safe(place: &Place, kept: &Path, mode: &str, why: &str) {
    let (code, errors) = once_safe(place);
    assert_eq!(code, Some(0), "{errors}");
    let (warning, done) = errors.split_once('\n').expect("two lines");
    let kept = kept.display();
    let expected = format!("<4>using the safe mode saved in {kept}: {why}");
    assert_eq!(warning, expected);
    assert!(done.starts_with(&format!("<6>once: {mode}; ")), "{done}");
    let board = Board::discover(&Disk, &place.root).expect("a board");
    eventually(mode, || {
        let current = board.current(&Disk).ok()?.mode()?;
        (current.to_string() == mode).then_some(())
    });
}

#[test]
fn once_safe_works_with_a_truncated_model() {
    with_living("30W", |place| {
        let (model, mode) = with_own_model(place, "state_dir = \"/var/lib/other\"");
        crash(place);
        fs::write(&model, &fs::read(MODEL).expect("a model")[..400]).expect("written");
        let kept = place.root.join("var/lib/other/safe");
        let (_, _, why) = place.output("check");
        let why = why.strip_prefix("error: ").expect("an error").trim_end();
        assert!(why.starts_with(&model.display().to_string()), "{why}");
        is_made_safe(place, &kept, &mode, why);
    });
}

#[test]
fn once_safe_works_with_a_wrong_or_missing_config() {
    with_living("30W", |place| {
        let (_, mode) = with_own_model(place, "");
        crash(place);
        let config = place.config.display();
        fs::write(&place.config, "limit = 15\n").expect("written");
        let why = format!("{config}:1: missing field `version`");
        is_made_safe(place, &place.safe(), &mode, &why);
        fs::remove_file(&place.config).expect("removed");
        let why = format!("{config}: cannot be read: No such file or directory (os error 2)");
        is_made_safe(place, &place.safe(), &mode, &why);
    });
}

#[test]
fn once_safe_prefers_the_config_s_model_to_the_saved_mode() {
    with_living("30W", |place| {
        let (_, mode) = with_own_model(place, "");
        crash(place);
        fs::write(place.safe(), "no mode").expect("written");
        let (code, errors) = once_safe(place);
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            errors.starts_with(&format!("<6>once: {mode}; ")),
            "{errors}"
        );
    });
}

#[test]
fn once_safe_fails_without_a_config_and_a_saved_mode() {
    let (place, _mirror) = Place::new("30W");
    fs::write(&place.config, "limit = 15\n").expect("written");
    let before = place.shown();
    let refused = |error: &str| {
        let (config, path) = (place.config.display(), place.safe());
        let path = path.display();
        let expected = format!(
            "<3>{config}:1: missing field `version`; and no saved safe mode can be used: \
             {path}{error}\n"
        );
        assert_eq!(once_safe(&place), (Some(2), expected));
        assert_eq!(place.shown(), before);
    };
    refused(": No such file or directory (os error 2)");
    fs::create_dir_all(place.safe().parent().expect("a directory")).expect("made");
    fs::write(place.safe(), "cores 4\ncpu_khz fast\n").expect("written");
    refused(":2: expected `cpu_khz` and a whole number, found `cpu_khz fast`");
    fs::write(place.safe(), [0xff; 4_096]).expect("written");
    refused(": stream did not contain valid UTF-8");
    // The file is well-formed, but the board has no such clock.
    let text = "cores 4\ncpu_khz 1\ngpu_khz 1\nemc_khz 1\nend\n";
    fs::write(place.safe(), text).expect("written");
    let (code, errors) = once_safe(&place);
    assert_eq!(code, Some(5), "{errors}");
    assert_eq!(place.shown(), before);
}

#[test]
fn the_daemon_runs_if_the_safe_mode_cannot_be_saved() {
    with_living("30W", |place| {
        fs::create_dir_all(place.safe()).expect("made");
        let mut daemon = Daemon::start(place.command("run"));
        daemon.says(&format!(
            "<4>cannot save the safe mode for use after a crash: {}: Is a directory (os error 21)",
            place.safe().display()
        ));
        daemon.says("<6>booting: ");
        daemon.stop();
    });
}

#[test]
fn a_clean_stop_leaves_only_the_lock_file() {
    with_living("30W", |place| {
        place.configure("limit = \"30W\"\nmetrics = \"/run/wattgated/wattgate.prom\"");
        let files = |directory: &str| -> Vec<_> {
            let entries = fs::read_dir(place.root.join(directory)).expect("a directory");
            let mut names: Vec<_> = entries
                .map(|entry| entry.expect("an entry").file_name())
                .collect();
            names.sort();
            names
        };
        let mut daemon = Daemon::start(place.command("run"));
        daemon.says("<6>booting: ");
        let prom = place.root.join("run/wattgated/wattgate.prom");
        eventually("metrics", || prom.exists().then_some(()));
        assert_eq!(files("var/lib/wattgate"), ["prior", "safe"]);
        assert_eq!(files("run/wattgated"), ["lock", "socket", "wattgate.prom"]);
        daemon.stop();
        assert_eq!(files("var/lib/wattgate"), [""; 0]);
        assert_eq!(files("run/wattgated"), ["lock"]);
    });
}

#[test]
fn a_defective_prior_state_is_replaced() {
    with_living("30W", |place| {
        let path = place.prior();
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(&path, "/sys/x 1\n").expect("written");
        let before = place.shown();
        let mut daemon = Daemon::start(place.command("run"));
        daemon.says("prior: the last line is not `end`; replaced by the present settings");
        daemon.says("<6>booting: ");
        daemon.stop();
        place.becomes(&before);
    });
}

#[test]
fn a_second_daemon_is_refused() {
    with_living("30W", |place| {
        let mut daemon = Daemon::start(place.command("run"));
        daemon.says("<6>booting: ");
        let lock = place.root.join("run/wattgated/lock");
        let expected = format!(
            "<3>{}: process {} already controls the board\n",
            lock.display(),
            daemon.child.id()
        );
        for command in ["run", "once"] {
            let (code, _, errors) = place.output(command);
            assert_eq!((code, &errors), (Some(5), &expected), "{command}");
        }
        daemon.stop();
        assert_eq!(place.output("once").0, Some(0));
    });
}

#[test]
fn once_sets_the_mode_that_check_prints() {
    with_living("25W", |place| {
        let (code, report, errors) = place.output("check");
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        let told = |key: &str| {
            let line = report.lines().find(|line| line.starts_with(key));
            let (_, rest) = line.expect(key).split_once(' ').expect("a value");
            rest.trim_start()
                .split(": ")
                .next()
                .expect("a mode")
                .to_owned()
        };
        let modes = [told("once"), told("safe")];
        for (flag, mode) in [None, Some("--safe")].into_iter().zip(modes) {
            let mut once = place.command("once");
            let (code, _, errors) = told_of(once.args(flag));
            assert_eq!(code, Some(0), "{errors}");
            assert!(
                errors.starts_with(&format!("<6>once: {mode}; ")),
                "{errors}"
            );
            let board = Board::discover(&Disk, &place.root).expect("a board");
            eventually(&mode, || {
                let current = board.current(&Disk).ok()?.mode()?;
                (current.to_string() == mode).then_some(())
            });
        }
        assert!(!place.prior().exists());
    });
}

#[test]
fn if_no_mode_fits_once_sets_the_least_one_and_fails() {
    with_living("3W", |place| {
        let (code, report, error) = place.output("check");
        assert_eq!(code, Some(4));
        assert!(
            error.starts_with(
                "error: no mode stays within 3000 mW: the least power with its guard band is "
            ),
            "{error}"
        );
        assert!(!report.contains("\nonce "), "{report}");
        let (code, _, errors) = place.output("once");
        assert_eq!(code, Some(4));
        assert!(
            errors.contains("<3>no mode stays within 3000 mW: "),
            "{errors}"
        );
        let safe = report.lines().find_map(|line| line.strip_prefix("safe"));
        let (safe, _) = safe.expect("a mode").split_once(": ").expect("a mode");
        assert!(errors.contains(safe.trim()), "{errors}");
    });
}

/// All files of a tree with their contents and modification times.
fn snapshot(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, Duration)> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("there");
        let changed = metadata.modified().expect("a time");
        let since = changed.duration_since(std::time::UNIX_EPOCH).expect("late");
        if metadata.is_dir() {
            files.insert(path.clone(), (Vec::new(), since));
            files.extend(snapshot(&path));
        } else if metadata.is_file() {
            files.insert(path.clone(), (fs::read(&path).expect("readable"), since));
        }
    }
    files
}

#[test]
fn check_writes_nothing_and_prints_everything() {
    let (place, _mirror) = Place::new("25W");
    place.configure("limit = \"25W\"\naverage = { power = \"20W\", window = \"60s\" }");
    let clk = place.root.join("sys/kernel/debug/bpmp/debug/clk/emc");
    fs::rename(&clk, clk.with_file_name("other")).expect("renamed");
    let before = snapshot(place.root.parent().expect("a directory"));
    let (code, report, errors) = place.output("check");
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(snapshot(place.root.parent().expect("a directory")), before);
    for line in [
        "limit     25000 mW\n",
        "average   20000 mW over 60 s\n",
        "model     simulated, resnet18 on orin-agx-64\n",
        "power     VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0\n",
        "missing   memory clock: ",
        "left out  memory clock: cannot be set; assumed to be 3199000\n",
        "now       8 cores, at most, CPU 1728000 kHz, GPU ",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
}

#[test]
fn check_prints_the_same_as_json() {
    let (place, _mirror) = Place::new("25W");
    place.configure(
        "limit = \"25W\"\naverage = { power = \"20W\", window = \"60s\" }\n\
         schedule = [{ at = \"00:00Z\", limit = \"22W\" }]\n\
         budget = { energy = \"40Wh\", time = \"90min\" }",
    );
    let (_, report, _) = place.output("check");
    for line in [
        "limit     22000 mW\n",
        "schedule  22000 mW from 00:00Z on\n",
        "budget    144000 J for 90 min\n",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
    let mut json = place.command("check");
    let (code, json, errors) = told_of(json.arg("--json"));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&json).expect("an object");
    for (key, value) in [
        ("/limit_mw", json!(22_000)),
        (
            "/average",
            json!({ "power_mw": 20_000, "window_ms": 60_000 }),
        ),
        ("/schedule", json!([{ "at": "00:00Z", "limit_mw": 22_000 }])),
        (
            "/budget",
            json!({ "energy_mj": 144_000_000, "time_ms": 5_400_000 }),
        ),
        ("/model", json!("simulated, resnet18 on orin-agx-64")),
        ("/power/0", json!("VDD_GPU_SOC")),
        ("/offset_mw", json!(354)),
        ("/missing", json!([])),
        ("/now/cores", json!(8)),
        ("/now/is_fixed", json!(false)),
    ] {
        assert_eq!(json.pointer(key), Some(&value), "{key}");
    }
    let number = |key: &str| json.pointer(key).and_then(Value::as_u64).expect("a number");
    assert!(number("/once/power_mw") <= number("/once/at_most_mw"));
    assert!(number("/once/at_most_mw") + number("/offset_mw") <= 20_000);
    assert!(number("/safe/power_mw") < number("/once/power_mw"));
    assert!(number("/front") <= number("/modes"));
    let once = format!(
        "once      {} cores, CPU {} kHz, GPU {} kHz, EMC {} kHz: {} mW",
        number("/once/cores"),
        number("/once/cpu_khz"),
        number("/once/gpu_khz"),
        number("/once/emc_khz"),
        number("/once/power_mw"),
    );
    assert!(report.contains(&once), "{once}: {report}");
}

#[test]
fn bad_configs_are_refused_with_the_reason() {
    let (place, _mirror) = Place::new("25W");
    let path = place.config.display().to_string();
    let cases: [(&str, i32, String); 9] = [
        (
            "limit = \"15W\"\nschedule = [{ at = \"22:00Z\", limit = \"9W\" }, \
             { at = \"06:00Z\", limit = \"9W\" }]",
            2,
            format!("{path}:4: the schedule has 06:00Z after 22:00Z"),
        ),
        (
            "limit = \"15W\"\nmetrics = \"0.0.0.0:9753\"",
            2,
            format!(
                "{path}:4: `0.0.0.0:9753`: expected a loopback address, such as \"127.0.0.1:9753\""
            ),
        ),
        (
            "limit = \"15W\"\nbudget = { energy = \"40W\", time = \"90min\" }",
            2,
            format!(
                "{path}:4: invalid value: string \"40W\", expected an energy of 1J to 10000Wh \
                 with its unit, such as \"40Wh\" or \"900J\""
            ),
        ),
        (
            "limit = \"15W\"\nhardware_watchdog = true",
            2,
            format!("{path}:4: invalid type: boolean `true`, expected path string"),
        ),
        (
            "limit = 15",
            2,
            format!(
                "{path}:3: invalid type: integer `15`, expected a power of 1mW to 1000W with \
                 its unit, such as \"15W\" or \"900mW\""
            ),
        ),
        (
            "limit = \"15W\"\nmode = 1",
            2,
            format!(
                "{path}:4: unknown field `mode`, expected one of `version`, `model`, `limit`, \
                 `schedule`, `average`, `budget`, `confidence`, `state_dir`, `too_hot`, \
                 `sensor_samples`, `memory`, `group`, `metrics`, `hardware_watchdog`"
            ),
        ),
        (
            "limit = \"15W\"\nconfidence = 0.9999",
            2,
            "confidence: the model's data supports no confidence above 99.00 %".to_owned(),
        ),
        (
            "limit = \"15W\"\nmodel = \"m\"",
            2,
            format!("{path}:4: duplicate key"),
        ),
        ("", 2, format!("{path}:1: missing field `limit`")),
    ];
    for (lines, code, error) in cases {
        place.configure(lines);
        for (command, prefix) in [("check", "error: "), ("once", "<3>"), ("run", "<3>")] {
            let told = place.output(command);
            assert_eq!(
                told,
                (Some(code), String::new(), format!("{prefix}{error}\n"))
            );
        }
    }
    fs::remove_file(&place.config).expect("removed");
    let error = format!("error: {path}: cannot be read: No such file or directory (os error 2)\n");
    assert_eq!(place.output("check"), (Some(5), String::new(), error));
}

#[test]
fn bad_models_are_refused_with_the_reason() {
    let (place, _mirror) = Place::new("25W");
    let model = place.config.with_file_name("m.wgt");
    let text = "version = 1\nmodel = \"m.wgt\"\nlimit = \"15W\"\n";
    fs::write(&place.config, text).expect("written");
    let path = model.display();
    let refused = |code, error: String| {
        let told = place.output("check");
        assert_eq!(
            told,
            (Some(code), String::new(), format!("error: {error}\n"))
        );
    };
    refused(
        5,
        format!("{path}: cannot be read: No such file or directory (os error 2)"),
    );
    fs::write(&model, [0; 64]).expect("written");
    refused(3, format!("{path}: not a wattgate model file"));
    let mut bytes = fs::read(MODEL).expect("a model");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&model, bytes).expect("written");
    let told = place.output("check");
    assert_eq!(told.0, Some(3), "{told:?}");
    let other = Path::new(MODEL).with_file_name("xavier-agx-resnet18.wgt");
    fs::copy(other, &model).expect("copied");
    refused(
        3,
        format!("{path}: the model is for `xavier-agx`, but the board is `orin-agx-64`"),
    );
    fs::write(&model, vec![0; (1 << 20) + 1]).expect("written");
    refused(5, format!("{path}: cannot be read: file too large"));
}

#[test]
fn a_board_without_a_power_sensor_is_refused() {
    let (place, _mirror) = Place::new("25W");
    let drivers = place.root.join("sys/bus/i2c/drivers");
    fs::rename(&drivers, drivers.with_file_name("none")).expect("renamed");
    for command in ["check", "once", "run"] {
        let (code, _, errors) = place.output(command);
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("power"), "{errors}");
    }
    assert!(!place.prior().exists());
}

#[test]
fn wrong_arguments_are_refused() {
    let run = |arguments: &[&str]| {
        let mut process = Command::new(env!("CARGO_BIN_EXE_wattgated"));
        let (code, _, errors) = told_of(process.args(arguments));
        assert_eq!(code, Some(2), "{errors}");
        errors
    };
    assert_eq!(run(&[]), "error: missing a command; try --help\n");
    assert_eq!(run(&["walk"]), "error: unexpected argument \"walk\"\n");
    assert_eq!(run(&["check"]), "error: missing --config\n");
    assert_eq!(
        run(&["set-limit"]),
        "error: missing either a power or --config\n"
    );
    assert_eq!(
        run(&["set-limit", "15W", "--config"]),
        "error: missing either a power or --config\n"
    );
    assert_eq!(
        run(&["set-limit", "15"]),
        "error: cannot parse argument \"15\": expected a power of 1mW to 1000W with its unit, such \
         as \"15W\" or \"900mW\"\n"
    );
    assert_eq!(
        run(&["set-limit", "15W", "--average", "12W"]),
        "error: cannot parse argument \"12W\": expected POWER/WINDOW, such as \"12W/60s\"\n"
    );
    assert_eq!(run(&["set-model"]), "error: missing a model file\n");
    assert_eq!(run(&["run", "--safe"]), "<3>invalid option '--safe'\n");
    assert_eq!(
        run(&["once", "--config"]),
        "<3>missing argument for option '--config'\n"
    );
}

#[test]
fn check_fails_without_write_permission() {
    let (place, _mirror) = Place::new("25W");
    let directory = place.config.parent().expect("a directory");
    fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("opened");
    let knob = place
        .root
        .join("sys/devices/17000000.ga10b/devfreq/17000000.ga10b/max_freq");
    fs::set_permissions(&knob, Permissions::from_mode(0o444)).expect("closed");
    fs::copy(MODEL, directory.join("model.wgt")).expect("copied");
    let text = "version = 1\nmodel = \"model.wgt\"\nlimit = \"25W\"\n";
    fs::write(&place.config, text).expect("written");
    let program = directory.join("wattgated");
    fs::copy(env!("CARGO_BIN_EXE_wattgated"), &program).expect("copied");
    let mut process = Command::new(program);
    process.args(["check", "--config"]).arg(&place.config);
    process.arg("--root").arg(&place.root);
    // Root may write every file.
    if rustix::process::geteuid().is_root() {
        process.uid(65_534).gid(65_534);
    }
    let (code, _, errors) = told_of(&mut process);
    assert_eq!(code, Some(5), "{errors}");
    assert!(
        errors.ends_with(": cannot be written: Permission denied (os error 13)\n"),
        "{errors}"
    );
}

#[test]
fn once_follows_the_schedule() {
    with_living("30W", |place| {
        place.configure("limit = \"30W\"\nschedule = [{ at = \"12:00Z\", limit = \"3W\" }]");
        let (code, _, errors) = place.output("once");
        assert_eq!(code, Some(4), "{errors}");
        assert!(
            errors.contains("<3>no mode stays within 3000 mW: "),
            "{errors}"
        );
    });
}

#[test]
fn a_limit_that_no_mode_holds_is_reported() {
    with_living("3W", |place| {
        let mut daemon = Daemon::start(place.command("run"));
        daemon.says("<4>safe: even the mode of least power is above the limit");
        let (_, report, _) = place.status(&[]);
        assert!(report.contains("state safe_limit_too_low\n"), "{report}");
        daemon.stop();
    });
}

#[test]
fn a_reload_changes_the_limit_only_if_the_config_is_valid() {
    with_living("30W", |place| {
        let mut daemon = Daemon::start(place.command("run"));
        daemon.says("<6>tracking; measured ");
        place.configure("limit = 20");
        daemon.signal(Signal::HUP);
        let line = daemon.says("the old limit stays");
        assert!(
            line.starts_with(&format!("<3>{}:3: ", place.config.display())),
            "{line}"
        );
        place.configure("limit = \"20W\"\nconfidence = 0.9");
        daemon.signal(Signal::HUP);
        daemon.says("<5>limit is now 20000 mW");
        daemon.says("keys other than limit, schedule, average and budget need a restart");
        daemon.says("<6>stepping down: ");
        daemon.stop();
    });
}

#[test]
fn systemd_is_notified() {
    with_living("30W", |place| {
        let path = place.config.with_file_name("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_read_timeout(Some(PATIENCE)).expect("set");
        let next = || {
            let mut buffer = [0; 1024];
            let length = socket.recv(&mut buffer).expect("told");
            String::from_utf8(buffer[..length].to_vec()).expect("text")
        };
        let mut command = place.command("run");
        command.env("NOTIFY_SOCKET", &path);
        let mut daemon = Daemon::start(command);
        assert_eq!(next(), "READY=1");
        for _ in 0..2 {
            let text = next();
            assert!(text.starts_with("WATCHDOG=1\nSTATUS="), "{text}");
            assert!(text.contains(" cores, CPU "), "{text}");
        }
        daemon.signal(Signal::TERM);
        while next() != "STOPPING=1" {}
        assert_eq!(daemon.end(), Some(0));
    });
}

#[test]
fn the_unit_is_valid() {
    let unit = include_str!("../../wattgated.service");
    let program = "/usr/bin/wattgated";
    assert_eq!(unit.matches(program).count(), 2);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("wattgated.service");
    let unit = unit.replace(program, env!("CARGO_BIN_EXE_wattgated"));
    fs::write(&path, unit).expect("written");
    let mut verify = Command::new("systemd-analyze");
    match verify.args(["verify", "--man=no"]).arg(&path).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && errors.is_empty(), "{errors}");
        }
        Err(error) => println!("not verified: systemd-analyze: {error}"),
    }
}
