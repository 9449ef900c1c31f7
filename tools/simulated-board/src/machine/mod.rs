//! A board in time: settings are asked for, clocks follow, the die heats, sensors lag.
//!
//! ```text
//! settings --> requested --1/5/8 ms--> effective --throttling--> true clocks
//!                 ^                                                  |
//!     passive trip |             workload --> activity --> power <---+
//!                 |                                         |  |
//!             die temperature <-- heat sink, fan, air <-----+  +--> INA3221 --> OC2
//! ```
//!
//! Time comes in with [`Jetson::advance`]; equal seeds and equal calls give equal boards. Power is
//! constant from one event to the next, so that the sensors' low-pass needs no event of its own.
//! Sources: `jetson-platform.md`, sections 6.4, 7, 8 and 8.2. What no source tells is marked
//! as assumed.

mod background;
mod clock;
pub mod mode_errors;
mod over_current;
pub mod settings;
pub mod supply;
pub mod trace;

use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StandardUniform};

use background::Background;
use clock::{CPU_DELAY, Clock, EMC_DELAY, GPU_DELAY};
use mode_errors::ModeErrors;
use over_current::{OC1, OC3, OverCurrent};
use settings::{Governor, Settings, ends};
use supply::{Supply, is_low};
use trace::Segment;

use crate::heat::Heat;
use crate::load::WORKING;
use crate::pipeline::{Clocks, Luck, Pipeline};
use crate::power::{Activity, Draw, Watts, leakage};
use crate::sampling::{Chip, MOST_CHIPS, Sampling};
use crate::sensor::{Channel, History, Reading};
use crate::steady::AMBIENT_C;
use crate::unit::Unit;
use crate::workload::Workload;
use wattgate_board_tables::{Board, Preset, Rail};

/// At this temperature in °C the kernel lowers the CPU clocks (section 7).
pub const PASSIVE_C: f64 = 99.0;
/// At these in °C the BPMP throttles, to a half and to a quarter. The depths are assumed.
pub const BPMP_C: [f64; 2] = [101.0, 103.0];
/// At this in °C the board shuts down (section 7).
pub const CRITICAL_C: f64 = 104.5;

/// The kernel looks at the temperatures so often (section 7).
const THERMAL_POLL: Duration = Duration::from_secs(1);

/// The counters of the over-current events are published so often (section 6.4).
const PUBLISH: Duration = Duration::from_secs(2);

/// Power is constant for so long, and then differs by [`RIPPLE`].
pub const SLICE: Duration = Duration::from_millis(10);

/// Spread of the power from one slice to the next. Assumed; the spread of what the sensors
/// report as L4T sets them is a ninth of it.
pub const RIPPLE: f64 = 0.06;

/// From these temperatures in °C on, the fan has these speeds of 255. The temperatures are
/// those of the module's device tree (section 7), the speeds are assumed.
const FAN: [(f64, u8); 3] = [(80.0, 255), (65.0, 170), (50.0, 85)];

/// The rail that is no part of the sum of a chip's currents (section 6.1).
pub const NOT_SUMMED: &str = "VIN_SYS_5V0";

/// The speed of a fan that follows a die temperature in °C, of 255.
pub fn automatic_fan(die_c: f64) -> u8 {
    let step = FAN.iter().find(|(from_c, _)| die_c >= *from_c);
    step.map_or(0, |(_, pwm)| *pwm)
}

