//! Looks for bytes that make the reader, or what runs behind it, panic or loop. libFuzzer changes
//! the body and the fields of a header; magic, length, grid hash and checksum are set right,
//! because no change would ever get past them.

#![no_main]

use libfuzzer_sys::{Corpus, fuzz_target};
use wattgate_runtime::format::{Crc32, HEADER_LEN, MAGIC, VERSION};
use wattgate_runtime::grid::{Axes, Grid};
use wattgate_runtime::{Confidence, Front, Model, Query, Region};

/// Sweeps larger than this take too long for a fuzzer and find nothing else.
const MOST_MODES: usize = 512;

fuzz_target!(|bytes: &[u8]| -> Corpus {
    // As it is: for the checks before decoding.
    let _ = Model::parse(bytes);
    let Some(sealed) = sealed(bytes) else {
        return Corpus::Reject;
    };
    if let Ok(model) = Model::parse(&sealed) {
        exercise(&model);
    }
    Corpus::Keep
});

/// The same file with what a reader expects of it.
fn sealed(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut file = bytes.to_vec();
    let (header, body) = file.split_first_chunk_mut::<HEADER_LEN>()?;
    header[..4].copy_from_slice(&MAGIC);
    header[4..6].copy_from_slice(&VERSION.to_le_bytes());
    header[20..24].copy_from_slice(&u32::try_from(body.len()).ok()?.to_le_bytes());
    if let Ok((axes, _)) = postcard::take_from_bytes::<Axes>(body)
        && let Ok(grid) = Grid::try_from(axes)
    {
        header[16..20].copy_from_slice(&grid.hash().to_le_bytes());
    }
    let checksum = Crc32::new().update(&header[..24]).update(body).finish();
    header[24..].copy_from_slice(&checksum.to_le_bytes());
    Some(file)
}

fn exercise(model: &Model<'_>) {
    let _ = model.provenance();
    for region in [model.profiled(), Region::all(model.grid())] {
        if region.modes() > MOST_MODES {
            continue;
        }
        let front = Front::<16>::from_model(model, &region, Confidence::P50);
        assert!(!front.points().is_empty(), "every region has a mode");
        let _ = front.select(&Query::default());
    }
}
