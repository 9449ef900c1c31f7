//! Averaging of the power sensors: set, read back, undone and restored.

use std::time::Duration;

use crate::common::{
    self, Simulated, boards, booted, description, discover, highest, seeded, total,
};
use wattgate_board::{AveragingError, ChangeError, Files, SAMPLES, Saved};
use wattgate_runtime::Milliseconds;
use wattgate_runtime::estimator::MOST_CHIPS;
use wattgate_simulated_board::tree::Errno;

/// The two chips of [`two_chips`].
const FIRST: &str = "/sys/class/hwmon/hwmon0/samples";
const SECOND: &str = "/sys/class/hwmon/hwmon1/samples";
const INTERVAL: &str = "/sys/class/hwmon/hwmon1/update_interval";

/// The target of the link [`SECOND`], for commands of the simulated board.
const BEHIND: &str = "/sys/bus/i2c/drivers/ina3221/1-0041/hwmon/hwmon1/samples";

/// The boards with JetPack 5 or later.
fn with_hwmon() -> impl Iterator<Item = &'static str> {
    let release = |name: &str| description(name).l4t.map_or(0, |(release, _)| release);
    boards().into_iter().filter(move |name| release(name) >= 35)
}

/// An AGX Orin that measures VIN_SYS_5V0 with its second chip. No known board has both a driver
/// that sets the averaging and two chips of the total.
fn two_chips() -> Simulated {
    let mut files = booted("orin-agx-64");
    for (channel, label) in [("hwmon0/in3", "NC"), ("hwmon1/in2", "VIN_SYS_5V0")] {
        let path = format!("/sys/class/hwmon/{channel}_label");
        files.shown.insert(path, Ok(format!("{label}\n").into()));
    }
    assert_eq!(discover(&files).chips(), 2);
    files
}

fn inject(files: &mut Simulated, command: &str) {
    files.tree.control(command).expect("a command");
}

fn written(files: &Simulated) -> Vec<(&str, &str)> {
    let writes = files.writes.iter();
    writes
        .map(|(path, text)| (path.as_str(), text.trim()))
        .collect()
}

#[test]
fn time_constants_come_from_the_driver() {
    let all = [Milliseconds(430); MOST_CHIPS];
    for name in boards() {
        let files = booted(name);
        let board = discover(&files);
        // JetPack 4 has no file; 430 ms is assumed.
        assert_eq!(board.time_constants(&files), all, "{name}");
        assert_eq!(board.time_constant(&files), Milliseconds(430), "{name}");
    }
    let mut files = two_chips();
    let board = discover(&files);
    let mut check = |shown: Result<&str, Errno>, second, longest| {
        let text = shown.map(|text| text.as_bytes().to_vec());
        files.shown.insert(INTERVAL.to_owned(), text);
        let expected = [430, second, 430, 430].map(Milliseconds);
        assert_eq!(board.time_constants(&files), expected, "{shown:?}");
        assert_eq!(
            board.time_constant(&files),
            Milliseconds(longest),
            "{shown:?}"
        );
    };
    check(Ok("100"), 100, 430);
    check(Ok("861"), 861, 861);
    // The driver shows less than half a ms as 0.
    check(Ok("0"), 1, 430);
    check(Ok("50651"), 50_651, 50_651);
    // Values that no INA3221 has, and files that cannot be read.
    for text in ["50652", "-1", "9223372036854775807", "soon", ""] {
        check(Ok(text), 430, 430);
    }
    check(Err(Errno::Eio), 430, 430);
    check(Err(Errno::Enoent), 430, 430);
}

