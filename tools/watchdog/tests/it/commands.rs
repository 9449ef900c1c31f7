//! `check` and `once`: what they print, what they set, and what all commands refuse.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::every_program::check;
use crate::model_files::flat;
use crate::wattgated::{Daemon, MODEL, Rig, eventually, outcome, reported_mode, with_board};
use rustix::process::Signal;
use serde_json::{Value, json};
use wattgate_runtime::Milliwatts;
use wattgate_simulated_board::tree::mirror::Living;
use wattgate_watchdog::quantity::Watts;

#[test]
fn once_sets_the_mode_that_check_prints() {
    with_board("25W", |rig| {
        let (code, report, errors) = rig.output("check");
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        let modes = ["once ", "safe "].map(|key| reported_mode(&report, key));
        for (flag, mode) in [None, Some("--safe")].into_iter().zip(modes) {
            let mut once = rig.command("once");
            let (code, _, errors) = outcome(once.args(flag));
            assert_eq!(code, Some(0), "{errors}");
            assert!(
                errors.starts_with(&format!("<6>once: {mode}; ")),
                "{errors}"
            );
            rig.await_mode(&mode);
        }
        assert!(rig.saved_state_file().exists(), "the settings from before");
    });
}

/// A limit alone is a config: `check` says what it means, `once` sets the least mode.
#[test]
fn a_limit_needs_no_model() {
    with_board("25W", |rig| {
        fs::write(&rig.config, "version = 1\nlimit = \"25W\"\n").expect("written");
        let (code, report, errors) = rig.output("check");
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        let model = "\nmodel     no model; the order of modes is that of other workloads on simulated boards\n";
        assert!(report.contains(model), "{report}");
        let safe = report.lines().find_map(|line| line.strip_prefix("safe "));
        let safe = safe.expect("the least mode").trim().to_owned();
        let (code, _, errors) = rig.output("once");
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            errors.contains("there is no model of the workload"),
            "{errors}"
        );
        assert!(errors.contains(&format!("once: {safe}; ")), "{errors}");
        rig.await_mode(&safe);

        // A limit below what the idle board draws holds with no mode.
        fs::write(&rig.config, "version = 1\nlimit = \"2W\"\n").expect("written");
        let (code, _, errors) = rig.output("check");
        assert_eq!(code, Some(4), "{errors}");
        assert!(errors.contains("no mode stays within 2 W"), "{errors}");
        fs::write(&rig.config, "version = 1\nlimit = \"25W\"\n").expect("written");

        let _daemon = rig.run("no model of the workload");
        let (code, report, errors) = outcome(rig.client("status").arg("--json"));
        assert_eq!(code, Some(0), "{errors}");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        assert_eq!(report["model"], Value::Null);
        assert_eq!(report["limit_mw"], 25_000);
    });
}

#[test]
fn if_no_mode_fits_once_sets_the_least_one_and_fails() {
    with_board("3W", |rig| {
        let (code, report, error) = rig.output("check");
        assert_eq!(code, Some(4));
        assert!(
            error.starts_with(
                "error: no mode stays within 3 W: the least power with its guard band is "
            ),
            "{error}"
        );
        assert!(!report.contains("\nonce "), "{report}");
        let (code, _, errors) = rig.output("once");
        assert_eq!(code, Some(4));
        assert!(errors.contains("<3>no mode stays within 3 W: "), "{errors}");
        let safe = reported_mode(&report, "safe ");
        assert!(errors.contains(&safe), "{errors}");
    });
}

