//! `profile`: measures a workload in a few modes and writes a corpus.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::Parser;
use wattgate_board::Disk;
use wattgate_cli::delimited::columns::{AXIS_COLUMNS, Layout};
use wattgate_cli::delimited::fields::{clock, whole};
use wattgate_cli::delimited::{Defect, FileError, Table};
use wattgate_cli::exit::note;
use wattgate_cli::planning::{self, ENOUGH_MODES};
use wattgate_runtime::PowerMode;
use wattgate_watchdog::unit::ThisUnit;

use super::options::{Common, Modes, PLAN, Plan, help_with, limit, parse};
use super::site::{
    Site, axes, confidence, config, corpus, ladder, limit_of_module, models, prepare,
};
use super::{Failure, print, print_json};
use crate::co_process::CoProcess;
use crate::planner::{Background, List, Listed, PlannerError};
use crate::process::Process;
use crate::references;
use crate::row::{CorpusFile, Origin, Row};
use crate::session::{Progress, Session, Task};
use crate::world::World;

const USAGE: &str = "\
Measure time and power of a step of a running workload in a few power modes

Usage: wattgate profile [options] -- PROGRAM [arguments]
       wattgate profile [options] --attach PID

Options:
  --limit W        Leave a mode at once when its power exceeds this, such as 20W, and plan with it
";

const NOTES: &str = "\
The power mode is restored at the end; after a crash, by the next start.

If the command fails, all rows so far are in the corpus.

Examples:
  wattgate profile --limit 20W -o yolo.csv -- python3 train.py
  wattgate profile --steps-from tqdm -- python3 train_with_tqdm.py
";

/// The text of the help.
pub fn help() -> String {
    help_with(&format!("{USAGE}{PLAN}"), NOTES)
}

/// Runs the command with the arguments that follow its name.
pub fn run(parser: Parser) -> Result<(), Failure> {
    let (mut plan, mut power) = (Plan::default(), None);
    let common = parse(parser, |option, parser| match option {
        "--limit" => {
            power = Some(limit(parser)?);
            Ok(true)
        }
        option => plan.take(option, parser),
    })?;
    let power = power.map(|limit| limit_of_module(limit, &common.root));
    let power = power.transpose()?;
    let mut site = Site::open(&common)?;
    // The daemon's limit is to hold while the daemon does not hold it.
    site.limit = power.or(site.right.limit_of_daemon());
    let ready = Ready::new(&common, &plan, false, &mut site);
    let measured = ready.and_then(|ready| ready.measure(&common).map(drop));
    site.close(measured)
}

/// A workload that runs, and all that is needed to measure it.
pub struct Ready<'a> {
    session: Session<'a, Process>,
    planner: Background,
    corpus: CorpusFile,
    path: PathBuf,
    /// Number of modes.
    number: usize,
    /// The relative standard error in percent at which a measurement ends.
    spread_pct: f64,
    pub workload: String,
}

/// A profile of a workload that runs on.
pub struct Profiled<'a> {
    pub session: Session<'a, Process>,
    pub planner: Background,
    pub corpus: CorpusFile,
    /// Its file.
    pub path: PathBuf,
    pub workload: String,
}

