//! Experimental design: which modes to profile.
//!
//! The value of a mode is the reduction of the mean predictive variance over the board that its
//! measurement would bring (Seo et al. 2000, "active learning Cohn"). The first [`FIRST`] modes
//! are chosen with the prior of a smooth surface alone. After that, the teachers' physical process of each
//! target, refitted after each measurement, values the candidates. On full factorials its modes leave smaller
//! errors than those of a process without physics, and than those of all processes of the teachers.
//!
//! Under a limit a process without physics values them. Physics learns most at the edge of what a forecast
//! allows, and there a forecast is most often wrong: in one of nine simulated cases a mode drew 19 % more than
//! the limit.
//!
//! Every mode serves the accuracy over the whole board. Measuring at the expected Pareto front
//! instead makes the errors larger, and a plan for one power limit has [`promise`].

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{Continuous, ContinuousCDF, Normal};

use crate::corpus::modes::Known;
use crate::learn::blend::Blend;
use crate::learn::expected::Expected;
use crate::learn::gp::{Process, SingularCovariance};
use crate::learn::mean::{Mean, Place, Scales};
use crate::learn::predictions::Target;
use crate::learn::priors::Priors;

/// Number of modes chosen before the first measurement.
pub const FIRST: usize = 8;

/// Rounds in which each of the first modes may be exchanged for a better one.
const EXCHANGES: usize = 2;

/// Maximum number of random candidates, and of random modes over which the variance is averaged.
const MOST_CANDIDATES: usize = 400;

/// Chooses up to `count` modes with the prior alone. Returns indices of `offered`, the most
/// valuable first.
pub fn first(
    scales: &Scales,
    priors: &Priors,
    offered: &[[u32; 4]],
    count: usize,
    random: &mut ChaCha8Rng,
) -> Result<Vec<usize>, SingularCovariance> {
    let spec = priors.spec(Mean::Zero);
    let board = Board::new(scales, offered);
    let unmeasured = |chosen: &[usize]| Process::unmeasured(&spec, &board.places_of(chosen));
    let mut chosen = Vec::new();
    while chosen.len() < count.min(offered.len()) {
        let free = board.without(&chosen);
        chosen.extend(board.best(&[unmeasured(&chosen)?], &free, None, random));
    }
    if count > FIRST {
        return Ok(chosen);
    }
    for _ in 0..EXCHANGES {
        for at in 0..chosen.len() {
            let old = chosen.remove(at);
            let others = unmeasured(&chosen)?;
            let free = board.without(&chosen);
            let new = board.best(&[others], &free, Some(old), random);
            chosen.insert(at, new.unwrap_or(old));
        }
    }
    Ok(chosen)
}

/// Chooses `count` more modes after the measurements so far. Returns indices of `offered`. After
/// each choice the processes observe its predicted value, so that the next choice differs.
pub fn next(
    scales: &Scales,
    priors: &Priors,
    offered: &[[u32; 4]],
    measured: &[Known],
    count: usize,
    random: &mut ChaCha8Rng,
) -> Result<Vec<usize>, SingularCovariance> {
    if measured.is_empty() {
        return first(scales, priors, offered, count, random);
    }
    let mut board = Board::new(scales, offered);
    let mut processes = physical(scales, priors, measured, &mut board.places)?;
    let unmeasured = |knobs: &[u32; 4]| measured.iter().all(|mode| mode.knobs != *knobs);
    let mut free: Vec<bool> = offered.iter().map(unmeasured).collect();
    let mut chosen = Vec::new();
    while chosen.len() < count {
        let Some(best) = board.best(&processes, &free, None, random) else {
            break;
        };
        chosen.push(best);
        free[best] = false;
        let place = board.places[best];
        for process in &mut processes {
            let expected = process.means(&[place])[0][0];
            *process = process.observe(place, expected)?.0;
        }
    }
    Ok(chosen)
}

/// Chooses one more mode, of those that are `free`. Its worth is that for all of `offered`. The
/// prior alone decides on the first [`FIRST`] modes, as in [`first`]: measurements near each other
/// say little about the length scales. This is for modes within a limit.
pub fn next_of(
    scales: &Scales,
    priors: &Priors,
    offered: &[[u32; 4]],
    free: &[bool],
    measured: &[Known],
    random: &mut ChaCha8Rng,
) -> Result<Option<usize>, SingularCovariance> {
    let board = Board::new(scales, offered);
    if measured.len() < FIRST {
        let places: Vec<Place> = measured
            .iter()
            .map(|mode| scales.place(mode.knobs))
            .collect();
        let prior = Process::unmeasured(&priors.spec(Mean::Zero), &places)?;
        return Ok(board.best(&[prior], free, None, random));
    }
    let processes = smooth(scales, priors, measured)?;
    Ok(board.best(&processes, free, None, random))
}

