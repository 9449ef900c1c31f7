//! A governor holds a limit on a simulated board, and an estimator follows the board's readings.
//!
//! The board is integer arithmetic, so all targets see the same readings until their governors
//! differ in a bit. The text tells each command of the governor, and a checksum of the status after
//! every step. The expected text is `weights/golden/hold.txt`.

use core::borrow::Borrow;

use wattgate_runtime::estimator::{Chip, Estimator};
use wattgate_runtime::format::Crc32;
use wattgate_runtime::front::Point;
use wattgate_runtime::{
    Command, Front, Governor, Input, Limit, Milliseconds, Milliwatts, ModeId, Sample, Settings,
    Status,
};

use crate::{Console, state_name};

/// The interval of steps in ms: 100 Hz.
pub const STEP_MS: u64 = 10;

/// The limit in mW: in the middle of the TX1's front.
pub const LIMIT: Limit = Limit::from_power(Milliwatts(5_000));

/// The settings of the governor: one chip is present, as on most modules, and each step is a sample.
pub const SETTINGS: Settings = Settings {
    sample_interval: Milliseconds(STEP_MS),
    ..Settings::L4T
};

const CHIP: Chip = Chip::L4T;

/// A phase of the load.
struct Phase {
    steps: u32,
    /// Power as part of the prediction, in 1/1,024.
    level: u32,
    /// Load of the GPU in permille.
    gpu: u16,
    /// Whether the sensor can be read.
    is_read: bool,
}

const fn phase(steps: u32, level: u32, gpu: u16) -> Phase {
    Phase {
        steps,
        level,
        gpu,
        is_read: true,
    }
}

/// 24 s of a load that starts, jumps, pauses, pulses and returns.
const PHASES: [Phase; 14] = [
    phase(20, 400, 0),
    phase(400, 1_000, 950),
    phase(300, 1_280, 980),
    phase(150, 380, 0),
    phase(350, 1_280, 980),
    phase(8, 1_700, 980),
    phase(120, 1_230, 980),
    phase(8, 1_700, 980),
    phase(164, 1_230, 980),
    Phase {
        steps: 30,
        level: 1_230,
        gpu: 980,
        is_read: false,
    },
    phase(250, 1_100, 960),
    phase(100, 420, 20),
    phase(300, 850, 900),
    phase(200, 1_600, 990),
];

/// The board: a mode that it is set to, a load, and a power sensor.
pub struct Board {
    step: u32,
    mode: Option<ModeId>,
    /// The mode that is set from the next step on.
    coming: Option<ModeId>,
    /// The register of the sensor in 1/256 mW.
    register: u32,
    /// The state of a xorshift32 generator (Marsaglia 2003), for the ripple.
    random: u32,
}

impl Board {
    /// Creates a board that draws 2 W.
    pub const fn new() -> Self {
        Self {
            step: 0,
            mode: None,
            coming: None,
            register: 2_000 << 8,
            random: 1,
        }
    }

    /// Runs the board for a step, and observes it; `None` at the end of the phases.
    pub fn next(&mut self, points: &[Point]) -> Option<Input> {
        let mut begin = 0;
        let phase = PHASES.iter().find(|phase| {
            begin += phase.steps;
            self.step < begin
        })?;
        let now = Milliseconds(u64::from(self.step) * STEP_MS);
        self.step += 1;
        self.mode = self.coming;
        let point = points.iter().find(|point| Some(point.mode) == self.mode);
        let predicted = point.map_or(2_000, |point| point.power.0.min(1 << 16));
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        // The power ripples by 3 %, evenly distributed.
        let rippled = predicted * (1_024 - 32 + self.random % 65) / 1_024;
        let power = rippled * phase.level / 1_024;
        // The low-pass of 430 ms.
        let time_constant = CHIP.time_constant.0 as u32;
        let ms = STEP_MS as u32;
        self.register += power * (ms << 8) / time_constant;
        self.register -= self.register * ms / time_constant;
        let step = CHIP.step.0;
        let reading = (self.register / 256 + step / 2) / step * step;
        let mut input = Input::at(now);
        input.sample = phase.is_read.then_some(Sample::one(Milliwatts(reading)));
        (input.mode, input.gpu_load) = (self.mode.into(), Some(phase.gpu));
        Some(input)
    }

