//! What a probe records, and what it never does.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use wattgate_board::Files;
use wattgate_probe::collect::{Progress, collect};
use wattgate_probe::format::{Content, Fault, Names, Probe};
use wattgate_probe::recorded::Recorded;

use crate::common::OnDisk;

const SENSOR: &str = "/sys/class/hwmon/hwmon0/curr1_input";

fn unpacked(probe: &Probe) -> String {
    let bytes = probe.to_bytes().expect("in memory");
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(&*bytes);
    std::io::Read::read_to_string(&mut unpacked, &mut text).expect("text");
    text
}

/// All files below a folder, with their contents and times of change.
fn tree(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let metadata = fs::symlink_metadata(&path).expect("there");
        let changed = metadata.modified().expect("a time");
        match metadata.is_dir() {
            true => all.extend(tree(&path)),
            false => all.push(format!("{} {changed:?}", path.display())),
        }
    }
    all.sort();
    all
}

#[test]
fn nothing_that_names_a_board_its_owner_or_its_network_is_recorded() {
    let board = OnDisk::new("orin-nano-8-super");
    let secrets = [
        ("proc/device-tree/serial-number", "1423921012345"),
        (
            "sys/firmware/devicetree/base/serial-number",
            "1423921012345",
        ),
        ("etc/hostname", "rover-seven"),
        (
            "etc/passwd",
            "alice:x:1000:1000:Alice Example:/home/alice:/bin/bash",
        ),
        ("sys/class/net/eth0/address", "48:b0:2d:5e:c2:01"),
        ("sys/class/hwmon/hwmon7/name", "nvme"),
        ("sys/class/hwmon/hwmon7/serial", "S5H9NS0N"),
        (
            "proc/version",
            "Linux version 5.15.148-tegra (alice@rover-seven) (gcc 11.3.0) #1 SMP 2025",
        ),
        (
            "etc/nvpmodel.conf",
            "# alice@rover-seven 10.11.12.13 48:b0:2d:5e:c2:01 fe80::4ab0:2dff:fe5e:c201\n\
             < POWER_MODEL ID=0 NAME=15W >\nNOTE 10.11.12.13 48:b0:2d:5e:c2:01 fe80::4ab0:2dff:fe5e:c201\n",
        ),
        (
            "etc/nv_tegra_release",
            "# R36 (release), REVISION: 4.3, GCID: 1, BOARD: generic\n# flashed on rover-seven\n",
        ),
        ("sys/class/hwmon/hwmon0/uevent", "ID_SERIAL=1423921012345"),
    ];
    for (path, text) in secrets {
        board.plant(path, text);
    }
    let text = unpacked(&board.probe(Duration::ZERO));
    for secret in [
        "1423921012345",
        "rover",
        "alice",
        "Alice",
        "48:b0",
        "10.11.12.13",
        "fe80",
        "S5H9NS0N",
        "serial",
        "gcc",
        &*board.root().to_string_lossy(),
    ] {
        assert!(!text.contains(secret), "{secret}");
    }
    for kept in ["5.15.148-tegra", "NAME=15W", "REVISION: 4.3", "p3767-0005"] {
        assert!(text.contains(kept), "{kept}");
    }
}

#[test]
fn a_link_outside_of_sys_and_proc_shows_no_folder_of_a_user() {
    let board = OnDisk::new("orin-agx-64");
    board.plant("home/alice/mine.conf", "< POWER_MODEL ID=0 NAME=MAXN >\n");
    let conf = board.root().join("etc/nvpmodel.conf");
    fs::remove_file(&conf).expect("removed");
    symlink(board.root().join("home/alice/mine.conf"), conf).expect("linked");
    let text = unpacked(&board.probe(Duration::ZERO));
    assert!(text.contains("NAME=MAXN") && !text.contains("alice"));
}

#[test]
fn nothing_on_the_board_is_changed() {
    let board = OnDisk::new("xavier-agx");
    let before = tree(&board.root());
    board.probe(Duration::from_millis(200));
    assert_eq!(tree(&board.root()), before);
}

