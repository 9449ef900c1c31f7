//! Units of a board: those of the model, and others.

use wattgate_board_tables::Board as Description;
use wattgate_runtime::{Milliwatts, UnitId};
use wattgate_simulated_board::tree::Tree;
use wattgate_simulated_board::unit::Unit;
use wattgate_watchdog::clock::UtcSeconds;
use wattgate_watchdog::lesson::{NoLesson, RISE_K, Teacher, WARMER_K};

use super::{Running, config_of, setup};
use crate::board::{Simulated, load};

const BOARD: &str = "xavier-agx";
const NOW: UtcSeconds = UtcSeconds(1_800_000_000);

/// The file of the GPU's load.
const GPU_LOAD: &str = "/sys/class/devfreq/17000000.gv11b/device/load";

fn board(unit: Unit) -> Simulated {
    let of = Description::named(BOARD).expect("a board");
    let boot = Some(of.ungated().id);
    let mut files = Simulated::new(Tree::new(of, unit, 0, boot).expect("a mode"));
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

#[test]
fn what_a_unit_draws_under_load_makes_its_choice_better() {
    for seed in [4, 5, 6] {
        let files = board(Unit::drawn(seed));
        let ([wide, _], _) = chosen(&files);
        let mut running = Running::with(files, config_of(BOARD, "20W"));
        running.run(10);
        let lesson = running
            .control
            .lesson(Teacher::User, NOW)
            .expect("a lesson");
        let board = board(Unit::drawn(seed));
        let mut setup = setup(&board, config_of(BOARD, "20W")).expect("usable");
        setup.choices.learn(&lesson, RISE_K, &setup.board);
        let choice = setup.choice().expect("a choice");
        assert!(
            setup.unit().contains("learned on 2027-01-15"),
            "{}",
            setup.unit()
        );
        // The power on this unit, as learned, and the bound.
        let [power, bound] = [choice.power, choice.guarded_power].map(Option::unwrap_or_default);
        assert!(power > wide && bound.0 <= 20_000, "{power} {bound} {wide}");
        // The daemon itself is not sure that the load is the full one: its GPU waits now and then.
        let lesson = running.control.lesson(Teacher::Daemon, NOW);
        assert!(lesson.is_err() || lesson.is_ok_and(|lesson| !lesson.is_full));
    }
}

#[test]
fn an_idle_board_teaches_nothing_and_a_full_one_teaches_the_daemon() {
    let mut idle = board(Unit::drawn(4));
    idle.tree.jetson_mut().set_workload(None);
    let mut running = Running::with(idle, config_of(BOARD, "20W"));
    running.run(60);
    for teacher in [Teacher::User, Teacher::Daemon] {
        let lesson = running.control.lesson(teacher, NOW);
        assert_eq!(lesson, Err(NoLesson::NoLoad));
    }
    let mut full = board(Unit::drawn(4));
    full.shown
        .insert(GPU_LOAD.to_owned(), Ok(b"985\n".to_vec()));
    let mut running = Running::with(full, config_of(BOARD, "20W"));
    running.run(200);
    let lesson = running
        .control
        .lesson(Teacher::Daemon, NOW)
        .expect("a lesson");
    assert!(lesson.is_full && lesson.per_kelvin < 0.009, "{lesson:?}");
    let files = board(Unit::drawn(4));
    let mut setup = setup(&files, config_of(BOARD, "20W")).expect("usable");
    setup.choices.learn(&lesson, WARMER_K, &setup.board);
    assert!(setup.unit().contains("learned on"), "{}", setup.unit());
}
