//! The file format, and what becomes of defective files.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use wattgate_probe::format::{
    Access, Content, Directory, Fault, File, Header, Link, Names, Owner, Probe, Sample,
};
use wattgate_probe::recorded::Recorded;
use wattgate_probe::summary::Summary;

const HEADER: &str = r#"{"version":1,"wattgate":"0.1.0","l4t":"36.4.3","kernel":"5.15.148-tegra"}"#;

/// A probe with a record of each kind.
fn probe() -> Probe {
    let file = |path: &str, content, access| File {
        path: path.to_owned(),
        content,
        access,
        median_us: 12,
        max_us: 345,
    };
    let root = Access {
        mode: 0o644,
        user: Owner::Root,
        group: Owner::Other,
    };
    Probe {
        header: serde_json::from_str::<Header>(HEADER).expect("a header"),
        directories: vec![
            Directory {
                path: "/sys/class/hwmon".to_owned(),
                names: Names::Listed(vec!["hwmon0".to_owned()]),
            },
            Directory {
                path: "/sys/kernel/debug".to_owned(),
                names: Names::Fault(Fault::Errno(13)),
            },
        ],
        links: vec![Link {
            path: "/sys/class/hwmon/hwmon0".to_owned(),
            target: "/sys/devices/hwmon0".to_owned(),
        }],
        files: vec![
            file(
                "/sys/devices/hwmon0/in1_input",
                Content::Text("19800\n".to_owned()),
                Some(root),
            ),
            file("/sys/b", Content::Fault(Fault::Errno(5)), None),
            file("/sys/c", Content::Fault(Fault::NotUtf8), None),
        ],
        sensors: vec!["/sys/devices/hwmon0/in1_input".to_owned()],
        samples: vec![
            Sample {
                time_us: 0,
                values: vec![Some(19_800)],
            },
            Sample {
                time_us: 50_000,
                values: vec![None],
            },
        ],
    }
}

/// The lines of [`probe`] as the README shows them.
const LINES: &str = r#"{"version":1,"wattgate":"0.1.0","l4t":"36.4.3","kernel":"5.15.148-tegra"}
{"directory":{"path":"/sys/class/hwmon","names":{"listed":["hwmon0"]}}}
{"directory":{"path":"/sys/kernel/debug","names":{"fault":{"errno":13}}}}
{"link":{"path":"/sys/class/hwmon/hwmon0","target":"/sys/devices/hwmon0"}}
{"file":{"path":"/sys/devices/hwmon0/in1_input","content":{"text":"19800\n"},"access":{"mode":420,"user":"root","group":"other"},"median_us":12,"max_us":345}}
{"file":{"path":"/sys/b","content":{"fault":{"errno":5}},"access":null,"median_us":12,"max_us":345}}
{"file":{"path":"/sys/c","content":{"fault":"not_utf8"},"access":null,"median_us":12,"max_us":345}}
{"sensors":["/sys/devices/hwmon0/in1_input"]}
{"sample":{"time_us":0,"values":[19800]}}
{"sample":{"time_us":50000,"values":[null]}}
{"end":9}
"#;

fn packed(text: impl AsRef<[u8]>) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(text.as_ref()).expect("in memory");
    packed.finish().expect("in memory")
}

/// The error of reading these lines after a header.
fn error_of(lines: &str) -> String {
    let bytes = packed(format!("{HEADER}\n{lines}\n"));
    Probe::read(&*bytes).expect_err(lines).to_string()
}

#[test]
fn the_format_is_stable() {
    let bytes = probe().to_bytes().expect("in memory");
    let mut text = String::new();
    let mut unpacked = flate2::read::GzDecoder::new(&*bytes);
    std::io::Read::read_to_string(&mut unpacked, &mut text).expect("text");
    assert_eq!(text, LINES);
    assert_eq!(Probe::read(&*packed(LINES)).expect("a probe"), probe());
}

