//! Workloads as real processes: their output, their end, and those that run already.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use rustix::process::{Pid, Signal, geteuid, getpid, kill_process, test_kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use wattgate_profiler::process::{Process, Source, Stop};
use wattgate_profiler::steps::output::Output;
use wattgate_profiler::steps::pattern::Pattern;
use wattgate_profiler::steps::socket::StepSocket;
use wattgate_profiler::world::{Event, Exit, World};
use wattgate_watchdog::sudo_user::SudoUser;

use crate::living::{LONGEST, Living, Running, STEPS, pid, wait_for};

fn output(pattern: &str) -> Output {
    Output::new(Pattern::new(pattern).expect("a pattern")).expect("an output")
}

fn counting(pattern: &str) -> Process {
    Process::new(1.0, Source::Output(output(pattern)), Stop::default())
}

fn start(process: &mut Process, script: &str) {
    let arguments = ["-c".into(), script.into()];
    process
        .start(&"sh".into(), &arguments, true, None)
        .expect("sh");
}

/// The next event but the time.
fn event(process: &mut Process) -> Event {
    match process.wait(process.now() + LONGEST) {
        Event::Time => panic!("no event"),
        event => event,
    }
}

/// The steps until a number of them is reached.
fn steps_until(process: &mut Process, last: u64) {
    loop {
        match event(process) {
            Event::Count(count) if count.steps == last => return,
            Event::Count(count) => assert!(count.steps < last, "{count:?}"),
            event => panic!("{event:?}"),
        }
    }
}

/// With the rights of root alone can another user be had.
#[test]
fn a_workload_runs_as_the_user_who_typed_sudo() {
    const NOBODY: u32 = 65_534;
    if !geteuid().is_root() {
        eprintln!("skipped: this is not root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let open = fs::Permissions::from_mode(0o777);
    fs::set_permissions(folder.path(), open).expect("set");
    let (told, kept) = (folder.path().join("told"), folder.path().join("kept"));
    fs::write(&kept, "root's").expect("written");
    fs::set_permissions(&kept, fs::Permissions::from_mode(0o644)).expect("set");
    let user = SudoUser::from_uid(NOBODY).expect("Linux has the user nobody");
    let script = format!(
        "id -u >{told}; id -G >>{told}; echo $HOME $USER >>{told}; echo step 1 >/dev/stdout; \
         {{ echo no >{kept}; }} || echo step 2; exec sleep 600",
        told = told.display(),
        kept = kept.display()
    );
    let mut process = counting(r"step (\d+)");
    let arguments = ["-c".into(), script.into()];
    let started = process.start(&"sh".into(), &arguments, true, Some(&user));
    started.expect("sh");
    steps_until(&mut process, 2);
    process.end(|_| ());
    let entry = Command::new("getent").args(["passwd", "nobody"]).output();
    let entry = String::from_utf8(entry.expect("getent").stdout).expect("text");
    let home = entry.split(':').nth(5).expect("a home").to_owned();
    let groups = Command::new("id").args(["-G", "nobody"]).output();
    let groups = String::from_utf8(groups.expect("id").stdout).expect("text");
    assert_eq!(
        fs::read_to_string(&told).expect("there"),
        format!("{NOBODY}\n{groups}{home} nobody\n")
    );
    assert_eq!(fs::metadata(&told).expect("there").uid(), NOBODY);
    assert_eq!(fs::read_to_string(&kept).expect("there"), "root's");
    // All other threads keep root's rights.
    assert!(geteuid().is_root());
    fs::write(&kept, "root's again").expect("written");
}

#[test]
fn output_is_copied_unchanged_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, copy) = (folder.path().join("in"), folder.path().join("out"));
    let mut bytes: Vec<u8> = (0..=255).collect();
    for step in 1..=50_000 {
        bytes.extend(format!("\r{step}/50000 [ \u{2588}\n").as_bytes());
    }
    bytes.extend(b"no newline");
    fs::write(&path, &bytes).expect("written");
    let mut output = output(r"(\d+)/\d+ \[");
    let to = File::create(&copy).expect("a file");
    let stdout = output.copy(to.as_fd(), None).expect("a pipe");
    let mut cat = Command::new("cat");
    let status = cat.arg(&path).stdout(stdout).status().expect("cat");
    drop(cat);
    assert!(status.success());
    wait_for("all counts", || {
        output.take().is_some_and(|(_, steps)| steps == 50_000)
    });
    drop(output);
    assert!(fs::read(&copy).expect("there") == bytes);
}

