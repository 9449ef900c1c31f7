//! The virtual files of a board over time: commands and a load happen at their times.

use std::time::Duration;

use wattgate_board_tables::Board;

use super::control::{ControlError, Line, Order};
use super::errno::Errno;
use super::faults::WriteFault;
use super::file::{File, SumFile};
use super::layout::{BOOT_ID, boot_id};
use super::preset::{NvpmodelError, mode};
use super::state::State;
use crate::load::Load;
use crate::machine::Jetson;
use crate::unit::Unit;
use crate::workload::Workload;

/// The files of a board.
#[derive(Clone, Debug)]
pub struct Tree {
    pub(super) state: State,
    /// Pending commands in the order of their times.
    coming: Vec<(Duration, Line)>,
    log: Vec<String>,
    /// The load, and the number of its steps that have been applied.
    load: Option<Load>,
    played: usize,
}

impl Tree {
    /// A board that has booted in a mode of nvpmodel, or in its default mode. Units differ by
    /// `unit`; noise and the numbers of hwmon devices depend on `seed`.
    pub fn new(
        board: Board,
        unit: Unit,
        seed: u64,
        id: Option<u32>,
    ) -> Result<Self, NvpmodelError> {
        let mode = mode(&board, id)?.clone();
        Ok(Self {
            state: State::new(board, unit, seed, &mode),
            coming: Vec::new(),
            log: Vec::new(),
            load: None,
            played: 0,
        })
    }

    /// Sets the boot id, which is the same in all new trees.
    pub fn set_boot_id(&mut self, random: u128) {
        let layout = &mut self.state.layout;
        layout.put(BOOT_ID, File::Fixed(boot_id(random)));
    }

    /// Lets the command `load` run the workload of a recorded board, and no other.
    pub fn play_back(&mut self, workload: Workload) {
        self.state.recorded = Some(workload);
    }

    /// The board behind the files.
    pub fn jetson(&self) -> &Jetson {
        &self.state.jetson
    }

    /// The board, to change workload, air and sensors without the control language.
    pub fn jetson_mut(&mut self) -> &mut Jetson {
        &mut self.state.jetson
    }

    /// All files by absolute path, and whether each can be written.
    pub fn files(&self) -> impl Iterator<Item = (&str, bool)> {
        let files = self.state.layout.files.iter();
        files.map(|(path, file)| (path.as_str(), file.is_writable()))
    }

    /// The names in a directory, ascending.
    pub fn list(&self, directory: &str) -> Result<Vec<String>, Errno> {
        self.state.list(directory)
    }

    /// Reads a file.
    pub fn read(&self, path: &str) -> Result<String, Errno> {
        self.state.read(path)
    }

    /// Writes to a file.
    pub fn write(&mut self, path: &str, text: &str) -> Result<(), Errno> {
        self.state.write(path, text)
    }

    /// The id of nvpmodel's mode that was set last.
    pub fn mode(&self) -> u32 {
        self.state.mode
    }

    /// Runs `nvpmodel -m <id>` with closed standard input: a mode that needs a reboot is refused.
    pub fn nvpmodel(&mut self, id: u32) -> Result<(), NvpmodelError> {
        self.state.nvpmodel(id)
    }

    /// Runs `nvpmodel -m <id>` within a container, which writes only the status file.
    pub fn nvpmodel_in_container(&mut self, id: u32) -> Result<(), NvpmodelError> {
        self.state.nvpmodel_in_container(id)
    }

    /// Runs `nvpmodel.service` again, which sets the mode of the status file.
    pub fn nvpmodel_service(&mut self) -> Result<(), NvpmodelError> {
        self.state.nvpmodel_service()
    }

    /// Plays a load from time zero on. The last activity stays after its end.
    pub fn play(&mut self, load: Load) {
        (self.load, self.played) = (Some(load), 0);
        self.pass(self.state.jetson.now());
    }

