//! Holds a limit with a model, and says what came of it.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wattgate_board::Clocks;
use wattgate_cli::aim::Wanted;
use wattgate_cli::exit::note;
use wattgate_runtime::{Limit, Milliwatts, SelectError};
use wattgate_watchdog::client::{Client, ClientError};
use wattgate_watchdog::clock::{Clock, System};
use wattgate_watchdog::config::{Config, ConfigError};
use wattgate_watchdog::control::{Event, Priority};
use wattgate_watchdog::daemon::Daemon;
use wattgate_watchdog::limits::Lowerings;
use wattgate_watchdog::quantity::{Memory, Place, Placed};
use wattgate_watchdog::report::Report;
use wattgate_watchdog::setup::Setup;
use wattgate_watchdog::steps;

use super::options::Common;
use super::site::{confidence, supply};
use super::{Failure, print, print_json};
use crate::board_files::BoardFiles;
use crate::deadline::DeadlineEnd;
use crate::hold::{ByDaemon, End, Held, Leased, Own, Sender, SessionClock, hold};
use crate::models::Models;
use crate::process::Process;
use crate::window::Count;
use crate::world::World;

/// The setup for a limit with the model of a file, or without a model. Errors if the board can do none of the model's modes
/// within the limit.
pub fn setup(
    model: Option<&Path>,
    limit: Milliwatts,
    root: &Path,
    files: &BoardFiles,
) -> Result<Setup, Failure> {
    let setup = Setup::new(config(model, limit, root)?, files, root)?;
    match (&setup.choices.distrust, model) {
        (Some(why), Some(model)) => note(format_args!("warning: {}: {why}", model.display())),
        (Some(why), None) => note(why),
        (None, _) => {}
    }
    within(limit, setup)
}

/// The same for a model that is not in its file yet.
pub fn setup_of(
    bytes: &[u8],
    model: &Path,
    limit: Milliwatts,
    root: &Path,
    files: &BoardFiles,
) -> Result<Setup, Failure> {
    let config = config(Some(model), limit, root)?;
    within(limit, Setup::with_model(config, model, bytes, files, root)?)
}

/// Fails if no mode of a setup is within its limit, as far as the model's predictions are used.
fn within(limit: Milliwatts, setup: Setup) -> Result<Setup, Failure> {
    match setup.choice() {
        Err(SelectError::OverLimit { least_power }) if setup.choices.distrust.is_none() => {
            Err(Failure::Limit {
                limit: setup.config.at_limit(limit),
                least: setup
                    .config
                    .at_limit(setup.config.draw().supply(least_power)),
            })
        }
        _ => Ok(setup),
    }
}

/// The config of a daemon for a limit and perhaps a model, with the confidence of the daemon of this board.
fn config(model: Option<&Path>, limit: Milliwatts, root: &Path) -> Result<Config, ConfigError> {
    Ok(Config {
        model: model.map(Path::to_owned),
        limit: Limit {
            power: limit,
            average: None,
            budget: None,
        },
        current: None,
        cores: None,
        aim: Wanted::FASTEST,
        clocks: Clocks::Pin,
        max_limit: None,
        supply: supply(root)?,
        backstop: None,
        schedule: None,
        confidence: confidence(root),
        too_hot_mc: None,
        memory: Memory::DEFAULT,
        group: None,
        metrics: None,
        hardware_watchdog: None,
        observe: false,
        no_effect: Vec::new(),
    })
}

/// Holds the limit of a setup with an aim until the workload ends or the user stops it, or for a time. A workload that tells
/// its name gets its model of `models`.
pub fn run(
    process: &mut Process,
    setup: Setup,
    models: Option<Models>,
    wanted: Option<Wanted>,
    time: Option<Duration>,
    is_new: bool,
    seen: impl FnMut(Duration, Option<Count>, &Report),
) -> Held {
    let limit = setup.config.limit.power;
    let emit = |event: Event<'_>| match event {
        Event::WouldSet(choice) => note(choice),
        event if event.priority() <= Priority::Warning => note(format_args!("warning: {event}")),
        _ => {}
    };
    let mut holder = Own {
        daemon: Daemon::new(
            setup,
            process.files().clone(),
            System.utc(),
            Lowerings::default(),
        ),
        emit,
        models,
    };
    if let Some(wanted) = wanted {
        holder.daemon.pursue(wanted, &SessionClock(process.now()));
    }
    let Ok(held) = hold(process, &mut holder, limit, time, is_new, seen);
    held
}

/// The daemon that runs, over a connection that has set a limit or leased one. A workload that tells its name gets its model of
/// `leased` by another lease. The daemon gets the steps of the workload under its name, unless the workload sends them to the
/// daemon itself.
pub fn by_daemon(
    process: &mut Process,
    client: Client,
    leased: Option<Leased>,
    common: &Common,
) -> Result<ByDaemon, ClientError> {
    let path = steps::socket(&common.root);
    let (name, may_change) = (common.name(), common.may_tell_name());
    let new = || Sender::new(path.clone(), name.as_deref(), may_change);
    let sender = (!process.takes_steps_of(&path)).then(new);
    ByDaemon::new(client, leased, sender, process.files().speed())
}

/// Watches how the daemon that runs holds a limit, until the workload ends or the user stops it, or for a time.
pub fn watch(
    process: &mut Process,
    mut holder: ByDaemon,
    limit: Milliwatts,
    time: Option<Duration>,
    is_new: bool,
    seen: impl FnMut(Duration, Option<Count>, &Report),
) -> Result<Held, Failure> {
    Ok(hold(process, &mut holder, limit, time, is_new, seen)?)
}

