//! A session: sets one mode after another under a running workload and measures each.
//!
//! ```text
//! planner ──► mode ──► board ──► counts and readings ──► window ──► row ──► corpus, planner
//!                        ▲                  │
//!                        └── mode of least power, at once, when the power exceeds the limit
//! ```
//!
//! With a limit the session begins in the mode of least clocks and cores, so that the limit holds
//! from the start. Many workloads need minutes there until their first step, so the CPU's clock
//! rises while the power is far below the limit, until the first step is counted. The session keeps
//! reading the sensor while the planner, on a thread of its own, computes an answer.

use std::time::Duration;

use thiserror::Error;
use wattgate_board::{ApplyError, Board, Files, SampleError};
use wattgate_cli::planning::Kind;
use wattgate_runtime::{Chip, Estimator, MOST_CHIPS, Milliseconds, Milliwatts, PowerMode};

use crate::planner::{Answer, Background, Call, Fitted, PlannerError};
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

/// Time in each mode of the start, and the share of the limit up to which the next one is set. It
/// has at most 1.25 times the clock, which draws at most twice the power: the clock times the
/// square of the voltage, which rises less than the clock.
const START_TIME: Duration = Duration::from_secs(1);
const START_SHARE: f64 = 0.5;
const START_RATIO: f64 = 1.25;

/// Interval between looks at the CPU's true clock, which keep a core busy.
const CLOCK_LOOK: Duration = Duration::from_secs(1);

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
    /// The board may not be changed any longer.
    Lost,
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

/// The modes that a session needs without a plan.
#[derive(Clone, Debug)]
pub struct Ladder {
    /// The mode of least clocks and cores.
    pub lowest: PowerMode,
    /// The modes of the start, in order of power: those of the CPU at the lowest other clocks.
    pub start: Vec<PowerMode>,
}

impl Ladder {
    /// The modes for a board that can be set to the values of these axes, ascending.
    pub fn of([cores, cpu, gpu, emc]: [&[u32]; 4]) -> Self {
        let first = |values: &[u32]| values.first().copied().unwrap_or_default();
        let last = |values: &[u32]| values.last().copied().unwrap_or_default();
        let mode = |cores, cpu| PowerMode::from_knobs([cores, cpu, first(gpu), first(emc)]);
        let mut start = vec![mode(last(cores), first(cpu))];
        let mut from = first(cpu);
        for (at, &clock) in cpu.iter().enumerate() {
            // The highest clock within the ratio; the next one where none is.
            let next = cpu.get(at + 1).copied().unwrap_or(u32::MAX);
            let ratio = f64::from(next) / f64::from(from);
            if clock > from && ratio > START_RATIO {
                start.push(mode(last(cores), clock));
                from = clock;
            }
        }
        Self {
            lowest: mode(first(cores), first(cpu)),
            start,
        }
    }
}

/// What a session is to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// The columns `kind`, `device` and `workload`.
    pub kind: Kind,
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
    /// The daemon has ended, or has taken the board back.
    #[error("the daemon has ended or has taken the board back")]
    Lost,
    /// The sensor cannot be read.
    #[error("the power sensor: {0}")]
    Sensor(#[from] SampleError),
    /// The mode of least clocks and cores exceeds the limit.
    #[error(
        "the lowest mode draws {power}, more than the limit of {limit} without the sensor's error"
    )]
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
    ladder: Ladder,
    /// The mode that is set, as far as the session has set one.
    mode: Option<PowerMode>,
    /// Whether the mode before had no step.
    stalled: bool,
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

/// What a turn saw.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    Nothing,
    /// The power in mW exceeds the limit.
    Over(f64),
    /// No step for a long time.
    Stalled,
}

impl<'a, W: World> Session<'a, W> {
    /// Prepares the board, before the workload starts: with a limit, sets the lowest mode.
    pub fn begin(
        world: &'a mut W,
        board: &'a mut Board,
        ladder: Ladder,
        task: Task,
    ) -> Result<Self, SessionError> {
        let constants = board.time_constants(world.files());
        let steps = board.sensor_steps();
        let chips: [Chip; MOST_CHIPS] = std::array::from_fn(|chip| Chip {
            time_constant: constants[chip],
            step: steps[chip],
        });
        let now = world.now();
        let mut session = Self {
            world,
            board,
            task,
            ladder,
            mode: None,
            stalled: false,
            estimator: Estimator::new(chips),
            next_look: now,
            read: now,
            last_count: None,
            stepped: now,
        };
        if session.task.limit.is_some() {
            session.retreat()?;
        }
        Ok(session)
    }

