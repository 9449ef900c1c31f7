//! Faults of sensors and of writes.

use std::collections::BTreeMap;
use std::time::Duration;

use super::errno::Errno;
use crate::sensor::Reading;

/// Fault of a rail's sensor: its files do not show the registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SensorFault {
    /// The files do not exist.
    Missing,
    /// The files keep showing the reading at the time of the fault.
    Frozen(Reading),
    /// The files show the readings with this delay.
    Late(Duration),
    /// The files show full scale.
    Absurd,
    /// The files show the current with its sign flipped.
    Flipped,
}

/// Fault of writes to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFault {
    Refused(Errno),
    Ignored,
    /// A higher value becomes this one.
    Clamped(u64),
    /// A lower value becomes this one.
    Floored(u64),
    /// A value becomes the next lower multiple of this one.
    Quantised(u64),
    /// A write takes effect after this time.
    Late(Duration),
    /// The earlier value returns after this time.
    Reverted(Duration),
}

impl WriteFault {
    /// The text that takes the place of one that is written.
    pub fn text(self, text: &str) -> String {
        let Ok(value) = text.trim().parse::<u64>() else {
            return text.to_owned();
        };
        match self {
            Self::Clamped(most) => value.min(most),
            Self::Floored(least) => value.max(least),
            Self::Quantised(step) => value / step * step,
            _ => value,
        }
        .to_string()
    }
}

/// Fault of reads of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadFault {
    /// It cannot be read.
    Unreadable,
    /// It does not exist.
    Vanished,
}

impl ReadFault {
    /// The error of a read.
    pub fn errno(self) -> Errno {
        match self {
            Self::Unreadable => Errno::Eio,
            Self::Vanished => Errno::Enoent,
        }
    }
}

/// All active faults.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    sensors: BTreeMap<usize, SensorFault>,
    writes: BTreeMap<String, WriteFault>,
    reads: BTreeMap<String, ReadFault>,
    crashed: Option<String>,
}

impl Faults {
    /// The fault of a rail's sensor.
    pub fn of_sensor(&self, rail: usize) -> Option<SensorFault> {
        self.sensors.get(&rail).copied()
    }

    /// The fault of writes to a file.
    pub fn of_writes(&self, path: &str) -> Option<WriteFault> {
        self.writes.get(path).copied()
    }

    /// The fault of reads of a file.
    pub fn of_reads(&self, path: &str) -> Option<ReadFault> {
        self.reads.get(path).copied()
    }

    /// The file that a crash has left half written.
    pub fn crashed(&self) -> Option<&str> {
        self.crashed.as_deref()
    }

    /// Sets the fault of a rail's sensor; `None` ends it.
    pub fn set_sensor(&mut self, rail: usize, fault: Option<SensorFault>) {
        match fault {
            Some(fault) => self.sensors.insert(rail, fault),
            None => self.sensors.remove(&rail),
        };
    }

    /// Sets the fault of writes to a file.
    pub fn set_writes(&mut self, path: String, fault: WriteFault) {
        self.writes.insert(path, fault);
    }

    /// Sets the fault of reads of a file.
    pub fn set_reads(&mut self, path: String, fault: ReadFault) {
        self.reads.insert(path, fault);
    }

    /// Ends the faults of a file; false if there is none.
    pub fn allow(&mut self, path: &str) -> bool {
        let written = self.writes.remove(path).is_some();
        self.reads.remove(path).is_some() || written
    }

    /// Marks this file as half written.
    pub fn crash(&mut self, path: String) {
        self.crashed = Some(path);
    }
}

/// The first half of a text that was being written.
pub fn half(text: &str) -> &str {
    text.get(..text.len() / 2).unwrap_or_default()
}
