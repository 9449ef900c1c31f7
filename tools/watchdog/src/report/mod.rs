//! The daemon's report for clients of the socket and for Prometheus.

mod text;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use wattgate_runtime::Milliwatts;
use wattgate_runtime::governor::{Cause, State};

pub use self::text::{Joules, NAMELESS, Rate};
use crate::limits::Setter;
pub use crate::limits::Source;
use crate::quantity::{Place, Placed};

/// The daemon's status in whole numbers. A value that is unknown or not set is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Whether the daemon sets modes for its limit. False while it only observes, and while a client has the board.
    #[serde(default = "always")]
    pub holding: bool,
    /// One of [`state_names`].
    pub state: Cow<'static, str>,
    /// Online cores and clocks as the board showed them last; a clock that it does not show is the one that the
    /// governor wants.
    pub cores: u32,
    pub cpu_khz: u32,
    pub gpu_khz: u32,
    pub emc_khz: u32,
    /// Measured power in the present mode, as the mean over 430 ms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_mw: Option<u32>,
    /// The model's prediction for the mode; 0 if it is not used.
    pub predicted_mw: u32,
    /// The most that the next faster mode would draw under the highest load of the last time; absent in the fastest mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faster_mw: Option<u32>,
    /// The limit after deductions for the sensor's errors, heat, over-current and an average.
    pub allowed_mw: u32,
    /// Ratio of measured to predicted power in ppm; 0 without a prediction.
    pub ratio_ppm: u64,
    /// The limit in force.
    pub limit_mw: u32,
    /// The source of the limit in force.
    pub limit_from: Source,
    /// The client that set the limit in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_by: Option<Setter>,
    /// Time after which a client's limit expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_for_ms: Option<u64>,
    /// The highest limit that holds whatever clients ask for.
    #[serde(default)]
    pub max_limit_mw: u32,
    /// For how long the power has been over the limit, though nothing lower can be set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over_for_ms: Option<u64>,
    /// Whether a change of the lowerings is not on the disk yet, so that a reboot would lose it.
    #[serde(default)]
    pub unsaved: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_mw: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub average_window_ms: Option<u64>,
    /// Where all limits hold. `measured_mw`, `predicted_mw`, `allowed_mw`, `least_mw`, `energy_mj` and the violations are
    /// the module's in any case.
    #[serde(default)]
    pub limit_at: Place,
    /// What of the supply's limit is left for the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module_limit_mw: Option<u32>,
    /// Power of the supply, as the mean over 430 ms: the higher of what follows from the module's power and what the meter
    /// shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supply_mw: Option<u32>,
    /// What the meter showed above what follows from the module's power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub supply_added_mw: Option<u32>,
    /// What the meter shows; absent while it counts as absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter_mw: Option<u32>,
    /// Why the meter counts as absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meter_fault: Option<String>,
    /// What makes the board slower than the mode: `cooling`, `firmware`, or both with a comma.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled: Option<Cow<'static, str>>,
    /// Temperature of the hottest thermal zone in thousandths of a °C.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature_mc: Option<i64>,
    /// Voltage and current at the module's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_mv: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_ma: Option<u32>,
    /// The clocks that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_cpu_khz: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_gpu_khz: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delivered_emc_khz: Option<u32>,
    /// Events of the over-current protection since the boot: under-voltage, average power, and
    /// instantaneous power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oc1_events: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oc2_events: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oc3_events: Option<u64>,
    /// Those of the last minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oc1_per_min: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oc2_per_min: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oc3_per_min: Option<u64>,
    /// Predicted power of the safe mode; a lower limit cannot be held.
    pub least_mw: u32,
    /// File name of the model; `None`: the limit is held by measurement alone.
    pub model: Option<String>,
    /// The part of the GPU that is gated off until a reboot, and what gives it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gated: Option<String>,
    /// Whether the model was made of this unit of the board, and what it costs if not.
    #[serde(default)]
    pub unit: String,
    /// What a daemon that writes nothing has observed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<Observed>,
    /// What is minimised below the limit, and the deadline; absent for the fastest mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<String>,
    /// What a deadline would need that the limit does not allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmet: Option<String>,
    /// The steps that the workload has told: under the newest lease's aim, or else to the socket for steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// At most eight of the workloads that tell their steps. Anybody may tell any number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<ReportedWorkload>,
    /// The user whose steps come faster than they are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flooded_by: Option<u32>,
    /// What is left of the time for the work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remaining_ms: Option<u64>,
    /// A step in the present mode, and in the next slower one: measured time and power where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Step>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slower_step: Option<Step>,
    /// Energy since the newest lease began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_mj: Option<u64>,
    /// What is left of the config's budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_left_mj: Option<u64>,
    // Counters since the start of the daemon.
    /// How often the power exceeded `allowed_mw`.
    pub violations: u32,
    /// Mode changes.
    pub changes: u32,
    /// Time during which the mean over 430 ms exceeded `allowed_mw`.
    pub over_limit_ms: u64,
    /// Time without a reading of the power, in which the limit may have been exceeded.
    #[serde(default)]
    pub unknown_ms: u64,
    /// Energy drawn by the module.
    pub energy_mj: u64,
    /// How often the power sensor became unreadable.
    pub sensor_errors: u32,
    /// How often a mode could not be set.
    pub failed_changes: u32,
    /// How often the daemon looked at the board 50 ms late or more: something kept it from running.
    #[serde(default)]
    pub late_looks: u32,
    /// All lowerings and leases.
    #[serde(default)]
    pub claims: Vec<Claim>,
    /// The knobs that do not obey.
    #[serde(default)]
    pub disobedient: Vec<ReportedKnob>,
    /// The last violations, the newest first; at most eight.
    #[serde(default)]
    pub last_violations: Vec<ReportedViolation>,
}

