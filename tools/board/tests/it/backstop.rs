//! The backstop: limits of the current that are set, never raised, and restored.

use crate::common::{Simulated, boards, booted, description, discover, load};
use wattgate_board::{BackstopError, Board, Files, Saved};
use wattgate_runtime::Milliwatts;

const VDD_IN: &str = "/sys/class/hwmon/hwmon0/curr1_crit";
const VDD_IN_MEAN: &str = "/sys/class/hwmon/hwmon0/curr1_max";
const SUM: &str = "/sys/class/hwmon/hwmon0/curr4_crit";
const REST: &str = "/sys/class/hwmon/hwmon0/curr3_crit";

/// A limit, and a margin of a fifth of it.
fn set(board: &mut Board, files: &mut Simulated, own: &Saved, watts: u32) -> bool {
    let limit = Milliwatts(1_000 * watts);
    let set = board.set_backstop(files, own, limit, Milliwatts(200 * watts));
    set.expect("a backstop")
}

fn value(files: &Simulated, path: &str) -> i64 {
    let text = files.tree.read(path).expect(path);
    text.trim().parse().expect("a number")
}

/// A board that works, its state, and its knobs.
fn working(name: &str) -> (Simulated, Board, Saved) {
    let mut files = booted(name);
    load(&mut files);
    files.wait(std::time::Duration::from_secs(5));
    let board = discover(&files);
    let own = board.save(&files).expect("saved");
    (files, board, own)
}

#[test]
fn boards_with_a_limit_of_their_whole_current_have_a_backstop() {
    for name in boards() {
        let files = booted(name);
        let checked = discover(&files).check_backstop(&files);
        let has_input = ["VDD_IN", "POM_5V_IN", "VIN_SYS_5V0"];
        let rails = description(name).rails;
        match rails.iter().any(|rail| has_input.contains(&&*rail.label)) {
            true => assert_eq!(checked, Ok(()), "{name}"),
            false => assert_eq!(checked, Err(BackstopError::NoLimit), "{name}"),
        }
    }
}

#[test]
fn an_input_rail_gets_both_limits() {
    let (mut files, mut board, own) = working("orin-nano-8-super");
    let millivolts = f64::from(board.input_mv(&files).expect("an input"));
    assert!(!set(&mut board, &mut files, &own, 16));
    // A step of 8 mA, and twice the offset of 40 mW.
    let amperes = |path| value(&files, path) as f64 / 1e3;
    let watts = [VDD_IN, VDD_IN_MEAN].map(|path| amperes(path) * millivolts / 1e3);
    assert!((19.0..=19.2).contains(&watts[0]), "{watts:?}");
    assert!((16.7..=16.8).contains(&watts[1]), "{watts:?}");
}

#[test]
fn an_agx_orin_gets_a_limit_on_the_sum_and_on_the_rest() {
    // Linux of R35 has the driver that sets the sum four times too high.
    for (name, error) in [("orin-agx-64", 4.0), ("orin-agx-64-jp6", 1.0)] {
        let (mut files, mut board, own) = working(name);
        assert!(!set(&mut board, &mut files, &own, 40));
        let watts = |path: &str, error: f64| {
            let volts = value(&files, &format!("/sys/class/hwmon/hwmon0/{path}_input")) as f64;
            let limit = path.replace("in", "curr").replace("curr1", "curr4");
            let limit = format!("/sys/class/hwmon/hwmon0/{limit}_crit");
            error * value(&files, &limit) as f64 * volts / 1e6
        };
        let rails = files.tree.jetson().board().rails.len();
        let rest = (0..rails).find_map(|rail| {
            let reading = files.tree.jetson().channel(rail).reading();
            let label = &files.tree.jetson().board().rails[rail].label;
            let milliwatts = reading.millivolts * reading.milliamperes / 1_000;
            (label == "VIN_SYS_5V0").then_some(milliwatts as f64 / 1e3)
        });
        let rest = rest.expect("a rail");
        let of_rest = watts("in3", 1.0);
        assert!(
            (1.17 * rest..=1.2 * rest).contains(&of_rest),
            "{name}: {of_rest} of {rest} W"
        );
        // Less twice the offset of 0.36 W, and at most a step of 0.24 W, four times with the error.
        let sum = watts("in1", error);
        let both = sum + of_rest;
        assert!((46.2..=47.3).contains(&both), "{name}: {sum} + {of_rest} W");
    }
}

#[test]
fn no_limit_is_raised() {
    let (mut files, mut board, own) = working("orin-nano-8-super");
    let before = files.state();
    set(&mut board, &mut files, &own, 100);
    assert_eq!(files.state(), before);
    set(&mut board, &mut files, &own, 10);
    assert!(value(&files, VDD_IN) < 2_500);
    set(&mut board, &mut files, &own, 100);
    assert_eq!(files.state(), before);
}

