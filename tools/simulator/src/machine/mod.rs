//! Simulates a board over time: software requests settings, clocks follow with a delay, the die
//! heats up, and sensors lag.
//!
//! ```text
//! settings --> requested --1/5/8 ms--> effective --throttling--> true clocks
//!                 ^                                                  |
//!     passive trip |             workload --> activity --> power <---+
//!                 |                                         |  |
//!             die temperature <-- heat sink, fan, air <-----+  +--> INA3221 --> OC2
//! ```
//!
//! [`Jetson::advance`] advances the time. Equal seeds and equal calls give equal boards. Power is
//! constant from one event to the next, so that the sensors' low-pass needs no event of its own.
//! Sources: `jetson-platform.md`, sections 6.4, 7, 8 and 8.2. A value without a source is
//! marked as assumed.

mod background;
mod clock;
mod clock_tree;
mod consumption;
mod jetson;
pub mod mode_errors;
mod over_current;
mod sensors;
pub mod settings;
pub mod supply;
mod thermal;
pub mod trace;

pub use clock_tree::ClockDomain;
pub use consumption::Work;
pub use jetson::{Jetson, RIPPLE, SLICE};
pub use sensors::NOT_SUMMED;
pub use thermal::{BPMP_C, CRITICAL_C, Caps, PASSIVE_C, automatic_fan};
