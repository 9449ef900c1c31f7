//! `run` from start to end: saved state, crashes, safe mode, lock, reload and systemd.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::process::Command;

use crate::wattgated::{
    Daemon, MODEL, Rig, TIMEOUT, eventually, knobs_in, notification, outcome, reported_mode,
    with_board,
};
use rustix::process::Signal;
use wattgate_simulated_board::tree::mirror::Living;
use wattgate_watchdog::lock::Lock;

/// Stops the daemon. Returns the mode that it leaves.
fn stopped(daemon: &mut Daemon, signal: Signal) -> String {
    daemon.signal(signal);
    let line = daemon.logs("<6>stopped; the board stays at ");
    assert_eq!(daemon.exit_code(), Some(0));
    let (_, mode) = line.split_once(" stays at ").expect("a mode");
    let (mode, _) = mode.split_once(": ").expect("a mode");
    mode.to_owned()
}

/// Gives the board its settings from before back.
fn restored(rig: &Rig, before: &[String]) {
    let (code, told, errors) = outcome(&mut rig.client("restore"));
    let expected = "restored the settings from before the daemon's start; no limit holds now\n";
    assert_eq!((code, told.as_str()), (Some(0), expected), "{errors}");
    rig.await_knobs(before);
    assert!(!rig.saved_state_file().exists());
}

#[test]
fn a_stopped_daemon_leaves_its_mode_until_the_settings_from_before_are_restored() {
    with_board("30W", |rig| {
        let before = rig.knobs();
        for signal in [Signal::TERM, Signal::INT, Signal::TERM] {
            let mut daemon = rig.run("<6>tracking; measured ");
            let saved = fs::read_to_string(rig.saved_state_file()).expect("saved");
            assert_eq!(knobs_in(&saved), before);
            let held = rig.knobs();
            assert_ne!(held, before);
            let mode = stopped(&mut daemon, signal);
            rig.await_mode(&mode);
        }
        restored(rig, &before);
        let (code, told, _) = outcome(&mut rig.client("restore"));
        assert_eq!(code, Some(0));
        assert!(told.starts_with("nothing to restore: "), "{told}");
    });
}

/// The limit was lowered just before the stop, so the mode before does not fit.
#[test]
fn a_stop_leaves_a_mode_that_fits_the_present_limit() {
    with_board("40W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let (code, _, errors) = outcome(rig.client("set-limit").arg("12W"));
        assert_eq!(code, Some(0), "{errors}");
        let mode = stopped(&mut daemon, Signal::TERM);
        rig.await_mode(&mode);
        let (_, report, _) = rig.output("check");
        assert_ne!(reported_mode(&report, "once "), mode);
    });
}

#[test]
fn a_running_daemon_keeps_the_board() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let (code, _, errors) = outcome(&mut rig.client("restore"));
        assert_eq!(code, Some(5), "{errors}");
        assert!(errors.contains("already controls the board"), "{errors}");
        daemon.stop();
    });
}

/// The drivers of sensors and clocks are modules; a unit may start before them.
#[test]
fn a_daemon_that_starts_early_waits_for_the_drivers() {
    with_board("30W", |rig| {
        let uptime = |seconds: &str| {
            fs::create_dir_all(rig.root.join("proc")).expect("created");
            fs::write(rig.root.join("proc/uptime"), seconds).expect("written");
        };
        uptime("5.00 9.00\n");
        let safe = safe_mode(rig);
        for late in ["sys/bus/i2c/drivers", "sys/devices/17000000.ga10b/devfreq"] {
            let late = rig.root.join(late);
            let away = late.with_file_name("away");
            fs::rename(&late, &away).expect("renamed");
            let mut daemon = Daemon::start(rig.command("run"));
            daemon.logs("<4>waiting for what is missing: ");
            fs::rename(&away, &late).expect("renamed");
            let first = daemon.logs("<6>booting: ");
            assert!(first.contains("GPU"), "{first}");
            daemon.stop();
        }
        // Long after the boot, too.
        uptime("6000.00 9900.00\n");
        let drivers = rig.root.join("sys/bus/i2c/drivers");
        let away = drivers.with_file_name("away");
        fs::rename(&drivers, &away).expect("renamed");
        let mut daemon = Daemon::start(rig.command("run"));
        let line = daemon.logs("<4>waiting for what is missing: ");
        assert!(
            line.contains(&format!("the least mode is set: {safe}")),
            "{line}"
        );
        rig.await_mode(&safe);
        let (code, _, errors) = rig.status(&[]);
        let says = format!(
            "error: the daemon holds the least mode and waits: {}: no power sensor",
            rig.root.display()
        );
        assert!(
            code == Some(5) && errors.starts_with(&says),
            "{code:?} {errors}"
        );
        fs::rename(&away, &drivers).expect("renamed");
        daemon.logs("<6>tracking; measured ");
        daemon.stop();
    });
}

