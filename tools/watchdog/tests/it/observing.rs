//! A daemon that only observes: it writes nothing to the board, and says what it would set.

use std::collections::BTreeMap;
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use crate::common::Rig;
use crate::server::Server;
use crate::wattgated::{Daemon, Rig as OnDisk, outcome, with_board};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use rustix::process::Signal;
use wattgate_runtime::Milliwatts;
use wattgate_watchdog::limits::Owner;
use wattgate_watchdog::serve::protocol::{Request, WantedAim, WantedLease, WantedLimit};

const OBSERVE: &str = "limit = \"20W\"\nobserve = true";

/// A limit that the board exceeds as it runs, once jetson_clocks has run.
const OVER: &str = "limit = \"14W\"\nobserve = true";

/// What happened to the files below a folder that only a program which writes can cause: a file was made, removed, renamed,
/// changed, or closed by who had opened it for writing, also if by a kill.
struct Watched {
    inotify: OwnedFd,
    folders: BTreeMap<i32, PathBuf>,
}

impl Watched {
    fn new(root: &Path) -> Self {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC);
        let mut watched = Self {
            inotify: inotify.expect("inotify"),
            folders: BTreeMap::new(),
        };
        watched.add(root);
        watched
    }

    /// Folders that links lead to are below the root, too.
    fn add(&mut self, folder: &Path) {
        let changes = WatchFlags::MODIFY
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB;
        let watch = inotify::add_watch(&self.inotify, folder, changes).expect("watched");
        self.folders.insert(watch, folder.to_owned());
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            if entry.file_type().expect("a type").is_dir() {
                self.add(&entry.path());
            }
        }
    }

    /// The files, in the order of the changes.
    fn changes(&self) -> Vec<PathBuf> {
        let mut buffer = [const { MaybeUninit::uninit() }; 4_096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut changes = Vec::new();
        loop {
            match reader.next() {
                Ok(event) => {
                    assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW));
                    let folder = &self.folders[&event.wd()];
                    changes.push(match event.file_name() {
                        Some(name) => folder.join(name.to_str().expect("text")),
                        None => folder.clone(),
                    });
                }
                Err(Errno::AGAIN) => return changes,
                Err(why) => panic!("{why}"),
            }
        }
    }
}

/// The board's files change while it lives, so it stands still here. Its sensor is lost, then comes. The config asks for
/// all that a daemon would write to.
#[test]
fn through_start_kill_and_restart_no_file_of_the_board_is_opened_for_writing() {
    let (rig, _mirror) = OnDisk::new("20W");
    let watchdog = rig.root.join("dev/watchdog0");
    fs::create_dir_all(watchdog.parent().expect("a folder")).expect("made");
    fs::write(&watchdog, "").expect("made");
    // What the daemon may write to: its lock, its sockets and its record.
    for own in ["run/wattgated", "run/wattgated-root", "var/lib/wattgate"] {
        fs::create_dir_all(rig.root.join(own)).expect("made");
    }
    rig.configure(&format!(
        "{OBSERVE}\nbackstop = \"hardware\"\nhardware_watchdog = \"/dev/watchdog0\""
    ));
    let drivers = rig.root.join("sys/bus/i2c/drivers");
    let away = drivers.with_file_name("away");
    fs::rename(&drivers, &away).expect("renamed");
    let watched = Watched::new(&rig.root);

    let mut daemon = Daemon::start(rig.command("run"));
    let waits = daemon.logs("<4>waiting for what is missing: ");
    assert!(
        waits.ends_with("; nothing is set, as observe = true"),
        "{waits}"
    );
    daemon.stop();
    let written = |path: &PathBuf| {
        !path.starts_with(rig.root.join("run")) && !path.starts_with(rig.root.join("var"))
    };
    let changes = watched.changes();
    assert!(!changes.is_empty(), "the lock at least");
    assert!(!changes.iter().any(written), "{changes:?}");
    drop(watched);
    fs::rename(&away, &drivers).expect("renamed");

    let watched = Watched::new(&rig.root);
    for is_killed in [true, false] {
        let mut daemon = rig.run("<5>NOT HOLDING: observe = true");
        // It reads the sensor again and again, and would set the averaging and the first mode.
        daemon.logs("<6>limit 20 W; ");
        thread::sleep(Duration::from_secs(2));
        let (code, _, errors) = rig.status(&[]);
        assert_eq!(code, Some(0), "{errors}");
        match is_killed {
            true => {
                daemon.signal(Signal::KILL);
                assert_eq!(daemon.exit_code(), None);
            }
            false => {
                daemon.signal(Signal::TERM);
                daemon.logs("stopped; nothing was written to the board");
                assert_eq!(daemon.exit_code(), Some(0));
            }
        }
        // The units run these at boot and after a crash.
        for flags in [&[][..], &["--safe"]] {
            let (code, _, errors) = outcome(rig.command("once").args(flags));
            assert_eq!(code, Some(0), "{errors}");
            let config = rig.config.display();
            assert_eq!(
                errors,
                format!(
                    "<5>nothing is set: {config} has observe = true, so the board stays as it is\n"
                )
            );
        }
    }
    // A start that fails is followed by the same.
    rig.configure(&format!("{OBSERVE}\nlimits = 1"));
    assert_eq!(rig.output("run").0, Some(2));
    let (code, _, errors) = outcome(rig.command("once").arg("--safe"));
    assert!(
        code == Some(0) && errors.starts_with("<5>nothing is set"),
        "{errors}"
    );
    let changes = watched.changes();
    assert!(!changes.iter().any(written), "{changes:?}");
    assert!(!rig.saved_state_file().exists(), "no settings to restore");
    // The same watch sees a daemon that holds its limit.
    rig.configure("limit = \"20W\"");
    let (code, _, errors) = outcome(rig.command("once").arg("--safe"));
    assert!(code.is_some(), "{errors}");
    assert!(watched.changes().iter().any(written));
}

