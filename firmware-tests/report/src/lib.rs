//! The report: the cases that every target runs, printed as text and compared byte for byte.
//!
//! The bare-metal images print it, and so does the host test `runtime/tests/it/golden.rs`. The
//! expected texts are `weights/golden/report.txt` and `hold.txt`. The report formats numbers itself, because the
//! images show that the runtime does not link `core::fmt`.

#![no_std]
#![forbid(unsafe_code)]

mod hold;

use wattgate_runtime::format::Crc32;
use wattgate_runtime::governor::{Cause, State};
use wattgate_runtime::grid::GridError;
use wattgate_runtime::idle::Idle;
use wattgate_runtime::network::{Network, Workspace};
use wattgate_runtime::region::ConstraintError;
use wattgate_runtime::{
    Command, Confidence, FormatError, Front, Governor, Input, Kilohertz, Limit, Microseconds,
    Milliseconds, Milliwatts, ModeId, Model, Objective, PowerMode, Query, Region, Sample,
    SelectError, Settings,
};

pub use hold::{Board, LIMIT, SETTINGS, STEP_MS, estimate, hold};

/// Capacity of the fronts in the report.
const FRONT: usize = 128;

/// Maximum length of a file that is tested with every byte flipped.
const FLIPPED: usize = 1536;

/// The output of the report.
pub trait Console {
    /// Appends one byte.
    fn byte(&mut self, byte: u8);

    /// Appends a text.
    fn text(&mut self, text: &str) {
        text.bytes().for_each(|byte| self.byte(byte));
    }

    /// Appends a decimal number.
    fn number(&mut self, number: u32) {
        let mut power = 1_000_000_000;
        let mut started = false;
        while power > 0 {
            let digit = (number / power % 10) as u8;
            started |= digit != 0 || power == 1;
            if started {
                self.byte(b'0' + digit);
            }
            power /= 10;
        }
    }

    /// Appends eight hexadecimal digits.
    fn hex(&mut self, number: u32) {
        for shift in (0..8).rev() {
            let digit = (number >> (4 * shift) & 0xF) as u8;
            self.byte(if digit < 10 {
                b'0' + digit
            } else {
                b'a' + digit - 10
            });
        }
    }

    /// Appends a text, a number and a text.
    #[inline(never)]
    fn field(&mut self, before: &str, number: u32, after: &str) {
        self.text(before);
        self.number(number);
        self.text(after);
    }
}

macro_rules! models {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_bytes!(concat!("../../../weights/", $name)))),*]
    };
}

/// Names and bytes of the model files, in the order of the report.
pub const MODELS: &[(&str, &[u8])] = models![
    "golden/wide-16.wgt",
    "golden/wide-16-time-only.wgt",
    "golden/deep-8x8.wgt",
    "golden/deep-16x16.wgt",
    "golden/wide-32-spread.wgt",
    "golden/deep-8x8-spread.wgt",
    "golden/version-1.wgt",
    "golden/version-2.wgt",
    "golden/version-2-spread.wgt",
    "golden/version-3-spread.wgt",
    "golden/version-4-spread.wgt",
    "golden/extreme.wgt",
    "golden/subnormal-scale.wgt",
    "golden/too-many-modes.wgt",
    "tx1-image5000.wgt",
];

/// Pairs of a workspace that suffices for the models of the report.
pub const WORKSPACE: usize = 740;

