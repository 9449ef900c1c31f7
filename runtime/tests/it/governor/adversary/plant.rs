//! The board: true powers, mode changes that take time, and the account of a run.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::LazyLock;

use wattgate_runtime::front::{Least, Point};
use wattgate_runtime::grid::Grid;
use wattgate_runtime::{Confidence, Front, Microseconds, Milliwatts, ModeId, Model};

use super::cases::{Case, Fault, Script};
use crate::plant::{between, normal};

/// Number of points of the front.
pub const POINTS: usize = 64;

/// The limit applies to means over this time in ms.
pub const SPAN: usize = 430;

/// Part of a mode's power at full work that an idle board draws: least and most, by seed.
const STATIC: [f64; 2] = [0.1, 0.3];

/// Standard deviation of the errors of the model that all modes share, and of each mode's own.
const COMMON_ERROR: f64 = 0.03;
const OWN_ERROR: f64 = 0.02;

/// Power of a sleeping board in W.
const ASLEEP_W: f64 = 1.0;

/// A means that begins within this time in ms after the limit was lowered may still use the old one.
const GRACE: usize = 60;

/// Margins of the cautious oracle: of a guess in its standard deviations, of the mean over the window in those of the
/// ripple, and the gain error of the sensor.
const GUESSES: f64 = 2.6;
const RIPPLES: f64 = 3.6;
const GAIN: f64 = 0.0025;

/// The limit turns each such ms, between these W.
const TURN: usize = 5_000;
const TURNS_W: [f64; 2] = [45.0, 15.0];

/// Part of its power that the battery loses, and in what time in ms.
const BATTERY_FALLS: (f64, f64) = (0.12, 60e3);

/// The front, and the number of cores of each of its modes.
pub static FRONT: LazyLock<(Front<POINTS>, Vec<u32>)> = LazyLock::new(|| {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(here.join("tests/models/orin-agx-64-resnet18.wgt")).expect("a model");
    let model = Model::parse(&file).expect("a valid model");
    let mut front = Front::from_model(&model, &model.profiled(), Confidence::P95);
    let slow = front.times().first().map_or(1, |first| first.0);
    let time = Microseconds(slow + slow / 4);
    front.put_least(Least::Other, Milliwatts(9_000), time);
    let cores = |point: &Point| cores(model.grid(), point.mode);
    let cores = front.points().iter().map(cores).collect();
    (front, cores)
});

fn cores(grid: &Grid, mode: ModeId) -> u32 {
    grid.mode(mode).map_or(4, |mode| mode.cores)
}

/// What a mode truly is.
pub struct Truth {
    pub id: ModeId,
    pub cores: u32,
    /// Power at full work in W.
    pub watts: f64,
    /// The same without the mode's own error, as one knows it before the mode is measured.
    guess: f64,
    /// Work in a ms.
    pub speed: f64,
}

/// A run's load and truths, the same for each holder of the limit.
pub struct Scenario {
    pub case: &'static Case,
    pub seed: u64,
    limit_w: f64,
    /// The modes of the front, and after them the fastest mode of all, which only others set.
    pub truths: Vec<Truth>,
    pub script: Script,
    /// Power in each ms, as part of the mode's power at full work.
    parts: Vec<f32>,
    /// Part of a mode's power at full work that the idle board draws.
    idle: f64,
    /// Standard deviation of the means of 10 ms, as part of the power.
    pub ripple: f64,
    /// Speeds of the fixed oracle: for the limit, and for the lower one if it turns.
    oracle: [f64; 2],
    /// Speeds of the fastest modes that fit with the margins that a governor needs, since it knows neither the ripple to
    /// come nor the sensor's error nor what a mode draws that it has not measured.
    cautious: [f64; 2],
}

impl Scenario {
    pub fn new(case: &'static Case, limit_w: u32, seed: u64) -> Self {
        let script = Script::from_case(case, seed);
        let ripple = between(seed, 1, 0.01, 0.02);
        let idle = between(seed, 8, STATIC[0], STATIC[1]);
        let part = |(ms, level): (usize, &f32)| {
            let noise = normal(seed, 1 << 40 | (ms / 10) as u64).clamp(-3.0, 3.0);
            (part_at(idle, f64::from(*level)) * (1.0 + ripple * noise)) as f32
        };
        let parts = script.levels.iter().enumerate().map(part).collect();
        let mut scenario = Self {
            case,
            seed,
            limit_w: f64::from(limit_w),
            truths: truths(seed),
            script,
            parts,
            idle,
            ripple,
            oracle: [0.0; 2],
            cautious: [0.0; 2],
        };
        let lowest = scenario.allowed_w(scenario.length() - 1);
        let limits = match case.fault {
            Fault::LimitTurns => TURNS_W,
            _ => [lowest; 2],
        };
        let peak = scenario.highest_mean();
        scenario.oracle = limits.map(|limit| scenario.fastest(|mode| mode.watts <= limit / peak));
        let margin = 1.0 + GAIN + RIPPLES * ripple / (SPAN as f64 / 10.0).sqrt();
        scenario.cautious = limits.map(|limit| {
            let most = limit / peak / margin;
            let guess = most / (1.0 + GUESSES * OWN_ERROR);
            scenario.fastest(|mode| mode.watts <= most && mode.guess <= guess)
        });
        scenario
    }

