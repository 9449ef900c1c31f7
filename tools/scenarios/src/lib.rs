//! Scenarios: governors on a simulated board beside an oracle that knows the truth.
//!
//! | question | module |
//! |---|---|
//! | which boards, limits and settings of the sensor | [`cases`] |
//! | what happens, and when | [`list`] |
//! | what a holder is told | [`course`] |
//! | the board under a scenario, and its true energy | [`plant`] |
//! | who holds the limit | [`holder`]; [`wattgate`] is the daemon's control, [`stepper`] a peer |
//! | how fast it could have been | [`oracle`] |
//! | how long the limit was exceeded | [`account`] |
//! | the lines of the report | [`report`] |
//! | the daemon as a process, in real time | [`live`] |
//! | loads from files and built-in ones, under a fixed limit | [`replay`] |
//!
//! The *true power* is the mean over 430 ms at every 10 ms, whatever the sensor's time constant is.
#![forbid(unsafe_code)]

pub mod account;
pub mod cases;
pub mod course;
pub mod holder;
pub mod list;
pub mod live;
pub mod oracle;
pub mod plant;
pub mod replay;
pub mod report;
pub mod stepper;
pub mod wattgate;

use std::io;
use std::num::NonZero;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

pub use cases::{CASES, Case, SENSORS, Sensor};
pub use course::Course;
pub use holder::Holder;
pub use list::{SCENARIOS, Scenario};
pub use report::{Row, Run, Spread};

/// A row of the report to come.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// What happens.
    pub scenario: &'a Scenario,
    /// To which board, under which limit.
    pub case: &'a Case,
    /// As its sensor is set.
    pub sensor: &'a Sensor,
    /// Who holds the limit.
    pub holder: Holder,
}

/// Runs all of them with the seeds 1 … `seeds`, on all cores, and gives their rows in the same
/// order. `weights` is the folder with the models.
pub fn rows(tasks: &[Task<'_>], seeds: u64, weights: &Path) -> io::Result<Vec<Row>> {
    let runs: Vec<(usize, u64)> = (0..tasks.len())
        .flat_map(|task| (1..=seeds).map(move |seed| (task, seed)))
        .collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    let done = at_once(threads, &runs, |(task, seed)| {
        holder::run(&tasks[*task], *seed, weights)
    })?;
    let rows = tasks.iter().enumerate().filter_map(|(at, task)| {
        let runs = done.iter().zip(&runs).filter(|(_, (of, _))| *of == at);
        let runs: Vec<Run> = runs.map(|(run, _)| run.clone()).collect();
        Row::of(task, &runs)
    });
    Ok(rows.collect())
}

/// Does so many jobs at once; the results are in the order of the jobs.
pub fn at_once<J: Sync, T: Send, E: Send>(
    threads: usize,
    jobs: &[J],
    run: impl Fn(&J) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            match jobs.get(at) {
                Some(job) => done.push((at, run(job)?)),
                None => return Ok(done),
            }
        }
    };
    let mut done = thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut done: Vec<(usize, T)> = Vec::new();
        for worker in workers {
            let part: Result<Vec<_>, E> = match worker.join() {
                Ok(part) => part,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            done.extend(part?);
        }
        Ok::<_, E>(done)
    })?;
    done.sort_by_key(|(at, _)| *at);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}
