//! Experimental design while a board is profiled: which mode to measure next, asked one by one.
//!
//! Without a limit the modes are those of [`crate::learn::plan`]: eight chosen with the prior
//! alone, then one at a time after each measurement.
//!
//! With a limit the planner starts at the lowest mode. After that it asks only for modes whose
//! upper bound of the power, from the [`Forecast`], is within the limit. It chooses among these:
//!
//! - A mode on an axis of which only one value was measured, from the fifth mode on.
//! - The mode that promises to be the fastest within the limit, at every second mode after the
//!   eighth and at the last three: a query under the limit selects near it, and each such mode
//!   brings modes closer to the limit into reach.
//! - The mode that tells most of the whole grid, as `plan` does, otherwise.
//!
//! References of the same board narrow the forecast and the fit.

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use statrs::statistics::{Data, Median};
use thiserror::Error;
use wattgate_runtime::grid::Axis;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Model, PowerMode};

use crate::corpus::modes::{Known, agree, all_modes};
use crate::corpus::{Corpus, IdleReading};
use crate::learn::blend::Blend;
use crate::learn::expected::expected_errors;
use crate::learn::forecast::{Forecast, Predicted, dominates};
use crate::learn::gp::SingularCovariance;
use crate::learn::mean::Scales;
use crate::learn::plan::{self, FIRST};
use crate::learn::predictions::Errors;
use crate::learn::priors::Priors;
use crate::learn::reference::{OwnReference, Reference};
use crate::learn::split::MIN_MODES;
use crate::learn::suspects::suspect;
use crate::learn::teacher::Teachers;
use crate::train::{self, TrainError, distil};

/// Modes whose forecast is computed to find those within the limit. If none is, all are computed.
const SEARCHED: usize = 1_500;

/// Number of measured modes from which on every axis should have two measured values.
const ALONG_ALL_AXES: usize = 4;

/// Number of last modes that are all chosen for the limit.
const AT_THE_FRONT: usize = 3;

/// Modes over which the expected error is averaged.
const JUDGED_MODES: usize = 400;

/// What is planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    /// Number of modes to measure.
    pub modes: usize,
    /// Power limit in mW of all measured modes.
    pub limit_mw: Option<f64>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// The answer to an ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Next {
    /// Measure this mode. The forecast is absent before the first measurement.
    Measure([u32; 4], Option<Predicted>),
    /// No further mode is needed, or none can be measured within the limit.
    Enough {
        /// Expected errors over all modes; unknown with fewer than five.
        expected_errors: Errors,
    },
}

