//! The daemon without its process: control of a board, plus the limit (from the config, the
//! schedule or a client) and the model, both of which may change at run time.
//!
//! A client's *lease* of a limit and a model ends with its connection, and so does its right to a
//! board that the daemon *yielded* to it.
//!
//! Time is an argument, so tests run in simulated time.

use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use wattgate_board::{ApplyError, Board, Files, Saved};
use wattgate_runtime::{Average, Limit, Milliseconds, ModeId, PowerMode, State, Status};

use crate::clock::{Clock, UtcSeconds};
use crate::config::Config;
use crate::control::{Control, Event, Priority};
use crate::counters::Counters;
use crate::log::log;
use crate::quantity::Watts;
use crate::report::{Report, ReportedKnob, ReportedViolation, Source, YIELDED, state_name};
use crate::serve::protocol::{Refused, WantedLease, WantedLimit};
use crate::setup::{Choices, Setup, SetupError};

/// Interval of the schedule check, and rate limit of model changes.
const SECOND: Milliseconds = Milliseconds(1_000);

/// Control of a board, its limit and its model.
#[derive(Debug)]
pub struct Daemon<F> {
    control: Control<F>,
    config: Config,
    /// The model in force, the one that holds without leases, and the folder of models.
    model: Rc<Loaded>,
    base: Rc<Loaded>,
    models: PathBuf,
    /// The limit that a client set; it overrides config and schedule.
    set: Option<SetLimit>,
    /// The leases, oldest first; they override all other limits.
    leases: Vec<Lease>,
    /// The client that has the board.
    yielded: Option<ClientId>,
    /// The limit in force and its source.
    limit: Limit,
    source: Source,
    counters: Counters,
    /// State and mode after the last look; number of changes of state, mode, limit or model.
    shown: Option<(State, ModeId)>,
    changes: u64,
    /// Time of the last look or change of the limit.
    now: Milliseconds,
    scheduled: Option<Milliseconds>,
    modelled: Option<Milliseconds>,
}

/// The number of a client's connection; no two connections have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(pub u64);

/// A model and its file. It stays in memory while another client's model is in force, so that
/// returning to it cannot fail.
#[derive(Debug)]
struct Loaded {
    path: PathBuf,
    choices: Choices,
}

/// A limit that a client set.
#[derive(Clone, Copy, Debug)]
struct SetLimit {
    limit: Limit,
    /// When it expires.
    until: Option<Milliseconds>,
}

/// A limit, and perhaps a model, that hold as long as a client is connected.
#[derive(Debug)]
struct Lease {
    client: ClientId,
    /// What the client asked for; the config adds its average and budget.
    limit: Limit,
    model: Option<Rc<Loaded>>,
}

impl<F: Files> Daemon<F> {
    /// Creates the daemon with the limit for the time `utc`; reads and writes nothing yet.
    pub fn new(mut setup: Setup, files: F, utc: UtcSeconds) -> Self {
        let config = setup.config.clone();
        let limit = config.limit_at(utc);
        setup.config.limit = limit;
        let model = Rc::new(Loaded {
            path: config.model.clone(),
            choices: setup.choices.clone(),
        });
        Self {
            models: folder(&config.model),
            base: Rc::clone(&model),
            model,
            control: Control::new(setup, files),
            set: None,
            leases: Vec::new(),
            yielded: None,
            limit,
            source: config_source(&config),
            config,
            counters: Counters::default(),
            shown: None,
            changes: 0,
            now: Milliseconds(0),
            scheduled: None,
            modelled: None,
        }
    }

    /// Tells the board's own settings. The backstop stays below its limits of the current.
    pub fn keep_own(&mut self, own: &Saved) {
        self.control.keep_own(own);
    }

