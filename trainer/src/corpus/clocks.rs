//! Clocks of the boards whose tables are known: which clock of a table a rounded one stands for, and which board has
//! all clocks of a corpus.

use wattgate_board_tables::{Board, names};
use wattgate_cli::nearest::nearest;
use wattgate_cli::planning::NOT_SHOWN;

/// A clock that was rounded or cut to MHz is nearer than this to the one of the table, in kHz.
pub const ROUNDED_KHZ: u32 = 1_000;

/// A memory clock by its nominal rate is nearer than this to the one of the table, in kHz: sweeps of an AGX Xavier
/// say 1333 MHz, and its table 1331.2.
pub const NOMINAL_KHZ: u32 = 2_000;

/// The only clock of a table that differs from `khz` by less than the tolerance, or `khz` itself if the table has it.
pub fn table_clock(table: &[u32], khz: u32, tolerance_khz: u32) -> Option<u32> {
    if table.contains(&khz) {
        return Some(khz);
    }
    let mut near = table
        .iter()
        .filter(|known| known.abs_diff(khz) < tolerance_khz);
    near.next().copied().filter(|_| near.next().is_none())
}

/// The tables of a board: numbers of cores, and CPU, GPU and memory clocks in kHz. A table is empty if nobody has published
/// it. `None` if no board has exactly this name.
pub fn tables(device: &str) -> Option<[Vec<u32>; 4]> {
    Board::described(device).ok().map(|board| board.axes())
}

/// The board whose tables have all values of some axes; of several, the one whose name is most like the device's.
pub fn board_with(axes: [&[u32]; 4], device: &str) -> Option<&'static str> {
    let has = |name: &&'static str| {
        let tables = Board::named(name).ok().map(|board| board.axes());
        tables.is_some_and(|tables| {
            let mut pairs = tables.iter().zip(axes);
            pairs.all(|(table, values)| lacks(table, values).is_empty())
        })
    };
    let boards: Vec<&'static str> = names().into_iter().filter(has).collect();
    nearest(device, boards.iter().copied()).or(boards.first().copied())
}

/// The values that a table lacks and that stand for none of its values. A clock that the board did not show may be any.
pub fn lacks(table: &[u32], values: &[u32]) -> Vec<u32> {
    let values = values.iter().copied();
    let is_strange =
        |value: &u32| *value != NOT_SHOWN && table_clock(table, *value, ROUNDED_KHZ).is_none();
    values.filter(is_strange).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rounded_clock_stands_for_one_of_every_table() {
        let boards = names().into_iter().filter_map(tables);
        let mut count = 0;
        for table in boards.flat_map(|[_, clocks @ ..]| clocks) {
            for &khz in &table {
                count += 1;
                assert_eq!(table_clock(&table, khz, ROUNDED_KHZ), Some(khz));
                for mhz in [khz / 1_000, khz.div_ceil(1_000)] {
                    assert_eq!(table_clock(&table, 1_000 * mhz, ROUNDED_KHZ), Some(khz));
                    assert_eq!(table_clock(&table, 1_000 * mhz, NOMINAL_KHZ), Some(khz));
                }
            }
        }
        assert!(count > 100);
    }

    #[test]
    fn a_clock_is_not_taken_for_one_that_is_far_off_or_for_one_of_two() {
        let table = [204_000, 1_331_200, 1_332_000];
        assert_eq!(table_clock(&table, 204_999, ROUNDED_KHZ), Some(204_000));
        assert_eq!(table_clock(&table, 205_000, ROUNDED_KHZ), None);
        assert_eq!(table_clock(&table, 1_331_500, ROUNDED_KHZ), None);
        assert_eq!(table_clock(&[], 204_000, ROUNDED_KHZ), None);
    }

    #[test]
    fn the_board_with_all_clocks_is_found() {
        let gpu = [306_000, 1_224_000];
        let axes: [&[u32]; 4] = [&[12], &[NOT_SHOWN], &gpu, &[3_199_000]];
        assert_eq!(board_with(axes, "orin-agx-64"), Some("orin-agx-64-jp6"));
        assert_eq!(board_with(axes, "board"), Some("orin-agx-64-jp6"));
        assert_eq!(board_with([&[99], &[], &[], &[]], "tx2"), None);
    }
}
