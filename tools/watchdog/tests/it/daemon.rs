//! Changes at run time: the limit by schedule, config and client, and the model.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::common::{MIDNIGHT, Rig, weights};
use crate::model_files::too_low;
use wattgate_runtime::{Milliseconds, Milliwatts};
use wattgate_watchdog::clock::Clock;
use wattgate_watchdog::daemon::ClientId;
use wattgate_watchdog::limits::{Owner, Setter};
use wattgate_watchdog::quantity::Place;
use wattgate_watchdog::report::{Report, Source};
use wattgate_watchdog::serve::protocol::{Refused, WantedAverage, WantedLease, WantedLimit};

const DAY_AND_NIGHT: &str = "limit = \"20W\"\n\
    schedule = [{ at = \"06:00Z\", limit = \"30W\" }, { at = \"22:00Z\", limit = \"15W\" }]";

fn wanted(watts: u32) -> Option<WantedLimit> {
    Some(WantedLimit::from_power(Milliwatts(1_000 * watts)))
}

/// A user that has no lease.
const OTHER: Owner = Owner::Uid(1_001);

fn by(uid: u32) -> Setter {
    Setter::new(Owner::Uid(uid), 4_711, None)
}

fn limit(rig: &Rig) -> (u32, Source) {
    let (limit, source) = rig.daemon.limit();
    (limit.power.0 / 1_000, source)
}

fn limit_of(report: &Report) -> (u32, Source) {
    (report.limit_mw, report.limit_from)
}

#[test]
fn a_client_s_limit_holds_until_it_is_withdrawn() {
    let mut rig = Rig::new("limit = \"30W\"");
    rig.run(20);
    let before = rig.daemon.report();
    assert_eq!(limit_of(&before), (30_000, Source::Config));
    let set = rig.daemon.set_limit(wanted(15), by(1_000), &rig.clocks);
    assert_eq!(set, Ok(()));
    rig.run(20);
    let report = rig.daemon.report();
    assert_eq!(limit_of(&report), (15_000, Source::Socket));
    assert!(report.measured_mw.expect("measured") <= 15_000, "{report}");
    let back = rig.daemon.set_limit(None, by(1_000), &rig.clocks);
    assert_eq!(back, Ok(()));
    rig.run(60);
    let report = rig.daemon.report();
    assert_eq!(limit_of(&report), (30_000, Source::Config));
    assert!(report.measured_mw.expect("measured") > 20_000, "{report}");
}

#[test]
fn a_client_s_average_holds_beside_the_config_s() {
    let mut rig = Rig::new("limit = \"30W\"\naverage = { power = \"25W\", window = \"30s\" }");
    let average = |rig: &Rig| {
        let (limit, _) = rig.daemon.limit();
        limit.average.map(|it| (it.power, it.window))
    };
    let of_config = Some((Milliwatts(25_000), Milliseconds(30_000)));
    assert_eq!(
        rig.daemon.set_limit(wanted(28), by(1_000), &rig.clocks),
        Ok(())
    );
    assert_eq!(average(&rig), of_config);
    let with_average = WantedLimit {
        average: Some(WantedAverage {
            power_mw: 18_000,
            window_ms: 60_000,
        }),
        ..WantedLimit::from_power(Milliwatts(28_000))
    };
    assert_eq!(
        rig.daemon
            .set_limit(Some(with_average), by(1_000), &rig.clocks),
        Ok(())
    );
    // The lower power and the shorter window of both.
    assert_eq!(
        average(&rig),
        Some((Milliwatts(18_000), Milliseconds(30_000)))
    );
    assert_eq!(rig.daemon.set_limit(None, by(1_000), &rig.clocks), Ok(()));
    assert_eq!(average(&rig), of_config);
}

