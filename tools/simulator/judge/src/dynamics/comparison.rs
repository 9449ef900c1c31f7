//! Recorded and simulated dynamics beside each other.
//!
//! **The rule.** A figure of a simulated load is *off* if it is below half of the lowest or above twice the highest figure of the
//! recorded phases ([`OFF`]). The factor is a convention of the order of the spread within the recordings: the ripple of one board's
//! decode differs between models by a factor of four, and that of prefills between boards by a factor of seven.
//!
//! A ripple, a peak or a drift below the step of the recorded sensor cannot be told from none. It counts as that step, or as the
//! root mean square of its rounding.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;
use wattgate_cli::delimited::FileError;
use wattgate_simulated_board::load::{KINDS, Kind};
use wattgate_simulated_board::sampling::Sampling;

use super::edges::{self, Decay, Direction, decays, largest_change, undone};
use super::median;
use super::simulated::{self, Polls};
use super::statistics::{MARKER_S, SETTLED_S, Statistics};
use super::trace::{Phase, Reading, Run, Source, Stretch, Trace};
use crate::parallel::on_all_cores;
use crate::replay::ReplayError;

/// Factor beyond the range of the recorded runs from which a simulated figure is off.
pub const OFF: f64 = 2.0;

/// Length of a simulated run.
const LENGTH: Duration = Duration::from_secs(300);

/// Seeds of the simulated runs.
const SEEDS: [u64; 3] = [1, 2, 3];

/// Times in s within which the largest changes are looked for. 430 ms is the window of the limit.
pub const WITHIN_S: [f64; 3] = [0.1, 0.43, 1.0];

/// Levels up to which the board is near idle, and between which it is near its full load, relative to the span between them.
const NEAR_IDLE: f64 = 0.1;
const NEAR_FULL: [f64; 2] = [0.9, 1.1];

/// Numbers of samples with which the simulated sensor is tried, and the period in s at which it is polled: that of the Orin NX.
const SAMPLES: [u32; 3] = [512, 128, 64];
const POLLED_S: f64 = 0.0116;

/// Why traces cannot be compared.
#[derive(Debug, Error)]
pub enum DynamicsError {
    /// A trace cannot be read.
    #[error("{0}")]
    Trace(#[from] FileError),
    /// No run of a board has both a wait and work, so nothing says what its full load draws.
    #[error(
        "{}: no run has both a phase that waits and one that works, each of at least 5 s; a trace needs one", path.display()
    )]
    NoSpan { path: PathBuf },
    /// The board cannot be simulated.
    #[error("{0}")]
    Simulator(#[from] ReplayError),
}

/// A figure of a phase or of a whole run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Figure {
    /// Duration in s.
    Duration,
    /// Mean power of a phase that waits, in % of that of the full load.
    Rest,
    /// Mean power above idle, in % of that of the full load.
    Level,
    /// Standard deviation of the readings in % of their mean.
    Ripple,
    /// Highest power above the mean, in % of the span from idle to the full load.
    Peak,
    /// Change over the phase in % of the span, by a fitted line.
    Drift,
    /// Time in s until the autocorrelation of the readings has fallen to 1/e.
    Correlation,
    /// Share of the variance with periods below 0.8 s, in %.
    Fast,
    /// Time in s from 10 to 90 % of the change into work.
    Rise,
    /// Time in s from 10 to 90 % of the change out of work.
    Fall,
    /// Largest change within one of [`WITHIN_S`], in % of the span.
    Change(usize),
}

impl Figure {
    /// The name in tables, with the unit.
    pub fn name(self) -> String {
        match self {
            Self::Duration => "duration, s".to_owned(),
            Self::Rest => "power, %".to_owned(),
            Self::Level => "level, %".to_owned(),
            Self::Ripple => "ripple, %".to_owned(),
            Self::Peak => "peak, %".to_owned(),
            Self::Drift => "drift, %".to_owned(),
            Self::Correlation => "correlation, s".to_owned(),
            Self::Fast => "below 0.8 s, %".to_owned(),
            Self::Rise => "rise, s".to_owned(),
            Self::Fall => "fall, s".to_owned(),
            Self::Change(within) => format!("change in {} s, %", WITHIN_S[within]),
        }
    }

