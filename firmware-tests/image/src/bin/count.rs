//! Counts the instructions of each step from the bytes of a model to a mode: for the TX1 and, on
//! AArch64, for all 18,096 modes of an AGX Orin.

#![no_std]
#![no_main]

use core::hint::black_box;

use wattgate_image::{Semihosting, exit, instructions, only};
use wattgate_report::Console;
use wattgate_runtime::network::{Workspace, workspace_pairs};
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Front, Model, Objective, Query};

/// Multiply-adds of one mode in a network with one hidden layer of 32 and three outputs.
const MULTIPLY_ADDS: u64 = 96;

/// Repetitions of a short step, so that the clock's resolution does not matter.
const REPEATS: u64 = 100;

/// For the 12 numbers of cores, 29 CPU clocks and 4 memory clocks of an Orin.
const PAIRS: usize = workspace_pairs(Shape::Wide32, 12 + 29 + 4);

static mut WORKSPACE: Workspace<PAIRS> = Workspace::new();
static mut FRONT: Front<128> = Front::new();

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    // SAFETY: main runs once.
    let (workspace, front) = unsafe { (only(&raw mut WORKSPACE), only(&raw mut FRONT)) };
    let tx1 = include_bytes!("../../../../weights/tx1-image5000.wgt");
    let done = count("tx1", black_box(tx1), workspace, front);
    #[cfg(target_arch = "aarch64")]
    let done = done.and_then(|()| {
        let orin = include_bytes!("../../../../weights/orin-agx-64-resnet18-all-modes.wgt");
        count("orin", black_box(orin), workspace, front)
    });
    exit(done.is_some())
}

fn count(
    board: &str,
    bytes: &[u8],
    workspace: &mut Workspace<PAIRS>,
    front: &mut Front<128>,
) -> Option<()> {
    let mut console = Semihosting;
    let mut line = |what: &str, count: u64| {
        console.text(board);
        console.text(" ");
        console.text(what);
        console.field(" ", count as u32, "\n");
    };
    let (decode, _) = counted(|| Model::parse(black_box(bytes)).ok().map(|_| ()));
    let model = Model::parse(bytes).ok()?;
    let (tables, _) = counted(|| black_box(&mut *workspace).network(&model).map(|_| ()));
    let mut network = workspace.network(&model).ok()?;
    let region = model.profiled();
    let (sweep, sum) = counted(|| {
        let mut sum = 0_u32;
        network.sweep(black_box(&region), |_, at| {
            sum = sum.wrapping_add((at.log_time ^ at.log_power).cast_unsigned());
        });
        sum
    });
    black_box(sum);
    let (with_front, _) =
        counted(|| front.rebuild(&mut network, black_box(&region), Confidence::P95));
    let limit = front.points().get(front.points().len() / 2)?.guarded;
    let query = |objective| {
        let query = Query {
            objective,
            power_limit: Some(limit),
            ..Query::default()
        };
        let (all, _) = counted(|| {
            for _ in 0..REPEATS {
                let _ = black_box(front.select(black_box(&query)));
            }
        });
        all / REPEATS
    };
    let modes = region.modes() as u64;
    line("decode", decode);
    line("tables", tables);
    line("sweep", sweep);
    let hundred_modes = (100 * sweep).checked_div(modes)?;
    line("sweep, per 100 modes", hundred_modes);
    line(
        "sweep, per 100 multiply-adds",
        hundred_modes / MULTIPLY_ADDS,
    );
    line("sweep with front", with_front);
    line("cold start", decode + tables + with_front);
    line("query, least time", query(Objective::Time));
    line("query, least energy-delay", query(Objective::EnergyDelay));
    Some(())
}

fn counted<T>(f: impl FnOnce() -> T) -> (u64, T) {
    let start = instructions();
    let result = f();
    (instructions() - start, result)
}
