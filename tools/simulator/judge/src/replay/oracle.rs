//! Oracles: how fast a load could have run. They know the true power and keep no margin.
//!
//! The *fixed* oracle sets one mode for each limit: the fastest whose true power is within the
//! limit in the load's worst 430 ms. The *clairvoyant* oracle sets one mode for each second: the
//! fastest whose true power is within the limit in the worst 430 ms of that second, at the highest
//! die temperature of that second. Both choose from the whole profiled grid. Where no mode fits,
//! they set the mode of the least power. They ignore the random ripple.

use std::time::Duration;

use super::sliding::lines;
use super::truth::{TimedMode, Truth};
use super::warmth::{HEAT_STEP, Warmth};
use crate::course::LIMIT_WINDOW;
use wattgate_board_tables::{Board, Thermal};
use wattgate_simulated_board::load::{Load, WORKING};
use wattgate_simulated_board::machine::mode_errors::ModeErrors;
use wattgate_simulated_board::power::leakage;
use wattgate_simulated_board::steady::AMBIENT_C;
use wattgate_simulated_board::unit::Unit;

/// Time for which the clairvoyant oracle chooses a mode.
const SECOND: Duration = Duration::from_secs(1);

/// The modes from which an oracle chooses, the fastest first.
#[derive(Clone, Debug)]
pub struct Truths(Vec<Truth>);

impl Truths {
    /// The modes on a unit with planted errors, without those that another mode beats.
    pub fn new(
        modes: &[TimedMode],
        board: &Board,
        unit: &Unit,
        errors: Option<&ModeErrors>,
    ) -> Self {
        let truths = modes.iter();
        let truths = truths.map(|mode| Truth::new(mode, board, unit, errors));
        Self::unbeaten(truths.collect())
    }

    /// These modes, without those that another mode beats.
    pub fn unbeaten(mut truths: Vec<Truth>) -> Self {
        // Among equal rates, the mode with the least power comes first.
        truths.sort_by(|a, b| {
            let watts = |truth: &Truth| truth.watts(1.0, 1.0);
            let rates = b.rate.total_cmp(&a.rate);
            rates.then(watts(a).total_cmp(&watts(b)))
        });
        let mut kept: Vec<Truth> = Vec::new();
        for truth in truths {
            // The modes kept last draw the least power and beat the most modes.
            if !kept.iter().rev().any(|other| other.beats(&truth)) {
                kept.push(truth);
            }
        }
        Self(kept)
    }

    /// The mode of the least power at full activity.
    fn least(&self) -> Option<&Truth> {
        let watts = |truth: &&Truth| truth.watts(1.0, 1.0);
        let modes = self.0.iter();
        modes.min_by(|a, b| watts(a).total_cmp(&watts(b)))
    }
}

/// A load under limits on a unit with an initial temperature.
#[derive(Clone, Copy, Debug)]
pub struct Oracle<'a> {
    /// The modes from which to choose.
    pub truths: &'a Truths,
    /// The board's thermal model.
    pub thermal: &'a Thermal,
    /// The unit.
    pub unit: &'a Unit,
    /// Temperatures and fan at time zero.
    pub warmth: Warmth,
    /// The load.
    pub load: &'a Load,
    /// Each limit in mW with the time from which it holds.
    pub limits: &'a [(Duration, u32)],
    /// Minibatches and power before this time do not count.
    pub start: Duration,
}

