//! The state of a governor, and its step.

use super::allowance::Allowance;
use super::interface::{Command, GovernorError, Input, Limit, Settings, State, Status};
use super::knowledge::Knowledge;
use super::liveness::Liveness;
use super::memory::{Memory, Work};
use super::noise::Noise;
use super::steps::Steps;

use crate::estimator::{Chip, Estimator, MOST_CHIPS};
use crate::front::Front;
use crate::grid::ModeId;
use crate::units::{Milliseconds, Milliwatts};

/// The limit holds for the mean power over this time.
pub const SPAN: Milliseconds = Milliseconds(430);

/// Ups that may come one after another, at the start and under another limit.
pub const UPS: u32 = 8;

/// Afterwards one up may come in so long. Limits that follow each other sooner bring no more.
pub const UP_EVERY: Milliseconds = Milliseconds(30_000);

/// A full store of them.
pub const ALL_UPS: u64 = UPS as u64 * UP_EVERY.0;

/// A longer time from one step to the next leaves nothing known of the power: the board slept.
pub const LONGEST_GAP: Milliseconds = Milliseconds(5_000);

/// Clocks follow within this time after they are set (platform reference, section 8: 8 ms).
pub const FOLLOWS: u64 = 20;

/// Before a phase has begun.
pub const NO_PHASE: (f32, u64) = (0.0, 0);

/// The error of a mode is told from the mean over this time at first, and then over times twice as
/// long each, up to the last one.
pub const TOLD_FIRST: u64 = 900;
pub const TOLD_LAST: u64 = 8_000;

/// What a jump has told of the load counts for so long; then what was measured since.
pub const JUMP_COUNTS: Milliseconds = Milliseconds(3_000);

/// A mean that the next one is compared with, and the one before it, which it is compared with itself.
#[derive(Clone, Copy, Debug)]
pub struct Compared {
    pub at: Milliseconds,
    pub mean: f32,
    pub before: Option<f32>,
}

/// A steady load in a mode.
#[derive(Clone, Copy, Debug)]
pub struct Steady {
    pub from: Milliseconds,
    /// In µJ, up to then.
    pub energy: u64,
    pub gpu: Option<u16>,
    /// The mean power in mW of the span before, where a long phase is measured anew.
    pub before: Option<f32>,
}

/// A step of the load that led over the limit.
#[derive(Clone, Copy, Debug)]
pub struct Jump {
    pub at: Milliseconds,
    /// The level of the load, as far as it was told.
    pub level: f32,
    /// The level that the mode could have carried.
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
    /// The point of the front that is wanted.
    pub(super) at: usize,
    /// The point that was wanted before.
    pub(super) before: Option<usize>,
    /// The mode is as wanted since then.
    pub(super) since: Option<Milliseconds>,
    /// When the look after the last one without a sample was due.
    pub(super) missed: Milliseconds,
    /// The last step, and when the next one is due.
    pub(super) last: Option<Milliseconds>,
    pub(super) due: Milliseconds,
    /// The mean over [`SPAN`] in the mode.
    pub(super) measured: Option<f32>,
    /// The level of the load before the mode was set, if it was steady, with the GPU's load.
    pub(super) reference: Option<(f32, Option<u16>)>,
    pub(super) steady: Option<Steady>,
    /// The error of the mode is to be told; and the time in it when it is told next, in ms.
    pub(super) is_new: bool,
    pub(super) told_next: u64,
    /// The mode was set as one of the few least, which are tried before the limit is too low.
    pub(super) is_trial: bool,
    /// The last jump, while it counts.
    pub(super) jump: Option<Jump>,
    /// The highest level of jumps that were too short to matter.
    pub(super) short: f32,
    /// The highest level that was measured since the last jump.
    pub(super) since_jump: f32,
    /// Of the present phase, while it is short: its level, and the time in ms that this is the mean
    /// over; and the number of short phases near the highest level.
    pub(super) short_phase: (f32, u64),
    pub(super) seen: f32,
    pub(super) noise: Noise,
    pub(super) compared: Option<Compared>,
    pub(super) work: Work,
    /// The GPU's load in permille, smoothed.
    pub(super) gpu: Option<u16>,
    pub(super) steps: Steps,
    /// Since when a step of the load is suspected.
    pub(super) suspected: Option<Milliseconds>,
    /// Failures to set the mode, and modes that could not be set, in a row.
    pub(super) failures: u8,
    pub(super) modes_failed: u8,
    /// When a mode was last left out.
    pub(super) left_out: Milliseconds,
    /// When the mode was last asked for; `None` before the first one.
    pub(super) asked: Option<Milliseconds>,
    /// Ups in store, in milliseconds of [`UP_EVERY`], and when another limit has filled the store.
    pub(super) ups: u64,
    pub(super) filled: Milliseconds,
    /// The level at the last up.
    pub(super) level_at_up: f32,
    /// Energy that is accounted for in µJ, and until when.
    pub(super) booked: u64,
    pub(super) booked_at: Milliseconds,
    pub(super) violations: u32,
    pub(super) over: Milliseconds,
    pub(super) changes: u32,
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
            steps: Steps::NONE,
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
        if let (Some(steps), Some(point)) = (input.steps, self.modes.point(self.at)) {
            self.steps.see(steps, point.time, now);
        }
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

pub(super) fn after(now: Milliseconds, ms: u64) -> Milliseconds {
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
}
