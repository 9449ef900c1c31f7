//! The virtual files of a board: what reading and writing them does.
//!
//! A [`Tree`] is a state machine over a [`Jetson`] without disk or clock: exact, synchronous,
//! and as fast as simulated time allows. [`mirror`] keeps it on a disk.
//!
//! Decisions where `jetson-platform.md` leaves room:
//! - A minimum above the maximum, or a maximum below the minimum, is refused with EINVAL: only
//!   then the order of writes of section 5.1 is needed. Newer kernels may clamp instead.
//! - A clock that is not in the table is rounded down, or up to the least one; the direction
//!   is UNKNOWN (section 4).
//! - Switching cpu0 off gives EBUSY; the document says only that it cannot be done.
//! - Files of a cluster's policy give EIO while none of its cores is online.
//! - Another mask gives ENODEV, as `fbp_pg_mask` was seen to do (section 3.1).

pub mod faults;
mod layout;
mod links;
pub mod mirror;
pub mod nvpmodel;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use thiserror::Error;

use crate::load::Load;
use crate::machine::Jetson;
use crate::machine::settings::{Governor, rounded};
use crate::sampling::SAMPLES;
use crate::sensor::Reading;
use crate::unit::Unit;
use faults::{Faults, SensorFault, WriteFault};
use layout::{Alias, ChipFile, EmcFile, File, GpuFile, Layout, PolicyFile, RailFile, SumFile};
use nvpmodel::NvpmodelError;
use wattgate_board_tables::Board;

/// What nvpmodel writes for "no cap" into a file of a 32-bit integer.
const INT_MAX: i64 = i32::MAX as i64;

/// The fan's speed at full power, in 1/min. Assumed.
const FAN_RPM: u32 = 6000;

/// How the kernel refuses.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq, PartialOrd, Ord)]
pub enum Errno {
    /// No such file.
    #[error("ENOENT")]
    Enoent,
    /// An error of the device.
    #[error("EIO")]
    Eio,
    /// Nothing to read now.
    #[error("EAGAIN")]
    Eagain,
    /// The file is read-only.
    #[error("EACCES")]
    Eacces,
    /// In use.
    #[error("EBUSY")]
    Ebusy,
    /// The device does not take it now.
    #[error("ENODEV")]
    Enodev,
    /// Not a valid value.
    #[error("EINVAL")]
    Einval,
    /// The file system is read-only.
    #[error("EROFS")]
    Erofs,
    /// The board has shut down.
    #[error("ESHUTDOWN")]
    Eshutdown,
}

/// The files of a board.
#[derive(Clone, Debug)]
pub struct Tree {
    jetson: Jetson,
    layout: Layout,
    /// Words that registers hold, by path.
    registers: BTreeMap<String, &'static str>,
    /// The mode of nvpmodel that is set, by id.
    mode: u32,
    /// The mode that nvpmodel's status names.
    status: u32,
    faults: Faults,
    /// The load that is played, and how many of its steps were.
    load: Option<Load>,
    played: usize,
}

impl Tree {
    /// A board that has booted in a mode of nvpmodel, or in its default mode. Units differ by
    /// `unit`; noise and the numbers of hwmon devices depend on `seed`.
    pub fn new(
        board: Board,
        unit: Unit,
        seed: u64,
        mode: Option<u32>,
    ) -> Result<Self, NvpmodelError> {
        let mode = nvpmodel::mode(&board, mode)?.clone();
        // Numbers vary from boot to boot (section 6.1).
        let layout = Layout::of(&board, (seed % 3) as usize);
        Ok(Self {
            jetson: Jetson::new(board, unit, seed, &mode),
            layout,
            registers: BTreeMap::new(),
            mode: mode.id,
            status: mode.id,
            faults: Faults::default(),
            load: None,
            played: 0,
        })
    }

    /// The board behind the files.
    pub fn jetson(&self) -> &Jetson {
        &self.jetson
    }

    /// The same to change workload, air and sensors without the control language.
    pub fn jetson_mut(&mut self) -> &mut Jetson {
        &mut self.jetson
    }