impl Oracle<'_> {
    /// Minibatches of the fixed oracle.
    pub fn fixed(&self) -> f64 {
        let mut board = Warming::new(self);
        let mut minibatches = 0.0;
        let begins = self.limits.iter().skip(1).map(|(from, _)| *from);
        let ends = begins.chain([self.load.length()]);
        for ((_, mw), end) in self.limits.iter().zip(ends) {
            let period = LimitPeriod {
                from: board.warmth.now,
                to: end.min(self.load.length()),
                watts: f64::from(*mw) / 1e3,
            };
            let activities = self.activities(period.from, period.to);
            let mut truths = self.truths.0.iter();
            let chosen = truths.find_map(|truth| match self.may_fit(truth, &activities, &period) {
                true => Some((truth.rate, self.fits(truth, &board, &period)?)),
                false => None,
            });
            let (rate, after) = match (chosen, self.truths.least()) {
                (Some(chosen), _) => chosen,
                (None, Some(least)) => {
                    board.run(least, period.to, |_, _| {});
                    (least.rate, board)
                }
                (None, None) => return 0.0,
            };
            board = after;
            minibatches += rate * self.working_s(period.from.max(self.start), period.to);
        }
        minibatches
    }

    /// Seconds in which the workload makes progress between two times.
    fn working_s(&self, from: Duration, to: Duration) -> f64 {
        let working = self.load.between(from, to);
        let working = working.filter(|(_, activity)| *activity > WORKING);
        working.map(|(seconds, _)| seconds).sum()
    }

    /// Whether a mode fits at the temperature of the air. If it does not, it fits at no higher one.
    fn may_fit(&self, truth: &Truth, activities: &[(Duration, f64)], period: &LimitPeriod) -> bool {
        let leakage = leakage(self.unit, AMBIENT_C);
        let watts = |(end, activity): &(Duration, f64)| (*end, truth.watts(*activity, leakage));
        self.holds(activities.iter().map(watts), period)
    }

    /// Whether all means of 430 ms are within the limit.
    fn holds(
        &self,
        stretches: impl Iterator<Item = (Duration, f64)> + Clone,
        period: &LimitPeriod,
    ) -> bool {
        let begin = period.from.max(self.start);
        let window = LIMIT_WINDOW.min(period.to.saturating_sub(begin));
        let mut lines = lines(stretches, begin, window);
        lines.all(|line| line.above(period.watts).is_none())
    }

    /// The board at the end of the limit's period in a mode, if the mode fits.
    fn fits<'a>(
        &self,
        truth: &Truth,
        board: &Warming<'a>,
        period: &LimitPeriod,
    ) -> Option<Warming<'a>> {
        let mut after = board.clone();
        let mut stretches = Vec::new();
        after.run(truth, period.to, |end, watts| stretches.push((end, watts)));
        let stretches = stretches.iter().copied();
        self.holds(stretches, period).then_some(after)
    }

    /// The end and the activity of each stretch between two times.
    fn activities(&self, from: Duration, to: Duration) -> Vec<(Duration, f64)> {
        let mut end = from;
        let stretches = self.load.between(from, to);
        let stretches = stretches.map(|(seconds, activity)| {
            end += Duration::from_secs_f64(seconds);
            (end, activity)
        });
        stretches.collect()
    }

    /// Minibatches of the clairvoyant oracle.
    pub fn clairvoyant(&self) -> f64 {
        let mut board = Warming::new(self);
        let mut minibatches = 0.0;
        while board.warmth.now < self.load.length() {
            let (from, to) = (
                board.warmth.now,
                (board.warmth.now + SECOND).min(self.load.length()),
            );
            let (worst, limit) = (self.worst(from, to), self.least_limit(from, to));
            let chosen = self.truths.0.iter().find_map(|truth| {
                let watts = |die_c| truth.watts(worst, leakage(self.unit, die_c));
                if watts(board.warmth.heat.die_c) > limit {
                    return None;
                }
                let mut after = board.clone();
                after.run(truth, to, |_, _| {});
                (watts(after.warmth.heat.die_c) <= limit).then_some((truth, after))
            });
            let (rate, after) = match (chosen, self.truths.least()) {
                (Some((truth, after)), _) => (truth.rate, after),
                (None, Some(least)) => {
                    board.run(least, to, |_, _| {});
                    (least.rate, board)
                }
                (None, None) => return 0.0,
            };
            board = after;
            minibatches += rate * self.working_s(from.max(self.start), to);
        }
        minibatches
    }

    /// The highest mean activity of 430 ms between two times. If they are closer, the mean activity
    /// between them.
    fn worst(&self, from: Duration, to: Duration) -> f64 {
        let window = LIMIT_WINDOW.min(to - from);
        let lines = lines(self.activities(from, to).into_iter(), from, window);
        lines.fold(0.0, |worst, line| worst.max(line.first).max(line.last))
    }

    /// The lowest limit in W between two times.
    fn least_limit(&self, from: Duration, to: Duration) -> f64 {
        let at = self.limits.partition_point(|(begin, _)| *begin <= from);
        let limits = self.limits[at.saturating_sub(1)..].iter();
        let limits = limits.take_while(|(begin, _)| *begin < to);
        let least = limits.map(|(_, mw)| *mw).min();
        f64::from(least.unwrap_or(0)) / 1e3
    }
}

