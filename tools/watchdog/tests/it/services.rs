//! The daemon's services in simulated time: every answer, every limit on clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use crate::common::Place;
use rustix::event::PollFlags;
use wattgate_runtime::Milliseconds;
use wattgate_watchdog::clock::Clock;
use wattgate_watchdog::report::{Report, Source};
use wattgate_watchdog::serve::http::{self, Http};
use wattgate_watchdog::serve::listener::MAX_ACCEPTS_PER_SECOND;
use wattgate_watchdog::serve::protocol::{
    MAX_LINE_BYTES, Refused, Request, Subscription, WantedLimit, parse_answer,
};
use wattgate_watchdog::serve::socket::{MAX_CLIENTS, Socket};
use wattgate_watchdog::serve::textfile::Textfile;
use wattgate_watchdog::serve::{MAX_POLLED, Services};

const STATUS: &[u8] = b"{\"version\":1,\"request\":\"status\"}\n";

/// A daemon with a socket.
struct Served {
    place: Place,
    services: Services,
    directory: PathBuf,
}

impl Served {
    fn new() -> Self {
        let mut place = Place::new("limit = \"30W\"");
        place.run(10);
        let directory = place.folder.path().join("run");
        std::fs::create_dir(&directory).expect("made");
        let socket = Socket::open(&directory, None).expect("a socket");
        let services = Services {
            socket: Some(socket),
            http: None,
        };
        Self {
            place,
            services,
            directory,
        }
    }

    fn connect(&self) -> Client {
        Client::of(UnixStream::connect(self.directory.join("socket")).expect("connected"))
    }

    /// Serves clients after a poll event, with time to spare. Returns whether the daemon changed.
    fn turn(&mut self) -> bool {
        let until = Milliseconds(self.place.clocks.now.get() + 100);
        let (daemon, clocks) = (&mut self.place.daemon, &self.place.clocks);
        self.services.turn(true, daemon, clocks, until)
    }

    /// Advances the clock and runs a turn without a poll event.
    fn pass(&mut self, ms: u64) {
        let now = self.place.clocks.now.get() + ms;
        self.place.clocks.now.set(now);
        let (daemon, clocks) = (&mut self.place.daemon, &self.place.clocks);
        self.services
            .turn(false, daemon, clocks, Milliseconds(now + 100));
    }

    /// Sends a request and returns its answer.
    fn ask(&mut self, client: &mut Client, request: Request) -> Result<Report, Refused> {
        client.send(&request.line());
        self.turn();
        client.answer().expect("an answer")
    }

    /// The number of connected clients.
    fn clients(&self) -> usize {
        let now = self.place.clocks.now();
        self.services.waiting(now).count() - 1
    }
}

/// A non-blocking client.
struct Client {
    stream: UnixStream,
    heard: Vec<u8>,
}

impl Client {
    fn of(stream: UnixStream) -> Self {
        stream.set_nonblocking(true).expect("set");
        let heard = Vec::new();
        Self { stream, heard }
    }

    fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("taken");
    }

    /// Reads all available bytes. Returns whether the connection is still open.
    fn hear(&mut self) -> bool {
        let mut chunk = [0; 65_536];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(read) => self.heard.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Takes all answers received so far.
    fn answers(&mut self) -> Vec<Result<Report, Refused>> {
        self.hear();
        let heard = String::from_utf8(std::mem::take(&mut self.heard)).expect("text");
        let lines = heard.lines();
        lines
            .map(|line| parse_answer(line).expect("an answer"))
            .collect()
    }

    fn answer(&mut self) -> Option<Result<Report, Refused>> {
        let mut answers = self.answers();
        assert!(answers.len() <= 1, "{answers:?}");
        answers.pop()
    }

    /// The name of the error in the next answer, which must be one.
    fn error(&mut self) -> String {
        let refused = self.answer().expect("an answer").expect_err("an error");
        refused.name.into_owned()
    }
}

fn limit(power_mw: u32) -> Request {
    Request::SetLimit(Some(WantedLimit {
        power_mw,
        average: None,
    }))
}

