//! Units of a board: those of the model, and others.

use wattgate_board_tables::Board as Description;
use wattgate_runtime::fleet::UnitId;
use wattgate_runtime::{Milliwatts, PowerMode};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_watchdog::clock::UtcSeconds;
use wattgate_watchdog::lesson::{LONG_TIME, Lesson, NoLesson, SHORT_TIME, WARMER_K};

use super::{Running, config_of, setup};
use crate::board::{Simulated, load};

const BOARD: &str = "xavier-agx";
const NOW: UtcSeconds = UtcSeconds(1_800_000_000);

/// The file of the GPU's load.
const GPU_LOAD: &str = "/sys/class/devfreq/17000000.gv11b/device/load";

fn board(unit: Unit) -> Simulated {
    let description = Description::named(BOARD).expect("a board");
    let boot = Some(description.ungated().id);
    let mut files = Simulated::new(Tree::new(description, unit, 0, boot).expect("a mode"));
    load(&mut files);
    files
}

/// The predicted power of the choice, its bound, and what is said of the unit.
fn chosen(files: &Simulated) -> ([Milliwatts; 2], String) {
    let setup = setup(files, config_of(BOARD, "20W")).expect("usable");
    let choice = setup.choice().expect("a choice");
    let powers = [choice.power, choice.guarded_power].map(Option::unwrap_or_default);
    (powers, setup.unit())
}

#[test]
fn another_unit_and_one_without_a_serial_number_get_the_wide_band() {
    let ([narrow, bound], said) = chosen(&board(Unit::NOMINAL));
    assert_eq!(said, "8ff8117c, profiled for the model");
    assert!(bound.0 <= 20_000 && narrow.0 > 18_000);
    let unit = Unit::drawn(4);
    let id = UnitId::of_serial_number(&unit.serial_number()).expect("an id");
    assert_eq!(id.to_string(), unit.id());
    let mut nameless = board(Unit::NOMINAL);
    nameless
        .absent
        .push("/proc/device-tree/serial-number".to_owned());
    nameless
        .absent
        .push("/sys/firmware/devicetree/base/serial-number".to_owned());
    for (files, start) in [
        (
            board(unit),
            format!("{id}, another unit than the model's: bounds of the power are 22 % higher"),
        ),
        (
            nameless,
            "no serial number, so taken for another unit than the model's: bounds of the power are 22 % higher"
                .to_owned(),
        ),
    ] {
        let ([power, bound], said) = chosen(&files);
        assert!(said.starts_with(&start), "{said}");
        assert!(said.ends_with("% slower"), "{said}");
        assert!(bound.0 <= 20_000 && power.0 < narrow.0 - 2_000, "{power}");
    }
}

/// A GPU that is fully busy, whatever it shows by itself.
fn busy(mut files: Simulated) -> Simulated {
    files
        .shown
        .insert(GPU_LOAD.to_owned(), Ok(b"985\n".to_vec()));
    files
}

/// What `once` would set on a unit under a limit after a lesson: the predicted power as learned, its bound, and what is said.
fn after(unit: Unit, lesson: &Lesson, limit: &str) -> ([Milliwatts; 2], String) {
    let board = board(unit);
    let mut setup = setup(&board, config_of(BOARD, limit)).expect("usable");
    setup.choices.learn(lesson, WARMER_K, &setup.board);
    let choice = setup.choice().expect("a choice");
    let powers = [choice.power, choice.guarded_power].map(Option::unwrap_or_default);
    (powers, setup.unit())
}

/// The mode that `once` sets on a unit under a limit, with a lesson or without.
fn mode(unit: Unit, lesson: Option<&Lesson>, limit: &str) -> PowerMode {
    let board = board(unit);
    let mut setup = setup(&board, config_of(BOARD, limit)).expect("usable");
    if let Some(lesson) = lesson {
        setup.choices.learn(lesson, WARMER_K, &setup.board);
    }
    let choice = setup.choice().expect("a choice");
    setup.mode(choice.mode)
}

/// What the true board would draw in a mode, as the model predicts it: a figure to compare modes by.
fn power(mode: &PowerMode) -> u32 {
    let board = board(Unit::NOMINAL);
    let setup = setup(&board, config_of(BOARD, "20W")).expect("usable");
    setup.choices.predicted(mode).expect("predicted").0
}

