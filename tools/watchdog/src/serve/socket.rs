//! The Unix sockets: one for clients, and one for root alone; [`protocol`](super::protocol) defines the messages.
//!
//! Containers mount the folder of the first one. Over it, uid 0 is a client like any other.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use rustix::event::PollFlags;
use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use super::Waiting;
use super::connection::{Connection, Gone};
use super::listener::Listener;
use super::peer::{Peer, change};
use super::protocol::{MAX_LINE_BYTES, Refused, Request, Subscription, answer};
use super::stranger::{Stranger, is_welcome};
use super::users::{
    CLOSE_AT_REQUESTS, MAX_CONNECTIONS, MAX_CONNECTS_PER_SECOND, MAX_REQUESTS_PER_SECOND,
    MAX_SUBSCRIPTIONS, Users,
};
use crate::clock::Clock;
use crate::control::Priority;
use crate::daemon::{ClientId, Daemon};
use crate::limits::Owner;
use crate::log::{Withheld, log};

/// Maximum number of connected clients of a socket.
pub const MAX_CLIENTS: usize = 128;

/// A client that sends nothing for this long is disconnected, unless it has subscribed.
const IDLE_TIMEOUT: Milliseconds = Milliseconds(60_000);

/// A client that has the board or a lease, and sends no line for this long, is disconnected: it hangs.
const LEASE_TIMEOUT: Milliseconds = Milliseconds(2_000);

/// Interval at which it is seen whether the process of such a client has ended.
const PROCESS_INTERVAL: Milliseconds = Milliseconds(100);

/// Least time between two lines of a subscription.
const MIN_LINE_INTERVAL: Milliseconds = Milliseconds(100);

/// The listening socket and its clients.
#[derive(Debug)]
pub struct Socket {
    path: PathBuf,
    listener: Listener<UnixListener>,
    clients: Vec<Client>,
    users: Users,
    /// The next client's number.
    next: ClientId,
    /// Whether it is root's alone.
    is_root: bool,
    /// The group that may use it, beside root.
    group: Option<u32>,
}

impl Socket {
    /// Creates the socket for all clients. Root and the members of `group` may use it and enter its directory. It replaces
    /// a socket that a crash left.
    pub fn open(directory: &Path, group: Option<u32>) -> io::Result<Self> {
        Self::open_as(directory, group, false)
    }

    /// Creates the socket that is root's alone, in a directory that is root's alone.
    pub fn open_root(directory: &Path) -> io::Result<Self> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)?;
        fs::set_permissions(directory, Permissions::from_mode(0o700))?;
        Self::open_as(directory, None, true)
    }

    /// The socket is created in a private directory and renamed once its permissions are set, so nobody else can
    /// connect.
    fn open_as(directory: &Path, group: Option<u32>, is_root: bool) -> io::Result<Self> {
        let hidden = directory.join("new");
        match fs::remove_dir_all(&hidden) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => DirBuilder::new().mode(0o700).create(&hidden)?,
        }
        let new = hidden.join("socket");
        let listener = UnixListener::bind(&new)?;
        listener.set_nonblocking(true)?;
        give(directory, group)?;
        if group.is_some() {
            chown(&new, None, group)?;
        }
        let mode = if is_root { 0o600 } else { 0o660 };
        fs::set_permissions(&new, Permissions::from_mode(mode))?;
        let path = directory.join("socket");
        fs::rename(&new, &path)?;
        fs::remove_dir(&hidden)?;
        Ok(Self {
            path,
            listener: Listener::new(listener),
            clients: Vec::new(),
            users: Users::default(),
            // No client of one socket has the number of one of the other.
            next: ClientId(u64::from(is_root) << 63),
            is_root,
            group,
        })
    }

    /// Gives socket and directory to the group again. Before each command of a unit, such as that of a reload, systemd gives the
    /// unit's directories to its user.
    pub fn give_again(&self) -> io::Result<()> {
        if self.group.is_some() {
            chown(&self.path, None, self.group)?;
        }
        self.path.parent().map_or(Ok(()), |it| give(it, self.group))
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

    /// Whether clients are accepted: of root always.
    fn accepts(&self) -> bool {
        self.is_root || is_welcome()
    }

    /// What to poll.
    pub fn waiting(&self, now: Milliseconds) -> impl Iterator<Item = Waiting<'_>> {
        let clients = self.clients.iter().map(|it| it.connection.waiting());
        let (listener, flags) = self.listener.waiting(now);
        let flags = match self.accepts() {
            true => flags,
            false => PollFlags::empty(),
        };
        std::iter::once((listener, flags)).chain(clients)
    }

    /// Serves clients until `until` at the latest. `is_ready`: poll reported an event. Returns
    /// whether a request, or the end of a client, changed the limit, the model, or who has the
    /// board, so that a step is due.
    pub fn turn<F: Files>(
        &mut self,
        is_ready: bool,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
        until: Milliseconds,
    ) -> bool {
        let changes = daemon.changes();
        if is_ready && self.accepts() {
            let now = clock.now();
            let (clients, users) = (&mut self.clients, &mut self.users);
            let (next, is_root) = (&mut self.next, self.is_root);
            self.listener.accept(now, |stream| {
                let peer = Peer::from_stream(&stream, is_root);
                if let Some(new) = admit(clients, users, *next, peer, stream, now) {
                    clients.push(new);
                    next.0 += 1;
                }
            });
        }
        let users = &mut self.users;
        let mut subscribed: Vec<u32> = Vec::new();
        subscribed.extend(
            self.clients
                .iter()
                .filter(|it| it.subscribed.is_some())
                .map(|it| it.peer.uid()),
        );
        self.clients.retain_mut(|client| {
            let now = clock.now();
            let turn = match now >= until {
                true => Ok(()),
                false => client.turn(is_ready, daemon, clock, users, &mut subscribed),
            };
            let lapse = client.lapse(daemon, now);
            if turn.is_err() || lapse.is_some() || client.connection.has_ended() {
                client.end(daemon, clock, users, lapse.unwrap_or("the connection ends"));
            }
            turn.is_ok() && lapse.is_none()
        });
        daemon.changes() != changes
    }
}

