//! Jetson Thor: the knobs, and the power of the whole board from an INA238.

use std::io::ErrorKind;
use std::path::Path;

use wattgate_board::{AveragingError, Board, DiscoverError};
use wattgate_runtime::{Milliseconds, Milliwatts, PowerMode, Sample};

use crate::common::total;

use crate::thor_tree::{DEVFREQ, EMC, POWER, Thor, file_of};

const LOWEST: [u32; 4] = [2, 972_000, 315_000, 665_600];
const MIDDLE: [u32; 4] = [14, 1_512_000, 945_000, 3_200_000];

fn discover(thor: &Thor) -> Board {
    Board::discover(thor, Path::new("/")).unwrap_or_else(|error| panic!("{error}"))
}

fn apply(board: &mut Board, thor: &mut Thor, knobs: [u32; 4]) -> PowerMode {
    let mode = PowerMode::from_knobs(knobs);
    let applied = board.apply(thor, &mode);
    applied.unwrap_or_else(|error| panic!("{error}"));
    mode
}

fn without_bpmp() -> Thor {
    let mut thor = Thor::new();
    thor.remove("/sys/kernel/debug");
    thor
}

#[test]
fn all_knobs_are_found() {
    let thor = Thor::new();
    let board = discover(&thor);
    let identity = board.identity();
    assert_eq!(identity.soc, "tegra264");
    assert_eq!(identity.l4t, "38.4.0");
    assert_eq!(board.cpu_khz(), [972_000, 1_512_000, 2_052_000, 2_601_000]);
    assert_eq!(board.gpu_khz(), [315_000, 945_000, 1_575_000]);
    assert_eq!(board.emc_khz(), [665_600, 2_750_000, 3_200_000, 4_266_000]);
    assert!(board.core_order().eq(0..14));
    assert_eq!(board.hottest_mc(&thor), Some(51_500));
    assert_eq!(board.nvpmodel_mode(&thor), Some(1));
    let missing: Vec<&str> = board.missing().iter().map(|it| it.what).collect();
    let expected = [
        "GPU load",
        "cap of the memory clock",
        "over-current counters",
    ];
    assert_eq!(missing, expected);
}

#[test]
fn the_mask_of_the_gpu_is_that_of_jetpack_7() {
    let path = "/opt/nvidia/l4t-gpusetup/gpu_pg_mask";
    let mut thor = Thor::new();
    assert_eq!(discover(&thor).tpc_pg_mask(), None);
    thor.put(path, "gpu_pg_mask_param=17353");
    assert_eq!(discover(&thor).tpc_pg_mask(), Some(17_353));
    // As it is installed.
    thor.put(path, "gpu_pg_mask_param=4294967295");
    assert_eq!(discover(&thor).tpc_pg_mask(), None);
}

#[test]
fn a_mode_sets_all_policies_the_gpu_and_the_memory() {
    let mut thor = Thor::new();
    let mut board = discover(&thor);
    let saved = board.save(&thor).expect("readable");
    let before = thor.texts.clone();
    let mode = apply(&mut board, &mut thor, MIDDLE);
    for policy in [0, 2, 4, 6, 8, 10, 12] {
        let policy = format!("/sys/devices/system/cpu/cpufreq/policy{policy}");
        assert_eq!(thor.text(&format!("{policy}/scaling_min_freq")), "1512000");
        assert_eq!(thor.text(&format!("{policy}/scaling_max_freq")), "1512000");
    }
    let gpc = format!("{DEVFREQ}/gpu-gpc-0");
    assert_eq!(thor.text(&format!("{gpc}/min_freq")), "945000000");
    assert_eq!(thor.text(&format!("{gpc}/max_freq")), "945000000");
    assert_eq!(thor.text(&format!("{EMC}/mrq_rate_locked")), "1");
    assert_eq!(thor.text(&format!("{EMC}/rate")), "3200000000");
    assert_eq!(board.current(&thor).mode(), Some(mode), "{:?}", thor.writes);
    apply(&mut board, &mut thor, LOWEST);
    assert_eq!(thor.text("/sys/devices/system/cpu/cpu1/online"), "1");
    assert_eq!(thor.text("/sys/devices/system/cpu/cpu2/online"), "0");

    assert_eq!(board.restore(&mut thor, &saved), Ok(()));
    // The memory is released, and its rate is BPMP's again.
    thor.put(&format!("{EMC}/rate"), "4266000000");
    assert_eq!(thor.texts, before);
    for untouched in ["gpu-nvd-0", "bwmgr", "mask"] {
        let is_touched = thor.writes.iter().any(|write| write.contains(untouched));
        assert!(!is_touched, "{untouched}: {:?}", thor.writes);
    }
}

