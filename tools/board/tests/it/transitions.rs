//! Mode changes: which files are written in which order, what happens when a write fails, and when
//! another program writes.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-board --test it transitions` writes the
//! golden files anew.

use std::env;
use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::{
    Simulated, apply, boards, booted, description, discover, highest, lowest, middle, mode,
};
use wattgate_board::{ApplyError, Board, Clocks, Effective, Files};
use wattgate_runtime::grid::Axis;
use wattgate_runtime::{Kilohertz, PowerMode};

/// The recorded changes. Each starts where the one before ends.
fn changes(name: &str) -> Vec<(&'static str, PowerMode)> {
    let (lowest, highest, middle) = (lowest(name), highest(name), middle(name));
    let described = description(name);
    let mut fast_gpu = lowest;
    (fast_gpu.cores, fast_gpu.gpu) = (2, highest.gpu);
    let mut fast_cpu = highest;
    (fast_cpu.gpu, fast_cpu.emc) = (lowest.gpu, lowest.emc);
    let first_cluster = PowerMode {
        cores: described.clusters[0].len() as u32,
        ..highest
    };
    let emc = |at: usize| PowerMode {
        emc: Kilohertz(described.emc_khz[at]),
        ..middle
    };
    vec![
        ("the default mode of nvpmodel to the lowest", lowest),
        ("lowest to highest", highest),
        ("highest to lowest", lowest),
        ("GPU and one core up", fast_gpu),
        ("CPU and cores up, GPU down", fast_cpu),
        (
            "cores down to the first cluster, GPU and memory up",
            first_cluster,
        ),
        ("cores up", highest),
        ("all to the middle", middle),
        ("memory down", emc(0)),
        ("memory up", emc(described.emc_khz.len() - 1)),
        ("no change", emc(described.emc_khz.len() - 1)),
    ]
}

/// Asserts that cores and clocks really run as the mode says.
fn assert_runs(files: &mut Simulated, mode: PowerMode) {
    files.wait(Duration::from_millis(10));
    let jetson = files.tree.jetson();
    let described = jetson.board();
    let awake = &described.core_order[..mode.cores as usize];
    for (core, online) in (0..).zip(&jetson.settings().online) {
        assert_eq!(*online, awake.contains(&core), "core {core}");
    }
    for (cluster, cores) in described.clusters.iter().enumerate() {
        if cores.iter().any(|core| awake.contains(core)) {
            assert_eq!(
                jetson.cpu_true_khz(cluster),
                mode.cpu.0,
                "cluster {cluster}"
            );
        }
    }
    assert_eq!(jetson.gpu_true_khz(), mode.gpu.0);
    assert_eq!(jetson.emc_khz(), mode.emc.0);
}

#[test]
fn writes_match_the_golden_files() {
    for name in boards() {
        let mut files = booted(name);
        let mut board = discover(&files);
        let mut text = String::new();
        for (what, mode) in changes(name) {
            let applied = board.apply(&mut files, &mode);
            let applied = applied.unwrap_or_else(|error| panic!("{name}: {what}: {error}"));
            assert_eq!(
                applied.writes as usize,
                files.writes.len(),
                "{name}: {what}"
            );
            text += &format!("{what}: {mode}\n{}", files.take_writes());
            assert_runs(&mut files, mode);
            assert_eq!(
                board.verify(&files, &mode),
                Ok(Effective::AsRequested),
                "{name}: {what}"
            );
            let current = board.current(&files);
            assert_eq!(current.mode(), Some(mode), "{name}: {what}");
        }
        for samples in [64, 512] {
            text += &match board.set_averaging(&mut files, samples) {
                Ok(time_constant) => format!("{samples} samples: {} ms\n", time_constant.0),
                Err(error) => format!("{samples} samples: {error}\n"),
            };
            text += &files.take_writes();
        }
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
        if env::var_os("WATTGATE_UPDATE_GOLDEN").is_some() {
            fs::write(&path, &text).expect("the golden folder can be written to");
        }
        let expected = fs::read_to_string(&path).expect("a golden file");
        assert_eq!(text, expected, "{name} differs from its golden file");
    }
}

