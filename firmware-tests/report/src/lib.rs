//! The cases that every target runs, as one text that is compared byte for byte.
//!
//! The bare-metal images run it, and so does the host test `runtime/tests/golden.rs`, which
//! keeps the expected text in `weights/golden/report.txt`.
//! It formats by hand: an image that linked `core::fmt` could not show that the runtime
//! does without it.

#![no_std]
#![forbid(unsafe_code)]

use wattgate_runtime::{
    Confidence, Crc32, Front, Kilohertz, Microseconds, Milliwatts, ModeId, Model, Objective,
    PowerMode, Query, Region, SelectError,
};

/// The most points that a front in the report may have.
const FRONT: usize = 128;

/// Longer files are not tried with every byte flipped.
const FLIPPED: usize = 1024;

/// Where the report goes, byte by byte.
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
    fn field(&mut self, before: &str, number: u32, after: &str) {
        self.text(before);
        self.number(number);
        self.text(after);
    }
}

/// Everything that a target must agree on, for one model file.
pub fn run(console: &mut impl Console, name: &str, bytes: &[u8]) {
    console.text("model ");
    console.text(name);
    let Ok(model) = Model::parse(bytes) else {
        console.text(" refused\n");
        return;
    };
    console.field(": ", bytes.len() as u32, " bytes, ");
    console.field("", model.grid().modes(), " modes, grid ");
    console.hex(model.grid().hash());
    console.text("\n");
    refusals(console, bytes);
    sweep(console, &model);
    let front = Front::<FRONT>::of(&model, &model.profiled());
    console.field("front ", front.points().len() as u32, " modes");
    console.text(if front.is_thinned() {
        ", thinned\n"
    } else {
        "\n"
    });
    for point in front.points() {
        console.field("  mode ", u32::from(point.mode.0), " ");
        console.field("", point.power.0, " mW ");
        console.field("", point.time.0, " us\n");
    }
    queries(console, &model);
}

/// Every file with one byte changed, and every shorter one, must be refused.
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

fn sweep(console: &mut impl Console, model: &Model<'_>) {
    // A sum, since the order of the modes depends on the target.
    let mut sum = 0_u32;
    let mut modes = 0;
    model.sweep(&Region::all(model.grid()), |mode, at| {
        let crc = Crc32::new()
            .update(&mode.0.to_le_bytes())
            .update(&at.log_time.to_le_bytes())
            .update(&at.log_power.to_le_bytes());
        sum = sum.wrapping_add(crc.finish());
        modes += 1;
    });
    console.field("sweep ", modes, " modes, sum of crcs ");
    console.hex(sum);
    console.text("\n");
}

/// Asks the fronts of several regions for every objective under several limits.
fn queries(console: &mut impl Console, model: &Model<'_>) {
    let grid = model.grid();
    let emc = grid.mode(ModeId(0)).map_or(Kilohertz(0), |mode| mode.emc);
    let all = Ok(model.profiled());
    let regions = [
        ("any mode", all),
        (
            "2 cores or more",
            all.and_then(|region| region.with_min_cores(grid, 2)),
        ),
        (
            "least EMC clock",
            all.and_then(|region| region.with_emc(grid, emc)),
        ),
    ];
    for (constraint, region) in regions {
        console.text(constraint);
        let Ok(region) = region else {
            console.text(": not on offer\n");
            continue;
        };
        console.text("\n");
        let front = Front::<FRONT>::of(model, &region);
        let points = front.points();
        let some = |at: usize| points.get(at);
        let power = |at: usize, less: u32| some(at).map(|point| point.power.0.saturating_sub(less));
        let time = |at: usize, less: u32| some(at).map(|point| point.time.0.saturating_sub(less));
        let limits = [
            (None, None),
            (power(points.len() / 3, 0), None),
            (None, time(points.len() / 2, 0)),
            (
                power(points.len().saturating_sub(1), 0),
                time(points.len() / 3, 0),
            ),
            (power(0, 1), None),
            (None, time(points.len().saturating_sub(1), 1)),
        ];
        ask(console, model, &front, None, None, Confidence::P50);
        for (limit, deadline) in limits {
            ask(console, model, &front, limit, deadline, Confidence::P95);
        }
    }
}

fn ask(
    console: &mut impl Console,
    model: &Model<'_>,
    front: &Front<FRONT>,
    limit: Option<u32>,
    deadline: Option<u32>,
    confidence: Confidence,
) {
    let objectives = [
        (Objective::Time, "time"),
        (Objective::Power, "power"),
        (Objective::Energy, "energy"),
        (Objective::EnergyDelay, "edp"),
    ];
    for (objective, name) in objectives {
        console.text("  least ");
        console.text(name);
        optional(console, " within ", limit, " mW");
        optional(console, " by ", deadline, " us");
        console.field(" at ", u32::from(confidence.per_ten_thousand()), ": ");
        let query = Query {
            objective,
            power_limit: limit.map(Milliwatts),
            deadline: deadline.map(Microseconds),
            confidence,
            ..Query::default()
        };
        answer(console, model, front, &query);
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
