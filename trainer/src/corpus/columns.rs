//! The columns of a corpus file, and where they are in a row.

use std::io::Read;

use wattgate_cli::delimited::columns::Layout;
use wattgate_cli::delimited::{FileError, Table};

/// The required columns.
pub const COLUMNS: [&str; 8] = [
    "device", "workload", "cores", "cpu_khz", "gpu_khz", "emc_khz", "time_ms", "power_mw",
];

/// The columns that may be absent. The `mark` says why `wattgate profile` has no measurement in a row.
pub const OPTIONAL_COLUMNS: [&str; 11] = [
    "kind",
    "tpc_pg_mask",
    "minibatch",
    "workers",
    "storage",
    "epoch",
    "fetch_ms",
    "compute_ms",
    "unit",
    "idle_mw",
    "mark",
];

/// The columns of a corpus.
pub static LAYOUT: Layout = Layout {
    what: "a corpus",
    columns: &COLUMNS,
    optional: &OPTIONAL_COLUMNS,
    has_blank_knobs: true,
    ..Layout::NONE
};

/// The places of the columns in a row.
pub struct Columns {
    /// Those of [`COLUMNS`].
    pub required: [usize; COLUMNS.len()],
    /// Those of [`OPTIONAL_COLUMNS`].
    pub optional: [Option<usize>; OPTIONAL_COLUMNS.len()],
}

impl Columns {
    /// Finds the columns in the header.
    pub fn find<R: Read>(table: &Table<R>) -> Result<Self, FileError> {
        let mut optional = [None; OPTIONAL_COLUMNS.len()];
        let required = table.places(COLUMNS)?;
        for (place, name) in optional.iter_mut().zip(OPTIONAL_COLUMNS) {
            *place = table.optional(name)?;
        }
        Ok(Self { required, optional })
    }
}
