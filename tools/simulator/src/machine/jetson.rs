//! Event-driven simulation of a board. The power is constant between two events.

use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StandardUniform};
use wattgate_board_tables::{Board, Preset};

use super::clock_tree::{ClockDomain, ClockTree};
use super::consumption::{Consumption, Moment, Work};
use super::mode_errors::ModeErrors;
use super::over_current::{OC1, OC3, OverCurrent};
use super::sensors::Sensors;
use super::settings::{Settings, ends};
use super::supply::Supply;
use super::thermal::{CRITICAL_C, Caps, Cooling};
use super::trace::Segment;
use crate::heat::Heat;
use crate::power::Watts;
use crate::sampling::Sampling;
use crate::sensor::{Channel, Reading, SumLimit};
use crate::steady::AMBIENT_C;
use crate::unit::Unit;
use crate::workload::Workload;

/// Period of Linux's temperature polls (section 7).
const THERMAL_POLL: Duration = Duration::from_secs(1);

/// Period at which the counters of the over-current events are published (section 6.4).
const PUBLISH: Duration = Duration::from_secs(2);

/// Length of a time slice, in which the [`RIPPLE`] is constant.
pub const SLICE: Duration = Duration::from_millis(10);

/// Relative spread of the power from one time slice to the next. Assumed; the spread of the
/// sensors' readings at L4T's setting is a ninth of it. Recorded phases of work have 0.2 to 3.5 % there
/// (`wattgate-simulator dynamics`).
pub const RIPPLE: f64 = 0.06;

/// The next times of regular events.
#[derive(Clone, Copy, Debug)]
struct Due {
    slice: Duration,
    thermal: Duration,
    publish: Duration,
}

/// A Jetson.
#[derive(Clone, Debug)]
pub struct Jetson {
    board: Board,
    unit: Unit,
    random: ChaCha8Rng,
    now: Duration,
    due: Due,
    settings: Settings,
    clocks: ClockTree,
    consumption: Consumption,
    sensors: Sensors,
    cooling: Cooling,
    over_current: OverCurrent,
    firmware_divisor: u32,
    ripple: f64,
    /// The module's power without the ripple, in W.
    calm_w: f64,
    watts: Watts,
    /// Whether `watts` is outdated.
    redraw: bool,
    /// Whether a conversion of `watts` exceeds a critical limit.
    over_critical: bool,
    off: bool,
    energy_j: f64,
    calm_energy_j: f64,
    work: Work,
    trace: Option<Vec<Segment>>,
}

