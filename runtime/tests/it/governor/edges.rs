//! Clocks that jump, sensors that stand still, boards that are slow, reads that fail.

use wattgate_runtime::estimator::{Chip, Estimator, MOST_CHIPS};
use wattgate_runtime::front::Least;
use wattgate_runtime::governor::{Average, Cause, ReadBack, State};
use wattgate_runtime::{
    Command, Front, Governor, Input, Limit, Microseconds, Milliseconds, Milliwatts, ModeId, Sample,
    Settings,
};

use super::{ensure, holds_for};
use crate::plant::{
    FINE, L4T, POINTS, Plant, Sensor, SensorChip, front, full, governor, limit, random, works,
};

const LIMIT: u32 = 25_000;

/// A board at full work whose readings follow at once.
struct Board {
    governor: Governor<POINTS>,
    clock: u64,
    mode: ModeId,
    factor: f64,
    over_ms: u64,
}

impl Board {
    fn new() -> Self {
        Self::that_remembers(Settings::default().memory)
    }

    /// A governor that remembers a level for a time of work.
    fn that_remembers(memory: Option<Milliseconds>) -> Self {
        let chip = Chip {
            time_constant: Milliseconds(0),
            step: Milliwatts(40),
        };
        let settings = Settings {
            chips: [chip; MOST_CHIPS],
            memory,
            ..Settings::default()
        };
        let governor = governor(front(), settings, limit(LIMIT)).expect("a front");
        Self {
            mode: governor.front().points()[0].mode,
            governor,
            clock: 10_000_000,
            factor: 1.0,
            over_ms: 0,
        }
    }

    fn power(&self) -> f64 {
        let points = self.governor.front().points();
        let point = points.iter().find(|point| point.mode == self.mode);
        self.factor * f64::from(point.expect("a mode of the front").power.0)
    }

    fn input(&self) -> Input {
        let mut input = Input::at(Milliseconds(self.clock));
        input.sample = Some(Sample::one(Milliwatts(self.power() as u32)));
        (input.mode, input.gpu_load) = (Some(self.mode).into(), Some(1_000));
        input
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms / 20 {
            if let Command::Apply(mode) = self.governor.step(&self.input()) {
                self.mode = mode;
            }
            self.clock = self.clock.wrapping_add(20);
            self.over_ms += if self.power() > f64::from(LIMIT) {
                20
            } else {
                0
            };
        }
    }
}

#[test]
fn a_clock_that_steps_back_is_a_gap_and_the_limit_holds() {
    for back in [40, 3_600_000, 9_000_000] {
        let mut board = Board::new();
        board.run(30_000);
        board.clock -= back;
        board.run(1_000);
        (board.factor, board.over_ms) = (1.6, 0);
        board.run(60_000);
        assert!(board.over_ms <= 100, "over for {} ms", board.over_ms);
        assert_eq!(board.governor.status().gaps, 1);
        let ahead = board.governor.due().since(Milliseconds(board.clock));
        assert!(ahead.0 <= 100, "the next look is {} ms ahead", ahead.0);
    }
}

#[test]
fn a_clock_at_its_maximum_for_one_sample_changes_neither_the_energy_nor_the_limit() {
    let mut board = Board::new();
    board.run(30_000);
    let (clock, before) = (board.clock, board.governor.status().millijoules);
    board.clock = u64::MAX;
    board.run(20);
    board.clock = clock;
    board.run(1_000);
    (board.factor, board.over_ms) = (1.6, 0);
    board.run(60_000);
    assert!(board.over_ms <= 100, "over for {} ms", board.over_ms);
    let after = board.governor.status();
    assert!(after.millijoules - before < 2_000_000, "{after:?}");
    assert_eq!(after.gaps, 2);
}

