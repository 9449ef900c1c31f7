//! `inspect`: shows the contents of a model file.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;
use wattgate_cli::json::Mode;
use wattgate_runtime::fleet::{Fleet, UnitId};
use wattgate_runtime::format::{Header, Provenance, VERSION};
use wattgate_runtime::front::Point;
use wattgate_runtime::grid::Axis;
use wattgate_runtime::guard::GuardBand;
use wattgate_runtime::model::Prediction;
use wattgate_runtime::{
    Confidence, Front, Kilohertz, Microseconds, Milliwatts, ModeId, Model, PowerMode,
};

use crate::fit::idle_range;
use crate::learn::suspects::{SUSPECT_DEVIATIONS, SUSPECT_RATIO};

use super::inputs::ModelArgument;
use super::{Failure, print_json, print_text, show};

/// Capacity of the Pareto front; the fronts of all known boards fit.
pub const FRONT: usize = 1024;

const EXAMPLE: &str = "\
Example:
  wattgate-trainer inspect model.wgt

With --json: {\"version\": 1, \"file\", \"bytes\", \"kind\", \"device\", \"workload\", \"minibatch\", \"seed\",
\"modes_used\", \"modes_held_out\", \"errors_of\", \"time_mape\", \"power_mape\", \"shape\", \"grid_hash\",
\"modes_in_grid\", \"axes\": {\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\"}, \"profiled\": {as
axes}, \"tpc_pg_mask\", \"units\": [{\"id\", \"time_ratio\", \"power_ratio\"}], \"other_units\": {\"time_ratio\",
\"power_ratio\"}, \"idle\": {\"least_mw\", \"fastest_mw\"}, \"time_guard\" and \"power_guard\": [{\"confidence\", \"factor\" or \"deviations\"}],
\"time_spread_pct\", \"spread_pct\", \"measured\": [{\"mode\", \"time_ms\", \"power_mw\", \"spread_pct\",
\"network_time_ms\", \"network_power_mw\", \"contradicts\"}], \"front\": [{\"mode\", \"power_mw\",
\"guarded_power_mw\", \"time_ms\", \"guarded_time_ms\"}]}; errors_of is \"held_out\" for errors on held-out
modes. Units are those that were profiled, each over their mean; other units are those whose bounds at 95 % are so much higher. Where no mode was held out, it is \"expected\" for errors expected over all modes, and in files of versions 1
and 2 \"left_out\" for errors on the modes of the training, each left out in turn. It is null if the file has no
errors. The file states the measured modes as they were measured. One contradicts if it differs from what the network predicts by more than 4 of the network's deviations
and 35 %.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    input: ModelArgument,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Axes {
    cores: Vec<u32>,
    cpu_khz: Vec<u32>,
    gpu_khz: Vec<u32>,
    emc_khz: Vec<u32>,
}

