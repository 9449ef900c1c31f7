//! `lease`: holds a lease of a limit, for a time, while a program runs, or until Ctrl-C.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGINT, SIGTERM};
use wattgate_cli::aim::Said;
use wattgate_cli::arguments::{Given, of};
use wattgate_cli::exit::note;
use wattgate_runtime::{Milliseconds, Milliwatts};

use super::Failure;
use super::set::{take_aim, value, wanted_average};
use crate::aim::options;
use crate::client::{Client, ClientError};
use crate::clock::{Clock, System};
use crate::quantity::{Power, Span, Watts};
use crate::report::Report;
use crate::serve::protocol::{WantedAim, WantedLease};
use crate::sudo_user::{self, SudoUser};

const USAGE: &str = "\
Lease a limit from the running daemon, up to max_limit, while PROGRAM runs, for a time, or until Ctrl-C

Usage: wattgated lease POWER [options] [-- PROGRAM [arguments]]

The lease ends with this process, however it ends; PROGRAM goes on. Of several leases the lowest limit holds, which may
be below the config's; what a client has lowered by set-limit stays lowered. Of the aims of several
leases the newest holds. If the daemon restarts, a lease with PROGRAM is taken again.

Options:
  --average POWER/WINDOW Limit on the average power over the window, besides the config's
  --model NAME           A model in the folder of the config's model
  --as-root              Start PROGRAM as root, not as the user who typed sudo
  --for TIME             End the lease after 1s to 24h; PROGRAM goes on without it
";

const USAGE_END: &str = "  --root DIR             Root of the board's files, for a simulated board [/]
  -h, --help             Print this help

Nobody tells the daemon the steps of PROGRAM here, so a deadline holds by the model; `wattgate run` tells them.

Example:
  wattgated lease 25W --for 10min -- ./calibrate

With PROGRAM, the exit code is that of PROGRAM, or 127 if it cannot be started.
";

/// Interval of the renewals. The daemon ends a lease that is silent for two seconds.
const RENEWAL: Duration = Duration::from_millis(500);

/// Interval at which the end of the program, of the time and a signal are seen.
const LEASE_TURN: Duration = Duration::from_millis(50);

/// The text of the help.
pub fn help() -> String {
    format!("{USAGE}{}{USAGE_END}", options::OPTIONS)
}

/// Runs the command with the arguments that follow its name. Returns the exit code.
pub fn run(mut arguments: Parser) -> Result<u8, Failure> {
    let (mut power, mut average, mut model, mut time) = (None, None, None, None);
    let mut said = Said::default();
    let (mut root, mut program) = (PathBuf::from("/"), Vec::<OsString>::new());
    let (mut as_root, mut given) = (false, Given::default());
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Value(text) if power.is_none() => {
                power = Some(text.parse_with(Power::parse).map_err(of("POWER"))?);
            }
            Arg::Value(name) => {
                program.push(name);
                program.extend(arguments.raw_args()?);
            }
            Arg::Long("average") => {
                average = Some(value(&mut arguments, "--average", wanted_average)?);
            }
            Arg::Long("model") => {
                model = Some(arguments.value()?.string().map_err(of("--model"))?);
            }
            Arg::Long("for") => time = Some(value(&mut arguments, "--for", Span::parse)?),
            Arg::Long("as-root") => as_root = true,
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long(name) => {
                let name = name.to_owned();
                take_aim(&name, &mut said, &mut arguments)?;
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let Power(power) = power.ok_or(Failure::Missing("POWER, such as 25W"))?;
    let time = time.map(|Span(time)| time);
    let name = program
        .first()
        .map(|path| Path::new(path).file_name().unwrap_or(path));
    let name = name.map_or("wattgated lease".into(), |name| name.to_string_lossy());
    let mut held = Held {
        root,
        wanted: WantedLease {
            power_mw: power.0,
            average,
            model,
            for_ms: time.map(|time| time.0),
            aim: said.wanted()?.map(WantedAim::from_wanted),
            program: Some(name.into_owned()),
        },
        client: None,
        until: time.map(|time| Milliseconds(System.now().0.saturating_add(time.0))),
        told: None,
    };
    let stop = Arc::<AtomicBool>::default();
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).map_err(Failure::Signals)?;
    }
    let report = held.take()?;
    note(format_args!("{}", Told(power, &report)));
    match program.split_first() {
        None => held.hold(&stop),
        Some((name, arguments)) => {
            let user = match as_root {
                true => None,
                false => SudoUser::find()?,
            };
            let child = sudo_user::spawn(Command::new(name).args(arguments), user.as_ref());
            let child = child.map_err(|why| Failure::Program {
                name: PathBuf::from(name),
                why,
            })?;
            held.hold_for(child, &stop)
        }
    }
}

