//! The daemon's report for clients of the socket and for Prometheus.

use std::borrow::Cow;
use std::fmt::{self, Display};

use serde::{Deserialize, Serialize};
use wattgate_runtime::{Cause, State};

/// The daemon's status in whole numbers. A value that is unknown or not set is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// One of [`state_names`].
    pub state: Cow<'static, str>,
    /// The mode that the governor wants: online cores and clocks. While the board is yielded, the
    /// mode that it wanted before.
    pub cores: u32,
    pub cpu_khz: u32,
    pub gpu_khz: u32,
    pub emc_khz: u32,
    /// Measured power in the present mode, as the mean over 430 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_mw: Option<u32>,
    /// The model's prediction for the mode.
    pub predicted_mw: u32,
    /// The limit after deductions for the sensor's errors, heat, over-current and an average.
    pub allowed_mw: u32,
    /// Ratio of measured to predicted power in ppm.
    pub ratio_ppm: u64,
    /// The limit in force.
    pub limit_mw: u32,
    /// The source of the limit in force.
    pub limit_from: Source,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_mw: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_window_ms: Option<u64>,
    /// Predicted power of the safe mode; a lower limit cannot be held.
    pub least_mw: u32,
    /// File name of the model.
    pub model: String,
    // Counters since the start of the daemon.
    /// How often the power exceeded `allowed_mw`.
    pub violations: u32,
    /// Mode changes.
    pub changes: u32,
    /// Time during which the mean over 430 ms exceeded `allowed_mw`.
    pub over_limit_ms: u64,
    /// Energy drawn by the module.
    pub energy_mj: u64,
    /// How often the power sensor became unreadable.
    pub sensor_errors: u32,
    /// How often a mode could not be set.
    pub failed_changes: u32,
}

/// The source of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The config's `limit`.
    Config,
    /// The config's `schedule`.
    Schedule,
    /// Set over the socket.
    Socket,
    /// The lowest of the leases over the socket.
    Lease,
}

impl Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Config => "config",
            Self::Schedule => "schedule",
            Self::Socket => "socket",
            Self::Lease => "lease",
        })
    }
}

/// The name of the state in which a client has the board.
pub const YIELDED: &str = "yielded";

/// The names of all states.
pub fn state_names() -> impl Iterator<Item = &'static str> {
    STATES.into_iter().map(state_name).chain([YIELDED])
}

/// All states of the governor.
pub const STATES: [State; 8] = [
    State::Booting,
    State::Settling,
    State::Tracking,
    State::SteppingDown,
    State::ProbingUp,
    State::Safe(Cause::NoSensor),
    State::Safe(Cause::LimitTooLow),
    State::Safe(Cause::NothingApplies),
];

/// A state's name for programs; stable across releases.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::Booting => "booting",
        State::Settling => "settling",
        State::Tracking => "tracking",
        State::SteppingDown => "stepping_down",
        State::ProbingUp => "probing_up",
        State::Safe(Cause::NoSensor) => "safe_no_sensor",
        State::Safe(Cause::LimitTooLow) => "safe_limit_too_low",
        State::Safe(Cause::NothingApplies) => "safe_nothing_applies",
    }
}

/// One `key value` line per field.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn known<T: Display>(
            f: &mut fmt::Formatter<'_>,
            key: &str,
            value: Option<T>,
        ) -> fmt::Result {
            match value {
                Some(value) => writeln!(f, "{key} {value}"),
                None => Ok(()),
            }
        }
        let Self {
            cores,
            cpu_khz,
            gpu_khz,
            emc_khz,
            ..
        } = self;
        writeln!(f, "state {}", self.state)?;
        writeln!(
            f,
            "cores {cores}\ncpu_khz {cpu_khz}\ngpu_khz {gpu_khz}\nemc_khz {emc_khz}"
        )?;
        known(f, "measured_mw", self.measured_mw)?;
        writeln!(f, "predicted_mw {}", self.predicted_mw)?;
        writeln!(f, "allowed_mw {}", self.allowed_mw)?;
        writeln!(f, "ratio_ppm {}", self.ratio_ppm)?;
        writeln!(f, "limit_mw {}", self.limit_mw)?;
        writeln!(f, "limit_from {}", self.limit_from)?;
        known(f, "average_mw", self.average_mw)?;
        known(f, "average_window_ms", self.average_window_ms)?;
        writeln!(f, "least_mw {}", self.least_mw)?;
        writeln!(f, "model {}", self.model)?;
        writeln!(f, "violations {}", self.violations)?;
        writeln!(f, "changes {}", self.changes)?;
        writeln!(f, "over_limit_ms {}", self.over_limit_ms)?;
        writeln!(f, "energy_mj {}", self.energy_mj)?;
        writeln!(f, "sensor_errors {}", self.sensor_errors)?;
        writeln!(f, "failed_changes {}", self.failed_changes)
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn sample() -> Report {
        Report {
            state: "tracking".into(),
            cores: 8,
            cpu_khz: 1_728_000,
            gpu_khz: 918_000,
            emc_khz: 3_199_000,
            measured_mw: Some(14_210),
            predicted_mw: 13_900,
            allowed_mw: 14_962,
            ratio_ppm: 1_022_302,
            limit_mw: 15_000,
            limit_from: Source::Config,
            average_mw: Some(12_000),
            average_window_ms: Some(60_000),
            least_mw: 6_100,
            model: "model.wgt".to_owned(),
            violations: 2,
            changes: 17,
            over_limit_ms: 860,
            energy_mj: 1_234_567,
            sensor_errors: 1,
            failed_changes: 3,
        }
    }

    #[test]
    fn the_text_has_the_keys_and_values_of_the_json() {
        let report = sample();
        let object = serde_json::to_string(&report).expect("an object");
        let lines = report.to_string();
        let lines = lines.lines().map(|line| line.split_once(' ').expect("two"));
        let pairs = lines.map(|(key, value)| match value.parse::<u64>() {
            Ok(number) => format!("\"{key}\":{number}"),
            Err(_) => format!("\"{key}\":\"{value}\""),
        });
        let pairs: Vec<String> = pairs.collect();
        assert_eq!(object, format!("{{{}}}", pairs.join(",")));
    }

    #[test]
    fn unknown_values_are_absent() {
        let report = Report {
            measured_mw: None,
            average_mw: None,
            average_window_ms: None,
            ..sample()
        };
        let object = serde_json::to_string(&report).expect("an object");
        assert!(!object.contains("measured") && !object.contains("average"));
        let lines = report.to_string();
        assert!(!lines.contains("measured") && !lines.contains("average"));
        let read: Report = serde_json::from_str(&object).expect("a report");
        assert_eq!(read, report);
    }

    #[test]
    fn names_of_states_differ() {
        for state in state_names() {
            let same = state_names().filter(|it| *it == state);
            assert_eq!(same.count(), 1, "{state}");
        }
    }
}
