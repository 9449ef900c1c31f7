//! What clients that mean harm cost, as counts. The daemon's socket is that of all clients; each attack uses all that
//! one user can get.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::server::{Client, Server, limit};
use crate::wattgated::{StopOnDrop, eventually, with_board};
use serde_json::Value;
use wattgate_watchdog::serve::protocol::Request;

/// Time of a transfer of one register, in ms, and the part of the bus that is the sensor's at most.
const REGISTER_MS: f64 = 0.55;
const MOST_OF_BUS: f64 = 0.06;

/// The part of the bus that reads take in ten seconds, with this done every two milliseconds.
fn share(mut abuse: impl FnMut(&mut Server, &mut [Client], u64)) -> f64 {
    let mut server = Server::with("limit = \"30W\"\nmax_limit = \"40W\"");
    let mut clients: Vec<Client> = (0..8).map(|_| server.connect()).collect();
    server.turn();
    let read = |server: &mut Server| server.rig.daemon.files().registers.get();
    let (before, start) = (read(&mut server), server.rig.clocks.now.get());
    let mut emit = |_: wattgate_watchdog::control::Event<'_>| {};
    while server.rig.clocks.now.get() < start + 10_000 {
        let due = server.rig.daemon.step(&server.rig.clocks, &mut emit).0;
        loop {
            let now = server.rig.clocks.now.get() + 2;
            server.rig.clocks.now.set(now);
            let files = server.rig.daemon.files();
            let board = files.tree.jetson().now();
            wattgate_board::Files::wait(files, Duration::from_millis(now).saturating_sub(board));
            abuse(&mut server, &mut clients, now);
            let is_changed = server.turn_for(due.saturating_sub(now));
            clients.iter_mut().for_each(|client| drop(client.answers()));
            if is_changed || now >= due {
                break;
            }
        }
    }
    let registers = (read(&mut server) - before) as f64;
    registers * REGISTER_MS / (server.rig.clocks.now.get() - start) as f64
}

#[test]
fn no_flood_of_limits_takes_more_of_the_bus() {
    let calm = share(|_, _, _| {});
    // A client that is disconnected connects again.
    let flood = |server: &mut Server, client: &mut Client, request: Request| {
        if client.stream.write_all(&request.line()).is_err() {
            *client = server.connect();
        }
    };
    let alternating = share(|server, clients, now| {
        let client = &mut clients[now as usize / 2 % 8];
        flood(server, client, limit(25_000 + (now % 5_000) as u32));
    });
    let lifted = share(|server, clients, now| {
        let request = match now / 2 % 2 {
            0 => limit(12_000),
            _ => Request::SetLimit(None),
        };
        flood(server, &mut clients[now as usize / 4 % 8], request);
    });
    println!(
        "of the bus: {:.1} % calm, {:.1} % with a limit every 2 ms, {:.1} % with one that is set and lifted",
        1e2 * calm,
        1e2 * alternating,
        1e2 * lifted
    );
    assert!(calm.max(alternating).max(lifted) <= MOST_OF_BUS);
}

/// An attack: one round, with the path of the socket, a number that grows, and whether to stop.
type Attack = fn(&Path, u64, &AtomicBool);

const ATTACKS: [(&str, Attack); 7] = [
    ("none", |_, _, _| thread::sleep(Duration::from_millis(10))),
    ("200 clients", |path, _, _| {
        let clients: Vec<_> = (0..200).map(|_| UnixStream::connect(path)).collect();
        thread::sleep(Duration::from_millis(100));
        drop(clients);
    }),
    ("garbage", |path, _, _| {
        let bytes: Vec<u8> = (0..=255).cycle().take(20_000).collect();
        send(path, &bytes);
    }),
    ("100,000 requests", |path, _, stop| {
        let request = b"{\"version\":1,\"request\":\"status\"}\n".repeat(100);
        let Ok(mut stream) = connected(path) else {
            return;
        };
        while stream.write_all(&request).is_ok() && !stop.load(Ordering::Relaxed) {}
    }),
    ("alternating limits", |path, round, _| {
        let power = if round % 2 == 0 { 12_000 } else { 29_000 };
        ask(path, &format!("{{\"set_limit\":{{\"power_mw\":{power}}}}}"));
    }),
    ("alternating models", |path, round, _| {
        let name = if round % 2 == 0 {
            "model.wgt"
        } else {
            "other.wgt"
        };
        ask(path, &format!("{{\"set_model\":\"{name}\"}}"));
    }),
    ("single bytes", |path, _, stop| {
        let Ok(mut stream) = connected(path) else {
            return;
        };
        let bytes = b"{\"version\":1,\"request\":\"status\"}\n".iter().cycle();
        for byte in bytes.take_while(|_| !stop.load(Ordering::Relaxed)) {
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    }),
];

fn connected(path: &Path) -> std::io::Result<UnixStream> {
    let stream = UnixStream::connect(path)?;
    stream.set_write_timeout(Some(Duration::from_millis(200)))?;
    stream.set_read_timeout(Some(Duration::from_millis(200)))?;
    Ok(stream)
}

fn send(path: &Path, bytes: &[u8]) {
    if let Ok(mut stream) = connected(path) {
        // The daemon may have closed it.
        let _ = stream.write_all(bytes);
    }
}

fn ask(path: &Path, request: &str) {
    if let Ok(mut stream) = connected(path) {
        let line = format!("{{\"version\":1,\"request\":{request}}}\n");
        let _ = stream.write_all(line.as_bytes());
        let _ = stream.read(&mut [0; 4_096]);
    }
}

/// The daemon's resident memory in KiB and its open files.
fn held(pid: u32) -> (u64, usize) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("alive");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let memory = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    let files = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("alive");
    (memory.expect("a number"), files.count())
}

