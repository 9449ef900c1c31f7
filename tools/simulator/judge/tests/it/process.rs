//! The command `board` as a process, with files on a disk.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Output;
use std::thread;
use std::time::Duration;

use crate::eventually::{TIMEOUT, eventually};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::{cpu, emc, gpu, ina, online};
use crate::running::{Running, command};

const EIO: i32 = 5;
const EBUSY: i32 = 16;
const EINVAL: i32 = 22;
const EROFS: i32 = 30;

fn errno<T>(result: io::Result<T>) -> Option<i32> {
    result.err().and_then(|error| error.raw_os_error())
}

#[test]
fn a_written_clock_is_shown_as_linux_shows_it() {
    let board = Running::start();
    let max = cpu(2, "scaling_max_freq");
    board.write(&max, "1200000").expect("written");
    board.shows(&max, "1190400\n");
    board.shows(&cpu(0, "scaling_max_freq"), "1190400\n");
    fs::write(board.path(&max), "883200\n").expect("written");
    board.shows(&max, "883200\n");
}

#[test]
fn a_shorter_text_can_overwrite_a_longer_one() {
    let board = Running::start();
    let max = cpu(0, "scaling_max_freq");
    board.shows(&max, "1728000\n");
    board.write(&max, "806400").expect("written");
    board.shows(&max, "806400\n");
    let governor = cpu(0, "scaling_governor");
    board.write(&governor, "performance").expect("written");
    board.shows(&governor, "performance\n");
    board.write(&governor, "schedutil").expect("written");
    board.shows(&governor, "schedutil\n");
}

#[test]
fn a_refused_write_appears_as_the_old_value() {
    let board = Running::start();
    let min = cpu(0, "scaling_min_freq");
    board
        .write(&cpu(0, "scaling_max_freq"), "960000")
        .expect("written");
    board.shows(&cpu(0, "scaling_max_freq"), "960000\n");
    board.write(&min, "1344000\n").expect("written");
    board.shows(&min, "729600\n");
    eventually("a line", || {
        board.log().contains("refused: EINVAL").then_some(())
    });
}

#[test]
fn quick_legal_sequences_are_never_refused() {
    let board = Running::start();
    let [min, max] = ["scaling_min_freq", "scaling_max_freq"].map(|file| cpu(4, file));
    let [gpu_min, gpu_max] = ["min_freq", "max_freq"].map(gpu);
    for at in 0..300 {
        let (khz, hz) = match at % 3 {
            0 => ("1728000", "1020000000"),
            1 => ("268800", "306000000"),
            _ => ("960000", "612000000"),
        };
        for (path, text) in [(&min, "115200"), (&max, khz), (&min, khz)] {
            board.write(path, text).expect("written");
        }
        for (path, text) in [(&gpu_min, "306000000"), (&gpu_max, hz), (&gpu_min, hz)] {
            fs::write(board.path(path), text).expect("written");
        }
        if at % 7 == 0 {
            thread::sleep(Duration::from_millis(at % 5));
        }
        if at % 50 == 49 {
            board.shows(&min, &format!("{khz}\n"));
            board.shows(&max, &format!("{khz}\n"));
            board.shows(&gpu_min, &format!("{hz}\n"));
        }
    }
    assert!(!board.log().contains("refused"), "{}", board.log());
}

#[test]
fn a_sensor_file_that_stays_open_shows_a_load_step() {
    let board = Running::start();
    let sensor = File::open(board.path(&ina("curr1_input"))).expect("there");
    let current = || {
        let mut bytes = [0; 16];
        let length = sensor.read_at(&mut bytes, 0).expect("readable");
        let text = String::from_utf8(bytes[..length].to_vec()).expect("text");
        let text = text.lines().next().expect("a line").to_owned();
        text.parse::<i64>().unwrap_or_else(|_| panic!("`{text}`"))
    };
    let idle = current();
    board.order("load resnet18");
    eventually("a load", || (current() > idle + 500).then_some(()));
    board.order("load off");
    eventually("no load", || (current() < idle + 400).then_some(()));
}