/// Daemons before the key held their limit whenever they did not tell `yielded`.
fn always() -> bool {
    true
}

/// What a daemon that writes nothing has observed since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observed {
    pub for_ms: u64,
    /// Highest mean power over 430 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_mw: Option<u32>,
    /// The speed in the modes that would have been set, in percent of the board's: while the power was over
    /// `allowed_mw`, and else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_over_pct: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_within_pct: Option<u32>,
    /// The mode that would be set now; absent before the board was measured, and if the model's predictions are not used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub would_set: Option<WouldSet>,
}

/// A mode that would be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WouldSet {
    pub cores: u32,
    pub cpu_khz: u32,
    pub gpu_khz: u32,
    pub emc_khz: u32,
    /// Its expected power.
    pub power_mw: u32,
    /// Its expected speed, in percent of the present mode's; absent if the model does not know the present mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_pct: Option<u32>,
}

/// A workload that tells its steps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedWorkload {
    /// The name that it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The user of the sender, and its process; absent where Linux does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Its steps so far, and when they last became more, in ms since the board's boot.
    pub steps: u64,
    pub at_ms: u64,
    /// Whether it has done no step for two seconds, and for the time of three.
    pub idle: bool,
    /// Time and energy of a step, as means of the last ten seconds. The energy is the module's, so it is absent while several
    /// workloads tell steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_us: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_uj: Option<u64>,
    /// What it tells beside its steps: the time in which they waited for data, that in which the GPU computed, and the samples of a
    /// step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fetch_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_us: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u32>,
}

/// Time in µs and energy in µJ of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    pub us: u32,
    pub uj: u64,
}

/// A limit that a client claims: a lowering, whose source is `socket`, or a lease.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub source: Source,
    pub by: Setter,
    pub limit_mw: u32,
    /// The limit of its average, which holds beside all others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_mw: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub average_window_ms: Option<u64>,
    /// Time after which it ends; absent if it does not by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub for_ms: Option<u64>,
}

