//! What a daemon that only observes would set, and what that would be worth.
//!
//! Once a second it looks which mode `once` would choose for the limit, with one correction: it multiplies the model's
//! powers by the highest ratio of measured to predicted power that was seen in the modes in which the board runs anyway.
//!
//! The governor is not asked. It learns from the modes that it sets itself. One whose modes are never set would take each
//! of them for one that the board refuses, or would have to be told powers that nobody measured.

use std::fmt::{self, Display};

use wattgate_board::{Board, Current};
use wattgate_runtime::{Aim, Milliseconds, Milliwatts, ModeId, PowerMode};

use crate::aim;
use crate::quantity::{Memory, Thousandths, Watts};
use crate::report::{Observed, WouldSet};
use crate::setup::{Choices, Near};

/// Interval of the looks.
const INTERVAL: Milliseconds = Milliseconds(1_000);

/// Time of a row of what was observed.
const ROW: Milliseconds = Milliseconds(60_000);

/// Least time between two log lines that tell of another mode.
const LEAST_SILENCE: Milliseconds = Milliseconds(60_000);

/// The first summary comes after this time, each further one after twice the time before, and at least one a day.
const FIRST_SUMMARY: Milliseconds = Milliseconds(60_000);
const LONGEST_SUMMARY: Milliseconds = Milliseconds(86_400_000);

/// Load of the GPU in permille below which the board does not work (`WAITING` of `runtime/src/governor/aim.rs`). Such
/// seconds do not count for the speed.
const LEAST_LOAD: u16 = 50;

/// A mode is compared with the model's mode next to it, unless their knobs differ by more than this: the sum of the
/// logarithms of their quotients. A quarter moves a speed by as much at most.
const FAR: f64 = 0.223;

/// What is seen of the board at a look.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    pub now: Milliseconds,
    /// What the board is set to.
    pub current: Option<Current>,
    /// Mean power over 430 ms.
    pub measured: Option<Milliwatts>,
    /// What the limit allows, less the sensor's errors.
    pub allowed: Milliwatts,
    /// The limit; of a supply's, what it leaves for the module.
    pub limit: Milliwatts,
    /// Load of the GPU in permille.
    pub gpu_load: Option<u16>,
    /// Since the start: energy in mJ, time over what is allowed and without a reading, and how often it was over.
    pub millijoules: u64,
    pub over: Milliseconds,
    pub unknown: Milliseconds,
    pub times: u32,
}

/// The mode that would be set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Would {
    pub mode: PowerMode,
    /// Its expected power.
    pub power: Milliwatts,
    /// Its expected speed over that of the present mode; `None` if the model does not know the present mode.
    pub speed: Option<f64>,
    /// Whether no mode is known to be within the limit.
    pub is_over: bool,
}

/// What a minute was like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    pub passed: Milliseconds,
    pub mean: Milliwatts,
    pub highest: Option<Milliwatts>,
    pub over: Milliseconds,
    pub unknown: Milliseconds,
    pub limit: Milliwatts,
    /// At the last look.
    pub gpu_load: Option<u16>,
    pub mode: Option<PowerMode>,
    pub would: Option<Would>,
}

/// The highest ratio, remembered for a time to twice that time.
#[derive(Clone, Copy, Debug, Default)]
struct Highest {
    since: Option<Milliseconds>,
    before: f64,
    now: f64,
}

impl Highest {
    fn record(&mut self, now: Milliseconds, ratio: f64, memory: Memory) {
        let since = *self.since.get_or_insert(now);
        if memory.0.is_some_and(|keep| now.since(since) >= keep) {
            (self.since, self.before, self.now) = (Some(now), self.now, 0.0);
        }
        self.now = self.now.max(ratio);
    }

    /// `None` before anything was measured.
    fn get(&self) -> Option<f64> {
        let highest = self.before.max(self.now);
        (highest > 0.0).then_some(highest)
    }
}

/// A mean over time.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    sum: f64,
    time: f64,
}

impl Mean {
    fn add(&mut self, value: f64, time: f64) {
        self.sum += value * time;
        self.time += time;
    }

    fn percent(&self) -> Option<u32> {
        (self.time > 0.0).then(|| (100.0 * self.sum / self.time).round() as u32)
    }
}

