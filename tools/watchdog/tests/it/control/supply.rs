//! Limits of the supply, whose power is computed or metered: on a simulated board with a simulated supply.

use std::ops::Range;
use std::time::Duration;

use super::{Running, config, orin, setup};
use crate::board::{Simulated, booted, load};
use wattgate_board::Files;
use wattgate_runtime::governor::{Average, Budget, Cause, State};
use wattgate_runtime::{Limit, Milliseconds, Milliwatts};
use wattgate_simulated_board::tree::Errno;
use wattgate_watchdog::config::Config;
use wattgate_watchdog::meter::MeterFault;

/// The model predicts a third more than the board draws, and the governor takes up to 90 s to trust that.
const LEARNING: u64 = 150;

const METER: &str = "/sys/class/hwmon/hwmon9/power1_input";

/// What the supply loses and feeds beside the module, and how its meter shows its power.
#[derive(Clone, Copy)]
struct Truth {
    efficiency: f64,
    offset_w: f64,
    /// Time constant of the meter in s, and standard deviation of its noise in W.
    lag_s: f64,
    noise_w: f64,
}

/// The supply of the tests' configs.
const TOLD: Truth = Truth {
    efficiency: 0.9,
    offset_w: 2.5,
    lag_s: 2.0,
    noise_w: 0.0,
};

/// A board with a supply.
struct Supplied {
    running: Running,
    truth: Truth,
    /// What was switched on beside the module, in W.
    extra_w: f64,
    /// Whether the meter stands still.
    is_stuck: bool,
    has_meter: bool,
    /// What the meter shows without noise; `None` before the first step.
    shown_w: Option<f64>,
    before: (Duration, f64),
    random: u64,
}

fn with_supply(limit: &str, supply: &str) -> Config {
    let text = format!("version = 1\nmodel = \"m\"\nlimit = \"{limit}\"\nsupply = {{ {supply} }}");
    let mut with = Config::parse(&text, "test.toml".as_ref()).expect("a config");
    with.model = config("30W").model;
    with
}

impl Supplied {
    /// A board that has idled and begins to run ResNet-18, with a meter if the config has one.
    fn new(limit: &str, supply: &str, truth: Truth) -> Self {
        let config = with_supply(limit, supply);
        let has_meter = config.supply.as_ref().is_some_and(|it| it.meter.is_some());
        let mut files = booted("orin-agx-64");
        files.wait(Duration::from_secs(5));
        let mut running = Running::with(files, config);
        let before = Self::energy(&mut running);
        let mut supplied = Self {
            running,
            truth,
            extra_w: 0.0,
            is_stuck: false,
            has_meter,
            shown_w: None,
            before,
            random: 7_919,
        };
        let watts = supplied.files().tree.jetson().watts().total();
        supplied.show(watts, 0.0);
        load(supplied.files());
        supplied
    }

    fn files(&mut self) -> &mut Simulated {
        self.running.control.files()
    }

    fn energy(running: &mut Running) -> (Duration, f64) {
        let joules = running.control.files().tree.jetson().energy_j();
        (running.now(), joules)
    }

    fn supply_w(&self, module_w: f64) -> f64 {
        module_w / self.truth.efficiency + self.truth.offset_w + self.extra_w
    }

    /// About normal, with a standard deviation of 1.
    fn noise(&mut self) -> f64 {
        let mut sum = -6.0;
        for _ in 0..12 {
            self.random ^= self.random << 13;
            self.random ^= self.random >> 7;
            self.random ^= self.random << 17;
            sum += (self.random % 1_000_000) as f64 / 1e6;
        }
        sum
    }

    /// Lets the meter show a power that was drawn for a time.
    fn show(&mut self, module_w: f64, seconds: f64) {
        let watts = self.supply_w(module_w);
        let before = self.shown_w.unwrap_or(watts);
        let shown = watts + (before - watts) * (-seconds / self.truth.lag_s).exp();
        self.shown_w = Some(shown);
        if self.has_meter && !self.is_stuck {
            let noisy = shown + self.truth.noise_w * self.noise();
            self.write(&format!("{:.0}\n", 1e6 * noisy));
        }
    }

    fn write(&mut self, text: &str) {
        let text = text.as_bytes().to_vec();
        self.files().shown.insert(METER.to_owned(), Ok(text));
    }

    /// Takes the meter away, or lets it show something for good.
    fn meter(&mut self, shown: Option<Result<&str, Errno>>) {
        self.has_meter = false;
        self.files().shown.remove(METER);
        if let Some(shown) = shown {
            let shown = shown.map(|text| text.as_bytes().to_vec());
            self.files().shown.insert(METER.to_owned(), shown);
        }
    }

