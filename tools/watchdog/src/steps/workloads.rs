//! The workloads that tell their steps, each with its speed and energy.
//!
//! A workload is a name that a user's processes tell, or none. Its speed is the mean over the last ten seconds. The energy of a
//! step is the module's energy of that time, so it is known only while nothing else tells steps.

use std::collections::{BTreeMap, VecDeque};

use wattgate_cli::steps::StepLine;
use wattgate_runtime::Milliseconds;

use super::Told;
use super::receiver::Received;
use super::senders::{Counter, Senders};
use crate::report::{ReportedWorkload, Step};
use crate::serve::rate_limit::RateCounter;

/// Number of workloads that are kept apart.
const MOST: usize = 64;

/// Number of datagrams that are read in a second: 40 counters at the rate of our packages, which send one each 20 ms.
const MAX_PER_SECOND: u32 = 2_000;

/// A user who has sent more is named for this long.
const NAMED: Milliseconds = Milliseconds(10_000);

/// Stands for a user whom Linux does not tell: its default of `/proc/sys/kernel/overflowuid`.
pub const NOBODY: u32 = 65_534;

/// A count that grows by more than this in a millisecond is taken for one that begins anew: nothing is as fast.
const MAX_PER_MS: u64 = 1_000;

/// A workload that has done no step for this long is not shown any more.
const SHOWN: Milliseconds = Milliseconds(60_000);

/// The speed of a workload is its mean over this time.
const SPAN: Milliseconds = Milliseconds(10_000);

/// The counts of which a mean is taken are at least this far apart.
const MARK_INTERVAL: Milliseconds = Milliseconds(250);

/// Time without a step after which a workload is idle: in ms and in steps. The longer one counts.
const IDLE_AFTER_MS: u64 = 2_000;
const IDLE_AFTER_STEPS: u64 = 3;

/// A count, when it arrived, and the module's energy until then.
#[derive(Clone, Copy, Debug)]
struct Mark {
    at: Milliseconds,
    steps: u64,
    energy_mj: u64,
}

/// Steps under one name of one user.
#[derive(Debug)]
struct Workload {
    name: Option<String>,
    uid: Option<u32>,
    /// The last sender.
    process: Option<i32>,
    senders: Senders,
    steps: u64,
    /// When the count last grew.
    grew: Milliseconds,
    marks: VecDeque<Mark>,
    /// The last counter that told less than another one, and its count.
    behind: Option<(Counter, u64)>,
}

impl Workload {
    fn new(name: Option<String>, uid: Option<u32>, now: Milliseconds) -> Self {
        Self {
            name,
            uid,
            process: None,
            senders: Senders::default(),
            steps: 0,
            grew: now,
            marks: VecDeque::new(),
            behind: None,
        }
    }

    /// Takes a line of a counter. Returns the steps since the one before, 0 of the first one.
    fn take(&mut self, counter: Counter, line: StepLine, now: Milliseconds, energy_mj: u64) -> u64 {
        let told = line.steps;
        let count = self.senders.take(counter.clone(), line.clone());
        let behind = self.behind.take();
        let steps = match count {
            Some(steps) if steps >= self.steps => steps,
            // It counts anew, as at the beginning of an epoch.
            Some(_) => return self.begin(counter, line, now, energy_mj),
            // The one that was ahead has ended, and this one goes on.
            None if self.is_idle(now)
                && behind.is_some_and(|(it, steps)| it == counter && steps < told) =>
            {
                return self.begin(counter, line, now, energy_mj);
            }
            None => {
                self.behind = Some((counter, told));
                return 0;
            }
        };
        let more = steps - self.steps;
        let passed = now.since(self.grew).0;
        if self.marks.is_empty() || more > MAX_PER_MS.saturating_mul(passed.max(1)) {
            return self.begin(counter, line, now, energy_mj);
        }
        // The first steps of slow ones look like a pause.
        if self.step().is_some() && self.is_idle(now) {
            self.marks.clear();
        }
        self.mark(steps, now, energy_mj);
        more
    }

    /// Counts from a line on.
    fn begin(
        &mut self,
        counter: Counter,
        line: StepLine,
        now: Milliseconds,
        energy_mj: u64,
    ) -> u64 {
        self.senders = Senders::default();
        let steps = self.senders.take(counter, line).unwrap_or(0);
        self.marks.clear();
        self.mark(steps, now, energy_mj);
        0
    }

