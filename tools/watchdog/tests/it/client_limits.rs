//! Limits on clients: rates, numbers, sizes and timeouts. Control has priority.

use std::io::Write;
use std::net::TcpStream;

use crate::server::{Client, Page, STATUS, Server, connect, limit, response};
use rustix::event::PollFlags;
use wattgate_watchdog::clock::Clock;
use wattgate_watchdog::limits::Owner;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::serve::MAX_POLLED;
use wattgate_watchdog::serve::http;
use wattgate_watchdog::serve::listener::MAX_ACCEPTS_PER_SECOND;
use wattgate_watchdog::serve::protocol::{MAX_LINE_BYTES, Refused, Request, Subscription};
use wattgate_watchdog::serve::socket::MAX_CLIENTS;
use wattgate_watchdog::serve::users::{MAX_CONNECTIONS, MAX_SUBSCRIPTIONS};

#[test]
fn an_endless_line_gets_an_error_and_the_connection_is_closed() {
    let mut server = Server::new();
    let mut client = server.connect();
    let mut longest = vec![b' '; MAX_LINE_BYTES - STATUS.len()];
    longest.extend_from_slice(STATUS);
    client.send(&longest);
    server.turn();
    assert!(client.has_report(), "the longest line is accepted");
    // Send until the stream is full.
    while client.stream.write(&[b'x'; 65_536]).is_ok() {}
    server.turn();
    assert_eq!(client.error(), "too_long");
    assert!(!client.receive());
    assert_eq!(server.clients(), 0);
}

#[test]
fn too_many_requests_are_refused_and_then_disconnected() {
    let mut server = Server::new();
    let mut client = server.connect();
    for watts in 0..45 {
        client.send(&limit(20_000 + watts).line());
        server.turn();
    }
    let answers = client.answers();
    let is_refused = |answer: &&Result<Report, Refused>| {
        let error = answer.as_ref().err();
        error.is_some_and(|refused| refused.name == "too_many_requests")
    };
    assert_eq!(answers.iter().filter(|it| it.is_ok()).count(), 40);
    assert_eq!(answers.iter().filter(is_refused).count(), 5);
    // To connect again gains nothing.
    let mut other = server.connect();
    other.send(STATUS);
    server.turn();
    assert_eq!(other.error(), "too_many_requests");
    server.advance(1_000);
    client.send(STATUS);
    server.turn();
    assert!(client.has_report(), "accepted a second later");
    client.send(&STATUS.repeat(100));
    server.turn();
    assert_eq!(client.answers().len(), 79);
    assert!(!client.receive());
    assert_eq!(server.clients(), 1);
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let mut server = Server::new();
    let client = server.connect();
    let mut turns = 0;
    while turns == 0 || server.clients() == 1 {
        turns += 1;
        server.advance(1_000);
        // Fails once the stream is full.
        let _ = (&client.stream).write(&STATUS.repeat(20));
        server.turn();
        assert!(turns < 10_000, "never disconnected");
    }
    let mut other = server.connect();
    assert!(server.ask(&mut other, Request::Status).is_ok());
}

#[test]
fn a_client_that_reads_late_gets_all_answers() {
    let mut server = Server::new();
    let mut client = server.connect();
    let mut requests = 0;
    while !server.has_pending_output() {
        server.advance(1_000);
        client.send(&STATUS.repeat(10));
        server.turn();
        requests += 10;
    }
    let mut answers = client.answers();
    server.turn();
    answers.extend(client.answers());
    assert!(!server.has_pending_output());
    assert_eq!(answers.len(), requests);
}

#[test]
fn one_client_too_many_is_refused() {
    let mut server = Server::new();
    let mut clients: Vec<Client> = Vec::new();
    while clients.len() < MAX_CONNECTIONS {
        clients.push(server.connect());
        server.turn();
    }
    let mut other = server.connect();
    server.turn();
    assert_eq!(other.error(), "too_many_clients");
    assert!(!other.receive());
    assert_eq!(server.clients(), MAX_CONNECTIONS);
    for client in &mut clients {
        assert!(server.ask(client, Request::Status).is_ok());
    }
    clients.pop();
    server.turn();
    let mut other = server.connect();
    assert!(server.ask(&mut other, Request::Status).is_ok());
}

#[test]
fn a_silent_client_is_disconnected_after_a_minute() {
    let mut server = Server::new();
    let _silent = server.connect();
    let mut half = server.connect();
    server.turn();
    half.send(b"{");
    server.turn();
    server.advance(59_999);
    assert_eq!(server.clients(), 2);
    server.advance(1);
    assert_eq!(server.clients(), 0);
}