/// `check`, `once` and the daemon's start agree on the mode of an objective, and name a deadline that the limit does not allow.
#[test]
fn an_objective_and_a_deadline_choose_the_mode() {
    with_board("25W", |rig| {
        let (_, fastest, _) = rig.output("check");
        let mut modes = vec![reported_mode(&fastest, "once ")];
        for objective in ["least-power", "least-energy", "least-edp"] {
            rig.configure(&format!("limit = \"25W\"\nobjective = \"{objective}\""));
            let (code, report, _) = rig.output("check");
            assert_eq!(code, Some(0), "{report}");
            assert!(
                report.contains(&format!("\naim       {objective}\n")),
                "{report}"
            );
            let mode = reported_mode(&report, "once ");
            let (code, _, errors) = rig.output("once");
            assert_eq!(code, Some(0), "{errors}");
            assert!(
                errors.starts_with(&format!("<6>once: {mode}; ")),
                "{errors}"
            );
            modes.push(mode);
        }
        assert_ne!(modes[0], modes[1]);
        rig.configure("limit = \"25W\"\nobjective = \"least-power\"\ndeadline = \"150ms\"");
        let (_, report, _) = rig.output("check");
        let in_time = reported_mode(&report, "once ");
        assert!(in_time != modes[1] && in_time != modes[0], "{report}");
        assert!(!report.contains("unmet"), "{report}");
        rig.configure("limit = \"25W\"\nobjective = \"least-power\"\ndeadline = \"1ms\"");
        let (code, report, _) = rig.output("check");
        assert_eq!(code, Some(0), "{report}");
        let said = "\nunmet     the deadline of 1 ms a step may be missed: the fastest mode within the limit takes up to ";
        assert!(
            report.contains(said)
                && report.contains(" a step; the fastest mode of all takes up to "),
            "{report}"
        );
        assert_eq!(reported_mode(&report, "once "), modes[0]);
        let (code, _, errors) = rig.output("once");
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            errors.starts_with("<4>the deadline of 1 ms a step may be missed"),
            "{errors}"
        );
    });
}

/// A signal ends a measurement, and the mode of before it is set.
#[test]
fn a_signal_during_a_measurement_leaves_the_mode_of_before() {
    with_board("25W", |rig| {
        let (_, report, _) = rig.output("check");
        let mode = reported_mode(&report, "once ");
        for signal in [Signal::TERM, Signal::INT] {
            let mut once = rig.command("once");
            let mut measuring = Daemon::start({
                once.arg("--measure");
                once
            });
            measuring.logs("<6>booting: ");
            measuring.signal(signal);
            let line = measuring.logs("nothing was learned: ");
            assert!(
                line.contains("a signal has stopped it; the mode stays"),
                "{line}"
            );
            measuring.logs(&format!("<6>once: {mode}; "));
            measuring.logs("stopped by a signal");
            assert_eq!(measuring.exit_code(), Some(5));
            rig.await_mode(&mode);
        }
    });
}