    /// Digits after the point.
    pub const fn digits(self) -> usize {
        match self {
            Self::Ripple | Self::Correlation | Self::Rise | Self::Fall => 2,
            Self::Duration => 1,
            _ => 0,
        }
    }
}

/// What a figure is of: a phase, or none for the whole run.
type Key = (Option<Phase>, Figure);

/// Figures with all their values: one of each phase of each run, or one of each run.
type Figures = BTreeMap<Key, Vec<f64>>;

/// A recorded and a simulated figure.
#[derive(Clone, Debug)]
pub struct Row {
    pub kind: Kind,
    pub key: Key,
    /// The lowest, median and highest recorded figure.
    pub recorded: [f64; 3],
    /// Number of recorded phases, or of runs.
    pub count: usize,
    /// Median.
    pub simulated: f64,
}

impl Row {
    /// Whether the simulated figure is off by the rule of this module.
    pub fn is_off(&self) -> bool {
        let [low, _, high] = self.recorded;
        self.simulated < low / OFF || self.simulated > OFF * high
    }

    /// The simulated figure over the median of the recorded ones.
    pub fn ratio(&self) -> f64 {
        self.simulated / self.recorded[1]
    }
}

/// Time constants of the sensor, from decays.
#[derive(Clone, Copy, Debug)]
pub struct Lag {
    /// Number of decays.
    pub count: usize,
    /// The quartiles of the time constant in s.
    pub quartiles_s: [f64; 3],
    /// Median share of polls that differ from the poll before, in the first time constant of a decay.
    pub renewed: f64,
}

impl Lag {
    /// Of some runs; `None` without a decay. `expected_s` is about the time constant, and `step_w` the register's step.
    pub fn of(runs: &[Run], expected_s: f64, step_w: f64) -> Option<Self> {
        let decays = runs.iter().flat_map(|run| decays(run, expected_s, step_w));
        let decays: Vec<Decay> = decays.collect();
        let mut times: Vec<f64> = decays.iter().map(|it| it.time_constant_s).collect();
        times.sort_by(f64::total_cmp);
        let last = times.len().checked_sub(1)?;
        Some(Self {
            count: times.len(),
            quartiles_s: [last / 4, last / 2, last - last / 4].map(|at| times[at]),
            renewed: median(decays.iter().map(|it| it.renewed)),
        })
    }
}

/// Runs of one board in one mode, recorded and simulated.
#[derive(Debug)]
pub struct Group {
    pub source: &'static Source,
    /// ID of the mode in nvpmodel.
    pub mode: u32,
    /// Its name.
    mode_name: String,
    pub recorded: Vec<Run>,
    /// The loads that stand for what was recorded, with their runs.
    pub simulated: Vec<(Kind, Vec<Run>)>,
    pub rows: Vec<Row>,
    /// The sensor of the recorded and of the simulated board.
    pub lags: [Option<Lag>; 2],
}

/// What a load does, whatever it stands for.
#[derive(Clone, Debug)]
pub struct LoadRow {
    pub name: String,
    /// Largest changes within [`WITHIN_S`], in % of the span.
    pub changes: [f64; 3],
    /// Shares of the time near idle and near the full load, in %.
    pub near: [f64; 2],
    /// Whether a change is off by the rule of this module.
    pub is_off: bool,
}

/// All of it.
#[derive(Debug)]
pub struct Comparison {
    pub groups: Vec<Group>,
    /// All loads, on the board of the first group: the highest figures of its recorded runs, and the loads'.
    pub loads: Vec<LoadRow>,
    /// The simulated sensor by number of samples: the nominal time constant in s, and what decays show.
    pub samples: Vec<(u32, f64, Option<Lag>)>,
}

/// The loads that stand for what was recorded on a board in a mode.
fn stand_ins(source: &Source, mode: u32) -> Vec<Kind> {
    let names: &[&str] = match (source.board, mode) {
        ("orin-agx-64", 0) => &["llm", "chat", "llm-server"],
        ("orin-nx-16", _) => &["training", "epochs"],
        _ => &["llm"],
    };
    names.iter().filter_map(|name| Kind::named(name)).collect()
}

/// The power at which a board waits and that of its full load, in W.
#[derive(Clone, Copy, Debug)]
struct Span {
    idle_w: f64,
    full_w: f64,
}

impl Span {
    fn w(&self) -> f64 {
        self.full_w - self.idle_w
    }