/// Observes a board.
#[derive(Debug)]
pub struct Observer {
    memory: Memory,
    first: Option<Look>,
    last: Option<Look>,
    /// The present mode, and what the model says of it.
    near: Option<(PowerMode, Option<Near>)>,
    ratio: Highest,
    would: Option<Would>,
    highest: Option<Milliwatts>,
    /// The speed that would have been, over that of the board: while it was over what is allowed, and else.
    speeds: [Mean; 2],
    /// The mode that was told last, and when.
    told: Option<(PowerMode, Milliseconds)>,
    /// When the last summary was told, and after which time the next one follows.
    summed: Option<Milliseconds>,
    silence: Milliseconds,
    /// The first look of the row, and the highest power since.
    row: Option<(Look, Option<Milliwatts>)>,
    done: Option<Row>,
}

impl Observer {
    /// `memory`: how long the highest ratio counts.
    pub fn new(memory: Memory) -> Self {
        Self {
            memory,
            first: None,
            last: None,
            near: None,
            ratio: Highest::default(),
            would: None,
            highest: None,
            speeds: [Mean::default(); 2],
            told: None,
            summed: None,
            silence: FIRST_SUMMARY,
            row: None,
            done: None,
        }
    }

    /// Whether a look is due.
    pub fn is_due(&self, now: Milliseconds) -> bool {
        self.last.is_none_or(|last| now.since(last.now) >= INTERVAL)
    }

    /// Takes what is seen of the board. Returns what is to be told: another mode that would be set, and now and then a summary.
    pub fn look(
        &mut self,
        look: Look,
        choices: &Choices,
        board: &Board,
        aim: &Aim,
    ) -> (Option<Choice>, Option<Summary>) {
        // A clock that cannot be set is at the model's highest in the least mode, too.
        let mode = look.current.map(|it| it.or(choices.least()));
        let was_there = self.near.map(|(mode, _)| mode) == mode;
        if !was_there {
            // A sweep over all modes of the model.
            self.near = mode.map(|mode| (mode, choices.near(&mode)));
        }
        let near = self.near.and_then(|(_, near)| near);
        // After a change of the mode, the mean is still of both.
        if let Some((near, measured)) = near.zip(look.measured).filter(|_| was_there) {
            let ratio = f64::from(measured.0) / f64::from(near.power.0.max(1));
            self.ratio.record(look.now, ratio, self.memory);
        }
        self.would = self.choose(&look, near, choices, board, aim);
        self.add(&look);
        self.add_to_row(&look);
        let told = (self.other_choice(&look), self.due_summary(&look));
        self.first.get_or_insert(look);
        self.last = Some(look);
        told
    }

    /// The mode that would be set; `None` before the board was measured, and if the model's predictions are not used.
    fn choose(
        &self,
        look: &Look,
        near: Option<Near>,
        choices: &Choices,
        board: &Board,
        aim: &Aim,
    ) -> Option<Would> {
        if choices.distrust.is_some() {
            return None;
        }
        let ratio = self.ratio.get()?;
        // A measured unit of the board is no guess any more. The band of the mode itself stays: nobody has measured it.
        let allowed = f64::from(look.allowed.0) * f64::from(choices.unit.margin()) / ratio;
        let chosen = aim::choice(&choices.front, aim, Milliwatts(allowed as u32)).ok();
        let chosen =
            chosen.filter(|choice| choice.mode != ModeId::LEAST || board.reaches(&choices.least()));
        let is_over = chosen.is_none();
        let (mode, power, time) = match chosen {
            Some(choice) => (choices.mode(choice.mode)?, choice.power?, choice.time),
            None => (
                choices.least(),
                choices.least_power(),
                *choices.front.times().first()?,
            ),
        };
        let near = near.filter(|near| near.distance <= FAR && time.0 > 0);
        Some(Would {
            mode,
            power: Milliwatts((f64::from(power.0) * ratio) as u32),
            speed: near.map(|near| f64::from(near.time.0) / f64::from(time.0)),
            is_over,
        })
    }

