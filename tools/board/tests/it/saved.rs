//! Saving and restoring the settings of a board.

use crate::common::{
    Simulated, apply, boards, booted, description, discover, highest, lowest, middle,
};
use wattgate_board::{Board, Files, RestoreError, Saved, SavedError};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;

/// Waits until free-running clocks have settled.
fn settle(files: &mut Simulated) {
    files.wait(std::time::Duration::from_millis(20));
}

/// Every board in every mode of nvpmodel.
fn all_boots() -> impl Iterator<Item = (String, Simulated)> {
    boards().into_iter().flat_map(|name| {
        let described = description(name);
        let modes: Vec<_> = described.modes.iter().map(|mode| mode.id).collect();
        modes.into_iter().map(move |id| {
            let tree = Tree::new(description(name), Unit::NOMINAL, 0, Some(id));
            let files = Simulated::new(tree.expect("a mode"));
            (format!("{name}, mode {id}"), files)
        })
    })
}

#[test]
fn restoring_brings_back_all_files() {
    for (what, mut files) in all_boots() {
        let name = files.tree.jetson().board().name.clone();
        let mut board = discover(&files);
        settle(&mut files);
        let (before, settings) = (files.state(), files.tree.jetson().settings().clone());
        let saved = board.save(&files).expect("readable");
        for mode in [highest(&name), lowest(&name), middle(&name), highest(&name)] {
            apply(&mut board, &mut files, mode);
            let text = saved.to_string();
            let again: Saved = text.parse().expect("well formed");
            assert_eq!(again, saved, "{what}");
            // A new `Board`, as in a new process after a crash.
            let mut board = discover(&files);
            assert_eq!(board.restore(&mut files, &again), Ok(()), "{what}");
            settle(&mut files);
            assert_eq!(files.state(), before, "{what}");
            // The clocks of offline clusters are as after the boot.
            let policies = &files.tree.jetson().settings().policies;
            assert_eq!(*policies, settings.policies, "{what}");
            // A second restore writes nothing.
            files.writes.clear();
            assert_eq!(board.restore(&mut files, &again), Ok(()), "{what}");
            assert!(files.writes.is_empty(), "{what}: {:?}", files.writes);
        }
    }
}

#[test]
fn a_held_memory_rate_and_a_cap_are_restored() {
    let caps = [
        ("orin-agx-64", "/sys/kernel/nvpmodel_emc_cap/emc_iso_cap"),
        ("orin-nano-8-super", "/sys/kernel/nvpmodel_clk_cap/emc"),
    ];
    for (name, cap) in caps {
        let mut files = booted(name);
        files.tree.write(cap, "2133000000").expect("a cap");
        files.tree.control("jetson-clocks").expect("always");
        settle(&mut files);
        let mut board = discover(&files);
        let before = files.state();
        let saved = board.save(&files).expect("readable");
        apply(&mut board, &mut files, highest(name));
        assert_eq!(board.restore(&mut files, &saved), Ok(()));
        settle(&mut files);
        assert_eq!(files.state(), before, "{name}");
    }
}

#[test]
fn a_truncated_text_is_refused() {
    let board = booted("tx2");
    let text = discover(&board).save(&board).expect("readable").to_string();
    assert!(
        text.starts_with("/sys/devices/system/cpu/cpu3/online 1\n"),
        "{text}"
    );
    for end in 0..text.len() {
        assert_eq!(
            text[..end].parse::<Saved>(),
            Err(SavedError::NoEnd),
            "{end} bytes"
        );
    }
}

#[test]
fn defective_lines_are_named() {
    let parse = |text: &str| text.parse::<Saved>().expect_err("defective").to_string();
    assert_eq!(parse("/a 1\n"), "the last line is not `end`");
    assert_eq!(
        parse("/a 1\n/b\nend\n"),
        "line 2: expected a path and a value"
    );
    assert_eq!(parse("\nend\n"), "line 1: expected a path and a value");
    assert_eq!(parse("/a 1x\nend\n"), "line 1: `1x` is not a whole number");
    assert_eq!(parse("/a 1\n/a 2\nend\n"), "line 2: duplicate path /a");
    let spaces: Saved = "/a b/c -1\nend\n".parse().expect("a path with a space");
    assert_eq!(spaces.to_string(), "/a b/c -1\nend\n");
}