    /// All files by absolute path, each with whether it can be written.
    pub fn files(&self) -> impl Iterator<Item = (&str, bool)> {
        let files = self.layout.files.iter();
        files.map(|(path, file)| (path.as_str(), file.is_writable()))
    }

    /// The names in a directory, ascending.
    pub fn list(&self, directory: &str) -> Result<Vec<String>, Errno> {
        let directory = self.target(&format!("{}/", directory.trim_end_matches('/')))?;
        let paths = self.layout.files.keys().chain(self.layout.aliases.keys());
        let below = paths.filter_map(|path| path.strip_prefix(&directory)?.split('/').next());
        let names: BTreeSet<&str> = below.collect();
        match names.is_empty() {
            true => Err(Errno::Enoent),
            false => Ok(names.into_iter().map(str::to_owned).collect()),
        }
    }

    /// Plays a load from time zero on. After its end the last activity stays.
    pub fn play(&mut self, load: Load) {
        (self.load, self.played) = (Some(load), 0);
        self.pass(self.jetson.now());
    }

    /// Lets time pass, and the commands happen whose time comes.
    pub fn advance(&mut self, now: Duration) {
        while let Some((at, command)) = self.faults.due(now) {
            self.pass(at);
            self.execute(&command);
        }
        if self.faults.crashed().is_none() {
            self.pass(now);
        }
    }

    /// Lets time pass, in which the load moves.
    fn pass(&mut self, now: Duration) {
        while let Some(step) = self.load.iter().find_map(|it| it.steps().get(self.played))
            && step.from <= now
        {
            self.jetson.advance(step.from);
            self.jetson.set_load(step.activity, step.gpu_load);
            self.played += 1;
        }
        self.jetson.advance(now);
    }

    /// What a read of the file gives.
    pub fn read(&self, path: &str) -> Result<String, Errno> {
        if self.jetson.is_off() {
            return Err(Errno::Eshutdown);
        }
        let (path, file) = self.resolve(path)?;
        let text = self.text_of(&path, file)?;
        match self.faults.crashed() {
            Some(crashed) if crashed == path => Ok(faults::half(&text).to_owned()),
            _ => Ok(text),
        }
    }

    /// How many measured values of a power sensor a read of the file fetches.
    pub fn registers_of(&self, path: &str) -> u32 {
        // Most files that are read are none of a sensor's.
        if !path.ends_with("_input") {
            return 0;
        }
        match self.resolve(path) {
            Ok((_, File::Rail(_, file))) => file.registers(),
            Ok((_, File::Sum(_, SumFile::Milliamperes | SumFile::ShuntMicrovolts))) => 1,
            _ => 0,
        }
    }

    /// Writes to the file.
    pub fn write(&mut self, path: &str, text: &str) -> Result<(), Errno> {
        if self.jetson.is_off() {
            return Err(Errno::Eshutdown);
        }
        let (path, file) = self.resolve(path)?;
        let file = file.clone();
        if !file.is_writable() {
            return Err(Errno::Eacces);
        }
        match self.faults.of_writes(&path) {
            Some(WriteFault::Refused(errno)) => return Err(errno),
            Some(WriteFault::Ignored) => return Ok(()),
            None => {}
        }
        if self.faults.crashed().is_some() {
            return Ok(());
        }
        self.apply(&path, &file, text.trim())
    }

