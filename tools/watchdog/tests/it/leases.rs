//! Leases: a limit and a model that end with the connection of their client.

use std::fs;
use std::io::Read;
use std::net::Shutdown;
use std::process::Stdio;

use crate::common::weights;
use crate::server::{STATUS, Server, limit};
use crate::wattgated::{Rig, outcome, with_board};
use wattgate_runtime::Milliwatts;
use wattgate_watchdog::client::{Client, ClientError};
use wattgate_watchdog::clock::Clock;
use wattgate_watchdog::report::{Report, Source};
use wattgate_watchdog::serve::protocol::{Request, WantedAverage, WantedLease, WantedLimit};

fn watts(watts: u32) -> WantedLease {
    WantedLease::from_power(Milliwatts(1_000 * watts))
}

fn lease(power_w: u32) -> Request {
    Request::Lease(watts(power_w))
}

/// A lease with an average in W over a window in s.
fn averaged(power_w: u32, mean: u32, seconds: u64) -> Request {
    Request::Lease(WantedLease {
        average: Some(WantedAverage {
            power_mw: 1_000 * mean,
            window_ms: 1_000 * seconds,
        }),
        ..watts(power_w)
    })
}

fn modelled(power_w: u32, model: &str) -> Request {
    Request::Lease(WantedLease {
        model: Some(model.to_owned()),
        ..watts(power_w)
    })
}

fn limit_of(report: &Report) -> (u32, Source) {
    (report.limit_mw / 1_000, report.limit_from)
}

fn limit_in(server: &Server) -> (u32, Source) {
    limit_of(&server.rig.daemon.report())
}

/// Limit, average and window, in W and s.
fn limits_in(server: &Server) -> (u32, Option<(u32, u64)>) {
    let report = server.rig.daemon.report();
    let average = report.average_mw.zip(report.average_window_ms);
    let average = average.map(|(power, window)| (power / 1_000, window / 1_000));
    (report.limit_mw / 1_000, average)
}

#[test]
fn a_lease_ends_with_its_connection() {
    let mut server = Server::new();
    let mut open = server.connect();
    let report = server.ask(&mut open, lease(20)).expect("leased");
    assert_eq!(limit_of(&report), (20, Source::Lease));
    for _ in 0..5 {
        server.run(1);
        open.send(STATUS);
        server.turn();
    }
    let report = server.rig.daemon.report();
    assert!(report.measured_mw.expect("measured") <= 20_000, "{report}");
    assert!(server.end(open), "a look is due");
    assert_eq!(
        (server.clients(), limit_in(&server)),
        (0, (30, Source::Config))
    );
    // Closing the sending side ends it too.
    let half = server.with_client(lease(20));
    half.stream.shutdown(Shutdown::Write).expect("shut");
    server.turn();
    assert_eq!(limit_in(&server), (30, Source::Config));
    // So does a client that is disconnected because of its requests.
    let mut abusive = server.with_client(lease(20));
    abusive.send(&b"\n".repeat(90));
    server.turn();
    assert_eq!(
        (server.clients(), limit_in(&server)),
        (0, (30, Source::Config))
    );
}

#[test]
fn of_several_leases_the_lowest_limits_hold() {
    let mut server = Server::with(
        "limit = \"30W\"\nmax_limit = \"40W\"\naverage = { power = \"28W\", window = \"90s\" }",
    );
    let first = server.with_client(averaged(25, 18, 60));
    assert_eq!(limits_in(&server), (25, Some((18, 60))));
    let second = server.with_client(averaged(20, 19, 30));
    assert_eq!(limits_in(&server), (20, Some((18, 30))));
    // The third has the config's average.
    let third = server.with_client(lease(40));
    assert_eq!(limits_in(&server), (20, Some((18, 30))));
    server.end(second);
    assert_eq!(limits_in(&server), (25, Some((18, 60))));
    server.end(first);
    assert_eq!(limits_in(&server), (40, Some((28, 90))));
    server.end(third);
    assert_eq!(limits_in(&server), (30, Some((28, 90))));
    assert_eq!(server.rig.daemon.report().claims, []);
}

#[test]
fn a_lease_holds_in_place_of_the_config_and_under_every_lowering() {
    let mut server = Server::with("limit = \"20W\"\nmax_limit = \"30W\"");
    let mut client = server.connect();
    let leased = server.with_client(lease(25));
    assert_eq!(limit_in(&server), (25, Source::Lease));
    let report = server.ask(&mut client, limit(15_000)).expect("taken");
    assert_eq!(limit_of(&report), (15, Source::Socket));
    assert!(report.unsaved, "{report}");
    let utc = server.rig.clocks.utc();
    let new = server.rig.config("limit = \"22W\"\nmax_limit = \"30W\"");
    server.rig.daemon.reload(new, utc);
    assert_eq!(limit_in(&server), (15, Source::Socket));
    let report = server.ask(&mut client, Request::SetLimit(None));
    assert_eq!(limit_of(&report.expect("lifted")), (25, Source::Lease));
    server.end(leased);
    assert_eq!(limit_in(&server), (22, Source::Config));
}

