//! `learn`: profiles within a limit, fits a model, installs it, and holds the limit.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, thread};

use lexopt::Parser;
use serde::Serialize;
use wattgate_board::Preset;
use wattgate_cli::exit::note;
use wattgate_cli::json::Mode;
use wattgate_cli::output::AtomicFile;
use wattgate_cli::planning::{self, ENOUGH_MODES, ExpectedError, LEAST_MODES};
use wattgate_runtime::{Confidence, Milliwatts, Model, PowerMode};
use wattgate_watchdog::client::{Client, ClientError};
use wattgate_watchdog::config;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::serve::protocol::{Request, WantedLease};
use wattgate_watchdog::setup::Setup;

use super::options::{Common, PLAN, Plan, help_with, limit, parse, within};
use super::profile::{Profiled, Ready};
use super::site::{Site, config, limit_of_module, models, new_file, prepare};
use super::{Failure, hold, print, print_json};
use crate::board_files::BoardFiles;
use crate::hold::End;
use crate::operation::Onlooker;
use crate::outlook::{Outlook, outlook};
use crate::planner::{Background, Call, Fitted};
use crate::row::Row;
use crate::scribe::Scribe;
use crate::window::Count;
use crate::world::World;

const USAGE: &str = "\
Measure a few power modes within a limit, learn all others, and hold the limit

Usage: wattgate learn --limit W [options] -- PROGRAM [arguments]
       wattgate learn --limit W [options] --attach PID

