//! A daemon without a process, on a simulated board in simulated time.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use wattgate_board::Files;
use wattgate_runtime::Milliseconds;
use wattgate_watchdog::clock::{Clock, UtcSeconds};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::control::Event;
use wattgate_watchdog::daemon::Daemon;
use wattgate_watchdog::limits::Lowerings;
use wattgate_watchdog::setup::Setup;

use crate::board::{Simulated, booted, load};

/// 2027-01-15T00:00Z as Unix time.
pub const MIDNIGHT: i64 = 1_800_000_000 / 86_400 * 86_400;

/// Clocks that a test sets.
pub struct Clocks {
    pub now: Cell<u64>,
    pub utc: Cell<i64>,
}

impl Clock for Clocks {
    fn now(&self) -> Milliseconds {
        Milliseconds(self.now.get())
    }

    fn utc(&self) -> UtcSeconds {
        UtcSeconds(self.utc.get())
    }
}

/// A daemon on an AGX Orin that runs ResNet-18, and its folder of models.
pub struct Rig {
    pub folder: TempDir,
    pub daemon: Daemon<Simulated>,
    pub clocks: Clocks,
    pub log: Vec<String>,
}

/// A model that does not say which TPCs were gated, since the board boots as it is sold.
pub fn weights(name: &str) -> PathBuf {
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    models.join(name)
}

impl Rig {
    /// Creates a daemon; `lines` are the lines of the config after `version` and `model`.
    pub fn new(lines: &str) -> Self {
        Self::on("orin-agx-64", lines)
    }

    /// The same on another board.
    pub fn on(board: &str, lines: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let model = folder.path().join("model.wgt");
        fs::copy(weights(&format!("{board}-resnet18.wgt")), model).expect("copied");
        let mut files = booted(board);
        load(&mut files);
        let config = config(folder.path(), lines);
        let setup = Setup::new(config, &files, Path::new("/")).expect("usable");
        let clocks = Clocks {
            now: Cell::new(0),
            utc: Cell::new(MIDNIGHT),
        };
        Self {
            daemon: Daemon::new(setup, files, clocks.utc(), Lowerings::default()),
            folder,
            clocks,
            log: Vec::new(),
        }
    }

    /// Ends the daemon as a crash does. The next one has these lowerings, and the same clock.
    pub fn crash(&mut self, lines: &str, lowerings: Lowerings) {
        let mut files = booted("orin-agx-64");
        load(&mut files);
        files.wait(Duration::from_millis(self.clocks.now.get()));
        let setup = Setup::new(self.config(lines), &files, Path::new("/")).expect("usable");
        self.daemon = Daemon::new(setup, files, self.clocks.utc(), lowerings);
    }

    pub fn config(&self, lines: &str) -> Config {
        config(self.folder.path(), lines)
    }

    /// Runs one step and advances time to the next one.
    pub fn step(&mut self) {
        let log = &mut self.log;
        let mut emit = |event: Event<'_>| log.push(event.to_string());
        let next = self.daemon.step(&self.clocks, &mut emit).0;
        let now = self.daemon.files().tree.jetson().now();
        let next = Duration::from_millis(next.max(self.clocks.now.get() + 1));
        self.daemon.files().wait(next.saturating_sub(now));
        let now = self.daemon.files().tree.jetson().now();
        self.clocks.now.set(now.as_millis() as u64);
    }

    /// Injects a fault by a command of the simulated board.
    pub fn inject(&mut self, command: &str) {
        let result = self.daemon.files().tree.control(command);
        result.unwrap_or_else(|error| panic!("{command}: {error}"));
    }

    /// Runs for some seconds.
    pub fn run(&mut self, seconds: u64) {
        let end = self.clocks.now.get() + 1_000 * seconds;
        while self.clocks.now.get() < end {
            self.step();
        }
    }
}

fn config(folder: &Path, lines: &str) -> Config {
    let text = format!("version = 1\nmodel = \"model.wgt\"\n{lines}");
    let mut config = Config::parse(&text, Path::new("test.toml")).expect("a config");
    config.model = config.model.map(|model| folder.join(model));
    config
}