#[test]
fn a_reader_of_the_output_that_is_gone_does_not_stop_the_workload() {
    let mut output = output(r"step (\d+)");
    let (reader, to) = std::io::pipe().expect("a pipe");
    drop(reader);
    let stdout = output.copy(to.as_fd(), None).expect("a pipe");
    let script = "for i in 1 2 3; do echo step $i; sleep 0.01; done";
    let status = Command::new("sh")
        .args(["-c", script])
        .stdout(stdout)
        .status();
    assert!(status.expect("sh").success());
    wait_for("all counts", || {
        output.take().is_some_and(|(_, steps)| steps == 3)
    });
}

/// A pseudo-terminal: the end of its user and that of programs.
fn terminal() -> (File, File) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&ours).expect("granted");
    unlockpt(&ours).expect("unlocked");
    let name = ptsname(&ours, Vec::new()).expect("a name");
    let name = name.into_string().expect("text");
    let theirs = OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .expect("opened");
    (ours.into(), theirs)
}

#[test]
fn a_workload_has_a_terminal_where_we_have_one() {
    let (mut ours, theirs) = terminal();
    let size = Winsize {
        ws_row: 50,
        ws_col: 132,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&theirs, size).expect("set");
    let mut output = output(r"step (\d+)");
    let stdout = output.copy(theirs.as_fd(), None).expect("a terminal");
    let script = "test -t 1 && stty size <&1 && echo step 5";
    let status = Command::new("sh")
        .args(["-c", script])
        .stdout(stdout)
        .status();
    assert!(status.expect("sh").success());
    wait_for("the count", || {
        output.take().is_some_and(|(_, steps)| steps == 5)
    });
    drop(output);
    let expected = b"50 132\r\nstep 5\r\n";
    let mut shown = [0; 16];
    ours.read_exact(&mut shown).expect("shown");
    assert_eq!(&shown, expected);
}

#[test]
fn stdout_and_stderr_count_until_the_workload_ends() {
    let mut process = counting(r"step (\d+)");
    let script = "test -z \"$WATTGATE_SOCKET\" || exit 9; echo step 1; read line; echo step 2 >&2; \
                  test $PYTHONUNBUFFERED = 1 || exit 8; sleep 0.1; exit 3";
    start(&mut process, script);
    loop {
        match event(&mut process) {
            // The two streams have no order: 2 before 1 looks like the start of an epoch.
            Event::Count(count) => assert!((1..=3).contains(&count.steps)),
            event => break assert_eq!(event, Event::Ended(Exit::Code(3))),
        }
    }
}

#[test]
fn a_log_file_that_does_not_exist_is_named_until_it_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("log");
    let mut output = output(r"step (\d+)");
    output.follow(&path).expect("it waits");
    let missing = format!("there is still no file {}: --log", path.display());
    assert!(output.explain().contains(&missing), "{}", output.explain());
    fs::write(&path, "").expect("written");
    wait_for("the file", || {
        output.explain().contains("there is no output")
    });
    fs::write(&path, "step 7\n").expect("written");
    wait_for("the step", || output.take().is_some());
}

