//! Random simulated workloads, the advice for each, and what it is worth on the simulated board.

use std::path::Path;

use indicatif::ProgressBar;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use wattgate_board_tables::Board;
use wattgate_lab::characterize::advice::{Advice, AdviceError, Choice, advise};
use wattgate_simulated_board::corpus::{Feeding, fed_csv};
use wattgate_simulated_board::pipeline::Clocks;
use wattgate_simulated_board::profile::Profiler;
use wattgate_simulated_board::steady::Steady;
use wattgate_simulated_board::unit::Unit;
use wattgate_simulated_board::workload::{Workload, names};
use wattgate_trainer::read::{Blank, Corpus};

const BOARDS: [&str; 3] = ["orin-agx-64", "orin-nano-8-super", "xavier-agx"];

/// Modes that are profiled with the present feeding, and with each other one.
const MODES: [usize; 2] = [20, 10];

/// A workload on a unit of a board, as it is fed now.
pub struct Random {
    pub board: Board,
    unit: Unit,
    pub workload: Workload,
    limit_w: f64,
    seed: u64,
}

/// What an advice is worth.
#[derive(Clone, Debug)]
pub struct Worth {
    /// The advice.
    pub advice: Advice,
    /// The true gain of the advised choice; 1 if nothing is advised.
    pub gain: f64,
    /// Its true power over the limit.
    pub load: f64,
}

impl Worth {
    /// The predicted gain; 1 if nothing is advised.
    pub fn predicted(&self) -> f64 {
        self.advice.best.as_ref().map_or(1.0, |best| best.gain)
    }

    /// Whether the predicted gain is within 20 % of the true one.
    pub fn is_near(&self) -> bool {
        (self.predicted() / self.gain - 1.0).abs() <= 0.2
    }
}

impl Random {
    /// Draws a shipped workload, and changes the work of each part of it by a random factor.
    pub fn drawn(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let board = Board::named(BOARDS[random.random_range(0..BOARDS.len())]).expect("known");
        let unit = Unit::drawn(seed);
        let names = names();
        let mut workload =
            Workload::named(names[random.random_range(0..names.len())]).expect("shipped");
        let mut factor = |most: f64| most.powf(random.random_range(-1.0..1.0));
        let (loading, host, kernels, bytes) = (factor(8.0), factor(2.0), factor(3.0), factor(2.0));
        workload.loader.mcycles_per_sample *= loading;
        workload.loader.kmisses_per_sample *= loading;
        workload.host.mcycles *= host;
        workload.host.launch_kcycles *= factor(1.5);
        for group in &mut workload.kernels {
            group.mflop_per_sample *= kernels;
            group.mb_per_sample *= bytes;
        }
        workload.loader.contention = 0.3 * random.random_range(0.0..1.0);
        workload.loader.workers = [1, 2, 4][random.random_range(0..3)];
        workload.minibatch = [8, 16, 32][random.random_range(0..3)];
        workload.memory = None;
        // Between the powers of the lowest and the highest mode.
        let power = |knobs| {
            let clocks = Clocks::from_knobs(&board, knobs);
            Steady::compute(&board, &unit, &workload, &clocks)
                .watts
                .total()
        };
        let lowest = power(board.axes().map(|axis| axis[0]));
        let highest = power(board.maxn());
        let limit_w = lowest + random.random_range(0.3..0.9) * (highest - lowest);
        Self {
            board,
            unit,
            workload,
            limit_w,
            seed,
        }
    }

    /// The present feeding, then others in workers, in size, and in both.
    fn feedings(&self) -> Vec<Feeding> {
        let now = Feeding {
            minibatch: self.workload.minibatch,
            workers: self.workload.loader.workers,
            storage: None,
        };
        let mut all = vec![now];
        let most = self.board.cores().min(8);
        for minibatch in [8, 32] {
            for workers in [1, 4, most] {
                let feeding = Feeding {
                    minibatch,
                    workers,
                    storage: None,
                };
                if !all.contains(&feeding) {
                    all.push(feeding);
                }
            }
        }
        all
    }

    /// Profiles random modes in a folder, asks for advice, and compares it with the truth.
    pub fn judge(&self, folder: &Path) -> Result<Worth, AdviceError> {
        let mut modes = self.board.all_modes();
        modes.shuffle(&mut ChaCha8Rng::seed_from_u64(self.seed));
        let runs: Vec<_> = self
            .feedings()
            .into_iter()
            .enumerate()
            .map(|(at, feeding)| {
                let workload = feeding.apply(&self.workload, &self.board).expect("it fits");
                let modes = &modes[..MODES[usize::from(at > 0)]];
                let mut profiler = Profiler::new(&self.board, self.unit, &workload, self.seed);
                (feeding, profiler.profile_all(modes))
            })
            .collect();
        let path = folder.join("fed.csv");
        let text = fed_csv(&self.board, &self.unit, &self.workload.name, &runs);
        std::fs::write(&path, text).expect("the folder can be written to");
        let fed = Corpus::read_fed(&path, Blank::Defect, &ProgressBar::hidden());
        let advice = advise(&fed.expect("a corpus"), self.limit_w, 1)?;
        let [before, _] = self.truth(&advice.now);
        let chosen = advice.best.as_ref().unwrap_or(&advice.now);
        let [after, power] = self.truth(chosen);
        Ok(Worth {
            gain: before / after,
            load: power / self.limit_w,
            advice,
        })
    }

    /// The true time of a sample in s and the true power in W.
    fn truth(&self, choice: &Choice) -> [f64; 2] {
        let feeding = Feeding {
            minibatch: choice.minibatch.expect("told"),
            workers: choice.workers.expect("told"),
            storage: None,
        };
        let workload = feeding.apply(&self.workload, &self.board).expect("it fits");
        let clocks = Clocks::from_knobs(&self.board, choice.knobs);
        let steady = Steady::compute(&self.board, &self.unit, &workload, &clocks);
        let item = steady.step.period / f64::from(feeding.minibatch);
        [item, steady.watts.total()]
    }
}
