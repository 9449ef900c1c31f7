//! What clients get: answers, status lines, the metrics page and the metrics file.

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::server::{Page, STATUS, Server, connect, limit, response};
use wattgate_runtime::Milliseconds;
use wattgate_watchdog::report::Source;
use wattgate_watchdog::serve::protocol::{Request, Subscription};
use wattgate_watchdog::serve::socket::Socket;
use wattgate_watchdog::serve::textfile::Textfile;

#[test]
fn each_answer_shows_the_status_after_the_request() {
    let mut server = Server::new();
    let mut client = server.connect();
    let report = server.ask(&mut client, Request::Status);
    assert_eq!(report, Ok(server.rig.daemon.report()));
    let report = server.ask(&mut client, limit(20_000)).expect("taken");
    assert_eq!(report.limit_mw, 20_000);
    assert_eq!(report.limit_from, Source::Socket);
    let report = server.ask(&mut client, Request::SetLimit(None));
    let report = report.expect("taken");
    assert_eq!(report.limit_mw, 30_000);
    assert_eq!(report.limit_from, Source::Config);
    let model = Request::SetModel("model.wgt".to_owned());
    let report = server.ask(&mut client, model).expect("taken");
    assert_eq!(report.state, "booting");
    server.advance(1_000);
    let model = Request::SetModel("../model.wgt".to_owned());
    let refused = server.ask(&mut client, model).expect_err("refused");
    assert_eq!(refused.name, "model_not_allowed");
    let refused = server.ask(&mut client, limit(0)).expect_err("refused");
    assert_eq!(refused.name, "out_of_range");
}

#[test]
fn a_change_makes_a_step_due_and_a_status_request_does_not() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(STATUS);
    assert!(!server.turn());
    client.send(&limit(20_000).line());
    assert!(server.turn());
    // Setting the same limit again changes nothing.
    client.send(&limit(20_000).line());
    assert!(!server.turn());
}

#[test]
fn requests_may_arrive_in_parts_or_together() {
    let mut server = Server::new();
    let mut client = server.connect();
    for byte in &STATUS[..STATUS.len() - 1] {
        client.send(&[*byte]);
        server.turn();
        assert_eq!(client.answer(), None);
    }
    client.send(b"\n");
    server.turn();
    assert!(client.has_report());
    server.advance(1_000);
    client.send(&STATUS.repeat(5));
    server.turn();
    assert_eq!(client.answers().len(), 5);
}

#[test]
fn garbage_gets_a_named_error_and_the_connection_stays_open() {
    let mut server = Server::new();
    let mut client = server.connect();
    for (line, name) in [
        (&b"\n"[..], "malformed"),
        (b"status\n", "malformed"),
        (b"\0\0\0\0\n", "malformed"),
        (b"{\"version\":1,\"request\":\"reboot\"}\n", "malformed"),
        (b"{\"version\":9,\"request\":\"status\"}\n", "version"),
        (b"{\"version\":1,\"request\":\"\xC3\x28\"}\n", "not_utf8"),
        (
            b"{\"version\":1,\"request\":{\"set_limit\":{\"power_mw\":1e9}}}\n",
            "malformed",
        ),
    ] {
        client.send(line);
        server.turn();
        assert_eq!(client.error(), name, "{}", line.escape_ascii());
    }
    client.send(STATUS);
    server.turn();
    assert!(client.has_report());
}

#[test]
fn half_a_line_at_the_end_of_input_gets_an_error() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(&STATUS[..20]);
    server.turn();
    client.end_input();
    server.turn();
    assert_eq!(client.error(), "malformed");
    assert_eq!(server.clients(), 0);
}

#[test]
fn a_client_that_closes_its_side_is_answered_and_disconnected() {
    let mut server = Server::new();
    let mut client = server.connect();
    client.send(STATUS);
    client.end_input();
    server.turn();
    server.turn();
    assert_eq!(server.clients(), 0);
    assert!(client.has_report());
    drop(server.connect());
    server.turn();
    assert_eq!(server.clients(), 0);
}

#[test]
fn a_subscriber_gets_changes_and_regular_lines() {
    let mut server = Server::new();
    let mut client = server.connect();
    server.rig.run(20);
    let subscription = Subscription { every_ms: 5_000 };
    let first = server.ask(&mut client, Request::Subscribe(subscription));
    assert_eq!(first.expect("a line").state, "tracking");
    server.advance(4_999);
    assert_eq!(client.answer(), None);
    server.advance(1);
    assert!(client.answer().is_some(), "a line is due without a change");
    // The first change is sent at once; changes in the next 100 ms are sent in one line after it.
    let mut other = server.connect();
    server.turn();
    server.advance(100);
    for (ms, power_mw, lines) in [(0, 20_000, 1), (40, 19_000, 0), (40, 18_000, 0), (20, 0, 1)] {
        server.rig.clocks.now.set(server.rig.clocks.now.get() + ms);
        if power_mw > 0 {
            assert!(server.ask(&mut other, limit(power_mw)).is_ok());
        }
        server.advance(0);
        let answers = client.answers();
        assert_eq!(answers.len(), lines, "{power_mw}");
    }
    let refused = server.ask(
        &mut client,
        Request::Subscribe(Subscription { every_ms: 1 }),
    );
    assert_eq!(refused.expect_err("too often").name, "out_of_range");
}

