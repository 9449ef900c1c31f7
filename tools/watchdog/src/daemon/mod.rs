//! The daemon without its process: control of a board, plus the limit and the model, both of which may change at run
//! time. [`limits`](crate::limits) has the rule for the limit.
//!
//! A client's *lease* of a limit and a model ends with its connection, and so does its right to a
//! board that the daemon *yielded* to it.
//!
//! Time is an argument, so tests run in simulated time.

mod aims;
mod models;

use std::path::{Path, PathBuf};
use std::rc::Rc;

use wattgate_board::{ApplyError, Board, Files, Saved};
use wattgate_cli::aim::Wanted;
use wattgate_runtime::governor::State;
use wattgate_runtime::{Aim, Limit, Milliseconds, Milliwatts, ModeId, PowerMode, Status};

use crate::aim::pursued::Pursued;
use crate::clock::{Clock, UtcSeconds};
use crate::config::Config;
use crate::control::{Control, Event, Priority};
use crate::counters::Counters;
use crate::lesson::{LONG_TIME, Lesson};
use crate::limits::{
    Held, Leased, Lowering, Lowerings, MAX_LOWERINGS, Owner, Setter, held, is_raised, lowered,
};
use crate::log::{Lines, Withheld, log};
use crate::meter::Meter;
use crate::observer::{Look, Observer, Row};
use crate::quantity::Thousandths;
use crate::report::{
    Claim, OBSERVING, OVER_LIMIT, Report, ReportedKnob, ReportedViolation, Source, YIELDED,
    state_name,
};
use crate::serve::protocol::{Refused, WantedLease, WantedLimit};
use crate::serve::rate_limit::Sliding;
use crate::setup::Setup;

use self::models::Loaded;

/// Interval of the schedule check, and of a user's attempts to load a model.
const SECOND: Milliseconds = Milliseconds(1_000);

/// A step that comes this much later than it was due counts as late: the board is busy, or clients disturb.
const LATE_BY: Milliseconds = Milliseconds(50);

/// The limit is raised at most this often in a second, whatever clients do. It is lowered at once.
const MAX_RAISES_PER_SECOND: usize = 4;

/// What a daemon that only observes says to whom wants it to set something.
const OBSERVES: &str = "the daemon only observes: it writes nothing to the board, and no limit holds; to hold one, take `observe = true` \
                        out of its config and type `systemctl restart wattgated`; to use the board without the daemon, type \
                        `systemctl stop wattgated`";

/// Control of a board, its limit and its model.
#[derive(Debug)]
pub struct Daemon<F> {
    control: Control<F>,
    config: Config,
    /// The model in force, the one that holds without leases, and the folder of models.
    model: Rc<Loaded>,
    base: Rc<Loaded>,
    models: PathBuf,
    lowerings: Lowerings,
    /// Counts the changes of the lowerings, and those that are saved.
    lowered: u64,
    saved: u64,
    leases: Vec<Lease>,
    /// The aim that root has set, the one that was told last, and that of the governor.
    set_aim: Option<Pursued>,
    shown_aim: Wanted,
    aim: Aim,
    /// Steps of a workload in this process.
    own_steps: Option<u64>,
    /// The client that has the board.
    yielded: Option<Yielded>,
    /// What a daemon that writes nothing would set; `None` for one that holds its limit.
    observer: Option<Observer>,
    /// The limit in force.
    held: Held,
    raises: Sliding<MAX_RAISES_PER_SECOND>,
    /// Changes of the limit in the log.
    lines: Lines,
    counters: Counters,
    /// State and mode after the last step; number of changes of state, mode, limit or model.
    shown: Option<(State, ModeId)>,
    changes: u64,
    /// Time of the last step or change of the limit.
    now: Milliseconds,
    scheduled: Option<Milliseconds>,
    /// Up to when the time of limits has passed.
    timed: Option<Milliseconds>,
    /// When the next step is due, and how many were late.
    due: Option<Milliseconds>,
    late: u32,
    /// When owners last asked for a model, and when one was last loaded.
    asked: Vec<(Owner, Milliseconds)>,
    modelled: Option<Milliseconds>,
}

