//! The supply under control: what it draws beside the module, and what of a limit is left for the module.
//!
//! The supply's power counts as the higher of two: the one that is *computed* of the module's power, and the one that a
//! meter shows. What the meter shows above the computed one is drawn by something else, such as a fan, and is added to
//! the supply's offset, so that the module gets that much less.
//!
//! A meter lags by an unknown time. While it lags behind a module that has just slowed down, it shows more than the
//! computed power, but nothing else draws that. So it is compared with a computed power that falls late: it holds its highest
//! value for [`HELD`] seconds, and then falls with the time constant [`RELEASE`]. A lag of [`HELD`] seconds, or a low-pass of as
//! much, never looks like a draw, so that the loop does not swing.
//!
//! What is added rises at once, and falls slowly: the highest value of the last one to two minutes counts. A fan or a
//! camera that is switched on and off by the minute would otherwise take the supply over its limit each time.

use wattgate_board::Files;
use wattgate_runtime::{Milliseconds, Milliwatts, governor};

use super::{Control, Event};
use crate::config::Config;
use crate::meter::{Meter, ModulePower};
use crate::quantity::{Place, Placed};

/// Seconds for which the computed power explains what the meter shows, and the time constant of what is left of it then.
const HELD: usize = 4;
const RELEASE: Milliseconds = Milliseconds(3_000);

/// Time constants of the low-passes of both powers: neither noise of the meter nor ripple of the load counts as a draw. The
/// meter's is longer, since the module's sensor lags as well, by up to 430 ms.
const MODULE_SMOOTHING: Milliseconds = Milliseconds(1_000);
const METER_SMOOTHING: Milliseconds = Milliseconds(2_000);

/// Half of the time after which a draw is forgotten, at the latest.
const MEMORY: Milliseconds = Milliseconds(60_000);

/// Steps of what is added, in mW: smaller ones would change the limit all the time.
const STEP_MW: f64 = 100.0;

/// The log gets a line of a meter's fault at most this often.
const TOLD_INTERVAL: Milliseconds = Milliseconds(60_000);

/// A low-pass of samples at any times.
#[derive(Clone, Copy, Debug, Default)]
struct LowPass(Option<(Milliseconds, f64)>);

impl LowPass {
    fn take(&mut self, now: Milliseconds, value: f64, time_constant: Milliseconds) -> f64 {
        let smoothed = match self.0 {
            None => value,
            Some((at, before)) => {
                let passed = now.since(at).0 as f64 / time_constant.0 as f64;
                value + (before - value) * (-passed).exp()
            }
        };
        self.0 = Some((now, smoothed));
        smoothed
    }
}

/// The module's power in mW, smoothed, and in the last seconds.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    low_pass: LowPass,
    /// Lowest and highest one of each second, and the number of the present one since the start.
    seconds: [(f64, f64); HELD],
    second: Option<u64>,
    /// Falls late.
    late: LowPass,
}

impl Recent {
    fn take(&mut self, now: Milliseconds, power: f64) {
        let power = self.low_pass.take(now, power, MODULE_SMOOTHING);
        let second = now.0 / 1_000;
        let before = self.second.replace(second);
        let passed = before.map_or(u64::MAX, |before| second.saturating_sub(before));
        let span = HELD as u64;
        for ago in 0..passed.min(span) {
            self.seconds[((second + span - ago) % span) as usize] = (power, power);
        }
        let (least, most) = &mut self.seconds[(second % span) as usize];
        (*least, *most) = (least.min(power), most.max(power));
        let highest = self.seconds.iter().map(|(_, most)| *most);
        let highest = highest.fold(0.0, f64::max);
        let late = self.late.take(now, power, RELEASE);
        self.late = LowPass(Some((now, late.max(highest))));
    }

    fn now(&self) -> Option<f64> {
        self.low_pass.0.map(|(_, power)| power)
    }

    fn least(&self) -> f64 {
        let least = self.seconds.iter().map(|(least, _)| *least);
        least.fold(f64::INFINITY, f64::min)
    }

    /// The highest power that a lagging meter may still show.
    fn late(&self) -> f64 {
        self.late.0.map_or(0.0, |(_, power)| power)
    }
}

/// What else the supply feeds.
#[derive(Clone, Copy, Debug, Default)]
struct Excess {
    added: Milliwatts,
    /// The highest one in mW of the last period of [`MEMORY`], and of the present one, which began then.
    highest: [f64; 2],
    began: Option<Milliseconds>,
}

