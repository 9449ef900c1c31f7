//! Control of a simulated board in simulated time: limits, faults, other writers.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use crate::board::{self, Simulated, booted, load};
use crate::wattgated::MODEL;
use wattgate_board::{Board, Files};
use wattgate_runtime::{Average, Cause, Limit, Milliseconds, Milliwatts, PowerMode, State};
use wattgate_watchdog::config::Config;
use wattgate_watchdog::control::{Control, Event};
use wattgate_watchdog::setup::{Setup, SetupError};

const GPU_MAX: &str = "/sys/class/devfreq/17000000.ga10b/max_freq";
const GPU_MIN: &str = "/sys/class/devfreq/17000000.ga10b/min_freq";

fn config(limit: &str) -> Config {
    let text = format!("version = 1\nmodel = \"{MODEL}\"\nlimit = \"{limit}\"");
    Config::parse(&text, Path::new("test.toml")).expect("a config")
}

/// A config with the model of a board.
fn config_of(board: &str, limit: &str) -> Config {
    let mut config = config(limit);
    config.model =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../weights/{board}-resnet18.wgt"));
    config
}

fn setup(files: &Simulated, config: Config) -> Result<Setup, SetupError> {
    Setup::new(config, files, Path::new("/"))
}

/// An AGX Orin in MAXN that runs ResNet-18; its GPU has the clocks of the model's grid.
fn orin() -> Simulated {
    let mut files = booted("orin-agx-64");
    load(&mut files);
    files
}

/// The control loop without a process.
struct Running {
    control: Control<Simulated>,
    board: Board,
    next: Milliseconds,
    log: Vec<String>,
    looks: u32,
}

impl Running {
    fn new(files: Simulated, limit: &str) -> Self {
        Self::with(files, config(limit))
    }

    fn with(files: Simulated, config: Config) -> Self {
        let setup = setup(&files, config).expect("usable");
        Self {
            board: board::discover(&files),
            control: Control::new(setup, files),
            next: Milliseconds(0),
            log: Vec::new(),
            looks: 0,
        }
    }

    fn now(&mut self) -> Duration {
        self.control.files().tree.jetson().now()
    }

    /// Runs for some seconds. Returns the highest true one-second mean power in W.
    fn run(&mut self, seconds: u64) -> f64 {
        let end = self.now() + Duration::from_secs(seconds);
        let joules = |it: &mut Self| it.control.files().tree.jetson().energy_j();
        let (mut from, mut before, mut most) = (self.now(), joules(self), 0_f64);
        while self.now() < end {
            let now = self.now();
            let log = &mut self.log;
            let ms = Milliseconds(now.as_millis() as u64);
            self.next = self
                .control
                .look(ms, &mut |event| log.push(event.to_string()));
            self.looks += 1;
            let now = self.now();
            let next = Duration::from_millis(self.next.0);
            self.control.files().wait(next.saturating_sub(now));
            let passed = self.now() - from;
            if passed >= Duration::from_secs(1) {
                let now = joules(self);
                most = most.max((now - before) / passed.as_secs_f64());
                (from, before) = (self.now(), now);
            }
        }
        most
    }

    fn state(&self) -> State {
        self.control.status().0.state
    }

    fn inject(&mut self, command: &str) {
        let result = self.control.files().tree.control(command);
        result.unwrap_or_else(|error| panic!("{command}: {error}"));
    }

    fn has_logged(&self, text: &str) -> bool {
        self.log.iter().any(|line| line.contains(text))
    }

    /// Whether the board is in the mode that the governor wants.
    fn is_as_wanted(&mut self) -> bool {
        let (_, mode) = self.control.status();
        self.board.verify(self.control.files(), &mode).is_ok()
    }
}

fn limit(watts: u32) -> Limit {
    Limit::of(Milliwatts(1_000 * watts))
}

#[test]
fn a_limit_is_held_and_used() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    let most = running.run(60);
    assert!((26.0..30.3).contains(&most), "{most} W: {:?}", running.log);
    assert_eq!(running.state(), State::Tracking);
    assert!(running.is_as_wanted());
}

#[test]
fn a_new_limit_is_held_after_two_seconds() {
    let mut running = Running::new(orin(), "40W");
    running.run(30);
    running.control.set_limit(limit(25));
    running.run(2);
    let most = running.run(30);
    assert!(most < 25.3, "{most} W: {:?}", running.log);
    // The governor takes up to 90 s to trust a load that is lighter than the model predicts.
    running.control.set_limit(limit(40));
    running.run(150);
    let most = running.run(20);
    // The model predicts a third more than the board draws; the governor corrects this slowly.
    assert!((28.0..40.4).contains(&most), "{most} W: {:?}", running.log);
}

