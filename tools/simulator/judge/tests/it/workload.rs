//! The command `workload` as a process, beside the command `board`. All times are the board's.

use std::cell::Cell;
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use wattgate_board_tables::Board;
use wattgate_cli::steps::{MAX_BYTES, SOCKET, StepLine};
use wattgate_simulated_board::pipeline::{Clocks, Luck, Pipeline};
use wattgate_simulated_board::tree::mirror::{Living, Progress};
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;

use crate::common::{cpu, gpu, online};
use crate::eventually::eventually;
use crate::running::{Running, command};

/// A workload on a board, which is killed when this value is dropped.
struct Working(Child);

impl Working {
    fn start(command: &mut Command) -> Self {
        Self(command.spawn().expect("started"))
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).expect("it runs");
    }

    /// Waits for the end, and receives until then: a full queue takes no further line.
    fn code_beside(&mut self, receiver: &Receiver) -> Option<i32> {
        let end = eventually("its end", || {
            receiver.count();
            self.0.try_wait().expect("a child")
        });
        end.code()
    }

    fn code(&mut self) -> Option<i32> {
        let end = eventually("its end", || self.0.try_wait().expect("a child"));
        end.code()
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        // The workload may have ended before.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn workload(board: &Running, name: &str) -> Command {
    let mut command = command();
    command.args(["workload", "--workload", name, "--root"]);
    command.arg(board.root.path()).env_remove(SOCKET);
    command
}

/// The receiving end of the steps protocol.
struct Receiver {
    _folder: TempDir,
    path: PathBuf,
    socket: Option<UnixDatagram>,
    /// The last line.
    last: Cell<Option<u64>>,
}

impl Receiver {
    fn absent() -> Self {
        let folder = tempfile::tempdir().expect("a directory");
        Self {
            path: folder.path().join("socket"),
            _folder: folder,
            socket: None,
            last: Cell::new(None),
        }
    }

    fn bound() -> Self {
        let mut receiver = Self::absent();
        receiver.bind();
        receiver
    }

    fn bind(&mut self) {
        let socket = UnixDatagram::bind(&self.path).expect("bound");
        socket.set_nonblocking(true).expect("set");
        self.socket = Some(socket);
    }

    fn leave(&mut self) {
        self.socket = None;
        self.last.set(None);
        fs::remove_file(&self.path).expect("there");
    }

    /// The last count that has been received.
    fn count(&self) -> Option<u64> {
        let socket = self.socket.as_ref().expect("bound");
        let mut buffer = [0; MAX_BYTES + 1];
        while let Ok(length) = socket.recv(&mut buffer) {
            let line = StepLine::parse(&buffer[..length]).expect("a line");
            assert!(self.last.get() <= Some(line.steps), "a count goes back");
            self.last.set(Some(line.steps));
        }
        self.last.get()
    }

    /// The last line that has been received.
    fn line(&self) -> Option<StepLine> {
        let socket = self.socket.as_ref().expect("bound");
        let mut buffer = [0; MAX_BYTES + 1];
        let mut last = None;
        while let Ok(length) = socket.recv(&mut buffer) {
            last = Some(StepLine::parse(&buffer[..length]).expect("a line"));
        }
        last
    }

    /// Waits for the count of a board whose only workload stands still.
    fn counts_all_of(&self, board: &Living) -> u64 {
        let all = progress(board).work.minibatches as u64;
        eventually("the count", || self.count().filter(|count| *count == all))
    }
}

fn living(board: &Running) -> Living {
    Living::open(board.root.path()).expect("a board")
}

fn progress(board: &Living) -> Progress {
    board.progress().expect("it lives")
}

fn pass(board: &Living, seconds: f64) {
    let end = progress(board).seconds + seconds;
    eventually("time", || (progress(board).seconds >= end).then_some(()));
}

/// When the board executed a command last, in s.
fn executed(board: &Running, command: &str) -> f64 {
    let log = board.log();
    let of_command = |line: &str| {
        let (seconds, text) = line.split_once(' ')?;
        (text.strip_prefix(command)? == ": ok").then(|| seconds.parse().expect("a time"))
    };
    let last = log.lines().rev().find_map(of_command);
    last.unwrap_or_else(|| panic!("no `{command}`: {log}"))
}