/// A process without physics for each target that was measured.
fn smooth(
    scales: &Scales,
    priors: &Priors,
    measured: &[Known],
) -> Result<Vec<Process>, SingularCovariance> {
    let spec = priors.spec(Mean::Zero);
    let fit = |target: Target| {
        let known = measured
            .iter()
            .filter_map(|mode| Some((scales.place(mode.knobs), target.measured(mode)?.ln())));
        let (places, logs): (Vec<Place>, Vec<f64>) = known.unzip();
        (!places.is_empty()).then(|| Process::fit_map(&spec, &places, &logs))
    };
    Target::ALL.into_iter().filter_map(fit).collect()
}

/// The physical process of each target that was measured. Enters the expected times into `offered`, from which the
/// power follows. There is at least one mode.
fn physical(
    scales: &Scales,
    priors: &Priors,
    measured: &[Known],
    offered: &mut [Place],
) -> Result<Vec<Process>, SingularCovariance> {
    let blend = Blend::any_board(priors);
    let mut places: Vec<Place> = measured
        .iter()
        .map(|mode| scales.place(mode.knobs))
        .collect();
    let logs: Vec<f64> = measured.iter().map(|mode| mode.time_us.ln()).collect();
    let time = Process::fit_map(&blend.physical(Target::Time, logs.len()), &places, &logs)?;
    for (place, log) in places.iter_mut().zip(&logs) {
        place.log_time = log - time.level();
    }
    let expected = time.means(offered).swap_remove(0);
    for (place, log) in offered.iter_mut().zip(expected) {
        place.log_time = log - time.level();
    }
    let with_power = measured.iter().zip(places);
    let with_power = with_power.filter_map(|(mode, place)| Some((place, mode.power_mw?.ln())));
    let (places, powers): (Vec<Place>, Vec<f64>) = with_power.unzip();
    let mut processes = vec![time];
    if !powers.is_empty() {
        let spec = blend.physical(Target::Power, powers.len());
        processes.push(Process::fit_map(&spec, &places, &powers)?);
    }
    Ok(processes)
}

/// Chooses `count` modes one by one; each choice sees the measurements of those before. Returns
/// indices of `offered` in the order of the choice.
pub fn sequence(
    scales: &Scales,
    priors: &Priors,
    offered: &[Known],
    count: usize,
    random: &mut ChaCha8Rng,
) -> Result<Vec<usize>, SingularCovariance> {
    let knobs: Vec<[u32; 4]> = offered.iter().map(|mode| mode.knobs).collect();
    let mut chosen = first(scales, priors, &knobs, count.min(FIRST), random)?;
    while chosen.len() < count.min(offered.len()) {
        let measured: Vec<Known> = chosen.iter().map(|&at| offered[at]).collect();
        chosen.extend(next(scales, priors, &knobs, &measured, 1, random)?);
    }
    Ok(chosen)
}

/// The candidate modes.
struct Board {
    places: Vec<Place>,
}

impl Board {
    fn new(scales: &Scales, offered: &[[u32; 4]]) -> Self {
        Self {
            places: offered.iter().map(|&knobs| scales.place(knobs)).collect(),
        }
    }

    fn places_of(&self, chosen: &[usize]) -> Vec<Place> {
        chosen.iter().map(|&at| self.places[at]).collect()
    }

    /// Marks all candidates except those at `chosen`.
    fn without(&self, chosen: &[usize]) -> Vec<bool> {
        let mut free = vec![true; self.places.len()];
        chosen.iter().for_each(|&at| free[at] = false);
        free
    }

    /// The candidate with the highest value summed over all processes. Draws [`MOST_CANDIDATES`] random
    /// candidates that are free, and always includes `old`.
    fn best(
        &self,
        processes: &[Process],
        free: &[bool],
        old: Option<usize>,
        random: &mut ChaCha8Rng,
    ) -> Option<usize> {
        let mut drawn: Vec<usize> = (0..self.places.len()).collect();
        drawn.shuffle(random);
        let places = self.places_of(&drawn[..drawn.len().min(MOST_CANDIDATES)]);
        drawn.shuffle(random);
        let others = drawn.into_iter().filter(|at| free[*at] && Some(*at) != old);
        let candidates: Vec<usize> = old
            .into_iter()
            .chain(others.take(MOST_CANDIDATES))
            .collect();
        let at = self.places_of(&candidates);
        let mut worth = vec![0.0; candidates.len()];
        for process in processes {
            let gains = process.gains(&places, &at);
            worth
                .iter_mut()
                .zip(gains)
                .for_each(|(sum, gain)| *sum += gain);
        }
        let best = worth
            .iter()
            .zip(&candidates)
            .max_by(|a, b| a.0.total_cmp(b.0));
        best.map(|(_, &candidate)| candidate)
    }
}

/// Constrained expected improvement (Gardner et al. 2014) of a mode over `best`, the lowest
/// measured ln time within a power limit: P(power ≤ limit)·E[max(0, best − ln time)].
pub fn promise(ln_limit: f64, best: f64, time: &Expected, power: &Expected) -> f64 {
    let standard = Normal::standard();
    let margin = (ln_limit - power.median) / power.sd;
    let ahead = (best - time.median) / time.sd;
    let gain = time.sd * (ahead * standard.cdf(ahead) + standard.pdf(ahead));
    standard.cdf(margin) * gain
}
