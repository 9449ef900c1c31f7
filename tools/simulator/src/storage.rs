//! Storage of a data set, the page cache that keeps what was read, and the memory that a training
//! leaves to it.
//!
//! In the first epoch every sample comes from the storage. Later ones read what the page cache does
//! not hold. A read waits for the latency of its storage and for the transfer; the waits of several
//! workers overlap as far as the storage serves requests at once.
//!
//! The module's power rails do not feed the storage, and Characterizing (section 5.2) found no direct
//! effect of it on energy. So reading draws no power here.

use wattgate_board_tables::Board;

use crate::workload::{Reading, Workload, WorkloadError};

/// Memory of system, desktop and logging, in MB: assumed.
const SYSTEM_MB: f64 = 1_200.0;

/// MB in a GiB.
const MB_PER_GIB: f64 = 1_073.741_824;

/// A kind of storage.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Storage {
    /// Name on the command line and in the column `storage` of a corpus.
    pub name: &'static str,
    /// Sequential read throughput in MB/s, from the data sheets that Characterizing names
    /// (section 4.1).
    pub mb_per_s: f64,
    /// Latency of a random read in ms. Only its excess over that of the SSD is known: it is fitted to
    /// the stalls of MobileNet's first epoch (section 5.2.1). That of the SSD is assumed.
    pub latency_ms: f64,
    /// Requests that are served at once. That of the HDD is fitted to the stalls of MobileNet's
    /// first epoch with four workers (section 5.1.1); the others are assumed.
    pub at_once: f64,
}

/// The kinds of storage of Characterizing.
pub const STORAGES: [Storage; 3] = [
    Storage {
        name: "ssd",
        mb_per_s: 3_500.0,
        latency_ms: 0.1,
        at_once: 32.0,
    },
    Storage {
        name: "hdd",
        mb_per_s: 1_050.0,
        latency_ms: 18.8,
        at_once: 1.385,
    },
    Storage {
        name: "sd",
        mb_per_s: 100.0,
        latency_ms: 6.67,
        at_once: 2.0,
    },
];

/// The storage of a name.
pub fn storage(name: &str) -> Option<Storage> {
    STORAGES.into_iter().find(|storage| storage.name == name)
}

/// Whether the page cache has been filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Epoch {
    /// The first epoch: the page cache is empty.
    First,
    /// A later one: the page cache has what fits into it.
    Later,
}

impl Epoch {
    /// The number in the column `epoch` of a corpus.
    pub fn number(self) -> u32 {
        match self {
            Self::First => 0,
            Self::Later => 1,
        }
    }
}

impl Workload {
    /// Puts the data set on a storage, in an epoch of a training on a board.
    pub fn stored_on(
        mut self,
        storage: &Storage,
        epoch: Epoch,
        board: &Board,
    ) -> Result<Self, WorkloadError> {
        let data = self.data.ok_or_else(|| WorkloadError::NotTold {
            name: self.name.clone(),
            section: "data",
            purpose: "a storage",
        })?;
        let missing = match epoch {
            Epoch::First => 1.0,
            Epoch::Later => 1.0 - hits(self.cached(board)?),
        };
        let latency_s = 1e-3 * storage.latency_ms * data.reads_per_sample;
        let transfer_s = data.mb_per_sample / storage.mb_per_s;
        self.reading = Reading {
            alone_s: missing * (latency_s + transfer_s),
            saturated_s: missing * (latency_s / storage.at_once + transfer_s),
        };
        Ok(self)
    }

    /// Refuses a training that does not fit into the memory of a board. A workload or a board that
    /// says nothing of memory is not refused.
    pub fn fits(&self, board: &Board) -> Result<(), WorkloadError> {
        let (Some(memory), Some(has)) = (self.memory, for_training(board)) else {
            return Ok(());
        };
        let needs = memory.mb + memory.mb_per_sample * f64::from(self.minibatch);
        if needs <= has {
            return Ok(());
        }
        let most = ((has - memory.mb) / memory.mb_per_sample).floor();
        Err(WorkloadError::OutOfMemory {
            name: self.name.clone(),
            minibatch: self.minibatch,
            board: board.name.clone(),
            needs_gb: needs / 1e3,
            has_gb: has / 1e3,
            most: (most >= 1.0).then_some(most as u32),
        })
    }

