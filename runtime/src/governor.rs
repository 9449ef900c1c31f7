//! The governor: holds a power limit by choosing among the modes of a front, measuring, and
//! correcting.
//!
//! # Theory of operation
//!
//! A governor is a pure state machine. Whoever runs it calls [`Governor::step`] with the time
//! and what is known of the board, carries out the [`Command`], and says in the next step which
//! mode the board is in. Nothing else is assumed: no clock, no memory but its own, no heap.
//!
//! **Feed-forward.** The model predicts the power of every mode; the governor starts in one whose
//! prediction fits the limit even if the model is wrong by [`Settings::distrust`].
//!
//! **Feedback.** A *result* of the sensor is its mean over one *period*. One that began after the
//! last change of the mode, or for a third of it at most before, is *full*: it tells what the mode
//! draws, and with that the *ratio* of measured over predicted power. The ratio of a mode holds for that mode closely, for others the
//! less the further their power is away ([`Governor`] adds a margin that grows from
//! [`Settings::near_margin`] to the model's guard band). All ratios move together with that of the
//! present mode: that is drift, as by temperature.
//!
//! **Slack** is used by *probing*: a faster mode is tried when its power fits the limit with that
//! margin, so never past the limit as far as is known. What a probe measures stays known. Ups are
//! rationed ([`UPS`], [`UP_EVERY`]), which bounds the changes of every minute.
//!
//! **Over the limit** the governor goes down at once and in one move: to the fastest mode that
//! fits by what was just measured. A result that is far from what was expected means that the
//! workload has changed: what was known is forgotten and the move is the deeper, by half of the
//! surprise. A result that is not full counts too where it is over the limit and the mode before
//! was not.
//!
//! **Not knowing.** Without a new result the last one is taken to have risen by
//! [`Settings::slew`]; after [`Settings::patience`] the governor goes to the *safe mode*, that of
//! the least predicted power. A result that no mode can explain is none. Results bring it back.
//!
//! ```text
//!            full result                     faster mode fits
//!  Booting ──────────────► Tracking ─────────────────────────────► ProbingUp
//!     ▲                     ▲   │  ▲                                  │  │
//!     │ long gap       full │   │  └───────────── full, within ───────┘  │
//!     │ in time      within │   │ over the limit                         │ over
//!     │                     │   ▼                                        │
//!     │                  SteppingDown ◄──────────────────────────────────┘
//!     │                         │ no result for too long, no mode fits,
//!     └──────── Safe ◄──────────┘ nothing can be applied (from every state)
//! ```
//!
//! The daemon or the firmware keeps the board in the safe mode whenever it does not run this.

use heapless::Vec;

use crate::front::{Front, Point};
use crate::grid::ModeId;
use crate::units::{Confidence, Milliseconds, Milliwatts};

/// Ups that may come one after another.
pub const UPS: u32 = 4;

/// Afterwards one up may come in so long.
pub const UP_EVERY: Milliseconds = Milliseconds(20_000);

/// One in units of 1/65,536 (Q16), in which all ratios are.
const ONE: u32 = 1 << 16;

/// Ratios of measured over predicted power lie within 1/8 … 8; beyond, a result is absurd.
const MOST_RATIO: u32 = 8 * ONE;
const LEAST_RATIO: u32 = ONE / 8;

/// A full result that differs from what was expected by more than this part means another workload.
const SURPRISE: u32 = ONE / 8;

/// A move down that was not enough is followed by one that goes this part of the limit further.
const AGAIN: u32 = ONE / 10;

/// After so many failures in a row a mode is left out, and after so many modes in a row all are.
const RETRIES: u8 = 2;
const MODES_TRIED: u8 = 3;

/// Between two attempts to reach the safe mode.
const RETRY_EVERY: Milliseconds = Milliseconds(1_000);

/// For so long a mode is left out.
const LEFT_OUT: Milliseconds = Milliseconds(60_000);

