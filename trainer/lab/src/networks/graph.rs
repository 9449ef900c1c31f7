//! The graph of an ONNX file with the shape of every tensor.
//!
//! Only shapes are needed, so weights are not looked at, and may be in files of their own. Small tensors
//! of integers are computed, since they hold the shapes that operators such as Reshape ask for.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rten_onnx::onnx::{
    AttributeProto, DataLocation, DataType, Dimension, GraphProto, ModelProto, NodeProto,
    TensorProto,
};
use thiserror::Error;

use super::operator::{NetworkError, Operator, Tensor};
use super::shapes::infer;

/// Largest number of elements of a tensor that is computed.
const MOST_COMPUTED: i64 = 4_096;

/// A network.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// The operators in the order of execution, without those whose result is a constant.
    pub operators: Vec<Operator>,
    /// The size of a batch.
    pub batch: u32,
}

/// Why a file gives no network.
#[derive(Debug, Error)]
pub enum NetworkFileError {
    /// The file cannot be read.
    #[error("{}: cannot read: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    /// The file is not ONNX, or truncated.
    #[error("{}: not an ONNX file, or truncated: {why}; export the network again", path.display())]
    NotOnnx { path: PathBuf, why: String },
    /// The graph is refused.
    #[error("{}: {why}", path.display())]
    Network { path: PathBuf, why: NetworkError },
}

