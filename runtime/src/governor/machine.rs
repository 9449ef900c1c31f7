//! A governor, and its step function.

use core::borrow::Borrow;

use super::allowance::Allowance;
use super::clock::{Clock, Passed};
use super::interface::{Command, GovernorError, Input, Limit, Settings, State, Status};
use super::knowledge::{Knowledge, RATIO_RANGE};
use super::liveness::Liveness;
use super::load::Load;
use super::pursuit::Pursuit;
use super::sensor::Sensor;
use super::stay::Stay;
use super::supply::Supply;

use crate::estimator::{Estimator, LONGEST_TIME_CONSTANT, MOST_CHIPS};
use crate::front::{Front, Refusal};
use crate::grid::ModeId;
use crate::quantities::{Milliseconds, Milliwatts};

/// Capacity of the token bucket of steps up. It is full at the start and after a change of the
/// limit.
pub const STEPS_UP: u32 = 8;

/// Refill time of one step up. A new limit fills the bucket at most once in this time.
pub const STEP_UP_REFILL: Milliseconds = Milliseconds(30_000);

/// A full token bucket, in ms of refill time.
const FULL_BUCKET: u64 = STEPS_UP as u64 * STEP_UP_REFILL.0;

/// Tokens for steps up.
#[derive(Clone, Copy, Debug)]
pub struct TokenBucket {
    /// In ms of [`STEP_UP_REFILL`].
    left: u64,
    /// When a new limit last filled the bucket.
    filled: Milliseconds,
}

impl TokenBucket {
    const FULL: Self = Self {
        left: FULL_BUCKET,
        filled: Milliseconds(0),
    };

    pub fn pass(&mut self, ms: u64) {
        self.left = self.left.saturating_add(ms).min(FULL_BUCKET);
    }

    fn fill(&mut self, now: Milliseconds) {
        if now.since(self.filled) >= STEP_UP_REFILL {
            (self.left, self.filled) = (FULL_BUCKET, now);
        }
    }

    /// Credits a step up that leads back.
    pub fn credit(&mut self) {
        self.left = self.left.saturating_add(STEP_UP_REFILL.0);
    }

    pub fn is_empty(&self) -> bool {
        self.left < STEP_UP_REFILL.0
    }

    pub fn take(&mut self) {
        self.left = self.left.saturating_sub(STEP_UP_REFILL.0);
    }
}

/// What a higher limit allowed until a time. In the window after it, that counts.
#[derive(Clone, Copy, Debug)]
pub struct Lowered {
    pub until: Milliseconds,
    pub allowed: f32,
    /// The mode has not changed since.
    pub is_pending: bool,
}

/// Modes that could not be set.
#[derive(Clone, Copy, Debug)]
pub struct Failed {
    /// Number of successive ones.
    pub modes: u8,
    /// When a mode was last marked as failed.
    pub at: Milliseconds,
}

/// Sums for the status.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub violations: u32,
    pub over: Milliseconds,
    pub changes: u32,
}

/// Holds a limit over the modes of a front of at most `N` points. It owns the front, or borrows it: `F` is
/// [`Front<N>`] or `&Front<N>`.
#[derive(Clone, Debug)]
pub struct Governor<const N: usize, F = Front<N>> {
    pub(super) settings: Settings,
    /// Whether the settings that were given are within their ranges. If not, no front is taken.
    is_sound: bool,
    /// The window that the limit applies to.
    pub(super) window: Milliseconds,
    pub(super) clock: Clock,
    pub(super) allowance: Allowance,
    pub(super) lowered: Option<Lowered>,
    pub(super) sensor: Sensor,
    pub(super) modes: Knowledge<N, F>,
    pub(super) load: Load,
    pub(super) stay: Stay,
    pub(super) state: State,
    /// Whether another program controlled the board since the last request.
    pub(super) was_released: bool,
    pub(super) steps_up: TokenBucket,
    pub(super) failed: Failed,
    pub(super) pursuit: Pursuit,
    /// Time in ms from a request to the read-back: the longest of the recent ones.
    pub(super) takes_ms: u64,
    pub(super) due: Milliseconds,
    pub(super) counts: Counts,
}

