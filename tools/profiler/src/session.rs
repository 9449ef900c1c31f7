//! A session: sets one mode after another under a running workload and measures each.
//!
//! ```text
//! planner ──► mode ──► board ──► counts and readings ──► window ──► row ──► corpus, planner
//!                        ▲                  │
//!                        └── mode of least power, at once, when the power exceeds the limit
//! ```
//!
//! The session begins in the mode of least clocks and cores, so that a limit holds from the start.
//! It keeps reading the sensor while the planner, on a thread of its own, computes an answer.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use thiserror::Error;
use wattgate_board::{ApplyError, Board, Files, SampleError};
use wattgate_runtime::{Chip, Estimator, MOST_CHIPS, Milliseconds, Milliwatts, PowerMode};

use crate::planner::{Planner, PlannerError};
use crate::row::{CorpusError, CorpusFile, Mark, Row};
use crate::window::{Count, Measured, Rules, Window};

/// Interval between looks at the sensor.
const LOOK: Duration = Duration::from_millis(50);

/// The readings may fail for this long; the governor waits as long.
const BLIND: Duration = Duration::from_millis(1_700);

/// A workload without a step for longer has none to show.
const NO_STEPS: Duration = Duration::from_secs(60);

/// Longest wait for the planner before the session turns to the board again.
const PLANNER_WAIT: Duration = Duration::from_millis(1);

/// What happened while a session waited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The time has come.
    Time,
    /// A count arrived.
    Count(Count),
    /// The workload has ended, with its exit code if it has one.
    Ended(Option<i32>),
    /// The user wants the session to end.
    Stop,
}

/// What a session works on.
pub trait World {
    /// The board's files.
    type Files: Files;

    /// The board's files.
    fn files(&mut self) -> &mut Self::Files;

    /// Time since the start of the session, of the board's clock.
    fn now(&self) -> Duration;

    /// Waits for an event until a time.
    fn wait(&mut self, until: Duration) -> Event;

    /// How the workload tells its steps, for the user of one that does not.
    fn telling(&self) -> String {
        "the workload counts its steps on the socket that WATTGATE_SOCKET names, one line `steps=N` \
         with the steps since its start"
            .to_owned()
    }
}

/// What a session is to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// The columns `device` and `workload`.
    pub device: String,
    pub workload: String,
    /// No mode is kept whose power exceeds this.
    pub limit: Option<Milliwatts>,
    /// When a measurement is complete.
    pub rules: Rules,
}