/// A clock that stands: no time passes, so nothing is decided by time.
#[test]
fn a_clock_that_stands_changes_nothing() {
    let mut board = Board::new();
    board.run(30_000);
    board.governor.step(&board.input());
    let before = board.governor.status();
    for _ in 0..1_000 {
        assert_eq!(board.governor.step(&board.input()), Command::Keep);
    }
    assert_eq!(board.governor.status(), before);
}

/// The usual case on a microcontroller: neither a load of the GPU nor steps.
#[test]
fn a_sensor_that_stands_still_is_blind_without_a_load_of_the_gpu() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::typical(LIMIT, seed, L4T);
        let level = if seed % 2 == 0 { 1.0 } else { 0.2 };
        plant.load = Box::new(move |_| (level, None));
        plant.run(60_000, LIMIT);
        plant.is_frozen = true;
        plant.run(40_000, LIMIT);
        let states: Vec<State> = plant.states.iter().map(|(_, state)| *state).collect();
        ensure(states.contains(&super::states::NO_SENSOR), || {
            format!("{states:?}")
        })
    });
}

const fn chip(share: f64) -> SensorChip {
    SensorChip {
        share,
        time_constant: 430.0,
        step: 100.0,
    }
}

const TWO_CHIPS: Sensor = Sensor {
    chips: [chip(0.8), chip(0.2), chip(0.0), chip(0.0)],
};

/// The chip that measures most stands still; the other one moves.
fn first_chip_stands(_: u64, mut sample: Sample) -> Option<Sample> {
    sample.chips[0] = Some(Milliwatts(16_000));
    Some(sample)
}

#[test]
fn a_main_chip_that_stands_still_is_blind_though_another_one_moves() {
    holds_for(1_000..1_008, |seed| {
        let mut plant = Plant::typical(LIMIT, seed, TWO_CHIPS);
        plant.run(60_000, LIMIT);
        plant.sensor_fault = first_chip_stands;
        plant.run(40_000, LIMIT);
        let last = plant.state();
        ensure(last == super::states::NO_SENSOR, || format!("{last:?}"))
    });
}

/// A chip fails for good.
fn second_chip_fails(_: u64, mut sample: Sample) -> Option<Sample> {
    sample.chips[1] = None;
    Some(sample)
}

#[test]
fn a_chip_that_cannot_be_read_makes_the_sensor_blind_within_2_s() {
    let mut plant = Plant::typical(LIMIT, 1_000, TWO_CHIPS);
    plant.run(60_000, LIMIT);
    plant.sensor_fault = second_chip_fails;
    plant.run(2_000, LIMIT);
    assert_eq!(plant.state(), super::states::NO_SENSOR);
    plant.sensor_fault = works;
    plant.run_to(State::Tracking, 60_000, LIMIT);
}

/// A governor that ran another workload chooses as a new one does.
#[test]
fn a_new_front_forgets_the_load_of_the_old_one() {
    holds_for(1_000..1_030, |seed| {
        let mut old = Plant::typical(40_000, seed, FINE);
        old.factor = 0.8;
        // The front is replaced in a short phase of a higher load.
        old.load = Box::new(|now| (if now > 58_800 { 1.0 } else { 0.6 }, Some(1_000)));
        old.run(60_000, 40_000);
        old.governor.set_front(front()).expect("the same front");
        let first = old.run_to_next_step(40_000);
        let new = governor(front(), Settings::default(), limit(40_000)).expect("a front");
        let power = |mode: Option<ModeId>| old.milliwatts(mode.expect("a mode"), 1.0);
        let part = power(first) / power(new.first());
        ensure(part > 0.9, || {
            format!("{part:.3} of a new governor's first mode")
        })?;
        old.load = Box::new(full);
        old.run(30_000, 40_000);
        let mut fresh = Plant::typical(40_000, seed, FINE);
        fresh.factor = 0.8;
        fresh.run(30_000, 40_000);
        let (one, other) = (old.draws_now(), fresh.draws_now());
        ensure(one > 0.9 * other, || {
            format!("{one:.0} mW, {other:.0} mW with a new governor")
        })
    });
}