    /// Carries out a command.
    pub fn carry_out(&mut self, command: Command) {
        if let Command::Apply(mode) = command {
            self.coming = Some(mode);
        }
    }
}

impl Default for Board {
    fn default() -> Self {
        Self::new()
    }
}

/// Lets a governor with [`SETTINGS`] and [`LIMIT`] hold the limit through all phases. `step` calls
/// [`Governor::step`].
pub fn hold<const N: usize, F: Borrow<Front<N>>>(
    console: &mut impl Console,
    governor: &mut Governor<N, F>,
    mut step: impl FnMut(&mut Governor<N, F>, &Input) -> Command,
) {
    let mut board = Board::new();
    let mut crc = Crc32::new();
    while let Some(input) = board.next(governor.front().points()) {
        let command = step(governor, &input);
        board.carry_out(command);
        let status = governor.status();
        crc = record(crc, &status);
        if let Command::Apply(mode) = command {
            console.field("", input.now.0 as u32, " ms: mode ");
            console.field("", u32::from(mode.0), ", ");
            console.text(state_name(status.state));
            console.text(", checksum of the status so far ");
            console.hex(crc.finish());
            console.text("\n");
        }
    }
    let status = governor.status();
    console.text("governor ");
    console.text(state_name(status.state));
    console.field(", ", status.changes, " changes, ");
    console.field("", status.violations, " times over the limit, ");
    console.field("", status.millijoules as u32, " mJ, checksum ");
    console.hex(crc.finish());
    console.text("\n");
}

fn record(crc: Crc32, status: &Status) -> Crc32 {
    let optional = |power: Option<Milliwatts>| power.map_or(u32::MAX, |power| power.0);
    let numbers = [
        status.allowed.0,
        optional(status.measured),
        optional(status.power),
        status.millijoules as u32,
        status.over.0 as u32,
        status.ratio,
        status.violations,
    ];
    let add = |crc: Crc32, number: u32| crc.update(&number.to_le_bytes());
    numbers.into_iter().fold(crc, add)
}

/// Lets an estimator follow the board, whose mode does not change. `update` calls
/// [`Estimator::update`]. The checksum is of the bits of every estimate.
pub fn estimate(
    console: &mut impl Console,
    estimator: &mut Estimator,
    mut update: impl FnMut(&mut Estimator, &Sample, Milliseconds),
) {
    let mut board = Board::new();
    let mut crc = Crc32::new();
    while let Some(input) = board.next(&[]) {
        if let Some(sample) = &input.sample {
            update(estimator, sample, input.now);
        }
        let estimate = estimator.estimate();
        let mean = estimator.mean(Milliseconds(430)).unwrap_or(0.0);
        let power = estimate.map_or(0.0, |estimate| estimate.power);
        let deviation = estimate.map_or(0.0, |estimate| estimate.deviation);
        let ripple = estimator.ripple(Milliseconds(430));
        for value in [power, deviation, mean, ripple] {
            crc = crc.update(&value.to_bits().to_le_bytes());
        }
        let ms = input.now.0 as u32;
        if ms.is_multiple_of(1_000) {
            console.field("", ms, " ms: power ");
            console.hex(power.to_bits());
            console.text(" deviation ");
            console.hex(deviation.to_bits());
            console.text(", checksum of all so far ");
            console.hex(crc.finish());
            console.text("\n");
        }
    }
    console.field("estimator ", estimator.energy_uj() as u32, " uJ, checksum ");
    console.hex(crc.finish());
    console.text("\n");
}