/// A knob that does not obey, with values in the unit of its file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedKnob {
    /// The path of its file.
    pub knob: String,
    /// What was requested.
    pub wanted: i64,
    /// What the board shows; absent if it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is: Option<i64>,
}

/// A violation: the power exceeded `allowed_mw`, and the daemon set another mode.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedViolation {
    /// Time since the daemon answered.
    pub ago_ms: u64,
    /// Time during which the mean over 430 ms exceeded `allowed_mw`; 0 if the answer came before.
    pub over_ms: u64,
    /// The highest such mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highest_mw: Option<u32>,
    pub allowed_mw: u32,
    /// The mode that was set.
    pub cores: u32,
    pub cpu_khz: u32,
    pub gpu_khz: u32,
    pub emc_khz: u32,
}

/// The name of the state in which a client has the board.
pub const YIELDED: &str = "yielded";

/// The name of the state in which the daemon writes nothing, as its config says.
pub const OBSERVING: &str = "observing";

/// The name of the state in which even the least mode is over the limit.
pub const OVER_LIMIT: &str = "over_limit";

/// The names of all states.
pub fn state_names() -> impl Iterator<Item = &'static str> {
    STATES
        .into_iter()
        .map(state_name)
        .chain([YIELDED, OVER_LIMIT, OBSERVING])
}

/// The first line about a daemon that only observes.
pub const NOT_HOLDING: &str = "NOT HOLDING: the daemon only observes, as its config says; take `observe = true` out, and \
                               type `systemctl restart wattgated`";

/// All states of the governor.
pub const STATES: [State; 8] = [
    State::Booting,
    State::Settling,
    State::Tracking,
    State::SteppingDown,
    State::ProbingUp,
    State::Safe(Cause::NoSensor),
    State::Safe(Cause::CannotHold),
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
        State::Safe(Cause::CannotHold) => "safe_cannot_hold",
        State::Safe(Cause::NothingApplies) => "safe_nothing_applies",
    }
}

impl Report {
    /// The measured power where the limit holds.
    pub fn measured_at_limit(&self) -> Option<u32> {
        match self.limit_at {
            Place::Module => self.measured_mw,
            Place::Supply => self.supply_mw,
        }
    }

    /// What the module may draw under the limit.
    pub fn limit_of_module(&self) -> Milliwatts {
        Milliwatts(self.module_limit_mw.unwrap_or(self.limit_mw))
    }

    /// A power of the limit, for messages.
    pub fn at_limit(&self, power: Milliwatts) -> Placed {
        let place = Some(self.limit_at).filter(|it| *it == Place::Supply);
        Placed(power, place)
    }

