//! Knobs that do not obey: what is set all the same, what is learned of them, and how it ends.

use std::path::Path;
use std::time::Duration;

use crate::bed::{EMC_CAP, EMC_LOCK, EMC_RATE, GPU_MAX, actuators, is_of};
use crate::common::{Simulated, apply, boards, booted, description, discover, highest, lowest};
use wattgate_board::{Board, Effective, Files, Reach};
use wattgate_runtime::grid::{Axis, Grid};
use wattgate_runtime::{Kilohertz, PowerMode};

const ONLINE: &str = "/sys/devices/system/cpu/cpu11/online";
const POLICY_8: &str = "/sys/devices/system/cpu/cpufreq/policy8/scaling_max_freq";

/// Ways in which a write to a file has no effect.
const FAULTS: [&str; 5] = ["ignore", "EBUSY", "EINVAL", "EIO", "EROFS"];

fn break_it(files: &mut Simulated, path: &str, fault: &str) {
    let control = match fault {
        "ignore" => format!("ignore {path}"),
        errno => format!("refuse {path} {errno}"),
    };
    files.tree.control(&control).expect("a knob");
}

fn mend(files: &mut Simulated, path: &str) {
    files
        .tree
        .control(&format!("allow {path}"))
        .expect("a knob");
}

fn grid(board: &str) -> Grid {
    let axes = description(board).axes();
    Grid::new([&axes[0], &axes[1], &axes[2], &axes[3]]).expect("a grid")
}

/// The values of an axis that the board can be set to.
fn reach(board: &Board, name: &str, axis: Axis) -> Vec<u32> {
    match board.settable(&grid(name)).expect("some").reach(axis) {
        Reach::Values(values) => values.iter().map(|it| it.board).collect(),
        Reach::Free(highest) => vec![*highest],
    }
}

/// A board in a mode.
fn booted_to(name: &str, mode: PowerMode) -> (Simulated, Board) {
    let mut files = booted(name);
    let mut board = discover(&files);
    apply(&mut board, &mut files, mode);
    (files, board)
}

fn values(files: &Simulated) -> Vec<(String, u32)> {
    let actuators = actuators(files).into_iter();
    actuators.map(|it| (it.folder, it.value)).collect()
}

#[test]
fn whatever_a_knob_does_all_others_are_lowered() {
    for name in boards() {
        let start = || booted_to(name, highest(name));
        let (mut files, mut board) = start();
        let least = board.least();
        assert_eq!(least, lowest(name));
        board.apply(&mut files, &least).expect("a mode");
        let knobs: Vec<String> = files.writes.iter().map(|(path, _)| path.clone()).collect();
        files.wait(Duration::from_millis(10));
        let obeyed = values(&files);
        for path in &knobs {
            for fault in FAULTS {
                let (mut files, mut board) = start();
                break_it(&mut files, path, fault);
                let applied = board.apply(&mut files, &least).expect("a mode");
                assert!(applied.is_set, "{name}: {path} {fault}");
                files.wait(Duration::from_millis(10));
                for (actuator, value) in values(&files) {
                    let lowest = obeyed.iter().find(|(it, _)| *it == actuator);
                    match lowest {
                        _ if is_of(path, &actuator) => {}
                        Some((_, lowest)) => {
                            assert_eq!(value, *lowest, "{name}: {actuator}, {path} {fault}");
                        }
                        // The cluster of a core that stays online.
                        None => {
                            let slowest = least.cpu.0;
                            assert_eq!(value, slowest, "{name}: {actuator}, {path} {fault}");
                        }
                    }
                }
                // A minimum that stays low, or a lock without need, is no disobedience.
                let named = board.disobedient().all(|it| {
                    let folder = |path: &Path| path.parent().map(Path::to_owned);
                    folder(&it.path) == folder(Path::new(path)) || path.contains("emc")
                });
                assert!(named, "{name}: {path} {fault}");
                mend(&mut files, path);
                for _ in 0..2 {
                    board.test_obedience(&mut files, &least);
                }
                board.apply(&mut files, &least).expect("a mode");
                files.wait(Duration::from_millis(10));
                assert_eq!(values(&files), obeyed, "{name}: {path} {fault}");
                assert_eq!(board.disobedient().count(), 0, "{name}: {path} {fault}");
                assert_eq!(
                    board.verify(&files, &least),
                    Ok(Effective::AsRequested),
                    "{name}: {path} {fault}"
                );
            }
        }
    }
}

