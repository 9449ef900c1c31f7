//! Networks that nobody ran: from an ONNX file to a model file, on a simulated board.

use std::fs;
use std::path::Path;

use serde_json::Value;
use wattgate_board_tables::Board;
use wattgate_judge::files::network;
use wattgate_lab::networks::graph::{Graph, NetworkFileError};
use wattgate_lab::networks::lower::{Engine, lower};
use wattgate_lab::networks::operator::NetworkError;
use wattgate_runtime::{Confidence, Model};
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_trainer::score::Predictions;

use crate::common::{folder, run, write};
use crate::kernels::simulated;
use crate::onnx::{self, Message, node, small, value, weights};

fn parse(bytes: &[u8], batch: Option<u32>) -> Result<Graph, NetworkFileError> {
    Graph::parse(Path::new("net.onnx"), bytes, batch)
}

/// The kernels that an engine launches, with the operators of each.
fn calls(bytes: &[u8], engine: Engine) -> Vec<(String, &'static str, u64)> {
    let graph = parse(bytes, None).expect("a network");
    let layers = lower(&graph, engine).expect("calls").into_iter();
    let call = |layer: wattgate_lab::networks::lower::Layer| {
        let outputs = layer.call.output().elements();
        (layer.operators, layer.call.kind().name(), outputs)
    };
    layers.map(call).collect()
}

#[test]
fn operators_become_the_calls_of_an_engine() {
    let call = |text: &str, kernel, outputs| (text.to_owned(), kernel, outputs);
    let expected = [
        call("Conv", "conv2d", 64 * 32 * 32),
        call("BatchNormalization", "batch_norm2d", 64 * 32 * 32),
        call("Relu", "relu", 64 * 32 * 32),
        call("MaxPool", "max_pool2d", 64 * 16 * 16),
        call("Conv", "conv2d", 64 * 16 * 16),
        call("Add", "add", 64 * 16 * 16),
        call("Relu", "relu", 64 * 16 * 16),
        call("Concat", "cat", 128 * 16 * 16),
        call("GlobalAveragePool", "adaptive_avg_pool2d", 128),
        call("Gemm", "mat_mul", 1_000),
        call("Softmax", "batch_norm2d", 1_000),
    ];
    assert_eq!(calls(&small(Ok(1)), Engine::PyTorch), expected);
    let expected = [
        call("Conv+BatchNormalization+Relu", "conv2d", 64 * 32 * 32),
        call("MaxPool", "max_pool2d", 64 * 16 * 16),
        call("Conv+Add+Relu", "conv2d", 64 * 16 * 16),
        call("GlobalAveragePool", "adaptive_avg_pool2d", 128),
        call("Gemm", "mat_mul", 1_000),
        call("Softmax", "batch_norm2d", 1_000),
    ];
    assert_eq!(calls(&small(Ok(1)), Engine::TensorRt), expected);
}

#[test]
fn a_batch_is_that_of_the_file_or_the_one_asked_for() {
    let batch = |bytes: &[u8], asked| parse(bytes, asked).expect("a network").batch;
    assert_eq!(batch(&small(Ok(4)), None), 4);
    assert_eq!(batch(&small(Ok(4)), Some(16)), 16);
    assert_eq!(batch(&small(Err("N")), Some(8)), 8);
    let dynamic = parse(&small(Err("N")), None).expect_err("no size");
    let expected = "net.onnx: input `x` has the shape [N, 3, 64, 64]: name the size of a batch with --batch; the other dimensions need sizes in the file";
    assert_eq!(dynamic.to_string(), expected);
}

/// A padding on one side only, or a size that is rounded up, gives the output that the file says.
#[test]
fn windows_that_kernels_do_not_have_keep_their_output() {
    let pool = |attributes: &[(&str, &[i64])]| {
        let node = node("MaxPool", &["x"], &["y"], attributes);
        let input = value("x", &[Ok(1), Ok(8), Ok(7), Ok(7)]);
        let bytes = onnx::file(&[node], &[], &[input]);
        let graph = parse(&bytes, None).expect("a network");
        let layers = lower(&graph, Engine::PyTorch).expect("calls");
        let output = layers[0].call.output();
        assert_eq!(graph.operators[0].outputs[0][2], i64::from(output.height));
        output.height
    };
    let three: (&str, &[i64]) = ("kernel_shape", &[3, 3]);
    let by_two: (&str, &[i64]) = ("strides", &[2, 2]);
    assert_eq!(pool(&[three, by_two]), 3);
    assert_eq!(pool(&[three, by_two, ("pads", &[0, 0, 1, 1])]), 3);
    assert_eq!(
        pool(&[("kernel_shape", &[2, 2]), by_two, ("ceil_mode", &[1])]),
        4
    );
    assert_eq!(pool(&[three, ("pads", &[0, 0, 2, 2])]), 7);
}

