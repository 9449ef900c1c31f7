//! Steps in lines of output: `--steps-from`.

use std::fs;
use std::time::{Duration, Instant};

use wattgate_profiler::steps::lines::{Line, Lines};
use wattgate_profiler::steps::pattern::{Found, NoCount, Pattern, TOOLS};
use wattgate_profiler::steps::tally::{Notice, Tally};

/// What a pattern says of each line of output that arrives in pieces of a size, and whether the lines are new.
fn read(pattern: &str, output: &[u8], piece: usize) -> Vec<(Result<Found, NoCount>, bool)> {
    let pattern = Pattern::new(pattern).expect("a pattern");
    let mut lines = Lines::default();
    let mut all = Vec::new();
    let mut count = |line: Line<'_>| {
        let found = pattern.find(&line).transpose();
        let has_found = found.is_some();
        all.extend(found.map(|found| (found, !line.is_redrawn)));
        has_found
    };
    for piece in output.chunks(piece) {
        lines.split(piece, &mut count);
    }
    lines.finish(&mut count);
    all
}

fn found(pattern: &str, output: &[u8], piece: usize) -> Vec<Found> {
    let read = read(pattern, output, piece).into_iter();
    read.map(|(found, _)| found.expect("a count")).collect()
}

fn counts(pattern: &str, output: &[u8]) -> Vec<f64> {
    let found = found(pattern, output, usize::MAX);
    let counts = found.into_iter().map(|found| match found {
        Found::Count { count, .. } => count as f64,
        Found::Rate(rate) => rate,
        Found::Steps(steps) => steps as f64,
    });
    counts.collect()
}

fn labelled(count: u64, total: Option<u64>, label: &str) -> Found {
    let label = label.to_owned();
    Found::Count {
        count,
        total,
        label,
    }
}

/// The steps after each line of output, one of which comes every 0.2 s, and what the user is told.
fn tally(pattern: &str, output: &[u8]) -> (Vec<u64>, Vec<Notice>) {
    let mut tally = Tally::new(Pattern::new(pattern).expect("a pattern").choice());
    let (mut steps, mut notices) = (Vec::new(), Vec::new());
    let start = Instant::now();
    for (at, (found, is_new)) in read(pattern, output, usize::MAX).into_iter().enumerate() {
        let now = start + Duration::from_millis(200) * at as u32;
        notices.extend(tally.take(&found.expect("a count"), now, is_new));
        steps.push(tally.steps());
    }
    (steps, notices)
}

#[test]
fn the_bar_of_tqdm_is_counted() {
    let bars = "\r  0%|          | 0/500 [00:00<?, ?it/s]\
                \r 12%|█▏        | 60/500 [00:05<00:40, 10.9it/s]\
                \r 12%|█▏        | 61/500 [00:05<00:40, 10.9it/s]\n";
    assert_eq!(counts(r"(\d+)/\d+ \[", bars.as_bytes()), [0.0, 60.0, 61.0]);
}

#[test]
fn the_training_of_ultralytics_is_counted_without_its_validation() {
    let output = "
      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size
\r      6/100      76.5G       1.11      1.141        1.1       1267        640:  97%|█████████▋| 29/30 [00:31<00:01,  1.10s/it]\
\r      6/100      76.5G       1.11      1.141        1.1       1267        640: 100%|██████████| 30/30 [00:32<00:00,  1.10s/it]
\r                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 7/7 [00:13<00:00,  1.90s/it]
                   all       7332      17156      0.726      0.179      0.184      0.101
\r      7/100      74.7G      1.105      1.084      1.092       1440        640:   7%|▋         | 2/30 [00:02<00:33,  1.10s/it]
";
    let training = r"640: .* (\d+)/\d+ \[";
    assert_eq!(counts(training, output.as_bytes()), [29.0, 30.0, 2.0]);
    for pattern in [training, "ultralytics"] {
        let (steps, notices) = tally(pattern, output.as_bytes());
        assert_eq!(steps, [29, 30, 32], "an epoch begins after the one before");
        assert_eq!(notices, []);
    }
}

