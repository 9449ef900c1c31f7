//! The daemon's control in simulated time, and what the daemon and its systemd unit do at start,
//! after a crash and at the end.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use wattgate_runtime::governor::{Cause, State};
use wattgate_runtime::{Limit, Milliwatts};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::control::{Control, name};
use wattgate_watchdog::saved_state::{Origin, SavedState};
use wattgate_watchdog::setup::{Choices, Setup, SetupError};

use super::outcome::{Outcome, end, settings};
use super::plant::Plant;
use crate::holder::Incident;
use crate::holders::wattgate::poll;
use crate::recorded::RecordedTree;

/// Time from a crash to the systemd unit's `ExecStopPost=`, which sets the safe mode.
const STOP_POST: Duration = Duration::from_secs(1);

/// `RestartSec=` of the systemd unit: time from the safe mode to the next start.
const RESTART: Duration = Duration::from_secs(1);

const ROOT: &str = "/";

/// Holds the limit to the end of the scenario, and restores the settings from before.
pub fn hold(plant: &Plant<'_>, files: RecordedTree) -> io::Result<(Outcome, RecordedTree)> {
    let scenario = plant.task.scenario;
    let kept = tempfile::tempdir()?;
    let before = settings(&files, Path::new(ROOT))?;
    let mut running = Running::start(plant, files, kept.path())?;
    let mut incident = scenario.incident;
    let (mut changes, mut safe_after) = (0, None);
    while running.now() < scenario.length() {
        let now = running.now();
        if let Some((_, what)) = incident.take_if(|(at, _)| now.as_secs() >= *at) {
            match what {
                Incident::Suspend(time) => {
                    let files = running.control.files();
                    files.until(now + Duration::from_secs(time));
                }
                Incident::BadModel => running.read_bad_model()?,
                Incident::Kill => {
                    changes += running.control.status().0.changes;
                    // The saved settings from before the first start outlive the daemon.
                    let (_, mut files) = running.control.release();
                    safe_after = Some(stop_post(plant, &mut files)?);
                    files.until(files.now() + RESTART);
                    running = Running::start(plant, files, kept.path())?;
                    if *running.saved_state.origin() != Origin::Left {
                        return Err(io::Error::other(
                            "the settings from before the first start are lost",
                        ));
                    }
                }
            }
        }
        let next = running.poll();
        let is_safe = running.control.status().0.state == State::Safe(Cause::NoSensor);
        if let Some(loss) = scenario.loss().filter(|_| is_safe) {
            safe_after = safe_after.or(Some(running.now().saturating_sub(loss)));
        }
        running.control.files().until(next.min(scenario.length()));
    }
    let (status, _) = running.control.status();
    let (mut board, mut files) = running.control.release();
    let is_restored = running.saved_state.restore(&mut board, &mut files).is_ok()
        && settings(&files, Path::new(ROOT))? == before
        && kept.path().read_dir()?.next().is_none();
    let outcome = Outcome {
        changes: changes + status.changes,
        end: end(name(status.state), is_restored),
        safe_after,
    };
    Ok((outcome, files))
}

/// Sets the safe mode by `once --safe`, as the unit does after a crash. Returns the time since the
/// crash.
fn stop_post(plant: &Plant<'_>, files: &mut RecordedTree) -> io::Result<Duration> {
    let killed = files.now();
    files.until(killed + STOP_POST);
    let mut setup = setup(plant, files)?;
    let safe = setup.safe();
    setup.board.apply(files, &safe).map_err(io::Error::other)?;
    Ok(files.now() - killed)
}

/// The daemon's config with the limit at a time.
fn config(plant: &Plant<'_>, at: Duration, model: &Path) -> io::Result<Config> {
    let text = plant.config(at, model);
    Config::parse(&text, Path::new("scenario")).map_err(io::Error::other)
}

/// What the daemon reads at its start.
fn setup(plant: &Plant<'_>, files: &RecordedTree) -> io::Result<Setup> {
    let config = config(plant, files.now(), &plant.course.model)?;
    Setup::new(config, files, Path::new(ROOT)).map_err(io::Error::other)
}

/// A daemon between its start and its end.
struct Running<'a> {
    plant: &'a Plant<'a>,
    control: Control<RecordedTree>,
    saved_state: SavedState,
    config: Config,
    limit: Limit,
}

impl<'a> Running<'a> {
    fn start(plant: &'a Plant<'a>, files: RecordedTree, kept: &Path) -> io::Result<Self> {
        let setup = setup(plant, &files)?;
        let saved_state = SavedState::keep(&setup.board, &files, Path::new(ROOT), kept);
        let saved_state = saved_state.map_err(io::Error::other)?;
        let (limit, config) = (setup.config.limit, setup.config.clone());
        let mut control = Control::new(setup, files);
        control.keep_own(saved_state.saved());
        Ok(Self {
            plant,
            limit,
            config,
            control,
            saved_state,
        })
    }

    fn now(&mut self) -> Duration {
        self.control.files().now()
    }

    /// Lets the control poll the sensor once under the present limit. Returns the time of the next
    /// poll.
    fn poll(&mut self) -> Duration {
        let now = self.now();
        let scenario = self.plant.task.scenario;
        if !scenario.by_clock {
            self.config.limit.power = Milliwatts(self.plant.limit_mw(now));
        }
        let wanted = self.config.limit_at(scenario.utc(now));
        if std::mem::replace(&mut self.limit, wanted) != wanted {
            self.control.set_limit(wanted);
        }
        poll(&mut self.control)
    }

    /// Reads half a model, which the daemon has to refuse.
    fn read_bad_model(&mut self) -> io::Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        fs::write(file.path(), self.plant.half_a_model()?)?;
        let config = config(self.plant, self.now(), file.path())?;
        match Choices::read(
            &config,
            self.control.board(),
            self.control.choices().unit.id,
        ) {
            Err(SetupError::Format { .. }) => Ok(()),
            other => Err(io::Error::other(format!("half a model: {other:?}"))),
        }
    }
}
