//! A board: the knobs and sensors that it has, found by name, label and type.
//!
//! [`Board::missing`] lists what a board lacks; everything else works. Discovery fails only if
//! nothing can be set or the total power cannot be known.

use std::path::{Path, PathBuf};

use wattgate_runtime::estimator::MOST_CHIPS;
use wattgate_runtime::{Kilohertz, Milliseconds, Milliwatts, PowerMode, Sample};

use crate::averaging::{AveragingError, Chips};
use crate::backstop::{Backstop, BackstopError};
use crate::clock::HZ;
use crate::cooling::Cooling;
use crate::cpu::{Cpus, RunningClock};
use crate::cpusets::Cpusets;
use crate::current::Current;
use crate::files::{Files, Knob, KnobError};
use crate::gpu::Gpu;
use crate::identity::Identity;
use crate::knobs::Knobs;
use crate::memory::Memory;
use crate::nvpmodel::{Gated, Masks, Nvpmodel};
use crate::obedience::Obedience;
use crate::power::{Rails, SampleError};
use crate::presets::Preset;
use crate::requests::Requests;
use crate::saved::Saved;
use crate::search::{DiscoverError, Missing, Search};
use crate::seen::Seen;
use crate::target::Clocks;
use crate::thermal::Heat;

/// From this load on, in permille, the GPU is busy.
const BUSY_GPU_LOAD: u16 = 500;

/// A counted clock differs from its request by at most this part of it.
const CLOCK_TOLERANCE: u32 = 20;

/// The knobs and sensors of a board.
#[derive(Debug)]
pub struct Board {
    pub(crate) identity: Identity,
    pub(crate) knobs: Knobs,
    pub(crate) rails: Rails,
    pub(crate) chips: Chips,
    pub(crate) backstop: Backstop,
    pub(crate) heat: Heat,
    pub(crate) cooling: Cooling,
    pub(crate) nvpmodel: Nvpmodel,
    missing: Vec<Missing>,
    /// What is known of knobs that do not obey.
    pub(crate) obedience: Obedience,
    /// Room for what the actuators show, so that a change of the mode does not allocate.
    pub(crate) seen: Vec<Seen>,
    /// What this program last requested of the clocks.
    pub(crate) requests: Requests,
    pub(crate) clocks: Clocks,
    pub(crate) cpusets: Cpusets,
    root: PathBuf,
}

impl Board {
    /// Looks for everything below `root`, which is `/` on a board.
    pub fn discover(files: &impl Files, root: &Path) -> Result<Self, DiscoverError> {
        Self::found(files, root, Rails::find)
    }

    /// Looks for the knobs, and for no power sensor: to set a mode where the power cannot be measured.
    /// [`Self::sample`] then fails.
    pub fn discover_knobs(files: &impl Files, root: &Path) -> Result<Self, DiscoverError> {
        Self::found(files, root, |_| Ok(Rails::none()))
    }

    fn found<F: Files>(
        files: &F,
        root: &Path,
        rails: impl FnOnce(&mut Search<'_, F>) -> Result<Rails, DiscoverError>,
    ) -> Result<Self, DiscoverError> {
        let mut search = Search::new(files, root);
        let identity = Identity::find(&mut search);
        let cpus = Cpus::find(&mut search)?;
        let gpu = Gpu::find(&mut search);
        let nvpmodel = Nvpmodel::find(&mut search, &cpus, gpu.as_ref());
        let memory = Memory::find(&mut search);
        let rails = rails(&mut search);
        let heat = Heat::find(&mut search);
        let cooling = Cooling::find(&search);
        let cpusets = Cpusets::find(&search);
        let has_cores = !search.misses("cores");
        let missing = search.into_missing();
        let knobs = Knobs { cpus, gpu, memory };
        let is_empty = knobs.is_empty();
        let rails = match rails {
            Err(DiscoverError::PowerUnknown { root, labels })
                if is_empty && !has_cores && labels.is_empty() =>
            {
                return Err(DiscoverError::NoBoard { root });
            }
            rails => rails?,
        };
        if is_empty {
            let root = root.to_owned();
            return Err(match has_cores || rails.labels().next().is_some() {
                true => DiscoverError::NothingToSet { root, missing },
                false => DiscoverError::NoBoard { root },
            });
        }
        Ok(Self {
            identity,
            obedience: Obedience::new(&knobs),
            seen: Vec::with_capacity(knobs.actuators()),
            requests: Requests::unknown(&knobs),
            clocks: Clocks::Pin,
            cpusets,
            root: root.to_owned(),
            knobs,
            chips: Chips::from_rails(&rails),
            backstop: Backstop::from_rails(&rails),
            rails,
            heat,
            cooling,
            nvpmodel,
            missing,
        })
    }

    /// The identity of the board.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The knobs and sensors that the board lacks, in the order of the search.
    pub fn missing(&self) -> &[Missing] {
        &self.missing
    }

    /// CPU clocks in kHz that all clusters have, ascending; empty where they cannot be set.
    pub fn cpu_khz(&self) -> &[u32] {
        &self.knobs.cpus.table
    }

    /// GPU clocks in kHz, ascending; empty where they cannot be set.
    pub fn gpu_khz(&self) -> &[u32] {
        self.knobs.gpu.as_ref().map_or(&[], |gpu| &gpu.table)
    }

    /// Memory clocks in kHz, ascending; empty where they cannot be set.
    pub fn emc_khz(&self) -> &[u32] {
        let memory = self.knobs.memory.as_ref();
        memory.map_or(&[], |memory| &memory.table)
    }

    /// All cores in the order in which a power mode counts them: by cluster (section 1).
    pub fn core_order(&self) -> impl Iterator<Item = u32> + '_ {
        self.knobs.cpus.cores.iter().map(|core| core.number)
    }

