//! Who holds the limit, and what may happen to the holder.

/// Who holds the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// The daemon's control, see [`holders::wattgate`](crate::holders::wattgate).
    Wattgate,
    /// The same without a model of the workload.
    WithoutModel,
    /// The same on a board of which nothing is known but its tables.
    UnknownBoard,
    /// A ladder of modes without a model, see [`holders::stepper`](crate::holders::stepper).
    Stepper,
    /// The prediction alone, see [`holders::open_loop`](crate::holders::open_loop).
    OpenLoop,
    /// `wattgated once`, see [`holders::once`](crate::holders::once).
    Once,
    /// nvpmodel's modes, see [`holders::preset`](crate::holders::preset).
    Preset,
    /// No cap at all, see [`holders::maxn`](crate::holders::maxn).
    Maxn,
    /// The daemon as a process in real time, see [`scenario::live`](crate::scenario::live).
    Wattgated,
}

impl Holder {
    /// The holders in the table of scenarios.
    pub const SIMULATED: [Self; 5] = [
        Self::Wattgate,
        Self::Stepper,
        Self::OpenLoop,
        Self::Preset,
        Self::Maxn,
    ];

    /// The holders of `loads` and `replay`.
    pub const REPLAYED: [Self; 8] = [
        Self::Wattgate,
        Self::WithoutModel,
        Self::UnknownBoard,
        Self::Stepper,
        Self::OpenLoop,
        Self::Once,
        Self::Preset,
        Self::Maxn,
    ];

    /// Whether the daemon's control has to learn first what the modes draw.
    pub fn is_without_model(self) -> bool {
        matches!(self, Self::WithoutModel | Self::UnknownBoard)
    }

    /// The printed name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wattgate => "wattgate",
            Self::WithoutModel => "without model",
            Self::UnknownBoard => "unknown board",
            Self::Stepper => "stepper",
            Self::OpenLoop => "open loop",
            Self::Once => "once",
            Self::Preset => "preset",
            Self::Maxn => "maxn",
            Self::Wattgated => "wattgated",
        }
    }
}

/// What happens to the holder in a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    /// The board suspends for this number of seconds. The holder does not run meanwhile, but the
    /// time since boot passes. SC7 keeps the power mode (`jetson-platform.md`, section 8). The
    /// simulated board idles meanwhile, and its sensor keeps sampling.
    Suspend(u64),
    /// SIGKILL. The daemon's systemd unit sets the safe mode within a second and restarts the daemon a
    /// second later. At its end the daemon restores the settings from before its first start.
    Kill,
    /// The holder is asked to take another model, whose file is defective.
    BadModel,
}

/// What a holder did in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HolderFigures {
    /// Changes of the mode.
    pub changes: u32,
    /// Time in a safe state, in s. Only the daemon's control has safe states.
    pub safe_s: f64,
}
