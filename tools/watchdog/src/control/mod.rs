//! The control cycle, called a *step*: sample the board, step the governor, apply the mode.
//!
//! Time is an argument and files are accessed through [`Files`], so the cycle runs on a simulated
//! board in simulated time. It allocates only for the messages of I/O errors.
//!
//! ```text
//! sample ──┐
//! raised? ─├─► Governor::step ─► Keep ──► read-back, next step when the governor is due
//! events ──┘          │
//!                     └────────► Apply ─► Board::apply ─► next step at once
//! ```

mod arrival;
mod averaging;
mod backstop;
mod disobedience;
mod escalation;
mod event;
mod input_limit;
mod rates;
mod setting;
mod supply;
mod surroundings;
mod violations;
mod writers;

use std::borrow::Cow;

use wattgate_board::{ApplyError, Board, Current, Files, Saved};
use wattgate_runtime::estimator::{Chip, MOST_CHIPS};
use wattgate_runtime::governor::{Cause, LONGEST_GAP, State};
use wattgate_runtime::{
    Aim, Command, Governor, GovernorError, Input, Kilohertz, Limit, Milliseconds, Milliwatts,
    ModeId, PowerMode, Sample, Status,
};

use self::arrival::{ARRIVAL_INTERVAL, Arrival};
use self::backstop::Backstop;
use self::disobedience::Obedience;
use self::escalation::Escalation;
pub use self::event::{Event, Priority, name};
use self::input_limit::InputLimit;
use self::rates::Rates;
pub use self::supply::Supply;
pub use self::violations::Violation;
use self::violations::Violations;
use self::writers::Disturbances;
use crate::clock::UtcSeconds;
use crate::distrust::Distrust;
use crate::full_load::FullLoad;
use crate::lesson::{Lesson, NoLesson};
use crate::quantity::Milliamperes;
use crate::report::STATES;
use crate::setup::{Choices, POINTS, Setup};

/// The governor takes a power above this multiple of the prediction for that of a broken sensor
/// (`RATIO_RANGE` of `runtime/src/governor/knowledge.rs`). If it stays there in the least mode for the time below, the
/// model is the one that is wrong.
const MOST_OF_PREDICTED: u32 = 8;
const CONTRADICTION: Milliseconds = Milliseconds(3_000);

/// Interval of searches for lost sensors.
const SENSOR_SEARCH_INTERVAL: Milliseconds = Milliseconds(5_000);

/// Interval of steps while the board is yielded. The sensor's low-pass of 430 ms loses no energy
/// between them.
const WATCH_INTERVAL: Milliseconds = Milliseconds(100);

/// A board under control.
#[derive(Debug)]
pub struct Control<F> {
    files: F,
    board: Board,
    choices: Choices,
    governor: Governor<POINTS>,
    too_hot_mc: Option<i64>,
    /// As the config and clients mean it, and the supply that they may mean. The governor computes what is left for the module.
    limit: Limit,
    supply: Supply,
    input: Option<InputLimit>,
    backstop: Option<Backstop>,
    /// The board's own settings, from before the first start.
    own: Option<Saved>,
    sensor: Sensor,
    /// Whether the clocks have followed the last change of the mode.
    arrival: Arrival,
    /// The mode that the last read-back confirmed, and the time of that read-back.
    shown: Option<ModeId>,
    verified: Option<Milliseconds>,
    /// What the board showed at the last read-back.
    current: Option<Current>,
    obedience: Obedience,
    has_sample: bool,
    /// Since when the sensor contradicts the model in the least mode.
    contradicted: Option<Milliseconds>,
    last: Option<Milliseconds>,
    /// When the next cycle is due, unless another program raises the mode before.
    due: Option<Milliseconds>,
    state: State,
    /// The mode that was told last, and the states that were told of it.
    told: (Option<ModeId>, Vec<State>),
    /// Whether another program has the board: steps read, and write nothing.
    is_yielded: bool,
    /// Whether steps never write.
    observes: bool,
    surroundings: Surroundings,
    throttling: Throttling,
    disturbances: Disturbances,
    rates: Rates,
    violations: Violations,
    escalation: Escalation,
    full_load: FullLoad,
    /// The limit without what clients ask for.
    roots: Milliwatts,
    /// Steps of the workload that were told since the last control step.
    steps: Option<u64>,
}