#[test]
fn a_pattern_that_finds_nothing_is_shown_with_the_last_line() {
    let mut process = counting(r"step (\d+)");
    let nothing = "--steps-from `step (\\d+)` has found no count; there is no output: a program \
                   may buffer it (start it with `stdbuf -oL`), and some bars are drawn only in a terminal";
    assert_eq!(process.telling(), nothing);
    start(
        &mut process,
        r"printf 'Step 7\n\033[K\377 \n'; sleep 0.01; printf '  \n'",
    );
    assert_eq!(event(&mut process), Event::Ended(Exit::Code(0)));
    wait_for("the last line", || {
        process.telling().ends_with("output is ``")
    });
    let mut process = counting(r"step (\d+)");
    start(
        &mut process,
        r"printf 'step 7\nStep 8 \033[K\377 \n'; sleep 100",
    );
    steps_until(&mut process, 7);
    let expected = "has counted 7 steps and no more; the last line of the output is \
                    `Step 8`";
    wait_for("the last line", || process.telling().ends_with(expected));
}

#[test]
fn the_socket_is_told_where_the_workload_has_no_steps() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("steps");
    let socket = StepSocket::at(&path).expect("a socket");
    let mut process = Process::new(1.0, Source::Socket(socket), Stop::default());
    assert!(process.telling().contains(path.to_str().expect("text")));
    start(
        &mut process,
        &format!("'{}' step; sleep 100", env!("CARGO_BIN_EXE_wattgate")),
    );
    steps_until(&mut process, 1);
}

#[test]
fn the_children_of_a_script_end_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    for script in [
        "sleep 1000 & echo $! >{}; wait",
        // The script ends before its child.
        "sleep 1000 & echo $! >{}",
        // Stopped, as by reading from a terminal.
        "sleep 1000 & echo $! >{}; kill -STOP $!; wait",
    ] {
        let mut process = counting(r"(x)");
        start(
            &mut process,
            &script.replace("{}", &file.display().to_string()),
        );
        let child = pid(&file);
        test_kill_process(child).expect("it runs");
        drop(process);
        wait_for("the end of the child", || test_kill_process(child).is_err());
        fs::remove_file(&file).expect("there");
    }
}

#[test]
fn a_workload_that_ignores_sigterm_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pid");
    let mut process = counting(r"(x)");
    let script = format!(
        "trap '' TERM; echo $$ >{}; while :; do sleep 1; done",
        file.display()
    );
    start(&mut process, &script);
    let child = pid(&file);
    drop(process);
    test_kill_process(child).expect_err("it has ended");
}

/// Signals that this test program may have been started to ignore, as a shell does for commands in
/// the background. A shell cannot trap what it was started to ignore.
const HEEDED: &str = "INT,HUP,TERM";

#[test]
fn the_signal_of_the_user_reaches_the_whole_workload() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("signals");
    for (signal, expected) in [
        (Signal::INT, "INT\n"),
        (Signal::HUP, "HUP\n"),
        (Signal::TERM, "TERM\n"),
    ] {
        let stop = Stop::default();
        let mut process = Process::new(1.0, Source::Output(output(r"(\d)")), stop.clone());
        let child = format!(
            "for s in INT HUP TERM; do trap \"echo $s >{}; exit\" $s; done; echo 1; \
             while :; do sleep 0.01; done",
            file.display()
        );
        let child = format!("env --default-signal={HEEDED} sh -c '{child}'; exit 0");
        start(&mut process, &child);
        steps_until(&mut process, 1);
        stop.send(signal);
        assert_eq!(event(&mut process), Event::Stop);
        drop(process);
        assert_eq!(fs::read_to_string(&file).expect("a signal"), expected);
    }
}

#[test]
fn signals_stop_a_session() {
    let stop = Stop::on_signals().expect("handlers");
    assert_eq!(stop.signal(), None);
    kill_process(getpid(), Signal::TERM).expect("sent");
    wait_for("the signal", || stop.signal() == Some(Signal::TERM));
    // Ctrl-Z has a handler, too.
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = u64::from_str_radix(caught.expect("a line").trim(), 16).expect("bits");
    assert_eq!(caught >> (Signal::TSTP.as_raw() - 1) & 1, 1);
}

