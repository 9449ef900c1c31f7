//! Kernels of convolutional networks: their parameters, output shapes, operations and bytes.
//!
//! The eight kinds are those of MIRAGE (Abdelhafez et al., SEC 2021). The authors measured that they
//! make up 96 % of the time of ten networks. Names and parameters are those of PyTorch. All numbers are
//! of 32 bits.
#![forbid(unsafe_code)]

mod parameter;

use thiserror::Error;

pub use parameter::Parameter;

/// Size of a number in bytes.
const NUMBER: u64 = 4;

/// Largest number of elements of a tensor: 4 GiB.
const MOST_ELEMENTS: u64 = 1 << 30;

/// A kind of kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Conv2d,
    BatchNorm2d,
    MatMul,
    Relu,
    MaxPool2d,
    AdaptiveAvgPool2d,
    Add,
    Cat,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 8] = [
        Self::Conv2d,
        Self::BatchNorm2d,
        Self::MatMul,
        Self::Relu,
        Self::MaxPool2d,
        Self::AdaptiveAvgPool2d,
        Self::Add,
        Self::Cat,
    ];

    /// The name in a corpus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Conv2d => "conv2d",
            Self::BatchNorm2d => "batch_norm2d",
            Self::MatMul => "mat_mul",
            Self::Relu => "relu",
            Self::MaxPool2d => "max_pool2d",
            Self::AdaptiveAvgPool2d => "adaptive_avg_pool2d",
            Self::Add => "add",
            Self::Cat => "cat",
        }
    }

    /// The kind of this name, or of this name of a PyTorch class: `conv2d` or `Conv2d`, `max_pool2d` or
    /// `MaxPool2d`.
    pub fn named(name: &str) -> Option<Self> {
        fn letters(name: &str) -> impl Iterator<Item = u8> {
            let letters = name.bytes().filter(|letter| *letter != b'_');
            letters.map(|letter| letter.to_ascii_lowercase())
        }
        let mut all = Self::ALL.into_iter();
        all.find(|kind| letters(kind.name()).eq(letters(name)))
    }

    /// The parameters of the kind, in the order of a corpus' columns.
    pub fn parameters(self) -> &'static [Parameter] {
        use Parameter::*;
        match self {
            Self::Conv2d => &[
                Batch,
                Channels,
                Height,
                Width,
                OutChannels,
                WindowHeight,
                WindowWidth,
                StrideHeight,
                StrideWidth,
                PaddingHeight,
                PaddingWidth,
                DilationHeight,
                DilationWidth,
                Groups,
            ],
            Self::BatchNorm2d | Self::Relu | Self::Add => &[Batch, Channels, Height, Width],
            Self::MatMul => &[Batch, Rows, Inner, Columns],
            Self::MaxPool2d => &[
                Batch,
                Channels,
                Height,
                Width,
                WindowHeight,
                WindowWidth,
                StrideHeight,
                StrideWidth,
                PaddingHeight,
                PaddingWidth,
                DilationHeight,
                DilationWidth,
            ],
            Self::AdaptiveAvgPool2d => &[Batch, Channels, Height, Width, OutHeight, OutWidth],
            Self::Cat => &[Batch, Channels, Height, Width, Inputs],
        }
    }
}

/// Shape of a tensor of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    pub batch: u32,
    pub channels: u32,
    pub height: u32,
    pub width: u32,
}

impl Shape {
    /// Number of elements.
    pub fn elements(self) -> u64 {
        [self.batch, self.channels, self.height, self.width]
            .into_iter()
            .fold(1, |product: u64, n| product.saturating_mul(n.into()))
    }

    /// Size in bytes.
    pub fn bytes(self) -> u64 {
        NUMBER * self.elements()
    }
}

/// A window that slides over an image; each pair is height, then width.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Window {
    pub size: [u32; 2],
    pub stride: [u32; 2],
    /// Zeros on each side of the image.
    pub padding: [u32; 2],
    pub dilation: [u32; 2],
}

impl Window {
    /// Number of elements that the window covers.
    pub fn elements(self) -> u64 {
        u64::from(self.size[0]) * u64::from(self.size[1])
    }

    /// Height and width of the output of an image; `None` if the window does not fit.
    fn over(self, image: [u32; 2]) -> Option<[u32; 2]> {
        let one = |at: usize| {
            let [size, stride, padding, dilation, length] = [
                self.size[at],
                self.stride[at],
                self.padding[at],
                self.dilation[at],
                image[at],
            ]
            .map(u64::from);
            let spans = dilation * (size - 1) + 1;
            let left = (length + 2 * padding).checked_sub(spans)?;
            u32::try_from(left / stride + 1).ok()
        };
        Some([one(0)?, one(1)?])
    }
}

