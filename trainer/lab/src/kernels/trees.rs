//! Gradient boosting with oblivious trees: all nodes of a level share one split, so a row's leaf is a
//! number whose bits are the outcomes of the splits (Prokhorenkova et al. 2018, "CatBoost"). That makes
//! predictions fast: no branch, and many rows at once.
//!
//! Inputs are cut into at most 256 bins by quantiles. Each tree sees a part of the rows and of the
//! inputs, and its leaves hold regularised means of the residuals. Results do not depend on the number
//! of threads.

use std::ops::Range;

use indicatif::ProgressBar;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::effects::Effects;
use super::features::Columns;

/// Hyper-parameters, named as in XGBoost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Number of trees.
    pub n_estimators: u32,
    /// Levels of a tree, 1 … [`MOST_DEPTH`].
    pub max_depth: u32,
    /// Factor on each tree.
    pub learning_rate: f64,
    /// Share of the rows that a tree sees.
    pub subsample: f64,
    /// Share of the inputs that a tree sees.
    pub colsample: f64,
    /// Least number of rows on each side of a split, on average over a level's nodes.
    pub min_child_weight: f64,
    /// L2 penalty of a leaf.
    pub reg_lambda: f64,
    /// L1 penalty of a leaf.
    pub reg_alpha: f64,
}

/// Largest depth of a tree.
pub const MOST_DEPTH: u32 = 11;

impl Default for Settings {
    /// Usual values for boosted trees; they were not searched for.
    fn default() -> Self {
        Self {
            n_estimators: 600,
            max_depth: 8,
            learning_rate: 0.1,
            subsample: 0.5,
            colsample: 0.6,
            min_child_weight: 2.0,
            reg_lambda: 1.0,
            reg_alpha: 0.0,
        }
    }
}

impl Settings {
    /// Whether all are in their ranges.
    pub fn are_valid(&self) -> bool {
        let share = |share: f64| share > 0.0 && share <= 1.0;
        let least = |value: f64| (0.0..f64::INFINITY).contains(&value);
        self.n_estimators > 0
            && (1..=MOST_DEPTH).contains(&self.max_depth)
            && share(self.learning_rate)
            && share(self.subsample)
            && share(self.colsample)
            && [self.min_child_weight, self.reg_lambda, self.reg_alpha]
                .into_iter()
                .all(least)
    }
}

/// Most bins of an input.
const MOST_BINS: usize = 256;

/// Least number of rows in a bin, beyond the first [`ALWAYS`] bins.
const ROWS_OF_BIN: usize = 4;

/// Bins that few rows have too: the clocks of an axis are as many.
const ALWAYS: usize = 32;

/// Rows from which the borders of the bins are taken.
const BORDER_ROWS: usize = 100_000;

/// Rows that are sampled together.
const BLOCK: usize = 1_024;

/// Rows that are predicted at once.
const TREE_LANES: usize = 64;

/// The effects of the units are estimated after every so many trees. Before the first estimate, the trees have
/// learned how calls and modes differ.
const TREES_OF_EFFECTS: usize = 50;

/// A split of a level: does an input exceed a border?
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Split {
    input: u16,
    /// Index among the input's borders.
    border: u8,
}

/// Boosted trees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trees {
    /// Ascending borders of each input.
    borders: Vec<Vec<f32>>,
    base: f32,
    /// The splits of each tree; their number is its depth.
    trees: Vec<Vec<Split>>,
    /// The leaves of all trees, one after the other.
    leaves: Vec<f32>,
}

/// Inputs as bins, column by column.
struct Bins {
    columns: Vec<Vec<u8>>,
    rows: usize,
}