Options:
  --limit W        The limit on the power of the module, such as 20W; of its supply if the daemon's config has one
  --model FILE     The model to write [/var/lib/wattgate/models/BOARD/NAME.wgt, or beside the model of the
                   daemon's config]
  --hold S         Stop PROGRAM after the limit was held for S seconds [run it to its end]
";

const NOTES: &str = "\
The workload runs all the time. A mode whose power exceeds the limit is left at once. The model then
chooses the fastest mode within the limit, and the measured power corrects the choice. A daemon that
runs gets the model, and a lease of the limit, which ends with this command. Where the daemon has no
config, one is written: `systemctl enable --now wattgated` then holds the limit from the boot on.

If the command fails, all rows so far are in the corpus.

Example:
  wattgate learn --limit 20W -- python3 train.py
";

/// Time of the limit that is held after which the choice counts as measured.
const SHOWN_AFTER: Duration = Duration::from_secs(20);

/// The text of the help.
pub fn help() -> String {
    help_with(&format!("{USAGE}{PLAN}"), NOTES)
}

/// Runs the command with the arguments that follow its name.
pub fn run(parser: Parser) -> Result<(), Failure> {
    let mut plan = Plan::default();
    let (mut power, mut model, mut time) = (None, None, None);
    let common = parse(parser, |option, parser| {
        match option {
            "--limit" => power = Some(limit(parser)?),
            "--model" => model = Some(PathBuf::from(parser.value()?)),
            "--hold" => {
                let seconds = within(parser, "--hold", 1.0..=1e9, "1 … 1000000000 seconds")?;
                time = Some(Duration::from_secs_f64(seconds));
            }
            option => return plan.take(option, parser),
        }
        Ok(true)
    })?;
    let limit = power.ok_or(Failure::Missing("--limit, such as --limit 20W"))?;
    let of_module = limit_of_module(limit, &common.root)?;
    let mut site = Site::open(&common)?;
    site.limit = Some(of_module);
    let learned = learn(&common, &plan, limit, model, time, &mut site);
    let Done { refit, next } = site.close(learned)?;
    // A fit takes a while, in which nobody would watch the limit of a workload that runs.
    if let Some(refit) = refit {
        refit.run(&common)?;
    }
    if let Some(next) = next {
        note(next);
    }
    Ok(())
}

/// What is left once the workload has ended.
struct Done {
    refit: Option<Refit>,
    /// What the user may do next.
    next: Option<String>,
}

/// Rows that were measured while the limit was held, for a fit after it.
struct Refit {
    planner: Background,
    rows: Vec<Row>,
    /// Number of the rows that are measurements, at least 1.
    measured: usize,
    limit: Milliwatts,
    /// The model to replace.
    path: PathBuf,
    /// The corpus with the rows.
    corpus: PathBuf,
    /// Whether a daemon uses that model.
    is_for_daemon: bool,
}

impl Refit {
    fn run(self, common: &Common) -> Result<(), Failure> {
        note(format_args!("learning from {} more modes", self.measured));
        for row in self.rows {
            self.planner.exchange(Call::Tell(Box::new(row)))?;
        }
        let fitted = self.planner.exchange(Call::Fit)?.fitted();
        let files = BoardFiles::new(common.speed);
        let (path, corpus) = (&self.path, &self.corpus);
        if let Err(why) = usable(&fitted, path, self.limit, common, &files, corpus) {
            note(format_args!(
                "warning: {} stays as it was: {why}",
                path.display()
            ));
            return Ok(());
        }
        prepare(&self.path, "--model")?.commit(&fitted.model)?;
        if self.is_for_daemon {
            set_model(&mut Client::connect(&common.root)?, &self.path)?;
        }
        Ok(())
    }
}

fn learn(
    common: &Common,
    plan: &Plan,
    limit: Milliwatts,
    model: Option<PathBuf>,
    time: Option<Duration>,
    site: &mut Site,
) -> Result<Done, Failure> {
    let folder = models(&common.root, &site.device);
    if let Some(path) = &model {
        let is_allowed = || parent(path).canonicalize().ok() == folder.canonicalize().ok();
        if site.right.limit_of_daemon().is_some() && !is_allowed() {
            let path = path.clone();
            return Err(Failure::Folder { path, folder });
        }
    }
    let is_for_daemon = site.right.limit_of_daemon().is_some();
    let (device, gated) = (site.device.clone(), site.board.gated());
    let place = |workload: &str| {
        let path = model.clone();
        let path = path.unwrap_or_else(|| folder.join(format!("{workload}.wgt")));
        check_replaced(&path, &device, workload, model.is_some())?;
        prepare(&path, "--model").map(|file| (path, file))
    };
    // The name may change with the first step.
    place(&common.name().unwrap_or_else(|| "workload".to_owned()))?;
    let daemon_config = DaemonConfig::prepare(config(&common.root));
    let ready = Ready::new(common, plan, true, site)?;
    let (path, model_file) = place(&ready.workload)?;
    if let Some(gated) = &gated {
        note(format_args!(
            "{gated}; a model is of the board as it is now"
        ));
    }
    let Profiled {
        mut session,
        planner,
        corpus,
        path: corpus_path,
        workload,
    } = ready.measure(common)?;
    let feeding = corpus.kept(session.feeding());
    let fed = corpus.rows.iter().filter(|row| row.feeding() == feeding);
    let fed: Vec<&Row> = fed.collect();
    let measured: Vec<&Row> = fed
        .iter()
        .copied()
        .filter(|row| row.mark.is_none())
        .collect();
    if measured.len() < LEAST_MODES {
        let measured = measured.len();
        return Err(Failure::Few {
            measured,
            corpus: corpus_path,
        });
    }
    // The workload goes on during the fit, in a mode that is known to be within the limit.
    let of_module = f64::from(limit_of_module(limit, &common.root)?.0);
    let within = |row: &&&Row| row.power_mw.is_some_and(|power| power <= of_module);
    let by_time = |a: &&&Row, b: &&&Row| {
        let time = |row: &Row| row.time_ms.unwrap_or(f64::INFINITY);
        time(a).total_cmp(&time(b))
    };
    let fastest = measured.iter().filter(within).min_by(by_time);
    note(format_args!("learning from {} modes", measured.len()));
    let fastest = fastest.map(|row| row.mode());
    let profiled_s = session.world().now().as_secs_f64();
    let fitted = session.fit(&planner, fastest)?;
    let setup = usable(&fitted, &path, limit, common, &site.files, &corpus_path)?;
    model_file.commit(&fitted.model)?;
    let has_config = daemon_config.write(&path, limit)?;
    say_cost(&fitted, setup.config.confidence)?;

    let mut findings = Findings {
        json: common.json,
        workload,
        device,
        profiled_s,
        path: path.clone(),
        presets: site.board.presets().to_vec(),
        fitted,
        stretch: None,
        is_shown: false,
    };
    let mut shown = Ok(());
    let (board, files) = (&site.board, site.files.clone());
    let mut onlooker = Onlooker::new(plan.rules, &fed, board, &files);
    let known = corpus.rows.len();
    let mut further = 0;
    let scribe = Scribe::start(corpus);
    let mut going = hold::Going::new();
    let seen = |now: Duration, count: Option<Count>, report: &Report| {
        going.see(now, count, report);
        findings.see(now, count, report);
        if findings.is_due(now) {
            shown = findings.show();
        }
        let onlooker = onlooker.as_mut();
        let row = onlooker.and_then(|it| it.see(now, count, report, board, &files));
        if let Some(row) = row {
            further += usize::from(row.mark.is_none());
            scribe.append(row);
        }
    };
    let held = match is_for_daemon {
        false => hold::run(&mut site.process, setup, None, None, time, false, seen),
        true => {
            // The daemon gets model and limit before it gets the board back.
            let mut client = Client::connect(&common.root)?;
            set_model(&mut client, &path)?;
            client.lease(WantedLease {
                program: Some("wattgate learn".to_owned()),
                ..WantedLease::from_power(limit)
            })?;
            site.right.give_back(&mut site.process);
            let process = &mut site.process;
            let holder = hold::by_daemon(process, client, None, common)?;
            hold::watch(process, holder, limit, time, false, seen)?
        }
    };
    shown?;
    findings.show()?;
    hold::show(&held, limit, None, common.json)?;
    let (mut corpus, written) = scribe.end();
    written?;
    // A user who stops the program does not wait for a fit; the next one has these rows.
    let is_due = further > 0 && !matches!(held.end, End::Stopped(_));
    let refit = is_due.then(|| Refit {
        planner,
        rows: corpus.rows.split_off(known),
        measured: further,
        limit,
        path,
        corpus: corpus_path,
        is_for_daemon,
    });
    let next = match (is_for_daemon, has_config) {
        (true, _) => Some("the lease of the limit has ended; the daemon holds its own".to_owned()),
        (false, true) => Some(next(&common.root)),
        (false, false) => None,
    };
    Ok(Done { refit, next })
}

/// How a daemon holds the limit of its config from now on.
fn next(root: &Path) -> String {
    let config = config(root);
    let config = config.display();
    let command = match root == Path::new("/") {
        true => "systemctl enable --now wattgated".to_owned(),
        false => format!("wattgated run --config {config} --root {}", root.display()),
    };
    format!("`{command}` holds the limit of {config} from now on")
}

/// Fails if a file has a model of another board, or, unless the user named the file, of another workload.
fn check_replaced(
    path: &Path,
    device: &str,
    workload: &str,
    is_named: bool,
) -> Result<(), Failure> {
    let Ok(bytes) = fs::read(path) else {
        return Ok(());
    };
    // What is no model is no loss.
    let model = Model::parse(&bytes).ok();
    let Some(found) = model.as_ref().and_then(|model| model.provenance().ok()) else {
        return Ok(());
    };
    if found.device == device && (is_named || found.workload == workload) {
        return Ok(());
    }
    Err(Failure::OtherModel {
        path: path.to_owned(),
        found: [found.workload, found.device].map(str::to_owned),
        wanted: [workload, device].map(str::to_owned),
    })
}

/// The setup of a model that no daemon of this board would refuse.
fn usable(
    fitted: &Fitted,
    path: &Path,
    limit: Milliwatts,
    common: &Common,
    files: &BoardFiles,
    corpus: &Path,
) -> Result<Setup, Failure> {
    Model::parse(&fitted.model)?;
    let refused = |why: String| Failure::Refused {
        why,
        corpus: corpus.to_owned(),
    };
    match hold::setup_of(&fitted.model, path, limit, &common.root, files) {
        Ok(setup) => match setup.choices.distrust {
            Some(why) => Err(refused(why.to_string())),
            None => Ok(setup),
        },
        Err(Failure::Setup(why)) => Err(refused(why.to_string())),
        Err(error) => Err(error),
    }
}

/// Says what few modes cost.
fn say_cost(fitted: &Fitted, confidence: Confidence) -> Result<(), Failure> {
    let model = Model::parse(&fitted.model)?;
    let ratio = planning::power_bound_ratio(&model, confidence);
    if let Some(ratio) = ratio.filter(|_| fitted.modes < ENOUGH_MODES) {
        note(format_args!(
            "{} modes are few: a mode counts {:.0} % above its predicted power, with {confidence} confidence",
            fitted.modes,
            100.0 * (ratio - 1.0)
        ));
    }
    Ok(())
}

/// The folder of a file.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// The daemon takes one model in ten seconds.
const MODEL_TIMEOUT: Duration = Duration::from_secs(12);
const BETWEEN_ATTEMPTS: Duration = Duration::from_secs(1);

/// Gives the daemon a model.
fn set_model(client: &mut Client, path: &Path) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut waited = Duration::ZERO;
    loop {
        match client.ask(Request::SetModel(name.clone().into_owned())) {
            Err(ClientError::Refused(refused))
                if refused.name == "too_many_requests" && waited < MODEL_TIMEOUT =>
            {
                thread::sleep(BETWEEN_ATTEMPTS);
                waited += BETWEEN_ATTEMPTS;
            }
            answer => {
                answer?;
                return Ok(());
            }
        }
    }
}

