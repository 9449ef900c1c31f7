//! Metrics in Prometheus' text format, version 0.0.4.

use std::fmt::{self, Display, Write};

use crate::quantity::Place;
use crate::report::{Report, ReportedKnob, state_names};

/// The page with all metrics; a metric without a value is omitted.
pub fn text(report: &Report) -> String {
    let mut page = Page(String::with_capacity(8 << 10));
    // Writing to a string does not fail.
    let _ = page.write(report);
    page.0
}

struct Page(String);

impl Page {
    fn write(&mut self, report: &Report) -> fmt::Result {
        let milli = |value: u32| Decimal(u64::from(value), 3);
        let hertz = |khz: u32| u64::from(khz) * 1_000;
        self.gauge(
            "power_limit_watts",
            "Limit in force, from the config, the schedule, the socket or a lease.",
            milli(report.limit_mw),
        )?;
        self.gauge(
            "power_allowed_watts",
            "Limit after deductions for the sensor's errors, heat, over-current and an average.",
            milli(report.allowed_mw),
        )?;
        if let Some(measured) = report.measured_mw {
            self.gauge(
                "power_measured_watts",
                "Measured power in the present mode, as the mean over 430 ms.",
                milli(measured),
            )?;
        }
        if report.predicted_mw > 0 {
            self.gauge(
                "power_predicted_watts",
                "Power that the model predicts for the present mode.",
                milli(report.predicted_mw),
            )?;
            self.gauge(
                "power_correction_ratio",
                "Ratio of measured to predicted power of the present mode.",
                Decimal(report.ratio_ppm, 6),
            )?;
        }
        self.head(
            "power_limit_place",
            "gauge",
            "1 for the place where the limit holds, 0 for the other.",
        )?;
        for place in [Place::Module, Place::Supply] {
            let value = u8::from(place == report.limit_at);
            writeln!(
                self.0,
                "wattgate_power_limit_place{{place=\"{place}\"}} {value}"
            )?;
        }
        for (name, help, power) in [
            (
                "module_limit_watts",
                "What of the supply's limit is left for the module.",
                report.module_limit_mw,
            ),
            (
                "supply_power_watts",
                "Power of the supply: the higher of what follows from the module's and what the meter shows.",
                report.supply_mw,
            ),
            (
                "supply_added_watts",
                "What the meter showed above what follows from the module's power.",
                report.supply_added_mw,
            ),
            (
                "meter_power_watts",
                "What the supply's meter shows.",
                report.meter_mw,
            ),
        ] {
            if let Some(power) = power {
                self.gauge(name, help, milli(power))?;
            }
        }
        if report.supply_added_mw.is_some() {
            self.gauge(
                "meter_fault",
                "1 while the supply's meter counts as absent.",
                u8::from(report.meter_fault.is_some()),
            )?;
        }
        self.gauge(
            "mode_cores",
            "Online cores of the present mode.",
            report.cores,
        )?;
        self.gauge(
            "mode_cpu_hertz",
            "CPU clock of the present mode.",
            hertz(report.cpu_khz),
        )?;
        self.gauge(
            "mode_gpu_hertz",
            "GPU clock of the present mode.",
            hertz(report.gpu_khz),
        )?;
        self.gauge(
            "mode_emc_hertz",
            "Memory clock of the present mode.",
            hertz(report.emc_khz),
        )?;
        self.gauge(
            "holding",
            "1 if the daemon sets modes for its limit, 0 while it only observes or a client has the board.",
            u8::from(report.holding),
        )?;
        self.head(
            "state",
            "gauge",
            "1 for the state of the daemon, 0 for the others.",
        )?;
        for state in state_names() {
            let value = u8::from(state == report.state);
            writeln!(self.0, "wattgate_state{{state=\"{state}\"}} {value}")?;
        }
        self.head(
            "throttled",
            "gauge",
            "1 for what makes the board slower than its mode.",
        )?;
        for by in ["cooling", "firmware"] {
            let throttled = report.throttled.as_deref().unwrap_or_default();
            let value = u8::from(throttled.split(',').any(|it| it == by));
            writeln!(self.0, "wattgate_throttled{{by=\"{by}\"}} {value}")?;
        }
        if let Some(mc) = report.temperature_mc {
            self.gauge(
                "temperature_celsius",
                "Temperature of the hottest thermal zone.",
                f64::from(i32::try_from(mc).unwrap_or(i32::MAX)) / 1e3,
            )?;
        }
        if let Some(mv) = report.input_mv {
            self.gauge("input_volts", "Voltage at the module's input.", milli(mv))?;
        }
        if let Some(ma) = report.input_ma {
            self.gauge("input_amperes", "Current at the module's input.", milli(ma))?;
        }
        for (unit, name, khz) in [
            ("cpu", "CPU clock", report.delivered_cpu_khz),
            ("gpu", "GPU clock", report.delivered_gpu_khz),
            ("emc", "memory clock", report.delivered_emc_khz),
        ] {
            if let Some(khz) = khz {
                let help = format!("The {name} that runs.");
                self.gauge(&format!("delivered_{unit}_hertz"), &help, hertz(khz))?;
            }
        }
        let events = [report.oc1_events, report.oc2_events, report.oc3_events];
        if events.iter().any(Option::is_some) {
            self.head(
                "over_current_events_total",
                "counter",
                "Events of the over-current protection since the boot of the board.",
            )?;
        }
        for (events, number) in events.into_iter().zip(1..) {
            if let Some(events) = events {
                let series = format_args!("over_current_events_total{{event=\"oc{number}\"}}");
                writeln!(self.0, "wattgate_{series} {events}")?;
            }
        }
        self.counter(
            "violations_total",
            "Number of times that the power exceeded the allowed power.",
            report.violations,
        )?;
        self.counter(
            "mode_changes_total",
            "Number of mode changes.",
            report.changes,
        )?;
        self.counter(
            "over_limit_seconds_total",
            "Time during which the mean power over 430 ms exceeded the allowed power.",
            Decimal(report.over_limit_ms, 3),
        )?;
        self.counter(
            "unknown_power_seconds_total",
            "Time without a reading of the power, in which the limit may have been exceeded.",
            Decimal(report.unknown_ms, 3),
        )?;
        self.counter(
            "energy_joules_total",
            "Energy drawn by the module since the start of the daemon.",
            Decimal(report.energy_mj, 3),
        )?;
        self.counter(
            "sensor_errors_total",
            "Number of times that the power sensor became unreadable.",
            report.sensor_errors,
        )?;
        self.counter(
            "failed_changes_total",
            "Number of times that a mode could not be set.",
            report.failed_changes,
        )?;

        self.counter(
            "late_looks_total",
            "Number of looks at the board that came 50 ms late or more.",
            report.late_looks,
        )?;
        self.knobs(
            "knob_wanted",
            "What was requested of a knob that does not obey, in the unit of its file.",
            report,
            |knob| Some(knob.wanted),
        )?;
        self.knobs(
            "knob_is",
            "What a knob that does not obey shows.",
            report,
            |knob| knob.is,
        )?;
        self.gauge(
            "workloads",
            "Number of workloads that told steps in the last minute, at most 8.",
            report.workloads.len(),
        )?;
        // Without labels: anybody may tell any names, and each would be another series.
        if let [only] = &report.workloads[..] {
            self.counter(
                "workload_steps_total",
                "Steps of the only workload that tells some.",
                only.steps,
            )?;
            self.gauge(
                "workload_idle",
                "1 while it does none.",
                u8::from(only.idle),
            )?;
            if let Some(us) = only.step_us {
                self.gauge(
                    "workload_step_seconds",
                    "Time of its step, as the mean over ten seconds.",
                    Decimal(u64::from(us), 6),
                )?;
            }
            if let Some(uj) = only.step_uj {
                self.gauge(
                    "workload_step_joules",
                    "The module's energy of its step, as the mean over ten seconds.",
                    Decimal(uj, 6),
                )?;
            }
        }
        self.head("build_info", "gauge", "Version of the daemon.")?;
        let version = env!("CARGO_PKG_VERSION");
        writeln!(self.0, "wattgate_build_info{{version=\"{version}\"}} 1")
    }

