//! The governor on the board, driven as the daemon drives it.

use wattgate_runtime::estimator::{Chip, MOST_CHIPS};
use wattgate_runtime::{
    Command, Governor, Input, Limit, Milliseconds, Milliwatts, ModeId, Sample, Settings,
};

use super::cases::{Fault, GpuFile};
use super::plant::{Account, Board, FRONT, POINTS, SPAN, Scenario};
use crate::plant::{between, governor, random};

/// The daemon looks each so many ms while it waits for clocks to follow.
const ARRIVAL_INTERVAL: usize = 10;

/// The daemon waits so many ms at most for clocks to follow.
const LONGEST_ARRIVAL: usize = 150;

/// Interval of steps in ms for each rail that is read.
const INTERVAL_PER_RAIL: u64 = 15;

/// The daemon looks at least once in this time in ms, even if its clock stepped back.
const LONGEST_WAIT: u64 = 1_000;

/// The daemon's clock at the start, and how far back it steps, in ms.
const CLOCK_STARTS: u64 = 7_200_000;
const CLOCK_BACK: u64 = 3_600_000;

/// Number of samples between two reads of the supply's voltage.
const VOLTAGE_EVERY: usize = 8;

/// Time constant in ms of the file of the GPU's load.
const GPU_SMOOTHS: f64 = 30.0;

/// A rail of the sensor: its chip, its share of the board's power, and its voltage.
type Rail = (usize, f64, f64);

/// GPU_SOC, CPU_CV and VIN_SYS_5V0 of an AGX Orin, and VDDQ on a second chip.
const ONE_CHIP: [Rail; 3] = [(0, 0.5, 12.0), (0, 0.25, 12.0), (0, 0.25, 5.0)];
const TWO_CHIPS: [Rail; 4] = [
    (0, 0.45, 12.0),
    (0, 0.2, 12.0),
    (0, 0.2, 5.0),
    (1, 0.15, 5.0),
];

/// Step of a rail's current in A, of a shunt of 2 mΩ.
const STEP_A: f64 = 0.02;

/// An INA3221 or two: a low-pass, and steps.
struct Sensor {
    rails: &'static [Rail],
    /// Movement of the registers in a ms.
    part: f64,
    gain: f64,
    /// Registers of the current, as power at the nominal voltage, and of the voltage, as part of it.
    power: f64,
    voltage: f64,
    /// The voltage that was read last.
    read: f64,
    samples: usize,
    frozen: Option<Sample>,
}

impl Sensor {
    fn new(seed: u64, time_constant: u64, fault: Fault) -> Self {
        let has_one = seed.is_multiple_of(2) && fault != Fault::FrozenChip;
        let true_constant = time_constant as f64 * between(seed, 4, 0.97, 1.03);
        Self {
            rails: if has_one { &ONE_CHIP } else { &TWO_CHIPS },
            part: 1.0 - (-1.0 / true_constant).exp(),
            gain: between(seed, 5, 0.997_5, 1.002_5),
            power: 3.0,
            voltage: 1.0,
            read: 1.0,
            samples: 0,
            frozen: None,
        }
    }

    /// The chips as the daemon describes them to the governor.
    fn chips(&self, time_constant: u64) -> [Chip; MOST_CHIPS] {
        let mut squares = [0.0; MOST_CHIPS];
        for (chip, _, volts) in self.rails {
            squares[*chip] += (1e3 * STEP_A * volts).powi(2);
        }
        squares.map(|square: f64| Chip {
            time_constant: Milliseconds(time_constant),
            step: Milliwatts(square.sqrt() as u32),
        })
    }

    fn tick(&mut self, watts: f64, voltage: f64) {
        self.power += (watts / voltage - self.power) * self.part;
        self.voltage += (voltage - self.voltage) * self.part;
    }

