//! The program `wattgated` as a process: clients, Prometheus and the hardware watchdog.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::wattgated::{Daemon, MODEL, Rig, StopOnDrop, TIMEOUT, eventually, outcome, with_board};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn an_unknown_group_is_refused_before_any_write() {
    let (rig, _mirror) = Rig::new("25W");
    rig.configure("limit = \"25W\"\ngroup = \"no such group\"");
    for (command, prefix) in [("check", "error: "), ("run", "<3>")] {
        let error = format!(
            "{prefix}group: `no such group` is not in /etc/group; make it with `groupadd --system no such group`, or name \
             another one\n"
        );
        assert_eq!(rig.output(command), (Some(2), String::new(), error));
    }
    assert!(!rig.saved_state_file().exists());
}

#[test]
fn a_missing_hardware_watchdog_is_refused_before_any_write() {
    with_board("25W", |rig| {
        rig.configure("limit = \"25W\"\nhardware_watchdog = \"/dev/watchdog0\"");
        let before = rig.knobs();
        let (code, _, errors) = rig.output("run");
        assert_eq!(code, Some(5));
        assert!(
            errors.contains("/dev/watchdog0: No such file or directory (os error 2); "),
            "{errors}"
        );
        assert!(
            !rig.saved_state_file().exists(),
            "nothing was set, and nothing is left"
        );
        assert_eq!(rig.knobs(), before);
    });
}

/// Restoring the saved state there would leave the limit unheld until the next start.
#[test]
fn a_start_that_is_refused_leaves_the_files_of_an_earlier_daemon() {
    with_board("25W", |rig| {
        let mut daemon = rig.run("<6>booting: ");
        daemon.stop();
        let left = || (rig.knobs(), fs::read_to_string(rig.saved_state_file()).ok());
        let before = left();
        assert!(before.1.is_some());
        rig.configure("limit = \"25W\"\nhardware_watchdog = \"/dev/watchdog0\"");
        assert_eq!(rig.output("run").0, Some(5));
        assert_eq!(left(), before);
    });
}

#[test]
fn status_prints_the_daemon_s_state() {
    with_board("30W", |rig| {
        let (code, _, errors) = rig.status(&[]);
        let socket = rig.root.join("run/wattgated/socket");
        let error = format!(
            "error: {}: the daemon does not answer: it does not run on this board (No such file or directory (os error \
             2)); start it with `systemctl start wattgated`\n",
            socket.display()
        );
        assert_eq!((code, errors), (Some(5), error));
        let mut daemon = rig.run("<6>tracking; measured ");
        let (code, report, errors) = rig.status(&[]);
        assert_eq!(code, Some(0), "{errors}");
        let lines = report
            .lines()
            .map(|line| line.split_once(' ').expect("a pair"));
        let values: BTreeMap<&str, &str> = lines.collect();
        let number = |key: &str, unit: &str| {
            let number = values[key].strip_suffix(unit).expect("a unit");
            number.parse::<f64>().expect("a number")
        };
        let clocks = [204.0, 665.6, 2133.0, 3199.0];
        assert!(clocks.contains(&number("emc", " MHz")), "{report}");
        assert!((29.0..=30.0).contains(&number("allowed", " W")), "{report}");
        assert_eq!(values["limit"], "30 W");
        assert!(number("changes", "") >= 1.0, "{report}");
        let (_, json, _) = rig.status(&["--json"]);
        let json: Value = serde_json::from_str(&json).expect("an object");
        assert_eq!(json["limit_mw"], 30_000);
        assert_eq!(json["limit_from"], "config");
        daemon.stop();
        assert!(!socket.exists());
    });
}