/// The clock of the video engines is no GPU clock, whatever its device is called.
#[test]
fn the_video_engines_are_not_taken_for_the_gpu() {
    let mut thor = Thor::new();
    thor.remove(&format!("{DEVFREQ}/gpu-gpc-0"));
    let node = format!("{DEVFREQ}/gpu-nvd-0/device/of_node/name");
    thor.put(&node, "gpu");
    let board = discover(&thor);
    assert!(board.gpu_khz().is_empty());
    let missing = board.missing().iter().find(|it| it.what == "GPU clock");
    assert_eq!(missing.expect("named").path, Path::new(DEVFREQ));
}

#[test]
fn bwmgr_sets_the_memory_where_bpmp_has_no_emc() {
    let mut thor = without_bpmp();
    let mut board = discover(&thor);
    assert_eq!(board.emc_khz(), [665_600, 2_750_000, 3_200_000, 4_266_000]);
    let saved = board.save(&thor).expect("readable");
    let before = thor.texts.clone();
    let bwmgr = |thor: &mut Thor| {
        let mut writes = std::mem::take(&mut thor.writes);
        writes.retain(|write| write.contains("bwmgr"));
        writes
    };
    let write = |file: &str, hz: u64| format!("{DEVFREQ}/bwmgr/{file} {hz}");

    apply(&mut board, &mut thor, MIDDLE);
    // The memory slows down: the minimum first. It was lower already.
    let expected = [
        write("min_freq", 3_200_000_000),
        write("max_freq", 3_200_000_000),
    ];
    assert_eq!(bwmgr(&mut thor), expected);
    let lower = apply(&mut board, &mut thor, LOWEST);
    let expected = [
        write("min_freq", 665_600_000),
        write("max_freq", 665_600_000),
    ];
    assert_eq!(bwmgr(&mut thor), expected);
    let current = board.current(&thor);
    assert_eq!(current.mode(), Some(lower));
    let higher = apply(&mut board, &mut thor, MIDDLE);
    let expected = [
        write("max_freq", 3_200_000_000),
        write("min_freq", 3_200_000_000),
    ];
    assert_eq!(bwmgr(&mut thor), expected);
    assert!(board.verify(&thor, &higher).is_ok());

    thor.put(&format!("{DEVFREQ}/bwmgr/min_freq"), "665600000");
    let current = board.current(&thor);
    assert!(!current.is_fixed);
    assert!(board.verify(&thor, &higher).is_err());

    assert_eq!(board.restore(&mut thor, &saved), Ok(()));
    assert_eq!(thor.texts, before);
}

/// nvpmodel's mode does not limit the GPU. Another program has, unless cooling did.
#[test]
fn cooling_of_the_video_engines_does_not_explain_a_limit_of_the_gpu() {
    let max = format!("{DEVFREQ}/gpu-gpc-0/max_freq");
    for (device, saved_hz) in [
        ("devfreq-gpu-nvd-0", 945_000_000),
        ("devfreq-bwmgr", 945_000_000),
        ("devfreq-gpu-gpc-0", 1_575_000_000),
    ] {
        let mut thor = Thor::new();
        let cooling = "/sys/class/thermal/cooling_device0";
        thor.put(&format!("{cooling}/type"), device);
        thor.put(&format!("{cooling}/cur_state"), "1");
        thor.put(&max, "945000000");
        let saved = discover(&thor).save(&thor).expect("readable").to_string();
        let line = format!("\n{max} {saved_hz}\n");
        assert!(saved.contains(&line), "{device}: {saved}");
    }
}

