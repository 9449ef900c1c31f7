//! The sine network of `microflow` 0.1.3 (MIT or Apache-2.0, `models/sine.tflite` of its crate):
//! two hidden layers of 16 in int8.

#![no_std]
#![no_main]

use core::hint::black_box;

use microflow::model;
use nalgebra::matrix;
use wattgate_image::{Semihosting, exit, instructions};
use wattgate_report::Console;

#[model("image/sine/sine.tflite")]
struct Sine;

const PLACES: u16 = 64;

/// Called by the reset code.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    let start = instructions();
    let mut outputs = [0.0_f32; PLACES as usize];
    for (place, output) in (0..PLACES).zip(&mut outputs) {
        let angle = f32::from(place) * (core::f32::consts::TAU / f32::from(PLACES - 1));
        *output = Sine::predict(black_box(matrix![angle]))[(0, 0)];
    }
    let end = instructions();
    black_box(outputs);
    let mut console = Semihosting;
    let each = (end - start) / u64::from(PLACES);
    console.field("instructions an inference ", each as u32, "\n");
    exit(true)
}