/// A limit and the period in which it holds.
#[derive(Clone, Copy, Debug)]
struct LimitPeriod {
    from: Duration,
    to: Duration,
    watts: f64,
}

/// A board that warms up under the load.
#[derive(Clone, Debug)]
struct Warming<'a> {
    oracle: &'a Oracle<'a>,
    warmth: Warmth,
    /// Index of the load's step at that time.
    step: usize,
}

impl<'a> Warming<'a> {
    fn new(oracle: &'a Oracle<'a>) -> Self {
        Self {
            oracle,
            warmth: oracle.warmth,
            step: 0,
        }
    }

    /// Runs in a mode up to a time. Calls `visit` with the end and the power in W of each stretch.
    fn run(&mut self, truth: &Truth, to: Duration, mut visit: impl FnMut(Duration, f64)) {
        let Oracle {
            thermal,
            unit,
            load,
            ..
        } = *self.oracle;
        while self.warmth.now < to {
            let steps = load.steps();
            let end = steps.get(self.step + 1).map(|step| step.from);
            let next = to.min(self.warmth.now + HEAT_STEP).min(end.unwrap_or(to));
            let leakage = leakage(unit, self.warmth.heat.die_c);
            let watts = truth.watts(steps[self.step].activity, leakage);
            self.warmth.draw(thermal, watts, next);
            if end == Some(next) {
                self.step += 1;
            }
            visit(next, watts);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::super::warmth::Fan;
    use super::*;
    use wattgate_simulated_board::heat::Heat;
    use wattgate_simulated_board::load::Step as Move;

    static BOARD: LazyLock<Board> =
        LazyLock::new(|| Board::named("orin-nano-8-super").expect("a board"));

    const LIMITS: [(Duration, u32); 2] =
        [(Duration::ZERO, 30_000), (Duration::from_secs(8), 22_000)];

    /// Modes of many rates and powers, in no order. Some leak much.
    fn modes() -> Vec<Truth> {
        let modes = (0..60_u32).map(|at| {
            let spread = f64::from(at * 37 % 61) / 61.0;
            let other = f64::from(at * 23 % 59) / 59.0;
            Truth {
                rate: 4.0 + 9.0 * spread - 3.0 * other,
                rest: [3.0 + other, 0.5 + 2.0 * other],
                added: [4.0 + 22.0 * spread, 3.0 * other],
            }
        });
        modes.collect()
    }

    fn load() -> Load {
        let step = |ms, activity| Move::new(Duration::from_millis(ms), activity);
        let steps = vec![
            step(0, 1.0),
            step(2_300, 0.02),
            step(4_000, 1.4),
            step(4_250, 0.7),
            step(7_000, 0.4),
            step(9_500, 1.0),
        ];
        Load::new(steps, Duration::from_millis(12_700))
    }

    fn oracle<'a>(truths: &'a Truths, load: &'a Load) -> Oracle<'a> {
        Oracle {
            truths,
            thermal: &BOARD.physics().thermal,
            unit: &Unit::NOMINAL,
            warmth: Warmth::new(Heat::of_air(30.0), Fan::Automatic),
            load,
            limits: &LIMITS,
            start: Duration::from_secs(1),
        }
    }

    /// By brute force, ms by ms: the fastest mode that is within a limit in every window of 430 ms
    /// from `begin` to `end`. Returns the board after that mode, the mode's rate, and the number of
    /// modes that fit.
    fn fastest<'a>(
        board: &Warming<'a>,
        begin: u64,
        end: u64,
        limit: f64,
    ) -> (Warming<'a>, f64, usize) {
        let fitting = modes().into_iter().filter_map(|truth| {
            let (mut after, mut watts) = (board.clone(), Vec::new());
            let mut at = after.warmth.now;
            after.run(&truth, Duration::from_millis(end), |end, power| {
                while at < end {
                    at += Duration::from_millis(1);
                    watts.push(power);
                }
            });
            let watts = &watts[watts.len() - (end - begin) as usize..];
            let mean = |window: &[f64]| window.iter().sum::<f64>() / 430.0;
            let fits = watts
                .windows(430)
                .all(|window| mean(window) <= limit + 1e-9);
            fits.then_some((after, truth.rate))
        });
        let fitting: Vec<_> = fitting.collect();
        let number = fitting.len();
        let fastest = fitting.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let (after, rate) = fastest.expect("a mode fits");
        (after, rate, number)
    }

    #[test]
    fn the_fixed_oracle_takes_the_fastest_that_fits_for_each_limit() {
        let (truths, load) = (Truths::unbeaten(modes()), load());
        let oracle = oracle(&truths, &load);
        let (board, first, number) = fastest(&Warming::new(&oracle), 1_000, 8_000, 30.0);
        assert!((2..58).contains(&number), "{number}");
        let (_, second, fewer) = fastest(&board, 8_000, 12_700, 22.0);
        assert!((2..number).contains(&fewer), "{fewer} of {number}");
        assert!(second < first);
        // 1.3 s and from 4 s on, and under the second limit all the time.
        let expected = first * (1.3 + 4.0) + second * 4.7;
        let found = oracle.fixed();
        assert!((found - expected).abs() < 1e-9, "{found}, not {expected}");
    }

    #[test]
    fn modes_that_are_left_out_change_nothing() {
        let load = load();
        let kept = Truths::unbeaten(modes());
        assert!(kept.0.len() < modes().len());
        let mut all = Truths(modes());
        all.0.sort_by(|a, b| b.rate.total_cmp(&a.rate));
        for choose in [Oracle::fixed, Oracle::clairvoyant] {
            assert_eq!(choose(&oracle(&kept, &load)), choose(&oracle(&all, &load)));
        }
    }

    #[test]
    fn the_clairvoyant_oracle_takes_the_fastest_for_each_second() {
        // Without leakage the temperature does not matter.
        let mut modes = modes();
        for truth in &mut modes {
            (truth.rest[1], truth.added[1]) = (0.0, 0.0);
        }
        let (truths, load) = (Truths::unbeaten(modes.clone()), load());
        // The worst activity in 430 ms of each second, and the seconds with work in it.
        let mixed = (0.25 * 1.4 + 0.18 * 0.7) / 0.43;
        let seconds = [
            (1.0, 30.0, 1.0),
            (0.3 / 0.43 * 1.0 + 0.13 / 0.43 * 0.02, 30.0, 0.3),
            (0.02, 30.0, 0.0),
            (mixed, 30.0, 1.0),
            (0.7, 30.0, 1.0),
            (0.7, 30.0, 1.0),
            (0.4, 30.0, 1.0),
            (0.4, 22.0, 1.0),
            (1.0, 22.0, 1.0),
            (1.0, 22.0, 1.0),
            (1.0, 22.0, 1.0),
            (1.0, 22.0, 0.7),
        ];
        let best = |activity: f64, limit: f64| {
            let within = modes.iter();
            let within = within.filter(|truth| truth.watts(activity, 0.0) <= limit);
            within.map(|truth| truth.rate).fold(0.0, f64::max)
        };
        let expected: f64 = seconds
            .iter()
            .map(|(activity, limit, work)| work * best(*activity, *limit))
            .sum();
        let found = oracle(&truths, &load).clairvoyant();
        assert!((found - expected).abs() < 1e-6, "{found}, not {expected}");
        assert!(found > oracle(&truths, &load).fixed());
    }

    #[test]
    fn heat_that_leaks_costs_speed() {
        let (truths, load) = (Truths::unbeaten(modes()), load());
        let cold = oracle(&truths, &load);
        let hot = Oracle {
            warmth: Warmth::new(Heat::of_air(90.0), Fan::Automatic),
            ..cold
        };
        assert!(hot.fixed() < cold.fixed() && hot.clairvoyant() < cold.clairvoyant());
    }

    #[test]
    fn where_nothing_fits_the_least_mode_runs() {
        let (truths, load) = (Truths::unbeaten(modes()), load());
        let limits = [(Duration::ZERO, 1_000)];
        let oracle = Oracle {
            limits: &limits,
            ..oracle(&truths, &load)
        };
        let least = truths.least().expect("a mode").rate;
        assert!((oracle.fixed() - 10.0 * least).abs() < 1e-9);
        // In seconds without load nothing works, in whatever mode.
        assert!((oracle.clairvoyant() - 10.0 * least).abs() < 1e-9);
    }
}