/// Lets a group enter a directory.
fn give(directory: &Path, group: Option<u32>) -> io::Result<()> {
    if group.is_none() {
        return Ok(());
    }
    chown(directory, None, group)?;
    let mode = fs::metadata(directory)?.permissions().mode() | 0o050;
    fs::set_permissions(directory, Permissions::from_mode(mode))
}

/// The client of a connection, unless it is one too many. Then it is refused and dropped.
fn admit(
    clients: &[Client],
    users: &mut Users,
    id: ClientId,
    peer: Peer,
    mut stream: Stranger,
    now: Milliseconds,
) -> Option<Client> {
    // Root is always served.
    let is_root = peer.owner() == Owner::Root;
    let connects = users.entry(peer.uid(), now).connects.count(now);
    let of_user = clients.iter().filter(|it| it.peer.uid() == peer.uid());
    let message = if !is_root && connects > MAX_CONNECTS_PER_SECOND {
        format!("more than {MAX_CONNECTS_PER_SECOND} connections of this user in a second")
    } else if !is_root && of_user.count() >= MAX_CONNECTIONS {
        format!("{MAX_CONNECTIONS} clients of this user are already connected")
    } else if clients.len() >= MAX_CLIENTS {
        format!("{MAX_CLIENTS} clients are already connected")
    } else {
        return Some(Client {
            id,
            peer: peer.hold(),
            connection: Connection::new(stream),
            last_input: now,
            last_line: now,
            checked: now,
            subscribed: None,
            has_leased: false,
        });
    };
    let refused = answer(Err(Refused::new("too_many_clients", message)));
    // Best effort: the client is dropped either way.
    let _ = stream.write(&refused);
    None
}