/// The config of the daemon.
enum DaemonConfig {
    /// One that stays as it is.
    Existing(PathBuf),
    New(AtomicFile),
    /// Nobody can write it.
    None,
}

impl DaemonConfig {
    /// Prepares to write a config where there is none. Where that is not possible, such as below a read-only `/etc`,
    /// learning goes on without.
    fn prepare(path: PathBuf) -> Self {
        if path.exists() {
            return Self::Existing(path);
        }
        match new_file(&path) {
            Ok(file) => Self::New(file),
            Err(why) => {
                note(format_args!(
                    "warning: {}: cannot be written: {why}; the daemon gets no config, so after this command no limit holds",
                    path.display()
                ));
                Self::None
            }
        }
    }

    /// Writes the config of a model and a limit, or says what it needs. Returns whether there is one.
    fn write(self, model: &Path, limit: Milliwatts) -> Result<bool, Failure> {
        let model = std::path::absolute(model).unwrap_or_else(|_| model.to_owned());
        let keys = config::text(Some(&model), limit);
        match self {
            Self::Existing(path) => {
                note(format_args!(
                    "{} stays as it is; for this limit after the next start of the daemon it needs\n{keys}",
                    path.display()
                ));
                Ok(true)
            }
            Self::None => {
                note(format_args!("a config of the daemon needs\n{keys}"));
                Ok(false)
            }
            Self::New(file) => {
                let text = format!("# Written by `wattgate learn`; see wattgated.toml(5).\n{keys}");
                file.commit(text.as_bytes())?;
                Ok(true)
            }
        }
    }
}

