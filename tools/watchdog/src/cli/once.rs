//! `once`: sets a mode without measuring and exits. For boot, and with `--safe` after a crash of
//! the daemon.

use std::iter;
use std::path::Path;

use lexopt::{Arg, Parser};
use wattgate_board::{Board, Disobedience};
use wattgate_runtime::PowerMode;

use super::check::over_limit;
use super::kept::Kept;
use super::{EXIT_CODES, Failure, check_writable, parse, print};
use crate::config::Config;
use crate::control::Priority;
use crate::deadline::InTime;
use crate::limits::{Lowerings, files, held};
use crate::lock::Lock;
use crate::log::log;
use crate::setup::{SetupError, least};

const USAGE: &str = "\
Set the fastest mode whose predicted power plus guard band is within the limit, and exit

Usage: wattgated once --config FILE [--safe] [--root DIR]

If no mode is within the limit, sets the mode of fewest cores and lowest clocks and exits with code 4.
--safe sets that mode in any case: it needs no power sensor, no model, no lock, and of the config only `cores`,
if it can be read. A knob that does not obey is named, all others are set, and the exit code is 6. `wattgated
restore` restores the settings from before.

Options:
  --config FILE  The config, see wattgated.toml(5)
  --safe         Set the mode of fewest cores and lowest clocks, whatever the limit
  --root DIR     Root of the board's files, for a simulated board [/]
  -h, --help     Print this help

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
    if is_safe {
        let discovered = Board::discover_knobs(&InTime::plain(), &place.root);
        let mut board = discovered.map_err(SetupError::from)?;
        let cores = match Config::read(&place.config) {
            Ok(config) => config.cores,
            Err(why) => {
                log(Priority::Warning, &why);
                None
            }
        };
        check_writable(&board)?;
        // Less power is set in any case.
        let lock = Lock::take(&place.root);
        if let Err(why) = &lock {
            log(
                Priority::Warning,
                format_args!("{why}; the least mode is set all the same"),
            );
        }
        keep(&board, &place.root);
        let mode = least(&board, cores);
        let applied = board.apply(&mut InTime::plain(), &mode)?;
        told(&mode, applied.writes);
        return obeyed(&board);
    }
    let mut setup = place.setup_now()?;
    check_writable(&setup.board)?;
    let _lock = Lock::take(&place.root)?;
    keep(&setup.board, &place.root);
    // What clients have lowered holds without the daemon too.
    let (lowerings, read) = Lowerings::read(&files(&place.root));
    if let Err(why) = read {
        log(Priority::Error, &why);
    }
    let base = setup.config.limit.power;
    setup.config.limit = held(&setup.config, base, &lowerings, iter::empty()).limit;
    setup.set_choice(&mut InTime::plain(), told)?;
    let obeyed = obeyed(&setup.board);
    let over = over_limit(&setup);
    if over.is_err()
        && let Err(knobs) = &obeyed
    {
        log(Priority::Error, format_args!("{knobs}"));
    }
    over.and(obeyed)
}

/// Saves the settings from before, for `wattgated restore`. An earlier file of this boot stays as it is.
fn keep(board: &Board, root: &Path) {
    if let Err(why) = Kept::keep(board, root) {
        log(Priority::Warning, format_args!("{why}"));
    }
}

fn told(mode: &PowerMode, writes: u32) {
    log(
        Priority::Info,
        format_args!("once: {mode}; {writes} writes"),
    );
}

/// Fails if a knob does not obey.
fn obeyed(board: &Board) -> Result<(), Failure> {
    let knobs: Vec<Disobedience> = board.disobedient().cloned().collect();
    match knobs.is_empty() {
        true => Ok(()),
        false => Err(Failure::Disobeyed(knobs)),
    }
}