impl Jetson {
    /// A board that has idled for a while in a mode of nvpmodel, at time zero.
    ///
    /// # Panics
    ///
    /// If the board cannot be simulated: it does not come from [`Board::named`].
    pub fn new(board: Board, unit: Unit, seed: u64, mode: &Preset) -> Self {
        let mut jetson = Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            now: Duration::ZERO,
            due: Due {
                slice: SLICE,
                thermal: THERMAL_POLL,
                publish: PUBLISH,
            },
            settings: Settings::after_boot(&board, mode),
            clocks: ClockTree::new(&board),
            consumption: Consumption::new(&board, seed),
            sensors: Sensors::new(&board, &unit, seed),
            cooling: Cooling::of_air(AMBIENT_C),
            over_current: OverCurrent::default(),
            firmware_divisor: 1,
            ripple: 1.0,
            calm_w: 0.0,
            watts: Watts::default(),
            redraw: true,
            over_critical: false,
            off: false,
            energy_j: 0.0,
            calm_energy_j: 0.0,
            work: Work::default(),
            trace: None,
            board,
            unit,
        };
        jetson.retarget();
        jetson.clocks.settle();
        // Finds the temperatures at which power and heat flow are in balance.
        let thermal = jetson.board.physics().thermal;
        for _ in 0..20 {
            jetson.draw();
            let watts = jetson.watts.total();
            jetson.cooling.heat = Heat::settled(&thermal, watts, AMBIENT_C, 0.0);
        }
        jetson.sensors.settle(&jetson.board, &jetson.watts);
        jetson
    }

    /// The board's description.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The time up to which the board has been simulated.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// The requested settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Changes the requested settings; the clocks follow after their delays.
    pub fn request(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
        self.retarget();
    }

    /// Starts a workload; `None` stops the current one.
    pub fn set_workload(&mut self, workload: Option<Workload>) {
        self.consumption.set_workload(workload);
        self.retarget();
    }

    /// Lets the GPU's governor lower the clock of a GPU that is not fully loaded. At first a GPU with any work
    /// has its maximum (assumed).
    pub fn follow_load(&mut self) {
        self.consumption.is_followed = true;
        self.retarget();
    }

    /// Sets the ambient temperature in °C.
    pub fn set_ambient_c(&mut self, celsius: f64) {
        self.cooling.ambient_c = celsius;
    }

    /// Sets caps of the clocks that cooling devices hold whatever the temperature, in kHz of the
    /// board's tables; `u32::MAX` is none.
    pub fn set_fixed_caps(&mut self, caps: Caps) {
        self.cooling.fixed = caps;
        self.retarget();
    }

    /// The caps of [`Jetson::set_fixed_caps`].
    pub fn fixed_caps(&self) -> Caps {
        self.cooling.fixed
    }

    /// The highest clocks that Linux's cooling allows now.
    pub fn caps(&self) -> Caps {
        self.cooling.caps(&self.board)
    }

    /// Divides the clocks of CPU and GPU from now on, as firmware does without a word; 1 ends it.
    pub fn set_firmware_divisor(&mut self, divisor: u32) {
        self.firmware_divisor = divisor;
        self.redraw = true;
    }

    /// Sets the delay from a later request to its effect: of the CPU clocks, the GPU's or the memory's.
    pub fn set_delay(&mut self, domain: ClockDomain, delay: Duration) {
        self.clocks.set_delay(domain, delay);
    }

    /// Sets a factor on the workload's power above idle.
    pub fn set_power_factor(&mut self, factor: f64) {
        self.consumption.power_factor = factor;
        self.redraw = true;
    }

    /// Sets the activity of the workload (0 is idle, 1 is full activity, more is allowed), and the
    /// GPU's load that its file shows, 0 … 1. The power is the power at rest plus `activity` times
    /// what the workload adds at full activity. The clocks stay those of a board with a workload.
    pub fn set_load(&mut self, activity: f64, gpu_load: f64) {
        self.consumption.set_load(activity, gpu_load);
        self.redraw = true;
    }

    /// Plants errors: multiplies the workload's power above idle by a factor that depends on the
    /// mode.
    pub fn set_mode_errors(&mut self, errors: ModeErrors) {
        self.consumption.set_mode_errors(errors);
        self.redraw = true;
    }

    /// Records the power from now on, for [`Jetson::take_trace`].
    pub fn keep_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// Takes the power since [`Jetson::keep_trace`] or since the last call.
    pub fn take_trace(&mut self) -> Vec<Segment> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Sets the current offset of a rail's sensor in mA; a positive offset reads too high.
    pub fn set_offset_ma(&mut self, rail: usize, ma: f64) {
        self.sensors.offset_ma[rail] = ma;
        self.redraw = true;
    }

    /// Feeds the board from a source whose voltage falls with the load.
    pub fn set_supply(&mut self, supply: Supply) {
        self.sensors.supply = Some(supply);
        self.redraw = true;
    }

    /// The sensor of a rail, in the order of [`Board::rails`].
    pub fn channel(&self, rail: usize) -> &Channel {
        &self.sensors.channels[rail]
    }

    /// The sensor of a rail, to set its limits.
    pub fn channel_mut(&mut self, rail: usize) -> &mut Channel {
        self.redraw = true;
        &mut self.sensors.channels[rail]
    }

    /// The limit on the sum of a chip's currents, by the chip's number in [`Board::chip_of`].
    pub fn sum_limit(&self, chip: usize) -> SumLimit {
        self.sensors.sum_limits[chip]
    }

    /// Writes the limit on the sum of a chip's currents, in mA.
    pub fn set_sum_limit(&mut self, chip: usize, ma: i64) {
        self.sensors.sum_limits[chip].write(ma);
        self.redraw = true;
    }

    /// The reading of a rail's sensor at a time within the last minute, to 10 ms.
    pub fn reading_at(&self, rail: usize, time: Duration) -> Reading {
        self.sensors.history[rail].at(time)
    }

    /// Whether a conversion of a rail's sensor was over the critical limit. The chip holds this
    /// alarm until it is read; here it is held for one time constant of the registers.
    pub fn crit_alarm(&self, rail: usize) -> bool {
        self.sensors.crit_alarm(rail, self.now)
    }

    /// The sampling of a chip, by its number in [`Board::chip_of`].
    pub fn sampling(&self, chip: usize) -> Sampling {
        self.sensors.chips[chip].sampling()
    }

    /// Changes the sampling of a chip. The registers keep their values and have another time
    /// constant from now on.
    pub fn set_sampling(&mut self, chip: usize, sampling: Sampling) {
        self.sensors.chips[chip].set(self.now, sampling);
    }

    /// The clock that the governor of a cluster requests, in kHz: `scaling_cur_freq`.
    pub fn cpu_requested_khz(&self, cluster: usize) -> u32 {
        self.clocks.cpu[cluster].requested()
    }

    /// The clock of a cluster in kHz without hardware throttling.
    pub fn cpu_effective_khz(&self, cluster: usize) -> u32 {
        self.clocks.cpu[cluster].khz
    }

    /// The true clock of a cluster in kHz: `cpuinfo_cur_freq`.
    pub fn cpu_true_khz(&self, cluster: usize) -> u32 {
        self.throttled(self.clocks.cpu[cluster].khz)
    }

    /// The clock that is requested of the GPU, in kHz: `cur_freq`.
    pub fn gpu_requested_khz(&self) -> u32 {
        self.clocks.gpu.requested()
    }

    /// The true clock of the GPU in kHz.
    pub fn gpu_true_khz(&self) -> u32 {
        self.throttled(self.clocks.gpu.khz)
    }

    /// The clock of the memory in kHz.
    pub fn emc_khz(&self) -> u32 {
        self.clocks.emc.khz
    }

    /// Whether any clock has a pending request.
    pub fn is_settling(&self) -> bool {
        self.clocks.due().is_some()
    }

    /// The current temperatures.
    pub fn heat(&self) -> Heat {
        self.cooling.heat
    }

    /// The temperature of the die in °C.
    pub fn die_c(&self) -> f64 {
        self.cooling.heat.die_c
    }

    /// The speed of the fan, of 255.
    pub fn fan_pwm(&self) -> u8 {
        self.cooling.fan_pwm
    }

    /// Whether the temperature was critical: the board is off and stays off.
    pub fn is_off(&self) -> bool {
        self.off
    }

    /// True power by domain at this moment.
    pub fn watts(&self) -> Watts {
        self.watts
    }

    /// True energy of the module since time zero, in J.
    pub fn energy_j(&self) -> f64 {
        self.energy_j
    }

    /// Energy of the module since time zero without the random [`RIPPLE`], in J.
    pub fn calm_energy_j(&self) -> f64 {
        self.calm_energy_j
    }

    /// Minibatches of workloads since time zero. There is progress while the activity is above
    /// [`WORKING`](crate::load::WORKING).
    pub fn minibatches(&self) -> f64 {
        self.work.minibatches
    }

    /// What workloads have done since time zero.
    pub fn work(&self) -> Work {
        self.work
    }

    /// Fraction of the time during which kernels execute, or the load given to
    /// [`Jetson::set_load`].
    pub fn gpu_load(&self) -> f64 {
        self.consumption.gpu_load()
    }

    /// Published counts of OC1, OC2 and OC3 since time zero.
    pub fn over_current_events(&self) -> [u64; 3] {
        self.over_current.published()
    }

    /// Advances the simulation to `now`; earlier times change nothing.
    pub fn advance(&mut self, now: Duration) {
        while self.now < now && !self.off {
            if self.redraw {
                self.redraw = false;
                self.draw();
            }
            let critical = self.critical_due();
            let event = critical.map_or(self.next(), |critical| critical.min(self.next()));
            self.flow(event.min(now));
            self.keep_power();
            if event <= now {
                self.redraw = true;
                if critical == Some(event) {
                    self.over_current.strike(event, OC3);
                }
                self.happen();
            }
        }
        if self.now < now {
            self.now = now;
            self.keep_power();
        }
    }

    /// Adds the time up to now, in which the power was constant, to the trace.
    fn keep_power(&mut self) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let segment = Segment {
            until: self.now,
            watts: self.watts.total(),
            calm_watts: self.calm_w,
            minibatches: self.work.minibatches,
        };
        match trace.last_mut() {
            Some(last) if last.has_power_of(&segment) => *last = segment,
            _ => trace.push(segment),
        }
    }

    /// When the next conversion exceeds a critical limit, if the present power lasts.
    fn critical_due(&self) -> Option<Duration> {
        self.over_critical
            .then(|| self.sensors.next_protected_cycle())
    }

    fn next(&self) -> Duration {
        let due = &self.due;
        let regular = [due.slice, due.thermal, due.publish];
        let others = [self.clocks.due(), self.over_current.due()];
        let next = others.into_iter().flatten().min();
        let regular = regular.into_iter().min().expect("three of them");
        next.map_or(regular, |next| next.min(regular))
    }

    /// Executes all events that are due now.
    fn happen(&mut self) {
        let now = self.now;
        if self.clocks.follow(now) {
            self.consumption.expire();
        }
        self.over_current.pass(now);
        if self.due.slice <= now {
            self.due.slice += SLICE;
            self.next_slice();
        }
        if self.due.thermal <= now {
            self.due.thermal += THERMAL_POLL;
            self.poll_temperature();
        }
        if self.due.publish <= now {
            self.due.publish += PUBLISH;
            self.over_current.publish();
        }
        if self.cooling.heat.die_c >= CRITICAL_C {
            self.off = true;
            (self.watts, self.calm_w) = (Watts::default(), 0.0);
        }
    }

    fn next_slice(&mut self) {
        self.look_at_sensors();
        self.consumption.pass(self.now);
        let ripple: f64 = StandardNormal.sample(&mut self.random);
        self.ripple = 1.0 + RIPPLE * ripple.clamp(-3.0, 3.0);
        let chance: f64 = StandardUniform.sample(&mut self.random);
        let part = |khz: u32, table: &[u32]| f64::from(khz) / f64::from(ends(table).1);
        let cpu = self
            .clocks
            .cpu
            .iter()
            .map(|clock| clock.khz)
            .max()
            .unwrap_or(0);
        let rate = OverCurrent::rate(
            self.board.over_current.events_per_s,
            part(cpu, &self.board.cpu_khz),
            part(self.clocks.gpu.khz, &self.board.gpu_khz),
        );
        if chance < rate * SLICE.as_secs_f64() {
            self.over_current.strike(self.now, OC3);
        }
        if self.sensors.is_under_voltage(&self.board, &self.watts) {
            self.over_current.strike(self.now, OC1);
        }
    }

    /// Records the sensors' registers and updates OC2.
    fn look_at_sensors(&mut self) {
        self.sensors.next_slice(self.now);
        if self.board.over_current.warn_ma.is_some() {
            self.over_current.warn(self.sensors.warn_alarm());
        }
    }

    fn poll_temperature(&mut self) {
        let clocks = self.board.cpu_khz.len();
        self.cooling.poll(clocks, self.settings.fan_pwm);
        self.retarget();
    }

    /// Hardware throttling of CPU and GPU: 1, 2 or 4 (sections 6.4 and 7).
    fn divisor(&self) -> u32 {
        let over_current = 1 + u32::from(self.over_current.throttles());
        let divisor = self.cooling.divisor().max(over_current);
        divisor.max(self.firmware_divisor)
    }

    fn throttled(&self, khz: u32) -> u32 {
        khz / self.divisor()
    }

    /// Requests the clocks that follow from settings, load and temperature.
    fn retarget(&mut self) {
        self.redraw = true;
        self.consumption.expire();
        let load = (self.consumption.processes(), self.consumption.followed());
        let caps = self.caps();
        self.clocks
            .request(self.now, &self.board, &self.settings, load, caps);
        if let Some(pwm) = self.settings.fan_pwm {
            self.cooling.fan_pwm = pwm;
        }
    }

    /// Computes the current power.
    fn draw(&mut self) {
        let divisor = self.divisor();
        let calm = self.consumption.draw(&Moment {
            now: self.now,
            board: &self.board,
            unit: &self.unit,
            settings: &self.settings,
            clocks: &self.clocks,
            divisor,
            die_c: self.cooling.heat.die_c,
        });
        self.calm_w = calm.total();
        self.watts = Watts {
            cpu: self.ripple * calm.cpu,
            gpu: self.ripple * calm.gpu,
            soc: self.ripple * calm.soc,
            dram: self.ripple * calm.dram,
            system: calm.system,
        };
        self.over_critical = self.sensors.is_over_critical(&self.board, &self.watts);
    }

    /// Applies the current power until `end`.
    fn flow(&mut self, end: Duration) {
        let seconds = (end - self.now).as_secs_f64();
        self.now = end;
        self.sensors.convert(&self.board, &self.watts, end);
        let total = self.watts.total();
        let thermal = &self.board.physics().thermal;
        self.cooling.flow(thermal, total, seconds);
        self.energy_j += seconds * total;
        self.calm_energy_j += seconds * self.calm_w;
        self.consumption.work(seconds, &mut self.work);
    }
}
