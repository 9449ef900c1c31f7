//! Reports as people read them.

use std::fmt::{self, Display};

use wattgate_runtime::{Milliseconds, Milliwatts, PowerMode};

use super::{
    Claim, NOT_HOLDING, OBSERVING, Observed, Report, ReportedKnob, ReportedViolation,
    ReportedWorkload, Step,
};
use crate::quantity::{Span, Thousandths};

/// One line per field: its key without the unit, then its value as people write it.
impl Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milli = |value: u64, unit: &'static str| Milli { value, unit };
        let watts = |mw: u32| milli(u64::from(mw), "W");
        let megahertz = |khz: u32| milli(u64::from(khz), "MHz");
        let time = |ms: u64| Span(Milliseconds(ms));
        if self.state == OBSERVING {
            writeln!(f, "{NOT_HOLDING}")?;
        }
        writeln!(f, "state {}", self.state)?;
        writeln!(f, "cores {}", self.cores)?;
        writeln!(f, "cpu {}", megahertz(self.cpu_khz))?;
        writeln!(f, "gpu {}", megahertz(self.gpu_khz))?;
        writeln!(f, "emc {}", megahertz(self.emc_khz))?;
        let module = |mw: u32| self.at_module(Milliwatts(mw));
        let limit = |mw: u32| self.at_limit(Milliwatts(mw));
        known(f, "measured", self.measured_mw.map(module))?;
        let is_predicted = self.predicted_mw > 0;
        known(
            f,
            "predicted",
            is_predicted.then(|| module(self.predicted_mw)),
        )?;
        known(f, "faster", self.faster_mw.map(module))?;
        writeln!(f, "allowed {}", module(self.allowed_mw))?;
        let ratio = Thousandths((self.ratio_ppm + 500) / 1_000);
        known(f, "ratio", is_predicted.then_some(ratio))?;
        writeln!(f, "limit {}", limit(self.limit_mw))?;
        writeln!(f, "limit_from {}", self.limit_from)?;
        known(f, "limit_by", self.limit_by.as_ref())?;
        known(f, "limit_for", self.limit_for_ms.map(|ms| milli(ms, "s")))?;
        writeln!(f, "max_limit {}", limit(self.max_limit_mw))?;
        known(f, "over_for", self.over_for_ms.map(|ms| milli(ms, "s")))?;
        let unsaved = "a change of the lowered limits";
        known(f, "unsaved", self.unsaved.then_some(unsaved))?;
        known(f, "average", self.average_mw.map(limit))?;
        known(f, "average_window", self.average_window_ms.map(time))?;
        writeln!(f, "limit_at {}", self.limit_at)?;
        known(f, "module_limit", self.module_limit_mw.map(watts))?;
        known(f, "supply", self.supply_mw.map(watts))?;
        known(f, "supply_added", self.supply_added_mw.map(watts))?;
        known(f, "meter", self.meter_mw.map(watts))?;
        known(f, "meter_fault", self.meter_fault.as_ref())?;
        known(f, "throttled", self.throttled.as_ref())?;
        let celsius = self.temperature_mc.and_then(|mc| u64::try_from(mc).ok());
        known(f, "temperature", celsius.map(|mc| milli(mc, "°C")))?;
        let volts = self.input_mv.map(|mv| milli(u64::from(mv), "V"));
        known(f, "input", volts)?;
        let amperes = self.input_ma.map(|ma| milli(u64::from(ma), "A"));
        known(f, "input", amperes)?;
        known(f, "delivered_cpu", self.delivered_cpu_khz.map(megahertz))?;
        known(f, "delivered_gpu", self.delivered_gpu_khz.map(megahertz))?;
        known(f, "delivered_emc", self.delivered_emc_khz.map(megahertz))?;
        known(f, "oc1_events", self.oc1_events)?;
        known(f, "oc2_events", self.oc2_events)?;
        known(f, "oc3_events", self.oc3_events)?;
        known(f, "oc1_per_min", self.oc1_per_min)?;
        known(f, "oc2_per_min", self.oc2_per_min)?;
        known(f, "oc3_per_min", self.oc3_per_min)?;
        known(
            f,
            "least",
            (self.least_mw > 0).then(|| module(self.least_mw)),
        )?;
        let model = self
            .model
            .as_deref()
            .unwrap_or("none; `wattgate learn` makes one");
        writeln!(f, "model {model}")?;
        known(f, "gated", self.gated.as_ref())?;
        if !self.unit.is_empty() {
            writeln!(f, "unit {}", self.unit)?;
        }
        known(f, "observed", self.observed)?;
        known(f, "aim", self.aim.as_ref())?;
        known(f, "unmet", self.unmet.as_ref())?;
        known(f, "steps", self.steps)?;
        if !self.workloads.is_empty() {
            writeln!(f, "workloads {}", self.workloads.len())?;
        }
        for workload in &self.workloads {
            write!(f, "  {workload}")?;
            known_of(f, "; uid", workload.uid)?;
            known_of(f, ", pid", workload.pid)?;
            writeln!(f, "; {} steps", workload.steps)?;
        }
        known(
            f,
            "flooded_by",
            self.flooded_by.map(|uid| format!("uid {uid}")),
        )?;
        let remaining = self.remaining_ms;
        known(f, "remaining", remaining.map(|ms| milli(ms, "s")))?;
        known(f, "step", self.step)?;
        if let Some((slower, step)) = self.slower_step.zip(self.step) {
            let less = milli(step.uj.abs_diff(slower.uj) / 1_000, "J");
            match slower.uj <= step.uj {
                true => writeln!(f, "slower_step {slower}, saves {less}")?,
                false => writeln!(f, "slower_step {slower}, costs {less} more")?,
            }
        }
        writeln!(f, "violations {}", self.violations)?;
        writeln!(f, "changes {}", self.changes)?;
        writeln!(f, "over_limit {}", milli(self.over_limit_ms, "s"))?;
        writeln!(f, "unknown {}", milli(self.unknown_ms, "s"))?;
        writeln!(f, "energy {}", milli(self.energy_mj, "J"))?;
        known(f, "lease_energy", self.lease_mj.map(|mj| milli(mj, "J")))?;
        let left = self.budget_left_mj.map(|mj| milli(mj, "J"));
        known(f, "budget_left", left)?;
        writeln!(f, "sensor_errors {}", self.sensor_errors)?;
        writeln!(f, "failed_changes {}", self.failed_changes)?;
        writeln!(f, "late_looks {}", self.late_looks)?;
        writeln!(f, "claims {}", self.claims.len())?;
        for claim in &self.claims {
            writeln!(f, "  {claim}")?;
        }
        writeln!(f, "disobedient {}", self.disobedient.len())?;
        for knob in &self.disobedient {
            writeln!(f, "  {knob}")?;
        }
        writeln!(f, "last_violations {}", self.last_violations.len())?;
        for violation in &self.last_violations {
            writeln!(f, "  {violation}")?;
        }
        Ok(())
    }
}