    /// Runs for some seconds. Returns the highest and the mean power of the supply in W; the highest over one second.
    fn run(&mut self, seconds: u64) -> (f64, f64) {
        let start = self.running.now();
        let (mut most, mut sum, mut second) = (0_f64, 0.0, (0.0, 0.0));
        while self.running.now() < start + Duration::from_secs(seconds) {
            self.running.step();
            let now = Self::energy(&mut self.running);
            let before = std::mem::replace(&mut self.before, now);
            let passed = (now.0 - before.0).as_secs_f64();
            if passed == 0.0 {
                continue;
            }
            let module_w = (now.1 - before.1) / passed;
            self.show(module_w, passed);
            let joules = self.supply_w(module_w) * passed;
            sum += joules;
            second = (second.0 + passed, second.1 + joules);
            if second.0 >= 1.0 {
                most = most.max(second.1 / second.0);
                second = (0.0, 0.0);
            }
        }
        (most, sum / (self.running.now() - start).as_secs_f64())
    }

    /// Runs for some seconds, in which the highest power of a second stays below `most` W, and the mean is above `least` W.
    fn holds(&mut self, seconds: u64, most: f64, least: f64) {
        let (highest, mean) = self.run(seconds);
        assert!(
            highest < most && mean > least,
            "{highest} W, {mean} W: {}",
            self.log()
        );
    }

    /// What was added for the meter is within this range in W.
    fn has_added(&self, range: Range<f64>) {
        let added = self.added_w();
        assert!(range.contains(&added), "{added} W: {}", self.log());
    }

    fn added_w(&self) -> f64 {
        f64::from(self.running.control.supply().added().0) / 1e3
    }

    fn fault(&self) -> Option<MeterFault> {
        self.running
            .control
            .supply()
            .meter()
            .expect("a meter")
            .fault()
    }

    fn changes(&self) -> u32 {
        self.running.control.status().0.changes
    }

    fn log(&self) -> String {
        self.running.log.join("\n")
    }
}

const COMPUTED: &str = "efficiency = 0.9, offset = \"2.5W\"";

fn metered() -> String {
    format!("{COMPUTED}, meter = \"{METER}\"")
}

#[test]
fn a_limit_of_the_supply_is_held_and_used_without_a_meter() {
    let mut supplied = Supplied::new("36W", COMPUTED, TOLD);
    supplied.run(LEARNING);
    supplied.holds(60, 36.3, 32.0);
    // As a lease or a lowered limit does.
    supplied
        .running
        .control
        .set_limit(Limit::from_power(Milliwatts(25_000)));
    supplied.run(2);
    supplied.holds(60, 25.2, 20.0);
}

#[test]
fn an_average_and_a_budget_are_the_supplys() {
    let power = Milliwatts(22_000);
    let window = Milliseconds(60_000);
    let average = Some(Average { power, window });
    let budget = Some(Budget {
        millijoules: 22_000 * 600,
        time: Milliseconds(600_000),
    });
    for (average, budget, seconds) in [(average, None, 180), (None, budget, 480)] {
        // A fan of 3 W, which the meter alone shows, counts as well.
        let mut supplied = Supplied::new("40W", &metered(), TOLD);
        supplied.extra_w = 3.0;
        supplied.run(10);
        supplied.running.control.set_limit(Limit {
            power: Milliwatts(40_000),
            average,
            budget,
        });
        supplied.run(if budget.is_some() { 1 } else { 120 });
        let (_, mean) = supplied.run(seconds);
        assert!((18.5..22.3).contains(&mean), "{mean} W: {}", supplied.log());
    }
}