/// Somebody who can change the text must not be able to write to other files.
#[test]
fn a_path_that_is_no_knob_is_refused_before_any_write() {
    let mut files = booted("orin-agx-64");
    let mut board = discover(&files);
    for path in [
        "/etc/passwd",
        "/sys/devices/17000000.ga10b/tpc_pg_mask",
        "/sys/class/devfreq/17000000.ga10b/device/tpc_pg_mask",
        "/sys/devices/system/cpu/cpu0/online",
    ] {
        let saved = board.save(&files).expect("readable").to_string();
        let text = saved.replace("\nend\n", &format!("\n{path} 1\nend\n"));
        let saved: Saved = text.parse().expect("well formed");
        let error = board.restore(&mut files, &saved).expect_err("no knob");
        let unknown =
            matches!(&error, RestoreError::UnknownKnob { path: it } if it.to_str() == Some(path));
        assert!(unknown, "{error}");
    }
    assert!(files.writes.is_empty());
}

#[test]
fn a_knob_that_is_not_restored_does_not_stop_the_others() {
    for name in boards() {
        let mut files = booted(name);
        let mut board: Board = discover(&files);
        settle(&mut files);
        let before = files.state();
        let saved = board.save(&files).expect("readable");
        apply(&mut board, &mut files, lowest(name));
        let path = gpu_maximum(&saved);
        files
            .tree
            .control(&format!("refuse {path} EIO"))
            .expect("a knob");
        let error = board.restore(&mut files, &saved).expect_err("a fault");
        let RestoreError::Incomplete { count: 1, first } = error else {
            panic!("{name}: {error}");
        };
        assert!(first.to_string().starts_with(&path), "{name}: {first}");
        settle(&mut files);
        let differ = |(path, shown): &(String, _)| before[path] != *shown;
        let after: Vec<_> = files.state().into_iter().filter(differ).collect();
        assert_eq!(after.len(), 1, "{name}: {after:?}");
        assert!(after[0].0.ends_with("/max_freq"), "{name}: {after:?}");
    }
}

/// The path of the GPU's maximum clock.
fn gpu_maximum(saved: &Saved) -> String {
    let text = saved.to_string();
    let line = text.lines().find(|line| line.contains("/max_freq "));
    let path = line.and_then(|line| line.split(' ').next());
    path.expect("a GPU").to_owned()
}

/// A program that starts on a hot board must not take the caps for requests: after it has restored
/// them, the board would stay slow for ever.
#[test]
fn the_caps_of_cooling_are_not_saved() {
    for name in ["orin-agx-64", "orin-nano-8-super"] {
        let mut files = booted(name);
        let mut board = discover(&files);
        let cool = board.save(&files).expect("readable").to_string();
        for cap in ["cool cpu 729600", "cool gpu 306000"] {
            // The first release of the AGX Orin has no 306 MHz.
            let other = cap.replace("gpu 306000", "gpu 318750");
            let known = files
                .tree
                .control(cap)
                .or_else(|_| files.tree.control(&other));
            known.expect("a command");
        }
        let hot = board.save(&files).expect("readable");
        assert_eq!(hot.to_string(), cool, "{name}");
        apply(&mut board, &mut files, lowest(name));
        for end in ["cool cpu off", "cool gpu off"] {
            files.tree.control(end).expect("a command");
        }
        board.restore(&mut files, &hot).expect("restored");
        let restored = board.save(&files).expect("readable").to_string();
        assert_eq!(restored, cool, "{name}");
    }
}

/// A clock below the cap is what was requested.
#[test]
fn a_request_below_the_cap_is_saved() {
    let mut files = booted("orin-nano-8-super");
    let board = discover(&files);
    let path = "/sys/class/devfreq/17000000.gpu/max_freq";
    let low = format!("write {path} 306000000");
    files.tree.control(&low).expect("a knob");
    files.tree.control("cool gpu 816000").expect("a command");
    let saved = board.save(&files).expect("readable").to_string();
    assert!(saved.contains(&format!("{path} 306000000\n")), "{saved}");
}
