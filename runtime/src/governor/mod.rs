//! The governor: holds a power limit by choosing among the modes of a front, measuring, and
//! correcting.
//!
//! # Theory of operation
//!
//! A governor is a pure state machine. Its caller calls [`Governor::step`] with the time and what is
//! known of the board, carries out the [`Command`], and says in the next step which mode the board
//! is in. Nothing else is assumed: no clock, no memory but its own, no heap.
//!
//! ```text
//! readings ─► estimator ─► power now, mean of 430 ms ─► policy ─► mode ─► actuator ─► board
//!                              │                          ▲                            │
//!                              └─────► knowledge ─────────┘          read-back ◄───────┘
//! ```
//!
//! **Estimator** ([`Estimator`]). The power sensor is a low-pass with a time constant of 430 ms. The
//! estimator undoes it: it tells the power now with its deviation, since when the power is at this
//! level, and the mean power of any time span.
//!
//! **Knowledge** (`knowledge.rs`, `memory.rs`, `noise.rs`). The power of a mode is
//! *prediction × error of the mode × level of the load*. The error is told from the powers before and
//! after a change of the mode under a steady load. The level is that of the workload's highest phase: it
//! is remembered, because a pause is no slack, and forgotten only by time of work. Nothing is learned
//! from a board that does not work, from a reading that is missing, or from a time with a step in it.
//!
//! **Policy.** The limit holds for the mean of 430 ms, ripple included, so that the highest phase has
//! to stay [`PEAK_DEVIATIONS`] standard deviations of such means below it. A faster mode is tried when
//! it fits with that margin and with the doubt about a mode that was not measured; a step
//! up is bounded ([`FIRST_CLIMB`], [`CLIMB`]) and rationed ([`UPS`], [`UP_EVERY`]). A rise over the limit is
//! answered at the first estimate beyond noise, by one step down that is sized by it. Jumps that
//! prove too short to lift the mean of 430 ms over the limit are remembered and left alone. Before
//! anything was measured the model decides, with its guard band: `once` and the governor begin with
//! the same mode.
//!
//! **Actuator** ([`Governor::step`]). A mode counts as set when it is read back. It is asked for
//! [`RETRIES`] times more, then left out for [`LEFT_OUT`]; after [`MODES_TRIED`] modes in a row nothing can
//! be set. Who else changes the mode is overruled at once.
//!
//! **Not knowing** (`liveness.rs`). The sensor is blind when reads fail or make no sense for 1.7 s, or
//! when a change of the mode or of the GPU's load does not show within 1.5 s. Then the mode that draws
//! least, as far as is known, is set. Where a busy board's readings stand still for 30 s, a slower mode
//! tries the sensor.
//!
//! | from | to | when |
//! |---|---|---|
//! | Booting | Settling | the mode is read back |
//! | Settling, ProbingUp, SteppingDown | Tracking | 430 ms of the mode are measured, and its error is told or cannot be |
//! | Tracking | Settling | somebody else had changed the mode |
//! | Tracking | ProbingUp | a faster mode fits |
//! | any but Safe | SteppingDown | the power is over the limit, the mode no longer fits, or it was excluded or cannot be set |
//! | any | Safe(NoSensor) | the sensor is blind |
//! | Safe(NoSensor) | Settling | it moves again |
//! | Tracking, SteppingDown | Safe(LimitTooLow) | the least mode does not fit, and a few of the least were tried |
//! | Safe(LimitTooLow) | Tracking | the least mode fits |
//! | any | Safe(NothingApplies) | no mode can be set or chosen |
//! | Safe(NothingApplies) | Settling | the mode is read back |
//! | any | Booting | no step for longer than 5 s, or another front |
//!
//! `tests/governor/states.rs` has a test for each.

mod allowance;
mod interface;
mod knowledge;
mod liveness;
mod memory;
mod noise;

pub use allowance::{Average, Budget};
pub use interface::{Cause, Command, GovernorError, Input, Limit, Settings, State, Status};

use allowance::Allowance;
use knowledge::{Knowledge, RATIO_RANGE};
use liveness::Liveness;
use memory::{Memory, Work};
use noise::{Noise, highest_of};

use crate::estimator::{Chip, Estimate, Estimator, MOST_CHIPS, Sample};
use crate::front::Front;
use crate::grid::ModeId;
use crate::units::{Milliseconds, Milliwatts};

/// The limit holds for the mean power over this time.
const SPAN: Milliseconds = Milliseconds(430);

/// Ups that may come one after another, at the start and under another limit.
pub const UPS: u32 = 8;

/// Afterwards one up may come in so long. Limits that follow each other sooner bring no more.
pub const UP_EVERY: Milliseconds = Milliseconds(30_000);

/// A full store of them.
const ALL_UPS: u64 = UPS as u64 * UP_EVERY.0;

/// After so many failures in a row a mode is left out, and after so many modes in a row all are.
const RETRIES: u8 = 2;
const MODES_TRIED: u8 = 3;

/// Between two attempts to reach the safe mode.
const RETRY_EVERY: Milliseconds = Milliseconds(1_000);

/// For so long a mode is left out that could not be set.
const LEFT_OUT: Milliseconds = Milliseconds(60_000);

/// A longer time from one step to the next leaves nothing known of the power: the board slept.
const LONGEST_GAP: Milliseconds = Milliseconds(5_000);

/// Clocks follow within this time after they are set (platform reference, section 8: 8 ms).
const FOLLOWS: u64 = 20;

const NO_PHASE: (f32, u64) = (0.0, 0);

/// A phase of the load that is longer is known by its mean.
const LONG_PHASE: u64 = 2_000;

/// The GPU's load is smoothed over this time, in ms, and the same within this, in permille.
const SMOOTHED_OVER: u64 = 60;
const SAME_LOAD: u16 = 100;

/// The estimate is not used for steps so soon after a change of the mode.
const SETTLES: u64 = 100;

/// The error of a mode is told from the mean over this time at first, and then over times twice as
/// long each, up to the last one.
const TOLD_FIRST: u64 = 900;
const TOLD_LAST: u64 = 8_000;

