//! Profiling a mode as PowerTrain's authors did: a workload is started, power is logged each
//! second, the log is searched for the point where power has settled, and 40 clean
//! minibatches after it count. The fan runs at its highest speed, clocks are fixed, the data
//! set lies in the page cache.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, LogNormal};

use crate::heat::Heat;
use crate::pipeline::{Clocks, Luck, Pipeline};
use crate::power::{Activity, Watts, watts};
use crate::sensor::Channel;
use crate::steady::AMBIENT_C;
use crate::unit::Unit;
use crate::workload::Workload;
use wattgate_board_tables::Board;

/// Minibatches that count.
const CLEAN: usize = 40;

/// Of the fan.
const FULL_SPEED: f64 = 1.0;

/// Seconds of the log before the workload starts.
const REST_S: f64 = 4.5;

/// Seconds from one sample of the log to the next, without the up to 0.2 that it is late.
const SAMPLE_S: f64 = 1.0;

/// Samples after the settle point at least: fast modes have run their minibatches before.
const SAMPLES: usize = 3;

/// A sample this much above the mean of those before it is where power has settled.
const SETTLED: f64 = 1.25;

/// Samples that this mean is over at most.
const BEFORE: usize = 10;

/// Power follows the load with this time constant in s: converters, and queues that fill.
const RISE_S: f64 = 0.7;

/// A minibatch is disturbed once in so many.
const DISTURBED: f64 = 1.0 / 400.0;

/// Spread of the time of a run, of minibatches by their parts, and of a reading of the power.
/// Repeated runs of one mode differ by about a percent.
const RUN_SPREAD: f64 = 0.006;
const LOADER_SPREAD: f64 = 0.05;
const HOST_SPREAD: f64 = 0.03;
const GPU_SPREAD: f64 = 0.008;
const POWER_SPREAD: f64 = 0.008;

/// What was measured in one mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Online cores, and CPU, GPU and memory clock in kHz.
    pub knobs: [u32; 4],
    /// Mean time of a minibatch in ms.
    pub time_ms: f64,
    /// Mean power of the module in mW.
    pub power_mw: f64,
    /// How long it took in s.
    pub seconds: f64,
}

/// A board on which modes are profiled one after another.
#[derive(Clone, Debug)]
pub struct Profiler<'a> {
    board: &'a Board,
    unit: Unit,
    workload: &'a Workload,
    seed: u64,
    heat: Heat,
    /// Of each rail.
    channels: Vec<Channel>,
}

impl<'a> Profiler<'a> {
    /// A board that has stood idle for a while.
    pub fn new(board: &'a Board, unit: Unit, workload: &'a Workload, seed: u64) -> Self {
        let rails = board.rails.iter().enumerate();
        Self {
            board,
            unit,
            workload,
            seed,
            heat: Heat::of_air(AMBIENT_C + 5.0),
            channels: rails
                .map(|(at, rail)| Channel::new(rail, unit.shunt_offset_uv[at], unit.gain[at]))
                .collect(),
        }
    }

    /// Profiles modes from high to low, as changes to a higher clock can need a reboot.
    pub fn profile_all(&mut self, modes: &[[u32; 4]]) -> Vec<Profile> {
        let mut ordered = modes.to_vec();
        ordered.sort_unstable_by(|a, b| b.cmp(a));
        ordered
            .into_iter()
            .map(|knobs| self.profile(knobs))
            .collect()
    }

