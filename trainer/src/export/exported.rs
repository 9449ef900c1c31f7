//! A model file from predictions of every mode: distils a student on the whole grid, quantises it and
//! computes the guard bands. Scores and choices come from that file, read back through the runtime.

use std::collections::{BTreeMap, BTreeSet};

use indicatif::ProgressBar;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use wattgate_runtime::{
    Axis, Factor, FormatError, Grid, GuardBand, Kind, Knot, LOG_LIMIT, MOST_MEASURED, ModeId,
    Model, Prediction, Provenance, Region, Shape, TimeSpread,
};

use super::student::distil;
use super::wgt::{Layers, ModelFile};
use crate::corpus::Corpus;
use crate::corpus::modes::{Known, all_modes};
use crate::learn::expected::{Expected, LeftOut, Residual};
use crate::learn::guard::{Candidate, Error, bands};
use crate::learn::predictions::{Errors, Predictions, Target};

/// ChaCha stream of the student; the split and the teachers use others.
const STUDENT_STREAM: u64 = 4;

/// What a model file says of its origin, and its grid.
#[derive(Clone, Debug)]
pub struct Origin {
    /// The modes that are predicted.
    pub grid: Grid,
    /// The modes that may be chosen.
    pub profiled: Region,
    /// Measured or simulated.
    pub kind: Kind,
    /// The board.
    pub device: String,
    /// The workload.
    pub workload: String,
    /// Samples in a minibatch, if known.
    pub minibatch: Option<u32>,
    /// The TPCs of the GPU that were gated, one bit each, if known.
    pub tpc_pg_mask: Option<u32>,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Number of modes that were measured for the model.
    pub modes_used: u16,
}

impl Origin {
    /// Of a corpus of which no mode is used yet.
    pub fn of(corpus: &Corpus) -> Self {
        Self {
            grid: corpus.grid.clone(),
            profiled: Region::all(&corpus.grid),
            kind: corpus.kind,
            device: corpus.device.clone(),
            workload: corpus.workload.clone(),
            minibatch: corpus.feeding.minibatch,
            tpc_pg_mask: corpus.tpc_pg_mask,
            seed: 0,
            modes_used: 0,
        }
    }
}

/// Predictions of every mode of a grid, and how far they are off.
#[derive(Clone, Debug)]
pub struct Surface {
    /// ln(time in µs), then ln(power in mW) if it is known: one list for each, in the order of the
    /// modes' ids.
    pub expected: Vec<Vec<Expected>>,
    /// Errors of predictions that have not seen what was measured.
    pub left_out: Vec<LeftOut>,
    /// The measured modes that `left_out` is of; empty if it is not of modes.
    pub measured: Vec<Known>,
}

/// A model file with the intermediate results of its training.
#[derive(Clone, Debug)]
pub struct Exported {
    /// The file. Its provenance states no held-out modes and no errors yet.
    pub bytes: Vec<u8>,
    /// Predictions of the file.
    pub predictions: Predictions,
    /// Predictions of the teachers.
    pub teacher: Predictions,
    /// Predictions of the student before quantisation.
    pub student: Predictions,
    /// ln(measured / predicted) of time and of power, each by a model that has not seen the measurement.
    pub left_out: [Option<Vec<f64>>; 2],
    origin: Origin,
    layers: Layers,
    least_spread: u16,
    time_spread: TimeSpread,
    measured: Vec<(ModeId, Prediction)>,
    time_guard: GuardBand,
    power_guard: Option<GuardBand>,
}

/// Largest standard deviation of ln power that a file states: the least range of a spread.
const MOST_SPREAD: f64 = 1.0;

/// Least standard deviation of ln power. The power of a steady workload moves by up to 1.2 % from second
/// to second and by up to 0.7 % from run to run (`jetson-platform.md`, addendum), and a dozen modes
/// measured once each cannot show it.
const LEAST_SPREAD: f64 = 0.014;

/// Standard deviation of ln time and of ln power from one run of a mode to the next. Repeats agree to
/// 0.8 and 1.5 % on a TX1 (`data/PROVENANCE.md`), and powers to 0.7 % on an AGX Orin.
pub const REPEAT: f64 = 0.01;

/// The deviations of a margin of 95 % of normal errors, by which measured modes are ranked.
const USUAL_DEVIATIONS: f64 = 1.645;

