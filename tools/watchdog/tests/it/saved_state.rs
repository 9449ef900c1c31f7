//! The saved state and its file: boots, crashes, and disks that cannot be written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

use crate::wattgated::{Rig, knobs_in, with_board};
use rustix::process::Signal;
use wattgate_board::{Board, Disk, SavedError};
use wattgate_runtime::{Milliseconds, PowerMode};
use wattgate_simulated_board::tree::mirror::Mirror;
use wattgate_watchdog::saved_state::{Origin, SavedState, Unusable};

const MINUTE: u64 = 60_000;

/// A board whose files show what was last written, and its state directory.
struct Still {
    rig: Rig,
    _mirror: Mirror,
    board: Board,
}

impl Still {
    fn new() -> Self {
        let (rig, mirror) = Rig::new("30W");
        let board = Board::discover(&Disk, &rig.root).expect("a board");
        Self {
            rig,
            _mirror: mirror,
            board,
        }
    }

    fn directory(&self) -> PathBuf {
        self.rig.root.join("var/lib/wattgate")
    }

    fn keep(&self) -> SavedState {
        let saved_state = SavedState::keep(&self.board, &Disk, &self.rig.root, &self.directory());
        saved_state.expect("kept")
    }

    /// Changes the mode, as a daemon does.
    fn change(&mut self) {
        let mode = PowerMode::from_knobs([4, 729_600, 318_750, 665_600]);
        let applied = self.board.apply(&mut Disk, &mode);
        applied.expect("the board has the mode");
    }

    fn restore(&mut self, saved_state: SavedState) {
        let restored = saved_state.restore(&mut self.board, &mut Disk);
        restored.expect("restored");
    }

    fn set_boot_id(&self, id: &str) {
        set_boot_id(&self.rig, id);
    }
}

/// Simulates a reboot, or a boot id that cannot be read.
fn set_boot_id(rig: &Rig, id: &str) {
    let path = rig.root.join("proc/sys/kernel/random/boot_id");
    fs::remove_file(&path).expect("there");
    fs::write(&path, id).expect("written");
}

#[test]
fn within_a_boot_the_file_that_was_left_is_trusted() {
    let mut still = Still::new();
    let before = still.rig.knobs();
    let first = still.keep();
    assert_eq!(first.origin(), &Origin::Saved);
    still.change();
    assert_ne!(still.rig.knobs(), before);
    let second = still.keep();
    assert_eq!(second.origin(), &Origin::Left);
    still.restore(second);
    assert_eq!(still.rig.knobs(), before);
    assert!(!still.rig.saved_state_file().exists());
}

fn session(still: &Still) -> SavedState {
    let root = &still.rig.root;
    let session = SavedState::of_session(&still.board, &Disk, root, &still.directory());
    session.expect("kept")
}

/// A session that crashes leaves its file. What was there before it is older than what a later start finds.
#[test]
fn the_state_of_a_session_that_crashed_is_taken_over() {
    let mut still = Still::new();
    let before = still.rig.knobs();
    let _crashed = session(&still);
    still.change();
    let root = &still.rig.root;
    let left = SavedState::left(&Disk, root, &still.directory()).expect("readable");
    let left = left.expect("the session's");
    still.restore(left);
    assert_eq!(still.rig.knobs(), before);
    assert_eq!(
        fs::read_dir(still.directory())
            .expect("a directory")
            .count(),
        0
    );
}

#[test]
fn a_saved_state_of_this_boot_is_older_than_that_of_a_session() {
    let mut still = Still::new();
    let before = still.rig.knobs();
    let _left = still.keep();
    still.change();
    let _crashed = session(&still);
    let kept = still.keep();
    assert_eq!(kept.origin(), &Origin::Left);
    still.restore(kept);
    assert_eq!(still.rig.knobs(), before);
    assert_eq!(
        fs::read_dir(still.directory())
            .expect("a directory")
            .count(),
        0
    );
}