/// A sensor that is lost must not lead to more power at the next start.
#[test]
fn a_daemon_that_waits_leaves_the_least_mode_at_a_stop() {
    with_board("30W", |rig| {
        let before = rig.knobs();
        let safe = safe_mode(rig);
        let drivers = rig.root.join("sys/bus/i2c/drivers");
        let away = drivers.with_file_name("away");
        fs::rename(&drivers, &away).expect("renamed");
        for _ in 0..2 {
            let mut daemon = Daemon::start(rig.command("run"));
            daemon.logs("<4>waiting for what is missing: ");
            daemon.stop();
            rig.await_mode(&safe);
        }
        fs::rename(&away, &drivers).expect("renamed");
        restored(rig, &before);
    });
}

/// The GPU's clock comes while the daemon controls the board without it.
#[test]
fn a_clock_that_comes_late_is_used() {
    with_board("30W", |rig| {
        let late = rig.root.join("sys/devices/17000000.ga10b/devfreq");
        let away = late.with_file_name("away");
        fs::rename(&late, &away).expect("renamed");
        let mut daemon = rig.run("<6>booting: ");
        fs::rename(&away, &late).expect("renamed");
        daemon.logs("<5>a clock that was missing has come");
        daemon.logs("<6>tracking; measured ");
        let mode = stopped(&mut daemon, Signal::TERM);
        rig.await_mode(&mode);
    });
}

#[test]
fn after_a_crash_the_settings_from_before_are_still_known() {
    with_board("30W", |rig| {
        let before = rig.knobs();
        crash(rig);
        assert_ne!(rig.knobs(), before);
        // The systemd unit's ExecStopPost runs this.
        let (code, errors) = once_safe(rig);
        assert_eq!(code, Some(0), "{errors}");
        let mut daemon = rig.run("<6>booting: ");
        daemon.stop();
        restored(rig, &before);
    });
}

fn crash(rig: &Rig) {
    let mut daemon = rig.run("<6>booting: ");
    daemon.signal(Signal::KILL);
    assert_eq!(daemon.exit_code(), None);
}

fn once_safe(rig: &Rig) -> (Option<i32>, String) {
    let (code, _, errors) = outcome(rig.command("once").arg("--safe"));
    (code, errors)
}

/// Whatever became of model, config and state directory: the mode follows from the board's tables.
#[test]
fn once_safe_needs_neither_config_nor_model() {
    with_board("30W", |rig| {
        let mode = safe_mode(rig);
        let model = rig.configure_copy("limit = \"30W\"");
        crash(rig);
        fs::remove_dir_all(rig.root.join("var")).expect("removed");
        fs::write(&model, &fs::read(MODEL).expect("a model")[..400]).expect("written");
        let done = format!("<6>once: {mode}; ");
        let (code, errors) = once_safe(rig);
        assert_eq!(code, Some(0), "{errors}");
        assert!(errors.starts_with(&done), "{errors}");
        rig.await_mode_of(&mode, || {
            once_safe(rig);
        });
        let config = rig.config.display();
        fs::write(&rig.config, "limit = 15\n").expect("written");
        let unread = format!(
            "{config}: the config cannot be read: No such file or directory (os error 2); `wattgate learn` writes one, \
                 wattgated.toml(5) tells its keys"
        );
        for why in [
            format!("{config}:1: missing field `version`; see wattgated.toml(5)"),
            unread,
        ] {
            let (code, errors) = once_safe(rig);
            assert_eq!(code, Some(0), "{errors}");
            assert!(errors.starts_with(&format!("<4>{why}\n{done}")), "{errors}");
            let _ = fs::remove_file(&rig.config);
        }
    });
}