#[test]
fn rates_are_integrated() {
    let rates = found(
        r"^fps (?P<rate>[\d.,]+) (mean)",
        b"fps - mean\nfps 30.01 mean\nfps 1,029.99 mean\n",
        usize::MAX,
    );
    assert_eq!(rates, [Found::Rate(30.01), Found::Rate(1_029.99)]);
    let start = Instant::now();
    let mut tally = Tally::default();
    for (at, rate, steps) in [
        (0, 99.0, 0),
        (5, 30.0, 150),
        (10, 20.0, 250),
        (10, 20.0, 250),
    ] {
        let notice = tally.take(&Found::Rate(rate), start + Duration::from_secs(at), true);
        assert_eq!(notice, None);
        assert_eq!(tally.steps(), steps);
    }
}

#[test]
fn a_bar_counts_when_it_is_drawn_and_not_before_it_is_whole() {
    let pattern = Pattern::new(r"(\d+)").expect("a pattern");
    let mut lines = Lines::default();
    let mut taken = |bytes: &[u8]| {
        let mut all = Vec::new();
        lines.split(bytes, |line| {
            let found = pattern.find(&line).expect("a count");
            let has_found = found.is_some();
            all.extend(found);
            has_found
        });
        all
    };
    let of_500 = |count| labelled(count, Some(500), "");
    assert_eq!(taken(b"\r60/500 "), [of_500(60)]);
    assert_eq!(taken(b"it/s\r"), [], "the rest of it");
    assert_eq!(taken(b"6"), [], "perhaps not the last digit");
    assert_eq!(taken(b"1/500\r"), [of_500(61)]);
    assert_eq!(
        taken(b"62/50"),
        [],
        "perhaps not the last digit of the total"
    );
    assert_eq!(taken(b"0\n63/"), [of_500(62)], "no bar");
    assert_eq!(taken(b"500\n"), [of_500(63)]);
}

#[test]
fn lines_are_the_same_however_they_arrive() {
    let output = "step 1\r\nstep 12\n\n\nstep 123\nno newline: step 1,234".as_bytes();
    let expected = [1, 12, 123, 1_234].map(|steps| labelled(steps, None, "step"));
    let expected = expected.map(|found| match found {
        Found::Count { count: 1_234, .. } => labelled(1_234, None, "no newline step"),
        found => found,
    });
    for piece in 1..=output.len() {
        assert_eq!(found(r"step ([\d,]+)", output, piece), expected, "{piece}");
    }
}

#[test]
fn bytes_that_are_no_text_and_long_lines_do_no_harm() {
    let mut output = b"\xff\xfe step 1 \xc3\n".to_vec();
    output.extend([b'x'; 64 << 10]);
    output.extend(b" step 2\nstep 3\n\0step 4\n");
    for piece in [7, 4096, usize::MAX] {
        let steps = found(r"step (\d+)", &output, piece);
        assert_eq!(steps, [1, 3, 4].map(|steps| labelled(steps, None, "step")));
    }
    let cut = [b"step 5".as_slice(), &[b' '; 100_000], b"step 6\n"].concat();
    assert_eq!(counts(r"step (\d)\s", &cut), [5.0], "the beginning counts");
}

#[test]
fn rates_may_have_decimals_thousands_and_a_unit_of_measure() {
    for (text, expected) in [
        ("0", Some(0.0)),
        ("12.5", Some(12.5)),
        ("1,234,567.5", Some(1_234_567.5)),
        ("5.86k", Some(5_860.0)),
        ("12.5 it/s", Some(12.5)),
        ("1.25s/it", Some(0.8)),
        ("40ms/step", Some(25.0)),
        ("1,23", None),
        ("1234,567", None),
        (",123", None),
        ("1.234,5", None),
        ("1.2.3", None),
        (".", None),
        ("-1", None),
        ("1e3", None),
        ("٣", None),
        ("nan", None),
    ] {
        let line = format!("<{text}>");
        let found = counts("<(?P<rate>.*)>", line.as_bytes());
        assert_eq!(found.first().copied(), expected, "{text}");
    }
    let endless = "9".repeat(400);
    assert!(counts("(?P<rate>.*)", endless.as_bytes()).is_empty());
}

