//! What a call of a kernel asks of the GPU: operations, memory traffic, thread blocks, and the share of
//! the peak that its code reaches. The libraries of a Jetson choose among several implementations of a
//! convolution and of a product of matrices; so does this module.
//!
//! The constants are assumptions that give the usual orders of magnitude for code of 32 bits. They are
//! not measured.

use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_kernels::{Call, Operation};

/// Size of the second-level cache for each resident thread block in bytes: 512 KiB on a Jetson AGX
/// Xavier.
const CACHE_PER_BLOCK: f64 = 16.0 * 1024.0;

/// Share of the peak of a convolution with one channel in each group.
const DEPTHWISE: f64 = 0.14;

/// Share of the peak of an elementwise kernel.
const ELEMENTWISE: f64 = 0.3;

/// How the libraries of a board compute. Nobody publishes these figures, and they differ between GPUs and releases. So
/// each board has its own, drawn around the usual orders of magnitude: no model can know them.
#[derive(Clone, Debug, PartialEq)]
pub struct Library {
    /// Number of thread blocks that the GPU holds.
    resident: f64,
    /// Tiles of the implementations of a product of matrices: rows, columns, and the share of the peak
    /// with full tiles. Larger tiles reuse more of what they load.
    tiles: [(f64, f64, f64); 4],
    /// Length of the sum at which a tile reaches half of its speed: start and end of a tile cost time.
    short_sum: f64,
    winograd: Winograd,
    /// Number of outputs of a thread block of an elementwise kernel.
    elementwise_outputs: f64,
}

/// The Winograd transform of a library.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Winograd {
    /// The factor by which it lowers the number of operations: 2.25 for F(2×2, 3×3), 4 for F(4×4, 3×3) (Lavin and Gray 2016).
    saved: f64,
    /// Share of the peak that its code reaches.
    efficiency: f64,
    /// Fewest channels for which the library uses it.
    least_channels: u32,
}

impl Library {
    /// The library of a board.
    pub fn for_board(board: &Board) -> Self {
        // FNV-1a of the name.
        let seed = board
            .name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut one_of = |sizes: &[f64]| *sizes.choose(&mut random).expect("sizes");
        let large = one_of(&[96.0, 128.0, 160.0, 192.0]);
        let medium = one_of(&[48.0, 64.0, 80.0]);
        let small = one_of(&[16.0, 24.0, 32.0, 40.0]);
        let elementwise_outputs = one_of(&[256.0, 512.0, 1_024.0, 2_048.0]);
        let saved = one_of(&[2.25, 4.0]);
        let channels = one_of(&[16.0, 24.0, 32.0, 48.0]);
        let mut between = |least: f64, most: f64| random.random_range(least..most);
        Self {
            resident: board.physics().gpu.blocks,
            tiles: [
                (large, large, between(0.76, 0.86)),
                (large, medium, between(0.70, 0.80)),
                (medium, medium, between(0.58, 0.70)),
                (small, small, between(0.34, 0.48)),
            ],
            short_sum: between(24.0, 80.0),
            // The larger transform reaches less of the peak.
            winograd: Winograd {
                saved,
                efficiency: between(0.55, 0.75) * 1.5 / saved.sqrt(),
                least_channels: channels as u32,
            },
            elementwise_outputs,
        }
    }
}

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
    /// The demand of a call with the library of a board.
    pub fn from_call(call: &Call, library: &Library) -> Self {
        let resident = library.resident;
        match call.operation() {
            Operation::Conv2d { input, groups, .. } if groups > 1 && groups == input.channels => {
                Self {
                    efficiency: DEPTHWISE,
                    ..Self::elementwise(call, library)
                }
            }
            Operation::Conv2d {
                input,
                out_channels,
                window,
                groups,
            } => {
                let product = Self::product(call, library);
                let is_winograd = window.size == [3, 3]
                    && window.stride == [1, 1]
                    && window.dilation == [1, 1]
                    && groups == 1
                    && input.channels.min(out_channels) >= library.winograd.least_channels;
                match is_winograd {
                    true => product.faster(Self::winograd(call, library, product.blocks), resident),
                    false => product,
                }
            }
            Operation::MatMul { .. } => Self::product(call, library),
            // Each input is copied by a launch of its own.
            Operation::Cat { inputs, .. } => Self {
                launches: inputs.into(),
                blocks: (Self::elementwise(call, library).blocks / f64::from(inputs)).max(1.0),
                ..Self::elementwise(call, library)
            },
            // A block reduces one channel.
            Operation::AdaptiveAvgPool2d { .. } => {
                let output = call.output();
                Self {
                    blocks: f64::from(output.batch) * f64::from(output.channels),
                    ..Self::elementwise(call, library)
                }
            }
            Operation::BatchNorm2d(_)
            | Operation::Relu(_)
            | Operation::MaxPool2d { .. }
            | Operation::Add(_) => Self::elementwise(call, library),
        }
    }

    fn elementwise(call: &Call, library: &Library) -> Self {
        Self {
            launches: 1.0,
            flop: call.flop() as f64,
            efficiency: ELEMENTWISE,
            bytes: compulsory(call),
            blocks: (call.output().elements() as f64 / library.elementwise_outputs).ceil(),
        }
    }

    /// The fastest tiles for a call that is computed as products of matrices.
    fn product(call: &Call, library: &Library) -> Self {
        let resident = library.resident;
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
                    / (matrices.inner + library.short_sum)
                    / tail(blocks, resident),
                bytes: compulsory + 0.25 * missed * (loaded - compulsory).max(0.0),
                blocks,
            }
        };
        let [first, others @ ..] = library.tiles.each_ref().map(with);
        let faster = |best: Self, other| best.faster(other, resident);
        others.into_iter().fold(first, faster)
    }

    /// The Winograd transform: fewer operations, more traffic, two launches more.
    fn winograd(call: &Call, library: &Library, blocks: f64) -> Self {
        let Winograd {
            saved, efficiency, ..
        } = library.winograd;
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
