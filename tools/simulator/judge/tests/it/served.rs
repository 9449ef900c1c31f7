//! `board --from`: a probe as living files.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use wattgate_board::{Board, Disk};
use wattgate_board_tables::Board as Description;
use wattgate_probe::collect::collect;
use wattgate_probe::summary::Summary;
use wattgate_runtime::PowerMode;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::mirror::Mirror;
use wattgate_simulated_board::unit::Unit;

use crate::eventually::eventually;
use crate::running::command;

/// A probe that is served by a process.
struct Served {
    folder: TempDir,
    child: Child,
    original: Summary,
}

impl Served {
    fn start(board: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let original = probe(board, folder.path());
        let mut command = from(folder.path(), "probe");
        let child = command.spawn().expect("started");
        Self {
            folder,
            child,
            original,
        }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("served")
    }

    fn board(&self) -> Board {
        eventually("the board", || {
            let found = Summary::discover(&mut Disk, &self.root()).ok()?;
            (found == self.original).then_some(())
        });
        Board::discover(&Disk, &self.root()).expect("a board")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // The process may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Writes the file `probe` of a simulated board; returns what wattgate finds on the board.
fn probe(board: &str, folder: &Path) -> Summary {
    let description = Description::named(board).expect("a board");
    let tree = Tree::new(description, Unit::NOMINAL, 0, None).expect("a default mode");
    let root = folder.join("board");
    let _mirror = Mirror::create(&root, tree).expect("a board");
    let mut probe = collect(&root, Duration::from_millis(200), |_| {}).expect("a root");
    for (sample, number) in probe.samples.iter_mut().zip(0..) {
        sample.time_us = 50_000 * number;
        let values = sample.values.iter_mut().zip(&probe.sensors);
        for (value, _) in values.filter(|(_, path)| path.contains("/curr")) {
            *value = Some(1_000 + 8 * number.cast_signed());
        }
    }
    fs::write(folder.join("probe"), probe.to_bytes().expect("in memory")).expect("written");
    Summary::discover(&mut Disk, &root).expect("a board")
}

/// `board --from` of a file in a folder.
fn from(folder: &Path, probe: &str) -> Command {
    let mut command = command();
    command.current_dir(folder);
    command.args(["board", "--root", "served", "--from", probe]);
    command
}

#[test]
fn a_mode_is_set_verified_and_undone_on_the_served_files() {
    // Not all of its cores are online, and reading the files of the third cluster fails.
    let mut served = Served::start("orin-agx-64");
    let mut board = served.board();
    let before = board.save(&Disk).expect("readable");
    let [cpu, gpu, emc] = [board.cpu_khz(), board.gpu_khz(), board.emc_khz()];
    let highest = [cpu, gpu, emc].map(|table| *table.last().expect("a clock"));
    let lowest = [cpu, gpu, emc].map(|table| *table.first().expect("a clock"));
    for (cores, [cpu, gpu, emc]) in [(12, highest), (1, lowest), (5, highest)] {
        let mode = PowerMode::from_knobs([cores, cpu, gpu, emc]);
        eventually("the mode", || {
            // A file is empty for a moment while it is written.
            board.apply(&mut Disk, &mode).ok()?;
            board.verify(&Disk, &mode).ok()
        });
    }
    eventually("the settings from before", || {
        board.restore(&mut Disk, &before).ok()
    });
    let pid = Pid::from_child(&served.child);
    kill_process(pid, Signal::TERM).expect("it runs");
    assert!(served.child.wait().expect("it ends").success());
}

#[test]
fn a_write_shows_what_linux_would_show() {
    let served = Served::start("orin-nano-8-super");
    served.board();
    let file = |path: &str| served.root().join(path);
    let write = |path: &str, text: &str| {
        // As programs write to sysfs: without truncation, in one call.
        let mut file = OpenOptions::new().write(true).open(file(path)).expect(path);
        file.write_all(text.as_bytes()).expect(path);
    };
    let shows = |path: &str, text: &str| {
        eventually(&format!("{path}: {text}"), || {
            (fs::read_to_string(file(path)).ok()? == text).then_some(())
        });
    };
    let policy = "sys/devices/system/cpu/cpufreq/policy0";
    let max = format!("{policy}/scaling_max_freq");
    write(&max, "900000\n");
    shows(&max, "883200\n");
    write(&format!("{policy}/scaling_min_freq"), "1344000\n");
    shows(&format!("{policy}/scaling_min_freq"), "729600\n");
    write("sys/devices/system/cpu/cpu5/online", "0\n");
    shows("sys/devices/system/cpu/online", "0-4\n");
}

#[test]
fn the_power_sensors_replay_their_readings() {
    let served = Served::start("orin-nano-8-super");
    served.board();
    let sensor = served.root().join("sys/class/hwmon/hwmon0/curr1_input");
    // After the last reading comes the first.
    for value in [1_008, 1_016, 1_000, 1_008] {
        let text = format!("{value}\n");
        eventually("a reading", || {
            (fs::read_to_string(&sensor).ok()? == text).then_some(())
        });
    }
}

#[test]
fn a_probe_that_cannot_be_served_is_refused_by_name() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("text"), "a text").expect("written");
    let outcome = |command: &mut Command| {
        let output = command.output().expect("it ends");
        let error = String::from_utf8(output.stderr).expect("text");
        (output.status.code(), error)
    };
    let error = |code, text: &str| (Some(code), format!("error: {text}\n"));
    assert_eq!(
        outcome(&mut from(folder.path(), "text")),
        error(
            3,
            "text: no probe: expected a gzip file, as `wattgate probe` writes it"
        )
    );
    assert_eq!(
        outcome(&mut from(folder.path(), "none")),
        error(
            5,
            "none: cannot be read: No such file or directory (os error 2)"
        )
    );
    assert_eq!(
        outcome(from(folder.path(), "text").args(["--mode", "2"])),
        error(2, "--from and --mode exclude each other; give one of them")
    );
    assert_eq!(
        outcome(
            command()
                .args(["board", "--root", "served"])
                .current_dir(folder.path())
        ),
        error(
            2,
            "missing --board, such as --board orin-agx-64, --truth or --from"
        )
    );
    assert!(!folder.path().join("served").exists());
}
