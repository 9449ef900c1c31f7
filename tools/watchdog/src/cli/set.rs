//! `set-limit`, `set-aim` and `set-model`: change the running daemon's limit, aim and model.

use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser, ValueExt};
use wattgate_cli::aim::Said;
use wattgate_cli::arguments::{Given, of};

use super::client::{Form, shown};
use super::{Failure, print};
use crate::aim::options;
use crate::client::Client;
use crate::limits::Owner;
use crate::quantity::{Power, Span, Window};
use crate::serve::protocol::{Request, WantedAim, WantedAverage, WantedLimit};

const LIMIT: &str = "\
Lower the running daemon's limit, across restarts, until this user or root lifts it

Usage: wattgated set-limit POWER [--average POWER/WINDOW] [--for TIME] [--json] [--root DIR]
       wattgated set-limit --lift [--of UID] [--json] [--root DIR]

What holds is the lowest of the config's max_limit, of what each user has set, and of the leases or the config's limit.
To raise the limit, up to max_limit, see `wattgated lease`.

Options:
  --average POWER/WINDOW  Limit on the average power over the window, besides the config's
  --for TIME              Lift it after 1s to 24h in which the daemon ran
  --lift                  Lift what this user has set
  --of UID                Lift what another user has set, or root; root only. Over the socket of all clients, root is
                          the user 0
  --json                  Print one JSON object, as `status --json` does
  --root DIR              Root of the board's files, for a simulated board [/]
  -h, --help              Print this help

Example:
  wattgated set-limit 15W --average 12W/60s --for 10min

Prints the new status, as `status` does. A limit below least_mw cannot be held; the daemon then
sets the mode of least power.
";

const MODEL: &str = "\
Load another workload's model into the running daemon, until the next set-model or the daemon's end

Usage: wattgated set-model FILE [--json] [--root DIR]

The file must be a regular file in the folder of the config's model. While another user has a lease, only root may
change the model.

Options:
  --json         Print one JSON object, as `status --json` does
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

Example:
  wattgated set-model /etc/wattgate/night.wgt
";

const AIM: &str = "\
Set what the running daemon minimises below the limit, until it ends or the aim is lifted; root only

Usage: wattgated set-aim [--objective NAME] [--deadline TIME | --steps N --within TIME] [--json] [--root DIR]
       wattgated set-aim --lift [--json] [--root DIR]

It replaces the config's objective and deadline; the aim of the newest lease that has one overrides it. The limit comes
first: `unmet` in the status says what a deadline needs that the limit does not allow. Nobody tells the steps that are done, so
--steps is pursued by the model's time of a step; `wattgate run` tells them.

Options:
";

const AIM_END: &str = "  --lift                 Return to the config's
  --json                 Print one JSON object, as `status --json` does
  --root DIR             Root of the board's files, for a simulated board [/]
  -h, --help             Print this help

Example:
  wattgated set-aim --objective least-energy --deadline 33ms
";

/// The text of the help of `set-limit`.
pub fn limit_help() -> String {
    LIMIT.to_owned()
}

/// Runs `set-limit` with the arguments that follow its name.
pub fn limit(mut arguments: Parser) -> Result<(), Failure> {
    let (mut power, mut average, mut time) = (None, None, None);
    let (mut is_lifted, mut limit_owner) = (false, None);
    let (mut root, mut is_json) = (PathBuf::from("/"), false);
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Value(text) if power.is_none() => {
                power = Some(text.parse_with(Power::parse).map_err(of("POWER"))?);
            }
            Arg::Long("average") => {
                average = Some(value(&mut arguments, "--average", wanted_average)?);
            }
            Arg::Long("for") => time = Some(value(&mut arguments, "--for", Span::parse)?),
            Arg::Long("lift") => is_lifted = true,
            Arg::Long("of") => limit_owner = Some(value(&mut arguments, "--of", owner)?),
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long("json") => is_json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let request = match (power, average, time, is_lifted, limit_owner) {
        (None, None, None, true, Some(owner)) => Request::Lift(owner),
        (None, None, None, true, None) => Request::SetLimit(None),
        (Some(Power(power)), average, time, false, None) => Request::SetLimit(Some(WantedLimit {
            power_mw: power.0,
            average,
            for_ms: time.map(|Span(time)| time.0),
            program: Some("wattgated set-limit".to_owned()),
        })),
        _ => {
            return Err(Failure::Either(
                "POWER, such as 15W, with its options, or --lift, alone or with --of",
            ));
        }
    };
    ask(request, &root, is_json)
}

