//! Networks: an ONNX file as a list of kernel calls, and its time and power in every mode without any
//! profiling of it.
//!
//! ```text
//! ONNX file ──► graph: shapes ──► lower: kernel calls ──► compose: time and energy in each mode ──► fit: a file
//! ```
//!
//! | question | module |
//! |---|---|
//! | Which operators has the file, and which shapes do their tensors have? | [`graph`], [`operator`] |
//! | Which kernels does an engine launch for them? | [`lower`](mod@lower) |
//! | How long do they take together, and how much energy? | [`compose`](mod@compose) |
//! | Where do they go? | [`explain`] |
//! | How sure is that, and how does it become a model file? | [`fit`](mod@fit) |

pub mod compose;
pub mod explain;
pub mod fit;
pub mod graph;
pub mod lower;
pub mod operator;
mod shapes;
