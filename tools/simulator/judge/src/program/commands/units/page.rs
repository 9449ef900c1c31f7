//! The page of `units`: two charts and the table.

use std::fmt::Write as _;
use std::ops::Range;

use plotters::prelude::SeriesLabelPosition;

use super::Row;
use crate::chart::{Chart, Failed, Line};

const SIZE: (u32, u32) = (900, 380);

/// A value of a row.
type Figure = fn(&Row) -> f64;

/// Draws the page of some rows.
pub fn page(rows: &[Row], figures: &str, workload: &str) -> Result<String, Failed> {
    let over = chart(
        rows,
        "units over the limit, %",
        |row| row.figures.over_pct,
        Some(5.0),
    )?;
    let speed = chart(
        rows,
        "speed, % of each unit's oracle",
        |row| row.figures.speed_pct,
        None,
    )?;
    let mut table = String::new();
    for row in rows {
        let figures = &row.figures;
        writeln!(
            table,
            "<tr><td>{}<td>{}<td>{}<td>{}<td>{}<td>{:.1}<td>{:.1}<td>{:.1}<td>{:.1}",
            row.board,
            row.spread,
            row.trained,
            row.choice,
            row.draws,
            figures.over_pct,
            figures.mean_excess_pct,
            figures.worst_excess_pct,
            figures.speed_pct
        )?;
    }
    let body = format!(
        "<p>{workload}, {figures}. A model is made of one or several units; <code>wattgated once</code> then chooses on units that it
was not made of. A unit is over the limit if the power at which its mode settles exceeds it. Lines are means over the boards,
each for a true spread between units in multiples of the published one. The dashed line is what 95 % allows.</p>
{over}
{speed}
<table>
<tr><th>board<th>spread<th>units trained on<th>choice<th>draws<th>over, %<th>by (mean), %<th>by (worst), %<th>speed, %
{table}</table>"
    );
    let style = "td, th { padding: 0 .8em; text-align: right } td:nth-child(1), td:nth-child(4), th { text-align: left }";
    Ok(crate::chart::page(
        "Other units of a board",
        "60em",
        style,
        &body,
    ))
}

/// A chart of a figure of `once` over the number of units in training, with a line for each spread.
fn chart(
    rows: &[Row],
    title: &str,
    figure: Figure,
    allowed: Option<f64>,
) -> Result<String, Failed> {
    let once: Vec<&Row> = rows.iter().filter(|row| row.choice == "once").collect();
    let mut spreads: Vec<f64> = once.iter().map(|row| row.spread).collect();
    spreads.sort_unstable_by(f64::total_cmp);
    spreads.dedup();
    let mut trained: Vec<u64> = once.iter().map(|row| row.trained).collect();
    trained.sort_unstable();
    trained.dedup();
    let line = |spread: f64| -> Vec<(f64, f64)> {
        let mean = |&n: &u64| {
            let alike = once
                .iter()
                .filter(|row| row.spread == spread && row.trained == n);
            let values: Vec<f64> = alike.map(|row| figure(row)).collect();
            (
                n as f64,
                values.iter().sum::<f64>() / values.len().max(1) as f64,
            )
        };
        trained.iter().map(mean).collect()
    };
    let lines = spreads.iter().map(|spread| Line {
        label: format!("true spread {spread} × the published one"),
        points: line(*spread),
    });
    let lines: Vec<Line> = lines.collect();
    let values = lines
        .iter()
        .flat_map(|line| line.points.iter().map(|(_, y)| *y));
    let most = trained.last().map_or(1.0, |most| *most as f64);
    let chart = Chart {
        title,
        size: SIZE,
        x: 0.5..most + 0.5,
        y: around(values.chain(allowed)),
        x_name: "units in training",
        dashed: allowed,
        has_circles: true,
        legend: SeriesLabelPosition::MiddleRight,
    };
    chart.draw(&lines)
}

/// A range around some values.
fn around(values: impl Iterator<Item = f64>) -> Range<f64> {
    let ends = values.fold([f64::INFINITY, f64::NEG_INFINITY], |[low, high], value| {
        [low.min(value), high.max(value)]
    });
    let [low, high] = if ends[0] <= ends[1] { ends } else { [0.0, 1.0] };
    let margin = 0.1 * (high - low).max(1.0);
    (low - margin).max(0.0)..high + margin
}