/// The number of a client's connection; no two connections have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientId(pub u64);

/// A limit, and perhaps a model, that hold as long as a client is connected.
#[derive(Debug)]
struct Lease {
    client: ClientId,
    leased: Leased,
    model: Option<Rc<Loaded>>,
    aim: Option<Pursued>,
    /// Steps that the client has told.
    steps: Option<u64>,
    /// Energy since the start, in mJ, when the lease began.
    energy_before: u64,
}

/// Who has the board, and how long the limit had been exceeded when that began.
#[derive(Clone, Copy, Debug)]
struct Yielded {
    client: ClientId,
    over: Milliseconds,
    since: Milliseconds,
}

impl<F: Files> Daemon<F> {
    /// Creates the daemon with the limit for the time `utc` and the lowerings of an earlier process; reads and writes
    /// nothing yet.
    pub fn new(mut setup: Setup, files: F, utc: UtcSeconds, lowerings: Lowerings) -> Self {
        let config = setup.config.clone();
        let base = config.limit_at(utc).power;
        let held = held(&config, base, &lowerings, std::iter::empty());
        setup.config.limit = held.limit;
        let setup_aim = setup.aim();
        let model = Rc::new(Loaded {
            path: config.model.clone(),
            choices: setup.choices.clone(),
        });
        Self {
            models: setup.models.clone(),
            base: Rc::clone(&model),
            model,
            control: Control::new(setup, files),
            lowerings,
            lowered: 0,
            saved: 0,
            leases: Vec::new(),
            set_aim: None,
            shown_aim: config.aim,
            aim: setup_aim,
            own_steps: None,
            yielded: None,
            observer: config.observe.then(|| Observer::new(config.memory)),
            held,
            raises: Sliding::default(),
            lines: Lines::default(),
            config,
            counters: Counters::default(),
            shown: None,
            changes: 0,
            now: Milliseconds(0),
            scheduled: None,
            timed: None,
            due: None,
            late: 0,
            asked: Vec::new(),
            modelled: None,
        }
    }

    /// Tells the board's own settings. The backstop stays below its limits of the current.
    pub fn keep_own(&mut self, own: &Saved) {
        self.control.keep_own(own);
    }

    /// When the next control cycle is due; `None` before the first one.
    pub fn due(&self) -> Option<Milliseconds> {
        self.due
    }