    /// The labels of the rails that add up to the module's power; `VIN` for the power of a whole board,
    /// as on Thor.
    pub fn rails(&self) -> impl Iterator<Item = &str> {
        self.rails.labels()
    }

    /// The directory of the sensor of each of [`Self::rails`], with the rail's label.
    pub fn sensor_devices(&self) -> impl Iterator<Item = (&Path, &str)> {
        let input = self.rails.input();
        let input = input.map(|input| (input.device(), &*input.label));
        self.rails.devices().chain(input)
    }

    /// Reads the total power from the sensors of [`Self::rails`]. Does not allocate on a disk.
    pub fn sample(&mut self, files: &impl Files) -> Result<Sample, SampleError> {
        self.rails.sample(files)
    }

    /// The voltage at the module's input in mV; `None` if no rail is the whole input. Reads one
    /// register.
    pub fn input_mv(&self, files: &impl Files) -> Option<u32> {
        self.rails.input_mv(files)
    }

    /// The current at the module's input in mA; `None` as for [`Self::input_mv`]. Reads one register.
    pub fn input_ma(&self, files: &impl Files) -> Option<u32> {
        self.rails.input_ma(files)
    }

    /// Looks for the power sensors again: after their driver was bound anew, their files have other
    /// paths. If they are not found, nothing changes.
    pub fn find_sensors(&mut self, files: &impl Files) -> Result<(), DiscoverError> {
        let root = self.root.clone();
        let rails = Rails::find(&mut Search::new(files, &root))?;
        (self.chips, self.backstop) = (Chips::from_rails(&rails), Backstop::from_rails(&rails));
        self.rails = rails;
        Ok(())
    }

    /// Typical error of the module's power from the offsets of the sensors, computed from the data
    /// sheet, the shunts, and the voltages at discovery. If the driver does not show a shunt, its
    /// lower bound is inferred from the currents read so far (at discovery and by
    /// [`Self::sample`]); more readings can raise that bound and so lower this error.
    pub fn sensor_offset(&self) -> Milliwatts {
        self.rails.offset()
    }

    /// The load of the GPU in permille: the part of the time in which it executes (section 5.2);
    /// `None` if the driver does not show it. Does not allocate on a disk.
    pub fn gpu_load(&self, files: &impl Files) -> Option<u16> {
        let load = self.knobs.gpu.as_ref()?.load.as_ref()?.read(files).ok()?;
        u16::try_from(load.clamp(0, 1_000)).ok()
    }

    /// The true clock of the slowest cluster with an online core, from the cores' counters: the only
    /// place that shows a throttling firmware (`jetson-platform.md`, section 5.1); `None` if no
    /// driver shows it. A read keeps a core busy for half a millisecond.
    pub fn delivered_cpu(&self, files: &impl Files) -> Option<Kilohertz> {
        let cpus = &self.knobs.cpus;
        let online = cpus.online(files);
        let policies = cpus.policies.iter();
        let online = policies.filter(|policy| policy.cores & online != 0);
        let clocks = online.filter_map(|policy| policy.delivered.as_ref()?.read(files).ok());
        let slowest = clocks.min().and_then(|khz| u32::try_from(khz).ok());
        slowest.map(Kilohertz)
    }