/// The true time of a minibatch in s.
fn period(workload: &str, unit: &Unit, mode: [u32; 4]) -> f64 {
    let board = Board::named("orin-nano-8-super").expect("a board");
    let workload = Workload::named(workload).expect("a workload");
    let pipeline = Pipeline::new(&board, &workload, Clocks::from_knobs(&board, mode));
    unit.time * pipeline.step(None, &Luck::NONE).period
}

/// Sets a mode while the workload stands still.
fn set(board: &Running, living: &Living, [cores, cpu_khz, gpu_khz, _]: [u32; 4]) {
    for core in [0, 4] {
        let max = cpu(core, "scaling_max_freq");
        board.write(&max, &cpu_khz.to_string()).expect("written");
        board.shows(&max, &format!("{cpu_khz}\n"));
    }
    board
        .write(&gpu("max_freq"), &format!("{gpu_khz}000"))
        .expect("written");
    for core in cores..6 {
        board.write(&online(core), "0").expect("written");
    }
    // A command is obeyed after all writes before it.
    living.order("ambient 25").expect("obeyed");
    // The clocks follow after their delays.
    pass(living, 0.05);
}

const MODES: [[u32; 4]; 3] = [
    [6, 1_190_400, 612_000, 3_199_000],
    [6, 960_000, 306_000, 3_199_000],
    [4, 1_344_000, 408_000, 3_199_000],
];

/// Compares the received counts of `seconds` in each mode with the true time of a step.
fn received_counts_are_true(speed: &str, name: &str, seconds: f64) {
    let board = Running::start_with(&["--speed", speed, "--unit", "5"]);
    let unit = Unit::drawn(5);
    let receiver = Receiver::bound();
    let mut working = Working::start(workload(&board, name).env(SOCKET, &receiver.path));
    eventually("a line", || receiver.count());
    let living = living(&board);
    let order = |line| {
        living.order(line).expect("obeyed");
        executed(&board, line)
    };
    order("activity 0");
    for mode in MODES {
        set(&board, &living, mode);
        let before = receiver.counts_all_of(&living);
        let start = order("activity 1");
        pass(&living, seconds);
        let end = order("activity 0");
        let steps = receiver.counts_all_of(&living) - before;
        let (took, truth) = ((end - start) / steps as f64, period(name, &unit, mode));
        assert!(steps > 200, "{mode:?}: only {steps} steps");
        assert!(
            (took / truth - 1.0).abs() < 0.01,
            "{mode:?}: {took} s for a step, expected {truth}"
        );
    }
    working.signal(Signal::TERM);
    assert_eq!(working.code(), Some(0));
}

#[test]
fn received_counts_are_true_at_1x() {
    received_counts_are_true("1x", "lenet", 3.0);
}

#[test]
fn received_counts_are_true_at_20x() {
    received_counts_are_true("20x", "lstm", 30.0);
}

#[test]
fn a_fed_workload_tells_its_minibatch_and_where_its_time_goes() {
    let board = Running::start_with(&["--speed", "20x"]);
    let receiver = Receiver::bound();
    let mut command = workload(&board, "mobilenetv3");
    let fed = ["--minibatch", "8", "--workers", "0", "--steps", "150"];
    let mut working = Working::start(command.args(fed).env(SOCKET, &receiver.path));
    let mut last = None;
    eventually("its end", || {
        last = receiver.line().or(last.take());
        working.0.try_wait().expect("a child")
    });
    let last = receiver.line().or(last).expect("a line");
    assert_eq!((last.steps, last.items), (150, Some(8)));
    let took =
        executed(&board, "load off") - executed(&board, "load mobilenetv3 minibatch 8 workers 0");
    let description = Board::named("orin-nano-8-super").expect("a board");
    let known = Workload::named("mobilenetv3").expect("a workload");
    let fed = known.with_minibatch(8).and_then(|fed| fed.with_workers(0));
    let fed = fed.expect("numbers");
    let clocks = Clocks::from_knobs(&description, [6, 1_728_000, 1_020_000, 3_199_000]);
    let step = Pipeline::new(&description, &fed, clocks).step(None, &Luck::NONE);
    for (told, part) in [
        (last.fetch_us, step.fetch / step.period),
        (last.compute_us, step.gpu / step.period),
    ] {
        let told = 1e-6 * told.expect("told") as f64 / took;
        // Over-current throttling moves the parts.
        assert!(
            (told - part).abs() < 0.05,
            "{told} of the time, expected {part}"
        );
    }
    assert!(step.fetch > 0.2 * step.period, "the step hardly waits");
}

