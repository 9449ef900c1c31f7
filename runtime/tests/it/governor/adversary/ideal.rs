//! An ideal holder of the limit: what no holder can do better that learns of the load as late.

use super::plant::{Account, Board, SPAN, Scenario};

/// The ideal knows the load this time in ms late.
const LATE: usize = 50;

/// Standard deviations of the ripple that a mode is kept below the limit.
const DEVIATIONS: f64 = 4.0;

/// Ends in ms of the means to come for which a mode must fit.
const AHEAD: [usize; 7] = [40, 80, 130, 200, 270, 350, SPAN];

/// Runs a scenario under a holder that knows the true power of each mode, and the load [`LATE`] ms
/// ago. It assumes that the load stays, and remembers the highest mean of 430 ms. If the mean is
/// over the limit or would be, it sets the mode that ends this soonest.
pub fn run(scenario: &Scenario) -> Account {
    let mut board = Board::new(scenario);
    let levels = &scenario.script.levels;
    let margin = 1.0 + DEVIATIONS * scenario.ripple / (SPAN as f64 / 10.0).sqrt();
    let (mut sum, mut highest) = (0.0, 1.0_f64);
    let mut set_at = 0;
    while !board.is_over() {
        board.tick();
        let now = board.now;
        let Some(known) = (now - 1).checked_sub(LATE) else {
            continue;
        };
        sum += f64::from(levels[known]);
        if known >= SPAN {
            sum -= f64::from(levels[known - SPAN]);
            highest = highest.max(sum / SPAN as f64);
        }
        let can_act = board.is_set() && now >= set_at && !scenario.is_suspended(now);
        if now.is_multiple_of(5) && can_act {
            let next = choose(&board, f64::from(levels[known]), highest, margin);
            if next != board.mode {
                set_at = now + board.set(next);
            }
        }
    }
    board.account
}

fn choose(board: &Board<'_>, level: f64, highest: f64, margin: f64) -> usize {
    let scenario = board.scenario;
    let limit = scenario.told_w(board.now);
    // The most power that keeps each mean to come at the limit.
    let share = |ahead: &usize| {
        let kept = board.energy_of(SPAN - ahead);
        (limit * SPAN as f64 - kept) / *ahead as f64
    };
    let allowed = AHEAD.iter().map(share).fold(f64::INFINITY, f64::min);
    let fits = |mode: &usize| {
        let lasting = scenario.watts(*mode, highest.max(level)) * margin;
        scenario.watts(*mode, level) <= allowed && lasting <= limit
    };
    let modes = 0..scenario.maxn();
    let speed = |mode: &usize| scenario.truths[*mode].speed;
    let fastest = modes
        .clone()
        .filter(fits)
        .max_by(|a, b| speed(a).total_cmp(&speed(b)));
    let watts = |mode: &usize| scenario.truths[*mode].watts;
    let least = modes.min_by(|a, b| watts(a).total_cmp(&watts(b)));
    fastest.or(least).unwrap_or(0)
}
