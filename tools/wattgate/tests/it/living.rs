//! Simulated boards that live on a thread, and the program on them as a process.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use wattgate_board::{Board, Disk};
use wattgate_board_tables::Board as Description;
use wattgate_runtime::PowerMode;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::mirror::{self, Mirror};
use wattgate_simulated_board::unit::Unit;

use crate::board::{highest, lowest};

/// A test that waits for longer has failed.
pub const LONGEST: Duration = Duration::from_secs(60);

/// A workload in a shell that prints its steps.
pub const STEPS: &str = "i=0; while :; do i=$((i+1)); echo step $i; sleep 0.002; done";

pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONGEST, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// The number of a process that wrote it to a file.
pub fn pid(path: &Path) -> Pid {
    let mut pid = None;
    wait_for("a process number", || {
        let text = fs::read_to_string(path).unwrap_or_default();
        let number = text.strip_suffix('\n').map(str::parse);
        pid = number.and_then(Result::ok).and_then(Pid::from_raw);
        pid.is_some()
    });
    pid.expect("waited for")
}

/// A living board in a folder, with the list `modes.csv` of its lowest and highest mode.
pub struct Living {
    pub folder: tempfile::TempDir,
    pub name: &'static str,
    rails: Vec<String>,
    /// Number of knobs and sensors that it does not have.
    missing: usize,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The board's time per real time.
pub const SPEED: f64 = 10.0;

impl Living {
    pub fn start() -> Self {
        Self::named("orin-agx-64")
    }

    pub fn named(name: &'static str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let description = Description::named(name).expect("a board");
        let tree = Tree::new(description, Unit::NOMINAL, 0, None).expect("a tree");
        let root = folder.path().join("board");
        let mut mirror = Mirror::create(&root, tree).expect("a board");
        let stop = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            mirror.run(&ends, SPEED).expect("it runs");
        });
        let mut living = Self {
            folder,
            name,
            rails: Vec::new(),
            missing: 0,
            stop,
            thread: Some(thread),
        };
        let board = living.board();
        living.rails = board.rails().map(str::to_owned).collect();
        living.missing = board.missing().len();
        living.list(&[lowest(name), highest(name)]);
        living
    }

    /// A board that runs ResNet-18.
    pub fn loaded() -> Self {
        let living = Self::start();
        living.order("load resnet18");
        living
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn root(&self) -> PathBuf {
        self.path("board")
    }

    /// Lists these modes in `modes.csv`.
    pub fn list(&self, modes: &[PowerMode]) {
        let mut text = "cores,cpu_khz,gpu_khz,emc_khz\n".to_owned();
        for mode in modes {
            let [cores, cpu, gpu, emc] = mode.knobs();
            text += &format!("{cores},{cpu},{gpu},{emc}\n");
        }
        fs::write(self.path("modes.csv"), text).expect("written");
    }

    /// Gives the board a command of its control language.
    pub fn order(&self, command: &str) {
        let board = mirror::Living::open(&self.root()).expect("it lives");
        board.order(command).expect("obeyed");
    }

    /// Injects a fault into all sensors of the power.
    pub fn sensors(&self, fault: &str) {
        for rail in &self.rails {
            self.order(&format!("sensor {rail} {fault}"));
        }
    }

    pub fn board(&self) -> Board {
        Board::discover(&Disk, &self.root()).expect("a board")
    }

    /// The mode that is set.
    pub fn mode(&self) -> Option<PowerMode> {
        self.board().current(&Disk).mode()
    }

    /// All settings but the memory's clock, which follows the load until it is locked.
    pub fn settings(&self) -> Vec<String> {
        let saved = self.board().save(&Disk).expect("readable").to_string();
        let lines = saved.lines().filter(|line| !line.contains("/emc/rate "));
        lines.map(str::to_owned).collect()
    }

    /// Waits until a file is whole that a kill left truncated. No Linux kernel does that.
    pub fn await_files(&self) {
        wait_for("all settings", || {
            let board = self.board();
            board.missing().len() == self.missing && board.save(&Disk).is_ok()
        });
    }

    /// Waits until all settings are what they were.
    pub fn await_settings(&self, expected: &[String]) {
        wait_for("the settings from before", || self.settings() == expected);
        for file in [
            self.saved_state_file(),
            self.saved_state_file().with_file_name("session"),
        ] {
            assert!(!file.exists(), "nothing is left to restore");
        }
    }

    /// The file of the settings from before.
    pub fn saved_state_file(&self) -> PathBuf {
        self.root().join("var/lib/wattgate/prior")
    }

    /// The lines of the corpus after its header.
    pub fn rows(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("corpus.csv")).unwrap_or_default();
        text.lines().skip(1).map(str::to_owned).collect()
    }

    /// The board, workload and unit of each row, without doubles: its first five columns.
    pub fn origins(&self) -> BTreeSet<String> {
        let first = |row: String| row.split(',').take(5).collect::<Vec<_>>().join(",");
        self.rows().into_iter().map(first).collect()
    }

    /// A command of the program on this board.
    pub fn command(&self, command: &str) -> Command {
        self.command_by(&[], command)
    }

    fn command_by(&self, before: &[&str], name: &str) -> Command {
        let program = [env!("CARGO_BIN_EXE_wattgate")];
        let mut words = before.iter().chain(&program);
        let mut command = Command::new(words.next().expect("one"));
        command.args(words).arg(name);
        command.args(["--speed", &SPEED.to_string(), "--root", "board"]);
        command.current_dir(self.folder.path());
        command
    }

    /// `wattgate profile` of the listed modes, started by another program.
    pub fn profile_by(&self, before: &[&str]) -> Command {
        let mut command = self.command_by(before, "profile");
        command.args(["--modes", "modes.csv", "-o", "corpus.csv"]);
        command
    }

    /// `wattgate profile` of the listed modes with these options and a workload in a shell.
    pub fn profile(&self, options: &[&str], script: &str) -> Command {
        let mut command = self.profile_by(&[]);
        workload(command.args(options), script);
        command
    }
}