/// A measured mode that is slower than the front by more than this, in ln units, is never chosen.
const MOST_BEHIND: f64 = 0.1;

/// What is known of a mode whose measurement the others did not predict exactly: the logarithm that a new
/// run of it is expected to have, and its standard deviation. The reading and what all others predict are
/// weighted by their precisions.
fn combined(reading: f64, left_out: Residual) -> (f64, f64) {
    let noise = REPEAT * REPEAT;
    let of_others = (left_out.sd * left_out.sd).max(noise);
    let share = noise / of_others;
    let log = reading.ln() - share * left_out.log;
    // The others say nothing of a run's own noise, which is a part of their variance.
    let variance = noise + (of_others - noise) * share;
    (log, variance.sqrt())
}

/// Share of the modes of which the teacher is at least as sure of the time as the file says.
const ENVELOPE: f64 = 0.95;

/// The line y = base + slope·x with base and slope ≥ 0 and the least weighted squares, through points
/// (x, y, weight).
fn line(points: impl Iterator<Item = (f64, f64, f64)>) -> (f64, f64) {
    let mut sums = [0.0; 5];
    for (x, y, weight) in points {
        let terms = [1.0, x, y, x * x, x * y];
        for (sum, term) in sums.iter_mut().zip(terms) {
            *sum += weight * term;
        }
    }
    let [n, x, y, xx, xy] = sums;
    let determinant = n * xx - x * x;
    let slope = match determinant > 1e-12 * n * xx {
        true => ((n * xy - x * y) / determinant).max(0.0),
        false => 0.0,
    };
    let base = (y - slope * x) / n;
    match base >= 0.0 {
        true => (base, slope),
        false => (0.0, xy / xx),
    }
}

impl Exported {
    /// Distils a surface and encodes the model file. Advances `progress` by
    /// [`PROGRESS`](super::student::PROGRESS).
    pub fn of(
        origin: Origin,
        surface: &Surface,
        shape: Shape,
        progress: &ProgressBar,
    ) -> Result<Self, FormatError> {
        let of = |expected: &[Expected], f: fn(&Expected) -> f64| expected.iter().map(f).collect();
        let mut targets: Vec<Vec<f64>> = surface
            .expected
            .iter()
            .map(|expected| of(expected, |expected| expected.median))
            .collect();
        if let [_, power] = &surface.expected[..] {
            targets.push(of(power, |power| power.sd.clamp(LEAST_SPREAD, MOST_SPREAD)));
        }
        progress.set_message("student");
        let mut random = ChaCha8Rng::seed_from_u64(origin.seed);
        random.set_stream(STUDENT_STREAM);
        let student = distil(&origin.grid, shape, &targets, &mut random, progress);

        // The guard bands include the error of quantisation, so encode a draft without them and
        // compute them from its predictions.
        let unknown = |q16| Knot {
            per_ten_thousand: 5_000,
            q16,
        };
        let sound = "one knot without margin";
        let mut exported = Self {
            origin,
            bytes: Vec::new(),
            predictions: Predictions::of_logs(&targets),
            teacher: Predictions::of_logs(&targets),
            student: Predictions::of_logs(&student.log_predictions),
            left_out: [None, None],
            layers: student.layers,
            least_spread: 0,
            time_spread: TimeSpread::default(),
            measured: Vec::new(),
            time_guard: match targets.len() {
                1 => GuardBand::new([unknown(Factor::ONE.q16())]).expect(sound),
                _ => GuardBand::of_deviations([unknown(0)]).expect(sound),
            },
            power_guard: (targets.len() > 1)
                .then(|| GuardBand::of_deviations([unknown(0)]).expect(sound)),
        };
        let draft = exported.encode(0, &Errors::default());
        let model = Model::parse(&draft)?;
        if let ([_, power], [_, logs, sds]) = (&surface.expected[..], &targets[..]) {
            let predictions = Predictions::of_model(&model);
            let student = predictions.power.iter().flatten().zip(logs);
            let errors = student.map(|(student, teacher)| (student.ln() - teacher).powi(2));
            let square = errors.sum::<f64>() / power.len() as f64;
            let least = sds.iter().copied().fold(MOST_SPREAD, f64::min);
            // The student's errors come on top of the least of the teacher's.
            let least = (least * least + square).sqrt() / f64::from(model.spread_unit());
            exported.least_spread = least.min(f64::from(i16::MAX)) as u16;
        }
        exported.find_time_spread(surface)?;
        let draft = exported.encode(0, &Errors::default());
        let network = Model::parse(&draft)?;
        exported.find_measured(surface, &network);
        let draft = exported.encode(0, &Errors::default());
        exported.predictions = Predictions::of_model(&Model::parse(&draft)?);
        exported.find_guard_bands(surface, &Predictions::of_model(&network));
        exported.bytes = exported.encode(0, &Errors::default());
        Model::parse(&exported.bytes)?;
        Ok(exported)
    }