#[test]
fn files_that_are_no_network_are_refused_by_name() {
    let refused = |bytes: &[u8]| parse(bytes, None).expect_err("refused");
    let whole = small(Ok(1));
    for bytes in [&b"device,workload\n"[..], &[], &whole[..whole.len() / 2]] {
        let why = refused(bytes);
        assert!(matches!(why, NetworkFileError::NotOnnx { .. }), "{why}");
    }
    let input = || [value("x", &[Ok(1), Ok(3), Ok(8), Ok(8)])];
    let of_node = |node: Message| match refused(&onnx::file(&[node], &[], &input())) {
        NetworkFileError::Network { why, .. } => why,
        other => panic!("{other}"),
    };
    let unknown = of_node(node("NonMaxSuppression", &["x"], &["y"], &[]));
    let expected = "node `y`: the operator `NonMaxSuppression` is not supported; export the network without it, or as the operators that it consists of";
    assert_eq!(unknown.to_string(), expected);
    let unmade = of_node(node("Relu", &["z"], &["y"], &[]));
    let expected = "node `y` reads `z`, which no node before it makes; export the network again";
    assert_eq!(unmade.to_string(), expected);
    let body = Message::default()
        .bytes(1, "body")
        .bytes(6, Message::default());
    let round = node("Loop", &["x"], &["y"], &[]).bytes(5, body);
    assert!(matches!(of_node(round), NetworkError::Loop { .. }));
    let shapes = of_node(node("Gemm", &["x", "x"], &["y"], &[]));
    let expected = "node `y`: `Gemm` of the shapes [[1, 3, 8, 8], [1, 3, 8, 8]]: expected two matrices; export the network again";
    assert_eq!(shapes.to_string(), expected);
    // Nothing but names.
    let graph = parse(
        &onnx::file(&[node("Identity", &["x"], &["y"], &[])], &[], &input()),
        None,
    );
    let empty = lower(&graph.expect("a graph"), Engine::PyTorch);
    assert_eq!(empty, Err(NetworkError::Empty));
    // Weights in another file are not needed.
    let conv = node("Conv", &["x", "w"], &["y"], &[]);
    let bytes = onnx::file(&[conv], &[weights("w", &[4, 3, 3, 3])], &input());
    assert_eq!(parse(&bytes, None).expect("a network").operators.len(), 1);
}

/// Models of the kernels of a simulated board, learned from ten units.
fn kernels(folder: &Path) {
    simulated(folder, "k.csv", 10, 6_000, 5);
    let fitted = run(folder, "kernels fit --corpus k.csv --trees 100 -o k.wgk");
    assert_eq!(fitted.code, 0, "{}", fitted.stderr);
}

fn number(value: &Value) -> f64 {
    value.as_f64().expect("a number")
}