/// Without root, debugfs cannot be read. With root, the memory has BPMP's knobs.
#[test]
fn bwmgr_does_not_stand_in_for_a_debugfs_that_needs_root() {
    let mut thor = Thor::new();
    let rate = format!("{EMC}/rate");
    thor.texts
        .insert(rate.clone(), Err(ErrorKind::PermissionDenied));
    let board = discover(&thor);
    assert!(board.emc_khz().is_empty());
    let missing = board.missing().iter().find(|it| it.what == "memory clock");
    let missing = missing.expect("named");
    assert_eq!(missing.path, Path::new(&rate));
    assert_eq!(missing.why, ErrorKind::PermissionDenied);
}

#[test]
fn a_missing_file_of_bwmgr_is_named() {
    for (file, what) in [
        ("min_freq", "memory clock"),
        ("max_freq", "memory clock"),
        ("available_frequencies", "table of the memory clock"),
    ] {
        let mut thor = without_bpmp();
        let path = format!("{DEVFREQ}/bwmgr/{file}");
        thor.remove(&path);
        let board = discover(&thor);
        assert!(board.emc_khz().is_empty(), "{file}");
        let missing = board.missing().iter().find(|it| it.what == what);
        assert_eq!(missing.expect("named").path, Path::new(&path));
    }
}

/// The rails of the INA3221 draw 36 W, and are part of what the INA238 measures.
#[test]
fn the_total_is_the_input_of_the_whole_board_in_microwatts() {
    let mut thor = Thor::new();
    let mut board = discover(&thor);
    assert!(board.rails().eq(["VIN"]));
    assert_eq!(board.chips(), 1);
    let sample = board.sample(&thor).expect("a reading");
    // Rounded up to the next mW.
    assert_eq!(
        sample,
        Sample::from_chips([52_346, 0, 0, 0].map(Milliwatts))
    );
    thor.put(POWER, "1");
    assert_eq!(board.sample(&thor).map(|it| total(&it)), Ok(Milliwatts(1)));
    thor.put(POWER, "168000000");
    assert_eq!(
        board.sample(&thor).map(|it| total(&it)),
        Ok(Milliwatts(168_000))
    );
}

#[test]
fn the_ina238_has_its_own_step_offset_and_time_constant() {
    let mut thor = Thor::new();
    let board = discover(&thor);
    // 5 µV at 1 mΩ are 5 mA, at 20 V.
    assert_eq!(board.sensor_steps().map(|it| it.0), [100, 0, 0, 0]);
    assert_eq!(board.sensor_offset(), Milliwatts(100));
    // 16 × 3 × 1,052 µs.
    assert_eq!(board.time_constant(&thor), Milliseconds(51));
    assert_eq!(board.time_constants(&thor)[0], Milliseconds(51));
    // The highest voltage that the chip can measure is assumed.
    for unknown in ["0", "-20000", "85000", "volts"] {
        thor.put(&file_of(POWER, "in1_input"), unknown);
        let offset = discover(&thor).sensor_offset();
        assert_eq!(offset, Milliwatts(425), "{unknown}");
    }
}

#[test]
fn the_averaging_of_the_ina238_cannot_be_set() {
    let mut thor = Thor::new();
    // A later driver may have this file; what its `update_interval` means is not settled.
    thor.put(&file_of(POWER, "samples"), "16");
    thor.put(&file_of(POWER, "update_interval"), "3");
    let board = discover(&thor);
    let fixed = AveragingError::Fixed {
        device: "/sys/class/hwmon/hwmon2".into(),
    };
    assert_eq!(board.averaging(&thor), Err(fixed.clone()));
    assert_eq!(board.set_averaging(&mut thor, 64), Err(fixed.clone()));
    let expected = "/sys/class/hwmon/hwmon2: the averaging of this chip cannot be set";
    assert_eq!(fixed.to_string(), expected);
    assert!(thor.writes.is_empty());
    assert_eq!(board.time_constant(&thor), Milliseconds(51));
    let saved = board.save(&thor).expect("readable").to_string();
    assert!(!saved.contains("samples"), "{saved}");
}

#[test]
fn implausible_power_is_an_error() {
    for (text, expected) in [
        ("0", "no power: 0 µW"),
        ("-1", "no power: -1 µW"),
        ("-9223372036854775808", "no power: -9223372036854775808 µW"),
        ("1000000000", "absurd power: 1000000000 µW"),
        (
            "9223372036854775807",
            "absurd power: 9223372036854775807 µW",
        ),
        ("9223372036854775808", "the sensor's file holds no number"),
        ("52.3", "the sensor's file holds no number"),
        ("52345678 uW", "the sensor's file holds no number"),
        ("", "the sensor's file holds no number"),
    ] {
        let mut thor = Thor::new();
        let mut board = discover(&thor);
        thor.put(POWER, text);
        let error = board.sample(&thor).expect_err(text);
        assert_eq!(error.to_string(), format!("power of rail VIN: {expected}"));
        thor.put(POWER, "52345678");
        assert!(board.sample(&thor).is_ok(), "after {text}");
    }
}