/// With each fault that a holding daemon would answer, and at each request.
#[test]
fn no_write_is_tried_whatever_happens() {
    let mut rig = Rig::new(&format!("{OBSERVE}\nbackstop = \"hardware\""));
    rig.run(20);
    for fault in ["nvpmodel 2", "jetson-clocks", "power 1.3", "activity 2"] {
        rig.inject(fault);
        rig.run(20);
    }
    let new = rig.config("limit = \"12W\"\nobserve = true\nbackstop = \"hardware\"");
    let utc = wattgate_watchdog::clock::Clock::utc(&rig.clocks);
    assert!(!rig.daemon.reload(new, utc), "nothing needs a restart");
    rig.run(20);
    let holding = rig.config("limit = \"12W\"\nbackstop = \"hardware\"");
    assert!(rig.daemon.reload(holding, utc), "the key needs a restart");
    rig.run(20);
    rig.inject("sensor VDD_GPU_SOC missing");
    rig.run(20);
    assert!(
        rig.log
            .iter()
            .any(|line| line.starts_with("the power sensor cannot be read: ")),
        "{:?}",
        rig.log
    );
    assert_eq!(rig.daemon.files().writes, []);
    assert_eq!(rig.daemon.report().state, "observing");
}

#[test]
fn requests_that_set_something_are_refused_with_what_to_do() {
    let mut server = Server::with(OBSERVE);
    server.open_root();
    let mut client = server.connect_as_root();
    let power = Milliwatts(15_000);
    let aim = WantedAim::from_wanted(wattgate_cli::aim::Wanted::FASTEST);
    for request in [
        Request::SetLimit(Some(WantedLimit::from_power(power))),
        Request::SetLimit(None),
        Request::Lift(Owner::Uid(1_000)),
        Request::Lease(WantedLease::from_power(power)),
        Request::SetModel("model.wgt".to_owned()),
        Request::SetAim(Some(aim)),
        Request::Yield,
    ] {
        let refused = server.ask(&mut client, request.clone());
        let refused = refused.expect_err("refused");
        assert_eq!(refused.name, "observing", "{request:?}");
        for told in [
            "`systemctl restart wattgated`",
            "`systemctl stop wattgated`",
        ] {
            assert!(refused.message.contains(told), "{}", refused.message);
        }
    }
    let report = server.ask(&mut client, Request::Status).expect("a report");
    assert_eq!((report.holding, report.limit_mw), (false, 20_000));
    assert_eq!(report.claims, []);
}

/// The minibatches of a minute.
fn minibatches(rig: &mut Rig) -> f64 {
    let done = |rig: &mut Rig| rig.daemon.files().tree.jetson().minibatches();
    let before = done(rig);
    rig.run(60);
    done(rig) - before
}