#[test]
fn a_limit_that_is_out_of_range_changes_nothing() {
    let mut rig = Rig::new("limit = \"30W\"");
    assert_eq!(
        rig.daemon.set_limit(wanted(20), by(1_000), &rig.clocks),
        Ok(())
    );
    let refused = rig
        .daemon
        .set_limit(wanted(0), by(1_000), &rig.clocks)
        .expect_err("no power");
    assert_eq!(refused.name, "out_of_range");
    assert_eq!(limit(&rig), (20, Source::Socket));
}

fn wanted_for(watts: u32, seconds: u64) -> Option<WantedLimit> {
    let for_ms = Some(1_000 * seconds);
    wanted(watts).map(|wanted| WantedLimit { for_ms, ..wanted })
}

#[test]
fn a_limit_with_a_time_expires() {
    let mut rig = Rig::new(DAY_AND_NIGHT);
    rig.run(5);
    let set = rig
        .daemon
        .set_limit(wanted_for(12, 60), by(1_000), &rig.clocks);
    assert_eq!(set, Ok(()));
    assert_eq!(rig.daemon.report().limit_for_ms, Some(60_000));
    rig.run(55);
    assert_eq!(limit(&rig), (12, Source::Socket));
    let left = rig.daemon.report().limit_for_ms.expect("a time");
    assert!((1..=7_000).contains(&left), "{left} ms");
    rig.run(7);
    assert_eq!(limit(&rig), (15, Source::Schedule));
    assert_eq!(rig.daemon.report().limit_for_ms, None);
    // A limit without a time replaces one with a time.
    for wanted in [wanted_for(12, 10), wanted(10)] {
        assert_eq!(rig.daemon.set_limit(wanted, by(1_000), &rig.clocks), Ok(()));
    }
    rig.run(20);
    assert_eq!(limit(&rig), (10, Source::Socket));
    let refused = rig
        .daemon
        .set_limit(wanted_for(12, 0), by(1_000), &rig.clocks);
    assert_eq!(refused.expect_err("no time").name, "out_of_range");
    assert_eq!(limit(&rig), (10, Source::Socket));
}

#[test]
fn a_client_s_limit_over_max_limit_is_refused() {
    let mut rig = Rig::new("limit = \"20W\"\nmax_limit = \"25W\"");
    let refused = rig.daemon.set_limit(wanted(26), by(1_000), &rig.clocks);
    let message = "power_mw is 26000, expected at most 25000, max_limit of the config; ask for less, or let root raise it";
    let expected = Err(Refused::new("over_max_limit", message));
    assert_eq!(refused, expected);
    let lease = |watts: u32| WantedLease::from_power(Milliwatts(1_000 * watts));
    let refused = rig
        .daemon
        .lease(ClientId(1), lease(26), by(1_000), &rig.clocks);
    assert_eq!(refused, expected);
    // A lowering over the config's limit changes nothing.
    let set = rig.daemon.set_limit(wanted(25), by(1_000), &rig.clocks);
    assert_eq!((set, limit(&rig)), (Ok(()), (20, Source::Config)));
    // A reload lowers the ceiling for a lease that is already in force.
    let leased = rig
        .daemon
        .lease(ClientId(1), lease(24), by(1_000), &rig.clocks);
    assert_eq!((leased, limit(&rig)), (Ok(()), (24, Source::Lease)));
    let new = rig.config("limit = \"20W\"\nmax_limit = \"22W\"");
    let utc = rig.clocks.utc();
    assert!(!rig.daemon.reload(new, utc), "nothing needs a restart");
    assert_eq!(limit(&rig), (22, Source::MaxLimit));
    let refused = rig.daemon.set_limit(wanted(23), by(1_000), &rig.clocks);
    assert_eq!(refused.expect_err("over").name, "over_max_limit");
}

