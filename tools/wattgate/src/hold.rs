//! Holds a limit while a workload runs: with the control of the daemon in this process, or through
//! the daemon that runs.

use std::path::PathBuf;
use std::time::Duration;

use wattgate_board::Files;
use wattgate_cli::exit::note;
use wattgate_cli::steps::Steps;
use wattgate_runtime::{Milliseconds, Milliwatts};
use wattgate_watchdog::client::{Client, ClientError};
use wattgate_watchdog::clock::{Clock, System, UtcSeconds};
use wattgate_watchdog::control::Event as ControlEvent;
use wattgate_watchdog::daemon::Daemon;
use wattgate_watchdog::limits::Owner;
use wattgate_watchdog::quantity::Place;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::serve::protocol::{Request, WantedLease};

use crate::models::{Models, held_with};
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

    /// Takes the name that the workload has told. From now on its model holds the limit, if there is one and the user has
    /// named none.
    fn take_name(&mut self, now: Duration, told: &str) -> Result<(), Self::Error>;
}

/// The daemon's control in this process.
pub struct Own<F, E> {
    pub daemon: Daemon<F>,
    /// Gets the events of the control.
    pub emit: E,
    /// Where the model of a workload is looked for that tells its name; `None` if the model is settled.
    pub models: Option<Models>,
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

    fn take_name(&mut self, now: Duration, told: &str) -> Result<(), Self::Error> {
        let in_force = self.daemon.report().model;
        let models = self.models.as_ref();
        if let Some(file) = models.and_then(|models| models.told(told, in_force.as_deref())) {
            let now = SessionClock(now).now();
            // Nobody waits for a model here, so that it comes at once as it does for root.
            if let Err(why) = self.daemon.set_model(&file, Owner::Root, now) {
                keeps(in_force.as_deref(), &why.message);
            }
        }
        Ok(())
    }
}

/// Says that a model holds the limit in place of the one that was wanted.
fn keeps(in_force: Option<&str>, why: &str) {
    note(format_args!("warning: {}: {why}", held_with(in_force)));
}

/// A lease, whose model may change.
pub struct Leased {
    pub lease: WantedLease,
    pub models: Models,
}

/// The shortest time for the work that a lease takes.
const SHORTEST_WORK: Duration = Duration::from_secs(60);

impl Leased {
    /// The lease of a model in place of the one before. The time for the work goes on, in whole seconds; `None` if less of it
    /// is left than a lease takes.
    fn of_model(&self, file: String, now: Duration) -> Option<WantedLease> {
        let mut lease = WantedLease {
            model: Some(file),
            ..self.lease.clone()
        };
        let within = lease.aim.as_mut().and_then(|aim| aim.within_ms.as_mut());
        if let Some(within) = within {
            let left = Duration::from_millis(*within).saturating_sub(now);
            if left < SHORTEST_WORK {
                return None;
            }
            *within = 1_000 * left.as_secs();
        }
        Some(lease)
    }
}

/// The daemon that runs.
pub struct ByDaemon {
    client: Client,
    /// `None` if the model is settled.
    leased: Option<Leased>,
    report: Report,
    /// Whether the daemon takes steps for an aim: not from a client without a lease.
    takes_steps: bool,
    /// Tells the daemon the steps under the workload's name; `None` if it takes them itself.
    sender: Option<Sender>,
    /// Interval between its reports, of the board's time.
    interval: Duration,
}

/// Tells steps to the socket of the daemon, under a name, from the first count on.
pub struct Sender {
    path: PathBuf,
    name: String,
    /// Whether the workload may tell another name.
    may_change: bool,
    steps: Option<Steps>,
}

impl Sender {
    /// A sender to a socket. A workload without a name has none here either.
    pub fn new(path: PathBuf, name: Option<&str>, may_change: bool) -> Self {
        Self {
            path,
            name: name.unwrap_or_default().to_owned(),
            may_change,
            steps: None,
        }
    }