    /// The span of a run: what it lacks is taken from `other`.
    fn of(run: &Run, full: Phase, other: Option<Self>) -> Option<Self> {
        let mean = |is: &dyn Fn(Phase) -> bool| {
            let stretches = run.stretches.iter().filter(|it| is(it.phase));
            let means = stretches.filter_map(|it| Statistics::of(run, it));
            let mean = median(means.map(|it| it.mean_w));
            (!mean.is_nan()).then_some(mean)
        };
        let idle_w = mean(&Phase::is_wait).or(other.map(|it| it.idle_w))?;
        let full_w = mean(&|phase| phase == full).or(other.map(|it| it.full_w))?;
        Some(Self { idle_w, full_w })
    }

    /// The median span of runs.
    fn median(runs: &[Run], full: Phase) -> Option<Self> {
        let spans: Vec<Self> = runs
            .iter()
            .filter_map(|run| Self::of(run, full, None))
            .collect();
        (!spans.is_empty()).then(|| Self {
            idle_w: median(spans.iter().map(|it| it.idle_w)),
            full_w: median(spans.iter().map(|it| it.full_w)),
        })
    }
}

/// The phase whose power is the full load, and the span.
fn full_load(runs: &[Run]) -> Option<(Phase, Span)> {
    let phases = [Phase::Decode, Phase::Training, Phase::Prefill];
    let spans = phases
        .iter()
        .map(|phase| Some((*phase, Span::median(runs, *phase)?)));
    spans.flatten().next()
}

/// What the recorded sensor cannot tell from nothing, in % of what the figure is relative to.
#[derive(Clone, Copy, Debug)]
struct Resolution {
    ripple: f64,
    peak: f64,
    drift: f64,
}

impl Resolution {
    /// The root mean square of rounding, and one step of the register: seen through the slope where the lag is undone.
    fn new(span: Span, step_w: f64, is_undone: bool) -> Self {
        let through = match is_undone {
            true => 1.0 + edges::TIME_CONSTANT_S / edges::SLOPE_S,
            false => 1.0,
        };
        Self {
            ripple: 100.0 * step_w / 12.0_f64.sqrt() / span.full_w,
            peak: 100.0 * through * step_w / span.w(),
            drift: 100.0 * step_w / span.w(),
        }
    }
}

/// The figures of runs.
fn figures(runs: &[Run], full: Phase, span: Span, resolution: Resolution) -> Figures {
    let mut figures = Figures::new();
    for run in runs {
        if let Some(span) = Span::of(run, full, Some(span)) {
            add_run(&mut figures, run, full, span, resolution);
        }
    }
    figures
}

fn add_run(figures: &mut Figures, run: &Run, full: Phase, span: Span, resolution: Resolution) {
    let mut add = |phase: Option<Phase>, figure: Figure, value: f64| {
        figures.entry((phase, figure)).or_default().push(value);
    };
    let power = undone(run);
    let stretches = run.stretches.iter().filter(|it| it.phase != Phase::Other);
    for stretch in stretches {
        let phase = Some(stretch.phase);
        let is_wait = stretch.phase.is_wait();
        if !is_wait {
            add(phase, Figure::Duration, run.seconds(stretch));
        }
        let Some(it) = Statistics::of(run, stretch) else {
            continue;
        };
        let ripple = 100.0 * it.ripple_w / it.mean_w;
        add(phase, Figure::Ripple, ripple.max(resolution.ripple));
        if let Some(peak_w) = peak_w(run, stretch, &power) {
            let peak = 100.0 * (peak_w - it.mean_w) / span.w();
            add(phase, Figure::Peak, peak.max(resolution.peak));
        }
        if is_wait {
            add(phase, Figure::Rest, 100.0 * it.mean_w / span.full_w);
        } else {
            let level = (it.mean_w - span.idle_w) / span.w();
            add(phase, Figure::Level, 100.0 * level);
            let drift = 100.0 * it.drift_w.abs() / span.w();
            add(phase, Figure::Drift, drift.max(resolution.drift));
        }
        // Rounding has a spectrum of its own.
        if ripple > resolution.ripple {
            add(phase, Figure::Correlation, it.correlation_s);
            it.fast()
                .iter()
                .for_each(|share| add(phase, Figure::Fast, 100.0 * share));
        }
    }
    for seconds in edges::durations(run, Direction::Up) {
        add(None, Figure::Rise, seconds);
    }
    for seconds in edges::durations(run, Direction::Down) {
        add(None, Figure::Fall, seconds);
    }
    // A run without the full load says nothing of changes.
    if run.stretches.iter().any(|it| it.phase == full) {
        for (at, change) in changes(&power, span).into_iter().enumerate() {
            let change = change.into_iter();
            change.for_each(|change| add(None, Figure::Change(at), change));
        }
    }
}