/// What makes the board slower than its mode. The governor then learns nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Throttling {
    /// Cooling caps a clock.
    pub by_cooling: bool,
    /// Firmware runs CPU or GPU slower than requested.
    pub by_firmware: bool,
}

impl Throttling {
    /// The names of the causes, separated by commas; `None` without any.
    pub fn by(self) -> Option<Cow<'static, str>> {
        match (self.by_cooling, self.by_firmware) {
            (true, true) => Some("cooling,firmware".into()),
            (true, false) => Some("cooling".into()),
            (false, true) => Some("firmware".into()),
            (false, false) => None,
        }
    }
}

/// What was last seen of the board, once a second, for the report.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Temperature of the hottest thermal zone in milli-°C.
    pub temperature_mc: Option<i64>,
    /// Voltage at the module's input.
    pub input_mv: Option<u32>,
    /// Current there.
    pub input_ma: Option<u32>,
    /// Events of OC1, OC2 and OC3 since the boot, and in the last minute.
    pub over_current_events: [Option<i64>; 3],
    pub over_current_per_min: [Option<u64>; 3],
    /// The clocks of CPU, GPU and memory that run.
    pub delivered: [Option<Kilohertz>; 3],
}

/// The power sensor's settings.
#[derive(Clone, Copy, Debug)]
struct Sensor {
    time_constants: [Milliseconds; MOST_CHIPS],
    /// Quantisation step of each chip, and offset of the sum, as last given to the governor.
    steps: ([Milliwatts; MOST_CHIPS], Milliwatts),
    /// Whether the averaging cannot be set.
    has_failed: bool,
    /// Since when no sample could be read, or when the sensors were last searched.
    lost: Option<Milliseconds>,
}

/// Conditions other than power that lower the limit.
#[derive(Clone, Copy, Debug, Default)]
struct Surroundings {
    checked: Option<Milliseconds>,
    seen: Seen,
    events: Option<i64>,
    over_current: bool,
    too_hot: bool,
    /// Whether a CPU was slower than requested at the last check. A single event of OC3 lasts a
    /// millisecond only.
    was_throttled: bool,
    /// When the clocks that run were read last.
    clocks_read: Option<Milliseconds>,
    /// When the clocks of a capped board were last requested.
    requested: Option<Milliseconds>,
}