    /// The path behind all aliases, and its file.
    fn resolve<'a>(&self, path: &'a str) -> Result<(Cow<'a, str>, &File), Errno> {
        // No file is listed under an alias.
        if let Some(file) = self.layout.files.get(path) {
            return Ok((Cow::Borrowed(path), file));
        }
        let path = self.target(path)?;
        let file = self.layout.files.get(&path).ok_or(Errno::Enoent)?;
        Ok((Cow::Owned(path), file))
    }

    /// The path behind all aliases, whether or not there is a file.
    fn target(&self, path: &str) -> Result<String, Errno> {
        let mut path = path.to_owned();
        while let Some((alias, rest)) = self.alias_in(&path) {
            if alias.core.is_some_and(|core| !self.is_online(core)) {
                return Err(Errno::Eio);
            }
            path = format!("{}{rest}", alias.target);
        }
        Ok(path)
    }

    fn alias_in<'a>(&self, path: &'a str) -> Option<(&Alias, &'a str)> {
        let split = |&at: &usize| {
            let rest = path.get(at..).filter(|rest| rest.starts_with('/'))?;
            Some((self.layout.aliases.get(&path[..at])?, rest))
        };
        self.layout.alias_lengths.iter().find_map(split)
    }

    fn is_online(&self, core: u32) -> bool {
        self.jetson.settings().online[core as usize]
    }

    /// The online cores of a cluster, or of all.
    fn online_cores(&self, cluster: Option<usize>) -> Vec<u32> {
        let board = self.jetson.board();
        let all = 0..board.cores();
        let within = |core: &u32| cluster.is_none_or(|at| board.clusters[at].contains(core));
        all.filter(|&core| self.is_online(core))
            .filter(within)
            .collect()
    }

    fn policy_lives(&self, cluster: usize) -> Result<(), Errno> {
        match self.online_cores(Some(cluster)).is_empty() {
            true => Err(Errno::Eio),
            false => Ok(()),
        }
    }

    fn text(&self, path: &str) -> Result<String, Errno> {
        self.text_of(path, &self.layout.files[path])
    }

    fn text_of(&self, path: &str, file: &File) -> Result<String, Errno> {
        let (jetson, settings) = (&self.jetson, self.jetson.settings());
        let value: i64 = match file {
            File::Fixed(text) => return Ok(text.clone()),
            File::Register(words) => {
                let word = self.registers.get(path).copied().unwrap_or(words[0]);
                return Ok(format!("{word}\n"));
            }
            File::Cores(None) => return Ok(layout::ranges(&self.online_cores(None))),
            File::Cores(cluster) => {
                let cores = self.online_cores(*cluster);
                let words: Vec<String> = cores.iter().map(u32::to_string).collect();
                return Ok(words.join(" ") + "\n");
            }
            File::Status => return Ok(format!("pmode:{:04}\n", self.status)),
            File::Policy(cluster, file) => {
                self.policy_lives(*cluster)?;
                return Ok(self.policy_text(*cluster, *file) + "\n");
            }
            File::Gpu(file) => return Ok(self.gpu_text(*file) + "\n"),
            File::Rail(rail, file) => return self.rail_text(*rail, *file),
            File::Chip(chip, file) => {
                let sampling = jetson.sampling(*chip);
                match file {
                    ChipFile::Samples => sampling.samples.into(),
                    ChipFile::Interval => sampling.interval_ms().into(),
                }
            }
            File::Sum(rails, file) => self.sum(rails, *file)?,
            File::Online(core) => self.is_online(*core).into(),
            File::Emc(EmcFile::Rate) => hertz(jetson.emc_khz()),
            File::Emc(EmcFile::Locked) => settings.emc.locked.into(),
            File::Emc(EmcFile::Cap) => match settings.emc.cap_khz {
                None if layout::release(jetson.board()) < 36 => 0,
                _ => hertz(settings.emc_ceiling_khz(jetson.board())),
            },
            File::Events(event) => jetson.over_current_events()[*event] as i64,
            File::Temperature => (1000.0 * jetson.die_c()).round() as i64,
            File::Unpowered => return Err(Errno::Eagain),
            File::FanPwm => jetson.fan_pwm().into(),
            File::FanRpm => (FAN_RPM * u32::from(jetson.fan_pwm()) / 255).into(),
        };
        Ok(format!("{value}\n"))
    }

    fn policy_text(&self, cluster: usize, file: PolicyFile) -> String {
        let policy = &self.jetson.settings().policies[cluster];
        let khz = match file {
            PolicyFile::Min => policy.min_khz,
            PolicyFile::Max => policy.max_khz,
            PolicyFile::Requested => self.jetson.cpu_requested_khz(cluster),
            PolicyFile::True => self.jetson.cpu_true_khz(cluster),
            PolicyFile::Governor => return governor_name(policy.governor).to_owned(),
            PolicyFile::Setspeed if policy.governor != Governor::Userspace => {
                return "<unsupported>".to_owned();
            }
            PolicyFile::Setspeed => policy.setspeed_khz,
        };
        khz.to_string()
    }

    fn gpu_text(&self, file: GpuFile) -> String {
        let (settings, gpu) = (self.jetson.settings(), &self.jetson.settings().gpu);
        let value: i64 = match file {
            GpuFile::Min => hertz(gpu.min_khz),
            GpuFile::Max => hertz(gpu.max_khz),
            GpuFile::Requested => hertz(self.jetson.gpu_requested_khz()),
            GpuFile::True => hertz(self.jetson.gpu_true_khz()),
            GpuFile::Governor => {
                let governor = GPU_GOVERNORS[usize::from(gpu.performance)];
                return governor.to_owned();
            }
            GpuFile::Railgate => gpu.railgate.into(),
            GpuFile::PowerControl => {
                return POWER_CONTROL[usize::from(gpu.always_on)].to_owned();
            }
            GpuFile::TpcMask => settings.tpc_pg_mask.unwrap_or(0).into(),
            GpuFile::FbpMask => settings.fbp_pg_mask.unwrap_or(0).into(),
            GpuFile::Load => (1000.0 * self.jetson.gpu_load()).round() as i64,
        };
        value.to_string()
    }

    /// What a rail's sensor shows, as its fault shows it.
    fn reading(&self, rail: usize) -> Result<Reading, Errno> {
        let channel = self.jetson.channel(rail);
        let reading = channel.reading();
        Ok(match self.faults.of_sensor(rail) {
            None => reading,
            Some(SensorFault::Missing) => return Err(Errno::Enoent),
            Some(SensorFault::Frozen(reading)) => reading,
            Some(SensorFault::Late(by)) => {
                let then = self.jetson.now().saturating_sub(by);
                self.jetson.reading_at(rail, then)
            }
            Some(SensorFault::Absurd) => channel.full_scale(),
            Some(SensorFault::Flipped) => Reading {
                milliamperes: -reading.milliamperes,
                shunt_microvolts: -reading.shunt_microvolts,
                ..reading
            },
        })
    }

    fn rail_text(&self, rail: usize, file: RailFile) -> Result<String, Errno> {
        let (reading, channel) = (self.reading(rail)?, self.jetson.channel(rail));
        let value: i64 = match file {
            RailFile::Label => return Ok(self.jetson.board().rails[rail].label.clone() + "\n"),
            RailFile::Millivolts => reading.millivolts,
            RailFile::Milliamperes => reading.milliamperes,
            RailFile::Milliwatts => reading.millivolts * reading.milliamperes / 1000,
            RailFile::ShuntMicrovolts => reading.shunt_microvolts,
            RailFile::Shunt => channel.shunt_uohm(),
            RailFile::Warn => channel.warn_ma,
            RailFile::Crit => channel.crit_ma,
            RailFile::WarnAlarm => channel.warn_alarm().into(),
            RailFile::CritAlarm => self.jetson.crit_alarm(rail).into(),
        };
        Ok(format!("{value}\n"))
    }

    fn sum(&self, rails: &[usize], file: SumFile) -> Result<i64, Errno> {
        let mut sum = Reading::default();
        for &rail in rails {
            let reading = self.reading(rail)?;
            sum.milliamperes += reading.milliamperes;
            sum.shunt_microvolts += reading.shunt_microvolts;
        }
        Ok(match file {
            SumFile::Milliamperes => sum.milliamperes,
            SumFile::ShuntMicrovolts => sum.shunt_microvolts,
            SumFile::CritAlarm => {
                // The limit is on the first chip.
                let limit = self.jetson.board().over_current.sum_crit_ma;
                let limit = limit.filter(|_| rails.first() == Some(&0));
                limit
                    .is_some_and(|most| sum.milliamperes as f64 > most)
                    .into()
            }
        })
    }

    fn apply(&mut self, path: &str, file: &File, text: &str) -> Result<(), Errno> {
        match *file {
            File::Register(words) => {
                let word = words.iter().find(|word| **word == text);
                let word = word.ok_or(Errno::Einval)?;
                self.registers.insert(path.to_owned(), word);
            }
            File::Online(core) => {
                let online = flag(text, ["0", "1"])?;
                if core == 0 && !online {
                    return Err(Errno::Ebusy);
                }
                self.jetson
                    .request(|settings| settings.online[core as usize] = online);
            }
            File::Policy(cluster, file) => {
                self.policy_lives(cluster)?;
                self.apply_policy(cluster, file, text)?;
            }
            File::Gpu(file) => self.apply_gpu(file, text)?,
            File::Emc(file) => self.apply_emc(file, text)?,
            File::Rail(rail, file) => {
                let ma = whole(text)?;
                let channel = self.jetson.channel_mut(rail);
                let limit = channel.limit_ma(ma);
                match file {
                    RailFile::Warn => channel.warn_ma = limit,
                    _ => channel.crit_ma = limit,
                }
            }
            File::Chip(chip, file) => {
                let (sampling, wanted) = (self.jetson.sampling(chip), whole(text)?);
                let sampling = match file {
                    ChipFile::Samples => sampling.with_samples(wanted),
                    ChipFile::Interval => sampling.with_interval_ms(wanted),
                };
                self.jetson.set_sampling(chip, sampling);
            }
            File::FanPwm => {
                let pwm = u8::try_from(whole(text)?).map_err(|_| Errno::Einval)?;
                self.jetson.request(|settings| settings.fan_pwm = Some(pwm));
            }
            _ => return Err(Errno::Eacces),
        }
        Ok(())
    }

    fn apply_policy(&mut self, at: usize, file: PolicyFile, text: &str) -> Result<(), Errno> {
        let khz = |tree: &Self| Ok(rounded(&tree.jetson.board().cpu_khz, unsigned(text)?));
        let mut policy = self.jetson.settings().policies[at];
        match file {
            PolicyFile::Min => policy.min_khz = khz(self)?,
            PolicyFile::Max => policy.max_khz = khz(self)?,
            PolicyFile::Setspeed if policy.governor == Governor::Userspace => {
                policy.setspeed_khz = khz(self)?;
            }
            PolicyFile::Governor => {
                let named = |(_, name): &&(Governor, &str)| *name == text;
                let (governor, _) = GOVERNORS.iter().find(named).ok_or(Errno::Einval)?;
                if policy.governor != *governor {
                    policy.governor = *governor;
                    policy.setspeed_khz = self.jetson.cpu_requested_khz(at);
                }
            }
            _ => return Err(Errno::Einval),
        }
        if policy.min_khz > policy.max_khz {
            return Err(Errno::Einval);
        }
        self.jetson
            .request(|settings| settings.policies[at] = policy);
        Ok(())
    }

    fn apply_gpu(&mut self, file: GpuFile, text: &str) -> Result<(), Errno> {
        let table = &self.jetson.board().gpu_khz;
        let khz = || Ok(rounded(table, unsigned(text)? / 1000));
        let settings = self.jetson.settings();
        let mut gpu = settings.gpu;
        match file {
            GpuFile::Min => gpu.min_khz = khz()?,
            GpuFile::Max => gpu.max_khz = khz()?,
            GpuFile::Governor => gpu.performance = flag(text, GPU_GOVERNORS)?,
            GpuFile::Railgate => gpu.railgate = flag(text, ["0", "1"])?,
            GpuFile::PowerControl => gpu.always_on = flag(text, POWER_CONTROL)?,
            GpuFile::TpcMask => return same_mask(settings.tpc_pg_mask, text),
            GpuFile::FbpMask => return same_mask(settings.fbp_pg_mask, text),
            _ => return Err(Errno::Eacces),
        }
        if gpu.min_khz > gpu.max_khz {
            return Err(Errno::Einval);
        }
        self.jetson.request(|settings| settings.gpu = gpu);
        Ok(())
    }

    fn apply_emc(&mut self, file: EmcFile, text: &str) -> Result<(), Errno> {
        let board = self.jetson.board();
        let settings = self.jetson.settings();
        let mut emc = settings.emc;
        match file {
            EmcFile::Rate => {
                let hz = unsigned(text)?;
                let ceiling = settings.emc_ceiling_khz(board);
                let rates = board.emc_khz.iter().filter(|&&khz| khz <= ceiling);
                let known = rates.copied().find(|&khz| 1000 * u64::from(khz) == hz);
                // What is no rate, or above the ceiling, is dropped without a word (5.3).
                emc.rate_khz = known.or(emc.rate_khz);
            }
            EmcFile::Locked => {
                emc.locked = flag(text, ["0", "1"])?;
                emc.rate_khz = emc.rate_khz.filter(|_| emc.locked);
            }
            EmcFile::Cap => {
                emc.cap_khz = match whole(text)? {
                    -1 | 0 | INT_MAX => None,
                    hz => Some(rounded(&board.emc_khz, hz.max(0) as u64 / 1000)),
                };
            }
        }
        self.jetson.request(|settings| settings.emc = emc);
        Ok(())
    }

    /// The texts that a knob is usually given; none where any number may be.
    fn words(&self, path: &str) -> Vec<String> {
        let board = self.jetson.board();
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let clocks = |table: &[u32], unit: u64| {
            let clock = |&khz: &u32| (unit * u64::from(khz)).to_string();
            table.iter().map(clock).collect()
        };
        match self.layout.files.get(path) {
            Some(File::Policy(_, PolicyFile::Governor)) => owned(&GOVERNORS.map(|(_, name)| name)),
            Some(File::Policy(..)) => clocks(&board.cpu_khz, 1),
            Some(File::Gpu(GpuFile::Min | GpuFile::Max)) => clocks(&board.gpu_khz, 1000),
            Some(File::Gpu(GpuFile::Governor)) => owned(&GPU_GOVERNORS),
            Some(File::Gpu(GpuFile::PowerControl)) => owned(&POWER_CONTROL),
            Some(File::Emc(EmcFile::Rate)) => clocks(&board.emc_khz, 1000),
            Some(File::Emc(EmcFile::Cap)) => {
                let mut words: Vec<String> = clocks(&board.emc_khz, 1000);
                words.extend(["0".to_owned(), "-1".to_owned()]);
                words
            }
            Some(File::Chip(_, ChipFile::Samples)) => SAMPLES.map(|it| it.to_string()).to_vec(),
            Some(File::FanPwm) => (0..=255).map(|pwm| pwm.to_string()).collect(),
            _ => Vec::new(),
        }
    }
}

