//! Random deadlines: the daemon with an aim, beside the best mode of the board's truth.
//!
//! A case has a board, a unit, a limit, an objective, and a deadline of a step or of all steps. It is feasible: some mode meets
//! the deadline, with a few per cent to spare, within 95 % of the limit. The daemon learns the steps that the simulated board
//! does. What it costs is the true power of the modes that it was in, or the energy until the deadline: of the work in these
//! modes and of the idle board afterwards. An idle board waits for the next step in its mode, and rests in the least one once all
//! steps are done. The best mode is found by a search of the truth of all modes.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use wattgate_board_tables::Board;
use wattgate_cli::aim::{By, Wanted, energy_until};
use wattgate_runtime::{
    Aim, Confidence, Front, Microseconds, Milliseconds, Milliwatts, Model, Objective,
};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::aim::choice;
use wattgate_watchdog::clock::{Clock, UtcSeconds};
use wattgate_watchdog::config::{self, Config};
use wattgate_watchdog::daemon::Daemon;
use wattgate_watchdog::limits::Lowerings;
use wattgate_watchdog::setup::Setup;

use crate::course::LIMIT_WINDOW;
use crate::fleet::{boot, unbeaten};
use crate::judge::{JudgeError, Subject, TrueMode};
use crate::models::{BOARDS, ORIN_AGX, WORKLOAD, XAVIER_AGX, path};
use crate::parallel::on_all_cores;
use crate::random::Random;
use crate::recorded::{Note, RecordedTree};
use crate::replay::ReplayError;
use crate::replay::warmth::Fan;

/// How long a deadline of a step is pursued before it is judged, and judged.
const PURSUIT_TIME: Duration = Duration::from_secs(120);
const JUDGED_TIME: Duration = Duration::from_secs(300);

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
    /// Power, or energy until the deadline, over the least with which the deadline is met.
    pub cost: f64,
    /// Energy until the deadline of all steps that the model predicts, over the true one; `None` for another objective.
    pub predicted: Option<f64>,
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