#[test]
fn a_network_that_was_never_run_gets_a_model_with_an_honest_band() {
    let folder = folder();
    let path = folder.path();
    kernels(path);
    fs::write(path.join("net.onnx"), small(Ok(8))).expect("written");
    let compose = "compose --kernels k.wgk --network net.onnx --board xavier-agx";
    let arguments = format!(
        "{compose} --most-unknown 20 -o net.wgt --calls net.csv --figure net.svg --explain --json"
    );
    let json = run(path, &arguments).json();
    assert_eq!(
        (&json["version"], &json["kind"]),
        (&1.into(), &"simulated".into())
    );
    assert_eq!(
        (&json["calls"], &json["modes"]),
        (&11.into(), &3_654.into())
    );
    assert_eq!(json["unknown"][0]["operator"], "Softmax");
    let sum = |parts_key: &str| -> f64 {
        let parts = json["explanation"][parts_key].as_array().expect("parts");
        parts.iter().map(|part| number(&part["time_ms"])).sum()
    };
    assert!((sum("kernels") - sum("layers")).abs() < 1e-9);
    assert!((sum("layers") / number(&json["fastest"]["sum_ms"]) - 1.0).abs() < 1e-6);
    let figure = fs::read_to_string(path.join("net.svg")).expect("a figure");
    assert!(figure.starts_with("<svg") && figure.contains("conv2d, 2 calls"));

    // The exported file against a unit that no kernel was measured on.
    let bytes = fs::read(path.join("net.wgt")).expect("a model");
    let model = Model::parse(&bytes).expect("a model");
    let provenance = model.provenance().expect("its origin");
    assert_eq!((provenance.modes_used, provenance.workload), (0, "net"));
    assert_eq!(provenance.minibatch, Some(8));
    let predicted = Predictions::of_model(&model);
    let confidence = Confidence::new(9_000).expect("a confidence");
    let upper = Predictions::guarded(&model, confidence).expect("ten units carry 90 %");
    let (predicted_power, upper_power) = (
        predicted.power.expect("a power"),
        upper.power.expect("a power"),
    );
    let board = Board::named("xavier-agx").expect("a board");
    let modes: Vec<[u32; 4]> = wattgate_trainer::read::all_modes(model.grid()).collect();
    let (mut errors, mut over, mut count) = ([0.0; 2], 0, 0);
    for unit in [901, 902, 903] {
        let unit = Unit::drawn(unit);
        let workload = network::read(&path.join("net.csv"), &board, &unit).expect("calls");
        let mut profiler = Profiler::new(&board, unit, &workload, 1);
        for id in (0..modes.len()).step_by(67) {
            let profile = profiler.profile(modes[id]);
            errors[0] += (1e-3 * predicted.time[id] / profile.time_ms - 1.0).abs();
            errors[1] += (predicted_power[id] / profile.power_mw - 1.0).abs();
            over += u32::from(profile.power_mw > upper_power[id]);
            count += 1;
        }
    }
    let [time, power] = errors.map(|sum| 100.0 * sum / f64::from(count));
    assert!(time < 15.0 && power < 15.0, "{time} {power}");
    assert!(
        f64::from(over) < 0.1 * f64::from(count),
        "{over} of {count}"
    );

    // Six profiled modes of a unit correct it.
    let profiled = run_on_a_unit(path);
    let corrected = run(
        path,
        &format!("{compose} --most-unknown 20 --corpus six.csv -o six.wgt --json"),
    )
    .json();
    assert_eq!(corrected["modes_used"], 6);
    let bytes = fs::read(path.join("six.wgt")).expect("a model");
    let corrected = Predictions::of_model(&Model::parse(&bytes).expect("a model"));
    let mean = |predictions: &Predictions| -> f64 {
        let errors = profiled.iter().map(|(id, power)| {
            let powers = predictions.power.as_ref().expect("a power");
            (powers[*id] / power - 1.0).abs()
        });
        100.0 * errors.sum::<f64>() / profiled.len() as f64
    };
    assert!(mean(&corrected) < 6.0, "{}", mean(&corrected));

    // What cannot be composed.
    let refused = |arguments: &str| {
        let ended = run(path, &format!("{arguments} -o no.wgt"));
        assert!(!path.join("no.wgt").exists());
        (ended.code, ended.stderr)
    };
    let unknown = refused(&format!("{compose} --most-unknown 0"));
    assert_eq!(unknown.0, 3);
    assert!(
        unknown.1.contains("net.onnx: Softmax takes ") && unknown.1.contains("more than 0.0 %"),
        "{}",
        unknown.1
    );
    let other = refused(&compose.replace("xavier-agx", "orin-agx-64"));
    let expected = "error: net.onnx: the kernels are those of `xavier-agx`, not of `orin-agx-64`; name kernels of that board with --kernels, or the kernels' board with --board\n";
    assert_eq!(other, (3, expected.to_owned()));
    write(path, "no-emc.csv", without_column(path, "emc_khz"));
    let fitted = run(
        path,
        "kernels fit --corpus no-emc.csv --trees 5 -o no-emc.wgk",
    );
    assert_eq!(fitted.code, 0, "{}", fitted.stderr);
    let blank = refused(&compose.replace("k.wgk", "no-emc.wgk"));
    let expected = "error: net.onnx: the kernel corpus leaves the memory clock blank, but the board varies it; measure the kernels at several\n";
    assert_eq!(blank, (3, expected.to_owned()));
    let no_kernels = refused(&compose.replace("k.wgk", "k.csv"));
    let expected =
        "error: k.csv: not a file of `wattgate-lab kernels fit`; name one that it wrote\n";
    assert_eq!(no_kernels, (3, expected.to_owned()));
    let bytes = fs::read(path.join("k.wgk")).expect("models");
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    for bytes in [&damaged[..], &bytes[..bytes.len() - 9], &bytes[..5]] {
        fs::write(path.join("bad.wgk"), bytes).expect("written");
        let refused = refused(&compose.replace("k.wgk", "bad.wgk"));
        let expected = "error: bad.wgk: truncated or damaged; copy the file again, or run `kernels fit` again\n";
        assert_eq!(refused, (3, expected.to_owned()));
    }
    let older = [b"wgkerns2", &bytes[8..]].concat();
    fs::write(path.join("older.wgk"), older).expect("written");
    let older = refused(&compose.replace("k.wgk", "older.wgk"));
    let expected = "error: older.wgk: of another version of the trainer; run `kernels fit` again\n";
    assert_eq!(older, (3, expected.to_owned()));
    write(path, "one.csv", only_unit(path, "1"));
    let one = run(path, "kernels fit --corpus one.csv -o one.wgk");
    let expected = "error: one.csv: the corpus has one unit, expected two or more, which show how far units differ; measure another unit\n";
    assert_eq!((one.code, &*one.stderr), (3, expected));
}