impl<F: Files> Control<F> {
    /// Creates the control of a board; reads and writes nothing yet.
    pub fn new(setup: Setup, files: F) -> Self {
        let governor = setup.governor();
        Self {
            files,
            state: governor.status().state,
            told: (None, Vec::with_capacity(STATES.len())),
            governor,
            choices: setup.choices,
            too_hot_mc: setup.config.too_hot_mc,
            limit: setup.config.limit,
            supply: Supply::new(&setup.config, setup.meter),
            input: setup.config.current.map(InputLimit::new),
            backstop: (setup.config.backstop)
                .filter(|_| !setup.config.observe)
                .map(Backstop::new),
            own: None,
            sensor: Sensor {
                time_constants: [Chip::L4T.time_constant; MOST_CHIPS],
                steps: (setup.board.sensor_steps(), setup.board.sensor_offset()),
                has_failed: false,
                lost: None,
            },
            board: setup.board,
            arrival: Arrival::new(),
            shown: None,
            verified: None,
            current: None,
            obedience: Obedience::default(),
            has_sample: true,
            contradicted: None,
            last: None,
            due: None,
            is_yielded: false,
            observes: setup.config.observe,
            surroundings: Surroundings::default(),
            throttling: Throttling::default(),
            disturbances: Disturbances::default(),
            rates: Rates::new(),
            violations: Violations::new(),
            escalation: Escalation::default(),
            full_load: FullLoad::default(),
            roots: setup.config.limit.power,
            steps: None,
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

    /// The most that the next faster mode would draw, as far as is known.
    pub fn faster(&self) -> Option<Milliwatts> {
        self.governor.faster()
    }

    /// The governor's status, and the mode that it wants.
    pub fn status(&self) -> (Status, PowerMode) {
        let status = self.governor.status();
        let mode = self.choices.mode(status.mode);
        (status, mode.unwrap_or(self.choices.least()))
    }

    /// Ends control. Leaves a mode in which the limit holds without control, as far as the load is known, else the
    /// least mode: also on a board that another program has. The sensor averages as before. Returns the mode, and the board with its files.
    pub fn rest(mut self) -> Result<(PowerMode, Board, F), ApplyError> {
        let mode = self.governor.resting();
        let mode = mode.and_then(|mode| self.choices.mode(mode));
        let mode = mode.unwrap_or(self.choices.least());
        self.board.apply(&mut self.files, &mode)?;
        self.restore_averaging();
        Ok((mode, self.board, self.files))
    }

    /// The modes that the model offers now.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }

    /// What the board showed at the last read-back; `None` before the first one.
    pub fn current(&self) -> Option<Current> {
        self.current
    }

    /// How often a mode could not be set.
    pub fn failed_changes(&self) -> u32 {
        self.obedience.failed_changes
    }

    /// The mode of fewest cores and lowest clocks.
    pub fn least(&self) -> PowerMode {
        self.choices.least()
    }

    /// The predicted power of the least mode.
    pub fn least_power(&self) -> Milliwatts {
        self.choices.least_power()
    }

    /// Time over the limit, and time without a reading of the power.
    pub fn over_and_unknown(&self) -> (Milliseconds, Milliseconds) {
        self.violations.over_and_unknown()
    }

    /// The number of violations, answered or not.
    pub fn violation_count(&self) -> u32 {
        self.violations.count()
    }

    /// What makes the board slower than its mode.
    pub fn throttling(&self) -> Throttling {
        self.throttling
    }

    /// Replaces the limit.
    pub fn set_limit(&mut self, limit: Limit) {
        self.limit = limit;
        self.apply_limit();
    }

    /// Replaces what is minimised below the limit, and the deadline of a step.
    pub fn set_aim(&mut self, aim: Aim) {
        self.governor.set_aim(aim);
    }

    /// Whether the GPU has nothing to do; `false` if its load is not known.
    pub fn is_idle(&self) -> bool {
        self.governor.is_idle()
    }

    /// The power that the limit allows now, less the sensor's errors.
    pub fn allowed(&self) -> Milliwatts {
        self.governor.status().allowed
    }

    /// Tells how many steps the workload has done.
    pub fn take_steps(&mut self, steps: u64) {
        self.steps = Some(steps);
    }

    /// The measured time of a step over the predicted one, in the present mode; until it is known there, in the modes before.
    /// `None` without steps, or before they were told for some seconds.
    pub fn slowness(&self) -> Option<f32> {
        let present = self.governor.pace().filter(|pace| *pace > 0.0);
        present.map(f32::recip).or(self.governor.slowness())
    }

    /// What is left of the budget, in mJ; `None` without one.
    pub fn budget_left(&self) -> Option<u64> {
        self.governor.budget_left()
    }

    /// Tells the limit without what clients ask for. Root is called only if the power is above this one.
    pub fn set_roots(&mut self, roots: Milliwatts) {
        self.roots = roots;
    }

    /// Since when the power has been over the limit, though nothing lower can be set.
    pub fn over_since(&self) -> Option<Milliseconds> {
        self.escalation.began().filter(|_| !self.is_yielded)
    }

    /// Whether the power is over what root allows, and nothing here lowers it.
    pub fn calls_root(&self) -> bool {
        self.escalation.calls()
    }

    /// Replaces the limit of the current at the module's input; `None` lifts it.
    pub fn set_current(&mut self, current: Option<Milliamperes>) {
        self.input = current.map(InputLimit::new);
        self.watch_input();
        self.apply_limit();
    }

    /// Tells the board's own settings. The backstop, which is set now, stays below its limits of the
    /// current. The averaging of the sensor returns to them at the end.
    pub fn keep_own(&mut self, own: &Saved) {
        self.own = Some(own.clone());
        if let Some(backstop) = &mut self.backstop {
            backstop.keep_own(own);
        }
        self.apply_limit();
    }

    /// Gives the governor and the backstop the limit, lowered to that of the current, and what the supply draws beside.
    fn apply_limit(&mut self) {
        let mut limit = self.limit;
        if let Some(input) = self.input {
            limit.power = limit.power.min(input.power());
        }
        self.governor.set_limit(limit);
        self.governor.set_supply(self.supply.draw());
        limit.power = self.supply.draw().module(limit.power);
        self.due = None;
        if let Some(backstop) = &mut self.backstop {
            // A limit that leaves the module nothing is as low as any.
            backstop.set_limit(limit.power.max(Milliwatts(1)));
            if !self.is_yielded {
                // The next check reports a failure.
                let _ = backstop.set(&mut self.board, &mut self.files);
            }
        }
    }

    /// The last violations of the limit, the newest first.
    pub fn violations(&self) -> impl Iterator<Item = &Violation> {
        self.violations.iter()
    }

    /// What was last seen of the board.
    pub fn seen(&self) -> Seen {
        self.surroundings.seen
    }

    /// Yields the board to another program, or takes it over again. The next step then sets a mode
    /// that fits the limit both by what the governor learned and by the model alone.
    pub fn set_yielded(&mut self, is_yielded: bool) {
        self.is_yielded = is_yielded;
        if is_yielded {
            self.governor.release();
            self.restore_averaging();
            if let Some(backstop) = &mut self.backstop {
                backstop.lift(&mut self.board, &mut self.files);
            }
            self.state = self.governor.status().state;
        }
        self.forget_mode();
        self.verified = None;
        self.told.0 = None;
        self.throttling = Throttling::default();
        self.board.forget_requests();
        // The other program may have changed the sensor's averaging.
        self.surroundings.checked = None;
    }

    /// Whether steps read the board and write nothing.
    fn only_reads(&self) -> bool {
        self.is_yielded || self.observes
    }

    /// Load of the GPU in permille; `None` if unknown.
    pub fn gpu_load(&self) -> Option<u16> {
        self.board.gpu_load(&self.files)
    }

    /// When the next control cycle is due; `None` if the next call of [`Self::step`] runs one in any case.
    pub fn due(&self) -> Option<Milliseconds> {
        self.due
    }

    /// Runs one control cycle, or only glances at the mode if no cycle is due. Returns
    /// when to call it again; an earlier call is harmless.
    pub fn step(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) -> Milliseconds {
        if let Some(next) = self.glance(now) {
            return next;
        }
        let passed = self.last.replace(now).map_or(Milliseconds(0), |last| {
            let gap = now.since(last);
            if gap > LONGEST_GAP {
                emit(Event::Slept(gap));
            }
            // A board that sleeps draws little.
            gap.min(LONGEST_GAP)
        });
        let has_arrived = self.arrives(now);
        let sample = self.sample(now, emit);
        self.watch_supply(now, sample.and_then(|sample| sample.total()), emit);
        self.look_for_raise(now, emit);
        let mut input = Input::at(now);
        input.sample = sample;
        // The time to arrive is over.
        (input.mode, input.refused) = (self.shown.into(), self.shown.is_none());
        input.gpu_load = self.board.gpu_load(&self.files);
        input.steps = self.steps.take();
        input.over_current = std::mem::take(&mut self.surroundings.over_current);
        input.too_hot = self.surroundings.too_hot;
        input.throttled =
            self.throttling != Throttling::default() || self.board.is_testing_obedience();
        if self.only_reads() {
            let before = self.governor.status();
            self.governor.watch(&input);
            self.note(now, passed, sample, &before);
            self.check_surroundings(now, emit);
            return Milliseconds(now.0.saturating_add(WATCH_INTERVAL.0));
        }
        if !has_arrived {
            let before = self.governor.status();
            self.governor.await_mode(&input);
            self.note(now, passed, sample, &before);
            return Milliseconds(now.0.saturating_add(ARRIVAL_INTERVAL.0));
        }
        let before = self.governor.status();
        let command = self.governor.step(&input);
        self.note(now, passed, sample, &before);
        self.note_load(passed, &input);
        self.escalate(now, sample, emit);
        self.due = None;
        match command {
            // Slower checks come after the reaction to the sample.
            Command::Keep => {
                self.watch_model(now, sample, emit);
                self.check_surroundings(now, emit);
                if !self.is_disturbed(now, emit) {
                    self.due = Some(self.governor.due());
                }
            }
            Command::Apply(mode) => self.apply(mode, emit),
        }
        let status = self.governor.status();
        // These two last for a second, and the line of the new mode or the next state tells more.
        let is_short = matches!(status.state, State::Booting | State::Settling);
        if std::mem::replace(&mut self.state, status.state) != status.state
            && command == Command::Keep
            && !is_short
            && !self.told.1.contains(&status.state)
        {
            self.told.1.push(status.state);
            emit(Event::State(status));
        }
        self.next_glance(now)
    }

    /// Stops using a model if the sensor shows far more than it predicts, even in the least mode. A sensor that shows far
    /// less than predicted may be broken, so it is not believed.
    fn watch_model(
        &mut self,
        now: Milliseconds,
        sample: Option<Sample>,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        let status = self.governor.status();
        let most = status.predicted.0.saturating_mul(MOST_OF_PREDICTED);
        let measured = sample.and_then(|sample| sample.total());
        let measured = measured.filter(|measured| {
            status.state == State::Safe(Cause::NoSensor)
                && self.choices.distrust.is_none()
                && measured.0 > most
        });
        let Some(measured) = measured else {
            self.contradicted = None;
            return;
        };
        let since = *self.contradicted.get_or_insert(now);
        if now.since(since) < CONTRADICTION {
            return;
        }
        let predicted = status.predicted;
        let why = Distrust::Contradicted {
            measured,
            predicted,
        };
        let mut choices = self.choices.clone();
        choices.distrust(why, &self.board);
        if self.set_model(&choices).is_ok() {
            emit(Event::Distrusted(why));
        }
    }

    /// Sees whether the least mode is over the limit, and acts on it.
    fn escalate(
        &mut self,
        now: Milliseconds,
        sample: Option<Sample>,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        let status = self.governor.status();
        let is_blind = status.state == State::Safe(Cause::NoSensor);
        let power = sample.and(status.measured).filter(|_| !is_blind);
        let input = self.input.map(|input| input.power());
        let lowered = |limit: Milliwatts| input.map_or(limit, |input| input.min(limit));
        let module = |limit: Milliwatts| self.supply.draw().module(limit);
        let limits = [self.limit.power, self.roots].map(|limit| module(lowered(limit)));
        let least = self.choices.front.points().first();
        let is_least = matches!(status.state, State::Safe(_))
            || least.is_some_and(|least| least.mode == status.mode);
        let had_begun = self.escalation.began().is_some();
        let has_backstop = self.backstop.is_some();
        self.escalation
            .note(now, power, limits, is_least, has_backstop);
        let has_begun = self.escalation.began().is_some();
        if has_begun == had_begun {
            return;
        }
        if let Some(backstop) = &mut self.backstop {
            backstop.tighten(has_begun);
            // The next check reports a failure.
            let _ = backstop.set(&mut self.board, &mut self.files);
        }
        match power.filter(|_| has_begun) {
            Some(measured) => emit(Event::CannotHold {
                measured: self.supply.at_limit(measured),
                limit: self.supply.limit(lowered(self.limit.power)),
            }),
            None => emit(Event::HoldsAgain),
        }
    }

    /// Counts the time over the limit and without a reading, whatever the state.
    fn note(
        &mut self,
        now: Milliseconds,
        passed: Milliseconds,
        sample: Option<Sample>,
        before: &Status,
    ) {
        let after = self.governor.status();
        let is_blind = after.state == State::Safe(Cause::NoSensor);
        let reading = sample
            .and_then(|sample| sample.total())
            .filter(|_| !is_blind);
        let power = reading.map(|reading| after.measured.unwrap_or(reading));
        // Who only observes answers nothing: the mode of the board stays.
        let observed = self.current.filter(|_| self.observes);
        let mode = |id| {
            let wanted = self.choices.mode(id)?;
            Some(observed.map_or(wanted, |it| it.or(wanted)))
        };
        self.violations
            .note([now, passed], power, [before, &after], mode);
    }

    /// Notes what the mode draws under full load. What is throttled, or may be in another mode, teaches nothing.
    fn note_load(&mut self, passed: Milliseconds, input: &Input) {
        let status = self.governor.status();
        let is_sure = self.shown == Some(status.mode) && !input.throttled;
        let in_mode = status.measured.filter(|_| is_sure);
        let in_mode = in_mode.map(|power| (status.mode, power));
        let celsius = self.surroundings.seen.temperature_mc;
        let celsius = celsius.map(|mc| mc as f32 / 1e3);
        self.full_load
            .note(passed, input.gpu_load, in_mode, celsius);
    }

    /// What this unit of the board has taught since the start, or since the model was set, in modes that were under load
    /// for at least a time.
    pub fn lesson(&self, least: Milliseconds, at: UtcSeconds) -> Result<Lesson, NoLesson> {
        let drawn = self.full_load.modes();
        self.choices.lesson(drawn, least, &self.board, at)
    }

    /// Makes the mode unknown. The next call steps in any case.
    fn forget_mode(&mut self) {
        self.arrival.forget();
        (self.shown, self.due) = (None, None);
    }

    fn sample(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) -> Option<Sample> {
        match self.board.sample(&self.files) {
            Ok(sample) => {
                self.sensor.lost = None;
                if !std::mem::replace(&mut self.has_sample, true) {
                    emit(Event::SampleAgain);
                }
                Some(sample)
            }
            Err(error) => {
                if std::mem::replace(&mut self.has_sample, false) {
                    emit(match self.only_reads() {
                        true => Event::NoReading(&error),
                        false => Event::NoSample(&error),
                    });
                }
                self.find_sensors(now);
                None
            }
        }
    }

    /// Looks for sensors that have been lost for some time, again and again.
    fn find_sensors(&mut self, now: Milliseconds) {
        let since = *self.sensor.lost.get_or_insert(now);
        if now.since(since) >= SENSOR_SEARCH_INTERVAL {
            self.sensor.lost = Some(now);
            // Not found now; the next search may find them.
            let _ = self.board.find_sensors(&self.files);
        }
    }

    /// The board.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Replaces the board by one on which more was found. What was learned of the load stays.
    pub fn take_board(&mut self, board: Board) {
        self.board = board;
        self.obedience = Obedience {
            failed_changes: self.obedience.failed_changes,
            ..Obedience::default()
        };
        (self.verified, self.current) = (None, None);
        self.choices.adapt(&self.board);
        // The front has the least mode at least.
        let _ = self.governor.set_modes(self.choices.front.clone());
        self.forget_mode();
    }

    /// Replaces the model's front and the grid that numbers its modes.
    pub fn set_model(&mut self, choices: &Choices) -> Result<(), GovernorError> {
        let mut choices = choices.clone();
        choices.adapt(&self.board);
        let load = self.governor.highest_load();
        let load = load.and_then(|(id, power)| Some((self.choices.mode(id)?, power)));
        self.governor.set_front(choices.front.clone())?;
        // The load stays the same, whatever the model.
        let predicted = load.and_then(|(mode, _)| choices.predicted(&mode));
        if let Some(((_, power), predicted)) = load.zip(predicted) {
            self.governor
                .expect_load(power.0 as f32 / predicted.0.max(1) as f32);
        }
        self.choices = choices;
        self.full_load.forget();
        // The ID belongs to the old grid.
        self.forget_mode();
        self.told.0 = None;
        Ok(())
    }
}