#[test]
fn a_signal_that_is_ignored_stays_ignored() {
    let living = Living::start();
    let mut command = living.profile_by(&["nohup"]);
    command.args(["--json", "--name", "sh", "--steps-from", r"step (\d+)"]);
    command.args(["--", "sh", "-c"]);
    // Its parent is wattgate.
    command.arg(format!("kill -HUP $PPID; {STEPS}"));
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
}

fn attach(running: &Running, source: Source) -> Process {
    let mut process = Process::new(1.0, source, Stop::default());
    process
        .attach(Pid::from_child(&running.0))
        .expect("it runs");
    process
}

#[test]
fn a_workload_that_runs_already_is_counted_and_not_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("steps");
    let script = format!(
        "while read count; do '{}' step --socket '{}' --count $count; done; exec sleep 1000",
        env!("CARGO_BIN_EXE_wattgate"),
        path.display()
    );
    let mut running = Running::start(&script);
    let socket = StepSocket::at(&path).expect("a socket");
    let mut process = attach(&running, Source::Socket(socket));
    let mut stdin = running.0.stdin.take().expect("piped");
    stdin.write_all(b"70\n71\n").expect("written");
    steps_until(&mut process, 71);
    drop(process);
    assert!(matches!(running.0.try_wait(), Ok(None)), "it runs on");
    let socket = StepSocket::at(&path).expect("a socket");
    let mut process = attach(&running, Source::Socket(socket));
    running.0.kill().expect("killed");
    // Not waited for by its parent.
    assert_eq!(event(&mut process), Event::Ended(Exit::Unknown));
    running.0.wait().expect("ended");
    let mut process = counting(r"(x)");
    process
        .attach(Pid::from_child(&running.0))
        .expect_err("gone");
}

#[test]
fn a_log_is_followed_through_rotation_and_truncation() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let append = |text: &str| {
        let file = OpenOptions::new().append(true).create(true).open(&log);
        file.expect("a log")
            .write_all(text.as_bytes())
            .expect("written");
    };
    append("step 1000\n");
    let running = Running::start("exec sleep 1000");
    let mut output = output(r"step (\d+)\b");
    output.follow(&log).expect("followed");
    let mut process = attach(&running, Source::Output(output));
    append("step 10");
    append("01\n");
    steps_until(&mut process, 1_001);
    // Rotation by name; for a while there is no file.
    fs::rename(&log, folder.path().join("log.1")).expect("renamed");
    append("step 1002\n");
    steps_until(&mut process, 1_002);
    append("step 1003\nstep 1004\n");
    steps_until(&mut process, 1_004);
    fs::remove_file(&log).expect("removed");
    append("step 1005\nlast\n");
    steps_until(&mut process, 1_005);
    // Truncation shows as long as the file is shorter than before.
    fs::write(&log, "").expect("truncated");
    append("step 1006\n");
    steps_until(&mut process, 1_006);
}

#[test]
fn a_log_may_come_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let mut output = output(r"step (\d+)");
    output.follow(&log).expect("not there yet");
    fs::write(&log, "step 3\n").expect("written");
    wait_for("the count", || {
        output.take().is_some_and(|(_, steps)| steps == 3)
    });
}

#[test]
fn a_board_is_profiled_by_the_output_of_its_workload() {
    let living = Living::start();
    let mut command = living.profile_by(&[]);
    command.args([
        "--json",
        "--name",
        "sh",
        "--steps-from",
        r"step (\d+)",
        "--",
        "sh",
        "-c",
        STEPS,
    ]);
    let output = command.output().expect("it runs");
    let (stdout, stderr) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{stderr}");
    // The profiler's own lines may stand between them.
    for step in ["\nstep 2\n", "\nstep 3\n"] {
        assert!(stderr.contains(step), "{stderr}");
    }
    let rows: Vec<serde_json::Value> = stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON alone"))
        .collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        assert_eq!(row["workload"], "sh");
        assert!(row["steps"].as_u64() >= Some(20), "{row}");
    }
}