#[test]
fn nothing_is_raised_before_all_that_must_be_lowered_is() {
    let name = "orin-agx-64";
    let to = PowerMode {
        gpu: highest(name).gpu,
        ..lowest(name)
    };
    for path in [ONLINE, POLICY_8, EMC_RATE, EMC_LOCK] {
        let from = PowerMode {
            gpu: lowest(name).gpu,
            ..highest(name)
        };
        let (mut files, mut board) = booted_to(name, from);
        // Without its switch, the cluster of the last core stays online.
        break_it(&mut files, ONLINE, "ignore");
        break_it(&mut files, path, "ignore");
        break_it(&mut files, EMC_CAP, "ignore");
        let applied = board.apply(&mut files, &to).expect("a mode");
        assert!(!applied.is_set, "{path}");
        files.wait(Duration::from_millis(10));
        assert_eq!(files.tree.jetson().gpu_true_khz(), from.gpu.0, "{path}");
    }
}

#[test]
fn a_knob_that_is_stuck_bounds_its_axis_until_it_obeys_again() {
    let name = "orin-agx-64";
    let described = description(name);
    let top = highest(name);
    let cases = [
        (
            GPU_MAX,
            Axis::Gpu,
            vec![top.gpu.0],
            described.gpu_khz.clone(),
        ),
        (
            EMC_RATE,
            Axis::Emc,
            vec![top.emc.0],
            described.emc_khz.clone(),
        ),
        (ONLINE, Axis::Cores, (2..=12).collect(), (1..=12).collect()),
    ];
    for (path, axis, stuck, all) in cases {
        let (mut files, mut board) = booted_to(name, top);
        break_it(&mut files, path, "ignore");
        // Of the memory's files, one alone does not hold its rate up.
        for path in [EMC_LOCK, EMC_CAP] {
            break_it(&mut files, path, "ignore");
        }
        let least = board.least();
        board.apply(&mut files, &least).expect("a mode");
        assert_eq!(reach(&board, name, axis), stuck, "{path}");
        let changes = board.obedience_changes();
        assert!(changes > 0, "{path}");
        // Told once, and asked for less without success.
        for _ in 0..3 {
            board.test_obedience(&mut files, &least);
            assert_eq!(reach(&board, name, axis), stuck, "{path}");
        }
        assert_eq!(board.obedience_changes(), changes, "{path}");
        // The mode that the governor would choose now is set, and stays.
        let next = PowerMode {
            cores: 4,
            gpu: Kilohertz(*reach(&board, name, Axis::Gpu).last().expect("one")),
            emc: Kilohertz(*reach(&board, name, Axis::Emc).last().expect("one")),
            ..least
        };
        let applied = board.apply(&mut files, &next).expect("a mode");
        assert!(applied.is_set, "{path}");
        assert_eq!(
            board.verify(&files, &next),
            Ok(Effective::AsRequested),
            "{path}"
        );
        assert_eq!(board.current(&files).cores, 4, "{path}");
        mend(&mut files, path);
        for path in [EMC_LOCK, EMC_CAP] {
            mend(&mut files, path);
        }
        for _ in 0..2 {
            board.test_obedience(&mut files, &next);
            files.wait(Duration::from_secs(1));
        }
        let left: Vec<String> = board.disobedient().map(ToString::to_string).collect();
        assert_eq!(reach(&board, name, axis), all, "{path}: {left:?}");
        assert_eq!(board.disobedient().count(), 0, "{path}");
    }
}

