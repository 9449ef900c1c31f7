//! The families of corpora that teach the priors: four measured ones and the simulated one.

use std::path::Path;

use indicatif::ProgressBar;
use wattgate_board_tables::Board;
use wattgate_simulated_board::corpus::{Modes, csv};
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::Workload;
use wattgate_trainer::read::{Corpus, CorpusError};

/// The measured families with the files of each.
pub const MEASURED: [(&str, &[&str]); 4] = [
    ("TX1 image", &["tx1__image5000__translucence"]),
    ("TX2 image", &["tx2__image5000__translucence"]),
    (
        "TX2 Inception",
        &[
            "tx2__inceptionv3-200x200__flexibo",
            "tx2__inceptionv3-400x400__flexibo",
            "tx2__inceptionv3-600x600__flexibo",
            "tx2__inceptionv3-800x800__flexibo",
        ],
    ),
    (
        "TX2 Xception",
        &[
            "tx2__xception-200x200__flexibo",
            "tx2__xception-600x600__flexibo",
            "tx2__xception-800x800__flexibo",
        ],
    ),
];

/// Boards and workloads of the simulated family. No test of the trainer scores these workloads.
const SIMULATED: ([&str; 3], [&str; 3]) = (
    ["orin-agx-64", "orin-nano-8-super", "xavier-agx"],
    ["lstm", "vgg11", "lenet"],
);

/// Random modes of each simulated corpus.
const SIMULATED_MODES: usize = 400;

/// Reads `NAME.csv` of a folder.
pub fn read(folder: &Path, name: &str) -> Result<Corpus, CorpusError> {
    Corpus::read(&folder.join(format!("{name}.csv")), &ProgressBar::hidden())
}

/// All families with their names, the simulated one last.
pub fn all(folder: &Path) -> Result<Vec<(&'static str, Vec<Corpus>)>, CorpusError> {
    let mut families = Vec::new();
    for (family, names) in MEASURED {
        let corpora: Result<Vec<Corpus>, CorpusError> =
            names.iter().map(|name| read(folder, name)).collect();
        families.push((family, corpora?));
    }
    families.push(("simulated", simulated()?));
    Ok(families)
}

fn simulated() -> Result<Vec<Corpus>, CorpusError> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (boards, workloads) = SIMULATED;
    let mut corpora = Vec::new();
    for board in boards {
        let board = Board::named(board).expect("a known board");
        for workload in workloads {
            let workload = Workload::named(workload).expect("a shipped workload");
            let modes = Modes::Random(SIMULATED_MODES)
                .select(&board, 1)
                .expect("modes");
            let profiles = Profiler::new(&board, Unit::NOMINAL, &workload, 1).profile_all(&modes);
            let name = format!("{}-{}", board.name, workload.name);
            let path = folder.path().join(format!("{name}.csv"));
            std::fs::write(path, csv(&board, &Unit::NOMINAL, &workload, &profiles))
                .expect("room for a corpus");
            corpora.push(read(folder.path(), &name)?);
        }
    }
    Ok(corpora)
}