    /// The world, to start the workload in.
    pub fn world(&mut self) -> &mut W {
        self.world
    }

    /// Measures what the planner asks for, until it has enough. First the planner learns the rows
    /// that the corpus has already.
    pub fn run(
        &mut self,
        planner: &Background,
        corpus: &mut CorpusFile,
        progress: &mut impl FnMut(Progress<'_>, Duration),
    ) -> Result<(), SessionError> {
        self.stepped = self.world.now();
        self.start()?;
        for row in &corpus.rows {
            self.call(planner, Call::Tell(row.clone()))?;
        }
        while let Answer::Next(Some(mode)) = self.call(planner, Call::Ask(self.mode))? {
            progress(Progress::Set(mode), self.world.now());
            let mut row = self.row(mode);
            let outcome = self.measure(mode, &mut row)?;
            match &outcome {
                Outcome::Measured(measured) => row.measure(measured),
                Outcome::Marked(mark) => row.mark = Some(*mark),
                Outcome::Refused(why) => {
                    row.mark = Some(Mark::Refused);
                    progress(Progress::Refused(why), self.world.now());
                }
            }
            corpus.append(row.clone())?;
            progress(Progress::Row(&row), self.world.now());
            let is_over = row.mark == Some(Mark::OverLimit) && mode == self.ladder.lowest;
            if let Some(limit) = self.task.limit.filter(|_| is_over) {
                let power = Milliwatts(row.peak_mw as u32);
                return Err(SessionError::LimitTooLow { power, limit });
            }
            self.call(planner, Call::Tell(row))?;
        }
        Ok(())
    }

    /// Fits a model. Meanwhile the board is in a mode.
    pub fn fit(
        &mut self,
        planner: &Background,
        meanwhile: PowerMode,
    ) -> Result<Fitted, SessionError> {
        if self.set(meanwhile).is_err() {
            self.retreat()?;
        }
        match self.call(planner, Call::Fit)? {
            Answer::Fitted(fitted) => Ok(fitted),
            other => panic!("a fit is answered by {other:?}"),
        }
    }

    /// Waits for the first step. With a limit the CPU's clock rises meanwhile.
    fn start(&mut self) -> Result<(), SessionError> {
        let Some(limit) = self.task.limit.map(|limit| f64::from(limit.0)) else {
            return Ok(());
        };
        let mut modes = self.ladder.start.clone().into_iter();
        let mut is_rising = true;
        while self.last_count.is_none() {
            let end = self.world.now() + START_TIME;
            while self.world.now() < end && self.last_count.is_none() {
                match self.turn(&mut None)? {
                    Seen::Nothing => {}
                    Seen::Over(_) => {
                        // The load has phases. It starts in the lowest mode from here.
                        is_rising = false;
                        self.retreat()?;
                    }
                    Seen::Stalled => return Err(self.no_steps()),
                }
            }
            let power = self.estimator.estimate();
            let power = power.map(|it| f64::from(it.power + it.deviation));
            let is_low = power.is_some_and(|power| power <= START_SHARE * limit);
            if is_rising
                && is_low
                && let Some(mode) = modes.next()
            {
                is_rising = self.set(mode).is_ok();
            }
        }
        self.retreat()
    }

    /// Calls the planner and watches the board until it answers. A mode that goes over the limit
    /// meanwhile is left.
    fn call(&mut self, planner: &Background, call: Call) -> Result<Answer, SessionError> {
        planner.call(call);
        loop {
            if let Some(answer) = planner.answer(PLANNER_WAIT)? {
                return Ok(answer);
            }
            if self.turn(&mut None)? != Seen::Nothing {
                self.retreat()?;
            }
        }
    }

    fn row(&mut self, mode: PowerMode) -> Row {
        let [cores, cpu_khz, gpu_khz, emc_khz] = mode.knobs();
        Row {
            kind: self.task.kind,
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
        if let Err(why) = self.set(mode) {
            // All writes are undone, but the mode before may not be one to stay in.
            self.retreat()?;
            return Ok(Outcome::Refused(why));
        }
        let events_before = self.over_current_events();
        let set = self.world.now();
        let mut window = Some(Window::new(self.task.rules, set));
        let mut clocks = Vec::new();
        let mut next_clock = set + CLOCK_LOOK;
        self.stepped = set;
        loop {
            let seen = self.turn(&mut window)?;
            let power = self.power(window.as_ref()).unwrap_or_default();
            row.peak_mw = row.peak_mw.max(power.round());
            match seen {
                Seen::Nothing => {}
                Seen::Over(power) => {
                    row.peak_mw = row.peak_mw.max(power.round());
                    self.retreat()?;
                    return Ok(Outcome::Marked(Mark::OverLimit));
                }
                // A step may take that long in a low mode, but not in two of them.
                Seen::Stalled if self.stalled || self.last_count.is_none() => {
                    return Err(self.no_steps());
                }
                Seen::Stalled => {
                    self.stalled = true;
                    return Ok(Outcome::Marked(Mark::Stalled));
                }
            }
            if self.world.now() >= next_clock {
                next_clock += CLOCK_LOOK;
                clocks.extend(self.board.delivered_cpu(self.world.files()));
            }
            let measured = window.as_ref().and_then(|it| it.measured(&self.estimator));
            let Some(measured) = measured else { continue };
            self.stalled = false;
            row.temperature_c = self
                .board
                .hottest_mc(self.world.files())
                .map(|mc| mc as f64 / 1e3);
            row.over_current = self.over_current_events().saturating_sub(events_before);
            clocks.sort_unstable();
            row.delivered_cpu_khz = clocks.get(clocks.len() / 2).map(|clock| clock.0);
            if row.is_throttled() {
                return Ok(Outcome::Marked(Mark::Throttled));
            }
            if self.board.verify(self.world.files(), &mode).is_err() {
                return Ok(Outcome::Marked(Mark::Changed));
            }
            return Ok(Outcome::Measured(measured));
        }
    }

    /// Waits for one event or the next look.
    fn turn(&mut self, window: &mut Option<Window>) -> Result<Seen, SessionError> {
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
                Ok(Seen::Nothing)
            }
            Event::Time => {
                let now = self.world.now();
                self.next_look = now + LOOK;
                let seen = self.look(now, window)?;
                if seen == Seen::Nothing && now.saturating_sub(self.stepped) > NO_STEPS {
                    self.stepped = now;
                    return Ok(Seen::Stalled);
                }
                Ok(seen)
            }
            Event::Ended(code) => Err(SessionError::Ended { code }),
            Event::Stop => Err(SessionError::Stopped),
            Event::Lost => Err(SessionError::Lost),
        }
    }

