//! `plan --output`: a corpus with rows to fill in.

use std::path::Path;

use csv::{StringRecord, WriterBuilder};
use wattgate_cli::delimited::Table;

use crate::corpus::fed::Feeding;
use crate::corpus::{AXIS_COLUMNS, COLUMNS, LAYOUT};

/// What all rows of a corpus share.
pub struct Names<'a> {
    /// The board.
    pub device: &'a str,
    /// The workload.
    pub workload: &'a str,
    /// `measured`, `simulated` or `recorded`.
    pub kind: &'a str,
    /// How the workload is fed.
    pub feeding: Feeding,
}

/// The text of a corpus with further rows that have a mode, but no time and power. The text before
/// stays as it is; if it is empty, a header is written first.
pub fn with_rows(before: &str, names: &Names<'_>, modes: &[[u32; 4]]) -> csv::Result<String> {
    // A text without a header was refused when it was read as a corpus.
    let table = Table::open(Path::new(""), before.as_bytes(), &LAYOUT).ok();
    let header = match &table {
        Some(table) => table.header().map(String::from_utf8_lossy).collect(),
        None => StringRecord::from(COLUMNS.to_vec()),
    };
    let mut start = before.to_owned();
    if !(modes.is_empty() || start.is_empty() || start.ends_with('\n')) {
        start.push('\n');
    }
    let mut writer = WriterBuilder::new();
    if let Some(table) = &table {
        writer.delimiter(table.delimiter());
    }
    let mut writer = writer.from_writer(start.into_bytes());
    if before.is_empty() {
        writer.write_record(&header)?;
    }
    let number = |value: Option<u32>| value.map_or(String::new(), |number| number.to_string());
    for mode in modes {
        let field = |column: &str| match column {
            "device" => names.device.to_owned(),
            "workload" => names.workload.to_owned(),
            "kind" => names.kind.to_owned(),
            "minibatch" => number(names.feeding.minibatch),
            "workers" => number(names.feeding.workers),
            "storage" => names.feeding.storage.clone().unwrap_or_default(),
            "epoch" => number(names.feeding.epoch),
            column => {
                let axis = AXIS_COLUMNS.iter().position(|name| *name == column);
                axis.map_or(String::new(), |axis| mode[axis].to_string())
            }
        };
        writer.write_record(header.iter().map(field))?;
    }
    let text = writer.into_inner().expect("a vector takes all bytes");
    Ok(String::from_utf8(text).expect("fields and the text before are UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names<'_> = Names {
        device: "board",
        workload: "a, b",
        kind: "simulated",
        feeding: Feeding {
            minibatch: Some(16),
            workers: Some(4),
            storage: None,
            epoch: None,
        },
    };

    #[test]
    fn a_new_file_gets_a_header() {
        let text = with_rows("", &NAMES, &[[1, 2, 3, 4]]).expect("a text");
        let header = "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw";
        assert_eq!(text, format!("{header}\nboard,\"a, b\",1,2,3,4,,\n"));
    }

    #[test]
    fn rows_follow_the_columns_of_the_file_and_leave_its_text() {
        let before = "power_mw, emc_khz ,workers,kind,note,minibatch,gpu_khz,cpu_khz,cores,workload,device,time_ms\n\
            7.50,4,4,simulated,\"x\",16,3,2,1,\"a, b\",board,9";
        let text = with_rows(before, &NAMES, &[[5, 6, 7, 8]]).expect("a text");
        let row = ",8,4,simulated,,16,7,6,5,\"a, b\",board,";
        assert_eq!(text, format!("{before}\n{row}\n"));
    }

    #[test]
    fn rows_have_the_delimiter_of_the_file() {
        let before = "# by hand\ndevice;workload;cores;cpu_khz;gpu_khz;emc_khz;time_ms;power_mw\n";
        let text = with_rows(before, &NAMES, &[[1, 2, 3, 4]]).expect("a text");
        assert_eq!(text, format!("{before}board;a, b;1;2;3;4;;\n"));
    }
}