/// The cores of a cluster whose clock is stuck are the last that are used.
#[test]
fn a_cluster_that_is_stuck_is_left_alone_while_others_suffice() {
    let name = "orin-agx-64";
    let (mut files, mut board) = booted_to(name, highest(name));
    let policy = "/sys/devices/system/cpu/cpufreq/policy4/scaling_max_freq";
    break_it(&mut files, policy, "EIO");
    let slow = PowerMode {
        cpu: lowest(name).cpu,
        ..highest(name)
    };
    assert!(board.apply(&mut files, &slow).is_ok_and(|it| !it.is_set));
    let settable = board.settable(&grid(name)).expect("some");
    let mode = |cores, cpu| PowerMode { cores, cpu, ..slow };
    assert!(settable.can_set(&mode(8, slow.cpu)));
    assert!(!settable.can_set(&mode(9, slow.cpu)));
    assert!(settable.can_set(&mode(9, highest(name).cpu)));
    let eight = mode(8, slow.cpu);
    assert!(board.apply(&mut files, &eight).is_ok_and(|it| it.is_set));
    let online: Vec<bool> = files.tree.jetson().settings().online.clone();
    let expected = [[true; 4], [false; 4], [true; 4]].concat();
    assert_eq!(online, expected);
}

#[test]
fn a_clamped_clock_is_a_cap_that_ends() {
    let name = "orin-agx-64";
    let (mut files, mut board) = booted_to(name, lowest(name));
    let khz = description(name).gpu_khz[4];
    files.taken.insert(GPU_MAX.to_owned(), format!("{khz}000"));
    let applied = board.apply(&mut files, &highest(name)).expect("a mode");
    assert!(applied.is_set && applied.effective == Effective::AsRequested);
    assert_eq!(reach(&board, name, Axis::Gpu).last(), Some(&khz));
    let named = board.disobedient().next().expect("the GPU").to_string();
    assert_eq!(named, format!("{GPU_MAX}: wanted 1300500000, is {khz}000"));
    for _ in 0..3 {
        assert_eq!(reach(&board, name, Axis::Gpu).last(), Some(&khz));
        board.test_obedience(&mut files, &highest(name));
    }
    assert_eq!(
        reach(&board, name, Axis::Gpu).last(),
        Some(&highest(name).gpu.0)
    );
}

/// A program that sets a clock again and again is a bound; one that does it twice is not.
#[test]
fn a_knob_that_others_keep_changing_counts_as_bound() {
    let name = "orin-agx-64";
    let mut files = booted(name);
    let mut board = discover(&files);
    let low = lowest(name);
    apply(&mut board, &mut files, low);
    for times in 1..=3 {
        let top = format!("{}000", highest(name).gpu.0);
        files.tree.write(GPU_MAX, &top).expect("a knob");
        files.wait(Duration::from_secs(1));
        assert!(board.verify(&files, &low).is_err());
        board.apply(&mut files, &low).expect("a mode");
        let bound = reach(&board, name, Axis::Gpu).len() == 1;
        assert_eq!(bound, times == 3, "{times}");
    }
    // The other program has ended.
    for _ in 0..2 {
        board.test_obedience(&mut files, &low);
        files.wait(Duration::from_secs(20));
    }
    assert_eq!(reach(&board, name, Axis::Gpu), description(name).gpu_khz);
}

