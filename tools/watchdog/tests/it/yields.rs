//! A client takes the board: the daemon writes nothing until the client's connection ends.

use std::fs;
use std::os::unix::net::UnixDatagram;

use crate::server::{Client, STATUS, Server, limit};
use crate::wattgated::{Daemon, Holder, Rig, TIMEOUT, eventually, notification, with_board};
use rustix::process::{Pid, Signal, kill_process};
use wattgate_watchdog::clock::Clock;
use wattgate_watchdog::serve::protocol::Request;

const SAMPLES: &str = "/sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon0/samples";

/// A tracking daemon that has yielded its board to a client, and no record of earlier writes.
fn yielded() -> (Server, Client) {
    yielded_with("limit = \"30W\"")
}

fn yielded_with(lines: &str) -> (Server, Client) {
    let mut server = Server::with(lines);
    server.open_root();
    server.run(20);
    let client = server.with_root(Request::Yield);
    assert_eq!(state(&server), "yielded");
    server.rig.daemon.files().writes.clear();
    (server, client)
}

fn state(server: &Server) -> String {
    server.rig.daemon.report().state.into_owned()
}

fn writes(server: &mut Server) -> usize {
    server.rig.daemon.files().writes.len()
}

/// Runs for some seconds while the client sends a line each second.
fn run_alive(server: &mut Server, client: &mut Client, seconds: u64) {
    for _ in 0..seconds {
        client.send(STATUS);
        server.run(1);
        client.answers();
    }
}

/// The board's power in W.
fn watts(server: &mut Server) -> f64 {
    let joules = |server: &mut Server| server.rig.daemon.files().tree.jetson().energy_j();
    let now = |server: &Server| server.rig.clocks.now.get();
    let (before, from) = (joules(server), now(server));
    server.run(1);
    (joules(server) - before) / ((now(server) - from) as f64 / 1_000.0)
}

/// The preset of 30 W draws more than the limit.
#[test]
fn nothing_is_written_while_the_board_is_yielded() {
    let (mut server, mut client) = yielded_with("limit = \"15W\"");
    server.rig.inject("nvpmodel 2");
    server.rig.inject("jetson-clocks");
    server.rig.inject(&format!("write {SAMPLES} 512"));
    run_alive(&mut server, &mut client, 60);
    assert_eq!(
        (writes(&mut server), state(&server)),
        (0, "yielded".to_owned())
    );
    let drawn = watts(&mut server);
    assert!(drawn > 16.0, "{drawn} W");
    assert_eq!(writes(&mut server), 0);
    let report = server.rig.daemon.report();
    let measured = f64::from(report.measured_mw.expect("measured")) / 1_000.0;
    assert!(
        (0.95..1.05).contains(&(measured / drawn)),
        "{measured} W of {drawn} W"
    );
    // What was over meanwhile is counted and shown.
    let over = report.over_limit_ms;
    assert!((55_000..=65_000).contains(&over), "{over} ms over");
    // At the end of the connection the next step corrects it.
    assert!(server.end(client), "a look is due");
    assert_eq!(writes(&mut server), 0);
    server.rig.step();
    assert!(writes(&mut server) > 0);
    let (_, mode) = server.rig.daemon.status();
    let mut files = |text: &str| server.rig.daemon.files().tree.read(text).expect("readable");
    let clock = files("/sys/class/devfreq/17000000.ga10b/max_freq");
    let [.., gpu_khz, _] = mode.knobs();
    assert_eq!(clock.trim(), format!("{gpu_khz}000"));
    server.run(2);
    let drawn = watts(&mut server);
    assert!((10.0..15.2).contains(&drawn), "{drawn} W");
    assert_eq!(
        server.rig.daemon.files().tree.read(SAMPLES),
        Ok("64\n".to_owned())
    );
}

#[test]
fn the_first_mode_after_a_yield_is_not_faster_than_before() {
    let (mut server, client) = yielded();
    let before = server.rig.daemon.report();
    server.end(client);
    server.rig.step();
    let after = server.rig.daemon.report();
    assert_eq!(after.state, "booting");
    assert!(after.predicted_mw <= before.predicted_mw, "{after}");
    server.run(60);
    assert_eq!(state(&server), "tracking");
}

