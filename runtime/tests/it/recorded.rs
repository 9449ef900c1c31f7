//! The estimator on recorded power of real boards.

use std::collections::BTreeMap;

use crate::traces::{self, Row, Run};

const AGX_ORIN: &str = "agx-orin-64__llm-phases__jetson-llm-maxperf.csv";
const ORIN_NX: &str = "orin-nx__start-up-and-training__e2fl.csv";
const ORIN_NANO: &str = "orin-nano-8-super__llm__jetsonfabric.csv";

/// Polls ahead that are forecast.
const AHEAD: std::ops::RangeInclusive<usize> = 1..=5;

/// A forecast does not reach further: the file of the Orin Nano has 0.5 s from poll to poll.
const FURTHEST_MS: f64 = 1_100.0;

/// Sums of the absolute errors of forecasts, in mW.
#[derive(Clone, Copy, Default)]
struct Errors {
    forecasts: f64,
    same: f64,
    mean: f64,
    estimator: f64,
}

/// What is shown in whole steps away from a reading.
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

/// Errors of the total by polls ahead.
fn forecast(run: &Run, errors: &mut BTreeMap<usize, Errors>) {
    let mut estimator = run.estimator();
    for (at, row) in run.rows.iter().enumerate() {
        estimator.look(&row.sample(), row.time());
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
fn the_next_readings_are_forecast_better_than_by_the_same_and_by_the_mean() {
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
                "{name}, {ahead} ahead"
            );
        }
    }
}

/// Around the marker of an edge, in ms: the readings of many runs move 0.3 to 0.4 s after it.
const MARKER_MS: f64 = 500.0;

/// A large edge moves the readings by this between two polls, in mW: the power by 4.3 times as much.
const LARGE_MW: f64 = 1_000.0;

/// A step is reported within this time after the poll that first shows it, in ms.
const REPORTED_MS: f64 = 200.0;

/// Where the readings move most near the markers: times of the poll before and of the poll after.
fn large_edges(run: &Run) -> Vec<(f64, f64)> {
    // The power falls in the teardown: what is after its end is the register's tail.
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
fn edges_between_phases_come_out_as_steps() {
    let Some(path) = traces::find(AGX_ORIN) else {
        return;
    };
    let (mut edges, mut delays) = (0, Vec::new());
    for run in traces::read(&path) {
        let mut estimator = run.estimator();
        // When each step was reported, and when it is said to have been.
        let mut steps: Vec<(f64, f64)> = Vec::new();
        for row in &run.rows {
            estimator.look(&row.sample(), row.time());
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
        "{found} of {edges} large edges, {median} ms after the first poll at the median, {most} at most"
    );
    assert!(edges > 50 && found == edges);
}