#[test]
fn the_socket_is_for_root_and_its_group() {
    let server = Server::new();
    let path = server.directory.join("socket");
    let mode = |path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(path.clone()), 0o660);
    // A process may give files to any group that it belongs to.
    let group = fs::metadata(&server.directory).expect("there").gid();
    let closed = fs::Permissions::from_mode(0o700);
    fs::set_permissions(&server.directory, closed).expect("closed");
    let again = Socket::open(&server.directory, Some(group));
    assert!(
        again.is_ok(),
        "it replaces a socket that a crash left: {again:?}"
    );
    assert_eq!(mode(path.clone()), 0o660);
    assert_eq!(fs::metadata(&path).expect("there").gid(), group);
    assert_eq!(mode(server.directory.clone()), 0o750);
    assert!(!server.directory.join("new").exists());
    // A crash between creating and renaming the socket left these files.
    fs::create_dir(server.directory.join("new")).expect("made");
    fs::write(server.directory.join("new/socket"), "").expect("written");
    assert!(Socket::open(&server.directory, None).is_ok());
}

#[test]
fn prometheus_gets_one_page_per_connection() {
    let mut server = Page::new();
    let mut stream = connect(server.address);
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("taken");
    let answer = response(&mut server, &stream);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.ends_with("\nwattgate_x 1\n"), "{answer}");
    assert_eq!(server.clients(), 0);
    let mut stream = connect(server.address);
    stream.write_all(b"\x16\x03\x01\r\n\r\n").expect("taken");
    let answer = response(&mut server, &stream);
    assert!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{answer}"
    );
}

#[test]
fn the_metrics_file_is_replaced_every_fifteen_seconds() {
    let server = Server::new();
    let path = server.directory.join("wattgate.prom");
    let mut file = Textfile::new(path.clone());
    let mut turn = |seconds: u64| file.turn(&server.rig.daemon, Milliseconds(1_000 * seconds));
    for (seconds, is_written) in [(100, true), (114, false), (115, true), (129, false)] {
        turn(seconds).expect("written");
        let text = fs::read_to_string(&path);
        assert_eq!(text.is_ok(), is_written, "{seconds} s");
        if let Ok(text) = text {
            assert!(text.ends_with("wattgate_build_info{version=\"0.1.0\"} 1\n"));
            fs::remove_file(&path).expect("removed");
        }
    }
    let left = fs::read_dir(&server.directory).expect("a directory");
    assert_eq!(left.count(), 1, "the socket only");
    file.remove();
}

/// Everyone may write to some folders of collectors.
#[test]
fn a_planted_link_does_not_lead_the_metrics_elsewhere() {
    let server = Server::new();
    let path = server.directory.join("wattgate.prom");
    let victim = server.directory.join("victim");
    fs::write(&victim, "before").expect("written");
    for name in ["wattgate.prom", "wattgate.prom.new"] {
        symlink(&victim, server.directory.join(name)).expect("linked");
    }
    let mut file = Textfile::new(path.clone());
    let written = file.turn(&server.rig.daemon, Milliseconds(0));
    written.expect("written");
    assert_eq!(fs::read_to_string(&victim).expect("there"), "before");
    assert!(fs::symlink_metadata(&path).expect("there").is_file());
}

#[test]
fn a_metrics_file_that_cannot_be_written_is_reported_once() {
    let server = Server::new();
    let path = server.directory.join("absent/wattgate.prom");
    let mut file = Textfile::new(path.clone());
    let mut turn = |seconds: u64| file.turn(&server.rig.daemon, Milliseconds(1_000 * seconds));
    let error = turn(0).expect_err("no directory").to_string();
    assert_eq!(
        error,
        format!(
            "metrics: {}: cannot be written: No such file or directory (os error 2); name a file in a folder that exists",
            path.display()
        )
    );
    assert!(turn(15).is_ok());
    fs::create_dir(server.directory.join("absent")).expect("made");
    assert!(turn(30).is_ok() && path.exists());
    fs::remove_dir_all(server.directory.join("absent")).expect("removed");
    assert!(turn(45).is_err(), "reported again");
}