    /// Runs one control cycle if one is due, or else glances at the mode. Returns when to call it again.
    pub fn step(&mut self, clock: &impl Clock, emit: &mut impl FnMut(Event<'_>)) -> Milliseconds {
        let now = clock.now();
        self.expire(clock);
        let is_late = |due: Milliseconds| now.since(due) >= LATE_BY;
        self.late += u32::from(self.due.is_some_and(is_late));
        if self.scheduled.is_none_or(|last| now.since(last) >= SECOND) {
            self.scheduled = Some(now);
            self.choose_limit(clock.utc());
            self.choose_aim();
        }
        let (control, counters) = (&mut self.control, &mut self.counters);
        let next = control.step(now, &mut |event| {
            counters.count(&event);
            emit(event);
        });
        // A change of the mode takes its time.
        self.due = Some(control.due().unwrap_or(next).max(clock.now()));
        let (status, _) = control.status();
        let shown = Some((status.state, status.mode));
        if std::mem::replace(&mut self.shown, shown) != shown {
            self.changes += 1;
        }
        self.remember_distrust();
        self.observe(emit);
        next
    }

    /// Looks once a second what would be set, if the daemon only observes.
    fn observe(&mut self, emit: &mut impl FnMut(Event<'_>)) {
        let (control, now) = (&self.control, self.now);
        let Some(observer) = self.observer.as_mut().filter(|it| it.is_due(now)) else {
            return;
        };
        let (status, _) = control.status();
        let (over, unknown) = control.over_and_unknown();
        let look = Look {
            now,
            current: control.current(),
            measured: status.measured,
            allowed: status.allowed,
            limit: control.module_limit(),
            gpu_load: control.gpu_load(),
            millijoules: status.millijoules,
            over,
            unknown,
            times: control.violation_count(),
        };
        let told = observer.look(look, control.choices(), control.board(), &self.aim);
        if let Some(choice) = told.0 {
            emit(Event::WouldSet(choice));
        }
        if let Some(summary) = told.1 {
            emit(Event::Observed(summary));
        }
    }

    /// Whether the daemon writes nothing to the board.
    pub fn observes(&self) -> bool {
        self.observer.is_some()
    }

    /// What was observed in the minute that has just ended; once.
    pub fn take_row(&mut self) -> Option<Row> {
        self.observer.as_mut()?.take_row()
    }

    /// Refuses what a daemon that only observes cannot do. It does not lend the board either: nobody would set a mode when
    /// the client ends.
    pub fn check_holds(&self) -> Result<(), Refused> {
        match self.observes() {
            true => Err(Refused::new("observing", OBSERVES)),
            false => Ok(()),
        }
    }

    /// The governor's status and the mode that it wants.
    pub fn status(&self) -> (Status, PowerMode) {
        self.control.status()
    }

    /// The limit in force and its source.
    pub fn limit(&self) -> (Limit, Source) {
        (self.held.limit, self.held.source)
    }

    /// The lowerings with the number of their changes.
    pub fn lowerings(&self) -> (&Lowerings, u64) {
        (&self.lowerings, self.lowered)
    }

    /// Tells up to which change the lowerings are saved.
    pub fn note_saved(&mut self, changes: u64) {
        self.saved = changes;
    }

    /// What this unit of the board has taught under the model in force; `None` if nothing yet.
    pub fn lesson(&self, at: UtcSeconds) -> Option<Lesson> {
        self.control.lesson(LONG_TIME, at).ok()
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
        // A clock that the board does not show is the one that the governor wants.
        let shown = self.control.current().map_or(mode, |it| it.or(mode));
        let [cores, cpu_khz, gpu_khz, emc_khz] = shown.knobs();
        let (over, unknown) = self.control.over_and_unknown();
        let disobedient = self.control.board().disobedient();
        let disobedient = disobedient.map(|it| ReportedKnob {
            knob: it.path.display().to_string(),
            wanted: it.wanted,
            is: it.is,
        });
        let Held { limit, source, by } = &self.held;
        let average = limit.average;
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
        let model = self.model.path.as_deref().and_then(Path::file_name);
        let over_since = self.control.over_since();
        let state = match (self.yielded, over_since) {
            _ if self.observes() => OBSERVING,
            (Some(_), _) => YIELDED,
            (None, Some(_)) => OVER_LIMIT,
            (None, None) => state_name(status.state),
        };
        let predicted = match &self.observer {
            Some(observer) => observer.predicted().unwrap_or_default(),
            None => status.predicted,
        };
        let of_prediction =
            |power: Milliwatts| u64::from(power.0) * 1_000_000 / u64::from(predicted.0.max(1));
        let ratio_ppm = match self.observes() {
            true => status
                .measured
                .filter(|_| predicted.0 > 0)
                .map_or(0, of_prediction),
            false => (u64::from(status.ratio) * 1_000_000) >> 16,
        };
        let mut report = Report {
            holding: !self.observes() && self.yielded.is_none(),
            state: state.into(),
            cores,
            cpu_khz,
            gpu_khz,
            emc_khz,
            measured_mw: status.measured.map(|it| it.0),
            predicted_mw: predicted.0,
            faster_mw: self.control.faster().map(|it| it.0),
            allowed_mw: status.allowed.0,
            ratio_ppm,
            limit_mw: limit.power.0,
            limit_from: *source,
            limit_by: by.clone(),
            limit_for_ms: self.remaining(),
            max_limit_mw: self.config.most().0,
            over_for_ms: over_since.map(|since| self.now.since(since).0),
            unsaved: self.lowered != self.saved,
            claims: self.claims().collect(),
            average_mw: average.map(|it| it.power.0),
            average_window_ms: average.map(|it| it.window.0),
            limit_at: self.config.limit_place(),
            module_limit_mw: None,
            supply_mw: None,
            supply_added_mw: None,
            meter_mw: None,
            meter_fault: None,
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
            model: model.map(|it| it.to_string_lossy().into_owned()),
            gated: self.control.board().gated().map(|it| it.to_string()),
            unit: self.control.choices().of_unit(status.allowed),
            observed: self.observer.as_ref().map(Observer::report),
            aim: None,
            unmet: None,
            steps: None,
            remaining_ms: None,
            step: None,
            slower_step: None,
            lease_mj: None,
            budget_left_mj: None,
            violations: self.control.violation_count(),
            changes: status.changes,
            over_limit_ms: over.0,
            unknown_ms: unknown.0,
            energy_mj: status.millijoules,
            sensor_errors: self.counters.sensor_errors(),
            failed_changes: self.control.failed_changes(),
            late_looks: self.late,
            disobedient: disobedient.collect(),
            last_violations: violations.collect(),
        };
        self.report_aim(&mut report);
        self.report_supply(&mut report);
        report
    }

    /// Fills in the supply, if the limits are its own.
    fn report_supply(&self, report: &mut Report) {
        let supply = self.control.supply();
        if !supply.is_limited() {
            return;
        }
        let measured = report.measured_mw.map(Milliwatts);
        report.module_limit_mw = Some(self.control.module_limit().0);
        report.supply_mw = measured.map(|module| supply.draw().supply(module).0);
        report.supply_added_mw = supply.meter().map(|_| supply.added().0);
        report.meter_mw = supply.meter().and_then(|it| Some(it.shown()?.0));
        let fault = supply.meter().and_then(Meter::fault);
        report.meter_fault = fault.map(|fault| fault.to_string());
    }

    /// Whether the power is over what root allows, and nothing here lowers it.
    pub fn calls_root(&self) -> bool {
        self.control.calls_root()
    }

    /// What clients have claimed: lowerings and leases.
    fn claims(&self) -> impl Iterator<Item = Claim> {
        let lowerings = self.lowerings.iter().map(|it| Claim {
            source: Source::Socket,
            by: it.by.clone(),
            limit_mw: it.power_mw,
            average_mw: it.average.map(|(power, _)| power),
            average_window_ms: it.average.map(|(_, window)| window),
            for_ms: it.left_ms,
        });
        let leases = self.leases.iter().map(|lease| Claim {
            source: Source::Lease,
            by: lease.leased.by.clone(),
            limit_mw: lease.leased.power.0,
            average_mw: lease.leased.average.map(|it| it.power.0),
            average_window_ms: lease.leased.average.map(|it| it.window.0),
            for_ms: lease.leased.until.map(|until| until.since(self.now).0),
        });
        lowerings.chain(leases)
    }

    /// Whether a new config has the supply of the one in force.
    pub fn has_supply_of(&self, new: &Config) -> bool {
        self.config.supply == new.supply
    }

    /// Takes over the limits of a new config, which has [the same supply](Self::has_supply_of). What clients have set stays. Returns whether other keys differ; these
    /// need a restart.
    pub fn reload(&mut self, mut new: Config, utc: UtcSeconds) -> bool {
        if let Some(millivolts) = self.control.seen().input_mv {
            new.set_input(millivolts);
        }
        let with_limits = Config {
            limit: new.limit,
            current: new.current,
            max_limit: new.max_limit,
            schedule: new.schedule.clone(),
            aim: new.aim,
            ..self.config.clone()
        };
        let differs = with_limits != new;
        self.config = with_limits;
        self.control.set_current(self.config.current);
        self.choose_aim();
        self.choose_limit(utc);
        differs
    }

    /// Lowers the limit for a client, in place of its owner's earlier lowering; `None` lifts that one.
    pub fn set_limit(
        &mut self,
        wanted: Option<WantedLimit>,
        by: Setter,
        clock: &impl Clock,
    ) -> Result<(), Refused> {
        self.check_holds()?;
        self.expire(clock);
        let Some(wanted) = wanted else {
            self.lift(by.owner, clock);
            return Ok(());
        };
        let (limit, time) = wanted.checked()?;
        self.check_max(limit)?;
        let lowering = Lowering {
            by,
            power_mw: limit.power.0,
            average: limit.average.map(|it| (it.power.0, it.window.0)),
            left_ms: time.map(|time| time.0),
        };
        if !self.lowerings.set(lowering) {
            let message = format!(
                "{MAX_LOWERINGS} users have lowered the limit already; one of them has to lift what it has set"
            );
            return Err(Refused::new("too_many_lowerings", message));
        }
        self.lowered += 1;
        self.choose_limit(clock.utc());
        Ok(())
    }

    /// Lifts an owner's lowering; false if there is none.
    pub fn lift(&mut self, owner: Owner, clock: &impl Clock) -> bool {
        let is_lifted = self.lowerings.lift(owner);
        if is_lifted {
            self.lowered += 1;
            self.choose_limit(clock.utc());
        }
        is_lifted
    }

    /// Refuses a client's limit over the highest that the config allows.
    fn check_max(&self, limit: Limit) -> Result<(), Refused> {
        let most = self.config.most();
        if limit.power <= most {
            return Ok(());
        }
        let from = match self.config.max_limit {
            Some(_) => "max_limit of the config; ask for less, or let root raise it",
            None => {
                "the highest limit of the config; ask for less, or let root set max_limit in the config"
            }
        };
        let (wanted, most) = (limit.power.0, most.0);
        let message = format!("power_mw is {wanted}, expected at most {most}, {from}");
        Err(Refused::new("over_max_limit", message))
    }

    /// Lets time pass for what clients have set.
    fn expire(&mut self, clock: &impl Clock) {
        let now = clock.now();
        self.now = now;
        let last = self.timed.replace(now);
        let passed = last.map_or(Milliseconds(0), |last| now.since(last));
        let over = self.lowerings.pass(passed);
        if !over.is_empty() {
            self.lowered += 1;
            for by in &over {
                self.tell(format_args!("{by}: the time of its limit is over"));
            }
        }
        let leases = self.leases.len();
        let is_over = |until: Milliseconds| now >= until;
        self.leases
            .retain(|lease| !lease.leased.until.is_some_and(is_over));
        if self.leases.len() < leases {
            self.choose_model();
            self.choose_aim();
        }
        if self.leases.len() < leases || !over.is_empty() {
            self.choose_limit(clock.utc());
        }
    }

    /// Logs a change of the limit, unless there are too many.
    fn tell(&mut self, what: std::fmt::Arguments<'_>) {
        if let Some(withheld) = self.lines.take(self.now) {
            log(
                Priority::Notice,
                format_args!("{what}{}", Withheld(withheld)),
            );
        }
    }

    /// The time in ms until what holds expires.
    fn remaining(&self) -> Option<u64> {
        let held = &self.held;
        let same = |claim: &Claim| {
            (claim.source, Some(&claim.by)) == (held.source, held.by.as_ref())
                && claim.limit_mw == held.limit.power.0
        };
        self.claims().find(same)?.for_ms
    }

    /// Makes the limit, and the model if one is named, hold as long as the client is connected, and for its time. It
    /// replaces an earlier lease of this client. A refused lease changes nothing.
    pub fn lease(
        &mut self,
        client: ClientId,
        wanted: WantedLease,
        by: Setter,
        clock: &impl Clock,
    ) -> Result<(), Refused> {
        self.check_holds()?;
        self.expire(clock);
        let (wanted, model, aim) = wanted.parts();
        let (limit, time) = wanted.checked()?;
        let aim = aim.map(|aim| aim.checked()).transpose()?;
        self.check_max(limit)?;
        let model = match model {
            Some(name) => Some(self.load_again(client, &name, by.owner)?),
            None => None,
        };
        self.leases.retain(|lease| lease.client != client);
        self.leases.push(Lease {
            client,
            leased: Leased {
                by,
                power: limit.power,
                average: limit.average,
                until: time.map(|time| Milliseconds(self.now.0.saturating_add(time.0))),
            },
            model,
            aim: aim.map(|aim| Pursued::new(aim, self.now, 0)),
            steps: None,
            energy_before: self.control.status().0.millijoules,
        });
        self.choose_model();
        self.choose_limit(clock.utc());
        self.choose_aim();
        Ok(())
    }

    /// Whether a client has a lease.
    pub fn has_leased(&self, client: ClientId) -> bool {
        self.leases.iter().any(|lease| lease.client == client)
    }

    /// Writes nothing to the board until [`Self::end_client`]. Refused while another client has it.
    pub fn yield_to(&mut self, client: ClientId) -> Result<(), Refused> {
        self.check_holds()?;
        match self.yielded {
            Some(holder) if holder.client != client => {
                let message = "another client has the board; try again when it has ended";
                return Err(Refused::new("already_yielded", message));
            }
            Some(_) => return Ok(()),
            None => {
                let (over, _) = self.control.over_and_unknown();
                let since = self.now;
                self.yielded = Some(Yielded {
                    client,
                    over,
                    since,
                });
            }
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
        self.yielded.is_some_and(|holder| holder.client == client)
    }

    /// Ends what a client holds: its lease, and its right to the board. The next step takes the
    /// board over.
    pub fn end_client(&mut self, client: ClientId, utc: UtcSeconds) {
        let leases = self.leases.len();
        self.leases.retain(|lease| lease.client != client);
        if self.leases.len() < leases {
            self.choose_model();
            self.choose_limit(utc);
            self.choose_aim();
        }
        if let Some(holder) = self.yielded.take_if(|holder| holder.client == client) {
            self.control.set_yielded(false);
            self.changes += 1;
            let (over, _) = self.control.over_and_unknown();
            let [time, over] = [self.now.since(holder.since), over.since(holder.over)];
            log(
                Priority::Notice,
                format_args!(
                    "took the board over from a client after {} s, {} s of them over the limit",
                    Thousandths(time.0),
                    Thousandths(over.0)
                ),
            );
        }
    }

    /// Puts the limit of the rule in force. Where clients raise it too often, what is higher waits for a later step.
    fn choose_limit(&mut self, utc: UtcSeconds) {
        let base = self.config.limit_at(utc).power;
        let leases = self.leases.iter().map(|lease| &lease.leased);
        let now = held(&self.config, base, &self.lowerings, leases);
        let of_root = self.lowerings.iter().find(|it| it.is_of_root());
        let of_root = of_root.map_or(u32::MAX, |it| it.power_mw);
        self.control
            .set_roots(self.config.most().min(base).min(Milliwatts(of_root)));
        let mut is_raised = is_raised(self.held.limit, now.limit);
        let now = match is_raised && !self.raises.has_room(self.now) {
            true => {
                is_raised = false;
                lowered(&self.held, now)
            }
            false => now,
        };
        let before = std::mem::replace(&mut self.held, now);
        if before == self.held {
            return;
        }
        if is_raised {
            self.raises.count(self.now);
        }
        self.changes += 1;
        self.control.set_limit(self.held.limit);
        let Held { limit, source, by } = self.held.clone();
        let limit = self.config.at_limit(limit.power);
        match by {
            Some(by) => self.tell(format_args!(
                "limit is now {limit}, from the {source} of {by}"
            )),
            None => self.tell(format_args!("limit is now {limit}, from the {source}")),
        }
    }
}
