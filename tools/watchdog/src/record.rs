//! The record of what a daemon that writes nothing to the board has observed: a file of lines, one for each minute, of
//! which the oldest go. `wattgate probe` takes it along.
//!
//! Lines are appended without a sync. Nothing is controlled meanwhile, so a disk that is slow does no harm.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use wattgate_runtime::{Milliwatts, PowerMode};

use crate::clock::UtcSeconds;
use crate::config::STATE_DIR;
use crate::observer::Row;
use crate::replace::replace;

/// Name of the file in the folder of the saved state.
const FILE: &str = "observed.csv";

/// Columns of the file. A value that is not known is blank.
pub const COLUMNS: &str = "time_s,passed_ms,mean_mw,highest_mw,over_ms,unknown_ms,limit_mw,gpu_permille,cores,cpu_khz,gpu_khz,emc_khz,\
                           would_cores,would_cpu_khz,would_gpu_khz,would_emc_khz,would_mw";

/// Maximum size of the file in bytes: a probe takes texts of at most 64 KiB. When it is full, the older half goes. A line
/// has about 100 bytes, so it has the last five to ten hours.
const MAX_BYTES: usize = 60_000;

/// The file below `root`.
pub fn file(root: &Path) -> PathBuf {
    let folder = STATE_DIR.trim_start_matches('/');
    root.join(folder).join(FILE)
}

/// Appends a row that ended at a time.
pub fn append(path: &Path, row: &Row, at: UtcSeconds) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let before = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(why) if why.kind() == io::ErrorKind::NotFound => String::new(),
        Err(why) => return Err(why),
    };
    let line = line(row, at);
    // After a power loss the last line may be a part of one.
    let is_whole = before.starts_with(COLUMNS) && before.ends_with('\n');
    if is_whole && before.len() + line.len() <= MAX_BYTES {
        let mut file = File::options().append(true).mode(0o600).open(path)?;
        return file.write_all(line.as_bytes());
    }
    let mut kept = format!("{COLUMNS}\n");
    let lines = before.lines().skip(1).filter(|line| is_row(line));
    let lines: Vec<&str> = lines.collect();
    let first = match before.len() + line.len() > MAX_BYTES {
        true => lines.len() / 2,
        false => 0,
    };
    for line in &lines[first..] {
        kept.push_str(line);
        kept.push('\n');
    }
    kept.push_str(&line);
    replace(path, &path.with_extension("new"), 0o600, kept.as_bytes())
}

fn is_row(line: &str) -> bool {
    let is_part = |byte: u8| byte == b',' || byte.is_ascii_digit();
    line.bytes().all(is_part) && line.split(',').count() == COLUMNS.split(',').count()
}

fn line(row: &Row, at: UtcSeconds) -> String {
    let number = |value: Option<u64>| value.map(|it| it.to_string()).unwrap_or_default();
    let milliwatts = |power: Option<Milliwatts>| number(power.map(|it| u64::from(it.0)));
    let mode = |mode: Option<PowerMode>| match mode {
        Some(mode) => mode.knobs().map(|it| it.to_string()).join(","),
        None => ",,,".to_owned(),
    };
    let time = at
        .is_set()
        .then_some(at.0)
        .and_then(|it| u64::try_from(it).ok());
    [
        number(time),
        number(Some(row.passed.0)),
        milliwatts(Some(row.mean)),
        milliwatts(row.highest),
        number(Some(row.over.0)),
        number(Some(row.unknown.0)),
        milliwatts(Some(row.limit)),
        number(row.gpu_load.map(u64::from)),
        mode(row.mode),
        mode(row.would.map(|it| it.mode)),
        milliwatts(row.would.map(|it| it.power)),
    ]
    .join(",")
        + "\n"
}

#[cfg(test)]
mod tests {
    use wattgate_runtime::Milliseconds;

    use super::*;
    use crate::observer::Would;

    const ROW: Row = Row {
        passed: Milliseconds(60_000),
        mean: Milliwatts(21_000),
        highest: Some(Milliwatts(23_500)),
        over: Milliseconds(41_000),
        unknown: Milliseconds(0),
        limit: Milliwatts(20_000),
        gpu_load: Some(970),
        mode: None,
        would: None,
    };
    const AT: UtcSeconds = UtcSeconds(1_800_000_000);

    #[test]
    fn a_row_has_a_value_for_each_column() {
        let knobs = [8, 1_728_000, 918_000, 3_199_000];
        let full = Row {
            mode: Some(PowerMode::from_knobs(knobs)),
            would: Some(Would {
                mode: PowerMode::from_knobs(knobs),
                power: Milliwatts(18_200),
                speed: Some(0.8),
                is_over: false,
            }),
            ..ROW
        };
        assert_eq!(
            line(&full, AT),
            "1800000000,60000,21000,23500,41000,0,20000,970,8,1728000,918000,3199000,8,1728000,918000,3199000,18200\n"
        );
        let unset = UtcSeconds(0);
        assert_eq!(
            line(&ROW, unset),
            ",60000,21000,23500,41000,0,20000,970,,,,,,,,,\n"
        );
        for text in [line(&full, AT), line(&ROW, unset)] {
            assert!(is_row(text.trim_end()), "{text}");
        }
    }

    #[test]
    fn the_file_is_bounded_and_keeps_the_newest_rows() {
        let root = tempfile::tempdir().expect("a folder");
        let path = file(root.path());
        for minute in 0..3_000 {
            append(&path, &ROW, UtcSeconds(AT.0 + 60 * minute)).expect("appended");
            let length = fs::metadata(&path).expect("there").len();
            assert!(length <= MAX_BYTES as u64, "{length}");
        }
        let text = fs::read_to_string(&path).expect("there");
        let times = text.lines().skip(1);
        let times = times.map(|line| line.split(',').next().expect("a time"));
        let times: Vec<i64> = times.map(|it| it.parse().expect("a number")).collect();
        assert!(times.len() > 300, "{}", times.len());
        let newest = AT.0 + 60 * 2_999;
        let expected = (0..times.len() as i64).rev().map(|it| newest - 60 * it);
        assert!(times.into_iter().eq(expected));
    }

    #[test]
    fn what_a_power_loss_left_is_no_row() {
        let root = tempfile::tempdir().expect("a folder");
        let path = file(root.path());
        append(&path, &ROW, AT).expect("appended");
        let whole = fs::read_to_string(&path).expect("there");
        let row = whole.lines().nth(1).expect("a row");
        let cut = row.rsplit_once(',').expect("columns").0;
        for (before, rows) in [
            ("", 1),
            ("\0\0\0\n", 1),
            (&*format!("{whole}180000"), 2),
            (&*format!("{whole}{cut}"), 2),
        ] {
            fs::write(&path, before).expect("written");
            append(&path, &ROW, AT).expect("appended");
            let text = fs::read_to_string(&path).expect("there");
            assert!(text.starts_with(COLUMNS) && text.ends_with('\n'), "{text}");
            assert_eq!(text.lines().count(), 1 + rows, "{before}");
            assert!(text.lines().skip(1).all(is_row), "{text}");
        }
    }
}
