//! Built-in loads, each generated from a random seed.

use std::time::Duration;

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Exp1, StandardNormal};

use super::steps::{Load, Step};

/// Pattern of a load. Times in s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Activity 1 all the time.
    Constant,
    /// Training: a start-up, then epochs with rare loader stalls; a validation and a checkpoint follow each epoch.
    Training,
    /// Inference server: requests arrive as a Poisson process and are served one after another.
    Requests {
        /// Fraction of the time during which requests are served.
        utilisation: f64,
    },
    /// An LLM is loaded and answers prompts: prefill, decode, and a pause.
    Llm,
    /// Square wave: activity 1, then lower by the amplitude for the rest of each period.
    Square {
        period: f64,
        amplitude: f64,
        /// Fraction of the period with activity 1.
        duty: f64,
    },
    /// Alternating work and idle times of random lengths.
    OnOff,
    /// Full activity for a fifth of the time, idle for three fifths, full activity for the last
    /// fifth.
    IdleAndBack,
    /// Slow ramps up and down, with a hold time at each end.
    Ramps,
    /// Small random steps up and down.
    RandomWalk,
    /// A step: activity 1 for about 100 s, then another activity until the end, with a fully loaded
    /// GPU throughout.
    Jump {
        /// Activity after the step.
        to: f64,
    },
    /// An adversary's load: phases that repeat.
    Cycle(&'static Cycle),
}

/// Phases that repeat, each with a random length. An adversary chose loads of these kinds: under them, an earlier
/// governor exceeded its limit or ran at less than half of the possible speed.
#[derive(Debug, PartialEq)]
pub struct Cycle {
    name: &'static str,
    phases: &'static [Phase],
}

/// A phase of a [`Cycle`].
#[derive(Debug, PartialEq)]
struct Phase {
    activity: f64,
    /// The GPU's load that the driver's file shows.
    gpu_load: f64,
    /// Range of the length in s.
    seconds: [f64; 2],
}

const fn phase(activity: f64, seconds: [f64; 2]) -> Phase {
    let gpu_load = if activity < 1.0 { activity } else { 1.0 };
    Phase {
        activity,
        gpu_load,
        seconds,
    }
}

/// A phase in which the file of the GPU's load shows this value, whatever the board does.
const fn stuck(gpu_load: f64, activity: f64, seconds: [f64; 2]) -> Phase {
    Phase {
        activity,
        gpu_load,
        seconds,
    }
}

/// Prompts with short prefills.
const CHAT: Cycle = Cycle {
    name: "chat",
    phases: &[
        phase(1.6, [0.15, 0.4]),
        phase(1.0, [2.0, 12.0]),
        phase(0.0, [0.5, 10.0]),
    ],
};

/// Prompts with prefills of up to 3 s.
const LLM_SERVER: Cycle = Cycle {
    name: "llm-server",
    phases: &[
        phase(1.6, [0.3, 3.0]),
        phase(1.0, [3.0, 20.0]),
        phase(0.0, [0.0, 8.0]),
    ],
};

/// Epochs, each followed by an evaluation that draws more than the training.
const EPOCHS: Cycle = Cycle {
    name: "epochs",
    phases: &[phase(1.0, [85.0, 95.0]), phase(1.25, [10.0, 10.0])],
};

/// A heavy frame each 10 s.
const FRAMES: Cycle = Cycle {
    name: "frames",
    phases: &[phase(1.0, [9.7, 10.1]), phase(2.0, [0.12, 0.12])],
};

/// Long light work, and then full work, with a GPU that seems busy throughout.
const LIGHT_THEN_FULL: Cycle = Cycle {
    name: "light-then-full",
    phases: &[
        stuck(1.0, 0.6, [90.0, 110.0]),
        stuck(1.0, 1.0, [18.0, 22.0]),
    ],
};

/// The same after work so light that the board nearly idles.
const LOW_THEN_FULL: Cycle = Cycle {
    name: "low-then-full",
    phases: &[
        stuck(1.0, 0.15, [90.0, 110.0]),
        stuck(1.0, 1.0, [28.0, 32.0]),
    ],
};