#[test]
fn a_limit_can_be_set_and_watched_from_the_command_line() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let mut watch = rig.client("watch");
        let watch = watch.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut watch = watch.spawn().expect("started");
        let stdout = BufReader::new(watch.stdout.take().expect("a pipe"));
        let mut lines = stdout.lines();
        let (code, report, errors) =
            outcome(
                rig.client("set-limit")
                    .args(["15W", "--average", "12W/60s"]),
            );
        assert_eq!(code, Some(0), "{errors}");
        assert!(report.starts_with("holding 15 W: "), "{report}");
        let (_, report, _) = rig.status(&[]);
        for line in [
            "limit 15 W\n",
            "limit_from socket\n",
            "average 12 W\n",
            "average_window 1 min\n",
        ] {
            assert!(report.contains(line), "{line}: {report}");
        }
        daemon.logs("<5>limit is now 15 W, from the socket of ");
        daemon.logs("<6>stepping down: ");
        let shows_limit = |line: &String| line.contains(", limit 15 W; ");
        let seen = lines.by_ref().map_while(Result::ok).find(shows_limit);
        assert!(seen.is_some(), "watch prints the new limit");
        let json = outcome(rig.client("set-limit").args(["--lift", "--json"]));
        let json: Value = serde_json::from_str(&json.1).expect("an object");
        assert_eq!(json["limit_from"], "config");
        daemon.logs("<5>limit is now 30 W, from the config");
        // The log names who did it.
        let mut set = rig.client("set-limit");
        let set = set.args(["20W", "--for", "1s"]).stdout(Stdio::null());
        let mut set = set.spawn().expect("started");
        let client = format!("root, pid {}", set.id());
        daemon.logs(&format!(
            "<5>limit is now 20 W, from the socket of {client}, wattgated set-limit"
        ));
        daemon.logs(&format!(
            "<5>client of {client}: set the limit 20 W for 1 s"
        ));
        assert!(set.wait().expect("a child").success());
        daemon.logs(": the time of its limit is over");
        // A limit over max_limit is refused.
        rig.configure("limit = \"30W\"\nmax_limit = \"40W\"");
        daemon.signal(Signal::HUP);
        eventually("the new ceiling", || {
            let (code, _, errors) = outcome(rig.client("set-limit").arg("41W"));
            let expected = "error: power_mw is 41000, expected at most 40000, max_limit of the config; ask for less, or let root raise it\n";
            (code == Some(2) && errors == expected).then_some(())
        });
        // A limit below the least power is accepted, and the state reports it.
        let (code, ..) = outcome(rig.client("set-limit").arg("2W"));
        assert_eq!(code, Some(0));
        daemon.logs("<4>safe: even the mode of least power is above the limit");
        daemon.stop();
        assert!(
            !watch.wait().expect("a child").success(),
            "watch fails when the daemon ends"
        );
    });
}

#[test]
fn a_model_can_be_set_from_the_command_line() {
    with_board("30W", |rig| {
        let folder = rig.config.parent().expect("a folder");
        rig.configure_copy("limit = \"30W\"");
        for (from, to) in [
            ("orin-agx-64-resnet18-all-modes.wgt", "other.wgt"),
            ("xavier-agx-resnet18.wgt", "xavier.wgt"),
        ] {
            fs::copy(Path::new(MODEL).with_file_name(from), folder.join(to)).expect("copied");
        }
        let mut daemon = rig.run("<6>tracking; measured ");
        let set = |name: &str| {
            // Retry: a second attempt within a second is refused.
            eventually("an answer", || {
                let set = outcome(rig.client("set-model").current_dir(folder).arg(name));
                let is_answer = !set.2.contains("one model in ");
                if !is_answer {
                    thread::sleep(Duration::from_millis(500));
                }
                is_answer.then_some(set)
            })
        };
        let (code, report, errors) = set("other.wgt");
        assert_eq!(code, Some(0), "{errors}");
        assert!(report.starts_with("holding 30 W: "), "{report}");
        daemon.logs("other.wgt: simulated, resnet18 on orin-agx-64");
        daemon.logs("<6>booting: ");
        let (code, _, errors) = set("xavier.wgt");
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("the model is for `xavier-agx`"), "{errors}");
        let (code, _, errors) = set("absent.wgt");
        assert_eq!(code, Some(5), "{errors}");
        let (code, _, errors) = set(MODEL);
        assert_eq!(code, Some(3), "{errors}");
        assert!(errors.contains("not a file in "), "{errors}");
        let (_, report, _) = rig.status(&[]);
        assert!(report.contains("model other.wgt\n"), "{report}");
        daemon.stop();
    });
}

