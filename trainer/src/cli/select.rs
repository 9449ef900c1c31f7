//! `select`: chooses a mode with a model file, or a mode and a minibatch with several.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;
use wattgate_cli::aim::{By, Said, Wanted, energy_until, objective};
use wattgate_cli::json::Mode;
use wattgate_cli::quantity;
use wattgate_runtime::fleet::Unit;
use wattgate_runtime::format::Provenance;
use wattgate_runtime::idle::Idle;
use wattgate_runtime::{
    Choice, Confidence, Front, Kilohertz, Microseconds, Milliseconds, Milliwatts, Model, Objective,
    Query, SelectError,
};

use super::inputs::{parse_model, read_model};
use super::inspect::FRONT;
use super::values::sizes;
use super::{Failure, print_json, print_text, show};

const EXAMPLE: &str = "\
Examples:
  wattgate-trainer select model.wgt --limit 5W
  wattgate-trainer select model.wgt --deadline 20s --objective least-energy --min-cores 2
  wattgate-trainer select model.wgt --limit 20W --epochs 10 --steps-per-epoch 391 --within 6h
  wattgate-trainer select yolo-8.wgt yolo-16.wgt yolo-32.wgt --minibatch any --limit 20W

A limit applies to the prediction plus its guard band at the given confidence.
Only modes within the profiled range of each knob are candidates.

Models of one workload that differ in their minibatch can be named together: --minibatch any chooses size and
mode, by the time, energy or energy-delay product of a sample. The best of K models is a choice of its own, so
each takes 1/K of the risk of 1 - P. A deadline is that of a step. Sizes differ in how training converges, which
no model knows.

With --json: {\"version\": 1, \"mode\": {\"cores\", \"cpu_khz\", \"gpu_khz\", \"emc_khz\"}, \"time_ms\",
\"guarded_time_ms\", \"power_mw\", \"guarded_power_mw\", \"confidence\", \"kind\", \"minibatch\",
\"item_time_ms\", \"other_unit\": {\"guarded_time_ms\", \"guarded_power_mw\"}, \"work\": {\"steps\", \"hours\",
\"guarded_hours\", \"wh\", \"guarded_wh\", \"idle_w\", \"all_wh\", \"guarded_all_wh\"}}; power is null for a model of time alone, minibatch and item_time_ms where the
model states no minibatch, work without a number of steps. If no mode fits, mode is null, the exit code is 4, and
\"least_power_mw\" or \"least_time_ms\" states the lowest possible value.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub struct Arguments {
    /// A model file, or models of several minibatch sizes
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<PathBuf>,
    /// Minibatch: a size, or any of those of the models
    #[arg(long, value_name = "N|any", value_parser = size)]
    minibatch: Option<Size>,
    /// Upper limit of the power, with its unit: 5W, 5000mW
    #[arg(long, value_name = "POWER", value_parser = quantity::power, allow_hyphen_values = true)]
    limit: Option<Milliwatts>,
    /// Upper limit of the time, with its unit: 20s, 350ms
    #[arg(long, value_name = "TIME", value_parser = quantity::time, allow_hyphen_values = true)]
    deadline: Option<Microseconds>,
    /// Instead of a deadline: this many steps, within the time of --within
    #[arg(long, value_name = "N")]
    steps: Option<u64>,
    /// Instead of --steps: this many epochs
    #[arg(long, value_name = "N")]
    epochs: Option<u64>,
    /// The number of steps of an epoch
    #[arg(long, value_name = "N")]
    steps_per_epoch: Option<u64>,
    /// The time within which the steps are to be done, with its unit: 90min, 6h
    #[arg(long, value_name = "TIME", value_parser = quantity::within)]
    within: Option<Milliseconds>,
    /// What to minimise: fastest, least-power, least-energy or least-edp [default: fastest, with a deadline least-power]
    #[arg(long, value_name = "NAME", value_parser = objective)]
    objective: Option<Objective>,
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

/// A minibatch as an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Any,
    Of(u32),
}

fn size(text: &str) -> Result<Size, String> {
    match (text, text.parse()) {
        ("any", _) => Ok(Size::Any),
        (_, Ok(size @ 1..)) => Ok(Size::Of(size)),
        _ => Err("expected a number of samples above zero, or `any`".to_owned()),
    }
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
    minibatch: Option<u32>,
    item_time_ms: Option<f64>,
    other_unit: OtherUnit,
    work: Option<Work>,
}

/// Time and energy of all steps, and with the margins of the confidence.
#[derive(Clone, Copy, Serialize)]
struct Work {
    steps: u64,
    hours: f64,
    guarded_hours: f64,
    wh: Option<f64>,
    guarded_wh: Option<f64>,
    /// Power of the idle board, and the energy with it until the time is over; `None` where no idle power is known.
    idle_w: Option<f64>,
    all_wh: Option<f64>,
    guarded_all_wh: Option<f64>,
}

