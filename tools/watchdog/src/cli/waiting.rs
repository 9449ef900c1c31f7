//! Waits for a board that cannot be controlled yet, with the least mode set.
//!
//! Drivers appear some time after the daemon may start: those of the INA3221 and of the GPU are modules, and a GPU
//! has no clock files until it was powered once (`jetson-platform.md`, section 5.2). A sensor may also be lost for
//! good. Whatever is missing, the board draws the least that it can, and the search goes on for ever. A daemon that only
//! observes waits and sets nothing.

use std::io::ErrorKind;
use std::thread;
use std::time::Duration;

use wattgate_board::{Board, DiscoverError, Missing};
use wattgate_runtime::Milliseconds;

use super::kept::Kept;
use super::{BoardArguments, Failure};
use crate::clock::{Clock, System};
use crate::config::Config;
use crate::control::Priority;
use crate::deadline::InTime;
use crate::lock::directory;
use crate::log::log;
use crate::sd_notify::SdNotify;
use crate::serve::protocol::Refused;
use crate::serve::socket::Socket;
use crate::setup::{Setup, SetupError, least};

/// Uptime of a board that has booted. A clock that is missing then may still come, but its board is controlled
/// without it, if it can be.
const BOOTED: Milliseconds = Milliseconds(60_000);

/// Clocks that are waited for while the board boots, as [`Missing`] names them. Files of the memory clock are not:
/// containers and old boards lack them.
const LATE_CLOCKS: [&str; 2] = ["CPU clock", "GPU clock"];

/// Interval of the attempts while the board boots, and afterwards.
const EARLY_INTERVAL: Milliseconds = Milliseconds(500);
const LATER_INTERVAL: Milliseconds = Milliseconds(5_000);

/// Interval at which signals are seen and systemd is told that the daemon lives.
const SIGNAL_TURN: Duration = Duration::from_millis(500);

/// The least mode, while the board cannot be controlled.
struct Hold {
    /// Whether the least mode is not set.
    observes: bool,
    kept: Option<Kept>,
    /// Tells clients what the daemon waits for.
    socket: Option<Socket>,
    /// What was told last: why the daemon waits, and what became of the least mode.
    told: [String; 2],
}

/// Sets up the control of a board. Holds the least mode until that succeeds, and refuses all clients. `None` if
/// `is_stopped` comes first. Fails where waiting cannot help. Who only observes changes no settings and keeps none.
pub fn setup(
    place: &BoardArguments,
    observes: bool,
    group: Option<u32>,
    notify: &SdNotify,
    is_stopped: impl Fn() -> bool,
) -> Result<Option<(Setup, Option<Kept>)>, Failure> {
    let mut hold = Hold {
        observes,
        kept: None,
        socket: None,
        told: Default::default(),
    };
    loop {
        let is_booting = is_booting(place);
        let lacks = match place.setup() {
            Ok(mut setup) => match setup.board.missing().iter().find(|it| is_late(it)) {
                Some(clock) if is_booting => clock.to_string(),
                _ => {
                    let kept = match hold.kept {
                        Some(mut kept) => {
                            kept.complete(&setup.board);
                            Some(kept)
                        }
                        None if observes => None,
                        None => Some(Kept::keep(&setup.board, &place.root)?),
                    };
                    // The key needs a restart.
                    setup.config.observe = observes;
                    return Ok(Some((setup, kept)));
                }
            },
            Err(Failure::Setup(why)) if may_come(&why, place) => why.to_string(),
            Err(why) => return Err(why),
        };
        let tried = System.now();
        hold.set(place, group, &lacks);
        let interval = if is_booting {
            EARLY_INTERVAL
        } else {
            LATER_INTERVAL
        };
        while System.now().since(tried) < interval {
            if is_stopped() {
                if let Some(kept) = hold.kept {
                    kept.leave();
                }
                if let Some(socket) = hold.socket {
                    socket.remove();
                }
                return Ok(None);
            }
            let set = match observes {
                true => "NOT HOLDING: only observes",
                false => "the least mode is set",
            };
            notify.send(format_args!(
                "READY=1\nWATCHDOG=1\nSTATUS={set}; waiting: {lacks}"
            ));
            if let Some(socket) = &mut hold.socket {
                let does = match observes {
                    true => "only observes",
                    false => "holds the least mode",
                };
                let message = format!("the daemon {does} and waits: {lacks}");
                socket.turn_away(System.now(), &Refused::new("waiting", message));
            }
            thread::sleep(SIGNAL_TURN);
        }
    }
}