/// A board at the highest clocks of its preset of 30 W, over the limit, beside one that a daemon holds there.
#[test]
fn what_it_would_set_is_what_a_daemon_sets() {
    for power in ["0.9", "1", "1.3"] {
        let mut observed = Rig::new(OVER);
        observed.inject("jetson-clocks");
        let mut held = Rig::new("limit = \"14W\"");
        for rig in [&mut observed, &mut held] {
            rig.inject(&format!("power {power}"));
            rig.run(120);
        }
        let report = observed.daemon.report();
        let drawn = report.measured_mw.expect("measured");
        assert!(drawn > 14_000, "{report}");
        assert!(report.over_limit_ms > 110_000, "{report}");
        let seen = report.observed.expect("observed");
        let would = seen.would_set.expect("a mode");
        let holds = held.daemon.report();
        let measured = holds.measured_mw.expect("measured");
        let [of_board, of_daemon] = [&mut observed, &mut held].map(minibatches);
        let (speed, told) = (
            of_daemon / of_board,
            f64::from(would.speed_pct.expect("a speed")) / 100.0,
        );
        println!(
            "power {power}: draws {drawn} mW; would draw {} mW at {told} of the speed; a daemon draws {measured} mW at {speed:.2}",
            would.power_mw
        );
        assert!((0.85..=1.2).contains(&(told / speed)), "{told} {speed}");
        assert!(would.power_mw <= 14_000);
        assert!(seen.speed_over_pct.is_some_and(|it| it < 100), "{seen:?}");
        let deviation = f64::from(would.power_mw) / f64::from(measured);
        assert!((0.95..=1.1).contains(&deviation), "{deviation}");
    }
}

#[test]
fn each_minute_is_a_row_and_the_log_says_what_would_be_gained() {
    let mut rig = Rig::new(OVER);
    rig.inject("jetson-clocks");
    let mut rows = Vec::new();
    for _ in 0..10 {
        rig.run(20);
        rows.extend(rig.daemon.take_row());
    }
    assert_eq!(rows.len(), 3, "{rows:?}");
    for row in &rows {
        assert!((60_000..62_000).contains(&row.passed.0), "{row:?}");
        assert!(row.over.0 > 55_000 && row.unknown.0 == 0, "{row:?}");
        assert!(row.mean > Milliwatts(14_000) && row.highest > Some(row.mean));
        let would = row.would.expect("a mode");
        assert!(would.power <= Milliwatts(14_000), "{row:?}");
        assert!(row.mode.is_some_and(|mode| mode != would.mode), "{row:?}");
    }
    println!("{}", rig.log.join("\n"));
    let says = |text: &str| rig.log.iter().filter(|line| line.starts_with(text)).count();
    assert!((1..=3).contains(&says("would set ")), "{:?}", rig.log);
    // After one minute and after three.
    assert_eq!(says("observed for "), 2, "{:?}", rig.log);
    let last = rig
        .log
        .iter()
        .rfind(|line| line.starts_with("observed for "));
    assert!(
        last.is_some_and(|it| it.contains("once, at most ")
            && it.contains("held, the workload would have run at ")),
        "{last:?}"
    );
}

/// A board that is idle in a fast mode would not stay within the limit under load.
#[test]
fn a_load_is_remembered_while_the_board_is_idle() {
    let mut rig = Rig::new(OBSERVE);
    rig.run(60);
    let would = |rig: &Rig| {
        let observed = rig.daemon.report().observed.expect("observed");
        observed.would_set.expect("a mode")
    };
    let busy = would(&rig);
    rig.inject("activity 0.05");
    rig.run(120);
    assert_eq!(would(&rig).gpu_khz, busy.gpu_khz);
}

#[test]
fn the_status_begins_with_not_holding_and_the_knobs_stay() {
    with_board("20W", |rig| {
        rig.configure(OBSERVE);
        let before = rig.knobs();
        let mut daemon = rig.run("<5>would ");
        let (code, status, errors) = rig.status(&[]);
        assert_eq!((code, errors.as_str()), (Some(0), ""));
        assert!(
            status.starts_with("NOT HOLDING: the daemon only observes, as its config says; "),
            "{status}"
        );
        assert!(status.contains("\nstate observing\n"), "{status}");
        assert!(status.contains("; would set "), "{status}");
        let (_, json, _) = rig.status(&["--json"]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("an object");
        assert_eq!(json["holding"], false);
        assert!(json["observed"]["would_set"]["power_mw"].is_u64(), "{json}");
        let (code, _, errors) = outcome(rig.client("lease").args(["15W", "true"]));
        assert_eq!(code, Some(5));
        assert!(
            errors.starts_with("error: the daemon only observes: it writes nothing to the board"),
            "{errors}"
        );
        daemon.signal(Signal::KILL);
        assert_eq!(daemon.exit_code(), None);
        assert_eq!(rig.knobs(), before);
        rig.run("<5>would ").stop();
        assert_eq!(rig.knobs(), before);
        assert!(!rig.saved_state_file().exists());
    });
}
