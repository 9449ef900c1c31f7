//! The shapes of an operator's outputs, and the elements of small tensors of integers
//! (ONNX, *Operator Schemas*).

use super::operator::{NetworkError, Operator, Tensor};

/// Infers the outputs. `batches` are the batch in the file and the wanted one: constants of the file that
/// were made for the first are read as for the second.
pub(super) fn infer(
    operator: &Operator,
    inputs: &[&Tensor],
    attribute: Option<Tensor>,
    batches: (i64, i64),
) -> Result<Vec<Tensor>, NetworkError> {
    let refused = |why| NetworkError::Shapes {
        node: operator.name.clone(),
        kind: operator.kind.clone(),
        shapes: format!("{:?}", operator.inputs),
        why,
    };
    let input = |at: usize| {
        inputs
            .get(at)
            .copied()
            .ok_or(refused("an input is missing"))
    };
    let shape = |at: usize| input(at).map(|tensor| &tensor.shape);
    let data = |at: usize| {
        let data = input(at)?.data.as_ref();
        data.ok_or(refused("its second input is not a constant of the file"))
    };
    let is_constant = !inputs.is_empty() && inputs.iter().all(|input| input.is_constant);
    let output = |shape: Vec<i64>, data: Option<Vec<i64>>| Tensor {
        shape,
        data,
        is_constant,
    };
    let one = |shape: Vec<i64>| Ok(vec![output(shape, None)]);
    match &*operator.kind {
        "Constant" => Ok(vec![Tensor {
            is_constant: true,
            ..attribute.unwrap_or_default()
        }]),
        "ConstantOfShape" => {
            let shape = data(0)?.clone();
            let count = shape.iter().product::<i64>().clamp(0, 4_096) as usize;
            let value = attribute.and_then(|tensor| tensor.data?.first().copied());
            Ok(vec![Tensor {
                data: value.map(|value| vec![value; count]),
                shape,
                is_constant: true,
            }])
        }
        "Shape" => {
            let shape = shape(0)?.clone();
            Ok(vec![Tensor {
                shape: vec![shape.len() as i64],
                data: Some(shape),
                // The batch of the wanted size is in it.
                is_constant: true,
            }])
        }
        "Conv" => {
            let (x, w) = (shape(0)?, shape(1)?);
            if x.len() != w.len() || x.len() < 3 {
                return Err(refused("expected an image and a kernel of the same rank"));
            }
            let mut out = vec![x[0], w[0]];
            out.extend(
                window(operator, &x[2..], &w[2..]).ok_or(refused("the window does not fit"))?,
            );
            one(out)
        }
        "MaxPool" | "AveragePool" | "LpPool" => {
            let x = shape(0)?;
            let size = operator.numbers("kernel_shape");
            let size = size.ok_or(refused("it has no kernel_shape"))?;
            if x.len() != size.len() + 2 {
                return Err(refused("expected an image of the kernel's rank"));
            }
            let mut out = x[..2].to_vec();
            out.extend(window(operator, &x[2..], size).ok_or(refused("the window does not fit"))?);
            one(out)
        }
        "GlobalAveragePool" | "GlobalMaxPool" => {
            let x = shape(0)?;
            let ones = x.iter().skip(2).map(|_| 1);
            one(x.iter().take(2).copied().chain(ones).collect())
        }
        "Gemm" => {
            let (a, b) = (shape(0)?, shape(1)?);
            let ([a0, a1], [b0, b1]) = (&a[..], &b[..]) else {
                return Err(refused("expected two matrices"));
            };
            let rows = if operator.number("transA", 0) == 0 {
                a0
            } else {
                a1
            };
            let columns = if operator.number("transB", 0) == 0 {
                b1
            } else {
                b0
            };
            one(vec![*rows, *columns])
        }
        "MatMul" => {
            let (a, b) = (shape(0)?, shape(1)?);
            let ([outer_a @ .., rows, _], [outer_b @ .., _, columns]) = (&a[..], &b[..]) else {
                return Err(refused("expected two tensors of matrices"));
            };
            let mut out = broadcast(outer_a, outer_b).ok_or(refused("they do not broadcast"))?;
            out.extend([*rows, *columns]);
            one(out)
        }
        "Add" | "Sub" | "Mul" | "Div" | "Sum" | "Pow" | "Max" | "Min" | "Mean" | "PRelu"
        | "Equal" | "Greater" | "Less" | "Where" => {
            let mut out = Vec::new();
            for input in inputs {
                out = broadcast(&out, &input.shape).ok_or(refused("they do not broadcast"))?;
            }
            let data = arithmetic(&operator.kind, inputs);
            Ok(vec![output(out, data)])
        }
        "Concat" => {
            let mut out = shape(0)?.clone();
            let axis =
                axis(operator.number("axis", 1), out.len()).ok_or(refused("no such axis"))?;
            out[axis] = 0;
            for input in inputs {
                out[axis] += input.shape.get(axis).ok_or(refused("the ranks differ"))?;
            }
            let parts: Option<Vec<&Vec<i64>>> =
                inputs.iter().map(|input| input.data.as_ref()).collect();
            let data = parts.filter(|_| out.len() == 1);
            Ok(vec![output(
                out,
                data.map(|parts| parts.into_iter().flatten().copied().collect()),
            )])
        }
        "Reshape" => {
            let x = input(0)?;
            let wanted = match operator.numbers("shape") {
                Some(shape) => shape.to_vec(),
                None => data(1)?.clone(),
            };
            let out = reshaped(&x.shape, &wanted, batches);
            let out = out.ok_or(refused("the elements do not fit the wanted shape"))?;
            Ok(vec![Tensor {
                shape: out,
                data: x.data.clone(),
                is_constant: x.is_constant,
            }])
        }
        "Flatten" => {
            let x = shape(0)?;
            let at = operator.number("axis", 1);
            let at = if at < 0 { at + x.len() as i64 } else { at } as usize;
            let at = at.min(x.len());
            one(vec![x[..at].iter().product(), x[at..].iter().product()])
        }
        "Transpose" => {
            let x = shape(0)?;
            let reversed: Vec<i64> = (0..x.len() as i64).rev().collect();
            let order = operator.numbers("perm").unwrap_or(&reversed);
            let out: Option<Vec<i64>> = order
                .iter()
                .map(|&at| x.get(at as usize).copied())
                .collect();
            one(out.ok_or(refused("the permutation names no axis"))?)
        }
        "Unsqueeze" | "Squeeze" => {
            let x = input(0)?;
            let axes = match operator.numbers("axes") {
                Some(axes) => Some(axes.to_vec()),
                None if inputs.len() > 1 => Some(data(1)?.clone()),
                None => None,
            };
            let out = match (&*operator.kind, axes) {
                ("Squeeze", None) => x.shape.iter().copied().filter(|n| *n != 1).collect(),
                ("Squeeze", Some(axes)) => {
                    let rank = x.shape.len() as i64;
                    let is_left = |at: &i64| !axes.contains(at) && !axes.contains(&(at - rank));
                    let left = (0..rank).filter(is_left);
                    left.map(|at| x.shape[at as usize]).collect()
                }
                (_, axes) => {
                    let axes = axes.ok_or(refused("it has no axes"))?;
                    let rank = (x.shape.len() + axes.len()) as i64;
                    let mut left = x.shape.iter().copied();
                    let is_new = |at: &i64| axes.contains(at) || axes.contains(&(at - rank));
                    let size = |at| {
                        if is_new(&at) {
                            1
                        } else {
                            left.next().unwrap_or(1)
                        }
                    };
                    (0..rank).map(size).collect()
                }
            };
            Ok(vec![output(out, x.data.clone())])
        }
        "Gather" => {
            let (x, at) = (input(0)?, input(1)?);
            let axis = axis(operator.number("axis", 0), x.shape.len());
            let axis = axis.ok_or(refused("no such axis"))?;
            let mut out = x.shape[..axis].to_vec();
            out.extend(&at.shape);
            out.extend(&x.shape[axis + 1..]);
            let pick = |at: &i64| {
                let data = x.data.as_ref()?;
                let at = if *at < 0 { at + data.len() as i64 } else { *at };
                data.get(at as usize).copied()
            };
            let picked = at.data.as_ref().filter(|_| x.shape.len() == 1);
            Ok(vec![output(
                out,
                picked.and_then(|at| at.iter().map(pick).collect()),
            )])
        }
        "Slice" => {
            let x = input(0)?;
            let list = |name: &str, at: usize| match operator.numbers(name) {
                Some(numbers) => Some(numbers.to_vec()),
                None => inputs.get(at)?.data.clone(),
            };
            let known = list("starts", 1).zip(list("ends", 2));
            let (starts, ends) = known.ok_or(refused("its ends are not constants of the file"))?;
            let axes = list("axes", 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
            let steps = list("steps", 4).unwrap_or_else(|| vec![1; starts.len()]);
            let mut out = x.shape.clone();
            let mut data = x.data.clone().filter(|_| out.len() == 1);
            for (at, of_axis) in axes.iter().enumerate() {
                let axis = axis(*of_axis, out.len()).ok_or(refused("no such axis"))?;
                let size = out[axis];
                let bound = |n: i64| (if n < 0 { n + size } else { n }).clamp(0, size);
                let (from, to) = (bound(starts[at]), bound(ends[at]));
                let step = steps.get(at).copied().unwrap_or(1);
                if step < 1 {
                    return Err(refused("a step below 1"));
                }
                out[axis] =
                    (to - from).max(0).div_euclid(step) + i64::from((to - from).max(0) % step > 0);
                data = data.map(|data| {
                    let part = data.into_iter().skip(from as usize).step_by(step as usize);
                    part.take(out[axis] as usize).collect()
                });
            }
            Ok(vec![output(out, data)])
        }
        "Split" => {
            let x = shape(0)?;
            let axis = axis(operator.number("axis", 0), x.len()).ok_or(refused("no such axis"))?;
            let parts = operator.writes.len() as i64;
            let sizes = match operator.numbers("split") {
                Some(sizes) => sizes.to_vec(),
                None if inputs.len() > 1 => data(1)?.clone(),
                None => vec![x[axis] / parts; parts as usize],
            };
            let part = |size: i64| {
                let mut out = x.clone();
                out[axis] = size;
                output(out, None)
            };
            Ok(sizes.into_iter().map(part).collect())
        }
        "Pad" => {
            let x = shape(0)?;
            let pads = match operator.numbers("pads") {
                Some(pads) => pads.to_vec(),
                None => data(1)?.clone(),
            };
            if pads.len() != 2 * x.len() {
                return Err(refused("expected two pads for each axis"));
            }
            let padded = x.iter().enumerate();
            one(padded
                .map(|(at, n)| n + pads[at] + pads[at + x.len()])
                .collect())
        }
        "ReduceMean" | "ReduceSum" | "ReduceMax" => {
            let x = shape(0)?;
            let all: Vec<i64> = (0..x.len() as i64).collect();
            let axes = match operator.numbers("axes") {
                Some(axes) => axes.to_vec(),
                None => inputs.get(1).and_then(|at| at.data.clone()).unwrap_or(all),
            };
            let rank = x.len() as i64;
            let is_reduced = |at: i64| axes.contains(&at) || axes.contains(&(at - rank));
            let keeps = operator.number("keepdims", 1) != 0;
            let sizes = x
                .iter()
                .zip(0..)
                .filter_map(|(n, at)| match is_reduced(at) {
                    true => keeps.then_some(1),
                    false => Some(*n),
                });
            one(sizes.collect())
        }
        // Those that keep the shape. A Dropout's second output is a mask.
        "Relu"
        | "LeakyRelu"
        | "Elu"
        | "Selu"
        | "Sigmoid"
        | "Tanh"
        | "Clip"
        | "HardSigmoid"
        | "HardSwish"
        | "Softplus"
        | "Erf"
        | "Exp"
        | "Log"
        | "Sqrt"
        | "Neg"
        | "Abs"
        | "Gelu"
        | "Floor"
        | "Mish"
        | "BatchNormalization"
        | "InstanceNormalization"
        | "LayerNormalization"
        | "LRN"
        | "Softmax"
        | "LogSoftmax"
        | "Dropout"
        | "Identity"
        | "Cast"
        | "Reciprocal"
        | "Not" => {
            let x = input(0)?;
            let same = output(x.shape.clone(), x.data.clone());
            let is_constant = x.is_constant;
            Ok(operator
                .writes
                .iter()
                .map(|_| Tensor {
                    is_constant,
                    ..same.clone()
                })
                .collect())
        }
        _ => Err(NetworkError::Unsupported {
            node: operator.name.clone(),
            kind: operator.kind.clone(),
        }),
    }
}

/// Kernel, stride, padding before and after, and dilation of a window, axis by axis.
pub(super) fn window_axes(
    operator: &Operator,
    image: &[i64],
    size: &[i64],
) -> Option<Vec<[i64; 5]>> {
    let rank = size.len();
    let list = |name: &str, default: i64| match operator.numbers(name) {
        Some(numbers) if numbers.len() == rank => numbers.to_vec(),
        _ => vec![default; rank],
    };
    let (strides, dilations) = (list("strides", 1), list("dilations", 1));
    let pads = operator
        .numbers("pads")
        .filter(|pads| pads.len() == 2 * rank);
    let auto = operator.numbers("auto_pad").unwrap_or(&[]);
    let is_same = auto.starts_with(&b"SAME".map(i64::from));
    let is_upper = auto.ends_with(&b"UPPER".map(i64::from));
    let one = |at: usize| {
        let spans = dilations[at] * (size[at] - 1) + 1;
        let (before, after) = if is_same {
            let outputs = (image[at] + strides[at] - 1).checked_div(strides[at])?;
            let sum = ((outputs - 1) * strides[at] + spans - image[at]).max(0);
            let less = sum / 2;
            match is_upper {
                true => (less, sum - less),
                false => (sum - less, less),
            }
        } else {
            pads.map_or((0, 0), |pads| (pads[at], pads[at + rank]))
        };
        let positive = size[at] > 0 && strides[at] > 0 && dilations[at] > 0;
        let axis = [size[at], strides[at], before, after, dilations[at]];
        (positive && before >= 0 && after >= 0).then_some(axis)
    };
    (0..rank).map(one).collect()
}

/// The sizes of the output of a window.
fn window(operator: &Operator, image: &[i64], size: &[i64]) -> Option<Vec<i64>> {
    let rounds_up = operator.number("ceil_mode", 0) != 0;
    let axes = window_axes(operator, image, size)?;
    let one = |([size, stride, before, after, dilation], n): ([i64; 5], &i64)| {
        let left = n + before + after - dilation * (size - 1) - 1;
        let up = if rounds_up { stride - 1 } else { 0 };
        (left >= 0).then(|| (left + up) / stride + 1)
    };
    axes.into_iter().zip(image).map(one).collect()
}

fn axis(at: i64, rank: usize) -> Option<usize> {
    let at = if at < 0 { at + rank as i64 } else { at };
    usize::try_from(at).ok().filter(|at| *at < rank)
}

fn broadcast(a: &[i64], b: &[i64]) -> Option<Vec<i64>> {
    let rank = a.len().max(b.len());
    let size = |shape: &[i64], at: usize| match (at + shape.len()).checked_sub(rank) {
        Some(at) => shape[at],
        None => 1,
    };
    let one = |at: usize| match (size(a, at), size(b, at)) {
        (a, b) if a == b || b == 1 => Some(a),
        (1, b) => Some(b),
        _ => None,
    };
    (0..rank).map(one).collect()
}

/// The elements of a sum, difference, product or quotient of two small tensors.
fn arithmetic(kind: &str, inputs: &[&Tensor]) -> Option<Vec<i64>> {
    let [a, b] = inputs else {
        return None;
    };
    let (a, b) = (a.data.as_ref()?, b.data.as_ref()?);
    let count = a.len().max(b.len());
    let get = |data: &[i64], at: usize| data.get(at).or(data.first()).copied();
    let one = |at: usize| {
        let (a, b) = (get(a, at)?, get(b, at)?);
        match kind {
            "Add" => a.checked_add(b),
            "Sub" => a.checked_sub(b),
            "Mul" => a.checked_mul(b),
            "Div" => a.checked_div(b),
            _ => None,
        }
    };
    (0..count).map(one).collect()
}

fn reshaped(from: &[i64], wanted: &[i64], (old, new): (i64, i64)) -> Option<Vec<i64>> {
    let count: i64 = from.iter().product();
    let fill = |wanted: &[i64]| -> Option<Vec<i64>> {
        let sizes = wanted.iter().enumerate();
        let mut out: Vec<i64> = sizes
            .map(|(at, n)| {
                if *n == 0 {
                    from.get(at).copied().unwrap_or(0)
                } else {
                    *n
                }
            })
            .collect();
        if let Some(open) = out.iter().position(|n| *n == -1) {
            let others: i64 = out.iter().filter(|n| **n != -1).product();
            out[open] = count.checked_div(others)?;
        }
        (out.iter().product::<i64>() == count && out.iter().all(|n| *n >= 0)).then_some(out)
    };
    fill(wanted).or_else(|| {
        // A constant that was made for the batch of the file.
        let mut scaled = wanted.to_vec();
        let first = scaled.first_mut().filter(|first| **first == old)?;
        *first = new;
        fill(&scaled)
    })
}