/// A lease that is renewed.
struct Held {
    root: PathBuf,
    wanted: WantedLease,
    client: Option<Client>,
    until: Option<Milliseconds>,
    /// Why it could not be taken again, as told last.
    told: Option<String>,
}

impl Held {
    /// Takes the lease, for the time that is left.
    fn take(&mut self) -> Result<Report, ClientError> {
        let mut client = Client::connect(&self.root)?;
        let left = self
            .until
            .map(|until| until.since(System.now()).0.max(1_000));
        let report = client.lease(WantedLease {
            for_ms: left,
            ..self.wanted.clone()
        })?;
        self.client = Some(client);
        Ok(report)
    }

    fn is_over(&self) -> bool {
        self.until.is_some_and(|until| System.now() >= until)
    }

    /// Shows the daemon that this process lives.
    fn renew(&mut self) -> Result<(), ClientError> {
        let renewed = self.client.as_mut().map(Client::status);
        renewed.transpose().map(|_| ())
    }

    /// Holds the lease until a signal or the end of its time.
    fn hold(&mut self, stop: &AtomicBool) -> Result<u8, Failure> {
        while !self.is_over() && !stop.load(Ordering::Relaxed) {
            self.renew()?;
            wait(RENEWAL, || self.is_over() || stop.load(Ordering::Relaxed));
        }
        Ok(0)
    }

    /// Holds the lease while a program runs. A lease that is lost is taken again.
    fn hold_for(&mut self, mut child: Child, stop: &AtomicBool) -> Result<u8, Failure> {
        loop {
            if let Some(status) = child.try_wait()? {
                // As a shell tells it.
                let signal = std::os::unix::process::ExitStatusExt::signal(&status);
                let code = status.code().or(signal.map(|signal| 128 + signal));
                return Ok(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1));
            }
            if stop.swap(false, Ordering::Relaxed)
                && let Some(pid) = Pid::from_raw(child.id().cast_signed())
            {
                // A Ctrl-C reaches the program too; it decides when to end.
                let _ = kill_process(pid, Signal::TERM);
            }
            self.keep();
            let mut has_ended = false;
            wait(RENEWAL, || {
                has_ended |= matches!(child.try_wait(), Ok(Some(_)));
                has_ended || stop.load(Ordering::Relaxed)
            });
        }
    }

    /// Renews the lease, or takes it again; ends it when its time is over.
    fn keep(&mut self) {
        if self.is_over() {
            if self.client.take().is_some() {
                note("the time of the lease is over");
            }
        } else if self.client.is_none() {
            match self.take() {
                Ok(report) => {
                    self.told = None;
                    let power = Milliwatts(self.wanted.power_mw);
                    note(format_args!("{}", Told(power, &report)));
                }
                // Tried again at the next renewal.
                Err(why) => {
                    let why = why.to_string();
                    if self.told.as_ref() != Some(&why) {
                        note(format_args!("no lease: {why}"));
                        self.told = Some(why);
                    }
                }
            }
        } else if let Err(why) = self.renew() {
            self.client = None;
            note(format_args!("the lease is lost, and tried again: {why}"));
        }
    }
}

/// Waits for a time or until something holds.
fn wait(time: Duration, mut is_done: impl FnMut() -> bool) {
    let mut passed = Duration::ZERO;
    while passed < time && !is_done() {
        thread::sleep(LEASE_TURN);
        passed += LEASE_TURN;
    }
}

/// What was leased, and what holds.
struct Told<'a>(Milliwatts, &'a Report);

impl std::fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self(wanted, report) = self;
        write!(f, "leased {}", Watts(*wanted))?;
        if report.limit_mw == wanted.0 {
            return Ok(());
        }
        let holds = Watts(Milliwatts(report.limit_mw));
        if report.limit_mw < wanted.0 && report.limit_by.is_none() {
            return write!(f, "; it holds within a second, now {holds}");
        }
        write!(f, "; {holds} holds, from the {}", report.limit_from)?;
        match &report.limit_by {
            Some(by) => write!(f, " of {by}"),
            None => Ok(()),
        }
    }
}
