//! The daemon's control on a simulated board, with what its unit and its end do around it.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_board::{Board, Files};
use wattgate_runtime::{Cause, Limit, Milliseconds, Milliwatts, State};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::control::{Control, name};
use wattgate_watchdog::prior::{Origin, Prior};
use wattgate_watchdog::setup::{Choices, Setup, SetupError};

use super::holder::Outcome;
use super::list::ToHolder;
use super::plant::{Noted, Plant};

/// From the death of the daemon to the safe mode by the unit's `ExecStopPost=`, and from there to
/// its next start by `RestartSec=`.
const STOP_POST: Duration = Duration::from_secs(1);
const RESTART: Duration = Duration::from_secs(1);

const ROOT: &str = "/";

/// Holds the limit to the end of the scenario, and restores what was set before.
pub fn hold(plant: &Plant<'_>, files: Noted) -> io::Result<(Outcome, Noted)> {
    let scenario = plant.task.scenario;
    let kept = tempfile::tempdir()?;
    let before = settings(&files, Path::new(ROOT))?;
    let mut running = Running::start(plant, files, kept.path())?;
    let mut to_come = scenario.holder;
    let (mut changes, mut safe_after) = (0, None);
    while running.now() < scenario.length() {
        let now = running.now();
        if let Some((_, what)) = to_come.take_if(|(at, _)| now.as_secs() >= *at) {
            match what {
                ToHolder::Sleeps(time) => {
                    let files = running.control.files();
                    files.until(now + Duration::from_secs(time));
                }
                ToHolder::ReadsBadModel => running.read_bad_model()?,
                ToHolder::IsKilled => {
                    changes += running.control.status().0.changes;
                    // What it has kept of the state before outlives it.
                    let (_, mut files) = running.control.release();
                    safe_after = Some(stop_post(plant, &mut files)?);
                    files.until(files.now() + RESTART);
                    running = Running::start(plant, files, kept.path())?;
                    if *running.prior.origin() != Origin::LeftByCrash {
                        return Err(io::Error::other("the state before is lost"));
                    }
                }
            }
        }
        let next = running.look();
        let is_safe = running.control.status().0.state == State::Safe(Cause::NoSensor);
        if let Some(loss) = scenario.loss().filter(|_| is_safe) {
            safe_after = safe_after.or(Some(running.now().saturating_sub(loss)));
        }
        running.control.files().until(next.min(scenario.length()));
    }
    let (status, _) = running.control.status();
    let (mut board, mut files) = running.control.release();
    let is_restored = running.prior.restore(&mut board, &mut files).is_ok()
        && settings(&files, Path::new(ROOT))? == before
        && kept.path().read_dir()?.next().is_none();
    let outcome = Outcome {
        changes: changes + status.changes,
        end: end(name(status.state), is_restored),
        safe_after,
    };
    Ok((outcome, files))
}

/// The last state, and whether all is as it was before the first start.
pub fn end(state: &str, is_restored: bool) -> String {
    let restored = match is_restored {
        true => "restored",
        false => "not restored",
    };
    format!("{state}, {restored}")
}

/// What is set, but for the rate of the memory: nobody holds it before, so that it follows the
/// load.
pub fn settings(files: &impl Files, root: &Path) -> io::Result<Vec<String>> {
    let board = Board::discover(files, root).map_err(io::Error::other)?;
    let saved = board.save(files).map_err(io::Error::other)?.to_string();
    let lines = saved.lines().filter(|line| !line.contains("/emc/rate "));
    Ok(lines.map(str::to_owned).collect())
}

/// `once --safe`, as the unit does after a crash. Returns how long after it.
fn stop_post(plant: &Plant<'_>, files: &mut Noted) -> io::Result<Duration> {
    let killed = files.now();
    files.until(killed + STOP_POST);
    let mut setup = setup(plant, files)?;
    let safe = setup.safe();
    setup.board.apply(files, &safe).map_err(io::Error::other)?;
    Ok(files.now() - killed)
}

/// The daemon's config.
fn config(plant: &Plant<'_>, at: Duration, model: &Path) -> io::Result<Config> {
    let text = plant.config(at, model);
    Config::parse(&text, Path::new("scenario")).map_err(io::Error::other)
}

/// What the daemon finds at its start.
fn setup(plant: &Plant<'_>, files: &Noted) -> io::Result<Setup> {
    let config = config(plant, files.now(), &plant.course.model)?;
    Setup::new(config, files, Path::new(ROOT)).map_err(io::Error::other)
}

/// A daemon between a start and its end.
struct Running<'a> {
    plant: &'a Plant<'a>,
    control: Control<Noted>,
    prior: Prior,
    config: Config,
    limit: Limit,
}

impl<'a> Running<'a> {
    fn start(plant: &'a Plant<'a>, files: Noted, kept: &Path) -> io::Result<Self> {
        let setup = setup(plant, &files)?;
        let prior = Prior::keep(&setup.board, &files, kept).map_err(io::Error::other)?;
        Ok(Self {
            plant,
            limit: setup.config.limit,
            config: setup.config.clone(),
            control: Control::new(setup, files),
            prior,
        })
    }

    fn now(&mut self) -> Duration {
        self.control.files().now()
    }

    /// One look. Returns when the next one is due.
    fn look(&mut self) -> Duration {
        let now = self.now();
        let scenario = self.plant.task.scenario;
        if !scenario.by_clock {
            self.config.limit.power = Milliwatts(self.plant.limit_mw(now));
        }
        let wanted = self.config.limit_at(scenario.utc(now));
        if std::mem::replace(&mut self.limit, wanted) != wanted {
            self.control.set_limit(wanted);
        }
        let ms = Milliseconds(now.as_millis() as u64);
        let next = self.control.look(ms, &mut |_| {});
        Duration::from_millis(next.0).max(now + Duration::from_millis(1))
    }

    /// The daemon takes another model only when all of it is right. Of this one half is missing.
    fn read_bad_model(&mut self) -> io::Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), self.plant.half_a_model()?)?;
        let config = config(self.plant, self.now(), file.path())?;
        match Choices::read(&config, self.control.board()) {
            Err(SetupError::Format { .. }) => Ok(()),
            other => Err(io::Error::other(format!("half a model: {other:?}"))),
        }
    }
}