/// Steps that are to be done within a time, and the power of the board that rests afterwards.
#[derive(Clone, Copy)]
struct Asked {
    steps: u64,
    within: Milliseconds,
    rest: Option<Milliwatts>,
}

/// By how much the idle power of a mode may exceed what its file says, in percent. The formula of the fit is off by up to this in
/// 95 % of the modes of simulated boards.
const IDLE_ERROR_PCT: u32 = 8;

impl Work {
    fn new(asked: Asked, choice: &Choice) -> Self {
        let Asked {
            steps,
            within,
            rest,
        } = asked;
        let hours = |time: Microseconds| steps as f64 * f64::from(time.0) / 3.6e9;
        // Without time for rest, the energy is that of the steps.
        let wh = |time, power: Option<Milliwatts>, within, rest| {
            let energy = energy_until(within, steps, time, power?, rest);
            Some(energy / 3_600.0)
        };
        let all = |time, power, percent: u32| {
            let most = |rest: Milliwatts| rest.0.saturating_mul(percent) / 100;
            wh(time, power, within, Milliwatts(most(rest?)))
        };
        let (expected, most) = (
            (choice.time, choice.power),
            (choice.guarded_time, choice.guarded_power),
        );
        let none = (Milliseconds(0), Milliwatts(0));
        Self {
            steps,
            hours: hours(choice.time),
            guarded_hours: hours(choice.guarded_time),
            wh: wh(expected.0, expected.1, none.0, none.1),
            guarded_wh: wh(most.0, most.1, none.0, none.1),
            idle_w: rest.map(|rest| f64::from(rest.0) / 1e3),
            all_wh: all(expected.0, expected.1, 100),
            guarded_all_wh: all(most.0, most.1, 100 + IDLE_ERROR_PCT),
        }
    }
}

/// What counts on a unit of the board that the model was not made of.
#[derive(Serialize)]
struct OtherUnit {
    guarded_time_ms: f64,
    guarded_power_mw: Option<u32>,
}

#[derive(Serialize)]
struct NoAnswer {
    mode: Option<Mode>,
    least_power_mw: Option<u32>,
    least_time_ms: Option<f64>,
}

/// A model with its file.
struct Named<'a> {
    path: &'a Path,
    model: Model<'a>,
    provenance: Provenance<'a>,
}

impl Named<'_> {
    /// What the board draws while the workload waits.
    fn idle(&self) -> Result<Option<Idle>, Failure> {
        self.model.idle().map_err(|why| Failure::Model {
            path: self.path.to_owned(),
            why,
        })
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let said = Said {
        objective: arguments.objective,
        deadline: arguments.deadline,
        steps: arguments.steps,
        epochs: arguments.epochs,
        steps_per_epoch: arguments.steps_per_epoch,
        within: arguments.within,
    };
    let wanted = said.wanted()?.unwrap_or(Wanted::FASTEST);
    let aim = wanted.first();
    let paths = &arguments.models;
    let bytes: Result<Vec<Vec<u8>>, Failure> = paths.iter().map(|path| read_model(path)).collect();
    let bytes = bytes?;
    let mut all = Vec::new();
    for (path, bytes) in paths.iter().zip(&bytes) {
        let (model, provenance) = parse_model(path, bytes)?;
        all.push(Named {
            path,
            model,
            provenance,
        });
    }
    let offered = offered(&all, arguments.minibatch)?;
    // A model without power cannot minimise power: it answers with its fastest mode, if that meets the deadline.
    let objective = match arguments.objective {
        None if !offered.iter().all(|named| named.model.has_power()) => Objective::Time,
        _ => aim.objective,
    };
    let confidence = arguments.confidence;
    let of_each = shared(confidence, offered.len());
    let (mut selected, mut rests, mut fastest) = (Vec::new(), Vec::new(), Vec::new());
    for named in &offered {
        let grid = named.model.grid();
        let mut region = named.model.profiled();
        if let Some(cores) = arguments.min_cores {
            region = region.with_min_cores(grid, cores)?;
        }
        if let Some(emc) = arguments.emc {
            region = region.with_emc(grid, emc)?;
        }
        let front = Front::<FRONT>::from_model(&named.model, &region, of_each);
        let least = front.points().first().map_or(Milliwatts(0), |it| it.power);
        let query = Query {
            objective,
            power_limit: arguments.limit,
            deadline: aim.deadline,
            idle: wanted.idle(named.idle()?, least),
        };
        let choice = front.select(&query);
        let within = Query {
            power_limit: arguments.limit,
            ..Query::default()
        };
        fastest.extend(front.select(&within).map(|choice| choice.guarded_time));
        rests.push(query.idle.base);
        // The model alone may carry the confidence that was asked for.
        if let (true, Err(error @ SelectError::Guard(_))) = (of_each != confidence, &choice) {
            return Err(Failure::SharedRisk {
                path: named.path.to_owned(),
                models: offered.len(),
                of_each,
                why: *error,
            });
        }
        selected.push(choice);
    }
    let cost_of =
        |named: &Named<'_>, choice: &Choice| cost(objective, choice, items(&named.provenance));
    let found = offered.iter().zip(&selected).zip(&rests);
    let found =
        found.filter_map(|((named, choice), rest)| Some((*named, choice.as_ref().ok()?, rest)));
    let best = found.min_by(|a, b| cost_of(a.0, a.1).total_cmp(&cost_of(b.0, b.1)));
    if let Some((named, choice, rest)) = best {
        let asked = match wanted.by {
            Some(By::Work { steps, within }) => Some(Asked {
                steps,
                within,
                rest: (rest.0 > 0).then_some(*rest),
            }),
            _ => None,
        };
        let Named {
            model, provenance, ..
        } = named;
        let path = || named.path.to_owned();
        let fleet = model
            .fleet()
            .map_err(|why| Failure::Model { path: path(), why })?;
        let other = fleet.unit(None, of_each).map_err(SelectError::Guard)?;
        return match arguments.json {
            true => print_json(&answer(
                model, provenance, choice, confidence, &other, asked,
            )),
            false => print_text(&text(model, provenance, choice, confidence, &other, asked)),
        };
    }
    let errors = selected.into_iter().filter_map(Result::err);
    let error = errors.reduce(nearer).expect("no choice has an error");
    if arguments.json {
        no_answer(error).map_or(Ok(()), |json| print_json(&json))?;
    }
    let fastest = fastest.into_iter().min();
    Err(match needed(error, wanted, arguments.limit.zip(fastest)) {
        Some(needed) => Failure::NoMode { needed },
        None => error.into(),
    })
}