    fn mark(&mut self, steps: u64, now: Milliseconds, energy_mj: u64) {
        (self.steps, self.grew) = (steps, now);
        let last = self.marks.back().map(|mark| mark.at);
        if last.is_none_or(|last| now.since(last) >= MARK_INTERVAL) {
            self.marks.push_back(Mark {
                at: now,
                steps,
                energy_mj,
            });
        }
        // Slow steps have two marks all the same.
        while self.marks.len() > 2 && self.marks.front().is_some_and(|it| now.since(it.at) > SPAN) {
            self.marks.pop_front();
        }
    }

    /// Time and energy of a step in µs and µJ; `None` before they are known.
    fn step(&self) -> Option<Step> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let steps = last.steps.checked_sub(first.steps)?;
        let us = last.at.since(first.at).0.checked_mul(1_000)?;
        let us = u32::try_from(us.checked_div(steps)?).ok()?;
        let energy = last.energy_mj.saturating_sub(first.energy_mj);
        let uj = energy.saturating_mul(1_000).checked_div(steps)?;
        (us > 0).then_some(Step { us, uj })
    }

    /// Whether it has done a step in the time of the mean, or is not idle.
    fn is_active(&self, now: Milliseconds) -> bool {
        now.since(self.grew) < SPAN || !self.is_idle(now)
    }

    fn is_idle(&self, now: Milliseconds) -> bool {
        let step_ms = self.step().map_or(0, |step| u64::from(step.us) / 1_000);
        now.since(self.grew).0 >= IDLE_AFTER_MS.max(IDLE_AFTER_STEPS * step_ms)
    }

    fn is_shown(&self, now: Milliseconds) -> bool {
        now.since(self.grew) < SHOWN
    }
}

/// All workloads, the last one to tell last.
#[derive(Debug, Default)]
pub struct Workloads {
    known: Vec<Workload>,
    /// The sum of the steps that workloads have done while no other one did any; `None` before the first line.
    total: Option<u64>,
    read: RateCounter,
    /// A user, and votes: if one user has sent more than half of the datagrams of this second, it is this one (the majority
    /// vote of Boyer and Moore).
    voted: (Option<u32>, u32),
    /// Who sent most of those of a second in which too many came, and when.
    flooded: Option<(u32, Milliseconds)>,
}

impl Workloads {
    /// Whether another datagram is to be read now.
    pub fn has_room(&self, now: Milliseconds) -> bool {
        self.read.has_room(MAX_PER_SECOND, now)
    }

    /// The user whose datagrams come faster than they are read.
    pub fn flooded_by(&self, now: Milliseconds) -> Option<u32> {
        let flooded = self.flooded.filter(|(_, at)| now.since(*at) < NAMED);
        flooded.map(|(uid, _)| uid)
    }

    /// Takes a datagram; one that is no line of the protocol is ignored. `energy_mj` is what the module has drawn so far.
    pub fn take(&mut self, received: Received, now: Milliseconds, energy_mj: u64) {
        self.count(received.uid, now);
        let Ok(line) = received.line else {
            return;
        };
        let (name, uid) = (line.name.clone(), received.uid);
        let is_it = |it: &Workload| it.name == name && it.uid == uid;
        let mut workload = match self.known.iter().position(is_it) {
            Some(known) => self.known.remove(known),
            None => {
                self.make_room(now);
                Workload::new(name, uid, now)
            }
        };
        workload.process = received.counter.process;
        let more = workload.take(received.counter, line, now, energy_mj);
        self.known.push(workload);
        let more = if self.is_alone(now) { more } else { 0 };
        self.total = Some(self.total().saturating_add(more));
    }

    /// Counts a datagram, and names who sends too many.
    fn count(&mut self, uid: Option<u32>, now: Milliseconds) {
        let count = self.read.count(now);
        self.voted = match self.voted {
            (voted, votes) if count > 1 && votes > 0 && voted == uid => (uid, votes + 1),
            (voted, votes) if count > 1 && votes > 0 => (voted, votes - 1),
            _ => (uid, 1),
        };
        if count >= MAX_PER_SECOND {
            let (voted, _) = self.voted;
            self.flooded = Some((voted.unwrap_or(NOBODY), now));
        }
    }

