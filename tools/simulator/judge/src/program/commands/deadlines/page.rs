//! The page of `deadlines`: one training under three aims, and the table of the cases.

use std::fmt::Write as _;

use plotters::prelude::SeriesLabelPosition;
use wattgate_judge::deadlines::{Case, Course};

use crate::chart::{Chart, Failed, Line};

const SIZE: (u32, u32) = (900, 320);

/// Draws the page.
pub fn page(courses: &[Course], cases: &[Case], table: &str) -> Result<String, Failed> {
    let mut boards: Vec<&str> = courses.iter().map(|course| course.board).collect();
    boards.dedup();
    let (mut charts, mut rows) = (String::new(), String::new());
    for board in boards {
        let on_board = courses.iter().filter(|course| course.board == board);
        let on_board: Vec<&Course> = on_board.collect();
        let limit_w = on_board.first().map_or(0.0, |course| course.limit_w);
        charts += &chart(&on_board, &format!("{board}: power, W"), 1, Some(limit_w))?;
        charts += &chart(&on_board, &format!("{board}: steps"), 2, None)?;
        let race = on_board.first().map_or(1.0, |course| course.energy_j);
        for course in on_board {
            writeln!(
                rows,
                "<tr><td>{board}<td>{}<td>{}<td>{:.1}<td>{:.0}<td>{:.2}<td>{:+.1}",
                course.aim,
                course.steps,
                course.limit_w,
                course.done_s,
                course.energy_j / 3_600.0,
                100.0 * (course.energy_j / race - 1.0)
            )?;
        }
    }
    let body = format!(
        "<p>Simulated. The same training under three aims, each with ten minutes for all its steps, which the fastest mode within the
limit does in half of the time. An idle board rests in the mode of least power. The dashed line is the limit.</p>
{charts}
<table>
<tr><th>board<th>aim<th>steps<th>limit, W<th>done after, s<th>energy until the deadline, Wh<th>beside the fastest, %
{rows}</table>
<h2>{} random cases</h2>
<pre>{table}</pre>",
        cases.len()
    );
    let style = "td, th { padding: 0 .8em; text-align: right } td:nth-child(1), td:nth-child(2), th { text-align: left }";
    Ok(crate::chart::page("Deadlines", "60em", style, &body))
}

/// A chart of a column of the points over the time, with a line for each aim.
fn chart(
    courses: &[&Course],
    title: &str,
    column: usize,
    limit: Option<f64>,
) -> Result<String, Failed> {
    let points = || courses.iter().flat_map(|course| &course.points);
    let most = |coordinate: usize| points().map(|point| point[coordinate]).fold(1.0, f64::max);
    let (end, high) = (most(0), most(column).max(limit.unwrap_or(0.0)));
    let line = |course: &&Course| Line {
        label: course.aim.to_owned(),
        points: course.points.iter().map(|it| (it[0], it[column])).collect(),
    };
    let chart = Chart {
        title,
        size: SIZE,
        x: 0.0..end,
        y: 0.0..1.1 * high,
        x_name: "time, s",
        dashed: limit,
        has_circles: false,
        // Where no line is.
        legend: match limit {
            Some(_) => SeriesLabelPosition::MiddleRight,
            None => SeriesLabelPosition::LowerRight,
        },
    };
    chart.draw(&courses.iter().map(line).collect::<Vec<_>>())
}
