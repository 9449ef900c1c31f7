//! Step "replay": a job under a changing power limit. Compares the true power under wattgate's watchdog with that under modes that
//! the model chooses once per limit, under NVIDIA's presets and under MAXN.

use std::path::Path;
use std::time::Duration;

use indicatif::ProgressBar;
use serde::Serialize;
use wattgate_board_tables::Board;
use wattgate_judge::replay::report::LoadReport;
use wattgate_judge::replay::sliding::{lines, sampled};
use wattgate_judge::replay::truth::TimedMode;
use wattgate_judge::replay::{LoadRun, ReplayError, timed_modes, traced};
use wattgate_judge::{Holder, LIMIT_WINDOW};
use wattgate_simulated_board::load::{Kind, Load, Step};
use wattgate_simulated_board::sampling::Sampling;
use wattgate_simulated_board::workload::Workload;

use super::round::round;

/// Length of the replay, in s.
const END: u32 = 240;

/// Start and end of the job's pause, in s.
const PAUSE: [u64; 2] = [135, 155];

/// Interval between two points of a curve.
const POINT_EVERY: Duration = Duration::from_millis(200);

/// Starts of the limits, in s.
const STARTS: [u32; 4] = [0, 60, 120, 180];

const WATTGATE: (&str, Holder) = ("wattgate's watchdog", Holder::Wattgate);
const ONCE: (&str, Holder) = ("chosen once by the model", Holder::Once);
const PRESETS: (&str, Holder) = ("NVIDIA's presets", Holder::Preset);
const MAXN: (&str, Holder) = ("MAXN", Holder::Maxn);

/// Who holds the limits, with their names on the page. The presets of the recorded TX1 are not known.
pub const ON_RECORDED: &[(&str, Holder)] = &[WATTGATE, ONCE, MAXN];
pub const ON_SIMULATED: &[(&str, Holder)] = &[WATTGATE, ONCE, PRESETS, MAXN];

/// What is replayed.
pub struct Job<'a> {
    pub board: &'a Board,
    pub workload: &'a Workload,
    /// The file of the model.
    pub model: &'a Path,
    /// One limit in mW for each of the starts.
    pub limits: [u32; STARTS.len()],
    pub holders: &'a [(&'static str, Holder)],
    pub seed: u64,
}

/// Power over time under the limits.
#[derive(Clone, Debug, Serialize)]
pub struct Replay {
    pub limits: Vec<Limit>,
    pub end_s: u32,
    /// Steps of the load: start in s, activity in 0 … 1.
    pub load: Vec<[f64; 2]>,
    pub series: Vec<Series>,
}

/// A limit, valid until the next one starts.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Limit {
    pub from_s: u32,
    pub limit_w: f64,
}

/// The true power under one holder, and the report of the run.
#[derive(Clone, Debug, Serialize)]
pub struct Series {
    pub name: &'static str,
    /// Time in s, and the mean true power in W over the 430 ms before.
    pub points: Vec<[f64; 2]>,
    pub report: LoadReport,
}

/// Replays the job, once per holder. The progress bar counts them.
pub fn replay(job: &Job<'_>, progress: &ProgressBar) -> Result<Replay, ReplayError> {
    let modes = timed_modes(job.board, job.model, job.workload)?;
    let load = training_with_a_pause(job.seed);
    let limits = || STARTS.into_iter().zip(job.limits);
    let series = job.holders.iter().map(|&(name, holder)| {
        let run = LoadRun {
            board: job.board,
            model: job.model,
            limits: limits()
                .map(|(s, milliwatts)| (Duration::from_secs(s.into()), milliwatts))
                .collect(),
            load: load.clone(),
            workload: job.workload,
            samples: Sampling::L4T.samples,
            unit: None,
            seed: job.seed,
            holder,
            errors: None,
        };
        let series = series(name, &run, &modes);
        progress.inc(1);
        series
    });
    let step = |step: &Step| [step.from.as_secs_f64(), round(step.activity, 3)];
    Ok(Replay {
        series: series.collect::<Result<_, _>>()?,
        limits: limits()
            .map(|(from_s, milliwatts)| Limit {
                from_s,
                limit_w: f64::from(milliwatts) / 1e3,
            })
            .collect(),
        end_s: END,
        load: load.steps().iter().map(step).collect(),
    })
}

fn series(
    name: &'static str,
    run: &LoadRun<'_>,
    modes: &[TimedMode],
) -> Result<Series, ReplayError> {
    let (report, trace) = traced(run, modes)?;
    let stretches = trace.iter().map(|segment| (segment.until, segment.watts));
    let means = lines(stretches, Duration::ZERO, LIMIT_WINDOW);
    let points = sampled(means, POINT_EVERY).into_iter();
    Ok(Series {
        name,
        points: points.map(|[s, w]| [round(s, 1), round(w, 3)]).collect(),
        report,
    })
}

fn training_with_a_pause(seed: u64) -> Load {
    let [from, to] = PAUSE.map(Duration::from_secs);
    let end = Duration::from_secs(END.into());
    let before = Kind::Training.load(from, seed);
    let after = Kind::Training.load(end - to, seed.wrapping_add(1));
    let mut steps = before.steps().to_vec();
    steps.push(Step::new(from, 0.0));
    let after = after.steps().iter().map(|step| Step {
        from: to + step.from,
        ..*step
    });
    steps.extend(after);
    Load::new(steps, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_has_phases_and_pauses_once() {
        let load = training_with_a_pause(1);
        let [from, to] = PAUSE.map(Duration::from_secs);
        let all = || load.between(Duration::ZERO, load.length());
        let idle = all().filter(|(_, activity)| *activity == 0.0);
        assert_eq!(idle.collect::<Vec<_>>(), [(20.0, 0.0)]);
        assert_eq!(load.between(from, to).collect::<Vec<_>>(), [(20.0, 0.0)]);
        // A start-up, epochs, validations and checkpoints.
        for [low, high] in [[0.9, 0.9], [1.0, 1.0], [0.7, 0.8], [0.1, 0.2]] {
            assert!(all().any(|(_, activity)| (low..=high).contains(&activity)));
        }
    }
}
