//! The order in which to profile modes.
//!
//! Some boards can lower the CPU and GPU clocks at run time but need a reboot to raise either
//! (PowerTrain, section 3). On these, modes are visited in descents: sequences in which neither
//! clock rises. The fewest descents are the fewest chains that cover a partial order (Dilworth
//! 1950). The greedy rule of patience sorting finds them: take the modes by falling CPU clock
//! and append each to the descent with the lowest last GPU clock that is not below its own.

/// A mode and what it takes to reach it from the mode before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Cores, CPU, GPU and EMC clock in kHz.
    pub knobs: [u32; 4],
    /// Whether the CPU or GPU clock must rise: some boards need a reboot for that.
    pub raises: bool,
}

/// Orders modes from high to low clocks, in as few descents as possible. The first mode has the
/// highest CPU clock and counts as no rise.
pub fn descending(modes: &[[u32; 4]]) -> Vec<Visit> {
    let mut sorted = modes.to_vec();
    sorted
        .sort_unstable_by_key(|&[cores, cpu, gpu, emc]| std::cmp::Reverse([cpu, gpu, emc, cores]));
    let mut descents: Vec<Vec<[u32; 4]>> = Vec::new();
    for mode in sorted {
        let ends = descents
            .iter_mut()
            .filter(|descent| end(descent) >= mode[2]);
        match ends.min_by_key(|descent| end(descent)) {
            Some(descent) => descent.push(mode),
            None => descents.push(vec![mode]),
        }
    }
    let mut visits = Vec::with_capacity(modes.len());
    for descent in descents {
        for (at, knobs) in descent.into_iter().enumerate() {
            let raises = at == 0 && !visits.is_empty();
            visits.push(Visit { knobs, raises });
        }
    }
    visits
}

/// The GPU clock of the last mode of a descent.
fn end(descent: &[[u32; 4]]) -> u32 {
    descent.last().map_or(u32::MAX, |mode| mode[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descent_never_raises_a_clock() {
        let modes: Vec<[u32; 4]> = (0..60_u32)
            .map(|i| [1 + i % 4, 100 * (i * 7 % 12), 10 * (i * 5 % 9), i * 3 % 4])
            .collect();
        let visits = descending(&modes);
        let mut visited: Vec<[u32; 4]> = visits.iter().map(|visit| visit.knobs).collect();
        for pair in visits.windows(2) {
            let (before, after) = (pair[0].knobs, pair[1].knobs);
            let raised = after[1] > before[1] || after[2] > before[2];
            assert_eq!(raised, pair[1].raises, "{before:?} {after:?}");
        }
        let mut expected = modes;
        expected.sort_unstable();
        visited.sort_unstable();
        assert_eq!(visited, expected);
    }

    /// Dilworth: the fewest descents equal the size of the largest antichain.
    #[test]
    fn no_order_needs_fewer_descents() {
        // As the CPU clock rises the GPU clock falls, so each mode needs its own descent.
        let against: Vec<[u32; 4]> = (1..=5).map(|i| [1, 100 * i, 100 * (6 - i), 1]).collect();
        let raises = |modes: &[[u32; 4]]| descending(modes).iter().filter(|v| v.raises).count();
        assert_eq!(raises(&against), 4);
        let together: Vec<[u32; 4]> = (1..=5).map(|i| [1, 100 * i, 100 * i, 6 - i]).collect();
        assert_eq!(raises(&together), 0);
    }
}
