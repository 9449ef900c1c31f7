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

mod backstop;
mod disobedience;
mod event;
mod input_limit;
mod rates;
mod violations;

use std::borrow::Cow;

use wattgate_board::{Board, Current, Effective, Files, KnobError, Saved};
use wattgate_runtime::{
    Cause, Chip, Command, Governor, GovernorError, Input, Kilohertz, LONGEST_GAP, Limit,
    MOST_CHIPS, Milliseconds, Milliwatts, ModeId, PowerMode, Sample, State, Status,
};

use self::backstop::Backstop;
use self::disobedience::Reported;
pub use self::event::{Event, Priority, name};
use self::input_limit::InputLimit;
use self::rates::Rates;
pub use self::violations::Violation;
use self::violations::Violations;
use crate::quantity::Milliamperes;
use crate::report::STATES;
use crate::setup::{Choices, POINTS, Setup};

/// Interval of looks while clocks follow a change of the mode, and the longest time that they may
/// take: 107 ms on Thor, and a third more.
const ARRIVAL_INTERVAL: Milliseconds = Milliseconds(10);
const LONGEST_ARRIVAL: Milliseconds = Milliseconds(150);

/// Interval of the full read-back that detects other writers. A raised clock of CPU or GPU is
/// detected at each look.
const READ_BACK_INTERVAL: Milliseconds = Milliseconds(400);

/// At most one log line about other programs appears in this time, so that a program that writes
/// without end does not flood the log. The control still undoes each change.
const REPORT_INTERVAL: Milliseconds = Milliseconds(60_000);

/// Interval of the temperature and over-current checks. Thermal zones are polled every second, and
/// event counters are updated every two (`jetson-platform.md`, sections 6.4 and 7).
const SURROUNDINGS_INTERVAL: Milliseconds = Milliseconds(1_000);

/// Interval at which the clocks of a capped board are requested again. Another program may have
/// lowered them below the cap, where nobody sees it.
const REQUEST_INTERVAL: Milliseconds = Milliseconds(10_000);

/// Interval at which knobs that do not obey are tested: [`Board::test_obedience`] needs two tests to find
/// that one obeys again, and no longer than a minute.
const TEST_INTERVAL: Milliseconds = Milliseconds(20_000);

/// Interval of searches for lost sensors.
const SEARCH_INTERVAL: Milliseconds = Milliseconds(5_000);

/// Interval of looks while the board is yielded. The sensor's low-pass of 430 ms loses no energy
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
    limit: Limit,
    input: Option<InputLimit>,
    backstop: Option<Backstop>,
    sensor: Sensor,
    /// A mode that was set and whose clocks may not have followed yet, and since when.
    arriving: Option<(ModeId, Milliseconds)>,
    /// The mode that the last read-back confirmed, and the time of that read-back.
    shown: Option<ModeId>,
    verified: Option<Milliseconds>,
    /// What the board showed at the last read-back.
    current: Option<Current>,
    /// What is known of knobs that do not obey: its version, when it was last tested, and what was
    /// reported of it.
    obedience: u32,
    tested: Milliseconds,
    reported: Reported,
    failed_changes: u32,
    has_sample: bool,
    last: Option<Milliseconds>,
    state: State,
    /// The mode that was told last, and the states that were told of it.
    told: (Option<ModeId>, Vec<State>),
    /// Whether another program has the board: looks read, and write nothing.
    is_yielded: bool,
    surroundings: Surroundings,
    throttling: Throttling,
    disturbances: Disturbances,
    rates: Rates,
    violations: Violations,
}