    /// A power of the module, for messages.
    pub fn at_module(&self, power: Milliwatts) -> Placed {
        let is_supply = self.limit_at == Place::Supply;
        Placed(power, is_supply.then_some(Place::Module))
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::limits::Owner;

    pub fn sample() -> Report {
        Report {
            holding: true,
            state: "tracking".into(),
            cores: 8,
            cpu_khz: 1_728_000,
            gpu_khz: 918_000,
            emc_khz: 3_199_000,
            measured_mw: Some(14_210),
            predicted_mw: 13_900,
            faster_mw: Some(15_210),
            allowed_mw: 14_962,
            ratio_ppm: 1_022_302,
            limit_mw: 15_000,
            limit_from: Source::Socket,
            limit_by: Some(Setter::new(Owner::Uid(1_000), 4_711, Some("guard.py"))),
            limit_for_ms: Some(540_000),
            max_limit_mw: 30_000,
            over_for_ms: Some(1_300),
            unsaved: true,
            claims: vec![Claim {
                source: Source::Socket,
                by: Setter::new(Owner::Uid(1_000), 4_711, Some("guard.py")),
                limit_mw: 15_000,
                average_mw: Some(12_000),
                average_window_ms: Some(60_000),
                for_ms: Some(540_000),
            }],
            average_mw: Some(12_000),
            average_window_ms: Some(60_000),
            limit_at: Place::Supply,
            module_limit_mw: Some(12_000),
            supply_mw: Some(14_900),
            supply_added_mw: Some(600),
            meter_mw: Some(14_700),
            meter_fault: Some("stands still".to_owned()),
            throttled: Some("cooling".into()),
            temperature_mc: Some(61_500),
            input_mv: Some(4_984),
            input_ma: Some(2_851),
            delivered_cpu_khz: Some(1_725_113),
            delivered_gpu_khz: Some(918_000),
            delivered_emc_khz: Some(3_199_000),
            oc1_events: Some(0),
            oc2_events: Some(3),
            oc3_events: Some(27_390),
            oc1_per_min: Some(0),
            oc2_per_min: Some(1),
            oc3_per_min: Some(456),
            least_mw: 6_100,
            model: Some("model.wgt".to_owned()),
            gated: None,
            unit: "8ff8117c, profiled for the model".to_owned(),
            observed: None,
            aim: None,
            unmet: None,
            steps: None,
            workloads: vec![ReportedWorkload {
                name: Some("yolo".to_owned()),
                uid: Some(1_000),
                pid: Some(4_712),
                steps: 86_400,
                at_ms: 3_600_000,
                idle: false,
                step_us: Some(23_200),
                step_uj: Some(431_000),
                fetch_us: Some(1_250_000),
                compute_us: Some(1_900_000_000),
                items: Some(16),
            }],
            flooded_by: Some(1_001),
            remaining_ms: None,
            step: None,
            slower_step: None,
            lease_mj: None,
            budget_left_mj: None,
            violations: 2,
            changes: 17,
            over_limit_ms: 860,
            unknown_ms: 1_250,
            energy_mj: 1_234_567,
            sensor_errors: 1,
            failed_changes: 3,
            late_looks: 4,
            disobedient: vec![
                ReportedKnob {
                    knob: "/sys/devices/system/cpu/cpu11/online".to_owned(),
                    wanted: 0,
                    is: Some(1),
                },
                ReportedKnob {
                    knob: "/sys/kernel/debug/bpmp/debug/clk/emc/rate".to_owned(),
                    wanted: 2_133_000_000,
                    is: None,
                },
            ],
            last_violations: vec![
                ReportedViolation {
                    ago_ms: 12_345,
                    over_ms: 0,
                    highest_mw: None,
                    allowed_mw: 14_962,
                    cores: 8,
                    cpu_khz: 1_728_000,
                    gpu_khz: 918_000,
                    emc_khz: 3_199_000,
                },
                ReportedViolation {
                    ago_ms: 3_600_000,
                    over_ms: 280,
                    highest_mw: Some(16_210),
                    allowed_mw: 14_962,
                    cores: 4,
                    cpu_khz: 1_190_400,
                    gpu_khz: 612_000,
                    emc_khz: 2_133_000,
                },
            ],
        }
    }

    /// A report without the values that may be unknown.
    pub fn unknown() -> Report {
        Report {
            measured_mw: None,
            limit_by: None,
            limit_for_ms: None,
            over_for_ms: None,
            claims: Vec::new(),
            workloads: Vec::new(),
            flooded_by: None,
            average_mw: None,
            average_window_ms: None,
            module_limit_mw: None,
            supply_mw: None,
            supply_added_mw: None,
            meter_mw: None,
            meter_fault: None,
            throttled: None,
            temperature_mc: None,
            input_mv: None,
            input_ma: None,
            delivered_cpu_khz: None,
            delivered_gpu_khz: None,
            delivered_emc_khz: None,
            oc1_per_min: None,
            oc2_per_min: None,
            oc3_per_min: None,
            oc1_events: None,
            oc2_events: None,
            oc3_events: None,
            ..sample()
        }
    }

    #[test]
    fn the_text_has_the_keys_of_the_json_and_values_with_units() {
        let report = sample();
        let text = report.to_string();
        assert_eq!(
            text,
            "state tracking\ncores 8\ncpu 1728 MHz\ngpu 918 MHz\nemc 3199 MHz\nmeasured 14.21 W at the module\n\
             predicted 13.9 W at the module\nfaster 15.21 W at the module\nallowed 14.962 W at the module\nratio 1.022\nlimit 15 W at the supply\nlimit_from socket\n\
             limit_by uid 1000, pid 4711, guard.py\nlimit_for 540 s\nmax_limit 30 W at the supply\nover_for 1.3 s\n\
             unsaved a change of the lowered limits\naverage 12 W at the supply\naverage_window 1 min\n\
             limit_at supply\nmodule_limit 12 W\nsupply 14.9 W\nsupply_added 0.6 W\nmeter 14.7 W\nmeter_fault stands still\nthrottled cooling\ntemperature 61.5 °C\n\
             input 4.984 V\ninput 2.851 A\ndelivered_cpu 1725.113 MHz\ndelivered_gpu 918 MHz\n\
             delivered_emc 3199 MHz\noc1_events 0\noc2_events 3\noc3_events 27390\noc1_per_min 0\n\
             oc2_per_min 1\noc3_per_min 456\nleast 6.1 W at the module\nmodel model.wgt\nunit 8ff8117c, profiled for the model\n\
             workloads 1\n  yolo at 43.1 steps/s, 0.431 J a step; uid 1000, pid 4712; 86400 steps\nflooded_by uid 1001\n\
             violations 2\nchanges 17\nover_limit 0.86 s\nunknown 1.25 s\nenergy 1234.567 J\nsensor_errors 1\n\
             failed_changes 3\nlate_looks 4\nclaims 1\n  \
             15 W and 12 W over 1 min, from the socket of uid 1000, pid 4711, guard.py, for 540 s more\ndisobedient 2\n  /sys/devices/system/cpu/cpu11/online: wanted 0, is 1\n  \
             /sys/kernel/debug/bpmp/debug/clk/emc/rate: wanted 2133000000, cannot be read\n\
             last_violations 2\n  \
             12 s ago: 14.962 W allowed; set 8 cores, CPU 1728000 kHz, GPU 918000 kHz, EMC 3199000 kHz\n  \
             3600 s ago: 16.21 W for 0.28 s with 14.962 W allowed; set 4 cores, CPU 1190400 kHz, GPU \
             612000 kHz, EMC 2133000 kHz\n"
        );
        let report = Report {
            limit_by: None,
            claims: Vec::new(),
            workloads: Vec::new(),
            disobedient: Vec::new(),
            ..report
        };
        let text = report.to_string();
        let object = serde_json::to_string(&report).expect("an object");
        let (object, _) = object.split_once(":[{").expect("a list");
        let object = format!("{object}:");
        let keys = object.split('"').filter(|word| {
            let after = object.split_once(&format!("\"{word}\":"));
            after.is_some()
        });
        let units = ["_mw", "_khz", "_ms", "_mj", "_ppm", "_mc", "_mv", "_ma"];
        let keys = keys.map(|key| {
            let unit = units.into_iter().find_map(|unit| key.strip_suffix(unit));
            unit.unwrap_or(key)
        });
        // A sentence of its own says that no limit is held.
        let keys = keys.filter(|key| *key != "holding");
        let lines = text.lines().filter(|line| !line.starts_with(' '));
        let lines = lines.filter_map(|line| line.split(' ').next());
        assert!(lines.eq(keys), "{object}");
    }

    #[test]
    fn unknown_values_are_absent() {
        let report = unknown();
        let object = serde_json::to_string(&report).expect("an object");
        assert!(
            !object.contains("measured")
                && !object.contains("average")
                && !object.contains("for_ms")
        );
        assert!(
            !object.contains("throttled") && !object.contains("_events"),
            "{object}"
        );
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