/// The mode takes 20 ms, and the caller steps each 5 ms.
#[test]
fn a_board_slower_than_the_steps_is_waited_for() {
    for takes in [5, 20, 60, 140] {
        let mut board = Board::new();
        let mut coming: Option<(u64, ModeId)> = None;
        for _ in 0..6_000 {
            let mut input = board.input();
            if coming.is_some() {
                input.mode = ReadBack::Other;
            }
            if let Command::Apply(mode) = board.governor.step(&input) {
                coming = Some((board.clock + takes, mode));
            }
            board.clock += 5;
            if let Some((at, mode)) = coming
                && board.clock >= at
            {
                (board.mode, coming) = (mode, None);
            }
        }
        let state = board.governor.status().state;
        assert_eq!(state, State::Tracking, "{takes} ms");
        assert!(board.power() > 0.9 * f64::from(LIMIT), "{takes} ms");
    }
}

/// The first reading of a chip is 0, as if it were absent.
#[test]
fn a_first_reading_of_0_is_no_step_of_the_power() {
    let mut estimator = Estimator::new([Chip::L4T; MOST_CHIPS]);
    estimator.update(&Sample::one(Milliwatts(0)), Milliseconds(1_000));
    for number in 1..40 {
        estimator.update(
            &Sample::one(Milliwatts(20_000)),
            Milliseconds(1_000 + 25 * number),
        );
        let power = estimator.estimate().expect("a reading").power;
        assert!((18_000.0..22_000.0).contains(&power), "{power} mW");
    }
}

/// One read in 16 fails, which is one in 400 ms.
fn some_fail(now: u64, sample: Sample) -> Option<Sample> {
    (random(7, now / 25) > 1.0 / 16.0).then_some(sample)
}

#[test]
fn a_read_that_fails_now_and_then_keeps_neither_the_mean_nor_the_climb() {
    holds_for(1_000..1_016, |seed| {
        let mut plant = Plant::typical(LIMIT, seed, FINE);
        plant.sensor_fault = some_fail;
        plant.run(20_000, LIMIT);
        plant.governor.set_limit(limit(40_000));
        let mut measured = 0;
        for _ in 0..600 {
            plant.run(100, 40_000);
            measured += u32::from(plant.status().measured.is_some());
        }
        let power = plant.draws_now();
        ensure(measured > 450 && power > 34_000.0, || {
            format!("{measured} of 600 means, {power:.0} mW")
        })
    });
}

/// A board at rest draws less than an eighth of what the model predicts for the workload.
#[test]
fn an_idle_board_below_an_eighth_of_the_prediction_is_not_blind() {
    let mut board = Board::new();
    board.run(30_000);
    let mode = board.mode;
    board.factor = 0.1;
    for _ in 0..500 {
        board.factor += 1e-5;
        let mut input = board.input();
        input.gpu_load = Some(0);
        assert_eq!(board.governor.step(&input), Command::Keep);
        board.clock += 20;
    }
    assert_eq!(board.governor.status().mode, mode);
}

/// With a fast shunt and a fast board, the limit holds over 20 ms.
#[test]
fn a_window_of_20_ms_holds_with_a_shunt_of_1_khz() {
    let mut board = Board::new();
    let mut settings = Settings {
        sample_interval: Milliseconds(1),
        settling: Milliseconds(2),
        window: Milliseconds(20),
        ..Settings::default()
    };
    for chip in &mut settings.chips {
        (chip.time_constant, chip.step) = (Milliseconds(0), Milliwatts(40));
    }
    board.governor = governor(front(), settings, limit(LIMIT)).expect("a front");
    assert_eq!(board.governor.status().window, Milliseconds(20));
    let (mut recent, mut over) = (std::collections::VecDeque::new(), 0);
    for ms in 0..120_000_u64 {
        // A load that jumps each half second.
        board.factor = if ms / 500 % 2 == 0 { 0.8 } else { 1.3 };
        board.factor *= 1.0 + 0.02 * (random(3, ms) - 0.5);
        if let Command::Apply(mode) = board.governor.step(&board.input()) {
            board.mode = mode;
        }
        board.clock += 1;
        recent.push_back(board.power());
        if recent.len() > 20 {
            recent.pop_front();
        }
        let mean = recent.iter().sum::<f64>() / 20.0;
        over += u64::from(mean > 1.01 * f64::from(LIMIT));
    }
    assert!(over <= 120, "over for {over} ms of 120 s");
    let power = board.power();
    assert!(power > 0.5 * f64::from(LIMIT), "{power:.0} mW");
}