/// Long pauses that the file of the GPU's load does not show.
const HIDDEN_PAUSES: Cycle = Cycle {
    name: "hidden-pauses",
    phases: &[
        stuck(1.0, 1.0, [30.0, 60.0]),
        stuck(1.0, 0.0, [100.0, 100.0]),
    ],
};

/// The prompts of [`LLM_SERVER`], with a GPU that seems idle throughout.
const HIDDEN_PROMPTS: Cycle = Cycle {
    name: "hidden-prompts",
    phases: &[
        stuck(0.0, 1.6, [0.3, 3.0]),
        stuck(0.0, 1.0, [3.0, 20.0]),
        stuck(0.0, 0.0, [0.0, 8.0]),
    ],
};

/// The loads of the result tables.
pub const KINDS: [Kind; 26] = [
    Kind::Constant,
    Kind::Training,
    Kind::Requests { utilisation: 0.3 },
    Kind::Requests { utilisation: 0.8 },
    Kind::Llm,
    square(0.2, 0.6),
    square(1.0, 0.6),
    square(3.0, 0.6),
    square(3.0, 1.0),
    square(20.0, 0.6),
    Kind::OnOff,
    Kind::IdleAndBack,
    Kind::Ramps,
    Kind::RandomWalk,
    Kind::Jump { to: 1.1 },
    Kind::Jump { to: 1.3 },
    Kind::Jump { to: 1.6 },
    Kind::Jump { to: 0.5 },
    Kind::Cycle(&CHAT),
    Kind::Cycle(&LLM_SERVER),
    Kind::Cycle(&EPOCHS),
    Kind::Cycle(&FRAMES),
    Kind::Cycle(&LIGHT_THEN_FULL),
    Kind::Cycle(&LOW_THEN_FULL),
    Kind::Cycle(&HIDDEN_PAUSES),
    Kind::Cycle(&HIDDEN_PROMPTS),
];

const fn square(period: f64, amplitude: f64) -> Kind {
    Kind::Square {
        period,
        amplitude,
        duty: 0.5,
    }
}

/// Length of an epoch in s, for a training job whose minibatches take some 100 ms. Assumed.
const EPOCH_S: f64 = 40.0;
/// Mean time between two loader stalls in s. Recorded trainings have none in 38 s
/// (`orin-nx__start-up-and-training__e2fl.csv`), so one each 13 s or more often can be excluded with 95 % confidence.
const STALL_EVERY_S: f64 = 100.0;
/// Range of the length of a loader stall in s. Assumed.
const STALL_S: [f64; 2] = [0.1, 0.6];
/// Activity during a loader stall. Assumed.
const STALLED: f64 = 0.25;
/// Activity during a validation, which has no backward pass. Assumed; recorded evaluations on an Orin NX have 0.9.
const VALIDATION: f64 = 0.75;
/// Range of the length of a validation in s. Assumed.
const VALIDATION_S: [f64; 2] = [5.0, 8.0];
/// Range of the activity while a checkpoint is written. Assumed.
const CHECKPOINT: [f64; 2] = [0.1, 0.2];
/// Range of the time to write a checkpoint in s. Assumed.
const CHECKPOINT_S: [f64; 2] = [1.0, 2.0];

/// Start-up of a training: a wait, a burst in which libraries are loaded, and another wait. Of each the activity and the range of
/// its length in s. Those of `orin-nx__start-up-and-training__e2fl.csv`: all runs wait for 0.8 s or a little more; the eleven of
/// May then draw 0.9 of what training draws for 0.3 to 0.8 s; and the four of March train or evaluate after 6.5 to 7.5 s.
const START_UP: [(f64, [f64; 2]); 3] = [
    (WAITING, [0.8, 0.9]),
    (0.9, [0.3, 0.8]),
    (WAITING, [5.4, 5.8]),
];
/// Activity while a training waits for its start, in the same runs. Below [`WORKING`](super::WORKING).
const WAITING: f64 = 0.04;

/// Mean service time of a request in s. Assumed.
const SERVICE_S: f64 = 0.25;

