//! `workload`: runs a workload on a living board, and reports its steps.
//!
//! The board itself computes the pace, from the clocks that it delivers: it counts the fraction of
//! a minibatch that each moment completes. This process reads that count. It has no clock of its
//! own, so a board at another speed needs no option here.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

use crate::failure::Failure;
use crate::help::{print_help, workloads};
use crate::signals;
use wattgate_cli::steps::Steps;
use wattgate_simulated_board::tree::mirror::{Living, LivingError};
use wattgate_simulated_board::workload::{Workload, names};

const USAGE: &str = "\
Run a workload on a living simulated board, until SIGINT or SIGTERM

Usage: wattgate-simulator workload --root DIR --workload W [--steps N]

Options:
  --root DIR       The directory of a running `wattgate-simulator board`
  --workload W     The workload, by name or file
  --steps N        End after N steps [run on]
  -h, --help       Print this

The board runs one workload: another one that it runs is stopped. The steps go as fast as the
board's clocks allow. On its way out the process stops the workload; after SIGKILL it runs on.

WATTGATE_SOCKET names a Unix datagram socket that gets the number of steps since the start, as
`steps=1234 items=16 name=resnet18`, at most each 20 ms. Without it the steps are not reported.
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator board --board orin-agx-64 --root /dev/shm/board --speed 10x &
  wattgate-simulator workload --root /dev/shm/board --workload mobilenetv3
";

/// Time between two looks at the board's count, which changes every 5 ms.
const POLL: Duration = Duration::from_millis(5);

const OFF: &str = "load off";

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut root, mut name, mut most) = (None, None, u64::MAX);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("root") => root = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("workload") => name = Some(arguments.value()?.string()?),
            Arg::Long("steps") => {
                let value = arguments.value()?.string()?;
                let number = value.parse().ok().filter(|number| *number > 0);
                most = number.ok_or(Failure::Value {
                    option: "--steps",
                    value,
                    expected: "a number above 0",
                })?;
            }
            Arg::Short('h') | Arg::Long("help") => {
                return print_help(&[USAGE, EXAMPLE, &workloads()]);
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let root = root.ok_or(Failure::Missing("--root"))?;
    let name = name.ok_or(Failure::Missing("--workload"))?;
    let workload = Workload::named(&name)?;
    let board = Living::open(&root)?;
    let stop = signals::stop()?;
    // The count stands still from here until the workload starts.
    board.order(OFF)?;
    let mut run = Run {
        before: board.progress()?.minibatches,
        steps: Steps::from_env(workload.minibatch, &workload.name),
        board,
        most,
    };
    let ended = run.until(&stop, &format!("load {}", seen_by_board(&name)));
    let stopped = run.board.order(OFF);
    let told = stopped.and_then(|()| run.report());
    // The first error is the cause of the others.
    ended?;
    told?;
    Ok(())
}

/// A name of a shipped workload, or an absolute path, because the board may have another working
/// directory.
fn seen_by_board(name: &str) -> String {
    let path = match names().contains(&name) {
        true => None,
        false => fs::canonicalize(name).ok(),
    };
    let path = path.as_deref().and_then(Path::to_str);
    path.unwrap_or(name).to_owned()
}

/// A workload on a board.
struct Run {
    board: Living,
    /// Minibatches of the workloads before this one.
    before: f64,
    steps: Steps,
    /// Number of steps after which the run ends.
    most: u64,
}

impl Run {
    /// Starts the workload, and reports its steps until the last one or until `stop` is set.
    fn until(&mut self, stop: &AtomicBool, start: &str) -> Result<(), LivingError> {
        self.board.order(start)?;
        while self.report()? < self.most && !stop.load(Ordering::Relaxed) {
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Reports the steps up to now, and returns their number.
    fn report(&mut self) -> Result<u64, LivingError> {
        let done = self.board.progress()?.minibatches - self.before;
        let steps = (done as u64).min(self.most);
        self.steps.report(steps);
        Ok(steps)
    }
}