/// The program waits for inotify events instead of reading the file repeatedly.
#[test]
fn a_program_can_be_woken_by_a_sensor() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};

    let board = Running::start();
    let changes = init(CreateFlags::CLOEXEC).expect("inotify");
    let sensor = board.path(&ina("curr1_input"));
    add_watch(&changes, &sensor, WatchFlags::MODIFY).expect("an ordinary file");
    let idle = fs::read_to_string(&sensor).expect("there");
    board.order("load resnet18");
    let timeout = Timespec {
        tv_sec: TIMEOUT.as_secs() as _,
        tv_nsec: 0,
    };
    let mut waiting = [PollFd::new(&changes, PollFlags::IN)];
    assert_eq!(poll(&mut waiting, Some(&timeout)), Ok(1));
    eventually("another value", || {
        (fs::read_to_string(&sensor).ok()? != idle).then_some(())
    });
}

#[test]
fn a_reader_never_finds_an_empty_or_partial_text() {
    let board = Running::start();
    let paths = [
        ina("curr1_input"),
        "/sys/class/thermal/thermal_zone0/temp".to_owned(),
    ];
    let mut seen = std::collections::BTreeSet::new();
    for at in 0..100_000 {
        if at % 25_000 == 0 {
            board.order(if at % 50_000 == 0 {
                "load vgg11"
            } else {
                "load off"
            });
        }
        for (path, least, most) in [(&paths[0], 100, 9000), (&paths[1], 20_000, 110_000)] {
            let text = board.read(path).expect("there");
            let line = text.lines().next().expect("a line");
            let number: i64 = line.parse().unwrap_or_else(|_| panic!("`{text}`"));
            assert!((least..most).contains(&number), "`{text}`");
            seen.insert(number);
        }
    }
    assert!(seen.len() > 5, "the values do not change");
}

#[test]
fn an_errno_reaches_the_program() {
    let board = Running::start();
    let path = "/sys/devices/platform/17000000.gpu/railgate_enable";
    board.ordered(&format!("refuse {path} EIO"));
    eventually("EIO", || {
        (errno(board.write(path, "0")) == Some(EIO)).then_some(())
    });
    assert_eq!(errno(board.read(path)), Some(EIO));
    board.order(&format!("refuse {path} EINVAL"));
    eventually("EINVAL", || {
        let logged = board
            .log()
            .contains("EINVAL cannot be produced without CAP_SYS_ADMIN");
        (logged || errno(board.write(path, "0")) == Some(EINVAL)).then_some(())
    });
    board.order(&format!("allow {path}"));
    board.shows(path, "1\n");
    board.write(path, "0").expect("written");
    board.shows(path, "0\n");
}

#[test]
fn erofs_reaches_the_program_or_the_log_says_why_not() {
    let board = Running::start();
    let path = gpu("max_freq");
    board.ordered(&format!("refuse {path} EROFS"));
    eventually("EROFS", || {
        let reached = errno(board.write(&path, "306000000")) == Some(EROFS);
        let logged = board.log().contains("no read-only file system");
        (reached || logged).then_some(())
    });
    board.shows(&path, "1020000000\n");
}

#[test]
fn ebusy_reaches_the_program_or_the_log_says_why_not() {
    let board = Running::start();
    let path = gpu("max_freq");
    board.ordered(&format!("refuse {path} EBUSY"));
    eventually("EBUSY", || {
        let logged = board
            .log()
            .contains("EBUSY cannot be produced for a process with CAP_SYS_ADMIN");
        (logged || errno(File::open(board.path(&path))) == Some(EBUSY)).then_some(())
    });
    if board.log().contains("EBUSY cannot be produced") {
        board.write(&path, "306000000\n").expect("taken at first");
        board.shows(&path, "1020000000\n");
    }
}

#[test]
fn the_files_of_an_offline_core_give_eio() {
    let board = Running::start();
    let max = cpu(5, "scaling_max_freq");
    board.write(&online(5), "0").expect("written");
    eventually("EIO", || {
        (errno(board.read(&max)) == Some(EIO)).then_some(())
    });
    assert_eq!(errno(board.write(&max, "960000")), Some(EIO));
    board.shows("/sys/devices/system/cpu/online", "0-4\n");
    board.write(&online(5), "1").expect("written");
    board.shows(&max, "1728000\n");
}