/// Activity of an LLM's phases relative to decode, and their lengths in s.
///
/// Derived from the MAXN runs in `agx-orin-64__llm-phases__jetson-llm-maxperf.csv`:
/// - P = y + 0.43 s · dy/dt, with differences over 200 ms, inverts the low-pass of the sensor.
/// - The first and the last 0.5 s of each phase are discarded, because the markers are accurate to
///   ± 0.2 s.
/// - The activity of a phase is its mean power above that of `idle_pre`, divided by the mean power
///   of `decode` above that of `idle_pre`.
/// - Each constant is the median over the runs.
/// - A run whose prefill takes less than 2 s has a short prompt. Its prefill of 0.1 s is shorter
///   than the sensor's lag, so it gets the activity of a long prompt's prefill.
/// - While the model loads, the second burst is the highest power, and the first burst the highest more than 0.3 s before. Their
///   lengths are the times above half of their height over the phase's median.
/// - Of a long prefill without its first second, the climb is from the mean of the first twentieth to that of the seventeenth; the
///   power has fallen in the last three.
///
/// `tests/it/traces.rs` recomputes all constants.
pub const LLM: Llm = Llm {
    loading: 0.08,
    prefill: 1.31,
    loading_s: 5.0,
    bursts: [(0.23, 0.5), (0.37, 0.2)],
    after_bursts_s: [0.3, 1.3],
    climb: [0.935, 1.055],
    fall: (0.98, 0.15),
    short: [0.1, 9.5],
    long: [22.0, 15.1],
};

/// Activities and durations of an LLM's phases. Times in s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Llm {
    /// Mean activity while the model loads.
    pub loading: f64,
    /// Mean activity during prefill.
    pub prefill: f64,
    /// Time to load the model.
    pub loading_s: f64,
    /// Activity and duration of two bursts near the end of that time.
    pub bursts: [(f64, f64); 2],
    /// Time after each burst.
    pub after_bursts_s: [f64; 2],
    /// Activity at the start and at the end of a prefill's climb, relative to its mean.
    pub climb: [f64; 2],
    /// Activity after the climb relative to the mean, and its share of the prefill.
    pub fall: (f64, f64),
    /// Durations of prefill and decode with a short prompt.
    pub short: [f64; 2],
    /// Durations of prefill and decode with a long prompt.
    pub long: [f64; 2],
}

/// Steps of the climb of a prefill.
const CLIMB_STEPS: u32 = 16;

/// Relative variation of the phases' lengths between prompts, ±. Assumed.
const LLM_SPREAD: f64 = 0.3;
/// Range of the pause between two prompts of a session in s. Assumed.
const PROMPT_PAUSE_S: [f64; 2] = [0.5, 5.0];
/// Range of the pause between two sessions in s. Assumed.
const SESSION_PAUSE_S: [f64; 2] = [10.0, 40.0];

/// Range of the work and idle times in s; log-uniform distribution. Assumed.
const ON_OFF_S: [f64; 2] = [0.1, 20.0];

/// Minimum time before the step of [`Kind::Jump`] in s; the actual time is up to 1 s longer.
const JUMP_S: f64 = 100.0;

/// Lowest activity of a ramp. Assumed.
const RAMP_LOW: f64 = 0.2;
/// Range of the duration of a ramp in s. Assumed.
const RAMP_S: [f64; 2] = [5.0, 30.0];
/// Range of the hold time at each end of a ramp in s. Assumed.
const RAMP_REST_S: [f64; 2] = [2.0, 10.0];
/// Time between two steps of a ramp in s.
const RAMP_STEP_S: f64 = 0.1;

/// Time between two steps of the random walk in s. Assumed.
const WALK_STEP_S: f64 = 0.25;
/// Standard deviation of a step of the random walk. Assumed.
const WALK_SPREAD: f64 = 0.05;
/// Bounds at which the random walk is reflected. Assumed.
const WALK: [f64; 2] = [0.2, 1.1];