    /// The requested and the true clock of the first CPU cluster; hardware and firmware throttle all
    /// clusters. `None` if the driver does not show it. A read keeps a core busy for half a
    /// millisecond.
    pub fn cpu_clock(&self, files: &impl Files) -> Option<RunningClock> {
        self.knobs.cpus.clock(files)
    }

    /// The present clock of the GPU: the true one on Orin, on other boards without what hardware
    /// takes from it. `None` if no driver shows it.
    pub fn gpu_clock(&self, files: &impl Files) -> Option<Kilohertz> {
        kilohertz(self.knobs.gpu.as_ref()?.clock(), files)
    }

    /// The requested and the true clock of the GPU, while it is busy: an idle one may be off. `None`
    /// where nothing counts the true one.
    pub fn busy_gpu_clock(&self, files: &impl Files) -> Option<RunningClock> {
        let gpu = self.knobs.gpu.as_ref()?;
        let counter = self.gpu_counter()?;
        let clock = RunningClock {
            requested: kilohertz(&gpu.requested, files)?,
            delivered: kilohertz(counter, files)?,
        };
        let is_busy = self
            .gpu_load(files)
            .is_some_and(|load| load >= BUSY_GPU_LOAD);
        is_busy.then_some(clock)
    }

    /// Whether the clocks of GPU and memory have followed a change to a mode, as far as the board
    /// shows it: a clock takes up to 8 ms on Orin (section 8) and 107 ms on Thor (addendum). A clock
    /// that nothing shows has followed. Reads one or two files.
    pub fn has_arrived(&self, files: &impl Files, mode: &PowerMode) -> bool {
        let gpu = self.gpu_counter();
        let gpu = gpu.and_then(|counter| kilohertz(counter, files));
        is_near(gpu, mode.gpu) && is_near(self.memory_clock(files), mode.emc)
    }

    /// Whether [`Self::has_arrived`] can see a change to a mode: a clock that the board shows leaves
    /// its former value.
    pub fn shows_change(&self, from: &Current, to: &PowerMode) -> bool {
        let gpu = from.gpu.filter(|_| self.gpu_counter().is_some());
        !is_near(gpu, to.gpu) || !is_near(from.emc, to.emc)
    }

    /// The file of the GPU's true clock.
    fn gpu_counter(&self) -> Option<&Knob> {
        self.knobs.gpu.as_ref()?.counter.as_ref()
    }

    /// The present clock of the memory; `None` if the driver does not show it.
    pub fn memory_clock(&self, files: &impl Files) -> Option<Kilohertz> {
        kilohertz(&self.knobs.memory.as_ref()?.rate, files)
    }

    /// Resolution of each chip's power: the root of the sum of the squares of its rails' steps,
    /// computed from the shunts and the voltages at discovery. If the driver does not show a shunt,
    /// the value depends on the readings so far, as in [`Self::sensor_offset`].
    pub fn sensor_steps(&self) -> [Milliwatts; MOST_CHIPS] {
        self.rails.steps()
    }

    /// Number of chips that measure these rails, 1 … [`MOST_CHIPS`].
    pub fn chips(&self) -> usize {
        self.rails.chips()
    }

    /// The types of the thermal zones.
    pub fn thermal_zones(&self) -> impl Iterator<Item = &str> {
        self.heat.names()
    }

    /// The temperature of the hottest zone that can be read, in milli-°C (section 7).
    pub fn hottest_mc(&self, files: &impl Files) -> Option<i64> {
        self.heat.hottest_mc(files)
    }

    /// Events of the over-current protection OC1, OC2 and OC3 since boot (section 6.4); `None`
    /// for an event without a counter.
    pub fn over_current_events(&self, files: &impl Files) -> [Option<i64>; 3] {
        self.heat.over_current_events(files)
    }

    /// The TPCs of the GPU that were gated when the board was discovered, one bit each; `None` on
    /// boards without the mask.
    pub fn tpc_pg_mask(&self) -> Option<u32> {
        self.nvpmodel.tpc_pg_mask
    }

    /// The part of the GPU that is gated off until a reboot; `None` if nothing is.
    pub fn gated(&self) -> Option<Gated> {
        self.nvpmodel.gated()
    }

    /// The power-gating masks of the GPU; this crate never writes them.
    pub fn masks(&self, files: &impl Files) -> Masks {
        self.nvpmodel.masks(files)
    }