    /// Fits the spread of the time to what the teacher expects, as a line over the spread of the power that is
    /// raised until most modes lie below it.
    fn find_time_spread(&mut self, surface: &Surface) -> Result<(), FormatError> {
        let draft = self.encode(0, &Errors::default());
        let model = Model::parse(&draft)?;
        let predictions = Predictions::of_model(&model);
        let Some(spreads) = predictions.spread else {
            return Ok(());
        };
        let times = || predictions.time.iter().zip(&surface.expected[0]);
        let square = times()
            .map(|(time, teacher)| (time.ln() - teacher.median).powi(2))
            .sum::<f64>();
        let square = square / spreads.len() as f64;
        // Errors of a spread count as parts of it.
        let points = spreads.iter().zip(times()).map(|(&spread, (_, teacher))| {
            let wanted = (teacher.sd * teacher.sd + square).sqrt();
            (spread, wanted, wanted.powi(-2))
        });
        let points: Vec<(f64, f64, f64)> = points.collect();
        let (base, slope) = line(points.iter().copied());
        // Modes of which the teacher is less sure than the line says would need many deviations.
        let mut ratios: Vec<f64> = points
            .iter()
            .map(|(spread, wanted, _)| wanted / (base + slope * spread).max(f64::MIN_POSITIVE))
            .collect();
        ratios.sort_unstable_by(f64::total_cmp);
        let raise = ratios[(ENVELOPE * (ratios.len() - 1) as f64) as usize].max(1.0);
        let (base, slope) = (raise * base, raise * slope);
        let unit = f64::from(model.spread_unit());
        self.time_spread = TimeSpread {
            base: (base / unit).ceil().clamp(1.0, f64::from(i16::MAX)) as u16,
            slope: (slope * f64::from(TimeSpread::SLOPE_ONE))
                .ceil()
                .min(f64::from(TimeSpread::MOST_SLOPE)) as u16,
        };
        Ok(())
    }

