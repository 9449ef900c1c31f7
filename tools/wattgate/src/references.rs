//! What a model is transferred from where the user names no reference.

use std::fs;
use std::path::Path;

use wattgate_cli::planning::MOST_REFERENCES;
use wattgate_runtime::Model;
use wattgate_runtime::format::Kind;

/// The folder of the packaged references.
const PACKAGED: &str = "/usr/share/wattgate/references";

/// The largest file that is read. Models have 1 to 2 KiB.
const LARGEST_FILE: u64 = 65_536;

/// What a model must have in common with the workload to come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Board<'a> {
    /// The name of the board.
    pub device: &'a str,
    /// How it is measured.
    pub kind: Kind,
    /// The TPCs of the GPU that are gated, one bit each.
    pub tpc_pg_mask: Option<u32>,
}

/// Models of other workloads on this board in the folder `models`, the latest first, and at most as many as a
/// planner takes. Without any, the packaged reference of the board if there is one. A model of the same workload is
/// no reference, since the measurements of a corpus that is continued may be in it already.
pub fn references(models: &Path, own_board: &Board<'_>, workload: &str) -> Vec<String> {
    let earlier = earlier(models, own_board, workload);
    if !earlier.is_empty() {
        return earlier;
    }
    let packaged = format!("{PACKAGED}/{}.wgt", own_board.device);
    let path = Path::new(&packaged);
    let is_same =
        |(board, name): (Board<'_>, &str)| board.kind == own_board.kind && name == workload;
    // The planner says what is wrong with a file that cannot be read.
    let is_reference = path.exists() && judge(path, is_same) != Some(true);
    is_reference.then_some(packaged).into_iter().collect()
}

fn earlier(models: &Path, own_board: &Board<'_>, workload: &str) -> Vec<String> {
    // A folder that cannot be read has no model for the planner either.
    let files = fs::read_dir(models).into_iter().flatten().flatten();
    let is_reference = |(board, name): (Board<'_>, &str)| board == *own_board && name != workload;
    let of_board = files.filter_map(|file| {
        let path = file.path();
        let modified = fs::metadata(&path)
            .and_then(|about| about.modified())
            .ok()?;
        judge(&path, is_reference)?.then_some((modified, path.to_str()?.to_owned()))
    });
    let mut of_board: Vec<_> = of_board.collect();
    of_board.sort_unstable_by(|a, b| b.cmp(a));
    let files = of_board.into_iter().map(|(_, path)| path);
    files.take(MOST_REFERENCES).collect()
}

/// Judges a model file by its board and workload; `None` if it is none.
fn judge(path: &Path, by: impl Fn((Board<'_>, &str)) -> bool) -> Option<bool> {
    let about = fs::metadata(path).ok()?;
    if path.extension()? != "wgt" || !about.is_file() || about.len() > LARGEST_FILE {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let model = Model::parse(&bytes).ok()?;
    let provenance = model.provenance().ok()?;
    let board = Board {
        device: provenance.device,
        kind: provenance.kind,
        tpc_pg_mask: model.tpc_pg_mask().ok()?,
    };
    Some(by((board, provenance.workload)))
}