    /// The id of the mode that nvpmodel believes to be set (section 4.1).
    pub fn nvpmodel_mode(&self, files: &impl Files) -> Option<u32> {
        self.nvpmodel.mode(files)
    }

    /// The modes in nvpmodel's configuration; empty if the configuration cannot be read.
    pub fn presets(&self) -> &[Preset] {
        &self.nvpmodel.presets
    }

    /// The time constant of each chip of the total, as the driver shows it; 430 ms, L4T's setting,
    /// if the driver does not; 51 ms for an INA238. The tolerance of a chip's oscillator changes it by some percent.
    /// Does not allocate on a disk.
    pub fn time_constants(&self, files: &impl Files) -> [Milliseconds; MOST_CHIPS] {
        self.chips.time_constants(files)
    }

    /// The longest time constant of all chips.
    pub fn time_constant(&self, files: &impl Files) -> Milliseconds {
        self.chips.time_constant(files)
    }

    /// The number of samples that the power sensors average; the largest number if chips differ.
    /// Errors: [`AveragingError::Unavailable`], [`AveragingError::Fixed`] and
    /// [`AveragingError::Unknown`].
    pub fn averaging(&self, files: &impl Files) -> Result<u32, AveragingError> {
        self.chips.averaging(files)
    }

    /// Sets the number of samples that all chips of the total average, one of
    /// [`SAMPLES`](crate::SAMPLES), and returns the [time constant](Self::time_constant) that
    /// follows. Every write is read back; if one fails, all are undone. A chip that has this number
    /// already is not written to.
    pub fn set_averaging(
        &self,
        files: &mut impl Files,
        samples: u32,
    ) -> Result<Milliseconds, AveragingError> {
        self.chips.set_averaging(files, samples)
    }

    /// Gives the sensors their averaging in `own` again, which [`Self::set_averaging`] had changed.
    pub fn restore_averaging(&self, files: &mut impl Files, own: &Saved) -> Result<(), KnobError> {
        let failures = self.chips.restore(files, own);
        failures.0.into_iter().next().map_or(Ok(()), Err)
    }

    /// The least power of a rail at which the sensor warns (`currN_max`): it compares the averages, and
    /// the SoC halves its clocks. At the last voltages that were read. `None` if the driver has no such limit.
    pub fn least_warning(&self, files: &impl Files) -> Option<Milliwatts> {
        self.rails.least_warning(files)
    }

    /// Whether [`Self::set_backstop`] can work on this board.
    pub fn check_backstop(&self, files: &impl Files) -> Result<(), BackstopError> {
        self.backstop.check(files)
    }

    /// Sets the currents at which hardware halves the clocks of CPU and GPU: above a limit plus a
    /// margin at any moment, less twice the typical offset of the sensors, and, where one rail is the
    /// whole input, 5 % above the limit on average (module `backstop`). At most to the board's own
    /// limits in the state that was saved before. The currents follow from the present voltages, and
    /// on an AGX Orin from the highest recent power of the 5 V rail; they are right as long as this
    /// is called every second. Writes only what differs by more than 1 %. Returns whether another
    /// program had changed a limit since the last call.
    pub fn set_backstop(
        &mut self,
        files: &mut impl Files,
        own: &Saved,
        limit: Milliwatts,
        margin: Milliwatts,
    ) -> Result<bool, BackstopError> {
        let offset = self.sensor_offset();
        self.backstop.set(files, own, offset, [limit, margin])
    }

    /// Gives the sensors the limits of the current in `own` again, which [`Self::set_backstop`] had
    /// lowered.
    pub fn lift_backstop(&mut self, files: &mut impl Files, own: &Saved) -> Result<(), KnobError> {
        let failures = self.backstop.restore(files, own);
        failures.0.into_iter().next().map_or(Ok(()), Err)
    }
}

/// Whether a clock is the wanted one, or is unknown.
fn is_near(clock: Option<Kilohertz>, wanted: Kilohertz) -> bool {
    clock.is_none_or(|clock| clock.0.abs_diff(wanted.0) <= wanted.0 / CLOCK_TOLERANCE)
}

/// A clock in kHz of a file in Hz.
fn kilohertz(knob: &Knob, files: &impl Files) -> Option<Kilohertz> {
    let hz = knob.read(files).ok()?;
    u32::try_from(hz / i64::from(HZ)).ok().map(Kilohertz)
}