#[test]
fn files_have_their_access_times_links_and_faults() {
    let board = OnDisk::new("orin-agx-64");
    let secret = board.root().join("sys/class/thermal/thermal_zone0/mode");
    fs::write(&secret, [0xFF, 0xFE]).expect("written");
    fs::write(secret.with_file_name("policy"), "x".repeat(70_000)).expect("written");
    let probe = board.probe(Duration::ZERO);
    let file = |name: &str| {
        let found = probe.files.iter().find(|file| file.path.ends_with(name));
        found.unwrap_or_else(|| panic!("{name}"))
    };
    let writable = file("/policy0/scaling_max_freq");
    let modes = writable.access.zip(file("/policy0/related_cpus").access);
    assert_eq!(
        modes.map(|(one, other)| (one.mode, other.mode)),
        Some((0o644, 0o444))
    );
    assert!(writable.median_us <= writable.max_us);
    assert_eq!(file("zone0/mode").content, Content::Fault(Fault::NotUtf8));
    assert_eq!(file("zone0/policy").content, Content::Fault(Fault::TooLong));
    // EIO of a zone without power.
    assert_eq!(file("zone2/temp").content, Content::Fault(Fault::Errno(5)));
    let link = |path: &str| probe.links.iter().find(|link| link.path == path);
    let target = &link("/sys/class/hwmon/hwmon0").expect("a link").target;
    assert!(
        target.starts_with("/sys/bus/i2c/drivers/ina3221/"),
        "{target}"
    );
    assert!(probe.files.iter().all(|file| !file.path.contains("alarm")));
}

#[test]
fn a_directory_without_permission_is_a_fault_and_no_absence() {
    let board = OnDisk::new("orin-agx-64");
    let debug = board.root().join("sys/kernel/debug");
    let permit = |mode| fs::set_permissions(&debug, fs::Permissions::from_mode(mode));
    permit(0).expect("permitted");
    let is_root = fs::read_dir(&debug).is_ok();
    let probe = board.probe(Duration::ZERO);
    permit(0o755).expect("permitted");
    if is_root {
        return;
    }
    let directory = |path: &str| probe.directories.iter().find(|it| it.path == path);
    let listed = directory("/sys/kernel/debug").map(|it| &it.names);
    assert_eq!(listed, Some(&Names::Fault(Fault::Errno(13))));
    let rate = "/sys/kernel/debug/bpmp/debug/clk/emc/rate";
    assert_eq!(Recorded::new(probe).text(rate), Err(Fault::Errno(13)));
}

#[test]
fn the_sensors_are_recorded_and_replayed_in_a_loop() {
    let board = OnDisk::new("orin-agx-64");
    let mut seen = Vec::new();
    let time = Duration::from_millis(300);
    let mut probe = collect(&board.root(), time, |progress| seen.push(progress)).expect("a root");
    // Three rails on one chip and one on another, each with voltage and current.
    assert_eq!(probe.sensors.len(), 8, "{:?}", probe.sensors);
    assert!(
        (4..=6).contains(&probe.samples.len()),
        "{:?}",
        probe.samples
    );
    assert!(matches!(
        seen.first(),
        Some(Progress::Files { done: 1, .. })
    ));
    assert!(matches!(seen.last(), Some(Progress::Sensors { .. })));

    let sensor = probe
        .sensors
        .iter()
        .position(|path| path.ends_with("/curr1_input"));
    let sensor = sensor.expect("a current");
    for (sample, number) in probe.samples.iter_mut().zip(0..) {
        sample.time_us = 50_000 * number;
        let value = 1_000 + number.cast_signed();
        sample.values[sensor] = (number != 1).then_some(value);
    }
    let number_of_samples = probe.samples.len() as i64;
    let mut files = Recorded::new(probe);
    for step in 0..3 * number_of_samples {
        let shown = files.text(SENSOR);
        match step % number_of_samples {
            1 => assert_eq!(shown, Err(Fault::Errno(5))),
            number => assert_eq!(shown, Ok(format!("{}\n", 1_000 + number))),
        }
        files.wait(Duration::from_millis(50));
    }
}

#[test]
fn a_folder_without_a_board_gives_an_empty_probe() {
    let folder = tempfile::tempdir().expect("a folder");
    let probe = collect(folder.path(), Duration::from_secs(60), |_| {}).expect("a root");
    assert!(probe.files.is_empty() && probe.samples.is_empty());
    assert!(collect(&folder.path().join("none"), Duration::ZERO, |_| {}).is_err());
}
