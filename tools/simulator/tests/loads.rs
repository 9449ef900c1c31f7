//! The limit holds for every kind of load, on boards and models that are wrong too, over two seeds; the command `loads` has more.
//!
//! For 430 ms sensors and limits at 25, 45 and 75 % of each board's span. The bounds are wider than what the
//! command prints: they find what is broken, not what is a little slower.

use std::path::Path;
use std::sync::LazyLock;

use wattgate_simulator::load::{KINDS, Kind};
use wattgate_simulator::replay::table::{
    Bench, LIMITS_PCT, Row, Task, WRONGS, Wrong, boards, rows,
};
use wattgate_simulator::scenarios::{Holder, Spread};

const SEEDS: u64 = 2;

static BENCHES: LazyLock<Vec<Bench>> = LazyLock::new(|| {
    let weights = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights");
    let benches = boards().into_iter().map(|board| Bench::of(board, &weights));
    benches
        .collect::<Result<_, _>>()
        .expect("boards with models")
});

fn run(kinds: &[(Kind, Wrong)]) -> Vec<Row> {
    let mut tasks = Vec::new();
    for &(kind, wrong) in kinds {
        for bench in BENCHES.iter() {
            tasks.extend(LIMITS_PCT.iter().map(|limit_pct| Task {
                kind,
                bench,
                limit_pct: *limit_pct,
                holder: Holder::Wattgate,
                wrong,
            }));
        }
    }
    rows(&tasks, SEEDS).expect("rows")
}

/// All rows in which the worst of a figure is beyond its bound, at once.
fn misses(
    rows: &[Row],
    figure: fn(&Row) -> Spread,
    is_beyond: impl Fn(&Row, f64) -> bool,
) -> Vec<String> {
    let missed = rows.iter().filter_map(|row| {
        let Spread { worst, seed, .. } = figure(row);
        let told = format!(
            "{}, {}, {} %, seed {seed}: {worst:.2}",
            row.kind, row.board, row.limit_pct
        );
        is_beyond(row, worst).then_some(told)
    });
    missed.collect()
}

const NONE: [String; 0] = [];

fn jumps(kind: &Kind) -> bool {
    matches!(kind, Kind::Jump { .. })
}

/// What moves within what the model was made of, or comes back to it.
static KNOWN: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let kinds = KINDS
        .into_iter()
        .filter(|kind| !jumps(kind) && *kind != Kind::Llm);
    run(&kinds.map(|kind| (kind, Wrong::Nothing)).collect::<Vec<_>>())
});

static LLM: LazyLock<Vec<Row>> = LazyLock::new(|| run(&[(Kind::Llm, Wrong::Nothing)]));

static JUMPS: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let kinds = KINDS.into_iter().filter(jumps);
    run(&kinds.map(|kind| (kind, Wrong::Nothing)).collect::<Vec<_>>())
});

static WRONG: LazyLock<Vec<Row>> = LazyLock::new(|| {
    let wrongs = WRONGS.into_iter();
    run(&wrongs
        .map(|wrong| (Kind::Constant, wrong))
        .collect::<Vec<_>>())
});

#[test]
fn the_mean_over_430_ms_stays_within_the_limit() {
    assert_eq!(
        misses(&KNOWN, |row| row.over_430ms_pct, |_, worst| worst > 0.2),
        NONE
    );
    assert_eq!(
        misses(&KNOWN, |row| row.excess_430ms_pct, |_, worst| worst > 5.0),
        NONE
    );
}

#[test]
fn the_limit_is_used() {
    // Where neighbouring modes differ little in power and much in speed, margins cost most.
    let least = |row: &Row| match row.limit_pct {
        pct if pct < 40.0 => 40.0,
        _ => 60.0,
    };
    assert_eq!(
        misses(
            &KNOWN,
            |row| row.speed_vs_fixed_pct,
            |row, worst| worst < least(row)
        ),
        NONE
    );
}

#[test]
fn a_working_sensor_is_never_called_blind() {
    for rows in [&KNOWN, &LLM, &JUMPS, &WRONG] {
        assert_eq!(
            misses(rows, |row| row.safe_pct, |_, worst| worst > 2.0),
            NONE
        );
    }
}

/// Prefill draws more than what the model was made of, and nobody can know before the first.
#[test]
fn an_llms_first_prefill_is_answered_at_once() {
    assert_eq!(
        misses(&LLM, |row| row.over_430ms_pct, |_, worst| worst > 0.3),
        NONE
    );
    assert_eq!(
        misses(&LLM, |row| row.excess_430ms_pct, |_, worst| worst > 12.0),
        NONE
    );
    assert_eq!(
        misses(&LLM, |row| row.speed_vs_fixed_pct, |_, worst| worst < 50.0),
        NONE
    );
}

/// A jump that leads over the limit by less than a step of the sensor takes longer to tell.
#[test]
fn a_jump_is_answered() {
    let rows: Vec<Row> = JUMPS
        .iter()
        .filter(|row| row.kind != "jump-to-110%")
        .cloned()
        .collect();
    assert_eq!(
        misses(
            &rows,
            |row| row.longest_event_ms,
            |_, worst| worst > 1_000.0
        ),
        NONE
    );
    assert_eq!(
        misses(&JUMPS, |row| row.over_430ms_pct, |_, worst| worst > 0.8),
        NONE
    );
    assert_eq!(
        misses(&JUMPS, |row| row.over_j, |_, worst| worst > 3.0),
        NONE
    );
}

#[test]
fn boards_and_models_that_are_wrong_are_found_out() {
    let systematic = |row: &&Row| !row.kind.contains("rogue") && !row.kind.contains("each");
    let systematic: Vec<Row> = WRONG.iter().filter(systematic).cloned().collect();
    assert_eq!(
        misses(
            &systematic,
            |row| row.over_430ms_pct,
            |_, worst| worst > 0.5
        ),
        NONE
    );
    assert_eq!(
        misses(
            &systematic,
            |row| row.speed_vs_fixed_pct,
            |_, worst| worst < 60.0
        ),
        NONE
    );
    assert_eq!(
        misses(&WRONG, |row| row.over_430ms_pct, |_, worst| worst > 0.8),
        NONE
    );
    assert_eq!(
        misses(
            &WRONG,
            |row| row.speed_vs_fixed_pct,
            |_, worst| worst < 25.0
        ),
        NONE
    );
}

#[test]
fn a_constant_load_is_left_alone() {
    let constant: Vec<Row> = KNOWN
        .iter()
        .filter(|row| row.kind == "constant")
        .cloned()
        .collect();
    assert_eq!(constant.len(), BENCHES.len() * LIMITS_PCT.len());
    assert_eq!(
        misses(
            &constant,
            |row| row.changes_per_min,
            |_, worst| worst > 12.0
        ),
        NONE
    );
}
