//! The rule of precedence: what holds is the lowest of `max_limit`, of every lowering, and of the lowest lease; without a
//! lease, of the config's limit.

use std::collections::BTreeMap;
use std::fs;

use crate::common::Rig;
use crate::wattgated::{eventually, outcome, reported_mode, with_board};
use rustix::process::Signal;
use serde_json::Value;
use wattgate_runtime::Milliwatts;
use wattgate_watchdog::client::Client;
use wattgate_watchdog::clock::Clock;
use wattgate_watchdog::daemon::ClientId;
use wattgate_watchdog::limits::{LOWERINGS_FILE, Lowerings, MAX_LOWERINGS, Owner, Setter};
use wattgate_watchdog::serve::protocol::{Request, WantedLease, WantedLimit};

/// Numbers that look random (xorshift), from a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }
}

/// The rule, written down once more.
#[derive(Default)]
struct Rule {
    config: u32,
    max: Option<u32>,
    /// Power, and the time in ms at which it ends.
    lowerings: BTreeMap<u32, (u32, Option<u64>)>,
    leases: BTreeMap<u64, (u32, Option<u64>)>,
}

impl Rule {
    fn pass(&mut self, now: u64) {
        self.lowerings
            .retain(|_, (_, end)| end.is_none_or(|end| now < end));
        self.leases
            .retain(|_, (_, end)| end.is_none_or(|end| now < end));
    }

    fn most(&self) -> u32 {
        self.max.unwrap_or(self.config)
    }

    fn holds(&self) -> u32 {
        let lease = self.leases.values().map(|(power, _)| *power).min();
        let lowering = self.lowerings.values().map(|(power, _)| *power).min();
        let base = lease.unwrap_or(self.config);
        base.min(self.most()).min(lowering.unwrap_or(u32::MAX))
    }

    fn lines(&self) -> String {
        let max = self.max.map(|max| format!("\nmax_limit = \"{max}mW\""));
        format!("limit = \"{}mW\"{}", self.config, max.unwrap_or_default())
    }
}

#[test]
fn what_holds_is_what_the_rule_computes() {
    for seed in 1..=6 {
        let mut numbers = Numbers(seed * 7_919);
        let mut rule = Rule {
            config: 20_000,
            max: (seed % 2 == 0).then_some(30_000),
            ..Rule::default()
        };
        let mut rig = Rig::new(&rule.lines());
        let mut clients = 0;
        for step in 0..150 {
            let (uid, power) = (
                numbers.below(5) as u32,
                5_000 + numbers.below(28_000) as u32,
            );
            let for_ms = (numbers.below(3) == 0).then(|| 1_000 + numbers.below(8_000));
            let by = Setter::new(Owner::Uid(uid), 1, None);
            let now = rig.clocks.now.get();
            let end = for_ms.map(|ms| now + ms);
            let is_over = power > rule.most();
            match numbers.below(8) {
                0 | 1 => {
                    let wanted = WantedLimit {
                        for_ms,
                        ..WantedLimit::from_power(Milliwatts(power))
                    };
                    let set = rig.daemon.set_limit(Some(wanted), by, &rig.clocks);
                    assert_eq!(set.is_err(), is_over);
                    if !is_over {
                        rule.lowerings.insert(uid, (power, end));
                    }
                }
                2 => {
                    rig.daemon.set_limit(None, by, &rig.clocks).expect("lifted");
                    rule.lowerings.remove(&uid);
                }
                3 | 4 => {
                    clients += 1;
                    let wanted = WantedLease {
                        for_ms,
                        ..WantedLease::from_power(Milliwatts(power))
                    };
                    let leased = rig.daemon.lease(ClientId(clients), wanted, by, &rig.clocks);
                    assert_eq!(leased.is_err(), is_over);
                    if !is_over {
                        rule.leases.insert(clients, (power, end));
                    }
                }
                5 => {
                    let client = rule.leases.keys().next().copied();
                    if let Some(client) = client {
                        rig.daemon.end_client(ClientId(client), rig.clocks.utc());
                        rule.leases.remove(&client);
                    }
                }
                6 => {
                    rule.config = 15_000 + numbers.below(12_000) as u32;
                    let new = rig.config(&rule.lines());
                    rig.daemon.reload(new, rig.clocks.utc());
                }
                _ => {
                    // The file as it was saved; leases end with the process.
                    let folder = rig.folder.path().to_owned();
                    let (lowerings, _) = rig.daemon.lowerings();
                    fs::write(folder.join(LOWERINGS_FILE), lowerings.text()).expect("written");
                    let (lowerings, read) = Lowerings::read(&[folder.join(LOWERINGS_FILE)]);
                    read.expect("a valid file");
                    rig.crash(&rule.lines(), lowerings);
                    rule.leases.clear();
                    // The time that is left counts from now on.
                    for (uid, (_, end)) in &mut rule.lowerings {
                        let (left, _) = rig.daemon.lowerings();
                        let owner = Owner::Uid(*uid);
                        let left = left.iter().find(|it| it.by.owner == owner).expect("kept");
                        *end = left.left_ms.map(|left| now + left);
                    }
                }
            }
            // Never above the rule, and a second later exactly it.
            let (limit, _) = rig.daemon.limit();
            assert!(limit.power.0 <= rule.holds(), "seed {seed}, step {step}");
            rig.run(1 + numbers.below(2));
            rule.pass(rig.clocks.now.get());
            rig.run(1);
            rule.pass(rig.clocks.now.get());
            rig.step();
            let (limit, source) = rig.daemon.limit();
            assert_eq!(
                limit.power.0,
                rule.holds(),
                "seed {seed}, step {step}, {source}"
            );
        }
    }
}