/// So no clock and no number of cores is above both ends on the way.
#[test]
fn changes_that_lower_come_before_changes_that_raise() {
    for name in boards() {
        let mut files = booted(name);
        let mut board = discover(&files);
        let mut from = lowest(name);
        (from.cpu, from.cores) = (highest(name).cpu, highest(name).cores);
        let mut to = lowest(name);
        (to.gpu, to.emc) = (highest(name).gpu, highest(name).emc);
        apply(&mut board, &mut files, from);
        assert!(board.apply(&mut files, &to).is_ok());
        let is_lowering = |path: &str| path.contains("cpu");
        let last = files.writes.iter().rposition(|(path, _)| is_lowering(path));
        let first = files.writes.iter().position(|(path, _)| !is_lowering(path));
        assert!(last < first, "{name}: {:?}", files.writes);
    }
}

#[test]
fn a_mode_that_is_not_in_the_tables_is_refused_before_any_write() {
    let mut files = booted("orin-nano-8");
    let mut board = discover(&files);
    let good = highest("orin-nano-8").knobs();
    for (axis, absurd) in Axis::ALL
        .into_iter()
        .zip([7, 1_510_401, 1_020_000, 3_199_000])
    {
        for value in [0, absurd, u32::MAX] {
            let mut knobs = good;
            knobs[axis as usize] = value;
            let error = board
                .apply(&mut files, &mode(knobs))
                .expect_err("not on this board");
            assert_eq!(error, ApplyError::NotOnBoard { axis, value });
        }
    }
    assert!(files.writes.is_empty());
}

#[test]
fn a_cap_of_nvpmodel_is_lifted_before_the_rate() {
    // Section 5.3; up to R35, 0 lifts the cap (section 4).
    let caps = [
        (
            "orin-agx-64",
            "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap",
            "0\n",
        ),
        (
            "orin-nano-8-super",
            "/sys/kernel/nvpmodel_clk_cap/emc",
            "3199000000\n",
        ),
    ];
    for (name, cap, lifted) in caps {
        let mut files = booted(name);
        files.tree.write(cap, "665600000").expect("a cap");
        let mut board = discover(&files);
        assert_eq!(board.current(&files).emc, Some(Kilohertz(665_600)));
        assert!(board.apply(&mut files, &highest(name)).is_ok());
        let memory: Vec<&(String, String)> = files
            .writes
            .iter()
            .filter(|(path, _)| path.contains("emc"))
            .collect();
        assert_eq!(*memory[0], (cap.to_owned(), lifted.to_owned()));
        assert_eq!(memory.len(), 3, "cap, lock, rate: {memory:?}");
        let highest = highest(name);
        assert_runs(&mut files, highest);
    }
}

#[test]
fn other_writers_are_detected() {
    let name = "orin-agx-64";
    let mut files = booted(name);
    let mut board = discover(&files);
    let low = lowest(name);
    apply(&mut board, &mut files, low);
    // nvpmodel's service applies its mode again (section 0, fact 9).
    files.tree.control("service").expect("the running mode");
    let error = board
        .verify(&files, &low)
        .expect_err("nvpmodel has written");
    assert!(error.to_string().contains("expected 115200"), "{error}");
    let current = board.current(&files);
    assert_eq!((current.is_fixed, current.mode()), (false, None));
    apply(&mut board, &mut files, low);
    files.tree.control("jetson-clocks").expect("always");
    assert_eq!(
        board.verify(&files, &low),
        Ok(Effective::AsRequested),
        "jetson_clocks keeps our limits"
    );
    files.wait(Duration::from_millis(10));
    assert!(board.verify(&files, &low).is_err(), "but not the memory");
}

#[test]
fn known_writers_are_named_by_what_they_leave() {
    for name in boards() {
        let middle = middle(name);
        for (control, writer) in [
            ("service", Some("nvpmodel")),
            ("jetson-clocks", Some("jetson_clocks")),
            (
                "write /sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq 0",
                None,
            ),
        ] {
            let mut files = booted(name);
            let mut board = discover(&files);
            apply(&mut board, &mut files, middle);
            // A write may be refused: the minimum is above it.
            let _ = files.tree.control(control);
            files.wait(Duration::from_millis(10));
            let found = board.likely_writer(&files, &middle);
            assert_eq!(found, writer, "{name}: {control}");
        }
    }
}

