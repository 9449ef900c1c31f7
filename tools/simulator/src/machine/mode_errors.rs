//! Planted errors: the power of a mode deviates from the physical model.
//!
//! The factors apply to the power above rest. They depend only on the mode: a mode has the same
//! error each time that it is set.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal, StandardUniform};

use super::settings::ends;
use crate::pipeline::Clocks;
use wattgate_board_tables::Board;

/// Kinds of planted errors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ModeErrors {
    /// Each mode has its own factor, whose logarithm is normal with this spread.
    Each { spread: f64, seed: u64 },
    /// One mode in twenty, drawn at random, draws twice as much, and one in ten half.
    Rogues { seed: u64 },
    /// The factor rises or falls with the GPU's clock, from the first at its least to the second
    /// at its highest.
    Tilt { factors: [f64; 2] },
}

impl ModeErrors {
    /// Whether an oracle knows the errors. If each mode has its own error, a few of thousands of
    /// modes draw far less by chance, and an oracle that knew them would be no useful reference.
    pub fn is_physical(&self) -> bool {
        matches!(self, Self::Tilt { .. })
    }

    /// The factor on the power above rest at the given clocks.
    pub fn factor(&self, board: &Board, clocks: &Clocks) -> f64 {
        match *self {
            Self::Each { spread, seed } => {
                let normal: f64 = StandardNormal.sample(&mut drawn(clocks, seed));
                (spread * normal).exp()
            }
            Self::Rogues { seed } => {
                let chance: f64 = StandardUniform.sample(&mut drawn(clocks, seed));
                match chance {
                    chance if chance < 0.05 => 2.0,
                    chance if chance < 0.15 => 0.5,
                    _ => 1.0,
                }
            }
            Self::Tilt {
                factors: [low, high],
            } => {
                let (least, most) = ends(&board.gpu_khz);
                // A recorded board may have a single GPU clock.
                let span = f64::from((most - least).max(1));
                let part = (1e6 * clocks.gpu_ghz - f64::from(least)) / span;
                low + (high - low) * part
            }
        }
    }
}

/// The random numbers of a mode.
fn drawn(clocks: &Clocks, seed: u64) -> ChaCha8Rng {
    // The mean of equal clocks may have a rounding error.
    let khz = [clocks.cpu_ghz, clocks.gpu_ghz, clocks.emc_ghz].map(|ghz| (1e6 * ghz).round());
    let knobs = [clocks.cores, khz[0], khz[1], khz[2]];
    let mixed = knobs.into_iter().fold(seed, |mixed, knob| {
        // FNV-1a's multiplier, on whole words; ChaCha does the rest.
        (mixed ^ knob as u64).wrapping_mul(0x0000_0100_0000_01b3)
    });
    ChaCha8Rng::seed_from_u64(mixed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn factors(errors: &ModeErrors) -> Vec<f64> {
        let board = Board::named("orin-agx-64").expect("a board");
        let modes = board.all_modes().into_iter();
        let clocks = modes.map(|knobs| Clocks::from_knobs(&board, knobs));
        clocks
            .map(|clocks| errors.factor(&board, &clocks))
            .collect()
    }

    #[test]
    fn each_mode_has_a_factor_of_its_own() {
        let drawn = |seed| factors(&ModeErrors::Each { spread: 0.1, seed });
        let logs: Vec<f64> = drawn(1).iter().map(|factor| factor.ln()).collect();
        let number = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / number;
        let square = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / number;
        assert!(
            mean.abs() < 0.005 && (square.sqrt() - 0.1).abs() < 0.005,
            "{mean} {square}"
        );
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn some_modes_are_rogues() {
        let factors = factors(&ModeErrors::Rogues { seed: 1 });
        for (wanted, part) in [(2.0, 0.05), (0.5, 0.1), (1.0, 0.85)] {
            let found = factors.iter().filter(|factor| **factor == wanted).count();
            let found = found as f64 / factors.len() as f64;
            assert!((found - part).abs() < 0.01, "{wanted}: {found}");
        }
    }

    #[test]
    fn a_tilt_goes_from_one_factor_to_the_other() {
        let board = Board::named("orin-agx-64").expect("a board");
        let errors = ModeErrors::Tilt {
            factors: [0.8, 1.2],
        };
        let (least, most) = ends(&board.gpu_khz);
        let factor = |gpu| {
            errors.factor(
                &board,
                &Clocks::from_knobs(&board, [12, 2_201_600, gpu, 3_199_000]),
            )
        };
        assert!((factor(least) - 0.8).abs() < 1e-9 && (factor(most) - 1.2).abs() < 1e-9);
        assert!((factor((least + most) / 2) - 1.0).abs() < 1e-4);
    }
}
