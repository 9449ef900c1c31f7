//! Which aim the daemon pursues, what its deadline needs, and the time and energy of a step.

use wattgate_board::Files;
use wattgate_cli::aim::Wanted;
use wattgate_runtime::{Milliseconds, Milliwatts};

use super::{ClientId, Daemon, Lease};
use crate::aim::pursued::{Pursued, is_near};
use crate::aim::{Shown, Unmet};
use crate::clock::Clock;
use crate::control::Priority;
use crate::distrust::Distrust;
use crate::log::{Withheld, log, printable};
use crate::report::{Report, Step};
use crate::serve::protocol::{Refused, WantedAim};
use crate::steps::receiver::Received;
use crate::steps::workloads::NOBODY;

impl<F: Files> Daemon<F> {
    /// Sets an aim in place of the config's, until the daemon ends; `None` lifts it. The aim of a lease overrides it.
    pub fn set_aim(
        &mut self,
        wanted: Option<WantedAim>,
        clock: &impl Clock,
    ) -> Result<(), Refused> {
        self.check_holds()?;
        let wanted = wanted.map(|wanted| wanted.checked()).transpose()?;
        self.now = clock.now();
        // The total also has the steps from before: while several workloads told steps, it stood still.
        let told = match self.teller() {
            Some(lease) => lease.steps.unwrap_or(0),
            None => self.own_steps.unwrap_or(self.workloads.total()),
        };
        self.set_aim = wanted.map(|wanted| Pursued::new(wanted, self.now, told));
        self.choose_aim();
        Ok(())
    }

    /// As [`Self::set_aim`], where the daemon and the workload are in one process: nothing is logged.
    pub fn pursue(&mut self, wanted: Wanted, clock: &impl Clock) {
        self.now = clock.now();
        self.set_aim = Some(Pursued::new(wanted, self.now, 0));
        self.shown_aim = wanted;
        self.choose_aim();
    }

    /// Takes the number of steps that the workload has done since the client's lease began.
    pub fn take_steps(&mut self, client: ClientId, steps: u64) -> Result<(), Refused> {
        let lease = self.leases.iter_mut().find(|it| it.client == client);
        let Some(lease) = lease else {
            let message = "steps count under a lease: take one first";
            return Err(Refused::new("no_lease", message));
        };
        lease.steps = Some(steps);
        if self.teller().is_some_and(|lease| lease.client == client) {
            self.control.take_steps(steps);
        }
        Ok(())
    }

    /// Whether another datagram of the socket for steps is to be read now.
    pub fn takes_datagrams(&self, now: Milliseconds) -> bool {
        self.workloads.has_room(now)
    }

    /// Takes a datagram of the socket for steps.
    pub fn take_datagram(&mut self, received: Received, clock: &impl Clock) {
        let now = clock.now();
        if let Err(why) = &received.line
            && let Some(withheld) = self.floods.take(now)
        {
            let uid = received.uid.unwrap_or(NOBODY);
            let why: String = why.to_string().chars().map(printable).collect();
            let withheld = Withheld(withheld);
            log(
                Priority::Notice,
                format_args!("uid {uid} sends a line that tells no steps: {why}{withheld}"),
            );
        }
        let before = self.workloads.flooded_by(now);
        let energy_mj = self.control.status().0.millijoules;
        self.workloads.take(received, now, energy_mj);
        if let Some(uid) = self.workloads.flooded_by(now)
            && before.is_none()
            && let Some(withheld) = self.floods.take(now)
        {
            let withheld = Withheld(withheld);
            log(
                Priority::Notice,
                format_args!(
                    "uid {uid} sends steps faster than they are read; the limit holds, but nobody's speed may be known{withheld}"
                ),
            );
        }
    }

    /// Tells the control the steps that a workload has sent, also while it does no further ones.
    pub(super) fn pass_steps(&mut self) {
        if self.teller().is_none()
            && self.own_steps.is_none()
            && let Some(steps) = self.workloads.present(self.now)
        {
            self.control.take_steps(steps);
        }
    }

    /// Takes the number of steps that the workload has done since [`Self::pursue`].
    pub fn take_own_steps(&mut self, steps: u64) {
        self.own_steps = Some(steps);
        self.control.take_steps(steps);
    }

    /// The lease whose steps count: the newest one that has an aim, or else the newest one that told steps.
    fn teller(&self) -> Option<&Lease> {
        let mut newest = self.leases.iter().rev();
        let with_aim = newest.clone().find(|lease| lease.aim.is_some());
        with_aim.or_else(|| newest.find(|lease| lease.steps.is_some()))
    }

    /// The number of steps by which a deadline goes: the one that a lease tells; without one, that of the workload in this process;
    /// without one, that of the workload that sends its steps to the socket.
    fn told(&self) -> Option<u64> {
        match self.teller() {
            Some(lease) => lease.steps,
            None => self.own_steps.or_else(|| self.workloads.steps(self.now)),
        }
    }

