//! The socket for steps of the daemon's process, to which anybody may send.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::thread;
use std::time::{Duration, Instant};

use wattgate_cli::steps::Steps;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::steps;

use crate::wattgated::{Rig, eventually, outcome, with_board};

fn report(rig: &Rig) -> Report {
    let (code, told, errors) = rig.status(&["--json"]);
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&told).expect("a report")
}

/// Waits until the first line of the status has these words; a mode that was just set has others.
fn says(rig: &Rig, words: &str) {
    let line = || outcome(&mut rig.client("status")).1;
    eventually(words, || line().contains(words).then_some(()));
}

#[test]
fn steps_that_a_workload_tells_are_shown_with_their_speed_and_energy() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let path = steps::socket(&rig.root);
        let mode = |path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!(mode(path.as_path()), 0o666);
        assert_eq!(mode(path.parent().expect("a folder")), 0o755);
        says(rig, "; nobody reports steps");
        let mut yolo = Steps::new(Some(path.clone()), 16, "yolo");
        let begun = Instant::now();
        // 200 steps a second.
        while begun.elapsed() < Duration::from_secs(2) {
            yolo.report(begun.elapsed().as_millis() as u64 / 5);
            thread::sleep(Duration::from_millis(5));
        }
        let report = report(rig);
        let [told] = &report.workloads[..] else {
            panic!("{:?}", report.workloads);
        };
        let name = told.name.as_deref();
        assert_eq!(
            (name, told.items, told.idle),
            (Some("yolo"), Some(16), false)
        );
        assert_eq!(told.pid, i32::try_from(std::process::id()).ok());
        let us = told.step_us.expect("a speed");
        assert!((4_500..5_500).contains(&us), "{us}");
        // The board draws between 5 and 60 W.
        let uj = told.step_uj.expect("an energy");
        assert!((25_000..300_000).contains(&uj), "{uj}");
        let line = format!("; {told}");
        assert!(line.starts_with("; yolo at ") && line.ends_with(" J a step"));
        says(rig, "; yolo is idle");
        daemon.stop();
        assert!(!path.exists());
    });
}

#[test]
fn a_flood_of_steps_is_named_and_the_daemon_holds_on() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let before = report(rig);
        let path = steps::socket(&rig.root);
        let flood = UnixDatagram::unbound().expect("a socket");
        flood.connect(&path).expect("the daemon's");
        flood.set_nonblocking(true).expect("set");
        let begun = Instant::now();
        let mut sent = 0_u64;
        while begun.elapsed() < Duration::from_secs(3) {
            let name = sent % 1_000;
            let line = format!("steps={} name=n{name}", sent * sent);
            sent += u64::from(flood.send(line.as_bytes()).is_ok());
        }
        let after = report(rig);
        let uid = rustix::process::getuid().as_raw();
        assert_eq!(after.flooded_by, Some(uid), "after {sent} datagrams");
        assert!(after.workloads.len() <= 8);
        assert_eq!(after.violations, before.violations);
        assert_eq!((&*after.state, after.cores), ("tracking", before.cores));
        daemon.logs(&format!(
            "<5>uid {uid} sends steps faster than they are read"
        ));
        daemon.stop();
    });
}