#[test]
fn the_time_of_a_step_is_told_in_its_unit_of_measure() {
    for (line, pattern, per_second) in [
        ("time: 0.0800  data", r"time: (?P<period>[\d.]+)", 12.5),
        ("20ms/step", r"(?P<period>\d+)ms", 50.0),
        ("20ms/step", r"(?P<period>\d+ms)", 50.0),
        ("took 500 us", r"took (?P<period>[\d.]+)", 2_000.0),
        ("2.50s/it", r"(?P<period>[\d.]+)s/it", 0.4),
        ("Speed: 8.0ms inference", r"(?P<period>[\d.]+)ms inf", 125.0),
    ] {
        let found = found(pattern, line.as_bytes(), usize::MAX);
        let [Found::Rate(rate)] = found[..] else {
            panic!("{line}: {found:?}")
        };
        assert!((rate / per_second - 1.0).abs() < 1e-12, "{line}: {rate}");
    }
    assert!(counts(r"(?P<period>\d+)s", b"0s\n").is_empty());
}

#[test]
fn without_a_group_each_line_is_a_step() {
    let output = "0: 640x480 1 person, 8.0ms\nSpeed: 8.0ms\n0: 640x480 2 persons, 8.1ms\n";
    assert_eq!(tally(r"^\d+: ", output.as_bytes()).0, [1, 2]);
    assert_eq!(tally("ultralytics", output.as_bytes()).0, [1, 2]);
}

#[test]
fn what_is_no_count_is_refused() {
    for (line, pattern, expected) in [
        (
            "'epoch': 0.32",
            r"'epoch': ([\d.]+)",
            "`0.32` is a fraction",
        ),
        ("'epoch': 1.0", r"'epoch': ([\d.]+)", "`1.0` is a fraction"),
        ("'epoch': 0.32", r"'epoch': (\d+)", "`0.32` is a fraction"),
        (
            "step 1,234 of",
            r"step (\d+)",
            "`1` is a part of the number `1,234`",
        ),
        (
            "5.86k/8.00k [00:01",
            r"(\d+)k/",
            "`5.86k` is rounded to thousands",
        ),
        (
            "5.86k/8.00k [00:01<",
            "tqdm",
            "`8.00k` is rounded to thousands",
        ),
        (
            "41/60 11ms/step",
            r"(\d+)ms/step",
            "`11ms` has a unit of measure",
        ),
        (" 33% |███|", r"(\d+)%", "`33%` has a unit of measure"),
        (
            "5.1it/s",
            r"([\d.]+)it/s",
            "`5.1it/s` has a unit of measure",
        ),
        ("ETA: 3s", r"(\d+)s", "`3s` has a unit of measure"),
    ] {
        let read = read(pattern, line.as_bytes(), usize::MAX);
        let [(Err(why), _)] = &read[..] else {
            panic!("{line}: {read:?}")
        };
        let why = why.to_string();
        assert!(why.contains(expected), "{line}: {why}");
    }
    for (line, pattern) in [
        ("step 12.", r"step (\d+)"),
        ("step 12, loss 3", r"step (\d+)"),
        ("[12,5]", r"\[(\d+)"),
        ("12 samples", r"(\d+)"),
        ("12 steps", r"(\d+)"),
    ] {
        assert_eq!(counts(pattern, line.as_bytes()), [12.0], "{line}");
    }
}

#[test]
fn an_epoch_whose_last_count_is_never_printed_counts_whole() {
    let log = |counts: &[u32]| {
        let lines = counts
            .iter()
            .map(|count| format!("Epoch(train) [{count:>3}/25]\n"));
        lines.collect::<String>()
    };
    let pattern = r"\[ *(\d+)/";
    let steps = |counts: &[u32]| tally(pattern, log(counts).as_bytes()).0;
    assert_eq!(steps(&[10, 20, 10, 20, 10]), [10, 20, 35, 45, 60]);
    assert_eq!(steps(&[25, 25, 25]), [25, 50, 75], "a line an epoch");
    assert_eq!(
        steps(&[20, 20]),
        [20, 45],
        "a line an epoch, before its end"
    );
    // The program has begun anew: the rest of the epoch would have taken longer.
    let restarted = [1, 2, 3, 1, 2];
    assert_eq!(steps(&restarted), [1, 2, 3, 4, 5]);
}

