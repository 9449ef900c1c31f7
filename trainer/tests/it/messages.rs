//! The messages that a user of `wattgate-trainer` may meet: tests/golden/messages.txt has each with the command that makes it.
//! Defects of corpora are in bad_corpus.rs.
//!
//! `WATTGATE_UPDATE_GOLDEN=1 cargo test -p wattgate-trainer --test it messages` writes it anew.

use std::path::Path;

use crate::common::{corpus, corpus_of_another, folder, write};
use crate::transcript;

#[test]
fn messages_are_the_golden_ones() {
    let folder = folder();
    let path = folder.path();
    write(path, "corpus.csv", corpus().join("\n"));
    write(path, "other.csv", corpus_of_another().join("\n"));
    write(path, "few.csv", corpus()[..5].join("\n"));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/messages.txt");
    transcript::compare(&golden, path, &[crate::PROGRAM]);
}
