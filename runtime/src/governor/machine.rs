//! The state of a governor, and its step function.

use super::allowance::Allowance;
use super::interface::{Command, GovernorError, Input, Limit, Settings, State, Status};
use super::knowledge::{Knowledge, RATIO_RANGE};
use super::liveness::Liveness;
use super::memory::{Memory, Work};
use super::noise::Noise;
use super::steps::Steps;

use crate::estimator::{Chip, Estimator, MOST_CHIPS};
use crate::front::{Front, Refusal};
use crate::grid::ModeId;
use crate::units::{Milliseconds, Milliwatts};

/// The limit applies to the mean power over this time.
pub const SPAN: Milliseconds = Milliseconds(430);

/// Capacity of the token bucket of steps up. It is full at the start and after a change of the
/// limit.
pub const UPS: u32 = 8;

/// Refill time of one step up. A new limit fills the bucket at most once in this time.
pub const UP_EVERY: Milliseconds = Milliseconds(30_000);

/// A full token bucket, in ms of refill time.
pub const ALL_UPS: u64 = UPS as u64 * UP_EVERY.0;

/// Maximum time between steps. After a longer gap the board has slept, and its power is unknown.
pub const LONGEST_GAP: Milliseconds = Milliseconds(5_000);

/// Time in ms within which clocks follow a mode change (platform reference, section 8: 8 ms).
pub const CLOCK_DELAY_MS: u64 = 20;

/// No phase has begun.
pub const NO_PHASE: (f32, u64) = (0.0, 0);

/// Averaging time in ms of the first estimate of a mode's error. It doubles with each further
/// estimate, up to the second value.
pub const FIRST_ESTIMATE_MS: u64 = 900;
pub const LAST_ESTIMATE_MS: u64 = 8_000;

/// The level of a jump counts for this time; afterwards the levels measured since count.
pub const JUMP_LIFETIME: Milliseconds = Milliseconds(3_000);

/// A mean to compare with the next one, and the previous mean to compare it with.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    pub at: Milliseconds,
    pub mean: f32,
    pub before: Option<f32>,
}

/// A span of steady load in one mode.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    pub from: Milliseconds,
    /// Energy booked up to `from`, in µJ.
    pub energy: u64,
    pub gpu: Option<u16>,
    /// Mean power in mW of the previous span of a long phase.
    pub before: Option<f32>,
}

/// A step of the load that exceeded the limit.
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    pub at: Milliseconds,
    /// The estimated level of the load.
    pub level: f32,
    /// The highest level that the mode could carry.
    pub carried: f32,
}

/// Holds a limit over the modes of a front of at most `N` points.
#[derive(Clone, Debug)]
pub struct Governor<const N: usize> {
    pub(super) settings: Settings,
    pub(super) modes: Knowledge<N>,
    pub(super) allowance: Allowance,
    pub(super) estimator: Estimator,
    pub(super) memory: Memory,
    pub(super) liveness: Liveness,
    pub(super) state: State,
    /// Index of the wanted point of the front.
    pub(super) at: usize,
    /// Index of the point that was wanted before.
    pub(super) before: Option<usize>,
    /// Since when the wanted mode is set.
    pub(super) since: Option<Milliseconds>,
    /// When the look after the last missing sample was due.
    pub(super) missed: Milliseconds,
    /// The last step, and when the next one is due.
    pub(super) last: Option<Milliseconds>,
    pub(super) due: Milliseconds,
    /// The mean over [`SPAN`] in the present mode.
    pub(super) measured: Option<f32>,
    /// The level of the load before the mode change, if it was steady, with the GPU's load.
    pub(super) reference: Option<(f32, Option<u16>)>,
    pub(super) steady: Option<Steady>,
    /// Whether the error of the mode is still to be estimated, and the time in the mode at which
    /// the next estimate is due, in ms.
    pub(super) is_new: bool,
    pub(super) next_estimate_ms: u64,
    /// Whether the mode is one of the few of least power that are tried before the limit is too
    /// low.
    pub(super) is_trial: bool,
    /// The last jump, while it counts.
    pub(super) jump: Option<Jump>,
    /// The highest level of jumps that were too short to matter.
    pub(super) harmless_level: f32,
    /// The highest level that was measured since the last jump.
    pub(super) level_since_jump: f32,
    /// The level of the present short phase and its averaging time in ms, and the number of short
    /// phases near the highest level.
    pub(super) short_phase: (f32, u64),
    pub(super) peak_count: f32,
    pub(super) noise: Noise,
    pub(super) compared: Option<Compared>,
    pub(super) work: Work,
    /// Whether the board runs slower than its mode.
    pub(super) is_throttled: bool,
    /// The GPU's load in permille, smoothed.
    pub(super) gpu: Option<u16>,
    pub(super) steps: Steps,
    /// Since when a step of the load is suspected.
    pub(super) suspected: Option<Milliseconds>,
    /// Successive failures to set the mode, and successive modes that could not be set.
    pub(super) failures: u8,
    pub(super) modes_failed: u8,
    /// When a mode was last marked as failed.
    pub(super) failed_at: Milliseconds,
    /// When the mode was last requested; `None` before the first request.
    pub(super) requested: Option<Milliseconds>,
    /// Whether another program controlled the board since then.
    pub(super) was_released: bool,
    /// Tokens for steps up, in ms of [`UP_EVERY`], and when a new limit last filled the bucket.
    pub(super) ups: u64,
    pub(super) filled: Milliseconds,
    /// The level at the last up.
    pub(super) level_at_up: f32,
    /// Energy booked so far in µJ, and the time up to which it is booked.
    pub(super) booked: u64,
    pub(super) booked_at: Milliseconds,
    pub(super) violations: u32,
    pub(super) over: Milliseconds,
    pub(super) changes: u32,
}