impl File {
    /// A power sensor changes it from one conversion to the next.
    fn is_measured(&self) -> bool {
        match self {
            Self::Rail(_, RailFile::WarnAlarm | RailFile::CritAlarm) | Self::Sum(..) => true,
            Self::Rail(_, file) => file.registers() > 0,
            _ => false,
        }
    }

    fn is_writable(&self) -> bool {
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
                | Self::Chip(..)
                | Self::FanPwm
        ) || matches!(self, Self::Gpu(file) if !matches!(
            file,
            GpuFile::Requested | GpuFile::True | GpuFile::Load
        ))
    }
}

const GOVERNORS: [(Governor, &str); 3] = [
    (Governor::Schedutil, "schedutil"),
    (Governor::Performance, "performance"),
    (Governor::Userspace, "userspace"),
];

/// Without and with the performance governor.
const GPU_GOVERNORS: [&str; 2] = ["nvhost_podgov", "performance"];

/// Powered with work only, and always.
const POWER_CONTROL: [&str; 2] = ["auto", "on"];

fn governor_name(governor: Governor) -> &'static str {
    let of = |(known, _): &&(Governor, &str)| *known == governor;
    GOVERNORS.iter().find(of).map_or("", |(_, name)| name)
}

fn hertz(khz: u32) -> i64 {
    1000 * i64::from(khz)
}

fn whole(text: &str) -> Result<i64, Errno> {
    text.parse().map_err(|_| Errno::Einval)
}

fn unsigned(text: &str) -> Result<u64, Errno> {
    text.parse().map_err(|_| Errno::Einval)
}

/// Which of two words it is.
fn flag(text: &str, [no, yes]: [&str; 2]) -> Result<bool, Errno> {
    match text {
        _ if text == no => Ok(false),
        _ if text == yes => Ok(true),
        _ => Err(Errno::Einval),
    }
}

fn same_mask(mask: Option<u32>, text: &str) -> Result<(), Errno> {
    match unsigned(text)? == u64::from(mask.unwrap_or(0)) {
        true => Ok(()),
        false => Err(Errno::Enodev),
    }
}
