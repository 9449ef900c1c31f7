//! The program beside the daemon, which lends it the board.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use wattgate_board::Disk;
use wattgate_cli::steps::Steps;
use wattgate_runtime::Milliwatts;
use wattgate_watchdog::client::Client;
use wattgate_watchdog::clock::{Clock, System};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::daemon::Daemon;
use wattgate_watchdog::limits::Lowerings;
use wattgate_watchdog::lock::{Lock, directory, root_directory};
use wattgate_watchdog::report::{Report, Source};
use wattgate_watchdog::saved_state::SavedState;
use wattgate_watchdog::serve::Services;
use wattgate_watchdog::serve::protocol::{Request, WantedLimit};
use wattgate_watchdog::serve::socket::Socket;
use wattgate_watchdog::setup::Setup;
use wattgate_watchdog::steps;
use wattgate_watchdog::steps::receiver::Receiver;

use crate::board::{highest, lowest, middle};
use crate::faults::{model, modes};
use crate::living::{Background, Living, Running, SPEED, STEPS, planner, run, wait_for, workload};

/// `wattgated run` on a thread.
struct Watchdog {
    /// 0 while it runs, else how it ends.
    end: Arc<AtomicU8>,
    thread: Option<JoinHandle<()>>,
    root: PathBuf,
}

const CLEAN: u8 = 1;
const KILLED: u8 = 2;

impl Watchdog {
    /// Starts the daemon with a limit of 30 W.
    fn start(living: &Living) -> Self {
        let root = living.root();
        let path = root.join("etc/wattgated.toml");
        let models = living.path("models");
        fs::create_dir_all(&models).expect("made");
        fs::copy(model(), models.join("model.wgt")).expect("copied");
        let folder = models.display();
        let text = format!("version = 1\nmodel = \"{folder}/model.wgt\"\nlimit = \"30W\"\n");
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(&path, text).expect("written");
        let config = Config::read(&path).expect("a config");
        let end = Arc::new(AtomicU8::new(0));
        let (ends, below) = (Arc::clone(&end), root.clone());
        let thread = thread::spawn(move || {
            let setup = Setup::new(config, &Disk, &below).expect("usable");
            let _lock = Lock::take(&below).expect("free");
            let state = below.join("var/lib/wattgate");
            let saved_state = SavedState::keep(&setup.board, &Disk, &below, &state).expect("kept");
            let mut daemon = Daemon::new(setup, Disk, System.utc(), Lowerings::default());
            let clients = Socket::open(&directory(&below), None).expect("opened");
            let of_root = Socket::open_root(&root_directory(&below)).expect("opened");
            let steps = Receiver::at(&steps::socket(&below)).expect("opened");
            let mut services = Services::new(Some(of_root), Some(clients), Some(steps));
            while ends.load(Ordering::Relaxed) == 0 {
                let next = daemon.step(&System, &mut |_| ());
                let changed = services.turn(true, &mut daemon, &System, next);
                if !changed && System.now() < next {
                    thread::sleep(Duration::from_millis(1));
                }
            }
            if ends.load(Ordering::Relaxed) == CLEAN {
                let (mut board, mut files) = daemon.release();
                saved_state
                    .restore(&mut board, &mut files)
                    .expect("restored");
            }
        });
        let watchdog = Self {
            end,
            thread: Some(thread),
            root,
        };
        wait_for("the daemon", || Client::connect(&watchdog.root).is_ok());
        watchdog.await_state("tracking");
        watchdog
    }

    fn report(&self) -> Report {
        let mut client = Client::connect(&self.root).expect("it runs");
        client.status().expect("a status")
    }

    fn await_state(&self, state: &str) {
        wait_for(state, || self.report().state == state);
    }

    fn await_lent(&self) {
        self.await_state("yielded");
    }

    /// Waits until the daemon holds its limit.
    fn await_held(&self, limit_mw: u32, from: Source) {
        wait_for("a limit that is held", || {
            let report = self.report();
            report.state == "tracking" && (report.limit_mw, report.limit_from) == (limit_mw, from)
        });
    }