/// The config's `cores` is a wish that `once --safe` respects.
#[test]
fn once_safe_leaves_as_many_cores_as_the_config_wants() {
    with_board("30W", |rig| {
        rig.configure("limit = \"30W\"\ncores = \"4-12\"");
        let (code, errors) = once_safe(rig);
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            errors.contains("once: 4 cores, CPU 115200 kHz, GPU 114750 kHz"),
            "{errors}"
        );
    });
}

#[test]
fn once_safe_needs_no_sensor() {
    with_board("30W", |rig| {
        let mode = safe_mode(rig);
        let drivers = rig.root.join("sys/bus/i2c/drivers");
        let away = drivers.with_file_name("away");
        fs::rename(&drivers, &away).expect("renamed");
        let (code, errors) = once_safe(rig);
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            errors.starts_with(&format!("<6>once: {mode}; ")),
            "{errors}"
        );
        fs::rename(&away, &drivers).expect("renamed");
        rig.await_mode_of(&mode, || {
            once_safe(rig);
        });
    });
}

#[test]
fn once_safe_sets_what_obeys_and_names_what_does_not() {
    with_board("30W", |rig| {
        let living = Living::open(&rig.root).expect("it lives");
        let knob = "/sys/devices/system/cpu/cpu7/online";
        living.order(&format!("ignore {knob}")).expect("obeyed");
        // For some ms a file of the tree shows what was written, whatever becomes of it.
        let errors = eventually("the core that stays", || {
            let (code, errors) = once_safe(rig);
            (code == Some(6)).then_some(errors)
        });
        let expected = "the mode is set, but for knobs that do not obey (1): ";
        assert!(errors.contains(expected), "{errors}");
        assert!(errors.contains("cpu7/online: wanted 0, is 1"), "{errors}");
        eventually("all other cores are offline", || {
            let online = fs::read_to_string(rig.root.join("sys/devices/system/cpu/online"));
            online.is_ok_and(|online| online == "0,7\n").then_some(())
        });
    });
}

#[test]
fn a_clean_stop_leaves_only_the_lock_and_the_settings_from_before() {
    with_board("30W", |rig| {
        rig.configure("limit = \"30W\"\nmetrics = \"/run/wattgated/wattgate.prom\"");
        let files = |directory: &str| -> Vec<_> {
            let entries = fs::read_dir(rig.root.join(directory)).expect("a directory");
            let mut names: Vec<_> = entries
                .map(|entry| entry.expect("an entry").file_name())
                .collect();
            names.sort();
            names
        };
        let mut daemon = rig.run("<6>booting: ");
        let prom = rig.root.join("run/wattgated/wattgate.prom");
        eventually("metrics", || prom.exists().then_some(()));
        assert_eq!(files("var/lib/wattgate"), ["prior"]);
        assert_eq!(files("run/wattgated"), ["lock", "socket", "wattgate.prom"]);
        daemon.stop();
        assert_eq!(files("var/lib/wattgate"), ["prior"]);
        assert_eq!(files("run/wattgated"), ["lock"]);
    });
}

/// The mode of least power, as `check` prints it.
fn safe_mode(rig: &Rig) -> String {
    let (_, report, _) = rig.output("check");
    reported_mode(&report, "safe ")
}