/// Why a session ended early. All rows so far are in the corpus.
#[derive(Debug, Error)]
pub enum SessionError {
    /// No count of steps arrived.
    #[error("no step for {} s: {telling}", NO_STEPS.as_secs())]
    NoSteps { telling: String },
    /// A count is less than the one before.
    #[error("the count of steps went backwards, from {from} to {to}")]
    Backwards { from: u64, to: u64 },
    /// The workload has ended.
    #[error("the workload has ended {}", match code {
        Some(code) => format!("with exit code {code}"),
        None => "by a signal".to_owned(),
    })]
    Ended { code: Option<i32> },
    /// The user stopped the session.
    #[error("stopped")]
    Stopped,
    /// The sensor cannot be read.
    #[error("the power sensor: {0}")]
    Sensor(#[from] SampleError),
    /// The mode of least clocks and cores exceeds the limit.
    #[error("the lowest mode draws {power}, more than the limit of {limit}")]
    LimitTooLow {
        power: Milliwatts,
        limit: Milliwatts,
    },
    /// Not even the lowest mode can be set.
    #[error("the lowest mode: {0}")]
    Lowest(ApplyError),
    #[error("{0}")]
    Planner(#[from] PlannerError),
    #[error("{0}")]
    Corpus(#[from] CorpusError),
}

/// Progress, for the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress<'a> {
    /// A mode is about to be set.
    Set(PowerMode),
    /// The board refused it.
    Refused(&'a ApplyError),
    /// A row was written.
    Row(&'a Row),
}

/// A board under a running workload.
pub struct Session<'a, W: World> {
    world: &'a mut W,
    board: &'a mut Board,
    task: Task,
    lowest: PowerMode,
    estimator: Estimator,
    next_look: Duration,
    /// Time of the last reading.
    read: Duration,
    last_count: Option<Count>,
    /// The last time at which a step, or the wait for one, began.
    stepped: Duration,
}

/// What became of a mode.
enum Outcome {
    Measured(Measured),
    Marked(Mark),
    Refused(ApplyError),
}

impl<'a, W: World> Session<'a, W> {
    /// Sets the mode of least clocks and cores, before the workload starts.
    pub fn begin(
        world: &'a mut W,
        board: &'a mut Board,
        lowest: PowerMode,
        task: Task,
    ) -> Result<Self, SessionError> {
        let applied = board.apply(world.files(), &lowest);
        applied.map_err(SessionError::Lowest)?;
        let constants = board.time_constants(world.files());
        let steps = board.sensor_steps();
        let chips: [Chip; MOST_CHIPS] = std::array::from_fn(|chip| Chip {
            time_constant: constants[chip],
            step: steps[chip],
        });
        let now = world.now();
        Ok(Self {
            world,
            board,
            task,
            lowest,
            estimator: Estimator::new(chips),
            next_look: now,
            read: now,
            last_count: None,
            stepped: now,
        })
    }

    /// The world, to start the workload in.
    pub fn world(&mut self) -> &mut W {
        self.world
    }

    /// Measures what the planner asks for, until it has enough. First the planner learns the rows
    /// that the corpus has already.
    pub fn run<P: Planner + Send + 'static>(
        &mut self,
        planner: P,
        corpus: &mut CorpusFile,
        progress: &mut impl FnMut(Progress<'_>),
    ) -> Result<(), SessionError> {
        self.stepped = self.world.now();
        let planner = PlannerThread::start(planner);
        for row in &corpus.rows {
            self.call(&planner, Call::Tell(row.clone()))?;
        }
        while let Some(mode) = self.call(&planner, Call::Ask)? {
            progress(Progress::Set(mode));
            let mut row = self.row(mode);
            let outcome = self.measure(mode, &mut row)?;
            match &outcome {
                Outcome::Measured(measured) => row.measure(measured),
                Outcome::Marked(mark) => row.mark = Some(*mark),
                Outcome::Refused(why) => {
                    row.mark = Some(Mark::Refused);
                    progress(Progress::Refused(why));
                }
            }
            corpus.append(row.clone())?;
            progress(Progress::Row(&row));
            let is_over = row.mark == Some(Mark::OverLimit) && mode == self.lowest;
            if let Some(limit) = self.task.limit.filter(|_| is_over) {
                let power = Milliwatts(row.peak_mw as u32);
                return Err(SessionError::LimitTooLow { power, limit });
            }
            self.call(&planner, Call::Tell(row))?;
        }
        Ok(())
    }

    /// Calls the planner and watches the board until it answers. A mode that goes over the limit
    /// meanwhile is left. Returns the mode that the planner asks for, if any.
    fn call(
        &mut self,
        planner: &PlannerThread,
        call: Call,
    ) -> Result<Option<PowerMode>, SessionError> {
        // The thread takes each call before it answers, and ends only after this session.
        planner.calls.send(call).expect("the planner's thread");
        loop {
            match planner.answers.recv_timeout(PLANNER_WAIT) {
                Ok(answer) => return Ok(answer?),
                Err(RecvTimeoutError::Timeout) => {
                    if self.turn(&mut None)?.is_some() {
                        self.retreat()?;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => panic!("the planner's thread panicked"),
            }
        }
    }

    fn row(&mut self, mode: PowerMode) -> Row {
        let [cores, cpu_khz, gpu_khz, emc_khz] = mode.knobs();
        Row {
            device: self.task.device.clone(),
            workload: self.task.workload.clone(),
            cores,
            cpu_khz,
            gpu_khz,
            emc_khz,
            ..Row::default()
        }
    }

    fn measure(&mut self, mode: PowerMode, row: &mut Row) -> Result<Outcome, SessionError> {
        if let Err(why) = self.board.apply(self.world.files(), &mode) {
            // All writes are undone, but the mode before may not be one to stay in.
            self.retreat()?;
            return Ok(Outcome::Refused(why));
        }
        let events_before = self.over_current_events();
        let set = self.world.now();
        let mut window = Some(Window::new(self.task.rules, set));
        self.stepped = set;
        loop {
            let over = self.turn(&mut window)?;
            let power = self.power(window.as_ref()).unwrap_or_default();
            row.peak_mw = row.peak_mw.max(power.round());
            if let Some(power) = over {
                row.peak_mw = row.peak_mw.max(power.round());
                self.retreat()?;
                return Ok(Outcome::Marked(Mark::OverLimit));
            }
            let measured = window.as_ref().and_then(|it| it.measured(&self.estimator));
            let Some(measured) = measured else { continue };
            row.temperature_c = self
                .board
                .hottest_mc(self.world.files())
                .map(|mc| mc as f64 / 1e3);
            row.over_current = self.over_current_events().saturating_sub(events_before);
            if row.over_current > 0 {
                return Ok(Outcome::Marked(Mark::Throttled));
            }
            if self.board.verify(self.world.files(), &mode).is_err() {
                return Ok(Outcome::Marked(Mark::Changed));
            }
            return Ok(Outcome::Measured(measured));
        }
    }

    /// Waits for one event or the next look. Returns the power in mW if it exceeds the limit.
    fn turn(&mut self, window: &mut Option<Window>) -> Result<Option<f64>, SessionError> {
        match self.world.wait(self.next_look) {
            Event::Count(count) => {
                let before = self.last_count.replace(count);
                if let Some(before) = before.filter(|before| before.steps > count.steps) {
                    let (from, to) = (before.steps, count.steps);
                    return Err(SessionError::Backwards { from, to });
                }
                self.stepped = count.at;
                if let Some(window) = window {
                    window.count(count);
                }
                Ok(None)
            }
            Event::Time => {
                let now = self.world.now();
                self.next_look = now + LOOK;
                if now.saturating_sub(self.stepped) > NO_STEPS {
                    let telling = self.world.telling();
                    return Err(SessionError::NoSteps { telling });
                }
                self.look(now, window)
            }
            Event::Ended(code) => Err(SessionError::Ended { code }),
            Event::Stop => Err(SessionError::Stopped),
        }
    }

    fn look(
        &mut self,
        now: Duration,
        window: &mut Option<Window>,
    ) -> Result<Option<f64>, SessionError> {
        let sample = match self.board.sample(self.world.files()) {
            Ok(sample) => sample,
            Err(error) if now.saturating_sub(self.read) > BLIND => {
                self.retreat()?;
                return Err(error.into());
            }
            Err(_) => return Ok(None),
        };
        self.read = now;
        let at = Milliseconds(now.as_millis() as u64);
        self.estimator.look(&sample, at);
        if let Some(window) = window {
            window.look(now, self.estimator.energy_uj());
        }
        let power = self.power(window.as_ref()).zip(self.task.limit);
        Ok(power.and_then(|(power, limit)| (power > f64::from(limit.0)).then_some(power)))
    }

    /// The power in mW that the present mode surely draws: its mean at first, then the estimate
    /// less its deviation, since a single reading may be off by a step or by noise.
    fn power(&self, window: Option<&Window>) -> Option<f64> {
        let unsettled = window.filter(|window| !window.is_settled(self.world.now()));
        match unsettled {
            Some(window) => window.mean_since_set(),
            None => {
                let estimate = self.estimator.estimate()?;
                Some(f64::from(estimate.power - estimate.deviation))
            }
        }
    }

    /// Goes to the mode of least clocks and cores.
    fn retreat(&mut self) -> Result<(), SessionError> {
        let applied = self.board.apply(self.world.files(), &self.lowest);
        applied.map(drop).map_err(SessionError::Lowest)
    }

    fn over_current_events(&mut self) -> u64 {
        let events = self.board.over_current_events(self.world.files());
        let events = events.into_iter().flatten();
        events.map(|events| events.max(0).unsigned_abs()).sum()
    }
}

/// A call of the planner.
enum Call {
    Ask,
    Tell(Row),
}

/// A planner on a thread of its own: a session that ends early does not wait for its answer.
struct PlannerThread {
    calls: SyncSender<Call>,
    answers: Receiver<Result<Option<PowerMode>, PlannerError>>,
}

impl PlannerThread {
    fn start<P: Planner + Send + 'static>(mut planner: P) -> Self {
        let (calls, taken) = sync_channel(1);
        let (given, answers) = sync_channel(1);
        thread::spawn(move || {
            for call in taken {
                let answer = match call {
                    Call::Ask => planner.ask(),
                    Call::Tell(row) => tell(&mut planner, &row).map(|()| None),
                };
                if given.send(answer).is_err() {
                    return;
                }
            }
        });
        Self { calls, answers }
    }
}

/// Tells a planner what a row says.
fn tell<P: Planner>(planner: &mut P, row: &Row) -> Result<(), PlannerError> {
    match (row.mark, row.time_ms, row.power_mw) {
        (None, Some(time_ms), Some(power_mw)) => planner.tell(row.mode(), time_ms, power_mw),
        (Some(Mark::OverLimit), ..) => planner.exclude(row.mode(), Some(row.peak_mw)),
        _ => planner.exclude(row.mode(), None),
    }
}