/// A mode is left for a faster one after this time at the earliest.
const DWELL: Milliseconds = Milliseconds(1_500);

/// The estimate is over the limit when it is so by this number of standard deviations.
const OVER_DEVIATIONS: f32 = 3.0;

/// After a step that was seen for sure, this number is enough.
const OVER_AFTER_STEP: f32 = -0.5;

/// And so is this one soon after a step down for a jump: it was likely too small.
const OVER_AFTER_JUMP: f32 = 1.0;

/// A step that is suspected is told within this time, or is none.
const SUSPECTED: Milliseconds = Milliseconds(150);

/// A step is believed after this part of the sensor's time constant.
const TOLD_AFTER: u64 = 6;

/// A step that leads to a known phase of the load within this number of deviations is none to another.
const KNOWN_DEVIATIONS: f32 = 2.0;

/// The highest phase of the load is to stay within the limit with this number of standard deviations
/// of the mean over [`SPAN`]: 0.016 % of the means of a steady load are higher.
const PEAK_DEVIATIONS: f32 = 3.6;

/// To stay in a mode, so many of them less are enough: hysteresis.
const STAY_DEVIATIONS: f32 = 0.8;

/// The ripple that is provided for, at most: what is more is no ripple but phases, of which the
/// peak is remembered.
const MOST_RIPPLE: f32 = 0.015;

/// What a jump has told of the load counts for so long; then what was measured since.
const JUMP_COUNTS: Milliseconds = Milliseconds(3_000);

/// A jump that is shorter does not carry the mean over [`SPAN`] over the limit if it never did.
const SHORT: Milliseconds = Milliseconds(200);

/// Of a rise that was not told as a step the mean over this time has more than the mean over [`SPAN`].
const RECENT: Milliseconds = Milliseconds(250);

/// A mode that was set within this time may be over the limit for a reason of its own.
const YOUNG: Milliseconds = Milliseconds(10_000);

/// A mode that was over the limit as soon as it was set is held off for so long at first.
const HOLD: Milliseconds = Milliseconds(60_000);

/// The greatest step up, as the ratio of predictions: before a second mode has confirmed the level
/// of the load, and afterwards.
const FIRST_CLIMB: f32 = 1.15;
const CLIMB: f32 = 1.4;

/// A change of the power by so many steps of the sensor and by this part of it must show.
const SHOWS_STEPS: f32 = 5.0;
const SHOWS_PART: f32 = 1.0 / 16.0;

/// Beside the least mode, so many of the least are tried until the limit is said to be too low.
const LEAST_TRIED: usize = 3;

/// A mode that is predicted to draw more than this many times the least one is not tried then.
const MUCH_MORE: f32 = 1.2;

/// A mean that the next one is compared with, and the one before it, which it is compared with itself.
#[derive(Clone, Copy, Debug)]
struct Compared {
    at: Milliseconds,
    mean: f32,
    before: Option<f32>,
}

/// A step of the load that led over the limit.
#[derive(Clone, Copy, Debug)]
struct Jump {
    at: Milliseconds,
    /// The level of the load, as far as it was told.
    level: f32,
    /// The level that the mode could have carried.
    carried: f32,
}

/// Holds a limit over the modes of a front of at most `N` points.
#[derive(Clone, Debug)]
pub struct Governor<const N: usize> {
    settings: Settings,
    modes: Knowledge<N>,
    allowance: Allowance,
    estimator: Estimator,
    memory: Memory,
    liveness: Liveness,
    state: State,
    /// The point of the front that is wanted.
    at: usize,
    /// The point that was wanted before.
    before: Option<usize>,
    /// The mode is as wanted since then.
    since: Option<Milliseconds>,
    /// When the look after the last one without a sample was due.
    missed: Milliseconds,
    /// The last step, and when the next one is due.
    last: Option<Milliseconds>,
    due: Milliseconds,
    /// The mean over [`SPAN`] in the mode.
    measured: Option<f32>,
    /// The level of the load before the mode was set, if it was steady, with the GPU's load.
    reference: Option<(f32, Option<u16>)>,
    /// From when on the load was steady in the mode, and the energy in µJ and the GPU's load then.
    steady: Option<(Milliseconds, u64, Option<u16>)>,
    /// The error of the mode is to be told; and the time in it when it is told next, in ms.
    is_new: bool,
    /// The mode was set as one of the few least, which are tried before the limit is too low.
    is_trial: bool,
    told_next: u64,
    /// The last jump, while it counts.
    jump: Option<Jump>,
    /// The highest level of jumps that were too short to matter.
    short: f32,
    /// The highest level that was measured since the last jump.
    since_jump: f32,
    /// Of the present phase, while it is short: its level, and the time in ms that this is the mean
    /// over; and the number of short phases near the highest level.
    short_phase: (f32, u64),
    seen: f32,
    noise: Noise,
    compared: Option<Compared>,
    work: Work,
    /// The GPU's load in permille, smoothed.
    gpu: Option<u16>,
    /// Since when a step of the load is suspected.
    suspected: Option<Milliseconds>,
    /// Failures to set the mode, and modes that could not be set, in a row.
    failures: u8,
    modes_failed: u8,
    /// When a mode was last left out.
    left_out: Milliseconds,
    /// When the mode was last asked for; `None` before the first one.
    asked: Option<Milliseconds>,
    /// Ups in store, in milliseconds of [`UP_EVERY`], and when another limit has filled the store.
    ups: u64,
    filled: Milliseconds,
    /// The level at the last up.
    level_at_up: f32,
    /// Energy that is accounted for in µJ, and until when.
    booked: u64,
    booked_at: Milliseconds,
    violations: u32,
    over: Milliseconds,
    changes: u32,
}