/// A GPU that stays at its highest clock leaves less power to the cores.
#[test]
fn once_chooses_another_mode_where_a_knob_does_not_obey() {
    let gpu = "/sys/class/devfreq/17000000.ga10b/max_freq";
    for (limit, ends, expected) in [
        ("20W", "GPU 1300500 kHz", 6),
        ("15W", "no mode stays within 15 W", 4),
    ] {
        with_board(limit, |rig| {
            let (_, report, _) = rig.output("check");
            let living = Living::open(&rig.root).expect("it lives");
            living
                .order(&format!("floor {gpu} 1300500000"))
                .expect("obeyed");
            // For some ms a file of the tree shows what was written, whatever becomes of it.
            let errors = eventually("the GPU that stays", || {
                let (code, _, errors) = rig.output("once");
                (code == Some(expected) && errors.contains(ends)).then_some(errors)
            });
            let first = format!("<6>once: {}; ", reported_mode(&report, "once "));
            assert!(errors.starts_with(&first), "{errors}");
            assert!(errors.contains(gpu), "{errors}");
        });
    }
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
    let (rig, _mirror) = Rig::new("25W");
    rig.configure("limit = \"25W\"\naverage = { power = \"20W\", window = \"60s\" }");
    let clk = rig.root.join("sys/kernel/debug/bpmp/debug/clk/emc");
    fs::rename(&clk, clk.with_file_name("other")).expect("renamed");
    let before = snapshot(rig.root.parent().expect("a directory"));
    let (code, report, errors) = rig.output("check");
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(snapshot(rig.root.parent().expect("a directory")), before);
    for line in [
        "limit     25 W\n",
        "average   20 W over 60 s\n",
        "model     simulated, resnet18 on orin-agx-64\n",
        "power     VDD_GPU_SOC + VDD_CPU_CV + VIN_SYS_5V0\n",
        "missing   memory clock: ",
        "left out  memory clock: cannot be set; assumed to be 3199000\n",
        "now       8 cores, CPU up to 1728000 kHz, GPU up to ",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
}

#[test]
fn check_prints_the_same_as_json() {
    let (rig, _mirror) = Rig::new("25W");
    rig.configure(
        "limit = \"25W\"\nmax_limit = \"30W\"\nbackstop = \"hardware\"\n\
         average = { power = \"20W\", window = \"60s\" }\n\
         schedule = [{ at = \"00:00Z\", limit = \"22W\" }]\n\
         budget = { energy = \"40Wh\", time = \"90min\" }",
    );
    let (_, report, _) = rig.output("check");
    for line in [
        "limit     22 W\n",
        "max_limit 30 W\n",
        "backstop  hardware, above 26.4 W\n",
        "schedule  22 W from 00:00Z on\n",
        "budget    144000 J for 90 min\n",
    ] {
        assert!(report.contains(line), "{line}: {report}");
    }
    let mut json = rig.command("check");
    let (code, json, errors) = outcome(json.arg("--json"));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let json: Value = serde_json::from_str(&json).expect("an object");
    for (key, value) in [
        ("/limit_mw", json!(22_000)),
        ("/max_limit_mw", json!(30_000)),
        ("/backstop_mw", json!(26_400)),
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
        "once      {} cores, CPU {} kHz, GPU {} kHz, EMC {} kHz: {}",
        number("/once/cores"),
        number("/once/cpu_khz"),
        number("/once/gpu_khz"),
        number("/once/emc_khz"),
        Watts(Milliwatts(number("/once/power_mw") as u32)),
    );
    assert!(report.contains(&once), "{once}: {report}");
}

#[test]
fn bad_configs_are_refused_with_the_reason() {
    let (rig, _mirror) = Rig::new("25W");
    let path = rig.config.display().to_string();
    let cases: [(&str, String); 10] = [
        (
            "limit = \"15W\"\nschedule = [{ at = \"22:00Z\", limit = \"9W\" }, \
             { at = \"06:00Z\", limit = \"9W\" }]",
            format!("{path}:4: the schedule has 06:00Z after 22:00Z; put them in the order of the day"),
        ),
        (
            "limit = \"15W\"\nmetrics = \"0.0.0.0:9753\"",
            format!(
                "{path}:4: `0.0.0.0:9753`: expected a loopback address, such as \"127.0.0.1:9753\""
            ),
        ),
        (
            "limit = \"15W\"\nbudget = { energy = \"40W\", time = \"90min\" }",
            format!(
                "{path}:4: invalid value: string \"40W\", expected an energy of 1J to 10000Wh \
                 with its unit, such as \"40Wh\" or \"900J\""
            ),
        ),
        (
            "limit = \"15W\"\nhardware_watchdog = true",
            format!("{path}:4: invalid type: boolean `true`, expected a path in quotes"),
        ),
        (
            "limit = \"15W\"\nmax_limit = \"14W\"",
            format!(
                "{path}: limit is 15 W, over max_limit = 14 W; lower the one or raise the other"
            ),
        ),
        (
            "limit = 15",
            format!(
                "{path}:3: invalid type: integer `15`, expected a power of 1mW to 1000W with \
                 its unit, such as \"15W\" or \"900mW\"; or a current of 1mA to 100A"
            ),
        ),
        (
            "limit = \"15W\"\nmode = 1",
            format!(
                "{path}:4: unknown field `mode`, expected one of `version`, `model`, `limit`, \
                 `max_limit`, `supply`, `backstop`, `backstop_margin`, `schedule`, `average`, `budget`, `confidence`, \
                 `too_hot`, `cores`, `objective`, `deadline`, `clocks`, `memory`, `group`, `metrics`, `hardware_watchdog`, `observe`, \
                 `on_stop`, `state_dir`, `sensor_samples`; see wattgated.toml(5)"
            ),
        ),
        (
            "limit = \"15W\"\nconfidence = 0.9999",
            "confidence: the model's data supports no confidence above 99 %; ask for less, or train on more modes"
                .to_owned(),
        ),
        (
            "limit = \"15W\"\nmodel = \"m\"",
            format!("{path}:4: the key is given twice; keep one of the lines"),
        ),
        (
            "",
            format!("{path}:1: missing field `limit`; see wattgated.toml(5)"),
        ),
    ];
    for (lines, error) in cases {
        rig.configure(lines);
        for (command, prefix) in [("check", "error: "), ("once", "<3>"), ("run", "<3>")] {
            let expected = (Some(2), String::new(), format!("{prefix}{error}\n"));
            assert_eq!(rig.output(command), expected);
        }
    }
    fs::remove_file(&rig.config).expect("removed");
    let error = format!(
        "error: {path}: the config cannot be read: No such file or directory (os error 2); `wattgate learn` writes one, \
         wattgated.toml(5) tells its keys\n"
    );
    assert_eq!(rig.output("check"), (Some(5), String::new(), error));
}

#[test]
fn bad_models_are_refused_with_the_reason() {
    let (rig, _mirror) = Rig::new("25W");
    let model = rig.config.with_file_name("m.wgt");
    let text = "version = 1\nmodel = \"m.wgt\"\nlimit = \"15W\"\n";
    fs::write(&rig.config, text).expect("written");
    let path = model.display();
    let refused = |code, error: String| {
        let expected = (Some(code), String::new(), format!("error: {error}\n"));
        assert_eq!(rig.output("check"), expected);
    };
    refused(
        5,
        format!(
            "{path}: the model cannot be read: No such file or directory (os error 2); `wattgate learn` makes one"
        ),
    );
    fs::write(&model, [0; 64]).expect("written");
    refused(
        3,
        format!(
            "{path}: not a wattgate model file; expected a model, as `wattgate-trainer fit` writes it"
        ),
    );
    let mut bytes = fs::read(MODEL).expect("a model");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&model, bytes).expect("written");
    let outcome = rig.output("check");
    assert_eq!(outcome.0, Some(3), "{outcome:?}");
    let other = Path::new(MODEL).with_file_name("xavier-agx-resnet18.wgt");
    fs::copy(other, &model).expect("copied");
    refused(
        3,
        format!(
            "{path}: the model is for `xavier-agx`, but the board is `orin-agx-64`; profile the workload on this board \
             (`wattgate learn`)"
        ),
    );
    fs::write(&model, vec![0; (1 << 20) + 1]).expect("written");
    refused(
        5,
        format!("{path}: the model cannot be read: file too large; `wattgate learn` makes one"),
    );
}

