use super::*;

fn image(batch: u32, channels: u32, side: u32) -> Shape {
    Shape {
        batch,
        channels,
        height: side,
        width: side,
    }
}

fn window(size: u32, stride: u32, padding: u32) -> Window {
    Window {
        size: [size; 2],
        stride: [stride; 2],
        padding: [padding; 2],
        dilation: [1; 2],
    }
}

fn conv(input: Shape, out_channels: u32, window: Window, groups: u32) -> Result<Call, CallError> {
    Call::new(Operation::Conv2d {
        input,
        out_channels,
        window,
        groups,
    })
}

fn one_of_each_kind() -> [Call; 8] {
    let shape = image(2, 8, 14);
    let window = Window {
        size: [3, 5],
        stride: [2, 1],
        padding: [1, 2],
        dilation: [2, 1],
    };
    [
        conv(shape, 16, window, 4),
        Call::new(Operation::BatchNorm2d(shape)),
        Call::new(Operation::MatMul {
            batch: 3,
            rows: 4,
            inner: 5,
            columns: 6,
        }),
        Call::new(Operation::Relu(shape)),
        Call::new(Operation::MaxPool2d {
            input: shape,
            window,
        }),
        Call::new(Operation::AdaptiveAvgPool2d {
            input: shape,
            out: [7, 1],
        }),
        Call::new(Operation::Add(shape)),
        Call::new(Operation::Cat {
            output: shape,
            inputs: 2,
        }),
    ]
    .map(|call| call.expect("valid"))
}

/// AlexNet's first layer in torchvision: 3 → 64 channels, 11 × 11, stride 4, padding 2.
#[test]
fn a_convolution_has_the_published_shape_and_operations() {
    let call = conv(image(1, 3, 224), 64, window(11, 4, 2), 1).expect("valid");
    assert_eq!(call.output(), image(1, 64, 55));
    assert_eq!(call.flop(), 2 * 55 * 55 * 64 * 3 * 121);
    assert_eq!(call.weight_bytes(), 4 * 64 * 3 * 121);
    assert_eq!(call.input_bytes(), 4 * 3 * 224 * 224);
}

#[test]
fn groups_and_dilation_count() {
    let depthwise = conv(image(1, 32, 112), 32, window(3, 1, 1), 32).expect("valid");
    assert_eq!(depthwise.flop(), 2 * 112 * 112 * 32 * 9);
    assert_eq!(depthwise.weight_bytes(), 4 * 32 * 9);
    let dilated = Window {
        dilation: [2; 2],
        ..window(3, 1, 0)
    };
    let call = conv(image(1, 1, 9), 1, dilated, 1).expect("valid");
    assert_eq!(call.output(), image(1, 1, 5));
}

#[test]
fn every_kind_has_its_parameters_and_is_made_of_them_again() {
    for (kind, call) in Kind::ALL.into_iter().zip(one_of_each_kind()) {
        assert_eq!(call.kind(), kind);
        assert_eq!(Kind::named(kind.name()), Some(kind));
        for parameter in Parameter::ALL {
            let takes = kind.parameters().contains(&parameter);
            assert_eq!(
                call.value(parameter).is_some(),
                takes,
                "{kind:?} {parameter:?}"
            );
        }
        assert_eq!(
            Call::from_parameters(kind, |parameter| call.value(parameter)),
            Ok(call)
        );
    }
    let of_pytorch = [
        "Conv2d",
        "BatchNorm2d",
        "MatMul",
        "ReLU",
        "MaxPool2d",
        "AdaptiveAvgPool2d",
        "Add",
        "Cat",
    ];
    assert_eq!(of_pytorch.map(Kind::named), Kind::ALL.map(Some));
    assert_eq!(
        ["softmax", "", "conv2", "conv2dd"].map(Kind::named),
        [None; 4]
    );
}

#[test]
fn a_parameter_that_lacks_is_of_another_kernel_or_zero_is_refused() {
    for call in one_of_each_kind() {
        let kind = call.kind();
        for parameter in Parameter::ALL {
            let other_than = |value| {
                Call::from_parameters(kind, |asked| match asked == parameter {
                    true => value,
                    false => call.value(asked),
                })
            };
            if !kind.parameters().contains(&parameter) {
                let refused = Err(CallError::NotTaken { kind, parameter });
                assert_eq!(other_than(Some(1)), refused);
                continue;
            }
            assert_eq!(
                other_than(None),
                Err(CallError::Missing { kind, parameter })
            );
            if !parameter.may_be_zero() {
                assert_eq!(other_than(Some(0)), Err(CallError::Zero(parameter)));
            }
        }
    }
}

#[test]
fn a_window_that_does_not_fit_and_groups_with_a_rest_are_refused() {
    let refused = conv(image(1, 8, 2), 8, window(5, 1, 1), 1);
    let expected = CallError::Window {
        height: 2,
        width: 2,
    };
    assert_eq!(refused, Err(expected));
    let refused = conv(image(1, 8, 7), 9, window(1, 1, 0), 4);
    let expected = CallError::Groups {
        groups: 4,
        channels: 8,
        out_channels: 9,
    };
    assert_eq!(refused, Err(expected));
    assert_eq!(
        expected.to_string(),
        "`groups` is 4, which does not divide 8 input and 9 output channels; correct one of them"
    );
}

#[test]
fn numbers_of_any_size_are_refused_without_an_overflow() {
    for call in one_of_each_kind() {
        let huge = Call::from_parameters(call.kind(), |parameter| {
            call.value(parameter).map(|_| u32::MAX)
        });
        assert!(huge.is_err(), "{:?}", call.kind());
    }
}