    fn sample(&mut self) -> Sample {
        if self.samples.is_multiple_of(VOLTAGE_EVERY) {
            self.read = self.voltage;
        }
        self.samples += 1;
        let mut watts = [0.0; MOST_CHIPS];
        for (chip, share, volts) in self.rails {
            let step = STEP_A * volts;
            let steps = (share * self.power * self.gain / step).round();
            watts[*chip] += steps * step * self.read;
        }
        Sample::from_chips(watts.map(|watts| Milliwatts((1e3 * watts).ceil() as u32)))
    }

    /// The same, while one chip stands still.
    fn sample_frozen(&mut self, chip: usize) -> Sample {
        let mut sample = self.sample();
        let frozen = self.frozen.get_or_insert(sample);
        sample.chips[chip] = frozen.chips[chip];
        sample
    }
}

struct Daemon<'a> {
    board: Board<'a>,
    sensor: Sensor,
    governor: Governor<POINTS>,
    /// When the next step is due.
    next: usize,
    /// The mode that was commanded last and whose clocks may not have followed, and when.
    arriving: Option<(usize, usize)>,
    /// The mode that the last read-back confirmed.
    confirmed: Option<usize>,
    gpu: f64,
    steps: f64,
    /// The second up to which over-current events were read.
    events_read: usize,
    has_stepped: bool,
    logs: bool,
}

/// Runs a scenario under the governor, with a sensor of this time constant in ms.
pub fn run(scenario: &Scenario, time_constant: u64, logs: bool) -> Account {
    let sensor = Sensor::new(scenario.seed, time_constant, scenario.case.fault);
    let settings = Settings {
        chips: sensor.chips(time_constant),
        sample_interval: Milliseconds(INTERVAL_PER_RAIL * sensor.rails.len() as u64),
        ..Settings::default()
    };
    let limit = limit(scenario.told_w(0));
    let governor = governor(FRONT.0.clone(), settings, limit).expect("a front with power");
    let mut daemon = Daemon {
        board: Board::new(scenario),
        sensor,
        governor,
        next: 0,
        arriving: None,
        confirmed: None,
        gpu: 0.0,
        steps: 0.0,
        events_read: 0,
        has_stepped: false,
        logs,
    };
    while !daemon.board.is_over() {
        daemon.tick();
    }
    daemon.board.account
}

fn limit(watts: f64) -> Limit {
    Limit::from_power(Milliwatts((1e3 * watts) as u32))
}

