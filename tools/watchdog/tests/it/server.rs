//! A daemon with its services in simulated time, and its clients.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use crate::common::Rig;
use rustix::event::PollFlags;
use wattgate_runtime::{Milliseconds, Milliwatts};
use wattgate_watchdog::clock::Clock;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::serve::Services;
use wattgate_watchdog::serve::http::Http;
use wattgate_watchdog::serve::protocol::{
    Refused, Request, Subscription, WantedLimit, parse_answer,
};
use wattgate_watchdog::serve::socket::Socket;

pub const STATUS: &[u8] = b"{\"version\":1,\"request\":\"status\"}\n";

/// A daemon with a socket.
pub struct Server {
    pub rig: Rig,
    pub services: Services,
    pub directory: PathBuf,
}

impl Server {
    pub fn new() -> Self {
        Self::with("limit = \"30W\"")
    }

    /// Creates a daemon with these lines of the config.
    pub fn with(lines: &str) -> Self {
        Self::from_rig(Rig::new(lines))
    }

    /// Opens a socket for a daemon.
    pub fn from_rig(mut rig: Rig) -> Self {
        rig.run(10);
        let directory = rig.folder.path().join("run");
        std::fs::create_dir(&directory).expect("made");
        let socket = Socket::open(&directory, None).expect("a socket");
        let services = Services::new(None, Some(socket), None);
        Self {
            rig,
            services,
            directory,
        }
    }

    /// Opens the socket that is root's alone.
    pub fn open_root(&mut self) {
        let directory = self.rig.folder.path().join("root");
        self.services.root = Some(Socket::open_root(&directory).expect("a socket"));
    }

    /// A client of that socket.
    pub fn connect_as_root(&self) -> Client {
        let path = self.rig.folder.path().join("root/socket");
        Client::from_stream(UnixStream::connect(path).expect("connected"))
    }

    pub fn connect(&self) -> Client {
        Client::from_stream(UnixStream::connect(self.directory.join("socket")).expect("connected"))
    }

    /// Serves clients after a poll event, 100 ms before the next step. Returns whether the daemon
    /// changed.
    pub fn turn(&mut self) -> bool {
        self.turn_for(100)
    }

    /// Serves clients after a poll event until the next step, which is due in `ms`.
    pub fn turn_for(&mut self, ms: u64) -> bool {
        let until = Milliseconds(self.rig.clocks.now.get() + ms);
        let (daemon, clocks) = (&mut self.rig.daemon, &self.rig.clocks);
        self.services.turn(true, daemon, clocks, until)
    }

    /// Advances the clock and runs a turn without a poll event.
    pub fn advance(&mut self, ms: u64) {
        let now = self.rig.clocks.now.get() + ms;
        self.rig.clocks.now.set(now);
        let (daemon, clocks) = (&mut self.rig.daemon, &self.rig.clocks);
        self.services
            .turn(false, daemon, clocks, Milliseconds(now + 100));
    }

    /// Sends a request and returns its answer.
    pub fn ask(&mut self, client: &mut Client, request: Request) -> Result<Report, Refused> {
        client.send(&request.line());
        self.turn();
        client.answer().expect("an answer")
    }

    /// Connects a client that sends this request. Panics if it is refused.
    pub fn with_client(&mut self, request: Request) -> Client {
        let mut client = self.connect();
        let answer = self.ask(&mut client, request);
        assert!(answer.is_ok(), "{answer:?}");
        client
    }

    /// The same over root's socket.
    pub fn with_root(&mut self, request: Request) -> Client {
        let mut client = self.connect_as_root();
        let answer = self.ask(&mut client, request);
        assert!(answer.is_ok(), "{answer:?}");
        client
    }