impl Graph {
    /// Reads a file. `batch` replaces the first dimension of every input.
    pub fn read(path: &Path, batch: Option<u32>) -> Result<Self, NetworkFileError> {
        let bytes = fs::read(path).map_err(|source| NetworkFileError::Io {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(path, &bytes, batch)
    }

    /// Parses the bytes of a file; `path` is for messages.
    pub fn parse(path: &Path, bytes: &[u8], batch: Option<u32>) -> Result<Self, NetworkFileError> {
        let not_onnx = |why: String| NetworkFileError::NotOnnx {
            path: path.to_owned(),
            why,
        };
        if !is_whole(bytes) {
            return Err(not_onnx("a field is longer than the file".to_owned()));
        }
        let model = ModelProto::parse_buf(bytes).map_err(|why| not_onnx(why.to_string()))?;
        let graph = model.graph.filter(|graph| !graph.node.is_empty());
        let graph = graph.ok_or_else(|| not_onnx("it has no graph".to_owned()))?;
        Self::from_proto(&graph, batch).map_err(|why| NetworkFileError::Network {
            path: path.to_owned(),
            why,
        })
    }

    fn from_proto(graph: &GraphProto, batch: Option<u32>) -> Result<Self, NetworkError> {
        let mut tensors: HashMap<&str, Tensor> = HashMap::new();
        for weight in &graph.initializer {
            if let Some(name) = &weight.name {
                tensors.insert(name, constant(weight));
            }
        }
        let mut batches = None;
        for input in &graph.input {
            let name = input.name.as_deref().unwrap_or_default();
            if tensors.contains_key(name) {
                continue;
            }
            let of_type = input
                .r#type
                .as_ref()
                .and_then(|type_proto| type_proto.tensor_type.as_ref());
            let dims = of_type.and_then(|tensor| tensor.shape.as_ref());
            let dims = dims.map_or(&[][..], |shape| &shape.dim);
            let shape = input_shape(name, dims, batch)?;
            if shape.len() >= 2 && batches.is_none() {
                // The batch that constants of the file were made for.
                let old = dims[0].dim_value.unwrap_or(shape[0]);
                batches = Some((old, shape[0]));
            }
            tensors.insert(
                name,
                Tensor {
                    shape,
                    ..Tensor::default()
                },
            );
        }
        let batches = batches.ok_or(NetworkError::NoInput)?;
        let mut operators = Vec::new();
        for node in &graph.node {
            let operator = operator(node, &tensors)?;
            let inputs: Vec<&Tensor> = operator
                .reads
                .iter()
                .map(|name| tensors.get(&**name).expect("checked by `operator`"))
                .collect();
            let made = infer(&operator, &inputs, attribute_tensor(node), batches)?;
            let is_constant = made.iter().all(|tensor| tensor.is_constant);
            let outputs = made.iter().map(|tensor| tensor.shape.clone()).collect();
            for (name, mut tensor) in node.output.iter().zip(made) {
                if tensor.shape.iter().product::<i64>() > MOST_COMPUTED {
                    tensor.data = None;
                }
                tensors.insert(name, tensor);
            }
            if !is_constant {
                operators.push(Operator {
                    outputs,
                    ..operator
                });
            }
        }
        Ok(Self {
            operators,
            batch: u32::try_from(batches.1).unwrap_or(1),
        })
    }
}

/// Whether each field of a protocol buffer ends within it. The parser takes what is there of a truncated
/// field, and the network would lack its end.
fn is_whole(bytes: &[u8]) -> bool {
    let mut rest = bytes;
    let varint = |rest: &mut &[u8]| -> Option<u64> {
        let length = rest.iter().position(|byte| *byte < 0x80)? + 1;
        let (number, after) = rest.split_at(length);
        *rest = after;
        let number = number.iter().rev();
        Some(number.fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f)))
    };
    while !rest.is_empty() {
        let skipped = match varint(&mut rest).map(|tag| tag & 7) {
            Some(0) => varint(&mut rest).map(|_| 0),
            Some(1) => Some(8),
            Some(2) => varint(&mut rest).and_then(|length| usize::try_from(length).ok()),
            Some(5) => Some(4),
            _ => None,
        };
        match skipped.and_then(|length| rest.get(length..)) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    true
}

fn input_shape(
    name: &str,
    dims: &[Dimension],
    batch: Option<u32>,
) -> Result<Vec<i64>, NetworkError> {
    let known = dims.iter().map(|dim| dim.dim_value.filter(|n| *n > 0));
    let mut known: Vec<Option<i64>> = known.collect();
    if let (Some(first), Some(batch)) = (known.first_mut(), batch) {
        *first = Some(batch.into());
    }
    let shape: Option<Vec<i64>> = known.iter().copied().collect();
    shape.ok_or_else(|| {
        let text = |(dim, known): (&Dimension, &Option<i64>)| match (known, &dim.dim_param) {
            (Some(size), _) => size.to_string(),
            (None, Some(name)) if !name.is_empty() => name.clone(),
            (None, _) => "?".to_owned(),
        };
        NetworkError::Dynamic {
            input: name.to_owned(),
            shape: dims
                .iter()
                .zip(&known)
                .map(text)
                .collect::<Vec<_>>()
                .join(", "),
        }
    })
}

fn operator(node: &NodeProto, tensors: &HashMap<&str, Tensor>) -> Result<Operator, NetworkError> {
    let kind = node.op_type.clone().unwrap_or_default();
    let name = node.name.clone().filter(|name| !name.is_empty());
    let name = name
        .or_else(|| node.output.first().cloned())
        .unwrap_or_default();
    if node.attribute.iter().any(|attribute| attribute.g.is_some()) {
        return Err(NetworkError::Loop { node: name, kind });
    }
    // Optional inputs at the end may be absent, those in between have an empty name.
    let reads: Vec<String> = node
        .input
        .iter()
        .filter(|name| !name.is_empty())
        .cloned()
        .collect();
    for tensor in &reads {
        if !tensors.contains_key(&**tensor) {
            let (node, tensor) = (name, tensor.clone());
            return Err(NetworkError::Unmade { node, tensor });
        }
    }
    let tensor = |name: &String| &tensors[&**name];
    let numbers = node.attribute.iter().filter_map(numbers).collect();
    Ok(Operator {
        inputs: reads
            .iter()
            .map(|name| tensor(name).shape.clone())
            .collect(),
        constant: reads.iter().map(|name| tensor(name).is_constant).collect(),
        outputs: Vec::new(),
        writes: node.output.clone(),
        name,
        kind,
        reads,
        numbers,
    })
}

fn numbers(attribute: &AttributeProto) -> Option<(String, Vec<i64>)> {
    let name = attribute.name.clone()?;
    let numbers = match (attribute.i, &attribute.ints[..], &attribute.s) {
        (_, [_, ..], _) => attribute.ints.clone(),
        (Some(number), ..) => vec![number],
        // `auto_pad` is a text.
        (None, [], Some(text)) => text.bytes().map(i64::from).collect(),
        _ => return None,
    };
    Some((name, numbers))
}

/// The tensor of a Constant or a ConstantOfShape.
fn attribute_tensor(node: &NodeProto) -> Option<Tensor> {
    let tensor = node
        .attribute
        .iter()
        .find_map(|attribute| attribute.t.as_ref());
    tensor.map(constant)
}

fn constant(tensor: &TensorProto) -> Tensor {
    Tensor {
        shape: tensor.dims.clone(),
        data: integers(tensor),
        is_constant: true,
    }
}

/// The elements of a tensor of integers that is in the file.
fn integers(tensor: &TensorProto) -> Option<Vec<i64>> {
    let is_elsewhere = tensor.data_location == Some(DataLocation::EXTERNAL);
    if is_elsewhere || tensor.dims.iter().product::<i64>() > MOST_COMPUTED {
        return None;
    }
    let raw = tensor.raw_data.as_ref().map(|raw| raw.borrow());
    let raw = raw.as_deref().filter(|raw| !raw.is_empty());
    match (tensor.data_type?, raw) {
        (DataType::INT64, Some(raw)) => {
            let (whole, _) = raw.as_chunks::<8>();
            Some(
                whole
                    .iter()
                    .map(|bytes| i64::from_le_bytes(*bytes))
                    .collect(),
            )
        }
        (DataType::INT64, None) => Some(tensor.int64_data.clone()),
        (DataType::INT32, Some(raw)) => {
            let (whole, _) = raw.as_chunks::<4>();
            let number = |bytes: &[u8; 4]| i32::from_le_bytes(*bytes).into();
            Some(whole.iter().map(number).collect())
        }
        (DataType::INT32, None) => Some(tensor.int32_data.iter().map(|n| i64::from(*n)).collect()),
        _ => None,
    }
}
