//! SVG plots: learning curves with quartiles, predicted against measured values with their bounds,
//! coverage over confidence, and the Pareto front with the chosen modes.

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;
use thiserror::Error;

use crate::compare::evaluate::{Covered, Evaluation, EvaluationRow, SHOWN, Subject};
use crate::compare::optimize::Optimization;
use crate::palette::COLOURS;
use wattgate_trainer::score::Target;

const SIZE: (u32, u32) = (900, 600);

/// Why a plot was not written.
#[derive(Debug, Error)]
#[error("{}: cannot plot: {why}; name another folder with --plots", path.display())]
pub struct PlotError {
    /// The file or folder.
    pub path: PathBuf,
    /// The message of the system or the plotting library.
    pub why: String,
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Failed = Box<dyn std::error::Error>;
type Drawn = Result<(), Failed>;
type Chart<'a, X, Y> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>;

/// Writes up to three plots for each target. `learning-TARGET.svg` shows the error over the number of
/// training modes. `predicted-TARGET.svg` shows the held-out modes of each method's first run.
/// `coverage-TARGET.svg` shows which share of them the guard bands hold; it is left out if no method has
/// a guard band.
pub fn of_evaluation(evaluation: &Evaluation, folder: &Path) -> Result<(), PlotError> {
    for target in Target::ALL {
        let rows: Vec<&EvaluationRow> = evaluation
            .results
            .iter()
            .filter(|row| row.target == target)
            .collect();
        if rows.is_empty() {
            continue;
        }
        plot(folder, &format!("learning-{target}.svg"), |area| {
            learning(area, evaluation, target, &rows)
        })?;
        plot(folder, &format!("predicted-{target}.svg"), |area| {
            predicted(area, evaluation, target)
        })?;
        if rows.iter().any(|row| !row.coverage.is_empty()) {
            plot(folder, &format!("coverage-{target}.svg"), |area| {
                coverage(area, evaluation, target, &rows)
            })?;
        }
    }
    Ok(())
}

/// Writes `front.svg`: all measured modes, and under each limit the best and the chosen mode.
pub fn of_optimization(optimization: &Optimization, folder: &Path) -> Result<(), PlotError> {
    plot(folder, "front.svg", |area| front(area, optimization))
}

fn plot(folder: &Path, name: &str, draw: impl FnOnce(&Area<'_>) -> Drawn) -> Result<(), PlotError> {
    let failed = |path: &Path, why: String| PlotError {
        path: path.to_owned(),
        why,
    };
    fs::create_dir_all(folder).map_err(|why| failed(folder, why.to_string()))?;
    let path = folder.join(name);
    let mut text = String::new();
    let drawn = {
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE)
            .map_err(Into::into)
            .and_then(|()| draw(&area))
            .and_then(|()| area.present().map_err(Into::into))
    };
    drawn.map_err(|why| failed(&path, why.to_string()))?;
    fs::write(&path, text).map_err(|why| failed(&path, why.to_string()))
}

/// The range of the positive values, widened by a factor of 1.1 at both ends.
fn extent(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (low, high) = values
        .filter(|value| *value > 0.0)
        .fold((f64::MAX, 0.0_f64), |(low, high), v| {
            (low.min(v), high.max(v))
        });
    low / 1.1..high.max(low) * 1.1
}

fn chart<'a, X, Y>(
    area: &Area<'a>,
    caption: &str,
    x: X,
    y: Y,
    [x_label, y_label]: [&str; 2],
) -> Result<Chart<'a, X::CoordDescType, Y::CoordDescType>, Failed>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: ValueFormatter<f64>,
    Y::CoordDescType: ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(caption, ("sans-serif", 20))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(72)
        .build_cartesian_2d(x, y)?;
    chart
        .configure_mesh()
        .x_desc(x_label)
        .y_desc(y_label)
        .label_style(("sans-serif", 15))
        .x_label_formatter(&|value| format!("{value}"))
        .y_label_formatter(&|value| format!("{value}"))
        .axis_desc_style(("sans-serif", 17))
        .light_line_style(WHITE)
        .draw()?;
    Ok(chart)
}

