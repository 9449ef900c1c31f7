//! Commands of the control language.

use std::time::Duration;

use super::super::faults::{ReadFault, SensorFault, WriteFault};
use super::super::file::CooledPart;
use crate::machine::ClockDomain;
use crate::machine::supply::Supply;
use crate::workload::Workload;

/// A parsed command. Paths are resolved.
#[derive(Clone, Debug)]
pub enum Command {
    Sensor(usize, SensorWord),
    Offset(usize, f64),
    Fault(String, WriteFault),
    Hide(String, ReadFault),
    Allow(String),
    Load(Option<Box<Workload>>),
    Power(f64),
    Activity {
        activity: f64,
        gpu_load: f64,
    },
    Ambient(f64),
    /// The part, and the highest clock in kHz that its cooling device allows.
    Cool(CooledPart, u32),
    Throttle(u32),
    Delay(ClockDomain, Duration),
    Supply(Supply),
    Nvpmodel {
        id: u32,
        container: bool,
    },
    Service,
    JetsonClocks,
    Write(String, String),
    Crash(String),
}

/// A command and the time of its execution.
#[derive(Clone, Debug)]
pub enum Order {
    Now(Command),
    At(Duration, Box<Line>),
    /// Now, and again after each period.
    Every(Duration, Box<Line>),
    /// Ends all repetitions.
    Stop,
}

/// Fault of a sensor, or its end.
#[derive(Clone, Copy, Debug)]
pub enum SensorWord {
    Fails(SensorFault),
    Freezes,
    Works,
}

/// An order with its text.
#[derive(Clone, Debug)]
pub struct Line {
    pub text: String,
    pub order: Order,
}
