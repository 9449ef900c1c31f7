//! What the daemon tells of itself.

use std::path::Path;

use wattgate_board::Files;
use wattgate_runtime::Milliwatts;

use super::Daemon;
use crate::limits::Held;
use crate::meter::Meter;
use crate::observer::Observer;
use crate::report::{
    Claim, OBSERVING, OVER_LIMIT, Report, ReportedKnob, ReportedViolation, Source, YIELDED,
    state_name,
};

/// Number of workloads in a report.
const MOST_WORKLOADS: usize = 8;

impl<F: Files> Daemon<F> {
    /// The report for clients and Prometheus.
    pub fn report(&self) -> Report {
        let (status, mode) = self.control.status();
        // A clock that the board does not show is the one that the governor wants.
        let shown = self.control.current().map_or(mode, |it| it.or(mode));
        let [cores, cpu_khz, gpu_khz, emc_khz] = shown.knobs();
        let (over, unknown) = self.control.over_and_unknown();
        let disobedient = self.control.board().disobedient();
        let disobedient = disobedient.map(|it| ReportedKnob {
            knob: it.path.display().to_string(),
            wanted: it.wanted,
            is: it.is,
        });
        let Held { limit, source, by } = &self.held;
        let average = limit.average;
        let (seen, throttled) = (self.control.seen(), self.control.throttling());
        let events = seen.over_current_events;
        let [oc1_per_min, oc2_per_min, oc3_per_min] = seen.over_current_per_min;
        let [delivered_cpu_khz, delivered_gpu_khz, delivered_emc_khz] =
            seen.delivered.map(|clock| clock.map(|clock| clock.0));
        let violations = self.control.violations().map(|it| {
            let [cores, cpu_khz, gpu_khz, emc_khz] = it.answer.knobs();
            ReportedViolation {
                ago_ms: self.now.since(it.at).0,
                over_ms: it.over.0,
                highest_mw: it.highest.map(|it| it.0),
                allowed_mw: it.allowed.0,
                cores,
                cpu_khz,
                gpu_khz,
                emc_khz,
            }
        });
        let [oc1_events, oc2_events, oc3_events] =
            events.map(|count| count.and_then(|count| u64::try_from(count).ok()));
        let model = self.model.path.as_deref().and_then(Path::file_name);
        let over_since = self.control.over_since();
        let state = match (self.yielded, over_since) {
            _ if self.observes() => OBSERVING,
            (Some(_), _) => YIELDED,
            (None, Some(_)) => OVER_LIMIT,
            (None, None) => state_name(status.state),
        };
        let predicted = match &self.observer {
            Some(observer) => observer.predicted().unwrap_or_default(),
            None => status.predicted,
        };
        let of_prediction =
            |power: Milliwatts| u64::from(power.0) * 1_000_000 / u64::from(predicted.0.max(1));
        let ratio_ppm = match self.observes() {
            true => status
                .measured
                .filter(|_| predicted.0 > 0)
                .map_or(0, of_prediction),
            false => (u64::from(status.ratio) * 1_000_000) >> 16,
        };
        let mut report = Report {
            holding: !self.observes() && self.yielded.is_none(),
            state: state.into(),
            cores,
            cpu_khz,
            gpu_khz,
            emc_khz,
            measured_mw: status.measured.map(|it| it.0),
            predicted_mw: predicted.0,
            faster_mw: self.control.faster().map(|it| it.0),
            allowed_mw: status.allowed.0,
            ratio_ppm,
            limit_mw: limit.power.0,
            limit_from: *source,
            limit_by: by.clone(),
            limit_for_ms: self.remaining(),
            max_limit_mw: self.config.most().0,
            over_for_ms: over_since.map(|since| self.now.since(since).0),
            unsaved: self.lowered != self.saved,
            claims: self.claims().collect(),
            average_mw: average.map(|it| it.power.0),
            average_window_ms: average.map(|it| it.window.0),
            limit_at: self.config.limit_place(),
            module_limit_mw: None,
            supply_mw: None,
            supply_added_mw: None,
            meter_mw: None,
            meter_fault: None,
            throttled: throttled.by(),
            temperature_mc: seen.temperature_mc,
            input_mv: seen.input_mv,
            input_ma: seen.input_ma,
            delivered_cpu_khz,
            delivered_gpu_khz,
            delivered_emc_khz,
            oc1_per_min,
            oc2_per_min,
            oc3_per_min,
            oc1_events,
            oc2_events,
            oc3_events,
            least_mw: self.control.least_power().0,
            model: model.map(|it| it.to_string_lossy().into_owned()),
            gated: self.control.board().gated().map(|it| it.to_string()),
            unit: self.control.choices().of_unit(status.allowed),
            observed: self.observer.as_ref().map(Observer::report),
            aim: None,
            unmet: None,
            steps: None,
            workloads: self.workloads.shown(self.now, MOST_WORKLOADS),
            flooded_by: self.workloads.flooded_by(self.now),
            remaining_ms: None,
            step: None,
            slower_step: None,
            lease_mj: None,
            budget_left_mj: None,
            violations: self.control.violation_count(),
            changes: status.changes,
            over_limit_ms: over.0,
            unknown_ms: unknown.0,
            energy_mj: status.millijoules,
            sensor_errors: self.counters.sensor_errors(),
            failed_changes: self.control.failed_changes(),
            late_looks: self.late,
            disobedient: disobedient.collect(),
            last_violations: violations.collect(),
        };
        self.report_aim(&mut report);
        self.report_supply(&mut report);
        report
    }

    /// Fills in the supply, if the limits are its own.
    fn report_supply(&self, report: &mut Report) {
        let supply = self.control.supply();
        if !supply.is_limited() {
            return;
        }
        let measured = report.measured_mw.map(Milliwatts);
        report.module_limit_mw = Some(self.control.module_limit().0);
        report.supply_mw = measured.map(|module| supply.draw().supply(module).0);
        report.supply_added_mw = supply.meter().map(|_| supply.added().0);
        report.meter_mw = supply.meter().and_then(|it| Some(it.shown()?.0));
        let fault = supply.meter().and_then(Meter::fault);
        report.meter_fault = fault.map(|fault| fault.to_string());
    }

    /// What clients have claimed: lowerings and leases.
    pub(super) fn claims(&self) -> impl Iterator<Item = Claim> {
        let lowerings = self.lowerings.iter().map(|it| Claim {
            source: Source::Socket,
            by: it.by.clone(),
            limit_mw: it.power_mw,
            average_mw: it.average.map(|(power, _)| power),
            average_window_ms: it.average.map(|(_, window)| window),
            for_ms: it.left_ms,
        });
        let leases = self.leases.iter().map(|lease| Claim {
            source: Source::Lease,
            by: lease.leased.by.clone(),
            limit_mw: lease.leased.power.0,
            average_mw: lease.leased.average.map(|it| it.power.0),
            average_window_ms: lease.leased.average.map(|it| it.window.0),
            for_ms: lease.leased.until.map(|until| until.since(self.now).0),
        });
        lowerings.chain(leases)
    }
}
