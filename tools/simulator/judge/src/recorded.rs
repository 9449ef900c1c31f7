//! A simulated board with a record of its true energy, minibatches and over-current events.

use std::cell::{Ref, RefCell};
use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::Files;
use wattgate_simulated_board::machine::Jetson;
use wattgate_simulated_board::tree::control::ControlError;
use wattgate_simulated_board::tree::{Errno, Tree};

/// Time between two notes of the energy.
const TICK: Duration = Duration::from_millis(10);

/// Time of a read of one register of a power sensor (`jetson-platform.md`, section 6.3).
const REGISTER_READ: Duration = Duration::from_micros(550);

/// What a read waits for on R35, whose driver waits for the end of a conversion cycle: a whole one
/// (section 6.3).
const CYCLE: Duration = Duration::from_micros(840);

/// Time in s and true energy in J since the start.
pub type Note = [f64; 2];

/// The true figures of a board since its start.
#[derive(Debug, Default)]
pub struct Record {
    /// One note for each tick.
    pub notes: Vec<Note>,
    /// Minibatches of the workload.
    pub minibatches: f64,
    /// Events of OC1 and OC2: too little voltage, and too much current on average.
    pub over_current_events: u64,
}

impl Record {
    /// Records the board at its present time.
    pub fn note(&mut self, jetson: &Jetson) {
        let now = jetson.now().as_secs_f64();
        self.notes.push([now, jetson.energy_j()]);
        self.minibatches = jetson.minibatches();
        let [under_voltage, mean, _] = jetson.over_current_events();
        self.over_current_events = under_voltage + mean;
    }
}

/// A board's files, recorded at every tick. A read of a power sensor takes simulated time.
#[derive(Debug)]
pub struct RecordedTree(RefCell<Recorder>);

#[derive(Debug)]
struct Recorder {
    tree: Tree,
    record: Record,
    /// Time of the next tick.
    next: Duration,
}

impl Recorder {
    fn until(&mut self, end: Duration) {
        while self.next <= end {
            self.tree.advance(self.next);
            self.record.note(self.tree.jetson());
            self.next += TICK;
        }
        self.tree.advance(end);
    }
}

impl RecordedTree {
    /// A board at its start.
    pub fn new(tree: Tree) -> Self {
        Self(RefCell::new(Recorder {
            tree,
            record: Record::default(),
            next: TICK,
        }))
    }

    /// The simulated time.
    pub fn now(&self) -> Duration {
        self.0.borrow().tree.jetson().now()
    }

    /// Lets time pass up to `end`.
    pub fn until(&mut self, end: Duration) {
        self.0.get_mut().until(end);
    }

    /// Executes one line of the board's control language.
    pub fn control(&mut self, line: &str) -> Result<(), ControlError> {
        self.0.get_mut().tree.control(line)
    }

    /// The simulated board.
    pub fn tree(&mut self) -> &mut Tree {
        &mut self.0.get_mut().tree
    }

    /// The record so far.
    pub fn record(&self) -> Ref<'_, Record> {
        Ref::map(self.0.borrow(), |recorder| &recorder.record)
    }
}

/// The error that Linux's number means.
fn refused(errno: Errno) -> io::Error {
    match errno {
        Errno::Enoent => io::ErrorKind::NotFound.into(),
        Errno::Eacces => io::ErrorKind::PermissionDenied.into(),
        Errno::Erofs => io::ErrorKind::ReadOnlyFilesystem.into(),
        Errno::Eagain => io::ErrorKind::WouldBlock.into(),
        _ => io::Error::other(errno.to_string()),
    }
}

impl Files for RecordedTree {
    fn read<'b>(&self, path: &Path, buffer: &'b mut [u8]) -> io::Result<&'b str> {
        let path = path.to_str().ok_or(io::ErrorKind::NotFound)?;
        let mut recorder = self.0.borrow_mut();
        let registers = recorder.tree.registers_of(path);
        if registers > 0 {
            let jetson = recorder.tree.jetson();
            let waits = jetson.board().release() == 35;
            let each = REGISTER_READ + if waits { CYCLE } else { Duration::ZERO };
            let end = jetson.now() + registers * each;
            recorder.until(end);
        }
        let text = recorder.tree.read(path).map_err(refused)?;
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
    use wattgate_board_tables::Board;
    use wattgate_simulated_board::unit::Unit;

    #[test]
    fn a_read_of_a_sensor_takes_time_and_others_do_not() {
        let board = Board::named("orin-nano-8-super").expect("a board");
        let tree = Tree::new(board, Unit::NOMINAL, 0, None).expect("its default mode");
        let files = RecordedTree::new(tree);
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
        // Ticks are recorded while the sensor is read.
        let reads = (0..100).map(|_| time_of("curr1_input"));
        assert_eq!(reads.sum::<Duration>(), 100 * REGISTER_READ);
        let notes = &files.record().notes;
        assert_eq!(notes.len(), 5, "{notes:?}");
    }
}