/// Checks that the board's only workload is off.
fn is_off(board: &Running, living: &Living) -> f64 {
    let last = board.log().lines().last().map(str::to_owned);
    assert!(last.is_some_and(|line| line.ends_with(" load off: ok")));
    let all = progress(living).work.minibatches;
    pass(living, 0.5);
    assert_eq!(progress(living).work.minibatches, all);
    all
}

#[test]
fn a_signal_takes_the_load_off_and_the_last_count_is_sent() {
    for signal in [Signal::TERM, Signal::INT] {
        let board = Running::start_with(&["--speed", "10x"]);
        let living = living(&board);
        let receiver = Receiver::bound();
        let mut working = Working::start(workload(&board, "lenet").env(SOCKET, &receiver.path));
        eventually("steps", || receiver.count().filter(|count| *count > 100));
        working.signal(signal);
        assert_eq!(working.code_beside(&receiver), Some(0));
        let all = is_off(&board, &living);
        assert_eq!(receiver.count(), Some(all as u64));
    }
}

#[test]
fn steps_of_a_number_end_it_and_steps_of_another_load_do_not_count() {
    let board = Running::start_with(&["--workload", "lenet", "--speed", "20x"]);
    let living = living(&board);
    eventually("other steps", || {
        (progress(&living).work.minibatches > 500.0).then_some(())
    });
    let receiver = Receiver::bound();
    let mut command = workload(&board, "resnet18");
    let mut working = Working::start(command.args(["--steps", "200"]).env(SOCKET, &receiver.path));
    assert_eq!(working.code_beside(&receiver), Some(0));
    assert_eq!(receiver.count(), Some(200));
    is_off(&board, &living);
    let took = executed(&board, "load off") - executed(&board, "load resnet18");
    let steps = took
        / period(
            "resnet18",
            &Unit::NOMINAL,
            [6, 1_728_000, 1_020_000, 3_199_000],
        );
    // Over-current throttling makes some steps longer.
    assert!(steps > 198.0, "200 steps in the time of {steps}");
}

#[test]
fn a_receiver_may_be_absent_come_late_leave_and_come_back() {
    let board = Running::start_with(&["--speed", "10x"]);
    let living = living(&board);
    let mut receiver = Receiver::absent();
    let mut working = Working::start(workload(&board, "lenet").env(SOCKET, &receiver.path));
    let works = || {
        let before = progress(&living).work.minibatches;
        eventually("steps", || {
            (progress(&living).work.minibatches > before + 300.0).then_some(())
        });
    };
    works();
    for _ in 0..2 {
        receiver.bind();
        let first = eventually("a line", || receiver.count());
        assert!(first > 300, "{first} steps");
        eventually("more", || receiver.count().filter(|count| *count > first));
        receiver.leave();
        works();
    }
    working.signal(Signal::TERM);
    assert_eq!(working.code(), Some(0));
    is_off(&board, &living);
}

fn has_socket(process: &Child) -> bool {
    let files = fs::read_dir(format!("/proc/{}/fd", process.id())).expect("it runs");
    let targets = files.filter_map(|file| fs::read_link(file.ok()?.path()).ok());
    let mut sockets = targets.filter(|target| target.to_string_lossy().starts_with("socket:"));
    sockets.next().is_some()
}

#[test]
fn without_the_variable_there_is_no_socket() {
    let board = Running::start();
    let living = living(&board);
    let receiver = Receiver::bound();
    for (socket, expected) in [
        (None, false),
        (Some(Path::new("")), false),
        (Some(&*receiver.path), true),
    ] {
        let mut command = workload(&board, "lenet");
        if let Some(socket) = socket {
            command.env(SOCKET, socket);
        }
        let before = progress(&living).work.minibatches;
        let mut working = Working::start(command.stdin(std::process::Stdio::null()));
        eventually("steps", || {
            (progress(&living).work.minibatches > before + 100.0).then_some(())
        });
        match expected {
            true => eventually("a socket", || has_socket(&working.0).then_some(())),
            false => assert!(!has_socket(&working.0), "{socket:?}"),
        }
        working.signal(Signal::TERM);
        assert_eq!(working.code(), Some(0));
    }
}

