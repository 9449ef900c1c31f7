//! The daemon without its process: control of a board, plus the limit and the model, both of which may change at run
//! time. [`limits`](crate::limits) has the rule for the limit.
//!
//! A client's *lease* of a limit and a model ends with its connection, and so does its right to a
//! board that the daemon *yielded* to it.
//!
//! Time is an argument, so tests run in simulated time.

mod aims;
mod models;
mod reporting;

use std::path::PathBuf;
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
use crate::observer::{Look, Observer, Row};
use crate::quantity::Thousandths;
use crate::report::{Claim, Source};
use crate::serve::protocol::{Refused, WantedLease, WantedLimit};
use crate::serve::rate_limit::Sliding;
use crate::setup::Setup;
use crate::steps::workloads::Workloads;

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
    /// Those that come to the socket for steps.
    workloads: Workloads,
    /// Those who send too many, in the log.
    floods: Lines,
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
            workloads: Workloads::default(),
            floods: Lines::default(),
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
        self.pass_steps();
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

    /// Whether the power is over what root allows, and nothing here lowers it.
    pub fn calls_root(&self) -> bool {
        self.control.calls_root()
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
