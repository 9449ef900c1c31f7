//! Holds a limit while a workload runs: with the control of the daemon in this process, or through
//! the daemon that runs.

use std::time::Duration;

use wattgate_board::Files;
use wattgate_cli::exit::note;
use wattgate_runtime::{Milliseconds, Milliwatts};
use wattgate_watchdog::client::{Client, ClientError};
use wattgate_watchdog::clock::{Clock, System, UtcSeconds};
use wattgate_watchdog::control::Event as ControlEvent;
use wattgate_watchdog::daemon::Daemon;
use wattgate_watchdog::quantity::Place;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::serve::protocol::Request;

use crate::window::Count;
use crate::world::{Event, Exit, World};

/// Who holds the limit.
pub trait Holder {
    /// Why the limit is not held any longer.
    type Error;

    /// Steps the governor, and returns when the next step is due. `steps` are those since holding began; `None` before the
    /// first count.
    fn step(&mut self, now: Duration, steps: Option<u64>) -> Result<Duration, Self::Error>;

    /// The state after the last step.
    fn report(&self) -> Report;
}

/// The daemon's control in this process.
pub struct Own<F, E> {
    pub daemon: Daemon<F>,
    /// Gets the events of the control.
    pub emit: E,
}

/// The time of a session, for the control.
pub struct SessionClock(pub Duration);

impl Clock for SessionClock {
    fn now(&self) -> Milliseconds {
        Milliseconds(self.0.as_millis() as u64)
    }

    fn utc(&self) -> UtcSeconds {
        System.utc()
    }
}

impl<F: Files, E: FnMut(ControlEvent<'_>)> Holder for Own<F, E> {
    type Error = std::convert::Infallible;

    fn step(&mut self, now: Duration, steps: Option<u64>) -> Result<Duration, Self::Error> {
        if let Some(steps) = steps {
            self.daemon.take_own_steps(steps);
        }
        let next = self.daemon.step(&SessionClock(now), &mut self.emit);
        Ok(Duration::from_millis(next.0))
    }

    fn report(&self) -> Report {
        self.daemon.report()
    }
}

/// The daemon that runs.
pub struct ByDaemon {
    client: Client,
    report: Report,
    /// Whether the daemon takes steps: not from a client without a lease.
    takes_steps: bool,
    /// Interval between its reports, of the board's time.
    interval: Duration,
}

/// Interval between reports of the daemon that runs, of real time: it answers 20 requests a second.
const REPORT: Duration = Duration::from_millis(100);

impl ByDaemon {
    /// Takes a connection, over which a limit was set or leased.
    /// `speed` is the board's time per real time.
    pub fn new(mut client: Client, speed: f64) -> Result<Self, ClientError> {
        let report = client.status()?;
        Ok(Self {
            client,
            report,
            takes_steps: true,
            interval: REPORT.mul_f64(speed),
        })
    }
}

impl Holder for ByDaemon {
    type Error = ClientError;

    fn step(&mut self, now: Duration, steps: Option<u64>) -> Result<Duration, Self::Error> {
        let steps = steps.filter(|_| self.takes_steps);
        let told = steps.map(|steps| self.client.ask(Request::Steps(steps)));
        self.takes_steps &= !matches!(told, Some(Err(ClientError::Refused(_))));
        self.report = match told {
            Some(answer) if self.takes_steps => answer?,
            _ => self.client.status()?,
        };
        Ok(now + self.interval)
    }

    fn report(&self) -> Report {
        self.report.clone()
    }
}

/// Why holding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The workload has ended.
    Workload(Exit),
    /// The user wants it.
    Stopped,
    /// The time is over.
    Time,
}

/// What was held.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    pub end: End,
    pub seconds: f64,
    /// Energy of the module.
    pub energy_j: f64,
    /// Where the limit held.
    pub limit_at: Place,
    /// Highest mean power there over 430 ms; `None` without a reading.
    pub highest: Option<Milliwatts>,
    /// How long the mean power of 430 ms was above the limit: in sum, and the longest time at a stretch.
    pub over_s: f64,
    pub longest_over_s: f64,
    /// How long no reading of the power was there: in sum, and the longest time at a stretch.
    pub unknown_s: f64,
    pub longest_unknown_s: f64,
    /// Steps of the workload, and the time from the first to the last count.
    pub steps: u64,
    pub steps_s: f64,
}