/// Prints the report of one model file.
pub fn run<const PAIRS: usize>(
    console: &mut impl Console,
    workspace: &mut Workspace<PAIRS>,
    name: &str,
    bytes: &[u8],
) {
    console.text("model ");
    console.text(name);
    let model = match Model::parse(bytes) {
        Ok(model) => model,
        Err(why) => {
            console.text(" refused: ");
            console.text(reason(why));
            console.text("\n");
            return;
        }
    };
    console.field(": ", bytes.len() as u32, " bytes, ");
    console.field("", model.grid().modes(), " modes, grid ");
    console.hex(model.grid().hash());
    console.text("\n");
    refusals(console, bytes);
    if Workspace::<64>::new().network(&model).is_err() {
        console.text("64 pairs are too small\n");
    }
    let Ok(mut network) = workspace.network(&model) else {
        console.text("the workspace is too small\n");
        return;
    };
    sweep(console, &mut network);
    let mut front = Front::<FRONT>::new();
    for (constraint, region) in regions(&model) {
        console.text(constraint);
        let Ok(region) = region else {
            console.text(": not on offer\n");
            continue;
        };
        front.rebuild(&mut network, &region, Confidence::P50);
        ask(console, &model, &front, Query::default());
        front.rebuild(&mut network, &region, Confidence::P95);
        console.field(": front of ", front.points().len() as u32, " modes");
        console.text(if front.is_thinned() {
            ", thinned\n"
        } else {
            "\n"
        });
        for (point, time) in front.points().iter().zip(front.times()) {
            console.field("  mode ", u32::from(point.mode.0), " ");
            console.field("", point.power.0, " mW ");
            console.field("guarded ", point.guarded.0, " mW ");
            console.field("", time.0, " us ");
            console.field("guarded ", point.guarded_time.0, " us\n");
        }
        queries(console, &model, &front);
    }
    units(console, &model, &mut network, &mut front);
    front.rebuild(&mut network, &model.profiled(), Confidence::P95);
    govern(console, &front);
}

/// Prints the ends of the fronts of the units in the file, and of another one.
fn units(
    console: &mut impl Console,
    model: &Model<'_>,
    network: &mut Network<'_>,
    front: &mut Front<FRONT>,
) {
    let Ok(fleet) = model.fleet() else {
        console.text("no fleet\n");
        return;
    };
    for id in fleet.units().map(Some).chain([None]) {
        let Ok(unit) = fleet.unit(id, Confidence::P95) else {
            continue;
        };
        front.rebuild(network, &model.profiled(), Confidence::P95);
        front.for_unit(&unit);
        console.text("unit ");
        console.hex(id.map_or(0, |id| id.0));
        console.text(if unit.is_profiled { ":" } else { ", another:" });
        let ends = [front.points().first(), front.points().last()];
        for point in ends.into_iter().flatten() {
            console.field(" ", point.power.0, " mW ");
            console.field("guarded ", point.guarded.0, " mW ");
            console.field("", point.guarded_time.0, " us");
        }
        console.text("\n");
    }
}

/// Runs a governor on a board that draws more than predicted, then much more, and then gives no
/// readings for a time.
fn govern(console: &mut impl Console, front: &Front<FRONT>) {
    let points = front.points();
    let middle = points.get(points.len() / 2).map_or(0, |p| p.power.0);
    let limit = |power: u32| Limit::from_power(Milliwatts(power));
    let mut governor = Governor::new(Settings::L4T, limit(middle));
    if governor.set_front(front).is_err() {
        console.text("no governor\n");
        return;
    }
    let mut mode = None;
    let mut register = middle;
    for step in 0..240_u32 {
        // Ratio of drawn to predicted power.
        let sixteenths = if step < 80 { 17 } else { 22 };
        if step == 120 {
            governor.set_limit(limit(middle / 2));
        }
        let points = governor.front().points().iter();
        let now = points.clone().find(|point| Some(point.mode) == mode);
        let power = now.map_or(0, |point| point.power.0 / 16 * sixteenths);
        // A low-pass whose time constant is four steps.
        register = register - register / 4 + power / 4;
        let sample = Sample::one(Milliwatts(register));
        let mut input = Input::at(Milliseconds(u64::from(step) * 430 / 4));
        input.sample = Some(sample).filter(|_| !(160..180).contains(&step));
        (input.mode, input.gpu_load) = (mode.into(), Some(900));
        input.over_current = step == 200;
        let command = governor.step(&input);
        if let Command::Apply(next) = command {
            console.field("  step ", step, "");
            console.field(": mode ", u32::from(next.0), "\n");
            mode = Some(next);
        }
    }
    let status = governor.status();
    console.text("governor ");
    console.text(state_name(status.state));
    console.field(", ", status.changes, " changes, ");
    console.field("", status.violations, " times over the limit, ratio ");
    console.hex(status.ratio);
    console.text("\n");
}