fn refused(command: &mut Command, code: i32, message: &str) {
    let Output { status, stderr, .. } = command.output().expect("it ends");
    let stderr = String::from_utf8(stderr).expect("text");
    assert!(stderr.contains(message), "{message}: {stderr}");
    assert_eq!(status.code(), Some(code), "{stderr}");
}

#[test]
fn wrong_arguments_are_named() {
    let folder = tempfile::tempdir().expect("a directory");
    let root = folder.path().to_str().expect("text");
    let (file, defect) = (format!("{root}/file"), format!("{root}/defect.toml"));
    for path in [&file, &defect] {
        fs::write(path, "name = 1\n").expect("written");
    }
    let absent = format!("{root}/absent");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["--workload", "lenet"], 2, "missing --root"),
        (&["--root", root], 2, "missing --workload"),
        (
            &["--speed", "10x"],
            2,
            "there is no option --speed; --help lists the options",
        ),
        (
            &["--steps", "0"],
            2,
            "--steps is `0`, expected a number above 0",
        ),
        (
            &["--root", root, "--workload", "alexnet"],
            2,
            "unknown workload `alexnet`",
        ),
        (&["--root", root, "--workload", &defect], 3, "defect.toml: "),
        (
            &["--root", root, "--workload", "lenet"],
            2,
            "no board lives there",
        ),
        (
            &["--root", &absent, "--workload", "lenet"],
            2,
            "absent: no board lives there",
        ),
        (
            &["--root", &file, "--workload", "lenet"],
            2,
            "file: no board lives there",
        ),
    ];
    for (arguments, code, message) in cases {
        refused(command().arg("workload").args(arguments), code, message);
    }
}

#[test]
fn the_files_of_a_board_that_has_ended_are_no_board() {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut board = Running::start();
        kill_process(Pid::from_child(&board.child), signal).expect("it runs");
        board.end();
        let control = board.read("control").expect("there");
        refused(&mut workload(&board, "lenet"), 2, "no board lives there");
        assert_eq!(board.read("control").expect("there"), control);
    }
}

#[test]
fn a_board_that_ends_in_the_middle_ends_its_workload() {
    type End = fn(&Running);
    let crash: End = |board| board.order(&format!("crash {}", cpu(0, "scaling_max_freq")));
    let kill: End = |board| {
        kill_process(Pid::from_child(&board.child), Signal::KILL).expect("it runs");
    };
    for end in [crash, kill] {
        let board = Running::start();
        let receiver = Receiver::bound();
        let mut command = workload(&board, "lenet");
        let command = command
            .env(SOCKET, &receiver.path)
            .stderr(std::process::Stdio::piped());
        let mut working = Working::start(command);
        eventually("steps", || receiver.count().filter(|count| *count > 10));
        end(&board);
        assert_eq!(working.code(), Some(5));
        let stderr = working.0.stderr.take().expect("piped");
        let stderr = std::io::read_to_string(stderr).expect("text");
        assert!(
            stderr.ends_with(": the board has ended; start it again\n"),
            "{stderr}"
        );
    }
}

#[test]
fn a_file_is_found_from_another_working_directory() {
    let board = Running::start();
    let living = living(&board);
    let folder = tempfile::tempdir().expect("a directory");
    let lenet = include_str!("../../../workloads/lenet.toml");
    for name in ["mine.toml", "not mine.toml"] {
        fs::write(folder.path().join(name), lenet).expect("written");
    }
    let mut mine = workload(&board, "mine.toml");
    mine.args(["--steps", "20"]).current_dir(folder.path());
    assert_eq!(mine.status().expect("it ends").code(), Some(0));
    assert!(is_off(&board, &living) >= 20.0);
    refused(
        workload(&board, "not mine.toml").current_dir(folder.path()),
        5,
        "not mine.toml`: unknown workload",
    );
}