/// The highest power of a stretch without its ends. Where the lag is undone, nothing of the phase before is left.
fn peak_w(run: &Run, stretch: &Stretch, power: &[Reading]) -> Option<f64> {
    let of_stretch = &run.readings[stretch.readings.clone()];
    let settled_s = match run.period_s() <= edges::OFTEN_S {
        true => MARKER_S,
        false => SETTLED_S,
    };
    let (first, last) = (of_stretch.first()?.seconds, of_stretch.last()?.seconds);
    let inner = power
        .iter()
        .filter(|it| it.seconds >= first + settled_s && it.seconds <= last - MARKER_S);
    inner.map(|it| it.watts).reduce(f64::max)
}

/// The largest changes in % of the span.
fn changes(power: &[Reading], span: Span) -> [Option<f64>; 3] {
    WITHIN_S.map(|within| Some(100.0 * largest_change(power, within)? / span.w()))
}

/// The shares of the time near idle and near the full load, in %.
fn near(power: &[Reading], span: Span) -> [f64; 2] {
    let share = |is: &dyn Fn(f64) -> bool| {
        let levels = power.iter().map(|it| (it.watts - span.idle_w) / span.w());
        100.0 * levels.filter(|level| is(*level)).count() as f64 / power.len() as f64
    };
    [
        share(&|level| level < NEAR_IDLE),
        share(&|level| (NEAR_FULL[0]..NEAR_FULL[1]).contains(&level)),
    ]
}

impl Comparison {
    /// Compares traces with the loads that stand for them, and all loads with those of the first trace.
    pub fn new(traces: Vec<Trace>) -> Result<Self, DynamicsError> {
        let mut groups: Vec<Group> = Vec::new();
        for trace in traces {
            if full_load(&trace.runs).is_none() {
                return Err(DynamicsError::NoSpan { path: trace.path });
            }
            for run in trace.runs {
                let is_same =
                    |it: &&mut Group| it.source.board == trace.source.board && it.mode == run.mode;
                match groups.iter_mut().find(is_same) {
                    Some(group) => group.recorded.push(run),
                    None => groups.push(Group {
                        source: trace.source,
                        mode: run.mode,
                        mode_name: simulated::mode_name(trace.source, run.mode)?,
                        recorded: vec![run],
                        simulated: Vec::new(),
                        rows: Vec::new(),
                        lags: [None; 2],
                    }),
                }
            }
        }
        groups.iter_mut().try_for_each(Group::compare)?;
        let loads = match groups.first() {
            Some(group) => group.loads()?,
            None => Vec::new(),
        };
        let samples = match groups.first() {
            Some(group) => samples(group.source)?,
            None => Vec::new(),
        };
        Ok(Self {
            groups,
            loads,
            samples,
        })
    }
}

/// What decays of the simulated sensor show at several settings, polled often.
fn samples(source: &Source) -> Result<Vec<(u32, f64, Option<Lag>)>, DynamicsError> {
    let kind = Kind::Square {
        period: 8.0,
        amplitude: 1.0,
        duty: 0.5,
    };
    let of = |samples: &u32| {
        let sampling = Sampling::of_samples(*samples);
        let polls = Polls {
            source,
            mode: 0,
            period_s: POLLED_S,
            sampling,
        };
        let run = simulated::run(&polls, kind, Duration::from_secs(60), 1)?;
        let nominal_s = 1e-3 * f64::from(sampling.time_constant_ms());
        let lag = Lag::of(&[run], nominal_s, source.rail_step_w);
        Ok((*samples, nominal_s, lag))
    };
    on_all_cores(&SAMPLES, of)
}