/// The name of a state.
fn state_name(state: State) -> &'static str {
    match state {
        State::Booting => "booting",
        State::Settling => "settling",
        State::Tracking => "tracking",
        State::SteppingDown => "stepping down",
        State::ProbingUp => "probing up",
        State::Safe(Cause::NoSensor) => "safe, no sensor",
        State::Safe(Cause::CannotHold) => "safe, limit too low",
        State::Safe(Cause::NothingApplies) => "safe, nothing applies",
    }
}

/// The name of an error, without its numbers.
fn reason(error: FormatError) -> &'static str {
    match error {
        FormatError::TooShort => "too short",
        FormatError::WrongMagic => "wrong magic",
        FormatError::UnsupportedVersion { .. } => "unsupported version",
        FormatError::Truncated => "truncated",
        FormatError::TrailingBytes => "trailing bytes",
        FormatError::Checksum => "checksum",
        FormatError::BadHeader => "bad header",
        FormatError::UnsupportedShape { .. } => "unsupported shape",
        FormatError::BadBody => "bad body",
        FormatError::BadGrid(GridError::TooManyModes) => "too many modes",
        FormatError::BadGrid(_) => "bad grid",
        FormatError::GridMismatch => "grid mismatch",
        FormatError::BadRegion => "bad region",
        FormatError::LayersLength => "layers length",
        FormatError::BadLayer => "bad layer",
        FormatError::BadScale => "bad scale",
        FormatError::BadGuardBand => "bad guard band",
        FormatError::BadMeasured => "bad measured modes",
        FormatError::BadUnits => "bad units",
        _ => "another reason",
    }
}

/// The constraints whose fronts the report prints.
fn regions(model: &Model<'_>) -> [(&'static str, Result<Region, ConstraintError>); 3] {
    let grid = model.grid();
    let all = model.profiled();
    let emc = grid.mode(ModeId(0)).map_or(Kilohertz(0), |mode| mode.emc);
    [
        ("any mode", Ok(all)),
        ("2 cores or more", all.with_min_cores(grid, 2)),
        ("least EMC clock", all.with_emc(grid, emc)),
    ]
}

/// Counts the refusals of files with one changed byte, and of truncated files.
fn refusals(console: &mut impl Console, bytes: &[u8]) {
    let mut copy = [0; FLIPPED];
    let Some(copy) = copy.get_mut(..bytes.len()) else {
        return;
    };
    let (mut flipped, mut truncated) = (0, 0);
    for at in 0..bytes.len() {
        for (to, from) in copy.iter_mut().zip(bytes) {
            *to = *from;
        }
        if let Some(byte) = copy.get_mut(at) {
            *byte ^= 0x10;
        }
        flipped += u32::from(Model::parse(copy).is_err());
        let shorter = bytes.get(..at).unwrap_or(bytes);
        truncated += u32::from(Model::parse(shorter).is_err());
    }
    console.field("refused ", flipped, " flipped, ");
    console.field("", truncated, " truncated\n");
}

fn sweep(console: &mut impl Console, network: &mut Network<'_>) {
    // The sum does not depend on the order of the modes.
    let mut sum = 0_u32;
    let mut modes = 0;
    let region = Region::all(network.model().grid());
    network.sweep(&region, |mode, at| {
        let crc = Crc32::new()
            .update(&mode.0.to_le_bytes())
            .update(&at.log_time.to_le_bytes())
            .update(&at.log_power.to_le_bytes())
            .update(&at.spread.to_le_bytes());
        sum = sum.wrapping_add(crc.finish());
        modes += 1;
    });
    console.field("sweep ", modes, " modes, sum of crcs ");
    console.hex(sum);
    console.text("\n");
}