    /// Profiles one mode of the board's tables.
    pub fn profile(&mut self, knobs: [u32; 4]) -> Profile {
        let clocks = Clocks::of(self.board, knobs);
        let mut random = self.random(knobs);
        let run = around_one(RUN_SPREAD, &mut random);
        let mut log = Log::new(REST_S);
        let pipeline = Pipeline::new(self.board, self.workload, clocks);
        let mut step = pipeline.step(None, &Luck::NONE);
        let rest = Activity {
            gpu_on: true,
            ..Activity::IDLE
        };
        let idle = self.drawn(&clocks, &rest);
        let busy = self.drawn(&clocks, &Activity::of(&step, clocks.cores));

        // The first minibatch fills caches and chooses algorithms.
        let mut now = REST_S + self.workload.warm_up * step.period;
        let mut ends = Vec::new();
        loop {
            let luck = Luck {
                loader: around_one(LOADER_SPREAD, &mut random),
                host: around_one(HOST_SPREAD, &mut random),
                gpu: around_one(GPU_SPREAD, &mut random),
            };
            step = pipeline.step(Some(&step), &luck);
            let mut period = step.period * run * self.unit.time;
            if random.random_bool(DISTURBED) {
                period *= random.random_range(1.3..3.0);
            }
            now += period;
            ends.push((now, period));
            log.until(now, &mut random, |at, random| {
                let load = 1.0 - (-(at - REST_S).max(0.0) / RISE_S).exp();
                let flicker = around_one(POWER_SPREAD, random);
                self.read(&idle, &busy, load * flicker)
            });
            if let Some((from, settled)) = log.settled()
                && settled.len() >= SAMPLES
                && ends.iter().filter(|(end, _)| *end > from).count() > CLEAN
            {
                break;
            }
        }
        let (from, settled) = log.settled().expect("the loop ended");
        let clean: Vec<f64> = ends
            .iter()
            .filter(|(end, _)| *end > from)
            .skip(1)
            .take(CLEAN)
            .map(|(_, period)| *period)
            .collect();
        let power = settled.iter().sum::<f64>() / settled.len() as f64;
        let thermal = &self.board.physics().thermal;
        self.heat
            .rest(thermal, busy.total(), AMBIENT_C, FULL_SPEED, now);
        Profile {
            knobs,
            time_ms: 1e3 * clean.iter().sum::<f64>() / clean.len() as f64,
            power_mw: 1e3 * power,
            seconds: now,
        }
    }

    /// The same mode gives the same luck in whatever order modes are profiled.
    fn random(&self, knobs: [u32; 4]) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let mode = knobs.iter().fold(0u64, |id, &knob| {
            (id ^ u64::from(knob)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        random.set_stream(mode);
        random
    }

    fn drawn(&self, clocks: &Clocks, activity: &Activity) -> Watts {
        let die = self.board.physics().thermal.die_k_per_w;
        let mut drawn = watts(self.board, &self.unit, clocks, activity, self.heat.sink_c);
        for _ in 0..3 {
            let die_c = self.heat.sink_c + die * drawn.total();
            drawn = watts(self.board, &self.unit, clocks, activity, die_c);
        }
        drawn
    }

    /// What the sensors give for the module, in W, between idle (0) and busy (1).
    fn read(&mut self, idle: &Watts, busy: &Watts, load: f64) -> f64 {
        let mut module = 0.0;
        for (rail, channel) in self.board.rails.iter().zip(&mut self.channels) {
            let of = |watts: &Watts| {
                rail.domains
                    .iter()
                    .map(|&domain| watts.of(domain))
                    .sum::<f64>()
            };
            let watts = of(idle) + (of(busy) - of(idle)) * load;
            channel.settle(1e6 * watts / rail.millivolts, rail.millivolts);
            let reading = channel.reading();
            if rail.total {
                module += 1e-6 * reading.millivolts as f64 * reading.milliamperes as f64;
            }
        }
        module
    }
}

fn around_one(spread: f64, random: &mut ChaCha8Rng) -> f64 {
    let factor = LogNormal::new(0.0, spread).expect("a spread");
    factor.sample(random)
}

/// The log of power.
#[derive(Clone, Debug)]
struct Log {
    next: f64,
    /// Seconds and W.
    samples: Vec<(f64, f64)>,
    started: f64,
}

impl Log {
    fn new(started: f64) -> Self {
        Self {
            next: SAMPLE_S,
            samples: Vec::new(),
            started,
        }
    }

    fn until(
        &mut self,
        now: f64,
        random: &mut ChaCha8Rng,
        mut read: impl FnMut(f64, &mut ChaCha8Rng) -> f64,
    ) {
        while self.next <= now {
            let watts = read(self.next, random);
            self.samples.push((self.next, watts));
            self.next += SAMPLE_S + random.random_range(0.0..0.2);
        }
    }

    /// When power had settled, and the samples after: from the first sample, the fifth or a
    /// later one, that is well above those before it. Where there is none, power does not
    /// rise by as much, and it is taken to have settled four time constants after the start.
    fn settled(&self) -> Option<(f64, Vec<f64>)> {
        let rise = (4..self.samples.len()).find(|&at| {
            let before = &self.samples[at.saturating_sub(BEFORE)..at];
            let mean = before.iter().map(|(_, watts)| watts).sum::<f64>() / before.len() as f64;
            self.samples[at].1 >= SETTLED * mean
        });
        let from = match rise {
            Some(at) => self.samples[at].0.max(self.started + 4.0 * RISE_S),
            None => self.started + 4.0 * RISE_S,
        };
        let after: Vec<f64> = self
            .samples
            .iter()
            .filter(|(at, _)| *at > from)
            .map(|(_, watts)| *watts)
            .collect();
        (!after.is_empty()).then_some((from, after))
    }
}
