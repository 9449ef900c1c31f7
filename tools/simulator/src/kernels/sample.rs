//! Random calls. Half of them have the form of a call in a known network, half are drawn freely from
//! ranges that contain those of the networks; MIRAGE's authors sampled in this way.

use rand::RngExt;
use rand::seq::IndexedRandom;
use rand_chacha::ChaCha8Rng;
use wattgate_kernels::{Call, Kind, Operation, Shape, Window};

/// Largest number of operations and of bytes of a call.
const MOST_WORK: u64 = 100_000_000_000;
const MOST_BYTES: u64 = 400_000_000;

/// Sizes of images in known networks.
const SIDES: [u32; 14] = [1, 4, 7, 8, 13, 14, 17, 27, 28, 35, 56, 112, 149, 224];

/// Numbers of channels in known networks.
const CHANNEL_COUNTS: [u32; 26] = [
    3, 16, 24, 32, 48, 58, 64, 80, 96, 116, 128, 144, 160, 192, 232, 256, 320, 384, 464, 512, 576,
    768, 960, 1024, 1280, 2048,
];

/// Kernel, stride and padding of windows in known networks; each is square.
const WINDOWS: [[u32; 3]; 9] = [
    [1, 1, 0],
    [1, 1, 0],
    [1, 2, 0],
    [3, 1, 1],
    [3, 1, 1],
    [3, 2, 1],
    [5, 1, 2],
    [7, 2, 3],
    [11, 4, 2],
];

/// Draws a call of a kind.
pub fn sample(kind: Kind, random: &mut ChaCha8Rng) -> Call {
    loop {
        let is_known = random.random_bool(0.5);
        let Ok(call) = Call::new(operation(kind, is_known, random)) else {
            continue;
        };
        let bytes = call.input_bytes() + call.weight_bytes() + call.output_bytes();
        if call.flop() <= MOST_WORK && bytes <= MOST_BYTES {
            return call;
        }
    }
}

fn operation(kind: Kind, is_known: bool, random: &mut ChaCha8Rng) -> Operation {
    let shape = shape(is_known, random);
    match kind {
        Kind::Conv2d => convolution(shape, is_known, random),
        Kind::BatchNorm2d => Operation::BatchNorm2d(shape),
        Kind::MatMul => {
            let size = |random: &mut ChaCha8Rng| match is_known {
                true => *[512, 1_000, 1_024, 1_280, 2_048, 4_096, 9_216, 25_088]
                    .choose(random)
                    .expect("a size"),
                false => spread_out(16, 26_000, random),
            };
            Operation::MatMul {
                batch: 1,
                rows: shape.batch,
                inner: size(random),
                columns: size(random),
            }
        }
        Kind::Relu => Operation::Relu(shape),
        Kind::MaxPool2d => Operation::MaxPool2d {
            input: shape,
            window: match is_known {
                true => {
                    square([[2, 2, 0], [3, 2, 0], [3, 2, 1], [3, 1, 1]][random.random_range(0..4)])
                }
                false => free_window(5, random),
            },
        },
        Kind::AdaptiveAvgPool2d => {
            let out = *[1, 1, 6, 7].choose(random).expect("a size");
            Operation::AdaptiveAvgPool2d {
                input: shape,
                out: [out; 2],
            }
        }
        Kind::Add => Operation::Add(shape),
        Kind::Cat => Operation::Cat {
            output: shape,
            inputs: random.random_range(2..=4),
        },
    }
}

fn shape(is_known: bool, random: &mut ChaCha8Rng) -> Shape {
    let batch = 1 << random.random_range(0..5);
    match is_known {
        true => {
            let side = *SIDES.choose(random).expect("a size");
            Shape {
                batch,
                channels: *CHANNEL_COUNTS.choose(random).expect("a number"),
                height: side,
                width: side,
            }
        }
        false => {
            let side = spread_out(1, 300, random);
            Shape {
                batch: random.random_range(1..=16),
                channels: spread_out(3, 2_304, random),
                height: side,
                width: side,
            }
        }
    }
}

fn convolution(input: Shape, is_known: bool, random: &mut ChaCha8Rng) -> Operation {
    let channels = input.channels;
    let (window, out_channels) = match is_known {
        true => (
            known_window(random),
            *CHANNEL_COUNTS.choose(random).expect("a number"),
        ),
        false => (free_window(11, random), spread_out(3, 2_304, random)),
    };
    // One convolution in five has one channel in each group, one in ten a few groups.
    let (groups, out_channels) = match random.random_range(0..10) {
        0 | 1 => (channels, channels),
        2 => {
            let groups = [2, 3, 4, 8][random.random_range(0..4)];
            match channels % groups {
                0 => (groups, out_channels.next_multiple_of(groups)),
                _ => (1, out_channels),
            }
        }
        _ => (1, out_channels),
    };
    Operation::Conv2d {
        input,
        out_channels,
        window,
        groups,
    }
}

fn square([size, stride, padding]: [u32; 3]) -> Window {
    Window {
        size: [size; 2],
        stride: [stride; 2],
        padding: [padding; 2],
        dilation: [1; 2],
    }
}

fn known_window(random: &mut ChaCha8Rng) -> Window {
    // Inception's windows of 1 × n and n × 1.
    if random.random_bool(0.1) {
        let n = [3, 7][random.random_range(0..2)];
        let mut window = square([n, 1, n / 2]);
        let flat = random.random_range(0..2);
        window.size[flat] = 1;
        window.padding[flat] = 0;
        return window;
    }
    square(*WINDOWS.choose(random).expect("a window"))
}

fn free_window(most: u32, random: &mut ChaCha8Rng) -> Window {
    let size = random.random_range(1..=most);
    let stride = random.random_range(1..=4);
    let padding = random.random_range(0..=size / 2);
    Window {
        dilation: [1 + u32::from(random.random_bool(0.1)); 2],
        ..square([size, stride, padding])
    }
}

/// An integer of a range whose logarithm is uniform.
fn spread_out(least: u32, most: u32, random: &mut ChaCha8Rng) -> u32 {
    let log = random.random_range(f64::from(least).ln()..=f64::from(most).ln());
    (log.exp().round() as u32).clamp(least, most)
}
