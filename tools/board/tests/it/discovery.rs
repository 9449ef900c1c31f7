//! Discovery: what each board has, and what is reported as missing.

use std::path::Path;

use crate::common::{apply, boards, booted, description, discover, highest, lowest, mode, seeded};
use wattgate_board::{Board, DiscoverError, Masks, Reach, SettableError, Stand};
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_simulated_board::tree::Errno;

#[test]
fn a_board_has_its_identity() {
    for name in boards() {
        let (files, expected) = (booted(name), description(name));
        let board = discover(&files);
        let identity = board.identity();
        assert_eq!(identity.model, expected.model, "{name}");
        assert_eq!(identity.compatible, expected.compatible, "{name}");
        assert_eq!(identity.soc, expected.soc, "{name}");
        let l4t = expected
            .l4t
            .map(|(release, revision)| format!("{release}.{revision}"));
        assert_eq!(identity.l4t, l4t.unwrap_or_default(), "{name}");
    }
}

#[test]
fn tables_match_the_board() {
    for name in boards() {
        let described = description(name);
        let board = discover(&booted(name));
        assert_eq!(board.cpu_khz(), described.cpu_khz, "{name}");
        assert_eq!(board.gpu_khz(), described.gpu_khz, "{name}");
        assert_eq!(board.emc_khz(), described.emc_khz, "{name}");
        let order: Vec<u32> = board.core_order().collect();
        assert_eq!(order, described.core_order, "{name}");
    }
}

#[test]
fn tables_are_found_in_the_lowest_mode_too() {
    for name in boards() {
        let mut files = booted(name);
        let mut board = discover(&files);
        apply(&mut board, &mut files, lowest(name));
        let again = discover(&files);
        assert_eq!(again.cpu_khz(), board.cpu_khz(), "{name}");
        assert!(again.core_order().eq(board.core_order()), "{name}");
        apply(&mut discover(&files), &mut files, highest(name));
    }
}

/// Files of an offline cluster's policy may all give an error.
#[test]
fn cores_of_a_silent_policy_are_found_by_its_number() {
    for name in boards() {
        let mut files = booted(name);
        for policy in description(name).clusters.iter().skip(1) {
            for file in ["related_cpus", "scaling_available_frequencies"] {
                let policy = format!("/sys/devices/system/cpu/cpufreq/policy{}", policy[0]);
                files.absent.push(format!("{policy}/{file}"));
            }
        }
        let board = discover(&files);
        let order: Vec<u32> = board.core_order().collect();
        assert_eq!(order, description(name).core_order, "{name}");
        assert_eq!(board.cpu_khz(), description(name).cpu_khz, "{name}");
    }
}

#[test]
fn an_intact_board_misses_only_what_its_kind_lacks() {
    for name in boards() {
        let board = discover(&booted(name));
        let missing: Vec<&str> = board.missing().iter().map(|it| it.what).collect();
        let described = description(name);
        let mut expected = Vec::new();
        if described.l4t.is_none() {
            expected.push("release of L4T");
        }
        if described.soc != "tegra234" {
            expected.push("over-current counters");
        }
        assert_eq!(missing, expected, "{name}");
    }
}

#[test]
fn sensors_are_found_by_label_not_by_device_number() {
    for name in boards() {
        let described = description(name);
        for seed in 0..3 {
            let files = seeded(name, seed);
            let board = discover(&files);
            let rails = described.rails.iter().filter(|rail| rail.total);
            let mut labels: Vec<&str> = rails.map(|rail| rail.label.as_str()).collect();
            let mut found: Vec<&str> = board.rails().collect();
            labels.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, labels, "{name}, seed {seed}");
            assert!(board.thermal_zones().count() >= 3, "{name}");
            let hottest = board.hottest_mc(&files).expect("a temperature");
            assert_eq!(
                hottest,
                (1000.0 * files.tree.jetson().die_c()).round() as i64
            );
            let counters = board.over_current_events(&files).map(|it| it.is_some());
            assert_eq!(counters, [described.soc == "tegra234"; 3], "{name}");
        }
    }
}

#[test]
fn masks_and_the_mode_of_nvpmodel_are_read() {
    for name in boards() {
        let files = booted(name);
        let board = discover(&files);
        let settings = files.tree.jetson().settings();
        let masks = Masks {
            tpc: settings.tpc_pg_mask.map(i64::from),
            fbp: settings.fbp_pg_mask.map(i64::from),
        };
        assert_eq!(board.masks(&files), masks, "{name}");
        assert_eq!(
            board.nvpmodel_mode(&files),
            Some(files.tree.mode()),
            "{name}"
        );
    }
}

