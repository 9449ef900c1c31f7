//! From the teachers' predictions on the whole grid to the bytes of a model file.
//!
//! ```text
//! predictions ──► student ──► quantise ──► wgt ──► exported: guard bands
//! readings    ──► measured ──────────────────┘
//! ```

pub mod exported;
pub mod idle;
pub mod inputs;
pub mod measured;
pub mod quantise;
pub mod student;
mod time_spread;
pub mod wgt;
