//! The control cycle, called a *look*: sample the board, step the governor, apply the mode.
//!
//! Time is an argument and files are accessed through [`Files`], so the cycle runs on a simulated
//! board in simulated time. It allocates only for the messages of I/O errors.
//!
//! ```text
//! sample ──┐
//! read-back├─► Governor::step ─► Keep ──► next look when the governor is due
//! events ──┘          │
//!                     └────────► Apply ─► Board::apply ─► next look at once
//! ```

use std::fmt;

use wattgate_board::{ApplyError, AveragingError, Board, Files, KnobError, SampleError};
use wattgate_runtime::{
    Cause, Chip, Command, Governor, GovernorError, Grid, Input, LONGEST_GAP, Limit, MOST_CHIPS,
    Milliseconds, Milliwatts, ModeId, PowerMode, Sample, State, Status,
};

use crate::setup::{Choices, POINTS, Setup};

/// Interval of the read-back that detects other writers. The sensor's lag of 430 ms would not show
/// them sooner.
const READ_BACK_INTERVAL: Milliseconds = Milliseconds(400);

/// Interval of the temperature and over-current checks. Thermal zones are polled every second, and
/// event counters are updated every two (`jetson-platform.md`, sections 6.4 and 7).
const SURROUNDINGS_INTERVAL: Milliseconds = Milliseconds(1_000);

/// Interval of looks while the board is yielded. The sensor's low-pass of 430 ms loses no energy
/// between them.
const WATCH_INTERVAL: Milliseconds = Milliseconds(100);

/// An event for the log and the counters.
#[derive(Clone, Debug)]
pub enum Event<'a> {
    /// A mode was set.
    Applied { mode: PowerMode, status: Status },
    /// A mode could not be set.
    NotApplied {
        mode: PowerMode,
        error: &'a ApplyError,
    },
    /// Another program changed the mode. The governor sets it again.
    Disturbed(&'a KnobError),
    /// The governor entered another state without setting a mode.
    State(Status),
    /// The sensor became unreadable; reported once per outage.
    NoSample(&'a SampleError),
    /// The sensor is readable again.
    SampleAgain,
    /// The board was suspended for this time.
    Slept(Milliseconds),
    /// The sensor's time constant changed to this value.
    TimeConstant(Milliseconds),
    /// The sensor's averaging cannot be set.
    NotAveraged(&'a AveragingError),
    /// Over-current events or temperature lower the limit.
    Derated(&'static str),
}

/// Priority of a log line, with syslog's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// The limit may not hold.
    Error = 3,
    /// The limit holds, but something is wrong.
    Warning = 4,
    /// Unusual, but not a fault.
    Notice = 5,
    /// Normal operation.
    Info = 6,
}

impl Event<'_> {
    /// The priority of its log line.
    pub fn priority(&self) -> Priority {
        match self {
            Self::NotApplied { .. } | Self::NoSample(_) => Priority::Error,
            Self::State(Status {
                state: State::Safe(_),
                ..
            })
            | Self::Applied {
                status:
                    Status {
                        state: State::Safe(_),
                        ..
                    },
                ..
            }
            | Self::Derated(_)
            | Self::NotAveraged(_) => Priority::Warning,
            Self::Disturbed(_) | Self::Slept(_) | Self::SampleAgain | Self::TimeConstant(_) => {
                Priority::Notice
            }
            Self::Applied { .. } | Self::State(_) => Priority::Info,
        }
    }
}

impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Applied { mode, status } => {
                write!(f, "{}: {mode}", name(status.state))?;
                write!(
                    f,
                    "; predicted {}, allowed {}",
                    status.predicted, status.allowed
                )
            }
            Self::NotApplied { mode, error } => write!(f, "{mode}: {error}"),
            Self::Disturbed(error) => write!(f, "another program changed the mode: {error}"),
            Self::State(status) => {
                write!(f, "{}", name(status.state))?;
                if let Some(measured) = status.measured {
                    write!(f, "; measured {measured}")?;
                }
                write!(f, ", allowed {}", status.allowed)
            }
            Self::NoSample(error) => write!(f, "{error}"),
            Self::SampleAgain => write!(f, "the power sensor is readable again"),
            Self::Slept(time) => write!(f, "the board was suspended for {} s", time.0 / 1_000),
            Self::TimeConstant(time) => {
                write!(f, "the power sensor has a time constant of {} ms", time.0)
            }
            Self::NotAveraged(error) => write!(f, "power sensor: {error}"),
            Self::Derated(why) => write!(f, "{why}: the limit is lowered"),
        }
    }
}