/// A model of the told modes.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The model file.
    pub bytes: Vec<u8>,
    /// Number of modes that it was trained on.
    pub modes: usize,
    /// Expected errors over all modes.
    pub expected_errors: Errors,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum Refused {
    /// More modes than the grid has, or none.
    #[error("cannot plan {asked} modes: the board has {available}; ask for 1 to {available}")]
    Modes { asked: usize, available: usize },
    /// A knob is not on its axis.
    #[error("{} is not a mode of the grid", shown(*.0))]
    NotOfGrid([u32; 4]),
    /// The mode was told before.
    #[error("{} was told before", shown(*.0))]
    Told([u32; 4]),
    /// A reference has a value that the board's axis does not have.
    #[error("{name} is of another board: this one has no {}", axis_value(*.axis, *.value))]
    OtherBoard {
        name: String,
        axis: Axis,
        value: u32,
    },
    /// A reference knows what is to be measured already.
    #[error("{0}")]
    OwnReference(#[from] OwnReference),
    /// Too few modes were told for a model.
    #[error("cannot fit {told} modes: at least {MIN_MODES} are needed; measure more")]
    Few { told: usize },
    /// The training failed.
    #[error("{0}")]
    Train(#[from] TrainError),
    /// The measurements cannot be fitted.
    #[error("{0}")]
    SingularCovariance(#[from] SingularCovariance),
}

fn axis_value(axis: Axis, value: u32) -> String {
    let clock = match axis {
        Axis::Cores => return format!("mode with {value} cores"),
        Axis::Cpu => "CPU",
        Axis::Gpu => "GPU",
        Axis::Emc => "memory",
    };
    format!("{clock} clock of {value} kHz")
}

fn shown(knobs: [u32; 4]) -> PowerMode {
    PowerMode::from_knobs(knobs)
}

/// A plan that grows with its measurements.
#[derive(Clone, Debug)]
pub struct Planner {
    task: Task,
    /// Names and grid of the board and the workload, without modes.
    board: Corpus,
    references: Vec<Reference>,
    scales: Scales,
    /// All modes of the grid in random order.
    modes: Vec<[u32; 4]>,
    /// Whether each mode may still be asked for: neither told nor excluded.
    free: Vec<bool>,
    /// Each mode with the medians of its readings.
    measured: Vec<Known>,
    /// Time in µs and power in mW of each reading, in the order of `measured`.
    readings: Vec<Vec<[f64; 2]>>,
    /// Excluded modes with the power in mW that they exceeded.
    exceeded: Vec<([u32; 4], f64)>,
    /// The modes chosen with the prior alone; `None` before the first ask.
    first: Option<Vec<usize>>,
    /// The last answer, until something is told or excluded.
    answer: Option<Next>,
    random: ChaCha8Rng,
}

impl Planner {
    /// Starts a plan on the grid of `board`, whose measurements are not used. References must be
    /// of the same board.
    pub fn new(board: Corpus, references: Vec<Reference>, task: Task) -> Result<Self, Refused> {
        let foreign = |reference: &Reference| {
            Some((reference.name().to_owned(), reference.foreign(&board.grid)?))
        };
        if let Some((name, (axis, value))) = references.iter().find_map(foreign) {
            return Err(Refused::OtherBoard { name, axis, value });
        }
        Reference::refuse_own(&references, &board, &[])?;
        let mut modes: Vec<[u32; 4]> = all_modes(&board.grid).collect();
        let (asked, available) = (task.modes, modes.len());
        if !(1..=available).contains(&asked) {
            return Err(Refused::Modes { asked, available });
        }
        let mut random = ChaCha8Rng::seed_from_u64(task.seed);
        modes.shuffle(&mut random);
        Ok(Self {
            task,
            scales: Scales::from_grid(&board.grid),
            board,
            references,
            free: vec![true; modes.len()],
            modes,
            measured: Vec::new(),
            readings: Vec::new(),
            exceeded: Vec::new(),
            first: None,
            answer: None,
            random,
        })
    }

    /// Number of modes of the grid.
    pub fn modes(&self) -> usize {
        self.modes.len()
    }

    /// The measurements so far.
    pub fn measured(&self) -> &[Known] {
        &self.measured
    }

    /// Chooses the next mode. The answer stays the same until something is told or excluded.
    /// `current` is the mode that the board is in: of the modes chosen with the prior alone, the
    /// nearest comes first.
    pub fn ask(&mut self, current: Option<[u32; 4]>) -> Result<Next, Refused> {
        if let Some(current) = current {
            self.position(current)?;
        }
        if let Some(answer) = self.answer {
            return Ok(answer);
        }
        let open = self.measured.len() < self.task.modes;
        let next = open.then(|| self.next(current)).transpose()?.flatten();
        let answer = match next {
            Some(next) => next,
            None => self.end(),
        };
        self.answer = Some(answer);
        Ok(answer)
    }

    /// Asks a second time for a mode whose reading contradicts those of the others. If its two readings disagree,
    /// asks a third time, since the median of three is not the wrong one. Then asks for no more.
    fn end(&mut self) -> Next {
        let is_open =
            |(readings, mode): &(&Vec<[f64; 2]>, &Known)| readings.len() == 2 && !mode.is_confirmed;
        let mut pairs = self.readings.iter().zip(&self.measured);
        if let Some((_, mode)) = pairs.find(is_open) {
            return Next::Measure(mode.knobs, None);
        }
        let mut expected = Errors::default();
        let settled = self.settled();
        if settled.len() >= MIN_MODES
            && let Ok(teachers) = self.teachers(&settled)
        {
            let suspect = suspect(&settled, teachers.left_out());
            if let Some(suspect) = suspect.map(|suspect| settled[suspect.at].knobs)
                && self.readings_of(suspect) == 1
            {
                return Next::Measure(suspect, None);
            }
            let judged = &self.modes[..self.modes.len().min(JUDGED_MODES)];
            expected = expected_errors(teachers.left_out(), &teachers.predict(judged));
        }
        Next::Enough {
            expected_errors: expected,
        }
    }

    /// Takes a measurement. If the mode was measured before and asked for again, the medians of all its readings
    /// count. Returns the number of measured modes.
    pub fn tell(&mut self, knobs: [u32; 4], time_us: f64, power_mw: f64) -> Result<usize, Refused> {
        let at = self.position(knobs)?;
        let id = self.board.grid.id(PowerMode::from_knobs(knobs));
        let id = id
            .map(|id| usize::from(id.0))
            .ok_or(Refused::NotOfGrid(knobs))?;
        let before = self.measured.iter().position(|mode| mode.id == id);
        if before.is_some() && !self.is_asked(knobs) {
            return Err(Refused::Told(knobs));
        }
        let mut readings = before.map_or_else(Vec::new, |place| self.readings[place].clone());
        readings.push([time_us, power_mw]);
        let runs = |quantity: usize| readings.iter().map(move |reading| reading[quantity]);
        let median = |quantity: usize| Data::new(runs(quantity).collect::<Vec<_>>()).median();
        let mode = Known {
            id,
            knobs,
            time_us: median(0),
            power_mw: Some(median(1)),
            is_confirmed: (0..2).all(|quantity| agree(runs(quantity), median(quantity))),
        };
        let told = [&self.measured[..], &[mode]].concat();
        Reference::refuse_own(&self.references, &self.board, &told)?;
        match before {
            Some(place) => {
                self.measured[place] = mode;
                self.readings[place] = readings;
            }
            None => {
                self.measured.push(mode);
                self.readings.push(readings);
            }
        }
        self.free[at] = false;
        if self.task.limit_mw.is_some_and(|limit| power_mw > limit) {
            self.exclude_above(knobs);
        }
        self.answer = None;
        Ok(self.measured.len())
    }

    /// Takes the power of the idle board in a mode, for the model.
    pub fn idle(&mut self, knobs: [u32; 4], power_mw: f64) -> Result<(), Refused> {
        self.position(knobs)?;
        self.board.idle.push(IdleReading { knobs, power_mw });
        Ok(())
    }

    /// Excludes a mode. If its power was at least `power_mw`, all modes without a lower knob are
    /// excluded too. A mode that was asked for again loses its doubtful readings. Returns the number of modes that will not be asked for and are not measured.
    pub fn exclude(&mut self, knobs: [u32; 4], power_mw: Option<f64>) -> Result<usize, Refused> {
        let at = self.position(knobs)?;
        self.free[at] = false;
        if self.is_asked(knobs)
            && let Some(place) = self.measured.iter().position(|mode| mode.knobs == knobs)
        {
            self.measured.remove(place);
            self.readings.remove(place);
        }
        if let Some(power_mw) = power_mw {
            self.exceeded.retain(|(known, _)| *known != knobs);
            self.exceeded.push((knobs, power_mw));
            self.exclude_above(knobs);
        }
        self.answer = None;
        let taken = self.free.iter().filter(|free| !**free).count();
        Ok(taken - self.measured.len())
    }

    /// Whether the last answer asks for this mode.
    fn is_asked(&self, knobs: [u32; 4]) -> bool {
        matches!(self.answer, Some(Next::Measure(asked, _)) if asked == knobs)
    }

    /// The measured modes without those whose readings disagree, which nothing is learned from.
    fn settled(&self) -> Vec<Known> {
        let modes = self.measured.iter().zip(&self.readings);
        let is_settled =
            |(mode, readings): &(&Known, &Vec<[f64; 2]>)| readings.len() == 1 || mode.is_confirmed;
        modes.filter(is_settled).map(|(mode, _)| *mode).collect()
    }

    /// The number of readings of a mode.
    fn readings_of(&self, knobs: [u32; 4]) -> usize {
        let place = self.measured.iter().position(|mode| mode.knobs == knobs);
        place.map_or(0, |place| self.readings[place].len())
    }

    fn teachers(&self, settled: &[Known]) -> Result<Teachers, SingularCovariance> {
        let references = Reference::all_teachers(&self.references);
        let grid = &self.board.grid;
        let seed = self.task.seed;
        let blend = Blend::planned(Priors::shipped());
        Teachers::fit(
            grid,
            settled,
            &references,
            &blend,
            seed,
            &ProgressBar::hidden(),
        )
    }

    /// Trains a model on all told modes whose readings agree.
    pub fn fit(&self) -> Result<Fitted, Refused> {
        let settled = self.settled();
        let told = settled.len();
        if told < MIN_MODES {
            return Err(Refused::Few { told });
        }
        let task = train::Task {
            priors: Priors::shipped(),
            corpus: &self.board,
            used: &settled,
            references: &self.references,
            seed: self.task.seed,
            shape: Shape::Wide32,
            progress: &ProgressBar::hidden(),
        };
        let teachers = self.teachers(&settled)?;
        let exported = distil(&task, &teachers)?;
        let bytes = exported.encode(0, &exported.expected_errors);
        Model::parse(&bytes).map_err(TrainError::from)?;
        Ok(Fitted {
            bytes,
            modes: told,
            expected_errors: exported.expected_errors,
        })
    }

    fn exclude_above(&mut self, low: [u32; 4]) {
        for (free, knobs) in self.free.iter_mut().zip(&self.modes) {
            *free &= !dominates(knobs, &low);
        }
    }

    fn position(&self, knobs: [u32; 4]) -> Result<usize, Refused> {
        let position = self.modes.iter().position(|mode| *mode == knobs);
        position.ok_or(Refused::NotOfGrid(knobs))
    }

    fn free(&self) -> Vec<usize> {
        (0..self.modes.len()).filter(|&at| self.free[at]).collect()
    }

    fn knobs(&self, positions: &[usize]) -> Vec<[u32; 4]> {
        positions.iter().map(|&at| self.modes[at]).collect()
    }

    fn next(&mut self, current: Option<[u32; 4]>) -> Result<Option<Next>, SingularCovariance> {
        let mut forecast = None;
        if !self.measured.is_empty() {
            let (known, exceeded) = (&self.measured, &self.exceeded);
            let references = Reference::all_teachers(&self.references);
            forecast = Some(Forecast::fit(
                &self.scales,
                known,
                exceeded,
                &Teachers::mean_hyperparameters(&references),
                self.task.seed,
            )?);
        }
        let chosen = match self.task.limit_mw {
            Some(limit_mw) => self.within(limit_mw, forecast.as_ref())?,
            None => self.anywhere(current)?,
        };
        Ok(chosen.map(|at| {
            let predicted = forecast.and_then(|forecast| forecast.predict(&[self.modes[at]]).pop());
            Next::Measure(self.modes[at], predicted)
        }))
    }

    fn anywhere(&mut self, current: Option<[u32; 4]>) -> Result<Option<usize>, SingularCovariance> {
        let free = self.free();
        let offered = self.knobs(&free);
        if self.first.is_none() {
            let count = if self.measured.is_empty() {
                FIRST.min(self.task.modes)
            } else {
                0
            };
            let first = plan::first(
                &self.scales,
                Priors::shipped(),
                &offered,
                count,
                &mut self.random,
            )?;
            self.first = Some(first.into_iter().map(|at| free[at]).collect());
        }
        let first = self.first.get_or_insert_default();
        first.retain(|&at| self.free[at]);
        let (scales, modes) = (&self.scales, &self.modes);
        if !first.is_empty() {
            let nearest = current.and_then(|current| {
                let from = scales.place(current).input;
                let distance = |at: usize| {
                    let to = scales.place(modes[at]).input;
                    from.iter()
                        .zip(to)
                        .map(|(a, b)| (a - b).powi(2))
                        .sum::<f64>()
                };
                (0..first.len()).min_by(|&a, &b| distance(first[a]).total_cmp(&distance(first[b])))
            });
            return Ok(Some(first[nearest.unwrap_or(0)]));
        }
        let next = plan::next(
            scales,
            Priors::shipped(),
            &offered,
            &self.measured,
            1,
            &mut self.random,
        )?;
        Ok(next.first().map(|&at| free[at]))
    }

    fn within(
        &mut self,
        limit_mw: f64,
        forecast: Option<&Forecast>,
    ) -> Result<Option<usize>, SingularCovariance> {
        let mut free = self.free();
        let Some(forecast) = forecast else {
            let height = |at: &usize| {
                let knobs = self.modes[*at].iter().zip(Axis::ALL);
                let below = |(knob, axis)| {
                    self.board
                        .grid
                        .axis(axis)
                        .partition_point(|value| value < knob)
                };
                knobs.map(below).sum::<usize>()
            };
            return Ok(free.into_iter().min_by_key(height));
        };
        if let Some(chosen) = self.on_an_unknown_axis(limit_mw, forecast)? {
            return Ok(Some(chosen));
        }
        if self.at_the_front() {
            return Ok(self.most_promising(limit_mw, forecast, free));
        }
        free.shuffle(&mut self.random);
        let (few, others) = free.split_at(free.len().min(SEARCHED));
        let mut safe = vec![false; self.modes.len()];
        let mut found = false;
        for candidates in [few, others] {
            let within = forecast.within(&self.knobs(candidates), limit_mw);
            for (&at, within) in candidates.iter().zip(within) {
                safe[at] = within;
                found |= within;
            }
            if found {
                return plan::next_of(
                    &self.scales,
                    Priors::shipped(),
                    &self.modes,
                    &safe,
                    &self.measured,
                    &mut self.random,
                );
            }
        }
        Ok(None)
    }

    /// A mode within the limit that is one value above a measured mode on an axis of which only one
    /// value was measured. Without it the effect of the axis stays unknown.
    fn on_an_unknown_axis(
        &mut self,
        limit_mw: f64,
        forecast: &Forecast,
    ) -> Result<Option<usize>, SingularCovariance> {
        if self.measured.len() < ALONG_ALL_AXES {
            return Ok(None);
        }
        let mut candidates = Vec::new();
        for axis in Axis::ALL {
            let knob = |mode: &Known| mode.knobs[axis as usize];
            let lowest = knob(&self.measured[0]);
            let mut values = self.board.grid.axis(axis).iter();
            let next = values.find(|value| **value > lowest);
            let Some(&next) =
                next.filter(|_| self.measured.iter().all(|mode| knob(mode) == lowest))
            else {
                continue;
            };
            candidates.extend(self.measured.iter().map(|mode| {
                let mut knobs = mode.knobs;
                knobs[axis as usize] = next;
                knobs
            }));
        }
        let positions: Result<Vec<usize>, Refused> = candidates
            .iter()
            .map(|&knobs| self.position(knobs))
            .collect();
        let within = forecast.within(&candidates, limit_mw);
        let mut safe = vec![false; self.modes.len()];
        for (at, within) in positions.into_iter().flatten().zip(within) {
            safe[at] = within && self.free[at];
        }
        let (scales, modes) = (&self.scales, &self.modes);
        match safe.contains(&true) {
            true => plan::next_of(
                scales,
                Priors::shipped(),
                modes,
                &safe,
                &self.measured,
                &mut self.random,
            ),
            false => Ok(None),
        }
    }

    /// Whether the next mode is chosen for the limit: every second after the [`FIRST`], and the
    /// last ones.
    fn at_the_front(&self) -> bool {
        let left = self.task.modes - self.measured.len();
        let after = self.measured.len().checked_sub(FIRST);
        after.is_some_and(|after| after % 2 == 1 || left <= AT_THE_FRONT)
    }

    /// The free mode within the limit with the highest [`plan::promise`] under the limit: the best
    /// of [`SEARCHED`] random ones, improved step by step.
    fn most_promising(
        &mut self,
        limit_mw: f64,
        forecast: &Forecast,
        mut free: Vec<usize>,
    ) -> Option<usize> {
        let within = self
            .measured
            .iter()
            .filter(|mode| mode.power_mw <= Some(limit_mw));
        let fastest = within
            .map(|mode| mode.time_us.ln())
            .fold(f64::INFINITY, f64::min);
        free.shuffle(&mut self.random);
        let best_of = |candidates: &[usize]| {
            let worths = forecast.promises(&self.knobs(candidates), limit_mw, fastest);
            let worths = worths.into_iter().zip(candidates.iter().copied());
            worths
                .filter_map(|(worth, at)| Some((worth?, at)))
                .max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let (few, others) = free.split_at(free.len().min(SEARCHED));
        let mut best = best_of(few).or_else(|| best_of(others))?;
        loop {
            let near = self.neighbours(self.modes[best.1]);
            match best_of(&near) {
                Some(better) if better.0 > best.0 => best = better,
                _ => return Some(best.1),
            }
        }
    }

    /// The free modes of which each knob is at most two values away.
    fn neighbours(&self, knobs: [u32; 4]) -> Vec<usize> {
        let near = |axis: Axis| {
            let values = self.board.grid.axis(axis);
            let at = values.partition_point(|value| *value < knobs[axis as usize]);
            let range = at.saturating_sub(2)..values.len().min(at + 3);
            &values[range]
        };
        let near = Axis::ALL.map(near);
        let is_near = |at: &usize| {
            self.free[*at]
                && self.modes[*at]
                    .iter()
                    .zip(&near)
                    .all(|(knob, near)| near.contains(knob))
        };
        (0..self.modes.len()).filter(is_near).collect()
    }
}
