//! A board under a scenario: its tree in simulated time, and the true energy at every tick.

use std::cell::{Ref, RefCell};
use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::Files;

use super::cases::WORKLOAD;
use super::{Course, Holder, Task};
use wattgate_board_tables::Board as Description;
use wattgate_simulated_board::machine::Jetson;
use wattgate_simulated_board::tree::control::ControlError;
use wattgate_simulated_board::tree::{Errno, Tree};
use wattgate_simulated_board::unit::Unit;

/// Energy is noted so often.
pub const TICK: Duration = Duration::from_millis(10);

/// A read of one register of a power sensor (`jetson-platform.md`, section 6.3).
const REGISTER_READ: Duration = Duration::from_micros(550);

/// What a run is made of.
#[derive(Debug)]
pub struct Plant<'a> {
    /// The row that it is for.
    pub task: Task<'a>,
    /// The board, and how it differs.
    pub description: Description,
    pub unit: Unit,
    /// What the holder is told.
    pub course: Course,
}

impl<'a> Plant<'a> {
    /// The board of a seed, at its start.
    pub fn new(task: &Task<'a>, seed: u64, weights: &Path) -> io::Result<(Self, Tree)> {
        let Task {
            scenario,
            case,
            holder,
            ..
        } = task;
        let description = Description::named(case.board).map_err(io::Error::other)?;
        let unit = match scenario.units {
            true => Unit::drawn(seed),
            false => Unit::NOMINAL,
        };
        // Masks need a reboot, so that a preset is booted in.
        let course = Course {
            length: scenario.length(),
            limits: scenario.limits(case),
            model: weights.join(format!("{}-{WORKLOAD}.wgt", case.board)),
            sensor: *task.sensor,
        };
        let limit_mw = course.limit_mw(Duration::ZERO);
        let mode = match holder {
            Holder::Preset => super::holder::preset(&description, limit_mw),
            _ => case.maxn,
        };
        let tree = Tree::new(description.clone(), unit, seed, mode);
        let mut tree = tree.map_err(io::Error::other)?;
        for order in orders(task, &tree) {
            tree.control(&order).map_err(io::Error::other)?;
        }
        let plant = Self {
            task: *task,
            description,
            unit,
            course,
        };
        Ok((plant, tree))
    }

    /// The limit at a time, in mW.
    pub fn limit_mw(&self, at: Duration) -> u32 {
        self.course.limit_mw(at)
    }

    /// A defective file: of this model one half is missing.
    pub fn half_a_model(&self) -> io::Result<Vec<u8>> {
        let mut bytes = std::fs::read(&self.course.model)?;
        bytes.truncate(bytes.len() / 2);
        Ok(bytes)
    }

    /// A config of the daemon with the limit at a time, and what a model's file there is.
    pub fn config(&self, at: Duration, model: &Path) -> String {
        let schedule = match self.task.scenario.by_clock {
            false => String::new(),
            true => {
                let [first, second, third] = self.task.case.stepped_mw;
                let entries = [("00", third), ("08", first), ("16", second)];
                let entry = |(hour, mw)| format!("{{ at = \"{hour}:00Z\", limit = \"{mw}mW\" }}");
                format!("schedule = [{}]\n", entries.map(entry).join(", "))
            }
        };
        self.course.config(at, model) + &schedule
    }
}

/// The scenario's orders in the words of the board.
fn orders(task: &Task<'_>, tree: &Tree) -> Vec<String> {
    let paths = |end: &str| {
        let files = tree.files().map(|(path, _)| path);
        let found: Vec<String> = files
            .filter(|path| path.ends_with(end))
            .map(str::to_owned)
            .collect();
        found
    };
    let rails = tree.jetson().board().rails.iter();
    let rails: Vec<String> = rails.map(|rail| rail.label.clone()).collect();
    let words = [
        ("*", rails),
        ("GPU", paths("/max_freq")),
        ("FAN", paths("/pwm1")),
        ("BATTERY", task.case.battery.map(str::to_owned).to_vec()),
    ];
    let mut orders = vec![format!("load {WORKLOAD}")];
    for order in task.scenario.orders {
        let word = words.iter().find(|(word, _)| order.contains(word));
        match word {
            Some((word, meant)) => {
                orders.extend(meant.iter().map(|meant| order.replace(word, meant)));
            }
            None => orders.push((*order).to_owned()),
        }
    }
    orders
}

/// Time in s and true energy in J since the start.
pub type Note = [f64; 2];

/// The truth about a board in the time of a scenario.
#[derive(Debug, Default)]
pub struct Record {
    /// Of every tick.
    pub notes: Vec<Note>,
    /// Of the workload.
    pub minibatches: f64,
    /// Events of OC1 and OC2: too little voltage, and too much current on average.
    pub over_current_events: u64,
}

