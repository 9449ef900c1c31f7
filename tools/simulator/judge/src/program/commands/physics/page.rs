//! The page of `physics`: of each corpus the distribution of the errors, what each clock does, and the front.

use plotters::prelude::SeriesLabelPosition;
use wattgate_judge::physics::corpus::FASTEST_S;
use wattgate_judge::physics::score::{Compared, front};
use wattgate_judge::physics::{Basis, Comparison, Row};

use super::KNOBS;
use crate::chart::{Chart, Failed, Line};

const SIZE: (u32, u32) = (600, 320);

/// Errors beyond this are not drawn, in %.
const MOST_ERROR: f64 = 30.0;

/// Time and power, as charts name them.
const QUANTITIES: [&str; 2] = ["time", "power"];

/// Speed in % of the fastest measured mode, and power in W.
const SHOWN: [&str; 2] = ["speed, %", "power, W"];

fn shown(figures: [f64; 2]) -> [f64; 2] {
    [100.0 * FASTEST_S / figures[0], figures[1]]
}

/// Draws the page.
pub fn page(comparison: &Comparison<'_>, text: &str) -> Result<String, Failed> {
    let mut sections = String::new();
    let mut names: Vec<&str> = Vec::new();
    for row in &comparison.rows {
        if !names.contains(&row.corpus.name.as_str()) {
            names.push(&row.corpus.name);
        }
    }
    for name in names {
        let rows = comparison.rows.iter().filter(|row| row.corpus.name == name);
        let rows: Vec<&Row<'_>> = rows.collect();
        sections += &format!("<h2>{name}</h2>\n<div>\n");
        for (at, quantity) in QUANTITIES.into_iter().enumerate() {
            sections += &distribution(&rows, at, &format!("errors of the {quantity}"))?;
        }
        for (knob, name) in KNOBS.into_iter().enumerate() {
            let is_varied = rows.iter().any(|row| row.effects[knob].is_some());
            for (at, quantity) in SHOWN.into_iter().enumerate().filter(|_| is_varied) {
                sections += &over_knob(&rows, knob, at, &format!("{quantity} over {name}"))?;
            }
        }
        sections += &fronts(&rows)?;
        sections += "</div>\n";
    }
    let body = format!(
        "<p>Measured corpora beside the simulated physics, whose workloads are fitted to 15 modes. Errors are those of the other modes. Over a
clock, all other knobs are at their highest values. Speed is that of the fastest mode = 100 %. A front has the modes that no other
one beats in time and power; those of the simulated front are drawn where they were measured.</p>
{sections}<h2>Tables</h2>
<pre>{text}</pre>"
    );
    let style = "div { display: grid; grid-template-columns: 1fr 1fr; gap: 0 1em }
pre { overflow-x: auto; font-size: 12px }";
    Ok(crate::chart::page(
        "Physics and measurement",
        "80em",
        style,
        &body,
    ))
}

/// The share of modes whose error is at most the one on the horizontal axis.
fn distribution(rows: &[&Row<'_>], at: usize, title: &str) -> Result<String, Failed> {
    let line = |row: &&Row<'_>| {
        let mut errors = row.misses[at].clone();
        errors.sort_by(f64::total_cmp);
        let share = |n: u32| {
            let error = f64::from(n) / 100.0 * MOST_ERROR;
            let within = errors.partition_point(|it| *it <= error);
            (error, 100.0 * within as f64 / errors.len().max(1) as f64)
        };
        Line {
            label: row.basis.name().to_owned(),
            points: (0..=100).map(share).collect(),
        }
    };
    let chart = Chart {
        title: &format!("{title}: % of the modes within"),
        size: SIZE,
        x: 0.0..MOST_ERROR,
        y: 0.0..100.0,
        x_name: "error, %",
        dashed: Some(50.0),
        has_circles: false,
        legend: SeriesLabelPosition::LowerRight,
    };
    // The other charts have the measurement first, so that each basis has one colour.
    let mut ordered = rows.to_vec();
    ordered.sort_by_key(|row| row.basis != Basis::WorkloadOut);
    chart.draw(&ordered.iter().map(line).collect::<Vec<_>>())
}

