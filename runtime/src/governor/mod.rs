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
//! **Feedback.** A *result* of the sensor is its mean over one *period*. Where all of it, or two
//! thirds at least, lie after the last change of the mode, it is *full*: it tells what the mode
//! draws, and with that the *ratio* of measured over predicted power. A sensor of several chips
//! has the results of each at times of their own, and is full when all that matter are. The ratio
//! of a mode holds for that mode closely, for others the less the further their power is away
//! (the margin grows from [`Settings::near_margin`] to the model's guard band). All ratios move
//! together with that of the present mode: that is drift, as by temperature.
//!
//! **Noise** is the mean distance of two results of a mode. The limit holds for each result, so
//! that the mean of a mode has to stay below it by some three times the noise, and by more where
//! the noise is great; to be taken again, by the error of an average more, and to be tried for the
//! first time, by the margin above. What was expected of such a mode counts beside its first
//! results, for as much as noise and margin say.
//!
//! **Slack** is used by *probing*: a faster mode is tried when its power fits the limit with that
//! margin, so never past the limit as far as is known. What a probe measures stays known. Ups are
//! rationed ([`UPS`], [`UP_EVERY`]), which bounds the changes of every minute; another limit fills
//! the store.
//!
//! **Over the limit** the governor goes down at once and in one move: to the fastest mode that
//! fits by what was just measured. A result that is far from what was expected means that the
//! workload has changed: what was known is forgotten and the move is the deeper, by half of the
//! surprise. Of several chips the one that has risen most tells how far. A result that is not full
//! counts too where it is over the limit and the mode before was not. What the next result says of
//! a rise replaces it: the first one held a part of it, or was noise.
//!
//! **Not knowing.** Without a new result of a chip that carries half of the total, the last one is
//! taken to have risen by [`Settings::slew`]; after [`Settings::patience`] the governor goes to the
//! *safe mode*, that of the least predicted power. A result that no mode can explain is none.
//! Results bring it back.
//!
//! ```text
//!              read back             full result            faster mode fits
//!  Booting ──────────────► Settling ──────────────► Tracking ──────────────► ProbingUp
//!     ▲                        ▲   another writer    │  ▲  ▲                   │   │
//!     │                        └─────────────────────┤  │  └─── full, within ──┘   │
//!     │ long gap                                     │  │ full                     │
//!     │ in time                       over the limit │  │ within    over the limit │
//!     │                                              ▼  │                          │
//!     │                                          SteppingDown ◄────────────────────┘
//!     │                                              │
//!     └────── Safe ◄─────────────────────────────────┘ from every state: no result for too
//!                                                      long, no mode fits, nothing applies
//! ```
//!
//! The daemon or the firmware keeps the board in the safe mode whenever it does not run this.

mod allowance;
mod interface;
mod knowledge;
mod meter;
mod pace;

pub use allowance::{Average, Budget};
pub use interface::{Cause, Command, GovernorError, Input, Limit, Settings, State, Status};
pub use meter::{MOST_CHIPS, Reading, Sample};

use allowance::Allowance;
use knowledge::Knowledge;
use meter::{Meter, Set, Taken};

use crate::front::Front;
use crate::grid::ModeId;
use crate::units::{Milliseconds, Milliwatts};

/// Ups that may come one after another, at the start and under another limit.
pub const UPS: u32 = 4;

/// Afterwards one up may come in so long. Limits that follow each other sooner bring no more.
pub const UP_EVERY: Milliseconds = Milliseconds(30_000);

/// A full store of them.
const ALL_UPS: u64 = UPS as u64 * UP_EVERY.0;

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

/// No sensor averages for longer.
const LONGEST_PERIOD: Milliseconds = Milliseconds(60_000);

/// A longer time from one step to the next leaves nothing known: the board slept.
const LONGEST_GAP: Milliseconds = Milliseconds(5_000);

