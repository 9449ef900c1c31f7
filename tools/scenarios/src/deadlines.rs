//! Random deadlines: the daemon with an aim, beside the best mode of the board's truth.
//!
//! A case has a board, a unit, a limit, an objective, and a deadline of a step or of all steps. It is feasible: some mode meets
//! the deadline, with a few per cent to spare, within 95 % of the limit. The daemon learns the steps that the simulated board
//! does. What it costs is the true power of the modes that it was in, or that power times the time of a step; the best mode is
//! found by a search of the truth of all modes.

use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wattgate_board_tables::Board;
use wattgate_cli::aim::{By, Wanted};
use wattgate_runtime::{Microseconds, Milliseconds, Milliwatts, Objective};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::clock::{Clock, UtcSeconds};
use wattgate_watchdog::config::{self, Config};
use wattgate_watchdog::daemon::Daemon;
use wattgate_watchdog::limits::Lowerings;
use wattgate_watchdog::setup::Setup;

use crate::course::LIMIT_WINDOW;
use crate::fleet::{boot, unbeaten};
use crate::judge::{JudgeError, Subject, TrueMode};
use crate::models::{BOARDS, WORKLOAD, path};
use crate::parallel::on_all_cores;
use crate::recorded::{Note, RecordedTree};
use crate::replay::ReplayError;
use crate::replay::warmth::Fan;

/// How long a deadline of a step is pursued before it is judged, and judged.
const SETTLING: Duration = Duration::from_secs(120);
const JUDGED: Duration = Duration::from_secs(300);

/// The time of all steps, in minutes.
const WORK_MIN: [u64; 3] = [5, 10, 20];

/// A date.
const NOW: UtcSeconds = UtcSeconds(1_800_000_000);

/// A case, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    pub board: String,
    /// Whether the model was made of the unit.
    pub is_profiled: bool,
    pub limit_w: f64,
    pub objective: &'static str,
    /// `step` or `work`.
    pub deadline: &'static str,
    /// The longest time of a step, over that of the fastest one within the limit.
    pub slack: f64,
    /// The time that a step took, or the work, over what it may take.
    pub used: f64,
    /// Power, or energy of a step, over the least with which the deadline is met.
    pub cost: f64,
    /// Time in s in which the mean power of 430 ms was above the limit, and the longest at a stretch.
    pub over_s: f64,
    pub longest_over_s: f64,
    pub changes: u32,
}

impl Case {
    /// Whether the deadline was met. A step counts as a whole, of some hundreds that are judged.
    pub fn is_met(&self) -> bool {
        self.used <= 1.0
    }
}

/// Runs random cases with the models of a folder.
pub fn cases(weights: &Path, count: u64, first_seed: u64) -> Result<Vec<Case>, JudgeError> {
    let seeds: Vec<u64> = (0..count).map(|n| first_seed.wrapping_add(n)).collect();
    on_all_cores(&seeds, |seed| case(weights, *seed))
}

/// Random numbers (SplitMix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[(self.next() % all.len() as u64) as usize]
    }

    fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The time of the board and the date.
struct BoardClock(Duration);

impl Clock for BoardClock {
    fn now(&self) -> Milliseconds {
        Milliseconds(self.0.as_millis() as u64)
    }

    fn utc(&self) -> UtcSeconds {
        NOW
    }
}

fn other(why: impl std::error::Error + Send + Sync + 'static) -> JudgeError {
    ReplayError::Holder(io::Error::other(why)).into()
}

fn case(weights: &Path, seed: u64) -> Result<Case, JudgeError> {
    let mut random = Random(seed);
    let name = random.one_of(&BOARDS);
    let board = Board::named(name).map_err(other)?;
    let workload = Workload::named(WORKLOAD).map_err(other)?;
    let is_profiled = random.one_of(&[true, false]);
    let unit = match is_profiled {
        true => Unit::NOMINAL,
        false => Unit::drawn(seed),
    };
    let subject = Subject::new(&board, &workload, unit, boot(&board), Fan::Full)?;
    let modes = unbeaten(&subject)?;
    let [least, most] = [modes.last(), modes.first()].map(|it| it.map_or(0.0, |it| it.watts));
    let limit_w = least + random.between(0.3, 0.9) * (most - least);
    let fastest = modes.iter().find(|mode| mode.watts <= 0.95 * limit_w);
    let fastest_s = fastest.map_or(0.0, |mode| 1.0 / mode.truth.rate);
    let slack = random.between(1.05, 2.5);
    let step_s = slack * fastest_s;
    let objective = random.one_of(&[Objective::Power, Objective::Energy]);
    let work_s = 60.0 * random.one_of(&WORK_MIN) as f64;
    let is_work = random.one_of(&[true, false]);
    let by = match is_work {
        true => By::Work {
            steps: (work_s / step_s) as u64,
            within: Milliseconds((1e3 * work_s) as u64),
        },
        false => By::Step(Microseconds((1e6 * step_s) as u32)),
    };
    let wanted = Wanted {
        objective,
        by: Some(by),
    };
    let mut running = Running::start(&subject, &path(name, weights), limit_w, wanted)?;
    let used = match by {
        By::Work { steps, within } => {
            running.run(|_, done| done >= steps as f64, 3.0 * work_s);
            running.passed_s / (within.0 as f64 / 1e3)
        }
        By::Step(_) => {
            running.run(|passed, _| passed >= SETTLING.as_secs_f64(), work_s);
            running.restart();
            running.run(|passed, _| passed >= JUDGED.as_secs_f64(), work_s);
            running.passed_s / running.steps / step_s
        }
    };
    let cost = |watts: f64, rate: f64| match objective {
        Objective::Power => watts,
        _ => watts / rate,
    };
    let in_time = modes.iter().filter(|mode| mode.watts <= limit_w);
    let in_time = in_time.filter(|mode| mode.truth.rate * step_s >= 1.0);
    let best = in_time.map(|mode: &TrueMode| cost(mode.watts, mode.truth.rate));
    let best = best.fold(f64::INFINITY, f64::min);
    let (watts, rate) = running.mean();
    let [over_s, longest_over_s] = running.over(limit_w);
    Ok(Case {
        board: name.to_owned(),
        is_profiled,
        limit_w,
        objective: objective.name(),
        deadline: if is_work { "work" } else { "step" },
        slack,
        used,
        cost: cost(watts, rate) / best,
        over_s,
        longest_over_s,
        changes: running.daemon.status().0.changes,
    })
}