/// Its clock is free. An offline core has none, and some Linux kernels show no policy of it.
#[test]
fn an_online_core_without_a_policy_is_named() {
    let policy = "/sys/devices/system/cpu/cpufreq/policy4";
    for (is_online, expected) in [
        (true, Some("/sys/devices/system/cpu/cpu4/cpufreq")),
        (false, None),
    ] {
        let mut files = booted("orin-nano-8-super");
        files.absent.push(policy.to_owned());
        if !is_online {
            let online = "/sys/devices/system/cpu/online".to_owned();
            files.shown.insert(online, Ok(b"0-3\n".to_vec()));
        }
        let board = discover(&files);
        let clock = board.missing().iter().find(|it| it.what == "CPU clock");
        let path = clock.map(|it| it.path.display().to_string());
        assert_eq!(path.as_deref(), expected);
    }
}

#[test]
fn a_missing_knob_is_named_and_the_rest_works() {
    let cpufreq = "/sys/devices/system/cpu/cpufreq/policy4";
    let devfreq = "/sys/class/devfreq/17000000.gpu";
    let emc = "/sys/kernel/debug/bpmp/debug";
    let cases = [
        (
            format!("{cpufreq}/scaling_max_freq"),
            "CPU clock",
            Axis::Cpu,
        ),
        (
            format!("{cpufreq}/scaling_min_freq"),
            "CPU clock",
            Axis::Cpu,
        ),
        (
            "/sys/devices/system/cpu/cpufreq".to_owned(),
            "CPU clock",
            Axis::Cpu,
        ),
        (format!("{devfreq}/min_freq"), "GPU clock", Axis::Gpu),
        (format!("{devfreq}/max_freq"), "GPU clock", Axis::Gpu),
        (
            format!("{devfreq}/available_frequencies"),
            "table of the GPU clock",
            Axis::Gpu,
        ),
        ("/sys/class/devfreq".to_owned(), "GPU clock", Axis::Gpu),
        (format!("{emc}/clk/emc/rate"), "memory clock", Axis::Emc),
        (
            format!("{emc}/clk/emc/mrq_rate_locked"),
            "lock of the memory clock",
            Axis::Emc,
        ),
        (
            format!("{emc}/emc/possible_rates"),
            "table of the memory clock",
            Axis::Emc,
        ),
        ("/sys/kernel/debug".to_owned(), "memory clock", Axis::Emc),
    ];
    for (path, what, axis) in cases {
        let mut files = booted("orin-nano-8-super");
        files.absent.push(path.clone());
        if what == "GPU clock" && path == "/sys/class/devfreq" {
            files.absent.push("/sys/devices/platform/gpu.0".to_owned());
        }
        let mut board = discover(&files);
        let named = board.missing().iter().find(|it| it.what == what);
        let named = named.unwrap_or_else(|| panic!("{path}: {:?}", board.missing()));
        assert!(named.path.starts_with(&path), "{named}");

        let described = description("orin-nano-8-super");
        let axes = described.axes();
        let grid = Grid::new([&axes[0], &axes[1], &axes[2], &axes[3]]).expect("a grid");
        let settable = board.settable(&grid).expect("the rest");
        for (other, values) in Axis::ALL.into_iter().zip(axes) {
            let reach = match other == axis {
                true => Reach::Free(*values.last().expect("a table")),
                false => same(&values),
            };
            assert_eq!(*settable.reach(other), reach, "{path}");
        }
        assert!(settable.can_set(&highest("orin-nano-8-super")), "{path}");
        assert!(!settable.can_set(&lowest("orin-nano-8-super")), "{path}");

        let before = files.tree.jetson().settings().clone();
        apply(&mut board, &mut files, lowest("orin-nano-8-super"));
        let after = files.tree.jetson().settings();
        assert_eq!(
            after.policies[0] == before.policies[0],
            axis == Axis::Cpu,
            "{path}"
        );
        assert_eq!(after.gpu == before.gpu, axis == Axis::Gpu, "{path}");
        assert_eq!(after.emc == before.emc, axis == Axis::Emc, "{path}");
        assert_eq!(after.online.iter().filter(|on| **on).count(), 1, "{path}");
    }
}