impl<'a> Ready<'a> {
    /// Tries what could fail later, starts the workload, and waits for its first step, which may tell its name. The planner
    /// `fits` a model afterwards.
    pub fn new(
        common: &Common,
        plan: &Plan,
        fits: bool,
        site: &'a mut Site,
    ) -> Result<Self, Failure> {
        let axes = axes(&site.board)?;
        let tpc_pg_mask = site.board.tpc_pg_mask();
        let unit = ThisUnit::id(&Disk, &common.root).map(|id| id.to_string());
        let name = common.name();
        if !common.may_tell_name() {
            common.final_name(None)?;
        }
        let origin = Origin {
            device: &site.device,
            workload: name.as_deref().filter(|_| !common.may_tell_name()),
            tpc_pg_mask,
            unit: unit.as_deref(),
        };
        let path = |workload: &str| {
            let default = || corpus(&common.root, &site.device, workload);
            plan.output.clone().unwrap_or_else(default)
        };
        // The corpus that there probably is.
        let before = opened(&path(name.as_deref().unwrap_or("workload")), &origin)?;
        if let Some(before) = &before {
            before.check(&plan.feeding)?;
        }
        let (number, list) = numbered(&plan.modes)?;
        if fits {
            check_modes(&common.root, number)?;
        }
        let ladder = ladder(&axes);
        let idle = planning::idle_modes([&axes.cores, &axes.cpu_khz, &axes.gpu_khz, &axes.emc_khz]);
        let idle = idle.map(PowerMode::from_knobs);
        // As in the daemon: the sensor may show less than what is drawn.
        let margin = site.board.sensor_offset();
        let kind = common.kind();
        let planners = Planners {
            plan,
            fits,
            list,
            models: models(&common.root, &site.device),
            task: planning::Task {
                version: planning::VERSION,
                axes,
                modes: number,
                limit_mw: site
                    .limit
                    .map(|limit| f64::from(limit.0.saturating_sub(margin.0))),
                seed: Some(plan.seed),
                workload: None,
                device: Some(site.device.clone()),
                reference: planning::References::None,
                kind: Some(kind),
                minibatch: plan.feeding.minibatch,
                tpc_pg_mask,
                unit: unit.clone(),
            },
        };
        let mut planner = planners.start(name.as_deref())?;
        let task = Task {
            kind,
            unit: unit.clone(),
            device: site.device.clone(),
            workload: name.clone().unwrap_or_default(),
            feeding: plan.feeding.clone(),
            limit: site.limit,
            margin,
            rules: plan.rules,
            caps: plan.caps,
        };
        let mut session = Session::begin(&mut site.process, &mut site.board, ladder, task)?;
        // Before the workload starts: a planner may be absent or its machine may not answer.
        session.ready(&planner)?;
        // Of a list of modes, those alone are measured, unless a model is made of them.
        let asks_idle = matches!(plan.modes, Modes::Number(_)) || fits || plan.caps;
        let lacks_idle = |it: &CorpusFile| it.keeps_idle() && it.idle().next().is_none();
        let is_possible = !common.workload.is_attached() && before.as_ref().is_none_or(lacks_idle);
        if asks_idle && is_possible {
            note(format_args!("measuring the idle board"));
            if session.measure_idle(&idle)? == 0 {
                note(format_args!(
                    "the idle board is not measured: the GPU is busy, or no mode obeys"
                ));
            }
        }
        common.workload.start(session.world(), common.json)?;
        session.await_workload(&mut |progress, _| note_waiting(&progress))?;
        let workload = common.final_name(session.world().told_name())?;
        if name.as_deref() != Some(&workload) {
            session.set_name(&workload);
            planner = planners.start(Some(&workload))?;
            session.ready(&planner)?;
        }
        let found = planners.references(&workload);
        if !found.is_empty() && plan.references.is_empty() {
            note(format_args!("transferring from {}", found.join(", ")));
        }
        let origin = Origin {
            workload: Some(&workload),
            ..origin
        };
        let path = path(&workload);
        let corpus = CorpusFile::open(&path, &origin)?;
        corpus.check(&plan.feeding)?;
        note(format_args!(
            "the workload is `{workload}`; its rows are kept in {}",
            path.display()
        ));
        Ok(Self {
            session,
            planner,
            corpus,
            path,
            number,
            spread_pct: 100.0 * plan.rules.spread,
            workload,
        })
    }

    /// Measures the workload.
    pub fn measure(self, common: &Common) -> Result<Profiled<'a>, Failure> {
        let Self {
            mut session,
            planner,
            mut corpus,
            path,
            number,
            spread_pct,
            workload,
        } = self;
        let mut shown = Ok(());
        let mut show = Show {
            json: common.json,
            number,
            done: 0,
            began: None,
            spread_pct,
        };
        let ran = session.run(&planner, &mut corpus, &mut |progress: Progress<'_>, now| {
            if let Err(error) = show.progress(&progress, now) {
                shown = Err(error);
            }
        });
        if ran.is_err() && !corpus.rows.is_empty() {
            let (rows, path) = (corpus.rows.len(), path.display());
            note(format_args!(
                "{path} has {rows} rows; the next run goes on from there"
            ));
        }
        ran?;
        shown?;
        if let Some(difference) = capped(&corpus.rows) {
            note(format_args!("{difference}"));
        }
        Ok(Profiled {
            session,
            planner,
            corpus,
            path,
            workload,
        })
    }
}