    fn tell(&mut self, steps: u64) {
        let new = || Steps::new(Some(self.path.clone()), 0, &self.name);
        self.steps.get_or_insert_with(new).report(steps);
    }

    fn rename(&mut self, name: &str) {
        if self.may_change && self.name != name {
            (self.name, self.steps) = (name.to_owned(), None);
        }
    }
}

/// Interval between reports of the daemon that runs, of real time: it answers 20 requests a second.
const REPORT: Duration = Duration::from_millis(100);

impl ByDaemon {
    /// Takes a connection, over which a limit was set or leased. The model of `leased` may change with the name of the workload.
    /// `speed` is the board's time per real time.
    pub fn new(
        mut client: Client,
        leased: Option<Leased>,
        sender: Option<Sender>,
        speed: f64,
    ) -> Result<Self, ClientError> {
        let report = client.status()?;
        Ok(Self {
            client,
            leased,
            report,
            takes_steps: true,
            sender,
            interval: REPORT.mul_f64(speed),
        })
    }
}

impl Holder for ByDaemon {
    type Error = ClientError;

    fn step(&mut self, now: Duration, steps: Option<u64>) -> Result<Duration, Self::Error> {
        if let (Some(sender), Some(steps)) = (&mut self.sender, steps) {
            sender.tell(steps);
        }
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

    /// `now` is the time since the lease, which this session took when it began.
    fn take_name(&mut self, now: Duration, told: &str) -> Result<(), Self::Error> {
        if let Some(sender) = &mut self.sender {
            sender.rename(told);
        }
        let Some(leased) = &self.leased else {
            return Ok(());
        };
        let Some(file) = leased.models.told(told, self.report.model.as_deref()) else {
            return Ok(());
        };
        let Some(lease) = leased.of_model(file, now) else {
            let why = "less than a minute is left for the steps";
            keeps(self.report.model.as_deref(), why);
            return Ok(());
        };
        match self.client.lease(lease) {
            Ok(report) => self.report = report,
            // A daemon takes a model of a user once in ten seconds, for instance.
            Err(ClientError::Refused(why)) => keeps(self.report.model.as_deref(), &why.message),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// Why holding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The workload has ended.
    Workload(Exit),
    /// The user has ended it with this signal; `None` if the daemon has taken the board back.
    Stopped(Option<i32>),
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
    let (mut has_told, mut is_named) = (false, false);
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
                if let Some(told) = world.told_name().filter(|_| !is_named) {
                    is_named = true;
                    holder.take_name(count.at, &told)?;
                }
                seen(count.at, Some(count), &report);
            }
            Event::Ended(exit) => break End::Workload(exit),
            Event::Stop | Event::Lost => break End::Stopped(world.stop_signal()),
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

#[cfg(test)]
mod tests {
    use wattgate_cli::aim::{By, Wanted};
    use wattgate_runtime::Objective;
    use wattgate_watchdog::serve::protocol::WantedAim;

    use super::*;

    #[test]
    fn the_time_for_the_work_goes_on_in_the_lease_of_another_model() {
        let wanted = Wanted {
            objective: Objective::Power,
            by: Some(By::Work {
                steps: 9,
                within: Milliseconds(100_000),
            }),
        };
        let leased = |aim: Option<WantedAim>| Leased {
            lease: WantedLease {
                aim,
                ..WantedLease::from_power(Milliwatts(20_000))
            },
            models: Models {
                folder: "models".into(),
            },
        };
        let with_work = leased(Some(WantedAim::from_wanted(wanted)));
        let at = |ms| with_work.of_model("yolo.wgt".to_owned(), Duration::from_millis(ms));
        let lease = at(30_500).expect("time is left");
        assert_eq!(lease.aim.and_then(|aim| aim.within_ms), Some(69_000));
        assert_eq!(lease.model.as_deref(), Some("yolo.wgt"));
        assert_eq!(at(40_001), None);
        let without = leased(None).of_model("yolo.wgt".to_owned(), Duration::from_secs(1_000));
        assert_eq!(without.expect("no time to end").aim, None);
    }
}