impl Record {
    /// Notes this moment.
    pub fn note(&mut self, jetson: &Jetson) {
        let now = jetson.now().as_secs_f64();
        self.notes.push([now, jetson.energy_j()]);
        self.minibatches = jetson.minibatches();
        let [under_voltage, mean, _] = jetson.over_current_events();
        self.over_current_events = under_voltage + mean;
    }
}

/// A tree that is recorded. Reading a power sensor takes simulated time.
#[derive(Debug)]
pub struct Noted(RefCell<State>);

#[derive(Debug)]
struct State {
    /// The board.
    tree: Tree,
    /// The truth about it.
    record: Record,
    /// When the next tick is to be noted.
    next: Duration,
}

impl State {
    fn until(&mut self, end: Duration) {
        while self.next <= end {
            self.tree.advance(self.next);
            self.record.note(self.tree.jetson());
            self.next += TICK;
        }
        self.tree.advance(end);
    }
}

impl Noted {
    /// A board at its start.
    pub fn new(tree: Tree) -> Self {
        Self(RefCell::new(State {
            tree,
            record: Record::default(),
            next: TICK,
        }))
    }

    /// The simulated time.
    pub fn now(&self) -> Duration {
        self.0.borrow().tree.jetson().now()
    }

    /// Lets time pass.
    pub fn until(&mut self, end: Duration) {
        self.0.get_mut().until(end);
    }

    /// Obeys a line of the board's control language.
    pub fn control(&mut self, line: &str) -> Result<(), ControlError> {
        self.0.get_mut().tree.control(line)
    }

    /// The simulated board.
    pub fn tree(&mut self) -> &mut Tree {
        &mut self.0.get_mut().tree
    }

    /// The truth about the board so far.
    pub fn record(&self) -> Ref<'_, Record> {
        Ref::map(self.0.borrow(), |state| &state.record)
    }
}

fn refused(errno: Errno) -> io::Error {
    match errno {
        Errno::Enoent => io::ErrorKind::NotFound.into(),
        Errno::Eacces => io::ErrorKind::PermissionDenied.into(),
        Errno::Erofs => io::ErrorKind::ReadOnlyFilesystem.into(),
        Errno::Eagain => io::ErrorKind::WouldBlock.into(),
        _ => io::Error::other(errno.to_string()),
    }
}

impl Files for Noted {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let path = path.to_str().ok_or(io::ErrorKind::NotFound)?;
        let mut state = self.0.borrow_mut();
        let registers = state.tree.registers_of(path);
        if registers > 0 {
            let end = state.tree.jetson().now() + registers * REGISTER_READ;
            state.until(end);
        }
        let text = state.tree.read(path).map_err(refused)?;
        let place = buffer.get_mut(..text.len());
        let place = place.ok_or(io::ErrorKind::FileTooLarge)?;
        place.copy_from_slice(text.as_bytes());
        std::str::from_utf8(place).map_err(|_| io::ErrorKind::InvalidData.into())
    }

    fn write(&mut self, path: &Path, text: &str) -> io::Result<()> {
        let path = path.to_str().ok_or(io::ErrorKind::NotFound)?;
        self.0.get_mut().tree.write(path, text).map_err(refused)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<String>> {
        let path = directory.to_str().ok_or(io::ErrorKind::NotFound)?;
        self.0.borrow().tree.list(path).map_err(refused)
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now() + time;
        self.until(end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_of_a_sensor_takes_time_and_others_do_not() {
        let board = Description::named("orin-nano-8-super").expect("a board");
        let tree = Tree::new(board, Unit::NOMINAL, 0, None).expect("its default mode");
        let files = Noted::new(tree);
        let mut buffer = [0; 64];
        let mut time_of = |path: &str| {
            let before = files.now();
            let path = format!("/sys/class/hwmon/hwmon0/{path}");
            files.read(Path::new(&path), &mut buffer).expect("a text");
            files.now() - before
        };
        for (path, registers) in [
            ("in1_input", 1),
            ("curr3_input", 1),
            ("in7_input", 1),
            ("in1_label", 0),
            ("curr1_max", 0),
            ("samples", 0),
        ] {
            assert_eq!(time_of(path), registers * REGISTER_READ, "{path}");
        }
        // Ticks are noted while the sensor is read.
        let reads = (0..100).map(|_| time_of("curr1_input"));
        assert_eq!(reads.sum::<Duration>(), 100 * REGISTER_READ);
        let notes = &files.record().notes;
        assert_eq!(notes.len(), 5, "{notes:?}");
    }
}