    fn add(&mut self, look: &Look) {
        self.highest = self.highest.max(look.measured);
        let (Some(last), Some(measured)) = (self.last, look.measured) else {
            return;
        };
        let is_idle = look.gpu_load.is_some_and(|load| load < LEAST_LOAD);
        if let Some(speed) = self.would.and_then(|it| it.speed).filter(|_| !is_idle) {
            let passed = look.now.since(last.now).0 as f64;
            let [over, within] = &mut self.speeds;
            match measured > look.allowed {
                true => over.add(speed, passed),
                false => within.add(speed, passed),
            }
        }
    }

    fn add_to_row(&mut self, look: &Look) {
        let Some((first, highest)) = &mut self.row else {
            self.row = Some((*look, None));
            return;
        };
        *highest = (*highest).max(look.measured);
        let passed = look.now.since(first.now);
        if passed < ROW {
            return;
        }
        let millijoules = look.millijoules.saturating_sub(first.millijoules);
        self.done = Some(Row {
            passed,
            mean: Milliwatts((millijoules * 1_000 / passed.0.max(1)) as u32),
            highest: *highest,
            over: look.over.since(first.over),
            unknown: look.unknown.since(first.unknown),
            limit: look.limit,
            gpu_load: look.gpu_load,
            mode: self.near.map(|(mode, _)| mode),
            would: self.would,
        });
        self.row = Some((*look, None));
    }

    /// The mode that would be set, if it is another one than was told last.
    fn other_choice(&mut self, look: &Look) -> Option<Choice> {
        let is_new = |would: &Would| {
            let is_recent = |at: Milliseconds| look.now.since(at) < LEAST_SILENCE;
            self.told
                .is_none_or(|(mode, at)| mode != would.mode && !is_recent(at))
        };
        let would = self.would.filter(is_new)?;
        self.told = Some((would.mode, look.now));
        Some(Choice {
            would,
            present: self.near.map(|(mode, _)| mode),
            measured: look.measured,
            allowed: look.allowed,
        })
    }

    /// The summary, if one is due.
    fn due_summary(&mut self, look: &Look) -> Option<Summary> {
        let since = *self.summed.get_or_insert(look.now);
        if look.now.since(since) < self.silence {
            return None;
        }
        self.summed = Some(look.now);
        self.silence.0 = LONGEST_SUMMARY.0.min(2 * self.silence.0);
        self.summary_at(look)
    }

    fn summary_at(&self, look: &Look) -> Option<Summary> {
        let first = self.first?;
        let [over_pct, within_pct] = self.speeds.map(|it| it.percent());
        Some(Summary {
            time: look.now.since(first.now),
            over: look.over,
            times: look.times,
            highest: self.highest,
            allowed: look.allowed,
            over_pct,
            within_pct,
        })
    }

    /// What was observed since the start; `None` before the second look.
    pub fn summary(&self) -> Option<Summary> {
        self.summary_at(self.last.as_ref()?)
    }

    /// The model's prediction for the present mode.
    pub fn predicted(&self) -> Option<Milliwatts> {
        let (_, near) = self.near?;
        near.map(|near| near.power)
    }

    /// What was observed, for clients.
    pub fn report(&self) -> Observed {
        let summary = self.summary();
        Observed {
            for_ms: summary.map_or(0, |it| it.time.0),
            highest_mw: self.highest.map(|it| it.0),
            speed_over_pct: summary.and_then(|it| it.over_pct),
            speed_within_pct: summary.and_then(|it| it.within_pct),
            would_set: self.would.map(|would| {
                let [cores, cpu_khz, gpu_khz, emc_khz] = would.mode.knobs();
                WouldSet {
                    cores,
                    cpu_khz,
                    gpu_khz,
                    emc_khz,
                    power_mw: would.power.0,
                    speed_pct: would.speed.map(|it| (100.0 * it).round() as u32),
                }
            }),
        }
    }

    /// The row of the minute that has just ended; once.
    pub fn take_row(&mut self) -> Option<Row> {
        self.done.take()
    }
}

/// Which mode would be set, and why.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub would: Would,
    pub present: Option<PowerMode>,
    pub measured: Option<Milliwatts>,
    pub allowed: Milliwatts,
}