#[test]
fn a_saved_state_of_an_earlier_boot_gives_way_to_that_of_a_session() {
    let mut still = Still::new();
    let _of_the_boot_before = still.keep();
    still.change();
    still.set_boot_id("00000000-0000-4000-8000-000000000001\n");
    let before = still.rig.knobs();
    let _crashed = session(&still);
    let mode = PowerMode::from_knobs([2, 268_800, 216_750, 204_000]);
    still.board.apply(&mut Disk, &mode).expect("set");
    let kept = still.keep();
    assert_eq!(kept.origin(), &Origin::Left);
    still.restore(kept);
    assert_eq!(still.rig.knobs(), before);
}

#[test]
fn after_a_reboot_the_file_that_was_left_is_discarded() {
    let still = Still::new();
    let _lost = still.keep();
    let text = fs::read_to_string(still.rig.saved_state_file()).expect("saved");
    let (first, _) = text.split_once('\n').expect("lines");
    assert!(first.starts_with("boot_id "), "{text}");
    // Another state, in the same form: it must not be taken over.
    let max = "/cpufreq/policy0/scaling_max_freq ";
    let (head, tail) = text.split_once(max).expect("a clock");
    let (_, tail) = tail.split_once('\n').expect("a value");
    fs::write(
        still.rig.saved_state_file(),
        format!("{head}{max}1\n{tail}"),
    )
    .expect("written");
    still.set_boot_id("00000000-0000-4000-8000-000000000001\n");
    let saved_state = still.keep();
    assert_eq!(
        saved_state.origin(),
        &Origin::SavedAgain(Unusable::OtherBoot)
    );
    let again = fs::read_to_string(still.rig.saved_state_file()).expect("saved");
    assert!(again.starts_with("boot_id 00000000-0000-4000-8000-000000000001\n"));
    assert_eq!(knobs_in(&again), still.rig.knobs());
    assert_eq!(still.keep().origin(), &Origin::Left);
}

/// Older versions wrote no boot id. The file is trusted once, and gets the present one.
#[test]
fn a_file_without_a_boot_id_is_trusted_until_the_next_boot() {
    let still = Still::new();
    let saved = still.board.save(&Disk).expect("readable");
    fs::create_dir_all(still.directory()).expect("made");
    fs::write(still.rig.saved_state_file(), saved.to_string()).expect("written");
    assert_eq!(still.keep().origin(), &Origin::Left);
    let text = fs::read_to_string(still.rig.saved_state_file()).expect("there");
    assert!(text.starts_with("boot_id "), "{text}");
    assert!(text.ends_with(&saved.to_string()), "{text}");
    still.set_boot_id("00000000-0000-4000-8000-000000000001\n");
    let origin = Origin::SavedAgain(Unusable::OtherBoot);
    assert_eq!(still.keep().origin(), &origin);
}

#[test]
fn without_a_readable_boot_id_the_file_is_trusted() {
    let still = Still::new();
    let _lost = still.keep();
    let text = fs::read_to_string(still.rig.saved_state_file()).expect("saved");
    for id in ["", "no id\n"] {
        still.set_boot_id(id);
        assert_eq!(still.keep().origin(), &Origin::Left);
        // The file keeps the id that it has.
        assert_eq!(
            fs::read_to_string(still.rig.saved_state_file()).expect("there"),
            text
        );
    }
    fs::remove_file(still.rig.saved_state_file()).expect("removed");
    assert_eq!(still.keep().origin(), &Origin::Saved);
    let text = fs::read_to_string(still.rig.saved_state_file()).expect("saved");
    assert!(!text.contains("boot_id"), "{text}");
    assert_eq!(still.keep().origin(), &Origin::Left);
}