    /// Ends a client's connection, and serves clients until the server has seen that. Returns whether the daemon changed.
    /// A process that another test starts has the connection, too, until it runs its program.
    pub fn end(&mut self, client: Client) -> bool {
        let before = self.clients();
        drop(client);
        let mut has_changed = false;
        for _ in 0..1_000 {
            has_changed |= self.turn();
            if self.clients() < before {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        has_changed
    }

    /// Runs steps for some seconds and serves clients after each one.
    pub fn run(&mut self, seconds: u64) {
        let end = self.rig.clocks.now.get() + 1_000 * seconds;
        while self.rig.clocks.now.get() < end {
            self.rig.step();
            self.turn();
        }
    }

    /// Connects a client that subscribes.
    pub fn subscriber(&mut self, every_ms: u64) -> Client {
        self.with_client(Request::Subscribe(Subscription { every_ms }))
    }

    /// Whether a client has not read all of its answers and the stream is full.
    pub fn has_pending_output(&self) -> bool {
        let now = self.rig.clocks.now();
        let mut waiting = self.services.waiting(now);
        waiting.any(|(_, flags)| flags.contains(PollFlags::OUT))
    }

    /// The number of connected clients.
    pub fn clients(&self) -> usize {
        let now = self.rig.clocks.now();
        let listeners = 1 + usize::from(self.services.root.is_some());
        self.services.waiting(now).count() - listeners
    }
}

/// A non-blocking client.
pub struct Client {
    pub stream: UnixStream,
    pub received: Vec<u8>,
}

impl Client {
    pub fn from_stream(stream: UnixStream) -> Self {
        stream.set_nonblocking(true).expect("set");
        let received = Vec::new();
        Self { stream, received }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("taken");
    }

    /// Reads all available bytes. Returns whether the connection is still open.
    pub fn receive(&mut self) -> bool {
        let mut chunk = [0; 65_536];
        loop {
            match self.stream.read(&mut chunk) {
                Ok(0) => return false,
                Ok(read) => self.received.extend_from_slice(&chunk[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return true,
                Err(_) => return false,
            }
        }
    }

    /// Takes all answers received so far.
    pub fn answers(&mut self) -> Vec<Result<Report, Refused>> {
        self.receive();
        let received = String::from_utf8(std::mem::take(&mut self.received)).expect("text");
        let lines = received.lines();
        lines
            .map(|line| parse_answer(line).expect("an answer"))
            .collect()
    }

    pub fn answer(&mut self) -> Option<Result<Report, Refused>> {
        let mut answers = self.answers();
        assert!(answers.len() <= 1, "{answers:?}");
        answers.pop()
    }

    /// Whether a report has arrived, and nothing else.
    pub fn has_report(&mut self) -> bool {
        self.answer().is_some_and(|it| it.is_ok())
    }

    /// Closes the sending side.
    pub fn end_input(&self) {
        let ended = self.stream.shutdown(std::net::Shutdown::Write);
        ended.expect("shut");
    }

    /// The name of the error in the only answer.
    pub fn error(&mut self) -> String {
        let refused = self.answer().expect("an answer").expect_err("an error");
        refused.name.into_owned()
    }
}

pub fn limit(power_mw: u32) -> Request {
    Request::SetLimit(Some(WantedLimit::from_power(Milliwatts(power_mw))))
}

/// A server of metrics, whose page is fixed.
pub struct Page {
    pub http: Http,
    pub address: SocketAddr,
    pub now: u64,
}

impl Page {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("an address");
        drop(listener);
        Self {
            http: Http::open(address).expect("listening"),
            address,
            now: 1_000,
        }
    }

    /// Serves clients after a poll event.
    pub fn turn(&mut self) {
        let page = || Some("wattgate_x 1\n".to_owned());
        self.http.turn(true, Milliseconds(self.now), page);
    }

    /// Advances the clock and runs a turn without a poll event.
    pub fn advance(&mut self, ms: u64) {
        self.now += ms;
        self.http.turn(false, Milliseconds(self.now), || None);
    }

    pub fn clients(&self) -> usize {
        self.http.waiting(Milliseconds(self.now)).count() - 1
    }
}

pub fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).expect("connected");
    stream.set_nonblocking(true).expect("set");
    stream
}

/// Runs turns until the stream is closed or silent for many turns. Returns the received text.
pub fn response(server: &mut Page, mut stream: &TcpStream) -> String {
    let mut text = String::new();
    for _ in 0..100 {
        server.turn();
        match stream.read_to_string(&mut text) {
            Ok(_) => break,
            Err(_) => std::thread::yield_now(),
        }
    }
    text
}