/// Without `max_limit`, the highest limit that the config names is the ceiling.
#[test]
fn no_client_raises_the_limit_over_the_config_s_highest() {
    let mut rig = Rig::new(DAY_AND_NIGHT);
    assert_eq!(limit(&rig), (15, Source::Schedule));
    let refused = rig.daemon.lease(
        ClientId(1),
        WantedLease::from_power(Milliwatts(30_001)),
        by(1_000),
        &rig.clocks,
    );
    let message = "power_mw is 30001, expected at most 30000, the highest limit of the config; ask for less, or let root set max_limit in the config";
    assert_eq!(refused, Err(Refused::new("over_max_limit", message)));
    let leased = WantedLease::from_power(Milliwatts(30_000));
    let leased = rig
        .daemon
        .lease(ClientId(1), leased, by(1_000), &rig.clocks);
    assert_eq!((leased, limit(&rig)), (Ok(()), (30, Source::Lease)));
    rig.daemon.end_client(ClientId(1), rig.clocks.utc());
    assert_eq!(limit(&rig), (15, Source::Schedule));
}

#[test]
fn a_limit_below_the_least_mode_is_accepted_and_reported() {
    let mut rig = Rig::new("limit = \"30W\"");
    rig.run(20);
    let set = rig.daemon.set_limit(wanted(2), by(1_000), &rig.clocks);
    assert_eq!(set, Ok(()));
    rig.run(10);
    let report = rig.daemon.report();
    assert_eq!(
        report.state, "over_limit",
        "it draws more, and nothing is lower"
    );
    assert!(report.least_mw > 2_000, "{report}");
    let logged = "safe: even the mode of least power is above the limit";
    assert!(
        rig.log.iter().any(|line| line.contains(logged)),
        "{:?}",
        rig.log
    );
}

#[test]
fn a_lowered_limit_stays_over_a_reload() {
    let mut rig = Rig::new("limit = \"30W\"");
    let utc = rig.clocks.utc();
    assert_eq!(
        rig.daemon.set_limit(wanted(20), by(1_000), &rig.clocks),
        Ok(())
    );
    for (lines, needs_restart, expected) in [
        ("limit = \"25W\"", false, (20, Source::Socket)),
        (DAY_AND_NIGHT, false, (15, Source::Schedule)),
        (
            "limit = \"25W\"\ngroup = \"wattgate\"",
            true,
            (20, Source::Socket),
        ),
    ] {
        let new = rig.config(lines);
        assert_eq!(rig.daemon.reload(new, utc), needs_restart, "{lines}");
        assert_eq!(limit(&rig), expected, "{lines}");
    }
}

#[test]
fn a_schedule_changes_the_limit_at_its_times() {
    let mut rig = Rig::new(DAY_AND_NIGHT);
    assert_eq!(limit(&rig), (15, Source::Schedule));
    let hours = |rig: &mut Rig, hours: i64| {
        rig.clocks.utc.set(MIDNIGHT + hours * 3_600);
        rig.run(2);
        limit(rig)
    };
    assert_eq!(hours(&mut rig, 5), (15, Source::Schedule));
    assert_eq!(hours(&mut rig, 6), (30, Source::Schedule));
    assert_eq!(hours(&mut rig, 21), (30, Source::Schedule));
    assert_eq!(hours(&mut rig, 22), (15, Source::Schedule));
    assert_eq!(hours(&mut rig, 30), (30, Source::Schedule));
}

#[test]
fn after_a_clock_jump_the_limit_of_the_new_time_holds() {
    let mut rig = Rig::new(DAY_AND_NIGHT);
    let at = |rig: &mut Rig, utc: i64| {
        rig.clocks.utc.set(utc);
        rig.run(2);
        limit(rig).0
    };
    assert_eq!(at(&mut rig, MIDNIGHT + 12 * 3_600), 30);
    // Back by half a day; forward by years; back to 1970, where the lowest limit holds.
    assert_eq!(at(&mut rig, MIDNIGHT), 15);
    assert_eq!(at(&mut rig, MIDNIGHT + 2_000 * 86_400 + 12 * 3_600), 30);
    assert_eq!(at(&mut rig, 12 * 3_600), 15);
    let changes = rig.daemon.report().changes;
    rig.run(5);
    assert!(
        rig.daemon.report().changes <= changes + 3,
        "control goes on as before"
    );
}