/// As `would set 8 cores, …: about 18.2 W of the 19.8 W that are allowed, as the board draws 24.1 W now; 0.81 times as fast`.
impl Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Would {
            mode,
            power,
            speed,
            is_over,
        } = self.would;
        let (power, allowed) = (Watts(power), Watts(self.allowed));
        match self.present == Some(mode) {
            true => write!(f, "would keep {mode}")?,
            false => write!(f, "would set {mode}")?,
        }
        match is_over {
            true => write!(
                f,
                ", the least, though it draws about {power}: no mode is known to be within {allowed}"
            )?,
            false => write!(f, ": about {power} of the {allowed} that are allowed")?,
        }
        if let Some(measured) = self.measured {
            write!(f, "; now the board draws {}", Watts(measured))?;
        }
        match speed {
            Some(speed) if self.present != Some(mode) => {
                let speed = Thousandths(((100.0 * speed).round() * 10.0) as u64);
                write!(f, "; {speed} times the present speed")
            }
            _ => Ok(()),
        }
    }
}

/// What was observed since the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    pub time: Milliseconds,
    /// Time over what is allowed, and how often.
    pub over: Milliseconds,
    pub times: u32,
    pub highest: Option<Milliwatts>,
    pub allowed: Milliwatts,
    /// The speed in the modes that would have been set, in percent of the board's: while it was over, and else.
    pub over_pct: Option<u32>,
    pub within_pct: Option<u32>,
}

/// As `observed for 3600 s: over 19.8 W for 312 s, 14 times, at most 27.1 W; held, the workload would have run at 81 % of
/// its speed then, and at 112 % else`.
impl Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [time, over] = [self.time, self.over].map(|it| it.0 / 1_000);
        let allowed = Watts(self.allowed);
        write!(f, "observed for {time} s: ")?;
        match self.times {
            0 => write!(f, "never over {allowed}")?,
            1 => write!(f, "over {allowed} for {over} s, once")?,
            times => write!(f, "over {allowed} for {over} s, {times} times")?,
        }
        if let Some(highest) = self.highest {
            write!(f, ", at most {}", Watts(highest))?;
        }
        let held = "held, the workload would have run at";
        match (self.over_pct, self.within_pct) {
            (Some(over), Some(within)) => {
                write!(
                    f,
                    "; {held} {over} % of its speed then, and at {within} % else"
                )
            }
            (Some(over), None) => write!(f, "; {held} {over} % of its speed"),
            (None, Some(within)) => write!(f, "; {held} {within} % of its speed"),
            (None, None) => write!(f, "; what wattgate would gain is not known"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_ratio_is_remembered_for_its_time_at_least() {
        let memory = Memory(Some(Milliseconds(600_000)));
        let mut highest = Highest::default();
        assert_eq!(highest.get(), None);
        for second in 0..1_800 {
            let ratio = if second == 500 { 1.4 } else { 1.0 };
            highest.record(Milliseconds(1_000 * second), ratio, memory);
            let expected = if (500..1_200).contains(&second) {
                1.4
            } else {
                1.0
            };
            assert_eq!(highest.get(), Some(expected), "{second}");
        }
        let mut highest = Highest::default();
        highest.record(Milliseconds(0), 1.4, Memory(None));
        highest.record(Milliseconds(u64::MAX), 1.0, Memory(None));
        assert_eq!(highest.get(), Some(1.4));
    }

    #[test]
    fn a_summary_says_what_is_known() {
        let summary = Summary {
            time: Milliseconds(3_600_000),
            over: Milliseconds(312_400),
            times: 14,
            highest: Some(Milliwatts(27_100)),
            allowed: Milliwatts(19_800),
            over_pct: Some(81),
            within_pct: Some(112),
        };
        assert_eq!(
            summary.to_string(),
            "observed for 3600 s: over 19.8 W for 312 s, 14 times, at most 27.1 W; held, the workload would have run \
             at 81 % of its speed then, and at 112 % else"
        );
        let never = Summary {
            times: 0,
            highest: None,
            over_pct: None,
            within_pct: None,
            ..summary
        };
        assert_eq!(
            never.to_string(),
            "observed for 3600 s: never over 19.8 W; what wattgate would gain is not known"
        );
    }
}