/// A longer time from one step to the next leaves nothing known: the board slept.
const LONGEST_GAP: Milliseconds = Milliseconds(5_000);

/// What over-current events and heat take from the limit at once, and how long it lasts.
const DERATE: u32 = ONE / 10;
const DERATE_EVERY: Milliseconds = Milliseconds(2_000);
const DERATE_LASTS: Milliseconds = Milliseconds(60_000);
const MOST_DERATE: u32 = ONE / 2;

/// What a governor knows of its board. Ratios are in units of 1/65,536 (Q16).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Confidence of the guard band in which the margin of distant modes ends.
    pub confidence: Confidence,
    /// From one result of the sensor to the next; each is the mean over this time.
    pub period: Milliseconds,
    /// Greatest error of the sensor that is proportional to the power.
    pub sensor_gain: u32,
    /// Greatest error of the sensor beside that.
    pub sensor_offset: Milliwatts,
    /// How far the model may be off before anything was measured.
    pub distrust: u32,
    /// Margin of a mode that was not measured, beside one that was.
    pub near_margin: u32,
    /// Rise of the power in a second that is assumed while there is no result.
    pub slew: u32,
    /// The time without a result after which nothing is known.
    pub patience: Milliseconds,
}

impl Default for Settings {
    /// An INA3221 as L4T sets it: 512 samples, 430 ms, gain within 0.25 %.
    fn default() -> Self {
        Self {
            confidence: Confidence::P95,
            period: Milliseconds(430),
            sensor_gain: ONE / 400,
            sensor_offset: Milliwatts(0),
            distrust: ONE * 3 / 10,
            near_margin: ONE * 3 / 100,
            slew: ONE / 50,
            patience: Milliseconds(1_700),
        }
    }
}

/// What must not be exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// At any time, by the sensor's mean over one period.
    pub power: Milliwatts,
    /// On average over a longer time.
    pub average: Option<Average>,
}

/// A budget of energy: `power` × `window` over any `window`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Average {
    /// The mean power.
    pub power: Milliwatts,
    /// The time over which it is taken, at least one second.
    pub window: Milliseconds,
}

/// A reading of the power sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Of the whole module.
    pub power: Milliwatts,
    /// Differs from that of the sample before where the sensor has a new result.
    pub result: u32,
}

/// What is known of the board at a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Input {
    /// Time since any start. It does not stand still while the board sleeps.
    pub now: Milliseconds,
    /// The sensor; `None` where it cannot be read.
    pub sample: Option<Sample>,
    /// The mode that was read back; `None` where it is none of the front's.
    pub mode: Option<ModeId>,
    /// Over-current events since the last step.
    pub over_current: bool,
    /// A temperature is above its limit.
    pub too_hot: bool,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// Nothing.
    Keep,
    /// Set a mode.
    Apply(ModeId),
}

/// Why the governor is in the safe mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// No result of the sensor, or only repeated or absurd ones.
    NoSensor,
    /// Even the least mode is above the limit.
    LimitTooLow,
    /// No mode can be applied.
    NothingApplies,
}

/// What a governor is doing; see the picture above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The first mode is being set and measured.
    Booting,
    /// A mode is set and measured.
    Tracking,
    /// A slower mode was set and its first full result is awaited.
    SteppingDown,
    /// A faster mode was set and its first full result is awaited.
    ProbingUp,
    /// The safe mode.
    Safe(Cause),
}

/// What a governor shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// What it is doing.
    pub state: State,
    /// The mode that it wants.
    pub mode: ModeId,
    /// The power that is allowed now: the limit, or less for heat, over-current or an average.
    pub allowed: Milliwatts,
    /// The last full result.
    pub measured: Option<Milliwatts>,
    /// What the model says of the mode.
    pub predicted: Milliwatts,
    /// Measured over predicted power of the mode in Q16.
    pub ratio: u32,
    /// Results over the allowed power.
    pub violations: u32,
    /// Changes of the mode.
    pub changes: u32,
}