    fn end(&mut self, how: u8) {
        self.end.store(how, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("no panic");
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.end.store(KILLED, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// A board that runs ResNet-18 under a daemon, and its settings before.
fn with_daemon() -> (Living, Watchdog, Vec<String>) {
    let living = Living::loaded();
    let before = living.settings();
    let daemon = Watchdog::start(&living);
    (living, daemon, before)
}

/// As a service's are, which `wattgate` has not started.
#[test]
fn a_process_whose_steps_the_daemon_takes_is_profiled() {
    let (living, daemon, _) = with_daemon();
    living.list(&[lowest(living.name)]);
    let running = Running::start("exec sleep 600");
    let done = Arc::new(AtomicU8::new(0));
    let (ends, path) = (Arc::clone(&done), steps::socket(&living.root()));
    let sender = thread::spawn(move || {
        let mut steps = Steps::new(Some(path), 8, "yolo");
        let begun = Instant::now();
        while ends.load(Ordering::Relaxed) == 0 {
            // 100 steps a second of real time.
            steps.report(begun.elapsed().as_millis() as u64 / 10);
            thread::sleep(Duration::from_millis(2));
        }
    });
    let mut command = living.profile_by(&[]);
    command.args(["--attach", &running.0.id().to_string()]);
    let (code, _, errors) = run(&mut command);
    done.store(CLEAN, Ordering::Relaxed);
    sender.join().expect("no panic");
    assert_eq!(code, Some(0), "{errors}");
    let corpus = fs::read_to_string(living.path("corpus.csv")).expect("rows");
    let mut lines = corpus
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().expect("a header");
    let column = |name: &str| head.iter().position(|it| *it == name).expect("a column");
    let row = lines.next().expect("a row");
    assert_eq!(row[column("workload")], "yolo");
    assert_eq!(row[column("minibatch")], "8");
    let ms: f64 = row[column("time_ms")].parse().expect("a number");
    let expected = 10.0 * SPEED;
    assert!((ms / expected - 1.0).abs() < 0.03, "{ms} of {expected} ms");
    daemon.await_held(30_000, Source::Config);
}

#[test]
fn a_session_keeps_the_limit_of_the_daemon_which_holds_it_again_afterwards() {
    let (living, mut daemon, before) = with_daemon();
    let session = Background::start(&mut living.profile(&[], STEPS));
    daemon.await_lent();
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(0), "{errors}");
    let rows = living.rows();
    assert!(
        rows[0].ends_with(',') && rows[1].ends_with(",over_limit"),
        "{rows:?}"
    );
    daemon.await_held(30_000, Source::Config);
    daemon.end(CLEAN);
    living.await_settings(&before);
}

#[test]
fn after_a_kill_the_daemon_takes_the_board_over() {
    let (living, mut daemon, before) = with_daemon();
    let session = Background::start(&mut living.profile(&[], STEPS));
    wait_for("a row", || !living.rows().is_empty());
    session.send(Signal::KILL);
    daemon.await_held(30_000, Source::Config);
    daemon.end(CLEAN);
    living.await_settings(&before);
}

const LOST: &str = "error: the daemon does not lend the board any longer: ";

#[test]
fn a_session_that_was_stopped_writes_nothing_once_the_daemon_has_the_board() {
    let (living, mut daemon, _) = with_daemon();
    let [low, high] = [lowest(living.name), highest(living.name)];
    living.list(&[low, high, middle(living.name)]);
    let session = Background::start(&mut living.profile(&["--limit", "60W"], STEPS));
    wait_for("a mode", || living.mode() == Some(high));
    session.send(Signal::STOP);
    daemon.await_held(30_000, Source::Config);
    // Nobody but the session could write from here on.
    daemon.end(KILLED);
    let left = living.settings();
    session.send(Signal::CONT);
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(5), "{errors}");
    assert!(errors.contains(LOST), "{errors}");
    assert_eq!(living.settings(), left);
}

#[test]
fn the_end_of_the_daemon_ends_the_session_and_its_next_start_restores_the_board() {
    let (living, mut daemon, before) = with_daemon();
    let session = Background::start(&mut living.profile(&["--limit", "60W"], STEPS));
    wait_for("a mode", || living.mode() == Some(highest(living.name)));
    daemon.end(KILLED);
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(5), "{errors}");
    assert!(errors.contains(LOST), "{errors}");
    assert!(
        living.saved_state_file().exists(),
        "the daemon's to restore"
    );
    let mut daemon = Watchdog::start(&living);
    daemon.end(CLEAN);
    living.await_settings(&before);
}

#[test]
fn a_lower_limit_of_the_daemon_ends_the_session() {
    let (living, daemon, _) = with_daemon();
    let session = Background::start(&mut living.profile(&[], STEPS));
    daemon.await_lent();
    let mut client = Client::connect(&living.root()).expect("it runs");
    let lower = WantedLimit::from_power(Milliwatts(20_000));
    client.ask(Request::SetLimit(Some(lower))).expect("set");
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(5), "{errors}");
    assert!(errors.contains(LOST), "{errors}");
    daemon.await_held(20_000, Source::Socket);
}