impl Kind {
    /// The name in tables and on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Constant => "constant".to_owned(),
            Self::Training => "training".to_owned(),
            Self::Requests { utilisation } => format!("requests-{:.0}%", 100.0 * utilisation),
            Self::Llm => "llm".to_owned(),
            Self::Square {
                period, amplitude, ..
            } => format!("square-{period}s-{:.0}%", 100.0 * amplitude),
            Self::OnOff => "on-off".to_owned(),
            Self::IdleAndBack => "idle-and-back".to_owned(),
            Self::Ramps => "ramps".to_owned(),
            Self::RandomWalk => "random-walk".to_owned(),
            Self::Jump { to } => format!("jump-to-{:.0}%", 100.0 * to),
            Self::Cycle(cycle) => cycle.name.to_owned(),
        }
    }

    /// The kind of [`KINDS`] with this name.
    pub fn named(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name() == name)
    }

    /// Generates the load. Equal seeds give equal loads.
    pub fn load(self, length: Duration, seed: u64) -> Load {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut drawing = Drawing::new(length);
        self.draw(&mut drawing, &mut random);
        drawing.load()
    }

    /// Appends one cycle after another until the load has its full length.
    fn draw(self, drawing: &mut Drawing, random: &mut ChaCha8Rng) {
        let length = drawing.length.as_secs_f64();
        let mut level = uniform(random, WALK);
        if self == Self::Training {
            for (activity, seconds) in START_UP {
                drawing.hold(activity, uniform(random, seconds));
            }
        }
        while !drawing.is_full() {
            match self {
                Self::Constant => drawing.hold(1.0, length),
                Self::IdleAndBack => {
                    for (activity, fifths) in [(1.0, 1.0), (0.0, 3.0), (1.0, 1.0)] {
                        drawing.hold(activity, fifths / 5.0 * length);
                    }
                }
                Self::Training => training(drawing, random),
                Self::Requests { utilisation } => {
                    // An M/M/1 queue is idle for the mean time between arrivals.
                    let gap = exponential(random) * SERVICE_S / utilisation;
                    drawing.hold(0.0, gap);
                    drawing.hold(1.0, busy_period(random, utilisation));
                }
                Self::Llm => llm(drawing, random),
                Self::Square {
                    period,
                    amplitude,
                    duty,
                } => {
                    drawing.hold(1.0, period * duty);
                    drawing.hold(1.0 - amplitude, period * (1.0 - duty));
                }
                Self::OnOff => {
                    let logs = ON_OFF_S.map(f64::ln);
                    drawing.hold(1.0, uniform(random, logs).exp());
                    drawing.hold(0.0, uniform(random, logs).exp());
                }
                Self::Jump { to } => {
                    drawing.hold(1.0, JUMP_S + uniform(random, [0.0, 1.0]));
                    drawing.shown(to, 1.0, length);
                }
                Self::Cycle(cycle) => {
                    for phase in cycle.phases {
                        let seconds = uniform(random, phase.seconds);
                        drawing.shown(phase.activity, phase.gpu_load, seconds);
                    }
                }
                Self::Ramps => {
                    for [from, to] in [[RAMP_LOW, 1.0], [1.0, RAMP_LOW]] {
                        let steps = (uniform(random, RAMP_S) / RAMP_STEP_S).round();
                        for step in 0..steps as u32 {
                            let part = f64::from(step) / steps;
                            drawing.hold(from + part * (to - from), RAMP_STEP_S);
                        }
                        drawing.hold(to, uniform(random, RAMP_REST_S));
                    }
                }
                Self::RandomWalk => {
                    drawing.hold(level, WALK_STEP_S);
                    let step: f64 = StandardNormal.sample(random);
                    let next = level + WALK_SPREAD * step;
                    // Reflect at both bounds, and clamp a step that would cross the other bound.
                    let [low, high] = WALK;
                    level = match next {
                        next if next < low => (2.0 * low - next).min(high),
                        next if next > high => (2.0 * high - next).max(low),
                        next => next,
                    };
                }
            }
        }
    }
}