/// R36 shows the time of a cycle, R35 the time constant. The answers of both drivers are in
/// tools/kernel/README.md.
#[test]
fn the_time_constant_follows_from_either_interval() {
    let mut files = two_chips();
    let board = discover(&files);
    let mut check = |samples: &str, interval: &str, ms| {
        for (path, text) in [(SECOND, samples), (INTERVAL, interval)] {
            files
                .shown
                .insert(path.to_owned(), Ok(text.as_bytes().to_vec()));
        }
        let found = board.time_constants(&files)[1];
        assert_eq!(
            found,
            Milliseconds(ms),
            "{interval} ms of {samples} samples"
        );
    };
    for (samples, r35, ms) in [
        ("1", "1", 1),
        ("4", "3", 3),
        ("16", "13", 13),
        ("64", "54", 54),
        ("512", "430", 430),
        ("1024", "860", 860),
    ] {
        check(samples, r35, ms);
        check(samples, "1", ms);
    }
    check("1", "49", 49);
    check("512", "2", 1_020);
    check("512", "1020", 1_020);
}

#[test]
fn a_disabled_channel_shortens_the_cycle() {
    let mut files = two_chips();
    let board = discover(&files);
    let enable = "/sys/class/hwmon/hwmon1/in1_enable".to_owned();
    files.shown.insert(enable, Ok(b"0\n".to_vec()));
    for interval in ["1", "287"] {
        files.shown.insert(INTERVAL.to_owned(), Ok(interval.into()));
        assert_eq!(board.time_constants(&files)[1], Milliseconds(287));
    }
}

#[test]
fn each_number_of_samples_is_set_and_gives_its_time_constant() {
    // Section 6.3: 3 channels × samples × 2 × 140 µs.
    let time_constants = [1, 3, 13, 54, 108, 215, 430, 860];
    for name in with_hwmon() {
        let mut files = booted(name);
        let board = discover(&files);
        assert_eq!(board.averaging(&files), Ok(512), "{name}");
        for (samples, ms) in SAMPLES.into_iter().zip(time_constants) {
            let set = board.set_averaging(&mut files, samples);
            assert_eq!(set, Ok(Milliseconds(ms)), "{name}: {samples} samples");
            assert_eq!(board.averaging(&files), Ok(samples), "{name}");
            assert_eq!(board.time_constant(&files), Milliseconds(ms), "{name}");
        }
        // From the shortest to the longest: 1 ms is too coarse to predict the longest.
        for (samples, ms) in [(1, 1), (1024, 860), (1, 1), (512, 430)] {
            let set = board.set_averaging(&mut files, samples);
            assert_eq!(set, Ok(Milliseconds(ms)), "{name}: {samples} samples");
        }
    }
}

#[test]
fn only_chips_with_another_number_of_samples_are_written() {
    let mut files = two_chips();
    let board = discover(&files);
    assert!(board.set_averaging(&mut files, 64).is_ok());
    assert_eq!(written(&files), [(FIRST, "64"), (SECOND, "64")]);
    files.writes.clear();
    assert!(board.set_averaging(&mut files, 64).is_ok());
    assert!(files.writes.is_empty(), "{:?}", files.writes);
    files
        .tree
        .write(BEHIND, "256")
        .expect("a number of samples");
    assert_eq!(board.averaging(&files), Ok(256), "the largest one");
    assert_eq!(
        board.time_constant(&files),
        Milliseconds(215),
        "the longest one"
    );
    assert!(board.set_averaging(&mut files, 64).is_ok());
    assert_eq!(written(&files), [(SECOND, "64")]);
}

/// One time constant after a load step, the reading shows 63 % of the change, and 95 % after three.
#[test]
fn readings_follow_with_the_time_constant() {
    for name in with_hwmon() {
        for samples in [64, 512] {
            let mut files = booted(name);
            let mut board = discover(&files);
            common::apply(&mut board, &mut files, highest(name));
            let set = board.set_averaging(&mut files, samples);
            let Milliseconds(time_constant) = set.expect("it can be set");
            let mut power = |files: &mut Simulated, ms| {
                files.wait(Duration::from_millis(ms));
                f64::from(total(&board.sample(files).expect("a reading")).0)
            };
            let from = power(&mut files, 10_000);
            inject(&mut files, "load resnet18");
            let first = power(&mut files, time_constant);
            let third = power(&mut files, 2 * time_constant);
            let to = power(&mut files, 20 * time_constant);
            assert!(to - from > 1_000.0, "{name}: {from} to {to} mW");
            // The sensor's step and the load's ripple allow 10 % of deviation.
            let [first, third] = [first, third].map(|it| (it - from) / (to - from));
            assert!((0.53..0.73).contains(&first), "{name}, {samples}: {first}");
            assert!((0.85..1.05).contains(&third), "{name}, {samples}: {third}");
        }
    }
}