#[test]
fn only_root_lifts_the_limit_of_another_and_there_are_sixteen() {
    let mut rig = Rig::new("limit = \"30W\"");
    let set = |rig: &mut Rig, owner, watts: u32| {
        let wanted = WantedLimit::from_power(Milliwatts(1_000 * watts));
        let by = Setter::new(owner, 1, None);
        rig.daemon.set_limit(Some(wanted), by, &rig.clocks)
    };
    for uid in 0..MAX_LOWERINGS as u32 {
        assert_eq!(set(&mut rig, Owner::Uid(uid), 29), Ok(()));
    }
    let refused = set(&mut rig, Owner::Uid(99), 10).expect_err("the seventeenth");
    assert_eq!(refused.name, "too_many_lowerings");
    // Root has a place of its own, and one's own may be replaced.
    assert_eq!(set(&mut rig, Owner::Root, 28), Ok(()));
    assert_eq!(set(&mut rig, Owner::Uid(3), 12), Ok(()));
    assert_eq!(rig.daemon.limit().0.power, Milliwatts(12_000));
    // Over the socket of all clients, uid 0 is another user than root.
    let lift = |rig: &mut Rig, owner| {
        let by = Setter::new(owner, 1, None);
        rig.daemon.set_limit(None, by, &rig.clocks)
    };
    for owner in [Owner::Uid(0), Owner::Root] {
        assert_eq!(lift(&mut rig, owner), Ok(()));
        assert_eq!(rig.daemon.limit().0.power, Milliwatts(12_000));
    }
    assert!(rig.daemon.lift(Owner::Uid(3), &rig.clocks));
    assert_eq!(rig.daemon.limit().0.power, Milliwatts(29_000));
}

/// A limit of the current: its power at the present voltage is the ceiling, and the current holds besides.
#[test]
fn a_limit_in_amperes_bounds_every_lease() {
    let mut rig = Rig::on("orin-nano-8-super", "limit = \"3A\"");
    rig.run(5);
    let most = rig.daemon.report().max_limit_mw;
    assert!((13_000..16_000).contains(&most), "{most} mW at 5 V");
    let mut lease = |power| {
        let wanted = WantedLease::from_power(Milliwatts(power));
        let by = Setter::new(Owner::Uid(7), 1, None);
        rig.daemon.lease(ClientId(1), wanted, by, &rig.clocks)
    };
    let refused = lease(most + 1).expect_err("over the ceiling");
    assert_eq!(refused.name, "over_max_limit");
    assert_eq!(lease(most), Ok(()));
    rig.run(20);
    let amperes = rig.daemon.report().input_ma.expect("measured");
    assert!(amperes <= 3_020, "{amperes} mA");
}

