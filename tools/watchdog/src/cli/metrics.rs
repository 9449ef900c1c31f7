//! `metrics`: serves the running daemon's metrics over HTTP, in a process of its own. The process that holds the limit
//! opens no port.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use lexopt::{Arg, Parser, ValueExt};
use rustix::event::{PollFd, Timespec, poll};
use wattgate_cli::arguments::{Given, of};

use super::Failure;
use crate::client::Client;
use crate::clock::{Clock, System};
use crate::config::Metrics;
use crate::serve::http::Http;
use crate::serve::metrics;

const USAGE: &str = "\
Serve the running daemon's metrics for Prometheus over HTTP, until a signal

Usage: wattgated metrics [--listen ADDRESS] [--root DIR]

Reads /run/wattgated/socket: the user must be root or in the config's group. wattgated-metrics.service runs it.

Options:
  --listen ADDRESS  A loopback address with its port [127.0.0.1:9753]
  --root DIR        Root of the board's files, for a simulated board [/]
  -h, --help        Print this help

Example:
  wattgated metrics --listen 127.0.0.1:9753
";

/// The address without `--listen`.
const DEFAULT_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9_753);

/// The longest time between two checks of slow clients.
const HTTP_TURN: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};

/// The text of the help.
pub fn help() -> String {
    USAGE.to_owned()
}

/// Runs the command with the arguments that follow its name.
pub fn run(mut arguments: Parser) -> Result<(), Failure> {
    let (mut address, mut root) = (DEFAULT_ADDRESS, PathBuf::from("/"));
    let mut given = Given::default();
    while let Some(argument) = arguments.next()? {
        given.add(&argument)?;
        match argument {
            Arg::Long("listen") => {
                address = arguments
                    .value()?
                    .parse_with(loopback)
                    .map_err(of("--listen"))?;
            }
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            argument => return Err(argument.unexpected().into()),
        }
    }
    let http = Http::open(address);
    let mut http = http.map_err(|why| Failure::Listen { address, why })?;
    let page = || {
        let mut client = Client::connect_as_user(&root).ok()?;
        Some(metrics::text(&client.status().ok()?))
    };
    loop {
        let is_ready = {
            let waiting = http.waiting(System.now());
            let mut waiting: Vec<PollFd<'_>> = waiting
                .map(|(stream, flags)| PollFd::from_borrowed_fd(stream, flags))
                .collect();
            // An error, such as EINTR, is as good as an event: nothing blocks.
            poll(&mut waiting, Some(&HTTP_TURN)).map_or(true, |ready| ready > 0)
        };
        http.turn(is_ready, System.now(), page);
    }
}

fn loopback(text: &str) -> Result<SocketAddr, String> {
    match Metrics::try_from(text.to_owned()) {
        Ok(Metrics::Address(address)) => Ok(address),
        _ => Err("expected a loopback address with its port, such as 127.0.0.1:9753".to_owned()),
    }
}