fn legend<'a, X, Y>(chart: &mut Chart<'a, X, Y>, position: SeriesLabelPosition) -> Drawn
where
    X: Ranged<ValueType = f64>,
    Y: Ranged<ValueType = f64>,
{
    chart
        .configure_series_labels()
        .position(position)
        .label_font(("sans-serif", 16))
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}

fn title(subject: &Subject) -> String {
    format!("{} ({})", subject.corpus, subject.kind)
}

fn learning(
    area: &Area<'_>,
    evaluation: &Evaluation,
    target: Target,
    rows: &[&EvaluationRow],
) -> Drawn {
    let x = extent(rows.iter().map(|row| row.modes as f64));
    let y = extent(rows.iter().flat_map(|row| [row.mape.q1, row.mape.q3]));
    let caption = format!("{}: {target}", title(&evaluation.subject));
    let labels = ["modes profiled", "error on held-out modes, MAPE %"];
    let mut chart = chart(area, &caption, x.log_scale(), y.log_scale(), labels)?;
    let mut curves: BTreeMap<(&str, _), Vec<&EvaluationRow>> = BTreeMap::new();
    for row in rows {
        curves
            .entry((row.method, row.sampling))
            .or_default()
            .push(row);
    }
    for (((method, sampling), mut curve), colour) in curves.into_iter().zip(COLOURS.iter().cycle())
    {
        curve.sort_unstable_by_key(|row| row.modes);
        let up = curve.iter().map(|row| (row.modes as f64, row.mape.q3));
        let down = curve
            .iter()
            .rev()
            .map(|row| (row.modes as f64, row.mape.q1));
        let band: Vec<(f64, f64)> = up.chain(down).collect();
        chart.draw_series([Polygon::new(band, colour.mix(0.15))])?;
        let medians: Vec<(f64, f64)> = curve
            .iter()
            .map(|row| (row.modes as f64, row.mape.median))
            .collect();
        let dots = medians
            .iter()
            .map(|&at| Circle::new(at, 4, colour.filled()));
        chart.draw_series(dots)?;
        chart
            .draw_series(LineSeries::new(medians, colour.stroke_width(2)))?
            .label(format!("{method}, {sampling}"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(3)));
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}

fn predicted(area: &Area<'_>, evaluation: &Evaluation, target: Target) -> Drawn {
    let mut first: BTreeMap<&str, _> = BTreeMap::new();
    for run in &evaluation.runs {
        first.entry(run.method).or_insert(run);
    }
    // µs to ms, mW to W.
    let unit = 1e3;
    let name = match target {
        Target::Time => "time, ms",
        Target::Power => "power, W",
    };
    let all = || first.values().flat_map(|run| &run.shown[target as usize]);
    let range = extent(all().map(|it| it.measured / unit));
    let caption = format!("{}: {target}", title(&evaluation.subject));
    let percent = f64::from(SHOWN) / 100.0;
    let predicted = format!("predicted {name}, with its bounds at {percent} %");
    let measured = format!("measured {name}");
    let labels = [measured.as_str(), predicted.as_str()];
    let (x, y) = (range.clone().log_scale(), range.clone().log_scale());
    let mut chart = chart(area, &caption, x, y, labels)?;
    for ((method, run), colour) in first.iter().zip(COLOURS.iter().cycle()) {
        let shown = run.shown[target as usize].iter();
        let inside = shown.filter(|it| range.contains(&(it.predicted / unit)));
        let bars = inside.clone().filter_map(|it| {
            let (at, above) = (it.measured / unit, it.at_most? / it.predicted);
            let ends = [it.predicted / above, it.predicted * above];
            let ends = ends.map(|end| (at, (end / unit).clamp(range.start, range.end)));
            Some(PathElement::new(ends, colour.mix(0.2)))
        });
        chart.draw_series(bars)?;
        let dots = inside.map(|it| {
            let at = (it.measured / unit, it.predicted / unit);
            Circle::new(at, 2, colour.mix(0.6).filled())
        });
        chart
            .draw_series(dots)?
            .label(format!("{method}, {} modes", run.modes))
            .legend(move |(x, y)| Circle::new((x + 10, y), 4, colour.filled()));
    }
    let diagonal = [range.start, range.end].map(|v| (v, v));
    chart.draw_series(LineSeries::new(diagonal, BLACK.mix(0.5)))?;
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

fn coverage(
    area: &Area<'_>,
    evaluation: &Evaluation,
    target: Target,
    rows: &[&EvaluationRow],
) -> Drawn {
    let percent = |covered: &Covered| (100.0 * covered.confidence, 100.0 * covered.share);
    let all = || rows.iter().flat_map(|row| row.coverage.iter().map(percent));
    let low = all().map(|(x, y)| x.min(y)).fold(f64::MAX, f64::min);
    let range = low - 1.0..100.0;
    let caption = format!("{}: guard band of the {target}", title(&evaluation.subject));
    let labels = ["confidence, %", "held-out modes within the band, %"];
    let mut chart = chart(area, &caption, range.clone(), range.clone(), labels)?;
    let diagonal = [range.start, range.end].map(|v| (v, v));
    chart.draw_series(LineSeries::new(diagonal, BLACK.mix(0.5)))?;
    let rows = rows.iter().filter(|row| !row.coverage.is_empty());
    for (row, colour) in rows.zip(COLOURS.iter().cycle()) {
        let points: Vec<(f64, f64)> = row.coverage.iter().map(percent).collect();
        let dots = points.iter().map(|&at| Circle::new(at, 4, colour.filled()));
        chart.draw_series(dots)?;
        chart
            .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
            .label(format!(
                "{}, {} {} modes",
                row.method, row.modes, row.sampling
            ))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(3)));
    }
    legend(&mut chart, SeriesLabelPosition::LowerRight)
}