#[test]
fn a_core_without_a_switch_stays_as_it_is() {
    let mut files = booted("orin-nano-8-super");
    files
        .absent
        .push("/sys/devices/system/cpu/cpu3/online".to_owned());
    let mut board = discover(&files);
    let missing: Vec<&str> = board.missing().iter().map(|it| it.what).collect();
    assert_eq!(missing, ["switch of a core"]);
    let grid = Grid::new([&[2, 4, 5, 6], &[1_728_000], &[1_020_000], &[3_199_000]]);
    let settable = board.settable(&grid.expect("a grid")).expect("some");
    assert_eq!(*settable.reach(Axis::Cores), same(&[2, 4, 5, 6]));
    let two = mode([2, 1_728_000, 1_020_000, 3_199_000]);
    apply(&mut board, &mut files, two);
    let online = [true, false, false, true, false, false];
    assert_eq!(files.tree.jetson().settings().online, online);
    let one = mode([1, 1_728_000, 1_020_000, 3_199_000]);
    let error = board.apply(&mut files, &one).expect_err("core 3 is on");
    assert_eq!(
        error.to_string(),
        "the board cannot be set to number of cores 1; nothing was written"
    );
    assert!(files.writes.is_empty());
    apply(
        &mut board,
        &mut files,
        mode([4, 1_728_000, 1_020_000, 3_199_000]),
    );
}

#[test]
fn alternative_paths_are_used_if_the_first_is_missing() {
    // The second path of the GPU (section 5.2) and of the device tree (section 9).
    for name in ["orin-agx-64", "orin-nano-8-super"] {
        let mut files = booted(name);
        files.absent.push("/proc/device-tree/".to_owned());
        files.absent.push("/sys/class/devfreq".to_owned());
        let mut board = discover(&files);
        assert_eq!(board.identity().soc, "tegra234");
        assert_eq!(board.gpu_khz(), description(name).gpu_khz);
        assert!(board.missing().is_empty(), "{:?}", board.missing());
        apply(&mut board, &mut files, lowest(name));
    }
}

#[test]
fn a_gpu_whose_node_has_no_name_is_found_by_its_device() {
    for name in boards() {
        let mut files = booted(name);
        let nodes = files.tree.list("/sys/class/devfreq").expect("a class");
        let node = format!("/sys/class/devfreq/{}/device/of_node/name", nodes[0]);
        files.shown.insert(node, Err(Errno::Enoent));
        assert_eq!(
            discover(&files).gpu_khz(),
            description(name).gpu_khz,
            "{name}"
        );
    }
}

/// The other rails of a Nano are part of its input rail (section 6.2).
#[test]
fn the_input_rail_of_a_nano_stands_alone() {
    let mut files = booted("orin-nano-8-super");
    for (channel, label) in (1..).zip(["POM_5V_IN", "POM_5V_GPU", "POM_5V_CPU"]) {
        let path = format!("/sys/class/hwmon/hwmon0/in{channel}_label");
        files
            .shown
            .insert(path, Ok(format!("{label}\n").into_bytes()));
    }
    assert!(discover(&files).rails().eq(["POM_5V_IN"]));
}

#[test]
fn files_that_need_root_are_reported_as_missing() {
    let mut files = booted("orin-agx-64");
    let names = files
        .tree
        .list("/sys/kernel/debug/bpmp/debug/clk/emc")
        .expect("debugfs");
    for name in names {
        let path = format!("/sys/kernel/debug/bpmp/debug/clk/emc/{name}");
        files.shown.insert(path, Err(Errno::Eacces));
    }
    files.read_only = true;
    let mut board = discover(&files);
    let missing: Vec<String> = board.missing().iter().map(ToString::to_string).collect();
    let emc = "/sys/kernel/debug/bpmp/debug/clk/emc";
    assert_eq!(
        missing,
        [
            format!("memory clock: {emc}/rate: only root may read it"),
            format!("lock of the memory clock: {emc}/mrq_rate_locked: only root may read it"),
        ]
    );
    let applied = board.apply(&mut files, &board.least());
    assert!(applied.is_ok_and(|it| it.is_set), "as far as it obeys");
    let gpu = board.disobedient().find(|it| it.path.ends_with("max_freq"));
    assert_eq!(
        gpu.expect("the GPU").to_string(),
        "/sys/class/devfreq/17000000.ga10b/max_freq: wanted 114750000, is 624750000 (writing fails: \
         Permission denied (os error 13))"
    );
}