/// What happens regularly, at its next time.
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
    cpu: Vec<Clock>,
    gpu: Clock,
    emc: Clock,
    workload: Option<Workload>,
    ambient_c: f64,
    power_factor: f64,
    /// What the workload does of what it does at full activity.
    load: f64,
    /// What the GPU's load file shows, where it is given.
    gpu_load: Option<f64>,
    mode_errors: Option<ModeErrors>,
    /// The factor of the planted errors at the clocks of this moment.
    mode_factor: f64,
    offset_ma: Vec<f64>,
    /// What feeds the board, where its voltage is not that of the rails.
    supply: Option<Supply>,
    /// The clocks that activity and period belong to.
    clocks: Clocks,
    activity: Activity,
    /// From one minibatch to the next, in s.
    period_s: Option<f64>,
    /// Settings, workload or clocks have changed since activity and draws were computed.
    is_stale: bool,
    /// The throttling that the clocks were computed with.
    divided_by: u32,
    at_rest: Draw,
    at_work: Draw,
    ripple: f64,
    watts: Watts,
    /// Something has happened since `watts` was computed.
    redraw: bool,
    background: Background,
    /// The module's power without the ripple, in W.
    calm_w: f64,
    heat: Heat,
    fan_pwm: u8,
    /// By how many entries of the table the passive trip lowers the CPU clocks.
    passive: usize,
    over_current: OverCurrent,
    off: bool,
    /// Chips of power sensors, in the order of their first rails.
    chips: Vec<Chip>,
    /// The chip of each rail.
    chip_of: Vec<usize>,
    channels: Vec<Channel>,
    /// What the bus voltage of each rail is off by in this slice, as a part of it.
    bus_noise: Vec<f64>,
    history: Vec<History>,
    energy_j: f64,
    calm_energy_j: f64,
    minibatches: f64,
    trace: Option<Vec<Segment>>,
}

