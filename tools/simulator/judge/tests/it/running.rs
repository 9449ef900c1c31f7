//! A simulated board as a process.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};

use tempfile::TempDir;

use crate::eventually::eventually;

/// The program.
pub fn command() -> Command {
    Command::new(env!("CARGO_BIN_EXE_wattgate-simulator"))
}

/// A running board, which ends when this value is dropped.
pub struct Running {
    pub root: TempDir,
    pub child: Child,
}

impl Running {
    /// An Orin Nano with JetPack 6 in MAXN_SUPER.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same board with further options.
    pub fn start_with(options: &[&str]) -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let child = command()
            .args(["board", "--board", "orin-nano-8-super", "--mode", "2"])
            .args(options)
            .arg("--root")
            .arg(root.path())
            .spawn()
            .expect("started");
        let running = Self { root, child };
        // The program writes this file last.
        let last = running.path("/var/lib/nvpmodel/status");
        eventually("the files", || last.exists().then_some(()));
        running
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.path(path))
    }

    /// Writes as programs write to sysfs: without truncation, in one call.
    pub fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let mut file = OpenOptions::new().write(true).open(self.path(path))?;
        file.write_all(text.as_bytes())
    }

    pub fn order(&self, line: &str) {
        let control = self.path("control");
        let mut control = OpenOptions::new()
            .append(true)
            .open(control)
            .expect("there");
        control
            .write_all(format!("{line}\n").as_bytes())
            .expect("taken");
    }

    pub fn log(&self) -> String {
        self.read("control.log").expect("there")
    }

    /// Appends a command and waits for its line in the log.
    pub fn ordered(&self, line: &str) {
        self.order(line);
        eventually(line, || self.log().contains(line).then_some(()));
    }

    pub fn shows(&self, path: &str, text: &str) {
        eventually(&format!("{path}: {text}"), || {
            (self.read(path).ok()? == text).then_some(())
        });
    }

    pub fn end(&mut self) -> ExitStatus {
        eventually("its end", || self.child.try_wait().expect("a child"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // The board may have ended before.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