/// Starts that fail must not take the mode that they leave for the settings from before.
#[test]
fn failed_starts_keep_the_settings_from_before() {
    with_board("30W", |rig| {
        let before = rig.knobs();
        let config = fs::read(&rig.config).expect("a config");
        fs::write(&rig.config, "limit = 1").expect("written");
        for _ in 0..3 {
            assert_eq!(rig.output("run").0, Some(2));
            assert_eq!(once_safe(rig).0, Some(0));
        }
        fs::write(&rig.config, config).expect("written");
        let mut daemon = rig.run("<6>booting: ");
        daemon.stop();
        restored(rig, &before);
    });
}

/// The upgrade of an older version sends both signals at once.
#[test]
fn sigusr1_ends_nothing() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        daemon.signal(Signal::USR1);
        let mode = stopped(&mut daemon, Signal::TERM);
        rig.await_mode(&mode);
    });
}

/// Another process has the lock of a daemon that has ended, as any user could when the file was readable for all.
#[test]
fn once_safe_needs_no_lock() {
    with_board("30W", |rig| {
        let safe = safe_mode(rig);
        let lock = Lock::take(&rig.root).expect("free");
        let path = rig.root.join("run/wattgated/lock");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let (code, errors) = once_safe(rig);
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            errors.contains("the least mode is set all the same"),
            "{errors}"
        );
        drop(lock);
        rig.await_mode_of(&safe, || {
            once_safe(rig);
        });
    });
}

#[test]
fn an_upgrade_restarts_the_daemon() {
    let script = include_str!("../../debian/postinst");
    let folder = tempfile::tempdir().expect("a folder");
    // The script as on a system that runs systemd; the tools print their arguments.
    let script = script.replace("[ -d /run/systemd/system ]", "true");
    for tool in ["systemctl", "systemd-sysusers"] {
        let path = folder.path().join(tool);
        fs::write(&path, "#!/bin/sh\necho \"${0##*/} $*\"\n").expect("written");
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("set");
    }
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &script, "postinst", "configure", "0.1.0"]);
    let (code, calls, errors) = outcome(shell.env("PATH", folder.path()));
    assert_eq!((code, errors.as_str()), (Some(0), ""));
    assert_eq!(
        calls,
        "systemd-sysusers wattgated.conf\nsystemctl daemon-reload\n\
         systemctl is-enabled --quiet wattgated.service\n\
         systemctl enable --quiet wattgated-early.service\n\
         systemctl kill --kill-who=main --signal=USR1 wattgated.service\n\
         systemctl try-restart wattgated.service\n"
    );
}

#[test]
fn a_defective_saved_state_is_replaced() {
    with_board("30W", |rig| {
        let path = rig.saved_state_file();
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        fs::write(&path, "/sys/x 1\n").expect("written");
        let before = rig.knobs();
        let mut daemon =
            rig.run("prior: the last line is not `end`; replaced by the present settings");
        daemon.logs("<6>booting: ");
        daemon.stop();
        restored(rig, &before);
    });
}

#[test]
fn a_second_daemon_is_refused() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>booting: ");
        let lock = rig.root.join("run/wattgated/lock");
        let expected = format!(
            "<3>{}: process {} already controls the board; end it first (the daemon: `systemctl stop wattgated`)\n",
            lock.display(),
            daemon.child.id()
        );
        for command in ["run", "once"] {
            let (code, _, errors) = rig.output(command);
            assert_eq!((code, &errors), (Some(5), &expected), "{command}");
        }
        daemon.stop();
        assert_eq!(rig.output("once").0, Some(0));
    });
}

#[test]
fn a_limit_that_no_mode_holds_is_reported() {
    with_board("3W", |rig| {
        let mut daemon = rig.run("<4>safe: even the mode of least power is above the limit");
        let (_, report, _) = rig.status(&[]);
        assert!(report.contains("state safe_cannot_hold\n"), "{report}");
        daemon.signal(Signal::TERM);
        let line = daemon.logs("<6>stopped; the board stays at ");
        assert!(!line.contains("fits the limit"), "{line}");
        assert_eq!(daemon.exit_code(), Some(0));
    });
}