#[test]
fn a_silent_client_loses_the_board_after_two_seconds() {
    let (mut server, mut client) = yielded();
    for _ in 0..5 {
        server.advance(1_999);
        client.send(STATUS);
        server.turn();
        assert!(client.has_report());
    }
    // Part of a line does not count.
    server.advance(1_000);
    client.send(b"{");
    server.turn();
    server.advance(999);
    assert_eq!((server.clients(), state(&server).as_str()), (1, "yielded"));
    server.advance(1);
    assert_eq!((server.clients(), state(&server).as_str()), (0, "booting"));
    assert!(!client.receive());
    server.rig.step();
    assert!(writes(&mut server) > 0);
}

/// Clients that keep the daemon busy until the next step do not delay it.
#[test]
fn a_silent_client_loses_the_board_even_if_there_is_no_time_for_clients() {
    let (mut server, _client) = yielded();
    let now = server.rig.clocks.now.get();
    server.rig.clocks.now.set(now + 2_000);
    assert!(server.turn_for(0), "a look is due");
    assert_eq!(state(&server), "booting");
}

#[test]
fn a_client_that_closes_its_side_loses_the_board() {
    let (mut server, client) = yielded();
    server.advance(100);
    client.end_input();
    assert!(server.turn(), "a look is due");
    assert_ne!(state(&server), "yielded");
}

/// The connection stays open for the answers that the client has not read.
#[test]
fn a_client_that_closes_its_side_before_it_has_read_loses_the_board() {
    let (mut server, mut client) = yielded();
    while !server.has_pending_output() {
        server.advance(1_000);
        client.send(&STATUS.repeat(10));
        server.turn();
    }
    assert_eq!(state(&server), "yielded");
    client.end_input();
    server.turn();
    assert_eq!((server.clients(), state(&server).as_str()), (1, "booting"));
}

#[test]
fn only_one_client_has_the_board() {
    let (mut server, mut client) = yielded();
    assert!(server.ask(&mut client, Request::Yield).is_ok(), "it has it");
    let mut other = server.connect_as_root();
    let refused = server.ask(&mut other, Request::Yield).expect_err("taken");
    assert_eq!(refused.name, "already_yielded");
    server.end(other);
    assert_eq!(state(&server), "yielded");
    server.end(client);
    server.with_root(Request::Yield);
}

#[test]
fn limits_that_change_meanwhile_hold_afterwards() {
    let (mut server, mut client) = yielded();
    let mut other = server.connect();
    let report = server.ask(&mut other, limit(25_000)).expect("taken");
    assert_eq!(
        (report.limit_mw, report.state.as_ref()),
        (25_000, "yielded")
    );
    run_alive(&mut server, &mut client, 2);
    let (new, utc) = (
        server.rig.config("limit = \"18W\""),
        server.rig.clocks.utc(),
    );
    server.rig.daemon.reload(new, utc);
    run_alive(&mut server, &mut client, 2);
    assert_eq!(writes(&mut server), 0);
    server.end(client);
    server.rig.step();
    let report = server.rig.daemon.report();
    assert!(report.predicted_mw <= 18_000, "{report}");
    server.run(2);
    let drawn = watts(&mut server);
    assert!(drawn <= 18.2, "{drawn} W");
}

#[test]
fn energy_is_counted_while_the_board_is_yielded() {
    let (mut server, mut client) = yielded();
    let drawn = server.rig.daemon.files().tree.jetson().energy_j();
    let counted = server.rig.daemon.report().energy_mj;
    server.rig.inject("nvpmodel 2");
    server.rig.inject("jetson-clocks");
    run_alive(&mut server, &mut client, 60);
    let drawn = server.rig.daemon.files().tree.jetson().energy_j() - drawn;
    let counted = (server.rig.daemon.report().energy_mj - counted) as f64 / 1_000.0;
    assert!(
        (0.98..1.02).contains(&(counted / drawn)),
        "{counted} J of {drawn} J"
    );
}

