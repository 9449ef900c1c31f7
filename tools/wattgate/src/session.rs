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
use wattgate_board::{ApplyError, Board, Clocks, Disobedience, Effective, SampleError};
use wattgate_cli::planning::IDLE_TIME;
use wattgate_runtime::estimator::Estimator;
use wattgate_runtime::format::Kind;
use wattgate_runtime::{Milliseconds, Milliwatts, PowerMode, Sample};
use wattgate_watchdog::quantity::Watts;

use crate::ladder::Ladder;
use crate::planner::{Answer, Background, Call, Fitted, PlannerError};
use crate::row::{CorpusError, CorpusFile, Feeding, Mark, Row, is_delivered};
use crate::sensing::{OverCurrent, busy_gpu_clock, estimator};
use crate::window::{Count, Measured, Rules, Window};
use crate::world::{Event, Exit, World};

/// Interval between samples of the sensor.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(50);

/// The readings may fail for this long; the governor waits as long.
const BLIND: Duration = Duration::from_millis(1_700);

/// A workload without a step for longer is stalled, or has not started yet.
const NO_STEPS: Duration = Duration::from_secs(60);

/// Longest wait for the first step: TensorRT may build an engine for 20 minutes on a small board.
const LONGEST_START: Duration = Duration::from_secs(30 * 60);

/// Time in which a change of the mode shows in the readings: the low-pass of 430 ms has covered 99 % of
/// a step by then.
const RESPONSE: Duration = Duration::from_secs(2);

/// Two modes with a longer [`distance`] differ visibly in power, under any workload.
const VISIBLE: f64 = 16.0;

/// Readings that stand still for longer after such a change are stale. The longest standstill in
/// recordings of busy boards is 12.7 s.
const STANDSTILL: Duration = Duration::from_secs(15);

/// Time over the limit in the mode of least clocks and cores after which no mode is within it.
const HOPELESS: Duration = Duration::from_secs(3);

/// Longest wait for the planner before the session turns to the board again.
const PLANNER_WAIT: Duration = Duration::from_millis(1);

/// Modes in a row that cannot be measured, after which none will be: as many as a plan asks for at first.
const MOST_UNMEASURED: u32 = 9;

/// Time in each mode of the start, and the share of the limit up to which the next one is set,
/// which draws at most twice the power.
const START_TIME: Duration = Duration::from_secs(1);
const START_SHARE: f64 = 0.5;

/// Interval between readings of the CPU's true clock, which keep a core busy.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the over-current protection publishes its counters (`jetson-platform.md`, section
/// 6.4).
const PUBLISHED: Duration = Duration::from_secs(2);

/// An idle GPU has a load of at most this in permille.
const IDLE_LOAD: u16 = 50;

/// What a session is to do.
#[derive(Clone, Debug)]
pub struct Task {
    /// The columns `kind`, `unit`, `device` and `workload`.
    pub kind: Kind,
    pub unit: Option<String>,
    pub device: String,
    pub workload: String,
    /// How the workload is fed, as the user states it.
    pub feeding: Feeding,
    /// No mode is kept whose power exceeds this.
    pub limit: Option<Milliwatts>,
    /// The part of the limit that is kept for the sensor's error.
    pub margin: Milliwatts,
    /// When a measurement is complete.
    pub rules: Rules,
    /// Whether each mode is also measured with its clocks as ceilings ([`Clocks::Cap`]).
    pub caps: bool,
}

