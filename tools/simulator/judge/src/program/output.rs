//! Printing to the standard output.

use std::io::{self, Write};

use crate::failure::Failure;

/// Prints a text.
pub fn print(text: &str) -> Result<(), Failure> {
    Ok(io::stdout().lock().write_all(text.as_bytes())?)
}

/// Prints JSON and ends the line.
pub fn print_json(json: serde_json::Result<String>) -> Result<(), Failure> {
    let json = json.map_err(io::Error::from)?;
    print(&format!("{json}\n"))
}