impl Jetson {
    /// A board that has idled for a while in a mode of nvpmodel, at time zero.
    ///
    /// # Panics
    ///
    /// If the board cannot be simulated: it does not come from [`Board::named`].
    pub fn new(board: Board, unit: Unit, seed: u64, mode: &Preset) -> Self {
        let settings = Settings::of(&board, mode);
        let least = |table: &[u32], delay| Clock::new(ends(table).0, delay);
        let rails = board.rails.iter().enumerate();
        let mut channels: Vec<Channel> = rails
            .map(|(at, rail)| Channel::new(rail, unit.shunt_offset_uv[at], unit.gain[at]))
            .collect();
        if let Some(first) = channels.first_mut() {
            let limits = &board.over_current;
            let limit = |ma: Option<f64>, full| ma.map_or(full, |ma| ma.round() as i64);
            first.warn_ma = limit(limits.warn_ma, first.warn_ma);
            first.crit_ma = limit(limits.crit_ma, first.crit_ma);
        }
        let chip_of = board.chip_of();
        let chips = chip_of.iter().max().map_or(0, |last| last + 1);
        let chips = unit.sensor_time.into_iter().take(chips).enumerate();
        let chips = chips.map(|(number, slowness)| Chip::new(number, slowness, seed));
        let mut jetson = Self {
            random: ChaCha8Rng::seed_from_u64(seed),
            now: Duration::ZERO,
            due: Due {
                slice: SLICE,
                thermal: THERMAL_POLL,
                publish: PUBLISH,
            },
            cpu: vec![least(&board.cpu_khz, CPU_DELAY); board.clusters.len()],
            gpu: least(&board.gpu_khz, GPU_DELAY),
            emc: least(&board.emc_khz, EMC_DELAY),
            workload: None,
            ambient_c: AMBIENT_C,
            power_factor: 1.0,
            load: 1.0,
            gpu_load: None,
            mode_errors: None,
            mode_factor: 1.0,
            offset_ma: vec![0.0; board.rails.len()],
            supply: None,
            clocks: Clocks::of(&board, board.maxn()),
            activity: Activity::IDLE,
            period_s: None,
            is_stale: true,
            divided_by: 1,
            at_rest: Draw::default(),
            at_work: Draw::default(),
            ripple: 1.0,
            watts: Watts::default(),
            redraw: true,
            background: Background::new(seed),
            calm_w: 0.0,
            heat: Heat::of_air(AMBIENT_C),
            fan_pwm: 0,
            passive: 0,
            over_current: OverCurrent::default(),
            off: false,
            chips: chips.collect(),
            chip_of,
            bus_noise: vec![0.0; channels.len()],
            channels,
            history: Vec::new(),
            energy_j: 0.0,
            calm_energy_j: 0.0,
            minibatches: 0.0,
            trace: None,
            settings,
            board,
            unit,
        };
        jetson.retarget();
        let longest = CPU_DELAY.max(GPU_DELAY).max(EMC_DELAY);
        for clock in jetson.all_clocks() {
            clock.follow(longest);
        }
        // Temperatures that this power has led to.
        let thermal = jetson.board.physics().thermal;
        for _ in 0..20 {
            jetson.draw();
            let watts = jetson.watts.total();
            jetson.heat = Heat::settled(&thermal, watts, AMBIENT_C, 0.0);
        }
        jetson.rest();
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

    /// What software has asked for.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Asks for something else; the clocks follow in their time.
    pub fn request(&mut self, change: impl FnOnce(&mut Settings)) {
        change(&mut self.settings);
        self.retarget();
    }

    /// Starts a workload, or ends the one that runs.
    pub fn set_workload(&mut self, workload: Option<Workload>) {
        self.workload = workload;
        self.redraw = true;
        // The same clocks mean something else from here on.
        self.clocks.cores = 0.0;
        self.retarget();
    }

    /// The air around the board, in °C.
    pub fn set_ambient_c(&mut self, celsius: f64) {
        self.ambient_c = celsius;
    }

    /// A factor on what the workload draws above the idle power.
    pub fn set_power_factor(&mut self, factor: f64) {
        self.power_factor = factor;
        self.redraw = true;
    }

    /// What the workload does from now on, as a part of what it does at full activity (0 = idle,
    /// above 1 allowed), and the part of the time that the GPU's load file shows, 0 … 1. Power is
    /// that at rest plus `activity` times what the workload adds. The clocks stay those of a board
    /// with a workload.
    pub fn set_load(&mut self, activity: f64, gpu_load: f64) {
        self.load = activity;
        self.gpu_load = Some(gpu_load);
        self.redraw = true;
    }

    /// Plants errors: what the workload draws above the idle power is off by a factor that depends
    /// on the mode.
    pub fn set_mode_errors(&mut self, errors: ModeErrors) {
        self.mode_errors = Some(errors);
        (self.redraw, self.is_stale) = (true, true);
    }

    /// Keeps from now on what [`Jetson::take_trace`] takes.
    pub fn keep_trace(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// Takes the power since [`Jetson::keep_trace`] or since the last call.
    pub fn take_trace(&mut self) -> Vec<Segment> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// An error of the sensor of a rail, in mA that it reads too much.
    pub fn set_offset_ma(&mut self, rail: usize, ma: f64) {
        self.offset_ma[rail] = ma;
    }

    /// Feeds the board from a source whose voltage falls with the load.
    pub fn set_supply(&mut self, supply: Supply) {
        self.supply = Some(supply);
    }

    /// The sensor of a rail, in the order of [`Board::rails`].
    pub fn channel(&self, rail: usize) -> &Channel {
        &self.channels[rail]
    }

    /// The same to set its limits.
    pub fn channel_mut(&mut self, rail: usize) -> &mut Channel {
        &mut self.channels[rail]
    }

    /// What the sensor of a rail showed at a time within the last minute, to 10 ms.
    pub fn reading_at(&self, rail: usize, time: Duration) -> Reading {
        self.history[rail].at(time)
    }

    /// A conversion of the sensor of a rail was over the critical limit. The chip holds this alarm
    /// until it is read; here it is held for one time constant of the registers.
    pub fn crit_alarm(&self, rail: usize) -> bool {
        let held = self.chips[self.chip_of[rail]].time_constant();
        self.channels[rail].was_critical_since(self.now.saturating_sub(held))
    }

    /// How a chip is set, by its number in [`Board::chip_of`].
    pub fn sampling(&self, chip: usize) -> Sampling {
        self.chips[chip].sampling()
    }

    /// Changes it. The registers keep their values and have another time constant from now on.
    pub fn set_sampling(&mut self, chip: usize, sampling: Sampling) {
        self.chips[chip].set(self.now, sampling);
    }

    /// What the governor of a cluster asks for, in kHz: `scaling_cur_freq`.
    pub fn cpu_requested_khz(&self, cluster: usize) -> u32 {
        self.cpu[cluster].requested()
    }

    /// The clock of a cluster in kHz without hardware throttling.
    pub fn cpu_effective_khz(&self, cluster: usize) -> u32 {
        self.cpu[cluster].khz
    }

    /// The true clock of a cluster in kHz: `cpuinfo_cur_freq`.
    pub fn cpu_true_khz(&self, cluster: usize) -> u32 {
        self.throttled(self.cpu[cluster].khz)
    }

    /// What is asked of the GPU in kHz: `cur_freq`.
    pub fn gpu_requested_khz(&self) -> u32 {
        self.gpu.requested()
    }

    /// The true clock of the GPU in kHz.
    pub fn gpu_true_khz(&self) -> u32 {
        self.throttled(self.gpu.khz)
    }

    /// The clock of the memory in kHz.
    pub fn emc_khz(&self) -> u32 {
        self.emc.khz
    }

    /// Some clock has not followed its request yet.
    pub fn is_settling(&self) -> bool {
        let mut clocks = self.cpu.iter().chain([&self.gpu, &self.emc]);
        clocks.any(|clock| clock.due().is_some())
    }

    /// The temperatures of this moment.
    pub fn heat(&self) -> Heat {
        self.heat
    }

    /// The temperature of the die in °C.
    pub fn die_c(&self) -> f64 {
        self.heat.die_c
    }

    /// The speed of the fan, of 255.
    pub fn fan_pwm(&self) -> u8 {
        self.fan_pwm
    }

    /// The temperature was critical: the board is without power and stays so.
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

    /// The same without the random [`RIPPLE`].
    pub fn calm_energy_j(&self) -> f64 {
        self.calm_energy_j
    }

    /// Minibatches of workloads since time zero. There is progress while the activity is above
    /// [`WORKING`].
    pub fn minibatches(&self) -> f64 {
        self.minibatches
    }

    /// The part of the time that kernels execute, or what [`Jetson::set_load`] says.
    pub fn gpu_load(&self) -> f64 {
        let given = self.gpu_load.filter(|_| self.workload.is_some());
        given.unwrap_or(self.activity.gpu)
    }

    /// Published counts of OC1, OC2 and OC3 since time zero.
    pub fn over_current_events(&self) -> [u64; 3] {
        self.over_current.published()
    }

    /// Lets time pass up to `now`; earlier times change nothing.
    pub fn advance(&mut self, now: Duration) {
        while self.now < now && !self.off {
            let event = self.next();
            if self.redraw {
                self.redraw = false;
                self.draw();
            }
            self.flow(event.min(now));
            self.keep_power();
            if event <= now {
                self.redraw = true;
                self.happen();
            }
        }
        if self.now < now {
            self.now = now;
            self.keep_power();
        }
    }

    /// The power was constant up to now.
    fn keep_power(&mut self) {
        let Some(trace) = &mut self.trace else {
            return;
        };
        let segment = Segment {
            until: self.now,
            watts: self.watts.total(),
            calm_watts: self.calm_w,
            minibatches: self.minibatches,
        };
        match trace.last_mut() {
            Some(last) if last.has_power_of(&segment) => *last = segment,
            _ => trace.push(segment),
        }
    }

    fn all_clocks(&mut self) -> impl Iterator<Item = &mut Clock> {
        self.cpu.iter_mut().chain([&mut self.gpu, &mut self.emc])
    }

    fn next(&self) -> Duration {
        let due = &self.due;
        let regular = [due.slice, due.thermal, due.publish];
        let clocks = self.cpu.iter().chain([&self.gpu, &self.emc]);
        let next = clocks
            .filter_map(Clock::due)
            .chain(self.over_current.due())
            .min();
        let regular = regular.into_iter().min().expect("three of them");
        next.map_or(regular, |next| next.min(regular))
    }

    /// Everything that is due now.
    fn happen(&mut self) {
        let now = self.now;
        for clock in self.cpu.iter_mut().chain([&mut self.gpu, &mut self.emc]) {
            self.is_stale |= clock.follow(now);
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
        if self.heat.die_c >= CRITICAL_C {
            self.off = true;
            (self.watts, self.calm_w) = (Watts::default(), 0.0);
        }
    }

    fn next_slice(&mut self) {
        self.look_at_sensors();
        self.background.pass(self.now);
        let ripple: f64 = StandardNormal.sample(&mut self.random);
        self.ripple = 1.0 + RIPPLE * ripple.clamp(-3.0, 3.0);
        let chance: f64 = StandardUniform.sample(&mut self.random);
        let part = |khz: u32, table: &[u32]| f64::from(khz) / f64::from(ends(table).1);
        let cpu = self.cpu.iter().map(|clock| clock.khz).max().unwrap_or(0);
        let rate = OverCurrent::rate(
            self.board.over_current.events_per_s,
            part(cpu, &self.board.cpu_khz),
            part(self.gpu.khz, &self.board.gpu_khz),
        );
        if chance < rate * SLICE.as_secs_f64() || self.over_critical() {
            self.over_current.strike(self.now, OC3);
        }
        if self.supply.is_some() && is_low(self.rail_mv(0), self.board.rails[0].millivolts) {
            self.over_current.strike(self.now, OC1);
        }
    }

    /// The power of this moment is over the critical limit of the first channel or of the sum.
    fn over_critical(&self) -> bool {
        let limits = &self.board.over_current;
        let converted = |at: usize| self.channels[at].converted_ma(self.rail_ma(at));
        let first = limits.crit_ma.is_some() && converted(0) > self.channels[0].crit_ma as f64;
        first
            || limits.sum_crit_ma.is_some_and(|most| {
                let rails = self.board.rails.iter().enumerate();
                let chip = &self.board.rails[0].chip;
                let summed =
                    rails.filter(|(_, rail)| rail.chip == *chip && rail.label != NOT_SUMMED);
                summed.map(|(at, _)| converted(at)).sum::<f64>() > most
            })
    }

    /// Before time zero the board has drawn for long what it draws then.
    fn rest(&mut self) {
        for rail in 0..self.channels.len() {
            let (ma, mv) = (self.rail_ma(rail), self.rail_mv(rail));
            self.channels[rail].settle(ma, mv);
            self.history
                .push(History::from(self.channels[rail].reading()));
        }
    }

    /// Notes what the registers show, and lets OC2 follow them.
    fn look_at_sensors(&mut self) {
        for (channel, history) in self.channels.iter().zip(&mut self.history) {
            history.note(self.now, channel.reading());
        }
        for (noise, &chip) in self.bus_noise.iter_mut().zip(&self.chip_of) {
            *noise = self.chips[chip].bus_noise();
        }
        // The first channel is the one that the over-current protection watches.
        if self.board.over_current.warn_ma.is_some() {
            let warned = self.channels.first().is_some_and(Channel::warn_alarm);
            self.over_current.warn(warned);
        }
    }

    fn poll_temperature(&mut self) {
        if self.heat.die_c >= PASSIVE_C {
            self.passive = (self.passive + 1).min(self.board.cpu_khz.len() - 1);
        } else {
            self.passive = self.passive.saturating_sub(1);
        }
        let automatic = automatic_fan(self.heat.die_c);
        self.fan_pwm = self.settings.fan_pwm.unwrap_or(automatic);
        self.retarget();
    }

    /// Hardware throttling of CPU and GPU: 1, 2 or 4 (sections 6.4 and 7).
    fn divisor(&self) -> u32 {
        let thermal = match self.heat.die_c {
            c if c >= BPMP_C[1] => 4,
            c if c >= BPMP_C[0] => 2,
            _ => 1,
        };
        let over_current = 1 + u32::from(self.over_current.throttles());
        thermal.max(over_current)
    }

    fn throttled(&self, khz: u32) -> u32 {
        khz / self.divisor()
    }

    /// The online cores in the order in which processes take them, each with its cluster.
    fn online(&self) -> impl Iterator<Item = (u32, usize)> + '_ {
        let online = |core: &&u32| self.settings.online[**core as usize];
        let cluster = |core: u32| {
            let has = |cores: &Vec<u32>| cores.contains(&core);
            self.board.clusters.iter().position(has).expect("a cluster")
        };
        let cores = self.board.core_order.iter().filter(online);
        cores.map(move |&core| (core, cluster(core)))
    }

    /// Processes of the workload: its main one and its loaders.
    fn processes(&self) -> usize {
        let workload = self.workload.as_ref();
        workload.map_or(0, |workload| 1 + workload.loader.workers as usize)
    }

    /// Asks all clocks for what settings, load and temperature want of them.
    fn retarget(&mut self) {
        (self.redraw, self.is_stale) = (true, true);
        let (board, settings) = (&self.board, &self.settings);
        // A whole cluster runs at the highest request of its cores (section 1).
        let mut wanted = vec![ends(&board.cpu_khz).0; self.cpu.len()];
        for (at, (_, cluster)) in self.online().enumerate() {
            let policy = settings.policies[cluster];
            let khz = match policy.governor {
                Governor::Performance => policy.max_khz,
                Governor::Userspace => policy.setspeed_khz.clamp(policy.min_khz, policy.max_khz),
                Governor::Schedutil if at < self.processes() => policy.max_khz,
                Governor::Schedutil => policy.min_khz,
            };
            wanted[cluster] = wanted[cluster].max(khz);
        }
        let passive_khz = board.cpu_khz[board.cpu_khz.len() - 1 - self.passive];
        let busy = self.workload.is_some();
        let gpu = if busy || settings.gpu.performance {
            settings.gpu.max_khz
        } else {
            settings.gpu.min_khz
        };
        let ceiling = settings.emc_ceiling_khz(board);
        let emc = match (settings.emc.locked, busy) {
            (true, _) => settings.emc.rate_khz.unwrap_or(self.emc.requested()),
            (false, true) => ceiling,
            (false, false) => ends(&board.emc_khz).0,
        };
        for (clock, khz) in self.cpu.iter_mut().zip(wanted) {
            clock.request(self.now, khz.min(passive_khz));
        }
        self.gpu.request(self.now, gpu);
        self.emc.request(self.now, emc.min(ceiling));
        if let Some(pwm) = self.settings.fan_pwm {
            self.fan_pwm = pwm;
        }
    }

    /// The clocks of this moment as the pipeline takes them: of the CPU the mean of the cores
    /// with a process.
    fn true_clocks(&self) -> Clocks {
        let ghz = |khz: u32| f64::from(khz) / 1e6;
        let (mut cores, mut busy, mut sum) = (0_usize, 0_usize, 0.0);
        let mut awake = vec![false; self.cpu.len()];
        for (_, cluster) in self.online() {
            if cores < self.processes().max(1) {
                busy += 1;
                sum += ghz(self.cpu_true_khz(cluster));
            }
            cores += 1;
            awake[cluster] = true;
        }
        Clocks {
            cores: cores as f64,
            cpu_ghz: sum / busy as f64,
            gpu_ghz: ghz(self.gpu_true_khz()),
            emc_ghz: ghz(self.emc.khz),
            tpcs: self.board.powered_tpcs(self.settings.tpc_pg_mask),
            clusters: awake.iter().filter(|awake| **awake).count() as f64,
        }
    }

    /// The power of this moment.
    fn draw(&mut self) {
        let divisor = self.divisor();
        // What a board without a workload does changes by itself.
        let is_stale = std::mem::take(&mut self.is_stale) || self.workload.is_none();
        if is_stale || divisor != self.divided_by {
            self.divided_by = divisor;
            self.refresh();
        }
        let leakage = leakage(&self.unit, self.heat.die_c);
        let (at_rest, at_work) = (self.at_rest.at(leakage), self.at_work.at(leakage));
        let above_rest = match self.workload {
            Some(_) => self.power_factor * self.mode_factor * self.load,
            None => 0.0,
        };
        let of = |rest: f64, work: f64| rest + above_rest * (work - rest);
        let calm = Watts {
            cpu: of(at_rest.cpu, at_work.cpu),
            gpu: of(at_rest.gpu, at_work.gpu),
            soc: of(at_rest.soc, at_work.soc),
            dram: of(at_rest.dram, at_work.dram),
            system: at_rest.system,
        };
        self.calm_w = calm.total();
        self.watts = Watts {
            cpu: self.ripple * calm.cpu,
            gpu: self.ripple * calm.gpu,
            soc: self.ripple * calm.soc,
            dram: self.ripple * calm.dram,
            system: calm.system,
        };
    }

    /// Computes what depends on settings, workload and clocks.
    fn refresh(&mut self) {
        let clocks = self.true_clocks();
        if clocks != self.clocks {
            self.clocks = clocks;
            self.act();
        }
        let gpu = &self.settings.gpu;
        let idle = match self.workload {
            Some(_) => Activity::IDLE,
            None => self.background.activity(self.now, clocks.cores),
        };
        let idle = Activity {
            gpu_on: self.workload.is_some() || !gpu.railgate || gpu.always_on,
            ..idle
        };
        let draw = |activity| Draw::of(&self.board, &self.unit, &clocks, activity);
        (self.at_rest, self.at_work) = (draw(&idle), draw(&self.activity));
        let errors = self.mode_errors.as_ref();
        self.mode_factor = errors.map_or(1.0, |errors| errors.factor(&self.board, &clocks));
    }

    /// What the workload does at the clocks of this moment.
    fn act(&mut self) {
        let Some(workload) = &self.workload else {
            (self.activity, self.period_s) = (Activity::IDLE, None);
            return;
        };
        let step = Pipeline::new(&self.board, workload, self.clocks).step(None, &Luck::NONE);
        let time = self.unit.time;
        self.activity = Activity::of(&step, self.clocks.cores).slowed(time);
        self.period_s = Some(step.period * time);
    }

    /// The current that the sensor of a rail sees, in mA.
    fn rail_ma(&self, rail: usize) -> f64 {
        1e6 * self.rail_watts(rail) / self.rail_mv(rail) + self.offset_ma[rail]
    }

    fn rail_watts(&self, rail: usize) -> f64 {
        let domains = self.board.rails[rail].domains.iter();
        domains.map(|&domain| self.watts.of(domain)).sum()
    }

    /// The voltage of a rail at this moment, in mV. Rails at the voltage of the first one are the
    /// input (`jetson-platform.md`, fact 3); the others are behind regulators.
    fn rail_mv(&self, rail: usize) -> f64 {
        let rails = &self.board.rails;
        let is_input = |rail: &Rail| rail.millivolts == rails[0].millivolts;
        match self.supply {
            Some(supply) if is_input(&rails[rail]) => {
                let inputs =
                    (0..rails.len()).filter(|at| rails[*at].total && is_input(&rails[*at]));
                supply.loaded_mv(inputs.map(|at| self.rail_watts(at)).sum())
            }
            _ => rails[rail].millivolts,
        }
    }

    /// The power of this moment is drawn until `end`.
    fn flow(&mut self, end: Duration) {
        let seconds = (end - self.now).as_secs_f64();
        self.now = end;
        let mut left = [None; MOST_CHIPS];
        for (left, chip) in left.iter_mut().zip(&mut self.chips) {
            *left = chip.pass(end);
        }
        for rail in 0..self.channels.len() {
            if let Some(left) = left[self.chip_of[rail]] {
                let mv = self.rail_mv(rail);
                let ma = 1e6 * self.rail_watts(rail) / mv + self.offset_ma[rail];
                let mv = mv * (1.0 + self.bus_noise[rail]);
                self.channels[rail].convert(ma, mv, left, end);
            }
        }
        let total = self.watts.total();
        let thermal = &self.board.physics().thermal;
        let fan = f64::from(self.fan_pwm) / 255.0;
        self.heat.flow(thermal, total, self.ambient_c, fan, seconds);
        self.energy_j += seconds * total;
        self.calm_energy_j += seconds * self.calm_w;
        if let Some(period) = self.period_s.filter(|_| self.load > WORKING) {
            self.minibatches += seconds / period;
        }
    }
}