impl Trees {
    /// Learns the targets of the average unit. `units` has the unit of each row; the range selects the inputs
    /// in which the effects of units are linear. Advances `progress` by one for each tree.
    pub fn fit(
        inputs: &Columns,
        targets: &[f32],
        (units, of_effects): (&[u16], Range<usize>),
        settings: &Settings,
        seed: u64,
        progress: &ProgressBar,
    ) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Blocks of neighbours are sampled, so neighbours are made random.
        let mut order: Vec<usize> = (0..targets.len()).collect();
        order.shuffle(&mut random);
        let sample = &order[..order.len().min(BORDER_ROWS)];
        let borders: Vec<Vec<f32>> = inputs
            .columns
            .par_iter()
            .map(|column| borders(sample.iter().map(|&row| column[row]).collect()))
            .collect();
        let columns = inputs.columns.par_iter().zip(&borders);
        let binned = |(column, borders): (&Vec<f32>, &Vec<f32>)| {
            order.iter().map(|&row| bin(borders, column[row])).collect()
        };
        let bins = Bins {
            columns: columns.map(binned).collect(),
            rows: order.len(),
        };
        let columns = inputs.columns[of_effects].iter();
        let shuffled = |column: &Vec<f32>| order.iter().map(|&row| column[row]).collect();
        let of_effects = Columns {
            columns: columns.map(shuffled).collect(),
        };
        let units: Vec<u16> = order.iter().map(|&row| units[row]).collect();
        let mut effects = Effects::new(&units, &of_effects);
        let base = targets.iter().map(|y| f64::from(*y)).sum::<f64>() / targets.len() as f64;
        let mut residuals: Vec<f32> = order
            .iter()
            .map(|&row| (f64::from(targets[row]) - base) as f32)
            .collect();
        let mut grown = Self {
            borders,
            base: base as f32,
            trees: Vec::new(),
            leaves: Vec::new(),
        };
        let mut leaf_of = vec![0_u16; bins.rows];
        for count in 1..=settings.n_estimators as usize {
            grown.grow(&bins, &mut residuals, &mut leaf_of, settings, &mut random);
            if count % TREES_OF_EFFECTS == 0 {
                effects.refit(&mut residuals);
            }
            progress.inc(1);
        }
        grown
    }

    fn grow(
        &mut self,
        bins: &Bins,
        residuals: &mut [f32],
        leaf_of: &mut [u16],
        settings: &Settings,
        random: &mut ChaCha8Rng,
    ) {
        let blocks: Vec<usize> = (0..bins.rows.div_ceil(BLOCK))
            .filter(|_| random.random_bool(settings.subsample))
            .collect();
        let blocks = if blocks.is_empty() { vec![0] } else { blocks };
        let mut inputs: Vec<usize> = (0..self.borders.len())
            .filter(|&input| !self.borders[input].is_empty())
            .collect();
        inputs.shuffle(random);
        let wanted = (settings.colsample * inputs.len() as f64).ceil() as usize;
        inputs.truncate(wanted.max(1));
        leaf_of.fill(0);
        let mut splits: Vec<Split> = Vec::new();
        for level in 0..settings.max_depth {
            let nodes = 1 << level;
            let best = inputs
                .par_iter()
                .map(|&input| {
                    let borders = self.borders[input].len();
                    let column = &bins.columns[input];
                    let histogram = histogram(column, residuals, leaf_of, &blocks, nodes, borders);
                    let (gain, border) = best_border(&histogram, nodes, borders, settings);
                    (gain, input, border)
                })
                .collect::<Vec<_>>()
                .into_iter()
                .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)));
            let Some((gain, input, border)) = best else {
                break;
            };
            if gain <= 0.0 {
                break;
            }
            let column = &bins.columns[input];
            let bit = 1_u16 << level;
            leaf_of
                .par_chunks_mut(BLOCK)
                .zip(column.par_chunks(BLOCK))
                .for_each(|(leaves, column)| {
                    for (leaf, bin) in leaves.iter_mut().zip(column) {
                        *leaf |= bit * u16::from(*bin > border);
                    }
                });
            splits.push(Split {
                input: input as u16,
                border,
            });
        }
        let leaves = leaf_values(residuals, leaf_of, 1 << splits.len(), settings);
        residuals
            .par_chunks_mut(BLOCK)
            .zip(leaf_of.par_chunks(BLOCK))
            .for_each(|(residuals, leaf_of)| {
                for (residual, leaf) in residuals.iter_mut().zip(leaf_of) {
                    *residual -= leaves[usize::from(*leaf)];
                }
            });
        self.trees.push(splits);
        self.leaves.extend(leaves);
    }

    /// Whether these trees take so many inputs, and name only inputs and leaves that exist.
    pub fn takes(&self, inputs: usize) -> bool {
        let exists = |split: &Split| usize::from(split.input) < inputs;
        let is_shallow = |splits: &Vec<Split>| splits.len() <= MOST_DEPTH as usize;
        let leaves = |splits: &Vec<Split>| 1_usize << splits.len();
        self.borders.len() == inputs
            && self.trees.iter().flatten().all(exists)
            && self.trees.iter().all(is_shallow)
            && self.trees.iter().map(leaves).sum::<usize>() == self.leaves.len()
    }

    /// Predicts the rows of some inputs.
    pub fn predict(&self, inputs: &Columns) -> Vec<f32> {
        let columns = inputs.columns.par_iter().zip(&self.borders);
        let binned = |(column, borders): (&Vec<f32>, &Vec<f32>)| {
            // A call in many modes has the same value in many rows.
            let mut last = (f32::NAN, 0);
            let mut bin_of = |value: f32| {
                if value != last.0 {
                    last = (value, bin(borders, value));
                }
                last.1
            };
            column.iter().map(|value| bin_of(*value)).collect()
        };
        let columns: Vec<Vec<u8>> = columns.map(binned).collect();
        let mut predicted = vec![self.base; inputs.rows()];
        predicted
            .par_chunks_mut(TREE_LANES)
            .enumerate()
            .for_each(|(chunk, predicted)| self.add(&columns, chunk * TREE_LANES, predicted));
        predicted
    }

    /// Adds all trees for the rows from `first` on.
    fn add(&self, columns: &[Vec<u8>], first: usize, predicted: &mut [f32]) {
        let mut leaves = &self.leaves[..];
        for splits in &self.trees {
            let (own, rest) = leaves.split_at(1 << splits.len());
            leaves = rest;
            let mut at = [0_u16; TREE_LANES];
            for (level, split) in splits.iter().enumerate() {
                let column = &columns[usize::from(split.input)];
                let bins = &column[first..first + predicted.len()];
                for (at, bin) in at.iter_mut().zip(bins) {
                    *at |= u16::from(*bin > split.border) << level;
                }
            }
            for (value, at) in predicted.iter_mut().zip(at) {
                *value += own[usize::from(at)];
            }
        }
    }
}