    /// Chooses the measured modes that matter for a choice: those nearest to the front, by what is known
    /// of them or by what the network says.
    fn find_measured(&mut self, surface: &Surface, model: &Model<'_>) {
        let [time_scale, power_scale] = [0, 1].map(|output| {
            self.layers
                .output
                .get(output)
                .map_or(1.0, |row| f64::from(row.scale))
        });
        let raw = |log: f64, scale: f64| {
            let raw = log / scale;
            (raw.abs() <= f64::from(LOG_LIMIT)).then_some(raw.round() as i32)
        };
        let unit = f64::from(model.spread_unit());
        let known =
            surface
                .measured
                .iter()
                .zip(&surface.left_out)
                .filter_map(|(mode, left_out)| {
                    let (log_time, _) = combined(mode.time_us, left_out.time);
                    let (log_power, spread) = match (mode.power_mw, left_out.power) {
                        (Some(power), Some(left_out)) => {
                            let (log, sd) = combined(power, left_out);
                            (raw(log, power_scale)?, sd.max(LEAST_SPREAD) / unit)
                        }
                        _ if model.has_power() => return None,
                        _ => (0, 0.0),
                    };
                    let at = Prediction {
                        log_time: raw(log_time, time_scale)?,
                        log_power,
                        spread: spread.min(f64::from(i16::MAX)) as i32,
                    };
                    Some((ModeId(mode.id as u16), at))
                });
        let known: BTreeMap<ModeId, Prediction> = known.collect();
        // What counts, in ln units: time and power with as many deviations as a usual margin.
        let counts = |at: Prediction| {
            let spread = model.spread(at).map_or(0.0, f64::from);
            let of_time = model.time_spread(at).map_or(0.0, f64::from);
            [
                f64::from(at.log_time) * time_scale + USUAL_DEVIATIONS * of_time,
                f64::from(at.log_power) * power_scale + USUAL_DEVIATIONS * spread,
            ]
        };
        let mut all = Vec::new();
        let mut own: BTreeMap<ModeId, [f64; 2]> = BTreeMap::new();
        model.sweep(&model.profiled(), |mode, at| {
            own.insert(mode, counts(at));
            all.push(counts(known.get(&mode).copied().unwrap_or(at)));
        });
        all.sort_by(|[_, p], [_, q]| p.total_cmp(q));
        let mut fastest = f64::INFINITY;
        for [time, _] in &mut all {
            fastest = fastest.min(*time);
            *time = fastest;
        }
        // How much slower than the front a mode is, at its power.
        let behind = |[time, power]: [f64; 2]| {
            let within = all.partition_point(|[_, of]| *of <= power);
            within
                .checked_sub(1)
                .map_or(0.0, |last| time - all[last][0])
        };
        let mut ranked: Vec<(f64, ModeId)> = known
            .iter()
            .map(|(mode, at)| {
                let by_network = own.get(mode).map_or(f64::INFINITY, |own| behind(*own));
                (behind(counts(*at)).min(by_network), *mode)
            })
            .filter(|(behind, _)| *behind < MOST_BEHIND)
            .collect();
        ranked.sort_by(|(a, m), (b, n)| a.total_cmp(b).then(m.cmp(n)));
        ranked.truncate(MOST_MEASURED);
        let kept: BTreeSet<ModeId> = ranked.into_iter().map(|(_, mode)| mode).collect();
        self.measured = known
            .into_iter()
            .filter(|(mode, _)| kept.contains(mode))
            .collect();
    }

    /// `network` predicts without measured modes, as for a mode that was left out.
    fn find_guard_bands(&mut self, surface: &Surface, network: &Predictions) {
        let modes: Vec<[u32; 4]> = all_modes(&self.origin.grid).collect();
        let values = Axis::ALL.map(|axis| self.origin.profiled.values(&self.origin.grid, axis));
        let on_offer = |id: &usize| {
            let mut pairs = values.iter().zip(modes[*id]);
            pairs.all(|(values, knob)| values.contains(&knob))
        };
        // What is expected of a measured mode that the file knows.
        let mut known: BTreeMap<usize, [Option<(f64, f64)>; 2]> = BTreeMap::new();
        let in_file: BTreeSet<usize> = self
            .measured
            .iter()
            .map(|(mode, _)| usize::from(mode.0))
            .collect();
        for (mode, left_out) in surface.measured.iter().zip(&surface.left_out) {
            if in_file.contains(&mode.id) {
                let time = combined(mode.time_us, left_out.time);
                let power = mode.power_mw.zip(left_out.power);
                known.insert(
                    mode.id,
                    [Some(time), power.map(|(power, of)| combined(power, of))],
                );
            }
        }
        let candidate = |target: Target, id: usize| {
            let teacher = surface.expected.get(target as usize)?[id];
            let expected = known.get(&id).and_then(|of| of[target as usize]);
            let (median, sd) = expected.unwrap_or((teacher.median, teacher.sd));
            let log = target.predicted(&self.predictions)?[id].ln();
            let (spreads, least) = match target {
                Target::Time => (&self.predictions.time_spread, 0.0),
                Target::Power => (&self.predictions.spread, LEAST_SPREAD),
            };
            Some(Candidate {
                log,
                spread: spreads.as_ref().map_or(1.0, |all| all[id]),
                error: Error {
                    sd: sd.max(least),
                    offset: median - log,
                },
            })
        };
        let offered = (0..modes.len()).filter(on_offer).filter_map(|id| {
            let time = candidate(Target::Time, id)?;
            Some((time, candidate(Target::Power, id)))
        });
        let offered: Vec<_> = offered.collect();
        let left_out = &surface.left_out;
        let (time_guard, power_guard) = bands(left_out, &offered);
        let residuals = Target::ALL.map(|target| {
            let of = |(at, left_out): (usize, &LeftOut)| {
                let offset = match surface.measured.get(at) {
                    Some(mode) => {
                        let teacher = surface.expected.get(target as usize)?[mode.id];
                        teacher.median - target.predicted(network)?[mode.id].ln()
                    }
                    None => 0.0,
                };
                Some(left_out.of(target)?.log + offset)
            };
            let residuals: Vec<f64> = left_out.iter().enumerate().filter_map(of).collect();
            (!residuals.is_empty()).then_some(residuals)
        });
        (self.time_guard, self.power_guard, self.left_out) = (time_guard, power_guard, residuals);
    }

