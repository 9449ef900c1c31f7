//! Limits on clients: rates, numbers, sizes and timeouts. Control has priority.

use std::io::Write;
use std::net::TcpStream;

use crate::server::{Client, STATUS, Server, connect, limit, response, with_http};
use rustix::event::PollFlags;
use wattgate_watchdog::clock::Clock;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::serve::MAX_POLLED;
use wattgate_watchdog::serve::http;
use wattgate_watchdog::serve::listener::MAX_ACCEPTS_PER_SECOND;
use wattgate_watchdog::serve::protocol::{MAX_LINE_BYTES, Refused, Request};
use wattgate_watchdog::serve::socket::{MAX_CLIENTS, Socket};

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
    let mut changed = 0;
    for watts in 0..25 {
        client.send(&limit(20_000 + watts).line());
        changed += u32::from(server.turn());
    }
    assert_eq!(changed, 20, "refused requests change nothing");
    let answers = client.answers();
    let is_refused = |answer: &&Result<Report, Refused>| {
        let error = answer.as_ref().err();
        error.is_some_and(|refused| refused.name == "too_many_requests")
    };
    assert_eq!(answers.iter().filter(|it| it.is_ok()).count(), 20);
    assert_eq!(answers.iter().filter(is_refused).count(), 5);
    server.advance(1_000);
    client.send(STATUS);
    server.turn();
    assert!(client.has_report(), "accepted a second later");
    client.send(&STATUS.repeat(100));
    server.turn();
    assert_eq!(client.answers().len(), 39);
    assert!(!client.receive());
    assert_eq!(server.clients(), 0);
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
    while clients.len() < MAX_CLIENTS {
        clients.push(server.connect());
        server.turn();
    }
    let mut other = server.connect();
    server.turn();
    assert_eq!(other.error(), "too_many_clients");
    assert!(!other.receive());
    assert_eq!(server.clients(), MAX_CLIENTS);
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
    assert!(late.has_report());
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
fn a_silent_http_client_is_disconnected() {
    let (mut server, address) = with_http();
    let streams: Vec<TcpStream> = (0..=http::MAX_CLIENTS).map(|_| connect(address)).collect();
    server.turn();
    assert_eq!(server.clients(), http::MAX_CLIENTS);
    let last = streams.last().expect("one");
    assert_eq!(response(&mut server, last), "");
    (&streams[0]).write_all(b"GET /metrics HT").expect("taken");
    server.turn();
    server.advance(4_999);
    assert_eq!(server.clients(), http::MAX_CLIENTS);
    server.advance(1);
    assert_eq!(server.clients(), 0);
}

#[test]
fn max_polled_counts_every_descriptor() {
    let (mut server, address) = with_http();
    let socket = Socket::open(&server.directory, None).expect("a socket");
    server.services.socket = Some(socket);
    let mut clients = Vec::new();
    let mut streams = Vec::new();
    for _ in 0..MAX_CLIENTS + 10 {
        clients.push(server.connect());
        streams.push(connect(address));
        server.turn();
    }
    let now = server.rig.clocks.now();
    assert_eq!(server.services.waiting(now).count(), MAX_POLLED);
}

#[test]
fn no_client_is_served_while_a_look_is_due() {
    let mut server = Server::new();
    let mut client = server.connect();
    server.turn();
    client.send(STATUS);
    server.turn_for(0);
    assert_eq!(client.answer(), None);
    server.turn();
    assert!(client.answer().is_some());
    let (mut server, address) = with_http();
    let mut stream = connect(address);
    server.turn();
    assert_eq!(server.clients(), 1);
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("taken");
    // Without time left the client stays connected and gets no answer.
    for _ in 0..100 {
        server.turn_for(0);
    }
    assert_eq!(server.clients(), 1);
    assert!(response(&mut server, &stream).starts_with("HTTP/1.1 200 OK"));
}
