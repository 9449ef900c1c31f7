//! The daemon's log: on a terminal, and to a reader that does not read.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write, pipe};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use crate::wattgated::{Daemon, Rig, eventually, outcome, with_board};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

fn set_nonblocking(stream: &impl AsFd, is: bool) {
    let mut flags = fcntl_getfl(stream).expect("open");
    flags.set(OFlags::NONBLOCK, is);
    fcntl_setfl(stream, flags).expect("set");
}

/// Fills a pipe or socket, so that the next write blocks.
fn fill<S: Write + AsFd>(mut stream: S) -> S {
    set_nonblocking(&stream, true);
    for size in [4_096, 1] {
        while stream.write(&vec![b'x'; size]).is_ok() {}
    }
    set_nonblocking(&stream, false);
    stream
}

/// All that can be read now.
fn drain(reader: &mut (impl Read + AsFd)) -> String {
    set_nonblocking(reader, true);
    let mut bytes = Vec::new();
    let error = reader.read_to_end(&mut bytes).expect_err("open");
    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    String::from_utf8(bytes).expect("text")
}

fn start(rig: &Rig, stderr: impl Into<OwnedFd>) -> Daemon {
    let mut command = rig.command("run");
    let stderr: OwnedFd = stderr.into();
    // As systemd tells a unit that its log goes to the journal.
    if !stderr.is_terminal() {
        let stat = rustix::fs::fstat(&stderr).expect("open");
        let stream = format!("{}:{}", stat.st_dev, stat.st_ino);
        command.env("JOURNAL_STREAM", stream);
    }
    command.stderr(Stdio::from(stderr));
    Daemon::from_child(command.spawn().expect("started"))
}

fn await_status(rig: &Rig, text: &str) {
    eventually(text, || {
        let (_, report, _) = rig.status(&[]);
        report.contains(text).then_some(())
    });
}

/// A stuck journal: nobody reads what the daemon logs.
fn assert_holds_without_reader(
    rig: &Rig,
    stderr: impl Into<OwnedFd>,
    mut reader: impl Read + AsFd,
) {
    let before = rig.knobs();
    let mut daemon = start(rig, stderr);
    await_status(rig, "state tracking\n");
    assert_ne!(rig.knobs(), before);
    drain(&mut reader);
    // The log goes on with the number of lines that were dropped.
    assert_eq!(outcome(rig.client("set-limit").arg("15W")).0, Some(0));
    let mut lines = String::new();
    eventually("two lines", || {
        lines.push_str(&drain(&mut reader));
        (lines.lines().count() >= 2).then_some(())
    });
    let (first, rest) = lines.split_once('\n').expect("lines");
    let number = first.strip_prefix("<4>").and_then(|it| it.split_once(' '));
    let (number, what) = number.expect(first);
    assert!(number.parse::<u32>().expect("a number") >= 3, "{first}");
    assert_eq!(what, "log lines were dropped: stderr had no room");
    assert!(rest.starts_with("<5>limit is now 15 W"), "{rest}");
    daemon.signal(Signal::TERM);
    assert_eq!(daemon.exit_code(), Some(0));
    assert_eq!(outcome(&mut rig.client("restore")).0, Some(0));
    rig.await_knobs(&before);
}

#[test]
fn a_full_pipe_does_not_stop_control() {
    with_board("30W", |rig| {
        let (reader, writer) = pipe().expect("a pipe");
        assert_holds_without_reader(rig, fill(writer), &reader);
    });
}

#[test]
fn a_full_socket_does_not_stop_control() {
    with_board("30W", |rig| {
        let (reader, writer) = UnixStream::pair().expect("sockets");
        assert_holds_without_reader(rig, fill(writer), &reader);
    });
}

#[test]
fn a_daemon_whose_log_nobody_reads_ends_cleanly() {
    with_board("30W", |rig| {
        let before = rig.knobs();
        let (_reader, writer) = pipe().expect("a pipe");
        let mut daemon = start(rig, fill(writer));
        await_status(rig, "state tracking\n");
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.exit_code(), Some(0));
        assert_eq!(outcome(&mut rig.client("restore")).0, Some(0));
        rig.await_knobs(&before);
    });
}

#[test]
fn lines_on_a_terminal_have_no_prefix() {
    with_board("30W", |rig| {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&terminal).expect("granted");
        unlockpt(&terminal).expect("unlocked");
        let path = ptsname(&terminal, Vec::new()).expect("a name");
        let path = OsStr::from_bytes(path.as_bytes());
        let stderr = File::options().read(true).write(true).open(path);
        let mut daemon = start(rig, stderr.expect("a terminal"));
        let mut lines = BufReader::new(File::from(terminal)).lines();
        let line = lines.next().expect("a line").expect("text");
        assert!(line.starts_with("limit 30 W; "), "{line}");
        daemon.signal(Signal::TERM);
        assert_eq!(daemon.exit_code(), Some(0));
    });
}
