//! The program `wattgated` as a process, on a simulated board whose files are on a disk.

use std::fs;
use std::io::{self, BufRead, BufReader, ErrorKind, PipeReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

pub use crate::eventually::{TIMEOUT, eventually};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use wattgate_board::{Board, Disk};
use wattgate_board_tables::Board as Description;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::mirror::Mirror;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::serve::protocol::Request;

pub const MODEL: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/models/orin-agx-64-resnet18.wgt"
);

/// The files of an AGX Orin that runs ResNet-18, and a config.
pub struct Rig {
    _directory: TempDir,
    pub root: PathBuf,
    pub config: PathBuf,
}

impl Rig {
    pub fn new(limit: &str) -> (Self, Mirror) {
        let directory = tempfile::tempdir().expect("a directory");
        let description = Description::named("orin-agx-64").expect("a board");
        let mut tree = Tree::new(description, Unit::NOMINAL, 1, None).expect("a mode");
        let workload = Workload::named("resnet18").expect("a shipped workload");
        tree.jetson_mut().set_workload(Some(workload));
        let root = directory.path().join("root");
        let mirror = Mirror::create(&root, tree).expect("a tree on the disk");
        let config = directory.path().join("wattgated.toml");
        let rig = Self {
            _directory: directory,
            root,
            config,
        };
        rig.configure(&format!("limit = \"{limit}\""));
        (rig, mirror)
    }

    /// Writes a config with these lines after `version` and `model`.
    pub fn configure(&self, lines: &str) {
        let text = format!("version = 1\nmodel = \"{MODEL}\"\n{lines}\n");
        fs::write(&self.config, text).expect("written");
    }

    pub fn command(&self, command: &str) -> Command {
        let mut process = Command::new(env!("CARGO_BIN_EXE_wattgated"));
        process.args([command, "--config"]).arg(&self.config);
        process.arg("--root").arg(&self.root);
        process
    }

    /// Starts `run` and waits for a log line that contains `text`.
    pub fn run(&self, text: &str) -> Daemon {
        let mut daemon = Daemon::start(self.command("run"));
        daemon.logs(text);
        daemon
    }

    /// Waits until the board is in the mode.
    pub fn await_mode(&self, mode: &str) {
        self.await_mode_of(mode, || {});
    }

    /// The same after a command that writes once, and runs that command again if the board is not in the mode after a
    /// second. The simulated tree may lose a write: the one to a file that it writes itself at that moment.
    pub fn await_mode_of(&self, mode: &str, again: impl Fn()) {
        let board = Board::discover_knobs(&Disk, &self.root).expect("a board");
        let start = Instant::now();
        let mut repeated = 0;
        loop {
            let current = board.current(&Disk);
            if current
                .mode()
                .is_some_and(|current| current.to_string() == mode)
            {
                return;
            }
            let passed = start.elapsed();
            assert!(passed < TIMEOUT, "{current:?}, expected {mode}");
            if passed.as_secs() > repeated {
                repeated = passed.as_secs();
                again();
            }
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Configures a copy of the model beside the config. Returns its path.
    pub fn configure_copy(&self, lines: &str) -> PathBuf {
        let model = self.config.with_file_name("model.wgt");
        fs::copy(MODEL, &model).expect("copied");
        let text = format!("version = 1\nmodel = \"model.wgt\"\n{lines}\n");
        fs::write(&self.config, text).expect("written");
        model
    }

    pub fn output(&self, command: &str) -> (Option<i32>, String, String) {
        outcome(&mut self.command(command))
    }

    /// A command for the daemon of this board: `status`, `watch`, `set-limit` or `set-model`.
    pub fn client(&self, command: &str) -> Command {
        let mut process = Command::new(env!("CARGO_BIN_EXE_wattgated"));
        process.arg(command).arg("--root").arg(&self.root);
        process
    }

    /// All values of the status: as lines, or with `--json`.
    pub fn status(&self, options: &[&str]) -> (Option<i32>, String, String) {
        let options = if options.is_empty() { &["-v"] } else { options };
        outcome(self.client("status").args(options))
    }

    /// Starts a process that has the connection of a client after this request. `script` runs in a
    /// shell whose output is that connection.
    pub fn holder(&self, request: Request, script: &str) -> Holder {
        let socket = self.root.join("run/wattgated-root/socket");
        let stream = UnixStream::connect(socket).expect("connected");
        (&stream).write_all(&request.line()).expect("sent");
        let mut line = String::new();
        let mut lines = BufReader::new(&stream);
        lines.read_line(&mut line).expect("an answer");
        assert!(line.contains("\"ok\""), "{line}");
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).stdout(OwnedFd::from(stream));
        Holder(shell.spawn().expect("started"))
    }

    /// The file of the saved state.
    pub fn saved_state_file(&self) -> PathBuf {
        self.root.join("var/lib/wattgate/prior")
    }

    /// The present values of all knobs.
    pub fn knobs(&self) -> Vec<String> {
        let board = Board::discover(&Disk, &self.root).expect("a board");
        knobs_in(&board.save(&Disk).expect("readable").to_string())
    }

    /// Waits until all knobs have these values.
    pub fn await_knobs(&self, expected: &[String]) {
        let start = Instant::now();
        while start.elapsed() < TIMEOUT && self.knobs() != expected {
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(self.knobs(), expected);
    }
}

/// A client's process; dropping it kills it.
pub struct Holder(pub Child);

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().expect("alive");
        self.0.wait().expect("a child");
    }
}