impl Daemon<'_> {
    fn fault(&self) -> Fault {
        self.board.scenario.case.fault
    }

    fn tick(&mut self) {
        self.board.tick();
        let (scenario, now) = (self.board.scenario, self.board.now);
        let ms = now - 1;
        let is_sagging = self.fault() == Fault::Sags && scenario.since(ms, 25_000) < 3_000;
        let voltage = if is_sagging { 0.8 } else { 1.0 };
        self.sensor.tick(self.board.energy_of(1), voltage);
        if scenario.is_suspended(ms) {
            return;
        }
        let level = f64::from(scenario.script.levels[ms]);
        self.gpu += (1e3 * level.min(1.0) - self.gpu) / GPU_SMOOTHS;
        if scenario.script.makes_steps[ms] {
            self.steps += scenario.truths[self.board.mode].speed;
        }
        if scenario.told_w(now) != scenario.told_w(ms) && now > 1 {
            self.governor.set_limit(limit(scenario.told_w(now)));
            let is_writing = self.arriving.is_some() && self.next > now;
            self.next = if is_writing { self.next } else { now };
        }
        if now >= self.next {
            self.step();
        }
    }

    /// The time by the daemon's clock.
    fn clock(&self) -> u64 {
        let now = self.board.now;
        let is_back = self.fault() == Fault::ClockBack && 3 * now > self.board.scenario.length();
        CLOCK_STARTS + now as u64 - if is_back { CLOCK_BACK } else { 0 }
    }

    /// Whether the clocks have followed the last command, as far as the files show it.
    fn arrives(&mut self) -> bool {
        let Some((mode, since)) = self.arriving else {
            return true;
        };
        let is_late = self.board.now - since >= LONGEST_ARRIVAL;
        if self.board.read_back() != mode && !is_late {
            return false;
        }
        (self.arriving, self.confirmed) = (None, Some(mode));
        true
    }

    fn step(&mut self) {
        let has_arrived = self.arrives();
        if has_arrived && self.is_disturbed() {
            self.confirmed = None;
        }
        let input = self.input();
        let now = self.board.now;
        if !has_arrived {
            self.governor.await_mode(&input);
            self.next = now + ARRIVAL_INTERVAL;
            return;
        }
        match self.governor.step(&input) {
            Command::Keep => {
                let wait = self.governor.due().since(input.now).0;
                self.next = now + wait.clamp(1, LONGEST_WAIT) as usize;
            }
            Command::Apply(id) => self.apply(id),
        }
    }

    /// Whether the board has left the mode.
    fn is_disturbed(&self) -> bool {
        self.confirmed
            .is_some_and(|mode| self.board.read_back() != mode)
    }

    fn apply(&mut self, id: ModeId) {
        let (scenario, now) = (self.board.scenario, self.board.now);
        let mode = scenario.truths.iter().position(|truth| truth.id == id);
        let mode = mode.expect("a mode of the front");
        let before = self.board.mode;
        let writes = self.board.set(mode);
        (self.arriving, self.confirmed) = (Some((mode, now)), None);
        self.next = now + writes;
        if self.logs {
            self.log(before, mode);
        }
    }

    fn log(&self, before: usize, mode: usize) {
        let (scenario, now) = (self.board.scenario, self.board.now);
        let status = self.governor.status();
        println!(
            "{now:>7} ms {:<22} {before:>2} -> {mode:>2} ({:.1} W) power {:>5.1} estimate {:>5.1} mean {:>5.1} of {:>4.1} W, level {:.2}, ratio {:.3}",
            format!("{:?}", status.state),
            scenario.truths[mode].watts,
            self.board.energy_of(10) / 10.0,
            status.power.map_or(0.0, |power| f64::from(power.0) / 1e3),
            self.board.energy_of(SPAN) / SPAN as f64,
            scenario.allowed_w(now - 1),
            scenario.script.levels[now - 1],
            f64::from(status.ratio) / 65_536.0,
        );
    }

    fn input(&mut self) -> Input {
        let case = self.board.scenario.case;
        let mut input = Input::at(Milliseconds(self.clock()));
        input.sample = self.sample();
        let confirmed = self.confirmed;
        input.mode = confirmed
            .map(|mode| self.board.scenario.truths[mode].id)
            .into();
        // The time to arrive is over.
        input.refused = confirmed.is_none();
        input.gpu_load = match case.gpu {
            GpuFile::Follows => Some(self.gpu as u16),
            GpuFile::Missing => None,
            GpuFile::Stuck(load) => Some(load),
        };
        input.steps = case.has_steps.then_some(self.steps as u64);
        input.over_current = self.over_current();
        input
    }

    fn sample(&mut self) -> Option<Sample> {
        let (seed, now) = (self.board.scenario.seed, self.board.now);
        let is_first = !std::mem::replace(&mut self.has_stepped, true);
        match self.fault() {
            Fault::FailedReads if random(seed, 6 << 32 | now as u64) < 0.2 => None,
            Fault::FirstZero if is_first => Some(Sample::one(Milliwatts(0))),
            Fault::FrozenChip if now > 120_000 => {
                Some(self.sensor.sample_frozen((seed % 2) as usize))
            }
            _ => Some(self.sensor.sample()),
        }
    }

    /// Whether an over-current event shows that happened 2–3 s ago. Only a battery has them.
    fn over_current(&mut self) -> bool {
        let second = self.board.now / 1_000;
        if self.fault() != Fault::Battery || self.events_read == second {
            return false;
        }
        self.events_read = second;
        let over = &self.board.account.over_in;
        second >= 3 && over.get(second - 3).is_some_and(|over| *over)
    }
}