#[test]
fn an_unreadable_sensor_is_an_error() {
    let mut thor = Thor::new();
    let mut board = discover(&thor);
    for (kind, expected) in [
        (ErrorKind::NotFound, "the sensor's file is missing"),
        (ErrorKind::WouldBlock, "no reading now"),
        (
            ErrorKind::PermissionDenied,
            "cannot be read: permission denied",
        ),
    ] {
        thor.texts.insert(POWER.to_owned(), Err(kind));
        let error = board.sample(&thor).expect_err("a fault");
        assert_eq!(error.to_string(), format!("power of rail VIN: {expected}"));
    }
}

#[test]
fn the_input_of_the_module_counts_more_than_that_of_the_board() {
    let mut thor = Thor::new();
    thor.put("/sys/class/hwmon/hwmon1/in1_label", "VDD_IN");
    let mut board = discover(&thor);
    assert!(board.rails().eq(["VDD_IN"]));
    let total = board.sample(&thor).map(|it| total(&it));
    assert_eq!(total, Ok(Milliwatts(12_000)));
    assert_eq!(board.time_constant(&thor), Milliseconds(430));
}

#[test]
fn an_ina238_is_the_input_by_name_or_if_it_is_the_only_one() {
    let found = |thor: &Thor| match Board::discover(thor, Path::new("/")) {
        Ok(board) => Ok(board.rails().collect::<Vec<_>>().join(" + ")),
        Err(DiscoverError::PowerUnknown { labels, .. }) => Err(labels.join(", ")),
        Err(error) => panic!("{error}"),
    };
    let others = "VDD_GPU, VDD_CPU_SOC_MSS, VIN_SYS_5V0".to_owned();
    let vin = || Ok("VIN".to_owned());
    let mut thor = Thor::new();
    thor.put("/sys/class/hwmon/hwmon0/name", "ina238");
    thor.put("/sys/class/hwmon/hwmon0/power1_input", "7000000");
    assert_eq!(found(&thor), vin(), "by `label`");
    thor.remove(&file_of(POWER, "label"));
    assert_eq!(found(&thor), Err(others.clone()), "two without a name");
    thor.put(&file_of(POWER, "in1_label"), "VIN");
    assert_eq!(found(&thor), vin(), "by `in1_label`");

    let mut thor = Thor::new();
    thor.remove(&file_of(POWER, "label"));
    assert_eq!(found(&thor), vin(), "the only one");
    thor.put(&file_of(POWER, "label"), "FAN");
    assert_eq!(found(&thor), Err(others.clone()), "another rail");
    thor.remove("/sys/class/hwmon/hwmon2/label");
    thor.remove(POWER);
    assert_eq!(found(&thor), Err(others), "without power");
}

/// A chip without a name on a carrier may measure anything, so only Thor's own counts without one.
#[test]
fn relatives_of_the_ina238_are_the_input_if_they_are_named_so() {
    for name in ["ina219", "ina226", "ina237", "ina260"] {
        let mut thor = Thor::new();
        thor.put(&file_of(POWER, "name"), name);
        thor.put(&file_of(POWER, "update_interval"), "140");
        thor.put(&file_of(POWER, "shunt_resistor"), "2000");
        for input in ["VIN", "VDD_IN"] {
            thor.put(&file_of(POWER, "label"), input);
            let board = discover(&thor);
            assert!(board.rails().eq(["VIN"]), "{name}");
            let expected = if name == "ina237" { 51 } else { 140 };
            assert_eq!(board.time_constant(&thor), Milliseconds(expected), "{name}");
        }
        thor.remove(&file_of(POWER, "label"));
        let error = Board::discover(&thor, Path::new("/")).expect_err(name);
        assert!(
            matches!(error, DiscoverError::PowerUnknown { .. }),
            "{name}: {error}"
        );
    }
}
