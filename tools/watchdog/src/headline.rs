//! What a report says first: whether the limit holds, or what is wrong and what to do.

use std::fmt::{self, Display};

use wattgate_runtime::Milliwatts;

use crate::quantity::{Place, Placed, Span};
use crate::report::{
    Joules, NAMELESS, NOT_HOLDING, OBSERVING, OVER_LIMIT, Rate, Report, ReportedWorkload, Source,
    YIELDED,
};

/// A sentence, and one more line for each thing that a user should know.
pub struct Headline<'a>(pub &'a Report);

impl Display for Headline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        let limit = report.at_limit(Milliwatts(report.limit_mw));
        let now = report
            .measured_at_limit()
            .map_or("no mean of the power yet".to_owned(), |mw| {
                format!("{} W now", tenths(mw))
            });
        match report.state.as_ref() {
            OBSERVING => {
                writeln!(f, "{NOT_HOLDING}")?;
                writeln!(f, "{now}, and the limit would be {limit}")?;
                if let Some(observed) = &report.observed {
                    writeln!(f, "observed {observed}")?;
                }
            }
            YIELDED => writeln!(
                f,
                "NOT HOLDING {limit}: a client has the board, such as `wattgate profile`; the daemon holds again when that ends"
            )?,
            OVER_LIMIT => {
                let span = Span(wattgate_runtime::Milliseconds(
                    report.over_for_ms.unwrap_or(0) / 1_000 * 1_000,
                ));
                writeln!(
                    f,
                    "OVER {limit} for {span}: {now}, and no mode draws less; lighten the load, cool the board or raise the limit"
                )?;
            }
            "safe_no_sensor" => writeln!(
                f,
                "holding the least mode: the power sensor gives no reading; `dmesg` shows its driver's errors"
            )?,
            "safe_cannot_hold" => writeln!(
                f,
                "holding the least mode: {now}, and the limit is {limit}; lighten the load, or raise the limit"
            )?,
            "safe_nothing_applies" => writeln!(
                f,
                "holding what the board lets be set: {now}, and the limit is {limit}"
            )?,
            "booting" | "settling" => writeln!(f, "holding {limit}: a mode was just set")?,
            _ => self.holding(f, &limit, &now)?,
        }
        self.further(f)
    }
}