#[test]
fn what_a_unit_draws_under_full_load_makes_its_choice_better() {
    for seed in [4, 5, 6] {
        let files = board(Unit::drawn(seed));
        let ([wide, _], _) = chosen(&files);
        let mut running = Running::with(busy(files), config_of(BOARD, "20W"));
        running.run(10);
        let lesson = running.control.lesson(SHORT_TIME, NOW).expect("a lesson");
        assert!(lesson.is_full());
        let board = board(Unit::drawn(seed));
        let mut setup = setup(&board, config_of(BOARD, "20W")).expect("usable");
        setup.choices.learn_now(&lesson, None, &setup.board);
        let choice = setup.choice().expect("a choice");
        assert!(
            setup.unit().contains("learned on 2027-01-15"),
            "{}",
            setup.unit()
        );
        // The power on this unit, as learned, and the bound.
        let [power, bound] = [choice.power, choice.guarded_power].map(Option::unwrap_or_default);
        assert!(power > wide && bound.0 <= 20_000, "{power} {bound} {wide}");
    }
}

/// A unit that draws much looks like one that draws little if its load is a part of the full one.
#[test]
fn a_part_of_the_load_makes_no_choice_bolder_at_any_limit() {
    let hot = Unit {
        module: 1.17,
        ..Unit::drawn(4)
    };
    for unit in [hot, Unit::drawn(5), Unit::NOMINAL] {
        let mut running = Running::with(board(unit), config_of(BOARD, "25W"));
        let mut lessons = Vec::new();
        // A load of a fixed rate: the GPU is less busy in a faster mode.
        for (limit, activity) in [("25W", 0.6), ("6W", 0.8), ("15W", 0.7)] {
            let limit = config_of(BOARD, limit).limit;
            running.control.set_limit(limit);
            let jetson = running.control.files().tree.jetson_mut();
            jetson.set_load(activity, activity);
            running.run(75);
            lessons.extend(running.control.lesson(LONG_TIME, NOW));
        }
        let lesson = lessons.pop().expect("a lesson");
        assert!(!lesson.is_full() && lesson.modes.len() > 1, "{lesson:?}");
        for limit in ["6W", "10W", "15W", "20W", "25W", "28W", "30W", "32W"] {
            let [with, without] =
                [Some(&lesson), None].map(|lesson| power(&mode(unit, lesson, limit)));
            assert!(with <= without, "{limit}: {with}, {without} mW");
        }
    }
}

/// On a unit of the model a reading within its bound changes nothing, whatever the load; one above makes it careful.
#[test]
fn a_profiled_unit_keeps_its_narrow_band_unless_it_draws_more() {
    let nominal = || board(Unit::NOMINAL);
    let mut running = Running::with(busy(nominal()), config_of(BOARD, "20W"));
    running.run(120);
    let lesson = running.control.lesson(LONG_TIME, NOW).expect("a lesson");
    assert!(lesson.is_full());
    let (before, _) = chosen(&nominal());
    let (powers, said) = after(Unit::NOMINAL, &lesson, "20W");
    assert_eq!(
        (powers, &*said),
        (before, "8ff8117c, profiled for the model")
    );
    // Its fan has failed since, or it was changed.
    let aged = Unit {
        module: 1.2,
        ..Unit::NOMINAL
    };
    let mut running = Running::with(busy(board(aged)), config_of(BOARD, "20W"));
    running.run(120);
    let lesson = running.control.lesson(LONG_TIME, NOW).expect("a lesson");
    let ([power, bound], said) = after(Unit::NOMINAL, &lesson, "20W");
    assert!(said.contains("% higher for what it drew"), "{said}");
    assert!(bound.0 <= 20_000 && power.0 < before[0].0, "{power}");
    let [with, without] =
        [Some(&lesson), None].map(|lesson| self::power(&mode(aged, lesson, "20W")));
    assert!(with * 10 < without * 9, "{with} {without}");
}

#[test]
fn an_idle_board_teaches_nothing_and_a_full_one_teaches_the_daemon() {
    let mut idle = board(Unit::drawn(4));
    idle.tree.jetson_mut().set_workload(None);
    let mut running = Running::with(idle, config_of(BOARD, "20W"));
    running.run(60);
    for least in [SHORT_TIME, LONG_TIME] {
        let lesson = running.control.lesson(least, NOW);
        assert_eq!(lesson, Err(NoLesson::NoLoad));
    }
    let full = busy(board(Unit::drawn(4)));
    let mut running = Running::with(full, config_of(BOARD, "20W"));
    running.run(200);
    let lesson = running.control.lesson(LONG_TIME, NOW).expect("a lesson");
    assert!(lesson.is_full(), "{lesson:?}");
    let (_, said) = after(Unit::drawn(4), &lesson, "20W");
    assert!(said.contains("learned on"), "{said}");
}