/// As `15 W and 12 W over 1 min, from the lease of uid 1000, pid 4711, train.py, for 10 s more`.
impl Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            source,
            by,
            limit_mw,
            average_mw,
            average_window_ms,
            for_ms,
        } = self;
        let watts = |mw: u32| Milli {
            value: u64::from(mw),
            unit: "W",
        };
        write!(f, "{}", watts(*limit_mw))?;
        if let Some((average, window)) = average_mw.zip(*average_window_ms) {
            let window = Span(Milliseconds(window));
            write!(f, " and {} over {window}", watts(average))?;
        }
        write!(f, ", from the {source} of {by}")?;
        match for_ms {
            Some(ms) => write!(f, ", for {} s more", ms / 1_000),
            None => Ok(()),
        }
    }
}

/// As `PATH: wanted 1, is 0`.
impl Display for ReportedKnob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: wanted {}, ", self.knob, self.wanted)?;
        match self.is {
            Some(is) => write!(f, "is {is}"),
            None => f.write_str("cannot be read"),
        }
    }
}

/// As a sentence: `120 s ago: 16.2 W for 0.3 s with 15 W allowed; set 4 cores, …`.
impl Display for ReportedViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watts = |mw: u32| Milli {
            value: u64::from(mw),
            unit: "W",
        };
        write!(f, "{} s ago: ", self.ago_ms / 1_000)?;
        if let Some(highest) = self.highest_mw {
            write!(
                f,
                "{} for {} s with ",
                watts(highest),
                Thousandths(self.over_ms)
            )?;
        }
        let knobs = [self.cores, self.cpu_khz, self.gpu_khz, self.emc_khz];
        let (allowed, mode) = (watts(self.allowed_mw), PowerMode::from_knobs(knobs));
        write!(f, "{allowed} allowed; set {mode}")
    }
}

