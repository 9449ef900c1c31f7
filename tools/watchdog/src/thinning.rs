//! The grid of a board's own tables, with fewer clocks where the tables are longer than a grid can have, as Thor's probably are.

use wattgate_board::Board;
use wattgate_cli::planning::NOT_SHOWN;
use wattgate_runtime::grid::{Grid, GridError};

/// The grid of all values of a board. It has numbers of cores that cannot be online where clusters have more than one core.
pub fn grid(board: &Board) -> Result<Grid, GridError> {
    let cpus: Vec<u32> = (1..=board.core_order().count() as u32).collect();
    let tables = [&cpus[..], board.cpu_khz(), board.gpu_khz(), board.emc_khz()];
    let tables = thinned(tables.map(|table| match table {
        [] => vec![NOT_SHOWN],
        table => table.to_vec(),
    }));
    Grid::new(tables.each_ref().map(Vec::as_slice))
}

/// Leaves out every second clock of the longest table until a grid can have all values. The lowest and
/// the highest clock stay. Takes and returns cores, CPU, GPU and memory clocks, ascending.
fn thinned(mut axes: [Vec<u32>; 4]) -> [Vec<u32>; 4] {
    while is_too_large(&axes)
        && let [_, clocks @ ..] = &mut axes
        && let Some(longest) = clocks.iter_mut().max_by_key(|clocks| clocks.len())
        && longest.len() > 2
    {
        *longest = every_second(longest);
    }
    axes
}

fn is_too_large(axes: &[Vec<u32>; 4]) -> bool {
    let axes = axes.each_ref().map(Vec::as_slice);
    let error = Grid::new(axes).err();
    matches!(
        error,
        Some(GridError::TooManyValues | GridError::TooManyModes)
    )
}

/// Every second clock from the highest down, and the lowest.
fn every_second(clocks: &[u32]) -> Vec<u32> {
    let mut kept: Vec<u32> = clocks.iter().rev().step_by(2).copied().collect();
    kept.extend(clocks.first());
    kept.dedup();
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(length: u32) -> Vec<u32> {
        (1..=length).collect()
    }

    #[test]
    fn tables_that_fit_stay_as_they_are() {
        let orin = [12, 29, 13, 4].map(table);
        assert_eq!(thinned(orin.clone()), orin);
    }

    #[test]
    fn every_second_clock_and_both_ends_stay() {
        assert_eq!(every_second(&[1, 2, 3, 4, 5]), [1, 3, 5]);
        assert_eq!(every_second(&[1, 2, 3, 4, 5, 6]), [1, 2, 4, 6]);
        assert_eq!(every_second(&[1, 2, 3]), [1, 3]);
    }

    #[test]
    fn the_longest_tables_are_thinned_until_a_grid_can_have_them() {
        for lengths in [[14, 48, 85, 4], [14, 48, 14, 4], [64, 200, 200, 200]] {
            let before = lengths.map(table);
            let after = thinned(before.clone());
            let axes = after.each_ref().map(Vec::as_slice);
            assert!(Grid::new(axes).is_ok(), "{lengths:?}");
            for (before, after) in before.iter().zip(&after) {
                assert!(after.iter().all(|clock| before.contains(clock)));
                assert_eq!(before.first(), after.first());
                assert_eq!(before.last(), after.last());
            }
            assert_eq!(before[0], after[0], "all numbers of cores");
        }
        let [_, cpu, gpu, emc] = thinned([14, 48, 85, 4].map(table)).map(|it| it.len());
        assert_eq!([cpu, gpu, emc], [25, 22, 4]);
    }

    #[test]
    fn other_defects_are_left_to_the_grid() {
        let descending = [vec![2, 1], table(90), table(90), table(4)];
        assert_eq!(thinned(descending)[0], [2, 1]);
    }
}