/// nvpmodel's service runs during the change (section 0, fact 9).
#[test]
fn a_change_that_is_disturbed_once_is_retried() {
    for name in boards() {
        for at_ms in 0..40 {
            let mut files = booted(name);
            let mut board = discover(&files);
            apply(&mut board, &mut files, lowest(name));
            let now = files.tree.jetson().now() + Duration::from_millis(at_ms);
            let control = format!("at {} service", now.as_secs_f64());
            files.tree.control(&control).expect("a command");
            let applied = board.apply(&mut files, &highest(name));
            assert!(applied.is_ok(), "{name}, after {at_ms} ms: {applied:?}");
            let verified = board.verify(&files, &highest(name));
            assert_eq!(
                verified,
                Ok(Effective::AsRequested),
                "{name}, after {at_ms} ms"
            );
        }
    }
}

#[test]
fn a_change_of_any_knob_is_detected() {
    for name in boards() {
        let described = description(name);
        let mut files = booted(name);
        let mut board = discover(&files);
        let mode = PowerMode {
            cores: described.cores() - 1,
            ..middle(name)
        };
        apply(&mut board, &mut files, mode);
        let saved = board.save(&files).expect("readable").to_string();
        let lines = saved.lines().filter_map(|line| line.rsplit_once(' '));
        // The caps and the power sensors are no part of a mode.
        let of_mode = |path: &str| !path.contains("_cap/") && !path.starts_with("ina3221/");
        for (path, value) in lines.filter(|(path, _)| of_mode(path)) {
            let hertz = |khz: Option<&u32>| 1000 * u64::from(*khz.expect("a table"));
            let other = match path.rsplit('/').next().expect("a file") {
                "online" | "mrq_rate_locked" => 1 - value.parse::<u64>().expect("a flag"),
                "scaling_min_freq" => described.cpu_khz[0].into(),
                "scaling_max_freq" => (*described.cpu_khz.last().expect("a table")).into(),
                "min_freq" => hertz(described.gpu_khz.first()),
                "max_freq" => hertz(described.gpu_khz.last()),
                "rate" => hertz(described.emc_khz.first()),
                file => panic!("{file}"),
            };
            let mut files = Simulated::new(files.tree.clone());
            files
                .tree
                .write(path, &other.to_string())
                .expect("a legal value");
            files.wait(Duration::from_millis(10));
            let error = board.verify(&files, &mode).expect_err("another value");
            let expected = format!("{path}: shows {other}, expected {value}");
            assert_eq!(error.to_string(), expected, "{name}");
            let current = board.current(&files);
            assert_ne!(current.mode(), Some(mode), "{name}: {path}");
            let applied = board.apply(&mut files, &mode);
            assert!(applied.is_ok_and(|it| it.writes >= 1), "{name}: {path}");
            assert_runs(&mut files, mode);
        }
    }
}

/// The limits of a cluster that was offline may be stale.
#[test]
fn a_cluster_s_clock_is_set_before_its_other_cores_come_online() {
    let name = "orin-agx-64";
    let mut files = booted(name);
    let mut board: Board = discover(&files);
    apply(&mut board, &mut files, highest(name));
    let mut four = lowest(name);
    four.cores = 4;
    apply(&mut board, &mut files, four);
    let twelve = PowerMode { cores: 12, ..four };
    assert!(board.apply(&mut files, &twelve).is_ok());
    let paths: Vec<&str> = files
        .writes
        .iter()
        .filter_map(|(path, _)| path.strip_prefix("/sys/devices/system/cpu/"))
        .collect();
    let policy = |at| {
        [
            format!("cpufreq/policy{at}/scaling_min_freq"),
            format!("cpufreq/policy{at}/scaling_max_freq"),
        ]
    };
    let mut expected = Vec::new();
    for at in [4, 8] {
        expected.push(format!("cpu{at}/online"));
        expected.extend(policy(at));
        expected.extend((at + 1..at + 4).map(|core| format!("cpu{core}/online")));
    }
    assert_eq!(paths, expected);
}

/// A cap of cooling, in units of the files, and the files that show it.
const CAPS: [(&str, &str); 2] = [
    ("cool cpu 806400", "cool cpu off"),
    ("cool gpu 408000", "cool gpu off"),
];

