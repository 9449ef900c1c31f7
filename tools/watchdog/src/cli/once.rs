//! `once`: sets a mode without measuring and exits. For boot, and with `--safe` after a crash of
//! the daemon.

use lexopt::{Arg, Parser};
use wattgate_board::Board;
use wattgate_runtime::PowerMode;

use super::check::over_limit;
use super::{EXIT_CODES, Failure, Place, below, check_writable, parse, print};
use crate::config::{Config, STATE_DIR};
use crate::control::Priority;
use crate::deadline::InTime;
use crate::lock::Lock;
use crate::log::log;
use crate::safe_mode::SafeModeFile;
use crate::setup::{Setup, SetupError};

const USAGE: &str = "\
Set the fastest mode whose predicted power plus guard band is within the limit, and exit

Usage: wattgated once --config FILE [--safe] [--root DIR]

If no mode is within the limit, sets the mode of least power and exits with code 4. With --safe and
an unusable config or model, sets the mode of least power that the daemon saved at its last start,
from the config's state_dir, or from the default state_dir if the config cannot be read.

Options:
  --config FILE  The config, see wattgated.toml(5)
  --safe         Set the mode of least power, whatever the limit
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
        let (mut board, mode) = safe(&place)?;
        return set(&mut board, &mode, &place);
    }
    let mut setup = place.setup_now()?;
    let mode = match setup.choice() {
        Ok(choice) => setup.mode(choice.mode),
        Err(_) => setup.safe(),
    };
    set(&mut setup.board, &mode, &place)?;
    over_limit(&setup)
}

fn set(board: &mut Board, mode: &PowerMode, place: &Place) -> Result<(), Failure> {
    check_writable(board)?;
    let _lock = Lock::take(&place.root)?;
    let writes = board.apply(&mut InTime::plain(), mode)?.writes;
    log(
        Priority::Info,
        format_args!("once: {mode}; {writes} writes"),
    );
    Ok(())
}

/// The safe mode of the config's model, or else the one that the daemon saved.
fn safe(place: &Place) -> Result<(Board, PowerMode), Failure> {
    let config = Config::read(&place.config);
    let state_dir = match &config {
        Ok(config) => config.state_dir.clone(),
        Err(_) => STATE_DIR.into(),
    };
    let setup = config.map_err(Failure::from).and_then(|config| {
        let setup = Setup::new(config, &InTime::plain(), &place.root);
        setup.map_err(Failure::from)
    });
    let why = match setup {
        Ok(setup) => {
            let mode = setup.safe();
            return Ok((setup.board, mode));
        }
        Err(why) => why,
    };
    let board = Board::discover(&InTime::plain(), &place.root).map_err(SetupError::from)?;
    let kept = SafeModeFile::at(&below(&place.root, &state_dir));
    match kept.read() {
        Ok(mode) => {
            let path = kept.path().display();
            log(
                Priority::Warning,
                format_args!("using the safe mode saved in {path}: {why}"),
            );
            Ok((board, mode))
        }
        Err(kept) => {
            let why = Box::new(why);
            Err(Failure::NoSafe { why, kept })
        }
    }
}