/// The first line that says how it goes comes after this time, each further one after twice the time before, and at least one in
/// [`LONGEST_SILENCE`].
const FIRST_LINE: Duration = Duration::from_secs(10);
const LONGEST_SILENCE: Duration = Duration::from_secs(600);

/// Says now and then how it goes.
pub struct Going {
    start: Option<Duration>,
    /// The time until the next line, since the start or the line before.
    silence: Duration,
    said: Duration,
    /// The count at the line before, and the last one.
    before: Option<Count>,
    last: Option<Count>,
}

impl Going {
    pub fn new() -> Self {
        Self {
            start: None,
            silence: FIRST_LINE,
            said: Duration::ZERO,
            before: None,
            last: None,
        }
    }

    /// Takes a count, or a report.
    pub fn see(&mut self, now: Duration, count: Option<Count>, report: &Report) {
        if let Some(count) = count {
            // A workload that counts anew has begun anew.
            self.before = self.before.filter(|before| before.steps <= count.steps);
            self.before.get_or_insert(count);
            self.last = Some(count);
            return;
        }
        let start = *self.start.get_or_insert(now);
        let passed = now.saturating_sub(start);
        if passed < self.said + self.silence {
            return;
        }
        self.said = passed;
        self.silence = LONGEST_SILENCE.min(2 * self.silence);
        note(self.line(passed, report));
        self.before = self.last;
    }

    fn line(&self, passed: Duration, report: &Report) -> String {
        let seconds = passed.as_secs();
        let limit = report.at_limit(Milliwatts(report.limit_mw));
        let power = match report.measured_at_limit() {
            Some(measured) => format!("{:.2} W now", f64::from(measured) / 1e3),
            None => "no reading of the power now".to_owned(),
        };
        let rate = self.before.zip(self.last).and_then(|(before, last)| {
            let seconds = last.at.saturating_sub(before.at).as_secs_f64();
            let steps = last.steps.saturating_sub(before.steps);
            (steps > 0 && seconds > 0.0).then(|| steps as f64 / seconds)
        });
        let rate = rate.map_or_else(
            || "no steps counted".to_owned(),
            |rate| format!("{rate:.2} steps/s"),
        );
        format!("{seconds} s: limit {limit}, {power}, {rate}")
    }
}

/// What was held, for people and as JSON.
#[derive(Serialize)]
pub struct Summary {
    limit_mw: u32,
    /// Of the limit, the highest power and the time over it. Energy and mean are the module's.
    limit_at: Place,
    seconds: f64,
    energy_j: f64,
    mean_w: f64,
    highest_w: Option<f64>,
    over_s: f64,
    unknown_s: f64,
    is_held: bool,
    steps: u64,
    steps_per_s: Option<f64>,
    exit_code: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_met: Option<bool>,
}

impl Summary {
    /// What was held under a limit.
    pub fn new(held: &Held, limit: Milliwatts, deadline: Option<DeadlineEnd>) -> Self {
        let round = |value: f64| (1e3 * value).round() / 1e3;
        let exit_code = match held.end {
            End::Workload(exit) => exit.code(),
            End::Stopped(_) | End::Time => None,
        };
        Self {
            limit_mw: limit.0,
            limit_at: held.limit_at,
            seconds: round(held.seconds),
            energy_j: round(held.energy_j),
            mean_w: round(held.mean_w()),
            highest_w: held.highest.map(|it| f64::from(it.0) / 1e3),
            over_s: round(held.over_s),
            unknown_s: round(held.unknown_s),
            is_held: held.is_held(),
            steps: held.steps,
            steps_per_s: held.rate().map(round),
            exit_code,
            deadline_met: deadline.and_then(|it| it.is_met()),
        }
    }

    /// The figures in words, after what was done under the limit.
    pub fn told(&self, what: &str) -> String {
        let rate = self.steps_per_s.map_or_else(
            || "no steps counted".to_owned(),
            |rate| format!("{rate:.2} steps/s"),
        );
        let highest = self.highest_w.map_or_else(
            || "no mean over 430 ms".to_owned(),
            |highest| format!("highest {highest:.2} W over 430 ms"),
        );
        let unknown = match self.unknown_s {
            seconds if seconds > 0.0 => format!(", unknown power for {seconds:.1} s"),
            _ => String::new(),
        };
        let is_supply = self.limit_at == Place::Supply;
        format!(
            "{what} {} for {:.0} s: {:.0} J, mean {:.2} W{}, {highest}, over the limit for {:.1} s{unknown}, {rate}\n",
            Placed(
                Milliwatts(self.limit_mw),
                is_supply.then_some(Place::Supply)
            ),
            self.seconds,
            self.energy_j,
            self.mean_w,
            if is_supply { " at the module" } else { "" },
            self.over_s
        )
    }
}

/// Prints what was held, and what became of a deadline. Fails if the limit was not held, or if the workload did.
pub fn show(
    held: &Held,
    limit: Milliwatts,
    deadline: Option<DeadlineEnd>,
    json: bool,
) -> Result<(), Failure> {
    let summary = Summary::new(held, limit, deadline);
    if json {
        #[derive(Serialize)]
        struct Line {
            held: Summary,
        }
        print_json(&Line { held: summary })?;
        return ended(held);
    }
    print(&summary.told(match summary.is_held {
        true => "held",
        false => "not held:",
    }))?;
    if let Some(deadline) = deadline {
        print(&format!("{deadline}\n"))?;
    }
    ended(held)
}

fn ended(held: &Held) -> Result<(), Failure> {
    match held.is_held() {
        true => of_workload(held),
        false => Err(Failure::Exceeded),
    }
}

/// Fails if the workload did.
pub fn of_workload(held: &Held) -> Result<(), Failure> {
    match held.end {
        End::Workload(exit) if exit.is_failure() => Err(Failure::Workload(exit)),
        _ => Ok(()),
    }
}