impl Excess {
    /// Takes what the meter shows above the computed power, in mW; `None` if that is unknown.
    fn take(&mut self, now: Milliseconds, excess: Option<f64>) {
        if now.since(*self.began.get_or_insert(now)) >= MEMORY {
            let [_, last] = self.highest;
            (self.highest, self.began) = ([last, 0.0], Some(now));
        }
        let [last, present] = &mut self.highest;
        *present = present.max(excess.unwrap_or(0.0));
        let steps = (last.max(*present) / STEP_MW).ceil();
        self.added = Milliwatts((STEP_MW * steps) as u32);
    }
}

/// The supply of a board under control.
#[derive(Debug)]
pub struct Supply {
    /// Whether limits are the supply's.
    is_limited: bool,
    draw: governor::Supply,
    meter: Option<Meter>,
    module: Recent,
    metered: LowPass,
    excess: Excess,
    /// When a fault was last told, and whether it goes on.
    told: Option<Milliseconds>,
    is_told: bool,
}

impl Supply {
    pub(super) fn new(config: &Config, meter: Option<Meter>) -> Self {
        Self {
            is_limited: config.supply.is_some(),
            draw: config.draw(),
            meter,
            module: Recent::default(),
            metered: LowPass::default(),
            excess: Excess::default(),
            told: None,
            is_told: false,
        }
    }

    /// What it draws for the module's power, with all else that it feeds.
    pub fn draw(&self) -> governor::Supply {
        self.draw.with(self.excess.added)
    }

    /// What the meter showed above the computed power.
    pub fn added(&self) -> Milliwatts {
        self.excess.added
    }

    /// The meter, if there is one.
    pub fn meter(&self) -> Option<&Meter> {
        self.meter.as_ref()
    }

    /// Whether limits are the supply's.
    pub fn is_limited(&self) -> bool {
        self.is_limited
    }

    /// A power of the module as one where the limits hold.
    pub fn at_limit(&self, module: Milliwatts) -> Placed {
        self.limit(self.draw().supply(module))
    }

    /// A limit, for messages.
    pub(super) fn limit(&self, power: Milliwatts) -> Placed {
        Placed(power, self.is_limited.then_some(Place::Supply))
    }

    /// Takes the module's power, and reads the meter if that is due. Returns whether the supply draws something else now.
    fn watch(
        &mut self,
        files: &impl Files,
        now: Milliseconds,
        module: Option<Milliwatts>,
        emit: &mut impl FnMut(Event<'_>),
    ) -> bool {
        let Some(meter) = &mut self.meter else {
            return false;
        };
        if let Some(module) = module {
            self.module.take(now, f64::from(module.0));
        }
        let Some(power) = self.module.now() else {
            return false;
        };
        let least = self.module.least();
        let shown = meter.poll(files, now, ModulePower { now: power, least });
        let excess = shown.map(|shown| {
            let computed = self.draw.supply(Milliwatts(self.module.late() as u32));
            self.metered.take(now, shown, METER_SMOOTHING) - f64::from(computed.0)
        });
        let is_soon = self.told.is_some_and(|at| now.since(at) < TOLD_INTERVAL);
        match meter.fault() {
            Some(fault) if !self.is_told && !is_soon => {
                (self.told, self.is_told) = (Some(now), true);
                emit(Event::NoMeter {
                    path: meter.path(),
                    fault,
                });
            }
            // What it showed before is old when it works again.
            Some(_) => self.metered = LowPass::default(),
            None if self.is_told => {
                self.is_told = false;
                emit(Event::MeterAgain(meter.path()));
            }
            None => {}
        }
        let before = self.excess.added;
        // Without the module's power, nobody knows whose the meter's is.
        self.excess.take(now, excess.filter(|_| module.is_some()));
        self.excess.added != before
    }
}

impl<F: Files> Control<F> {
    /// Follows what the supply draws beside the module.
    pub(super) fn watch_supply(
        &mut self,
        now: Milliseconds,
        module: Option<Milliwatts>,
        emit: &mut impl FnMut(Event<'_>),
    ) {
        if self.supply.watch(&self.files, now, module, emit) {
            self.apply_limit();
        }
    }

    /// What of the limit is left for the module.
    pub fn module_limit(&self) -> Milliwatts {
        self.supply.draw().module(self.limit.power)
    }

    /// The supply.
    pub fn supply(&self) -> &Supply {
        &self.supply
    }
}