/// Asks a front for the best mode: for every objective, under several limits, and with corrected
/// predictions.
fn queries(console: &mut impl Console, model: &Model<'_>, front: &Front<FRONT>) {
    let points = front.points();
    let power = |at: usize, less: u32| {
        points
            .get(at)
            .map(|p| Milliwatts(p.guarded.0.saturating_sub(less)))
    };
    let time = |at: usize, less: u32| {
        let times = front.times();
        times
            .get(at)
            .map(|time| Microseconds(time.0.saturating_sub(less)))
    };
    let third = points.len() / 3;
    let last = points.len().saturating_sub(1);
    let limits = [
        (None, None),
        (power(third, 0), None),
        (None, time(points.len() / 2, 0)),
        (power(last, 0), time(third, 0)),
        (power(0, 1), None),
        (None, time(last, 1)),
    ];
    for (power_limit, deadline) in limits {
        let query = Query {
            power_limit,
            deadline,
            ..Query::default()
        };
        ask(console, model, front, query);
    }
    let idle = Idle {
        base: power(0, 0).unwrap_or(Milliwatts(0)),
        share: 1 << 14,
    };
    let query = Query {
        deadline: time(third, 0),
        idle,
        ..Query::default()
    };
    ask(console, model, front, query);
}

fn ask(console: &mut impl Console, model: &Model<'_>, front: &Front<FRONT>, query: Query) {
    let objectives = [
        (Objective::Time, "time"),
        (Objective::Power, "power"),
        (Objective::Energy, "energy"),
        (Objective::EnergyDelay, "edp"),
    ];
    for (objective, name) in objectives {
        console.text("  least ");
        console.text(name);
        optional(
            console,
            " within ",
            query.power_limit.map(|limit| limit.0),
            " mW",
        );
        optional(
            console,
            " by ",
            query.deadline.map(|deadline| deadline.0),
            " us",
        );
        if query.idle != Idle::NONE {
            console.field(" idle ", query.idle.base.0, " mW");
        }
        console.text(": ");
        answer(console, model, front, &Query { objective, ..query });
    }
}

fn optional(console: &mut impl Console, before: &str, number: Option<u32>, after: &str) {
    if let Some(number) = number {
        console.field(before, number, after);
    }
}

fn answer(console: &mut impl Console, model: &Model<'_>, front: &Front<FRONT>, query: &Query) {
    match front.select(query) {
        Ok(choice) => {
            let mode = model.grid().mode(choice.mode);
            mode_text(console, mode);
            console.field(" ", choice.time.0, " us");
            console.field(" guarded ", choice.guarded_time.0, " us");
            optional(console, " ", choice.power.map(|p| p.0), " mW");
            optional(
                console,
                " guarded ",
                choice.guarded_power.map(|p| p.0),
                " mW",
            );
        }
        Err(SelectError::NoPower) => console.text("no power"),
        Err(SelectError::OverLimit { least_power }) => {
            console.field("over limit, least ", least_power.0, " mW");
        }
        Err(SelectError::TooSlow { least_time }) => {
            console.field("too slow, least ", least_time.0, " us");
        }
        Err(SelectError::Guard(_)) => console.text("confidence too high"),
        Err(SelectError::EmptyFront) => console.text("empty front"),
        Err(SelectError::OtherGrid) => console.text("other grid"),
        Err(_) => console.text("another reason"),
    }
    console.text("\n");
}

fn mode_text(console: &mut impl Console, mode: Option<PowerMode>) {
    let Some(mode) = mode else {
        console.text("mode unknown");
        return;
    };
    console.field("", mode.cores, " cores ");
    console.field("", mode.cpu.0, "/");
    console.field("", mode.gpu.0, "/");
    console.field("", mode.emc.0, " kHz");
}