#[test]
fn a_client_s_limit_holds_beside_the_schedule() {
    let mut rig = Rig::new(DAY_AND_NIGHT);
    let set = rig.daemon.set_limit(wanted(18), by(1_000), &rig.clocks);
    assert_eq!((set, limit(&rig)), (Ok(()), (15, Source::Schedule)));
    rig.clocks.utc.set(MIDNIGHT + 7 * 3_600);
    rig.run(2);
    assert_eq!(limit(&rig), (18, Source::Socket));
    let back = rig.daemon.set_limit(None, by(1_000), &rig.clocks);
    assert_eq!(back, Ok(()));
    assert_eq!(limit(&rig), (30, Source::Schedule));
}

#[test]
fn a_model_is_loaded_by_name_or_path() {
    let mut rig = Rig::new("limit = \"30W\"");
    let other = rig.folder.path().join("other.wgt");
    fs::copy(weights("orin-agx-64-resnet18-all-modes.wgt"), &other).expect("copied");
    rig.run(30);
    let before = rig.daemon.report();
    let changed = rig.daemon.set_model("other.wgt", OTHER, rig.clocks.now());
    assert_eq!(changed, Ok(()));
    let report = rig.daemon.report();
    assert_eq!(
        (report.state.as_ref(), report.model.as_deref()),
        ("booting", Some("other.wgt"))
    );
    assert_ne!(report.least_mw, before.least_mw);
    // Counters continue across models.
    assert_eq!(report.changes, before.changes);
    rig.run(30);
    let report = rig.daemon.report();
    assert!(report.changes > before.changes, "{report}");
    assert!(report.measured_mw.expect("measured") <= 30_000, "{report}");
    assert!(report.energy_mj > before.energy_mj, "{report}");
    let folder = rig.folder.path().canonicalize().expect("there");
    let path = folder.join("model.wgt");
    let path = path.to_str().expect("a text");
    let changed = rig.daemon.set_model(path, OTHER, rig.clocks.now());
    assert_eq!(changed, Ok(()));
    assert_eq!(rig.daemon.report().model.as_deref(), Some("model.wgt"));
}

/// The load draws far more than both models predict. The models are older than the shipped ones, of which one
/// first sets a mode that draws 19.7 W: less than the limit, but more than is allowed for the sensor's errors.
#[test]
fn the_highest_load_stays_known_when_the_model_changes() {
    let mut rig = Rig::new("limit = \"20W\"");
    let older = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models");
    for (from, to) in [
        ("orin-agx-64-resnet18", "model"),
        ("orin-agx-64-resnet18-all-modes", "other"),
    ] {
        let to = rig.folder.path().join(format!("{to}.wgt"));
        fs::copy(older.join(format!("{from}.wgt")), to).expect("copied");
    }
    assert_eq!(
        rig.daemon.set_model("model.wgt", OTHER, rig.clocks.now()),
        Ok(())
    );
    rig.inject("power 1.3");
    rig.inject("activity 2");
    rig.run(60);
    let before = rig.daemon.report();
    for round in 0..6 {
        let name = ["other.wgt", "model.wgt"][round % 2];
        let changed = rig.daemon.set_model(name, OTHER, rig.clocks.now());
        assert_eq!(changed, Ok(()));
        rig.run(11);
    }
    let after = rig.daemon.report();
    println!(
        "over the limit for {} ms before, {} ms in six changes of the model",
        before.over_limit_ms,
        after.over_limit_ms - before.over_limit_ms
    );
    assert_eq!(after.over_limit_ms, before.over_limit_ms);
}

