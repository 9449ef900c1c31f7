//! The socket for steps: several senders, its place, and `wattgate step`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Output};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wattgate_cli::steps::StepLine;
use wattgate_cli::steps::Steps;
use wattgate_profiler::steps::socket::{StepSocket, counter};
use wattgate_watchdog::steps::senders::{Counter, Senders};

use crate::living::wait_for;

fn of_process(process: i32) -> Counter {
    Counter {
        process: Some(process),
        address: None,
    }
}

/// The steps after each line `PROCESS COUNT [NAME]`.
fn steps(lines: &[(i32, u64, &str)]) -> Vec<Option<u64>> {
    let mut senders = Senders::default();
    let taken = lines.iter().map(|(process, steps, name)| {
        let name = Some((*name).to_owned()).filter(|name| !name.is_empty());
        let line = StepLine {
            steps: *steps,
            items: None,
            name,
            fetch_us: None,
            compute_us: None,
        };
        senders.take(of_process(*process), line)
    });
    taken.collect()
}

#[test]
fn one_sender_counts_as_it_says() {
    let lines = [(7, 40, ""), (7, 41, ""), (7, 41, ""), (7, 50, "")];
    assert_eq!(steps(&lines), [Some(40), Some(41), None, Some(50)]);
}

#[test]
fn parts_of_steps_are_those_of_one_process_and_samples_those_of_one_name() {
    let mut senders = Senders::default();
    let mut take = |process: i32, text: &str| {
        let line = StepLine::parse(text.as_bytes()).expect("a line");
        senders.take(of_process(process), line);
        let told = senders.told();
        (told.fetch_us, told.compute_us, told.items)
    };
    assert_eq!(take(1, "steps=4 items=0"), (None, None, None));
    assert_eq!(
        take(1, "steps=5 fetch_ms=1.5 compute_ms=20 items=16"),
        (Some(1_500), Some(20_000), Some(16))
    );
    assert_eq!(
        take(2, "steps=5 fetch_ms=9 items=16"),
        (None, None, Some(16))
    );
    assert_eq!(take(2, "steps=9 items=16 name=other"), (None, None, None));
}

#[test]
fn a_step_of_all_ranks_is_one_step() {
    let mut lines = Vec::new();
    for step in 1..=100 {
        // Each rank is ahead at times, and the last one comes late.
        let rank = |rank: i32| (rank, step + u64::from(step % 7 == rank as u64), "ddp");
        lines.extend([rank(1), rank(2)]);
        lines.extend((step > 30).then(|| rank(3)));
    }
    let steps: Vec<u64> = steps(&lines).into_iter().flatten().collect();
    assert!(steps.is_sorted());
    let last = *steps.last().expect("steps");
    assert!((100..=102).contains(&last), "{last}");
}

#[test]
fn names_are_added_and_runs_follow_each_other() {
    let lines = [(1, 500, "train"), (2, 1, "val"), (2, 4, "val")];
    assert_eq!(steps(&lines), [Some(500), None, Some(503)]);
    let alternating = [
        (1, 500, "train"),
        (1, 10, "val"),
        (1, 12, "val"),
        (1, 501, "train"),
    ];
    assert_eq!(steps(&alternating), [Some(500), None, Some(502), Some(503)]);
    let one_after_another = [(1, 500, ""), (2, 1, ""), (2, 3, ""), (3, 1, ""), (3, 2, "")];
    let expected = [Some(500), None, Some(502), None, Some(503)];
    assert_eq!(steps(&one_after_another), expected);
}

#[test]
fn a_process_for_each_step_goes_on_from_the_one_before() {
    let lines: Vec<_> = (1..=1000).map(|step| (step as i32, step, "")).collect();
    let expected: Vec<_> = (1..=1000).map(Some).collect();
    assert_eq!(steps(&lines), expected);
}

#[test]
fn a_process_that_counts_backwards_shows() {
    assert_eq!(steps(&[(1, 10, ""), (1, 4, "")]), [Some(10), Some(4)]);
    let lines = [(1, 10, ""), (2, 10, ""), (1, 12, ""), (2, 1, "")];
    assert_eq!(steps(&lines), [Some(10), None, Some(12), Some(3)]);
    assert_eq!(steps(&[(1, 5, ""), (2, 900, ""), (2, 0, "")])[2], Some(0));
    let most = u64::MAX;
    assert_eq!(
        steps(&[(1, most, ""), (1, 0, ""), (1, most, "")])[1],
        Some(0)
    );
}

/// As two threads, or two processes in a container, have them.
#[test]
fn two_counters_of_one_process_and_name_count_the_same_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut socket = StepSocket::at(&folder.path().join("steps")).expect("a socket");
    let path = socket.path().to_owned();
    let new = || Steps::new(Some(path.clone()), 1, "yolo");
    let mut first = new();
    first.report(900);
    let mut second = new();
    second.report(3);
    assert_eq!(taken(&mut socket), [900]);
    first.report(905);
    drop(first);
    assert_eq!(taken(&mut socket), [905]);
    // It began at the 900 that were counted, and is behind.
    second.report(6);
    drop(second);
    assert!(taken(&mut socket).is_empty());
    // The workload begins anew.
    let mut third = new();
    third.report(1);
    third.report(4);
    drop(third);
    assert_eq!(taken(&mut socket), [908]);
}

