//! Draws a recorded run as SVG on standard output: the readings, the estimate with a band of two
//! deviations, the detected steps, and the phases of the file.
//!
//! ```text
//! trace_plot FILE RUN [FROM_S TO_S] > plot.svg
//! ```

#[path = "../tests/it/traces.rs"]
mod traces;

use std::fmt::Write;
use std::path::Path;

use traces::Run;

const WIDTH: f64 = 1_600.0;
const HEIGHT: f64 = 700.0;
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 40.0;
const TOP: f64 = 30.0;

/// A point of a run.
struct Point {
    seconds: f64,
    shown_w: f64,
    power_w: f64,
    deviation_w: f64,
    /// The time of a step that this sample detected.
    step: Option<f64>,
    phase: String,
}

fn points(run: &Run) -> Vec<Point> {
    let mut estimator = run.estimator();
    let mut since = None;
    let rows = run.rows.iter().map(|row| {
        estimator.update(&row.sample(), row.time());
        let estimate = estimator.estimate().expect("there was a reading");
        let before = since.replace(estimate.since);
        let is_new = before.is_some_and(|before| before != estimate.since);
        Point {
            seconds: row.ms / 1e3,
            shown_w: row.total() / 1e3,
            power_w: f64::from(estimate.power) / 1e3,
            deviation_w: f64::from(estimate.deviation) / 1e3,
            step: is_new.then_some(estimate.since.0 as f64 / 1e3),
            phase: row.phase.clone(),
        }
    });
    rows.collect()
}

/// Maps seconds and watts to pixels.
struct Frame {
    from: f64,
    to: f64,
    most_w: f64,
}

impl Frame {
    fn from_points(points: &[Point]) -> Self {
        let powers = points.iter().map(|point| point.shown_w.max(point.power_w));
        Self {
            from: points[0].seconds,
            to: points[points.len() - 1].seconds,
            most_w: 1.1 * powers.fold(1.0, f64::max),
        }
    }

    fn x(&self, seconds: f64) -> f64 {
        LEFT + (seconds - self.from) / (self.to - self.from) * (WIDTH - LEFT - 10.0)
    }

    fn y(&self, watts: f64) -> f64 {
        let part = (watts / self.most_w).clamp(0.0, 1.0);
        HEIGHT - BOTTOM - part * (HEIGHT - BOTTOM - TOP)
    }

    fn line(&self, values: impl Iterator<Item = (f64, f64)>) -> String {
        let places =
            values.map(|(seconds, watts)| format!("{:.1},{:.1} ", self.x(seconds), self.y(watts)));
        places.collect()
    }
}

fn draw(title: &str, points: &[Point]) -> Result<String, std::fmt::Error> {
    let frame = Frame::from_points(points);
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' \
         font-family='sans-serif' font-size='13'>\n<rect width='100%' height='100%' fill='white'/>\n"
    );
    draw_axes(&mut svg, &frame)?;
    let (mut last, mut row) = ("", 0.0);
    for point in points.iter().filter(|point| !point.phase.is_empty()) {
        if point.phase != last {
            let x = frame.x(point.seconds);
            writeln!(
                svg,
                "<line x1='{x:.1}' x2='{x:.1}' y1='{TOP}' y2='{}' stroke='#888' stroke-dasharray='6 4'/><text x='{:.1}' y='{}'>{}</text>",
                HEIGHT - BOTTOM,
                x + 3.0,
                TOP + 12.0 + row,
                point.phase
            )?;
            (last, row) = (&point.phase, 14.0 - row);
        }
    }
    let above = points
        .iter()
        .map(|it| (it.seconds, it.power_w + 2.0 * it.deviation_w));
    let below = points
        .iter()
        .rev()
        .map(|it| (it.seconds, it.power_w - 2.0 * it.deviation_w));
    let band = frame.line(above.chain(below));
    writeln!(
        svg,
        "<polygon points='{band}' fill='#f4a582' fill-opacity='0.5'/>"
    )?;
    for step in points
        .iter()
        .filter_map(|point| point.step)
        .filter(|at| *at >= frame.from)
    {
        let x = frame.x(step);
        writeln!(
            svg,
            "<path d='M{x:.1} {} l-5 12 h10 z' fill='#2a7'/>",
            HEIGHT - BOTTOM
        )?;
    }
    let shown = frame.line(points.iter().map(|it| (it.seconds, it.shown_w)));
    let power = frame.line(points.iter().map(|it| (it.seconds, it.power_w)));
    writeln!(
        svg,
        "<polyline points='{shown}' fill='none' stroke='#247' stroke-width='1.5'/>"
    )?;
    writeln!(
        svg,
        "<polyline points='{power}' fill='none' stroke='#c21' stroke-width='1.5'/>"
    )?;
    writeln!(
        svg,
        "<text x='{LEFT}' y='18'>{title}: reading (blue), estimate and two deviations (red), steps (green)</text>\n</svg>"
    )?;
    Ok(svg)
}

fn draw_axes(svg: &mut String, frame: &Frame) -> std::fmt::Result {
    for tenth in 0..=10 {
        let part = f64::from(tenth) / 10.0;
        let (watts, seconds) = (
            part * frame.most_w,
            frame.from + part * (frame.to - frame.from),
        );
        let (x, y) = (frame.x(seconds), frame.y(watts));
        writeln!(
            svg,
            "<line x1='{LEFT}' x2='{WIDTH}' y1='{y:.1}' y2='{y:.1}' stroke='#ddd'/><text x='8' y='{:.1}'>{watts:.1} W</text>",
            y + 4.0
        )?;
        writeln!(
            svg,
            "<text x='{:.1}' y='{}' text-anchor='middle'>{seconds:.1} s</text>",
            x,
            HEIGHT - 8.0
        )?;
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, name, times @ ..] = arguments.as_slice() else {
        return Err("usage: trace_plot FILE RUN [FROM_S TO_S] > plot.svg".into());
    };
    let runs = traces::read(Path::new(file));
    let run = runs.iter().find(|run| run.name == *name);
    let run = run.ok_or_else(|| format!("{file} has no run {name}"))?;
    let (from, to) = match times {
        [from, to] => (from.parse()?, to.parse()?),
        _ => (0.0, f64::MAX),
    };
    let mut points = points(run);
    points.retain(|point| (from..=to).contains(&point.seconds));
    if points.len() < 2 {
        return Err(format!("{name} has no two polls from {from} s to {to} s").into());
    }
    print!("{}", draw(name, &points)?);
    Ok(())
}