/// Holds a limit over the modes of a front of at most `N` points.
#[derive(Clone, Debug)]
pub struct Governor<const N: usize> {
    front: Front<N>,
    settings: Settings,
    limit: Limit,
    state: State,
    /// The point of the front that is wanted.
    at: usize,
    /// Measured over predicted power of each point in Q12, relative to `drift`; 0 where it was
    /// not measured, [`EXCLUDED`] where it cannot be set.
    known: Vec<u16, N>,
    /// Common to all ratios, in Q16.
    drift: u32,
    /// Mean distance of a full result from the one before, in Q16 of its size.
    noise: u32,
    /// The mode is as wanted since then.
    since: Option<Milliseconds>,
    /// The last step.
    last: Option<Milliseconds>,
    /// The number of the last result, and when it came.
    result: Option<(u32, Milliseconds)>,
    /// The last full result.
    measured: Option<Milliwatts>,
    /// The last result.
    old: Milliwatts,
    /// Failures to set the mode, and modes that could not be set, in a row.
    failures: u8,
    modes_failed: u8,
    /// When a mode was last left out.
    left_out: Milliseconds,
    /// When the mode was last asked for; `None` before the first one.
    asked: Option<Milliseconds>,
    /// When the first mode was asked for, or the first after a sleep.
    started: Milliseconds,
    /// Ups in store, in milliseconds of [`UP_EVERY`].
    ups: u64,
    /// Taken from the limit for heat and over-current, in Q16, and when it changed.
    derate: u32,
    derated: Milliseconds,
    average: Spent,
    /// Results over what is allowed in a row, and all of them.
    overs: u8,
    violations: u32,
    changes: u32,
}

/// The marks of a point that must not be set, and of one that could not be set lately.
const EXCLUDED: u16 = u16::MAX;
const FAILED: u16 = EXCLUDED - 1;

/// A governor needs a mode to choose, and a front with power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GovernorError {
    /// The front has no point.
    EmptyFront,
    /// The model does not predict power.
    NoPower,
    /// The guard band does not reach the confidence.
    Confidence,
}

impl<const N: usize> Governor<N> {
    /// A governor that has seen nothing yet. Its first command sets the first mode.
    pub fn new(front: Front<N>, settings: Settings, limit: Limit) -> Result<Self, GovernorError> {
        let guard = front.power_guard().ok_or(GovernorError::NoPower)?;
        let guard = guard.factor(settings.confidence);
        guard.map_err(|_| GovernorError::Confidence)?;
        if front.points().is_empty() {
            return Err(GovernorError::EmptyFront);
        }
        let mut known = Vec::new();
        // A front has at most as many points.
        let _ = known.resize(front.points().len(), 0);
        Ok(Self {
            front,
            settings,
            limit,
            state: State::Booting,
            at: 0,
            known,
            drift: ONE,
            noise: ONE / 100,
            since: None,
            last: None,
            result: None,
            measured: None,
            old: Milliwatts(0),
            failures: 0,
            modes_failed: 0,
            left_out: Milliseconds(0),
            asked: None,
            started: Milliseconds(0),
            ups: u64::from(UPS) * UP_EVERY.0,
            derate: 0,
            derated: Milliseconds(0),
            average: Spent::new(limit.average),
            overs: 0,
            violations: 0,
            changes: 0,
        })
    }

    /// Another limit from now on. What was learned stays.
    pub fn set_limit(&mut self, limit: Limit) {
        if self.limit.average != limit.average {
            self.average = Spent::new(limit.average);
        }
        self.limit = limit;
    }

    /// A mode that is never to be chosen: the board cannot set it, or only by a reboot.
    pub fn exclude(&mut self, mode: ModeId) {
        let points = self.front.points().iter().zip(&mut self.known);
        for (_, known) in points.filter(|(point, _)| point.mode == mode) {
            *known = EXCLUDED;
        }
    }

