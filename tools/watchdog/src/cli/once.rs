//! `once`: sets the mode that the model alone chooses, and exits. For the boot, and for after a
//! crash of the daemon.

use lexopt::{Arg, Parser};
use wattgate_board::Disk;

use super::check::over_limit;
use super::{EXIT_CODES, Failure, parse, print, see_whether_writable};
use crate::control::Priority;
use crate::lock::Lock;
use crate::log::log;

const USAGE: &str = "\
Set the mode that the model alone chooses, and exit: the fastest one whose power, with its
margin, is within the limit

Usage: wattgated once --config FILE [--safe] [--root DIR]

Where no mode is within the limit, the mode of the least power is set, and the exit code is 4.

Options:
  --config FILE  The config; tools/watchdog/wattgated.toml documents it
  --safe         Set the mode of the least power, whatever the limit is
  --root DIR     A simulated board's files [/]
  -h, --help     Print this

Example:
  wattgated once --config /etc/wattgated.toml

";

/// Runs the command with the arguments that follow its name.
pub fn run(arguments: Parser) -> Result<(), Failure> {
    let mut is_safe = false;
    let place = parse(arguments, |argument| {
        let known = *argument == Arg::Long("safe");
        is_safe |= known;
        known
    })?;
    let Some(place) = place else {
        return print(&format!("{USAGE}{EXIT_CODES}"));
    };
    let mut setup = place.setup_now()?;
    see_whether_writable(&setup.board)?;
    let _lock = Lock::take(&place.root)?;
    let mode = match setup.choice() {
        Ok(choice) if !is_safe => setup.mode(choice.mode),
        _ => setup.safe(),
    };
    let applied = setup.board.apply(&mut Disk, &mode)?;
    let writes = applied.writes;
    log(
        Priority::Info,
        format_args!("once: {mode}; {writes} writes"),
    );
    match is_safe {
        true => Ok(()),
        false => over_limit(&setup),
    }
}