impl<const N: usize, F: Borrow<Front<N>>> Governor<N, F> {
    /// Creates a governor without a front and without observations. Until [`Self::set_front`], it keeps any mode.
    ///
    /// Settings out of their ranges are not used: those of L4T are, and [`Self::set_front`] returns the error.
    ///
    /// A microcontroller builds the governor in its place, and lends it a front that it never changes: another workload
    /// needs a second one.
    ///
    /// ```
    /// use core::mem::MaybeUninit;
    /// use wattgate_runtime::{Front, Governor, Limit, Milliwatts, Settings};
    ///
    /// static FRONT: Front<64> = Front::new();
    ///
    /// // In a static of its own, of which only one reference is made.
    /// let mut place: MaybeUninit<Governor<64, &'static Front<64>>> = MaybeUninit::uninit();
    /// let governor = place.write(Governor::new(Settings::L4T, Limit::from_power(Milliwatts(15_000))));
    /// // This front has no modes.
    /// assert!(governor.set_front(&FRONT).is_err());
    /// ```
    pub const fn new(settings: Settings, limit: Limit) -> Self {
        let is_sound = settings.is_sound();
        let settings = if is_sound { settings } else { Settings::L4T };
        let window = settings.held_window();
        Self {
            is_sound,
            load: Load::new(settings.memory, 0.0),
            modes: Knowledge::NONE,
            allowance: Allowance::new(limit),
            lowered: None,
            sensor: Sensor::new(Estimator::new(settings.chips), window),
            window,
            settings,
            clock: Clock::NEW,
            stay: Stay::NONE,
            state: State::Booting,
            was_released: false,
            steps_up: TokenBucket::FULL,
            failed: Failed {
                modes: 0,
                at: Milliseconds(0),
            },
            pursuit: Pursuit::NONE,
            takes_ms: 0,
            due: Milliseconds(0),
            counts: Counts {
                violations: 0,
                over: Milliseconds(0),
                changes: 0,
            },
        }
    }

    /// Replaces the limit. Everything learned stays, and so does what was spent of an equal average or budget.
    pub fn set_limit(&mut self, limit: Limit) {
        if self.allowance.limit() == limit {
            return;
        }
        let before = self.allowed();
        self.allowance.set_limit(limit);
        self.note_lowered(before);
        self.steps_up.fill(self.clock.now());
    }

    /// Makes limit, average and budget those of the supply that feeds the module, in place of the module's. Energies that are
    /// booked so far stay, and so does everything learned.
    pub fn set_supply(&mut self, supply: Supply) {
        if self.allowance.supply() == supply {
            return;
        }
        let before = self.allowed();
        self.allowance.set_supply(supply);
        self.note_lowered(before);
    }

    /// Remembers what was allowed `before`, if that was more.
    fn note_lowered(&mut self, before: f32) {
        let now = self.clock.now();
        self.lowered = match self.allowed() < before {
            // The highest of several limits within a window counts.
            true => Some(Lowered {
                // A limit that falls step by step is one that fell at the first step.
                until: match self.lowered {
                    Some(lowered) if lowered.is_pending => lowered.until,
                    _ => now,
                },
                allowed: before.max(self.allowed_until(now)),
                is_pending: true,
            }),
            false => None,
        };
    }

    /// The power of the highest load that is remembered, in the present mode or in the measured one next to it;
    /// `None` if no mode was measured.
    pub fn highest_load(&self) -> Option<(ModeId, Milliwatts)> {
        let points = 0..self.modes.front().points().len();
        let measured = points.filter(|&index| self.modes.is_measured(index));
        let index = measured.min_by_key(|index| index.abs_diff(self.stay.at))?;
        let power = self.modes.expected(index, self.load.memory.highest());
        Some((self.modes.point(index)?.mode, Milliwatts(power as u32)))
    }

    /// Counts on a load whose power is this multiple of the predictions, as if it had been measured. After
    /// [`Self::set_front`], for a load that goes on: the power of [`Self::highest_load`] before it, over the new model's
    /// prediction for that mode.
    pub fn expect_load(&mut self, ratio: f32) {
        let (least, most) = RATIO_RANGE;
        // A NaN counts as the least.
        self.load.memory.record(ratio.max(least).min(most));
    }

    /// Sets the front, such as that of another workload's model. The next command sets its first mode. Exclusions and
    /// measurements are forgotten; booked energy and counters stay. After an error, the front before stays.
    pub fn set_front(&mut self, front: F) -> Result<(), GovernorError> {
        if !self.is_sound {
            return Err(GovernorError::Settings);
        }
        check(front.borrow())?;
        self.modes.begin(front);
        self.load = Load::new(self.settings.memory, self.modes.first_level());
        self.stay = Stay::NONE;
        self.pursuit.forget();
        self.begin();
        Ok(())
    }

