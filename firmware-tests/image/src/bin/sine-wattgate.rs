//! One period of a sine in this runtime, as a network of two hidden layers of 16: the 64 points are
//! the GPU clocks of a grid, and `sine.wgt` predicts e^sin x seconds. The file is made by
//!
//!     awk 'BEGIN { print "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind"
//!         for (i = 0; i < 64; i++) printf "none,sine,1,1000,%d,1000,%.6f,,simulated\n",
//!             100000 + 1000 * i, 1000 * exp(sin(8 * atan2(1, 1) * i / 63)) }' > sine.csv
//!     wattgate-trainer fit sine.csv --seed 1 --hidden 16-16 -o sine.wgt

#![no_std]
#![no_main]

use core::hint::black_box;

use wattgate_image::{Semihosting, exit, instructions, only};
use wattgate_report::Console;
use wattgate_runtime::Model;
use wattgate_runtime::network::{Workspace, workspace_pairs};
use wattgate_runtime::shape::Shape;

const PLACES: usize = 64;

/// Read at run time, as `microflow` reads its weights from constants.
#[unsafe(link_section = ".models")]
static MODEL: [u8; include_bytes!("../../sine/sine.wgt").len()] =
    *include_bytes!("../../sine/sine.wgt");

static mut WORKSPACE: Workspace<{ workspace_pairs(Shape::Deep16x16, 1 + 1 + 1) }> =
    Workspace::new();

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    // SAFETY: main runs once.
    let workspace = unsafe { only(&raw mut WORKSPACE) };
    let Ok(model) = Model::parse(black_box(&MODEL)) else {
        exit(false);
    };
    let start = instructions();
    let Ok(mut network) = workspace.network(&model) else {
        exit(false);
    };
    let tables = instructions();
    let mut outputs = [0_i32; PLACES];
    network.sweep(black_box(&model.profiled()), |mode, at| {
        if let Some(output) = outputs.get_mut(usize::from(mode.0)) {
            *output = at.log_time;
        }
    });
    let end = instructions();
    black_box(outputs);
    let each = |instructions: u64| (instructions / PLACES as u64) as u32;
    let mut console = Semihosting;
    console.field(
        "instructions an inference, tables included ",
        each(end - start),
        "\n",
    );
    console.field("instructions an inference ", each(end - tables), "\n");
    exit(true)
}
