//! The corpus file: rows that stay, and files that are refused.

use std::fs;
use std::path::Path;

use wattgate_profiler::row::{CorpusFile, Feeding, Mark, Origin, Row};
use wattgate_profiler::window::Measured;

/// The TPCs that the board of these rows gates.
const GATED: Option<u32> = Some(240);

/// Their unit.
const UNIT: &str = "8ff8117c";

fn row(gpu_khz: u32) -> Row {
    Row {
        device: "orin-agx-64".to_owned(),
        workload: "yolo, v8".to_owned(),
        tpc_pg_mask: GATED,
        unit: Some(UNIT.to_owned()),
        cores: 4,
        cpu_khz: 729_600,
        gpu_khz,
        emc_khz: 665_600,
        temperature_c: Some(41.5),
        peak_mw: 20_000.0,
        ..Row::default()
    }
}

fn measured(gpu_khz: u32) -> Row {
    let mut row = row(gpu_khz);
    row.measure(&Measured {
        steps: 34,
        end: std::time::Duration::from_millis(4_250),
        length: std::time::Duration::from_millis(1_512),
        time_ms: 44.470_588,
        fetch_ms: Some(4.25),
        compute_ms: None,
        items: Some(16),
        time_spread: Some(0.003_31),
        power_mw: 17_312.345,
        power_spread: Some(0.009_8),
    });
    row
}

fn open(path: &Path) -> Result<CorpusFile, String> {
    open_as(path, "orin-agx-64", "yolo, v8", GATED)
}

fn open_as(
    path: &Path,
    device: &str,
    workload: &str,
    gated: Option<u32>,
) -> Result<CorpusFile, String> {
    let origin = Origin {
        device,
        workload: Some(workload),
        tpc_pg_mask: gated,
        unit: Some(UNIT),
    };
    CorpusFile::open(path, &origin).map_err(|error| error.to_string())
}

#[test]
fn rows_are_read_back_by_the_next_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("corpus.csv");
    let mut marked = row(318_750);
    marked.mark = Some(Mark::OverLimit);
    marked.feed(Feeding {
        minibatch: Some(16),
        workers: Some(0),
        storage: Some("sd, old".to_owned()),
        epoch: Some(1),
    });
    let mut corpus = open(&path).expect("a new file");
    corpus.append(measured(306_000)).expect("written");
    drop(corpus);
    let mut corpus = open(&path).expect("the file");
    corpus.append(marked.clone()).expect("written");
    drop(corpus);
    assert_eq!(
        open(&path).expect("the file").rows,
        [measured(306_000), marked]
    );
    let text = fs::read_to_string(&path).expect("text");
    let header = "kind,device,workload,tpc_pg_mask,unit,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,fetch_ms,compute_ms,minibatch,workers,storage,epoch,steps,window_ms,end_s,\
                  time_spread_pct,power_spread_pct,temperature_c,delivered_cpu_khz,\
                  over_current,peak_mw,idle_mw,capped_time_ms,capped_power_mw,capped_idle_mw,mark";
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3);
    assert_eq!(lines[0], header);
    let line = "measured,orin-agx-64,\"yolo, v8\",240,8ff8117c,4,729600,306000,665600,44.4706,17312.3,4.25,,,,,,34,1512.0,4.25,0.33,0.98,\
                41.5,,0,20000.0,,,,,";
    assert_eq!(lines[1], line);
    assert!(
        lines[2].contains(",,,16,0,\"sd, old\",1,0,") && lines[2].ends_with("over_limit"),
        "{}",
        lines[2]
    );
}