/// Neither for a moment, while the driver is being found, nor without a saved limit.
#[test]
fn no_write_is_above_the_limit_of_the_board() {
    let unknown: Saved = "end\n".parse().expect("a state");
    for name in ["orin-nano-8-super", "orin-agx-64", "orin-agx-64-jp6"] {
        let (files, _, own) = working(name);
        for own in [&own, &unknown] {
            let mut files = Simulated::new(files.tree.clone());
            let mut board = discover(&files);
            for watts in [300, 20, 300] {
                set(&mut board, &mut files, own, watts);
            }
            for (path, text) in &files.writes {
                let own = value(&working(name).0, path);
                let written: i64 = text.trim().parse().expect("a number");
                assert!(written <= own, "{name}: {path} {written}, own {own}");
            }
            assert!(!files.writes.is_empty());
        }
    }
}

#[test]
fn what_is_set_already_is_not_written() {
    for name in ["orin-nano-8-super", "orin-agx-64"] {
        let (mut files, mut board, own) = working(name);
        set(&mut board, &mut files, &own, 16);
        files.writes.clear();
        assert!(!set(&mut board, &mut files, &own, 16));
        assert_eq!(files.take_writes(), "", "{name}");
    }
}

#[test]
fn a_change_by_another_program_is_noticed_and_undone() {
    let (mut files, mut board, own) = working("orin-nano-8-super");
    set(&mut board, &mut files, &own, 16);
    let limit = value(&files, VDD_IN);
    for other in ["4984", "1000"] {
        files.tree.write(VDD_IN, other).expect("written");
        assert!(set(&mut board, &mut files, &own, 16), "{other}");
        assert_eq!(value(&files, VDD_IN), limit);
        assert!(!set(&mut board, &mut files, &own, 16), "{other}");
    }
}

#[test]
fn the_limits_of_the_board_return() {
    for name in ["orin-nano-8-super", "orin-agx-64", "orin-agx-64-jp6"] {
        let (mut files, mut board, own) = working(name);
        let before = files.state();
        set(&mut board, &mut files, &own, 14);
        assert_ne!(files.state(), before, "{name}");
        // The next process of this boot finds the lowered limits.
        let mut next = discover(&files);
        next.restore(&mut files, &own).expect("restored");
        assert_eq!(files.state(), before, "{name}");
        set(&mut board, &mut files, &own, 14);
        board.lift_backstop(&mut files, &own).expect("lifted");
        assert_eq!(files.state(), before, "{name}");
    }
}

/// The files of a lost sensor must not keep a stop from restoring the rest.
#[test]
fn a_sensor_that_is_gone_is_left_out() {
    let (mut files, mut board, own) = working("orin-nano-8-super");
    set(&mut board, &mut files, &own, 14);
    files.absent = [VDD_IN, VDD_IN_MEAN].map(str::to_owned).to_vec();
    board.restore(&mut files, &own).expect("restored");
    files.absent.clear();
    files
        .tree
        .control(&format!("refuse {VDD_IN} EIO"))
        .expect("a command");
    let error = board.restore(&mut files, &own).expect_err("refused");
    assert!(error.to_string().contains("curr1_crit"), "{error}");
}

#[test]
fn a_state_without_limits_is_completed() {
    let (files, board, own) = working("orin-nano-8-super");
    let text = own.to_string();
    let lines = text
        .lines()
        .filter(|line| !line.contains("VDD_IN/m") && !line.contains("crit"));
    let old: String = lines.map(|line| format!("{line}\n")).collect();
    let mut old: Saved = old.parse().expect("a state");
    assert_ne!(old, own);
    board.complete(&files, &mut old);
    assert_eq!(old, own);
}

#[test]
fn a_driver_of_neither_kind_is_refused() {
    let (mut files, mut board, own) = working("orin-agx-64");
    let mut check = |limit: &str, shunt: &str| {
        files.taken.insert(SUM.to_owned(), limit.to_owned());
        let text = format!("{shunt}\n").into_bytes();
        let path = "/sys/class/hwmon/hwmon0/shunt1_resistor".to_owned();
        files.shown.insert(path, Ok(text));
        let limit = Milliwatts(40_000);
        let set = board.set_backstop(&mut files, &own, limit, Milliwatts(8_000));
        set.expect_err("refused").to_string()
    };
    let error = check("77", "2000");
    assert!(error.contains("curr4_crit: shows 60, expected "), "{error}");
    for shunt in ["0", "-1", "100", "20000"] {
        let error = check("77", shunt);
        assert!(
            error.ends_with("shunt1_resistor: expected a shunt of 1 to 13 mΩ"),
            "{error}"
        );
    }
    // The limit of the 5 V rail was not reached.
    assert_eq!(value(&files, REST), 81_900);
}

#[test]
fn a_voltage_of_zero_is_refused() {
    let (mut files, mut board, own) = working("orin-nano-8-super");
    let path = "/sys/class/hwmon/hwmon0/in1_input";
    files.shown.insert(path.to_owned(), Ok(b"0\n".to_vec()));
    let limit = Milliwatts(10_000);
    let error = board.set_backstop(&mut files, &own, limit, limit);
    let error = error.expect_err("refused").to_string();
    assert_eq!(error, format!("{path}: shows 0 mV"));
    assert_eq!(files.take_writes(), "");
}
