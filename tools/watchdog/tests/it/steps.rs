//! The socket for steps of the daemon's process, to which anybody may send.

use std::fs;
use std::io::{IoSlice, Write};
use std::mem::MaybeUninit;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::set_socket_linger;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType, bind, sendmsg, socket_with,
};
use wattgate_cli::steps::Steps;
use wattgate_watchdog::report::Report;
use wattgate_watchdog::steps;
use wattgate_watchdog::steps::workloads::NOBODY;

use crate::wattgated::{Rig, eventually, outcome, with_board};

fn report(rig: &Rig) -> Report {
    let (code, told, errors) = rig.status(&["--json"]);
    assert_eq!(code, Some(0), "{errors}");
    serde_json::from_str(&told).expect("a report")
}

/// Whether Linux tells the daemon the process of a datagram: not in a container.
fn tells_processes() -> bool {
    let namespace = fs::read_link("/proc/self/ns/pid").expect("a namespace");
    namespace == Path::new("pid:[4026531836]")
}

/// Waits until the first line of the status has these words; a mode that was just set has others.
fn says(rig: &Rig, words: &str) {
    let line = || outcome(&mut rig.client("status")).1;
    eventually(words, || line().contains(words).then_some(()));
}

#[test]
fn steps_that_a_workload_tells_are_shown_with_their_speed_and_energy() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let path = steps::socket(&rig.root);
        let mode = |path| {
            fs::metadata(path)
                .expect("it is there")
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!(mode(path.as_path()), 0o666);
        assert_eq!(mode(path.parent().expect("a folder")), 0o755);
        says(rig, "; nobody reports steps");
        let mut yolo = Steps::new(Some(path.clone()), 16, "yolo");
        let begun = Instant::now();
        // 200 steps a second.
        while begun.elapsed() < Duration::from_secs(2) {
            yolo.report(begun.elapsed().as_millis() as u64 / 5);
            thread::sleep(Duration::from_millis(5));
        }
        let report = report(rig);
        let [told] = &report.workloads[..] else {
            panic!("{:?}", report.workloads);
        };
        let name = told.name.as_deref();
        assert_eq!(
            (name, told.items, told.idle),
            (Some("yolo"), Some(16), false)
        );
        let pid = i32::try_from(std::process::id()).ok();
        assert_eq!(told.pid, pid.filter(|_| tells_processes()));
        let us = told.step_us.expect("a speed");
        assert!((4_500..5_500).contains(&us), "{us}");
        // The board draws between 5 and 60 W.
        let uj = told.step_uj.expect("an energy");
        assert!((25_000..300_000).contains(&uj), "{uj}");
        let line = format!("; {told}");
        assert!(line.starts_with("; yolo at ") && line.ends_with(" J a step"));
        says(rig, "; yolo is idle");
        daemon.stop();
        assert!(!path.exists());
    });
}

#[test]
fn a_flood_of_steps_is_named_and_the_daemon_holds_on() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let before = report(rig);
        let path = steps::socket(&rig.root);
        let flood = UnixDatagram::unbound().expect("a socket");
        flood.connect(&path).expect("the daemon's");
        flood.set_nonblocking(true).expect("set");
        let begun = Instant::now();
        let mut sent = 0_u64;
        while begun.elapsed() < Duration::from_secs(3) {
            let name = sent % 1_000;
            let line = format!("steps={} name=n{name}", sent * sent);
            sent += u64::from(flood.send(line.as_bytes()).is_ok());
        }
        let after = report(rig);
        let uid = match tells_processes() {
            true => rustix::process::getuid().as_raw(),
            false => NOBODY,
        };
        assert_eq!(after.flooded_by, Some(uid), "after {sent} datagrams");
        assert!(after.workloads.len() <= 8);
        assert_eq!(after.violations, before.violations);
        assert_eq!((&*after.state, after.cores), ("tracking", before.cores));
        daemon.logs(&format!(
            "<5>uid {uid} sends steps faster than they are read"
        ));
        daemon.stop();
    });
}

