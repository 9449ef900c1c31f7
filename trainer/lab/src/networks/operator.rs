//! An operator of a network with the shapes of its tensors, and why one is refused.

use std::collections::HashMap;

use thiserror::Error;

/// An operator with the shapes of its tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Operator {
    /// The name of the node, or of its first output.
    pub name: String,
    /// The operator, such as `Conv`.
    pub kind: String,
    /// Shapes of the inputs; empty for an optional input that is absent.
    pub inputs: Vec<Vec<i64>>,
    /// Whether each input is a constant: a weight.
    pub constant: Vec<bool>,
    /// Shapes of the outputs.
    pub outputs: Vec<Vec<i64>>,
    /// Names of the tensors that it reads and writes.
    pub reads: Vec<String>,
    pub writes: Vec<String>,
    /// Attributes with whole numbers.
    pub numbers: HashMap<String, Vec<i64>>,
}

impl Operator {
    /// The numbers of an attribute; `None` if the node has none of this name.
    pub fn numbers(&self, name: &str) -> Option<&[i64]> {
        self.numbers.get(name).map(Vec::as_slice)
    }

    /// The first number of an attribute, or a default.
    pub fn number(&self, name: &str, default: i64) -> i64 {
        let first = self.numbers(name).and_then(<[i64]>::first);
        first.copied().unwrap_or(default)
    }
}

/// Why a graph is refused.
#[derive(Debug, Error, PartialEq)]
pub enum NetworkError {
    /// An input has a dimension without a size.
    #[error(
        "input `{input}` has the shape [{shape}]: name the size of a batch with --batch; the other dimensions need sizes in the file"
    )]
    Dynamic { input: String, shape: String },
    /// No input is a tensor of at least two dimensions.
    #[error("no input is a tensor with a batch; expected one such as [1, 3, 224, 224]")]
    NoInput,
    /// A subgraph.
    #[error(
        "node `{node}`: `{kind}` runs a subgraph, whose number of rounds the file does not say; export the network without it"
    )]
    Loop { node: String, kind: String },
    /// An operator whose output's shape is not known.
    #[error(
        "node `{node}`: the operator `{kind}` is not supported; export the network without it, or as the operators that it consists of"
    )]
    Unsupported { node: String, kind: String },
    /// A tensor that nothing makes.
    #[error(
        "node `{node}` reads `{tensor}`, which no node before it makes; export the network again"
    )]
    Unmade { node: String, tensor: String },
    /// The shapes do not fit the operator.
    #[error("node `{node}`: `{kind}` of the shapes {shapes}: {why}; export the network again")]
    Shapes {
        node: String,
        kind: String,
        shapes: String,
        why: &'static str,
    },
    /// A kernel call that cannot be.
    #[error("node `{node}`: {why}")]
    Call {
        node: String,
        why: wattgate_kernels::CallError,
    },
    /// The network does nothing that takes time.
    #[error("no operator of the network runs on the GPU; expected one such as Conv or MatMul")]
    Empty,
}

/// A tensor: its shape, and its elements where they were computed.
#[derive(Clone, Debug, Default)]
pub(super) struct Tensor {
    pub shape: Vec<i64>,
    pub data: Option<Vec<i64>>,
    pub is_constant: bool,
}