#[derive(Serialize)]
struct KnotReport {
    confidence: f64,
    #[serde(flatten)]
    margin: MarginReport,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum MarginReport {
    /// Measured over predicted value.
    Factor(f64),
    /// Standard deviations of ln time or ln power.
    Deviations(f64),
}

#[derive(Serialize)]
struct PointReport {
    mode: Mode,
    power_mw: Option<u32>,
    guarded_power_mw: Option<u32>,
    time_ms: f64,
    guarded_time_ms: f64,
}

/// A mode of which the file knows what was measured.
#[derive(Serialize)]
struct MeasuredReport {
    mode: Mode,
    time_ms: f64,
    power_mw: Option<u32>,
    /// Standard deviation of the power, in percent.
    spread_pct: Option<f64>,
    network_time_ms: f64,
    network_power_mw: Option<u32>,
    contradicts: bool,
}

impl MeasuredReport {
    fn from_model(model: &Model<'_>) -> Vec<Self> {
        let network = model.clone().without_measured();
        let known: BTreeMap<ModeId, Prediction> = model.measured().collect();
        let mut all = Vec::new();
        network.sweep(&model.profiled(), |mode, by_network| {
            let (Some(at), Some(power_mode)) = (known.get(&mode), model.grid().mode(mode)) else {
                return;
            };
            let ms = |at| f64::from(model.time(at).0) / 1e3;
            let mw = |at| model.power(at).map(|power| power.0);
            let spreads = [model.time_spread(by_network), model.spread(by_network)];
            let ratio = |ours: Option<f64>, theirs: Option<f64>| {
                ours.zip(theirs)
                    .map_or(0.0, |(ours, theirs)| (ours / theirs).ln().abs())
            };
            let ratios = [
                ratio(Some(ms(*at)), Some(ms(by_network))),
                ratio(mw(*at).map(f64::from), mw(by_network).map(f64::from)),
            ];
            let contradicts = ratios.iter().zip(spreads).any(|(ratio, spread)| {
                let most = spread.map_or(0.0, |spread| SUSPECT_DEVIATIONS * f64::from(spread));
                *ratio > most.max(SUSPECT_RATIO.ln())
            });
            all.push(Self {
                mode: power_mode.into(),
                time_ms: ms(*at),
                power_mw: mw(*at),
                spread_pct: model.spread(*at).map(|spread| 100.0 * f64::from(spread)),
                network_time_ms: ms(by_network),
                network_power_mw: mw(by_network),
                contradicts,
            });
        });
        all.sort_by(|a, b| a.time_ms.total_cmp(&b.time_ms));
        all
    }
}

/// The modes on which the errors in a file were measured.
#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum ErrorsOf {
    /// Modes that were not trained on.
    HeldOut,
    /// All modes, as expected.
    Expected,
    /// The modes of the training, each predicted from the others: what files before version 3 state.
    LeftOut,
}

impl ErrorsOf {
    /// `None` if the file states no errors.
    fn from_provenance(provenance: &Provenance<'_>, version: u16) -> Option<Self> {
        provenance.time_error.or(provenance.power_error)?;
        Some(match (provenance.modes_held_out, version) {
            (0, ..3) => Self::LeftOut,
            (0, _) => Self::Expected,
            _ => Self::HeldOut,
        })
    }
}

#[derive(Serialize)]
struct Inspection {
    file: String,
    bytes: usize,
    kind: String,
    device: String,
    workload: String,
    minibatch: Option<u32>,
    seed: u64,
    modes_used: u16,
    modes_held_out: u16,
    errors_of: Option<ErrorsOf>,
    time_mape: Option<f64>,
    power_mape: Option<f64>,
    shape: String,
    grid_hash: String,
    modes_in_grid: u32,
    axes: Axes,
    profiled: Axes,
    tpc_pg_mask: Option<u32>,
    units: Vec<UnitReport>,
    other_units: OtherUnits,
    idle: Option<IdleReport>,
    time_guard: Vec<KnotReport>,
    power_guard: Option<Vec<KnotReport>>,
    /// Standard deviations of the time in percent: the least and the greatest of the modes in the profiled
    /// region.
    time_spread_pct: Option<[f64; 2]>,
    /// The same of the power.
    spread_pct: Option<[f64; 2]>,
    measured: Vec<MeasuredReport>,
    front: Vec<PointReport>,
}

/// Idle power in two modes of the front; `None` if it is not known.
#[derive(Serialize)]
struct IdleReport {
    least_mw: u32,
    fastest_mw: u32,
}

/// A unit that was profiled, over the mean of all.
#[derive(Serialize)]
struct UnitReport {
    id: String,
    time_ratio: f32,
    power_ratio: f32,
}

/// By how much the bounds of other units are higher, at the confidence of the front.
#[derive(Serialize)]
struct OtherUnits {
    time_ratio: f32,
    /// `None` without power.
    power_ratio: Option<f32>,
}