#[test]
fn one_of_several_bars_is_counted_and_the_user_is_told() {
    let bar = |label: &str, count: u32, total: u32| {
        format!(
            "\r{label}{}%|##| {count}/{total} [00:01<00:02, 9it/s]",
            100 * count / total
        )
    };
    let epochs = |labels: [&str; 2], totals: [u32; 2]| {
        let mut output = String::new();
        for _ in 0..2 {
            for (label, total) in labels.into_iter().zip(totals) {
                for part in 0..=5 {
                    output += &bar(label, part * total / 5, total);
                }
            }
        }
        output
    };
    let last = |output: &str| {
        let (steps, notices) = tally("tqdm", output.as_bytes());
        (steps.last().copied(), notices)
    };
    let (steps, notices) = last(&epochs(["train: ", "valid: "], [250, 50]));
    assert_eq!(steps, Some(500));
    assert!(!notices.is_empty());
    let told = notices[0].to_string();
    let expected =
        "counts `train` to 250 and `valid` to 50 in turn; the steps are those of `train`";
    assert!(told.contains(expected), "{told}");
    // By its words, although it has more steps.
    assert_eq!(
        last(&epochs(["train: ", "valid: "], [250, 1000])).0,
        Some(500)
    );
    // By the number of its steps.
    let (steps, notices) = last(&epochs(["", ""], [400, 25]));
    assert_eq!(steps, Some(800));
    assert!(notices[0].to_string().contains("those of to 400"));
    // A check before the training does not count for long.
    let sanity = [bar("Sanity Checking: ", 2, 2), epochs(["", ""], [400, 25])].concat();
    assert_eq!(last(&sanity).0, Some(802));
    // Words that differ from line to line are no label.
    let files: String = (0..20)
        .map(|at| format!("{}.jpg {at}\n", "x".repeat(at + 1)))
        .collect();
    let (steps, notices) = tally(r"jpg (\d+)", files.as_bytes());
    assert_eq!(notices.last(), Some(&Notice::Many));
    assert!(steps.is_sorted() && steps.last() > Some(&10), "{steps:?}");
}

#[test]
fn a_rate_that_is_a_mean_since_the_start_is_told() {
    let pattern = "rate: (?P<rate>.*)";
    let mean = |steps: u32| {
        format!(
            "rate: {:.3}\n",
            (100.0 + 5.0 * f64::from(steps)) / (10.0 + f64::from(steps))
        )
    };
    let means: String = (0..20).map(mean).collect();
    let (_, notices) = tally(pattern, means.as_bytes());
    let [Notice::Mean { .. }] = notices[..] else {
        panic!("{notices:?}")
    };
    let rates: String = (0..200)
        .map(|at| format!("rate: {}.{}\n", 9 + at % 2, at % 7))
        .collect();
    assert_eq!(tally(pattern, rates.as_bytes()).1, []);
}

/// Steps from counts with their times in ms, and what the user is told.
fn timed(pattern: &str, lines: &[(u64, &str)]) -> (u64, Vec<Notice>) {
    let pattern = Pattern::new(pattern).expect("a pattern");
    let mut tally = Tally::new(pattern.choice());
    let (mut splitter, mut notices) = (Lines::default(), Vec::new());
    let start = Instant::now();
    for (at, line) in lines {
        splitter.split(line.as_bytes(), |line| {
            let found = pattern.find(&line).expect("a count");
            let has_found = found.is_some();
            let at = start + Duration::from_millis(*at);
            notices.extend(found.and_then(|found| tally.take(&found, at, !line.is_redrawn)));
            has_found
        });
    }
    (tally.steps(), notices)
}

#[test]
fn a_count_that_falls_is_an_epoch_if_the_one_before_was_at_its_end() {
    let pattern = r"(\d+)/";
    let fell = |from, to| Notice::Fell { from, to };
    // An epoch, whose last two steps were not printed.
    let (steps, notices) = timed(
        pattern,
        &[
            (0, "0/20\n"),
            (100, "9/20\n"),
            (200, "18/20\n"),
            (240, "1/20\n"),
        ],
    );
    assert_eq!((steps, &notices[..]), (21, &[][..]));
    // A loop that ends early, and a program that begins anew: what was not shown was not done.
    let broken = [
        (0, "38/99\n"),
        (100, "39/99\n"),
        (200, "40/99\n"),
        (90_000, "0/99\n"),
        (90_100, "1/99\n"),
    ];
    assert_eq!(timed(pattern, &broken), (41, vec![fell(40, 0)]));
    // Two processes print one count.
    let ranks = [
        (0, "80/99\n"),
        (100, "81/99\n"),
        (101, "80/99\n"),
        (200, "82/99\n"),
        (201, "81/99\n"),
    ];
    assert_eq!(timed(pattern, &ranks), (82, vec![fell(81, 80)]));
    // From a checkpoint the count goes on.
    let resumed = [
        (0, "498/999\n"),
        (100, "499/999\n"),
        (200, "500/999\n"),
        (9000, "401/999\n"),
        (9100, "402/999\n"),
    ];
    assert_eq!(timed(pattern, &resumed), (502, vec![fell(500, 401)]));
    // Nobody can tell two bars that look alike.
    let alike = [
        (0, "60/99\r"),
        (100, "61/99\r"),
        (101, "5/99\r"),
        (200, "62/99\r"),
        (201, "6/99\r"),
        (202, "x\r"),
    ];
    assert_eq!(timed(pattern, &alike).1, [fell(61, 5)]);
}