#[test]
fn a_model_is_not_changed_under_the_lease_of_another_user() {
    let mut rig = Rig::new("limit = \"30W\"");
    let other = rig.folder.path().join("other.wgt");
    fs::copy(weights("orin-agx-64-resnet18-all-modes.wgt"), other).expect("copied");
    let lease = |rig: &mut Rig, client, uid, model: Option<&str>| {
        let limit = WantedLimit::from_power(Milliwatts(20_000));
        let wanted = WantedLease::with(limit, model.map(str::to_owned));
        rig.daemon
            .lease(ClientId(client), wanted, by(uid), &rig.clocks)
    };
    assert_eq!(lease(&mut rig, 1, 1_000, None), Ok(()));
    let set = rig.daemon.set_model("other.wgt", OTHER, rig.clocks.now());
    let leased = lease(&mut rig, 2, 1_001, Some("other.wgt"));
    for refused in [set, leased] {
        assert_eq!(refused.expect_err("leased").name, "leased");
    }
    assert_eq!(rig.daemon.report().model.as_deref(), Some("model.wgt"));
    // A lease without a model changes none, and a user may change its own.
    assert_eq!(lease(&mut rig, 2, 1_001, None), Ok(()));
    rig.daemon.end_client(ClientId(2), rig.clocks.utc());
    assert_eq!(lease(&mut rig, 3, 1_000, Some("other.wgt")), Ok(()));
    assert_eq!(rig.daemon.report().model.as_deref(), Some("other.wgt"));
}

/// A model that is far too low returns after the lease of another one.
#[test]
fn a_model_that_was_contradicted_stays_so_after_another_one() {
    let mut rig = Rig::new("limit = \"20W\"");
    let other = rig.folder.path().join("other.wgt");
    fs::copy(weights("orin-agx-64-resnet18.wgt"), other).expect("copied");
    fs::write(rig.folder.path().join("low.wgt"), too_low(12.0)).expect("written");
    let set = rig.daemon.set_model("low.wgt", OTHER, rig.clocks.now());
    assert_eq!(set, Ok(()));
    rig.run(60);
    assert_eq!(
        rig.daemon.report().predicted_mw,
        0,
        "its predictions are not used"
    );
    let wanted = WantedLease {
        model: Some("other.wgt".to_owned()),
        ..WantedLease::from_power(Milliwatts(20_000))
    };
    let leased = rig
        .daemon
        .lease(ClientId(1), wanted, by(1_000), &rig.clocks);
    assert_eq!(leased, Ok(()));
    rig.run(30);
    assert!(rig.daemon.report().predicted_mw > 0);
    rig.daemon.end_client(ClientId(1), rig.clocks.utc());
    let before = rig.daemon.report().over_limit_ms;
    rig.run(60);
    let report = rig.daemon.report();
    assert_eq!((report.predicted_mw, report.over_limit_ms), (0, before));
}