/// Holds a limit over the modes of a front of at most `N` points.
#[derive(Clone, Debug)]
pub struct Governor<const N: usize> {
    settings: Settings,
    modes: Knowledge<N>,
    allowance: Allowance,
    state: State,
    /// The point of the front that is wanted.
    at: usize,
    /// The mode is as wanted since then.
    since: Option<Milliseconds>,
    /// The last step, and when the next one is due.
    last: Option<Milliseconds>,
    due: Milliseconds,
    meter: Meter,
    /// The last full result.
    measured: Option<Milliwatts>,
    /// One of the same mode with which later ones are compared, and when it came.
    compared: Option<(Milliseconds, Milliwatts)>,
    /// Full results of the mode.
    results: u32,
    /// Failures to set the mode, and modes that could not be set, in a row.
    failures: u8,
    modes_failed: u8,
    /// When a mode was last left out.
    left_out: Milliseconds,
    /// When the mode was last asked for; `None` before the first one.
    asked: Option<Milliseconds>,
    /// When the first mode was asked for, or the first after a sleep.
    started: Milliseconds,
    /// Ups in store, in milliseconds of [`UP_EVERY`], and when another limit has filled the store.
    ups: u64,
    filled: Milliseconds,
    /// Results over what is allowed in a row, and all of them.
    overs: u8,
    violations: u32,
    changes: u32,
}

