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
use crate::help::{paragraphs, workloads};
use crate::signals;
use wattgate_cli::steps::Steps;
use wattgate_judge::files::corpus;
use wattgate_simulated_board::machine::Work;
use wattgate_simulated_board::recording;
use wattgate_simulated_board::tree::mirror::{Living, LivingError};
use wattgate_simulated_board::workload::{Workload, names};

const USAGE: &str = "\
Run a workload on a living simulated board, until SIGINT or SIGTERM

Usage: wattgate-simulator workload --root DIR --workload W [options]
       wattgate-simulator workload --root DIR --truth CORPUS.csv [options]

Options:
  --root DIR       The directory of a running `wattgate-simulator board`
  --workload W     The workload, by name or file
  --truth CORPUS   The workload of the corpus that a recorded board plays back; --workload picks one
                   of several
  --minibatch N    Samples in a minibatch [the workload's]
  --workers N      Loader workers [the workload's]
  --steps N        End after N steps [run on]
  -h, --help       Print this

The board runs one workload: another one that it runs is stopped. The steps go as fast as the
board's clocks allow. On its way out the process stops the workload; after SIGKILL it runs on.

WATTGATE_SOCKET names a Unix datagram socket that gets the number of steps since the start, and the
time of the board in which they waited for the loader and computed, at most each 20 ms, as
`steps=1234 items=16 name=resnet18 fetch_ms=310.250 compute_ms=51200.500`. Without it the steps are
not reported.
";

const EXAMPLE: &str = "\
Example:
  wattgate-simulator board --board orin-agx-64 --root /dev/shm/board --speed 10x &
  wattgate-simulator workload --root /dev/shm/board --workload mobilenetv3
";

/// Time between two readings of the board's count, which changes every 5 ms.
const POLL: Duration = Duration::from_millis(5);

const OFF: &str = "load off";

/// The text of the help.
pub fn help() -> String {
    paragraphs(&[USAGE, EXAMPLE, &workloads()])
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut root, mut name, mut most) = (None, None, u64::MAX);
    let (mut minibatch, mut workers, mut truth) = (None, None, None);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("root") => root = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("workload") => name = Some(arguments.value()?.string()?),
            Arg::Long("truth") => truth = Some(PathBuf::from(arguments.value()?)),
            Arg::Long("minibatch") => minibatch = Some(arguments.value()?.parse::<u32>()?),
            Arg::Long("workers") => workers = Some(arguments.value()?.parse::<u32>()?),
            Arg::Long("steps") => {
                let value = arguments.value()?.string()?;
                let number = value.parse().ok().filter(|number| *number > 0);
                most = number.ok_or(Failure::Value {
                    option: "--steps",
                    value,
                    expected: "a number above 0",
                })?;
            }
            argument => return Err(argument.unexpected().into()),
        }
    }
    let root = root.ok_or(Failure::Missing(
        "--root, the directory of a running `wattgate-simulator board`",
    ))?;
    let (seen, name, items) = match (truth, name) {
        (Some(truth), name) => {
            let corpus = corpus::read(&truth, name.as_deref())?;
            let name = recording::board::name(&corpus);
            // Without a minibatch a step is one item.
            (name.clone(), name, corpus.minibatch.unwrap_or(1))
        }
        (None, Some(name)) => {
            let workload = Workload::named(&name)?;
            (seen_by_board(&name), workload.name, workload.minibatch)
        }
        (None, None) => {
            return Err(Failure::Missing(
                "--workload, such as --workload resnet18, or --truth",
            ));
        }
    };
    let board = Living::open(&root)?;
    let stop = signals::stop()?;
    let items = minibatch.unwrap_or(items);
    let mut load = format!("load {seen}");
    for (word, number) in [("minibatch", minibatch), ("workers", workers)] {
        if let Some(number) = number {
            load += &format!(" {word} {number}");
        }
    }
    // The count stands still from here until the workload starts.
    board.order(OFF)?;
    let mut run = Run {
        before: board.progress()?.work,
        done: Work::default(),
        told: Work::default(),
        steps: Steps::from_env(items, &name),
        board,
        most,
    };
    let ended = run.until(&stop, &load);
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
    /// The work of the workloads before this one.
    before: Work,
    /// The work since then, at the last reading.
    done: Work,
    /// Its whole steps.
    told: Work,
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
        let now = self.board.progress()?.work.since(&self.before);
        self.told = whole_steps(&self.told, &self.done, &now, self.most as f64);
        self.done = now;
        let seconds = Duration::from_secs_f64;
        self.steps
            .spent(seconds(self.told.fetch_s), seconds(self.told.compute_s));
        let steps = self.told.minibatches as u64;
        self.steps.report(steps);
        Ok(steps)
    }
}

/// The work of the whole steps, at most `most`, of the work `now`: between two readings the pace is
/// taken as constant. `told` is that of the whole steps in the work `before`.
fn whole_steps(told: &Work, before: &Work, now: &Work, most: f64) -> Work {
    let steps = now.minibatches.floor().min(most);
    if steps <= told.minibatches {
        return *told;
    }
    let part = (steps - before.minibatches) / (now.minibatches - before.minibatches);
    Work {
        minibatches: steps,
        ..before.towards(now, part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_steps_have_the_parts_of_their_own_time() {
        let work = |minibatches: f64, fetch_s: f64, compute_s: f64| Work {
            minibatches,
            fetch_s,
            compute_s,
        };
        let told = work(2.0, 4.0, 20.0);
        let before = work(2.5, 5.0, 25.0);
        // No step has ended.
        let now = work(2.75, 5.5, 27.5);
        assert_eq!(whole_steps(&told, &before, &now, 9.0), told);
        // The pace changes after 2.5 steps; half a step and then a quarter of one follow.
        let now = work(3.25, 5.75, 31.0);
        assert_eq!(whole_steps(&told, &before, &now, 9.0), work(3.0, 5.5, 29.0));
        // The last step.
        assert_eq!(whole_steps(&told, &before, &now, 2.0), told);
    }
}
