//! `run`: holds a limit while a program runs.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::Parser;
use wattgate_cli::aim::{Said, Wanted};
use wattgate_runtime::Milliwatts;
use wattgate_watchdog::aim::options;
use wattgate_watchdog::client::Client;
use wattgate_watchdog::config::{Config, ConfigError};
use wattgate_watchdog::report::{Report, YIELDED};
use wattgate_watchdog::serve::protocol::{WantedAim, WantedLease};

use super::options::{Common, help, limit, parse, within};
use super::site::{Site, config};
use super::{Failure, hold, print};
use crate::deadline::DeadlineWatch;
use crate::hold::Held;
use crate::process::Stop;
use crate::window::Count;

const USAGE: &str = "\
Hold a power limit while a program runs

Usage: wattgate run --limit W [options] -- PROGRAM [arguments]
       wattgate run --limit W [options] --attach PID

Options:
  --limit W        The limit on the power of the module, such as 20W
  --model FILE     The workload's model [that of the daemon's config, /etc/wattgated.toml]
  --time S         Stop PROGRAM after the limit was held for S seconds [run it to its end]
";

const NOTES: &str = "\
If the daemon runs, it gets a lease, which ends with this command; else this process holds the limit
itself. At the end it prints the energy, the mean and the highest power, the time over the limit, the
speed, and whether a deadline was met. Then it restores the power mode from before: no limit holds any
more. Processes that outlive PROGRAM are waited for.

Exit codes: 0 done, 2 wrong arguments, 3 a defective input file or no board, 4 no mode is within the
limit or it was not held, 5 anything else, such as a workload that failed.

Example:
  wattgate run --limit 20W --model yolo.wgt -- python3 train.py
";

/// Runs the command with the arguments that follow its name.
pub fn run(parser: Parser) -> Result<(), Failure> {
    let (mut power, mut model, mut time) = (None, None, None);
    let mut aim = Said::default();
    let common = parse(parser, |option, parser| {
        match option {
            "--limit" => power = Some(limit(parser)?),
            "--model" => model = Some(PathBuf::from(parser.value()?)),
            "--time" => {
                let seconds = within(parser, "--time", 1.0..=1e9, "1 … 1000000000")?;
                time = Some(Duration::from_secs_f64(seconds));
            }
            option => {
                let name = option.strip_prefix("--").unwrap_or_default();
                return Ok(options::take(&mut aim, name, parser)?);
            }
        }
        Ok(true)
    })?;
    let Some(common) = common else {
        return print(&help(&format!("{USAGE}{}", options::OPTIONS), NOTES));
    };
    let limit = power.ok_or(Failure::Missing("--limit"))?;
    let wanted = aim.wanted()?;
    let mut deadline = DeadlineWatch::from_wanted(wanted);
    let seen = |now: Duration, _: Option<Count>, report: &Report| {
        deadline.iter_mut().for_each(|it| it.see(now, report));
    };
    let held = match Client::connect(&common.root) {
        Ok(client) => lease(&common, client, limit, model, wanted, time, seen)?,
        Err(_) => own(&common, limit, model, wanted, time, seen)?,
    };
    let ended = deadline.and_then(|it| it.ended(&held));
    hold::show(&held, limit, ended, common.json)
}

/// Holds the limit in this process.
fn own(
    common: &Common,
    limit: Milliwatts,
    model: Option<PathBuf>,
    wanted: Option<Wanted>,
    time: Option<Duration>,
    seen: impl FnMut(Duration, Option<Count>, &Report),
) -> Result<Held, Failure> {
    let model = match model {
        Some(model) => model,
        None => match Config::read(&config(&common.root)) {
            Ok(config) => config.model,
            Err(ConfigError::Unreadable { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Err(Failure::Missing("--model: the daemon has no config"));
            }
            Err(error) => return Err(error.into()),
        },
    };
    let mut site = Site::open(common)?;
    site.limit = Some(limit);
    let held = hold::setup(&model, limit, &common.root, &site.files).and_then(|setup| {
        site.process.wait_for_all();
        common.workload.start(&mut site.process, common.json)?;
        let is_new = !common.workload.is_attached();
        Ok(hold::run(
            &mut site.process,
            setup,
            wanted,
            time,
            is_new,
            seen,
        ))
    });
    site.close(held)
}

/// Leases the limit from the daemon that runs. The lease ends with this process.
fn lease(
    common: &Common,
    mut client: Client,
    limit: Milliwatts,
    model: Option<PathBuf>,
    wanted: Option<Wanted>,
    time: Option<Duration>,
    seen: impl FnMut(Duration, Option<Count>, &Report),
) -> Result<Held, Failure> {
    let stop = Stop::on_signals().map_err(Failure::Signals)?;
    let mut process = common.workload.open(&common.root, common.speed, stop)?;
    let report = client.lease(WantedLease {
        model: model.map(|path| path.to_string_lossy().into_owned()),
        aim: wanted.map(WantedAim::from_wanted),
        program: Some("wattgate run".to_owned()),
        ..WantedLease::from_power(limit)
    })?;
    // A profiler has the board, and nobody holds the lease.
    if report.state == YIELDED {
        return Err(Failure::Yielded);
    }
    process.wait_for_all();
    common.workload.start(&mut process, common.json)?;
    let is_new = !common.workload.is_attached();
    hold::watch(&mut process, client, limit, time, is_new, seen)
}