#[test]
fn each_answer_shows_the_status_after_the_request() {
    let mut served = Served::new();
    let mut client = served.connect();
    let report = served.ask(&mut client, Request::Status);
    assert_eq!(report, Ok(served.place.daemon.report()));
    let report = served.ask(&mut client, limit(20_000)).expect("taken");
    assert_eq!(
        (report.limit_mw, report.limit_from),
        (20_000, Source::Socket)
    );
    let report = served
        .ask(&mut client, Request::SetLimit(None))
        .expect("taken");
    assert_eq!(
        (report.limit_mw, report.limit_from),
        (30_000, Source::Config)
    );
    let model = Request::SetModel("model.wgt".to_owned());
    let report = served.ask(&mut client, model).expect("taken");
    assert_eq!(report.state, "booting");
    served.pass(1_000);
    let model = Request::SetModel("../model.wgt".to_owned());
    let refused = served.ask(&mut client, model).expect_err("refused");
    assert_eq!(refused.name, "model_not_allowed");
    let refused = served.ask(&mut client, limit(0)).expect_err("refused");
    assert_eq!(refused.name, "out_of_range");
}

#[test]
fn a_change_makes_a_look_due_and_a_status_request_does_not() {
    let mut served = Served::new();
    let mut client = served.connect();
    client.send(STATUS);
    assert!(!served.turn());
    client.send(&limit(20_000).line());
    assert!(served.turn());
    // Setting the same limit again changes nothing.
    client.send(&limit(20_000).line());
    assert!(!served.turn());
}

#[test]
fn requests_may_arrive_in_parts_or_together() {
    let mut served = Served::new();
    let mut client = served.connect();
    for byte in &STATUS[..STATUS.len() - 1] {
        client.send(&[*byte]);
        served.turn();
        assert_eq!(client.answer(), None);
    }
    client.send(b"\n");
    served.turn();
    assert!(client.answer().is_some_and(|it| it.is_ok()));
    served.pass(1_000);
    client.send(&STATUS.repeat(5));
    served.turn();
    assert_eq!(client.answers().len(), 5);
}

#[test]
fn garbage_gets_a_named_error_and_the_connection_stays_open() {
    let mut served = Served::new();
    let mut client = served.connect();
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
        served.turn();
        assert_eq!(client.error(), name, "{}", line.escape_ascii());
    }
    client.send(STATUS);
    served.turn();
    assert!(client.answer().is_some_and(|it| it.is_ok()));
}

#[test]
fn an_endless_line_gets_an_error_and_the_connection_is_closed() {
    let mut served = Served::new();
    let mut client = served.connect();
    let mut longest = vec![b' '; MAX_LINE_BYTES - STATUS.len()];
    longest.extend_from_slice(STATUS);
    client.send(&longest);
    served.turn();
    assert!(
        client.answer().is_some_and(|it| it.is_ok()),
        "the longest line is one"
    );
    // Send until the stream is full.
    while client.stream.write(&[b'x'; 65_536]).is_ok() {}
    served.turn();
    assert_eq!(client.error(), "too_long");
    assert!(!client.hear());
    assert_eq!(served.clients(), 0);
}

#[test]
fn half_a_line_at_the_end_of_input_gets_an_error() {
    let mut served = Served::new();
    let mut client = served.connect();
    client.send(&STATUS[..20]);
    served.turn();
    client
        .stream
        .shutdown(std::net::Shutdown::Write)
        .expect("shut");
    served.turn();
    assert_eq!(client.error(), "malformed");
    assert_eq!(served.clients(), 0);
}

#[test]
fn a_client_that_closes_its_side_is_answered_and_disconnected() {
    let mut served = Served::new();
    let mut client = served.connect();
    client.send(STATUS);
    client
        .stream
        .shutdown(std::net::Shutdown::Write)
        .expect("shut");
    served.turn();
    served.turn();
    assert_eq!(served.clients(), 0);
    assert!(client.answer().is_some_and(|it| it.is_ok()));
    drop(served.connect());
    served.turn();
    assert_eq!(served.clients(), 0);
}

