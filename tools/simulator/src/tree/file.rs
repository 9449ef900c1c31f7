//! Kinds of files of a board.

/// Kind of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum File {
    /// Text that never changes.
    Fixed(String),
    /// Accepts these words, without effect. The first word is the initial value.
    Register(&'static [&'static str]),
    /// `online` of a core.
    Online(u32),
    /// The list of online cores, of all cores or of one cluster.
    Cores(Option<usize>),
    /// A file of a cluster's cpufreq policy.
    Policy(usize, PolicyFile),
    Gpu(GpuFile),
    Emc(EmcFile),
    /// A file of a rail, by its place in [`Board::rails`].
    Rail(usize, RailFile),
    /// A file of a power sensor's chip, by its number in [`Board::chip_of`].
    Chip(usize, ChipFile),
    /// Sums over these rails of a chip.
    Sum(usize, Vec<usize>, SumFile),
    /// Events of the over-current protection, 0 for OC1.
    Events(usize),
    Temperature,
    /// How many entries of the table cooling takes from a unit's clocks.
    Cooling(CooledPart),
    /// The temperature of a zone without power.
    Unpowered,
    FanPwm,
    FanRpm,
    /// nvpmodel's status.
    Status,
}

impl File {
    /// Whether a power sensor changes the file from one conversion to the next.
    pub fn is_measured(&self) -> bool {
        match self {
            Self::Rail(_, RailFile::WarnAlarm | RailFile::CritAlarm) => true,
            Self::Sum(_, _, file) => *file != SumFile::Crit,
            Self::Rail(_, file) => file.registers() > 0,
            _ => false,
        }
    }

    /// Whether programs can write the file.
    pub fn is_writable(&self) -> bool {
        matches!(
            self,
            Self::Register(_)
                | Self::Online(_)
                | Self::Policy(
                    _,
                    PolicyFile::Min | PolicyFile::Max | PolicyFile::Governor | PolicyFile::Setspeed
                )
                | Self::Emc(_)
                | Self::Rail(_, RailFile::Warn | RailFile::Crit)
                | Self::Sum(_, _, SumFile::Crit)
                | Self::Chip(..)
                | Self::FanPwm
        ) || matches!(self, Self::Gpu(file) if !matches!(
            file,
            GpuFile::Requested | GpuFile::True | GpuFile::Load
        ))
    }
}

/// A part of the chip with a cooling device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CooledPart {
    Cpu,
    Gpu,
}

/// Files of a cpufreq policy that change, in kHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyFile {
    Min,
    Max,
    Requested,
    True,
    Governor,
    Setspeed,
}

/// Files of the GPU that change, in Hz where they are clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuFile {
    Min,
    Max,
    Requested,
    True,
    Governor,
    Railgate,
    PowerControl,
    TpcMask,
    FbpMask,
    Load,
}

/// Files of the memory clock that change, in Hz where they are clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmcFile {
    Rate,
    Locked,
    /// nvpmodel's cap. Without one it shows 0 up to R35 and the highest clock on R36 (assumed).
    Cap,
}

/// Files of a channel of a power sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RailFile {
    Label,
    Millivolts,
    Milliamperes,
    Milliwatts,
    ShuntMicrovolts,
    /// Shunt in µΩ.
    Shunt,
    Warn,
    Crit,
    WarnAlarm,
    CritAlarm,
}

impl RailFile {
    /// The number of the sensor's registers that a read of the file fetches.
    pub fn registers(self) -> u32 {
        match self {
            Self::Millivolts | Self::Milliamperes | Self::ShuntMicrovolts => 1,
            Self::Milliwatts => 2,
            _ => 0,
        }
    }
}

/// Files of a whole power sensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChipFile {
    /// The number of samples that the registers average over.
    Samples,
    /// Their time constant or the time of a cycle, in ms.
    Interval,
}

/// Files of a sensor's sum of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SumFile {
    Milliamperes,
    ShuntMicrovolts,
    Crit,
    CritAlarm,
}