/// A state's name in messages.
pub fn name(state: State) -> &'static str {
    match state {
        State::Booting => "booting",
        State::Settling => "settling",
        State::Tracking => "tracking",
        State::SteppingDown => "stepping down",
        State::ProbingUp => "probing up",
        State::Safe(Cause::NoSensor) => "safe: the power sensor cannot be read",
        State::Safe(Cause::LimitTooLow) => "safe: even the mode of least power is above the limit",
        State::Safe(Cause::NothingApplies) => "safe: no mode can be set",
    }
}

/// A board under control.
#[derive(Debug)]
pub struct Control<F> {
    files: F,
    board: Board,
    grid: Grid,
    governor: Governor<POINTS>,
    too_hot_mc: Option<i64>,
    sensor: Sensor,
    /// The mode that the last read-back confirmed, and the time of that read-back.
    shown: Option<ModeId>,
    verified: Option<Milliseconds>,
    has_sample: bool,
    last: Option<Milliseconds>,
    state: State,
    /// Whether another program has the board: looks read, and write nothing.
    is_yielded: bool,
    surroundings: Surroundings,
}

/// The power sensor's settings.
#[derive(Clone, Copy, Debug)]
struct Sensor {
    /// Samples to average; `None` leaves the driver's setting.
    samples: Option<u32>,
    time_constants: [Milliseconds; MOST_CHIPS],
    /// Quantisation step of each chip, and offset of the sum, as last given to the governor.
    steps: ([Milliwatts; MOST_CHIPS], Milliwatts),
    has_failed: bool,
}

/// Conditions other than power that lower the limit.
#[derive(Clone, Copy, Debug, Default)]
struct Surroundings {
    checked: Option<Milliseconds>,
    events: Option<i64>,
    over_current: bool,
    too_hot: bool,
}

impl<F: Files> Control<F> {
    /// Creates the control of a board; reads and writes nothing yet.
    pub fn new(setup: Setup, files: F) -> Self {
        let governor = setup.governor();
        Self {
            files,
            state: governor.status().state,
            governor,
            grid: setup.choices.grid,
            too_hot_mc: setup.config.too_hot_mc,
            sensor: Sensor {
                samples: setup.config.sensor_samples,
                time_constants: [Chip::L4T.time_constant; MOST_CHIPS],
                steps: (setup.board.sensor_steps(), setup.board.sensor_offset()),
                has_failed: false,
            },
            board: setup.board,
            shown: None,
            verified: None,
            has_sample: true,
            last: None,
            is_yielded: false,
            surroundings: Surroundings::default(),
        }
    }

    /// The files of the board.
    pub fn files(&mut self) -> &mut F {
        &mut self.files
    }

    /// Ends control and returns the board and its files, so that the caller can restore them.
    pub fn release(self) -> (Board, F) {
        (self.board, self.files)
    }

    /// The governor's status and the mode that it wants.
    pub fn status(&self) -> (Status, PowerMode) {
        let status = self.governor.status();
        let mode = self.grid.mode(status.mode);
        (status, mode.unwrap_or(PowerMode::from_knobs([0; 4])))
    }

    /// Replaces the limit.
    pub fn set_limit(&mut self, limit: Limit) {
        self.governor.set_limit(limit);
    }

    /// Yields the board to another program, or takes it over again. The next look then sets a mode
    /// that fits the limit both by what the governor learned and by the model alone.
    pub fn set_yielded(&mut self, is_yielded: bool) {
        self.is_yielded = is_yielded;
        if is_yielded {
            self.governor.release();
            self.state = self.governor.status().state;
        }
        (self.shown, self.verified) = (None, None);
        // The other program may have changed the sensor's averaging.
        self.surroundings.checked = None;
    }

    /// Runs one control cycle. Returns when the next one is due; an earlier call is harmless.
    pub fn look(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) -> Milliseconds {
        if let Some(last) = self.last.replace(now) {
            let gap = now.since(last);
            if gap > LONGEST_GAP {
                emit(Event::Slept(gap));
            }
        }
        let sample = self.sample(emit);
        let input = Input {
            now,
            sample,
            mode: self.shown,
            gpu_load: self.board.gpu_load(&self.files),
            steps: None,
            over_current: std::mem::take(&mut self.surroundings.over_current),
            too_hot: self.surroundings.too_hot,
        };
        if self.is_yielded {
            self.governor.watch(&input);
            self.check_surroundings(now, emit);
            return Milliseconds(now.0.saturating_add(WATCH_INTERVAL.0));
        }
        let command = self.governor.step(&input);
        let next = match command {
            // Slower checks come after the reaction to the sample.
            Command::Keep => {
                self.check_surroundings(now, emit);
                match self.is_disturbed(now, emit) {
                    true => now,
                    false => self.governor.due(),
                }
            }
            Command::Apply(mode) => {
                self.apply(mode, emit);
                now
            }
        };
        let status = self.governor.status();
        if std::mem::replace(&mut self.state, status.state) != status.state
            && command == Command::Keep
        {
            emit(Event::State(status));
        }
        next
    }