/// The time of a lowering is the daemon's running time, whatever the clock shows.
#[test]
fn a_clock_that_steps_ends_no_lowering() {
    let mut rig = Rig::new("limit = \"30W\"");
    rig.run(1);
    let wanted = WantedLimit {
        for_ms: Some(10_000),
        ..WantedLimit::from_power(Milliwatts(15_000))
    };
    let by = Setter::new(Owner::Uid(7), 1, None);
    let set = rig.daemon.set_limit(Some(wanted), by, &rig.clocks);
    assert_eq!(set, Ok(()));
    for step in [86_400 * 400, -86_400 * 800, 1] {
        rig.clocks.utc.set(rig.clocks.utc.get() + step);
        rig.run(3);
        assert_eq!(rig.daemon.limit().0.power, Milliwatts(15_000));
    }
    rig.run(3);
    assert_eq!(rig.daemon.limit().0.power, Milliwatts(30_000));
}

#[test]
fn a_defective_file_of_lowerings_means_the_least_until_root_lifts_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(LOWERINGS_FILE);
    let least = |text: &str| {
        fs::write(&path, text).expect("written");
        let (lowerings, read) = Lowerings::read(std::slice::from_ref(&path));
        let power = lowerings.iter().map(|it| it.power_mw).min();
        (power, read.map_err(|why| why.to_string()))
    };
    for text in [
        "",
        "x",
        "{\"version\":1}",
        "{\"version\":1,\"lowerings\":[{}]}",
    ] {
        let (power, read) = least(text);
        assert_eq!(power, Some(1), "{text}");
        let why = read.expect_err("defective");
        assert!(why.contains("until root lifts it"), "{why}");
    }
    let (power, read) = least("{\"version\":2,\"lowerings\":\"other\"}");
    assert_eq!(power, Some(1));
    let why = read.expect_err("later");
    assert!(why.contains("version is 2, expected 1"), "{why}");
    fs::remove_file(&path).expect("removed");
    fs::create_dir(&path).expect("made");
    assert_eq!(
        Lowerings::read(std::slice::from_ref(&path))
            .0
            .iter()
            .count(),
        1
    );
}

/// The lowered limit of the running daemon, in W, and whether it is saved.
fn shown(rig: &crate::wattgated::Rig) -> (u64, bool) {
    let (_, json, _) = rig.status(&["--json"]);
    let json: Value = serde_json::from_str(&json).unwrap_or_default();
    let limit = json["limit_mw"].as_u64().unwrap_or(0) / 1_000;
    (limit, json["unsaved"] == false)
}

#[test]
fn a_lowered_limit_survives_a_crash_a_reload_and_a_restart() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let (code, report, errors) = outcome(rig.client("set-limit").arg("15W"));
        assert_eq!(code, Some(0), "{errors}");
        assert!(
            report.contains("\na change of the lowered limits is not saved yet: "),
            "{report}"
        );
        eventually("it is saved", || (shown(rig) == (15, true)).then_some(()));
        daemon.signal(Signal::HUP);
        daemon.signal(Signal::KILL);
        daemon.exit_code();
        // `once`, which the unit runs at boot, knows it too.
        let (code, _, errors) = rig.output("once");
        assert_eq!(code, Some(0), "{errors}");
        let (_, report, _) = rig.output("check");
        let free = reported_mode(&report, "once ");
        assert!(!errors.contains(&free), "{errors}");
        let mut daemon = rig.run("<6>tracking; measured ");
        assert_eq!(shown(rig), (15, true));
        daemon.stop();
        let mut daemon = rig.run("<6>tracking; measured ");
        assert_eq!(shown(rig), (15, true));
        let (code, report, errors) = outcome(rig.client("set-limit").arg("--lift"));
        assert_eq!(code, Some(0), "{errors}");
        assert!(report.starts_with("holding 30 W: "), "{report}");
        daemon.stop();
        let mut daemon = rig.run("<6>booting: ");
        assert_eq!(shown(rig), (30, true));
        daemon.stop();
    });
}