#[test]
fn too_many_requests_are_refused_and_then_disconnected() {
    let mut served = Served::new();
    let mut client = served.connect();
    let mut changed = 0;
    for watts in 0..25 {
        client.send(&limit(20_000 + watts).line());
        changed += u32::from(served.turn());
    }
    assert_eq!(changed, 20, "what is refused is not done");
    let answers = client.answers();
    let is_refused = |answer: &&Result<Report, Refused>| {
        let error = answer.as_ref().err();
        error.is_some_and(|refused| refused.name == "too_many_requests")
    };
    assert_eq!(answers.iter().filter(|it| it.is_ok()).count(), 20);
    assert_eq!(answers.iter().filter(is_refused).count(), 5);
    served.pass(1_000);
    client.send(STATUS);
    served.turn();
    assert!(
        client.answer().is_some_and(|it| it.is_ok()),
        "a second later"
    );
    client.send(&STATUS.repeat(100));
    served.turn();
    assert_eq!(client.answers().len(), 39);
    assert!(!client.hear());
    assert_eq!(served.clients(), 0);
}

#[test]
fn a_client_that_never_reads_is_disconnected() {
    let mut served = Served::new();
    let client = served.connect();
    let mut turns = 0;
    while turns == 0 || served.clients() == 1 {
        turns += 1;
        served.pass(1_000);
        // Fails once the stream is full.
        let _ = (&client.stream).write(&STATUS.repeat(20));
        served.turn();
        assert!(turns < 10_000, "held for ever");
    }
    let mut other = served.connect();
    assert!(served.ask(&mut other, Request::Status).is_ok());
}

#[test]
fn a_client_that_reads_late_gets_all_answers() {
    let mut served = Served::new();
    let mut client = served.connect();
    let is_full = |served: &Served| {
        let now = served.place.clocks.now();
        let mut waiting = served.services.waiting(now);
        waiting.any(|(_, flags)| flags.contains(PollFlags::OUT))
    };
    let mut requests = 0;
    while !is_full(&served) {
        served.pass(1_000);
        client.send(&STATUS.repeat(10));
        served.turn();
        requests += 10;
    }
    let mut answers = client.answers();
    served.turn();
    answers.extend(client.answers());
    assert!(!is_full(&served));
    assert_eq!(answers.len(), requests);
}

#[test]
fn one_client_too_many_is_refused() {
    let mut served = Served::new();
    let mut clients: Vec<Client> = Vec::new();
    while clients.len() < MAX_CLIENTS {
        clients.push(served.connect());
        served.turn();
    }
    let mut other = served.connect();
    served.turn();
    assert_eq!(other.error(), "too_many_clients");
    assert!(!other.hear());
    assert_eq!(served.clients(), MAX_CLIENTS);
    for client in &mut clients {
        assert!(served.ask(client, Request::Status).is_ok());
    }
    clients.pop();
    served.turn();
    let mut other = served.connect();
    assert!(served.ask(&mut other, Request::Status).is_ok());
}

#[test]
fn a_silent_client_is_disconnected_after_a_minute() {
    let mut served = Served::new();
    let _silent = served.connect();
    let mut half = served.connect();
    served.turn();
    half.send(b"{");
    served.turn();
    served.pass(59_999);
    assert_eq!(served.clients(), 2);
    served.pass(1);
    assert_eq!(served.clients(), 0);
}

#[test]
fn the_rate_of_connections_is_limited() {
    let mut served = Served::new();
    let waits = |served: &Served| {
        let now = served.place.clocks.now();
        let (_, flags) = served.services.waiting(now).next().expect("a listener");
        flags.contains(PollFlags::IN)
    };
    let mut connects = 0;
    while waits(&served) {
        connects += 1;
        drop(served.connect());
        served.turn();
        assert!(connects <= MAX_ACCEPTS_PER_SECOND, "no bound");
    }
    assert_eq!(
        connects, MAX_ACCEPTS_PER_SECOND,
        "the others wait, and wake nobody"
    );
    let mut late = served.connect();
    late.send(STATUS);
    served.turn();
    assert_eq!(late.answer(), None);
    served.pass(1_000);
    assert!(waits(&served));
    served.turn();
    assert!(late.answer().is_some_and(|it| it.is_ok()));
}