#[test]
fn subscribers_see_that_the_board_is_yielded_and_taken_over() {
    let mut server = Server::new();
    server.open_root();
    server.run(20);
    let mut subscriber = server.subscriber(60_000);
    server.advance(100);
    let client = server.with_root(Request::Yield);
    server.advance(100);
    let seen = subscriber.answers();
    assert_eq!(
        seen.last().expect("a line").as_ref().expect("ok").state,
        "yielded"
    );
    server.end(client);
    server.advance(100);
    let seen = subscriber.answers();
    assert_eq!(
        seen.last().expect("a line").as_ref().expect("ok").state,
        "booting"
    );
}

/// A process that has the board and sends five lines a second.
fn holder(rig: &Rig) -> Holder {
    rig.holder(
        Request::Yield,
        "while :; do echo '{\"version\":1,\"request\":\"status\"}'; sleep 0.2 >/dev/null; done",
    )
}

fn is_yielded(rig: &Rig) -> bool {
    let (code, report, errors) = rig.status(&[]);
    assert_eq!(code, Some(0), "{errors}");
    report.contains("state yielded\n")
}

#[test]
fn after_a_killed_or_stopped_client_the_daemon_takes_the_board_over() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        for signal in [Signal::KILL, Signal::STOP] {
            let client = holder(rig);
            daemon.logs("<5>yielded the board to a client");
            assert!(is_yielded(rig));
            kill_process(Pid::from_child(&client.0), signal).expect("alive");
            daemon.logs("<5>took the board over from a client");
            daemon.logs("<6>booting: ");
            assert!(!is_yielded(rig));
        }
        daemon.stop();
    });
}

#[test]
fn a_stop_while_the_board_is_yielded_leaves_a_mode_of_the_daemon() {
    with_board("30W", |rig| {
        let before = rig.knobs();
        let mut daemon = rig.run("<6>tracking; measured ");
        let _client = holder(rig);
        // The sensor averages as before again.
        let held = rig.knobs();
        assert_ne!(held, before);
        // The lock and the saved state stay.
        let (code, _, errors) = rig.output("run");
        assert_eq!(code, Some(5), "{errors}");
        assert!(rig.saved_state_file().exists());
        assert!(is_yielded(rig));
        rig.configure("limit = \"15W\"");
        daemon.signal(Signal::HUP);
        daemon.logs("<5>limit is now 15 W, from the config");
        assert!(is_yielded(rig));
        assert_eq!(
            rig.knobs(),
            held,
            "the lower limit does not touch the board"
        );
        daemon.stop();
        assert!(rig.saved_state_file().exists());
        assert_ne!(rig.knobs(), held, "the mode fits the lower limit");
        assert_ne!(rig.knobs(), before);
    });
}

#[test]
fn both_watchdogs_are_fed_while_the_board_is_yielded() {
    with_board("30W", |rig| {
        rig.configure("limit = \"30W\"\nhardware_watchdog = \"/dev/watchdog0\"");
        let device = rig.root.join("dev/watchdog0");
        fs::create_dir_all(device.parent().expect("a directory")).expect("made");
        fs::write(&device, "").expect("made");
        let path = rig.config.with_file_name("notify");
        let socket = UnixDatagram::bind(&path).expect("bound");
        socket.set_read_timeout(Some(TIMEOUT)).expect("set");
        let mut command = rig.command("run");
        command.env("NOTIFY_SOCKET", &path);
        let mut daemon = Daemon::start(command);
        daemon.logs("<6>booting: ");
        let _client = holder(rig);
        let next = || notification(&socket);
        let text = "WATCHDOG=1\nSTATUS=yielded to a client; ";
        while !next().starts_with(text) {}
        let fed = || fs::read_to_string(&device).expect("readable").len();
        let before = fed();
        for _ in 0..3 {
            let next = next();
            assert!(next.starts_with(text), "{next}");
        }
        eventually("further feeds", || (fed() >= before + 2).then_some(()));
        daemon.stop();
    });
}