/// The daemon on a board that has booted.
struct Running<'a> {
    subject: &'a Subject<'a>,
    daemon: Daemon<RecordedTree>,
    /// Steps before the period, in it, and the time in it.
    before: f64,
    steps: f64,
    passed_s: f64,
    /// True energy in J of the modes in the period, at their settled power.
    energy_j: f64,
}

impl<'a> Running<'a> {
    fn start(
        subject: &'a Subject<'a>,
        model: &Path,
        limit_w: f64,
        wanted: Wanted,
    ) -> Result<Self, JudgeError> {
        let tree = Tree::new(subject.board.clone(), subject.unit, 0, boot(subject.board));
        let mut tree = tree.map_err(ReplayError::Boot)?;
        let jetson = tree.jetson_mut();
        jetson.set_workload(Some(subject.workload.clone()));
        let files = RecordedTree::new(tree);
        let text = config::text(model, Milliwatts((1e3 * limit_w) as u32));
        let config = Config::parse(&text, Path::new("case")).map_err(other)?;
        let setup = Setup::new(config, &files, Path::new("/")).map_err(ReplayError::Setup)?;
        let mut daemon = Daemon::new(setup, files, NOW, Lowerings::default());
        daemon.pursue(wanted, &BoardClock(Duration::ZERO));
        Ok(Self {
            subject,
            daemon,
            before: 0.0,
            steps: 0.0,
            passed_s: 0.0,
            energy_j: 0.0,
        })
    }

    /// Begins a new period.
    fn restart(&mut self) {
        self.before += self.steps;
        (self.steps, self.passed_s, self.energy_j) = (0.0, 0.0, 0.0);
    }

    /// Runs until the end, which is told time and steps of the period, or for some seconds.
    fn run(&mut self, is_end: impl Fn(f64, f64) -> bool, longest_s: f64) {
        while !is_end(self.passed_s, self.steps) && self.passed_s < longest_s {
            let start = self.daemon.files().now();
            let next = self.daemon.look(&BoardClock(start), &mut |_| {});
            let next = Duration::from_millis(next.0).max(start + Duration::from_millis(1));
            let (_, mode) = self.daemon.status();
            let truth = self.subject.truth(mode.knobs());
            self.daemon.files().until(next);
            let seconds = (next - start).as_secs_f64();
            self.passed_s += seconds;
            self.energy_j += seconds * self.subject.settled_w(&truth);
            let done = self.daemon.files().tree().jetson().minibatches();
            self.steps = done - self.before;
            self.daemon.take_own_steps(done as u64);
        }
    }

    /// Mean power in W, and steps per second, of the period.
    fn mean(&self) -> (f64, f64) {
        let seconds = self.passed_s.max(f64::MIN_POSITIVE);
        (self.energy_j / seconds, self.steps / seconds)
    }

    /// Time in s in which the true mean power of the window was above the limit, and the longest at a stretch.
    fn over(&mut self, limit_w: f64) -> [f64; 2] {
        let record = self.daemon.files().record();
        let window = LIMIT_WINDOW.as_secs_f64();
        let (mut over, mut stretch, mut longest) = (0.0, 0.0, 0.0_f64);
        let mut tail = 0;
        for (at, [now, energy]) in record.notes.iter().enumerate() {
            while record.notes[tail][0] < now - window {
                tail += 1;
            }
            let [before, spent]: Note = record.notes[tail];
            let Some([last, _]) = at.checked_sub(1).map(|last| record.notes[last]) else {
                continue;
            };
            let is_full = now - before >= 0.9 * window;
            match is_full && (energy - spent) / (now - before) > limit_w {
                true => {
                    over += now - last;
                    stretch += now - last;
                    longest = longest.max(stretch);
                }
                false => stretch = 0.0,
            }
        }
        [over, longest]
    }
}