#[test]
fn a_defective_file_is_replaced() {
    let still = Still::new();
    fs::create_dir_all(still.directory()).expect("made");
    let id = "boot_id 00000000-0000-4000-8000-000000000001\n";
    still.set_boot_id("00000000-0000-4000-8000-000000000001\n");
    for (text, why) in [
        (Vec::new(), SavedError::NoEnd),
        (b"/sys/x 1\n".to_vec(), SavedError::NoEnd),
        (vec![0xff; 64], SavedError::NoEnd),
        (id.into(), SavedError::NoEnd),
        (
            format!("{id}/sys/x\nend\n").into(),
            SavedError::NoPair { line: 1 },
        ),
    ] {
        fs::write(still.rig.saved_state_file(), text).expect("written");
        let origin = Origin::SavedAgain(Unusable::Defect(why));
        assert_eq!(still.keep().origin(), &origin);
    }
}

/// Makes the state directory a link to nothing, so that not even root can write there. Returns the
/// directory that mends it.
fn break_directory(rig: &Rig) -> PathBuf {
    let directory = rig
        .saved_state_file()
        .parent()
        .expect("a directory")
        .to_owned();
    fs::create_dir_all(directory.parent().expect("a directory")).expect("made");
    let target = rig.root.join("mended");
    symlink(&target, &directory).expect("linked");
    target
}

#[test]
fn a_state_that_cannot_be_written_is_kept_in_memory_and_written_later() {
    let mut still = Still::new();
    let before = still.rig.knobs();
    let target = break_directory(&still.rig);
    let mut saved_state = still.keep();
    assert_eq!(saved_state.origin(), &Origin::Saved);
    let error = saved_state.unwritten().expect("unwritten").to_string();
    let path = still.rig.saved_state_file();
    assert!(
        error.starts_with(&format!("{}: ", path.display())),
        "{error}"
    );
    still.change();
    assert!(!saved_state.retry(Milliseconds(0)));
    fs::create_dir(&target).expect("made");
    // At most one attempt a minute.
    assert!(!saved_state.retry(Milliseconds(MINUTE - 1)));
    assert!(saved_state.retry(Milliseconds(MINUTE)));
    assert!(
        !saved_state.retry(Milliseconds(2 * MINUTE)),
        "once is enough"
    );
    assert!(saved_state.unwritten().is_none());
    let saved = fs::read_to_string(&path).expect("saved");
    assert_eq!(knobs_in(&saved), before);
    let mode = fs::metadata(&path).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let left = still.keep();
    assert_eq!(left.origin(), &Origin::Left);
    still.restore(left);
    assert_eq!(still.rig.knobs(), before);
    assert_eq!(fs::read_dir(target).expect("a directory").count(), 0);
}

#[test]
fn a_profiler_can_insist_on_the_file() {
    let still = Still::new();
    assert!(still.keep().written().is_ok());
    fs::remove_dir_all(still.directory()).expect("removed");
    break_directory(&still.rig);
    assert!(still.keep().written().is_err());
}

#[test]
fn the_daemon_holds_the_limit_without_a_disk() {
    with_board("30W", |rig| {
        let before = rig.knobs();
        break_directory(rig);
        let mut daemon = rig.run("<4>cannot save the settings from before the start: ");
        daemon.logs("<6>tracking; measured ");
        assert_ne!(rig.knobs(), before);
        daemon.stop();
        assert_ne!(rig.knobs(), before);
    });
}

#[test]
fn after_a_crash_and_a_reboot_the_daemon_saves_the_state_anew() {
    with_board("30W", |rig| {
        let mut daemon = rig.run("<6>booting: ");
        daemon.signal(Signal::KILL);
        assert_eq!(daemon.exit_code(), None);
        let booted = rig.knobs();
        set_boot_id(rig, "00000000-0000-4000-8000-000000000001\n");
        let path = rig.saved_state_file();
        let mut daemon = rig.run(&format!(
            "<4>{}: saved before the last boot; replaced by the present settings",
            path.display()
        ));
        daemon.logs("<6>tracking; measured ");
        daemon.stop();
        let saved = fs::read_to_string(rig.saved_state_file()).expect("saved");
        assert_eq!(knobs_in(&saved), booted);
    });
}