#[test]
fn a_row_that_a_power_cut_broke_is_measured_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("corpus.csv");
    let mut corpus = open(&path).expect("a new file");
    corpus.append(measured(306_000)).expect("written");
    corpus.append(measured(408_000)).expect("written");
    let whole = fs::read(&path).expect("bytes");
    let second = whole.len() - 1;
    let first = whole[..second]
        .iter()
        .rposition(|byte| *byte == b'\n')
        .expect("a line")
        + 1;
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).expect("cut");
        let mut corpus = open(&path).unwrap_or_else(|error| panic!("{length}: {error}"));
        let complete = usize::from(length >= first);
        assert_eq!(corpus.rows.len(), complete, "after {length} bytes");
        corpus.append(measured(510_000)).expect("written");
        assert_eq!(open(&path).expect("the file").rows.len(), complete + 1);
    }
}

#[test]
fn a_file_of_another_workload_or_kind_is_refused_and_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("corpus.csv");
    open(&path)
        .expect("a new file")
        .append(measured(306_000))
        .expect("written");
    let before = fs::read(&path).expect("bytes");
    let error = open_as(&path, "orin-agx-64", "bert", GATED).expect_err("another workload");
    let text = format!(
        "{}: line 2 is of workload `yolo, v8`, expected `bert`; name another file with -o",
        path.display()
    );
    assert_eq!(error, text);
    let error = open_as(&path, "xavier-agx", "yolo, v8", GATED).expect_err("another board");
    let other_board = "line 2 is of board `orin-agx-64`, expected `xavier-agx`; name another file with -o, or move this one away";
    assert!(error.ends_with(other_board), "{error}");
    for (mask, expected) in [(Some(248), "`248`"), (None, "`none`")] {
        let error = open_as(&path, "orin-agx-64", "yolo, v8", mask).expect_err("other TPCs");
        let text = format!("line 2 is of TPC_PG_MASK `240`, expected {expected}; ");
        assert!(error.contains(&text), "{error}");
    }
    let of = |workload, unit| Origin {
        device: "orin-agx-64",
        workload,
        tpc_pg_mask: GATED,
        unit,
    };
    for (unit, expected) in [(Some("0badcafe"), "`0badcafe`"), (None, "`none`")] {
        let file = CorpusFile::open(&path, &of(Some("yolo, v8"), unit));
        let error = file.expect_err("another unit").to_string();
        let text = format!("line 2 is of unit `8ff8117c`, expected {expected}; ");
        assert!(error.contains(&text), "{error}");
    }
    // As long as the workload has told no name, any fits.
    CorpusFile::open(&path, &of(None, Some(UNIT))).expect("a corpus of the board");
    assert_eq!(fs::read(&path).expect("bytes"), before);
    for foreign in [
        "a note",
        "a note\n",
        "a,b\n1,2\n",
        "kind,device\n",
        "kind,device\nx,y",
    ] {
        fs::write(&path, foreign).expect("written");
        let error = open(&path).expect_err("no corpus");
        assert!(
            error.contains("the first line is not the header of a corpus of `wattgate profile`"),
            "{error}"
        );
        assert_eq!(fs::read_to_string(&path).expect("text"), foreign);
    }
}

/// The columns of the first version, those that came with the TPC mask, with the parts of a step, with the feeding, and with the
/// unit.
const OLDER: [&str; 5] = [
    "kind,device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,steps,window_ms,end_s,\
     time_spread_pct,power_spread_pct,temperature_c,delivered_cpu_khz,over_current,peak_mw,mark\n",
    "kind,device,workload,tpc_pg_mask,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,steps,window_ms,end_s,\
     time_spread_pct,power_spread_pct,temperature_c,delivered_cpu_khz,over_current,peak_mw,mark\n",
    "kind,device,workload,tpc_pg_mask,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,fetch_ms,compute_ms,\
     steps,window_ms,end_s,time_spread_pct,power_spread_pct,temperature_c,delivered_cpu_khz,over_current,\
     peak_mw,mark\n",
    "kind,device,workload,tpc_pg_mask,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,fetch_ms,compute_ms,\
     minibatch,workers,storage,epoch,steps,window_ms,end_s,time_spread_pct,power_spread_pct,temperature_c,\
     delivered_cpu_khz,over_current,peak_mw,mark\n",
    "kind,device,workload,tpc_pg_mask,unit,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,fetch_ms,compute_ms,\
     minibatch,workers,storage,epoch,steps,window_ms,end_s,time_spread_pct,power_spread_pct,temperature_c,\
     delivered_cpu_khz,over_current,peak_mw,mark\n",
];