    fn look(&mut self, now: Duration, window: &mut Option<Window>) -> Result<Seen, SessionError> {
        let sample = match self.board.sample(self.world.files()) {
            Ok(sample) => sample,
            Err(error) if now.saturating_sub(self.read) > BLIND => {
                self.retreat()?;
                return Err(error.into());
            }
            Err(_) => return Ok(Seen::Nothing),
        };
        self.read = now;
        let at = Milliseconds(now.as_millis() as u64);
        self.estimator.look(&sample, at);
        if let Some(window) = window {
            window.look(now, self.estimator.energy_uj());
        }
        Ok(match (self.power(window.as_ref()), self.task.limit) {
            (Some(power), Some(limit)) if power > f64::from(limit.0) => Seen::Over(power),
            _ => Seen::Nothing,
        })
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

    /// Sets a mode. After an error the mode before is set.
    fn set(&mut self, mode: PowerMode) -> Result<(), ApplyError> {
        self.board.apply(self.world.files(), &mode)?;
        self.mode = Some(mode);
        Ok(())
    }

    /// Goes to the mode of least clocks and cores.
    fn retreat(&mut self) -> Result<(), SessionError> {
        self.set(self.ladder.lowest).map_err(SessionError::Lowest)
    }

    fn no_steps(&self) -> SessionError {
        let telling = self.world.telling();
        SessionError::NoSteps { telling }
    }

    fn over_current_events(&mut self) -> u64 {
        let events = self.board.over_current_events(self.world.files());
        let events = events.into_iter().flatten();
        events.map(|events| events.max(0).unsigned_abs()).sum()
    }
}