/// A socket whose close takes ten seconds: nobody reads what was sent to it. And what keeps it so.
fn lingering() -> (TcpStream, TcpListener) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let stream = TcpStream::connect(listener.local_addr().expect("one")).expect("connected");
    stream.set_nonblocking(true).expect("set");
    while (&stream).write(&[0; 1 << 16]).is_ok() {}
    set_socket_linger(&stream, Some(Duration::from_secs(10))).expect("set");
    (stream, listener)
}

/// Sends bytes with a file, of which the receiver then has the last one.
fn send_with(socket: &impl AsFd, bytes: &[u8], file: TcpStream) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let files = [file.as_fd()];
    assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    let parts = [IoSlice::new(bytes)];
    sendmsg(socket, &parts, &mut control, SendFlags::empty()).expect("sent");
}

/// Linux closes the files of a message in the call that reads it, or with the stream that it is in. The close of a socket with a
/// linger time waits for it.
#[test]
fn a_stranger_s_files_do_not_stop_the_daemon() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let datagrams = UnixDatagram::unbound().expect("a socket");
        let path = steps::socket(&rig.root);
        datagrams.connect(path).expect("the daemon's");
        let stream = || UnixStream::connect(rig.root.join("run/wattgated/socket"));
        let streams = [(); 2].map(|()| stream().expect("connected"));
        let files = [(); 3].map(|()| lingering());
        let [of_datagram, of_line, of_rest] = files.map(|(file, listener)| {
            // It outlives the test, as does what waits for it.
            std::mem::forget(listener);
            file
        });
        send_with(&datagrams, b"steps=1", of_datagram);
        let [first, second] = streams;
        send_with(&first, b"{}\n", of_line);
        // Unread bytes of a client that goes.
        (&second).write_all(&[b' '; 5_000]).expect("written");
        send_with(&second, b"{}\n", of_rest);
        drop(second);
        let begun = Instant::now();
        let mut looks = Vec::new();
        while begun.elapsed() < Duration::from_secs(3) {
            let asked = Instant::now();
            assert_eq!(rig.status(&[]).0, Some(0));
            looks.push(asked.elapsed());
        }
        let longest = looks.iter().max().expect("some");
        assert!(*longest < Duration::from_secs(2), "{longest:?}");
        daemon.stop();
    });
}

/// In the journal, a new line would be a message of the daemon's own.
#[test]
fn a_line_that_tells_no_steps_is_named_in_one_line() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let sender = UnixDatagram::unbound().expect("a socket");
        let path = steps::socket(&rig.root);
        sender
            .send_to(b"steps=1\n<0>lie\x1b[2K\xe2\x80\xae", path)
            .expect("sent");
        let uid = match tells_processes() {
            true => rustix::process::getuid().as_raw(),
            false => NOBODY,
        };
        let line = daemon.logs(&format!("<5>uid {uid} sends a line that tells no steps: "));
        let why = "`steps` is `1?<0>lie?[2K?`, expected a whole number of 64 bits";
        assert!(line.ends_with(why), "{line}");
        daemon.stop();
    });
}

/// Linux tells a length that is longer than an address.
#[test]
fn a_sender_with_the_longest_path_is_counted() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>tracking; measured ");
        let folder = tempfile::tempdir().expect("a folder");
        for (count, length) in [(1, 107), (2, 108)] {
            let name = "n".repeat(length - folder.path().as_os_str().len() - 1);
            let address = SocketAddrUnix::new(folder.path().join(name)).expect("an address");
            let flags = SocketFlags::CLOEXEC;
            let sender = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None);
            let sender = sender.expect("a socket");
            bind(&sender, &address).expect("bound");
            let sender = UnixDatagram::from(sender);
            let line = format!("steps={count} name=n{length}");
            let sent = sender.send_to(line.as_bytes(), steps::socket(&rig.root));
            sent.expect("sent");
        }
        let names = || report(rig).workloads.into_iter().filter_map(|it| it.name);
        eventually("both", || {
            let mut names: Vec<String> = names().collect();
            names.sort();
            (names == ["n107", "n108"]).then_some(())
        });
        daemon.stop();
    });
}
