//! Over-current protection: events, throttling and counters
//! (`jetson-platform.md`, section 6.4).

use std::time::Duration;

/// Time for which an event of OC3 halves the clocks. The same is assumed of OC1.
const THROTTLE: Duration = Duration::from_micros(1070);

/// Exponent of the product of CPU and GPU clock in the rate of OC3 events. Assumed; the rate in the
/// mode 25W of an Orin Nano is a 27th of that in MAXN_SUPER.
const OC3_EXPONENT: f64 = 9.0;

/// Indices of the undervoltage event and of the event of a current above the critical limit.
pub const OC1: usize = 0;
pub const OC3: usize = 2;

/// The state of the protection.
#[derive(Clone, Copy, Debug, Default)]
pub struct OverCurrent {
    /// Whether the mean current is over the warning limit.
    oc2: bool,
    /// The end of an event of OC1 or OC3, while it lasts.
    until: Option<Duration>,
    /// Events of OC1, OC2, OC3 so far.
    events: [u64; 3],
    published: [u64; 3],
}

impl OverCurrent {
    /// Rate of OC3 events, per second, that have no cause in the sensors. `at_most` is the rate at
    /// the highest clocks; `cpu` and `gpu` are the clocks relative to the highest.
    pub fn rate(at_most: f64, cpu: f64, gpu: f64) -> f64 {
        at_most * (cpu * gpu).powf(OC3_EXPONENT)
    }

    /// Starts an event, or prolongs the one that lasts: voltage or current is beyond its limit at
    /// this moment.
    pub fn strike(&mut self, now: Duration, event: usize) {
        self.events[event] += u64::from(self.until.is_none());
        self.until = Some(now + THROTTLE);
    }

    /// Updates whether the mean current is above its limit.
    pub fn warn(&mut self, over: bool) {
        self.events[1] += u64::from(over && !self.oc2);
        self.oc2 = over;
    }

    /// When the event of OC1 or OC3 ends.
    pub fn due(&self) -> Option<Duration> {
        self.until
    }

    /// Ends an event of OC1 or OC3 that is over.
    pub fn pass(&mut self, now: Duration) {
        self.until = self.until.filter(|until| *until > now);
    }

    /// Whether the clocks are halved.
    pub fn throttles(&self) -> bool {
        self.oc2 || self.until.is_some()
    }

    /// Publishes the counters.
    pub fn publish(&mut self) {
        self.published = self.events;
    }

    /// The published counts of OC1, OC2 and OC3.
    pub fn published(&self) -> [u64; 3] {
        self.published
    }
}