    /// A value of each knob that does not obey, as far as it has one.
    fn knobs(
        &mut self,
        name: &str,
        help: &str,
        report: &Report,
        value: impl Fn(&ReportedKnob) -> Option<i64>,
    ) -> fmt::Result {
        let values = report
            .disobedient
            .iter()
            .filter_map(|it| Some((it, value(it)?)));
        let mut values = values.peekable();
        if values.peek().is_some() {
            self.head(name, "gauge", help)?;
        }
        for (it, value) in values {
            let knob = it.knob.replace('\\', r"\\").replace('"', "\\\"");
            writeln!(self.0, "wattgate_{name}{{knob=\"{knob}\"}} {value}")?;
        }
        Ok(())
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        writeln!(self.0, "# HELP wattgate_{name} {help}")?;
        writeln!(self.0, "# TYPE wattgate_{name} {kind}")
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) -> fmt::Result {
        self.head(name, "gauge", help)?;
        writeln!(self.0, "wattgate_{name} {value}")
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) -> fmt::Result {
        self.head(name, "counter", help)?;
        writeln!(self.0, "wattgate_{name} {value}")
    }
}

/// An exact decimal: the value times 10⁻ⁿ. A float would lose digits of large energies.
struct Decimal(u64, u32);

impl Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = 10_u64.pow(self.1);
        let digits = self.1 as usize;
        write!(f, "{}.{:0digits$}", self.0 / one, self.0 % one)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::report::tests::{sample, unknown};

    /// Parses a page into samples by name and labels. Panics if the page breaks a rule of the text
    /// format or of Prometheus' naming guide.
    fn samples(page: &str) -> BTreeMap<String, f64> {
        let is_name = |name: &str| {
            let is_letter = |it: u8| it.is_ascii_alphabetic() || it == b'_' || it == b':';
            name.bytes().next().is_some_and(is_letter)
                && name.bytes().all(|it| is_letter(it) || it.is_ascii_digit())
        };
        assert!(page.ends_with('\n'), "the last line ends");
        let (mut families, mut samples) = (BTreeSet::new(), BTreeMap::new());
        let mut lines = page.lines().peekable();
        while let Some(line) = lines.next() {
            let help = line
                .strip_prefix("# HELP ")
                .expect("a family begins with its help");
            let (name, help) = help.split_once(' ').expect("a text");
            assert!(
                is_name(name) && !help.trim().is_empty() && !help.contains('\\'),
                "{line}"
            );
            assert!(families.insert(name), "{name}: one family");
            let kind = lines.next().and_then(|it| it.strip_prefix("# TYPE "));
            let (typed, kind) = kind
                .and_then(|it| it.split_once(' '))
                .expect("then its type");
            assert_eq!(typed, name);
            assert!(["counter", "gauge"].contains(&kind), "{kind}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            let before = samples.len();
            while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
                let (series, value) = line.rsplit_once(' ').expect("a value");
                let labels = match series.split_once('{') {
                    None => "",
                    Some((_, rest)) => rest.strip_suffix('}').expect("an end of the labels"),
                };
                assert_eq!(series.split('{').next(), Some(name), "the family's own");
                for label in labels.split_terminator(',') {
                    let (label, value) = label.split_once('=').expect("a value");
                    assert!(is_name(label) && !label.contains(':'), "{label}");
                    let value = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
                    let value = value.expect("in quotes");
                    assert!(!value.contains(['"', '\\', '\n']), "{value}");
                }
                let value: f64 = value.parse().expect("a number");
                assert!(value.is_finite() && (kind == "gauge" || value >= 0.0));
                assert_eq!(
                    samples.insert(series.to_owned(), value),
                    None,
                    "{series}: once"
                );
            }
            assert!(samples.len() > before, "{name}: has a sample");
        }
        samples
    }

    #[test]
    fn the_page_is_valid_and_has_values_in_base_units() {
        let samples = samples(&text(&sample()));
        let expected = [
            ("wattgate_build_info{version=\"0.1.0\"}", 1.0),
            ("wattgate_delivered_cpu_hertz", 1_725_113e3),
            ("wattgate_delivered_emc_hertz", 3_199e6),
            ("wattgate_delivered_gpu_hertz", 918e6),
            ("wattgate_energy_joules_total", 1_234.567),
            ("wattgate_failed_changes_total", 3.0),
            ("wattgate_holding", 1.0),
            ("wattgate_input_amperes", 2.851),
            ("wattgate_input_volts", 4.984),
            (
                "wattgate_knob_is{knob=\"/sys/devices/system/cpu/cpu11/online\"}",
                1.0,
            ),
            (
                "wattgate_knob_wanted{knob=\"/sys/devices/system/cpu/cpu11/online\"}",
                0.0,
            ),
            (
                "wattgate_knob_wanted{knob=\"/sys/kernel/debug/bpmp/debug/clk/emc/rate\"}",
                2_133e6,
            ),
            ("wattgate_late_looks_total", 4.0),
            ("wattgate_meter_fault", 1.0),
            ("wattgate_meter_power_watts", 14.7),
            ("wattgate_mode_changes_total", 17.0),
            ("wattgate_mode_cores", 8.0),
            ("wattgate_mode_cpu_hertz", 1_728e6),
            ("wattgate_mode_emc_hertz", 3_199e6),
            ("wattgate_mode_gpu_hertz", 918e6),
            ("wattgate_module_limit_watts", 12.0),
            ("wattgate_over_current_events_total{event=\"oc1\"}", 0.0),
            ("wattgate_over_current_events_total{event=\"oc2\"}", 3.0),
            (
                "wattgate_over_current_events_total{event=\"oc3\"}",
                27_390.0,
            ),
            ("wattgate_over_limit_seconds_total", 0.86),
            ("wattgate_power_allowed_watts", 14.962),
            ("wattgate_power_correction_ratio", 1.022_302),
            ("wattgate_power_limit_place{place=\"module\"}", 0.0),
            ("wattgate_power_limit_place{place=\"supply\"}", 1.0),
            ("wattgate_power_limit_watts", 15.0),
            ("wattgate_power_measured_watts", 14.21),
            ("wattgate_power_predicted_watts", 13.9),
            ("wattgate_sensor_errors_total", 1.0),
            ("wattgate_state{state=\"booting\"}", 0.0),
            ("wattgate_state{state=\"observing\"}", 0.0),
            ("wattgate_state{state=\"over_limit\"}", 0.0),
            ("wattgate_state{state=\"probing_up\"}", 0.0),
            ("wattgate_state{state=\"safe_cannot_hold\"}", 0.0),
            ("wattgate_state{state=\"safe_no_sensor\"}", 0.0),
            ("wattgate_state{state=\"safe_nothing_applies\"}", 0.0),
            ("wattgate_state{state=\"settling\"}", 0.0),
            ("wattgate_state{state=\"stepping_down\"}", 0.0),
            ("wattgate_state{state=\"tracking\"}", 1.0),
            ("wattgate_state{state=\"yielded\"}", 0.0),
            ("wattgate_supply_added_watts", 0.6),
            ("wattgate_supply_power_watts", 14.9),
            ("wattgate_temperature_celsius", 61.5),
            ("wattgate_throttled{by=\"cooling\"}", 1.0),
            ("wattgate_throttled{by=\"firmware\"}", 0.0),
            ("wattgate_unknown_power_seconds_total", 1.25),
            ("wattgate_violations_total", 2.0),
            ("wattgate_workload_idle", 0.0),
            ("wattgate_workload_step_joules", 0.431),
            ("wattgate_workload_step_seconds", 0.0232),
            ("wattgate_workload_steps_total", 86_400.0),
            ("wattgate_workloads", 1.0),
        ];
        let expected = expected.map(|(series, value)| (series.to_owned(), value));
        assert_eq!(samples, BTreeMap::from(expected));
    }

    #[test]
    fn values_that_are_unknown_are_omitted() {
        let report = unknown();
        let page = text(&report);
        samples(&page);
        for family in [
            "measured_watts",
            "supply_power",
            "meter",
            "temperature",
            "input",
            "delivered",
            "over_current",
            "workload_",
        ] {
            assert!(!page.contains(family), "{page}");
        }
    }

    #[test]
    fn the_greatest_values_are_exact() {
        let report = Report {
            energy_mj: u64::MAX,
            over_limit_ms: u64::MAX,
            ratio_ppm: u64::MAX,
            cpu_khz: u32::MAX,
            ..sample()
        };
        let page = text(&report);
        samples(&page);
        assert!(
            page.contains("_joules_total 18446744073709551.615\n"),
            "{page}"
        );
        assert!(page.contains("_cpu_hertz 4294967295000\n"), "{page}");
        assert!(page.len() < 8 << 10);
    }
}
