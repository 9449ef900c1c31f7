//! Profiles power modes with the method of PowerTrain's authors.
//!
//! The profiler starts a workload, logs the power once a second, finds the point at which the
//! power has settled, and averages 40 clean minibatches after that point. The fan runs at full
//! speed, the clocks are fixed, and the data set is in the page cache.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::heat::Heat;
use crate::noise::around_one;
use crate::pipeline::{Clocks, Luck, Pipeline};
use crate::power::{Activity, Watts, watts};
use crate::sensor::Channel;
use crate::steady::AMBIENT_C;
use crate::unit::Unit;
use crate::workload::Workload;
use wattgate_board_tables::Board;

/// Number of clean minibatches in the mean of the time.
const CLEAN: usize = 40;

/// Speed of the fan while profiling, relative to its highest speed.
const FULL_SPEED: f64 = 1.0;

/// Time from the start of the log to the start of the workload, in s.
const REST_S: f64 = 4.5;

/// Shortest sampling interval of the log, in s. A jitter of up to 0.2 s adds to it.
const SAMPLE_S: f64 = 1.0;

/// Minimum number of power samples after the settling point. Fast modes complete their
/// minibatches before the log has this many samples.
const LEAST_POWER_SAMPLES: usize = 3;

/// The power has settled when a sample reaches this ratio to the mean of the preceding samples.
const SETTLED: f64 = 1.25;

/// Maximum number of preceding samples in that mean.
const BEFORE: usize = 10;

/// Time constant in s with which power follows the load: converters settle and queues fill.
const RISE_S: f64 = 0.7;

/// Probability that a minibatch is disturbed.
const DISTURBED: f64 = 1.0 / 400.0;

/// Relative spread of the time of a whole run. Repeated runs of one mode differ by about a percent.
const RUN_SPREAD: f64 = 0.006;
/// Relative spread of the loader's time from one minibatch to the next.
const LOADER_SPREAD: f64 = 0.05;
/// Relative spread of the main process's time from one minibatch to the next.
const HOST_SPREAD: f64 = 0.03;
/// Relative spread of the kernels' time from one minibatch to the next.
const GPU_SPREAD: f64 = 0.008;
/// Relative spread of a power reading.
const READING_SPREAD: f64 = 0.008;

/// The measurement of one power mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Number of online cores, then CPU, GPU and memory clock in kHz.
    pub knobs: [u32; 4],
    /// Mean time of a minibatch in ms.
    pub time_ms: f64,
    /// Mean power of the module in mW.
    pub power_mw: f64,
    /// Mean part of that time in which the main process waits for the loader, in ms.
    pub fetch_ms: f64,
    /// Mean part of it from the first launch to the end of the last kernel, in ms.
    pub compute_ms: f64,
    /// Duration of the profiling run in s.
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
    /// One sensor channel per rail.
    channels: Vec<Channel>,
}

impl<'a> Profiler<'a> {
    /// Creates a profiler for a board that has idled for a while.
    pub fn new(board: &'a Board, unit: Unit, workload: &'a Workload, seed: u64) -> Self {
        Self {
            board,
            unit,
            workload,
            seed,
            heat: Heat::of_air(AMBIENT_C + 5.0),
            channels: unit.channels(board),
        }
    }

    /// Profiles modes in descending order, because raising a clock can need a reboot.
    pub fn profile_all(&mut self, modes: &[[u32; 4]]) -> Vec<Profile> {
        let mut ordered = modes.to_vec();
        ordered.sort_unstable_by(|a, b| b.cmp(a));
        ordered
            .into_iter()
            .map(|knobs| self.profile(knobs))
            .collect()
    }

