//! The messages that a user of `wattgate-lab` may meet: tests/golden/messages.txt has each with the command that makes it.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-lab --test it messages` writes it anew.

use std::path::Path;

use crate::common::{corpus, corpus_of_another, folder, write};
use crate::kernels::relus;
use crate::onnx::{self, Message, node, small, value};
use crate::transcript;

/// Networks, all but the first two of which are refused.
fn networks() -> [(&'static str, Vec<u8>); 9] {
    let input = value("x", &[Ok(1), Ok(3), Ok(8), Ok(8)]);
    let of_node = |node: Message| onnx::file(&[node], &[], std::slice::from_ref(&input));
    let body = Message::default()
        .bytes(1, "body")
        .bytes(6, Message::default());
    let scalar = [node("Relu", &["x"], &["y"], &[])];
    [
        ("net.onnx", small(Ok(1))),
        ("relu.onnx", of_node(node("Relu", &["x"], &["y"], &[]))),
        ("dynamic.onnx", small(Err("N"))),
        (
            "unknown.onnx",
            of_node(node("NonMaxSuppression", &["x"], &["y"], &[])),
        ),
        ("unmade.onnx", of_node(node("Relu", &["z"], &["y"], &[]))),
        (
            "loop.onnx",
            of_node(node("Loop", &["x"], &["y"], &[]).bytes(5, body)),
        ),
        (
            "shapes.onnx",
            of_node(node("Gemm", &["x", "x"], &["y"], &[])),
        ),
        ("names.onnx", of_node(node("Identity", &["x"], &["y"], &[]))),
        (
            "scalar.onnx",
            onnx::file(&scalar, &[], &[value("x", &[Ok(1)])]),
        ),
    ]
}

#[test]
fn messages_are_the_golden_ones() {
    let folder = folder();
    let path = folder.path();
    let without_power = |line: &String| match line.rsplit_once(',') {
        Some((fields, "power_mw")) => format!("{fields},power_mw"),
        Some((fields, _)) => format!("{fields},"),
        None => line.clone(),
    };
    let times: Vec<String> = corpus().iter().map(without_power).collect();
    let relus = relus();
    let of_unit_1 = |line: &&String| !line.contains(",2,relu,");
    let one: Vec<&str> = relus.iter().filter(of_unit_1).map(String::as_str).collect();
    for (name, lines) in [
        ("corpus.csv", corpus().join("\n")),
        ("other.csv", corpus_of_another().join("\n")),
        ("few.csv", corpus()[..4].join("\n")),
        ("times.csv", times.join("\n")),
        ("kernels.csv", relus.join("\n")),
        ("few-kernels.csv", relus[..20].join("\n")),
        ("one.csv", one.join("\n")),
        ("text", "no file of wattgate\n".to_owned()),
    ] {
        write(path, name, lines);
    }
    for (name, bytes) in networks() {
        write(path, name, bytes);
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages.txt");
    transcript::compare(&golden, path, &[crate::PROGRAM]);
}