#[test]
fn an_average_is_held() {
    let average = Some(Average {
        power: Milliwatts(22_000),
        window: Milliseconds(60_000),
    });
    let mut running = Running::new(orin(), "40W");
    let power = Milliwatts(40_000);
    running.control.set_limit(Limit {
        average,
        ..Limit::of(power)
    });
    running.run(120);
    let before = running.control.files().tree.jetson().energy_j();
    let from = running.now();
    running.run(180);
    let energy = running.control.files().tree.jetson().energy_j() - before;
    let watts = energy / (running.now() - from).as_secs_f64();
    assert!((18.0..22.5).contains(&watts), "{watts} W");
}

#[test]
fn without_a_sensor_the_safe_mode_is_set_within_two_seconds() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.inject("sensor VDD_GPU_SOC missing");
    running.run(2);
    assert_eq!(running.state(), State::Safe(Cause::NoSensor));
    assert!(running.is_as_wanted());
    let gone = "power of rail VDD_GPU_SOC: the sensor's file is missing";
    let count = running.log.iter().filter(|line| *line == gone).count();
    assert_eq!(count, 1, "{:?}", running.log);
    running.inject("sensor VDD_GPU_SOC ok");
    running.run(90);
    assert!(
        !matches!(running.state(), State::Safe(_)),
        "{:?}",
        running.log
    );
    assert!(running.has_logged("the power sensor is readable again"));
}

#[test]
fn a_frozen_sensor_counts_as_missing() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    for rail in ["VDD_GPU_SOC", "VDD_CPU_CV", "VIN_SYS_5V0"] {
        running.inject(&format!("sensor {rail} frozen"));
    }
    running.run(3);
    assert_eq!(running.state(), State::Safe(Cause::NoSensor));
}

#[test]
fn another_writer_is_overruled_and_logged() {
    for writer in ["nvpmodel 2", "jetson-clocks", "service"] {
        let mut running = Running::new(orin(), "25W");
        running.run(20);
        running.inject(writer);
        running.run(1);
        assert!(running.is_as_wanted(), "{writer}: {:?}", running.log);
        let most = running.run(20);
        assert!(most < 25.3, "{writer}: {most} W");
    }
    let mut running = Running::new(orin(), "25W");
    running.run(20);
    // A lower minimum clock does not change the power, so only the read-back detects it.
    running.inject(&format!("write {GPU_MIN} 114750000"));
    running.run(1);
    assert!(
        running.has_logged(&format!("another program changed the mode: {GPU_MIN}: ")),
        "{:?}",
        running.log
    );
}

#[test]
fn control_survives_a_knob_that_refuses_writes() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.inject(&format!("refuse {GPU_MAX} EIO"));
    running.control.set_limit(limit(20));
    running.run(30);
    assert!(
        running.has_logged("Input/output error"),
        "{:?}",
        running.log
    );
    running.inject(&format!("allow {GPU_MAX}"));
    running.run(120);
    assert_eq!(running.state(), State::Tracking, "{:?}", running.log);
    let most = running.run(10);
    assert!(most < 20.3, "{most} W");
}

#[test]
fn a_limit_below_the_least_mode_is_logged_and_the_least_mode_stays() {
    let mut running = Running::new(orin(), "2W");
    running.run(10);
    assert_eq!(running.state(), State::Safe(Cause::LimitTooLow));
    assert!(running.has_logged("even the mode of least power is above the limit"));
    assert!(running.is_as_wanted());
}

#[test]
fn control_works_without_the_memory_clock() {
    let mut files = orin();
    files
        .absent
        .push("/sys/kernel/debug/bpmp/debug/clk/emc".to_owned());
    let setup = setup(&files, config("30W")).expect("usable");
    assert_eq!(
        setup.choices.left_out,
        ["memory clock: cannot be set; assumed to be 3199000"]
    );
    let mut running = Running::new(files, "30W");
    running.run(60);
    let most = running.run(20);
    assert!((24.0..30.3).contains(&most), "{most} W");
}

#[test]
fn control_starts_anew_after_a_suspend() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.control.files().wait(Duration::from_secs(60));
    running.run(1);
    assert!(running.has_logged("the board was suspended for 60 s"));
    running.run(30);
    assert_eq!(running.state(), State::Tracking);
}

