//! The replay on the recorded board as an SVG image: the limit, and the true power under wattgate's
//! watchdog and under MAXN.

use plotters::prelude::*;

use super::replay::{Replay, Series};

const SIZE: (u32, u32) = (900, 440);
const FONT: (&str, u32) = ("sans-serif", 16);

/// The series that are drawn, by their place in the replay, with their colours: the first is drawn
/// last, on top.
const DRAWN: [(usize, RGBColor); 2] = [(0, RGBColor(0, 103, 197)), (2, RGBColor(150, 158, 170))];

/// Draws the replay. The same replay gives the same text.
pub fn draw(replay: &Replay) -> String {
    let mut text = String::new();
    draw_into(&mut text, replay).expect("a text takes what is drawn");
    text
}

fn draw_into(text: &mut String, replay: &Replay) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(text, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let points = |series: &Series| {
        series
            .points
            .iter()
            .map(|&[s, w]| (s, w))
            .collect::<Vec<_>>()
    };
    let shown = |place: usize| replay.series.get(place);
    let highest = DRAWN.iter().filter_map(|&(place, _)| shown(place));
    let highest = highest.flat_map(|series| &series.points).map(|&[_, w]| w);
    // Room for the legend.
    let top = highest.fold(0.0, f64::max) * 1.4;
    let end = f64::from(replay.end_s);
    let mut chart = ChartBuilder::on(&area)
        .margin(12)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, 0.0..top)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(233, 236, 240))
        .x_desc("time in s (recorded Jetson TX1)")
        .y_desc("relative power in W, mean of 430 ms")
        .x_label_formatter(&whole)
        .y_label_formatter(&whole)
        .label_style(FONT)
        .axis_desc_style(FONT)
        .draw()?;
    for (place, colour) in DRAWN.into_iter().rev() {
        let Some(series) = shown(place) else { continue };
        chart
            .draw_series(LineSeries::new(points(series), colour.stroke_width(2)))?
            .label(series.name)
            .legend(move |(x, y)| line(x, y, colour));
    }
    chart
        .draw_series(LineSeries::new(limits(replay), BLACK.stroke_width(2)))?
        .label("limit")
        .legend(|(x, y)| line(x, y, BLACK));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE)
        .border_style(RGBColor(221, 226, 232))
        .label_font(FONT)
        .draw()?;
    area.present()?;
    Ok(())
}

fn whole(value: &f64) -> String {
    format!("{value:.0}")
}

fn line(x: i32, y: i32, colour: RGBColor) -> PathElement<(i32, i32)> {
    PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2))
}

/// The limits as a stepped line.
fn limits(replay: &Replay) -> Vec<(f64, f64)> {
    let ends = replay.limits.iter().skip(1).map(|limit| limit.from_s);
    let ends = ends.chain([replay.end_s]);
    let steps = replay.limits.iter().zip(ends);
    let corner = |s: u32, watts: f64| (f64::from(s), watts);
    steps
        .flat_map(|(limit, end)| {
            [
                corner(limit.from_s, limit.limit_w),
                corner(end, limit.limit_w),
            ]
        })
        .collect()
}
