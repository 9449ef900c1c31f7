//! Kernels one by one: their physics, their units and their corpora.

use std::collections::{BTreeMap, HashMap};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_kernels::{Call, Kind, Operation, Parameter, Shape, Window};
use wattgate_simulated_board::kernels::{Bench, Corpus, GpuWork, Library, sample};
use wattgate_simulated_board::unit::Unit;

const FASTEST: [u32; 4] = [8, 2_265_600, 1_377_000, 2_133_000];

fn xavier() -> Board {
    Board::named("xavier-agx").expect("a board")
}

fn shape(channels: u32, side: u32) -> Shape {
    Shape {
        batch: 1,
        channels,
        height: side,
        width: side,
    }
}

fn conv(channels: u32, out_channels: u32, side: u32) -> Call {
    let window = Window {
        size: [1; 2],
        stride: [1; 2],
        padding: [0; 2],
        dilation: [1; 2],
    };
    let operation = Operation::Conv2d {
        input: shape(channels, side),
        out_channels,
        window,
        groups: 1,
    };
    Call::new(operation).expect("valid")
}

fn relu(channels: u32, side: u32) -> Call {
    Call::new(Operation::Relu(shape(channels, side))).expect("valid")
}

fn time(call: &Call, mode: [u32; 4]) -> f64 {
    let board = xavier();
    Bench::new(&board, Unit::NOMINAL, 1)
        .measure(call, mode)
        .time_ms
}

#[test]
fn no_call_is_faster_than_the_peak_of_the_gpu() {
    let board = xavier();
    let gpu = &board.physics().gpu;
    let library = Library::for_board(&board);
    let mut bench = Bench::new(&board, Unit::NOMINAL, 1);
    let mut random = ChaCha8Rng::seed_from_u64(3);
    for kind in Kind::ALL {
        for _ in 0..500 {
            let call = sample(kind, &mut random);
            let work = GpuWork::from_call(&call, &library);
            assert!((0.0..1.0).contains(&work.efficiency), "{call:?} {work:?}");
            assert!(work.bytes >= call.output_bytes() as f64, "{call:?}");
            let least_ms = 1e3 * work.flop / (gpu.flop_per_cycle * 1.377e9);
            let time_ms = bench.measure(&call, FASTEST).time_ms;
            assert!(time_ms > least_ms, "{call:?}: {time_ms} ms, {least_ms} ms");
        }
    }
}

#[test]
fn a_large_convolution_follows_the_gpu_and_a_small_kernel_the_cpu() {
    let half_gpu = [8, 2_265_600, 675_750, 2_133_000];
    let half_cpu = [8, 1_113_600, 1_377_000, 2_133_000];
    let large = conv(512, 512, 56);
    let gpu = time(&large, half_gpu) / time(&large, FASTEST);
    let cpu = time(&large, half_cpu) / time(&large, FASTEST);
    assert!((1.9..2.1).contains(&gpu), "{gpu}");
    assert!((0.95..1.05).contains(&cpu), "{cpu}");
    let small = relu(64, 7);
    let gpu = time(&small, half_gpu) / time(&small, FASTEST);
    let cpu = time(&small, half_cpu) / time(&small, FASTEST);
    assert!((0.9..1.2).contains(&gpu), "{gpu}");
    assert!((1.4..2.1).contains(&cpu), "{cpu}");
    let streamed = relu(512, 200);
    let slow_memory = [8, 2_265_600, 1_377_000, 1_065_600];
    let memory = time(&streamed, slow_memory) / time(&streamed, FASTEST);
    assert!((1.3..2.1).contains(&memory), "{memory}");
}

/// A tile that is not full takes as long as a full one.
/// The sizes of the tiles are drawn for each board, so that some number of channels costs another row of them.
#[test]
fn one_channel_more_than_the_tiles_hold_costs_another_row_of_tiles() {
    let times: Vec<f64> = (1..=257)
        .map(|channels| time(&conv(256, channels, 28), FASTEST))
        .collect();
    let steps = times.windows(2).map(|pair| pair[1] / pair[0] - 1.0);
    let highest = steps.clone().fold(0.0, f64::max);
    let median = {
        let mut sorted: Vec<f64> = steps.collect();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    assert!(highest > 0.1 && median < 0.03, "{highest} {median}");
}

#[test]
fn units_differ_as_published() {
    let board = xavier();
    let mode = [8, 1_190_400, 675_750, 1_331_200];
    let measured =
        |unit: u64, call: &Call| Bench::new(&board, Unit::drawn(unit), unit).measure(call, mode);
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let ascending = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let large = conv(256, 256, 28);
    let spread = |group: u64| {
        let powers = (0..13).map(|unit| measured(13 * group + unit, &large).power_mw);
        let powers = ascending(powers.collect());
        (powers[12] - powers[0]) / powers[6]
    };
    let spread = mean(&(0..40).map(spread).collect::<Vec<_>>());
    assert!((0.20..0.30).contains(&spread), "{spread}");
    let small = relu(58, 14);
    let times = ascending(
        (0..1_000)
            .map(|unit| measured(unit, &small).time_ms)
            .collect(),
    );
    let above_median = |quantile: usize| times[quantile] / times[500] - 1.0;
    let (quartile, decile) = (above_median(750), above_median(900));
    assert!((0.07..0.13).contains(&quartile), "{quartile}");
    assert!((0.15..0.25).contains(&decile), "{decile}");
}

fn csv(corpus: &Corpus) -> String {
    let mut text = Vec::new();
    corpus.write(&mut text).expect("written");
    String::from_utf8(text).expect("text")
}

#[test]
fn a_corpus_has_valid_rows_of_every_kernel_and_unit() {
    let board = xavier();
    let corpus = Corpus {
        board: &board,
        units: 13,
        rows: 2_800,
        seed: 5,
    };
    let text = csv(&corpus);
    assert_eq!(text, csv(&corpus), "equal seeds give equal corpora");
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    let mut rows_of = BTreeMap::<Kind, u64>::new();
    let mut rows_of_unit = HashMap::<&str, u64>::new();
    for line in lines {
        let row: HashMap<&str, &str> = header.iter().copied().zip(line.split(',')).collect();
        assert_eq!(row.len(), header.len(), "{line}");
        let kind = Kind::named(row["kernel"]).expect("a kind");
        let value = |parameter: Parameter| row[parameter.name()].parse().ok();
        Call::from_parameters(kind, value).unwrap_or_else(|refused| panic!("{line}: {refused}"));
        for column in ["time_ms", "power_mw"] {
            assert!(
                row[column].parse::<f64>().expect("a number") > 0.0,
                "{line}"
            );
        }
        assert_eq!((row["device"], row["kind"]), ("xavier-agx", "simulated"));
        *rows_of.entry(kind).or_default() += 1;
        *rows_of_unit.entry(row["unit"]).or_default() += 1;
    }
    for kind in Kind::ALL {
        let expected = if kind == Kind::Conv2d { 2_800 } else { 300 };
        assert_eq!(rows_of[&kind], expected);
    }
    assert_eq!(corpus.all_rows(), rows_of.values().sum::<u64>());
    assert_eq!(rows_of_unit.len(), 13);
    let other = Corpus { seed: 6, ..corpus };
    assert_ne!(text, csv(&other));
}
