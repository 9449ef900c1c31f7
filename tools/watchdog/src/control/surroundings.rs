//! Watches once a second what else matters: the settings of board and sensor, the clocks that run, the input,
//! events of the over-current protection, and the temperature.

use wattgate_board::Files;
use wattgate_runtime::Milliseconds;

use super::{Control, Event};

/// Interval of the temperature and over-current checks. Thermal zones are polled every second, and
/// event counters are updated every two (`jetson-platform.md`, sections 6.4 and 7).
const SURROUNDINGS_INTERVAL: Milliseconds = Milliseconds(1_000);

/// Interval of the reads of the clocks that run while the firmware throttles: each read of a CPU clock that is off then
/// writes a line into Linux's log (`jetson-platform.md`, section 5.1).
const THROTTLED_INTERVAL: Milliseconds = Milliseconds(10_000);

impl<F: Files> Control<F> {
    /// Reads the clocks that run, and compares those of CPU and GPU with the requested ones.
    fn watch_clocks(&mut self, now: Milliseconds, emit: &mut impl FnMut(Event<'_>)) {
        let around = &mut self.surroundings;
        let is_recent = |read: Milliseconds| now.since(read) < THROTTLED_INTERVAL;
        if self.throttling.by_firmware && around.clocks_read.is_some_and(is_recent) {
            return;
        }
        around.clocks_read = Some(now);
        let cpu = self.board.cpu_clock(&self.files);
        let gpu = self.board.gpu_clock(&self.files);
        let memory = self.board.memory_clock(&self.files);
        self.surroundings.seen.delivered = [cpu.map(|it| it.delivered), gpu, memory];
        let busy_gpu = self.board.busy_gpu_clock(&self.files);
        let units = [("a CPU", cpu), ("the GPU", busy_gpu)].into_iter();
        let mut clocks = units.filter_map(|(unit, clock)| Some((unit, clock?)));
        let found = clocks.find(|(_, clock)| clock.is_throttled());
        let was_throttled = self.surroundings.was_throttled;
        self.surroundings.was_throttled = found.is_some();
        let by_firmware = &mut self.throttling.by_firmware;
        match found {
            Some((unit, clock)) if was_throttled && !*by_firmware => {
                *by_firmware = true;
                emit(Event::Throttled(unit, clock));
            }
            None if *by_firmware => {
                *by_firmware = false;
                emit(Event::NotThrottled);
            }
            _ => {}
        }
    }

    pub(super) fn check_surroundings(
        &mut self,
        now: Milliseconds,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        let around = &mut self.surroundings;
        let is_recent = |checked: Milliseconds| now.since(checked) < SURROUNDINGS_INTERVAL;
        if around.checked.is_some_and(is_recent) {
            return;
        }
        around.checked = Some(now);
        self.current = Some(self.board.current(&self.files));
        self.watch_sensor(emit);
        self.watch_clocks(now, emit);
        self.watch_input();
        if let Some(backstop) = self.backstop.as_mut().filter(|_| !self.is_yielded) {
            backstop.watch(&mut self.board, &mut self.files, emit);
        }
        let around = &mut self.surroundings;
        // Only OC1 (under-voltage) and OC2 (the sensor's average over its warning limit) count.
        // OC3 occurs thousands of times an hour without any excess (section 6.4); the backstop makes
        // it hundreds of times a second.
        around.seen.over_current_events = self.board.over_current_events(&self.files);
        around.seen.over_current_per_min = self.rates.add(now, around.seen.over_current_events);
        let [under_voltage, mean, peak] = around.seen.over_current_events;
        let events = under_voltage.unwrap_or(0).saturating_add(mean.unwrap_or(0));
        if let Some(before) = around.events.replace(events) {
            around.over_current = events > before;
        }
        if let Some(backstop) = &mut self.backstop {
            around.over_current |= backstop.throttles(peak.unwrap_or(0));
        }
        if around.over_current {
            emit(Event::Derated("over-current or under-voltage"));
        }
        let hottest = self.board.hottest_mc(&self.files);
        around.seen.temperature_mc = hottest;
        if let Some(limit) = self.too_hot_mc {
            let is_hot = hottest.is_some_and(|mc| mc >= limit);
            if !std::mem::replace(&mut around.too_hot, is_hot) && is_hot {
                emit(Event::Derated("too hot"));
            }
        }
    }

    /// Chooses the averaging. Gives the governor the resulting time constants, and the steps and offset
    /// that are known by now.
    fn watch_sensor(&mut self, emit: &mut impl FnMut(Event<'_>)) {
        if !self.only_reads() {
            self.choose_averaging(emit);
        }
        let sensor = &mut self.sensor;
        let found = self.board.time_constants(&self.files);
        for (chip, (known, found)) in sensor.time_constants.iter_mut().zip(found).enumerate() {
            if *known != found && self.governor.set_time_constant(chip, found).is_ok() {
                *known = found;
                emit(Event::TimeConstant(found));
            }
        }
        let found = (self.board.sensor_steps(), self.board.sensor_offset());
        if std::mem::replace(&mut sensor.steps, found) != found {
            let (steps, offset) = found;
            self.governor.set_sensor_steps(steps, offset);
        }
    }

    /// Reads the input voltage on which a limit of the current depends.
    pub(super) fn watch_input(&mut self) {
        let millivolts = self.board.input_mv(&self.files);
        let seen = &mut self.surroundings.seen;
        (seen.input_mv, seen.input_ma) = (millivolts, self.board.input_ma(&self.files));
        let input = self.input.as_mut().zip(millivolts);
        if input.is_some_and(|(input, millivolts)| input.take(millivolts)) {
            self.apply_limit();
        }
    }
}
