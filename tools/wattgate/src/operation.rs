//! Measurements while a limit is held: a row of each mode that the control sets for long enough.

use std::time::Duration;

use wattgate_board::{Board, Effective, Files};
use wattgate_runtime::PowerMode;
use wattgate_runtime::estimator::Estimator;
use wattgate_watchdog::report::Report;

use crate::row::{Mark, Row, is_delivered};
use crate::sensing::{OverCurrent, busy_gpu_clock, estimator};
use crate::window::{Count, Rules, Window};

/// Measures each mode once, while it is set for other reasons.
#[derive(Debug)]
pub struct Onlooker {
    rules: Rules,
    /// Knows the sensor's constants; it gets no readings.
    estimator: Estimator,
    /// The columns that all rows share.
    template: Row,
    /// The modes that need no measurement.
    known: Vec<PowerMode>,
    current: Option<Current>,
}

/// The mode that is set.
#[derive(Debug)]
struct Current {
    mode: PowerMode,
    window: Window,
    over_current: OverCurrent,
    peak_mw: u32,
}

impl Onlooker {
    /// Measures modes that no row of these has measured under load. There is at least one row, and all are of one feeding.
    pub fn new(rules: Rules, rows: &[&Row], board: &Board, files: &impl Files) -> Option<Self> {
        let first = rows.first()?;
        Some(Self {
            rules,
            estimator: estimator(board, files),
            template: Row {
                kind: first.kind,
                device: first.device.clone(),
                workload: first.workload.clone(),
                tpc_pg_mask: first.tpc_pg_mask,
                unit: first.unit.clone(),
                minibatch: first.minibatch,
                workers: first.workers,
                storage: first.storage.clone(),
                epoch: first.epoch,
                ..Row::default()
            },
            known: rows
                .iter()
                .filter(|row| row.mark != Some(Mark::Idle))
                .map(|row| row.mode())
                .collect(),
            current: None,
        })
    }

    /// Takes a count, or a report after a sample. Returns a row once the mode is measured; one with a
    /// mark is no measurement.
    pub fn see(
        &mut self,
        now: Duration,
        count: Option<Count>,
        report: &Report,
        board: &Board,
        files: &impl Files,
    ) -> Option<Row> {
        let knobs = [report.cores, report.cpu_khz, report.gpu_khz, report.emc_khz];
        let mode = PowerMode::from_knobs(knobs);
        if self.known.contains(&mode) {
            self.current = None;
            return None;
        }
        let current = self.current.take().filter(|current| current.mode == mode);
        let current = self.current.insert(current.unwrap_or_else(|| Current {
            mode,
            window: Window::new(self.rules, now),
            over_current: OverCurrent::read(board, files),
            peak_mw: 0,
        }));
        match count {
            Some(count) => current.window.count(count),
            None => {
                current.window.add_energy(now, 1_000 * report.energy_mj);
                let measured = report.measured_mw.unwrap_or(0);
                current.peak_mw = current.peak_mw.max(measured);
            }
        }
        let measured = current.window.measured(&self.estimator)?;
        let [cores, cpu_khz, gpu_khz, emc_khz] = knobs;
        let mut row = Row {
            cores,
            cpu_khz,
            gpu_khz,
            emc_khz,
            temperature_c: board.hottest_mc(files).map(|mc| mc as f64 / 1e3),
            over_current: OverCurrent::read(board, files).since(current.over_current),
            delivered_cpu_khz: board.delivered_cpu(files).map(|clock| clock.0),
            peak_mw: current.peak_mw.into(),
            ..self.template.clone()
        };
        let gpu = busy_gpu_clock(board, files);
        let is_slow = gpu.is_some_and(|gpu| !is_delivered(gpu, mode.gpu));
        match board.verify_all(files, &mode) {
            Err(_) => row.mark = Some(Mark::Changed),
            Ok(Effective::AsRequested) if !row.is_throttled() && !is_slow => {
                row.measure(&measured);
            }
            Ok(_) => row.mark = Some(Mark::Throttled),
        }
        self.known.push(mode);
        self.current = None;
        Some(row)
    }
}