    /// Forgets a workload if there are too many: one that is not shown any more, or of the user who has the most, the one that has
    /// been silent for longest.
    fn make_room(&mut self, now: Milliseconds) {
        if self.known.len() < MOST {
            return;
        }
        let of = |uid: Option<u32>| self.known.iter().filter(move |it| it.uid == uid).count();
        // Of equals, `max_by_key` takes the last.
        let silent_first = self.known.iter().map(|it| it.uid).rev();
        let most = silent_first.max_by_key(|uid| of(*uid));
        let is_over = |it: &Workload| !it.is_shown(now);
        let over = self.known.iter().position(is_over);
        let first = || self.known.iter().position(|it| Some(it.uid) == most);
        if let Some(index) = over.or_else(first) {
            self.known.remove(index);
        }
    }

    /// Whether at most one workload has done steps lately.
    fn is_alone(&self, now: Milliseconds) -> bool {
        self.known.iter().filter(|it| it.is_active(now)).count() <= 1
    }

    /// Steps so far.
    pub fn total(&self) -> u64 {
        self.total.unwrap_or(0)
    }

    /// The steps that an aim counts. `None` if no workload has told any, or while several do: nobody knows whose the aim is.
    pub fn steps(&self, now: Milliseconds) -> Option<u64> {
        self.total.filter(|_| self.is_alone(now))
    }

    /// The same while a workload is shown.
    pub fn present(&self, now: Milliseconds) -> Option<u64> {
        let is_shown = self.known.iter().any(|it| it.is_shown(now));
        self.steps(now).filter(|_| is_shown)
    }