/// The window never is shorter than what the sensor and the board need.
#[test]
fn the_window_follows_a_slower_sensor() {
    let settings = Settings {
        window: Milliseconds(20),
        ..Settings::default()
    };
    let shortest = settings.shortest_window();
    assert_eq!(shortest, Milliseconds(430 / 6 + 2 * 25 + 2 * 20));
    let mut governor = governor(front(), settings, limit(LIMIT)).expect("a front");
    assert_eq!(governor.status().window, shortest);
    for chip in 0..MOST_CHIPS {
        let set = governor.set_time_constant(chip, Milliseconds(54));
        assert_eq!(set, Ok(()));
    }
    assert_eq!(governor.status().window, Milliseconds(54 / 6 + 50 + 40));
}

/// A battery that cannot deliver what the limit allows says so 2 s late. What is given back lasts longer each time.
#[test]
fn an_over_current_that_returns_is_derated_for_longer_each_time() {
    let mut board = Board::new();
    let (mut events, mut since) = (0, None);
    for step in 0..90_000_u64 {
        let mut input = board.input();
        since = match board.power() > 22_500.0 {
            true => since.or(Some(step)),
            false => None,
        };
        input.over_current = since.is_some_and(|since| step == since + 100);
        events += u64::from(input.over_current);
        if let Command::Apply(mode) = board.governor.step(&input) {
            board.mode = mode;
        }
        board.clock += 20;
    }
    assert!((2..=7).contains(&events), "{events} events in half an hour");
}

/// A clock that never lets a window pass: it steps back at each sample, or twice a second, or once a second. Or the
/// caller is too slow. What the load draws cannot be measured then.
#[test]
fn gaps_without_a_measurement_between_them_lead_to_the_least_mode() {
    for (every, step) in [(1, -40), (20, -3_600_000), (45, -3_600_000), (1, 6_000)] {
        let mut board = Board::new();
        board.run(30_000);
        board.factor = 1.6;
        let mut over = 0;
        for number in 1..1_500_u64 {
            if let Command::Apply(mode) = board.governor.step(&board.input()) {
                board.mode = mode;
            }
            board.clock += 20;
            if number % every == 0 {
                board.clock = board.clock.saturating_add_signed(step);
            }
            over += u64::from(board.power() > f64::from(LIMIT));
        }
        assert!(
            over <= 150,
            "every {every} looks {step} ms: over at {over} of 1,500"
        );
        // The higher load is forgotten after 84 s of work.
        board.factor = 1.0;
        board.run(150_000);
        assert!(
            board.power() > 0.9 * f64::from(LIMIT),
            "{every} {step}: it comes back"
        );
    }
}

/// An idle board shows the same reading for ever. Without a load of the GPU nothing tells it from a dead sensor, so it
/// is probed, seldom.
#[test]
fn an_idle_board_without_a_load_of_the_gpu_is_probed_seldom() {
    let mut board = Board::new();
    board.run(30_000);
    board.factor = 0.2;
    let mut changes = 0;
    for _ in 0..90_000 {
        let mut input = board.input();
        input.gpu_load = None;
        if let Command::Apply(mode) = board.governor.step(&input) {
            board.mode = mode;
            changes += 1;
        }
        board.clock += 20;
    }
    assert!(changes <= 40, "{changes} changes in half an hour");
}

