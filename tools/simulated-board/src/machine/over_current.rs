//! The over-current protection: events, what they throttle, and their counters
//! (`jetson-platform.md`, section 6.4).

use std::time::Duration;

/// An event of OC3 halves the clocks for so long. One of OC1 too, which is assumed.
const THROTTLE: Duration = Duration::from_micros(1070);

/// How the rate of OC3 events falls with the product of CPU and GPU clock. Assumed; it gives
/// 27 times fewer in the mode 25W of an Orin Nano than in MAXN_SUPER.
const OC3_EXPONENT: f64 = 9.0;

/// Too little voltage, and a current over the critical limit, among the events.
pub const OC1: usize = 0;
pub const OC3: usize = 2;

/// The state of the protection.
#[derive(Clone, Copy, Debug, Default)]
pub struct OverCurrent {
    /// The mean current is over the warning limit.
    oc2: bool,
    /// An event of OC1 or OC3 lasts.
    until: Option<Duration>,
    /// Events of OC1, OC2, OC3 so far.
    events: [u64; 3],
    published: [u64; 3],
}

impl OverCurrent {
    /// Events of OC3 a second that come without a cause that the sensors see, of a board that
    /// has so many with all clocks at their highest; both clocks as parts of that.
    pub fn rate(at_most: f64, cpu: f64, gpu: f64) -> f64 {
        at_most * (cpu * gpu).powf(OC3_EXPONENT)
    }

    /// The instantaneous voltage or current is beyond its limit.
    pub fn strike(&mut self, now: Duration, event: usize) {
        if self.until.is_none() {
            self.until = Some(now + THROTTLE);
            self.events[event] += 1;
        }
    }

    /// A new mean current is over its limit or not.
    pub fn warn(&mut self, over: bool) {
        self.events[1] += u64::from(over && !self.oc2);
        self.oc2 = over;
    }

    /// When the event of OC1 or OC3 ends.
    pub fn due(&self) -> Option<Duration> {
        self.until
    }

    /// Ends an event of OC1 or OC3 whose time is over.
    pub fn pass(&mut self, now: Duration) {
        self.until = self.until.filter(|until| *until > now);
    }

    /// The clocks are halved.
    pub fn throttles(&self) -> bool {
        self.oc2 || self.until.is_some()
    }

    /// The counters become visible.
    pub fn publish(&mut self) {
        self.published = self.events;
    }

    /// Events of OC1, OC2 and OC3 that are visible.
    pub fn published(&self) -> [u64; 3] {
        self.published
    }
}