/// A row of an earlier version, with the columns of a header.
fn older_row(header: &str) -> String {
    let mut fields = vec!["measured", "orin-agx-64", "\"yolo, v8\""];
    if header.contains("tpc_pg_mask") {
        fields.push("");
    }
    if header.contains(",unit,") {
        fields.push("8ff8117c");
    }
    fields.extend(["4", "729600", "408000", "665600", "44.4706", "17312.3"]);
    if header.contains("fetch_ms") {
        fields.extend(["4.25", ""]);
    }
    if header.contains("minibatch") {
        fields.extend(["16", "", "", ""]);
    }
    fields.extend([
        "34", "1512.0", "4.25", "0.33", "0.98", "41.5", "", "0", "20000.0", "",
    ]);
    fields.join(",") + "\n"
}

/// Shows a check the path of a file, and the header and a row of each earlier version.
fn each_older_version(check: impl Fn(&Path, &str, &str)) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("corpus.csv");
    for header in OLDER {
        check(&path, header, &older_row(header));
    }
}

/// A measured row of a board whose TPC mask is not known.
fn ungated(gpu_khz: u32) -> Row {
    Row {
        tpc_pg_mask: None,
        ..measured(gpu_khz)
    }
}

fn open_ungated(path: &Path) -> Result<CorpusFile, String> {
    open_as(path, "orin-agx-64", "yolo, v8", None)
}

#[test]
fn a_file_of_an_earlier_version_goes_on_with_its_columns() {
    each_older_version(|path, header, older| {
        let before = format!("{header}{older}");
        fs::write(path, &before).expect("written");
        let mut corpus = open_ungated(path).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(corpus.rows[0].time_ms, Some(44.4706));
        let mut row = ungated(306_000);
        let fed = Feeding {
            minibatch: Some(16),
            ..Feeding::default()
        };
        // What the workload tells is not kept; what the user states is not dropped in silence.
        row.feed(corpus.kept(fed.clone()));
        if header.contains("minibatch") {
            assert_eq!(row.feeding(), fed);
        } else {
            assert_eq!(row.feeding(), Feeding::default());
            let error = corpus.check(&fed).expect_err("no column").to_string();
            assert!(error.contains("name another file with -o"), "{error}");
        }
        corpus.check(&Feeding::default()).expect("nothing to keep");
        corpus.append(row).expect("written");
        let text = fs::read_to_string(path).expect("text");
        let expected = older.replace("408000", "306000");
        assert_eq!(text, format!("{before}{expected}"));
        assert_eq!(open_ungated(path).expect("the file").rows.len(), 2);
    });
}

#[test]
fn a_power_cut_breaks_no_file_of_an_earlier_version() {
    each_older_version(|path, header, older| {
        let whole = format!("{header}{older}{older}");
        for length in 0..whole.len() {
            fs::write(path, &whole[..length]).expect("cut");
            let mut corpus = open_ungated(path).unwrap_or_else(|error| panic!("{length}: {error}"));
            let complete = usize::from(length >= header.len() + older.len());
            assert_eq!(corpus.rows.len(), complete, "after {length} bytes");
            corpus.append(ungated(510_000)).expect("written");
            let rows = open_ungated(path).expect("the file").rows;
            assert_eq!(rows.len(), complete + 1, "after {length} bytes");
        }
    });
}

#[test]
fn columns_in_another_order_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("corpus.csv");
    let other = OLDER[0].replace("kind,device", "device,kind");
    fs::write(&path, &other).expect("written");
    let error = open(&path).expect_err("another order");
    assert!(error.contains("the first line is not"), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("text"), other);
}