/// Why a session ended early. All rows so far are in the corpus.
#[derive(Debug, Error)]
pub enum SessionError {
    /// No count of steps arrived.
    #[error("no step for {} s: {telling}", waited.as_secs())]
    NoSteps { waited: Duration, telling: String },
    /// What is taken for the count of steps is none.
    #[error("the steps cannot be counted: {telling}")]
    NoCount { telling: String },
    /// A count is less than the one before.
    #[error(
        "the count of steps went backwards, from {from} to {to}: two counters are taken for one; send each from a \
         socket with an address of its own, or with a name of its own"
    )]
    Backwards { from: u64, to: u64 },
    /// The workload and the user give different minibatches.
    #[error(
        "the workload reports {told} samples in a step, but --minibatch is {stated}; leave --minibatch out"
    )]
    Minibatch { stated: u32, told: u32 },
    /// The workload has ended.
    #[error(
        "{0} before all modes were measured; {advice}",
        advice = match .0.is_failure() {
            true => "its own output may say why",
            false => "let it run for longer, such as for more epochs",
        }
    )]
    Ended(Exit),
    /// The user stopped the session.
    #[error("stopped by a signal; the corpus keeps all rows so far")]
    Stopped,
    /// The daemon does not lend the board any longer.
    #[error(
        "the daemon does not lend the board any longer: it has ended, its limit was lowered, or this \
         program was stopped for two seconds; start it again"
    )]
    Lost,
    /// The sensor cannot be read.
    #[error(
        "the power sensor has failed: {0}; `wattgate check` shows the sensors, `dmesg` their driver's errors"
    )]
    Sensor(#[from] SampleError),
    /// The readings do not follow the board.
    #[error(
        "the power sensor is stale: its readings have not changed for {} s, although the mode has; load its driver again, or \
         reboot",
        STANDSTILL.as_secs()
    )]
    Stale,
    /// The mode of least clocks and cores exceeds the limit.
    #[error(
        "no mode is within the limit of {} less {} for the sensor's error: the one of least \
         clocks and cores draws {}; raise --limit", Watts(*limit), Watts(*margin), Watts(*power)
    )]
    LimitTooLow {
        power: Milliwatts,
        limit: Milliwatts,
        margin: Milliwatts,
    },
    /// A knob keeps the board above the limit.
    #[error(
        "the power is {}, over the limit of {}, since a knob does not obey: {knob}; end the program that holds it, or raise \
         --limit",
        Watts(*power), Watts(*limit)
    )]
    Disobeys {
        power: Milliwatts,
        limit: Milliwatts,
        knob: Disobedience,
    },
    /// Not even the lowest mode can be set.
    #[error(
        "the mode of least clocks and cores cannot be set: {0}; report the board with `wattgate probe`"
    )]
    Lowest(ApplyError),
    /// One mode after another could not be measured.
    #[error(
        "{} modes in a row could not be measured; the last one: {}; {}",
        MOST_UNMEASURED, telling(*.0), remedy(*.0)
    )]
    Unmeasured(Mark),
    #[error("{0}")]
    Planner(#[from] PlannerError),
    #[error("{0}")]
    Corpus(#[from] CorpusError),
}

/// What a mark says, as a sentence's end.
fn telling(mark: Mark) -> &'static str {
    match mark {
        Mark::Refused => "a knob of the board does not obey",
        Mark::Changed => "another program has changed the mode",
        Mark::Throttled => "firmware or cooling runs the board slower than the mode",
        Mark::Stalled => "the workload did no step for a minute",
        Mark::OverLimit => "its power is over the limit",
        Mark::Idle => "the board was idle",
    }
}

/// What to do about a mark.
fn remedy(mark: Mark) -> &'static str {
    match mark {
        Mark::Refused | Mark::Changed => {
            "end other programs that set clocks or cores, such as jetson_clocks or nvpmodel"
        }
        Mark::Throttled => "cool the board, or give it a stronger power supply",
        Mark::Stalled => "see that the workload runs on and tells its steps",
        Mark::OverLimit => "raise --limit",
        Mark::Idle => "start the workload",
    }
}

/// Why a mode is not set.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum SetError {
    #[error("{0}")]
    NotOnBoard(#[from] ApplyError),
    /// A knob does not obey, so the board is in another mode.
    #[error("a knob does not obey: {0}")]
    Disobeys(Disobedience),
}