/// What was learned, and what came of it in the mode that is set.
struct Findings {
    json: bool,
    workload: String,
    device: String,
    profiled_s: f64,
    path: PathBuf,
    presets: Vec<Preset>,
    fitted: Fitted,
    /// The mode that is set, and what was measured in it.
    stretch: Option<Stretch>,
    is_shown: bool,
}

/// A stretch of one mode.
struct Stretch {
    mode: PowerMode,
    since: Duration,
    /// Energy of the module at its begin and up to now, in mJ.
    energy_mj: [u64; 2],
    until: Duration,
    counts: Option<[Count; 2]>,
}

impl Stretch {
    fn power_mw(&self) -> Option<f64> {
        let [before, after] = self.energy_mj;
        let seconds = (self.until - self.since).as_secs_f64();
        (seconds >= 1.0).then(|| (after - before) as f64 / seconds)
    }

    fn time_ms(&self) -> Option<f64> {
        let [first, last] = self.counts?;
        let seconds = (last.at - first.at).as_secs_f64();
        (last.steps > first.steps).then(|| 1e3 * seconds / (last.steps - first.steps) as f64)
    }
}

/// A mode with what is predicted and measured, as JSON.
#[derive(Serialize)]
struct Shown {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    mode: Mode,
    predicted_time_ms: f64,
    predicted_power_mw: Option<u32>,
    /// Whether the model extrapolates, as the mode is outside of the profiled region.
    extrapolated: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    time_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    power_mw: Option<f64>,
}

impl Shown {
    fn new(name: Option<String>, outlook: &Outlook) -> Self {
        Self {
            name,
            mode: outlook.mode.into(),
            predicted_time_ms: f64::from(outlook.time.0) / 1e3,
            predicted_power_mw: outlook.power.map(|power| power.0),
            extrapolated: !outlook.is_profiled,
            time_ms: None,
            power_mw: None,
        }
    }
}