#[test]
fn a_refused_model_leaves_the_old_one_loaded() {
    let mut rig = Rig::new("limit = \"30W\"");
    rig.run(20);
    let folder = rig.folder.path().to_owned();
    let outside = tempfile::tempdir().expect("a folder");
    let elsewhere = outside.path().join("model.wgt");
    fs::copy(weights("orin-agx-64-resnet18.wgt"), &elsewhere).expect("copied");
    symlink(&elsewhere, folder.join("link.wgt")).expect("linked");
    fs::create_dir(folder.join("deep")).expect("made");
    fs::copy(&elsewhere, folder.join("deep/model.wgt")).expect("copied");
    fs::write(folder.join("text.wgt"), "no model").expect("written");
    let mut bytes = fs::read(&elsewhere).expect("read");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(folder.join("corrupt.wgt"), bytes).expect("written");
    fs::write(folder.join("long.wgt"), vec![0; (1 << 20) + 1]).expect("written");
    for (from, to) in [
        ("xavier-agx-resnet18.wgt", "xavier.wgt"),
        ("tx1-image5000.wgt", "tx1.wgt"),
    ] {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
        fs::copy(shipped.join(from), folder.join(to)).expect("copied");
    }
    let absolute = elsewhere.to_str().expect("a text");
    for (name, error) in [
        (absolute, "model_not_allowed"),
        ("deep/model.wgt", "model_not_allowed"),
        ("deep/../model.wgt", "model_not_allowed"),
        ("../model.wgt", "model_not_allowed"),
        ("link.wgt", "model_not_allowed"),
        ("..", "model_not_allowed"),
        (".", "model_not_allowed"),
        ("/", "model_not_allowed"),
        ("", "model_not_allowed"),
        ("deep", "model_unreadable"),
        ("absent.wgt", "model_unreadable"),
        ("nul\0.wgt", "model_unreadable"),
        ("long.wgt", "model_unreadable"),
        ("text.wgt", "model_defective"),
        ("corrupt.wgt", "model_defective"),
        ("xavier.wgt", "model_for_other_board"),
        ("tx1.wgt", "model_for_other_board"),
    ] {
        rig.run(1);
        let before = rig.daemon.report();
        let refused = rig.daemon.set_model(name, OTHER, rig.clocks.now());
        let refused = refused.expect_err(name);
        assert_eq!(refused.name, error, "{name}: {}", refused.message);
        assert_eq!(rig.daemon.report(), before, "{name}");
    }
    rig.run(5);
    let report = rig.daemon.report();
    assert_eq!(
        (report.state.as_ref(), report.model.as_deref()),
        ("tracking", Some("model.wgt"))
    );
}

/// Opening a pipe without a writer would block the daemon.
#[test]
fn a_pipe_is_refused_as_a_model() {
    let mut rig = Rig::new("limit = \"30W\"");
    let path = rig.folder.path().join("pipe.wgt");
    let made = std::process::Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo").success());
    let refused = rig.daemon.set_model("pipe.wgt", OTHER, rig.clocks.now());
    let refused = refused.expect_err("no file");
    assert_eq!(refused.name, "model_unreadable");
    assert!(
        refused.message.contains("not a regular file; "),
        "{}",
        refused.message
    );
}

#[test]
fn at_most_one_model_is_loaded_in_ten_seconds() {
    let mut rig = Rig::new("limit = \"30W\"");
    let mut change = |now| rig.daemon.set_model("model.wgt", OTHER, Milliseconds(now));
    assert_eq!(change(0), Ok(()));
    for now in [999, 9_999] {
        assert_eq!(change(now).expect_err("too soon").name, "too_many_requests");
    }
    assert_eq!(change(10_000), Ok(()));
    // Attempts that fail are limited too.
    let mut change = |now| rig.daemon.set_model("absent.wgt", OTHER, Milliseconds(now));
    assert_eq!(change(30_000).expect_err("absent").name, "model_unreadable");
    assert_eq!(change(30_999).expect_err("soon").name, "too_many_requests");
    assert_eq!(change(31_000).expect_err("absent").name, "model_unreadable");
}

#[test]
fn the_reported_energy_is_the_board_s() {
    let mut rig = Rig::new("limit = \"30W\"");
    rig.run(120);
    let reported = rig.daemon.report().energy_mj as f64 / 1_000.0;
    let drawn = rig.daemon.files().tree.jetson().energy_j();
    assert!(
        (reported / drawn - 1.0).abs() < 0.02,
        "{reported} J of {drawn} J"
    );
}

#[test]
fn time_over_the_limit_and_errors_are_counted() {
    let mut rig = Rig::new("limit = \"30W\"");
    rig.run(30);
    assert_eq!(rig.daemon.report().over_limit_ms, 0);
    assert_eq!(
        rig.daemon.set_limit(wanted(15), by(1_000), &rig.clocks),
        Ok(())
    );
    rig.run(10);
    let report = rig.daemon.report();
    assert!((1..=1_000).contains(&report.over_limit_ms), "{report}");
    assert_eq!((report.sensor_errors, report.failed_changes), (0, 0));
    rig.inject("sensor VDD_GPU_SOC missing");
    rig.run(5);
    rig.inject("sensor VDD_GPU_SOC ok");
    rig.run(30);
    rig.daemon.files().read_only = true;
    assert_eq!(
        rig.daemon.set_limit(wanted(12), by(1_000), &rig.clocks),
        Ok(())
    );
    rig.run(5);
    let report = rig.daemon.report();
    assert_eq!(report.sensor_errors, 1, "{report}");
    assert!(report.failed_changes >= 1, "{report}");
}

