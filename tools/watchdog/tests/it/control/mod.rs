//! Control of a simulated board in simulated time.

mod backstop;
mod limits;
mod models;
mod obedience;
mod sensor;
mod supply;
mod throttling;
mod units;
mod writers;

use std::path::Path;
use std::time::Duration;

use crate::board::{self, Simulated, booted, load};
use crate::wattgated::MODEL;
use wattgate_board::{Board, Files};
use wattgate_runtime::governor::State;
use wattgate_runtime::{Limit, Milliseconds, Milliwatts};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::control::{Control, Event};
use wattgate_watchdog::setup::{Setup, SetupError};

const GPU_MAX: &str = "/sys/class/devfreq/17000000.ga10b/max_freq";
const GPU_MIN: &str = "/sys/class/devfreq/17000000.ga10b/min_freq";

fn config(limit: &str) -> Config {
    let text = format!("version = 1\nmodel = \"{MODEL}\"\nlimit = \"{limit}\"");
    Config::parse(&text, Path::new("test.toml")).expect("a config")
}

/// A config with the model of a board.
fn config_of(board: &str, limit: &str) -> Config {
    let mut config = config(limit);
    let models = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    config.model = Some(models.join(format!("{board}-resnet18.wgt")));
    config
}

fn setup(files: &Simulated, config: Config) -> Result<Setup, SetupError> {
    Setup::new(config, files, Path::new("/"))
}

/// An AGX Orin in MAXN that runs ResNet-18; its GPU has the clocks of the model's grid.
fn orin() -> Simulated {
    let mut files = booted("orin-agx-64");
    load(&mut files);
    files
}

/// Lets the sensors average as L4T sets them, whatever is written.
fn keep_l4t(files: &mut Simulated) {
    let paths = files.tree.files().map(|(path, _)| path.to_owned());
    let chips: Vec<String> = paths.filter(|path| path.ends_with("/samples")).collect();
    for chip in chips {
        let refused = files.tree.control(&format!("refuse {chip} EROFS"));
        refused.expect("a command");
    }
}

/// The control loop without a process.
struct Running {
    control: Control<Simulated>,
    board: Board,
    next: Milliseconds,
    log: Vec<String>,
    steps: u32,
}

impl Running {
    fn new(files: Simulated, limit: &str) -> Self {
        Self::with(files, config(limit))
    }

    fn with(files: Simulated, config: Config) -> Self {
        let setup = setup(&files, config).expect("usable");
        Self {
            board: board::discover(&files),
            control: Control::new(setup, files),
            next: Milliseconds(0),
            log: Vec::new(),
            steps: 0,
        }
    }

    fn now(&mut self) -> Duration {
        self.control.files().tree.jetson().now()
    }

    /// Runs one step, and waits until the next one is due.
    fn step(&mut self) {
        let ms = Milliseconds(self.now().as_millis() as u64);
        let log = &mut self.log;
        let mut emit = |event: Event<'_>| log.push(event.to_string());
        self.next = self.control.step(ms, &mut emit);
        self.steps += 1;
        let now = self.now();
        let next = Duration::from_millis(self.next.0);
        self.control.files().wait(next.saturating_sub(now));
    }

    /// Runs for some seconds. Returns the highest true one-second mean power in W.
    fn run(&mut self, seconds: u64) -> f64 {
        let end = self.now() + Duration::from_secs(seconds);
        let joules = |it: &mut Self| it.control.files().tree.jetson().energy_j();
        let (mut from, mut before, mut most) = (self.now(), joules(self), 0_f64);
        while self.now() < end {
            self.step();
            let passed = self.now() - from;
            if passed >= Duration::from_secs(1) {
                let now = joules(self);
                most = most.max((now - before) / passed.as_secs_f64());
                (from, before) = (self.now(), now);
            }
        }
        most
    }

    /// The current that the sensor of the module's input shows after each step of a minute, in A.
    fn input_amperes(&mut self) -> Vec<f64> {
        let end = self.now() + Duration::from_secs(60);
        let mut found = Vec::new();
        while self.now() < end {
            self.step();
            let reading = self.control.files().tree.jetson().channel(0).reading();
            found.push(reading.milliamperes as f64 / 1e3);
        }
        found
    }

    fn state(&self) -> State {
        self.control.status().0.state
    }

    fn inject(&mut self, command: &str) {
        let result = self.control.files().tree.control(command);
        result.unwrap_or_else(|error| panic!("{command}: {error}"));
    }

    fn has_logged(&self, text: &str) -> bool {
        self.log.iter().any(|line| line.contains(text))
    }

    /// Whether the board is in the mode that the governor wants.
    fn is_as_wanted(&mut self) -> bool {
        let (_, mode) = self.control.status();
        self.board.verify(self.control.files(), &mode).is_ok()
    }
}

fn limit(watts: u32) -> Limit {
    Limit::from_power(Milliwatts(1_000 * watts))
}