    /// At most `most` workloads for the report. First comes the last one of each user to tell steps, then each user's one before,
    /// and so on, so that many names of one user hide nobody else's.
    pub fn shown(&self, now: Milliseconds, most: usize) -> Vec<ReportedWorkload> {
        let is_alone = self.is_alone(now);
        let shown = self.known.iter().rev().filter(|it| it.is_shown(now));
        let mut of_users: BTreeMap<Option<u32>, usize> = BTreeMap::new();
        let mut shown: Vec<(usize, &Workload)> = shown
            .map(|it| {
                let rank = of_users.entry(it.uid).or_default();
                *rank += 1;
                (*rank, it)
            })
            .collect();
        shown.sort_by_key(|(rank, _)| *rank);
        let reported = shown.into_iter().map(|(_, it)| {
            let idle = it.is_idle(now);
            let step = it.step().filter(|_| !idle);
            let Told {
                fetch_us,
                compute_us,
                items,
            } = it.senders.told();
            ReportedWorkload {
                name: it.name.clone(),
                uid: it.uid,
                pid: it.process,
                steps: it.steps,
                at_ms: it.grew.0,
                idle,
                step_us: step.map(|step| step.us),
                step_uj: step.map(|step| step.uj).filter(|_| is_alone),
                fetch_us,
                compute_us,
                items,
            }
        });
        reported.take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of a user's process.
    fn line(uid: u32, process: i32, text: &str) -> Received {
        Received {
            counter: Counter {
                process: Some(process),
                address: None,
            },
            uid: Some(uid),
            line: StepLine::parse(text.as_bytes()),
        }
    }

    const fn ms(ms: u64) -> Milliseconds {
        Milliseconds(ms)
    }

    #[test]
    fn a_workload_has_its_speed_and_its_energy() {
        let mut workloads = Workloads::default();
        // 50 steps a second at 20 W, in a datagram each 100 ms.
        for turn in 0..200 {
            let text = format!("steps={} name=yolo items=8", 1_000 + 5 * turn);
            workloads.take(line(7, 1, &text), ms(100 * turn), 2_000 * turn);
        }
        let now = ms(19_900);
        let [yolo] = &workloads.shown(now, 8)[..] else {
            panic!("one workload");
        };
        let step = (yolo.step_us, yolo.step_uj);
        assert_eq!(step, (Some(20_000), Some(400_000)));
        assert_eq!((yolo.name.as_deref(), yolo.uid), (Some("yolo"), Some(7)));
        assert_eq!((yolo.steps, yolo.items, yolo.idle), (1_995, Some(8), false));
        // What was done before the first line does not count.
        assert_eq!(workloads.steps(now), Some(995));
        let idle = |at| workloads.shown(at, 8).first().map(|it| it.idle);
        assert_eq!(idle(ms(21_899)), Some(false));
        assert_eq!(idle(ms(21_900)), Some(true));
        assert_eq!(idle(ms(79_900)), None);
        assert_eq!(workloads.steps(ms(79_900)), Some(995));
    }

    #[test]
    fn after_a_pause_the_speed_is_that_of_the_new_steps() {
        let mut workloads = Workloads::default();
        for turn in 0..20 {
            let text = format!("steps={turn}");
            workloads.take(line(7, 1, &text), ms(500 * turn), 0);
        }
        workloads.take(line(7, 1, "steps=20"), ms(39_500), 0);
        assert_eq!(workloads.shown(ms(39_500), 8)[0].step_us, None);
        workloads.take(line(7, 1, "steps=40"), ms(40_500), 0);
        assert_eq!(workloads.shown(ms(40_500), 8)[0].step_us, Some(50_000));
    }

    #[test]
    fn slow_steps_have_a_speed_and_do_not_look_idle() {
        let mut workloads = Workloads::default();
        for turn in 0..4 {
            let text = format!("steps={turn}");
            workloads.take(line(7, 1, &text), ms(15_000 * turn), 300_000 * turn);
        }
        let shown = |at| workloads.shown(ms(at), 8).remove(0);
        let step = (shown(45_000).step_us, shown(45_000).step_uj);
        assert_eq!(step, (Some(15_000_000), Some(300_000_000)));
        assert!(!shown(89_999).idle && shown(90_000).idle);
    }

    #[test]
    fn several_workloads_have_no_energy_of_their_own() {
        let mut workloads = Workloads::default();
        for turn in 0..20 {
            let now = ms(500 * turn);
            workloads.take(line(7, 1, &format!("steps={turn} name=a")), now, 0);
            workloads.take(line(8, 1, &format!("steps={turn} name=a")), now, 0);
        }
        let shown = workloads.shown(ms(9_500), 8);
        let uids: Vec<_> = shown.iter().map(|it| it.uid).collect();
        assert_eq!(uids, [Some(8), Some(7)]);
        assert!(shown.iter().all(|it| it.step_us == Some(500_000)));
        assert!(shown.iter().all(|it| it.step_uj.is_none()));
        assert_eq!(workloads.steps(ms(9_500)), None);
    }

    #[test]
    fn a_flood_of_names_drops_those_of_its_own_user() {
        let mut workloads = Workloads::default();
        for turn in 0..10_000 {
            let now = ms(turn);
            workloads.take(line(7, 1, &format!("steps={turn} name=own")), now, 0);
            workloads.take(line(8, 1, &format!("steps=1 name=n{turn}")), now, 0);
        }
        assert_eq!(workloads.known.len(), MOST);
        let shown = workloads.shown(ms(9_999), MOST);
        let own = shown.iter().find(|it| it.uid == Some(7)).expect("it tells");
        assert_eq!((own.steps, own.step_us), (9_999, Some(1_000)));
    }

    #[test]
    fn a_flood_is_read_in_part_and_named() {
        let mut workloads = Workloads::default();
        let read = (0..10_000).filter(|turn| {
            let now = ms(turn / 5);
            let has_room = workloads.has_room(now);
            if has_room {
                workloads.take(line(8, 1, &format!("steps={turn}")), now, 0);
            }
            has_room
        });
        assert_eq!(read.count(), 4_000);
        assert_eq!(workloads.flooded_by(ms(2_000)), Some(8));
        assert_eq!(workloads.flooded_by(ms(20_000)), None);
    }

    #[test]
    fn a_count_that_begins_anew_goes_on() {
        let mut workloads = Workloads::default();
        // Epochs of 100 steps, 20 a second.
        for turn in 0..1_000 {
            let text = format!("steps={}", turn % 100);
            workloads.take(line(7, 1, &text), ms(50 * turn), 0);
        }
        let epoch = workloads.shown(ms(49_950), 8).remove(0);
        assert_eq!((epoch.steps, epoch.idle), (99, false));
        assert_eq!(epoch.step_us, Some(50_000));
        // Each epoch's first line begins it.
        assert_eq!(workloads.steps(ms(49_950)), Some(990));
    }

    #[test]
    fn the_slower_of_two_goes_on_after_the_faster_has_ended() {
        let mut workloads = Workloads::default();
        for turn in 0..200 {
            if turn < 100 {
                workloads.take(
                    line(7, 1, &format!("steps={}", 10 * turn)),
                    ms(100 * turn),
                    0,
                );
            }
            workloads.take(line(7, 2, &format!("steps={turn}")), ms(100 * turn), 0);
        }
        let slower = workloads.shown(ms(19_900), 8).remove(0);
        assert_eq!((slower.steps, slower.idle), (199, false));
        assert_eq!(slower.step_us, Some(100_000));
    }

    #[test]
    fn many_names_of_a_user_do_not_hide_another_one() {
        let mut workloads = Workloads::default();
        for turn in 0..20 {
            workloads.take(
                line(7, 1, &format!("steps={turn} name=own")),
                ms(200 * turn),
                0,
            );
        }
        for name in 0..30 {
            workloads.take(line(8, 1, &format!("steps=1 name=n{name}")), ms(4_000), 0);
        }
        let shown = workloads.shown(ms(4_000), 8);
        assert_eq!(shown[1].name.as_deref(), Some("own"));
        assert_eq!((shown.len(), shown[0].name.as_deref()), (8, Some("n29")));
        // Ten seconds later it is the only one that works.
        workloads.take(line(7, 1, "steps=70 name=own"), ms(14_000), 0);
        workloads.take(line(7, 1, "steps=75 name=own"), ms(15_000), 0);
        let own = workloads.shown(ms(15_000), 8).remove(0);
        assert_eq!((own.step_us, own.step_uj), (Some(200_000), Some(0)));
    }

    #[test]
    fn who_sends_the_most_is_named() {
        let mut workloads = Workloads::default();
        for turn in 0..2_000 {
            // The last one is of somebody else.
            let uid = if turn % 10 == 9 { 7 } else { 8 };
            workloads.take(line(uid, 1, "steps=1"), ms(turn / 3), 0);
        }
        assert_eq!(workloads.flooded_by(ms(700)), Some(8));
        let mut workloads = Workloads::default();
        for _ in 0..2_000 {
            let unknown = Received {
                uid: None,
                ..line(7, 1, "no line")
            };
            workloads.take(unknown, ms(0), 0);
        }
        assert_eq!(workloads.flooded_by(ms(700)), Some(NOBODY));
    }

    #[test]
    fn steps_of_others_and_jumps_do_not_count_for_an_aim() {
        let mut workloads = Workloads::default();
        for turn in 0..10 {
            workloads.take(
                line(7, 1, &format!("steps={turn} name=own")),
                ms(1_000 * turn),
                0,
            );
        }
        assert_eq!(workloads.steps(ms(9_000)), Some(9));
        for steps in [0, u64::MAX] {
            workloads.take(line(8, 1, &format!("steps={steps}")), ms(9_500), 0);
        }
        assert_eq!(workloads.steps(ms(9_500)), None);
        let own = workloads.shown(ms(9_500), 8).remove(1);
        assert_eq!((own.uid, own.step_us), (Some(7), Some(1_000_000)));
        // A minute later the other one is gone, and its steps with it.
        workloads.take(line(7, 1, "steps=19 name=own"), ms(69_500), 0);
        assert_eq!(workloads.steps(ms(69_500)), Some(19));
        workloads.take(line(7, 1, "steps=1000000000000000 name=own"), ms(70_500), 0);
        assert_eq!(workloads.steps(ms(70_500)), Some(19));
        // Begun anew.
        workloads.take(line(7, 2, "steps=3 name=own"), ms(71_500), 0);
        workloads.take(line(7, 2, "steps=5 name=own"), ms(72_500), 0);
        assert_eq!(workloads.steps(ms(72_500)), Some(21));
    }

    #[test]
    fn extreme_counts_do_no_harm() {
        let mut workloads = Workloads::default();
        for (turn, steps) in [0, u64::MAX, 0, u64::MAX, 1, u64::MAX]
            .into_iter()
            .enumerate()
        {
            let now = ms(1_000 * turn as u64);
            workloads.take(line(7, 1, &format!("steps={steps}")), now, u64::MAX);
            workloads.shown(now, 8);
        }
        assert_eq!(workloads.steps(ms(5_000)), Some(0));
    }
}