/// Abuse of the socket; each function is one round.
const ATTACKS: [fn(&Path, &AtomicBool); 4] = [
    // Garbage.
    |path, _| {
        let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
        send(path, &bytes);
    },
    // A line of 10 MB.
    |path, _| send(path, &vec![b'x'; 10 << 20]),
    // Requests whose answers are never read.
    |path, stop| {
        let request = b"{\"version\":1,\"request\":{\"subscribe\":{\"every_ms\":100}}}\n";
        if let Ok(mut stream) = UnixStream::connect(path) {
            while stream.write_all(request).is_ok() && !stop.load(Ordering::Relaxed) {}
        }
    },
    // A thousand connections a second.
    |path, _| {
        drop(UnixStream::connect(path));
        thread::sleep(Duration::from_millis(1));
    },
];

/// Sends as much as the daemon reads; each write times out after a second.
fn send(path: &Path, bytes: &[u8]) {
    if let Ok(mut stream) = UnixStream::connect(path) {
        let timeout = Some(Duration::from_secs(1));
        stream.set_write_timeout(timeout).expect("set");
        let _ = stream.write_all(bytes);
    }
}

#[test]
fn control_survives_abusive_clients() {
    with_board("30W", |rig| {
        let lines = |limit: &str| format!("limit = \"{limit}\"");
        let mut daemon = rig.run("<6>tracking; measured ");
        let path = rig.root.join("run/wattgated/socket");
        let stop = AtomicBool::new(false);
        let rounds = ATTACKS.map(|_| AtomicUsize::new(0));
        thread::scope(|scope| {
            let _stop = StopOnDrop(&stop);
            for (attack, rounds) in ATTACKS.iter().zip(&rounds) {
                let (path, stop) = (&path, &stop);
                scope.spawn(move || {
                    while !stop.load(Ordering::Relaxed) {
                        attack(path, stop);
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            eventually("three rounds of each attack", || {
                let least = rounds.iter().map(|it| it.load(Ordering::Relaxed)).min();
                (least >= Some(3)).then_some(())
            });
            // The daemon follows a new limit during all attacks.
            for (limit, line) in [("15W", "<6>stepping down: "), ("30W", "<6>probing up: ")] {
                rig.configure(&lines(limit));
                daemon.signal(Signal::HUP);
                daemon.logs(&format!("<5>limit is now {limit}").replace('W', " W"));
                daemon.logs(line);
            }
        });
        let (code, report, errors) = eventually("a free connection", || {
            let outcome = rig.status(&[]);
            (outcome.0 == Some(0)).then_some(outcome)
        });
        assert_eq!(code, Some(0), "{errors}");
        assert!(report.contains("limit 30 W\n"), "{report}");
        let resident = fs::read_to_string(format!("/proc/{}/status", daemon.child.id()));
        let resident = resident.expect("alive");
        let highest = resident
            .lines()
            .find_map(|line| line.strip_prefix("VmHWM:"));
        println!("resident at most: {}", highest.expect("a figure").trim());
        daemon.stop();
    });
}

/// A process that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn metrics_are_served_by_a_process_of_their_own_or_in_a_file() {
    with_board("30W", |rig| {
        let taken = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = taken.local_addr().expect("an address").to_string();
        // A config of an earlier version is told where they went.
        rig.configure(&format!("limit = \"30W\"\nmetrics = \"{address}\""));
        let mut daemon = Daemon::start(rig.command("run"));
        daemon.logs(&format!(
            "`wattgated metrics --listen {address}` serves them"
        ));
        daemon.logs("<6>tracking; measured ");
        let serve = || {
            let mut metrics = rig.client("metrics");
            metrics.args(["--listen", &address]);
            metrics
        };
        let (code, _, errors) = outcome(&mut serve());
        assert_eq!(code, Some(5));
        assert!(
            errors.contains("cannot listen: Address already in use"),
            "{errors}"
        );
        drop(taken);
        let _metrics = Ended(serve().spawn().expect("started"));
        let connect = || eventually("a port", || TcpStream::connect(&*address).ok());
        // Idle connections change nothing.
        let _idle: Vec<TcpStream> = (0..20).map(|_| connect()).collect();
        let page = || {
            let mut stream = connect();
            stream.set_read_timeout(Some(TIMEOUT)).expect("set");
            let request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
            stream.write_all(request).expect("sent");
            let mut page = String::new();
            stream.read_to_string(&mut page).expect("answered");
            page
        };
        let shown = page();
        assert!(shown.starts_with("HTTP/1.1 200 OK\r\n"), "{shown}");
        let limit = "\nwattgate_power_limit_watts 30.000\n";
        assert!(shown.contains(limit), "{shown}");
        daemon.stop();
        let shown = page();
        assert!(
            shown.starts_with("HTTP/1.1 503 Service Unavailable\r\n"),
            "{shown}"
        );
        rig.configure("limit = \"30W\"\nmetrics = \"/run/wattgated/wattgate.prom\"");
        let path = rig.root.join("run/wattgated/wattgate.prom");
        // The unit sets this umask.
        let mut command = Command::new("sh");
        command.args(["-c", "umask 0077 && exec \"$0\" \"$@\""]);
        let run = rig.command("run");
        let mut daemon = {
            command.arg(run.get_program()).args(run.get_args());
            Daemon::start(command)
        };
        let page = eventually("a file", || fs::read_to_string(&path).ok());
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o7777, 0o644, "the collector is not root");
        assert!(
            page.contains("\nwattgate_power_limit_watts 30.000\n"),
            "{page}"
        );
        daemon.stop();
        assert!(!path.exists());
    });
}

#[test]
fn only_a_clean_stop_disarms_the_hardware_watchdog() {
    with_board("30W", |rig| {
        rig.configure("limit = \"30W\"\nhardware_watchdog = \"/dev/watchdog0\"");
        let device = rig.root.join("dev/watchdog0");
        let shown = rig.root.join("sys/class/watchdog/watchdog0");
        for directory in [device.parent().expect("a directory"), &shown] {
            fs::create_dir_all(directory).expect("made");
        }
        fs::write(shown.join("timeout"), "120\n").expect("written");
        for (signal, code, ends_with) in [(Signal::KILL, None, "."), (Signal::TERM, Some(0), "V")] {
            fs::write(&device, "").expect("made");
            let mut daemon =
                rig.run("<5>/dev/watchdog0 resets the board 120 s after the last control cycle");
            let written = || fs::read_to_string(&device).expect("readable");
            eventually("some seconds", || (written().len() >= 2).then_some(()));
            daemon.signal(signal);
            assert_eq!(daemon.exit_code(), code);
            let written = written();
            assert!(
                written.starts_with("..") && written.ends_with(ends_with),
                "{written}"
            );
        }
    });
}

/// The path is longer than the 107 bytes of a Unix socket address.
#[test]
fn control_works_without_a_socket() {
    let (mut rig, mut mirror) = Rig::new("30W");
    let link = rig.config.with_file_name("x".repeat(120));
    std::os::unix::fs::symlink(&rig.root, &link).expect("linked");
    rig.root = link;
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| mirror.run(&stop, 1.0).expect("the mirror runs"));
        let _stop = StopOnDrop(&stop);
        let mut daemon = rig.run("<4>clients are not served, as their socket cannot be opened: ");
        daemon.logs("<6>booting: ");
        daemon.stop();
    });
}