impl OtherUnits {
    fn from_fleet(model: &Model<'_>, fleet: &Fleet<'_>) -> Self {
        let other = fleet.unit(None, usual_confidence(model));
        let [time, power] = other.map_or([0.0; 2], |other| other.margins);
        Self {
            time_ratio: time.exp(),
            power_ratio: model.has_power().then_some(power.exp()),
        }
    }
}

fn units(fleet: &Fleet<'_>) -> Vec<UnitReport> {
    let report = |id: UnitId| {
        let unit = fleet.unit(Some(id), Confidence::P50).ok()?;
        Some(UnitReport {
            id: id.to_string(),
            time_ratio: unit.time.exp(),
            power_ratio: unit.power.exp(),
        })
    };
    fleet.units().filter_map(report).collect()
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bytes = arguments.input.read()?;
    let (model, provenance) = arguments.input.parse(&bytes)?;
    let front = Front::<FRONT>::from_model(&model, &model.profiled(), usual_confidence(&model));
    let fleet = model.fleet().map_err(|why| Failure::Model {
        path: arguments.input.model.clone(),
        why,
    })?;
    let inspection = inspection(
        (&model, &fleet),
        &provenance,
        &front,
        arguments.input.model.display().to_string(),
        &bytes,
    );
    if arguments.json {
        print_json(&inspection)
    } else {
        print_text(&text(&inspection, &front))
    }
}

/// 95 %, or the highest confidence that the model supports.
fn usual_confidence(model: &Model<'_>) -> Confidence {
    let bands = [Some(model.time_guard()), model.power_guard()];
    let highest = |band: &GuardBand| {
        let last = band.knots().last()?;
        Confidence::new(last.per_ten_thousand)
    };
    let supported = bands.into_iter().flatten().filter_map(highest);
    supported.fold(Confidence::P95, Confidence::min)
}

fn inspection(
    (model, fleet): (&Model<'_>, &Fleet<'_>),
    provenance: &Provenance<'_>,
    front: &Front<FRONT>,
    file: String,
    bytes: &[u8],
) -> Inspection {
    let version = Header::parse(bytes).map_or(VERSION, |(header, _)| header.version);
    let grid = model.grid();
    let axes = |values: &dyn Fn(Axis) -> Vec<u32>| Axes {
        cores: values(Axis::Cores),
        cpu_khz: values(Axis::Cpu),
        gpu_khz: values(Axis::Gpu),
        emc_khz: values(Axis::Emc),
    };
    let percent = |hundredths: u16| f64::from(hundredths) / 100.0;
    let knots = |guard: &GuardBand, margin: fn(f64) -> MarginReport| {
        let knot = |knot: &wattgate_runtime::guard::Knot| KnotReport {
            confidence: f64::from(knot.per_ten_thousand) / 1e4,
            margin: margin(f64::from(knot.q16) / 65_536.0),
        };
        guard.knots().iter().map(knot).collect()
    };
    let [of_time, of_power] =
        [model.has_time_spread(), model.has_spread()].map(|has_spread| match has_spread {
            true => MarginReport::Deviations as fn(f64) -> MarginReport,
            false => MarginReport::Factor,
        });
    let mut spreads = [None; 2];
    model.sweep(&model.profiled(), |_, at| {
        for (range, spread) in spreads
            .iter_mut()
            .zip([model.time_spread(at), model.spread(at)])
        {
            let [least, most] = range.unwrap_or([f64::INFINITY, 0.0]);
            let pct = spread.map(|spread| 100.0 * f64::from(spread));
            *range = pct.map(|pct| [pct.min(least), pct.max(most)]);
        }
    });
    let [time_spread_pct, spread_pct] = spreads;
    let points = front
        .points()
        .iter()
        .zip(front.times())
        .filter_map(|(point, time)| {
            Some(PointReport {
                mode: grid.mode(point.mode)?.into(),
                power_mw: model.has_power().then_some(point.power.0),
                guarded_power_mw: model.has_power().then_some(point.guarded.0),
                time_ms: f64::from(time.0) / 1e3,
                guarded_time_ms: f64::from(point.guarded_time.0) / 1e3,
            })
        });
    Inspection {
        file,
        bytes: bytes.len(),
        kind: provenance.kind.to_string(),
        device: provenance.device.to_owned(),
        workload: provenance.workload.to_owned(),
        minibatch: provenance.minibatch,
        seed: provenance.seed,
        modes_used: provenance.modes_used,
        modes_held_out: provenance.modes_held_out,
        errors_of: ErrorsOf::from_provenance(provenance, version),
        time_mape: provenance.time_error.map(percent),
        power_mape: provenance.power_error.map(percent),
        shape: model.shape().to_string(),
        grid_hash: format!("{:08x}", grid.hash()),
        modes_in_grid: grid.modes(),
        axes: axes(&|axis| grid.axis(axis).to_vec()),
        profiled: axes(&|axis| model.profiled().values(grid, axis).to_vec()),
        tpc_pg_mask: model.tpc_pg_mask().ok().flatten(),
        units: units(fleet),
        other_units: OtherUnits::from_fleet(model, fleet),
        idle: model.idle().ok().flatten().map(|idle| {
            let [least_mw, fastest_mw] = idle_range(model, idle);
            IdleReport {
                least_mw,
                fastest_mw,
            }
        }),
        time_guard: knots(model.time_guard(), of_time),
        power_guard: model.power_guard().map(|guard| knots(guard, of_power)),
        time_spread_pct,
        spread_pct,
        measured: MeasuredReport::from_model(model),
        front: points.collect(),
    }
}