#[test]
fn a_missing_sensor_has_no_files() {
    let board = Running::start();
    let path = ina("curr1_input");
    board.order("sensor VDD_IN missing");
    eventually("its end", || (!board.path(&path).exists()).then_some(()));
    board.order("sensor VDD_IN ok");
    eventually("its return", || board.read(&path).ok());
}

#[test]
fn a_memory_rate_is_locked() {
    let board = Running::start();
    board.write(&emc("mrq_rate_locked"), "1").expect("written");
    board.write(&emc("rate"), "700000000\n").expect("written");
    board.shows(&emc("rate"), "204000000\n");
    board.write(&emc("rate"), "665600000").expect("written");
    board.ordered("ambient 26");
    board.shows(&emc("rate"), "665600000\n");
}

#[test]
fn wrong_commands_are_in_the_log() {
    let board = Running::start();
    board.order("sensor VDD missing");
    board.order("refuse /sys/nothing EIO");
    eventually("both", || {
        let log = board.log();
        let both = log.contains("error: unknown rail `VDD`") && log.contains("unknown path");
        both.then_some(())
    });
}

#[test]
fn a_crash_leaves_half_a_file() {
    let mut board = Running::start();
    board.order(&format!("crash {}", cpu(0, "scaling_max_freq")));
    assert_eq!(board.end().signal(), Some(6));
    let half = board.read(&cpu(0, "scaling_max_freq")).expect("there");
    assert_eq!(half, "1728");
}

#[test]
fn sigterm_and_sigint_end_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let mut board = Running::start();
        kill_process(Pid::from_child(&board.child), signal).expect("it runs");
        assert_eq!(board.end().code(), Some(0));
    }
}

fn run(arguments: &[&str]) -> Output {
    command().args(arguments).output().expect("it ends")
}

#[test]
fn a_root_that_is_not_empty_is_refused_and_stays_as_it_is() {
    let root = tempfile::tempdir().expect("a directory");
    fs::write(root.path().join("mine"), "mine").expect("written");
    let path = root.path().to_str().expect("text");
    let refused = run(&["board", "--board", "tx2", "--root", path]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("not empty"));
    let entries = fs::read_dir(root.path()).expect("readable").count();
    assert_eq!(entries, 1);
}

#[test]
fn wrong_arguments_are_named() {
    let root = tempfile::tempdir().expect("a directory");
    let path = root.path().join("new");
    let root = path.to_str().expect("text");
    let cases: [(&[&str], i32, &str); 8] = [
        (&["board"], 2, "missing --board"),
        (&["board", "--board", "tx2"], 2, "missing --root"),
        (
            &["board", "--fast"],
            2,
            "there is no option --fast; --help lists the options",
        ),
        (
            &["board", "--board", "pi", "--root", root],
            2,
            "unknown board `pi`",
        ),
        (
            &["board", "--board", "nano", "--root", root],
            2,
            "not published of it: the EMC table",
        ),
        (
            &["board", "--board", "tx2", "--root", root, "--mode", "9"],
            2,
            "--mode: unknown mode 9",
        ),
        (
            &["board", "--board", "tx2", "--root", root, "--speed", "0x"],
            2,
            "--speed is `0x`, expected 0.01x … 100x",
        ),
        (
            &["board", "--board", "tx2", "--root", "/proc/nothing"],
            5,
            "/proc/nothing",
        ),
    ];
    for (arguments, code, message) in cases {
        let refused = run(arguments);
        let stderr = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(stderr.contains(message), "{arguments:?}: {stderr}");
        assert_eq!(refused.status.code(), Some(code), "{arguments:?}: {stderr}");
    }
    assert!(!path.exists(), "something was written");
}

#[test]
fn help_lists_the_control_commands() {
    let help = run(&["board", "--help"]);
    let text = String::from_utf8_lossy(&help.stdout).into_owned();
    assert!(
        text.contains("sensor RAIL missing|frozen|absurd|flipped"),
        "{text}"
    );
    assert_eq!(help.status.code(), Some(0));
}