/// Starts planners of one task for a workload, whose name may change with its first step.
struct Planners<'p> {
    plan: &'p Plan,
    /// Whether a model is made of the modes.
    fits: bool,
    /// The modes, if they are listed.
    list: Option<List>,
    /// The folder of earlier models.
    models: PathBuf,
    /// Without a workload and its references.
    task: planning::Task,
}

impl Planners<'_> {
    /// What the model of a workload is transferred from.
    fn references(&self, workload: &str) -> Vec<String> {
        let is_planned = self.fits || self.list.is_none();
        if !self.plan.references.is_empty() || !self.plan.is_planner_here() || !is_planned {
            return self.plan.references.clone();
        }
        let board = references::Board {
            device: self.task.device.as_deref().unwrap_or_default(),
            kind: self.task.kind.unwrap_or_default(),
            tpc_pg_mask: self.task.tpc_pg_mask,
        };
        references::references(&self.models, &board, workload)
    }

    /// Starts the planner of a workload. As long as the workload has no name, no model counts as its own.
    fn start(&self, workload: Option<&str>) -> Result<Background, PlannerError> {
        let co_process = || -> Result<CoProcess, PlannerError> {
            let task = planning::Task {
                workload: workload.map(str::to_owned),
                reference: self.references(workload.unwrap_or_default()).into(),
                ..self.task.clone()
            };
            let planner = CoProcess::start(&self.plan.planner, task)?;
            Ok(match self.plan.references.is_empty() {
                false => planner,
                true => planner.with_optional_reference(),
            })
        };
        Ok(match self.list.clone() {
            Some(list) if self.fits => Background::start(Listed {
                list,
                planner: co_process()?,
            }),
            Some(list) => Background::start(list),
            None => Background::start(co_process()?),
        })
    }
}

/// The number of different modes, and the modes if they are listed.
fn numbered(modes: &Modes) -> Result<(usize, Option<List>), Failure> {
    let path = match modes {
        Modes::Number(number) => return Ok((*number, None)),
        Modes::File(path) => path,
    };
    let list = listed(path).map_err(Failure::Modes)?;
    let is_new = |(at, mode): &(usize, &PowerMode)| !list.iter().take(*at).any(|it| it == *mode);
    let number = list.iter().enumerate().filter(is_new).count();
    Ok((number, Some(List(list))))
}

/// Fails if a model of so few modes cannot have the confidence that the daemon asks for. Says so if a prior helps.
fn check_modes(root: &Path, asked: usize) -> Result<(), Failure> {
    let confidence = confidence(root);
    let Some(least) = planning::least_modes(confidence) else {
        let config = config(root);
        return Err(Failure::Confidence { config, confidence });
    };
    if asked < least {
        return Err(Failure::FewAsked {
            asked,
            least,
            confidence,
        });
    }
    if asked < ENOUGH_MODES {
        note(format_args!(
            "{asked} modes are few: a prior widens the bounds of the power, so that less of the limit is used; \
             {ENOUGH_MODES} modes or more narrow them"
        ));
    }
    Ok(())
}

/// The corpus of a path if there is one. Otherwise it tests that one can be made.
fn opened(path: &Path, origin: &Origin<'_>) -> Result<Option<CorpusFile>, Failure> {
    match path.exists() {
        true => Ok(Some(CorpusFile::open(path, origin)?)),
        false => prepare(path, "-o").map(|_| None),
    }
}

/// Says that the workload has done no step yet.
fn note_waiting(progress: &Progress<'_>) {
    if let Progress::NoStep { waited, telling } = progress {
        let seconds = waited.as_secs();
        note(format_args!(
            "no step for {seconds} s, and waits; Ctrl-C ends it: {telling}"
        ));
    }
}

/// Shows progress: rows on standard output, what is under way on standard error.
struct Show {
    json: bool,
    /// Number of modes, and those that are done.
    number: usize,
    done: usize,
    /// When the first mode was set.
    began: Option<Duration>,
    /// The relative standard error in percent at which a measurement ends.
    spread_pct: f64,
}

/// A row is uncertain if a standard error is so many times the one at which a measurement ends.
const UNCERTAIN: f64 = 10.0;