fn text(model: &Inspection, front: &Front<FRONT>) -> String {
    let mut text = format!(
        "{}: {} bytes, hidden layers {}\n{}: {} on {}\n",
        model.file, model.bytes, model.shape, model.kind, model.workload, model.device
    );
    text += &format!(
        "trained on {} modes with seed {}\n",
        model.modes_used, model.seed
    );
    let (time, power) = (
        show::percent(model.time_mape),
        show::percent(model.power_mape),
    );
    text += &match model.errors_of {
        Some(ErrorsOf::HeldOut) => {
            let held_out = model.modes_held_out;
            format!("errors on {held_out} held-out modes: time {time}, power {power}\n")
        }
        Some(ErrorsOf::Expected) => {
            format!("expected errors over all modes: time {time}, power {power}\n")
        }
        Some(ErrorsOf::LeftOut) => {
            let modes = "errors on the modes of the training, each left out in turn";
            format!("{modes}: time {time}, power {power}\n")
        }
        None => "errors not known\n".to_owned(),
    };
    text += &format!("{} modes, grid {}\n", model.modes_in_grid, model.grid_hash);
    let clock = |khz: u32| show::frequency(Kilohertz(khz));
    let mut row = |name: &str, axis_of: fn(&Axes) -> &Vec<u32>, show: &dyn Fn(u32) -> String| {
        let [axis, profiled] =
            [&model.axes, &model.profiled].map(|axes| range(axis_of(axes), show));
        text += &format!("  {name:<6}{axis}, profiled {profiled}\n");
    };
    row("cores", |axes| &axes.cores, &|cores| cores.to_string());
    row("CPU", |axes| &axes.cpu_khz, &clock);
    row("GPU", |axes| &axes.gpu_khz, &clock);
    row("EMC", |axes| &axes.emc_khz, &clock);
    let guards = [
        ("time", Some(&model.time_guard)),
        ("power", model.power_guard.as_ref()),
    ];
    for (name, guard) in guards {
        let knot = |knot: &KnotReport| {
            let margin = match knot.margin {
                MarginReport::Factor(factor) => format!("+{:.1} %", 100.0 * (factor - 1.0)),
                MarginReport::Deviations(deviations) => format!("{deviations:.2} deviations"),
            };
            format!("{margin} at {:.0} %", 100.0 * knot.confidence)
        };
        let knots = guard.map_or("not known".to_owned(), |guard| {
            guard.iter().map(knot).collect::<Vec<_>>().join(", ")
        });
        text += &format!("guard band of the {name}: {knots}\n");
    }
    let percent = |ratio: f32| format!("{:+.1} %", 100.0 * (ratio - 1.0));
    let units = model.units.iter().map(|unit| match model.units.len() {
        1 => unit.id.clone(),
        _ => format!(
            "{} (power {}, time {})",
            unit.id,
            percent(unit.power_ratio),
            percent(unit.time_ratio)
        ),
    });
    let units = units.collect::<Vec<_>>().join(", ");
    text += &match units.is_empty() {
        true => "units: not named\n".to_owned(),
        false => format!("units: {units}\n"),
    };
    if let Some(idle) = &model.idle {
        let [least, fastest] = [idle.least_mw, idle.fastest_mw].map(|mw| f64::from(mw) / 1e3);
        text += &format!(
            "idle: {least:.2} W in the slowest mode of the front, {fastest:.2} W in the fastest\n"
        );
    }
    if let Some(power) = model.other_units.power_ratio {
        text += &format!(
            "other units of the board: bounds of the power {}, of the time {}\n",
            percent(power),
            percent(model.other_units.time_ratio)
        );
    }
    for (name, range) in [("time", model.time_spread_pct), ("power", model.spread_pct)] {
        if let Some([least, most]) = range {
            text += &format!("deviations of the {name}: {least:.1} … {most:.1} %\n");
        }
    }
    if let count @ 1.. = model.measured.len() {
        text += &format!("{count} modes as measured\n");
    }
    for mode in model.measured.iter().filter(|mode| mode.contradicts) {
        let power = |mw: Option<u32>| {
            mw.map_or(String::new(), |mw| {
                format!(", {}", show::power(Milliwatts(mw)))
            })
        };
        text += &format!(
            "  {} contradicts the network: measured {:.1} ms{}, predicted {:.1} ms{}; measure it again\n",
            PowerMode::from_knobs(mode.mode.knobs()),
            mode.time_ms,
            power(mode.power_mw),
            mode.network_time_ms,
            power(mode.network_power_mw)
        );
    }
    let points: Vec<(&Point, &Microseconds)> = front.points().iter().zip(front.times()).collect();
    if let [least, .., most] | [least @ most] = points[..] {
        let point = |(point, time): (&Point, &Microseconds)| {
            let power = model.power_guard.as_ref().map(|_| show::power(point.power));
            let power = power.unwrap_or("unknown power".to_owned());
            format!("{} at {power}", show::time(*time))
        };
        let count = front.points().len();
        text += &format!(
            "front of {count} modes: {} … {}\n",
            point(least),
            point(most)
        );
    }
    text
}

