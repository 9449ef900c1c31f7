//! Refuses a model that was made for another board: compares the model's device name with the
//! board's `compatible` strings (`jetson-platform.md`, sections 1 and 9).
//!
//! The clocks of the grid do not identify a board: all Orins share theirs. Unknown device names
//! and unknown boards are accepted.

/// Device name prefixes, and the substrings of `compatible` that identify the board: module
/// numbers, or the carrier's where the device tree does not name the module. The first match
/// counts.
const KNOWN: [(&str, &[&str]); 12] = [
    ("orin-agx-64", &["p3701-0000", "p3701-0005"]),
    ("orin-agx-32", &["p3701-0004"]),
    ("orin-nx-16", &["p3767-0000"]),
    ("orin-nx-8", &["p3767-0001"]),
    ("orin-nano-8", &["p3767-0003", "p3767-0005"]),
    ("orin-nano-4", &["p3767-0004"]),
    ("xavier-agx", &["p2888", "p2972"]),
    ("xavier-nx", &["p3668"]),
    ("tx2", &["p3310"]),
    ("nano", &["p3448"]),
    ("thor-t5000", &["p3834-0008"]),
    ("thor-t4000", &["p3834-0000"]),
];

/// The power of idle boards in mW, at the clocks with which they are sold (`jetson-platform.md`, sections 8 and 9).
const IDLE_MW: [(&str, u32); 3] = [
    ("orin-agx-64", 7_100),
    ("orin-nx-16", 4_600),
    ("orin-nano-8", 2_180),
];

/// The least power in mW that is believed of the highest mode of another board. Modules draw five times as much and more
/// (`devices.json`).
const LEAST_IDLE_MW: u32 = 1_000;

/// A power in mW that the idle board draws in any mode: a third of what is published, as lower clocks draw less (assumed), or one that is
/// known of all boards.
pub fn idle_mw(compatible: &[String]) -> u32 {
    let name = board_name(compatible);
    let known = IDLE_MW.iter().find(|(known, _)| Some(*known) == name);
    known.map_or(LEAST_IDLE_MW, |(_, idle_mw)| idle_mw / 3)
}

/// The board's name, if both sides are known and a model for `device` is for another board.
pub fn board_mismatch(device: &str, compatible: &[String]) -> Option<&'static str> {
    let of_model = KNOWN.iter().find(|(name, _)| device.starts_with(name))?;
    let of_board = board_name(compatible)?;
    (of_board != of_model.0).then_some(of_board)
}

/// The board's name, if it is known.
pub fn board_name(compatible: &[String]) -> Option<&'static str> {
    let is = |(_, modules): &&(&str, &[&str])| {
        let mut texts = compatible.iter();
        texts.any(|text| modules.iter().any(|module| text.contains(module)))
    };
    KNOWN.iter().find(is).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use wattgate_board_tables::{Board, names};

    use super::*;

    #[test]
    fn every_board_that_draws_power_when_idle_is_known() {
        for (name, idle_mw_of_board) in IDLE_MW {
            let board = Board::named(name).expect("a board");
            assert_eq!(idle_mw(&board.compatible), idle_mw_of_board / 3);
        }
        assert_eq!(idle_mw(&["nvidia,unheard-of".to_owned()]), LEAST_IDLE_MW);
    }

    #[test]
    fn every_simulated_board_accepts_its_own_models_only() {
        let boards = names().into_iter();
        let boards: Vec<Board> = boards.filter_map(|it| Board::named(it).ok()).collect();
        assert!(boards.len() >= 8);
        for board in &boards {
            assert_eq!(board_mismatch(&board.name, &board.compatible), None);
            for other in &boards {
                let known = |device: &str| KNOWN.iter().find(|it| device.starts_with(it.0));
                let [built_for, on] =
                    [&board.name, &other.name].map(|it| known(it).expect("known").0);
                let found = board_mismatch(&board.name, &other.compatible);
                assert_eq!(
                    found,
                    (built_for != on).then_some(on),
                    "{built_for} on {on}"
                );
            }
        }
    }

    #[test]
    fn the_modules_of_thor_are_known() {
        let board = Board::described("thor-t5000").expect("described");
        let t4000 = ["nvidia,p3834-0000", "nvidia,tegra264"].map(str::to_owned);
        assert_eq!(board_name(&board.compatible), Some("thor-t5000"));
        assert_eq!(board_name(&t4000), Some("thor-t4000"));
        assert_eq!(board_mismatch("thor-t5000", &board.compatible), None);
        let found = board_mismatch("thor-t5000", &t4000);
        assert_eq!(found, Some("thor-t4000"));
        let found = board_mismatch("orin-agx-64", &board.compatible);
        assert_eq!(found, Some("thor-t5000"));
    }

    #[test]
    fn unknown_names_and_boards_are_accepted() {
        let orin = ["nvidia,p3701-0005".to_owned()];
        assert_eq!(board_mismatch("my-rover", &orin), None);
        assert_eq!(board_mismatch("orin-nx-16", &[]), None);
    }
}
