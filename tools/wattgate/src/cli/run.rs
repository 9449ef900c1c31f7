//! `run`: holds a limit while a program runs.

use std::path::PathBuf;
use std::time::Duration;

use lexopt::Parser;
use signal_hook::low_level::emulate_default_handler;
use wattgate_cli::aim::{Said, Wanted};
use wattgate_cli::exit::note;
use wattgate_runtime::Milliwatts;
use wattgate_watchdog::aim::options;
use wattgate_watchdog::client::{Client, ClientError};
use wattgate_watchdog::report::{Report, YIELDED};
use wattgate_watchdog::serve::protocol::{WantedAim, WantedLease};

use super::options::{Common, help_with, limit, parse, within};
use super::site::{Site, find_model, learned, limit_of_module, models, models_of_daemon};
use super::{Failure, hold, observe};
use crate::deadline::DeadlineWatch;
use crate::hold::{End, Held, Leased};
use crate::models::Models;
use crate::process::Stop;
use crate::window::Count;

const USAGE: &str = "\
Hold a power limit while a program runs

Usage: wattgate run --limit W [options] -- PROGRAM [arguments]
       wattgate run --limit W [options] --attach PID

Options:
  --limit W        The limit on the power of the module, such as 20W; of its supply if the daemon's config has one
  --model FILE     The workload's model [NAME.wgt where the daemon looks for models, else that of
                   its config, /etc/wattgated.toml, else none: the limit is held by measurement; a
                   workload that tells its name with its first step then gets NAME.wgt]
  --time S         Stop PROGRAM after the limit was held for S seconds [run it to its end]
  --observe        Write nothing to the board: say which mode would be set for the limit, and why, and at the
                   end how often the power was over it. No limit holds
";

const NOTES: &str = "\
If the daemon runs, it gets a lease, which ends with this command; else this process holds the limit
itself. At the end it prints the energy, the mean and the highest power, the time over the limit, the
speed, and whether a deadline was met. Then it restores the power mode from before, and no limit holds any
more; with a daemon, that one's limit holds. Processes that outlive PROGRAM are waited for. A standard
input that is a terminal is not PROGRAM's: it reads nothing there.

If PROGRAM fails, the exit code is its own, or 128 and the number of the signal that ended it. A signal
that ends the command, as Ctrl-C does, is sent to PROGRAM, and then ends the command as if it had not
been caught.

Example:
  wattgate run --limit 20W -- python3 train.py
";

/// The text of the help.
pub fn help() -> String {
    help_with(&format!("{USAGE}{}", options::OPTIONS), NOTES)
}

/// Runs the command with the arguments that follow its name.
pub fn run(parser: Parser) -> Result<(), Failure> {
    let (mut power, mut model, mut time) = (None, None, None);
    let (mut aim, mut observes) = (Said::default(), false);
    let common = parse(parser, |option, parser| {
        match option {
            "--limit" => power = Some(limit(parser)?),
            "--model" => model = Some(PathBuf::from(parser.value()?)),
            "--time" => {
                let seconds = within(parser, "--time", 1.0..=1e9, "1 … 1000000000 seconds")?;
                time = Some(Duration::from_secs_f64(seconds));
            }
            "--observe" => observes = true,
            option => {
                let name = option.strip_prefix("--").unwrap_or_default();
                return Ok(options::take(&mut aim, name, parser)?);
            }
        }
        Ok(true)
    })?;
    let limit = power.ok_or(Failure::Missing("--limit, such as --limit 20W"))?;
    let wanted = aim.wanted()?;
    if observes {
        return observe::run(&common, limit, model, wanted, time);
    }
    let mut deadline = DeadlineWatch::from_wanted(wanted);
    let mut going = hold::Going::new();
    let seen = |now: Duration, count: Option<Count>, report: &Report| {
        going.see(now, count, report);
        deadline.iter_mut().for_each(|it| it.see(now, report));
    };
    let held = match Client::connect(&common.root) {
        Ok(client) => lease(&common, client, limit, model, wanted, time, seen)?,
        Err(_) => own(&common, limit, model, wanted, time, seen)?,
    };
    let ended = deadline.and_then(|it| it.ended(&held));
    hold::show(&held, limit, ended, common.json)?;
    match held.end {
        // A shell sees which signal it was: Ctrl-C ends a loop, too.
        End::Stopped(Some(signal)) => emulate_default_handler(signal).map_err(Failure::Signals),
        _ => Ok(()),
    }
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
    let of_module = limit_of_module(limit, &common.root)?;
    let mut site = Site::open(common)?;
    site.limit = Some(of_module);
    let models = Models {
        folder: models(&common.root, &site.device),
    };
    let may_change = model.is_none() && common.may_tell_name();
    let model = find_model(common, model, Some(&models));
    let setup = model.and_then(|it| hold::setup(it.as_deref(), limit, &common.root, &site.files));
    let held = setup.and_then(|setup| {
        site.process.wait_for_all();
        common.workload.start(&mut site.process, common.json)?;
        let is_new = !common.workload.is_attached();
        Ok(hold::run(
            &mut site.process,
            setup,
            may_change.then_some(models),
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
    let lease = WantedLease {
        aim: wanted.map(WantedAim::from_wanted),
        program: Some("wattgate run".to_owned()),
        ..WantedLease::from_power(limit)
    };
    let mut ask = |model: Option<PathBuf>| {
        client.lease(WantedLease {
            model: model.map(|path| path.to_string_lossy().into_owned()),
            ..lease.clone()
        })
    };
    let models = models_of_daemon(&common.root).map(|folder| Models { folder });
    let may_change = model.is_none() && common.may_tell_name();
    let learned = || learned(common, models.as_ref()?);
    let report = match model {
        Some(model) => ask(Some(model))?,
        None => match learned() {
            None => ask(None)?,
            Some(learned) => match ask(Some(learned)) {
                // A daemon takes models of its folder alone, and of a user one in ten seconds.
                Err(ClientError::Refused(why)) if why.name != "observing" => {
                    note(format_args!(
                        "warning: the daemon keeps its model: {}",
                        why.message
                    ));
                    ask(None)?
                }
                report => report?,
            },
        },
    };
    // A profiler has the board, and nobody holds the lease.
    if report.state == YIELDED {
        return Err(Failure::Yielded);
    }
    process.wait_for_all();
    common.workload.start(&mut process, common.json)?;
    let is_new = !common.workload.is_attached();
    let models = models.filter(|_| may_change);
    let leased = models.map(|models| Leased { lease, models });
    let holder = hold::by_daemon(&mut process, client, leased, common)?;
    hold::watch(&mut process, holder, limit, time, is_new, seen)
}