/// Says what the deadline would need, and how fast the fastest mode within the limit is. `None` if no deadline is the reason.
fn needed(
    error: SelectError,
    wanted: Wanted,
    within: Option<(Milliwatts, Microseconds)>,
) -> Option<String> {
    let takes = |time: Microseconds| match wanted.by {
        Some(By::Work { steps, .. }) => {
            let hours = steps as f64 * f64::from(time.0) / 3.6e9;
            format!("{} for {steps} steps", show::hours(hours))
        }
        _ => format!("{} a step", show::time(time)),
    };
    let (needs, advice) = match error {
        SelectError::TooSlow { least_time } => (
            format!("the fastest of all takes up to {}", takes(least_time)),
            "allow more time",
        ),
        SelectError::OverLimit { least_power } if wanted.by.is_some() => {
            let power = show::power(least_power);
            (
                format!("for the deadline the least power is {power} including the guard band"),
                "raise --limit, or allow more time",
            )
        }
        _ => return None,
    };
    let within = within.map_or(String::new(), |(limit, time)| {
        let limit = show::power(limit);
        format!("; within {limit} the fastest takes up to {}", takes(time))
    });
    Some(format!("{needs}{within}; {advice}"))
}

/// The models of a size, or all of them if they are comparable.
fn offered<'a>(all: &'a [Named<'a>], size: Option<Size>) -> Result<Vec<&'a Named<'a>>, Failure> {
    let first = &all[0];
    for (at, named) in all.iter().enumerate() {
        let incomparable = |why: String| {
            Err(Failure::Incomparable {
                path: named.path.to_owned(),
                why,
            })
        };
        let (provenance, expected) = (&named.provenance, &first.provenance);
        if (provenance.workload, provenance.device, provenance.kind)
            != (expected.workload, expected.device, expected.kind)
        {
            return incomparable(format!(
                "a model of {} on {}, {}; expected {} on {}, {}, as the first one",
                provenance.workload,
                provenance.device,
                provenance.kind,
                expected.workload,
                expected.device,
                expected.kind
            ));
        }
        if size.is_some() && provenance.minibatch.is_none() {
            return incomparable(
                "the model states no minibatch, so it cannot be chosen by one; leave --minibatch out".to_owned(),
            );
        }
        if all.len() > 1 && named.model.has_power() != first.model.has_power() {
            return incomparable("some models have a power and some have none".to_owned());
        }
        let mut before = all[..at].iter().map(|named| named.provenance.minibatch);
        if size.is_some() && before.any(|minibatch| minibatch == provenance.minibatch) {
            return incomparable("a model before has the same minibatch".to_owned());
        }
    }
    match size {
        None if all.len() > 1 => Err(Failure::SeveralModels),
        None | Some(Size::Any) => Ok(all.iter().collect()),
        Some(Size::Of(size)) => {
            let of_size = |named: &&Named<'_>| named.provenance.minibatch == Some(size);
            let found: Vec<&Named<'_>> = all.iter().filter(of_size).collect();
            match found.is_empty() {
                true => Err(Failure::NoSize {
                    place: "--minibatch".to_owned(),
                    asked: size,
                    sizes: sizes(all.iter().map(|named| named.provenance.minibatch)),
                }),
                false => Ok(found),
            }
        }
    }
}

