//! Where time and energy of a network go in a mode: by kernel and by layer.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use plotters::prelude::*;
use serde::Serialize;
use wattgate_kernels::{Kind, Parameter};

use super::compose::Composer;
use super::lower::Layer;
use crate::palette::COLOURS;

/// Time and energy of a part of a network.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Part {
    /// The kernel, or the name of the layer.
    pub name: String,
    /// The kernel.
    pub kernel: &'static str,
    /// The operators; `None` for a kernel.
    pub operators: Option<String>,
    /// Number of calls.
    pub calls: usize,
    /// Time in ms, each call for itself.
    pub time_ms: f64,
    /// Energy in mJ, each call for itself.
    pub energy_mj: f64,
}

/// The parts of a network in a mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Explanation {
    /// Cores, CPU, GPU and memory clock in kHz.
    pub mode: [u32; 4],
    /// By kernel, the longest time first.
    pub kernels: Vec<Part>,
    /// By layer, in the order of the launches.
    pub layers: Vec<Part>,
}

impl Explanation {
    /// Of a network in a mode.
    pub fn from_composer(composer: &Composer<'_>, mode: [u32; 4]) -> Self {
        let layers: Vec<Part> = composer
            .network()
            .iter()
            .zip(composer.layers(mode))
            .map(|(layer, predicted)| Part {
                name: layer.name.clone(),
                kernel: layer.call.kind().name(),
                operators: Some(layer.operators.clone()),
                calls: 1,
                time_ms: predicted.time_ms,
                energy_mj: 1e-3 * predicted.time_ms * predicted.power_mw,
            })
            .collect();
        let mut kernels: BTreeMap<&str, Part> = BTreeMap::new();
        for layer in &layers {
            let sum = kernels.entry(layer.kernel).or_insert(Part {
                name: layer.kernel.to_owned(),
                kernel: layer.kernel,
                operators: None,
                calls: 0,
                time_ms: 0.0,
                energy_mj: 0.0,
            });
            sum.calls += 1;
            sum.time_ms += layer.time_ms;
            sum.energy_mj += layer.energy_mj;
        }
        let mut kernels: Vec<Part> = kernels.into_values().collect();
        kernels.sort_by(|a, b| b.time_ms.total_cmp(&a.time_ms));
        Self {
            mode,
            kernels,
            layers,
        }
    }

    /// Two tables.
    pub fn text(&self) -> String {
        let [time, energy] = self.sums();
        let row = |part: &Part| {
            format!(
                "{:>5}{:>11.4}{:>8.1} %{:>11.3}{:>8.1} %\n",
                part.calls,
                part.time_ms,
                100.0 * part.time_ms / time,
                part.energy_mj,
                100.0 * part.energy_mj / energy
            )
        };
        let head = format!(
            "{:>5}{:>11}{:>10}{:>11}{:>10}",
            "calls", "ms", "share", "mJ", "share"
        );
        let mut text = format!("\n{:<20}{head}\n", "kernel");
        for part in &self.kernels {
            write!(text, "{:<20}{}", part.name, row(part)).expect("text");
        }
        writeln!(text, "\n{:<40}{:<34}{head}", "layer", "operators").expect("text");
        for part in &self.layers {
            let operators = part.operators.as_deref().unwrap_or_default();
            write!(
                text,
                "{:<40}{:<34}{}",
                clipped(&part.name, 38),
                clipped(operators, 32),
                row(part)
            )
            .expect("text");
        }
        text
    }

    fn sums(&self) -> [f64; 2] {
        let sum = |f: fn(&Part) -> f64| self.kernels.iter().map(f).sum();
        [sum(|part| part.time_ms), sum(|part| part.energy_mj)]
    }

    /// A figure: one bar for the time and one for the energy, with the share of each kernel, and below them
    /// the time of each layer. `title` stands above.
    pub fn svg(&self, title: &str) -> Result<String, String> {
        let mut text = String::new();
        let drawn = self.draw(&mut text, title);
        drawn.map_err(|why| why.to_string())?;
        Ok(text)
    }