    /// Advances the time, and executes the commands that become due.
    pub fn advance(&mut self, now: Duration) {
        while let Some((at, line)) = self.due(now) {
            self.pass(at);
            let result = self.obey(line.order);
            self.note(&line.text, &result);
        }
        if self.crashed().is_none() {
            self.pass(now);
        }
    }

    /// Advances the time, and makes the writes that faults delay.
    fn pass(&mut self, now: Duration) {
        while let Some(at) = self.state.next_delayed().filter(|at| *at <= now) {
            self.play_on(at);
            self.state.write_delayed(at);
        }
        self.play_on(now);
    }

    /// Advances the time, and applies the load.
    fn play_on(&mut self, now: Duration) {
        while let Some(step) = self.load.iter().find_map(|it| it.steps().get(self.played))
            && step.from <= now
        {
            self.state.jetson.advance(step.from);
            self.state.jetson.set_load(step.activity, step.gpu_load);
            self.played += 1;
        }
        self.state.jetson.advance(now);
    }

    /// Takes the next command that is due; none after a crash.
    fn due(&mut self, now: Duration) -> Option<(Duration, Line)> {
        let due = self.coming.first().is_some_and(|(at, _)| *at <= now);
        (due && self.crashed().is_none()).then(|| self.coming.remove(0))
    }

    /// The number of registers of a power sensor that a read of the file fetches.
    pub fn registers_of(&self, path: &str) -> u32 {
        // Most files do not belong to a sensor.
        if !path.ends_with("_input") {
            return 0;
        }
        match self.state.resolve(path) {
            Ok((_, File::Rail(_, file))) => file.registers(),
            Ok((_, File::Sum(_, _, SumFile::Milliamperes | SumFile::ShuntMicrovolts))) => 1,
            _ => 0,
        }
    }

    /// Executes a line of the control language.
    pub fn control(&mut self, line: &str) -> Result<(), ControlError> {
        let text = line.trim().to_owned();
        let result = self.state.parse(&text).and_then(|order| self.obey(order));
        self.note(&text, &result);
        result
    }

    /// The log, one line for each command: the time in s, the command, `ok` or the error.
    pub fn log(&self) -> &[String] {
        &self.log
    }

    /// Adds a line to the log.
    pub(super) fn report(&mut self, what: &str) {
        let seconds = self.state.jetson.now().as_secs_f64();
        self.log.push(format!("{seconds:.3} {what}"));
    }

    fn note(&mut self, text: &str, result: &Result<(), ControlError>) {
        match result {
            Ok(()) => self.report(&format!("{text}: ok")),
            Err(error) => self.report(&format!("{text}: error: {error}")),
        }
    }

    fn obey(&mut self, order: Order) -> Result<(), ControlError> {
        match order {
            Order::Now(command) => self.state.obey(command),
            Order::At(at, line) => {
                self.schedule(at, *line);
                Ok(())
            }
            Order::Every(period, line) => {
                let again = Line {
                    text: line.text.clone(),
                    order: Order::Every(period, line.clone()),
                };
                self.schedule(self.state.jetson.now() + period, again);
                self.obey(line.order)
            }
            Order::Stop => {
                let is_repeated = |line: &Line| matches!(line.order, Order::Every(..));
                self.coming.retain(|(_, line)| !is_repeated(line));
                Ok(())
            }
        }
    }

    fn schedule(&mut self, at: Duration, line: Line) {
        let place = self.coming.partition_point(|(before, _)| *before <= at);
        self.coming.insert(place, (at, line));
    }

    /// The error with which opening or writing the file fails by a fault.
    pub(super) fn refusal(&self, path: &str) -> Option<Errno> {
        match self.state.faults.of_writes(path) {
            Some(WriteFault::Refused(errno)) => Some(errno),
            _ => None,
        }
    }

    /// The file that a crash has left half written.
    pub fn crashed(&self) -> Option<&str> {
        self.state.faults.crashed()
    }
}