/// Products of matrices, `rows` × `inner` times `inner` × `columns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Matrices {
    /// Number of products.
    pub number: f64,
    pub rows: f64,
    pub inner: f64,
    pub columns: f64,
}

/// Why parameters do not make a call.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CallError {
    /// A parameter of the kernel has no value.
    #[error("`{}` needs `{}`; fill it in", kind.name(), parameter.name())]
    Missing { kind: Kind, parameter: Parameter },
    /// A parameter of another kernel has a value.
    #[error("`{}` takes no `{}`; leave it blank", kind.name(), parameter.name())]
    NotTaken { kind: Kind, parameter: Parameter },
    /// A size is zero.
    #[error("`{}` is 0, expected 1 or more", .0.name())]
    Zero(Parameter),
    /// The groups do not divide the channels.
    #[error(
        "`groups` is {groups}, which does not divide {channels} input and {out_channels} output channels; correct one of them"
    )]
    Groups {
        groups: u32,
        channels: u32,
        out_channels: u32,
    },
    /// The window is larger than the padded image.
    #[error(
        "the window is larger than the image of {height} x {width} with its padding; correct one of them"
    )]
    Window { height: u32, width: u32 },
    /// A tensor has more than 2³⁰ elements.
    #[error("a tensor has more than {MOST_ELEMENTS} elements; correct its sizes")]
    TooLarge,
}

/// A kernel with its parameters, valid by construction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Call {
    operation: Operation,
    output: Shape,
}

/// What a kernel does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Conv2d {
        input: Shape,
        out_channels: u32,
        window: Window,
        groups: u32,
    },
    BatchNorm2d(Shape),
    /// `batch` products of a matrix of `rows` × `inner` and one of `inner` × `columns`.
    MatMul {
        batch: u32,
        rows: u32,
        inner: u32,
        columns: u32,
    },
    Relu(Shape),
    MaxPool2d {
        input: Shape,
        window: Window,
    },
    AdaptiveAvgPool2d {
        input: Shape,
        out: [u32; 2],
    },
    Add(Shape),
    /// Joins tensors along their channels; the shape is the output's.
    Cat {
        output: Shape,
        inputs: u32,
    },
}

impl Call {
    /// Checks an operation.
    pub fn new(operation: Operation) -> Result<Self, CallError> {
        let kind = operation.kind();
        for &parameter in kind.parameters() {
            if operation.value(parameter) == Some(0) && !parameter.may_be_zero() {
                return Err(CallError::Zero(parameter));
            }
        }
        let slide = |input: Shape, window: Window, channels| {
            let (height, width) = (input.height, input.width);
            let over = window.over([height, width]);
            let [out_height, out_width] = over.ok_or(CallError::Window { height, width })?;
            Ok(Shape {
                channels,
                height: out_height,
                width: out_width,
                ..input
            })
        };
        let output = match operation {
            Operation::Conv2d {
                input,
                out_channels,
                window,
                groups,
            } => {
                let channels = input.channels;
                if channels % groups != 0 || out_channels % groups != 0 {
                    return Err(CallError::Groups {
                        groups,
                        channels,
                        out_channels,
                    });
                }
                slide(input, window, out_channels)?
            }
            Operation::MaxPool2d { input, window } => slide(input, window, input.channels)?,
            Operation::AdaptiveAvgPool2d { input, out } => Shape {
                height: out[0],
                width: out[1],
                ..input
            },
            Operation::MatMul {
                batch,
                rows,
                columns,
                ..
            } => Shape {
                batch,
                channels: 1,
                height: rows,
                width: columns,
            },
            Operation::BatchNorm2d(shape) | Operation::Relu(shape) | Operation::Add(shape) => shape,
            Operation::Cat { output, .. } => output,
        };
        let call = Self { operation, output };
        let tensors = [output.bytes(), call.input_bytes(), call.weight_bytes()];
        match tensors.iter().all(|bytes| *bytes <= NUMBER * MOST_ELEMENTS) {
            true => Ok(call),
            false => Err(CallError::TooLarge),
        }
    }