/// A lease is renewed, as a loan is.
#[test]
fn a_silent_lease_lapses_after_two_seconds() {
    let mut server = Server::new();
    let mut client = server.with_client(lease(20));
    for _ in 0..5 {
        server.advance(1_999);
        client.send(STATUS);
        server.turn();
        assert!(client.has_report());
    }
    server.advance(1_999);
    assert_eq!(limit_in(&server), (20, Source::Lease));
    server.advance(1);
    assert_eq!(
        (server.clients(), limit_in(&server)),
        (0, (30, Source::Config))
    );
    assert!(!client.receive());
}

#[test]
fn a_lease_ends_with_its_time() {
    let mut server = Server::new();
    let wanted = WantedLease {
        for_ms: Some(5_000),
        program: Some("a\nb".to_owned()),
        ..watts(20)
    };
    let mut client = server.with_client(Request::Lease(wanted));
    let report = server.rig.daemon.report();
    assert_eq!(report.limit_for_ms, Some(5_000));
    let by = report.limit_by.expect("a client");
    let own = i32::try_from(std::process::id()).expect("small");
    assert_eq!((by.pid, by.program.as_deref()), (own, Some("a?b")));
    for _ in 0..4 {
        server.run(1);
        client.send(STATUS);
        server.turn();
    }
    assert_eq!(limit_in(&server), (20, Source::Lease));
    client.send(STATUS);
    server.run(2);
    assert_eq!(limit_in(&server), (30, Source::Config));
    assert_eq!(server.clients(), 1, "the client may go on");
}

/// A client changes the limit up and down many times in a second: each lowering holds at once, and four raises do.
#[test]
fn the_limit_is_raised_four_times_a_second_at_most() {
    let mut server = Server::new();
    let mut client = server.connect();
    let mut raised = 0;
    for _ in 0..15 {
        let before = limit_in(&server).0;
        let report = server.ask(&mut client, limit(15_000)).expect("taken");
        assert_eq!(limit_of(&report), (15, Source::Socket));
        let report = server.ask(&mut client, Request::SetLimit(None));
        raised += u32::from(report.expect("lifted").limit_mw > 15_000);
        assert!(before <= 30);
    }
    assert_eq!(raised, 4);
    assert_eq!(limit_in(&server), (15, Source::Socket));
    server.run(2);
    assert_eq!(limit_in(&server), (30, Source::Config));
}

#[test]
fn a_second_lease_of_a_client_replaces_its_first() {
    let mut server = Server::new();
    let mut client = server.with_client(averaged(20, 18, 60));
    assert!(server.ask(&mut client, lease(25)).is_ok());
    assert_eq!(limits_in(&server), (25, None));
    let refused = server.ask(&mut client, lease(0)).expect_err("no power");
    assert_eq!(refused.name, "out_of_range");
    let refused = server.ask(&mut client, averaged(20, 18, 0));
    assert_eq!(refused.expect_err("no window").name, "out_of_range");
    assert_eq!(limits_in(&server), (25, None), "the first still holds");
}

/// What is lower holds at once, though what is higher must wait.
#[test]
fn a_lowering_holds_at_once_while_raises_wait() {
    let mut server = Server::new();
    let mut client = server.connect();
    let average = |watts: u32, mean_w: u32| {
        Request::SetLimit(Some(WantedLimit {
            average: Some(WantedAverage {
                power_mw: 1_000 * mean_w,
                window_ms: 60_000,
            }),
            ..WantedLimit::from_power(Milliwatts(1_000 * watts))
        }))
    };
    for _ in 0..4 {
        assert!(server.ask(&mut client, limit(15_000)).is_ok());
        assert!(server.ask(&mut client, Request::SetLimit(None)).is_ok());
    }
    assert!(server.ask(&mut client, average(20, 18)).is_ok());
    // The power falls, and the average goes.
    let report = server.ask(&mut client, limit(12_000)).expect("lowered");
    assert_eq!((report.limit_mw, report.average_mw), (12_000, Some(18_000)));
    server.run(2);
    let report = server.rig.daemon.report();
    assert_eq!((report.limit_mw, report.average_mw), (12_000, None));
}