#[test]
fn the_same_count_on_a_new_line_is_an_epoch_only_if_it_may_be_its_end() {
    let bar = r"(\d+)/";
    // Its steps were counted before: a program prints its bar to a log, and once more with a result.
    let done = [(0, "10/20\n"), (500, "20/20\n"), (900, "20/20 loss 1\n")];
    assert_eq!(timed(bar, &done).0, 20);
    // The first step is slow, and the program prints its bar all the while.
    let slow = [
        (0, "0/20\n"),
        (900, "0/20\n"),
        (1800, "1/20\n"),
        (2700, "1/20\n"),
    ];
    assert_eq!(timed(bar, &slow).0, 1);
    let lines: Vec<_> = (0..9).map(|at| (1000 * at, "window: 20\n")).collect();
    let (steps, notices) = timed(r"window: (\d+)", &lines);
    assert_eq!((steps, &notices[..]), (20, &[Notice::Stuck(20)][..]));
}

#[test]
fn a_total_may_be_known_after_the_first_epoch() {
    let lines = [
        (0, "\r1/Unknown 0s/step"),
        (1000, "\r60/Unknown 0s/step"),
        (2000, "\r1/60 0s/step"),
        (3000, "\r60/60 0s/step"),
    ];
    assert_eq!(timed("keras", &lines), (120, vec![]));
}

#[test]
fn the_bar_of_a_preparation_does_not_count_for_long() {
    let lines = [
        (0, "\rMap: 9%|#| 900/10000 [00:00"),
        (1000, "\rMap: 100%|#| 10000/10000 [00:01"),
        (1500, "\nTrain: 1%|#| 1/400 [00:00"),
        (2500, "\rTrain: 5%|#| 20/400 [00:01"),
        (3500, "\rTrain: 10%|#| 40/400 [00:02"),
    ];
    let (steps, notices) = timed("tqdm", &lines);
    assert_eq!(steps, 10_039);
    let told = notices.last().expect("a notice").to_string();
    assert!(
        told.contains("the steps are those of `Train` to 400"),
        "{told}"
    );
}

#[test]
fn the_trainer_of_hugging_face_is_counted_and_not_its_evaluations() {
    let mut lines = vec![
        (
            0,
            "\rMap: 100%|#| 900/900 [00:01<00:00, 9 examples/s]".to_owned(),
        ),
        (100, "\r100%|#| 90/90 [00:01<00:00, 90it/s]".to_owned()),
    ];
    for step in 0..=10 {
        let at = 1000 * step;
        lines.push((
            at + 200,
            format!("\r  {step}%|#| {}/100 [00:01<00:09, 9it/s]", 10 * step),
        ));
        for batch in 0..=9 {
            let bar = format!("\r  {batch}%|#| {}/90 [00:01<00:09, 9it/s]", 10 * batch);
            lines.push((at + 300 + 50 * batch, bar));
        }
    }
    let lines: Vec<_> = lines.iter().map(|(at, line)| (*at, &**line)).collect();
    let (steps, notices) = timed("hf", &lines);
    assert_eq!(steps, 190);
    let [Notice::Several { counted, .. }] = &notices[..] else {
        panic!("{notices:?}")
    };
    assert_eq!(counted, "to 100");
}

/// Parts of what `tools/steps.sh` has recorded of tqdm 4.70.1, Keras 3.15.1, transformers 5.24.0, and Lightning 2.6.6 with rich
/// 15.0.0, with the steps that they show.
#[test]
fn recorded_output_of_present_tools_is_counted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/output");
    for (file, tool, expected, told) in [
        // The preparation, the end of the first epoch, the second one, and a part of the third one.
        ("tqdm-validated-pipe", "tqdm", 5000 + 5 + 60 + 55, 3),
        // The total is known from the second epoch on.
        ("keras-generator-pipe", "keras", 60 + 15, 0),
        // An evaluation of 15 batches before the training, and one after each ten steps.
        ("hf-evaluated-pipe", "hf", 15 + 61, 1),
        // rich cuts the columns after the count.
        ("lightning-rich-40-columns", "lightning", 11, 0),
    ] {
        let output = fs::read(format!("{folder}/{file}.txt")).expect("output");
        let (steps, notices) = tally(tool, &output);
        assert_eq!(
            (steps.last(), notices.len()),
            (Some(&expected), told),
            "{file}: {notices:?}"
        );
    }
}