/// The confidence at which each of several models has to answer, so that the best of their answers has the
/// asked one: the risks add up at worst (Bonferroni). A risk below the unit of a confidence is that unit, which
/// no file of the trainer carries.
fn shared(confidence: Confidence, models: usize) -> Confidence {
    let risk = usize::from(10_000 - confidence.per_ten_thousand()) / models;
    let of_each = Confidence::new(10_000 - risk.max(1) as u16);
    of_each.expect("between the asked confidence and the highest")
}

/// Samples in a step.
fn items(provenance: &Provenance<'_>) -> f64 {
    provenance.minibatch.map_or(1.0, f64::from)
}

/// What a choice costs for a sample. Energy counts the power that counts for a limit, as in the runtime.
fn cost(objective: Objective, choice: &Choice, items: f64) -> f64 {
    let time = f64::from(choice.time.0) / items;
    let guarded = choice.guarded_power.map_or(1.0, |power| f64::from(power.0));
    match objective {
        Objective::Time => time,
        Objective::Power => guarded,
        Objective::Energy => time * guarded,
        Objective::EnergyDelay => time * time * guarded,
    }
}

/// Of two errors the one that is nearer to a choice.
fn nearer(a: SelectError, b: SelectError) -> SelectError {
    match (&a, &b) {
        (
            SelectError::OverLimit { least_power: of_a },
            SelectError::OverLimit { least_power: of_b },
        ) if of_b < of_a => b,
        (SelectError::TooSlow { least_time: of_a }, SelectError::TooSlow { least_time: of_b })
            if of_b < of_a =>
        {
            b
        }
        _ => a,
    }
}

fn answer(
    model: &Model<'_>,
    provenance: &Provenance<'_>,
    choice: &Choice,
    confidence: Confidence,
    other: &Unit,
    asked: Option<Asked>,
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
        minibatch: provenance.minibatch,
        item_time_ms: provenance
            .minibatch
            .map(|size| ms(choice.time) / f64::from(size)),
        other_unit: OtherUnit {
            guarded_time_ms: ms(other.guarded_time(choice.guarded_time)),
            guarded_power_mw: choice
                .guarded_power
                .map(|power| other.guarded_power(power).0),
        },
        work: asked.map(|asked| Work::new(asked, choice)),
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
    other: &Unit,
    asked: Option<Asked>,
) -> String {
    let mode = model
        .grid()
        .mode(choice.mode)
        .expect("a choice is a mode of its model");
    let mut text = format!("{}\n", show::mode(mode));
    let (time, guarded) = (show::time(choice.time), show::time(choice.guarded_time));
    text += &format!("time   {time}, at most {guarded} with {confidence} confidence\n");
    text += &match choice.power.zip(choice.guarded_power) {
        Some((power, guarded)) => {
            let (power, guarded) = (show::power(power), show::power(guarded));
            format!("power  {power}, at most {guarded} with {confidence} confidence\n")
        }
        None => "power  not known\n".to_owned(),
    };
    let time = show::time(other.guarded_time(choice.guarded_time));
    let power = choice.guarded_power.map_or(String::new(), |power| {
        format!(" and {}", show::power(other.guarded_power(power)))
    });
    text += &format!("another unit of the board: at most {time}{power}\n");
    if let Some(asked) = asked {
        let work = Work::new(asked, choice);
        text += &format!(
            "{} steps: {}, at most {}",
            work.steps,
            show::hours(work.hours),
            show::hours(work.guarded_hours)
        );
        if let Some((wh, guarded)) = work.wh.zip(work.guarded_wh) {
            text += &format!("; {wh:.2} Wh, at most {guarded:.2} Wh");
        }
        text += &format!(" with {confidence} confidence\n");
        if let Some(((all, most), idle)) = work.all_wh.zip(work.guarded_all_wh).zip(work.idle_w) {
            text += &format!(
                "until the {} are over, {idle:.2} W idle: {all:.2} Wh, at most {most:.2} Wh\n",
                show::hours(asked.within.0 as f64 / 3.6e6)
            );
        }
    }
    if let Some(size) = provenance.minibatch {
        let item_ms = f64::from(choice.time.0) / 1e3 / f64::from(size);
        text += &format!("minibatch {size}, {item_ms:.3} ms a sample\n");
    }
    text += &format!(
        "{}: {} on {}\n",
        provenance.kind, provenance.workload, provenance.device
    );
    text
}
