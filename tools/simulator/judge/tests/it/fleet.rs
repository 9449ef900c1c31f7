//! Units of a board: the allowance for a warmer chip.

use wattgate_board_tables::Board;
use wattgate_judge::models::BOARDS;
use wattgate_runtime::ModeId;
use wattgate_runtime::grid::Grid;
use wattgate_simulated_board::pipeline::{Clocks, Luck, Pipeline};
use wattgate_simulated_board::power::{Activity, watts};
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_watchdog::lesson::PER_KELVIN;

/// The middle of the modes gains no more power by a warmer chip than where a lesson has no measurement of it.
#[test]
fn a_warmer_chip_is_allowed_for() {
    let workload = Workload::named("resnet18").expect("shipped");
    for name in BOARDS {
        let board = Board::named(name).expect("a board");
        let axes = board.axes();
        let grid = Grid::new(axes.each_ref().map(Vec::as_slice)).expect("a grid");
        let per_kelvin = |id: u32| {
            let mode = grid.mode(ModeId(id as u16)).expect("in range");
            let clocks = Clocks::from_knobs(&board, mode.knobs());
            let step = Pipeline::new(&board, &workload, clocks).step(None, &Luck::NONE);
            let activity = Activity::from_step(&step, clocks.cores);
            let power = |die_c: f64| {
                let watts = watts(&board, &Unit::NOMINAL, &clocks, &activity, die_c);
                watts.total()
            };
            (power(70.0) / power(40.0)).ln() / 30.0
        };
        let modes = (0..grid.modes()).step_by(97);
        let mut found: Vec<f64> = modes.map(per_kelvin).collect();
        found.sort_unstable_by(f64::total_cmp);
        let median = found[found.len() / 2];
        assert!(median <= f64::from(PER_KELVIN), "{name}: {median}");
        assert!(name != "orin-agx-64" || median > 0.8 * f64::from(PER_KELVIN));
    }
}