    /// The aim in force, unless it is the config's, and the steps that are done under it.
    fn pursued(&self) -> (Option<Pursued>, Option<u64>) {
        let of_lease = self.teller().and_then(|lease| lease.aim);
        let aim = of_lease.or(self.set_aim);
        let done = |told| aim.map_or(told, |aim| aim.done(told));
        (aim, self.told().map(done))
    }

    /// What is wanted below the limit.
    fn wanted(&self) -> Wanted {
        let (pursued, _) = self.pursued();
        pursued.map_or(self.config.aim, |it| it.wanted)
    }

    /// Puts the aim of the rule in force: that of the newest lease that has one, or the one of [`Self::set_aim`], or the
    /// config's.
    pub(super) fn choose_aim(&mut self) {
        let wanted = self.wanted();
        let is_new = std::mem::replace(&mut self.shown_aim, wanted) != wanted;
        if is_new {
            self.changes += 1;
            self.tell(format_args!("aim is now {}", Shown(wanted)));
        }
        let (pursued, steps) = self.pursued();
        let choices = self.control.choices();
        // After a lease the config's aim holds again.
        let is_leased = self.teller().is_some_and(|lease| lease.aim.is_some());
        let afterwards = (self.config.aim, self.control.allowed());
        let first = choices.aim(wanted, is_leased.then_some(afterwards));
        let is_idle = self.control.is_idle();
        let aim = pursued.map_or(first, |it| it.aim(first, self.now, steps, is_idle));
        if is_new || !is_near(&aim, &self.aim) {
            self.aim = aim;
            self.control.set_aim(aim);
        }
    }

    /// Fills in the aim and its work.
    pub(super) fn report_aim(&self, report: &mut Report) {
        let (pursued, steps) = self.pursued();
        let late = pursued.and_then(|it| it.late(self.now, steps));
        let remaining = pursued.and_then(|it| it.remaining(self.now));
        report.unmet = match late {
            Some(left) => Some(format!(
                "the time for the work is over and {left} steps are left: the fastest mode within the limit runs"
            )),
            None if remaining == Some(Milliseconds(0)) && steps.is_none() => Some(
                "the time for the work is over, and nobody told the steps that are done".to_owned(),
            ),
            None => {
                let unmet = self.unmet(Milliwatts(report.allowed_mw));
                unmet.map(|it| it.to_string())
            }
        };
        let wanted = self.wanted();
        report.aim = (wanted != Wanted::FASTEST).then(|| Shown(wanted).to_string());
        // What else is told has its workload.
        report.steps = steps.filter(|_| pursued.is_some() || self.teller().is_some());
        report.remaining_ms = remaining.map(|it| it.0);
        // The governor's mode is not the board's while the daemon observes.
        if !self.observes() {
            (report.step, report.slower_step) = (self.workload_step(0), self.workload_step(1));
        }
        report.budget_left_mj = self.control.budget_left();
        // Since the newest lease began.
        let energy = |before: u64| report.energy_mj.saturating_sub(before);
        let lease = self.leases.last();
        report.lease_mj = lease.map(|lease| energy(lease.energy_before));
    }

    /// What the deadline needs that the limit does not allow; `None` if the steps that were told meet it.
    fn unmet(&self, allowed: Milliwatts) -> Option<Unmet> {
        let deadline = self.aim.deadline?;
        if self.control.slowness().is_some()
            && let Some(step) = self.workload_step(0)
            && step.us <= deadline.0
        {
            return None;
        }
        let offset = self.board().sensor_offset();
        let limit_for = |power: Milliwatts| {
            let power = Milliwatts(power.0.saturating_add(offset.0));
            self.control.supply().at_limit(power)
        };
        Unmet::find(&self.control.choices().front, &self.aim, allowed, limit_for)
    }

    /// Time and energy of a step in the present mode, or in one that is slower by so many places on the front: the
    /// measured time and power where they are known, the predicted ones elsewhere. `None` without a prediction: the lowest
    /// mode of a board need not be one of the model's.
    fn workload_step(&self, slower: usize) -> Option<Step> {
        // Then the times are those of no workload.
        if self.control.choices().distrust == Some(Distrust::NoModel) {
            return None;
        }
        let (status, _) = self.control.status();
        let front = &self.control.choices().front;
        let at = |index: usize| Some((front.points().get(index)?, front.times().get(index)?));
        let present = front
            .points()
            .iter()
            .position(|it| it.mode == status.mode)?;
        let (point, time) = at(present.checked_sub(slower)?)?;
        let (of_present, _) = at(present)?;
        if front.is_least_guessed() && present == slower {
            return None;
        }
        let measured = status.measured.map_or(0, |it| it.0);
        let ratio = match measured > 0 && of_present.power.0 > 0 {
            true => f64::from(measured) / f64::from(of_present.power.0),
            false => 1.0,
        };
        let power = f64::from(point.power.0) * ratio;
        let us = f64::from(time.0) * f64::from(self.control.slowness().unwrap_or(1.0));
        (power > 0.0).then_some(Step {
            us: us as u32,
            uj: (power * us / 1e3) as u64,
        })
    }
}