    fn draw(&self, text: &mut String, title: &str) -> Result<(), Box<dyn std::error::Error>> {
        const WIDTH: u32 = 1_000;
        const LEFT: i32 = 90;
        const RIGHT: i32 = 970;
        const HEIGHT: u32 = 640;
        let area = SVGBackend::with_string(text, (WIDTH, HEIGHT)).into_drawing_area();
        area.fill(&WHITE)?;
        let font = |size: u32| ("sans-serif", size).into_font();
        area.draw(&Text::new(title.to_owned(), (20, 16), font(20)))?;
        let sums = self.sums();
        let values = |part: &Part| [part.time_ms, part.energy_mj];
        for (at, name) in ["time", "energy"].into_iter().enumerate() {
            let top = 60 + 56 * at as i32;
            area.draw(&Text::new(name, (20, top + 12), font(16)))?;
            let mut from = f64::from(LEFT);
            for part in &self.kernels {
                let wide = values(part)[at] / sums[at] * f64::from(RIGHT - LEFT);
                let corners = [(from as i32, top), ((from + wide) as i32, top + 40)];
                area.draw(&Rectangle::new(corners, colour(part.kernel).filled()))?;
                if wide > 46.0 {
                    let share = format!("{:.0} %", 100.0 * values(part)[at] / sums[at]);
                    let place = (from as i32 + 4, top + 12);
                    area.draw(&Text::new(share, place, font(15).color(&WHITE)))?;
                }
                from += wide;
            }
        }
        for (at, part) in self.kernels.iter().enumerate() {
            let (x, y) = (LEFT + 220 * (at as i32 % 4), 184 + 24 * (at as i32 / 4));
            area.draw(&Rectangle::new(
                [(x, y), (x + 14, y + 14)],
                colour(part.kernel).filled(),
            ))?;
            let calls = match part.calls {
                1 => "1 call".to_owned(),
                calls => format!("{calls} calls"),
            };
            area.draw(&Text::new(
                format!("{}, {calls}", part.name),
                (x + 20, y),
                font(14),
            ))?;
        }
        let below = area.margin(240, 10, 10, 30);
        let most = self
            .layers
            .iter()
            .map(|part| part.time_ms)
            .fold(0.0, f64::max);
        let mut chart = ChartBuilder::on(&below)
            .x_label_area_size(40)
            .y_label_area_size(64)
            .build_cartesian_2d(0.0..self.layers.len() as f64, 0.0..1.05 * most)?;
        chart
            .configure_mesh()
            .x_desc("layer, in the order of launches")
            .y_desc("time of the call, ms")
            .x_label_formatter(&|value| format!("{value:.0}"))
            .label_style(("sans-serif", 14))
            .axis_desc_style(("sans-serif", 15))
            .light_line_style(WHITE)
            .draw()?;
        let bars = self.layers.iter().enumerate().map(|(at, part)| {
            let x = at as f64;
            let corners = [(x + 0.08, 0.0), (x + 0.92, part.time_ms)];
            Rectangle::new(corners, colour(part.kernel).filled())
        });
        chart.draw_series(bars)?;
        area.present()?;
        Ok(())
    }
}

/// A colour for each kernel.
fn colour(kernel: &str) -> RGBColor {
    let at = Kind::ALL.iter().position(|kind| kind.name() == kernel);
    COLOURS[at.unwrap_or(7)]
}

fn clipped(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// The calls of a network as CSV: `layer,operators,kernel` and the parameters.
pub fn calls_csv(layers: &[Layer]) -> String {
    let columns = Parameter::ALL.map(Parameter::name).join(",");
    let mut text = format!("layer,operators,kernel,{columns}\n");
    for layer in layers {
        // A name of ONNX may hold any character.
        let name: String = layer
            .name
            .chars()
            .map(|c| {
                if c == ',' || c == '"' || c.is_control() {
                    '_'
                } else {
                    c
                }
            })
            .collect();
        let kernel = layer.call.kind().name();
        write!(text, "{name},{},{kernel}", layer.operators).expect("text");
        for parameter in Parameter::ALL {
            match layer.call.value(parameter) {
                Some(value) => write!(text, ",{value}"),
                None => write!(text, ","),
            }
            .expect("text");
        }
        text.push('\n');
    }
    text
}