#[test]
fn a_reload_changes_the_limit_only_if_the_config_is_valid() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        rig.configure("limit = 20");
        daemon.signal(Signal::HUP);
        let line = daemon.logs("limit and aim stay as they are");
        assert!(
            line.starts_with(&format!("<3>{}:3: ", rig.config.display())),
            "{line}"
        );
        rig.configure(
            "limit = \"20W\"\nconfidence = 0.9\nobjective = \"least-edp\"\ndeadline = \"1s\"",
        );
        daemon.signal(Signal::HUP);
        daemon.logs("<5>aim is now least-edp, at most 1000 ms a step");
        daemon.logs("<5>limit is now 20 W");
        daemon.logs(
            "keys other than limit, max_limit, schedule, average, budget, objective and deadline need a restart",
        );
        daemon.logs("<6>stepping down: ");
        daemon.stop();
    });
}

#[test]
fn systemd_is_notified() {
    with_board("30W", |rig| {
        let path = rig.config.with_file_name("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_read_timeout(Some(TIMEOUT)).expect("set");
        let next = || notification(&socket);
        let mut command = rig.command("run");
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
        assert_eq!(daemon.exit_code(), Some(0));
    });
}

/// A bus that hangs holds a read of a sensor for seconds. Here it is a pipe that nobody writes to.
#[test]
fn a_sensor_that_hangs_leads_to_the_safe_mode_and_a_daemon_that_answers() {
    // The board's files stand still, so that nothing but the daemon touches the pipe.
    let (rig, _mirror) = Rig::new("30W");
    let mut daemon = rig.run("<6>booting: ");
    let sensor = rig.root.join("sys/class/hwmon/hwmon1/curr1_input");
    let sensor = fs::canonicalize(&sensor).expect("a sensor");
    let pipe = rig.root.join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("started").success());
    fs::rename(&pipe, &sensor).expect("replaced");
    daemon.logs("VDD_GPU_SOC: cannot be read: timed out");
    daemon.logs("safe: the power sensor cannot be read");
    let (code, status, _) = rig.status(&[]);
    assert_eq!(code, Some(0));
    assert!(status.starts_with("state safe_no_sensor\n"), "{status}");
    let mode = stopped(&mut daemon, Signal::TERM);
    assert!(mode.starts_with("1 core, "), "{mode}");
}

/// A page that has to come from a disk under load would stop the control loop.
#[test]
fn the_memory_of_the_daemon_is_locked() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let status =
            fs::read_to_string(format!("/proc/{}/status", daemon.id())).expect("a process");
        let locked = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
        let locked = locked.and_then(|kib| kib.trim().strip_suffix(" kB")?.parse::<u32>().ok());
        assert!(locked > Some(1_000), "{status}");
        daemon.stop();
    });
}

#[test]
fn the_units_are_valid() {
    let program = "/usr/bin/wattgated";
    let directory = tempfile::tempdir().expect("a directory");
    let paths = [
        (
            "wattgated.service",
            include_str!("../../wattgated.service"),
            2,
        ),
        (
            "wattgated-safe.service",
            include_str!("../../wattgated-safe.service"),
            1,
        ),
        (
            "wattgated-early.service",
            include_str!("../../wattgated-early.service"),
            2,
        ),
        (
            "wattgated-metrics.service",
            include_str!("../../wattgated-metrics.service"),
            1,
        ),
        (
            "wattgated-over.service",
            include_str!("../../debian/examples/wattgated-over.service"),
            0,
        ),
        (
            "wattgated-over.path",
            include_str!("../../wattgated-over.path"),
            0,
        ),
    ]
    .map(|(name, unit, programs)| {
        assert_eq!(unit.matches(program).count(), programs, "{name}");
        let path = directory.path().join(name);
        let unit = unit.replace(program, env!("CARGO_BIN_EXE_wattgated"));
        fs::write(&path, unit).expect("written");
        path
    });
    let mut verify = Command::new("systemd-analyze");
    match verify.args(["verify", "--man=no"]).args(paths).output() {
        Ok(output) => {
            let errors = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success() && errors.is_empty(), "{errors}");
        }
        Err(error) => println!("not verified: systemd-analyze: {error}"),
    }
}