    /// Encodes the file with its errors on `held_out` modes in the provenance.
    pub fn encode(&self, held_out: usize, errors: &Errors) -> Vec<u8> {
        let origin = &self.origin;
        // The file stores units of 0.01 % in 16 bits; larger errors saturate.
        let hundredths = |mape: f64| (100.0 * mape).round() as u16;
        ModelFile {
            layers: &self.layers,
            grid: &origin.grid,
            profiled: origin.profiled,
            time_guard: &self.time_guard,
            power_guard: self.power_guard.as_ref(),
            least_spread: self.least_spread,
            time_spread: self.time_spread,
            measured: &self.measured,
            provenance: Provenance {
                kind: origin.kind,
                device: &origin.device,
                workload: &origin.workload,
                minibatch: origin.minibatch,
                seed: origin.seed,
                modes_used: origin.modes_used,
                modes_held_out: held_out as u16,
                time_error: errors.time_mape.map(hundredths),
                power_error: errors.power_mape.map(hundredths),
            },
            tpc_pg_mask: origin.tpc_pg_mask,
        }
        .encode()
    }

    /// Cross-validated errors on the training modes.
    pub fn left_out_errors(&self) -> Errors {
        let mape = |residuals: &Vec<f64>| {
            let errors = residuals
                .iter()
                .map(|residual| 100.0 * ((-residual).exp() - 1.0).abs());
            errors.sum::<f64>() / residuals.len() as f64
        };
        let [time_mape, power_mape] = self.left_out.each_ref().map(|of| of.as_ref().map(mape));
        Errors {
            time_mape,
            power_mape,
        }
    }

    /// The guard band of a target; `None` for power in a model of time alone.
    pub fn guard(&self, target: Target) -> Option<&GuardBand> {
        match target {
            Target::Time => Some(&self.time_guard),
            Target::Power => self.power_guard.as_ref(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_counts_as_much_as_it_is_surer_than_the_others() {
        let reading = 100.0_f64;
        let of = |log, sd| combined(reading, Residual { log, sd });
        // The others know as little as they say: the reading counts, and a repeat scatters by two runs.
        let (log, sd) = of(0.3, 0.5);
        assert!((log - reading.ln()).abs() < 2e-4, "{log}");
        assert!((sd - 2_f64.sqrt() * REPEAT).abs() < 1e-4, "{sd}");
        // What varies is a run's own noise: the others know the mode.
        let (log, sd) = of(0.015, REPEAT);
        assert!((log - (reading.ln() - 0.015)).abs() < 1e-12);
        assert!((sd - REPEAT).abs() < 1e-12);
        // In between, the deviation of a run from both lies in between as well.
        let (log, sd) = of(0.02, 2.0 * REPEAT);
        assert!((log - (reading.ln() - 0.005)).abs() < 1e-12);
        assert!((REPEAT..2_f64.sqrt() * REPEAT).contains(&sd));
    }

    #[test]
    fn a_line_has_no_negative_part() {
        let through = |points: &[(f64, f64)]| line(points.iter().map(|(x, y)| (*x, *y, 1.0)));
        let near = |(a, b): (f64, f64), (c, d): (f64, f64)| (a - c).abs() + (b - d).abs() < 1e-9;
        assert!(near(
            through(&[(1.0, 3.0), (2.0, 5.0), (4.0, 9.0)]),
            (1.0, 2.0)
        ));
        assert!(
            near(through(&[(1.0, 1.0), (2.0, 3.0)]), (0.0, 1.4)),
            "no base below 0"
        );
        assert!(
            near(through(&[(1.0, 3.0), (2.0, 1.0)]), (2.0, 0.0)),
            "no slope below 0"
        );
        assert!(
            near(through(&[(1.0, 3.0), (1.0, 5.0)]), (4.0, 0.0)),
            "one spread for all"
        );
    }
}