/// Borders that cut ascending values into bins of about equal size; none for one value alone.
fn borders(mut values: Vec<f32>) -> Vec<f32> {
    values.sort_unstable_by(f32::total_cmp);
    let between = |at: usize| f32::midpoint(values[at - 1], values[at]);
    let mut borders: Vec<f32> = Vec::new();
    let changes: Vec<usize> = (1..values.len())
        .filter(|&at| values[at] > values[at - 1])
        .collect();
    let bins = (values.len() / ROWS_OF_BIN).clamp(ALWAYS, MOST_BINS);
    if changes.len() < bins {
        borders.extend(changes.into_iter().map(between));
    } else {
        for bin in 1..bins {
            let from = bin * values.len() / bins;
            // The next place at which the value changes.
            let next = changes.partition_point(|&at| at < from);
            if let Some(at) = changes.get(next) {
                borders.push(between(*at));
            }
        }
    }
    borders.dedup();
    borders
}

/// The number of borders below a value.
fn bin(borders: &[f32], value: f32) -> u8 {
    borders.partition_point(|border| *border < value) as u8
}

/// Sum of the residuals and number of rows of each bin, node by node.
fn histogram(
    column: &[u8],
    residuals: &[f32],
    leaf_of: &[u16],
    blocks: &[usize],
    nodes: usize,
    borders: usize,
) -> Vec<[f32; 2]> {
    let bins = (borders + 1).next_power_of_two();
    let mut histogram = vec![[0.0; 2]; nodes * bins];
    for block in blocks {
        let rows = block * BLOCK..((block + 1) * BLOCK).min(column.len());
        let rows = column[rows.clone()]
            .iter()
            .zip(&residuals[rows.clone()])
            .zip(&leaf_of[rows]);
        for ((bin, residual), leaf) in rows {
            let slot = &mut histogram[usize::from(*leaf) * bins + usize::from(*bin)];
            slot[0] += residual;
            slot[1] += 1.0;
        }
    }
    histogram
}