#[test]
fn an_unsupported_number_of_samples_is_refused() {
    let mut files = booted("orin-nano-8-super");
    let board = discover(&files);
    for samples in [0, 2, 63, 513, 2048, u32::MAX] {
        let error = board
            .set_averaging(&mut files, samples)
            .expect_err("unsupported");
        assert_eq!(error, AveragingError::NoSuchNumber { samples });
    }
    let error = board
        .set_averaging(&mut files, 63)
        .expect_err("unsupported");
    let expected = "63 samples, expected 1, 4, 16, 64, 128, 256, 512 or 1024";
    assert_eq!(error.to_string(), expected);
    assert!(files.writes.is_empty());
}

#[test]
fn jetpack_4_cannot_set_averaging_and_the_error_names_the_file() {
    for (name, path) in [
        (
            "xavier-agx",
            "/sys/bus/i2c/drivers/ina3221x/1-0040/iio:device0/samples",
        ),
        (
            "tx2",
            "/sys/bus/i2c/drivers/ina3221x/0-0041/iio:device1/samples",
        ),
    ] {
        let mut files = booted(name);
        let board = discover(&files);
        let error = board.set_averaging(&mut files, 64).expect_err("no file");
        assert_eq!(board.averaging(&files), Err(error.clone()));
        let expected = format!("{path}: no such file; this driver cannot set the averaging");
        assert_eq!(error.to_string(), expected);
        assert!(files.writes.is_empty());
    }
}

/// The second chip fails after the first one was set.
fn assert_undone(fault: impl FnOnce(&mut Simulated), cause: &str) {
    let mut files = two_chips();
    let board = discover(&files);
    fault(&mut files);
    let before = files.state();
    let error = board.set_averaging(&mut files, 64).expect_err("a fault");
    assert!(
        matches!(error, AveragingError::Failed(ChangeError::Undone { .. })),
        "{error:?}"
    );
    let expected = format!("{cause}; all writes before were undone");
    assert_eq!(error.to_string(), expected);
    assert_eq!(
        files.writes.first(),
        Some(&(FIRST.to_owned(), "64\n".to_owned()))
    );
    assert_eq!(files.state(), before);
}

#[test]
fn a_refused_write_is_undone_on_all_chips() {
    assert_undone(
        |files| inject(files, &format!("refuse {BEHIND} EIO")),
        "/sys/class/hwmon/hwmon1/samples: writing 64 failed: Input/output error (os error 5)",
    );
}

#[test]
fn an_ignored_write_is_undone_on_all_chips() {
    assert_undone(
        |files| inject(files, &format!("ignore {BEHIND}")),
        "/sys/class/hwmon/hwmon1/samples: shows 512, expected 64",
    );
}

/// The driver shows 64 samples and still the time constant of 512.
#[test]
fn a_wrong_time_constant_is_undone_on_all_chips() {
    assert_undone(
        |files| {
            files.shown.insert(INTERVAL.to_owned(), Ok("430\n".into()));
        },
        "/sys/class/hwmon/hwmon1/update_interval: shows 430, expected 54",
    );
}