fn front(area: &Area<'_>, optimization: &Optimization) -> Drawn {
    let watts = |milliwatts: f64| milliwatts / 1e3;
    let limits = &optimization.limits_mw;
    let chosen = || optimization.results.iter().flat_map(|row| &row.solutions);
    let powers = chosen().filter_map(|solution| solution.power_mw);
    let (low, high) = powers
        .chain(limits.iter().copied())
        .fold((f64::MAX, 0.0_f64), |(low, high), v| {
            (low.min(v), high.max(v))
        });
    let x = watts(low) * 0.98..watts(high) * 1.02;
    let y = extent(
        chosen()
            .flat_map(|s| [Some(s.best_time_ms), s.time_ms])
            .flatten(),
    );
    let caption = title(&optimization.subject);
    let labels = ["measured power, W", "measured time, ms"];
    let mut chart = chart(area, &caption, x.clone(), y.clone().log_scale(), labels)?;
    let bars = limits.iter().map(|&limit| {
        PathElement::new(
            [(watts(limit), y.start), (watts(limit), y.end)],
            BLACK.mix(0.08),
        )
    });
    chart.draw_series(bars)?;
    let measured = optimization.measured.iter().map(|&(p, t)| (watts(p), t));
    let measured = measured.filter(|(p, t)| x.contains(p) && y.contains(t));
    chart.draw_series(measured.map(|at| Circle::new(at, 2, BLACK.mix(0.15).filled())))?;
    let best = optimization
        .results
        .first()
        .map_or(&[][..], |row| &row.solutions);
    let best = best.iter().map(|s| (watts(s.limit_mw), s.best_time_ms));
    chart
        .draw_series(LineSeries::new(best, BLACK.stroke_width(1)))?
        .label("best within the limit")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 20, y)], BLACK));
    for (row, colour) in optimization.results.iter().zip(COLOURS.iter().cycle()) {
        let kept = row.solutions.iter();
        let kept = kept.filter_map(|s| Some((watts(s.power_mw?), s.time_ms?)));
        let dots = kept.map(|at| Circle::new(at, 4, colour.stroke_width(2)));
        chart
            .draw_series(dots)?
            .label(format!(
                "{}, {} {} modes",
                row.method, row.modes, row.sampling
            ))
            .legend(move |(x, y)| Circle::new((x + 10, y), 4, colour.stroke_width(2)));
    }
    legend(&mut chart, SeriesLabelPosition::UpperRight)
}