#[test]
fn a_model_whose_power_does_not_rise_is_not_trusted() {
    with_board("20W", |rig| {
        let model = rig.config.with_file_name("flat.wgt");
        fs::write(&model, flat(17.0)).expect("written");
        let text = "version = 1\nmodel = \"flat.wgt\"\nlimit = \"20W\"\n";
        fs::write(&rig.config, text).expect("written");
        let why = "no mode is known to stay within 20 W: the model is not used: from its lowest to its highest mode, ";
        let (code, report, errors) = rig.output("check");
        assert_eq!(code, Some(4), "{errors}");
        assert!(errors.contains(why), "{errors}");
        assert!(!report.contains("\nonce "), "{report}");
        let (code, _, errors) = rig.output("once");
        assert_eq!(code, Some(4), "{errors}");
        assert!(errors.contains(why), "{errors}");
        assert!(
            errors.contains("once: 1 core, CPU 115200 kHz, GPU 114750 kHz"),
            "{errors}"
        );
        let mut daemon = rig.run("the model is not used: ");
        daemon.logs("tracking");
        let (_, status, _) = rig.status(&[]);
        assert!(
            !status.contains("predicted") && status.contains("measured"),
            "{status}"
        );
    });
}

#[test]
fn a_board_without_a_power_sensor_is_refused() {
    let (rig, _mirror) = Rig::new("25W");
    let drivers = rig.root.join("sys/bus/i2c/drivers");
    fs::rename(&drivers, drivers.with_file_name("none")).expect("renamed");
    for command in ["check", "once"] {
        let (code, _, errors) = rig.output(command);
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("power"), "{errors}");
    }
    assert!(!rig.saved_state_file().exists());
}

/// No command waits for a board there, and none makes the folder.
#[test]
fn a_root_that_is_no_board_is_refused_and_left_alone() {
    let (mut rig, _mirror) = Rig::new("25W");
    let folder = tempfile::tempdir().expect("a folder");
    for (root, refused) in [
        (folder.path().join("nowhere"), 5),
        (folder.path().into(), 3),
    ] {
        rig.root = root;
        for (command, code) in [("run", refused), ("once", 3), ("check", 3)] {
            let (found, _, errors) = rig.output(command);
            assert_eq!(found, Some(code), "{command}: {errors}");
        }
        assert!(!folder.path().join("nowhere").exists());
    }
}

#[test]
fn the_command_line_has_what_every_program_has() {
    check(env!("CARGO_BIN_EXE_wattgated"), "chek", "check");
}

#[test]
fn the_config_is_in_etc_below_the_root_unless_it_is_named() {
    let (rig, _mirror) = Rig::new("25W");
    let check = || {
        let mut process = Command::new(env!("CARGO_BIN_EXE_wattgated"));
        outcome(process.args(["check", "--root"]).arg(&rig.root))
    };
    let path = rig.root.join("etc/wattgated.toml");
    fs::create_dir_all(rig.root.join("etc")).expect("a folder");
    let error = format!("error: {}: the config cannot be read", path.display());
    let (code, _, errors) = check();
    assert!(code == Some(5) && errors.starts_with(&error), "{errors}");
    fs::copy(&rig.config, &path).expect("copied");
    assert_eq!(check(), rig.output("check"));
}