    pub fn length(&self) -> usize {
        self.script.levels.len()
    }

    /// The power of a mode at a level in W, without ripple.
    pub fn watts(&self, mode: usize, level: f64) -> f64 {
        self.truths[mode].watts * part_at(self.idle, level)
    }

    /// Index of the mode that only others set.
    pub fn maxn(&self) -> usize {
        self.truths.len() - 1
    }

    /// The limit that the holder is told, in W.
    pub fn told_w(&self, now: usize) -> f64 {
        match self.case.fault {
            Fault::LimitTurns => TURNS_W[now / TURN % 2],
            _ => self.limit_w,
        }
    }

    /// The limit in W of the mean that ends now.
    pub fn allowed_w(&self, now: usize) -> f64 {
        match self.case.fault {
            Fault::LimitTurns if now % TURN < SPAN + GRACE => TURNS_W[0],
            Fault::Battery => {
                let (fall, time) = BATTERY_FALLS;
                self.limit_w * (1.0 - fall * (now as f64 / time).min(1.0))
            }
            _ => self.told_w(now),
        }
    }

    /// Time in ms since something began that happens once in `period` ms. Its phase is random.
    pub fn since(&self, now: usize, period: usize) -> usize {
        let phase = between(self.seed, 2, 0.3, 0.95) * period as f64;
        (now + period - phase as usize) % period
    }

    pub fn is_suspended(&self, now: usize) -> bool {
        self.case.fault == Fault::Suspend && now > 40_000 && self.since(now, 150_000) < 60_000
    }

    /// Speeds of the fixed oracle and of the cautious one.
    fn oracles(&self, now: usize) -> [f64; 2] {
        let limit = usize::from(self.told_w(now) < self.limit_w);
        [self.oracle[limit], self.cautious[limit]]
    }

    fn highest_mean(&self) -> f64 {
        let (mut sum, mut most) = (0.0, 0.0_f64);
        for (ms, part) in self.parts.iter().enumerate() {
            sum += f64::from(*part);
            if ms >= SPAN {
                sum -= f64::from(self.parts[ms - SPAN]);
                most = most.max(sum);
            }
        }
        most / SPAN as f64
    }

    /// Speed of the fastest mode that fits, else of the mode of least power.
    fn fastest(&self, fits: impl Fn(&Truth) -> bool) -> f64 {
        let modes = &self.truths[..self.maxn()];
        let fitting = modes.iter().filter(|mode| fits(mode));
        let fastest = fitting.map(|mode| mode.speed).max_by(f64::total_cmp);
        fastest.unwrap_or(modes[0].speed)
    }
}

/// Power at a level, as part of the power at full work of which `idle` is static.
fn part_at(idle: f64, level: f64) -> f64 {
    idle + (1.0 - idle) * level
}

fn truths(seed: u64) -> Vec<Truth> {
    let (front, cores) = &*FRONT;
    let common = (COMMON_ERROR * normal(seed, 3)).exp();
    let own = |id: ModeId| (OWN_ERROR * normal(seed, 1_000 + u64::from(id.0))).exp();
    let points = front.points().iter().zip(front.times()).zip(cores);
    let truth = |((point, time), cores): ((&Point, &Microseconds), &u32)| Truth {
        id: point.mode,
        cores: *cores,
        watts: f64::from(point.power.0) / 1e3 * common * own(point.mode),
        guess: f64::from(point.power.0) / 1e3 * common,
        speed: 1e3 / f64::from(time.0),
    };
    let mut truths: Vec<Truth> = points.map(truth).collect();
    let fastest = truths.last().map_or(1.0, |last| last.speed);
    truths.push(Truth {
        id: ModeId(u16::MAX - 1),
        cores: 12,
        watts: 55.0 * common,
        guess: 55.0 * common,
        speed: 1.05 * fastest,
    });
    truths
}

/// The board in a scenario.
pub struct Board<'a> {
    pub scenario: &'a Scenario,
    /// Time in ms.
    pub now: usize,
    /// The mode in which the board works.
    pub mode: usize,
    /// The modes that are being set, and when the board works in them.
    coming: VecDeque<(usize, usize)>,
    /// The mode that the files show.
    shown: usize,
    /// Energy up to each ms, in W ms.
    energy: Vec<f64>,
    pub account: Account,
}

impl<'a> Board<'a> {
    pub fn new(scenario: &'a Scenario) -> Self {
        Self {
            scenario,
            now: 0,
            mode: 0,
            coming: VecDeque::new(),
            shown: 0,
            energy: vec![0.0],
            account: Account::default(),
        }
    }

