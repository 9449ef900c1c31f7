//! How the units of a board differ: from corpora of several units to one corpus of their mean.
//!
//! On unit u, ln of a time or power in mode m is f(m) + level + tilt·(ln power − ln reference). f is the
//! physical Gaussian process of a teacher; level and tilt are random effects around 0, predicted given the process and all
//! readings (best linear unbiased prediction; Rasmussen and Williams, section 2.7). Readings are divided by the effects
//! of their unit, so that everything else sees one unit: the mean of those profiled. A time has no tilt.
//!
//! Another unit lies around that mean with the variance σ²·(1 + 1/n): its own, and that of the mean of n. σ² is
//! estimated from the published spread of boards, which counts for as many units as were measured, and from the effects found.
//! So a level of another unit follows Student's distribution.

use std::collections::BTreeMap;

use statrs::distribution::{ContinuousCDF, StudentsT};
use thiserror::Error;
use wattgate_runtime::fleet::{
    MOST_UNITS, POWER_SPREAD, TILT_SPREAD, TIME_SPREAD, UNITS_OF_SPREAD, UnitId,
};
use wattgate_runtime::format::crc32;
use wattgate_runtime::grid::{Axis, Grid, GridError};

use crate::corpus::modes::{Known, profiled};
use crate::corpus::units::{Doubt, Effect, Units};
use crate::corpus::{Corpus, Profile};
use crate::learn::blend::Blend;
use crate::learn::gp::{Process, SingularCovariance};
use crate::learn::mean::{Place, Scales};
use crate::learn::predictions::Target;
use crate::learn::priors::Priors;
use crate::learn::split::MIN_MODES;

/// Runs of one unit differ by less than this factor, as a logarithm: three times the 2.1 % by which repeats differ at the most
/// (`image5000` on a TX2).
const ONE_UNIT: f64 = 0.063;

/// Units of one board differ by less than this factor, as a logarithm: five deviations between two units. More is another
/// unit of measure, another load or another board.
const ONE_BOARD: f64 = 5.0 * std::f64::consts::SQRT_2 * POWER_SPREAD as f64;

/// A deviation of effects of which nothing is known before.
const ANY: [f64; 2] = [3.0, 0.0];

/// Modes of a corpus that decide on the effects: the process takes a time that grows with their cube.
const MODES_OF_EFFECTS: usize = 60;

/// The first round takes the differences between units for noise.
const EFFECT_ROUNDS: usize = 3;