fn range(values: &[u32], show: impl Fn(u32) -> String) -> String {
    match values {
        [] => "none".to_owned(),
        [one] => show(*one),
        [first, .., last] => format!("{} … {} ({})", show(*first), show(*last), values.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_runtime::format::Kind;

    #[test]
    fn the_number_of_held_out_modes_tells_what_the_errors_are() {
        let of_version = |version, modes_held_out, time_error, power_error| {
            let provenance = Provenance {
                kind: Kind::Measured,
                device: "board",
                workload: "job",
                minibatch: None,
                seed: 1,
                modes_used: 9,
                modes_held_out,
                time_error,
                power_error,
            };
            ErrorsOf::from_provenance(&provenance, version)
        };
        let of_this_version = |held_out, time, power| of_version(VERSION, held_out, time, power);
        assert!(matches!(
            of_version(2, 0, Some(3), Some(4)),
            Some(ErrorsOf::LeftOut)
        ));
        assert!(matches!(
            of_this_version(5, Some(3), None),
            Some(ErrorsOf::HeldOut)
        ));
        assert!(matches!(
            of_this_version(0, Some(3), Some(4)),
            Some(ErrorsOf::Expected)
        ));
        // Files without held-out modes had no errors before.
        assert!(of_this_version(0, None, None).is_none());
    }
}
