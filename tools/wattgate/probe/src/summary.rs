//! What wattgate finds on a board: knobs, sensors, and what is missing. As text for people, and as
//! JSON.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use serde::Serialize;
use wattgate_board::{Board, DiscoverError, Files};

use crate::any_files::AnyFiles;

/// The keys of [`Summary`] in JSON, for help texts.
pub const KEYS: &str = "\
Keys of the object:
  model             name of the board
  compatible        list of the names of the module, the most specific first
  l4t               L4T release
  cores             list of the cores, in the order in which a power mode counts them
  cpu_khz           list of the CPU clocks; this and the other lists are empty if they cannot be set
  gpu_khz           list of the GPU clocks
  emc_khz           list of the memory clocks
  power             list of the measured rails
  offset_mw         typical offset of the power sensor
  averaging         number of samples that the power sensor averages; null if it cannot be set
  time_constant_ms  time constant of the power sensor
  gpu_load          whether the load of the GPU is shown
  cpu_clock         whether the true clock of the CPU is shown
  events            list of the over-current events that are counted
  zones             list of the thermal zones
  tpc_mask          TPC mask; null if the board has none
  fbp_mask          FBP mask; null if the board has none
  gated             what the TPC mask gates off, and what turns it on; null if nothing does
  nvpmodel          mode of nvpmodel
  now               present mode as text, or why it cannot be read
  missing           list of messages about files that the board lacks
";

/// What wattgate finds on a board.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Summary {
    pub model: String,
    pub compatible: Vec<String>,
    pub l4t: String,
    pub cores: Vec<u32>,
    pub cpu_khz: Vec<u32>,
    pub gpu_khz: Vec<u32>,
    pub emc_khz: Vec<u32>,
    pub power: Vec<String>,
    pub offset_mw: u32,
    pub averaging: Option<u32>,
    pub time_constant_ms: u64,
    pub gpu_load: bool,
    pub cpu_clock: bool,
    pub events: Vec<String>,
    pub zones: Vec<String>,
    pub tpc_mask: Option<i64>,
    pub fbp_mask: Option<i64>,
    pub gated: Option<String>,
    pub nvpmodel: Option<u32>,
    pub now: String,
    pub missing: Vec<String>,
}

impl Summary {
    /// Looks for everything below a root.
    pub fn discover(files: &mut dyn Files, root: &Path) -> Result<Self, DiscoverError> {
        let files = AnyFiles(files);
        Ok(Self::from_board(
            &Board::discover(&files, root)?,
            &files,
            root,
        ))
    }

    fn from_board(board: &Board, files: &AnyFiles<'_>, root: &Path) -> Self {
        let identity = board.identity();
        let masks = board.masks(files);
        let events = board.over_current_events(files).into_iter().zip(1..);
        let events = events.filter_map(|(count, number)| count.map(|_| format!("OC{number}")));
        let missing = board.missing().iter().map(|missing| {
            let mut missing = missing.clone();
            if let Ok(below) = missing.path.strip_prefix(root) {
                missing.path = Path::new("/").join(below);
            }
            missing.to_string()
        });
        Self {
            model: identity.model.clone(),
            compatible: identity.compatible.clone(),
            l4t: identity.l4t.clone(),
            cores: board.core_order().collect(),
            cpu_khz: board.cpu_khz().to_vec(),
            gpu_khz: board.gpu_khz().to_vec(),
            emc_khz: board.emc_khz().to_vec(),
            power: board.rails().map(str::to_owned).collect(),
            offset_mw: board.sensor_offset().0,
            averaging: board.averaging(files).ok(),
            time_constant_ms: board.time_constant(files).0,
            gpu_load: board.gpu_load(files).is_some(),
            cpu_clock: board.delivered_cpu(files).is_some(),
            events: events.collect(),
            zones: board.thermal_zones().map(str::to_owned).collect(),
            tpc_mask: masks.tpc,
            fbp_mask: masks.fbp,
            gated: board.gated().map(|gated| gated.to_string()),
            nvpmodel: board.nvpmodel_mode(files),
            now: board.current(files).to_string(),
            missing: missing.collect(),
        }
    }
}

impl Display for Summary {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut line = |key: &str, value: &dyn Display| writeln!(f, "{key:<9} {value}");
        line("board", &format_args!("{}, L4T {}", self.model, self.l4t))?;
        let cores: Vec<String> = self.cores.iter().map(u32::to_string).collect();
        line("cores", &Listed(&cores))?;
        line("CPU", &Clocks(&self.cpu_khz))?;
        line("GPU", &Clocks(&self.gpu_khz))?;
        line("EMC", &Clocks(&self.emc_khz))?;
        line("power", &self.power.join(" + "))?;
        let offset = self.offset_mw;
        line("offset", &format_args!("{offset} mW, typical"))?;
        let tau = self.time_constant_ms;
        match self.averaging {
            Some(samples) => line("averaging", &format_args!("{samples} samples, {tau} ms"))?,
            None => line("averaging", &format_args!("cannot be set; {tau} ms"))?,
        }
        let shown = |is_shown| if is_shown { "shown" } else { "not shown" };
        line("GPU load", &shown(self.gpu_load))?;
        line("CPU clock", &shown(self.cpu_clock))?;
        line("events", &Listed(&self.events))?;
        line("zones", &Listed(&self.zones))?;
        let masks = [("TPC", self.tpc_mask), ("FBP", self.fbp_mask)].into_iter();
        let masks = masks.filter_map(|(name, mask)| Some(format!("{name} {}", mask?)));
        line("masks", &Listed(&masks.collect::<Vec<_>>()))?;
        if let Some(gated) = &self.gated {
            line("gated", gated)?;
        }
        match self.nvpmodel {
            Some(mode) => line("nvpmodel", &format_args!("mode {mode}"))?,
            None => line("nvpmodel", &"mode not known")?,
        }
        line("now", &self.now)?;
        self.missing.iter().try_for_each(|it| line("missing", it))
    }
}

/// A list in words.
struct Listed<'a>(&'a [String]);

impl Display for Listed<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("none"),
            items => f.write_str(&items.join(", ")),
        }
    }
}

/// A table of clocks in kHz by its number and ends.
struct Clocks<'a>(&'a [u32]);

impl Display for Clocks<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("cannot be set"),
            [only] => write!(f, "{only} kHz only"),
            [first, .., last] => write!(f, "{} clocks, {first} to {last} kHz", self.0.len()),
        }
    }
}
