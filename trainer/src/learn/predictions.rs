//! Predictions for every mode of a grid and their errors on measured modes.

use std::fmt;

use serde::{Deserialize, Serialize};
use wattgate_runtime::guard::GuardError;
use wattgate_runtime::{Confidence, Model, Region};

use crate::corpus::modes::Known;

/// Predicted time and power of every mode of the grid, indexed by mode id.
#[derive(Clone, Debug)]
pub struct Predictions {
    /// Times in µs.
    pub time: Vec<f64>,
    /// Powers in mW; `None` for a model of time alone.
    pub power: Option<Vec<f64>>,
    /// Standard deviations of ln power, where they are predicted.
    pub spread: Option<Vec<f64>>,
    /// Standard deviations of ln time, where they are predicted.
    pub time_spread: Option<Vec<f64>>,
}

/// A predicted quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Time in µs.
    Time,
    /// Power in mW.
    Power,
}

impl Target {
    /// Both targets, time first.
    pub const ALL: [Self; 2] = [Self::Time, Self::Power];

    /// The measured value of a mode.
    pub fn measured(self, mode: &Known) -> Option<f64> {
        match self {
            Self::Time => Some(mode.time_us),
            Self::Power => mode.power_mw,
        }
    }

    /// The predicted values, indexed by mode id.
    pub fn predicted(self, predictions: &Predictions) -> Option<&[f64]> {
        match self {
            Self::Time => Some(&predictions.time),
            Self::Power => predictions.power.as_deref(),
        }
    }

    /// The reported unit (ms or mW) in the target's own unit (µs or mW).
    fn reported(self) -> f64 {
        match self {
            Self::Time => 1e3,
            Self::Power => 1.0,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Time => "time",
            Self::Power => "power",
        })
    }
}

impl<'de> Deserialize<'de> for Target {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let found = Self::ALL
            .into_iter()
            .find(|known| known.to_string() == name);
        found.ok_or_else(|| serde::de::Error::custom(format!("no target is named `{name}`")))
    }
}

impl Serialize for Target {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Predictions {
    /// Predictions from the targets of a student: ln µs, ln mW and the standard deviation of the
    /// latter if power is predicted.
    pub fn of_logs(logs: &[Vec<f64>]) -> Self {
        let natural = |log: &Vec<f64>| log.iter().map(|y| y.exp()).collect();
        Self {
            time: natural(&logs[0]),
            power: logs.get(1).map(natural),
            spread: logs.get(2).cloned(),
            time_spread: None,
        }
    }

    /// The runtime's predictions for every mode of the model's grid.
    pub fn of_model(model: &Model<'_>) -> Self {
        let modes = model.grid().modes() as usize;
        let [mut time, mut power, mut spread, mut time_spread] = [(); 4].map(|()| vec![0.0; modes]);
        model.sweep(&Region::all(model.grid()), |mode, prediction| {
            let id = usize::from(mode.0);
            time[id] = f64::from(model.time(prediction).0);
            power[id] = model
                .power(prediction)
                .map_or(0.0, |power| f64::from(power.0));
            spread[id] = model.spread(prediction).map_or(0.0, f64::from);
            time_spread[id] = model.time_spread(prediction).map_or(0.0, f64::from);
        });
        Self {
            time,
            power: model.has_power().then_some(power),
            spread: model.has_spread().then_some(spread),
            time_spread: model.has_time_spread().then_some(time_spread),
        }
    }

    /// The values that count for a deadline and a limit: the runtime's predictions with the margins of
    /// a confidence.
    pub fn guarded(model: &Model<'_>, confidence: Confidence) -> Result<Self, GuardError> {
        let margins = model.margins(confidence)?;
        let modes = model.grid().modes() as usize;
        let [mut time, mut power] = [(); 2].map(|()| vec![0.0; modes]);
        model.sweep(&Region::all(model.grid()), |mode, prediction| {
            let id = usize::from(mode.0);
            time[id] = f64::from(model.guarded_time(prediction, &margins).0);
            let guarded = model.guarded_power(prediction, &margins);
            power[id] = guarded.map_or(0.0, |power| f64::from(power.0));
        });
        Ok(Self {
            time,
            power: model.has_power().then_some(power),
            spread: None,
            time_spread: None,
        })
    }

