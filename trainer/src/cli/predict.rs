//! `predict`: prints the predictions of a model file with their bounds.

use clap::Args;
use csv::Writer;
use serde::Serialize;
use wattgate_cli::json::Mode;
use wattgate_cli::quantity;
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::guard::GuardError;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::{Confidence, Model, PowerMode, Region};

use super::inputs::{ModelArgument, off_grid};
use super::{Failure, print_json, print_text, show, values};

const EXAMPLE: &str = "\
Examples:
  wattgate-trainer predict model.wgt --mode 4,1734000,691200,1600000
  wattgate-trainer predict model.wgt --confidence 0.9 > predictions.csv

Without --mode all modes of the model's grid are printed, as CSV with the columns of a corpus for the
mode, then profiled (whether each knob lies in the range of the modes trained on), time_ms,
time_at_least_ms, time_at_most_ms, power_mw, power_at_least_mw and power_at_most_mw. The columns of
the power are blank for a model of time alone.

The measured value of a mode is at most the upper bound with the confidence, and at least the lower
bound with the same confidence. It lies between 95 % bounds with 90 %. The upper bound is the guard
band that `select` uses. The lower one assumes symmetric errors: a measurement is half of the
prediction as often as it is the double.

With --json: {\"version\": 1, \"kind\", \"device\", \"workload\", \"confidence\", \"modes\": [{\"cores\",
\"cpu_khz\", \"gpu_khz\", \"emc_khz\", \"profiled\", \"time_ms\", \"time_at_least_ms\",
\"time_at_most_ms\", \"power_mw\", \"power_at_least_mw\", \"power_at_most_mw\"}]}; null for an unknown
power.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    input: ModelArgument,
    /// One mode: cores, then the clocks of CPU, GPU and memory in kHz, as in a corpus
    #[arg(long, value_name = "CORES,CPU,GPU,EMC", value_parser = values::mode)]
    mode: Option<PowerMode>,
    /// Confidence of each bound, as a probability
    #[arg(long, value_name = "P", value_parser = quantity::confidence, default_value = "0.95")]
    confidence: Confidence,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// One line of the output. Its fields are the columns, in their order.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    mode: Mode,
    profiled: bool,
    time_ms: f64,
    time_at_least_ms: f64,
    time_at_most_ms: f64,
    power_mw: Option<u32>,
    power_at_least_mw: Option<u32>,
    power_at_most_mw: Option<u32>,
}

#[derive(Serialize)]
struct Predicted {
    kind: String,
    device: String,
    workload: String,
    confidence: f64,
    modes: Vec<Row>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bytes = arguments.input.read()?;
    let (model, provenance) = arguments.input.parse(&bytes)?;
    let grid = model.grid();
    let region = match arguments.mode.map(PowerMode::knobs) {
        None => Region::all(grid),
        Some(knobs) => Region::spanning(grid, [knobs]).ok_or_else(|| Failure::NotOfModel {
            path: arguments.input.model.clone(),
            mode: show::mode(PowerMode::from_knobs(knobs)),
            why: off_grid(grid, knobs).unwrap_or_default(),
        })?,
    };
    let mut modes = Vec::with_capacity(region.modes());
    model.sweep(&region, |id, prediction| modes.push((id, prediction)));
    // The runtime visits modes in an order of its own.
    modes.sort_unstable_by_key(|(id, _)| id.0);
    let row = |(id, prediction)| {
        let mode = grid.mode(id).expect("a mode of the grid");
        row(&model, mode, prediction, arguments.confidence)
    };
    let modes: Result<Vec<Row>, GuardError> = modes.into_iter().map(row).collect();
    let modes = modes?;
    if arguments.json {
        print_json(&Predicted {
            kind: provenance.kind.to_string(),
            device: provenance.device.to_owned(),
            workload: provenance.workload.to_owned(),
            confidence: f64::from(arguments.confidence.per_ten_thousand()) / 1e4,
            modes,
        })
    } else {
        print_text(&table(&modes))
    }
}

