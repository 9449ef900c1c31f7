//! The page of `dynamics`: a recorded and a simulated run of each load, the spectra of their phases, and the tables.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use plotters::prelude::SeriesLabelPosition;
use wattgate_judge::dynamics::comparison::Group;
use wattgate_judge::dynamics::statistics::Statistics;
use wattgate_judge::dynamics::trace::Phase;
use wattgate_judge::dynamics::{Comparison, Run, median};

use crate::chart::{Chart, Failed, Line};

const SIZE: (u32, u32) = (900, 300);

/// Draws the page.
pub fn page(comparison: &Comparison, table: &str) -> Result<String, Failed> {
    let mut charts = String::new();
    for group in &comparison.groups {
        let name = group.name();
        writeln!(charts, "<h2>{name}</h2>")?;
        for run in longest(&group.recorded).into_iter().take(1) {
            charts += &over_time(run, &format!("{name}: recorded, run {}", run.name))?;
        }
        for (kind, runs) in &group.simulated {
            if let Some(run) = runs.first() {
                charts += &over_time(run, &format!("{name}: simulated, {}", kind.name()))?;
            }
        }
        charts += &spectra(group)?;
    }
    let table = table.replace('<', "&lt;");
    let body = format!(
        "<p>What the power sensors of real boards showed (recorded) beside those of simulated boards under the loads that stand for the
same work (simulated), both polled at the same period. Spectra have the share of the variance by octave of the period: each
point is the median over the runs.</p>
{charts}
<h2>Figures</h2>
<pre>{table}</pre>"
    );
    let style = "pre { overflow-x: auto; font-size: 13px }";
    Ok(crate::chart::page("Dynamics", "60em", style, &body))
}

/// The runs with work, those of most phases and the longest of them first.
fn longest(runs: &[Run]) -> Vec<&Run> {
    let mut runs: Vec<&Run> = runs.iter().collect();
    let rank = |run: &Run| {
        let phases: BTreeSet<Phase> = run.stretches.iter().map(|it| it.phase).collect();
        (phases.len(), run.readings.len())
    };
    runs.sort_by_key(|run| std::cmp::Reverse(rank(run)));
    runs
}

fn over_time(run: &Run, title: &str) -> Result<String, Failed> {
    let points = run.readings.iter().map(|it| (it.seconds, it.watts));
    let line = Line {
        label: "reading, W".to_owned(),
        points: points.collect(),
    };
    let end = run.readings.last().map_or(1.0, |it| it.seconds);
    let chart = Chart {
        title,
        size: SIZE,
        x: 0.0..end,
        y: 0.0..1.1 * run.range_w()[1],
        x_name: "time, s",
        dashed: None,
        has_circles: false,
        legend: SeriesLabelPosition::UpperRight,
    };
    chart.draw(&[line])
}

/// A chart for each phase that was recorded and is simulated.
fn spectra(group: &Group) -> Result<String, Failed> {
    let phases = |runs: &[Run]| -> BTreeSet<Phase> {
        let stretches = runs.iter().flat_map(|run| &run.stretches);
        stretches.map(|stretch| stretch.phase).collect()
    };
    let mut charts = String::new();
    for phase in phases(&group.recorded) {
        let mut lines = vec![spectrum("recorded", &group.recorded, phase)];
        for (kind, runs) in &group.simulated {
            lines.push(spectrum(&kind.name(), runs, phase));
        }
        lines.retain(|line| !line.points.is_empty());
        if phase == Phase::Other || lines.len() < 2 {
            continue;
        }
        let points = || lines.iter().flat_map(|line| &line.points);
        let first = points().map(|point| point.0).fold(f64::INFINITY, f64::min);
        let last = points()
            .map(|point| point.0)
            .fold(f64::NEG_INFINITY, f64::max);
        let high = points().map(|point| point.1).fold(1.0, f64::max);
        let title = format!(
            "{}: spectrum of {}, % of the variance",
            group.name(),
            phase.name()
        );
        let chart = Chart {
            title: &title,
            size: SIZE,
            x: first..last.max(first + 1.0),
            y: 0.0..1.1 * high,
            x_name: "period of the octave, log2 of s",
            dashed: None,
            has_circles: true,
            legend: SeriesLabelPosition::UpperRight,
        };
        charts += &chart.draw(&lines)?;
    }
    Ok(charts)
}

/// The median share of each octave over all stretches of a phase.
fn spectrum(label: &str, runs: &[Run], phase: Phase) -> Line {
    let statistics: Vec<Statistics> = runs
        .iter()
        .flat_map(|run| {
            let stretches = run.stretches.iter().filter(|it| it.phase == phase);
            stretches.filter_map(|it| Statistics::of(run, it))
        })
        .collect();
    let longest = statistics.iter().map(|it| it.octaves.len()).max();
    let points = (0..longest.unwrap_or(0)).filter_map(|at| {
        let octaves: Vec<_> = statistics
            .iter()
            .filter_map(|it| it.octaves.get(at))
            .collect();
        let period_s = octaves.first()?.period_s;
        let share = 100.0 * median(octaves.iter().map(|it| it.share));
        Some((period_s.log2(), share))
    });
    Line {
        label: label.to_owned(),
        points: points.collect(),
    }
}