/// The lines of a saved state without the boot id, and without the memory clock, which follows the
/// load until it is locked.
pub fn knobs_in(saved: &str) -> Vec<String> {
    let is_knob = |line: &&str| !line.starts_with("boot_id ") && !line.contains("/emc/rate ");
    let lines = saved.lines().filter(is_knob);
    lines.map(str::to_owned).collect()
}

/// Runs a command. Returns its exit code, stdout and stderr.
pub fn outcome(command: &mut Command) -> (Option<i32>, String, String) {
    let mut log = journal(command);
    command.stdout(Stdio::piped()).stdin(Stdio::null());
    let child = command.spawn().expect("started");
    // The command has a copy of the log's end.
    command.stderr(Stdio::null());
    let logged = thread::spawn(move || io::read_to_string(&mut log).expect("text"));
    let Output { status, stdout, .. } = child.wait_with_output().expect("a child");
    let stdout = String::from_utf8(stdout).expect("text");
    (status.code(), stdout, logged.join().expect("a log"))
}

/// Gives a process the log that systemd gives to a unit, and returns its other end.
pub fn journal(command: &mut Command) -> PipeReader {
    let (reader, writer) = io::pipe().expect("a pipe");
    let stat = rustix::fs::fstat(&writer).expect("open");
    let stream = format!("{}:{}", stat.st_dev, stat.st_ino);
    command.env("JOURNAL_STREAM", stream).stderr(writer);
    reader
}

/// The mode that `check` reports for a key, such as `safe`.
pub fn reported_mode(report: &str, key: &str) -> String {
    let value = report.lines().find_map(|line| line.strip_prefix(key));
    let (mode, _) = value.expect(key).split_once(": ").expect("a mode");
    mode.trim().to_owned()
}

/// A daemon process that is killed when it goes out of scope.
pub struct Daemon {
    pub child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Daemon {
    pub fn start(mut command: Command) -> Self {
        let stderr = BufReader::new(journal(&mut command));
        let child = command.spawn().expect("started");
        drop(command);
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let seen = Vec::new();
        Self { child, lines, seen }
    }

    /// A process whose log goes elsewhere.
    pub fn from_child(child: Child) -> Self {
        let (_, lines) = channel();
        let seen = Vec::new();
        Self { child, lines, seen }
    }

    /// Waits for a log line that contains `text` and returns it.
    pub fn logs(&mut self, text: &str) -> String {
        loop {
            let Ok(line) = self.lines.recv_timeout(TIMEOUT) else {
                panic!("not logged: {text}: {:#?}", self.seen);
            };
            self.seen.push(line.clone());
            if line.contains(text) {
                return line;
            }
        }
    }

    /// The number of log lines since the last that was waited for.
    pub fn drain(&mut self) -> usize {
        let lines: Vec<String> = self.lines.try_iter().collect();
        let count = lines.len();
        self.seen.extend(lines);
        count
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn signal(&self, signal: Signal) {
        let id = Pid::from_child(&self.child);
        kill_process(id, signal).expect("alive");
    }

    /// Waits until the process ends. Returns its exit code; `None` after a signal.
    pub fn exit_code(&mut self) -> Option<i32> {
        let ended = eventually("the end of the process", || {
            self.child.try_wait().expect("a child")
        });
        ended.code()
    }

    pub fn stop(&mut self) {
        self.signal(Signal::TERM);
        assert_eq!(self.exit_code(), Some(0), "{:#?}", self.seen);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The next notification of the daemon to systemd.
pub fn notification(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 1024];
    loop {
        match socket.recv(&mut buffer) {
            // Linux does not restart a wait with a timeout after the process was stopped for a while.
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            received => {
                let length = received.expect("a notification");
                return String::from_utf8(buffer[..length].to_vec()).expect("text");
            }
        }
    }
}

/// Stops the simulated board when it goes out of scope, also if a test panics.
pub struct StopOnDrop<'a>(pub &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a test while a thread keeps the simulated board's files up to date.
pub fn with_board(limit: &str, test: impl FnOnce(&Rig)) {
    let (rig, mut mirror) = Rig::new(limit);
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| mirror.run(&stop, 1.0).expect("the mirror runs"));
        let _stop = StopOnDrop(&stop);
        test(&rig);
    });
}