    /// Makes a call from the values of its parameters. `value` is `None` for a parameter without a value.
    pub fn from_parameters(
        kind: Kind,
        value: impl Fn(Parameter) -> Option<u32>,
    ) -> Result<Self, CallError> {
        let parameters = kind.parameters();
        for parameter in Parameter::ALL {
            match (parameters.contains(&parameter), value(parameter)) {
                (true, None) => return Err(CallError::Missing { kind, parameter }),
                (false, Some(_)) => return Err(CallError::NotTaken { kind, parameter }),
                _ => {}
            }
        }
        // Each parameter that the kind takes has a value.
        Self::new(Operation::from_parameters(kind, |parameter| {
            value(parameter).unwrap_or(0)
        }))
    }

    /// What the kernel does.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// The kind of the kernel.
    pub fn kind(&self) -> Kind {
        self.operation.kind()
    }

    /// The value of a parameter; `None` for one that the kind does not take.
    pub fn value(&self, parameter: Parameter) -> Option<u32> {
        self.operation.value(parameter)
    }

    /// The shape of the output. That of a product of matrices has one channel.
    pub fn output(&self) -> Shape {
        self.output
    }

    /// The products of matrices that a convolution or a product is computed as; `None` for another kind. A
    /// group of a convolution is a product of the weights and the windows of all output pixels.
    pub fn matrices(&self) -> Option<Matrices> {
        match self.operation {
            Operation::Conv2d {
                input,
                out_channels,
                window,
                groups,
            } => {
                let [batch, height, width] =
                    [self.output.batch, self.output.height, self.output.width].map(f64::from);
                Some(Matrices {
                    number: groups.into(),
                    rows: f64::from(out_channels / groups),
                    inner: f64::from(input.channels / groups) * window.elements() as f64,
                    columns: batch * height * width,
                })
            }
            Operation::MatMul {
                batch,
                rows,
                inner,
                columns,
            } => Some(Matrices {
                number: batch.into(),
                rows: rows.into(),
                inner: inner.into(),
                columns: columns.into(),
            }),
            _ => None,
        }
    }

    /// Number of floating-point operations. A multiplication with an addition counts as two.
    pub fn flop(&self) -> u64 {
        let elements = self.output.elements();
        match self.operation {
            Operation::Conv2d {
                input,
                window,
                groups,
                ..
            } => 2 * elements * u64::from(input.channels / groups) * window.elements(),
            Operation::MatMul { inner, .. } => 2 * elements * u64::from(inner),
            Operation::BatchNorm2d(_) => 2 * elements,
            Operation::Relu(_) | Operation::Add(_) => elements,
            Operation::MaxPool2d { window, .. } => elements.saturating_mul(window.elements()),
            Operation::AdaptiveAvgPool2d { input, .. } => input.elements().max(elements),
            Operation::Cat { .. } => 0,
        }
    }

    /// Size of the inputs without the weights in bytes.
    pub fn input_bytes(&self) -> u64 {
        match self.operation {
            Operation::Conv2d { input, .. }
            | Operation::MaxPool2d { input, .. }
            | Operation::AdaptiveAvgPool2d { input, .. } => input.bytes(),
            Operation::MatMul {
                batch, rows, inner, ..
            } => matrix_bytes(batch, rows, inner),
            Operation::BatchNorm2d(shape) | Operation::Relu(shape) => shape.bytes(),
            Operation::Add(shape) => 2 * shape.bytes(),
            Operation::Cat { output, .. } => output.bytes(),
        }
    }

    /// Size of the weights in bytes: of a product of matrices, the right one.
    pub fn weight_bytes(&self) -> u64 {
        match self.operation {
            Operation::Conv2d {
                input,
                out_channels,
                window,
                groups,
            } => {
                let each = u64::from(input.channels / groups).saturating_mul(window.elements());
                NUMBER.saturating_mul(each.saturating_mul(out_channels.into()))
            }
            Operation::MatMul {
                batch,
                inner,
                columns,
                ..
            } => matrix_bytes(batch, inner, columns),
            // Mean, variance, factor and offset of each channel.
            Operation::BatchNorm2d(shape) => 4 * NUMBER * u64::from(shape.channels),
            _ => 0,
        }
    }

    /// Size of the output in bytes.
    pub fn output_bytes(&self) -> u64 {
        self.output.bytes()
    }
}

fn matrix_bytes(batch: u32, rows: u32, columns: u32) -> u64 {
    let shape = Shape {
        batch,
        channels: 1,
        height: rows,
        width: columns,
    };
    shape.bytes()
}

#[cfg(test)]
mod tests;