    /// Replaces the front by another one of the same model, such as that of the modes that the board can
    /// still be set to. What was learned of the load, and of modes that both fronts have, stays.
    pub fn set_modes(&mut self, front: F) -> Result<(), GovernorError> {
        if self.modes.front().points().is_empty() {
            return self.set_front(front);
        }
        check(front.borrow())?;
        let mode = self.modes.point(self.stay.at).map(|point| point.mode);
        self.modes.replace(front);
        self.pursuit.forget();
        let points = self.modes.front().points();
        let same = points.iter().position(|point| Some(point.mode) == mode);
        self.stay.at = same.unwrap_or(0);
        self.begin();
        self.stay.goes_on = self.load.level > 0.0;
        Ok(())
    }

    /// Sets the time constant of a chip of the sensor, within the range of
    /// [`Chip::time_constant`](crate::estimator::Chip::time_constant). The window follows.
    pub fn set_time_constant(
        &mut self,
        chip: usize,
        time_constant: Milliseconds,
    ) -> Result<(), GovernorError> {
        let known = self.settings.chips.get_mut(chip);
        let known = known.filter(|_| time_constant <= LONGEST_TIME_CONSTANT);
        known.ok_or(GovernorError::Settings)?.time_constant = time_constant;
        self.sensor.estimator.set_time_constant(chip, time_constant);
        self.follow_window();
        Ok(())
    }

    /// Sets the steps and the offset of the sensor in mW, as in [`Chip::step`](crate::estimator::Chip::step) and
    /// [`Settings::sensor_offset`]. The allowed power follows at once. Everything learned stays.
    pub fn set_sensor_steps(&mut self, steps: [Milliwatts; MOST_CHIPS], offset: Milliwatts) {
        for (chip, step) in self.settings.chips.iter_mut().zip(steps) {
            chip.step = step;
        }
        self.settings.sensor_offset = offset;
        self.sensor.estimator.set_steps(steps);
    }

    /// Excludes a mode, for instance one that the board cannot set without a reboot.
    pub fn exclude(&mut self, mode: ModeId) {
        self.modes.exclude(mode);
    }

    /// The front that the governor chooses from; an empty one before [`Self::set_front`].
    pub fn front(&self) -> &Front<N> {
        self.modes.front()
    }

    /// The fastest mode whose guarded prediction is within the limit, or the slower one that the aim wants. A new governor
    /// starts with it, or with the mode of least power if there is none.
    pub fn first(&self) -> Option<ModeId> {
        let first = self.first_wanted(self.clock.now())?;
        self.modes.point(first).map(|point| point.mode)
    }

    /// The present status.
    pub fn status(&self) -> Status {
        let point = self.modes.point(self.stay.at);
        let is_live = !self.sensor.liveness.is_blind();
        let estimate = self.sensor.estimate().filter(|_| is_live);
        let is_unknown = self.modes.front().is_unknown();
        let (ratio, predicted) = match point.filter(|_| !is_unknown) {
            Some(point) => (
                self.modes.error(self.stay.at).0 * self.load.memory.highest(),
                point.power,
            ),
            None => (0.0, Milliwatts(0)),
        };
        Status {
            state: self.state,
            mode: point.map_or(ModeId(0), |point| point.mode),
            allowed: self.allowance.reading(&self.settings),
            measured: self.stay.measured.map(milliwatts),
            power: estimate.map(|estimate| milliwatts(estimate.power)),
            millijoules: self.sensor.booked / 1_000,
            window: self.window,
            gaps: self.clock.gaps(),
            over: self.counts.over,
            predicted,
            ratio: (ratio * 65_536.0) as u32,
            violations: self.counts.violations,
            changes: self.counts.changes,
        }
    }

    /// The mode to leave on the board when nobody measures any more: the fastest one, none faster than the present
    /// one, in which the highest load that is remembered fits every limit; else the mode of least power.
    pub fn resting(&self) -> Option<ModeId> {
        let allowed = self.allowance.lasting(&self.settings).0 as f32;
        let phase = self.phase(self.clock.now()).max(1.0);
        let is_known = !self.sensor.liveness.is_blind() && !matches!(self.state, State::Safe(_));
        let rest = self.modes.fastest(|index| {
            is_known && index <= self.stay.at && self.bound(index, phase) <= allowed
        });
        let point = self.modes.point(rest.or_else(|| self.least())?)?;
        Some(point.mode)
    }

    /// What is left of the limit's [`Budget`](super::Budget), in mJ; `None` without one.
    pub fn budget_left(&self) -> Option<u64> {
        self.allowance.budget_left()
    }

    /// When the next step is due after a [`Command::Keep`]. An earlier step does no harm. After a
    /// [`Command::Apply`] a step is due as soon as the mode is set.
    pub fn due(&self) -> Milliseconds {
        self.clock.of_caller(self.due)
    }