#[test]
fn a_meter_that_lags_does_not_make_the_loop_swing() {
    let course = |supply: &str, lag_s: f64| {
        let mut supplied = Supplied::new("36W", supply, Truth { lag_s, ..TOLD });
        supplied.run(LEARNING);
        let before = supplied.changes();
        let (most, mean) = supplied.run(120);
        let steady = supplied.changes() - before;
        let mut swings = 0.0_f64;
        for _ in 0..5 {
            for command in [
                "power 0.7",
                "power 1.3",
                "load off",
                "load resnet18",
                "power 1",
            ] {
                supplied.running.inject(command);
                supplied.run(20);
                swings = swings.max(supplied.added_w());
            }
        }
        println!(
            "| lag {lag_s} s | {most:.2} W | {mean:.2} W | {steady} changes | {} changes of the moving load | {swings} W added |",
            supplied.changes() - before - steady
        );
        (most, mean, steady, supplied.changes(), swings)
    };
    let (_, alone, _, all, _) = course(COMPUTED, 2.0);
    for lag_s in [0.1, 2.0, 4.0, 10.0] {
        let (most, mean, steady, changes, swings) = course(&metered(), lag_s);
        assert!(
            most < 36.3 && mean > 0.97 * alone,
            "{lag_s} s: {most} W, {mean} W, alone {alone} W"
        );
        assert!(steady <= 4, "{lag_s} s: {steady} changes");
        // The load changes 25 times.
        assert!(
            changes <= all + 25,
            "{lag_s} s: {changes} changes, alone {all}"
        );
        // One that lags longer than the computed power explains it costs speed, and no more.
        let most = if lag_s > 4.0 { 12.0 } else { 1.5 };
        assert!(swings <= most, "{lag_s} s: {swings} W");
    }
}

#[test]
fn what_the_meter_shows_above_the_computed_power_is_taken_from_the_module() {
    let mut supplied = Supplied::new("36W", &metered(), TOLD);
    supplied.run(LEARNING);
    assert!(supplied.added_w() <= 0.3, "{} W", supplied.added_w());
    // Without the fan, the limit is used.
    let (most, alone) = supplied.run(60);
    assert!(most < 36.3 && alone > 31.5, "{most} W, {alone} W");
    supplied.extra_w = 5.0;
    let seconds = (1..=15).filter(|_| supplied.run(1).1 > 36.3).count();
    println!("5 W that are switched on beside the module: over the limit for {seconds} s");
    assert!(
        (1..=8).contains(&seconds),
        "{seconds} s: {}",
        supplied.log()
    );
    supplied.holds(60, 36.4, 31.0);
    supplied.has_added(4.7..5.7);
    // A fan that is off for half a minute, again and again, is still counted on.
    for _ in 0..4 {
        supplied.extra_w = 0.0;
        let (most, _) = supplied.run(30);
        assert!(most < 36.4, "{most} W");
        supplied.extra_w = 5.0;
        let (most, _) = supplied.run(15);
        assert!(most < 36.4, "{most} W");
    }
    supplied.extra_w = 0.0;
    supplied.run(120 + LEARNING);
    assert!(supplied.added_w() <= 0.4, "{} W", supplied.added_w());
    let (most, mean) = supplied.run(60);
    assert!(
        most < 36.4 && mean > 0.95 * alone,
        "{most} W, {mean} W, alone {alone} W"
    );
}

/// The efficiency of the config is wrong, or it names none.
#[test]
fn a_meter_corrects_a_wrong_efficiency() {
    let truth = Truth {
        efficiency: 0.8,
        offset_w: 4.0,
        ..TOLD
    };
    for supply in [metered(), format!("meter = \"{METER}\"")] {
        let mut supplied = Supplied::new("36W", &supply, truth);
        supplied.run(15);
        for _ in 0..5 {
            let (most, _) = supplied.run(60);
            assert!(most < 36.5, "{supply}: {most} W: {}", supplied.log());
        }
        let (_, mean) = supplied.run(60);
        // The governor still counts on the model's load, as after every start under a full load.
        assert!(mean > 27.0, "{supply}: {mean} W: {}", supplied.log());
    }
}

#[test]
fn a_noisy_meter_costs_little() {
    let truth = Truth {
        noise_w: 0.5,
        ..TOLD
    };
    let mut supplied = Supplied::new("36W", &metered(), truth);
    supplied.extra_w = 2.0;
    supplied.run(LEARNING);
    let before = supplied.changes();
    supplied.holds(180, 36.4, 31.0);
    supplied.has_added(1.8..3.0);
    assert!(supplied.changes() - before <= 12, "{}", supplied.log());
}

#[test]
fn a_meter_that_stands_still_counts_as_absent_until_it_moves() {
    let mut supplied = Supplied::new("36W", &metered(), TOLD);
    supplied.run(LEARNING);
    supplied.is_stuck = true;
    // Under a load that stands still as well, nobody can tell.
    supplied.run(60);
    assert_eq!(supplied.fault(), None);
    supplied.running.inject("power 0.7");
    supplied.run(20);
    assert_eq!(
        supplied.fault(),
        Some(MeterFault::Still),
        "{}",
        supplied.log()
    );
    // What stands still was never taken for something else's power.
    assert!(supplied.added_w() <= 0.3, "{} W", supplied.added_w());
    supplied.running.inject("power 1");
    let (most, _) = supplied.run(60);
    assert!(most < 36.3, "{most} W: {}", supplied.log());
    let line = format!(
        "the supply's meter counts as absent, and what the module draws tells the supply's power: {METER}: stands still, \
         although the module's power moves"
    );
    let lines = supplied.running.log.iter().filter(|it| **it == line);
    assert_eq!(lines.count(), 1, "{}", supplied.log());
    supplied.is_stuck = false;
    supplied.run(20);
    assert_eq!(supplied.fault(), None);
    assert!(
        supplied
            .running
            .has_logged(&format!("the supply's meter counts again: {METER}"))
    );
}

