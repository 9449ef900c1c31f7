//! Parameters of kernels, and operations as lists of their values.

use crate::{Kind, Operation, Shape, Window};

/// A parameter of a kernel: a column of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Parameter {
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
    OutHeight,
    OutWidth,
    Rows,
    Inner,
    Columns,
    Inputs,
}

impl Parameter {
    /// All parameters, in the order of a corpus' columns.
    pub const ALL: [Self; 20] = [
        Self::Batch,
        Self::Channels,
        Self::Height,
        Self::Width,
        Self::OutChannels,
        Self::WindowHeight,
        Self::WindowWidth,
        Self::StrideHeight,
        Self::StrideWidth,
        Self::PaddingHeight,
        Self::PaddingWidth,
        Self::DilationHeight,
        Self::DilationWidth,
        Self::Groups,
        Self::OutHeight,
        Self::OutWidth,
        Self::Rows,
        Self::Inner,
        Self::Columns,
        Self::Inputs,
    ];

    /// The name of the column in a corpus.
    pub fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Channels => "channels",
            Self::Height => "height",
            Self::Width => "width",
            Self::OutChannels => "out_channels",
            Self::WindowHeight => "kernel_h",
            Self::WindowWidth => "kernel_w",
            Self::StrideHeight => "stride_h",
            Self::StrideWidth => "stride_w",
            Self::PaddingHeight => "padding_h",
            Self::PaddingWidth => "padding_w",
            Self::DilationHeight => "dilation_h",
            Self::DilationWidth => "dilation_w",
            Self::Groups => "groups",
            Self::OutHeight => "out_h",
            Self::OutWidth => "out_w",
            Self::Rows => "rows",
            Self::Inner => "inner",
            Self::Columns => "columns",
            Self::Inputs => "inputs",
        }
    }

    /// Whether 0 is a value.
    pub fn may_be_zero(self) -> bool {
        matches!(self, Self::PaddingHeight | Self::PaddingWidth)
    }
}

impl Operation {
    /// The kind of the kernel.
    pub fn kind(&self) -> Kind {
        match self {
            Self::Conv2d { .. } => Kind::Conv2d,
            Self::BatchNorm2d(_) => Kind::BatchNorm2d,
            Self::MatMul { .. } => Kind::MatMul,
            Self::Relu(_) => Kind::Relu,
            Self::MaxPool2d { .. } => Kind::MaxPool2d,
            Self::AdaptiveAvgPool2d { .. } => Kind::AdaptiveAvgPool2d,
            Self::Add(_) => Kind::Add,
            Self::Cat { .. } => Kind::Cat,
        }
    }

    /// An operation from the values of its parameters.
    pub(crate) fn from_parameters(kind: Kind, value: impl Fn(Parameter) -> u32) -> Self {
        use Parameter::*;
        let shape = || Shape {
            batch: value(Batch),
            channels: value(Channels),
            height: value(Height),
            width: value(Width),
        };
        let window = || Window {
            size: [value(WindowHeight), value(WindowWidth)],
            stride: [value(StrideHeight), value(StrideWidth)],
            padding: [value(PaddingHeight), value(PaddingWidth)],
            dilation: [value(DilationHeight), value(DilationWidth)],
        };
        match kind {
            Kind::Conv2d => Self::Conv2d {
                input: shape(),
                out_channels: value(OutChannels),
                window: window(),
                groups: value(Groups),
            },
            Kind::BatchNorm2d => Self::BatchNorm2d(shape()),
            Kind::MatMul => Self::MatMul {
                batch: value(Batch),
                rows: value(Rows),
                inner: value(Inner),
                columns: value(Columns),
            },
            Kind::Relu => Self::Relu(shape()),
            Kind::MaxPool2d => Self::MaxPool2d {
                input: shape(),
                window: window(),
            },
            Kind::AdaptiveAvgPool2d => Self::AdaptiveAvgPool2d {
                input: shape(),
                out: [value(OutHeight), value(OutWidth)],
            },
            Kind::Add => Self::Add(shape()),
            Kind::Cat => Self::Cat {
                output: shape(),
                inputs: value(Inputs),
            },
        }
    }

    /// The value of a parameter; `None` for one that the kind does not take.
    pub(crate) fn value(&self, parameter: Parameter) -> Option<u32> {
        use Parameter::*;
        let (shape, window) = match *self {
            Self::Conv2d { input, window, .. } | Self::MaxPool2d { input, window } => {
                (Some(input), Some(window))
            }
            Self::BatchNorm2d(shape)
            | Self::Relu(shape)
            | Self::Add(shape)
            | Self::AdaptiveAvgPool2d { input: shape, .. }
            | Self::Cat { output: shape, .. } => (Some(shape), None),
            Self::MatMul { .. } => (None, None),
        };
        match (parameter, *self) {
            (
                Batch | Rows | Inner | Columns,
                Self::MatMul {
                    batch,
                    rows,
                    inner,
                    columns,
                },
            ) => Some(match parameter {
                Batch => batch,
                Rows => rows,
                Inner => inner,
                _ => columns,
            }),
            (Batch, _) => Some(shape?.batch),
            (Channels, _) => Some(shape?.channels),
            (Height, _) => Some(shape?.height),
            (Width, _) => Some(shape?.width),
            (WindowHeight, _) => Some(window?.size[0]),
            (WindowWidth, _) => Some(window?.size[1]),
            (StrideHeight, _) => Some(window?.stride[0]),
            (StrideWidth, _) => Some(window?.stride[1]),
            (PaddingHeight, _) => Some(window?.padding[0]),
            (PaddingWidth, _) => Some(window?.padding[1]),
            (DilationHeight, _) => Some(window?.dilation[0]),
            (DilationWidth, _) => Some(window?.dilation[1]),
            (OutChannels, Self::Conv2d { out_channels, .. }) => Some(out_channels),
            (Groups, Self::Conv2d { groups, .. }) => Some(groups),
            (OutHeight, Self::AdaptiveAvgPool2d { out, .. }) => Some(out[0]),
            (OutWidth, Self::AdaptiveAvgPool2d { out, .. }) => Some(out[1]),
            (Inputs, Self::Cat { inputs, .. }) => Some(inputs),
            _ => None,
        }
    }
}
