//! Appends rows to a corpus in a thread of its own, while a limit is held: a disk that is slow to sync
//! must not stop the control.

use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use crate::row::{CorpusError, CorpusFile, Row};

/// Writes rows of a corpus.
#[derive(Debug)]
pub struct Scribe {
    /// Dropped to end the thread.
    rows: Option<Sender<Row>>,
    thread: Option<JoinHandle<(CorpusFile, Result<(), CorpusError>)>>,
}

impl Scribe {
    /// Takes the corpus until [`Self::end`].
    pub fn start(mut corpus: CorpusFile) -> Self {
        let (rows, wanted) = channel();
        let thread = thread::spawn(move || {
            let written = wanted.into_iter().try_for_each(|row| corpus.append(row));
            (corpus, written)
        });
        Self {
            rows: Some(rows),
            thread: Some(thread),
        }
    }

    /// Appends a row soon. After an error no further row is appended.
    pub fn append(&self, row: Row) {
        if let Some(rows) = &self.rows {
            // The thread has ended with the error that `end` returns.
            let _ = rows.send(row);
        }
    }

    /// Waits until all rows are on the disk. Returns the corpus and the first error.
    pub fn end(mut self) -> (CorpusFile, Result<(), CorpusError>) {
        self.rows = None;
        let thread = self.thread.take().expect("only `end` and `drop` take it");
        thread.join().expect("the thread does not panic")
    }
}

impl Drop for Scribe {
    fn drop(&mut self) {
        self.rows = None;
        if let Some(thread) = self.thread.take() {
            // On the way out of another error: this one is lost.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::Origin;

    #[test]
    fn all_rows_are_in_the_file_at_the_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("corpus.csv");
        let origin = Origin {
            device: "board",
            workload: Some("work"),
            tpc_pg_mask: None,
            unit: None,
        };
        let open = || CorpusFile::open(&path, &origin).expect("a corpus");
        let scribe = Scribe::start(open());
        for cores in 1..=20 {
            scribe.append(Row {
                device: "board".to_owned(),
                workload: "work".to_owned(),
                cores,
                ..Row::default()
            });
        }
        let (corpus, written) = scribe.end();
        written.expect("written");
        let cores = |rows: &[Row]| rows.iter().map(|row| row.cores).collect::<Vec<u32>>();
        let expected: Vec<u32> = (1..=20).collect();
        assert_eq!(cores(&corpus.rows), expected);
        assert_eq!(cores(&open().rows), expected);
    }
}