#[test]
fn abuse_fills_neither_log_nor_memory_and_root_is_served() {
    with_board("30W", |rig| {
        let model = rig.configure_copy("limit = \"30W\"");
        let other = "orin-agx-64-resnet18-all-modes.wgt";
        let other = Path::new(crate::wattgated::MODEL).with_file_name(other);
        std::fs::copy(other, model.with_file_name("other.wgt")).expect("copied");
        let mut daemon = rig.run("<6>tracking; measured ");
        let path = rig.root.join("run/wattgated/socket");
        let pid = daemon.id();
        let (_, files) = held(pid);
        println!("| attack | rounds | lines of the log | KiB more | late looks | root served |");
        println!("|---|---|---|---|---|---|");
        for (name, attack) in ATTACKS {
            let (memory, _) = held(pid);
            daemon.drain();
            let late = || {
                let (code, json, errors) = rig.status(&["--json"]);
                assert_eq!(code, Some(0), "root is served: {errors}");
                let json: Value = serde_json::from_str(&json).expect("an object");
                json["late_looks"].as_u64().expect("a count")
            };
            let before = late();
            let (stop, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
            let mut served = 0;
            thread::scope(|scope| {
                let _stop = StopOnDrop(&stop);
                for _ in 0..4 {
                    scope.spawn(|| {
                        while !stop.load(Ordering::Relaxed) {
                            attack(&path, rounds.fetch_add(1, Ordering::Relaxed), &stop);
                        }
                    });
                }
                let start = Instant::now();
                while start.elapsed() < Duration::from_secs(3) {
                    late();
                    served += 1;
                    thread::sleep(Duration::from_millis(200));
                }
            });
            let lines = daemon.drain();
            let more = held(pid).0.saturating_sub(memory);
            println!(
                "| {name} | {} | {lines} | {more} | {} | {served} of {served} |",
                rounds.load(Ordering::Relaxed),
                late() - before
            );
            // Six of clients and six of limits a minute, and the modes that follow.
            assert!(lines <= 30, "{name}: {lines} lines in 3 s");
            assert!(more <= 2_048, "{name}: {more} KiB more");
            eventually("the descriptors of before", || {
                (held(pid).1 <= files).then_some(())
            });
        }
        daemon.stop();
    });
}

/// Prints how late the steps of a daemon are under the attacks, against those of the same daemon without them, in turns:
/// `cargo test --release -p wattgate-watchdog --test it abuse -- --ignored --nocapture`
#[test]
#[ignore = "a bench: takes 40 s, and asserts nothing"]
fn steps_under_abuse() {
    let mut server = Server::new();
    let path = server.directory.join("socket");
    let mut late = [Vec::new(), Vec::new()];
    for turn in 0..8 {
        let stop = AtomicBool::new(turn % 2 == 0);
        let alive = AtomicU64::new(ATTACKS.len() as u64 - 1);
        thread::scope(|scope| {
            for (_, attack) in &ATTACKS[1..] {
                let (path, stop, alive) = (&path, &stop, &alive);
                scope.spawn(move || {
                    let mut round = 0;
                    while !stop.load(Ordering::Relaxed) {
                        attack(path, round, stop);
                        round += 1;
                    }
                    alive.fetch_sub(1, Ordering::Relaxed);
                });
            }
            let start = Instant::now();
            let begin = server.rig.clocks.now.get();
            let now = || begin + start.elapsed().as_millis() as u64;
            let mut emit = |_: wattgate_watchdog::control::Event<'_>| {};
            while start.elapsed() < Duration::from_secs(5) {
                server.rig.clocks.now.set(now());
                let due = server.rig.daemon.step(&server.rig.clocks, &mut emit).0;
                let due_in = Duration::from_millis(due.saturating_sub(now()));
                let due_at = Instant::now() + due_in;
                loop {
                    server.rig.clocks.now.set(now());
                    let left = due_at.saturating_duration_since(Instant::now());
                    if server.turn_for(left.as_millis() as u64) || left.is_zero() {
                        break;
                    }
                    thread::sleep(Duration::from_micros(200).min(left));
                }
                late[turn % 2].push(Instant::now().saturating_duration_since(due_at));
            }
            stop.store(true, Ordering::Relaxed);
            // A client that connects waits for the server.
            while alive.load(Ordering::Relaxed) > 0 {
                server.rig.clocks.now.set(now());
                server.turn();
                thread::sleep(Duration::from_millis(1));
            }
        });
    }
    let [calm, disturbed] = late.map(|mut late| {
        late.sort_unstable();
        late[late.len() * 99 / 100]
    });
    println!(
        "99 % of the looks are at most {:.2} ms late, under abuse {:.2} ms: {:.1} times",
        1e3 * calm.as_secs_f64(),
        1e3 * disturbed.as_secs_f64(),
        disturbed.as_secs_f64() / calm.as_secs_f64()
    );
}
