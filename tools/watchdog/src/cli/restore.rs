//! `restore`: gives the board back the settings from before the first start of the daemon in this boot.

use std::path::{Path, PathBuf};

use lexopt::{Arg, Parser};
use wattgate_board::Board;
use wattgate_cli::arguments::Given;

use super::{Failure, below, check_writable, print};
use crate::config::STATE_DIR;
use crate::deadline::InTime;
use crate::lock::Lock;
use crate::saved_state::SavedState;
use crate::setup::SetupError;

const USAGE: &str = "\
Give the board back the settings from before the daemon's first start in this boot

Usage: wattgated restore [--root DIR]

No limit holds afterwards. Stop the daemon first: `systemctl stop wattgated`. After a reboot there is nothing to
restore, since the boot has set all knobs anew.

Options:
  --root DIR  Root of the board's files, for a simulated board [/]
  -h, --help  Print this help
";

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let mut root = PathBuf::from("/");
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let files = InTime::plain();
    // The power sensors have settings too, if they are there.
    let board = Board::discover(&files, &root).or_else(|_| Board::discover_knobs(&files, &root));
    let mut board = board.map_err(SetupError::from)?;
    let _lock = Lock::take(&root)?;
    let directory = below(&root, Path::new(STATE_DIR));
    let Some(saved_state) = SavedState::left(&files, &root, &directory)? else {
        let path = directory.join("prior");
        return print(&format!(
            "nothing to restore: {} has no settings of this boot\n",
            path.display()
        ));
    };
    check_writable(&board)?;
    saved_state.restore(&mut board, &mut InTime::plain())?;
    print("restored the settings from before the daemon's start; no limit holds now\n")
}
