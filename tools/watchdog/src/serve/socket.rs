//! The Unix socket for clients; [`protocol`](super::protocol) defines the messages.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use super::Waiting;
use super::connection::{Connection, Gone};
use super::listener::Listener;
use super::peer::{Peer, change};
use super::protocol::{MAX_LINE_BYTES, Refused, Request, Subscription, answer};
use super::rate_limit::RateCounter;
use crate::clock::Clock;
use crate::control::Priority;
use crate::daemon::{ClientId, Daemon};
use crate::log::log;

/// Maximum number of connected clients.
pub const MAX_CLIENTS: usize = 16;

/// Rate limit per client: more requests in a second are refused.
const MAX_REQUESTS_PER_SECOND: u32 = 20;
/// At this many requests in a second the connection is closed.
const CLOSE_AT_REQUESTS: u32 = 2 * MAX_REQUESTS_PER_SECOND;

/// A client that sends nothing for this long is disconnected, unless it has subscribed or leased.
const IDLE_TIMEOUT: Milliseconds = Milliseconds(60_000);

/// A client that has the board and sends no line for this long is disconnected: it hangs.
const YIELD_TIMEOUT: Milliseconds = Milliseconds(2_000);

/// Least time between two lines of a subscription.
const MIN_LINE_INTERVAL: Milliseconds = Milliseconds(100);

/// The listening socket and its clients.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    listener: Listener<UnixListener>,
    clients: Vec<Client>,
    /// The next client's number.
    next: ClientId,
}

impl Socket {
    /// Creates the socket for root and the members of `group`, which also get access to the
    /// directory. The socket is created in a private directory and renamed once its permissions
    /// are set, so nobody else can connect. It replaces a socket that a crash left.
    pub fn open(directory: &Path, group: Option<u32>) -> io::Result<Self> {
        let hidden = directory.join("new");
        match fs::remove_dir_all(&hidden) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => DirBuilder::new().mode(0o700).create(&hidden)?,
        }
        let new = hidden.join("socket");
        let listener = UnixListener::bind(&new)?;
        listener.set_nonblocking(true)?;
        if group.is_some() {
            chown(directory, None, group)?;
            let mode = fs::metadata(directory)?.permissions().mode() | 0o050;
            fs::set_permissions(directory, Permissions::from_mode(mode))?;
            chown(&new, None, group)?;
        }
        fs::set_permissions(&new, Permissions::from_mode(0o660))?;
        let path = directory.join("socket");
        fs::rename(&new, &path)?;
        fs::remove_dir(&hidden)?;
        Ok(Self {
            path,
            listener: Listener::new(listener),
            clients: Vec::new(),
            next: ClientId(0),
        })
    }

    /// Closes and removes the socket.
    pub fn remove(self) {
        // Another program may have removed it.
        let _ = fs::remove_file(&self.path);
    }

    /// Answers each client that has connected with this refusal, and closes its connection.
    pub fn turn_away(&mut self, now: Milliseconds, refused: &Refused) {
        self.listener.accept(now, |mut stream| {
            // Best effort: the client is dropped either way.
            let _ = stream.write(&answer(Err(refused.clone())));
        });
    }

    /// What to poll.
    pub fn waiting(&self, now: Milliseconds) -> impl Iterator<Item = Waiting<'_>> {
        let clients = self.clients.iter().map(|it| it.connection.waiting());
        std::iter::once(self.listener.waiting(now)).chain(clients)
    }

    /// Serves clients until `until` at the latest. `is_ready`: poll reported an event. Returns
    /// whether a request, or the end of a client, changed the limit, the model, or who has the
    /// board, so that a look is due.
    pub fn turn<F: Files>(
        &mut self,
        is_ready: bool,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
        until: Milliseconds,
    ) -> bool {
        let changes = daemon.changes();
        if is_ready {
            let (now, clients, next) = (clock.now(), &mut self.clients, &mut self.next);
            self.listener
                .accept(now, |stream| admit(clients, next, stream, now));
        }
        self.clients.retain_mut(|client| {
            let is_due = clock.now() >= until;
            let turn = match is_due {
                true => Ok(()),
                false => client.turn(is_ready, daemon, clock),
            };
            let is_silent = client.is_silent(daemon, clock.now());
            if turn.is_err() || is_silent || client.connection.has_ended() {
                client.end(daemon, clock);
            }
            turn.is_ok() && !is_silent
        });
        daemon.changes() != changes
    }
}

fn admit(
    clients: &mut Vec<Client>,
    next: &mut ClientId,
    mut stream: UnixStream,
    now: Milliseconds,
) {
    if clients.len() < MAX_CLIENTS {
        clients.push(Client {
            id: *next,
            peer: Peer::of(&stream),
            connection: Connection::new(stream),
            requests: RateCounter::default(),
            last_input: now,
            last_line: now,
            subscribed: None,
            has_leased: false,
        });
        next.0 += 1;
        return;
    }
    let message = format!("{MAX_CLIENTS} clients are already connected");
    let refused = answer(Err(Refused::new("too_many_clients", message)));
    // Best effort: the client is dropped either way.
    let _ = stream.write(&refused);
}