/// What is said of tools that no test runs, as others have published it.
#[test]
fn the_output_of_tools_that_only_others_run_is_counted() {
    // vLLM 0.9 and later, issue 43295 of vllm-project/vllm. While it is idle it prints nothing, after one line of zeros
    // (`vllm/v1/metrics/loggers.py`, `LoggingStatLogger::log`). Another engine is not added.
    let vllm = |at: u64, engine: u32, rate: &str| {
        let line = format!(
            "(APIServer pid=3646) INFO 05-19 10:13:11 [loggers.py:271] Engine {engine:03}: Avg prompt throughput: 0.0 tokens/s, \
             Avg generation throughput: {rate} tokens/s, Running: 18 reqs, Waiting: 43 reqs, GPU KV cache usage: 95.9%, Prefix \
             cache hit rate: 0.0%\n"
        );
        (1000 * at, line)
    };
    let lines = [
        vllm(0, 0, "1055.3"),
        vllm(10, 0, "1226.0"),
        vllm(10, 1, "999.0"),
        vllm(20, 0, "0.0"),
        vllm(80, 0, "734.0"),
    ];
    let lines: Vec<_> = lines.iter().map(|(at, line)| (*at, &**line)).collect();
    assert_eq!(timed("vllm", &lines).0, 12_260 + 7_340);
    // vLLM 0.7, issue 15018 of vllm-project/vllm.
    let vllm = "INFO 03-18 09:04:46 [metrics.py:481] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.4 tokens/s, \
                Running: 2 reqs, Swapped: 0 reqs, Pending: 0 reqs, GPU KV cache usage: 0.6%, CPU KV cache usage: 0.0%.\n";
    assert_eq!(counts("vllm", vllm.as_bytes()), [0.4]);
    // ROS 2 Humble, issue 1203 of ros2/rclpy: the window counts the messages since the start (`ros2topic/verb/hz.py` of
    // ros2/ros2cli, `get_hz`), and the rate is a mean over all of them.
    let ros2 = "average rate: 100.000\n        min: 0.008s max: 0.012s std dev: 0.00067s window: 1709\n\
                average rate: 100.000\n        min: 0.008s max: 0.012s std dev: 0.00067s window: 1809\n\
                average rate: 99.997\n        min: 0.008s max: 0.012s std dev: 0.00066s window: 1909\n";
    assert_eq!(
        tally("ros2-hz", ros2.as_bytes()),
        (vec![1709, 1809, 1909], vec![])
    );
    // trtexec of TensorRT 7, README.md of isarsoft/yolov4-triton-tensorrt, and of TensorRT 8 and 10, printProlog in
    // `samples/common/sampleReporting.cpp` of NVIDIA/TensorRT.
    let trtexec = "[I] Starting inference threads\n[I] Warmup completed 1 queries over 200 ms\n\
                   [I] Timing trace has 204 queries over 3.00185 s\n[I] Trace averages of 10 runs:\n\
                   [10/03/2024-10:47:59] [I] Throughput: 130.298 qps\n";
    let twice = trtexec.repeat(2);
    assert_eq!(tally("trtexec", twice.as_bytes()).0, [1, 205, 206, 410]);
    // deepstream-app of DeepStream 6.2, issue 342 of marcoslucianops/DeepStream-Yolo, and the Python samples, issue 530.
    let deepstream = "\n**PERF:  FPS 0 (Avg)\t\n**PERF:  45.99 (45.96)\t\n**PERF:  51.06 (48.61)\t\n\
                      **PERF:  {'stream0': 24.97, 'stream1': 24.98, 'stream2': 24.99} \n";
    assert_eq!(
        counts("deepstream", deepstream.as_bytes()),
        [45.99, 51.06, 24.97]
    );
    // The server of llama.cpp b8000 and later, pull requests 19408 and 22929 of ggml-org/llama.cpp.
    let llama = "slot print_timing: id  0 | task 124 | \nprompt eval time =    5093.47 ms /  1360 tokens (    3.75 ms per token,   \
                 267.01 tokens per second)\n       eval time =     319.58 ms /    10 tokens (   31.96 ms per token,    31.29 \
                 tokens per second)\n      total time =    5413.05 ms /  1370 tokens\n\
                 48.32.030.318 I slot print_timing: id  0 | task 48672 |       total time =   38639.37 ms / 80154 tokens\n";
    assert_eq!(tally("llama.cpp", llama.as_bytes()).0, [1, 2]);
}

