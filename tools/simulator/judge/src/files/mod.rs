//! The files that the program reads, each in any dialect of [`wattgate_cli::delimited`]: corpora of real boards, loads, traces
//! of the true power, and the kernel calls of a network. The simulated board reads none: it depends on no part of the product.

pub mod corpus;
pub mod load;
pub mod network;
pub mod trace;

use std::fs::File;
use std::path::Path;

use wattgate_cli::delimited::columns::Layout;
use wattgate_cli::delimited::{FileError, Table};

/// Opens a file and reads its header.
pub fn open(path: &Path, layout: &'static Layout) -> Result<Table<File>, FileError> {
    let file = File::open(path).map_err(|source| FileError::Io {
        path: path.to_owned(),
        source,
    })?;
    Table::open(path, file, layout)
}
