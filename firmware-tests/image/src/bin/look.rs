//! An estimator alone follows a simulated board: the share of the estimator in the steps of a
//! governor. Prints the golden text first, and then the figures.

#![no_std]
#![no_main]

use core::hint::black_box;

use wattgate_image::{Counter, Semihosting, exit};
use wattgate_report::{Console, SETTINGS, estimate};
use wattgate_runtime::estimator::Estimator;

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let mut estimator = Estimator::new(SETTINGS.chips);
    let mut updates = Counter::new();
    estimate(
        &mut Semihosting,
        &mut estimator,
        |estimator, sample, now| {
            updates.count(|| estimator.update(black_box(sample), now));
        },
    );
    let mut console = Semihosting;
    console.text("figures\n");
    updates.print("instructions a look");
    console.field("Estimator, bytes ", size_of::<Estimator>() as u32, "\n");
    exit(true)
}