/// Adds a workload in a shell that prints its steps, with the name `sh`.
pub fn workload(command: &mut Command, script: &str) {
    command.args(["--name", "sh", "--steps-from", r"step (\d+)"]);
    command.args(["--", "sh", "-c", script]);
}

impl Drop for Living {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

/// Runs a command. Returns its exit code, stdout and stderr.
pub fn run(command: &mut Command) -> (Option<i32>, String, String) {
    Background::start(command).end()
}

/// A command that runs in the background. It is killed at the end.
pub struct Background {
    child: Child,
    /// Its stdout and stderr: a pipe that nobody reads would stop the workload.
    printed: [File; 2],
}

impl Background {
    pub fn start(command: &mut Command) -> Self {
        let printed = [(); 2].map(|()| tempfile::tempfile().expect("a file"));
        let [stdout, stderr] = &printed;
        let to = |file: &File| file.try_clone().expect("another");
        command.stdout(to(stdout)).stderr(to(stderr));
        let child = command.spawn().expect("it runs");
        Self { child, printed }
    }

    pub fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("it runs");
    }

    /// Waits for its end. Returns its exit code, stdout and stderr.
    pub fn end(mut self) -> (Option<i32>, String, String) {
        let status = self.child.wait().expect("it ends");
        let [stdout, stderr] = &mut self.printed;
        let text = |file: &mut File| {
            file.rewind().expect("a file");
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).expect("readable");
            String::from_utf8_lossy(&bytes).into_owned()
        };
        (status.code(), text(stdout), text(stderr))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A workload that the program did not start.
pub struct Running(pub Child);

impl Running {
    pub fn start(script: &str) -> Self {
        let mut command = Command::new("sh");
        let child = command.args(["-c", script]).stdin(Stdio::piped()).spawn();
        Self(child.expect("sh"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A planner in a shell for `learn`: it asks for these modes and fits the model in a file.
pub fn planner(folder: &Path, modes: &[PowerMode], model: &Path) -> String {
    let lines = modes.iter().map(|mode| {
        let [cores, cpu, gpu, emc] = mode.knobs();
        format!("{{\"cores\":{cores},\"cpu_khz\":{cpu},\"gpu_khz\":{gpu},\"emc_khz\":{emc}}}\n")
    });
    fs::write(folder.join("asked"), lines.collect::<String>()).expect("written");
    let model = model.display();
    let script = format!(
        r#"while read -r line; do case $line in
*'"version"'*) echo '{{"ready":{{"modes":9}}}}' ;;
*'"ask"'*) if read -r mode <&3
    then echo '{{"measure":{{"mode":'"$mode"',"time_us":null,"power_mw":null,"power_at_most_mw":null}}}}'
    else echo '{{"enough":{{"measured":9,"expected_error_pct":{{"time":null,"power":null}}}}}}'
    fi ;;
*'"tell"'*) echo '{{"told":{{"measured":9}}}}' ;;
*'"exclude"'*) echo '{{"excluded":{{"modes":9}}}}' ;;
*'"fit"'*) echo '{{"fitted":{{"model":"'"$(base64 -w0 '{model}')"'","modes":9,"expected_error_pct":{{"time":1.0,"power":2.0}}}}}}' ;;
esac; done 3<asked
"#
    );
    fs::write(folder.join("planner"), script).expect("written");
    "exec sh planner".to_owned()
}