/// The limit holds by the computed power, and what the meter had shown is forgotten as slowly as ever.
#[test]
fn a_meter_that_cannot_be_trusted_counts_as_absent_and_is_named() {
    for (shown, named) in [
        (None, "cannot be read: No such file or directory"),
        (Some(Err(Errno::Eio)), "cannot be read: Input/output error"),
        (Some(Ok("12 apples\n")), "shows no number"),
        (Some(Ok("NaN\n")), "shows no number"),
        (Some(Ok("")), "shows no number"),
        (
            Some(Ok("-12000000\n")),
            "shows no power, although the board runs",
        ),
        (Some(Err(Errno::Eagain)), "does not answer"),
        (
            Some(Ok("20000000000\n")),
            "shows 20000 W, more than any board draws; check meter_unit",
        ),
        // mW in a file of hwmon.
        (Some(Ok("36000\n")), "shows 0.036 W, far below the "),
    ] {
        let mut supplied = Supplied::new("36W", &metered(), TOLD);
        supplied.run(LEARNING);
        supplied.extra_w = 3.0;
        supplied.run(60);
        supplied.meter(shown);
        let (most, _) = supplied.run(50);
        assert!(most < 36.4, "{named}: {most} W");
        assert!(
            supplied.running.has_logged(named),
            "{named}: {}",
            supplied.log()
        );
        assert!(
            supplied.added_w() > 2.5,
            "{named}: {} W",
            supplied.added_w()
        );
        supplied.run(90);
        supplied.extra_w = 0.0;
        assert_eq!(supplied.added_w(), 0.0, "{named}");
        supplied.run(LEARNING);
        let (most, mean) = supplied.run(60);
        assert!(
            most < 36.3 && mean > 31.0,
            "{named}: {most} W, {mean} W: {}",
            supplied.log()
        );
        let lines = supplied.running.log.iter().filter(|it| it.contains(named));
        assert_eq!(lines.count(), 1, "{}", supplied.log());
    }
}

/// From the start on, so that it never told anything.
#[test]
fn without_its_meter_the_limit_holds_by_the_computed_power() {
    let mut supplied = Supplied::new("36W", &metered(), TOLD);
    supplied.meter(None);
    supplied.run(LEARNING);
    supplied.holds(60, 36.3, 32.0);
    supplied.has_meter = true;
    supplied.extra_w = 4.0;
    supplied.run(30);
    assert_eq!(supplied.fault(), None);
    let (most, _) = supplied.run(60);
    assert!(most < 36.4, "{most} W: {}", supplied.log());
}

#[test]
fn an_offset_over_the_limit_leaves_the_least_mode() {
    let config = with_supply("20W", "offset = \"25W\"");
    let choice = setup(&orin(), config).expect("usable").choice();
    assert!(choice.is_err(), "{choice:?}");
    let truth = Truth {
        efficiency: 1.0,
        offset_w: 25.0,
        ..TOLD
    };
    let mut supplied = Supplied::new("20W", "offset = \"25W\"", truth);
    supplied.run(10);
    assert_eq!(supplied.running.state(), State::Safe(Cause::CannotHold));
    assert!(supplied.running.is_as_wanted());
    let told = |line: &&String| line.starts_with("the limit cannot be held: ");
    let told = supplied.running.log.iter().find(told).expect("a line");
    assert!(
        told.contains(" W at the supply of 20 W at the supply, and"),
        "{told}"
    );
}

#[test]
fn a_rail_of_the_module_is_no_meter_of_its_supply() {
    let files = orin();
    let board = crate::board::discover(&files);
    let (device, rail) = board.sensor_devices().next().expect("a sensor");
    let meter = device.join("power1_input");
    let supply = format!("meter = \"{}\"", meter.display());
    let error = setup(&files, with_supply("20W", &supply)).expect_err("refused");
    assert_eq!(
        error.to_string(),
        format!(
            "supply: {} is of the sensor of the module's own rail {rail}; name a meter at the supply's input, or take the \
             key out",
            meter.display()
        )
    );
}