/// A user's attempts keep root from nothing.
#[test]
fn root_sets_a_model_whatever_users_ask_for() {
    let mut server = Server::new();
    add_models(&server);
    server.open_root();
    let mut user = server.connect();
    let mut root = server.connect_as_root();
    let set = |name: &str| Request::SetModel(name.to_owned());
    assert!(server.ask(&mut user, set("other.wgt")).is_ok());
    let refused = server.ask(&mut user, set("absent.wgt"));
    assert_eq!(refused.expect_err("soon").name, "too_many_requests");
    let report = server.ask(&mut root, set("third.wgt"));
    assert_eq!(report.expect("set").model.as_deref(), Some("third.wgt"));
    let refused = server.ask(&mut root, set("model.wgt"));
    assert_eq!(refused.expect_err("soon").name, "too_many_requests");
    server.advance(1_000);
    assert!(server.ask(&mut root, set("model.wgt")).is_ok());
}

/// Adds a second and a defective model to the folder of models.
fn add_models(server: &Server) {
    let folder = server.rig.folder.path();
    let other = weights("orin-agx-64-resnet18-all-modes.wgt");
    fs::copy(other, folder.join("other.wgt")).expect("copied");
    let resnet = weights("orin-agx-64-resnet18.wgt");
    fs::copy(resnet, folder.join("third.wgt")).expect("copied");
    fs::write(folder.join("text.wgt"), "no model").expect("written");
}

#[test]
fn a_model_of_a_lease_ends_with_it() {
    let mut server = Server::new();
    add_models(&server);
    let least = server.rig.daemon.report().least_mw;
    let mut client = server.connect();
    let report = server.ask(&mut client, modelled(25, "other.wgt"));
    let report = report.expect("leased");
    assert_eq!(
        (report.model.as_deref(), report.state.as_ref()),
        (Some("other.wgt"), "booting")
    );
    assert_ne!(report.least_mw, least);
    server.run(20);
    // The first model is still in memory.
    fs::remove_file(server.rig.folder.path().join("model.wgt")).expect("removed");
    server.end(client);
    let report = server.rig.daemon.report();
    assert_eq!(
        (report.model.as_deref(), report.least_mw),
        (Some("model.wgt"), least)
    );
    assert_eq!(limit_of(&report), (30, Source::Config));
    server.run(20);
    let report = server.rig.daemon.report();
    assert!(
        report.measured_mw.is_some_and(|it| it <= 30_000),
        "{report}"
    );
}

#[test]
fn of_several_leases_the_newest_model_holds() {
    let mut server = Server::new();
    add_models(&server);
    let model = |server: &Server| server.rig.daemon.report().model;
    let mut first = server.with_client(modelled(25, "other.wgt"));
    let wait = |server: &mut Server, clients: &mut [&mut crate::server::Client]| {
        for _ in 0..10 {
            server.advance(1_000);
            for client in &mut *clients {
                client.send(STATUS);
            }
            server.turn();
            clients.iter_mut().for_each(|client| drop(client.answers()));
        }
    };
    wait(&mut server, &mut [&mut first]);
    let mut second = server.with_client(modelled(25, "third.wgt"));
    let mut third = server.with_client(lease(25));
    assert_eq!(model(&server).as_deref(), Some("third.wgt"));
    // A new lease without a model gives the model back.
    assert!(server.ask(&mut second, lease(25)).is_ok());
    assert_eq!(model(&server).as_deref(), Some("other.wgt"));
    wait(&mut server, &mut [&mut first, &mut second, &mut third]);
    // A model that is set meanwhile holds after the leases.
    let set = Request::SetModel("third.wgt".to_owned());
    server.open_root();
    let mut root = server.connect_as_root();
    let report = server.ask(&mut root, set).expect("taken");
    assert_eq!(report.model.as_deref(), Some("other.wgt"));
    server.end(first);
    server.end(third);
    assert_eq!(model(&server).as_deref(), Some("third.wgt"));
}

#[test]
fn a_lease_with_a_refused_model_changes_nothing() {
    let mut server = Server::new();
    add_models(&server);
    let mut client = server.with_client(modelled(25, "other.wgt"));
    for _ in 0..10 {
        server.advance(1_000);
        client.send(STATUS);
        server.turn();
        client.answers();
    }
    for (name, error) in [
        ("text.wgt", "model_defective"),
        ("../model.wgt", "model_not_allowed"),
        ("absent.wgt", "model_unreadable"),
    ] {
        server.advance(1_000);
        let before = server.rig.daemon.report();
        let refused = server.ask(&mut client, modelled(20, name));
        assert_eq!(refused.expect_err(name).name, error);
        assert_eq!(server.rig.daemon.report(), before, "{name}");
    }
    let refused = server.ask(&mut client, modelled(20, "third.wgt"));
    let refused = refused.expect_err("too soon");
    assert_eq!(refused.name, "too_many_requests");
    // The model that it has is not loaded again.
    assert!(server.ask(&mut client, modelled(20, "other.wgt")).is_ok());
    assert_eq!(limit_in(&server), (20, Source::Lease));
}

