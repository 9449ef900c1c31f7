//! The power of the workload, or of an idle board, at the current clocks.

use std::time::Duration;

use wattgate_board_tables::Board;

use super::background::Background;
use super::clock_tree::ClockTree;
use super::mode_errors::ModeErrors;
use super::settings::Settings;
use crate::load::WORKING;
use crate::pipeline::{Clocks, Luck, Pipeline};
use crate::power::{Activity, Draw, Watts, leakage};
use crate::unit::Unit;
use crate::workload::Workload;

/// Current state of the board.
pub struct Moment<'a> {
    pub now: Duration,
    pub board: &'a Board,
    pub unit: &'a Unit,
    pub settings: &'a Settings,
    pub clocks: &'a ClockTree,
    /// Divisor of hardware throttling of CPU and GPU: 1, 2 or 4.
    pub divisor: u32,
    pub die_c: f64,
}

/// What workloads have done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Work {
    /// Number of minibatches.
    pub minibatches: f64,
    /// Time in s in which they waited for the loader.
    pub fetch_s: f64,
    /// Time in s in which the GPU computed, or waited for launches.
    pub compute_s: f64,
}

impl Work {
    /// This work without that before it.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            minibatches: self.minibatches - before.minibatches,
            fetch_s: self.fetch_s - before.fetch_s,
            compute_s: self.compute_s - before.compute_s,
        }
    }

    /// `part` of the way from this work to a later one.
    pub fn towards(&self, later: &Self, part: f64) -> Self {
        let at = |from: f64, to: f64| from + part * (to - from);
        Self {
            minibatches: at(self.minibatches, later.minibatches),
            fetch_s: at(self.fetch_s, later.fetch_s),
            compute_s: at(self.compute_s, later.compute_s),
        }
    }
}

/// How the workload's minibatches pass.
#[derive(Clone, Copy, Debug)]
struct Pace {
    /// Time from one minibatch to the next in s.
    period_s: f64,
    /// Part of it in which the main process waits for the loader.
    fetch: f64,
    /// Part of it from the first launch to the end of the last kernel.
    compute: f64,
}

/// The workload, its activity and its power.
#[derive(Clone, Debug)]
pub struct Consumption {
    workload: Option<Workload>,
    /// Factor on the workload's power above idle.
    pub power_factor: f64,
    /// Activity of the workload, relative to full activity.
    load: f64,
    /// GPU load that the driver's file shows, if it was set.
    gpu_load: Option<f64>,
    /// Whether the GPU's governor follows the load.
    pub is_followed: bool,
    mode_errors: Option<ModeErrors>,
    /// Factor of the planted errors at the current clocks.
    mode_factor: f64,
    /// The clocks for which activity and pace were computed.
    clocks: Clocks,
    activity: Activity,
    pace: Option<Pace>,
    /// Whether settings, workload or clocks have changed since activity and power were computed.
    is_stale: bool,
    /// Throttling divisor for which the clocks were computed.
    divided_by: u32,
    at_rest: Draw,
    at_work: Draw,
    background: Background,
}

impl Consumption {
    /// The consumption of a board without a workload.
    pub fn new(board: &Board, seed: u64) -> Self {
        Self {
            workload: None,
            power_factor: 1.0,
            load: 1.0,
            gpu_load: None,
            is_followed: false,
            mode_errors: None,
            mode_factor: 1.0,
            clocks: Clocks::from_knobs(board, board.maxn()),
            activity: Activity::IDLE,
            pace: None,
            is_stale: true,
            divided_by: 1,
            at_rest: Draw::default(),
            at_work: Draw::default(),
            background: Background::new(board, seed),
        }
    }

    /// Starts a workload; `None` stops the current one.
    pub fn set_workload(&mut self, workload: Option<Workload>) {
        self.workload = workload;
        // The new workload has another activity at the same clocks.
        self.clocks.cores = 0.0;
    }

    /// Sets the activity of the workload, and the GPU load that the driver's file shows.
    pub fn set_load(&mut self, activity: f64, gpu_load: f64) {
        self.load = activity;
        self.is_stale = true;
        self.gpu_load = Some(gpu_load);
    }

    /// Plants errors that depend on the mode.
    pub fn set_mode_errors(&mut self, errors: ModeErrors) {
        self.mode_errors = Some(errors);
        self.is_stale = true;
    }

