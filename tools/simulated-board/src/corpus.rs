//! Corpora of the simulated board: the common CSV, with the kind `simulated` in every row.

use std::fmt::Write;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use thiserror::Error;

use crate::profile::Profile;
use crate::workload::Workload;
use wattgate_board_tables::Board;

/// Which modes are profiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Modes {
    /// Those of the papers.
    Papers,
    /// Every mode of the board.
    All,
    /// So many, drawn from every mode of the board.
    Random(usize),
}

/// Why there are no such modes.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ModesError {
    /// No paper profiled this board.
    #[error("no paper profiled `{board}`; take all or random:N modes")]
    NoPaper { board: String },
    /// More modes than the board has, or none.
    #[error("cannot profile {asked} modes: `{board}` has {available}")]
    OutOfRange {
        board: String,
        asked: usize,
        available: usize,
    },
}

impl Modes {
    /// The modes of a board, by ascending knobs.
    pub fn of(self, board: &Board, seed: u64) -> Result<Vec<[u32; 4]>, ModesError> {
        let number = match self {
            Self::All => return Ok(board.all_modes()),
            Self::Random(number) => number,
            Self::Papers => match board.papers.as_ref().map(|papers| papers.random) {
                Some(Some(number)) => number,
                Some(None) => return Ok(board.papers_modes()),
                None => {
                    return Err(ModesError::NoPaper {
                        board: board.name.clone(),
                    });
                }
            },
        };
        let mut modes = board.all_modes();
        if !(1..=modes.len()).contains(&number) {
            return Err(ModesError::OutOfRange {
                board: board.name.clone(),
                asked: number,
                available: modes.len(),
            });
        }
        modes.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
        modes.truncate(number);
        modes.sort_unstable();
        Ok(modes)
    }
}

/// The text of a corpus.
pub fn csv(board: &Board, workload: &Workload, profiles: &[Profile]) -> String {
    let mut text = String::from(
        "device,workload,cores,cpu_khz,gpu_khz,emc_khz,time_ms,power_mw,kind,minibatch\n",
    );
    for profile in profiles {
        let [cores, cpu, gpu, emc] = profile.knobs;
        writeln!(
            text,
            "{},{},{cores},{cpu},{gpu},{emc},{:.4},{:.1},simulated,{}",
            board.name, workload.name, profile.time_ms, profile.power_mw, workload.minibatch
        )
        .expect("a string takes all text");
    }
    text
}