/// The border with the largest gain: how much the sum of squares falls.
fn best_border(
    histogram: &[[f32; 2]],
    nodes: usize,
    borders: usize,
    settings: &Settings,
) -> (f64, u8) {
    let bins = (borders + 1).next_power_of_two();
    let lambda = settings.reg_lambda;
    let score = |sum: f64, count: f64| shrunk(sum, settings).powi(2) / (count + lambda);
    let mut gains = vec![0.0; borders];
    let mut smaller = vec![0.0_f64; borders];
    for node in histogram.chunks_exact(bins).take(nodes) {
        let (mut sum, mut count) = (0.0, 0.0);
        for [s, c] in node {
            sum += f64::from(*s);
            count += f64::from(*c);
        }
        if count == 0.0 {
            continue;
        }
        let whole = score(sum, count);
        let (mut left, mut of_left) = (0.0, 0.0);
        for ((gain, smaller), [s, c]) in gains.iter_mut().zip(&mut smaller).zip(node) {
            left += f64::from(*s);
            of_left += f64::from(*c);
            *gain += score(left, of_left) + score(sum - left, count - of_left) - whole;
            *smaller += of_left.min(count - of_left);
        }
    }
    let least = settings.min_child_weight * nodes as f64;
    let allowed = gains.iter().zip(smaller).enumerate();
    let allowed = allowed.filter(|(_, (_, smaller))| *smaller >= least);
    let best = allowed.max_by(|(_, (a, _)), (_, (b, _))| a.total_cmp(b));
    best.map_or((0.0, 0), |(at, (gain, _))| (*gain, at as u8))
}

/// The sum of a leaf's residuals less its L1 penalty.
fn shrunk(sum: f64, settings: &Settings) -> f64 {
    sum.signum() * (sum.abs() - settings.reg_alpha).max(0.0)
}

