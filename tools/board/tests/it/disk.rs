//! A board on a disk: allocations, and a simulated board that updates its files.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::allocations::allocations;
use crate::common::{boards, description, highest, lowest, middle, total};
use wattgate_board::{Board, Disk, Effective};
use wattgate_runtime::Milliseconds;
use wattgate_runtime::estimator::MOST_CHIPS;
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::tree::mirror::Mirror;
use wattgate_simulated_board::unit::Unit;

/// Time after which a live tree has taken all writes.
const LATER: Duration = Duration::from_millis(200);

/// A board that has booted with all cores online, on a disk.
fn on_disk(name: &str) -> (tempfile::TempDir, Mirror) {
    let directory = tempfile::tempdir().expect("a directory");
    let described = description(name);
    let all = described
        .modes
        .iter()
        .find(|mode| mode.cores.len() as u32 == described.cores());
    let id = all.map(|mode| mode.id);
    let tree = Tree::new(described, Unit::NOMINAL, 1, id).expect("a mode");
    let root = directory.path().join("root");
    let mirror = Mirror::create(&root, tree).expect("a tree on the disk");
    (directory, mirror)
}

#[test]
fn the_control_loop_does_not_allocate() {
    for name in boards() {
        // No simulator runs: the files show what was written.
        let (directory, _) = on_disk(name);
        let root = directory.path().join("root");
        let mut files = Disk;
        let mut board = Board::discover(&files, &root).expect("a board");
        for mode in [lowest(name), highest(name), middle(name)] {
            let (count, applied) = allocations(|| board.apply(&mut files, &mode));
            assert!(
                applied.as_ref().is_ok_and(|it| it.writes > 0),
                "{name}: {applied:?}"
            );
            assert_eq!(count, 0, "{name}: apply");
            let (count, verified) = allocations(|| board.verify(&files, &mode));
            assert_eq!(
                (count, verified),
                (0, Ok(Effective::AsRequested)),
                "{name}: verify"
            );
        }
        let (count, current) = allocations(|| board.current(&files));
        assert_eq!(
            (count, current.mode()),
            (0, Some(middle(name))),
            "{name}: current"
        );
        let (count, sample) = allocations(|| board.sample(&files));
        assert!(
            sample.as_ref().is_ok_and(|it| total(it).0 > 0),
            "{name}: {sample:?}"
        );
        assert_eq!(count, 0, "{name}: sample");
        let (count, hottest) = allocations(|| board.hottest_mc(&files));
        assert!(count == 0 && hottest.is_some(), "{name}: hottest");
        for _ in 0..8 {
            // In eight samples, each rail's voltage is read once.
            let (count, sample) = allocations(|| board.sample(&files));
            assert!(count == 0 && sample.is_ok(), "{name}: a later sample");
        }
        let (count, load) = allocations(|| board.gpu_load(&files));
        assert!(count == 0 && load.is_some(), "{name}: GPU load");
        let (count, found) = allocations(|| board.time_constants(&files));
        let expected = [Milliseconds(430); MOST_CHIPS];
        assert_eq!((count, found), (0, expected), "{name}: time constants");
    }
}

/// Stops the live tree when it goes out of scope, also if a test panics.
struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs a test while a thread keeps the files of a simulated board up to date.
fn with_live_tree(name: &str, test: impl FnOnce(&Path, Board)) {
    let (directory, mut mirror) = on_disk(name);
    let root = directory.path().join("root");
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| mirror.run(&stop, 1.0).expect("the mirror runs"));
        let _stop = StopOnDrop(&stop);
        let board = Board::discover(&Disk, &root).expect("a board");
        test(&root, board);
    });
}

#[test]
fn a_live_tree_is_set_to_a_mode_and_restored() {
    let name = "orin-agx-64";
    with_live_tree(name, |_, mut board| {
        let mut files = Disk;
        let saved = board.save(&files).expect("readable");
        for mode in [lowest(name), highest(name), middle(name)] {
            let applied = board.apply(&mut files, &mode);
            assert!(applied.is_ok(), "{mode}: {applied:?}");
            thread::sleep(LATER);
            assert_eq!(board.verify(&files, &mode), Ok(Effective::AsRequested));
            assert!(board.sample(&files).is_ok());
        }
        assert_eq!(board.restore(&mut files, &saved), Ok(()));
        thread::sleep(LATER);
        assert_eq!(board.save(&files), Ok(saved));
    });
}

#[test]
fn averaging_is_set_and_restored_on_a_live_tree() {
    with_live_tree("orin-agx-64", |_, mut board| {
        let mut files = Disk;
        let saved = board.save(&files).expect("readable");
        let time_constant = board.set_averaging(&mut files, 64);
        assert_eq!(time_constant, Ok(Milliseconds(54)));
        thread::sleep(LATER);
        assert_eq!(board.averaging(&files), Ok(64));
        assert_eq!(board.time_constant(&files), Milliseconds(54));
        assert_eq!(board.restore(&mut files, &saved), Ok(()));
        thread::sleep(LATER);
        assert_eq!(board.time_constant(&files), Milliseconds(430));
    });
}

/// The directory has one entry for each rate (section 5.3).
#[test]
fn memory_rates_are_found_in_directory_names_too() {
    let name = "xavier-agx";
    let (directory, _) = on_disk(name);
    let root = directory.path().join("root");
    let emc = root.join("sys/kernel/debug/bpmp/debug/emc");
    fs::remove_file(emc.join("possible_rates")).expect("removed");
    for khz in description(name).emc_khz {
        fs::create_dir_all(emc.join(format!("tables/regular/{khz}"))).expect("made");
    }
    let board = Board::discover(&Disk, &root).expect("a board");
    assert_eq!(board.emc_khz(), description(name).emc_khz);
}

/// The tree reverts the write some ms later. Usually the check after the transition detects this. On a busy
/// machine the tree may be late; then the next verification does.
#[test]
fn a_write_that_a_live_tree_ignores_is_detected() {
    let name = "orin-nano-8-super";
    with_live_tree(name, |root, mut board| {
        let mut files = Disk;
        let applied = board.apply(&mut files, &lowest(name));
        assert!(applied.is_ok(), "{applied:?}");
        let path = "/sys/class/devfreq/17000000.gpu/max_freq";
        fs::write(root.join("control"), format!("ignore {path}\n")).expect("a command");
        thread::sleep(LATER);
        let applied = board.apply(&mut files, &highest(name));
        thread::sleep(LATER);
        assert!(applied.is_ok_and(|it| it.is_set), "nothing is too high");
        match board.disobedient().next() {
            Some(knob) => assert!(knob.path.ends_with("17000000.gpu/max_freq"), "{knob}"),
            None => assert_eq!(board.verify(&files, &highest(name)), Ok(Effective::Capped)),
        }
    });
}