#[derive(Debug)]
struct Client {
    id: ClientId,
    peer: Peer,
    connection: Connection<Stranger>,
    /// When the client last sent something, and when it last sent a line.
    last_input: Milliseconds,
    last_line: Milliseconds,
    /// When its process was seen last.
    checked: Milliseconds,
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
        users: &mut Users,
        subscribed: &mut Vec<u32>,
    ) -> Result<(), Gone> {
        if is_ready {
            self.connection.flush()?;
            self.receive(daemon, clock, users, subscribed)?;
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
        match self.subscribed.is_none() && is_idle {
            true => Err(Gone),
            false => Ok(()),
        }
    }

    /// Logs what the client does, unless its user has done too much.
    fn tell(&self, what: &str, users: &mut Users, now: Milliseconds) {
        let lines = &mut users.entry(self.peer.uid(), now).lines;
        if let Some(withheld) = lines.take(now) {
            let (peer, withheld) = (self.peer.setter(None), Withheld(withheld));
            log(
                Priority::Notice,
                format_args!("client of {peer}: {what}{withheld}"),
            );
        }
    }

    /// Ends what the client holds.
    fn end<F: Files>(
        &mut self,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
        users: &mut Users,
        why: &str,
    ) {
        if std::mem::take(&mut self.has_leased) {
            self.tell(&format!("the lease is over: {why}"), users, clock.now());
        }
        if daemon.has_board(self.id) {
            self.tell(&format!("gave the board back: {why}"), users, clock.now());
        }
        daemon.end_client(self.id, clock.utc());
    }

    /// Why a client that has the board or a lease loses it.
    fn lapse<F: Files>(&mut self, daemon: &Daemon<F>, now: Milliseconds) -> Option<&'static str> {
        if !daemon.has_board(self.id) && !daemon.has_leased(self.id) {
            return None;
        }
        if now.since(self.last_line) >= LEASE_TIMEOUT {
            return Some("no line for 2 s");
        }
        if now.since(self.checked) < PROCESS_INTERVAL {
            return None;
        }
        self.checked = now;
        self.peer.has_ended().then_some("its process has ended")
    }

    /// Reads once and answers each line.
    fn receive<F: Files>(
        &mut self,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
        users: &mut Users,
        subscribed: &mut Vec<u32>,
    ) -> Result<(), Gone> {
        let now = clock.now();
        if self.connection.read(MAX_LINE_BYTES)? {
            self.last_input = now;
        }
        while let Some(line) = self.connection.line() {
            self.last_line = now;
            let count = match self.peer.owner() {
                Owner::Root => 0,
                Owner::Uid(uid) => users.entry(uid, now).requests.count(now),
            };
            let result = match count <= MAX_REQUESTS_PER_SECOND {
                true => Request::parse(&line)
                    .and_then(|it| self.act(it, daemon, clock, users, subscribed)),
                false => {
                    let message = format!(
                        "more than {MAX_REQUESTS_PER_SECOND} requests of this user in a second; ask less often"
                    );
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
        users: &mut Users,
        subscribed: &mut Vec<u32>,
    ) -> Result<(), Refused> {
        let change = change(&request);
        // A renewed lease is nothing new.
        let is_new = !(matches!(request, Request::Lease(_)) && daemon.has_leased(self.id));
        self.obey(request, daemon, clock, subscribed)?;
        if let Some(change) = change.filter(|_| is_new) {
            self.tell(&change, users, clock.now());
        }
        Ok(())
    }

    fn obey<F: Files>(
        &mut self,
        request: Request,
        daemon: &mut Daemon<F>,
        clock: &impl Clock,
        subscribed: &mut Vec<u32>,
    ) -> Result<(), Refused> {
        match request {
            Request::Status => Ok(()),
            Request::SetLimit(limit) => {
                let program = limit.as_ref().and_then(|it| it.program.as_deref());
                let by = self.peer.setter(program);
                daemon.set_limit(limit, by, clock)
            }
            Request::Lift(owner) => {
                self.check_root("lift")?;
                daemon.check_holds()?;
                match daemon.lift(owner, clock) {
                    true => Ok(()),
                    false => {
                        let message = format!(
                            "{owner} has set no limit; `claims` of `wattgated status` lists who has"
                        );
                        Err(Refused::new("no_lowering", message))
                    }
                }
            }
            Request::SetModel(name) => daemon.set_model(&name, self.peer.owner(), clock.now()),
            Request::Lease(wanted) => {
                let by = self.peer.setter(wanted.program.as_deref());
                daemon.lease(self.id, wanted, by, clock)?;
                self.has_leased = true;
                Ok(())
            }
            Request::SetAim(wanted) => {
                self.check_root("set_aim")?;
                daemon.set_aim(wanted, clock)
            }
            Request::Steps(steps) => daemon.take_steps(self.id, steps),
            Request::Yield => {
                self.check_root("yield")?;
                daemon.yield_to(self.id)
            }
            Request::Subscribe(subscription) => {
                let uid = self.peer.uid();
                let others = subscribed.iter().filter(|it| **it == uid).count();
                let is_full = others >= MAX_SUBSCRIPTIONS && self.peer.owner() != Owner::Root;
                if self.subscribed.is_none() && is_full {
                    let message = format!(
                        "{MAX_SUBSCRIPTIONS} clients of this user have subscribed already; end one of them"
                    );
                    return Err(Refused::new("too_many_clients", message));
                }
                self.subscribe(subscription, daemon, clock.now())?;
                subscribed.push(uid);
                Ok(())
            }
        }
    }

    /// Refuses what is root's over the socket of all clients.
    fn check_root(&self, request: &str) -> Result<(), Refused> {
        match self.peer.owner() {
            Owner::Root => Ok(()),
            Owner::Uid(_) => {
                let message = format!(
                    "{request} is for root alone, over /run/wattgated-root/socket: run it as root"
                );
                Err(Refused::new("not_root", message))
            }
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
