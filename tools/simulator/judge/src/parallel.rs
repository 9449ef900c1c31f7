//! Independent jobs on several threads.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Runs all jobs on `threads` threads. The results have the order of the jobs.
pub fn map<J: Sync, T: Send, E: Send>(
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

/// Runs all jobs on all cores.
pub fn on_all_cores<J: Sync, T: Send, E: Send>(
    jobs: &[J],
    run: impl Fn(&J) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    map(threads, jobs, run)
}

/// Each task with the seeds 1 … `seeds`.
pub fn with_seeds<J>(tasks: &[J], seeds: u64) -> Vec<(&J, u64)> {
    let jobs = tasks.iter();
    let jobs = jobs.flat_map(|task| (1..=seeds).map(move |seed| (task, seed)));
    jobs.collect()
}

/// Runs each task with the seeds 1 … `seeds`, on all cores. Makes a row of each task and its
/// reports, which are in the order of the seeds. The rows have the order of the tasks.
pub fn rows_over_seeds<J: Sync, T: Send, E: Send, R>(
    tasks: &[J],
    seeds: u64,
    run: impl Fn(&J, u64) -> Result<T, E> + Sync,
    row: impl Fn(&J, &[(u64, T)]) -> Option<R>,
) -> Result<Vec<R>, E> {
    let run = |(task, seed): &(&J, u64)| run(task, *seed);
    let reports = on_all_cores(&with_seeds(tasks, seeds), run)?;
    Ok(rows(tasks, seeds, reports, row))
}

/// A row of each task and its reports, which are in the order of [`with_seeds`].
pub fn rows<J, T, R>(
    tasks: &[J],
    seeds: u64,
    reports: Vec<T>,
    row: impl Fn(&J, &[(u64, T)]) -> Option<R>,
) -> Vec<R> {
    let seeded = with_seeds(tasks, seeds).into_iter().map(|(_, seed)| seed);
    let reports: Vec<(u64, T)> = seeded.zip(reports).collect();
    let of_tasks = tasks.iter().zip(reports.chunks(seeds.max(1) as usize));
    of_tasks
        .filter_map(|(task, reports)| row(task, reports))
        .collect()
}