#[test]
fn a_knob_that_cannot_be_read_is_lowered_and_counts_as_highest() {
    use wattgate_simulated_board::tree::Errno;
    let name = "orin-agx-64";
    let (mut files, mut board) = booted_to(name, highest(name));
    files.shown.insert(GPU_MAX.to_owned(), Err(Errno::Eio));
    let least = board.least();
    assert!(board.apply(&mut files, &least).is_ok_and(|it| it.is_set));
    files.wait(Duration::from_millis(10));
    assert_eq!(files.tree.jetson().gpu_true_khz(), least.gpu.0);
    assert_eq!(board.current(&files).gpu, Some(highest(name).gpu));
    assert_eq!(reach(&board, name, Axis::Gpu), [highest(name).gpu.0]);
    let named = board.disobedient().next().expect("the GPU").to_string();
    assert_eq!(
        named,
        format!("{GPU_MAX}: wanted 114750000, cannot be read")
    );
    files.shown.clear();
    board.test_obedience(&mut files, &least);
    assert_eq!(reach(&board, name, Axis::Gpu), description(name).gpu_khz);
}

/// A cluster that was offline may return with a clock that nobody can lower.
#[test]
fn a_cluster_that_returns_too_fast_is_seen_before_others_are_raised() {
    let name = "orin-agx-64";
    let (mut files, mut board) = booted_to(name, highest(name));
    // While it is offline, nobody can lower it.
    break_it(&mut files, POLICY_8, "EIO");
    let small = PowerMode {
        cores: 4,
        ..lowest(name)
    };
    let wide = PowerMode {
        cpu: lowest(name).cpu,
        ..highest(name)
    };
    board.apply(&mut files, &small).expect("a mode");
    let mut board = discover(&files);
    let applied = board.apply(&mut files, &wide).expect("a mode");
    assert!(!applied.is_set);
    files.wait(Duration::from_millis(10));
    assert_eq!(files.tree.jetson().gpu_true_khz(), small.gpu.0);
    let settable = board.settable(&grid(name)).expect("some");
    assert!(!settable.can_set(&wide));
    assert!(settable.can_set(&PowerMode { cores: 8, ..wide }));
    let named = board.disobedient().next().expect("the cluster").to_string();
    assert!(named.starts_with(POLICY_8), "{named}");
}

/// A test asks for less, in vain; then the minimum is that of the mode again.
#[test]
fn a_test_that_fails_leaves_the_mode_as_it_was() {
    let name = "orin-agx-64";
    let minimum = GPU_MAX.replace("max", "min");
    let (mut files, mut board) = booted_to(name, highest(name));
    break_it(&mut files, GPU_MAX, "ignore");
    let mode = PowerMode {
        gpu: highest(name).gpu,
        ..lowest(name)
    };
    board.apply(&mut files, &board.least()).expect("a mode");
    board.apply(&mut files, &mode).expect("a mode");
    let before = files.tree.read(&minimum).expect("a number");
    board.test_obedience(&mut files, &mode);
    assert_eq!(files.tree.read(&minimum).as_ref(), Ok(&before));
    assert!(!board.is_testing_obedience());
    mend(&mut files, GPU_MAX);
    board.test_obedience(&mut files, &mode);
    assert!(board.is_testing_obedience());
    assert_ne!(files.tree.read(&minimum), Ok(before));
}

/// No other core takes the place of one that is asked to go offline.
#[test]
fn a_test_of_a_core_raises_no_other() {
    let name = "orin-agx-64";
    let switch = "/sys/devices/system/cpu/cpu3/online";
    let (mut files, mut board) = booted_to(name, highest(name));
    break_it(&mut files, switch, "ignore");
    board.apply(&mut files, &board.least()).expect("a mode");
    let two = PowerMode {
        cores: 2,
        ..lowest(name)
    };
    board.apply(&mut files, &two).expect("a mode");
    let online = |files: &Simulated| -> Vec<usize> {
        let online = &files.tree.jetson().settings().online;
        (0..12).filter(|core| online[*core]).collect()
    };
    board.test_obedience(&mut files, &two);
    assert_eq!(online(&files), [0, 3]);
    mend(&mut files, switch);
    board.test_obedience(&mut files, &two);
    assert_eq!(online(&files), [0]);
}