/// One sample in two does not read the mode.
#[test]
fn a_read_back_that_is_missing_now_and_then_costs_nothing() {
    let mut board = Board::new();
    board.run(30_000);
    board.factor = 1.6;
    let mut over_ms = 0;
    for number in 0..3_000 {
        let mut input = board.input();
        if number % 2 == 0 {
            input.mode = ReadBack::Missing;
        }
        if let Command::Apply(mode) = board.governor.step(&input) {
            board.mode = mode;
        }
        board.clock += 20;
        over_ms += if board.power() > f64::from(LIMIT) {
            20
        } else {
            0
        };
    }
    assert!(over_ms <= 120, "over for {over_ms} ms");
    assert_eq!(board.governor.status().state, State::Tracking);
}

#[test]
fn a_read_back_that_stays_missing_counts_as_another_mode() {
    let mut board = Board::new();
    board.run(20_000);
    let wanted = board.mode;
    let first = (0..100).find(|_| {
        let mut input = board.input();
        input.mode = ReadBack::Missing;
        board.clock += 20;
        board.governor.step(&input) == Command::Apply(wanted)
    });
    assert_eq!(first, Some(7), "looks of 20 ms");
}

/// Of the modes, only a few can be set, and the first choices are not among them.
#[test]
fn a_mode_that_can_be_set_is_found() {
    let mut board = Board::new();
    let points = board.governor.front().points();
    let settable: Vec<ModeId> = points
        .iter()
        .skip(3)
        .step_by(17)
        .map(|it| it.mode)
        .collect();
    // The board runs in its fastest mode until one is set.
    let mut at = points.last().expect("modes").mode;
    let mut asked = 0;
    for _ in 0..60 * 50 {
        board.mode = at;
        let mut input = board.input();
        let status = board.governor.status();
        input.mode = Some(at).filter(|mode| *mode == status.mode).into();
        if let Command::Apply(mode) = board.governor.step(&input) {
            asked += 1;
            if settable.contains(&mode) {
                at = mode;
            }
        }
        board.clock += 20;
    }
    board.mode = at;
    assert!(settable.contains(&at), "asked {asked} times");
    assert!(board.power() <= f64::from(LIMIT), "{} mW", board.power());
    assert_ne!(
        board.governor.status().state,
        State::Safe(Cause::NothingApplies)
    );
}

/// Steps that are told, as anybody may tell them: none; more each time; the same again and again; back and forth.
const TOLD: [fn(u64) -> Option<u64>; 4] = [
    |_| None,
    |number| Some(1_000_000 * number),
    |_| Some(500),
    |number| Some(number * 7_919 % 1_000),
];

#[test]
fn no_steps_make_a_sensor_that_stands_still_pass() {
    for told in TOLD {
        let mut board = Board::new();
        for number in 0..500 {
            let mut input = board.input();
            (input.gpu_load, input.steps) = (None, told(number));
            if let Command::Apply(mode) = board.governor.step(&input) {
                board.mode = mode;
            }
            board.clock += 20;
        }
        // The sensor stands still. The mode that tests it must show.
        let frozen = board.input().sample;
        let is_blind = (500..6_500).any(|number| {
            let mut input = board.input();
            (input.gpu_load, input.sample, input.steps) = (None, frozen, told(number));
            if let Command::Apply(mode) = board.governor.step(&input) {
                board.mode = mode;
            }
            board.clock += 20;
            board.governor.status().state == State::Safe(Cause::NoSensor)
        });
        assert!(is_blind, "with steps such as {:?}", told(499));
    }
}