fn limit_shown(rig: &Rig) -> String {
    let (_, report, errors) = rig.status(&[]);
    let lines = report.lines().filter(|line| line.starts_with("limit"));
    let lines: Vec<&str> = lines.take(2).collect();
    assert_eq!(lines.len(), 2, "{errors}");
    lines.join(", ")
}

#[test]
fn a_killed_client_s_lease_ends() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let mut lease = rig.client("lease");
        let lease = lease.arg("20W");
        let mut holder = lease.stderr(Stdio::null()).spawn().expect("started");
        daemon.logs("<5>limit is now 20 W, from the lease of ");
        daemon.logs("<6>stepping down: ");
        assert_eq!(limit_shown(rig), "limit 20 W, limit_from lease");
        holder.kill().expect("alive");
        holder.wait().expect("a child");
        daemon.logs("<5>limit is now 30 W, from the config");
        daemon.stop();
    });
}

#[test]
fn a_lease_of_the_command_line_lasts_as_long_as_its_program() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let run = |arguments: &[&str]| outcome(rig.client("lease").args(arguments));
        // Longer than a lease that is not renewed.
        let (code, _, errors) = run(&["20W", "--", "sh", "-c", "sleep 3; exit 7"]);
        assert_eq!(code, Some(7), "{errors}");
        assert!(errors.contains("leased 20 W\n"), "{errors}");
        daemon.logs("leased the limit 20 W");
        daemon.logs("the lease is over: ");
        let (code, _, errors) = run(&["20W", "--for", "1s"]);
        assert_eq!(code, Some(0), "{errors}");
        let (code, _, errors) = run(&["31W", "--", "true"]);
        assert_eq!(code, Some(2), "{errors}");
        let says = "error: power_mw is 31000, expected at most 30000, the highest limit of the config; ask for less, or let root set max_limit in the config\n";
        assert_eq!(errors, says);
        let (code, _, errors) = run(&["20W", "--", "/absent"]);
        assert_eq!(code, Some(127), "{errors}");
        assert!(errors.contains("/absent: cannot be started: "), "{errors}");
        daemon.stop();
        let (code, _, errors) = run(&["20W", "--", "true"]);
        assert_eq!(code, Some(5), "{errors}");
    });
}

/// A child has inherited the connection and sends lines over it.
#[test]
fn a_lease_ends_with_the_process_that_took_it() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let path = rig.root.join("run/wattgated/socket");
        let script = "import os, socket, time\n\
            s = socket.socket(socket.AF_UNIX)\n\
            s.connect(os.environ['SOCKET'])\n\
            s.sendall(b'{\"version\":1,\"request\":{\"lease\":{\"power_mw\":20000}}}\\n')\n\
            s.recv(65536)\n\
            if os.fork():\n\
            \x20   print('forked', flush=True)\n\
            \x20   time.sleep(100)\n\
            while True:\n\
            \x20   s.sendall(b'{\"version\":1,\"request\":\"status\"}\\n')\n\
            \x20   if not s.recv(65536): break\n\
            \x20   time.sleep(0.2)\n";
        let mut python = std::process::Command::new("python3");
        let python = python.args(["-c", script]).env("SOCKET", path);
        let Ok(mut holder) = python.stdout(Stdio::piped()).spawn() else {
            return println!("not tested: no python3");
        };
        daemon.logs("<5>limit is now 20 W, from the lease of ");
        let mut line = [0; 7];
        let mut printed = holder.stdout.take().expect("a pipe");
        printed.read_exact(&mut line).expect("printed");
        holder.kill().expect("alive");
        holder.wait().expect("a child");
        daemon.logs("the lease is over: its process has ended");
        daemon.logs("<5>limit is now 30 W, from the config");
        daemon.stop();
    });
}

#[test]
fn a_client_sees_refusals_and_the_end_of_the_daemon() {
    with_board("30W", |rig| {
        let absent = Client::connect(&rig.root).expect_err("no daemon");
        assert!(absent.to_string().contains("(os error 2)"), "{absent}");
        let mut daemon = rig.run("<6>booting: ");
        let mut client = Client::connect(&rig.root).expect("connected");
        assert!(client.is_open());
        match client.lease(watts(0)) {
            Err(ClientError::Refused(refused)) => assert_eq!(refused.name, "out_of_range"),
            other => panic!("{other:?}"),
        }
        assert_eq!(client.status().expect("open").limit_mw, 30_000);
        assert!(client.is_open());
        daemon.stop();
        assert!(!client.is_open());
        assert!(matches!(client.status(), Err(ClientError::NoDaemon { .. })));
    });
}