#[test]
fn no_client_is_served_while_a_look_is_due() {
    let mut served = Served::new();
    let mut client = served.connect();
    served.turn();
    client.send(STATUS);
    let until = served.place.clocks.now();
    let (daemon, clocks) = (&mut served.place.daemon, &served.place.clocks);
    served.services.turn(true, daemon, clocks, until);
    assert_eq!(client.answer(), None);
    served.turn();
    assert!(client.answer().is_some());
    let (mut served, address) = with_http();
    let mut stream = connect(address);
    served.turn();
    assert_eq!(served.clients(), 1);
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\n\r\n")
        .expect("taken");
    // Without time left the client stays connected and gets no answer.
    let until = served.place.clocks.now();
    let (daemon, clocks) = (&mut served.place.daemon, &served.place.clocks);
    for _ in 0..100 {
        served.services.turn(true, daemon, clocks, until);
    }
    assert_eq!(served.clients(), 1);
    assert!(heard(&mut served, &stream).starts_with("HTTP/1.1 200 OK"));
}

#[test]
fn a_subscriber_gets_changes_and_regular_lines() {
    let mut served = Served::new();
    let mut client = served.connect();
    served.place.run(20);
    let subscription = Subscription { every_ms: 5_000 };
    let first = served.ask(&mut client, Request::Subscribe(subscription));
    assert_eq!(first.expect("a line").state, "tracking");
    served.pass(4_999);
    assert_eq!(client.answer(), None);
    served.pass(1);
    assert!(client.answer().is_some(), "after its time in any case");
    // The first change is sent at once; changes in the next 100 ms are sent in one line after it.
    let mut other = served.connect();
    served.turn();
    served.pass(100);
    for (ms, power_mw, told) in [(0, 20_000, 1), (40, 19_000, 0), (40, 18_000, 0), (20, 0, 1)] {
        served
            .place
            .clocks
            .now
            .set(served.place.clocks.now.get() + ms);
        if power_mw > 0 {
            assert!(served.ask(&mut other, limit(power_mw)).is_ok());
        }
        served.pass(0);
        let answers = client.answers();
        assert_eq!(answers.len(), told, "{power_mw}");
    }
    let refused = served.ask(
        &mut client,
        Request::Subscribe(Subscription { every_ms: 1 }),
    );
    assert_eq!(refused.expect_err("too often").name, "out_of_range");
}

#[test]
fn a_silent_subscriber_stays_connected() {
    let mut served = Served::new();
    let mut client = served.connect();
    let subscription = Subscription { every_ms: 60_000 };
    assert!(
        served
            .ask(&mut client, Request::Subscribe(subscription))
            .is_ok()
    );
    for _ in 0..5 {
        served.pass(60_000);
        assert!(client.answer().is_some());
    }
}

#[test]
fn a_subscriber_that_never_reads_is_disconnected() {
    let mut served = Served::new();
    let mut client = served.connect();
    let subscription = Subscription { every_ms: 100 };
    assert!(
        served
            .ask(&mut client, Request::Subscribe(subscription))
            .is_ok()
    );
    let mut lines = 0;
    while served.clients() == 1 {
        lines += 1;
        served.pass(100);
        assert!(lines < 10_000, "held for ever");
    }
}

#[test]
fn the_socket_is_for_root_and_its_group() {
    let served = Served::new();
    let path = served.directory.join("socket");
    let mode = |path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(path.clone()), 0o660);
    // A process may give files to any group that it belongs to.
    let group = std::fs::metadata(&served.directory).expect("there").gid();
    let mut closed = std::fs::metadata(&served.directory)
        .expect("there")
        .permissions();
    closed.set_mode(0o700);
    std::fs::set_permissions(&served.directory, closed).expect("closed");
    let again = Socket::open(&served.directory, Some(group));
    assert!(
        again.is_ok(),
        "it takes the place of one that was left: {again:?}"
    );
    assert_eq!(mode(path.clone()), 0o660);
    assert_eq!(std::fs::metadata(&path).expect("there").gid(), group);
    assert_eq!(mode(served.directory.clone()), 0o750);
    assert!(!served.directory.join("new").exists());
    // A crash between creating and renaming the socket left these files.
    std::fs::create_dir(served.directory.join("new")).expect("made");
    std::fs::write(served.directory.join("new/socket"), "").expect("written");
    assert!(Socket::open(&served.directory, None).is_ok());
}

/// The address of a free port.
fn free() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    listener.local_addr().expect("an address")
}

fn with_http() -> (Served, SocketAddr) {
    let mut served = Served::new();
    let address = free();
    served.services.socket = None;
    served.services.http = Some(Http::open(address).expect("listening"));
    (served, address)
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_nonblocking(true).expect("set");
    stream
}