/// Time or power over one knob, all others at their highest values.
fn over_knob(rows: &[&Row<'_>], knob: usize, at: usize, title: &str) -> Result<String, Failed> {
    let scale = if knob == 0 { 1.0 } else { 1e3 };
    let x = |mode: &Compared| f64::from(mode.knobs[knob]) / scale;
    // The others of most modes, of those the highest.
    let first = rows.first().map_or(&[][..], |row| &row.compared);
    let others = |mode: &Compared| {
        let mut others = mode.knobs;
        others[knob] = 0;
        others
    };
    let mut lines = std::collections::BTreeMap::<[u32; 4], usize>::new();
    for mode in first {
        *lines.entry(others(mode)).or_default() += 1;
    }
    let most = lines
        .iter()
        .max_by_key(|(others, count)| (**count, **others));
    let Some((others_of_most, _)) = most else {
        return Ok(String::new());
    };
    let on_line = |row: &Row<'_>| -> Vec<Compared> {
        let modes = row.compared.iter();
        let modes = modes.filter(|mode| others(mode) == *others_of_most);
        modes.copied().collect()
    };
    let mut drawn = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        let modes = on_line(row);
        if number == 0 {
            drawn.push(Line {
                label: "measured".to_owned(),
                points: modes
                    .iter()
                    .map(|it| (x(it), shown(it.measured)[at]))
                    .collect(),
            });
        }
        if row.basis != Basis::WorkloadOut {
            drawn.push(Line {
                label: row.basis.name().to_owned(),
                points: modes
                    .iter()
                    .map(|it| (x(it), shown(it.simulated)[at]))
                    .collect(),
            });
        }
    }
    let all = || drawn.iter().flat_map(|line| &line.points);
    let chart = Chart {
        title,
        size: SIZE,
        x: 0.0..1.05 * all().map(|(x, _)| *x).fold(0.0, f64::max),
        y: 0.0..1.1 * all().map(|(_, y)| *y).fold(0.0, f64::max),
        x_name: if knob == 0 { "cores" } else { "MHz" },
        dashed: None,
        has_circles: true,
        legend: SeriesLabelPosition::LowerRight,
    };
    chart.draw(&drawn)
}

/// The measured front, and the modes of the simulated fronts where they were measured.
fn fronts(rows: &[&Row<'_>]) -> Result<String, Failed> {
    let point = |mode: &Compared| {
        let [speed, power] = shown(mode.measured);
        (power, speed)
    };
    let line = |label: &str, modes: &[Compared], figures: fn(&Compared) -> [f64; 2]| {
        let points: Vec<[f64; 2]> = modes.iter().map(figures).collect();
        Line {
            label: label.to_owned(),
            points: front(&points)
                .into_iter()
                .map(|at| point(&modes[at]))
                .collect(),
        }
    };
    let mut drawn = Vec::new();
    for (number, row) in rows.iter().enumerate() {
        if number == 0 {
            drawn.push(line("measured front", &row.compared, |it| it.measured));
        }
        if row.basis != Basis::WorkloadOut {
            let label = format!("simulated front, {}", row.basis.name());
            drawn.push(line(&label, &row.compared, |it| it.simulated));
        }
    }
    let all = || drawn.iter().flat_map(|line| &line.points);
    let chart = Chart {
        title: "fronts: speed, %, over power",
        size: SIZE,
        x: 0.0..1.05 * all().map(|(x, _)| *x).fold(0.0, f64::max),
        y: 0.0..1.1 * all().map(|(_, y)| *y).fold(0.0, f64::max),
        x_name: "W",
        dashed: None,
        has_circles: false,
        legend: SeriesLabelPosition::LowerRight,
    };
    chart.draw(&drawn)
}