impl Headline<'_> {
    fn holding(&self, f: &mut fmt::Formatter<'_>, limit: &Placed, now: &str) -> fmt::Result {
        let report = self.0;
        write!(f, "holding {limit}: {now}")?;
        let mut told: Vec<&ReportedWorkload> = report.workloads.iter().collect();
        told.sort_by_key(|it| (&it.name, it.uid));
        let mut told: Vec<String> = told.into_iter().map(ToString::to_string).collect();
        told.extend(self.leased_steps());
        match told.is_empty() {
            true => f.write_str("; nobody reports steps")?,
            false => write!(f, "; {}", told.join(", "))?,
        }
        self.faster(f)
    }

    /// The speed of the workload whose steps a client tells under its lease. `None` if the client sends them to the socket for
    /// steps as well.
    fn leased_steps(&self) -> Option<String> {
        let report = self.0;
        let client = report.limit_by.as_ref().map(|by| by.pid);
        let is_it = |it: &ReportedWorkload| it.pid == client;
        if report.limit_from != Source::Lease || report.workloads.iter().any(is_it) {
            return None;
        }
        let step = report.steps.and(report.step).filter(|step| step.us > 0)?;
        let file = report.model.as_deref();
        let workload = file.map(|file| file.strip_suffix(".wgt").unwrap_or(file));
        let workload = workload.unwrap_or(NAMELESS);
        Some(format!(
            "{workload} at {}, {}",
            Rate(step.us),
            Joules(step.uj)
        ))
    }

    /// The end of the line: what the next faster mode would draw.
    fn faster(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.faster_mw {
            Some(faster) => writeln!(
                f,
                "; the next faster mode would draw up to {} W{}",
                tenths(faster),
                self.at_module()
            ),
            None => writeln!(f),
        }
    }

    /// After a power of the module, where the limit is another place's.
    fn at_module(&self) -> &'static str {
        match self.0.limit_at {
            Place::Module => "",
            Place::Supply => " at the module",
        }
    }

    /// Who has set the limit, and what holds the board back.
    fn further(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = self.0;
        if let Some(by) = &report.limit_by {
            let source = match report.limit_from {
                Source::Lease => "leased",
                _ => "lowered",
            };
            write!(f, "{source} by {by}")?;
            match report.limit_for_ms {
                Some(ms) => writeln!(f, ", for {} s more", ms / 1_000)?,
                None => writeln!(f)?,
            }
        }
        if report.model.is_none() {
            writeln!(
                f,
                "no model of the workload: `wattgate learn` makes one, with which the board is faster under this limit"
            )?;
        }
        if let Some(gated) = &report.gated {
            writeln!(f, "{gated}")?;
        }
        if let Some(uid) = report.flooded_by {
            writeln!(
                f,
                "uid {uid} sends steps faster than they are read: the speeds may be wrong or missing"
            )?;
        }
        if let Some(by) = &report.throttled {
            writeln!(f, "slowed by {by}: the clocks are lower than the mode")?;
        }
        if let Some(fault) = &report.meter_fault {
            writeln!(
                f,
                "the supply's meter counts as absent: {fault}; the limit holds by what the module draws"
            )?;
        }
        if report.allowed_mw + report.allowed_mw / 20 + SENSOR_MW < report.limit_of_module().0 {
            writeln!(
                f,
                "{} W{} are allowed now, for heat, over-current, an average or a budget",
                tenths(report.allowed_mw),
                self.at_module()
            )?;
        }
        if let Some(unmet) = &report.unmet {
            writeln!(f, "{unmet}")?;
        }
        for knob in &report.disobedient {
            writeln!(f, "does not obey: {knob}")?;
        }
        if report.unsaved {
            writeln!(
                f,
                "a change of the lowered limits is not saved yet: a reboot now would lose it"
            )?;
        }
        Ok(())
    }
}

/// The most that the sensor's error takes from a limit, rounded up: 0.354 W on an AGX Orin.
const SENSOR_MW: u32 = 500;