impl<const N: usize> Governor<N> {
    /// A governor that has seen nothing yet. Its first command sets the first mode.
    pub fn new(front: Front<N>, settings: Settings, limit: Limit) -> Result<Self, GovernorError> {
        check(&front, &settings)?;
        let modes = Knowledge::new(front, &settings);
        Ok(Self {
            memory: Memory::new(settings.memory, 1.0 / (1.0 + modes.guard())),
            modes,
            allowance: Allowance::new(limit),
            estimator: Estimator::new(settings.chips),
            liveness: Liveness::new(Milliseconds(0)),
            settings,
            state: State::Booting,
            at: 0,
            before: None,
            since: None,
            missed: Milliseconds(0),
            last: None,
            due: Milliseconds(0),
            measured: None,
            reference: None,
            steady: None,
            is_new: true,
            is_trial: false,
            told_next: TOLD_FIRST,
            jump: None,
            short: 0.0,
            since_jump: 0.0,
            short_phase: NO_PHASE,
            seen: 1.0,
            noise: Noise::new(),
            compared: None,
            work: Work::None,
            gpu: None,
            suspected: None,
            failures: 0,
            modes_failed: 0,
            left_out: Milliseconds(0),
            asked: None,
            ups: ALL_UPS,
            filled: Milliseconds(0),
            level_at_up: 0.0,
            booked: 0,
            booked_at: Milliseconds(0),
            violations: 0,
            over: Milliseconds(0),
            changes: 0,
        })
    }

    /// Another limit from now on. What was learned stays.
    pub fn set_limit(&mut self, limit: Limit) {
        if self.allowance.limit() == limit {
            return;
        }
        self.allowance.set_limit(limit);
        let now = self.last.unwrap_or(Milliseconds(0));
        if now.since(self.filled) >= UP_EVERY {
            (self.ups, self.filled) = (ALL_UPS, now);
        }
    }

    /// Another front from now on, such as that of another workload's model. What was excluded and
    /// measured is forgotten; what was spent and counted stays.
    pub fn set_front(&mut self, front: Front<N>) -> Result<(), GovernorError> {
        check(&front, &self.settings)?;
        self.modes = Knowledge::new(front, &self.settings);
        self.forget_load();
        self.begin();
        Ok(())
    }

    /// A chip of the sensor has another time constant from now on, within the range of
    /// [`Chip::time_constant`].
    pub fn set_time_constant(
        &mut self,
        chip: usize,
        time_constant: Milliseconds,
    ) -> Result<(), GovernorError> {
        let known = self.settings.chips.get_mut(chip);
        let known = known.filter(|_| is_time_constant(time_constant));
        known.ok_or(GovernorError::Settings)?.time_constant = time_constant;
        self.estimator.set_time_constant(chip, time_constant);
        Ok(())
    }

    /// The sensor has other steps and another offset from now on, in mW as in [`Chip::step`] and
    /// [`Settings::sensor_offset`]. The limit follows at once. What was learned stays.
    pub fn set_sensor_steps(&mut self, steps: [Milliwatts; MOST_CHIPS], offset: Milliwatts) {
        for (chip, step) in self.settings.chips.iter_mut().zip(steps) {
            chip.step = step;
        }
        self.settings.sensor_offset = offset;
        self.estimator.set_steps(steps);
    }

    /// A mode that is never to be chosen: the board cannot set it, or only by a reboot.
    pub fn exclude(&mut self, mode: ModeId) {
        self.modes.exclude(mode);
    }

    /// The front that it chooses from.
    pub fn front(&self) -> &Front<N> {
        self.modes.front()
    }

    /// The mode that it starts with under a limit: the fastest one that the model, with its guard
    /// band, says is within it; `None` where there is none.
    pub fn first(&self) -> Option<ModeId> {
        let first = self.fastest_predicted()?;
        self.modes.point(first).map(|point| point.mode)
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        let point = self.modes.point(self.at);
        let estimate = self
            .estimator
            .estimate()
            .filter(|_| !self.liveness.is_blind());
        let ratio = self.modes.error(self.at).0 * self.memory.highest();
        Status {
            state: self.state,
            mode: point.map_or(ModeId(0), |point| point.mode),
            allowed: self.allowance.reading(&self.settings),
            measured: self.measured.map(milliwatts),
            power: estimate.map(|estimate| milliwatts(estimate.power)),
            millijoules: self.booked / 1_000,
            over: self.over,
            predicted: point.map_or(Milliwatts(0), |point| point.power),
            ratio: (ratio * 65_536.0) as u32,
            violations: self.violations,
            changes: self.changes,
        }
    }

    /// When the next step is due after a [`Command::Keep`]. A step that comes sooner does no harm;
    /// after a [`Command::Apply`] one is due as soon as the mode is set.
    pub fn due(&self) -> Milliseconds {
        self.due
    }

    /// One step.
    pub fn step(&mut self, input: &Input) -> Command {
        let (now, passed) = self.advance(input);
        self.allowance
            .derate(input.over_current || input.too_hot, now);
        self.smooth_load(input.gpu_load, passed);
        let arrives = self.is_set(input) && self.since.is_none() && self.asked.is_some();
        if arrives {
            self.arrive(now);
        }
        let is_blind = self.take(input.sample.as_ref(), now);
        self.plan_look(now);
        if let Some(command) = self.check_mode(input, now) {
            return command;
        }
        self.decide(is_blind, now, passed)
    }
}

fn check<const N: usize>(front: &Front<N>, settings: &Settings) -> Result<(), GovernorError> {
    let guard = front.power_guard().ok_or(GovernorError::NoPower)?;
    let guard = guard.factor(settings.confidence);
    guard.map_err(|_| GovernorError::Confidence)?;
    let is_chip = |chip: &Chip| is_time_constant(chip.time_constant);
    let is_sound = settings.sensor_gain <= 1 << 16
        && (1..=1_000).contains(&settings.look.0)
        && settings.chips.iter().all(is_chip);
    if !is_sound {
        return Err(GovernorError::Settings);
    }
    match front.points().is_empty() {
        true => Err(GovernorError::EmptyFront),
        false => Ok(()),
    }
}

fn is_time_constant(time: Milliseconds) -> bool {
    time.0 <= 60_000
}

/// Rounded up.
fn milliwatts(power: f32) -> Milliwatts {
    Milliwatts(libm::ceilf(power) as u32)
}

fn after(now: Milliseconds, ms: u64) -> Milliseconds {
    Milliseconds(now.0.saturating_add(ms))
}