#[test]
fn wrong_arguments_are_refused() {
    let run = |arguments: &[&str]| {
        let mut process = Command::new(env!("CARGO_BIN_EXE_wattgated"));
        let (code, _, errors) = outcome(process.args(arguments));
        assert_eq!(code, Some(2), "{errors}");
        errors
    };
    assert_eq!(run(&[]), "error: missing a command; --help lists them\n");
    assert_eq!(
        run(&["walk"]),
        "error: unknown command `walk`, expected check, once, run, status, watch, set-limit, lease, set-aim, set-model, \
         metrics, restore, help or completions\n"
    );
    assert_eq!(
        run(&["set-limit"]),
        "error: expected either POWER, such as 15W, with its options, or --lift, alone or with --of\n"
    );
    assert_eq!(
        run(&["set-limit", "15W", "--lift"]),
        "error: expected either POWER, such as 15W, with its options, or --lift, alone or with --of\n"
    );
    assert_eq!(
        run(&["set-limit", "--lift", "--for", "10min"]),
        "error: expected either POWER, such as 15W, with its options, or --lift, alone or with --of\n"
    );
    assert_eq!(
        run(&["set-limit", "15W", "--for", "1h", "--for", "2h"]),
        "error: --for is given twice; give it once\n"
    );
    assert_eq!(
        run(&["set-limit", "15W", "--for", "25h"]),
        "error: --for is `25h`, expected a time of 1s to 24h with its unit, such as \
         \"10min\" or \"8h\"\n"
    );
    assert_eq!(
        run(&["set-limit", "15"]),
        "error: POWER is `15`, expected a power of 1mW to 1000W with its unit, such \
         as \"15W\" or \"900mW\"\n"
    );
    assert_eq!(
        run(&["set-limit", "15W", "--average", "12W"]),
        "error: --average is `12W`, expected POWER/WINDOW, such as \"12W/60s\"\n"
    );
    assert_eq!(
        run(&["set-model"]),
        "error: missing FILE, a model in the folder of the config's model\n"
    );
    assert_eq!(
        run(&["run", "--safe"]),
        "<3>there is no option --safe; --help lists the options\n"
    );
    assert_eq!(
        run(&["once", "--config"]),
        "<3>--config needs a value; --help shows which\n"
    );
}

#[test]
fn check_names_knobs_without_write_permission() {
    let (rig, _mirror) = Rig::new("25W");
    let directory = rig.config.parent().expect("a directory");
    fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("opened");
    rig.configure_copy("limit = \"25W\"");
    let program = directory.join("wattgated");
    fs::copy(env!("CARGO_BIN_EXE_wattgated"), &program).expect("copied");
    let mut process = Command::new(&program);
    process.args(["check", "--config"]).arg(&rig.config);
    process.arg("--root").arg(&rig.root);
    // Root may write every file.
    if rustix::process::geteuid().is_root() {
        process.uid(65_534).gid(65_534);
    }
    let why = ": cannot be written: Permission denied (os error 13)";
    let gpu = rig
        .root
        .join("sys/devices/17000000.ga10b/devfreq/17000000.ga10b");
    for (knob, mode) in [("max_freq", 0o666), ("min_freq", 0o444)] {
        let path = gpu.join(knob);
        fs::set_permissions(path, Permissions::from_mode(mode)).expect("ours");
    }
    let (code, printed, errors) = outcome(&mut process);
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    let named = printed
        .lines()
        .filter(|line| line.starts_with("cannot set "));
    assert!(named.clone().all(|line| line.ends_with(why)), "{printed}");
    assert!(
        named.clone().any(|line| line.contains("min_freq")),
        "{printed}"
    );
    assert!(
        !named.clone().any(|line| line.contains("ga10b/max_freq")),
        "{printed}"
    );
}

#[test]
fn once_follows_the_schedule() {
    with_board("30W", |rig| {
        rig.configure("limit = \"30W\"\nschedule = [{ at = \"12:00Z\", limit = \"3W\" }]");
        let (code, _, errors) = rig.output("once");
        assert_eq!(code, Some(4), "{errors}");
        assert!(errors.contains("<3>no mode stays within 3 W: "), "{errors}");
    });
}
