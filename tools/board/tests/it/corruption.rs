//! Corrupted files of a board lead to an error or a value, never to a panic.

use std::path::Path;

use crate::common::{self, Simulated, boards, booted, description, highest, lowest};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use wattgate_board::{Board, Files, Saved};
use wattgate_runtime::grid::Grid;
use wattgate_simulated_board::tree::Errno;

/// A corrupted text, or an error.
fn shown() -> impl Strategy<Value = Result<Vec<u8>, Errno>> {
    let texts = [
        "",
        "\n",
        "0\n",
        "-1\n",
        "1\n",
        "garbage\n",
        "\0\0\0",
        "9223372036854775807\n",
        "-9223372036854775808\n",
        "9223372036854775808\n",
        "1 2 3\n",
        "0-3,5\n",
        "0-4294967295\n",
        "4294967295\n",
        "115200 115200 115200\n",
        "204000 665600 (kHz)\n",
        "ina3221\n",
        "VDD_IN\n",
        "NC\n",
        "tegra\n",
        "1000000000000\n",
        "# R\n",
        "# R36 (release), REVISION: \n",
    ];
    let texts = texts.map(|text| text.as_bytes().to_vec());
    let errors = [Errno::Enoent, Errno::Eio, Errno::Eagain, Errno::Eacces];
    prop_oneof![
        4 => select(texts.to_vec()).prop_map(Ok),
        1 => vec(any::<u8>(), 0..200).prop_map(Ok),
        1 => (0..100_000_usize).prop_map(|length| Ok(vec![b'1'; length])),
        2 => select(errors.to_vec()).prop_map(Err),
    ]
}

/// Does everything that a daemon does.
fn use_board(files: &mut Simulated, name: &str) {
    let Ok(mut board) = Board::discover(files, Path::new("/")) else {
        return;
    };
    let axes = description(name).axes();
    let grid = Grid::new([&axes[0], &axes[1], &axes[2], &axes[3]]).expect("a grid");
    let settable = board.settable(&grid);
    let (chips, steps) = (board.chips(), board.sensor_steps());
    assert!((1..=steps.len()).contains(&chips));
    // A chip's step is positive; the other entries are zero.
    assert!(steps[..chips].iter().all(|step| step.0 > 0));
    assert!(steps[chips..].iter().all(|step| step.0 == 0));
    let saved = board.save(files);
    for mode in [highest(name), lowest(name)] {
        let _ = settable.as_ref().map(|it| it.can_set(&mode));
        let _ = board.apply(files, &mode);
        let _ = board.verify(files, &mode);
        let _ = board.current(files);
        for _ in 0..3 {
            let _ = board.sample(files);
        }
        assert!(
            board
                .gpu_load(files)
                .is_none_or(|permille| permille <= 1_000)
        );
        let constants = board.time_constants(files).map(|it| it.0);
        assert!(constants.iter().all(|ms| (1..=50_651).contains(ms)));
        let _ = board.hottest_mc(files);
        let _ = board.over_current_events(files);
        let _ = (board.masks(files), board.nvpmodel_mode(files));
    }
    if let Ok(saved) = saved {
        let text = saved.to_string();
        assert_eq!(text.parse(), Ok(saved.clone()));
        let _ = board.restore(files, &saved);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 600,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_corrupted_tree_causes_no_panic(
        name in select(boards()),
        corrupt in vec((any::<Index>(), shown()), 1..8),
        later in vec((any::<Index>(), shown()), 0..4),
        absent in vec(any::<Index>(), 0..3),
    ) {
        let mut files = booted(name);
        let paths = places(&files);
        for (at, text) in corrupt {
            files.shown.insert(at.get(&paths).clone(), text);
        }
        for at in absent {
            files.absent.push(at.get(&paths).clone());
        }
        use_board(&mut files, name);

        // Corruption after a healthy start.
        let mut files = booted(name);
        let mut board = common::discover(&files);
        let saved = board.save(&files).expect("readable");
        for (at, text) in later {
            files.shown.insert(at.get(&paths).clone(), text);
        }
        let _ = board.apply(&mut files, &highest(name));
        for _ in 0..9 {
            let _ = board.sample(&files);
        }
        let _ = board.restore(&mut files, &saved);
        files.wait(std::time::Duration::from_millis(20));
    }

    #[test]
    fn any_text_is_parsed_without_a_panic(text in ".{0,200}(\nend\n)?") {
        if let Ok(saved) = text.parse::<Saved>() {
            prop_assert_eq!(saved.to_string().parse(), Ok(saved));
        }
    }
}

/// The paths of all files, with those that this crate uses for hwmon and devfreq.
fn places(files: &Simulated) -> Vec<String> {
    let mut places: Vec<String> = files
        .tree
        .files()
        .map(|(path, _)| path.to_owned())
        .collect();
    for class in ["/sys/class/hwmon", "/sys/class/devfreq"] {
        for device in files.tree.list(class).unwrap_or_default() {
            let device = format!("{class}/{device}");
            let names = files.tree.list(&device).expect("a device");
            places.extend(names.into_iter().map(|name| format!("{device}/{name}")));
        }
    }
    places
}
