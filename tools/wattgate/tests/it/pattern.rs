//! Counts in lines of output: `--steps-from`.

use std::time::{Duration, Instant};

use wattgate_profiler::steps::pattern::{Found, Lines, Pattern, Tally};

/// What a pattern finds in output that arrives in pieces of a size.
fn found(pattern: &str, output: &[u8], piece: usize) -> Vec<Found> {
    let pattern = Pattern::new(pattern).expect("a pattern");
    let mut lines = Lines::default();
    let mut all = Vec::new();
    let mut count = |line: &[u8], is_complete: bool| {
        let found = pattern.find(line, is_complete);
        all.extend(found);
        found.is_some()
    };
    for piece in output.chunks(piece) {
        lines.split(piece, &mut count);
    }
    lines.finish(&mut count);
    all
}

fn counts(pattern: &str, output: &[u8]) -> Vec<f64> {
    let found = found(pattern, output, usize::MAX);
    let counts = found.into_iter().map(|found| match found {
        Found::Count(count) | Found::Rate(count) => count,
    });
    counts.collect()
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
    let mut tally = Tally::default();
    let mut steps = Vec::new();
    for found in found(training, output.as_bytes(), usize::MAX) {
        tally.take(found, Instant::now());
        steps.push(tally.steps());
    }
    assert_eq!(steps, [29, 30, 32], "an epoch begins after the one before");
}

#[test]
fn rates_are_integrated() {
    let deepstream =
        b"\n**PERF:  FPS 0 (Avg)\t\n**PERF:  30.01 (29.98)\t\n**PERF:  29.99 (29.98)\t\n";
    let rates = found(r"^\*\*PERF:\s+(?P<rate>[\d.]+) \(", deepstream, usize::MAX);
    assert_eq!(rates, [Found::Rate(30.01), Found::Rate(29.99)]);
    let trtexec = b"[06/26/2023-11:30:51] [I] === Performance summary ===\n\
                    [06/26/2023-11:30:51] [I] Throughput: 234.19 qps\n";
    let rate = found(r"Throughput: (?<rate>[\d.,]+) (qps)", trtexec, usize::MAX);
    assert_eq!(rate, [Found::Rate(234.19)]);
    let start = Instant::now();
    let mut tally = Tally::default();
    for (at, rate, steps) in [
        (0, 99.0, 0),
        (5, 30.0, 150),
        (10, 20.0, 250),
        (10, 20.0, 250),
    ] {
        tally.take(Found::Rate(rate), start + Duration::from_secs(at));
        assert_eq!(tally.steps(), steps);
    }
}

#[test]
fn a_bar_counts_when_it_is_drawn_and_not_before_it_is_whole() {
    let pattern = Pattern::new(r"(\d+)(/\d+)?").expect("a pattern");
    let mut lines = Lines::default();
    let mut taken = |bytes: &[u8]| {
        let mut all = Vec::new();
        lines.split(bytes, |line, is_complete| {
            let found = pattern.find(line, is_complete);
            all.extend(found);
            found.is_some()
        });
        all
    };
    assert_eq!(taken(b"\r60/500 "), [Found::Count(60.0)]);
    assert_eq!(taken(b"it/s\r"), [], "the rest of it");
    assert_eq!(taken(b"6"), [], "perhaps not the last digit");
    assert_eq!(taken(b"1/500\r"), [Found::Count(61.0)]);
    assert_eq!(taken(b"62\n63/"), [Found::Count(62.0)], "no bar");
    assert_eq!(taken(b"500\n"), [Found::Count(63.0)]);
}

#[test]
fn lines_are_the_same_however_they_arrive() {
    let output = "step 1\r\nstep 12\n\n\nstep 123\nno newline: step 1,234".as_bytes();
    let expected = [1.0, 12.0, 123.0, 1_234.0].map(Found::Count);
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
        let expected = [1.0, 3.0, 4.0].map(Found::Count);
        assert_eq!(found(r"step (\d+)", &output, piece), expected);
    }
    let cut = [b"step 5".as_slice(), &[b' '; 100_000], b"step 6\n"].concat();
    assert_eq!(counts(r"step (\d)\s", &cut), [5.0], "the beginning counts");
}

#[test]
fn numbers_are_whole_or_decimal_with_thousands() {
    for (text, expected) in [
        ("0", Some(0.0)),
        ("12.5", Some(12.5)),
        ("1,234,567.5", Some(1_234_567.5)),
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
        let found = counts("<(.*)>", line.as_bytes());
        assert_eq!(found.first().copied(), expected, "{text}");
    }
    let endless = "9".repeat(400);
    assert!(counts("(.*)", endless.as_bytes()).is_empty());
}

#[test]
fn a_pattern_without_a_group_or_sense_is_refused() {
    for (text, expected) in [
        (
            r"\d+",
            r"`\d+` has no group: put parentheses around the count",
        ),
        (r"(?:\d+)", "has no group"),
        (r"step (\d+", "unclosed group"),
    ] {
        let error = Pattern::new(text).expect_err(text).to_string();
        assert!(error.contains(expected), "{error}");
    }
}