    /// Takes the observations of the board and returns the command to carry out.
    pub fn step(&mut self, input: &Input) -> Command {
        let (now, passed) = self.observe_board(input);
        self.note_throttling(input.throttled, now);
        self.average_load(passed);
        if let (Some(steps), Some(time)) = (input.steps, self.modes.time(self.stay.at))
            && let Some(pace) = self.load.steps.record(steps, time, now)
        {
            self.take_pace(pace, now);
        }
        if !self.load.steps.are_reported(now) {
            // The next workload may be another one.
            self.pursuit.forget();
        }
        let mode = self.read_back(input, now);
        let waits = self.stay.set.is_none() && self.stay.requested.is_some();
        let wanted = self.modes.point(self.stay.at).map(|point| point.mode);
        if waits && wanted.is_some() && mode == wanted {
            self.arrive(now);
        }
        let is_blind = self.take_sample(input.sample.as_ref(), now);
        self.plan_sample(now);
        if self.modes.front().points().is_empty() {
            return Command::Keep;
        }
        if let Some(command) = self.check_mode(mode, input.refused, now) {
            return command;
        }
        self.decide(is_blind, now, passed)
    }

    /// Gives the board to another program. The workload may be another one afterwards, so the next
    /// [`step`](Self::step) sets a mode that fits the limit both by what was learned and by the
    /// prediction alone.
    pub fn release(&mut self) {
        self.begin();
        self.was_released = true;
    }

    /// Takes the observations while the clocks follow a change of the mode, for boards on which they
    /// take long: books the energy, and decides nothing. [`Input::mode`] and [`Input::steps`] are
    /// ignored. Afterwards, [`step`](Self::step) gets the mode.
    pub fn await_mode(&mut self, input: &Input) {
        let (now, _) = self.observe_board(input);
        self.take_sample(input.sample.as_ref(), now);
    }

    /// Takes the time and the board's condition.
    fn observe_board(&mut self, input: &Input) -> (Milliseconds, u64) {
        let passed = self.advance(input);
        let now = self.clock.now();
        self.allowance
            .derate(input.over_current || input.too_hot, now);
        self.load.smooth(input.gpu_load, passed);
        self.load.phase = input.phase;
        (now, passed)
    }

    /// Takes the observations while another program controls the board, at least once a second:
    /// books the energy, and learns nothing. [`Input::mode`] and [`Input::steps`] are ignored. The
    /// first call [releases](Self::release) the board.
    pub fn watch(&mut self, input: &Input) {
        let (now, _) = self.observe_board(input);
        if !self.was_released {
            self.release();
        }
        self.take_sample(input.sample.as_ref(), now);
        self.stay.measured = self.sensor.estimator.mean(self.window);
    }

    /// Chooses the window, and makes the estimator remember energies as finely as it needs.
    fn follow_window(&mut self) {
        self.window = self.settings.held_window();
        self.sensor.estimator.set_span(self.window);
    }

    /// Makes the next step set a first mode.
    fn begin(&mut self) {
        self.state = State::Booting;
        self.stay = Stay {
            at: self.stay.at,
            ..Stay::NONE
        };
        self.sensor.forget();
    }

    /// Advances the time, and returns how many ms passed. After a gap the power is unknown. For a
    /// gap of known length, the highest likely energy is booked.
    fn advance(&mut self, input: &Input) -> u64 {
        let passed = self.clock.advance(input.now);
        let now = self.clock.now();
        let ms = match passed {
            Passed::Steadily(ms) => ms,
            Passed::Asleep => {
                let gap = now.since(self.sensor.booked_at).0;
                self.book_gap(now);
                gap
            }
            Passed::Unknown => 0,
        };
        if !matches!(passed, Passed::Steadily(_)) {
            self.end_phase();
            // The load may go on after the gap.
            if let Some(jump) = self.load.jump.take()
                && jump.carried > 0.0
            {
                self.load.memory.record(jump.level);
            }
            self.load.busy = None;
            self.begin();
            self.sensor.liveness = Liveness::new(now);
        }
        self.steps_up.pass(ms);
        ms
    }
}

fn check<const N: usize>(front: &Front<N>) -> Result<(), GovernorError> {
    if matches!(front.refusal(), Some(Refusal::Guard(_))) {
        return Err(GovernorError::Confidence);
    }
    if !front.has_power() {
        return Err(GovernorError::NoPower);
    }
    match front.points().is_empty() {
        true => Err(GovernorError::EmptyFront),
        false => Ok(()),
    }
}

/// Rounded up.
pub(super) fn milliwatts(power: f32) -> Milliwatts {
    Milliwatts(libm::ceilf(power) as u32)
}

pub(super) fn after(now: Milliseconds, ms: u64) -> Milliseconds {
    Milliseconds(now.0.saturating_add(ms))
}