#[test]
fn a_file_that_is_no_probe_is_refused_by_name() {
    let read = |bytes: &[u8]| Probe::read(bytes).expect_err("no probe").to_string();
    assert_eq!(
        read(b""),
        "no probe: expected a gzip file, as `wattgate probe` writes it"
    );
    assert_eq!(
        read(LINES.as_bytes()),
        "no probe: expected a gzip file, as `wattgate probe` writes it"
    );
    let no_header =
        "no probe: line 1 is not a header with a version; name a file of `wattgate probe`";
    assert_eq!(read(&packed("")), no_header);
    assert_eq!(read(&packed("hello\n")), no_header);
    assert_eq!(read(&packed("{\"end\":0}\n")), no_header);
    assert_eq!(
        read(&packed(r#"{"version":2,"board":"new"}"#)),
        "version 2 of the format, expected 1; install the wattgate of that release, or a later one"
    );
}

#[test]
fn a_truncated_or_damaged_file_is_refused_by_name() {
    let whole = probe().to_bytes().expect("in memory");
    for length in 2..whole.len() {
        let error = Probe::read(&whole[..length]).expect_err("truncated");
        assert_eq!(
            error.to_string(),
            "truncated; copy the probe again",
            "{length}"
        );
    }
    // The check sum is in the last bytes but four.
    let mut damaged = whole.clone();
    damaged[whole.len() - 8] ^= 1;
    let error = Probe::read(&*damaged).expect_err("damaged").to_string();
    assert!(error.starts_with("damaged: "), "{error}");
}

#[test]
fn defects_are_named_with_their_lines() {
    let cases = [
        (r#"{"photo":{}}"#, "line 2: unknown variant `photo`"),
        (
            r#"{"link":{"path":"/a"}}"#,
            "line 2: missing field `target`",
        ),
        (r#"{"end":0}{}"#, "line 2: trailing characters"),
        (
            r#"{"link":{"path":"/a/../b","target":"/c"}}"#,
            "line 2: bad path `/a/../b`",
        ),
        (
            r#"{"link":{"path":"/a","target":"c"}}"#,
            "line 2: bad path `c`",
        ),
        (
            r#"{"directory":{"path":"/a","names":{"listed":["b/c"]}}}"#,
            "line 2: bad path `b/c`",
        ),
        (r#"{"sensors":["/a//b"]}"#, "line 2: bad path `/a//b`"),
        (
            r#"{"sample":{"time_us":0,"values":[1]}}"#,
            "line 2: 1 values, expected 0",
        ),
        (
            "{\"sample\":{\"time_us\":5,\"values\":[]}}\n{\"sample\":{\"time_us\":5,\"values\":[]}}",
            "line 3: the time is not later than the one before",
        ),
        (
            "{\"link\":{\"path\":\"/a\",\"target\":\"/b\"}}\n{\"link\":{\"path\":\"/a\",\"target\":\"/c\"}}",
            "line 3: duplicate path /a",
        ),
        (
            "{\"sensors\":[\"/a\"]}\n{\"sensors\":[\"/a\",\"/b\"]}",
            "line 3: sensors again",
        ),
        (
            "{\"sample\":{\"time_us\":5,\"values\":[]}}\n{\"sensors\":[\"/a\"]}",
            "line 3: sensors again",
        ),
        (r#"{"end":1}"#, "incomplete: the last line"),
        ("{\"end\":0}\n{\"end\":0}", "incomplete: the last line"),
        (r#"{"sensors":[]}"#, "incomplete: the last line"),
    ];
    for (lines, expected) in cases {
        let error = error_of(lines);
        assert!(error.starts_with(expected), "{lines}: {error}");
    }
}

#[test]
fn a_decompression_bomb_is_refused_before_it_fills_the_memory() {
    // 40 MiB in less than 1 MiB, as one line and as many.
    let zeros = vec![b'0'; 40 << 20];
    let bytes = packed(&zeros);
    assert!(bytes.len() < 1 << 20);
    let error = Probe::read(&*bytes).expect_err("too large").to_string();
    assert_eq!(
        error,
        "too large for a probe; name a file of `wattgate probe`"
    );
    let sensors = format!("{HEADER}\n{}", "{\"sensors\":[]}\n".repeat(3 << 20));
    let error = Probe::read(&*packed(sensors))
        .expect_err("too large")
        .to_string();
    assert_eq!(
        error,
        "too large for a probe; name a file of `wattgate probe`"
    );
}

#[test]
fn a_huge_file_is_refused_unread() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(1 << 40).expect("a sparse file");
    let error = Probe::open(file.path()).expect_err("too large").to_string();
    let path = file.path().display();
    assert_eq!(
        error,
        format!("{path}: too large for a probe; name a file of `wattgate probe`")
    );
}

/// Reads and writes all files, and discovers the board.
fn serve(probe: Probe) {
    let mut files = Recorded::new(probe);
    let paths = files.paths().chain(files.sensors());
    let paths: Vec<String> = paths.map(str::to_owned).collect();
    for path in paths {
        files.set_now(Duration::from_millis(50));
        // An error is as good.
        let _ = (files.text(&path), files.put(&path, "1\n"));
    }
    let _ = Summary::discover(&mut files, Path::new("/"));
}

proptest! {
    /// Neither reading nor serving panics, whatever the lines.
    #[test]
    fn any_change_of_the_lines_is_read_or_refused(
        place in 0..LINES.len(),
        length in 0..40_usize,
        text in "[ -~]{0,12}",
    ) {
        let end = (place + length).min(LINES.len());
        let changed = format!("{}{text}{}", &LINES[..place], &LINES[end..]);
        if let Ok(probe) = Probe::read(&*packed(changed)) {
            let again = probe.to_bytes().expect("in memory");
            prop_assert_eq!(&Probe::read(&*again).expect("a probe"), &probe);
            serve(probe);
        }
    }

    /// Reading never panics, whatever the bytes.
    #[test]
    fn any_change_of_the_bytes_is_refused(place in 10_usize.., bit in 0..8) {
        let mut bytes = probe().to_bytes().expect("in memory");
        let place = place % bytes.len();
        bytes[place] ^= 1_u8 << bit;
        // The header of gzip has fields that do not matter.
        if let Ok(found) = Probe::read(&*bytes) {
            prop_assert_eq!(found, probe());
        }
    }
}