/// Progress, for the user.
#[derive(Clone, Debug, PartialEq)]
pub enum Progress<'a> {
    /// A mode is about to be set.
    Set(PowerMode),
    /// The board refused it.
    Refused(&'a SetError),
    /// The session waits for the first step. This is how the workload would tell it.
    NoStep { waited: Duration, telling: &'a str },
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
    /// Modes in a row that could not be measured.
    unmeasured: u32,
    estimator: Estimator,
    next_sample: Duration,
    /// Time of the last reading, of the last one that differed from the one before, and its value.
    read: Duration,
    changed: Duration,
    sample: Option<Sample>,
    /// Since when the power exceeds the limit in the mode of least clocks and cores.
    over_since: Option<Duration>,
    last_count: Option<Count>,
    /// The last time at which a step, or the wait for one, began.
    stepped: Duration,
    /// Rows of the idle board, until it is known how the workload is fed.
    idle: Vec<Row>,
}

/// The product of the clocks and cores of a mode, relative to that of another; at least 1.
fn distance(one: PowerMode, other: PowerMode) -> f64 {
    let product = |mode: PowerMode| mode.knobs().into_iter().map(f64::from).product::<f64>();
    let ratio = product(one) / product(other);
    ratio.max(1.0 / ratio)
}

/// What became of a mode.
enum Outcome {
    Measured(Measured),
    Marked(Mark),
    Refused(SetError),
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
        let estimator = estimator(board, world.files());
        let now = world.now();
        let mut session = Self {
            world,
            board,
            task,
            ladder,
            mode: None,
            stalled: false,
            unmeasured: 0,
            estimator,
            next_sample: now,
            read: now,
            changed: now,
            sample: None,
            over_since: None,
            last_count: None,
            stepped: now,
            idle: Vec::new(),
        };
        if session.task.limit.is_some() {
            session.retreat()?;
        }
        Ok(session)
    }

    /// Waits until the planner is ready.
    pub fn ready(&mut self, planner: &Background) -> Result<(), SessionError> {
        self.call(planner, Call::Begin).map(drop)
    }

    /// Measures the power of the idle board in some modes, before the workload starts. Leaves out modes over the limit, and ends as
    /// soon as the GPU works. Returns the number of modes that were measured.
    pub fn measure_idle(&mut self, modes: &[PowerMode]) -> Result<usize, SessionError> {
        for mode in modes {
            if !self.is_idle() {
                break;
            }
            let power_mw = match self.set(*mode) {
                Ok(()) => self.idle_power()?,
                Err(_) => None,
            };
            let Some(power_mw) = power_mw.filter(|_| self.is_idle()) else {
                self.retreat()?;
                continue;
            };
            let capped = match self.task.caps {
                true => self.with_caps(|session| match session.set(*mode) {
                    Ok(()) => session.idle_power(),
                    Err(_) => Ok(None),
                })?,
                false => None,
            };
            let tenths = |power: f64| (10.0 * power).round() / 10.0;
            let temperature = self.board.hottest_mc(self.world.files());
            let row = Row {
                idle_mw: Some(tenths(power_mw)),
                capped_idle_mw: capped.map(tenths),
                mark: Some(Mark::Idle),
                window_ms: IDLE_TIME.as_millis() as f64,
                end_s: self.world.now().as_millis() as f64 / 1e3,
                temperature_c: temperature.map(|mc| mc as f64 / 1e3),
                ..self.row(*mode)
            };
            self.idle.push(row);
        }
        if self.task.limit.is_some() {
            self.retreat()?;
        }
        Ok(self.idle.len())
    }

    /// Runs `work` while the clocks of modes are ceilings. Afterwards modes pin their clocks again.
    fn with_caps<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        self.board.set_clocks(Clocks::Cap);
        let done = work(self);
        self.board.set_clocks(Clocks::Pin);
        done
    }

    /// Measures a mode again with its clocks as ceilings.
    fn measure_capped(&mut self, mode: PowerMode, row: &mut Row) -> Result<(), SessionError> {
        let mut capped = self.row(mode);
        let outcome = self.with_caps(|session| session.measure(mode, &mut capped, true))?;
        if let Outcome::Measured(measured) = &outcome {
            capped.measure(measured);
            (row.capped_time_ms, row.capped_power_mw) = (capped.time_ms, capped.power_mw);
        }
        Ok(())
    }

    /// Whether the GPU does nothing, as far as the board tells its load.
    fn is_idle(&mut self) -> bool {
        let load = self.board.gpu_load(self.world.files());
        load.is_none_or(|load| load <= IDLE_LOAD)
    }

    /// The mean power in mW in the present mode. `None` if it is over the limit, in which case the board is in the lowest mode
    /// again, or if another program has changed the mode.
    fn idle_power(&mut self) -> Result<Option<f64>, SessionError> {
        let set = self.world.now();
        self.stepped = set;
        let mut start = None;
        while self.world.now() < set + IDLE_TIME {
            if let Seen::Over(_) = self.turn(&mut None)? {
                self.retreat()?;
                return Ok(None);
            }
            if start.is_none() && self.read >= set + RESPONSE {
                start = Some((self.read, self.estimator.energy_uj()));
            }
        }
        let (Some((from, before)), Some(mode)) = (start, self.mode) else {
            return Ok(None);
        };
        let passed = self.read.saturating_sub(from).as_secs_f64();
        let is_set = self.board.verify_all(self.world.files(), &mode).is_ok();
        let energy = self.estimator.energy_uj().saturating_sub(before);
        let power_mw = energy as f64 / 1e3 / passed;
        Ok((is_set && passed > 0.0 && power_mw > 0.0).then_some(power_mw))
    }

    /// The world, to start the workload in.
    pub fn world(&mut self) -> &mut W {
        self.world
    }

    /// Measures what the planner asks for, until it has enough. First the planner learns the rows that the
    /// corpus already has for the same feeding.
    pub fn run(
        &mut self,
        planner: &Background,
        corpus: &mut CorpusFile,
        progress: &mut impl FnMut(Progress<'_>, Duration),
    ) -> Result<(), SessionError> {
        self.await_workload(progress)?;
        let limit_mw = self.allowed_mw().unwrap_or(f64::INFINITY);
        let feeding = corpus.kept(self.feeding());
        // A corpus that another run began may have the idle board.
        let is_new = corpus.keeps_idle() && corpus.idle().next().is_none();
        for mut row in std::mem::take(&mut self.idle)
            .into_iter()
            .filter(|_| is_new)
        {
            row.feed(feeding.clone());
            corpus.append(row.clone())?;
            progress(Progress::Row(&row), self.world.now());
        }
        for row in corpus.idle() {
            self.call(planner, Call::Tell(Box::new(row.clone())))?;
        }
        let rows: Vec<_> = corpus
            .rows
            .iter()
            .filter(|row| row.feeding() == feeding && row.mark != Some(Mark::Idle))
            .collect();
        for (at, row) in rows.iter().enumerate() {
            // A mode that was measured again has several rows, of which the planner knows one.
            let is_last = rows[at + 1..]
                .iter()
                .all(|later| later.mode() != row.mode());
            // What exceeded a lower limit may be within this one.
            let counts = row.mark != Some(Mark::OverLimit) || row.peak_mw > limit_mw;
            if is_last && counts {
                self.call(planner, Call::Tell(Box::new((*row).clone())))?;
            }
        }
        while let Answer::Next(Some(mode)) = self.call(planner, Call::Ask(self.mode))? {
            progress(Progress::Set(mode), self.world.now());
            let mut row = self.row(mode);
            let outcome = self.measure(mode, &mut row, false)?;
            let mut feeding = self.feeding();
            match &outcome {
                Outcome::Measured(measured) => {
                    row.measure(measured);
                    feeding.minibatch = self.task.feeding.minibatch.or(measured.items);
                    if self.task.caps {
                        self.measure_capped(mode, &mut row)?;
                    }
                }
                Outcome::Marked(mark) => row.mark = Some(*mark),
                Outcome::Refused(why) => {
                    row.mark = Some(Mark::Refused);
                    progress(Progress::Refused(why), self.world.now());
                }
            }
            row.feed(corpus.kept(feeding));
            corpus.append(row.clone())?;
            progress(Progress::Row(&row), self.world.now());
            let is_over = row.mark == Some(Mark::OverLimit) && mode == self.ladder.lowest;
            if let Some(limit) = self.task.limit.filter(|_| is_over) {
                let power = Milliwatts(row.peak_mw as u32);
                return Err(self.limit_too_low(power, limit));
            }
            // What is over the limit teaches the planner; what is not measured at all does not.
            let mark = row.mark.filter(|mark| *mark != Mark::OverLimit);
            self.unmeasured = mark.map_or(0, |_| self.unmeasured + 1);
            if let Some(mark) = mark.filter(|_| self.unmeasured >= MOST_UNMEASURED) {
                return Err(SessionError::Unmeasured(mark));
            }
            self.call(planner, Call::Tell(Box::new(row)))?;
        }
        Ok(())
    }

    /// Fits a model. Meanwhile the board is in a mode, or in that of least clocks and cores.
    pub fn fit(
        &mut self,
        planner: &Background,
        meanwhile: Option<PowerMode>,
    ) -> Result<Fitted, SessionError> {
        if meanwhile.is_none_or(|mode| self.set(mode).is_err()) {
            self.retreat()?;
        }
        Ok(self.call(planner, Call::Fit)?.fitted())
    }

    /// Waits for the first step, which may tell the workload's name, and how it is fed.
    pub fn await_workload(
        &mut self,
        progress: &mut impl FnMut(Progress<'_>, Duration),
    ) -> Result<(), SessionError> {
        if self.last_count.is_some() {
            return Ok(());
        }
        self.stepped = self.world.now();
        self.start(progress)?;
        self.await_step(progress)
    }

    /// Names the workload of all rows.
    pub fn set_name(&mut self, workload: &str) {
        workload.clone_into(&mut self.task.workload);
        for row in &mut self.idle {
            workload.clone_into(&mut row.workload);
        }
    }

    /// Waits for the first step. With a limit the CPU's clock rises meanwhile.
    fn start(
        &mut self,
        progress: &mut impl FnMut(Progress<'_>, Duration),
    ) -> Result<(), SessionError> {
        let Some(limit) = self.allowed_mw() else {
            return Ok(());
        };
        let mut modes = self.ladder.start.clone().into_iter();
        let mut is_rising = true;
        let began = self.world.now();
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
                    Seen::Stalled => self.has_waited(began, progress)?,
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

    /// Waits for the first step, which may tell how the workload is fed.
    fn await_step(
        &mut self,
        progress: &mut impl FnMut(Progress<'_>, Duration),
    ) -> Result<(), SessionError> {
        let began = self.world.now();
        while self.last_count.is_none() {
            match self.turn(&mut None)? {
                Seen::Nothing => {}
                Seen::Over(_) => self.retreat()?,
                Seen::Stalled => self.has_waited(began, progress)?,
            }
        }
        Ok(())
    }

    /// Says after 1, 2, 4, … minutes that no step has come, and ends the session after [`LONGEST_START`].
    fn has_waited(
        &mut self,
        began: Duration,
        progress: &mut impl FnMut(Progress<'_>, Duration),
    ) -> Result<(), SessionError> {
        let now = self.world.now();
        let waited = now.saturating_sub(began);
        if waited > LONGEST_START {
            return Err(self.no_steps(waited));
        }
        if (waited.as_secs() / NO_STEPS.as_secs()).is_power_of_two() {
            let telling = self.world.telling();
            let telling = &telling;
            progress(Progress::NoStep { waited, telling }, now);
        }
        Ok(())
    }

    /// How the workload is fed: what the user states, and the minibatch that the workload reported last.
    pub fn feeding(&self) -> Feeding {
        let told = self.last_count.and_then(|count| count.told.items);
        let stated = self.task.feeding.clone();
        Feeding {
            minibatch: stated.minibatch.or(told),
            ..stated
        }
    }

    /// Calls the planner and watches the board until it answers. A mode that goes over the limit
    /// meanwhile is left.
    fn call(&mut self, planner: &Background, call: Call) -> Result<Answer, SessionError> {
        planner.call(call);
        loop {
            match planner.answer(PLANNER_WAIT) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => {}
                // Ctrl-C ends the planner, too.
                Err(_) if self.world.wait(Duration::ZERO) == Event::Stop => {
                    return Err(SessionError::Stopped);
                }
                Err(error) => return Err(error.into()),
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
            tpc_pg_mask: self.board.tpc_pg_mask(),
            unit: self.task.unit.clone(),
            cores,
            cpu_khz,
            gpu_khz,
            emc_khz,
            ..Row::default()
        }
    }

    /// Measures a mode. Unless the sensor is known to follow the board, its readings have to change with
    /// a mode that is very different.
    fn measure(
        &mut self,
        mode: PowerMode,
        row: &mut Row,
        is_proven: bool,
    ) -> Result<Outcome, SessionError> {
        let is_near = self
            .mode
            .is_none_or(|before| distance(before, mode) < VISIBLE);
        let is_proven = is_proven || is_near;
        if let Err(why) = self.set(mode) {
            // The board may be in any mode.
            self.retreat()?;
            self.test_obedience()?;
            if self.set(mode).is_err() {
                self.retreat()?;
                return Ok(Outcome::Refused(why));
            }
        }
        let mut events_before = self.over_current();
        let mut is_published = false;
        let set = self.world.now();
        let mut window = Some(Window::new(self.task.rules, set));
        let (mut clocks, mut gpu_clocks) = (Vec::new(), Vec::new());
        let mut next_clock = set + CLOCK_INTERVAL;
        self.stepped = set;
        loop {
            let seen = self.turn(&mut window)?;
            let power = self.power(window.as_ref()).unwrap_or_default();
            row.peak_mw = row.peak_mw.max(power.round());
            match seen {
                Seen::Nothing => {}
                Seen::Over(power) => {
                    row.peak_mw = row.peak_mw.max(power.round());
                    // Another program may have raised the power.
                    let is_set = self.board.verify_all(self.world.files(), &mode).is_ok();
                    self.retreat()?;
                    return Ok(Outcome::Marked(match is_set {
                        true => Mark::OverLimit,
                        false => Mark::Changed,
                    }));
                }
                // A step may take that long in a low mode, but not in two of them.
                Seen::Stalled if self.stalled || self.last_count.is_none() => {
                    return Err(self.no_steps(NO_STEPS));
                }
                Seen::Stalled => {
                    self.stalled = true;
                    return Ok(Outcome::Marked(
                        match self.board.verify_all(self.world.files(), &mode) {
                            Ok(_) => Mark::Stalled,
                            Err(_) => Mark::Changed,
                        },
                    ));
                }
            }
            if !is_proven && self.is_still(set) {
                self.prove_sensor()?;
                return self.measure(mode, row, true);
            }
            // What the mode before caused is published by now.
            if !is_published && self.world.now() >= set + PUBLISHED {
                is_published = true;
                events_before = self.over_current();
            }
            if self.world.now() >= next_clock {
                next_clock += CLOCK_INTERVAL;
                // A knob may leave the mode and come back before the end.
                if self.board.verify_all(self.world.files(), &mode).is_err() {
                    self.retreat()?;
                    return Ok(Outcome::Marked(Mark::Changed));
                }
                clocks.extend(self.board.delivered_cpu(self.world.files()));
                gpu_clocks.extend(busy_gpu_clock(self.board, self.world.files()));
            }
            let measured = window.as_ref().and_then(|it| it.measured(&self.estimator));
            let Some(measured) = measured else { continue };
            self.stalled = false;
            row.temperature_c = self
                .board
                .hottest_mc(self.world.files())
                .map(|mc| mc as f64 / 1e3);
            row.over_current = self.over_current().since(events_before);
            clocks.sort_unstable();
            row.delivered_cpu_khz = clocks.get(clocks.len() / 2).map(|clock| clock.0);
            gpu_clocks.sort_unstable();
            // As where its minimum does not obey: Linux lowers the clock.
            let gpu = gpu_clocks.get(gpu_clocks.len() / 2);
            let is_slow = gpu.is_some_and(|gpu| !is_delivered(*gpu, mode.gpu));
            let is_throttled = row.is_throttled() || is_slow;
            return Ok(match self.board.verify_all(self.world.files(), &mode) {
                Err(_) => Outcome::Marked(Mark::Changed),
                Ok(Effective::AsRequested) if !is_throttled => Outcome::Measured(measured),
                // Capped clocks are lower than those of the mode.
                Ok(_) if self.board.clocks() == Clocks::Cap && row.over_current == 0 => {
                    Outcome::Measured(measured)
                }
                Ok(_) => Outcome::Marked(Mark::Throttled),
            });
        }
    }

    /// Waits for one event or the next sample.
    fn turn(&mut self, window: &mut Option<Window>) -> Result<Seen, SessionError> {
        match self.world.wait(self.next_sample) {
            Event::Count(count) => {
                let before = self.last_count.replace(count);
                if let Some(before) = before.filter(|before| before.steps > count.steps) {
                    let (from, to) = (before.steps, count.steps);
                    return Err(SessionError::Backwards { from, to });
                }
                let sizes = self.task.feeding.minibatch.zip(count.told.items);
                if let Some((stated, told)) = sizes.filter(|(stated, told)| stated != told) {
                    return Err(SessionError::Minibatch { stated, told });
                }
                self.stepped = count.at;
                if let Some(window) = window {
                    window.count(count);
                }
                Ok(Seen::Nothing)
            }
            Event::Time => {
                let now = self.world.now();
                self.next_sample = now + SAMPLE_INTERVAL;
                let seen = self.sample(now, window)?;
                if self.world.is_hopeless() {
                    let telling = self.world.telling();
                    return Err(SessionError::NoCount { telling });
                }
                if seen == Seen::Nothing && now.saturating_sub(self.stepped) > NO_STEPS {
                    self.stepped = now;
                    return Ok(Seen::Stalled);
                }
                Ok(seen)
            }
            Event::Ended(exit) => Err(SessionError::Ended(exit)),
            Event::Stop => Err(SessionError::Stopped),
            Event::Lost => Err(SessionError::Lost),
        }
    }

    fn sample(&mut self, now: Duration, window: &mut Option<Window>) -> Result<Seen, SessionError> {
        let sample = match self.board.sample(self.world.files()) {
            Ok(sample) => sample,
            Err(error) if now.saturating_sub(self.read) > BLIND => {
                self.retreat()?;
                return Err(error.into());
            }
            Err(_) => return Ok(Seen::Nothing),
        };
        self.read = now;
        if self.sample.replace(sample) != Some(sample) {
            self.changed = now;
        }
        let at = Milliseconds(now.as_millis() as u64);
        self.estimator.update(&sample, at);
        if let Some(window) = window {
            window.add_energy(now, self.estimator.energy_uj());
        }
        let allowed = self.allowed_mw().unwrap_or(f64::INFINITY);
        let power = self.power(window.as_ref());
        let over = power.filter(|power| *power > allowed);
        let Some((power, limit)) = over.zip(self.task.limit) else {
            self.over_since = None;
            return Ok(Seen::Nothing);
        };
        if self.mode == Some(self.ladder.lowest)
            && now.saturating_sub(*self.over_since.get_or_insert(now)) > HOPELESS
        {
            let power = Milliwatts(power as u32);
            let knob = self.board.disobedient().next();
            return Err(
                match knob.filter(|_| !self.board.reaches(&self.ladder.lowest)) {
                    Some(knob) => SessionError::Disobeys {
                        power,
                        limit,
                        knob: knob.clone(),
                    },
                    None => self.limit_too_low(power, limit),
                },
            );
        }
        Ok(Seen::Over(power))
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

    /// Sets a mode. After an error the board may be in any mode.
    fn set(&mut self, mode: PowerMode) -> Result<(), SetError> {
        self.board.apply(self.world.files(), &mode)?;
        if self.mode.replace(mode) != Some(mode) {
            self.over_since = None;
        }
        match self.board.disobedient().next() {
            Some(knob) if self.board.verify_all(self.world.files(), &mode).is_err() => {
                Err(SetError::Disobeys(knob.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Tests in the lowest mode whether the knobs obey: another program may have set them for a while.
    fn test_obedience(&mut self) -> Result<(), SessionError> {
        for _ in 0..2 {
            let lowest = self.ladder.lowest;
            self.board.test_obedience(self.world.files(), &lowest);
            let end = self.world.now() + RESPONSE;
            while self.world.now() < end {
                if self.turn(&mut None)? != Seen::Nothing {
                    self.retreat()?;
                }
            }
        }
        Ok(())
    }

    /// Goes to the mode of least clocks and cores, as far as the knobs obey.
    fn retreat(&mut self) -> Result<(), SessionError> {
        match self.set(self.ladder.lowest) {
            Ok(()) => Ok(()),
            Err(_) if self.world.is_lost() => Err(SessionError::Lost),
            Err(SetError::Disobeys(_)) => Ok(()),
            Err(SetError::NotOnBoard(why)) => Err(SessionError::Lowest(why)),
        }
    }

    /// Whether the readings stand still although the mode was changed at a time and steps were done.
    fn is_still(&self, set: Duration) -> bool {
        let is_late = self.world.now().saturating_sub(set) > RESPONSE;
        is_late && self.changed < set && self.stepped > set
    }

    /// Sets the mode of least clocks and cores, and waits until the readings change.
    fn prove_sensor(&mut self) -> Result<(), SessionError> {
        self.retreat()?;
        let stood = self.changed;
        while self.changed == stood {
            self.turn(&mut None)?;
            if self.world.now().saturating_sub(stood) > STANDSTILL {
                return Err(SessionError::Stale);
            }
        }
        Ok(())
    }

    /// The limit less the margin, in mW.
    fn allowed_mw(&self) -> Option<f64> {
        let Task { limit, margin, .. } = self.task;
        limit.map(|limit| f64::from(limit.0.saturating_sub(margin.0)))
    }

    fn limit_too_low(&self, power: Milliwatts, limit: Milliwatts) -> SessionError {
        let margin = self.task.margin;
        SessionError::LimitTooLow {
            power,
            limit,
            margin,
        }
    }

    fn no_steps(&self, waited: Duration) -> SessionError {
        let telling = self.world.telling();
        SessionError::NoSteps { waited, telling }
    }

    fn over_current(&mut self) -> OverCurrent {
        OverCurrent::read(self.board, self.world.files())
    }
}