/// Profiles the network on a unit in six modes, for `six.csv`, and in others, which are returned with their
/// powers.
fn run_on_a_unit(path: &Path) -> Vec<(usize, f64)> {
    let board = Board::named("xavier-agx").expect("a board");
    let unit = Unit::drawn(904);
    let workload = network::read(&path.join("net.csv"), &board, &unit).expect("calls");
    let mut profiler = Profiler::new(&board, unit, &workload, 2);
    let bytes = fs::read(path.join("net.wgt")).expect("a model");
    let model = Model::parse(&bytes).expect("a model");
    let modes: Vec<[u32; 4]> = wattgate_trainer::read::all_modes(model.grid()).collect();
    let mut rows =
        vec!["device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind".to_owned()];
    for id in [100, 800, 1_500, 2_200, 2_900, 3_600] {
        let [cores, cpu, gpu, emc] = modes[id];
        let profile = profiler.profile(modes[id]);
        rows.push(format!(
            "xavier-agx,net,{cores},{cpu},{gpu},{emc},{},{},simulated",
            profile.time_ms, profile.power_mw
        ));
    }
    write(path, "six.csv", rows.join("\n"));
    let others = (50..modes.len()).step_by(133);
    others
        .map(|id| (id, profiler.profile(modes[id]).power_mw))
        .collect()
}

/// The kernel corpus without a column.
fn without_column(path: &Path, name: &str) -> String {
    let text = fs::read_to_string(path.join("k.csv")).expect("a corpus");
    let header = text.lines().next().expect("a header");
    let at = header.split(',').position(|column| column == name);
    let at = at.expect("the column");
    let line = |line: &str| {
        let fields = line
            .split(',')
            .enumerate()
            .filter(|(column, _)| *column != at);
        fields.map(|(_, field)| field).collect::<Vec<_>>().join(",")
    };
    text.lines().map(line).collect::<Vec<_>>().join("\n")
}

/// The rows of one unit of the kernel corpus.
fn only_unit(path: &Path, unit: &str) -> String {
    let text = fs::read_to_string(path.join("k.csv")).expect("a corpus");
    let mut lines = text.lines();
    let header = lines.next().expect("a header").to_owned();
    let own = lines.filter(|line| line.split(',').nth(1) == Some(unit));
    let lines: Vec<&str> = std::iter::once(&*header).chain(own).collect();
    lines.join("\n")
}

#[test]
fn a_search_goes_on_where_it_was_interrupted() {
    let folder = folder();
    let path = folder.path();
    simulated(path, "all.csv", 5, 400, 6);
    let text = fs::read_to_string(path.join("all.csv")).expect("a corpus");
    let kept = text
        .lines()
        .filter(|line| line.contains("kernel") || line.contains(",conv2d,"));
    write(path, "k.csv", kept.collect::<Vec<_>>().join("\n"));
    let search = |output: &str, more: &str| {
        run(
            path,
            &format!("kernels search --corpus k.csv --budget 3 {more} -o {output}"),
        )
    };
    let whole = search("whole.csv", "");
    assert_eq!(whole.code, 0, "{}", whole.stderr);
    assert!(
        whole.stdout.starts_with("best settings"),
        "{}",
        whole.stdout
    );
    let text = fs::read_to_string(path.join("whole.csv")).expect("results");
    // 9 + 3 + 1 results for each target.
    assert_eq!(text.lines().count(), 1 + 2 * 13);
    let part: Vec<&str> = text.lines().take(17).collect();
    write(path, "part.csv", part.join("\n"));
    assert_eq!(search("part.csv", "").code, 0);
    assert_eq!(
        fs::read_to_string(path.join("part.csv")).expect("results"),
        text
    );
    let other = search("part.csv", "--seed 2");
    let expected =
        "error: part.csv: the results are those of another corpus or seed; name another file\n";
    assert_eq!((other.code, &*other.stderr), (3, expected));
    write(path, "no.csv", "kernel,target\nrelu,time\n");
    let defect = search("no.csv", "");
    assert_eq!(defect.code, 3);
    assert!(
        defect
            .stderr
            .contains("no.csv: not a file of `wattgate-lab kernels search`"),
        "{}",
        defect.stderr
    );
    // The settings are used.
    let scores = |more: &str| {
        let arguments = format!("kernels evaluate --corpus k.csv --test-units 5 {more} --json");
        run(path, &arguments).json()["results"].clone()
    };
    assert_ne!(scores("--settings whole.csv"), scores("--trees 600"));
}
