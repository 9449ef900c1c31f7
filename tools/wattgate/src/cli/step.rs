//! `step`: tells a step of a shell script.

use std::env;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser, ValueExt};
use rustix::fs::{FlockOperation, OFlags, flock};
use wattgate_cli::arguments::{number, of};
use wattgate_cli::exit::note;
use wattgate_cli::steps::{DAEMON, SOCKET, StepLine};

use super::Failure;
use crate::steps::socket::counter;

const USAGE: &str = "\
Tell wattgate that a shell script has done a step

Usage: wattgate step [options]

Options:
  --count N      Number of steps since the start of the script [one more than the last time]
  --items N      Number of samples in a step
  --name NAME    Name of the workload: 1 to 64 letters, digits, `.`, `_` and `-`
  --socket PATH  The socket for steps [$WATTGATE_SOCKET; with --count else the daemon's,
                 /run/wattgate/steps]
  -h, --help     Print this

Without --count the number is in the file PATH.count, one for each name, which begins at 0 with each
session of wattgate. Steps of processes that run side by side add up. The daemon has no such file: it
needs --count. If nobody wants the steps, nothing is done.

A step that cannot be counted is a warning, so that no script fails for it.

Example:
  wattgate profile --name png -- sh -c 'for image in *.png; do detect \"$image\"; wattgate step; done'
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut parser: Parser) -> Result<(), Failure> {
    let mut socket = env::var_os(SOCKET).map(PathBuf::from);
    let (mut count, mut items, mut name) = (None, None, None);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("count") => count = Some(number(&mut parser, "--count")?),
            Arg::Long("items") => items = Some(number(&mut parser, "--items")?),
            Arg::Long("name") => {
                name = Some(parser.value()?.string().map_err(of("--name"))?);
            }
            Arg::Long("socket") => socket = Some(PathBuf::from(parser.value()?)),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let steps = count.unwrap_or_default();
    let line = StepLine {
        steps,
        items,
        name,
        fetch_us: None,
        compute_us: None,
    };
    if StepLine::parse(line.to_string().as_bytes()).as_ref() != Ok(&line) {
        return Err(Failure::Value {
            option: "--name",
            value: line.name.unwrap_or_default(),
            expected: "1 to 64 letters, digits, `.`, `_` and `-`",
        });
    }
    let of_daemon = || count.is_some().then(|| PathBuf::from(DAEMON));
    let socket = socket.or_else(of_daemon);
    let Some(socket) = socket.filter(|path| !path.as_os_str().is_empty()) else {
        return Ok(());
    };
    if count.is_some() {
        send(&socket, &line);
    } else if let Err(error) = count_one(&socket, line) {
        if error.kind() == ErrorKind::NotFound {
            // Without a receiver there is neither.
            if socket.exists() {
                note(format_args!(
                    "warning: {}: the daemon counts no steps of a script, so none is told; say how many it has done with --count N",
                    socket.display()
                ));
            }
            return Ok(());
        }
        let counter = counter(&socket);
        note(format_args!(
            "warning: {}: {error}, so no step is counted; see that this user may write the file, which `wattgate run`, `learn` \
             and `profile` make",
            counter.display()
        ));
    }
    Ok(())
}

/// Adds one to the count of a name, and sends it. The lock keeps the lines in order.
fn count_one(socket: &Path, mut line: StepLine) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
        .open(counter(socket))?;
    flock(&file, FlockOperation::LockExclusive)?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    // One line `NAME COUNT` for each name, which may be empty.
    let name = line.name.as_deref().unwrap_or_default();
    let mut others = String::new();
    for entry in text.split_inclusive('\n') {
        match entry.trim_end().split_once(' ') {
            Some((known, count)) if known == name => line.steps = count.parse().unwrap_or(0),
            _ => others.push_str(entry),
        }
    }
    line.steps = line.steps.saturating_add(1);
    file.rewind()?;
    let text = format!("{others}{name} {}\n", line.steps);
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)?;
    send(socket, &line);
    Ok(())
}

/// Sends a line, if somebody listens: a line that is lost costs nothing.
fn send(path: &Path, line: &StepLine) {
    let _ = UnixDatagram::unbound().and_then(|socket| {
        socket.set_nonblocking(true)?;
        socket.send_to(line.to_string().as_bytes(), path)
    });
}