/// Changes of the mode by other programs.
#[derive(Clone, Copy, Debug, Default)]
struct Disturbances {
    /// Their number since the last report, and the time of that report.
    times: u32,
    reported: Option<Milliseconds>,
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
    /// Samples to average; `None` leaves the driver's setting.
    samples: Option<u32>,
    time_constants: [Milliseconds; MOST_CHIPS],
    /// Quantisation step of each chip, and offset of the sum, as last given to the governor.
    steps: ([Milliwatts; MOST_CHIPS], Milliwatts),
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
            input: setup.config.current.map(InputLimit::new),
            backstop: setup.config.backstop.map(Backstop::new),
            sensor: Sensor {
                samples: setup.config.sensor_samples,
                time_constants: [Chip::L4T.time_constant; MOST_CHIPS],
                steps: (setup.board.sensor_steps(), setup.board.sensor_offset()),
                has_failed: false,
                lost: None,
            },
            board: setup.board,
            arriving: None,
            shown: None,
            verified: None,
            current: None,
            obedience: 0,
            tested: Milliseconds(0),
            reported: Reported::default(),
            failed_changes: 0,
            has_sample: true,
            last: None,
            is_yielded: false,
            surroundings: Surroundings::default(),
            throttling: Throttling::default(),
            disturbances: Disturbances::default(),
            rates: Rates::new(),
            violations: Violations::new(),
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
        let mode = self.choices.mode(status.mode);
        (status, mode.unwrap_or(self.choices.least()))
    }

    /// What the board showed at the last read-back; `None` before the first one.
    pub fn current(&self) -> Option<Current> {
        self.current
    }

    /// How often a mode could not be set.
    pub fn failed_changes(&self) -> u32 {
        self.failed_changes
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

    /// Replaces the limit of the current at the module's input; `None` lifts it.
    pub fn set_current(&mut self, current: Option<Milliamperes>) {
        self.input = current.map(InputLimit::new);
        self.watch_input();
        self.apply_limit();
    }

    /// Tells the board's own settings. The backstop, which is set now, stays below its limits of the
    /// current.
    pub fn keep_own(&mut self, own: &Saved) {
        if let Some(backstop) = &mut self.backstop {
            backstop.keep_own(own);
        }
        self.apply_limit();
    }

    /// Gives the governor and the backstop the limit, lowered to that of the current.
    fn apply_limit(&mut self) {
        let mut limit = self.limit;
        if let Some(input) = self.input {
            limit.power = limit.power.min(input.power());
        }
        self.governor.set_limit(limit);
        if let Some(backstop) = &mut self.backstop {
            backstop.set_limit(limit.power);
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

    /// Reads the input voltage on which a limit of the current depends.
    fn watch_input(&mut self) {
        let millivolts = self.board.input_mv(&self.files);
        let seen = &mut self.surroundings.seen;
        (seen.input_mv, seen.input_ma) = (millivolts, self.board.input_ma(&self.files));
        let input = self.input.as_mut().zip(millivolts);
        if input.is_some_and(|(input, millivolts)| input.take(millivolts)) {
            self.apply_limit();
        }
    }

    /// Yields the board to another program, or takes it over again. The next look then sets a mode
    /// that fits the limit both by what the governor learned and by the model alone.
    pub fn set_yielded(&mut self, is_yielded: bool) {
        self.is_yielded = is_yielded;
        if is_yielded {
            self.governor.release();
            if let Some(backstop) = &mut self.backstop {
                backstop.lift(&mut self.board, &mut self.files);
            }
            self.state = self.governor.status().state;
        }
        (self.arriving, self.shown, self.verified) = (None, None, None);
        self.told.0 = None;
        self.throttling = Throttling::default();
        self.board.forget_requests();
        // The other program may have changed the sensor's averaging.
        self.surroundings.checked = None;
    }

    /// Runs one control cycle. Returns when the next one is due; an earlier call is harmless.
    pub fn look(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) -> Milliseconds {
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
        let input = Input {
            now,
            sample,
            mode: self.shown,
            gpu_load: self.board.gpu_load(&self.files),
            steps: None,
            over_current: std::mem::take(&mut self.surroundings.over_current),
            too_hot: self.surroundings.too_hot,
            throttled: self.throttling != Throttling::default(),
        };
        if self.is_yielded {
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
            && !self.told.1.contains(&status.state)
        {
            self.told.1.push(status.state);
            emit(Event::State(status));
        }
        next
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
        let reading = sample.map(|sample| sample.total()).filter(|_| !is_blind);
        let power = reading.map(|reading| after.measured.unwrap_or(reading));
        let mode = |id| self.choices.mode(id);
        self.violations
            .note([now, passed], power, [before, &after], mode);
    }

    /// Whether the clocks have followed the last change of the mode. Until then the power is that of
    /// two modes, and teaches nothing about either.
    fn arrives(&mut self, now: Milliseconds) -> bool {
        let Some((id, since)) = self.arriving else {
            return true;
        };
        // What does not obey does not follow either.
        let is_there = match self.choices.mode(id) {
            Some(mode) if self.board.disobedient().next().is_none() => {
                self.board.has_arrived(&self.files, &mode)
            }
            _ => true,
        };
        if !is_there && now.since(since) < LONGEST_ARRIVAL {
            return false;
        }
        (self.arriving, self.shown) = (None, Some(id));
        true
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
                    emit(Event::NoSample(&error));
                }
                self.find_sensors(now);
                None
            }
        }
    }

    /// Looks for sensors that have been lost for some time, again and again.
    fn find_sensors(&mut self, now: Milliseconds) {
        let since = *self.sensor.lost.get_or_insert(now);
        if now.since(since) >= SEARCH_INTERVAL {
            self.sensor.lost = Some(now);
            // Not found now; the next search may find them.
            let _ = self.board.find_sensors(&self.files);
        }
    }

    /// Reads the wanted mode back if that is due. True if it was set and is no longer.
    fn is_disturbed(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) -> bool {
        let is_recent = |verified: Milliseconds| now.since(verified) < READ_BACK_INTERVAL;
        let wanted = self.governor.status().mode;
        let (Some(verified), Some(mode)) = (self.verified, self.choices.mode(wanted)) else {
            return false;
        };
        if self.test_obedience(&mode, now, emit) {
            return true;
        }
        if is_recent(verified) && !self.board.is_raised(&self.files, &mode) {
            return false;
        }
        self.verified = Some(now);
        self.current = Some(self.board.current(&self.files));
        match self.board.verify(&self.files, &mode) {
            Ok(Effective::AsRequested) => {
                self.shown = Some(wanted);
                self.set_capped(false, emit);
            }
            Ok(Effective::Capped) => self.request_again(&mode, now, emit),
            Err(error) => {
                if self.shown.take().is_some() {
                    self.report_disturbance(&mode, &error, now, emit);
                    return true;
                }
            }
        }
        false
    }

    fn report_disturbance(
        &mut self,
        mode: &PowerMode,
        error: &KnobError,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        let Disturbances { times, reported } = &mut self.disturbances;
        *times += 1;
        if reported.is_some_and(|at| now.since(at) < REPORT_INTERVAL) {
            return;
        }
        *reported = Some(now);
        let times = std::mem::take(times);
        let by = self.board.likely_writer(&self.files, mode);
        emit(Event::Disturbed { by, error, times });
    }

    /// Requests a mode of which a clock shows less. If it still does, cooling caps it, otherwise
    /// another program had lowered it.
    fn request_again(
        &mut self,
        mode: &PowerMode,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        let is_recent = |at: Milliseconds| now.since(at) < REQUEST_INTERVAL;
        let requested = &mut self.surroundings.requested;
        if self.throttling.by_cooling && requested.is_some_and(is_recent) {
            return;
        }
        *requested = Some(now);
        if let Ok(applied) = self.board.apply(&mut self.files, mode) {
            let is_capped = applied.effective == Effective::Capped;
            if !self.adapt(emit) && !is_capped && !self.throttling.by_cooling {
                emit(Event::Lowered);
            }
            self.set_capped(is_capped, emit);
        }
    }

    /// Tests the knobs that do not obey if that is due. True if the board can be set to other modes then.
    fn test_obedience(
        &mut self,
        mode: &PowerMode,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) -> bool {
        if now.since(self.tested) < TEST_INTERVAL || self.shown.is_none() {
            return false;
        }
        self.tested = now;
        self.board.test_obedience(&mut self.files, mode);
        self.adapt(emit)
    }

    /// Reports knobs that do not obey, or do again. If the board can be set to other modes now, the governor
    /// chooses among them from now on; then true.
    fn adapt(&mut self, emit: &mut impl FnMut(Event<'_>)) -> bool {
        let now = self.last.unwrap_or(Milliseconds(0));
        self.reported.update(self.board.disobedient(), now, emit);
        let changes = self.board.obedience_changes();
        if std::mem::replace(&mut self.obedience, changes) == changes {
            return false;
        }
        self.choices.adapt(&self.board);
        // The front has the least mode at least.
        let _ = self.governor.set_modes(self.choices.front.clone());
        (self.arriving, self.shown) = (None, None);
        true
    }

    fn set_capped(&mut self, is_capped: bool, emit: &mut impl FnMut(Event<'_>)) {
        if std::mem::replace(&mut self.throttling.by_cooling, is_capped) != is_capped {
            emit(match is_capped {
                true => Event::Capped,
                false => Event::NotCapped,
            });
        }
    }

    /// Reads the clocks that run, and compares those of CPU and GPU with the requested ones.
    fn watch_clocks(&mut self, emit: &mut impl FnMut(Event<'_>)) {
        let cpu = self.board.cpu_clock(&self.files);
        let gpu = self.board.gpu_clock(&self.files);
        let memory = self.board.memory_clock(&self.files);
        self.surroundings.seen.delivered = [cpu.map(|it| it.delivered), gpu, memory];
        let busy_gpu = self.board.busy_gpu_clock(&self.files);
        let units = [("a CPU", cpu), ("the GPU", busy_gpu)].into_iter();
        let mut clocks = units.filter_map(|(unit, clock)| Some((unit, clock?)));
        let found = clocks.find(|(_, clock)| clock.is_throttled());
        let was_throttled = self.surroundings.was_throttled;
        self.surroundings.was_throttled = found.is_some();
        let by_firmware = &mut self.throttling.by_firmware;
        match found {
            Some((unit, clock)) if was_throttled && !*by_firmware => {
                *by_firmware = true;
                emit(Event::Throttled(unit, clock));
            }
            None if *by_firmware => {
                *by_firmware = false;
                emit(Event::NotThrottled);
            }
            _ => {}
        }
    }

    fn check_surroundings(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) {
        let around = &mut self.surroundings;
        let is_recent = |checked: Milliseconds| now.since(checked) < SURROUNDINGS_INTERVAL;
        if around.checked.is_some_and(is_recent) {
            return;
        }
        around.checked = Some(now);
        self.watch_sensor(emit);
        self.watch_clocks(emit);
        self.watch_input();
        if let Some(backstop) = self.backstop.as_mut().filter(|_| !self.is_yielded) {
            backstop.watch(&mut self.board, &mut self.files, emit);
        }
        let around = &mut self.surroundings;
        // Only OC1 (under-voltage) and OC2 (the sensor's average over its warning limit) count.
        // OC3 occurs thousands of times an hour without any excess (section 6.4); the backstop makes
        // it hundreds of times a second.
        around.seen.over_current_events = self.board.over_current_events(&self.files);
        around.seen.over_current_per_min = self.rates.add(now, around.seen.over_current_events);
        let [under_voltage, mean, peak] = around.seen.over_current_events;
        let events = under_voltage.unwrap_or(0).saturating_add(mean.unwrap_or(0));
        if let Some(before) = around.events.replace(events) {
            around.over_current = events > before;
        }
        if let Some(backstop) = &mut self.backstop {
            around.over_current |= backstop.throttles(peak.unwrap_or(0));
        }
        if around.over_current {
            emit(Event::Derated("over-current or under-voltage"));
        }
        let hottest = self.board.hottest_mc(&self.files);
        around.seen.temperature_mc = hottest;
        if let Some(limit) = self.too_hot_mc {
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

    /// Sets a mode, as far as the knobs obey. [`Board::apply`] reads every write back.
    fn apply(&mut self, id: ModeId, emit: &mut impl FnMut(Event<'_>)) {
        (self.arriving, self.shown) = (None, None);
        let Some(mode) = self.choices.mode(id) else {
            return;
        };
        match self.board.apply(&mut self.files, &mode) {
            Ok(applied) => {
                if applied.is_set {
                    self.arriving = self.last.map(|now| (id, now));
                    let status = self.governor.status();
                    // Told once, however often another program changes it.
                    if self.told.0.replace(id) != Some(id) {
                        self.told.1.clear();
                        emit(Event::Applied { mode, status });
                    }
                } else {
                    self.failed_changes = self.failed_changes.saturating_add(1);
                }
                self.set_capped(applied.effective == Effective::Capped, emit);
                self.adapt(emit);
            }
            // The front has modes of the board alone.
            Err(error) => emit(Event::NotApplied {
                mode,
                error: &error,
            }),
        }
        self.verified = self.last;
        self.current = Some(self.board.current(&self.files));
    }

    /// The board.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Replaces the model's front and the grid that numbers its modes.
    pub fn set_model(&mut self, choices: &Choices) -> Result<(), GovernorError> {
        let mut choices = choices.clone();
        choices.adapt(&self.board);
        self.governor.set_front(choices.front.clone())?;
        self.choices = choices;
        // The ID belongs to the old grid.
        (self.arriving, self.shown) = (None, None);
        self.told.0 = None;
        Ok(())
    }
}