fn step(socket: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wattgate"));
    command.arg("step").args(arguments);
    command.env("WATTGATE_SOCKET", socket);
    command.output().expect("it runs")
}

fn silent(output: &Output) {
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

/// The counts that have been sent. A thread reads them, for which this waits.
fn taken(socket: &mut StepSocket) -> Vec<u64> {
    let patience = Timespec {
        tv_sec: 0,
        tv_nsec: 300_000_000,
    };
    let mut taken = Vec::new();
    loop {
        taken.extend(std::iter::from_fn(|| socket.take()).map(|(steps, _)| steps));
        if poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&patience)) == Ok(0) {
            return taken;
        }
    }
}

#[test]
fn a_shell_counts_its_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut socket = StepSocket::at(&folder.path().join("steps")).expect("a socket");
    let path = socket.path().to_owned();
    for _ in 0..3 {
        silent(&step(&path, &["--items", "16"]));
    }
    assert_eq!(taken(&mut socket), [1, 2, 3]);
    for name in ["a", "a", "-", "a"] {
        silent(&step(&path, &["--name", name]));
    }
    assert_eq!(taken(&mut socket), [4, 5]);
    let counts = fs::read_to_string(counter(&path)).expect("counts");
    assert_eq!(counts, " 3\n- 1\na 3\n");
    // Another process, so less is not backwards.
    silent(&step(&path, &["--count", "7"]));
    silent(&step(&path, &["--count", "2"]));
    assert_eq!(taken(&mut socket), [9]);
}

#[test]
fn no_step_of_jobs_side_by_side_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut socket = StepSocket::at(&folder.path().join("steps")).expect("a socket");
    let jobs: Vec<_> = (0..8)
        .map(|_| {
            let script = r#"for i in 1 2 3 4 5; do "$0" step; done"#;
            let mut command = Command::new("sh");
            command.args(["-c", script, env!("CARGO_BIN_EXE_wattgate")]);
            command.env("WATTGATE_SOCKET", socket.path());
            command.spawn().expect("a job")
        })
        .collect();
    let mut steps = Vec::new();
    for mut job in jobs {
        // The queue holds few lines.
        while job.try_wait().expect("a job").is_none() {
            steps.extend(taken(&mut socket));
        }
    }
    steps.extend(taken(&mut socket));
    assert_eq!(
        fs::read_to_string(counter(socket.path())).expect("a count"),
        " 40\n"
    );
    assert!(steps.is_sorted() && steps.last() == Some(&40), "{steps:?}");
}

#[test]
fn a_step_that_nobody_wants_is_no_failure() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("steps");
    silent(&step(Path::new(""), &[]));
    for arguments in [&[][..], &["--count", "7"]] {
        silent(&step(&path, arguments));
    }
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    // A counter that is not ours.
    let elsewhere = folder.path().join("elsewhere");
    fs::write(&elsewhere, "").expect("written");
    symlink(&elsewhere, counter(&path)).expect("linked");
    let output = step(&path, &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("no step is counted"),
        "{text}"
    );
    assert_eq!(fs::read(&elsewhere).expect("there"), b"");
    for arguments in [
        ["--name", "a b"],
        ["--name", "a items=3"],
        ["--count", "-1"],
        ["--count", "1.5"],
        ["--wrong", "1"],
    ] {
        let output = step(&path, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
    }
}

#[test]
fn everybody_may_send_and_nothing_stays() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = folder.path().join("run/wattgate");
    let socket = StepSocket::below(&run).expect("a socket");
    let path = socket.path().to_owned();
    assert_eq!(path, run.join(format!("{}/steps", std::process::id())));
    let mode = |path: &Path| {
        let metadata = fs::metadata(path).expect("there");
        metadata.permissions().mode() & 0o777
    };
    assert_eq!(
        (mode(&run), mode(path.parent().expect("one"))),
        (0o755, 0o755)
    );
    assert_eq!((mode(&path), mode(&counter(&path))), (0o666, 0o666));
    drop(socket);
    assert_eq!(fs::read_dir(&run).expect("there").count(), 0);
    // A path that is too long for a socket.
    let socket = StepSocket::below(&run.join("long".repeat(30))).expect("a socket");
    let temporary = socket.path().parent().expect("one").to_owned();
    assert!(!socket.path().starts_with(&run));
    assert_eq!(mode(&temporary), 0o755);
    drop(socket);
    assert!(!temporary.exists());
}

#[test]
fn a_socket_in_use_stays_and_one_that_was_left_is_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("steps");
    let other = UnixDatagram::bind(&path).expect("bound");
    let error = StepSocket::at(&path).expect_err("in use").to_string();
    assert!(error.contains("steps: Address already in use"), "{error}");
    drop(other);
    // A child of another test has it until it has become its program.
    wait_for("it was left", || StepSocket::at(&path).is_ok());
    let mut socket = StepSocket::at(&path).expect("it was left");
    silent(&step(&path, &["--count", "3"]));
    assert_eq!(taken(&mut socket), [3]);
    drop(socket);
    fs::write(&path, "a file").expect("written");
    StepSocket::at(&path).expect_err("not a socket");
    assert_eq!(fs::read(&path).expect("there"), b"a file");
}