#[test]
fn lines_are_read_without_escapes_and_know_whether_they_are_drawn_again() {
    let rich = "\x1b[2;36m          \x1b[0mstep \x1b[1;36m20\x1b[0m/\x1b[1;36m250\x1b[0m \x1b]8;;file://x#25\x1b\\x.py\x1b]8;;\x1b\\\n";
    let expected = labelled(20, Some(250), "step");
    for piece in 1..=rich.len() {
        assert_eq!(
            found(r"step (\d+)/", rich.as_bytes(), piece),
            std::slice::from_ref(&expected)
        );
    }
    let is_new = |output: &str| {
        let lines = read(r"(\d+)", output.as_bytes(), usize::MAX);
        lines
            .into_iter()
            .map(|(_, is_new)| is_new)
            .collect::<Vec<_>>()
    };
    assert_eq!(is_new("1\r\n2\r\n"), [true, true]);
    assert_eq!(is_new("1\n\x1b[32m2\x1b[0m\n"), [true, true]);
    assert_eq!(is_new("1\r2\n3\n"), [true, false, false]);
    assert_eq!(is_new("1\n\x1b[1A\x1b[2K2\n"), [true, false]);
    assert_eq!(is_new("1\n\x08\x08\x082\n"), [true, false]);
}

/// Output that the present versions of tools have written, with the steps that it shows and the notices for the user. Of two
/// bars the steps before the better one was found are not counted.
#[test]
fn the_output_of_known_tools_is_counted() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/cases/steps");
    if fs::exists(folder).is_ok_and(|exists| !exists) {
        assert!(
            std::env::var_os("WATTGATE_REQUIRE_DATA").is_none(),
            "WATTGATE_REQUIRE_DATA is set, so the recorded output must be present"
        );
        println!("no {folder}: skipped");
        return;
    }
    for (file, pattern, expected, told) in [
        ("tqdm-nested-pipe", "tqdm", 490, 1),
        ("tqdm-valid-pty80", "tqdm", 290, 1),
        ("hf-trainer-eval-pty100", "hf", 400, 1),
        ("keras-val-pty80", "keras", 111, 0),
        ("keras-verbose2-pipe", "keras", 420, 0),
        ("lightning-default-rich-pty100", "lightning", 60, 0),
        ("yolo-train-pipe", "ultralytics", 120, 0),
        ("yolo-train-pty80", "ultralytics", 120, 0),
        ("yolo-predict-array", "ultralytics", 29, 0),
        ("llama.cpp-server", "llama.cpp", 4, 0),
        ("fastai-pipe", r"\[(\d+)/\d+ ", 131, 2),
        ("rich-two-pty80", r" (\d+)/\d+ ", 70, 1),
        ("rich-log-pty80", r"step (\d+)/", 140, 0),
        ("mmengine-pipe", r"\]\[ *(\d+)/", 160, 0),
        ("xgb-pipe", r"^\[(\d+)\]", 59, 0),
    ] {
        let output = fs::read(format!("{folder}/{file}.txt")).expect("output");
        let (steps, notices) = tally(pattern, &output);
        assert_eq!(
            (steps.last(), notices.len()),
            (Some(&expected), told),
            "{file}: {notices:?}"
        );
    }
}

#[test]
fn a_pattern_without_sense_is_refused() {
    for (text, expected) in [
        (r"step (\d+", "unclosed group"),
        (
            r"(?P<cuont>\d+)",
            "has a group `cuont`; the groups are count, total, steps, rate and period",
        ),
        (r"(?P<count>\d+) (?P<rate>\d+)", "several of the groups"),
    ] {
        let error = Pattern::new(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
    for (name, _) in TOOLS {
        assert_eq!(Pattern::new(name).expect("a pattern").as_str(), name);
    }
}