    /// How far both targets are off on some modes.
    pub fn errors(&self, modes: &[Known]) -> Errors {
        let mape = |target| Some(self.accuracy(target, modes)?.mape);
        Errors {
            time_mape: mape(Target::Time),
            power_mape: mape(Target::Power),
        }
    }

    /// The errors of one target on some modes; `None` if none of them has a measured value.
    pub fn accuracy(&self, target: Target, modes: &[Known]) -> Option<Accuracy> {
        let predicted = target.predicted(self)?;
        let pairs = modes
            .iter()
            .filter_map(|mode| Some((target.measured(mode)?, predicted[mode.id])));
        Accuracy::from_pairs(pairs, target.reported())
    }
}

/// Mean absolute percentage errors of time and power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, Serialize)]
pub struct Errors {
    /// Error of the time in percent; `None` without held-out modes.
    pub time_mape: Option<f64>,
    /// Error of the power in percent; `None` without held-out modes or without power.
    pub power_mape: Option<f64>,
}

/// Errors on held-out modes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, Serialize)]
pub struct Accuracy {
    /// Mean absolute percentage error.
    pub mape: f64,
    /// Percentage of modes with an error of at most 5 %.
    pub within_5_pct: f64,
    /// Percentage of modes with an error of at most 10 %.
    pub within_10_pct: f64,
    /// Percentage of modes with an error of at most 15 %.
    pub within_15_pct: f64,
    /// Percentage of modes with an error of at most 20 %.
    pub within_20_pct: f64,
    /// Root mean square error, in ms or mW.
    pub rmse: f64,
    /// Mean absolute error, in ms or mW.
    pub mae: f64,
}

impl Accuracy {
    /// The errors of pairs (measured, predicted); `None` without pairs. RMSE and MAE are divided by
    /// `measure`.
    fn from_pairs(pairs: impl Iterator<Item = (f64, f64)>, measure: f64) -> Option<Self> {
        let errors: Vec<(f64, f64)> = pairs
            .map(|(measured, predicted)| {
                let error = (predicted - measured).abs();
                (100.0 * error / measured, error / measure)
            })
            .collect();
        let n = errors.len() as f64;
        let mean = |part: fn(&(f64, f64)) -> f64| errors.iter().map(part).sum::<f64>() / n;
        let within = |percent: f64| {
            let count = errors.iter().filter(|(error, _)| *error <= percent).count();
            100.0 * count as f64 / n
        };
        (!errors.is_empty()).then(|| Self {
            mape: mean(|(percent, _)| *percent),
            within_5_pct: within(5.0),
            within_10_pct: within(10.0),
            within_15_pct: within(15.0),
            within_20_pct: within(20.0),
            rmse: mean(|(_, error)| error * error).sqrt(),
            mae: mean(|(_, error)| *error),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measure_matches_its_definition() {
        let pairs = [(100.0, 104.0), (200.0, 170.0), (400.0, 400.0), (50.0, 62.0)];
        let accuracy = Accuracy::from_pairs(pairs.into_iter(), 2.0).expect("pairs");
        assert_eq!(accuracy.mape, (4.0 + 15.0 + 0.0 + 24.0) / 4.0);
        assert_eq!(
            [
                accuracy.within_5_pct,
                accuracy.within_10_pct,
                accuracy.within_15_pct,
                accuracy.within_20_pct
            ],
            [50.0, 50.0, 75.0, 75.0]
        );
        assert_eq!(accuracy.mae, (2.0 + 15.0 + 0.0 + 6.0) / 4.0);
        let square: f64 = (4.0 + 225.0 + 0.0 + 36.0) / 4.0;
        assert_eq!(accuracy.rmse, square.sqrt());
        assert_eq!(Accuracy::from_pairs([].into_iter(), 1.0), None);
    }
}