#[test]
fn a_board_whose_input_rail_is_missing_is_refused() {
    let mut files = booted("orin-nano-8-super");
    let label = "/sys/class/hwmon/hwmon0/in1_label".to_owned();
    files.absent.push(label);
    let error = Board::discover(&files, Path::new("/")).expect_err("no VDD_IN");
    assert_eq!(
        error.to_string(),
        "/: no power sensor at the input of the module or the board, whose power the limit is of: there are only the rails \
         VDD_CPU_GPU_CV, VDD_SOC; report the board with `wattgate probe`"
    );
    let mut files = booted("orin-agx-64");
    files
        .absent
        .push("/sys/class/hwmon/hwmon0/in3_label".to_owned());
    let error = Board::discover(&files, Path::new("/")).expect_err("two of three rails");
    assert!(
        matches!(error, DiscoverError::PowerUnknown { .. }),
        "{error}"
    );
}

#[test]
fn a_board_without_knobs_is_refused_with_what_is_missing() {
    let mut files = booted("orin-nano-8-super");
    for absent in ["/sys/devices", "/sys/class/devfreq", "/sys/kernel"] {
        files.absent.push(absent.to_owned());
    }
    let error = Board::discover(&files, Path::new("/")).expect_err("nothing to set");
    let DiscoverError::NothingToSet { missing, .. } = error else {
        panic!("{error}");
    };
    let what: Vec<&str> = missing.iter().map(|it| it.what).collect();
    for expected in ["cores", "CPU clock", "GPU clock", "memory clock"] {
        assert!(what.contains(&expected), "{what:?}");
    }
}

/// An axis of which the board has each value.
fn same(values: &[u32]) -> Reach {
    let stands = values.iter().map(|&value| Stand {
        grid: value,
        board: value,
    });
    Reach::Values(stands.collect())
}

/// Tables differ between releases of L4T.
#[test]
fn a_clock_that_the_table_lacks_stands_for_the_next_lower_one() {
    let board = discover(&booted("orin-agx-64-jp6"));
    let described = description("orin-agx-64");
    let axes: [&[u32]; 4] = [&[4], &[729_600], &described.gpu_khz, &[2_133_000]];
    let grid = Grid::new(axes).expect("a grid");
    let settable = board.settable(&grid).expect("some");
    let Reach::Values(stands) = settable.reach(Axis::Gpu) else {
        panic!("it can be set");
    };
    assert!(stands.len() > 5, "{stands:?}");
    for Stand { grid, board: khz } in stands {
        let below = board.gpu_khz().iter().filter(|it| *it <= grid);
        assert_eq!(below.max(), Some(khz), "{grid}");
    }
    assert!(stands.windows(2).all(|it| it[0].board < it[1].board));
    let Stand { grid, board } = stands[1];
    let wanted = mode([4, 729_600, grid, 2_133_000]);
    assert_eq!(
        settable.on_board(&wanted),
        Some(mode([4, 729_600, board, 2_133_000]))
    );
}

#[test]
fn modes_of_another_board_cannot_be_set() {
    let board = discover(&booted("orin-nano-8"));
    let grid = |emc: &[u32]| {
        let axes: [&[u32]; 4] = [
            &[2, 6, 12],
            &[1_510_400, 2_201_600],
            &[612_000, 624_750],
            emc,
        ];
        Grid::new(axes).expect("a grid")
    };
    let settable = board
        .settable(&grid(&[2_133_000, 3_199_000]))
        .expect("some");
    assert_eq!(*settable.reach(Axis::Cores), same(&[2, 6]));
    assert_eq!(*settable.reach(Axis::Cpu), same(&[1_510_400]));
    assert_eq!(*settable.reach(Axis::Gpu), same(&[612_000, 624_750]));
    assert_eq!(*settable.reach(Axis::Emc), same(&[2_133_000]));
    assert!(settable.can_set(&mode([6, 1_510_400, 624_750, 2_133_000])));
    assert!(!settable.can_set(&mode([6, 1_510_400, 624_750, 3_199_000])));
    assert_eq!(
        board.settable(&grid(&[3_200_000])),
        Err(SettableError::NothingInCommon { axis: Axis::Emc })
    );
}