fn row(
    model: &Model<'_>,
    mode: PowerMode,
    prediction: Prediction,
    confidence: Confidence,
) -> Result<Row, GuardError> {
    let time = time_bounds(model, prediction, confidence)?;
    let power = power_bounds(model, prediction, confidence)?;
    let ms = |us: u32| f64::from(us) / 1e3;
    Ok(Row {
        mode: mode.into(),
        profiled: is_profiled(model.grid(), &model.profiled(), mode),
        time_ms: ms(time.predicted),
        time_at_least_ms: ms(time.at_least),
        time_at_most_ms: ms(time.at_most),
        power_mw: power.map(|power| power.predicted),
        power_at_least_mw: power.map(|power| power.at_least),
        power_at_most_mw: power.map(|power| power.at_most),
    })
}

/// A prediction and its one-sided bounds, in µs or mW.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    predicted: u32,
    at_least: u32,
    at_most: u32,
}

/// The bounds of the time of one mode.
fn time_bounds(
    model: &Model<'_>,
    prediction: Prediction,
    confidence: Confidence,
) -> Result<Bounds, GuardError> {
    let margins = model.margins(confidence)?;
    let at_most = model.guarded_time(prediction, &margins);
    Ok(symmetric(model.time(prediction).0, at_most.0))
}

/// The bounds of the power of one mode; `None` for a model of time alone.
fn power_bounds(
    model: &Model<'_>,
    prediction: Prediction,
    confidence: Confidence,
) -> Result<Option<Bounds>, GuardError> {
    let margins = model.margins(confidence)?;
    let at_most = model.guarded_power(prediction, &margins);
    let power = model.power(prediction).zip(at_most);
    Ok(power.map(|(power, at_most)| symmetric(power.0, at_most.0)))
}

/// Bounds of a prediction by its upper bound. The guard band takes ln(measured / predicted) as
/// symmetric (`learn/guard.rs`), so the lower bound is as far below. It is rounded down.
fn symmetric(predicted: u32, at_most: u32) -> Bounds {
    let square = u64::from(predicted).pow(2);
    Bounds {
        predicted,
        // At most `predicted`, which is at most `at_most`.
        at_least: (square / u64::from(at_most.max(1))) as u32,
        at_most,
    }
}

/// Whether each knob lies in the range of the modes that the model was trained on.
fn is_profiled(grid: &Grid, profiled: &Region, mode: PowerMode) -> bool {
    let mut knobs = Axis::ALL.into_iter().zip(mode.knobs());
    knobs.all(|(axis, knob)| profiled.values(grid, axis).contains(&knob))
}

fn table(rows: &[Row]) -> String {
    let mut writer = Writer::from_writer(Vec::new());
    let number = |value: Option<u32>| value.map_or(String::new(), |value| value.to_string());
    let header = [
        "cores",
        "cpu_khz",
        "gpu_khz",
        "emc_khz",
        "profiled",
        "time_ms",
        "time_at_least_ms",
        "time_at_most_ms",
        "power_mw",
        "power_at_least_mw",
        "power_at_most_mw",
    ];
    let records = rows.iter().map(|row| {
        let [cores, cpu, gpu, emc] = row.mode.knobs().map(|knob| knob.to_string());
        [
            cores,
            cpu,
            gpu,
            emc,
            row.profiled.to_string(),
            row.time_ms.to_string(),
            row.time_at_least_ms.to_string(),
            row.time_at_most_ms.to_string(),
            number(row.power_mw),
            number(row.power_at_least_mw),
            number(row.power_at_most_mw),
        ]
    });
    for record in [header.map(str::to_owned)].into_iter().chain(records) {
        writer
            .write_record(record)
            .expect("a vector takes all bytes");
    }
    let text = writer.into_inner().expect("a vector takes all bytes");
    String::from_utf8(text).expect("numbers are UTF-8")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_bound_is_as_far_in_the_logarithm_and_rounded_down() {
        let at_least = |predicted, at_most| symmetric(predicted, at_most).at_least;
        assert_eq!(at_least(1_001, 2_002), 500);
        assert_eq!(at_least(7, 7), 7);
        assert_eq!(at_least(1_000, 1_101), 908);
        assert_eq!(at_least(u32::MAX, u32::MAX), u32::MAX);
        assert_eq!(at_least(1, u32::MAX), 0);
    }
}