#[test]
fn the_report_says_what_slows_the_board() {
    let mut rig = Rig::new("limit = \"30W\"");
    rig.run(5);
    let report = rig.daemon.report();
    assert_eq!(report.throttled, None);
    // In air of 25 °C; an AGX Orin has no sensor at its input.
    let mc = report.temperature_mc.expect("thermal zones");
    assert!((25_000..90_000).contains(&mc), "{report}");
    assert_eq!((report.oc1_events, report.oc2_events), (Some(0), Some(0)));
    assert_eq!(report.input_mv, None);
    rig.inject("cool gpu 216750");
    rig.inject("throttle 2");
    rig.run(5);
    let report = rig.daemon.report();
    assert_eq!(report.throttled.as_deref(), Some("cooling,firmware"));
    rig.inject("cool gpu off");
    rig.inject("throttle off");
    rig.run(15);
    assert_eq!(rig.daemon.report().throttled, None);
}

/// What the config, a lowering and a lease name is of the supply; what the sensor shows stays the module's.
#[test]
fn with_a_supply_all_limits_are_its_own_and_the_report_says_so() {
    let lines =
        "limit = \"36W\"\nmax_limit = \"40W\"\nsupply = { efficiency = 0.9, offset = \"2.5W\" }";
    let mut rig = Rig::new(lines);
    rig.run(20);
    let of_module = |supply_mw: u32| (supply_mw - 2_500) * 9 / 10;
    let shows = |rig: &mut Rig, limit_mw: u32| {
        rig.run(5);
        let report = rig.daemon.report();
        assert_eq!(
            (report.limit_mw, report.limit_at),
            (limit_mw, Place::Supply)
        );
        assert_eq!(report.module_limit_mw, Some(of_module(limit_mw)));
        assert!(report.allowed_mw < of_module(limit_mw), "{report}");
        let measured = report.measured_mw.expect("measured");
        assert!(measured <= report.allowed_mw, "{report}");
        let supply = report.supply_mw.expect("measured");
        assert!(supply.abs_diff(measured * 10 / 9 + 2_500) <= 2, "{report}");
        assert_eq!((report.supply_added_mw, report.meter_mw), (None, None));
        report.to_string()
    };
    let text = shows(&mut rig, 36_000);
    assert!(text.contains("\nlimit 36 W at the supply\n"), "{text}");
    assert!(text.contains("\nmax_limit 40 W at the supply\n"), "{text}");
    assert!(text.contains("\nmodule_limit 30.15 W\n"), "{text}");
    let power = |mw| WantedLease::from_power(Milliwatts(mw));
    let client = ClientId(1);
    let leased = rig
        .daemon
        .lease(client, power(40_000), by(1_000), &rig.clocks);
    leased.expect("within max_limit");
    shows(&mut rig, 40_000);
    let refused = rig
        .daemon
        .lease(client, power(40_001), by(1_000), &rig.clocks);
    assert_eq!(refused.expect_err("over").name, "over_max_limit");
    let set = rig.daemon.set_limit(wanted(22), by(1_000), &rig.clocks);
    set.expect("lower");
    shows(&mut rig, 22_000);
    // Limits of another supply mean something else.
    let other = rig.config(&lines.replace("0.9", "0.8"));
    assert!(!rig.daemon.has_supply_of(&other));
    let higher = rig.config(&lines.replace("36W", "38W"));
    assert!(rig.daemon.has_supply_of(&higher));
}
