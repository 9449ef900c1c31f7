//! Pages, and charts for them.

use std::ops::Range;

use plotters::prelude::*;

/// Colours of lines, told apart by everybody (Okabe and Ito).
const COLOURS: [RGBColor; 4] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
];

pub type Failed = Box<dyn std::error::Error>;

/// A page with a title and the width of its text. `style` is further CSS, and the body is HTML.
pub fn page(title: &str, width: &str, style: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>
<html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>
<style>
body {{ font: 16px/1.5 sans-serif; max-width: {width}; margin: 2em auto; padding: 0 1em; color: #222; background: #fff }}
svg {{ width: 100%; height: auto }}
{style}
</style>
<h1>{title}</h1>
{body}
</html>
"
    )
}

/// A chart of some lines.
pub struct Chart<'a> {
    pub title: &'a str,
    pub size: (u32, u32),
    pub x: Range<f64>,
    pub y: Range<f64>,
    /// What the horizontal axis shows.
    pub x_name: &'a str,
    /// A dashed line at this height.
    pub dashed: Option<f64>,
    /// Whether each point has a circle.
    pub has_circles: bool,
    pub legend: SeriesLabelPosition,
}

/// A line with its label.
pub struct Line {
    pub label: String,
    pub points: Vec<(f64, f64)>,
}

impl Chart<'_> {
    /// Draws the lines. Returns the text of an SVG.
    pub fn draw(&self, lines: &[Line]) -> Result<String, Failed> {
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, self.size).into_drawing_area();
            area.fill(&WHITE)?;
            let mut chart = ChartBuilder::on(&area)
                .caption(self.title, ("sans-serif", 18))
                .margin(12)
                .x_label_area_size(40)
                .y_label_area_size(60)
                .build_cartesian_2d(self.x.clone(), self.y.clone())?;
            chart
                .configure_mesh()
                .x_desc(self.x_name)
                .x_labels(12)
                .light_line_style(WHITE)
                .draw()?;
            if let Some(height) = self.dashed {
                let ends = [(self.x.start, height), (self.x.end, height)];
                let style = BLACK.stroke_width(1);
                chart.draw_series(DashedLineSeries::new(ends, 6, 4, style))?;
            }
            for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
                if self.has_circles {
                    let circle = |at: &(f64, f64)| Circle::new(*at, 4, colour.filled());
                    chart.draw_series(line.points.iter().map(circle))?;
                }
                let style = colour.stroke_width(2);
                chart
                    .draw_series(LineSeries::new(line.points.iter().copied(), style))?
                    .label(&line.label)
                    .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
            }
            chart
                .configure_series_labels()
                .position(self.legend.clone())
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .draw()?;
            area.present()?;
        }
        Ok(text)
    }
}
