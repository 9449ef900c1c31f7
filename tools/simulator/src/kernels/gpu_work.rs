//! What a call of a kernel asks of the GPU: operations, memory traffic, thread blocks, and the share of
//! the peak that its code reaches. The libraries of a Jetson choose among several implementations of a
//! convolution and of a product of matrices; so does this module.
//!
//! The constants are assumptions that give the usual orders of magnitude for code of 32 bits. They are
//! not measured.

use wattgate_kernels::{Call, Operation};

/// Size of the second-level cache for each resident thread block in bytes: 512 KiB on a Jetson AGX
/// Xavier.
const CACHE_PER_BLOCK: f64 = 16.0 * 1024.0;

/// Number of outputs of a thread block of an elementwise kernel.
const ELEMENTWISE_OUTPUTS: f64 = 1024.0;

/// Tiles of the implementations of a product of matrices: rows, columns, and the share of the peak
/// with full tiles. Larger tiles reuse more of what they load.
const TILES: [(f64, f64, f64); 4] = [
    (128.0, 128.0, 0.82),
    (128.0, 64.0, 0.76),
    (64.0, 64.0, 0.66),
    (32.0, 32.0, 0.42),
];

/// Length of the sum at which a tile reaches half of its speed: start and end of a tile cost time.
const SHORT_SUM: f64 = 48.0;

/// Operations that the Winograd transform F(2×2, 3×3) saves (Lavin and Gray 2016), and what its
/// code reaches of the peak.
const WINOGRAD: (f64, f64) = (2.25, 0.68);

/// Fewest channels for which the Winograd transform pays.
const WINOGRAD_CHANNELS: u32 = 32;

/// Share of the peak of a convolution with one channel in each group.
const DEPTHWISE: f64 = 0.14;

/// Share of the peak of an elementwise kernel.
const ELEMENTWISE: f64 = 0.3;

/// Demand of one call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuWork {
    /// Number of kernels that the call launches.
    pub launches: f64,
    /// Number of floating-point operations that the implementation executes.
    pub flop: f64,
    /// Share of the GPU's peak throughput, for as many blocks as the GPU holds.
    pub efficiency: f64,
    /// Traffic to and from the memory in bytes.
    pub bytes: f64,
    /// Number of thread blocks of a launch.
    pub blocks: f64,
}

impl GpuWork {
    /// The demand of a call on a GPU that holds `resident` thread blocks.
    pub fn from_call(call: &Call, resident: f64) -> Self {
        match call.operation() {
            Operation::Conv2d { input, groups, .. } if groups > 1 && groups == input.channels => {
                Self {
                    efficiency: DEPTHWISE,
                    ..Self::elementwise(call)
                }
            }
            Operation::Conv2d {
                input,
                out_channels,
                window,
                groups,
            } => {
                let product = Self::product(call, resident);
                let is_winograd = window.size == [3, 3]
                    && window.stride == [1, 1]
                    && window.dilation == [1, 1]
                    && groups == 1
                    && input.channels.min(out_channels) >= WINOGRAD_CHANNELS;
                match is_winograd {
                    true => product.faster(Self::winograd(call, product.blocks), resident),
                    false => product,
                }
            }
            Operation::MatMul { .. } => Self::product(call, resident),
            // Each input is copied by a launch of its own.
            Operation::Cat { inputs, .. } => Self {
                launches: inputs.into(),
                blocks: (Self::elementwise(call).blocks / f64::from(inputs)).max(1.0),
                ..Self::elementwise(call)
            },
            // A block reduces one channel.
            Operation::AdaptiveAvgPool2d { .. } => {
                let output = call.output();
                Self {
                    blocks: f64::from(output.batch) * f64::from(output.channels),
                    ..Self::elementwise(call)
                }
            }
            Operation::BatchNorm2d(_)
            | Operation::Relu(_)
            | Operation::MaxPool2d { .. }
            | Operation::Add(_) => Self::elementwise(call),
        }
    }

    fn elementwise(call: &Call) -> Self {
        Self {
            launches: 1.0,
            flop: call.flop() as f64,
            efficiency: ELEMENTWISE,
            bytes: compulsory(call),
            blocks: (call.output().elements() as f64 / ELEMENTWISE_OUTPUTS).ceil(),
        }
    }

    /// The fastest tiles for a call that is computed as products of matrices.
    fn product(call: &Call, resident: f64) -> Self {
        let matrices = call.matrices().expect("a convolution or a product");
        let with = |&(tall, wide, peak): &(f64, f64, f64)| {
            let [down, across] = [matrices.rows / tall, matrices.columns / wide].map(f64::ceil);
            let blocks = matrices.number * down * across;
            let filled = matrices.rows * matrices.columns / (down * tall * across * wide);
            // What each tile loads beyond the first time comes from the cache, or from the memory.
            let loaded = 4.0
                * matrices.number
                * matrices.inner
                * (matrices.rows * across + matrices.columns * down);
            let compulsory = compulsory(call);
            let cache = CACHE_PER_BLOCK * resident;
            let missed = compulsory / (compulsory + cache);
            Self {
                launches: 1.0,
                flop: call.flop() as f64,
                efficiency: peak * filled * matrices.inner
                    / (matrices.inner + SHORT_SUM)
                    / tail(blocks, resident),
                bytes: compulsory + 0.25 * missed * (loaded - compulsory).max(0.0),
                blocks,
            }
        };
        let [first, others @ ..] = TILES.each_ref().map(with);
        let faster = |best: Self, other| best.faster(other, resident);
        others.into_iter().fold(first, faster)
    }

    /// The Winograd transform: fewer operations, more traffic, two launches more.
    fn winograd(call: &Call, blocks: f64) -> Self {
        let (saved, efficiency) = WINOGRAD;
        Self {
            launches: 3.0,
            flop: call.flop() as f64 / saved,
            efficiency,
            bytes: 3.0 * compulsory(call),
            blocks,
        }
    }

    /// The one that a library expects to compute for a shorter time. Libraries do not ask for the
    /// clocks.
    fn faster(self, other: Self, resident: f64) -> Self {
        let expected = |work: &Self| {
            let full = (resident / work.blocks).max(1.0);
            work.flop / work.efficiency * full
        };
        match expected(&other) < expected(&self) {
            true => other,
            false => self,
        }
    }
}

/// Each input is read once, each output written once.
fn compulsory(call: &Call) -> f64 {
    (call.input_bytes() + call.weight_bytes() + call.output_bytes()) as f64
}

/// The blocks run in waves, and the last one is not full.
fn tail(blocks: f64, resident: f64) -> f64 {
    let waves = (blocks / resident).max(1.0);
    waves.ceil() / waves
}
