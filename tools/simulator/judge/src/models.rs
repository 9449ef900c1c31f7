//! The boards that have a model, and the models' files.

use std::path::{Path, PathBuf};

/// The workload of all models.
pub const WORKLOAD: &str = "resnet18";

pub const ORIN_AGX: &str = "orin-agx-64";
pub const ORIN_NANO: &str = "orin-nano-8-super";
pub const XAVIER_AGX: &str = "xavier-agx";

/// All boards that have a model.
pub const BOARDS: [&str; 3] = [ORIN_AGX, ORIN_NANO, XAVIER_AGX];

/// The file of a board's model in the folder `weights`.
pub fn path(board: &str, weights: &Path) -> PathBuf {
    weights.join(format!("{board}-{WORKLOAD}.wgt"))
}