impl Group {
    fn polls(&self) -> Polls<'static> {
        let longest = self.recorded.iter().max_by_key(|run| run.readings.len());
        Polls {
            source: self.source,
            mode: self.mode,
            // That of the run with most polls.
            period_s: longest.map_or(f64::NAN, Run::period_s),
            sampling: Sampling::L4T,
        }
    }

    /// Names of the board and of its mode.
    pub fn name(&self) -> String {
        format!("{}, {}", self.source.board, self.mode_name)
    }

    fn compare(&mut self) -> Result<(), DynamicsError> {
        let polls = self.polls();
        let kinds = stand_ins(self.source, self.mode);
        let jobs: Vec<(Kind, u64)> = kinds
            .iter()
            .flat_map(|kind| SEEDS.map(|seed| (*kind, seed)))
            .collect();
        let run = |(kind, seed): &(Kind, u64)| simulated::run(&polls, *kind, LENGTH, *seed);
        let mut runs = on_all_cores(&jobs, run)?.into_iter();
        for kind in kinds {
            let of_kind: Vec<Run> = runs.by_ref().take(SEEDS.len()).collect();
            self.simulated.push((kind, of_kind));
        }
        let all: Vec<Run> = self
            .simulated
            .iter()
            .flat_map(|(_, runs)| runs.clone())
            .collect();
        let (expected_s, step_w) = (edges::TIME_CONSTANT_S, self.source.rail_step_w);
        self.lags = [&self.recorded, &all].map(|runs| Lag::of(runs, expected_s, step_w));
        let Some((full, span)) = full_load(&self.recorded) else {
            return Ok(());
        };
        let is_undone = polls.period_s <= edges::OFTEN_S;
        let resolution = Resolution::new(span, self.source.step_w, is_undone);
        let recorded = figures(&self.recorded, full, span, resolution);
        for (kind, runs) in &self.simulated {
            let Some(span) = Span::median(runs, full) else {
                continue;
            };
            for (key, values) in figures(runs, full, span, resolution) {
                // One of them is no range.
                let all = recorded.get(&key).filter(|all| all.len() > 1);
                let Some(all) = all else {
                    continue;
                };
                let low = all.iter().copied().fold(f64::INFINITY, f64::min);
                let high = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                self.rows.push(Row {
                    kind: *kind,
                    key,
                    recorded: [low, median(all.iter().copied()), high],
                    count: all.len(),
                    simulated: median(values),
                });
            }
        }
        Ok(())
    }

    /// The recorded runs' highest figures, and those of all loads.
    fn loads(&self) -> Result<Vec<LoadRow>, DynamicsError> {
        let polls = self.polls();
        let Some((full, span)) = full_load(&self.recorded) else {
            return Ok(Vec::new());
        };
        let spans = self.recorded.iter().map(|run| {
            let span = Span::of(run, full, Some(span)).unwrap_or(span);
            (undone(run), span)
        });
        let of_runs: Vec<([Option<f64>; 3], [f64; 2])> = spans
            .map(|(power, span)| (changes(&power, span), near(&power, span)))
            .collect();
        let highest = |at: usize| {
            let of = of_runs.iter().filter_map(|(changes, _)| changes[at]);
            of.fold(f64::NAN, f64::max)
        };
        let recorded = LoadRow {
            name: "recorded, highest".to_owned(),
            changes: [0, 1, 2].map(highest),
            near: [0, 1].map(|at| of_runs.iter().map(|(_, near)| near[at]).fold(0.0, f64::max)),
            is_off: false,
        };
        // The constant load tells the span of all.
        let constant = simulated::run(&polls, Kind::Constant, LENGTH, 1)?;
        let Some(span) = Span::of(&constant, Phase::Decode, None) else {
            return Ok(Vec::new());
        };
        let of_kind = |kind: &Kind| {
            let power = undone(&simulated::run(&polls, *kind, LENGTH, 1)?);
            let changes = changes(&power, span).map(|change| change.unwrap_or(f64::NAN));
            let mut both = changes.iter().zip(recorded.changes);
            Ok::<_, ReplayError>(LoadRow {
                name: kind.name(),
                changes,
                near: near(&power, span),
                is_off: both.any(|(simulated, recorded)| *simulated > OFF * recorded),
            })
        };
        let loads = on_all_cores(&KINDS, of_kind)?;
        Ok(std::iter::once(recorded.clone()).chain(loads).collect())
    }
}