    /// The front that it chooses from.
    pub fn front(&self) -> &Front<N> {
        &self.front
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        let point = self.point(self.at);
        Status {
            state: self.state,
            mode: point.map_or(ModeId(0), |point| point.mode),
            allowed: self.allowed(),
            measured: self.measured,
            predicted: point.map_or(Milliwatts(0), |point| point.power),
            ratio: self.ratio_of(self.at),
            violations: self.violations,
            changes: self.changes,
        }
    }

    /// One step. To be called when the sensor may have a new result, and at least twice in a
    /// period.
    pub fn step(&mut self, input: &Input) -> Command {
        let now = self.advance(input);
        self.derate(input, now);
        let full = self.take_sample(input, now);
        if let Some(command) = self.check_mode(input, now) {
            return command;
        }
        self.decide(full, now)
    }
}

/// The parts of a window in which energy is counted.
const SLOTS: usize = 16;

/// Energy that was spent in the last window of an [`Average`]. Before its start, the mean power is
/// taken to have been drawn.
#[derive(Clone, Debug)]
struct Spent {
    /// In mJ, in each part of the window.
    slots: [u64; SLOTS],
    /// The present one, and how much of it is over, in ms.
    slot: usize,
    elapsed_ms: u64,
    /// The length of a slot in ms, and the budget of one in mJ.
    slot_ms: u64,
    budget: u64,
    /// The mean power of the present slot; `None` without an average.
    allowance: Option<Milliwatts>,
}

impl Spent {
    fn new(average: Option<Average>) -> Self {
        let power = average.map_or(0, |average| u64::from(average.power.0));
        let window = average.map_or(0, |average| average.window.0);
        let slot_ms = (window / SLOTS as u64).clamp(60, 1 << 40);
        let budget = power.saturating_mul(slot_ms) / 1_000;
        Self {
            slots: [budget; SLOTS],
            slot: 0,
            elapsed_ms: 0,
            slot_ms,
            budget,
            allowance: average.map(|average| average.power),
        }
    }

    /// A power in mW was drawn for some time in ms.
    fn spend(&mut self, milliwatts: u32, milliseconds: u64) {
        if self.allowance.is_none() {
            return;
        }
        let energy = u64::from(milliwatts).saturating_mul(milliseconds) / 1_000;
        if let Some(slot) = self.slots.get_mut(self.slot) {
            *slot = slot.saturating_add(energy);
        }
        self.elapsed_ms = self.elapsed_ms.saturating_add(milliseconds);
        if self.elapsed_ms >= self.slot_ms {
            self.begin_slot();
        }
    }

    /// The oldest slot becomes the present one. What it frees may be spent, and a quarter of what
    /// is left; what is overspent is saved at once.
    fn begin_slot(&mut self) {
        (self.slot, self.elapsed_ms) = ((self.slot + 1) % SLOTS, 0);
        let spent = self
            .slots
            .iter()
            .fold(0_u64, |sum, slot| sum.saturating_add(*slot));
        let window = self.budget.saturating_mul(SLOTS as u64);
        let oldest = self.slots.get_mut(self.slot).map_or(0, core::mem::take);
        let left = window.saturating_sub(spent) / 4;
        let over = spent.saturating_sub(window);
        let energy = oldest.saturating_add(left).saturating_sub(over);
        let power = energy.saturating_mul(1_000) / self.slot_ms.max(1);
        self.allowance = Some(Milliwatts(u32::try_from(power).unwrap_or(u32::MAX)));
    }
}

/// `value` × `q16` / 65,536, saturating.
fn scaled(value: u32, q16: u32) -> u32 {
    u32::try_from((u64::from(value) * u64::from(q16)) >> 16).unwrap_or(u32::MAX)
}

