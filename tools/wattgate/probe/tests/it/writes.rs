//! A recorded board takes writes as Linux does.

use std::io;
use std::path::Path;

use wattgate_board::{Board, Effective, Files};
use wattgate_probe::recorded::Recorded;

use crate::board::{boards, highest, lowest, middle};
use crate::common::{recorded, root};

const POLICY: &str = "/sys/devices/system/cpu/cpufreq/policy0";
const EMC: &str = "/sys/kernel/debug/bpmp/debug/clk/emc";

/// Writes, and returns what the file shows then, or the error number.
fn write(files: &mut Recorded, path: &str, text: &str) -> Result<String, i32> {
    let written = files.write(Path::new(path), text);
    written.map_err(|error: io::Error| error.raw_os_error().expect("of the system"))?;
    Ok(files.text(path).expect("readable").trim().to_owned())
}

#[test]
fn each_mode_can_be_set_verified_and_undone() {
    for name in boards() {
        let mut files = recorded(name);
        let mut board = Board::discover(&files, root()).expect("a board");
        let before = board.save(&files).expect("readable");
        for mode in [lowest(name), highest(name), middle(name)] {
            let applied = board.apply(&mut files, &mode);
            applied.unwrap_or_else(|error| panic!("{name}: {mode}: {error}"));
            let verified = board.verify(&files, &mode);
            assert_eq!(verified, Ok(Effective::AsRequested), "{name}: {mode}");
            let current = board.current(&files);
            assert_eq!(current.mode(), Some(mode), "{name}");
        }
        board.restore(&mut files, &before).expect("restored");
        let after = board.save(&files).expect("readable").to_string();
        // The rate of a memory that is not locked follows the load on a board.
        let settings = |text: &str| {
            let lines = text.lines().filter(|line| !line.contains("/emc/rate "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(settings(&after), settings(&before.to_string()), "{name}");
    }
}

#[test]
fn the_averaging_changes_the_time_constant() {
    let mut files = recorded("orin-agx-64");
    let board = Board::discover(&files, root()).expect("a board");
    let constant = board.set_averaging(&mut files, 64).expect("set");
    assert_eq!((board.averaging(&files), constant.0), (Ok(64), 54));
}

#[test]
fn a_clock_is_rounded_to_the_table_and_the_current_clock_follows() {
    let mut files = recorded("orin-agx-64");
    let [min, max, now] = ["scaling_min_freq", "scaling_max_freq", "cpuinfo_cur_freq"]
        .map(|it| format!("{POLICY}/{it}"));
    assert_eq!(write(&mut files, &min, "115200\n"), Ok("115200".to_owned()));
    assert_eq!(write(&mut files, &max, "900000\n"), Ok("883200".to_owned()));
    assert_eq!(write(&mut files, &max, "1\n"), Ok("115200".to_owned()));
    assert_eq!(files.text(&now), Ok("115200\n".to_owned()));
    // EINVAL
    assert_eq!(write(&mut files, &min, "883200\n"), Err(22));
    assert_eq!(write(&mut files, &min, "fast\n"), Err(22));
}

#[test]
fn a_rate_of_the_memory_is_ignored_unless_it_is_locked_offered_and_below_the_cap() {
    let mut files = recorded("orin-agx-64-jp6");
    let [rate, lock] = ["rate", "mrq_rate_locked"].map(|it| format!("{EMC}/{it}"));
    let cap = "/sys/kernel/nvpmodel_clk_cap/emc";
    let before = files.text(&rate).expect("readable").trim().to_owned();
    let shown = |hz: &str| Ok(hz.to_owned());
    assert_eq!(write(&mut files, &rate, "204000000\n"), shown(&before));
    assert_eq!(write(&mut files, &lock, "1\n"), shown("1"));
    assert_eq!(write(&mut files, &rate, "204000001\n"), shown(&before));
    assert_eq!(write(&mut files, &rate, "204000000\n"), shown("204000000"));
    assert_eq!(write(&mut files, cap, "665600000\n"), shown("665600000"));
    assert_eq!(write(&mut files, &rate, "2133000000\n"), shown("204000000"));
}

#[test]
fn a_core_that_goes_offline_is_not_listed_and_cpu0_cannot() {
    let mut files = recorded("orin-nano-8");
    let cpus = "/sys/devices/system/cpu";
    for core in [2, 5] {
        let path = format!("{cpus}/cpu{core}/online");
        assert_eq!(write(&mut files, &path, "0\n"), Ok("0".to_owned()));
    }
    assert_eq!(
        files.text(&format!("{cpus}/online")),
        Ok("0-1,3-4\n".to_owned())
    );
    let path = format!("{cpus}/cpu2/online");
    assert_eq!(write(&mut files, &path, "1\n"), Ok("1".to_owned()));
    assert_eq!(
        files.text(&format!("{cpus}/online")),
        Ok("0-4\n".to_owned())
    );
    // EBUSY
    assert_eq!(
        write(&mut files, &format!("{cpus}/cpu0/online"), "0\n"),
        Err(16)
    );
}

#[test]
fn the_clocks_of_a_cluster_can_be_read_once_it_is_online() {
    let mut files = recorded("orin-agx-64");
    let max = "/sys/devices/system/cpu/cpufreq/policy8/scaling_max_freq";
    // EIO
    assert_eq!(write(&mut files, max, "115200\n"), Err(5));
    let path = "/sys/devices/system/cpu/cpu9/online";
    assert_eq!(write(&mut files, path, "1\n"), Ok("1".to_owned()));
    assert_eq!(
        files.text(max),
        files.text(&format!("{POLICY}/scaling_max_freq"))
    );
}

#[test]
fn files_that_wattgate_does_not_write_cannot_be_written() {
    let mut files = recorded("orin-agx-64");
    for path in [
        "/sys/class/devfreq/17000000.ga10b/device/tpc_pg_mask",
        "/sys/class/thermal/thermal_zone0/temp",
        "/sys/devices/system/cpu/online",
        "/etc/nvpmodel.conf",
    ] {
        // EACCES
        assert_eq!(write(&mut files, path, "1\n"), Err(13), "{path}");
    }
    // ENOENT
    assert_eq!(write(&mut files, "/sys/no/such", "1\n"), Err(2));
}