/// The regularised mean of each leaf's residuals, times the learning rate.
fn leaf_values(residuals: &[f32], leaf_of: &[u16], leaves: usize, settings: &Settings) -> Vec<f32> {
    // Chunks of a fixed size, added in their order.
    const ROW_CHUNK: usize = 1 << 16;
    let sums: Vec<Vec<[f64; 2]>> = residuals
        .par_chunks(ROW_CHUNK)
        .zip(leaf_of.par_chunks(ROW_CHUNK))
        .map(|(residuals, leaf_of)| {
            let mut sums = vec![[0.0; 2]; leaves];
            for (residual, leaf) in residuals.iter().zip(leaf_of) {
                let slot = &mut sums[usize::from(*leaf)];
                slot[0] += f64::from(*residual);
                slot[1] += 1.0;
            }
            sums
        })
        .collect();
    let leaf_value = |leaf: usize| {
        let of_chunks = sums.iter().map(|chunk| chunk[leaf]);
        let [sum, count] = of_chunks.fold([0.0; 2], |[s, c], [sum, count]| [s + sum, c + count]);
        let value = shrunk(sum, settings) / (count + settings.reg_lambda);
        (settings.learning_rate * value) as f32
    };
    (0..leaves).map(leaf_value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inputs(rows: usize) -> Columns {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let mut column = || (0..rows).map(|_| random.random_range(-1.0..1.0)).collect();
        Columns {
            columns: vec![column(), column(), vec![3.0; rows]],
        }
    }

    fn target(inputs: &Columns, row: usize) -> f32 {
        let [a, b] = [0, 1].map(|at: usize| inputs.columns[at][row]);
        if a > 0.3 { 2.0 + b } else { b * b }
    }

    fn settings() -> Settings {
        Settings {
            n_estimators: 200,
            max_depth: 4,
            ..Settings::default()
        }
    }

    fn fitted(rows: usize) -> (Columns, Vec<f32>, Trees) {
        let inputs = inputs(rows);
        let targets: Vec<f32> = (0..rows).map(|row| target(&inputs, row)).collect();
        let hidden = ProgressBar::hidden();
        let trees = Trees::fit(
            &inputs,
            &targets,
            (&vec![0; rows], 0..0),
            &settings(),
            1,
            &hidden,
        );
        (inputs, targets, trees)
    }

    #[test]
    fn a_surface_with_a_step_is_learned() {
        let (inputs, targets, trees) = fitted(20_000);
        let predicted = trees.predict(&inputs);
        let square = predicted.iter().zip(&targets).map(|(p, t)| (p - t).powi(2));
        let rmse = (square.sum::<f32>() / targets.len() as f32).sqrt();
        assert!(rmse < 0.05, "{rmse}");
    }

    #[test]
    fn trees_that_name_what_is_not_there_are_refused() {
        let (_, _, trees) = fitted(200);
        assert!(trees.takes(3) && !trees.takes(2) && !trees.takes(4));
        let mut short = trees.clone();
        short.leaves.pop();
        assert!(!short.takes(3));
        let mut beyond = trees;
        beyond.trees[0][0].input = 3;
        assert!(!beyond.takes(3));
    }

    /// Twenty units differ, by up to a fifth. Trees that know each row's unit must find the average unit more
    /// precisely than trees that do not.
    #[test]
    fn differences_between_units_blur_the_average_unit_less_if_the_units_are_known() {
        let (rows, units) = (6_000, 20);
        let inputs = inputs(rows);
        let mut random = ChaCha8Rng::seed_from_u64(5);
        let of_row: Vec<u16> = (0..rows).map(|_| random.random_range(0..units)).collect();
        let effect = |row: usize| {
            // Their means over the units are zero.
            let turn = std::f32::consts::TAU * f32::from(of_row[row]) / f32::from(units);
            0.2 * turn.sin() + 0.1 * turn.cos() * inputs.columns[1][row]
        };
        let mean_square = |units: &[u16], size: f32| {
            let targets = (0..rows).map(|row| target(&inputs, row) + size * effect(row));
            let targets: Vec<f32> = targets.collect();
            let hidden = ProgressBar::hidden();
            let trees = Trees::fit(&inputs, &targets, (units, 0..2), &settings(), 1, &hidden);
            let pairs = trees.predict(&inputs).into_iter().enumerate();
            let square = pairs.map(|(row, predicted)| (predicted - target(&inputs, row)).powi(2));
            square.sum::<f32>() / rows as f32
        };
        let none = vec![0; rows];
        let [alike, known, unknown] = [(&none, 0.0), (&of_row, 1.0), (&none, 1.0)]
            .map(|(units, size)| mean_square(units, size));
        let [by_known, by_unknown] = [known, unknown].map(|square| square - alike);
        assert!(by_known < 0.4 * by_unknown, "{alike} {known} {unknown}");
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let one = rayon::ThreadPoolBuilder::new().num_threads(1).build();
        let alone = one.expect("a pool").install(|| fitted(5_000).2);
        assert_eq!(alone, fitted(5_000).2);
    }

    #[test]
    fn a_few_rows_and_a_constant_target_are_no_problem() {
        let inputs = inputs(3);
        let hidden = ProgressBar::hidden();
        let trees = Trees::fit(&inputs, &[5.0; 3], (&[0; 3], 0..0), &settings(), 1, &hidden);
        assert!(trees.predict(&inputs).iter().all(|value| *value == 5.0));
    }

    #[test]
    fn borders_separate_values_that_differ() {
        assert_eq!(borders(vec![2.0, 1.0, 2.0, 4.0]), [1.5, 3.0]);
        assert!(borders(vec![2.0; 9]).is_empty());
        let many = borders((0..100_000).map(|value| value as f32).collect());
        assert_eq!(many.len(), MOST_BINS - 1);
        assert_eq!([bin(&[1.5, 3.0], 1.0), bin(&[1.5, 3.0], 9.0)], [0, 2]);
    }
}