impl<const N: usize> Governor<N> {
    /// The next step sets a first mode.
    fn begin(&mut self) {
        self.state = State::Booting;
        (self.asked, self.since, self.before) = (None, None, None);
        (self.measured, self.reference, self.jump) = (None, None, None);
        self.estimator.forget();
    }

    fn forget_load(&mut self) {
        self.memory = Memory::new(self.settings.memory, 1.0 / (1.0 + self.modes.guard()));
        (self.short, self.seen) = (0.0, 1.0);
        (self.at, self.is_new) = (0, true);
    }

    /// Lets time pass. A step backwards counts as none. After a gap nothing is known; what may have
    /// been drawn in it is booked.
    fn advance(&mut self, input: &Input) -> (Milliseconds, u64) {
        let last = self.last.unwrap_or(input.now);
        if self.last.is_none() {
            self.liveness = Liveness::new(input.now);
            self.booked_at = input.now;
        }
        let now = input.now.max(last);
        self.last = Some(now);
        let passed = now.since(last).0;
        if passed > LONGEST_GAP.0 {
            self.book_unseen(now);
            self.begin();
            self.liveness = Liveness::new(now);
        }
        self.ups = self.ups.saturating_add(passed).min(ALL_UPS);
        (now, passed)
    }

    /// Takes the GPU's load, which some drivers take over a few ms.
    fn smooth_load(&mut self, load: Option<u16>, passed: u64) {
        if let Some(load) = load {
            self.memory.see_load(load.min(1_000), passed);
        }
        self.gpu = match (self.gpu, load) {
            (Some(before), Some(now)) => {
                let (before, now) = (u64::from(before), u64::from(now.min(1_000)));
                let passed = passed.min(SMOOTHED_OVER);
                let sum = before * (SMOOTHED_OVER - passed) + now * passed;
                Some((sum / SMOOTHED_OVER) as u16)
            }
            _ => load.map(|load| load.min(1_000)),
        };
    }

    /// Books what was drawn and not measured: the most that is likely.
    fn book_unseen(&mut self, now: Milliseconds) {
        let expected = self.modes.expected(self.at, self.memory.highest().max(1.0));
        let power = self
            .estimator
            .estimate()
            .map_or(expected, |it| it.power.max(expected));
        let passed = now.since(self.booked_at).0;
        self.book(
            (power.clamp(0.0, 1e7) as u64 + 1).saturating_mul(passed),
            now,
        );
    }

    fn book(&mut self, microjoules: u64, now: Milliseconds) {
        self.allowance
            .spend(microjoules, now.since(self.booked_at).0);
        self.booked = self.booked.saturating_add(microjoules);
        self.booked_at = now;
    }

    fn is_set(&self, input: &Input) -> bool {
        let wanted = self.modes.point(self.at).map(|point| point.mode);
        wanted.is_some() && input.mode == wanted
    }

    /// The wanted mode is set now.
    fn arrive(&mut self, now: Milliseconds) {
        let Some(estimate) = self.estimator.estimate() else {
            return;
        };
        // Before the first mode the board was in any; what it draws then is told by the model.
        let from = match self.before {
            Some(before) => self.modes.expected(before, 1.0),
            None => estimate.power,
        };
        let to = self.modes.expected(self.at, 1.0);
        let times = (to / from.max(1.0)).clamp(RATIO_RANGE.0, RATIO_RANGE.1);
        // A board at rest follows its clocks much less.
        let times = match self.work {
            Work::None => 1.0 + (times - 1.0) / 4.0,
            _ => times,
        };
        self.estimator.expect(times);
        let change = (times - 1.0).abs() * estimate.power;
        if self.work != Work::None && change > self.least_that_shows(estimate.power) {
            self.liveness.must_show(self.gpu, now);
        }
    }

    /// A change of this power in mW must show.
    fn least_that_shows(&self, power: f32) -> f32 {
        let steps = self.settings.chips.iter().map(|chip| chip.step.0);
        let step = steps.max().unwrap_or(0) as f32;
        (SHOWS_STEPS * step).max(SHOWS_PART * power)
    }

    /// The fastest mode that draws so much less than the present one that it must show.
    fn shows(&self, power: f32) -> Option<usize> {
        let most = power - self.least_that_shows(power) * 1.2;
        let present = self.modes.expected(self.at, 1.0);
        self.modes
            .fastest(|index| self.modes.expected(index, 1.0) / present * power < most)
    }

    /// Takes the sample, if it makes sense. Returns whether the sensor is blind.
    fn take(&mut self, sample: Option<&Sample>, now: Milliseconds) -> bool {
        let predicted = self.modes.predicted(self.at);
        let sample = sample.filter(|sample| {
            let of_predicted = sample.total().0 as f32 / predicted;
            self.asked.is_none() || (RATIO_RANGE.0..=RATIO_RANGE.1).contains(&of_predicted)
        });
        let was_blind = self.liveness.is_blind();
        let is_blind = self.liveness.look(sample, self.gpu, now);
        if is_blind {
            self.book_unseen(now);
            if !was_blind {
                self.estimator.forget();
            }
        } else if let Some(sample) = sample {
            let had = self.estimator.estimate().is_some();
            let before = self.estimator.energy_uj();
            self.estimator.look(sample, now);
            if had {
                let energy = self.estimator.energy_uj().saturating_sub(before);
                self.book(energy, now);
            } else {
                self.book_unseen(now);
            }
        }
        is_blind
    }

    /// Near the limit often, far from it seldom, and at once again when the power seems to change.
    fn plan_look(&mut self, now: Milliseconds) {
        let look = self.settings.look.0;
        let allowed = self.allowance.reading(&self.settings).0 as f32;
        let is_fresh = self.since.is_some_and(|since| now.since(since) < SPAN);
        let Some(estimate) = self.estimator.estimate() else {
            self.due = after(now, look);
            return;
        };
        self.suspected = match self.estimator.is_suspicious() {
            true => Some(self.suspected.unwrap_or(now)),
            false => None,
        };
        let most = estimate.power + 4.0 * estimate.deviation;
        let is_close = self.suspected.is_some() && most > 0.9 * allowed;
        let ms = if is_close || self.has_just_jumped(now) {
            (look / 3).max(1)
        } else if is_fresh || most > 0.85 * allowed {
            look
        } else {
            2 * look
        };
        self.due = after(now, ms.min(100));
    }