/// What was learned, as JSON.
#[derive(Serialize)]
struct Learned {
    model: String,
    modes: usize,
    board_minutes: f64,
    expected_error_pct: ExpectedError,
    chosen: Option<Shown>,
    presets: Vec<Shown>,
}

impl Findings {
    fn see(&mut self, now: Duration, count: Option<Count>, report: &Report) {
        let knobs = [report.cores, report.cpu_khz, report.gpu_khz, report.emc_khz];
        let mode = PowerMode::from_knobs(knobs);
        let stretch = self.stretch.take().filter(|stretch| stretch.mode == mode);
        let stretch = self.stretch.insert(stretch.unwrap_or(Stretch {
            mode,
            since: now,
            energy_mj: [report.energy_mj; 2],
            until: now,
            counts: None,
        }));
        match count {
            // The step of the first count began before the mode was set.
            Some(count) => stretch.counts.get_or_insert([count; 2])[1] = count,
            None => {
                stretch.until = now;
                stretch.energy_mj[1] = report.energy_mj;
            }
        }
    }

    /// Whether the mode that is set has been measured long enough.
    fn is_due(&self, now: Duration) -> bool {
        let is_long = |since: Duration| now.saturating_sub(since) >= SHOWN_AFTER;
        let stretch = self.stretch.as_ref();
        !self.is_shown && stretch.is_some_and(|stretch| is_long(stretch.since))
    }

    /// Shows it, once.
    fn show(&mut self) -> Result<(), Failure> {
        if std::mem::replace(&mut self.is_shown, true) {
            return Ok(());
        }
        let model = Model::parse(&self.fitted.model)?;
        let chosen = self.stretch.as_ref().and_then(|stretch| {
            let mut shown = Shown::new(None, &outlook(&model, stretch.mode)?);
            shown.time_ms = stretch.time_ms();
            shown.power_mw = stretch.power_mw();
            Some(shown)
        });
        let presets = self.presets.iter().filter_map(|preset| {
            let outlook = outlook(&model, preset.mode(model.grid()))?;
            Some(Shown::new(Some(preset.name.clone()), &outlook))
        });
        let learned = Learned {
            model: self.path.to_string_lossy().into_owned(),
            modes: self.fitted.modes,
            board_minutes: (self.profiled_s / 0.6).round() / 100.0,
            expected_error_pct: self.fitted.expected_error_pct.clone(),
            chosen,
            presets: presets.collect(),
        };
        if self.json {
            #[derive(Serialize)]
            struct Line {
                learned: Learned,
            }
            return print_json(&Line { learned });
        }
        print(&self.text(&learned))
    }

    fn text(&self, learned: &Learned) -> String {
        let (workload, device) = (&self.workload, &self.device);
        let (modes, minutes) = (learned.modes, learned.board_minutes);
        let percent = |error: Option<f64>| {
            error.map_or_else(|| "-".to_owned(), |error| format!("{error:.1} %"))
        };
        let ExpectedError { time, power } = &learned.expected_error_pct;
        let (time, power) = (percent(*time), percent(*power));
        let mut text = format!(
            "learned {workload} on {device} from {modes} modes in {minutes:.1} min; expected \
             mean errors over all modes: time {time}, power {power}\n\
             model {}\n{:<12}{:<44}{:>24}{:>24}\n",
            learned.model, "", "mode", "predicted", "measured"
        );
        let chosen = learned.chosen.iter();
        for shown in chosen.chain(&learned.presets) {
            let name = shown.name.as_deref().unwrap_or("chosen");
            let mode = PowerMode::from_knobs(shown.mode.knobs());
            let pair = |time: Option<f64>, power: Option<f64>| match (time, power) {
                (Some(time), Some(power)) => format!("{time:.2} ms {:.2} W", power / 1e3),
                _ => String::new(),
            };
            let power = shown.predicted_power_mw.map(f64::from);
            let mut predicted = pair(Some(shown.predicted_time_ms), power);
            if shown.extrapolated {
                predicted += " *";
            }
            let measured = pair(shown.time_ms, shown.power_mw);
            text += &format!(
                "{name:<12}{:<44}{predicted:>24}{measured:>24}\n",
                mode.to_string()
            );
        }
        if learned.presets.iter().any(|shown| shown.extrapolated) {
            text += "* beyond the modes that were measured within the limit\n";
        }
        text
    }
}