#[test]
fn a_workload_that_runs_already_is_profiled_by_its_log() {
    let living = Living::start();
    let log = living.folder.path().join("log");
    let mut running = Running::start(&format!("exec >'{}'; {STEPS}", log.display()));
    let attach = ["--attach", &running.0.id().to_string(), "--log", "log"];
    wait_for("the log", || log.exists());
    let mut command = living.profile_by(&[]);
    command
        .args(attach)
        .args(["--name", "sh", "--steps-from", r"step (\d+)"]);
    let output = command.output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    assert!(matches!(running.0.try_wait(), Ok(None)), "it runs on");
    let corpus = fs::read_to_string(living.folder.path().join("corpus.csv")).expect("rows");
    assert_eq!(corpus.lines().count(), 3);
    assert!(corpus.contains("orin-agx-64,sh,"), "{corpus}");
}

#[test]
fn ctrl_c_ends_workload_and_session() {
    let living = Living::start();
    let (mut ours, theirs) = terminal();
    // The terminal is that of a session of its own, as after a login.
    let heeding = format!("--default-signal={HEEDED}");
    let mut command = living.profile_by(&["env", &heeding, "setsid", "--ctty", "--wait"]);
    let script =
        "trap 'echo interrupted >word; exit' INT; echo ready; while :; do sleep 0.01; done";
    command.args(["--name", "sh", "--steps-from", r"step (\d+)"]);
    command.args(["--", "sh", "-c", script]);
    command.stdin(theirs.try_clone().expect("another"));
    command
        .stdout(theirs.try_clone().expect("another"))
        .stderr(theirs);
    let mut child = command.spawn().expect("setsid");
    drop(command);
    let mut shown = Vec::new();
    let mut read = |ours: &mut File| {
        let mut buffer = [0; 4096];
        let length = ours.read(&mut buffer).unwrap_or(0);
        shown.extend_from_slice(&buffer[..length]);
        (length > 0).then(|| String::from_utf8_lossy(&shown).into_owned())
    };
    while !read(&mut ours).expect("it runs").contains("ready") {}
    ours.write_all(b"\x03").expect("typed");
    let mut text = String::new();
    while let Some(more) = read(&mut ours) {
        text = more;
    }
    assert_eq!(child.wait().expect("ended").code(), Some(5), "{text}");
    assert!(text.contains("stopped"), "{text}");
    let word = fs::read_to_string(living.folder.path().join("word"));
    assert_eq!(word.expect("a word"), "interrupted\n");
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let own = std::process::id().to_string();
    let own = own.as_str();
    for (arguments, expected) in [
        (&[][..], "missing PROGRAM"),
        (
            &["--attach", own, "true"],
            "--attach and PROGRAM exclude each other; give one of them",
        ),
        (
            &["--attach", "0"],
            "--attach: expected the number of a process, found `0`",
        ),
        (
            &["--log", "x", "true"],
            "missing --attach, which --log is for",
        ),
        (&["--attach", own, "--log", "x"], "missing --steps-from"),
        (&["--attach", own, "--steps-from", "(x)"], "missing --log"),
        (
            &["--socket", "x", "--steps-from", "(x)", "true"],
            "--socket and --steps-from exclude each other; give one of them",
        ),
        (
            &["--steps-from", "(?<stride>x)", "true"],
            "--steps-from: `(?<stride>x)` has a group `stride`; the groups are count, total, steps, rate and period",
        ),
        (&["--steps-from", "(", "true"], "unclosed group"),
        (&["--wrong", "true"], "--wrong"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wattgate"));
        let output = command.arg("profile").args(arguments).output();
        let output = output.expect("it runs");
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
        assert!(text.contains(expected), "{text}");
    }
}