    /// Sees to it that the board is in the wanted mode.
    fn check_mode(&mut self, input: &Input, now: Milliseconds) -> Option<Command> {
        let wanted = self.modes.point(self.at)?.mode;
        self.asked?;
        // It was excluded meanwhile.
        if !self.modes.is_choosable(self.at) {
            let Some(next) = self.best_below(now) else {
                self.state = State::Safe(Cause::NothingApplies);
                return Some(Command::Keep);
            };
            return Some(self.change(next, State::SteppingDown, now));
        }
        if input.mode == Some(wanted) {
            (self.failures, self.modes_failed) = (0, 0);
            if self.since.replace(self.since.unwrap_or(now)).is_none()
                && matches!(
                    self.state,
                    State::Booting | State::Tracking | State::Safe(Cause::NothingApplies)
                )
            {
                self.state = State::Settling;
            }
            if now.since(self.left_out) >= LEFT_OUT {
                self.modes.forgive();
            }
            return None;
        }
        // It was set, so somebody else has changed it.
        if self.since.take().is_some() {
            (self.asked, self.before) = (Some(now), None);
            self.reference = None;
            return Some(Command::Apply(wanted));
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures <= RETRIES {
            self.asked = Some(now);
            return Some(Command::Apply(wanted));
        }
        if self.modes_failed < MODES_TRIED && self.modes.choosable() > 1 {
            self.modes.fail(self.at);
            self.left_out = now;
            self.modes_failed += 1;
            let next = self.best_below(now)?;
            return Some(self.change(next, State::SteppingDown, now));
        }
        if self.state != State::Safe(Cause::NothingApplies) {
            return Some(self.change(self.least()?, State::Safe(Cause::NothingApplies), now));
        }
        if self
            .asked
            .is_some_and(|asked| now.since(asked) < RETRY_EVERY)
        {
            return Some(Command::Keep);
        }
        self.asked = Some(now);
        Some(Command::Apply(wanted))
    }

    fn allowed(&self) -> f32 {
        self.allowance.reading(&self.settings).0 as f32
    }

    /// Standard deviation of the true mean over [`SPAN`] of a steady load, as part of the power.
    fn ripple(&self) -> f32 {
        self.noise.deviation().min(MOST_RIPPLE)
    }

    /// The level of the load's highest phase that counts.
    fn phase(&self, now: Milliseconds) -> f32 {
        let phase = self.memory.highest();
        match self.jump {
            Some(jump) if now.since(jump.at) < JUMP_COUNTS => phase.max(jump.level),
            _ => phase,
        }
    }

    /// The power in mW that a mode stays below in a phase. Ripple, and the error of a guess, are
    /// independent of each other.
    fn bound(&self, index: usize, phase: f32) -> f32 {
        let (ripple, doubt) = (PEAK_DEVIATIONS * self.ripple(), self.modes.doubt(index));
        let margin = libm::sqrtf(ripple * ripple + doubt * doubt);
        self.modes.expected(index, phase) * (1.0 + margin)
    }

    fn fastest_predicted(&self) -> Option<usize> {
        let allowed = self.allowance.reading(&self.settings);
        self.modes
            .fastest(|index| self.modes.is_predicted_within(index, allowed))
    }

    /// The fastest mode that fits at a level and draws less than the present one. A mode that was
    /// measured counts with what it drew, although it is held off from a climb.
    fn fitting(&self, level: f32, now: Milliseconds) -> Option<usize> {
        let allowed = self.allowed();
        let present = self.modes.expected(self.at, 1.0);
        self.modes.fastest(|index| {
            self.bound(index, level) <= allowed
                && self.modes.expected(index, 1.0) < present
                && (self.modes.is_measured(index) || !self.modes.is_held(index, now))
        })
    }

    /// The same, or else the least.
    fn below(&self, level: f32, now: Milliseconds) -> Option<usize> {
        self.fitting(level, now).or_else(|| self.least())
    }

    fn best_below(&self, now: Milliseconds) -> Option<usize> {
        self.below(self.phase(now), now)
    }

    fn decide(&mut self, is_blind: bool, now: Milliseconds, passed: u64) -> Command {
        if self.asked.is_none() {
            return self.boot(now);
        }
        if is_blind {
            return self.without_sensor(now);
        }
        if self.state == State::Safe(Cause::NoSensor) {
            self.state = State::Settling;
        }
        let (Some(estimate), Some(since)) = (self.estimator.estimate(), self.since) else {
            return Command::Keep;
        };
        if !self.liveness.is_heard(now) {
            // What is not read teaches nothing, nor does a mean across it.
            (self.steady, self.compared, self.measured) = (None, None, None);
            self.missed = self.due;
            return Command::Keep;
        }
        // What the step itself has shown so far is no phase that is known.
        let known = self.modes.expected(self.at, self.phase(now));
        self.observe(&estimate, since, now, passed);
        if self.measured.is_some_and(|mean| mean > self.allowed()) {
            self.over.0 += passed;
        }
        if let Some(power) = self.over(&estimate, known, since, now) {
            return self.go_down(power, &estimate, since, now);
        }
        // Another mode would hide a step that is about to be told.
        let is_suspected = self.suspected.is_some_and(|at| now.since(at) < SUSPECTED);
        if is_suspected || !self.is_told(&estimate, now) {
            return Command::Keep;
        }
        if self.liveness.is_in_doubt(now)
            && let Some(next) = self.shows(estimate.power)
        {
            self.liveness.try_out();
            // The way back is none.
            self.ups = self.ups.saturating_add(UP_EVERY.0);
            return self.change(next, State::SteppingDown, now);
        }
        self.follow(since, now)
    }

    /// The first mode, or the first after a sleep.
    fn boot(&mut self, now: Milliseconds) -> Command {
        let first = match self.changes {
            0 => self.fastest_predicted(),
            _ => {
                let (phase, allowed) = (self.phase(now), self.allowed());
                self.modes.fastest(|index| {
                    self.bound(index, phase.max(1.0)) <= allowed && !self.modes.is_held(index, now)
                })
            }
        };
        let Some(first) = first.or_else(|| self.least()) else {
            self.state = State::Safe(Cause::NothingApplies);
            return Command::Keep;
        };
        self.change(first, State::Booting, now)
    }

    fn without_sensor(&mut self, now: Milliseconds) -> Command {
        self.measured = None;
        let Some(least) = self.least() else {
            return Command::Keep;
        };
        if self.state == State::Safe(Cause::NoSensor) {
            return Command::Keep;
        }
        if least == self.at {
            self.state = State::Safe(Cause::NoSensor);
            return Command::Keep;
        }
        self.change(least, State::Safe(Cause::NoSensor), now)
    }

    /// Learns from the power in the present mode.
    fn observe(
        &mut self,
        estimate: &Estimate,
        since: Milliseconds,
        now: Milliseconds,
        passed: u64,
    ) {
        let prediction = self.modes.predicted(self.at);
        let error = self.modes.error(self.at).0;
        let of_level = prediction * error;
        self.work = self.memory.work(self.gpu, estimate.power / of_level);
        self.memory.pass(self.work, passed);
        self.mark_steady(estimate, since, now);
        let in_mode = now.since(since.max(self.missed)).0;
        if in_mode < SPAN.0 + FOLLOWS {
            return;
        }
        self.measured = self.estimator.mean(SPAN);
        let Some(mean) = self.measured else {
            return;
        };
        self.tell_error(since, now);
        if self.work != Work::None {
            self.compare(mean, estimate, now);
        }
        // Of a new mode nobody knows whether it or the load is other than expected.
        if self.work != Work::None && !self.is_new {
            self.see(mean, of_level, now);
        }
        if !self.is_new && !matches!(self.state, State::Safe(_)) {
            self.state = State::Tracking;
        }
    }

    /// Keeps from when on the load is steady.
    fn mark_steady(&mut self, estimate: &Estimate, since: Milliseconds, now: Milliseconds) {
        let from = after(since, FOLLOWS);
        let is_steady = self.steady.is_some_and(|(at, _, gpu)| {
            at >= estimate.since && at >= from && self.is_same_load(gpu)
        });
        if now >= from && !is_steady {
            self.end_phase();
            self.steady = Some((now, self.booked, self.gpu));
        }
    }

    /// The mean power in mW while the load was steady, and for how long.
    fn steady_mean(&self, now: Milliseconds) -> Option<(f32, u64)> {
        let (from, energy, _) = self.steady?;
        let passed = now.since(from).0;
        let mean = self.booked.saturating_sub(energy) as f32 / passed as f32;
        (passed >= SPAN.0).then_some((mean, passed))
    }

    /// The GPU is as busy as at another time.
    fn is_same_load(&self, before: Option<u16>) -> bool {
        let loads = before.zip(self.gpu);
        loads.is_none_or(|(before, now)| before.abs_diff(now) <= SAME_LOAD)
    }

    /// Tells the error of the mode from the powers before and after it was set, if the load was
    /// steady then.
    fn tell_error(&mut self, since: Milliseconds, now: Milliseconds) {
        if self.work == Work::None {
            return;
        }
        let in_mode = now.since(since).0;
        let is_steady = self
            .steady
            .is_some_and(|(from, ..)| from.since(since).0 <= 5 * FOLLOWS);
        let reference = self.reference.filter(|(_, gpu)| self.is_same_load(*gpu));
        let Some((reference, _)) = reference.filter(|_| is_steady) else {
            // Nothing to compare with. The first mode has no error: the load is what is measured.
            if self.is_new && !self.modes.is_measured(self.at) && self.before.is_none() {
                self.modes.raise(self.at, self.modes.error(self.at).0);
            }
            self.is_new = false;
            return;
        };
        if in_mode < self.told_next.saturating_add(FOLLOWS) || self.told_next > TOLD_LAST {
            return;
        }
        let Some((mean, passed)) = self.steady_mean(now) else {
            return;
        };
        let error = mean / (self.modes.predicted(self.at) * reference);
        // Both means have noise.
        let noise = self.noise.deviation();
        let noise = noise * noise * (1.0 + SPAN.0 as f32 / passed as f32);
        match self.told_next == TOLD_FIRST {
            true => self.modes.learn(self.at, error, reference, noise),
            false => self.modes.refine(self.at, error),
        }
        self.is_new = false;
        self.told_next = self.told_next.saturating_mul(2);
    }

    /// Tells the noise from means of the same phase in the same mode.
    fn compare(&mut self, mean: f32, estimate: &Estimate, now: Milliseconds) {
        let Some(last) = self.compared.filter(|last| last.at > estimate.since) else {
            // The first mean of a phase holds a part of the one before.
            let is_whole = now.since(estimate.since) > SPAN;
            self.compared = is_whole.then_some(Compared {
                at: now,
                mean,
                before: None,
            });
            return;
        };
        if now.since(last.at) >= SPAN {
            // Only now it is known that there was no step within the last one.
            if let Some(before) = last.before {
                let resolution = self.estimator.resolution(SPAN);
                self.noise.compare(last.mean, before, resolution);
            }
            self.compared = Some(Compared {
                at: now,
                mean,
                before: Some(last.mean),
            });
        }
    }

    /// Remembers the level of the present phase of the load: of a long one its mean, of a short one
    /// its mean, or the highest mean over [`SPAN`] with a part of it, when it is over.
    fn see(&mut self, mean: f32, of_level: f32, now: Milliseconds) {
        let level = mean / of_level;
        self.since_jump = self.since_jump.max(level);
        match self.steady_mean(now) {
            Some((mean, passed)) if passed >= LONG_PHASE => {
                self.memory.see(mean / of_level);
                self.short_phase = NO_PHASE;
                if passed >= TOLD_LAST {
                    self.steady = Some((now, self.booked, self.gpu));
                }
            }
            Some((mean, passed)) => self.short_phase = (mean / of_level, passed),
            None => self.short_phase = (self.short_phase.0.max(level), SPAN.0),
        }
        if let Some(jump) = self.jump
            && now.since(jump.at) >= JUMP_COUNTS
        {
            // Where no mean since then would have been over the limit, it was short.
            if self.since_jump < jump.carried {
                self.short = self.short.max(jump.level);
            }
            self.jump = None;
        }
    }

    /// A short phase is over. The highest of many means has ripple and the errors of the sensor in
    /// it, so the phase itself is lower.
    fn end_phase(&mut self) {
        let (level, ms) = core::mem::replace(&mut self.short_phase, NO_PHASE);
        if level <= 0.0 {
            return;
        }
        let noise = self.ripple();
        let noise = noise * libm::sqrtf(SPAN.0 as f32 / ms.max(SPAN.0) as f32);
        let highest = self.memory.highest();
        if level > highest * (1.0 + 4.0 * noise) {
            self.seen = 1.0;
        } else if level > highest * (1.0 - 4.0 * noise) {
            self.seen += 1.0;
        }
        self.memory
            .see(level * (1.0 - highest_of(self.seen) * noise));
    }

    /// The power that is over what is allowed, if it is.
    fn over(
        &self,
        estimate: &Estimate,
        known: f32,
        since: Milliseconds,
        now: Milliseconds,
    ) -> Option<f32> {
        let allowed = self.allowed();
        if now.since(since).0 < FOLLOWS {
            return None;
        }
        let mean = self.measured.unwrap_or(0.0);
        let is_slowly = mean - self.estimator.resolution(SPAN) > allowed;
        // A step was seen for sure; where it leads to is the question. A phase that is known fits.
        let has_stepped = now.since(estimate.since) < SPAN
            && estimate.since.0 > since.0.saturating_add(SETTLES)
            && estimate.power - KNOWN_DEVIATIONS * estimate.deviation > known;
        let deviations = match has_stepped {
            true => OVER_AFTER_STEP,
            false if self.has_just_jumped(now) && !self.is_trying() => OVER_AFTER_JUMP,
            false => OVER_DEVIATIONS,
        };
        let is_now = estimate.power - deviations * estimate.deviation > allowed;
        let level = estimate.power / self.modes.expected(self.at, 1.0);
        let is_short =
            level < 1.03 * self.short && now.since(estimate.since) < SHORT && self.jump.is_none();
        // Where the step is not seen yet, the last means have more of it.
        let is_in_mode = now.since(since).0 >= RECENT.0 + FOLLOWS;
        let recent = self.estimator.mean(RECENT).filter(|_| is_in_mode);
        let power = estimate.power + estimate.deviation;
        match (is_slowly, is_now) {
            (true, _) => Some(power.max(mean).max(recent.unwrap_or(0.0))),
            (false, true) if self.is_told(estimate, now) && !is_short => Some(power),
            _ => None,
        }
    }

    /// Of a step that has just begun, rounding tells more than the power.
    fn is_told(&self, estimate: &Estimate, now: Milliseconds) -> bool {
        let slowest = self.estimator.slowest().0;
        let told_after = match self.is_trying() {
            true => 2 * slowest / TOLD_AFTER,
            false => slowest / TOLD_AFTER,
        };
        now.since(estimate.since).0 >= told_after
    }

    /// The mode was left for a jump so lately that it shows whether that was enough.
    fn has_just_jumped(&self, now: Milliseconds) -> bool {
        self.jump.is_some_and(|jump| now.since(jump.at) <= SPAN)
    }

    /// Down at once, to a mode that fits at the level that the power tells.
    fn go_down(
        &mut self,
        power: f32,
        estimate: &Estimate,
        since: Milliseconds,
        now: Milliseconds,
    ) -> Command {
        if self.state == State::Safe(Cause::LimitTooLow) {
            return Command::Keep;
        }
        // The least mode, as far as is known: its mean decides.
        let is_least = self.modes.is_measured(self.at) && self.least() == Some(self.at);
        if is_least || self.jump.is_some_and(|jump| jump.at > since) {
            return self.too_low(now);
        }
        let is_modes = estimate.since.0 <= since.0.saturating_add(3 * FOLLOWS)
            && now.since(since).0 >= SETTLES;
        let is_young = now.since(since) < YOUNG;
        if is_modes && is_young {
            self.modes.hold(self.at, now, HOLD);
        }
        let phase = self.phase(now);
        let reference = self.reference.filter(|(_, gpu)| self.is_same_load(*gpu));
        let mut level = power / self.modes.expected(self.at, 1.0);
        match reference.filter(|_| is_modes && is_young && self.is_new) {
            // The load is as before, so it is the mode that draws more. Its neighbours may too: the step
            // down is as great as if it were the load.
            Some((reference, _)) => {
                let is_trying = self.is_trying();
                let error = match is_trying {
                    true => self.error_beyond_noise(estimate, reference),
                    false => power / (self.modes.predicted(self.at) * reference),
                };
                self.modes.learn(self.at, error, reference, 0.0);
                if is_trying {
                    level = reference;
                }
            }
            None => self.memory.came_back(level),
        }
        let fitting = self.fitting(level, now);
        let untried = match fitting {
            Some(_) => None,
            // Nothing fits, so that the least modes are compared, each by what it draws.
            None => {
                if !self.modes.is_measured(self.at) {
                    let error = self.error_beyond_noise(estimate, phase);
                    self.modes.raise(self.at, error);
                    level = phase;
                }
                self.untried()
            }
        };
        self.since_jump = 0.0;
        self.jump = Some(Jump {
            at: now,
            level,
            carried: self.allowed() / self.modes.expected(self.at, 1.0),
        });
        let next = match fitting.or(untried).or_else(|| self.least()) {
            Some(next) if next != self.at => next,
            _ => return self.too_low(now),
        };
        self.violations = self.violations.saturating_add(1);
        let command = self.change(next, State::SteppingDown, now);
        // The load before is not known to be that after. Among the least modes it is taken to be.
        self.reference = fitting.is_none().then_some((level, self.gpu));
        self.is_trial = untried.is_some();
        command
    }

    /// The least mode does not fit. Others of the least may draw less than predicted: some are tried, one
    /// after another, each for as long as it takes to measure it.
    fn too_low(&mut self, now: Milliseconds) -> Command {
        let is_told = self
            .steady_mean(now)
            .is_some_and(|(_, passed)| passed >= TOLD_FIRST);
        if !is_told {
            return Command::Keep;
        }
        if !self.modes.is_measured(self.at) {
            self.modes.raise(self.at, self.modes.error(self.at).0);
        }
        self.is_new = false;
        let untried = self.untried();
        match untried.or_else(|| self.least()) {
            Some(next) if next != self.at => {
                let command = self.change(next, State::SteppingDown, now);
                self.is_trial = untried.is_some();
                command
            }
            _ => {
                self.state = State::Safe(Cause::LimitTooLow);
                Command::Keep
            }
        }
    }

    /// The least predicted of the few least modes that was not measured yet.
    fn untried(&self) -> Option<usize> {
        let mut least = (0..N).filter(|&index| self.modes.is_choosable(index));
        let first = least.clone().next()?;
        let most = MUCH_MORE * self.modes.predicted(first);
        let least = least.by_ref().take(1 + LEAST_TRIED);
        least
            .take_while(|&index| self.modes.predicted(index) < most)
            .find(|&index| !self.modes.is_measured(index))
    }

    /// The mode that draws least, as far as is known; where the few least modes were measured, of
    /// those that were.
    fn least(&self) -> Option<usize> {
        match self.untried() {
            Some(_) => self.modes.least(),
            None => self.modes.least_measured(),
        }
    }

    /// The error of the mode at a level of the load: what was guessed, if the estimate does not exclude it.
    fn error_beyond_noise(&self, estimate: &Estimate, level: f32) -> f32 {
        let (guess, _) = self.modes.error(self.at);
        let expected = self.modes.expected(self.at, level);
        match libm::fabsf(estimate.power - expected) > OVER_DEVIATIONS * estimate.deviation {
            true => guess * estimate.power / expected,
            false => guess,
        }
    }

    /// One of the least modes is tried, and is not measured yet.
    fn is_trying(&self) -> bool {
        self.is_trial && self.is_new
    }

    /// Follows the limit: down where the present mode no longer fits, up where a faster one does.
    fn follow(&mut self, since: Milliseconds, now: Milliseconds) -> Command {
        let (allowed, phase) = (self.allowed(), self.phase(now));
        // To stay takes less than to come: hysteresis.
        let allowed = allowed * (1.0 + STAY_DEVIATIONS * self.ripple());
        let ripple = 1.0 + PEAK_DEVIATIONS * self.ripple();
        let fits = self.modes.expected(self.at, phase) * ripple <= allowed;
        if fits {
            if self.state == State::Safe(Cause::LimitTooLow) {
                self.state = State::Tracking;
            }
            return self.climb(phase, since, now);
        }
        if self.is_trying() {
            return Command::Keep;
        }
        match self.below(phase, now) {
            Some(next) if next != self.at => self.change(next, State::SteppingDown, now),
            _ if self.state == State::Safe(Cause::LimitTooLow) => Command::Keep,
            _ => self.too_low(now),
        }
    }

    fn climb(&mut self, phase: f32, since: Milliseconds, now: Milliseconds) -> Command {
        // A load that became lighter is another chance.
        if phase < 0.95 * self.level_at_up {
            (self.ups, self.level_at_up) = (ALL_UPS, phase);
        }
        let is_time = now.since(since) >= DWELL && self.ups >= UP_EVERY.0;
        // After a time without readings it is measured anew first.
        let is_time = is_time && self.measured.is_some();
        if !is_time || self.state != State::Tracking || self.work == Work::None {
            return Command::Keep;
        }
        // What the present phase has shown counts, although it may be noise.
        let phase = phase.max(self.short_phase.0 * (1.0 - self.noise.deviation()));
        let allowed = self.allowed();
        let measured = (0..self.at)
            .filter(|&index| self.modes.is_measured(index))
            .take(2)
            .count();
        let reach = match measured {
            0 => FIRST_CLIMB,
            _ => CLIMB,
        };
        let reach = reach * self.modes.predicted(self.at);
        let nearest = (self.at + 1..N)
            .find(|&index| self.modes.is_choosable(index) && !self.modes.is_held(index, now));
        let next = self.modes.fastest(|index| {
            (self.modes.predicted(index) <= reach
                || self.modes.is_measured(index)
                || Some(index) == nearest)
                && self.bound(index, phase) <= allowed
                && !self.modes.is_held(index, now)
        });
        match next {
            Some(next) if next > self.at && self.is_worth(next) => {
                self.ups -= UP_EVERY.0;
                self.level_at_up = phase;
                self.change(next, State::ProbingUp, now)
            }
            _ => Command::Keep,
        }
    }

    /// Whether a point is faster than the present one by at least half a percent.
    fn is_worth(&self, next: usize) -> bool {
        let time = |index| self.modes.point(index).map_or(0, |point| point.time.0);
        let (present, faster) = (time(self.at), time(next));
        faster < present - present / 200
    }

    fn change(&mut self, to: usize, state: State, now: Milliseconds) -> Command {
        self.reference = self.steady_level(now);
        self.before = self.since.map(|_| self.at);
        self.end_phase();
        (self.is_new, self.told_next, self.steady) = (true, TOLD_FIRST, None);
        self.is_trial = false;
        (self.at, self.state, self.since) = (to, state, None);
        (self.asked, self.failures) = (Some(now), 0);
        (self.measured, self.compared) = (None, None);
        self.changes = self.changes.saturating_add(1);
        self.modes
            .point(to)
            .map_or(Command::Keep, |point| Command::Apply(point.mode))
    }

    /// The level of the load, if it was the same for [`SPAN`] at least.
    fn steady_level(&self, now: Milliseconds) -> Option<(f32, Option<u16>)> {
        let (mean, _) = self.steady_mean(now)?;
        if self.work == Work::None || self.is_new {
            return None;
        }
        Some((mean / self.modes.expected(self.at, 1.0), self.gpu))
    }
}
