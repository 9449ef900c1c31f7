//! The estimator on recorded power of real boards.

use std::collections::BTreeMap;

use crate::traces::{self, Row, Run};

const AGX_ORIN: &str = "agx-orin-64__llm-phases__jetson-llm-maxperf.csv";
const ORIN_NX: &str = "orin-nx__start-up-and-training__e2fl.csv";
const ORIN_NANO: &str = "orin-nano-8-super__llm__jetsonfabric.csv";

/// Forecast horizons in polls.
const AHEAD: std::ops::RangeInclusive<usize> = 1..=5;

/// Maximum forecast horizon. The file of the Orin Nano has a poll every 0.5 s.
const FURTHEST_MS: f64 = 1_100.0;

/// Sums of the absolute errors of forecasts, in mW.
#[derive(Clone, Copy, Default)]
struct Errors {
    forecasts: f64,
    same: f64,
    mean: f64,
    estimator: f64,
}

/// A forecast, rounded to a whole number of steps from a reading.
fn in_steps(forecast: f64, reading: f64, step: f64) -> f64 {
    reading + ((forecast - reading) / step).round() * step
}

/// Mean of the totals of the last second.
fn last_second(rows: &[Row]) -> f64 {
    let now = rows.last().map_or(0.0, |row| row.ms);
    let last = rows.iter().rev().take_while(|row| row.ms > now - 1_000.0);
    let totals: Vec<f64> = last.map(Row::total).collect();
    totals.iter().sum::<f64>() / totals.len() as f64
}

/// Adds the errors of the forecasts of a run, by horizon in polls.
fn forecast(run: &Run, errors: &mut BTreeMap<usize, Errors>) {
    let mut estimator = run.estimator();
    for (at, row) in run.rows.iter().enumerate() {
        estimator.update(&row.sample(), row.time());
        if row.ms < 1_000.0 {
            continue;
        }
        let mean = last_second(&run.rows[..=at]);
        for ahead in AHEAD {
            let Some(next) = run.rows.get(at + ahead) else {
                break;
            };
            let later = next.time().since(row.time());
            if later.0 as f64 > FURTHEST_MS {
                break;
            }
            let forecast = estimator.forecast(later).expect("there were readings");
            let rails = row.rails.iter().zip(&run.steps).zip(forecast);
            let forecast: f64 = rails
                .map(|((reading, step), forecast)| in_steps(f64::from(forecast), *reading, *step))
                .sum();
            let errors = errors.entry(ahead).or_default();
            errors.forecasts += 1.0;
            errors.same += (next.total() - row.total()).abs();
            errors.mean += (next.total() - mean).abs();
            errors.estimator += (next.total() - forecast).abs();
        }
    }
}

#[test]
fn forecasts_beat_the_last_reading_and_the_mean_of_a_second() {
    for name in [AGX_ORIN, ORIN_NX, ORIN_NANO] {
        let Some(path) = traces::find(name) else {
            continue;
        };
        let mut errors = BTreeMap::new();
        for run in traces::read(&path) {
            forecast(&run, &mut errors);
        }
        println!("{name}: mean absolute errors in mW\nahead    same    mean  estimator");
        for (ahead, sum) in errors {
            let [same, mean, estimator] =
                [sum.same, sum.mean, sum.estimator].map(|sum_of| sum_of / sum.forecasts);
            println!("{ahead:5} {same:7.1} {mean:7.1} {estimator:10.1}");
            assert!(
                estimator < same && estimator < mean,
                "{name}, {ahead} polls ahead"
            );
        }
    }
}

/// Maximum distance in ms between the marker of an edge and the edge. In many runs the readings
/// move 0.3 to 0.4 s after the marker.
const MARKER_MS: f64 = 500.0;

/// Minimum change in mW of the readings between two polls at a large edge. The power changes by 4.3
/// times as much.
const LARGE_MW: f64 = 1_000.0;

/// Maximum time in ms from the poll that first shows a step until the step is reported.
const REPORTED_MS: f64 = 200.0;

/// Finds the largest change near each marker. Returns the times of the polls before and after it.
fn large_edges(run: &Run) -> Vec<(f64, f64)> {
    // The power falls during the teardown; afterwards only the register decays.
    let is_marker = |two: &&[Row]| two[0].phase != two[1].phase && two[1].phase != "idle_post";
    let markers = run.rows.windows(2).filter(is_marker);
    let edges = markers.filter_map(|two| {
        let near = |row: &Row| (row.ms - two[1].ms).abs() <= MARKER_MS;
        let moved = |two: &[Row]| (two[1].total() - two[0].total()).abs();
        let pairs = run
            .rows
            .windows(2)
            .filter(|two| near(&two[0]) && moved(two) > LARGE_MW);
        let first = pairs.max_by(|one, other| moved(one).total_cmp(&moved(other)))?;
        Some((first[0].ms, first[1].ms))
    });
    edges.collect()
}

#[test]
fn edges_between_phases_are_reported_as_steps() {
    let Some(path) = traces::find(AGX_ORIN) else {
        return;
    };
    let (mut edges, mut delays) = (0, Vec::new());
    for run in traces::read(&path) {
        let mut estimator = run.estimator();
        // For each step, when it was reported, and its estimated time.
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for row in &run.rows {
            estimator.update(&row.sample(), row.time());
            let since = estimator.estimate().expect("there was a reading").since.0 as f64;
            if steps.last().is_none_or(|(_, at)| *at != since) {
                steps.push((row.ms, since));
            }
        }
        for (before, after) in large_edges(&run) {
            edges += 1;
            let found = steps.iter().find(|(reported, at)| {
                (before - 210.0..=after + 10.0).contains(at) && *reported <= after + REPORTED_MS
            });
            match found {
                Some((reported, _)) => delays.push(reported - after),
                None => println!("not found: {} at {before} ms", run.name),
            }
        }
    }
    delays.sort_by(f64::total_cmp);
    let (median, most) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    let found = delays.len();
    println!(
        "{found} of {edges} large edges, {median} ms after the first poll at the median, \
         {most} ms at most"
    );
    assert!(edges > 50 && found == edges);
}