/// Writes a line if there is a value.
fn known<T: Display>(f: &mut fmt::Formatter<'_>, key: &str, value: Option<T>) -> fmt::Result {
    match value {
        Some(value) => writeln!(f, "{key} {value}"),
        None => Ok(()),
    }
}

/// Writes a part of a line if there is a value.
fn known_of<T: Display>(f: &mut fmt::Formatter<'_>, key: &str, value: Option<T>) -> fmt::Result {
    match value {
        Some(value) => write!(f, "{key} {value}"),
        None => Ok(()),
    }
}

/// A value in thousandths of a unit.
struct Milli {
    value: u64,
    unit: &'static str,
}

impl Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", Thousandths(self.value), self.unit)
    }
}

/// As `3600 s, at most 27.1 W; would set 8 cores, …, 18.2 W, 81 % of the present speed; held, 81 % of the speed while over,
/// 112 % else`.
impl Display for Observed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let watts = |mw: u32| Milli {
            value: u64::from(mw),
            unit: "W",
        };
        write!(f, "{} s", self.for_ms / 1_000)?;
        if let Some(highest) = self.highest_mw {
            write!(f, ", at most {}", watts(highest))?;
        }
        if let Some(would) = self.would_set {
            let knobs = [would.cores, would.cpu_khz, would.gpu_khz, would.emc_khz];
            let mode = PowerMode::from_knobs(knobs);
            write!(f, "; would set {mode}, {}", watts(would.power_mw))?;
            if let Some(speed) = would.speed_pct {
                write!(f, ", {speed} % of the present speed")?;
            }
        }
        match (self.speed_over_pct, self.speed_within_pct) {
            (None, None) => Ok(()),
            (Some(over), None) => write!(f, "; held, {over} % of the speed while over"),
            (None, Some(within)) => write!(f, "; held, {within} % of the speed"),
            (Some(over), Some(within)) => write!(
                f,
                "; held, {over} % of the speed while over, {within} % else"
            ),
        }
    }
}

/// As `33.1 ms, 0.495 J`.
impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (us, mj) = (
            Thousandths(u64::from(self.us)),
            Thousandths(self.uj / 1_000),
        );
        write!(f, "{us} ms, {mj} J")
    }
}

/// A workload that tells no name.
pub const NAMELESS: &str = "the workload";

/// As `yolo at 43.1 steps/s, 0.431 J a step`.
impl Display for ReportedWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or(NAMELESS))?;
        match self.step_us.filter(|us| *us > 0) {
            _ if self.idle => f.write_str(" is idle"),
            None => f.write_str(" has begun"),
            Some(us) => {
                write!(f, " at {}", Rate(us))?;
                match self.step_uj {
                    Some(uj) => write!(f, ", {}", Joules(uj)),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Steps per second from the time of one in µs, or that time if it is long.
pub struct Rate(pub u32);

impl Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 >= LONG_STEP_US {
            return write!(f, "{} s a step", Thousandths(u64::from(self.0) / 1_000));
        }
        let rate = Thousandths(1_000_000_000 / u64::from(self.0.max(1)) / 10 * 10);
        write!(f, "{rate} steps/s")
    }
}

/// From this time of a step on, its rate would have one digit.
const LONG_STEP_US: u32 = 10_000_000;

/// Energy of a step in µJ.
pub struct Joules(pub u64);

impl Display for Joules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} J a step", Thousandths(self.0 / 1_000))
    }
}