impl Show {
    fn progress(&mut self, progress: &Progress<'_>, now: Duration) -> Result<(), Failure> {
        match progress {
            Progress::Row(row) => {
                self.done += usize::from(row.mark.is_none());
                match self.json {
                    true => print_json(row),
                    false => print(&text(row)),
                }?;
                let spreads = [
                    ("time", row.time_spread_pct),
                    ("power", row.power_spread_pct),
                ];
                for (what, spread) in spreads {
                    if let Some(spread) = spread.filter(|it| *it > UNCERTAIN * self.spread_pct) {
                        note(format_args!(
                            "warning: the {what} in this mode is uncertain by {spread:.0} %: the workload has pauses or phases; \
                             --longest measures for a longer time"
                        ));
                    }
                }
                Ok(())
            }
            Progress::Refused(why) => {
                note(format_args!("warning: {why}"));
                Ok(())
            }
            Progress::NoStep { .. } => {
                note_waiting(progress);
                Ok(())
            }
            Progress::Set(mode) => {
                let began = *self.began.get_or_insert(now);
                let left = self.number.saturating_sub(self.done);
                let each = (now - began).as_secs_f64() / self.done.max(1) as f64;
                let to_go = match self.done {
                    0 => String::new(),
                    _ => format!(", about {:.0} s to go", each * left as f64),
                };
                let (next, number) = (self.done + 1, self.number);
                note(format_args!("mode {next} of {number}: {mode}{to_go}"));
                Ok(())
            }
        }
    }
}

/// What capped clocks cost and gain beside pinned ones, in the mean of the modes that have both.
fn capped(rows: &[Row]) -> Option<String> {
    let mean = |ratio_of_row: &dyn Fn(&Row) -> Option<f64>| {
        let ratios: Vec<f64> = rows.iter().filter_map(ratio_of_row).map(f64::ln).collect();
        let n = ratios.len() as f64;
        let ratio = (ratios.iter().sum::<f64>() / n).exp();
        (n > 0.0).then_some((100.0 * (ratio - 1.0), ratios.len()))
    };
    let (time, modes) = mean(&|row| Some(row.capped_time_ms? / row.time_ms?))?;
    let (power, _) = mean(&|row| Some(row.capped_power_mw? / row.power_mw?))?;
    let mut text = format!(
        "capped beside pinned clocks, mean of {modes} modes: time {time:+.1} %, power {power:+.1} %"
    );
    if let Some((idle, modes)) = mean(&|row| Some(row.capped_idle_mw? / row.idle_mw?)) {
        text += &format!("; idle power {idle:+.1} %, mean of {modes} modes");
    }
    Some(text)
}

fn text(row: &Row) -> String {
    let mode = row.mode();
    match (row.mark, row.time_ms, row.power_mw) {
        (None, Some(time), Some(power)) => format!(
            "{mode}: {time:.2} ms, {:.2} W, {} steps in {:.1} s\n",
            power / 1e3,
            row.steps,
            row.window_ms / 1e3
        ),
        (Some(mark), ..) => {
            let power = row.idle_mw.unwrap_or(row.peak_mw);
            format!("{mode}: {mark}, {:.2} W\n", power / 1e3)
        }
        _ => format!("{mode}: not measured\n"),
    }
}

static LAYOUT: Layout = Layout {
    what: "a list of modes",
    columns: &AXIS_COLUMNS,
    ..Layout::NONE
};

/// The modes of a file. Further columns are ignored.
fn listed(path: &Path) -> Result<VecDeque<PowerMode>, FileError> {
    let file = File::open(path).map_err(|source| FileError::Io {
        path: path.to_owned(),
        source,
    })?;
    let mut table = Table::open(path, file, &LAYOUT)?;
    let places = table.places(AXIS_COLUMNS)?;
    let modes = table.rows(|row| -> Result<PowerMode, Defect> {
        let field = |at: usize| (AXIS_COLUMNS[at], row.field(places[at]));
        let cores = whole(field(0), "a number of cores above zero")?;
        let knobs = [cores, clock(field(1))?, clock(field(2))?, clock(field(3))?];
        Ok(PowerMode::from_knobs(knobs))
    })?;
    Ok(modes.into())
}