fn training(drawing: &mut Drawing, random: &mut ChaCha8Rng) {
    let mut left = EPOCH_S;
    while left > 0.0 {
        let until_stall = (exponential(random) * STALL_EVERY_S).min(left);
        drawing.hold(1.0, until_stall);
        left -= until_stall;
        if left > 0.0 {
            let stall = uniform(random, STALL_S);
            drawing.hold(STALLED, stall);
            left -= stall;
        }
    }
    drawing.hold(VALIDATION, uniform(random, VALIDATION_S));
    drawing.hold(uniform(random, CHECKPOINT), uniform(random, CHECKPOINT_S));
}

fn llm(drawing: &mut Drawing, random: &mut ChaCha8Rng) {
    loading(drawing);
    for _ in 0..random.random_range(2..=5) {
        let is_long = random.random_bool(0.5);
        let times = if is_long { LLM.long } else { LLM.short };
        let spread = [1.0 - LLM_SPREAD, 1.0 + LLM_SPREAD];
        let [prefill, decode] = times.map(|time| time * uniform(random, spread));
        prefill_of(drawing, prefill);
        drawing.hold(1.0, decode);
        drawing.hold(0.0, uniform(random, PROMPT_PAUSE_S));
    }
    drawing.hold(0.0, uniform(random, SESSION_PAUSE_S));
}

/// A model is loaded: two bursts, and between them so much that the mean is right.
fn loading(drawing: &mut Drawing) {
    let bursts = || LLM.bursts.into_iter();
    let work: f64 = bursts().map(|(activity, seconds)| activity * seconds).sum();
    let burst_s: f64 = bursts().map(|(_, seconds)| seconds).sum();
    let rest_s = LLM.loading_s - burst_s;
    let rest = (LLM.loading * LLM.loading_s - work) / rest_s;
    drawing.hold(rest, rest_s - LLM.after_bursts_s.into_iter().sum::<f64>());
    for ((activity, seconds), after_s) in bursts().zip(LLM.after_bursts_s) {
        drawing.hold(activity, seconds);
        drawing.hold(rest, after_s);
    }
}

/// A prefill, whose attention takes more and more of the time: the power climbs, and falls in the last batch.
fn prefill_of(drawing: &mut Drawing, seconds: f64) {
    let ([from, to], (fallen, part)) = (LLM.climb, LLM.fall);
    let step_s = seconds * (1.0 - part) / f64::from(CLIMB_STEPS);
    for step in 0..CLIMB_STEPS {
        let way = f64::from(step) / f64::from(CLIMB_STEPS - 1);
        drawing.hold(LLM.prefill * (from + way * (to - from)), step_s);
    }
    drawing.hold(LLM.prefill * fallen, part * seconds);
}

/// Draws a busy period of an M/M/1 queue in s: from an arrival at the idle server until the queue
/// is empty.
fn busy_period(random: &mut impl Rng, utilisation: f64) -> f64 {
    let mut left = exponential(random) * SERVICE_S;
    let mut busy = 0.0;
    loop {
        let arrival = exponential(random) * SERVICE_S / utilisation;
        if arrival >= left {
            return busy + left;
        }
        busy += arrival;
        left += exponential(random) * SERVICE_S - arrival;
    }
}

fn uniform(random: &mut impl Rng, [least, most]: [f64; 2]) -> f64 {
    random.random_range(least..=most)
}

fn exponential(random: &mut impl Rng) -> f64 {
    Exp1.sample(random)
}

/// A load under construction, with times in whole ms.
struct Drawing {
    steps: Vec<Step>,
    length: Duration,
    /// Start of the next step in s.
    at: f64,
}

impl Drawing {
    fn new(length: Duration) -> Self {
        Self {
            steps: Vec::new(),
            length,
            at: 0.0,
        }
    }

    fn is_full(&self) -> bool {
        self.at >= self.length.as_secs_f64()
    }

    /// Appends an activity for some seconds. A step that starts and ends in the same ms is dropped.
    fn hold(&mut self, activity: f64, seconds: f64) {
        self.shown(activity, activity.min(1.0), seconds);
    }

