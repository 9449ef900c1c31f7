//! From the teachers' predictions on the whole grid to the bytes of a model file.
//!
//! ```text
//! predictions ──► student ──► quantise ──► wgt ──► exported: guard bands
//! ```

pub mod exported;
pub mod inputs;
pub mod quantise;
pub mod student;
pub mod wgt;