/// Runs random cases of a workload with the models of a folder.
pub fn cases(
    weights: &Path,
    workload: &Workload,
    count: u64,
    first_seed: u64,
) -> Result<Vec<Case>, JudgeError> {
    let seeds: Vec<u64> = (0..count).map(|n| first_seed.wrapping_add(n)).collect();
    on_all_cores(&seeds, |seed| case(weights, workload, *seed))
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

fn case(weights: &Path, workload: &Workload, seed: u64) -> Result<Case, JudgeError> {
    let mut random = Random(seed);
    let name = random.one_of(&BOARDS);
    let board = Board::named(name).map_err(other)?;
    let is_profiled = random.one_of(&[true, false]);
    let unit = match is_profiled {
        true => Unit::NOMINAL,
        false => Unit::drawn(seed),
    };
    let subject = Subject::new(&board, workload, unit, boot(&board), Fan::Full)?;
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
    let model = path(name, weights);
    let mut running = Running::start(&subject, &model, limit_w, wanted)?;
    let least_idle_w = modes.iter().map(|mode| subject.idle_w(mode.knobs));
    let least_idle_w = least_idle_w.fold(f64::INFINITY, f64::min);
    // Of the true modes: power, or energy for each step until the deadline.
    let cost = |mode: &TrueMode| match objective {
        Objective::Power => mode.watts,
        _ => {
            let idle_w = match by {
                By::Step(_) => subject.idle_w(mode.knobs),
                By::Work { .. } => least_idle_w,
            };
            let time = 1.0 / mode.truth.rate;
            mode.watts * time + idle_w * (step_s - time)
        }
    };
    let in_time = modes.iter().filter(|mode| mode.watts <= limit_w);
    let in_time = in_time.filter(|mode| mode.truth.rate * step_s >= 1.0);
    let best = in_time.map(cost).fold(f64::INFINITY, f64::min);
    let (used, spent, mut predicted) = match by {
        By::Work { steps, within } => {
            let within_s = within.0 as f64 / 1e3;
            running.run(|_, done| done >= steps as f64, 3.0 * work_s);
            let (used, watts) = (running.passed_s / within_s, running.mean_w());
            running.rest(within_s);
            let predicted = predicted_j(&model, limit_w, wanted)?;
            match objective {
                Objective::Power => (used, watts, None),
                _ => {
                    let spent = running.energy_j;
                    (used, spent / steps as f64, Some(predicted / spent))
                }
            }
        }
        By::Step(_) => {
            running.run(|passed, _| passed >= PURSUIT_TIME.as_secs_f64(), work_s);
            running.restart();
            running.run(|passed, _| passed >= JUDGED_TIME.as_secs_f64(), work_s);
            let used = running.passed_s / running.steps / step_s;
            match objective {
                Objective::Power => (used, running.mean_w(), None),
                _ => (used, running.until(step_s) / running.steps, None),
            }
        }
    };
    if !is_profiled || workload.name != WORKLOAD {
        predicted = None;
    }
    let [over_s, longest_over_s] = running.over(limit_w);
    Ok(Case {
        board: name.to_owned(),
        is_profiled,
        limit_w,
        objective: objective.name(),
        deadline: if is_work { "work" } else { "step" },
        slack,
        used,
        cost: spent / best,
        predicted,
        over_s,
        longest_over_s,
        changes: running.daemon.status().0.changes,
    })
}

/// The boards of [`courses`], the time for all steps, and the time of a step over that of the fastest one within the limit.
const COURSES: [&str; 2] = [XAVIER_AGX, ORIN_AGX];
const COURSE: Duration = Duration::from_secs(600);
const COURSE_SLACK: f64 = 2.0;

/// One training under an aim, until the deadline of all its steps.
#[derive(Clone, Debug, Serialize)]
pub struct Course {
    pub board: &'static str,
    pub limit_w: f64,
    pub steps: u64,
    /// `fastest, then rest`, or the name of the objective with the deadline.
    pub aim: &'static str,
    /// When all steps were done, in s.
    pub done_s: f64,
    /// True energy until the deadline in J.
    pub energy_j: f64,
    /// Each second: time in s, mean power in W, steps done.
    pub points: Vec<[f64; 3]>,
}

/// Runs the same training on two boards, three times on each: as fast as the limit allows, with the least power, and with the
/// least energy. A board whose training is done rests until the deadline.
pub fn courses(weights: &Path) -> Result<Vec<Course>, JudgeError> {
    let aims = [None, Some(Objective::Power), Some(Objective::Energy)];
    let jobs = COURSES
        .into_iter()
        .flat_map(|name| aims.map(|aim| (name, aim)));
    on_all_cores(&jobs.collect::<Vec<_>>(), |(name, aim)| {
        course(weights, name, *aim)
    })
}

fn course(
    weights: &Path,
    name: &'static str,
    aim: Option<Objective>,
) -> Result<Course, JudgeError> {
    let board = Board::named(name).map_err(other)?;
    let workload = Workload::named(WORKLOAD).map_err(other)?;
    let unit = Unit::NOMINAL;
    let subject = Subject::new(&board, &workload, unit, boot(&board), Fan::Full)?;
    let modes = unbeaten(&subject)?;
    let [least, most] = [modes.last(), modes.first()].map(|it| it.map_or(0.0, |it| it.watts));
    let limit_w = 0.5 * (least + most);
    let fastest = modes.iter().find(|mode| mode.watts <= 0.95 * limit_w);
    let rate = fastest.map_or(0.0, |mode| mode.truth.rate);
    let steps = (COURSE.as_secs_f64() * rate / COURSE_SLACK) as u64;
    let within = Milliseconds(COURSE.as_millis() as u64);
    let wanted = aim.map_or(Wanted::FASTEST, |objective| Wanted {
        objective,
        by: Some(By::Work { steps, within }),
    });
    let mut running = Running::start(&subject, &path(name, weights), limit_w, wanted)?;
    let longest = COURSE.as_secs_f64();
    running.run(|_, done| done >= steps as f64, longest);
    let done_s = running.passed_s;
    if aim.is_none() {
        let rest = Wanted {
            objective: Objective::Power,
            by: None,
        };
        let now = running.daemon.files().now();
        running.daemon.pursue(rest, &BoardClock(now));
    }
    running.rest(longest);
    let energy_j = running.daemon.files().tree().jetson().energy_j();
    let notes: Vec<Note> = running.daemon.files().record().notes.clone();
    let mut points = Vec::new();
    let mut before = [0.0; 2];
    for note in notes {
        let [now, energy] = note;
        if now - before[0] >= 1.0 {
            let watts = (energy - before[1]) / (now - before[0]);
            points.push([now, watts, steps as f64]);
            before = note;
        }
    }
    for (point, done) in points.iter_mut().zip(running.progress(steps)) {
        point[2] = done;
    }
    Ok(Course {
        board: name,
        limit_w,
        steps,
        aim: aim.map_or("fastest, then rest", Objective::name),
        done_s,
        energy_j,
        points,
    })
}

/// The energy in J until the deadline of all steps that a model predicts, as `wattgate-trainer select` does.
fn predicted_j(model: &Path, limit_w: f64, wanted: Wanted) -> Result<f64, JudgeError> {
    let bytes = fs::read(model).map_err(other)?;
    let model = Model::parse(&bytes).map_err(other)?;
    let front = Front::<256>::from_model(&model, &model.profiled(), Confidence::P95);
    let least = front.points().first().map_or(Milliwatts(0), |it| it.power);
    let idle = wanted.idle(model.idle().map_err(other)?, least);
    let aim = Aim {
        idle,
        ..wanted.first()
    };
    let choice = choice(&front, &aim, Milliwatts((1e3 * limit_w) as u32)).map_err(other)?;
    let Some(By::Work { steps, within }) = wanted.by else {
        return Ok(0.0);
    };
    let power = choice.power.unwrap_or_default();
    Ok(energy_until(within, steps, choice.time, power, idle.base))
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
    /// For each stay in a mode: time in s, minibatches a second, and idle power in W.
    stays: Vec<[f64; 3]>,
    /// Whether the workload runs.
    is_busy: bool,
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
        let text = config::text(Some(model), Milliwatts((1e3 * limit_w) as u32));
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
            stays: Vec::new(),
            is_busy: true,
        })
    }

    /// Begins a new period.
    fn restart(&mut self) {
        self.before += self.steps;
        (self.steps, self.passed_s, self.energy_j) = (0.0, 0.0, 0.0);
        self.stays.clear();
    }

    /// Runs until the end, which is told time and steps of the period, or for some seconds.
    fn run(&mut self, is_end: impl Fn(f64, f64) -> bool, longest_s: f64) {
        while !is_end(self.passed_s, self.steps) && self.passed_s < longest_s {
            let start = self.daemon.files().now();
            let next = self.daemon.step(&BoardClock(start), &mut |_| {});
            let next = Duration::from_millis(next.0).max(start + Duration::from_millis(1));
            let (_, mode) = self.daemon.status();
            let truth = self.subject.truth(mode.knobs());
            self.daemon.files().until(next);
            let seconds = (next - start).as_secs_f64();
            self.passed_s += seconds;
            let idle_w = self.subject.idle_w(mode.knobs());
            let watts = match self.is_busy {
                true => self.subject.settled_w(&truth),
                false => idle_w,
            };
            self.energy_j += seconds * watts;
            self.stays.push([seconds, truth.rate, idle_w]);
            let done = self.daemon.files().tree().jetson().minibatches();
            self.steps = done - self.before;
            self.daemon.take_own_steps(done as u64);
        }
    }

    /// Ends the workload and runs on until so much of the period has passed.
    fn rest(&mut self, until_s: f64) {
        self.is_busy = false;
        self.daemon.files().tree().jetson_mut().set_workload(None);
        self.run(|passed, _| passed >= until_s, until_s);
    }

    /// The steps that were done at each second of the period, `steps` at most.
    fn progress(&self, steps: u64) -> impl Iterator<Item = f64> {
        let mut passed = 0.0;
        let mut done = 0.0;
        let mut all = Vec::new();
        for [seconds, rate, _] in &self.stays {
            passed += seconds;
            done += seconds * rate;
            while (all.len() as f64 + 1.0) <= passed {
                all.push(done.min(steps as f64));
            }
        }
        all.into_iter()
    }

    /// Mean power in W of the period.
    fn mean_w(&self) -> f64 {
        self.energy_j / self.passed_s.max(f64::MIN_POSITIVE)
    }

    /// Energy in J of the period, and of the idle board from each step to a deadline in s.
    fn until(&self, deadline_s: f64) -> f64 {
        let waits = self.stays.iter().map(|[seconds, rate, idle_w]| {
            let each = (deadline_s - 1.0 / rate).max(0.0);
            seconds * rate * each * idle_w
        });
        self.energy_j + waits.sum::<f64>()
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
