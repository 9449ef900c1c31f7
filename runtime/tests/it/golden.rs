//! The golden files: bytes that the writer must write, and the report that every target must print.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-runtime --test it golden` updates them. A
//! change of the bytes is a change of the format.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common;
use wattgate_report::{Console, LIMIT, MODELS, SETTINGS, WORKSPACE, estimate, hold, run};
use wattgate_runtime::estimator::Estimator;
use wattgate_runtime::format::Kind;
use wattgate_runtime::network::Workspace;
use wattgate_runtime::shape::Shape;
use wattgate_runtime::{Confidence, Front, Governor, Model};

struct Text(String);

impl Console for Text {
    fn byte(&mut self, byte: u8) {
        self.0.push(char::from(byte));
    }
}

fn weights(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../weights")
        .join(name)
}

/// Compares with a golden file, and updates the file first if the environment asks for it.
fn assert_golden(name: &str, found: &[u8]) {
    let path = weights("golden").join(name);
    if env::var_os("WATTGATE_UPDATE_GOLDEN").is_some() {
        fs::write(&path, found).expect("the golden folder can be written to");
    }
    let expected = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if found != expected {
        let texts = (
            String::from_utf8(expected),
            String::from_utf8(found.to_vec()),
        );
        if let (Ok(expected), Ok(found)) = texts {
            for (expected, found) in expected.lines().zip(found.lines()) {
                assert_eq!(expected, found, "{name}");
            }
        }
        panic!("{name} differs from its golden file");
    }
}

#[test]
fn the_writer_writes_the_golden_bytes() {
    for (name, bytes) in common::golden_models() {
        assert_golden(&format!("{name}.wgt"), &bytes);
    }
}

#[test]
fn every_target_prints_the_golden_report() {
    let mut text = Text(String::new());
    let mut workspace = Workspace::<WORKSPACE>::new();
    for &(name, bytes) in MODELS {
        run(&mut text, &mut workspace, name, bytes);
    }
    assert_golden("report.txt", text.0.as_bytes());
}

#[test]
fn every_target_holds_a_limit_with_the_same_bits() {
    let bytes = fs::read(weights("tx1-image5000.wgt")).expect("a shipped model");
    let model = Model::parse(&bytes).expect("a valid model");
    let front = Front::<64>::from_model(&model, &model.profiled(), Confidence::P95);
    let mut governor = Governor::new(SETTINGS, LIMIT);
    governor.set_front(&front).expect("a front with power");
    let mut text = Text(String::new());
    hold(&mut text, &mut governor, |governor, input| {
        governor.step(input)
    });
    assert_golden("hold.txt", text.0.as_bytes());
}

#[test]
fn every_target_follows_a_power_with_the_same_bits() {
    let mut estimator = Estimator::new(SETTINGS.chips);
    let mut text = Text(String::new());
    estimate(&mut text, &mut estimator, Estimator::update);
    assert_golden("look.txt", text.0.as_bytes());
}

/// Microcontrollers have no room for this shape.
#[cfg(feature = "large-shapes")]
#[test]
fn the_large_shape_prints_the_golden_report() {
    use wattgate_runtime::grid::Grid;
    use wattgate_runtime::network::workspace_pairs;

    let cpu: Vec<u32> = (1..=29).map(|i| 76_800 * i).collect();
    let gpu: Vec<u32> = (1..=5).map(|i| 114_750 * i).collect();
    let grid = Grid::new([&[2, 4], &cpu, &gpu, &[204_000, 3_199_000]]).expect("a grid");
    let bytes = common::random_model(&grid, Shape::PowerTrain, 3, 1);
    let mut text = Text(String::new());
    const PAIRS: usize = workspace_pairs(Shape::PowerTrain, 31 + 2);
    let mut workspace = Workspace::<PAIRS>::new();
    run(&mut text, &mut workspace, "256-128-64", &bytes);
    assert_golden("report-256-128-64.txt", text.0.as_bytes());
}

#[test]
fn the_reader_reads_what_was_written() {
    let bytes = fs::read(weights("golden/deep-8x8.wgt")).expect("a golden file");
    let model = Model::parse(&bytes).expect("a valid model");
    assert_eq!(model.shape(), Shape::Deep8x8);
    assert_eq!(model.grid().modes(), 36);
    assert_eq!(model.profiled().modes(), 36);
    let provenance = model.provenance().expect("a provenance");
    assert_eq!(provenance.kind, Kind::Simulated);
    assert_eq!(
        (provenance.device, provenance.workload),
        ("board", "deep-8x8")
    );
    assert_eq!(provenance.minibatch, Some(16));
    assert_eq!((provenance.modes_used, provenance.modes_held_out), (50, 7));
    assert_eq!(
        (provenance.time_error, provenance.power_error),
        (Some(123), Some(456))
    );
    let knots = |guard: &wattgate_runtime::guard::GuardBand| -> Vec<(u16, u32)> {
        guard
            .knots()
            .iter()
            .map(|knot| (knot.per_ten_thousand, knot.q16))
            .collect()
    };
    let expected = vec![(5_000, 65_536), (9_500, 69_536), (9_900, 74_536)];
    assert_eq!(knots(model.time_guard()), expected);
    let expected = vec![(5_000, 66_000), (9_500, 70_000), (9_900, 75_000)];
    assert_eq!(model.power_guard().map(knots), Some(expected));
}

#[test]
fn the_specification_shows_the_golden_bytes() {
    let text = fs::read_to_string(weights("FORMAT.md")).expect("the specification");
    let dump = text
        .split("```hexdump\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let mut bytes = Vec::new();
    for line in dump.expect("a hexdump").lines() {
        let (offset, rest) = line.split_once(": ").expect("an offset");
        assert_eq!(usize::from_str_radix(offset, 16), Ok(bytes.len()), "{line}");
        let hex = rest.split("  ").next().expect("bytes before the comment");
        let byte = |text| u8::from_str_radix(text, 16).expect(line);
        bytes.extend(hex.split_whitespace().map(byte));
    }
    let golden = fs::read(weights("golden/deep-8x8-spread.wgt")).expect("a golden file");
    assert_eq!(bytes, golden);
}

#[test]
fn the_examples_use_the_shipped_model() {
    let of_examples = include_bytes!("../../doc/tx1-image5000.wgt");
    let shipped = fs::read(weights("tx1-image5000.wgt")).expect("a shipped model");
    assert_eq!(of_examples.as_slice(), shipped);
}