    /// Marks activity and power as outdated, because settings or clocks have changed.
    pub fn expire(&mut self) {
        self.is_stale = true;
    }

    /// Advances the background bursts of an idle board to now.
    pub fn pass(&mut self, now: Duration) {
        self.background.pass(now);
    }

    /// The number of processes of the workload: its main one and its loaders; 0 without one.
    pub fn processes(&self) -> usize {
        let workload = self.workload.as_ref();
        workload.map_or(0, |workload| 1 + workload.loader.workers as usize)
    }

    /// The workload whose load the GPU's governor follows; `None` if it does not, or if the load is given by
    /// [`Self::set_load`].
    pub fn followed(&self) -> Option<&Workload> {
        let is_followed = self.is_followed && self.gpu_load.is_none();
        self.workload.as_ref().filter(|_| is_followed)
    }

    /// Fraction of the time during which kernels execute, or the load given to [`Self::set_load`].
    pub fn gpu_load(&self) -> f64 {
        let given = self.gpu_load.filter(|_| self.workload.is_some());
        given.unwrap_or(self.activity.gpu)
    }

    /// Whether the background work of the board shows: there is no workload, or one that makes no progress.
    fn is_idle(&self) -> bool {
        self.workload.is_none() || self.background.shows_at_waits && self.load <= WORKING
    }

    /// Adds the work of some seconds; none while the workload's activity is not above [`WORKING`].
    pub fn work(&self, seconds: f64, work: &mut Work) {
        if let Some(pace) = self.pace.filter(|_| self.load > WORKING) {
            work.minibatches += seconds / pace.period_s;
            work.fetch_s += seconds * pace.fetch;
            work.compute_s += seconds * pace.compute;
        }
    }

    /// The current power without the ripple.
    pub fn draw(&mut self, moment: &Moment<'_>) -> Watts {
        // Background bursts change the activity of an idle board.
        let is_stale = std::mem::take(&mut self.is_stale) || self.is_idle();
        if is_stale || moment.divisor != self.divided_by {
            self.divided_by = moment.divisor;
            self.refresh(moment);
        }
        let leakage = leakage(moment.unit, moment.die_c);
        let (at_rest, at_work) = (self.at_rest.at(leakage), self.at_work.at(leakage));
        let above_rest = match self.workload {
            Some(_) => self.power_factor * self.mode_factor * self.load,
            None => 0.0,
        };
        let at_load = |rest: f64, work: f64| rest + above_rest * (work - rest);
        Watts {
            cpu: at_load(at_rest.cpu, at_work.cpu),
            gpu: at_load(at_rest.gpu, at_work.gpu),
            soc: at_load(at_rest.soc, at_work.soc),
            dram: at_load(at_rest.dram, at_work.dram),
            system: at_rest.system,
        }
    }

    /// Recomputes activity and power from settings, workload and clocks.
    fn refresh(&mut self, moment: &Moment<'_>) {
        let Moment {
            board,
            unit,
            settings,
            ..
        } = moment;
        let clocks = moment
            .clocks
            .true_clocks(board, settings, self.processes(), moment.divisor);
        if clocks != self.clocks {
            self.clocks = clocks;
            self.act(board, unit);
        }
        let gpu = &settings.gpu;
        let idle = match self.is_idle() {
            false => self.activity.at_rest(),
            true => Activity {
                gpu_on: self.workload.is_some() || !gpu.railgate || gpu.always_on,
                power_log: self.activity.power_log,
                ..self.background.activity(moment.now, clocks.cores)
            },
        };
        let draw = |activity| Draw::new(board, unit, &clocks, activity);
        (self.at_rest, self.at_work) = (draw(&idle), draw(&self.activity));
        let errors = self.mode_errors.as_ref();
        self.mode_factor = errors.map_or(1.0, |errors| errors.factor(board, &clocks));
    }

    /// Computes the workload's activity at the current clocks.
    fn act(&mut self, board: &Board, unit: &Unit) {
        let Some(workload) = &self.workload else {
            (self.activity, self.pace) = (Activity::IDLE, None);
            return;
        };
        let step = Pipeline::new(board, workload, self.clocks).step(None, &Luck::NONE);
        let time = unit.time;
        self.activity = Activity::from_step(&step, self.clocks.cores).slowed(time);
        self.pace = Some(Pace {
            period_s: step.period * time,
            fetch: step.fetch / step.period,
            compute: step.gpu / step.period,
        });
    }
}
