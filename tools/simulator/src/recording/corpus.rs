//! The corpus of a real board as plain data: the rows of one workload that have a time and a power.

/// The columns of the four knobs.
pub const KNOBS: [&str; 4] = ["cores", "cpu_khz", "gpu_khz", "emc_khz"];

/// A row of the workload, with what is stated of its knobs.
#[derive(Clone, Debug)]
pub struct Row {
    /// The line of its file, for messages.
    pub line: u64,
    pub knobs: [Option<u32>; 4],
    pub time_ms: f64,
    pub power_mw: f64,
}

/// The rows of one workload.
#[derive(Clone, Debug)]
pub struct Corpus {
    pub device: String,
    pub workload: String,
    /// Samples in a minibatch, where the corpus states one number.
    pub minibatch: Option<u32>,
    /// At least one. A knob is stated in all of them or in none.
    pub rows: Vec<Row>,
    /// Number of rows that have no time or no power.
    pub left_out: usize,
}