/// A minute at a peak, and five minutes of half of it: with a short memory, the peak is forgotten, and a faster mode runs.
#[test]
fn no_steps_make_a_peak_forgotten_sooner() {
    for gpu_load in [None, Some(1_000)] {
        let modes = TOLD.map(|told| {
            let mut board = Board::that_remembers(Some(Milliseconds(60_000)));
            let mut modes = Vec::new();
            for number in 0..18_000 {
                board.factor = if number < 3_000 { 1.3 } else { 0.8 };
                let mut input = board.input();
                (input.gpu_load, input.steps) = (gpu_load, told(number));
                if let Command::Apply(mode) = board.governor.step(&input) {
                    board.mode = mode;
                }
                board.clock += 20;
                modes.push(board.governor.status().mode);
            }
            let points = board.governor.front().points();
            let place = |mode: &ModeId| points.iter().position(|point| point.mode == *mode);
            let places = modes.iter().map(place);
            places.collect::<Vec<_>>()
        });
        let [untold, growing, still, random] = modes;
        assert!(
            untold.last() > untold.get(4_000),
            "the peak is forgotten at last"
        );
        assert!(growing == untold && random == untold);
        let pairs = || still.iter().zip(&untold);
        assert!(
            pairs().all(|(with, without)| with <= without),
            "a faster mode"
        );
    }
}

#[test]
fn without_a_front_a_missing_sensor_spends_no_more_than_the_limit() {
    let average = Average {
        power: Milliwatts(15_000),
        window: Milliseconds(60_000),
    };
    let limit = Limit {
        average: Some(average),
        ..limit(15_000)
    };
    let mut governor: Governor<POINTS> = Governor::new(Settings::L4T, limit);
    for step in 0..200 {
        let mut input = Input::at(Milliseconds(50 * step));
        input.sample = Some(Sample::one(Milliwatts(3_000))).filter(|_| step % 40 == 20);
        assert_eq!(governor.step(&input), Command::Keep);
    }
    assert_eq!(governor.set_front(front()), Ok(()));
    let status = governor.status();
    assert!(status.millijoules <= 150_000, "{status:?}");
    assert!(status.allowed > Milliwatts(10_000), "{status:?}");
}

#[test]
fn after_a_blind_take_over_the_next_watch_releases_the_board() {
    let mut board = Board::new();
    board.run(10_000);
    for _ in 0..150 {
        let mut input = board.input();
        input.sample = None;
        board.governor.watch(&input);
        board.clock += 20;
    }
    let mut input = board.input();
    input.sample = None;
    board.governor.step(&input);
    assert_eq!(board.governor.status().state, State::Safe(Cause::NoSensor));
    board.run(60_000);
    assert_eq!(board.governor.status().state, State::Tracking);
    board.governor.watch(&board.input());
    assert_eq!(board.governor.status().state, State::Booting);
}

/// The caller tells another phase each half second, so the load is never steady.
#[test]
fn a_load_that_is_never_steady_does_not_hide_that_the_limit_cannot_be_held() {
    let mut board = Board::new();
    board.factor = 4.0;
    for number in 0..1_000 {
        let mut input = board.input();
        input.phase = Some(number / 25 % 2);
        if let Command::Apply(mode) = board.governor.step(&input) {
            board.mode = mode;
        }
        board.clock += 20;
    }
    assert_eq!(
        board.governor.status().state,
        State::Safe(Cause::CannotHold)
    );
    assert_eq!(board.mode, board.governor.front().points()[0].mode);
}

#[test]
fn a_power_of_zero_in_a_front_counts_as_one_milliwatt_or_is_left_out() {
    let all = front();
    let modes = all.points().iter().zip(all.times()).zip(0..);
    let front = Front::<POINTS>::of_unknown(
        modes.map(|((point, time), power)| (point.mode, Milliwatts(power), *time)),
    );
    assert_eq!(front.points()[0].power, Milliwatts(1));
    let mut front = all;
    front.put_least(Least::Other, Milliwatts(0), Microseconds(1 << 30));
    assert_eq!(front.points()[0].power, Milliwatts(1));
}