impl<const N: usize> Governor<N> {
    /// A governor that has seen nothing yet. Its first command sets the first mode.
    pub fn new(front: Front<N>, settings: Settings, limit: Limit) -> Result<Self, GovernorError> {
        check(&front, &settings)?;
        let Settings {
            sensor_gain,
            distrust,
            near_margin,
            slew,
            period,
            ..
        } = settings;
        let ratios = [sensor_gain, distrust, near_margin, slew];
        if ratios.iter().any(|ratio| *ratio > ONE) || !is_period(period) {
            return Err(GovernorError::Settings);
        }
        Ok(Self {
            modes: Knowledge::new(front, &settings),
            allowance: Allowance::new(limit),
            meter: Meter::new(&settings),
            settings,
            state: State::Booting,
            at: 0,
            since: None,
            last: None,
            due: Milliseconds(0),
            measured: None,
            compared: None,
            results: 0,
            failures: 0,
            modes_failed: 0,
            left_out: Milliseconds(0),
            asked: None,
            started: Milliseconds(0),
            ups: ALL_UPS,
            filled: Milliseconds(0),
            overs: 0,
            violations: 0,
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
        self.begin();
        Ok(())
    }

    /// The sensor has another period from now on, within the range of [`Settings::period`].
    pub fn set_period(&mut self, period: Milliseconds) -> Result<(), GovernorError> {
        if !is_period(period) {
            return Err(GovernorError::Settings);
        }
        self.settings.period = period;
        self.meter = Meter::new(&self.settings);
        self.modes.set_period(period);
        Ok(())
    }

    /// A mode that is never to be chosen: the board cannot set it, or only by a reboot.
    pub fn exclude(&mut self, mode: ModeId) {
        self.modes.exclude(mode);
    }

    /// The front that it chooses from.
    pub fn front(&self) -> &Front<N> {
        self.modes.front()
    }

    /// What it is doing.
    pub fn status(&self) -> Status {
        let point = self.modes.point(self.at);
        Status {
            state: self.state,
            mode: point.map_or(ModeId(0), |point| point.mode),
            allowed: self.allowance.reading(&self.settings),
            measured: self.measured,
            predicted: point.map_or(Milliwatts(0), |point| point.power),
            ratio: self.modes.ratio_of(self.at),
            violations: self.violations,
            changes: self.changes,
        }
    }

    /// When the next step is due after a [`Command::Keep`]: soon after the sensor has a new
    /// result. A step that comes sooner does no harm; after a [`Command::Apply`] one is due as soon
    /// as the mode is set.
    pub fn due(&self) -> Milliseconds {
        self.due
    }

    /// One step.
    pub fn step(&mut self, input: &Input) -> Command {
        let now = self.advance(input);
        self.allowance
            .derate(input.over_current || input.too_hot, now);
        let full = self.take_sample(input, now);
        if let Some(command) = self.check_mode(input, now) {
            return command;
        }
        self.decide(full, now)
    }
}

fn check<const N: usize>(front: &Front<N>, settings: &Settings) -> Result<(), GovernorError> {
    let guard = front.power_guard().ok_or(GovernorError::NoPower)?;
    let guard = guard.factor(settings.confidence);
    guard.map_err(|_| GovernorError::Confidence)?;
    match front.points().is_empty() {
        true => Err(GovernorError::EmptyFront),
        false => Ok(()),
    }
}

fn is_period(period: Milliseconds) -> bool {
    (1..=LONGEST_PERIOD.0).contains(&period.0)
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

impl<const N: usize> Governor<N> {
    /// The next step sets a first mode.
    fn begin(&mut self) {
        (self.state, self.at) = (State::Booting, 0);
        (self.asked, self.since) = (None, None);
        (self.measured, self.compared, self.results) = (None, None, 0);
    }

    /// Lets time pass. A step backwards counts as none.
    fn advance(&mut self, input: &Input) -> Milliseconds {
        let last = self.last.unwrap_or(input.now);
        let now = input.now.max(last);
        let elapsed = now.since(last).0;
        if elapsed > LONGEST_GAP.0 {
            self.begin();
            self.meter.forget();
        }
        self.ups = self.ups.saturating_add(elapsed).min(ALL_UPS);
        let drawn = self
            .measured
            .map_or(self.modes.bound(self.at), |power| power.0);
        self.allowance.spend(drawn, elapsed);
        now
    }

    fn take_sample(&mut self, input: &Input, now: Milliseconds) -> Taken {
        let before = self.last.replace(now);
        let predicted = self.modes.point(self.at).map_or(0, |point| point.power.0);
        let sample = input.sample.as_ref().filter(|sample| {
            let of_predicted = ratio(sample.total().0, predicted);
            (LEAST_RATIO..=MOST_RATIO).contains(&of_predicted)
        });
        let (is_new, due) = self.meter.look(sample, before, now);
        self.due = due;
        if !is_new {
            return Taken::Nothing;
        }
        let is_up = matches!(
            self.state,
            State::Booting | State::Settling | State::ProbingUp
        );
        self.meter.of_mode(self.set(), is_up, now)
    }

    /// When the mode was set, if it is.
    fn set(&self) -> Option<Set> {
        let (asked, since) = self.asked.zip(self.since)?;
        Some(Set { asked, since })
    }

    /// Sees to it that the board is in the wanted mode.
    fn check_mode(&mut self, input: &Input, now: Milliseconds) -> Option<Command> {
        let wanted = self.modes.point(self.at)?.mode;
        self.asked?;
        // It was excluded meanwhile.
        if !self.modes.is_choosable(self.at) {
            let allowed = self.allowance.reading(&self.settings);
            let next = self.modes.best(allowed, self.at).or(self.modes.least());
            let Some(next) = next else {
                self.state = State::Safe(Cause::NothingApplies);
                return Some(Command::Keep);
            };
            return Some(self.change(next, State::SteppingDown, now));
        }
        if input.mode == Some(wanted) {
            (self.failures, self.modes_failed) = (0, 0);
            if self.since.replace(self.since.unwrap_or(now)).is_none()
                && matches!(self.state, State::Booting | State::Tracking)
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
            self.asked = Some(now);
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
            let next = self
                .modes
                .best(self.allowance.reading(&self.settings), self.at)
                .or(self.modes.least())?;
            return Some(self.change(next, State::SteppingDown, now));
        }
        if self.state != State::Safe(Cause::NothingApplies) {
            return Some(self.change(self.modes.least()?, State::Safe(Cause::NothingApplies), now));
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
        let allowed = self.allowance.reading(&self.settings);
        if self.asked.is_none() {
            return self.boot(allowed, now);
        }
        match taken {
            Taken::Full(power) => {
                self.measured = Some(power);
                self.results = self.results.saturating_add(1);
                self.compare(power, now);
                if power > allowed {
                    let power = power.max(self.meter.risen(self.set()));
                    let surprise = self.modes.learn(self.at, power, false);
                    return self.go_down(allowed, self.of_workload(surprise), now);
                }
                self.modes.learn(self.at, power, true);
                self.overs = 0;
                if self.state != State::Safe(Cause::LimitTooLow) {
                    self.state = State::Tracking;
                }
            }
            Taken::Partial(power) if power > allowed && self.state != State::SteppingDown => {
                // The mean holds some of the time before, so that the mode draws even more.
                let of_expected = ratio(power.0, self.modes.expected(self.at)).max(ONE);
                let surprise = (of_expected - ONE).saturating_mul(2);
                let more = Milliwatts(scaled(power.0, of_expected));
                self.modes.remember(self.at, more);
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
        self.follow(allowed, matches!(taken, Taken::Full(_)), now)
    }

    /// The noise is told from results that have no time in common.
    fn compare(&mut self, power: Milliwatts, now: Milliseconds) {
        let (at, last) = *self.compared.get_or_insert((now, power));
        if self.meter.is_new_since(at, now) {
            self.modes.compare(power, last);
            self.compared = Some((now, power));
        }
    }

    /// The first mode, or the first after a sleep.
    fn boot(&mut self, allowed: Milliwatts, now: Milliseconds) -> Command {
        let cautious = scaled(allowed.0, ONE.saturating_sub(self.settings.distrust));
        let first = self
            .modes
            .best(Milliwatts(cautious), usize::MAX)
            .or(self.modes.least());
        self.started = now;
        let Some(first) = first else {
            self.state = State::Safe(Cause::NothingApplies);
            return Command::Keep;
        };
        self.change(first, State::Booting, now)
    }

    /// A probed mode may differ from its neighbours without another workload.
    fn of_workload(&self, surprise: u32) -> u32 {
        match self.state {
            State::ProbingUp if surprise <= SURPRISE => 0,
            _ => surprise,
        }
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
        let next = self
            .modes
            .best(Milliwatts(surely), self.at)
            .or(self.modes.least());
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
        let silent = self.meter.silence(self.started, now);
        if silent >= self.settings.patience {
            let least = self.modes.least()?;
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
    /// Nothing new is known of faster ones without a full result.
    fn follow(&mut self, allowed: Milliwatts, is_full: bool, now: Milliseconds) -> Command {
        let Some(least) = self.modes.least() else {
            return Command::Keep;
        };
        if self.modes.expected(least) > allowed.0 {
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
        let present = scaled(self.modes.expected(self.at), ONE + self.modes.margin());
        if present > allowed.0 && self.at != least {
            // The chip that tells first may have more to tell than the total.
            let risen = self.meter.risen(self.set()).0;
            let rise = ratio(risen, self.modes.expected(self.at));
            let below = match is_full && self.modes.is_rise(rise) {
                true => Milliwatts(ratio(allowed.0, rise)),
                false => allowed,
            };
            return self.step_down(below, now);
        }
        let has_ups = self.ups >= UP_EVERY.0 && self.results >= self.modes.enough();
        if !is_full || self.state != State::Tracking || !has_ups {
            return Command::Keep;
        }
        match self.modes.best(allowed, usize::MAX) {
            Some(next) if next > self.at && self.is_worth(next) => {
                self.ups -= UP_EVERY.0;
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
        (self.at, self.state, self.since) = (to, state, None);
        (self.asked, self.failures) = (Some(now), 0);
        (self.measured, self.compared, self.results) = (None, None, 0);
        self.changes = self.changes.saturating_add(1);
        self.modes
            .point(to)
            .map_or(Command::Keep, |point| Command::Apply(point.mode))
    }
}