    /// Like [`Self::hold`], with a GPU load that need not be the activity.
    fn shown(&mut self, activity: f64, gpu_load: f64, seconds: f64) {
        let from = Duration::from_millis((1e3 * self.at).round() as u64);
        self.at += seconds;
        if from >= self.length {
            return;
        }
        let step = Step {
            from,
            activity,
            gpu_load,
        };
        match self.steps.last_mut() {
            Some(last) if last.from == from => *last = step,
            Some(last) if last.activity == activity && last.gpu_load == gpu_load => {}
            _ => self.steps.push(step),
        }
    }

    fn load(self) -> Load {
        Load::new(self.steps, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// Mean activity and mean duty over eight seeds.
    fn means(kind: Kind) -> (f64, f64) {
        let loads: Vec<Load> = (0..8).map(|seed| kind.load(HOUR, seed)).collect();
        let mean = |figure: fn(&Load) -> f64| loads.iter().map(figure).sum::<f64>() / 8.0;
        (mean(Load::mean), mean(Load::duty))
    }

    #[test]
    fn each_kind_has_its_mean_and_duty() {
        let cases = [
            (Kind::Constant, 1.0, 1.0, 1e-9),
            // 40 s at 1 with 0.4 stalls of 0.35 s, 6.5 s at 0.75, 1.5 s at 0.15.
            (Kind::Training, 0.937, 0.998, 0.01),
            (Kind::Requests { utilisation: 0.3 }, 0.3, 0.3, 0.02),
            (Kind::Requests { utilisation: 0.8 }, 0.8, 0.8, 0.04),
            (square(3.0, 0.6), 0.7, 1.0, 1e-9),
            (square(3.0, 1.0), 0.5, 0.5, 1e-9),
            (square(0.2, 0.6), 0.7, 1.0, 1e-9),
            (Kind::OnOff, 0.5, 0.5, 0.03),
            (Kind::IdleAndBack, 0.4, 0.4, 1e-9),
            (Kind::Ramps, 0.6, 1.0, 0.02),
            (Kind::RandomWalk, 0.65, 1.0, 0.06),
            // 0.275 s at 1.6, 7 s at 1 and 5.25 s of pause.
            (Kind::Cycle(&CHAT), 0.594, 0.581, 0.02),
            (Kind::Cycle(&FRAMES), 1.012, 1.0, 0.001),
        ];
        for (kind, mean, duty, within) in cases {
            let found = means(kind);
            let name = kind.name();
            assert!((found.0 - mean).abs() <= within, "{name}: mean {found:?}");
            assert!((found.1 - duty).abs() <= within, "{name}: duty {found:?}");
        }
        // A mean session: 5 s at 0.08, most of it without progress; 3.5 prompts with 11.05 s of prefill, 12.3 s of decode and
        // 2.75 s of pause; 25 s of pause.
        let (mean, duty) = means(Kind::Llm);
        assert!(
            (mean - 0.78).abs() < 0.04 && (duty - 0.71).abs() < 0.04,
            "{mean} {duty}"
        );
    }

    #[test]
    fn a_duty_other_than_a_half_holds() {
        let kind = Kind::Square {
            period: 2.0,
            amplitude: 0.5,
            duty: 0.25,
        };
        assert!((kind.load(HOUR, 0).mean() - 0.625).abs() < 1e-9);
    }

    #[test]
    fn equal_seeds_give_equal_loads_and_others_others() {
        for kind in KINDS {
            let load = |seed| kind.load(Duration::from_secs(120), seed);
            assert_eq!(load(5), load(5), "{}", kind.name());
            let is_drawn = !matches!(
                kind,
                Kind::Constant | Kind::IdleAndBack | Kind::Square { .. }
            );
            assert_eq!(load(5) != load(6), is_drawn, "{}", kind.name());
        }
    }

    #[test]
    fn names_are_found_again() {
        for kind in KINDS {
            assert_eq!(Kind::named(&kind.name()), Some(kind));
        }
        assert_eq!(Kind::named("square"), None);
    }

    #[test]
    fn loads_have_the_length_that_was_asked_for() {
        for kind in KINDS {
            for ms in [2_000, 7_001, 300_000] {
                let length = Duration::from_millis(ms);
                assert_eq!(kind.load(length, 1).length(), length, "{}", kind.name());
            }
        }
    }
}
