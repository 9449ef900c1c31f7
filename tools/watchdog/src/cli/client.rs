//! Client of the running daemon's socket.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use lexopt::{Arg, Parser};

use super::Failure;
use crate::lock::directory;
use crate::report::Report;
use crate::serve::protocol::{Request, parse_answer};

/// Read timeout. The daemon answers between two control cycles.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The answers of a daemon to a request.
pub struct Answers {
    path: PathBuf,
    lines: BufReader<UnixStream>,
}

impl Answers {
    /// Sends a request to the daemon of the board below `root`.
    pub fn to(request: Request, root: &Path) -> Result<Self, Failure> {
        let path = directory(root).join("socket");
        let ask = || {
            let mut stream = UnixStream::connect(&path)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.write_all(&request.line())?;
            Ok(BufReader::new(stream))
        };
        match ask() {
            Ok(lines) => Ok(Self { path, lines }),
            Err(why) => Err(Failure::NoDaemon { path, why }),
        }
    }

    /// Reads the next answer.
    pub fn next(&mut self) -> Result<Report, Failure> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        let answer = read.and_then(|_| match parse_answer(&line) {
            Some(answer) => Ok(answer),
            None if line.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            None => Err(io::Error::other("the answer has another protocol version")),
        });
        match answer {
            Ok(Ok(report)) => Ok(report),
            Ok(Err(refused)) => Err(Failure::Refused {
                name: refused.name.into_owned(),
                message: refused.message,
            }),
            Err(why) => Err(Failure::NoDaemon {
                path: self.path.clone(),
                why,
            }),
        }
    }
}

/// Parses the arguments of `status` and `watch`: the board's root, and whether to print JSON.
/// `None` if help is requested.
pub fn parse(mut arguments: Parser) -> Result<Option<(PathBuf, bool)>, Failure> {
    let (mut root, mut is_json) = (PathBuf::from("/"), false);
    while let Some(argument) = arguments.next()? {
        match argument {
            Arg::Long("root") => root = PathBuf::from(arguments.value()?),
            Arg::Long("json") => is_json = true,
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            argument => return Err(argument.unexpected().into()),
        }
    }
    Ok(Some((root, is_json)))
}

/// Formats a report as one JSON object, or as `key value` lines.
pub fn shown(report: &Report, is_json: bool) -> String {
    match is_json {
        // Serialising strings and numbers does not fail.
        true => serde_json::to_string(report).unwrap_or_default() + "\n",
        false => report.to_string(),
    }
}