#[test]
fn only_one_session_has_the_board_of_a_daemon() {
    let (living, daemon, _) = with_daemon();
    let session = Background::start(&mut living.profile(&[], STEPS));
    daemon.await_lent();
    let (code, _, errors) = run(&mut living.profile(&[], STEPS));
    assert_eq!(code, Some(5), "{errors}");
    assert!(errors.contains("another client has the board"), "{errors}");
    let mut command = living.command("run");
    let (code, _, errors) = run(command.args(["--limit", "20W", "true"]));
    assert_eq!(code, Some(5), "{errors}");
    assert!(errors.contains("so the daemon holds no limit"), "{errors}");
    let (code, _, errors) = session.end();
    assert_eq!(code, Some(0), "{errors}");
}

#[test]
fn run_leases_a_limit_that_ends_with_it() {
    let (living, daemon, _) = with_daemon();
    for signal in [Signal::TERM, Signal::KILL] {
        let mut command = living.command("run");
        workload(command.args(["--limit", "20W"]), STEPS);
        let session = Background::start(&mut command);
        daemon.await_held(20_000, Source::Lease);
        session.send(signal);
        let (code, held, errors) = session.end();
        if signal == Signal::TERM {
            assert_eq!(code, None, "by the signal: {errors}");
            let is_held = |line: &str| line.starts_with("held 20 W for ");
            assert!(held.lines().any(is_held), "{held}");
        }
        daemon.await_held(30_000, Source::Config);
    }
}

#[test]
fn run_tells_the_daemon_its_aim_and_the_steps() {
    let (living, daemon, _) = with_daemon();
    let mut command = living.command("run");
    command.args(["--limit", "20W", "--steps", "100000", "--within", "1h"]);
    workload(&mut command, STEPS);
    let session = Background::start(&mut command);
    daemon.await_held(20_000, Source::Lease);
    let mut client = Client::connect(&living.root()).expect("it runs");
    let mut status = || client.status().expect("a status");
    let aim = status().aim;
    assert_eq!(aim.as_deref(), Some("least-power, 100000 steps within 1 h"));
    wait_for("steps", || status().steps > Some(20));
    session.send(Signal::TERM);
    let (code, said, errors) = session.end();
    assert_eq!(code, None, "by the signal: {errors}");
    assert!(said.contains("\ndeadline not over: "), "{said}");
    assert!(said.contains(" of 100000 steps after "), "{said}");
    daemon.await_held(30_000, Source::Config);
    assert_eq!(status().aim, None);
}

#[test]
fn a_name_that_comes_with_the_first_step_changes_the_model_of_the_lease() {
    let (living, daemon, _) = with_daemon();
    let models = living.path("models");
    fs::copy(model(), models.join("yolo.wgt")).expect("copied");
    let mut command = living.command("run");
    command.args(["--limit", "20W", "--steps", "100000", "--within", "1h"]);
    let script = r#"while :; do "$0" step --name yolo; done"#;
    command.args(["sh", "-c", script, env!("CARGO_BIN_EXE_wattgate")]);
    let session = Background::start(&mut command);
    wait_for("the model", || {
        daemon.report().model.as_deref() == Some("yolo.wgt")
    });
    wait_for("steps", || daemon.report().steps > Some(3));
    let report = daemon.report();
    // The time for the work goes on.
    let left = report.remaining_ms.expect("a time");
    assert!((3_000_000..3_600_000).contains(&left), "{left}");
    assert_eq!(
        (report.limit_mw, report.limit_from),
        (20_000, Source::Lease)
    );
    session.send(Signal::TERM);
    let (code, _, errors) = session.end();
    assert_eq!(code, None, "by the signal: {errors}");
    assert!(
        errors.contains("the workload is `yolo`: the model is "),
        "{errors}"
    );
    daemon.await_held(30_000, Source::Config);
    assert_eq!(daemon.report().model.as_deref(), Some("model.wgt"));
}

#[test]
fn what_was_learned_holds_in_the_daemon() {
    let (living, daemon, _) = with_daemon();
    let planner = planner(living.folder.path(), &modes(5), &model());
    let learn = |model: &str| {
        let mut command = living.command("learn");
        command.args(["--limit", "25W", "--hold", "5", "--planner", &planner]);
        command.args(["-o", "corpus.csv", "--model", model]);
        workload(&mut command, STEPS);
        run(&mut command)
    };
    let (code, _, errors) = learn("elsewhere.wgt");
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("elsewhere.wgt is not in "), "{errors}");
    assert!(living.rows().is_empty());
    let (code, held, errors) = learn("models/work.wgt");
    assert_eq!(code, Some(0), "{errors}");
    let is_held = |line: &str| line.starts_with("held 25 W for ");
    assert!(held.lines().any(is_held), "{held}");
    assert!(
        errors.contains("etc/wattgated.toml stays as it is"),
        "{errors}"
    );
    // The lease is over; the model stays.
    daemon.await_held(30_000, Source::Config);
    assert_eq!(daemon.report().model.as_deref(), Some("work.wgt"));
}
