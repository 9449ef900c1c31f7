//! Cost of control: allocations, and the time from a reading to the last write.

use std::cell::Cell;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::allocations::allocations;
use crate::wattgated::MODEL;
use wattgate_board::{Disk, Files};
use wattgate_board_tables::Board as Description;
use wattgate_runtime::{Limit, Milliseconds, Milliwatts};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::mirror::Mirror;
use wattgate_simulated_board::unit::Unit;
use wattgate_watchdog::clock::{Clock, UtcSeconds};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::control::{Control, Event};
use wattgate_watchdog::daemon::Daemon;
use wattgate_watchdog::limits::Lowerings;
use wattgate_watchdog::log::log;
use wattgate_watchdog::serve::Services;
use wattgate_watchdog::serve::socket::Socket;
use wattgate_watchdog::setup::Setup;

/// Files on a disk; records the time of the last write and skips waits.
#[derive(Default)]
struct Timed {
    written: Option<Instant>,
    writes: usize,
}

impl Files for Timed {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        Disk.read(path, buffer)
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let written = Disk.write(path, text);
        self.written = Some(Instant::now());
        self.writes += 1;
        written
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        Disk.list(directory)
    }

    fn wait(&mut self, _: Duration) {}
}

/// A board of plain files that no simulator updates: each shows what was last written.
struct Rig {
    _directory: tempfile::TempDir,
    root: PathBuf,
    /// The current of the first rail, which carries the whole power; the others read 0.
    sensor: PathBuf,
    control: Control<Timed>,
    now: Milliseconds,
    /// Ratio of the workload's power to the mode's prediction, and the sensor's low-pass of it.
    level: f64,
    low_pass_mw: f64,
}

impl Rig {
    fn new() -> Self {
        // In memory, as sysfs is: truncating a file on a disk may take tens of ms.
        let memory = Path::new("/dev/shm");
        let directory = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let directory = directory.expect("a directory");
        let root = directory.path().join("root");
        let description = Description::named("orin-agx-64").expect("a board");
        let all = description.modes.iter().find(|mode| mode.cores.len() == 12);
        let all = all.map(|mode| mode.id);
        let tree = Tree::new(description, Unit::NOMINAL, 0, all).expect("a mode");
        let _ = Mirror::create(&root, tree).expect("a tree on the disk");
        let setup = Self::setup(&root);
        let chip = root.join("sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon0");
        let [sensor, second, third] = [1, 2, 3].map(|channel| {
            let sensor = chip.join(format!("curr{channel}_input"));
            let sensor = fs::canonicalize(sensor).expect("a sensor");
            writable(&sensor);
            sensor
        });
        for none in [second, third] {
            fs::write(none, "0\n").expect("written");
        }
        // No driver makes an interval of these files, so the averaging is what the daemon wants.
        for (file, value) in [("samples", "64\n"), ("update_interval", "54\n")] {
            let file = fs::canonicalize(chip.join(file)).expect("a setting");
            fs::write(file, value).expect("written");
        }
        // The GPU is always busy, so lower power means a lighter load and not idle time.
        let load = root.join("sys/class/devfreq/17000000.ga10b/device/load");
        let load = fs::canonicalize(load).expect("a load");
        writable(&load);
        fs::write(load, "990\n").expect("written");
        Self {
            _directory: directory,
            root,
            sensor,
            control: Control::new(setup, Timed::default()),
            now: Milliseconds(1_000),
            level: 1.0,
            low_pass_mw: 0.0,
        }
    }

    fn setup(root: &Path) -> Setup {
        let text = format!(
            "version = 1\nmodel = \"{MODEL}\"\nlimit = \"40W\"\ntoo_hot = \"95C\"\n\
             schedule = [{{ at = \"06:00Z\", limit = \"40W\" }}]"
        );
        let config = Config::parse(&text, Path::new("test.toml")).expect("a config");
        Setup::new(config, &Disk, root).expect("usable")
    }

    /// Starts a new control without history.
    fn restart(&mut self) {
        self.control = Control::new(Self::setup(&self.root), Timed::default());
        self.level = 1.0;
    }

    /// Runs control at a load level for some time. Returns the number of allocations.
    fn run(&mut self, milliseconds: u64, level: f64) -> usize {
        let end = self.now.0 + milliseconds;
        self.level = level;
        let mut allocated = 0;
        while self.now.0 < end {
            allocated += self.step();
        }
        allocated
    }

    /// Advances time: the sensor follows the power of the mode as a low-pass.
    fn pass(&mut self, until: Milliseconds) {
        let (status, _) = self.control.status();
        let power = self.level * f64::from(status.predicted.0);
        let left = (-(until.since(self.now).0 as f64) / 430.0).exp();
        self.low_pass_mw = power + (self.low_pass_mw - power) * left;
        self.now = until;
        // At 12 V, in steps of 20 mA, with a ripple of one step.
        let steps = (self.low_pass_mw / 12.0 / 20.0).round() as u64 + until.0 / 7 % 2;
        if self.sensor.exists() {
            fs::write(&self.sensor, format!("{}\n", 20 * steps)).expect("written");
        }
    }