#[test]
fn heat_lowers_the_limit() {
    let mut files = orin();
    let zones = files.tree.files().map(|(path, _)| path.to_owned());
    let zones: Vec<String> = zones.filter(|path| path.ends_with("/temp")).collect();
    for zone in zones {
        files.shown.insert(zone, Ok(b"96000\n".to_vec()));
    }
    let mut config = config("40W");
    config.too_hot_mc = Some(95_000);
    let setup = setup(&files, config).expect("usable");
    let mut control = Control::new(setup, files);
    let mut log = Vec::new();
    let mut emit = |event: Event<'_>| log.push(event.to_string());
    for second in 0..20 {
        control.look(Milliseconds(1_000 * second), &mut emit);
        control.files().wait(Duration::from_secs(1));
    }
    let allowed = control.status().0.allowed;
    assert!(allowed.0 <= 20_100, "{allowed}");
    assert!(
        log.contains(&"too hot: the limit is lowered".to_owned()),
        "{log:?}"
    );
}

/// The limit is reduced by the sensor's typical offset (354 mW on an AGX Orin) and gain error
/// (0.25 %).
#[test]
fn the_errors_of_the_sensor_reduce_the_limit() {
    let setup = setup(&orin(), config("40W")).expect("usable");
    let control = Control::new(setup, orin());
    let allowed = f64::from(control.status().0.allowed.0);
    assert!(
        (allowed - (40_000.0 - 354.0) / 1.0025).abs() < 2.0,
        "{allowed}"
    );
}

/// The driver of a Xavier shows no shunts, so steps are inferred from readings. The GPU reads 0 at
/// discovery, so its step is known only under load; CV has no load and keeps 20 mA. The board's
/// tests explain the offsets.
#[test]
fn readings_of_a_xavier_under_load_only_raise_the_allowed_power() {
    const LIMIT: u32 = 15_000;
    let allowed_at = |offset_mw: f64| (f64::from(LIMIT) - offset_mw) / 1.0025;
    let files = booted("xavier-agx");
    let config = config_of("xavier-agx", "15W");
    let at_discovery = setup(&files, config.clone()).expect("usable");
    let once = at_discovery.choice().expect("a mode that fits").mode;
    let mut running = Running::with(files, config);
    running.control.look(Milliseconds(0), &mut |_| {});
    let (first, mode) = running.control.status();
    assert_eq!(mode, at_discovery.first());
    assert_eq!(mode, at_discovery.mode(once));
    load(running.control.files());
    let mut allowed = vec![first.allowed];
    for _ in 0..40 {
        running.run(1);
        allowed.push(running.control.status().0.allowed);
    }
    let is_at = |at: usize, offset_mw| {
        let difference = f64::from(allowed[at].0) - allowed_at(offset_mw);
        difference.abs() < 2.0
    };
    assert!(is_at(0, 381.0) && is_at(40, 310.0), "{allowed:?}");
    assert!(allowed.is_sorted(), "{allowed:?}");
    let most = running.run(30);
    assert!((12.0..15.15).contains(&most), "{most} W");
}

/// Prints the share of I2C bus time that sensor reads take under a constant load near the limit.
/// Reading a register takes 0.55 ms (`jetson-platform.md`, section 6.3).
#[test]
fn sensor_reads_take_at_most_six_percent_of_the_bus() {
    const REGISTER_S: f64 = 0.55e-3;
    const SECONDS: u64 = 120;
    for (board, watts) in [
        ("orin-agx-64", "30W"),
        ("orin-nano-8-super", "15W"),
        ("xavier-agx", "20W"),
    ] {
        let mut files = booted(board);
        let rails = files.tree.jetson().board().rails.iter();
        let buses = rails.map(|rail| rail.chip.split('-').next().map(str::to_owned));
        let buses: BTreeSet<Option<String>> = buses.collect();
        assert_eq!(buses.len(), 1, "{board}: all chips are on one bus");
        load(&mut files);
        let mut running = Running::with(files, config_of(board, watts));
        running.run(60);
        let before = running.control.files().registers.get();
        running.looks = 0;
        running.run(SECONDS);
        let registers = running.control.files().registers.get() - before;
        let part = registers as f64 * REGISTER_S / SECONDS as f64;
        println!(
            "{board}: reads take {:.1} % of the I2C bus, {:.1} looks a second",
            100.0 * part,
            f64::from(running.looks) / SECONDS as f64
        );
        assert!(part > 0.0 && part <= 0.06, "{board}: {part}");
    }
}