#[test]
fn a_mode_above_the_caps_of_cooling_is_set_and_capped() {
    let name = "orin-nano-8-super";
    for (cap, end) in CAPS {
        let mut files = booted(name);
        let mut board = discover(&files);
        apply(&mut board, &mut files, lowest(name));
        files.tree.control(cap).expect("a command");
        let applied = board.apply(&mut files, &highest(name)).expect("no failure");
        assert_eq!(applied.effective, Effective::Capped, "{cap}");
        let verified = board.verify(&files, &highest(name));
        assert_eq!(verified, Ok(Effective::Capped), "{cap}");
        // The request holds when the cooling ends.
        files.tree.control(end).expect("a command");
        let verified = board.verify(&files, &highest(name));
        assert_eq!(verified, Ok(Effective::AsRequested), "{cap}");
    }
}

/// The files show the cap, which is the wanted clock, while the earlier and higher request stands.
#[test]
fn a_mode_at_the_caps_of_cooling_replaces_a_higher_request() {
    let name = "orin-nano-8-super";
    let at_caps = PowerMode {
        cpu: Kilohertz(806_400),
        gpu: Kilohertz(408_000),
        ..highest(name)
    };
    let hot = || {
        let mut files = booted(name);
        let mut board = discover(&files);
        apply(&mut board, &mut files, highest(name));
        for (cap, _) in CAPS {
            files.tree.control(cap).expect("a command");
        }
        (files, board)
    };
    let cooled = |mut files: Simulated| {
        for (_, end) in CAPS {
            files.tree.control(end).expect("a command");
        }
        files
    };
    let (mut files, mut board) = hot();
    apply(&mut board, &mut files, at_caps);
    let files = cooled(files);
    assert_eq!(board.verify(&files, &at_caps), Ok(Effective::AsRequested));
    // A program that starts on a hot board does not know the requests.
    let (mut files, _) = hot();
    let mut board = discover(&files);
    apply(&mut board, &mut files, at_caps);
    let files = cooled(files);
    assert_eq!(board.verify(&files, &at_caps), Ok(Effective::AsRequested));
}

/// A program lowers a clock of a hot board below the cap. The next change of the mode replaces it.
#[test]
fn a_request_that_a_cap_hides_is_made_again() {
    let name = "orin-nano-8-super";
    let mut files = booted(name);
    let mut board = discover(&files);
    files.tree.control("cool gpu 510000").expect("a command");
    board.apply(&mut files, &highest(name)).expect("capped");
    let max = "write /sys/class/devfreq/17000000.gpu/min_freq 306000000";
    files.tree.control(max).expect("a knob");
    let max = "write /sys/class/devfreq/17000000.gpu/max_freq 408000000";
    files.tree.control(max).expect("a knob");
    board.apply(&mut files, &highest(name)).expect("capped");
    files.tree.control("cool gpu off").expect("a command");
    let verified = board.verify(&files, &highest(name));
    assert_eq!(verified, Ok(Effective::AsRequested));
}

/// Linux's governors may lower the clocks of a capped mode, and raise them to it.
#[test]
fn capped_clocks_are_free_below_the_mode() {
    for name in boards() {
        let mut files = booted(name);
        let mut board = discover(&files);
        board.set_clocks(Clocks::Cap);
        for mode in [highest(name), middle(name), lowest(name), middle(name)] {
            apply(&mut board, &mut files, mode);
            let verified = board.verify(&files, &mode);
            assert_eq!(verified, Ok(Effective::AsRequested), "{name}: {mode}");
            let settings = files.tree.jetson().settings();
            let described = description(name);
            let policy = settings.policies[0];
            assert_eq!(
                [policy.min_khz, policy.max_khz],
                [described.cpu_khz[0], mode.cpu.0]
            );
            let gpu = settings.gpu;
            assert_eq!(
                [gpu.min_khz, gpu.max_khz],
                [described.gpu_khz[0], mode.gpu.0]
            );
            assert!(settings.emc.locked, "{name}: {mode}");
        }
        board.set_clocks(Clocks::Pin);
        assert!(board.verify(&files, &middle(name)).is_err(), "{name}");
    }
}