impl<const N: usize> Governor<N> {
    /// Creates a governor without observations. Its first command sets the first mode.
    pub fn new(front: Front<N>, settings: Settings, limit: Limit) -> Result<Self, GovernorError> {
        check(&front, &settings)?;
        let modes = Knowledge::new(front);
        Ok(Self {
            memory: Memory::new(settings.memory, modes.first_level()),
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
            next_estimate_ms: FIRST_ESTIMATE_MS,
            jump: None,
            harmless_level: 0.0,
            level_since_jump: 0.0,
            short_phase: NO_PHASE,
            peak_count: 1.0,
            noise: Noise::new(),
            compared: None,
            work: Work::None,
            is_throttled: false,
            gpu: None,
            steps: Steps::NONE,
            suspected: None,
            failures: 0,
            modes_failed: 0,
            failed_at: Milliseconds(0),
            requested: None,
            was_released: false,
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

    /// Replaces the limit. Everything learned stays.
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

    /// The power of the highest load that is remembered, in the present mode or in the measured one next to it;
    /// `None` if no mode was measured.
    pub fn highest_load(&self) -> Option<(ModeId, Milliwatts)> {
        let points = 0..self.modes.front().points().len();
        let measured = points.filter(|&index| self.modes.is_measured(index));
        let index = measured.min_by_key(|index| index.abs_diff(self.at))?;
        let power = self.modes.expected(index, self.memory.highest());
        Some((self.modes.point(index)?.mode, Milliwatts(power as u32)))
    }

    /// Counts on a load whose power is this multiple of the predictions, as if it had been measured. Call it after
    /// [`Self::set_front`] with what [`Self::highest_load`] draws by the new front's model.
    pub fn expect_load(&mut self, ratio: f32) {
        let (least, most) = RATIO_RANGE;
        // A NaN counts as the least.
        self.memory.record(ratio.max(least).min(most));
    }

    /// Replaces the front, for instance with that of another workload's model. Exclusions and
    /// measurements are forgotten; booked energy and counters stay.
    pub fn set_front(&mut self, front: Front<N>) -> Result<(), GovernorError> {
        check(&front, &self.settings)?;
        self.modes = Knowledge::new(front);
        self.forget_load();
        self.begin();
        Ok(())
    }

    /// Replaces the front by another one of the same model, such as that of the modes that the board can
    /// still be set to. What was learned of the load, and of modes that both fronts have, stays.
    pub fn set_modes(&mut self, front: Front<N>) -> Result<(), GovernorError> {
        check(&front, &self.settings)?;
        let mode = self.modes.point(self.at).map(|point| point.mode);
        self.modes.replace(front);
        let points = self.modes.front().points();
        let same = points.iter().position(|point| Some(point.mode) == mode);
        (self.at, self.is_new, self.steady) = (same.unwrap_or(0), true, None);
        // A jump of the load goes on.
        let jump = self.jump;
        self.begin();
        self.jump = jump;
        Ok(())
    }

    /// Sets the time constant of a chip of the sensor, within the range of [`Chip::time_constant`].
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

    /// Sets the steps and the offset of the sensor in mW, as in [`Chip::step`] and
    /// [`Settings::sensor_offset`]. The allowed power follows at once. Everything learned stays.
    pub fn set_sensor_steps(&mut self, steps: [Milliwatts; MOST_CHIPS], offset: Milliwatts) {
        for (chip, step) in self.settings.chips.iter_mut().zip(steps) {
            chip.step = step;
        }
        self.settings.sensor_offset = offset;
        self.estimator.set_steps(steps);
    }

    /// Excludes a mode, for instance one that the board cannot set without a reboot.
    pub fn exclude(&mut self, mode: ModeId) {
        self.modes.exclude(mode);
    }

    /// The front that the governor chooses from.
    pub fn front(&self) -> &Front<N> {
        self.modes.front()
    }

    /// The mode that the governor starts with: the fastest mode whose guarded prediction is within
    /// the limit; `None` if there is none.
    pub fn first(&self) -> Option<ModeId> {
        let first = self.fastest_predicted()?;
        self.modes.point(first).map(|point| point.mode)
    }

    /// The present status.
    pub fn status(&self) -> Status {
        let point = self.modes.point(self.at);
        let estimate = self
            .estimator
            .estimate()
            .filter(|_| !self.liveness.is_blind());
        let is_unknown = self.modes.front().is_unknown();
        let (ratio, predicted) = match point.filter(|_| !is_unknown) {
            Some(point) => (
                self.modes.error(self.at).0 * self.memory.highest(),
                point.power,
            ),
            None => (0.0, Milliwatts(0)),
        };
        Status {
            state: self.state,
            mode: point.map_or(ModeId(0), |point| point.mode),
            allowed: self.allowance.reading(&self.settings),
            measured: self.measured.map(milliwatts),
            power: estimate.map(|estimate| milliwatts(estimate.power)),
            millijoules: self.booked / 1_000,
            over: self.over,
            predicted,
            ratio: (ratio * 65_536.0) as u32,
            violations: self.violations,
            changes: self.changes,
        }
    }

    /// The mode to leave on the board when nobody measures any more: the fastest one, none faster than the present
    /// one, in which the highest load that is remembered fits every limit; else the mode of least power.
    pub fn resting(&self) -> Option<ModeId> {
        let now = self.last.unwrap_or(Milliseconds(0));
        let allowed = self.allowance.lasting(&self.settings).0 as f32;
        let phase = self.phase(now).max(1.0);
        let is_known = !self.liveness.is_blind() && !matches!(self.state, State::Safe(_));
        let rest = self
            .modes
            .fastest(|index| is_known && index <= self.at && self.bound(index, phase) <= allowed);
        let point = self.modes.point(rest.or_else(|| self.least())?)?;
        Some(point.mode)
    }

    /// When the next step is due after a [`Command::Keep`]. An earlier step does no harm. After a
    /// [`Command::Apply`] a step is due as soon as the mode is set.
    pub fn due(&self) -> Milliseconds {
        self.due
    }

    /// Takes the observations of the board and returns the command to carry out.
    pub fn step(&mut self, input: &Input) -> Command {
        let (now, passed) = self.observe_board(input);
        if let (Some(steps), Some(point)) = (input.steps, self.modes.point(self.at)) {
            self.steps.record(steps, point.time, now);
        }
        self.is_throttled = input.throttled;
        let arrives = self.is_set(input) && self.since.is_none() && self.requested.is_some();
        if arrives {
            self.arrive(now);
        }
        let is_blind = self.take_sample(input.sample.as_ref(), now);
        self.plan_look(now);
        if let Some(command) = self.check_mode(input, now) {
            return command;
        }
        self.decide(is_blind, now, passed)
    }

    /// Gives the board to another program. The workload may be another one afterwards, so the next
    /// [`step`](Self::step) sets a mode that fits the limit both by what was learned and by the
    /// prediction alone.
    pub fn release(&mut self) {
        self.begin();
        // A span of steady load belongs to one mode.
        (self.steady, self.was_released) = (None, true);
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
        let (now, passed) = self.advance(input);
        self.allowance
            .derate(input.over_current || input.too_hot, now);
        self.smooth_load(input.gpu_load, passed);
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
        self.measured = self.estimator.mean(SPAN);
    }
}

fn check<const N: usize>(front: &Front<N>, settings: &Settings) -> Result<(), GovernorError> {
    if matches!(front.refusal(), Some(Refusal::Guard(_))) {
        return Err(GovernorError::Confidence);
    }
    if !front.has_power() {
        return Err(GovernorError::NoPower);
    }
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

pub(super) fn after(now: Milliseconds, ms: u64) -> Milliseconds {
    Milliseconds(now.0.saturating_add(ms))
}

impl<const N: usize> Governor<N> {
    /// Makes the next step set a first mode.
    fn begin(&mut self) {
        self.state = State::Booting;
        (self.requested, self.since, self.before) = (None, None, None);
        (self.measured, self.reference, self.jump) = (None, None, None);
        self.estimator.forget();
    }

    fn forget_load(&mut self) {
        self.memory = Memory::new(self.settings.memory, self.modes.first_level());
        (self.harmless_level, self.peak_count) = (0.0, 1.0);
        (self.at, self.is_new) = (0, true);
    }

    /// Advances the time. A time that runs backwards stands still. After a gap the power is
    /// unknown, and the highest likely energy is booked.
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
            self.book_gap(now);
            self.begin();
            self.liveness = Liveness::new(now);
        }
        self.ups = self.ups.saturating_add(passed).min(ALL_UPS);
        (now, passed)
    }
}