/// What was acknowledged just before a stop is saved, with the time that is left.
#[test]
fn a_stop_saves_the_last_lowering_and_the_time_that_is_left() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let mut root = Client::connect(&rig.root).expect("connected");
        let mut user = Client::connect_as_user(&rig.root).expect("connected");
        let wanted = |watts: u32, for_ms| {
            Request::SetLimit(Some(WantedLimit {
                for_ms,
                ..WantedLimit::from_power(Milliwatts(1_000 * watts))
            }))
        };
        root.ask(wanted(16, Some(60_000))).expect("lowered");
        let left = |text: String| {
            let json: Value = serde_json::from_str(&text).unwrap_or_default();
            json["lowerings"][0]["left_ms"].as_u64()
        };
        let path = &wattgate_watchdog::limits::files(&rig.root)[1];
        let read = || left(fs::read_to_string(path).unwrap_or_default());
        let first = eventually("it is saved", &read);
        user.ask(wanted(18, None)).expect("lowered");
        user.ask(wanted(14, None)).expect("lowered");
        daemon.stop();
        assert!(read().expect("saved") < first, "time has passed");
        let mut daemon = rig.run("<6>tracking; measured ");
        assert_eq!(shown(rig), (14, true));
        daemon.stop();
    });
}

#[test]
fn a_lowered_limit_holds_though_the_disk_is_full() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        // A folder in the place of the file cannot be replaced by a file.
        fs::create_dir_all(
            rig.root
                .join("var/lib/wattgate")
                .join(LOWERINGS_FILE)
                .join("x"),
        )
        .expect("made");
        let (code, _, errors) = outcome(rig.client("set-limit").arg("15W"));
        assert_eq!(code, Some(0), "{errors}");
        daemon.logs("<4>the limits of clients are not saved, so a reboot would lose them: ");
        assert_eq!(shown(rig), (15, false));
        daemon.stop();
        // The copy in memory survives the restart.
        let mut daemon = rig.run("<6>tracking; measured ");
        assert_eq!(shown(rig).0, 15);
        daemon.stop();
    });
}

/// A board whose least mode draws more than the limit.
#[test]
fn what_cannot_be_held_is_told_and_root_is_called() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let call = rig.root.join("run/wattgated/over");
        let state = || {
            let (_, json, _) = rig.status(&["--json"]);
            let json: Value = serde_json::from_str(&json).unwrap_or_default();
            json["state"].as_str().unwrap_or_default().to_owned()
        };
        // A client may lower the limit below the least mode, but not call root.
        let mut client = Client::connect_as_user(&rig.root).expect("connected");
        let low = Request::SetLimit(Some(WantedLimit::from_power(Milliwatts(3_000))));
        client.ask(low.clone()).expect("lowered");
        daemon.logs("<3>the limit cannot be held: ");
        assert_eq!(state(), "over_limit");
        assert!(!call.exists());
        client.ask(Request::SetLimit(None)).expect("lifted");
        daemon.logs("<5>the limit holds again");
        // Root may.
        let mut root = Client::connect(&rig.root).expect("connected");
        root.ask(low).expect("lowered");
        daemon.logs("over: created, for wattgated-over.path");
        assert!(call.exists());
        assert_eq!(state(), "over_limit");
        root.ask(Request::SetLimit(None)).expect("lifted");
        daemon.logs("over: removed");
        assert!(!call.exists());
        // The config's limit calls too, and a stop takes the call back.
        rig.configure("limit = \"3W\"");
        daemon.signal(Signal::HUP);
        daemon.logs("over: created, for wattgated-over.path");
        daemon.stop();
        assert!(!call.exists());
    });
}