#[test]
fn the_rate_of_connections_is_limited() {
    let mut server = Server::new();
    let waits = |server: &Server| {
        let now = server.rig.clocks.now();
        let (_, flags) = server.services.waiting(now).next().expect("a listener");
        flags.contains(PollFlags::IN)
    };
    let mut connects = 0;
    while waits(&server) {
        connects += 1;
        drop(server.connect());
        server.turn();
        assert!(connects <= MAX_ACCEPTS_PER_SECOND, "no rate limit");
    }
    assert_eq!(
        connects, MAX_ACCEPTS_PER_SECOND,
        "further connections wait without a poll event"
    );
    let mut late = server.connect();
    late.send(STATUS);
    server.turn();
    assert_eq!(late.answer(), None);
    server.advance(1_000);
    assert!(waits(&server));
    server.turn();
    assert!(
        late.has_report(),
        "a user's connections count by the second, too"
    );
}

#[test]
fn a_silent_subscriber_stays_connected() {
    let mut server = Server::new();
    let mut client = server.subscriber(60_000);
    for _ in 0..5 {
        server.advance(60_000);
        assert!(client.answer().is_some());
    }
}

#[test]
fn a_subscriber_that_never_reads_is_disconnected() {
    let mut server = Server::new();
    let _client = server.subscriber(100);
    let mut lines = 0;
    while server.clients() == 1 {
        lines += 1;
        server.advance(100);
        assert!(lines < 10_000, "never disconnected");
    }
}

#[test]
fn a_silent_http_client_is_disconnected_and_makes_room_before() {
    let mut server = Page::new();
    let idle: Vec<TcpStream> = (0..http::MAX_METRICS_CLIENTS)
        .map(|_| connect(server.address))
        .collect();
    while server.clients() < http::MAX_METRICS_CLIENTS {
        server.turn();
    }
    (&idle[1]).write_all(b"GET /metrics HT").expect("taken");
    let mut stream = connect(server.address);
    let request = b"GET /metrics HTTP/1.1\r\n\r\n";
    stream.write_all(request).expect("taken");
    assert!(response(&mut server, &stream).starts_with("HTTP/1.1 200 OK"));
    assert_eq!(
        server.clients(),
        http::MAX_METRICS_CLIENTS - 1,
        "the oldest went"
    );
    server.advance(4_999);
    assert_eq!(server.clients(), http::MAX_METRICS_CLIENTS - 1);
    server.advance(1);
    assert_eq!(server.clients(), 0);
}

#[test]
fn max_polled_counts_every_descriptor() {
    let mut server = Server::new();
    server.open_root();
    let now = server.rig.clocks.now();
    assert_eq!(server.services.waiting(now).count(), 2);
    // Each socket has a listener.
    assert_eq!(MAX_POLLED, 3 + 2 * MAX_CLIENTS);
}

#[test]
fn no_client_is_served_while_a_step_is_due() {
    let mut server = Server::new();
    let mut client = server.connect();
    server.turn();
    client.send(STATUS);
    server.turn_for(0);
    assert_eq!(client.answer(), None);
    server.turn();
    assert!(client.answer().is_some());
}

#[test]
fn what_is_root_s_is_refused_over_the_socket_of_all_clients() {
    let mut server = Server::new();
    server.open_root();
    let mut client = server.connect();
    for request in [Request::Yield, Request::Lift(Owner::Uid(0))] {
        let refused = server.ask(&mut client, request).expect_err("not root's");
        assert_eq!(refused.name, "not_root");
    }
    let mut root = server.connect_as_root();
    let report = server.ask(&mut root, Request::Yield).expect("yielded");
    assert_eq!(report.state, "yielded");
}

/// All users but root are locked out by one that takes what it can get, but only of its own share.
#[test]
fn a_user_that_takes_all_it_can_get_leaves_root_s_socket_free() {
    let mut server = Server::new();
    server.open_root();
    let mut clients = Vec::new();
    let mut refused = 0;
    for _ in 0..50 {
        let mut client = server.connect();
        server.turn();
        match client.answer() {
            Some(answer) => {
                assert_eq!(answer.expect_err("one too many").name, "too_many_clients");
                refused += 1;
            }
            None => clients.push(client),
        }
    }
    assert_eq!(
        (clients.len(), refused),
        (MAX_CONNECTIONS, 50 - MAX_CONNECTIONS)
    );
    server.advance(1_000);
    let subscribe = Request::Subscribe(Subscription { every_ms: 100 });
    let mut answers = clients
        .iter_mut()
        .map(|client| server.ask(client, subscribe.clone()).is_ok());
    assert_eq!(
        answers.by_ref().filter(|is_ok| *is_ok).count(),
        MAX_SUBSCRIPTIONS
    );
    let mut root = server.connect_as_root();
    assert!(server.ask(&mut root, Request::Status).is_ok());
}