    /// Runs one step. Returns the number of allocations.
    fn step(&mut self) -> usize {
        let mut emit = |event: Event<'_>| log(event.priority(), &event);
        let (allocated, next) = allocations(|| self.control.step(self.now, &mut emit));
        self.pass(next.max(Milliseconds(self.now.0 + 1)));
        allocated
    }
}

/// Makes a read-only file writable, so that the test can change a reading.
fn writable(path: &Path) {
    let mut mode = fs::metadata(path).expect("there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o644);
    fs::set_permissions(path, mode).expect("opened");
}

fn limit(watts: u32) -> Limit {
    Limit::from_power(Milliwatts(1_000 * watts))
}

#[test]
fn control_does_not_allocate() {
    let mut rig = Rig::new();
    let gpu = "sys/class/devfreq/17000000.ga10b/max_freq";
    let gpu = rig.root.join(gpu);
    let (mut allocated, mut changes, mut violations) = (0, 0, 0);
    for watts in [40, 15, 30, 12, 45] {
        rig.restart();
        rig.control.set_limit(limit(watts));
        allocated += rig.run(25_000, 1.0);
        // Power over the limit, and another writer.
        allocated += rig.run(2_000, 1.6);
        fs::write(&gpu, "1300500000\n").expect("written");
        allocated += rig.run(2_000, 0.7);
        // The sensor is missing.
        fs::rename(&rig.sensor, rig.root.join("away")).expect("renamed");
        for _ in 0..30 {
            allocated += rig.step();
        }
        fs::rename(rig.root.join("away"), &rig.sensor).expect("renamed");
        let (status, _) = rig.control.status();
        changes += status.changes;
        violations += status.violations;
    }
    assert!(changes >= 10, "{changes} changes");
    assert!(violations >= 5, "{violations} violations");
    assert_eq!(allocated, 0);
}

/// The sockets are open, and no client connects.
#[test]
fn services_without_clients_do_not_allocate() {
    let rig = Rig::new();
    let clock = Still(Cell::new(1_000));
    let setup = Rig::setup(&rig.root);
    let mut daemon = Daemon::new(setup, Timed::default(), clock.utc(), Lowerings::default());
    let run = rig.root.join("run");
    fs::create_dir_all(&run).expect("made");
    let of_root = Socket::open_root(&rig.root.join("root")).expect("a socket");
    let clients = Socket::open(&run, None).expect("a socket");
    let mut services = Services::new(Some(of_root), Some(clients), None);
    let mut allocated = 0;
    for _ in 0..200 {
        let (in_turn, ()) = allocations(|| {
            let mut emit = |event: Event<'_>| log(event.priority(), &event);
            let next = daemon.step(&clock, &mut emit);
            let until = Milliseconds(clock.0.get() + 1).max(next);
            for is_ready in [false, true] {
                services.turn(is_ready, &mut daemon, &clock, until);
                assert_eq!(services.waiting(clock.now()).count(), 2);
            }
            clock.0.set(until.0);
        });
        allocated += in_turn;
    }
    assert_eq!(allocated, 0);
}

/// A clock that the test advances.
struct Still(Cell<u64>);

impl Clock for Still {
    fn now(&self) -> Milliseconds {
        Milliseconds(self.0.get())
    }

    fn utc(&self) -> UtcSeconds {
        UtcSeconds(1_800_000_000 + self.0.get() as i64 / 1_000)
    }
}

/// Prints the time from the start of the step that reads a power over the limit to the last write
/// of the new mode.
#[test]
fn a_reading_over_the_limit_is_answered_in_the_same_look() {
    let mut rig = Rig::new();
    let mut times = Vec::new();
    for round in 0..1_000 {
        rig.restart();
        rig.run(3_000, 1.0);
        rig.level = 1.3 + 0.1 * f64::from(round % 8);
        let (changes, over) = (rig.control.status().0.changes, rig.now);
        while rig.control.status().0.changes == changes {
            let begin = Instant::now();
            rig.step();
            let written = rig.control.files().written;
            if rig.control.status().0.changes > changes {
                let written = written.expect("written");
                times.push(written.saturating_duration_since(begin));
            }
            assert!(
                rig.now.since(over) < Milliseconds(2_000),
                "no reaction in round {round}"
            );
        }
    }
    times.sort_unstable();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
    let [median, most] = [at(0.5), at(0.999)];
    println!(
        "| from a reading over the limit to the last write, {} times: median, p99.9 | {median:.1?}, {most:.1?} |",
        times.len()
    );
}