    fn sample(&mut self, emit: &mut impl FnMut(Event<'_>)) -> Option<Sample> {
        match self.board.sample(&self.files) {
            Ok(sample) => {
                if !std::mem::replace(&mut self.has_sample, true) {
                    emit(Event::SampleAgain);
                }
                Some(sample)
            }
            Err(error) => {
                if std::mem::replace(&mut self.has_sample, false) {
                    emit(Event::NoSample(&error));
                }
                None
            }
        }
    }

    /// Reads the wanted mode back if that is due. True if it was set and is no longer.
    fn is_disturbed(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) -> bool {
        let is_recent = |verified: Milliseconds| now.since(verified) < READ_BACK_INTERVAL;
        if self.verified.is_none_or(is_recent) {
            return false;
        }
        self.verified = Some(now);
        let wanted = self.governor.status().mode;
        let Some(mode) = self.grid.mode(wanted) else {
            return false;
        };
        match self.board.verify(&self.files, &mode) {
            Ok(()) => self.shown = Some(wanted),
            Err(error) => {
                if self.shown.take().is_some() {
                    emit(Event::Disturbed(&error));
                    return true;
                }
            }
        }
        false
    }

    fn check_surroundings(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) {
        let around = &mut self.surroundings;
        let is_recent = |checked: Milliseconds| now.since(checked) < SURROUNDINGS_INTERVAL;
        if around.checked.is_some_and(is_recent) {
            return;
        }
        around.checked = Some(now);
        self.watch_sensor(emit);
        let around = &mut self.surroundings;
        // Only OC1 (under-voltage) and OC2 (the sensor's average over its warning limit) count.
        // OC3 occurs thousands of times an hour without any excess (section 6.4).
        let [under_voltage, mean, _] = self.board.over_current_events(&self.files);
        let events = under_voltage.unwrap_or(0).saturating_add(mean.unwrap_or(0));
        if let Some(before) = around.events.replace(events) {
            around.over_current = events > before;
        }
        if around.over_current {
            emit(Event::Derated("over-current or under-voltage"));
        }
        if let Some(limit) = self.too_hot_mc {
            let hottest = self.board.hottest_mc(&self.files);
            let is_hot = hottest.is_some_and(|mc| mc >= limit);
            if !std::mem::replace(&mut around.too_hot, is_hot) && is_hot {
                emit(Event::Derated("too hot"));
            }
        }
    }

    /// Restores the configured averaging if another program (nvpower) changed it. Gives the
    /// governor the resulting time constants, and the steps and offset that are known by now.
    fn watch_sensor(&mut self, emit: &mut impl FnMut(Event<'_>)) {
        let sensor = &mut self.sensor;
        let may_set = !self.is_yielded && !sensor.has_failed;
        let samples = sensor.samples.filter(|_| may_set);
        if let Some(samples) = samples.filter(|it| self.board.averaging(&self.files) != Ok(*it))
            && let Err(error) = self.board.set_averaging(&mut self.files, samples)
        {
            sensor.has_failed = true;
            emit(Event::NotAveraged(&error));
        }
        let found = self.board.time_constants(&self.files);
        for (chip, (known, found)) in sensor.time_constants.iter_mut().zip(found).enumerate() {
            if *known != found && self.governor.set_time_constant(chip, found).is_ok() {
                *known = found;
                emit(Event::TimeConstant(found));
            }
        }
        let found = (self.board.sensor_steps(), self.board.sensor_offset());
        if std::mem::replace(&mut sensor.steps, found) != found {
            let (steps, offset) = found;
            self.governor.set_sensor_steps(steps, offset);
        }
    }

    /// Sets a mode. [`Board::apply`] reads every write back.
    fn apply(&mut self, id: ModeId, emit: &mut impl FnMut(Event<'_>)) {
        self.shown = None;
        let Some(mode) = self.grid.mode(id) else {
            return;
        };
        match self.board.apply(&mut self.files, &mode) {
            Ok(_) => {
                self.shown = Some(id);
                let status = self.governor.status();
                emit(Event::Applied { mode, status });
            }
            // The governor keeps trying; only the first failure is reported.
            Err(_) if self.state == State::Safe(Cause::NothingApplies) => {}
            Err(error) => emit(Event::NotApplied {
                mode,
                error: &error,
            }),
        }
        self.verified = self.last;
    }

    /// The board.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Replaces the model's front and the grid that numbers its modes.
    pub fn set_model(&mut self, choices: &Choices) -> Result<(), GovernorError> {
        self.governor.set_front(choices.front.clone())?;
        self.grid = choices.grid.clone();
        // The ID belongs to the old grid.
        self.shown = None;
        Ok(())
    }
}