/// As `18.5`: hundredths of a watt change with each reading.
fn tenths(mw: u32) -> String {
    format!("{:.1}", f64::from(mw) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;
    use crate::report::{Step, state_names};

    /// The sample without what else a user should know.
    fn calm() -> Report {
        Report {
            limit_by: None,
            unsaved: false,
            throttled: None,
            unmet: None,
            disobedient: Vec::new(),
            workloads: Vec::new(),
            flooded_by: None,
            limit_at: Place::Module,
            module_limit_mw: None,
            meter_fault: None,
            ..sample()
        }
    }

    #[test]
    fn a_limit_that_holds_takes_one_line() {
        assert_eq!(
            Headline(&calm()).to_string(),
            "holding 15 W: 14.2 W now; nobody reports steps; the next faster mode would draw up to 15.2 W\n"
        );
        let stepping = Report {
            model: Some("yolo.wgt".to_owned()),
            limit_from: Source::Lease,
            steps: Some(4_711),
            step: Some(Step {
                us: 23_200,
                uj: 431_000,
            }),
            faster_mw: None,
            ..calm()
        };
        assert_eq!(
            Headline(&stepping).to_string(),
            "holding 15 W: 14.2 W now; yolo at 43.1 steps/s, 0.431 J a step\n"
        );
    }

    #[test]
    fn what_tells_its_steps_is_named_with_its_speed() {
        let workload = |name: &str, step_us, step_uj, idle| ReportedWorkload {
            name: Some(name.to_owned()).filter(|name| !name.is_empty()),
            uid: Some(1_000),
            pid: Some(7),
            steps: 9,
            at_ms: 12_000,
            idle,
            step_us,
            step_uj,
            fetch_us: None,
            compute_us: None,
            items: None,
        };
        let said = |workloads| {
            let report = Report {
                workloads,
                faster_mw: Some(15_200),
                ..calm()
            };
            Headline(&report).to_string()
        };
        let yolo = || workload("yolo", Some(23_200), Some(431_000), false);
        assert_eq!(
            said(vec![yolo()]),
            "holding 15 W: 14.2 W now; yolo at 43.1 steps/s, 0.431 J a step; the next faster mode would draw up to 15.2 W\n"
        );
        let several = vec![
            workload("yolo", Some(23_200), None, false),
            workload("", None, None, false),
            workload("bert", Some(200_000), None, true),
        ];
        assert_eq!(
            said(several),
            "holding 15 W: 14.2 W now; the workload has begun, bert is idle, yolo at 43.1 steps/s; the next faster mode would draw \
             up to 15.2 W\n"
        );
        let flooded = Report {
            flooded_by: Some(1_000),
            ..calm()
        };
        let line =
            "uid 1000 sends steps faster than they are read: the speeds may be wrong or missing\n";
        assert!(Headline(&flooded).to_string().ends_with(line));
    }

    #[test]
    fn a_limit_of_the_supply_is_compared_with_the_supply_s_power() {
        let fed = Report {
            limit_at: Place::Supply,
            module_limit_mw: Some(12_000),
            allowed_mw: 11_800,
            ..calm()
        };
        let line = "holding 15 W at the supply: 14.9 W now; nobody reports steps; the next faster mode would draw up to 15.2 W \
                    at the module\n";
        assert_eq!(Headline(&fed).to_string(), line);
        let faulty = Report {
            meter_fault: Some("does not answer".to_owned()),
            ..fed
        };
        assert_eq!(
            Headline(&faulty).to_string(),
            format!(
                "{line}the supply's meter counts as absent: does not answer; the limit holds by what the module draws\n"
            )
        );
    }

    #[test]
    fn what_is_wrong_comes_first_and_what_to_do_with_it() {
        let states = [
            (YIELDED, "NOT HOLDING 15 W: a client has the board"),
            (
                OVER_LIMIT,
                "OVER 15 W for 1 s: 14.2 W now, and no mode draws less",
            ),
            (
                "safe_no_sensor",
                "holding the least mode: the power sensor gives no reading",
            ),
            (
                "safe_cannot_hold",
                "holding the least mode: 14.2 W now, and the limit is 15 W",
            ),
            ("safe_nothing_applies", "holding what the board lets be set"),
            ("booting", "holding 15 W: a mode was just set"),
        ];
        for (state, text) in states {
            let report = Report {
                state: state.into(),
                ..calm()
            };
            let found = Headline(&report).to_string();
            assert!(found.starts_with(text), "{found}");
            assert_eq!(found.lines().count(), 1, "{found}");
        }
        // No state is left out: another one reads as if the limit held.
        let others = state_names()
            .filter(|name| *name != OBSERVING && states.iter().all(|(known, _)| known != name));
        let others: Vec<&str> = others.collect();
        assert_eq!(
            others,
            ["settling", "tracking", "stepping_down", "probing_up"]
        );
    }

    #[test]
    fn a_daemon_that_only_observes_says_so_first() {
        let report = Report {
            state: OBSERVING.into(),
            ..calm()
        };
        let found = Headline(&report).to_string();
        assert!(
            found.starts_with("NOT HOLDING: the daemon only observes"),
            "{found}"
        );
    }

    #[test]
    fn what_else_a_user_should_know_has_a_line_each() {
        let report = Report {
            model: None,
            allowed_mw: 12_000,
            limit_at: Place::Module,
            module_limit_mw: None,
            ..sample()
        };
        let text = Headline(&report).to_string();
        for part in [
            "lowered by uid 1000, pid 4711, guard.py, for 540 s more",
            "no model of the workload: `wattgate learn` makes one",
            "12.0 W are allowed now",
            "a change of the lowered limits is not saved yet",
        ] {
            assert!(
                text.lines().any(|line| line.starts_with(part)),
                "{part} is not in {text}"
            );
        }
    }
}