impl Hold {
    /// Sets the least mode as far as the board's knobs are there, opens the socket, and tells what is new.
    fn set(&mut self, place: &BoardArguments, group: Option<u32>, lacks: &str) {
        let set = self.try_to_set(place);
        let set = set.unwrap_or_else(|error| format!("the least mode cannot be set: {error}"));
        if self.socket.is_none() {
            // Without clients all the same.
            self.socket = Socket::open(&directory(&place.root), group).ok();
        }
        let now = [lacks.to_owned(), set];
        if self.told != now {
            let [lacks, set] = &now;
            log(
                Priority::Warning,
                format_args!("waiting for what is missing: {lacks}; {set}"),
            );
            self.told = now;
        }
    }

    fn try_to_set(&mut self, place: &BoardArguments) -> Result<String, Failure> {
        if self.observes {
            return Ok("nothing is set, as observe = true".to_owned());
        }
        let mut files = InTime::plain();
        let mut board = Board::discover_knobs(&files, &place.root).map_err(SetupError::from)?;
        match &mut self.kept {
            Some(kept) => kept.complete(&board),
            None => self.kept = Some(Kept::keep(&board, &place.root)?),
        }
        let cores = Config::read(&place.config)
            .ok()
            .and_then(|config| config.cores);
        let mode = least(&board, cores);
        board.apply(&mut files, &mode)?;
        let mut set = format!("the least mode is set: {mode}");
        for knob in board.disobedient() {
            set += &format!("; does not obey: {knob}");
        }
        Ok(set)
    }
}

/// The number of clocks of CPU and GPU that a board lacks, but that may come.
pub fn late(board: &Board) -> usize {
    board.missing().iter().filter(|it| is_late(it)).count()
}

/// Whether a clock is missing because its file does not exist yet.
fn is_late(missing: &Missing) -> bool {
    LATE_CLOCKS.contains(&missing.what) && missing.why == ErrorKind::NotFound
}

/// Whether what a board lacks may come.
fn may_come(why: &SetupError, place: &BoardArguments) -> bool {
    match why {
        SetupError::Board(DiscoverError::TooManyCores { .. }) => false,
        // A root that is no board's stays so. The sensor's driver may be bound later, at the boot or by hand.
        SetupError::Board(
            DiscoverError::NoBoard { .. }
            | DiscoverError::NothingToSet { .. }
            | DiscoverError::PowerUnknown { .. },
        ) => place.root.join("sys").is_dir(),
        SetupError::Nothing { .. }
        | SetupError::NotProfiled { .. }
        | SetupError::NoCores { .. } => {
            let knobs = Board::discover_knobs(&InTime::plain(), &place.root);
            knobs.is_ok_and(|board| board.missing().iter().any(is_late))
        }
        _ => false,
    }
}

/// A board without an uptime has booted.
fn is_booting(place: &BoardArguments) -> bool {
    let text = std::fs::read_to_string(place.root.join("proc/uptime")).unwrap_or_default();
    let seconds = text.split_whitespace().next();
    let seconds: Option<f64> = seconds.and_then(|word| word.parse().ok());
    seconds.is_some_and(|uptime| 1e3 * uptime < BOOTED.0 as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_board_without_a_memory_clock_is_not_waited_for() {
        let missing = |what, why| Missing {
            what,
            path: "file".into(),
            why,
        };
        for what in ["memory clock", "cap of the memory clock"] {
            assert!(!is_late(&missing(what, ErrorKind::NotFound)));
        }
        assert!(!is_late(&missing("GPU clock", ErrorKind::PermissionDenied)));
        assert!(is_late(&missing("GPU clock", ErrorKind::NotFound)));
    }

    #[test]
    fn a_board_boots_for_a_minute() {
        let root = tempfile::tempdir().expect("a folder");
        let place = BoardArguments {
            config: root.path().join("config"),
            root: root.path().to_owned(),
        };
        assert!(!is_booting(&place));
        std::fs::create_dir(root.path().join("proc")).expect("created");
        for (uptime, boots) in [
            ("12.34 40.10\n", true),
            ("59.99 0.00\n", true),
            ("60.00 0.00\n", false),
            ("86400.5 1.0\n", false),
            ("", false),
            ("soon\n", false),
        ] {
            std::fs::write(root.path().join("proc/uptime"), uptime).expect("written");
            assert_eq!(is_booting(&place), boots, "{uptime}");
        }
    }
}
