//! HTTP server for the metrics: `GET /metrics` and nothing else.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};

use wattgate_runtime::Milliseconds;

use super::Waiting;
use super::connection::{Connection, Gone};
use super::listener::Listener;

/// Maximum number of connected clients. The next one takes the place of the oldest, which may be idle.
pub const MAX_METRICS_CLIENTS: usize = 16;

/// Timeout from the connection to the last byte of the answer.
const HTTP_TIMEOUT: Milliseconds = Milliseconds(5_000);

/// Maximum size of a request line with its headers, in bytes.
const MAX_HEAD_BYTES: usize = 4_096;

/// The listening socket and its clients.
#[derive(Debug)]
pub struct Http {
    listener: Listener<TcpListener>,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    connection: Connection<TcpStream>,
    since: Milliseconds,
    is_answered: bool,
}

impl Http {
    /// Listens on an address.
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: Listener::new(listener),
            clients: Vec::new(),
        })
    }

    /// What to poll.
    pub fn waiting(&self, now: Milliseconds) -> impl Iterator<Item = Waiting<'_>> {
        let clients = self.clients.iter().map(|it| it.connection.waiting());
        std::iter::once(self.listener.waiting(now)).chain(clients)
    }

    /// Serves clients. `is_ready`: poll reported an event. `page` is `None` while no daemon answers.
    pub fn turn(
        &mut self,
        is_ready: bool,
        now: Milliseconds,
        mut page: impl FnMut() -> Option<String>,
    ) {
        if is_ready {
            let clients = &mut self.clients;
            self.listener.accept(now, |stream| {
                if clients.len() >= MAX_METRICS_CLIENTS {
                    clients.remove(0);
                }
                clients.push(Client {
                    connection: Connection::new(stream),
                    since: now,
                    is_answered: false,
                });
            });
        }
        self.clients
            .retain_mut(|client| client.turn(is_ready, now, &mut page).is_ok());
    }
}

impl Client {
    fn turn(
        &mut self,
        is_ready: bool,
        now: Milliseconds,
        page: &mut impl FnMut() -> Option<String>,
    ) -> Result<(), Gone> {
        if is_ready {
            self.connection.flush()?;
            self.connection.read(MAX_HEAD_BYTES)?;
            if !self.is_answered
                && let Some(answer) = answer(self.connection.input(), page)
            {
                self.is_answered = true;
                self.connection.write(answer.as_bytes())?;
            }
        }
        let is_done = match self.is_answered {
            true => self.connection.is_flushed(),
            false => self.connection.has_ended(),
        };
        match is_done || now.since(self.since) >= HTTP_TIMEOUT {
            true => Err(Gone),
            false => Ok(()),
        }
    }
}

/// The response to a request; `None` while the request is incomplete.
fn answer(input: &[u8], page: impl FnOnce() -> Option<String>) -> Option<String> {
    let is_whole = input.windows(4).any(|bytes| bytes == b"\r\n\r\n");
    if !is_whole && input.len() < MAX_HEAD_BYTES {
        return None;
    }
    let line = input.split(|byte| *byte == b'\r').next();
    let line = line.and_then(|line| std::str::from_utf8(line).ok());
    let words: Vec<&str> = line.unwrap_or_default().split(' ').collect();
    let (status, body) = match words.as_slice() {
        [method, target, version] if is_whole && version.starts_with("HTTP/1.") => {
            // A query has no meaning here.
            let path = target.split('?').next().unwrap_or_default();
            match (path, *method) {
                ("/metrics", "GET") => match page() {
                    Some(page) => ("200 OK", page),
                    None => (
                        "503 Service Unavailable",
                        "the daemon does not run, or refuses\n".to_owned(),
                    ),
                },
                ("/metrics", _) => ("405 Method Not Allowed\r\nAllow: GET", String::new()),
                _ => ("404 Not Found", String::new()),
            }
        }
        _ => ("400 Bad Request", String::new()),
    };
    let length = body.len();
    Some(format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_line(request: &str) -> Option<String> {
        let answer = answer(request.as_bytes(), || Some("x 1\n".to_owned()))?;
        answer.lines().next().map(str::to_owned)
    }

    #[test]
    fn the_metrics_are_one_page() {
        for request in [
            "GET /metrics HTTP/1.1\r\nHost: localhost:9753\r\n\r\n",
            "GET /metrics?collect=all HTTP/1.0\r\n\r\n",
        ] {
            let answer = answer(request.as_bytes(), || Some("x 1\n".to_owned()));
            assert_eq!(
                answer.expect("an answer"),
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
                 Content-Length: 4\r\nConnection: close\r\n\r\nx 1\n"
            );
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for (request, line) in [
            ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found"),
            (
                "GET /metrics/../etc/passwd HTTP/1.1\r\n\r\n",
                "HTTP/1.1 404 Not Found",
            ),
            (
                "POST /metrics HTTP/1.1\r\n\r\n",
                "HTTP/1.1 405 Method Not Allowed",
            ),
            ("GET /metrics HTTP/2\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            ("GET /metrics\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            ("GET  /metrics HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
            ("\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ] {
            assert_eq!(first_line(request).as_deref(), Some(line), "{request}");
        }
        let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(MAX_HEAD_BYTES));
        assert_eq!(
            first_line(&long[..MAX_HEAD_BYTES]).as_deref(),
            Some("HTTP/1.1 400 Bad Request")
        );
    }

    #[test]
    fn a_request_is_answered_when_it_is_complete() {
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        for end in 0..request.len() {
            assert_eq!(first_line(&request[..end]), None);
        }
    }
}