    /// The part of the data set for which the page cache has room, 0 … 1.
    fn cached(&self, board: &Board) -> Result<f64, WorkloadError> {
        self.fits(board)?;
        let told = |section| WorkloadError::NotTold {
            name: self.name.clone(),
            section,
            purpose: "a page cache",
        };
        let data = self.data.ok_or_else(|| told("data"))?;
        let memory = self.memory.ok_or_else(|| told("memory"))?;
        let Some(has) = for_training(board) else {
            return Ok(1.0);
        };
        let left = has - memory.mb - memory.mb_per_sample * f64::from(self.minibatch);
        let size = f64::from(self.samples) * data.mb_per_sample;
        Ok(if size <= left { 1.0 } else { left / size })
    }
}

/// Memory of a board that the system leaves to a training and the page cache, in MB.
fn for_training(board: &Board) -> Option<f64> {
    Some(f64::from(board.ram_gib?) * MB_PER_GIB - SYSTEM_MB)
}

/// The part of the reads that a cache with the least recently used policy serves, if it holds the part
/// `c` of a data set that each epoch reads in a new random order.
///
/// Between two reads of a sample, at the part p of one epoch and q of the next one, 1 − p·(1 − q) of
/// the samples are read. The product of two uniform numbers exceeds 1 − c with the probability
/// c + (1 − c)·ln(1 − c). A small cache serves hardly anything, as Characterizing found (section
/// 5.1.1).
fn hits(c: f64) -> f64 {
    let rest = 1.0 - c;
    if rest <= 0.0 {
        1.0
    } else {
        c + rest * rest.ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mobilenet() -> Workload {
        Workload::named("mobilenetv3").expect("shipped")
    }

    fn board(name: &str) -> Board {
        Board::named(name).expect("known")
    }

    #[test]
    fn a_small_cache_serves_hardly_anything_and_a_full_one_everything() {
        assert_eq!([hits(0.0), hits(1.0)], [0.0, 1.0]);
        assert!(hits(0.06) < 0.002);
        assert!(hits(0.5) < 0.16);
    }

    #[test]
    fn the_first_epoch_reads_and_later_ones_do_not() {
        let xavier = board("xavier-agx");
        for storage in STORAGES {
            let read = |epoch| {
                let workload = mobilenet().stored_on(&storage, epoch, &xavier);
                workload.expect("told").reading
            };
            assert!(read(Epoch::First).alone_s > 0.0);
            assert_eq!(read(Epoch::Later), Reading::default());
        }
    }

    #[test]
    fn a_data_set_that_memory_does_not_hold_is_read_in_every_epoch() {
        let small = board("orin-nano-8");
        let storage = storage("hdd").expect("a kind");
        let mut workload = mobilenet();
        workload.samples *= 100;
        let read = |epoch| {
            let stored = workload.clone().stored_on(&storage, epoch, &small);
            stored.expect("told").reading.alone_s
        };
        let part = read(Epoch::Later) / read(Epoch::First);
        assert!((0.99..=1.0).contains(&part), "{part}");
    }

    #[test]
    fn a_minibatch_beyond_memory_is_refused_and_the_largest_one_is_named() {
        let xavier = board("xavier-agx");
        let workload = |minibatch| mobilenet().with_minibatch(minibatch).expect("a size");
        let Err(WorkloadError::OutOfMemory { most, .. }) = workload(4096).fits(&xavier) else {
            panic!("4096 samples fit");
        };
        let most = most.expect("some fit");
        assert!(workload(most).fits(&xavier).is_ok());
        let refused = workload(most + 1).fits(&xavier).expect_err("one more");
        assert!(
            refused
                .to_string()
                .ends_with(&format!("at most {most} samples fit, so ask for fewer"))
        );
    }

    #[test]
    fn a_workload_without_data_has_no_storage() {
        let mut workload = mobilenet();
        workload.data = None;
        let refused = workload
            .stored_on(&STORAGES[0], Epoch::First, &board("tx2"))
            .expect_err("no data");
        assert_eq!(
            refused.to_string(),
            "`mobilenetv3` has no `[data]`, which a storage needs; name another workload, or a file with it"
        );
    }
}