/// Why corpora of several units are not one.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum JoinError {
    /// They differ in what they are of.
    #[error(
        "{name} is of {what} `{found}`, {first} of `{expected}`: a fit takes units of one board with one workload; leave one of the files out"
    )]
    Other {
        /// The file.
        name: String,
        /// The first file.
        first: String,
        /// Such as `workload`.
        what: &'static str,
        /// What the file says.
        found: String,
        /// What the first says.
        expected: String,
    },
    /// A copy says nothing of a second unit.
    #[error(
        "{name} has the readings of {first}, but each unit needs readings of its own; leave one of the files out"
    )]
    Copy {
        /// The file.
        name: String,
        /// The file of which it is a copy.
        first: String,
    },
    /// A unit has too few modes to tell how it differs.
    #[error("{name} has {found} profiled modes; a unit needs at least {MIN_MODES}; profile more")]
    Few {
        /// The file.
        name: String,
        /// Their number.
        found: usize,
    },
    /// One corpus has powers, another none.
    #[error("{name} has no power, but {first} has: profile both, or leave the power out of all")]
    NoPower {
        /// The file.
        name: String,
        /// A file with powers.
        first: String,
    },
    /// No two units of one board differ as much.
    #[error(
        "{name} has {ratio:.2} times the {what} of {first}, and no units of one board differ as much: is it in another unit \
         of measure, under another load, or of another board?"
    )]
    FarApart {
        /// The file.
        name: String,
        /// A file before.
        first: String,
        /// `time` or `power`.
        what: &'static str,
        /// The ratio.
        ratio: f64,
    },
    /// The axes of all have too many values.
    #[error("the modes of all files: {0}")]
    Grid(#[from] GridError),
    /// The measurements cannot be fitted.
    #[error("{0}")]
    SingularCovariance(#[from] SingularCovariance),
}

/// Joins corpora of units of one board with one workload, at least one, into that of their mean. Corpora of the same unit
/// count as one. Names are those of the files, one for each.
pub fn join(mut corpora: Vec<Corpus>, names: &[String]) -> Result<Corpus, JoinError> {
    let mut doubts = Vec::new();
    for (corpus, name) in corpora.iter_mut().zip(names) {
        if let Some(ratio) = mixed(corpus) {
            let name = name.clone();
            doubts.push(Doubt::Mixed { name, ratio });
            corpus.units = Units::one(None);
        }
    }
    if let [_] = corpora[..] {
        let mut corpus = corpora.remove(0);
        corpus.units.doubts = doubts;
        return Ok(corpus);
    }
    check(&corpora, names)?;
    let grid = joined_grid(&corpora)?;
    for corpus in &mut corpora {
        corpus.grid = grid.clone();
    }
    // Each file is a unit of its own at first, so that two units with one serial number are told apart.
    let alone: Vec<usize> = (0..corpora.len()).collect();
    let any = effects(&corpora, &alone, [ANY, ANY])?;
    for at in 1..corpora.len() {
        let [here, first] = [at, 0].map(|at| any.by_corpus[at]);
        let differ = [
            ("time", here.time - first.time),
            ("power", here.power - first.power),
        ];
        if let Some((what, ln)) = differ.into_iter().find(|(_, ln)| ln.abs() > ONE_BOARD) {
            return Err(JoinError::FarApart {
                name: names[at].clone(),
                first: names[0].clone(),
                what,
                ratio: ln.exp(),
            });
        }
    }
    let known =
        [[TIME_SPREAD, 0.0], [POWER_SPREAD, TILT_SPREAD]].map(|spreads| spreads.map(f64::from));
    let effects = effects(&corpora, &alone, known)?;
    let ids: Vec<Option<UnitId>> = corpora.iter().map(|it| it.units.profiled[0].0).collect();
    let mut strange = Vec::new();
    for (at, id) in ids.iter().enumerate() {
        let before = (0..at).find(|&before| id.is_some() && ids[before] == *id);
        let differ = before.map(|before| {
            (
                before,
                effects.by_corpus[at].power - effects.by_corpus[before].power,
            )
        });
        if let (Some(id), Some((before, ln))) = (id, differ.filter(|(_, ln)| ln.abs() > ONE_UNIT)) {
            strange.push(*id);
            doubts.push(Doubt::OneSerialNumber {
                names: [names[before].clone(), names[at].clone()],
                id: *id,
                ratio: ln.exp(),
            });
        }
    }
    // The unit of each file by number: files of one id are of one unit.
    let mut numbers: Vec<usize> = Vec::new();
    let mut units: Vec<Option<UnitId>> = Vec::new();
    for id in ids {
        let id = id.filter(|id| !strange.contains(id));
        let known = units.iter().position(|unit| id.is_some() && *unit == id);
        numbers.push(known.unwrap_or(units.len()));
        if known.is_none() {
            units.push(id);
        }
    }
    let effects = match units.len() == corpora.len() {
        true => effects,
        false => self::effects(&corpora, &numbers, known)?,
    };
    let unlisted = units.len().saturating_sub(MOST_UNITS);
    if unlisted > 0 {
        doubts.push(Doubt::TooMany { unlisted });
    }
    let first = corpora[0].clone();
    Ok(Corpus {
        has_cores: corpora.iter().all(|corpus| corpus.has_cores),
        rows: corpora.iter().map(|corpus| corpus.rows).sum(),
        idle: corpora
            .iter()
            .flat_map(|corpus| corpus.idle.clone())
            .collect(),
        modes: levelled(corpora, &numbers, &effects),
        units: Units {
            profiled: units.into_iter().zip(effects.by_corpus).collect(),
            reference_mw: Some(effects.reference_mw),
            doubts,
        },
        ..first
    })
}

/// The median over the modes of highest over lowest power, if it is more than one unit's.
fn mixed(corpus: &Corpus) -> Option<f64> {
    let ratio = |mode: &Profile| {
        let all = || mode.powers.iter().copied().map(f64::from);
        let [least, most] = [
            all().fold(f64::INFINITY, f64::min),
            all().fold(0.0, f64::max),
        ];
        (mode.powers.len() > 1).then_some(most / least)
    };
    let mut ratios: Vec<f64> = corpus.modes.iter().filter_map(ratio).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let median = ratios.get(ratios.len() / 2).copied()?;
    (median.ln() > ONE_UNIT).then_some(median)
}

fn check(corpora: &[Corpus], names: &[String]) -> Result<(), JoinError> {
    let (first, of_first) = (&names[0], said(&corpora[0]));
    let has_power = |corpus: &Corpus| corpus.modes.iter().any(|mode| !mode.powers.is_empty());
    let powered = corpora.iter().position(has_power);
    for (at, (corpus, name)) in corpora.iter().zip(names).enumerate() {
        for ((what, found), (_, expected)) in said(corpus).into_iter().zip(&of_first) {
            if found != *expected {
                return Err(JoinError::Other {
                    name: name.clone(),
                    first: first.clone(),
                    what,
                    found,
                    expected: expected.clone(),
                });
            }
        }
        let found = profiled(corpus).len();
        if found < MIN_MODES {
            let name = name.clone();
            return Err(JoinError::Few { name, found });
        }
        if let Some(powered) = powered.filter(|_| !has_power(corpus)) {
            let (name, first) = (name.clone(), names[powered].clone());
            return Err(JoinError::NoPower { name, first });
        }
        if let Some(before) = (0..at).find(|&before| is_copy(corpus, &corpora[before])) {
            let (name, first) = (name.clone(), names[before].clone());
            return Err(JoinError::Copy { name, first });
        }
    }
    Ok(())
}

/// What all corpora of a fit have in common.
fn said(corpus: &Corpus) -> [(&'static str, String); 5] {
    let number = |value: Option<u32>| value.map_or("-".to_owned(), |it| it.to_string());
    [
        ("board", corpus.device.clone()),
        ("workload", corpus.workload.clone()),
        ("kind", corpus.kind.to_string()),
        ("minibatch", number(corpus.feeding.minibatch)),
        ("tpc_pg_mask", number(corpus.tpc_pg_mask)),
    ]
}

/// Whether most common modes have equal readings.
fn is_copy(one: &Corpus, other: &Corpus) -> bool {
    let readings = |mode: &Profile| (mode.times.clone(), mode.powers.clone());
    let theirs: BTreeMap<[u32; 4], _> = other
        .modes
        .iter()
        .map(|mode| (mode.knobs, readings(mode)))
        .collect();
    let pairs = one
        .modes
        .iter()
        .filter(|mode| !mode.times.is_empty() || !mode.powers.is_empty())
        .filter_map(|mode| Some((readings(mode), theirs.get(&mode.knobs)?)));
    let (equal, all) = pairs.fold((0, 0), |(equal, all), (mine, theirs)| {
        (equal + usize::from(mine == *theirs), all + 1)
    });
    2 * equal > all
}

/// The grid with the values of all corpora.
pub fn joined_grid(corpora: &[Corpus]) -> Result<Grid, GridError> {
    let mut axes: [Vec<u32>; 4] = Default::default();
    for corpus in corpora {
        for (axis, values) in Axis::ALL.into_iter().zip(&mut axes) {
            values.extend(corpus.grid.axis(axis));
        }
    }
    for values in &mut axes {
        values.sort_unstable();
        values.dedup();
    }
    Grid::new(axes.each_ref().map(Vec::as_slice))
}

/// The effects of units, which sum to zero.
struct Effects {
    by_corpus: Vec<Effect>,
    reference_mw: f64,
}

/// A reading that decides on the effects.
struct Reading {
    unit: usize,
    known: Known,
}

/// The effects of units, given the unit of each corpus by number, and the deviations of level and tilt that are known before
/// of time and power.
fn effects(
    corpora: &[Corpus],
    numbers: &[usize],
    before: [[f64; 2]; 2],
) -> Result<Effects, JoinError> {
    let units = 1 + numbers.iter().copied().max().unwrap_or(0);
    let scales = Scales::from_grid(&corpora[0].grid);
    // Any order, but the same one in all corpora, so that they decide by the same modes.
    let place = |known: &Known| crc32(known.knobs.map(u32::to_le_bytes).as_flattened());
    let of_corpus = |(corpus, &unit): (&Corpus, &usize)| {
        let mut known = profiled(corpus);
        known.sort_by_key(place);
        known.truncate(MODES_OF_EFFECTS);
        known.into_iter().map(move |known| Reading { unit, known })
    };
    let pairs = corpora.iter().zip(numbers);
    let mut readings: Vec<Reading> = pairs.flat_map(of_corpus).collect();
    readings.sort_by_key(|reading| place(&reading.known));
    let blend = Blend::any_board(Priors::shipped());
    let of_target = |target: Target, places: &[Place], readings: &[(usize, f64)], tilts: &[f64]| {
        let spec = blend.physical(target, places.len());
        let sds = before[target as usize];
        let mut found = vec![[0.0; 2]; units];
        for _ in 0..EFFECT_ROUNDS {
            let corrected = readings.iter().zip(tilts).map(|((unit, log), tilt)| {
                let [level, slope] = found[*unit];
                log - level - slope * tilt
            });
            let corrected: Vec<f64> = corrected.collect();
            let process = Process::fit_map(&spec, places, &corrected)?;
            let logs: Vec<f64> = readings.iter().map(|(_, log)| *log).collect();
            let design = |at: usize| {
                let (part, own) = (at / units, at % units);
                let entry = |((unit, _), tilt): (&(usize, f64), &f64)| match (*unit == own, part) {
                    (false, _) => 0.0,
                    (true, 0) => 1.0,
                    (true, _) => *tilt,
                };
                readings.iter().zip(tilts).map(entry).collect()
            };
            let parts = if sds[1] > 0.0 { 2 } else { 1 };
            let designs: Vec<Vec<f64>> = (0..parts * units).map(design).collect();
            let spreads: Vec<f64> = (0..parts * units).map(|at| sds[at / units]).collect();
            let effects = process.random_effects(&logs, &designs, &spreads)?;
            for (at, effect) in effects.into_iter().enumerate() {
                found[at % units][at / units] = effect;
            }
            for part in 0..2 {
                let mean = found.iter().map(|effect| effect[part]).sum::<f64>() / units as f64;
                found.iter_mut().for_each(|effect| effect[part] -= mean);
            }
        }
        Ok::<_, JoinError>(found)
    };
    let places: Vec<Place> = readings
        .iter()
        .map(|reading| scales.place(reading.known.knobs))
        .collect();
    let times: Vec<(usize, f64)> = readings
        .iter()
        .map(|reading| (reading.unit, reading.known.time_us.ln()))
        .collect();
    let of_time = of_target(Target::Time, &places, &times, &vec![0.0; times.len()])?;
    let levelled = |at: usize| times[at].1 - of_time[times[at].0][0];
    let centre = (0..times.len()).map(levelled).sum::<f64>() / times.len() as f64;
    let powered: Vec<(usize, f64)> = readings
        .iter()
        .enumerate()
        .filter_map(|(at, reading)| Some((at, reading.known.power_mw?.ln())))
        .collect();
    let mut effects = Effects {
        by_corpus: of_time
            .iter()
            .map(|[time, _]| Effect {
                time: *time,
                ..Effect::default()
            })
            .collect(),
        reference_mw: 1.0,
    };
    if powered.is_empty() {
        return Ok(effects);
    }
    let reference = powered.iter().map(|(_, log)| log).sum::<f64>() / powered.len() as f64;
    effects.reference_mw = reference.exp();
    let places: Vec<Place> = powered
        .iter()
        .map(|&(at, _)| Place {
            log_time: levelled(at) - centre,
            ..places[at]
        })
        .collect();
    let powers: Vec<(usize, f64)> = powered
        .iter()
        .map(|&(at, log)| (readings[at].unit, log))
        .collect();
    let tilts: Vec<f64> = powered.iter().map(|(_, log)| log - reference).collect();
    let of_power = of_target(Target::Power, &places, &powers, &tilts)?;
    for (effect, [level, tilt]) in effects.by_corpus.iter_mut().zip(of_power) {
        (effect.power, effect.tilt) = (level, tilt);
    }
    Ok(effects)
}

/// The modes of all corpora, with readings as on the mean unit.
fn levelled(corpora: Vec<Corpus>, numbers: &[usize], effects: &Effects) -> Vec<Profile> {
    let mut modes: BTreeMap<[u32; 4], Profile> = BTreeMap::new();
    for (corpus, &number) in corpora.into_iter().zip(numbers) {
        let Effect { time, power, tilt } = effects.by_corpus[number];
        let at_time = |run: &f32| (f64::from(*run) * (-time).exp()) as f32;
        let at_power = |run: &f32| {
            // ln measured = ln mean + power + tilt·(ln mean − ln reference).
            let above = (f64::from(*run) / effects.reference_mw).ln();
            (effects.reference_mw * ((above - power) / (1.0 + tilt)).exp()) as f32
        };
        for mode in corpus.modes {
            let all = modes.entry(mode.knobs).or_insert_with(|| Profile {
                knobs: mode.knobs,
                times: Vec::new(),
                powers: Vec::new(),
                fetches: Vec::new(),
                computes: Vec::new(),
            });
            all.times.extend(mode.times.iter().map(at_time));
            all.powers.extend(mode.powers.iter().map(at_power));
            all.fetches.extend(mode.fetches.iter().map(at_time));
            all.computes.extend(mode.computes.iter().map(at_time));
        }
    }
    modes.into_values().collect()
}

/// How far another unit may lie from the mean of those profiled, in ln of a target.
#[derive(Clone, Debug)]
pub struct Spread {
    /// Scales of Student's distribution of the level and of the tilt.
    level: f64,
    tilt: f64,
    /// ln of the power at which a tilt changes nothing.
    reference: f64,
    /// Its probabilities of a higher value, at steps of [`STEP`] from 0 on.
    tails: Vec<f64>,
}

/// Resolution and range of the tabulated tail.
const STEP: f64 = 1.0 / 64.0;
const RANGE: f64 = 32.0;

impl Spread {
    /// From the units that were profiled, and ln of the power in mW at which a tilt changes nothing.
    pub fn from_units(units: &Units, target: Target, reference: f64) -> Self {
        let n = units.certain() as f64;
        let of_prior = f64::from(UNITS_OF_SPREAD) - 1.0;
        let freedom = of_prior + n - 1.0;
        let scale = |prior: f32, part: &dyn Fn(&Effect) -> f64| {
            let squares = units
                .profiled
                .iter()
                .map(|(_, effect)| part(effect).powi(2));
            let known = of_prior * f64::from(prior).powi(2);
            ((known + squares.sum::<f64>()) / freedom * (1.0 + 1.0 / n)).sqrt()
        };
        let (level, tilt) = match target {
            Target::Time => (scale(TIME_SPREAD, &|effect| effect.time), 0.0),
            Target::Power => (
                scale(POWER_SPREAD, &|effect| effect.power),
                scale(TILT_SPREAD, &|effect| effect.tilt),
            ),
        };
        let student = StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom");
        let steps = 0..=(RANGE / STEP) as usize;
        Self {
            level,
            tilt,
            reference,
            tails: steps.map(|at| student.sf(at as f64 * STEP)).collect(),
        }
    }

    /// The probability that the logarithm of another unit exceeds the prediction by more than `above`, in a mode with a
    /// predicted logarithm.
    pub fn exceeds(&self, above: f64, log: f64) -> f64 {
        let at = above / self.level.hypot(self.tilt * (log - self.reference));
        let tail = self.tail(at.abs());
        if at < 0.0 { 1.0 - tail } else { tail }
    }

    fn tail(&self, at: f64) -> f64 {
        let place = at / STEP;
        let (below, part) = (place as usize, place.fract());
        match self.tails.get(below..below + 2) {
            Some([low, high]) => low + part * (high - low),
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wattgate_runtime::Model;
    use wattgate_runtime::guard::GuardBand;

    /// The runtime's table for files that say nothing of units is what this distribution gives for one unit.
    #[test]
    fn the_runtime_knows_the_spread_of_one_unit() {
        let old = include_bytes!("../../../weights/golden/version-3-spread.wgt");
        let fleet = Model::parse(old).and_then(|model| model.fleet());
        let [time, power] = fleet.expect("a model").others().clone();
        let one = Units::one(None);
        let check = |target: Target, band: GuardBand| {
            let spread = Spread::from_units(&one, target, 9.0);
            for knot in band.knots() {
                let above = (f64::from(knot.q16) / 65_536.0).ln();
                let risk = 1.0 - f64::from(knot.per_ten_thousand) / 1e4;
                let found = spread.exceeds(above, 9.0);
                assert!(
                    (found / risk - 1.0).abs() < 2e-3,
                    "{target} {risk}: {found}"
                );
            }
        };
        check(Target::Time, time);
        check(Target::Power, power);
    }

    #[test]
    fn more_units_make_others_better_known() {
        let units = |levels: &[f64]| Units {
            profiled: levels
                .iter()
                .map(|&power| {
                    let effect = Effect {
                        power,
                        ..Effect::default()
                    };
                    (Some(UnitId(power.to_bits() as u32)), effect)
                })
                .collect(),
            reference_mw: Some(1e4),
            doubts: Vec::new(),
        };
        let risk = |levels: &[f64]| {
            Spread::from_units(&units(levels), Target::Power, 9.2).exceeds(0.15, 9.2)
        };
        let s = f64::from(POWER_SPREAD);
        let five = [-1.2 * s, -0.6 * s, 0.0, 0.6 * s, 1.2 * s];
        assert!(risk(&five) < 0.8 * risk(&[0.0]));
        // Where the profiled units differ by more than published, less is known of another unit.
        assert!(risk(&five.map(|level| 2.0 * level)) > 1.2 * risk(&five));
        let spread = Spread::from_units(&units(&five), Target::Power, 9.2);
        assert!((spread.exceeds(0.0, 9.2) - 0.5).abs() < 1e-12);
        assert!((spread.exceeds(-0.1, 9.2) + spread.exceeds(0.1, 9.2) - 1.0).abs() < 1e-12);
        assert!(spread.exceeds(0.1, 10.5) > spread.exceeds(0.1, 9.2), "tilt");
        assert_eq!(spread.exceeds(1e9, 9.2), 0.0);
    }
}