/// Both choose the fastest mode whose predicted power is within the limit.
#[test]
fn once_and_run_choose_the_same_first_mode() {
    for confidence in [0.5, 0.95, 0.99] {
        for watts in [5, 10, 12, 15, 18, 22, 27, 33, 40, 50, 60, 100] {
            let text = format!(
                "version = 1\nmodel = \"{MODEL}\"\nlimit = \"{watts}W\"\n\
                 confidence = {confidence}"
            );
            let config = Config::parse(&text, Path::new("test.toml")).expect("a config");
            let setup = setup(&orin(), config).expect("usable");
            let once = setup.choice().map(|choice| setup.mode(choice.mode));
            let once = once.unwrap_or_else(|_| setup.safe());
            assert_eq!(setup.first(), once, "{watts} W at {confidence}");
        }
    }
}

#[test]
fn averaging_is_set_again_after_another_writer() {
    let mut config = config("30W");
    config.sensor_samples = Some(64);
    let mut running = Running::with(orin(), config);
    running.run(2);
    let line = "the power sensor has a time constant of 54 ms";
    let times = |running: &Running| running.log.iter().filter(|it| *it == line).count();
    assert_eq!(times(&running), 1, "{:?}", running.log);
    assert_eq!(running.board.averaging(running.control.files()), Ok(64));
    // nvpower writes this at boot. The control detects and corrects it within a second.
    running.inject("write /sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon0/samples 512");
    running.run(3);
    assert_eq!(running.board.averaging(running.control.files()), Ok(64));
    assert_eq!(times(&running), 1, "{:?}", running.log);
    running.run(20);
    let most = running.run(30);
    assert!(most < 30.3, "{most} W");
}

#[test]
fn control_follows_a_time_constant_that_another_program_sets() {
    let mut running = Running::new(orin(), "30W");
    running.run(20);
    running.inject("write /sys/bus/i2c/drivers/ina3221/1-0040/hwmon/hwmon0/samples 1024");
    running.run(2);
    let line = "the power sensor has a time constant of 860 ms";
    assert!(running.has_logged(line), "{:?}", running.log);
    let most = running.run(30);
    assert!(most < 30.5, "{most} W");
}

#[test]
fn a_model_for_another_board_is_refused() {
    for (board, error) in [
        (
            "orin-nx-16",
            "the model is for `orin-agx-64`, but the board is `orin-nx-16`",
        ),
        (
            "tx2",
            "the model is for `orin-agx-64`, but the board is `tx2`",
        ),
    ] {
        let refused = setup(&booted(board), config("15W")).expect_err(board);
        assert_eq!(refused.to_string(), format!("{MODEL}: {error}"));
    }
    // The TX1 is not in the table of devices; the model is refused because its clocks do not match.
    let mut tx1 = config("5W");
    tx1.model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../weights/tx1-image5000.wgt");
    let refused = setup(&booted("orin-agx-64"), tx1.clone()).expect_err("refused");
    assert_eq!(
        refused.to_string(),
        format!(
            "{}: the board has no CPU clock of the model's grid: the model is for \
             another board or another L4T release",
            tx1.model.display()
        )
    );
}

#[test]
fn every_mode_on_the_front_can_be_set() {
    let mut files = orin();
    let mut setup = setup(&files, config("15W")).expect("usable");
    let modes: Vec<PowerMode> = {
        let points = setup.choices.front.points().iter();
        points.map(|point| setup.mode(point.mode)).collect()
    };
    for mode in modes {
        let applied = setup.board.apply(&mut files, &mode);
        assert!(applied.is_ok(), "{mode}: {applied:?}");
    }
}

#[test]
fn control_survives_a_read_only_board() {
    let mut files = orin();
    let setup = setup(&files, config("30W")).expect("usable");
    files.read_only = true;
    let mut control = Control::new(setup, files);
    let mut log = Vec::new();
    for tenth in 0..100 {
        let mut emit = |event: Event<'_>| log.push(event.to_string());
        control.look(Milliseconds(100 * tenth), &mut emit);
        control.files().wait(Duration::from_millis(100));
    }
    assert_eq!(control.status().0.state, State::Safe(Cause::NothingApplies));
    assert!(
        log.iter().any(|line| line.contains("Permission denied")),
        "{log:?}"
    );
    assert!(log.len() < 20, "{} lines", log.len());
}