    pub fn is_over(&self) -> bool {
        self.now >= self.scenario.length()
    }

    pub fn tick(&mut self) {
        let (scenario, ms) = (self.scenario, self.now);
        self.now += 1;
        while self.coming.front().is_some_and(|(at, _)| *at <= ms)
            && let Some((_, mode)) = self.coming.pop_front()
        {
            (self.mode, self.shown) = (mode, mode);
        }
        if scenario.case.fault == Fault::OtherProgram
            && self.coming.is_empty()
            && scenario.since(ms, 30_000) == 0
        {
            (self.mode, self.shown) = (scenario.maxn(), scenario.maxn());
        }
        let is_asleep = scenario.is_suspended(ms);
        let watts = match is_asleep {
            true => ASLEEP_W,
            false => scenario.truths[self.mode].watts * f64::from(scenario.parts[ms]),
        };
        self.energy.push(self.energy[ms] + watts);
        if is_asleep {
            return;
        }
        let mean = (self.now > SPAN).then(|| self.energy_of(SPAN) / SPAN as f64);
        self.account.take(mean, scenario.allowed_w(ms), ms);
        if scenario.script.levels[ms] > 0.0 {
            self.account.work[0] += scenario.truths[self.mode].speed;
            let [fixed, cautious] = scenario.oracles(ms);
            self.account.work[1] += fixed;
            self.account.work[2] += cautious;
        }
    }

    /// Energy of the last ms, in W ms.
    pub fn energy_of(&self, ms: usize) -> f64 {
        self.energy[self.now] - self.energy[self.now.saturating_sub(ms)]
    }

    /// Sets a mode. Returns after how many ms the files are written.
    pub fn set(&mut self, mode: usize) -> usize {
        let Scenario { truths, seed, .. } = self.scenario;
        let random =
            |index: u64, from, to| between(*seed, index << 32 | self.now as u64, from, to) as usize;
        // The other program changes the clocks alone.
        let plugged = match self.shown == self.scenario.maxn() {
            true => 0,
            false => truths[self.shown].cores.abs_diff(truths[mode].cores) as usize,
        };
        let writes = (random(7, 5.0, 9.0) + plugged * 6).min(40);
        let follows = match self.scenario.case.fault {
            Fault::LateClocks(from, to) | Fault::HiddenLateClocks(from, to) => random(8, from, to),
            _ => 0,
        };
        // Clocks follow in the order of the commands.
        let last = self.coming.back().map_or(0, |(at, _)| *at);
        let at = last.max(self.now + writes.max(follows));
        self.coming.push_back((at, mode));
        self.account.changes += 1;
        writes
    }

    /// Whether the board works in the mode that was set last.
    pub fn is_set(&self) -> bool {
        self.coming.is_empty()
    }

    /// The mode that the files show.
    pub fn read_back(&self) -> usize {
        match (self.scenario.case.fault, self.coming.back()) {
            (Fault::HiddenLateClocks(..), Some((_, mode))) => *mode,
            _ => self.shown,
        }
    }
}

/// True powers of a run, compared with the limit.
#[derive(Clone, Default)]
pub struct Account {
    ms: usize,
    over: usize,
    stretch: usize,
    /// Highest excess of a mean, as part of the limit.
    pub excess: f64,
    /// Longest time over the limit in ms.
    pub longest: usize,
    /// Work of the board, of the fixed oracle and of the cautious one.
    work: [f64; 3],
    pub changes: usize,
    /// Whether the limit was exceeded in each second.
    pub over_in: Vec<bool>,
}

impl Account {
    fn take(&mut self, mean: Option<f64>, limit: f64, ms: usize) {
        self.ms += 1;
        self.over_in.resize(ms / 1_000 + 1, false);
        let excess = mean.map_or(-1.0, |mean| mean / limit - 1.0);
        if excess <= 0.0 {
            self.stretch = 0;
            return;
        }
        self.over_in[ms / 1_000] = true;
        self.over += 1;
        self.stretch += 1;
        self.excess = self.excess.max(excess);
        self.longest = self.longest.max(self.stretch);
    }

    /// Part of the time over the limit.
    pub fn part_over(&self) -> f64 {
        self.over as f64 / self.ms as f64
    }

    /// Speed as part of the fixed oracle's.
    pub fn speed(&self) -> f64 {
        self.work[0] / self.work[1]
    }

    /// Speed as part of what the margins leave.
    pub fn speed_of_left(&self) -> f64 {
        self.work[0] / self.work[2]
    }

    pub fn changes_a_minute(&self) -> f64 {
        self.changes as f64 * 60e3 / self.ms as f64
    }

    /// Whether the limit was exceeded for too much of the time, by too much, and for too long.
    pub fn breaks(&self) -> [bool; 3] {
        [
            self.part_over() > 0.001,
            self.excess > 0.05,
            self.longest > 300,
        ]
    }
}
