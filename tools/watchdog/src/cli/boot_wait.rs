//! Waits for a board that is still booting: drivers appear some time after the daemon may start.
//!
//! The INA3221's driver and the GPU's are modules, and a GPU has no clock files until it was powered
//! once (`jetson-platform.md`, section 5.2). Files of the memory clock are not waited for: boards
//! without them exist, and until the wait ends nothing holds the limit.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::Duration;

use wattgate_board::Missing;

use super::{Failure, Place};
use crate::control::Priority;
use crate::log::log;
use crate::setup::{Setup, SetupError};

/// Uptime of a board that has booted. What is missing then does not come.
const BOOTED: Duration = Duration::from_secs(60);

/// Clocks that are waited for, as [`Missing`] names them.
const LATE: [&str; 2] = ["CPU clock", "GPU clock"];

/// Interval of the attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// Discovers the board. Waits until it has its power sensor and the clocks of CPU and GPU, or until
/// it has booted, or until `is_stopped`. A board without an uptime counts as booted.
pub fn setup(place: &Place, is_stopped: impl Fn() -> bool) -> Result<Setup, Failure> {
    let mut is_logged = false;
    loop {
        let found = place.setup();
        let lacks = match &found {
            Ok(setup) => missing_clock(setup.board.missing()).map(ToString::to_string),
            Err(Failure::Setup(SetupError::Board(why))) => Some(why.to_string()),
            Err(_) => None,
        };
        let Some(lacks) = lacks.filter(|_| is_booting(&place.root) && !is_stopped()) else {
            return found;
        };
        if !std::mem::replace(&mut is_logged, true) {
            let seconds = BOOTED.as_secs();
            log(
                Priority::Notice,
                format_args!(
                    "waiting up to {seconds} s after the boot for what is missing: {lacks}"
                ),
            );
        }
        thread::sleep(RETRY_INTERVAL);
    }
}

/// The first clock that is missing because its file does not exist yet.
fn missing_clock(missing: &[Missing]) -> Option<&Missing> {
    let is_late = |it: &&Missing| LATE.contains(&it.what) && it.why == ErrorKind::NotFound;
    missing.iter().find(is_late)
}

fn is_booting(root: &Path) -> bool {
    let text = fs::read_to_string(root.join("proc/uptime")).unwrap_or_default();
    let seconds = text.split_whitespace().next();
    let seconds: Option<f64> = seconds.and_then(|word| word.parse().ok());
    seconds.is_some_and(|uptime| uptime < BOOTED.as_secs_f64())
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
        let memory = [
            missing("memory clock", ErrorKind::NotFound),
            missing("cap of the memory clock", ErrorKind::NotFound),
        ];
        assert_eq!(missing_clock(&memory), None);
        let forbidden = [missing("GPU clock", ErrorKind::PermissionDenied)];
        assert_eq!(missing_clock(&forbidden), None);
        let late = [missing("GPU clock", ErrorKind::NotFound)];
        assert_eq!(missing_clock(&late), late.first());
    }

    #[test]
    fn a_board_boots_for_a_minute() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(!is_booting(root.path()));
        fs::create_dir(root.path().join("proc")).expect("created");
        for (uptime, boots) in [
            ("12.34 40.10\n", true),
            ("59.99 0.00\n", true),
            ("60.00 0.00\n", false),
            ("86400.5 1.0\n", false),
            ("", false),
            ("soon\n", false),
        ] {
            fs::write(root.path().join("proc/uptime"), uptime).expect("written");
            assert_eq!(is_booting(root.path()), boots, "{uptime}");
        }
    }
}