    /// Runs one control cycle. Returns when the next one is due.
    pub fn look(&mut self, clock: &impl Clock, emit: &mut impl FnMut(Event<'_>)) -> Milliseconds {
        let now = clock.now();
        self.now = now;
        self.expire(clock);
        if self.scheduled.is_none_or(|last| now.since(last) >= SECOND) {
            self.scheduled = Some(now);
            self.choose_limit(clock.utc());
        }
        let (control, counters) = (&mut self.control, &mut self.counters);
        let next = control.look(now, &mut |event| {
            counters.count(&event);
            emit(event);
        });
        let (status, _) = control.status();
        let shown = Some((status.state, status.mode));
        if std::mem::replace(&mut self.shown, shown) != shown {
            self.changes += 1;
        }
        next
    }

    /// The governor's status and the mode that it wants.
    pub fn status(&self) -> (Status, PowerMode) {
        self.control.status()
    }

    /// The limit in force and its source.
    pub fn limit(&self) -> (Limit, Source) {
        (self.limit, self.source)
    }

    /// A counter that increases whenever state, mode, limit or model change.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// The files of the board.
    pub fn files(&mut self) -> &mut F {
        self.control.files()
    }

    /// The board.
    pub fn board(&self) -> &Board {
        self.control.board()
    }

    /// The mode of fewest cores and lowest clocks.
    pub fn least(&self) -> PowerMode {
        self.control.least()
    }

    /// Controls a board on which more was found than before. Limits, leases and counters stay.
    pub fn take_board(&mut self, mut board: Board) {
        board.set_clocks(self.config.clocks);
        self.control.take_board(board);
    }

    /// Ends control, and leaves a mode on the board in which the limit holds without it. See [`Control::rest`].
    pub fn rest(self) -> Result<(PowerMode, Board, F), ApplyError> {
        self.control.rest()
    }

    /// Ends control and returns the board and its files, so that the caller can restore them.
    pub fn release(self) -> (Board, F) {
        self.control.release()
    }

    /// The report for clients and Prometheus.
    pub fn report(&self) -> Report {
        let (status, mode) = self.control.status();
        let [cores, cpu_khz, gpu_khz, emc_khz] = self.shown_knobs(mode);
        let (over, unknown) = self.control.over_and_unknown();
        let disobedient = self.control.board().disobedient();
        let disobedient = disobedient.map(|it| ReportedKnob {
            knob: it.path.display().to_string(),
            wanted: it.wanted,
            is: it.is,
        });
        let average = self.limit.average;
        let (seen, throttled) = (self.control.seen(), self.control.throttling());
        let events = seen.over_current_events;
        let [oc1_per_min, oc2_per_min, oc3_per_min] = seen.over_current_per_min;
        let [delivered_cpu_khz, delivered_gpu_khz, delivered_emc_khz] =
            seen.delivered.map(|clock| clock.map(|clock| clock.0));
        let violations = self.control.violations().map(|it| {
            let [cores, cpu_khz, gpu_khz, emc_khz] = it.answer.knobs();
            ReportedViolation {
                ago_ms: self.now.since(it.at).0,
                over_ms: it.over.0,
                highest_mw: it.highest.map(|it| it.0),
                allowed_mw: it.allowed.0,
                cores,
                cpu_khz,
                gpu_khz,
                emc_khz,
            }
        });
        let [oc1_events, oc2_events, oc3_events] =
            events.map(|count| count.and_then(|count| u64::try_from(count).ok()));
        let model = self.model.path.file_name().unwrap_or_default();
        let state = match self.yielded {
            Some(_) => YIELDED,
            None => state_name(status.state),
        };
        Report {
            state: state.into(),
            cores,
            cpu_khz,
            gpu_khz,
            emc_khz,
            measured_mw: status.measured.map(|it| it.0),
            predicted_mw: status.predicted.0,
            allowed_mw: status.allowed.0,
            ratio_ppm: (u64::from(status.ratio) * 1_000_000) >> 16,
            limit_mw: self.limit.power.0,
            limit_from: self.source,
            limit_for_ms: self.remaining().map(|it| it.0),
            average_mw: average.map(|it| it.power.0),
            average_window_ms: average.map(|it| it.window.0),
            throttled: throttled.by(),
            temperature_mc: seen.temperature_mc,
            input_mv: seen.input_mv,
            input_ma: seen.input_ma,
            delivered_cpu_khz,
            delivered_gpu_khz,
            delivered_emc_khz,
            oc1_per_min,
            oc2_per_min,
            oc3_per_min,
            oc1_events,
            oc2_events,
            oc3_events,
            least_mw: self.control.least_power().0,
            model: model.to_string_lossy().into_owned(),
            violations: self.control.violation_count(),
            changes: status.changes,
            over_limit_ms: over.0,
            unknown_ms: unknown.0,
            energy_mj: status.millijoules,
            sensor_errors: self.counters.sensor_errors(),
            failed_changes: self.control.failed_changes(),
            disobedient: disobedient.collect(),
            last_violations: violations.collect(),
        }
    }

    /// Cores and clocks as the board showed them last; a clock that the board does not show is the one that
    /// the governor wants.
    fn shown_knobs(&self, wanted: PowerMode) -> [u32; 4] {
        let Some(current) = self.control.current() else {
            return wanted.knobs();
        };
        PowerMode {
            cores: current.cores,
            cpu: current.cpu.unwrap_or(wanted.cpu),
            gpu: current.gpu.unwrap_or(wanted.gpu),
            emc: current.emc.unwrap_or(wanted.emc),
        }
        .knobs()
    }

    /// Takes over the limits of a new config and drops a client's limit, but no lease. Returns
    /// whether other keys differ; these need a restart.
    pub fn reload(&mut self, mut new: Config, utc: UtcSeconds) -> bool {
        if let Some(millivolts) = self.control.seen().input_mv {
            new.set_input(millivolts);
        }
        let with_limits = Config {
            limit: new.limit,
            current: new.current,
            max_limit: new.max_limit,
            schedule: new.schedule.clone(),
            ..self.config.clone()
        };
        let differs = with_limits != new;
        self.config = with_limits;
        self.control.set_current(self.config.current);
        self.set = None;
        self.choose_limit(utc);
        differs
    }

    /// Sets a client's limit; `None` returns to the config's limit and schedule.
    pub fn set_limit(
        &mut self,
        wanted: Option<WantedLimit>,
        clock: &impl Clock,
    ) -> Result<(), Refused> {
        self.now = clock.now();
        let set = wanted.map(|wanted| self.wanted(wanted));
        self.set = set.transpose()?;
        self.choose_limit(clock.utc());
        Ok(())
    }

    fn wanted(&self, wanted: WantedLimit) -> Result<SetLimit, Refused> {
        let limit = wanted.limit(self.config.limit)?;
        self.check_max(limit)?;
        let time = wanted.time()?;
        let until = time.map(|time| Milliseconds(self.now.0.saturating_add(time.0)));
        Ok(SetLimit { limit, until })
    }

    /// Refuses a client's limit over the config's `max_limit`.
    fn check_max(&self, limit: Limit) -> Result<(), Refused> {
        match self.config.max_limit {
            Some(max) if limit.power > max => {
                let (wanted, max) = (limit.power.0, max.0);
                let message = format!("power_mw is {wanted}, max_limit allows at most {max}");
                Err(Refused::new("over_max_limit", message))
            }
            _ => Ok(()),
        }
    }

    /// Drops a client's limit at the end of its time.
    fn expire(&mut self, clock: &impl Clock) {
        let until = self.set.and_then(|set| set.until);
        if until.is_some_and(|until| self.now >= until) {
            self.set = None;
            log(Priority::Notice, "a client's limit has expired");
            self.choose_limit(clock.utc());
        }
    }

    /// The time until the limit in force expires.
    fn remaining(&self) -> Option<Milliseconds> {
        let set = self.set.filter(|_| self.source == Source::Socket)?;
        Some(set.until?.since(self.now))
    }

    /// Makes the limit, and the model if one is named, hold as long as the client is connected. It
    /// replaces an earlier lease of this client. A refused lease changes nothing.
    pub fn lease(
        &mut self,
        client: ClientId,
        wanted: WantedLease,
        clock: &impl Clock,
    ) -> Result<(), Refused> {
        let limit = wanted.limit()?;
        self.check_max(limit)?;
        let model = wanted.model.map(|name| self.load(&name, clock.now()));
        let model = model.transpose()?;
        self.leases.retain(|lease| lease.client != client);
        self.leases.push(Lease {
            client,
            limit,
            model,
        });
        self.choose_model();
        self.choose_limit(clock.utc());
        Ok(())
    }

    /// Writes nothing to the board until [`Self::end_client`]. Refused while another client has it.
    pub fn yield_to(&mut self, client: ClientId) -> Result<(), Refused> {
        match self.yielded {
            Some(holder) if holder != client => {
                let message = "another client has the board";
                return Err(Refused::new("already_yielded", message));
            }
            Some(_) => return Ok(()),
            None => self.yielded = Some(client),
        }
        self.control.set_yielded(true);
        self.changes += 1;
        log(Priority::Notice, "yielded the board to a client");
        Ok(())
    }

    /// Whether a client has the board.
    pub fn is_yielded(&self) -> bool {
        self.yielded.is_some()
    }

    /// Whether this client has the board.
    pub fn has_board(&self, client: ClientId) -> bool {
        self.yielded == Some(client)
    }

    /// Ends what a client holds: its lease, and its right to the board. The next look takes the
    /// board over.
    pub fn end_client(&mut self, client: ClientId, utc: UtcSeconds) {
        let leases = self.leases.len();
        self.leases.retain(|lease| lease.client != client);
        if self.leases.len() < leases {
            self.choose_model();
            self.choose_limit(utc);
        }
        if self.has_board(client) {
            self.yielded = None;
            self.control.set_yielded(false);
            self.changes += 1;
            log(Priority::Notice, "took the board over from a client");
        }
    }

    fn choose_limit(&mut self, utc: UtcSeconds) {
        let before = (self.limit, self.source);
        let (config, max) = (self.config.limit, self.config.max_limit);
        let leased = self.leases.iter().map(|lease| Limit {
            // A reload may have lowered `max_limit` since the lease began.
            power: max.map_or(lease.limit.power, |max| max.min(lease.limit.power)),
            average: lease.limit.average.or(config.average),
            budget: config.budget,
        });
        (self.limit, self.source) = match (leased.reduce(lowest), self.set) {
            (Some(limit), _) => (limit, Source::Lease),
            (None, Some(set)) => (set.limit, Source::Socket),
            (None, None) => (self.config.limit_at(utc), config_source(&self.config)),
        };
        if (self.limit, self.source) != before {
            self.changes += 1;
            self.control.set_limit(self.limit);
            let (power, source) = (Watts(self.limit.power), self.source);
            log(
                Priority::Notice,
                format_args!("limit is now {power}, from the {source}"),
            );
        }
    }

    /// Replaces the model by another file in the folder of models, by its name or path. The model
    /// of a lease overrides it. Refused more than once a second.
    pub fn set_model(&mut self, name: &str, now: Milliseconds) -> Result<(), Refused> {
        self.base = self.load(name, now)?;
        self.choose_model();
        Ok(())
    }

    fn load(&mut self, name: &str, now: Milliseconds) -> Result<Rc<Loaded>, Refused> {
        if self.modelled.is_some_and(|last| now.since(last) < SECOND) {
            return Err(Refused::new(
                "too_many_requests",
                "at most one model per second",
            ));
        }
        self.modelled = Some(now);
        let config = Config {
            model: self.allowed(name)?,
            ..self.config.clone()
        };
        let choices = Choices::read(&config, self.control.board()).map_err(refused)?;
        if let Some(why) = choices.distrust {
            return Err(Refused::new("model_unsuitable", why));
        }
        let path = config.model;
        Ok(Rc::new(Loaded { path, choices }))
    }

    /// Puts the model of the newest lease that has one in force, or else the one of the config or
    /// of [`Self::set_model`].
    fn choose_model(&mut self) {
        let mut leased = self.leases.iter().rev();
        let leased = leased.find_map(|lease| lease.model.as_ref());
        let model = Rc::clone(leased.unwrap_or(&self.base));
        // Setting a model does not fail: `Choices::read` refuses one that does not suit.
        if Rc::ptr_eq(&model, &self.model) || self.control.set_model(&model.choices).is_err() {
            return;
        }
        self.changes += 1;
        let (path, origin) = (model.path.display(), &model.choices.origin);
        log(
            Priority::Notice,
            format_args!("model is now {path}: {origin}"),
        );
        self.model = model;
    }

    /// The path of a file in the folder of models; refuses other folders and symbolic links.
    fn allowed(&self, name: &str) -> Result<PathBuf, Refused> {
        let path = self.models.join(name);
        let is_name = matches!(path.components().next_back(), Some(Component::Normal(_)));
        match is_name && path.parent() == Some(&self.models) && !path.is_symlink() {
            true => Ok(path),
            false => {
                let folder = self.models.display();
                let message = format!("{name}: not a file in {folder}");
                Err(Refused::new("model_not_allowed", message))
            }
        }
    }
}

/// Combines the limits of two leases: the lower power, the lower average and the shorter window.
fn lowest(one: Limit, other: Limit) -> Limit {
    let average = match (one.average, other.average) {
        (Some(one), Some(other)) => Some(Average {
            power: one.power.min(other.power),
            window: one.window.min(other.window),
        }),
        (one, other) => one.or(other),
    };
    Limit {
        power: one.power.min(other.power),
        average,
        budget: one.budget,
    }
}

/// The canonical folder of a file, which itself may be a symbolic link.
fn folder(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().unwrap_or(&path);
    folder.canonicalize().unwrap_or_else(|_| folder.to_owned())
}

fn config_source(config: &Config) -> Source {
    match config.schedule {
        Some(_) => Source::Schedule,
        None => Source::Config,
    }
}

fn refused(error: SetupError) -> Refused {
    let name = match &error {
        SetupError::Model { .. } => "model_unreadable",
        SetupError::Format { .. } => "model_defective",
        SetupError::NoPower { .. }
        | SetupError::Confidence(_)
        | SetupError::NotProfiled { .. }
        | SetupError::NoCores { .. }
        | SetupError::OtherTpcs { .. }
        | SetupError::NoInput
        | SetupError::Backstop(_)
        | SetupError::Board(_) => "model_unsuitable",
        SetupError::OtherBoard { .. } | SetupError::Nothing { .. } => "model_for_other_board",
    };
    Refused::new(name, error)
}