/// Takes the value of an option.
pub fn value<T>(
    arguments: &mut Parser,
    option: &str,
    parse: fn(&str) -> Result<T, String>,
) -> Result<T, lexopt::Error> {
    arguments.value()?.parse_with(parse).map_err(of(option))
}

/// Parses a number of a user, or `root`.
fn owner(text: &str) -> Result<Owner, String> {
    match text {
        "root" => Ok(Owner::Root),
        _ => {
            let uid = text.parse().map(Owner::Uid);
            uid.map_err(|_| "expected the number of a user, such as 1000, or root".to_owned())
        }
    }
}

/// Parses `POWER/WINDOW`, such as `12W/60s`.
pub fn wanted_average(text: &str) -> Result<WantedAverage, String> {
    let parts = text.split_once('/');
    let (power, window) = parts.ok_or("expected POWER/WINDOW, such as \"12W/60s\"")?;
    let (Power(power), Window(window)) = (Power::parse(power)?, Window::parse(window)?);
    Ok(WantedAverage {
        power_mw: power.0,
        window_ms: window.0,
    })
}

/// The text of the help of `set-aim`.
pub fn aim_help() -> String {
    format!("{AIM}{}{AIM_END}", options::OPTIONS)
}

/// Runs `set-aim` with the arguments that follow its name.
pub fn aim(mut arguments: Parser) -> Result<(), Failure> {
    let (mut said, mut is_lifted) = (Said::default(), false);
    let (mut root, mut is_json) = (PathBuf::from("/"), false);
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Long("lift") => is_lifted = true,
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long("json") => is_json = true,
            Arg::Long(name) => {
                let name = name.to_owned();
                take_aim(&name, &mut said, &mut arguments)?;
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let wanted = said.wanted()?;
    if wanted.is_some() == is_lifted {
        return Err(Failure::Either(
            "--objective, such as least-energy, with or without a deadline, or --lift alone",
        ));
    }
    ask(
        Request::SetAim(wanted.map(WantedAim::from_wanted)),
        &root,
        is_json,
    )
}

/// Takes an option of an aim, and refuses any other one.
pub fn take_aim(name: &str, said: &mut Said, arguments: &mut Parser) -> Result<(), Failure> {
    match options::take(said, name, arguments)? {
        true => Ok(()),
        false => Err(lexopt::Error::UnexpectedOption(format!("--{name}")).into()),
    }
}

/// The text of the help of `set-model`.
pub fn model_help() -> String {
    MODEL.to_owned()
}

/// Runs `set-model` with the arguments that follow its name.
pub fn model(mut arguments: Parser) -> Result<(), Failure> {
    let mut file = None;
    let (mut root, mut is_json) = (PathBuf::from("/"), false);
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Value(path) if file.is_none() => file = Some(PathBuf::from(path)),
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long("json") => is_json = true,
            argument => return Err(argument.unexpected().into()),
        }
    }
    let file = file.ok_or(Failure::Missing(
        "FILE, a model in the folder of the config's model",
    ))?;
    let name = as_the_daemon_sees(&file);
    let name = name.to_str().ok_or(Failure::Missing(
        "a name of the model in UTF-8; rename the file",
    ))?;
    ask(Request::SetModel(name.to_owned()), &root, is_json)
}

fn ask(request: Request, root: &Path, is_json: bool) -> Result<(), Failure> {
    let report = Client::connect(root)?.ask(request)?;
    print(&shown(&report, Form::new(is_json)))
}

/// The absolute path with a canonical folder, as the daemon compares it.
fn as_the_daemon_sees(file: &Path) -> PathBuf {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = absolute.parent().and_then(|it| it.canonicalize().ok());
    match (folder, absolute.file_name()) {
        (Some(folder), Some(name)) => folder.join(name),
        _ => absolute,
    }
}