/// `a` / `b` in Q16, saturating.
fn ratio(a: u32, b: u32) -> u32 {
    let quotient = (u64::from(a) << 16).checked_div(u64::from(b));
    quotient.map_or(u32::MAX, |ratio| u32::try_from(ratio).unwrap_or(u32::MAX))
}

/// How far a ratio is from one, in Q16.
fn distance(ratio: u32) -> u32 {
    ratio.abs_diff(ONE)
}

/// What a sample tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    Nothing,
    /// The mean over a time that began before the mode was set.
    Partial(Milliwatts),
    Full(Milliwatts),
}

impl<const N: usize> Governor<N> {
    fn point(&self, index: usize) -> Option<&Point> {
        self.front.points().get(index)
    }

    /// The point of least power that can be set.
    fn least(&self) -> Option<usize> {
        self.known.iter().position(|known| *known < FAILED)
    }

    /// Lets time pass. A step backwards counts as none.
    fn advance(&mut self, input: &Input) -> Milliseconds {
        let last = self.last.unwrap_or(input.now);
        let now = input.now.max(last);
        let elapsed = now.since(last).0;
        if elapsed > LONGEST_GAP.0 {
            (self.state, self.asked, self.since) = (State::Booting, None, None);
            (self.result, self.measured) = (None, None);
        }
        self.ups = (self.ups + elapsed).min(u64::from(UPS) * UP_EVERY.0);
        let drawn = self.measured.map_or(self.bound(self.at), |power| power.0);
        self.average.spend(drawn, elapsed);
        now
    }

    fn derate(&mut self, input: &Input, now: Milliseconds) {
        let quiet = now.since(self.derated);
        if input.over_current || input.too_hot {
            if self.derate == 0 || quiet >= DERATE_EVERY {
                self.derate = (self.derate + DERATE).min(MOST_DERATE);
                self.derated = now;
            }
        } else if self.derate > 0 && quiet >= DERATE_LASTS {
            self.derate = self.derate.saturating_sub(DERATE);
            self.derated = now;
        }
    }

    /// The reading of the sensor up to which nothing is exceeded.
    fn allowed(&self) -> Milliwatts {
        let mut power = self.limit.power.0;
        if let Some(allowance) = self.average.allowance {
            power = power.min(allowance.0);
        }
        let power = scaled(power, ONE - self.derate);
        let power = power.saturating_sub(self.settings.sensor_offset.0);
        let gain = u64::from(ONE) + u64::from(self.settings.sensor_gain);
        let reading = (u64::from(power) << 16) / gain.max(1);
        Milliwatts(u32::try_from(reading).unwrap_or(u32::MAX))
    }

    fn take_sample(&mut self, input: &Input, now: Milliseconds) -> Taken {
        let before = self.last.replace(now);
        let Some(Sample { power, result }) = input.sample else {
            return Taken::Nothing;
        };
        let predicted = self.point(self.at).map_or(0, |point| point.power.0);
        let of_predicted = ratio(power.0, predicted);
        if self.result.is_some_and(|(last, _)| last == result)
            || !(LEAST_RATIO..=MOST_RATIO).contains(&of_predicted)
        {
            return Taken::Nothing;
        }
        let is_first = self.result.replace((result, now)).is_none();
        let old = self.old;
        self.old = power;
        let (Some(before), Some(since), Some(asked)) = (before, self.since, self.asked) else {
            return Taken::Partial(power);
        };
        // The result came between the step before and this one, and the mode was set between the
        // command and its read-back: so much of the period lies before the mode, at most and at
        // least.
        let period = self.settings.period;
        let most = Milliseconds(since.0.saturating_add(period.0))
            .since(before)
            .0;
        let least = Milliseconds(asked.0.saturating_add(period.0)).since(now).0;
        if is_first || 3 * most > period.0 {
            return Taken::Partial(power);
        }
        // power = (part before) · old + (the rest) · new; the greater of both answers counts.
        let new = |part: u64| {
            let rest = u64::from(power.0) * period.0;
            let rest = rest.saturating_sub(u64::from(old.0) * part);
            u32::try_from(rest / (period.0 - part).max(1)).unwrap_or(u32::MAX)
        };
        Taken::Full(Milliwatts(new(most).max(new(least))))
    }

