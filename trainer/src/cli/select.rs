//! `select`: chooses a mode with a model file.

use clap::{Args, ValueEnum};
use serde::Serialize;
use wattgate_cli::json::Mode;
use wattgate_cli::quantity;
use wattgate_runtime::{
    Choice, Confidence, Front, Kilohertz, Microseconds, Milliwatts, Model, Objective, Provenance,
    Query, SelectError,
};

use super::inputs::ModelArgument;
use super::inspect::FRONT;
use super::{Failure, print_json, print_text, show};

const EXAMPLE: &str = "\
Examples:
  wattgate-trainer select model.wgt --limit 5W
  wattgate-trainer select model.wgt --deadline 20s --objective energy --min-cores 2

A limit applies to the prediction plus its guard band at the given confidence.
Only modes within the profiled range of each knob are candidates.

With --json: {\"version\": 1, \"mode\": {\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\"}, \"time_ms\",
\"guarded_time_ms\", \"power_mw\", \"guarded_power_mw\", \"confidence\", \"kind\"}; power is null for
a model of time alone. If no mode fits, mode is null, the exit code is 4, and
\"least_power_mw\" or \"least_time_ms\" states the lowest possible value.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ObjectiveArgument {
    /// The fastest mode
    Time,
    /// The mode of least power
    Power,
    /// The mode of least energy
    Energy,
    /// The mode of least energy-delay product
    Edp,
}

impl From<ObjectiveArgument> for Objective {
    fn from(argument: ObjectiveArgument) -> Self {
        match argument {
            ObjectiveArgument::Time => Self::Time,
            ObjectiveArgument::Power => Self::Power,
            ObjectiveArgument::Energy => Self::Energy,
            ObjectiveArgument::Edp => Self::EnergyDelay,
        }
    }
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    #[command(flatten)]
    input: ModelArgument,
    /// Upper limit of the power, with its unit: 5W, 5000mW
    #[arg(long, value_name = "POWER", value_parser = quantity::power, allow_hyphen_values = true)]
    limit: Option<Milliwatts>,
    /// Upper limit of the time, with its unit: 20s, 350ms
    #[arg(long, value_name = "TIME", value_parser = quantity::time, allow_hyphen_values = true)]
    deadline: Option<Microseconds>,
    /// What to minimise
    #[arg(long, value_enum, default_value = "time")]
    objective: ObjectiveArgument,
    /// Confidence of the guard band, as a probability
    #[arg(long, value_name = "P", value_parser = quantity::confidence, default_value = "0.95")]
    confidence: Confidence,
    /// Only modes with at least this many online cores
    #[arg(long, value_name = "N")]
    min_cores: Option<u32>,
    /// Only modes with this memory clock, with its unit: 1600MHz
    #[arg(long, value_name = "CLOCK", value_parser = quantity::frequency)]
    emc: Option<Kilohertz>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    mode: Mode,
    time_ms: f64,
    guarded_time_ms: f64,
    power_mw: Option<u32>,
    guarded_power_mw: Option<u32>,
    confidence: f64,
    kind: String,
}

#[derive(Serialize)]
struct NoAnswer {
    mode: Option<Mode>,
    least_power_mw: Option<u32>,
    least_time_ms: Option<f64>,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let bytes = arguments.input.read()?;
    let (model, provenance) = arguments.input.parse(&bytes)?;
    let grid = model.grid();
    let mut region = model.profiled();
    if let Some(cores) = arguments.min_cores {
        region = region.with_min_cores(grid, cores)?;
    }
    if let Some(emc) = arguments.emc {
        region = region.with_emc(grid, emc)?;
    }
    let query = Query {
        objective: arguments.objective.into(),
        power_limit: arguments.limit,
        deadline: arguments.deadline,
        ..Query::default()
    };
    let confidence = arguments.confidence;
    let selected = Front::<FRONT>::of(&model, &region, confidence).select(&query);
    if arguments.json {
        match selected {
            Ok(choice) => print_json(&answer(&model, &provenance, &choice, confidence))?,
            Err(error) => no_answer(error).map_or(Ok(()), |json| print_json(&json))?,
        }
    } else if let Ok(choice) = selected {
        print_text(&text(&model, &provenance, &choice, confidence))?;
    }
    selected?;
    Ok(())
}

fn answer(
    model: &Model<'_>,
    provenance: &Provenance<'_>,
    choice: &Choice,
    confidence: Confidence,
) -> Answer {
    let mode = model
        .grid()
        .mode(choice.mode)
        .expect("a choice is a mode of its model");
    let ms = |time: Microseconds| f64::from(time.0) / 1e3;
    Answer {
        mode: mode.into(),
        time_ms: ms(choice.time),
        guarded_time_ms: ms(choice.guarded_time),
        power_mw: choice.power.map(|power| power.0),
        guarded_power_mw: choice.guarded_power.map(|power| power.0),
        confidence: f64::from(confidence.per_ten_thousand()) / 1e4,
        kind: provenance.kind.to_string(),
    }
}

/// The JSON answer to a query that no mode fits.
fn no_answer(error: SelectError) -> Option<NoAnswer> {
    let (least_power_mw, least_time_ms) = match error {
        SelectError::OverLimit { least_power } => (Some(least_power.0), None),
        SelectError::TooSlow { least_time } => (None, Some(f64::from(least_time.0) / 1e3)),
        _ => return None,
    };
    Some(NoAnswer {
        mode: None,
        least_power_mw,
        least_time_ms,
    })
}

fn text(
    model: &Model<'_>,
    provenance: &Provenance<'_>,
    choice: &Choice,
    confidence: Confidence,
) -> String {
    let mode = model
        .grid()
        .mode(choice.mode)
        .expect("a choice is a mode of its model");
    let mut text = format!("{}\n", show::mode(mode));
    let (time, guarded) = (show::time(choice.time), show::time(choice.guarded_time));
    text += &format!("time   {time}, at most {guarded} with {confidence}\n");
    text += &match choice.power.zip(choice.guarded_power) {
        Some((power, guarded)) => {
            let (power, guarded) = (show::power(power), show::power(guarded));
            format!("power  {power}, at most {guarded} with {confidence}\n")
        }
        None => "power  not known\n".to_owned(),
    };
    text += &format!(
        "{}: {} on {}\n",
        provenance.kind, provenance.workload, provenance.device
    );
    text
}
