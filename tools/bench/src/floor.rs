//! Lower bound of a sweep's time on this machine.
//!
//! - Multiply-adds: those of all layers but the first, which is a sum of table rows. The assumed
//!   peak is two vector multiply-adds per cycle (x86-64 since Skylake and Zen 2), with the vector
//!   width of this build, at the measured clock.
//! - Bytes: the file and each prediction, once each, at the measured bandwidth of a loop that
//!   reads the same number of bytes repeatedly.

use std::hint::black_box;
use std::time::Instant;

use wattgate_runtime::model::Prediction;
use wattgate_runtime::shape::{Shape, Widths};

use wattgate_bench::case::Case;
use wattgate_bench::onnx::OUTPUTS;

/// Peak i16 multiply-adds per cycle: two registers of AVX2 or SSE2.
pub const MULTIPLY_ADDS_PER_CYCLE: f64 = if cfg!(target_feature = "avx2") {
    2.0 * 16.0
} else {
    2.0 * 8.0
};

/// Latency of a multiplication on the same cores: each one waits for the one before.
const CYCLES_PER_MULTIPLICATION: f64 = 3.0;

const TRIES: usize = 20;

/// Lower bounds of a sweep's time, in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct Floor {
    /// Bound by the multiply-adds.
    pub multiply_adds_us: f64,
    /// Bound by the bytes.
    pub bytes_us: f64,
}

impl Floor {
    /// The lower bounds of a case at a clock in Hz.
    pub fn for_case(case: &Case, clock: f64) -> Self {
        let modes = f64::from(case.grid.modes());
        let multiply_adds = modes * f64::from(multiply_adds(case.shape));
        let bytes = case.file.len() + case.grid.modes() as usize * size_of::<Prediction>();
        Self {
            multiply_adds_us: 1e6 * multiply_adds / (clock * MULTIPLY_ADDS_PER_CYCLE),
            bytes_us: 1e6 * seconds_to_read(bytes),
        }
    }

    /// The greater of the two bounds, as cores compute and load at the same time.
    pub fn microseconds(self) -> f64 {
        self.multiply_adds_us.max(self.bytes_us)
    }
}

/// Multiply-adds per mode in all layers but the first.
pub fn multiply_adds(shape: Shape) -> u32 {
    let Widths(widths) = shape.widths();
    let widths = widths.into_iter().filter(|width| *width > 0).map(u32::from);
    let next = widths.clone().skip(1).chain([OUTPUTS as u32]);
    widths.zip(next).map(|(from, to)| from * to).sum()
}

/// Measures the clock of a busy core, in Hz.
pub fn clock() -> f64 {
    const STEPS: u32 = 1_000_000;
    let seconds = least(|| {
        let factor = black_box(3_u64);
        black_box((0..STEPS).fold(factor, |square, _| square.wrapping_mul(square)));
    });
    f64::from(STEPS) * CYCLES_PER_MULTIPLICATION / seconds
}

fn seconds_to_read(bytes: usize) -> f64 {
    let words = vec![1_u64; bytes.div_ceil(size_of::<u64>())];
    least(|| {
        black_box(
            black_box(&words)
                .iter()
                .fold(0, |sum: u64, word| sum.wrapping_add(*word)),
        );
    })
}

fn least(mut f: impl FnMut()) -> f64 {
    let seconds = (0..TRIES).map(|_| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    });
    seconds.fold(f64::INFINITY, f64::min)
}