#[derive(Debug)]
struct Client {
    id: ClientId,
    peer: Peer,
    connection: Connection<UnixStream>,
    requests: RateCounter,
    /// When the client last sent something, and when it last sent a line.
    last_input: Milliseconds,
    last_line: Milliseconds,
    subscribed: Option<Subscribed>,
    has_leased: bool,
}

/// A client's subscription.
#[derive(Clone, Copy, Debug)]
struct Subscribed {
    every: Milliseconds,
    /// Time of the last line, and the daemon's change counter at that time.
    last_line: Milliseconds,
    changes: u64,
}

impl Client {
    fn turn<F: Files>(
        &mut self,
        is_ready: bool,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
    ) -> Result<(), Gone> {
        if is_ready {
            self.connection.flush()?;
            self.receive(daemon, clock)?;
        }
        let now = clock.now();
        let is_idle = now.since(self.last_input) >= IDLE_TIMEOUT;
        if self.connection.has_ended() {
            return match self.connection.is_flushed() || is_idle {
                true => Err(Gone),
                false => Ok(()),
            };
        }
        self.send_due(daemon, now)?;
        match self.subscribed.is_none() && !self.has_leased && is_idle {
            true => Err(Gone),
            false => Ok(()),
        }
    }

    /// Ends what the client holds.
    fn end<F: Files>(&mut self, daemon: &mut Daemon<F>, clock: &impl Clock) {
        let peer = self.peer;
        if std::mem::take(&mut self.has_leased) {
            log(Priority::Notice, format_args!("{peer}: the lease ends"));
        }
        if daemon.has_board(self.id) {
            log(
                Priority::Notice,
                format_args!("{peer}: gave the board back"),
            );
        }
        daemon.end_client(self.id, clock.utc());
    }

    /// Whether the client has the board and has sent no line for too long.
    fn is_silent<F: Files>(&self, daemon: &Daemon<F>, now: Milliseconds) -> bool {
        daemon.has_board(self.id) && now.since(self.last_line) >= YIELD_TIMEOUT
    }

    /// Reads once and answers each line.
    fn receive<F: Files>(
        &mut self,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
    ) -> Result<(), Gone> {
        let now = clock.now();
        if self.connection.read(MAX_LINE_BYTES)? {
            self.last_input = now;
        }
        while let Some(line) = self.connection.line() {
            self.last_line = now;
            let count = self.requests.count(now);
            let result = match count <= MAX_REQUESTS_PER_SECOND {
                true => Request::parse(&line).and_then(|it| self.act(it, daemon, clock)),
                false => {
                    let message =
                        format!("more than {MAX_REQUESTS_PER_SECOND} requests in a second");
                    Err(Refused::new("too_many_requests", message))
                }
            };
            let line = answer(result.map(|()| daemon.report()));
            self.connection.write(&line)?;
            if count >= CLOSE_AT_REQUESTS {
                return Err(Gone);
            }
        }
        let rest = self.connection.input().len();
        if rest >= MAX_LINE_BYTES {
            let message = format!("the line is longer than {MAX_LINE_BYTES} bytes");
            let line = answer(Err(Refused::new("too_long", message)));
            self.connection.write(&line)?;
            return Err(Gone);
        }
        if rest > 0 && self.connection.has_ended() {
            let refused = Refused::new("malformed", "the last line has no newline");
            self.connection.write(&answer(Err(refused)))?;
            return Err(Gone);
        }
        Ok(())
    }

    /// Acts on a request, and logs what it changed.
    fn act<F: Files>(
        &mut self,
        request: Request,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
    ) -> Result<(), Refused> {
        let change = change(&request);
        self.obey(request, daemon, clock)?;
        if let Some(change) = change {
            log(Priority::Notice, format_args!("{}: {change}", self.peer));
        }
        Ok(())
    }

    fn obey<F: Files>(
        &mut self,
        request: Request,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
    ) -> Result<(), Refused> {
        match request {
            Request::Status => Ok(()),
            Request::SetLimit(limit) => daemon.set_limit(limit, clock),
            Request::SetModel(name) => daemon.set_model(&name, clock.now()),
            Request::Lease(wanted) => {
                daemon.lease(self.id, wanted, clock)?;
                self.has_leased = true;
                Ok(())
            }
            Request::Yield => daemon.yield_to(self.id),
            Request::Subscribe(subscription) => self.subscribe(subscription, daemon, clock.now()),
        }
    }

    fn subscribe<F: Files>(
        &mut self,
        subscription: Subscription,
        daemon: &Daemon<F>,
        now: Milliseconds,
    ) -> Result<(), Refused> {
        self.subscribed = Some(Subscribed {
            every: subscription.every()?,
            // The answer to the request is the first line.
            last_line: now,
            changes: daemon.changes(),
        });
        Ok(())
    }

    fn send_due<F: Files>(&mut self, daemon: &Daemon<F>, now: Milliseconds) -> Result<(), Gone> {
        let Some(subscribed) = &mut self.subscribed else {
            return Ok(());
        };
        let passed = now.since(subscribed.last_line);
        let has_changed = subscribed.changes != daemon.changes();
        if passed >= subscribed.every || (has_changed && passed >= MIN_LINE_INTERVAL) {
            (subscribed.last_line, subscribed.changes) = (now, daemon.changes());
            self.connection.write(&answer(Ok(daemon.report())))?;
        }
        Ok(())
    }
}