    /// Sees to it that the board is in the wanted mode.
    fn check_mode(&mut self, input: &Input, now: Milliseconds) -> Option<Command> {
        let wanted = self.point(self.at)?.mode;
        self.asked?;
        if input.mode == Some(wanted) {
            (self.failures, self.modes_failed) = (0, 0);
            self.since.get_or_insert(now);
            if now.since(self.left_out) >= LEFT_OUT {
                for known in self.known.iter_mut().filter(|known| **known == FAILED) {
                    *known = 0;
                }
            }
            return None;
        }
        // It was set, so somebody else has changed it.
        if self.since.take().is_some() {
            self.asked = Some(now);
            return Some(Command::Apply(wanted));
        }
        self.failures = self.failures.saturating_add(1);
        if self.failures <= RETRIES {
            self.asked = Some(now);
            return Some(Command::Apply(wanted));
        }
        let others = self.known.iter().filter(|known| **known < FAILED);
        if self.modes_failed < MODES_TRIED && others.count() > 1 {
            if let Some(known) = self.known.get_mut(self.at) {
                *known = FAILED;
            }
            self.left_out = now;
            self.modes_failed += 1;
            let next = self.best(self.allowed(), self.at).or(self.least())?;
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

    fn decide(&mut self, taken: Taken, now: Milliseconds) -> Command {
        let allowed = self.allowed();
        if self.asked.is_none() {
            return self.boot(allowed, now);
        }
        match taken {
            Taken::Full(power) => {
                let surprise = self.learn(power);
                if power > allowed {
                    return self.go_down(allowed, self.of_workload(surprise), now);
                }
                self.overs = 0;
                if self.state != State::Safe(Cause::LimitTooLow) {
                    self.state = State::Tracking;
                }
            }
            Taken::Partial(power) if power > allowed && self.state != State::SteppingDown => {
                // The mean holds some of the time before, so that the mode draws even more.
                let of_expected = ratio(power.0, self.expected(self.at));
                let surprise = of_expected.saturating_sub(ONE).saturating_mul(2);
                self.remember(power);
                let surprise = self.of_workload(surprise);
                // What is known of other modes is too little by as much.
                let below = ratio(allowed.0, ONE.saturating_add(surprise));
                return self.go_down(Milliwatts(below), 0, now);
            }
            Taken::Partial(_) => {}
            Taken::Nothing => {
                if let Some(command) = self.without_result(allowed, now) {
                    return command;
                }
            }
        }
        self.follow(allowed, now)
    }

    /// The first mode, or the first after a sleep.
    fn boot(&mut self, allowed: Milliwatts, now: Milliseconds) -> Command {
        let cautious = scaled(allowed.0, ONE.saturating_sub(self.settings.distrust));
        let first = self.best(Milliwatts(cautious), usize::MAX).or(self.least());
        self.result = self.result.map(|(number, _)| (number, now));
        self.started = now;
        self.change(first.unwrap_or(0), State::Booting, now)
    }

    /// A probed mode may differ from its neighbours without another workload.
    fn of_workload(&self, surprise: u32) -> u32 {
        match self.state {
            State::ProbingUp if surprise <= 2 * SURPRISE => 0,
            _ => surprise,
        }
    }

    /// Keeps the ratio of the present point.
    fn remember(&mut self, power: Milliwatts) {
        let predicted = self.point(self.at).map_or(0, |point| point.power.0);
        let found = ratio(power.0, predicted).clamp(LEAST_RATIO, MOST_RATIO);
        let relative = (ratio(found, self.drift) >> 4).clamp(1, u32::from(FAILED) - 1);
        if let Some(known) = self.known.get_mut(self.at) {
            *known = relative as u16;
        }
    }

    /// Takes a full result over. Returns how far it is from what was expected, in Q16.
    fn learn(&mut self, power: Milliwatts) -> u32 {
        if let Some(last) = self.measured {
            let size = distance(ratio(power.0, last.0)).min(ONE / 10);
            self.noise = self.noise - self.noise / 8 + size / 8;
        }
        self.measured = Some(power);
        let predicted = self.point(self.at).map_or(0, |point| point.power.0);
        let found = ratio(power.0, predicted).clamp(LEAST_RATIO, MOST_RATIO);
        let knew = self.known.iter().any(|known| (1..FAILED).contains(known));
        let of_expected = ratio(found, self.ratio_of(self.at));
        let surprise = if knew { distance(of_expected) } else { 0 };
        let is_known = self.known.get(self.at).is_some_and(|known| *known != 0);
        if !knew || surprise > SURPRISE {
            for known in self.known.iter_mut().filter(|known| **known < FAILED) {
                *known = 0;
            }
            self.drift = found;
            // It may hold some of the workload before, so that it is no knowledge of this mode.
            if surprise > SURPRISE {
                return surprise;
            }
        } else if is_known {
            // Slowly, so that noise does not count as drift; at once where it is more power than
            // noise explains.
            let found = scaled(self.drift, of_expected);
            let noise = ONE + 3 * self.noise.max(ONE / 100);
            let kept = if of_expected > noise { 0 } else { 3 };
            let drift = (u64::from(self.drift) * kept + u64::from(found)) / (kept + 1);
            self.drift = (drift as u32).clamp(LEAST_RATIO, MOST_RATIO);
            return surprise;
        }
        self.remember(power);
        surprise
    }

    /// Measured over predicted power of a point in Q16, by the nearest that was measured.
    fn ratio_of(&self, index: usize) -> u32 {
        self.nearest(index).map_or(self.drift, |(_, ratio)| ratio)
    }

    /// The nearest point that was measured, with its ratio.
    fn nearest(&self, index: usize) -> Option<(usize, u32)> {
        let known = self.known.iter().enumerate();
        let measured = known.filter(|(_, known)| (1..FAILED).contains(*known));
        let (at, known) = measured.min_by_key(|(at, _)| at.abs_diff(index))?;
        Some((at, scaled(u32::from(*known) << 4, self.drift)))
    }

    /// The power of a point without any margin, in mW.
    fn expected(&self, index: usize) -> u32 {
        let predicted = self.point(index).map_or(u32::MAX, |point| point.power.0);
        scaled(predicted, self.ratio_of(index))
    }

    /// The power that a point stays below, in mW.
    fn bound(&self, index: usize) -> u32 {
        let predicted = self.point(index).map_or(u32::MAX, |point| point.power.0);
        let Some((near, ratio_near)) = self.nearest(index) else {
            let guard = self.guard();
            return scaled(scaled(predicted, self.drift), ONE + guard);
        };
        let mut margin = 3 * self.noise;
        if near != index {
            let beside = self.point(near).map_or(0, |point| point.power.0);
            let away = distance(ratio(predicted, beside));
            let growth = scaled(2 * self.guard(), away.min(ONE / 2));
            margin += self.settings.near_margin + growth;
        }
        scaled(scaled(predicted, ratio_near), ONE + margin)
    }

    /// The margin of the model's guard band, in Q16.
    fn guard(&self) -> u32 {
        let band = self.front.power_guard();
        let factor = band.and_then(|band| band.factor(self.settings.confidence).ok());
        factor.map_or(ONE, |factor| (factor.q16() - ONE).min(ONE))
    }

    /// The fastest point below a power that comes before another one.
    fn best(&self, power: Milliwatts, before: usize) -> Option<usize> {
        let mut points = (0..self.known.len().min(before)).rev();
        points.find(|&index| {
            self.known.get(index).is_some_and(|known| *known < FAILED)
                && self.bound(index) <= power.0
        })
    }

    /// Down at once, by half of a surprise further than it takes, and further each time in a row.
    fn go_down(&mut self, allowed: Milliwatts, surprise: u32, now: Milliseconds) -> Command {
        self.violations = self.violations.saturating_add(1);
        self.overs = self.overs.saturating_add(1);
        let again = u32::from(self.overs - 1) * AGAIN;
        let deeper = ONE - (surprise / 2 + again).min(ONE / 2);
        self.step_down(Milliwatts(scaled(allowed.0, deeper)), now)
    }

    fn step_down(&mut self, below: Milliwatts, now: Milliseconds) -> Command {
        // The next result has to be below: twice the margin for what was not measured.
        let surely = scaled(below.0, ONE.saturating_sub(self.settings.near_margin));
        let next = self.best(Milliwatts(surely), self.at).or(self.least());
        let Some(next) = next else {
            return Command::Keep;
        };
        if next < self.at {
            return self.change(next, State::SteppingDown, now);
        }
        Command::Keep
    }

    /// Power is taken to rise while nothing is heard of it.
    fn without_result(&mut self, allowed: Milliwatts, now: Milliseconds) -> Option<Command> {
        let heard = self
            .result
            .map_or(self.started, |(_, at)| at.max(self.started));
        let silent = now.since(heard);
        if silent >= self.settings.patience {
            let least = self.least()?;
            if self.state == State::Safe(Cause::NoSensor) {
                return None;
            }
            if least == self.at {
                self.state = State::Safe(Cause::NoSensor);
                return None;
            }
            return Some(self.change(least, State::Safe(Cause::NoSensor), now));
        }
        let overdue = silent.since(self.settings.period).0.min(60_000) as u32;
        let risen = ONE + scaled(self.settings.slew, overdue * 65).min(ONE);
        let assumed = scaled(self.measured?.0, risen);
        (assumed > allowed.0 && self.state == State::Tracking && overdue > 0)
            .then(|| self.step_down(Milliwatts(scaled(allowed.0, 2 * ONE - risen)), now))
    }

    /// Follows the limit: down where the present mode no longer fits, up where a faster one does.
    fn follow(&mut self, allowed: Milliwatts, now: Milliseconds) -> Command {
        let least = self.least().unwrap_or(0);
        if self.expected(least) > allowed.0 {
            if self.at != least {
                return self.change(least, State::Safe(Cause::LimitTooLow), now);
            }
            self.state = State::Safe(Cause::LimitTooLow);
            return Command::Keep;
        }
        if self.state == State::Safe(Cause::LimitTooLow) {
            self.state = State::Tracking;
        }
        // To stay, less margin is needed than to come: hysteresis.
        let present = scaled(self.expected(self.at), ONE + 2 * self.noise);
        if present > allowed.0 && self.at != least {
            return self.step_down(allowed, now);
        }
        if self.state != State::Tracking || self.measured.is_none() || self.ups < UP_EVERY.0 {
            return Command::Keep;
        }
        match self.best(allowed, usize::MAX) {
            Some(next) if next > self.at && self.is_worth(next) => {
                self.ups -= UP_EVERY.0;
                self.change(next, State::ProbingUp, now)
            }
            _ => Command::Keep,
        }
    }

    /// Whether a point is faster than the present one by at least half a percent.
    fn is_worth(&self, next: usize) -> bool {
        let time = |index| self.point(index).map_or(0, |point| point.time.0);
        let (present, faster) = (time(self.at), time(next));
        faster < present - present / 200
    }

    fn change(&mut self, to: usize, state: State, now: Milliseconds) -> Command {
        (self.at, self.state, self.since) = (to, state, None);
        (self.asked, self.failures, self.measured) = (Some(now), 0, None);
        self.changes = self.changes.saturating_add(1);
        self.point(to)
            .map_or(Command::Keep, |point| Command::Apply(point.mode))
    }
}
