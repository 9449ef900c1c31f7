//! Writes small ONNX files: just enough of the protocol buffers of `onnx.proto`.

/// A message, field by field.
#[derive(Clone, Default)]
pub struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A whole number.
    pub fn number(mut self, field: u32, value: i64) -> Self {
        self.varint(u64::from(field << 3));
        self.varint(value as u64);
        self
    }

    /// A text, bytes or another message.
    pub fn bytes(mut self, field: u32, bytes: impl AsRef<[u8]>) -> Self {
        self.varint(u64::from(field << 3 | 2));
        self.varint(bytes.as_ref().len() as u64);
        self.0.extend(bytes.as_ref());
        self
    }
}

impl AsRef<[u8]> for Message {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// A tensor's name and shape; a text is a dimension without a size.
pub fn value(name: &str, shape: &[Result<i64, &str>]) -> Message {
    let mut dims = Message::default();
    for dim in shape {
        let dim = match dim {
            Ok(size) => Message::default().number(1, *size),
            Err(name) => Message::default().bytes(2, name),
        };
        dims = dims.bytes(1, dim);
    }
    let tensor = Message::default().number(1, 1).bytes(2, dims);
    let kind = Message::default().bytes(1, tensor);
    Message::default().bytes(1, name).bytes(2, kind)
}

/// Weights: a name and a shape, whose numbers are in another file.
pub fn weights(name: &str, shape: &[i64]) -> Message {
    let mut tensor = Message::default();
    for size in shape {
        tensor = tensor.number(1, *size);
    }
    tensor.number(2, 1).bytes(8, name).number(14, 1)
}

/// A node with lists of whole numbers as attributes.
pub fn node(kind: &str, reads: &[&str], writes: &[&str], attributes: &[(&str, &[i64])]) -> Message {
    let mut node = Message::default();
    for name in reads {
        node = node.bytes(1, name);
    }
    for name in writes {
        node = node.bytes(2, name);
    }
    node = node.bytes(4, kind);
    for (name, values) in attributes {
        let mut attribute = Message::default().bytes(1, name);
        attribute = match values {
            [one] => attribute.number(3, *one).number(20, 2),
            _ => {
                for value in *values {
                    attribute = attribute.number(8, *value);
                }
                attribute.number(20, 7)
            }
        };
        node = node.bytes(5, attribute);
    }
    node
}

/// The file of a graph.
pub fn file(nodes: &[Message], weights: &[Message], inputs: &[Message]) -> Vec<u8> {
    let mut graph = Message::default();
    for node in nodes {
        graph = graph.bytes(1, node);
    }
    for tensor in weights {
        graph = graph.bytes(5, tensor);
    }
    for input in inputs {
        graph = graph.bytes(11, input);
    }
    Message::default().number(1, 8).bytes(7, graph).0
}

/// A small network of all that networks usually have. Its input is `[batch, 3, 64, 64]`.
pub fn small(batch: Result<i64, &str>) -> Vec<u8> {
    let window: &[(&str, &[i64])] = &[
        ("kernel_shape", &[3, 3]),
        ("pads", &[1, 1, 1, 1]),
        ("strides", &[2, 2]),
    ];
    let nodes = [
        node("Conv", &["x", "w1"], &["a"], window),
        node(
            "BatchNormalization",
            &["a", "s", "s", "s", "s"],
            &["b"],
            &[],
        ),
        node("Relu", &["b"], &["c"], &[]),
        node("MaxPool", &["c"], &["d"], window),
        node("Conv", &["d", "w2"], &["e"], &[("kernel_shape", &[1, 1])]),
        node("Add", &["e", "d"], &["f"], &[]),
        node("Relu", &["f"], &["g"], &[]),
        node("Concat", &["g", "d"], &["h"], &[("axis", &[1])]),
        node("GlobalAveragePool", &["h"], &["i"], &[]),
        node("Flatten", &["i"], &["j"], &[]),
        node("Gemm", &["j", "w3", "b3"], &["k"], &[("transB", &[1])]),
        node("Softmax", &["k"], &["y"], &[]),
    ];
    let weights = [
        weights("w1", &[64, 3, 3, 3]),
        weights("s", &[64]),
        weights("w2", &[64, 64, 1, 1]),
        weights("w3", &[1_000, 128]),
        weights("b3", &[1_000]),
    ];
    file(
        &nodes,
        &weights,
        &[value("x", &[batch, Ok(3), Ok(64), Ok(64)])],
    )
}