/// Runs turns until the stream is closed or silent for many turns. Returns the received text.
fn heard(served: &mut Served, mut stream: &TcpStream) -> String {
    let mut text = String::new();
    for _ in 0..100 {
        served.turn();
        match stream.read_to_string(&mut text) {
            Ok(_) => break,
            Err(_) => std::thread::yield_now(),
        }
    }
    text
}

#[test]
fn prometheus_gets_one_page_per_connection() {
    let (mut served, address) = with_http();
    let mut stream = connect(address);
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        .expect("taken");
    let answer = heard(&mut served, &stream);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(
        answer.contains("\nwattgate_power_limit_watts 30.000\n"),
        "{answer}"
    );
    assert!(
        answer.ends_with("wattgate_build_info{version=\"0.1.0\"} 1\n"),
        "{answer}"
    );
    assert_eq!(served.clients(), 0);
    let mut stream = connect(address);
    stream.write_all(b"\x16\x03\x01\r\n\r\n").expect("taken");
    let answer = heard(&mut served, &stream);
    assert!(
        answer.starts_with("HTTP/1.1 400 Bad Request\r\n"),
        "{answer}"
    );
}

#[test]
fn a_silent_http_client_is_disconnected() {
    let (mut served, address) = with_http();
    let streams: Vec<TcpStream> = (0..=http::MAX_CLIENTS).map(|_| connect(address)).collect();
    served.turn();
    assert_eq!(served.clients(), http::MAX_CLIENTS);
    let last = streams.last().expect("one");
    assert_eq!(heard(&mut served, last), "");
    (&streams[0]).write_all(b"GET /metrics HT").expect("taken");
    served.turn();
    served.pass(4_999);
    assert_eq!(served.clients(), http::MAX_CLIENTS);
    served.pass(1);
    assert_eq!(served.clients(), 0);
}

#[test]
fn max_polled_counts_every_descriptor() {
    let (mut served, address) = with_http();
    let socket = Socket::open(&served.directory, None).expect("a socket");
    served.services.socket = Some(socket);
    let mut clients = Vec::new();
    let mut streams = Vec::new();
    for _ in 0..MAX_CLIENTS + 10 {
        clients.push(served.connect());
        streams.push(connect(address));
        served.turn();
    }
    let now = served.place.clocks.now();
    assert_eq!(served.services.waiting(now).count(), MAX_POLLED);
}

#[test]
fn the_metrics_file_is_replaced_every_fifteen_seconds() {
    let served = Served::new();
    let path = served.directory.join("wattgate.prom");
    let mut file = Textfile::new(path.clone());
    let mut turn = |seconds: u64| {
        let now = Milliseconds(1_000 * seconds);
        file.turn(&served.place.daemon, now)
    };
    for (seconds, is_written) in [(100, true), (114, false), (115, true), (129, false)] {
        turn(seconds).expect("written");
        let text = std::fs::read_to_string(&path);
        assert_eq!(text.is_ok(), is_written, "{seconds} s");
        if let Ok(text) = text {
            assert!(text.ends_with("wattgate_build_info{version=\"0.1.0\"} 1\n"));
            std::fs::remove_file(&path).expect("removed");
        }
    }
    let left = std::fs::read_dir(&served.directory).expect("a directory");
    assert_eq!(left.count(), 1, "the socket only");
    file.remove();
}

#[test]
fn a_metrics_file_that_cannot_be_written_is_reported_once() {
    let served = Served::new();
    let path = served.directory.join("absent/wattgate.prom");
    let mut file = Textfile::new(path.clone());
    let mut turn = |seconds: u64| file.turn(&served.place.daemon, Milliseconds(1_000 * seconds));
    let error = turn(0).expect_err("no directory").to_string();
    assert_eq!(
        error,
        format!(
            "metrics: {}: No such file or directory (os error 2)",
            path.display()
        )
    );
    assert!(turn(15).is_ok());
    std::fs::create_dir(served.directory.join("absent")).expect("made");
    assert!(turn(30).is_ok() && path.exists());
    std::fs::remove_dir_all(served.directory.join("absent")).expect("removed");
    assert!(turn(45).is_err(), "told again");
}