#[test]
fn a_chip_that_cannot_be_undone_is_counted() {
    let mut files = two_chips();
    let board = discover(&files);
    inject(&mut files, &format!("ignore {BEHIND}"));
    // The first chip takes 64, whatever is written.
    files.taken.insert(FIRST.to_owned(), "64".to_owned());
    let error = board.set_averaging(&mut files, 64).expect_err("a fault");
    let AveragingError::Failed(ChangeError::NotUndone { left: 1, first, .. }) = error else {
        panic!("{error}");
    };
    let expected = "/sys/class/hwmon/hwmon0/samples: shows 64, expected 512";
    assert_eq!(first.to_string(), expected);
}

#[test]
fn unreadable_settings_are_an_error_before_any_write() {
    for (path, shown, expected) in [
        (
            SECOND,
            Err(Errno::Eio),
            "cannot be read: Input/output error (os error 5); nothing was written",
        ),
        (
            INTERVAL,
            Ok(b"soon\n".to_vec()),
            "shows no number; nothing was written",
        ),
        (
            INTERVAL,
            Err(Errno::Enoent),
            "no such file; this driver cannot set the averaging",
        ),
    ] {
        let mut files = two_chips();
        let board = discover(&files);
        files.shown.insert(path.to_owned(), shown);
        let error = board.set_averaging(&mut files, 64).expect_err("a fault");
        assert_eq!(error.to_string(), format!("{path}: {expected}"));
        assert!(files.writes.is_empty());
    }
}

/// Device numbers may change from boot to boot.
#[test]
fn averaging_is_restored_whatever_the_device_numbers() {
    for name in with_hwmon() {
        let files = booted(name);
        let board = discover(&files);
        let saved = board.save(&files).expect("readable");
        let text = saved.to_string();
        for seed in [0, 1, 2] {
            let mut files = seeded(name, seed);
            let mut board = discover(&files);
            assert!(board.set_averaging(&mut files, 64).is_ok());
            let saved: Saved = text.parse().expect("what was written");
            assert_eq!(board.restore(&mut files, &saved), Ok(()), "{name}");
            assert_eq!(board.averaging(&files), Ok(512), "{name}");
            files.writes.clear();
            assert_eq!(board.restore(&mut files, &saved), Ok(()), "{name}");
            assert!(files.writes.is_empty(), "{name}: {:?}", files.writes);
        }
    }
}

/// A release that could not set the averaging wrote the saved state.
#[test]
fn a_saved_state_without_averaging_leaves_the_averaging_alone() {
    let mut files = two_chips();
    let mut board = discover(&files);
    let text = board.save(&files).expect("readable").to_string();
    assert!(
        text.contains("\nina3221/VDD_GPU_SOC/samples 512\n"),
        "{text}"
    );
    assert!(
        text.contains("\nina3221/VIN_SYS_5V0/samples 512\n"),
        "{text}"
    );
    let old: String = text
        .lines()
        .filter(|line| !line.contains("samples"))
        .map(|line| format!("{line}\n"))
        .collect();
    let old: Saved = old.parse().expect("well formed");
    assert!(board.set_averaging(&mut files, 64).is_ok());
    assert_eq!(board.restore(&mut files, &old), Ok(()));
    assert_eq!(board.averaging(&files), Ok(64));
}

#[test]
fn a_chip_that_is_not_restored_does_not_stop_the_others() {
    let mut files = two_chips();
    let mut board = discover(&files);
    let saved = board.save(&files).expect("readable");
    assert!(board.set_averaging(&mut files, 64).is_ok());
    common::apply(&mut board, &mut files, highest("orin-agx-64"));
    inject(&mut files, &format!("refuse {BEHIND} EIO"));
    let error = board.restore(&mut files, &saved).expect_err("a fault");
    let expected = "1 failures, the first one: /sys/class/hwmon/hwmon1/samples: \
                    writing 512 failed: Input/output error (os error 5)";
    assert_eq!(error.to_string(), expected);
    inject(&mut files, &format!("allow {BEHIND}"));
    files.writes.clear();
    assert_eq!(board.restore(&mut files, &saved), Ok(()));
    assert_eq!(
        written(&files),
        [(SECOND, "512")],
        "the other knobs were restored"
    );
}