/// The limit counts as held if the power was above it, or unknown, no longer than this at a stretch. After
/// a jump of the load, the sensor and the holder take some tenths of a second until the mode is lower, the
/// mean then takes 430 ms to fall, and the report of a daemon is up to 100 ms old.
const LONGEST_REACTION_S: f64 = 1.0;

impl Held {
    /// Whether the limit was held: neither above it nor unknown for longer than a reaction takes.
    pub fn is_held(&self) -> bool {
        self.longest_over_s.max(self.longest_unknown_s) <= LONGEST_REACTION_S
    }

    /// Mean power in W.
    pub fn mean_w(&self) -> f64 {
        self.energy_j / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// Steps per second; `None` without steps.
    pub fn rate(&self) -> Option<f64> {
        (self.steps > 0 && self.steps_s > 0.0).then(|| self.steps as f64 / self.steps_s)
    }
}

/// Holds a limit until the workload ends, the user stops it, or for a time. Of a new workload all steps count for its
/// deadline, of another one those from the first count on. `seen` gets each count,
/// and each report after a step.
pub fn hold<W: World, H: Holder>(
    world: &mut W,
    holder: &mut H,
    limit: Milliwatts,
    time: Option<Duration>,
    is_new: bool,
    mut seen: impl FnMut(Duration, Option<Count>, &Report),
) -> Result<Held, H::Error> {
    let start = world.now();
    let until = time.map(|time| start + time);
    let mut next = holder.step(start, None)?;
    let mut report = holder.report();
    let (energy_before, unknown_before) = (report.energy_mj, report.unknown_ms);
    let (mut begun, mut done) = (is_new.then_some(0), None);
    let (mut first, mut last): (Option<Count>, Option<Count>) = (None, None);
    let mut stepped = start;
    let (mut highest, mut over_s) = (None, 0.0);
    let (mut stretch_s, mut longest_over_s) = (0.0, 0.0_f64);
    let (mut unknown_ms, mut unknown_stretch_s) = (unknown_before, 0.0);
    let mut longest_unknown_s = 0.0_f64;
    let mut has_told = false;
    let end = loop {
        let due = until.map_or(next, |until| next.min(until));
        match world.wait(due) {
            Event::Count(count) => {
                // A workload that counts anew has begun anew.
                if last.is_some_and(|last| last.steps > count.steps) {
                    (first, begun) = (None, Some(0));
                }
                first.get_or_insert(count);
                last = Some(count);
                let begun = *begun.get_or_insert(count.steps);
                done = Some(count.steps.saturating_sub(begun));
                seen(count.at, Some(count), &report);
            }
            Event::Ended(exit) => break End::Workload(exit),
            Event::Stop | Event::Lost => break End::Stopped,
            Event::Time => {
                let now = world.now();
                next = holder.step(now, done)?;
                report = holder.report();
                let measured = report.measured_at_limit();
                highest = highest.max(measured);
                match measured {
                    Some(measured) if measured > limit.0 => {
                        let passed_s = (now - stepped).as_secs_f64();
                        over_s += passed_s;
                        stretch_s += passed_s;
                        longest_over_s = longest_over_s.max(stretch_s);
                    }
                    Some(_) => stretch_s = 0.0,
                    // A change of the mode has no mean yet.
                    None => {}
                }
                unknown_stretch_s = match report.unknown_ms.saturating_sub(unknown_ms) {
                    0 => 0.0,
                    more => unknown_stretch_s + more as f64 / 1e3,
                };
                unknown_ms = report.unknown_ms;
                longest_unknown_s = longest_unknown_s.max(unknown_stretch_s);
                stepped = now;
                if world.is_hopeless() && !std::mem::replace(&mut has_told, true) {
                    let telling = world.telling();
                    note(format_args!(
                        "warning: the steps cannot be counted: {telling}"
                    ));
                }
                seen(now, None, &report);
                if until.is_some_and(|until| now >= until) {
                    break End::Time;
                }
            }
        }
    };
    let (steps, steps_s) = match (first, last) {
        (Some(first), Some(last)) => (last.steps - first.steps, (last.at - first.at).as_secs_f64()),
        _ => (0, 0.0),
    };
    Ok(Held {
        end,
        seconds: (world.now() - start).as_secs_f64(),
        energy_j: (report.energy_mj - energy_before) as f64 / 1e3,
        limit_at: report.limit_at,
        highest: highest.map(Milliwatts),
        over_s,
        longest_over_s,
        longest_unknown_s,
        unknown_s: report.unknown_ms.saturating_sub(unknown_before) as f64 / 1e3,
        steps,
        steps_s,
    })
}