    /// Profiles one mode. All knobs must be values of the board's tables.
    pub fn profile(&mut self, knobs: [u32; 4]) -> Profile {
        let clocks = Clocks::from_knobs(self.board, knobs);
        let mut random = self.random(knobs);
        let run = around_one(RUN_SPREAD, &mut random);
        let mut log = Log::new(REST_S);
        let pipeline = Pipeline::new(self.board, self.workload, clocks);
        let mut step = pipeline.step(None, &Luck::NONE);
        let work = Activity::from_step(&step, clocks.cores);
        let idle = self.drawn(&clocks, &work.at_rest());
        let busy = self.drawn(&clocks, &work);

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
            ends.push((
                now,
                [
                    period,
                    period * step.fetch / step.period,
                    period * step.gpu / step.period,
                ],
            ));
            log.until(now, &mut random, |at, random| {
                let load = 1.0 - (-(at - REST_S).max(0.0) / RISE_S).exp();
                let flicker = around_one(READING_SPREAD, random);
                self.read(&idle, &busy, load * flicker)
            });
            if let Some((from, settled)) = log.settled()
                && settled.len() >= LEAST_POWER_SAMPLES
                && ends.iter().filter(|(end, _)| *end > from).count() > CLEAN
            {
                break;
            }
        }
        let (from, settled) = log.settled().expect("the loop ended");
        let clean = ends
            .iter()
            .filter(|(end, _)| *end > from)
            .skip(1)
            .take(CLEAN)
            .map(|(_, times)| *times);
        let mean_ms = |at: usize| {
            1e3 * clean.clone().map(|times| times[at]).sum::<f64>() / clean.clone().count() as f64
        };
        let power = settled.iter().sum::<f64>() / settled.len() as f64;
        let thermal = &self.board.physics().thermal;
        self.heat
            .rest(thermal, busy.total(), AMBIENT_C, FULL_SPEED, now);
        Profile {
            knobs,
            time_ms: mean_ms(0),
            power_mw: 1e3 * power,
            fetch_ms: mean_ms(1),
            compute_ms: mean_ms(2),
            seconds: now,
        }
    }

    /// Measures the idle board in a mode. Returns its mean power in mW.
    pub fn idle(&mut self, knobs: [u32; 4]) -> f64 {
        let clocks = Clocks::from_knobs(self.board, knobs);
        let mut random = self.random(knobs);
        // The GPU of a board that idles for seconds is power-gated.
        let idle = self.drawn(&clocks, &Activity::IDLE);
        let mean = (0..LEAST_POWER_SAMPLES)
            .map(|_| {
                let flicker = around_one(READING_SPREAD, &mut random);
                self.read(&idle, &idle, 0.0) * flicker
            })
            .sum::<f64>();
        1e3 * mean / LEAST_POWER_SAMPLES as f64
    }

    /// Creates the random generator of a mode. It depends on the mode alone, so that the order of
    /// profiling does not change the results.
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

    /// Reads the power of the module from the sensors, in W. `load` interpolates between idle (0)
    /// and busy (1).
    fn read(&mut self, idle: &Watts, busy: &Watts, load: f64) -> f64 {
        let mut module = 0.0;
        for (rail, channel) in self.board.rails.iter().zip(&mut self.channels) {
            let of_rail = |watts: &Watts| {
                rail.domains
                    .iter()
                    .map(|&domain| watts.get(domain))
                    .sum::<f64>()
            };
            let watts = of_rail(idle) + (of_rail(busy) - of_rail(idle)) * load;
            channel.settle(1e6 * watts / rail.millivolts, rail.millivolts);
            if rail.total {
                module += 1e-3 * channel.reading().milliwatts();
            }
        }
        module
    }
}

/// The log of power samples.
#[derive(Clone, Debug)]
struct Log {
    next: f64,
    /// Time in s and power in W of each sample.
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

    /// Returns the time at which power had settled, and the samples after it; `None` if there are
    /// no samples after it.
    ///
    /// Power settles at the first sample, from the fifth on, that exceeds the mean of the preceding
    /// samples by the ratio [`SETTLED`], but not before four time constants after the start of the
    /// workload. If no sample exceeds it, power has settled at four time constants.
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
