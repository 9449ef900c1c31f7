//! Where the counts of steps come from.
//!
//! | source | module |
//! |---|---|
//! | datagrams of the workload, from one process or several | [`socket`] |
//! | the daemon, which takes the datagrams | [`relay`] |
//! | lines of its output or of its log file | [`output`] |
//! | what a line is | [`lines`] |
//! | what a line says | [`pattern`] |
//! | the steps since the start | [`tally`] |

pub mod lines;
pub mod output;
pub mod pattern;
pub mod relay;
pub mod socket;
pub mod tally;
